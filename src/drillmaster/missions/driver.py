"""The process that sends missions: loads, once a second what was held, orders, and an end on every way out.

States: `waiting` for the order to start, `running`, `draining` (none is begun any more, those under way go on to their end or
time limit), `ended`. It ends by itself when all loads have; exit 0. What ends it as lost, exit 2: evidence that cannot be
written, a machine out of descriptors or ports, and a start that no mission followed.
"""

import asyncio
import contextlib
import gc
import os
import resource
import signal
import socket
import ssl
import sys
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from time import monotonic_ns
from typing import Any, Protocol

import msgspec

from drillmaster.errors import Exit, Problem, Refused
from drillmaster.missions.control import Control
from drillmaster.missions.fleet import Fleet
from drillmaster.missions.flows import authority_of
from drillmaster.missions.ledger import Flying, Ledger
from drillmaster.missions.mission import HttpMission, Line
from drillmaster.missions.settings import Book, OwnLoad, Settings
from drillmaster.proxy.loop import make_loop
from drillmaster.sanity import is_loopback
from drillmaster.strict import digest_bytes
from drillmaster.wire import Address, Wire, dial

__all__ = ["Driver", "Target", "run"]

HELD_NS = 1_000_000_000
_LOOK_UP_S = 10.0


class Load(Protocol):
    """One load, as the driver knows it."""

    @property
    def wanted(self) -> int: ...

    @property
    def thinking(self) -> int: ...

    @property
    def over(self) -> bool: ...

    def start(self, start_ns: int) -> None: ...

    def no_more(self) -> None: ...

    def cut(self, why: str) -> None: ...


class Target:
    """Where missions go. The address that is connected to decides about permission, before a byte is sent."""

    def __init__(self, settings: Settings, loop: asyncio.AbstractEventLoop, max_body_bytes: int) -> None:
        """Raises Problem for a URL or a CA file that cannot be used."""
        self._settings = settings
        self._loop = loop
        self.host, self.authority, self.port, tls, self.prefix = authority_of(settings.url)
        self.max_body_bytes = max_body_bytes
        self.addresses: tuple[Address, ...] = ()
        self._tls: ssl.SSLContext | None = None
        if tls:
            try:
                self._tls = ssl.create_default_context(cafile=settings.ca)
            except OSError as error:
                raise Problem(
                    settings.ca or "the system's certificates",
                    found=error.strerror or "no certificates",
                    wanted="a PEM file",
                    remedy="name the file of the authority that signed the agent's certificate",
                ) from None

    async def look_up(self) -> None:
        """Look the host up, once: a name that begins to point elsewhere takes no mission along. Raises Problem."""
        try:
            async with asyncio.timeout(_LOOK_UP_S):
                found = await self._loop.getaddrinfo(self.host, self.port, type=socket.SOCK_STREAM)
        except (OSError, TimeoutError) as error:
            raise Problem(
                self._settings.url,
                found=getattr(error, "strerror", None) or "no answer",
                wanted="an address of this host",
                remedy=f"see whether {self.host} is known here: getent hosts {self.host}",
            ) from None
        addresses = [(family, where) for family, _, _, _, where in found]
        strangers = [str(where[0]) for _, where in addresses if not is_loopback(str(where[0]))]
        if strangers and not self._settings.permitted:
            raise Refused(
                self._settings.url,
                found=f"{strangers[0]}, which is not loopback",
                wanted="loopback, or permission in the plan and --permit-host",
                remedy="point the target at loopback",
            )
        self.addresses = tuple(dict.fromkeys((f, (str(w[0]), int(w[1]), *w[2:])) for f, w in addresses))

    def dial(self, owner: HttpMission, nth: int) -> Wire:
        return dial(self._loop, self.addresses[nth], owner, tls=self._tls, server_name=self.host if self._tls else None)


