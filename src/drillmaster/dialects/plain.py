"""The dialect `plain`: HTTP of which nothing more is known. The last resort of recognition."""

from typing import ClassVar

import msgspec

from drillmaster.dialects import Dialect
from drillmaster.http1 import Answer, RequestHead

__all__ = ["DIALECT", "Plain"]


class Plain(Dialect):
    """Any HTTP. Its error is a JSON object with an `error` object, which most clients of JSON APIs can read."""

    name: ClassVar[str] = "plain"

    def recognises(self, request: RequestHead) -> bool:
        return True

    def error(self, status: int, condition: str | None = None, *, request_id: str) -> Answer:
        word = condition or ("upstream_unavailable" if status in (502, 503, 504) else "error")
        body = msgspec.json.encode({"error": {"message": word.replace("_", " "), "type": word, "code": word}})
        return Answer(status, (("content-type", "application/json"), ("x-request-id", request_id)), body, "ours")

    def finished(self, status: int, content_type: bytes, tail: bytes, whole: bool) -> bool:
        # Nothing is known of a terminal state but the framing's.
        return whole and 200 <= status < 300


DIALECT = Plain()
