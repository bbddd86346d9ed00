"""The further parts of a drill as the conductor minds them. One that ends by itself takes its evidence along: a stop."""

from collections.abc import Sequence

from drillmaster.run.crew import Part
from drillmaster.run.injecting import Desk, how_it_ended
from drillmaster.run.pins import Pins

__all__ = ["Company"]


class Company:
    """All parts of one drill, started in their order and ended against it."""

    def __init__(self, parts: Sequence[Part], desk: Desk, pins: Pins) -> None:
        self._parts = parts
        self._desk = desk
        self._pins = pins
        self._over: set[str] = set()
        """Which have ended already, and are on record with it."""

    async def start(self) -> None:
        """Start all, and hold their evidence. Raises Problem with the first that does not start."""
        for part in self._parts:
            self._desk.write(part.started, pid=await part.start())
            self._desk.spawn(self._watch(part))
            self._pins.hold(*part.evidence)

    async def complaint(self) -> str | None:
        """Why one of them wants the drill stopped."""
        for part in self._parts:
            why = await part.complaint()
            if why is not None:
                return why
        return None

    async def end(self) -> None:
        for part in reversed(self._parts):
            pid = part.pid
            if pid is None or part.called in self._over:
                continue
            code = await part.quit()
            self._desk.write(part.exited, pid=pid, code=code, expected=True)
            if code != 0:
                self._desk.give_up(f"{part.called} ended with {how_it_ended(code)}: lines of its evidence may be lost")

    async def _watch(self, part: Part) -> None:
        pid, code = part.pid, await part.wait()
        if self._desk.ending:
            return
        self._over.add(part.called)
        self._desk.write(part.exited, pid=pid, code=code, expected=part.may_end)
        if part.may_end:  # with which code is for its users to judge
            return
        await self._desk.stop(f"{part.called} ended by itself ({how_it_ended(code)}): the evidence has a hole")
