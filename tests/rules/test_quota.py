"""The law of a quota: exact in any window, spaced at once."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drillmaster.rules import Step
from drillmaster.rules.quota import Granted, Spending, Take, take

S = 10**6
Limits = tuple[int, int, int]
LIMITS: Limits = (60 * S, 30, 5)  # window_us, cap, burst


def taken(spending: Spending | None, cost: Any, limits: Limits, now_us: Any) -> Step[Spending, Granted]:
    window_us, cap, burst = limits
    return take(spending, Take(cost=cost, window_us=window_us, cap=cap, burst=burst), now_us)


def steps(calls: list[tuple[int, int]], limits: Limits = LIMITS) -> list[Step[Spending, Granted]]:
    spending: Spending | None = None
    told = []
    for now_us, cost in calls:
        told.append(taken(spending, cost, limits, now_us))
        spending = told[-1].state
    return told


def played(calls: list[tuple[int, int]], limits: Limits = LIMITS) -> list[Granted]:
    return [step.told for step in steps(calls, limits)]


def test_a_burst_is_what_comes_at_once_and_the_next_is_told_when() -> None:
    told = played([(0, 1)] * 7)
    assert [one.allowed for one in told] == [True] * 5 + [False] * 2
    assert [one.wait_us for one in told[5:]] == [2 * S, 2 * S]  # one each two seconds
    assert played([(0, 1)] * 5 + [(2 * S, 1)])[-1].allowed


def test_no_window_holds_more_than_the_cap_where_spacing_alone_lets_34_through() -> None:
    burst_then_steady = [(0, 1)] * 5 + [(n * 2 * S, 1) for n in range(1, 30)]
    granted = [now for (now, _), one in zip(burst_then_steady, played(burst_then_steady), strict=True) if one.allowed]
    assert len([now for now in granted if now < 60 * S]) == 30


def test_what_was_granted_counts_for_one_whole_window_and_not_a_moment_longer() -> None:
    limits = (60 * S, 2, 2)
    told = played([(0, 2), (60 * S - 1, 1), (60 * S, 1)], limits)
    assert [one.allowed for one in told] == [True, False, True]
    assert told[1].wait_us == 1


@pytest.mark.parametrize(("cost", "wait_us"), [(5, 0), (6, None), (31, None), (10**12, None)])
def test_a_call_that_costs_more_than_may_come_at_once_never_comes(cost: int, wait_us: int | None) -> None:
    (one,) = played([(0, cost)])
    assert (one.allowed, one.wait_us) == (wait_us == 0, wait_us)


def test_being_refused_takes_nothing() -> None:
    told = played([(0, 1)] * 5 + [(0, 1)] * 1_000 + [(2 * S, 1)])
    assert told[-1].allowed and told[-1].left == 24


def test_a_clock_that_goes_back_stands_still() -> None:
    told = played([(100 * S, 5), (40 * S, 1), (101 * S, 1), (102 * S, 1)])
    assert [one.allowed for one in told] == [True, False, False, True]


def test_a_cap_that_was_lowered_holds_at_once() -> None:
    spending = steps([(n * 2 * S, 1) for n in range(20)])[-1].state
    lower = taken(spending, 1, (60 * S, 10, 5), 40 * S).told
    assert not lower.allowed and lower.left == 0
    # Eleven have to leave the window before one more is within ten.
    assert lower.wait_us == 20 * S + 60 * S - 40 * S
    higher = taken(spending, 1, (60 * S, 60, 5), 40 * S).told
    assert higher.allowed and higher.left == 39


@pytest.mark.parametrize(
    "wrong",
    [
        {"cap": 0}, {"cap": -1}, {"burst": 0}, {"burst": 31}, {"window_us": 0}, {"window_us": -1}, {"cap": float("nan")},
        {"cap": "30"}, {"burst": True}, {"window_us": 1.5}, {"cap": None},
    ],
)  # fmt: skip  # one case a piece
def test_limits_that_are_none_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"whole numbers|a cost"):
        Take(**{"cost": 1, "window_us": 60 * S, "cap": 30, "burst": 5, **wrong})


@pytest.mark.parametrize(
    ("cost", "now_us"), [(0, 0), (-5, 0), (1.5, 0), ("1", 0), (True, 0), (1, float("nan")), (1, None)]
)
def test_a_cost_or_a_time_that_is_none_is_refused(cost: Any, now_us: Any) -> None:
    with pytest.raises(ValueError, match=r"whole numbers|a cost|a time"):
        taken(None, cost, LIMITS, now_us)


@given(
    gaps=st.lists(st.tuples(st.integers(0, 7 * S), st.integers(1, 4)), max_size=120),
    cap=st.integers(1, 12),
    burst=st.integers(1, 12),
)
def test_in_any_window_at_most_the_cap_and_at_once_at_most_the_burst(
    gaps: list[tuple[int, int]], cap: int, burst: int
) -> None:
    limits = (20 * S, cap, min(cap, burst))
    calls, now_us = [], 0
    for gap, cost in gaps:
        now_us += gap
        calls.append((now_us, cost))
    granted = [(now, cost) for (now, cost), one in zip(calls, played(calls, limits), strict=True) if one.allowed]
    for start, _ in granted:
        assert sum(cost for now, cost in granted if start <= now < start + limits[0]) <= cap
        assert sum(cost for now, cost in granted if now == start) <= limits[2]


@given(
    gaps=st.lists(st.tuples(st.integers(0, 7 * S), st.integers(1, 4)), max_size=60),
    cap=st.integers(4, 12),
    burst=st.integers(4, 12),
)
def test_the_wait_that_is_told_is_enough_and_a_moment_less_is_not(
    gaps: list[tuple[int, int]], cap: int, burst: int
) -> None:
    limits = (20 * S, cap, min(cap, burst))
    spending: Spending | None = None
    now_us = 0
    for gap, cost in gaps:
        now_us += gap
        step = taken(spending, cost, limits, now_us)
        spending = step.state
        if not step.told.allowed:
            assert step.told.wait_us is not None and step.told.wait_us > 0
            assert taken(spending, cost, limits, now_us + step.told.wait_us).told.allowed
            assert not taken(spending, cost, limits, now_us + step.told.wait_us - 1).told.allowed
