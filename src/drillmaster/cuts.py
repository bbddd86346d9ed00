"""Move a file out of a workspace so that no crash, at any step, leaves less than one whole copy that somebody can find.

1. The order is copy, read back, compare, point, cut. The pointer is on the disk before the file goes, and nothing is removed before
   what was read back from the store has the checksum of what is here.
2. We compare the checksums. A program that prints two lines and ends well has compared nothing.
3. A file that somebody has open for writing, that is locked, that has a second name, or that is not the same twice is refused: its
   checksum would be of a moment.
4. Nothing in the store is ever written over. A file there with the same content is the copy; with other content it is refused.
5. What is on a disk is what was synced: file, then folder, at every step. A rename makes each file appear whole or not at all.
6. Done again after a crash, by `evict` or `resume`, it goes on from where it was. What it left half written has a name of its own
   and is never taken for a copy.
"""

import contextlib
import errno
import fcntl
import hashlib
import os
import shlex
import signal
import stat
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Literal

import msgspec

from drillmaster.errors import Problem, Refused, one_line
from drillmaster.intake.pointers import POINTER_CAP_BYTES, POINTER_NAME, Block, read_pointer, write_pointer
from drillmaster.rules.durable import place
from drillmaster.rules.secrets import look_at_name
from drillmaster.timeline.opening import complaint

__all__ = ["STEPS", "Cut", "Kept", "cut", "pointers_below", "resume"]

_BLOCK = 1 << 20
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY
_MAX_POINTERS = 10_000
_MAX_DEPTH = 200
_HALF = ".drillmaster-half"
_LOCK_LIMIT_S = 10.0
_STORE = "a store that is there"

STEPS = (
    "opened",
    "copying",
    "copied",
    "synced",
    "read-back",
    "named",
    "store-synced",
    "pointer-written",
    "pointer-named",
    "pointer-synced",
    "checked-again",
    "cut",
    "done",
)
"""What a cut passes, in order; a test dies at each."""

Step = Callable[[str], None]


class Cut(msgspec.Struct, frozen=True, kw_only=True):
    """One file that was moved. `same_disk`: the store lies on the same file system, and a host that goes takes both."""

    file: str
    store: str
    sha256: str
    bytes: int
    pointer: str
    same_disk: bool


class Kept(msgspec.Struct, frozen=True, kw_only=True):
    """What became of one pointer's file. `whole`: what lies in the store is what was moved."""

    pointer: str
    file: str
    uri: str
    status: Literal["whole", "finished", "missing", "other", "two", "unchecked", "unusable"]
    why: str = ""

    @property
    def holds(self) -> bool:
        return self.status in ("whole", "finished")


def cut(source: Path, store: Path, *, at: Step = lambda step: None) -> Cut:
    """Move `source` into the folder `store`, leave a pointer beside it. Raises Problem, and then nothing was removed."""
    name = _name(source)
    with _folder(source.parent, "the folder of the file") as here, _folder(store, _STORE) as there:
        _apart(here, there, source, store)
        # One pointer a folder is read, changed and written: one at a time. Half copies of others are nobody's then.
        _locked(here, source.parent)
        _locked(there, store)
        with _still(here, name, source) as (fd, status, wanted):
            at("opened")
            target = Path(os.path.abspath(store)) / name  # noqa: PTH100 - resolve() would follow what the store's owner links
            digest = _copied(fd, there, name, target, status, at)
            block = Block(uri=os.fspath(target), sha256=digest, bytes=status.st_size, file=name)
            pointer = _pointed(here, source.parent, block, at)
            _same(fd, here, name, status, digest, source, wanted)
            at("checked-again")
            with _told(source):
                os.unlink(name, dir_fd=here)
                at("cut")
                os.fsync(here)
            at("done")
        same_disk = os.fstat(here).st_dev == os.fstat(there).st_dev
    return Cut(
        file=os.fspath(source),
        store=os.fspath(target),
        sha256=digest,
        bytes=status.st_size,
        pointer=os.fspath(pointer),
        same_disk=same_disk,
    )


