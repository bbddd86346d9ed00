"""`drillmaster gate retries`: were calls sent again as seldom, and for such reasons, as was agreed on?"""

import shlex
from typing import TYPE_CHECKING

import click

from drillmaster.cli import _completions as completions
from drillmaster.cli.gate._verdicts import Says, gate_options, judge_and_end
from drillmaster.errors import Problem

if TYPE_CHECKING:
    from drillmaster.intake.judging import Asked

__all__ = ["command"]


@click.command("retries")
@click.argument("named", metavar="RUN|LOG...", nargs=-1, shell_complete=completions.runs_or_files)
@click.option(
    "--max-retry-ratio",
    type=float,
    metavar="RATIO",
    help="The article's limit, without a policy: retries for each request.",
)
@click.option(
    "--forbid-reason",
    "forbidden",
    metavar="REASON",
    multiple=True,
    help="The article's other one: a reason that may not stand there once. Can be given again.",
)
@gate_options
def command(
    named: tuple[str, ...], max_retry_ratio: float | None, forbidden: tuple[str, ...], asked: "Asked", says: Says
) -> None:
    """Judge what was sent again, by whom and why.

    RUN is the folder of a sealed run; LOG a file of decisions that workers wrote (guard_decision and user_request lines), or
    several. A policy says how many retries there may be, which reasons never, and which layers lie around a call. The article's
    two flags judge without one: the verdict is then UNPINNED, and age and worst case are not judged.

    \b
    Examples:
      drillmaster gate retries runs/20261129T153000Z-1a2b --policy retries-policy.yaml
      drillmaster gate retries soak.jsonl --max-retry-ratio 0.05 --forbid-reason unpinned-source
      drillmaster gate retries worker-1.jsonl worker-2.jsonl --base origin/main
    """
    from drillmaster.changes import FOLDER
    from drillmaster.intake.decisions import Decisions, article_limits

    if not named or not all(named):
        flags = (
            " --max-retry-ratio 0.05 --forbid-reason unpinned-source"
            if forbidden or max_retry_ratio is not None
            else ""
        )
        raise Problem(
            "gate retries",
            found="nothing to judge" if not named else "an empty path",
            wanted="a sealed run, or a log of decisions",
            remedy=f"name the log that the workers wrote: drillmaster gate retries soak.jsonl{flags}",
        )
    line = f"drillmaster gate retries {' '.join(map(shlex.quote, named))}"
    if max_retry_ratio is None and not forbidden:
        judge_and_end("retries", asked, says, Decisions(named).gather)
        return
    own = asked.repo / FOLDER / "retries-policy.yaml"
    if asked.policy is not None or asked.base is not None or own.is_file():
        raise Problem(
            "gate retries",
            found="limits twice, from the command line and from a policy",
            wanted="one of them",
            remedy=f"write them into the policy (max_retry_ratio, forbid_reasons), then: {line}"
            + (f" --policy {shlex.quote(asked.policy)}" if asked.policy else ""),
        )
    absent = article_limits(max_retry_ratio, forbidden, line)
    judge_and_end("retries", asked, says, Decisions(named).gather, absent=absent)
