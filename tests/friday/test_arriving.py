"""When missions arrive."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from drillmaster.friday.arriving import due_ns
from drillmaster.friday.missions import Arrivals, arriving

_PHASES = st.lists(
    st.builds(
        Arrivals,
        for_s=st.floats(0.5, 60),
        per_s=st.floats(0, 40),
        to_per_s=st.none() | st.floats(0, 40),
        max_open=st.none() | st.integers(1, 9),
    ),
    min_size=1,
    max_size=4,
).map(tuple)


def _times(*phases: Arrivals) -> list[float]:
    return [ns / 1e9 for ns, _ in due_ns(phases)]


@given(phases=_PHASES)
def test_a_schedule_is_in_order_and_has_as_many_as_was_said(phases: tuple[Arrivals, ...]) -> None:
    times = [ns for ns, _ in due_ns(phases)]
    assert times == sorted(times)
    assert len(times) == arriving(phases)
    assert all(0 <= ns <= sum(p.for_s for p in phases) * 1e9 + 1 for ns in times)


def test_fifty_that_become_two_hundred_are_112_500_in_900_s() -> None:
    launch = (Arrivals(for_s=900, per_s=50, to_per_s=200),)
    assert arriving(launch) == 112_500
    times = _times(*launch)
    # The rate at t is 50 + t/6: 75,000/9 of the first third's middle, by hand 300 * (50 + 100) / 2 = 22,500.
    assert sum(t < 300 for t in times) == 22_500
    assert sum(t >= 899 for t in times) == 200


def test_a_steady_phase_is_evenly_spaced_and_off_its_edges() -> None:
    assert _times(Arrivals(for_s=2, per_s=2)) == [0.25, 0.75, 1.25, 1.75]


def test_a_pause_brings_nobody_and_moves_the_rest() -> None:
    assert _times(Arrivals(for_s=5), Arrivals(for_s=1, per_s=1)) == [5.5]


def test_a_rate_may_go_down_to_nothing() -> None:
    times = _times(Arrivals(for_s=10, per_s=2, to_per_s=0))
    assert len(times) == 10
    gaps = [b - a for a, b in pairwise(times)]
    assert gaps == sorted(gaps)


def test_a_phase_says_how_many_may_be_open() -> None:
    assert [most for _, most in due_ns((Arrivals(for_s=1, per_s=1, max_open=3), Arrivals(for_s=1, per_s=1)))] == [
        3,
        None,
    ]
