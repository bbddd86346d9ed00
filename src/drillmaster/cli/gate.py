"""`drillmaster gate`: judge evidence by a policy. The exit code is the verdict."""

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click
import msgspec

from drillmaster.cli import Verb
from drillmaster.cli import _completions as completions
from drillmaster.cli._quantities import Seconds, Share
from drillmaster.errors import Problem, Refused

if TYPE_CHECKING:
    from drillmaster.gates.eviction import Eviction
    from drillmaster.outcomes import Run
    from drillmaster.verdict import Verdict

__all__ = ["command"]

_F = TypeVar("_F", bound=Callable[..., Any])


@click.group("gate", cls=Verb)
def command() -> None:
    """Judge evidence by a policy: 0 pass, 1 fail, 2 refused.

    A gate is pure: the same evidence, policy and --now give the same verdict on any machine.
    """


_VERDICT_OPTIONS = (
    click.option(
        "--format",
        "form",
        type=click.Choice(["text", "json"]),
        default="text",
        show_default=True,
        help="Form of the verdict.",
    ),
    click.option("--json", "as_json", is_flag=True, help="Short for --format json."),
    click.option("--now", metavar="TIME", help="Judge as of this RFC 3339 time instead of now."),
    click.option("--no-record", is_flag=True, help="Do not write verdict.json into the run folder."),
    click.option("--exit-map", type=click.Choice(["articles"]), help="Exit 0 or 1 as the article's script did."),
)


def _verdict_options(verb: _F) -> _F:
    """What every gate can be told: the form of its verdict, as of when, whether to keep it, and how to exit."""
    for option in reversed(_VERDICT_OPTIONS):
        verb = option(verb)
    return verb


@command.command("eviction")
@click.argument("evidence", metavar="RUN", required=False, shell_complete=completions.runs_or_files)
@click.option(
    "--policy",
    "policy_path",
    metavar="FILE",
    help="Policy file. Default: the copy in the run folder.",
    shell_complete=completions.files,
)
@click.option("--unsealed", is_flag=True, help="RUN is one bare timeline file; the verdict is UNSEALED, UNPROVEN.")
@click.option("--budget", type=Share(), help='With --unsealed: share of user requests that may fail, 0.01 or "1 %".')
@click.option(
    "--fallback-within", type=Seconds(), help="With --unsealed: time for the fallback to engage, such as 60s."
)
@_verdict_options
def eviction(
    evidence: str | None,
    policy_path: str | None,
    unsealed: bool,
    budget: float | None,
    fallback_within: float | None,
    form: str,
    as_json: bool,
    now: str | None,
    no_record: bool,
    exit_map: str | None,
) -> None:
    """Judge one eviction drill.

    RUN is the folder of a sealed run, or with --unsealed one timeline file that workers of any language wrote.

    \b
    Examples:
      drillmaster gate eviction runs/20261129T153000Z-1a2b --policy eviction-policy.yaml
      drillmaster gate eviction drill.jsonl --unsealed --budget 0.01 --fallback-within 60s
      drillmaster gate eviction runs/20261129T153000Z-1a2b --json
    """
    if evidence is None:
        raise Problem(
            "gate eviction",
            found="no run",
            wanted="a run folder, or one file with --unsealed",
            remedy=_latest_hint(),
        )
    now_ns = _now_ns(now)
    path = Path(evidence)
    if unsealed:
        verdict = _judge_bare(path, policy_path, budget, fallback_within, now_ns)
    else:
        if budget is not None or fallback_within is not None:
            raise Problem(
                "gate eviction",
                found="--budget or --fallback-within for a run folder",
                wanted="its limits from a policy with an owner",
                remedy="give --policy FILE, or --unsealed for one bare file",
            )
        verdict = _judge_run(path, policy_path, now_ns, record=not no_record)
    if exit_map:
        verdict = msgspec.structs.replace(verdict, stamps=(*verdict.stamps, f"EXIT MAP {exit_map}"))
    _show(verdict, "json" if as_json else form)
    code = int(verdict.exit)
    sys.exit(min(code, 1) if exit_map else code)


@command.command("interview")
@click.argument("evidence", metavar="RUN", required=False, shell_complete=completions.files)
@click.argument("thresholds", metavar="[THRESHOLDS]", required=False, shell_complete=completions.files)
@click.option(
    "--policy",
    "policy_path",
    metavar="FILE",
    help="THRESHOLDS, said by name: the article's gate.json, or a policy of ours.",
    shell_complete=completions.files,
)
@click.option("--unsealed", is_flag=True, help="RUN is one interview.json; the verdict is UNSEALED, UNPROVEN.")
@_verdict_options
def interview(
    evidence: str | None,
    thresholds: str | None,
    policy_path: str | None,
    unsealed: bool,
    form: str,
    as_json: bool,
    now: str | None,
    no_record: bool,
    exit_map: str | None,
) -> None:
    """Judge one load interview by thresholds that somebody signed.

    RUN is the folder of a sealed interview, or with --unsealed one interview.json. THRESHOLDS, or --policy, are the numbers
    that it is held to, and have no default. The line `BREACH: none`, or what is over its limit, is printed as the article's
    script does; a refusal prints neither.

    \b
    Examples:
      drillmaster gate interview runs/20261130T080000Z-1a2b --policy gate.json
      drillmaster gate interview interview.json gate.json --unsealed
      drillmaster gate interview interview.json --unsealed --policy gate.json --json
    """
    from drillmaster.intake.interviews import judge_interview_file, open_interview_file, read_thresholds

    if thresholds is not None and policy_path is not None:
        raise Problem(
            "gate interview",
            found=f"thresholds twice, {thresholds} and --policy {policy_path}",
            wanted="one file of them",
            remedy="drop one of the two",
        )
    policy_path = policy_path or thresholds
    if evidence is None or policy_path is None:
        raise Problem(
            "gate interview",
            found="no file" if evidence is None else "no thresholds",
            wanted="a file to judge, and the thresholds; they have no default",
            remedy=f"drillmaster gate interview {evidence or 'interview.json'} {policy_path or 'gate.json'} --unsealed",
        )
    path, policy = Path(evidence), Path(policy_path)
    if unsealed:
        verdict = judge_interview_file(open_interview_file(path), read_thresholds(policy), now_ns=_now_ns(now))
    else:
        verdict = _judge_interview(path, policy, _now_ns(now), record=not no_record)
    if exit_map:
        verdict = msgspec.structs.replace(verdict, stamps=(*verdict.stamps, f"EXIT MAP {exit_map}"))
    _show(verdict, "json" if as_json else form)
    code = int(verdict.exit)
    sys.exit(min(code, 1) if exit_map else code)


