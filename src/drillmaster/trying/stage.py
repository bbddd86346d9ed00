"""A provider and a proxy with one fault on, on loopback, for as long as somebody looks.

They run in a thread of their own, so that the client can be an ordinary blocking socket. Leaving ends them, however it is
left; and a process that dies takes them along.
"""

import asyncio
import socket
import threading
import time
from types import TracebackType
from typing import Any

from drillmaster.errors import Problem
from drillmaster.faults import load
from drillmaster.proxy import Settings, Upstream
from drillmaster.proxy.control import Inject
from drillmaster.proxy.loop import make_loop
from drillmaster.proxy.server import Server
from drillmaster.proxy.switch import MAX_TTL_S
from drillmaster.standins.provider import Latency
from drillmaster.standins.provider_http import Provider
from drillmaster.trying import Trial

__all__ = ["Stage"]

START_S = 15.0
END_S = 5.0
PROBE_S = 3.0
KNOCK_S = 3.0
_LATENCY = Latency(median_ms=2, token_ms=3, seed=1)


def _knock(url: str) -> None:
    """Raises Problem where nobody listens: the proxy's 502 would look like the fault's doing."""
    upstream = Upstream.parse(url)
    try:
        socket.create_connection((upstream.host, upstream.port), KNOCK_S).close()
    except OSError as error:
        raise Problem(
            f"--url {url}",
            found=f"nobody there ({error.strerror or error})",
            wanted="a server that listens",
            remedy="start it, or leave --url out: a stand-in provider comes along",
        ) from None


class _Rows:
    """Evidence that is kept for as long as the stage stands: what met whom."""

    def __init__(self) -> None:
        self.met: list[str] = []
        """The rule of each meeting, by name; empty for a plain fault."""

    def write(self, event: str, /, **fields: Any) -> None:
        if event == "fault_met":
            self.met.append(fields.get("rule", ""))

    def write_encoded(self, event: str, fields: bytes, ns: int | None = None) -> None:
        """Attempts are not counted here."""


class Stage:
    """`with Stage(trial) as stage`: provider and proxy listen; `put_on` puts the fault on. Raises Problem where they cannot."""

    def __init__(self, trial: Trial) -> None:
        self.address: tuple[str, int] = ("", 0)
        """Where the proxy listens."""
        self._trial = trial
        self._rows = _Rows()
        self._failed: BaseException | None = None
        self._ready = threading.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._told: asyncio.Event | None = None
        self._server: Server | None = None
        self._thread = threading.Thread(target=self._run, name="stage", daemon=True)

    @property
    def met(self) -> list[str]:
        """The rules that met somebody, one a meeting; with port scope the proxy's own probe is one."""
        return self._rows.met

    @property
    def fitted(self) -> int:
        """Requests that looked as a rule says, whether or not it took them; 0 where there are no rules."""
        on = None if self._server is None else self._server.hub.switch.current
        return 0 if on is None else sum(one.aim.matched for one in on.armed if one.aim is not None)

    def __enter__(self) -> "Stage":
        if self._trial.upstream is not None:
            _knock(self._trial.upstream)
        self._thread.start()
        try:
            if not self._ready.wait(START_S):
                raise Problem(
                    "fault try",
                    found=f"no proxy after {START_S:g} s",
                    wanted="one that listens",
                    remedy="try again when this machine is less busy",
                )
            if self._failed is not None:
                raise self._failed
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end()

    def put_on(self) -> None:
        """Put the fault on. One of port scope is on once the proxy's own probe was turned away."""
        assert self._loop is not None
        asyncio.run_coroutine_threadsafe(self._inject(), self._loop).result(START_S)
        if any(load(rule.tag).scope == "port" for rule in self._trial.rules):
            give_up = time.monotonic() + PROBE_S
            while not self.met and time.monotonic() < give_up:
                time.sleep(0.01)

    async def _inject(self) -> None:
        rules = self._trial.rules
        assert self._server is not None
        if len(rules) == 1 and rules[0].plain:
            order = Inject(window="try", fault=rules[0].tag, params=rules[0].params, ttl_s=MAX_TTL_S)
        else:
            order = Inject(window="try", rules=rules, ttl_s=MAX_TTL_S)
        self._server.inject(order)

    def _end(self) -> None:
        if self._loop is not None and self._told is not None and self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._told.set)
        self._thread.join(END_S)

    def _run(self) -> None:
        try:
            with asyncio.Runner(loop_factory=make_loop) as runner:
                runner.run(self._serve())
        except BaseException as error:  # noqa: BLE001 - told in the thread that waits for it
            self._failed = error
        finally:
            self._ready.set()

    async def _serve(self) -> None:
        trial = self._trial
        self._loop, self._told = asyncio.get_running_loop(), asyncio.Event()
        provider: Provider | None = None
        listening: asyncio.Server | None = None
        upstream = trial.upstream
        try:
            if upstream is None:
                provider = Provider(_LATENCY, trial.dialect)
                listening = await provider.start("127.0.0.1", 0)
                upstream = f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}"
            settings = Settings(port=0, upstream=upstream, dialect=trial.dialect)
            server = self._server = Server(settings, self._loop, self._rows)
            try:
                await server.start()
                self.address = server.address
                self._ready.set()
                await self._told.wait()
            finally:
                server.stop("ordered")
                await server.wait()
        finally:
            if listening is not None and provider is not None:
                listening.close()
                await provider.drop()
