"""Files from outside, opened so that nothing can hang and read so that nothing is taken on trust.

One module here for each kind of evidence a gate takes; the two functions of this one are the doors of all of them.
Only regular files are read, to the end or to a cap. A named pipe without a writer does not block, a device is not
touched, and every way in which a path can be wrong is a `Problem`.
"""

import errno
import os
import shlex
import stat
from pathlib import Path
from typing import TypeVar

from drillmaster import strict
from drillmaster.errors import Problem
from drillmaster.timeline.opening import complaint

__all__ = ["format_of", "is_there", "read_bytes", "read_strict"]

T = TypeVar("T")

_FORMATS: dict[str, strict.Format] = {".json": "json", ".yaml": "yaml", ".yml": "yaml", ".toml": "toml"}
_OTHER_KINDS = (
    (stat.S_ISDIR, "a folder"),
    (stat.S_ISFIFO, "a named pipe"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
)


def is_there(path: str | os.PathLike[str]) -> bool:
    """Whether something of that name is there, of whatever kind. Raises `Problem` where that cannot even be looked at."""
    place = os.fspath(path)
    try:
        Path(place).lstat()
    except (FileNotFoundError, NotADirectoryError):
        return False
    except ValueError:
        raise _zero(place) from None
    except OSError as error:
        found, remedy = complaint(error)
        raise Problem(place, found=found, wanted="a path that can be looked at", remedy=remedy) from None
    return True


def read_strict(path: str | os.PathLike[str], type_: type[T], *, cap_bytes: int | None = None) -> T:
    """Read a JSON, YAML or TOML file, which one by its suffix, into a type, exactly (`strict.load_as`).

    `cap_bytes` None stands for the cap of the format. Raises `Problem` and nothing else, file and pointer in its place.
    """
    place = os.fspath(path)
    _regular(place)
    fmt = format_of(place)
    cap_bytes = strict.CAP_BYTES[fmt] if cap_bytes is None else cap_bytes
    return strict.load_as(read_bytes(place, cap_bytes), type_, place=place, fmt=fmt, cap_bytes=cap_bytes)


def format_of(place: str) -> strict.Format:
    """Say by its suffix which format a file has. Raises `Problem` for one of no format of ours."""
    fmt = _FORMATS.get(Path(place).suffix.lower())
    if fmt is None:
        raise Problem(
            place,
            found=f"the suffix {Path(place).suffix}" if Path(place).suffix else "a name without a suffix",
            wanted="one of .json, .yaml, .yml, .toml",
            remedy="rename the file after its format",
        )
    return fmt


def read_bytes(path: str | os.PathLike[str], cap_bytes: int) -> bytes:
    """Read a regular file of at most `cap_bytes` whole. Raises `Problem` for any other thing, and for a longer one."""
    place = os.fspath(path)
    _regular(place)
    try:
        # Between the look above and this open the file may have become a pipe: O_NONBLOCK, and a second look.
        descriptor = os.open(place, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY)
        with os.fdopen(descriptor, "rb") as file:
            status = os.fstat(descriptor)
            _only_regular(place, status.st_mode)
            # A file that is too long is not read to find that out; one that grows meanwhile is, to the cap.
            data = file.read(cap_bytes + 1) if status.st_size <= cap_bytes else b""
            size = max(os.fstat(descriptor).st_size, len(data))
    except OSError as error:
        raise _unreadable(place, error) from None
    if size > cap_bytes:
        raise Problem(
            place,
            found=f"{size:,} bytes",
            wanted=f"at most {cap_bytes:,} bytes",
            remedy="check that this is the file you meant; if it is, cut what is not needed",
        )
    return data


def _regular(place: str) -> None:
    if not place:
        raise Problem("a file", found="an empty path", wanted="a path", remedy="name a file")
    try:
        mode = Path(place).stat().st_mode
    except ValueError:
        raise _zero(place) from None
    except OSError as error:
        raise _unreadable(place, error) from None
    _only_regular(place, mode)


def _only_regular(place: str, mode: int) -> None:
    if not stat.S_ISREG(mode):
        found = next((name for test, name in _OTHER_KINDS if test(mode)), "something else")
        remedy = (
            f"name a file in it: ls {shlex.quote(place)}"
            if stat.S_ISDIR(mode)
            else "copy its content to a file and name that"
        )
        raise Problem(place, found=found, wanted="a regular file", remedy=remedy)


def _zero(place: str) -> Problem:
    return Problem(
        strict.shown(place), found="a zero character in the path", wanted="a path", remedy="correct the path"
    )


def _unreadable(place: str, error: OSError) -> Problem:
    if error.errno == errno.ENOENT:
        return Problem(place, found="no such file", wanted="a file", remedy=_instead(place))
    found, wanted, remedy = {
        errno.ENOTDIR: ("a file where the path needs a folder", "a file", "correct the path"),
        errno.EACCES: ("a file that you may not read", "a readable file", f"chmod u+r {shlex.quote(place)}"),
        errno.ELOOP: ("links that lead in a circle", "a file", f"look where it leads: ls -l {shlex.quote(place)}"),
        errno.ENAMETOOLONG: ("a path that is too long", "a file", "correct the path"),
        errno.EMFILE: ("no file descriptor left", "one for this file", "raise the limit: ulimit -n 4096"),
    }.get(
        error.errno or 0,
        (f"an error on reading ({error.strerror})", "a readable file", f"look at it: ls -l {shlex.quote(place)}"),
    )
    return Problem(place, found=found, wanted=wanted, remedy=remedy)


def _instead(place: str) -> str:
    """Say what to do about a file that is not there; names the one that was most likely meant, if its folder has it."""
    path = Path(place)
    if path.is_symlink():
        return f"it is a link to {path.readlink()}, which is gone: restore that, or name another file"
    try:
        beside = [entry for entry in sorted(path.parent.iterdir())[:1000] if entry.suffix.lower() in _FORMATS]
    except OSError:
        return f"correct the path: there is no folder {path.parent}"
    by_stem = {entry.stem: entry.name for entry in beside}
    meant = by_stem.get(path.stem) or by_stem.get(strict.near(path.stem, by_stem) or "")
    return f"Did you mean {path.parent / meant}?" if meant else f"correct the path: ls {shlex.quote(str(path.parent))}"
