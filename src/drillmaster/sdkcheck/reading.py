"""What came of a cell: the client's own words and the wire's events, read into a `Result`. Pure.

1. An answer is one that equals the answer to the same call without a fault, text and finish; else it looked like success.
2. Attempts are the requests on the wire for the measured call. A closed or silent port shows none.
3. A client that was stopped by its time limit says so, took at least `attempts x limit`, and was told no error. Its
   worst case has its own default in place of that limit; what else it spent (its own back-off) stays. What a client was
   told to wait, and would have waited, counts for each of its retries. What nothing of the client's own ends has no worst
   case: None.
4. A fallback in `except` of the client's own error class engages on what that catches, and on nothing else: not on another
   exception, not on what looked like success, not while the client waits.
"""

from collections.abc import Sequence
from typing import Any

import msgspec

from drillmaster.sdkcheck import Cell, Defaults, Outcome, Result

__all__ = ["Said", "Wire", "read", "wire_of"]

_LIMITED = 0.95
"""The part of `attempts x limit` from which on the limit is what ended the attempts: timers are coarse."""
_SHOWN = 48


class Said(msgspec.Struct, frozen=True, kw_only=True):
    """What the client's process told of its call; other fields of its line are ignored."""

    how: str
    seconds: float = 0.0
    kind: str = ""
    text: str | None = None
    finish: str | None = None
    note: str = ""
    class_: str = msgspec.field(default="", name="class")
    caught: bool | None = None
    message: str = ""
    left_loopback: tuple[str, ...] = ()


class Wire(msgspec.Struct, frozen=True, kw_only=True):
    """What the proxy saw."""

    met: bool
    attempts: int
    scope: str
    error_told: bool = False
    """Whether the last answer was an error by its status."""


def wire_of(rows: Sequence[dict[str, Any]], scope: str) -> Wire:
    """Count a cell's events. `scope` is the fault's: one of connections or a port shows no requests to count."""
    names = [row.get("event") for row in rows]
    met = names.count("fault_met")
    statuses = [row.get("status") for row in rows if row.get("event") == "attempt"]
    return Wire(
        met=met > 0,
        attempts=max(len(statuses), met if scope == "connection" else 0),
        scope=scope,
        error_told=bool(statuses) and isinstance(statuses[-1], int) and statuses[-1] >= 400,
    )


def read(cell: Cell, said: Said, wire: Wire, plain: Said, defaults: Defaults, *, limit_s: float, log: str) -> Result:
    """The result of one cell. `plain` is what the client said without a fault."""
    attempts = None if wire.scope == "port" else max(0, wire.attempts - (cell.calls - 1))
    outcome = _outcome(said, wire, plain)
    caught = said.caught if outcome == "raised" else None
    fallback = {"raised": caught, "fooled": False, "waiting": False}.get(outcome)
    return Result(
        client=cell.client,
        label=cell.label,
        stream=cell.stream,
        outcome=outcome,
        what=_what(outcome, said, plain),
        caught=caught,
        fallback=fallback,
        attempts=attempts,
        seconds=said.seconds,
        worst_s=_worst_s(cell, outcome, said, wire, attempts, defaults, limit_s),
        log=log,
    )


def _outcome(said: Said, wire: Wire, plain: Said) -> Outcome:
    if said.how == "crashed":
        return "crashed"
    if not wire.met:
        return "not-met"
    if said.how == "waiting":
        return "waiting"
    if said.how == "raised":
        return "raised"
    return "answered" if (said.text, said.finish) == (plain.text, plain.finish) else "fooled"


def _what(outcome: Outcome, said: Said, plain: Said) -> str:
    if outcome == "raised":
        return said.class_
    if outcome == "crashed":
        return said.message or "its process ended without a word"
    if outcome != "fooled":
        return ""
    if said.note:
        return f"{said.kind}, {said.note}"
    text = said.text or ""
    whole = plain.text or ""
    if said.kind == "str":
        return f"str {_clip(text)!r}"
    if not text:
        words = "no text"
    elif text == whole:
        words = "the whole text"
    elif whole.startswith(text):
        words = f"{len(text)} of {len(whole)} characters"
    else:
        words = f"other text {_clip(text)!r}"
    return f"{words}, finish {said.finish}"


def _clip(text: str) -> str:
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"


def _worst_s(
    cell: Cell, outcome: Outcome, said: Said, wire: Wire, attempts: int | None, defaults: Defaults, limit_s: float
) -> float | None:
    retry_after_s = cell.params.get("retry_after_s")
    if outcome == "waiting":
        if isinstance(retry_after_s, int | float) and attempts is not None and attempts <= defaults.retries:
            return said.seconds if retry_after_s < said.seconds else float(retry_after_s * defaults.retries)
        return None
    tries = defaults.retries + 1 if attempts is None else max(1, attempts)
    by_limit = "timeout" in said.class_.lower() or "timed out" in said.message.lower()
    if outcome != "raised" or not by_limit or wire.error_told or said.seconds < _LIMITED * tries * limit_s:
        return said.seconds
    own_s = defaults.connect_s if cell.fault == "syn-black-hole" else defaults.read_s
    if defaults.total_s is not None:
        own_s = defaults.total_s if own_s is None else min(own_s, defaults.total_s)
    if own_s is None:
        return None
    return round(tries * own_s + max(0.0, said.seconds - tries * limit_s), 3)
