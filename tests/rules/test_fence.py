"""The law of a fence, and what a token is."""

import json
from importlib.resources import files
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from drillmaster.rules.fence import MOST_TOKEN, FencedWrite, Seen, fence, read_token

CASES = json.loads(files("drillmaster.rules").joinpath("_cases/fence.json").read_text(encoding="utf-8"))["cases"]

NO_TOKENS: list[Any] = [
    "", " ", "0", "00", "007", "-1", "+1", "1 ", " 1", "1\n", "1.0", "1e3", "0x1", "1_000", "²", "①", "٣", "１２", "१२", "1²",
    "9" * 19, str(MOST_TOKEN + 1), "9" * 5_000, "abc", "latest", "1,2", "\x001", 12, 0, True, None, 1.0, float("nan"), b"12",
    ["12"], {},
]  # fmt: skip  # one case a piece


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
def test_the_table_of_cases_holds(case: dict[str, Any]) -> None:
    seen: Seen | None = None
    for step in case["steps"]:
        then = fence(seen, msgspec.convert(step["ask"], FencedWrite), step["at_us"])
        assert msgspec.to_builtins(then.told) == step["told"]
        seen = then.state


@given(st.lists(st.integers(1, MOST_TOKEN), min_size=1))
def test_what_goes_through_never_goes_down(tokens: list[int]) -> None:
    seen: Seen | None = None
    through = []
    for token in tokens:
        then = fence(seen, FencedWrite(token=token), 0)
        seen = then.state
        through += [token] if then.told.allowed else []
    assert through == sorted(through) and through[-1] == max(tokens)


@pytest.mark.parametrize("value", NO_TOKENS, ids=lambda value: repr(value)[:20])
def test_what_is_no_token_is_read_as_none(value: Any) -> None:
    assert read_token(value) is None


@pytest.mark.parametrize("token", [1, 9, 10, 1_796_088_673_521_405, 2**53 + 1, MOST_TOKEN])
def test_a_token_is_read_as_it_was_given(token: int) -> None:
    assert read_token(str(token)) == token


@pytest.mark.parametrize("token", [0, -1, MOST_TOKEN + 1, "5", True, None, 1.0])
def test_a_write_under_no_token_is_no_question(token: Any) -> None:
    with pytest.raises(ValueError, match="a token"):
        FencedWrite(token=token)
