import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drillmaster.dialects import EDGE_BYTES, Ending, Says, load
from drillmaster.standins.provider import Latency, Reply, answer_text, error_reply, reply_to

ANTHROPIC = {"anthropic-version": "2023-06-01"}


def ask(path: str, call: object, *, headers: dict[str, str] | None = None, number: int = 1) -> Reply:
    body = call if isinstance(call, bytes) else json.dumps(call).encode()
    return reply_to("POST", path, headers or {}, body, number=number, now_s=1_800_000_000)


def chat(**fields: object) -> dict[str, object]:
    return {"model": "m", "messages": [{"role": "user", "content": "Where is my order?"}], **fields}


def messages(**fields: object) -> dict[str, object]:
    return {"model": "m", "max_tokens": 100, "messages": [{"role": "user", "content": "Where is my order?"}], **fields}


def data_lines(reply: Reply) -> list[str]:
    whole = b"".join(reply.events).decode()
    assert whole.endswith("\n\n")
    return [line[6:] for block in whole.split("\n\n") for line in block.split("\n") if line.startswith("data: ")]


@pytest.mark.parametrize(
    ("body", "param"),
    [
        (b"", None),
        (b'{"model":', None),
        (b"[1]", None),
        (b"\xff\xfe", None),
        (b"[" * 100_000, None),  # deep: the parser gives up before the stack does
        ({}, "model"),
        ({"model": ""}, "model"),
        ({"model": "m"}, "messages"),
        ({"model": "m", "messages": []}, "messages"),
        ({"model": "m", "messages": "hello"}, "messages"),
        ({"model": "m", "messages": ["hello"]}, "messages"),
        ({"model": "m", "messages": [{"role": "boss", "content": "x"}]}, "messages"),
        ({"model": "m", "messages": [{"role": "user"}]}, "messages.0.content"),
        ({"model": "m", "messages": [{"role": "user", "content": [1]}]}, "messages.0.content"),
        (chat(max_tokens=0), "max_tokens"),
        (chat(max_tokens=True), "max_tokens"),  # a bool is no number
        (chat(stream="yes"), "stream"),
        (chat(stream_options={"include_usage": True}), "stream_options"),  # without a stream
    ],
)
def test_a_bad_chat_request_is_a_400_in_the_openai_shape(body: object, param: str | None) -> None:
    reply = ask("/v1/chat/completions", body)
    assert reply.status == 400
    assert reply.body is not None
    error = json.loads(reply.body)["error"]
    assert set(error) == {"message", "type", "param", "code"}
    assert (error["type"], error["param"]) == ("invalid_request_error", param)


@pytest.mark.parametrize(
    ("body", "headers"),
    [
        (b'{"model":', ANTHROPIC),
        ({"model": "m", "max_tokens": 1, "messages": []}, ANTHROPIC),
        ({"model": "m", "messages": [{"role": "user", "content": "x"}]}, ANTHROPIC),  # max_tokens is due here
        (messages(messages=[{"role": "system", "content": "x"}]), ANTHROPIC),  # system is a field, not a role
        (messages(), {}),
    ],
)
def test_a_bad_messages_request_is_a_400_in_the_anthropic_shape(body: object, headers: dict[str, str]) -> None:
    reply = ask("/v1/messages", body, headers=headers)
    assert reply.status == 400
    assert reply.body is not None
    error = json.loads(reply.body)
    assert error["type"] == "error"
    assert error["error"]["type"] == "invalid_request_error"
    assert error["request_id"] == reply.headers["request-id"]


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/v1/chat/completions", 405),
        ("GET", "/v1/messages", 405),
        ("POST", "/v1/models", 405),
        ("GET", "/v1/models/nobody", 404),
        ("POST", "/v1/embeddings", 404),
        ("GET", "/v1/models", 200),
        ("GET", "/v1/models/standin-small", 200),
        ("GET", "/", 200),
    ],
)
def test_what_is_not_there_says_so(method: str, path: str, status: int) -> None:
    assert reply_to(method, path, {}, b"", number=1, now_s=0).status == status


def test_a_chat_answer_has_its_terminal_state_and_adds_up() -> None:
    reply = ask("/v1/chat/completions", chat())
    assert reply.body is not None
    whole = json.loads(reply.body)
    assert whole["object"] == "chat.completion"
    assert whole["id"].startswith("chatcmpl-")
    assert whole["choices"][0]["finish_reason"] == "stop"
    assert whole["choices"][0]["message"]["content"]
    usage = whole["usage"]
    assert usage["total_tokens"] == usage["prompt_tokens"] + usage["completion_tokens"]


