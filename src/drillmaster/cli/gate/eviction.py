"""`drillmaster gate eviction`: judge one eviction drill."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from drillmaster.cli import _completions as completions
from drillmaster.cli._quantities import Seconds, Share
from drillmaster.cli.gate._verdicts import Says, change_options, end
from drillmaster.errors import Problem, Refused

if TYPE_CHECKING:
    from drillmaster.gates.eviction import Eviction
    from drillmaster.intake.judging import Asked
    from drillmaster.outcomes import Run
    from drillmaster.verdict import Verdict

__all__ = ["command"]


@click.command("eviction")
@click.argument("evidence", metavar="RUN", required=False, shell_complete=completions.runs_or_files)
@click.option(
    "--policy",
    metavar="FILE",
    help="Policy file. Default: the copy in the run folder; with --base .drillmaster/eviction-policy.yaml there.",
    shell_complete=completions.files,
)
@click.option("--unsealed", is_flag=True, help="RUN is one bare timeline file; the verdict is UNSEALED, UNPROVEN.")
@click.option("--budget", type=Share(), help='With --unsealed: share of user requests that may fail, 0.01 or "1 %".')
@click.option(
    "--fallback-within", type=Seconds(), help="With --unsealed: time for the fallback to engage, such as 60s."
)
@click.option("--no-record", is_flag=True, help="Do not write verdict.json into the run folder.")
@change_options
def command(
    evidence: str | None,
    unsealed: bool,
    budget: float | None,
    fallback_within: float | None,
    no_record: bool,
    asked: "Asked",
    says: Says,
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
    path = Path(evidence)
    if unsealed:
        verdict = _judge_bare(path, asked.policy, budget, fallback_within, says.now_ns)
    else:
        if budget is not None or fallback_within is not None:
            raise Problem(
                "gate eviction",
                found="--budget or --fallback-within for a run folder",
                wanted="its limits from a policy with an owner",
                remedy="give --policy FILE, or --unsealed for one bare file",
            )
        verdict = _judge_run(path, asked, record=not no_record)
    from drillmaster.gates import find

    end(verdict, find("eviction"), says)


def _judge_run(path: Path, asked: "Asked", *, record: bool) -> "Verdict":
    from drillmaster.intake.run import open_run
    from drillmaster.intake.runs import find_run
    from drillmaster.intake.upholding import upheld
    from drillmaster.intake.verdicts import judge_eviction, keep

    path = find_run(path)
    _not_live(path)
    run = open_run(path)
    said = upheld(
        "eviction", asked, path / "policy.yaml", lambda policy, _: judge_eviction(run, policy, now_ns=asked.now_ns)
    )
    if record:
        keep(said.kept, path)
    return said.told


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


def _latest_hint() -> str:
    from drillmaster.intake.runs import latest

    run = latest()
    return f"drillmaster gate eviction {run}" if run else "drillmaster demo makes a run; then name its folder"
