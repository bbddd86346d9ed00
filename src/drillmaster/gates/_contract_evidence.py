"""What the contract gate looks at: a change, the lock on both sides of it, the contracts it touches, fixtures tried.

1. Contracts are told by their place, in classes that the policy lists. Names that look alike are one.
2. A document is read as strictly as any file. What cannot be read cannot be compared, and says so.
3. Fixtures come from the base where it has them: who changes a contract does not choose what it is tried with.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any, Literal

import msgspec

from drillmaster import strict
from drillmaster.changes import Diff, FileChange
from drillmaster.errors import Problem
from drillmaster.rules._globs import Globs
from drillmaster.rules.contract_lock import Lock
from drillmaster.rules.schema_break import (
    BOTH,
    REQUEST,
    RESPONSE,
    Break,
    DocumentKind,
    Sides,
    breaks,
    document_kind,
    references,
    version_of,
)

__all__ = [
    "COMPARED",
    "Contract",
    "ContractChange",
    "ContractClass",
    "Fixture",
    "Fixtures",
    "Reading",
    "SideName",
    "Signed",
    "Trial",
    "bumped",
    "class_of",
    "contracts_of",
    "readings",
    "secrets_in",
]

ContractClass = Literal["schema", "tools", "webhooks", "migrations", "interfaces", "iam", "audit", "gate"]
SideName = Literal["request", "response", "both"]
COMPARED: frozenset[ContractClass] = frozenset({"schema", "tools", "webhooks"})
"""Classes whose documents are compared and tried with fixtures; the others are locked by digest and class."""

_SIDES: dict[SideName, Sides] = {"request": REQUEST, "response": RESPONSE, "both": BOTH}
_FORMATS: dict[str, strict.Format] = {"json": "json", "yaml": "yaml", "yml": "yaml"}
_VERSION = re.compile(r"v?(\d+)(?:\.(\d+))?(?:\.(\d+))?(?:[-+.].*)?", re.IGNORECASE)
_LOOK_BYTES = 1 << 20
_DAY = re.compile(r"\d{4}-\d{2}-\d{2}")


class Fixture(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One example of a consumer. `schema` is a JSON pointer to the schema within the contract; "": the whole."""

    contract: str
    file: str
    expect: Literal["valid", "invalid"]
    schema: str = ""
    consumer: str = ""