def test_a_chat_stream_says_the_same_words_and_ends_as_the_api_does() -> None:
    plain = ask("/v1/chat/completions", chat()).body
    assert plain is not None
    lines = data_lines(ask("/v1/chat/completions", chat(stream=True)))
    assert lines[-1] == "[DONE]"
    chunks = [json.loads(line) for line in lines[:-1]]
    assert {c["object"] for c in chunks} == {"chat.completion.chunk"}
    assert len({c["id"] for c in chunks}) == 1
    assert [c["choices"][0]["finish_reason"] for c in chunks] == [None] * (len(chunks) - 1) + ["stop"]
    assert chunks[0]["choices"][0]["delta"]["role"] == "assistant"
    text = "".join(c["choices"][0]["delta"].get("content", "") for c in chunks)
    assert text == json.loads(plain)["choices"][0]["message"]["content"]
    assert "usage" not in chunks[0]


def test_usage_in_a_stream_comes_last_and_only_when_asked_for() -> None:
    lines = data_lines(ask("/v1/chat/completions", chat(stream=True, stream_options={"include_usage": True})))
    last = json.loads(lines[-2])
    assert last["choices"] == []
    assert last["usage"]["total_tokens"] > 0
    assert json.loads(lines[0])["usage"] is None


def test_a_messages_stream_runs_from_message_start_to_message_stop_and_says_the_same_words() -> None:
    plain = ask("/v1/messages", messages(), headers=ANTHROPIC).body
    assert plain is not None
    reply = ask("/v1/messages", messages(stream=True), headers=ANTHROPIC)
    events = [json.loads(line) for line in data_lines(reply)]
    kinds = [e["type"] for e in events]
    assert kinds[:3] == ["message_start", "content_block_start", "ping"]
    assert kinds[-3:] == ["content_block_stop", "message_delta", "message_stop"]
    assert set(kinds[3:-3]) == {"content_block_delta"}
    assert all(e.startswith(f"event: {k}\n".encode()) for e, k in zip(reply.events, kinds, strict=True))
    text = "".join(e["delta"]["text"] for e in events if e["type"] == "content_block_delta")
    assert text == json.loads(plain)["content"][0]["text"]
    assert events[-2]["delta"]["stop_reason"] == "end_turn"


def test_max_tokens_cuts_the_answer_and_the_finish_says_so() -> None:
    body = ask("/v1/chat/completions", chat(max_tokens=3)).body
    assert body is not None
    cut = json.loads(body)
    assert cut["choices"][0]["finish_reason"] == "length"
    assert cut["usage"]["completion_tokens"] == 3
    body = ask("/v1/messages", messages(max_tokens=3), headers=ANTHROPIC).body
    assert body is not None
    assert json.loads(body)["stop_reason"] == "max_tokens"


def test_a_base_url_without_v1_works_too() -> None:
    assert ask("/chat/completions", chat()).status == 200
    assert ask("/messages?beta=true", messages(), headers=ANTHROPIC).status == 200


@given(st.text(), st.text(min_size=1))
def test_the_same_question_gets_the_same_words_and_never_the_prompt_itself(prompt: str, model: str) -> None:
    words = answer_text(model, prompt)
    assert words == answer_text(model, prompt)
    assert 12 <= len(words) <= 42


def test_two_models_and_two_prompts_answer_differently() -> None:
    texts = {" ".join(answer_text(m, p)) for m in ("a", "b") for p in ("x", "y")}
    assert len(texts) == 4


@given(st.integers(), st.integers(min_value=1, max_value=10**9))
def test_latency_is_seeded_and_bounded(seed: int, number: int) -> None:
    latency = Latency(median_ms=100, token_ms=0, seed=seed)
    first_s = latency.first_s(number)
    assert first_s == latency.first_s(number)
    assert 0.025 <= first_s <= 0.4


def test_latency_has_the_median_that_was_asked_for() -> None:
    latency = Latency(median_ms=100, token_ms=0, seed=1)
    drawn = sorted(latency.first_s(n) for n in range(1001))
    assert 0.095 < drawn[500] < 0.105


# Every dialect

GEMINI_CALL = {"contents": [{"role": "user", "parts": [{"text": "Where is my order?"}]}]}
RESPONSES_CALL = {"model": "m", "input": "Where is my order?"}
SPOKEN: list[tuple[str, str, dict[str, object], dict[str, str]]] = [
    ("openai_chat", "/v1/chat/completions", chat(), {}),
    ("openai_responses", "/v1/responses", RESPONSES_CALL, {}),
    ("anthropic", "/v1/messages", messages(), ANTHROPIC),
    ("azure_openai", "/openai/deployments/d/chat/completions?api-version=1", chat(), {}),
    ("azure_openai", "/openai/responses?api-version=1", RESPONSES_CALL, {}),
    ("azure_openai", "/openai/v1/chat/completions", chat(), {"api-key": "k"}),
    ("groq", "/openai/v1/chat/completions", chat(), {}),
    ("openrouter", "/api/v1/chat/completions", chat(), {}),
    ("mistral", "/mistral/v1/chat/completions", chat(), {}),
    ("ollama", "/api/chat", chat(stream=False), {}),
    ("ollama", "/api/generate", {"model": "m", "prompt": "Where is my order?", "stream": False}, {}),
    ("ollama", "/ollama/v1/chat/completions", chat(), {}),
    ("gemini", "/v1beta/models/m:generateContent", GEMINI_CALL, {}),
    ("gemini", "/v1/models/m:generateContent", GEMINI_CALL, {}),
]
spoken = pytest.mark.parametrize(
    ("name", "path", "call", "headers"), SPOKEN, ids=[f"{row[0]}:{row[1]}" for row in SPOKEN]
)


