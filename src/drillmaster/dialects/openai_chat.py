"""The dialect `openai_chat`: OpenAI's chat completions, and the many servers that speak it.

Source classes: D official documentation, S the SDK's source, T a body pasted in a public tracker, 2 a secondary page.
"""

import re
from typing import ClassVar

import msgspec

from drillmaster.dialects import Dialect
from drillmaster.http1 import Answer, RequestHead

__all__ = ["DIALECT", "OpenAIChat"]

# status, condition -> type, code, message, source
_ERRORS: dict[tuple[int, str | None], tuple[str, str | None, str, str]] = {
    (400, None): ("invalid_request_error", None, "The request could not be understood.", "S"),
    (401, None): (
        "invalid_request_error",
        "invalid_api_key",
        "Incorrect API key provided. You can find your API key at https://platform.openai.com/account/api-keys.",
        "T",
    ),
    (429, None): ("requests", "rate_limit_exceeded", "Rate limit reached for requests.", "D"),
    (429, "money"): ("insufficient_quota", "insufficient_quota", "You exceeded your current quota.", "D"),
    (500, None): ("server_error", None, "The server had an error while processing your request.", "D"),
    (502, None): ("server_error", None, "Bad gateway.", "shape D, no such body documented"),
    (503, None): (
        "service_unavailable_error",
        "server_is_overloaded",
        "The server is currently overloaded. Please try again later.",
        "2",
    ),
    (504, None): ("server_error", None, "Gateway timeout.", "shape D, no such body documented"),
}
# A finish reason that is a string ends the choice; `[DONE]` ends the stream. Gateways leave out the one or the other.
_FINISH = re.compile(rb'"finish_reason"\s*:\s*"[a-z_]+"')
_DONE = re.compile(rb"^data: ?\[DONE\]", re.MULTILINE)
_STREAM_ERROR = re.compile(rb'^data: ?\{\s*"error"\s*:', re.MULTILINE)


class OpenAIChat(Dialect):
    """OpenAI chat completions: `POST .../chat/completions`."""

    name: ClassVar[str] = "openai_chat"

    def recognises(self, request: RequestHead) -> bool:
        return request.method == "POST" and request.path.endswith("/chat/completions")

    def error(self, status: int, condition: str | None = None, *, request_id: str) -> Answer:
        kind, code, message, source = _ERRORS.get((status, condition)) or _ERRORS.get(
            (status, None),
            ("server_error" if status >= 500 else "invalid_request_error", None, f"Error {status}.", "S"),
        )
        body = msgspec.json.encode({"error": {"message": message, "type": kind, "param": None, "code": code}})
        return Answer(status, (("content-type", "application/json"), ("x-request-id", request_id)), body, source)

    def finished(self, status: int, content_type: bytes, tail: bytes, whole: bool) -> bool:
        if status != 200 or not whole:
            return False
        if content_type.startswith(b"text/event-stream"):
            if _STREAM_ERROR.search(tail):
                return False
            return _DONE.search(tail) is not None or _FINISH.search(tail) is not None
        at = tail.rfind(b'"finish_reason"')
        return at >= 0 and _FINISH.match(tail, at) is not None


DIALECT = OpenAIChat()
