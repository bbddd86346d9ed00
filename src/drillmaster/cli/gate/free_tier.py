"""`drillmaster gate free-tier`: may the job stay on an endpoint that nobody pays for?"""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from drillmaster.cli import _completions as completions
from drillmaster.cli.gate._verdicts import Says, gate_options, judge_and_end

if TYPE_CHECKING:
    from drillmaster.intake.judging import Asked

__all__ = ["command"]


@click.command("free-tier")
@click.argument("runs", type=click.Path(path_type=Path), default=Path("runs"), shell_complete=completions.folders)
@click.option(
    "--ledger",
    metavar="FILE",
    type=click.Path(path_type=Path),
    default=Path("free-tier-ledger.jsonl"),
    show_default=True,
    help="Incidents, hours and red flags: drillmaster ledger.",
    shell_complete=completions.files,
)
@gate_options
def command(runs: Path, ledger: Path, asked: "Asked", says: Says) -> None:
    """Judge whether a job stays on a free tier: exit code 0 stay, 1 leave, 2 nothing can be said.

    RUNS is the folder in which the job's sealed interviews lie. All of the policy's span count, in the order in which they were
    taken; one that is unsealed, altered or cut short refuses the verdict, and so does a gap.

    \b
    Examples:
      drillmaster gate free-tier runs --policy free-tier-policy.yaml
      drillmaster gate free-tier runs --ledger free-tier-ledger.jsonl --base origin/main --output markdown=stay.md
    """
    from drillmaster.load.stays import StayIntake

    judge_and_end("free-tier", asked, says, StayIntake(runs, ledger).gather)
