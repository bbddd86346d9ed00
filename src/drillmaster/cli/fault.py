"""`drillmaster fault`: what can be made to fail, explained, and tried once by hand."""

import os
import shutil
import sys
from typing import TYPE_CHECKING

import click

from drillmaster.cli import Verb
from drillmaster.cli import _completions as completions
from drillmaster.errors import Problem, Refused

if TYPE_CHECKING:
    from drillmaster.faults import Fault

__all__ = ["command"]

MAX_S = 3_600
"""A fault is on for no longer than that."""
_json = click.option("--json", "as_json", is_flag=True, help="Print it as JSON.")


@click.group(cls=Verb)
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
@click.option(
    "--seen",
    metavar="END",
    help="Only those that may leave a client with it: reset, silent, broken, status, cut and others.",
    shell_complete=completions.fault_ends,
)
@_json
def list_(words: tuple[str, ...], group: str | None, scope: str | None, seen: str | None, as_json: bool) -> None:
    """List the faults, by group, one line each; WORDs choose those whose tag, line, group or parameters hold them all.

    The letters in front say what stands behind a fault: W its bytes on the wire are captured and compared by a test, P it
    has a page, S the shipped table says what SDKs do with it. The list is what was found when this release was made.

    Faults of one end (--seen) come out of most clients by one branch; rehearse one of each rather than many of one.

    \b
    Examples:
      drillmaster fault list
      drillmaster fault list retry-after
      drillmaster fault list --group stream
      drillmaster fault list --seen broken
      drillmaster fault list --scope port --json
    """
    from drillmaster.cli import _faults
    from drillmaster.trying.shelf import find, read

    found = find(words, group=group, scope=scope, seen=seen)
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
    columns = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
    for line in _faults.listed(found, read(), colour=_colour(), columns=columns):
        click.echo(line)


@command.command()
@click.argument("tag", shell_complete=completions.faults)
@click.option(
    "--dialect",
    metavar="NAME",
    help="Show what it says in the words of this API alone.",
    shell_complete=completions.dialects,
)
@click.option(
    "--param",
    "params",
    multiple=True,
    metavar="NAME=VALUE",
    help="One of its parameters, for what is said and for the lines of a plan.",
    shell_complete=completions.fault_parameters,
)
@_json
def show(tag: str, dialect: str | None, params: tuple[str, ...], as_json: bool) -> None:
    """Explain one fault: what happens, its parameters, what each API says, lines for a plan, what SDKs do with it.

    With --json the parameters are a JSON Schema.

    \b
    Examples:
      drillmaster fault show rate-limit
      drillmaster fault show rate-limit --dialect anthropic
      drillmaster fault show status --param status=429 --param condition=rate-tokens
      drillmaster fault show cut-body --json
    """
    from drillmaster.cli import _faults
    from drillmaster.trying.parameters import parse

    kind = _kind(tag)
    if dialect is not None:
        _dialect(dialect)
    given = parse(tag, kind, params)
    explained = _faults.explain(tag, kind, None if dialect is None else (dialect,), given)
    if as_json:
        click.echo(_faults.explained_json(explained))
        return
    for line in _faults.explained(explained, colour=_colour()):
        click.echo(line)


