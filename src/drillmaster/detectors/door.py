"""The listener's HTTP/1.1: whole requests under a bound of bytes and of time, answered by somebody else.

One request a connection at a time. What is no request is 400, what is too large 413; a connection that dawdles is closed.
"""

import asyncio
import socket
import time
from collections.abc import Callable
from typing import Any

import msgspec

from drillmaster.http1 import (
    ChunkedBody,
    HeadReader,
    LengthBody,
    Malformed,
    RequestHead,
    answer_head,
    cut_head,
    request_body,
)
from drillmaster.wire import Wire

__all__ = ["DEADLINE_S", "MAX_BODY_BYTES", "MAX_VISITORS", "Answer", "Visitor", "Visitors"]

MAX_BODY_BYTES = 1 << 20
MAX_VISITORS = 256
DEADLINE_S = 10.0
IDLE_S = 90.0
_HEADS = HeadReader(frozenset({b"authorization", b"content-type", b"content-encoding"}))

Answer = tuple[int, bytes | dict[str, Any]]
"""A status, and a text or what becomes JSON."""
Serve = Callable[[RequestHead, bytes], Answer]


class Visitors:
    """All connections that are open."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self.open: set[Visitor] = set()

    def accept(self, listener: socket.socket, serve: Serve, may: Callable[[socket.socket], bool]) -> None:
        """Take who knocks; whoever is one too many is closed at once and tries again."""
        for _ in range(32):
            try:
                sock, _ = listener.accept()
            except OSError:
                return
            sock.setblocking(False)
            if len(self.open) >= MAX_VISITORS or not may(sock):
                sock.close()
                continue
            self.open.add(Visitor(self, sock, serve))

    def sweep(self) -> None:
        """Close whoever is past its deadline."""
        now_ns = time.monotonic_ns()
        for one in [one for one in self.open if one.deadline_ns < now_ns]:
            one.close()

    def close(self) -> None:
        for one in tuple(self.open):
            one.close()


class Visitor:
    """One connection."""

    def __init__(self, visitors: Visitors, sock: socket.socket, serve: Serve) -> None:
        self._visitors = visitors
        self._serve = serve
        self._buf = b""
        self._head: RequestHead | None = None
        self._body: LengthBody | ChunkedBody | None = None
        self._content = bytearray()
        self._ended = False
        self.deadline_ns = 0
        self._until(DEADLINE_S)
        self.wire = Wire(visitors.loop, sock, self)

    def _until(self, seconds: float) -> None:
        self.deadline_ns = time.monotonic_ns() + round(seconds * 1e9)

    def on_open(self) -> None:
        """Accepted connections are open."""

    def on_end(self) -> None:
        self.close()

    def on_lost(self, why: str) -> None:
        self._visitors.open.discard(self)

    def on_drained(self) -> None:
        """Answers are small."""

    def close(self) -> None:
        self.wire.close()
        self._visitors.open.discard(self)

    def on_bytes(self, data: bytes) -> None:
        if self._ended:
            return
        self._buf += data
        try:
            while self._buf and not self._ended and self._step():
                pass
        except Malformed as bad:
            self._answer(None, (413 if bad.why == _LARGE else 400, {"error": bad.why}))

    def _step(self) -> bool:
        """Take a head or a piece of a body; whether there may be more to take."""
        if self._head is None:
            end = cut_head(self._buf)
            if not end:
                return False
            self._until(DEADLINE_S)  # from here on this request is under way
            head = self._head = _HEADS.request(self._buf[:end])
            self._body = request_body(head)
            self._content.clear()
            self._buf = self._buf[end:]
            if (head.length or 0) > MAX_BODY_BYTES:
                raise Malformed(_LARGE)
            if head.expects:
                self.wire.send(b"HTTP/1.1 100 Continue\r\n\r\n")
        head, body = self._head, self._body
        assert body is not None
        if not body.done and self._buf:
            self._content += body.feed(self._buf)
            self._buf = body.rest
            if len(self._content) > MAX_BODY_BYTES:
                raise Malformed(_LARGE)
        if not body.done:
            return False
        self._head = None
        self._answer(head, self._serve(head, bytes(self._content)))
        return True

    def _answer(self, head: RequestHead | None, answer: Answer) -> None:
        status, content = answer
        text = isinstance(content, bytes)
        body = content if isinstance(content, bytes) else msgspec.json.encode(content)
        fields = [
            ("content-type", "text/plain" if text else "application/json"),
            ("content-length", str(len(body))),
        ]
        keep = head is not None and head.keep_alive
        if not keep:
            fields.append(("connection", "close"))
        self.wire.send(answer_head(status, fields) + body)
        self._until(IDLE_S)
        if not keep:
            self._ended = True
            self._until(DEADLINE_S)
            self.wire.finish()


_LARGE = f"a body of more than {MAX_BODY_BYTES:,} bytes"
