"""Where runs lie: from what a person types for one, an id or a folder, to its folder."""

import shlex
from pathlib import Path

from drillmaster import strict
from drillmaster.errors import Problem
from drillmaster.intake import is_there

__all__ = ["find_run", "latest", "run_ids", "short"]

RUNS = Path("runs")


def run_ids(runs: Path = RUNS) -> list[str]:
    """The ids of the runs that lie in a folder, oldest first; none where there is no such folder."""
    try:
        return sorted(entry.name for entry in runs.iterdir() if (entry / "manifest.json").is_file())
    except OSError:
        return []


def latest(runs: Path = RUNS) -> Path | None:
    """The newest run of a folder; its id begins with the time."""
    ids = run_ids(runs)
    return runs / ids[-1] if ids else None


def find_run(named: str | Path, *, runs: Path = RUNS) -> Path:
    """The folder of the run that a person named: by its folder, or by its id (or how that begins) in `runs`.

    A folder that is no run, or a file, is returned as it is: who opens it says what is wrong with it. Raises Problem
    where there is nothing of that name, or more than one.
    """
    path = Path(named)
    if is_there(path):
        return path
    ids = run_ids(runs)
    word = path.name if path.parent in (Path(), runs) else ""
    begin_so = [run for run in ids if word and run.startswith(word)]
    if len(begin_so) == 1:
        return runs / begin_so[0]
    if begin_so:
        raise Problem(
            str(named),
            found=f"{len(begin_so)} runs that begin so",
            wanted="one",
            remedy=f"add to it: {', '.join(begin_so[:4])}{', ...' if len(begin_so) > 4 else ''}",
        )
    meant = strict.near(word, ids) if word else None
    if meant:
        remedy = f"Did you mean {runs / meant}?"
    elif ids:
        remedy = f"name one, by folder or id; the latest is {runs / ids[-1]}"
    else:
        remedy = "name its folder; `drillmaster demo` makes one"
    raise Problem(str(named), found="no such run", wanted="a run's folder, or its id", remedy=remedy)


def short(path: Path) -> str:
    """Name a path as one would type it here, for a shell."""
    try:
        absolute, here = path.absolute(), Path.cwd()
    except FileNotFoundError:  # the folder we stand in is gone
        return shlex.quote(str(path))
    inside = absolute.is_relative_to(here) and absolute != here
    return shlex.quote(str(absolute.relative_to(here) if inside else path))