def _judge_interview(path: Path, policy: Path, now_ns: int, *, record: bool) -> "Verdict":
    from drillmaster.intake import is_there
    from drillmaster.intake.runs import find_run
    from drillmaster.intake.verdicts import keep
    from drillmaster.load.showing import keep_thresholds
    from drillmaster.passports import judge_run

    if is_there(path) and not path.is_dir():
        raise Problem(
            "gate interview",
            found=f"{path}, one file that anybody can have written",
            wanted="the folder of a sealed run, or --unsealed, which says so in the verdict",
            remedy=f"drillmaster gate interview {path} {policy} --unsealed",
        )
    path = find_run(path)
    verdict = judge_run(path, policy, now_ns=now_ns).verdict
    if record:
        keep_thresholds(policy, path)
        keep(verdict, path)
    return verdict


def _judge_run(path: Path, policy_path: str | None, now_ns: int, *, record: bool) -> "Verdict":
    from drillmaster.intake.run import open_run
    from drillmaster.intake.runs import find_run
    from drillmaster.intake.verdicts import judge_eviction, keep

    path = find_run(path)
    _not_live(path)
    run = open_run(path)
    policy_file = Path(policy_path) if policy_path else path / "policy.yaml"
    verdict = judge_eviction(run, policy_file, now_ns=now_ns)
    if record:
        keep(verdict, path)
    return verdict


def _not_live(path: Path) -> None:
    """Refuse a run that is still going on: what is sealed under its feet is lost."""
    from drillmaster.run.seats import live_at

    if live_at(path) is not None:
        raise Refused(
            str(path),
            found="a drill that is still running",
            wanted="a run that has ended",
            remedy="wait for its end, or have the Lead end it: drillmaster stop",
        )


def _judge_bare(
    path: Path, policy_path: str | None, budget: float | None, fallback_within: float | None, now_ns: int
) -> "Verdict":
    from drillmaster.intake import is_there
    from drillmaster.intake.run import open_bare
    from drillmaster.intake.verdicts import judge_bare

    if is_there(path) and path.is_dir():
        raise Problem(
            str(path),
            found="a run folder",
            wanted="one timeline file",
            remedy=f"drillmaster gate eviction {path} (without --unsealed)",
        )
    limits: Eviction | None = None
    if policy_path is None:
        if budget is None or fallback_within is None:
            raise Problem(
                "gate eviction",
                found="no limits",
                wanted="both --budget and --fallback-within, or --policy; limits have no default",
                remedy=f"drillmaster gate eviction {path} --unsealed --budget 0.01 --fallback-within 60s",
            )
        limits = _flag_limits(budget, fallback_within)
    elif budget is not None or fallback_within is not None:
        raise Problem(
            "gate eviction", found="limits twice", wanted="--policy, or the two flags", remedy="drop one of them"
        )
    run: Run = open_bare(path)
    return judge_bare(run, limits, Path(policy_path) if policy_path else None, now_ns=now_ns)


def _flag_limits(budget: float, fallback_within: float) -> "Eviction":
    from drillmaster.gates.eviction import Eviction

    return Eviction(
        max_fallback_s=fallback_within,
        max_failed_ratio=budget,
        failed_window="fault",
        max_recovery_s=None,
        min_met=1,
        max_baseline_failed_ratio=budget,
        max_unattributed_ratio=0.0,
        max_clock_step_s=1.0,
    )


def _now_ns(now: str | None) -> int:
    from drillmaster.clock import SystemClock, parse_rfc3339

    if now is None:
        # Whole seconds, as the verdict records them: judged again with --now it is the same, byte for byte.
        return SystemClock().wall_ns() // 10**9 * 10**9
    given = parse_rfc3339(now)
    if given is None:
        raise Problem(
            "--now", found=repr(now), wanted="RFC 3339 with a zone", remedy="write it as 2026-11-29T15:30:00Z"
        )
    return given


def _latest_hint() -> str:
    from drillmaster.intake.runs import latest

    run = latest()
    return f"drillmaster gate eviction {run}" if run else "drillmaster demo makes a run; then name its folder"


def _show(verdict: "Verdict", form: str) -> None:
    from drillmaster import reports

    if form == "json":
        click.echo(reports.form("json").render(verdict), nl=False)
        return
    text = reports.form("text")
    colour = text.colour_wanted(os.environ, is_terminal=sys.stdout.isatty())
    click.echo(text.render(verdict, colour=colour), nl=False, color=colour)
