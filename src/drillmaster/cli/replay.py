"""`drillmaster replay`: one recorded mission, asked again or served again."""

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from drillmaster.cli import _completions as completions

if TYPE_CHECKING:
    from drillmaster.engines.replay_serving import Served
    from drillmaster.evidence import Manifest, Seal
    from drillmaster.rules.divergence import Difference
    from drillmaster.transcripts.exchanges import Message
    from drillmaster.transcripts.reading import Transcript

__all__ = ["command"]

_WAIT_S = 2.0
"""How long the agent's own transcript is waited for."""


@click.command("replay")
@click.argument("mission")
@click.option(
    "--run",
    metavar="RUN",
    type=click.Path(path_type=Path),
    shell_complete=completions.runs,
    help="The run, by folder or id. Default: the newest one in --runs that has the mission.",
)
@click.option(
    "--runs",
    metavar="FOLDER",
    type=click.Path(path_type=Path),
    default=Path("runs"),
    show_default=True,
    shell_complete=completions.folders,
    help="Where run folders lie.",
)
@click.option("--url", metavar="URL", help="Ask the agent at this base URL again, and name the first difference.")
@click.option(
    "--serve",
    "serves",
    is_flag=True,
    help="Serve what models and tools answered, so that the agent can be run offline.",
)
@click.option(
    "--port", type=click.IntRange(0, 65_535), default=0, help="With --serve: the port on loopback. Default: a free one."
)
@click.option("--as-fast-as-possible", "fast", is_flag=True, help="With --serve: without the recorded pace.")
@click.option("--once", is_flag=True, help="With --serve: end when all was served once, or at the first difference.")
@click.option(
    "--transcripts",
    metavar="FOLDER",
    type=click.Path(path_type=Path),
    shell_complete=completions.folders,
    help="With --url: where the agent asked writes its transcripts now (its DRILL_TRANSCRIPTS); without it no tools are compared.",
)
@click.option(
    "--header",
    "headers",
    multiple=True,
    metavar="'NAME: VALUE'",
    help="With --url: put this header in, in the place of one that was covered; ${NAME} is taken from the environment.",
)
@click.option("--timeout", type=float, default=60.0, show_default=True, metavar="S", help="With --url: for one answer.")
@click.option(
    "--ca",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="With --url: certificates that an https target is checked by.",
)
@click.option("--permit-host", metavar="HOST", help="Repeat the host that the run's plan has permission for.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON: one document, with --serve one line a request.")
def command(
    mission: str,
    run: Path | None,
    runs: Path,
    url: str | None,
    serves: bool,
    port: int,
    fast: bool,
    once: bool,
    transcripts: Path | None,
    headers: tuple[str, ...],
    timeout: float,
    ca: Path | None,
    permit_host: str | None,
    as_json: bool,
) -> None:
    """Replay one mission of a run: ask an agent again (--url), or serve it what was recorded (--serve).

    With --url each message of the user is sent as it was recorded, and status, answer and, with --transcripts, tools are compared:
    the first difference is named. Ids and times that are made anew do not count. Exit code 0 where nothing differs, 1 where
    something does. Another host than loopback needs the permission of the run's plan, and --permit-host.

    With --serve the agent's base URL is pointed here: it gets the recorded bytes at the recorded pace, and for a request that
    was not recorded a 409 that names the first difference. Exit code 0 where all requests fitted, 1 where one did not.

    \b
    Examples:
      drillmaster replay m171a2b --run runs/20261204T160000Z-1a2b --url http://127.0.0.1:8090
      drillmaster replay m171a2b --url http://127.0.0.1:8090 --transcripts /tmp/again
      drillmaster replay m171a2b --serve --port 8099
      drillmaster replay m171a2b --serve --as-fast-as-possible --once --json
    """
    if (url is None) == (not serves):
        raise click.UsageError("give --url URL to ask again, or --serve to serve what was recorded")
    if serves and (transcripts is not None or headers or ca is not None or permit_host is not None):
        raise click.UsageError("--transcripts, --header, --ca and --permit-host go with --url")
    if not serves and (fast or once or port):
        raise click.UsageError("--port, --as-fast-as-possible and --once go with --serve")
    from drillmaster.cli.transcript import found_transcript, open_run

    folder, seal, manifest = open_run(_run_of(mission, runs) if run is None else run)
    found = found_transcript(folder, seal, manifest, mission)
    for defect in found.defects:
        click.echo(f"warning: {defect}", err=True)
    if serves:
        _serve(found, port, fast=fast, once=once, as_json=as_json)
    else:
        assert url is not None
        _ask(
            found, folder, seal, manifest, url, transcripts=transcripts, headers=headers, timeout_s=timeout, ca=ca,
            permit_host=permit_host, as_json=as_json,
        )  # fmt: skip  # one call


