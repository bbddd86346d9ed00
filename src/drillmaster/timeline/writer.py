"""Write our own evidence: one file a writer, and every trouble raised."""

import errno
import os
from pathlib import Path
from types import TracebackType
from typing import Any, NoReturn, Self

import msgspec

from drillmaster.clock import Clock
from drillmaster.timeline.line import LINE_CAP_BYTES, Stamps, compose, encode, fit, screened
from drillmaster.timeline.opening import Unwritable, complaint, open_append

__all__ = ["Writer", "append", "sync_folder"]

_OURS = frozenset({"t", "ns", "event"})


class Writer:
    """Append lines to one file of the run: `t` and `ns` from the clock, one `write` a line, at most 4 kB.

    Raises Unwritable when a line is not whole on its way to the disk. `mono0_ns` is the run's zero, of its manifest. One
    Writer may be used by several threads; a process that goes on after a fork makes its own.
    """

    def __init__(self, path: str | os.PathLike[str], clock: Clock, mono0_ns: int) -> None:
        self.path = Path(path)
        self._clock = clock
        self._mono0_ns = mono0_ns
        self._stamps = Stamps()
        self._made = not self.path.exists()
        try:
            self._fd = open_append(os.fspath(path), readable=True)
            size = os.fstat(self._fd).st_size
            # Whoever wrote here before us may have been killed within a line.
            self._torn = size > 0 and os.pread(self._fd, 1, size - 1) != b"\n"
        except OSError as error:
            self._fail(error)

    def write(self, event: str, /, **fields: Any) -> int:
        """Append one event; give its `ns`. `fields` are JSON values (NaN becomes null); `t`, `ns` and `event` are ours."""
        if not _OURS.isdisjoint(fields):
            raise ValueError(f"{sorted(_OURS & fields.keys())}: the clock and the event are not fields")
        ns = self._clock.mono_ns() - self._mono0_ns
        opening = self._stamps.opening(self._clock.wall_ns()) + encode(event) + b',"ns":%d' % ns
        fields = screened(fields)
        body = encode(fields)
        if len(opening) + len(body) + 3 > LINE_CAP_BYTES:
            body = encode(fit(fields, LINE_CAP_BYTES - len(opening) - 3))
        line = opening + (b"," + body[1:] if fields else b"}") + b"\n"
        self._put(b"\n" + line if self._torn else line)
        return ns

    def write_encoded(self, event: str, fields: bytes, ns: int | None = None) -> int:
        """Append one event whose fields are a JSON object already, with no free text that was not screened; give its `ns`.

        For writers of thousands of lines a second: `write` looks at each value, this one at none. `ns` is when it was,
        for a caller that has just looked; None: now.
        """
        if ns is None:
            ns = self._clock.mono_ns() - self._mono0_ns
        line = self._stamps.line(self._clock.wall_ns(), encode(event), ns, fields)
        if len(line) > LINE_CAP_BYTES - 2:
            return self.write(event, **msgspec.json.decode(fields))
        self._put(b"\n" + line if self._torn else line)
        return ns

    def _put(self, line: bytes) -> None:
        try:
            wrote = os.write(self._fd, line)
            if wrote != len(line):
                # A disk or a quota that took a part takes the rest, or says why it does not. The whole line again: the
                # part is a torn line of its own, and no reader has to guess.
                self._torn = True
                again = b"\n" + line
                if os.write(self._fd, again) != len(again):
                    raise OSError(errno.ENOSPC, "No space left on device")
        except OSError as error:
            self._torn = True
            self._fail(error)
        self._torn = False

    def sync(self) -> None:
        """Have what was written on the disk: at a phase's end, and before the seal. Raises Unwritable."""
        try:
            os.fdatasync(self._fd)
            here, ours = self.path.stat(follow_symlinks=False), os.fstat(self._fd)
            if self._made:
                sync_folder(self.path.parent)
                self._made = False
        except OSError as error:
            self._fail(error)
        if (here.st_dev, here.st_ino) != (ours.st_dev, ours.st_ino):
            raise Unwritable(
                os.fspath(self.path),
                found="another file in the place of ours",
                wanted="the file that was opened",
                remedy="run the drill again, and leave its folder alone meanwhile",
            )

    def close(self) -> None:
        """Give the descriptor back; twice does no harm."""
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def _fail(self, error: OSError) -> NoReturn:
        found, remedy = complaint(error)
        raise Unwritable(
            os.fspath(self.path), found=found, wanted="a file that takes one more line", remedy=remedy
        ) from error


def append(path: str | os.PathLike[str], event: str, fields: dict[str, Any], *, clock: Clock) -> None:
    """Append one line to a file that others append to, as `mark` does, and raise Unwritable where `mark` would not."""
    line = compose(b"\n" + Stamps().opening(clock.wall_ns()) + encode(event), fields)
    try:
        fd = open_append(os.fspath(path))
        try:
            wrote = os.write(fd, line)
            if wrote != len(line) and os.write(fd, line) != len(line):
                raise OSError(errno.ENOSPC, "No space left on device")
        finally:
            os.close(fd)
    except OSError as error:
        found, remedy = complaint(error)
        raise Unwritable(
            os.fspath(path), found=found, wanted="a file that takes one more line", remedy=remedy
        ) from error


def sync_folder(folder: Path) -> None:
    """Have a folder's new and renamed entries on the disk. Raises OSError."""
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
