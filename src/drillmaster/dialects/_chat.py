"""The shape of chat completions, which OpenAI made and many providers speak. No entry: what those entries share.

1. A finish reason that is text ends the choice, `data: [DONE]` ends the stream. Either is the terminal state: gateways leave
   out the one or the other, and the SDK (measured) takes both for whole answers. `finish_reason: "error"` is an error.
2. An error inside a stream is a data frame with an `error` object; the connection ends behind it, without `[DONE]`.
"""

import re
from typing import Any, ClassVar

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
    data_of,
    dump,
    go_duration,
    is_whole_json,
    sse,
    whole_lines,
    whole_seconds,
)
from drillmaster.http1 import Answer, RequestHead

__all__ = ["DONE", "JSON", "SSE", "Chat", "ErrorObject", "OpenAIErrors"]

JSON = ("content-type", "application/json")
SSE = ("content-type", "text/event-stream; charset=utf-8")
DONE = b"data: [DONE]\n\n"

# Looked for from the end: in most answers the last bytes decide.
_FINISH = re.compile(rb'"finish_reason"\s*:\s*"([a-z_]+)"')
_DONE = re.compile(rb"(?:\A|\n|\r)data: ?\Z")
_STREAM_ERROR = re.compile(rb"(?:\A|\n|\r)data: ?\{\s*\Z")
_COMPLETE = Ending.COMPLETE
_MEANS = {b"length": Ending.INCOMPLETE, b"content_filter": Ending.INCOMPLETE, b"error": Ending.ERROR}
_WORDS: dict[Finish, str] = {
    "stop": "stop",
    "length": "length",
    "content_filter": "content_filter",
    "tool": "tool_calls",
    "refusal": "stop",
}


class ErrorObject(Dialect):
    """Errors as `{"error": {"message", "type", "param", "code"}}`, limits as `x-ratelimit-*`."""

    request_id_header: ClassVar[str] = "x-request-id"

    def error_object(self, row: Condition, delay: str) -> dict[str, Any]:
        """The `error` object of a row, as it stands in a body or in a frame."""
        message = row.message.replace("{delay}", delay)
        return {"message": message, "type": row.kind, "param": row.param, "code": row.code}

    def word(
        self, row: Condition, *, request_id: str, retry_after_s: float | None, path: str = "", asked: bytes = b""
    ) -> Answer:
        delay = "a moment" if retry_after_s is None else go_duration(retry_after_s)
        body = dump({"error": self.error_object(row, delay)})
        told = () if retry_after_s is None else self.delay_headers(retry_after_s)
        return Answer(row.status, (JSON, (self.request_id_header, request_id), *told), body, row.source)

    def delay_headers(self, seconds: float) -> tuple[tuple[str, str], ...]:
        """The fields that say when to try again."""
        return (("retry-after", whole_seconds(seconds)),)

    def rate_headers(
        self, *, requests: Bucket | None = None, tokens: Bucket | None = None, now_s: float = 0.0
    ) -> tuple[tuple[str, str], ...]:
        fields = []
        for what, bucket in (("requests", requests), ("tokens", tokens)):
            if bucket is not None:
                fields += [
                    (f"x-ratelimit-limit-{what}", str(bucket.limit)),
                    (f"x-ratelimit-remaining-{what}", str(bucket.remaining)),
                    (f"x-ratelimit-reset-{what}", self.reset(bucket.reset_s)),
                ]
        return tuple(fields)

    def reset(self, seconds: float) -> str:
        """How the rate fields write the time until a bucket is full."""
        return go_duration(seconds)


class OpenAIErrors(ErrorObject):
    """OpenAI's own."""

    def word(
        self, row: Condition, *, request_id: str, retry_after_s: float | None, path: str = "", asked: bytes = b""
    ) -> Answer:
        answer = super().word(row, request_id=request_id, retry_after_s=retry_after_s, path=path, asked=asked)
        return Answer(answer.status, (*answer.headers, ("openai-processing-ms", "9")), answer.body, answer.source)

    def delay_headers(self, seconds: float) -> tuple[tuple[str, str], ...]:
        # Source S: the SDK reads the milliseconds first.
        return (("retry-after", whole_seconds(seconds)), ("retry-after-ms", str(round(seconds * 1e3))))


