"""Bytes to lines, lines to rows and defects; rows in the order of time."""

import re
from collections.abc import Iterable, Iterator, Mapping
from json import JSONDecodeError, JSONDecoder
from operator import attrgetter
from typing import Any

import msgspec

from drillmaster.clock import parse_rfc3339
from drillmaster.evidence.shapes import Defect, DefectKind, Row
from drillmaster.screen import screen_text, screen_value
from drillmaster.strict import shown

__all__ = ["LINE_CAP_BYTES", "OrderWatch", "by_time", "rows"]

LINE_CAP_BYTES = 65_536
"""The longest line that is read. Ours are at most 4 kB; a worker's own helper may write more."""

_STEP_BYTES = 32_768  # decoded at once; half the cap, so that a step with ordinary lines never holds one over the cap
_YEAR_2199_NS = 7_226_582_400 * 1_000_000_000
_TENS = tuple(10 ** (9 - digits) for digits in range(10))
_WANTED: dict[DefectKind, str] = {
    "torn": "one whole JSON object a line",
    "foreign": 'one JSON object in UTF-8 with "event", a string that is not empty',
    "undated": '"t", an RFC 3339 time with a zone, from 1970 and before 2199',
    "duplicate-key": "each key once",
    "not-finite": "numbers that JSON knows and a double can hold",
    "unordered": "a time not earlier than the line above",
}


def rows(chunks: Iterable[bytes], *, file: str, line_cap_bytes: int = LINE_CAP_BYTES) -> Iterator[Row | Defect]:
    """Read a timeline: each line that is not blank gives one row or one defect, in the order of the file.

    Any chunking gives one answer; memory is bounded by the largest chunk plus the cap. No bytes raise.
    """
    reader = _Reader(file, line_cap_bytes)
    for chunk in chunks:
        yield from reader.feed(chunk)
    yield from reader.end()


_NAMED = re.compile(rb'"event"\s*:\s*"([a-z_]{1,64})"')


class _Twice(Exception):
    """A key stands twice in one object."""


class _NotFinite(Exception):
    """A number that JSON does not know, or that overflows."""


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                raise _Twice(key)
            seen.add(key)
    return found


def _no_constant(name: str) -> Any:
    raise _NotFinite(name)


def _finite(text: str) -> float:
    value = float(text)
    if value - value != 0:
        raise _NotFinite(text)
    return value


_FAST = msgspec.json.Decoder(dict[str, Any])
_BACK = msgspec.json.Encoder()
_CAREFUL = JSONDecoder(object_pairs_hook=_once, parse_constant=_no_constant, parse_float=_finite)


