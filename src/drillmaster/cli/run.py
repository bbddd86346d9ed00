"""`drillmaster run`: do a drill, from the plan to the seal."""

import json
import os
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from drillmaster.errors import Exit, Problem

if TYPE_CHECKING:
    from drillmaster.run import RunResult
    from drillmaster.verdict import Verdict

__all__ = ["command"]


@click.group("run")
def command() -> None:
    """Do a drill: walk the plan's phases, lift on every way out, seal what there is."""


@command.command("eviction")
@click.argument("plan_path", metavar="[PLAN]", required=False)
@click.option("--mode", metavar="FAULT", help="The fault instead of the plan's: reset, 503 or hang.")
@click.option("--compress", metavar="30x", help="Divide phases and traffic period; budgets stay in seconds.")
@click.option(
    "--rehearsal", is_flag=True, help="One person may hold all seats; goes on to the gate. Stamped REHEARSAL."
)
@click.option("--by-hand", is_flag=True, help="Wait for the Lead's inject and lift from other terminals.")
@click.option("--cmd", metavar="'COMMAND'", help="How to start the agent; it gets DRILL_LOG and the base URLs.")
@click.option(
    "--wait-agent", type=float, metavar="S", help="Seconds to wait for an agent that you start. By hand: 600."
)
@click.option("--timeline", metavar="FILE", help="Where an agent that you start writes its timeline (its DRILL_LOG).")
@click.option("--runs", metavar="DIR", default="runs", show_default=True, help="Where run folders go.")
@click.option("--permit-host", metavar="HOST", help="Repeat the host that the plan has permission for.")
@click.option("--yes", is_flag=True, help="Do not ask before the drill starts.")
@click.option("--json", "as_json", is_flag=True, help="Print what came of it as JSON.")
def eviction(
    plan_path: str | None,
    mode: str | None,
    compress: str | None,
    rehearsal: bool,
    by_hand: bool,
    cmd: str | None,
    wait_agent: float | None,
    timeline: str | None,
    runs: str,
    permit_host: str | None,
    yes: bool,
    as_json: bool,
) -> None:
    """Take the model endpoint away from an agent, and give it back.

    PLAN is a plan's file; without one `eviction-plan.yaml` here is meant. Ends with exit code 0 when the run is complete
    and sealed, 3 when it was stopped, 2 when it was refused before anything was hurt. A rehearsal goes on to the gate and
    ends with the gate's code.

    \b
    Examples:
      drillmaster run eviction eviction-plan.yaml
      drillmaster run eviction eviction-plan.yaml --rehearsal --compress 5x
      drillmaster run eviction eviction-plan.yaml --mode hang --cmd 'python agent.py'
      drillmaster run eviction eviction-plan.yaml --by-hand
    """
    from drillmaster.run import Options, conduct, progress_for
    from drillmaster.sanity import parse_factor

    path = _plan(plan_path)
    factor = None
    if compress is not None:
        factor = parse_factor(compress)
        if factor is None:
            raise Problem(
                "--compress", found=repr(compress), wanted="a factor of at least 1", remedy="write --compress 30x"
            )
    if wait_agent is not None and not 0 <= wait_agent <= 86_400:
        raise Problem(
            "--wait-agent", found=f"{wait_agent:g}", wanted="seconds, at most a day", remedy="write --wait-agent 60"
        )
    options = Options(
        runs=Path(runs),
        mode=mode,
        cmd=cmd,
        compress=factor,
        rehearsal=rehearsal,
        by_hand=by_hand,
        permit_host=permit_host,
        agent_wait_s=wait_agent,
        timeline=None if timeline is None else Path(timeline),
        progress=progress_for(),
    )
    if not yes and not rehearsal and sys.stdin.isatty() and sys.stderr.isatty():
        _confirm(path, options.mode)
    result = conduct(path, options)
    _close(result, as_json=as_json)


def _plan(given: str | None) -> Path:
    if given is not None:
        return Path(given)
    here = Path("eviction-plan.yaml")
    if here.is_file():
        return here
    raise Problem(
        "run eviction",
        found="no plan",
        wanted="a plan's file",
        remedy="write one with `drillmaster init eviction`, or watch a drill first: drillmaster demo",
    )


def _confirm(path: Path, mode: str | None) -> None:
    what = f" in mode {mode}" if mode else ""
    if not click.confirm(f"Start the drill of {path}{what}: its agent will lose its model endpoint?", err=True):
        raise Problem(
            "run eviction",
            found="a no",
            wanted="the Lead's yes",
            remedy="start it when you are ready; --yes does not ask",
        )


def _close(result: "RunResult", *, as_json: bool) -> None:
    """Say what came of it and what to type next; ends the process."""
    run = shlex.quote(_short(result.run_dir))
    stopped = result.exit is Exit.ABORTED
    verdict = _judge(result.run_dir) if result.rehearsal and not stopped else None
    code = result.exit if verdict is None else verdict.exit
    if as_json:
        said = {"run": str(result.run_dir), "exit": int(code), "why": result.why}
        click.echo(json.dumps(said | ({"verdict": verdict.status} if verdict is not None else {})))
    elif stopped:
        click.echo(f"STOPPED {run}: {result.why}")
    else:
        click.echo(f"SEALED {run}")
    if verdict is not None and not as_json:
        _show(verdict)
    if verdict is None and not stopped:
        click.echo(f"next, the Verifier: drillmaster gate eviction {run} --policy POLICY", err=True)
    click.echo(f"next: drillmaster {'report' if stopped else 'card'} {run}", err=True)
    sys.exit(code)


def _judge(run_dir: Path) -> "Verdict":
    """Go on to the gate, as a rehearsal does: nobody else is there to be the Verifier."""
    from drillmaster.clock import SystemClock
    from drillmaster.intake.run import open_run
    from drillmaster.intake.verdicts import judge_eviction, keep

    verdict = judge_eviction(open_run(run_dir), run_dir / "policy.yaml", now_ns=SystemClock().wall_ns())
    keep(verdict, run_dir)
    return verdict


def _show(verdict: "Verdict") -> None:
    from drillmaster import reports

    text = reports.form("text")
    colour = text.colour_wanted(os.environ, is_terminal=sys.stdout.isatty())
    click.echo(text.render(verdict, colour=colour), nl=False, color=colour)


def _short(path: Path) -> str:
    try:
        return str(path.relative_to(Path.cwd()))
    except ValueError:
        return str(path)
