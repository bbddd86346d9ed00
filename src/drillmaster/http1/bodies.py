"""Read bodies by their framing, and write chunks."""

import re
from functools import lru_cache

from drillmaster.http1.heads import FIELDS, REQUEST_KIND
from drillmaster.http1.shapes import BODYLESS, Malformed, RequestHead, ResponseHead

__all__ = [
    "LAST_CHUNK",
    "Body",
    "ChunkedBody",
    "CloseBody",
    "LengthBody",
    "chunk",
    "chunked_end",
    "has_body",
    "request_body",
    "response_body",
]

MAX_CHUNK_LINE_BYTES = 1_024
MAX_TRAILER_BYTES = 16_384
LAST_CHUNK = b"0\r\n\r\n"
_CHUNK_LINE = re.compile(rb"([0-9A-Fa-f]{1,15})(?:[ \t]*;[^\x00\r\n]*)?")


class LengthBody:
    """A body of a stated number of bytes."""

    __slots__ = ("done", "left_bytes", "rest")

    def __init__(self, length_bytes: int) -> None:
        self.left_bytes = length_bytes
        self.done = not length_bytes
        self.rest = b""
        """What came after the body's end: the next message."""

    def feed(self, data: bytes) -> bytes:
        """Take bytes off the wire, give the body's. Not to be called once `done`."""
        size = len(data)
        if size < self.left_bytes:
            self.left_bytes -= size
            return data
        self.done = True
        if size > self.left_bytes:
            self.rest = data[self.left_bytes :]
            data = data[: self.left_bytes]
        self.left_bytes = 0
        return data

    def end(self) -> bool:
        """The sender closed; True when the body was whole."""
        return self.done


class CloseBody:
    """A body that ends where the connection does."""

    __slots__ = ("done", "rest")

    def __init__(self) -> None:
        self.done = False
        self.rest = b""

    def feed(self, data: bytes) -> bytes:
        return data

    def end(self) -> bool:
        self.done = True
        return True


@lru_cache(maxsize=4_096)
def _line_of_whole(size: int) -> bytes:
    """The size line of a chunk that takes so many bytes with its line ends, as most write it; empty: there is no such size."""
    for digits in range(1, 9):
        length = size - digits - 4
        if length > 0 and len(line := b"%x\r\n" % length) == digits + 2:
            return line
    return b""


class ChunkedBody:
    """A chunked body. Extensions are dropped; `trailers` holds the trailer's field lines once `done`."""

    __slots__ = ("_data_left", "_held", "_state", "done", "rest", "trailers")

    def __init__(self) -> None:
        self.done = False
        self.rest = b""
        self.trailers: list[bytes] = []
        self._held = b""
        self._data_left = 0
        self._state = 0  # 0 size line, 1 data, 2 the line end behind data, 3 trailer

    def feed(self, data: bytes) -> bytes:
        """Take bytes off the wire, give the body's. Raises Malformed. Not to be called once `done`."""
        if self._held:
            data = self._held + data
            self._held = b""
        elif self._state == 0:  # one whole chunk, as most that carry a word
            line = _line_of_whole(len(data))
            if line and data.startswith(line) and data.endswith(b"\r\n"):
                return data[len(line) : -2]
        at, size = 0, len(data)
        out: list[bytes] = []
        while at < size:
            if self._state == 1:
                piece = data[at : at + self._data_left]
                out.append(piece)
                at += len(piece)
                self._data_left -= len(piece)
                if self._data_left:
                    break
                self._state = 2
            elif self._state == 2:
                if size - at < 2:
                    if data[at] != 13:
                        raise Malformed("chunk data not followed by CRLF")
                    self._held = data[at:]
                    break
                if data[at : at + 2] != b"\r\n":
                    raise Malformed("chunk data not followed by CRLF")
                at += 2
                self._state = 0
            elif self._state == 0:
                end = data.find(b"\r\n", at, at + MAX_CHUNK_LINE_BYTES)
                if end < 0:
                    self._hold_line(data, at, size)
                    break
                match = _CHUNK_LINE.fullmatch(data, at, end)
                if match is None:
                    raise Malformed("bad chunk size")
                self._data_left = int(match[1], 16)
                at = end + 2
                self._state = 1 if self._data_left else 3
            else:
                if data[at : at + 2] == b"\r\n":
                    self.done = True
                    self.rest = data[at + 2 :]
                    break
                end = data.find(b"\r\n\r\n", at, at + MAX_TRAILER_BYTES)
                if end < 0:
                    if size - at >= MAX_TRAILER_BYTES:
                        raise Malformed("trailer too large")
                    self._held = data[at:]
                    break
                if FIELDS.fullmatch(data, at, end + 2) is None:
                    raise Malformed("bad trailer line")
                self.trailers = [
                    line
                    for line in data[at:end].split(b"\r\n")
                    # A trailer may not change how the message is framed or routed (RFC 9110, 6.5.1).
                    if line.partition(b":")[0].lower() not in REQUEST_KIND
                ]
                self.done = True
                self.rest = data[end + 4 :]
                break
        return out[0] if len(out) == 1 else b"".join(out)

    def _hold_line(self, data: bytes, at: int, size: int) -> None:
        if size - at >= MAX_CHUNK_LINE_BYTES:
            raise Malformed("chunk size line too long")
        line = data[at:]
        # A CR may wait for its LF; anything else that looks like a line end never becomes one.
        if b"\n" in line or b"\r" in line[:-1] or b"\x00" in line:
            raise Malformed("bad chunk size")
        self._held = line

    def end(self) -> bool:
        return self.done


Body = LengthBody | CloseBody | ChunkedBody


def request_body(head: RequestHead) -> LengthBody | ChunkedBody:
    """The reader for this request's body."""
    return ChunkedBody() if head.chunked else LengthBody(head.length or 0)


def has_body(head: ResponseHead, method: str) -> bool:
    """Whether the answer to a request with this method has a body, which may be of no bytes."""
    return not (method == "HEAD" or head.status in BODYLESS or head.status < 200)


def response_body(head: ResponseHead, method: str) -> Body:
    """The reader for the body of the answer to a request with this method."""
    if not has_body(head, method):
        return LengthBody(0)
    if head.chunked:
        return ChunkedBody()
    return CloseBody() if head.length is None else LengthBody(head.length)


def chunk(data: bytes) -> bytes:
    """Frame `data`, which is not empty, as one chunk."""
    return b"%x\r\n%b\r\n" % (len(data), data)


def chunked_end(trailers: list[bytes]) -> bytes:
    """The end of a chunked body."""
    if not trailers:
        return LAST_CHUNK
    return b"0\r\n" + b"\r\n".join(trailers) + b"\r\n\r\n"
