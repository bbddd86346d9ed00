"""A model provider to stand in for a real one. It speaks every dialect: whole answers, streams, tool calls, errors.

1. Answers are a pure function of model and prompt: the same question gets the same words, in any order, at any load.
2. Latency is drawn per request from the seed and the request's number: log-normal about the median, never below a
   quarter nor above four times of it.
3. Any model name is served, as the name of a model that exists; the list names two, a primary and a fallback.
4. What a real provider refuses is refused in the same shape: broken JSON, no messages, no `max_tokens` where it is due.
   Keys are neither asked for nor looked at nor kept.
5. The path says which API is asked. Where several have the same path, the first part of it may name the dialect
   (`/mistral/v1/chat/completions`), or the provider was started as one.
6. A tool is called when the request forces it, or when the last message names it and the choice is the model's. Its
   arguments are the plainest that its schema accepts.
7. A test can have models say lines of its own (`provider_script`); then rules 1 and 6 do not hold for them.
"""

import hashlib
import math
import random
import re
from typing import Any

import msgspec

from drillmaster.dialects import Bucket, Dialect, Streamed, ToolCall, dump, load, names
from drillmaster.dialects import Reply as Said
from drillmaster.http1 import Answer
from drillmaster.standins.provider_asks import READERS, Asked, Bad, arguments_for, read_object, wanted_tools
from drillmaster.standins.provider_mcp import mcp_answer
from drillmaster.standins.provider_script import Script, worded

__all__ = [
    "FALLBACK_MODEL",
    "PRIMARY_MODEL",
    "Latency",
    "Reply",
    "answer_text",
    "error_reply",
    "reply_to",
]

PRIMARY_MODEL = "standin-large"
FALLBACK_MODEL = "standin-small"

_SPREAD = 0.35  # sigma of the logarithm: p95 at 1.8 times the median, about what hosted models show on short prompts

_TEXT = """
the order was shipped on time and the invoice follows by mail please check your account page for details a refund takes
three working days we changed the address as you asked support is open from nine to five every weekday your plan renews
next month you can cancel it there at any point thank you for asking
"""
_WORDS = _TEXT.split()


class Latency(msgspec.Struct, frozen=True, kw_only=True):
    """How long a stand-in thinks. `token_ms` is the gap between two pieces of a stream."""

    median_ms: float
    token_ms: float
    seed: int

    def first_s(self, number: int) -> float:
        """Seconds before the first byte of answer number `number`."""
        draw = random.Random(f"{self.seed}:{number}").gauss(0.0, _SPREAD)  # noqa: S311 # seeded on purpose, no secret
        return self.median_ms / 1e3 * min(4.0, max(0.25, math.exp(draw)))


class Reply(msgspec.Struct, frozen=True, kw_only=True):
    """One answer before it is framed: a JSON body, or the events of a stream (`body` None)."""

    status: int = 200
    headers: dict[str, str] = {}
    body: bytes | None = b""
    events: tuple[bytes, ...] = ()
    content_type: str = "application/json"
    thinks: bool = False
    """Whether the latency applies: models think, errors do not."""


def answer_text(model: str, prompt: str) -> list[str]:
    """The words with which `model` answers `prompt`: 12 to 40 of them, the same each time."""
    key = hashlib.sha256(f"{model}\0{prompt}".encode("utf-8", "surrogatepass")).digest()
    count = 12 + key[0] % 29
    start = key[1] % len(_WORDS)
    words = [_WORDS[(start + i) % len(_WORDS)] for i in range(count)]
    words[0] = words[0].capitalize()
    words[-1] += "."
    return [f"[{key[2:6].hex()}]", *words]


