"""What the endpoint is sent: the prompt in the words of its API, frozen before the first call. Pure."""

from collections.abc import Callable, Iterable
from typing import Any

import msgspec

from drillmaster import strict
from drillmaster.dialects import load
from drillmaster.errors import Problem
from drillmaster.ladder import Asked

__all__ = ["DIALECTS", "bodies", "fixed_headers", "payload_sha256", "read_payloads"]

MAX_PAYLOADS = 100_000
_ANTHROPIC_MAX_TOKENS = 1024

Body = dict[str, Any]


def _plain(asked: Asked, prompt: str) -> Body:
    return {"prompt": prompt}


def _chat(asked: Asked, prompt: str) -> Body:
    body: Body = {"messages": [{"role": "user", "content": prompt}]}
    if asked.max_tokens is not None:
        body["max_tokens"] = asked.max_tokens
    if asked.stream:
        body |= {"stream": True}
        if asked.dialect != "mistral":  # which tells its usage unasked, and refuses what it does not know
            body["stream_options"] = {"include_usage": True}
    return body


def _responses(asked: Asked, prompt: str) -> Body:
    body: Body = {"input": prompt}
    if asked.max_tokens is not None:
        body["max_output_tokens"] = asked.max_tokens
    return {**body, "stream": True} if asked.stream else body


def _anthropic(asked: Asked, prompt: str) -> Body:
    body: Body = {
        "max_tokens": asked.max_tokens or _ANTHROPIC_MAX_TOKENS,
        "messages": [{"role": "user", "content": prompt}],
    }
    return {**body, "stream": True} if asked.stream else body


def _gemini(asked: Asked, prompt: str) -> Body:
    # Whether it is a stream stands in the URL, and so does the model.
    body: Body = {"contents": [{"role": "user", "parts": [{"text": prompt}]}]}
    if asked.max_tokens is not None:
        body["generationConfig"] = {"maxOutputTokens": asked.max_tokens}
    return body


def _ollama(asked: Asked, prompt: str) -> Body:
    body: Body = {"messages": [{"role": "user", "content": prompt}], "stream": asked.stream}
    if asked.max_tokens is not None:
        body["options"] = {"num_predict": asked.max_tokens}
    return body


DIALECTS: dict[str, Callable[[Asked, str], Body]] = {
    "plain": _plain,
    "openai_chat": _chat,
    "openai_responses": _responses,
    "anthropic": _anthropic,
    "gemini": _gemini,
    "ollama": _ollama,
    "azure_openai": _chat,
    "groq": _chat,
    "mistral": _chat,
    "openrouter": _chat,
}
"""How each API is asked."""
NO_MODEL = frozenset({"plain", "gemini", "azure_openai"})
"""APIs whose body need not name a model: there is none, or the URL has it."""


def bodies(asked: Asked, payloads: Iterable[Any] | None, *, place: str) -> tuple[str, ...]:
    """The bodies that are sent in turn, as JSON. `payloads` None: the prompt alone. Raises Problem."""
    if asked.method == "GET":
        return ("",)
    make = DIALECTS.get(asked.dialect)
    if make is None:
        load(asked.dialect)  # tells a wrong name from one that nothing can be asked in
        raise Problem(
            place,
            found=asked.dialect,
            wanted=f"one of {', '.join(DIALECTS)}",
            remedy="name the API that the endpoint speaks",
        )
    found = []
    for payload in (asked.prompt,) if payloads is None else payloads:
        body = payload if isinstance(payload, dict) else make(asked, payload)
        if asked.model is not None and "model" not in body:
            body = {"model": asked.model, **body}
        found.append(msgspec.json.encode(body).decode())
    return tuple(found)


def read_payloads(data: bytes, *, place: str) -> tuple[Any, ...]:
    """A payload set from JSONL: prompts (strings) and whole bodies (objects), in the order of their lines. Raises Problem."""
    found: list[Any] = []
    for number, line in enumerate(data.split(b"\n"), start=1):
        if not line.strip():
            continue
        value = strict.load(line, place=f"{place}:{number}", fmt="json")
        if not (isinstance(value, dict) or (isinstance(value, str) and value.strip())):
            raise Problem(
                f"{place}:{number}",
                found=strict.shown(value),
                wanted='a prompt ("text") or a whole body ({...})',
                remedy="write one JSON string or object a line",
            )
        found.append(value)
        if len(found) > MAX_PAYLOADS:
            raise Problem(
                place, found=f"over {MAX_PAYLOADS} lines", wanted=f"at most {MAX_PAYLOADS}", remedy="take a part of it"
            )
    if not found:
        raise Problem(
            place, found="no payload", wanted="at least one line", remedy="write one JSON string or object a line"
        )
    return tuple(found)


def fixed_headers(asked: Asked) -> dict[str, str]:
    """What goes with every call beside the plan's own headers."""
    found = {"Accept": "*/*", "User-Agent": "drillmaster"}
    if asked.method != "GET":
        found["Content-Type"] = "application/json"
    if asked.dialect == "anthropic":
        found["anthropic-version"] = "2023-06-01"
    named = {name.lower() for name in asked.headers}
    return {name: value for name, value in found.items() if name.lower() not in named}


def payload_sha256(asked: Asked, sent: tuple[str, ...], *, path: str) -> str:
    """The digest of what is asked: method, path, names of headers and all bodies."""
    return strict.digest({"method": asked.method, "path": path, "headers": sorted(asked.headers), "bodies": list(sent)})
