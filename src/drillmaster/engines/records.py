"""The two files an engine writes: what became of each call, and the gaps between the words of streams.

1. Both are new: records are never written over.
2. After a write that failed nothing is written any more: what comes behind a piece of a record could not be told from it. The
   records of before stay, and none is guessed at.
"""

import os
from array import array
from pathlib import Path

from drillmaster.errors import Problem

__all__ = ["Records", "write_all"]


class Records:
    """Open until `close`."""

    def __init__(self, samples: str, gaps: str | None) -> None:
        """Make both files, or none. Raises Problem."""
        self._samples_path, self._gaps_path = samples, gaps
        self._samples = _new_file(samples)
        self._gaps: int | None = None
        if gaps is not None:
            try:
                self._gaps = _new_file(gaps)
            except Problem:
                os.close(self._samples)
                Path(samples).unlink()
                raise
        self._writable = True
        self.calls = 0
        """How many have been put into the file."""

    def begin(self, first_line: bytes) -> None:
        """Say what the records are. Raises Problem."""
        self._write(self._samples, first_line, self._samples_path)

    def put(self, rows: list[bytes], gaps: "array[int]") -> None:
        """Write down these calls. Raises Problem, say on a full disk: a record that is lost is no record."""
        self.calls += len(rows)
        if rows:
            self._write(self._samples, b"".join(rows), self._samples_path)
        if gaps and self._gaps is not None:
            self._write(self._gaps, gaps.tobytes(), str(self._gaps_path))

    def close(self) -> None:
        """Have the calls on the disk, and end."""
        os.fsync(self._samples)
        os.close(self._samples)
        if self._gaps is not None:
            os.close(self._gaps)

    def _write(self, fd: int, data: bytes, path: str) -> None:
        if not self._writable:
            return
        try:
            write_all(fd, data)
        except OSError as error:
            self._writable = False
            raise Problem(
                path,
                found=f"{error.strerror} after {self.calls:,} calls",
                wanted=f"room for {len(data):,} more bytes",
                remedy="make room and run it again; the records of before stay",
            ) from None


def _new_file(path: str) -> int:
    try:
        return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC, 0o644)
    except OSError as error:
        raise Problem(
            path,
            found=error.strerror or str(error),
            wanted="a file that can be made and is not there yet: records are never written over",
            remedy="name another file",
        ) from None


def write_all(fd: int, data: bytes) -> None:
    """Write it all: a file may take less than it was given, on a disk that is nearly full. Raises OSError."""
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]
