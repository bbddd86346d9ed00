"""One proxy process: its listeners, its clock ticks, its signals, its end.

1. It starts passing through (with an upstream) or dead (without one), whatever came before: a restarted proxy holds no
   fault of its predecessor.
2. Of the descriptors it may open it keeps some for the control door and the evidence: a flood of clients can never keep
   a lift out. Beyond them new connections are accepted and reset, counted, and said in the evidence.
3. Every way out lifts the fault.
4. What has to end is looked after by beats of the kernel (`pulse`), not by timers of the loop: they sleep by a clock.
"""

import asyncio
import contextlib
import errno
import gc
import os
import signal
import socket
import sys
import time
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from drillmaster.asked import listening, peer_uid
from drillmaster.clock import SystemClock
from drillmaster.errors import Problem
from drillmaster.faults import Cx
from drillmaster.proxy.client import Client
from drillmaster.proxy.connection import ConnectionDrive
from drillmaster.proxy.control import ControlClient, Inject, Lift, Renew
from drillmaster.proxy.door import BACKLOG, Door, PortDrive
from drillmaster.proxy.hub import NEVER_NS, EventSink, Hub, NullSink
from drillmaster.proxy.loop import make_loop
from drillmaster.proxy.means import descriptors_in_use, listen_unix, raise_descriptors, read_token, trust
from drillmaster.proxy.purse import Ledger, Purse
from drillmaster.proxy.recording import Recorder
from drillmaster.proxy.settings import Settings, Upstream
from drillmaster.proxy.switch import Conflict, Injection, arm
from drillmaster.pulse import Pulse
from drillmaster.targeting import Rule
from drillmaster.timeline import Writer
from drillmaster.timeline.opening import complaint
from drillmaster.wire import Address

__all__ = ["Server", "run"]

SWEEP_S = 0.25
DRAIN_S = 2.0
RESOLVE_EVERY_S = 60.0
ACCEPTS_PER_WAKE = 64
KEPT_DESCRIPTORS = 8
"""For the control door, the evidence and the resolver, whatever clients do."""
DEAD = "dead"
"""The window of a proxy without an upstream."""


