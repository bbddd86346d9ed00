"""Calls over a WebSocket (RFC 6455): one message up, and messages down to the one that ends the answer.

1. A connection is opened by an HTTP/1.1 upgrade, whose time is in the connection's. A server that answers anything but 101, or
   with another `Sec-WebSocket-Accept` than ours asks for, gave no connection: the call is over by that status, or `protocol`.
2. An answer is over with the first message that `until` matches, or with the first at all. Where `failed` matches, it is an error
   that came in band. Each message of data is a word.
3. A ping is answered at once, in a call or between calls. What a server says between calls belongs to none, also where it
   began then and came in one piece with the answer before, or with the answer to the upgrade.
4. A close frame in a call cuts it. The code of the close goes on record as status: 1000 and up are no HTTP status. One that
   came between calls is none of this one, nor is one that says that all was in order, before a word of it and hardly after it
   was sent: then the connection is replaced once.
5. Whoever is there to hear it is told that a connection is over (5.5.1), and that is not waited for.
"""

import base64
import contextlib
import os
import re
import select
import ssl
from time import monotonic_ns
from typing import TYPE_CHECKING

from drillmaster import ws
from drillmaster.dialects import output_tokens
from drillmaster.engines.conn import CODE, CROSSED_NS
from drillmaster.engines.shots import Deck, Shots
from drillmaster.engines.turns import TurnConn
from drillmaster.http1 import HeadReader, Malformed, cut_head

if TYPE_CHECKING:  # engine and connection know each other; only one of them can import the other
    from drillmaster.engines import Shot
    from drillmaster.engines.http import Engine

__all__ = ["Dialogue", "MessageShots", "ShuffledMessages", "WebSocketConn"]

_OK, _ERROR_BODY = CODE["ok"], CODE["error_body"]
_AGAIN = (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError)
_IN_ORDER = frozenset({None, 1000, 1001})
_GOODBYE = (1000).to_bytes(2, "big")
SWITCHED = 101


class Dialogue:
    """What all connections of one engine share: the upgrade, and when an answer is over."""

    def __init__(self, shot: "Shot") -> None:
        assert shot.websocket is not None
        said = shot.websocket
        fields = dict(shot.headers)
        if said.subprotocol is not None:
            fields["Sec-WebSocket-Protocol"] = said.subprotocol
        more = "".join(f"{name}: {value}\r\n" for name, value in fields.items())
        self._opening = (
            f"GET {shot.target} HTTP/1.1\r\nHost: {shot.authority}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            f"Sec-WebSocket-Version: 13\r\n{more}Sec-WebSocket-Key: "
        ).encode("latin-1")
        self.until = re.compile(said.until.encode()).search if said.until is not None else None
        self.failed = re.compile(said.failed.encode()).search if said.failed is not None else None
        self.heads = HeadReader(response=True)

    def upgrade(self) -> tuple[bytes, bytes]:
        """A request of its own for one connection, and the `Sec-WebSocket-Accept` that it asks for."""
        key = base64.b64encode(os.urandom(16))
        return self._opening + key + b"\r\n\r\n", ws.accept_of(key)


class MessageShots(Shots):
    """Messages ready to be sent: masked anew each time."""

    def take(self, number: int) -> tuple[int, int, bytes]:
        return self.ready(self.place(number), number)

    def ready(self, at: int, number: int) -> tuple[int, int, bytes]:
        body = (b"%d" % number).join(self._bodies[at])
        return at, len(body), ws.frame(body)


class ShuffledMessages(MessageShots):
    """The same, each pass in an order of its own."""

    def __init__(self, shot: "Shot", seed: int) -> None:
        super().__init__(shot)
        self._deck = Deck(len(shot.payloads), seed)

    def place(self, number: int) -> int:
        return self._deck.place(number)

    def aligned(self, number: int) -> int:
        return self._deck.aligned(number)


