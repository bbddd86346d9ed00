"""The dialect `anthropic`: Anthropic's messages.

1. Types by status are those of the official error page. 429 has two meanings: a rate limit, which says when to come back,
   and a spend cap (`error.details.error_code`), which does not and must not be retried.
2. A stream's errors are `event: error` inside a 200. The SDK turns one into an APIStatusError whose `status_code` is 200.
3. A stream ends with `message_stop`. The stop reason comes before it, in `message_delta`; alone it is not the end: the API
   promises the event, and no known gateway leaves it out, so that where it is missing something was cut.
"""

import re
from typing import Any, ClassVar

from drillmaster.clock import rfc3339
from drillmaster.dialects import (
    EDGE_BYTES,
    Bucket,
    Condition,
    Dialect,
    Ending,
    Finish,
    Reply,
    Says,
    Shape,
    Streamed,
    arguments_value,
    data_of,
    dump,
    has_event,
    is_whole_json,
    sse,
    whole_lines,
    whole_seconds,
)
from drillmaster.http1 import Answer, RequestHead

__all__ = ["DIALECT", "Anthropic"]

_D = "D platform.claude.com/docs/en/api/errors"
_UNLISTED = "shape D, status not documented"


def _row(status: int, name: str, kind: str, message: str, source: str = _D, **more: Any) -> Condition:
    return Condition(name=name, status=status, kind=kind, message=message, source=source, **more)


_STOP_REASON = re.compile(rb'"stop_reason"\s*:\s*"([a-z_]+)"')
_SHORT = frozenset((b"max_tokens", b"model_context_window_exceeded", b"pause_turn"))
_WORDS: dict[Finish, str] = {
    "stop": "end_turn",
    "length": "max_tokens",
    "content_filter": "refusal",
    "tool": "tool_use",
    "refusal": "refusal",
}
_EVENTS = {
    "message_start": Says.OPEN,
    "content_block_start": Says.OPEN,
    "content_block_stop": Says.NOTHING,
    "message_delta": Says.FINISH | Says.USAGE,
    "message_stop": Says.TERMINAL,
    "error": Says.ERROR,
    "ping": Says.PING,
}


