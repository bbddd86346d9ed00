"""A small HTTP/1.1 server for answers of a few hundred bytes: one process, hundreds of connections that are kept alive.

1. A request is read whole, within bounds and a deadline, before it is answered; one that means two things is refused (`http1`).
2. A connection is answered in its own order. While an answer is being made, or the client reads none, little more is read from it.
3. What listens beyond loopback wants a token. A page in a browser is nobody's worker: whoever sends `Origin` is turned away, and a
   body has to call itself JSON, which no page may do unasked. Where no token is asked for, `Host` has to be an address or
   `localhost` (`names`): a page whose own name was made to lead here sends that name, and with a GET no `Origin`.
4. At the end nobody new is let in, what was begun is answered, and connections without a request are closed. That takes `DRAIN_S`
   at most.
"""

import asyncio
import contextlib
import fcntl
import functools
import hmac
import os
import socket
import stat
import time
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import msgspec

from drillmaster import http1
from drillmaster.asked import is_address
from drillmaster.errors import Problem

__all__ = ["BODY_BYTES", "Asked", "Bounds", "Reply", "Server", "listen", "spoken"]

BODY_BYTES = 1 << 16
_HEAD_BYTES = 1 << 14
_KEPT = frozenset({b"authorization", b"content-type", b"origin", b"sec-fetch-site"})
_OF_A_PAGE = frozenset({b"cross-site", b"same-site", b"same-origin"})
_SWEEP_S = 0.25
_BACKLOG = 1_024
_LOCK_S = 2.0


class Bounds(msgspec.Struct, frozen=True, kw_only=True):
    """What one client may take."""

    connections: int = 1_024
    body_bytes: int = BODY_BYTES
    read_s: float = 5.0
    """For a whole request, from its first byte on."""
    idle_s: float = 75.0
    """Between two requests of a connection. Before its first one it is `read_s`."""
    drain_s: float = 5.0


class Asked(msgspec.Struct, frozen=True):
    """One request: a POST has its body, a GET has none."""

    method: str
    path: str
    query: str
    body: bytes


class Reply(msgspec.Struct, frozen=True):
    status: int
    body: bytes
    content_type: str = "application/json"


Answer = Callable[[Asked], "Reply | Awaitable[Reply]"]
_STATUS = {
    200: "OK", 204: "No Content", 400: "Bad Request", 401: "Unauthorized", 403: "Forbidden", 404: "Not Found",
    405: "Method Not Allowed", 408: "Request Timeout", 413: "Content Too Large", 415: "Unsupported Media Type",
    421: "Misdirected Request", 431: "Request Header Fields Too Large", 500: "Internal Server Error", 503: "Service Unavailable",
}  # fmt: skip  # a table


class Server:
    """One server. `answer` is given each whole request; `refuse` says what a request gets that cannot be given on."""

    def __init__(
        self,
        answer: Answer,
        refuse: Callable[[int, str], Reply],
        *,
        bounds: Bounds | None = None,
        token: str = "",
        names: bool = True,
        failed: Callable[[BaseException], None] | None = None,
    ) -> None:
        """`token` "": none is asked for. `names`: whether it may be called by any name, and not by address alone.

        `failed` is told of an error in `answer`, whose client gets a 500.
        """
        self.answer, self.refuse = answer, refuse
        self.bounds = bounds or Bounds()
        self.token = token.encode()
        self.names = names
        self.failed = failed
        self.draining = False
        self.date = _date()
        self.served = 0
        self.connections: set[_Connection] = set()
        self.emptied = asyncio.Event()
        self._servers: list[asyncio.Server] = []
        self._sweeper: asyncio.Task[None] | None = None

    async def start(self, sock: socket.socket) -> None:
        """Serve on a bound socket."""
        loop = asyncio.get_running_loop()
        self._sweeper = self._sweeper or loop.create_task(self._sweep())
        if sock.family == socket.AF_UNIX:
            self._servers.append(await loop.create_unix_server(lambda: _Connection(self), sock=sock, backlog=_BACKLOG))
        else:
            self._servers.append(await loop.create_server(lambda: _Connection(self), sock=sock, backlog=_BACKLOG))

    async def drain(self) -> None:
        """Let nobody new in, answer what was begun, and end. Cancels what is not answered in time."""
        self.draining = True
        for server in self._servers:
            server.close()
        for one in tuple(self.connections):
            one.end_if_idle()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self.bounds.drain_s):
                while self.connections:
                    self.emptied.clear()
                    await self.emptied.wait()
        for one in tuple(self.connections):
            one.abort()
        if self._sweeper is not None:
            self._sweeper.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._sweeper

    async def _sweep(self) -> None:
        """Look at all connections four times a second: a timer of each request's own costs more than the request."""
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(_SWEEP_S)
            self.date = _date()
            now_s = loop.time()
            for one in tuple(self.connections):
                one.look_at_the_clock(now_s)


