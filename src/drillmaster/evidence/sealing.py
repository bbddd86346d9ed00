"""Digests over what was written, and what they say later."""

import hashlib
import sys
import zlib
from array import array
from collections.abc import Iterable, Iterator, Mapping
from operator import attrgetter

import msgspec

from drillmaster import strict
from drillmaster.evidence.shapes import Change, FileCheck, Seal, SealedFile

__all__ = ["BLOCK_LINES", "SealBuilder", "check_file", "make_seal", "seal_head"]

BLOCK_LINES = 256
"""Lines per block digest of a seal."""

CHECKED_LINES = 6_000_000
"""Lines of a run whose checks a seal holds: a seal of more would be too large to be read. Digests are of all."""

_WINDOW_LINES = 512
_NAMED = 20
_ENOUGH = 2_000  # changes; a file rewritten whole is not aligned to its end


class SealBuilder:
    """Digest a file as it streams by. `prefix_bytes` None: all of it; else digests end there and only checks go on."""

    def __init__(self, prefix_bytes: int | None = None) -> None:
        self._left_bytes = prefix_bytes
        self._whole = hashlib.sha256()
        self._block = hashlib.sha256()
        self._block_lines = 0
        self._blocks: list[str] = []
        self._crc = 0
        self._in_line = False
        self._bytes = 0
        self._prefix_lines: int | None = None
        self.checks = array("I")

    def feed(self, chunk: bytes) -> None:
        """Take the next bytes."""
        if self._left_bytes is None:
            self._digest(chunk)
            return
        inside, behind = chunk[: self._left_bytes], chunk[self._left_bytes :]
        self._left_bytes -= len(inside)
        self._digest(inside)
        if behind:
            if self._prefix_lines is None:
                self._prefix_lines = len(self.checks) + self._in_line
            self._check_lines(behind)

    def _digest(self, chunk: bytes) -> None:
        self._bytes += len(chunk)
        self._whole.update(chunk)
        start = 0
        for end in self._check_lines(chunk):
            self._block.update(chunk[start:end])
            self._close_block()
            start = end
        self._block.update(chunk[start:])

    def _check_lines(self, chunk: bytes) -> list[int]:
        """Check each line, and return where in the chunk a block ends."""
        crc32, append, ends = zlib.crc32, self.checks.append, []
        *whole, rest = chunk.split(b"\n")
        at = 0
        for piece in whole:
            append(crc32(piece, self._crc))
            self._crc = 0
            at += len(piece) + 1
            self._block_lines += 1
            if self._block_lines == BLOCK_LINES:
                self._block_lines = 0
                ends.append(at)
        if whole:
            self._in_line = False
        if rest:
            self._crc = crc32(rest, self._crc)
            self._in_line = True
        return ends

    def _close_block(self) -> None:
        self._blocks.append(self._block.hexdigest())
        self._block = hashlib.sha256()

    def finish(self) -> SealedFile:
        """Close the last line and block. Call it once."""
        if self._in_line:
            self.checks.append(self._crc)
        lines = len(self.checks) if self._prefix_lines is None else self._prefix_lines
        if len(self._blocks) * BLOCK_LINES < lines:
            self._close_block()
        checks = self.checks[:lines]
        if sys.byteorder == "little":
            checks.byteswap()
        hexed = checks.tobytes().hex()
        return SealedFile(
            bytes=self._bytes,
            lines=lines,
            sha256=self._whole.hexdigest(),
            blocks=tuple(self._blocks),
            checks=tuple(hexed[at : at + 8 * BLOCK_LINES] for at in range(0, len(hexed), 8 * BLOCK_LINES)),
        )


def make_seal(files: Mapping[str, SealedFile], *, sealed_at: str) -> Seal:
    """Put the files of a run under one head. Past CHECKED_LINES lines the largest files go without line checks."""
    kept = dict(sorted(files.items()))
    room_lines = CHECKED_LINES
    for name, sealed in sorted(kept.items(), key=lambda item: (item[1].lines, item[0])):
        room_lines -= sealed.lines
        if room_lines < 0:
            kept[name] = msgspec.structs.replace(sealed, checks=())
    seal = Seal(version=1, sealed_at=sealed_at, files=kept, head="")
    return msgspec.structs.replace(seal, head=seal_head(seal))


def seal_head(seal: Seal) -> str:
    """Digest everything a seal says but its head: sha256 over RFC 8785 bytes."""
    said = msgspec.to_builtins(seal)
    del said["head"]
    return strict.digest(said)


def check_file(sealed: SealedFile, chunks: Iterable[bytes], *, file: str, appended: bool) -> FileCheck:
    """Compare a file with its seal, and name what changed: whether, and then which line.

    `appended`: the file is one that writers append to, so bytes behind the sealed prefix are late lines; in any other
    file they are a change. Memory: 4 bytes a line.
    """
    found = SealBuilder(sealed.bytes)
    length_bytes, late_lines, late_begun = 0, 0, False
    for chunk in chunks:
        found.feed(chunk)
        behind = chunk[max(0, sealed.bytes - length_bytes) :]
        length_bytes += len(chunk)
        *whole, rest = behind.split(b"\n")
        for piece in whole:
            late_lines += late_begun or bool(piece.strip())
            late_begun = False
        late_begun = late_begun or bool(rest.strip())
    now = found.finish()
    if now.sha256 == sealed.sha256 and now.bytes == sealed.bytes:
        late_bytes = length_bytes - sealed.bytes
        if late_bytes and not appended:
            what = f"{late_bytes:,} bytes behind the sealed end of a file that nobody appends to"
            return FileCheck((Change(file, sealed.lines + 1, sealed.lines + 1, "grown", what),))
        return FileCheck((), late_lines + late_begun, late_bytes)
    return FileCheck(tuple(_locate(sealed, now, found.checks, file, length_bytes)))


