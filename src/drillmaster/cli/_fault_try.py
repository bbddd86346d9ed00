"""What `drillmaster fault try` makes of its options, and how it shows a trial."""

import ipaddress
import re
import sys
from pathlib import Path
from typing import Any

import click
import msgspec

from drillmaster.dialects import peek_json
from drillmaster.errors import Exit, Problem, Refused, one_line
from drillmaster.faults import load, make
from drillmaster.proxy.settings import Upstream
from drillmaster.screen import screen_text
from drillmaster.strict import near
from drillmaster.targeting import Rule, Rules, When, what_is_wrong
from drillmaster.trying import Trial
from drillmaster.trying.asks import by_analogy
from drillmaster.trying.telling import Teller, summary
from drillmaster.trying.trial import run

__all__ = ["body_of", "check", "fields_of", "loopback", "play", "rules_of", "streams", "when_of"]

MAX_DATA_BYTES = 16 << 20
_FIELD = re.compile(r"([!#$%&'*+.^_`|~0-9A-Za-z-]+)[ \t]*:[ \t]*([^\x00\r\n]*)")
_OURS = frozenset(("host", "content-length", "transfer-encoding", "connection"))


def play(trial: Trial, examples: tuple[str, ...], *, as_json: bool, colour: bool) -> int:
    """Play a trial and show it; the exit code."""
    lines: list[str] = []

    def write(line: str) -> None:
        if as_json:
            lines.append(line)
        else:
            click.echo(line)
            sys.stdout.flush()

    params = trial.rules[0].params if len(trial.rules) == 1 else {}
    said = ", ".join(f"{name}={value}" for name, value in params.items())
    how = "a streamed answer" if trial.stream else "a whole answer"
    behind = trial.upstream or "the stand-in provider"
    what = screen_text(f"fault {trial.title}{f' ({said})' if said else ''}, {trial.dialect}, {how}")
    write(one_line(f"* {what}, {behind} behind the proxy"))
    for told in by_analogy(params, trial.dialect):
        write(f"* {told}")
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


def when_of(words: tuple[str, ...]) -> When:
    """Which requests are to be met, from `NAME=PATTERN` words as in a plan's rule. Raises Problem."""
    known = [*When.__struct_fields__]
    said: dict[str, Any] = {}
    headers: dict[str, str] = {}
    for word in words:
        name, equals, value = word.partition("=")
        place = f"--when {name[:60]}"
        if name.startswith("header.") and equals:
            headers[name.removeprefix("header.")] = value
            continue
        if not equals or name not in known or name == "header" or name in said:
            meant = near(name, known)
            raise Problem(
                place,
                found="said twice" if name in said else "no such condition",
                wanted="NAME=PATTERN, NAME one of " + ", ".join([*(n for n in known if n != "header"), "header.FIELD"]),
                remedy=f"did you mean {meant}?" if meant and meant != name else "write it as --when model=gpt-4o*",
            )
        if name in ("stream", "tools"):
            if value not in ("true", "false"):
                raise Problem(place, found=repr(value[:40]), wanted="true or false", remedy=f"write --when {name}=true")
            said[name] = value == "true"
        else:
            said[name] = value
    return When(**said, header=headers)


def rules_of(path: str) -> tuple[Rule, ...]:
    """A file of rules, as `drillmaster proxy inject --rules` takes it. Raises Problem."""
    from drillmaster.intake import read_strict

    rules = read_strict(Path(path), Rules).rules
    if not rules:
        raise Refused(f"--rules {path}", found="no rule", wanted="one at least", remedy="write one")
    return rules


def check(rules: tuple[Rule, ...], file: str | None) -> None:
    """Raises Problem for a rule that makes no sense, where it was written: in a file, or as TAG and --when."""
    for at, rule in enumerate(rules):
        try:
            make(rule.tag, rule.params)
        except Problem as problem:
            if file is None:
                raise
            raise Problem(
                f"--rules {file}: /rules/{at}/params",
                found=problem.found,
                wanted=problem.wanted,
                remedy=problem.remedy,
            ) from None
    for wrong in what_is_wrong(rules, lambda tag: load(tag).scope, ""):
        place, remedy = f"--rules {file}: /rules{wrong.pointer}", wrong.remedy
        if file is None and "/when/" in wrong.pointer:
            place = f"--when {wrong.pointer.rpartition('/')[2]}"
        elif file is None:
            place, remedy = f"fault {rules[0].tag}", "leave --when out"
        raise Problem(place, found=wrong.found, wanted=wrong.wanted, remedy=remedy)


def fields_of(words: tuple[str, ...]) -> tuple[tuple[str, str], ...]:
    """Header fields of the request from `NAME: VALUE` words. Raises Problem; their values are in none."""
    fields = []
    for word in words:
        match = _FIELD.fullmatch(word)
        name = match[1].lower() if match else ""
        if match is None or name in _OURS or not match[2].isascii():
            raise Problem(
                f"--header {name or one_line(word.partition(':')[0][:40])}",
                found="a field of the framing's own" if name in _OURS else "no header field",
                wanted="NAME: VALUE, in ASCII, other than " + ", ".join(sorted(_OURS)),
                remedy="write it as --header 'x-tenant: blue'",
            )
        fields.append((name, match[2].rstrip()))
    return tuple(fields)


def loopback(url: str) -> str:
    """The endpoint, if it is on this machine. A /v1 at its end belongs to the paths that are asked for."""
    try:
        upstream = Upstream.parse(url)
    except Problem as problem:
        raise Problem(
            "--url", found=problem.found, wanted="a URL on this machine", remedy="write it as http://127.0.0.1:11434"
        ) from None
    try:
        near_by = upstream.host == "localhost" or ipaddress.ip_address(upstream.host).is_loopback
    except ValueError:
        near_by = False
    if not near_by or upstream.tls:
        raise Refused(
            "--url",
            found="https" if near_by else f"{upstream.host}, which is not this machine",
            wanted="http on a loopback address",
            remedy="start a server here, or drill the real endpoint with a plan: drillmaster init eviction",
        )
    return url.rstrip("/").removesuffix("/v1")


def body_of(name: str) -> bytes:
    """The body of the request, from a file or, for `-`, from standard input. Raises Problem."""
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


def streams(body: bytes | None, otherwise: bool) -> bool:
    """Whether a body of the user's own asks for a stream, where it says so."""
    asked = None if body is None else peek_json(body).stream
    return otherwise if asked is None else asked
