"""The fault `context-length`, played by hand."""

import pytest

from drillmaster.dialects import load
from tests.faults.streamlab import PATHS, play


@pytest.mark.parametrize("dialect", PATHS)
def test_it_is_the_apis_own_refusal(dialect: str) -> None:
    row = load(dialect).condition(None, "context")
    played = play("context-length", [], dialect=dialect, asked=b"{}")
    assert played.status == row.status
    assert row.message[:20].encode() in played.body


def test_openai_names_the_code_and_the_field() -> None:
    played = play("context-length", [], asked=b"{}")
    assert played.status == 400
    assert b'"code":"context_length_exceeded"' in played.body
    assert b'"param":"messages"' in played.body
