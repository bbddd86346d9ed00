"""`drillmaster evidence`: have a collector say it, and write down what it said."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from drillmaster.cli import Verb
from drillmaster.cli import _completions as completions
from drillmaster.cli._evidence_lease_lab import lease_lab
from drillmaster.cli._quantities import Seconds
from drillmaster.errors import Problem

if TYPE_CHECKING:
    from drillmaster.plan import Permit

__all__ = ["command"]


@click.group("evidence", cls=Verb)
def command() -> None:
    """Write evidence that a gate can judge, by asking who counted, or the host itself.

    \b
    Examples:
      drillmaster evidence new canary --prometheus http://127.0.0.1:9090 --service checkout --artifact "$DIGEST" --out canary.json
      drillmaster evidence rules > canary-rules.yaml
    """


@command.group("new", cls=Verb)
def new() -> None:
    """Take new evidence of one kind.

    \b
    Examples:
      drillmaster evidence new error-budget --prometheus http://127.0.0.1:9090 --service ledger-writer --out error-budget.json
      drillmaster evidence new lease-lab --out lease-lab.json
    """


new.add_command(lease_lab)

_OUT = click.option(
    "--out",
    metavar="FILE",
    type=click.Path(path_type=Path),
    required=True,
    help="Where to write it; - prints it.",
    shell_complete=completions.files,
)
_PLAN = click.option(
    "--plan",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Instead of --prometheus and --service: a file that names them, and who permitted another host than loopback.",
    shell_complete=completions.files,
)
_PERMIT_HOST = click.option("--permit-host", metavar="HOST", help="Repeat the host that the plan has permission for.")


@new.command("canary")
@click.option("--prometheus", "url", metavar="URL", help="A Prometheus on loopback, such as http://127.0.0.1:9090.")
@click.option("--service", metavar="NAME", help="The service, as the label `service` has it.")
@click.option("--artifact", metavar="DIGEST", required=True, help="The canary's build: sha256: and 64 hex digits.")
@_OUT
@_PLAN
@_PERMIT_HOST
def canary(
    url: str | None, service: str | None, artifact: str, out: Path, plan: Path | None, permit_host: str | None
) -> None:
    """Ask Prometheus for a canary's numbers, by the recording rules of `drillmaster evidence rules`.

    Written down are the numbers of the build that --artifact names and of its baseline, each question, the time, the host and
    the digest. What is missing, not a number, of another build or of rules that run no more is refused, and nothing is written.
    A token is taken from PROMETHEUS_TOKEN. Exit code 0, or 2.

    \b
    Examples:
      drillmaster evidence new canary --prometheus http://127.0.0.1:9090 --service checkout --artifact "$DIGEST" --out canary.json
      drillmaster evidence new canary --plan collector.yaml --permit-host prom.example.com --artifact "$DIGEST" --out canary.json
    """
    import os

    import msgspec

    from drillmaster.clock import SystemClock
    from drillmaster.intake.prometheus import asking, canary_metrics, reach
    from drillmaster.intake.written import STDOUT, write_whole

    url, service, permit, place = _collector("canary", url, service, plan)
    now_ns = SystemClock().wall_ns()
    collector = reach(url, permit, place=place, permit_host=permit_host, environ=os.environ, now_ns=now_ns)
    evidence = canary_metrics(asking(collector), host=collector.host, service=service, artifact=artifact, now_ns=now_ns)
    text = msgspec.json.format(msgspec.json.encode(evidence), indent=2).decode() + "\n"
    if out == STDOUT:
        click.echo(text, nl=False)
        return
    write_whole(out, text)
    arm = evidence["data"]["canary"]
    click.echo(f"{out}: {arm['requests']:,} requests, {arm['errors']:,} errors, p95 {arm['p95_ms']:.4g} ms")
    click.echo(f"next: drillmaster gate canary {out} --artifact {artifact} --policy FILE")


@new.command("error-budget")
@click.option("--prometheus", "url", metavar="URL", help="A Prometheus on loopback, such as http://127.0.0.1:9090.")
@click.option("--service", metavar="NAME", help="The service, as the label `service` has it.")
@click.option(
    "--over", "span_s", type=Seconds(), default="24h", show_default=True, help="How long a span before now is counted."
)
@click.option(
    "--counter", metavar="NAME", default="http_requests_total", show_default=True, help="The counter of its requests."
)
@click.option("--failed", metavar="MATCHER", default='status=~"5.."', show_default=True, help="What of it failed.")
@_OUT
@_PLAN
@_PERMIT_HOST
def error_budget(
    url: str | None,
    service: str | None,
    span_s: float,
    counter: str,
    failed: str,
    out: Path,
    plan: Path | None,
    permit_host: str | None,
) -> None:
    """Ask Prometheus how many requests of a service there were, and how many failed, for `drillmaster gate cutover`.

    Refused, and nothing written: no traffic, a span that was not watched from its beginning, what is no number. A token is taken
    from PROMETHEUS_TOKEN. Exit code 0, or 2.

    \b
    Examples:
      drillmaster evidence new error-budget --prometheus http://127.0.0.1:9090 --service ledger-writer --out error-budget.json
      drillmaster evidence new error-budget --plan collector.yaml --permit-host prom.example.com --over 6h --out error-budget.json
    """
    import os

    import msgspec

    from drillmaster.clock import SystemClock
    from drillmaster.intake.error_budget import measure
    from drillmaster.intake.prometheus import asking, reach
    from drillmaster.intake.written import STDOUT, write_whole

    url, service, permit, place = _collector("error-budget", url, service, plan)
    now_ns = SystemClock().wall_ns()
    collector = reach(url, permit, place=place, permit_host=permit_host, environ=os.environ, now_ns=now_ns)
    budget = measure(
        asking(collector),
        host=collector.host,
        service=service,
        counter=counter,
        failed=failed,
        span_s=max(1, round(span_s)),
        now_ns=now_ns,
    )
    text = msgspec.json.format(msgspec.json.encode(budget), indent=1).decode() + "\n"
    if out == STDOUT:
        click.echo(text, nl=False)
        return
    write_whole(out, text)
    click.echo(f"{out}: {budget.requests:,} requests, {budget.errors:,} errors")
    click.echo("next: drillmaster gate cutover PLAN, beside which it lies")


def _collector(
    kind: str, url: str | None, service: str | None, plan: Path | None
) -> tuple[str, str, "Permit | None", str]:
    """Say whom to ask about which service, with whose leave, and what a problem calls that place."""
    if plan is not None:
        from drillmaster.intake.prometheus import read_plan

        if url is not None or service is not None:
            raise Problem(
                f"evidence new {kind}",
                found="--plan beside --prometheus or --service",
                wanted="one or the other: the plan names both",
                remedy="drop --plan, or the two others",
            )
        told = read_plan(plan)
        return told.target.url, told.service, told.target.permit, str(plan)
    if url is None or service is None or not service.strip():
        raise Problem(
            f"evidence new {kind}",
            found="no --prometheus" if url is None else "no --service",
            wanted="where to ask, and for which service",
            remedy="add --prometheus http://127.0.0.1:9090 --service NAME, or --plan FILE",
        )
    return url, service, None, "--prometheus"


@command.command("rules")
@click.option("--tests", is_flag=True, help="Print their tests, for `promtool test rules`.")
def rules(tests: bool) -> None:
    """Print the recording rules that `evidence new canary` asks for, for Prometheus' rule_files.

    Save them as canary-rules.yaml, and with --tests as canary-rules.test.yaml beside it.

    \b
    Examples:
      drillmaster evidence rules > canary-rules.yaml
      drillmaster evidence rules --tests > canary-rules.test.yaml
    """
    from importlib import resources

    name = "rules.test.yaml" if tests else "rules.yaml"
    click.echo(resources.files("drillmaster").joinpath("kits", "canary", name).read_text("utf-8"), nl=False)
