"""`drillmaster flags`: chaos flags and kills, served to workers and switched by people."""

import getpass
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from drillmaster.cli import Verb
from drillmaster.cli import _completions as completions
from drillmaster.cli._quantities import Seconds
from drillmaster.errors import Exit, Problem, Refused, one_line

if TYPE_CHECKING:
    from drillmaster.flags.server import Server

__all__ = ["command"]

DEFAULT_URL = "http://127.0.0.1:8070"

_url = click.option(
    "--url",
    metavar="URL",
    envvar="CHAOS_URL",
    show_envvar=True,
    default=DEFAULT_URL,
    show_default=True,
    help="The flag server.",
)
_token_file = click.option(
    "--token-file",
    metavar="FILE",
    help="The token's file (0600), where the server was not started by this user here.",
    shell_complete=completions.files,
)
_by = click.option("--by", metavar="NAME", help="Who you are; it stands in the evidence. Default: your login name.")
_json = click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
_registry = click.option(
    "--registry",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Read this registry, and ask no server.",
    shell_complete=completions.files,
)


@click.group("flags", cls=Verb)
def command() -> None:
    """Serve chaos flags and kills to workers, and switch them.

    A chaos flag ends by itself: at its window's end, after its auto-off, with its deadline, and with its server. A kill stays
    until it is restored, whatever becomes of the server. docs/howto/chaos-flags.md

    \b
    Examples:
      drillmaster flags serve
      drillmaster flags enable toolTimeout --for 60s
      drillmaster flags kill refund --why "INC-1234"
    """


@command.command()
@click.option(
    "--registry",
    type=click.Path(path_type=Path),
    metavar="FILE",
    default="flags.yaml",
    show_default=True,
    help="The registry.",
    shell_complete=completions.files,
)
@click.option(
    "--listen",
    "where",
    metavar="HOST:PORT",
    default="127.0.0.1:8070",
    show_default=True,
    help="Port 0 takes a free one.",
)
@click.option("--allow-host", metavar="ADDR", help="Say an address that is not loopback a second time.")
@click.option("--events", metavar="FILE", help="Append evidence to this file.", shell_complete=completions.files)
@click.option("--flagd", metavar="FILE", help="Keep a flagd file up to date.", shell_complete=completions.files)
@click.option("--lease", type=Seconds(), default="2s", show_default=True, help="How long flags outlive their server.")
def serve(
    registry: Path, where: str, allow_host: str | None, events: str | None, flagd: str | None, lease: float
) -> None:
    """Serve a registry until SIGTERM. Prints its address and where its tokens are.

    Tokens for switching, killing and reading are made once, in a folder of the service's in the state folder; kills lie beside
    them, and hold again after a restart.

    \b
    Examples:
      drillmaster flags serve
      drillmaster flags serve --registry staging/flags.yaml --listen 127.0.0.1:8071 --events flags.jsonl
    """
    from drillmaster.adapters.worker.serving import spoken
    from drillmaster.flags.keeping import folder_of, kills_path, make_tokens
    from drillmaster.flags.server import read_registry, run
    from drillmaster.flags.settings import Settings
    from drillmaster.standins import check_host

    host, port = spoken(where)
    try:
        check_host(host, allow_host)
    except Problem as problem:
        mend = f"if you mean it, say it twice: --listen {where} --allow-host {host}"
        mend = mend if isinstance(problem, Refused) else "--listen 127.0.0.1:8070"
        raise type(problem)("--listen", found=problem.found, wanted=problem.wanted, remedy=mend) from None
    service = read_registry(registry).service
    tokens = make_tokens(folder_of(service))
    settings = Settings(
        registry=str(registry),
        host=host,
        port=port,
        lead_token_file=str(tokens["lead"]),
        kill_token_file=str(tokens["kill"]),
        read_token_file=str(tokens["read"]),
        kills_path=str(kills_path(service)),
        flagd_path=flagd,
        events=events,
        lease_s=lease,
        say="lines",
    )

    def ready(server: "Server") -> None:
        host, port = server.address
        click.echo(f"flags of {service} on http://{f'[{host}]' if ':' in host else host}:{port}")
        click.echo(f"tokens: {', '.join(str(path) for path in tokens.values())}")
        killed = sorted(server.board.killed)
        click.echo(f"killed: {', '.join(killed) or 'nothing'}")

    code = run(settings, ready)
    if code:
        raise SystemExit(code)