def _locate(
    sealed: SealedFile, now: SealedFile, checks: "array[int]", file: str, length_bytes: int
) -> Iterator[Change]:
    """Name the lines that changed, given that something did.

    The checks of both are compared from the start; from each difference on, a window of 512 lines is aligned, so that a
    dropped or added line is one change and not all that follow.
    """
    try:
        was = array("I", bytes.fromhex("".join(sealed.checks)))
        if sys.byteorder == "little":
            was.byteswap()
    except ValueError:  # a seal somebody else wrote; its digests still say what they say
        was = array("I")
    if len(was) != sealed.lines:
        yield _locate_block(sealed, now, file)
        return
    same = 0
    for before, after in zip(was, checks, strict=False):
        if before != after:
            break
        same += 1
    if same == len(was):
        if length_bytes < sealed.bytes:
            yield Change(file, sealed.lines, sealed.lines, "truncated", "the newline at the sealed end is gone")
        else:
            yield _locate_block(sealed, now, file)
        return
    if length_bytes < sealed.bytes and same >= len(checks) - 1:
        gone = f"{sealed.bytes - length_bytes:,} of {sealed.bytes:,} sealed bytes are gone from the end"
        if same == len(checks) or was[same + 1 :] != checks[same + 1 : len(was)]:
            yield Change(file, same + 1, same + 1, "truncated", gone)
            return
    named = sorted(_name(was, checks, *_differences(was, checks, same), file), key=attrgetter("line"))
    yield from named[:_NAMED]
    if len(named) > _NAMED:
        first, last = named[_NAMED].line, named[-1].line
        yield Change(file, first, last, "altered", f"{len(named) - _NAMED:,} more lines are not as they were sealed")


def _differences(was: "array[int]", now: "array[int]", same: int) -> tuple[list[int], list[int], dict[int, int]]:
    """Give the places in `was` that are gone from `now`, those in `now` that are new, and which stand for which.

    By the shortest story. Goes on from `same`, where both are still equal, window by window, until enough is known to
    name. What stands in `now` behind the last sealed line is late, and not new.
    """
    from difflib import SequenceMatcher  # only where something changed

    gone: list[int] = []
    new: list[int] = []
    pairs: dict[int, int] = {}
    i = j = same
    while len(gone) + len(new) <= _ENOUGH:
        while i < len(was) and j < len(now) and was[i] == now[j]:
            i += 1
            j += 1
        if i == len(was):
            break
        a, b = list(was[i : i + _WINDOW_LINES]), list(now[j : j + _WINDOW_LINES])
        a_ends, b_ends = i + len(a) == len(was), j + len(b) == len(now)
        lost: list[int] = []
        come: list[int] = []
        paired: list[tuple[int, int]] = []
        a_done = b_done = 0
        for tag, a0, a1, b0, b1 in SequenceMatcher(None, a, b, autojunk=False).get_opcodes():
            if tag == "equal":
                a_done, b_done = a1, b1
                continue
            if (a0 or b0) and ((a1 == len(a) and not a_ends) or (b1 == len(b) and not b_ends)):
                break  # where the window ends says nothing about the file; the next one begins before it
            a_done, b_done = a1, b1
            lost.extend(range(a0, a1))
            paired.extend(zip(range(a0, a1), range(b0, b1), strict=False))
            # What stands at the sealed end in place of fewer lines, or behind it, may be late ones.
            come.extend(range(b0, min(b1, b0 + a1 - a0) if a1 == len(a) and a_ends else b1))
        # Lines that repeat let the alignment slide. Place by place is the better story where it is as short, and two
        # swapped lines are two changes, though one move would do.
        in_place = [at for at, (x, y) in enumerate(zip(a, b, strict=False)) if x != y]
        cost = max(len(lost), len(come))
        likely = len(in_place) <= max(2, cost) if len(was) - i == len(now) - j else len(in_place) < cost
        if likely and len(b) >= len(a):
            lost = come = in_place
            paired = [(at, at) for at in in_place]
            a_done = b_done = len(a)
        gone.extend(i + at for at in lost)
        new.extend(j + at for at in come)
        pairs.update((i + x, j + y) for x, y in paired)
        i += a_done
        j += b_done
    return gone, new, pairs


def _name(
    was: "array[int]", now: "array[int]", gone: list[int], new: list[int], pairs: dict[int, int], file: str
) -> Iterator[Change]:
    """Tell moved lines from altered, dropped and inserted ones."""
    places: dict[int, list[int]] = {}
    for place in reversed(new):
        places.setdefault(now[place], []).append(place)
    moved = {line: places[was[line]].pop() for line in gone if places.get(was[line])}
    accounted = set(moved.values())
    for line in gone:
        if line in moved:
            said = f"the sealed line now stands at line {moved[line] + 1:,}"
            yield Change(file, line + 1, line + 1, "moved", said)
        elif line in pairs:
            accounted.add(pairs[line])
            yield Change(file, line + 1, line + 1, "altered", "the line is not the sealed one")
        else:
            yield Change(file, line + 1, line + 1, "dropped", "the sealed line is gone")
    for place in new:
        if place not in accounted:
            yield Change(file, place + 1, place + 1, "inserted", "a line that was not sealed stands here")


def _locate_block(sealed: SealedFile, now: SealedFile, file: str) -> Change:
    for index, block in enumerate(sealed.blocks):
        if index >= len(now.blocks) or now.blocks[index] != block:
            first = index * BLOCK_LINES + 1
            last = min(sealed.lines, first + BLOCK_LINES - 1)
            return Change(file, first, last, "altered", "the block's digest is not the sealed one")
    return Change(file, 0, 0, "altered", "the file's digest is not the sealed one, though each block's is")
