"""The fault `hang-after-headers`, played by hand."""

from drillmaster.faults import make
from tests.faults.stage import Stage


def test_it_sends_the_real_head_and_waits_through_a_lift() -> None:
    played = Stage().play(make("hang-after-headers"), lift_after=3, max_actions=9)
    assert (played.status, played.sent, played.end) == (200, b"", "held")
    assert played.kinds() == ["Read", "Send"] + ["Wait"] * 7


def test_a_lost_upstream_is_left_to_the_driver() -> None:
    assert Stage(lost=True).play(make("hang-after-headers")).kinds() == ["Read"]
