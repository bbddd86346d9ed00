"""What real SDKs make of the dialects: whole answers, streams, tool calls, errors, errors inside a 200.

The SDKs that the project does not depend on are asked where they are installed.
"""

import asyncio
import socketserver
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import anthropic
import openai
import pytest

from drillmaster import http1
from drillmaster.dialects import Reply, assert_finished, load
from tests.e2e.wirelab import standin

pytestmark = pytest.mark.e2e

SCHEMA = {
    "type": "object",
    "properties": {"city": {"type": "string"}, "days": {"type": "integer"}},
    "required": ["city", "days"],
}
TOOL = {"type": "function", "function": {"name": "get_weather", "description": "d", "parameters": SCHEMA}}
HELLO = [{"role": "user", "content": "hello there"}]
WEATHER = [{"role": "user", "content": "please use get_weather"}]
ARGUMENTS = {"city": "text", "days": 1}


@pytest.fixture(scope="module")
def base() -> Iterator[str]:
    with standin() as url:
        yield url


@contextmanager
def answering(status: int, headers: tuple[tuple[str, str], ...], body: bytes) -> Iterator[str]:
    """A server that gives everybody this one answer."""
    raw = http1.answer_head(status, (*headers, ("content-length", str(len(body))), ("connection", "close"))) + body

    class One(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            length = 0
            while (line := self.rfile.readline().strip()) != b"":
                if line.lower().startswith(b"content-length:"):
                    length = int(line.partition(b":")[2])
            self.rfile.read(length)
            self.wfile.write(raw)

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), One) as server:
        server.daemon_threads = True
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()
            thread.join(5)


def openai_of(name: str, base: str) -> Any:
    if name == "azure_openai":
        return openai.AzureOpenAI(azure_endpoint=base, api_key="k", api_version="2025-03-01-preview", max_retries=0)
    path = {"openrouter": "/api/v1", "groq": "/openai/v1", "openai_chat": "/v1", "openai_responses": "/v1"}
    return openai.OpenAI(base_url=base + path.get(name, f"/{name}/v1"), api_key="k", max_retries=0)


@pytest.mark.parametrize("name", ["openai_chat", "azure_openai", "openrouter", "groq", "mistral", "ollama"])
def test_the_openai_sdk_reads_chat_completions(name: str, base: str, opened: Any) -> None:
    client = opened(openai_of(name, base))
    whole = client.chat.completions.create(model="m", messages=HELLO)
    assert whole.choices[0].finish_reason == "stop"
    text = whole.choices[0].message.content
    assert whole.usage.total_tokens == whole.usage.prompt_tokens + whole.usage.completion_tokens
    options = {"include_usage": True}
    chunks = list(client.chat.completions.create(model="m", messages=HELLO, stream=True, stream_options=options))
    assert "".join(c.choices[0].delta.content or "" for c in chunks if c.choices) == text
    assert chunks[-1].usage.total_tokens == whole.usage.total_tokens
    assert_finished(chunks, name)
    called = client.chat.completions.create(model="m", messages=WEATHER, tools=[TOOL])
    assert called.choices[0].finish_reason == "tool_calls"
    with client.chat.completions.stream(model="m", messages=WEATHER, tools=[TOOL]) as stream:
        final = stream.get_final_completion()
    for message in (called.choices[0].message, final.choices[0].message):
        assert message.tool_calls[0].function.name == "get_weather"
        assert message.tool_calls[0].function.arguments == '{"city": "text", "days": 1}'
    answered = [*WEATHER, called.choices[0].message, {"role": "tool", "tool_call_id": "x", "content": "get_weather"}]
    assert client.chat.completions.create(model="m", messages=answered, tools=[TOOL]).choices[0].finish_reason == "stop"
    cut = client.chat.completions.create(model="m", messages=HELLO, max_tokens=2)
    assert cut.choices[0].finish_reason == "length"
    assert_finished(whole, name)
    with pytest.raises(AssertionError, match="it is incomplete"):
        assert_finished(cut, name)
    with pytest.raises(openai.BadRequestError, match="at least one message is required"):
        client.chat.completions.create(model="m", messages=[])


