"""JSON documents that stand behind one another in one file, in one line each or in many: each read by the rules of `strict`.

1. The library's scanner says where a document ends. What it read counts only where nothing in it can be what the strict loader
   refuses; anything else is read again by that, which alone decides.
2. Whether a name stood there twice is counted, as for lines of evidence: without a backslash every string costs two quotes, so
   that what was read, written again, has as many as its source exactly where no name was lost.
3. What is not ASCII, numbers that are long or have an exponent, escapes, and brackets that lie deep are read strictly.
"""

import re
from collections.abc import Iterator
from json import JSONDecoder
from typing import Any, NoReturn

import msgspec

from drillmaster import strict
from drillmaster.errors import Problem

__all__ = ["documents"]

_TOKEN = re.compile(rb'"(?:[^"\\]|\\.)*"|[{}\[\]]', re.DOTALL)
_SPACE = re.compile(r"[ \t\n\r]*")
_SURE_CHARS = 15
_NO_BRACKETS = bytes(set(range(256)) - set(b"[]{}"))
_BACK = msgspec.json.Encoder()


def documents(data: bytes, place: str, *, wanted: str, how: str) -> Iterator[tuple[Any, int]]:
    """Give the documents of a file, each with the line it begins in. `wanted` and `how` are an error's words. Raises Problem."""
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        _load(data, place, line, wanted, how)
        raise
    scanner = _Scanner()
    at, line = 0, 1
    while True:
        space = _SPACE.match(text, at)
        begins = at if space is None else space.end()
        line += text.count("\n", at, begins)
        if begins == len(text):
            return
        try:
            value, at = scanner.read(text, begins)
        except (ValueError, RecursionError):
            _refuse(text[begins:].encode(), place, line, wanted, how)
        piece = text[begins:at]
        yield value if scanner.is_sure(value, piece) else _load(piece.encode(), place, line, wanted, how), line
        line += text.count("\n", begins, at)


class _Scanner:
    """The library's scanner, which tells of numbers that need a closer look."""

    def __init__(self) -> None:
        self._odd = False
        decoder = JSONDecoder(parse_int=self._whole, parse_float=self._real, parse_constant=self._constant)
        self._decode = decoder.raw_decode

    def read(self, text: str, at: int) -> tuple[Any, int]:
        """Read one document; with where it ends. Raises ValueError or RecursionError for what is no JSON."""
        self._odd = False
        return self._decode(text, at)

    def is_sure(self, value: Any, piece: str) -> bool:
        """Whether the strict loader would give the same for what was just read."""
        if self._odd or "\\" in piece or not piece.isascii() or "\x7f" in piece or not isinstance(value, dict | list):
            return False
        return _BACK.encode(value).count(b'"') == piece.count('"') and _is_shallow(piece.encode("ascii"))

    def _whole(self, text: str) -> int:
        self._odd = self._odd or len(text) > _SURE_CHARS
        return int(text)

    def _real(self, text: str) -> float:
        self._odd = self._odd or len(text) > _SURE_CHARS or "e" in text or "E" in text
        return float(text)

    def _constant(self, text: str) -> None:
        self._odd = True


def _is_shallow(piece: bytes) -> bool:
    """Whether brackets lie no deeper in each other than they may: what is innermost is taken out, level by level."""
    left = piece.translate(None, _NO_BRACKETS)
    for _ in range(strict.MAX_DEPTH):
        if not left:
            return True
        left = left.replace(b"[]", b"").replace(b"{}", b"")
    return not left


def _load(data: bytes, place: str, line: int, wanted: str, how: str) -> Any:
    try:
        return strict.load(data, place=place, fmt="json", cap_bytes=len(data))
    except Problem as problem:  # it counts lines from the document's first
        raise Problem(
            f"{place}:{line}", found=problem.found, wanted=wanted, remedy=f"{problem.remedy}; or {how}"
        ) from None


def _refuse(data: bytes, place: str, line: int, wanted: str, how: str) -> NoReturn:
    """Say what is wrong with the document that data begins with."""
    _load(data[: _end_of(data)], place, line, wanted, how)
    raise Problem(f"{place}:{line}", found="text that is no JSON", wanted=wanted, remedy=how)


def _end_of(data: bytes) -> int:
    """Find where the first document ends: behind its last bracket, else where the data does."""
    depth = 0
    for token in _TOKEN.finditer(data):
        match token[0]:
            case b"{" | b"[":
                depth += 1
            case b"}" | b"]":
                depth -= 1
                if depth <= 0:
                    return token.end()
    return len(data)
