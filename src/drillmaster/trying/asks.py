"""A request of each API, as a plain client would put it: an interview's words, at the API's own path. Pure, nothing is sent."""

import json
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from drillmaster.dialects import load
from drillmaster.errors import Problem
from drillmaster.faults import Fault
from drillmaster.ladder import Asked
from drillmaster.ladder.bodies import DIALECTS
from drillmaster.standins.provider import PRIMARY_MODEL
from drillmaster.trying import Ask

__all__ = ["KEY", "PROMPT", "ask_for", "by_analogy", "usual", "why_not"]

PROMPT = "What about my order?"
KEY = "sk-standin-0000"
"""Made up; whoever is asked neither wants nor checks one."""
_SCHEMA = {"type": "object", "properties": {"order": {"type": "string"}}, "required": ["order"]}
_TOOL = "order_status"
_SAYS = "Say where an order is."
_MAX_TOKENS = 64
_FUNCTION = {"name": _TOOL, "description": _SAYS, "parameters": _SCHEMA}
_TOOLS: dict[str, dict[str, Any]] = {
    "openai_responses": {"type": "function", **_FUNCTION},
    "anthropic": {"name": _TOOL, "description": _SAYS, "input_schema": _SCHEMA},
    "gemini": {"functionDeclarations": [_FUNCTION]},
}
"""How an API is told of a tool, where it is not as chat completions are."""
_PATHS: dict[str, str] = {
    "openai_chat": "/v1/chat/completions",
    "openai_responses": "/v1/responses",
    "azure_openai": "/openai/deployments/MODEL/chat/completions?api-version=2024-10-21",
    "anthropic": "/v1/messages",
    "gemini": "/v1beta/models/MODEL:VERB",
    "openrouter": "/api/v1/chat/completions",
    "groq": "/openai/v1/chat/completions",
    "mistral": "/v1/chat/completions",
    "ollama": "/api/chat",
    "plain": "/v1/chat/completions",
}
_KEYS: dict[str, tuple[str, str]] = {
    "azure_openai": ("api-key", KEY),
    "anthropic": ("x-api-key", KEY),
    "gemini": ("x-goog-api-key", KEY),
}
_MORE: dict[str, tuple[tuple[str, str], ...]] = {
    "anthropic": (("anthropic-version", "2023-06-01"),),
    "mcp": (("accept", "application/json, text/event-stream"), ("mcp-protocol-version", "2025-06-18")),
}


def usual(fault: Fault) -> tuple[str, bool]:
    """The API and whether to ask for a stream, where nobody said: what the fault needs to strike."""
    return "mcp" if "mcp" in fault.needs else "openai_chat", "stream" in fault.needs


def why_not(fault: Fault, dialect: str, *, stream: bool) -> str | None:
    """Why the fault lets such a request pass, as its entry says; None: it strikes."""
    needs = fault.needs
    if "mcp" in needs and dialect != "mcp":
        return "it strikes calls of MCP alone; take --dialect mcp"
    if dialect == "mcp" and {"model", "tools"} & set(needs):
        return "it strikes calls of a model's API, and MCP is none"
    if dialect == "mcp" and "stream" in needs:
        return "it strikes streams, and the stand-in's MCP server answers whole"
    if dialect == "plain" and {"model", "tools"} & set(needs):
        return "it needs to know whose API it is; name a --dialect"
    if "stream" in needs and not stream:
        return "it strikes streamed answers alone; take --stream"
    if "whole" in needs and stream:
        return "it strikes whole answers alone; take --whole"
    if dialect == "plain" and "stream" in needs and getattr(fault, "after_events", 0) is None:
        return "plain HTTP has no last word to strike before; take --param after_events=2, or name a --dialect"
    return None


def by_analogy(params: Mapping[str, Any], dialect: str) -> tuple[str, ...]:
    """What this API says otherwise than these parameters ask for, since it has no such word; a sentence each."""
    api, told = load(dialect), []
    condition, shape = params.get("condition"), params.get("shape")
    if condition is not None and not api.documents(condition):
        told.append(f"{dialect} documents no condition {condition}: it is worded by its status")
    if shape is not None and shape not in {one.name for one in api.shapes}:
        told.append(f"{dialect} has no shape {shape}: its usual one is said, where it has one")
    return tuple(told)


def ask_for(fault: Fault, dialect: str, *, stream: bool, model: str | None = None, body: bytes | None = None) -> Ask:
    """The request that the fault is tried on. `body` None: a question to the model, or what the fault strikes of MCP.

    Raises Problem for a dialect that is not in the catalogue.
    """
    path, made = _made(fault, dialect, stream, model or PRIMARY_MODEL)
    key = _KEYS.get(dialect, ("authorization", f"Bearer {KEY}"))
    return Ask(
        method="POST",
        path=path,
        fields=(("content-type", "application/json"), *_MORE.get(dialect, ()), key),
        body=json.dumps(made).encode() if body is None else body,
    )


def _made(fault: Fault, dialect: str, stream: bool, model: str) -> tuple[str, dict[str, Any]]:
    if dialect == "mcp":
        method = "tools/list" if "listing" in fault.needs else str(getattr(fault, "method", "tools/call"))
        params = {"name": _TOOL, "arguments": {"order": "A-1001"}} if method == "tools/call" else {}
        return "/mcp", {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
    path = _PATHS.get(dialect)
    if path is None:
        load(dialect)  # tells what there is
        raise Problem("--dialect", found=dialect, wanted="a dialect that a request is known for", remedy="name another")
    path = path.replace("MODEL", quote(model, safe="/:@"))
    path = path.replace("VERB", "streamGenerateContent?alt=sse" if stream else "generateContent")
    # Plain HTTP is asked at the path of chat completions, in what every server there takes: without OpenAI's own options.
    worded = "mistral" if dialect == "plain" else dialect
    body = DIALECTS[worded](Asked(url=path, dialect=worded, stream=stream, max_tokens=_MAX_TOKENS), [PROMPT])
    if dialect != "gemini":  # whose model stands in the path alone
        body = {"model": model, **body}
    if "tools" in fault.needs:
        body["tools"] = [_TOOLS.get(dialect) or {"type": "function", "function": _FUNCTION}]
    return path, body