class _Connection(asyncio.Protocol):
    """One client."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._loop = asyncio.get_running_loop()
        self._heads = http1.HeadReader(_KEPT)
        self._transport: asyncio.Transport | None = None
        self._held = b""
        self._head: http1.RequestHead | None = None
        self._coming: http1.Body | None = None
        self._body: list[bytes] = []
        self._body_bytes = 0
        self._since_s = self._loop.time()
        self._task: asyncio.Task[None] | None = None
        self._full = False
        self._ended = False
        self._half_closed = False
        self._asked = False

    # -- the transport's --

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        if len(self._server.connections) >= self._server.bounds.connections or self._server.draining:
            transport.abort()
            return
        self._server.connections.add(self)
        with contextlib.suppress(OSError):
            sock = transport.get_extra_info("socket")
            if sock is not None and sock.family != socket.AF_UNIX:
                sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def connection_lost(self, exc: Exception | None) -> None:
        self._server.connections.discard(self)
        if not self._server.connections:
            self._server.emptied.set()
        self._ended = True
        if self._task is not None:
            self._task.cancel()

    def data_received(self, data: bytes) -> None:
        if self._ended:
            return  # it lingers: what still comes is read so that our end is no reset
        if not self._held and self._head is None:
            self._since_s = self._loop.time()
        self._held += data
        if self._task is not None or self._full:
            if len(self._held) > self._server.bounds.body_bytes + _HEAD_BYTES and self._transport is not None:
                self._transport.pause_reading()
            return
        self._go_on()

    def eof_received(self) -> bool:
        # Half closed: an answer that is being made still goes out, and is the last; else there is nothing to wait for.
        self._half_closed = True
        return self._task is not None

    def pause_writing(self) -> None:
        self._full = True

    def resume_writing(self) -> None:
        self._full = False
        if self._task is None and not self._ended:
            self._go_on()

    # -- the server's --

    def end_if_idle(self) -> None:
        if self._task is None and self._head is None and not self._held:
            self._close()

    def look_at_the_clock(self, now_s: float) -> None:
        if self._task is not None:
            return  # an answer is being made, and has a limit of its own
        bounds, begun = self._server.bounds, bool(self._held) or self._head is not None
        if self._ended or self._full:
            if now_s - self._since_s > bounds.read_s:
                self.abort()
        elif begun and now_s - self._since_s > bounds.read_s:
            self._turn_away(408, "the request did not come whole in time")
        elif not begun and self._asked and now_s - self._since_s > bounds.idle_s:
            self._close()
        elif not begun and not self._asked and now_s - self._since_s > bounds.read_s and self._transport is not None:
            self._transport.close()  # there is no answer that a reset could eat: its place is free at once

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    # -- reading --

    def _go_on(self) -> None:
        """Take as many whole requests out of what came as can be answered at once."""
        if self._transport is not None and not self._transport.is_closing():
            self._transport.resume_reading()
        try:
            while not self._ended and not self._full and self._task is None:
                asked = self._next()
                if asked is None:
                    return
                self._answer(asked)
        except http1.Malformed as error:
            self._turn_away(431 if error.why == "head too large" else 400, error.why)
        except _Turned as turned:
            self._turn_away(turned.status, turned.why)

    def _next(self) -> Asked | None:
        """Give the next whole request; None: not all of it is here. Raises Malformed, _Turned."""
        if self._head is None:
            if not self._held:
                return None
            end = http1.cut_head(self._held)
            if (end or len(self._held)) > _HEAD_BYTES:
                raise http1.Malformed("head too large")
            if not end:
                return None
            raw, self._held = self._held[:end], self._held[end:]
            self._head = head = self._heads.request(raw)
            self._check(head)
            self._coming = http1.request_body(head)
            if head.expects and not self._coming.done and not self._held and self._transport is not None:
                self._transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        head = self._head
        if not self._is_whole():
            return None
        path, _, query = head.origin_form.decode("latin-1").partition("?")
        body = b"".join(self._body)
        self._body, self._body_bytes, self._coming = [], 0, None
        return Asked(head.method, path, query, body)

    def _is_whole(self) -> bool:
        """Read on in the body; say whether all of it is here. Raises Malformed, _Turned."""
        coming = self._coming
        assert coming is not None  # whoever has a head has it
        if coming.done:
            return True
        if not self._held:
            return False
        data, self._held = self._held, b""
        piece = coming.feed(data)
        self._body.append(piece)
        self._body_bytes += len(piece)
        if self._body_bytes > self._server.bounds.body_bytes:
            raise _Turned(413, f"more than {self._server.bounds.body_bytes} bytes of body")
        self._held = coming.rest
        return bool(coming.done)

    def _check(self, head: http1.RequestHead) -> None:
        """Turn away by the head alone: nobody's body is read before it is known that it may come. Raises _Turned."""
        named = head.named
        if b"origin" in named or named.get(b"sec-fetch-site", b"").strip().lower() in _OF_A_PAGE:
            raise _Turned(403, "a page in a browser is no worker")
        if not self._server.names and head.host and not is_address(head.host):
            raise _Turned(421, "called by a name: by its address, or localhost")
        token = self._server.token
        if token and head.path != "/healthz":
            scheme, _, said = named.get(b"authorization", b"").partition(b" ")
            if scheme.lower() != b"bearer" or not hmac.compare_digest(said.strip(), token):
                raise _Turned(401, "no token, or another one")
        if head.length is not None and head.length > self._server.bounds.body_bytes:
            raise _Turned(413, f"more than {self._server.bounds.body_bytes} bytes of body")
        if head.upgrade is not None:
            raise _Turned(400, "nothing else than HTTP/1.1 is spoken here")
        has_body = head.chunked or bool(head.length)
        kind = named.get(b"content-type", b"").partition(b";")[0].strip().lower()
        if has_body and kind != b"application/json":
            raise _Turned(415, "a body that does not call itself application/json")

    # -- answering --

    def _answer(self, asked: Asked) -> None:
        self._asked = True
        try:
            made = self._server.answer(asked)
        except Exception as error:  # noqa: BLE001 - our own mistake is a 500 for this one, and told
            self._fail(error)
            return
        if isinstance(made, Reply):
            self._send(made)
        else:
            self._task = self._loop.create_task(self._later(made))

    async def _later(self, made: Awaitable[Reply]) -> None:
        try:
            reply = await made
        except Exception as error:  # noqa: BLE001 - likewise
            self._task = None
            self._fail(error)
        else:
            self._task = None
            self._send(reply)
        if not self._ended:
            self._go_on()

    def _fail(self, error: Exception) -> None:
        if self._server.failed is not None:
            self._server.failed(error)
        self._send(self._server.refuse(500, "a mistake of the server's own"))

    def _send(self, reply: Reply, *, last: bool = False) -> None:
        head, self._head = self._head, None
        self._server.served += 1
        if self._transport is None or self._transport.is_closing():
            return
        last = last or self._server.draining or self._half_closed
        keep = not last and head is not None and head.keep_alive and head.minor == 1
        lines = [_status_line(reply.status), self._server.date]
        if reply.status != 204:
            lines.append(f"content-type: {reply.content_type}\r\ncontent-length: {len(reply.body)}")
        if not keep:
            lines.append("connection: close")
        lines.append("cache-control: no-store")
        body = b"" if (head is not None and head.method == "HEAD") or reply.status == 204 else reply.body
        self._transport.write("\r\n".join(lines).encode("latin-1") + b"\r\n\r\n" + body)
        self._since_s = self._loop.time()
        if not keep:
            self._close()

    def _turn_away(self, status: int, why: str) -> None:
        """Answer a request that is not given on, and end: what follows on this connection could mean anything."""
        self._send(self._server.refuse(status, why), last=True)

    def _close(self) -> None:
        """End our side; what still comes is read for a while, or else our end would be a reset and eat the answer."""
        self._ended, self._held, self._body = True, b"", []
        transport = self._transport
        if transport is None or transport.is_closing():
            return
        self._since_s = self._loop.time()
        if self._server.draining or not transport.can_write_eof():
            transport.close()
            return
        with contextlib.suppress(OSError, RuntimeError):
            transport.write_eof()
        transport.resume_reading()


