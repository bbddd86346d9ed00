"""The dialect `groq`: chat completions as Groq speaks them.

1. The types of 429 are `requests` and `tokens`, and `x-ratelimit-*` come with every answer; `retry-after` with 429 alone.
   Where nobody reckons limits they report a quiet account; of a 429 the limit that it names is used up.
2. 498 is its own: the flex tier has no capacity.
3. A stream's usage stands in `x_groq` of the frame with the finish reason; so does the reason why one stopped early.
"""

import re
from typing import Any, ClassVar

import msgspec

from drillmaster.dialects import Bucket, Condition, Ending, Reply, Says, Shape, Streamed, dump, sse
from drillmaster.dialects._responses import ChatAndResponses
from drillmaster.http1 import Answer, RequestHead

__all__ = ["DIALECT", "Groq"]

_D = "D console.groq.com/docs/errors"
_STOPPED = re.compile(rb'"x_groq"\s*:\s*\{[^{}]*"error"\s*:\s*"')
_INVALID = "invalid_request_error"
# Of a day's requests and a minute's tokens, as the documentation has them; the numbers are ours.
_REQUESTS = Bucket(limit=14_400, remaining=14_399, reset_s=6)
_TOKENS = Bucket(limit=18_000, remaining=17_970, reset_s=0.1)
_USED_UP_S = 60.0
"""Until a limit that is used up is full again, where the error does not say."""


def _row(status: int, name: str, message: str, source: str = _D, **more: Any) -> Condition:
    kind = more.pop("kind", "internal_server_error" if status >= 500 else _INVALID)
    return Condition(name=name, status=status, kind=kind, message=message, source=source, **more)


