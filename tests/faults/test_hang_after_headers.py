"""The fault `hang-after-headers`, played by hand."""

import random

import pytest

from drillmaster.dialects import load
from drillmaster.faults import Cx, Head, Read, make
from tests.faults.stage import Stage


def test_it_sends_the_real_head_and_waits_through_a_lift() -> None:
    played = Stage().play(make("hang-after-headers"), lift_after=3, max_actions=9)
    assert (played.status, played.sent, played.end) == (200, b"", "held")
    assert played.kinds() == ["Read", "Send"] + ["Wait"] * 7


def test_a_lost_upstream_is_left_to_the_driver() -> None:
    assert Stage(lost=True).play(make("hang-after-headers")).kinds() == ["Read"]


def test_an_answer_without_a_body_passes() -> None:
    assert Stage().play(make("hang-after-headers"), method="HEAD").kinds() == ["Read"]
    for head in (Head(204), Head(304), Head(200, (("Content-Length", "0"),))):
        cx = Cx(
            request=None,
            conn=1,
            nth=1,
            dialect=load("plain"),
            make_rng=random.Random,
            now_ns=lambda: 0,
            cell=lambda key: {},
        )
        script = make("hang-after-headers").script(cx)
        assert isinstance(next(script), Read)
        with pytest.raises(StopIteration):
            script.send(head)
