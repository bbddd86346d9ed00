"""`drillmaster matrix`: the table of a fault matrix that was run, read again from its folder."""

import os
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from drillmaster.cli import _completions as completions

if TYPE_CHECKING:
    from drillmaster.errors import Exit
    from drillmaster.matrix import Table

__all__ = ["command", "show", "table_of"]


@click.command("matrix")
@click.argument("run", metavar="RUN", type=click.Path(path_type=Path), shell_complete=completions.runs)
@click.option(
    "--html", metavar="FILE", type=click.Path(path_type=Path), help="Write the table as one HTML page; - prints it."
)
@click.option("--json", "as_json", is_flag=True, help="Print the table as JSON.")
def command(run: Path, html: Path | None, as_json: bool) -> None:
    """Print the table of a fault matrix: each cell in a word and what is behind it, and what was not run and why.

    RUN is a run of `drillmaster run matrix`, by folder or id. The table is read from the sealed evidence and from nothing
    else, so that whoever has the folder reads the same. Exit code as of the drill: 0 no cell failed more users than its policy
    allows (without one: measured), 1 one did, 2 nothing was settled or cells that should have been run were not, 3 stopped.

    \b
    Examples:
      drillmaster matrix runs/20261129T153000Z-1a2b
      drillmaster matrix 20261129T15 --json
      drillmaster matrix 20261129T15 --html matrix.html
    """
    from drillmaster.intake.matrix import open_matrix
    from drillmaster.intake.runs import find_run
    from drillmaster.intake.written import STDOUT

    if html == STDOUT and as_json:
        raise click.UsageError("--html - prints the page: it does not go with --json")
    found = find_run(run)
    show(open_matrix(found), found, html=html, as_json=as_json, must_write=True)


def table_of(run_dir: Path, ended: "Exit", why: str) -> "Table":
    """Read the table of a drill that is over. Raises Problem; of a stopped drill's folder, with that drill's own exit code."""
    from drillmaster.errors import Aborted, Exit, Problem
    from drillmaster.intake.matrix import open_matrix

    try:
        return open_matrix(run_dir)
    except Problem as problem:
        if ended is not Exit.ABORTED:
            raise
        raise Aborted(
            problem.place,
            found=f"{problem.found} (the drill was stopped: {why})",
            wanted=problem.wanted,
            remedy=problem.remedy,
        ) from None


def show(table: "Table", run_dir: Path, *, html: Path | None, as_json: bool, must_write: bool) -> None:
    """Print the table, write its page where one is asked for, and end the process with its exit code.

    `must_write`: it was a person who asked for the page, so that one which cannot be written makes a good end a refused one.
    """
    import msgspec

    from drillmaster.cli import say_json
    from drillmaster.errors import Exit, Problem, one_line
    from drillmaster.intake.runs import short
    from drillmaster.intake.written import STDOUT, write_whole
    from drillmaster.matrix.page import render
    from drillmaster.matrix.reading import exit_of
    from drillmaster.matrix.telling import lines
    from drillmaster.reports import form

    code = exit_of(table)
    if html == STDOUT:
        click.echo(render(table), nl=False)
        sys.exit(code)
    written, problem = None, None
    if html is not None:
        # The drill is over and its evidence sealed: a page that cannot be written is told, and the table printed all the same.
        away = os.path.relpath(run_dir.absolute(), html.absolute().parent)
        try:
            written = write_whole(html, render(table, beside="" if away == "." else f"{away}/"))
        except Problem as found:
            problem = found
    end = code or (Exit.REFUSED if problem is not None and must_write else Exit.PASS)
    if as_json:
        page = {} if written is None else {"html": one_line(str(written))}
        say_json({**msgspec.to_builtins(table), "exit": int(end), **page})
    else:
        colour = form("text").colour_wanted(os.environ, is_terminal=sys.stdout.isatty())
        columns = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
        for line in lines(table, colour=colour, columns=columns):
            click.echo(line, color=colour)
        if written is not None:
            click.echo(f"page:   {short(written)}")
    if problem is not None:
        click.echo(f"drillmaster: {problem}", err=True)
    sys.exit(end)