@functools.cache
def _status_line(status: int) -> str:
    return f"HTTP/1.1 {status} {_STATUS.get(status, 'Status')}"


def _date() -> str:
    """Write the Date field (RFC 9110, 6.6.1): four times a second for all answers, and not for each."""
    return time.strftime("date: %a, %d %b %Y %H:%M:%S GMT", time.gmtime())


class _Turned(Exception):
    """A request that is not given on."""

    def __init__(self, status: int, why: str) -> None:
        super().__init__(why)
        self.status, self.why = status, why


def listen(where: str) -> tuple[socket.socket, str]:
    """Bind `HOST:PORT` or `unix:PATH`; the socket, and how to name it. Raises Problem where it cannot be had."""
    if where.startswith("unix:"):
        return _listen_unix(where.removeprefix("unix:"))
    host, port = spoken(where)
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    sock = socket.socket(family, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind((host, port))
        sock.listen(_BACKLOG)  # at once: two that are bound and do not listen yet may have one port
    except OSError as error:
        sock.close()
        raise Problem(
            where,
            found=f"a port that cannot be had ({error.strerror or error})",
            wanted="a free port of this machine",
            remedy=f"--listen {host}:0 takes a free one, and prints it",
        ) from None
    port = sock.getsockname()[1]
    return sock, f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def spoken(where: str) -> tuple[str, int]:
    """Read `HOST:PORT`. Raises Problem."""
    host, colon, port = where.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    host = "127.0.0.1" if host == "localhost" else host
    if not colon or not host or not (port.isascii() and port.isdigit() and int(port) <= 65_535):
        raise Problem(
            "--listen",
            found=repr(where[:60]),
            wanted="HOST:PORT with an address for a host, or unix:PATH",
            remedy="--listen 127.0.0.1:8787",
        )
    return host, int(port)


def _listen_unix(path: str) -> tuple[socket.socket, str]:
    """Bind a socket that only this user may connect to. One that a dead server left behind is replaced."""
    place = f"unix:{path}"
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
    before = os.umask(0o177)
    try:
        with _alone(Path(path).parent):
            with contextlib.suppress(FileNotFoundError):
                if stat.S_ISSOCK(Path(path).lstat().st_mode) and not _somebody_listens(path):
                    Path(path).unlink()
            sock.bind(path)
            sock.listen(_BACKLOG)
    except OSError as error:
        sock.close()
        raise Problem(
            place,
            found=f"a path that cannot be had ({error.strerror or error})",
            wanted="a new name in a folder that is yours to write, of at most 100 bytes",
            remedy="name another path, or end the server that has this one",
        ) from None
    finally:
        os.umask(before)
    return sock, place


@contextlib.contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Be the only server that looks at a folder's sockets: one that is bound and does not listen yet looks dead to another."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        until_s = time.monotonic() + _LOCK_S
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > until_s:
                    raise
                time.sleep(0.01)
        yield
    finally:
        os.close(descriptor)


def _somebody_listens(path: str) -> bool:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.settimeout(1)
        try:
            probe.connect(path)
        except ConnectionRefusedError:
            return False
        except OSError:
            return True
        return True
