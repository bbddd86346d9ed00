"""`drillmaster gate webhook-path`: is a webhook's answer out before any model is asked?"""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from drillmaster.cli import _completions as completions
from drillmaster.cli.gate._verdicts import Says, gate_options, judge_and_end
from drillmaster.errors import Problem

if TYPE_CHECKING:
    from drillmaster.intake.judging import Asked

__all__ = ["command"]


@click.command("webhook-path")
@click.argument("named", metavar="SPANS...", nargs=-1, shell_complete=completions.files)
@gate_options
def command(named: tuple[str, ...], asked: "Asked", says: Says) -> None:
    """Judge by traces whether a webhook's answer is out before any model is asked.

    SPANS are files of OpenTelemetry: OTLP as JSON, or what ConsoleSpanExporter printed; name those of all processes. On a pass
    `accept path stayed model-free` is printed, and never else. No accept span, a span that is missing, and times that two clocks
    leave open are refused.

    \b
    Examples:
      drillmaster gate webhook-path spans.json --policy webhook-path-policy.yaml
      drillmaster gate webhook-path terminator.jsonl worker.jsonl --base origin/main
    """
    from drillmaster.intake.webhook_spans import SpanFiles

    if not named or not all(named):
        raise Problem(
            "gate webhook-path",
            found="no spans" if not named else "an empty path",
            wanted="the spans of replayed webhooks",
            remedy="name the file that the exporter wrote: drillmaster gate webhook-path spans.json",
        )
    judge_and_end("webhook-path", asked, says, SpanFiles([Path(one) for one in named]).gather)
