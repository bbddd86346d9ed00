"""A model provider to stand in for a real one: OpenAI chat completions and Anthropic messages, streaming or not.

1. Answers are a pure function of model and prompt: the same question gets the same words, in any order, at any load.
2. Latency is drawn per request from the seed and the request's number: log-normal about the median, never below a
   quarter nor above four times of it.
3. Any model name is served, as the name of a model that exists; the list names two, a primary and a fallback.
4. What a real provider refuses is refused in the same shape: broken JSON, no messages, no `max_tokens` where it is due.
   Keys are neither asked for nor looked at nor kept.
5. A request is read whole before it is answered, so that no client sees a reset where an error was meant.
"""

import asyncio
import hashlib
import json
import math
import random
import signal
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from typing import Any

import msgspec

from drillmaster import http1
from drillmaster.standins import check_port, say, watch_parent

__all__ = ["FALLBACK_MODEL", "PRIMARY_MODEL", "Latency", "Provider", "Reply", "answer_text", "reply_to", "serve"]

PRIMARY_MODEL = "standin-large"
FALLBACK_MODEL = "standin-small"

_BODY_BYTES = 32 * 1024 * 1024
_IDLE_S = 75.0
_HEAD_S = 10.0
_BODY_S = 60.0
_LINGER_S = 1.0
_CONNECTIONS = 1024
_WANTED = frozenset({b"anthropic-version"})
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


# The server --------------------------------------------------------------------------------------------------------

_REASONS = {
    200: "OK",
    400: "Bad Request",
    404: "Not Found",
    405: "Method Not Allowed",
    413: "Content Too Large",
    431: "Request Header Fields Too Large",
}


class _Refuse(Exception):
    """A request that cannot be framed: answer with this status and close."""

    def __init__(self, status: int, why: str) -> None:
        super().__init__(why)
        self.status = status
        self.why = why


def _refusal(refusal: _Refuse, path: str, request_id: str) -> Reply:
    if _route(path) == "/messages":
        kind = "request_too_large" if refusal.status == 413 else "invalid_request_error"
        return _anthropic_error(refusal.status, kind, refusal.why, request_id)
    return _openai_error(refusal.status, refusal.why, request_id=request_id)


class Provider:
    """One provider on one listening socket. `served` counts requests answered."""

    def __init__(self, latency: Latency) -> None:
        self.latency = latency
        self.served = 0
        self._serving: set[asyncio.Task[None]] = set()

    async def start(self, host: str, port: int) -> asyncio.Server:
        """Listen; port 0 takes a free one. Raises OSError when the port cannot be had."""
        return await asyncio.start_server(self._accept, host, port, backlog=256)

    async def drop(self) -> None:
        """Cut every open connection."""
        for task in self._serving:
            task.cancel()
        await asyncio.gather(*self._serving, return_exceptions=True)

    # A plain function, so that the tasks are ours: `asyncio.streams` complains of its own when they are cancelled.
    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if len(self._serving) >= _CONNECTIONS:
            writer.transport.abort()
            return
        task = asyncio.create_task(self._connection(_Wire(reader, writer)))
        self._serving.add(task)
        task.add_done_callback(self._serving.discard)

    async def _connection(self, wire: "_Wire") -> None:
        try:
            while await self._exchange(wire):
                pass
            wire.writer.close()
        except (ConnectionError, TimeoutError):
            pass  # the client went away, or dawdled; a real provider says nothing either
        finally:
            if not wire.writer.is_closing():
                wire.writer.transport.abort()

    async def _exchange(self, wire: "_Wire") -> bool:
        """Serve one request; False when the connection is over."""
        path = ""
        try:
            head = await wire.head()
            if head is None:
                return False
            path = head.origin_form.decode("latin-1")
            body = await wire.body(head)
        except _Refuse as refusal:
            self.served += 1
            reply = _refusal(refusal, path, _request_id(self.served))
            await _send(wire.writer, reply, keep=False, head_only=False, minor=1)
            await wire.linger()
            return False
        self.served += 1
        number = self.served
        fields = {name.decode(): value.decode("latin-1") for name, value in head.named.items()}
        reply = reply_to(head.method, path, fields, body, number=number, now_s=int(time.time()))
        started = time.monotonic()
        if reply.thinks:
            await asyncio.sleep(self.latency.first_s(number))
        if "x-request-id" in reply.headers:
            spent_ms = round((time.monotonic() - started) * 1e3)
            reply = msgspec.structs.replace(reply, headers={**reply.headers, "openai-processing-ms": str(spent_ms)})
        keep = head.keep_alive and head.minor == 1
        gap_s = self.latency.token_ms / 1e3
        await _send(wire.writer, reply, keep=keep, head_only=head.method == "HEAD", minor=head.minor, gap_s=gap_s)
        return keep


