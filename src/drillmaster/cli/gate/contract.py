"""`drillmaster gate contract`: may these bytes, which other systems obey, be merged?"""

from typing import TYPE_CHECKING

import click

from drillmaster.cli.gate._verdicts import Says, gate_options, judge_and_end

if TYPE_CHECKING:
    from drillmaster.intake.judging import Asked

__all__ = ["command"]


@click.command("contract")
@gate_options
def command(asked: "Asked", says: Says) -> None:
    """Judge a change of contracts against their lock, the versions before and the consumers' examples.

    The lock (schema.lock.json, the article's or one of ours) and the policy are read from the base; the change is what lies
    between it and the head. Who made it is told by signatures and the code host's event; PATCH_ORIGIN and CHANGED_FILES
    can make it worse and never better.

    \b
    Examples:
      drillmaster gate contract --base origin/main
      drillmaster gate contract --base origin/main --head HEAD --event "$GITHUB_EVENT_PATH" --format github
      drillmaster gate contract --base main --policy .drillmaster/contract-policy.yaml --exit-map articles
    """
    from drillmaster.intake.contracts import gather

    judge_and_end("contract", asked, says, gather)
