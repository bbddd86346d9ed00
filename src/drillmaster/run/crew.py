"""Whom a drill is made of, as the conductor knows them, beside its injector: users, parts, and whom the pre-flight needs."""

from collections.abc import Mapping
from typing import Any, Protocol

import msgspec

from drillmaster.run.traffic import Tally

__all__ = ["Crew", "Line", "Part", "Recorder", "Told", "Users"]


Told = Mapping[str, Mapping[str, Any]]
"""Events that go on record, each with its fields."""


class Line(msgspec.Struct, frozen=True, kw_only=True):
    """One line of the pre-flight as it goes on record."""

    check: str
    status: str
    """`pass`, `refused` or `attested`."""
    why: str = ""
    by: str | None = None
    at: str | None = None


class Users(Protocol):
    """Who asks the agent, from the baseline to the end."""

    tally: Tally

    def no_more(self) -> None:
        """Start nothing further."""

    async def run(self) -> None:
        """Ask until `no_more`, then wait for the ends. Raises what makes the drill's users none."""


class Part(Protocol):
    """A further process of a drill, that is there from the pre-flight to the end and whose evidence the drill needs."""

    started: str
    exited: str
    """Events in which its process begins and ends."""
    called: str
    """In sentences."""
    evidence: tuple[str, ...]
    """Its files in the run folder."""

    @property
    def pid(self) -> int | None: ...

    @property
    def may_end(self) -> bool:
        """Whether it may end by itself now: it was told that nothing more is wanted."""

    async def start(self) -> int:
        """Start it and wait until it answers; its process id. Raises Problem."""

    async def wait(self) -> int: ...

    async def complaint(self) -> str | None:
        """Looked at once a second: why the drill has to be stopped."""

    async def quit(self) -> int:
        """Ask it to end, insist; its exit code."""


class Recorder(Protocol):
    """Who keeps the record of the pre-flight."""

    def line(self, line: Line) -> None: ...


class Crew(Recorder, Protocol):
    """Who starts the parts and keeps the record: the crew."""

    @property
    def worker_alive(self) -> bool: ...

    def say(self, text: str) -> None: ...

    async def start_worker(self, argv: tuple[str, ...]) -> None: ...

    async def proxy_counts(self) -> dict[str, Any]: ...

    async def worker_said(self) -> tuple[str, ...]: ...
