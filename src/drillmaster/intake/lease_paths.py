"""What the repository's paths of locks and prompts hold: as they were committed where a change is judged, else as they lie there.

1. A path that is not there is told as that, and so is a file that is no UTF-8, too large, a link, or kept elsewhere with only its
   pointer here (LFS). Nothing is passed over.
2. Of each line only its number is kept, and which of our own words it has.
"""

import os
from collections.abc import Iterator
from pathlib import Path

from drillmaster.errors import Problem, one_line
from drillmaster.gates._leases_evidence import Path as Searched
from drillmaster.gates._leases_words import Hit, hits_of
from drillmaster.gates.leases import Leases
from drillmaster.intake import is_there, read_bytes
from drillmaster.intake.git import Repository

__all__ = ["committed", "lying"]

_FILE_CAP_BYTES = 4 << 20
_MOST_FILES = 20_000
_POINTER = b"version https://git-lfs.github.com/spec/"


def committed(gate: Leases, repo: Repository, commit: str) -> tuple[Searched, ...]:
    """Search the paths of a commit."""
    found = []
    for role, path in _paths(gate):
        tree = repo.tree(commit, path)
        entries = {name: entry for name, entry in tree.items() if name == path or name.startswith(f"{path}/")}
        _bound(path, len(entries))
        blobs = repo.blobs(
            (one.sha for one in entries.values() if one.mode.startswith("100")), cap_bytes=_FILE_CAP_BYTES
        )
        files = {
            name: blobs.get(entry.sha) if entry.mode.startswith("100") else None for name, entry in entries.items()
        }
        found.append(_searched(role, path, "" if entries else f"not there at {commit[:12]}", files))
    return tuple(found)


def lying(gate: Leases, folder: Path) -> tuple[Searched, ...]:
    """Search the paths as they lie below a folder."""
    found = []
    for role, path in _paths(gate):
        place = folder / path
        if not is_there(place):
            found.append(_searched(role, path, "not there", {}))
            continue
        names = [path] if not place.is_dir() else list(_below(place, path))
        _bound(path, len(names))
        found.append(_searched(role, path, "", {name: _content(folder / name) for name in names}))
    return tuple(found)


def _paths(gate: Leases) -> Iterator[tuple[str, str]]:
    for role, paths in (("locks", gate.lock_paths), ("prompts", gate.prompt_paths)):
        yield from ((role, os.path.normpath(path)) for path in paths)


def _below(place: Path, path: str) -> Iterator[str]:
    def stop(error: OSError) -> None:
        raise Problem(
            os.fsdecode(error.filename or place),
            found="a folder that cannot be read",
            wanted="one that can",
            remedy="chmod u+rx it",
        ) from None

    for here, folders, names in os.walk(place, onerror=stop):
        folders[:] = sorted(one for one in folders if one != ".git")
        inside = f"{path}/{Path(here).relative_to(place).as_posix()}".removesuffix("/.")
        # A link to a folder is not gone into, and is told as a file that could not be read.
        yield from (
            f"{inside}/{name}" for name in sorted([*names, *(one for one in folders if Path(here, one).is_symlink())])
        )


def _content(path: Path) -> bytes | None:
    try:
        return None if path.is_symlink() else read_bytes(path, _FILE_CAP_BYTES)
    except Problem:
        return None


def _searched(role: str, path: str, missing: str, files: dict[str, bytes | None]) -> Searched:
    unread: list[str] = []
    hits: list[Hit] = []
    read = 0
    for name, data in sorted(files.items()):
        shown = one_line(name)
        try:
            text = None if data is None or b"\0" in data or data.startswith(_POINTER) else data.decode()
        except UnicodeDecodeError:
            text = None
        if text is None:
            unread.append(shown)
            continue
        read += 1
        hits += hits_of(text, shown)
    return Searched(
        path=one_line(path),
        role="locks" if role == "locks" else "prompts",
        missing=missing,
        files=read,
        unread=tuple(unread),
        hits=tuple(hits),
    )


def _bound(path: str, n: int) -> None:
    if n > _MOST_FILES:
        raise Problem(
            path, found=f"{n:,} files", wanted=f"at most {_MOST_FILES:,}", remedy="name the folder of prompts itself"
        )
