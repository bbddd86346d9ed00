"""`drillmaster guard check`: whether a guards file can be used, and for how long."""

import sys

import click

from drillmaster.cli import _completions as completions
from drillmaster.errors import Exit, Problem

__all__ = ["command"]


@click.command("check")
@click.argument("path", metavar="FILE", shell_complete=completions.files)
@click.option("--now", metavar="TIME", help="As of this time: 2026-11-29T12:00:00Z.")
@click.option(
    "--days",
    type=click.IntRange(0, 3_650),
    default=0,
    show_default=True,
    help="Exit 1 where the day for review is no further away than so many days.",
)
@click.option("--json", "as_json", is_flag=True, help="Print what was found as JSON.")
def command(path: str, now: str | None, days: int, as_json: bool) -> None:
    """Check a guards file: whose numbers they are, until when, and every limit of every guard.

    Exits 0 where a worker could load it, 2 where it could not, and 1 where it could and --days says that its review is due.

    \b
    Examples:
      drillmaster guard check guards.yaml
      drillmaster guard check guards.yaml --days 14 --json
    """
    import time

    import msgspec

    from drillmaster.cli import say_json
    from drillmaster.clock import parse_rfc3339
    from drillmaster.intake.guards_files import read_guards

    now_ns = time.time_ns() if now is None else parse_rfc3339(now)
    if now_ns is None:
        raise Problem("--now", found=repr(now), wanted="a time with a zone", remedy="--now 2026-11-29T12:00:00Z")
    guards = read_guards(path, now_ns=now_ns)
    ends_ns = parse_rfc3339(f"{guards.pin.review_by}T23:59:59Z") or 0
    left = (ends_ns - now_ns) // (86_400 * 1_000_000_000)
    is_due = bool(days) and left < days
    rows = [
        {"name": name, "guard": type(guard).__struct_config__.tag, "store": guard.LAW is not None, "limits": guard}
        for name, guard in guards.entries.items()
    ]
    if as_json:
        said: dict[str, object] = {
            "source": guards.pin.source,
            "owner": guards.pin.owner,
            "reviewers": guards.reviewers,
        }
        said |= {"review_by": guards.pin.review_by, "days_left": left, "digest": guards.digest, "guards": rows}
        say_json({**said, "exit": int(Exit.FAIL if is_due else Exit.PASS)})
    else:
        click.echo(
            f"{guards.place}: limits of {guards.pin.owner}, from {guards.pin.source}, reviewed by {', '.join(guards.reviewers)}"
        )
        click.echo(f"they hold until {guards.pin.review_by}, {left} day{'s' if left != 1 else ''} from now")
        for row in rows:
            text = msgspec.json.encode(
                {k: v for k, v in msgspec.to_builtins(row["limits"]).items() if k != "guard"}
            ).decode()
            click.echo(f"{row['name']} ({row['guard']}{', counts in a store' if row['store'] else ''}): {text[:400]}")
        if is_due:
            click.echo(f"due: have {guards.pin.owner} read them again, and set review_by", err=True)
    sys.exit(Exit.FAIL if is_due else Exit.PASS)
