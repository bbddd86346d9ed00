"""Carry the cells out: a stand-in provider, a proxy and a folder of events per cell, a process per client.

1. Everything listens on loopback. The clients' environment is a short list of what a program needs; no key, proxy or
   base-URL variable of the caller's is in it.
2. At most `lanes` cells are under way; most of a cell is waiting. Every cell ends: its client is killed at `watch_s`.
3. A busy machine must not be taken for a slow client: while the bench itself is late nothing new is begun, and a cell that
   waited, timed out or met nothing while it was late is measured once more, with few others beside it.
4. On every way out the clients' processes are killed and the proxies closed.
"""

import asyncio
import collections
import contextlib
import json
import os
import shutil
import site
import tempfile
import time
from collections.abc import Callable, Coroutine, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from drillmaster import faults
from drillmaster.clock import SystemClock
from drillmaster.errors import Problem
from drillmaster.proxy import Settings
from drillmaster.proxy.control import Inject
from drillmaster.proxy.server import Server
from drillmaster.sdkcheck import Cell, Client, Defaults, NotRun, Result
from drillmaster.sdkcheck.reading import Said, read, wire_of
from drillmaster.standins.provider import PRIMARY_MODEL, Latency
from drillmaster.standins.provider_http import Provider
from drillmaster.timeline import Writer

__all__ = ["PROBES", "Bench", "clean_environment", "find", "find_node"]

PROBES = Path(__file__).resolve().parent / "probes"
PROMPT = "When will my order arrive?"
KEY = "sk-standin-0000"
PLAIN = "none"
"""The label of the call without a fault."""
FIND_S = 30.0
IMPORT_S = 60.0
KILL_GRACE_S = 3.0
SILENCE_S = 30.0
"""How much later than it should a host may tell: a busy machine is no crash."""
BEAT_S = 0.1
LATE_S = 0.15
"""A bench that is later than this begins nothing new, for at most `HOLD_BACK_S`."""
HOLD_BACK_S = 6.0
SPOILT_S = 0.4
"""A cell during which the bench was later than this is measured again where its outcome may be the machine's."""
AGAIN_LANES = 3
_KEPT = ("PATH", "LANG", "LC_ALL", "TZ", "PYTHONPATH", "LD_LIBRARY_PATH", "SSL_CERT_FILE")

Progress = Callable[[int, int], None]


def clean_environment(home: Path) -> dict[str, str]:
    """What a client's process is given: no key, no proxy, no base URL, no `.netrc` of the caller's."""
    kept = {name: os.environ[name] for name in _KEPT if name in os.environ}
    return {
        **kept,
        "HOME": str(home),
        "PYTHONUSERBASE": site.getuserbase(),  # where `pip install --user` put things, now that HOME is another
        "NO_PROXY": "*",
        "no_proxy": "*",
        "NETRC": os.devnull,
        "LITELLM_LOCAL_MODEL_COST_MAP": "True",  # else it is downloaded at import
        "LITELLM_LOG": "ERROR",
        "LANGSMITH_TRACING": "false",
        "DO_NOT_TRACK": "1",
    }


async def find(python: str, names: Iterable[str]) -> tuple[str, dict[str, str]]:
    """The version of an interpreter, and of those packages that it has. Raises Problem."""
    with tempfile.TemporaryDirectory() as home:
        out = await _ask([python, str(PROBES / "_host.py"), "find", *names], Path(home), f"--python {python}")
    try:
        told = json.loads(out)
        return str(told["python"]), {str(name): str(version) for name, version in told["found"].items()}
    except (ValueError, KeyError, TypeError):
        raise Problem(
            f"--python {python}",
            found="no word from it",
            wanted="a Python interpreter, 3.9 or later",
            remedy="name the python of the environment that your agent runs in",
        ) from None


async def find_node(folder: str, names: Iterable[str]) -> tuple[str, dict[str, str]]:
    """The version of Node, and of those packages that the folder has in its node_modules. Raises Problem."""
    if shutil.which("node") is None:
        raise Problem(f"--node {folder}", found="no node", wanted="Node.js", remedy="install it, or leave --node out")
    with tempfile.TemporaryDirectory() as home:
        out = await _ask(["node", str(PROBES / "host.mjs"), "find", folder, *names], Path(home), f"--node {folder}")
    told = json.loads(out)
    return str(told["node"]), {str(name): str(version) for name, version in told["found"].items()}


