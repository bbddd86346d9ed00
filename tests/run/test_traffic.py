"""What a user sends, and what counts as an answer."""

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from drillmaster.plan import Expect, Target
from drillmaster.run.traffic import Answer, Prepared, Tally, curl_line, judge_answer, outcome_of, prepare, source_of

NONCE = "dmn0123456789abcdef"


def ask(target: dict[str, Any], payload: int | None = None) -> Prepared:
    return prepare(
        msgspec.convert(target, Target), id="u000001", trace="a" * 32, span="b" * 16, nonce=NONCE, payload=payload
    )


def split(request: Prepared) -> tuple[str, dict[str, str], bytes]:
    head, _, body = request.data.partition(b"\r\n\r\n")
    line, *fields = head.decode("ascii").split("\r\n")
    return line, {name.lower(): value for name, _, value in (field.partition(": ") for field in fields)}, body


def test_a_request_carries_its_id_and_its_trace() -> None:
    line, fields, body = split(ask({"url": "http://127.0.0.1:8000"}))
    assert line == "GET / HTTP/1.1" and body == b""
    assert fields["host"] == "127.0.0.1:8000"
    assert fields["traceparent"] == f"00-{'a' * 32}-{'b' * 16}-01"
    assert fields["x-drill-request"] == "u000001"
    assert "content-length" not in fields


def test_in_a_url_values_are_percent_encoded() -> None:
    target = {"url": "http://h/answer?q={payload}&n={nonce}&i={id}", "payloads": ["a&b=c /#é?"]}
    line, _, _ = split(ask(target, 0))
    assert line == f"GET /answer?q=a%26b%3Dc%20%2F%23%C3%A9%3F&n={NONCE}&i=u000001 HTTP/1.1"


def test_in_a_json_body_values_are_escaped_as_in_a_string() -> None:
    target = {
        "url": "http://h/",
        "method": "POST",
        "body": '{"q": "{payload}", "n": "{nonce}"}',
        "payloads": ['say "hi"\n\\'],
    }
    _, fields, body = split(ask(target, 0))
    assert json.loads(body) == {"q": 'say "hi"\n\\', "n": NONCE}
    assert fields["content-type"] == "application/json" and int(fields["content-length"]) == len(body)


def test_in_another_body_values_stand_as_they_are() -> None:
    _, fields, body = split(ask({"url": "http://h/", "method": "POST", "body": "q={payload}", "payloads": ['"é"']}, 0))
    assert body == 'q="é"'.encode() and fields["content-type"].startswith("text/plain")


def test_a_post_without_a_body_says_so() -> None:
    assert split(ask({"url": "http://h/", "method": "POST"}))[1]["content-length"] == "0"


@pytest.mark.parametrize(
    ("target", "used"),
    [
        ({"url": "http://h/"}, False),
        ({"url": "http://h/?n={nonce}"}, True),
        ({"url": "http://h/", "body": "{nonce}"}, True),
        ({"url": "http://h/?q={payload}", "payloads": ["hello {nonce}"]}, True),
        ({"url": "http://h/?q={payload}", "payloads": ["hello"]}, False),
    ],
)
def test_a_nonce_is_on_record_where_it_was_sent(target: dict[str, Any], used: bool) -> None:
    request = ask(target, 0 if "payloads" in target else None)
    assert (request.nonce == NONCE) is used
    assert (NONCE.encode() in request.data) is used


def test_a_payload_is_text_and_never_a_template() -> None:
    _, _, body = split(ask({"url": "http://h/", "body": "{payload}|{id}", "payloads": ["{payload}{body}"]}, 0))
    assert body == b"{payload}{body}|u000001"


def test_the_plan_s_own_headers_win_over_ours_that_may_be_replaced() -> None:
    headers = {"user-agent": "shop/1", "Accept": "text/plain"}
    _, fields, _ = split(ask({"url": "http://h/", "headers": headers}))
    assert fields["user-agent"] == "shop/1" and fields["accept"] == "text/plain"


@given(st.text(max_size=40), st.sampled_from(["GET", "POST"]))
def test_whatever_the_prompt_the_request_is_one_request(prompt: str, method: str) -> None:
    target = {"url": "http://h/a?q={payload}", "method": method, "body": '{"q":"{payload}"}', "payloads": [prompt]}
    line, fields, body = split(ask(target, 0))
    assert line.count(" ") == 2 and line.isascii() and "\n" not in line
    assert len(body) == int(fields["content-length"])
    assert json.loads(body)["q"] == prompt


