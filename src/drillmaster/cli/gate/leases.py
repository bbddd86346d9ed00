"""`drillmaster gate leases`: is the lab apart from production's locks, and are its prompts?"""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from drillmaster.cli import _completions as completions
from drillmaster.cli.gate._verdicts import Says, gate_options, judge_and_end
from drillmaster.errors import Problem

if TYPE_CHECKING:
    from drillmaster.intake.judging import Asked

__all__ = ["command"]


@click.command("leases")
@click.argument("named", metavar="LAB", required=False, shell_complete=completions.files)
@click.option(
    "--image",
    "images",
    metavar="FILE",
    multiple=True,
    help="The lab's image: what docker image inspect printed (.json), or its Dockerfile. Can be given again.",
    shell_complete=completions.files,
)
@gate_options
def command(named: str | None, images: tuple[str, ...], asked: "Asked", says: Says) -> None:
    """Judge whether a lab is apart from production's locks, and whether prompts speak of holding them.

    LAB is the file that `drillmaster evidence new lease-lab` wrote on the lab host: names of its environment, and its routes.
    Prompts and the lock client's code are searched in the repository, with --base as the change has them. No value is read and
    no packet sent.

    \b
    Examples:
      drillmaster gate leases lease-lab.json --image image.json --policy leases-policy.yaml
      drillmaster gate leases lease-lab.json --image lab/Dockerfile --base origin/main
    """
    from drillmaster.intake.lease_lab import LabIntake

    if not named or not all(images):
        raise Problem(
            "gate leases",
            found="no lab" if not named else "an empty path",
            wanted="what a lab host said of itself",
            remedy="on the lab host: drillmaster evidence new lease-lab --out lease-lab.json",
        )
    judge_and_end("leases", asked, says, LabIntake(Path(named), [Path(one) for one in images]).gather)
