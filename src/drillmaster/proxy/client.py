"""One client connection: heads in, one exchange at a time, an orderly end."""

import socket

from drillmaster.http1 import Malformed, RequestHead, cut_head
from drillmaster.proxy.exchange import Exchange
from drillmaster.proxy.hub import NEVER_NS, Hub, mono_ns
from drillmaster.proxy.peer import Ending, head_of
from drillmaster.wire import Wire

__all__ = ["Client"]

LINGER_BYTES = 16 * 1024 * 1024
LINGER_NS = 2_000_000_000


class Client:
    """One accepted connection."""

    __slots__ = (
        "_lingered_bytes",
        "_pumping",
        "buf",
        "deadline_ns",
        "ending",
        "ex",
        "head",
        "hub",
        "id",
        "nth",
        "wire",
    )

    def __init__(self, hub: Hub, sock: socket.socket) -> None:
        self.hub = hub
        self.id = hub.next_conn()
        self.nth = 0
        self.buf = b""
        self.ex: Exchange | None = None
        self.head: RequestHead | None = None
        """The last one: the next is read by what differs."""
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
        if self.ex is not None:
            self.ex.from_client(data)
        elif not self.ending:
            self.pump(self.buf + data if self.buf else data)
        else:
            self._lingered_bytes += len(data)
            if self._lingered_bytes > LINGER_BYTES:
                self.close()

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

    def pump(self, data: bytes) -> None:
        """Begin the requests whose heads are here, one after the other; what cannot begin yet stays in `buf`."""
        hub = self.hub
        self._pumping = True
        try:
            while True:
                if data[0] == 13:  # an empty line before a request is forgiven (RFC 9112, 2.2)
                    while data[:2] == b"\r\n":
                        data = data[2:]
                try:
                    end = cut_head(data)
                    if not end:
                        self.buf = data
                        if data:
                            self.deadline_ns = min(self.deadline_ns, mono_ns() + hub.head_ns)
                        return
                    self.head = head = hub.requests.request(data[:end], self.head)
                except Malformed as bad:
                    self.buf = data
                    self.refuse(400, bad.why)
                    return
                self.buf = b""
                self.nth += 1
                self.deadline_ns = NEVER_NS
                self.ex = ex = Exchange(self, head)
                ex.start(data[end:])
                data = self.buf
                if not data or self._busy():
                    return
        finally:
            self._pumping = False

    def _busy(self) -> bool:
        return self.ex is not None or self.ending or self.wire.closed

    def refuse(self, status: int, why: str) -> None:
        """Answer a head that is no request, and end the connection: where its end would be is anybody's guess."""
        self.hub.counters.refused_heads += 1
        answer = self.hub.last_dialect.error(status, why.replace(" ", "_"), request_id=f"req_{self.id}-{self.nth}")
        self.wire.send(head_of(answer, keep_alive=False) + answer.body)
        self.linger()

    def next_request(self, how: Ending, now_ns: int) -> None:
        """The exchange is over; go on as it says."""
        self.ex = None
        wire = self.wire
        if wire.closed:
            self.hub.forget(self)
        elif how == "keep":
            self.deadline_ns = now_ns + self.hub.idle_ns
            if not wire.reading:
                wire.resume()
            if self.buf and not self._pumping:
                self.pump(self.buf)
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
