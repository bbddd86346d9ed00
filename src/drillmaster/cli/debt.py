"""`drillmaster debt`: what is named to be drilled, and has no pass that still counts."""

import shlex
import sys
from collections.abc import Callable
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING

import click

from drillmaster.cli import _completions as completions
from drillmaster.cli._rows import where

if TYPE_CHECKING:
    from drillmaster.debt import Debt, DebtFile, Then

__all__ = ["command"]


@click.command("debt")
@click.argument(
    "file", type=click.Path(path_type=Path), default=Path("drill-debt.yaml"), shell_complete=completions.files
)
@where
@click.option(
    "--repo", type=click.Path(path_type=Path), default=Path(), help="A folder in the repository. Default: here."
)
@click.option("--head", metavar="REF", default="HEAD", show_default=True, help="What passes are held against.")
@click.option("--now", metavar="TIME", help="Judge as of this time, RFC 3339. Default: now.")
@click.option("--markdown", type=click.Path(path_type=Path), metavar="FILE", help="Write it for a wiki; - prints it.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
@click.option(
    "--template",
    is_flag=True,
    help="Print a debt file with blanks, each explained where it stands, and look at nothing.",
)
def command(
    file: Path,
    runs: Path,
    named: str | None,
    repo: Path,
    head: str,
    now: str | None,
    markdown: Path | None,
    as_json: bool,
    template: bool,
) -> None:
    """Name faults, flags and rows that never passed, and passes that no longer count, each with what pays it.

    FILE (kind: drill-debt) says what is to be passed, how many days a pass holds, and with a change of what it expires: lock files,
    versions of packages, models' names, files of the fallback path. What these were when a run passed is read from git at the
    commit that the run recorded. Exit code 0 where nothing is owed, 1 where something is, 2 where that cannot be told.

    \b
    Examples:
      drillmaster debt --template > drill-debt.yaml
      drillmaster debt
      drillmaster debt ops/drill-debt.yaml --markdown docs/drill-debt.md
      drillmaster debt --history postgresql://drills@127.0.0.1/drills --json
    """
    from drillmaster.cli import say_json
    from drillmaster.cli.gate._verdicts import now_ns
    from drillmaster.clock import rfc3339
    from drillmaster.debt import DebtFile, check_file, named_in, owed
    from drillmaster.entries import Taken, take_in
    from drillmaster.errors import Exit, Problem
    from drillmaster.history import open_history
    from drillmaster.intake import is_there, read_strict
    from drillmaster.intake.blanks import left_open, none_left_open
    from drillmaster.intake.written import STDOUT, write_whole

    if template:
        text = resources.files("drillmaster.kits").joinpath("friday").joinpath("debt.yaml").read_text("utf-8")
        click.echo(text, nl=False)
        return
    if not is_there(file):
        raise Problem(
            str(file),
            found="no such file",
            wanted="what you promised to drill",
            remedy=f"drillmaster debt --template > {shlex.quote(str(file))}, and fill it in",
        )
    none_left_open(
        {file: left_open(read_strict(file, dict), "friday", "debt")}, lambda line: click.echo(line, err=True)
    )
    said = named_in(read_strict(file, DebtFile), file.parent, place=str(file))
    at_ns = now_ns(now)
    check_file(said, place=str(file), now_ns=at_ns)
    today, commit, at = _code(said, repo, head)
    with open_history(str(runs / "history.sqlite") if named is None else named) as history:
        taken = take_in(history, runs) if runs.is_dir() else Taken(new=(), judged=(), left_out={})
        entries = history.entries(name=said.service)
    debt = owed(said, entries, now_ns=at_ns, now=rfc3339(at_ns, digits=0), head=commit, today=today, at=at)
    if markdown is not None and markdown != STDOUT:
        write_whole(markdown, page(debt, said))
    if as_json:
        say_json({"debt": debt, "owing": len(debt.owing), "left_out": taken.left_out})
    elif markdown == STDOUT:
        click.echo(page(debt, said), nl=False)
    else:
        _tell(debt)
    for run, why in taken.left_out.items():
        click.echo(f"left out: {run}: {why}", err=True)
    sys.exit(Exit.FAIL if debt.owing else Exit.PASS)


def _code(said: "DebtFile", repo: Path, head: str) -> "tuple[Then | None, str, Callable[[str], Then | None]]":
    """What the commit of today holds, its name, and how to ask for that of another. Nothing is asked where nothing counts."""
    from drillmaster.debt import Then, state
    from drillmaster.errors import Problem
    from drillmaster.intake.git import Repository

    what = said.expires_with
    if not (what.lockfiles or what.packages or what.models or what.fallback_path):
        return None, "", lambda commit: None
    repository = Repository.at(repo)
    commit = repository.commit(head)
    today = state(repository, commit, said, demand=True)
    known: dict[str, Then | None] = {commit: today}

    def at(one: str) -> Then | None:
        if one not in known:
            try:
                known[one] = state(repository, repository.commit(one), said)
            except Problem:
                known[one] = None
        return known[one]

    return today, commit, at


def _tell(debt: "Debt") -> None:
    from drillmaster.errors import one_line

    width = max(len(one_line(line.item)) for line in debt.lines)
    for line in debt.lines:
        item = one_line(line.item).ljust(width)
        if line.state == "paid":
            click.echo(f"PAID  {item}  by {line.run}, until {line.expires_on}")
            continue
        click.echo(f"OWED  {item}  {one_line('; '.join(line.why))}")
        click.echo(f"      {' ' * width}  pays it: {one_line(line.pay)}")
    n = len(debt.owing)
    click.echo(
        f"{debt.service}: {f'{n} of {len(debt.lines)} owed' if n else f'no debt, {len(debt.lines)} paid'}, {debt.runs} runs"
    )


def _cell(command: str) -> str:
    """Write a command as code in a table, where a bar would end the cell."""
    from drillmaster.reports import code_span

    return code_span(command).replace("|", "\\|")


def page(debt: "Debt", said: "DebtFile") -> str:
    """Write it for a wiki: plain Markdown, what is owed first."""
    from drillmaster.reports import code_span, markdown_line

    at = f", code as of {code_span(debt.head[:12])}" if debt.head else ""
    out = [
        f"# Drill debt of {markdown_line(debt.service)}",
        "",
        f"{len(debt.owing)} of {len(debt.lines)} owed on {debt.now[:10]}{at}. "
        f"{markdown_line(said.owner)} owns the list, which comes from {markdown_line(said.source)}.",
        "",
    ]
    if debt.owing:
        out += ["| owed | why | pays it |", "|---|---|---|"]
        out += [
            f"| {markdown_line(one.item)} | {markdown_line('; '.join(one.why))} | {_cell(one.pay)} |"
            for one in debt.owing
        ]
        out.append("")
    paid = [one for one in debt.lines if one.state == "paid"]
    if paid:
        out += ["| paid | by | until |", "|---|---|---|"]
        out += [f"| {markdown_line(one.item)} | {markdown_line(one.run)} | {one.expires_on} |" for one in paid]
        out.append("")
    out.append(
        "A pass says what one run showed of that code on that day. It does not prove that the next one would pass."
    )
    return "\n".join(out) + "\n"
