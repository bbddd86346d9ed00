"""What the wire of one test saw: typed rows, and the same in a few lines of text for a report."""

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from drillmaster.errors import one_line
from drillmaster.screen import screen_text

__all__ = ["Attempt", "attempts_of", "count_of", "table_of"]

MAX_LINES = 16
_TEXT_CHARS = 60


class Attempt(msgspec.Struct, frozen=True, kw_only=True):
    """One request that reached the wire, and how it ended there. Times are seconds since the test began."""

    id: str
    window: str | None
    """The fault window in which a fault met it; None: none did."""
    faults: tuple[str, ...]
    """What met it, by the faults' tags."""
    rules: tuple[str, ...]
    """The rules that did, by name; empty for a fault that meets everybody."""
    conn: int
    nth: int
    """Which request on its connection, from 1."""
    method: str
    path: str
    dialect: str
    model: str | None
    stream: bool | None
    """Whether it asked for a stream; None: it did not say."""
    status: int | None
    """None: no head of an answer reached the client."""
    end: str
    """`clean`, `cut`, `rst`, `stall`, `held`, `lifted`, `client_gone` or `upstream_error`: docs/reference/events.md."""
    terminal: bool | None
    """Whether the answer reached its API's terminal state; None: its coding could not be read."""
    upstream: bool
    """Whether bytes of the provider's own answer went to the client."""
    intact: bool
    """Whether that answer went there whole and unaltered."""
    retry_count: int | None
    """What the client itself says (`x-stainless-retry-count`)."""
    key: str | None
    """The credential, by the first 16 hex digits of its sha256."""
    trace: str | None
    start_s: float
    first_s: float | None
    """When the first byte went to the client."""
    end_s: float
    up_bytes: int
    down_bytes: int
    asked_s: float | None
    """How long the answer, being an error, asked the client to wait."""
    asked_by: str | None
    tokens: int | None
    """What the answer's own usage says it cost."""

    @property
    def ok(self) -> bool:
        """Whether it was answered well and to the end."""
        return self.status is not None and self.status < 400 and self.end == "clean" and self.terminal is not False


def attempts_of(rows: Iterable[dict[str, Any]], tags: dict[str, dict[str, str]], began_ns: int) -> tuple[Attempt, ...]:
    """The attempts among these rows of evidence, in the order of their beginning.

    `tags` gives the fault's tag by window and rule; a fault that meets everybody has the rule "".
    """
    met: dict[str, list[str]] = {}
    found = []
    for row in rows:
        if row["event"] == "fault_met" and row.get("attempt") is not None:
            met.setdefault(row["attempt"], []).append(row.get("rule", ""))
        elif row["event"] == "attempt":
            found.append(row)
    seen = []
    for row in sorted(found, key=lambda row: (row["start_ns"], row["id"])):
        rules = met.get(row["id"], [])
        known = tags.get(row["window"] or "", {})
        told = {name: row.get(name) for name in _SAME}
        told |= {
            "model": None if row["model"] is None else screen_text(row["model"]),
            "path": screen_text(row["path"]),
            "faults": tuple(dict.fromkeys(known.get(rule, "") for rule in rules)),
            "rules": tuple(rule for rule in rules if rule),
            "start_s": (row["start_ns"] - began_ns) / 1e9,
            "first_s": None if row["first_ns"] is None else (row["first_ns"] - began_ns) / 1e9,
            "end_s": (row["end_ns"] - began_ns) / 1e9,
        }
        seen.append(msgspec.convert(told, Attempt))
    return tuple(seen)


_SAME = tuple(
    name
    for name in Attempt.__struct_fields__
    if name not in {"model", "path", "faults", "rules", "start_s", "first_s", "end_s"}
)


def count_of(number: int) -> str:
    """`1 request`, `2 requests`."""
    return "1 request" if number == 1 else f"{number:,} requests"


def _line(attempt: Attempt) -> str:
    """One attempt in one line."""
    what = [attempt.method, attempt.path[:_TEXT_CHARS]]
    if attempt.model is not None:
        what.append(attempt.model[:_TEXT_CHARS])
    if attempt.stream:
        what.append("stream")
    if attempt.retry_count:
        what.append(f"retry {attempt.retry_count}")
    came = ["no answer" if attempt.status is None else str(attempt.status), attempt.end]
    if attempt.terminal is False and attempt.status == 200:
        came.append("unfinished")
    if attempt.asked_s is not None:
        came.append(f"asked to wait {attempt.asked_s:g} s")
    if attempt.faults:
        came.append(f"met {' + '.join(attempt.faults)} ({attempt.window})")
    took_ms = (attempt.end_s - attempt.start_s) * 1e3
    return one_line(f"{attempt.start_s:8.3f} s  {' '.join(what)} -> {', '.join(came)}, {took_ms:.0f} ms")


def table_of(attempts: Sequence[Attempt]) -> list[str]:
    """All of them, or the first and the last where they are many."""
    lines = [_line(attempt) for attempt in attempts]
    if len(lines) <= MAX_LINES:
        return lines
    half = MAX_LINES // 2
    return [*lines[:half], f"          ... {len(lines) - 2 * half} more ...", *lines[-half:]]