async def _ask(argv: list[str], home: Path, place: str) -> bytes:
    try:
        process = await asyncio.create_subprocess_exec(
            *argv,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
            env=clean_environment(home),
        )
    except OSError as error:
        raise Problem(
            place, found=error.strerror or str(error), wanted="a program that runs", remedy="name another"
        ) from None
    try:
        async with asyncio.timeout(FIND_S):
            return (await process.communicate())[0]
    except TimeoutError:
        raise Problem(
            place, found=f"no answer within {FIND_S:g} s", wanted="a program that answers", remedy="name another"
        ) from None
    finally:
        _kill(process)


def _kill(process: asyncio.subprocess.Process) -> None:
    if process.returncode is None:
        with contextlib.suppress(ProcessLookupError):
            process.kill()


class _Host:
    """The process of one Python client: jobs in, what came of them out."""

    def __init__(self, client: Client, process: asyncio.subprocess.Process) -> None:
        self.client = client
        self.process = process
        self._waiting: dict[str, asyncio.Future[dict[str, Any]]] = {}
        self._reader: asyncio.Task[None] | None = None

    @classmethod
    async def start(cls, client: Client, python: str, home: Path) -> tuple["_Host", Defaults]:
        """Raises Problem where the client cannot be imported."""
        process = await asyncio.create_subprocess_exec(
            python,
            str(PROBES / "_host.py"),
            "serve",
            str(PROBES / client.probe),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env=clean_environment(home),
        )
        assert process.stdout is not None and process.stderr is not None
        host = cls(client, process)
        try:
            async with asyncio.timeout(IMPORT_S):
                line = await process.stdout.readline()
                if not line:
                    said = (await process.stderr.read(65_536)).decode("utf-8", "replace").strip().splitlines()
                    raise _unusable(client, said[-1] if said else "its process ended")
        except TimeoutError:
            _kill(process)
            raise _unusable(client, f"no import within {IMPORT_S:g} s") from None
        host._reader = asyncio.create_task(host._read())
        return host, msgspec.convert(json.loads(line)["defaults"], Defaults)

    async def _read(self) -> None:
        assert self.process.stdout is not None and self.process.stderr is not None
        drain = asyncio.create_task(self.process.stderr.read())
        try:
            while line := await self.process.stdout.readline():
                row = json.loads(line)
                waiting = self._waiting.pop(row["id"], None)
                if waiting is not None and not waiting.done():
                    waiting.set_result(row)
        finally:
            drain.cancel()
            for waiting in self._waiting.values():
                if not waiting.done():
                    waiting.set_result({"how": "crashed", "message": "the client's host process ended"})

    async def call(self, job: dict[str, Any]) -> dict[str, Any]:
        """What came of one job; `crashed` where its host does not tell in time."""
        assert self.process.stdin is not None
        future: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
        self._waiting[job["id"]] = future
        try:
            self.process.stdin.write(json.dumps(job).encode() + b"\n")
            async with asyncio.timeout(job["kill_s"] + SILENCE_S):
                return await future
        except (OSError, TimeoutError):
            return {"how": "crashed", "message": "the client's host process is silent"}
        finally:
            self._waiting.pop(job["id"], None)

    async def close(self) -> None:
        if self.process.stdin is not None:
            self.process.stdin.close()  # its children are killed by it, then it ends
        try:
            async with asyncio.timeout(KILL_GRACE_S):
                await self.process.wait()
        except TimeoutError:
            _kill(self.process)
            await self.process.wait()
        if self._reader is not None:
            self._reader.cancel()