@command.command("try")
@click.argument("tag", required=False, shell_complete=completions.faults)
@click.option(
    "--param",
    "params",
    multiple=True,
    metavar="NAME=VALUE",
    help="One of its parameters.",
    shell_complete=completions.fault_parameters,
)
@click.option(
    "--when",
    "conditions",
    multiple=True,
    metavar="NAME=PATTERN",
    help="Strike only requests that fit: method, path, model, stream, tools, key, dialect, header.FIELD.",
)
@click.option(
    "--rules",
    "rules_file",
    metavar="FILE",
    help="A file with `rules:` as in a plan, in place of TAG.",
    shell_complete=completions.files,
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
@click.option("--header", "headers", multiple=True, metavar="'NAME: VALUE'", help="A field of the request's head.")
@click.option(
    "--data",
    metavar="FILE",
    help="The request's body, sent as it is; - is standard input.",
    shell_complete=completions.files,
)
@click.option("--url", metavar="URL", help="An endpoint on loopback in the stand-in provider's place.")
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
    tag: str | None,
    params: tuple[str, ...],
    conditions: tuple[str, ...],
    rules_file: str | None,
    dialect: str | None,
    stream: bool | None,
    model: str | None,
    headers: tuple[str, ...],
    data: str | None,
    url: str | None,
    repeat: int | None,
    limit_s: float,
    as_json: bool,
) -> None:
    """Play one fault against one request, and show what a plain socket client sees of it.

    A stand-in provider and a proxy are started on loopback, the request is sent without the fault and then with it, and
    what comes is shown with its time: `> ` sent, `< ` received, `* ` what happened. Then what code with a fallback would
    have to go by, and whether the proxy says that the fault was met. Parameters that must be given and are not are the
    entry's examples. Exits 0 when the fault was met and left the client with what its page says, 1 when not, 2 on wrong
    usage.

    \b
    Examples:
      drillmaster fault try clean-end
      drillmaster fault try stale-keep-alive
      drillmaster fault try rate-limit --param retry_after_s=3600 --param form=date --dialect anthropic
      drillmaster fault try hang --time-limit 2
      drillmaster fault try 503 --when 'model=gpt-4o*' --model gpt-4o-mini
      drillmaster fault try --rules rules.yaml --header 'x-tenant: blue' --repeat 8
      drillmaster fault try stall --url http://127.0.0.1:11434 --dialect ollama --model llama3.2
    """
    import msgspec

    from drillmaster import faults
    from drillmaster.cli import _fault_try as read
    from drillmaster.targeting import Rule
    from drillmaster.trying import Trial
    from drillmaster.trying.asks import ask_for, usual
    from drillmaster.trying.parameters import filled, parse

    if dialect is not None:
        _dialect(dialect)
    examples: tuple[str, ...] = ()
    if rules_file is not None:
        if tag is not None or params or conditions:
            raise Problem(
                "--rules",
                found="TAG, --param or --when beside it",
                wanted="one of the two",
                remedy="write the fault as a rule",
            )
        rules = read.rules_of(rules_file)
        for rule in rules:
            _kind(rule.tag)
    elif tag is None:
        raise Problem(
            "fault try", found="no TAG", wanted="a fault, or --rules FILE", remedy="see: drillmaster fault list"
        )
    else:
        kind = _kind(tag)
        given, examples = filled(tag, kind, parse(tag, kind, params))
        rules = (Rule(mode=tag, params=given, when=read.when_of(conditions), name=tag if conditions else ""),)
    read.check(rules, rules_file)
    fault = faults.make(rules[0].tag, rules[0].params)
    asked_dialect, asked_stream = usual(fault)
    dialect = dialect or asked_dialect
    upstream = None if url is None else read.loopback(url)
    body = None if data is None else read.body_of(data)
    if stream is None:
        stream = read.streams(body, asked_stream and dialect != "mcp")
    if stream and dialect == "mcp" and upstream is None:
        raise Problem(
            "--stream",
            found="dialect mcp",
            wanted="a whole answer: the stand-in's MCP server has no other",
            remedy="leave --stream out, or name a server of your own with --url",
        )
    if (repeat or 1) * limit_s > MAX_S:
        raise Problem(
            "--repeat",
            found=f"{repeat} requests of {limit_s:g} s",
            wanted=f"at most {MAX_S} s in all",
            remedy="repeat fewer, or give each less time",
        )
    ask = ask_for(fault, dialect, stream=stream, model=model, body=body)
    more = read.fields_of(headers)
    own = tuple(field for field in ask.fields if field[0] not in {name for name, _ in more})
    trial = Trial(
        rules=rules,
        dialect=dialect,
        stream=stream,
        ask=msgspec.structs.replace(ask, fields=(*own, *more)),
        upstream=upstream,
        repeat=repeat,
        limit_s=limit_s,
    )
    sys.exit(read.play(trial, examples, as_json=as_json, colour=_colour()))


def _dialect(name: str) -> None:
    """Raises Problem for a dialect that there is not."""
    from drillmaster.dialects import names
    from drillmaster.errors import one_line
    from drillmaster.strict import near

    if name not in names():
        meant = near(name, names())
        raise Problem(
            "--dialect",
            found=repr(one_line(name[:40])),
            wanted="one of " + ", ".join(names()),
            remedy=f"did you mean {meant}?" if meant else "write one of these",
        )


def _kind(tag: str) -> "type[Fault]":
    """The entry. Raises Problem that names what may have been meant."""
    from drillmaster import faults
    from drillmaster.errors import one_line
    from drillmaster.trying.shelf import near_misses

    if tag in faults.names():
        return faults.load(tag)
    if tag.isdecimal() and len(tag) == 3:
        remedy = f"any status is the fault `status`: --param status={tag}"
    else:
        near = near_misses(tag)
        remedy = f"did you mean {' or '.join(near)}?" if near else "see: drillmaster fault list"
    raise Problem(
        "fault",
        found=repr(one_line(tag[:40])),
        wanted="a tag of `drillmaster fault list`",
        remedy=remedy,
    )


def _colour() -> bool:
    from drillmaster.reports import text

    return text.colour_wanted(os.environ, is_terminal=sys.stdout.isatty())
