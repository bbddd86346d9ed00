"""The dialect `ollama`: Ollama's own API, and its imitation of chat completions.

1. `/api/chat` and `/api/generate` stream unless the request says `stream: false`, as JSON lines and not as events.
2. An error is `{"error": "text"}`; in a stream it is a line like that inside a 200, and nothing comes behind it.
3. The line with `done: true` ends a stream; `done_reason` is missing in older versions.
4. Behind `/v1/chat/completions` good answers come with `finish_reason: null`.
"""

import re
from typing import Any, ClassVar, Literal

import msgspec

from drillmaster.clock import rfc3339
from drillmaster.dialects import (
    EDGE_BYTES,
    Bucket,
    Condition,
    Ending,
    Finish,
    Peek,
    Reply,
    Says,
    Shape,
    Streamed,
    arguments_value,
    dump,
    is_whole_json,
    sse,
    whole_lines,
)
from drillmaster.dialects._chat import Chat
from drillmaster.http1 import Answer, RequestHead

__all__ = ["DIALECT", "Ollama"]

_D = "D docs.ollama.com/api/errors"
_LINES = ("content-type", "application/x-ndjson")
_NATIVE = ("/api/chat", "/api/generate")
_IMITATED = "/v1/chat/completions"
_DONE = re.compile(rb'"done"\s*:\s*true')
_SHORT = re.compile(rb'"done_reason"\s*:\s*"length"')
_ERROR_LINE = re.compile(rb'(?:\A|\n)\{\s*"error"\s*:\s*"')


def _row(status: int, name: str, message: str, source: str = _D, **more: Any) -> Condition:
    return Condition(name=name, status=status, message=message, source=source, **more)


