"""`drillmaster sdk-check`: what the model clients that are installed do under each fault."""

import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from drillmaster.cli import _completions as completions
from drillmaster.errors import Exit, Problem, Refused, one_line

if TYPE_CHECKING:
    from collections.abc import Coroutine, Sequence

    from drillmaster.sdkcheck import Client, Table
    from drillmaster.sdkcheck.table import Expectations

__all__ = ["command"]

TRIES = 3
"""What the SDKs make of one call by themselves."""
LEAST_PAUSES_S = 1.0
"""The least that they take between them."""
PAUSES_S = 3.5
"""What they take in old releases, and room for a busy machine."""


@click.command("sdk-check")
@click.option(
    "--python",
    default=sys.executable,
    metavar="PATH",
    help="The interpreter that has the clients, or the folder of its environment; by default this one.",
    shell_complete=completions.files,
)
@click.option(
    "--node",
    type=click.Path(exists=True, file_okay=False),
    metavar="DIR",
    help="A folder with node_modules; its clients are checked too.",
)
@click.option(
    "--client", "wanted", multiple=True, metavar="NAME", help="Only this client.", shell_complete=completions.clients
)
@click.option(
    "--fault", "tags", multiple=True, metavar="TAG", help="Only this fault.", shell_complete=completions.faults
)
@click.option("--list", "listing", is_flag=True, help="List the clients that were found, and end.")
@click.option(
    "--json",
    "as_json",
    type=click.Path(path_type=Path, allow_dash=True),
    help="Write the table as JSON; - is stdout. A table that is there already is kept as FILE.old.",
)
@click.option("--html", "as_html", type=click.Path(path_type=Path), help="Write the table as one HTML page.")
@click.option(
    "--markdown", "as_markdown", type=click.Path(path_type=Path), help="Write the table as a page of Markdown."
)
@click.option(
    "--compare", type=click.Path(path_type=Path), metavar="OLD.json", help="Say what changed since that table."
)
@click.option(
    "--expect",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="A policy of expectations; exit 1 when one is broken.",
)
@click.option(
    "--logs",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Where the wire's events go; by default runs/sdk-check-TIME.",
)
@click.option(
    "--limit-s", default=1.0, show_default=True, type=click.FloatRange(0.2, 60), help="The clients' time limit."
)
@click.option(
    "--watch-s",
    type=click.FloatRange(1, 600),
    help="How long a cell is watched; by default three times --limit-s and 3.5 s for the pauses between.",
)
@click.option(
    "--lanes",
    default=40,
    show_default=True,
    type=click.IntRange(1, 200),
    help="Cells under way at once; most only wait.",
)
def command(
    python: str,
    node: str | None,
    wanted: tuple[str, ...],
    tags: tuple[str, ...],
    listing: bool,
    as_json: Path | None,
    as_html: Path | None,
    as_markdown: Path | None,
    compare: Path | None,
    expect: Path | None,
    logs: Path | None,
    limit_s: float,
    watch_s: float | None,
    lanes: int,
) -> None:
    """Measure what your installed model clients do under each fault.

    Each client is called in its own interpreter with a made-up key, against a stand-in provider on loopback, once per
    fault, whole and streamed. The table says what was raised or what looked like success, requests on the wire, seconds,
    whether a fallback in `except SDK.APIError` would have engaged, and the worst case with the client's own time limits.

    \b
    Examples:
      drillmaster sdk-check --client openai --client anthropic
      drillmaster sdk-check --python .venv/bin/python --json sdk.json --html sdk.html
      drillmaster sdk-check --compare sdk.json
      drillmaster sdk-check --expect sdk-expectations.yaml
    """
    import asyncio

    from drillmaster.sdkcheck.checking import check, installed

    for option, path in (("--json", as_json), ("--html", as_html), ("--markdown", as_markdown)):
        if path is not None and path.is_dir():  # rather than after a minute of measuring
            raise Problem(f"{option} {path}", found="a folder", wanted="a file", remedy="name one in it")
        if path is not None and not path.parent.is_dir():
            raise Problem(
                f"{option} {path}", found="no such folder", wanted="a file in a folder", remedy="make it first"
            )
    watch_s = _watch_s(watch_s, limit_s)
    _not_the_baseline(as_json, compare)
    rules = None if expect is None else _expectations(expect)
    old = None if compare is None else _table(compare)
    version, clients = asyncio.run(installed(python, node))
    if listing:
        _list(clients, as_json)
        return
    logs = logs or Path("runs") / f"sdk-check-{datetime.now(UTC):%Y%m%dT%H%M%SZ}"
    try:
        table = _run(
            check(
                version,
                clients,
                wanted,
                tags,
                python=python,
                node=node,
                logs=logs,
                limit_s=limit_s,
                watch_s=watch_s,
                lanes=lanes,
                on=_bar if sys.stderr.isatty() else _no_bar,
            )
        )
    except (KeyboardInterrupt, asyncio.CancelledError):
        if (logs / "table.json").exists():
            click.echo(f"what was measured so far: {logs}/table.json", err=True)
        raise KeyboardInterrupt from None
    words = ["drillmaster", "sdk-check", *(word for name in wanted for word in ("--client", name))]
    words += [*(word for tag in tags for word in ("--fault", tag)), *(() if node is None else ("--node", "DIR"))]
    _write(table, as_json, as_html, as_markdown, " ".join(words))
    if old is not None:
        from drillmaster.sdkcheck.table import changes

        for line in changes(old, table, asked=bool(wanted or tags)) or ["nothing changed"]:
            click.echo(one_line(line), err=str(as_json) == "-")
    if rules is not None:
        _judge(rules, table, str(expect), out=str(as_json) != "-")


