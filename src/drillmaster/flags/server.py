"""One flag server process: its listeners, its evidence, its beats, its end."""

import asyncio
import contextlib
import errno
import json
import os
import secrets
import signal
import socket
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from drillmaster.asked import listening, peer_uid
from drillmaster.clock import SystemClock
from drillmaster.errors import Problem, one_line
from drillmaster.flags.answers import Access, Answers, Disable, Enable, Lifts, Orders, switched
from drillmaster.flags.board import MAX_TTL_S, Board, On, Window
from drillmaster.flags.control import Control, Inject, Lift, Renew
from drillmaster.flags.doors import Client, Reply, Serve, from_loopback
from drillmaster.flags.flagd import flagd
from drillmaster.flags.killing import Killing
from drillmaster.flags.roster import Roster
from drillmaster.flags.settings import Settings
from drillmaster.friday.flags import Registry, Switched, load_registry, unknown_flag
from drillmaster.intake import read_bytes
from drillmaster.proxy.loop import make_loop
from drillmaster.proxy.means import listen_unix, raise_descriptors, read_token
from drillmaster.pulse import Pulse
from drillmaster.screen import screen_text
from drillmaster.strict import CAP_BYTES
from drillmaster.timeline import Writer

__all__ = ["Server", "read_registry", "run"]

BEAT_S = 0.1
BACKLOG = 1_024
MAX_CLIENTS = 4_096
KEPT_DESCRIPTORS = 32
"""For the control socket, the evidence, kills and the loop, whatever clients do."""
ACCEPTS_PER_WAKE = 64
ROOM_BYTES = 3_000
"""Of one line of evidence, for flags with their parameters."""


def read_registry(path: str | Path) -> Registry:
    """Read a registry from its file. Raises Problem."""
    return load_registry(read_bytes(path, CAP_BYTES["yaml"]), place=str(path))


