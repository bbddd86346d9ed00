"""`drillmaster gate imports`: do the modules that decide import no model, and read no body?"""

from typing import TYPE_CHECKING

import click

from drillmaster.cli.gate._verdicts import Says, gate_options, judge_and_end

if TYPE_CHECKING:
    from drillmaster.intake.judging import Asked

__all__ = ["command"]


@click.command("imports")
@gate_options
def command(asked: "Asked", says: Says) -> None:
    """Judge what the modules that decide import and read.

    The policy says which modules are pinned: what classifies a retry, makes a key, holds a lease, accepts a webhook. None of them,
    and nothing of the repository that is loaded with them, imports a model SDK; a classifier imports no client of a network; none
    of them reads a body or a prompt. With --base the change's head is judged by the policy of the base.

    \b
    Examples:
      drillmaster gate imports --policy .drillmaster/imports-policy.yaml
      drillmaster gate imports --base origin/main
      drillmaster gate imports --base origin/main --head HEAD --format github
    """
    from drillmaster.intake.imports import gather_imports

    judge_and_end("imports", asked, says, gather_imports)
