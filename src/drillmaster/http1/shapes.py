"""A message's parts as values: heads, an answer, and what is refused."""

from typing import Any

import msgspec

__all__ = [
    "BODYLESS",
    "MAX_HEAD_BYTES",
    "Alike",
    "Answer",
    "Malformed",
    "Place",
    "RequestHead",
    "RequestLine",
    "ResponseHead",
]

MAX_HEAD_BYTES = 65_536
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


class RequestLine(msgspec.Struct, frozen=True):
    """A request's first line, cut once and remembered."""

    raw: bytes
    method: str
    target: bytes
    origin_form: bytes
    path: str
    minor: int


Place = tuple[int, bytes, int]
"""Of a line whose value may be another in the next head: its kind, its beginning up to the colon, its place in `lines` or -1."""


class Alike:
    """What the heads have in common that follow each other on a connection and differ in values only."""

    __slots__ = ("differ", "places")

    def __init__(self, places: list[Place | None]) -> None:
        self.places = places
        """Line by line; None: where it differs, the head has to be read."""
        self.differ: list[int] = []
        """Which lines did, the last time that others did than before."""


class RequestHead:
    """A request's head, cut once.

    `lines` are the field lines that travel on: no Host, no hop-by-hop field, no framing field. Whoever sends it writes those
    anew.
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
    alike: Alike | None

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
    alike: Alike | None