def reply_to(
    method: str,
    path: str,
    headers: dict[str, str],
    body: bytes,
    *,
    number: int,
    now_s: int,
    dialect: str | None = None,
    script: Script | None = None,
) -> Reply:
    """Answer one request. `headers` have lower-case names; `number` counts requests from 1 and makes the ids.

    `dialect` is what the provider was started as; None: the path says. `script` is what models say that it knows of.
    """
    request_id = _request_id(number)
    name, kind, path = _which(path, headers, dialect)
    speaker = load(name)
    if kind == "mcp":
        return _reply(mcp_answer(method, body, request_id=request_id))
    if kind in READERS:
        if method != "POST":
            return _error(speaker, 405, f"{method} is not allowed here", request_id, path)
        return _words(speaker, kind, path, headers, body, request_id, now_s, script)
    if kind == "models":
        if method not in ("GET", "HEAD"):
            return _error(speaker, 405, f"{method} is not allowed here", request_id, path)
        return _models(speaker, path, request_id)
    if kind == "health" and method in ("GET", "HEAD"):
        return Reply(body=b"ok\n", content_type="text/plain")
    return _error(speaker, 404, f"no such path: {method} {path.partition('?')[0]}", request_id, path)


_KINDS: tuple[tuple[str, str, str | None], ...] = (
    # the end of a path -> what is asked, and the dialect that it is where nothing else says so
    (r"/mcp", "mcp", "mcp"),
    (r".*/models/[^/:]+:(?:generateContent|streamGenerateContent)", "gemini", "gemini"),
    (r"/api/(?:chat|generate)", "ollama", "ollama"),
    (r"/api/(?:tags|version)", "models", "ollama"),
    (r"/openai/deployments/[^/]+/chat/completions", "chat", "azure_openai"),
    (r"/openai/(?:deployments/[^/]+/|v1/)?responses", "responses", "azure_openai"),
    (r"/openai/v1/chat/completions", "chat", "groq"),
    (r"/openai/v1/models(?:/[^/]+)?", "models", "groq"),
    (r"/api/v1/chat/completions", "chat", "openrouter"),
    (r"/api/v1/responses", "responses", "openrouter"),
    (r"/api/v1/models", "models", "openrouter"),
    (r"/v1beta/models(?:/[^/]+)?", "models", "gemini"),
    (r"(?:/v1)?/messages", "messages", "anthropic"),
    (r"(?:/v1)?/chat/completions", "chat", "openai_chat"),
    (r"(?:/v1)?/responses", "responses", "openai_responses"),
    (r"(?:/v1)?/models(?:/[^/]+)?", "models", None),
    (r"|/healthz", "health", None),
)
_WHICH = tuple((re.compile(pattern), kind, name) for pattern, kind, name in _KINDS)


def _which(path: str, headers: dict[str, str], dialect: str | None) -> tuple[str, str, str]:
    """The dialect to answer in, what is asked, and the path without a dialect's name in front."""
    first, _, rest = path.removeprefix("/").partition("/")
    if first in names() and rest:
        dialect, path = first, f"/{rest}"
    route = path.partition("?")[0].rstrip("/")
    for pattern, kind, name in _WHICH:
        if pattern.fullmatch(route):
            if name == "groq" and ("api-key" in headers or "api-version=" in path):
                name = "azure_openai"
            return dialect or name or "openai_chat", kind, path
    return dialect or "openai_chat", "", path


def _request_id(number: int) -> str:
    return hashlib.sha256(f"request:{number}".encode()).hexdigest()[:24]


def _pieces(model: str, prompt: str, limit: int | None) -> tuple[list[str], bool]:
    """The answer cut into tokens (a word is one), and whether the limit cut it short."""
    words = answer_text(model, prompt)
    kept = words if limit is None else words[:limit]
    return [word if i == 0 else f" {word}" for i, word in enumerate(kept)], len(kept) < len(words)


