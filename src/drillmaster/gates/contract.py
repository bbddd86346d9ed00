"""The contract gate: may these bytes, which other systems obey, be merged?

Rules, in the order the checks are listed:

1. The change can be read, and there is a lock that can be read, on the base and on the head. The first lock is added by
   a change that touches none of what it names.
2. A contract is changed by people. A lane that is free or unknown may draft one on a branch of its own and merges none;
   records of incidents and what decides who may do what are not even drafted there.
3. No contract brings a credential. Every touched contract stands in the lock, with the bytes that it has now, final or
   pending; so does its deletion. A link or a submodule in the place of a contract is none.
4. The lock is in order: digests, chain, nothing final under review, reviews that are dated, of somebody else, apart.
5. What breaks somebody has a new version; a value leaves a list after its notice; what touches identity, money or
   deletion was reviewed by two.
6. The consumers' examples hold on the bytes to come, those that must fail among them, and were left alone.
"""

from collections.abc import Iterator
from typing import Annotated, ClassVar, Literal

import msgspec

from drillmaster.gates import Gate
from drillmaster.gates._contract_compared import compared_checks, fixture_checks
from drillmaster.gates._contract_evidence import ContractChange, ContractClass, SideName
from drillmaster.gates._contract_locked import legible, lock_checks, lock_path_of, outcome
from drillmaster.rules._globs import Globs, pattern_fault
from drillmaster.rules.contract_lock import path_fault
from drillmaster.verdict import Check, Exact, Finding, Verdict

__all__ = ["ContractGate", "gate"]

_Days = Annotated[int, msgspec.Meta(ge=1, le=366)]
_Path = Annotated[str, msgspec.Meta(min_length=1, max_length=500)]


