"""HTTP/1.1 framing as pure functions over bytes: heads, bodies, server-sent events. No socket, no clock.

1. A message means one thing or it is refused (`Malformed`): both Content-Length and Transfer-Encoding, several
   Content-Lengths, a coding other than `chunked`, folded lines, a bare LF or NUL, a space before the colon, a chunk
   size that is no plain hexadecimal number, a head over `MAX_HEAD_BYTES`. Whoever guesses here can be made to see a
   different request than the next hop does (RFC 9112, 11.2).
2. Any cutting of the same bytes into pieces gives the same answer.
3. Hop-by-hop fields end at the hop (RFC 9110, 7.6.1); all other field lines travel on byte for byte, in their order.
4. Without Content-Length and Transfer-Encoding a request has no body, and a response ends with the connection
   (RFC 9112, 6.3). HEAD, 1xx, 204 and 304 have no body whatever their fields say.
"""

import re
from collections.abc import Iterable

import msgspec

__all__ = [
    "LAST_CHUNK",
    "MAX_HEAD_BYTES",
    "Answer",
    "Body",
    "ChunkedBody",
    "CloseBody",
    "Frames",
    "LengthBody",
    "Malformed",
    "RequestHead",
    "ResponseHead",
    "answer_head",
    "chunk",
    "chunked_end",
    "cut_head",
    "read_request",
    "read_response",
    "request_body",
    "response_body",
]

MAX_HEAD_BYTES = 65_536
MAX_CHUNK_LINE_BYTES = 1_024
MAX_TRAILER_BYTES = 16_384
MAX_FRAME_BYTES = 1_048_576
LAST_CHUNK = b"0\r\n\r\n"

_TOKEN = rb"[!#$%&'*+\-.^_`|~0-9A-Za-z]"
_REQUEST_LINE = re.compile(rb"(" + _TOKEN + rb"{1,32}) ([\x21-\x7e\x80-\xff]{1,16384}) HTTP/1\.([01])")
_STATUS_LINE = re.compile(rb"HTTP/1\.([01]) ([1-9][0-9]{2})(?: ([^\x00\r\n]*))?")
# Possessive throughout: a hostile head costs one pass, never a backtrack.
_FIELDS = re.compile(rb"(?:" + _TOKEN + rb"{1,256}+:[^\x00\r\n]*+\r\n)*+")
_LENGTH = re.compile(rb"[0-9]{1,18}")
_CHUNK_LINE = re.compile(rb"([0-9A-Fa-f]{1,15})(?:[ \t]*;[^\x00\r\n]*)?")

_BODYLESS = frozenset((204, 304))


class Malformed(Exception):
    """Bytes that are no message, or that two readers could read differently. `why` is short and quotes no input."""

    def __init__(self, why: str) -> None:
        super().__init__(why)
        self.why = why


class Answer(msgspec.Struct, frozen=True):
    """A whole answer as some provider words it. `source` says where that wording is documented or was seen."""

    status: int
    headers: tuple[tuple[str, str], ...]
    """Without Content-Length: whoever sends the answer frames it."""
    body: bytes
    source: str


_REASONS = {
    200: "OK",
    204: "No Content",
    400: "Bad Request",
    401: "Unauthorized",
    402: "Payment Required",
    403: "Forbidden",
    404: "Not Found",
    408: "Request Timeout",
    409: "Conflict",
    413: "Content Too Large",
    429: "Too Many Requests",
    500: "Internal Server Error",
    501: "Not Implemented",
    502: "Bad Gateway",
    503: "Service Unavailable",
    504: "Gateway Timeout",
    507: "Insufficient Storage",
    529: "Overloaded",
}


def answer_head(status: int, fields: Iterable[tuple[str, str]], reason: str | None = None) -> bytes:
    """Write a response's head, blank line included. Raises UnicodeEncodeError for a field that is not Latin-1."""
    lines = [f"HTTP/1.1 {status} {_REASONS.get(status, '') if reason is None else reason}"]
    lines += [f"{name}: {value}" for name, value in fields]
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")


class RequestHead:
    """A request's head, cut once. `lines` are the field lines that travel on: no Host, no hop-by-hop field, no framing
    field. Whoever sends it writes those anew."""

    __slots__ = (
        "chunked",
        "expects",
        "head_bytes",
        "host",
        "keep_alive",
        "length",
        "lines",
        "method",
        "minor",
        "named",
        "target",
        "upgrade",
    )

    method: str
    target: bytes
    minor: int
    """Of the version: HTTP/1.`minor`."""
    lines: list[bytes]
    host: bytes | None
    length: int | None
    """Content-Length; None where there is none."""
    chunked: bool
    keep_alive: bool
    expects: bool
    """Waits for `100 Continue` before it sends the body."""
    upgrade: bytes | None
    named: dict[bytes, bytes]
    """The end-to-end fields that `read_request` was asked to keep by name, in lower case; the first of each."""
    head_bytes: int

    @property
    def path(self) -> str:
        """The target's path, without query and without an absolute form's scheme and host."""
        return self.origin_form.partition(b"?")[0].decode("latin-1")

    @property
    def origin_form(self) -> bytes:
        """Path and query. An absolute-form target loses scheme and authority; `*` stays."""
        target = self.target
        if target[:1] == b"/" or target == b"*":
            return target
        rest = target.partition(b"://")[2]
        slash = re.search(rb"[/?]", rest)
        if slash is None:
            return b"/"
        return rest[slash.start() :] if slash[0] == b"/" else b"/" + rest[slash.start() :]


