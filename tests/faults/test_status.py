"""The fault `status`, played by hand."""

import json

import pytest

from drillmaster.dialects import names
from drillmaster.errors import Problem
from drillmaster.faults import make
from tests.faults.stage import Stage


@pytest.mark.parametrize("status", [400, 408, 409, 413, 422, 425, 429, 498, 500, 502, 503, 504, 529, 599])
@pytest.mark.parametrize("dialect", names())
def test_any_status_is_answered_in_any_dialect_after_the_whole_request(status: int, dialect: str) -> None:
    played = Stage(dialect).play(make("status", {"status": status}), body=b"x" * 100_000)
    assert played.status == status
    assert played.field("content-length") == str(len(played.sent))
    assert played.kinds() == ["Read"] * 8 + ["Send"] * 3


def test_a_condition_chooses_among_errors_of_one_status() -> None:
    plain = Stage().play(make("status", {"status": 400}))
    context = Stage().play(make("status", {"status": 400, "condition": "context"}))
    assert json.loads(plain.sent)["error"]["code"] is None
    assert json.loads(context.sent)["error"]["code"] == "context_length_exceeded"


def test_a_condition_that_the_api_does_not_know_falls_back_to_its_status() -> None:
    assert Stage("anthropic").play(make("status", {"status": 429, "condition": "daily"})).status == 429


def test_a_page_of_a_gateway_is_html_and_says_the_status() -> None:
    played = Stage().play(make("status", {"status": 502, "html": True}))
    assert (played.status, played.field("content-type")) == (502, "text/html")
    assert b"<h1>502 Bad Gateway</h1>" in played.sent


@pytest.mark.parametrize("said, field", [(None, None), (True, "true"), (False, "false")])
def test_what_sdks_are_told_about_retries(said: bool | None, field: str | None) -> None:
    assert Stage().play(make("status", {"status": 400, "should_retry": said})).field("x-should-retry") == field


def test_nothing_is_said_to_a_request_that_broke_off() -> None:
    played = Stage().play(make("status", {"status": 500}), broken=True)
    assert (played.head, played.kinds()) == (None, ["Read"])


@pytest.mark.parametrize(
    "params, field",
    [
        ({}, "status"),
        ({"status": 0}, "status"),
        ({"status": 200}, "status"),
        ({"status": 399}, "status"),
        ({"status": 600}, "status"),
        ({"status": "503"}, "status"),
        ({"status": True}, "status"),
        ({"status": 400, "condition": ""}, "condition"),
        ({"status": 400, "condition": "Context"}, "condition"),
        ({"status": 400, "condition": "a" * 41}, "condition"),
        ({"status": 400, "condition": "context", "html": True}, "html"),
        ({"status": 400, "html": "yes"}, "html"),
    ],
)
def test_nonsense_is_refused_by_the_name_of_its_field(params: dict[str, object], field: str) -> None:
    with pytest.raises(Problem, match=field):
        make("status", params)
