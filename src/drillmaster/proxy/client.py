"""One client connection: heads in, one exchange at a time, an orderly end."""

import socket

from drillmaster.http1 import Malformed, cut_head
from drillmaster.proxy.exchange import Exchange
from drillmaster.proxy.hub import NEVER_NS, Hub, mono_ns
from drillmaster.proxy.peer import Ending, head_of
from drillmaster.wire import Wire

__all__ = ["Client"]

LINGER_BYTES = 16 * 1024 * 1024
LINGER_NS = 2_000_000_000


class Client:
    """One accepted connection."""

    __slots__ = ("_lingered_bytes", "_pumping", "buf", "deadline_ns", "ending", "ex", "hub", "id", "nth", "wire")

    def __init__(self, hub: Hub, sock: socket.socket) -> None:
        self.hub = hub
        self.id = hub.next_conn()
        self.nth = 0
        self.buf = b""
        self.ex: Exchange | None = None
        self.ending = False
        """We have ended our side and only wait for the client to end its own."""
        self._pumping = False
        self._lingered_bytes = 0
        self.deadline_ns = mono_ns() + hub.head_ns
        self.wire = Wire(hub.loop, sock, self)
        hub.clients.add(self)

    # wire.Owner

    def on_open(self) -> None:
        """Accepted connections are open."""

    def on_bytes(self, data: bytes) -> None:
        if self.hub.switch.current is not None:
            self.hub.switch.expire()
        ex = self.ex
        if ex is not None:
            ex.from_client(data)
            return
        if self.ending:
            self._lingered_bytes += len(data)
            if self._lingered_bytes > LINGER_BYTES:
                self.close()
            return
        self.buf = self.buf + data if self.buf else data
        self.pump()

    def on_end(self) -> None:
        ex = self.ex
        if ex is not None:
            ex.client_gone()
        self.close()

    def on_lost(self, why: str) -> None:
        ex = self.ex
        if ex is not None:
            ex.client_gone()
        self.hub.forget(self)

    def on_drained(self) -> None:
        if self.ex is not None:
            self.ex.client_drained()

    # Requests

    def pump(self) -> None:
        """Begin the next request, if its head is here and no other is under way."""
        if self._pumping:
            return
        self._pumping = True
        try:
            while self.ex is None and self.buf and not self.ending and not self.wire.closed:
                if self.buf[:2] == b"\r\n":  # one empty line before a request is forgiven (RFC 9112, 2.2)
                    self.buf = self.buf[2:]
                    continue
                try:
                    end = cut_head(self.buf)
                    if not end:
                        self.deadline_ns = min(self.deadline_ns, mono_ns() + self.hub.head_ns)
                        return
                    head = self.hub.requests.request(self.buf[:end])
                except Malformed as bad:
                    self.refuse(400, bad.why)
                    return
                self.buf = self.buf[end:]
                self.nth += 1
                self.deadline_ns = NEVER_NS
                self.ex = Exchange(self, head)
                self.ex.start()
        finally:
            self._pumping = False

    def refuse(self, status: int, why: str) -> None:
        """Answer a head that is no request, and end the connection: where its end would be is anybody's guess."""
        self.hub.counters.refused_heads += 1
        answer = self.hub.last_dialect.error(status, why.replace(" ", "_"), request_id=f"req_{self.id}-{self.nth}")
        self.wire.send(head_of(answer, keep_alive=False) + answer.body)
        self.linger()

    def next_request(self, how: Ending) -> None:
        """The exchange is over; go on as it says."""
        self.ex = None
        if self.wire.closed:
            self.hub.forget(self)
        elif how == "keep":
            self.deadline_ns = mono_ns() + self.hub.idle_ns
            self.wire.resume()
            if self.buf:
                self.pump()
        elif how == "linger":
            self.linger()
        elif how == "rst":
            self.abort()
        else:
            self.end()

    def end(self) -> None:
        """Close in order: what is written arrives, then FIN."""
        if self.wire.backlog_bytes or self.buf:
            self.linger()
        else:
            self.close()

    def linger(self) -> None:
        """End our side; read and forget what still comes, or the kernel answers it with a RST that eats our answer."""
        if self.wire.closed:
            return
        self.ending = True
        self.buf = b""
        self.deadline_ns = mono_ns() + LINGER_NS
        self.wire.finish()
        self.wire.resume()

    def leave(self) -> None:
        """Close at the next end of an answer, or now where none is under way: whoever wants more connects anew."""
        if self.ex is not None:
            self.ex.keep = False
        elif self.buf:
            self.abort()
        elif not self.ending:
            self.close()

    def close(self) -> None:
        self.wire.close()
        self.hub.forget(self)

    def abort(self) -> None:
        self.wire.abort()
        self.hub.forget(self)

    def on_deadline(self) -> None:
        """The sweep found `deadline_ns` in the past."""
        ex = self.ex
        if ex is not None:
            ex.on_deadline()
            return
        if not self.ending and (self.buf or not self.nth):
            self.hub.counters.head_deadlines += 1
        self.close()