class ResponseHead:
    """A response's head. `lines` are what travels on, Content-Length included."""

    __slots__ = (
        "chunked",
        "content_encoding",
        "content_type",
        "keep_alive",
        "length",
        "lines",
        "minor",
        "reason",
        "status",
        "upgrade",
    )

    minor: int
    status: int
    reason: bytes
    lines: list[bytes]
    length: int | None
    chunked: bool
    keep_alive: bool
    content_type: bytes
    """In lower case, parameters included; empty where there is none."""
    content_encoding: bytes
    upgrade: bytes | None


def cut_head(data: bytes) -> int:
    """Where the head at the start of `data` ends, its blank line included; 0 while it is incomplete.

    Raises Malformed for a head that is too long, or that already holds a line end which is not CRLF.
    """
    end = data.find(b"\r\n\r\n", 0, MAX_HEAD_BYTES)
    if end >= 0:
        return end + 4
    if len(data) >= MAX_HEAD_BYTES:
        raise Malformed("head too large")
    at = data.find(b"\n")
    while at >= 0:
        if at == 0 or data[at - 1] != 13:
            raise Malformed("bare line feed")
        at = data.find(b"\n", at + 1)
    return 0


# What a field of this name means for framing and for the hop. Names that are absent travel on.
_HOP = 1
_CONNECTION = 2
_LENGTH_FIELD = 3
_CODING = 4
_HOST = 5
_EXPECT = 6
_UPGRADE = 7
_TYPE = 8
_ENCODING = 9
_KIND: dict[bytes, int] = {
    b"connection": _CONNECTION,
    b"proxy-connection": _CONNECTION,
    b"keep-alive": _HOP,
    b"te": _HOP,
    b"transfer-encoding": _CODING,
    b"upgrade": _UPGRADE,
    b"content-length": _LENGTH_FIELD,
}
_REQUEST_KIND = {**_KIND, b"host": _HOST, b"expect": _EXPECT}
_RESPONSE_KIND = {**_KIND, b"content-type": _TYPE, b"content-encoding": _ENCODING}


def read_request(head: bytes, keep: frozenset[bytes] = frozenset()) -> RequestHead:
    """Read one whole head, its blank line included. `keep` names (lower case) the fields wanted in `named`.

    Raises Malformed.
    """
    line_end = head.index(b"\r\n")
    first = _REQUEST_LINE.fullmatch(head, 0, line_end)
    if first is None:
        raise Malformed("bad request line")
    if _FIELDS.fullmatch(head, line_end + 2, len(head) - 2) is None:
        raise Malformed("bad field line")
    request = RequestHead()
    method, request.target, minor = first.groups()
    request.method = method.decode("ascii")
    request.minor = 1 if minor == b"1" else 0
    request.head_bytes = len(head)
    request.host = request.length = request.upgrade = None
    request.chunked = request.expects = False
    named: dict[bytes, bytes] = {}
    lines: list[bytes] = []
    options = b""
    block = head[line_end + 2 : -4]
    for line in block.split(b"\r\n") if block else ():
        name, _, value = line.partition(b":")
        name = name.lower()
        kind = _REQUEST_KIND.get(name)
        if kind is None:
            lines.append(line)
            if name in keep and name not in named:
                named[name] = value.strip(b" \t")
            continue
        value = value.strip(b" \t")
        if kind == _LENGTH_FIELD:
            request.length = _content_length(value, request.length)
        elif kind == _HOST:
            if request.host is not None:
                raise Malformed("several Host fields")
            request.host = value
        elif kind == _CONNECTION:
            options = options + b"," + value if options else value
        elif kind == _CODING:
            if request.chunked or value.lower() != b"chunked":
                raise Malformed("transfer coding other than chunked")
            if not request.minor:
                raise Malformed("transfer coding in HTTP/1.0")
            request.chunked = True
        elif kind == _EXPECT:
            if value.lower() == b"100-continue":
                request.expects = bool(request.minor)
            lines.append(line)
        elif kind == _UPGRADE:
            request.upgrade = value
    if request.chunked and request.length is not None:
        raise Malformed("both Content-Length and Transfer-Encoding")
    if request.host is None and request.minor:
        raise Malformed("no Host field")
    target = request.target
    if target[:1] != b"/" and target != b"*" and b"://" not in target and request.method != "CONNECT":
        raise Malformed("bad request target")
    words = _options(options) if options else ()
    request.keep_alive = b"close" not in words and (bool(request.minor) or b"keep-alive" in words)
    if b"upgrade" not in words:
        request.upgrade = None
    request.lines = _less_nominated(lines, words) if words else lines
    request.named = named
    return request


