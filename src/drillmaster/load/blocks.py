"""Values in blocks of time that are drawn anew, again and again. Pure."""

import math
import random
from bisect import bisect_right
from collections.abc import Sequence

__all__ = ["Blocks", "draw"]


def draw(blocks: int, rng: random.Random) -> list[int]:
    """As many blocks as there are: how often each was drawn."""
    times = [0] * blocks
    for block in rng.choices(range(blocks), k=blocks):
        times[block] += 1
    return times


class Blocks:
    """Samples, when and how long, by the block of time in which each began; blocks without one are none."""

    def __init__(self, samples: Sequence[tuple[float, float]], block_s: float, *, start: float | None = None) -> None:
        if start is None:
            start = min((at for at, _ in samples), default=0.0)
        found: dict[int, list[float]] = {}
        for at, value in samples:
            found.setdefault(int((at - start) / block_s), []).append(value)
        self._sorted = [sorted(found[at]) for at in sorted(found)]
        self._values = sorted(value for one in self._sorted for value in one)
        self._sums = [sum(one) for one in self._sorted]
        self.n = len(self._values)
        self.blocks = len(self._sorted)

    def quantile(self, q: float, times: Sequence[int]) -> float:
        """The value at the nearest rank, each block counted so many times."""
        drawn = [(count, one) for count, one in zip(times, self._sorted, strict=True) if count]
        rank = max(1, math.ceil(q * sum(count * len(one) for count, one in drawn) - 1e-9))
        under, at = -1, self.n - 1
        while at - under > 1:
            middle = (under + at) // 2
            value = self._values[middle]
            upto = sum(count * bisect_right(one, value) for count, one in drawn)
            under, at = (under, middle) if upto >= rank else (middle, at)
        return self._values[at]

    def mean(self, times: Sequence[int]) -> float:
        """The same of all values."""
        total = sum(count * one for count, one in zip(times, self._sums, strict=True))
        return total / sum(count * len(one) for count, one in zip(times, self._sorted, strict=True))
