"""Checks of the contract gate on the lock: is what changed locked, reviewed by whom, and is the lock itself in order?"""

from collections.abc import Callable, Iterable, Iterator

from drillmaster.changes import Diff, Roster
from drillmaster.clock import parse_rfc3339
from drillmaster.gates._contract_evidence import Contract, ContractChange
from drillmaster.rules.contract_lock import Lock, Pending, is_digest
from drillmaster.rules.lanes import person_of_email, person_of_identity
from drillmaster.verdict import Check, Cite, Exact, Status

__all__ = ["LOCK_COMMANDS", "lock_checks", "lock_path_of", "makers_of", "named_person", "outcome", "touches_lock"]

LOCK_COMMANDS = "drillmaster contract pend {path} --reviewer NAME --expires DAY, in a commit of its own"
_NOT_RUN = "the article's lock has no field for it: not looked at"
_DAY_NS = 86_400 * 10**9
_MOST = 6


def outcome(
    check: str,
    title: str,
    bad: Iterable[str],
    *,
    remedy: str,
    cites: Iterable[str] = (),
    why: str = "",
    examined: int | None = None,
    otherwise: Status = "fail",
) -> Check:
    """A judgement: `bad` is all that is wrong, and `why` what is said where nothing is."""
    wrong = [legible(one) for one in dict.fromkeys(bad)]
    told = "; ".join(wrong[:_MOST]) + (f"; and {len(wrong) - _MOST} more" if len(wrong) > _MOST else "")
    return Check(
        id=check,
        role="judgement",
        status=otherwise if wrong else "pass",
        title=title,
        observed=None if examined is None else Exact(examined),
        why=told or why,
        remedy=legible(remedy) if wrong else "",
        cites=tuple(Cite(legible(path), 0) for path in sorted(set(cites))[:20]) if wrong else (),
    )


def legible(text: str) -> str:
    """Write a name that is no UTF-8 with escapes: no form of a verdict could hold it otherwise."""
    return text.encode("utf-8", "backslashreplace").decode()


def lock_path_of(path: str, lock: str) -> bool:
    """Whether a path is the lock, or a signature of it."""
    return path == lock or (path.startswith(f"{lock}.") and path.endswith(".sig"))


def touches_lock(diff: Diff, lock: str) -> bool:
    return any(one.path == lock for one in diff.files)


def makers_of(diff: Diff, paths: set[str], *, roster: Roster | None, now_ns: int) -> set[str]:
    """Identities of those who wrote any of these files in the change, as far as the roster knows them."""
    found = set()
    for commit in diff.commits:
        if not any(one.path in paths for one in commit.files):
            continue
        people = [person_of_email(roster, name, now_ns=now_ns) for name in (commit.author, *commit.co_authors)]
        found |= {one.identity for one in people if one is not None}
        if commit.signer:
            found.add(commit.signer)
    return found


def named_person(name: str, roster: Roster | None, now_ns: int) -> str | None:
    """Give the identity of somebody that a lock names, by identity or by address; None: nobody of the roster, or a bot."""
    who = person_of_identity(roster, name, now_ns=now_ns) or person_of_email(roster, name, now_ns=now_ns)
    return who.identity if who is not None and who.kind == "human" else None


def lock_checks(change: ContractChange, lock_path: str, pending_days: int) -> Iterator[Check]:
    """All checks of the lock, in the order of the article's numbers. The locks are there and readable."""
    base, head = change.base_lock, change.head_lock
    if head is None:
        head = Lock(files={}, pending={})
    locked = base or Lock(files={}, pending={})
    yield _listed(change, locked, head)
    yield _signed_digests(change, locked, head)
    yield _digests(change, head)
    yield _chain(change, head, lock_path)
    yield _final(change, locked, head)
    yield _previous(change, locked, head)
    yield _expiry(change, head, pending_days)
    yield _reviewed(change, locked, head, lock_path)
    yield _apart(change, lock_path)


def _moved(change: ContractChange) -> Callable[[Contract], str]:
    """Say of a file that is gone or new where the same bytes went or came from."""
    came = {file.sha_before: file.path for file in change.diff.files if file.how == "deleted"}
    went = {file.sha_after: file.path for file in change.diff.files if file.how == "added"}
    rule = "a deletion and an addition, each with a review of its own"

    def said(one: Contract) -> str:
        if not one.after and one.file.sha_before in went:
            return f" (moved to {went[one.file.sha_before]}: {rule})"
        if not one.before and one.file.sha_after in came:
            return f" (moved from {came[one.file.sha_after]}: {rule})"
        return ""

    return said


def _listed(change: ContractChange, base: Lock, head: Lock) -> Check:
    """A contract that the lock does not know at all. The digest of an article's stub may be empty: that is none."""
    moved = _moved(change)
    bad = [
        one
        for one in change.contracts
        if not base.files.get(one.path)
        and one.path not in head.pending
        and not (change.base_lock is None and one.path in head.files)
    ]
    return outcome(
        "not-in-lock",
        "every touched contract stands in the lock",
        (f"contract file missing from lock: {one.path}{moved(one)}" for one in bad),
        remedy=LOCK_COMMANDS.format(path=bad[0].path) if bad else "",
        cites=(one.path for one in bad),
        examined=len(change.contracts),
    )


