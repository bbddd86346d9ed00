"""A working directory into a `Tree`: each entry looked at once, from the folder that holds it, without following anything.

1. Folders and files are opened from the descriptor of the folder above (`openat`, `O_NOFOLLOW`): what is swapped for a link
   while we walk is not followed. Nothing is opened that `lstat` does not say is a file or a folder, and what was opened is
   compared with it.
2. No entry is passed over. What cannot be opened, changes while it is read, or is no file stands in the tree with what it is.
3. Another file system below the root is not entered. Links are not followed; where they lead is told by their text.
4. Count, bytes, depth have caps; past one the walk stops and says so.
5. No value that was found stays, and no name that is a secret: its path shows a mark in that place.
"""

import contextlib
import hashlib
import json
import os
import re
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from drillmaster.errors import Problem, one_line
from drillmaster.gates._workspace_tree import Kind, Pointer, Seen, Tree
from drillmaster.gates.workspace import ALONE as SCAN
from drillmaster.gates.workspace import Workspace
from drillmaster.intake.judging import Asked, Gathered, PolicyRead
from drillmaster.intake.pointers import POINTER_CAP_BYTES, read_pointer
from drillmaster.rules.durable import DURABLE, Class, seen
from drillmaster.rules.secrets import Hit, look, look_at_name
from drillmaster.screen import MARK
from drillmaster.timeline.opening import complaint

if TYPE_CHECKING:
    from drillmaster.intake.authority import Authority

__all__ = ["ALONE", "MAX_DEPTH", "Limits", "gather_tree", "walk"]

MAX_DEPTH = 200
"""Folders inside folders; each holds a descriptor open."""
_BLOCK = 1 << 20
_KINDS: tuple[tuple[Callable[[int], bool], Kind], ...] = (
    (stat.S_ISREG, "file"),
    (stat.S_ISLNK, "link"),
    (stat.S_ISFIFO, "fifo"),
    (stat.S_ISSOCK, "socket"),
    (stat.S_ISCHR, "device"),
    (stat.S_ISBLK, "device"),
)
_OPEN_NAME = re.compile(
    r"(?:\.(?:lock|lck|swp|swo|swx|tmp|temp|part|partial|crdownload)|#)\Z|\A(?:\.~lock\.|~\$|\.#)", re.IGNORECASE
)
_JOURNAL = re.compile(r"-(?:journal|wal)\Z", re.IGNORECASE)
_STORE_MAGIC = (b"SQLite format 3\0", b"PAR1", b"ARROW1", b"\x93NUMPY", b"\x89HDF\r\n\x1a\n", b"DUCK")
_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY

Progress = Callable[[int, int], None]

ALONE = PolicyRead(
    gate=SCAN, pin=None, digest="", place="", stamps=("SCAN ALONE",), limits_from="the article's own script"
)
"""What judges a workspace where there is no policy."""


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """What bounds a walk."""

    max_file_bytes: int
    max_total_bytes: int
    max_files: int
    max_unpacked_bytes: int
    left_out: tuple[str, ...] = ()


def gather_tree(
    root: Path, progress: Progress | None = None
) -> Callable[[Workspace, Asked, "Authority | None"], Gathered]:
    """Give what `judged` calls for evidence: a walk of `root` within the limits of the policy."""

    def gather(gate: Workspace, asked: Asked, authority: "Authority | None") -> Gathered:
        if authority is not None and authority.head is not None:
            from drillmaster.intake.checkouts import must_hold_the_change

            must_hold_the_change(root, authority.repo, authority.head)
        limits = Limits(
            max_file_bytes=gate.max_file_bytes,
            max_total_bytes=gate.max_total_bytes,
            max_files=gate.max_files,
            max_unpacked_bytes=gate.max_unpacked_bytes,
            left_out=gate.left_out,
        )
        tree = walk(root, limits, now_ns=asked.now_ns, progress=progress)
        return Gathered(
            evidence=tree,
            subject=tree.root,
            digest=tree.digest,
            counts={
                "seen": len(tree.entries),
                "scanned": tree.scanned,
                "unscannable": sum(bool(one.unread or one.trouble) for one in tree.entries),
                "left_out": sum(one.left_out for one in tree.entries),
                "bytes": tree.total_bytes,
                "exceptions": len(gate.exceptions),
            },
        )

    return gather