def _run(checking: "Coroutine[Any, Any, Table]") -> "Table":
    """Carry it out; a signal that ends a process ends it as Ctrl-C does, with what there is of the table written."""
    import asyncio
    import signal

    async def heard() -> "Table":
        loop, task = asyncio.get_running_loop(), asyncio.current_task()
        assert task is not None
        for number in (signal.SIGTERM, signal.SIGHUP):
            if signal.getsignal(number) is signal.SIG_IGN:  # as under nohup
                continue
            loop.add_signal_handler(number, task.cancel)
        return await checking

    return asyncio.run(heard())


def _watch_s(watch_s: float | None, limit_s: float) -> float:
    """How long to watch. Raises Refused for less than three attempts of `limit_s` take: each would be taken for endless."""
    if watch_s is None:
        return TRIES * limit_s + PAUSES_S
    least_s = TRIES * limit_s + LEAST_PAUSES_S
    if watch_s < least_s:
        raise Refused(
            f"--watch-s {watch_s:g}",
            found=f"less than {TRIES} attempts of {limit_s:g} s and the pauses between them take",
            wanted=f"{least_s:g} or more",
            remedy="watch for longer, or give the clients less: --limit-s",
        )
    return watch_s


def _list(clients: "Sequence[Client]", as_json: Path | None) -> None:
    if str(as_json) == "-":
        from drillmaster.cli import say_json

        say_json(clients)
        return
    for client in clients:
        click.echo(f"{client.name:20} {client.version}")


def _not_the_baseline(as_json: Path | None, compare: Path | None) -> None:
    """A comparison leaves what it compares with as it was: whether the new table takes its place is for who reads it."""
    if as_json is None or compare is None or not as_json.exists() or not compare.exists():
        return
    if as_json.samefile(compare):
        raise Refused(
            f"--json {as_json}",
            found="the table that --compare is to compare with",
            wanted="another file for the new one",
            remedy=f"write --json {as_json.with_suffix('.new' + as_json.suffix)}, and rename it once the changes are agreed",
        )


def _bar(done: int, every: int) -> None:
    filled = 30 * done // max(1, every)
    end = "\r\x1b[K" if done >= every else ""
    sys.stderr.write(f"\r[{'#' * filled}{'.' * (30 - filled)}] {done} of {every} cells{end}")
    sys.stderr.flush()


def _no_bar(done: int, every: int) -> None:
    """Progress is for terminals."""


def _table(path: Path) -> "Table":
    from drillmaster.intake import read_strict
    from drillmaster.sdkcheck import Table

    return read_strict(path, Table)


