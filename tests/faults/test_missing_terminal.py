"""The fault `missing-terminal`, played by hand."""

import pytest

from tests.faults.streamlab import PATHS, play, streamed

TERMINAL = {
    "openai_chat": b"[DONE]",
    "azure_openai": b"[DONE]",
    "openrouter": b"[DONE]",
    "groq": b"[DONE]",
    "mistral": b"[DONE]",
    "openai_responses": b"response.completed",
    "anthropic": b"message_stop",
    "gemini": b"finishReason",
    "ollama": b'"done":true',
}


@pytest.mark.parametrize("dialect", PATHS)
def test_the_last_word_is_missing_and_all_words_of_the_model_are_there(dialect: str) -> None:
    played = play("missing-terminal", streamed(dialect), dialect=dialect)
    assert (played.end, played.met) == ("end", True)
    assert TERMINAL[dialect] not in played.body
    assert b" user" in played.body


@pytest.mark.parametrize("dialect, reason", [("openai_chat", b'"stop"'), ("anthropic", b'"end_turn"')])
def test_a_reason_in_an_event_of_its_own_goes_through(dialect: str, reason: bytes) -> None:
    assert reason in play("missing-terminal", streamed(dialect), dialect=dialect).body
