"""The fault `cut-stream`, played by hand."""

import pytest

from drillmaster.errors import Problem
from drillmaster.faults import make
from tests.faults.streamlab import body_of, play, streamed


@pytest.mark.parametrize("after_bytes", [1, 10, 300, 301, 700])
def test_after_bytes_may_cut_an_event_in_two(after_bytes: int) -> None:
    upstream = streamed("anthropic")
    played = play("cut-stream", upstream, dialect="anthropic", after_bytes=after_bytes)
    assert (played.body, played.end) == (body_of(upstream)[:after_bytes], "fin")


def test_more_bytes_than_there_are_cut_before_the_end() -> None:
    upstream = streamed("openai_chat")
    played = play("cut-stream", upstream, after_bytes=1_000_000)
    assert (played.end, played.met) == ("fin", True)
    assert body_of(upstream).startswith(played.body)
    assert b'"finish_reason":"' not in played.body


def test_after_events_cuts_between_two_events() -> None:
    upstream = streamed("openai_chat")
    played = play("cut-stream", upstream, after_events=2)
    assert (played.body, played.end) == (body_of(upstream[:3]), "fin")


def test_one_of_both_is_enough() -> None:
    with pytest.raises(Problem, match="wanted one of the two"):
        make("cut-stream", {"after_events": 1, "after_bytes": 1})
