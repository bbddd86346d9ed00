"""Faults of content and of tools as a plain socket client sees them, byte by byte, and what the real SDKs make of each.

What a client received is kept in `tests/golden/faults/TAG.txt`. `python -m tests.e2e.test_faults_answers` writes the files
anew; read the difference before you keep it. What the SDKs make of them was measured by hand before it was written here.
"""

import json
import re
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import anthropic
import openai
import pytest

from drillmaster.rules.retry_after import parse_http_date
from tests.e2e.test_faults_streams import APIS, REQUESTS, streaming
from tests.e2e.test_faults_wire import GOLDEN, Shot, equal, received
from tests.e2e.wirelab import Origin, ProxyProcess, Reader, injections, post, proxy

pytestmark = pytest.mark.e2e

ASKED = b'{"model":"m","messages":[{"role":"user","content":"hello"}]}'
WHOLE = {
    name: post(
        ASKED,
        *([b"anthropic-version: 2023-06-01"] if name == "anthropic" else []),
        path=path.replace(b"streamGenerateContent?alt=sse", b"generateContent"),
    )
    for name, path in APIS.items()
}


def each(requests: dict[str, bytes] = WHOLE, **params: Any) -> list[Shot]:
    return [Shot(name, (request,), params) for name, request in requests.items()]


def both(**params: Any) -> list[Shot]:
    streams = [Shot(f"{name}, stream", (request,), params) for name, request in REQUESTS.items()]
    return [*each(**params), *streams]


def chat(name: str, **params: Any) -> Shot:
    return Shot(name, (WHOLE["openai_chat"],), params)


CHAT_TOOLS = [{"type": "function", "function": {"name": "look_up", "parameters": {"type": "object"}}}]
OFFERS: dict[str, Any] = {
    "openai_chat": CHAT_TOOLS,
    "openai_responses": [{"type": "function", "name": "look_up", "parameters": {}, "strict": False}],
    "anthropic": [{"name": "look_up", "input_schema": {"type": "object"}}],
    "gemini": [{"functionDeclarations": [{"name": "look_up"}]}],
}


def offering(name: str, *, stream: bool) -> bytes:
    body = json.dumps({"model": "m", "stream": stream, "tools": OFFERS[name]}).encode()
    head, _, _ = (REQUESTS if stream else WHOLE)[name].partition(b"\r\n\r\n")
    return re.sub(rb"Content-Length: [0-9]+", b"Content-Length: %d" % len(body), head) + b"\r\n\r\n" + body


def calls(**params: Any) -> list[Shot]:
    wholes = [Shot(name, (offering(name, stream=False),), params) for name in OFFERS]
    return [*wholes, *(Shot(f"{name}, stream", (offering(name, stream=True),), params) for name in OFFERS)]


def mcp(method: bytes) -> bytes:
    body = b'{"jsonrpc":"2.0","id":1,"method":"%b","params":{}}' % method
    return post(body, b"mcp-protocol-version: 2025-06-18", path=b"/mcp")


LOGIN = b"GET /drill-login HTTP/1.1\r\nHost: x\r\n\r\n"
CASES: dict[str, list[Shot]] = {
    "empty-200": [chat("whole"), Shot("stream", (REQUESTS["openai_chat"],))],
    "empty-object": [chat("whole")],
    "html-200": [chat("whole")],
    "login-redirect": [Shot("and where it leads", (WHOLE["openai_chat"], LOGIN))],
    "malformed-json": each(),
    "bad-gzip": [chat("whole")],
    "date-skew": [chat("an hour ahead", skew_s=3600)],
    "usage-skew": both(factor=10),
    "wrong-model": both(model="other-1"),
    "weaker-answer": [*each(), Shot("anthropic, stream", (REQUESTS["anthropic"],))],
    "cut-answer": [
        *both(),
        chat("a filter", reason="content_filter"),
        Shot("anthropic, a filter", (WHOLE["anthropic"],), {"reason": "content_filter"}),
    ],
    "refusal": both(),
    "error-in-200": [*each(), chat("a rate limit", condition="rate")],
    "context-length": each(),
    "tool-bad-json": calls(),
    "tool-unknown": calls(),
    "tool-duplicate-id": calls(),
    "mcp-error": [
        Shot("rpc", (mcp(b"tools/call"),)),
        Shot("tool", (mcp(b"tools/call"),), {"how": "tool"}),
        Shot("another method", (mcp(b"tools/list"),)),
    ],
    "mcp-hang": [Shot("one call", (mcp(b"tools/call"),))],
    "mcp-changed-tools": [
        Shot(change, (mcp(b"tools/list"),), {"change": change}) for change in ("renamed", "removed", "argument")
    ],
}


