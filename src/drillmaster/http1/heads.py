"""Read heads, and write an answer's."""

import re
from collections.abc import Callable, Iterable
from itertools import compress
from operator import ne
from typing import TypeVar

from drillmaster.http1.shapes import MAX_HEAD_BYTES, Alike, Malformed, Place, RequestHead, RequestLine, ResponseHead

__all__ = ["FIELDS", "REQUEST_KIND", "HeadReader", "answer_head", "cut_head"]

_TOKEN = rb"[!#$%&'*+\-.^_`|~0-9A-Za-z]"
_REQUEST_LINE = re.compile(rb"(" + _TOKEN + rb"{1,32}) ([\x21-\x7e\x80-\xff]{1,16384}) HTTP/1\.([01])")
_STATUS_LINE = re.compile(rb"HTTP/1\.([01]) ([1-9][0-9]{2})(?: ([^\x00\r\n]*))?")
_FIELD = re.compile(rb"(" + _TOKEN + rb"{1,256}+):([^\x00\r\n]*+)")
# Possessive throughout: a hostile head costs one pass, never a backtrack.
FIELDS = re.compile(rb"(?:" + _TOKEN + rb"{1,256}+:[^\x00\r\n]*+\r\n)*+")
_LENGTH = re.compile(rb"[0-9]{1,18}")
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
REQUEST_KIND = {**_KIND, b"host": _HOST, b"expect": _EXPECT}
_RESPONSE_KIND = {**_KIND, b"content-type": _TYPE, b"content-encoding": _ENCODING}

_Read = TypeVar("_Read")
_Field = tuple[int, bytes, int, bytes]
"""Kind, value, of a Content-Length the number, and the line."""
_Options = tuple[bool, bool, bool, frozenset[bytes]]
"""What Connection says: the connection stays, and in HTTP/1.0, it upgrades, and fields that end at this hop."""

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
        self._kinds = {**dict.fromkeys(keep, _KEPT), **(_RESPONSE_KIND if response else REQUEST_KIND)}
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

    def _places_of(self, came: list[bytes], lines: list[bytes]) -> "list[Place | None]":
        """Which lines of a head may be others in the next one. `lines` are those of `came` that travel."""
        places: list[Place | None] = [None]  # the first line
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
            alike = last.alike = Alike(self._places_of(before, last.lines))
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
