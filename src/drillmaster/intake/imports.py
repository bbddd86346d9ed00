"""Evidence of the gate `imports`: the pinned modules of a repository, and all of its own that is loaded with them.

1. With a base, modules are those of the change's head, as they were committed. Without one they are read from the disk.
2. Only what is reached is read: the pinned modules, then what they import of the repository, until nothing is new.
3. A link is not followed, and a submodule is not entered: each stands in the evidence as what it is.
"""

import hashlib
import os
import stat
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from drillmaster.errors import Problem
from drillmaster.gates import Gate
from drillmaster.gates._imports_graph import Paths, is_data, scanned
from drillmaster.gates._imports_shapes import Modules, Unparsed
from drillmaster.gates.imports import Imports, pinned_of
from drillmaster.intake import read_bytes
from drillmaster.intake.judging import Asked, Gathered

if TYPE_CHECKING:
    from drillmaster.intake.authority import Authority
    from drillmaster.intake.git import Entry

__all__ = ["gather_imports"]

MAX_FILE_BYTES = 4 << 20
MAX_MODULES = 20_000
MAX_PATHS = 500_000
_FILES = ("100644", "100755")
_PASSED_OVER = frozenset(
    {".git", ".hg", ".svn", ".venv", "venv", "node_modules", "__pycache__", ".tox", ".nox", ".mypy_cache", ".ruff_cache"}
)  # fmt: skip  # words
"""Folders of a working tree that hold nothing of the repository's own."""


def gather_imports(gate: Gate[Any], asked: Asked, authority: "Authority | None") -> Gathered:
    """Give what `judged` calls for evidence. Raises Problem."""
    assert isinstance(gate, Imports)
    source: _Disk | _Commits = _Disk(_top(asked.repo)) if authority is None else _Commits(authority)
    paths = tuple(sorted(source.paths))
    files = _closure(gate, source, paths)
    evidence = Modules(
        place=source.place,
        files=files,
        paths=paths,
        now_ns=asked.now_ns,
        links=frozenset(source.links),
        before=source.before,
    )
    whole = hashlib.sha256()
    for path in sorted(files):
        whole.update(os.fsencode(path) + b"\0" + hashlib.sha256(files[path]).digest())
    for path in sorted(source.links & set(paths)):
        whole.update(b"link\0" + os.fsencode(path) + b"\0")
    return Gathered(
        evidence=evidence,
        subject=source.place,
        digest=f"sha256:{whole.hexdigest()}",
        counts={
            "pinned": len(pinned_of(gate, paths)),
            "modules": len(files),
            "paths": len(paths),
            "exceptions": len(gate.exceptions),
        },
    )


def _closure(gate: Imports, source: "_Disk | _Commits", paths: tuple[str, ...]) -> dict[str, bytes]:
    known = Paths(paths, gate.roots)
    files: dict[str, bytes] = {}
    waiting = list(pinned_of(gate, paths))
    met = set(waiting)
    while waiting:
        if len(met) > MAX_MODULES:
            raise Problem(
                "gate imports",
                found=f"more than {MAX_MODULES:,} modules that are loaded with the pinned ones",
                wanted="a part of the repository that decides",
                remedy="pin the modules that decide, and not all that there is",
            )
        read = source.read(waiting)
        files |= read
        after = []
        for path in waiting:
            if path not in read or is_data(path):
                continue
            try:
                scan = scanned(path, read[path])
            except Unparsed:
                continue  # the gate says so
            for edge in known.edges(path, scan):
                if edge.path not in met:
                    met.add(edge.path)
                    after.append(edge.path)
        waiting = after
    return files


def _top(folder: Path) -> Path:
    """Give the root of the repository that a folder lies in; the folder itself where there is none."""
    from drillmaster.intake.git import Repository

    try:
        return Repository.at(folder).path
    except Problem:
        return folder


class _Disk:
    """Rule 1, without a base."""

    before: tuple[str, ...] = ()

    def __init__(self, root: Path) -> None:
        self.place = os.path.normpath(root)
        self._root = root
        self.links: set[str] = set()
        self.paths: list[str] = []
        if not root.is_dir():
            raise Problem(
                self.place, found="no folder", wanted="the root of a repository", remedy="name it: --repo FOLDER"
            )
        for folder, names, files in os.walk(root):
            inner = [one for one in names if one not in _PASSED_OVER]
            names[:] = [one for one in inner if not os.path.islink(f"{folder}/{one}")]  # noqa: PTH114 - as os.walk has it
            below = os.path.relpath(folder, root)
            for name in (*files, *(one for one in inner if one not in names)):
                self._add(folder, name if below == "." else f"{below}/{name}", name)
            if len(self.paths) > MAX_PATHS:
                raise Problem(
                    self.place,
                    found=f"more than {MAX_PATHS:,} files",
                    wanted="a repository",
                    remedy="name its root, or judge what was committed: --base origin/main",
                )

    def _add(self, folder: str, path: str, name: str) -> None:
        try:
            regular = stat.S_ISREG(Path(folder, name).lstat().st_mode)
        except OSError:
            regular = False
        self.paths.append(path)
        if not regular:
            self.links.add(path)

    def read(self, paths: Iterable[str]) -> dict[str, bytes]:
        return {one: read_bytes(self._root / one, MAX_FILE_BYTES) for one in paths if one not in self.links}


class _Commits:
    """Rule 1, with a base."""

    def __init__(self, authority: "Authority") -> None:
        if authority.head is None or authority.fork is None:
            raise Problem("--head", found="nothing", wanted="the commit that is judged", remedy="add --head HEAD")
        self._repo = authority.repo
        self._tree: dict[str, Entry] = authority.repo.tree(authority.head)
        self.place = f"{authority.fork[:12]}..{authority.head[:12]}"
        self.paths = list(self._tree)
        self.links = {path for path, entry in self._tree.items() if entry.mode not in _FILES}
        self.before = tuple(sorted(authority.repo.tree(authority.fork)))

    def read(self, paths: Iterable[str]) -> dict[str, bytes]:
        wanted = {one: self._tree[one].sha for one in paths if one not in self.links}
        blobs = self._repo.blobs(wanted.values(), cap_bytes=MAX_FILE_BYTES)
        return {one: blobs[sha] for one, sha in wanted.items() if sha in blobs}
