"""Open evidence files: regular files only, never through a link, never waiting, and no further than their size at the open."""

import contextlib
import errno
import os
import stat
from collections.abc import Iterator
from typing import TYPE_CHECKING

from drillmaster.errors import Problem

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["Unwritable", "chunks", "complaint", "open_append", "open_evidence", "read_whole", "write_whole"]

CHUNK_BYTES = 1 << 20
_COMMON = os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY  # NONBLOCK: a FIFO is refused, not waited for


class Unwritable(Problem):
    """Evidence could not be written. The drill lifts its faults and aborts."""


def open_append(path: str | bytes, *, readable: bool = False) -> int:
    """Open a regular file for appending, made if it is not there. Raises OSError; EINVAL where it is no regular file."""
    flags = (os.O_RDWR if readable else os.O_WRONLY) | os.O_APPEND | os.O_CREAT | _COMMON
    fd = os.open(path, flags, 0o644)
    try:
        _regular(fd, path)
    except OSError:
        os.close(fd)
        raise
    return fd


def open_evidence(path: str | os.PathLike[str]) -> int:
    """Open a regular file for reading; the descriptor is the caller's. Raises Problem."""
    try:
        fd = os.open(path, os.O_RDONLY | _COMMON)
        try:
            _regular(fd, os.fspath(path))
        except OSError:
            os.close(fd)
            raise
    except OSError as error:
        found, remedy = complaint(error)
        raise Problem(os.fspath(path), found=found, wanted="a regular file that can be read", remedy=remedy) from None
    return fd


def chunks(path: str | os.PathLike[str], *, limit_bytes: int | None = None) -> Iterator[bytes]:
    """Read a file of evidence from its start, at most `limit_bytes` of it: a sealed run is read to its sealed end.

    None: as long as it is when it is opened. A writer that is faster than the reader does not keep it reading.
    """
    fd = open_evidence(path)
    try:
        left = os.fstat(fd).st_size if limit_bytes is None else limit_bytes
        while left > 0:
            chunk = os.read(fd, min(left, CHUNK_BYTES))
            if not chunk:
                return
            left -= len(chunk)
            yield chunk
    finally:
        os.close(fd)


def read_whole(path: str | os.PathLike[str], *, cap_bytes: int) -> bytes:
    """Read a small file of evidence whole. Raises Problem, before a byte is read, where it has more than `cap_bytes`."""
    fd = open_evidence(path)
    try:
        size_bytes = os.fstat(fd).st_size
        if size_bytes > cap_bytes:
            raise Problem(
                os.fspath(path),
                found=f"{size_bytes:,} bytes",
                wanted=f"at most {cap_bytes:,} bytes",
                remedy="restore the file from where the run was kept",
            )
        parts = []
        while size_bytes > 0 and (part := os.read(fd, size_bytes)):
            parts.append(part)
            size_bytes -= len(part)
    except OSError as error:
        found, remedy = complaint(error)
        raise Problem(os.fspath(path), found=found, wanted="a file that can be read", remedy=remedy) from None
    finally:
        os.close(fd)
    return b"".join(parts)


def write_whole(path: "Path", data: bytes, *, mode: int = 0o644) -> None:
    """Put a file in its place, whole or not at all, by way of a draft of a name that nobody can know. Raises OSError.

    Only a regular file, or nothing, is replaced: EINVAL for anything else, a link or a device included. Two writers at
    once each put a whole file there.
    """
    with contextlib.suppress(FileNotFoundError):
        if not stat.S_ISREG(path.lstat().st_mode):
            raise OSError(errno.EINVAL, "no regular file", os.fspath(path))
    draft = path.parent / f".drillmaster-{os.getpid()}-{os.urandom(8).hex()}"
    fd = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, mode)
    try:
        try:
            left = memoryview(data)
            while left:
                left = left[os.write(fd, left) :]
        finally:
            os.close(fd)
        draft.replace(path)
    except BaseException:
        with contextlib.suppress(OSError):
            draft.unlink()
        raise


def _regular(fd: int, path: str | bytes) -> None:
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        raise OSError(errno.EINVAL, "no regular file", path)


def complaint(error: OSError) -> tuple[str, str]:
    """Say what an open or a write met, and what to do about it."""
    match error.errno:
        case errno.ENOENT:
            return "no such file or folder", "make the folder, or mend the path"
        case errno.EINVAL | errno.EISDIR | errno.ENXIO | errno.ENODEV:
            return "something that is no regular file (a FIFO, a folder or a device)", "name a regular file"
        case errno.ELOOP:
            return "a link, or links that lead in a circle", "name the file itself"
        case errno.ENAMETOOLONG:
            return "a name that is too long", "mend the path"
        case errno.ENOTDIR:
            return "a file where a folder belongs", "mend the path"
        case errno.EACCES | errno.EPERM:
            return "no permission", "give this user the right to it"
        case errno.EROFS:
            return "a file system that is read-only", "name a file on one that can be written"
        case errno.ENOSPC | errno.EDQUOT:
            return "a full disk", "free some space"
        case errno.EFBIG:
            return "a limit on the size of files", "raise `ulimit -f`"
        case errno.EMFILE | errno.ENFILE:
            return "no descriptor left", "raise `ulimit -n`"
    return os.strerror(error.errno) if error.errno else str(error), "see whether the file system is in order"
