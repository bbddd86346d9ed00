"""`drillmaster gate quota`: may these limits of partners be loaded?"""

from typing import TYPE_CHECKING

import click

from drillmaster.cli import _completions as completions
from drillmaster.cli.gate._verdicts import Says, gate_options, judge_and_end

if TYPE_CHECKING:
    from drillmaster.intake.judging import Asked

__all__ = ["command"]


@click.command("quota")
@click.argument("named", metavar="GUARDS", shell_complete=completions.files)
@click.option(
    "--since",
    metavar="REF",
    default="",
    help="Compare with this version of the file, such as the last tag; by default with where the change began.",
)
@gate_options
def command(named: str, since: str, asked: "Asked", says: Says) -> None:
    """Judge the quotas of a guards file: whose numbers they are, who raised them, and whether the worst turn fits.

    GUARDS is a guards file, or a file in the article's form. Each source has to be a file that the policy pins; what lets more
    through than before has to be signed by reviewers whom the version before names; the product of all declared layers has to fit
    cap and burst.

    \b
    Examples:
      drillmaster gate quota config/guards.yaml --base origin/main --head HEAD
      drillmaster gate quota config/guards.yaml --policy quota-policy.yaml --since v2026.09.15
    """
    import msgspec

    from drillmaster.intake.quotas import QuotaIntake
    from drillmaster.intake.tools import from_the_root

    if asked.base is not None:
        asked = msgspec.structs.replace(asked, protects=(from_the_root(named, asked.repo),))
    judge_and_end("quota", asked, says, QuotaIntake(named, since=since).gather)