class _Wire:
    """One connection, read message by message."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.writer = writer
        self._reader = reader
        self._held = b""

    async def _more(self) -> bytes:
        data = await self._reader.read(65_536)
        if not data:
            raise ConnectionResetError("the client closed within a message")
        return data

    async def head(self) -> http1.RequestHead | None:
        """The next head; None when the client is done. Raises _Refuse, TimeoutError."""
        try:
            if not self._held:
                async with asyncio.timeout(_IDLE_S):
                    self._held = await self._reader.read(65_536)
                if not self._held:
                    return None
            async with asyncio.timeout(_HEAD_S):
                while not (end := http1.cut_head(self._held)):
                    self._held += await self._more()
            raw, self._held = self._held[:end], self._held[end:]
            return http1.read_request(raw, _WANTED)
        except http1.Malformed as error:
            raise _Refuse(431 if len(self._held) >= http1.MAX_HEAD_BYTES else 400, error.why) from None

    async def body(self, head: http1.RequestHead) -> bytes:
        """The whole body of that head. Raises _Refuse, TimeoutError."""
        if head.length is not None and head.length > _BODY_BYTES:
            raise _Refuse(413, f"more than {_BODY_BYTES} bytes of body")
        coming = http1.request_body(head)
        if head.expects and not coming.done and not self._held:
            self.writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        body = bytearray()
        try:
            async with asyncio.timeout(_BODY_S):
                while not coming.done:
                    data, self._held = self._held or await self._more(), b""
                    body += coming.feed(data)
                    if len(body) > _BODY_BYTES:
                        raise _Refuse(413, f"more than {_BODY_BYTES} bytes of body")
        except http1.Malformed as error:
            raise _Refuse(400, error.why) from None
        self._held = coming.rest or self._held
        return bytes(body)

    async def linger(self) -> None:
        """Let what is still on its way arrive, for a while: else our end would be a reset and eat the answer."""
        self.writer.write_eof()
        with suppress(TimeoutError):
            async with asyncio.timeout(_LINGER_S):
                while await self._reader.read(65_536):
                    pass


async def _send(
    writer: asyncio.StreamWriter, reply: Reply, *, keep: bool, head_only: bool, minor: int, gap_s: float = 0.0
) -> None:
    """Frame and send. A stream goes out chunked, an event a chunk; to HTTP/1.0 it ends with the connection."""
    keep = keep and minor == 1
    stamp = time.strftime("%a, %d %b %Y %H:%M:%S GMT", time.gmtime())
    lines = [f"HTTP/1.1 {reply.status} {_REASONS.get(reply.status, 'Status')}", "server: drillmaster-standin"]
    lines += [f"date: {stamp}", f"content-type: {reply.content_type}"]
    lines += [f"{name}: {value}" for name, value in reply.headers.items()]
    chunked = reply.body is None and minor == 1
    if reply.body is not None:
        lines.append(f"content-length: {len(reply.body)}")
    else:
        lines.append("cache-control: no-cache")
        if chunked:
            lines.append("transfer-encoding: chunked")
    if not keep:
        lines.append("connection: close")
    head = "\r\n".join(lines).encode("latin-1") + b"\r\n\r\n"
    if reply.body is not None or head_only:
        writer.write(head + (b"" if head_only else reply.body or b""))
        await writer.drain()
        return
    writer.write(head)
    async for event in _paced(reply.events, gap_s):
        writer.write(http1.chunk(event) if chunked else event)
        await writer.drain()
    if chunked:
        writer.write(http1.LAST_CHUNK)
        await writer.drain()


async def _paced(events: tuple[bytes, ...], gap_s: float) -> AsyncIterator[bytes]:
    for i, event in enumerate(events):
        if i and gap_s:
            await asyncio.sleep(gap_s)
        yield event


async def _until_told(host: str, port: int, latency: Latency, die_with_parent: bool) -> None:
    loop = asyncio.get_running_loop()
    told = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, told.set)
    if die_with_parent:
        watch_parent(loop.call_soon_threadsafe, told.set)
    provider = Provider(latency)
    try:
        server = await provider.start(host, port)
    except OSError as error:
        raise check_port(host, port, error) from None
    address = server.sockets[0].getsockname()
    shown = f"[{address[0]}]" if ":" in address[0] else address[0]
    say(f"standin provider listening on http://{shown}:{address[1]}/v1")
    await told.wait()
    server.close()
    await provider.drop()


def serve(host: str, port: int, latency: Latency, *, die_with_parent: bool = False) -> None:
    """Serve until SIGTERM, SIGINT or, when asked, the parent's end. Prints the address on one line of stdout."""
    asyncio.run(_until_told(host, port, latency, die_with_parent))