def shoot(ours: ProxyProcess, sends: tuple[bytes, ...]) -> str:
    text = ""
    with ours.connect() as sock:
        for request in sends:
            sock.sendall(request)
            got, end = received(sock)
            got = re.sub(rb'(chatcmpl-|resp_|msg_|fc_|call_|"responseId":")[0-9a-f]{24}', rb"\1<id>", got)
            got = re.sub(rb'("(?:created|created_at)":)[0-9]{10}\b', rb"\1<s>", got)
            text += equal(got, flowing=False) + end + "\n"
    return text


def capture(ours: ProxyProcess, tag: str) -> str:
    text = ""
    for number, shot in enumerate(CASES[tag]):
        ours.inject(tag, f"{tag}-{number}", **shot.params)
        said = json.dumps(shot.params) if shot.params else ""
        text += f"== {shot.name} {said}".rstrip() + "\n" + shoot(ours, shot.sends)
        ours.lift(f"{tag}-{number}")
    return text


@pytest.fixture(scope="module")
def ours(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ProxyProcess]:
    origin = Origin(streaming)
    with proxy(tmp_path_factory.mktemp("answers"), upstream=origin.url) as one:
        yield one
    origin.close()
    assert origin.problems == []


@pytest.fixture
def inject(ours: ProxyProcess) -> Iterator[Callable[..., str]]:
    with injections(ours) as put:
        yield put


@pytest.mark.parametrize("tag", CASES)
def test_the_bytes_on_the_wire_are_those_on_disk(ours: ProxyProcess, tag: str) -> None:
    assert capture(ours, tag) == (GOLDEN / f"{tag}.txt").read_text(encoding="utf-8")
    assert ours.state()["counts"]["script_errors"] == 0


def test_a_skewed_date_is_off_by_what_was_asked(ours: ProxyProcess, inject: Callable[..., str]) -> None:
    inject("date-skew", skew_s=-7200)
    with ours.connect() as sock:
        sock.sendall(WHOLE["openai_chat"])
        answer = Reader(sock).answer()
    assert answer is not None
    said_s = parse_http_date((answer.field(b"date") or b"").decode(), now_s=time.time())
    assert said_s == pytest.approx(time.time() - 7200, abs=5)


# What SDKs make of them: class of the exception and attempts with default retries, or what looked like success.

HELLO: Any = [{"role": "user", "content": "hello"}]
SDKS: list[tuple[str, dict[str, Any], Any, Any, int]] = [
    # tag, params, openai, anthropic, attempts
    ("empty-200", {}, json.JSONDecodeError, json.JSONDecodeError, 1),
    ("malformed-json", {}, json.JSONDecodeError, json.JSONDecodeError, 1),
    ("bad-gzip", {}, openai.APIConnectionError, anthropic.APIConnectionError, 3),
    ("context-length", {}, openai.BadRequestError, anthropic.BadRequestError, 1),
    ("empty-object", {}, None, None, 1),
    ("error-in-200", {}, None, None, 1),
    ("html-200", {}, None, None, 1),
    ("login-redirect", {}, None, None, 2),
    ("wrong-model", {"model": "other-1"}, None, None, 1),
    ("usage-skew", {"factor": 10}, None, None, 1),
    ("weaker-answer", {}, None, None, 1),
    ("cut-answer", {}, None, None, 1),
    ("refusal", {}, None, None, 1),
    ("date-skew", {"skew_s": 60}, None, None, 1),
]


