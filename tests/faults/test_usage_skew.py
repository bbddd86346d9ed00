"""The fault `usage-skew`, played by hand."""

import json

import pytest

from tests.faults.streamlab import play, streamed, whole

COUNTS = {"input_tokens": 10, "output_tokens": 20}


@pytest.mark.parametrize(
    ("dialect", "where", "expected"),
    [
        ("openai_chat", "usage", {"prompt_tokens": 13, "completion_tokens": 26, "total_tokens": 39}),
        ("anthropic", "usage", {"input_tokens": 13, "output_tokens": 26}),
        ("gemini", "usageMetadata", {"promptTokenCount": 13, "candidatesTokenCount": 26, "totalTokenCount": 39}),
        ("openai_responses", "usage", {"input_tokens": 13, "output_tokens": 26, "total_tokens": 39}),
    ],
)
def test_counts_are_multiplied(dialect: str, where: str, expected: dict[str, int]) -> None:
    played = play("usage-skew", whole(dialect, **COUNTS), dialect=dialect, factor=1.3)
    usage = json.loads(played.body)[where]
    assert {key: usage[key] for key in expected} == expected


@pytest.mark.parametrize(
    "dialect, wanted", [("openai_chat", b'"total_tokens":39'), ("anthropic", b'"output_tokens":26')]
)
def test_in_a_stream_too(dialect: str, wanted: bytes) -> None:
    upstream = streamed(dialect, **COUNTS)
    played = play("usage-skew", upstream, dialect=dialect, factor=1.3)
    assert wanted in played.body
    assert played.met


def test_an_answer_without_counts_has_not_met_it() -> None:
    upstream = streamed("openai_chat", usage_in_stream=False)
    assert not play("usage-skew", upstream, factor=2).met
