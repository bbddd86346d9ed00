"""The law of a token bucket."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drillmaster.rules.token_bucket import Level, take

S = 1_000_000_000


def test_a_new_bucket_is_full_and_gives_its_capacity_at_once() -> None:
    level = None
    for left in (2.0, 1.0, 0.0):
        taken = take(level, 1, capacity=3, per_s=0.05, now_ns=0)
        assert (taken.allowed, taken.level.amount, taken.wait_s) == (True, left, 0.0)
        level = taken.level
    refused = take(level, 1, capacity=3, per_s=0.05, now_ns=0)
    assert (refused.allowed, refused.wait_s, refused.full_s) == (False, 20.0, 60.0)
    assert refused.level == level


@pytest.mark.parametrize("at_s, allowed", [(19.9, False), (20.0, True), (1e6, True)])
def test_it_refills_steadily(at_s: float, allowed: bool) -> None:
    taken = take(Level(0.0, 0), 1, capacity=3, per_s=0.05, now_ns=round(at_s * S))
    assert taken.allowed is allowed
    assert taken.level.amount <= 2


def test_what_is_larger_than_the_bucket_never_comes_through() -> None:
    assert take(None, 4, capacity=3, per_s=1, now_ns=0).wait_s is None
    assert not take(None, 4, capacity=3, per_s=1, now_ns=10**18).allowed


def test_time_that_goes_backwards_refills_nothing_and_is_not_counted_twice() -> None:
    back = take(Level(0.0, 60 * S), 1, capacity=3, per_s=0.05, now_ns=0)
    assert not back.allowed
    assert back.level == Level(0.0, 60 * S)


def test_being_refused_does_not_move_the_end_of_the_wait() -> None:
    level: Level | None = Level(0.0, 0)
    for tenth in range(199):
        taken = take(level, 1, capacity=1, per_s=0.05, now_ns=tenth * S // 10)
        assert not taken.allowed
        level = taken.level
    assert take(level, 1, capacity=1, per_s=0.05, now_ns=20 * S).allowed


@given(
    st.lists(st.tuples(st.integers(0, 5 * S), st.integers(1, 5)), max_size=60),
    st.integers(1, 20),
    st.floats(0.01, 100),
)
def test_no_more_is_granted_than_capacity_and_refill(steps: list[tuple[int, int]], capacity: int, per_s: float) -> None:
    level, now_ns, granted = None, 0, 0
    for gap_ns, amount in steps:
        now_ns += gap_ns
        taken = take(level, amount, capacity=capacity, per_s=per_s, now_ns=now_ns)
        level = taken.level
        granted += amount * taken.allowed
        assert 0 <= level.amount <= capacity
    assert granted <= capacity + now_ns / S * per_s + 1e-3


@given(st.floats(0, 10), st.integers(1, 10), st.floats(0.01, 100))
def test_the_wait_that_is_told_is_enough(amount: float, wanted: int, per_s: float) -> None:
    taken = take(Level(amount, 0), wanted, capacity=10, per_s=per_s, now_ns=0)
    assert taken.wait_s is not None
    again = take(taken.level, 0 if taken.allowed else wanted, capacity=10, per_s=per_s, now_ns=round(taken.wait_s * S))
    assert again.allowed
