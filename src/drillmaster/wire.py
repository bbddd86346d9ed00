"""One non-blocking socket class, plain and TLS alike, on the event loop's readers and writers.

No transports, no protocols, no streams, no task a connection: `Wire` calls its owner when bytes came, when the peer
ended, when it was lost. TLS is an `ssl.SSLSocket` driven without blocking, handshake and shutdown included: asyncio's
and uvloop's own TLS cost up to twice as much CPU a request (docs/decisions).

1. After `close` or `abort` the owner is not called again.
2. `send` never calls the owner: an error that a write meets is told from the loop, so that callers are not re-entered.
3. What could not be written at once is kept and counted in `backlog_bytes`; whoever feeds a wire watches it, and stops
   reading the other side above `HIGH_BYTES` until `on_drained`.
4. `send_soon` is for whole messages that end what their sender had to do: where other readers of the poll's round are still
   to be called, it is written with what those write (`Batch`), and before anything else that is asked of the wire.
"""

import asyncio
import contextlib
import errno
import os
import socket
import ssl
import struct
from collections import deque
from collections.abc import Callable
from typing import Protocol

__all__ = ["HIGH_BYTES", "READ_BYTES", "Address", "Batch", "Owner", "Wire", "dial"]

READ_BYTES = 65_536
HIGH_BYTES = 262_144
LOW_BYTES = 65_536

Address = tuple[socket.AddressFamily, tuple[str, int] | tuple[str, int, int, int] | str]

_RST_ON_CLOSE = struct.pack("ii", 1, 0)
# SSLWantReadError and SSLWantWriteError are OSErrors of their own; they are told apart where it matters.
_AGAIN = (BlockingIOError, InterruptedError, ssl.SSLWantReadError, ssl.SSLWantWriteError)


class Owner(Protocol):
    """Who a wire belongs to. Called from the loop, one call at a time."""

    def on_open(self) -> None:
        """Connected, and for TLS the peer's certificate was accepted."""

    def on_bytes(self, data: bytes) -> None:
        """Bytes came; never empty."""

    def on_end(self) -> None:
        """The peer will send no more (FIN; for TLS its close_notify)."""

    def on_lost(self, why: str) -> None:
        """The connection is gone: `reset`, `refused`, `cut` (TLS ended without saying so), `tls: ...`, `error: ...`."""

    def on_drained(self) -> None:
        """What was kept for writing has fallen below the low mark."""


class Batch:
    """What wires write together, once a few readers of the poll have been called.

    A write that wakes a sleeping peer costs several times one that does not, on a virtual machine an interrupt through its
    host. Of writes that follow each other at once only the first meets a sleeper. A loop that has `batch` opens it while
    readers are called, and writes it after every few of them.
    """

    __slots__ = ("due", "open")

    def __init__(self) -> None:
        self.open = False
        """Whether more is to come in this round, so that waiting for it is worth it."""
        self.due: list[Wire] = []
        """Those that have something to write."""

    def write(self) -> None:
        """Write what is due; what is sent soon from now on is sent at once."""
        self.open = False
        due, self.due = self.due, []
        for wire in due:
            data, wire._due = wire._due, b""
            if data:  # else something was asked of the wire that had to come behind it
                wire._clear = True
                wire.send(data)


_NEVER_OPEN = Batch()


