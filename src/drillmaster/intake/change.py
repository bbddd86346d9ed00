"""What code a run was made with: commit and dirt of a working tree, by `intake.git`.

1. Nothing of the tree's own configuration runs: no hooks, no fsmonitor, no external diff, no textconv, no clean filter,
   no pager, no prompt. A repository is data here, and some of it may have been written by a model.
2. Dirt is `git diff HEAD` plus untracked files that are code by their suffix. An agent's own log, database or state
   file, written while the drill runs, is no change of code.
3. No git, no repository, one without a commit, no answer in time: unknown (None). It is recorded as such; what it means is
   the gate's affair.
"""

import hashlib
import os
import re
import stat
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Literal

import msgspec

from drillmaster.intake.git import ask

__all__ = ["Change", "LastChange", "authors_of", "change_of", "last_change"]

CODE_SUFFIXES = frozenset({
    ".c", ".cc", ".cfg", ".cjs", ".clj", ".conf", ".cpp", ".cs", ".ex", ".exs", ".go", ".h", ".hs", ".ini", ".java",
    ".jinja", ".jinja2", ".js", ".jsx", ".kt", ".lua", ".mjs", ".php", ".pl", ".prompt", ".py", ".pyi", ".rb", ".rs",
    ".scala", ".sh", ".sql", ".swift", ".tmpl", ".toml", ".ts", ".tsx", ".yaml", ".yml",
})  # fmt: skip  # words, a line at a time
_PAYLOADS = frozenset({".csv", ".json", ".jsonl", ".txt"})
_MAX_DIFF_BYTES = 64 * 1024 * 1024
_MAX_FILE_BYTES = 4 * 1024 * 1024
_MAX_UNTRACKED = 2_000


class Change(msgspec.Struct, frozen=True):
    """`commit` in full hex; `dirt_sha256` is the same for two trees that differ from it in the same way."""

    commit: str
    dirt_sha256: str
    dirty: bool