Sdks = tuple[openai.OpenAI, anthropic.Anthropic]


@pytest.fixture
def sdks(ours: ProxyProcess) -> Iterator[Sdks]:
    with (
        openai.OpenAI(base_url=ours.url + "/v1", api_key="k", timeout=5) as one,
        anthropic.Anthropic(base_url=ours.url, api_key="k", timeout=5) as two,
    ):
        yield one, two


@pytest.mark.parametrize("row", SDKS, ids=lambda row: row[0])
def test_sdks_take_a_fault_as_measured(
    ours: ProxyProcess, inject: Callable[..., str], sdks: Sdks, row: tuple[str, dict[str, Any], Any, Any, int]
) -> None:
    tag, params, *kinds, attempts = row
    one, two = sdks
    calls: tuple[Callable[[], Any], ...] = (
        lambda: one.chat.completions.create(model="m", messages=HELLO),
        lambda: two.messages.create(model="m", max_tokens=9, messages=HELLO),
    )
    for call, kind in zip(calls, kinds, strict=True):
        window = inject(tag, **params)
        if kind is None:
            answer = call()
            if tag in ("html-200", "login-redirect"):
                assert isinstance(answer, str)
            elif tag in ("empty-object", "error-in-200"):
                assert getattr(answer, "choices", None) is None and getattr(answer, "content", None) is None
            elif tag == "wrong-model":
                assert answer.model == "other-1"
        else:
            with pytest.raises(Exception) as raised:
                call()
            assert type(raised.value) is kind
        ours.lift(window)
        assert len([met for met in ours.rows("fault_met") if met["window"] == window]) == attempts


@pytest.mark.parametrize("tag", ["empty-200", "empty-object", "html-200", "error-in-200"])
def test_as_a_stream_they_are_silence_to_the_openai_sdk(inject: Callable[..., str], sdks: Sdks, tag: str) -> None:
    inject(tag)
    assert list(sdks[0].chat.completions.create(model="m", messages=HELLO, stream=True)) == []


def test_tool_calls_reach_the_agent_as_good_ones(ours: ProxyProcess, inject: Callable[..., str], sdks: Sdks) -> None:
    one, two = sdks
    offered: Any = CHAT_TOOLS

    def called() -> tuple[Any, Any]:
        chat_answer = one.chat.completions.create(model="m", messages=HELLO, tools=offered)
        messages = two.messages.create(model="m", max_tokens=9, messages=HELLO, tools=OFFERS["anthropic"])
        assert (chat_answer.choices[0].finish_reason, messages.stop_reason) == ("tool_calls", "tool_use")
        return chat_answer.choices[0].message.tool_calls, messages.content

    windows = [inject("tool-bad-json")]
    chat_calls, blocks = called()
    with pytest.raises(json.JSONDecodeError):
        json.loads(chat_calls[0].function.arguments)
    assert isinstance(blocks[0].input, str)
    ours.lift(windows[-1])
    windows.append(inject("tool-unknown"))
    chat_calls, blocks = called()
    assert chat_calls[0].function.name == blocks[0].name == "no_such_tool"
    ours.lift(windows[-1])
    windows.append(inject("tool-duplicate-id"))
    chat_calls, blocks = called()
    assert chat_calls[0].id == chat_calls[1].id
    assert blocks[0].id == blocks[1].id


if __name__ == "__main__":
    main_origin = Origin(streaming)
    with tempfile.TemporaryDirectory() as folder, proxy(Path(folder), upstream=main_origin.url) as main_proxy:
        for wanted in sys.argv[1:] or CASES:
            (GOLDEN / f"{wanted}.txt").write_text(capture(main_proxy, wanted), encoding="utf-8")
    main_origin.close()
