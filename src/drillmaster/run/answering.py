"""What people order from other terminals, answered: who may is told by the token, whether it may be by the table."""

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Protocol

from drillmaster import conduct as table
from drillmaster.clock import Clock, rfc3339
from drillmaster.conduct import NOTE_KINDS, Order, Role, State
from drillmaster.errors import Refused
from drillmaster.run.control import Asked, Told
from drillmaster.run.notes import MAX_NAME_CHARS, MAX_NOTE_CHARS, shown
from drillmaster.run.seats import State as Seats

__all__ = ["Answering"]


class _Ordered(Protocol):
    """The conductor, to who brings it orders."""

    state: State
    why: str

    @property
    def ending(self) -> bool: ...

    async def order(self, role: Role, order: Order, *, by: str, why: str) -> State: ...

    def note(self, kind: str, text: str, by: str, seen_at: str = "") -> None: ...


class Answering:
    """Answers for one drill. `names`: seat -> who holds it."""

    def __init__(
        self, drill: _Ordered, seats: Seats, names: dict[str, str], folder: Path, log: str, clock: Clock
    ) -> None:
        self._drill = drill
        self._seats = seats
        self._names = names
        self._log = folder / log
        self._clock = clock

    @property
    def handler(self) -> Callable[[Asked], Awaitable[Told]]:
        return self._told

    async def _told(self, asked: Asked) -> Told:
        """Answer an order from another terminal. Raises Problem."""
        drill = self._drill
        role = self._seats.role(asked.token)
        if role is None:
            raise Refused(
                f"order {asked.order}",
                found="a token of no seat of this run",
                wanted=f"the {table.owner(Order(asked.order) if asked.order != 'state' else Order.STOP).capitalize()}'s token",
                remedy=f"name its file: --token-file {self._seats.folder}/lead.token",
            )
        if drill.ending:
            raise Refused(
                f"order {asked.order}",
                found="a drill that is over",
                wanted="a live one",
                remedy="nothing is left to order",
            )
        if asked.order == "state":
            return Told(done=True, state=drill.state)
        order = Order(asked.order)
        name = self._names[role] or role
        by, why = shown(asked.by), shown(asked.text)
        if order is Order.NOTE:
            table.step(drill.state, role, order)
            if asked.kind not in NOTE_KINDS:
                raise Refused(
                    "note", found=asked.kind[:40], wanted=f"one of {', '.join(NOTE_KINDS)}", remedy="write `other`"
                )
            drill.note(asked.kind, asked.text, asked.by or name, asked.seen_at)
            return Told(done=True, state=drill.state, text=f"noted {asked.kind} at {self._now()}")
        # An order is not to fail for a long reason.
        state = await drill.order(role, order, by=by[:MAX_NAME_CHARS] or name, why=why[:MAX_NOTE_CHARS] or "ordered")
        if order is Order.INJECT and state is not State.INJECTED:
            raise Refused("inject", found=drill.why, wanted="a fault that is on", remedy=f"see {self._log}")
        return Told(done=True, state=state, text=f"{order} done at {self._now()}")

    def _now(self) -> str:
        return rfc3339(self._clock.wall_ns(), digits=3)
