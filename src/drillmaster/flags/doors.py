"""One HTTP/1.1 connection of the flag server, on its public port and on its control socket alike.

1. A request is read whole, within bounds and a deadline, before anybody is asked; one that means two things is refused
   (`http1`). Answers go out in the order of the requests. While one is held, nothing more is read than the bound allows.
2. A page in a browser is nobody's worker: whoever sends `Origin`, or calls by a name without a token, is turned away, so
   that no page whose name was made to lead here reads or switches anything.
"""

import ipaddress
import socket
import time
from collections.abc import Callable
from typing import Any, Protocol

import msgspec

from drillmaster.http1 import ChunkedBody, HeadReader, LengthBody, Malformed, RequestHead, cut_head, request_body
from drillmaster.wire import Wire

__all__ = ["MAX_BODY_BYTES", "Asked", "Client", "Hub", "Reply", "from_loopback", "said"]

MAX_BODY_BYTES = 65_536
MAX_HEAD_BYTES = 16_384
READ_S = 10.0
IDLE_S = 75.0
FINISH_S = 2.0
_NAMED = frozenset((b"authorization", b"content-type", b"if-none-match", b"origin", b"sec-fetch-site", b"x-api-key"))
_STATUS = {
    200: b"200 OK",
    304: b"304 Not Modified",
    400: b"400 Bad Request",
    401: b"401 Unauthorized",
    403: b"403 Forbidden",
    404: b"404 Not Found",
    405: b"405 Method Not Allowed",
    408: b"408 Request Timeout",
    409: b"409 Conflict",
    413: b"413 Content Too Large",
    415: b"415 Unsupported Media Type",
    421: b"421 Misdirected Request",
    431: b"431 Request Header Fields Too Large",
    500: b"500 Internal Server Error",
    503: b"503 Service Unavailable",
    507: b"507 Insufficient Storage",
}
_encode = msgspec.json.Encoder().encode


class Asked(msgspec.Struct, frozen=True):
    """One whole request."""

    method: str
    path: str
    query: str
    body: bytes
    named: dict[bytes, bytes]
    host: bytes | None
    loopback: bool
    """Whether it came from this machine."""


class Reply(msgspec.Struct, frozen=True):
    """An answer: `body` is JSON already."""

    status: int
    body: bytes
    etag: str | None = None


def said(status: int, content: object) -> Reply:
    """An answer of this value."""
    return Reply(status, _encode(content))


class Hub(Protocol):
    """What a connection needs of its server."""

    loop: Any
    clients: set["Client"]
    ending: bool


Serve = Callable[["Client", Asked], Reply | None]
"""None: held; the server calls `Client.answer` later."""


