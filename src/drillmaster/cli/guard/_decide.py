"""`drillmaster guard NAME`: what a guard is made of, and one decision of it. The same command for each guard."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from drillmaster.cli import _completions as completions
from drillmaster.errors import Exit, Problem

if TYPE_CHECKING:
    from drillmaster.guards import Decision
    from drillmaster.intake.guards_files import Guards, Kind

__all__ = ["command_of"]

_ITSELF = "\0"
"""What `--explain` without a file stands for: no file has that name."""
_STATE_CAP_BYTES = 1 << 20
_WITHOUT = "without a store: as if nothing had been counted yet; --store URL asks the one that the workers ask"
_BY_STATE = "by the state of --state, and not by a store's"
_COUNTED = "by the store, which has counted it as a worker's"


def command_of(tag: str) -> click.Command:
    """Make the command of one guard."""
    from drillmaster.guards import find

    first = (find(tag).__doc__ or "").partition("\n")[0]

    def ask(
        explain: str | None,
        guards: str | None,
        entry: str | None,
        store: str | None,
        state: str | None,
        now: str | None,
        as_json: bool,
    ) -> None:
        if explain is None or explain == _ITSELF:
            _describe(tag, as_json=as_json)
            return
        _decide(tag, explain, guards, entry, store, state, now, as_json=as_json)

    options = (
        click.Option(
            ["--explain"],
            metavar="[FACTS]",
            is_flag=False,
            flag_value=_ITSELF,
            help="Decide on the facts in this JSON file; - reads them from standard input. Without one: say what the guard is.",
            shell_complete=completions.files,
        ),
        click.Option(
            ["--guards"], metavar="FILE", help="The guards file, with the limits.", shell_complete=completions.files
        ),
        click.Option(["--entry"], metavar="NAME", help="Which entry of the file, where it has several of this guard."),
        click.Option(
            ["--store"],
            metavar="URL",
            help="Ask this store. It counts the decision, as it does a worker's.",
        ),
        click.Option(
            ["--state"],
            metavar="FILE",
            help="Decide by this state (JSON) instead of a store's.",
            shell_complete=completions.files,
        ),
        click.Option(["--now"], metavar="TIME", help="As of this time, without a store: 2026-11-29T12:00:00Z."),
        click.Option(["--json", "as_json"], is_flag=True, help="Print the decision as JSON."),
    )
    return click.Command(
        tag,
        callback=ask,
        params=list(options),
        help=f"""{first}

        Without --explain it says what limits, facts and reasons this guard has. Exits 0 where it is allowed, 1 where it is denied,
        2 where facts or limits are none.

        \b
        Examples:
          drillmaster guard {tag}
          drillmaster guard {tag} --explain facts.json --guards guards.yaml
          drillmaster guard {tag} --explain - --guards guards.yaml --json < facts.json
        """,
    )


def _describe(tag: str, *, as_json: bool) -> None:
    from drillmaster.cli import say_json
    from drillmaster.guards import find
    from drillmaster.intake.guards_fields import fields_of
    from drillmaster.intake.guards_files import kind_of

    kind = kind_of(tag)
    limits, facts = fields_of(find(tag)), fields_of(kind.facts)
    if as_json:
        say_json({"guard": tag, "limits": limits, "facts": facts, "reasons": kind.reasons, "store": kind.by_law})
        return
    click.echo(f"{tag}: {(find(tag).__doc__ or '').partition(chr(10))[0]}")
    for title, rows in (("limits, from the guards file", limits), ("facts, from the worker", facts)):
        click.echo(f"\n{title}")
        width = max((len(row.name) for row in rows), default=0)
        for row in rows:
            click.echo(f"  {row.name:<{width}}  {row.type}{'' if row.needed else f'; left out: {row.default}'}")
            if row.said:
                click.echo(f"  {'':<{width}}    {row.said}")
    click.echo("\nreasons")
    for reason, said in kind.reasons.items():
        click.echo(f"  {reason}\n    {said}")
    counted = "in a store, which workers share" if kind.by_law else "in each process" if kind.state else "not at all"
    click.echo(f"\nit counts {counted}; more: drillmaster guard schema {tag}")


def _decide(
    tag: str,
    facts_from: str,
    guards_from: str | None,
    entry: str | None,
    store: str | None,
    state_from: str | None,
    now: str | None,
    *,
    as_json: bool,
) -> None:
    import time

    from drillmaster.clock import parse_rfc3339
    from drillmaster.intake.guards_files import FACTS_CAP_BYTES, kind_of, read_facts, read_guards

    kind = kind_of(tag)
    if guards_from is None:
        raise Problem(
            f"guard {tag}",
            found="no limits",
            wanted="a guards file, which says whose numbers they are",
            remedy=f"add --guards FILE; drillmaster init guards --guard {tag} writes one",
        )
    if store is not None and (state_from is not None or now is not None):
        raise Problem(
            f"guard {tag}",
            found="--store, and --state or --now",
            wanted="one of them: a store has its own state and its own clock",
            remedy="leave --state and --now out",
        )
    now_ns = time.time_ns() if now is None else parse_rfc3339(now)
    if now_ns is None:
        raise Problem("--now", found=repr(now), wanted="a time with a zone", remedy="--now 2026-11-29T12:00:00Z")
    guards = read_guards(guards_from, now_ns=now_ns)
    name, guard = _entry_of(guards, tag, entry)
    where = "standard input" if facts_from == "-" else facts_from
    data = sys.stdin.buffer.read(FACTS_CAP_BYTES + 1) if facts_from == "-" else _bytes(facts_from, FACTS_CAP_BYTES)
    facts = read_facts(data, kind, place=where)
    after: Any = None
    if store is not None and kind.by_law:
        from drillmaster.stores import decide
        from drillmaster.stores.opening import open_store

        opened = open_store(store)
        decision, how = decide(guard, facts, opened), _COUNTED
        opened.close()
    else:
        state = None if state_from is None else _state(state_from, kind)
        after, decision = guard.step(state, facts, now_ns // 1_000_000)
        how = _BY_STATE if state_from is not None else _WITHOUT if kind.by_law else ""
    _tell(guards, name, kind, guard, decision, how, after, as_json=as_json)


def _entry_of(guards: "Guards", tag: str, entry: str | None) -> tuple[str, Any]:
    of_tag = {n: g for n, g in guards.entries.items() if type(g).__struct_config__.tag == tag}
    if entry is None and len(of_tag) == 1:
        return next(iter(of_tag.items()))
    if entry is not None and entry in of_tag:
        return entry, of_tag[entry]
    if not of_tag:
        raise Problem(
            guards.place,
            found=f"no {tag} among its guards",
            wanted=f"an entry - guard: {tag}",
            remedy=f"drillmaster init guards --guard {tag} --dir DIR writes one with every limit explained",
        )
    raise Problem(
        guards.place,
        found=f"{len(of_tag)} entries for {tag}" if entry is None else f"no entry {entry[:60]!r} for {tag}",
        wanted="the name of one",
        remedy=f"add --entry {next(iter(of_tag))}, or another of: {', '.join(of_tag)}",
    )


def _state(path: str, kind: "Kind") -> Any:
    from drillmaster import strict

    if kind.state is None:
        raise Problem("--state", found=path, wanted="nothing: this guard keeps no state", remedy="leave --state out")
    wanted = kind.guard.LAW.state if kind.guard.LAW is not None else kind.state
    return strict.load_as(_bytes(path, _STATE_CAP_BYTES), wanted, place=path, fmt="json")


def _bytes(path: str, cap_bytes: int) -> bytes:
    from drillmaster.intake import read_bytes

    return read_bytes(Path(path), cap_bytes)


def _tell(
    guards: "Guards",
    name: str,
    kind: "Kind",
    guard: Any,
    decision: "Decision",
    how: str,
    after: Any,
    *,
    as_json: bool,
) -> None:
    """Say a decision, why, and by which limits; and end with it."""
    import msgspec

    from drillmaster.cli import say_json

    limits = msgspec.to_builtins(guard)
    limits.pop("guard", None)
    by = kind.limits_of.get(decision.reason, ()) if kind.limits_of else tuple(limits)
    held = {field: value for field, value in limits.items() if field in by}
    sentence = kind.reasons.get(decision.reason, "")
    code = Exit.PASS if decision.allowed is True else Exit.FAIL
    if as_json:
        said = msgspec.to_builtins(decision)
        state = {} if after is None else {"state_after": after}
        say_json(
            {
                **said,
                "says": sentence,
                "entry": name,
                "guard": kind.tag,
                "limits": held,
                "how": how,
                **state,
                "exit": int(code),
            }
        )
        sys.exit(code)
    click.echo(f"{'allowed' if code == Exit.PASS else 'denied'}: {decision.reason}")
    if sentence:
        click.echo(f"  {sentence}")
    numbers = [
        (field, value) for field, value in msgspec.to_builtins(decision).items() if field not in ("allowed", "reason")
    ]
    told = [f"{field} {value}" for field, value in numbers if value is not None and (field != "wait_ms" or value)]
    if told:
        click.echo(f"  {', '.join(told)}")
    whose = f"{name} ({guards.place}, {guards.pin.source}, {guards.pin.owner})"
    click.echo(f"limits of {whose}:" if held else f"no limit of {whose} was held against it")
    for field, value in held.items():
        text = msgspec.json.encode(value).decode()
        click.echo(f"  {field}: {text if len(text) <= 200 else text[:200] + '...'}")
    if how:
        click.echo(f"decided {how}", err=True)
    sys.exit(code)
