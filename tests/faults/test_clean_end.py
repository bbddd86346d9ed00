"""The fault `clean-end`, played by hand."""

import pytest

from drillmaster.dialects import Ending, load
from tests.faults.streamlab import PATHS, body_of, play, streamed


@pytest.mark.parametrize("dialect", PATHS)
def test_all_words_come_and_no_end(dialect: str) -> None:
    upstream = streamed(dialect)
    played = play("clean-end", upstream, dialect=dialect)
    assert (played.status, played.end, played.met) == (200, "end", True)
    for word in (b"Hello", b"there", b"dear", b"user"):
        assert word in played.body
    content = played.headers["content-type"].encode()
    assert load(dialect).ending(200, content, body_of(upstream), True) is Ending.COMPLETE
    assert load(dialect).ending(200, content, played.body, True) is Ending.CUT


@pytest.mark.parametrize("after_events", [0, 1, 3])
def test_after_events_counts_what_goes_through(after_events: int) -> None:
    upstream = streamed("openai_chat")
    played = play("clean-end", upstream, after_events=after_events)
    assert played.body == body_of(upstream[: 1 + after_events])
    assert played.end == "end"


def test_close_frames_the_stream_by_the_end_of_its_connection() -> None:
    played = play("clean-end", streamed("openai_chat"), framing="close", after_events=1)
    head, _, body = played.body.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200 OK\r\n")
    assert b"connection: close" in head
    assert b"transfer-encoding" not in head.lower()
    assert b"content-length" not in head.lower()
    assert body.startswith(b"data: {")


def test_two_choices_are_both_without_a_reason() -> None:
    played = play("clean-end", streamed("openai_chat"))
    assert b'"finish_reason":"' not in played.body
