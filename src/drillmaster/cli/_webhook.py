"""What the verbs of `drillmaster webhook` do."""

import importlib
import logging
import os
import signal
import sys
import threading
from collections.abc import Callable
from importlib import resources
from pathlib import Path
from typing import Any

import click

from drillmaster.adapters.worker.webhook import Endpoint
from drillmaster.adapters.worker.webhook_app import application
from drillmaster.adapters.worker.webhook_lab import parent_environ, production_keys_here
from drillmaster.adapters.worker.webhook_server import bind
from drillmaster.adapters.worker.webhook_server import serve as serve_app
from drillmaster.adapters.worker.webhook_settings import (
    Settings,
    endpoint_of,
    keys_of,
    lab_endpoint_of,
    read_settings,
)
from drillmaster.adapters.worker.webhook_worker import Worker
from drillmaster.clock import SystemClock, rfc3339
from drillmaster.errors import Exit, Problem, Refused, one_line
from drillmaster.rules.webhook_schemes import SCHEMES
from drillmaster.screen import screen_url
from drillmaster.standins import check_host, say
from drillmaster.stores.inbox_opening import open_inbox

__all__ = ["again", "drill", "forget", "init", "lab", "looked", "prepare", "schemes", "serve", "status", "work"]


def init(path: Path) -> None:
    template = resources.files("drillmaster.kits.webhook").joinpath("webhook.yaml").read_bytes()
    try:
        with path.open("xb") as made:
            made.write(template)
    except FileExistsError:
        raise Problem(
            one_line(str(path)), found="a file that is there", wanted="none", remedy="name another, or fill this one in"
        ) from None
    name = one_line(str(path))
    click.echo(f"{name}: written; fill in what ends in a colon, then drillmaster webhook prepare {name}")


def schemes(*, as_json: bool) -> None:
    rows: list[dict[str, Any]] = []
    for name, row in SCHEMES.items():
        headers = [one.decode() for one in (row.signature, row.time, row.id_header) if one is not None]
        signed = [piece.decode() if isinstance(piece, bytes) else f"<{piece}>" for piece in row.signed]
        known = headers[-1] if row.id_header else "/" + "/".join(row.id_at) if row.id_at else "the digest of the body"
        rows.append(
            {
                "scheme": name,
                "headers": headers,
                "signed": "".join(signed),
                "known_by": known,
                "tolerance_s": row.tolerance_s,
                "tolerance_source": row.tolerance_source,
                "source": row.source,
            }
        )
    if as_json:
        from drillmaster.cli import say_json

        say_json(rows)
        return
    for told in rows:
        click.echo(f"{told['scheme']}: {', '.join(told['headers'])}")
        click.echo(f"  signed     {told['signed']}")
        click.echo(f"  known by   {told['known_by']}")
        click.echo(f"  tolerance  {told['tolerance_source']}")
        click.echo(f"  source     {told['source']}")


def prepare(path: Path) -> None:
    settings = read_settings(path, clock=SystemClock())
    for named in (settings.inbox, *((settings.lab.inbox,) if settings.lab else ())):
        with open_inbox(named, within_s=settings.store_within_s) as inbox:
            inbox.prepare()
            click.echo(f"{inbox.place}: ready")


def serve(path: Path, *, host: str, allow_host: str | None, port: int) -> None:
    check_host(host, allow_host)
    settings = read_settings(path, clock=SystemClock())
    place = one_line(str(path))
    keys = keys_of(settings, os.environ, path.absolute().parent, place=place)
    endpoint = endpoint_of(settings, keys, place=place)
    _serve(settings, endpoint, settings.inbox, host=host, port=port, what="serving")


def lab(path: Path, *, host: str, allow_host: str | None, port: int, look_in: tuple[Path, ...]) -> None:
    check_host(host, allow_host)
    settings = read_settings(path, clock=SystemClock())
    place = one_line(str(path))
    endpoint = lab_endpoint_of(settings, place=place)
    if not settings.keys.sha256:
        raise Problem(
            f"{place}: /keys/sha256",
            found="nothing",
            wanted="the digests of production's keys: a lab knows them by nothing else",
            remedy="where the keys are: printf %s KEY | sha256sum",
        )
    found = production_keys_here(settings, os.environ, path.absolute().parent, look_in, parent=parent_environ())
    if found:
        raise Refused(
            "this host",
            found=f"a key of production's: {'; '.join(found)}",
            wanted="a lab without one",
            remedy="take it away from here, and change it where it is used: it was where nothing is guarded",
        )
    assert settings.lab is not None  # it has an endpoint
    _serve(settings, endpoint, settings.lab.inbox, host=host, port=port, what="lab, unsigned fixtures only,")


def _serve(settings: Settings, endpoint: Endpoint, named: str, *, host: str, port: int, what: str) -> None:
    logging.basicConfig(format="%(asctime)s %(levelname)s %(message)s")
    app = application(settings, endpoint, named)
    listening = bind(host, port)
    where = f"[{host}]" if ":" in host else host
    line = f"{what} http://{where}:{listening.getsockname()[1]}{settings.path}"
    serve_app(app, listening, head_within_s=settings.read_within_s, ready=lambda: say(line))
    click.echo("; ".join(f"{reason} {count}" for reason, count in sorted(app.counts.items())) or "nothing came")


