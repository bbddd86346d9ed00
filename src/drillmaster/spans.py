"""How spans of time are said to people: three digits, and one unit for all that stand beside one another.

1. A span alone has the unit that fits it: `43.1 ms`, `1.2 s`.
2. Spans of one row, one column or one picture have the unit of the largest: `0.082 s` beside `1.4 s`, and never 82 ms. Whoever
   compares two numbers reads no unit first.
3. No exponents, and no more than three digits that say something; a bound and what it bounds may then look alike.
"""

import math
from collections.abc import Iterable
from typing import NamedTuple

__all__ = ["SpanUnit", "span_text", "unit_of"]

_DIGITS = 3


class SpanUnit(NamedTuple):
    """A unit, and how many of it a second has."""

    name: str
    per_s: float

    def text(self, seconds: float) -> str:
        """Say a span in it."""
        return f"{self.number(seconds)} {self.name}"

    def number(self, seconds: float) -> str:
        """The same without the unit, for a column whose head says it."""
        value = seconds * self.per_s
        if value == 0 or not math.isfinite(value):
            return f"{value:g}"
        places = _DIGITS - 1 - math.floor(math.log10(abs(value)))
        rounded = round(value, places)
        text = f"{rounded:.{max(0, min(12, places))}f}"
        return text.rstrip("0").rstrip(".") if "." in text else text


_UNITS = (SpanUnit("s", 1.0), SpanUnit("ms", 1e3), SpanUnit("µs", 1e6))


def unit_of(seconds: Iterable[float | None]) -> SpanUnit:
    """The unit that fits the largest of some spans; what is None, or no finite number, has no say."""
    most = max((abs(one) for one in seconds if one is not None and math.isfinite(one)), default=0.0)
    if most == 0:
        return _UNITS[0]
    most = float(f"{most:.{_DIGITS}g}")  # 999.6 ms is a second
    return next((unit for unit in _UNITS if most * unit.per_s >= 1 - 1e-9), _UNITS[-1])


def span_text(seconds: float) -> str:
    """Say one span that stands alone."""
    return unit_of([seconds]).text(seconds)
