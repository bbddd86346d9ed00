"""What came of a cell: the client's own words and the wire's events, read into a `Result`. Pure.

1. An answer is one that equals the answer to the same call without a fault, text and finish; else it looked like success.
2. Attempts are the requests on the wire for the measured call. A closed or silent port shows none.
3. A client that was stopped by its time limit says so, took at least `attempts x limit`, and was told no error. Its
   worst case has its own default in place of that limit; what else it spent (its own back-off) stays. A client that waits
   behind an answer that asked it to would wait as long for each retry that it has left. One that waits in silence, since
   its limit ends with an answer's head, has what its transport allows. One that is still at its retries when the watch
   ends, its limit having ended attempts before, has its own limit for each attempt. Any other wait has no end: None.
4. A fallback in `except` of the client's own error class engages on what that catches, and on nothing else: not on another
   exception, not on what looked like success, not while the client waits.
"""

from collections.abc import Sequence
from typing import Any

import msgspec

from drillmaster import faults
from drillmaster.sdkcheck import Cell, Defaults, Outcome, Result
from drillmaster.sdkcheck.cells import SLOW

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
    starved_s: float = 0.0
    """How long its process was ready to run and was not let."""


class Wire(msgspec.Struct, frozen=True, kw_only=True):
    """What the proxy saw."""

    met: bool
    attempts: int
    scope: str
    head: bool = False
    """Whether the last answer had one."""
    over: bool = False
    """Whether the last answer was whole, and its client still there."""
    error_told: bool = False
    """Whether the last answer was an error by its status."""
    asked_s: float | None = None
    """The wait that it asked for."""


def wire_of(rows: Sequence[dict[str, Any]], scope: str) -> Wire:
    """Count a cell's events. `scope` is the fault's: one of connections or a port shows no requests to count."""
    met = sum(row.get("event") == "fault_met" for row in rows)
    attempts = [row for row in rows if row.get("event") == "attempt"]
    last = attempts[-1] if attempts else {}
    status = last.get("status")
    return Wire(
        met=met > 0,
        attempts=max(len(attempts), met if scope == "connection" else 0),
        scope=scope,
        head=status is not None,
        over=last.get("end") == "clean",
        error_told=isinstance(status, int) and status >= 400,
        asked_s=last.get("asked_s"),
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
    if outcome == "waiting":
        return _waited_s(cell, said, wire, attempts, defaults)
    tries = defaults.retries + 1 if attempts is None else max(1, attempts)
    by_limit = "timeout" in said.class_.lower() or "timed out" in said.message.lower()
    if outcome != "raised" or not by_limit or wire.error_told or said.seconds < _LIMITED * tries * limit_s:
        return said.seconds
    if cell.fault == "syn-black-hole":
        own_s = defaults.connect_s
    elif wire.head and defaults.body_s is not None:
        own_s = None if _goes_on(cell.fault) else defaults.body_s
    else:
        own_s = defaults.read_s
    if defaults.total_s is not None:
        own_s = defaults.total_s if own_s is None else min(own_s, defaults.total_s)
    if own_s is None:
        return None
    return round(tries * own_s + max(0.0, said.seconds - tries * limit_s), 3)


def _waited_s(cell: Cell, said: Said, wire: Wire, attempts: int | None, defaults: Defaults) -> float | None:
    left = defaults.retries + 1 - (attempts or 0)
    if wire.error_told and wire.asked_s is not None and left > 0:
        return max(said.seconds, round(wire.asked_s * left, 3))
    if defaults.body_s is not None and not wire.over and not _goes_on(cell.fault):
        return defaults.body_s
    retried = attempts is not None and attempts > 1 and not wire.error_told
    if retried and defaults.read_s is not None and _silent(cell.fault) and not _goes_on(cell.fault):
        return max(said.seconds, (defaults.retries + 1) * defaults.read_s)
    return None


def _silent(fault: str) -> bool:
    """Whether nothing but a time limit ends an attempt under it."""
    return bool(SLOW & set(faults.load(fault).seen))


def _goes_on(fault: str) -> bool:
    """Whether something keeps coming while a fault is on: its parameters say how often."""
    names = faults.load(fault).__struct_fields__
    return any(name.endswith("_per_s") or name in ("per_s", "every_ms") for name in names)
