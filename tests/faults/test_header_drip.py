"""The fault `header-drip`, played by hand."""

import pytest

from drillmaster.errors import Problem
from drillmaster.faults import Raw, Send, make
from tests.faults.stage import Stage

HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nconnection: close\r\n\r\n"


def test_it_sends_the_head_byte_by_byte_and_then_the_body() -> None:
    played = Stage(upstream=b"body").play(make("header-drip", {"bytes_per_s": 10}))
    raw = [action.part for action in played.actions if isinstance(action, Send) and isinstance(action.part, Raw)]
    assert [len(part.wire) for part in raw] == [1] * len(HEAD)
    assert [part.status for part in raw] == [None] * (len(HEAD) - 1) + [200]
    assert played.sent == HEAD + b"body"
    assert played.waited_s == pytest.approx((len(HEAD) - 1) / 10)
    assert played.end == "returned"


@pytest.mark.parametrize("lift_after", [3, 51])
def test_at_the_lift_the_rest_goes_through(lift_after: int) -> None:
    played = Stage(upstream=b"body").play(make("header-drip", {"bytes_per_s": 10}), lift_after=lift_after)
    assert (played.sent, played.end) == (HEAD + b"body", "returned")


def test_a_lost_upstream_is_left_to_the_driver() -> None:
    assert Stage(lost=True).play(make("header-drip", {"bytes_per_s": 10})).kinds() == ["Read"]


@pytest.mark.parametrize("bytes_per_s", [None, 0, -1, float("nan"), float("inf"), "5", True, 1e12])
def test_nonsense_is_refused_by_the_name_of_its_field(bytes_per_s: object) -> None:
    with pytest.raises(Problem, match="bytes_per_s"):
        make("header-drip", {"bytes_per_s": bytes_per_s})
