"""Figures of one drill from run to run: where their middle lies, and whether the newest are worse than those before.

1. The middle of the runs before is their median, nearest rank; its interval is two order statistics whose ranks come from the
   binomial distribution (`stats`, rule 2). It needs six runs at 95 %; of fewer there is a median and no interval.
2. Whether the newest `k` are worse than the `n` before them is asked of ranks alone, by the exact one-sided Wilcoxon-Mann-Whitney
   test (Mann and Whitney, 1947): figures of drills have long tails and few runs, so nothing is taken of their distribution. A new
   run that lies outside the interval of the median is no finding: that interval grows narrow with the number of runs, and one run
   lies outside of it most of the time.
3. By how much is the Hodges-Lehmann shift, the median of all differences between a new run and one before; at least by how much is
   the order statistic of those differences that belongs to the same test (Hollander, Wolfe and Chicken, *Nonparametric
   Statistical Methods*, 3rd ed., 4.2-4.3). The newest are worse exactly when that bound is above 0, so test and interval agree.
4. So few runs that even the worst order of all would not be rare enough are refused, with how many it takes: one new run wants 19
   before it at 95 %, two want 5, three want 3.
5. A figure that was cut, "at least", is taken at its word where it is new; an old one may have been anything above, and proves
   nothing. Equal figures count as not worse. Runs are taken for exchangeable: what drifts slowly over all is not told by this.
6. Each figure is held to 95 % by itself, since a history of weekly drills is too short for more. Of twenty figures one then comes
   out worse by chance, so each also says how rare it is among all of them (`stats`, rule 6).
"""

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, Literal

import msgspec

from drillmaster import stats
from drillmaster.verdict import Exact

__all__ = ["CONFIDENCE", "Better", "Compared", "among_all", "better", "compare", "runs_before"]

Better = Literal["lower", "higher"]
CONFIDENCE = 0.95
MOST_RUNS = 200
_HIGHER = ("success", "replay", "available", "availability", "good_per_s", "held", "kept")
_LOWER = (
    "latency",
    "delay",
    "ack",
    "failed",
    "error",
    "exceptions",
    "unended",
    "fallback",
    "recovery",
    "kill",
    "attempts",
    "_s",
    "_ms",
    "_seconds",
)


class Compared(msgspec.Struct, frozen=True, kw_only=True):
    """One figure of the newest runs against those before."""

    figure: str
    better: Better | None
    """None: it cannot be told by its name which way is worse."""
    newest: tuple[float, ...]
    before: int
    """How many runs before had it."""
    median: float | None
    low: float | None
    high: float | None
    """Of the median of the runs before, 95 %; None: too few."""
    shift: float | None = None
    """By so much the newest are worse (negative: better), as observed."""
    at_least: float | None = None
    """They are worse by at least so much, 95 %; above 0: a regression."""
    p: float | None = None
    """How often ranks so bad, or worse, would come of nothing."""
    p_of_all: float | None = None
    """The same for all figures that were compared with it, by Holm; None: it was compared alone, or not at all."""
    word: Literal["worse", "not worse", "refused"]
    why: str = ""


def better(figure: str) -> Better | None:
    """Tell by a figure's name which way is better; None where the name does not say."""
    name = figure.rpartition("/")[2].lower()
    if any(word in name for word in _HIGHER):
        return "higher"
    last = name.rpartition(".")[2]
    if last in ("n", "calls") or name.endswith("_n"):
        return None
    if any(word in name for word in _LOWER if not word.startswith("_")) or name.endswith(("_s", "_ms", "_seconds")):
        return "lower"
    return None


def runs_before(newest: int, confidence: float = CONFIDENCE) -> int:
    """Say how many runs before it takes for so many new ones to be told worse at all: 19 for one."""
    n = 1
    while 1 / math.comb(n + newest, newest) > 1 - confidence + 1e-12:
        n += 1
    return n