@command.command("list")
@_url
@_registry
@_json
def list_(url: str, registry: Path | None, as_json: bool) -> None:
    """List each flag with its state, and what it does.

    \b
    Examples:
      drillmaster flags list
      drillmaster flags list --registry flags.yaml
    """
    told = _listed(url, registry)
    if as_json:
        _say(told)
        return
    for row in told["flags"]:
        what = row["kind"] if row["kind"] == "kill" else f"{row['kind']}, {row['aim']}"
        by = f" by {row['by']}" if row.get("by") else ""
        click.echo(one_line(f"{row['state']:<7} {row['name']:<24} {what}{by}; {row['owner']}: {row['purpose']}"))


@command.command()
@click.argument("name", metavar="NAME", shell_complete=completions.flags)
@_url
@_registry
@_json
def show(name: str, url: str, registry: Path | None, as_json: bool) -> None:
    """Show one flag, and who of the workers has met it.

    \b
    Examples:
      drillmaster flags show toolTimeout
    """
    from drillmaster.friday.flags import unknown_flag

    told = _listed(url, registry)
    rows = {row["name"]: row for row in told["flags"]}
    if name not in rows:
        raise unknown_flag(name, rows, place="NAME")
    row = rows[name]
    if registry is None:
        row["workers"] = _workers(url, name, told["revision"])
    if as_json:
        _say(row)
        return
    for field, value in row.items():
        if field != "workers" and value is not None:
            click.echo(one_line(f"{field + ':':<12} {value}"))
    for worker in row.get("workers", ()):
        lost = f", silent for {worker['silent_s']:.1f} s" if worker["lost"] else ""
        holds = "up to date" if worker["holds"] else "behind"
        click.echo(one_line(f"worker:      {worker['worker']}: {holds}, met {worker['met']}{lost}"))


@command.command()
@click.argument("name", metavar="NAME", shell_complete=completions.flags)
@click.option("--share", type=click.FloatRange(0, 1, min_open=True), help="Each call by lot, with this chance.")
@click.option("--first", type=click.IntRange(1), help="The first N calls of each mission.")
@click.option("--every", type=click.IntRange(1), help="Every Nth call.")
@click.option("--for", "span", type=Seconds(), help="For how long; at most, and by default, its auto-off.")
@_url
@_token_file
@_by
@_json
def enable(
    name: str,
    share: float | None,
    first: int | None,
    every: int | None,
    span: float | None,
    url: str,
    token_file: str | None,
    by: str | None,
    as_json: bool,
) -> None:
    """Switch a chaos flag on, with the Lead's token.

    \b
    Examples:
      drillmaster flags enable toolTimeout --for 60s
      drillmaster flags enable toolError --share 0.3
    """
    given = {"share": share, "first": first, "every": every, "ttl_s": span}
    body = {"by": _who(by), **{field: value for field, value in given.items() if value is not None}}
    told = _order(url, f"/enable/{name}", body, "lead", token_file)
    _tell(told, f"{name} is on, for {told['left_s']:.0f} s at most", as_json)


@command.command()
@click.argument("name", metavar="NAME", shell_complete=completions.flags)
@_url
@_token_file
@_by
@_json
def disable(name: str, url: str, token_file: str | None, by: str | None, as_json: bool) -> None:
    """Switch a chaos flag off, with the Lead's token. One that is off stays so.

    \b
    Examples:
      drillmaster flags disable toolTimeout
    """
    told = _order(url, f"/disable/{name}", {"by": _who(by)}, "lead", token_file)
    _tell(told, f"{name} is off (it was {told['was']})", as_json)


@command.command()
@click.argument("capability", metavar="CAPABILITY", shell_complete=completions.capabilities)
@click.option("--why", metavar="TEXT", default="", help="It stands in the evidence, and in the file of kills.")
@click.option("--wait", "span", type=Seconds(), default="5s", show_default=True, help="For the workers, at most.")
@click.option("--drain", is_flag=True, help="Wait for calls that were under way, too.")
@_url
@_token_file
@_by
@_json
def kill(
    capability: str,
    why: str,
    span: float,
    drain: bool,
    url: str,
    token_file: str | None,
    by: str | None,
    as_json: bool,
) -> None:
    """Kill a capability in all workers, with the kill token, and print after how many seconds the last of them held it.

    Exit code 1: it is killed, but a worker that is known does not hold it yet, or, with --drain, a call still runs. A worker
    that cannot be reached goes on until it can, or is restarted: then it has the capability killed until the server answers.

    \b
    Examples:
      drillmaster flags kill refund
      drillmaster flags kill refund --drain --why "INC-1234"
    """
    _kill("kill", capability, why, span, drain, url, token_file, by, as_json)


