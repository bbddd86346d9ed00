"""A verdict on a run, held against what a repository says: whose policy it is, what the change did to it, how often it was asked.

1. A run folder keeps the verdict that its evidence and its policy give, which anybody can give again. What the base ref and the
   ledger of attempts say belongs to the place where it was asked, and is added to the verdict that is told there.
2. With a base the policy is taken from it, with its pin and its signatures, into a folder of its own for as long as it judges.
3. Rehearsals, demos and bare files are no attempts.
"""

import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from drillmaster import strict
from drillmaster.changes import FOLDER
from drillmaster.clock import rfc3339
from drillmaster.errors import Problem
from drillmaster.intake import format_of, read_bytes
from drillmaster.intake.attempts import Ledger
from drillmaster.intake.authority import Authority
from drillmaster.intake.judging import Asked, attempt_check, authority_of, inside, no_policy, signatures_beside
from drillmaster.intake.selftests import must_go_red
from drillmaster.verdict import Check, Verdict, conclude

__all__ = ["Upheld", "upheld"]

_CAP_BYTES = 16 << 20
_NO_ATTEMPT = frozenset({"REHEARSAL", "DEMO", "UNSEALED"})


class Upheld(msgspec.Struct, frozen=True):
    """`kept` is what evidence and policy give, for the run's folder; `told` is what counts here."""

    kept: Verdict
    told: Verdict


def upheld(name: str, asked: Asked, default: Path | None, judge: Callable[[Path, Path], Verdict]) -> Upheld:
    """Judge by one gate over a run, and hold the verdict against base and ledger. Raises Problem.

    `default` is the policy where none is named and there is no base; `judge` takes the path of one, and of where it lies
    in a repository, which is another one where it was taken from the base.
    """
    must_go_red(name, asked.state)
    authority = authority_of(name, asked)
    if authority is None:
        policy = Path(asked.policy) if asked.policy else default
        if policy is None:
            raise no_policy(name, "--policy")
        return _attempted(name, asked, judge(policy, policy), read_bytes(policy, _CAP_BYTES), policy.name, ())
    named = asked.policy or f"{FOLDER}/{name}-policy.yaml"
    path = inside(authority, named)
    if path is None:  # outside the repository: nothing in the change can touch it
        data = read_bytes(Path(named), _CAP_BYTES)
        signed = authority.policy_check(named, data, signatures_beside(Path(named)))
        verdict = judge(Path(named), Path(named))
    else:
        found = authority.repo.read(authority.base, path, cap_bytes=_CAP_BYTES)
        if found is None:
            raise no_policy(name, f"{path} at {authority.base[:12]}", uncommitted=authority.repo.path / path)
        data = found
        signed = authority.policy_check(path, data, authority.signatures(authority.base, path))
        with _laid_out(authority, path, data) as copy:
            verdict = _as_named(
                lambda: judge(copy, authority.repo.path / path), copy, f"{path} at {authority.base[:12]}"
            )
    checks: tuple[Check, ...] = (signed,) if signed else ()
    if authority.head is not None:
        own, stamps = authority.self_check([path] if path else [])
        checks += (own,)
        verdict = msgspec.structs.replace(verdict, stamps=(*verdict.stamps, *stamps))
    return _attempted(name, asked, verdict, data, named, checks)


def _attempted(
    name: str, asked: Asked, verdict: Verdict, policy: bytes, place: str, checks: tuple[Check, ...]
) -> Upheld:
    if _NO_ATTEMPT & set(verdict.stamps):
        return Upheld(verdict, _with(verdict, checks))
    ledger = Ledger(asked.attempts or asked.state / "attempts.jsonl")
    # A run has a name of its own; what was tried again is what it is a run of.
    subject = verdict.subject.partition(", run ")[0]
    about = {
        "gate": name,
        "subject": subject,
        "evidence": verdict.evidence_digest,
        "policy": verdict.policy_digest,
    }
    most = _most(policy, place)
    with ledger.turn(**about) as turn:
        told = _with(verdict, (*checks, *attempt_check(turn.n, turn.before, most)))
        if turn.n > 1:
            told = msgspec.structs.replace(told, counts={**told.counts, "attempt": turn.n})
        turn.end(at=rfc3339(asked.now_ns, digits=0), status=told.status)
    return Upheld(verdict, told)


def _with(verdict: Verdict, checks: tuple[Check, ...]) -> Verdict:
    whole = (*verdict.checks, *checks)
    return msgspec.structs.replace(verdict, checks=whole, status=conclude(whole)) if checks else verdict


def _most(data: bytes, place: str) -> int | None:
    """How many attempts a policy allows; an article's format has no field for that."""
    said = strict.load(data, place=place, fmt=format_of(place))
    most = said.get("max_attempts") if isinstance(said, dict) and said.get("kind") == "policy" else None
    return most if isinstance(most, int) else None


@contextmanager
def _laid_out(authority: Authority, path: str, data: bytes) -> Iterator[Path]:
    """Lay a policy of the base, with what stands beside it, into a folder that is gone afterwards."""
    name = path.rpartition("/")[2]
    with tempfile.TemporaryDirectory(prefix="drillmaster-base-") as folder:
        (Path(folder) / name).write_bytes(data)
        for suffix in (".pin.yaml", ".sig"):
            beside = authority.repo.read(authority.base, f"{path}{suffix}", cap_bytes=1 << 20)
            if beside is not None:
                (Path(folder) / f"{name}{suffix}").write_bytes(beside)
        yield Path(folder) / name


def _as_named(judge: Callable[[], Verdict], copy: Path, name: str) -> Verdict:
    """Judge by a copy, and speak of the file by its own name."""
    try:
        verdict = judge()
    except Problem as problem:
        said = [text.replace(str(copy), name) for text in problem.args]
        raise type(problem)(said[0], found=said[1], wanted=said[2], remedy=said[3]) from None
    checks = tuple(
        msgspec.structs.replace(
            check,
            title=check.title.replace(str(copy), name),
            why=check.why.replace(str(copy), name),
            remedy=check.remedy.replace(str(copy), name),
        )
        for check in verdict.checks
    )
    return msgspec.structs.replace(verdict, checks=checks)
