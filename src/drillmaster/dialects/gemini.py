"""The dialect `gemini`: Google's generateContent.

1. Model and method stand in the path: `models/NAME:generateContent`, `:streamGenerateContent`. With `alt=sse` a stream is
   server-sent events; without, it is one JSON array that grows.
2. An error is `{"error": {"code", "message", "status", "details"}}`. There is **no Retry-After header**: when to come back
   stands in the body, in `details` (`google.rpc.RetryInfo`) and in the message. Whether a quota is the minute's or the
   day's stands in `QuotaFailure.violations[].quotaId`.
3. No event ends a stream. The answer is finished by a `finishReason` in a candidate, and a blocked prompt by its
   `blockReason`.
"""

import re
from typing import Any, ClassVar

from drillmaster.dialects import (
    EDGE_BYTES,
    Condition,
    Dialect,
    Ending,
    Finish,
    Peek,
    Reply,
    Says,
    Shape,
    Streamed,
    arguments_value,
    data_of,
    dump,
    is_whole_json,
    sse,
    whole_lines,
)
from drillmaster.http1 import Answer, RequestHead

__all__ = ["DIALECT", "Gemini"]

_JSON = ("content-type", "application/json; charset=UTF-8")
_SSE = ("content-type", "text/event-stream")
_T = "T OmniRoute#9504, dcdpr/jp#1061"
_SHAPE = "shape D, wording ours"
_CALL = re.compile(r"/models/([^/:]{1,128}):(generateContent|streamGenerateContent)")
_FINISH = re.compile(rb'"finishReason"\s*:\s*"([A-Z_]+)"')
_BLOCKED = re.compile(rb'"blockReason"\s*:\s*"([A-Z_]+)"')
_ERROR = re.compile(rb'(?:\A|\n|\r|\[|,)\s*(?:data: ?)?\{\s*"error"\s*:\s*\{')
_WHOLE = frozenset((b"STOP", b"FINISH_REASON_UNSPECIFIED"))
_WORDS: dict[Finish, str] = {
    "stop": "STOP",
    "length": "MAX_TOKENS",
    "content_filter": "SAFETY",
    "tool": "STOP",
    "refusal": "STOP",
}


def _row(status: int, name: str, kind: str, message: str, source: str = _SHAPE, **more: Any) -> Condition:
    return Condition(name=name, status=status, kind=kind, message=message, source=source, **more)


