"""The driver as its owner sees it: a child process with a control socket.

A drill starts it once and never again: a driver that dies within a drill leaves a gap in the load, and a second one would
hide it. What it had written stays.
"""

from collections.abc import Mapping
from pathlib import Path

from drillmaster.child import Child, last_lines
from drillmaster.errors import Problem
from drillmaster.missions.settings import Settings

__all__ = ["Driver"]

_MODULE = "drillmaster.missions"


class Driver(Child):
    """`start`, `begin`, `no_more`, `wait`; `quit` where it is to end at once, and what is under way is to be cut."""

    state_s = 5.0  # hundreds of users may have it busy

    def __init__(self, settings: Settings, *, log: Path, env: Mapping[str, str]) -> None:
        """`settings.control_path` is set. Headers take `${NAME}` from `env`."""
        assert settings.control_path is not None
        super().__init__("the driver of missions", _MODULE, settings, Path(settings.control_path), log=log, env=env)

    async def start(self, *, ready_s: float = 15.0) -> int:
        """Start it and wait until it answers; nothing is sent yet. One that does not answer is ended.

        Raises Problem: the child's own, where it had one.
        """
        try:
            return await super().start(ready_s=ready_s)
        except Problem:
            if self.pid is not None:
                self.kill()
                await self.wait()
            said = self.last_words()
            if said.startswith(f"{_MODULE}: ") and ": found " in said:
                raise Problem.of(
                    said.removeprefix(f"{_MODULE}: "), place="missions", wanted="a driver that starts"
                ) from None
            raise

    def last_words(self) -> str:
        """The last line of its log; empty: it said nothing."""
        return "".join(last_lines(self._log, 1, max_chars=8_192))

    async def begin(self, start_ns: int | None = None) -> None:
        """Have missions begin, at that moment of the monotonic clock or now. Raises ChildLost."""
        await self.order("/start", {} if start_ns is None else {"start_ns": start_ns})

    async def no_more(self, why: str = "ordered") -> None:
        """Have none begun any more; the child ends by itself when those under way have. Raises ChildLost."""
        await self.order("/no_more", {"why": why})