@pytest.mark.parametrize("name", ["openai_responses", "azure_openai", "openrouter", "groq"])
def test_the_openai_sdk_reads_responses(name: str, base: str, opened: Any) -> None:
    client = opened(openai_of(name, base))
    whole = client.responses.create(model="m", input="hello there")
    assert whole.status == "completed" and whole.output_text
    events = list(client.responses.create(model="m", input="hello there", stream=True))
    assert events[0].type == "response.created" and events[-1].type == "response.completed"
    assert [event.sequence_number for event in events] == list(range(len(events)))
    assert_finished(events, "openai_responses")
    with client.responses.stream(model="m", input="hello there") as stream:
        assert stream.get_final_response().output_text == whole.output_text
    tool = {"type": "function", "name": "get_weather", "parameters": SCHEMA, "strict": False}
    with client.responses.stream(model="m", input="use get_weather", tools=[tool]) as stream:
        final = stream.get_final_response()
    assert final.output[0].arguments == '{"city": "text", "days": 1}'
    assert client.responses.create(model="m", input="use get_weather", tools=[tool]).output[0].name == "get_weather"
    cut = client.responses.create(model="m", input="hello there", max_output_tokens=2)
    assert (cut.status, cut.incomplete_details.reason) == ("incomplete", "max_output_tokens")
    assert_finished(whole, "openai_responses")
    with pytest.raises(AssertionError, match="it is incomplete"):
        assert_finished(cut, "openai_responses")


def test_the_anthropic_sdk_reads_messages(base: str, opened: Any) -> None:
    client = opened(anthropic.Anthropic(base_url=base, api_key="k", max_retries=0))
    asked: dict[str, Any] = {"model": "m", "max_tokens": 100, "messages": HELLO}
    whole = client.messages.create(**asked)
    assert whole.stop_reason == "end_turn"
    with client.messages.stream(**asked) as stream:
        final = stream.get_final_message()
    assert final.content[0].text == whole.content[0].text and final.usage.output_tokens == whole.usage.output_tokens
    assert_finished(list(client.messages.create(**asked, stream=True)), "anthropic")
    assert_finished(whole, "anthropic")
    tools: Any = [{"name": "get_weather", "input_schema": SCHEMA}]
    called = client.messages.create(**{**asked, "messages": WEATHER}, tools=tools)
    with client.messages.stream(**{**asked, "messages": WEATHER}, tools=tools) as stream:
        streamed = stream.get_final_message()
    for message in (called, streamed):
        assert message.stop_reason == "tool_use"
        assert message.content[0].type == "tool_use" and message.content[0].input == ARGUMENTS
    forced = client.messages.create(**asked, tools=tools, tool_choice={"type": "tool", "name": "get_weather"})
    assert forced.stop_reason == "tool_use"
    with pytest.raises(anthropic.BadRequestError):
        client.messages.create(**{**asked, "messages": []})


# Errors, as the SDKs take them


@pytest.mark.parametrize(
    ("status", "condition", "kind"),
    [
        (400, "context", openai.BadRequestError),
        (401, None, openai.AuthenticationError),
        (429, "rate", openai.RateLimitError),
        (429, "money", openai.RateLimitError),
        (503, None, openai.InternalServerError),
    ],
)
def test_the_openai_sdk_reads_the_errors(
    status: int, condition: str | None, kind: type[openai.APIStatusError], opened: Any
) -> None:
    dialect = load("openai_chat")
    answer = dialect.error(status, condition, request_id="req_1")
    row = dialect.condition(status, condition)
    with answering(answer.status, answer.headers, answer.body) as base, pytest.raises(kind) as raised:
        opened(openai_of("openai_chat", base)).chat.completions.create(model="m", messages=HELLO)
    assert (raised.value.code, raised.value.type, raised.value.param) == (row.code, row.kind, row.param)
    assert raised.value.request_id == "req_1"


@pytest.mark.parametrize("status", [400, 401, 402, 403, 404, 409, 413, 429, 500, 504, 529])
def test_the_anthropic_sdk_reads_the_errors(status: int, opened: Any) -> None:
    answer = load("anthropic").error(status, request_id="req_1")
    with (
        answering(answer.status, answer.headers, answer.body) as base,
        pytest.raises(anthropic.APIStatusError) as raised,
    ):
        client = opened(anthropic.Anthropic(base_url=base, api_key="k", max_retries=0))
        client.messages.create(model="m", max_tokens=1, messages=[{"role": "user", "content": "x"}])
    body: Any = raised.value.body
    assert body["error"]["type"] == load("anthropic").condition(status).kind
    assert raised.value.request_id == "req_1"


