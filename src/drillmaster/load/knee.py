"""Where a ladder stops bringing more: the number of callers from which more of them wait longer instead.

1. The knee is the first level whose next one brings less than half (`GAIN`) of the throughput that its added callers would have
   brought had nobody waited longer, while its median latency is higher. Throughput is good calls begun a second, from a level's
   first call to its last.
2. Around it lies an interval: levels are cut into `BLOCKS` blocks of time, which are drawn anew, level by level, and 95 % of
   the knees so found lie in it. It may end beyond the ladder.
3. It takes `LEAST_LEVELS` levels that are the endpoint's own, with a call in each block. Of fewer no knee can be told, and it is
   said what is missing.
"""

import random
from collections.abc import Sequence

import msgspec

from drillmaster.interviews import Calls, Level
from drillmaster.load.blocks import Blocks, draw

__all__ = ["GAIN", "LEAST_LEVELS", "Knee", "knee_of", "knee_text"]

GAIN = 0.5
LEAST_LEVELS = 4
BLOCKS = 20
_RESAMPLES = 400


class Knee(msgspec.Struct, frozen=True, kw_only=True):
    """Where it lies, in callers."""

    callers: int | None
    """None: not within the ladder, or it cannot be told."""
    low: int | None = None
    """With `high`: 95 % sure it lies between; None: beyond the largest level, or it cannot be told."""
    high: int | None = None
    most: int
    """Callers of the largest level."""
    gain: float = GAIN
    per_s: tuple[float, ...] = ()
    """Throughput, level by level."""
    p50_s: tuple[float, ...] = ()
    why: str = ""
    """Why no knee can be told; empty: it was looked for."""


class _Cut:
    """One level in blocks of time."""

    def __init__(self, callers: int, calls: Calls) -> None:
        self.callers = callers
        start, end = min(calls.due_s), max(calls.due_s)
        self._block_s = max((end - start) / BLOCKS * (1 + 1e-9), 1e-9)
        self._good = [0] * BLOCKS
        for due_s, outcome in zip(calls.due_s, calls.outcome, strict=True):
            self._good[int((due_s - start) / self._block_s)] += outcome == 0
        latencies = [(at, abs(value)) for at, value in calls.samples("latency")]
        self._latencies = Blocks(latencies, self._block_s, start=start)
        self.empty = BLOCKS - self._latencies.blocks

    def figures(self, times: Sequence[int]) -> tuple[float, float]:
        """Throughput and median latency, each block counted so many times."""
        good = sum(count * one for count, one in zip(times, self._good, strict=True))
        return good / (sum(times) * self._block_s), self._latencies.quantile(0.5, times)


def knee_of(levels: Sequence[tuple[int, Level]]) -> Knee:
    """Look for the knee of a ladder: levels with their callers, in any order."""
    ladder = sorted((callers, level) for callers, level in levels if level.kind == "closed")
    most = max((callers for callers, _ in ladder), default=0)
    usable = [(callers, level) for callers, level in ladder if not level.void and level.calls is not None and level.n]
    if len(usable) < LEAST_LEVELS:
        void = len(ladder) - len(usable)
        why = f"{len(usable)} levels" + (f", {void} more are void" if void else "") + f", and {LEAST_LEVELS} are needed"
        return Knee(callers=None, most=most, why=why)
    cuts = []
    for callers, level in usable:
        assert level.calls is not None
        cuts.append(_Cut(callers, level.calls))
        if cuts[-1].empty:
            return Knee(
                callers=None,
                most=most,
                why=f"{level.label} has calls in {BLOCKS - cuts[-1].empty} of {BLOCKS} blocks of its time: it takes more calls",
            )
    whole = [cut.figures([1] * BLOCKS) for cut in cuts]
    rng = random.Random(1)  # noqa: S311 - resampling, not secrets
    drawn = sorted(_where(cuts, [cut.figures(draw(BLOCKS, rng)) for cut in cuts]) for _ in range(_RESAMPLES))
    at = _where(cuts, whole)
    low, high = drawn[round(0.025 * _RESAMPLES)], drawn[_RESAMPLES - 1 - round(0.025 * _RESAMPLES)]
    callers_at = [*(cut.callers for cut in cuts), None]
    return Knee(
        callers=callers_at[at],
        low=callers_at[min(low, at)],
        high=callers_at[max(high, at)],
        most=most,
        per_s=tuple(round(per_s, 6) for per_s, _ in whole),
        p50_s=tuple(median_s for _, median_s in whole),
    )


def _where(cuts: Sequence[_Cut], figures: Sequence[tuple[float, float]]) -> int:
    """Place of the knee among the levels; their number where there is none."""
    for at in range(len(cuts) - 1):
        (before, before_s), (after, after_s) = figures[at], figures[at + 1]
        added = cuts[at + 1].callers / cuts[at].callers - 1
        if after - before < GAIN * added * before and after_s > before_s:
            return at
    return len(cuts)


def knee_text(knee: Knee) -> str:
    """Say it on a line."""
    if knee.why:
        return f"no knee can be told: {knee.why}"
    beyond = f"over {knee.most}"
    between = f"95 % sure between {knee.low or beyond} and {knee.high or beyond}"
    if knee.low == knee.high:
        between = "95 % sure"
    if knee.callers is None:
        return f"no knee up to {knee.most} callers ({between})"
    return f"the knee is at {knee.callers} callers ({between}): more bring under {knee.gain:.0%} of their share, and wait longer"
