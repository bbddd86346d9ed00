"""One check from finding the clients to the table."""

import asyncio
import errno
import os
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from importlib.metadata import version as version_of
from pathlib import Path

import msgspec

from drillmaster.errors import Problem, Refused
from drillmaster.sdkcheck import Client, NotRun, Runtime, Table, cells
from drillmaster.sdkcheck.bench import Bench, Progress
from drillmaster.sdkcheck.hosts import find, interpreter

__all__ = ["check", "installed"]


async def installed(python: str, node: str | None) -> tuple[str, list[Client]]:
    """The interpreter's version, and the clients that it and Node have, with theirs. Raises Problem, Refused for none."""
    version, clients = await _found("python", interpreter(python))
    if node is not None:
        clients += (await _found("node", node))[1]
    if not clients:
        raise Refused(
            f"--python {python}",
            found="none of the clients that can be checked",
            wanted="one of "
            + ", ".join(dict.fromkeys(client.dist for client in cells.CLIENTS if client.runtime == "python")),
            remedy="name the python of the environment that your agent runs in: --python .venv/bin/python",
        )
    return version, clients


async def _found(runtime: Runtime, where: str) -> tuple[str, list[Client]]:
    known = [client for client in cells.CLIENTS if client.runtime == runtime]
    version, versions = await find(runtime, where, sorted({client.dist for client in known}))
    versions["node"] = version  # a client that is part of Node
    return version, [
        msgspec.structs.replace(client, version=versions[client.dist]) for client in known if client.dist in versions
    ]


async def check(
    python_version: str,
    clients: Sequence[Client],
    wanted: Sequence[str],
    tags: Sequence[str],
    *,
    python: str,
    node: str | None,
    logs: Path,
    limit_s: float,
    watch_s: float,
    lanes: int,
    on: Progress,
) -> Table:
    """Measure; the table is also written to its folder of logs, as `table.json`, and what there is of it when it is stopped.

    Raises Problem, Refused.
    """
    chosen = cells.choose(clients, wanted)
    todo, left_out = cells.plan(chosen, tags)
    now = datetime.now(UTC)
    _make(logs)
    bench = Bench(logs, interpreter(python), node, limit_s=limit_s, watch_s=watch_s, lanes=lanes, on=on)
    began = time.monotonic()

    def table() -> Table:
        order = {(cell.client, cell.label, cell.stream): number for number, cell in enumerate(todo)}
        made = Table(
            made_at=now.isoformat(timespec="seconds"),
            drillmaster=version_of("drillmaster"),
            python=python_version,
            limit_s=limit_s,
            watch_s=watch_s,
            took_s=round(time.monotonic() - began, 1),
            late_s=bench.late_s,
            clients=chosen,
            defaults=bench.defaults,
            results=tuple(sorted(bench.results, key=lambda result: order[result.client, result.label, result.stream])),
            not_run=(*left_out, *bench.not_run),
            logs=str(logs),
        )
        (logs / "table.json").write_bytes(msgspec.json.format(msgspec.json.encode(made)) + b"\n")
        return made

    try:
        await bench.run(chosen, todo)
    except asyncio.CancelledError:
        why = "the check was stopped before"
        done = {(result.client, result.label, result.stream) for result in bench.results}
        missing = {
            (cell.client, cell.label): None for cell in todo if (cell.client, cell.label, cell.stream) not in done
        }
        bench.not_run += [NotRun(client=client, label=label, why=why) for client, label in missing]
        table()
        raise
    except BaseExceptionGroup as several:
        raise _first(several, logs) from None
    except OSError as error:
        raise _unwritten(logs, error) from None
    if not bench.results:
        whys = dict.fromkeys(f"{entry.client}: {entry.why}" for entry in (*bench.not_run, *left_out))
        raise Refused(
            "sdk-check",
            found=f"nothing measured: {'; '.join(whys) or 'no cell'}",
            wanted="one cell at least",
            remedy="see --list",
        )
    return table()


def _make(logs: Path) -> None:
    if logs.exists() and any(logs.iterdir()):
        raise Refused(
            f"--logs {logs}", found="a folder that holds something", wanted="a new one", remedy="name another folder"
        )
    logs.mkdir(parents=True, exist_ok=True)


def _first(several: BaseExceptionGroup[BaseException], logs: Path) -> BaseException:
    one = several.exceptions[0]
    if isinstance(one, BaseExceptionGroup):
        return _first(one, logs)
    return _unwritten(logs, one) if isinstance(one, OSError) else one


def _unwritten(logs: Path, error: OSError) -> BaseException:
    """What the wire's events could not be kept for, as a problem of the folder that they go to; else the error itself."""
    if error.errno not in (errno.ENOSPC, errno.EDQUOT, errno.EROFS):
        return error
    return Problem(
        f"--logs {logs}",
        found=(os.strerror(error.errno)).lower(),
        wanted="room for the wire's events, some 10 MB for all clients",
        remedy="make room, or name another folder: --logs DIR",
    )
