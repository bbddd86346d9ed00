"""What is written about a run for people: from its folder to a form, and a form to its file.

1. A form shows the verdict that `gate` left in the folder, and only if the sealed run and its policy copy give the same
   one again (`intake.verdicts.again`). What is shown is the one that was given again.
2. A file is written whole or not at all, and takes the place of a regular file or of nothing: no device, no link. One
   that people write into (an issue) is never replaced.
"""

import contextlib
import errno
import os
import shlex
from pathlib import Path
from typing import TYPE_CHECKING

from drillmaster import strict
from drillmaster.errors import Problem, Refused
from drillmaster.intake import read_bytes
from drillmaster.timeline import opening
from drillmaster.verdict import Verdict

if TYPE_CHECKING:
    from drillmaster.reports._view import RunView

__all__ = ["STDOUT", "is_interview", "judged_run", "write_new", "write_whole"]

_MANIFEST_CAP_BYTES = 16 << 20
STDOUT = Path("-")
"""As the name of a file to write: print it and write none. For the command line; `write_whole` knows no such name."""


def is_interview(run_dir: Path) -> bool:
    """Say by its manifest whether a run is an interview; of one that cannot be read, whoever opens it says what is wrong."""
    path = run_dir / "manifest.json"
    with contextlib.suppress(Problem, AttributeError):
        return bool(
            strict.load(read_bytes(path, _MANIFEST_CAP_BYTES), place=str(path), fmt="json").get("drill") == "interview"
        )
    return False


def judged_run(run_dir: Path) -> "tuple[Verdict, RunView]":
    """Read a run folder and give its verdict again. `Problem`, with the one command, where verdict.json is not that."""
    from drillmaster.intake import verdicts
    from drillmaster.intake.run import open_run
    from drillmaster.reports._view import view

    command = f"drillmaster gate eviction {shlex.quote(_short(run_dir))}"
    run = open_run(run_dir)
    if run.manifest is not None and run.manifest.drill == "matrix":
        raise Refused(
            str(run_dir),
            found="a fault matrix",
            wanted="a run that a gate judges; a matrix has a table and a page of its own",
            remedy=f"drillmaster matrix {shlex.quote(_short(run_dir))} --html matrix.html",
        )
    verdict = verdicts.again(run, run_dir, command=command)
    return verdict, view(run, verdict, gate_command=command)


def _short(path: Path) -> str:
    """Name a path as one would type it here: a card is read on other machines, where this one's folders mean nothing."""
    try:
        absolute, here = path.absolute(), Path.cwd()
    except FileNotFoundError:  # the folder we stand in is gone
        return str(path)
    return str(absolute.relative_to(here)) if absolute.is_relative_to(here) and absolute != here else str(path)


def write_whole(path: Path, text: str, *, instead: str = "name another one") -> Path:
    """Write a file so that no reader sees half. Makes its folder. `Problem` if it cannot, or something else is there.

    `instead` is what a person can do where the place cannot be written, as in a run folder that is read-only.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        opening.write_whole(path, text.encode("utf-8", "backslashreplace"))
    except OSError as error:
        raise _unwritable(path, error, instead) from None
    return path


def write_new(path: Path, text: str) -> bool:
    """Write a file that is not there yet; False, and nothing is touched, where there is one."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("xb") as file:
            try:
                file.write(text.encode("utf-8", "backslashreplace"))
                file.flush()
            except OSError:  # half an issue would be kept as somebody's own
                path.unlink(missing_ok=True)
                raise
    except FileExistsError:
        with contextlib.suppress(OSError):
            if path.is_file():
                return False
        # A folder, a dangling link, or the folder's own name is a file's.
        raise _unwritable(path, FileExistsError(errno.EEXIST, "something of that name in the way")) from None
    except OSError as error:
        raise _unwritable(path, error) from None
    return True


def _unwritable(path: Path, error: OSError, instead: str = "name another one") -> Problem:
    if error.errno == errno.EINVAL:
        found = "something that is no regular file (a link, a folder, a FIFO or a device)"
        return Problem(str(path), found=found, wanted="a file, or nothing yet", remedy="name a file, or - to print it")
    return Problem(
        os.fspath(path),
        found=(error.strerror or type(error).__name__).lower(),
        wanted="a place that can be written",
        remedy=instead,
    )
