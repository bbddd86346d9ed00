"""Carry the cells out: a stand-in provider, and for each cell a proxy and a folder of events.

1. Everything listens on loopback. The clients' environment is a short list of what a program needs; no key, proxy or
   base-URL variable of the caller's is in it (`hosts`).
2. At most `lanes` cells are under way; most of a cell is waiting. Every cell ends: its call is killed at `watch_s`.
3. A busy machine must not be taken for a slow client. While the bench itself is late nothing new is begun; and a call
   that took as long as its time limit, while the bench was late or its process was not let run, is made again, with fewer
   beside it. One that took less met no limit, however late everybody was.
4. A proxy that fails is no fault of its cell's: the whole check ends with that failure.
5. On every way out the clients' processes are killed and the proxies closed.
"""

import asyncio
import collections
import itertools
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec

from drillmaster import faults
from drillmaster.clock import SystemClock
from drillmaster.proxy import Settings
from drillmaster.proxy.control import Inject
from drillmaster.proxy.server import Server
from drillmaster.sdkcheck import ALL, BUSY_RATIO, Cell, Client, Defaults, NotRun, Result
from drillmaster.sdkcheck.hosts import IMPORT_S, Host, command
from drillmaster.sdkcheck.reading import Said, Wire, read, wire_of
from drillmaster.standins.provider import PRIMARY_MODEL, Latency
from drillmaster.standins.provider_http import Provider
from drillmaster.timeline import Writer

__all__ = ["Bench"]

PROMPT = "When will my order arrive?"
KEY = "sk-standin-0000"
PLAIN = "none"
"""The label of the call without a fault."""
PLAIN_LIMIT_S = 30.0
"""The clients' time limit for it: nothing is measured, and the first call of a client imports half of it."""
MARGIN_S = 30.0
"""How much longer than it is watched a cell's fault may last."""
PROOF_S = 3.0
PROOF_EVERY_S = 0.02
BEAT_S = 0.1
LATE_S = 0.15
"""A bench that is later than this begins nothing new, for at most `HOLD_BACK_S`."""
HOLD_BACK_S = 6.0
APART_S = 0.02
"""Between the beginnings of two cells: each costs a fork and some imports, and then mostly waits."""
AGAIN_LANES = (20, 10)
"""How many are under way when cells are measured again, and again."""

Progress = Callable[[int, int], None]


