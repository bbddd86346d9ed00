"""The fault `slow-close`, played by hand."""

import pytest

from drillmaster.errors import Problem
from drillmaster.faults import make
from tests.faults.stage import Stage


def test_it_takes_the_length_away_and_ends_late() -> None:
    played = Stage(upstream=b"body").play(make("slow-close", {"delay_ms": 1500}))
    assert played.sent == b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nconnection: close\r\n\r\nbody"
    assert (played.waited_s, played.end, played.kinds()[-1]) == (1.5, "returned", "Wait")


def test_an_answer_to_head_has_no_body_to_be_late_with() -> None:
    assert Stage().play(make("slow-close", {"delay_ms": 1500}), method="HEAD").kinds() == ["Read"]


def test_a_lost_upstream_is_left_to_the_driver() -> None:
    assert Stage(lost=True).play(make("slow-close", {"delay_ms": 1500})).kinds() == ["Read"]


@pytest.mark.parametrize("delay_ms", [None, 0, -1, 1.5, float("nan"), 600_001])
def test_nonsense_is_refused_by_the_name_of_its_field(delay_ms: object) -> None:
    with pytest.raises(Problem, match="delay_ms"):
        make("slow-close", {"delay_ms": delay_ms})
