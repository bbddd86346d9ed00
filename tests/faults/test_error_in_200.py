"""The fault `error-in-200`, played by hand."""

import json

import pytest

from drillmaster.dialects import Ending, load
from tests.faults.streamlab import PATHS, play


@pytest.mark.parametrize("dialect", PATHS)
def test_the_body_is_the_apis_error_and_the_status_is_not(dialect: str) -> None:
    played = play("error-in-200", [], dialect=dialect, asked=b"{}", condition="rate")
    expected = load(dialect).error(None, "rate", request_id="req_" + "0" * 24, path=PATHS[dialect])
    assert played.status == 200
    assert list(json.loads(played.body)) == list(json.loads(expected.body))
    assert "retry-after" not in played.headers


def test_openai_chat_counts_it_as_an_error() -> None:
    played = play("error-in-200", [], asked=b"{}")
    assert load("openai_chat").ending(200, b"application/json", played.body, True) is Ending.ERROR
