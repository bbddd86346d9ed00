"""`drillmaster gate matrix`: does a Friday drill show that each row of the drill matrix holds?"""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from drillmaster.cli import _completions as completions
from drillmaster.cli.gate._verdicts import Says, change_options, end
from drillmaster.errors import Problem, Refused

if TYPE_CHECKING:
    from drillmaster.intake.judging import Asked
    from drillmaster.verdict import Verdict

__all__ = ["command"]


@click.command("matrix")
@click.argument("run", metavar="RUN", required=False, shell_complete=completions.runs)
@click.option("--no-record", is_flag=True, help="Do not write verdict.json into the run folder.")
@click.option(
    "--policy",
    metavar="FILE",
    help="The drill matrix. Default: the copy that was sealed with the run.",
    shell_complete=completions.files,
)
@change_options
def command(run: str | None, no_record: bool, asked: "Asked", says: Says) -> None:
    """Judge a Friday drill by its drill matrix, row by row.

    RUN is the folder of a sealed run of `drillmaster run friday`, or its id. The policy is the drill matrix; without one named,
    and without --base, the copy that was sealed with the run judges. Each row is judged on the window that it names; a row whose
    probe did not run is refused. `BREACH:` with the rows that are broken, or none, stands above the last line; a refusal prints
    neither.

    \b
    Examples:
      drillmaster gate matrix runs/20261204T140000Z-1a2b --policy drill-matrix.yaml
      drillmaster gate matrix 20261204T14 --policy drill-matrix.yaml --base origin/main --format github
      drillmaster gate matrix 20261204T14 --json
    """
    from drillmaster.cli._walking import shown_progress
    from drillmaster.gates.matrix import MatrixGate, breaches
    from drillmaster.intake.friday import judge_friday, read_manifest
    from drillmaster.intake.runs import find_run
    from drillmaster.intake.upholding import upheld
    from drillmaster.intake.verdicts import keep

    if not run:
        raise Problem(
            "gate matrix",
            found="nothing to judge",
            wanted="the run of a Friday drill",
            remedy="name its folder or id: drillmaster gate matrix runs/ID --policy drill-matrix.yaml",
        )
    path = find_run(run)
    read_manifest(path)
    _not_live(path)
    sealed = path / "policy.yaml"

    def judge(policy: Path, lies_at: Path) -> "Verdict":
        with shown_progress() as heard:
            return judge_friday(path, policy, now_ns=asked.now_ns, heard=heard)

    said = upheld("matrix", asked, sealed if sealed.is_file() else None, judge)
    if not no_record:
        keep(said.kept, path)
    end(said.told, MatrixGate, says, closing=breaches(said.told))


def _not_live(path: Path) -> None:
    from drillmaster.run.seats import live_at

    if live_at(path) is not None:
        raise Refused(
            str(path),
            found="a drill that is still running",
            wanted="a run that has ended",
            remedy="wait for its end, or have the Lead end it: drillmaster stop",
        )