class Wire:
    """One connected, or connecting, socket."""

    __slots__ = (
        "_batch",
        "_clear",
        "_context",
        "_due",
        "_finishing",
        "_loop",
        "_on_bytes",
        "_out",
        "_owner",
        "_pending",
        "_recv",
        "_send",
        "_server_name",
        "_state",
        "_want_drained",
        "_writing",
        "backlog_bytes",
        "closed",
        "fd",
        "reading",
        "sock",
        "tls",
    )

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        sock: socket.socket,
        owner: Owner,
        *,
        connected: bool = True,
        tls: ssl.SSLContext | None = None,
        server_name: str | None = None,
    ) -> None:
        """Take over `sock`, which is non-blocking. A connected one is plain and reads at once; see `dial` for the rest."""
        self._loop = loop
        self._batch: Batch = getattr(loop, "batch", _NEVER_OPEN)
        self._owner = owner
        self._on_bytes = owner.on_bytes
        self._out: deque[bytes | memoryview] = deque()
        self.backlog_bytes = 0
        self.closed = False
        self._clear = False
        """Whether a send may write at once: open, not finishing, nothing kept, nothing due."""
        self._due = b""
        """What `send_soon` was given, until it is written."""
        self.reading = False
        """Whether the owner is told of bytes; see `pause`."""
        self._writing = self._want_drained = self._finishing = False
        self._context = tls
        self._server_name = server_name
        self.tls: ssl.SSLSocket | None = None
        self.sock = sock
        self.fd = sock.fileno()
        self._recv: Callable[[int], bytes] = sock.recv
        self._pending: Callable[[], int] | None = None
        """With TLS: how many bytes OpenSSL has already decrypted, which no poll sees."""
        self._send: Callable[[bytes | memoryview], int] = sock.send
        if connected:
            self._state = "open"
            self._clear = True
            self.resume()
        else:
            self._state = "connecting"
            self._writer(self._on_connect)

    # Reading

    def pause(self) -> None:
        """Stop reading: the peer feels it once its window is full."""
        if self.reading:
            self.reading = False
            self._loop.remove_reader(self.fd)

    def resume(self) -> None:
        """Read again."""
        if not self.reading and not self.closed and self._state == "open":
            self.reading = True
            self._loop.add_reader(self.fd, self._on_readable)
            if self._pending is not None and self._pending():
                self._loop.call_soon(self._on_readable)

    def _on_readable(self) -> None:
        # A call that was queued before a pause or a close comes too late.
        if not self.reading:
            return
        try:
            data = self._recv(READ_BYTES)
        except _AGAIN as again:
            if isinstance(again, ssl.SSLWantWriteError):
                self._writer(self._on_writable)
            return
        except OSError as error:
            self._lost(error)
            return
        try:
            if self._pending is not None:
                self._read_decrypted(data, self._pending)
            elif data:
                self._on_bytes(data)
            else:
                self._ended()
        except Exception:
            self._break_off()
            raise

    def _read_decrypted(self, data: bytes, pending: Callable[[], int]) -> None:
        while True:
            if not data:
                self._ended()
                return
            self._on_bytes(data)
            if not self.reading or not pending():
                return
            try:
                data = self._recv(READ_BYTES)
            except _AGAIN:
                return
            except OSError as error:
                self._lost(error)
                return

    def _break_off(self) -> None:
        """Our own code raised on what came: this connection ends, or the next bytes would raise again, and starve the rest."""
        if not self.closed:
            self._release()
            with contextlib.suppress(Exception):
                self._owner.on_lost("error: ours")

    def _ended(self) -> None:
        self.pause()
        self._owner.on_end()

    # Writing

    def send(self, data: bytes) -> None:
        """Write, or keep for writing. On a closed wire it does nothing."""
        if not self._clear:
            if self._due:
                self._batch.write()
                self.send(data)
            elif not self.closed and not self._finishing:
                self._keep(data)
            return
        try:
            sent = self._send(data)
        except _AGAIN:
            sent = 0
        except OSError as error:
            if not self.closed:
                self._loop.call_soon(self._lost, error)
            return
        if sent < len(data):
            self._keep(memoryview(data)[sent:] if sent else data)

    def send_soon(self, data: bytes) -> None:
        """Write with what other readers of this round write (rule 4), or now, where nobody else has anything to do."""
        if self._clear and self._batch.open:
            self._clear = False
            self._due = data
            self._batch.due.append(self)
        else:
            self.send(data)

    def _keep(self, data: bytes | memoryview) -> None:
        self._clear = False
        self._out.append(data)
        self.backlog_bytes += len(data)
        if self.backlog_bytes > HIGH_BYTES:
            self._want_drained = True
        if self._state == "open":
            self._writer(self._on_writable)

    def _on_writable(self) -> None:
        if self.closed:
            return
        out = self._out
        try:
            while out:
                sent = self._send(out[0])
                self.backlog_bytes -= sent
                if sent < len(out[0]):
                    out[0] = memoryview(out[0])[sent:]
                    break
                out.popleft()
        except ssl.SSLWantReadError:
            # The peer speaks first; the reader's next bytes carry the handshake along, then we try again.
            self._no_writer()
            self._loop.call_later(0.005, self._retry_write)
            return
        except _AGAIN:
            return
        except OSError as error:
            self._lost(error)
            return
        if not out:
            self._no_writer()
            self._clear = not self._finishing
        if self._want_drained and self.backlog_bytes <= LOW_BYTES:
            self._want_drained = False
            self._owner.on_drained()
        if not out and self._finishing:
            self._shut()

    def _retry_write(self) -> None:
        if not self.closed and self._out:
            self._writer(self._on_writable)

    def _writer(self, call: Callable[[], None]) -> None:
        if not self._writing:
            self._writing = True
            self._loop.add_writer(self.fd, call)

    def _no_writer(self) -> None:
        if self._writing:
            self._writing = False
            self._loop.remove_writer(self.fd)

    # Opening

    def _on_connect(self) -> None:
        if self.closed:
            return
        failed = self.sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if failed:
            self._lost(OSError(failed, os.strerror(failed)))
            return
        self._no_writer()
        if self._context is None:
            self._opened()
            return
        try:
            # The SSLSocket takes the descriptor over; its number stays.
            tls = self._context.wrap_socket(
                self.sock, server_hostname=self._server_name, do_handshake_on_connect=False, suppress_ragged_eofs=False
            )
        except OSError as error:
            self._lost(error)
            return
        self.sock = self.tls = tls
        # The socket's own methods ask first whether it is closed, which we know, at two more calls each.
        inner = getattr(tls, "_sslobj", None) or tls
        self._recv, self._send, self._pending = inner.read, inner.write, inner.pending
        self._state = "handshake"
        self._on_handshake()

    def _on_handshake(self) -> None:
        if self.closed or self._state != "handshake" or self.tls is None:
            return
        try:
            self.tls.do_handshake()
        except ssl.SSLWantReadError:
            self._no_writer()
            if not self.reading:
                self.reading = True
                self._loop.add_reader(self.fd, self._on_handshake)
            return
        except ssl.SSLWantWriteError:
            self._writer(self._on_handshake)
            return
        except OSError as error:
            self._lost(error)
            return
        self._no_writer()
        if self.reading:
            self.reading = False
            self._loop.remove_reader(self.fd)
        self._opened()

    def _opened(self) -> None:
        self._state = "open"
        self.resume()
        if self._out:
            self._writer(self._on_writable)
        else:
            self._clear = not self._finishing
        self._owner.on_open()

    # Closing

    def finish(self) -> None:
        """Write what is kept, then end our side (FIN); the owner goes on reading, and closes when the peer does."""
        if self.closed or self._finishing:
            return
        if self._due:
            self._batch.write()
        self._finishing = True
        self._clear = False
        if not self._out:
            self._shut()

    def _shut(self) -> None:
        with contextlib.suppress(OSError):
            self.sock.shutdown(socket.SHUT_WR)

    def close(self) -> None:
        """Close at once: FIN, after TLS its close_notify. Bytes kept for writing are dropped."""
        if self.closed:
            return
        if self._due:
            self._batch.write()
        if self.tls is not None and self._state == "open":
            with contextlib.suppress(OSError, ValueError):
                self.tls.unwrap()
        self._release()

    def abort(self) -> None:
        """Close with a RST."""
        if self.closed:
            return
        if self._due:
            self._batch.write()
        with contextlib.suppress(OSError):
            self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RST_ON_CLOSE)
        self._release()

    def _release(self) -> None:
        self.closed = True
        self._clear = False
        self._due = b""
        self._state = "closed"
        if self.reading:
            self.reading = False
            self._loop.remove_reader(self.fd)
        self._no_writer()
        self._out.clear()
        self.backlog_bytes = 0
        with contextlib.suppress(OSError):
            self.sock.close()

    def _lost(self, error: OSError) -> None:
        if self.closed:
            return
        self._release()
        self._owner.on_lost(_why(error))


def _why(error: OSError) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"tls: {error.verify_message}"
    if isinstance(error, ssl.SSLEOFError):
        return "cut"
    if isinstance(error, ssl.SSLError):
        return f"tls: {error.reason or 'handshake failed'}"
    if error.errno in (errno.ECONNRESET, errno.EPIPE):
        return "reset"
    if error.errno == errno.ECONNREFUSED:
        return "refused"
    return f"error: {error.strerror or type(error).__name__}"


def dial(
    loop: asyncio.AbstractEventLoop,
    address: Address,
    owner: Owner,
    *,
    tls: ssl.SSLContext | None = None,
    server_name: str | None = None,
) -> Wire:
    """Begin to connect. The owner hears `on_open` or `on_lost`. Raises OSError where no socket can be had."""
    family, where = address
    sock = socket.socket(family, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
    try:
        if family != socket.AF_UNIX:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        failed = sock.connect_ex(where)
        if failed not in (0, errno.EINPROGRESS):
            raise OSError(failed, os.strerror(failed))
        return Wire(loop, sock, owner, connected=False, tls=tls, server_name=server_name)
    except BaseException:
        sock.close()
        raise
