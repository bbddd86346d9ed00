"""One plan for several engines: who has which callers, calls and arrivals of each step. Pure.

1. What the engines do together is what the plan says: callers and calls are split so that their sums are the plan's own; all
   arrivals of an open step, by the clock or by the seed's exponential gaps, are drawn once and dealt in turn, so that the engines'
   arrivals laid together are those that one engine would have had.
2. An engine has at least as many calls as callers. One for which no caller is left sits the step out.
3. No two calls have the same number: of a closed step each engine has a range, of an open one every so many-th number. Of
   sessions each engine has as many as its calls take, and the next engine those behind: together they go through the set as one
   engine would, but for the session that each may cut short.
4. The cap on calls in flight of an open step is split like callers: an engine at its own cap drops, though another may have room.
"""

from collections.abc import Sequence
from typing import Literal

import msgspec

from drillmaster.engines import Pauses, Shot, Stage
from drillmaster.engines.pacing import arrivals
from drillmaster.engines.shots import Deck
from drillmaster.ladder import Step, StepKind

__all__ = ["Share", "shared", "stage_of"]

_TAKES: dict[StepKind, Literal["sessions", "first_turns", "turns"]] = {
    "cold": "first_turns",
    "warmup": "first_turns",
    "closed": "sessions",
    "open": "turns",
    "drain": "turns",
}
"""What a step has of sessions."""


class Share(msgspec.Struct, frozen=True, kw_only=True):
    """One engine's part of one step."""

    stage: Stage
    callers: int
    """0: it sits the step out."""
    calls: int | None
    """How many it has to make; None: an open step that it has for itself, whose arrivals nobody counted before."""


def stage_of(step: Step) -> Stage:
    """A step as one engine does it alone."""
    if step.arrivals is None:
        return Stage(
            label=step.label,
            kind="closed",
            level=step.callers,
            calls=step.calls,
            seconds=step.seconds,
            takes=_TAKES[step.kind],
            pauses=None
            if step.think is None
            else Pauses(
                turn_s=step.think.turn_s,
                session_s=step.think.session_s,
                exponential=step.think.law == "exponential",
            ),
        )
    one = step.arrivals
    return Stage(
        label=step.label,
        kind="open",
        level=step.callers,
        seconds=one.seconds,
        rate_per_s=one.rate_per_s,
        rate_to_per_s=one.rate_to_per_s,
        poisson=one.poisson,
        takes=_TAKES[step.kind],
    )


def shared(
    steps: Sequence[Step], engines: int, *, first_call: int, seed: int, shot: Shot | None = None
) -> tuple[tuple[Share, ...], ...]:
    """Split steps, engine by engine. `first_call`: the number of their first call.

    `shot`: what is sent, where that is a set; each step begins with a whole pass through it, where a pass has an order of its
    own.
    """
    if engines == 1:
        alone = [Share(stage=stage_of(s), callers=s.callers, calls=None if s.arrivals else s.calls) for s in steps]
        return (tuple(alone),)
    columns: list[list[Share]] = []
    sets = _Sets(shot, seed)
    for step in steps:
        first_call = sets.aligned(step, first_call)
        if step.arrivals is None:
            column, first_call = _closed(step, engines, first_call, sets)
        else:
            column = _open(step, engines, first_call, seed)
            first_call += sum(share.calls or 0 for share in column)
        columns.append(column)
    return tuple(tuple(column[engine] for column in columns) for engine in range(engines))


class _Sets:
    """In which order an engine draws."""

    def __init__(self, shot: Shot | None, seed: int) -> None:
        self._turns = () if shot is None else shot.turns
        shuffled = seed if shot is not None and shot.shuffled else None
        self._bodies = Deck(1 if shot is None else len(shot.payloads), shuffled)
        self._sessions = Deck(len(self._turns), shuffled) if self._turns else self._bodies

    def aligned(self, step: Step, number: int) -> int:
        return (self._bodies if _TAKES[step.kind] == "turns" else self._sessions).aligned(number)

    def numbers(self, step: Step, first: int, calls: int) -> int:
        """How many numbers an engine gives from `first` on, until it has made so many calls."""
        if not self._turns or _TAKES[step.kind] != "sessions":
            return calls
        number = first
        while calls > 0:
            calls -= self._turns[self._sessions.place(number)]
            number += 1
        return number - first


def _callers(callers: int, engines: int) -> list[int]:
    return [callers // engines + (engine < callers % engines) for engine in range(engines)]


def _idle(label: str) -> Share:
    return Share(stage=Stage(label=label, kind="closed", level=1, calls=0), callers=0, calls=0)


def _closed(step: Step, engines: int, first_call: int, sets: _Sets) -> tuple[list[Share], int]:
    """The shares, and the number behind their last call's."""
    whole = stage_of(step)
    column = []
    before = 0
    for callers in _callers(step.callers, engines):
        # Up to a caller the calls of all callers before it: the pieces between such places add up to all calls.
        begin, end = (step.calls * upto // step.callers for upto in (before, before + callers))
        before += callers
        if not callers:
            column.append(_idle(step.label))
            continue
        stage = msgspec.structs.replace(whole, level=callers, calls=end - begin, first_call=first_call)
        first_call += sets.numbers(step, first_call, end - begin)
        column.append(Share(stage=stage, callers=callers, calls=end - begin))
    return column, first_call


def _open(step: Step, engines: int, first_call: int, seed: int) -> list[Share]:
    whole = stage_of(step)
    takers = min(engines, step.callers)
    due = sum(1 for _ in arrivals(whole, 0, seed))
    column = []
    for nth, callers in enumerate(_callers(step.callers, engines)):
        if not callers:
            column.append(_idle(step.label))
            continue
        stage = msgspec.structs.replace(whole, level=callers, nth=nth, of=takers, first_call=first_call + nth)
        column.append(Share(stage=stage, callers=callers, calls=len(range(nth, due, takers))))
    return column
