"""A fault's script at work on one accepted connection, before any request was read (connection scope).

It may read and send raw bytes, wait and close. When it returns the connection is served as if nothing had been; when it
is lifted it is reset, or goes on for at most `linger_s`, as scripts of exchanges do.
"""

import asyncio
import socket
import sys
import time
from collections import deque
from collections.abc import Callable
from functools import partial

from drillmaster.faults import Action, Close, Cx, Data, End, Event, Late, Lifted, Lost, Raw, Read, Script, Send, Wait
from drillmaster.proxy.client import Client
from drillmaster.proxy.hub import NEVER_NS, Hub
from drillmaster.proxy.switch import Injection
from drillmaster.wire import HIGH_BYTES, Wire

__all__ = ["ConnectionDrive"]

MAX_STEPS = 256


class ConnectionDrive:
    """One script, one connection."""

    def __init__(
        self, hub: Hub, sock: socket.socket, injection: Injection, hand_over: Callable[[socket.socket, bytes], Client]
    ) -> None:
        """`hand_over` makes an ordinary client of the socket, with the bytes that were read and not used."""
        self.hub = hub
        self.injection = injection
        self.id = hub.next_conn()
        self.deadline_ns = NEVER_NS
        self._hand_over = hand_over
        self._events: deque[Event] = deque()
        self._queued = 0
        self._parked = ""
        self._timer: asyncio.TimerHandle | None = None
        self._end_ns = time.monotonic_ns() + round(hub.limits.hold_s * 1e9)
        self._acted = self._over = self._lifted = self._stepping = False
        self._used_bytes = 0
        self._sock = sock
        self.wire = Wire(hub.loop, sock, self)
        hub.clients.add(self)
        hub.running.add(self)
        hub.counters.held += 1
        hub.counters.in_flight += 1
        self._armed = injection.armed[0]
        self._script: Script = self._armed.fault.script(
            Cx(
                request=None,
                conn=self.id,
                nth=0,
                dialect=hub.last_dialect,
                make_rng=partial(hub.rng, injection, self.id, 0),
                now_ns=hub.now_ns,
                cell=self._armed.cell,
                wall_ns=hub.wall_ns,
                injected_ns=injection.injected_ns,
            )
        )
        self._step(None)

    # wire.Owner

    def on_open(self) -> None:
        """Accepted connections are open."""

    def on_bytes(self, data: bytes) -> None:
        self._events.append(Data(data))
        self._queued += len(data)
        if self._queued > HIGH_BYTES:
            self.wire.pause()
        self._serve()

    def on_end(self) -> None:
        self._events.append(End())
        if self._parked == "read":
            self._serve()
        else:
            self._finish("fin")

    def on_lost(self, why: str) -> None:
        self._events.append(Lost(why))
        self._finish("fin")

    def on_drained(self) -> None:
        if self._parked == "drain":
            self._wake(None)

    # hub.Running, hub.Swept

    def on_deadline(self) -> None:
        self._finish("rst")

    def lift(self) -> None:
        if self._lifted or self._over:
            return
        self._lifted = True
        self._end_ns = time.monotonic_ns() + round(self.injection.linger_s * 1e9)
        self._wake(Lifted())

    def sweep(self, now_ns: int) -> None:
        if now_ns >= self._end_ns:
            self._finish("rst")

    # The script

    def _serve(self) -> None:
        if self._parked == "read" and self._events:
            self._wake(self._next())

    def _next(self) -> Event:
        event = self._events.popleft()
        if isinstance(event, Data):
            self._queued -= len(event.body)
            self._used_bytes += len(event.body)
            self.wire.resume()
        else:
            self._events.append(event)  # the end stays the end
        return event

    def _wake(self, value: Event | Lifted) -> None:
        self._parked = ""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._step(value)

    def _park(self, on: str, seconds: float) -> None:
        self._parked = on
        self._timer = self.hub.loop.call_later(min(max(seconds, 0.0), self.hub.limits.hold_s), self._timed_out)

    def _timed_out(self) -> None:
        on, self._parked, self._timer = self._parked, "", None
        self._step(Late() if on == "read" else None)

    def _step(self, value: Event | Lifted) -> None:
        self._stepping = True
        try:
            self._run(value)
        finally:
            self._stepping = False
        if self._over:
            self._script.close()

    def _run(self, value: Event | Lifted) -> None:
        for _ in range(MAX_STEPS):
            if self._over:
                return
            try:
                action = self._script.throw(value) if isinstance(value, Lifted) else self._script.send(value)
                if self._lifted and self.injection.linger_s <= 0:
                    self._finish("rst")
                    return
                parked, value = self._do(action)
            except StopIteration:
                self._let_go()
                return
            except Lifted:
                self._finish("rst")
                return
            except Exception as error:  # noqa: BLE001 - a script is foreign code; it must not hold a client
                print(f"fault {self.injection.tag}: its script raised {error!r}; lifted", file=sys.stderr, flush=True)
                self.hub.counters.script_errors += 1
                self._finish("rst")
                if self.hub.switch.current is self.injection:
                    self.hub.switch.lift("failed")
                return
            if parked:
                return
        self._park("wait", 0.0)

    def _do(self, action: Action) -> tuple[bool, Event]:
        match action:
            case Read(side="client", within_s=within_s):
                if self._events:
                    return False, self._next()
                self._park("read", within_s if within_s is not None else self.hub.limits.hold_s)
            case Send(part=Raw(wire=data) | Data(body=data)):
                self._act()
                self.wire.send(data)
                if self.wire.backlog_bytes <= HIGH_BYTES:
                    return False, None
                self._park("drain", self.hub.limits.hold_s)
            case Wait(seconds=seconds):
                self._act()
                self._park("wait", self.hub.limits.hold_s if seconds is None else seconds)
            case Close(how=how):
                self._act()
                if how == "half":
                    self.wire.finish()
                    return False, None
                self._finish(how)
            case other:
                raise RuntimeError(f"{type(other).__name__} is not for connection scope")
        return True, None

    def _act(self) -> None:
        """The first action that the client could feel: the fault has met this connection."""
        if self._acted:
            return
        self._acted = True
        injection = self.injection
        injection.met += 1
        self._armed.met += 1
        injection.client_bytes += self._used_bytes
        self.hub.counters.met += 1
        self.hub.record(
            "fault_met",
            {
                "attempt": None,
                "conn": self.id,
                "window": injection.window,
                "client_bytes": self._used_bytes,
                "proof": "connections",
            },
        )
        self.hub.say(injection)

    def _release(self) -> None:
        self._over = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        hub = self.hub
        hub.running.discard(self)
        hub.forget(self)
        hub.counters.held -= 1
        hub.counters.in_flight -= 1

    def _finish(self, how: str) -> None:
        if self._over:
            return
        self._release()
        if how == "rst":
            self.wire.abort()
        else:
            self.wire.close()
        # A script that has just been sent something is closed by the step that did it.
        if not self._stepping:
            self._script.close()

    def _let_go(self) -> None:
        """The script has no more to say: an ordinary client from here on, if nothing of the connection was used."""
        if self._acted or self._used_bytes:
            self._finish("fin")
            return
        data = b"".join(event.body for event in self._events if isinstance(event, Data))
        ended = any(isinstance(event, End) for event in self._events)
        self._release()
        self.wire.pause()
        if ended:
            self.wire.close()
            return
        self._hand_over(self._sock, data)
