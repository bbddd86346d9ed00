"""The shape of OpenAI's responses, and providers that speak chat completions and responses both. No entry.

1. `response.completed` and `response.incomplete` are terminal, the one complete and the other short (`incomplete_details`:
   a token limit, a filter). Treating `incomplete` as a failure is as wrong as treating it as a whole answer.
2. A failure inside a 200 has three shapes. `flat`, the documented one, raises nothing in the SDK; `nested` (seen live)
   raises APIError; `failed` is an event like any other and raises nothing (measured, openai 3.57).
3. The terminal event repeats the whole response, so that its own beginning can lie before the last `EDGE_BYTES`. Then its
   end decides: of all events only the two terminal ones carry a `usage` that is an object.
"""

import re
from typing import Any, ClassVar

import msgspec

from drillmaster.dialects import (
    EDGE_BYTES,
    Condition,
    Dialect,
    Ending,
    Finish,
    Reply,
    Says,
    Shape,
    Streamed,
    ToolCall,
    at_line_start,
    data_of,
    dump,
    has_event,
    is_whole_json,
    sse,
    whole_lines,
)
from drillmaster.dialects._chat import JSON, SSE, Chat
from drillmaster.http1 import Answer, RequestHead

__all__ = ["FLAT_SHAPES", "ChatAndResponses", "Responses", "is_responses"]

FLAT_SHAPES = (
    Shape("flat", "D; M: the SDK yields it as an event and raises nothing"),
    Shape("nested", "T vercel/ai#12329; M: APIError"),
    Shape("failed", "T earendil-works/pi#1458; M: nothing is raised by create(stream=True)"),
)

_USAGE = re.compile(rb'"usage"\s*:\s*\{')
_SHORT = re.compile(rb'"status"\s*:\s*"incomplete"')
_WORDS: dict[Finish, str] = {
    "stop": "completed",
    "length": "max_output_tokens",
    "content_filter": "content_filter",
    "tool": "completed",
    "refusal": "completed",
}
_SAYS = {
    "response.created": Says.OPEN,
    "response.queued": Says.OPEN,
    "response.in_progress": Says.OPEN,
    "response.content_part.added": Says.OPEN,
    "response.completed": Says.FINISH | Says.USAGE | Says.TERMINAL,
    "response.incomplete": Says.FINISH | Says.USAGE | Says.TERMINAL,
    "response.failed": Says.ERROR,
    "error": Says.ERROR,
    "response.function_call_arguments.delta": Says.TOOL,
    "response.function_call_arguments.done": Says.TOOL,
    "keepalive": Says.PING,
}


class _Body(msgspec.Struct):
    status: str | None = None
    error: Any = None


_decode = msgspec.json.Decoder(_Body).decode


def is_responses(path: str) -> bool:
    """Whether a path is that of responses."""
    return path.partition("?")[0].endswith("/responses")