class WebSocketConn(TurnConn):
    """One caller's WebSocket, and the turn that is under way on it."""

    __slots__ = ("_accept", "_messages", "_stale")

    def __init__(self, engine: "Engine") -> None:
        super().__init__(engine)
        self._accept = b""
        self._messages: ws.Messages | None = None
        self._stale = False
        """Whether a message that is coming began before this call was sent."""

    def _opened(self, now_ns: int) -> None:
        """TCP and TLS stand: ask for the upgrade."""
        engine = self._engine
        assert engine.dialogue is not None
        self._messages = None
        self._buf = b""
        self.is_open = True
        engine.calls[self._fd] = self._on_event
        engine.epoll.modify(self._fd, select.EPOLLIN)
        wire, self._accept = engine.dialogue.upgrade()
        self._push(wire, now_ns)

    def _push(self, wire: bytes, now_ns: int) -> None:
        """Send that, behind what is not sent yet."""
        if self._out:
            self._out += wire
            return
        try:
            sent = self._send(wire)
        except _AGAIN:
            sent = 0
        except OSError:
            self._lost("reset", now_ns)
            return
        if sent < len(wire):
            self._out = wire[sent:]
            self._engine.epoll.modify(self._fd, select.EPOLLIN | select.EPOLLOUT)

    def _shoot(self, now_ns: int) -> None:
        self._stale = self._messages is not None and self._messages.within
        super()._shoot(now_ns)

    def _take(self, data: bytes, now_ns: int) -> None:
        uses = self._uses
        try:
            messages = self._messages
            if messages is None:
                data = self._switched(self._buf + data, now_ns)
                messages = self._messages
            if messages is None or not data:
                return
            found = messages.feed(data)
            if self._uses != uses:  # the call was sent when the upgrade stood, before this was read
                self._stale = messages.within
            for message in found:
                if not self.is_open:
                    return
                self._hear(message, now_ns, before=self._uses != uses)
        except Malformed:
            if self in self._engine.busy:
                self.fail("protocol", now_ns)
            else:
                self._unheard()

    def _switched(self, data: bytes, now_ns: int) -> bytes:
        """Read the answer to the upgrade; what came behind it. Raises Malformed."""
        dialogue = self._engine.dialogue
        assert dialogue is not None
        while True:
            end = cut_head(data)
            if not end:
                self._buf = data
                return b""
            head = dialogue.heads.response(data[:end])
            if not 100 <= head.status < 200 or head.status == SWITCHED:
                break
            data = data[end:]  # an answer for the meantime
        self._buf = b""
        if head.status != SWITCHED:
            how = "http_5xx" if head.status >= 500 else "http_4xx" if head.status >= 400 else "http_3xx"
            how = how if head.status >= 300 else "protocol"
            self._close()
            self._over(CODE[how], now_ns, head.status, -1)
            return b""
        if _field(head.raw, b"sec-websocket-accept") != self._accept:
            raise Malformed("another Sec-WebSocket-Accept than the key asks for")
        if _field(head.raw, b"sec-websocket-extensions"):
            raise Malformed("an extension that was not offered")
        self._messages = ws.Messages()
        self._connect_ns = now_ns - self._opened_ns - self._tls_ns
        self._shoot(now_ns)
        return data[end:]

    def _hear(self, message: ws.Message, now_ns: int, *, before: bool) -> None:
        """Take a message; `before`: it came before the call was sent that is under way now."""
        engine = self._engine
        if message.kind == ws.PING:
            self._push(ws.frame(message.payload, ws.PONG), now_ns)
            return
        if message.kind == ws.PONG:
            return
        if self not in engine.busy:
            if message.kind == ws.CLOSE:
                self._unheard()
            return
        if message.kind == ws.CLOSE:
            code = ws.close_code(message.payload)
            crossed = code in _IN_ORDER and now_ns - self._sent_ns < CROSSED_NS
            if (before or crossed) and self._uses > 1 and not self._first_ns and not self._again:
                self._replace(now_ns)
                return
            self._close()
            self._over(CODE["cut"], now_ns, code if code is not None else SWITCHED, -1)
            return
        if before or self._stale:
            self._stale = self._stale and before
            return
        payload = message.payload
        if not self._first_ns:
            self._first_ns = now_ns
        self._down += len(payload)
        self._word(now_ns)
        dialogue = engine.dialogue
        assert dialogue is not None
        if dialogue.failed is not None and dialogue.failed(payload):
            self._over(_ERROR_BODY, now_ns, SWITCHED, -1)
        elif dialogue.until is None or dialogue.until(payload):
            tokens = output_tokens(payload)
            self._over(_OK, now_ns, SWITCHED, -1 if tokens is None else tokens)

    def _word(self, now_ns: int) -> None:
        self._words += 1
        if not self._word_ns:
            self._word_ns = self._last_ns = now_ns
            return
        gaps = self._gaps = [] if self._gaps is None else self._gaps
        gap_us = (now_ns - self._last_ns) // 1_000
        gaps.append(gap_us)
        self._last_ns += gap_us * 1_000  # what is cut off is in the next gap: their sum stays true

    def _ended(self, now_ns: int) -> None:
        self._lost("cut", now_ns)

    def _idle_heard(self, data: bytes) -> None:
        """Something came while nothing was asked: a ping, a push, or its end."""
        if not data:
            self._unheard()
        else:
            self._take(data, monotonic_ns())

    def _close(self) -> None:
        if self.is_open and self._messages is not None and not self._out:
            with contextlib.suppress(OSError):  # `_AGAIN` among them
                self._send(ws.frame(_GOODBYE, ws.CLOSE))
        super()._close()

    drop = _close

    def _unheard(self) -> None:
        """It is over, between calls."""
        idle = self._engine.idle
        if self in idle:
            idle.remove(self)
        self._close()


def _field(raw: bytes, name: bytes) -> bytes:
    """A header field's value; empty: it is not there."""
    for line in raw.split(b"\r\n")[1:]:
        found, colon, value = line.partition(b":")
        if colon and found.strip().lower() == name:
            return value.strip()
    return b""
