"""The proxy's listener, and what faults of port scope do to it.

1. The descriptor may be shared: the conductor holds the socket and hands it to each proxy. Closing ours would leave the
   port listening with nobody behind it, which is a hang and no refusal. So the socket itself is taken out of listening
   (`shutdown`, which Linux allows on a listener) and put back (`listen`); no other process need know.
2. The port stays ours meanwhile: the socket stays bound, or is bound again at once where the kernel had chosen the port.
3. A SYN goes unanswered while the queue of accepted connections is full (and `tcp_abort_on_overflow` is 0): the queue is
   cut to one place, and we sit in it ourselves.
4. Neither is taken for done because it was ordered: a probe of our own has to be refused, or to stay unanswered. A fault
   whose probe fails is lifted.
5. A proxy that is killed in between leaves a socket that does not listen; its successor's first `open` mends that.
"""

import asyncio
import contextlib
import errno
import os
import socket
import sys
from collections.abc import Callable
from typing import Literal

from drillmaster.faults import Refuse, Script, Wait

__all__ = ["BACKLOG", "Door", "PortDrive"]

BACKLOG = 1_024
SILENT_PROBE_S = 0.25
REFUSED_PROBE_S = 0.01
MAX_STEPS = 1_000

How = Literal["refused", "silent"]


class Door:
    """The listener. `on_knock` is called when there is somebody to accept."""

    def __init__(self, loop: asyncio.AbstractEventLoop, listener: socket.socket, on_knock: Callable[[], None]) -> None:
        self._loop = loop
        self.listener = listener
        self._on_knock = on_knock
        self._address = listener.getsockname()
        self._own: list[socket.socket] = []
        """Our own connections: the one that fills the queue, and probes."""
        self._heard = False
        self.shut: How | None = None

    @property
    def address(self) -> tuple[str, int]:
        """Where clients connect, also while nobody can."""
        host, port = self._address[:2]
        return host, port

    def open(self) -> None:
        """Listen, and hear who knocks. Raises OSError where somebody else has taken the port (`SO_REUSEADDR`)."""
        for own in self._own:
            own.close()
        self._own.clear()
        self.listener.listen(BACKLOG)
        self.shut = None
        self._hear()

    def _hear(self) -> None:
        if not self._heard:
            self._heard = True
            self._loop.add_reader(self.listener.fileno(), self._on_knock)

    def deafen(self) -> None:
        """Accept nobody more; whoever connects waits in the queue."""
        if self._heard:
            self._heard = False
            with contextlib.suppress(OSError, ValueError):
                self._loop.remove_reader(self.listener.fileno())

    def refuse(self) -> None:
        """Stop listening: connections are refused. Raises OSError."""
        self.deafen()
        self.shut = "refused"
        self.listener.shutdown(socket.SHUT_RD)
        try:
            self.listener.bind(self._address)
        except OSError as error:
            # EINVAL: it is bound still, since the port was named and not chosen by the kernel.
            if error.errno != errno.EINVAL:
                raise

    def silence(self) -> None:
        """Fill the queue: SYNs are dropped. Raises OSError."""
        self._on_knock()  # whoever stands in the queue already is served
        self.deafen()
        self.shut = "silent"
        self.listener.listen(0)
        self._knock()

    def _knock(self) -> tuple[socket.socket, int]:
        host, *rest = self._address
        sock = socket.socket(self.listener.family, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
        self._own.append(sock)
        failed = sock.connect_ex((_reachable(host), *rest))
        return sock, 0 if failed == errno.EINPROGRESS else failed

    def probe(self, tell: Callable[[str | None], None]) -> None:
        """Connect as a client would, and tell None when that fails as it should, else what happened instead."""
        sock, failed_at_once = self._knock()
        how = self.shut

        def look(failed: int = 0) -> None:
            if self.shut != how or sock not in self._own:
                return  # lifted meanwhile
            failed = failed or sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
            connected = False
            if not failed:
                with contextlib.suppress(OSError):
                    sock.getpeername()
                    connected = True
            self._own.remove(sock)
            sock.close()
            if connected:
                tell("a probe was connected")
            elif how == "refused":
                tell(None if failed == errno.ECONNREFUSED else f"a probe met: {os.strerror(failed)}")
            else:
                tell(None if not failed else f"a probe met: {os.strerror(failed)}")

        if failed_at_once:  # as a refusal on this machine does
            look(failed_at_once)
        else:
            self._loop.call_later(SILENT_PROBE_S if how == "silent" else REFUSED_PROBE_S, look)

    def is_own(self, peer: object) -> bool:
        """Whether an accepted connection is one of ours."""
        for own in self._own:
            with contextlib.suppress(OSError):
                if own.getsockname() == peer:
                    return True
        return False

    def close(self) -> None:
        self.deafen()
        for own in self._own:
            own.close()
        self._own.clear()
        self.listener.close()


def _reachable(host: str) -> str:
    return {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)  # noqa: S104 - compared with, not bound to


class PortDrive:
    """One script of port scope at work on the door."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, door: Door, script: Script, done: Callable[[str | None], None]
    ) -> None:
        """`done` is told None when a probe has met the fault, and else why it cannot be played."""
        self._loop = loop
        self._door = door
        self._script = script
        self._done = done
        self._timer: asyncio.TimerHandle | None = None
        self._over = False

    def step(self) -> None:
        """Play on until the script waits or has refused. Errors of the socket are told to `done`."""
        self._timer = None
        try:
            for _ in range(MAX_STEPS):
                if self._over:
                    return
                match self._script.send(None):
                    case Wait(seconds=seconds):
                        self._open()
                        if seconds is not None:
                            self._timer = self._loop.call_later(seconds, self.step)
                        return
                    case Refuse(how=how):
                        if how == "refused":
                            self._door.refuse()
                        else:
                            self._door.silence()
                        self._door.probe(self._done)
                        return
                    case other:
                        raise RuntimeError(f"{type(other).__name__} is not for port scope")
            raise RuntimeError("a script of port scope never waits")
        except StopIteration:
            self._open()
        except OSError as error:
            self._done(f"the listener: {error.strerror}")
        except Exception as error:  # noqa: BLE001 - a script is foreign code; whatever it raises must not shut the door
            self._done(f"its script raised {error!r}")

    def _open(self) -> None:
        if self._door.shut is not None:
            self._door.open()

    def lift(self) -> None:
        """Open the door at once: the script is closed and may not linger, since new requests have to get through."""
        self._over = True
        if self._timer is not None:
            self._timer.cancel()
        with contextlib.suppress(RuntimeError):  # a script that will not end has no say all the same
            self._script.close()
        try:
            self._open()
        except OSError as error:
            print(f"the port is not ours any more: {error.strerror}; trying again", file=sys.stderr, flush=True)