def walk(root: Path, limits: Limits, *, now_ns: int, progress: Progress | None = None) -> Tree:
    """Walk a folder. Raises Problem where the root itself cannot be opened as one."""
    place = os.fspath(root)
    if not place or "\0" in place:
        raise Problem("gate workspace", found="no path", wanted="a folder", remedy="name the agent's working directory")
    try:
        fd = os.open(place, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError as error:
        found, remedy = complaint(error)
        raise Problem(one_line(place), found=found, wanted="a folder that can be read", remedy=remedy) from None
    walking = _Walk(limits, root, progress)
    try:
        try:
            names = sorted(os.listdir(fd))  # noqa: PTH208 - by descriptor, which pathlib has not
        except OSError as error:
            found, remedy = complaint(error)
            raise Problem(one_line(place), found=found, wanted="a folder that can be read", remedy=remedy) from None
        walking.folder(fd, names, "", 0)
    finally:
        os.close(fd)
    return walking.tree(one_line(_printable(place)), now_ns)


class _Walk:
    """One walk under way."""

    def __init__(self, limits: Limits, root: Path, progress: Progress | None) -> None:
        self._limits = limits
        self._progress = progress
        self._entries: list[Seen] = []
        self._pointers: list[Pointer] = []
        self._folders = 0
        self._bytes = 0
        self._cut = ""
        self._changed = False
        self._hash = hashlib.sha256()
        self._root = os.path.realpath(root)
        self._mounts = _mounts(self._root)
        self._left_out = tuple(one.strip("/") for one in limits.left_out)
        self._names: dict[str, int] = {}

    def tree(self, root: str, now_ns: int) -> Tree:
        return Tree(
            root=root,
            entries=tuple(self._entries),
            folders=self._folders,
            total_bytes=self._bytes,
            cut=self._cut,
            pointers=tuple(self._pointers),
            now_ns=now_ns,
            digest=f"sha256:{self._hash.hexdigest()}",
            changed=self._changed,
        )

    def folder(self, fd: int, names: list[str], path: str, depth: int) -> None:
        """Walk an open folder; `path` is below the root, "" for the root."""
        self._folders += 1
        before = os.fstat(fd)
        for name in names:
            if self._cut:
                return
            if len(self._entries) >= self._limits.max_files:
                self._cut = f"more than {self._limits.max_files:,} entries"
                return
            self._entry(fd, name, f"{path}/{name}" if path else name, before.st_dev, depth)
            if self._progress is not None:
                self._progress(len(self._entries), self._bytes)
        with contextlib.suppress(OSError):
            after = os.fstat(fd)
            if (after.st_mtime_ns, after.st_ctime_ns) != (before.st_mtime_ns, before.st_ctime_ns):
                self._changed = True

    def _entry(self, fd: int, name: str, path: str, device: int, depth: int) -> None:
        try:
            status = os.stat(name, dir_fd=fd, follow_symlinks=False)
        except OSError as error:
            self._add(path, "unknown", trouble=_said(error))
            return
        out = any(path == one or path.startswith(one + "/") for one in self._left_out)
        if stat.S_ISDIR(status.st_mode):
            self._below(fd, name, path, status, device, depth)
            return
        kind: Kind = next((kind for test, kind in _KINDS if test(status.st_mode)), "unknown")
        if path in self._mounts:
            self._add(path, "mount", status)
        elif kind == "file":
            self._file(fd, name, path, status, out)
        elif kind == "link":
            self._add(path, kind, status, leads=self._leads(path), out=out)
        else:
            self._add(path, kind, status, out=out)

    def _below(self, fd: int, name: str, path: str, status: os.stat_result, device: int, depth: int) -> None:
        if status.st_dev != device or path in self._mounts:
            self._add(path, "mount", status)
            return
        if depth >= MAX_DEPTH:
            self._cut = f"folders more than {MAX_DEPTH} deep"
            return
        hits = look_at_name(name).hits
        if any(hit.group == "secret" for hit in hits):
            self._add(path, "folder", status)
        try:
            inner = os.open(name, _FLAGS | os.O_DIRECTORY, dir_fd=fd)
        except OSError as error:
            self._add(path, "folder", status, trouble=_said(error))
            return
        try:
            opened = os.fstat(inner)
            if (opened.st_dev, opened.st_ino) != (status.st_dev, status.st_ino):
                self._add(path, "folder", status, trouble="it was exchanged while it was walked")
                return
            try:
                names = sorted(os.listdir(inner))  # noqa: PTH208 - by descriptor, which pathlib has not
            except OSError as error:
                self._add(path, "folder", status, trouble=_said(error))
                return
            self.folder(inner, names, path, depth + 1)
        finally:
            os.close(inner)

    def _file(self, fd: int, name: str, path: str, status: os.stat_result, out: bool) -> None:
        if out:
            self._add(path, "file", status, out=True)
            return
        if status.st_size > self._limits.max_file_bytes:
            self._add(path, "file", status)
            return
        try:
            data, opened = _read(fd, name, status, self._limits.max_file_bytes)
        except _Trouble as trouble:
            self._add(path, "file", status, trouble=str(trouble))
            return
        except OSError as error:
            self._add(path, "file", status, trouble=_said(error))
            return
        self._bytes += len(data)
        if self._bytes > self._limits.max_total_bytes:
            self._cut = f"more than {self._limits.max_total_bytes:,} bytes"
            return
        self._add(path, "file", opened, data=data)

    def _add(
        self,
        path: str,
        kind: Kind,
        status: os.stat_result | None = None,
        *,
        data: bytes | None = None,
        trouble: str = "",
        leads: str = "",
        out: bool = False,
    ) -> None:
        named = look_at_name(path)
        place = seen(_printable(path))
        size = status.st_size if status is not None else 0
        looked = None if data is None else look(data, max_unpacked_bytes=self._limits.max_unpacked_bytes)
        digest = hashlib.sha256(data).hexdigest() if data is not None else ""
        hits = () if looked is None else looked.hits
        counts = dict(looked.counts) if looked is not None else {}
        for hit in named.hits:
            counts[hit.group] = counts.get(hit.group, 0) + 1
        name = path.rpartition("/")[2]
        entry = Seen(
            path=self._shown(path, named.hits),
            kind=kind,
            place="other" if kind == "folder" else place.kind,
            known=place.known,
            by_suffix=kind == "file" and (_is_store(place.kind, name) or (data or b"").startswith(_STORE_MAGIC)),
            bytes=size if kind in ("file", "link") else 0,
            mtime_ns=status.st_mtime_ns if status is not None else 0,
            hits=hits,
            name_hits=named.hits,
            counts=counts,
            unread=() if looked is None else looked.unread,
            media="" if looked is None else looked.media,
            trouble=trouble,
            hard_links=status.st_nlink if status is not None and kind == "file" else 1,
            leads=leads,
            packed=() if looked is None else _packed(looked.names),
            open_mark=_open_mark(name, place.kind, data, size) if kind == "file" and not out else "",
            sha256=digest,
            left_out=out,
        )
        self._entries.append(entry)
        self._hash.update(f"{path}\0{kind}\0{size}\0{digest}\0{trouble}\0".encode("utf-8", "surrogateescape"))
        if entry.place == "pointer" and kind == "file" and not out:
            self._pointer(entry, path, data)

    def _pointer(self, entry: Seen, path: str, data: bytes | None) -> None:
        if data is None or len(data) > POINTER_CAP_BYTES:
            self._pointers.append(Pointer(path=entry.path, problem="it could not be read"))
            return
        folder = Path(self._root) / path.rpartition("/")[0]
        try:
            blocks = read_pointer(data, place=entry.path)
        except Problem as problem:
            self._pointers.append(Pointer(path=entry.path, problem=f"found {problem.found}, wanted {problem.wanted}"))
            return
        for one in blocks:
            there = os.path.lexists(folder / one.file) if one.file else False
            self._pointers.append(Pointer(path=entry.path, uri=one.uri, sha256=one.sha256, blob_there=there))

    def _shown(self, path: str, hits: tuple[Hit, ...]) -> str:
        """A path as it may be printed: a part that holds a secret is a mark, with a number where two would be the same."""
        parts = _printable(path).split("/")
        if any(hit.group in ("secret", "personal") for hit in hits):
            kept = [
                MARK if any(h.group in ("secret", "personal") for h in look_at_name(part).hits) else part
                for part in parts
            ]
            parts = kept if kept != parts else [MARK]
        shown = one_line("/".join(parts))
        n = self._names[shown] = self._names.get(shown, 0) + 1
        return shown if n == 1 else f"{shown}#{n}"

    def _leads(self, path: str) -> str:
        full = f"{self._root}/{path}"
        try:
            os.stat(full)  # noqa: PTH116 - a path that may be no UTF-8, and is text here
        except OSError:
            return "nowhere"  # or in a circle
        target = os.path.realpath(full)
        return "inside" if target == self._root or target.startswith(self._root.rstrip("/") + "/") else "outside"


class _Trouble(Exception):
    """What is wrong with a file that the system had nothing to say about."""


def _read(fd: int, name: str, status: os.stat_result, cap_bytes: int) -> tuple[bytes, os.stat_result]:
    """Read a file whole, or say that it was not the same before and after."""
    inner = os.open(name, _FLAGS, dir_fd=fd)
    try:
        opened = os.fstat(inner)
        if (opened.st_dev, opened.st_ino) != (status.st_dev, status.st_ino) or not stat.S_ISREG(opened.st_mode):
            raise _Trouble("it was exchanged while it was opened")
        parts: list[bytes] = []
        left = cap_bytes + 1
        while left > 0 and (part := os.read(inner, min(_BLOCK, left))):
            parts.append(part)
            left -= len(part)
        after = os.fstat(inner)
        data = b"".join(parts)
        if (after.st_size, after.st_mtime_ns) != (opened.st_size, opened.st_mtime_ns) or len(data) != opened.st_size:
            raise _Trouble("it changed while it was read")
        return data, after
    finally:
        os.close(inner)


def _said(error: OSError) -> str:
    return complaint(error)[0]


def _printable(path: str) -> str:
    return path.encode("utf-8", "backslashreplace").decode()


def _mounts(root: str) -> frozenset[str]:
    """Paths below the root on which something is mounted, as far as the system tells."""
    found = set()
    with contextlib.suppress(OSError, ValueError, IndexError):
        for line in Path("/proc/self/mountinfo").read_bytes().splitlines():
            point = re.sub(rb"\\([0-7]{3})", lambda m: bytes((int(m[1], 8),)), line.split(b" ")[4])
            name = os.fsdecode(point)
            if name.startswith(root.rstrip("/") + "/"):
                found.add(name[len(root.rstrip("/")) + 1 :])
    return frozenset(found)


def _is_store(place: Class, name: str) -> bool:
    """Whether it is binary by its suffix: a JSON file in a folder of vectors is not."""
    return place == "store" or (place == "vectors" and seen(name).kind == "vectors" and not _TEXT.search(name))


_TEXT = re.compile(r"\.(?:json|jsonl|ndjson|md|txt|csv|tsv|yaml|yml|toml|xml|html?)\Z", re.IGNORECASE)


def _packed(names: tuple[str, ...]) -> tuple[Class, ...]:
    kinds: Iterator[Class] = (seen(name).kind for name in names if name and not name.endswith("/"))
    return tuple(sorted({kind for kind in kinds if kind in DURABLE}))


def _open_mark(name: str, place: Class, data: bytes | None, size: int) -> str:
    """What shows that somebody was still writing; "" where nothing does."""
    if place not in DURABLE and place != "pointer":
        return ""
    if _OPEN_NAME.search(name) is not None:
        return "a lock or a file half written, by its name"
    if _JOURNAL.search(name) is not None and size:
        return "a journal that was not taken in"
    if data is None:
        return ""
    low = name.lower()
    if not data and low.endswith((".json", ".jsonl")):
        return "it is empty"
    if low.endswith(".json"):
        return "" if _is_json(data) else "it is no whole JSON text"
    if low.endswith((".jsonl", ".ndjson")):
        last = data.rstrip(b"\r\n").rpartition(b"\n")[2]
        return "" if _is_json(last) else "its last line is no whole JSON text"
    return ""


def _is_json(data: bytes) -> bool:
    try:
        json.loads(data)
    except (ValueError, RecursionError):
        return False
    return True
