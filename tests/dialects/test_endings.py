"""Was this answer really finished? One table an API, and the laws that hold for all of them."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from drillmaster.dialects import (
    EDGE_BYTES,
    Dialect,
    Ending,
    Finish,
    Reply,
    Says,
    ToolCall,
    assert_finished,
    catalogue,
    load,
)

SSE = b"text/event-stream; charset=utf-8"
JSON = b"application/json"
LINES = b"application/x-ndjson"
COMPLETE, INCOMPLETE, ERROR, CUT = Ending.COMPLETE, Ending.INCOMPLETE, Ending.ERROR, Ending.CUT

OPEN = b'data: {"choices":[{"delta":{"content":"hi"},"finish_reason":null}]}\n\n'
STOP = b'data: {"choices":[{"delta":{},"finish_reason":"stop"}]}\n\n'
DONE = b"data: [DONE]\n\n"
DELTA = b'event: response.output_text.delta\ndata: {"type":"response.output_text.delta","delta":"hi"}\n\n'
PART = b'data: {"candidates":[{"content":{"parts":[{"text":"hi"}]},"index":0}]}\n\n'
LINE = b'{"model":"m","message":{"role":"assistant","content":"hi"},"done":false}\n'

ROWS: list[tuple[str, bytes, bytes, Ending]] = [
    # Chat completions: a reason or [DONE]; gateways leave out the one or the other, and clients take both.
    ("openai_chat", SSE, OPEN + STOP + DONE, COMPLETE),
    ("openai_chat", SSE, OPEN + STOP, COMPLETE),
    ("openai_chat", SSE, OPEN + DONE, COMPLETE),
    ("openai_chat", SSE, OPEN, CUT),
    ("openai_chat", SSE, b": keep-alive\n\n", CUT),
    ("openai_chat", SSE, b"", CUT),
    ("openai_chat", SSE, STOP.replace(b"stop", b"length") + DONE, INCOMPLETE),
    ("openai_chat", SSE, STOP.replace(b"stop", b"content_filter") + DONE, INCOMPLETE),
    ("openai_chat", SSE, STOP.replace(b"stop", b"tool_calls") + DONE, COMPLETE),
    ("openai_chat", SSE, OPEN + b'data: {"error":{"message":"x"}}\n\n', ERROR),
    ("openai_chat", SSE, OPEN + b'data: {"error":{"message":"x"}}\n\n' + DONE, ERROR),
    ("openai_chat", SSE, OPEN + b'event: error\ndata: {"error":{"message":"x"}}\n\n', ERROR),
    ("openai_chat", JSON, b'{"choices":[{"finish_reason":"stop"}]}', COMPLETE),
    ("openai_chat", JSON, b'{"choices":[{"finish_reason":null}]}', CUT),
    ("openai_chat", JSON, b'{"error":{"message":"x"}}', ERROR),
    ("openai_chat", JSON, b"{}", CUT),
    ("openai_chat", JSON, b"", CUT),
    ("openai_chat", b"text/html", b"<html>sign in</html>", CUT),
    # Responses: completed and incomplete are terminal; failed and both shapes of error are errors.
    ("openai_responses", SSE, DELTA + b'event: response.completed\ndata: {"type":"response.completed"}\n\n', COMPLETE),
    ("openai_responses", SSE, DELTA + b'data: {"type":"response.completed","response":{}}\n\n', COMPLETE),
    ("openai_responses", SSE, DELTA + b'event: response.incomplete\ndata: {"type":"x"}\n\n', INCOMPLETE),
    ("openai_responses", SSE, DELTA + b'event: response.failed\ndata: {"type":"x"}\n\n', ERROR),
    ("openai_responses", SSE, DELTA + b'event: error\ndata: {"type":"error","message":"x"}\n\n', ERROR),
    ("openai_responses", SSE, DELTA + b'data: {"type":"error","error":{"message":"x"}}\n\n', ERROR),
    ("openai_responses", SSE, DELTA, CUT),
    ("openai_responses", SSE, DELTA + DONE, CUT),  # [DONE] is not of this API
    ("openai_responses", SSE, b"", CUT),
    ("openai_responses", SSE, b'rest of it"}],"usage":{"total_tokens":3}}}\n\n', COMPLETE),  # began out of sight
    ("openai_responses", SSE, b'it","status":"incomplete"}],"usage":{"total_tokens":3}}}\n\n', INCOMPLETE),
    ("openai_responses", SSE, b'rest of it"}],"usage":null}}\n\n', CUT),  # only terminal events have one
    ("openai_responses", SSE, b'rest of it"}],"usage":{"total_tokens":3}}}\n\n' + DELTA, CUT),
    ("openai_responses", JSON, b'{"status":"completed","error":null,"output":[]}', COMPLETE),
    ("openai_responses", JSON, b'{"status":"incomplete","error":null,"output":[]}', INCOMPLETE),
    ("openai_responses", JSON, b'{"status":"failed","error":{"message":"x"}}', ERROR),
    ("openai_responses", JSON, b'{"status":"in_progress","error":null}', CUT),
    ("openai_responses", JSON, b'{"error":{"message":"x"}}', ERROR),
    ("openai_responses", JSON, b"{}", CUT),
    # Anthropic: message_stop, and nothing less.
    ("anthropic", SSE, b'event: message_stop\ndata: {"type":"message_stop"}\n\n', COMPLETE),
    ("anthropic", SSE, b'event: message_delta\ndata: {"delta":{"stop_reason":"end_turn"}}\n\n', CUT),
    (
        "anthropic",
        SSE,
        b'event: message_delta\ndata: {"delta":{"stop_reason":"max_tokens"}}\n\nevent: message_stop\ndata: {}\n\n',
        INCOMPLETE,
    ),
    ("anthropic", SSE, b'event: error\ndata: {"type":"error","error":{"message":"event: error"}}\n\n', ERROR),
    ("anthropic", SSE, b"event: ping\ndata: {}\n\n", CUT),
    ("anthropic", JSON, b'{"type":"message","stop_reason":"tool_use"}', COMPLETE),
    ("anthropic", JSON, b'{"type":"message","stop_reason":null}', CUT),
    ("anthropic", JSON, b'{"type":"error","error":{}}', ERROR),
    # Gemini: a finishReason, on the last frame; there is no end event.
    ("gemini", SSE, PART + PART.replace(b'"index"', b'"finishReason":"STOP","index"'), COMPLETE),
    ("gemini", SSE, PART + PART.replace(b'"index"', b'"finishReason":"MAX_TOKENS","index"'), INCOMPLETE),
    ("gemini", SSE, PART.replace(b'"index"', b'"finishReason":"SAFETY","index"'), INCOMPLETE),
    ("gemini", SSE, PART, CUT),
    ("gemini", SSE, PART + DONE, CUT),  # [DONE] is not of this API
    ("gemini", SSE, PART + b'data: {"error":{"code":503,"status":"UNAVAILABLE"}}\n\n', ERROR),
    ("gemini", SSE, b'data: {"promptFeedback":{"blockReason":"SAFETY"}}\n\n', INCOMPLETE),
    ("gemini", JSON, b'[{"candidates":[{}]},\n{"candidates":[{"finishReason": "STOP"}]}]', COMPLETE),
    ("gemini", JSON, b'[{"candidates":[{}]},\n{"error": {"code":503}}]', ERROR),
    ("gemini", JSON, b'{"candidates":[{"content":{}}]}', CUT),
    # OpenRouter: a finish reason of `error` is the error.
    ("openrouter", SSE, OPEN + STOP.replace(b"stop", b"error") + DONE, ERROR),
    ("openai_chat", SSE, OPEN + STOP.replace(b"stop", b"error") + DONE, ERROR),  # through a client that names no host
    ("openrouter", JSON, b'{"error":{"code":502,"message":"x"}}', ERROR),
    ("openrouter", SSE, b": OPENROUTER PROCESSING\n\n", CUT),
    # Groq: an error may stand in x_groq.
    ("groq", SSE, OPEN + b'data: {"choices":[],"x_groq":{"id":"r","error":"over capacity"}}\n\n' + DONE, ERROR),
    ("groq", SSE, OPEN + STOP + DONE, COMPLETE),
    # Ollama: done, whatever the reason; null is a good reason behind the other path.
    ("ollama", LINES, LINE + b'{"model":"m","done":true,"done_reason":"stop"}\n', COMPLETE),
    ("ollama", LINES, LINE + b'{"model":"m","done_reason":"length","done":true}\n', INCOMPLETE),
    ("ollama", LINES, LINE + b'{"model":"m","done":true}\n', COMPLETE),  # older versions give none
    ("ollama", LINES, LINE, CUT),
    ("ollama", LINES, LINE + b'{"error":"an error was encountered"}\n', ERROR),
    ("ollama", SSE, OPEN + DONE, COMPLETE),
    ("ollama", SSE, OPEN, CUT),
    ("ollama", JSON, b'{"choices":[{"finish_reason":null}]}', COMPLETE),
    ("ollama", JSON, b'{"error":"x"}', ERROR),
    # Azure: either shape.
    ("azure_openai", SSE, OPEN + STOP + DONE, COMPLETE),
    ("azure_openai", SSE, DELTA + b"event: response.completed\ndata: {}\n\n", COMPLETE),
    ("azure_openai", SSE, DELTA + b"event: response.failed\ndata: {}\n\n", ERROR),
    ("azure_openai", JSON, b'{"status":"completed","output":[]}', COMPLETE),
    ("mistral", SSE, OPEN + STOP + DONE, COMPLETE),
    ("mistral", SSE, OPEN, CUT),
    # MCP: the result of the call.
    ("mcp", JSON, b'{"jsonrpc":"2.0","id":1,"result":{}}', COMPLETE),
    ("mcp", JSON, b'{"jsonrpc":"2.0","id":1,"error":{"code":-32603}}', ERROR),
    ("mcp", JSON, b'{"jsonrpc":"2.0","id":1,"resu', CUT),
    ("mcp", SSE, b'event: message\ndata: {"jsonrpc":"2.0","id":1,"result":{}}\n\n', COMPLETE),
    ("mcp", SSE, b'event: message\ndata: {"jsonrpc":"2.0","method":"notifications/progress"}\n\n', CUT),
    ("mcp", SSE, b": ping\n\n", CUT),
    ("mcp", JSON, b"no JSON at all }", CUT),
    ("mcp", JSON, b"x" * (EDGE_BYTES - 1) + b"}", COMPLETE),  # a result that began out of sight
    # Of plain HTTP nothing but the framing is known.
    ("plain", SSE, b"", COMPLETE),
]


@pytest.mark.parametrize(("name", "content_type", "tail", "ending"), ROWS)
def test_how_an_answer_ended(name: str, content_type: bytes, tail: bytes, ending: Ending) -> None:
    dialect = load(name)
    assert dialect.ending(200, content_type, tail, True) is ending
    assert dialect.finished(200, content_type, tail, True) is (ending in (COMPLETE, INCOMPLETE))


@pytest.mark.parametrize(("name", "content_type", "tail", "ending"), ROWS)
def test_whatever_was_said_a_broken_framing_is_no_end_and_an_error_status_is_an_error(
    name: str, content_type: bytes, tail: bytes, ending: Ending
) -> None:
    assert load(name).ending(200, content_type, tail, False) is CUT
    assert load(name).ending(503, content_type, tail, True) is ERROR


def test_202_is_a_whole_answer_to_a_notification() -> None:
    assert load("mcp").ending(202, b"", b"", True) is COMPLETE
    assert load("openai_chat").ending(202, b"", b"", True) is ERROR


# Laws


SPEAKERS = [dialect for dialect in catalogue() if dialect.name != "plain"]
PATHS = {
    "azure_openai": ("/openai/deployments/x/chat/completions", "/openai/responses"),
    "openrouter": ("/api/v1/chat/completions", "/api/v1/responses"),
    "groq": ("/openai/v1/chat/completions", "/openai/v1/responses"),
    "gemini": ("/v1beta/models/m:streamGenerateContent?alt=sse", "/v1beta/models/m:streamGenerateContent"),
    "ollama": ("/api/chat", "/api/generate", "/v1/chat/completions"),
}
SPOKEN = [(dialect, path) for dialect in SPEAKERS for path in PATHS.get(dialect.name, ("",))]
ids = [f"{dialect.name}{path}" for dialect, path in SPOKEN]
CALL = ToolCall(id="call_1", name="look_up", arguments='{"order": "7", "finish_reason": "stop"}')
TRAP = 'data: [DONE]\n\nevent: message_stop\n"finish_reason":"stop" "finishReason":"STOP" "done":true {"error":{}}'


def reply(*pieces: str, finish: Finish = "stop", tools: tuple[ToolCall, ...] = ()) -> Reply:
    return Reply(model="m", pieces=pieces, finish=finish, tools=tools, input_tokens=3, output_tokens=9, answer_id="abc")


def parts(dialect: Dialect, path: str, said: Reply) -> tuple[bytes, tuple[bytes, ...]]:
    streamed = dialect.stream(said, path=path)
    return dict(streamed.headers)["content-type"].lower().encode(), streamed.frames


@pytest.mark.parametrize(("dialect", "path"), SPOKEN, ids=ids)
@pytest.mark.parametrize(
    "said",
    [
        reply("Hello", " there."),
        reply("x" * 3 * EDGE_BYTES, "é" * EDGE_BYTES),  # a last event may be larger than what is looked at
        reply(TRAP, TRAP),
        reply(),
        reply(tools=(CALL,), finish="tool"),
    ],
    ids=["short", "long", "trap", "empty", "tool"],
)
def test_a_whole_answer_is_complete_and_a_stream_of_it_only_with_its_end(
    dialect: Dialect, path: str, said: Reply
) -> None:
    answer = dialect.answer(said, path=path)
    content_type = dict(answer.headers)["content-type"].lower().encode()
    assert dialect.ending(200, content_type, answer.body[-EDGE_BYTES:], True) is COMPLETE

    content_type, frames = parts(dialect, path, said)
    assert dialect.ending(200, content_type, b"".join(frames)[-EDGE_BYTES:], True) is COMPLETE
    begun = [frame for frame in frames if not dialect.says(frame) & (Says.FINISH | Says.TERMINAL)]
    if content_type.startswith(b"application/json"):
        begun = list(frames[:1])  # one growing array; its pieces are no frames
        if len(frames) < 3:
            return
    assert dialect.ending(200, content_type, b"".join(begun)[-EDGE_BYTES:], True) is CUT


@pytest.mark.parametrize(("dialect", "path"), SPOKEN, ids=ids)
def test_a_stream_without_what_ends_it_is_cut(dialect: Dialect, path: str) -> None:
    content_type, frames = parts(dialect, path, reply("Hello", " there."))
    if content_type.startswith(b"application/json"):
        return
    rest = [kept for frame in frames if (kept := dialect.without_finish(frame)) is not None]
    assert dialect.ending(200, content_type, b"".join(rest), True) is CUT
    assert not any(dialect.says(frame) & (Says.FINISH | Says.TERMINAL) for frame in rest)
    words = sum(1 for frame in frames if dialect.says(frame) & Says.CONTENT)
    if dialect.name != "mcp":  # whose words come with the end
        assert sum(1 for frame in rest if dialect.says(frame) & Says.CONTENT) == words == 2


SAYINGS = [
    reply("Hel", "lo"),
    reply(TRAP, "x" * 5_000, TRAP),  # the event that ends responses repeats it, and so begins out of sight
    reply("x" * 5_000, tools=(ToolCall(id="1", name="f", arguments='{"a":[{}]}'),), finish="tool"),
    reply(tools=(ToolCall(id="1", name="f", arguments='{"a":"\\ndata: [DONE]\\n\\n"}'),), finish="tool"),
    reply("short", finish="length"),
]


def finished_from(dialect: Dialect, content_type: bytes, body: bytes) -> list[int]:
    """At how many bytes the verdict on a cut answer changes."""
    seen = [
        dialect.finished(200, content_type, body[max(0, cut - EDGE_BYTES) : cut], whole=True)
        for cut in range(len(body) + 1)
    ]
    return [cut for cut in range(1, len(seen)) if seen[cut] is not seen[cut - 1]]


@pytest.mark.parametrize(("dialect", "path"), SPOKEN, ids=ids)
@pytest.mark.parametrize("said", SAYINGS, ids=range(len(SAYINGS)))
def test_a_stream_is_finished_from_one_byte_on_and_the_event_that_says_so_is_whole_there(
    dialect: Dialect, path: str, said: Reply
) -> None:
    content_type, frames = parts(dialect, path, said)
    body = b"".join(frames)
    [cut] = finished_from(dialect, content_type, body)
    ended = body[:cut]
    if content_type.startswith(JSON):
        json.loads(ended + (b"" if ended.endswith(b"]") else b"]"))
        return
    data = ended.splitlines()[-1].removeprefix(b"data: ")
    assert data == b"[DONE]" or json.loads(data)


@pytest.mark.parametrize(("dialect", "path"), SPOKEN, ids=ids)
@pytest.mark.parametrize("said", SAYINGS, ids=range(len(SAYINGS)))
def test_a_whole_answer_is_finished_at_its_last_byte_and_not_before(dialect: Dialect, path: str, said: Reply) -> None:
    body = dialect.answer(said, path=path).body
    if dialect.name == "mcp" and len(body) >= EDGE_BYTES:
        # How deep a result nests cannot be told from its end: one that is cut behind a brace is taken for whole.
        assert dialect.finished(200, JSON, body[-EDGE_BYTES:], whole=True)
        return
    assert finished_from(dialect, JSON, body) == [len(body)]


@pytest.mark.parametrize("dialect", SPEAKERS, ids=lambda dialect: dialect.name)
@pytest.mark.parametrize(
    "words", ["data: [DONE]", "event: message_stop ", "event: response.completed ", "event: error "]
)
def test_words_at_the_edge_of_what_is_looked_at_are_no_line(dialect: Dialect, words: str) -> None:
    content_type, frames = parts(dialect, "", reply(words + "x" * 5_000, "x"))
    body = b"".join(frames[: next(at for at, frame in enumerate(frames) if words.encode() in frame) + 1])
    at = body.index(words.encode())
    assert dialect.ending(200, content_type, body[at : at + EDGE_BYTES], True) is CUT


@pytest.mark.parametrize(("dialect", "path"), SPOKEN, ids=ids)
@pytest.mark.parametrize("finish", ["length", "content_filter"])
def test_a_short_answer_is_incomplete_and_finished(dialect: Dialect, path: str, finish: Finish) -> None:
    if dialect.name == "mcp" or (dialect.name, finish) in (
        ("anthropic", "content_filter"),
        ("ollama", "content_filter"),
    ):
        return  # no such thing: a refusal is a whole answer there, and Ollama has no filter
    if path.endswith("/v1/chat/completions") and dialect.name == "ollama":
        finish = "length"
    said = reply("Hello", finish=finish)
    answer = dialect.answer(said, path=path)
    assert dialect.ending(200, JSON, answer.body, True) is INCOMPLETE
    content_type, frames = parts(dialect, path, said)
    assert dialect.ending(200, content_type, b"".join(frames)[-EDGE_BYTES:], True) is INCOMPLETE


@pytest.mark.parametrize(
    ("dialect", "shape"),
    [(dialect, shape.name) for dialect in SPEAKERS for shape in dialect.shapes],
    ids=[f"{dialect.name}-{shape.name}" for dialect in SPEAKERS for shape in dialect.shapes],
)
def test_every_error_inside_a_stream_is_one_and_says_so(dialect: Dialect, shape: str) -> None:
    path = "/responses" if shape in ("flat", "nested", "failed") and dialect.name != "openai_responses" else ""
    if dialect.name == "ollama" and shape == "data-error":
        path = "/v1/chat/completions"
    content_type, frames = parts(dialect, path, reply("Hello", " there."))
    begun = [frame for frame in frames if not dialect.says(frame) & (Says.FINISH | Says.TERMINAL)]
    errors = dialect.error_frames(shape, "rate", request_id="req_1")
    assert any(dialect.says(frame) & Says.ERROR for frame in errors)
    assert dialect.ending(200, content_type, b"".join((*begun, *errors)), True) is ERROR


@pytest.mark.parametrize(("dialect", "path"), SPOKEN, ids=ids)
def test_a_stream_opens_says_its_words_and_its_calls_in_order(dialect: Dialect, path: str) -> None:
    content_type, frames = parts(dialect, path, reply("Hello", " there."))
    if content_type.startswith(b"application/json"):
        return
    said = [dialect.says(frame) for frame in frames]
    assert said[-1] & Says.TERMINAL
    assert sum(1 for one in said if one & Says.TERMINAL) == 1
    assert sum(1 for one in said if one & Says.FINISH) == 1
    _, called = parts(dialect, path, reply(tools=(CALL,), finish="tool"))
    if dialect.name != "mcp" and not path.endswith("/api/generate"):
        assert any(dialect.says(frame) & Says.TOOL for frame in called)


@pytest.mark.parametrize(
    ("name", "path", "shape"),
    [
        ("openai_chat", "", "data-error"),
        ("openai_responses", "/v1/responses", "flat"),
        ("azure_openai", "/openai/deployments/d/chat/completions", "data-error"),
        ("azure_openai", "/openai/responses", "flat"),
        ("openrouter", "/api/v1/chat/completions", "finish-error"),
        ("ollama", "/api/chat", "error-line"),
        ("ollama", "/v1/chat/completions", "data-error"),
    ],
)
def test_the_usual_error_of_a_path_is_one_that_it_can_have(name: str, path: str, shape: str) -> None:
    assert load(name).usual_shape(path) == shape


@pytest.mark.parametrize("dialect", SPEAKERS, ids=lambda dialect: dialect.name)
def test_a_ping_is_one_and_ends_nothing(dialect: Dialect) -> None:
    assert dialect.says(dialect.ping) is Says.PING
    content_type = LINES if dialect.splits == "line" else SSE
    assert dialect.ending(200, content_type, dialect.ping * 3, True) is CUT
    assert dialect.without_finish(dialect.ping) == dialect.ping
    if content_type == SSE and dialect.name != "mcp":
        whole = b"".join(parts(dialect, "", reply("Hello"))[1])
        assert dialect.ending(200, SSE, whole + dialect.ping, True) is COMPLETE


@given(text=st.text(max_size=40), name=st.sampled_from([dialect.name for dialect in SPEAKERS]))
def test_what_a_model_says_cannot_end_its_answer(text: str, name: str) -> None:
    dialect = load(name)
    if name == "mcp":
        return
    content_type, frames = parts(dialect, "", reply(text + TRAP, " and more."))
    begun = [frame for frame in frames if not dialect.says(frame) & (Says.FINISH | Says.TERMINAL)]
    assert dialect.ending(200, content_type, b"".join(begun)[-EDGE_BYTES:], True) is CUT


@given(tail=st.binary(max_size=200), name=st.sampled_from([dialect.name for dialect in SPEAKERS]))
@pytest.mark.parametrize("content_type", [SSE, JSON, LINES])
def test_no_bytes_make_it_stumble_and_noise_is_no_answer(content_type: bytes, tail: bytes, name: str) -> None:
    # Bytes drawn from this project's own constants may well say something; those without a name in quotes or a field cannot.
    ending = load(name).ending(200, content_type, tail, True)
    assert ending is CUT or any(sign in tail for sign in (b'"', b"data:", b"event:"))
    load(name).says(tail)
    load(name).without_finish(tail)


ODD: list[object] = [None, True, 1, "x", [], ["x"], {}, [{}], {"error": 1}]
ODDER = st.recursive(
    st.sampled_from(ODD),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["delta", "content", "parts"]), inner),
    max_leaves=4,
)


@given(
    name=st.sampled_from([dialect.name for dialect in catalogue()]), at=st.integers(0, 20), odd=ODDER, data=st.data()
)
@example(name="openai_chat", at=0, odd="x", data=None)
@example(name="gemini", at=1, odd="x", data=None)
def test_no_event_of_a_foreign_server_makes_a_script_stumble(
    name: str, at: int, odd: object, data: st.DataObject
) -> None:
    dialect = load(name)
    _, frames = parts(dialect, "", reply("a", "b", tools=(CALL,)))
    frame = frames[at % len(frames)]
    lead, brace, text = frame.partition(b"{")
    if not brace:
        return
    value = json.loads(brace + text)
    for key, inside in list(value.items()):
        if data is None or data.draw(st.booleans()):
            value[key] = [*inside, odd] if isinstance(inside, list) else odd if inside is None else inside
    if data is not None:
        value[data.draw(st.sampled_from(sorted(value)))] = odd
    value.setdefault("usage", {})
    changed = lead + json.dumps(value).encode() + frame[len(frame.rstrip()) :]
    dialect.says(changed)
    dialect.without_finish(changed)
    for content_type in (SSE, JSON, LINES):
        dialect.ending(200, content_type, changed, True)


# The assertion for tests of agents


def test_a_finished_answer_passes_the_assertion() -> None:
    assert_finished(OPEN + STOP + DONE, "openai_chat")
    assert_finished('{"choices":[{"finish_reason":"stop"}]}', "openai_chat")
    assert_finished(iter([OPEN, STOP, DONE]), "openai_chat")
    assert_finished(LINE + b'{"model":"m","done":true}\n', "ollama")


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (OPEN, "cut"),
        (b"", "cut"),
        (OPEN + b'data: {"error":{}}\n\n', "error"),
        (STOP.replace(b"stop", b"length"), "incomplete"),
    ],
)
def test_an_unfinished_answer_fails_the_assertion_and_it_says_how_it_ended(body: bytes, why: str) -> None:
    with pytest.raises(AssertionError, match=f"it is {why}"):
        assert_finished(body, "openai_chat")


def test_a_short_answer_passes_where_that_is_allowed() -> None:
    assert_finished(STOP.replace(b"stop", b"length"), "openai_chat", complete=False)
    with pytest.raises(AssertionError):
        assert_finished(OPEN + STOP, "openai_chat", whole=False)


class Model:
    """An SDK's answer: a model of fields, which can be iterated, as pydantic's are."""

    def __init__(self, **fields: Any) -> None:
        self.fields = fields

    def __iter__(self) -> Iterator[tuple[str, Any]]:
        yield from self.fields.items()

    def model_dump(self, **how: Any) -> dict[str, Any]:
        return self.fields


@pytest.mark.parametrize("kind", [dict, Model])
def test_an_answer_that_is_no_stream_can_be_handed_over_as_the_sdk_gives_it(kind: Any) -> None:
    assert_finished(kind(choices=[{"finish_reason": "stop"}]), "openai_chat")
    assert_finished(kind(type="message", stop_reason="end_turn", content=[]), "anthropic")
    assert_finished(kind(model="m", done=True), "ollama")
    assert_finished(kind(choices=[{"finish_reason": "length"}]), "openai_chat", complete=False)
    for body, why in (
        ({"choices": [{"finish_reason": "length"}]}, "incomplete"),
        ({}, "cut"),
        ({"error": {}}, "error"),
    ):
        with pytest.raises(AssertionError, match=f"it is {why}"):
            assert_finished(kind(**body), "openai_chat")


@pytest.mark.parametrize("body", [None, 3, object()])
def test_what_is_no_answer_is_no_failed_assertion(body: Any) -> None:
    with pytest.raises(TypeError, match="collect an async stream first"):
        assert_finished(body, "openai_chat")


def test_a_buffer_is_a_body() -> None:
    assert_finished(bytearray(OPEN + STOP + DONE), "openai_chat")
    assert_finished(memoryview(OPEN + STOP + DONE), "openai_chat")


@pytest.mark.parametrize("path", ["/v1/responses", "/v1/messages"])
def test_a_long_answer_is_judged_by_all_of_it_where_all_of_it_is_at_hand(path: str) -> None:
    api = load("openai_responses" if path.endswith("responses") else "anthropic")
    short = reply("x" * 9_000, finish="length")
    for body in (b"".join(api.stream(short).frames), api.answer(short).body):
        assert_finished(body, api.name, complete=False)
        with pytest.raises(AssertionError, match="it is incomplete"):
            assert_finished(body, api.name)
    mcp = load("mcp").answer(reply("x" * 9_000)).body
    assert_finished(mcp, "mcp")
    with pytest.raises(AssertionError, match="it is cut"):
        assert_finished(mcp[: mcp.rindex(b"]")], "mcp", content_type="application/json")


def test_events_of_an_sdk_pass_the_assertion_too() -> None:
    class Event:
        """Has what pydantic models have."""

        def __init__(self, text: str) -> None:
            self.text = text

        def model_dump(self, **_: object) -> object:
            return json.loads(self.text)

    events = [Event(frame.removeprefix(b"data: ").decode()) for frame in (OPEN, STOP)]
    assert_finished(events, "openai_chat")
    with pytest.raises(AssertionError, match="cut"):
        assert_finished(events[:1], "openai_chat")
    with pytest.raises(AssertionError, match="error"):
        assert_finished([{"type": "response.failed"}], "openai_responses")
    assert_finished(
        [{"type": "message_delta", "delta": {"stop_reason": "end_turn"}}, {"type": "message_stop"}], "anthropic"
    )