class Server:
    """What `python -m drillmaster.proxy` runs; a test runs it in its own loop."""

    def __init__(self, settings: Settings, loop: asyncio.AbstractEventLoop, sink: EventSink | None = None) -> None:
        """Raises Problem for settings that cannot work: upstream, mode, CA file, token, port in use."""
        self.settings = settings
        self._loop = loop
        upstream = Upstream.parse(settings.upstream) if settings.upstream is not None else None
        tls = trust(settings.upstream_ca) if upstream is not None and upstream.tls else None
        clock = SystemClock()
        given: EventSink = sink if sink is not None else NullSink()
        if sink is None and settings.events is not None:
            given = Writer(settings.events, clock, settings.mono0_ns)
        self.hub = Hub(
            loop,
            clock,
            given,
            upstream=upstream,
            tls=tls,
            dialect=settings.dialect,
            limits=settings.limits,
            mono0_ns=settings.mono0_ns,
            seed=settings.seed,
            purse=None
            if settings.max_requests is None and settings.max_tokens is None
            else Purse(settings.max_requests, settings.max_tokens, Ledger(settings.purse_fd)),
            recorder=_recorder(settings),
        )
        if settings.say == "lines":
            self.hub.tell = _tell
        dead = (Rule(mode=settings.mode, params=settings.params),)
        self._dead = arm(dead, settings.seed) if upstream is None else None
        self._token = read_token(settings.token_file)
        if settings.control_port is not None and self._token is None:
            raise Problem(
                "--control-port",
                found="no token file",
                wanted="a token that callers of a TCP port must send",
                remedy="add --token-file FILE",
            )
        self._reserve: int | None = None
        self._limit = raise_descriptors()
        self._turned_away = 0
        self._told_away_ns = 0
        self._stopping = False
        self._done = loop.create_future()
        self._busy_ns = time.monotonic_ns()
        self._owner_gone = False
        self._pulse: Pulse | None = None
        self._swept_ns = 0
        self._draining_beats = 0
        self._resolving: asyncio.Task[None] | None = None
        self._resolved_ns = 0
        self.door = Door(loop, self._listen(), self._accept)
        self._port_drive: PortDrive | None = None
        self.hub.on_lift = self._on_lift
        self.control: socket.socket | None = None
        self.control_tcp: socket.socket | None = None

    @property
    def address(self) -> tuple[str, int]:
        """Where clients connect."""
        return self.door.address

    def _listen(self) -> socket.socket:
        settings = self.settings
        return listening(
            settings.host,
            settings.port,
            fd=settings.listen_fd,
            backlog=BACKLOG,
            place="--listen",
            other="another --port",
        )

    async def start(self) -> None:
        """Resolve the upstream, open the doors, say so in the evidence. Raises Problem."""
        hub, settings = self.hub, self.settings
        if hub.upstream is not None:
            await self._resolve()
        if settings.control_path is not None:
            self.control = listen_unix(Path(settings.control_path))
            self._loop.add_reader(self.control.fileno(), self._accept_control, self.control)
        if settings.control_port is not None:
            self.control_tcp = socket.create_server(("127.0.0.1", settings.control_port))
            self.control_tcp.setblocking(False)
            self._loop.add_reader(self.control_tcp.fileno(), self._accept_control, self.control_tcp)
        host, port = self.address
        shown = None
        if hub.upstream is not None:
            scheme = "https" if hub.upstream.tls else "http"
            shown = f"{scheme}://{hub.upstream.authority.decode()}{hub.upstream.prefix.decode()}"
        hub.record("proxy_started", {"pid": os.getpid(), "listen": f"{host}:{port}", "upstream": shown})
        injection: Injection | None = None
        if self._dead is not None:
            injection = hub.switch.prepare(DEAD, self._dead, None, 0.0)
            hub.record("fault_injected", {"window": DEAD, "fault": settings.mode, "params": settings.params})
            hub.switch.inject(injection)
        self._reserve = os.open("/dev/null", os.O_RDONLY | os.O_CLOEXEC)
        # Listeners and the loop's own descriptors stand; what is left is shared by clients and upstream connections.
        self._limit = max(self._limit - descriptors_in_use() - KEPT_DESCRIPTORS, 4)
        # A predecessor that was killed may have left the shared socket without ears.
        self.door.open()
        if injection is not None:
            self._put_on(injection)
        self._pulse = Pulse(self._loop, self._beat, period_s=SWEEP_S)

    async def wait(self) -> int:
        """Until it has ended; the exit code."""
        code: int = await self._done
        return code

    # Accepting

    def _accept(self) -> None:
        hub = self.hub
        pool = hub.pool
        for _ in range(ACCEPTS_PER_WAKE):
            try:
                sock, peer = self.door.listener.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                if error.errno in (errno.EMFILE, errno.ENFILE):
                    self._shed()
                    continue
                if error.errno in (errno.ENOBUFS, errno.ENOMEM) or self.door.shut is not None:
                    return
                raise
            if self.door.is_own(peer):
                sock.close()
                continue
            full = len(hub.clients) + (len(pool.all) if pool is not None else 0) >= self._limit
            if self._stopping or (full and (pool is None or not pool.spare())):
                self._turn_away(sock)
                continue
            sock.setblocking(False)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            hub.counters.connections += 1
            hub.switch.expire()
            injection = hub.switch.current
            if injection is not None and injection.scope == "connection":
                ConnectionDrive(hub, sock, injection, self._welcome)
            else:
                Client(hub, sock)

    def _welcome(self, sock: socket.socket, data: bytes) -> Client:
        client = Client(self.hub, sock)
        if data:
            client.on_bytes(data)
        return client

    def _shed(self) -> None:
        """Not even the kept descriptors are left: use the one in reserve to take a connection, and drop it."""
        if self._reserve is not None:
            os.close(self._reserve)
            self._reserve = None
        try:
            sock, _ = self.door.listener.accept()
            self._turn_away(sock)
        except OSError:
            pass  # it went away by itself, or there is still none to be had; the next wake tries again
        finally:
            with contextlib.suppress(OSError):
                self._reserve = os.open("/dev/null", os.O_RDONLY | os.O_CLOEXEC)

    def _turn_away(self, sock: socket.socket) -> None:
        with contextlib.suppress(OSError):
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\0\0\0\0\0\0\0")
        sock.close()
        self.hub.counters.refused_connections += 1
        self._turned_away += 1

    def _accept_control(self, listener: socket.socket) -> None:
        try:
            sock, _ = listener.accept()
        except OSError:
            return
        sock.setblocking(False)
        if listener is self.control and peer_uid(sock) not in (os.geteuid(), 0):
            sock.close()
            return
        ControlClient(self.hub, sock, self, self._token)

    # Orders

    def state(self) -> dict[str, Any]:
        hub = self.hub
        hub.switch.expire()
        current = hub.switch.current
        dead = self._dead is not None
        deadline_ns = current.deadline_ns if current is not None else None
        host, port = self.address
        return {
            "mode": "dead" if dead else "pass" if current is None else current.tag,
            "fault": current.tag if current is not None else None,
            "window": current.window if current is not None else None,
            "deadline_in_s": None if deadline_ns is None else max(0, deadline_ns - time.monotonic_ns()) / 1e9,
            "counts": msgspec.to_builtins(hub.counters),
            "spent": None if hub.purse is None else {"requests": hub.purse.requests, "tokens": hub.purse.tokens},
            "lingering": sum(1 for drive in hub.running if drive.injection is not current),
            "met": current.met if current is not None else 0,
            "client_bytes": current.client_bytes if current is not None else 0,
            "evidence": "lost" if hub.evidence_failed else "kept",
            "listen": f"{host}:{port}",
            "pid": os.getpid(),
        }

    def inject(self, order: Inject) -> dict[str, Any]:
        hub = self.hub
        if self._dead is not None:
            raise Conflict("dead from the start: there is no upstream to pass through to; start with --upstream")
        if self._stopping:
            raise Conflict("the proxy is ending")
        if not 0 <= order.linger_s <= hub.limits.hold_s:
            raise ValueError(f"linger_s {order.linger_s} is not in 0 <= s <= {hub.limits.hold_s:g}")
        armed = arm(order.wanted, hub.seed)
        injection = hub.switch.prepare(order.window, armed, order.ttl_s, order.linger_s)
        # The lines before the deed: a fault that nobody can prove must not happen.
        if not self._announce(injection):
            raise OSError(errno.ENOSPC, "the lines of the injection were not written; nothing was injected")
        hub.switch.inject(injection)
        self._put_on(injection)
        return {"injected_ns": injection.injected_ns - hub.mono0_ns}

    def _announce(self, injection: Injection) -> bool:
        """Write what is about to be put on; False where a line was not written."""
        record, window, plain = self.hub.record, injection.window, injection.plain
        if plain is not None:
            return record("fault_injected", {"window": window, "fault": injection.tag, "params": plain.rule.params})
        rows = []
        for one in injection.armed:
            said = msgspec.to_builtins(one.rule)
            rows.append({"window": window, "rule": said.pop("name"), "fault": said.pop("mode"), **said})
        return all(record("fault_rule", row) for row in rows) and record(
            "fault_injected", {"window": window, "fault": injection.tag, "rules": len(rows)}
        )

    def _put_on(self, injection: Injection) -> None:
        """What a fault of port or connection scope does at once; one of exchanges waits for them."""
        hub = self.hub
        if injection.scope == "exchange":
            return
        # A kept-alive connection would go on as if nothing had been.
        for client in tuple(hub.clients):
            if isinstance(client, Client):
                client.leave()
        if injection.scope == "connection":
            return
        armed = injection.armed[0]

        def done(why: str | None) -> None:
            if hub.switch.current is not injection:
                return
            if why is not None:
                print(f"fault {injection.tag}: {why}; lifted", file=sys.stderr, flush=True)
                hub.switch.lift("failed")
                return
            injection.met += 1
            armed.met += 1
            hub.counters.met += 1
            row = {"attempt": None, "window": injection.window, "client_bytes": 0, "proof": "probe"}
            hub.record("fault_met", row)
            hub.say(injection)

        script = armed.fault.script(
            Cx(
                request=None,
                conn=0,
                nth=0,
                dialect=hub.last_dialect,
                make_rng=partial(hub.rng, injection, 0, 0),
                now_ns=hub.now_ns,
                cell=armed.cell,
                wall_ns=hub.wall_ns,
                injected_ns=injection.injected_ns,
            )
        )
        self._port_drive = PortDrive(self._loop, self.door, script, done)
        self._port_drive.step()

    def _on_lift(self, injection: Injection) -> None:
        if injection.scope == "port" and self._port_drive is not None:
            drive, self._port_drive = self._port_drive, None
            drive.lift()

    def renew(self, order: Renew) -> dict[str, Any] | None:
        if self.hub.switch.renew(order.window, order.ttl_s) is None:
            return None
        return {"deadline_in_s": order.ttl_s}

    def lift(self, order: Lift) -> dict[str, Any]:
        hub = self.hub
        if self._dead is not None:
            raise Conflict("dead from the start: there is no upstream to pass through to; start with --upstream")
        current = hub.switch.current
        if current is not None and current.window == order.window:
            hub.switch.lift("ordered")
            return {"lifted_ns": (current.lifted_ns or 0) - hub.mono0_ns}
        return {"lifted_ns": hub.lifted_ns(order.window)}

    def quit(self) -> dict[str, Any]:
        self._loop.call_soon(self.stop, "ordered")
        return {"ending": True}

    # Time

    def _beat(self, passed: int) -> None:
        """Four times a second, by the kernel's count: the fault's life, the sweep, the end of a drain."""
        self.hub.switch.pass_time(passed * SWEEP_S)
        self._sweep()
        if self._stopping:
            self._draining_beats += passed
            if self._draining_beats * SWEEP_S > DRAIN_S + 2 * SWEEP_S:  # its own timers sleep by a clock that stands
                self._end()

    def _sweep(self) -> None:
        """Deadlines of the clients, the scripts, the pool; the owner; the resolver."""
        hub = self.hub
        now_ns = time.monotonic_ns()
        went_back, self._swept_ns = now_ns < self._swept_ns, now_ns
        if went_back:  # every deadline lies too far off now; what lingers has lingered long enough
            for drive in tuple(hub.running):
                if drive.injection is not hub.switch.current:
                    drive.sweep(NEVER_NS)
        if self.door.shut is not None and self._port_drive is None:
            with contextlib.suppress(OSError):  # somebody took the port while we refused; told at the lift
                self.door.open()
        for client in [c for c in hub.clients if c.deadline_ns < now_ns]:
            client.on_deadline()
        for drive in tuple(hub.running):
            drive.sweep(now_ns)
        if hub.pool is not None:
            hub.pool.sweep(now_ns)
            if now_ns - self._resolved_ns > RESOLVE_EVERY_S * 1e9 and self._resolving is None:
                self._resolving = self._loop.create_task(self._resolve())
        if self._turned_away and now_ns - self._told_away_ns > 1e9:
            refused, self._turned_away = self._turned_away, 0
            self._told_away_ns = now_ns
            hub.record("descriptors_exhausted", {"refused": refused})
            if hub.tell is not None:
                hub.tell(f"out of descriptors: turned {refused} connections away")
        self._watch_owner(now_ns)

    def _watch_owner(self, now_ns: int) -> None:
        if self.settings.owner_pid is None:
            return
        if self.hub.counters.in_flight or self.hub.counters.requests != getattr(self, "_seen_requests", -1):
            self._seen_requests = self.hub.counters.requests
            self._busy_ns = now_ns
        self._owner_gone = self._owner_gone or os.getppid() != self.settings.owner_pid
        if self._owner_gone and now_ns - self._busy_ns > self.settings.orphan_grace_s * 1e9:
            self.stop("orphaned")

    async def _resolve(self) -> None:
        """Look the upstream's name up; what was known stays where that fails."""
        hub = self.hub
        upstream, pool = hub.upstream, hub.pool
        assert upstream is not None and pool is not None
        self._resolved_ns = time.monotonic_ns()
        try:
            async with asyncio.timeout(5):
                found = await self._loop.getaddrinfo(upstream.host, upstream.port, type=socket.SOCK_STREAM)
            addresses: list[Address] = [
                (family, (str(where[0]), int(where[1])))
                for family, _, _, _, where in found
                if family in (socket.AF_INET, socket.AF_INET6)
            ]
            pool.addresses = list(dict.fromkeys(addresses))
        except (OSError, TimeoutError):
            # Tried again soon: a proxy started before its network must come to life by itself.
            self._resolved_ns -= round((RESOLVE_EVERY_S - 2) * 1e9)
        finally:
            self._resolving = None

    # The end

    def stop(self, why: str) -> None:
        """Lift, let what is under way finish briefly, end."""
        if self._stopping:
            return
        self._stopping = True
        if self._dead is None:
            self.hub.switch.lift("signal" if why.startswith("SIG") else "exit")
        self.door.deafen()
        self._stop_why = why
        self._stop_ns = time.monotonic_ns() + round(DRAIN_S * 1e9)
        self._drain()

    def _drain(self) -> None:
        hub = self.hub
        under_way = hub.counters.in_flight - hub.counters.held
        if under_way > 0 and time.monotonic_ns() < self._stop_ns:
            self._loop.call_later(0.02, self._drain)
            return
        # Answers to the order that ended us leave first.
        self._loop.call_later(0.05, self._end)

    def _end(self) -> None:
        hub = self.hub
        if self._done.done():
            return
        if self._pulse is not None:
            self._pulse.close()
        current = hub.switch.current
        if current is not None:
            hub.switch.lift("signal" if self._stop_why.startswith("SIG") else "exit")
        for client in tuple(hub.clients):
            if isinstance(client, Client):
                if client.ex is not None:
                    client.ex.finish("cut" if client.ex.drive is None else "lifted", "rst")
                client.close()
        if hub.recorder is not None:
            hub.recorder.close()
        hub.record("proxy_ended", {"why": self._stop_why})
        if hub.pool is not None:
            hub.pool.close()
        for listener in (self.control, self.control_tcp):
            if listener is not None:
                self._loop.remove_reader(listener.fileno())
                listener.close()
        for client in tuple(hub.clients):
            client.on_deadline()
        if self.settings.control_path is not None:
            with contextlib.suppress(OSError):
                Path(self.settings.control_path).unlink()
        if self._resolving is not None:
            self._resolving.cancel()
        self.door.close()
        if self._reserve is not None:
            os.close(self._reserve)
            self._reserve = None
        if not self._done.done():
            self._done.set_result(2 if hub.counters.evidence_lost else 0)


