"""One check from finding the clients to the table."""

import time
from collections.abc import Sequence
from datetime import UTC, datetime
from importlib.metadata import version as version_of
from pathlib import Path

import msgspec

from drillmaster.errors import Problem, Refused
from drillmaster.sdkcheck import Client, Table, cells
from drillmaster.sdkcheck.bench import Bench, Progress, find, find_node

__all__ = ["check", "installed"]


async def installed(python: str, node: str | None) -> tuple[str, list[Client]]:
    """The interpreter's version, and the clients that it and Node have, with theirs. Raises Problem."""
    version, found = await find(python, sorted({client.dist for client in cells.CLIENTS}))
    clients = [_of(client, found) for client in cells.CLIENTS if client.dist in found]
    if node is not None:
        node_version, there = await find_node(node, [c.dist for c in cells.NODE_CLIENTS if c.dist != "node"])
        there["node"] = node_version
        clients += [_of(client, there) for client in cells.NODE_CLIENTS if client.dist in there]
    return version, clients


def _of(client: Client, found: dict[str, str]) -> Client:
    return msgspec.structs.replace(client, version=found[client.dist])


async def check(
    python_version: str,
    clients: Sequence[Client],
    wanted: Sequence[str],
    tags: Sequence[str],
    *,
    python: str,
    node: str | None,
    logs: Path | None,
    limit_s: float,
    watch_s: float,
    lanes: int,
    on: Progress,
) -> Table:
    """Measure; the table is also written to its folder of logs, as `table.json`. Raises Problem, Refused."""
    if not clients:
        raise Refused(
            f"--python {python}",
            found="none of the clients that can be checked",
            wanted="one of " + ", ".join(dict.fromkeys(client.dist for client in cells.CLIENTS)),
            remedy="name the python of the environment that your agent runs in: --python .venv/bin/python",
        )
    chosen = cells.choose(clients, wanted)
    todo, left_out = cells.plan(chosen, tags)
    now = datetime.now(UTC)
    folder = Path("runs") / f"sdk-check-{now:%Y%m%dT%H%M%SZ}" if logs is None else logs
    if folder.exists() and any(folder.iterdir()):
        raise Refused(
            f"--logs {folder}", found="a folder that holds something", wanted="a new one", remedy="name another folder"
        )
    folder.mkdir(parents=True, exist_ok=True)
    bench = Bench(folder, python, node, limit_s=limit_s, watch_s=watch_s, lanes=lanes, on=on)
    began = time.monotonic()
    try:
        await bench.run(chosen, todo)
    except* Problem as several:
        raise _first(several) from None
    if not bench.results:
        why = bench.not_run[0].why if bench.not_run else "no cell"
        raise Refused("sdk-check", found=f"nothing measured: {why}", wanted="one cell at least", remedy="see --list")
    order = {(cell.client, cell.label, cell.stream): number for number, cell in enumerate(todo)}
    table = Table(
        made_at=now.isoformat(timespec="seconds"),
        drillmaster=version_of("drillmaster"),
        python=python_version,
        limit_s=limit_s,
        watch_s=watch_s,
        took_s=round(time.monotonic() - began, 1),
        lag_s=bench.lag_s,
        clients=chosen,
        defaults=bench.defaults,
        results=tuple(sorted(bench.results, key=lambda result: order[result.client, result.label, result.stream])),
        not_run=(*left_out, *bench.not_run),
        logs=str(folder),
    )
    (folder / "table.json").write_bytes(msgspec.json.format(msgspec.json.encode(table)) + b"\n")
    return table


def _first(several: BaseExceptionGroup[Problem]) -> Problem:
    one = several.exceptions[0]
    return _first(one) if isinstance(one, BaseExceptionGroup) else one
