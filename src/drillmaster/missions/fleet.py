"""The missions of one load: held in flight, or set out when they are due.

1. Held: `concurrent` missions are in flight, from the ramp's end to the order that no more be begun. Where one ends, or begins
   to think, another is due in that instant. One that comes back from thinking is never kept waiting: then there is one more in
   flight, until one ends whose place is not filled.
2. By arrivals: each is due when the schedule says so, whatever became of those before; it is late by as much as this process is,
   and that counts in its time. One that is due while `max_open` are under way is not sent, and is on record as `unsent`.
3. A mission that reached nobody (refused, reset or TLS failed, and no byte of an answer) leaves its place empty for a second:
   a target that is gone is knocked at, not hammered. The concurrency on record then says what was held.
"""

import asyncio
from collections import Counter, deque
from collections.abc import Callable, Iterator
from time import monotonic_ns
from typing import Protocol

from drillmaster.errors import Problem
from drillmaster.friday.arriving import due_ns
from drillmaster.friday.drawing import mission_id
from drillmaster.friday.missions import MISSIONS_PER_LOAD
from drillmaster.missions.flows import MissionPlans, digest_of, recorded
from drillmaster.missions.ledger import Flying, Ledger
from drillmaster.missions.mission import HttpMission, Line, Mission
from drillmaster.missions.settings import Book, OwnLoad
from drillmaster.missions.socket_mission import SocketMission

__all__ = ["Fleet", "Watch"]

UNREACHED_NS = 1_000_000_000
THINKING_PER_PLACE = 50
"""How many may think for each that is in flight, before a thinking one's place stays empty."""
_AT_ONCE = 64
"""Missions that are begun before others of the loop have their turn."""


class Watch(Protocol):
    """What a load needs of the driver."""

    loop: asyncio.AbstractEventLoop
    ledger: Ledger
    flying: Flying
    line: Line
    counts: Counter[str]

    def broken(self, error: OSError) -> None: ...

    def lost(self, problem: Problem) -> None: ...

    def may_begin(self, requests: int) -> bool:
        """Whether so many more requests are within what is permitted; then they are counted."""

    def done(self) -> None:
        """A load may have ended: look."""


