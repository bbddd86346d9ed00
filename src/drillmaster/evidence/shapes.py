"""What evidence is made of. The rules are in the package's docstring."""

import math
from typing import Annotated, Any, Literal

import msgspec

from drillmaster.clock import parse_rfc3339

__all__ = [
    "Change",
    "ChangeKind",
    "Defect",
    "DefectKind",
    "FileCheck",
    "FileReport",
    "Manifest",
    "Row",
    "Seal",
    "SealReport",
    "SealedFile",
    "Signature",
]

DefectKind = Literal["torn", "foreign", "undated", "duplicate-key", "not-finite", "too-long", "unordered"]
ChangeKind = Literal["missing", "added", "truncated", "grown", "altered", "dropped", "inserted", "moved", "seal"]
Signature = Literal["fits", "stale", "none", "unknown"]
"""What lies beside a seal: a signature of these bytes, by whoever; one of other bytes, or no signature at all; nothing;
one that could not be looked at, since there is no ssh-keygen."""

_LONGEST_S = 366 * 86_400.0  # no phase, period or wait of a drill is longer than a year
_PHASES = ("baseline_s", "fault_s", "recovery_s")


class Row(msgspec.Struct, frozen=True):
    """One good line. `wall_ns` is its `t`; `fields` holds the whole object, `t` and `event` included."""

    file: str
    line: int
    wall_ns: int
    event: str
    fields: dict[str, Any]


class Defect(msgspec.Struct, frozen=True):
    """One line that cannot be taken at its word. `found` is short, printable and screened."""

    file: str
    line: int
    kind: DefectKind
    found: str
    wanted: str
    event: str = ""
    """The event that a damaged line seems to name, so that a judgement knows whether it needed that line."""
    more: tuple[str, ...] = ()
    """Further ones that it seems to name, as the line of a killed writer does with another one behind it; "": any may be."""

    @property
    def may_be(self) -> tuple[str, ...]:
        """Name all events that it may be; "": any."""
        return (self.event, *self.more)


class SealedFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The sealed prefix of one file. `blocks` holds one sha256 per 256 lines, the last one of what is left.

    `checks` holds, for each block, eight hex digits per line: its CRC-32 without the newline. It says which line
    changed and proves nothing; a seal without it still names the block.
    """

    bytes: Annotated[int, msgspec.Meta(ge=0)]
    lines: Annotated[int, msgspec.Meta(ge=0)]
    sha256: str
    blocks: tuple[str, ...]
    checks: tuple[str, ...] = ()


class Seal(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`seal.json`. `head` is the digest of the canonical bytes of all the rest: what a Scribe signs or reads out."""

    version: Literal[1]
    sealed_at: str
    files: dict[str, SealedFile]
    head: str


class Manifest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`manifest.json`: what was going to be done, by whom, to what, with which versions; written first of all."""

    kind: Literal["run"] = "run"
    version: Literal[1] = 1
    run: str
    """The run's id and folder name: UTC start and four hex digits, `20261129T153000Z-1a2b`."""
    drill: str
    """Name of the kit: `eviction`."""
    service: str
    started_at: str
    """The run's zero on the wall clock, RFC 3339 with nine digits."""
    mono0_ns: str
    """CLOCK_MONOTONIC at the same instant, in decimal: `ns` on disk counts from it. Text, since after 104 days of uptime
    it has more digits than a JSON number keeps."""
    seed: int
    plan: dict[str, Any]
    """The plan as it was decoded, compression applied."""
    plan_sha256: str
    policy_file: str
    policy_sha256: str
    payload_sha256: str
    versions: dict[str, str]
    seats: dict[str, str]
    """`lead`, `scribe`, `verifier` by name."""
    stamps: tuple[str, ...] = ()
    """REHEARSAL, DEMO, COMPRESSED 30x."""
    code: dict[str, Any] | None = None
    """Commit and dirt of worker and plan at the start; None where none is known: no git, no repository, no commit yet."""
    permission: dict[str, Any] = {}
    phases: dict[str, float]
    """`baseline_s`, `fault_s`, `recovery_s` as run, compression applied: finite, 0 or more, together over 0."""
    fault: dict[str, Any]
    """`tag` and parameters."""
    time_limit_s: float
    """When a user gives up on one request."""
    every_s: float
    """The traffic period as run."""

    @property
    def wall0_ns(self) -> int:
        """`started_at` as nanoseconds since 1970. Raises ValueError where it is no time."""
        wall_ns = parse_rfc3339(self.started_at)
        if wall_ns is None:
            raise ValueError(f"started_at: found {self.started_at!r}, wanted RFC 3339 with a zone")
        return wall_ns

    def __post_init__(self) -> None:
        """Raise ValueError, naming field, value and range, for what no drill can have been."""
        _ = self.wall0_ns
        if not (self.mono0_ns.isascii() and self.mono0_ns.isdigit() and len(self.mono0_ns) <= 20):
            raise ValueError(f"mono0_ns: found {self.mono0_ns[:40]!r}, wanted nanoseconds in decimal")
        for name in _PHASES:
            if name not in self.phases:
                raise ValueError(f"phases.{name}: found nothing, wanted seconds, 0 or more")
        for name, span_s in self.phases.items():
            if not 0 <= span_s <= _LONGEST_S:  # not a number is not in it either
                raise ValueError(f"phases.{name}: found {span_s!r}, wanted seconds from 0 to {_LONGEST_S:.0f}")
        if not math.fsum(self.phases.values()) > 0:
            raise ValueError("phases: found nothing but 0, wanted seconds of which some were run")
        for name, span_s in (("every_s", self.every_s), ("time_limit_s", self.time_limit_s)):
            if not 0 < span_s <= _LONGEST_S:
                raise ValueError(f"{name}: found {span_s!r}, wanted seconds over 0, at most {_LONGEST_S:.0f}")


class Change(msgspec.Struct, frozen=True):
    """One thing that is not as it was sealed. `line`: the sealed line's number (`inserted`: the new one's); 0: the file.

    `last_line` is above `line` where no single line could be told: the change is somewhere between the two.
    """

    file: str
    line: int
    last_line: int
    kind: ChangeKind
    what: str


class FileCheck(msgspec.Struct, frozen=True):
    """One file against its seal. `late_lines` counts lines behind the sealed prefix; it is 0 where anything changed."""

    changes: tuple[Change, ...]
    late_lines: int = 0
    late_bytes: int = 0


class FileReport(msgspec.Struct, frozen=True):
    """One file of a sealed run: what was sealed, what came later, and which sealed lines are no rows.

    `late_bytes` is the file's size less what was sealed. `late_lines` counts those of the first 64 MiB of them.
    """

    lines: int
    bytes: int
    late_lines: int
    late_bytes: int
    defects: dict[DefectKind, int]
    first_defects: tuple[Defect, ...]


class SealReport(msgspec.Struct, frozen=True, kw_only=True):
    """A run against its seal. It is as it was sealed exactly when `changes` is empty."""

    run: str
    sealed_at: str
    head: str
    files: dict[str, FileReport]
    changes: tuple[Change, ...]
    signed: Signature
    """Whether a signature beside the seal is one of its bytes; `stale` is among the changes too. Whose it is, `drillmaster
    verify --signer` says."""
