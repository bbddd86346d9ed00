"""The dialect `anthropic`: Anthropic's messages.

Source of shapes and types: the error page of the official documentation (400 to 529); what that page does not list says so.
"""

import re
from typing import ClassVar

import msgspec

from drillmaster.dialects import Dialect
from drillmaster.http1 import Answer, RequestHead

__all__ = ["DIALECT", "Anthropic"]

# status -> error.type, message, source
_ERRORS: dict[int, tuple[str, str, str]] = {
    400: ("invalid_request_error", "The request could not be understood.", "D"),
    401: ("authentication_error", "invalid x-api-key", "D"),
    402: ("billing_error", "There is an issue with your billing or payment information.", "D"),
    403: ("permission_error", "Your API key does not have permission to use the specified resource.", "D"),
    404: ("not_found_error", "The requested resource was not found.", "D"),
    409: ("conflict_error", "The request conflicts with the current state of the resource.", "D"),
    413: ("request_too_large", "Request exceeds the maximum allowed number of bytes.", "D"),
    429: ("rate_limit_error", "This request would exceed your rate limit.", "D"),
    500: ("api_error", "Internal server error", "D"),
    502: ("api_error", "Bad gateway", "shape D, status not documented"),
    503: ("api_error", "Service unavailable", "shape D, status not documented"),
    504: ("timeout_error", "Request timed out", "D"),
    529: ("overloaded_error", "Overloaded", "D"),
}
_STOP_REASON = re.compile(rb'"stop_reason"\s*:\s*"[a-z_]+"')
_STOP_EVENT = re.compile(rb"^event: ?message_stop\b", re.MULTILINE)
_ERROR_EVENT = re.compile(rb"^event: ?error\b", re.MULTILINE)


class Anthropic(Dialect):
    """Anthropic messages: `POST .../v1/messages`, or any request with an `anthropic-version`."""

    name: ClassVar[str] = "anthropic"

    def recognises(self, request: RequestHead) -> bool:
        return b"anthropic-version" in request.named or (
            request.method == "POST" and request.path.endswith("/v1/messages")
        )

    def error(self, status: int, condition: str | None = None, *, request_id: str) -> Answer:
        kind, message, source = _ERRORS.get(
            status, ("api_error" if status >= 500 else "invalid_request_error", f"Error {status}", "shape D")
        )
        body = msgspec.json.encode(
            {"type": "error", "error": {"type": kind, "message": message}, "request_id": request_id}
        )
        return Answer(status, (("content-type", "application/json"), ("request-id", request_id)), body, source)

    def finished(self, status: int, content_type: bytes, tail: bytes, whole: bool) -> bool:
        if status != 200 or not whole:
            return False
        if content_type.startswith(b"text/event-stream"):
            # The stop reason comes in `message_delta`, the end in `message_stop`; an agent that has the first has its answer.
            if _ERROR_EVENT.search(tail):
                return False
            return _STOP_EVENT.search(tail) is not None or _STOP_REASON.search(tail) is not None
        return _STOP_REASON.search(tail) is not None


DIALECT = Anthropic()
