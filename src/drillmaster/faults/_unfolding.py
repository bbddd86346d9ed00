"""A request's body as it was before it was compressed. No entry: what all share that look into a request.

gzip and deflate are undone, as far as a bound; another coding, and what is none of its name, is not looked into.
"""

import zlib
from collections.abc import Iterator

from drillmaster.http1 import RequestHead

__all__ = ["UNFOLDED_BYTES", "Unfolding", "coding_of"]

UNFOLDED_BYTES = 16 * 1024 * 1024
"""The most that one body is unfolded to, where nobody says another bound."""
_PIECE_BYTES = 65_536
_NAME = b"content-encoding:"


def coding_of(head: RequestHead | None) -> str:
    """The content coding that a request names, in lower case; `identity` where it names none."""
    lines = () if head is None else head.lines
    found = [line[len(_NAME) :].strip(b" \t") for line in lines if line[: len(_NAME)].lower() == _NAME]
    return b", ".join(found).decode("latin-1").lower() if found else "identity"


class Unfolding:
    """One body, piece by piece."""

    __slots__ = ("_inflate", "_left_bytes", "_lost")

    def __init__(self, coding: str, most_bytes: int = UNFOLDED_BYTES) -> None:
        """`coding` is as `coding_of` has it; `most_bytes` the most that a compressed body may unfold to."""
        self._inflate = zlib.decompressobj(wbits=47) if coding in ("gzip", "x-gzip", "deflate") else None
        self._lost = self._inflate is None and coding != "identity"
        """Whether what was given so far is not all of what was there."""
        self._left_bytes = most_bytes

    @property
    def whole(self) -> bool:
        """Whether all that was fed was given, and a compressed body came to its end."""
        return not self._lost and (self._inflate is None or self._inflate.eof)

    def feed(self, data: bytes) -> Iterator[bytes]:
        """Give what these bytes unfold to; take all of it before the next are fed."""
        inflate = self._inflate
        if inflate is None:
            if data and not self._lost:
                yield data
            return
        full = False
        while (data or full) and not self._lost:
            if inflate.eof or not self._left_bytes:
                self._lost = True
                return
            ask_bytes = min(_PIECE_BYTES, self._left_bytes)
            try:
                piece = inflate.decompress(data, ask_bytes)
            except zlib.error:
                self._lost = True
                return
            self._left_bytes -= len(piece)
            data = inflate.unconsumed_tail or inflate.unused_data
            full = len(piece) == ask_bytes and not inflate.eof
            if piece:
                yield piece
