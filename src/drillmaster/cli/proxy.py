"""`drillmaster proxy`: the wire, by hand."""

import ipaddress
import os
import sys
from pathlib import Path
from typing import Any

import click

from drillmaster.cli import Verb
from drillmaster.cli import _completions as completions
from drillmaster.errors import Problem

__all__ = ["command"]

_TOKEN_FILE_BYTES = 4_096
_CA_FILE_BYTES = 16 << 20

_EXAMPLES = """
\b
Examples:
  drillmaster proxy --upstream https://api.openai.com
  drillmaster proxy --upstream http://127.0.0.1:9000 --port 8081 --mode reset
  drillmaster proxy inject --mode reset --for 60
  drillmaster proxy lift
  drillmaster proxy --mode 503            # no upstream: dead from the start
"""


def _state_folder() -> Path:
    from drillmaster.intake.state import state_root

    folder = state_root()
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    return folder


def _default_control(port: int) -> str:
    path = _state_folder() / f"proxy-{port}.sock"
    # A Unix socket's path has a hard limit of 107 bytes.
    return str(path) if len(os.fsencode(path)) < 100 else f"/tmp/drillmaster-{os.getuid()}-{port}.sock"  # noqa: S108 - the socket itself is 0600 and its peer's uid is checked


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


@click.group("proxy", cls=Verb, invoke_without_command=True, epilog=_EXAMPLES)
@click.option("--upstream", metavar="URL", help="The real model endpoint. Without it the proxy is dead from the start.")
@click.option(
    "--upstream-ca",
    metavar="FILE",
    help="A PEM file to trust besides the system's store.",
    shell_complete=completions.files,
)
@click.option(
    "--mode",
    default=None,
    metavar="FAULT",
    help="What it does where there is no upstream (default: 503): any of `drillmaster fault list` that needs no parameter.",
    shell_complete=completions.faults,
)
@click.option("--host", default="127.0.0.1", show_default=True, help="A loopback address to listen on.")
@click.option("--port", default=8081, show_default=True, type=click.IntRange(0, 65535), help="0: any free port.")
@click.option("--listen", metavar="ADDR:PORT", help="Listen beyond loopback, say for an agent in a container.")
@click.option(
    "--dialect",
    default="auto",
    show_default=True,
    help="Whose API it is; auto tells by host and by request.",
    shell_complete=completions.dialects,
)
@click.option(
    "--events",
    metavar="FILE",
    help="Append evidence (events/proxy.jsonl) to this file.",
    shell_complete=completions.files,
)
@click.option(
    "--transcripts",
    metavar="FILE",
    help="Record what models say in missions (X-Drill-Mission) into this file, such as $DRILL_TRANSCRIPTS/proxy.ndjson.",
    shell_complete=completions.files,
)
@click.option("--run", metavar="ID", envvar="DRILL_RUN", help="With --transcripts: the run's id; default: $DRILL_RUN.")
@click.option(
    "--control", metavar="PATH", help="Where the control socket is (mode 0600).", shell_complete=completions.files
)
@click.option("--control-port", type=click.IntRange(0, 65535), help="Control on loopback TCP too; needs --token-file.")
@click.option(
    "--token-file",
    metavar="FILE",
    help="A 0600 file; its first line is the bearer token for control.",
    shell_complete=completions.files,
)
@click.pass_context
def command(
    ctx: click.Context,
    upstream: str | None,
    upstream_ca: str | None,
    mode: str | None,
    host: str,
    port: int,
    listen: str | None,
    dialect: str,
    events: str | None,
    transcripts: str | None,
    run: str | None,
    control: str | None,
    control_port: int | None,
    token_file: str | None,
) -> None:
    """Pass a model endpoint through on loopback, and fail it on order.

    With --upstream it passes through until told; `drillmaster proxy inject` in another terminal puts a fault on for a
    time, `lift` takes it off, `state` shows what it did. A fault ends by itself when its time is over. Without an
    upstream it is dead from the start, and a drill on it has no baseline.

    A `/v1` at the end of --upstream is the client's to ask for, here as in a plan: with it or without it is the same.
    """
    if ctx.invoked_subcommand is not None:
        return
    from drillmaster.faults import make
    from drillmaster.intake import read_bytes
    from drillmaster.plan import base_urls, without_v1
    from drillmaster.proxy import server as program
    from drillmaster.proxy.settings import Settings, Upstream

    if listen is not None:
        host, _, digits = listen.rpartition(":")
        host = host.strip("[]")
        if not host or not digits.isdigit() or int(digits) > 65535:
            raise Problem("--listen", found=repr(listen), wanted="ADDR:PORT", remedy="write it as 172.17.0.1:8081")
        port = int(digits)
    elif not _is_loopback(host):
        raise Problem(
            "--host",
            found=host,
            wanted="a loopback address; whoever reaches this port spends your key",
            remedy=f"if you mean it: drillmaster proxy --listen {host}:{port}",
        )
    if transcripts is not None and not run:
        raise Problem(
            "--run",
            found="nothing",
            wanted="the id of the run that the transcripts are of",
            remedy="add --run ID, or export DRILL_RUN",
        )
    make(mode or "503")  # an unknown mode is told before anything listens
    for file, cap_bytes in ((upstream_ca, _CA_FILE_BYTES), (token_file, _TOKEN_FILE_BYTES)):
        if file is not None:
            read_bytes(file, cap_bytes)  # what is no file is told too, and a FIFO is not waited for
    if upstream is not None:
        Upstream.parse(upstream)  # what is no URL is told before anything is made of it
    if control is None:
        control = _default_control(port)
    settings = Settings(
        host=host,
        port=port,
        upstream=None if upstream is None else without_v1(upstream),
        upstream_ca=upstream_ca,
        mode=mode or "503",
        dialect=dialect,
        control_path=control,
        control_port=control_port,
        token_file=token_file,
        events=events,
        transcripts=transcripts,
        run=run or "",
        say="lines",
    )

    def ready(server: program.Server) -> None:
        at_host, at_port = server.address
        shown = f"[{at_host}]:{at_port}" if ":" in at_host else f"{at_host}:{at_port}"
        if server.control_tcp is not None:
            print(f"control also on 127.0.0.1:{server.control_tcp.getsockname()[1]}", file=sys.stderr)
        if upstream is None:
            print(f"dead proxy listening on {shown} mode={settings.mode}", flush=True)
            print("no upstream: dead from the start, so a drill on it has no baseline", file=sys.stderr)
            return
        word = "0.0.0.0" if at_host in ("0.0.0.0", "::") else None  # noqa: S104 - compared, not bound
        base = f"http://{'<this host>' if word else shown}" + (f":{at_port}" if word else "")
        exports = " ".join(f"{name}={url}" for name, url in base_urls(base, upstream).items())
        print(f"proxy listening on {shown}, passing through to {settings.upstream}", flush=True)
        if settings.upstream != upstream:
            print("the /v1 of --upstream is the client's to ask for: OPENAI_BASE_URL ends in it", file=sys.stderr)
        print(
            f"point the agent at it:\n"
            f"  export {exports}\n"
            f"in another terminal:\n"
            f"  drillmaster proxy inject --control {control} --mode {mode or 'reset'} --for 60\n"
            f"  drillmaster proxy lift --control {control}\n"
            f"  drillmaster proxy state --control {control}",
            file=sys.stderr,
            flush=True,
        )

    try:
        sys.exit(program.run(settings, ready))
    except Problem as problem:
        raise _held_by_a_drill_s(problem, settings.port) from None


