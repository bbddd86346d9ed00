"""`drillmaster card`: the one-page card of a run, and its follow-up issues."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from drillmaster.cli import _completions as completions

if TYPE_CHECKING:
    from drillmaster.verdict import Verdict

__all__ = ["command"]


@click.command("card")
@click.argument("run", metavar="RUN", type=click.Path(path_type=Path), shell_complete=completions.runs)
@click.option(
    "--out",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="Where to write it; - prints alone. Default: RUN/card.md.",
)
@click.option("--issues", metavar="DIR", type=click.Path(path_type=Path), help="Write one issue per FAIL line there.")
@click.option("--json", "as_json", is_flag=True, help="Print what was written, as JSON, instead of the card.")
def command(run: Path, out: Path | None, issues: Path | None, as_json: bool) -> None:
    """Write the wiki card of a judged run, named by folder or id, and print it: at most 45 lines, or an interview's page.

    The card is filled from the sealed run and the verdict that `gate` left in it, which is given again and compared;
    nothing is typed by hand. With --issues each FAIL line gets a Markdown file, owned by whom the plan names under
    `owners`, else OPEN. A file that is already there is left as it is, since people write into issues. What an interview's
    plan and policy do not say (where it was measured, the operator's allowance), `passport page` takes by options.

    \b
    Examples:
      drillmaster card runs/20261129T153000Z-1a2b
      drillmaster card runs/20261129T153000Z-1a2b --issues issues/
      drillmaster card runs/20261129T153000Z-1a2b --out wiki/eviction-drill.md
      drillmaster card runs/20261130T120000Z-1a2b --out wiki/load-interview.md
    """
    from drillmaster import reports
    from drillmaster.cli import say_json
    from drillmaster.errors import Problem, one_line
    from drillmaster.intake.friday_pages import is_friday, judged_friday
    from drillmaster.intake.runs import find_run, short
    from drillmaster.intake.written import STDOUT, is_interview, write_whole

    run = find_run(run)
    written: list[str] = []
    kept: list[str] = []
    if is_interview(run):
        if issues is not None:
            raise Problem(
                "--issues",
                found="an interview, whose breach sends the job back to the path it came from",
                wanted="a drill with a fault",
                remedy=f"leave it out: drillmaster card {short(run)}",
            )
        verdict, text = _page(run)
    elif is_friday(run):
        if issues is not None:
            raise Problem(
                "--issues",
                found="a Friday drill, whose card names each row's owner",
                wanted="an eviction drill",
                remedy=f"leave it out: drillmaster card {short(run)}",
            )
        verdict, view = judged_friday(run)
        text = reports.form("friday_card").render(verdict, view)
    else:
        verdict, text, written, kept = _card(run, issues)
    path = None
    if out != STDOUT:
        elsewhere = f"write it elsewhere: drillmaster card {short(run)} --out FILE (or - to print it alone)"
        path = write_whole(out if out is not None else run / "card.md", text, instead=elsewhere)
    if as_json:
        said = {
            "card": one_line(str(path)) if path is not None else None,
            "lines": len(text.splitlines()),
            "issues_written": written,
            "issues_kept": kept,
        }
        say_json(said)
        return
    click.echo(text, nl=False)
    if path is not None:
        click.echo(f"card: {one_line(str(path))}", err=True)
    if issues is not None and not (written or kept):
        refused = verdict.status == "refused"
        click.echo(f"issues: none, {'a refused run judges nothing' if refused else 'no check failed'}", err=True)
    for name in written:
        click.echo(f"issue: {name}", err=True)
    for name in kept:
        click.echo(f"issue: {name} was there and is left as it is", err=True)


def _card(run: Path, issues: Path | None) -> tuple["Verdict", str, list[str], list[str]]:
    """The card of a drill with a fault; which issues were written, and which were there."""
    import msgspec

    from drillmaster import reports
    from drillmaster.errors import one_line
    from drillmaster.intake.written import judged_run, write_new

    verdict, view = judged_run(run)
    written: list[str] = []
    kept: list[str] = []
    if issues is not None:
        for name, issue in sorted(reports.form("issues").render(verdict, view).items()):
            (written if write_new(issues / name, issue) else kept).append(one_line(str(issues / name)))
        if written or kept:
            view = msgspec.structs.replace(view, issues=str(issues))
    return verdict, reports.form("card").render(verdict, view), written, kept


def _page(run: Path) -> tuple["Verdict", str]:
    """The wiki page of an interview that was judged. Raises Refused where nobody did."""
    from drillmaster import reports
    from drillmaster.clock import SystemClock
    from drillmaster.errors import Refused
    from drillmaster.intake.runs import short
    from drillmaster.load.showing import judged_again

    judged = judged_again(run, now_ns=SystemClock().wall_ns())
    if not judged.thresholds:
        raise Refused(
            str(run / "verdict.json"),
            found="nothing",
            wanted="the verdict",
            remedy=f"drillmaster gate interview {short(run)} --policy FILE",
        )
    return judged.verdict, reports.form("interview").render(judged.verdict, judged.page, judged.decision)
