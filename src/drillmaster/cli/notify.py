"""`drillmaster notify`: tell people and programs what a drill came to."""

import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from drillmaster.cli import _completions as completions

if TYPE_CHECKING:
    from drillmaster.notices import Notice
    from drillmaster.notices.sending import Sent

__all__ = ["command"]


@click.command("notify")
@click.argument("run", metavar="RUN", type=click.Path(path_type=Path), shell_complete=completions.runs)
@click.option("--slack-env", metavar="NAME", help="Variable that holds the address of a Slack incoming webhook.")
@click.option("--webhook-env", metavar="NAME", help="Variable that holds the address of a webhook of your own.")
@click.option(
    "--webhook-secret-env",
    metavar="NAME",
    default="DRILLMASTER_WEBHOOK_SECRET",
    show_default=True,
    help="Variable that holds its key, whsec_...; two with a blank between, while one is changed for the other.",
)
@click.option("--link", metavar="URL", default="", help="To the run, for people: the page of the CI job.")
@click.option("--ndjson-link", metavar="URL", default="", help="To its NDJSON: the artefact of the CI job.")
@click.option("--gate", metavar="NAME", default="matrix", show_default=True, help="Which gate should have judged it.")
@click.option("--dry-run", is_flag=True, help="Send nothing; print what would be sent.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
def command(
    run: Path,
    slack_env: str | None,
    webhook_env: str | None,
    webhook_secret_env: str,
    link: str,
    ndjson_link: str,
    gate: str,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Send verdict, checks that did not pass and links of a run to Slack, to a signed webhook, or to both.

    The verdict is the one that a gate left in the run's folder, whichever gate: the run and its seal are not judged again. Where
    there is none, or no run, that is what is sent: refused, or aborted. Addresses and keys come from variables of the environment,
    and are never printed. A notice that is not taken is sent again by the rules of the retry guard, within a minute.

    The exit code says how the sending went, and nothing of the verdict: 0 where each was taken, 2 where one was not. It changes no
    verdict: run it behind the gate, whatever that said.

    \b
    Examples:
      drillmaster notify runs/20261204T090000Z-1a2b --slack-env SLACK_WEBHOOK_URL --link "$PAGE" --ndjson-link "$ARTEFACT"
      drillmaster notify runs/20261204T090000Z-1a2b --webhook-env DRILL_HOOK_URL --webhook-secret-env DRILL_HOOK_SECRET
      drillmaster notify runs/20261204T090000Z-1a2b --slack-env SLACK_WEBHOOK_URL --dry-run --json
    """
    import msgspec

    from drillmaster.cli import say_json
    from drillmaster.errors import Exit
    from drillmaster.notices import slack, webhook

    if not slack_env and not webhook_env:
        raise click.UsageError("name a receiver: --slack-env NAME, --webhook-env NAME, or both")
    for option, url in (("--link", link), ("--ndjson-link", ndjson_link)):
        _must_be_link(option, url)
    notice = _notice(run, gate=gate, link=link, ndjson=ndjson_link)
    if dry_run:
        would = {}
        if slack_env:
            would["slack"] = slack.body(notice)
        if webhook_env:
            would["webhook"] = msgspec.json.decode(webhook.body(notice))
        if as_json:
            say_json({"sent": [], "would_send": would, "status": notice.status})
        else:
            click.echo(f"{notice.heading}\nnothing was sent (--dry-run); --json prints what would be")
        return
    sent = _send(notice, slack_env, webhook_env, webhook_secret_env)
    if as_json:
        say_json({"sent": sent, "status": notice.status})
    for one in sent:
        how = "taken" if one.ok else f"NOT SENT: {one.why}"
        calls = f" after {one.calls} calls" if one.calls > 1 else ""
        click.echo(f"{one.to} {one.host}{calls}: {how}", err=as_json or not one.ok)
    lost = [one for one in sent if not one.ok]
    if lost and os.environ.get("GITHUB_ACTIONS") == "true" and not as_json:
        click.echo("::warning title=drillmaster notify::the notice was not taken; the verdict stands as it is")
    sys.exit(Exit.REFUSED if lost else Exit.PASS)


def _send(notice: "Notice", slack_env: str | None, webhook_env: str | None, secret_env: str) -> "list[Sent]":
    """Send to each that was named. One that cannot even be addressed is told among the others, and stops none of them."""
    import msgspec

    from drillmaster.clock import SystemClock
    from drillmaster.errors import Problem
    from drillmaster.notices import slack, webhook
    from drillmaster.notices.sending import Sent, address, send

    clock, sent = SystemClock(), []
    if slack_env:
        try:
            where = address(os.environ.get(slack_env), place=f"${slack_env}")
            said = msgspec.json.encode(slack.body(notice))
            sent.append(send("slack", where, said, lambda now_s: [], clock=clock, wait=time.sleep))
        except Problem as problem:
            sent.append(Sent(to="slack", host=f"${slack_env}", ok=False, calls=0, why=str(problem)))
    if webhook_env:
        try:
            where = address(os.environ.get(webhook_env), place=f"${webhook_env}")
            keys = webhook.keys_of(os.environ.get(secret_env, ""), place=f"${secret_env}")
            body = webhook.body(notice)
            headers = lambda now_s: webhook.headers(notice, body, keys, now_s=now_s)  # noqa: E731 - two lines away
            sent.append(send("webhook", where, body, headers, clock=clock, key=notice.id, wait=time.sleep))
        except Problem as problem:
            sent.append(Sent(to="webhook", host=f"${webhook_env}", ok=False, calls=0, why=str(problem)))
    return sent


def _notice(run: Path, *, gate: str, link: str, ndjson: str) -> "Notice":
    """Make the notice of a run; of one that is not there, or that nobody has judged, that."""
    from drillmaster.clock import SystemClock, rfc3339
    from drillmaster.entries import entry_of
    from drillmaster.errors import Problem, one_line
    from drillmaster.intake.runs import find_run
    from drillmaster.intake.verdicts import stored
    from drillmaster.notices import notice_of, without_verdict

    name = one_line(run.name or str(run))
    try:
        folder = find_run(run)
        name = one_line(folder.name)
        verdict = stored(folder)
        if verdict.evidence_digest == _head(folder):
            return notice_of(verdict, run=name, link=link, ndjson=ndjson)
        why = f"the verdict in the folder is on other evidence; drillmaster gate {gate} RUN makes one"
    except Problem as problem:
        why = f"no verdict: found {problem.found} in {one_line(Path(problem.place).name)}; drillmaster gate {gate} RUN makes one"
    status = "refused"
    try:
        entry = entry_of(find_run(run))
        status = entry.status
        if entry.status == "aborted":
            why = "the drill was stopped; its faults are lifted, and what there is was sealed"
    except Problem:
        pass  # there is no run that can be read, which is what the notice says
    at = rfc3339(SystemClock().wall_ns(), digits=0)
    word = "aborted" if status == "aborted" else "refused"
    return without_verdict(status=word, why=why, gate=gate, run=name, at=at, link=link, ndjson=ndjson)  # type: ignore[arg-type]  # one of the two


def _head(folder: Path) -> str:
    """What the seal says that its head is; empty: there is none that can be read."""
    from drillmaster import timeline
    from drillmaster.errors import Problem

    try:
        return timeline.read_seal(folder).head
    except Problem:
        return ""


def _must_be_link(option: str, url: str) -> None:
    from drillmaster.sanity import split_url
    from drillmaster.screen import screen_url

    if not url:
        return
    parts = split_url(url)
    plain = url.isascii() and url.isprintable() and len(url) <= 1_000 and not any(one in url for one in "<>|\"' ")
    if parts is None or "@" in parts.netloc or not plain:
        said = screen_url(url)[:80]
        raise click.UsageError(
            f"{option}: found {said!r}, wanted an address such as https://ci.example/run/1, without a password"
        )
