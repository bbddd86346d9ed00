"""Whose API a request speaks: by method, path and fields, and by host where paths are shared."""

from typing import get_args, get_type_hints

import pytest

from drillmaster.dialects import Peek, catalogue, load, names, recognise
from drillmaster.http1 import HeadReader, RequestHead
from drillmaster.plan import Proxy
from drillmaster.proxy.hub import NAMED

ALL = catalogue()


def request(method: str, target: str, *fields: str, host: str = "127.0.0.1:8081") -> RequestHead:
    lines = [f"{method} {target} HTTP/1.1", f"Host: {host}", *fields, "", ""]
    return HeadReader(NAMED).request("\r\n".join(lines).encode())


def test_a_plan_can_name_every_dialect_and_no_other() -> None:
    assert get_args(get_type_hints(Proxy)["dialect"]) == ("auto", *names())


def test_plain_is_asked_last_and_shared_paths_after_particular_ones() -> None:
    shared = [dialect.shared for dialect in ALL]
    assert shared == sorted(shared)
    assert ALL[-1].name == "plain"


@pytest.mark.parametrize(
    ("head", "name"),
    [
        (request("POST", "/v1/chat/completions"), "openai_chat"),
        (request("POST", "/v1/responses"), "openai_responses"),
        (request("POST", "/v1/messages"), "anthropic"),
        (request("POST", "/openai/deployments/gpt/chat/completions?api-version=2024-10-21"), "azure_openai"),
        (request("POST", "/openai/deployments/gpt/embeddings?api-version=2024-10-21"), "azure_openai"),
        (request("POST", "/openai/responses?api-version=2025-03-01-preview"), "azure_openai"),
        (request("POST", "/openai/v1/responses", "api-key: k"), "azure_openai"),
        (request("POST", "/openai/v1/chat/completions", "api-key: k"), "azure_openai"),
        (request("POST", "/openai/v1/chat/completions", "authorization: Bearer k"), "groq"),
        (request("POST", "/api/v1/chat/completions"), "openrouter"),
        (request("POST", "/v1beta/models/gemini-2.5-pro:generateContent"), "gemini"),
        (request("POST", "/v1beta/models/gemini-2.5-pro:streamGenerateContent?alt=sse"), "gemini"),
        (request("POST", "/v1/projects/p/locations/l/publishers/google/models/g:generateContent"), "gemini"),
        (request("POST", "/api/chat"), "ollama"),
        (request("POST", "/api/generate"), "ollama"),
        (request("POST", "/mcp"), "mcp"),
        (request("POST", "/tools/mcp/"), "mcp"),
        (request("POST", "/anything", "mcp-session-id: s"), "mcp"),
        (request("GET", "/anything", "mcp-protocol-version: 2025-06-18"), "mcp"),
        # by host, as it was asked for
        (request("POST", "/v1/chat/completions", host="api.mistral.ai"), "mistral"),
        (request("POST", "/v1/chat/completions", host="API.Groq.com:443"), "groq"),
        (request("POST", "/v1/chat/completions", host="my.openai.azure.com"), "azure_openai"),
        (request("POST", "/v1/responses", host="api.openai.com"), "openai_responses"),
        (request("POST", "/v1/chat/completions", host="api.mistral.ai.evil.example"), "openai_chat"),
        (request("POST", "/v1/chat/completions", host="notapi.groq.com"), "openai_chat"),
        (request("POST", "/v1/chat/completions", host="my.openai.azure.com.evil.example"), "openai_chat"),
        # none of anybody
        (request("GET", "/v1/chat/completions"), "plain"),
        (request("POST", "/v1/embeddings"), "plain"),
        (request("GET", "/api/chat"), "plain"),
        (request("POST", "/v1/embeddings", host="api.mistral.ai"), "plain"),
    ],
)
def test_a_request_is_recognised(head: RequestHead, name: str) -> None:
    assert recognise(head, ALL).name == name


@pytest.mark.parametrize(
    ("upstream", "name"),
    [
        (b"api.mistral.ai", "mistral"),
        (b"openrouter.ai", "openrouter"),
        (b"api.groq.com", "groq"),
        (b"r.openai.azure.com", "azure_openai"),
        (b"api.openai.com", "openai_chat"),
        (b"127.0.0.1", "openai_chat"),
        (b"[::1]", "openai_chat"),
        (b"[::1]:9000", "openai_chat"),
        (b"localhost:11434", "ollama"),
        (b"api.mistral.ai:8443", "mistral"),
        (None, "openai_chat"),
    ],
)
def test_the_host_that_a_request_goes_to_tells_providers_of_one_path_apart(upstream: bytes | None, name: str) -> None:
    assert recognise(request("POST", "/v1/chat/completions"), ALL, upstream).name == name


@pytest.mark.parametrize(
    ("name", "target", "seen", "found"),
    [
        ("gemini", "/v1beta/models/g:generateContent", Peek(), Peek("g", False)),
        ("gemini", "/v1beta/models/g:streamGenerateContent", Peek(), Peek("g", True)),
        ("azure_openai", "/openai/deployments/d/chat/completions", Peek(None, True), Peek("d", True)),
        ("azure_openai", "/openai/deployments/d/chat/completions", Peek("m", None), Peek("m", None)),
        ("ollama", "/api/chat", Peek("m", None), Peek("m", True)),  # a stream, unless it says not
        ("ollama", "/api/chat", Peek("m", False), Peek("m", False)),
        ("ollama", "/v1/chat/completions", Peek("m", None), Peek("m", None)),
        ("openai_chat", "/v1/chat/completions", Peek("m", None), Peek("m", None)),
    ],
)
def test_what_the_path_says_of_model_and_stream(name: str, target: str, seen: Peek, found: Peek) -> None:
    assert load(name).peek(request("POST", target), seen) == found