def _signed_digests(change: ContractChange, base: Lock, head: Lock) -> Check:
    bad: list[tuple[Contract, str]] = []
    moved = _moved(change)
    for one in change.contracts:
        known = base.files.get(one.path) or (head.files.get(one.path) if change.base_lock is None else None)
        pending = head.pending.get(one.path)
        if not known and pending is None:
            continue  # told as not in the lock
        wanted = {known} | ({pending.sha256} if pending is not None else set())
        if one.after == "unread":
            bad.append((one, f"{one.path} is too long to be read"))
        elif not one.after:
            if pending is None or pending.sha256 is not None:
                bad.append((one, f"unsigned deletion of {one.path}{moved(one)}"))
        elif one.after not in wanted:
            bad.append((one, f"unsigned digest for {one.path}: got {one.after}{moved(one)}"))
    remedy = ""
    if bad:
        first = bad[0][0]
        remedy = LOCK_COMMANDS.format(path=f"{first.path} --deleted" if not first.after else first.path)
    return outcome(
        "unsigned-digest",
        "every touched contract has the bytes that the lock names, final or pending",
        (said for _, said in bad),
        remedy=remedy,
        cites=(one.path for one, _ in bad),
        examined=len(change.contracts),
    )


def _digests(change: ContractChange, head: Lock) -> Check:
    texts = {
        **head.files,
        **{f"{path} (pending)": one.sha256 for path, one in head.pending.items() if one.sha256 is not None},
    }
    bad = [path for path, digest in texts.items() if not is_digest(digest)]
    return outcome(
        "lock-digests",
        f"every digest of the lock is one: {len(texts)}",
        (f"{path}: {str(texts[path])[:20]!r} is no SHA-256 in 64 lower-case hex digits" for path in bad),
        remedy="replace each by the digest of the file as it is on the default branch: sha256sum FILE",
        why="" if texts else "the lock is empty",
    )


def _chain(change: ContractChange, head: Lock, lock_path: str) -> Check:
    base = change.base_lock
    title = "the lock names the lock that it was written over"
    if base is not None and base.digest == head.digest:
        return outcome("lock-chain", title, (), remedy="", why="the lock is unchanged")
    if head.article and (base is None or base.article):
        return outcome("lock-chain", title, (), remedy="", why=_NOT_RUN)
    bad = []
    wanted = base.digest if base is not None else None
    if head.article:
        bad.append("a lock with a chain was replaced by one without")
    elif head.previous != wanted:
        bad.append(
            f"previous is {(head.previous or 'null')[:12]}, and the lock at the base is {(wanted or 'none')[:12]}"
        )
    return outcome(
        "lock-chain",
        title,
        bad,
        remedy="merge the base into the change, and pend again: drillmaster contract pend FILE",
        cites=(lock_path,),
    )


def _final(change: ContractChange, base: Lock, head: Lock) -> Check:
    """Rules 1 and 2 of the lock: a change adds to `pending`; only what was pending at the base becomes final."""
    title = "nothing becomes final while it is under review"
    bad = []
    if change.base_lock is None:
        wrong = [p for p, digest in head.files.items() if change.at_head.get(p, "") != digest]
        bad += [f"{path} is final in the first lock, and its bytes are others" for path in wrong]
        touched = {one.path for one in change.contracts}
        bad += [f"{path} changed beside the first lock that names it" for path in sorted(touched & head.files.keys())]
        return outcome(
            "lock-final",
            title,
            bad,
            remedy="let the first lock name what the base has, in a change of its own",
            why=f"the first lock: {len(head.files)} files",
        )
    changed = [p for p in base.files.keys() | head.files.keys() if base.files.get(p) != head.files.get(p)]
    for path in sorted(changed):
        was = base.pending.get(path)
        now = head.files.get(path)
        if was is None or was.sha256 != now or path in head.pending:
            bad.append(f"{path} was made final, and was not pending at the base")
        elif change.at_head.get(path, "") != (now or ""):
            bad.append(f"{path} was made final, and its bytes are others")
    return outcome(
        "lock-final",
        title,
        bad,
        remedy="pend it instead: drillmaster contract pend FILE; after the merge: drillmaster contract finalize",
        why=f"{len(changed)} made final, after their merge" if changed else "",
    )


