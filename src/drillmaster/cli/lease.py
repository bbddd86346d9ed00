"""`drillmaster lease`: see who holds what, act as an operator, and drill a stale holder."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from drillmaster.cli import Verb
from drillmaster.cli import _completions as completions
from drillmaster.cli._quantities import Seconds
from drillmaster.errors import Exit, Problem

if TYPE_CHECKING:
    from drillmaster.guards import Decision
    from drillmaster.guards.lease import Lease

__all__ = ["command"]

_store = click.option(
    "--store",
    metavar="URL",
    required=True,
    envvar="DRILLMASTER_STORE",
    show_envvar=True,
    help="Where the leases are: sqlite:PATH, postgresql://... or redis://...",
)
_guards = click.option(
    "--guards",
    type=click.Path(path_type=Path),
    metavar="FILE",
    required=True,
    help="The guards file with the lease's ttl, and who may steal it.",
    shell_complete=completions.files,
)
_by = click.option("--by", metavar="NAME", required=True, help="Who you are; it stands in the store's log.")
_item = click.option("--item", metavar="NAME", default="", help="Which of many things under the lease.")
_token = click.option("--token", metavar="TOKEN", required=True, help="As `lease show` prints it.")
_json = click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")


@click.group("lease", cls=Verb)
def command() -> None:
    """See who holds a lease, act as an operator, and drill a stale holder.

    What an operator does is asked of the same guard as a worker's question, and stands in the store's log: granted and refused
    alike. docs/howto/hold-a-lease.md

    \b
    Examples:
      drillmaster lease list --store sqlite:guards.db
      drillmaster lease show nightly-export --store sqlite:guards.db
    """


@command.command("list")
@_store
@_json
def list_(store: str, as_json: bool) -> None:
    """List each lease with its latest holder: held, expired or released.

    \b
    Examples:
      drillmaster lease list --store redis://127.0.0.1:6379/0
    """
    _show(store, None, "", as_json=as_json)


@command.command()
@click.argument("lease", metavar="LEASE")
@_item
@_store
@_json
def show(lease: str, item: str, store: str, as_json: bool) -> None:
    """Show one lease, with its token and holder. Exit code 1 where nobody holds it.

    \b
    Examples:
      drillmaster lease show nightly-export --store sqlite:guards.db
    """
    if not _show(store, lease, item, as_json=as_json):
        raise SystemExit(Exit.FAIL)


@command.command()
@click.argument("lease", metavar="[LEASE]", required=False)
@_item
@_store
@click.option("--last", type=click.IntRange(1, 100_000), default=50, show_default=True, help="How many lines.")
@_json
def log(lease: str | None, item: str, store: str, last: int, as_json: bool) -> None:
    """Print who asked for what and was told what, the oldest first: names, tokens, reasons and times.

    \b
    Examples:
      drillmaster lease log nightly-export --store sqlite:guards.db --last 20
    """
    from drillmaster.clock import rfc3339
    from drillmaster.errors import one_line
    from drillmaster.guards.lease import key_of
    from drillmaster.stores.leases import read_log

    rows = read_log(store, key=None if lease is None else key_of(lease, item), last=last)
    if as_json:
        from drillmaster.cli import say_json

        say_json(rows)
        return
    for row in rows:
        tokens = "".join(f" {word} {token}" for word, token in (("under", row.asked), ("given", row.token)) if token)
        who = f"{_word(row.by)} ({_word(row.holder)})"
        said = f"{who} {row.action} {_name(row.lease, row.item)}: {row.reason}{tokens}"
        click.echo(one_line(f"{rfc3339(row.at_us * 1_000, digits=6)} {'yes' if row.allowed else 'no '} {said}"))


@command.command()
@click.argument("entry", metavar="GUARD")
@_item
@_guards
@_store
@_by
@_json
def acquire(entry: str, item: str, guards: Path, store: str, by: str, as_json: bool) -> None:
    """Acquire a lease for one ttl, and print its token and holder. Nothing renews it. Exit code 1 where it is refused.

    GUARD is the entry's name in the guards file.

    \b
    Examples:
      drillmaster lease acquire nightly-export --guards guards.yaml --store sqlite:guards.db --by bea@example.com
    """
    import secrets

    _ask(_entry(guards, entry), store, as_json, action="acquire", by=by, item=item, holder=secrets.token_hex(16))


@command.command()
@click.argument("entry", metavar="GUARD")
@_item
@_guards
@_store
@_by
@_token
@_json
def steal(entry: str, item: str, guards: Path, store: str, by: str, token: str, as_json: bool) -> None:
    """Take a lease over from the token that you saw, whether or not its deadline has passed. Only whom the guards file names.

    The old holder's writes are refused from then on where they are fenced. Exit code 1 where it is refused.

    \b
    Examples:
      drillmaster lease steal nightly-export --guards guards.yaml --store sqlite:guards.db --by bea --token 1796088673521405
    """
    import secrets

    holder = secrets.token_hex(16)
    _ask(_entry(guards, entry), store, as_json, action="steal", by=by, item=item, holder=holder, fencing_token=token)


@command.command()
@click.argument("entry", metavar="GUARD")
@_item
@_guards
@_store
@_by
@_token
@click.option("--holder", metavar="NAME", required=True, help="As it was printed when the lease was granted.")
@_json
def release(entry: str, item: str, guards: Path, store: str, by: str, token: str, holder: str, as_json: bool) -> None:
    """Give a lease back that you hold. Exit code 1 where it is refused.

    \b
    Examples:
      drillmaster lease release nightly-export --guards guards.yaml --store sqlite:guards.db --by bea --token 17960 --holder 9f2c
    """
    _ask(_entry(guards, entry), store, as_json, action="release", by=by, item=item, holder=holder, fencing_token=token)


@command.command()
@_store
@click.option("--rounds", type=click.IntRange(1, 100_000), default=50, show_default=True, help="How often.")
@click.option("--ttl", "ttl_s", type=Seconds(), default="200ms", show_default=True, help="How long the lease lasts.")
@click.option(
    "--pause", "pause_s", type=Seconds(), default="500ms", show_default=True, help="How long its holder is stopped."
)
@click.option(
    "--pairs", type=click.IntRange(1, 16), default=1, show_default=True, help="So many pairs of processes at once."
)
@click.option("--without-fence", is_flag=True, help="Leave the fence out, to see the drill fail.")
@_json
def drill(
    store: str, rounds: int, ttl_s: float, pause_s: float, pairs: int, without_fence: bool, as_json: bool
) -> None:
    """Stop a holder past its deadline (SIGSTOP), let another one in, and see that the stale write is refused.

    This is the kit `stale-holder`. It writes into tables or keys of its own, and takes away what it wrote. Exit code 0 where every
    stale write was refused and no job was done twice, 1 where not, 2 where it could not be told.

    \b
    Examples:
      drillmaster store prepare sqlite:drill.db
      drillmaster lease drill --store sqlite:drill.db
      drillmaster lease drill --store postgresql://drills@127.0.0.1/drills --rounds 1000 --pairs 4
      drillmaster lease drill --store sqlite:drill.db --rounds 4 --without-fence
    """
    from drillmaster.kits import stale_holder

    course = stale_holder.Course(
        rounds=rounds,
        ttl_ms=round(ttl_s * 1_000),
        pause_ms=round(pause_s * 1_000),
        lanes=min(pairs, rounds),
        fenced=not without_fence,
    )
    result = stale_holder.drill(store, course)
    if as_json:
        from drillmaster.cli import say_json

        say_json({"passed": result.passed, "counts": result, "checks": result.checks})
    else:
        how = ", ".join(f"{n} by {way}" for way, n in sorted(result.ways.items())) if result.ways else "none"
        click.echo(
            f"stale-holder: {result.rounds} rounds ({how}; {result.void} void), ttl {course.ttl_ms} ms, pause {course.pause_ms} ms"
        )
        for check in result.checks:
            click.echo(f"{'PASS' if check.passed else 'FAIL'} {check.id}: {check.said}")
    if not result.passed:
        raise SystemExit(Exit.FAIL)


def _show(store: str, lease: str | None, item: str, *, as_json: bool) -> bool:
    """Print the leases of a store, or one of them; whether one of them is held."""
    from drillmaster.clock import rfc3339
    from drillmaster.errors import one_line
    from drillmaster.stores.leases import read_leases

    rows = [one for one in read_leases(store) if lease is None or (one.lease, one.item) == (lease, item)]
    if as_json:
        import msgspec

        from drillmaster.cli import say_json

        say_json([{**msgspec.to_builtins(one), "state": one.state} for one in rows])
    else:
        for one in rows:
            until = "" if one.until_us == 0 else f" until {rfc3339(one.until_us * 1_000, digits=3)}"
            said = (
                f"{_name(one.lease, one.item)}: {one.state}{until}, by {_word(one.by)}, holder {_word(one.holder)},"
                f" token {one.token}"
            )
            click.echo(one_line(said))
        if not rows:
            click.echo("nobody has ever held " + ("one" if lease is None else _name(lease, item)))
    return any(one.state == "held" for one in rows)


def _name(lease: str, item: str) -> str:
    return f"{_word(lease)}/{_word(item)}" if item else _word(lease)


def _word(name: str) -> str:
    """Write a name so that it ends where it ends: one of more than letters, digits and a few marks stands in quotes."""
    import json
    import re

    return name if re.fullmatch(r"[\w.@:+-]+", name) else json.dumps(name, ensure_ascii=False)


def _entry(guards: Path, name: str) -> "Lease":
    import time

    from drillmaster.guards.lease import Lease
    from drillmaster.intake.guards_files import read_guards

    read = read_guards(guards, now_ns=time.time_ns())
    found = read.entries.get(name)
    if not isinstance(found, Lease):
        leases = [one for one, guard in read.entries.items() if isinstance(guard, Lease)]
        raise Problem(
            str(guards),
            found=f"no lease that is called {name}",
            wanted="the name of an entry of the guard lease",
            remedy=f"name one of {', '.join(leases)}" if leases else "add one: docs/howto/hold-a-lease.md",
        )
    return found


def _ask(guard: "Lease", store: str, as_json: bool, **facts: Any) -> None:
    import contextlib

    from drillmaster.guards.lease import REASONS, LeaseRequest
    from drillmaster.stores import Unavailable, decide
    from drillmaster.stores.opening import open_store

    request = LeaseRequest(source="lock-client", **facts)
    with contextlib.closing(open_store(store, within_s=5)) as opened:
        told: Decision = decide(guard, request, opened)
    if told.reason == "store-unavailable":
        raise Unavailable(
            opened.place,
            found="no answer",
            wanted="a prepared store that answers in time",
            remedy="drillmaster store prepare URL",
        )
    token, lasts_ms = getattr(told, "fencing_token", None), getattr(told, "lasts_ms", None)
    if as_json:
        import msgspec

        from drillmaster.cli import say_json

        say_json({**msgspec.to_builtins(told), "holder": request.holder})
    elif token is not None and lasts_ms is not None:
        click.echo(f"{told.reason}: token {token}, holder {request.holder}, for {lasts_ms / 1_000:g} s")
    else:
        click.echo(f"{told.reason}: {REASONS[told.reason]}")
    if not told.allowed:
        raise SystemExit(Exit.FAIL)
