"""`drillmaster fault`: what can be made to fail, explained, and tried once by hand."""

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from drillmaster.cli import _completions as completions
from drillmaster.errors import Exit, Problem, Refused

if TYPE_CHECKING:
    from drillmaster.faults import Fault
    from drillmaster.trying import Trial

__all__ = ["command"]

MAX_DATA_BYTES = 16 << 20
MAX_S = 3_600
"""A fault is on for no longer than that."""
_json = click.option("--json", "as_json", is_flag=True, help="Print it as JSON.")


@click.group()
def command() -> None:
    """Find a fault, read what it does, and watch it once on a real socket.

    \b
    Examples:
      drillmaster fault list stream
      drillmaster fault show clean-end
      drillmaster fault try clean-end --dialect anthropic
    """


@command.command("list")
@click.argument("words", nargs=-1, metavar="[WORD]...")
@click.option("--group", metavar="NAME", help="Only this group.", shell_complete=completions.fault_groups)
@click.option("--scope", metavar="NAME", help="Only this scope: port, connection or exchange.")
@_json
def list_(words: tuple[str, ...], group: str | None, scope: str | None, as_json: bool) -> None:
    """List the faults, by group, one line each; WORDs choose those whose tag or line holds them all.

    The letters in front say what stands behind a fault: W its bytes on the wire are captured and compared by a test, P it
    has a page, S the shipped table says what SDKs do with it. The list is what was found when this release was made.

    \b
    Examples:
      drillmaster fault list
      drillmaster fault list retry-after
      drillmaster fault list --group stream
      drillmaster fault list --scope port --json
    """
    from drillmaster.cli import _faults
    from drillmaster.trying.shelf import find, read

    found = find(words, group=group, scope=scope)
    if not found:
        raise Refused(
            "fault list",
            found="no fault that fits",
            wanted="words, a group or a scope that some fault has",
            remedy="see all of them with: drillmaster fault list",
        )
    if as_json:
        click.echo(_faults.listed_json(found, read()))
        return
    for line in _faults.listed(found, read(), colour=_colour()):
        click.echo(line)


@command.command()
@click.argument("tag", shell_complete=completions.faults)
@click.option(
    "--dialect",
    metavar="NAME",
    help="Show what it says in the words of this API alone.",
    shell_complete=completions.dialects,
)
@_json
def show(tag: str, dialect: str | None, as_json: bool) -> None:
    """Explain one fault: what happens, its parameters, what each API says, lines for a plan, what SDKs do with it.

    With --json the parameters are a JSON Schema.

    \b
    Examples:
      drillmaster fault show rate-limit
      drillmaster fault show rate-limit --dialect anthropic
      drillmaster fault show cut-body --json
    """
    from drillmaster.cli import _faults

    kind = _kind(tag)
    explained = _faults.explain(tag, kind, None if dialect is None else (dialect,))
    if as_json:
        click.echo(_faults.explained_json(explained))
        return
    for line in _faults.explained(explained, colour=_colour()):
        click.echo(line)


@command.command("try")
@click.argument("tag", shell_complete=completions.faults)
@click.option(
    "--param",
    "params",
    multiple=True,
    metavar="NAME=VALUE",
    help="One of its parameters.",
    shell_complete=completions.fault_parameters,
)
@click.option(
    "--dialect",
    metavar="NAME",
    help="Whose API is asked. Default: openai_chat, or what the fault needs.",
    shell_complete=completions.dialects,
)
@click.option(
    "--stream/--whole", "stream", default=None, help="Ask for a streamed or for a whole answer. Default: what it needs."
)
@click.option("--model", metavar="NAME", help="The model that is asked for. Default: the stand-in's.")
@click.option("--url", metavar="URL", help="An endpoint on loopback in the stand-in provider's place.")
@click.option("--data", metavar="FILE", help="The request's body, sent as it is; - is standard input.")
@click.option(
    "--repeat",
    type=click.IntRange(1, 1_000),
    metavar="N",
    help="Requests, one after the other on one connection. Default: until it is met.",
)
@click.option(
    "--time-limit",
    "limit_s",
    type=click.FloatRange(0.05, 600),
    default=5.0,
    show_default=True,
    metavar="S",
    help="Seconds until a request is given up.",
)
@_json
def try_(
    tag: str,
    params: tuple[str, ...],
    dialect: str | None,
    stream: bool | None,
    model: str | None,
    url: str | None,
    data: str | None,
    repeat: int | None,
    limit_s: float,
    as_json: bool,
) -> None:
    """Play one fault against one request, and show what a plain socket client sees of it.

    A stand-in provider and a proxy with the fault on are started on loopback, a request is sent, and what comes is shown
    with its time: `> ` sent, `< ` received, `* ` what happened. Then what code with a fallback would have to go by, and
    whether the proxy says that the fault was met. Parameters that must be given and are not are the entry's examples.
    Exits 0 when the fault was met and left the client with what its page says, 1 when not, 2 on wrong usage.

    \b
    Examples:
      drillmaster fault try clean-end
      drillmaster fault try stale-keep-alive
      drillmaster fault try rate-limit --param retry_after_s=3600 --param form=date --dialect anthropic
      drillmaster fault try hang --time-limit 2
      drillmaster fault try stall --url http://127.0.0.1:11434 --dialect ollama --model llama3.2
    """
    from drillmaster import faults
    from drillmaster.trying import Trial
    from drillmaster.trying.asks import ask_for, usual
    from drillmaster.trying.parameters import filled, parse

    kind = _kind(tag)
    given, examples = filled(tag, kind, parse(tag, kind, params))
    fault = faults.make(tag, given)
    asked_dialect, asked_stream = usual(fault)
    dialect = dialect or asked_dialect
    upstream = None if url is None else _loopback(url)
    body = None if data is None else _read(data)
    if stream is None:
        stream = _streams(body, asked_stream and dialect != "mcp")
    if stream and dialect == "mcp" and upstream is None:
        raise Problem(
            "--stream", found="dialect mcp", wanted="a whole answer: the stand-in's MCP server has no other",
            remedy="leave --stream out, or name a server of your own with --url",
        )  # fmt: skip
    ask = ask_for(fault, dialect, stream=stream, model=model, body=body)
    if (repeat or 1) * limit_s > MAX_S:
        raise Problem(
            "--repeat", found=f"{repeat} requests of {limit_s:g} s", wanted=f"at most {MAX_S} s in all",
            remedy="repeat fewer, or give each less time",
        )  # fmt: skip
    trial = Trial(
        tag=tag,
        params=given,
        dialect=dialect,
        stream=stream,
        ask=ask,
        upstream=upstream,
        repeat=repeat,
        limit_s=limit_s,
    )
    sys.exit(_play(trial, fault, examples, as_json=as_json))


