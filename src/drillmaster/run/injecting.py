"""The injector as the conductor knows it, whatever it is: the wire proxy is one, the flag server another.

1. The injector holds the fault's deadline. It is renewed only while the drill is well, so that no crash leaves a fault on.
2. A killed injector is replaced at once, passing through. The drill is stopped all the same: its evidence has a hole.
3. A lift is tried twice, and once more at the end of a stopped drill: the order that stopped it may have failed to.
"""

import asyncio
import contextlib
import signal
from collections.abc import Coroutine, Iterable
from typing import Any, Protocol

from drillmaster.child import ChildLost
from drillmaster.clock import Clock
from drillmaster.errors import Problem, Refused
from drillmaster.run.course import Turn

__all__ = ["Desk", "Injector", "Minder", "how_it_ended"]

TTL_S = 8.0
RENEW_S = 2.0
GONE_S = 10.0
"""How long after the lift, and after what may linger, the injector has to show that it passes."""
_MAX_STARTS = 5


class Injector(Protocol):
    """A process that puts a fault on for a time, lifts it by itself when nobody renews it, and writes down both."""

    started: str
    exited: str
    """Events in which its process begins and ends."""
    called: str
    """In sentences: `the proxy`."""
    evidence: str
    """Its file in the run folder."""
    log: str
    """Its output there."""

    @property
    def pid(self) -> int | None: ...

    async def start(self) -> int:
        """Start it and wait until it answers; its process id. Raises Problem."""

    async def wait(self) -> int: ...

    async def state(self) -> dict[str, Any]:
        """What it says of itself, `counts` among it. Raises ChildLost."""

    async def inject(self, turn: Turn, *, ttl_s: float) -> None: ...

    async def renew(self, window: str, *, ttl_s: float) -> bool: ...

    async def lift(self, window: str, why: str) -> None: ...

    async def gone(self) -> tuple[bool, str]:
        """Whether it lets everything pass now, and what was seen."""

    def forewarn(self, turn: Turn) -> Iterable[str]:
        """What the baseline shows of a fault that would meet nobody."""

    def kill(self) -> None: ...

    async def quit(self) -> int:
        """Ask it to end, insist; its exit code."""


class Desk(Protocol):
    """What minds a part sees of the conductor, who does the stopping."""

    @property
    def ending(self) -> bool: ...

    @property
    def injected_in(self) -> Turn | None:
        """The window that is on; None: none is."""

    def write(self, event: str, /, **fields: Any) -> bool: ...

    def say(self, text: str) -> None: ...

    def give_up(self, why: str) -> None: ...

    async def stop(self, why: str) -> None: ...

    def spawn(self, doing: Coroutine[Any, Any, None]) -> asyncio.Task[None]: ...


class Minder:
    """Minds one drill's injector."""

    def __init__(self, injector: Injector, desk: Desk, clock: Clock) -> None:
        self.injector = injector
        self.injected = False
        """Whether anything was injected: from then on nobody may take it for off."""
        self.left: int | None = None
        """The pid of one that goes on for an agent which is not ours to end."""
        self._desk = desk
        self._clock = clock

    async def start(self) -> None:
        """Start it. Raises Problem."""
        self._desk.write(self.injector.started, pid=await self.injector.start())

    async def inject(self, turn: Turn) -> str | None:
        """Inject; why that failed, or None."""
        self.injected = True
        try:
            await self.injector.inject(turn, ttl_s=TTL_S)
        except ChildLost as lost:
            return f"the injection failed: {lost.why}"
        return None

    async def lift(self, window: str) -> None:
        """Lift, if anything was injected."""
        if not self.injected:
            return
        for _ in range(2):
            try:
                await self.injector.lift(window, "ordered")
            except ChildLost as lost:
                self._desk.write("lift_failed", window=window, why=lost.why)
            else:
                return
        self._desk.say(f"{self.injector.called} does not answer; without renewals its fault ends within {TTL_S:g} s")

    async def renew(self, turn: Turn) -> None:
        """Renew the fault while its window is on."""
        while True:
            await asyncio.sleep(RENEW_S)
            if self._desk.injected_in is not turn:
                return
            try:
                if await self.injector.renew(turn.window, ttl_s=TTL_S):
                    continue
            except ChildLost:
                continue  # the next one may get through; the ticker counts silence
            if self._desk.injected_in is turn:
                await self._desk.stop("the fault ended before its lift: it was not renewed in time")

    async def prove_gone(self, turn: Turn) -> None:
        """After the lift, look until it passes, and write down what was seen."""
        give_up_ns = self._clock.mono_ns() + round((turn.linger_s + GONE_S) * 1e9)
        while True:
            gone, why = await self.injector.gone()
            if gone or self._clock.mono_ns() >= give_up_ns:
                self._desk.write("fault_gone", window=turn.window, gone=gone, why=why)
                return
            await asyncio.sleep(0.2)

    async def watch(self) -> None:
        """See it end by itself, replace it, and stop the drill."""
        injector, desk, starts = self.injector, self._desk, 0
        while True:
            pid = injector.pid
            code = await injector.wait()
            if desk.ending:
                return
            desk.write(injector.exited, pid=pid, code=code, expected=False)
            how = how_it_ended(code)
            desk.say(f"{injector.called} ended by itself ({how}); starting it again, passing through")
            starts += 1
            if starts < _MAX_STARTS:
                try:
                    await self.start()
                except Problem as problem:
                    desk.say(str(problem))
            await desk.stop(f"{injector.called} ended by itself ({how}): the evidence has a hole")
            if starts >= _MAX_STARTS:
                return

    async def state(self, log: object) -> dict[str, Any]:
        """What it says of itself. Raises Refused where it does not answer; `log` is where to look then."""
        try:
            return await self.injector.state()
        except ChildLost as lost:
            raise Refused(
                self.injector.called, found=lost.why, wanted="its counts", remedy=f"see {log}/{self.injector.log}"
            ) from None

    async def end(self, *, leave: bool) -> None:
        """End it, or leave it to an agent that is not ours."""
        injector, desk = self.injector, self._desk
        pid = injector.pid
        if pid is None:
            return
        if leave:
            self.left = pid
            lost = (await injector.state()).get("counts", {}).get("evidence_lost")
            if lost:
                desk.give_up(f"{injector.called} could not write {lost} lines of evidence")
            return
        code = await injector.quit()
        desk.write(injector.exited, pid=pid, code=code, expected=True)
        if code != 0:
            desk.give_up(f"{injector.called} ended with {how_it_ended(code)}: lines of its evidence may be lost")


def how_it_ended(code: int | None) -> str:
    """How a process ended, in words."""
    if code is None:
        return "its keeper was killed"
    if code < 0:
        with contextlib.suppress(ValueError):
            return signal.Signals(-code).name
    return f"exit {code}"