class _Subject(msgspec.Struct, frozen=True, kw_only=True):
    """A client that is ready to be measured."""

    client: Client
    host: Host
    defaults: Defaults
    plain: dict[bool, Said]
    """What it said without a fault, streamed and not."""


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
        self.late_s = 0.0
        """How late the bench or a client's process was at worst, during what counts."""
        self._lags: collections.deque[tuple[float, float]] = collections.deque(maxlen=6_000)
        self._lag_s = 0.0
        self._where = {"python": python, "node": node or ""}
        self._lanes = asyncio.Semaphore(lanes)
        self._turn = asyncio.Lock()
        self._mono0_ns = time.monotonic_ns()
        self._on = on
        self._hosts: list[Host] = []
        self._spoilt: list[tuple[_Subject, Cell]] = []
        self._failure: BaseException | None = None
        self._upstream = ""
        self._done = 0
        self._all = 0

    async def run(self, clients: Sequence[Client], cells: Sequence[Cell]) -> None:
        """Carry out all cells; `results`, `not_run` and `defaults` hold what came of them."""
        provider = Provider(Latency(median_ms=0, token_ms=0, seed=1))  # nothing is late but what a fault makes so
        listening = await provider.start("127.0.0.1", 0)
        self._upstream = f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}"
        self._all = len(cells)
        packages = itertools.groupby(clients, key=lambda client: (client.runtime, client.dist))
        beat = asyncio.create_task(self._beat())
        asyncio.get_running_loop().set_exception_handler(self._fail)
        with tempfile.TemporaryDirectory(prefix="drillmaster-") as home:
            try:
                async with asyncio.TaskGroup() as group:
                    for _, package in packages:
                        group.create_task(self._package(tuple(package), cells, Path(home)))
                for again, lanes in enumerate(AGAIN_LANES, 1):
                    self._lanes = asyncio.Semaphore(lanes)
                    spoilt, self._spoilt = self._spoilt, []
                    async with asyncio.TaskGroup() as group:
                        for subject, cell in spoilt:
                            group.create_task(self._cell(subject, cell, again))
                if self._failure is not None:
                    raise self._failure
            finally:
                beat.cancel()
                await asyncio.gather(*(host.close() for host in self._hosts))
                listening.close()
                await provider.drop()

    def _fail(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """Take what the loop would only have logged; rule 4."""
        self._failure = self._failure or context.get("exception") or RuntimeError(str(context["message"]))

    async def _beat(self) -> None:
        while True:
            began = time.monotonic()
            await asyncio.sleep(BEAT_S)
            now = time.monotonic()
            self._lag_s = now - began - BEAT_S
            self._lags.append((now, self._lag_s))

    async def _quiet(self) -> None:
        """Wait for one's turn, and while the bench is late, for a while."""
        async with self._turn:
            await asyncio.sleep(APART_S)
            for _ in range(round(HOLD_BACK_S / BEAT_S)):
                if self._lag_s <= LATE_S:
                    return
                await asyncio.sleep(BEAT_S)

    async def _package(self, clients: Sequence[Client], cells: Sequence[Cell], home: Path) -> None:
        """Measure the clients of one package, which share a host."""
        runtime = clients[0].runtime
        async with self._lanes:
            host = await Host.start(command(runtime, self._where[runtime], "serve"), clients, home)
        self._hosts.append(host)
        # All of them are warm before the first cell: a host in Python does nothing else meanwhile.
        subjects = [subject for client in clients if (subject := await self._subject(host, client, cells)) is not None]
        async with asyncio.TaskGroup() as group:
            for subject in subjects:
                for cell in cells:
                    if cell.client == subject.client.name:
                        group.create_task(self._cell(subject, cell))

    async def _subject(self, host: Host, client: Client, cells: Sequence[Cell]) -> _Subject | None:
        """Call a client without a fault; None where it cannot be measured."""
        why = host.unusable.get(client.name)
        plain: dict[bool, Said] = {}
        for stream in client.modes:
            if why is not None:
                break
            said, _ = await self._try(host, Cell(client=client.name, fault="", label=PLAIN, params={}, stream=stream))
            plain[stream] = said
            if said.how != "returned" or not said.text:
                why = f"its call without a fault failed: {said.message or said.class_ or 'it returned no text'}"
        if why is not None:
            self.not_run.append(NotRun(client=client.name, label=ALL, why=why[:200], failed=True))
            self._count(sum(cell.client == client.name for cell in cells))
            return None
        defaults = self.defaults[client.name] = host.ready[client.name]
        return _Subject(client=client, host=host, defaults=defaults, plain=plain)

    def _count(self, cells: int) -> None:
        self._done += cells
        self._on(self._done, self._all)

    async def _cell(self, subject: _Subject, cell: Cell, again: int = 0) -> None:
        """Measure one cell; `again` is how often it was measured before, each time on a busy machine."""
        log = f"{cell.id}-again-{again}" if again else cell.id
        async with self._lanes:
            await self._quiet()
            began, starved_s = time.monotonic(), _starved_s()
            said, wire = await self._try(subject.host, cell, log)
            if self._failure is not None:
                raise self._failure
            # Many small delays make a limit of the whole call run out as well as a large one does.
            share = min(1.0, self.limit_s / (time.monotonic() - began))
            lags = (late_s for at, late_s in self._lags if at >= began)
            late_s = said.starved_s + max(share * (_starved_s() - starved_s), *lags, 0.0)
        limited = said.seconds >= self.limit_s or said.how == "crashed"
        if limited and late_s > BUSY_RATIO * self.limit_s and again < len(AGAIN_LANES):
            self._spoilt.append((subject, cell))
            return
        if said.left_loopback:
            why = f"it wanted to connect to {said.left_loopback[0]}, which was refused: not a measure of this fault"
            self.not_run.append(NotRun(client=cell.client, label=cell.label, why=why, failed=True))
        else:
            plain, defaults = subject.plain[cell.stream], subject.defaults
            self.results.append(read(cell, said, wire, plain, defaults, limit_s=self.limit_s, log=log))
            if limited:
                self.late_s = max(self.late_s, round(late_s, 3))
        self._count(1)

    async def _try(self, host: Host, cell: Cell, log: str | None = None) -> tuple[Said, Wire]:
        """One call through a proxy of its own, with the cell's fault on. Without one it warms its host up."""
        warm = not cell.fault
        scope = "exchange" if warm else faults.load(cell.fault).scope
        folder = self.folder / (log or cell.id)
        folder.mkdir(parents=True)
        events = folder / "proxy.jsonl"
        with Writer(events, SystemClock(), self._mono0_ns) as writer:
            settings = Settings(port=0, upstream=self._upstream, mono0_ns=self._mono0_ns)
            server = Server(settings, asyncio.get_running_loop(), writer)
            try:
                await server.start()
                if not warm:
                    ttl_s = self.watch_s + MARGIN_S
                    server.inject(Inject(window="w1", fault=cell.fault, params=cell.params, ttl_s=ttl_s))
                    if scope == "port":
                        await _proven(server)
                row = await host.call(
                    {
                        "id": cell.id,
                        "client": cell.client,
                        "url": f"http://127.0.0.1:{server.address[1]}",
                        "key": KEY,
                        "model": PRIMARY_MODEL,
                        "prompt": PROMPT,
                        "stream": cell.stream,
                        "calls": cell.calls,
                        "limit_s": PLAIN_LIMIT_S if warm else self.limit_s,
                        "kill_s": IMPORT_S if warm else self.watch_s,
                        "warm": warm,
                    }
                )
            finally:
                server.stop("ordered")
                await _ended(server)
        (folder / "client.json").write_bytes(msgspec.json.format(msgspec.json.encode(row)) + b"\n")
        lines = [msgspec.json.decode(line) for line in events.read_bytes().splitlines() if line]
        return msgspec.convert(row, Said), wire_of(lines, scope)


def _starved_s() -> float:
    """How long this process was ready to run and was not let, so far; 0 where the kernel does not say."""
    try:
        return int(Path("/proc/self/schedstat").read_text().split()[1]) / 1e9
    except (OSError, ValueError, IndexError):
        return 0.0


async def _ended(server: Server) -> None:
    """Wait until a proxy has closed its sockets, also when the check is being stopped."""
    end = asyncio.ensure_future(server.wait())
    try:
        await asyncio.shield(end)
    except asyncio.CancelledError:
        await end
        raise


async def _proven(server: Server) -> None:
    """Wait until the proxy's own probe has met its fault, which takes longer than a fast client; for a while."""
    for _ in range(round(PROOF_S / PROOF_EVERY_S)):
        if server.state()["met"]:
            return
        await asyncio.sleep(PROOF_EVERY_S)
