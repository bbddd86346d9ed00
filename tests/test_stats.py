import math
import random
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drillmaster.stats import (
    MOST_CALLS,
    block_bound,
    blocks_for_bound,
    calls_for_rate,
    calls_for_share,
    holm,
    median,
    order_bound,
    quantile,
    rate_bound,
    samples_for_bound,
    t_quantile,
)
from drillmaster.verdict import Absent, AtLeast, Exact


def test_nothing_has_no_quantile() -> None:
    assert isinstance(quantile([], 0.95), Absent)


@pytest.mark.parametrize("q", [0, -0.1, 1.1, math.nan])
def test_a_quantile_outside_its_range_is_an_error(q: float) -> None:
    with pytest.raises(ValueError, match="q must lie"):
        quantile([1.0], q)


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_a_sample_that_is_not_finite_is_an_error(bad: float) -> None:
    with pytest.raises(ValueError, match="finite"):
        quantile([1.0, bad], 0.5)


@pytest.mark.parametrize(
    ("n", "q", "rank"),
    [
        (1, 0.5, 1),
        (10, 0.5, 5),  # a value somebody saw, not 5.5
        (20, 0.95, 19),  # 0.95 * 20 is a hair over 19 in binary
        (100, 0.95, 95),  # not the 96th
        (100, 0.99, 99),
        (10, 0.95, 10),
        (7, 1, 7),
    ],
)
def test_a_quantile_is_the_value_at_the_nearest_rank(n: int, q: float, rank: int) -> None:
    measured = quantile([float(v) for v in range(n, 0, -1)], q)
    assert isinstance(measured, Exact)
    assert measured.value == rank
    assert measured.n == n


def test_the_largest_of_59_bounds_p95_at_95_percent_and_58_do_not() -> None:
    assert samples_for_bound(0.95) == 59
    assert samples_for_bound(0.99) == 299
    assert samples_for_bound(0.5) == 5


def test_the_interval_is_that_of_the_tables() -> None:
    # Median of 10 at 95 %: ranks 2 and 9 (Conover, table for the sign interval).
    measured = median([float(v) for v in range(1, 11)])
    assert measured == Exact(5.0, 10, 2.0, 9.0)


def test_a_sample_too_small_has_no_upper_bound() -> None:
    measured = quantile([float(v) for v in range(10)], 0.95)
    assert isinstance(measured, Exact)
    assert measured.high is None


def test_a_cut_sample_stays_among_the_latencies_as_at_least() -> None:
    assert quantile([1.0] * 9, 0.95, censored=[2.0]) == AtLeast(2.0, 10)
    settled = quantile([1.0] * 99, 0.5, censored=[2.0])
    assert isinstance(settled, Exact)
    assert settled.value == 1.0
    # Cut below the others: had it gone on, the median would be a later rank.
    assert isinstance(quantile([2.0, 3.0], 0.5, censored=[1.0]), AtLeast)


@given(st.lists(st.floats(0, 1e6), min_size=1, max_size=200), st.floats(0.01, 1))
def test_at_least_q_of_the_samples_lie_at_or_below_the_quantile(values: list[float], q: float) -> None:
    measured = quantile(values, q)
    assert isinstance(measured, Exact)
    assert measured.value in values
    assert sum(v <= measured.value for v in values) >= q * len(values) - 1e-6
    assert sum(v < measured.value for v in values) < q * len(values) + 1e-6
    for low, high in ((measured.low, measured.value), (measured.value, measured.high)):
        assert low is None or high is None or low <= high


@given(
    st.lists(st.floats(0, 100), min_size=1, max_size=30), st.lists(st.floats(0, 100), max_size=30), st.floats(0.05, 1)
)
def test_whatever_the_cut_ones_would_have_become_an_exact_answer_holds(
    values: list[float], cut: list[float], q: float
) -> None:
    measured = quantile(values, q, censored=cut)
    for grown in (cut, [c + 1000 for c in cut]):
        rank = max(1, math.ceil(q * (len(values) + len(cut)) - 1e-9))
        truth = sorted((*values, *grown))[rank - 1]
        if isinstance(measured, Exact):
            assert measured.value == truth
        else:
            assert isinstance(measured, AtLeast)
            assert measured.value <= truth


@pytest.mark.parametrize(
    ("failed", "n", "bound"),
    [
        (0, 10, 0.2589),
        (0, 59, 0.0495),
        (1, 10, 0.3942),
        (5, 100, 0.1023),
        (10, 10, 1.0),
    ],  # Clopper and Pearson, one-sided
)
def test_a_rate_is_bounded_from_above(failed: int, n: int, bound: float) -> None:
    assert rate_bound(failed, n) == pytest.approx(bound, abs=1e-4)


