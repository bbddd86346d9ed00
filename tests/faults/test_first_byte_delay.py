"""The fault `first-byte-delay`, played by hand."""

import pytest

from drillmaster.errors import Problem
from drillmaster.faults import make
from tests.faults.stage import Stage


def test_it_asks_the_upstream_first_and_then_waits() -> None:
    played = Stage().play(make("first-byte-delay", {"delay_ms": 250}))
    assert (played.kinds(), played.waited_s, played.end) == (["Read", "Wait"], 0.25, "returned")


def test_the_jitter_stays_within_its_bounds_and_is_drawn_by_the_seed() -> None:
    fault = make("first-byte-delay", {"delay_ms": 250, "jitter_ms": 100})
    waited = {Stage().play(fault).waited_s for _ in range(5)}
    assert len(waited) == 1
    assert 0.15 <= waited.pop() <= 0.35


def test_a_lost_upstream_is_not_waited_for() -> None:
    assert Stage(lost=True).play(make("first-byte-delay", {"delay_ms": 250})).kinds() == ["Read"]


@pytest.mark.parametrize("lift_after", [1, 2])
def test_at_the_lift_the_answer_goes_through(lift_after: int) -> None:
    assert Stage().play(make("first-byte-delay", {"delay_ms": 60_000}), lift_after=lift_after).end == "returned"


@pytest.mark.parametrize(
    "params, field",
    [
        ({}, "delay_ms"),
        ({"delay_ms": 0}, "delay_ms"),
        ({"delay_ms": -1}, "delay_ms"),
        ({"delay_ms": float("nan")}, "delay_ms"),
        ({"delay_ms": 600_001}, "delay_ms"),
        ({"delay_ms": 5, "jitter_ms": 6}, "jitter_ms"),
        ({"delay_ms": 5, "jitter_ms": -1}, "jitter_ms"),
    ],
)
def test_nonsense_is_refused_by_the_name_of_its_field(params: dict[str, object], field: str) -> None:
    with pytest.raises(Problem, match=field):
        make("first-byte-delay", params)
