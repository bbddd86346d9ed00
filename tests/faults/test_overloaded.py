"""The fault `overloaded`, played by hand."""

import pytest

from drillmaster.errors import Problem
from drillmaster.faults import make
from tests.faults.stage import Stage


@pytest.mark.parametrize(
    "dialect, status", [("openai_chat", 503), ("anthropic", 529), ("groq", 498), ("gemini", 503), ("plain", 503)]
)
def test_each_api_says_it_by_its_own_status(dialect: str, status: int) -> None:
    assert Stage(dialect).play(make("overloaded")).status == status


def test_a_wait_is_said_where_the_api_says_it() -> None:
    fault = make("overloaded", {"retry_after_s": 30})
    assert Stage("openai_chat").play(fault).field("retry-after") == "30"
    assert Stage("anthropic").play(fault).field("retry-after") is None


@pytest.mark.parametrize("wait", [0, -1, float("nan"), float("inf"), "30", True, 1e12])
def test_nonsense_is_refused_by_the_name_of_its_field(wait: object) -> None:
    with pytest.raises(Problem, match="retry_after_s"):
        make("overloaded", {"retry_after_s": wait})