def resume(pointer: Path, *, finish: bool = True) -> list[Kept]:
    """Check every file of one pointer against what lies in its store; with `finish` end a cut that was interrupted.

    Raises Problem where the pointer itself cannot be read.
    """
    with _folder(pointer.parent, "the folder of the pointer") as here:
        if finish:
            _locked(here, pointer.parent)
        blocks = read_pointer(_small(here, pointer), place=one_line(os.fspath(pointer)))
        return [_kept(pointer, here, block, finish=finish) for block in blocks]


def pointers_below(root: Path) -> list[Path]:
    """List the pointers below a folder, sorted; links are not followed. Raises Problem."""
    found: list[Path] = []

    def walk(folder: Path, depth: int) -> None:
        with _told(folder, wanted="a folder that can be read"), os.scandir(folder) as entries:
            for entry in sorted(entries, key=lambda one: one.name):
                if entry.is_dir(follow_symlinks=False):
                    if depth < _MAX_DEPTH:
                        walk(folder / entry.name, depth + 1)
                elif entry.name == POINTER_NAME:
                    found.append(folder / entry.name)
                    if len(found) > _MAX_POINTERS:
                        raise Refused(
                            os.fspath(root),
                            found="too many pointers",
                            wanted="one a folder",
                            remedy="name a folder below",
                        )

    walk(root, 0)
    return found


# The source


def _name(source: Path) -> str:
    name = source.name
    shown = one_line(os.fspath(source))
    if not name or name in (".", ".."):
        raise Refused(shown, found="no file's name", wanted="a file of the workspace", remedy="name a file")
    if any(hit.group == "secret" for hit in look_at_name(name).hits):
        raise Refused(
            "a file",
            found="a name that is a secret",
            wanted="a name that can be written down",
            remedy="rename it first",
        )
    if name == POINTER_NAME or place(name).kind == "pointer":
        raise Refused(shown, found="a pointer", wanted="what it stands for", remedy="drillmaster workspace resume DIR")
    try:
        name.encode()
    except UnicodeEncodeError:
        raise Refused(
            shown, found="a name that is no UTF-8", wanted="a name that a pointer can hold", remedy="rename it first"
        ) from None
    if place(name).kind == "unsafe":
        raise Refused(
            shown,
            found="a name with characters that cannot be seen",
            wanted="a plain name",
            remedy="rename it first",
        )
    return name


@contextlib.contextmanager
def _still(here: int, name: str, source: Path) -> Iterator[tuple[int, os.stat_result, list[bool]]]:
    """Open a file that nobody writes, and hold it so; the list says True once somebody asked to write."""
    with _told(source, wanted="a file that can be read"):
        try:
            looked = os.stat(name, dir_fd=here, follow_symlinks=False)
        except FileNotFoundError:
            folder = shlex.quote(one_line(os.fspath(source.parent)))
            moved = (source.parent / POINTER_NAME).is_file()
            raise Problem(
                one_line(os.fspath(source)),
                found="no such file",
                wanted="a file to move",
                remedy=f"drillmaster workspace resume {folder} says what was moved from there"
                if moved
                else f"mend the path: ls {folder}",
            ) from None
        _plain_file(looked, source)
        fd = os.open(name, _READ, dir_fd=here)
    try:
        status = os.fstat(fd)
        _plain_file(status, source)
        if (status.st_dev, status.st_ino) != (looked.st_dev, looked.st_ino):
            raise _moving(source, "a file that was exchanged")
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            if error.errno in (errno.EWOULDBLOCK, errno.EACCES):
                raise _moving(source, "a lock on it") from None
        with _leased(fd, source) as wanted:
            yield fd, status, wanted
    finally:
        os.close(fd)