class _NodeHost:
    """The same for a client of Node's: a process per job."""

    def __init__(self, client: Client, folder: str, home: Path) -> None:
        self.client = client
        self._argv = ("node", str(PROBES / "host.mjs"))
        self._folder = folder
        self._home = home

    @classmethod
    async def start(cls, client: Client, folder: str, home: Path) -> tuple["_NodeHost", Defaults]:
        host = cls(client, folder, home)
        told = await host._run("defaults", {}, IMPORT_S)
        if "retries" not in told:
            raise _unusable(client, str(told.get("message", "no word from it")))
        return host, msgspec.convert(told, Defaults)

    async def _run(self, verb: str, job: dict[str, Any], within_s: float) -> dict[str, Any]:
        process = await asyncio.create_subprocess_exec(
            *self._argv,
            verb,
            self._folder,
            str(PROBES / self.client.probe),
            json.dumps(job),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env=clean_environment(self._home),
        )
        try:
            async with asyncio.timeout(within_s):
                out, err = await process.communicate()
            return dict(json.loads(out))
        except TimeoutError:
            return {"how": "waiting", "seconds": within_s}
        except ValueError:
            said = err.decode("utf-8", "replace").strip().splitlines()
            return {"how": "crashed", "message": said[-1] if said else "its process ended without a word"}
        finally:
            _kill(process)
            await process.wait()

    async def call(self, job: dict[str, Any]) -> dict[str, Any]:
        return await self._run("call", job, job["kill_s"])

    async def close(self) -> None:
        """Nothing outlives a job."""


def _unusable(client: Client, why: str) -> Problem:
    return Problem(
        client.name, found=why, wanted="a client that can be imported", remedy="see whether it imports by hand"
    )