class _Reader:
    """Cut chunks into lines and lines into rows.

    msgspec decides what is JSON, and takes the last of two equal keys. Whether there were two is counted: in bytes
    without a backslash every string costs two quotes, so what was decoded, encoded again, has as many quotes as the
    source exactly when no key was lost. One backslash, or a count that does not add up, sends the lines down the
    careful path, one by one, through `json` with hooks; it also says what is wrong with a line that msgspec refuses.
    """

    def __init__(self, file: str, line_cap_bytes: int) -> None:
        self._file = file
        self._cap_bytes = line_cap_bytes
        self._step_bytes = min(_STEP_BYTES, line_cap_bytes)
        self._line = 1
        self._rest: list[bytes] = []
        self._rest_bytes = 0
        self._seconds: dict[str, int | None] = {}

    def feed(self, chunk: bytes) -> Iterator[Row | Defect]:
        start = 0
        if self._rest_bytes:
            end = chunk.find(b"\n")
            if end < 0:
                self._keep(chunk)
                return
            self._keep(chunk[:end])
            yield from self._finish_rest()
            start = end + 1
        while True:
            end = chunk.find(b"\n", start + self._step_bytes)
            if end < 0:
                end = chunk.rfind(b"\n", start)
                if end < 0:
                    break
            yield from self._take(chunk[start:end])
            start = end + 1
        self._keep(chunk[start:])

    def end(self) -> Iterator[Row | Defect]:
        if self._rest_bytes:
            yield from self._finish_rest()

    def _keep(self, piece: bytes) -> None:
        # Past the cap only the length is kept: a line of a gigabyte costs what the cap costs.
        if piece and self._rest_bytes <= self._cap_bytes:
            self._rest.append(piece)
        self._rest_bytes += len(piece)

    def _finish_rest(self) -> Iterator[Row | Defect]:
        line, length = b"".join(self._rest), self._rest_bytes
        self._rest.clear()
        self._rest_bytes = 0
        if length > self._cap_bytes:
            yield self._too_long(length)
            self._line += 1
        else:
            yield from self._take(line)

    def _take(self, block: bytes) -> Iterator[Row | Defect]:
        lines = block.split(b"\n")
        first = self._line
        self._line += len(lines)
        if len(block) <= self._cap_bytes and b"\\" not in block:
            decode = _FAST.decode
            try:
                objects = [decode(line) for line in lines if line]
            except (msgspec.DecodeError, RecursionError):
                objects = None
            if objects is not None and _BACK.encode(objects).count(b'"') == block.count(b'"'):
                yield from self._place(lines, objects, first)
                return
        for number, line in enumerate(lines, first):
            if len(line) > self._cap_bytes:
                yield self._too_long(len(line), number)
            elif line and not line.isspace():
                yield self._careful(line, number)

    def _place(self, lines: list[bytes], objects: list[dict[str, Any]], first: int) -> Iterator[Row | Defect]:
        file, following = self._file, iter(objects)
        for number, line in enumerate(lines, first):
            if line:
                fields = next(following)
                event, t = fields.get("event"), fields.get("t")
                if type(event) is str and event and type(t) is str:
                    wall_ns = self._wall_ns(t)
                    if wall_ns is not None and wall_ns < _YEAR_2199_NS:
                        yield Row(file, number, wall_ns, event, fields)
                        continue
                yield self._unusable(fields, number)

    def _careful(self, line: bytes, number: int) -> Row | Defect:
        try:
            fields = _FAST.decode(line)
        except (msgspec.DecodeError, RecursionError):
            return self._diagnosed(line, number)
        try:
            _CAREFUL.decode(line.decode())
        except (_Twice, _NotFinite, ValueError, RecursionError):
            return self._diagnosed(line, number)
        event, t = fields.get("event"), fields.get("t")
        if isinstance(event, str) and event and isinstance(t, str):
            wall_ns = self._wall_ns(t)
            if wall_ns is not None and wall_ns < _YEAR_2199_NS:
                return Row(self._file, number, wall_ns, event, fields)
        return self._unusable(fields, number)

    def _diagnosed(self, line: bytes, number: int) -> Defect:
        defect = self._diagnose(line, number)
        named = list(dict.fromkeys(name.decode() for name in _NAMED.findall(line)))
        if defect.kind == "duplicate-key" and '"event" twice' in defect.found:
            named.append("")  # the other one may be written in any way
        return msgspec.structs.replace(defect, event=named[0], more=tuple(named[1:])) if named else defect

    def _diagnose(self, line: bytes, number: int) -> Defect:
        """Say what is wrong with a line that is no JSON object, or not one that says each thing once."""
        line = line.rstrip(b"\r")
        if line.startswith((b"\xff\xfe", b"\xfe\xff")) or line[:2].find(b"\0") >= 0:
            return self._defect(number, "foreign", "bytes with NULs or a UTF-16 mark at the start")
        if line.startswith(b"\xef\xbb\xbf"):
            return self._defect(number, "foreign", "a byte order mark before the object")
        try:
            text = line.decode()
        except UnicodeDecodeError as error:
            if error.end >= len(line) and error.reason == "unexpected end of data":
                return self._defect(number, "torn", f"a line that ends within a character, after {len(line):,} bytes")
            return self._defect(number, "foreign", f"a byte that is not UTF-8 at byte {error.start + 1:,}")
        try:
            value = _CAREFUL.decode(text)
        except _Twice as twice:
            return self._defect(number, "duplicate-key", f"{_shown(str(twice))} twice")
        except _NotFinite as number_found:
            return self._defect(number, "not-finite", f"the number {str(number_found)[:40]}")
        except RecursionError:
            return self._defect(number, "foreign", "brackets nested too deep")
        except JSONDecodeError as error:
            # The same text, secrets masked: what is quoted of it may begin behind the name that tells a secret.
            return self._defect(number, *_why_not_json(text, screen_text(text, keep_length=True), error))
        except ValueError:  # an integer of thousands of digits
            return self._defect(number, "not-finite", "a number with too many digits")
        if isinstance(value, dict):  # JSON to `json` and not to msgspec: half of a surrogate pair
            return self._defect(number, "foreign", "half of a surrogate pair in a string")
        return self._defect(number, "foreign", f"{_kind_of(value)} where an object belongs")

    def _unusable(self, fields: Mapping[str, Any], number: int) -> Defect:
        event = fields.get("event")
        if not isinstance(event, str):
            found = f'{_kind_of(event)} as "event"' if "event" in fields else 'no "event"'
            return self._defect(number, "foreign", found)
        if not event:
            return self._defect(number, "foreign", 'an empty "event"')
        t = fields.get("t")
        if "t" not in fields:
            return self._defect(number, "undated", 'no "t"')
        if not isinstance(t, str):
            return self._defect(number, "undated", f'{_kind_of(t)} as "t"')
        without_zone = parse_rfc3339(t + "Z") is not None
        return self._defect(number, "undated", f"{_shown(t)}{' without a zone' if without_zone else ''}")

    def _wall_ns(self, t: str) -> int | None:
        """`parse_rfc3339`, with the part up to the second remembered: rows of one second share it."""
        zone = "Z" if t[-1:] == "Z" else t[-6:]
        fraction = t[20 : len(t) - len(zone)]
        if t[19:20] != "." or not 1 <= len(fraction) <= 9 or not (fraction.isascii() and fraction.isdigit()):
            return parse_rfc3339(t)
        whole = t[:19] + zone
        try:
            second_ns = self._seconds[whole]
        except KeyError:
            if len(self._seconds) >= 1024:
                self._seconds.clear()
            second_ns = self._seconds[whole] = parse_rfc3339(whole)
        return None if second_ns is None else second_ns + int(fraction) * _TENS[len(fraction)]

    def _too_long(self, length: int, number: int | None = None) -> Defect:
        return self._defect(
            self._line if number is None else number,
            "too-long",
            f"{length:,} bytes",
            f"at most {self._cap_bytes:,} bytes a line",
        )

    def _defect(self, number: int, kind: DefectKind, found: str, wanted: str = "") -> Defect:
        return Defect(self._file, number, kind, found, wanted or _WANTED[kind])