def _held_by_a_drill_s(problem: Problem, port: int) -> Problem:
    """The same problem, or what to do about a port that the proxy of a drill which is over still has."""
    from drillmaster.run.seats import how_it_ends, left_proxies

    for left, pid in left_proxies() if problem.place.startswith("--listen ") else ():
        if left.listen.endswith(f":{port}"):
            remedy = how_it_ends(left, pid)
            return Problem(problem.place, found=problem.found, wanted=problem.wanted, remedy=remedy)
    return problem


def _where(control: str | None, port: int) -> str:
    return control if control is not None else _default_control(port)


def _token(token_file: str | None) -> str | None:
    if token_file is None:
        return None
    from drillmaster.intake import read_bytes

    try:
        return read_bytes(token_file, _TOKEN_FILE_BYTES).decode("ascii").split("\n", 1)[0]
    except UnicodeDecodeError:
        raise Problem(
            token_file, found="bytes that are not ASCII", wanted="a token", remedy="name the proxy's token file"
        ) from None


_control = click.option(
    "--control", metavar="PATH", help="The proxy's control socket, or HOST:PORT.", shell_complete=completions.files
)
_port = click.option(
    "--port", default=8081, show_default=True, help="Without --control: the port the proxy listens on."
)
_token_file = click.option(
    "--token-file", metavar="FILE", help="The token file the proxy was started with.", shell_complete=completions.files
)
_json = click.option("--json", "as_json", is_flag=True, help="Print the answer as JSON.")