class Fixtures(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The manifest: which examples have to fit which contract, and which must not."""

    kind: Literal["contract-fixtures"]
    version: Literal[1]
    fixtures: tuple[Fixture, ...]


class Trial(msgspec.Struct, frozen=True, kw_only=True):
    """What came of one fixture on the bytes of the change. `error`: it could not be tried, and `why`."""

    fixture: Fixture
    outcome: Literal["valid", "invalid", "error"]
    why: str = ""


class Signed(msgspec.Struct, frozen=True, kw_only=True):
    """Whose signatures of the lock at head hold, the makers of the change left out; or why none does."""

    by: tuple[str, ...] = ()
    problem: str = ""


class Contract(msgspec.Struct, frozen=True, kw_only=True):
    """One contract that the change touches. Digests are of the bytes; "" where there is no file."""

    file: FileChange
    cls: ContractClass
    before: str
    after: str

    @property
    def path(self) -> str:
        return self.file.path


class Reading(msgspec.Struct, frozen=True, kw_only=True):
    """A contract read and compared. `fault`: why it could not be read as it is now; `fault_before`: as it was."""

    path: str
    kind: DocumentKind
    found: tuple[Break, ...] = ()
    version_before: str = ""
    version_after: str = ""
    fault: str = ""
    fault_before: str = ""


class ContractChange(msgspec.Struct, frozen=True, kw_only=True):
    """Everything the gate looks at. `now_ns` is wall time."""

    diff: Diff
    contracts: tuple[Contract, ...]
    readings: tuple[Reading, ...]
    base_lock: Lock | None
    head_lock: Lock | None
    lock_fault: str = ""
    """Why a lock that is there cannot be used."""
    at_head: dict[str, str] = {}
    """Digests at head of paths whose entry in the lock changed; "" where there is no file."""
    signed: Signed | None = None
    """None: the base knows no signers, and nobody's signature is asked for."""
    base_fixtures: Fixtures | None = None
    head_fixtures: Fixtures | None = None
    fixtures_fault: str = ""
    trials: tuple[Trial, ...] = ()
    untried: str = ""
    """Why fixtures could not be tried at all, with the command that mends it."""
    unowned: tuple[str, ...] | None = None
    """Touched contracts that the base's CODEOWNERS gives to nobody; None: it has no such file that can be read."""
    secrets: tuple[tuple[str, str], ...] = ()
    """Contracts whose new bytes hold a credential that the old ones did not, with its kind."""
    second_opinion: tuple[str, ...] = ()
    """What another program said of the same documents."""
    now_ns: int = 0

    @property
    def fixtures(self) -> tuple[Fixture, ...]:
        """The examples that count: of the base, and of the head for contracts that are new, or where the base has none."""
        head = self.head_fixtures.fixtures if self.head_fixtures is not None else ()
        if self.base_fixtures is None:
            return head
        new = {one.path for one in self.contracts if not one.before}
        return (*self.base_fixtures.fixtures, *(one for one in head if one.contract in new))


def class_of(path: str, classes: Mapping[ContractClass, Globs]) -> ContractClass | None:
    """Give the class of a path; of several the first. A link may stand for the folder that a pattern names."""
    return next((name for name, globs in classes.items() if globs.any(path) or globs.any(f"{path}/x")), None)


def contracts_of(diff: Diff, classes: Mapping[ContractClass, Globs]) -> Iterator[Contract]:
    """Tell which contracts a change touches. Content that was not read leaves the digest at "unread"."""
    import hashlib

    def digest(there: str, content: bytes | None) -> str:
        return "" if not there else "unread" if content is None else hashlib.sha256(content).hexdigest()

    for one in diff.files:
        cls = class_of(one.path, classes)
        if cls is not None:
            before, after = digest(one.sha_before, one.before), digest(one.sha_after, one.after)
            yield Contract(file=one, cls=cls, before=before, after=after)


def readings(contracts: tuple[Contract, ...], sides: Mapping[SideName, Globs], *, today: str) -> Iterator[Reading]:
    """Read and compare what can be compared."""
    for one in contracts:
        suffix = one.path.rpartition(".")[2].lower()
        if one.cls not in COMPARED or suffix not in _FORMATS or not one.file.mode_after.startswith("100"):
            continue
        side = next((_SIDES[name] for name, globs in sides.items() if globs.any(one.path)), BOTH)
        yield _reading(one, _FORMATS[suffix], side, today)


def secrets_in(contracts: tuple[Contract, ...]) -> Iterator[tuple[str, str]]:
    """Find credentials that a change brings into a contract. Long files are looked at in their first MiB."""
    if not contracts:
        return
    from drillmaster.rules.secrets import look

    def held(data: bytes | None) -> set[tuple[str, str]]:
        hits = look(data[:_LOOK_BYTES]).hits if data else ()
        return {(hit.kind, hit.fingerprint) for hit in hits if hit.group == "secret"}

    for one in contracts:
        new = held(one.file.after)
        yield from ((one.path, kind) for kind, _ in sorted(new - held(one.file.before) if new else ()))


def _reading(one: Contract, fmt: strict.Format, sides: Sides, today: str) -> Reading:
    try:
        new = _document(one.file.after, one.path, fmt)
    except Problem as problem:
        return Reading(path=one.path, kind="other", fault=f"{problem.place}: {problem.found}, wanted {problem.wanted}")
    kind, version = document_kind(new), version_of(new)
    if not one.file.mode_before.startswith("100"):
        # Nobody kept to an earlier version; what is not followed in this one is told all the same.
        found = tuple(references(new))
        return Reading(path=one.path, kind=kind, found=found, version_after=version, version_before=version)
    try:
        old = _document(one.file.before, one.path, fmt)
    except Problem as problem:
        return Reading(path=one.path, kind=kind, version_after=version, fault_before=problem.found)
    return Reading(
        path=one.path,
        kind=kind,
        found=tuple(dict.fromkeys((*breaks(old, new, sides=sides, today=today), *references(new)))),
        version_before=version_of(old),
        version_after=version,
    )


def _document(data: bytes | None, place: str, fmt: strict.Format) -> Any:
    if data is None:
        raise Problem(place, found="a file that is too long", wanted="at most 16 MiB", remedy="split it")
    return strict.load(data, place=place, fmt=fmt)


def bumped(before: str, after: str) -> bool | None:
    """Whether the later version is one for a breaking change: its first number larger, or, below 1, its second.

    None where that cannot be told; a version that went back is no step either, and False.
    """
    if _DAY.fullmatch(before) and _DAY.fullmatch(after):
        return after > before
    a, b = _VERSION.fullmatch(before.strip()), _VERSION.fullmatch(after.strip())
    if a is None or b is None:
        return None
    old, new = (tuple(int(part or 0) for part in match.groups()) for match in (a, b))
    if old[0] == new[0] == 0:
        return new[1] > old[1]
    return new[0] > old[0]
