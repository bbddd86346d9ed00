"""The fault `throttle`, played by hand."""

import pytest

from drillmaster.errors import Problem
from drillmaster.faults import make
from tests.faults.stage import Stage


@pytest.mark.parametrize("bytes_per_s", [40, 1_000, 20.5])
def test_it_takes_as_long_as_the_rate_says(bytes_per_s: float) -> None:
    played = Stage(upstream=b"x" * 1_000).play(make("throttle", {"bytes_per_s": bytes_per_s}))
    assert (played.passed_bytes, played.end) == (1_000, "returned")
    assert 0.94 * 1_000 / bytes_per_s <= played.waited_s <= 1_000 / bytes_per_s


def test_at_the_lift_the_rest_goes_through() -> None:
    played = Stage(upstream=b"x" * 1_000).play(make("throttle", {"bytes_per_s": 1}), lift_after=4)
    assert (played.passed_bytes, played.end) == (2, "returned")


def test_an_empty_answer_is_not_slowed() -> None:
    assert Stage(upstream=b"").play(make("throttle", {"bytes_per_s": 1})).kinds() == ["Pass"]


@pytest.mark.parametrize("bytes_per_s", [None, 0, -1, float("nan"), float("inf"), "5", True, 1e12])
def test_nonsense_is_refused_by_the_name_of_its_field(bytes_per_s: object) -> None:
    with pytest.raises(Problem, match="bytes_per_s"):
        make("throttle", {"bytes_per_s": bytes_per_s})