@pytest.mark.parametrize(
    ("expect", "status", "body", "verdict"),
    [
        ({}, 200, b"hello", "ok"),
        ({}, 200, b"", "empty"),
        ({}, 200, b"  \n ", "empty"),
        ({}, 500, b"hello", None),
        ({}, 204, b"", None),
        ({"status": [200, 206]}, 206, b"x", "ok"),
        ({"min_chars": 10}, 200, b"too short", "empty"),
        ({"min_chars": 0}, 200, b"", "ok"),
        ({"not_matching": "(?i)try.*later"}, 200, b"Please TRY again later", "degraded"),
        ({"not_matching": "sorry"}, 200, b"all is well", "ok"),
        ({"pointer": "/text"}, 200, b'{"text": "hello"}', "ok"),
        ({"pointer": "/text"}, 200, b'{"text": ""}', "empty"),
        ({"pointer": "/text"}, 200, b'{"text": null}', "empty"),
        ({"pointer": "/text"}, 200, b'{"other": "hello"}', "empty"),
        ({"pointer": "/text"}, 200, b"<html>hello</html>", "degraded"),
        ({"pointer": "/text"}, 200, b"", "degraded"),
        ({"pointer": "/text"}, 200, b"[" * 100_000, "degraded"),
        ({"pointer": "/a/1/b~1c~0d"}, 200, b'{"a": [0, {"b/c~d": "hello"}]}', "ok"),
        ({"pointer": "/a/01"}, 200, b'{"a": [0, "x"]}', "empty"),
        ({"pointer": "/a/-"}, 200, b'{"a": [0, "x"]}', "empty"),
        ({"pointer": "/a/9"}, 200, b'{"a": [0, "x"]}', "empty"),
        ({"pointer": "/a/b"}, 200, b'{"a": "x"}', "empty"),
        ({"pointer": "/n"}, 200, b'{"n": 12}', "ok"),
        ({"pointer": "/n", "min_chars": 2}, 200, b'{"n": []}', "ok"),
        ({}, 200, b"\xff\xfe", "ok"),  # not UTF-8, and there is something
    ],
)  # fmt: skip
def test_the_plan_says_what_an_answer_is(expect: dict[str, Any], status: int, body: bytes, verdict: str | None) -> None:
    answer, why = judge_answer(msgspec.convert(expect, Expect), status, body)
    assert answer == verdict
    assert bool(why) == (verdict != "ok")


def answer(result: str = "answered", status: int | None = 200, word: str | None = "ok") -> Answer:
    return Answer(result=result, status=status, answer=word, why="", sent_ns=0, first_ns=None, end_ns=1)


@pytest.mark.parametrize(
    ("got", "word"),
    [
        (answer(), "ok"),
        (answer(word="empty"), "empty"),
        (answer(status=503, word=None), "http 503"),
        (answer("timeout", None, None), "timeout"),
        (answer("timeout", 200, None), "timeout"),  # a head came, and not the rest
    ],
)
def test_an_outcome_is_one_word(got: Answer, word: str) -> None:
    assert outcome_of(got) == word


def test_a_share_of_failures_is_told_of_as_many_as_asked_for_and_no_fewer() -> None:
    tally = Tally(4)
    for n in range(3):
        tally.count(answer("reset", None, None))
        assert tally.recent_failed_ratio() is None, n
    tally.count(answer())
    assert tally.recent_failed_ratio() == 0.75
    for _ in range(3):
        tally.count(answer())
    assert tally.recent_failed_ratio() == 0.0
    assert (tally.done, tally.failed) == (7, 3)


@pytest.mark.parametrize(
    ("target", "line"),
    [
        ({"url": "http://127.0.0.1:8000/answer?q=drill-ping"}, "curl -i 'http://127.0.0.1:8000/answer?q=drill-ping'"),
        ({"url": "http://127.0.0.1:8000/answer"}, "curl -i http://127.0.0.1:8000/answer"),
        (
            {"url": "http://127.0.0.1/a?q={payload}&n={nonce}", "payloads": ["Where is it?", "b"]},
            "curl -i 'http://127.0.0.1/a?q=Where%20is%20it%3F&n=dmn0000000000000000'",
        ),
        (
            {"url": "http://h/a", "method": "POST", "body": '{"q": "{payload}"}', "payloads": ['it\'s "x"']},
            """curl -i -X POST -H "Content-Type: application/json" --data '{"q": "it\'"\'"\'s \\\\"x\\\\""}' http://h/a""".replace(
                "\\\\", "\\"
            ),
        ),
        (
            {"url": "http://h/a", "headers": {"Authorization": "Bearer ${AGENT_KEY}"}},  # the shell puts it in
            'curl -i -H "Authorization: Bearer ${AGENT_KEY}" http://h/a',
        ),
        ({"url": "http://h/a?token=abc"}, None),  # its name says what it is
        ({"url": "http://h/a?q=sk-" + "proj-abcdefgh12345678"}, None),
        ({"url": "http://h/a", "headers": {"X-Tenant": "sk-" + "proj-abcdefgh12345678"}}, None),
        ({"url": "http://h/a", "headers": {"X-Odd": "`id`"}}, None),
        ({"url": "http://h/a", "headers": {"X-Odd": "$(id)"}}, None),
    ],
)
def test_what_users_ask_is_shown_as_a_line_that_runs_or_not_at_all(target: dict[str, Any], line: str | None) -> None:
    assert curl_line(msgspec.convert(target, Target)) == line


SORRY = "I'm sorry, but I can't help with that."


@pytest.mark.parametrize(
    "body, matching, source",
    [
        (SORRY, None, "primary"),
        (json.dumps({"answer": SORRY + " Try again."}), None, "primary"),
        (
            json.dumps({"answer": SORRY}).replace("'", "\\u0027"),
            "sorry",
            "primary",
        ),  # though the fallback's may be like it
        ("I'm sorry,\nbut I can't\r\n help with that.", None, "primary"),  # wrapped
        ("Our model is away; here is the list.", None, None),  # worded anew, perhaps
        ("Our model is away; here is the list.", "^Our model is away", "fallback"),
        ("Here is the list.", "^Our model is away", "primary"),
        ("I'm sorry", None, None),
    ],
)
def test_an_answer_that_holds_what_a_fault_spoke_was_handed_on(
    body: str, matching: str | None, source: str | None
) -> None:
    assert source_of(Expect(fallback_matching=matching), body.encode(), (SORRY,)) == source


def test_without_a_fault_that_speaks_only_the_plan_tells() -> None:
    assert source_of(Expect(), SORRY.encode()) is None
