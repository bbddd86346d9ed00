"""Who may say so: the base ref's own lists, and what a change does to the files that judge it.

1. Policy, roster, allowed signers and withdrawn keys are read from the base, never from the change: `.drillmaster/` there.
2. Signatures are demanded exactly when the base holds `.drillmaster/allowed_signers`. Then each signer is a person on the
   roster, who has not left, and is not one who made the change.
3. A change to a file that judges it (a policy, a list, a lock, a workflow or hook that calls a gate) passes where that
   file's new bytes are signed as rule 2 asks, and fails else. What was deleted, or turned into a link, nobody can sign.
   A signature holds for ever and for every repository, so in a change that is no person's it counts only where one who
   signed also signed the commit that brings it: an agent may not go back to a policy of last year.
4. Where the base knows no signers, files may be added that the base has none of: that change is the bootstrap, and the
   verdict says so. Where the base has a roster, a person of it makes that change. Once they are there, rule 3 holds.
"""

import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import msgspec

from drillmaster import strict
from drillmaster.changes import FOLDER, Commit, Diff, FileChange, Lane, Roster
from drillmaster.errors import Problem, Refused
from drillmaster.intake import read_bytes
from drillmaster.intake.git import Repository
from drillmaster.rules.lanes import (
    Actor,
    lane_of,
    person_of_email,
    person_of_identity,
    person_of_login,
    roster_fault,
    told_bot,
)
from drillmaster.signing import GIT, POLICY, Signer, signs, verify_bytes
from drillmaster.verdict import Check, Cite

__all__ = ["Authority", "actor_of"]

_LIST_CAP_BYTES = 1 << 20
_FILE_CAP_BYTES = 4 << 20
_EVENT_CAP_BYTES = 16 << 20
_CALLERS = (
    ".github/", ".gitlab-ci", ".gitlab/", ".circleci/", ".buildkite/", ".woodpecker", ".ci/", ".tekton/", ".forgejo/",
    ".gitea/", ".githooks/", ".husky/", "jenkinsfile", "azure-pipelines", "bitbucket-pipelines", ".travis.yml", ".drone.yml",
    ".cirrus.yml", "appveyor.yml", ".pre-commit-config.yaml", ".pre-commit-hooks.yaml", "lefthook.yml",
)  # fmt: skip  # words
_SCRIPTS = frozenset(
    {"makefile", "gnumakefile", "justfile", "taskfile.yml", "tox.ini", "noxfile.py", "package.json", "pyproject.toml"}
)
_OWNERS = ("CODEOWNERS", ".github/CODEOWNERS", "docs/CODEOWNERS", ".gitlab/CODEOWNERS")
_MOST_SIGNATURES = 4


def actor_of(path: Path, *, head: str) -> Actor:
    """Read who opened a change, or which bot pushed to it, from the event file of the code host.

    Raises Problem where it is another change's. Whether somebody pushed before stands in the events before.
    """
    place = str(path)
    event = strict.load(read_bytes(path, _EVENT_CAP_BYTES), place=place, fmt="json", cap_bytes=_EVENT_CAP_BYTES)
    pull = event.get("pull_request") if isinstance(event, dict) else None
    user = pull.get("user") if isinstance(pull, dict) else None
    login = user.get("login") if isinstance(user, dict) else None
    if not isinstance(pull, dict) or not isinstance(user, dict) or not isinstance(login, str) or not login:
        raise Problem(
            place,
            found="an event without /pull_request/user/login",
            wanted="the event of a pull request",
            remedy="run the gate on pull_request_target, with --event $GITHUB_EVENT_PATH",
        )
    of = pull.get("head")
    sha = of.get("sha") if isinstance(of, dict) else None
    if sha != head:
        raise Refused(
            f"{place}: /pull_request/head/sha",
            found=strict.shown(sha),
            wanted=f"the commit that is judged, {head[:12]}",
            remedy="give the event and the head of one and the same change",
        )
    pusher = event.get("sender") if event.get("action") == "synchronize" else None
    if isinstance(pusher, dict):
        named = pusher.get("login")
        bot = isinstance(named, str) and (told_bot(named) or pusher.get("type") not in ("User", None))
        if isinstance(named, str) and bot and named.casefold() != login.casefold():
            return Actor(named, True)  # a person's change that a bot has pushed to is not that person's any more
    kind = user.get("type")
    return Actor(login, kind != "User" if isinstance(kind, str) else None)