@contextlib.contextmanager
def _leased(fd: int, source: Path) -> Iterator[list[bool]]:
    """Hold a lease where the system has them: it is not given while a writer has the file open, and tells us when one comes."""
    wanted = [False]
    if threading.current_thread() is not threading.main_thread() or not hasattr(fcntl, "F_SETLEASE"):
        yield wanted
        return

    def asked(number: int, frame: object) -> None:
        wanted[0] = True

    before = signal.signal(signal.SIGIO, asked)
    held = False
    try:
        try:
            fcntl.fcntl(fd, fcntl.F_SETLEASE, fcntl.F_RDLCK)
            held = True
        except OSError as error:
            if error.errno == errno.EAGAIN:
                raise _moving(source, "somebody who has it open for writing") from None
        yield wanted
    finally:
        if held:
            with contextlib.suppress(OSError):
                fcntl.fcntl(fd, fcntl.F_SETLEASE, fcntl.F_UNLCK)
        signal.signal(signal.SIGIO, before)


def _plain_file(status: os.stat_result, source: Path) -> None:
    shown = one_line(os.fspath(source))
    if not stat.S_ISREG(status.st_mode):
        kind = "a link" if stat.S_ISLNK(status.st_mode) else "a folder" if stat.S_ISDIR(status.st_mode) else "no file"
        raise Refused(
            shown, found=kind, wanted="a regular file", remedy="name the file itself, or remove what is there"
        )
    if status.st_nlink != 1:
        raise Refused(
            shown,
            found=f"{status.st_nlink} names of one file",
            wanted="one: what is cut here would live on there",
            remedy="remove its other names; find them: find DIR -samefile FILE",
        )


def _same(fd: int, here: int, name: str, status: os.stat_result, digest: str, source: Path, wanted: list[bool]) -> None:
    """Make sure, last of all, that the file is still the one that was copied."""
    with _told(source):
        again = _digest(fd)
        now, named = os.fstat(fd), os.stat(name, dir_fd=here, follow_symlinks=False)
    if again != digest or _stamp(now) != _stamp(status) or _stamp(named) != _stamp(status) or wanted[0]:
        raise _moving(source, "a file that changed meanwhile")


def _stamp(status: os.stat_result) -> tuple[int, ...]:
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_nlink


def _moving(source: Path, found: str) -> Refused:
    return Refused(
        one_line(os.fspath(source)),
        found=found,
        wanted="a file that nobody writes",
        remedy="stop the agent, and evict again",
    )


# The copy


def _copied(fd: int, there: int, name: str, target: Path, status: os.stat_result, at: Step) -> str:
    """Have the file in the store, whole, synced and read back; give its checksum."""
    present = _present(there, name, target)
    if present is not None:
        with _told(target):
            digest = _digest(fd)
        if present != digest:
            raise Refused(
                one_line(os.fspath(target)),
                found="another file of that name",
                wanted="nothing, or this very file",
                remedy="name a store of its own for this run: --to STORE",
            )
        with _told(target):
            _synced(there, name)
            os.fsync(there)
        for step in STEPS[1:7]:
            at(step)
        return digest
    # Half a copy has a name that no copy has; one that a crash left is written anew.
    half = f".{name[:200]}{_HALF}"
    with _told(target, wanted="a store that can be written"):
        with contextlib.suppress(FileNotFoundError):
            os.unlink(half, dir_fd=there)
        out = os.open(half, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600, dir_fd=there)
    try:
        with _told(target, wanted="room in the store"):
            digest = _written(fd, out, at)
            at("copied")
            os.fsync(out)
            at("synced")
            with contextlib.suppress(
                OSError, AttributeError
            ):  # read from the disk, where the system does as it is told
                os.posix_fadvise(out, 0, 0, os.POSIX_FADV_DONTNEED)
            back, size = _digest(out), os.fstat(out).st_size
        if back != digest or size != status.st_size:
            raise _moving(target, "a copy that is not what was copied")
        at("read-back")
        with _told(target):
            _appear(there, half, name, target)
            at("named")
            os.fsync(there)
            at("store-synced")
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(half, dir_fd=there)
        raise
    finally:
        os.close(out)
    if _present(there, name, target) != digest:
        raise _moving(target, "a file that was exchanged in the store")
    return digest