def _play(trial: "Trial", fault: "Fault", examples: tuple[str, ...], *, as_json: bool) -> int:
    import msgspec

    from drillmaster.trying.telling import Teller, summary
    from drillmaster.trying.trial import run

    lines: list[str] = []
    colour = _colour()

    def write(line: str) -> None:
        if as_json:
            lines.append(line)
        else:
            click.echo(line)
            sys.stdout.flush()

    said = ", ".join(f"{name}={value}" for name, value in trial.params.items())
    how = "a streamed answer" if trial.stream else "a whole answer"
    behind = trial.upstream or "the stand-in provider"
    write(f"* fault {trial.tag}{f' ({said})' if said else ''}, {trial.dialect}, {how}, {behind} behind the proxy")
    if examples:
        write(f"* {', '.join(examples)}: an example of the entry's; choose with --param {examples[0]}=...")
    teller = Teller(write, colour=colour and not as_json)
    try:
        tried = run(trial, teller.tell)
    finally:
        teller.finish()
    if as_json:
        shown: dict[str, Any] = {**msgspec.to_builtins(tried), "transcript": lines}
        click.echo(msgspec.json.format(msgspec.json.encode(shown)).decode())
    else:
        for line in ["", *summary(tried, colour=colour)]:
            click.echo(line)
    return Exit.PASS if tried.met and tried.as_described else Exit.FAIL


def _kind(tag: str) -> "type[Fault]":
    """The entry. Raises Problem that names what may have been meant."""
    from drillmaster import faults
    from drillmaster.errors import one_line
    from drillmaster.trying.shelf import near_misses

    if tag in faults.names():
        return faults.load(tag)
    near = near_misses(tag)
    raise Problem(
        "fault",
        found=repr(one_line(tag[:40])),
        wanted="a tag of `drillmaster fault list`",
        remedy=f"did you mean {' or '.join(near)}?" if near else "see: drillmaster fault list",
    )


def _loopback(url: str) -> str:
    """The endpoint, if it is on this machine. A /v1 at its end belongs to the paths that are asked for."""
    import ipaddress

    from drillmaster.proxy.settings import Upstream

    upstream = Upstream.parse(url)
    try:
        near = upstream.host == "localhost" or ipaddress.ip_address(upstream.host).is_loopback
    except ValueError:
        near = False
    if not near or upstream.tls:
        raise Refused(
            "--url",
            found="https" if near else f"{upstream.host}, which is not this machine",
            wanted="http on a loopback address",
            remedy="start a server here, or drill the real endpoint with a plan: drillmaster init eviction",
        )
    return url.rstrip("/").removesuffix("/v1")


def _read(name: str) -> bytes:
    """The body of the request. Raises Problem."""
    try:
        if name == "-":
            body = sys.stdin.buffer.read(MAX_DATA_BYTES + 1)
        else:
            with Path(name).open("rb") as file:
                body = file.read(MAX_DATA_BYTES + 1)
    except OSError as error:
        raise Problem(
            f"--data {name}", found=error.strerror or str(error), wanted="a readable file", remedy="name another"
        ) from None
    if len(body) > MAX_DATA_BYTES:
        raise Problem(
            f"--data {name}", found="more than 16 MiB", wanted="a request's body", remedy="send a smaller one"
        )
    return body


def _streams(body: bytes | None, otherwise: bool) -> bool:
    """Whether a body of the user's own asks for a stream, where it says so."""
    from drillmaster.dialects import peek_json

    asked = None if body is None else peek_json(body).stream
    return otherwise if asked is None else asked


def _colour() -> bool:
    from drillmaster.reports import text

    return text.colour_wanted(os.environ, is_terminal=sys.stdout.isatty())
