"""The fault `tokens-per-minute`, played by hand."""

import gzip
import json

import pytest

from drillmaster.errors import Problem
from drillmaster.faults import make
from tests.faults.stage import Stage


def asking(tokens: int, **fields: object) -> bytes:
    """A body that counts for exactly so many tokens, without what it allows its answer."""
    return (json.dumps({**fields, "pad": ""})[:-2].encode() + b"x" * tokens * 4)[: tokens * 4 - 2] + b'"}'


def test_a_request_counts_by_its_bytes() -> None:
    stage = Stage()
    fault = make("tokens-per-minute", {"tokens": 100})
    assert stage.play(fault, body=asking(60)).status is None
    refused = stage.play(fault, body=asking(60))
    assert refused.status == 429
    assert json.loads(refused.sent)["error"]["type"] == "tokens"
    assert refused.field("retry-after") == "12"  # 20 tokens are missing, and 100 a minute come
    assert stage.play(fault, body=asking(40)).status is None


@pytest.mark.parametrize("name", ["max_tokens", "max_completion_tokens", "max_output_tokens", "maxOutputTokens"])
def test_what_it_allows_its_answer_counts_too(name: str) -> None:
    fault = make("tokens-per-minute", {"tokens": 100})
    assert Stage().play(fault, body=asking(60, **{name: 40})).status is None
    assert Stage().play(fault, body=asking(60, **{name: 41})).status == 429


def test_a_compressed_request_counts_by_what_it_unfolds_to() -> None:
    fault = make("tokens-per-minute", {"tokens": 100})
    assert Stage().play(fault, body=gzip.compress(asking(100)), coding="gzip").status is None
    assert Stage().play(fault, body=gzip.compress(asking(101)), coding="gzip").status == 429
    assert Stage().play(fault, body=gzip.compress(asking(60, max_tokens=41)), coding="gzip").status == 429


def test_what_a_prompt_says_is_no_field() -> None:
    body = json.dumps({"messages": [{"content": '{"max_tokens": 99999}'}]}).encode()
    assert Stage().play(make("tokens-per-minute", {"tokens": 100}), body=body).status is None


def test_a_large_request_counts_by_its_length_and_is_not_read_whole() -> None:
    fault = make("tokens-per-minute", {"tokens": 1_000_000})
    stage = Stage()
    played = stage.play(fault, body=b"x" * 3_000_000)
    assert (played.kinds(), played.status) == (["Read"] * 4 + ["Pass"], None)
    assert stage.play(fault, body=b"x" * 3_000_000).status == 429


def test_a_request_larger_than_the_limit_never_passes_and_is_told_no_time() -> None:
    stage = Stage()
    for _ in range(3):
        refused = stage.play(make("tokens-per-minute", {"tokens": 10}), body=asking(60))
        assert (refused.status, refused.field("retry-after")) == (429, None)
        stage.clock.advance(1e6)
    assert stage.play(make("tokens-per-minute", {"tokens": 10}), body=asking(9)).status is None


def test_it_heals_by_itself() -> None:
    stage = Stage()
    fault = make("tokens-per-minute", {"tokens": 60})
    assert [stage.play(fault, body=asking(60)).status for _ in range(2)] == [None, 429]
    stage.clock.advance(60)
    assert stage.play(fault, body=asking(60)).status is None


def test_the_fields_report_tokens() -> None:
    played = Stage("anthropic").play(make("tokens-per-minute", {"tokens": 100}), body=asking(60))
    assert dict(played.fields)["anthropic-ratelimit-tokens-remaining"] == "40"


def test_a_request_that_broke_off_takes_nothing() -> None:
    stage = Stage()
    fault = make("tokens-per-minute", {"tokens": 60})
    stage.play(fault, body=asking(60), broken=True)
    assert stage.play(fault, body=asking(60)).status is None


@pytest.mark.parametrize("tokens", [None, 0, -1, 1.5, float("nan"), 10**10])
def test_nonsense_is_refused_by_the_name_of_its_field(tokens: object) -> None:
    with pytest.raises(Problem, match="tokens"):
        make("tokens-per-minute", {"tokens": tokens})
