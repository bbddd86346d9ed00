"""The fault `malformed-json`, played by hand."""

import json
from typing import Any

import pytest

from drillmaster.faults import End, Head
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


@pytest.mark.parametrize(
    ("tag", "params"), [("malformed-json", {}), ("wrong-model", {"model": "m"}), ("usage-skew", {"factor": 2})]
)
def test_the_head_of_an_answer_without_a_body_stays_as_it_is(tag: str, params: dict[str, Any]) -> None:
    upstream = [Head(200, (("content-type", "application/json"), ("content-length", "55"))), End()]  # to a HEAD
    played = play(tag, upstream, **params)
    assert (played.headers.get("content-length"), played.body, played.met) == ("55", b"", False)
