"""Standard streams that cannot change what a command found out.

A reader that went away (EPIPE) or a terminal that died (EIO) is no verdict. What finds nobody is dropped, and the exit code
stays what the verb decided. Only where a result was to be kept and could not be, on a full device, the command says so.
"""

import contextlib
import errno
import io
import os
import select
import sys
from collections.abc import Iterator
from typing import TextIO

from drillmaster.errors import Exit

__all__ = ["Outlet", "final_code", "forgiving", "open_standard"]

_NOBODY_THERE = frozenset({errno.EPIPE, errno.EIO, errno.ECONNRESET, errno.ENXIO})


class Outlet(io.RawIOBase):
    """A descriptor whose first failed write is remembered in `lost`; it and all after it count as done."""

    mode = "wb"

    def __init__(self, fd: int, name: str) -> None:
        self._fd = fd
        self.name = name
        self.lost: int | None = None

    def writable(self) -> bool:
        return True

    def fileno(self) -> int:
        return self._fd

    def isatty(self) -> bool:
        return os.isatty(self._fd)

    def write(self, data: object, /) -> int:
        view = memoryview(data).cast("B")  # type: ignore[arg-type]  # the io protocol's own bytes-like
        while self.lost is None:
            try:
                return os.write(self._fd, view)
            except BlockingIOError:  # somebody made the shared description non-blocking
                select.select((), (self._fd,), ())
            except OSError as error:
                self.lost = error.errno or errno.EIO
        return len(view)


def open_standard() -> None:
    """Give descriptors 0 to 2 to /dev/null where they were closed, so that no file of ours is printed into."""
    for fd in (0, 1, 2):
        try:
            os.fstat(fd)
        except OSError:
            while os.open(os.devnull, os.O_RDWR) < fd:
                pass


@contextlib.contextmanager
def forgiving() -> Iterator[Outlet]:
    """Put forgiving streams in the place of this process's own, for a while; lend stdout's outlet."""
    out, err = Outlet(1, "<stdout>"), Outlet(2, "<stderr>")
    before = sys.stdout, sys.stderr
    if sys.stdout is sys.__stdout__:  # else somebody reads along, and not from the descriptor
        sys.stdout = _text(out, before[0])
    if sys.stderr is sys.__stderr__:
        sys.stderr = _text(err, before[1])
    try:
        yield out
    finally:
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(OSError, ValueError):
                stream.flush()
        sys.stdout, sys.stderr = before


def _text(outlet: Outlet, before: TextIO | None) -> TextIO:
    with contextlib.suppress(OSError, ValueError):
        if before is not None:
            before.flush()
    encoding = "utf-8" if before is None else before.encoding
    return io.TextIOWrapper(
        io.BufferedWriter(outlet),
        encoding=encoding,
        errors="backslashreplace",
        line_buffering=outlet.isatty() or outlet.fileno() == 2,
    )


def final_code(code: int, lost: int | None) -> tuple[int, str | None]:
    """The exit code after all was printed, or was not; and what to say about it. A pass that nobody was told is none."""
    if lost is None or lost in _NOBODY_THERE:
        return code, None
    said = (
        f"stdout: found {os.strerror(lost)}, wanted room for the result; send it to a file with room, or to a terminal"
    )
    return (Exit.REFUSED if code == Exit.PASS else code), said
