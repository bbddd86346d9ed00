"""When missions arrive: a schedule that is blind to what became of those before. Pure.

1. The expected number of arrivals up to a moment is the area under the rate. The n-th mission is due where that area reaches
   n - 1/2: evenly within a steady phase, denser as the rate grows, and never at a phase's very edge.
2. Each phase begins anew, so that it has as many arrivals as it promises: its seconds times its mean rate, rounded.
"""

import math
from collections.abc import Iterator, Sequence

from drillmaster.friday.missions import Arrivals

__all__ = ["due_ns"]


def due_ns(arrivals: Sequence[Arrivals]) -> Iterator[tuple[int, int | None]]:
    """When each mission is due, in ns from the schedule's start, in order; and how many may be open by then (None: no word)."""
    start_s = 0.0
    for part in arrivals:
        last_per_s = part.per_s if part.to_per_s is None else part.to_per_s
        slope = (last_per_s - part.per_s) / part.for_s
        for nth in range(round(part.for_s * (part.per_s + last_per_s) / 2)):
            yield round((start_s + _reached_s(nth + 0.5, part.per_s, slope, part.for_s)) * 1e9), part.max_open
        start_s += part.for_s


def _reached_s(area: float, per_s: float, slope: float, for_s: float) -> float:
    """When the area under `per_s + slope * t` is that."""
    # The root in the form that does not lose digits where the slope is small, or 0.
    root = math.sqrt(max(0.0, per_s * per_s + 2 * slope * area))
    below = per_s + root
    return min(for_s, 2 * area / below) if below > 0 else for_s
