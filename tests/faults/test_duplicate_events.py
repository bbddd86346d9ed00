"""The fault `duplicate-events`, played by hand."""

import pytest

from drillmaster.dialects import ToolCall
from tests.faults.streamlab import play, streamed


@pytest.mark.parametrize("dialect", ["openai_chat", "openai_responses", "anthropic", "gemini", "ollama"])
def test_words_stand_twice_and_the_end_once(dialect: str) -> None:
    upstream = streamed(dialect)
    played = play("duplicate-events", upstream, dialect=dialect)
    twice = [piece for piece in played.pieces if played.pieces.count(piece) == 2]
    assert len(twice) in (8, 10)  # Gemini's last word comes with the end
    assert played.pieces[-1] == upstream[-2].body
    assert played.end == "end"


def test_every_second_one() -> None:
    upstream = streamed("openai_chat")
    played = play("duplicate-events", upstream, every=2)
    assert len(played.pieces) == len(upstream) - 2 + 2


def test_pieces_of_a_tool_call_are_doubled_too() -> None:
    call = ToolCall(id="call_1", name="f", arguments='{"a": 1}')
    upstream = streamed("openai_chat", words=(), tools=(call,), finish="tool")
    played = play("duplicate-events", upstream)
    assert len(played.pieces) == len(upstream) - 2 + 3


def test_a_stream_without_a_word_has_not_met_it() -> None:
    assert not play("duplicate-events", streamed("openai_chat", words=())).met
