"""Every dialect through the proxy: recognised, whole and streamed, its end seen, and its errors its own."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.wirelab import ProxyProcess, Reader, post, proxy, standin

pytestmark = pytest.mark.e2e

HELLO = [{"role": "user", "content": "hello"}]
CHAT = {"model": "m", "messages": HELLO}
RESPONSES = {"model": "m", "input": "hello"}
GEMINI = {"contents": [{"parts": [{"text": "hello"}]}]}
RPC = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}

# dialect, path, call, fields, model, stream
SPOKEN: list[tuple[str, str, dict[str, Any], tuple[bytes, ...], str | None, bool | None]] = [
    ("openai_chat", "/v1/chat/completions", CHAT, (), "m", None),
    ("openai_chat", "/v1/chat/completions", {**CHAT, "stream": True}, (), "m", True),
    ("openai_responses", "/v1/responses", RESPONSES, (), "m", None),
    ("openai_responses", "/v1/responses", {**RESPONSES, "stream": True}, (), "m", True),
    ("anthropic", "/v1/messages", {**CHAT, "max_tokens": 99}, (b"anthropic-version: 2023-06-01",), "m", None),
    ("anthropic", "/v1/messages", {**CHAT, "max_tokens": 99, "stream": True}, (b"anthropic-version: 1",), "m", True),
    ("azure_openai", "/openai/deployments/d/chat/completions?api-version=1", {"messages": HELLO}, (), "d", None),
    ("azure_openai", "/openai/v1/responses", {**RESPONSES, "stream": True}, (b"api-key: k",), "m", True),
    ("groq", "/openai/v1/chat/completions", {**CHAT, "stream": True}, (), "m", True),
    ("openrouter", "/api/v1/chat/completions", {**CHAT, "stream": True}, (), "m", True),
    ("gemini", "/v1beta/models/g:generateContent", GEMINI, (), "g", False),
    ("gemini", "/v1beta/models/g:streamGenerateContent?alt=sse", GEMINI, (), "g", True),
    ("ollama", "/api/chat", CHAT, (), "m", True),
    ("ollama", "/api/chat", {**CHAT, "stream": False}, (), "m", False),
    ("mcp", "/mcp", RPC, (), None, None),
    ("mcp", "/mcp", {"jsonrpc": "2.0", "method": "notifications/initialized"}, (), None, None),
]


@pytest.fixture(scope="module")
def upstream() -> Iterator[str]:
    with standin() as url:
        yield url


def ask(one: ProxyProcess, path: str, call: dict[str, Any], *fields: bytes) -> tuple[int, bytes]:
    with one.connect() as sock:
        sock.sendall(post(json.dumps(call).encode(), *fields, path=path.encode()))
        answer = Reader(sock).answer("POST")
        assert answer is not None
        return answer.status, bytes(answer.body)


def test_every_api_is_recognised_and_its_end_is_seen(tmp_path: Path, upstream: str) -> None:
    with proxy(tmp_path, upstream=upstream) as one:
        for number, (name, path, call, fields, model, stream) in enumerate(SPOKEN, 1):
            status, _ = ask(one, path, call, *fields)
            row = one.wait_rows("attempt", number)[-1]
            assert status in (200, 202), (path, status)
            seen = (row["dialect"], row.get("model"), row.get("stream"), row["end"], row["terminal"])
            assert seen == (name, model, stream, "clean", True), path


def test_an_error_is_in_the_words_of_the_api_that_was_asked(tmp_path: Path, upstream: str) -> None:
    shapes = {
        "openai_chat": {"error"},
        "openai_responses": {"error"},
        "anthropic": {"type", "error", "request_id"},
        "azure_openai": {"error"},
        "groq": {"error"},
        "openrouter": {"error"},
        "gemini": {"error"},
        "ollama": {"error"},
        "mcp": {"jsonrpc", "id", "error"},
    }
    with proxy(tmp_path, upstream=upstream) as one:
        one.inject("503")
        for name, path, call, fields, _, _ in SPOKEN:
            status, body = ask(one, path, call, *fields)
            assert (status, set(json.loads(body))) == (503, shapes[name]), path


@pytest.mark.parametrize("name", ["mistral", "openrouter", "ollama"])
def test_a_proxy_that_was_told_whose_api_it_is_speaks_that_one(tmp_path: Path, upstream: str, name: str) -> None:
    with proxy(tmp_path, upstream=upstream, dialect=name) as one:
        ask(one, "/v1/chat/completions", CHAT)
        assert one.wait_rows("attempt")[0]["dialect"] == name


def test_what_the_proxy_itself_answers_is_worded_by_the_path_that_was_asked(tmp_path: Path) -> None:
    with proxy(tmp_path, upstream="http://127.0.0.1:9", dialect="ollama") as one:  # nobody listens
        status, body = ask(one, "/v1/chat/completions?a=1", CHAT)
        assert status == 502 and isinstance(json.loads(body)["error"], dict)
        status, body = ask(one, "/api/chat", CHAT)
        assert status == 502 and isinstance(json.loads(body)["error"], str)
