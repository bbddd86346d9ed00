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
from collections.abc import Callable, Iterable
from itertools import compress
from operator import ne
from typing import Any, TypeVar

import msgspec

__all__ = [
    "BODYLESS",
    "LAST_CHUNK",
    "MAX_HEAD_BYTES",
    "Answer",
    "Body",
    "ChunkedBody",
    "CloseBody",
    "Frames",
    "HeadReader",
    "LengthBody",
    "Lines",
    "Malformed",
    "RequestHead",
    "ResponseHead",
    "answer_head",
    "chunk",
    "chunked_end",
    "cut_head",
    "has_body",
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
_FIELD = re.compile(rb"(" + _TOKEN + rb"{1,256}+):([^\x00\r\n]*+)")
# Possessive throughout: a hostile head costs one pass, never a backtrack.
_FIELDS = re.compile(rb"(?:" + _TOKEN + rb"{1,256}+:[^\x00\r\n]*+\r\n)*+")
_LENGTH = re.compile(rb"[0-9]{1,18}")
_CHUNK_LINE = re.compile(rb"([0-9A-Fa-f]{1,15})(?:[ \t]*;[^\x00\r\n]*)?")

BODYLESS = frozenset((204, 304))
"""Statuses whose answers have no body, whatever their fields say."""


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
    302: "Found",
    400: "Bad Request",
    401: "Unauthorized",
    402: "Payment Required",
    403: "Forbidden",
    404: "Not Found",
    408: "Request Timeout",
    409: "Conflict",
    413: "Content Too Large",
    422: "Unprocessable Content",
    424: "Failed Dependency",
    425: "Too Early",
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


class RequestLine(msgspec.Struct, frozen=True):
    """A request's first line, cut once and remembered."""

    raw: bytes
    method: str
    target: bytes
    origin_form: bytes
    path: str
    minor: int


class RequestHead:
    """A request's head, cut once. `lines` are the field lines that travel on: no Host, no hop-by-hop field, no framing
    field. Whoever sends it writes those anew.
    """

    __slots__ = (
        "alike",
        "came",
        "chunked",
        "expects",
        "head_bytes",
        "host",
        "keep_alive",
        "length",
        "line",
        "lines",
        "memo",
        "named",
        "upgrade",
    )

    line: RequestLine
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
    """The end-to-end fields that the reader was asked to keep by name, in lower case; the first of each."""
    head_bytes: int
    memo: Any
    """Room for what somebody found out from first line, Host and the named fields that are not fresh (`HeadReader`). None:
    nothing yet. The next head of a connection has it from the one before, where it is the same in all of that."""
    came: list[bytes]
    """All lines as they came, for the next head of the connection; empty where that must be read by itself."""
    alike: "_Alike | None"

    @property
    def method(self) -> str:
        return self.line.method

    @property
    def target(self) -> bytes:
        """As it was sent."""
        return self.line.target

    @property
    def origin_form(self) -> bytes:
        """Path and query. An absolute-form target loses scheme and authority; `*` stays."""
        return self.line.origin_form

    @property
    def path(self) -> str:
        """Without query."""
        return self.line.path

    @property
    def minor(self) -> int:
        """Of the version: HTTP/1.`minor`."""
        return self.line.minor


class ResponseHead:
    """A response's head. `lines` are what travels on, Content-Length included. It is never changed: see `HeadReader`."""

    __slots__ = (
        "alike",
        "came",
        "chunked",
        "content_encoding",
        "content_type",
        "keep_alive",
        "length",
        "lines",
        "minor",
        "opening",
        "raw",
        "reason",
        "status",
        "upgrade",
    )

    minor: int
    status: int
    reason: bytes
    opening: bytes
    """The status line as we send it on: of HTTP/1.1, with the reason that was given."""
    lines: list[bytes]
    length: int | None
    chunked: bool
    keep_alive: bool
    content_type: bytes
    """In lower case, parameters included; empty where there is none."""
    content_encoding: bytes
    upgrade: bytes | None
    raw: bytes
    """The head as it came."""
    came: list[bytes]
    alike: "_Alike | None"


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
_ORDINARY = 0
_HOP = 1
_CONNECTION = 2
_LENGTH_FIELD = 3
_CODING = 4
_HOST = 5
_EXPECT = 6
_UPGRADE = 7
_TYPE = 8
_ENCODING = 9
_KEPT = 10
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

_Read = TypeVar("_Read")
_Field = tuple[int, bytes, int, bytes]
"""Kind, value, of a Content-Length the number, and the line."""
_Options = tuple[bool, bool, bool, frozenset[bytes]]
"""What Connection says: the connection stays, and in HTTP/1.0, it upgrades, and fields that end at this hop."""
_Place = tuple[int, bytes, int]
"""Of a line whose value may be another in the next head: its kind, its beginning up to the colon, its place in `lines` or -1."""


class _Alike:
    """What the heads have in common that follow each other on a connection and differ in values only."""

    __slots__ = ("differ", "places")

    def __init__(self, places: list[_Place | None]) -> None:
        self.places = places
        """Line by line; None: where it differs, the head has to be read."""
        self.differ: list[int] = []
        """Which lines did, the last time that others did than before."""


_MEMO_LINES = 2_048
_MEMO_LINE_BYTES = 512


class _Lines(dict[bytes, _Field | None]):
    """What each line says to the hop, None where it only travels on. A line that is not here is read, and then is."""

    __slots__ = ("_kinds", "_names", "kept")

    def __init__(self, kinds: dict[bytes, int]) -> None:
        super().__init__()
        self._kinds = kinds
        self._names: dict[bytes, bytes] = {}
        """Names that are fields' names, as they are written, and in lower case."""
        self.kept: dict[bytes, tuple[bytes, bytes]] = {}
        """Name and value of the lines here that were asked for by name."""

    def __missing__(self, line: bytes) -> _Field | None:
        written, colon, value = line.partition(b":")
        name = self._names.get(written)
        if name is None or not colon or len(value.translate(None, b"\x00\r\n")) != len(value):
            if _FIELD.fullmatch(line) is None:
                raise Malformed("bad field line")
            name = written.lower()
            if len(self._names) < _MEMO_LINES:
                self._names[written] = name
        value = value.strip(b" \t")
        kind = self._kinds.get(name, _ORDINARY)
        number = 0
        if kind in (_TYPE, _ENCODING):
            value = value.lower()
        elif kind == _LENGTH_FIELD:
            if _LENGTH.fullmatch(value) is None:
                raise Malformed("bad Content-Length")
            number = int(value)
        field = (kind, value, number, line) if kind else None
        if len(line) > _MEMO_LINE_BYTES:
            return field
        if kind == _KEPT:
            self.kept[line] = (name, value)
            field = None
        self[line] = field
        return field

    def forget(self) -> None:
        """Begin anew. Never within a head, whose lines are looked up twice."""
        self.clear()
        self.kept.clear()
        self._names.clear()

    def named(self, lines: list[bytes]) -> dict[bytes, bytes]:
        """What was asked for by name, where some line is too long to be remembered."""
        named: dict[bytes, bytes] = {}
        for line in lines:
            name, _, value = line.partition(b":")
            name = name.lower()
            if self._kinds.get(name) == _KEPT and name not in named:
                named[name] = value.strip(b" \t")
        return named


class HeadReader:
    """Reads heads, and remembers lines: on one connection, and across those of one client, most are the same each time.

    What is remembered is bounded, in lines and in their length, and forgotten as a whole when it is full. A head is cut at
    its line ends and looked up as a whole, line by line in C; Python sees only the few fields that say something to the hop.

    Given the head before it on the same connection (`last`), only those lines are read that are not the same, as long as
    they are fields of the same names that say nothing to the hop but how long the body is: a trace, an id, a date.
    """

    __slots__ = ("_fresh", "_kinds", "_lines", "_look_up", "_look_up_kept", "_options", "_starts", "_statuses")

    def __init__(
        self, keep: frozenset[bytes] = frozenset(), *, fresh: frozenset[bytes] = frozenset(), response: bool = False
    ) -> None:
        """`keep` names, in lower case, the fields wanted in `RequestHead.named`; `fresh` those that are others each time."""
        self._kinds = {**dict.fromkeys(keep, _KEPT), **(_RESPONSE_KIND if response else _REQUEST_KIND)}
        self._fresh = fresh
        self._lines = _Lines(self._kinds)
        self._look_up: Callable[[bytes], _Field | None] = self._lines.__getitem__
        self._look_up_kept = self._lines.kept.get
        self._starts: dict[bytes, RequestLine] = {}
        self._statuses: dict[bytes, tuple[int, int, bytes, bytes]] = {}
        self._options: dict[bytes, _Options] = {}

    def _start(self, line: bytes) -> RequestLine:
        match = _REQUEST_LINE.fullmatch(line)
        if match is None:
            raise Malformed("bad request line")
        method, target, minor = match.groups()
        if target[:1] != b"/" and target != b"*" and b"://" not in target and method != b"CONNECT":
            raise Malformed("bad request target")
        form = _origin_form(target)
        path = form.partition(b"?")[0].decode("latin-1")
        start = RequestLine(line, method.decode("ascii"), target, form, path, 1 if minor == b"1" else 0)
        if len(line) <= _MEMO_LINE_BYTES:
            _remember(self._starts, line, start)
        return start

    def _status(self, line: bytes) -> tuple[int, int, bytes, bytes]:
        match = _STATUS_LINE.fullmatch(line)
        if match is None:
            raise Malformed("bad status line")
        number, reason = int(match[2]), match[3] or b""
        status = (1 if match[1] == b"1" else 0, number, reason, b"HTTP/1.1 %d %b" % (number, reason))
        if len(line) <= _MEMO_LINE_BYTES:
            _remember(self._statuses, line, status)
        return status

    def _read_options(self, options: bytes) -> _Options:
        words = frozenset(word.strip(b" \t").lower() for word in options.split(b","))
        closes = b"close" in words
        read = (not closes, b"keep-alive" in words and not closes, b"upgrade" in words, words - _PLAIN_OPTIONS)
        if len(options) <= _MEMO_LINE_BYTES:
            _remember(self._options, options, read)
        return read

    def _places_of(self, came: list[bytes], lines: list[bytes]) -> "list[_Place | None]":
        """Which lines of a head may be others in the next one. `lines` are those of `came` that travel."""
        places: list[_Place | None] = [None]  # the first line
        at = 0
        seen = set()
        for line in came[1:]:
            written = line.partition(b":")[0]
            name = written.lower()
            kind = self._kinds.get(name, _ORDINARY)
            if kind == _KEPT and name in seen:
                kind = _ORDINARY
            seen.add(name)
            travels = at < len(lines) and lines[at] == line
            can_differ = kind in (_ORDINARY, _KEPT, _LENGTH_FIELD)
            places.append((kind, written + b":", at if travels else -1) if can_differ else None)
            at += travels
        return places

    def _again(
        self, came: list[bytes], last: RequestHead | ResponseHead
    ) -> tuple[list[bytes], int | None, dict[bytes, bytes]] | None:
        """What a head has of its own: the lines that travel, its Content-Length, the named fields that are others now.

        None: it differs from the last one in more than values, and has to be read.
        """
        before, alike = last.came, last.alike
        if len(came) != len(before):
            return None
        if alike is None:
            alike = last.alike = _Alike(self._places_of(before, last.lines))
        # Heads differ where they did before: then one comparison sees that they do not anywhere else.
        rest = came.copy()
        for i in alike.differ:
            rest[i] = before[i]
        if rest != before:
            alike.differ = [*compress(range(len(came)), map(ne, came, before))]
        lines, length, others = last.lines.copy(), last.length, {}
        for i in alike.differ:
            place, line = alike.places[i], came[i]
            if place is None:
                return None
            kind, beginning, at = place
            if not line.startswith(beginning) or 13 in line or 10 in line or 0 in line:  # CR, LF, NUL
                return None
            if kind:
                value = line[len(beginning) :].strip(b" \t")
                if kind == _KEPT:
                    others[beginning[:-1].lower()] = value
                elif _LENGTH.fullmatch(value) is None:
                    return None
                else:
                    length = int(value)
            if at >= 0:
                lines[at] = line
        return lines, length, others

    def request(self, head: bytes, last: RequestHead | None = None) -> RequestHead:
        """Read one whole request head, its blank line included. Raises Malformed."""
        lines = head[:-4].split(b"\r\n")
        request = RequestHead()
        if last is not None and (again := self._again(lines, last)) is not None:
            request.lines, request.length, others = again
            request.named, request.memo = last.named, last.memo
            if others:
                request.named = {**last.named, **others}
                if not others.keys() <= self._fresh:
                    request.memo = None
            request.line, request.host, request.chunked = last.line, last.host, last.chunked
            request.keep_alive, request.expects, request.upgrade = last.keep_alive, last.expects, last.upgrade
            request.came, request.alike, request.head_bytes = lines, last.alike, len(head)
            return request
        came = lines.copy()
        first = lines.pop(0)
        request.line = self._starts.get(first) or self._start(first)
        request.head_bytes = len(head)
        request.host = request.length = request.upgrade = request.memo = request.alike = None
        request.chunked = request.expects = False
        if len(self._lines) > _MEMO_LINES:
            self._lines.forget()
        fields = [*filter(None, map(self._look_up, lines))]
        # From the last to the first: of several of one name the first is it.
        request.named = dict(filter(None, map(self._look_up_kept, reversed(lines))))
        request.lines = lines
        request.keep_alive = True
        host: bytes | None = None
        length: int | None = None
        upgrade: bytes | None = None
        options: bytes | None = None
        for kind, value, number, line in fields:
            if kind == _LENGTH_FIELD:
                if length is not None:
                    raise Malformed("several Content-Length fields")
                request.length = length = number
                lines.remove(line)
            elif kind == _HOST:
                if host is not None:
                    raise Malformed("several Host fields")
                request.host = host = value
                lines.remove(line)
            elif kind == _CONNECTION:
                options = value if options is None else options + b"," + value
                lines.remove(line)
            elif kind == _KEPT:
                request.named = self._lines.named(lines)
            elif kind == _EXPECT:
                request.expects = value.lower() == b"100-continue"
            else:
                lines.remove(line)
                if kind == _CODING:
                    if request.chunked or value.lower() != b"chunked":
                        raise Malformed("transfer coding other than chunked")
                    request.chunked = True
                elif kind == _UPGRADE:
                    upgrade = value
        if length is not None and request.chunked:
            raise Malformed("both Content-Length and Transfer-Encoding")
        minor = request.line.minor
        if not minor:
            if request.chunked:
                raise Malformed("transfer coding in HTTP/1.0")
            request.expects = request.keep_alive = False
        elif host is None:
            raise Malformed("no Host field")
        if options is not None:
            stays, stays_old, upgrades, nominated = self._options.get(options) or self._read_options(options)
            request.keep_alive = stays if minor else stays_old
            if upgrades:
                request.upgrade = upgrade
            if nominated:
                request.lines = _less_nominated(lines, nominated)
        # What waits or upgrades is changed by whoever grants it.
        request.came = [] if request.expects or request.upgrade is not None else came
        return request

    def response(self, head: bytes, last: ResponseHead | None = None) -> ResponseHead:
        """Read one whole response head, its blank line included. Raises Malformed."""
        if last is not None and last.raw == head:
            return last
        lines = head[:-4].split(b"\r\n")
        response = ResponseHead()
        if last is not None and (again := self._again(lines, last)) is not None:
            response.lines, response.length, _ = again
            response.minor, response.status, response.reason = last.minor, last.status, last.reason
            response.opening, response.chunked, response.keep_alive = last.opening, last.chunked, last.keep_alive
            response.content_type, response.content_encoding = last.content_type, last.content_encoding
            response.upgrade, response.raw, response.came, response.alike = last.upgrade, head, lines, last.alike
            return response
        came = lines.copy()
        first = lines.pop(0)
        minor, response.status, response.reason, response.opening = self._statuses.get(first) or self._status(first)
        response.minor, response.raw, response.came, response.alike = minor, head, came, None
        response.length = response.upgrade = None
        response.chunked = False
        response.content_type = response.content_encoding = b""
        length: int | None = None
        options: bytes | None = None
        response.lines = lines
        response.keep_alive = minor == 1
        if len(self._lines) > _MEMO_LINES:
            self._lines.forget()
        for kind, value, number, line in [*filter(None, map(self._look_up, lines))]:
            if kind == _LENGTH_FIELD:
                if length is not None:
                    raise Malformed("several Content-Length fields")
                response.length = length = number
            elif kind == _TYPE:
                response.content_type = value
            elif kind == _CONNECTION:
                options = value if options is None else options + b"," + value
                lines.remove(line)
            elif kind == _ENCODING:
                response.content_encoding = value
            else:
                lines.remove(line)
                if kind == _CODING:
                    if response.chunked or value.lower() != b"chunked":
                        raise Malformed("transfer coding other than chunked")
                    response.chunked = True
                elif kind == _UPGRADE:
                    response.upgrade = value
        if length is not None and response.chunked:
            raise Malformed("both Content-Length and Transfer-Encoding")
        if options is not None:
            stays, stays_old, _, nominated = self._options.get(options) or self._read_options(options)
            response.keep_alive = stays if minor else stays_old
            if nominated:
                response.lines = _less_nominated(lines, nominated)
        return response


def _remember(known: dict[bytes, _Read], line: bytes, read: _Read) -> None:
    if len(known) >= _MEMO_LINES:
        known.clear()
    known[line] = read


def _origin_form(target: bytes) -> bytes:
    if target[:1] == b"/" or target == b"*":
        return target
    rest = target.partition(b"://")[2]
    slash = re.search(rb"[/?]", rest)
    if slash is None:
        return b"/"
    return rest[slash.start() :] if slash[0] == b"/" else b"/" + rest[slash.start() :]


_PLAIN_OPTIONS = frozenset((b"close", b"keep-alive", b"upgrade", b"te", b""))


def _less_nominated(lines: list[bytes], nominated: frozenset[bytes]) -> list[bytes]:
    """Drop the fields that the Connection field names: they were meant for this hop alone."""
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
        elif self._state == 0 and data[-2:] == b"\r\n":  # one whole chunk, as most that carry a word
            line = data.find(b"\r\n", 0, MAX_CHUNK_LINE_BYTES)
            length = len(data) - line - 4
            if length > 0 and data[:line] == b"%x" % length:
                return data[line + 2 : -2]
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
        if b"\r" in data:
            while match := _BLANK_LINE.search(data, at):
                frames.append(data[at : match.end()])
                at = match.end()
        else:
            while (end := data.find(b"\n\n", at)) >= 0:
                frames.append(data[at : end + 2])
                at = end + 2
        self._held = data[at:]
        if len(self._held) > MAX_FRAME_BYTES:
            raise Malformed("event too large")
        return frames

    def rest(self) -> bytes:
        """What has begun and has no blank line yet."""
        return self._held


class Lines(Frames):
    """The same for a stream of JSON lines: a frame is a line with its line feed."""

    __slots__ = ()

    def feed(self, data: bytes) -> list[bytes]:
        """The lines that are whole now. Raises Malformed when one grows over `MAX_FRAME_BYTES`."""
        *lines, self._held = (self._held + data).split(b"\n")
        if len(self._held) > MAX_FRAME_BYTES:
            raise Malformed("event too large")
        return [line + b"\n" for line in lines]
