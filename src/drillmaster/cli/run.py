"""`drillmaster run`: do a drill, from the plan to the seal."""

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import click

from drillmaster.cli import Verb
from drillmaster.cli import _completions as completions
from drillmaster.cli._quantities import factor_of
from drillmaster.errors import Exit, Problem, one_line

if TYPE_CHECKING:
    from drillmaster.friday.plan import FridayPlan
    from drillmaster.plan import Outline, Plan
    from drillmaster.run import RunResult
    from drillmaster.verdict import Verdict

__all__ = ["command"]


@click.group("run", cls=Verb)
def command() -> None:
    """Do a drill: walk the plan's phases, lift on every way out, seal what there is.

    \b
    Examples:
      drillmaster run eviction --rehearsal --compress max
      drillmaster run matrix eviction-plan.yaml --rehearsal --compress max
      drillmaster run friday --rehearsal --compress max
    """


def _of_any_drill(*, wait_agent: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a verb what every drill asks of the agent, of the folder and of whoever starts it. `wait_agent`: its help."""
    options = (
        click.option("--cmd", metavar="'COMMAND'", help="How to start the agent; it gets DRILL_LOG and the base URLs."),
        click.option("--wait-agent", "wait_agent_s", type=float, metavar="S", help=wait_agent),
        click.option(
            "--timeline",
            metavar="FILE",
            type=click.Path(path_type=Path),
            help="Where an agent that you start writes its timeline (its DRILL_LOG).",
            shell_complete=completions.files,
        ),
        click.option(
            "--runs",
            metavar="DIR",
            type=click.Path(path_type=Path),
            default=Path("runs"),
            show_default=True,
            help="Where run folders go.",
            shell_complete=completions.folders,
        ),
        click.option("--permit-host", metavar="HOST", help="Repeat the host that the plan has permission for."),
        click.option("--yes", is_flag=True, help="Do not ask before the drill starts."),
    )

    def give(verb: Callable[..., None]) -> Callable[..., None]:
        for option in reversed(options):
            verb = option(verb)
        return verb

    return give


@command.command("eviction")
@click.argument("plan_path", metavar="[PLAN]", required=False, shell_complete=completions.files)
@click.option(
    "--mode",
    metavar="FAULT",
    help="The fault instead of the plan's: any of `drillmaster fault list`, such as reset, 503 or stall.",
    shell_complete=completions.faults,
)
@click.option(
    "--compress",
    metavar="max|5x",
    help="Divide phases and traffic period, by as much as policy and plan leave room for or by a factor; "
    "budgets and patience stay in seconds. The real endpoint gets so many times more requests a second.",
)
@click.option(
    "--rehearsal", is_flag=True, help="One person may hold all seats; goes on to the gate. Stamped REHEARSAL."
)
@click.option("--by-hand", is_flag=True, help="Wait for the Lead's inject and lift from other terminals.")
@_of_any_drill(wait_agent="Seconds to wait for an agent that you start. By hand: 600.")
@click.option("--json", "as_json", is_flag=True, help="Print what came of it as JSON.")
def eviction(
    plan_path: str | None,
    mode: str | None,
    compress: str | None,
    rehearsal: bool,
    by_hand: bool,
    cmd: str | None,
    wait_agent_s: float | None,
    timeline: Path | None,
    runs: Path,
    permit_host: str | None,
    yes: bool,
    as_json: bool,
) -> None:
    """Take the model endpoint away from an agent, and give it back.

    PLAN is a plan's file; without one `eviction-plan.yaml` here is meant, which is what `drillmaster init eviction` writes.
    Ends with exit code 0 when the run is complete and sealed, 3 when it was stopped, 2 when it was refused before anything
    was hurt. A rehearsal goes on to the gate, writes card and report, and ends with the gate's code.

    \b
    Examples:
      drillmaster run eviction --rehearsal --compress max
      drillmaster run eviction eviction-plan.yaml
      drillmaster run eviction eviction-plan.yaml --mode hang --cmd 'python3 agent.py'
      drillmaster run eviction eviction-plan.yaml --by-hand
    """
    from drillmaster.run import Options, conduct, progress_for

    path = _plan(plan_path, "eviction")
    _at_most_a_day("--wait-agent", wait_agent_s)
    options = Options(
        runs=runs,
        mode=mode,
        cmd=cmd,
        compress=_factor(compress),
        rehearsal=rehearsal,
        by_hand=by_hand,
        permit_host=permit_host,
        agent_wait_s=wait_agent_s,
        timeline=timeline,
        progress=progress_for(),
        confirm=None if yes or rehearsal else _asked(_about_the_drill),
    )
    _close(conduct(path, options), as_json=as_json)


@command.command("matrix")
@click.argument("plan_path", metavar="[PLAN]", required=False, shell_complete=completions.files)
@click.option(
    "--faults",
    metavar="TAG,TAG",
    help="These faults in place of the plan's.",
    shell_complete=completions.faults_of_a_list,
)
@click.option(
    "--group",
    "groups",
    multiple=True,
    metavar="GROUP",
    help="All faults of this group: stream, status and others.",
    shell_complete=completions.fault_groups,
)
@click.option("--all", "everything", is_flag=True, help="Every fault that there is.")
@click.option(
    "--time-limit", "time_limit_s", type=float, metavar="S", help="Begin no cell that would end after so many seconds."
)
@click.option(
    "--compress",
    metavar="max|5x",
    help="Divide the traffic period and the times by a factor, or by as much as goes; a user's patience stays in seconds.",
)
@click.option("--rehearsal", is_flag=True, help="One person may hold all seats. Stamped REHEARSAL.")
@_of_any_drill(wait_agent="Seconds to wait for an agent that you start.")
@click.option(
    "--html",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="Write the table as one HTML page. Default: RUN/matrix.html.",
)
@click.option("--json", "as_json", is_flag=True, help="Print the table as JSON.")
def matrix(
    plan_path: str | None,
    faults: str | None,
    groups: tuple[str, ...],
    everything: bool,
    time_limit_s: float | None,
    compress: str | None,
    rehearsal: bool,
    cmd: str | None,
    wait_agent_s: float | None,
    timeline: Path | None,
    runs: Path,
    permit_host: str | None,
    yes: bool,
    html: Path | None,
    as_json: bool,
) -> None:
    """Run every chosen fault against your agent, one after another, and print what each of them reached.

    PLAN is a plan of a matrix or of an eviction drill; without one `matrix-plan.yaml` here is meant, or `eviction-plan.yaml`. A
    baseline first hears which APIs the agent speaks, streamed or whole; each fault is then on for a short window in each of them,
    and the agent is back before the next begins. What is not run is listed with why. Ends with 0 when no cell failed more users
    than the policy allows (without a policy: when something was measured), 1 when one did, 2 when nothing was settled or cells that
    should have been run were not, 3 when it was stopped.

    \b
    Examples:
      drillmaster run matrix --rehearsal --compress max
      drillmaster run matrix eviction-plan.yaml --faults reset,503,stall --rehearsal
      drillmaster run matrix matrix-plan.yaml --group stream --html streams.html
      drillmaster run matrix matrix-plan.yaml --all --time-limit 3600
    """
    from drillmaster.cli.matrix import show, table_of
    from drillmaster.run import Options, Picked, conduct, progress_for

    path = _plan(plan_path, "matrix", "eviction")
    _at_most_a_day("--wait-agent", wait_agent_s)
    _at_most_a_day("--time-limit", time_limit_s)
    tags = tuple(tag.strip() for tag in (faults or "").split(",") if tag.strip())
    if faults is not None and not tags:
        raise Problem(
            "--faults",
            found=f"{faults[:40]!r}, which names none",
            wanted="tags of `drillmaster fault list`, with commas between them",
            remedy="write --faults reset,503, or leave it out for those of the plan",
        )
    if everything and (tags or groups):
        raise click.UsageError("--all means every fault: it goes with neither --faults nor --group")
    if as_json and str(html) == "-":
        raise click.UsageError("--html - prints the page: it does not go with --json")
    result = conduct(
        path,
        Options(
            runs=runs,
            cmd=cmd,
            compress=_factor(compress),
            rehearsal=rehearsal,
            permit_host=permit_host,
            agent_wait_s=wait_agent_s,
            timeline=timeline,
            progress=progress_for(),
            confirm=None if yes or rehearsal else _asked(_about_the_matrix),
            matrix=Picked(faults=tags, groups=groups, everything=everything, time_limit_s=time_limit_s),
        ),
    )
    page = html or result.run_dir / "matrix.html"
    table = table_of(result.run_dir, result.exit, result.why)
    show(table, result.run_dir, html=page, as_json=as_json, must_write=html is not None)


@command.command("friday")
@click.argument("plan_path", metavar="[PLAN]", required=False, shell_complete=completions.files)
@click.option(
    "--compress",
    metavar="max|5x",
    help="Divide the phases by a factor, or by as much as alerts leave room for. As many missions stay in flight, and limits "
    "stay as they are.",
)
@click.option(
    "--rehearsal", is_flag=True, help="One person may hold all seats; goes on to the gate. Stamped REHEARSAL."
)
@_of_any_drill(wait_agent="Seconds to wait for an agent that you start.")
@click.option("--json", "as_json", is_flag=True, help="Print what came of it as JSON.")
def friday(
    plan_path: str | None,
    compress: str | None,
    rehearsal: bool,
    cmd: str | None,
    wait_agent_s: float | None,
    timeline: Path | None,
    runs: Path,
    permit_host: str | None,
    yes: bool,
    as_json: bool,
) -> None:
    """Load an agent with missions, switch chaos flags on in the middle of it, and listen for the alert.

    PLAN is a plan's file; without one `friday-plan.yaml` here is meant, which is what `drillmaster init friday` writes. By
    default missions go on for 15 minutes, with the flags on in minutes 5 to 10. Ends with exit code 0 when the run is complete
    and sealed, 3 when it was stopped (the flags are off then, and what was measured is there), 2 when it was refused before
    anything was switched. A rehearsal goes on to the gate, writes card and report, and ends with the gate's code.

    \b
    Examples:
      drillmaster run friday --rehearsal --compress max
      drillmaster run friday friday-plan.yaml
      drillmaster run friday friday-plan.yaml --cmd 'python3 agent.py'
      drillmaster run friday friday-plan.yaml --permit-host staging.example.com --yes
    """
    from drillmaster.run import Options, conduct_friday, progress_for

    path = _plan(plan_path, "friday")
    _at_most_a_day("--wait-agent", wait_agent_s)
    options = Options(
        runs=runs,
        cmd=cmd,
        compress=_factor(compress),
        rehearsal=rehearsal,
        permit_host=permit_host,
        agent_wait_s=wait_agent_s,
        timeline=timeline,
        progress=progress_for(),
        confirm=None if yes or rehearsal else _asked(_about_friday),
    )
    _close(conduct_friday(path, options), as_json=as_json, gate="matrix")


def _at_most_a_day(option: str, value_s: float | None) -> None:
    if value_s is not None and not 0 <= value_s <= 86_400:
        raise Problem(option, found=f"{value_s:g}", wanted="seconds, at most a day", remedy=f"write {option} 600")


def _about_the_drill(plan: "Plan") -> str:
    what = f"{plan.fault.mode} for {plan.phases.fault_s:g} s"
    return f"Start the drill of {plan.service}? Its agent will lose its model endpoint: {what}"


def _about_the_matrix(plan: "Plan") -> str:
    return f"Start the matrix of {plan.service}? Its agent meets one fault after another"


def _about_friday(plan: "FridayPlan") -> str:
    flags = ", ".join(one.flag for one in plan.flags.on)
    minutes = sum((plan.phases.baseline_s, plan.phases.fault_s, plan.phases.recovery_s)) / 60
    held = f"{plan.missions.concurrent} missions at once" if plan.missions.concurrent else "missions by the clock"
    return f"Start the Friday drill of {plan.service}? {held} for {minutes:.3g} min, {flags} on in the middle"


def _asked(question: "Callable[[Any], str]") -> "Callable[[Any], None] | None":
    """What asks the Lead, who has read budget and warnings by then; None where nobody sits at the terminal."""
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        return None
    verb = click.get_current_context().command_path.partition(" ")[2]

    def ask(plan: "Outline") -> None:
        if not click.confirm(question(plan), err=True):
            raise Problem(
                verb,
                found="a no",
                wanted="the Lead's yes",
                remedy="start it when you are ready; --yes does not ask",
            )

    return ask


def _factor(text: str | None) -> "float | Literal['max'] | None":
    if text is None:
        return None
    return "max" if text.strip().lower() == "max" else factor_of(text, instead="max")


def _plan(given: str | None, *kits: str) -> Path:
    if given is not None:
        return Path(given)
    for kit in kits:
        here = Path(f"{kit}-plan.yaml")
        if here.is_file():
            return here
    raise Problem(
        f"run {kits[0]}",
        found="no plan",
        wanted="a plan's file",
        remedy=f"write one with `drillmaster init {kits[0]}`, or watch a drill first: drillmaster demo",
    )


def _close(result: "RunResult", *, as_json: bool, gate: Literal["eviction", "matrix"] = "eviction") -> None:
    """Say what came of it and what to type next; ends the process."""
    from drillmaster import reports
    from drillmaster.cli import say_json
    from drillmaster.intake.runs import short
    from drillmaster.intake.written import judged_run, write_whole

    run = short(result.run_dir)
    stopped = result.exit is Exit.ABORTED
    said: dict[str, object] = {"run": str(result.run_dir), "exit": int(result.exit), "why": result.why}
    heading = f"STOPPED {run}: {result.why}" if stopped else f"SEALED {run}"
    if not as_json:
        click.echo(heading)
    if stopped or not result.rehearsal:
        if as_json:
            say_json(said)
        policy = "" if result.policy_path is None else f" --policy {short(result.policy_path)}"
        judging = f"drillmaster gate {gate} {run}{policy}"
        if stopped:
            click.echo(f"next: {judging}", err=True)
            click.echo(
                f"(it refuses a stopped drill, and says what there is; then: drillmaster report {run})", err=True
            )
        else:
            click.echo(f"next, the Verifier: {judging}", err=True)
            click.echo(f"then: drillmaster card {run}", err=True)
        sys.exit(result.exit)
    verdict = _judge(result.run_dir, gate)
    if not as_json:
        _show(verdict)
    # The run is sealed and judged: a card that cannot be written is told, and the verdict stands.
    written: dict[str, str] = {}
    if gate == "matrix":
        written = _friday_written(result.run_dir)
    for form, name in (("card", "card.md"), ("report", "report.html")) if gate == "eviction" else ():
        try:
            verdict, view = judged_run(result.run_dir)
            page = reports.form("html" if form == "report" else form).render(verdict, view)
            written[form] = str(write_whole(result.run_dir / name, page))
        except Problem as problem:
            click.echo(f"{form}: {problem}", err=True)
    if as_json:
        why = result.why or _unpassed(verdict)
        say_json(said | {"exit": int(verdict.exit), "why": why, "verdict": verdict.status} | written)
    else:
        for form, path in written.items():
            click.echo(f"{form + ':':<8}{short(Path(path))}")
    click.echo(f"next: {_after(verdict.status, run)}", err=True)
    sys.exit(verdict.exit)


def _friday_written(run_dir: Path) -> dict[str, str]:
    """Write card and report of a Friday drill; what was written."""
    from drillmaster.intake.friday_pages import friday_pages

    try:
        return {form: str(path) for form, path in friday_pages(run_dir).items()}
    except Problem as problem:
        click.echo(f"card and report: {problem}", err=True)
        return {}


def _unpassed(verdict: "Verdict") -> str:
    """The checks that did not pass, as the gate says them; empty: all did."""
    lines = (
        f"{c.status.upper()} {c.title}{f': {c.why}' if c.why else ''}" for c in verdict.checks if c.status != "pass"
    )
    return one_line("; ".join(lines))[:2_000]


def _after(status: str, run: str) -> str:
    if status == "fail":
        return f"drillmaster card {run} --issues issues/"
    return f"drillmaster report {run} --open"


def _judge(run_dir: Path, gate: Literal["eviction", "matrix"]) -> "Verdict":
    """Go on to the gate, as a rehearsal does: nobody else is there to be the Verifier."""
    from drillmaster.clock import SystemClock
    from drillmaster.intake.verdicts import keep

    policy, now_ns = run_dir / "policy.yaml", SystemClock().wall_ns()
    if gate == "matrix":
        from drillmaster.cli._walking import shown_progress
        from drillmaster.intake.friday import judge_friday

        with shown_progress() as heard:
            verdict = judge_friday(run_dir, policy, now_ns=now_ns, heard=heard)
    else:
        from drillmaster.intake.run import open_run
        from drillmaster.intake.verdicts import judge_eviction

        verdict = judge_eviction(open_run(run_dir), policy, now_ns=now_ns)
    keep(verdict, run_dir)
    return verdict


def _show(verdict: "Verdict") -> None:
    from drillmaster import reports

    text = reports.form("text")
    colour = text.colour_wanted(os.environ, is_terminal=sys.stdout.isatty())
    click.echo(text.render(verdict, colour=colour), nl=False, color=colour)
