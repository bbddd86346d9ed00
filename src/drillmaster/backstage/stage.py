"""The process behind a test run: a stand-in provider, the proxy in front of it, and orders on standard input.

1. An order is a line of JSON on standard input, its answer a line on standard output: whoever asks needs no loop, no
   socket and no thread. `id` of an order comes back with its answer, so that one that was not waited for is told apart.
2. Each test has a proxy of its own on the one address: counters, windows, keys and evidence begin anew. Between two tests
   connections are closed and what is under way is cut, so that nothing of a test reaches into the next one.
3. It ends when standard input does, or when the process that started it is no more; a Ctrl-C at the terminal is not its.
"""

import asyncio
import gc
import os
import signal
import socket
import time
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec

from drillmaster.backstage.child import MAX_ORDER_BYTES
from drillmaster.clock import SystemClock
from drillmaster.dialects import Dialect, load, names
from drillmaster.errors import Problem
from drillmaster.http1 import RequestHead
from drillmaster.proxy import Settings
from drillmaster.proxy.control import Inject
from drillmaster.proxy.exchange import Exchange
from drillmaster.proxy.loop import make_loop
from drillmaster.proxy.server import Server
from drillmaster.proxy.switch import Conflict
from drillmaster.standins.provider import Latency
from drillmaster.standins.provider_http import Provider
from drillmaster.standins.provider_script import Line, Script

__all__ = ["Plot", "play"]

MAX_ROWS = 200_000
"""Of evidence in one test; what is beyond is counted."""
SETTLE_S = 0.001
SETTLES = 50
"""How many times, and how long each, what is all but over may take to be over before the rows are told."""
PARENT_CHECK_S = 0.5
PAUSE_S = 0.005


