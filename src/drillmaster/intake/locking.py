"""The lock of contracts as its owners move it: reviewed, taken back, made final; from what was committed, and nothing else.

1. What is pended is the file as HEAD has it. A file that was changed since is another one, and is committed first.
2. The chain starts from the lock of the branch that the change is for: two reviews beside each other do not both fit.
3. Only the default branch makes anything final: on it, or at a commit that it has.
4. Examples are tried on what is pended and on what becomes final; where one does not come out the digest is not taken.
"""

import hashlib
import shlex
from pathlib import Path

import msgspec

from drillmaster.changes import FOLDER
from drillmaster.clock import parse_rfc3339, rfc3339
from drillmaster.errors import Problem, Refused
from drillmaster.gates._contract_evidence import Trial, class_of
from drillmaster.gates._contract_locked import named_person
from drillmaster.gates.contract import ContractGate
from drillmaster.intake import is_there, read_bytes
from drillmaster.intake.contracts import digests_at, read_fixtures, tried
from drillmaster.intake.git import Repository, ask
from drillmaster.intake.judging import Asked, policy_of
from drillmaster.intake.policies import lists_of
from drillmaster.rules.contract_lock import (
    CAP_BYTES,
    Lock,
    Pending,
    dropped,
    finalized,
    path_fault,
    pended,
    read_lock,
    written,
)
from drillmaster.strict import shown
from drillmaster.timeline.opening import write_whole

__all__ = ["Bench", "Outcome"]


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """What became of the lock: lines for people, and whether an example said no."""

    lines: tuple[str, ...]
    failed: bool = False


