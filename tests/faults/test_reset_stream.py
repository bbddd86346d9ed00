"""The fault `reset-stream`, played by hand."""

from tests.faults.streamlab import body_of, play, streamed


def test_it_resets_behind_the_last_word_that_was_let_through() -> None:
    upstream = streamed("openai_responses")
    played = play("reset-stream", upstream, dialect="openai_responses", after_events=4)
    assert (played.body, played.end, played.met) == (body_of(upstream[:5]), "rst", True)


def test_none_lets_all_words_through() -> None:
    played = play("reset-stream", streamed("openai_chat"))
    assert played.end == "rst"
    assert b" user" in played.body
    assert b"[DONE]" not in played.body