class Client:
    """One connection."""

    def __init__(self, hub: Hub, sock: socket.socket, serve: Serve, *, loopback: bool) -> None:
        self._hub = hub
        self._serve = serve
        self._loopback = loopback
        self._buf = b""
        self._reader = HeadReader(_NAMED)
        self._head: RequestHead | None = None
        self._before: RequestHead | None = None
        self._body: LengthBody | ChunkedBody | None = None
        self._content = b""
        self._ended = False
        self._held = False
        self._last = False
        self._paused = False
        self.on_gone: Callable[[], object] | None = None
        """Called once where a held request's client goes away."""
        self.deadline_ns = time.monotonic_ns() + round(READ_S * 1e9)
        hub.clients.add(self)
        self.wire = Wire(hub.loop, sock, self)

    # The wire's

    def on_open(self) -> None:
        """Accepted connections are open."""

    def on_end(self) -> None:
        if self._held:
            self._last = True  # half closed: the answer that is being made still goes out
            return
        self.close()

    def on_lost(self, why: str) -> None:
        self.close()

    def on_drained(self) -> None:
        """Answers are small, and each waits for a request."""

    def on_bytes(self, data: bytes) -> None:
        if self._ended:
            return
        if not self._buf and self._head is None and not self._held:
            self.deadline_ns = time.monotonic_ns() + round(READ_S * 1e9)
        self._buf += data
        if self._held:
            if len(self._buf) > MAX_BODY_BYTES + MAX_HEAD_BYTES:
                self._paused = True
                self.wire.pause()
            return
        self._go_on()

    # The server's

    def on_deadline(self) -> None:
        """Its time is up: told where a request came in part, and else closed."""
        if self._held:
            return
        if not self._ended and (self._buf or self._head is not None):
            self._turn_away(408, "the request did not come whole in time")
        else:
            self.close()

    def close(self) -> None:
        self.wire.close()
        self._hub.clients.discard(self)
        gone, self.on_gone = self.on_gone, None
        self._ended = True
        if gone is not None:
            gone()

    @property
    def held(self) -> bool:
        """Whether a request waits for its answer."""
        return self._held and not self._ended

    def answer(self, reply: Reply) -> None:
        """Answer the request that is held."""
        if not self.held:
            return
        self._held = False
        self.on_gone = None
        self._send(reply)
        if not self._ended:
            if self._paused:
                self._paused = False
                self.wire.resume()
            self._go_on()

    # Reading

    def _go_on(self) -> None:
        try:
            while self._buf and not self._ended and not self._held:
                asked = self._next()
                if asked is None:
                    return
                # Held from here on, so that an answer within the call is one as any other.
                self._held = True
                reply = self._serve(self, asked)
                if reply is not None:
                    self._held = False
                    self._send(reply)
                else:
                    self.deadline_ns = 1 << 62
        except Malformed as bad:
            self._turn_away(
                431 if bad.why == "head too large" else 413 if bad.why == "body too large" else 400, bad.why
            )

    def _next(self) -> Asked | None:
        if self._head is None:
            end = cut_head(self._buf)
            if (end or len(self._buf)) > MAX_HEAD_BYTES:
                raise Malformed("head too large")
            if not end:
                return None
            # Heads of one client are the same but for the length of the body, as good as always.
            self._head = self._before = head = self._reader.request(self._buf[:end], self._before)
            self._buf = self._buf[end:]
            self._body = request_body(head)
            self._content = b""
            if head.length is not None and head.length > MAX_BODY_BYTES:
                raise Malformed("body too large")
            if head.expects and not self._body.done and not self._buf:
                self.wire.send(b"HTTP/1.1 100 Continue\r\n\r\n")
        head, body = self._head, self._body
        assert body is not None
        if not body.done:
            if not self._buf:
                return None
            self._content += body.feed(self._buf)
            self._buf = body.rest
            if len(self._content) > MAX_BODY_BYTES:
                raise Malformed("body too large")
            if not body.done:
                return None
        path, _, query = head.origin_form.decode("latin-1").partition("?")
        return Asked(head.method, path, query, self._content, head.named, head.host, self._loopback)

    # Answering

    def _turn_away(self, status: int, why: str) -> None:
        self._last = True
        self._send(said(status, {"error": why}))

    def _send(self, reply: Reply) -> None:
        head, self._head = self._head, None
        keep = head is not None and head.keep_alive and not self._last and not self._hub.ending
        body = reply.body
        etag = b"" if reply.etag is None else b"etag: %b\r\n" % reply.etag.encode("latin-1")
        if reply.status == 304:
            framing = b""
        else:
            framing = b"content-type: application/json\r\ncontent-length: %d\r\n" % len(body)
            if head is not None and head.method == "HEAD":
                body = b""
        self.wire.send_soon(
            b"HTTP/1.1 %b\r\n%b%bcache-control: no-cache\r\n%b\r\n%b"
            % (_STATUS[reply.status], framing, etag, b"" if keep else b"connection: close\r\n", body)
        )
        now_ns = time.monotonic_ns()
        if keep:
            self.deadline_ns = now_ns + round(IDLE_S * 1e9)
        else:
            self._ended = True
            self.deadline_ns = now_ns + round(FINISH_S * 1e9)
            self.wire.finish()


def from_loopback(peer: object) -> bool:
    """Whether an accepted connection comes from this machine."""
    if not isinstance(peer, tuple):
        return True  # a Unix socket
    try:
        address = ipaddress.ip_address(str(peer[0]).partition("%")[0])
    except ValueError:
        return False
    mapped = getattr(address, "ipv4_mapped", None)
    return bool((mapped or address).is_loopback)
