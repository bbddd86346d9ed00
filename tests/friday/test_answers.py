"""What counts as an answer."""

import json
from typing import Any

import pytest

from drillmaster.friday.answers import Judge
from drillmaster.friday.missions import Expect, Step


def _judged(body: Any, http: int | None = 200, capture: dict[str, str] | None = None, **expect: Any) -> tuple[str, Any]:
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    result, _, captured = Judge(Step(path="/", expect=Expect(**expect), capture=capture or {})).judge(http, content)
    return result, captured


@pytest.mark.parametrize(
    ("body", "status", "expect", "result"),
    [
        ({"answer": "done"}, 200, {}, "ok"),
        ({"answer": "done"}, 201, {}, "status"),
        ({"answer": "done"}, 201, {"status": (200, 201)}, "ok"),
        ({"answer": "done"}, 299, {"status": ("2xx",)}, "ok"),
        ({"answer": "done"}, 300, {"status": ("2xx", 301)}, "status"),
        (b"", 200, {}, "short"),
        (b"  \n", 200, {}, "short"),
        (b"", 204, {"status": (204,), "min_chars": 0}, "ok"),
        # An error in a body is none of the answers, whatever its status.
        ({"error": "overloaded"}, 200, {}, "error_body"),
        ({"error": {"type": "x"}}, 200, {"pointer": "/answer"}, "error_body"),
        ({"error": None, "answer": "a"}, 200, {}, "ok"),
        ({"error": "", "answer": "a"}, 200, {}, "ok"),
        ({"error": "fine"}, 200, {"error_allowed": True}, "ok"),
        ({"deep": {"error": "not on top"}}, 200, {}, "ok"),
        (b'["error"]', 200, {}, "ok"),
        (b'{"error": broken', 200, {}, "ok"),  # no JSON was wanted
        # Pointers.
        ({"a": {"b/c": ["x", "yes"]}}, 200, {"pointer": "/a/b~1c/1"}, "ok"),
        ({"a": None}, 200, {"pointer": "/a"}, "pointer"),
        ({"a": [1]}, 200, {"pointer": "/a/01"}, "pointer"),
        ({"a": ""}, 200, {"pointer": "/a"}, "short"),
        ({"a": ""}, 200, {"pointer": "/a", "min_chars": 0}, "ok"),
        (b"<html>", 200, {"pointer": "/a"}, "no_json"),
        (b"[" * 100_000, 200, {"pointer": "/a"}, "no_json"),
        # Values and patterns.
        ({"a": 1}, 200, {"pointer": "/a", "equals": 1}, "ok"),
        ({"a": True}, 200, {"pointer": "/a", "equals": 1}, "pointer"),
        ({"a": "refunded"}, 200, {"pointer": "/a", "matching": "^refund"}, "ok"),
        ({"a": "sorry"}, 200, {"pointer": "/a", "matching": "^refund"}, "pattern"),
        ({"a": "sorry, later"}, 200, {"not_matching": "sorry"}, "pattern"),
        # Messages have no status.
        ({"a": 1}, None, {"status": (500,)}, "ok"),
    ],
)
def test_an_answer_is_what_its_step_expects(body: Any, status: int | None, expect: dict[str, Any], result: str) -> None:
    assert _judged(body, status, **expect)[0] == result


def test_what_is_captured_keeps_its_type() -> None:
    assert _judged({"ticket": {"id": 7, "tags": ["a"]}}, capture={"id": "/ticket/id", "tags": "/ticket/tags"}) == (
        "ok",
        {"id": 7, "tags": ["a"]},
    )


@pytest.mark.parametrize("body", [{"ticket": {}}, {"ticket": {"id": None}}, {"ticket": {"id": "x" * 70_000}}])
def test_what_cannot_be_captured_fails_the_step(body: Any) -> None:
    assert _judged(body, capture={"id": "/ticket/id"}) == ("pointer", {})


def test_nothing_of_an_answer_is_in_the_reason() -> None:
    secret = "sk-live-something-long"
    expects: list[dict[str, Any]] = [{"matching": "^never"}, {"pointer": "/x"}, {"pointer": "/a", "equals": "b"}]
    for expect in expects:
        _, why, _ = Judge(Step(path="/", expect=Expect(**expect))).judge(200, json.dumps({"a": secret}).encode())
        assert why
        assert secret not in why


def test_an_answer_without_a_body_by_its_method_is_one() -> None:
    assert Judge(Step(method="HEAD", path="/")).judge(200, b"")[0] == "ok"
