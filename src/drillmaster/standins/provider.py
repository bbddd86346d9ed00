"""A model provider to stand in for a real one: OpenAI chat completions and Anthropic messages, streaming or not.

1. Answers are a pure function of model and prompt: the same question gets the same words, in any order, at any load.
2. Latency is drawn per request from the seed and the request's number: log-normal about the median, never below a
   quarter nor above four times of it.
3. Any model name is served, as the name of a model that exists; the list names two, a primary and a fallback.
4. What a real provider refuses is refused in the same shape: broken JSON, no messages, no `max_tokens` where it is due.
   Keys are neither asked for nor looked at nor kept.
"""

import hashlib
import json
import math
import random
from collections.abc import Iterator
from typing import Any

import msgspec

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


def reply_to(method: str, path: str, headers: dict[str, str], body: bytes, *, number: int, now_s: int) -> Reply:
    """Answer one request. `headers` have lower-case names; `number` counts requests from 1 and makes the ids."""
    route = _route(path)
    request_id = _request_id(number)
    if route == "/messages":
        if method != "POST":
            return _anthropic_error(405, "invalid_request_error", f"{method} is not allowed here", request_id)
        return _messages(headers, body, request_id)
    if route == "/chat/completions":
        if method != "POST":
            return _openai_error(405, f"{method} is not allowed here", request_id=request_id)
        return _chat(body, request_id, now_s)
    if route == "/models" or route.startswith("/models/"):
        if method not in ("GET", "HEAD"):
            return _openai_error(405, f"{method} is not allowed here", request_id=request_id)
        return _models(route, request_id)
    if route in ("", "/healthz") and method in ("GET", "HEAD"):
        return Reply(body=b"ok\n", content_type="text/plain")
    return _openai_error(404, f"no such path: {method} {path.partition('?')[0]}", request_id=request_id)


def _route(path: str) -> str:
    """The path without query, closing slash and `/v1`, since some base URLs have it and some do not."""
    route = path.partition("?")[0].rstrip("/")
    return route.removeprefix("/v1") if route.startswith("/v1/") else route


def _request_id(number: int) -> str:
    return hashlib.sha256(f"request:{number}".encode()).hexdigest()[:24]


