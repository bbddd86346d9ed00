"""`drillmaster detector`: what an alert's delay can be, a listener by hand, and a detector for teams that have none."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from drillmaster.cli import Verb, say_json
from drillmaster.cli import _completions as completions
from drillmaster.cli._quantities import Seconds
from drillmaster.errors import Exit, Problem, Refused, one_line

if TYPE_CHECKING:
    from drillmaster.rules.alert_delay import Estimate

__all__ = ["command"]

_PATH = click.Path(path_type=Path)


@click.group("detector", cls=Verb)
def command() -> None:
    """Ask how soon an alert can come, listen for alerts, or raise them yourself."""


@command.command("arithmetic")
@click.option(
    "--prometheus", type=_PATH, metavar="FILE", required=True, help="prometheus.yml.", shell_complete=completions.files
)
@click.option(
    "--rules",
    type=_PATH,
    metavar="FILE",
    multiple=True,
    help="A rules file; again for more. Default: those that prometheus.yml names.",
    shell_complete=completions.files,
)
@click.option(
    "--alertmanager",
    type=_PATH,
    metavar="FILE",
    required=True,
    help="alertmanager.yml.",
    shell_complete=completions.files,
)
@click.option("--rule", metavar="NAME", required=True, help="The alerting rule.")
@click.option("--limit", "limit_s", type=Seconds(), metavar="TIME", help="How soon the alert has to come.")
@click.option(
    "--job", metavar="NAME", help="The job whose samples the rule reads. Default: what the rule says, else the slowest."
)
@click.option("--receiver", metavar="NAME", help="Whose alert counts. Default: the first route's that takes it.")
@click.option(
    "--share",
    type=click.FloatRange(0, 1, min_open=True),
    metavar="RATIO",
    help="Of the calls, how many fail in the drill; needed to say when a rate crosses.",
)
@click.option(
    "--label", "labels", metavar="NAME=VALUE", multiple=True, help="A label that the series have; again for more."
)
@click.option("--json", "as_json", is_flag=True, help="Print the estimate as JSON.")
def arithmetic(
    prometheus: Path,
    rules: tuple[Path, ...],
    alertmanager: Path,
    rule: str,
    limit_s: float | None,
    job: str | None,
    receiver: str | None,
    share: float | None,
    labels: tuple[str, ...],
    as_json: bool,
) -> None:
    """Add up how soon an alert can come, at best and at worst, from the team's own files.

    Each term is printed with the line that it comes from. Exit code 1 where --limit cannot be kept at best; a worst case beyond it
    is a warning. Nothing is asked of a running Prometheus.

    \b
    Examples:
      drillmaster detector arithmetic --prometheus prometheus.yml --alertmanager alertmanager.yml --rule ToolFailures --limit 60s
      drillmaster detector arithmetic --prometheus prometheus.yml --alertmanager alertmanager.yml --rule ToolFailures --share 0.5
    """
    from drillmaster.intake.alerting import read_facts
    from drillmaster.rules.alert_delay import against, estimate

    said = dict(_label(one) for one in labels)
    facts = read_facts(prometheus, alertmanager, rule, rules=rules)
    if job is not None and job not in facts.scrapes:
        raise Refused(
            f"--job {job}",
            found="no job of that name",
            wanted=f"one of {', '.join(list(facts.scrapes)[:20])}",
            remedy="name one of them, or leave --job out",
        )
    found = estimate(facts, job=job, receiver=receiver, share=share, labels=said)
    if found is None:
        raise Refused(
            f"--receiver {receiver}",
            found=f"no route of {alertmanager} that takes {rule} there",
            wanted="a route with that receiver",
            remedy="leave --receiver out to see where it goes, or say the series' labels: --label NAME=VALUE",
        )
    verdict, sentence = ("", "") if limit_s is None else against(found, limit_s)
    if as_json:
        say_json(_plain(found, limit_s, verdict, sentence))
    else:
        _print(found)
        if verdict:
            click.echo({"impossible": "FAIL ", "unsure": "WARN ", "fits": "PASS "}[verdict] + one_line(sentence))
    if verdict == "impossible":
        raise SystemExit(Exit.FAIL)


def _label(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise Problem("--label", found=repr(text[:60]), wanted="NAME=VALUE", remedy="write it as --label team=agents")
    return name, value


def _plain(found: "Estimate", limit_s: float | None, verdict: str, sentence: str) -> dict[str, object]:
    import math

    def number(value: float | None) -> float | str | None:
        return "never" if value is not None and math.isinf(value) else value

    return {
        "rule": found.rule,
        "receiver": found.receiver,
        "also": found.also,
        "best_s": number(found.best_s),
        "worst_s": number(found.worst_s),
        "terms": [
            {
                "name": term.name,
                "best_s": number(term.best_s),
                "worst_s": number(term.worst_s),
                "place": term.place,
                "why": term.why,
            }
            for term in found.terms
        ],
        "notes": found.notes,
        "limit_s": limit_s,
        "verdict": verdict or None,
        "says": sentence,
    }


def _print(found: "Estimate") -> None:
    import math

    def number(value: float | None) -> str:
        return "unknown" if value is None else "never" if math.isinf(value) else f"{value:g}"

    also = f", and {', '.join(found.also)}" if found.also else ""
    click.echo(one_line(f"{found.rule}: seconds from the first failure to receiver {found.receiver}{also}"))
    click.echo(f"  {'':14}{'best':>8}{'worst':>9}")
    for term in found.terms:
        why = f" ({term.why})" if term.why else ""
        row = f"  {term.name:14}{number(term.best_s):>8}{number(term.worst_s):>9}  {term.place}{why}"
        click.echo(one_line(row))
    click.echo(f"  {'in all':14}{number(found.best_s):>8}{number(found.worst_s):>9}")
    for note in found.notes:
        click.echo(one_line(f"  note: {note}"))
