"""A client that is nothing but a socket: it sends one request, and tells all that comes of it with the time it came.

1. It asks once, follows nothing, and tries nothing again.
2. All of it, connect included, has `limit_s`; then it leaves, and says so.
3. A chunked body is told in the chunks it came in. What cannot be read ends it, as it would end any client.
"""

import contextlib
import socket
import time
from collections.abc import Callable, Iterator
from typing import Literal

import msgspec

from drillmaster.http1 import (
    Body,
    ChunkedBody,
    CloseBody,
    HeadReader,
    Malformed,
    ResponseHead,
    cut_head,
    response_body,
)
from drillmaster.trying import Ask

__all__ = ["SILENCE_S", "Event", "Got", "Line", "request"]

SILENCE_S = 0.5
"""From how long on a silence is worth a line."""
FIN_S = 0.5
"""How long the end of a connection is waited for that was said to end."""
READ_BYTES = 65_536
KEPT_BYTES = 1 << 20
"""Of a body, from its start and from its end."""

How = Literal["whole", "refused", "unanswered", "reset", "closed", "late", "malformed"]


class Event(msgspec.Struct, frozen=True):
    """Something that was sent (`>`), received (`<`, `body`) or that happened (`*`)."""

    kind: Literal[">", "<", "body", "*"]
    at_ms: float | None
    """Since the request began; None: of no moment of it."""
    text: bytes


class Got(msgspec.Struct, kw_only=True):
    """What came of one request."""

    how: How = "late"
    """How it ended. `closed` and `reset` may come before the head or behind it."""
    why: str = ""
    head: ResponseHead | None = None
    start: bytes = b""
    tail: bytes = b""
    body_bytes: int = 0
    pieces: int = 0
    connect_ms: float | None = None
    head_ms: float | None = None
    first_ms: float | None = None
    end_ms: float = 0.0


