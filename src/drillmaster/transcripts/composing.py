"""The lines of one part, worded and screened: whoever writes them only needs a place to put bytes."""

import base64
import threading
from collections.abc import Callable, Sequence
from time import time_ns
from typing import Any, NamedTuple

import msgspec

from drillmaster.clock import rfc3339
from drillmaster.screen import screen_text
from drillmaster.transcripts.redacting import redact, redact_text

__all__ = ["RECORD_CAP_BYTES", "Composer", "Piece", "Record", "as_bytes", "lost_line", "opening"]

RECORD_CAP_BYTES = 4 << 20
"""The most of one body or stream that is kept."""
_ROOM_BYTES = 48 << 10
"""For what a line carries; the rest of a line is for its fields."""
_FIELDS_ROOM_BYTES = 12 << 10
_PIECES_PER_LINE = 2_000
_SHORT_CHARS = 200
_OURS = frozenset(
    {"t", "mission", "run", "seq", "kind", "part", "more", "lines", "body", "body_b64", "chunks", "clipped_bytes"}
)


class Piece(NamedTuple):
    """What came at once, and when: milliseconds since the record began."""

    at_ms: float
    data: bytes


class Record(NamedTuple):
    """One record, before it is worded. `body` is what came whole, `pieces` what came bit by bit; at most one of them."""

    kind: str
    fields: dict[str, Any]
    body: bytes | None = None
    pieces: Sequence[Piece] | None = None


def _unknown(value: object) -> str:
    try:
        return repr(value)[:_SHORT_CHARS]
    except Exception:  # noqa: BLE001 - a repr that raises is the worker's own, and this is its request path
        return f"<{type(value).__name__}>"


_encode = msgspec.json.Encoder(enc_hook=_unknown).encode
_decode = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode


def as_bytes(value: object) -> bytes:
    """Give a body as bytes: bytes as they are, text in UTF-8, any other value as JSON."""
    if isinstance(value, bytes):
        return value
    if isinstance(value, bytearray | memoryview):
        return bytes(value)
    if isinstance(value, str):
        return value.encode("utf-8", "backslashreplace")
    return _json(value)


def _json(value: object) -> bytes:
    try:
        return _encode(value)
    except (TypeError, ValueError, RecursionError, OverflowError, msgspec.MsgspecError):
        return _encode(_unknown(value).encode("utf-8", "backslashreplace").decode())


class _Stamp:
    """The last second, worded: lines of one second share it."""

    def __init__(self) -> None:
        self._known: tuple[int, str] = (-1, "")

    def __call__(self, wall_ns: int) -> str:
        second, rest_ns = divmod(wall_ns, 1_000_000_000)
        known = self._known
        if known[0] != second:
            known = self._known = (second, rfc3339(second * 1_000_000_000, digits=0)[:-1])
        return f"{known[1]}.{rest_ns // 1000:06d}Z"


_stamp = _Stamp()


def opening(wall_ns: int) -> str:
    """Give `2026-11-29T12:00:00.123456Z`."""
    return _stamp(wall_ns)


def lost_line(run: str, lines: int) -> bytes:
    """Word what a writer says of its own losses."""
    return _encode({"t": _stamp(time_ns()), "run": run, "kind": "lost", "lines": lines}) + b"\n"


class Composer:
    """Words the lines of one part and puts each record in one piece. Several threads may use one."""

    def __init__(
        self, mission: str, run: str, part: str, put: Callable[[bytes], None], wall_ns: Callable[[], int] = time_ns
    ) -> None:
        self.mission = mission
        self._put = put
        self._wall_ns = wall_ns
        self._said = b'","mission":%b,"run":%b,"part":%b,"seq":%%d,"kind":"%%b"' % tuple(
            _encode(word).replace(b"%", b"%%") for word in (mission, run, part)
        )
        self._lock = threading.Lock()
        self._seq = 0
        self.ended = False

    def put(self, record: Record) -> None:
        """Screen a record and write it, whatever it holds. Behind the end of the part nothing is written."""
        fields = _fields(_free(record.fields))
        parts = [fields] if record.body is None and record.pieces is None else list(_carried(record, fields))
        with self._lock:
            if self.ended:
                return
            self.ended = record.kind == "ended"
            opening_ = b'{"t":"%b' % _stamp(self._wall_ns()).encode()
            lines = []
            last = len(parts) - 1
            for number, part in enumerate(parts):
                head = opening_ + self._said % (self._seq, record.kind.encode())
                self._seq += 1
                if self.ended:
                    part = b'"lines":%d%b%b' % (self._seq, b"," if part else b"", part)
                more = b',"more":true' if number < last else b""
                lines.append(head + (b"," if part else b"") + part + more + b"}\n")
            self._put(b"".join(lines))


