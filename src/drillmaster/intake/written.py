"""What is written about a run for people: from its folder to a form, and a form to its file.

1. A form shows the verdict that `gate` left in the folder, never one made on the side. It has to be of this evidence: a
   verdict whose evidence digest is not the folder's is refused.
2. A file is written whole or not at all. One that people write into (an issue) is never replaced.
"""

import contextlib
import errno
import os
import shlex
from pathlib import Path

from drillmaster import reports
from drillmaster.errors import Problem
from drillmaster.intake.run import open_run
from drillmaster.intake.verdicts import stored
from drillmaster.reports import RunView
from drillmaster.verdict import Verdict

__all__ = ["judged_run", "write_card", "write_new", "write_page", "write_whole"]


def judged_run(run_dir: Path) -> tuple[Verdict, RunView]:
    """Read a run folder and its verdict. `Problem`, with the command that makes one, where there is none of this run."""
    run = open_run(run_dir)
    verdict = stored(run_dir)
    again = f"drillmaster gate eviction {shlex.quote(_short(run_dir))}"
    if verdict.evidence_digest != run.digest:
        raise Problem(
            str(run_dir / "verdict.json"),
            found=f"a verdict on other evidence ({verdict.evidence_digest[:19] or 'unsealed'})",
            wanted=f"one on this seal ({run.digest[:19] or 'none'})",
            remedy=again,
        )
    return verdict, reports.view(run, verdict, gate_command=again)


def _short(path: Path) -> str:
    """Name a path as one would type it here: a card is read on other machines, where this one's folders mean nothing."""
    absolute, here = path.absolute(), Path.cwd()
    return str(absolute.relative_to(here)) if absolute.is_relative_to(here) and absolute != here else str(path)


def write_card(run_dir: Path, out: Path | None = None) -> tuple[Path, str]:
    """Write the card of a judged run, `card.md` in its folder unless `out` says otherwise; gives path and text."""
    verdict, view = judged_run(run_dir)
    text = reports.form("card").render(verdict, view)
    return write_whole(out if out is not None else run_dir / "card.md", text), text


def write_page(run_dir: Path, out: Path | None = None) -> Path:
    """Write the page of a judged run, `report.html` in its folder unless `out` says otherwise."""
    verdict, view = judged_run(run_dir)
    page = reports.form("html").render(verdict, view)
    return write_whole(out if out is not None else run_dir / "report.html", page)


def write_whole(path: Path, text: str) -> Path:
    """Write a file by way of a draft beside it, so that no reader sees half. Makes its folder. `Problem` if it cannot."""
    draft = path.parent / f".{path.name[:80]}.{os.getpid()}.new"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        draft.write_text(text, encoding="utf-8")
        draft.replace(path)
    except OSError as error:
        with contextlib.suppress(OSError):
            draft.unlink()
        raise _unwritable(path, error) from None
    return path


def write_new(path: Path, text: str) -> bool:
    """Write a file that is not there yet; False, and nothing is touched, where there is one."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        if not path.is_file():  # a folder, a dangling link, or the folder's own name is a file's
            raise _unwritable(path, FileExistsError(errno.EEXIST, "something of that name in the way")) from None
        return False
    except OSError as error:
        raise _unwritable(path, error) from None
    return True


def _unwritable(path: Path, error: OSError) -> Problem:
    return Problem(
        str(path),
        found=(error.strerror or type(error).__name__).lower(),
        wanted="a place that can be written",
        remedy="name another one",
    )