class Driver:
    """All loads of one drill."""

    def __init__(self, settings: Settings, loop: asyncio.AbstractEventLoop, environ: Mapping[str, str]) -> None:
        """Raises Problem."""
        self.loop = loop
        self._settings = settings
        self._book = read_book(settings)
        self.target = Target(settings, loop, self._book.max_body_bytes)
        self.line: Line = self.target
        self.ledger = Ledger(settings.events, settings.payloads, settings.mono0_ns)
        self.counts: Counter[str] = Counter()
        self.flying = Flying(monotonic_ns())
        self.state = "waiting"
        self._problem: Problem | None = None
        self._begun_ns = 0
        self._ending: asyncio.Future[None] = loop.create_future()
        self.loads: list[Load] = []
        self.loads += [self._load(nth, dict(environ)) for nth in range(len(self._book.loads))]
        self._tick: asyncio.TimerHandle | None = None
        self._held_ns = 0
        self._late_ns = 0
        self._requests = 0
        self._tally: Counter[str] = Counter()

    def _load(self, nth: int, environ: dict[str, str]) -> Load:
        load = self._book.loads[nth]
        if isinstance(load, OwnLoad):
            per_s = self._settings.max_per_s
            most_steps = max(len(flow.steps) for flow in load.missions.flows)
            gap_ns = 0 if per_s is None else round(1e9 * most_steps * len(self._book.loads) / per_s)
            return Fleet(load, nth, self._book, self, environ, gap_ns=gap_ns)
        from drillmaster.missions.foreign import Foreign

        return Foreign(load, nth, self._book, self, self._settings)

    # Orders

    def told(self) -> dict[str, Any]:
        """What is going on, for whoever asks."""
        return {
            "pid": os.getpid(),
            "state": self.state,
            "in_flight": self.flying.now,
            "wanted": sum(load.wanted for load in self.loads),
            "thinking": sum(load.thinking for load in self.loads),
            "late_ms": round(self._late_ns / 1e6, 3),
            **{name: self.counts[name] for name in ("started", "ok", "failed", "cut", "unsent")},
            "problem": None if self._problem is None else str(self._problem),
        }

    def start(self, start_ns: int | None) -> dict[str, Any]:
        """Begin, at that moment of the monotonic clock or now; a second order changes nothing."""
        if self.state == "waiting":
            self.state = "running"
            now_ns = monotonic_ns()
            self._begun_ns = max(now_ns, start_ns or 0)
            self.flying = Flying(self._begun_ns)
            self._held_ns = self._begun_ns
            with self._written():
                self.ledger.write(
                    "missions_begun",
                    wanted=sum(_concurrent(load) for load in self._book.loads),
                    loads=[{"run": load.__struct_config__.tag, "source": load.source} for load in self._book.loads],
                    seed=self._book.seed,
                    book_sha256=self._book_digest,
                    begun_ns=self._begun_ns - self._settings.mono0_ns,
                )
                for load in self.loads:
                    load.start(self._begun_ns)
            self._tick = self.loop.call_at((self._held_ns + HELD_NS) / 1e9, self._held)
        return self.told()

    def no_more(self, why: str) -> dict[str, Any]:
        """Begin none any more; those under way go on."""
        if self.state == "waiting":
            self.state = "ended"
            self._end()
        elif self.state == "running":
            self.state = "draining"
            with self._written():
                self.ledger.write("no_more_missions", why=why, open=self.flying.now)
                for load in self.loads:
                    load.no_more()
        return self.told()

    def quit(self, why: str) -> dict[str, Any]:
        """Cut what is under way, and end."""
        self.no_more(why)
        with self._written():
            for load in self.loads:
                load.cut(why)
        return self.told()

    def may_begin(self, requests: int) -> bool:
        most = self._settings.max_requests
        if most is not None and self._requests + requests > most:
            return False
        self._requests += requests
        return True

    # What loads tell

    def broken(self, error: OSError) -> None:
        self.lost(
            Problem(
                "missions",
                found=f"{error.strerror or type(error).__name__}, at {self.flying.now} in flight",
                wanted="a machine that has descriptors and ports for all of them",
                remedy="raise the limit (ulimit -n), or lower concurrent",
            )
        )

    def lost(self, problem: Problem) -> None:
        """The drive cannot go on, and that is none of the agent's outcomes."""
        if self._problem is None:
            self._problem = problem
            self.loop.call_soon(self.quit, "the driver cannot go on")
            self.loop.call_later(2.0, self._end)

    @contextlib.contextmanager
    def _written(self) -> Any:
        """Evidence that cannot be written ends the drive."""
        try:
            yield
        except Problem as problem:
            self.lost(problem)

    def on_exception(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """What a callback raised: evidence that could not be written, or an error of ours. Both end the drive."""
        error = context.get("exception")
        if isinstance(error, Problem):
            self.lost(error)
            return
        loop.default_exception_handler(context)
        if isinstance(error, Exception):
            self.lost(
                Problem(
                    "missions", found=repr(error)[:200], wanted="no error of ours", remedy="report it, with its log"
                )
            )

    def done(self) -> None:
        if self.state in ("running", "draining") and all(load.over for load in self.loads):
            self.loop.call_soon(self._end)

    # Once a second

    def _held(self) -> None:
        now_ns = monotonic_ns()
        late_ns = now_ns - self._held_ns - HELD_NS
        self._late_ns = max(0, late_ns)
        ended = {name: self.counts[name] - self._tally[name] for name in ("started", "ok", "failed", "cut", "unsent")}
        self._tally = Counter(self.counts)
        with self._written():
            self.ledger.write_known(
                "held",
                {
                    **self.flying.told(now_ns),
                    "wanted": sum(load.wanted for load in self.loads),
                    "thinking": sum(load.thinking for load in self.loads),
                    "late_ns": max(0, late_ns),
                    **ended,
                },
            )
        self._held_ns += HELD_NS * (1 + max(0, late_ns) // HELD_NS)
        if now_ns - self._begun_ns > self._settings.longest_s * 1e9:
            self.no_more("the longest time")
        owner = self._settings.owner_pid
        if owner is not None and os.getppid() != owner:
            self.no_more("its owner is gone")
        if not self._ending.done():
            self._tick = self.loop.call_at((self._held_ns + HELD_NS) / 1e9, self._held)

    # The end

    def _end(self) -> None:
        if not self._ending.done():
            self.state = "ended"
            self._ending.set_result(None)

    async def wait(self) -> int:
        """Wait for the end; the exit code."""
        await self._ending
        if self._tick is not None:
            self._tick.cancel()
        begun = self._begun_ns > 0
        try:
            if begun:
                self.ledger.write_known("held", {**self.flying.told(monotonic_ns()), "wanted": 0, "thinking": 0})
                self.ledger.write(
                    "missions_ended",
                    **{name: self.counts[name] for name in ("started", "ok", "failed", "cut", "unsent")},
                    payload_digest=self.ledger.payload_digest,
                )
            self.ledger.close()
        except Problem as problem:
            self._problem = self._problem or problem
        if self._problem is None and begun and not self.counts["started"]:
            self._problem = Problem(
                "missions",
                found="no mission was begun",
                wanted="one at least: nothing that was asked is nothing to judge",
                remedy="see what the load generator said, or let the drill last longer than the ramp",
            )
        if self._problem is not None:
            print(f"drillmaster.missions: {self._problem}", file=sys.stderr, flush=True)
            return Exit.REFUSED
        return Exit.PASS

    @property
    def _book_digest(self) -> str:
        return digest_bytes(Path(self._settings.book).read_bytes())


def _concurrent(load: Any) -> int:
    return getattr(load, "concurrent", None) or getattr(load, "users", None) or 0


def read_book(settings: Settings) -> Book:
    """Raises Problem."""
    try:
        return msgspec.json.decode(Path(settings.book).read_bytes(), type=Book)
    except (OSError, msgspec.DecodeError) as error:
        raise Problem(
            settings.book,
            found=str(error)[:200],
            wanted="the book of this drill's missions",
            remedy="start the drill again",
        ) from None


def raise_descriptors() -> int:
    """Take as many descriptors as this process may have; how many."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
            soft = hard
    return soft


async def _drive(settings: Settings, environ: Mapping[str, str]) -> int:
    loop = asyncio.get_running_loop()
    raise_descriptors()
    driver = Driver(settings, loop, environ)
    loop.set_exception_handler(driver.on_exception)
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, driver.quit, signal.Signals(number).name)
    await driver.target.look_up()
    gc.collect()
    gc.freeze()
    gc.set_threshold(10_000, 20, 20)
    if settings.control_path is None:
        driver.start(None)
        return await driver.wait()
    control = Control(settings.control_path, driver)
    await control.listen()
    try:
        code = await driver.wait()
        await asyncio.sleep(0.05)  # the answer to the order that ended us leaves first
    finally:
        control.close()
    return code


def run(settings: Settings, environ: Mapping[str, str]) -> int:
    """Drive until the end; the exit code. Raises Problem where it cannot begin."""
    with asyncio.Runner(loop_factory=make_loop) as runner:
        return runner.run(_drive(settings, environ))