def _recorder(settings: Settings) -> Recorder | None:
    if settings.transcripts is None:
        return None
    try:
        return Recorder(settings.transcripts, settings.run)
    except OSError as error:
        found, remedy = complaint(error)
        raise Problem(settings.transcripts, found=found, wanted="a file for transcripts", remedy=remedy) from None


def _tell(text: str) -> None:
    stamp = datetime.now(UTC).isoformat(timespec="seconds")
    print(f"{stamp} {text}", file=sys.stderr, flush=True)


async def _serve(settings: Settings, ready: Any) -> int:
    loop = asyncio.get_running_loop()
    server = Server(settings, loop)
    # What stands now stands to the end: the collector need not look at it again, nor look up after every few requests.
    gc.collect()
    gc.freeze()
    gc.set_threshold(10_000, 20, 20)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        if number is signal.SIGHUP and signal.getsignal(number) is signal.SIG_IGN:
            continue  # somebody wants it to outlive the terminal (`nohup`)
        loop.add_signal_handler(number, server.stop, signal.Signals(number).name)
    await server.start()
    if ready is not None:
        ready(server)
    return await server.wait()


def run(settings: Settings, ready: Any = None) -> int:
    """Run one proxy until it is told to end; the exit code. `ready` is called with the Server once it listens."""
    with asyncio.Runner(loop_factory=make_loop) as runner:
        return runner.run(_serve(settings, ready))
