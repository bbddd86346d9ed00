"""Evidence as it lies in a run folder: what a line is, what a manifest says, what a seal covers. Bytes in, values out.

1. A timeline is one JSON object a line, UTF-8. `t` (RFC 3339 with a zone) and `event` are required.
2. A line that is torn, foreign, undated or says a thing twice is a defect with its number. It never disappears.
3. Order is by time, not by place in the file. No field overrides the clock: `t` is the time, and in our own files `ns`
   (nanoseconds of the monotonic clock since the run began, the same for every process of the machine) is the span.
4. A seal covers a prefix of each file: bytes, lines and digests. What was written behind it is late, not tampering.
"""

from typing import Any, Literal

import msgspec

__all__ = ["Defect", "Manifest", "Row", "Seal", "SealedFile"]

DefectKind = Literal["torn", "foreign", "undated", "duplicate-key", "not-finite", "too-long", "unordered"]


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


class SealedFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The sealed prefix of one file. `blocks` holds one sha256 per 256 lines, the last one of what is left."""

    bytes: int
    lines: int
    sha256: str
    blocks: tuple[str, ...]


class Seal(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`seal.json`. `head` is the digest of the canonical bytes of all the rest; it is what a Scribe signs or reads out."""

    version: int
    sealed_at: str
    files: dict[str, SealedFile]
    head: str


class Manifest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`manifest.json`: what was going to be done, by whom, to what, with which versions. Written before anything happens."""

    kind: Literal["run"] = "run"
    version: int = 1
    run: str
    """The run's id and folder name: UTC start and four hex digits, `20261129T153000Z-1a2b`."""
    drill: str
    """Name of the kit: `eviction`."""
    service: str
    started_at: str
    wall0_ns: int
    mono0_ns: int
    """The two clocks at the same instant, the run's zero: `ns` on disk counts from `mono0_ns`."""
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
    """Commit and dirt of worker and plan at the start; None where there is no git."""
    permission: dict[str, Any] = {}
    phases: dict[str, float]
    """`baseline_s`, `fault_s`, `recovery_s` as run, compression applied."""
    fault: dict[str, Any]
    """`tag` and parameters."""
    time_limit_s: float
    """When a user gives up on one request."""
    every_s: float
    """The traffic period as run."""
