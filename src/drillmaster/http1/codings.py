"""Undo the codings of an answer's body (RFC 9110, 8.4) that can be undone here: gzip and deflate."""

import zlib

from drillmaster.http1.shapes import Malformed

__all__ = ["CODINGS", "Inflater", "inflater"]

CODINGS = frozenset((b"gzip", b"x-gzip", b"deflate"))
_BY_ITS_HEADER = 47
"""Of zlib's windowBits: gzip or zlib, told by how it begins."""


class Inflater:
    """One body's. Called with pieces off the wire, in order, it gives what they hold."""

    __slots__ = ("_most_bytes", "_stream")

    def __init__(self, most_bytes: int) -> None:
        self._most_bytes = most_bytes
        self._stream = zlib.decompressobj(_BY_ITS_HEADER)

    def __call__(self, data: bytes) -> bytes:
        """At most one byte over the cap, of each piece; what is behind that is lost. Raises Malformed for no such coding."""
        try:
            return self._stream.decompress(data, self._most_bytes + 1)
        except zlib.error as error:
            raise Malformed("a body that does not inflate") from error

    @property
    def whole(self) -> bool:
        """Whether its end has come."""
        return self._stream.eof


def inflater(coding: bytes, most_bytes: int) -> Inflater | None:
    """For a body of that Content-Encoding; None: it has none, or one that cannot be undone here."""
    return Inflater(most_bytes) if coding.lower() in CODINGS else None
