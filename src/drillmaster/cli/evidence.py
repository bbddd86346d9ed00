"""`drillmaster evidence`: have a collector say it, and write down what it said."""

from pathlib import Path

import click

from drillmaster.cli import Verb
from drillmaster.cli import _completions as completions
from drillmaster.errors import Problem

__all__ = ["command"]


@click.group("evidence", cls=Verb)
def command() -> None:
    """Write evidence that a gate can judge, by asking who counted."""


@command.group("new", cls=Verb)
def new() -> None:
    """Take new evidence of one kind."""


@new.command("canary")
@click.option("--prometheus", "url", metavar="URL", help="A Prometheus on loopback, such as http://127.0.0.1:9090.")
@click.option("--service", metavar="NAME", help="The service, as the label `service` has it.")
@click.option("--artifact", metavar="DIGEST", required=True, help="The canary's build: sha256: and 64 hex digits.")
@click.option(
    "--out",
    metavar="FILE",
    type=click.Path(path_type=Path),
    required=True,
    help="Where to write it; - prints it.",
    shell_complete=completions.files,
)
@click.option(
    "--plan",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Instead of --prometheus and --service: a file that names them, and who permitted another host than loopback.",
    shell_complete=completions.files,
)
@click.option("--permit-host", metavar="HOST", help="Repeat the host that the plan has permission for.")
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
    from drillmaster.intake.prometheus import asking, canary_metrics, reach, read_plan
    from drillmaster.intake.written import STDOUT, write_whole

    permit = None
    place = "--prometheus"
    if plan is not None:
        if url is not None or service is not None:
            raise Problem(
                "evidence new canary",
                found="--plan beside --prometheus or --service",
                wanted="one or the other: the plan names both",
                remedy="drop --plan, or the two others",
            )
        told = read_plan(plan)
        url, service, permit, place = told.target.url, told.service, told.target.permit, str(plan)
    if url is None or service is None:
        raise Problem(
            "evidence new canary",
            found="no --prometheus" if url is None else "no --service",
            wanted="where to ask, and for which service",
            remedy="add --prometheus http://127.0.0.1:9090 --service NAME, or --plan FILE",
        )
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
