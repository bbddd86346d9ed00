"""The fault `ping-stall`, played by hand."""

import pytest

from drillmaster.dialects import Says, load
from tests.faults.streamlab import PATHS, body_of, play, streamed


@pytest.mark.parametrize("dialect", PATHS)
def test_nothing_but_pings_comes_and_each_says_nothing(dialect: str) -> None:
    upstream = streamed(dialect)
    played = play("ping-stall", upstream, dialect=dialect, every_ms=250, max_actions=100)
    assert played.end == "stuck"
    assert set(played.waits) == {0.25}
    assert len(played.waits) > 10
    assert not load(dialect).says(played.pieces[-1]) & (Says.CONTENT | Says.TOOL | Says.FINISH | Says.ERROR)


def test_an_imitated_api_pings_as_what_it_imitates() -> None:
    upstream = streamed("ollama", path="/v1/chat/completions")
    played = play("ping-stall", upstream, dialect="ollama", path="/v1/chat/completions", max_actions=40)
    assert played.pieces[-1].startswith(b":")


def test_the_pings_come_behind_the_events_that_were_let_through() -> None:
    upstream = streamed("openai_chat")
    played = play("ping-stall", upstream, after_events=2, max_actions=20)
    assert played.body.startswith(body_of(upstream[:3]) + b": ")
