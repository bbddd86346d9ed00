"""Dialects: who recognises what, the errors they speak, and whether an answer was really finished."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drillmaster.dialects import EDGE_BYTES, Dialect, Peek, load, names, peek_json, recognise
from drillmaster.errors import Problem
from drillmaster.http1 import HeadReader, RequestHead

KEEP = frozenset((b"anthropic-version",))
ALL = tuple(load(name) for name in ("openai_chat", "anthropic", "plain"))


def request(method: str, path: str, *fields: str) -> RequestHead:
    lines = [f"{method} {path} HTTP/1.1", "Host: x", *fields, "", ""]
    return HeadReader(KEEP).request("\r\n".join(lines).encode())


@pytest.mark.parametrize(
    ("head", "name"),
    [
        (request("POST", "/v1/chat/completions"), "openai_chat"),
        (request("POST", "/chat/completions?api-version=1"), "openai_chat"),
        (request("POST", "/openai/deployments/x/chat/completions"), "openai_chat"),
        (request("GET", "/v1/chat/completions"), "plain"),
        (request("POST", "/v1/messages"), "anthropic"),
        (request("POST", "/v1/messages?beta=true"), "anthropic"),
        (request("GET", "/v1/models", "anthropic-version: 2023-06-01"), "anthropic"),
        (request("POST", "/v1/embeddings"), "plain"),
        (request("GET", "/"), "plain"),
    ],
)
def test_a_request_is_recognised_by_method_path_and_fields(head: RequestHead, name: str) -> None:
    assert recognise(head, ALL).name == name


def test_every_name_loads_its_own_entry() -> None:
    assert set(names()) >= {"openai_chat", "anthropic", "plain"}
    for name in names():
        assert load(name).name == name


@pytest.mark.parametrize("name", names())
def test_what_carries_words_ends_with_the_quote_before_them(name: str) -> None:
    """The engine goes by that: an event that begins as one with words did, and goes on with no quote, has words."""
    carries = load(name).carries
    assert carries is None or carries.endswith(rb'"(?!")')


def test_an_unknown_dialect_is_a_problem() -> None:
    with pytest.raises(Problem, match="openai_chat"):
        load("openai")


@pytest.mark.parametrize("dialect", ALL, ids=lambda dialect: dialect.name)
@pytest.mark.parametrize("status", [400, 401, 429, 500, 502, 503, 504, 529, 599])
def test_every_error_is_json_with_an_error_object_and_a_source(dialect: Dialect, status: int) -> None:
    answer = dialect.error(status, request_id="req_1")
    body = json.loads(answer.body)
    assert answer.status == status
    assert isinstance(body["error"], dict)  # a string here breaks code that reads error.code
    assert body["error"]["message"]
    assert ("content-type", "application/json") in answer.headers
    assert "req_1" in dict(answer.headers).values()
    assert answer.source
    assert "content-length" not in dict(answer.headers)


def test_the_openai_error_has_the_four_fields_its_sdk_reads() -> None:
    for status in (401, 429, 503):
        error = json.loads(load("openai_chat").error(status, request_id="r").body)["error"]
        assert set(error) == {"message", "type", "param", "code"}
        assert error["code"]
    money = json.loads(load("openai_chat").error(429, "money", request_id="r").body)["error"]
    assert money["type"] == "insufficient_quota"


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (401, "authentication_error"),
        (402, "billing_error"),
        (413, "request_too_large"),
        (429, "rate_limit_error"),
        (500, "api_error"),
        (504, "timeout_error"),
        (529, "overloaded_error"),
    ],
)
def test_the_anthropic_error_types_are_the_documented_ones(status: int, kind: str) -> None:
    body = json.loads(load("anthropic").error(status, request_id="req_9").body)
    assert (body["type"], body["error"]["type"], body["request_id"]) == ("error", kind, "req_9")


CHUNK = b'data: {"choices":[{"delta":{"content":"hi"},"finish_reason":null}]}\n\n'
STOP = b'data: {"choices":[{"delta":{},"finish_reason":"stop"}]}\n\n'
USAGE = b'data: {"choices":[],"usage":{"total_tokens":3}}\n\n'
DONE = b"data: [DONE]\n\n"
SSE = b"text/event-stream; charset=utf-8"
JSON = b"application/json"

FINISHED = [
    ("openai_chat", SSE, CHUNK + STOP + DONE, True, True),
    ("openai_chat", SSE, CHUNK + STOP + USAGE + DONE, True, True),
    ("openai_chat", SSE, CHUNK + STOP, True, True),  # gateways leave [DONE] out
    ("openai_chat", SSE, CHUNK + DONE, True, True),  # Ollama finishes without a reason
    ("openai_chat", SSE, CHUNK + STOP + DONE, False, False),  # the framing broke off behind it
    ("openai_chat", SSE, CHUNK, True, False),  # a clean early end
    ("openai_chat", SSE, b"", True, False),
    ("openai_chat", SSE, CHUNK + b'data: {"error":{"message":"x"}}\n\n', True, False),
    ("openai_chat", SSE, CHUNK + b'data: {"error":{"message":"x"}}\n\n' + DONE, True, False),
    (
        "openai_chat",
        SSE,
        b'data: {"choices":[{"delta":{"content":"data: [DONE]"},"finish_reason":null}]}\n\n',
        True,
        False,
    ),
    ("openai_chat", JSON, b'{"choices":[{"message":{},"finish_reason":"length"}]}', True, True),
    ("openai_chat", JSON, b'{"choices":[{"message":{},"finish_reason":null}]}', True, False),
    ("openai_chat", JSON, b'{"error":{"message":"x"}}', True, False),
    ("openai_chat", JSON, b"{}", True, False),
    ("openai_chat", b"text/html", b"<html>login</html>", True, False),
    ("openai_chat", JSON, b'{"choices":[{"message":{"content":"\\"finish_reason\\":\\"stop\\""}}]}', True, False),
    ("anthropic", SSE, b"event: message_stop\ndata: {}\n\n", True, True),
    # The stop reason alone is not the end: the API promises `message_stop`, and no known gateway leaves it out.
    ("anthropic", SSE, b'event: message_delta\ndata: {"delta":{"stop_reason":"end_turn"}}\n\n', True, False),
    ("anthropic", SSE, b'event: content_block_delta\ndata: {"delta":{"text":"x"}}\n\n', True, False),
    ("anthropic", SSE, b'event: error\ndata: {"type":"error","error":{"type":"overloaded_error"}}\n\n', True, False),
    ("anthropic", JSON, b'{"type":"message","content":[],"stop_reason":"end_turn"}', True, True),
    ("anthropic", JSON, b'{"type":"message","content":[],"stop_reason":null}', True, False),
    ("anthropic", JSON, b'{"type":"error","error":{"type":"api_error"}}', True, False),
    ("plain", JSON, b"{}", True, True),
    ("plain", JSON, b"{}", False, False),
]


@pytest.mark.parametrize(("name", "content_type", "tail", "whole", "finished"), FINISHED)
def test_whether_an_answer_was_really_finished(
    name: str, content_type: bytes, tail: bytes, whole: bool, finished: bool
) -> None:
    assert load(name).finished(200, content_type, tail, whole) is finished


@pytest.mark.parametrize("name", ["openai_chat", "anthropic", "plain"])
def test_an_error_status_is_never_a_finished_answer(name: str) -> None:
    assert load(name).finished(503, JSON, b'{"finish_reason":"stop","stop_reason":"end_turn"}', True) is False


@pytest.mark.parametrize(
    ("body", "peek"),
    [
        (b'{"model":"gpt-4o","stream":true}', Peek("gpt-4o", True)),
        (b'{"messages":[{"content":"\\"model\\":\\"no\\""}],"model":"yes"}', Peek("yes", None)),
        (b'{"tools":[{"model":"inner"}],"model":"outer","stream":false}', Peek("outer", False)),
        (b'{"model":5}', Peek()),
        (b'{"model":"' + b"m" * 500 + b'"}', Peek("m" * 128)),
        (b"", Peek()),
        (b"{", Peek()),
        (b"[1]", Peek()),
        (b"\xff\xfe", Peek()),
        (b"a=b&model=c", Peek()),
    ],
)
def test_model_and_stream_of_a_whole_body(body: bytes, peek: Peek) -> None:
    assert peek_json(body) == peek


@given(st.text(max_size=200), st.sampled_from(["gpt-4o", "claude é"]), st.booleans(), st.booleans())
def test_the_two_ends_of_a_large_body_say_what_the_whole_says(
    prompt: str, model: str, stream: bool, first: bool
) -> None:
    messages = [{"role": "user", "content": prompt + "x" * 3 * EDGE_BYTES + prompt}]
    fields = {"model": model, "stream": stream}
    ordered = {**fields, "messages": messages} if first else {"messages": messages, **fields}
    body = json.dumps(ordered).encode()
    ends = peek_json(body[:EDGE_BYTES], body[-EDGE_BYTES:])
    assert ends.stream is stream
    assert ends.model == model or "é" in model  # a model with an escape in its name is not looked into