def read_response(head: bytes) -> ResponseHead:
    """Read one whole head, its blank line included. Raises Malformed."""
    line_end = head.index(b"\r\n")
    first = _STATUS_LINE.fullmatch(head, 0, line_end)
    if first is None:
        raise Malformed("bad status line")
    if _FIELDS.fullmatch(head, line_end + 2, len(head) - 2) is None:
        raise Malformed("bad field line")
    response = ResponseHead()
    minor, status, reason = first.groups()
    response.minor = 1 if minor == b"1" else 0
    response.status = int(status)
    response.reason = reason or b""
    response.length = response.upgrade = None
    response.chunked = False
    response.content_type = response.content_encoding = b""
    lines: list[bytes] = []
    options = b""
    block = head[line_end + 2 : -4]
    for line in block.split(b"\r\n") if block else ():
        name, _, value = line.partition(b":")
        kind = _RESPONSE_KIND.get(name.lower())
        if kind is None:
            lines.append(line)
            continue
        value = value.strip(b" \t")
        if kind == _LENGTH_FIELD:
            response.length = _content_length(value, response.length)
            lines.append(line)
        elif kind == _TYPE:
            response.content_type = value.lower()
            lines.append(line)
        elif kind == _ENCODING:
            response.content_encoding = value.lower()
            lines.append(line)
        elif kind == _CONNECTION:
            options = options + b"," + value if options else value
        elif kind == _CODING:
            if response.chunked or value.lower() != b"chunked":
                raise Malformed("transfer coding other than chunked")
            response.chunked = True
        elif kind == _UPGRADE:
            response.upgrade = value
    if response.chunked and response.length is not None:
        raise Malformed("both Content-Length and Transfer-Encoding")
    words = _options(options) if options else ()
    response.keep_alive = b"close" not in words and (bool(response.minor) or b"keep-alive" in words)
    response.lines = _less_nominated(lines, words) if words else lines
    return response


def _content_length(value: bytes, before: int | None) -> int:
    if before is not None:
        raise Malformed("several Content-Length fields")
    if _LENGTH.fullmatch(value) is None:
        raise Malformed("bad Content-Length")
    return int(value)


def _options(value: bytes) -> tuple[bytes, ...]:
    return tuple(word.strip(b" \t").lower() for word in value.split(b","))


_PLAIN_OPTIONS = frozenset((b"close", b"keep-alive", b"upgrade", b"te", b""))


def _less_nominated(lines: list[bytes], words: tuple[bytes, ...]) -> list[bytes]:
    """Drop the fields that the Connection field names: they were meant for this hop alone."""
    nominated = frozenset(words) - _PLAIN_OPTIONS
    if not nominated:
        return lines
    return [line for line in lines if line.partition(b":")[0].lower() not in nominated]


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
                if _FIELDS.fullmatch(data, at, end + 2) is None:
                    raise Malformed("bad trailer line")
                self.trailers = [
                    line
                    for line in data[at:end].split(b"\r\n")
                    # A trailer may not change how the message is framed or routed (RFC 9110, 6.5.1).
                    if line.partition(b":")[0].lower() not in _REQUEST_KIND
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


def response_body(head: ResponseHead, method: str) -> Body:
    """The reader for the body of the answer to a request with this method."""
    if method == "HEAD" or head.status in _BODYLESS or head.status < 200:
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


# Two line ends in a row. Atomic: CRLF is one line end, never a CR and a LF. A CR at the very end waits for more.
_BLANK_LINE = re.compile(rb"(?>\r\n|\n|\r)(?>\r\n|\n|\r(?!\n|\Z))")


class Frames:
    """Cut a stream of server-sent events into frames, each with its blank line (WHATWG HTML, 9.2.5)."""

    __slots__ = ("_held",)

    def __init__(self) -> None:
        self._held = b""

    def feed(self, data: bytes) -> list[bytes]:
        """The frames that are whole now. Raises Malformed when one grows over `MAX_FRAME_BYTES`."""
        data = self._held + data
        frames: list[bytes] = []
        at = 0
        while match := _BLANK_LINE.search(data, at):
            frames.append(data[at : match.end()])
            at = match.end()
        self._held = data[at:]
        if len(self._held) > MAX_FRAME_BYTES:
            raise Malformed("event too large")
        return frames

    def rest(self) -> bytes:
        """What has begun and has no blank line yet."""
        return self._held
