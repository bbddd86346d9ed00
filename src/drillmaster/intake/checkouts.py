"""Whether a folder on the disk is what a change has there.

1. Gates that judge commits read them as objects. A folder is read from the disk, and on a runner that has the base checked out
   the disk shows the base: a change would pass on what it does not hold.
2. The folder stands for the change where its tree at the checkout's commit is the change's own, or where that commit contains
   the change, as a trial merge does.
3. A folder that belongs to no checkout of the repository is no part of any change: it is taken as it is.
"""

import os
import shlex
from pathlib import Path
from typing import TYPE_CHECKING

from drillmaster.errors import Problem, one_line

if TYPE_CHECKING:
    from drillmaster.intake.git import Repository

__all__ = ["must_hold_the_change", "place_of"]

_WAIT_S = 30.0


def must_hold_the_change(folder: Path, repo: "Repository", head: str) -> None:
    """Raise Problem where `folder` lies in a checkout of `repo` that shows another state of it than `head` does."""
    from drillmaster.intake.git import ask

    where = Path(os.path.realpath(folder))
    top = _checkout(where, repo)
    if top is None:
        return
    path = where.relative_to(top).as_posix()
    path = "" if path == "." else path
    here = _line(top, "rev-parse", "--verify", "--quiet", "HEAD^{commit}")
    if here == head or (here is not None and _tree(top, here, path) == _tree(top, head, path)):
        return
    if here is not None and ask(top, ["merge-base", "--is-ancestor", head, here], timeout_s=_WAIT_S) is not None:
        return
    raise Problem(
        one_line(str(folder)),
        found=f"the state of {(here or 'no commit')[:12]} on the disk, and another in the change's {head[:12]}",
        wanted="the folder as the change has it",
        remedy=f"git worktree add --detach ../change {head[:12]}, and name {shlex.quote(f'../change/{path}')} instead",
    )


def place_of(folder: Path, repo: "Repository | None") -> str:
    """Say where a folder lies, from the root of the checkout that it belongs to, without one from the folder we stand in.

    "": it is that root, or lies nowhere below it.
    """
    where = Path(os.path.realpath(folder))
    top = (None if repo is None else _checkout(where, repo)) or Path.cwd().resolve()
    path = where.relative_to(top).as_posix() if where.is_relative_to(top) else "."
    return "" if path == "." else path


def _checkout(where: Path, repo: "Repository") -> Path | None:
    """Find the checkout of `repo` that a folder belongs to; None: it belongs to none."""
    there = where
    while not there.is_dir() and there != there.parent:
        there = there.parent
    top = _line(there, "rev-parse", "--show-toplevel")
    if top is not None and _objects(Path(top)) == _objects(repo.path):
        return Path(os.path.realpath(top))
    # A repository within the repository: to the outer one it is a folder that it has, or does not.
    outer = Path(os.path.realpath(repo.path))
    return outer if where.is_relative_to(outer) else None


def _objects(top: Path) -> str | None:
    said = _line(top, "rev-parse", "--git-common-dir")
    return None if said is None else os.path.realpath(top / said)


def _tree(top: Path, commit: str, path: str) -> str | None:
    return _line(top, "rev-parse", "--verify", "--quiet", f"{commit}:{path}")


def _line(folder: Path, *args: str) -> str | None:
    from drillmaster.intake.git import ask

    said = ask(folder, args, timeout_s=_WAIT_S)
    return None if said is None else os.fsdecode(said).removesuffix("\n")