class Plot(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What the process is started with."""

    parent: int
    upstream: str | None = None
    """A real endpoint; None: the stand-in provider."""
    dialect: str = "auto"


class Rows:
    """The evidence of one test, in memory."""

    def __init__(self, mono0_ns: int) -> None:
        self.kept: list[bytes] = []
        self.lost = 0
        self._mono0_ns = mono0_ns

    def write(self, event: str, /, **fields: Any) -> None:
        self.write_encoded(event, msgspec.json.encode(fields))

    def write_encoded(self, event: str, fields: bytes, ns: int | None = None) -> None:
        if len(self.kept) >= MAX_ROWS:
            self.lost += 1
            return
        ns = time.monotonic_ns() - self._mono0_ns if ns is None else ns
        more = b"," + fields[1:] if len(fields) > 2 else b"}"
        self.kept.append(b'{"event":%b,"ns":%d%b' % (msgspec.json.encode(event), ns, more))


class Stage:
    """Provider and proxy."""

    def __init__(self, plot: Plot) -> None:
        self._plot = plot
        self._script = Script()
        own = None if plot.dialect == "auto" else plot.dialect
        self._provider = Provider(Latency(median_ms=0, token_ms=0, seed=1), own, self._script)
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=1_024)
        self._upstream = plot.upstream
        self._prefixed = [_prefixed(name) for name in names() if name != "plain"]
        self._ending: set[asyncio.Task[int]] = set()
        self.used_up = False
        """Whether the test is over that the proxy was made for."""
        self.broken = ""
        """What went wrong in here, first of all; then no evidence of this process can be trusted any more."""
        self.orders: dict[str, Callable[[dict[str, Any]], Awaitable[dict[str, Any]]]] = {
            "begin": self.begin,
            "inject": self.inject,
            "lift": self.lift,
            "answers": self.answers,
            "rows": self.rows,
            "pause": self.pause,
            "end": self.end,
        }

    async def open(self) -> str:
        """Listen; where clients connect. Raises Problem for an upstream or a dialect that cannot be."""
        if self._upstream is None:
            server = await self._provider.start("127.0.0.1", 0)
            self._upstream = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        await self._new_proxy()
        host, port = self._listener.getsockname()[:2]
        return f"http://{host}:{port}"

    async def _new_proxy(self) -> None:
        mono0_ns = SystemClock().mono_ns()
        self._rows = Rows(mono0_ns)
        settings = Settings(
            listen_fd=os.dup(self._listener.fileno()),
            upstream=self._upstream,
            dialect=self._plot.dialect,
            mono0_ns=mono0_ns,
        )
        self._proxy = Server(settings, asyncio.get_running_loop(), self._rows)
        hub = self._proxy.hub
        if self._plot.upstream is None and self._plot.dialect == "auto":
            hub.dialects = (*self._prefixed, *hub.dialects)
        await self._proxy.start()
        self._rows.kept.clear()

    def _retire(self) -> None:
        """Lift, cut what is under way, let nobody keep a connection; the rest of its end is nobody's concern."""
        proxy = self._proxy
        proxy.hub.switch.lift("ordered")
        for client in tuple(proxy.hub.clients):
            client.on_end()
        proxy.stop("ordered")
        task = asyncio.get_running_loop().create_task(proxy.wait())
        self._ending.add(task)
        task.add_done_callback(self._ending.discard)

    async def begin(self, order: dict[str, Any]) -> dict[str, Any]:
        """A test begins. What came between two tests belongs to none."""
        if self._proxy.hub.counters.connections:
            self._retire()
            await self._new_proxy()
        return {"began_ns": SystemClock().mono_ns() - self._proxy.settings.mono0_ns}

    async def inject(self, order: dict[str, Any]) -> dict[str, Any]:
        return self._proxy.inject(msgspec.convert(order["inject"], Inject))

    async def lift(self, order: dict[str, Any]) -> dict[str, Any]:
        self._proxy.hub.switch.lift("ordered")
        return {}

    async def answers(self, order: dict[str, Any]) -> dict[str, Any]:
        if self._plot.upstream is not None:
            raise Problem(
                "provider.answers",
                found="an upstream of your own, which says what it says",
                wanted="the stand-in provider",
                remedy="leave drillmaster_upstream away for this test",
            )
        self._script.put(order["model"], msgspec.convert(order["lines"], list[Line]))
        return {}

    async def rows(self, order: dict[str, Any]) -> dict[str, Any]:
        """The evidence from row `since` on, once what is all but over is over."""
        hub = self._proxy.hub
        await asyncio.sleep(0)  # readers whose turn comes with this order's
        for _ in range(SETTLES):
            if not hub.counters.in_flight:
                break
            await asyncio.sleep(SETTLE_S)
        return {
            **self._told(order["since"]),
            "in_flight": hub.counters.in_flight,
            "under_way": [_asked(ex) for client in hub.clients if (ex := getattr(client, "ex", None)) is not None],
            "refused_heads": hub.counters.refused_heads,
        }

    async def pause(self, order: dict[str, Any]) -> dict[str, Any]:
        """Let a moment pass: whoever waits for a probe has no clock that can be trusted."""
        await asyncio.sleep(PAUSE_S)
        return {}

    async def end(self, order: dict[str, Any]) -> dict[str, Any]:
        """The test is over: what it left running is cut. `renew` has to follow."""
        self._script.clear()
        self._retire()
        self.used_up = True
        return self._told(order["since"])

    def _told(self, since: int) -> dict[str, Any]:
        rows = [msgspec.Raw(row) for row in self._rows.kept[since:]]
        return {"rows": rows, "lost": self._rows.lost, "broken": self.broken}

    def complain(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """The loop's handler for what nobody caught."""
        error = context.get("exception")
        if error is not None and not self.broken:
            self.broken = f"{type(error).__name__}: {error}"[:500]
        loop.default_exception_handler(context)

    async def renew(self) -> None:
        """Make the next proxy, while the tests' process is busy with its own."""
        self.used_up = False
        await self._new_proxy()


def _prefixed(name: str) -> Dialect:
    """The dialect of this name, as the one of every path that begins with its name."""
    kind = type(load(name))

    def recognises(self: Dialect, request: RequestHead) -> bool:
        return request.path.startswith(f"/{name}/")

    dialect: Dialect = type(kind.__name__, (kind,), {"recognises": recognises})()
    return dialect


def _asked(ex: Exchange) -> dict[str, str | None]:
    """What a request that is not over asks for, as far as it has said so."""
    return {"path": ex.route.path, "model": ex.peek().model}


class _Orders:
    """Orders as they come in on a descriptor, whole lines."""

    def __init__(self, loop: asyncio.AbstractEventLoop, fd: int) -> None:
        self._fd = fd
        self._held = bytearray()
        self._lines: asyncio.Queue[bytes] = asyncio.Queue()
        loop.add_reader(fd, self._read)

    def _read(self) -> None:
        data = os.read(self._fd, 1 << 16)
        held = self._held
        looked = len(held)
        held += data
        if held.find(b"\n", looked) >= 0:
            *lines, rest = held.split(b"\n")
            for line in lines:
                self._lines.put_nowait(bytes(line))
            self._held = rest
        if not data or len(self._held) > MAX_ORDER_BYTES:
            _leave()

    async def next(self) -> bytes:
        return await self._lines.get()


def _leave() -> None:
    """Whoever asked is gone: so are we, whatever is under way."""
    os._exit(0)


async def _serve(plot: Plot, out: int) -> None:
    loop = asyncio.get_running_loop()

    def look() -> None:
        if os.getppid() != plot.parent:
            _leave()
        loop.call_later(PARENT_CHECK_S, look)

    look()
    stage = Stage(plot)
    loop.set_exception_handler(stage.complain)
    try:
        url = await stage.open()
    except Problem as problem:
        _say(out, {"error": _told(problem)})
        return
    orders = _Orders(loop, 0)
    _say(out, {"url": url})
    # What stands now stands to the end: the collector need not look at it again.
    gc.collect()
    gc.freeze()
    while True:
        try:
            order = msgspec.json.decode(await orders.next())
        except msgspec.DecodeError:
            continue  # one that was left half written; nobody waits for its answer
        _say(out, {"id": order["id"], **await _obeyed(stage, order)})
        if stage.used_up:
            await stage.renew()


async def _obeyed(stage: Stage, order: dict[str, Any]) -> dict[str, Any]:
    try:
        return {"ok": await stage.orders[order["do"]](order)}
    except Problem as problem:
        return {"error": _told(problem)}
    except Conflict as error:
        return {"error": _words(order, str(error), "an order that fits the proxy's state")}
    except ValueError as error:  # msgspec's are of these too
        place = f"provider.{order['do']}"
        return {"error": _told(Problem.of(str(error), place=place, wanted="an order that can be carried out"))}
    except Exception as error:  # noqa: BLE001 - told to the test, and to every test after it
        stage.broken = stage.broken or f"{type(error).__name__}: {error}"[:500]
        return {"error": _words(order, stage.broken, "no error of ours")}


def _words(order: dict[str, Any], found: str, wanted: str) -> dict[str, str]:
    return {"place": f"provider.{order['do']}", "found": found, "wanted": wanted, "remedy": "correct it"}


def _told(problem: Problem) -> dict[str, str]:
    return {name: getattr(problem, name) for name in ("place", "found", "wanted", "remedy")}


def _say(out: int, what: dict[str, Any]) -> None:
    data = memoryview(msgspec.json.encode(what) + b"\n")
    try:
        while data:
            data = data[os.write(out, data) :]
    except OSError:
        _leave()


def play(argv: list[str]) -> int:
    """Run until standard input ends; the exit code."""
    plot = msgspec.json.decode(argv[1].encode(), type=Plot)
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    out = os.dup(1)
    os.dup2(2, 1)  # what is printed by mistake must not be taken for an answer
    with asyncio.Runner(loop_factory=make_loop) as runner:
        runner.run(_serve(plot, out))
    return 0
