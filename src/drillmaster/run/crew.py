"""What the pre-flight writes down, and whom it needs for its looks."""

from typing import Any, Protocol

import msgspec

__all__ = ["Crew", "Line"]


class Line(msgspec.Struct, frozen=True, kw_only=True):
    """One line of the pre-flight as it goes on record."""

    check: str
    status: str
    """`pass`, `refused` or `attested`."""
    why: str = ""
    by: str | None = None
    at: str | None = None


class Crew(Protocol):
    """Who starts the parts and keeps the record: the crew."""

    worker_alive: bool

    def line(self, line: Line) -> None: ...

    def say(self, text: str) -> None: ...

    async def start_worker(self, argv: tuple[str, ...]) -> None: ...

    async def proxy_counts(self) -> dict[str, Any]: ...

    async def worker_said(self) -> tuple[str, ...]: ...
