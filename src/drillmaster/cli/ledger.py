"""`drillmaster ledger`: incidents, hours and red flags of a job on a free tier, in a file to which lines are only added."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from drillmaster.cli import Verb
from drillmaster.cli import _completions as completions

__all__ = ["command"]

F = TypeVar("F", bound=Callable[..., Any])
LEDGER = Path("free-tier-ledger.jsonl")

_FILE = click.option(
    "--ledger",
    "path",
    metavar="FILE",
    type=click.Path(path_type=Path),
    default=LEDGER,
    show_default=True,
    help="The ledger.",
    shell_complete=completions.files,
)
_BY = click.option("--by", metavar="NAME", required=True, help="Who says so.")
_NOTE = click.option("--note", metavar="TEXT", default="", help="What there is to say of it.")
_AT = click.option("--at", metavar="TIME", help="When it was, RFC 3339. Default: now.")


@click.group("ledger", cls=Verb)
def command() -> None:
    """Keep what a free tier costs: incidents, hours, red flags.

    `drillmaster gate free-tier` reads it. Each line is dated, says by whom, and holds the digest of the one before.

    \b
    Examples:
      drillmaster ledger open --job "nightly lint" --by ada
      drillmaster ledger add incident --cause capacity --by ada --note "queue drained 40 min late"
    """


@command.command("open")
@_FILE
@click.option("--job", required=True, help="The job, as its interviews name it.")
@_BY
def open_(path: Path, job: str, by: str) -> None:
    """Begin a ledger for one job.

    \b
    Examples:
      drillmaster ledger open --job "nightly lint" --by ada
    """
    from drillmaster.intake.ledger import open_new

    open_new(path, job=job, by=by, now_ns=_now_ns())
    click.echo(f"{path}: opened for {job}")


@command.group("add", cls=Verb)
def add() -> None:
    """Add one line. Nothing is ever taken out.

    \b
    Examples:
      drillmaster ledger add hours 2.5 --by ada --note "timeouts of the night"
      drillmaster ledger add nothing --by ada
    """


@add.command("incident")
@_FILE
@click.option(
    "--cause",
    type=click.Choice(["capacity", "code", "unknown"]),
    required=True,
    help="capacity: the endpoint's. code: ours. unknown: until it is settled.",
)
@click.option("--settles", type=click.IntRange(min=2), metavar="LINE", help="The incident whose cause this is.")
@_AT
@_BY
@_NOTE
def incident(path: Path, cause: str, settles: int | None, at: str | None, by: str, note: str) -> None:
    """Add an incident, or the cause of one that was not known.

    \b
    Examples:
      drillmaster ledger add incident --cause capacity --by ada --note "queue drained 40 min late"
      drillmaster ledger add incident --cause code --settles 4 --by ada
    """
    now_ns = _now_ns()
    more = {} if settles is None else {"settles": settles}
    _add(path, {"kind": "incident", "cause": cause, "at": _at(at, now_ns), "by": by, "note": note, **more}, now_ns)


@add.command("hours")
@click.argument("hours", type=float)
@_FILE
@_AT
@_BY
@_NOTE
def hours(hours: float, path: Path, at: str | None, by: str, note: str) -> None:
    """Add HOURS that an engineer spent on finding out what is wrong with the endpoint.

    \b
    Examples:
      drillmaster ledger add hours 2.5 --by ada --note "timeouts of the night"
    """
    now_ns = _now_ns()
    _add(path, {"kind": "hours", "hours": hours, "at": _at(at, now_ns), "by": by, "note": note}, now_ns)


@add.command("flag")
@click.argument(
    "flag", type=click.Choice(["retries-grown", "second-window", "ceiling-unknown", "mean-only", "routed-around"])
)
@click.option("--gone", is_flag=True, help="It stands no more.")
@_FILE
@_BY
@_NOTE
def flag(flag: str, gone: bool, path: Path, by: str, note: str) -> None:
    """Raise a red flag, or with --gone take it down.

    retries-grown: retries went from one attempt to three. second-window: the job needs a second one. ceiling-unknown: nobody
    can say how many calls at once it bears. mean-only: dashboards show the mean alone. routed-around: releases go around it.

    \b
    Examples:
      drillmaster ledger add flag second-window --by ada
      drillmaster ledger add flag second-window --gone --by ada
    """
    now_ns = _now_ns()
    _add(path, {"kind": "flag", "flag": flag, "stands": not gone, "by": by, "note": note}, now_ns)


@add.command("nothing")
@_FILE
@_BY
@_NOTE
def nothing(path: Path, by: str, note: str) -> None:
    """Say that nothing happened since the line before: a ledger that nobody keeps says nothing.

    \b
    Examples:
      drillmaster ledger add nothing --by ada
    """
    _add(path, {"kind": "nothing", "by": by, "note": note}, _now_ns())


@command.command("show")
@_FILE
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
def show(path: Path, as_json: bool) -> None:
    """Check the chain and print the lines.

    \b
    Examples:
      drillmaster ledger show
    """
    import msgspec

    from drillmaster.cli import say_json
    from drillmaster.errors import one_line
    from drillmaster.intake.ledger import read_ledger

    ledger = read_ledger(path)
    if as_json:
        say_json({"job": ledger.job, "lines": ledger.lines, "last": ledger.last})
        return
    for number, line in enumerate(ledger.lines, 1):
        told = {k: v for k, v in msgspec.to_builtins(line).items() if k not in ("before", "written_at", "by") and v}
        click.echo(
            one_line(f"{number}  {line.written_at}  {line.by}: {', '.join(f'{k} {v}' for k, v in told.items())}")
        )
    click.echo(f"{len(ledger.lines)} lines, the last is {ledger.last[:12]}")


def _now_ns() -> int:
    from drillmaster.clock import SystemClock

    return SystemClock().wall_ns()


def _at(at: str | None, now_ns: int) -> str:
    from drillmaster.clock import rfc3339

    return rfc3339(now_ns, digits=0) if at is None else at


def _add(path: Path, fields: dict[str, Any], now_ns: int) -> None:
    from drillmaster.intake.ledger import add as append

    number = append(path, fields, now_ns=now_ns)
    click.echo(f"{path}: line {number}")