@given(n=st.integers(1, 300), data=st.data())
def test_a_bound_lies_over_the_rate_and_falls_with_fewer_failures(n: int, data: st.DataObject) -> None:
    failed = data.draw(st.integers(0, n))
    bound = rate_bound(failed, n)
    assert failed / n <= bound <= 1
    assert failed == 0 or rate_bound(failed - 1, n) <= bound


@pytest.mark.parametrize("cap", [0.001, 0.01, 0.05, 0.26])
def test_as_many_calls_as_are_said_to_do_do(cap: float) -> None:
    calls = calls_for_rate(cap)
    assert rate_bound(0, calls) <= cap < rate_bound(0, calls - 1)


@pytest.mark.parametrize(
    ("share", "calls"), [(0.02, 50), (0.03, 34), (0.05, 20), (1 / 3, 3), (0.7, 2), (1.0, 1), (3.0, 1)]
)
def test_one_of_so_many_calls_is_within_a_share(share: float, calls: int) -> None:
    assert calls_for_share(share) == calls


@pytest.mark.parametrize("share", [5e-324, 1e-320, 1e-300, 1e-19])
def test_a_share_of_next_to_nothing_takes_more_calls_than_anybody_makes(share: float) -> None:
    assert calls_for_share(share) == calls_for_rate(share) == MOST_CALLS


@pytest.mark.parametrize("wrong", [(-1, 10, 0.95), (11, 10, 0.95), (0, 0, 0.95), (0, 10, 1.0)])
def test_what_is_no_rate_is_refused(wrong: tuple[int, int, float]) -> None:
    with pytest.raises(ValueError, match="no rate"):
        rate_bound(*wrong)


@pytest.mark.parametrize(
    ("confidence", "freedom", "t"), [(0.95, 58, 1.6716), (0.95, 19, 1.7291), (0.975, 10, 2.2281), (0.95, 5, 2.0150)]
)  # Student's table
def test_t_is_that_of_the_table(confidence: float, freedom: int, t: float) -> None:
    assert t_quantile(confidence, freedom) == pytest.approx(t, abs=0.002)


# Bounds by single samples


@pytest.mark.parametrize(
    ("n", "q", "rank"),
    [
        (58, 0.95, None),
        (59, 0.95, 59),
        (93, 0.95, 92),
        (200, 0.95, 196),
        (298, 0.99, None),
        (299, 0.99, 299),
        (10, 0.5, 9),
    ],
)  # tables of one-sided tolerance limits
def test_a_bound_is_the_order_statistic_of_the_tables(n: int, q: float, rank: int | None) -> None:
    assert order_bound([float(v) for v in range(n, 0, -1)], q) == rank


@given(st.integers(1, 400), st.sampled_from([0.5, 0.9, 0.95, 0.99]))
def test_the_rank_of_a_bound_is_the_lowest_that_the_binomial_allows(n: int, q: float) -> None:
    def below(rank: int) -> float:
        return math.fsum(math.comb(n, k) * q**k * (1 - q) ** (n - k) for k in range(rank))

    wanted = next((rank for rank in range(1, n + 1) if below(rank) >= 0.95 - 1e-12), None)
    assert order_bound([float(v) for v in range(1, n + 1)], q) == wanted


def test_a_bound_among_cut_calls_is_infinite() -> None:
    assert order_bound([1.0] * 95 + [math.inf] * 5, 0.95) == math.inf
    assert order_bound([1.0] * 299 + [math.inf], 0.95) == 1.0


# Bounds by blocks of time


def steady(values: list[float], every_s: float = 1.0) -> list[tuple[float, float]]:
    return [(n * every_s, value) for n, value in enumerate(values)]


def test_fewer_blocks_than_it_takes_samples_say_nothing() -> None:
    assert block_bound(steady([1.0] * 58), 0.95, block_s=1.0) is None
    assert block_bound(steady([1.0] * 59), 0.95, block_s=1.0) == 1.0
    assert block_bound(steady([1.0] * 5_000, 0.01), 0.95, block_s=1.0) is None
    assert block_bound([], 0.95, block_s=5.0) is None


@pytest.mark.parametrize(("q", "blocks"), [(0.5, 59), (0.9, 59), (0.95, 59), (0.99, 299)])
def test_as_many_blocks_are_asked_for_as_say_something(q: float, blocks: int) -> None:
    assert blocks_for_bound(q) == blocks
    assert block_bound(steady([1.0] * (blocks - 1)), q, block_s=1.0) is None
    assert block_bound(steady([1.0] * blocks), q, block_s=1.0) == 1.0


