"""`drillmaster detector`: what an alert's delay can be, a listener by hand, and a detector for teams that have none."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from drillmaster.cli import Verb, say_json
from drillmaster.cli import _completions as completions
from drillmaster.cli._detector_run import watch_of, watch_options
from drillmaster.cli._quantities import Seconds
from drillmaster.errors import Exit, Problem, Refused, one_line

if TYPE_CHECKING:
    from drillmaster.rules.alert_delay import Estimate

__all__ = ["command"]

_PATH = click.Path(path_type=Path)


@click.group("detector", cls=Verb)
def command() -> None:
    """Ask how soon an alert can come, listen for alerts, or raise them yourself.

    \b
    Examples:
      drillmaster detector arithmetic --prometheus prometheus.yml --alertmanager alertmanager.yml --rule ToolFailures --limit 60s
      drillmaster detector listen friday-plan.yaml
    """


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
@click.option(
    "--rule", metavar="NAME", required=True, help="The alerting rule.", shell_complete=completions.alerting_rules
)
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


@command.command("listen")
@click.argument("plan", type=_PATH, metavar="PLAN", shell_complete=completions.files)
@click.option(
    "--out",
    type=_PATH,
    metavar="FILE",
    default=Path("detectors.jsonl"),
    show_default=True,
    help="Where what comes is written.",
    shell_complete=completions.files,
)
def listen(plan: Path, out: Path) -> None:
    """Listen as the plan's section `detectors` says, by hand, to see that alerts arrive before a drill depends on them.

    A drill starts its own listener. Secrets come from the environment variables that the plan names. Exit code 0, or 2 where
    it could not listen or not write.

    \b
    Examples:
      drillmaster detector listen friday-plan.yaml
    """
    import os

    from drillmaster.cli._detector_run import listen as run

    raise SystemExit(run(plan, out, os.environ))


@command.command("watch")
@click.argument("run", type=_PATH, metavar="[RUN]", required=False, shell_complete=completions.runs)
@click.option(
    "--log", type=_PATH, metavar="FILE", help="A timeline, in place of a run's.", shell_complete=completions.files
)
@watch_options
@click.option(
    "--count",
    type=click.Choice(["tool_attempted", "tool_finished", "user_request"]),
    default="tool_attempted",
    show_default=True,
    help="Which lines of the timeline are calls.",
)
@click.option("--tool", metavar="NAME", help="Calls of this tool alone.")
@click.option("--to", metavar="URL", help="Where alerts are posted, on loopback. Default: they are printed only.")
@click.option(
    "--secret-env", metavar="NAME", help="The environment variable with the receiver's secret, sent as Bearer."
)
@click.option("--label", "labels", metavar="NAME=VALUE", multiple=True, help="A label of the alerts; again for more.")
@click.option(
    "--repeat",
    "repeat_s",
    type=Seconds(),
    default="30s",
    show_default=True,
    help="How often a firing alert is sent again.",
)
@click.option("--at-most", "at_most_s", type=Seconds(), default="1h", show_default=True, help="How long it watches.")
@click.option("--json", "as_json", is_flag=True, help="Print what begins and ends as a line of JSON each.")
def watch(
    run: Path | None,
    log: Path | None,
    rule: str,
    target: float,
    windows: tuple[str, ...],
    severity: str,
    least: int,
    count: str,
    tool: str | None,
    to: str | None,
    secret_env: str | None,
    labels: tuple[str, ...],
    repeat_s: float,
    at_most_s: float,
    as_json: bool,
) -> None:
    """Watch a timeline as it grows, and raise an alert when failures burn the error budget.

    For teams that have no alerting yet: multi-window, multi-burn-rate, as `drillmaster detector rules` writes it for Prometheus.
    Alerts are posted as Alertmanager's webhooks have them. It ends with the drill, by Ctrl-C, or after --at-most.

    \b
    Examples:
      drillmaster detector watch runs/friday --target 0.99 --window 5m:30s:10
      drillmaster detector watch --log timeline.jsonl --target 0.99 --to http://127.0.0.1:8060/alerts --secret-env ALERTS_SECRET
    """
    from drillmaster.cli._detector_run import watch_timeline
    from drillmaster.detectors.watch import refuse_missing

    if (run is None) is (log is None):
        raise Problem(
            "detector watch",
            found="neither a run nor --log" if run is None else "a run and --log",
            wanted="one of them",
            remedy="drillmaster detector watch --log timeline.jsonl --target 0.99",
        )
    timeline = log if log is not None else refuse_missing(run or Path())
    code = watch_timeline(
        watch_of(rule, target, windows, severity, least),
        timeline,
        to=to,
        secret_env=secret_env,
        count=count,
        tool=tool,
        labels=dict(_label(one) for one in labels),
        repeat_s=repeat_s,
        at_most_s=at_most_s,
        as_json=as_json,
    )
    raise SystemExit(code)


@command.command("rules")
@watch_options
@click.option(
    "--bad", metavar="SELECTOR", default="tool_failures_total", show_default=True, help="The counter of failed calls."
)
@click.option(
    "--total", metavar="SELECTOR", default="tool_calls_total", show_default=True, help="The counter of all calls."
)
@click.option(
    "--every", "every_s", type=Seconds(), default="15s", show_default=True, help="How often the rules are evaluated."
)
@click.option(
    "--test",
    "test_of",
    metavar="FILE",
    help="Write a test for promtool instead, of rules in this file.",
    shell_complete=completions.files,
)
@click.option(
    "--share",
    type=click.FloatRange(0, 1),
    default=0.5,
    show_default=True,
    help="With --test: how many calls fail in its second third.",
)
@click.option(
    "--out",
    type=_PATH,
    metavar="FILE",
    help="Where it goes. Default: standard output.",
    shell_complete=completions.files,
)
def rules(
    rule: str,
    target: float,
    windows: tuple[str, ...],
    severity: str,
    least: int,
    bad: str,
    total: str,
    every_s: float,
    test_of: str | None,
    share: float,
    out: Path | None,
) -> None:
    """Write the burn-rate detector as rules of Prometheus, or a test of them for promtool.

    The test says what `drillmaster detector watch` would have raised, and when; `promtool test rules` holds Prometheus against it.

    \b
    Examples:
      drillmaster detector rules --target 0.99 --out burn.yml
      drillmaster detector rules --target 0.99 --test burn.yml --out burn_test.yml
    """
    from drillmaster.rules.burn_rate import rules_file, rules_test

    found = watch_of(rule, target, windows, severity, least)
    every = round(every_s)
    if every != every_s or not 1 <= every <= 3_600:
        raise Problem(
            "--every", found=f"{every_s:g} s", wanted="1 s to 1 h, in whole seconds", remedy="add --every 15s"
        )
    if test_of is None:
        text = rules_file(found, bad=bad, total=total, every_s=every)
    else:
        text = rules_test(found, rules=test_of, bad=bad, total=total, every_s=every, share=share)
    if out is None:
        click.echo(text, nl=False)
        return
    try:
        out.write_text(text, encoding="utf-8")
    except OSError as error:
        raise Problem(
            str(out), found=error.strerror or "an error", wanted="a file to write", remedy="name another: --out FILE"
        ) from None
    click.echo(f"wrote {out}", err=True)


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
