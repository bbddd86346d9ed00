"""`drillmaster demo`: two whole drills against stand-ins, on loopback, in a minute or two."""

import sys
from collections.abc import Callable

import click

from drillmaster.cli import Verb
from drillmaster.cli import _completions as completions

__all__ = ["command"]


def _of_any_demo(verb: Callable[..., None]) -> Callable[..., None]:
    """Give a demo what both have: which agents, where to, and how to print."""
    options = (
        click.option(
            "--pass", "only_healthy", is_flag=True, help="The healthy agent alone; exits with the gate's code."
        ),
        click.option(
            "--fail", "only_buggy", is_flag=True, help="The agent with the bug alone; exits with the gate's code."
        ),
        click.option(
            "--runs",
            metavar="DIR",
            help="Where run folders go. Default: runs, or a temporary folder.",
            shell_complete=completions.folders,
        ),
        click.option("--json", "as_json", is_flag=True, help="Print what came out as JSON."),
        click.option("--no-color", is_flag=True, help="No colour, whatever the terminal."),
    )
    for option in reversed(options):
        verb = option(verb)
    return verb


@click.group("demo", cls=Verb, invoke_without_command=True)
@click.option(
    "--mode",
    type=click.Choice(["reset", "503", "hang"]),
    default="reset",
    show_default=True,
    help="What happens to the model endpoint.",
)
@click.option(
    "--bug",
    metavar="NAME",
    help="What the second agent does wrong. Default: wrong-except.",
    shell_complete=completions.bugs,
)
@_of_any_demo
@click.pass_context
def command(
    ctx: click.Context,
    mode: str,
    bug: str | None,
    only_healthy: bool,
    only_buggy: bool,
    runs: str | None,
    as_json: bool,
    no_color: bool,
) -> None:
    """Watch two eviction drills, over real sockets, with nothing of yours involved.

    A model provider, an agent that uses it, users, and drillmaster's proxy between agent and provider. In the first drill
    the agent is healthy, in the second it has one mistake, so that a pass and a fail are seen. People, limits and notes are
    made up, and everything is stamped DEMO. Exits 0 when both verdicts are the expected ones, 1 when one is not, 2 when
    a drill could not be judged, 3 when it was stopped.

    \b
    Examples:
      drillmaster demo
      drillmaster demo --mode hang --bug no-client-timeout
      drillmaster demo --pass; echo $?
      drillmaster demo friday
      drillmaster standin agent --list-bugs
    """
    from drillmaster.errors import Exit, Problem
    from drillmaster.standins import Told, arm

    if ctx.invoked_subcommand is not None:
        return
    if only_healthy and only_buggy:
        raise Problem("demo", found="both --pass and --fail", wanted="one of them", remedy="leave both out to see both")
    if only_healthy and bug is not None:
        raise Problem("demo", found="--pass and --bug", wanted="one of them", remedy="use --fail with --bug")
    try:
        arm()  # before the imports: they take a good second, and somebody may have changed their mind
        from drillmaster.cli._demo import Demo

        demo = Demo(mode=mode, bug=bug, runs=runs, as_json=as_json, colour=False if no_color else None)
        code = demo.play(healthy=not only_buggy, buggy=not only_healthy)
    except (Told, KeyboardInterrupt) as told:
        click.echo(f"\ndemo: stopped ({str(told) or 'SIGINT'}); nothing of it is running any more", err=True)
        code = Exit.ABORTED
    sys.exit(code)


@command.command("friday")
@click.option(
    "--bug",
    metavar="NAME",
    help="What the second agent does wrong. Default: no-retry.",
    shell_complete=completions.friday_bugs,
)
@_of_any_demo
def friday(
    bug: str | None, only_healthy: bool, only_buggy: bool, runs: str | None, as_json: bool, no_color: bool
) -> None:
    """Watch two Friday drills: 200 missions at once, a tool that does not answer, an alert, transcripts, a kill switch.

    In the first the agent is healthy, in the second it has one mistake, which breaks one row of the drill matrix. All of it is on
    loopback and over in under three minutes. Its numbers are the demo's, and everything is stamped DEMO. Exits 0 when both
    verdicts are the expected ones, 1 when one is not, 2 when a drill could not be judged, 3 when it was stopped.

    \b
    Examples:
      drillmaster demo friday
      drillmaster demo friday --bug no-alert
      drillmaster demo friday --pass; echo $?
      drillmaster standin concierge --list-bugs
    """
    from drillmaster.errors import Exit, Problem
    from drillmaster.standins import Told, arm

    if only_healthy and only_buggy:
        raise Problem("demo", found="both --pass and --fail", wanted="one of them", remedy="leave both out to see both")
    if only_healthy and bug is not None:
        raise Problem("demo", found="--pass and --bug", wanted="one of them", remedy="use --fail with --bug")
    try:
        arm()
        from drillmaster.cli._demo_friday import FridayDemo

        demo = FridayDemo(bug=bug, runs=runs, as_json=as_json, colour=False if no_color else None)
        code = demo.play(healthy=not only_buggy, buggy=not only_healthy)
    except (Told, KeyboardInterrupt) as told:
        click.echo(f"\ndemo: stopped ({str(told) or 'SIGINT'}); nothing of it is running any more", err=True)
        code = Exit.ABORTED
    sys.exit(code)
