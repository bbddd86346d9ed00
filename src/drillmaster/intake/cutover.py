"""A cutover plan, what lies beside it, and who stands behind it: from files and from git to the gate's evidence.

1. `plan.json` is the article's. Of a change that is not the one checked out (a base that judges a pull request) the plan is
   read as it was committed there; else from the folder, and the gate says where that is not what was committed.
2. Beside it, or where the command line says, lie `error-budget.json`, `halt-drill.json` and `freeze-proof.json`. They are
   looked for only where a policy judges. One that is not there is refused by the gate, one that cannot be read is a
   Problem, and so is one whose own digest is not its content's, or whose signature is nobody's.
3. Who set each timed field is asked of the history: the newest commit, up to the head, that gave it the value it has, and
   that none of its parents had.
4. Reviewers are those whose signatures of the plan's very bytes (`plan.json.sig`, `plan.json.second.sig`) hold by the base's
   lists.
"""

import glob
import re
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from drillmaster import strict
from drillmaster.errors import Problem, one_line
from drillmaster.gates import Gate
from drillmaster.gates._cutover_plan import ARTICLE
from drillmaster.gates.cutover import (
    Cutover,
    CutoverArticle,
    ErrorBudget,
    Evidence,
    FreezeProof,
    HaltDrill,
    Set,
    Tied,
    phase,
)
from drillmaster.intake import is_there, read_bytes
from drillmaster.intake.judging import Asked, Gathered, PolicyRead
from drillmaster.rules.cutover_plan import TIMED, read_plan, timed_values

if TYPE_CHECKING:
    from drillmaster.intake.authority import Authority

__all__ = ["ALONE", "CutoverIntake", "digest_of", "record_digest"]

_CAP_BYTES = 1 << 20
_SIGNATURE_CAP_BYTES = 1 << 16
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")

F = TypeVar("F", HaltDrill, ErrorBudget, FreezeProof)

ALONE = PolicyRead(
    gate=CutoverArticle(),
    pin=None,
    digest=strict.digest(msgspec.to_builtins(ARTICLE)),
    place="",
    limits_from="the article's own script",
)
"""What judges a plan where there is no policy."""


def digest_of(text: str) -> str:
    """Read a plan's digest from a command line. Raises Problem."""
    if _DIGEST.fullmatch(text) is None:
        raise Problem(
            "--digest",
            found=strict.shown(text),
            wanted="sha256: and 64 hex digits in lower case, as it was printed when the plan was accepted",
            remedy="sha256sum plan.json prints it of the plan that was accepted",
        )
    return text


def record_digest(drill: HaltDrill) -> str:
    """Digest a record of a drill, all but the field that holds the digest."""
    fields = msgspec.to_builtins(drill)
    return strict.digest({name: value for name, value in fields.items() if name != "digest"})


