"""The fault `reordered-events`, played by hand."""

import pytest

from tests.faults.streamlab import play, streamed


@pytest.mark.parametrize("dialect", ["openai_chat", "openai_responses", "anthropic", "gemini", "ollama"])
def test_neighbours_change_places_and_nothing_is_lost(dialect: str) -> None:
    upstream = streamed(dialect)
    played = play("reordered-events", upstream, dialect=dialect)
    at = [
        next(n for n, piece in enumerate(played.pieces) if word in piece)
        for word in (b"Hello", b" there", b" dear", b" user")
    ]
    assert at[1] < at[0] < at[3] < at[2]
    assert sorted(played.pieces) == sorted(event.body for event in upstream[1:-1])
    assert played.pieces[-1] == upstream[-2].body
    assert (played.end, played.met) == ("end", True)


def test_a_single_word_has_not_met_it() -> None:
    upstream = streamed("openai_chat", words=("Hello",))
    played = play("reordered-events", upstream)
    assert not played.met
    assert played.pieces == [event.body for event in upstream[1:-1]]
