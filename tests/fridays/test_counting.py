"""Counts over a Friday's columns, against counts made another way."""

import math
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from drillmaster.fridays import HeldAt, Killed, Missions
from drillmaster.fridays.counting import held, kill, ratio
from drillmaster.verdict import Absent, AtLeast, Exact


def spans(*pairs: tuple[float, float]) -> Missions:
    n = len(pairs)
    return Missions(
        ids=tuple(map(str, range(n))),
        sent_s=[a for a, _ in pairs],
        end_s=[b for _, b in pairs],
        due_s=[a for a, _ in pairs],
        result=[0] * n,
    )


def test_what_is_in_flight_is_the_area_over_the_time() -> None:
    found = held(spans((0, 4), (2, 6), (-5, 1), (9, math.nan)), HeldAt(), (0, 10), 20)
    assert found.by_missions == pytest.approx((4 + 4 + 1 + 1) / 10)
    assert (found.most, found.busy_ratio) == (2, pytest.approx(0.7))
    assert found.by_driver is None


@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 40), st.integers(0, 15)), max_size=25), st.integers(1, 40))
def test_it_is_what_counting_second_by_second_gives(drawn: list[tuple[int, int]], until: int) -> None:
    missions = spans(*((float(begin), float(begin + long)) for begin, long in drawn))
    found = held(missions, HeldAt(), (0.0, float(until)), 100.0)
    each = [sum(begin <= second < begin + long for begin, long in drawn) for second in range(until)]
    assert found.by_missions == pytest.approx(sum(each) / until)
    assert found.busy_ratio == pytest.approx(sum(n > 0 for n in each) / until)
    assert found.most >= max(each, default=0)


def test_the_drivers_own_count_is_taken_where_it_covers_the_time() -> None:
    missions = spans((0, 10), (0, 10))
    assert held(missions, HeldAt(from_s=[0, 5], to_s=[5, 10], mean=[2, 1]), (0, 10), 10).mean == pytest.approx(1.5)
    assert held(missions, HeldAt(from_s=[0], to_s=[2], mean=[0]), (0, 10), 10).mean == pytest.approx(2)


@pytest.mark.parametrize(
    ("more", "wanted"),
    [
        ({"refused": 0}, "no call of refund was refused"),
        ({"refused": 0, "ran": 40, "last_end_s": 19.9}, AtLeast(9.9, n=40)),
        ({"refused": 3}, Exact(0.0, n=3)),
        ({"refused": 3, "ran": 2, "last_end_s": 10.7}, Exact(0.7, n=5)),
        ({"refused": 3, "drained_s": {"a": 0.4, "b": 0.9}}, Exact(0.9, n=3)),
        ({"refused": 3, "drained_s": {"a": 0.4}, "undrained": ("b",), "over_s": 30.0}, AtLeast(30.0, n=3)),
    ],
)
def test_a_kill_took_until_the_last_of_all(more: dict[str, Any], wanted: Any) -> None:
    told = kill(Killed(capability="refund", killed_s=10.0, **more))
    if isinstance(told, Absent):
        assert told.why.startswith(wanted)
    else:
        assert type(told) is type(wanted)
        assert (told.value, told.n) == (pytest.approx(wanted.value), wanted.n)


def test_a_share_of_nothing_is_none() -> None:
    assert isinstance(ratio(0, 0), Absent)