def _run_of(mission: str, runs: Path) -> Path:
    """The newest run that has a line of the mission. Raises Problem."""
    from drillmaster.errors import Problem
    from drillmaster.intake.runs import run_ids
    from drillmaster.transcripts import read_started

    for run in reversed(run_ids(runs)):
        if mission in read_started(runs / run, None):
            return runs / run
    raise Problem(
        str(runs),
        found=f"no run that started mission {mission[:40]}",
        wanted="the run of this mission",
        remedy=f"name it: drillmaster replay {mission[:40]} --run RUN",
    )


# -- served --


def _serve(found: "Transcript", port: int, *, fast: bool, once: bool, as_json: bool) -> None:
    import asyncio
    import signal

    from drillmaster.cli import say_json
    from drillmaster.engines.replay_serving import Shelf, serve
    from drillmaster.errors import Exit, Problem, one_line
    from drillmaster.transcripts.exchanges import exchanges, messages

    recorded = exchanges(found)
    if not recorded:
        raise Problem(
            f"mission {found.mission}",
            found="no call of a model or a tool in its transcript",
            wanted="recorded calls to serve",
            remedy="have the worker record model_request and model_response (docs/howto/replay-a-mission.md)",
        )
    shelf = Shelf(recorded, "\n".join(one.body.decode("utf-8", "replace") for one in messages(found)))

    def ready(host: str, at: int) -> None:
        base = f"http://{host}:{at}"
        if as_json:
            say_json({"listening": base, "exchanges": len(recorded)})
        else:
            click.echo(f"serving {len(recorded)} exchanges of {found.mission} on {base}; Ctrl-C ends")
            for path in dict.fromkeys(one.path or "/" for one in recorded):
                click.echo(one_line(f"  {base}{path}"))
        sys.stdout.flush()

    def say(one: "Served") -> None:
        if as_json:
            say_json(one)
        elif one.exchange is None:
            click.echo(one_line(f"409 {one.method} {one.path}: {one.difference}"))
        else:
            again = " (from the beginning)" if one.begun_again else ""
            click.echo(one_line(f"{one.status or 'closed'} {one.method} {one.path}: exchange {one.exchange}{again}"))
        sys.stdout.flush()

    async def main() -> None:
        stop = asyncio.Event()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, stop.set)
        await serve(
            shelf, host="127.0.0.1", port=port, ready=ready, say=say, as_fast_as_possible=fast, once=once, stop=stop
        )

    try:
        asyncio.run(main())
    except OSError as error:
        raise Problem(
            f"127.0.0.1:{port}",
            found=str(error.strerror or error),
            wanted="a free port",
            remedy="choose another --port",
        ) from None
    told = shelf.told
    if as_json:
        say_json(
            {"served": told.served, "rounds": told.rounds, "diverged": told.diverged, "first": told.first_difference}
        )
    else:
        click.echo(f"{told.served} served, {told.rounds} times to the end, {told.diverged} diverged")
    sys.exit(Exit.FAIL if told.diverged else Exit.PASS if told.served else Exit.REFUSED)


# -- asked again --


def _ask(
    found: "Transcript",
    folder: Path,
    seal: "Seal | None",
    manifest: "Manifest",
    url: str,
    *,
    transcripts: Path | None,
    headers: tuple[str, ...],
    timeout_s: float,
    ca: Path | None,
    permit_host: str | None,
    as_json: bool,
) -> None:
    import secrets

    from drillmaster.cli import say_json
    from drillmaster.engines.replay_asking import ask_again
    from drillmaster.errors import Exit, Problem, one_line
    from drillmaster.rules.divergence import first_divergence
    from drillmaster.transcripts.exchanges import messages

    if not 0 < timeout_s <= 3_600:
        raise Problem("--timeout", found=f"{timeout_s:g}", wanted="seconds over 0, at most 3600", remedy="--timeout 60")
    recorded = messages(found)
    if not recorded:
        raise Problem(
            f"mission {found.mission}",
            found="no message of a user in its transcript",
            wanted="what to ask again",
            remedy="have the worker record `user` (docs/howto/replay-a-mission.md)",
        )
    permitted = _permitted(url, manifest, permit_host, len(recorded), timeout_s)
    if any(b"***" in one.body for one in recorded):
        click.echo("warning: what was covered as a secret in a message is sent as it is recorded: ***", err=True)
    again = f"{found.mission[:30]}-r{secrets.token_hex(2)}"
    extra = _headers(headers, os.environ)
    answered = list(
        ask_again(
            recorded,
            url,
            mission=again,
            extra=extra,
            limit_s=timeout_s,
            permitted=permitted,
            ca=None if ca is None else str(ca),
        )
    )
    said_now = [one.said for one in answered]
    seen = None if transcripts is None else _tools_now(transcripts, again, len(recorded))
    if seen is not None:
        said_now = [_with_tools(one, other) for one, other in zip(said_now, seen, strict=False)] + said_now[len(seen) :]
    given = "\n".join(one.body.decode("utf-8", "replace") for one in recorded)
    differs = first_divergence([one.said for one in recorded], said_now, given=given)
    troubles = [one.trouble for one in answered if one.trouble]
    tools = "compared" if seen is not None else "not seen"
    if as_json:
        say_json(
            {
                "mission": found.mission,
                "run": manifest.run,
                "asked_as": again,
                "messages": len(recorded),
                "tools": tools,
                "difference": differs,
                "trouble": troubles,
                "took_ms": [one.took_ms for one in answered],
            }
        )
    else:
        for number, one in enumerate(answered, 1):
            click.echo(
                one_line(
                    f"message {number}: {one.said.status or 'no status'} in {one.took_ms:.0f} ms {one.trouble}".rstrip()
                )
            )
        click.echo(one_line(_told(differs, tools, transcripts is not None)))
    sys.exit(Exit.FAIL if differs is not None else Exit.PASS)


