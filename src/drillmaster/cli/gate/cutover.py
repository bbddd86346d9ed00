"""`drillmaster gate cutover`: may a dual-write cutover be shifted by this plan, now?"""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from drillmaster.cli import _completions as completions
from drillmaster.cli.gate._verdicts import Says, gate_options, judge_and_end
from drillmaster.errors import Problem

if TYPE_CHECKING:
    from drillmaster.intake.judging import Asked

__all__ = ["command"]

_PATH = click.Path(path_type=Path)


@click.command("cutover")
@click.argument("evidence", metavar="PLAN", required=False, type=_PATH, shell_complete=completions.files)
@click.option(
    "--digest", metavar="DIGEST", help="The plan that was accepted, as it was printed then: sha256: and 64 hex digits."
)
@click.option(
    "--drill", type=_PATH, metavar="FILE", help="Record of a halt drill. Default: halt-drill.json beside PLAN."
)
@click.option("--budget", type=_PATH, metavar="FILE", help="Measured errors. Default: error-budget.json beside PLAN.")
@click.option(
    "--freeze", type=_PATH, metavar="FILE", help="What was read back. Default: freeze-proof.json beside PLAN."
)
@gate_options
def command(
    evidence: Path | None,
    digest: str | None,
    drill: Path | None,
    budget: Path | None,
    freeze: Path | None,
    asked: "Asked",
    says: Says,
) -> None:
    """Judge a dual-write cutover by its plan, the people in it and what was rehearsed and measured. Shifts nothing.

    PLAN is the article's plan.json. Without a policy it is judged alone, by the article's own numbers. With --base people,
    commits and signatures are judged too; with a policy also error budget, halt drill and, inside the window, the freeze.

    \b
    Examples:
      drillmaster gate cutover cutover/plan.json
      drillmaster gate cutover cutover/plan.json --base origin/main
      drillmaster gate cutover cutover/plan.json --base origin/main --digest "$(cat accepted.txt)"
    """
    from drillmaster.intake.cutover import ALONE, CutoverIntake, digest_of

    if evidence is None:
        raise Problem(
            "gate cutover",
            found="no plan",
            wanted="the plan.json of one cutover",
            remedy="drillmaster gate cutover cutover/plan.json",
        )
    intake = CutoverIntake(
        evidence,
        accepted=None if digest is None else digest_of(digest),
        drill=drill,
        budget=budget,
        freeze=freeze,
    )
    judge_and_end("cutover", asked, says, intake.gather, absent=ALONE)
