"""`drillmaster gate oracle`: who wrote what decides pass or fail."""

from typing import TYPE_CHECKING

import click

from drillmaster.cli.gate._verdicts import Says, gate_options, judge_and_end

if TYPE_CHECKING:
    from drillmaster.intake.judging import Asked

__all__ = ["command"]


@click.command("oracle")
@gate_options
def command(asked: "Asked", says: Says) -> None:
    """Judge whether a change leaves its tests' oracles to their owners.

    The base's .oracle-owners (GLOB, OWNER, SOURCE, with tabs) says what decides pass or fail. Refused are an agent that touches
    such a file or writes tests outside tests/scratch/, a change of oracle and product at once, in all or in one commit, and tests
    that assert less than before. Without a policy the article's own numbers judge.

    The lane comes from signatures or from the code host's event; AGENT_LANE can only lower it. ORACLE_DIFF names the range
    where --base does not. With --exit-map articles it exits 12 where the article's script does.

    \b
    Examples:
      drillmaster gate oracle --base origin/main
      drillmaster gate oracle --base origin/main --head HEAD --event event.json --format github
      drillmaster gate oracle --base origin/main --policy .drillmaster/oracle-policy.yaml --exit-map articles
    """
    import os
    import sys

    import msgspec

    from drillmaster.gates._oracle_evidence import LIST
    from drillmaster.gates.oracle import ARTICLE
    from drillmaster.intake.judging import PolicyRead
    from drillmaster.intake.oracles import asked_of, gather_oracles

    def progress(what: str, count: int) -> None:
        if sys.stderr.isatty() and (count % 50 == 0 or what == "files read"):
            print(f"\r\x1b[K{count:,} {what}\r", end="", file=sys.stderr, flush=True)

    absent = PolicyRead(ARTICLE, None, "", "the article's script", limits_from="the article's script")
    asked = msgspec.structs.replace(asked_of(asked, os.environ), protects=(LIST,))
    judge_and_end("oracle", asked, says, gather_oracles(os.environ, progress), absent=absent)