def _expectations(path: Path) -> "Expectations":
    """A policy that is pinned and not stale. Raises Problem."""
    from drillmaster.clock import SystemClock
    from drillmaster.intake import read_strict
    from drillmaster.policy import pin_problems
    from drillmaster.sdkcheck.table import Expectations

    rules = read_strict(path, Expectations)
    for field, found, wanted in pin_problems(rules.pin, now_ns=SystemClock().wall_ns()):
        raise Problem(f"{path}: {field}", found=found, wanted=wanted, remedy=f"correct {field}")
    for number, rule in enumerate(rules.expect):
        for field, value in (("max_attempts", rule.max_attempts), ("max_worst_s", rule.max_worst_s)):
            if value is not None and value < 0:
                raise Problem(
                    f"{path}: expect[{number}].{field}",
                    found=f"{value:g}",
                    wanted="0 or more",
                    remedy=f"correct {field}",
                )
        if (rule.outcome or None, rule.fallback, rule.max_attempts, rule.max_worst_s) == (None,) * 4:
            raise Refused(
                f"{path}: expect[{number}]",
                found="no limit",
                wanted="outcome, fallback, max_attempts or max_worst_s",
                remedy="say what must hold",
            )
    if not rules.expect:
        raise Refused(
            f"{path}: expect", found="no expectation", wanted="one at least", remedy="write one, or leave --expect out"
        )
    return rules


def _write(table: "Table", as_json: Path | None, as_html: Path | None, as_markdown: Path | None, made_by: str) -> None:
    import msgspec

    from drillmaster.sdkcheck.table import markdown, text

    if as_json is not None:
        body = msgspec.json.format(msgspec.json.encode(table)) + b"\n"
        if str(as_json) == "-":
            sys.stdout.buffer.write(body)
            sys.stdout.flush()
        else:
            _keep_old(as_json)
            _put(as_json, body.decode())
    if as_html is not None:
        from drillmaster.sdkcheck.page import render

        _put(as_html, render(table, str(as_html.parent)))
    if as_markdown is not None:
        _put(as_markdown, markdown(table, made_by))
    if as_json is None or str(as_json) != "-":
        click.echo(text(table), nl=False)
        click.echo(f"wire logs and client's words, by cell: {table.logs}/")


def _put(path: Path, content: str) -> None:
    """Write a file whole or not at all; what is there and no file of its own, a link or a pipe, is written into."""
    from drillmaster.intake.written import write_whole

    if path.is_symlink() or (path.exists() and not path.is_file()):
        path.write_text(content, encoding="utf-8")
    else:
        write_whole(path, content)


def _keep_old(path: Path) -> None:
    """Keep a table that stands where the new one is to go: it may be the only one of the versions before an upgrade."""
    if path.is_symlink() or not path.is_file():
        return
    try:
        _table(path)
    except Problem:  # not one of ours
        return
    old = path.with_name(f"{path.name}.old")
    path.replace(old)
    click.echo(
        f"{path} held a table already: kept as {old}; to see what changed: drillmaster sdk-check --compare {old}",
        err=True,
    )


def _judge(rules: "Expectations", table: "Table", place: str, out: bool) -> None:
    """Exit 1 when one is broken, 2 when one chose nothing or what was not measured: it would pass without having looked."""
    from drillmaster.sdkcheck.table import broken, unseen

    said, idle = broken(rules.expect, table.results)
    for line in said:
        click.echo(f"BROKEN: {one_line(line)}", err=not out)
    if said:
        sys.exit(Exit.FAIL)
    refused = None
    missing = unseen(rules.expect, table)
    if idle:
        refused = Refused(
            f"{place}: expect[{idle[0]}]",
            found="no measured cell that it chooses",
            wanted="one at least",
            remedy="see the table for the names of clients and faults, and correct it",
        )
    elif missing:
        number = missing[0][0]
        what = "; ".join(what for whose, what in missing if whose == number)
        refused = Refused(
            f"{place}: expect[{number}]",
            found=f"cells that it chooses and that were not measured: {what}",
            wanted="all of them",
            remedy="mend the client, or let the expectation name those that are there",
        )
    if refused is not None:
        if out:
            raise refused
        click.echo(f"drillmaster: {refused}", err=True)  # the one document on stdout is the table
        sys.exit(refused.exit)
    click.echo(f"PASS {len(rules.expect)} expectations hold", err=not out)
