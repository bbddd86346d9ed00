"""Synthetic missions as the users of a drill: a driver in a process of its own, that is asked four times a second how they fare.

A driver that ends before it was told to leaves a gap in the load, and no second one is started to hide it: the drill is stopped.
"""

import asyncio
import contextlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from drillmaster.child import ChildLost
from drillmaster.errors import Refused
from drillmaster.missions.process import Driver
from drillmaster.missions.settings import Settings
from drillmaster.run.injecting import how_it_ended
from drillmaster.run.traffic import Tally

__all__ = ["MissionsPart"]

LOOK_S = 0.25
DEAF_S = 6.0


class MissionsPart:
    """Part and users at once: started with the parts, begun with the baseline."""

    started = "missions_started"
    exited = "missions_exited"
    called = "the driver of missions"
    evidence: tuple[str, ...] = ("events/missions.jsonl",)

    def __init__(self, settings: Settings, *, log: Path, env: Mapping[str, str], tally: Tally) -> None:
        self.tally = tally
        self._log = log
        self._driver = Driver(settings, log=log, env=env)
        self._start_ns = 0
        self._no_more = asyncio.Event()
        self._ended = asyncio.Event()
        self._code: int | None = None

    @property
    def pid(self) -> int | None:
        return self._driver.pid

    @property
    def may_end(self) -> bool:
        """Once it was told that no more missions are wanted, it ends with the last of them."""
        return self._no_more.is_set()

    def users(self, start_ns: int) -> "MissionsPart":
        """The users that begin at this moment of the monotonic clock."""
        self._start_ns = start_ns
        return self

    async def start(self) -> int:
        return await self._driver.start()

    async def wait(self) -> int:
        self._code = await self._driver.wait()
        self._ended.set()
        return self._code

    async def complaint(self) -> str | None:
        return None

    async def quit(self) -> int:
        code = await self._driver.quit("the drill is over")
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(1):
                await self._ended.wait()
        return code

    def no_more(self) -> None:
        self._no_more.set()

    async def run(self) -> None:
        """Have missions begin, keep count, and wait for the ends. Raises Refused where the driver ends or goes silent by itself."""
        await self._driver.begin(self._start_ns)
        told = False
        clock = asyncio.get_running_loop()
        heard_s = clock.time()
        while not self._ended.is_set():
            if self._no_more.is_set() and not told:
                with contextlib.suppress(ChildLost):
                    await self._driver.no_more("the drill drains")
                told = True
            try:
                self._count(await self._driver.state())
                heard_s = clock.time()
            except ChildLost as lost:
                # By the clock: an answer that does not come is waited for much longer than the next look.
                if clock.time() - heard_s > DEAF_S and not self._ended.is_set():
                    raise self._gone(f"no answer: {lost.why}") from None
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(LOOK_S):
                    await (self._ended if told else self._no_more).wait()
        if not told and not self._no_more.is_set():
            raise self._gone(f"an end by itself ({how_it_ended(self._code)})")
        if self._code not in (0, None):
            raise self._gone(f"{how_it_ended(self._code)}: {self._driver.last_words()}")

    def _gone(self, found: str) -> Refused:
        return Refused(self.called, found=found, wanted="missions until the drill drains", remedy=f"see {self._log}")

    def _count(self, said: Mapping[str, Any]) -> None:
        self.tally.take(
            sent=int(said["started"]),
            counts={word: int(said[word]) for word in ("ok", "failed", "cut", "unsent")},
            late_ns=round(float(said["late_ms"]) * 1e6),
        )
