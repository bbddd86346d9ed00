"""Cover secrets in the transcripts of writers that did not, before the run is sealed.

A worker in another language writes its lines with what it knows of secrets, and that may be nothing. So when all writers are gone
and nothing is sealed yet, every line is read once, and what looks like a secret is covered where it stands: the same number of
bytes, the same line, still the same JSON. Lines that were screened before stay as they are, byte for byte. What a stream has
spread over pieces is put together as in a line that we write.
"""

import os
import re
from pathlib import Path

import msgspec

from drillmaster.errors import Problem
from drillmaster.rules.transcripts import lines_of
from drillmaster.screen import suspicious
from drillmaster.timeline.opening import Unwritable, chunks, complaint
from drillmaster.transcripts.reading import FOLDER
from drillmaster.transcripts.redacting import redact, redact_text

__all__ = ["Covered", "cover", "cover_line"]

_STRING = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"')
_PIECE = re.compile(r'\[\s*[\d.]+(?:[eE][+-]?\d+)?\s*,\s*"([^"\\]*(?:\\.[^"\\]*)*)"\s*\]')
_BODY = re.compile(r'"body"\s*:\s*"([^"\\]*(?:\\.[^"\\]*)*)"')
_ESCAPE = re.compile(r"\\u[0-9a-fA-F]{4}|\\.", re.DOTALL)
_HIDDEN = re.compile(r"\\(?:u[0-9a-fA-F]{4}|/)")
_UNIT = re.compile(r"\\u[0-9a-fA-F]{4}|\\.|[^\\]", re.DOTALL)


class Covered(msgspec.Struct, frozen=True):
    """How many lines were looked at, and in how many of them something was covered."""

    files: int
    lines: int
    covered: int


def cover(run_dir: Path) -> Covered:
    """Cover what is left of secrets in a run's transcripts, in place. Raises Unwritable; nothing may write there meanwhile."""
    files = lines = covered = 0
    folder = run_dir / FOLDER
    try:
        names = sorted(entry.name for entry in os.scandir(folder) if entry.name.endswith(".ndjson"))
    except FileNotFoundError:
        return Covered(0, 0, 0)
    for name in names:
        path = folder / name
        files += 1
        found: list[tuple[int, bytes]] = []
        try:
            for _, offset, line in lines_of(chunks(path)):
                if line is None:
                    continue
                lines += 1
                clean = cover_line(line)
                if clean != line:
                    found.append((offset, clean))
        except Problem:
            continue  # no regular file: it is no evidence, and whoever verifies the run is told
        covered += len(found)
        if found:
            _put(path, found)
    return Covered(files, lines, covered)


def _put(path: Path, found: list[tuple[int, bytes]]) -> None:
    try:
        fd = os.open(path, os.O_WRONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
        try:
            for offset, clean in found:
                if os.pwrite(fd, clean, offset) != len(clean):
                    raise OSError(28, "No space left on device")
            os.fsync(fd)
        finally:
            os.close(fd)
    except OSError as error:
        said, remedy = complaint(error)
        raise Unwritable(
            os.fspath(path), found=said, wanted="transcripts whose secrets can be covered", remedy=remedy
        ) from None


def cover_line(line: bytes) -> bytes:
    """Cover a line so that it is still the JSON that it was: only letters within strings, and digits, change."""
    text = line.decode("latin-1")
    clean = redact_text(text)
    pieces = [match.span(1) for match in _PIECE.finditer(text)] if "chunks" in text else []
    odd = clean is not text or suspicious(text) or _HIDDEN.search(text) is not None
    if not odd and len(pieces) < 2:
        return line
    gone = bytearray(len(text))
    _mark(gone, text, clean)
    # As a writer of ours does: what is carried is screened as what it stands for, all pieces of a record as one text.
    for literals in (pieces, *([span] for span in (_bodies(text) if odd else ()))):
        if len(literals) > 1 or odd:
            _through(gone, text, literals)
    if not any(gone):
        return line
    inside = bytearray(len(text))  # 1: within a string
    for match in _STRING.finditer(text):
        inside[match.start() + 1 : match.end() - 1] = b"\1" * (match.end() - match.start() - 2)
    out = bytearray(line)
    for at, hidden in enumerate(gone):
        if hidden and inside[at]:
            out[at] = 42
        elif hidden and 48 <= line[at] <= 57:
            out[at] = 49  # of a number: 1, so that it stays one
    for match in _UNIT.finditer(text):  # an escape is covered whole: half of one would swallow the quote behind it
        start, end = match.span()
        if end - start > 1 and inside[start] and any(gone[start:end]):
            out[start:end] = b"*" * (end - start)
    return bytes(out)


def _bodies(text: str) -> list[tuple[int, int]]:
    return [match.span(1) for match in _BODY.finditer(text)]


def _mark(gone: bytearray, old: str, new: str) -> None:
    if new is old:
        return
    for at, (one, other) in enumerate(zip(old, new, strict=True)):
        if one != other:
            gone[at] = 1


def _through(gone: bytearray, text: str, literals: list[tuple[int, int]]) -> None:
    """Screen what strings stand for, one behind the other, and mark where in the line it stands."""
    pieces = [
        _ESCAPE.sub(lambda match: _stands_for(match[0]), text[start:end]).encode("latin-1") for start, end in literals
    ]
    old, new = b"".join(pieces), b"".join(redact(pieces))
    if old == new:
        return
    places = [match.span() for start, end in literals for match in _UNIT.finditer(text, start, end)]
    for (start, end), was, is_ in zip(places, old, new, strict=True):
        if was != is_:
            gone[start:end] = b"\1" * (end - start)


def _stands_for(unit: str) -> str:
    """One letter for each letter or escape; what no secret holds may stand for anything."""
    if len(unit) == 1:
        return unit
    if unit[1] == "u":
        code = int(unit[2:], 16)
        return chr(code) if code < 256 else "\xff"
    return {"n": "\n", "r": "\r", "t": "\t", "b": "\b", "f": "\f"}.get(unit[1], unit[1])
