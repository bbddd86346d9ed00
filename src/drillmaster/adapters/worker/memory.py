"""Write what an agent keeps, through the memory guard: nothing is followed, nothing is half there, and a resume checks first.

1. A path is opened folder by folder from the root's own descriptor, without following a link and without leaving the disk.
   What the guard is told is where that led; what is written goes into the folder that was opened, whatever its name is by
   then.
2. Bytes and name are looked at for secrets before anything touches the disk, packed and encoded ones too (`rules.secrets`).
3. A file appears whole or not at all: a new file beside it, written, synced, read back, compared by SHA-256, then renamed
   over it and the folder synced. A link or a second name that was there is refused, and what a rename replaces is only ever
   one name.
4. What a file has to be is kept outside the working directory, in `sums`: its SHA-256, and, before a write begins, the one
   that it will have. Killed at any step, a file is one of the two, and `resume` says which.
5. `resume` lets an agent start again where every file that was written is there with its checksum, no file of a durable class
   is there that nobody wrote through here, and the workspace gate passes. Checksums are taken of the very bytes that the gate
   looked at.
6. One at a time: writers of one `sums` take turns, and a turn is waited for at most 30 s.
"""

import contextlib
import hashlib
import os
import re
import stat
import unicodedata
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from drillmaster.errors import Problem, Refused, one_line
from drillmaster.guards import Decision
from drillmaster.guards.memory import HALF, Memory, Write, plain
from drillmaster.intake import read_strict
from drillmaster.intake.turns import open_in_turn
from drillmaster.rules.durable import DURABLE
from drillmaster.rules.secrets import look, look_at_name
from drillmaster.timeline.opening import complaint

if TYPE_CHECKING:
    from drillmaster.adapters.worker.recording import Recorder
    from drillmaster.intake.judging import Asked
    from drillmaster.verdict import Verdict

__all__ = ["MOVE_STEPS", "STEPS", "Kept", "Resumed", "Workspace"]

STEPS = ("decided", "promised", "half", "whole", "synced", "compared", "renamed", "folder-synced", "kept")
"""What a write passes, in order; a test dies at each."""
MOVE_STEPS = (*STEPS, "leaving", "left")
"""What a move passes: its target is written, and its source taken away."""
Step = Callable[[str], None]
_HALF = re.compile(re.escape(HALF) + "[0-9a-f]{16}")
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY
_NEW = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_GONE = "gone"
_MOST_ENTRIES = 100_000
_SUMS_CAP_BYTES = 64 << 20