class _Bad(Exception):
    """A request that a provider refuses with 400."""

    def __init__(self, message: str, param: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.param = param


def _object(body: bytes) -> dict[str, Any]:
    try:
        value = json.loads(body)
    except (ValueError, RecursionError):
        raise _Bad("the body of the request is not JSON") from None
    if not isinstance(value, dict):
        raise _Bad("the body of the request is JSON but not an object")
    return value


def _text(content: object, where: str) -> str:
    """The text of a message: a string, or the text parts of a list of parts."""
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        texts = []
        for part in content:
            if not isinstance(part, dict) or not isinstance(part.get("type"), str):
                raise _Bad(f"{where}: each part is an object with a type", where)
            if isinstance(part.get("text"), str):
                texts.append(part["text"])
        return "".join(texts)
    raise _Bad(f"{where}: a string or a list of parts is required", where)


def _conversation(call: dict[str, Any], roles: tuple[str, ...]) -> str:
    model = call.get("model")
    if not isinstance(model, str) or not model:
        raise _Bad("model: a name is required", "model")
    messages = call.get("messages")
    if not isinstance(messages, list) or not messages:
        raise _Bad("messages: at least one message is required", "messages")
    prompt = []
    for i, message in enumerate(messages):
        if not isinstance(message, dict):
            raise _Bad(f"messages.{i}: an object is required", "messages")
        if message.get("role") not in roles:
            raise _Bad(f"messages.{i}.role: one of {', '.join(roles)} is required", "messages")
        prompt.append(_text(message.get("content"), f"messages.{i}.content"))
    stream = call.get("stream", False)
    if not isinstance(stream, bool | None):
        raise _Bad("stream: true or false", "stream")
    return "\n".join(prompt)


def _limit(call: dict[str, Any], *names: str) -> int | None:
    for name in names:
        value = call.get(name)
        if value is None:
            continue
        if type(value) is not int or value < 1:
            raise _Bad(f"{name}: a whole number of at least 1", name)
        return value
    return None


def _pieces(model: str, prompt: str, limit: int | None) -> tuple[list[str], bool]:
    """The answer cut into tokens (a word is one), and whether `max_tokens` cut it short."""
    words = answer_text(model, prompt)
    kept = words if limit is None else words[:limit]
    return [word if i == 0 else f" {word}" for i, word in enumerate(kept)], len(kept) < len(words)


def _tokens(text: str) -> int:
    return max(1, len(text) // 4)


def _dump(value: object) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")


def error_reply(path: str, status: int, why: str, *, number: int) -> Reply:
    """What a request that could not even be read gets, in the shape of the API that `path` belongs to."""
    if _route(path) == "/messages":
        kind = "request_too_large" if status == 413 else "invalid_request_error"
        return _anthropic_error(status, kind, why, _request_id(number))
    return _openai_error(status, why, request_id=_request_id(number))


# OpenAI chat completions -------------------------------------------------------------------------------------------


def _openai_error(
    status: int, message: str, *, request_id: str, param: str | None = None, code: str | None = None
) -> Reply:
    error = {"message": message, "type": "invalid_request_error", "param": param, "code": code}
    return Reply(status=status, headers={"x-request-id": f"req_{request_id}"}, body=_dump({"error": error}))


def _models(route: str, request_id: str) -> Reply:
    known = [
        {"id": name, "object": "model", "created": 1_767_225_600, "owned_by": "drillmaster"}
        for name in (PRIMARY_MODEL, FALLBACK_MODEL)
    ]
    headers = {"x-request-id": f"req_{request_id}"}
    if route == "/models":
        return Reply(headers=headers, body=_dump({"object": "list", "data": known}))
    name = route.removeprefix("/models/")
    for model in known:
        if model["id"] == name:
            return Reply(headers=headers, body=_dump(model))
    return _openai_error(
        404, f"the model {name!r} does not exist", request_id=request_id, param="model", code="model_not_found"
    )


def _chat(body: bytes, request_id: str, now_s: int) -> Reply:
    try:
        call = _object(body)
        prompt = _conversation(call, ("developer", "system", "user", "assistant", "tool", "function"))
        limit = _limit(call, "max_completion_tokens", "max_tokens")
        options = call.get("stream_options")
        if options is not None and not call.get("stream"):
            raise _Bad("stream_options: only where stream is true", "stream_options")
        if options is not None and not isinstance(options, dict):
            raise _Bad("stream_options: an object", "stream_options")
    except _Bad as bad:
        return _openai_error(400, bad.message, request_id=request_id, param=bad.param)
    model = call["model"]
    pieces, cut = _pieces(model, prompt, limit)
    finish = "length" if cut else "stop"
    before, after = _tokens(prompt), len(pieces)
    usage = {"prompt_tokens": before, "completion_tokens": after, "total_tokens": before + after}
    headers = {"x-request-id": f"req_{request_id}", "openai-version": "2020-10-01"}
    top = {"id": f"chatcmpl-{request_id}", "created": now_s, "model": model, "system_fingerprint": "fp_standin"}
    if not call.get("stream"):
        message = {"role": "assistant", "content": "".join(pieces), "refusal": None}
        choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": finish}
        whole = {**top, "object": "chat.completion", "choices": [choice], "usage": usage}
        return Reply(headers=headers, body=_dump(whole), thinks=True)

    counted = bool(options and options.get("include_usage"))

    def chunk(choices: list[dict[str, Any]], used: dict[str, int] | None = None) -> bytes:
        value: dict[str, Any] = {**top, "object": "chat.completion.chunk", "choices": choices}
        if counted:
            value["usage"] = used
        return b"data: " + _dump(value) + b"\n\n"

    def events() -> Iterator[bytes]:
        for i, piece in enumerate(["", *pieces]):
            delta = {"role": "assistant", "content": ""} if i == 0 else {"content": piece}
            yield chunk([{"index": 0, "delta": delta, "logprobs": None, "finish_reason": None}])
        yield chunk([{"index": 0, "delta": {}, "logprobs": None, "finish_reason": finish}])
        if counted:
            yield chunk([], usage)
        yield b"data: [DONE]\n\n"

    return Reply(headers=headers, body=None, events=tuple(events()), content_type="text/event-stream", thinks=True)


# Anthropic messages ------------------------------------------------------------------------------------------------


def _anthropic_error(status: int, kind: str, message: str, request_id: str) -> Reply:
    error = {"type": "error", "error": {"type": kind, "message": message}, "request_id": f"req_{request_id}"}
    return Reply(status=status, headers={"request-id": f"req_{request_id}"}, body=_dump(error))


def _messages(headers: dict[str, str], body: bytes, request_id: str) -> Reply:
    try:
        if "anthropic-version" not in headers:
            raise _Bad("anthropic-version: the header is required")
        call = _object(body)
        prompt = _conversation(call, ("user", "assistant"))
        limit = _limit(call, "max_tokens")
        if limit is None:
            raise _Bad("max_tokens: the field is required")
        if call.get("system") is not None:
            prompt = f"{_text(call['system'], 'system')}\n{prompt}"
    except _Bad as bad:
        return _anthropic_error(400, "invalid_request_error", bad.message, request_id)
    model = call["model"]
    pieces, cut = _pieces(model, prompt, limit)
    stop = "max_tokens" if cut else "end_turn"
    usage = {"input_tokens": _tokens(prompt), "output_tokens": len(pieces)}
    top = {"id": f"msg_{request_id}", "type": "message", "role": "assistant", "model": model}
    answered = {"request-id": f"req_{request_id}"}
    if not call.get("stream"):
        content = [{"type": "text", "text": "".join(pieces)}]
        whole = {**top, "content": content, "stop_reason": stop, "stop_sequence": None, "usage": usage}
        return Reply(headers=answered, body=_dump(whole), thinks=True)

    def event(kind: str, **fields: object) -> bytes:
        return f"event: {kind}\ndata: ".encode() + _dump({"type": kind, **fields}) + b"\n\n"

    def events() -> Iterator[bytes]:
        opened = {**top, "content": [], "stop_reason": None, "stop_sequence": None}
        yield event("message_start", message={**opened, "usage": {**usage, "output_tokens": 1}})
        yield event("content_block_start", index=0, content_block={"type": "text", "text": ""})
        yield event("ping")
        for piece in pieces:
            yield event("content_block_delta", index=0, delta={"type": "text_delta", "text": piece})
        yield event("content_block_stop", index=0)
        delta = {"stop_reason": stop, "stop_sequence": None}
        yield event("message_delta", delta=delta, usage={"output_tokens": len(pieces)})
        yield event("message_stop")

    return Reply(headers=answered, body=None, events=tuple(events()), content_type="text/event-stream", thinks=True)