@command.command()
@click.argument("capability", metavar="CAPABILITY", shell_complete=completions.capabilities)
@click.option("--why", metavar="TEXT", default="", help="It stands in the evidence.")
@click.option("--wait", "span", type=Seconds(), default="5s", show_default=True, help="For the workers, at most.")
@_url
@_token_file
@_by
@_json
def restore(
    capability: str, why: str, span: float, url: str, token_file: str | None, by: str | None, as_json: bool
) -> None:
    """End a kill, with the kill token. Exit code 1: a worker that is known does not know it yet.

    \b
    Examples:
      drillmaster flags restore refund --why "fixed in 1.4.2"
    """
    _kill("restore", capability, why, span, False, url, token_file, by, as_json)


@command.command()
@click.option(
    "--flagd",
    "path",
    metavar="FILE",
    required=True,
    help="The file to write; - is standard output.",
    shell_complete=completions.files,
)
@_url
@_registry
def export(path: str, url: str, registry: Path | None) -> None:
    """Write the live state as a flagd file. `flags serve --flagd FILE` keeps one up to date.

    \b
    Examples:
      drillmaster flags export --flagd flags.flagd.json
      drillmaster flags export --flagd - --registry flags.yaml      # all off
    """
    import json

    if registry is None:
        from drillmaster.flags.calling import ask

        told = ask(url, "GET", "/flagd")
    else:
        from drillmaster.clock import SystemClock
        from drillmaster.flags.board import Board
        from drillmaster.flags.flagd import flagd
        from drillmaster.flags.server import read_registry

        told = flagd(Board(read_registry(registry), SystemClock(), mark="file"))
    text = json.dumps(told, indent=2) + "\n"
    if path == "-":
        click.echo(text, nl=False)
    else:
        Path(path).write_text(text, encoding="utf-8")
        click.echo(f"{path}: {len(told['flags'])} flags")


def _kill(
    verb: str,
    capability: str,
    why: str,
    span: float,
    drain: bool,
    url: str,
    token_file: str | None,
    by: str | None,
    as_json: bool,
) -> None:
    body: dict[str, Any] = {"by": _who(by), "why": why, "wait_s": min(span, 30.0), "drain": drain}
    told = _order(url, f"/{verb}/{capability}", body, "kill", token_file, within_s=min(span, 30.0) + 5)
    word = "killed" if verb == "kill" else "restored"
    held, behind = told["held_by"], told["not_held"]
    workers = f"{len(held)} worker{'' if len(held) == 1 else 's'}"
    lines = [f"{capability} is {word}: held by {workers} after {told['seconds']:.3f} s"]
    if not held and not behind:
        lines = [f"{capability} is {word}; no worker is known to this server"]
    lines += [f"not held by {one['worker']}, silent for {one['silent_s']:.1f} s" for one in behind]
    if told["running"]:
        lines.append(f"{told['running']} calls that began before still run")
    _tell(told, "\n".join(one_line(line) for line in lines), as_json)
    if behind or (drain and told["running"]):
        raise SystemExit(Exit.FAIL)


def _listed(url: str, registry: Path | None) -> dict[str, Any]:
    if registry is None:
        from drillmaster.flags.calling import ask

        return ask(url, "GET", "/flags")
    from drillmaster.flags.server import read_registry

    read = read_registry(registry)
    rows = [
        {
            "name": flag.name,
            "state": "off",
            "kind": flag.kind,
            "owner": flag.owner,
            "purpose": flag.purpose,
            "deadline": flag.deadline,
            "auto_off_s": flag.auto_off_s,
            "aim": flag.aim.words,
        }
        for flag in read.flags
    ]
    return {"service": read.service, "flags": rows}


def _workers(url: str, name: str, revision: str) -> list[dict[str, Any]]:
    from drillmaster.flags.calling import ask

    return [
        {
            "worker": one["worker"],
            "holds": one["held"] == revision,
            "met": sum(met["n"] for met in one["met"] if met["flag"] == name),
            "silent_s": one["silent_s"],
            "lost": one["lost"],
        }
        for one in ask(url, "GET", "/workers")["workers"]
    ]


def _order(
    url: str, path: str, body: dict[str, Any], seat: str, token_file: str | None, *, within_s: float = 10.0
) -> dict[str, Any]:
    from urllib.parse import quote

    from drillmaster.flags.calling import ask, token_for

    token = token_for(url, seat, token_file)
    return ask(url, "POST", quote(path), body, token=token, within_s=within_s)


def _tell(told: dict[str, Any], text: str, as_json: bool) -> None:
    if as_json:
        _say(told)
    else:
        click.echo(text)


def _say(told: object) -> None:
    from drillmaster.cli import say_json

    say_json(told)


def _who(by: str | None) -> str:
    if by:
        return by[:100]
    try:
        return getpass.getuser()[:100]
    except (OSError, KeyError):
        return f"uid {os.getuid()}"
