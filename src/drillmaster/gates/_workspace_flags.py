"""What is said of each file: flags by their names, how severe they are together, and the article's report.

1. The article's five flags keep their names: `durable_memory_name`, `cache_or_vector_dir`, `secret_pattern`, `binary_store`,
   `oversize`. The others say what its script passed over.
2. `copy_then_evict`: state that a later turn rereads, and nothing worse. Any other flag: `refuse`. None: `ok`.
3. An exception takes one flag off one file, by the digest of its bytes, until a day. The file changed: the exception is gone.
"""

from collections.abc import Iterator
from typing import Literal

import msgspec

from drillmaster.clock import parse_rfc3339
from drillmaster.gates._workspace_tree import Seen, Tree

__all__ = ["FLAGS", "STATE_FLAGS", "Exempt", "Finding", "flags_of", "in_force", "report", "severity_of"]

Severity = Literal["refuse", "copy_then_evict", "ok"]

STATE_FLAGS = frozenset(
    {
        "durable_memory_name",
        "cache_or_vector_dir",
        "transcript_file",
        "plan_file",
        "identity_hint",
        "durable_state_inside",
    }
)
FLAGS = STATE_FLAGS | {
    "secret_pattern",
    "secret_in_name",
    "personal_data",
    "binary_store",
    "oversize",
    "unscannable",
    "unreadable",
    "media",
    "not_a_file",
    "link",
    "other_mount",
}
_STATE = {
    "memory": "durable_memory_name",
    "cache": "cache_or_vector_dir",
    "vectors": "cache_or_vector_dir",
    "transcript": "transcript_file",
    "plan": "plan_file",
    "identity": "identity_hint",
}


class Exempt(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One flag of one file that somebody looked at. It holds for these very bytes, until a day."""

    path: str
    flag: str
    sha256: str
    """Of the file's bytes: `sha256sum FILE`."""
    until: str
    """Last day on which it holds, `2027-02-28`."""
    why: str

    def problem(self, now_ns: int) -> str:
        end_ns = parse_rfc3339(f"{self.until}T23:59:59Z")
        if self.flag not in FLAGS:
            return f"{self.path}: {self.flag} is no flag"
        if len(self.sha256) != 64 or set(self.sha256) - set("0123456789abcdef"):
            return f"{self.path}: its sha256 is not 64 hex digits"
        if not self.why.strip():
            return f"{self.path}: it does not say why"
        if end_ns is None:
            return f"{self.path}: until is no day such as 2027-02-28"
        return f"{self.path}: it held until {self.until}" if end_ns < now_ns else ""


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """One row of the report, in the article's fields."""

    path: str
    flags: tuple[str, ...]
    severity: Severity
    bytes: int


def flags_of(
    one: Seen,
    *,
    max_file_bytes: int,
    personal_data: str,
    media: str,
    may_stay: tuple[str, ...] = (),
    exempt: frozenset[tuple[str, str, str]] = frozenset(),
) -> tuple[str, ...]:
    """Flag one entry, state first. `exempt`: path, flag and digest of what somebody looked at."""
    return tuple(
        flag
        for flag in dict.fromkeys(_flags(one, max_file_bytes, personal_data, media, may_stay))
        if (one.path, flag, one.sha256) not in exempt
    )


def _flags(one: Seen, max_file_bytes: int, personal_data: str, media: str, may_stay: tuple[str, ...]) -> Iterator[str]:
    durable = one.place in _STATE or one.place == "store" or bool(one.packed)
    if one.place in _STATE and one.place not in may_stay:
        yield _STATE[one.place]
    if set(one.packed) - set(may_stay):
        yield "durable_state_inside"
    if any(hit.group == "secret" for hit in one.hits):
        yield "secret_pattern"
    if any(hit.group == "secret" for hit in one.name_hits):
        yield "secret_in_name"
    if one.counts.get("personal") and (personal_data == "refuse" or (personal_data == "durable" and durable)):
        yield "personal_data"
    if (one.by_suffix or one.place == "store") and one.place not in may_stay and "store" not in may_stay:
        yield "binary_store"
    if one.left_out:
        return
    if one.kind == "file" and one.bytes > max_file_bytes:
        yield "oversize"
    # A link inside the tree leads to what is looked at anyway; a second name of durable state can be written to from outside.
    if one.kind == "link" and (one.leads != "inside" or durable or one.place in ("pointer", "control")):
        yield "link"
    if one.kind == "file" and one.hard_links > 1 and (durable or one.place == "pointer"):
        yield "link"
    if one.kind == "mount":
        yield "other_mount"
    if one.kind in ("fifo", "socket", "device", "unknown"):
        yield "not_a_file"
    if one.trouble:
        yield "unreadable"
    if one.unread:
        yield "unscannable"
    if one.media and media == "refuse":
        yield "media"


def severity_of(flags: tuple[str, ...]) -> Severity:
    """Fold flags into one word."""
    if not flags:
        return "ok"
    return "copy_then_evict" if set(flags) <= STATE_FLAGS else "refuse"


def report(findings: tuple[Finding, ...]) -> dict[str, object]:
    """Write findings in the article's shape."""
    return {
        "findings": [
            {"path": one.path, "flags": list(one.flags), "severity": one.severity, "bytes": one.bytes}
            for one in findings
        ],
        "refuse_count": sum(one.severity == "refuse" for one in findings),
    }


def in_force(exceptions: tuple[Exempt, ...], tree: Tree) -> frozenset[tuple[str, str, str]]:
    """Give the exceptions that hold today, as `flags_of` takes them."""
    return frozenset((one.path, one.flag, one.sha256) for one in exceptions if not one.problem(tree.now_ns))