class Line:
    """One connection that may serve another request."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self.held = b""

    def close(self) -> None:
        self.sock.close()


Tell = Callable[[Event], object]


class _Late(Exception):
    """The time is over."""


class _Request:
    """One request under way."""

    def __init__(self, ask: Ask, line: Line | None, limit_s: float, tell: Tell) -> None:
        self.got = Got()
        self.line = line
        self._ask = ask
        self._tell = tell
        self._limit_s = limit_s
        self._began = time.monotonic()
        self._last_ms = 0.0
        self._refused_it: ConnectionError | None = None
        self._part = b""
        """What came of a head that is not whole."""

    def ms(self) -> float:
        return (time.monotonic() - self._began) * 1e3

    def say(self, text: str) -> None:
        self._tell(Event("*", self.ms(), text.encode()))

    def left_s(self) -> float:
        left = self._limit_s - (time.monotonic() - self._began)
        if left <= 0:
            raise _Late
        return left

    def connect(self, address: tuple[str, int]) -> bool:
        """Whether a connection stands."""
        where = f"{address[0]}:{address[1]}"
        if self.line is not None:
            self.say(f"the connection to {where} still stands and is used again")
            return True
        sock = socket.socket(socket.AF_INET6 if ":" in address[0] else socket.AF_INET, socket.SOCK_STREAM)
        try:
            sock.settimeout(self.left_s())
            sock.connect(address)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        except TimeoutError:
            self.end("unanswered", f"{where} did not answer the attempt to connect")
        except ConnectionRefusedError:
            self.end("refused", f"{where} refused the connection (RST)")
        except OSError as error:  # a reset may come so early that connect itself is told
            self.end("reset", f"{where} reset the connection (RST) at once: {error.strerror or error}")
        else:
            self.got.connect_ms = self.ms()
            self.say(f"connected to {where}")
            self.line = Line(sock)
            return True
        sock.close()
        return False

    def send(self, host: str) -> None:
        ask, line = self._ask, self.line
        assert line is not None
        fields = (("host", host), *ask.fields, ("content-length", str(len(ask.body))))
        lines = [f"{ask.method} {ask.path} HTTP/1.1", *(f"{name}: {value}" for name, value in fields)]
        for text in lines:
            self._tell(Event(">", self.ms(), text.encode("latin-1")))
        self._tell(Event(">", self.ms(), b""))
        self._tell(Event(">", self.ms(), ask.body))
        line.sock.settimeout(self.left_s())
        try:
            line.sock.sendall("\r\n".join(lines).encode("latin-1") + b"\r\n\r\n" + ask.body)
        except TimeoutError:
            raise _Late from None
        except ConnectionError as error:  # what was answered before that can still be read
            self.say(f"the request could not be written: {error.strerror}")
            self._refused_it = error
        self._last_ms = self.ms()

    def read(self) -> bytes:
        """What comes next; empty at a FIN. Raises ConnectionError, _Late."""
        line = self.line
        assert line is not None
        if line.held:
            data, line.held = line.held, b""
            return data
        line.sock.settimeout(self.left_s())
        try:
            data = line.sock.recv(READ_BYTES)
        except TimeoutError:
            raise _Late from None
        finally:
            now_ms = self.ms()
            if now_ms - self._last_ms > SILENCE_S * 1e3:
                self.say(f"silence of {(now_ms - self._last_ms) / 1e3:.1f} s")
            self._last_ms = now_ms
        return data

    def head(self) -> Body | None:
        """Read the head; the reader of its body, None where it does not come."""
        buf, reads = b"", 0
        while True:
            while not (end := cut_head(buf)):
                data = self.read()
                reads += 1
                if not data and self._refused_it is not None:
                    # A RST is told once, to the write; a read behind it looks like a FIN.
                    raise self._refused_it
                if not data:
                    self.end("closed", "the server closed the connection (FIN) before an answer")
                    return None
                buf += data
                self._part = buf
            head = HeadReader(response=True).response(buf[:end])
            for text in buf[: end - 4].split(b"\r\n"):
                self._tell(Event("<", self.ms(), text))
            self._tell(Event("<", self.ms(), b""))
            if head.status >= 200:
                break
            self._part = buf = buf[end:]
        if reads > 2:
            self.say(f"that head came in {reads} pieces")
        self.got.head, self.got.head_ms = head, self.ms()
        assert self.line is not None
        self.line.held = buf[end:]
        return response_body(head, self._ask.method)

    def body(self, body: Body) -> None:
        """Read the body to its end."""
        while not body.done:
            data = self.read()
            if not data:
                if body.end():
                    break
                self.end("closed", "the server closed the connection (FIN) in the middle of its answer")
                return
            for part in _slices(body, data):
                if payload := body.feed(part):
                    self._take(payload)
        assert self.line is not None
        self.line.held = body.rest
        self.end("whole", "")
        self._close_or_keep(body)

    def _take(self, payload: bytes) -> None:
        got = self.got
        if got.first_ms is None:
            got.first_ms = self.ms()
        got.pieces += 1
        got.body_bytes += len(payload)
        if len(got.start) < KEPT_BYTES:
            got.start += payload[: KEPT_BYTES - len(got.start)]
        got.tail = (got.tail + payload)[-READ_BYTES:]
        self._tell(Event("body", self.ms(), payload))

    def _close_or_keep(self, body: Body) -> None:
        line, head = self.line, self.got.head
        assert line is not None and head is not None
        if isinstance(body, CloseBody):
            self.say("the answer ended with the connection (FIN)")
        elif head.keep_alive:
            last = "its last chunk came" if isinstance(body, ChunkedBody) else "its length is complete"
            self.say(f"the body is whole ({last}); the connection stays open")
            return
        else:
            line.sock.settimeout(FIN_S)
            with contextlib.suppress(OSError):
                if not line.sock.recv(1):
                    self.say("the server closed the connection (FIN)")
        self.drop()

    def end(self, how: How, why: str) -> None:
        part = self._part if self.got.head is None else b""
        if part and how != "malformed":
            for text in part.split(b"\r\n"):
                self._tell(Event("<", self.ms(), text))
            why += f", after {len(part)} bytes of a head"
        self.got.how, self.got.why = how, why
        self.got.end_ms = self.ms()
        if why:
            self.say(why)

    def drop(self) -> None:
        if self.line is not None:
            self.line.close()
            self.line = None


def _slices(body: Body, data: bytes) -> Iterator[bytes]:
    """Cut what came of a chunked body so that each chunk is fed by itself; what is behind its end is not fed."""
    at = 0
    while at < len(data) and not body.done:
        end = data.find(b"\r\n", at) + 2 if isinstance(body, ChunkedBody) else 0
        yield data[at : end if end > 1 else len(data)]
        at = end if end > 1 else len(data)
    body.rest += data[at:]


def request(
    address: tuple[str, int], ask: Ask, *, line: Line | None, limit_s: float, tell: Tell
) -> tuple[Got, Line | None]:
    """Ask once; what came, and the connection where it may be used again. `line` None: a new connection."""
    host = f"[{address[0]}]" if ":" in address[0] else address[0]
    one = _Request(ask, line, limit_s, tell)
    try:
        if one.connect(address):
            one.send(f"{host}:{address[1]}")
            body = one.head()
            if body is not None:
                one.body(body)
    except _Late:
        one.end("late", f"gave up after {limit_s:g} s, which is the time limit here")
    except ConnectionError as error:
        after = "" if one.got.head is None else " in the middle of its answer"
        one.end("reset", f"the server reset the connection (RST){after}: {error.strerror}")
    except Malformed as bad:
        one.end("malformed", f"what came cannot be read: {bad.why}")
    except BaseException:
        one.drop()
        raise
    if one.got.how != "whole":
        one.drop()
    return one.got, one.line
