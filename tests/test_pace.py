"""The schedule: due times that nothing moves."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drillmaster.pace import Steady, arrivals_in

S = 10**9


def test_a_period_of_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="at least 1 ns"):
        Steady(start_ns=0, every_ns=0)


@pytest.mark.parametrize(
    ("window_s", "every_s", "requests"),
    [
        (0, 5, 0),
        (2.4, 5, 0),  # the first is due half a period in
        (2.5, 5, 0),  # and not before its own instant is over
        (2.6, 5, 1),
        (900, 5, 180),
        (1800, 5, 360),
        (30, 5 / 30, 180),  # 0.1666... repeats; the count does not care
        (60, 0.1, 600),
    ],
)
def test_a_window_holds_so_many_requests(window_s: float, every_s: float, requests: int) -> None:
    assert arrivals_in(window_s, every_s) == requests


@given(start=st.integers(0, 10**18), every=st.integers(1, 10**12), nth=st.integers(0, 10**6))
def test_each_request_is_one_period_after_the_one_before(start: int, every: int, nth: int) -> None:
    pace = Steady(start_ns=start, every_ns=every)
    assert pace.due_ns(nth + 1) - pace.due_ns(nth) == every
    assert pace.due_ns(0) >= start


@given(
    start=st.integers(0, 10**12), every=st.integers(1, 10**9), low=st.integers(0, 10**12), length=st.integers(0, 10**10)
)
def test_the_count_is_that_of_the_due_times(start: int, every: int, low: int, length: int) -> None:
    pace = Steady(start_ns=start, every_ns=every * 1000)
    first = max(0, (low - start) // (every * 1000) - 2)
    listed = [n for n in range(first, first + length // (every * 1000) + 6) if low <= pace.due_ns(n) < low + length]
    assert pace.count(low, low + length) == len(listed)


@given(st.lists(st.integers(0, 10**12), min_size=3, max_size=3).map(sorted))
def test_counts_of_neighbouring_windows_add_up(edges: list[int]) -> None:
    pace = Steady(start_ns=5, every_ns=7 * S)
    low, middle, high = edges
    assert pace.count(low, middle) + pace.count(middle, high) == pace.count(low, high)
