"""The fault `error-event`, played by hand."""

import json

import pytest

from drillmaster.dialects import Ending, load
from tests.faults.streamlab import PATHS, body_of, play, streamed


@pytest.mark.parametrize("dialect", PATHS)
def test_the_answer_ends_in_an_error_of_the_api(dialect: str) -> None:
    played = play("error-event", streamed(dialect), dialect=dialect)
    assert (played.status, played.end) == (200, "end")
    content = played.headers["content-type"].encode()
    assert load(dialect).ending(200, content, played.body, True) is Ending.ERROR


@pytest.mark.parametrize(
    ("shape", "kind", "nested"),
    [("flat", "error", False), ("nested", "error", True), ("failed", "response.failed", None)],
)
def test_responses_have_three_shapes(shape: str, kind: str, nested: bool | None) -> None:
    upstream = streamed("openai_responses")
    played = play("error-event", upstream, dialect="openai_responses", shape=shape, after_events=2, condition="rate")
    assert played.body.startswith(body_of(upstream[:3]))
    value = json.loads(played.pieces[-1].partition(b"data: ")[2])
    assert value["type"] == kind
    if nested is not None:
        assert ("error" in value) is nested


def test_a_provider_of_two_apis_has_the_shape_of_the_path() -> None:
    path = "/openai/v1/responses"
    upstream = streamed("azure_openai", path=path)
    played = play("error-event", upstream, dialect="azure_openai", path=path)
    assert b'"type":"error"' in played.pieces[-1]
    played = play("error-event", streamed("azure_openai"), dialect="azure_openai")
    assert b'"error":{' in played.pieces[-1]


def test_a_shape_that_the_api_does_not_have_is_its_usual_one() -> None:
    played = play("error-event", streamed("anthropic"), dialect="anthropic", shape="flat")
    assert played.pieces[-1].startswith(b"event: error\n")
    assert b"overloaded_error" in played.pieces[-1]


def test_ollama_says_it_in_a_line() -> None:
    played = play("error-event", streamed("ollama"), dialect="ollama")
    assert list(json.loads(played.pieces[-1])) == ["error"]