class LastChange(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Who changed a file last, by the commit that did."""

    commit: str | None
    """None: as it is, the file is not committed."""
    authors: tuple[str, ...] = ()
    """Its author and who wrote with them, as `Name <address>`."""
    alone: bool = True
    """Whether the commit changed no other code, plan or payload."""
    when: Literal["before", "same", "after"] | None = None
    """Against the commit that was asked about; None: the two cannot be put in order."""


def change_of(path: Path, *, exclude: Iterable[Path] = (), timeout_s: float = 10.0) -> Change | None:
    """Read commit and dirt of the tree that holds `path`; None where that is unknown.

    `exclude` are folders that are written while the drill runs (the runs folder). `timeout_s` bounds each call of git.
    """
    top_bytes = _git(path, ["rev-parse", "--show-toplevel"], timeout_s)
    commit = _git(path, ["rev-parse", "--verify", "HEAD^{commit}"], timeout_s)
    if top_bytes is None or commit is None:
        return None
    top = Path(os.fsdecode(top_bytes.rstrip(b"\n")))
    plain = _no_filters(top, timeout_s)
    besides = [f":(exclude,top,literal){inside}" for inside in _inside(top, exclude)]
    spec = ["--", ":/", *besides]
    diff = ["diff", "--no-ext-diff", "--no-textconv", "--no-color", "--full-index", "--ignore-submodules=dirty"]
    changed = _git(top, [*plain, *diff, "HEAD", *spec], timeout_s)
    untracked = _git(top, [*plain, "ls-files", "--others", "--exclude-standard", "-z", *spec], timeout_s)
    if changed is None or untracked is None:
        return None
    digest = hashlib.sha256(changed)
    names = sorted(n for n in untracked.split(b"\0") if n and _is_code(n))
    for name in names[:_MAX_UNTRACKED]:
        digest.update(b"\0untracked\0" + name + b"\0" + _content(top / os.fsdecode(name)))
    return Change(commit.decode("ascii", "replace").strip(), digest.hexdigest(), bool(changed or names))


def authors_of(files: Iterable[Path], *, timeout_s: float = 10.0) -> tuple[str, ...] | None:
    """List who git says wrote these files, and who with them (`Co-authored-by`), as `Name <address>`, sorted.

    Of a file that was moved also who wrote it where it lay before. Names as they were committed: a `.mailmap` of the tree could
    call anybody somebody else. None where it is unknown of one
    of them: no git, a shallow clone, a file that was never committed or differs from what was.
    """
    found: set[str] = set()
    for file in files:
        path = file.absolute()
        if _git(path.parent, ["rev-parse", "--is-shallow-repository"], timeout_s) != b"false\n":
            return None
        plain = _no_filters(path.parent, timeout_s)
        here = ["--", f":(literal){path.name}"]
        clean = _git(path.parent, [*plain, "status", "--porcelain", "--ignored", "-z", *here], timeout_s)
        form = "--format=%an <%ae>%n%(trailers:key=Co-authored-by,valueonly)"
        said = _git(path.parent, ["log", "--no-show-signature", "--no-mailmap", "--follow", form, *here], timeout_s)
        if clean != b"" or not said:
            return None
        found |= {line.strip() for line in said.decode("utf-8", "replace").splitlines() if line.strip()}
    return tuple(sorted(found)) or None


def last_change(file: Path, *, at: str | None = None, timeout_s: float = 10.0) -> LastChange | None:
    """Say who git says changed a file last, and whether before the commit `at`, in it, or after it.

    None where that is unknown: no git, no repository, a shallow clone, no answer in time.
    """
    path = file.resolve()
    if not any((folder / ".git").exists() for folder in path.parents):
        return None
    folder = path.parent
    if _git(folder, ["rev-parse", "--is-shallow-repository"], timeout_s) != b"false\n":
        return None
    plain = _no_filters(folder, timeout_s)
    here = ["--", f":(literal){path.name}"]
    clean = _git(folder, [*plain, "status", "--porcelain", "--ignored", "-z", *here], timeout_s)
    name = _git(folder, ["ls-files", "--full-name", "-z", *here], timeout_s)
    if clean is None or name is None:
        return None
    if clean or not name:
        return LastChange(commit=None)
    form = "--format=%H%n%an <%ae>%n%(trailers:key=Co-authored-by,valueonly)"
    said = _git(folder, ["log", "-1", "--no-show-signature", "--no-mailmap", form, *here], timeout_s)
    lines = [line.strip() for line in (said or b"").decode("utf-8", "replace").splitlines() if line.strip()]
    if len(lines) < 2:
        return None
    commit, *authors = lines
    listed = _git(folder, ["diff-tree", "--root", "-m", "-r", "-z", "--name-only", "--no-commit-id", commit], timeout_s)
    if listed is None:
        return None
    own = name.rstrip(b"\0")
    others = [one for one in listed.split(b"\0") if one and one != own and not one.startswith(own + b".")]
    alone = not any(_is_code(one) or Path(os.fsdecode(one)).suffix.lower() in _PAYLOADS for one in others)
    return LastChange(commit=commit, authors=tuple(authors), alone=alone, when=_when(folder, commit, at, timeout_s))


def _when(folder: Path, commit: str, at: str | None, timeout_s: float) -> Literal["before", "same", "after"] | None:
    """Where a commit stands to another; a branch that parted from it counts as after."""
    if at is None or not re.fullmatch(r"[0-9a-f]{40}|[0-9a-f]{64}", at):
        return None
    if at == commit:
        return "same"
    if _git(folder, ["rev-parse", "--verify", "--quiet", f"{at}^{{commit}}"], timeout_s) is None:
        return None
    met = _git(folder, ["merge-base", commit, at], timeout_s)
    return "before" if met is not None and met.decode("ascii", "replace").strip() == commit else "after"


def _no_filters(top: Path, timeout_s: float) -> list[str]:
    """Options that switch off each clean filter the configuration names; there is no one switch for all."""
    listed = _git(top, ["config", "--null", "--name-only", "--get-regexp", r"^filter\..*\.(clean|process)$"], timeout_s)
    drivers = sorted({os.fsdecode(name).rsplit(".", 1)[0] for name in (listed or b"").split(b"\0") if name})
    return [
        part
        for driver in drivers
        for key in ("clean=", "process=", "required=false")
        for part in ("-c", f"{driver}.{key}")
    ]


def _inside(top: Path, exclude: Iterable[Path]) -> list[str]:
    found = []
    for folder in exclude:
        try:
            inside = folder.resolve().relative_to(top.resolve())
        except ValueError:
            continue
        if inside.parts:
            found.append(inside.as_posix())
    return found


def _is_code(name: bytes) -> bool:
    return Path(os.fsdecode(name)).suffix.lower() in CODE_SUFFIXES


def _content(path: Path) -> bytes:
    """Digest a file's bytes; a link by where it points, a big file by its size."""
    try:
        status = path.lstat()
        if stat.S_ISLNK(status.st_mode):
            return b"link " + os.fsencode(path.readlink())
        if not stat.S_ISREG(status.st_mode):
            return b"special"
        if status.st_size > _MAX_FILE_BYTES:
            return b"%d bytes" % status.st_size
        return hashlib.sha256(path.read_bytes()).digest()
    except OSError:
        return b"unreadable"


def _git(path: Path, args: Sequence[str], timeout_s: float) -> bytes | None:
    return ask(path, args, timeout_s=timeout_s, cap_bytes=_MAX_DIFF_BYTES)