class CutoverIntake:
    """One plan, and the files that the command line named besides. `gather` is what `judging.judged` wants."""

    def __init__(
        self,
        path: Path,
        *,
        accepted: str | None = None,
        drill: Path | None = None,
        budget: Path | None = None,
        freeze: Path | None = None,
    ) -> None:
        self._path = path
        self._accepted = accepted
        self._named = {"halt-drill.json": drill, "error-budget.json": budget, "freeze-proof.json": freeze}
        self._unsigned: list[str] = []
        self._digests: dict[str, str] = {}

    def gather(self, gate: Gate[Any], asked: Asked, authority: "Authority | None") -> Gathered:
        """Read plan, files and history. Raises Problem."""
        source = _Source(self._path, authority)
        plan_bytes = source.plan
        loaded = strict.load(plan_bytes, place=source.place, fmt="json", cap_bytes=_CAP_BYTES)
        plan = read_plan(loaded)
        digest = strict.digest_bytes(plan_bytes)
        ours = isinstance(gate, Cutover)
        tied = None
        if authority is not None and (ours or authority.roster is not None):
            tied = _tied(source, authority, loaded, plan_bytes)
        evidence = Evidence(
            plan=plan,
            digest=digest,
            accepted=self._accepted,
            tied=tied,
            drill=self._drill(source, authority) if ours else None,
            budget=self._file(source, "error-budget.json", ErrorBudget, authority) if ours else None,
            freeze=self._file(source, "freeze-proof.json", FreezeProof, authority) if ours else None,
            now_ns=asked.now_ns,
            place=shlex.quote(one_line(str(self._path))),
        )
        return Gathered(
            evidence=evidence,
            subject=f"{plan.service} {plan.plan_id}" if plan.service and plan.plan_id else self._path.name,
            # The plan's own where there is nothing beside it, so that `sha256sum` prints the same.
            digest=strict.digest({"plan": digest, **self._digests}) if self._digests else digest,
            counts={
                "fields": 20 - len(plan.faults) if len(plan.faults) < 20 else 0,
                "files": 1 + len(self._digests),
                "signatures": len(tied.reviewers) if tied else 0,
            },
            stamps=self._stamps(evidence, asked, ours=ours),
        )

    def _stamps(self, evidence: Evidence, asked: Asked, *, ours: bool) -> tuple[str, ...]:
        stamps = [f"UNSIGNED {name}" for name in self._unsigned]
        where = phase(evidence.plan, asked.now_ns)
        if not ours:
            stamps.insert(0, "PLAN ALONE" if evidence.tied is None else "NOTHING MEASURED")
            stamps += ["WINDOW OVER"] if where == "over" else []
            stamps += ["DIGEST NOT NAMED"] if where == "inside" and evidence.accepted is None else []
        if evidence.tied is not None and not evidence.tied.signed:
            stamps += ["AUTHOR LINES", "REVIEWS NOT CHECKED"]
        return tuple(stamps)

    def _drill(self, source: "_Source", authority: "Authority | None") -> HaltDrill | None:
        drill = self._file(source, "halt-drill.json", HaltDrill, authority)
        if drill is not None and drill.digest != record_digest(drill):
            raise Problem(
                "halt-drill.json: /digest",
                found=strict.shown(drill.digest),
                wanted=f"{record_digest(drill)}, that of its content",
                remedy=f"rehearse again: drillmaster cutover rehearse --service {drill.service} --halted-by NAME",
            )
        return drill

    def _file(self, source: "_Source", name: str, type_: type[F], authority: "Authority | None") -> F | None:
        named = self._named[name]
        if named is not None:
            data: bytes | None = read_bytes(named, _CAP_BYTES)
            place, signatures = str(named), tuple(read_bytes(one, _SIGNATURE_CAP_BYTES) for one in _beside(named))
        else:
            data, signatures = source.beside(name)
            place = source.named(name)
        if data is None:
            return None
        self._digests[name] = strict.digest_bytes(data)
        decoded = strict.load_as(data, type_, place=place, fmt="json", cap_bytes=_CAP_BYTES)
        if not signatures:
            self._unsigned.append(name)
        elif authority is not None and authority.allowed is not None:
            from drillmaster.signing import EVIDENCE, verify_bytes

            verify_bytes(
                data,
                signatures,
                authority.allowed,
                authority.revoked,
                namespace=EVIDENCE,
                at_ns=authority.now_ns,
                place=place,
            )
        else:
            self._unsigned.append(name)  # nobody here can tell whose it is
        return decoded


def _inside(path: Path, top: Path) -> str | None:
    """Name a path from the root of a repository; None where it lies outside. The file itself may be a link and is not followed."""
    try:
        here = path.absolute().parent.resolve() / path.name
    except (OSError, RuntimeError):  # links in a circle
        return None
    return here.relative_to(top.resolve()).as_posix() if here.is_relative_to(top.resolve()) else None


def _beside(path: Path) -> list[Path]:
    """List the signatures that lie beside a file."""
    found = sorted(path.parent.glob(f"{glob.escape(path.name)}.*sig"))
    return [one for one in found if one.name in (f"{path.name}.sig", f"{path.name}.second.sig")]