def _told(differs: "Difference | None", tools: str, asked_for: bool) -> str:
    how = f"tools {tools}" + ("; name --transcripts to compare them" if tools == "not seen" and not asked_for else "")
    if differs is None:
        return f"same: nothing differs that counts ({how})"
    where = f" at {differs.where}" if differs.where else ""
    place = f"message {differs.message}, {differs.what}{where}"
    return f"first difference: {place}: recorded {differs.recorded}, now {differs.now} ({how})"


def _with_tools(said: Any, other: "Message") -> Any:
    import msgspec

    return msgspec.structs.replace(said, tools=other.said.tools)


def _tools_now(folder: Path, mission: str, count: int) -> "list[Message] | None":
    """What the agent wrote of this replay; None where it wrote nothing within a while."""
    import time

    from drillmaster.transcripts import read_folder
    from drillmaster.transcripts.exchanges import messages

    until = time.monotonic() + _WAIT_S
    while True:
        found = read_folder(folder, mission)
        done = found is not None and all(part.ended for part in found.parts) and len(messages(found)) >= count
        if done or time.monotonic() > until:
            if found is None:
                click.echo(f"warning: nothing of {mission} in {folder}: no tools are compared", err=True)
            return None if found is None else messages(found)
        time.sleep(0.05)


def _permitted(url: str, manifest: "Manifest", permit_host: str | None, requests: int, timeout_s: float) -> bool:
    """Whether another host than loopback may be asked: by the permission in the run's plan. Raises Problem."""
    from drillmaster.clock import SystemClock
    from drillmaster.errors import Problem
    from drillmaster.plan import Permit
    from drillmaster.sanity import is_loopback, permission_problems, split_url
    from drillmaster.strict import as_type

    parts = split_url(url)
    if parts is None or parts.username or parts.query or parts.fragment:
        raise Problem(
            "--url",
            found=repr(url.rpartition("@")[2][:80]),
            wanted="the base URL of the agent, without user, query and fragment",
            remedy="--url http://127.0.0.1:8090",
        )
    target = manifest.plan.get("target")
    said = target.get("permit") if isinstance(target, dict) else None
    permit = None if said is None else as_type(said, Permit, place="manifest.json", path=("plan", "target", "permit"))
    loopback = is_loopback(parts.hostname or "")
    for problem in (
        ()
        if loopback
        else permission_problems(
            url,
            permit,
            place="the run's plan",
            wall_ns=SystemClock().wall_ns(),
            permit_host=permit_host,
            total_s=requests * timeout_s,
            per_s=1.0,
            requests=requests,
            calmer="replay a mission of fewer messages",
        )
    ):
        raise problem
    return not loopback


def _headers(said: tuple[str, ...], environ: Mapping[str, str]) -> dict[str, str]:
    from drillmaster.errors import Problem
    from drillmaster.sanity import fill_in, header_problems

    fields: dict[str, str] = {}
    for one in said:
        name, colon, value = one.partition(":")
        if not colon:
            raise Problem("--header", found="no colon", wanted="'NAME: VALUE'", remedy="--header 'X-Team: drills'")
        fields[name.strip()] = value.strip()
    for problem in header_problems(fields, place="--header", pointer=""):
        raise problem
    return fill_in(fields, environ, place="--header")
