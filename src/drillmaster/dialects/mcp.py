"""The dialect `mcp`: the Model Context Protocol over streamable HTTP.

Source: the specification's pages on transports and on JSON-RPC (D), and the Python SDK (S).

1. A call is a POST with one JSON-RPC message; its answer is that message's `result` or `error`, as JSON or as the last event
   of a stream. A notification is answered 202 without a body. A GET opens a stream that has no end of its own.
2. A failed call is HTTP 200 with a JSON-RPC `error`; a tool that failed is a `result` with `isError`. Both are whole answers
   to the transport, and only the second is one to the model. An HTTP error status concerns the transport: 404 with a session
   id means that the session is gone and the client must begin anew.
3. The `id` of an answer is the call's; what cannot be tied to a call has the id null.
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
    data_of,
    dump,
    sse,
    whole_lines,
    whole_seconds,
)
from drillmaster.http1 import Answer, RequestHead

__all__ = ["DIALECT", "Mcp"]

_JSON = ("content-type", "application/json")
_SSE = ("content-type", "text/event-stream")
_D = "D modelcontextprotocol.io, transports"
_RPC = "D jsonrpc.org, wording ours"
_DATA_AT = re.compile(rb"(?:\A|\n|\r)data: ?")


def _row(status: int, name: str, code: int, message: str, source: str = _D, **more: Any) -> Condition:
    return Condition(name=name, status=status, code=str(code), message=message, source=source, **more)


class _Call(msgspec.Struct):
    id: str | int | None = None
    method: str | None = None


class _Message(msgspec.Struct):
    result: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    error: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET


_decode_call = msgspec.json.Decoder(_Call).decode
_decode_message = msgspec.json.Decoder(_Message).decode


class Mcp(Dialect):
    """MCP over streamable HTTP: any request with an `mcp-session-id` or `mcp-protocol-version`, or to a path `.../mcp`.

    Finished: the JSON-RPC `result` of the call, as the body or as the last event of a stream; 202 to a notification. A
    JSON-RPC `error` is a failure inside a 200.
    """

    name: ClassVar[str] = "mcp"
    carries: ClassVar[bytes | None] = None
    ping: ClassVar[bytes] = b": ping\n\n"
    shapes: ClassVar[tuple[Shape, ...]] = (Shape("rpc-error", "D: a JSON-RPC error as an event's data"),)
    table: ClassVar[tuple[Condition, ...]] = (
        _row(400, "bad-request", -32600, "Invalid Request", transient=False),
        _row(401, "auth", -32000, "Unauthorized", f"{_D}, authorization", transient=False),
        _row(401, "auth-expired", -32000, "The access token expired", f"{_D}, authorization", transient=False),
        _row(403, "permission", -32000, "Forbidden", transient=False),
        _row(404, "not-found", -32001, "Session not found", transient=False),
        _row(405, "method", -32000, "Method Not Allowed", transient=False),
        _row(406, "not-acceptable", -32000, "Not Acceptable", "S", transient=False),
        _row(408, "timeout", -32001, "Request timed out", "S"),
        _row(413, "too-large", -32600, "Message too large", _RPC, transient=False),
        _row(429, "rate", -32000, "Too many requests", _RPC, tells_delay=True),
        _row(500, "server", -32603, "Internal error", "D jsonrpc.org"),
        _row(502, "bad-gateway", -32603, "Bad gateway", _RPC),
        _row(503, "overloaded", -32000, "Service unavailable", _RPC, tells_delay=True),
        _row(504, "gateway-timeout", -32000, "Gateway timeout", _RPC),
    )

    def speaks(self, request: RequestHead) -> bool:
        named = request.named
        return (
            b"mcp-session-id" in named or b"mcp-protocol-version" in named or request.path.rstrip("/").endswith("/mcp")
        )

    # What a call is

    def call_id(self, asked: bytes) -> str | int | None:
        """The id of a call; None for a notification, a batch, or what is none."""
        try:
            return _decode_call(asked).id
        except (msgspec.DecodeError, UnicodeDecodeError):
            return None

    def method_of(self, asked: bytes) -> str | None:
        """The method of a call or a notification: `tools/list`, `tools/call`."""
        try:
            return _decode_call(asked).method
        except (msgspec.DecodeError, UnicodeDecodeError):
            return None

    def result(self, value: object, asked: bytes) -> Answer:
        """The answer to a call, as JSON."""
        return Answer(200, (_JSON,), dump({"jsonrpc": "2.0", "id": self.call_id(asked), "result": value}), _D)

    def failure(self, code: int, message: str, asked: bytes, data: object = None) -> Answer:
        """A JSON-RPC error, which comes with HTTP 200."""
        return Answer(200, (_JSON,), dump(self._failure(code, message, self.call_id(asked), data)), "D jsonrpc.org")

    def _failure(self, code: int, message: str, call_id: object, data: object = None) -> dict[str, Any]:
        error: dict[str, Any] = {"code": code, "message": message}
        if data is not None:
            error["data"] = data
        return {"jsonrpc": "2.0", "id": call_id, "error": error}

    # Errors

    def unlisted(self, status: int) -> Condition:
        return _row(status, "unlisted", -32000, f"Error {status}", _RPC)

    def word(
        self, row: Condition, *, request_id: str, retry_after_s: float | None, path: str = "", asked: bytes = b""
    ) -> Answer:
        headers = [_JSON]
        if row.status == 401:
            told = ', error="invalid_token", error_description="The access token expired"'
            headers.append(("www-authenticate", 'Bearer realm="mcp"' + (told if row.name == "auth-expired" else "")))
        if retry_after_s is not None:
            headers.append(("retry-after", whole_seconds(retry_after_s)))
        body = dump(self._failure(int(row.code or -32000), row.message, self.call_id(asked)))
        return Answer(row.status, tuple(headers), body, row.source)

    # Endings

    def ending(self, status: int, content_type: bytes, tail: bytes, whole: bool) -> Ending:
        if status not in (200, 202):
            return Ending.ERROR
        if not whole:
            return Ending.CUT
        if status == 202:
            return Ending.COMPLETE
        if not content_type.startswith(b"text/event-stream"):
            return _ending_of(tail, in_sight=len(tail) != EDGE_BYTES)
        # The last event that has data; SSE pings are comments.
        lines = whole_lines(tail)
        starts = [match.end() for match in _DATA_AT.finditer(lines)]
        if starts:
            return _ending_of(lines[starts[-1] :], in_sight=True)
        return _ending_of(lines, in_sight=len(tail) != EDGE_BYTES)

    # Streams

    def says(self, frame: bytes) -> Says:
        if not frame.strip() or frame.startswith(b":"):
            return Says.PING
        value = data_of(frame)
        if not isinstance(value, dict):
            return Says.NOTHING
        if "result" in value:
            return Says.CONTENT | Says.FINISH | Says.TERMINAL
        if "error" in value:
            return Says.ERROR
        return Says.OPEN if "method" in value else Says.NOTHING

    def without_finish(self, frame: bytes) -> bytes | None:
        return None if self.says(frame) & Says.TERMINAL else frame

    def error_frames(
        self, shape: str | None = None, condition: str = "overloaded", *, request_id: str, asked: bytes = b""
    ) -> tuple[bytes, ...]:
        self.shape(shape)
        row = self.condition(None, condition)
        return (sse(dump(self._failure(int(row.code or -32000), row.message, self.call_id(asked))), "message"),)

    # Answers

    def finish_word(self, finish: Finish) -> str:
        return finish

    def answer(self, reply: Reply, *, path: str = "", asked: bytes = b"") -> Answer:
        return self.result({"content": [{"type": "text", "text": reply.text}], "isError": False}, asked)

    def stream(self, reply: Reply, *, path: str = "", asked: bytes = b"") -> Streamed:
        # Progress tells a client that the call is under way; the words come once, with the result.
        frames = [self.ping]
        frames.append(sse(self.answer(reply, asked=asked).body, "message"))
        return Streamed((_SSE,), tuple(frames))


def _ending_of(text: bytes, *, in_sight: bool) -> Ending:
    """How one JSON-RPC message ends, of which perhaps only the end is in sight."""
    text = text.strip()
    if text[:1] == b"{":
        try:
            message = _decode_message(text)
        except (msgspec.DecodeError, UnicodeDecodeError):
            pass
        else:
            if message.result is not msgspec.UNSET:
                return Ending.COMPLETE
            return Ending.ERROR if message.error is not msgspec.UNSET else Ending.CUT
    if in_sight or not text.endswith(b"}"):
        return Ending.CUT
    # Its beginning is out of sight, and its framing was whole. Errors are short; this is a result.
    return Ending.COMPLETE


DIALECT = Mcp()
