"""How engines that share a plan begin a stage at one instant: each says that it is ready, and is told when."""

import os
import time
from time import monotonic_ns
from typing import TYPE_CHECKING

import msgspec

from drillmaster.engines import Stage

__all__ = ["Starter"]

if TYPE_CHECKING:  # engine and starter know each other; only one of them can import the other
    from drillmaster.engines.http import Engine

NEAR_NS = 2_000_000
"""So close to the start it sleeps, since the poll knows whole milliseconds only."""


class Starter:
    """Hears the word to begin on a descriptor that nothing else is read from."""

    def __init__(self, engine: "Engine", fd: int) -> None:
        self._engine = engine
        self._fd = fd
        self._rest = b""
        self._told: list[int] = []
        self._alone = False

    def wait(self, stage: Stage) -> int | None:
        """When the stage was to begin, on this machine's clock, once that has come; None: it was stopped, or nobody is there."""
        engine = self._engine
        engine.say("stage_ready", stage, monotonic_ns())
        engine.epoll.register(self._fd)
        engine.calls[self._fd] = self._heard
        try:
            while not self._told and not self._alone and not engine.stopping:
                engine.turn(0.05, stage)
        finally:
            del engine.calls[self._fd]
            engine.epoll.unregister(self._fd)
        if not self._told:
            engine.stop()
            return None
        start_ns = self._told.pop(0) + engine.mono0_ns
        while (left_ns := start_ns - monotonic_ns()) > NEAR_NS and not engine.stopping:
            engine.turn(min(0.05, (left_ns - NEAR_NS) / 1e9), stage)
        if left_ns > 0 and not engine.stopping:
            time.sleep(left_ns / 1e9)
        return start_ns

    def _heard(self, _: int) -> None:
        data = os.read(self._fd, 4_096)
        if not data:
            self._alone = True
            return
        *lines, self._rest = (self._rest + data).split(b"\n")
        self._told += [int(msgspec.json.decode(line)["start_ns"]) for line in lines]