class Server(Orders):
    """What `python -m drillmaster.flags` runs; a test runs it in its own loop."""

    def __init__(self, settings: Settings, loop: asyncio.AbstractEventLoop) -> None:
        """Raises Problem for what cannot work: registry, tokens, kills file, port, evidence."""
        self.settings = settings
        self.loop = loop
        self.clients: set[Client] = set()
        self._most = max(4, min(MAX_CLIENTS, raise_descriptors() - KEPT_DESCRIPTORS))
        self.ending = False
        self.clock = SystemClock()
        self.board = Board(read_registry(settings.registry), self.clock, mark=secrets.token_hex(4), seed=settings.seed)
        self._access = Access(
            lead=read_token(settings.lead_token_file),
            kill=read_token(settings.kill_token_file),
            read=read_token(settings.read_token_file),
        )
        self._apart(settings)
        self._writer = None
        if settings.events is not None:
            self._writer = Writer(settings.events, self.clock, settings.mono0_ns)
        self.lost_lines = 0
        self._owed: list[tuple[str, dict[str, Any]]] = []
        self.roster = Roster(self.record)
        files = {"lead": settings.lead_token_file, "kill": settings.kill_token_file, "read": settings.read_token_file}
        self.answers = Answers(
            self.board,
            self.roster,
            self._access,
            self,
            lease_s=settings.lease_s,
            seed=settings.seed,
            tokens={seat: os.path.abspath(path) for seat, path in files.items() if path is not None},  # noqa: PTH100  # as text
        )
        self._control_orders = Control(self)
        self._holding: dict[Client, tuple[str, int, int, Callable[[float], Reply]]] = {}
        self._flush_due = False
        self._enabled = 0
        self._pulse: Pulse | None = None
        self._owner_gone = False
        self._asked_ns = time.monotonic_ns()
        self._why = "ordered"
        self._stopping_beats = 0
        self.failures = 0
        self.done: asyncio.Future[int] = loop.create_future()
        self.killing = Killing(
            loop, self.board, self.roster, self.clock, self.record, self._tell_switch, settings.kills_path
        )
        self._listener = self._listen()
        self._control: socket.socket | None = None
        self.board.on_off = self._went_off
        self.board.on_lift = self._lifted
        self.board.on_change = self._changed

    def _apart(self, settings: Settings) -> None:
        given = [token for token in msgspec.structs.astuple(self._access) if token is not None]
        if len(set(given)) != len(given):
            raise Problem(
                f"token files of {settings.registry}",
                found="one token in two of them",
                wanted="a token of its own for switching, killing and reading",
                remedy="head -c 24 /dev/urandom | base64 > ONE-OF-THEM",
            )

    def _listen(self) -> socket.socket:
        settings = self.settings
        return listening(
            settings.host, settings.port, fd=settings.listen_fd, backlog=BACKLOG, place="--listen", other="another port"
        )

    @property
    def address(self) -> tuple[str, int]:
        host, port = self._listener.getsockname()[:2]
        return host, port

    def start(self) -> None:
        """Take the kills up, open the doors, say so in the evidence. Raises Problem."""
        host, port = self.address
        if self._access.read is None and not from_loopback((host, port)):
            raise Problem(
                f"--listen {host}:{port}",
                found="no read token",
                wanted="a token that whoever is not on this machine must send",
                remedy="add --read-token FILE, or listen on 127.0.0.1",
            )
        if self.settings.control_path is not None:
            self._control = listen_unix(Path(self.settings.control_path))
            self.loop.add_reader(self._control.fileno(), self._accept_control)
        self.record(
            "flags_started",
            {"pid": os.getpid(), "listen": f"{host}:{port}", "mark": self.board.revision.partition("-")[0]},
        )
        self.killing.take_up()
        self._listener.listen(BACKLOG)
        self.loop.add_reader(self._listener.fileno(), self._accept)
        self._pulse = Pulse(self.loop, self._beat, period_s=BEAT_S)
        self._write_flagd()

    # Accepting

    def _accept(self) -> None:
        for _ in range(ACCEPTS_PER_WAKE):
            try:
                sock, peer = self._listener.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                if error.errno in (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM):
                    self._make_room()
                    return
                raise
            if len(self.clients) >= self._most:
                self._make_room()
            if self.ending or len(self.clients) >= self._most:
                sock.close()
                continue
            sock.setblocking(False)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            Client(self, sock, self._serve_public, loopback=from_loopback(peer))

    def _make_room(self) -> None:
        """No place is left: who has been idle for longest goes."""
        idle = sorted((one for one in self.clients if not one.held), key=lambda one: one.deadline_ns)
        for one in idle[:16]:
            one.close()

    def _accept_control(self) -> None:
        assert self._control is not None
        try:
            sock, _ = self._control.accept()
        except OSError:
            return
        sock.setblocking(False)
        if peer_uid(sock) not in (os.geteuid(), 0):
            sock.close()
            return
        serve: Serve = self._control_orders.serve
        Client(self, sock, serve, loopback=True)

    def _serve_public(self, client: Client, asked: Any) -> Reply | None:
        return self.answers.serve(client, asked)

    # Evidence

    def record(self, event: str, fields: dict[str, Any]) -> bool:
        """Write one line; False when that was not possible."""
        if self._writer is None:
            return True
        try:
            self._writer.write(event, **fields)
        except (OSError, Problem):
            self.lost_lines += 1
            if event in ("fault_lifted", "flag_switched") and len(self._owed) < 1_000:
                self._owed.append((event, fields))
            if self.board.on:
                self.board.lift_all("failed")
            return False
        if self._owed:
            # There is room again. What is owed is written late rather than never; what was lost stays counted.
            owed, self._owed = self._owed, []
            for late, late_fields in owed:
                self.record(late, late_fields)
        return True

    def _tell_switch(self, name: str, state: str, on: On | None, by: str, why: str) -> bool:
        flag = self.board.flags[name]
        fields: dict[str, Any] = {"flag": name, "kind": flag.kind, "state": state, "by": by, "why": why}
        fields["revision"] = self.board.revision
        if on is not None:
            fields |= {**on.told(), "until_ns": None if on.until_ns is None else on.until_ns - self.settings.mono0_ns}
        else:
            fields |= {"window": None, "until_ns": None}
        if flag.kind == "kill":
            fields["tools"] = list(flag.params.get("tools", ()))
        if self.settings.say == "lines":
            print(one_line(screen_text(f"{name} {state} by {by}: {why}")), file=sys.stderr, flush=True)
        return self.record("flag_switched", fields)

    # The control socket's orders

    def state(self) -> dict[str, Any]:
        board = self.board
        board.expire()
        host, port = self.address
        latest = next(reversed(board.windows.values()), None)
        now_ns = time.monotonic_ns()
        return {
            "mode": "pass" if latest is None else "flags",
            "fault": None if latest is None else "flags",
            "window": None if latest is None else latest.window,
            "deadline_in_s": None if latest is None else max(0, latest.deadline_ns - now_ns) / 1e9,
            "on": [
                {"flag": on.flag.name, "window": on.window, "left_s": board.left_s(on), "met": self._met(on)}
                for on in board.on.values()
            ],
            "killed": sorted(board.killed),
            "met": sum(self._met(on) for on in board.on.values()),
            "revision": board.revision,
            "workers": self.answers.workers()["workers"],
            "evaluations": self.answers.evaluations,
            "evidence": "lost" if self.lost_lines else "kept",
            "lost_lines": self.lost_lines,
            "failures": self.failures,
            "lingering": 0,
            "listen": f"{host}:{port}",
            "pid": os.getpid(),
        }

    def _met(self, on: On) -> int:
        return self.roster.total.get((on.flag.name, on.window), 0)

    def inject(self, order: Inject) -> dict[str, Any]:
        held = self._put_on(order.window, order.flags, order.ttl_s, "the conductor")
        return {"injected_ns": held.injected_ns - self.settings.mono0_ns, "revision": self.board.revision}

    def _put_on(self, window: str, wanted: tuple[Switched, ...], ttl_s: float, by: str) -> Window:
        if self.ending:
            raise OSError(errno.ESHUTDOWN, "the server is ending")
        held, fresh = self.board.prepare(window, wanted, ttl_s, by)
        # The line before the deed: a fault that nobody can prove must not happen.
        told = [on.told() for on in fresh]
        for one in told:
            one.pop("window")
        if len(msgspec.json.encode(told)) > ROOM_BYTES:
            told = [{name: value for name, value in one.items() if name != "params"} for one in told]
        if not self.record("fault_injected", {"window": window, "fault": "flags", "flags": told, "by": by}):
            raise OSError(errno.ENOSPC, "the line of the injection was not written; nothing was put on")
        self.board.put_on(held, fresh)
        for on in fresh:
            self._tell_switch(on.flag.name, "on", on, by, "ordered")
        return held

    def renew(self, order: Renew) -> dict[str, Any] | None:
        return {"deadline_in_s": order.ttl_s} if self.board.renew(order.window, order.ttl_s) else None

    def lift(self, order: Lift) -> dict[str, Any]:
        lifted_ns = self.board.lift(order.window, order.why[:200])
        return {"lifted_ns": None if lifted_ns is None else lifted_ns - self.settings.mono0_ns}

    def quit(self) -> dict[str, Any]:
        self.loop.call_soon(self.stop, "ordered")
        return {"ending": True}

    # The public port's orders

    def enable(self, name: str, order: Enable) -> dict[str, Any]:
        board = self.board
        board.expire()
        on = board.on.get(name)
        if on is not None:
            flag = on.flag
            wanted = switched(name, order)
            if (
                wanted.aim(flag) != on.aim
                or wanted.shape(flag, place="order", path=("params",)) != on.shape
                or on.by == "the conductor"
            ):
                raise ValueError(f"{name} is on already, in window {on.window}, as {on.by} wanted it; disable it first")
            return {"flag": name, "state": "on", "window": on.window, "already": True, "left_s": board.left_s(on)}
        ttl_s = order.ttl_s
        if ttl_s is None:
            registered = board.flags.get(name)
            ttl_s = min(MAX_TTL_S, (registered.auto_off_s if registered is not None else None) or MAX_TTL_S)
        self._enabled += 1
        window = f"enabled-{board.revision.partition('-')[0]}-{self._enabled}"
        held = self._put_on(window, (switched(name, order),), ttl_s, order.by)
        return {
            "flag": name,
            "state": "on",
            "window": held.window,
            "left_s": board.left_s(board.on[name]),
            "revision": board.revision,
        }

    def disable(self, name: str, order: Disable) -> dict[str, Any]:
        board = self.board
        if name not in board.flags:
            raise unknown_flag(name, board.flags, place="order")
        was = board.switch_off(name, f"disabled by {order.by}")
        return {"flag": name, "state": board.state(name), "was": "on" if was else "off", "revision": board.revision}

    def kill(self, name: str, order: Lifts, client: Client) -> Reply | None:
        return self.killing.kill(name, order, client)

    def restore(self, name: str, order: Lifts, client: Client) -> Reply | None:
        return self.killing.restore(name, order, client)

    def heard(self) -> None:
        self._asked_ns = time.monotonic_ns()
        self.killing.heard(self._asked_ns)

    def hold(self, client: Client, revision: str, wait_s: float, make: Callable[[float], Reply]) -> Reply | None:
        now_ns = time.monotonic_ns()
        if revision != self.board.revision or not wait_s or self.ending:
            return make(0.0)
        self._holding[client] = (revision, now_ns, now_ns + round(wait_s * 1e9), make)
        client.on_gone = partial(self._holding.pop, client, None)
        return None

    def failed(self, error: Exception) -> None:
        self.failures += 1
        if self.failures <= 20:
            print(one_line(screen_text(f"an error of ours: {error!r}"[:500])), file=sys.stderr, flush=True)

    # Changes

    def _changed(self) -> None:
        self.answers.changed()
        if not self._flush_due:
            self._flush_due = True
            self.loop.call_soon(self._flush)

    def _flush(self) -> None:
        self._flush_due = False
        self._release(time.monotonic_ns())
        self._write_flagd()

    def _release(self, now_ns: int) -> None:
        revision = self.board.revision
        for client, (held, since_ns, until_ns, make) in tuple(self._holding.items()):
            if held != revision or now_ns >= until_ns or self.ending:
                del self._holding[client]
                client.answer(make((now_ns - since_ns) / 1e9))

    def _went_off(self, on: On, why: str) -> None:
        self._tell_switch(on.flag.name, "off", on, on.by, why)

    def _lifted(self, window: Window, why: str) -> None:
        lifted_ns = (window.lifted_ns or 0) - self.settings.mono0_ns
        self.record("fault_lifted", {"window": window.window, "why": why, "lifted_ns": lifted_ns})

    def _write_flagd(self) -> None:
        path = self.settings.flagd_path
        if path is None:
            return
        temporary = f"{path}.{secrets.token_hex(4)}"
        try:
            with open(temporary, "w", encoding="utf-8") as file:  # noqa: PTH123  # a sibling that takes its place
                json.dump(flagd(self.board), file, indent=2)
            os.replace(temporary, path)  # noqa: PTH105  # likewise
        except OSError as error:
            with contextlib.suppress(OSError):
                os.unlink(temporary)  # noqa: PTH108  # likewise
            print(f"{path}: {error.strerror}; the flagd file is stale", file=sys.stderr, flush=True)

    # Time

    def _beat(self, passed: int) -> None:
        now_ns = time.monotonic_ns()
        self.board.pass_time(passed * BEAT_S)
        self._release(now_ns)
        self.killing.settle(now_ns)
        self.roster.sweep(now_ns, self.settings.lost_s)
        for client in [one for one in self.clients if one.deadline_ns < now_ns]:
            client.on_deadline()
        owner = self.settings.owner_pid
        if owner is not None and not self._owner_gone and os.getppid() != owner:
            self._owner_gone = True
            self.board.lift_all("owner gone")
        if self._owner_gone and now_ns - self._asked_ns > self.settings.orphan_grace_s * 1e9:
            self.stop("orphaned")
        if self.ending:
            self._stopping_beats += passed
            if self._stopping_beats * BEAT_S >= 0.2:
                self._end()

    # The end

    def stop(self, why: str) -> None:
        """Lift all, answer what is held, end."""
        if self.ending:
            return
        self._why = why
        self.board.lift_all("signal" if why.startswith("SIG") else "exit")
        self.ending = True
        self.loop.remove_reader(self._listener.fileno())
        now_ns = time.monotonic_ns()
        self._release(now_ns)
        self.killing.stop()

    def _end(self) -> None:
        if self.done.done():
            return
        if self._pulse is not None:
            self._pulse.close()
        self.record("flags_ended", {"why": self._why, "evaluations": self.answers.evaluations})
        for client in tuple(self.clients):
            client.close()
        if self._control is not None:
            self.loop.remove_reader(self._control.fileno())
            self._control.close()
            with contextlib.suppress(OSError):
                Path(self.settings.control_path or "").unlink()
        self._listener.close()
        if self._writer is not None:
            with contextlib.suppress(Problem):
                self._writer.sync()
            self._writer.close()
        self.killing.close()
        self.done.set_result(2 if self.lost_lines else 0)


async def _serve(settings: Settings, ready: Callable[[Server], None] | None) -> int:
    loop = asyncio.get_running_loop()
    server = Server(settings, loop)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        if number is signal.SIGHUP and signal.getsignal(number) is signal.SIG_IGN:
            continue  # somebody wants it to outlive the terminal (`nohup`)
        loop.add_signal_handler(number, server.stop, signal.Signals(number).name)
    server.start()
    if ready is not None:
        ready(server)
    return await server.done


def run(settings: Settings, ready: Callable[[Server], None] | None = None) -> int:
    """Run one server until it is told to end; the exit code. `ready` is called with the Server once it listens."""
    with asyncio.Runner(loop_factory=make_loop) as runner:
        return runner.run(_serve(settings, ready))