def _shown(text: str) -> str:
    """Quote a little of a line, and no secret that is in it."""
    return shown(screen_value(text, 200))


def _why_not_json(text: str, masked: str, error: JSONDecodeError) -> tuple[DefectKind, str]:
    """Torn, or never JSON at all: a line that begins as an object was meant to be one."""
    if not text.lstrip().startswith("{"):
        return "foreign", f"no JSON: {shown(masked)}"
    if error.pos >= len(text.rstrip()) or error.msg.startswith("Unterminated string"):
        return "torn", f"an object that ends in the middle, after {len(text):,} characters"
    if error.msg == "Extra data" and text[error.pos : error.pos + 1] == "{":
        return "torn", f"two objects in one line, the second from character {error.pos + 1:,}"
    return "torn", f"an object that breaks off at character {error.pos + 1:,}, at {shown(masked[error.pos :])}"


def _kind_of(value: object) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "true or false"
        case int() | float():
            return "a number"
        case str():
            return "a string"
        case list():
            return "a list"
    return "an object"


def by_time(*runs: Iterable[Row]) -> list[Row]:
    """Merge the rows of several files by time, sorted files or not; ties keep the order of files and of lines.

    In memory: about 0.5 kB a row. `rows` itself streams.
    """
    return sorted((row for run in runs for row in run), key=attrgetter("wall_ns"))


class OrderWatch:
    """Count rows that are earlier than one above them in their own file. That is information, not a reason to refuse.

    Several processes share a file, and each stamps before it writes, so a few lines always stand out of order.
    """

    def __init__(self, *, keep: int = 20) -> None:
        self._keep = keep
        self._latest_ns: dict[str, int] = {}
        self.count = 0
        self.worst_ns = 0
        """How far behind the latest line above it the worst one stood."""
        self.first: list[Defect] = []
        """The first `keep` of them, by line."""

    def see(self, row: Row) -> None:
        behind_ns = self._latest_ns.get(row.file, 0) - row.wall_ns
        if behind_ns <= 0:
            self._latest_ns[row.file] = row.wall_ns
            return
        self.count += 1
        self.worst_ns = max(self.worst_ns, behind_ns)
        if len(self.first) < self._keep:
            found = f"a time {behind_ns / 1e9:.6f} s before a line above it"
            self.first.append(Defect(row.file, row.line, "unordered", found, _WANTED["unordered"]))
