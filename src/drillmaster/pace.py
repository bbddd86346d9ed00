"""When requests are due: a fixed schedule, worked out beforehand and blind to what became of the requests before.

1. Open loop. The n-th request is due at a time that depends on n alone, so a slow or dead agent does not thin the
   traffic that is to measure it.
2. Whole nanoseconds. A schedule that adds up floats drifts, and puts a request on the wrong side of a phase's edge.
3. The first request is due half a period after the start. Phases are multiples of the period in most plans, so their
   edges then fall midway between two requests, and a phase holds the number of requests that the plan promises.
"""

import msgspec

__all__ = ["Steady", "arrivals_in"]


class Steady(msgspec.Struct, frozen=True, kw_only=True):
    """One request every `every_ns`, for ever, from `start_ns`. Raises ValueError for a period under 1 ns."""

    start_ns: int
    every_ns: int

    def __post_init__(self) -> None:
        if self.every_ns < 1:
            raise ValueError(f"every_ns={self.every_ns}: a period is at least 1 ns")

    def due_ns(self, nth: int) -> int:
        """When request `nth` (from 0) is due."""
        return self.start_ns + self.every_ns // 2 + nth * self.every_ns

    def count(self, from_ns: int, until_ns: int) -> int:
        """How many requests are due in `[from_ns, until_ns)`."""
        return max(0, self._before(until_ns) - self._before(from_ns))

    def _before(self, at_ns: int) -> int:
        return max(0, -((self.start_ns + self.every_ns // 2 - at_ns) // self.every_ns))


def arrivals_in(window_s: float, every_s: float) -> int:
    """How many requests of a schedule fall into a window of `window_s` that starts where the schedule does."""
    return Steady(start_ns=0, every_ns=max(1, round(every_s * 1e9))).count(0, round(window_s * 1e9))