class Bench:
    """A repository with its policy of contracts, open for a change of the lock. Raises Problem throughout."""

    def __init__(self, folder: Path, policy: str | None, base: str | None, *, now_ns: int, state: Path) -> None:
        self.repo = Repository.at(folder)
        read, _, _ = policy_of("contract", Asked(now_ns=now_ns, state=state, policy=policy, repo=self.repo.path), None)
        assert isinstance(read.gate, ContractGate)
        self.gate = read.gate
        self.now_ns = now_ns
        self.head = self.repo.commit("HEAD")
        self.default = self._default() if base is None else base
        self.base = self.repo.merge_base(self.default, self.head)
        self.path = self.repo.path / self.gate.lock

    def first(self) -> Outcome:
        """Write the first lock: what HEAD has."""
        if is_there(self.path):
            raise Refused(
                self.gate.lock, found="a lock", wanted="none yet", remedy="drillmaster contract pend FILE adds to it"
            )
        classes = self.gate.globs()
        paths = [one for one in self.repo.tree(self.head) if class_of(one, classes) and one != self.gate.lock]
        files = {path: digest for path, digest in digests_at(self.repo, self.head, paths).items() if digest}
        if not files:
            raise Refused(
                self.gate.lock,
                found="no contract at HEAD in the places that the policy names",
                wanted="at least one",
                remedy="commit a contract, or name its place under classes of the policy",
            )
        self._write(Lock(files=files, pending={}))
        return Outcome(
            lines=(
                f"locked {len(files)} file{'s' if len(files) != 1 else ''} in {self.gate.lock}",
                *self._next("lock: the first one"),
            )
        )

    def pend(
        self, named: str, *, reviewer: str, expires: str, second: str = "", reason: str = "", deleted: bool = False
    ) -> Outcome:
        """Write a review into the lock."""
        path = self._inside(named)
        end_ns = parse_rfc3339(f"{expires}T23:59:59Z")
        if (
            end_ns is None
            or end_ns < self.now_ns
            or end_ns > self.now_ns + (self.gate.pending_days + 1) * 86_400 * 10**9
        ):
            last = rfc3339(self.now_ns + self.gate.pending_days * 86_400 * 10**9)[:10]
            raise Problem(
                "--expires",
                found=repr(expires[:20]),
                wanted=f"a day from now on, {last} at the latest",
                remedy=f"--expires {last}",
            )
        if not reviewer.strip():
            raise Problem("--reviewer", found="nothing", wanted="who read these bytes", remedy="--reviewer NAME")
        self._known("--reviewer", reviewer)
        if second:
            self._known("--second", second)
        now, before = self._digest(path, self.head), self._digest(path, self.base)
        self._committed(path, gone=deleted)
        if deleted and now:
            raise Refused(
                path, found="a file at HEAD", wanted="that it is gone", remedy=f"git rm {shlex.quote(path)}, and commit"
            )
        if not deleted and not now:
            raise Refused(
                path,
                found="no regular file of that name at HEAD",
                wanted="a contract that was committed",
                remedy=f"commit it first; or, where it is to go: drillmaster contract pend {shlex.quote(path)} --deleted",
            )
        if now == before:
            raise Refused(
                path,
                found=f"the bytes that {self.default} has" if now else "no such file, before and now",
                wanted="a change to review",
                remedy="commit the change of the contract first",
            )
        wrong = self._wrong((path,)) if now else []
        if wrong:
            return Outcome(lines=tuple(_said(one) for one in wrong), failed=True)
        review = Pending(
            sha256=now or None,
            previous=before or None,
            expires=expires,
            reviewer=reviewer,
            second=second,
            reason=reason,
        )
        lock = self._lock()
        self._write(pended(lock, path, review, over=self._over(self.base)))
        lost = [one for one in lock.pending if lock.article and one != path]
        what = f"pending {path} {now}" if now else f"pending deletion of {path}"
        told = [f"no longer pending {one}: the article's lock names no reviewer; pend it again" for one in lost]
        return Outcome(lines=(what, *told, *self._next(f"lock: {path} reviewed by {reviewer}", by=reviewer)))

    def drop(self, named: tuple[str, ...], *, failing: bool) -> Outcome:
        """Take reviews back: those named, or those whose examples do not come out."""
        lock = self._lock()
        paths = [self._inside(one) for one in named]
        unknown = [one for one in paths if one not in lock.pending]
        if unknown:
            raise Refused(
                unknown[0],
                found="nothing pending",
                wanted="a path that is: " + (", ".join(sorted(lock.pending)[:5]) or "there is none"),
                remedy=f"look into {self.gate.lock}",
            )
        lines: list[str] = []
        if failing:
            wrong = self._wrong(tuple(lock.pending))
            lines += [_said(one) for one in wrong]
            paths += [one.fixture.contract for one in wrong]
        if not paths:
            return Outcome(lines=("nothing to drop: every example comes out",))
        self._write(dropped(lock, tuple(paths), over=self._over(self.base)))
        lines += [f"dropped {path}" for path in dict.fromkeys(paths)]
        return Outcome(lines=(*lines, *self._next("lock: a review taken back")), failed=failing)

    def finalize(self) -> Outcome:
        """Make final what was merged."""
        self._on_default()
        lock = self._lock()
        if not lock.pending:
            raise Refused(
                self.gate.lock,
                found="nothing pending",
                wanted="a review that was merged",
                remedy="drillmaster contract pend FILE",
            )
        self._committed(self.gate.lock, gone=False)
        wrong = self._wrong(tuple(lock.pending))
        bad = tuple(dict.fromkeys(one.fixture.contract for one in wrong))
        over = self._over(self.head)
        left = dropped(lock, bad, over=over)
        made, moved = finalized(left, digests_at(self.repo, self.head, left.pending), over=over)
        if not moved and not bad:
            raise Refused(
                self.gate.lock,
                found=f"{len(lock.pending)} pending, and none with the bytes of {self.head[:12]}",
                wanted="a review whose bytes were merged",
                remedy="merge the contract first; or take the review back: drillmaster contract drop FILE",
            )
        self._write(made)
        lines = [_said(one) for one in wrong] + [f"dropped {path}: an example does not come out" for path in bad]
        lines += [f"final {path}" for path in moved] + [f"still pending {path}" for path in made.pending]
        return Outcome(lines=(*lines, *self._next("lock: final after the merge")), failed=bool(bad))

    # What is there

    def _lock(self) -> Lock:
        return read_lock(read_bytes(self.path, CAP_BYTES), place=self.gate.lock)

    def _over(self, commit: str) -> str | None:
        data = self.repo.read(commit, self.gate.lock, cap_bytes=CAP_BYTES)
        return None if data is None else hashlib.sha256(data).hexdigest()

    def _digest(self, path: str, commit: str) -> str:
        return digests_at(self.repo, commit, (path,))[path]

    def _committed(self, path: str, *, gone: bool) -> None:
        """Refuse where the working tree has something else than HEAD."""
        place = self.repo.path / path
        if gone and not is_there(place):
            return
        if is_there(place) and not place.is_symlink():
            data = self.repo.read(self.head, path)
            if data is not None and data == read_bytes(place, 16 << 20):
                return
        raise Refused(
            path,
            found="another file than HEAD has",
            wanted="what was committed: a review is of that",
            remedy=f"git commit -- {shlex.quote(path)}",
        )

    def _inside(self, named: str) -> str:
        """Give a path from the root of the repository. Raises Refused for one that is no contract."""
        path = named
        if Path(named).is_absolute() or path_fault(named):
            top = self.repo.path.resolve()
            whole = Path(named).absolute()
            folder = whole.parent.resolve()
            path = (folder / whole.name).relative_to(top).as_posix() if folder.is_relative_to(top) else ""
        if not path or path_fault(path):
            raise Refused(
                named,
                found="no path within the repository",
                wanted="a contract's path",
                remedy="git ls-files lists them",
            )
        if path == self.gate.lock or class_of(path, self.gate.globs()) is None:
            raise Refused(
                path,
                found="no contract: no class of the policy names its place",
                wanted="one of " + ", ".join(one for group in self.gate.classes.values() for one in group)[:200],
                remedy="add its place to the policy's classes, or leave it out of the lock",
            )
        return path

    def _wrong(self, paths: tuple[str, ...]) -> list[Trial]:
        """Try the examples of these contracts; those that come out otherwise. Raises Refused where they cannot be tried."""
        trials, untried = self._tried(paths)
        if untried:
            found, _, remedy = untried.rpartition(": ")
            raise Refused(self.gate.fixtures, found=found, wanted="examples that were tried", remedy=remedy)
        return [one for one in trials if one.outcome != one.fixture.expect]

    def _tried(self, paths: tuple[str, ...]) -> tuple[tuple[Trial, ...], str]:
        book, fault = read_fixtures(self.repo, self.base, self.gate.fixtures)
        if book is None and not fault:
            book, fault = read_fixtures(self.repo, self.head, self.gate.fixtures)
        if fault:
            raise Refused(self.gate.fixtures, found=fault, wanted="a manifest", remedy="mend it")
        if book is None:
            return (), ""
        documents = {}
        for path in paths:
            data = self.repo.read(self.head, path) if self._digest(path, self.head) else None
            if data is not None:
                documents[path] = data
        rows = [one for one in book.fixtures if one.contract in documents]
        examples: dict[str, bytes | str] = {}
        for one in rows:
            data = self.repo.read(self.base, one.file) or self.repo.read(self.head, one.file)
            examples[one.file] = "no such file" if data is None else data
        return tried(rows, documents, examples)

    # Branches

    def _default(self) -> str:
        named = self._said("symbolic-ref", "--quiet", "--short", "refs/remotes/origin/HEAD")
        for ref in (named, "origin/main", "origin/master", "main", "master"):
            if ref and self._said("rev-parse", "--verify", "--quiet", "--end-of-options", f"{ref}^{{commit}}"):
                return ref
        raise Problem(
            str(self.repo.path),
            found="no default branch: neither origin's HEAD nor main nor master",
            wanted="the branch that changes are for",
            remedy="add --base BRANCH",
        )

    def _on_default(self) -> None:
        here = self._said("symbolic-ref", "--quiet", "--short", "HEAD")
        name = self.default.removeprefix("origin/")
        if here == name or (not here and self.base == self.head):
            return
        raise Refused(
            here or self.head[:12],
            found=f"the branch {here}" if here else f"a commit that {self.default} does not have",
            wanted=f"the default branch, {name}: final is what was merged",
            remedy=f"git switch {shlex.quote(name)}, once the change is merged",
        )

    def _said(self, *args: str) -> str:
        return (ask(self.repo.path, args, timeout_s=20.0) or b"").decode("utf-8", "replace").strip()

    def _write(self, lock: Lock) -> None:
        write_whole(self.path, written(lock))

    def _known(self, option: str, name: str) -> None:
        """Refuse a reviewer whom the base's roster does not have: the gate would."""
        roster = lists_of(self.repo.path, self.base).roster
        if roster is None or named_person(name, roster, self.now_ns) is not None:
            return
        people = [
            one.identity for one in roster.people if named_person(one.identity, roster, self.now_ns) == one.identity
        ]
        raise Refused(
            option,
            found=f"{shown(name)}, no person of {FOLDER}/roster.yaml at {self.default}",
            wanted="an identity or an address of the roster",
            remedy=f"{option} {', or '.join(map(shlex.quote, people[:5])) or 'NAME, once the roster has somebody'}",
        )

    def _next(self, subject: str, *, by: str = "") -> tuple[str, ...]:
        lock = shlex.quote(self.gate.lock)
        if self.repo.read(self.base, f"{FOLDER}/allowed_signers") is not None:
            who = f"{by} signs it" if by else "somebody who did not write it signs it"
            sig = shlex.quote(f"{self.gate.lock}.sig")
            return (
                f"next: {who}: drillmaster policy sign {lock} --key KEY",
                f"then: git add {lock} {sig} && git commit -S -m {shlex.quote(subject)} -- {lock} {sig}, a commit of its own",
            )
        if self._over(self.base) is None:
            return (f"next: git add {lock} && git commit -S -m {shlex.quote(subject)} -- {lock}",)
        return (f"next: git commit -S -m {shlex.quote(subject)} -- {lock}, a commit of its own",)


def _said(one: Trial) -> str:
    must = "must fit" if one.fixture.expect == "valid" else "must not fit"
    return f"{one.fixture.contract}: {one.fixture.file} {must}, and was {one.outcome}{': ' if one.why else ''}{one.why}"