class Anthropic(Dialect):
    """Anthropic messages: `POST .../v1/messages`, or any request with an `anthropic-version`.

    Finished: `event: message_stop`. Without a stream: a `stop_reason` that is text.
    """

    name: ClassVar[str] = "anthropic"
    hosts: ClassVar[tuple[bytes, ...]] = (b"api.anthropic.com",)
    ping: ClassVar[bytes] = b'event: ping\ndata: {"type":"ping"}\n\n'
    shapes: ClassVar[tuple[Shape, ...]] = (Shape("event", "D; M: APIStatusError with status_code 200"),)
    table: ClassVar[tuple[Condition, ...]] = (
        _row(400, "bad-request", "invalid_request_error", "The request could not be understood.", transient=False),
        _row(
            400,
            "context",
            "invalid_request_error",
            "prompt is too long: 200001 tokens > 200000 maximum",
            "shape D, wording ours",
            transient=False,
        ),
        _row(
            400,
            "money-own-limit",
            "invalid_request_error",
            "You have reached your specified API usage limits.",
            "D: an own spend limit is a 400, wording ours",
            transient=False,
        ),
        _row(401, "auth", "authentication_error", "invalid x-api-key", transient=False),
        _row(
            402,
            "money",
            "billing_error",
            "There is an issue with your billing or payment information.",
            transient=False,
        ),
        _row(
            403,
            "permission",
            "permission_error",
            "Your API key does not have permission to use the specified resource.",
            transient=False,
        ),
        _row(404, "not-found", "not_found_error", "The requested resource was not found.", transient=False),
        _row(409, "conflict", "conflict_error", "The request conflicts with the current state of the resource."),
        _row(
            413,
            "too-large",
            "request_too_large",
            "Request exceeds the maximum allowed number of bytes.",
            transient=False,
        ),
        _row(429, "rate", "rate_limit_error", "This request would exceed your rate limit.", tells_delay=True),
        _row(
            429, "rate-tokens", "rate_limit_error", "This request would exceed your token rate limit.", tells_delay=True
        ),
        # A gateway that speaks this dialect and names days: `retry-after: 277403` was seen.
        _row(
            429,
            "rate-opencode",
            "GoUsageLimitError",
            "Usage limit reached.",
            "T earendil-works/pi#6911",
            tells_delay=True,
        ),
        _row(
            429,
            "money",
            "rate_limit_error",
            "This request would exceed your spend limit.",
            "D learn.microsoft.com dev-proxy, 529 page",
            code="enforced_spend_limit_reached",
            transient=False,
        ),
        _row(500, "server", "api_error", "Internal server error"),
        _row(502, "bad-gateway", "api_error", "Bad gateway", _UNLISTED),
        _row(503, "unavailable", "api_error", "Service unavailable", _UNLISTED),
        _row(504, "gateway-timeout", "timeout_error", "Request timed out"),
        _row(529, "overloaded", "overloaded_error", "Overloaded"),
    )

    def speaks(self, request: RequestHead) -> bool:
        return b"anthropic-version" in request.named or (
            request.method == "POST" and request.path.endswith("/v1/messages")
        )

    # Errors

    def unlisted(self, status: int) -> Condition:
        kind = "api_error" if status >= 500 else "invalid_request_error"
        return Condition(name="unlisted", status=status, kind=kind, message=f"Error {status}", source=_UNLISTED)

    def word(
        self, row: Condition, *, request_id: str, retry_after_s: float | None, path: str = "", asked: bytes = b""
    ) -> Answer:
        error: dict[str, Any] = {"type": row.kind, "message": row.message}
        if row.code is not None:
            error["details"] = {"error_code": row.code}
        told = () if retry_after_s is None else (("retry-after", whole_seconds(retry_after_s)),)
        body = dump({"type": "error", "error": error, "request_id": request_id})
        return Answer(
            row.status, (("content-type", "application/json"), ("request-id", request_id), *told), body, row.source
        )

    def rate_headers(
        self, *, requests: Bucket | None = None, tokens: Bucket | None = None, now_s: float = 0.0
    ) -> tuple[tuple[str, str], ...]:
        fields = []
        # The tokens' bucket is reported three times: the API keeps one for what comes in and one for what goes out.
        for what, bucket in (
            ("requests", requests),
            ("tokens", tokens),
            ("input-tokens", tokens),
            ("output-tokens", tokens),
        ):
            if bucket is not None:
                fields += [
                    (f"anthropic-ratelimit-{what}-limit", str(bucket.limit)),
                    (f"anthropic-ratelimit-{what}-remaining", str(bucket.remaining)),
                    (f"anthropic-ratelimit-{what}-reset", rfc3339(round((now_s + bucket.reset_s) * 1e9), digits=0)),
                ]
        return tuple(fields)

    # Endings

    def ending(self, status: int, content_type: bytes, tail: bytes, whole: bool) -> Ending:
        if status != 200:
            return Ending.ERROR
        if not whole:
            return Ending.CUT
        at = tail.rfind(b'"stop_reason"')
        reason = _STOP_REASON.match(tail, at) if at >= 0 else None
        ended = Ending.INCOMPLETE if reason is not None and reason[1] in _SHORT else Ending.COMPLETE
        if content_type.startswith(b"text/event-stream"):
            tail = whole_lines(tail)
            if b"error" in tail and has_event(tail, b"error"):
                return Ending.ERROR
            return ended if b"message_stop" in tail and has_event(tail, b"message_stop") else Ending.CUT
        if reason is not None:
            return ended if is_whole_json(tail, at, 1, in_sight=len(tail) != EDGE_BYTES) else Ending.CUT
        return Ending.ERROR if b'"type":"error"' in tail.replace(b" ", b"")[:32] else Ending.CUT

    # Streams

    def says(self, frame: bytes) -> Says:
        if not frame.strip() or frame.startswith(b":"):
            return Says.PING
        value = data_of(frame)
        kind = value.get("type") if isinstance(value, dict) else None
        if kind == "content_block_delta":
            delta = value.get("delta")
            is_tool = isinstance(delta, dict) and delta.get("type") == "input_json_delta"
            return Says.TOOL if is_tool else Says.CONTENT
        if kind == "content_block_start":
            block = value.get("content_block")
            if isinstance(block, dict) and block.get("type") == "tool_use":
                return Says.TOOL
        return _EVENTS.get(kind, Says.NOTHING) if isinstance(kind, str) else Says.NOTHING

    def error_frames(
        self, shape: str | None = None, condition: str = "overloaded", *, request_id: str, asked: bytes = b""
    ) -> tuple[bytes, ...]:
        self.shape(shape)
        row = self.condition(None, condition)
        value = {"type": "error", "error": {"type": row.kind, "message": row.message}, "request_id": request_id}
        return (sse(dump(value), "error"),)

    # Answers

    def finish_word(self, finish: Finish) -> str:
        return _WORDS[finish]

    def answer(self, reply: Reply, *, path: str = "", asked: bytes = b"") -> Answer:
        content: list[dict[str, Any]] = []
        if reply.text:
            content.append({"type": "text", "text": reply.text})
        for call in reply.tools:
            content.append(
                {"type": "tool_use", "id": call.id, "name": call.name, "input": arguments_value(call.arguments)}
            )
        usage = {"input_tokens": reply.input_tokens, "output_tokens": reply.output_tokens}
        end = {"stop_reason": self.finish_word(reply.finish), "stop_sequence": None, "usage": usage}
        return Answer(
            200, self._headers(reply, "application/json"), dump({**_top(reply), "content": content, **end}), "D"
        )

    def stream(self, reply: Reply, *, path: str = "", asked: bytes = b"") -> Streamed:
        opened = {**_top(reply), "content": [], "stop_reason": None, "stop_sequence": None}
        usage = {"input_tokens": reply.input_tokens, "output_tokens": 1}
        frames = [_event("message_start", message={**opened, "usage": usage})]
        index = 0
        if reply.pieces or not reply.tools:
            frames.append(_event("content_block_start", index=index, content_block={"type": "text", "text": ""}))
            frames.append(self.ping)
            for piece in reply.pieces:
                frames.append(_event("content_block_delta", index=index, delta={"type": "text_delta", "text": piece}))
            frames.append(_event("content_block_stop", index=index))
            index += 1
        for call in reply.tools:
            block = {"type": "tool_use", "id": call.id, "name": call.name, "input": {}}
            frames.append(_event("content_block_start", index=index, content_block=block))
            half = len(call.arguments) // 2
            for part in ("", call.arguments[:half], call.arguments[half:]):
                said = {"type": "input_json_delta", "partial_json": part}
                frames.append(_event("content_block_delta", index=index, delta=said))
            frames.append(_event("content_block_stop", index=index))
            index += 1
        delta: dict[str, str | None] = {"stop_reason": self.finish_word(reply.finish), "stop_sequence": None}
        frames.append(_event("message_delta", delta=delta, usage={"output_tokens": reply.output_tokens}))
        frames.append(_event("message_stop"))
        return Streamed(self._headers(reply, "text/event-stream; charset=utf-8"), tuple(frames))

    def _headers(self, reply: Reply, content_type: str) -> tuple[tuple[str, str], ...]:
        return (("content-type", content_type), ("request-id", f"req_{reply.answer_id}"))


def _top(reply: Reply) -> dict[str, Any]:
    return {"id": f"msg_{reply.answer_id}", "type": "message", "role": "assistant", "model": reply.model}


def _event(kind: str, **fields: object) -> bytes:
    return sse(dump({"type": kind, **fields}), kind)


DIALECT = Anthropic()
