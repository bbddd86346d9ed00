"""The fault `malformed-json`, played by hand."""

import json

import pytest

from tests.faults.streamlab import PATHS, body_of, play, streamed, whole


@pytest.mark.parametrize("dialect", PATHS)
def test_it_is_well_framed_and_no_json(dialect: str) -> None:
    upstream = whole(dialect)
    played = play("malformed-json", upstream, dialect=dialect)
    assert (played.status, played.end) == (200, "end")
    assert body_of(upstream).startswith(played.body)
    assert int(played.headers["content-length"]) == len(played.body) < len(body_of(upstream))
    with pytest.raises(ValueError):
        json.loads(played.body)


def test_a_stream_passes() -> None:
    played = play("malformed-json", streamed("openai_chat"))
    assert (played.status, played.met) == (None, False)
