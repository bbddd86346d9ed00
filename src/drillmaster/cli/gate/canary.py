"""`drillmaster gate canary`: may this build have more traffic?"""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from drillmaster.cli import _completions as completions
from drillmaster.cli.gate._verdicts import Says, gate_options, judge_and_end
from drillmaster.errors import Exit, Problem

if TYPE_CHECKING:
    from drillmaster.intake.judging import Asked

__all__ = ["command"]


@click.command("canary")
@click.argument("evidence", metavar="METRICS", required=False, shell_complete=completions.files)
@click.option("--metrics", metavar="FILE", help="METRICS, said by name.", shell_complete=completions.files)
@click.option("--artifact", metavar="DIGEST", help="The build that is to be promoted: sha256: and 64 hex digits.")
@click.option("--model-verdict", metavar="TEXT", help="What a model said. Whatever it is, it is a reason to say no.")
@gate_options
def command(
    evidence: str | None,
    metrics: str | None,
    artifact: str | None,
    model_verdict: str | None,
    asked: "Asked",
    says: Says,
) -> None:
    """Judge a canary by what a collector counted of it.

    METRICS is a file of `drillmaster evidence new canary`, or the article's canary_metrics.json; the policy is one of ours, or
    the article's policy.json. `promote: pinned metrics passed policy` is printed with exit code 0 and never else.

    \b
    Examples:
      drillmaster gate canary canary-metrics.json --policy canary-policy.yaml --artifact "$(cat digest.txt)"
      drillmaster gate canary canary-metrics.json --artifact "$DIGEST" --base origin/main
      drillmaster gate canary canary_metrics.json --policy policy.json --exit-map articles
    """
    from drillmaster.intake.metrics import CanaryIntake, artifact_of

    if evidence is not None and metrics is not None:
        raise Problem(
            "gate canary",
            found=f"metrics twice, {evidence} and --metrics {metrics}",
            wanted="one file of them",
            remedy="drop one of the two",
        )
    named = evidence or metrics
    if named is None:
        raise Problem(
            "gate canary",
            found="no metrics",
            wanted="a file that a collector exported",
            remedy="drillmaster evidence new canary --prometheus URL --service NAME --artifact sha256:... --out FILE",
        )
    intake = CanaryIntake(
        Path(named),
        artifact=None if artifact is None else artifact_of(artifact),
        offered=model_verdict,
        repo=asked.repo,
    )
    # The article's script looks at the model's verdict before any file, and crashes with 1 on one that it cannot use.
    mapped = Exit.REFUSED if model_verdict is not None and model_verdict.strip() else Exit.FAIL
    judge_and_end("canary", asked, says, intake.gather, read=intake.read, mapped_problem=mapped)