def _previous(change: ContractChange, base: Lock, head: Lock) -> Check:
    """What a revert would go back to: the bytes of the base are those that its lock names."""
    bad = []
    for one in change.contracts:
        known, pending = base.files.get(one.path), base.pending.get(one.path)
        if not one.before or change.base_lock is None:
            continue
        if one.before not in {known, pending.sha256 if pending else None} and known is not None and is_digest(known):
            bad.append(
                f"{one.path}: the base has {one.before[:12]}, its lock {known[:12]}: nothing pins what to go back to"
            )
        review = head.pending.get(one.path)
        if review is not None and not head.article and review.previous not in (one.before, known):
            bad.append(
                f"{one.path}: reviewed over {(review.previous or 'nothing')[:12]}, and the base has {one.before[:12]}"
            )
    for path, review in head.pending.items():
        new = path not in base.pending or base.pending[path] != review
        untouched = all(path != one.path for one in change.contracts)
        if new and not head.article and untouched and review.previous != base.files.get(path):
            bad.append(f"{path}: reviewed over {(review.previous or 'nothing')[:12]}, not over what the lock names")
    return outcome(
        "previous-pinned",
        "the bytes before are pinned: a revert is by digest",
        bad,
        remedy="finalize what was merged first: drillmaster contract finalize, on the default branch; then pend again",
        examined=len(change.contracts),
    )


def _used(change: ContractChange, head: Lock) -> dict[str, Pending]:
    """Reviews that count in this change: of touched contracts, and those that it adds to the lock."""
    touched = {one.path for one in change.contracts}
    before = change.base_lock.pending if change.base_lock is not None else {}
    return {path: one for path, one in head.pending.items() if path in touched or before.get(path) != one}


def _expiry(change: ContractChange, head: Lock, pending_days: int) -> Check:
    title = f"no review is older than it may be: {pending_days} days at most"
    if head.article:
        return outcome("pending-expired", title, (), remedy="", why=_NOT_RUN)
    bad = []
    for path, one in _used(change, head).items():
        end_ns = parse_rfc3339(f"{one.expires}T23:59:59Z")
        if end_ns is None:
            bad.append(f"{path}: expires {one.expires[:20]!r} is no day")
        elif end_ns < change.now_ns:
            bad.append(f"{path}: its review counted until {one.expires}")
        elif end_ns - change.now_ns > (pending_days + 1) * _DAY_NS:
            bad.append(f"{path}: its review would count until {one.expires}, longer than {pending_days} days")
    return outcome(
        "pending-expired",
        title,
        bad,
        remedy="have it reviewed again: drillmaster contract pend FILE --reviewer NAME --expires DAY",
        cites=_used(change, head),
    )


def _reviewed(change: ContractChange, base: Lock, head: Lock, lock_path: str) -> Check:
    """A person answers for each pending digest, who is none of those that wrote the bytes."""
    title = "every pending digest was reviewed by a person who did not write it"
    bad = []
    diff, roster = change.diff, change.diff.roster
    used = _used(change, head)
    written = set(used) | {one.path for one in change.contracts}
    makers = makers_of(diff, written, roster=roster, now_ns=change.now_ns)
    if not head.article:
        for path, one in used.items():
            if not one.reviewer.strip():
                bad.append(f"{path}: nobody is named as its reviewer")
            elif roster is not None:
                who = named_person(one.reviewer, roster, change.now_ns)
                if who is None:
                    bad.append(f"{path}: {one.reviewer[:40]} is no person of the roster")
                elif who in makers:
                    bad.append(f"{path}: {one.reviewer[:40]} wrote these bytes")
    why = ""
    changed = change.base_lock is None or change.base_lock.digest != head.digest
    if change.signed is None:
        why = "no signature is asked for: the base has no .drillmaster/allowed_signers"
    elif changed and change.signed.problem:
        bad.append(f"the lock is not signed: {change.signed.problem}")
    elif changed:
        before = change.base_lock.pending if change.base_lock is not None else {}
        for path, one in used.items():
            who = named_person(one.reviewer, roster, change.now_ns)
            if not head.article and before.get(path) != one and who is not None and who not in change.signed.by:
                bad.append(f"{path}: {one.reviewer[:40]} is named as its reviewer, and did not sign the lock")
        why = f"the lock is signed by {', '.join(change.signed.by)}"
    return outcome(
        "pending-reviewed",
        title,
        bad,
        remedy="have another person of the roster review it, commit the lock and sign it: "
        f"drillmaster policy sign {lock_path} --key KEY",
        cites=used,
        why=why,
    )


def _apart(change: ContractChange, lock_path: str) -> Check:
    """The review is a commit of its own. What a merge brought in from the base is nobody's review."""
    contracts = {one.path for one in change.contracts}
    before = {one.path: one.sha_before for one in change.diff.files}
    bad = []
    for commit in change.diff.commits:
        paths = {one.path: one.sha_after for one in commit.files}
        if lock_path not in paths:
            continue
        mixed = sorted(p for p, sha in paths.items() if p in contracts and sha != before.get(p))
        if mixed:
            bad.append(f"commit {commit.sha[:12]} changes the lock and {', '.join(mixed[:3])}")
    return outcome(
        "pending-apart",
        "the lock is changed in a commit of its own",
        bad,
        remedy="commit the contract first, then the lock alone: git commit -m 'lock: reviewed' -- schema.lock.json",
        cites=(lock_path,),
    )