def test_blocks_without_a_call_are_none() -> None:
    spread = [(n * 10.0, 1.0) for n in range(58)]
    assert block_bound(spread, 0.95, block_s=1.0) is None


def test_a_burst_counts_as_one_and_scattered_samples_as_what_they_are() -> None:
    # 4 % of 1,200 are slow: all in the same 4 blocks of 100, or one here and there.
    burst = steady([9.0 if n // 12 in (10, 37, 61, 88) else 1.0 for n in range(1_200)], 1 / 12)
    scattered = steady([9.0 if n % 25 == 7 else 1.0 for n in range(1_200)], 1 / 12)
    assert block_bound(burst, 0.95, block_s=1.0) == 9.0
    assert block_bound(scattered, 0.95, block_s=1.0) == 9.0  # as the bound by single samples: 4 % of 1,200 are too near
    assert order_bound([value for _, value in burst], 0.95) == 9.0
    rare = steady([9.0 if n // 12 in (10, 61) else 1.0 for n in range(1_200)], 1 / 12)
    assert order_bound([value for _, value in rare], 0.95) == 1.0
    assert block_bound(rare, 0.95, block_s=1.0) == 9.0  # 2 blocks of 100: there may be 6


def test_a_stall_that_lies_in_two_blocks_counts_as_one() -> None:
    def of(*slow: int) -> float | None:
        return block_bound(steady([9.0 if n // 12 in slow else 1.0 for n in range(2_400)], 1 / 12), 0.95, block_s=1.0)

    assert of(7, 26) == 1.0
    assert of(7, 8) == 9.0


def test_a_block_weighs_the_same_however_few_calls_it_has() -> None:
    # A caller who waits makes one call in a slow second and a hundred in a quick one.
    samples = [(second + n / 100, 0.01) for second in range(90) for n in range(100)]
    samples += [(90.0 + second, 0.99) for second in range(10)]
    assert order_bound([value for _, value in samples], 0.95) == 0.01
    assert block_bound(samples, 0.95, block_s=1.0) == 0.99


def test_a_cut_call_is_over_every_bound() -> None:
    samples = steady([1.0 if n % 10 else math.inf for n in range(600)])
    assert block_bound(samples, 0.95, block_s=5.0) == math.inf
    assert block_bound(samples, 0.5, block_s=5.0) == 1.0


def test_where_samples_are_independent_it_agrees_with_the_order_statistics() -> None:
    rng = random.Random(5)
    samples = [(n / 10, rng.expovariate(1.0)) for n in range(4_000)]
    plain = order_bound([value for _, value in samples], 0.95)
    bound = block_bound(samples, 0.95, block_s=5.0)
    assert plain is not None
    assert bound is not None
    assert abs(bound - plain) < 0.1


@given(st.lists(st.floats(0, 100), min_size=60, max_size=200), st.floats(0.5, 0.95))
def test_a_bound_is_a_sample_no_lower_than_the_quantile_in_any_order(values: list[float], q: float) -> None:
    samples = steady(values)
    bound = block_bound(samples, q, block_s=1.0)
    plain = quantile(values, q)
    assert isinstance(plain, Exact)
    assert bound in values
    assert bound >= plain.value
    assert block_bound(samples[::-1], q, block_s=1.0) == bound


@pytest.mark.parametrize("wrong", [{"q": 0.0}, {"q": 1.0}, {"confidence": 1.0}, {"block_s": 0.0}])
def test_a_bound_out_of_range_is_an_error(wrong: dict[str, float]) -> None:
    given = {"q": 0.95, "block_s": 5.0, **wrong}
    with pytest.raises(ValueError, match="must lie"):
        block_bound([(0.0, 1.0)], given.pop("q"), **given)


# What the bounds promise, held against servers of known law: how often a bound covers the true quantile.

RUNS = 300
LEAST = 0.95 - 3 * math.sqrt(0.95 * 0.05 / RUNS)
"""What a bound of 95 % falls below once in a thousand seeds."""


def arrivals(rng: random.Random, span_s: float) -> list[float]:
    phase = rng.random()
    return [(n + phase) / 5.03 for n in range(int(span_s * 5.03))]


def independent(rng: random.Random, span_s: float) -> list[tuple[float, float]]:
    return [(due, rng.expovariate(1.0)) for due in arrivals(rng, span_s)]


def two_humps(rng: random.Random, span_s: float) -> list[tuple[float, float]]:
    return [(due, rng.uniform(2.0, 2.01) if rng.random() < 0.06 else 0.1) for due in arrivals(rng, span_s)]


def stalling(
    rng: random.Random, span_s: float, gap_s: float, stall_s: float, *, any_length: bool = False
) -> list[tuple[float, float]]:
    """A server that freezes for `stall_s`, after times of mean `gap_s`: who is due in a freeze waits for its end.

    `any_length`: for exponential times of that mean.
    """
    begin, end = -1.0, -60.0 * rng.random()
    samples = []
    for due in arrivals(rng, span_s):
        while end <= due:
            begin = end + rng.expovariate(1 / gap_s)
            end = begin + (rng.expovariate(1 / stall_s) if any_length else stall_s)
        samples.append((due, 0.02 + (end - due if due >= begin else 0.0)))
    return samples


def stalling_truth(gap_s: float, stall_s: float, q: float) -> float:
    """Of the time `stall_s / (gap_s + stall_s)` is a stall, and what is left of it is evenly spread."""
    return 0.02 + max(0.0, stall_s - (1 - q) * (gap_s + stall_s))


Law = Callable[[random.Random, float], list[tuple[float, float]]]
LAWS: dict[str, tuple[Law, float]] = {
    "independent": (independent, -math.log(0.05)),
    "two humps": (two_humps, 2.01 - 0.01 * 0.05 / 0.06),
    "2 s in 20": (lambda rng, span_s: stalling(rng, span_s, 18.0, 2.0), stalling_truth(18.0, 2.0, 0.95)),
    # What is left of an exponential stall is as long as all of it, on average.
    "about 2 s in 20": (
        lambda rng, span_s: stalling(rng, span_s, 18.0, 2.0, any_length=True),
        0.02 + 2.0 * math.log(0.1 / 0.05),
    ),
    "5 s in 95": (lambda rng, span_s: stalling(rng, span_s, 90.0, 5.0), stalling_truth(90.0, 5.0, 0.95)),
}


def covered(law: str, blocks: int, block_s: float) -> tuple[float, float]:
    """How often the bounds by blocks and by single samples cover the truth."""
    make, truth = LAWS[law]
    by_block = by_call = 0
    for run in range(RUNS):
        samples = make(random.Random(f"{law}/{blocks}/{run}"), blocks * block_s - 0.01)
        bound = block_bound(samples, 0.95, block_s=block_s)
        plain = order_bound([value for _, value in samples], 0.95)
        assert bound is not None
        by_block += bound >= truth
        by_call += plain is not None and plain >= truth
    return by_block / RUNS, by_call / RUNS


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("blocks", [59, 120])
def test_a_bound_covers_the_truth_as_often_as_it_says(law: str, blocks: int) -> None:
    by_block, by_call = covered(law, blocks, 5.0)
    assert by_block >= LEAST
    if " in " in law:  # what bursts do to a bound that takes each call for an independent one
        assert by_call < 0.9


def test_so_few_calls_cannot_see_what_comes_in_bursts_however_many_there_are_a_second() -> None:
    missed = 0
    for run in range(RUNS):
        samples = stalling(random.Random(f"short/{run}"), 9.0, 18.0, 2.0)
        missed += max(value for _, value in samples) < stalling_truth(18.0, 2.0, 0.95)
    assert missed > RUNS / 4
    assert block_bound(samples, 0.95, block_s=5.0) is None


@pytest.mark.parametrize(("rate", "n"), [(0.02, 100), (0.05, 60), (0.3, 40)])
def test_a_bound_of_a_rate_covers_the_true_rate(rate: float, n: int) -> None:
    rng = random.Random(f"rate/{rate}")
    hits = sum(rate_bound(sum(rng.random() < rate for _ in range(n)), n) >= rate for _ in range(RUNS))
    assert hits / RUNS >= LEAST


@pytest.mark.parametrize(
    ("ps", "adjusted"),
    [
        ([], []),
        ([0.04], [0.04]),
        ([0.01, 0.04, 0.03, 0.005], [0.03, 0.06, 0.06, 0.02]),  # the worked example of many textbooks
        ([0.5, 0.9, 0.9], [1.0, 1.0, 1.0]),
        ([0.02, 0.02], [0.04, 0.04]),
    ],
)
def test_of_many_figures_each_is_as_rare_as_it_is_among_all(ps: list[float], adjusted: list[float]) -> None:
    assert holm(ps) == pytest.approx(adjusted)