def compare(
    figure: str,
    before: Sequence[float],
    newest: Sequence[float],
    *,
    cut_before: Sequence[bool] = (),
    way: Better | None = None,
    confidence: float = CONFIDENCE,
) -> Compared:
    """Hold the newest figures against those before, by the rules above. `cut_before`: which of those were "at least".

    Raises ValueError for a figure that is not finite, none that is new, or more than `MOST_RUNS`.
    """
    if not newest or not all(map(math.isfinite, (*before, *newest))):
        raise ValueError("figures of runs are finite, and at least one is new")
    if len(before) + len(newest) > MOST_RUNS:
        raise ValueError(f"at most {MOST_RUNS} runs")
    way = way or better(figure)
    cut = [*cut_before, *([False] * (len(before) - len(cut_before)))]
    middle = low = high = None
    if before:
        told = stats.quantile(
            [value for value, is_cut in zip(before, cut, strict=True) if not is_cut],
            0.5,
            censored=[value for value, is_cut in zip(before, cut, strict=True) if is_cut],
            confidence=confidence,
        )
        if isinstance(told, Exact):
            middle, low, high = told.value, told.low, told.high
    said: dict[str, Any] = {
        "figure": figure,
        "better": way,
        "newest": tuple(newest),
        "before": len(before),
        "median": middle,
        "low": low,
        "high": high,
    }
    needed = runs_before(len(newest), confidence)
    if way is None:
        why = "its name does not say which way is worse: --lower-is-better or --higher-is-better NAME does"
        return Compared(**said, word="refused", why=why)
    if len(before) < needed:
        why = f"{len(before)} runs before, and {len(newest)} new can only be told worse than {needed} or more"
        return Compared(**said, word="refused", why=why)
    sign = 1.0 if way == "lower" else -1.0
    worse = sorted(
        -math.inf if is_cut and sign > 0 else sign * (new - old)
        for new in newest
        for old, is_cut in zip(before, cut, strict=True)
    )
    not_above = sum(1 for one in worse if one <= 0)
    p = _at_most(len(before), len(newest), not_above)
    # The largest c for which no more than c - 1 differences at or below the true shift are rarer than the confidence allows.
    rank = 0
    while rank < len(worse) and _at_most(len(before), len(newest), rank) <= 1 - confidence + 1e-12:
        rank += 1
    bound = worse[rank - 1]
    shift = worse[(len(worse) - 1) // 2]
    return Compared(
        **said,
        shift=shift if math.isfinite(shift) else None,
        at_least=bound if math.isfinite(bound) else None,
        p=p,
        word="worse" if bound > 0 else "not worse",
    )


def among_all(found: Sequence[Compared]) -> tuple[Compared, ...]:
    """Say of each figure of one comparison how rare it is among all that were compared (rule 6)."""
    told = [one for one in found if one.p is not None]
    if len(told) < 2:
        return tuple(found)
    adjusted = iter(stats.holm([one.p for one in told if one.p is not None]))
    return tuple(one if one.p is None else msgspec.structs.replace(one, p_of_all=next(adjusted)) for one in found)


def _at_most(n: int, k: int, u: int) -> float:
    """P(U <= u): how often at most `u` of the pairs of `n` old and `k` new have the new one not above, by chance alone."""
    if u < 0:
        return 0.0
    counts = _orders(n, k)
    return sum(counts[: u + 1]) / math.comb(n + k, k)


@lru_cache(maxsize=64)
def _orders(n: int, k: int) -> tuple[int, ...]:
    """Count the orders of n old and k new by U, the pairs that are turned round: the Gaussian binomial's coefficients."""
    top = [1]
    for i in range(1, k + 1):
        # times (1 - q^(n+i)), then divided by (1 - q^i): exact in whole numbers
        grown = [*top, *([0] * (n + i))]
        for at, one in enumerate(top):
            grown[at + n + i] -= one
        for at in range(i, len(grown)):
            grown[at] += grown[at - i]
        top = grown[: n * i + 1]
    return tuple(top)
