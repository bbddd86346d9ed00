"""The dialect `mistral`: chat completions as Mistral speaks them.

1. An error is flat, without an `error` object: `{"object": "error", "message", "type", "param", "code"}`. Older and gateway
   answers are `{"message": ...}` alone; refused keys are `{"detail": "Unauthorized"}`.
2. Its paths are OpenAI's own: it is known by its host, or by the plan's `dialect:`.
3. A stream's last chunk has the finish reason and the usage both.
4. Whether it says when to come back, or reports its limits, is not known; so it does not.
"""

from typing import Any, ClassVar

from drillmaster.dialects import Bucket, Condition, Reply, dump, sse
from drillmaster.dialects._chat import JSON, Chat
from drillmaster.http1 import Answer, RequestHead

__all__ = ["DIALECT", "Mistral"]

_SHAPE = "shape T cline#9085, wording ours"


def _row(status: int, name: str, kind: str, message: str, source: str = _SHAPE, **more: Any) -> Condition:
    return Condition(name=name, status=status, kind=kind, message=message, source=source, **more)


class Mistral(Chat):
    """Mistral: `POST .../chat/completions` to the host `api.mistral.ai`, or by the plan's `dialect: mistral`.

    Finished: as `openai_chat`.
    """

    name: ClassVar[str] = "mistral"
    hosts: ClassVar[tuple[bytes, ...]] = (b"api.mistral.ai", b"codestral.mistral.ai")
    request_id_header: ClassVar[str] = "mistral-correlation-id"
    whole_calls: ClassVar[bool] = True  # source S: the SDK refuses a piece that has no name
    table: ClassVar[tuple[Condition, ...]] = (
        _row(400, "bad-request", "invalid_request_error", "The request could not be understood.", transient=False),
        _row(
            400,
            "context",
            "invalid_request_prompt",
            "Prompt contains 128001 tokens, too large for model with 128000 maximum context length",
            code="3051",
            transient=False,
        ),
        _row(401, "auth", "", "Unauthorized", "T nextcloud/integration_openai#332", shape="detail", transient=False),
        _row(401, "auth-older", "", "Unauthorized", "T cline#1734", shape="message", transient=False),
        _row(422, "unprocessable", "invalid_request_error", "The request could not be processed.", transient=False),
        _row(429, "rate", "rate_limited", "Rate limit exceeded", "T cline#9085, raycast#31107", code="1300"),
        _row(429, "rate-older", "", "Requests rate limit exceeded", "T pydantic-ai#1885", shape="message"),
        _row(402, "money", "payment_required", "Payment required", "shape T, not documented", transient=False),
        _row(500, "server", "internal_server_error", "Internal server error"),
        _row(503, "overloaded", "service_unavailable", "Service unavailable."),
    )

    def recognises(self, request: RequestHead) -> bool:
        return False  # nothing in a head tells it from OpenAI

    def unlisted(self, status: int) -> Condition:
        kind = "internal_server_error" if status >= 500 else "invalid_request_error"
        return _row(status, "unlisted", kind, f"Error {status}")

    def word(
        self, row: Condition, *, request_id: str, retry_after_s: float | None, path: str = "", asked: bytes = b""
    ) -> Answer:
        value: dict[str, Any]
        if row.shape == "detail":
            value = {"detail": row.message}
        elif row.shape == "message":
            value = {"message": row.message}
            if row.name == "auth-older":
                value["request_id"] = request_id
        else:
            value = {**self.error_object(row, ""), "raw_status_code": row.status}
        return Answer(row.status, (JSON, (self.request_id_header, request_id)), dump(value), row.source)

    def error_object(self, row: Condition, delay: str) -> dict[str, Any]:
        return {"object": "error", "message": row.message, "type": row.kind, "param": row.param, "code": row.code}

    def rate_headers(
        self, *, requests: Bucket | None = None, tokens: Bucket | None = None, now_s: float = 0.0
    ) -> tuple[tuple[str, str], ...]:
        return ()

    def top(self, reply: Reply) -> dict[str, Any]:
        return {"id": reply.answer_id, "created": reply.now_s, "model": reply.model}

    def chunk(self, reply: Reply, delta: dict[str, Any], finish: str | None) -> bytes:
        if finish is not None:
            delta = {"content": "", **delta}
        choice = {"index": 0, "delta": delta, "finish_reason": finish}
        value: dict[str, Any] = {**self.top(reply), "object": "chat.completion.chunk", "choices": [choice]}
        if finish is not None:
            value["usage"] = self.usage(reply)
        return sse(dump(value))

    def usage_frames(self, reply: Reply) -> list[bytes]:
        return []


DIALECT = Mistral()