class Fleet:
    """One load of our own missions."""

    def __init__(
        self, load: OwnLoad, nth: int, book: Book, watch: Watch, environ: dict[str, str], *, gap_ns: int = 0
    ) -> None:
        """`gap_ns`: the least time between two beginnings. Raises Problem, where a header asks for a variable that is not set."""
        self.plans = MissionPlans(
            load.missions, nth_load=nth, seed=book.seed, run=book.run, time_limit_s=book.time_limit_s, environ=environ
        )
        self.ledger, self.line, self.loop = watch.ledger, watch.line, watch.loop
        self.broken: Callable[[OSError], None] = watch.broken
        self._load = load
        self._first = nth * MISSIONS_PER_LOAD
        self._run = book.run
        self._max_missions = book.max_missions
        self._watch = watch
        self._open: set[Mission] = set()
        self._number = 0
        self._flying = 0
        self._no_more = True
        self._filling = False
        self._soon: asyncio.TimerHandle | None = None
        self._places: deque[int] = deque()
        """Since when places are free, by the monotonic clock."""
        self._schedule: Iterator[tuple[int, int | None]] = iter(())
        self._next: tuple[int, int | None] | None = None
        self._start_ns = 0
        self._gap_ns = gap_ns
        self._not_before_ns = 0
        self._timers: set[asyncio.TimerHandle] = set()

    @property
    def wanted(self) -> int:
        """How many are to be in flight now: within the ramp, those of it that are begun."""
        if self._no_more or self._load.concurrent is None:
            return 0
        since_ns, ramp_ns = monotonic_ns() - self._start_ns, round(self._load.ramp_s * 1e9)
        if since_ns >= ramp_ns:
            return self._load.concurrent
        return max(0, self._load.concurrent * since_ns // ramp_ns)

    @property
    def thinking(self) -> int:
        return len(self._open) - self._flying

    @property
    def over(self) -> bool:
        return self._no_more and not self._open

    def start(self, start_ns: int) -> None:
        """Begin at that moment."""
        self._no_more = False
        self._start_ns = start_ns
        if self._load.concurrent is None:
            self._schedule = due_ns(self._load.arrivals)
            self._next = next(self._schedule, None)
            self._arrive()
            return
        ramp_ns = round(self._load.ramp_s * 1e9)
        for nth in range(self._load.concurrent):
            self._later(start_ns + ramp_ns * nth // self._load.concurrent)

    def no_more(self) -> None:
        """Begin none any more."""
        self._no_more = True
        self._places.clear()
        for timer in self._timers:
            timer.cancel()
        self._timers.clear()
        self._watch.done()

    def cut(self, why: str) -> None:
        """End all that are under way."""
        for mission in tuple(self._open):
            mission.cut(why)

    # Held

    def _later(self, at_ns: int) -> None:
        def free() -> None:
            self._timers.discard(timer)
            self._free(at_ns)

        timer = self.loop.call_at(at_ns / 1e9, free)
        self._timers.add(timer)

    def _free(self, since_ns: int) -> None:
        """A place is free."""
        if self._no_more or self._load.concurrent is None:
            return
        self._places.append(since_ns)
        if not self._filling:
            self._fill()

    def _fill(self) -> None:
        """Begin where places are free. A mission that ends as it begins frees its own, which is not filled from within."""
        self._filling = True
        try:
            self._fill_some()
        finally:
            self._filling = False
        if self._places and self._soon is None:
            self._soon = self.loop.call_at(max(monotonic_ns(), self._not_before_ns) / 1e9, self._fill_soon)

    def _fill_soon(self) -> None:
        self._soon = None
        self._fill()

    def _fill_some(self) -> None:
        for _ in range(min(_AT_ONCE, len(self._places))):
            if self._gap_ns and monotonic_ns() < self._not_before_ns:
                return
            since_ns = self._places.popleft()
            if self._flying >= (self._load.concurrent or 0):
                continue  # one that came back from thinking has the place
            if self.thinking >= THINKING_PER_PLACE * (self._load.concurrent or 0):
                self._later(monotonic_ns() + 10_000_000)
            elif self._may_begin():
                self._begin(since_ns)
            else:
                self._spent()
                return

    # By arrivals

    def _arrive(self) -> None:
        for _ in range(_AT_ONCE):
            if self._no_more:
                return
            if self._next is None:
                self.no_more()
                return
            due, max_open = self._next
            at_ns = self._start_ns + due
            if at_ns > monotonic_ns():
                break
            self._next = next(self._schedule, None)
            cap = self._load.max_open if max_open is None else min(max_open, self._load.max_open)
            if len(self._open) >= cap:
                self._unsent(at_ns, cap)
            elif self._may_begin():
                self._begin(at_ns)
            else:
                self._spent()
                return
        self._timers.clear()
        if self._next is not None:
            self._timers.add(self.loop.call_at((self._start_ns + self._next[0]) / 1e9, self._arrive))

    def _unsent(self, due_ns: int, cap: int) -> None:
        self._number += 1
        flow = self.plans.draw(self._number).plan.flow
        zero_ns = self.ledger.mono0_ns
        fields = {"mission": mission_id(self._first + self._number, self._run), "flow": flow.name, "entry": flow.entry}
        times = {"due_ns": due_ns - zero_ns, "end_ns": monotonic_ns() - zero_ns, "thought_ns": 0, "steps": 0}
        self.ledger.write_known("mission_ended", {**fields, "result": "unsent", "why": f"{cap} open", **times})
        self._watch.counts["unsent"] += 1

    # Both

    def _spent(self) -> None:
        """As many as may be were begun: on record, since a drill may have wanted more."""
        why = "max_missions" if self._number >= self._max_missions else "the permitted requests"
        self.ledger.write("load_ended", source=self._load.source, by="missions", exit=None, ordered=False, why=why)
        self.no_more()

    def _may_begin(self) -> bool:
        return self._number < self._max_missions and self._watch.may_begin(self.plans.most_steps)

    def _begin(self, due_ns: int) -> None:
        self._number += 1
        if self._gap_ns:
            self._not_before_ns = max(self._not_before_ns, monotonic_ns() - self._gap_ns) + self._gap_ns
        drawn = self.plans.draw(self._number)
        requests = recorded(drawn)
        flow = drawn.plan.flow
        digest = self.ledger.payload(drawn, requests)
        kind = SocketMission if flow.entry == "websocket" else HttpMission
        mission = kind(self, drawn, due_ns)
        self.ledger.write_known(
            "mission_started",
            {
                "mission": drawn.id,
                "flow": flow.name,
                "entry": flow.entry,
                "due_ns": due_ns - self.ledger.mono0_ns,
                "slot": self._flying,
                "trace": drawn.trace,
                "payload": digest or digest_of(requests),
            },
        )
        self._open.add(mission)
        self._flying += 1
        self._watch.flying.change(1, monotonic_ns())
        self._watch.counts["started"] += 1
        mission.begin(tuple(request.body for request in requests))

    def rests(self, mission: Mission) -> None:
        now_ns = monotonic_ns()
        self._flying -= 1
        self._watch.flying.change(-1, now_ns)
        self._free(now_ns)

    def flies(self, mission: Mission) -> None:
        self._flying += 1
        self._watch.flying.change(1, monotonic_ns())

    def ended(self, mission: Mission, result: str, *, unreached: bool) -> None:
        now_ns = monotonic_ns()
        self._open.discard(mission)
        self._flying -= 1
        self._watch.flying.change(-1, now_ns)
        self._watch.counts[result] += 1
        if self._no_more:
            if not self._open:
                self._watch.done()
        elif unreached:
            self._later(max(now_ns, mission.due_ns + UNREACHED_NS))
        else:
            self._free(now_ns)
