"""`drillmaster matrix`: the table of a fault matrix that was run, read again from its folder."""

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from drillmaster.cli import _completions as completions

if TYPE_CHECKING:
    from drillmaster.matrix import Table

__all__ = ["command", "show"]


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
    show(open_matrix(found), found, html=html, as_json=as_json)


def show(table: "Table", run_dir: Path, *, html: Path | None, as_json: bool) -> None:
    """Print the table, write its page where one is asked for, and end the process with its exit code."""
    import msgspec

    from drillmaster.cli import say_json
    from drillmaster.errors import one_line
    from drillmaster.intake.runs import short
    from drillmaster.intake.written import STDOUT, write_whole
    from drillmaster.matrix.page import render
    from drillmaster.matrix.reading import exit_of
    from drillmaster.matrix.telling import lines
    from drillmaster.reports import form

    code = exit_of(table)
    said: dict[str, object] = {}
    if html == STDOUT:
        click.echo(render(table), nl=False)
        sys.exit(code)
    if html is not None:
        away = os.path.relpath(run_dir, html.parent)
        path = write_whole(html, render(table, beside="" if away == "." else f"{away}/"))
        said["html"] = one_line(str(path))
    if as_json:
        say_json({**msgspec.to_builtins(table), "exit": int(code), **said})
        sys.exit(code)
    colour = form("text").colour_wanted(os.environ, is_terminal=sys.stdout.isatty())
    for line in lines(table, colour=colour):
        click.echo(line, color=colour)
    if html is not None:
        click.echo(f"page:   {short(html)}")
    sys.exit(code)