def begun(name: str, path: str = "") -> tuple[tuple[tuple[str, str], ...], tuple[bytes, ...]]:
    """The first half of a stream: all but what ends it."""
    dialect = load(name)
    streamed = dialect.stream(Reply(model="m", pieces=("Hello", " there")), path=path)
    kept = (dialect.without_finish(frame) for frame in streamed.frames)
    return streamed.headers, tuple(frame for frame in kept if frame is not None)


def test_an_error_in_a_stream_of_chat_completions_raises(opened: Any) -> None:
    headers, frames = begun("openai_chat")
    body = b"".join((*frames, *load("openai_chat").error_frames(request_id="r")))
    with answering(200, headers, body) as base, pytest.raises(openai.APIError):
        list(opened(openai_of("openai_chat", base)).chat.completions.create(model="m", messages=HELLO, stream=True))


@pytest.mark.parametrize(("shape", "raises"), [("flat", False), ("nested", True), ("failed", False)])
def test_of_the_three_errors_in_a_stream_of_responses_one_raises(shape: str, raises: bool, opened: Any) -> None:
    headers, frames = begun("openai_responses")
    body = b"".join((*frames, *load("openai_responses").error_frames(shape, "rate", request_id="r")))
    with answering(200, headers, body) as base:
        client = opened(openai_of("openai_responses", base))
        stream = client.responses.create(model="m", input="x", stream=True)
        if raises:
            with pytest.raises(openai.APIError):
                list(stream)
            return
        events = list(stream)
    assert events[-1].type == ("error" if shape == "flat" else "response.failed")
    with pytest.raises(AssertionError, match="error"):
        assert_finished(events, "openai_responses")


def test_an_error_in_a_stream_of_messages_raises_with_a_status_of_200(opened: Any) -> None:
    headers, frames = begun("anthropic")
    body = b"".join((*frames, *load("anthropic").error_frames(request_id="r")))
    with answering(200, headers, body) as base, pytest.raises(anthropic.APIStatusError) as raised:
        client = opened(anthropic.Anthropic(base_url=base, api_key="k", max_retries=0))
        list(client.messages.create(model="m", max_tokens=9, messages=[{"role": "user", "content": "x"}], stream=True))
    assert raised.value.status_code == 200


def test_a_stream_that_ends_cleanly_too_early_raises_nothing_and_is_not_finished(opened: Any) -> None:
    headers, frames = begun("openai_chat")
    with answering(200, headers, b"".join(frames)) as base:
        chunks = list(
            opened(openai_of("openai_chat", base)).chat.completions.create(model="m", messages=HELLO, stream=True)
        )
    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks) == "Hello there"
    with pytest.raises(AssertionError, match="cut"):
        assert_finished(chunks, "openai_chat")


# SDKs that may be missing


def test_the_groq_sdk(base: str) -> None:
    groq = pytest.importorskip("groq")
    client = groq.Groq(base_url=base, api_key="k", max_retries=0)
    whole = client.chat.completions.create(model="m", messages=HELLO)
    chunks = list(client.chat.completions.create(model="m", messages=HELLO, stream=True))
    assert "".join(c.choices[0].delta.content or "" for c in chunks if c.choices) == whole.choices[0].message.content
    assert chunks[-1].x_groq.usage.total_tokens == whole.usage.total_tokens
    assert_finished(chunks, "groq")
    assert_finished(whole, "groq")
    called = client.chat.completions.create(model="m", messages=WEATHER, tools=[TOOL])
    assert called.choices[0].message.tool_calls[0].function.name == "get_weather"
    answer = load("groq").error(None, "overloaded", request_id="r")
    with answering(answer.status, answer.headers, answer.body) as url, pytest.raises(groq.APIStatusError) as raised:
        groq.Groq(base_url=url, api_key="k", max_retries=0).chat.completions.create(model="m", messages=HELLO)
    assert raised.value.status_code == 498
    headers, frames = begun("groq")
    for shape, raises in (("data-error", True), ("x-groq-error", False)):
        body = b"".join((*frames, *load("groq").error_frames(shape, request_id="r")))
        with answering(200, headers, body) as url:
            stream = groq.Groq(base_url=url, api_key="k", max_retries=0).chat.completions.create(
                model="m", messages=HELLO, stream=True
            )
            if raises:
                with pytest.raises(groq.APIError):
                    list(stream)
            else:
                assert list(stream)[-1].x_groq.error


