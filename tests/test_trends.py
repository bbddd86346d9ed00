"""Runs against the runs before: the exact test, its bound, and what too few runs cannot say."""

import itertools
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drillmaster.trends import Compared, _orders, among_all, better, compare, runs_before

# What it takes, counted by hand: 1 / C(n + k, k) <= 0.05


@pytest.mark.parametrize("newest, before", [(1, 19), (2, 5), (3, 3), (4, 3), (5, 2)])
def test_so_many_runs_before_it_takes(newest: int, before: int) -> None:
    assert 1 / math.comb(before + newest, newest) <= 0.05 < 1 / math.comb(before - 1 + newest, newest)
    assert runs_before(newest) == before


@pytest.mark.parametrize("n, k", [(3, 2), (5, 3), (4, 4)])
def test_orders_are_counted_as_one_counts_them_one_by_one(n: int, k: int) -> None:
    by_u = [0] * (n * k + 1)
    for chosen in itertools.combinations(range(n + k), k):
        new = set(chosen)
        by_u[sum(1 for one in new for old in range(n + k) if old not in new and old > one)] += 1
    assert list(_orders(n, k)) == by_u


def test_one_run_above_nineteen_is_a_regression_and_above_eighteen_is_refused() -> None:
    before = [float(one) for one in range(1, 20)]
    told = compare("p95_latency", before, [20.0])
    assert (told.word, told.at_least, told.shift) == ("worse", 1.0, 10.0)
    assert told.p == pytest.approx(0.05)
    few = compare("p95_latency", before[1:], [20.0])
    assert few.word == "refused"
    assert "19 or more" in few.why
    assert few.median == 10.0  # what there is is told


def test_equal_figures_are_not_worse() -> None:
    told = compare("p95_latency", [1.0] * 30, [1.0])
    assert (told.word, told.at_least) == ("not worse", 0.0)


def test_outside_the_medians_interval_alone_is_no_regression() -> None:
    told = compare("p95_latency", [float(one) for one in range(1, 41)], [30.0])
    assert told.high is not None and told.high < 30.0
    assert told.word == "not worse"


def test_more_success_is_better() -> None:
    before = [0.99] * 10 + [0.995] * 10
    assert compare("tool_success_ratio", before, [0.7]).word == "worse"
    assert compare("tool_success_ratio", before, [1.0]).word == "not worse"


def test_a_name_that_says_no_way_is_refused_until_somebody_says_it() -> None:
    assert compare("level.n", [1.0] * 30, [2.0]).word == "refused"
    assert compare("level.n", [1.0] * 30, [2.0], way="lower").word == "worse"


def test_an_old_figure_that_was_cut_proves_nothing_and_a_new_one_is_taken_at_its_word() -> None:
    before = [float(one) for one in range(1, 20)]
    told = compare("delay_s", before, [20.0], cut_before=[False] * 18 + [True])
    assert told.word == "not worse"
    assert told.at_least is None
    assert compare("delay_s", before, [60.0]).word == "worse"


@pytest.mark.parametrize(
    "name, way",
    [
        ("p95_latency", "lower"), ("detector_delay_ms", "lower"), ("pager_ack_seconds", "lower"), ("fallback_s", "lower"),
        ("row.tool-success_ratio", "higher"), ("row.replay-availability_ratio", "higher"), ("warm_c4.n", None),
        ("idle_s", "lower"), ("mission_success_ratio", "higher"), ("colour", None),
    ],
)  # fmt: skip
def test_which_way_is_better_is_told_by_the_name(name: str, way: str | None) -> None:
    assert better(name) == way


@given(
    st.lists(st.floats(0, 100), min_size=3, max_size=25), st.lists(st.floats(0, 100), min_size=1, max_size=4), st.floats(0.1, 9)
)  # fmt: skip
def test_worse_exactly_when_the_bound_is_above_nothing_and_the_test_says_so(
    before: list[float], newest: list[float], more: float
) -> None:
    told = compare("x_s", before, newest)
    if told.word == "refused":
        return
    assert told.p is not None and told.at_least is not None
    assert (told.word == "worse") == (told.at_least > 0) == (told.p <= 0.05 + 1e-12)
    worse = compare("x_s", before, [one + more for one in newest])
    assert worse.at_least is not None and worse.at_least >= told.at_least


@pytest.mark.parametrize("newest", [[], [math.nan], [math.inf]])
def test_figures_are_finite(newest: list[float]) -> None:
    with pytest.raises(ValueError):
        compare("x_s", [1.0], newest)


def test_each_figure_says_how_rare_it_is_among_all_that_were_compared() -> None:
    def one(figure: str, new: float) -> Compared:
        return compare(figure, [float(n) for n in range(19)], [new])

    worse, same, refused = one("a_s", 99.0), one("b_s", 0.0), compare("c_s", [1.0], [2.0])
    assert [found.p_of_all for found in among_all([worse, same, refused])] == [0.1, 1.0, None]
    assert among_all([worse, refused]) == (worse, refused)  # asked alone
