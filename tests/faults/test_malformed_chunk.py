"""The fault `malformed-chunk`, played by hand."""

import json

import pytest

from tests.faults.streamlab import PATHS, body_of, play, streamed


@pytest.mark.parametrize("dialect", PATHS)
@pytest.mark.parametrize("after_events", [0, 1, 2, None])
def test_one_event_is_no_json_and_the_others_are(dialect: str, after_events: int | None) -> None:
    upstream = streamed(dialect)
    played = play("malformed-chunk", upstream, dialect=dialect, after_events=after_events)
    assert played.end == "end"
    assert len(played.pieces) == len(upstream) - 2
    originals = [event.body for event in upstream[1:-1]]
    [(old, new)] = [pair for pair in zip(originals, played.pieces, strict=True) if pair[0] != pair[1]]
    assert new[-1:] == b"\n"
    text = new.strip().rpartition(b"\n")[2].removeprefix(b"data: ")
    assert text.startswith(b"{")
    assert len(new) < len(old)
    with pytest.raises(ValueError):
        json.loads(text)


def test_framing_sends_a_chunk_whose_size_is_no_number() -> None:
    upstream = streamed("openai_chat")
    played = play("malformed-chunk", upstream, after_events=1, where="framing")
    assert played.body.startswith(body_of(upstream[:2]) + b"zz\r\ndata: {")
    assert played.end == "fin"
