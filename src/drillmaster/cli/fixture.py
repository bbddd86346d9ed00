"""`drillmaster fixture`: record what staging answers, once, and see that a recording is what it was."""

import sys
from pathlib import Path

import click

from drillmaster.cli import Verb
from drillmaster.cli import _completions as completions
from drillmaster.errors import Exit, Problem

__all__ = ["command"]

_BODY_CAP_BYTES = 1 << 20


@click.group("fixture", cls=Verb)
def command() -> None:
    """Record fixtures from staging, outside any model, and verify them.

    \b
    Examples:
      drillmaster fixture record http://127.0.0.1:8080/v1/charges --by Ada --out fixtures/http/charge.json
      drillmaster fixture check fixtures/http/*.json
    """


@command.command("record")
@click.argument("url", metavar="URL")
@click.option(
    "--out",
    metavar="FILE",
    type=click.Path(path_type=Path),
    required=True,
    help="Where to write it, a new file NAME.json.",
    shell_complete=completions.files,
)
@click.option("--by", metavar="NAME", required=True, help="The person who records, and answers for it.")
@click.option("--method", metavar="METHOD", default="GET", show_default=True, help="What to send.")
@click.option(
    "--body",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="What to send along. Its digest is kept, not itself.",
    shell_complete=completions.files,
)
@click.option("--header", "headers", metavar="NAME: VALUE", multiple=True, help="A field to send; can be given again.")
@click.option("--token-env", metavar="VARIABLE", help="The variable of the environment that holds the token.")
@click.option(
    "--token-header", metavar="FIELD", default="Authorization", show_default=True, help="The field that it is sent in."
)
@click.option(
    "--keep", "kept", metavar="FIELD", multiple=True, help="A field of the answer to keep besides; can be given again."
)
@click.option(
    "--plan",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="Who permitted which host, where it is not loopback.",
    shell_complete=completions.files,
)
@click.option("--permit-host", metavar="HOST", help="Repeat the host that the plan has permission for.")
def record(
    url: str,
    out: Path,
    by: str,
    method: str,
    body: Path | None,
    headers: tuple[str, ...],
    token_env: str | None,
    token_header: str,
    kept: tuple[str, ...],
    plan: Path | None,
    permit_host: str | None,
) -> None:
    """Make one exchange with a staging host and write it down as a fixture.

    Kept are host, time, who recorded, method, path, status, chosen header fields, body and a digest over all of it. Credentials
    are taken out. Nothing is added to git: a person reads the file and commits it. A file that is there is not replaced.

    Another host than loopback needs a plan (kind: staging) with its owner's permit, and --permit-host. Exit code 0, or 2.

    \b
    Examples:
      drillmaster fixture record http://127.0.0.1:8080/v1/charges --by Ada --out fixtures/http/charge.json
      drillmaster fixture record https://staging.example.com/v1/charges --method POST --body charge.json --by Ada \\
          --plan staging.yaml --permit-host staging.example.com --token-env STAGING_TOKEN --out fixtures/http/charge-409.json
    """
    import os

    from drillmaster.clock import SystemClock
    from drillmaster.intake import fixtures, read_bytes

    told = fixtures.read_plan(plan) if plan is not None else None
    now_ns = SystemClock().wall_ns()
    wanted = fixtures.order(
        url,
        told,
        place=str(plan) if plan is not None else "--plan",
        permit_host=permit_host,
        method=method,
        headers=headers,
        body=read_bytes(body, _BODY_CAP_BYTES) if body is not None else None,
        token_env=token_env,
        token_header=token_header,
        environ=os.environ,
        now_ns=now_ns,
    )
    made = fixtures.record(wanted, out, kept=kept, by=by, now_ns=now_ns)
    taken = f", {made.screened} values taken out" if made.screened else ""
    click.echo(f"{out}: status {made.response.status} from {made.host}{taken}")
    click.echo(f"{made.sha256}")
    click.echo("a person reads it and commits it, in a change of its own")


@command.command("check")
@click.argument("files", metavar="FILE...", nargs=-1, type=click.Path(path_type=Path), shell_complete=completions.files)
def check(files: tuple[Path, ...]) -> None:
    """Verify that recordings are what they were: form, time and digest. Exit code 0, or 2.

    \b
    Examples:
      drillmaster fixture check fixtures/http/charge-409.json
      drillmaster fixture check fixtures/http/*.json
    """
    from drillmaster.errors import one_line
    from drillmaster.intake import fixtures

    if not files:
        raise Problem(
            "fixture check",
            found="no file",
            wanted="fixtures to verify: nothing looked at is no pass",
            remedy="drillmaster fixture check fixtures/http/*.json",
        )
    bad = False
    for path, said in fixtures.check(files):
        if isinstance(said, Problem):
            bad = True
            click.echo(f"REFUSED {said}")
        else:
            click.echo(one_line(f"PASS {path}: {said.host}, {said.recorded_at}, by {said.recorded_by}"))
    sys.exit(Exit.REFUSED if bad else Exit.PASS)