@command.command("inject")
@_control
@_port
@_token_file
@click.option(
    "--mode",
    metavar="FAULT",
    help="The fault, any of `drillmaster fault list`. Default: reset.",
    shell_complete=completions.faults,
)
@click.option("--param", "params", multiple=True, metavar="NAME=VALUE", help="One of the fault's parameters.")
@click.option(
    "--rules",
    "rules_file",
    metavar="FILE",
    help="A file with `rules:` as in a plan, in place of --mode.",
    shell_complete=completions.files,
)
@click.option("--for", "for_s", default=60.0, show_default=True, help="Seconds until it ends by itself.")
@click.option("--linger", "linger_s", default=0.0, help="Seconds a request in flight may go on after the lift.")
@click.option("--window", help="Name of this injection; by default one is made up.")
@_json
def inject(
    control: str | None,
    port: int,
    token_file: str | None,
    mode: str | None,
    params: tuple[str, ...],
    rules_file: str | None,
    for_s: float,
    linger_s: float,
    window: str | None,
    as_json: bool,
) -> None:
    """Put a fault on, for a time; it ends by itself.

    \b
    Examples:
      drillmaster proxy inject --mode reset --for 60
      drillmaster proxy inject --control ./proxy.sock --mode hang --for 900 --linger 5
      drillmaster proxy inject --mode rate-limit --param retry_after_s=30
      drillmaster proxy inject --rules rules.yaml --for 60
    """
    import time

    from drillmaster.proxy.remote import ask

    fault = _fault(mode, params, rules_file)

    window = window or f"hand-{time.time_ns() // 1_000_000:x}"
    where = _where(control, port)
    order = {"window": window, **fault, "ttl_s": for_s, "linger_s": linger_s}
    answer = ask(where, "POST", "/inject", order, token=_token(token_file))
    what = f"{fault['fault']} is" if "fault" in fault else f"{len(fault['rules'])} rules are"
    _print(as_json, {"window": window, **answer}, f"{what} on for {for_s:g} s (window {window})")


def _fault(mode: str | None, params: tuple[str, ...], rules_file: str | None) -> dict[str, Any]:
    """What an order of injection says of the fault. Raises Problem."""
    if rules_file is None:
        from drillmaster.faults import load
        from drillmaster.trying.parameters import parse

        tag = mode or "reset"
        return {"fault": tag, "params": parse(tag, load(tag), params)}
    if mode is not None or params:
        raise Problem(
            "--rules", found="--mode or --param beside it", wanted="one of the two", remedy="write the fault as a rule"
        )
    import msgspec

    from drillmaster.faults import make
    from drillmaster.intake import read_strict
    from drillmaster.targeting import Rules, unreached

    rules = read_strict(rules_file, Rules).rules
    for wrong in unreached(rules, [make(rule.tag, rule.params) for rule in rules], "/rules"):
        raise Problem(f"{rules_file}: {wrong.pointer}", found=wrong.found, wanted=wrong.wanted, remedy=wrong.remedy)
    return {"rules": msgspec.to_builtins(rules)}


@command.command("lift")
@_control
@_port
@_token_file
@_json
def lift(control: str | None, port: int, token_file: str | None, as_json: bool) -> None:
    """Take the fault off.

    \b
    Examples:
      drillmaster proxy lift
    """
    from drillmaster.proxy.remote import ask

    where, token = _where(control, port), _token(token_file)
    window = ask(where, "GET", "/state", token=token)["window"]
    if window is None:
        _print(as_json, {"window": None}, "no fault is on; passing through")
        return
    answer = ask(where, "POST", "/lift", {"window": window}, token=token)
    _print(as_json, {"window": window, **answer}, f"lifted (window {window}); passing through")


@command.command("state")
@_control
@_port
@_token_file
@_json
def state(control: str | None, port: int, token_file: str | None, as_json: bool) -> None:
    """Show what is on and what was counted.

    \b
    Examples:
      drillmaster proxy state --json
    """
    from drillmaster.proxy.remote import ask

    found = ask(_where(control, port), "GET", "/state", token=_token(token_file))
    counts = "  ".join(f"{name} {value}" for name, value in found["counts"].items() if value)
    left = f", {found['deadline_in_s']:.1f} s left" if found["deadline_in_s"] is not None else ""
    _print(
        as_json, found, f"mode {found['mode']}{left}, met {found['met']} in this window\n{counts or 'no requests yet'}"
    )


def _print(as_json: bool, value: dict[str, object], text: str) -> None:
    if as_json:
        from drillmaster.cli import say_json

        say_json(value)
    else:
        print(text)
