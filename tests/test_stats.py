import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drillmaster.stats import MIN_BLOCKS, block_bound, calls_for_rate, median, quantile, rate_bound, samples_for_bound
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


@pytest.mark.parametrize("wrong", [(-1, 10, 0.95), (11, 10, 0.95), (0, 0, 0.95), (0, 10, 1.0)])
def test_what_is_no_rate_is_refused(wrong: tuple[int, int, float]) -> None:
    with pytest.raises(ValueError, match="no rate"):
        rate_bound(*wrong)


def stalling(
    seconds: float, *, rate: float = 20.0, period_s: float = 10.0, stall_s: float = 2.0, phase_s: float = 0.0
) -> list[tuple[float, float]]:
    """Open arrivals at a server that freezes `stall_s` in each `period_s`: who is due in a freeze waits for its end."""
    samples = []
    for n in range(int(seconds * rate)):
        due = n / rate
        into = (due + phase_s) % period_s
        samples.append((due, 0.02 + max(0.0, stall_s - into)))
    return samples


def test_samples_of_one_burst_are_one_and_few_blocks_say_nothing() -> None:
    samples = stalling(9.0, phase_s=2.5)  # 180 calls, more than enough for p95, and not one stall among most of them
    assert isinstance(quantile([value for _, value in samples], 0.95), Exact)
    assert block_bound(samples, 0.95, block_s=5.0) is None
    assert block_bound([], 0.95, block_s=5.0) is None


def test_the_bound_by_blocks_covers_what_the_one_by_calls_misses() -> None:
    # Truth: each call falls into a stall with 0.2, and p95 lies 1.52 s up. The phase of the stalls is what varies.
    truth = 1.52
    runs = [stalling(103.0, rate=5.0, phase_s=0.37 * k, period_s=10.3) for k in range(28)]
    by_blocks = [block_bound(run, 0.95, block_s=5.0, seed=k) for k, run in enumerate(runs)]
    assert sum(bound is not None and bound >= truth for bound in by_blocks) >= 25


def test_where_samples_are_independent_it_agrees_with_the_order_statistics() -> None:
    rng = random.Random(5)
    samples = [(n / 10, rng.expovariate(1.0)) for n in range(2_000)]
    values = [value for _, value in samples]
    plain = quantile(values, 0.95, confidence=0.90)
    bound = block_bound(samples, 0.95, block_s=5.0)
    assert isinstance(plain, Exact)
    assert plain.high is not None
    assert bound is not None
    assert plain.value < bound
    assert abs(bound - plain.high) < 0.25
    assert block_bound(samples, 0.95, block_s=5.0) == bound


def test_a_cut_call_is_over_every_bound() -> None:
    samples = [(float(n), 1.0 if n % 10 else math.inf) for n in range(200)]
    assert block_bound(samples, 0.95, block_s=5.0) == math.inf
    assert block_bound(samples, 0.5, block_s=5.0) == 1.0


@pytest.mark.parametrize("wrong", [{"q": 0.0}, {"q": 1.0}, {"confidence": 1.0}, {"block_s": 0.0}])
def test_a_bound_out_of_range_is_an_error(wrong: dict[str, float]) -> None:
    given = {"q": 0.95, "block_s": 5.0, **wrong}
    with pytest.raises(ValueError, match="must lie"):
        block_bound([(0.0, 1.0)], given.pop("q"), **given)  # type: ignore[arg-type]


def test_the_least_number_of_blocks_is_what_it_says() -> None:
    assert block_bound([(float(n), 1.0) for n in range(MIN_BLOCKS - 1)], 0.5, block_s=1.0) is None
    assert block_bound([(float(n), 1.0) for n in range(MIN_BLOCKS)], 0.5, block_s=1.0) == 1.0