class Responses(Dialect):
    """Responses as such."""

    shapes: ClassVar[tuple[Shape, ...]] = FLAT_SHAPES

    def speaks(self, request: RequestHead) -> bool:
        return request.method == "POST" and request.path.endswith("/responses")

    # Endings

    def ending(self, status: int, content_type: bytes, tail: bytes, whole: bool) -> Ending:
        if status != 200:
            return Ending.ERROR
        if not whole:
            return Ending.CUT
        if content_type.startswith(b"text/event-stream"):
            return _stream_ending(tail)
        if tail.lstrip()[:1] == b"{":
            try:
                body = _decode(tail)
            except (msgspec.DecodeError, UnicodeDecodeError):
                pass
            else:
                if body.status == "completed":
                    return Ending.COMPLETE
                if body.status == "incomplete":
                    return Ending.INCOMPLETE
                return Ending.ERROR if body.error is not None or body.status == "failed" else Ending.CUT
        at = tail.rfind(b'"usage"')
        if at < 0 or not is_whole_json(tail, at, 1, in_sight=len(tail) != EDGE_BYTES):
            return Ending.CUT
        return _end_of_response(tail)

    # Streams

    def says(self, frame: bytes) -> Says:
        if not frame.strip() or frame.startswith(b":"):
            return Says.PING
        if frame.strip() in (b"data: [DONE]", b"data:[DONE]"):
            return Says.TERMINAL
        value = data_of(frame)
        kind = value.get("type") if isinstance(value, dict) else None
        if not isinstance(kind, str):
            return Says.ERROR if isinstance(value, dict) and value.get("error") is not None else Says.NOTHING
        if kind in _SAYS:
            return _SAYS[kind]
        if kind in ("response.output_item.added", "response.output_item.done"):
            item = value.get("item")
            if isinstance(item, dict) and item.get("type") == "function_call":
                return Says.TOOL
            return Says.OPEN if kind.endswith("added") else Says.NOTHING
        return Says.CONTENT if kind.endswith(".delta") else Says.NOTHING

    def error_frames(
        self, shape: str | None = None, condition: str = "overloaded", *, request_id: str, asked: bytes = b""
    ) -> tuple[bytes, ...]:
        return self.error_frames_of(self.condition(None, condition), self.shape(shape), request_id)

    def error_frames_of(self, row: Condition, shape: str, request_id: str) -> tuple[bytes, ...]:
        """The frames of one shape for one row."""
        code = row.code or row.kind
        message = row.message.replace("{delay}", "a moment")
        if shape == "flat":
            flat = {"type": "error", "code": code, "message": message, "param": row.param, "sequence_number": 1}
            return (sse(dump(flat), "error"),)
        if shape == "nested":
            error = {"type": row.kind, "code": row.code, "message": message, "param": row.param}
            return (sse(dump({"type": "error", "sequence_number": 1, "error": error}), "error"),)
        # The response that failed is of the id of the request: what was its own is in frames that are gone.
        reply = Reply(model="unknown", answer_id=request_id.removeprefix("req_"))
        words = code if code in ("server_error", "rate_limit_exceeded") else "server_error"
        failed = _response(reply, "failed", []) | {"error": {"code": words, "message": message}, "usage": None}
        value = {"type": "response.failed", "sequence_number": 1, "response": failed}
        return (sse(dump(value), "response.failed"),)

    # Answers

    def finish_word(self, finish: Finish) -> str:
        return _WORDS[finish]

    def answer(self, reply: Reply, *, path: str = "", asked: bytes = b"") -> Answer:
        whole = _response(reply, _status(reply), _output(reply))
        return Answer(200, (JSON, ("x-request-id", f"req_{reply.answer_id}")), dump(whole), "D, S")

    def stream(self, reply: Reply, *, path: str = "", asked: bytes = b"") -> Streamed:
        frames: list[bytes] = []

        def event(kind: str, **fields: object) -> None:
            frames.append(sse(dump({"type": kind, "sequence_number": len(frames), **fields}), kind))

        begun = _response(reply, "in_progress", []) | {"usage": None, "incomplete_details": None}
        event("response.created", response=begun)
        event("response.in_progress", response=begun)
        for index, item in enumerate(_output(reply)):
            if item["type"] == "function_call":
                event("response.output_item.added", output_index=index, item={**item, "arguments": ""})
                at = {"item_id": item["id"], "output_index": index}
                half = len(item["arguments"]) // 2
                for part in (item["arguments"][:half], item["arguments"][half:]):
                    if part:
                        event("response.function_call_arguments.delta", **at, delta=part)
                event("response.function_call_arguments.done", **at, name=item["name"], arguments=item["arguments"])
            else:
                event(
                    "response.output_item.added",
                    output_index=index,
                    item={**item, "status": "in_progress", "content": []},
                )
                at = {"item_id": item["id"], "output_index": index, "content_index": 0}
                [part] = item["content"]
                words, said = ("refusal", "refusal") if part["type"] == "refusal" else ("text", "output_text")
                more: dict[str, Any] = {"logprobs": []} if words == "text" else {}
                event("response.content_part.added", **at, part={**part, words: ""})
                for piece in reply.pieces:
                    event(f"response.{said}.delta", **at, delta=piece, **more)
                event(f"response.{said}.done", **at, **{words: part[words]}, **more)
                event("response.content_part.done", **at, part=part)
            event("response.output_item.done", output_index=index, item=item)
        status = _status(reply)
        event(f"response.{status}", response=_response(reply, status, _output(reply)))
        return Streamed((SSE, ("x-request-id", f"req_{reply.answer_id}")), tuple(frames))


def _stream_ending(tail: bytes) -> Ending:
    tail = whole_lines(tail)
    for kind, means in (
        (b"error", Ending.ERROR),
        (b"response.failed", Ending.ERROR),
        (b"response.completed", Ending.COMPLETE),
        (b"response.incomplete", Ending.INCOMPLETE),
    ):
        # Clients read the data and not the event's name, so that a gateway may leave the name out.
        if kind in tail and (
            has_event(tail, kind)
            or at_line_start(tail, b'data: {"type":"' + kind + b'"')
            or at_line_start(tail, b'data: {"type": "' + kind + b'"')
        ):
            return means
    if at_line_start(tail, b'data: {"error"'):
        return Ending.ERROR
    rest = tail.rstrip().removesuffix(b"data: [DONE]").rstrip()
    if b"\n\n" in rest or b"\r\n\r\n" in rest or rest.startswith((b"event:", b"data:")):
        return Ending.CUT  # the last event began in sight, and is none that ends
    return _end_of_response(rest)


