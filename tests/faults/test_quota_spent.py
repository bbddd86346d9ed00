"""The fault `quota-spent`, played by hand."""

import pytest

from drillmaster.dialects import names
from drillmaster.errors import Problem
from drillmaster.faults import make
from drillmaster.rules.retry_after import read
from tests.faults.stage import Stage


@pytest.mark.parametrize(
    "dialect, params, status, word",
    [
        ("openai_chat", {}, 429, b"insufficient_quota"),
        ("openai_chat", {"condition": "money-project"}, 429, b"project_spend_limit_exceeded"),
        ("openai_chat", {"status": 402}, 429, b"insufficient_quota"),  # it has no 402: not a rate limit in its place
        ("anthropic", {}, 402, b"billing_error"),
        ("anthropic", {"status": 429}, 429, b"enforced_spend_limit_reached"),
        ("anthropic", {"condition": "money-project"}, 402, b"billing_error"),
        ("openrouter", {}, 402, b"credits"),
        ("gemini", {"status": 429}, 400, b"billing"),
    ],
)
def test_each_api_says_it_in_its_own_words(dialect: str, params: dict[str, object], status: int, word: bytes) -> None:
    played = Stage(dialect).play(make("quota-spent", params))
    assert played.status == status
    assert word in played.sent


@pytest.mark.parametrize("dialect", names())
def test_it_never_says_when_to_come_back_and_never_heals(dialect: str) -> None:
    stage = Stage(dialect)
    statuses = set()
    for _ in range(4):
        played = stage.play(make("quota-spent"))
        assert played.head is not None
        assert read(played.head.headers, played.sent, now_s=0) is None
        statuses.add(played.status)
        stage.clock.advance(1e6)
    assert len(statuses) == 1


@pytest.mark.parametrize(
    "params, field",
    [
        ({"status": 0}, "status"),
        ({"status": 500}, "status"),
        ({"status": float("nan")}, "status"),
        ({"condition": "rate"}, "condition"),
        ({"condition": "money-" + "x" * 60}, "condition"),
    ],
)
def test_nonsense_is_refused_by_the_name_of_its_field(params: dict[str, object], field: str) -> None:
    with pytest.raises(Problem, match=field):
        make("quota-spent", params)
