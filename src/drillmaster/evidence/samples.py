"""Samples of a load run as they lie on disk: one fixed-size record per call, and beside it the gaps between words.

1. A samples file is one line of JSON (the format, its fields, what its numbers mean), then records of `RECORD.size` bytes,
   little-endian. What a killed writer leaves of a last record is a torn tail: counted, never guessed at.
2. Times are ns since the run's start on CLOCK_MONOTONIC; 0 stands for "did not happen" where a time may not have.
3. A latency counts from when the call was due. When it was sent is kept beside it.
4. A gaps file holds, record by record and word by word but the first, how long the word came after the one before: µs, as
   unsigned 32-bit numbers. A record has `words - 1` of them, where it has words.
"""

import struct
from array import array
from collections.abc import Iterator
from typing import NamedTuple

import msgspec

__all__ = ["FORMAT", "OUTCOMES", "RECORD", "Columns", "Sample", "header", "pack", "read_gaps", "read_samples"]

FORMAT = "drillmaster-samples-1"
RECORD = struct.Struct("<qqqqqqqIIIiiHhBB")
"""Fields in the order of `Sample`."""

OUTCOMES = (
    "ok", "short", "empty", "error_body", "unfinished", "http_3xx", "http_4xx", "http_5xx", "timeout", "reset", "refused",
    "cut", "protocol", "dropped", "stopped",
)  # fmt: skip
"""How a call ended. `short`: whole, and cut off by a token limit or a filter that says so. `unfinished`: its framing was whole
and its API's terminal state was not reached. `refused`: no address gave a connection. `dropped`: due, and never sent, since too
many were in flight, or this machine had no descriptor or port left for one more."""

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


pack = RECORD.pack


class Columns:
    """All records of a file, column by column."""

    def __init__(self, rows: list[Sample], torn_bytes: int) -> None:
        self.rows = rows
        self.torn_bytes = torn_bytes

    def of_stage(self, stage: int) -> list[Sample]:
        return [row for row in self.rows if row.stage == stage]


def header(**said: object) -> bytes:
    """The first line of a samples file; `said` is what the writer wants known."""
    return msgspec.json.encode({"format": FORMAT, "fields": Sample._fields, "record": RECORD.format, **said}) + b"\n"


def read_samples(data: bytes) -> tuple[dict[str, object], Columns]:
    """The header and all whole records. Raises ValueError for anything but a samples file of this format."""
    end = data.find(b"\n", 0, MAX_HEADER_BYTES)
    if end < 0:
        raise ValueError("no header line")
    try:
        said = msgspec.json.decode(data[:end], type=dict[str, object])
    except msgspec.DecodeError as error:
        raise ValueError(f"header: {error}") from None
    if said.get("format") != FORMAT or said.get("record") != RECORD.format:
        raise ValueError(f"format {said.get('format')!r}, not {FORMAT}")
    body = memoryview(data)[end + 1 :]
    torn = len(body) % RECORD.size
    whole = body[: len(body) - torn] if torn else body
    return said, Columns([Sample._make(row) for row in RECORD.iter_unpack(whole)], torn)


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