@spoken
def test_it_speaks_every_dialect(name: str, path: str, call: dict[str, object], headers: dict[str, str]) -> None:
    reply = ask(path, call, headers=headers)
    assert reply.status == 200 and reply.body is not None and reply.thinks
    assert ("apim-request-id" in reply.headers) is (name == "azure_openai")
    content_type = reply.content_type.lower().encode()
    assert load(name).ending(200, content_type, reply.body[-EDGE_BYTES:], True) is Ending.COMPLETE
    assert json.dumps("".join(_words(answer_text("m", "Where is my order?")))) in reply.body.decode()


@spoken
def test_every_stream_says_the_same_and_ends_as_its_api_does(
    name: str, path: str, call: dict[str, object], headers: dict[str, str]
) -> None:
    if name == "gemini":
        path = path.replace(":generateContent", ":streamGenerateContent?alt=sse")
    else:
        call = {**call, "stream": True}
    reply = ask(path, call, headers=headers)
    dialect = load(name)
    assert reply.body is None and reply.events
    whole = b"".join(reply.events)
    assert dialect.ending(200, reply.content_type.lower().encode(), whole[-EDGE_BYTES:], True) is Ending.COMPLETE
    words = sum(1 for frame in reply.events if dialect.says(frame) & Says.CONTENT)
    assert words == len(answer_text("m", "Where is my order?"))


@spoken
def test_what_is_refused_is_refused_in_the_words_of_the_api(
    name: str, path: str, call: dict[str, object], headers: dict[str, str]
) -> None:
    for reply, status in (
        (ask(path, b"{", headers=headers), 400),
        (reply_to("GET", path, {}, b"", number=1, now_s=0), 405),
    ):
        assert (reply.status, reply.thinks) == (status, False)
        body = json.loads(reply.body or b"")
        shape = json.loads(load(name).error(status, request_id="r", path=path).body)
        if name != "azure_openai" or status == 400:
            assert set(body) == set(shape)
        found, wanted = body.get("error"), shape.get("error")
        assert type(found) is type(wanted)


def test_a_provider_that_was_started_as_one_is_that_one() -> None:
    body = json.dumps(chat()).encode()
    reply = reply_to("POST", "/v1/chat/completions", {}, body, number=1, now_s=0, dialect="mistral")
    assert not json.loads(reply.body or b"")["id"].startswith("chatcmpl-")
    bad = reply_to("POST", "/v1/chat/completions", {}, b"{", number=1, now_s=0, dialect="mistral")
    assert json.loads(bad.body or b"")["object"] == "error"
    large = error_reply("/v1/chat/completions", 413, "too large", number=1, dialect="groq")
    assert set(json.loads(large.body or b"")["error"]) == {"message", "type"}


def test_limits_are_reported_as_each_api_reports_them() -> None:
    assert ask("/v1/chat/completions", chat()).headers["x-ratelimit-remaining-requests"] == "9999"
    assert ask("/openai/v1/chat/completions", chat()).headers["x-ratelimit-remaining-tokens"] == "1999900"
    told = ask("/v1/messages", messages(), headers=ANTHROPIC).headers
    assert told["anthropic-ratelimit-requests-reset"].startswith("2027-")
    assert not any("ratelimit" in name for name in ask("/v1beta/models/m:generateContent", GEMINI_CALL).headers)


def test_a_tool_that_the_prompt_names_is_called() -> None:
    schema = {"type": "object", "properties": {"order": {"type": "string"}}, "required": ["order"]}
    tool = {"type": "function", "function": {"name": "order_status", "parameters": schema}}
    question = [{"role": "user", "content": "use order_status"}]
    called = json.loads(ask("/v1/chat/completions", chat(messages=question, tools=[tool])).body or b"")["choices"][0]
    assert called["finish_reason"] == "tool_calls"
    assert called["message"]["tool_calls"][0]["function"] == {"name": "order_status", "arguments": '{"order": "text"}'}
    told = [*question, called["message"], {"role": "tool", "tool_call_id": "x", "content": "order_status: sent"}]
    said = json.loads(ask("/v1/chat/completions", chat(messages=told, tools=[tool])).body or b"")["choices"][0]
    assert said["finish_reason"] == "stop"


def test_the_path_of_mcp_is_an_mcp_server() -> None:
    reply = ask("/mcp", {"jsonrpc": "2.0", "id": 1, "method": "ping"})
    assert json.loads(reply.body or b"") == {"jsonrpc": "2.0", "id": 1, "result": {}}


def _words(words: list[str]) -> list[str]:
    return [word if i == 0 else f" {word}" for i, word in enumerate(words)]
