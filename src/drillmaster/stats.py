"""Numbers that judge: exact order statistics, with what the sample can support beside them.

1. A quantile is the nearest-rank order statistic of the raw samples: the value at rank ceil(q * n). One rule, everywhere.
2. Its interval is distribution-free: two order statistics whose ranks come from the binomial distribution (David and
   Nagaraja, *Order Statistics*, 3rd ed., 7.1). Where n is too small for the confidence asked, that side is None.
3. A rate that stands for later traffic has an exact upper bound (Clopper and Pearson, 1934): ten calls without a failure
   show no more than that at most 26 % fail.
4. These intervals take each sample for an independent one. Stalls come in bursts, and samples of one burst are one: `block_bound`
   counts whole blocks of time. From how unevenly they hold what is slow follows how many independent samples there are as good
   as (Korn and Graubard, *Confidence intervals for proportions with small expected number of positive counts estimated from
   survey data*, Survey Methodology 24, 1998), and with those it takes the exact bound. It has nothing to say on fewer blocks
   than it would take samples: had a quantile's share of the time been stalls, so few blocks could all have missed them.
5. A sample that was cut short is "at least" its value and stays among the others. A quantile that could be moved by what
   a cut sample would have become is itself "at least".
6. Of many figures that are asked at once some come out by chance. `holm` says of each how rare it is among all of them (Holm, *A
   Simple Sequentially Rejective Multiple Test Procedure*, Scandinavian Journal of Statistics 6, 1979).
"""

import math
from collections.abc import Sequence

from drillmaster.verdict import Absent, AtLeast, Exact, Measure

__all__ = [
    "MIN_BLOCKS",
    "MOST_CALLS",
    "block_bound",
    "blocks_for_bound",
    "calls_for_rate",
    "calls_for_share",
    "holm",
    "median",
    "order_bound",
    "quantile",
    "rate_bound",
    "samples_for_bound",
    "t_quantile",
]

MIN_BLOCKS = 59
"""Of fewer it cannot be told how unevenly they hold what is slow."""
MOST_CALLS = 10**18
"""Nobody makes as many: where a share is so small that it takes more, so many are told."""


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


def order_bound(values: Sequence[float], q: float, *, confidence: float = 0.95) -> float | None:
    """Bound the q-quantile from above, one-sided, by an order statistic; None: there are too few samples.

    A cut sample is infinite, and so is a bound that lies among such.
    """
    if not (0 < q < 1 and 0 < confidence < 1):
        raise ValueError("q and confidence must lie in (0, 1)")
    rank = _upper_rank(len(values), q, 1 - confidence)
    return None if rank is None else sorted(values)[rank - 1]


def block_bound(
    samples: Sequence[tuple[float, float]], q: float, *, block_s: float, confidence: float = 0.95
) -> float | None:
    """Bound the q-quantile from above, one-sided, where samples lean on their neighbours in time.

    `samples` are (when it was due in seconds, value), in any order; a cut one is infinite. A block weighs the same however many
    samples it has: a caller who waits makes fewest calls when it is slowest. None: fewer blocks of `block_s`, which should be
    several times as long as a stall, have samples than `blocks_for_bound` says.
    """
    if not (0 < q < 1 and 0 < confidence < 1 and block_s > 0):
        raise ValueError("q and confidence must lie in (0, 1), block_s over 0")
    if not samples:
        return None
    start = min(due for due, _ in samples)
    raw = [int((due - start) / block_s) for due, _ in samples]
    order = {block: at for at, block in enumerate(sorted(set(raw)))}
    blocks = len(order)
    if blocks < blocks_for_bound(q, confidence):
        return None
    sizes = [0] * (blocks + 2)  # one more on each side, that holds nothing: every block has two neighbours
    for block in raw:
        sizes[order[block] + 1] += 1
    most, n = 1 - q, len(samples)
    from statistics import NormalDist  # 2 ms that a gate without blocks need not pay

    few_blocks = (NormalDist().inv_cdf(confidence) / t_quantile(confidence, blocks - 1)) ** 2
    above = [0.0] * (blocks + 2)
    total = squares = products = 0.0
    bound = math.inf
    at = 0
    # From the largest down: a value is a bound for as long as the share above it is surely no more than 1 - q.
    top = sorted(zip((value for _, value in samples), raw, strict=True), reverse=True)
    while at < n:
        share = total / blocks
        if share >= most:
            return bound
        if total:
            # A stall may lie in two blocks: what neighbours share counts as unevenness too.
            variance = max(0.0, squares / blocks - share * share)
            variance += 2 * max(0.0, products / (blocks - 1) - share * share)
            as_good_as = n if variance == 0 else min(n, share * (1 - share) * (blocks - 1) / variance)
            as_good_as *= few_blocks
            # Half the tail: shares of few blocks lie askew, and simulated servers were covered too seldom with the whole of it.
            if _at_most(share * as_good_as, as_good_as, most) > (1 - confidence) / 2:
                return bound
        bound = top[at][0]
        while at < n and top[at][0] == bound:
            block = order[top[at][1]] + 1
            one = 1 / sizes[block]
            squares += (2 * above[block] + one) * one
            products += one * (above[block - 1] + above[block + 1])
            above[block] += one
            total += one
            at += 1
    return bound