class ContractGate(Gate[ContractChange], frozen=True, kw_only=True, tag="contract"):
    """Bytes that other systems obey are changed by people, under a lock, and break nobody unannounced.

    Happens: a change between two commits is compared with the lock of contracts, and each document with the one before.
    Breaks: a field that a clean-up made optional, merged by the model that wrote and graded it.
    Looks like: `contract gate passed`, or `refuse:` with the file, who meets what, and the command that mends it.
    Cannot show: that the bytes mean what they say; money that is rounded otherwise, a clock in another zone.

    `classes` lists the places of contracts by class, in the patterns of CODEOWNERS: `schema`, `tools` and `webhooks` are
    compared; `migrations`, `interfaces` (protobuf, Avro, GraphQL), `iam`, `audit` and `gate` are locked by digest. A plain
    JSON Schema is read and written by others, unless `sides` says of its place that it is a `request` or a `response`.
    """

    ARTICLE_CODES: ClassVar[dict[str, int]] = {
        "diff": 2,
        "lock-missing": 2,
        "lock-readable": 2,
        "origin": 3,
        "forbidden-draft": 3,
        "not-in-lock": 4,
        "link": 5,
        "unsigned-digest": 5,
    }
    ARTICLE_REFUSED: ClassVar[int] = 2

    lock: _Path
    """Path of the lock, from the root of the repository: `schema.lock.json`."""
    classes: dict[ContractClass, Annotated[tuple[_Path, ...], msgspec.Meta(min_length=1)]]
    """Where contracts of each class lie: `contracts/`, `openapi.yaml`, `*.proto`."""
    sides: dict[SideName, tuple[_Path, ...]] | msgspec.UnsetType = msgspec.UNSET
    """Who writes what a plain JSON Schema describes; without it each is both."""
    fixtures: _Path
    """Path of the manifest of the consumers' examples."""
    fixtures_are: Literal["demanded", "when-named"]
    """Whether each compared contract has to have examples, or is tried with what there is."""
    pending_days: _Days
    """How many days a review may count."""
    enum_window_days: _Days
    """How many days before it goes a value of a list was announced to go."""
    sensitive: tuple[Annotated[str, msgspec.Meta(min_length=2)], ...]
    """Words in names that ask for a second reviewer: `auth`, `amount`, `tax`, `delete`."""
    owners: Literal["demanded", "unasked"]
    """Whether CODEOWNERS of the base has to name somebody for each touched contract."""

    def __post_init__(self) -> None:
        if not self.classes:
            raise ValueError("classes: found none, wanted at least one class with a pattern")
        patterns = [one for group in self.classes.values() for one in group]
        if self.sides is not msgspec.UNSET:
            patterns += [one for group in self.sides.values() for one in group]
        for one in patterns:
            fault = pattern_fault(one, "codeowners")
            if fault:
                raise ValueError(f"{one!r}: {fault}; wanted a pattern such as contracts/ or *.proto")
        for field, path in (("lock", self.lock), ("fixtures", self.fixtures)):
            if path_fault(path):
                raise ValueError(f"{field}: {path_fault(path)}; wanted a path such as schema.lock.json")

    def globs(self) -> dict[ContractClass, Globs]:
        """The patterns of each class, compiled; names that look alike are one."""
        return {name: Globs(patterns, "codeowners", fold=True) for name, patterns in self.classes.items()}

    def side_globs(self) -> dict[SideName, Globs]:
        """The patterns of each side, compiled."""
        sides = {} if self.sides is msgspec.UNSET else self.sides
        return {name: Globs(patterns, "codeowners", fold=True) for name, patterns in sides.items()}

    def checks(self, evidence: ContractChange) -> Iterator[Check]:
        yield self._diff(evidence)
        yield self._lock_there(evidence)
        yield self._lock_readable(evidence)
        yield self._origin(evidence)
        yield self._forbidden(evidence)
        yield self._links(evidence)
        yield self._secrets(evidence)
        yield from lock_checks(evidence, self.lock, self.pending_days)
        yield from compared_checks(evidence, self.enum_window_days, self.sensitive)
        yield from fixture_checks(evidence, demanded=self.fixtures_are == "demanded", manifest=self.fixtures)
        yield self._owned(evidence)

    def findings(self, evidence: ContractChange, checks: tuple[Check, ...]) -> Iterator[Finding]:
        for reading in evidence.readings:
            for one in reading.found[:20]:
                where = legible(f"{reading.path}#{one.at or one.was}")
                yield Finding(
                    id=one.rule,
                    cause=legible(one.says),
                    next=f"see {where}" + (", a note" if one.level == "note" else ""),
                )
        for line in evidence.second_opinion:
            yield Finding(id="oasdiff", cause=line, next="another program's word; it changes no verdict")

    def closing(self, evidence: ContractChange, verdict: Verdict) -> tuple[str, ...]:
        if verdict.status == "pass":
            if not evidence.contracts and not self._touched(evidence):
                return ("no contract-class paths; apply gate skipped",)
            return ("contract gate passed",)
        missed = {check.id: check for check in verdict.checks if check.status != "pass"}
        if "lock-missing" in missed:
            return (f"missing {self.lock}",)
        said = []
        if "origin" in missed:
            said.append("refuse: free or unknown origin on contract paths")
        said += [f"refuse: {missed[one].why}" for one in ("not-in-lock", "unsigned-digest") if one in missed]
        return tuple(said) or (f"refuse: {next(iter(missed))}",)

    def _touched(self, change: ContractChange) -> list[str]:
        """What judges contracts and changed: the lock, its signatures, the examples."""
        files = {f.file for book in (change.base_fixtures, change.head_fixtures) if book for f in book.fixtures}
        return [p for p in change.diff.paths() if lock_path_of(p, self.lock) or p == self.fixtures or p in files]

    def _diff(self, change: ContractChange) -> Check:
        paths = change.diff.paths()
        wrong = [*change.diff.defects, *([] if paths else ["nothing differs: there is nothing to look at"])]
        return Check(
            id="diff",
            role="admission",
            status="refused" if wrong else "pass",
            title=f"the change can be read: {len(paths)} files, {len(change.contracts)} of them contracts",
            observed=Exact(len(paths)),
            why="; ".join(wrong),
            remedy=("" if paths else "commit the change, or name the branch that it is for: --base origin/main")
            if not change.diff.defects
            else "git fetch --unshallow origin, and name the branch that the change is for: --base origin/main",
        )

    def _lock_there(self, change: ContractChange) -> Check:
        gone = change.head_lock is None and not change.lock_fault
        return Check(
            id="lock-missing",
            role="admission",
            status="refused" if gone else "pass",
            title=f"there is a lock: {self.lock}" + ("" if change.base_lock or gone else ", the first one"),
            why=f"{self.lock} was taken out"
            if gone and change.base_lock
            else f"no {self.lock} at base or head"
            if gone
            else "",
            remedy=(
                f"git checkout {change.diff.base[:12]} -- {self.lock}"
                if change.base_lock
                else "drillmaster contract lock"
            )
            if gone
            else "",
        )

    def _lock_readable(self, change: ContractChange) -> Check:
        return Check(
            id="lock-readable",
            role="admission",
            status="refused" if change.lock_fault else "pass",
            title="the lock can be read",
            why=change.lock_fault,
            remedy=f"restore it: git checkout {change.diff.base[:12]} -- {self.lock}" if change.lock_fault else "",
        )

    def _origin(self, change: ContractChange) -> Check:
        lane = change.diff.lane
        touched = [*(one.path for one in change.contracts), *self._touched(change)]
        if change.base_lock is None and change.diff.roster is None and lane.name == "unknown" and not change.contracts:
            # The change that begins: the base knows no people yet, and the lock may only say what it has.
            touched = []
        bad = [f"{path}, in a change of lane {lane.name} ({lane.by})" for path in touched if lane.name != "human"]
        return outcome(
            "origin",
            "contracts, their lock and their examples are changed by people",
            bad,
            remedy="a person of .drillmaster/roster.yaml copies the bytes into a branch of their own and signs it: git commit -S",
            cites=touched,
            why=lane.by if touched else "no contract-class paths",
            examined=len(touched),
        )

    def _forbidden(self, change: ContractChange) -> Check:
        lane = change.diff.lane
        bad = [one.path for one in change.contracts if one.cls in ("iam", "audit") and lane.name != "human"]
        return outcome(
            "forbidden-draft",
            "records of incidents and what decides who may do what are not even drafted by others than people",
            (f"{path} in a change of lane {lane.name}" for path in bad),
            remedy="take these files out of the draft",
            cites=bad,
        )

    def _links(self, change: ContractChange) -> Check:
        kinds = {"120000": "a link", "160000": "a submodule"}
        bad = [one for one in change.contracts if one.file.mode_after in kinds]
        return outcome(
            "link",
            "every touched contract is a file",
            (f"{one.path} is {kinds[one.file.mode_after]}, whose bytes lie elsewhere" for one in bad),
            remedy="commit the file itself in its place",
            cites=(one.path for one in bad),
            examined=len(change.contracts),
        )

    def _secrets(self, change: ContractChange) -> Check:
        return outcome(
            "secret-bytes",
            "no contract brings a credential with it",
            (f"{path} holds {kind}" for path, kind in change.secrets),
            remedy="take it out, also of the commits, and have it replaced where it is valid",
            cites=(path for path, _ in change.secrets),
            examined=len(change.contracts),
        )

    def _owned(self, change: ContractChange) -> Check:
        bad = []
        if self.owners == "demanded" and change.contracts:
            if change.unowned is None:
                bad.append("the base has no CODEOWNERS that can be read")
            else:
                bad += [f"{path} is nobody's" for path in change.unowned]
        return outcome(
            "owners",
            "CODEOWNERS of the base names somebody for each touched contract",
            bad,
            remedy="add to CODEOWNERS a line for the folder: /contracts/ @schema-lock-owners",
            cites=change.unowned or (),
            why="" if self.owners == "demanded" else "the policy asks for none",
        )


gate = ContractGate
