"""Logs and files as they change: a line that was added, a file that came, changed or went.

1. A log counts from its end when the listening begins; one that is not there yet, from its start.
2. A log that was moved away is read to its end, then the new one from its start. One that was cut short (`copytruncate`) is read
   from its start.
3. A line ends with a newline. What is longer than `MAX_LINE_BYTES` is no line, and is passed over to its end.
4. A path that is no regular file is refused where the listening begins, and passed over later.
"""

import contextlib
import os
import stat
from collections.abc import Iterator
from pathlib import Path

from drillmaster.errors import Problem

__all__ = ["MAX_LINE_BYTES", "FileWatch", "LogTail", "refuse_odd"]

MAX_LINE_BYTES = 65_536
_MOST_BYTES = 1 << 20


def refuse_odd(path: Path, name: str) -> None:
    """Refuse a path that is there and no regular file. Raises Problem."""
    with contextlib.suppress(FileNotFoundError):
        if not stat.S_ISREG(path.stat().st_mode):
            raise Problem(
                f"detectors: {name}: {path}",
                found="a folder, FIFO or device",
                wanted="a regular file, or none yet",
                remedy="name the file that the alerts go to",
            )


class LogTail:
    """The lines that are added to a file, wherever it moves."""

    def __init__(self, path: Path, *, from_start: bool = False) -> None:
        self._path = path
        self._fd = -1
        self._at = 0
        self._rest = b""
        self._skipping = False
        self.lines = 0
        self._open(at_end=not from_start)

    def _open(self, *, at_end: bool = False) -> None:
        try:
            fd = os.open(self._path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError:
            return
        known = os.fstat(fd)
        if not stat.S_ISREG(known.st_mode):
            os.close(fd)
            return
        self._fd = fd
        self._at = known.st_size if at_end else 0
        self._rest, self._skipping = b"", False
        if at_end and self._at and os.pread(fd, 1, self._at - 1) != b"\n":
            self._skipping = True  # half of a line of before

    def new(self) -> Iterator[str]:
        """Give the lines that were added since. Bounded: what is left comes with the next call."""
        if self._fd < 0:
            self._open()
        if self._fd < 0:
            return
        size = os.fstat(self._fd).st_size
        if size < self._at:
            self._at, self._rest, self._skipping = 0, b"", False
        data = os.pread(self._fd, _MOST_BYTES, self._at)
        self._at += len(data)
        yield from self._cut(data)
        if len(data) < _MOST_BYTES and self._moved():
            os.close(self._fd)
            self._fd = -1
            self._open()
            if self._fd >= 0:
                data = os.pread(self._fd, _MOST_BYTES, 0)
                self._at = len(data)
                yield from self._cut(data)

    def _moved(self) -> bool:
        try:
            there = self._path.stat()
        except OSError:
            return False  # moved away, and nothing in its place yet
        ours = os.fstat(self._fd)
        return (there.st_dev, there.st_ino) != (ours.st_dev, ours.st_ino)

    def _cut(self, data: bytes) -> Iterator[str]:
        pieces = (self._rest + data).split(b"\n")
        self._rest = pieces.pop()
        for piece in pieces:
            if self._skipping:
                self._skipping = False
                continue
            if len(piece) <= MAX_LINE_BYTES:
                self.lines += 1
                yield piece.decode("utf-8", "replace")
        if len(self._rest) > MAX_LINE_BYTES:
            self._rest, self._skipping = b"", True

    def close(self) -> None:
        """Give the descriptor back; twice does no harm."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


class FileWatch:
    """Whether a file is there, and whether it is another than before."""

    def __init__(self, path: Path, *, on_change: bool) -> None:
        self._path = path
        self._on_change = on_change
        self._was = self._look() if on_change else None

    def _look(self) -> tuple[int, int, int] | None:
        try:
            there = self._path.stat()
        except OSError:
            return None
        return (there.st_ino, there.st_size, there.st_mtime_ns) if stat.S_ISREG(there.st_mode) else None

    def new(self) -> tuple[str, int] | None:
        """Say `firing` or `resolved`, and when by the file's own time in ns since 1970; None: nothing new."""
        now, was = self._look(), self._was
        if now == was:
            return None
        self._was = now
        if self._on_change:
            return None if now is None else ("firing", now[2])
        if now is None:
            return "resolved", 0
        return ("firing", now[2]) if was is None else None
