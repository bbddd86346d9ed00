"""`drillmaster quota`: what became of calls under a quota, and the drill that bounces a worker."""

from pathlib import Path

import click

from drillmaster.cli import Verb
from drillmaster.cli import _completions as completions
from drillmaster.cli._quantities import Seconds
from drillmaster.errors import Exit

__all__ = ["command"]

_json = click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")


@click.group("quota", cls=Verb)
def command() -> None:
    """See what became of calls under a quota, and bounce a worker to see that its buckets remain.

    docs/howto/keep-a-quota.md

    \b
    Examples:
      drillmaster quota report /var/log/agent/timeline.jsonl --since 1h
      drillmaster quota bounce sqlite:guards.db --workers 4
    """


@command.command()
@click.argument(
    "named",
    metavar="LOG|RUN...",
    nargs=-1,
    required=True,
    type=click.Path(path_type=Path),
    shell_complete=completions.files,
)
@click.option("--since", "since_s", type=Seconds(), default="1h", show_default=True, help="So far back from --now.")
@click.option("--now", metavar="TIME", help="Count back from this RFC 3339 time instead of now.")
@_json
def report(named: tuple[Path, ...], since_s: float, now: str | None, as_json: bool) -> None:
    """Tell by partner what was granted, what was denied and why, and which 429s came in spite of a grant.

    LOG is the file that workers write to (DRILL_LOG); of a RUN folder the 429s that its proxy saw are told besides. Exit code 1
    where a partner has denied a call in that time: the limits are not the partner's, or somebody else spends. 2 where nothing can
    be said: no decision stands there, or a line that may be one cannot be read.

    \b
    Examples:
      drillmaster quota report /var/log/agent/timeline.jsonl --since 1h
      drillmaster quota report runs/2026-11-30-a --since 24h --json
    """
    from drillmaster.cli import say_json
    from drillmaster.cli.gate._verdicts import now_ns
    from drillmaster.intake.spending import spent_in

    to_ns = now_ns(now)
    spent = spent_in(named, from_ns=to_ns - round(since_s * 1e9), to_ns=to_ns)
    if as_json:
        partners = [
            {
                "partner": one.partner,
                "limited": one.limited,
                "denied": dict(one.denied),
                "granted": one.granted,
                "granted_estimated": one.estimated,
            }
            for one in spent.partners
        ]
        say_json(
            {
                "kind": "spent",
                "partners": partners,
                "wire": spent.wire,
                "unusable": spent.unusable,
                "lines": spent.lines,
            }
        )
    else:
        for one in spent.partners:
            reasons = ", ".join(f"{count} {reason}" for reason, count in one.denied.most_common())
            about = "about " if one.estimated else ""
            click.echo(
                f"{one.partner}: {one.limited} answered 429, {one.denials} denied here, {about}{one.granted} granted"
            )
            if reasons:
                click.echo(f"  {reasons}")
        for dialect, count in sorted(spent.wire.items()):
            click.echo(f"on the wire, {dialect}: {count} answered 429")
        if not spent.partners and not spent.wire:
            click.echo(f"no decision of a quota in that time, in {spent.lines} lines")
        if spent.unusable:
            click.echo(f"{spent.unusable} lines that may be some cannot be read")
    if any(one.limited for one in spent.partners) or spent.wire:
        raise SystemExit(Exit.FAIL)
    if not spent.partners or spent.unusable:
        raise SystemExit(Exit.REFUSED)


@command.command()
@click.argument("url", metavar="URL")
@click.option("--workers", type=click.IntRange(1, 16), default=2, show_default=True, help="Processes that ask at once.")
@_json
def bounce(url: str, workers: int, as_json: bool) -> None:
    """Kill workers in the middle of their work and start others: does the store still know what was spent?

    It asks URL under a name of its own, so that no quota of yours is touched. Exit code 1 where more was granted than the cap, or
    where a worker that was started again found a bucket that was fuller than the one before had left it.

    \b
    Examples:
      drillmaster quota bounce redis://127.0.0.1:6379/0
      drillmaster quota bounce sqlite:guards.db --workers 4
    """
    import msgspec

    from drillmaster.cli import say_json
    from drillmaster.kits.quota import bounced

    found = bounced(url, workers=workers)
    if as_json:
        say_json({"kind": "bounce", **msgspec.to_builtins(found), "holds": found.holds})
    else:
        click.echo(
            f"{'PASS' if found.holds else 'FAIL'} {found.killed} workers killed, {found.started} started: "
            f"{found.granted} granted of {found.cap}, and {found.left_before} left before the bounce, {found.left_after} after it"
        )
        if found.unavailable:
            click.echo(f"{found.unavailable} questions had no answer in time")
    if not found.holds:
        raise SystemExit(Exit.FAIL)