def _written(fd: int, out: int, at: Step) -> str:
    digest = hashlib.sha256()
    os.lseek(fd, 0, os.SEEK_SET)
    first = True
    while part := os.read(fd, _BLOCK):
        digest.update(part)
        view = memoryview(part)
        while view:
            view = view[os.write(out, view) :]
        if first:
            at("copying")
            first = False
    if first:
        at("copying")
    return digest.hexdigest()


def _appear(there: int, half: str, name: str, target: Path) -> None:
    """Give the copy its name, unless something has it."""
    try:
        os.link(half, name, src_dir_fd=there, dst_dir_fd=there, follow_symlinks=False)
        os.unlink(half, dir_fd=there)
    except FileExistsError:
        raise Refused(
            one_line(os.fspath(target)),
            found="a file that came there meanwhile",
            wanted="a store that one writes at a time",
            remedy="evict again: what is there is compared first",
        ) from None
    except OSError as error:
        # A file system without second names.
        if error.errno not in (errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK):
            raise
        os.rename(half, name, src_dir_fd=there, dst_dir_fd=there)


def _present(there: int, name: str, target: Path) -> str | None:
    """Checksum of what has the name in the store; None: nothing has."""
    try:
        status = os.stat(name, dir_fd=there, follow_symlinks=False)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise _problem(target, error, "a store that can be read") from None
    if not stat.S_ISREG(status.st_mode):
        raise Refused(
            one_line(os.fspath(target)),
            found="something that is no regular file",
            wanted="nothing, or this very file",
            remedy="name another store: --to STORE",
        )
    with _told(target):
        fd = os.open(name, _READ, dir_fd=there)
        try:
            return _digest(fd)
        finally:
            os.close(fd)


def _synced(there: int, name: str) -> None:
    fd = os.open(name, _READ, dir_fd=there)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def _digest(fd: int) -> str:
    digest = hashlib.sha256()
    os.lseek(fd, 0, os.SEEK_SET)
    while part := os.read(fd, _BLOCK):
        digest.update(part)
    return digest.hexdigest()


# The pointer


def _pointed(here: int, folder: Path, block: Block, at: Step) -> Path:
    """Have the pointer beside the file, with this block in it, on the disk."""
    pointer = folder / POINTER_NAME
    blocks: tuple[Block, ...] = ()
    if _there(here, POINTER_NAME):
        blocks = read_pointer(_small(here, pointer), place=one_line(os.fspath(pointer)))
    data = write_pointer((*(one for one in blocks if one.file != block.file), block))
    half = f".{POINTER_NAME}{_HALF}"
    with _told(pointer, wanted="a folder that can be written"):
        with contextlib.suppress(FileNotFoundError):
            os.unlink(half, dir_fd=here)
        out = os.open(half, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o644, dir_fd=here)
        try:
            try:
                view = memoryview(data)
                while view:
                    view = view[os.write(out, view) :]
                os.fsync(out)
            finally:
                os.close(out)
            at("pointer-written")
            os.rename(half, POINTER_NAME, src_dir_fd=here, dst_dir_fd=here)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(half, dir_fd=here)
            raise
        at("pointer-named")
        os.fsync(here)
        at("pointer-synced")
    if _small(here, pointer) != data:
        raise _moving(pointer, "a pointer that was exchanged")
    return pointer


def _there(here: int, name: str) -> bool:
    try:
        os.stat(name, dir_fd=here, follow_symlinks=False)
    except FileNotFoundError:
        return False
    return True


def _small(here: int, pointer: Path) -> bytes:
    """Read a pointer from its folder's descriptor."""
    with _told(pointer, wanted="a pointer that can be read"):
        status = os.stat(pointer.name, dir_fd=here, follow_symlinks=False)
        if not stat.S_ISREG(status.st_mode):
            raise Refused(
                one_line(os.fspath(pointer)),
                found="a pointer that is no regular file",
                wanted="a file",
                remedy="remove it, and evict again: drillmaster workspace evict FILE --to STORE",
            )
        fd = os.open(pointer.name, _READ, dir_fd=here)
        try:
            data = os.read(fd, POINTER_CAP_BYTES + 1)
        finally:
            os.close(fd)
    if len(data) > POINTER_CAP_BYTES:
        raise Refused(
            one_line(os.fspath(pointer)),
            found="a huge pointer",
            wanted=f"at most {POINTER_CAP_BYTES:,} bytes",
            remedy="restore it",
        )
    return data


