"""Time: a monotonic clock for spans, UTC for stamps, and RFC 3339 between them.

Code that decides takes a `Clock`; only the edges make a `SystemClock`. `ManualClock` is the one tests use.
"""

import re
import time
from datetime import UTC, datetime, timedelta
from typing import Protocol

__all__ = ["Clock", "ManualClock", "SystemClock", "parse_rfc3339", "rfc3339"]

_RFC3339 = re.compile(
    r"(\d{4})-(\d{2})-(\d{2})[Tt ](\d{2}):(\d{2}):(\d{2})(?:\.(\d{1,9})\d*)?([Zz]|[+-]\d{2}:\d{2})", re.ASCII
)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Clock(Protocol):
    """Where the time comes from. Both in nanoseconds."""

    def mono_ns(self) -> int: ...

    def wall_ns(self) -> int: ...


class SystemClock:
    """The machine's clocks: CLOCK_MONOTONIC, which all processes of one machine share, and UTC."""

    def mono_ns(self) -> int:
        return time.monotonic_ns()

    def wall_ns(self) -> int:
        return time.time_ns()


class ManualClock:
    """A clock that moves only when told. `step_wall` is an NTP step: the wall jumps, the monotonic clock does not."""

    def __init__(self, mono_ns: int = 0, wall_ns: int = 1_767_225_600_000_000_000) -> None:
        self._mono_ns = mono_ns
        self._wall_ns = wall_ns

    def mono_ns(self) -> int:
        return self._mono_ns

    def wall_ns(self) -> int:
        return self._wall_ns

    def advance(self, seconds: float) -> None:
        """Let time pass on both clocks."""
        self._mono_ns += round(seconds * 1e9)
        self._wall_ns += round(seconds * 1e9)

    def step_wall(self, seconds: float) -> None:
        """Move the wall clock alone."""
        self._wall_ns += round(seconds * 1e9)


def rfc3339(wall_ns: int, *, digits: int = 6) -> str:
    """Write a wall time as RFC 3339 in UTC with `digits` (0..9) digits of a second, cut and not rounded."""
    whole, rest = divmod(wall_ns, 1_000_000_000)
    stamp = (_EPOCH + timedelta(seconds=whole)).isoformat()[:19]  # strftime imports, which a dying interpreter cannot
    return f"{stamp}.{rest:09d}"[: 20 + digits] + "Z" if digits else f"{stamp}Z"


def parse_rfc3339(text: str) -> int | None:
    """Read an RFC 3339 time as nanoseconds since 1970 UTC; None when it is not one, or carries no zone.

    A leap second (`:60`) reads as the second after it. Years 1970 to 2199.
    """
    match = _RFC3339.fullmatch(text)
    if match is None:
        return None
    year, month, day, hour, minute, second = (int(match[i]) for i in range(1, 7))
    zone = match[8]
    offset_s = 0
    if zone not in "Zz":
        hours, minutes = int(zone[1:3]), int(zone[4:6])
        if hours > 23 or minutes > 59:
            return None
        offset_s = (hours * 3600 + minutes * 60) * (1 if zone[0] == "+" else -1)
    leap = second == 60
    try:
        moment = datetime(year, month, day, hour, minute, 59 if leap else second, tzinfo=UTC)
    except ValueError:
        return None
    if not 1970 <= year < 2200:
        return None
    delta = moment - _EPOCH
    seconds = delta.days * 86_400 + delta.seconds + leap - offset_s
    return seconds * 1_000_000_000 + int((match[7] or "0").ljust(9, "0"))