def _end_of_response(tail: bytes) -> Ending:
    """Decide by the end of a response object whose beginning is out of sight."""
    if not tail.rstrip().endswith(b"}") or not _USAGE.search(tail):
        return Ending.CUT
    return Ending.INCOMPLETE if _SHORT.search(tail) else Ending.COMPLETE


def _status(reply: Reply) -> str:
    return "incomplete" if reply.finish in ("length", "content_filter") else "completed"


def _output(reply: Reply) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = []
    if reply.pieces or not reply.tools:
        text: dict[str, Any] = {"type": "output_text", "text": reply.text, "annotations": [], "logprobs": []}
        if reply.finish == "refusal":
            text = {"type": "refusal", "refusal": reply.text}
        items.append(
            {
                "id": f"msg_{reply.answer_id}",
                "type": "message",
                "status": _status(reply),
                "role": "assistant",
                "content": [text],
            }
        )
    return [*items, *(_call(reply, number, call) for number, call in enumerate(reply.tools))]


def _call(reply: Reply, number: int, call: ToolCall) -> dict[str, Any]:
    return {
        "id": f"fc_{reply.answer_id}_{number}",
        "type": "function_call",
        "status": "completed",
        "call_id": call.id,
        "name": call.name,
        "arguments": call.arguments,
    }


def _response(reply: Reply, status: str, output: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "id": f"resp_{reply.answer_id}",
        "object": "response",
        "created_at": reply.now_s,
        "status": status,
        "error": None,
        "incomplete_details": {"reason": _WORDS[reply.finish]} if status == "incomplete" else None,
        "instructions": None,
        "max_output_tokens": None,
        "model": reply.model,
        "output": output,
        "parallel_tool_calls": True,
        "previous_response_id": None,
        "temperature": 1.0,
        "tool_choice": "auto",
        "tools": [],
        "top_p": 1.0,
        "truncation": "disabled",
        "usage": {
            "input_tokens": reply.input_tokens,
            "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
            "output_tokens": reply.output_tokens,
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": reply.input_tokens + reply.output_tokens,
        },
        "metadata": {},
    }


class ChatAndResponses(Chat):
    """A provider that speaks both; the path says which, and where no path is known it is chat completions."""

    shapes: ClassVar[tuple[Shape, ...]] = (*Chat.shapes, *FLAT_SHAPES)
    _responses: ClassVar[Responses] = Responses()

    def speaks(self, request: RequestHead) -> bool:
        return request.method == "POST" and request.path.endswith(("/chat/completions", "/responses"))

    def ending(self, status: int, content_type: bytes, tail: bytes, whole: bool) -> Ending:
        ended = super().ending(status, content_type, tail, whole)
        if ended is Ending.CUT and whole and b'"choices"' not in tail:
            return self._responses.ending(status, content_type, tail, whole)
        return ended

    def says(self, frame: bytes) -> Says:
        return super().says(frame) or self._responses.says(frame)

    def error_frames(
        self, shape: str | None = None, condition: str = "overloaded", *, request_id: str, asked: bytes = b""
    ) -> tuple[bytes, ...]:
        name = self.shape(shape)
        if any(name == known.name for known in FLAT_SHAPES):
            return self._responses.error_frames_of(self.condition(None, condition), name, request_id)
        return super().error_frames(name, condition, request_id=request_id, asked=asked)

    def usual_shape(self, path: str) -> str | None:
        return FLAT_SHAPES[0].name if is_responses(path) else super().usual_shape(path)

    def answer(self, reply: Reply, *, path: str = "", asked: bytes = b"") -> Answer:
        if is_responses(path):
            answer = self._responses.answer(reply)
            return Answer(200, (JSON, self._named(reply)), answer.body, answer.source)
        return super().answer(reply, path=path, asked=asked)

    def stream(self, reply: Reply, *, path: str = "", asked: bytes = b"") -> Streamed:
        if is_responses(path):
            return Streamed((SSE, self._named(reply)), self._responses.stream(reply).frames)
        return super().stream(reply, path=path, asked=asked)

    def _named(self, reply: Reply) -> tuple[str, str]:
        return (self.request_id_header, f"req_{reply.answer_id}")
