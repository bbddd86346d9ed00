"""The driver of missions as the users of a drill, with a driver that is none."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from drillmaster.child import ChildLost
from drillmaster.errors import Refused
from drillmaster.run import mission_users
from drillmaster.run.traffic import Tally


class Loop(asyncio.SelectorEventLoop):
    """A loop whose time can be put forward."""

    forward_s = 0.0

    def time(self) -> float:
        return super().time() + self.forward_s


class Stopped:
    """A process that was stopped: each question takes as long as an answer is waited for."""

    def __init__(self, loop: Loop) -> None:
        self.loop = loop
        self.asked = 0

    async def begin(self, start_ns: int) -> None:
        pass

    async def state(self) -> dict[str, Any]:
        self.asked += 1
        self.loop.forward_s += 5.0
        raise ChildLost("TimeoutError")


def test_silence_of_the_driver_counts_by_the_clock_and_not_by_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    loop = Loop()
    driver = Stopped(loop)
    monkeypatch.setattr(mission_users, "Driver", lambda settings, **more: driver)
    monkeypatch.setattr(mission_users, "LOOK_S", 0.001)
    settings: Any = None
    part = mission_users.MissionsPart(settings, log=Path("missions.log"), env={}, tally=Tally(400))
    try:
        with pytest.raises(Refused, match="no answer"):
            loop.run_until_complete(part.run())
    finally:
        loop.close()
    assert driver.asked == 2