def work(path: Path, *, rule: str, model: str | None, apply: str | None, once: bool) -> None:
    logging.basicConfig(format="%(asctime)s %(levelname)s %(message)s")
    settings = read_settings(path, clock=SystemClock())
    if settings.worker is None:
        raise Problem(
            f"{one_line(str(path))}: /worker",
            found="nothing",
            wanted="the worker's limits",
            remedy="add worker: {lease_s: ..., max_attempts: ..., retry_after_s: ..., note_within_s: ...}",
        )
    sys.path.insert(0, os.getcwd())  # noqa: PTH109 - as `python -m` has it
    ours = _loaded(rule, "--rule")
    if not callable(getattr(ours, "decide", None)):
        raise _not(rule, "--rule", "an object with a method decide(event_id, document)")
    with open_inbox(settings.inbox, within_s=settings.store_within_s) as inbox:
        worker = Worker(
            inbox,
            ours,
            settings.worker,
            model=None if model is None else _function(model, "--model"),
            apply=None if apply is None else _function(apply, "--apply"),
            source=settings.provider,
        )
        if once:
            while worker.step() is not None:
                pass
        else:
            stop = threading.Event()
            for number in (signal.SIGTERM, signal.SIGINT):
                signal.signal(number, lambda *_: stop.set())
            inbox.counts()
            say("working")
            worker.run(stop)
    click.echo("; ".join(f"{word} {count}" for word, count in sorted(worker.counts.items())) or "nothing was waiting")


def _loaded(named: str, option: str) -> Any:
    module, colon, name = named.partition(":")
    if not (module and colon and name):
        raise _not(named, option, "MODULE:NAME")
    try:
        return getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError) as error:
        raise Problem(
            option,
            found=f"{one_line(named)}, which cannot be imported ({type(error).__name__}: {error})",
            wanted="MODULE:NAME that python finds from here",
            remedy="cd to where it is, or set PYTHONPATH",
        ) from None


def _function(named: str, option: str) -> Callable[..., Any]:
    found = _loaded(named, option)
    if not callable(found):
        raise _not(named, option, "a function")
    return found  # type: ignore[no-any-return]  # it can be called


def _not(named: str, option: str, wanted: str) -> Problem:
    return Problem(option, found=one_line(named), wanted=wanted, remedy="see docs/howto/receive-webhooks.md")


def status(path: Path, *, as_json: bool) -> None:
    settings = read_settings(path, clock=SystemClock())
    with open_inbox(settings.inbox, within_s=settings.store_within_s) as inbox:
        counts, waiting = inbox.counts(), inbox.open()
    if as_json:
        from drillmaster.cli import say_json

        say_json({"counts": counts, "open": waiting})
    else:
        for name in counts.__struct_fields__:
            click.echo(f"{name.replace('_', ' '):14} {getattr(counts, name)}")
        for one in waiting:
            line = f"{rfc3339(one.at_ms * 1_000_000, digits=0)}  {one.kind:10}  {one.event_id}  {one.why}, {one.times} times"
            click.echo(one_line(line))
    if waiting:
        raise SystemExit(Exit.FAIL)


def again(path: Path, event_id: str, *, by: str) -> None:
    settings = read_settings(path, clock=SystemClock())
    with open_inbox(settings.inbox, within_s=settings.store_within_s) as inbox:
        if not inbox.again(settings.provider, event_id, by=by):
            raise _not_open(event_id, "an event that is parked")
    click.echo(one_line(f"{event_id}: waiting again"))


def looked(path: Path, event_id: str, *, by: str) -> None:
    settings = read_settings(path, clock=SystemClock())
    with open_inbox(settings.inbox, within_s=settings.store_within_s) as inbox:
        if not inbox.looked(settings.provider, event_id, by=by):
            raise _not_open(event_id, "one of which something is open")
    click.echo(one_line(f"{event_id}: closed"))


def _not_open(event_id: str, wanted: str) -> Problem:
    return Problem(event_id, found="no such event", wanted=wanted, remedy="drillmaster webhook status lists them")


def forget(path: Path, *, days: int) -> None:
    settings = read_settings(path, clock=SystemClock())
    with open_inbox(settings.inbox, within_s=settings.store_within_s) as inbox:
        count = inbox.forget(older_than_ms=days * 86_400_000)
    click.echo(f"{count} bodies emptied")


def drill(*, rounds: int, inbox: str | None, wait_s: float, as_json: bool) -> None:
    from drillmaster.kits.webhook import rehearse

    if not as_json:
        where = "a file of its own" if inbox is None else screen_url(inbox)
        click.echo(f"five checks on {where}; {rounds} kills")
    told = rehearse(rounds=rounds, inbox=inbox, wait_s=wait_s)
    if as_json:
        from drillmaster.cli import say_json

        say_json(told)
    else:
        for check in told.checks:
            click.echo(f"{'PASS' if check.passed else 'FAIL'}  {check.id:22} {check.said}")
    if not told.passed:
        raise SystemExit(Exit.FAIL)
