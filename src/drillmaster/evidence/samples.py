"""Samples of a load run as they lie on disk: one fixed-size record per call, and beside it the gaps between words.

1. A samples file is one line of JSON (the format, its fields, what its numbers mean), then records of `RECORD.size` bytes,
   little-endian. What a killed writer leaves of a last record is a torn tail: counted, never guessed at.
2. Times are ns since the run's start on CLOCK_MONOTONIC; 0 stands for "did not happen" where a time may not have.
3. A latency counts from when the call was due. When it was sent is kept beside it.
4. A gaps file holds, record by record and word by word but the first, how long the word came after the one before: µs, as
   unsigned 32-bit numbers. A record has `words - 1` of them, where it has words.
5. There are two formats. The second has five columns more, behind those of the first, and is written where a call can be
   more than one request of its own: sessions, pauses, waits that the endpoint asked for. The header says which one it is.
"""

import struct
from array import array
from collections.abc import Iterator
from typing import NamedTuple

import msgspec

__all__ = [
    "FORMAT",
    "LONG_FORMAT",
    "LONG_RECORD",
    "MORE",
    "OUTCOMES",
    "RECORD",
    "Columns",
    "Sample",
    "header",
    "pack",
    "read_gaps",
    "read_header",
    "read_samples",
]

FORMAT = "drillmaster-samples-1"
RECORD = struct.Struct("<qqqqqqqIIIiiHhBB")
"""Fields in the order of `Sample`, to `again`."""
MORE = struct.Struct("<qqIHB")
"""What the second format has behind that."""
LONG_FORMAT = "drillmaster-samples-2"
LONG_RECORD = struct.Struct(RECORD.format + MORE.format[1:])

OUTCOMES = (
    "ok", "short", "empty", "error_body", "unfinished", "http_3xx", "http_4xx", "http_5xx", "timeout", "reset", "refused",
    "cut", "protocol", "dropped", "stopped", "attempts_spent", "wait_over_cap", "unsent_turn",
)  # fmt: skip  # words, a line at a time
"""How a call ended. `short`: whole, and cut off by a token limit or a filter that says so. `unfinished`: its framing was whole
and its API's terminal state was not reached. `refused`: no address gave a connection. `dropped`: due, and never sent, since too
many were in flight, or this machine had no descriptor or port left for one more. `attempts_spent`: the endpoint asked for one
more wait, and it had been sent as often as the plan allows. `wait_over_cap`: it asked for a longer wait than the plan allows.
`unsent_turn`: a turn of a session that ended before it by a failure; it was never due, and stands where the session ended.
New names are added at the end."""

MAX_HEADER_BYTES = 65_536


class Sample(NamedTuple):
    """One call."""

    due_ns: int
    sent_ns: int
    first_ns: int
    """First byte of the answer; 0: none came."""
    word_ns: int
    """First word of a stream; 0: none came, or the answer was no stream."""
    end_ns: int
    connect_ns: int
    """How long the connection took, where this call was its first; 0: it was there."""
    tls_ns: int
    up_bytes: int
    """Of the body."""
    down_bytes: int
    """Of the body, as they are when unpacked."""
    words: int
    """Pieces of a stream that carry words."""
    tokens: int
    """What the answer says that it cost in output; -1: it does not say."""
    payload: int
    """Which of the payload set."""
    stage: int
    status: int
    """-1: none came."""
    outcome: int
    """Place in `OUTCOMES`."""
    again: int
    """1: sent a second time, since a kept-alive connection turned out to have been closed."""
    waited_ns: int = 0
    """How long it waited in all because the endpoint asked it to (429, 503 with Retry-After): a part of its latency."""
    paused_ns: int = 0
    """How long its caller paused before it was due: think time, and no part of its latency."""
    session: int = -1
    """Number of the session that it is a turn of; calls on their own are numbered by themselves. -1: the file does not say."""
    turn: int = 0
    """Which turn of its session, from 0."""
    attempts: int = 1
    """How often it was sent at the endpoint's word, the first time included; 0: never."""


pack = RECORD.pack


class Columns:
    """All records of a file, column by column."""

    def __init__(self, rows: list[Sample], torn_bytes: int) -> None:
        self.rows = rows
        self.torn_bytes = torn_bytes


_FORMATS = {FORMAT: RECORD, LONG_FORMAT: LONG_RECORD}


def header(*, long: bool = False, **said: object) -> bytes:
    """The first line of a samples file, of the second format where it is `long`; `said` is what the writer wants known."""
    record = LONG_RECORD if long else RECORD
    fields = Sample._fields if long else Sample._fields[: -len(Sample._field_defaults)]
    whole = {"format": LONG_FORMAT if long else FORMAT, "fields": fields, "record": record.format, **said}
    return msgspec.json.encode(whole) + b"\n"


def read_header(line: bytes) -> tuple[dict[str, object], struct.Struct]:
    """What the first line says, and how the records behind it are laid out: `RECORD` or `LONG_RECORD`. Raises ValueError."""
    try:
        said = msgspec.json.decode(line, type=dict[str, object])
    except msgspec.DecodeError as error:
        raise ValueError(f"header: {error}") from None
    record = _FORMATS.get(str(said.get("format")))
    if record is None or said.get("record") != record.format:
        raise ValueError(f"format {said.get('format')!r}, not one of {', '.join(_FORMATS)}")
    return said, record


def read_samples(data: bytes) -> tuple[dict[str, object], Columns]:
    """The header and all whole records. Raises ValueError for anything but a samples file of one of the formats."""
    end = data.find(b"\n", 0, MAX_HEADER_BYTES)
    if end < 0:
        raise ValueError("no header line")
    said, record = read_header(data[:end])
    body = memoryview(data)[end + 1 :]
    torn = len(body) % record.size
    rows = [Sample._make(row) if record is LONG_RECORD else _first(row) for row in _whole(body, record, torn)]
    return said, Columns(rows, torn)


def _whole(body: memoryview, record: struct.Struct, torn: int) -> Iterator[tuple[int, ...]]:
    return record.iter_unpack(body[: len(body) - torn] if torn else body)


def _first(row: tuple[int, ...]) -> Sample:
    """A record of the first format: what was never sent has no attempt."""
    one = Sample(*row)
    return one if one.sent_ns else one._replace(attempts=0)


def read_gaps(data: bytes, rows: list[Sample]) -> Iterator[tuple[Sample, "array[int]"]]:
    """Each record that has gaps, with them, in µs. Ends where the file ends, which may be within the last of them."""
    gaps = array("I")
    gaps.frombytes(data[: len(data) - len(data) % gaps.itemsize])
    at = 0
    for row in rows:
        if row.words > 1:
            mine = gaps[at : at + row.words - 1]
            at += row.words - 1
            if len(mine) < row.words - 1:
                return
            yield row, mine