def median(values: Sequence[float], *, censored: Sequence[float] = ()) -> Measure:
    """Take the nearest-rank median."""
    return quantile(values, 0.5, censored=censored)


def samples_for_bound(q: float, confidence: float = 0.95) -> int:
    """Say how many samples the largest of them needs to be an upper bound of the q-quantile: 59 for p95 at 95 %."""
    if not (0 < q < 1 and 0 < confidence < 1):
        raise ValueError("q and confidence must lie in (0, 1)")
    return math.ceil(math.log(1 - confidence) / math.log(q) - 1e-9)


def blocks_for_bound(q: float, confidence: float = 0.95) -> int:
    """Say how many blocks of time `block_bound` needs: as many as samples, and no fewer than `MIN_BLOCKS`."""
    return max(MIN_BLOCKS, samples_for_bound(q, confidence))


def rate_bound(failed: int, n: int, confidence: float = 0.95) -> float:
    """Bound the rate behind `failed` of `n` from above, one-sided: the largest that would still show so few that often."""
    if not 0 <= failed <= n or n < 1 or not 0 < confidence < 1:
        raise ValueError(f"{failed} of {n} at {confidence} is no rate")
    if failed == n:
        return 1.0
    low, high = failed / n, 1.0
    for _ in range(60):
        middle = (low + high) / 2
        if _at_most(failed, n, middle) > 1 - confidence:
            low = middle
        else:
            high = middle
    return high


def calls_for_rate(cap: float, confidence: float = 0.95) -> int:
    """Say how many calls without a failure it takes to bound the rate by `cap`, 0 < cap < 1: 59 for 5 % at 95 %.

    At most `MOST_CALLS`.
    """
    if not (0 < cap < 1 and 0 < confidence < 1):
        raise ValueError("cap and confidence must lie in (0, 1)")
    return math.ceil(min(math.log(1 - confidence) / math.log1p(-cap), MOST_CALLS) - 1e-9)


def calls_for_share(share: float) -> int:
    """Say of how many calls, at least, one is within a share over 0: 50 for 2 %, 1 from 100 % on. At most `MOST_CALLS`."""
    return math.ceil(round(min(1 / share, MOST_CALLS), 9))


def holm(ps: Sequence[float]) -> list[float]:
    """Adjust p-values, in their order, for how many there are: to call those up to 0.05 errs in one family of twenty at most."""
    adjusted = [1.0] * len(ps)
    so_far = 0.0
    for place, at in enumerate(sorted(range(len(ps)), key=lambda nth: ps[nth])):
        so_far = max(so_far, min(1.0, (len(ps) - place) * ps[at]))
        adjusted[at] = so_far
    return adjusted


def t_quantile(confidence: float, freedom: int) -> float:
    """Approximate Student's t, to a thousandth from five degrees of freedom on (Fisher and Cornish, 1960)."""
    from statistics import NormalDist

    z = NormalDist().inv_cdf(confidence)
    first = (z**3 + z) / 4
    second = (5 * z**5 + 16 * z**3 + 3 * z) / 96
    third = (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384
    return z + first / freedom + second / freedom**2 + third / freedom**3


def _interval_ranks(n: int, q: float, confidence: float) -> tuple[int | None, int | None]:
    """Find ranks l and u, each missing the true quantile with probability at most (1 - confidence) / 2.

    X(l) exceeds the quantile when fewer than l of n samples fall at or below it; X(u) is below it when u or more do.
    """
    tail = (1 - confidence) / 2
    low, over = 0, n + 1
    while over - low > 1:
        middle = (low + over) // 2
        low, over = (middle, over) if _at_most(middle - 1, n, q) <= tail else (low, middle)
    return low or None, _upper_rank(n, q, tail)


def _upper_rank(n: int, q: float, tail: float) -> int | None:
    """The lowest rank whose value misses the q-quantile from below with probability at most `tail`."""
    under, rank = 0, n + 1
    while rank - under > 1:
        middle = (under + rank) // 2
        under, rank = (under, middle) if 1 - _at_most(middle - 1, n, q) <= tail else (middle, rank)
    return rank if rank <= n else None


def _at_most(k: float, n: float, p: float) -> float:
    """P(at most k of n), each with probability p; k and n need not be whole."""
    if k >= n:
        return 1.0
    return 0.0 if k < 0 else _beta(n - k, k + 1, 1 - p)


def _beta(a: float, b: float, x: float) -> float:
    """The regularised incomplete beta function, by its continued fraction (NIST DLMF 8.17.22)."""
    if not 0 < x < 1:
        return float(x >= 1)
    if x > (a + 1) / (a + b + 2):
        return 1 - _beta(b, a, 1 - x)
    front = math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x) + b * math.log1p(-x)
    upper, lower = 1.0, 1 / (1 - (a + b) * x / (a + 1))
    value = lower
    for m in range(1, 20_000):
        even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        for term in (even, odd):
            lower = 1 / (1 + term * lower)
            upper = 1 + term / upper
            value *= upper * lower
        if abs(upper * lower - 1) < 1e-14:
            break
    return math.exp(front) * value / a
