"""WebSocket framing (RFC 6455), pure: bytes in, messages out, as a client has it.

1. A client masks what it sends, with a new mask for each frame (5.3). A server does not; a masked frame from one is an error (5.1).
2. Messages may come in several frames, and control frames between them. A control frame has at most 125 bytes and is never in
   pieces (5.5).
3. No extension is offered, so a reserved bit is an error (5.2). Text is UTF-8 (8.1). A length has the shortest form (5.2).
"""

import base64
import hashlib
import random
from typing import Literal, NamedTuple

from drillmaster.http1 import Malformed

__all__ = [
    "BINARY",
    "CLOSE",
    "MESSAGE_CAP_BYTES",
    "PING",
    "PONG",
    "TEXT",
    "Message",
    "Messages",
    "accept_of",
    "close_code",
    "frame",
]

TEXT, BINARY, CLOSE, PING, PONG = 0x1, 0x2, 0x8, 0x9, 0xA
_KINDS = frozenset({TEXT, BINARY, CLOSE, PING, PONG})
_CONTINUATION = 0x0
MESSAGE_CAP_BYTES = 16 << 20
"""A longer message is an error, however many frames it has."""
_GUID = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
_masks = random.SystemRandom()

Kind = Literal[0x1, 0x2, 0x8, 0x9, 0xA]


class Message(NamedTuple):
    """A whole message, or a control frame."""

    kind: int
    payload: bytes


def accept_of(key: bytes) -> bytes:
    """Say what a server answers to a `Sec-WebSocket-Key` (4.2.2)."""
    return base64.b64encode(hashlib.sha1(key + _GUID, usedforsecurity=False).digest())


def frame(payload: bytes, kind: int = TEXT, *, mask: bytes | None = None) -> bytes:
    """Word one final frame, masked as a client has to; `mask` None: a new one that nobody can foresee."""
    size = len(payload)
    if size < 126:
        head = bytes((0x80 | kind, 0x80 | size))
    elif size < 65_536:
        head = bytes((0x80 | kind, 0x80 | 126)) + size.to_bytes(2, "big")
    else:
        head = bytes((0x80 | kind, 0x80 | 127)) + size.to_bytes(8, "big")
    if mask is None:
        mask = _masks.getrandbits(32).to_bytes(4, "big")
    return head + mask + _masked(payload, mask)


def _masked(payload: bytes, mask: bytes) -> bytes:
    size = len(payload)
    if not size:
        return b""
    key = int.from_bytes((mask * (size // 4 + 1))[:size], "big")
    return (int.from_bytes(payload, "big") ^ key).to_bytes(size, "big")


def close_code(payload: bytes) -> int | None:
    """The status code in a close frame (7.1.5); None: it has none. Raises Malformed."""
    if not payload:
        return None
    if len(payload) == 1:
        raise Malformed("a close frame with half a code")
    return int.from_bytes(payload[:2], "big")


class Messages:
    """Reads what a server sends, fed in pieces of any size."""

    def __init__(self) -> None:
        self._buf = bytearray()
        self._wanted = 0
        """So many bytes are there when the frame that has begun is whole; what is fewer is not looked at again."""
        self._kind = 0
        """Of the message whose pieces are coming; 0: none."""
        self._pieces: list[bytes] = []
        self._size = 0

    @property
    def within(self) -> bool:
        """Whether a message, and no mere control frame, has begun and not ended."""
        return bool(self._kind) or (bool(self._buf) and self._buf[0] & 0x0F < CLOSE)

    def feed(self, data: bytes) -> list[Message]:
        """Give all messages and control frames that are whole now. Raises Malformed; nothing can be read after that."""
        buf: bytes | bytearray = data
        if self._buf:
            self._buf += data
            if len(self._buf) < self._wanted:
                return []
            buf = self._buf
        found: list[Message] = []
        at, end = 0, len(buf)
        self._wanted = 0
        while end - at >= 2:
            first, second = buf[at], buf[at + 1]
            if second & 0x80:
                raise Malformed("a masked frame from a server")
            if first & 0x70:
                raise Malformed("a reserved bit, and no extension was agreed on")
            size, body = second, at + 2
            if size >= 126:
                width = 2 if size == 126 else 8
                if end - body < width:
                    break
                size = int.from_bytes(buf[body : body + width], "big")
                body += width
                if size < (126 if width == 2 else 65_536):
                    raise Malformed("a length that is written too long")
            kind, final = first & 0x0F, bool(first & 0x80)
            self._allow(kind, final, size)
            if end - body < size:
                self._wanted = body + size - at
                break
            payload = bytes(buf[body : body + size])
            at = body + size
            if kind >= CLOSE:
                found.append(Message(kind, payload))
                continue
            if kind != _CONTINUATION and final:
                found.append(self._whole(kind, payload))
                continue
            self._kind = self._kind or kind
            self._pieces.append(payload)
            self._size += size
            if final:
                found.append(self._whole(self._kind, b"".join(self._pieces)))
                self._kind, self._pieces, self._size = 0, [], 0
        if buf is self._buf:
            del self._buf[:at]
        else:
            self._buf = bytearray(buf[at:])
        return found

    def _allow(self, kind: int, final: bool, size: int) -> None:
        if kind >= CLOSE:
            if kind not in _KINDS:
                raise Malformed("an opcode that is none")
            if not final or size > 125:
                raise Malformed("a control frame in pieces, or over 125 bytes")
        elif kind == _CONTINUATION:
            if not self._kind:
                raise Malformed("a continuation of nothing")
        elif kind not in _KINDS:
            raise Malformed("an opcode that is none")
        elif self._kind:
            raise Malformed("a new message within another")
        if self._size + size > MESSAGE_CAP_BYTES:
            raise Malformed(f"a message over {MESSAGE_CAP_BYTES >> 20} MB")

    def _whole(self, kind: int, payload: bytes) -> Message:
        if kind == TEXT and not payload.isascii():
            try:
                payload.decode()
            except UnicodeDecodeError:
                raise Malformed("text that is no UTF-8") from None
        return Message(kind, payload)