def _free(fields: dict[str, Any]) -> dict[str, Any]:
    """Give a field that is called as one of ours another name."""
    if _OURS.isdisjoint(fields):
        return fields
    return {f"{name}_" if name in _OURS else name: value for name, value in fields.items()}


def _fields(fields: dict[str, Any]) -> bytes:
    """Word and screen the fields of a record, without the braces; what is too long is clipped."""
    if not fields:
        return b""
    body = _json_fields(fields)
    if len(body) > _FIELDS_ROOM_BYTES:
        body = _json_fields({name: _clipped(value) for name, value in list(fields.items())[:64]})
    text = body.decode()
    clean = screen_text(text, keep_length=True)
    if clean is text and "\\" not in text:
        return body[1:-1]
    return _screened(body, redact_text(text).encode())[1:-1]


def _json_fields(fields: dict[str, Any]) -> bytes:
    body = _json(fields)
    return body if body.startswith(b"{") else _json({name: _unknown(value) for name, value in fields.items()})


def _clipped(value: object) -> object:
    body = _json(value)
    if len(body) <= _FIELDS_ROOM_BYTES // 8:
        return value
    text = body.decode()
    return f"{text[: _FIELDS_ROOM_BYTES // 64]}... ({len(text)} characters clipped)"


def _screened(body: bytes, clean: bytes) -> bytes:
    """Give screened JSON that is still the same object; where a mark has eaten a quote, each field as a text of its own."""
    if clean == body:
        return body
    names = _decode(body)
    try:
        if _decode(clean).keys() == names.keys():
            return clean
    except (msgspec.MsgspecError, UnicodeDecodeError):
        pass
    kept: dict[str, Any] = {}
    for name, raw in names.items():
        front = f"{name}="
        text = bytes(raw).decode()
        said = redact_text(front + text)
        value = said[len(front) :] if said.startswith(front) else "*" * len(text)
        kept[name if redact_text(name) == name else "*" * len(name)] = (
            msgspec.Raw(bytes(raw)) if value == text else value
        )
    return _encode(kept)


def _carried(record: Record, fields: bytes) -> list[bytes]:
    """Word what a record carries, in as many lines as it takes."""
    whole = record.pieces is None
    given = [Piece(0.0, record.body or b"")] if record.pieces is None else list(record.pieces)
    pieces, clipped = _within(given)
    kept = redact([piece.data for piece in pieces])
    if clipped:
        fields += (b"," if fields else b"") + b'"clipped_bytes":%d' % clipped
    if whole:
        return [
            (b"%b,%b" if first else b"%b%b") % (first, said)
            for first, said in _bodies(kept[0] if kept else b"", fields)
        ]
    lines: list[bytes] = []
    under_way: list[bytes] = []
    size = 0
    for piece, data in zip(pieces, kept, strict=True):
        for said in _words(data):
            one = b"[%b,%b]" % (_encode(round(piece.at_ms, 3)), said)
            if under_way and (size + len(one) > _ROOM_BYTES or len(under_way) >= _PIECES_PER_LINE):
                lines.append(b'"chunks":[%b]' % b",".join(under_way))
                under_way, size = [], 0
            under_way.append(one)
            size += len(one) + 1
    lines.append(b'"chunks":[%b]' % b",".join(under_way))
    if fields:
        lines[0] = fields + b"," + lines[0]
    return lines


def _within(pieces: list[Piece]) -> tuple[list[Piece], int]:
    left, kept, clipped = RECORD_CAP_BYTES, [], 0
    for piece in pieces:
        data = piece.data[:left]
        left -= len(data)
        clipped += len(piece.data) - len(data)
        if data or not piece.data:
            kept.append(Piece(piece.at_ms, data))
    return kept, clipped


def _bodies(data: bytes, fields: bytes) -> list[tuple[bytes, bytes]]:
    said = []
    for number, words in enumerate(_words(data)):
        plain = not words.startswith(b"null,")
        body = b'"body":' + words if plain else b'"body_b64":' + words[5:]
        said.append((fields if not number else b"", body))
    return said


def _words(data: bytes) -> list[bytes]:
    """Word bytes as `"text"`, or as `null,"base64"` where they are no UTF-8, each short enough for a line."""
    try:
        text = data.decode()
    except UnicodeDecodeError:
        step = _ROOM_BYTES // 4 * 3 - 3
        return [b'null,"%b"' % base64.b64encode(data[at : at + step]) for at in range(0, len(data), step)]
    whole = _encode(text)
    if len(whole) <= _ROOM_BYTES:
        return [whole]
    words = []
    step = max(1, (_ROOM_BYTES - 8) * len(text) // len(whole))
    at = 0
    while at < len(text):
        take = step
        while len(one := _encode(text[at : at + take])) > _ROOM_BYTES:
            take = max(1, take * 7 // 8)
        words.append(one)
        at += take
    return words
