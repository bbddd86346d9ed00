"""`drillmaster matrix`: the drill matrix as page and as OpenSLO, and the table of a fault matrix that was run."""

import os
import shlex
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.shell_completion import CompletionItem

from drillmaster.cli import Verb
from drillmaster.cli import _completions as completions
from drillmaster.cli._rows import where

if TYPE_CHECKING:
    from drillmaster.errors import Exit
    from drillmaster.matrix import Table
    from drillmaster.slo import DrillMatrix, Result

__all__ = ["command", "show", "table_of"]


class _Matrix(Verb):
    """The verbs of the drill matrix, and of the fault matrix one: a first word that is none of them is a RUN to show."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if args and args[0] not in (*self.commands, *ctx.help_option_names):
            args = ["show", *args]
        return super().parse_args(ctx, args)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        found = super().shell_complete(ctx, incomplete)
        if incomplete.startswith("-"):
            return [*found, *_show.shell_complete(ctx, incomplete)]
        run = next(one for one in _show.params if isinstance(one, click.Argument))
        return [*found, *run.shell_complete(ctx, incomplete)]


@click.group("matrix", cls=_Matrix)
def command() -> None:
    """Read two matrices: the drill matrix of a Friday drill, and the table of a fault matrix that was run.

    The drill matrix (drill-matrix.yaml) holds the objectives that a Friday drill is judged by: `render`, `import` and `export` read
    it, `drillmaster gate matrix` judges by it. A RUN of `drillmaster run matrix` is shown as a table: `show` may be left out.

    \b
    Examples:
      drillmaster matrix render                       # docs/drill-matrix.md, from drill-matrix.yaml
      drillmaster matrix render --check               # in CI: 1 where the page is stale
      drillmaster matrix export --openslo drill-matrix.openslo.yaml
      drillmaster matrix runs/20261129T153000Z-1a2b   # the table of a fault matrix
    """


@command.command("show")
@click.argument("run", metavar="RUN", type=click.Path(path_type=Path), shell_complete=completions.runs)
@click.option(
    "--html", metavar="FILE", type=click.Path(path_type=Path), help="Write the table as one HTML page; - prints it."
)
@click.option("--json", "as_json", is_flag=True, help="Print the table as JSON.")
def _show(run: Path, html: Path | None, as_json: bool) -> None:
    """Print the table of a fault matrix: each cell in a word and what is behind it, and what was not run and why.

    RUN is a run of `drillmaster run matrix`, by folder or id. The table is read from the sealed evidence and from nothing
    else, so that whoever has the folder reads the same. Exit code as of the drill: 0 no cell failed more users than its policy
    allows (without one: measured), 1 one did, 2 nothing was settled or cells that should have been run were not, 3 stopped.

    \b
    Examples:
      drillmaster matrix show runs/20261129T153000Z-1a2b
      drillmaster matrix show 20261129T15 --json
      drillmaster matrix show 20261129T15 --html matrix.html
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


# The drill matrix

_FILE = Path("drill-matrix.yaml")
_PAGE = Path("docs/drill-matrix.md")
_file = click.argument(
    "file", metavar="[FILE]", type=click.Path(path_type=Path), default=_FILE, shell_complete=completions.files
)


@command.command("render")
@_file
@click.option(
    "--out",
    metavar="PAGE",
    type=click.Path(path_type=Path),
    default=_PAGE,
    show_default=True,
    help="Where the page is written; - prints it.",
    shell_complete=completions.files,
)
@click.option("--check", is_flag=True, help="Write nothing; exit 1 where the page is not of this matrix.")
@where
@click.option("--json", "as_json", is_flag=True, help="Print what was done as one JSON document.")
def _render(file: Path, out: Path, check: bool, runs: Path, named: str | None, as_json: bool) -> None:
    """Render the drill matrix as a page for executives and engineers, each row with its last result and trend.

    FILE is the matrix, drill-matrix.yaml where none is named. The page is made and never edited: --check, in CI, exits 1 where it
    is of another matrix, or was edited by hand. Results on it are those of the history when it was rendered; newer ones alone make
    no page stale. Exit code 0; 1 with --check where it is stale; 2 where something cannot be read.

    \b
    Examples:
      drillmaster matrix render
      drillmaster matrix render drill-matrix.yaml --out docs/drill-matrix.md --check
      drillmaster matrix render --history postgresql://drills@127.0.0.1/drills
    """
    from drillmaster.cli import say_json
    from drillmaster.errors import Exit, Problem
    from drillmaster.intake import is_there, read_bytes
    from drillmaster.intake.written import STDOUT, write_whole
    from drillmaster.slo import is_stale, render

    matrix, digest = _read_matrix(file)
    if check:
        if out == STDOUT:
            raise click.UsageError("--check compares a page that is there: name it with --out")
        command_line = f"drillmaster matrix render {shlex.quote(str(file))} --out {shlex.quote(str(out))}"
        stale = (
            is_stale(read_bytes(out, _PAGE_CAP_BYTES).decode("utf-8", "replace"), digest)
            if is_there(out)
            else "it is missing"
        )
        if as_json:
            say_json({"page": str(out), "stale": stale or None, "exit": int(Exit.FAIL if stale else Exit.PASS)})
        elif stale:
            click.echo(f"stale: {out}: {stale}; {command_line}")
        else:
            click.echo(f"{out}: of this matrix ({digest[:19]})")
        sys.exit(Exit.FAIL if stale else Exit.PASS)
    page = render(matrix, digest, _results(matrix, runs, named))
    if out == STDOUT:
        if as_json:
            raise Problem(
                "matrix render", found="--out - and --json", wanted="one of them", remedy="name a file: --out PAGE"
            )
        click.echo(page, nl=False)
        return
    write_whole(out, page)
    if as_json:
        say_json({"page": str(out), "matrix": digest, "rows": len(matrix.rows)})
    else:
        click.echo(f"{out}: {len(matrix.rows)} rows")


