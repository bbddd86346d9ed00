"""Numbers that judge: exact order statistics, with what the sample can support beside them.

1. A quantile is the nearest-rank order statistic of the raw samples: the value at rank ceil(q * n). One rule, everywhere.
2. Its interval is distribution-free: two order statistics whose ranks come from the binomial distribution (David and
   Nagaraja, *Order Statistics*, 3rd ed., 7.1). Where n is too small for the confidence asked, that side is None.
3. A rate that stands for later traffic has an exact upper bound (Clopper and Pearson, 1934): ten calls without a failure
   show no more than that at most 26 % fail.
4. These intervals take each sample for an independent one. Stalls come in bursts, and samples of one burst are one: `block_bound`
   resamples whole blocks of time (Künsch, 1989, *The jackknife and the bootstrap for general stationary observations*), and
   has nothing to say on fewer than `MIN_BLOCKS` of them.
5. A sample that was cut short is "at least" its value and stays among the others. A quantile that could be moved by what
   a cut sample would have become is itself "at least".
"""

import math
import operator
import random
from collections.abc import Sequence

from drillmaster.verdict import Absent, AtLeast, Exact, Measure

__all__ = ["MIN_BLOCKS", "block_bound", "calls_for_rate", "median", "quantile", "rate_bound", "samples_for_bound"]

MIN_BLOCKS = 20
"""Fewer blocks than this hold too few bursts to say how often they come."""


def quantile(values: Sequence[float], q: float, *, censored: Sequence[float] = (), confidence: float = 0.95) -> Measure:
    """Take the q-quantile (0 < q <= 1) of finite samples in any order, `censored` ones being "at least".

    Raises ValueError when q or a sample is out of range.
    """
    if not 0 < q <= 1:
        raise ValueError(f"q must lie in (0, 1], not {q}")
    n = len(values) + len(censored)
    if n == 0:
        return Absent("no samples")
    if not all(map(math.isfinite, values)) or not all(map(math.isfinite, censored)):
        raise ValueError("a sample is not finite")
    rank = max(1, math.ceil(q * n - 1e-9))  # 0.95 * 20 is a hair over 19 in binary
    at_least = sorted((*values, *censored))
    if censored:
        # If every cut sample had gone on for ever the ranks below would be the exact values alone.
        exact_only = sorted(values)
        settled = rank <= len(exact_only) and exact_only[rank - 1] == at_least[rank - 1]
        if not settled:
            return AtLeast(at_least[rank - 1], n)
    low_rank, high_rank = _interval_ranks(n, q, confidence)
    return Exact(
        at_least[rank - 1],
        n,
        at_least[low_rank - 1] if low_rank is not None else None,
        at_least[high_rank - 1] if high_rank is not None and not censored else None,
    )


def block_bound(
    samples: Sequence[tuple[float, float]],
    q: float,
    *,
    block_s: float,
    confidence: float = 0.95,
    resamples: int = 400,
    seed: int = 1,
) -> float | None:
    """Bound the q-quantile from above, one-sided, where samples lean on their neighbours in time.

    `samples` are (when it was due in seconds, value), in any order; a cut one is infinite. None: they span fewer than
    `MIN_BLOCKS` blocks of `block_s`, which should be longer than a stall. The same seed gives the same bound.
    """
    if not (0 < q < 1 and 0 < confidence < 1 and block_s > 0):
        raise ValueError("q and confidence must lie in (0, 1), block_s over 0")
    if not samples:
        return None
    start = min(due for due, _ in samples)
    block_of = [int((due - start) / block_s) for due, _ in samples]
    blocks = max(block_of) + 1
    if blocks < MIN_BLOCKS:
        return None
    sizes = [0] * blocks
    for block in block_of:
        sizes[block] += 1
    # From the largest down: the quantile of a resample is where more than (1 - q) of its mass lies above.
    top = sorted(zip((value for _, value in samples), block_of, strict=True), reverse=True)
    rng = random.Random(f"{seed}/{len(samples)}")  # noqa: S311 - resampling, not secrets
    found = []
    for _ in range(resamples):
        weights = [0] * blocks
        for _ in range(blocks):
            weights[rng.randrange(blocks)] += 1
        mass = sum(map(operator.mul, weights, sizes))
        above = mass - max(1, math.ceil(q * mass - 1e-9)) if mass else -1
        seen = 0
        for value, block in top:
            seen += weights[block]
            if seen > above:
                found.append(value)
                break
    found.sort()
    return found[min(len(found) - 1, math.ceil(confidence * len(found)) - 1)]


def median(values: Sequence[float], *, censored: Sequence[float] = ()) -> Measure:
    """Take the nearest-rank median."""
    return quantile(values, 0.5, censored=censored)


def samples_for_bound(q: float, confidence: float = 0.95) -> int:
    """Say how many samples the largest of them needs to be an upper bound of the q-quantile: 59 for p95 at 95 %."""
    if not (0 < q < 1 and 0 < confidence < 1):
        raise ValueError("q and confidence must lie in (0, 1)")
    return math.ceil(math.log(1 - confidence) / math.log(q) - 1e-9)


def rate_bound(failed: int, n: int, confidence: float = 0.95) -> float:
    """Bound the rate behind `failed` of `n` from above, one-sided: the largest that would still show so few that often."""
    if not 0 <= failed <= n or n < 1 or not 0 < confidence < 1:
        raise ValueError(f"{failed} of {n} at {confidence} is no rate")
    if failed == n:
        return 1.0
    low, high = failed / n, 1.0
    for _ in range(60):
        middle = (low + high) / 2
        if math.fsum(_binomial(n, k, middle) for k in range(failed + 1)) > 1 - confidence:
            low = middle
        else:
            high = middle
    return high


def calls_for_rate(cap: float, confidence: float = 0.95) -> int:
    """Say how many calls without a failure it takes to bound the rate by `cap`, 0 < cap < 1: 59 for 5 % at 95 %."""
    if not (0 < cap < 1 and 0 < confidence < 1):
        raise ValueError("cap and confidence must lie in (0, 1)")
    return math.ceil(math.log(1 - confidence) / math.log(1 - cap) - 1e-9)


def _interval_ranks(n: int, q: float, confidence: float) -> tuple[int | None, int | None]:
    """Find ranks l and u, each missing the true quantile with probability at most (1 - confidence) / 2.

    X(l) exceeds the quantile when fewer than l of n samples fall at or below it; X(u) is below it when u or more do.
    """
    tail = (1 - confidence) / 2
    low: int | None = None
    high: int | None = None
    below = 0.0  # P(fewer than rank samples at or below the quantile)
    for rank in range(1, n + 1):
        below += _binomial(n, rank - 1, q)
        if below <= tail:
            low = rank
        if 1 - below <= tail:
            high = rank
            break
    return low, high


def _binomial(n: int, k: int, p: float) -> float:
    if p == 1:
        return 1.0 if k == n else 0.0
    log = math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1) + k * math.log(p) + (n - k) * math.log1p(-p)
    return math.exp(log)
