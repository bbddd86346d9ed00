"""A mission over a WebSocket (RFC 6455): opened once, then one message up a step and messages down to the one that ends it.

1. The opening is part of the first step's time. Anything but 101 with the Accept that our key asks for is no connection.
2. A ping is answered; what comes unasked between two steps belongs to none. A close frame in a step cuts it.
3. The server is told that it is over, and not waited for.
4. The mission's name and trace are in the opening's header fields: later messages have no place for them.
"""

import base64
import os
from time import monotonic_ns

from drillmaster import ws
from drillmaster.http1 import Malformed, cut_head
from drillmaster.missions.flows import Drawn
from drillmaster.missions.mission import HttpMission, Keeper

__all__ = ["SocketMission"]

_GOODBYE = ws.frame((1000).to_bytes(2, "big"), ws.CLOSE)
_SWITCHED = 101
_FRAMING_BYTES = 65_536


class SocketMission(HttpMission):
    """A mission that speaks messages."""

    def __init__(self, keeper: Keeper, drawn: Drawn, due_ns: int) -> None:
        super().__init__(keeper, drawn, due_ns)
        self._messages: ws.Messages | None = None
        self._accept = b""
        self._message = b""
        self._came = 0
        """How many bytes came since this step was sent, or since the opening."""
        self._stale = False
        """Whether the message that is coming began before this step was sent."""

    def _ask(self) -> None:
        self._message = ws.frame((self._body() or "").encode())
        self._content = []
        self._waiting = True
        if self._messages is not None and self._wire is not None and not self._wire.closed:
            self._speak()
            return
        plan, values, line = self.drawn.plan, self.drawn.values, self._keeper.line
        fields = "".join([f"{name}: {header.fill(values)}\r\n" for name, header in plan.headers])
        key = base64.b64encode(os.urandom(16))
        self._accept = ws.accept_of(key)
        self._messages = None
        self._buf = b""
        self._request = (
            (
                f"GET {line.prefix}{plan.path.fill(values)} HTTP/1.1\r\nHost: {line.authority}\r\nUpgrade: websocket\r\n"
                f"Connection: Upgrade\r\nSec-WebSocket-Version: 13\r\n{fields}{self.trace_fields()}Sec-WebSocket-Key: "
            ).encode("latin-1")
            + key
            + b"\r\n\r\n"
        )
        self._connect()

    def _speak(self) -> None:
        assert self._wire is not None and self._messages is not None
        self._stale = self._messages.within
        self._came = 0
        self._send(self._message)

    def on_bytes(self, data: bytes) -> None:
        self._came += len(data)
        if self._came > self._keeper.line.max_body_bytes + _FRAMING_BYTES:
            if self._waiting:
                self._fail("too_large", f"messages over {self._keeper.line.max_body_bytes} bytes")
            else:
                self._drop()
            return
        try:
            if self._messages is None:
                data = self._switched(self._buf + data)
            if self._messages is None or not data:
                return
            for message in self._messages.feed(data):
                if self._wire is None:
                    return
                self._hear(message)
        except Malformed as bad:
            if self._waiting:
                self._fail("protocol", bad.why)
            else:
                self._drop()

    def _switched(self, data: bytes) -> bytes:
        """Read the answer to the opening; what came behind it. Raises Malformed."""
        while True:
            end = cut_head(data)
            if not end:
                self._buf = data
                return b""
            head = self.heads.response(data[:end])
            data = data[end:]
            if not 100 <= head.status < 200 or head.status == _SWITCHED:
                break
        self._buf = b""
        self._status = head.status
        if head.status != _SWITCHED:
            self._fail("status", f"status {head.status} to the opening")
            return b""
        if _field(head.raw, b"sec-websocket-accept") != self._accept:
            raise Malformed("another Sec-WebSocket-Accept than the key asks for")
        if _field(head.raw, b"sec-websocket-extensions"):
            raise Malformed("an extension that was not offered")
        self._messages = ws.Messages()
        self._speak()
        return data

    def _hear(self, message: ws.Message) -> None:
        assert self._wire is not None
        if message.kind == ws.PING:
            self._wire.send(ws.frame(message.payload, ws.PONG))
        elif message.kind == ws.PONG:
            return
        elif message.kind == ws.CLOSE:
            code = ws.close_code(message.payload)
            if self._waiting:
                self._fail("cut", "closed" if code is None else f"closed with {code}")
            else:
                self._drop()
        elif self._stale or not self._waiting:
            self._stale = False
        else:
            self._word(message.payload)

    def _word(self, payload: bytes) -> None:
        if self._first_ns is None:
            self._first_ns = monotonic_ns()
        until = self._plan.until
        if until is None or until.search(payload):
            self._waiting = False
            self._status = None
            self._answered(payload)

    def on_end(self) -> None:
        if self._waiting:
            self._fail("cut", "closed without an answer")
        else:
            self._drop()

    def _drop(self) -> None:
        wire, self._wire = self._wire, None
        self._waiting = False
        if wire is None:
            return
        if self._messages is None:
            wire.abort()
        else:
            wire.send(_GOODBYE)
            wire.close()  # no reset, which would take the goodbye along
        self._messages = None


def _field(raw: bytes, name: bytes) -> bytes:
    """A header field's value; empty: it is not there."""
    for line in raw.split(b"\r\n")[1:]:
        found, colon, value = line.partition(b":")
        if colon and found.strip().lower() == name:
            return value.strip()
    return b""