class Groq(ChatAndResponses):
    """Groq: `POST .../openai/v1/chat/completions`, which its own SDK asks for, or the host `api.groq.com`.

    Finished: as `openai_chat`.
    """

    name: ClassVar[str] = "groq"
    hosts: ClassVar[tuple[bytes, ...]] = (b"api.groq.com",)
    whole_calls: ClassVar[bool] = True
    shapes: ClassVar[tuple[Shape, ...]] = (
        Shape("data-error", "S: the SDK raises APIError, with `event: error` and without"),
        Shape("x-groq-error", "S: x_groq.error says why a stream was stopped early, and nothing is raised"),
    )
    table: ClassVar[tuple[Condition, ...]] = (
        _row(400, "bad-request", "The request could not be understood.", transient=False),
        _row(
            400,
            "context",
            "Please reduce the length of the messages or completion.",
            "shape D, wording ours",
            code="context_length_exceeded",
            param="messages",
            transient=False,
        ),
        _row(401, "auth", "Invalid API Key", "shape D, wording ours", code="invalid_api_key", transient=False),
        _row(403, "permission", "The request is not allowed due to permission restrictions.", transient=False),
        _row(404, "not-found", "The requested resource could not be found.", code="model_not_found", transient=False),
        _row(
            413, "too-large", "Request too large for model on tokens per minute (TPM).", kind="tokens", transient=False
        ),
        _row(422, "unprocessable", "The request could not be followed due to semantic errors.", transient=False),
        _row(424, "failed-dependency", "A dependent request failed."),
        _row(
            429,
            "rate-tokens",
            "Rate limit reached on tokens per minute (TPM). Please try again in {delay}.",
            kind="tokens",
            code="rate_limit_exceeded",
            tells_delay=True,
        ),
        _row(
            429,
            "rate",
            "Rate limit reached on requests per minute (RPM). Please try again in {delay}.",
            kind="requests",
            code="rate_limit_exceeded",
            tells_delay=True,
        ),
        _row(
            429,
            "daily",
            "Rate limit reached on requests per day (RPD). Please try again in {delay}.",
            "shape D, wording ours",
            kind="requests",
            code="rate_limit_exceeded",
            tells_delay=True,
        ),
        _row(
            498,
            "overloaded",
            "Flex tier capacity exceeded. Please try again later.",
            "D console.groq.com/docs/flex-processing",
            kind="capacity_exceeded",
            code="capacity_exceeded",
        ),
        _row(499, "cancelled", "The request was cancelled by the caller."),
        _row(500, "server", "Internal Server Error"),
        _row(502, "bad-gateway", "Bad Gateway"),
        _row(503, "unavailable", "Service Unavailable"),
    )

    def recognises(self, request: RequestHead) -> bool:
        return self.speaks(request) and request.path.startswith("/openai/v1/") and b"api-key" not in request.named

    def word(
        self, row: Condition, *, request_id: str, retry_after_s: float | None, path: str = "", asked: bytes = b""
    ) -> Answer:
        answer = super().word(row, request_id=request_id, retry_after_s=retry_after_s, path=path, asked=asked)
        short = row.kind if row.status == 429 else ""
        return _with(answer, self._limits(short, _USED_UP_S if retry_after_s is None else retry_after_s))

    def _limits(self, short: str = "", reset_s: float = _USED_UP_S) -> tuple[tuple[str, str], ...]:
        """The fields that every answer has; `short` is the limit that is used up."""
        used_up = {"remaining": 0, "reset_s": reset_s}
        requests = msgspec.structs.replace(_REQUESTS, **(used_up if short == "requests" else {}))
        tokens = msgspec.structs.replace(_TOKENS, **(used_up if short == "tokens" else {}))
        return self.rate_headers(requests=requests, tokens=tokens)

    def error_object(self, row: Condition, delay: str) -> dict[str, Any]:
        error = super().error_object(row, delay)
        # Unlike OpenAI's, an error has no fields that say nothing.
        return {key: value for key, value in error.items() if value is not None}

    def ending(self, status: int, content_type: bytes, tail: bytes, whole: bool) -> Ending:
        if status == 200 and whole and b'"x_groq"' in tail and _STOPPED.search(tail):
            return Ending.ERROR
        return super().ending(status, content_type, tail, whole)

    def says(self, frame: bytes) -> Says:
        if b'"x_groq"' in frame and _STOPPED.search(frame):
            return Says.ERROR
        return super().says(frame)

    def error_frames(
        self, shape: str | None = None, condition: str = "overloaded", *, request_id: str, asked: bytes = b""
    ) -> tuple[bytes, ...]:
        if self.shape(shape) != "x-groq-error":
            return super().error_frames(shape, condition, request_id=request_id, asked=asked)
        message = self.condition(None, condition).message.replace("{delay}", "a moment")
        choice = {"index": 0, "delta": {}, "logprobs": None, "finish_reason": None}
        value = {
            "id": f"chatcmpl-{request_id}",
            "created": 0,
            "model": "unknown",
            "object": "chat.completion.chunk",
            "choices": [choice],
            "x_groq": {"id": request_id, "error": message},
        }
        return (sse(dump(value)),)

    def answer(self, reply: Reply, *, path: str = "", asked: bytes = b"") -> Answer:
        return _with(super().answer(reply, path=path, asked=asked), self._limits())

    def stream(self, reply: Reply, *, path: str = "", asked: bytes = b"") -> Streamed:
        streamed = super().stream(reply, path=path, asked=asked)
        return Streamed((*streamed.headers, *self._limits()), streamed.frames)

    def chunk(self, reply: Reply, delta: dict[str, Any], finish: str | None) -> bytes:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
        value: dict[str, Any] = {**self.top(reply), "object": "chat.completion.chunk", "choices": [choice]}
        if "role" in delta:
            value["x_groq"] = {"id": f"req_{reply.answer_id}"}
        elif finish is not None:
            value["x_groq"] = {"id": f"req_{reply.answer_id}", "usage": self.usage(reply)}
        return sse(dump(value))

    def usage(self, reply: Reply) -> dict[str, Any]:
        times = {"queue_time": 0.0, "prompt_time": 0.0, "completion_time": 0.0, "total_time": 0.0}
        return {**super().usage(reply), **times}


def _with(answer: Answer, fields: tuple[tuple[str, str], ...]) -> Answer:
    return Answer(answer.status, (*answer.headers, *fields), answer.body, answer.source)


DIALECT = Groq()