class Kept(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What one file has to be. `sha256` "": it was not there before; `next` "": no write is under way, `gone`: it goes."""

    sha256: str
    next: str = ""


class _Sums(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    kind: Literal["memory-sums"]
    version: Literal[1]
    files: dict[str, Kept]


class Resumed(msgspec.Struct, frozen=True, kw_only=True):
    """Whether an agent may start again. `faults` are files, with what is wrong; the verdict is the workspace gate's."""

    allowed: bool
    files: int
    faults: tuple[str, ...]
    verdict: Any
    """The workspace gate's, a `drillmaster.verdict.Verdict`."""


_There = Literal["nothing", "file", "twin", "other"]


class _Looked(msgspec.Struct, frozen=True):
    """What was found in bytes and name, in numbers."""

    bytes: int
    secrets: int
    personal: int
    unread: int


class _Lane(msgspec.Struct, frozen=True):
    """What of a write is written down."""

    lane: str


class _Folder(msgspec.Struct):
    """A folder that was opened: its descriptor, and the steps that led to it. -1: it leads elsewhere."""

    fd: int
    name: str
    leads: str


class Workspace:
    """The one way in which tools write into an agent's working directory."""

    def __init__(
        self, root: Path, guard: Memory, *, sums: Path, recorder: "Recorder | None" = None, entry: str = "memory"
    ) -> None:
        """Keep checksums in the file `sums`, which lies outside of `root`, where no lane writes. Raises Problem.

        Each decision goes to `recorder`, where there is one, under the name `entry`: the lane and the reason, and no path.
        """
        self._root = Path(os.path.realpath(root))
        self._guard = guard
        self._recorder, self._entry = recorder, entry
        self._sums = Path(os.path.realpath(sums))
        if self._sums == self._root or self._sums.is_relative_to(self._root):
            raise Refused(
                one_line(os.fspath(sums)),
                found="a file of the working directory",
                wanted="one outside: whoever can write it decides what is whole",
                remedy="name a file of the gateway's own, such as ~/.local/state/agent-sums.json",
            )

    def write(self, lane: str, path: str, data: bytes, *, at: Step = lambda step: None) -> Decision:
        """Write a file, or say why not. Raises Problem where it is allowed and the disk does not do it."""
        return self._recorded(lane, self._write(lane, path, data, at))

    def _write(self, lane: str, path: str, data: bytes, at: Step) -> Decision:
        looked = _looked(path, data)
        denied = self._denied(lane, path, looked)
        if denied is not None:
            return denied
        with self._turn(), self._opened(path) as folder:
            decision = self._decide(lane, path, folder.leads, _found(folder), looked)
            if decision.allowed:
                at("decided")
                self._put(folder, data, at)
            return decision

    def move(self, lane: str, source: str, target: str, *, at: Step = lambda step: None) -> Decision:
        """Move a file, or say why not: the target is written and the source taken away, and the lane may do both."""
        return self._recorded(lane, self._move(lane, source, target, at))

    def _move(self, lane: str, source: str, target: str, at: Step) -> Decision:
        nothing = _looked(source, b"")
        denied = self._denied(lane, source, nothing) or self._denied(lane, target, _looked(target, b""))
        if denied is not None:
            return denied
        with self._turn(), self._opened(source) as here:
            leaving = self._decide(lane, source, here.leads, _found(here), nothing)
            if not leaving.allowed:
                return leaving
            data = self._whole(here, source)
            with self._opened(target) as there:
                decision = self._decide(lane, target, there.leads, _found(there), _looked(target, data))
                if decision.allowed and here.leads != there.leads:
                    at("decided")
                    self._put(there, data, at)
                    self._take_away(here, at)
                return decision

    def read(self, path: str) -> bytes:
        """Read a file that was written through here, where it still has its checksum. Raises Problem."""
        with self._turn(), self._opened(path) as folder:
            data = self._whole(folder, path)
            kept = self._load().files.get(folder.leads)
            if kept is None or hashlib.sha256(data).hexdigest() not in (kept.sha256, kept.next):
                raise Refused(
                    one_line(path),
                    found="bytes that nobody wrote through here",
                    wanted="the file as it was written",
                    remedy="restore it from its store, or write it anew",
                )
            return data

    def resume(self, asked: "Asked") -> Resumed:
        """Check everything before an agent starts again; `asked` names the policy of the workspace gate. Raises Problem."""
        from drillmaster.intake.judging import judged
        from drillmaster.intake.trees import gather_tree

        trees: list[Any] = []
        gather = gather_tree(self._root)

        def keep(gate: Any, told: "Asked", authority: Any) -> Any:
            gathered = gather(gate, told, authority)
            trees.append(gathered.evidence)
            return gathered

        with self._turn():
            sums = self._load()
            self._sweep(sums)
            verdict: Verdict = judged("workspace", asked, keep).verdict
            faults, settled = _compared(sums, trees[0].entries)
            if not faults and settled != sums.files:
                self._store(_sums(settled))
        return Resumed(
            allowed=not faults and verdict.status == "pass",
            files=len(settled),
            faults=tuple(faults),
            verdict=verdict,
        )

    def _recorded(self, lane: object, decision: Decision) -> Decision:
        if self._recorder is not None:
            self._recorder.record(self._entry, "memory", _Lane(lane if type(lane) is str else ""), decision)
        return decision

    # What is there

    @contextlib.contextmanager
    def _opened(self, path: object) -> Iterator[_Folder]:
        """Open the folder that a path names, step by step. A path that cannot be followed so leads elsewhere."""
        if type(path) is not str or not plain(path):
            yield _Folder(-1, "", "")
            return
        steps = self._steps(path)
        if path.startswith("/") and not path.startswith(f"{self._root}/"):
            yield _Folder(-1, "", "")
            return
        with contextlib.ExitStack() as stack:
            with self._told(os.fspath(self._root)):
                fd = self._step(stack, os.fspath(self._root), None)
            device = os.fstat(fd).st_dev
            for part in steps[:-1]:
                try:
                    fd = self._step(stack, part, fd)
                except FileNotFoundError:
                    raise Problem(
                        one_line(path),
                        found="no such folder",
                        wanted="a folder that is there",
                        remedy="make it first: folders are the runner's to make",
                    ) from None
                except OSError:
                    yield _Folder(-1, "", "")  # a link, a file, or one that may not be entered
                    return
                if os.fstat(fd).st_dev != device:
                    yield _Folder(-1, "", "")
                    return
            yield _Folder(fd, steps[-1], "/".join(steps))

    def _step(self, stack: contextlib.ExitStack, name: str, above: int | None) -> int:
        fd = os.open(name, _FOLDER, dir_fd=above)
        stack.callback(os.close, fd)
        return fd

    def _denied(self, lane: str, path: object, looked: "_Looked") -> Decision | None:
        """Say no by the path as it is written, before anything is opened; None: it has to be looked at."""
        leads = "/".join(self._steps(path)) if type(path) is str else ""
        decision = self._decide(lane, path, leads, "nothing", looked)
        return None if decision.allowed else decision

    def _decide(self, lane: str, path: Any, leads: str, found: "_There", looked: "_Looked") -> Decision:
        asked = path.removeprefix(f"{self._root}/") if type(path) is str else path
        facts = Write(
            lane=lane,
            path=asked,
            leads=leads,
            found=found,
            bytes=looked.bytes,
            secrets=looked.secrets,
            personal=looked.personal,
            unread=looked.unread,
        )
        return self._guard.step(None, facts, 0)[1]

    def _steps(self, path: str) -> list[str]:
        return [part for part in path.removeprefix(f"{self._root}/").split("/") if part not in ("", ".")]

    def _whole(self, folder: _Folder, path: str) -> bytes:
        """Read a regular file of that folder whole. Raises Problem."""
        with self._told(path):
            if not folder.leads:
                raise OSError(0, "it leads elsewhere")
            fd = os.open(folder.name, _READ, dir_fd=folder.fd)
            with os.fdopen(fd, "rb") as file:
                status = os.fstat(fd)
                if not stat.S_ISREG(status.st_mode) or status.st_nlink != 1:
                    raise OSError(0, "no regular file with one name")
                data = file.read(self._guard.max_bytes + 1)
            if len(data) > self._guard.max_bytes:
                raise OSError(0, "more bytes than a file may have")
            return data

    # The write

    def _put(self, folder: _Folder, data: bytes, at: Step) -> None:
        digest = hashlib.sha256(data).hexdigest()
        sums = self._load()
        before = sums.files.get(folder.leads, Kept(sha256=""))
        now = before.next if before.next and before.next == self._there(folder) else before.sha256
        self._store(_with(sums, folder.leads, Kept(sha256=now, next=digest)))
        at("promised")
        half = f"{HALF}{os.urandom(8).hex()}"
        with self._told(folder.leads):
            fd = os.open(half, _NEW, 0o600, dir_fd=folder.fd)
            try:
                _written(fd, data, at)
                at("whole")
                os.fsync(fd)
                at("synced")
                if _digest(fd) != digest:
                    raise OSError(0, "what was read back is not what was written")
                at("compared")
                self._still(folder)
                os.rename(half, folder.name, src_dir_fd=folder.fd, dst_dir_fd=folder.fd)
            except BaseException:
                with contextlib.suppress(OSError):
                    os.unlink(half, dir_fd=folder.fd)
                raise
            finally:
                os.close(fd)
            at("renamed")
            os.fsync(folder.fd)
        at("folder-synced")
        self._store(_with(self._load(), folder.leads, Kept(sha256=digest)))
        at("kept")

    def _still(self, folder: _Folder) -> None:
        """Make sure, last of all, that the folder is where it was: one that was moved away takes what is in it along."""
        with self._opened(folder.leads) as again:
            if not again.leads or not os.path.sameopenfile(again.fd, folder.fd):
                raise OSError(0, "its folder was moved meanwhile")

    def _take_away(self, folder: _Folder, at: Step) -> None:
        sums = self._load()
        before = sums.files.get(folder.leads)
        if before is not None:
            self._store(_with(sums, folder.leads, Kept(sha256=before.next or before.sha256, next=_GONE)))
        at("leaving")
        with self._told(folder.leads):
            os.unlink(folder.name, dir_fd=folder.fd)
            os.fsync(folder.fd)
        at("left")
        files = {name: kept for name, kept in self._load().files.items() if name != folder.leads}
        self._store(_sums(files))

    def _there(self, folder: _Folder) -> str:
        try:
            return hashlib.sha256(self._whole(folder, folder.leads)).hexdigest()
        except Problem:
            return ""

    def _sweep(self, sums: _Sums) -> None:
        """Take away what a write left half done; its name is nobody else's."""
        for path in {name.rpartition("/")[0] for name, kept in sums.files.items() if kept.next}:
            with self._opened(f"{path}/x" if path else "x") as folder:
                for name in os.listdir(folder.fd) if folder.leads else ():  # noqa: PTH208 - by descriptor
                    if _HALF.fullmatch(name):
                        with contextlib.suppress(OSError):
                            os.unlink(name, dir_fd=folder.fd)

    # The sums

    def _load(self) -> _Sums:
        if not self._sums.exists():
            return _sums({})
        return read_strict(self._sums, _Sums, cap_bytes=_SUMS_CAP_BYTES)

    def _store(self, sums: _Sums) -> None:
        data = msgspec.json.format(msgspec.json.encode(sums), indent=1) + b"\n"
        draft = self._sums.with_name(f"{self._sums.name}.half")
        with self._told(os.fspath(self._sums)):
            with contextlib.suppress(FileNotFoundError):
                draft.unlink()
            fd = os.open(draft, _NEW, 0o600)
            try:
                _written(fd, data, lambda step: None)
                os.fsync(fd)
            finally:
                os.close(fd)
            draft.replace(self._sums)
            folder = os.open(self._sums.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                os.fsync(folder)
            finally:
                os.close(folder)

    @contextlib.contextmanager
    def _turn(self) -> Iterator[None]:
        lock = self._sums.with_name(f"{self._sums.name}.lock")
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        with self._told(os.fspath(lock)):
            self._sums.parent.mkdir(parents=True, exist_ok=True)
            fd = open_in_turn(lock, lambda: os.open(lock, flags, 0o600))
        try:
            yield
        finally:
            os.close(fd)

    @contextlib.contextmanager
    def _told(self, place: str) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            found, remedy = complaint(error) if error.errno else (str(error.strerror), "look at what lies there")
            raise Problem(one_line(place), found=found, wanted="a file that can be kept", remedy=remedy) from None


def _looked(path: object, data: bytes) -> _Looked:
    # Half a character is in no name that a disk has; the guard denies it by the path.
    name = path.encode("utf-8", "replace").decode() if type(path) is str else ""
    looked, named = look(data), look_at_name(name)
    return _Looked(
        len(data),
        looked.counts.get("secret", 0) + sum(hit.group == "secret" for hit in named.hits),
        looked.counts.get("personal", 0) + sum(hit.group == "personal" for hit in named.hits),
        len(looked.unread) + bool(looked.media),
    )


def _found(folder: _Folder) -> _There:
    """Say what has that name, or one that a person or a file system takes for it."""
    if not folder.leads:
        return "nothing"
    names = os.listdir(folder.fd)  # noqa: PTH208 - by descriptor, which pathlib has not
    if len(names) > _MOST_ENTRIES:
        return "other"
    same = _look(folder.name)
    if any(name != folder.name and _look(name) == same for name in names):
        return "twin"
    try:
        status = os.stat(folder.name, dir_fd=folder.fd, follow_symlinks=False)
    except FileNotFoundError:
        return "nothing"
    if not stat.S_ISREG(status.st_mode):
        return "other"
    return "file" if status.st_nlink == 1 and folder.name in names else "twin"


def _look(name: str) -> str:
    return unicodedata.normalize("NFKC", name).casefold().strip(" .")


def _with(sums: _Sums, path: str, kept: Kept) -> _Sums:
    return _sums({**sums.files, path: kept})


def _sums(files: dict[str, Kept]) -> _Sums:
    return _Sums(kind="memory-sums", version=1, files=dict(sorted(files.items())))


def _written(fd: int, data: bytes, at: Step) -> None:
    view = memoryview(data)
    half = len(view) // 2
    for part in (view[:half], view[half:]):
        while part:
            part = part[os.write(fd, part) :]
        at("half")


def _digest(fd: int) -> str:
    os.lseek(fd, 0, os.SEEK_SET)
    told = hashlib.sha256()
    while part := os.read(fd, 1 << 20):
        told.update(part)
    return told.hexdigest()


def _compared(sums: _Sums, entries: tuple[Any, ...]) -> tuple[list[str], dict[str, Kept]]:
    """Hold what was looked at against what was written: faults, and what stands once writes under way are settled."""
    there = {one.path: one for one in entries if one.kind == "file"}
    faults: list[str] = []
    settled: dict[str, Kept] = {}
    for path, kept in sums.files.items():
        one = there.get(path)
        if one is None:
            # A write that never began, or a file that was taken away: nothing is as it should be.
            if kept.next != _GONE and kept.sha256:
                faults.append(f"{one_line(path)}: it is not there")
        elif one.sha256 and one.sha256 in (kept.sha256, kept.next):
            settled[path] = Kept(sha256=one.sha256)
        else:
            faults.append(f"{one_line(path)}: other bytes than were written")
    for path, one in there.items():
        if one.place in DURABLE and path not in sums.files:
            faults.append(f"{one_line(path)}: {one.place} that nobody wrote through here")
    return faults, settled