def test_the_mistral_sdk(base: str) -> None:
    sdk = pytest.importorskip("mistralai.client")
    client = sdk.Mistral(server_url=f"{base}/mistral", api_key="k")
    whole = client.chat.complete(model="m", messages=HELLO)
    events = list(client.chat.stream(model="m", messages=HELLO))
    assert "".join(e.data.choices[0].delta.content or "" for e in events) == whole.choices[0].message.content
    assert events[-1].data.usage.total_tokens == whole.usage.total_tokens
    assert_finished(events, "mistral")
    assert_finished(whole, "mistral")
    calls = [e.data.choices[0].delta.tool_calls for e in client.chat.stream(model="m", messages=WEATHER, tools=[TOOL])]
    assert [call[0].function.name for call in calls if call] == ["get_weather"]
    for condition in ("rate", "rate-older"):
        answer = load("mistral").error(429, condition, request_id="r")
        with answering(answer.status, answer.headers, answer.body) as url, pytest.raises(Exception) as raised:
            sdk.Mistral(server_url=url, api_key="k").chat.complete(model="m", messages=HELLO)
        assert type(raised.value).__name__ == "SDKError" and raised.value.status_code == 429


def test_the_gemini_sdk(base: str, opened: Any) -> None:
    genai = pytest.importorskip("google.genai")
    types, errors = genai.types, pytest.importorskip("google.genai.errors")

    def client(url: str) -> Any:
        return genai.Client(api_key="k", http_options=types.HttpOptions(base_url=url))

    here = opened(client(base))
    whole = here.models.generate_content(model="g", contents="hello there")
    assert whole.candidates[0].finish_reason == "STOP"
    chunks = list(here.models.generate_content_stream(model="g", contents="hello there"))
    assert "".join(chunk.text for chunk in chunks) == whole.text
    assert_finished(chunks, "gemini")
    assert_finished(whole, "gemini")
    declared = types.FunctionDeclaration(name="get_weather", parameters_json_schema=SCHEMA)
    config = types.GenerateContentConfig(tools=[types.Tool(function_declarations=[declared])])
    called = here.models.generate_content(model="g", contents="use get_weather", config=config)
    assert called.function_calls[0].args == ARGUMENTS
    for status, kind in ((429, errors.ClientError), (503, errors.ServerError)):
        answer = load("gemini").error(status, request_id="r", retry_after_s=36)
        with answering(answer.status, answer.headers, answer.body) as url, pytest.raises(kind) as raised:
            there = opened(client(url))
            there.models.generate_content(model="g", contents="x")
        assert (raised.value.code, raised.value.status) == (status, load("gemini").condition(status).kind)


def test_the_ollama_sdk(base: str, opened: Any) -> None:
    ollama = pytest.importorskip("ollama")
    client = ollama.Client(host=base)
    opened(client._client)  # which nothing of its own closes
    whole = client.chat(model="m", messages=HELLO)
    lines = list(client.chat(model="m", messages=HELLO, stream=True))
    assert "".join(line.message.content or "" for line in lines) == whole.message.content
    assert lines[-1].done and whole.done_reason == "stop"
    assert_finished(lines, "ollama")
    assert_finished(whole, "ollama")
    called = client.chat(model="m", messages=WEATHER, tools=[TOOL])
    assert called.message.tool_calls[0].function.arguments == ARGUMENTS
    assert client.generate(model="m", prompt="hello")["response"]
    headers, frames = begun("ollama")
    body = b"".join((*frames, *load("ollama").error_frames(request_id="r")))
    with answering(200, headers, body) as url:
        broken = ollama.Client(host=url)
        opened(broken._client)
        with pytest.raises(ollama.ResponseError):
            list(broken.chat(model="m", messages=HELLO, stream=True))


def test_the_mcp_sdk(base: str) -> None:
    pytest.importorskip("mcp")
    from mcp.client.session import ClientSession  # type: ignore[import-not-found] # not a dependency
    from mcp.client.streamable_http import streamable_http_client  # type: ignore[import-not-found] # likewise

    async def talk() -> tuple[list[str], Any, str]:
        async with streamable_http_client(f"{base}/mcp") as ends, ClientSession(ends[0], ends[1]) as session:
            await session.initialize()
            names = [tool.name for tool in (await session.list_tools()).tools]
            done = await session.call_tool("order_status", {"order": "7"})
            try:
                await session.call_tool("nobody", {})
            except Exception as error:
                return names, done, str(error)
            return names, done, ""

    names, done, refused = asyncio.run(talk())
    assert names == ["order_status", "refund"]
    assert done.content[0].text.startswith("order_status: done")
    assert "Unknown tool" in refused