class Authority:
    """The base's lists, for one change or for none (`head` None)."""

    def __init__(self, repo: Repository, base: str, head: str | None, *, now_ns: int, event: Path | None) -> None:
        self.repo = repo
        self.now_ns = now_ns
        self.base = repo.commit(base)
        self.head = repo.commit(head) if head is not None else None
        self.fork = repo.merge_base(self.base, self.head) if self.head is not None else None
        if self.head is not None and self.fork is not None:
            repo.foresee(self.fork, self.head)
        self.allowed = repo.read(self.base, f"{FOLDER}/allowed_signers", cap_bytes=_LIST_CAP_BYTES)
        self.revoked = repo.read(self.base, f"{FOLDER}/revoked_keys", cap_bytes=_LIST_CAP_BYTES)
        self.roster = self._roster()
        self.actor = actor_of(event, head=self.head) if event is not None and self.head is not None else None
        self._diff: Diff | None = None

    def diff(
        self,
        wanted: Callable[[str], bool] = lambda path: False,
        *,
        progress: Callable[[int], None] | None = None,
    ) -> Diff:
        """Tell the change, with the content of the files that are `wanted`. Raises Problem without a head."""
        told = self._told()
        shas = {sha for one in told.files if wanted(one.path) for sha in (one.sha_before, one.sha_after) if sha}
        blobs = self.repo.blobs(shas, progress=progress) if shas else {}
        files = tuple(
            msgspec.structs.replace(one, before=blobs.get(one.sha_before), after=blobs.get(one.sha_after))
            if wanted(one.path)
            else one
            for one in told.files
        )
        return msgspec.structs.replace(told, files=files)

    def policy_check(self, place: str, data: bytes, signatures: tuple[bytes, ...]) -> Check | None:
        """Say whether a policy of the base is signed as rule 2 asks; None where the base knows no signers."""
        if self.allowed is None:
            return None
        try:
            signers = self.people_who_signed(place, data, signatures)
        except Problem as problem:
            return Check(
                id="policy-signed",
                role="admission",
                status="refused",
                title="the policy is signed by somebody of the roster",
                why=f"found {problem.found}, wanted {problem.wanted}",
                remedy=problem.remedy,
            )
        return Check(
            id="policy-signed",
            role="admission",
            status="pass",
            title=f"the policy is signed by {', '.join(one.identity for one in signers)}",
        )

    def people_who_signed(
        self, place: str, data: bytes, signatures: tuple[bytes, ...], *, but_not: Iterable[str] = ()
    ) -> tuple[Signer, ...]:
        """Give those whose signature of `data` counts: on the roster, a person, not gone, and none of `but_not`.

        Raises Refused where nobody is left, or one signature is nobody's; Problem where it cannot be told.
        """
        found = verify_bytes(
            data,
            signatures,
            self.allowed or b"",
            self.revoked,
            namespace=POLICY,
            at_ns=self.now_ns,
            place=place,
        )
        # By the name that the roster has: two names of one person are one.
        signers = tuple({one.identity: one for one in map(self._by_roster, found)}.values())
        shut_out = set(but_not)
        for signer in signers:
            person = person_of_identity(self.roster, signer.identity, now_ns=self.now_ns)
            if person is None or person.kind != "human":
                raise Refused(
                    f"{place}.sig",
                    found=f"the signature of {signer.identity}, {'a bot' if person else 'who is not on the roster'}",
                    wanted="one of a person of .drillmaster/roster.yaml at the base",
                    remedy=f"have such a person sign it: drillmaster policy sign {place} --key KEY",
                )
        left = tuple(one for one in signers if one.identity not in shut_out)
        if not left:
            raise Refused(
                f"{place}.sig",
                found=f"the signature of {', '.join(one.identity for one in signers)}, who made the change",
                wanted="one of somebody else",
                remedy=f"have another person of the roster sign it: drillmaster policy sign {place} --key KEY",
            )
        return left

    def signatures(self, commit: str, path: str) -> tuple[bytes, ...]:
        """Read the signatures that lie beside a file in a commit: FILE.sig, FILE.second.sig and so on."""
        folder = os.path.dirname(path)  # noqa: PTH120  # a path of git's, which is no path of this system
        names = sorted(
            name
            for name, entry in self.repo.tree(commit, *([folder] if folder else [])).items()
            if signs(path, name) and entry.mode in ("100644", "100755")
        )
        found = (self.repo.read(commit, name, cap_bytes=1 << 16) for name in names[:_MOST_SIGNATURES])
        return tuple(one for one in found if one is not None)

    def with_signer(self, commit: Commit) -> Commit:
        """Give a commit with the identity whose signature of it holds now; None there where nobody's does."""
        if self.allowed is None:
            return commit
        payload, signature = _parts(self.repo.raw_commit(commit.sha))
        if signature is None:
            return commit
        try:
            signers = verify_bytes(
                payload, (signature,), self.allowed, self.revoked, namespace=GIT, at_ns=self.now_ns, place=commit.sha
            )
        except Refused:
            return commit  # unsigned as far as anybody here can tell
        return msgspec.structs.replace(commit, signer=self._by_roster(signers[0]).identity)

    def _by_roster(self, signer: Signer) -> Signer:
        """Call a signer as the roster does, where allowed_signers has several names for the key; whoever has left is known too."""
        known = [name for name in signer.names if person_of_identity(self.roster, name, now_ns=0) is not None]
        if len(known) > 1:
            # One key of two people is nobody's: a name that no roster has.
            return msgspec.structs.replace(signer, identity=" or ".join(known))
        return msgspec.structs.replace(signer, identity=known[0]) if known else signer

    def self_check(self, own: Iterable[str]) -> tuple[Check, tuple[str, ...]]:
        """Judge what the change does to the files that judge it (rules 3 and 4), with stamps; `own` are the gate's."""
        diff = self._told()
        named = set(own)
        touched = [path for path in diff.paths() if path in named or self._judges(path, diff)]
        by_path = {one.path: one for one in diff.files}
        bad: list[str] = []
        signed: list[str] = []
        added: list[str] = []
        for path in touched:
            if path.endswith(".sig"):
                continue  # a signature holds or not; it decides nothing by itself
            one = by_path.get(path)
            if self.allowed is None and one is not None and one.how == "added" and one.mode_after[:3] == "100":
                if self.roster is None or diff.lane.name == "human":
                    added.append(path)
                else:
                    bad.append(f"{path}: added in a change of lane {diff.lane.name} ({diff.lane.by})")
                continue
            try:
                signed += [f"{path} by {who}" for who in self._signed(path, one, diff)]
            except Problem as problem:
                bad.append(f"{path}: {problem.found}")
        stamps = ("BOOTSTRAP",) if added else ()
        title = "the change leaves alone what judges it"
        if signed or added:
            title = "what judges the change was changed by those who may"
        check = Check(
            id="gate-files",
            role="judgement",
            status="fail" if bad else "pass",
            title=title,
            why="; ".join(bad)
            if bad
            else "; ".join([*signed, *(f"{path}: added, as the first one" for path in added)]),
            cites=tuple(Cite(path, 0) for path in touched),
            remedy="take these files out of the change, or have a person of the roster who did not write them sign them "
            "(drillmaster policy sign FILE --key KEY), who commits FILE.sig: git commit -S"
            if bad
            else "",
        )
        return check, stamps

    def _signed(self, path: str, one: FileChange | None, diff: Diff) -> list[str]:
        if self.allowed is None or self.head is None:
            raise Refused(path, found="changed, and the base has no allowed_signers", wanted="", remedy="")
        if one is None:
            raise Refused(path, found="changed and changed back within the change", wanted="", remedy="")
        if one.how == "deleted":
            raise Refused(path, found="deleted, or moved away", wanted="", remedy="")
        data = self.repo.read(self.head, path, cap_bytes=_FILE_CAP_BYTES)
        signatures = self.signatures(self.head, path)
        authors = [
            who.identity
            for commit in diff.commits
            if path in {file.path for file in commit.files}
            for name in (commit.author, *commit.co_authors)
            if (who := person_of_email(self.roster, name, now_ns=self.now_ns)) is not None
        ]
        makers = {
            *authors,
            *(c.signer for c in diff.commits if c.signer and path in {file.path for file in c.files}),
        }
        opened_by = person_of_login(self.roster, self.actor.login, now_ns=self.now_ns) if self.actor else None
        if opened_by is not None:
            makers.add(opened_by.identity)
        signers = self.people_who_signed(path, data or b"", signatures, but_not=makers)
        brought = {
            commit.signer
            for commit in diff.commits
            if any(file.path.startswith(f"{path}.") and file.path.endswith(".sig") for file in commit.files)
        }
        if diff.lane.name != "human" and not brought & {one.identity for one in signers}:
            names = ", ".join(one.identity for one in signers)
            raise Refused(
                path,
                found=f"the signature of {names}, brought by others, in a change of lane {diff.lane.name} ({diff.lane.by})",
                wanted="",
                remedy="",
            )
        return [one.identity for one in signers]

    def _judges(self, path: str, diff: Diff) -> bool:
        folded = path.casefold()
        if folded == FOLDER or folded.startswith(f"{FOLDER}/") or path in _OWNERS:
            return True
        name = folded.rpartition("/")[2]
        if folded.startswith(_CALLERS) and not name.endswith((".md", ".txt", ".rst")):
            return any(self._calls(commit, path) for commit in (self.base, diff.head))
        if name in _SCRIPTS or name.endswith((".sh", ".mk")):
            # People change these every day: what calls a gate in them is not for everybody to change.
            before = self._calls(self.base, path)
            return bool(before) and before != self._calls(diff.head, path)
        return False

    def _calls(self, commit: str, path: str) -> list[bytes]:
        """Give the lines of a file that name this program."""
        content = self._content(commit, path) or b""
        return [line.strip() for line in content.splitlines() if b"drillmaster" in line]

    def _content(self, commit: str, path: str) -> bytes | None:
        try:
            return self.repo.read(commit, path, cap_bytes=_FILE_CAP_BYTES)
        except Problem:
            return b"drillmaster"  # a link, or too long: as if it called a gate

    def _told(self) -> Diff:
        if self._diff is None:
            if self.head is None or self.fork is None:
                raise Problem("--head", found="nothing", wanted="the commit that is judged", remedy="add --head HEAD")
            commits = tuple(self.with_signer(one) for one in self.repo.commits(self.fork, self.head))
            lane: Lane = lane_of(
                commits,
                self.roster,
                actor=self.actor,
                lowered=_lowered(),
                now_ns=self.now_ns,
            )
            self._diff = Diff(
                base=self.fork,
                head=self.head,
                files=self.repo.changed(self.fork, self.head),
                commits=commits,
                lane=lane,
                roster=self.roster,
            )
        return self._diff

    def _roster(self) -> Roster | None:
        place = f"{FOLDER}/roster.yaml"
        data = self.repo.read(self.base, place, cap_bytes=_LIST_CAP_BYTES)
        if data is None:
            return None
        where = f"{place} at {self.base[:12]}"
        roster: Any = strict.load_as(data, Roster, place=where, fmt="yaml")
        assert isinstance(roster, Roster)
        fault = roster_fault(roster)
        if fault:
            raise Problem(
                where, found=fault, wanted="one entry for each person and bot", remedy=f"edit {place}, and merge it"
            )
        return roster


def _lowered() -> str | None:
    """What the environment says of the lane, by the articles' names; it is never believed when it says `human`."""
    said = [os.environ[name] for name in ("AGENT_LANE", "PATCH_ORIGIN") if os.environ.get(name)]
    return next((one for one in said if one.strip().lower() != "human"), None)


def _parts(raw: bytes) -> tuple[bytes, bytes | None]:
    """Split a commit into what was signed and its SSH signature; None where it has none, or one of another kind."""
    head, blank, message = raw.partition(b"\n\n")
    kept: list[bytes] = []
    signature: list[bytes] = []
    inside = False
    for line in head.split(b"\n"):
        if line.startswith((b"gpgsig ", b"gpgsig-sha256 ")):
            inside = True
            signature.append(line.partition(b" ")[2])
        elif inside and line.startswith(b" "):
            signature.append(line[1:])
        else:
            inside = False
            kept.append(line)
    text = b"\n".join(signature)
    ssh = text.startswith(b"-----BEGIN SSH SIGNATURE-----")
    return b"\n".join(kept) + blank + message, text + b"\n" if ssh else None