class _Source:
    """Where the plan's bytes come from: the folder it lies in, or a commit that is not checked out."""

    def __init__(self, path: Path, authority: "Authority | None") -> None:
        self.path = path
        self.inside: str | None = None
        self.head: str | None = None
        self.committed: bytes | None = None
        self._authority = authority
        self._from_head = False
        if authority is not None and authority.head is not None:
            self.head = authority.head
            self.inside = _inside(path, authority.repo.path)
            if self.inside is not None:
                self.committed = authority.repo.read(self.head, self.inside, cap_bytes=_CAP_BYTES)
                self._from_head = self.committed is not None and authority.repo.commit("HEAD") != self.head
        if self._from_head and self.committed is not None:
            self.plan = self.committed
            self.place = f"{self.inside} at {self.head[:12]}" if self.head else str(path)
        else:
            if not is_there(path):
                raise Problem(
                    str(path),
                    found="no such file",
                    wanted="a plan that people wrote",
                    remedy="write it beside the service, as docs/howto/plan-a-cutover.md shows, or correct the path",
                )
            self.plan = read_bytes(path, _CAP_BYTES)
            self.place = str(path)

    def named(self, name: str) -> str:
        """Say where a file beside the plan is."""
        folder = self.place.rpartition("/")[0] if not self._from_head else (self.inside or "").rpartition("/")[0]
        where = f"{folder}/{name}" if folder else name
        return f"{where} at {self.head[:12]}" if self._from_head and self.head else where

    def beside(self, name: str) -> tuple[bytes | None, tuple[bytes, ...]]:
        """Read a file beside the plan, and its signatures; None where there is none."""
        if self._from_head and self.head is not None and self._authority is not None:
            folder = (self.inside or "").rpartition("/")[0]
            path = f"{folder}/{name}" if folder else name
            return self._authority.repo.read(self.head, path, cap_bytes=_CAP_BYTES), self._authority.signatures(
                self.head, path
            )
        path_ = self.path.with_name(name)
        if not is_there(path_):
            return None, ()
        return read_bytes(path_, _CAP_BYTES), tuple(read_bytes(one, _SIGNATURE_CAP_BYTES) for one in _beside(path_))

    def signatures(self) -> tuple[bytes, ...]:
        """Read the signatures of the plan."""
        if self._from_head and self.head is not None and self.inside is not None and self._authority is not None:
            return self._authority.signatures(self.head, self.inside)
        return tuple(read_bytes(one, _SIGNATURE_CAP_BYTES) for one in _beside(self.path))


def _tied(source: _Source, authority: "Authority", loaded: object, plan_bytes: bytes) -> Tied:
    settings: tuple[Set, ...] = ()
    history = ""
    if source.inside is None or source.head is None or source.committed is None:
        history = (
            "the plan was never committed" if source.inside is not None else "the plan lies outside the repository"
        )
    else:
        try:
            settings = _settings(authority, source.head, source.inside, loaded)
        except Problem as problem:
            history = f"{problem.found}; {problem.remedy}"
    reviewers: tuple[str, ...] = ()
    review = ""
    if authority.allowed is not None:
        try:
            signers = authority.people_who_signed(source.place, plan_bytes, source.signatures())
            reviewers = tuple(one.identity for one in signers)
        except Problem as problem:
            review = f"found {problem.found}"
    return Tied(
        base=authority.base,
        roster=authority.roster,
        signed=authority.allowed is not None,
        committed=source.committed == plan_bytes,
        settings=settings,
        history=history,
        reviewers=reviewers,
        review=review,
    )


def _settings(authority: "Authority", head: str, path: str, loaded: object) -> tuple[Set, ...]:
    """Rule 3. A value that was changed away and back was set by whoever changed it back."""
    wanted = timed_values(loaded)
    seen: dict[str, dict[str, object]] = {}

    def values(commit: str) -> dict[str, object]:
        if commit not in seen:
            data = authority.repo.read(commit, path, cap_bytes=_CAP_BYTES)
            try:
                found = {} if data is None else strict.load(data, place=path, fmt="json", cap_bytes=_CAP_BYTES)
            except Problem:
                found = {}  # whoever mended it set all of it
            seen[commit] = timed_values(found)
        return seen[commit]

    found: dict[str, Set] = {}
    for commit in authority.repo.history(head, path):
        here = values(commit.sha)
        before = [values(parent) for parent in commit.parents]
        for pointer in TIMED:
            if pointer in found or pointer not in wanted or not _same(here, wanted, pointer):
                continue
            if not any(_same(one, wanted, pointer) for one in before):
                found[pointer] = Set(pointer=pointer, commit=authority.with_signer(commit))
        if len(found) == len(wanted):
            break
    return tuple(found[pointer] for pointer in TIMED if pointer in found)


def _same(one: dict[str, object], other: dict[str, object], pointer: str) -> bool:
    """Whether a field has the same value of the same type in both: 1 is not true."""
    return pointer in one and strict.canonical(one[pointer]) == strict.canonical(other[pointer])