class Ollama(Chat):
    """Ollama: `POST /api/chat` and `/api/generate`; its `/v1/chat/completions` at port 11434, or by the plan's `dialect: ollama`.

    Finished: a line with `done: true`. On its imitation of chat completions `data: [DONE]`, or without a stream a whole
    answer, whatever the `finish_reason`: null is what it sends on good answers.
    """

    name: ClassVar[str] = "ollama"
    null_finish: ClassVar[bool] = True
    # JSON lines have no comments: a line without words is the nearest to one.
    ping: ClassVar[bytes] = b'{"model":"","message":{"role":"assistant","content":""},"response":"","done":false}\n'
    splits: ClassVar[Literal["frame", "line"]] = "line"
    shapes: ClassVar[tuple[Shape, ...]] = (Shape("error-line", _D), Shape("data-error", "as openai_chat, at /v1"))
    table: ClassVar[tuple[Condition, ...]] = (
        _row(400, "bad-request", "missing request body", transient=False),
        _row(401, "auth", "unauthorized", "2 mintlify.com/ollama", transient=False),
        _row(402, "money", "payment required", "shape D, wording ours", transient=False),
        _row(404, "not-found", "model 'stand-in' not found", "2 mintlify.com/ollama", transient=False),
        _row(429, "rate", "too many requests", "shape D, wording ours"),
        _row(500, "server", "the model failed to generate a response"),
        _row(502, "bad-gateway", "the cloud model could not be reached", "shape D, wording ours"),
        _row(
            503, "overloaded", "server busy, please try again.  maximum pending requests exceeded", "shape D, wording S"
        ),
    )

    def speaks(self, request: RequestHead) -> bool:
        return request.method == "POST" and request.path.endswith((*_NATIVE, _IMITATED))

    def lives_at(self, host: bytes) -> bool:
        # It has no host of its own, and a port that is known for it.
        return host.endswith(b":11434")

    def recognises(self, request: RequestHead) -> bool:
        return request.method == "POST" and request.path in _NATIVE

    def peek(self, request: RequestHead, seen: Peek) -> Peek:
        if seen.stream is None and seen.model is not None and request.path.endswith(_NATIVE):
            return Peek(seen.model, True)
        return seen

    # Errors

    def unlisted(self, status: int) -> Condition:
        return _row(status, "unlisted", f"error {status}", "shape D, ours")

    def word(
        self, row: Condition, *, request_id: str, retry_after_s: float | None, path: str = "", asked: bytes = b""
    ) -> Answer:
        if _imitates(path):
            return _IMITATION.word(row, request_id=request_id, retry_after_s=None)
        headers = (("content-type", "application/json; charset=utf-8"),)
        return Answer(row.status, headers, dump({"error": row.message}), row.source)

    def rate_headers(
        self, *, requests: Bucket | None = None, tokens: Bucket | None = None, now_s: float = 0.0
    ) -> tuple[tuple[str, str], ...]:
        return ()

    # Endings

    def ending(self, status: int, content_type: bytes, tail: bytes, whole: bool) -> Ending:
        if status == 200 and whole and not content_type.startswith(b"text/event-stream"):
            lines = content_type.startswith(b"application/x-ndjson")
            if lines:
                tail = whole_lines(tail)
            if _ERROR_LINE.search(tail):
                return Ending.ERROR
            at = tail.rfind(b'"done"')
            if at >= 0 and _DONE.match(tail, at):
                if not lines and not is_whole_json(tail, at, 1, in_sight=len(tail) != EDGE_BYTES):
                    return Ending.CUT
                return Ending.INCOMPLETE if _SHORT.search(tail, max(0, at - 256)) else Ending.COMPLETE
            if lines:
                return Ending.CUT
        return super().ending(status, content_type, tail, whole)

    # Streams

    def says(self, frame: bytes) -> Says:
        if not frame.lstrip().startswith(b"{"):
            return super().says(frame)
        try:
            value = msgspec.json.decode(frame)
        except (msgspec.DecodeError, UnicodeDecodeError):
            return Says.NOTHING
        if value.get("error") is not None:
            return Says.ERROR
        message = value.get("message")
        message = message if isinstance(message, dict) else {}
        said = Says.NOTHING
        if message.get("content") or message.get("thinking") or value.get("response"):
            said |= Says.CONTENT
        if message.get("tool_calls"):
            said |= Says.TOOL
        if not said and value.get("done") is False:
            said = Says.PING
        if value.get("done") is True:
            said |= Says.FINISH | Says.TERMINAL
            if value.get("eval_count") is not None:
                said |= Says.USAGE
        return said

    def without_finish(self, frame: bytes) -> bytes | None:
        if not frame.lstrip().startswith(b"{"):
            return super().without_finish(frame)
        said = self.says(frame)
        if not said & Says.FINISH:
            return frame
        if not said & (Says.CONTENT | Says.TOOL):
            return None
        value = msgspec.json.decode(frame)
        kept = {key: value[key] for key in ("model", "created_at", "message", "response") if key in value}
        return dump({**kept, "done": False}) + b"\n"

    def error_frames(
        self, shape: str | None = None, condition: str = "overloaded", *, request_id: str, asked: bytes = b""
    ) -> tuple[bytes, ...]:
        name = self.shape(shape)
        row = self.condition(None, condition)
        if name == "data-error":
            return (sse(dump({"error": _IMITATION.error_object(row, "")})),)
        return (dump({"error": row.message}) + b"\n",)

    def usual_shape(self, path: str) -> str | None:
        return "data-error" if _imitates(path) else super().usual_shape(path)

    # Answers

    def finish_word(self, finish: Finish) -> str:
        return "length" if finish == "length" else "stop"

    def answer(self, reply: Reply, *, path: str = "", asked: bytes = b"") -> Answer:
        if _imitates(path):
            return _IMITATION.answer(reply)
        said = _said(path, reply.text, reply)
        return Answer(
            200, (("content-type", "application/json; charset=utf-8"),), dump({**said, **self._end(reply)}), _D
        )

    def stream(self, reply: Reply, *, path: str = "", asked: bytes = b"") -> Streamed:
        if _imitates(path):
            return _IMITATION.stream(reply)
        bare = msgspec.structs.replace(reply, tools=())
        lines = [{**_said(path, piece, bare), "done": False} for piece in reply.pieces]
        if reply.tools:
            lines.append({**_said(path, "", reply), "done": False})
        lines.append({**_said(path, "", bare), **self._end(reply)})
        return Streamed((_LINES,), tuple(dump(line) + b"\n" for line in lines))

    def _end(self, reply: Reply) -> dict[str, Any]:
        return {
            "done_reason": self.finish_word(reply.finish),
            "done": True,
            "total_duration": 1_000_000,
            "load_duration": 1,
            "prompt_eval_count": reply.input_tokens,
            "prompt_eval_duration": 1,
            "eval_count": reply.output_tokens,
            "eval_duration": 1,
        }


def _imitates(path: str) -> bool:
    return path.partition("?")[0].endswith(_IMITATED)


def _said(path: str, text: str, reply: Reply) -> dict[str, Any]:
    top: dict[str, Any] = {"model": reply.model, "created_at": rfc3339(reply.now_s * 1_000_000_000)}
    if path.partition("?")[0].endswith("/api/generate"):
        return {**top, "response": text}
    message: dict[str, Any] = {"role": "assistant", "content": text}
    if reply.tools:
        message["tool_calls"] = [
            {"function": {"name": call.name, "arguments": arguments_value(call.arguments)}} for call in reply.tools
        ]
    return {**top, "message": message}


class _Imitation(Chat):
    whole_calls: ClassVar[bool] = True

    def error_object(self, row: Condition, delay: str) -> dict[str, Any]:
        kind = "api_error" if row.status >= 500 else "invalid_request_error"
        return {"message": row.message, "type": kind, "param": None, "code": None}


_IMITATION = _Imitation()
DIALECT = Ollama()