@command.command("export")
@_file
@click.option(
    "--openslo",
    metavar="FILE",
    type=click.Path(path_type=Path),
    required=True,
    help="Write OpenSLO v1 there, .yaml or .json; - prints YAML.",
    shell_complete=completions.files,
)
@click.option(
    "--json", "as_json", is_flag=True, help="Print the objects as one JSON document; no file is written with -."
)
def _export(file: Path, openslo: Path, as_json: bool) -> None:
    """Write the drill matrix as OpenSLO v1: one Service, and one SLO a row.

    What OpenSLO has no word for stands in each indicator's metricSource, so that `matrix import` reads the same matrix back. What
    it cannot say is refused by name.

    \b
    Examples:
      drillmaster matrix export --openslo drill-matrix.openslo.yaml
      drillmaster matrix export drill-matrix.yaml --openslo -
      drillmaster matrix export --openslo - --json
    """
    import msgspec

    from drillmaster.cli import say_json
    from drillmaster.intake import format_of
    from drillmaster.intake.written import STDOUT, write_whole
    from drillmaster.slo import write_openslo

    matrix, _ = _read_matrix(file)
    objects = write_openslo(matrix, place=str(file))
    if openslo != STDOUT:
        as_yaml = format_of(str(openslo)) == "yaml"
        text = _documents(objects) if as_yaml else msgspec.json.format(msgspec.json.encode(objects)).decode() + "\n"
        write_whole(openslo, text)
    if as_json:
        say_json(objects)
    elif openslo == STDOUT:
        click.echo(_documents(objects), nl=False)
    else:
        click.echo(f"{openslo}: {len(objects)} objects, {len(matrix.rows)} of them SLOs")


