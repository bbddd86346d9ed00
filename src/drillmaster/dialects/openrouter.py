"""The dialect `openrouter`: chat completions through OpenRouter.

1. An error is `{"error": {"code": int, "message", "metadata"}}`. Its code is the HTTP status only until generation starts;
   from then on the status is 200, and the error stands in the body or in a frame.
2. In a stream that frame is a chunk with an `error` beside choices whose `finish_reason` is `error`.
3. A comment, `: OPENROUTER PROCESSING`, keeps the connection alive.
"""

from typing import Any, ClassVar

from drillmaster.dialects import Bucket, Condition, Reply, Shape, Streamed, dump, sse
from drillmaster.dialects._chat import JSON
from drillmaster.dialects._responses import ChatAndResponses
from drillmaster.http1 import Answer, RequestHead

__all__ = ["DIALECT", "OpenRouter"]

_D = "D openrouter.ai/docs/api/errors"


def _row(status: int, name: str, message: str, source: str = _D, **more: Any) -> Condition:
    return Condition(name=name, status=status, code=str(status), message=message, source=source, **more)


class OpenRouter(ChatAndResponses):
    """OpenRouter: `POST /api/v1/chat/completions`, or the host `openrouter.ai`.

    Finished: as `openai_chat`; a `finish_reason` of `error` is a failure, and so is an `error` in the body of a 200.
    """

    name: ClassVar[str] = "openrouter"
    hosts: ClassVar[tuple[bytes, ...]] = (b"openrouter.ai",)
    request_id_header: ClassVar[str] = "x-generation-id"
    ping: ClassVar[bytes] = b": OPENROUTER PROCESSING\n\n"
    shapes: ClassVar[tuple[Shape, ...]] = (
        Shape("finish-error", "D openrouter.ai/docs/api/reference/streaming"),
        Shape("data-error", _D),
    )
    table: ClassVar[tuple[Condition, ...]] = (
        _row(400, "bad-request", "Bad Request", transient=False),
        _row(
            400,
            "context",
            "This endpoint's maximum context length is 128000 tokens. However, you requested about 128001 tokens.",
            "shape D, wording ours",
            transient=False,
        ),
        _row(401, "auth", "No auth credentials found", "shape D, wording ours", transient=False),
        _row(
            402, "money", "Insufficient credits. Add more using https://openrouter.ai/settings/credits", transient=False
        ),
        # The one 402 that heals by itself, and the only one that says when.
        _row(402, "money-in-flight", "In-flight spending budget exceeded", tells_delay=True),
        _row(403, "moderation", "Your chosen model requires moderation and your input was flagged", transient=False),
        _row(408, "timeout", "Your request timed out"),
        _row(429, "rate", "You are being rate limited", tells_delay=True),
        _row(502, "bad-gateway", "Your chosen model is down or we received an invalid response from it"),
        _row(
            503,
            "overloaded",
            "There is no available model provider that meets your routing requirements",
            tells_delay=True,
        ),
    )

    def recognises(self, request: RequestHead) -> bool:
        return self.speaks(request) and request.path.startswith("/api/v1/")

    def unlisted(self, status: int) -> Condition:
        return _row(status, "unlisted", f"Error {status}", "shape D, ours")

    def error_object(self, row: Condition, delay: str) -> dict[str, Any]:
        error: dict[str, Any] = {"code": row.status, "message": row.message}
        if row.name == "moderation":
            error["metadata"] = {
                "reasons": ["violence"],
                "flagged_input": "flagged by the drill",
                "provider_name": "stand-in",
                "model_slug": "stand-in",
            }
        elif row.name == "money-in-flight":
            error["metadata"] = {"limit_source": "openrouter_in_flight_budget"}
        elif row.status in (429, 502):
            error["metadata"] = {"provider_name": "stand-in", "raw": row.message}
        return error

    def error_frames(
        self, shape: str | None = None, condition: str = "overloaded", *, request_id: str, asked: bytes = b""
    ) -> tuple[bytes, ...]:
        name = self.shape(shape)
        error = self.error_object(self.condition(None, condition), "")
        if name == "data-error":
            return (sse(dump({"error": error})),)
        choice = {"index": 0, "delta": {"content": ""}, "finish_reason": "error", "native_finish_reason": "error"}
        value = {
            "id": f"gen-{request_id}",
            "object": "chat.completion.chunk",
            "created": 0,
            "model": "unknown",
            "provider": "stand-in",
            "error": error,
            "choices": [choice],
        }
        return (sse(dump(value)),)

    def rate_headers(
        self, *, requests: Bucket | None = None, tokens: Bucket | None = None, now_s: float = 0.0
    ) -> tuple[tuple[str, str], ...]:
        return ()

    def top(self, reply: Reply) -> dict[str, Any]:
        return {
            "id": f"gen-{reply.answer_id}",
            "created": reply.now_s,
            "model": reply.model,
            "provider": "stand-in",
        }

    def answer(self, reply: Reply, *, path: str = "", asked: bytes = b"") -> Answer:
        answer = super().answer(reply, path=path, asked=asked)
        return Answer(200, (JSON, (self.request_id_header, f"gen-{reply.answer_id}")), answer.body, _D)

    def stream(self, reply: Reply, *, path: str = "", asked: bytes = b"") -> Streamed:
        streamed = super().stream(reply, path=path, asked=asked)
        headers = (streamed.headers[0], (self.request_id_header, f"gen-{reply.answer_id}"))
        return Streamed(headers, (self.ping, *streamed.frames))


DIALECT = OpenRouter()