def _kept(pointer: Path, here: int, block: Block, *, finish: bool) -> Kept:
    def say(
        status: Literal["whole", "finished", "missing", "other", "two", "unchecked", "unusable"], why: str = ""
    ) -> Kept:
        return Kept(pointer=os.fspath(pointer), file=block.file, uri=block.uri, status=status, why=why)

    if not block.path:
        return say(
            "unchecked", "the store is no folder of this machine: fetch it, and compare its sha256 with the pointer's"
        )
    target = Path(block.path)
    try:
        with _folder(target.parent, _STORE) as there:
            found = _present(there, target.name, target)
    except Problem as problem:
        return say("missing", f"{problem.found} at {problem.place}")
    if found is None:
        return say("missing", "nothing of that name lies in the store")
    if found != block.sha256:
        return say("other", "what lies in the store has another checksum")
    if not _there(here, block.file):
        return say("whole")
    source = pointer.parent / block.file
    try:
        with _still(here, block.file, source) as (fd, status, wanted):
            if _digest(fd) != block.sha256:
                return say(
                    "two", "a file of that name is here again, with other content: one of the two is not the memory"
                )
            if not finish:
                return say("two", "the cut was not finished: drillmaster workspace resume DIR")
            _same(fd, here, block.file, status, block.sha256, source, wanted)
            os.unlink(block.file, dir_fd=here)
            os.fsync(here)
    except Problem as problem:
        return say("unusable", f"found {problem.found}")
    except OSError as error:
        return say("unusable", complaint(error)[0])
    return say("finished")


# Folders and words


@contextlib.contextmanager
def _folder(path: Path, wanted: str) -> Iterator[int]:
    text = os.fspath(path)
    if "\0" in text:
        raise Problem("a path", found="a zero character", wanted=wanted, remedy="correct the path")
    with _told(path, wanted=wanted):
        fd = os.open(text, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield fd
    finally:
        os.close(fd)


def _locked(fd: int, folder: Path) -> None:
    """Have a folder to ourselves, until its descriptor is closed. Waits for another evict, not for ever."""
    end = time.monotonic() + _LOCK_LIMIT_S
    while True:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except OSError as error:
            if error.errno not in (errno.EWOULDBLOCK, errno.EACCES):
                return  # a file system without locks
        if time.monotonic() > end:
            raise Refused(
                one_line(os.fspath(folder)),
                found="another evict at work in it",
                wanted="one at a time",
                remedy="wait for it to end, and evict again",
            )
        time.sleep(0.02)


def _apart(here: int, there: int, source: Path, store: Path) -> None:
    """Refuse a store that lies in the folder which is to be emptied."""
    own, other = os.path.realpath(source.parent), os.path.realpath(store)
    one, two = os.fstat(here), os.fstat(there)
    if (one.st_dev, one.st_ino) == (two.st_dev, two.st_ino) or other.startswith(own.rstrip("/") + "/"):
        raise Refused(
            one_line(os.fspath(store)),
            found="a folder of the workspace",
            wanted="a store outside of it, on a disk that stays",
            remedy="name another one: --to STORE",
        )


@contextlib.contextmanager
def _told(path: Path, wanted: str = "a path that can be used") -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise _problem(path, error, wanted) from None


def _problem(path: Path, error: OSError, wanted: str) -> Problem:
    found, remedy = complaint(error)
    if isinstance(error, FileNotFoundError) and wanted == _STORE:
        remedy = f"mkdir -p {shlex.quote(one_line(os.fspath(path)))}, once the disk that it is to lie on is mounted"
    return Problem(one_line(os.fspath(path)), found=found, wanted=wanted, remedy=remedy)