class Chat(ErrorObject):
    """Chat completions as such."""

    shapes: ClassVar[tuple[Shape, ...]] = (Shape("data-error", "M: the SDK raises APIError at such a frame"),)
    null_finish: ClassVar[bool] = False
    """Whether a whole answer may come without a finish reason."""
    whole_calls: ClassVar[bool] = False
    """Whether a stream carries each tool call in one piece."""

    def speaks(self, request: RequestHead) -> bool:
        return request.method == "POST" and request.path.endswith("/chat/completions")

    # Endings

    def ending(self, status: int, content_type: bytes, tail: bytes, whole: bool) -> Ending:
        if status != 200:
            return Ending.ERROR
        if not whole:
            return Ending.CUT
        streams = content_type[:17] == b"text/event-stream"
        if streams:
            tail = whole_lines(tail)
        at = tail.rfind(b'"finish_reason"')
        finish = _FINISH.match(tail, at) if at >= 0 else None
        if streams:
            return _stream_ending(tail, finish)
        if at >= 0 and not is_whole_json(tail, at, 3, in_sight=len(tail) != EDGE_BYTES):  # of a choice, of choices
            return Ending.CUT
        if finish is not None:
            return _MEANS.get(finish[1], _COMPLETE)
        if self.null_finish and at >= 0:
            return Ending.COMPLETE
        return Ending.ERROR if tail.lstrip().startswith(b'{"error"') else Ending.CUT

    # Streams

    def says(self, frame: bytes) -> Says:
        stripped = frame.strip()
        if not stripped or stripped.startswith(b":"):
            return Says.PING
        if stripped == b"data: [DONE]" or stripped == b"data:[DONE]":
            return Says.TERMINAL
        value = data_of(frame)
        if not isinstance(value, dict):
            return Says.NOTHING
        if value.get("error") is not None:
            return Says.ERROR
        said = Says.NOTHING
        choices = value.get("choices")
        for choice in choices if isinstance(choices, list) else ():
            if not isinstance(choice, dict):
                continue
            delta = choice.get("delta")
            delta = delta if isinstance(delta, dict) else {}
            if any(delta.get(key) for key in ("content", "refusal", "reasoning", "reasoning_content")):
                said |= Says.CONTENT
            elif delta.get("tool_calls"):
                said |= Says.TOOL
            elif "role" in delta:
                said |= Says.OPEN
            if choice.get("finish_reason") is not None:
                said |= Says.ERROR if choice["finish_reason"] == "error" else Says.FINISH
        if value.get("usage") is not None:
            said |= Says.USAGE
        return said

    def without_finish(self, frame: bytes) -> bytes | None:
        said = self.says(frame)
        if not said & (Says.FINISH | Says.USAGE | Says.TERMINAL):
            return frame
        if not said & (Says.CONTENT | Says.TOOL | Says.OPEN):
            return None
        # Some providers (Groq, Mistral) send reason and usage on a frame that has words as well.
        value = data_of(frame)
        for choice in value["choices"]:
            if isinstance(choice, dict):
                choice["finish_reason"] = None
        value.pop("usage", None)
        return sse(dump(value))

    def error_frames(
        self, shape: str | None = None, condition: str = "overloaded", *, request_id: str, asked: bytes = b""
    ) -> tuple[bytes, ...]:
        self.shape(shape)
        return (sse(dump({"error": self.error_object(self.condition(None, condition), "a moment")})),)

    # Answers

    def finish_word(self, finish: Finish) -> str:
        return _WORDS[finish]

    def usage(self, reply: Reply) -> dict[str, Any]:
        """The `usage` object."""
        return {
            "prompt_tokens": reply.input_tokens,
            "completion_tokens": reply.output_tokens,
            "total_tokens": reply.input_tokens + reply.output_tokens,
        }

    def top(self, reply: Reply) -> dict[str, Any]:
        """What stands on every object of an answer, before its choices."""
        return {"id": f"chatcmpl-{reply.answer_id}", "created": reply.now_s, "model": reply.model}

    def answer(self, reply: Reply, *, path: str = "", asked: bytes = b"") -> Answer:
        message: dict[str, Any] = {"role": "assistant", "content": reply.text or None}
        if reply.finish == "refusal":
            message |= {"content": None, "refusal": reply.text}
        if reply.tools:
            message["tool_calls"] = [_call(call) for call in reply.tools]
        choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": self.finish_word(reply.finish)}
        whole = {**self.top(reply), "object": "chat.completion", "choices": [choice], "usage": self.usage(reply)}
        return Answer(200, (JSON, (self.request_id_header, f"req_{reply.answer_id}")), dump(whole), "S")

    def stream(self, reply: Reply, *, path: str = "", asked: bytes = b"") -> Streamed:
        words = "refusal" if reply.finish == "refusal" else "content"
        deltas: list[dict[str, Any]] = [{"role": "assistant", "content": ""}]
        deltas += [{words: piece} for piece in reply.pieces]
        for index, call in enumerate(reply.tools):
            opened = {"index": index, **_call(call)}
            if self.whole_calls:
                deltas.append({"tool_calls": [opened]})
                continue
            deltas.append({"tool_calls": [{**opened, "function": {"name": call.name, "arguments": ""}}]})
            half = len(call.arguments) // 2
            deltas += [
                {"tool_calls": [{"index": index, "function": {"arguments": part}}]}
                for part in (call.arguments[:half], call.arguments[half:])
                if part
            ]
        frames = [self.chunk(reply, delta, None) for delta in deltas]
        frames.append(self.chunk(reply, {}, self.finish_word(reply.finish)))
        if reply.usage_in_stream:
            frames += self.usage_frames(reply)
        return Streamed((SSE, (self.request_id_header, f"req_{reply.answer_id}")), (*frames, DONE))

    def chunk(self, reply: Reply, delta: dict[str, Any], finish: str | None) -> bytes:
        """One frame of a stream."""
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
        value = {**self.top(reply), "object": "chat.completion.chunk", "choices": [choice]}
        if reply.usage_in_stream:
            value["usage"] = None
        return sse(dump(value))

    def usage_frames(self, reply: Reply) -> list[bytes]:
        """What tells the usage of a stream, behind the finish reason."""
        value = {**self.top(reply), "object": "chat.completion.chunk", "choices": [], "usage": self.usage(reply)}
        return [sse(dump(value))]


def _call(call: Any) -> dict[str, Any]:
    return {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}


def _stream_ending(tail: bytes, finish: re.Match[bytes] | None) -> Ending:
    if b'"error"' in tail:
        at = tail.rfind(b'"error"')
        while at >= 0:
            if _STREAM_ERROR.search(tail, max(0, at - 32), at):
                return Ending.ERROR
            at = tail.rfind(b'"error"', 0, at)
    if finish is not None:
        return _MEANS.get(finish[1], Ending.COMPLETE)
    if (at := tail.rfind(b"[DONE]")) >= 0 and _DONE.search(tail, max(0, at - 8), at):
        # A gateway, or a server like Ollama, that closes its stream as the API does and gives no reason.
        return Ending.COMPLETE
    return Ending.CUT