class Gemini(Dialect):
    """Gemini: `POST .../models/NAME:generateContent` and `:streamGenerateContent`.

    Finished: a `finishReason`; anything but `STOP` is terminal and short of what was asked, and so is a `blockReason`.
    There is no last event.
    """

    name: ClassVar[str] = "gemini"
    hosts: ClassVar[tuple[bytes, ...]] = (b"generativelanguage.googleapis.com", b"aiplatform.googleapis.com")
    shapes: ClassVar[tuple[Shape, ...]] = (Shape("data-error", "shape D: the error object as an event's data"),)
    table: ClassVar[tuple[Condition, ...]] = (
        _row(400, "bad-request", "INVALID_ARGUMENT", "Request contains an invalid argument.", "D", transient=False),
        _row(
            400,
            "context",
            "INVALID_ARGUMENT",
            "The input token count (1048577) exceeds the maximum number of tokens allowed (1048576).",
            transient=False,
        ),
        _row(
            400,
            "money",
            "FAILED_PRECONDITION",
            "Gemini API free tier is not available in your country. Please enable billing on your project.",
            "D",
            transient=False,
        ),
        # A key that is none is a 400 here, not a 401.
        _row(
            400,
            "auth",
            "INVALID_ARGUMENT",
            "API key not valid. Please pass a valid API key.",
            code="API_KEY_INVALID",
            transient=False,
        ),
        _row(
            400,
            "auth-expired",
            "INVALID_ARGUMENT",
            "API key expired. Please renew the API key.",
            code="API_KEY_INVALID",
            transient=False,
        ),
        _row(403, "permission", "PERMISSION_DENIED", "The caller does not have permission", "D", transient=False),
        _row(404, "not-found", "NOT_FOUND", "Requested entity was not found.", "D", transient=False),
        _row(
            429,
            "rate",
            "RESOURCE_EXHAUSTED",
            "You exceeded your current quota, please check your plan and billing details.{delay}",
            _T,
            code="GenerateRequestsPerMinutePerProjectPerModel-FreeTier",
            tells_delay=True,
        ),
        _row(
            429,
            "rate-tokens",
            "RESOURCE_EXHAUSTED",
            "You exceeded your current quota, please check your plan and billing details.{delay}",
            _T,
            code="GenerateContentInputTokensPerModelPerMinute-FreeTier",
            tells_delay=True,
        ),
        _row(
            429,
            "daily",
            "RESOURCE_EXHAUSTED",
            "You exceeded your current quota, please check your plan and billing details.{delay}",
            _T,
            code="GenerateRequestsPerDayPerProjectPerModel-FreeTier",
            tells_delay=True,
        ),
        _row(500, "server", "INTERNAL", "An internal error has occurred. Please retry.", "D"),
        _row(503, "overloaded", "UNAVAILABLE", "The model is overloaded. Please try again later.", "D"),
        _row(504, "gateway-timeout", "DEADLINE_EXCEEDED", "Deadline expired before operation could complete.", "D"),
    )

    def speaks(self, request: RequestHead) -> bool:
        return request.method == "POST" and _CALL.search(request.path) is not None

    def peek(self, request: RequestHead, seen: Peek) -> Peek:
        match = _CALL.search(request.path)
        return seen if match is None else Peek(match[1], match[2] == "streamGenerateContent")

    # Errors

    def unlisted(self, status: int) -> Condition:
        kind = "UNAVAILABLE" if status >= 500 else "INVALID_ARGUMENT"
        return _row(status, "unlisted", kind, f"Error {status}")

    def error_value(self, row: Condition, retry_after_s: float | None) -> dict[str, Any]:
        """The whole error, as it stands in a body or in a frame."""
        delay = "" if retry_after_s is None else f" Please retry in {_long_delay(retry_after_s)}."
        details: list[dict[str, Any]] = []
        if row.status == 429:
            metric = "generativelanguage.googleapis.com/generate_content_free_tier_requests"
            violation = {"quotaMetric": metric, "quotaId": row.code, "quotaDimensions": {"location": "global"}}
            details.append({"@type": "type.googleapis.com/google.rpc.QuotaFailure", "violations": [violation]})
            if retry_after_s is not None:
                details.append(
                    {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": _seconds(retry_after_s)}
                )
        elif row.code is not None:
            details.append(
                {
                    "@type": "type.googleapis.com/google.rpc.ErrorInfo",
                    "reason": row.code,
                    "domain": "googleapis.com",
                    "metadata": {"service": "generativelanguage.googleapis.com"},
                }
            )
        error: dict[str, Any] = {
            "code": row.status,
            "message": row.message.replace("{delay}", delay),
            "status": row.kind,
        }
        if details:
            error["details"] = details
        return {"error": error}

    def word(
        self, row: Condition, *, request_id: str, retry_after_s: float | None, path: str = "", asked: bytes = b""
    ) -> Answer:
        # No field names the request, and none says when to come back.
        return Answer(row.status, (_JSON,), dump(self.error_value(row, retry_after_s)), row.source)

    # Endings

    def ending(self, status: int, content_type: bytes, tail: bytes, whole: bool) -> Ending:
        if status != 200:
            return Ending.ERROR
        if not whole:
            return Ending.CUT
        streams = content_type.startswith(b"text/event-stream")
        if streams:
            tail = whole_lines(tail)
        if b'"error"' in tail and _ERROR.search(tail):
            return Ending.ERROR
        for mark, expression, depth in ((b'"finishReason"', _FINISH, 3), (b'"blockReason"', _BLOCKED, 2)):
            at = tail.rfind(mark)
            if at >= 0 and (reason := expression.match(tail, at)):
                if not streams and not is_whole_json(tail, at, depth, in_sight=len(tail) != EDGE_BYTES):
                    return Ending.CUT
                return Ending.COMPLETE if reason[1] in _WHOLE else Ending.INCOMPLETE
        return Ending.CUT

    # Streams

    def says(self, frame: bytes) -> Says:
        if not frame.strip() or frame.startswith(b":"):
            return Says.PING
        value = data_of(frame)
        if not isinstance(value, dict):
            return Says.NOTHING
        if value.get("error") is not None:
            return Says.ERROR
        said = Says.NOTHING
        candidates = value.get("candidates")
        for candidate in candidates if isinstance(candidates, list) else ():
            for part in _parts(candidate):
                if part.get("text"):
                    said |= Says.CONTENT
                if part.get("functionCall"):
                    said |= Says.TOOL
            if isinstance(candidate, dict) and candidate.get("finishReason") is not None:
                said |= Says.FINISH | Says.TERMINAL
        feedback = value.get("promptFeedback")
        if isinstance(feedback, dict) and feedback.get("blockReason"):
            said |= Says.FINISH | Says.TERMINAL
        # Usage comes with every event and grows; only with the reason it is the sum.
        if said & Says.FINISH and value.get("usageMetadata"):
            said |= Says.USAGE
        return said

    def without_finish(self, frame: bytes) -> bytes | None:
        said = self.says(frame)
        if not said & Says.FINISH:
            return frame
        if not said & (Says.CONTENT | Says.TOOL):
            return None
        value = data_of(frame)
        for candidate in value["candidates"]:
            if isinstance(candidate, dict):
                candidate.pop("finishReason", None)
        value.pop("usageMetadata", None)
        return sse(dump(value))

    def error_frames(
        self, shape: str | None = None, condition: str = "overloaded", *, request_id: str, asked: bytes = b""
    ) -> tuple[bytes, ...]:
        self.shape(shape)
        return (sse(dump(self.error_value(self.condition(None, condition), None))),)

    # Answers

    def finish_word(self, finish: Finish) -> str:
        return _WORDS[finish]

    def answer(self, reply: Reply, *, path: str = "", asked: bytes = b"") -> Answer:
        parts: list[dict[str, Any]] = [{"text": reply.text}] if reply.pieces else []
        parts += [_function_call(call) for call in reply.tools]
        return Answer(200, (_JSON,), dump(_chunk(reply, parts, self.finish_word(reply.finish))), "D, S")

    def stream(self, reply: Reply, *, path: str = "", asked: bytes = b"") -> Streamed:
        pieces: list[list[dict[str, Any]]] = [[{"text": piece}] for piece in reply.pieces]
        pieces += [[_function_call(call)] for call in reply.tools]
        pieces = pieces or [[{"text": ""}]]
        chunks = [_chunk(reply, parts, None) for parts in pieces[:-1]]
        chunks.append(_chunk(reply, pieces[-1], self.finish_word(reply.finish)))
        if path and "alt=sse" not in path:
            texts = [dump(chunk) for chunk in chunks]
            return Streamed((_JSON,), (b"[" + texts[0], *(b",\n" + text for text in texts[1:]), b"]"))
        return Streamed((_SSE,), tuple(sse(dump(chunk)) for chunk in chunks))


def _parts(candidate: object) -> list[dict[str, Any]]:
    content = candidate.get("content") if isinstance(candidate, dict) else None
    parts = content.get("parts") if isinstance(content, dict) else None
    return [part for part in parts if isinstance(part, dict)] if isinstance(parts, list) else []


def _function_call(call: Any) -> dict[str, Any]:
    return {"functionCall": {"id": call.id, "name": call.name, "args": arguments_value(call.arguments)}}


def _chunk(reply: Reply, parts: list[dict[str, Any]], finish: str | None) -> dict[str, Any]:
    candidate: dict[str, Any] = {"content": {"parts": parts, "role": "model"}, "index": 0}
    if finish is not None:
        candidate["finishReason"] = finish
    usage = {"promptTokenCount": reply.input_tokens, "totalTokenCount": reply.input_tokens}
    if finish is not None:
        usage |= {
            "candidatesTokenCount": reply.output_tokens,
            "totalTokenCount": reply.input_tokens + reply.output_tokens,
        }
    return {
        "candidates": [candidate],
        "usageMetadata": usage,
        "modelVersion": reply.model,
        "responseId": reply.answer_id,
    }


def _seconds(seconds: float) -> str:
    """A protobuf Duration in JSON: `36s`, `45.837906927s`."""
    return f"{seconds:.9f}".rstrip("0").rstrip(".") + "s"


def _long_delay(seconds: float) -> str:
    """As the message has it: `45.837906927s`, `10h17m5.7s`."""
    whole, part = divmod(seconds, 60)
    hours, minutes = divmod(int(whole), 60)
    text = _seconds(round(part, 9))
    return f"{hours}h{minutes}m{text}" if hours else f"{minutes}m{text}" if minutes else text


DIALECT = Gemini()