class Bench:
    """One check under way."""

    def __init__(
        self, folder: Path, python: str, node: str | None, *, limit_s: float, watch_s: float, lanes: int, on: Progress
    ) -> None:
        """`folder` takes a folder of wire events per cell; `limit_s` is what clients are told as their time limit."""
        self.folder = folder
        self.limit_s = limit_s
        self.watch_s = watch_s
        self.defaults: dict[str, Defaults] = {}
        self.results: list[Result] = []
        self.not_run: list[NotRun] = []
        self.lag_s = 0.0
        """How late the proxies' own loop was at worst, during what counts."""
        self._lags: collections.deque[tuple[float, float]] = collections.deque(maxlen=6_000)
        self._late_s = 0.0
        self._python = python
        self._node = node
        self._lanes = asyncio.Semaphore(lanes)
        self._mono0_ns = time.monotonic_ns()
        self._on = on
        self._again: list[Callable[[], Coroutine[Any, Any, None]]] = []
        self._upstream = ""
        self._done = 0
        self._all = 0

    async def run(self, clients: Sequence[Client], cells: Sequence[Cell]) -> None:
        """Carry out all cells; `results`, `not_run` and `defaults` hold what came of them."""
        provider = Provider(Latency(median_ms=0, token_ms=5, seed=1))
        listening = await provider.start("127.0.0.1", 0)
        self._upstream = f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}"
        self._all = len(cells)
        hosts: list[_Host | _NodeHost] = []
        beat = asyncio.create_task(self._beat())
        with tempfile.TemporaryDirectory(prefix="drillmaster-") as home:
            try:
                async with asyncio.TaskGroup() as group:
                    for client in clients:
                        mine = [cell for cell in cells if cell.client == client.name]
                        group.create_task(self._client(client, mine, Path(home), hosts))
                self._lanes = asyncio.Semaphore(AGAIN_LANES)
                async with asyncio.TaskGroup() as group:
                    for last in self._again:
                        group.create_task(last())
            finally:
                beat.cancel()
                for host in hosts:
                    await host.close()
                listening.close()
                await provider.drop()

    async def _beat(self) -> None:
        while True:
            began = time.monotonic()
            await asyncio.sleep(BEAT_S)
            now = time.monotonic()
            self._late_s = now - began - BEAT_S
            self._lags.append((now, self._late_s))

    def _lag_since(self, began: float) -> float:
        return max((late for at, late in self._lags if at >= began), default=0.0)

    async def _quiet(self) -> None:
        """Wait while the bench is late, for a while."""
        for _ in range(round(HOLD_BACK_S / BEAT_S)):
            if self._late_s <= LATE_S:
                return
            await asyncio.sleep(BEAT_S)

    async def _client(self, client: Client, cells: list[Cell], home: Path, hosts: list[_Host | _NodeHost]) -> None:
        host: _Host | _NodeHost
        try:
            async with self._lanes:
                if client.probe.endswith(".mjs"):
                    host, defaults = await _NodeHost.start(client, self._node or "", home)
                else:
                    host, defaults = await _Host.start(client, self._python, home)
        except Problem as problem:
            self._leave_out(client, cells, problem.found)
            return
        hosts.append(host)
        self.defaults[client.name] = defaults
        plain: dict[bool, Said] = {}
        for stream in client.modes:
            cell = Cell(client=client.name, fault="", label=PLAIN, params={}, stream=stream)
            _, said = await self._try(host, cell, cell.id, warm=True)
            if said.how != "returned" or not said.text:
                why = said.message or said.class_ or "it returned no text"
                self._leave_out(client, cells, f"its call without a fault failed: {said.how}, {why}")
                return
            plain[stream] = said
        again: list[Cell] = []
        async with asyncio.TaskGroup() as group:
            for cell in cells:
                group.create_task(self._cell(host, cell, plain[cell.stream], defaults, again))
        self._again += [partial(self._cell, host, cell, plain[cell.stream], defaults, None) for cell in again]

    def _leave_out(self, client: Client, cells: list[Cell], why: str) -> None:
        self.not_run.append(NotRun(client=client.name, label="all", why=why[:200]))
        self._done += len(cells)
        self._on(self._done, self._all)

    async def _cell(
        self, host: _Host | _NodeHost, cell: Cell, plain: Said, defaults: Defaults, again: list[Cell] | None
    ) -> None:
        """Measure one cell; `again` None: for the last time."""
        log = cell.id if again is not None else f"{cell.id}-again"
        began, said = await self._try(host, cell, log)
        lag_s = self._lag_since(began)
        if said.left_loopback:
            why = f"it wanted to connect to {said.left_loopback[0]}, which was refused: not a measure of this fault"
            self.not_run.append(NotRun(client=cell.client, label=cell.label, why=why))
        else:
            wire = wire_of(_rows(self.folder / log / "proxy.jsonl"), faults.load(cell.fault).scope)
            result = read(cell, said, wire, plain, defaults, limit_s=self.limit_s, log=log)
            doubtful = result.outcome in ("waiting", "not-met", "crashed") or "timeout" in result.what.lower()
            if again is not None and doubtful and lag_s > SPOILT_S:
                again.append(cell)
                return
            if doubtful:
                self.lag_s = max(self.lag_s, round(lag_s, 3))
            self.results.append(result)
        self._done += 1
        self._on(self._done, self._all)

    async def _try(self, host: _Host | _NodeHost, cell: Cell, log: str, *, warm: bool = False) -> tuple[float, Said]:
        """One call through a proxy of its own, with the cell's fault on; when it began, and what the client said."""
        async with self._lanes:
            await self._quiet()
            began = time.monotonic()
            folder = self.folder / log
            folder.mkdir(parents=True)
            with Writer(folder / "proxy.jsonl", SystemClock(), self._mono0_ns) as writer:
                settings = Settings(port=0, upstream=self._upstream, mono0_ns=self._mono0_ns)
                server = Server(settings, asyncio.get_running_loop(), writer)
                try:
                    await server.start()
                    if cell.fault:
                        ttl_s = self.watch_s + SILENCE_S
                        server.inject(Inject(window="w1", fault=cell.fault, params=cell.params, ttl_s=ttl_s))
                    row = await host.call(
                        {
                            "id": cell.id,
                            "url": f"http://127.0.0.1:{server.address[1]}",
                            "key": KEY,
                            "model": PRIMARY_MODEL,
                            "prompt": PROMPT,
                            "stream": cell.stream,
                            "calls": cell.calls,
                            "limit_s": self.limit_s,
                            "kill_s": IMPORT_S if warm else self.watch_s,
                            "warm": warm,
                        }
                    )
                finally:
                    server.stop("ordered")
                    await server.wait()
            (folder / "client.json").write_bytes(msgspec.json.format(msgspec.json.encode(row)) + b"\n")
        return began, msgspec.convert(row, Said)


def _rows(path: Path) -> list[dict[str, Any]]:
    return [msgspec.json.decode(line) for line in path.read_bytes().splitlines() if line]
