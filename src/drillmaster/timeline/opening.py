"""Open evidence files: regular files only, never through a link, never waiting."""

import errno
import os
import stat
from collections.abc import Iterator

from drillmaster.errors import Problem

__all__ = ["Unwritable", "chunks", "complaint", "open_append", "open_evidence"]

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
    """Read a file of evidence from its start, at most `limit_bytes` of it: a sealed run is read to its sealed end."""
    fd = open_evidence(path)
    try:
        left = limit_bytes
        while left is None or left > 0:
            chunk = os.read(fd, CHUNK_BYTES if left is None else min(left, CHUNK_BYTES))
            if not chunk:
                return
            if left is not None:
                left -= len(chunk)
            yield chunk
    finally:
        os.close(fd)


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
            return "a link", "name the file itself"
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