@command.command("import")
@click.argument("file", metavar="FILE", type=click.Path(path_type=Path), shell_complete=completions.files)
@click.option(
    "--out",
    metavar="MATRIX",
    type=click.Path(path_type=Path),
    default=_FILE,
    show_default=True,
    help="Where the matrix is written, unless a file is there; - prints it.",
    shell_complete=completions.files,
)
@click.option(
    "--row",
    "rows",
    metavar="SLO=FILE",
    multiple=True,
    help="What OpenSLO does not say of this SLO: a file with measure, probe, window and the like. Can be given again.",
    shell_complete=completions.files,
)
@click.option("--source", default="", help="The document the numbers come from, where the file is not of ours.")
@click.option("--owner", default="", help="Who answers for them.")
@click.option("--review-by", default="", metavar="DAY", help="The last day they hold without being read again.")
@click.option(
    "--without",
    metavar="POINTER",
    multiple=True,
    help="Leave this out on purpose, such as /spec/alertPolicies. Can be given again.",
)
@click.option("--json", "as_json", is_flag=True, help="Print the matrix and what was left out as one JSON document.")
def _import(
    file: Path,
    out: Path,
    rows: tuple[str, ...],
    source: str,
    owner: str,
    review_by: str,
    without: tuple[str, ...],
    as_json: bool,
) -> None:
    """Read OpenSLO v1 into a drill matrix.

    A file that `matrix export` wrote comes back as it was. Of other SLOs somebody has to say what measures them in a drill (--row),
    and who answers for them. All that has no place in a matrix is refused, each thing by its pointer; --without leaves it out on
    purpose, and what was left out is told.

    \b
    Examples:
      drillmaster matrix import drill-matrix.openslo.yaml --out drill-matrix.yaml
      drillmaster matrix import slos.yaml --row refund-latency=refund-latency.yaml \\
        --source slo-handbook --owner "Ada of support" --review-by 2027-02-28 \\
        --without /spec/timeWindow --without /spec/indicator
    """
    from drillmaster.cli import say_json
    from drillmaster.errors import Problem
    from drillmaster.intake import format_of, read_bytes
    from drillmaster.intake.written import STDOUT, write_new
    from drillmaster.slo.files import plain
    from drillmaster.slo.openslo import Asked, read_openslo

    said = {}
    for one in rows:
        name, equals, path = one.partition("=")
        if not equals or not name or not path:
            raise click.BadParameter(f"found {one}, wanted SLO=FILE", param_hint="--row")
        said[name] = _row_fields(Path(path))
    asked = Asked(rows=said, source=source, owner=owner, review_by=review_by, without=frozenset(without))
    place = str(file)
    matrix, left = read_openslo(read_bytes(file, _PAGE_CAP_BYTES), place=place, fmt=format_of(place), asked=asked)
    text = _documents([plain(matrix)])
    if out != STDOUT and not write_new(out, text):
        raise Problem(
            str(out),
            found="a file that is there",
            wanted="none: a matrix that people wrote is never replaced",
            remedy=f"name another, and compare: drillmaster matrix import {shlex.quote(place)} --out -",
        )
    for one in left:
        click.echo(f"left out: {one}", err=True)
    if as_json:
        say_json({"matrix": plain(matrix), "left_out": left, "written": None if out == STDOUT else str(out)})
    elif out == STDOUT:
        click.echo(text, nl=False)
    else:
        click.echo(f"{out}: {len(matrix.rows)} rows")


_PAGE_CAP_BYTES = 4 << 20


def _read_matrix(file: Path) -> "tuple[DrillMatrix, str]":
    from drillmaster.errors import Problem
    from drillmaster.intake import format_of, is_there, read_bytes
    from drillmaster.slo import load_matrix

    if not is_there(file):
        raise Problem(
            str(file),
            found="no such file",
            wanted="a drill matrix",
            remedy="name it, or begin with one: drillmaster init friday",
        )
    return load_matrix(read_bytes(file, _PAGE_CAP_BYTES), place=str(file), fmt=format_of(str(file)))


def _row_fields(path: Path) -> "dict[str, Any]":
    from drillmaster import strict
    from drillmaster.errors import Problem
    from drillmaster.intake import format_of, read_bytes

    loaded = strict.load(read_bytes(path, _PAGE_CAP_BYTES), place=str(path), fmt=format_of(str(path)))
    if not isinstance(loaded, dict):
        raise Problem(
            str(path),
            found=strict.shown(loaded),
            wanted="fields of a row: measure, probe, window",
            remedy="write them as in drill-matrix.yaml",
        )
    return loaded


def _results(matrix: "DrillMatrix", runs: Path, named: str | None) -> "dict[str, list[Result]]":
    """Each row's results, oldest first; none where there are no runs and no history."""
    from drillmaster.cli.history import rows, tell_left_out
    from drillmaster.slo import Result

    if named is None and not runs.is_dir():
        return {}
    entries, taken, _ = rows(runs, named, drill="friday", name=matrix.service)
    tell_left_out(taken)
    found: dict[str, list[Result]] = {}
    for row in matrix.rows:
        figure = f"row.{row.id}_{row.asks.unit}"
        for entry in entries:
            status = entry.proved.get(f"row/{row.id}")
            if status is not None:
                result = Result(
                    run=entry.run,
                    ended_at=entry.ended_at,
                    status=status,
                    value=entry.metrics.get(figure),
                    at_least=figure in entry.at_least,
                    stamps=entry.stamps,
                )
                found.setdefault(row.id, []).append(result)
    return found


def _documents(values: "Sequence[Any]") -> str:
    """Write values as YAML documents that `strict` reads back."""
    import io

    from ruamel.yaml import YAML

    yaml = YAML(typ="safe", pure=True)
    yaml.default_flow_style = False
    yaml.sort_base_mapping_type_on_output = False  # type: ignore[assignment]  # ruamel's own switch
    yaml.width = 4_096
    yaml.allow_unicode = True
    texts = []
    for value in values:
        out = io.StringIO()
        yaml.dump(value, out)
        texts.append(out.getvalue())
    return "---\n".join(texts)