def _tokens(text: str) -> int:
    return max(1, len(text) // 4)


def error_reply(path: str, status: int, why: str, *, number: int, dialect: str | None = None) -> Reply:
    """What a request that could not even be read gets, in the shape of the API that `path` belongs to."""
    name, _, path = _which(path, {}, dialect)
    return _error(load(name), status, why, _request_id(number), path)


def _error(speaker: Dialect, status: int, message: str, request_id: str, path: str, param: str | None = None) -> Reply:
    row = msgspec.structs.replace(speaker.condition(status), message=message, param=param)
    if row.name == "unlisted":
        row = msgspec.structs.replace(row, kind=speaker.condition(400).kind)
    return _reply(speaker.word(row, request_id=f"req_{request_id}", retry_after_s=None, path=path))


def _reply(answer: Answer, *, thinks: bool = False) -> Reply:
    headers = dict(answer.headers)
    content_type = headers.pop("content-type", "application/json")
    return Reply(status=answer.status, headers=headers, body=answer.body, content_type=content_type, thinks=thinks)


def _models(speaker: Dialect, path: str, request_id: str) -> Reply:
    route = path.partition("?")[0].rstrip("/")
    if route.endswith("/api/version"):
        return Reply(body=dump({"version": "0.0.0-standin"}))
    if speaker.name == "ollama" and route.endswith("/api/tags"):
        return Reply(body=dump({"models": [{"name": name, "model": name} for name in (PRIMARY_MODEL, FALLBACK_MODEL)]}))
    if speaker.name == "gemini":
        found = [{"name": f"models/{name}", "displayName": name} for name in (PRIMARY_MODEL, FALLBACK_MODEL)]
        return Reply(body=dump({"models": found}))
    known = [
        {"id": name, "object": "model", "created": 1_767_225_600, "owned_by": "drillmaster"}
        for name in (PRIMARY_MODEL, FALLBACK_MODEL)
    ]
    headers = {"x-request-id": f"req_{request_id}"}
    name = route.rpartition("/")[2]
    if name == "models":
        return Reply(headers=headers, body=dump({"object": "list", "data": known}))
    for model in known:
        if model["id"] == name:
            return Reply(headers=headers, body=dump(model))
    row = msgspec.structs.replace(
        speaker.condition(404), message=f"the model {name!r} does not exist", param="model", code="model_not_found"
    )
    return _reply(speaker.word(row, request_id=f"req_{request_id}", retry_after_s=None, path=path))


def _words(
    speaker: Dialect,
    kind: str,
    path: str,
    headers: dict[str, str],
    body: bytes,
    request_id: str,
    now_s: int,
    script: Script | None,
) -> Reply:
    try:
        asked = READERS[kind](path, headers, read_object(body))
    except Bad as bad:
        return _error(speaker, 400, bad.message, request_id, path, bad.param)
    prefix = "toolu_" if kind == "messages" else "call_"
    line = script.next_for(asked) if script is not None else None
    if line is None:
        said = _said(asked, prefix, request_id, now_s)
    else:
        spent = _tokens(asked.prompt)
        said = worded(line, asked, call_prefix=prefix, answer_id=request_id, now_s=now_s, input_tokens=spent)
    more = dict(speaker.rate_headers(requests=_bucket(10_000, 1), tokens=_bucket(2_000_000, 100), now_s=now_s))
    if speaker.name.startswith("openai"):
        more["openai-version"] = "2020-10-01"
    if not asked.stream:
        reply = _reply(speaker.answer(said, path=path, asked=body), thinks=True)
        return msgspec.structs.replace(reply, headers={**reply.headers, **more})
    streamed: Streamed = speaker.stream(said, path=path, asked=body)
    fields = dict(streamed.headers)
    content_type = fields.pop("content-type", "text/event-stream")
    return Reply(headers={**fields, **more}, body=None, events=streamed.frames, content_type=content_type, thinks=True)


def _bucket(limit: int, used: int) -> Bucket:
    return Bucket(limit=limit, remaining=limit - used, reset_s=60.0 * used / limit)


def _said(asked: Asked, prefix: str, request_id: str, now_s: int) -> Said:
    """What the model answers; ids of tool calls begin with `prefix`."""
    tools = tuple(
        ToolCall(id=f"{prefix}{request_id[:16]}{i}", name=tool.name, arguments=arguments_for(tool.schema))
        for i, tool in enumerate(wanted_tools(asked))
    )
    common: dict[str, Any] = {
        "model": asked.model,
        "answer_id": request_id,
        "now_s": now_s,
        "input_tokens": _tokens(asked.prompt),
        "usage_in_stream": asked.usage_in_stream,
    }
    if tools:
        return Said(tools=tools, finish="tool", output_tokens=sum(_tokens(call.arguments) for call in tools), **common)
    pieces, cut = _pieces(asked.model, asked.prompt, asked.limit)
    return Said(pieces=tuple(pieces), finish="length" if cut else "stop", output_tokens=len(pieces), **common)
