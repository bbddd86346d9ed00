"""One connection of the HTTP engine, and the call that is under way on it.

1. The endpoint's addresses are tried in their order, for each connection anew; the time to connect spans all tries.
2. A call is `refused` where no address gave a connection, and `dropped` where this machine had none to give: it was out of
   descriptors, memory or ports.
3. No end of a call begins another within it: whose call is over goes on when all that was ready has been read.
4. A kept connection that ends before one byte of an answer is replaced once where it was closed before the call can have been
   worked on: the other side's kernel never acknowledged it, or the end comes so soon that it was under way. A server that closes
   after its answer and does not say so first ends its own side, then reads what still comes and drops it, as RFC 9112, 9.6 asks:
   no reset tells that apart. Of a call that was taken and came to nothing later, or twice, the failure stays.
5. An answer for the meantime (1xx) is no first byte of the answer. Nobody asked to switch protocols, so a 101 is none of HTTP's,
   as is whatever does not begin like HTTP, however long it may go on.
6. A body that comes packed (gzip, deflate) is looked into, and counted as what it holds. In another coding it stays as it is.
"""

import contextlib
import errno
import fcntl
import select
import socket
import ssl
import struct
import termios
from collections.abc import Callable
from time import monotonic_ns
from typing import TYPE_CHECKING

from drillmaster.dialects import EDGE_BYTES
from drillmaster.evidence.samples import OUTCOMES, pack
from drillmaster.http1 import (
    Body,
    CloseBody,
    Frames,
    Inflater,
    Lines,
    Malformed,
    ResponseHead,
    cut_head,
    has_body,
    inflater,
    response_body,
)

__all__ = ["CODE", "CROSSED_NS", "Conn", "Head"]

if TYPE_CHECKING:  # engine and connection know each other; only one of them can import the other
    from drillmaster.engines.http import Engine

READ_BYTES = 65_536
"""More would be mapped and unmapped at each read: glibc does so from 128 kB on."""
KEEP_PIECES = 16
"""So many pieces of a body are kept before they are joined: the end of it is all that is asked for."""
CODE = {name: number for number, name in enumerate(OUTCOMES)}
SHORT = CODE["short"]
"""The last of the codes that are good answers."""
_OURS = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM, errno.EADDRNOTAVAIL})
"""Why a connection was not opened, where that is this machine's doing."""
_AGAIN = (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError)
_QUOTE = 34
_BEGINS = b"HTTP/"
_UNPACK_BYTES = 1 << 26
"""What one read can hold at most, packed as tightly as zlib can."""
CROSSED_NS = 100_000_000
"""What comes so soon after a call was under way before the call was read."""
ALERT_BYTES = 31
"""Of a TLS alert (RFC 8446, 6; 5246, 7.2) in a record of its own, at most; no call is as short."""


def _why_no_tls(error: OSError) -> str:
    """In OpenSSL's words: `certificate has expired`, `WRONG_VERSION_NUMBER`."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return error.verify_message
    return (error.reason if isinstance(error, ssl.SSLError) else "") or error.strerror or "the connection ended"


class Head:
    """What a response head means, kept for when the same bytes come again."""

    __slots__ = ("coding", "keep_alive", "lines", "resp", "status", "streams", "whole_bytes")

    def __init__(self, resp: ResponseHead, method: str) -> None:
        self.resp = resp
        self.status = resp.status
        self.keep_alive = resp.keep_alive
        self.streams = resp.content_type.startswith((b"text/event-stream", b"application/x-ndjson"))
        self.lines = resp.content_type.startswith(b"application/x-ndjson")
        self.coding = resp.content_encoding
        whole = has_body(resp, method) and not resp.chunked and not self.streams and not self.coding
        self.whole_bytes = resp.length if whole else None
        """How many bytes the body has, where that can be told from the head."""


class Conn:
    """One connection, and the call that is under way on it."""

    __slots__ = (
        "_again",
        "_at",
        "_awaits",
        "_body",
        "_buf",
        "_connect_ns",
        "_down",
        "_due_ns",
        "_engine",
        "_fd",
        "_first_ns",
        "_frames",
        "_gaps",
        "_head",
        "_known",
        "_last_ns",
        "_more",
        "_opened_ns",
        "_out",
        "_payload",
        "_pieces",
        "_recv",
        "_send",
        "_sent_ns",
        "_sock",
        "_tls",
        "_tls_ns",
        "_unpack",
        "_up",
        "_uses",
        "_wire",
        "_word_ns",
        "_words",
        "ended_ns",
        "is_open",
        "since_ns",
    )

    def __init__(self, engine: "Engine") -> None:
        self._engine = engine
        self.is_open = False
        self._uses = 0
        self._fd = -1
        self.ended_ns = 0
        """When the last call was over."""
        self.since_ns = 0
        """The time limit counts from here."""
        self._awaits = False
        """Whether the whole call is out and nothing of its answer has come."""
        self._connect_ns = self._tls_ns = 0
        self._again = 0
        self._known = b""
        """How an event began that carried words, up to them: most events of one stream begin alike."""
        self._more = b""
        """What a record has behind its columns."""
        self._out = b""
        self._tls: ssl.SSLSocket | None = None
        self._recv: Callable[[int], bytes]
        self._send: Callable[[bytes], int]
        self._clear()

    def begin(self, due_ns: int, shot: tuple[int, int, bytes], now_ns: int) -> None:
        """Make one call: send, or connect first. `shot`: which payload, how many bytes of body, and all that is sent."""
        self._due_ns = self.since_ns = due_ns
        self._payload, self._up, self._wire = shot
        self._again = self._connect_ns = self._tls_ns = 0
        self._engine.busy[self] = None
        if self.is_open:
            self._shoot(now_ns)
        else:
            self._uses = self._sent_ns = 0
            self._connect(now_ns)

    def _clear(self) -> None:
        """Know nothing of an answer. So it is whenever a call begins."""
        self._first_ns = self._word_ns = self._last_ns = self._words = self._down = 0
        self._buf = b""
        self._head: Head | None = None
        self._body: Body | None = None
        self._frames: Frames | None = None
        self._gaps: list[int] | None = None

    # Opening

    def _connect(self, now_ns: int) -> None:
        self._opened_ns = now_ns
        self._dial(0)

    def _dial(self, first: int) -> None:
        """Try the address at this place of the list, or the next one that can be tried at all."""
        engine = self._engine
        failed = 0
        for at in range(first, len(engine.spec.to)):
            to = engine.spec.to[at]
            family = socket.AF_INET6 if ":" in to.host else socket.AF_INET
            try:
                sock = socket.socket(family, socket.SOCK_STREAM | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC)
            except OSError as error:
                failed = error.errno or 0
                continue
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            failed = sock.connect_ex((to.host, to.port))
            if failed not in (0, errno.EINPROGRESS):
                sock.close()
                continue
            self._at = at
            self._sock = sock
            self._fd = sock.fileno()
            engine.open_conns += 1
            engine.calls[self._fd] = self._on_connect
            engine.epoll.register(self._fd, select.EPOLLOUT)
            return
        self.fail("dropped" if failed in _OURS else "refused", monotonic_ns())

    def _on_connect(self, event: int) -> None:
        if self._sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
            self._close()
            self._dial(self._at + 1)
            return
        now_ns = monotonic_ns()
        engine = self._engine
        self._connect_ns = now_ns - self._opened_ns
        if engine.tls is None:
            self._recv, self._send = self._sock.recv, self._sock.send
            self._opened(now_ns)
            return
        try:
            tls = engine.tls.wrap_socket(
                self._sock,
                server_hostname=engine.spec.server_name,
                do_handshake_on_connect=False,
                suppress_ragged_eofs=False,
            )
        except OSError:  # it is gone already
            self.fail("reset", now_ns)
            return
        self._sock = self._tls = tls
        self._recv, self._send = tls.read, tls.write
        engine.calls[self._fd] = self._on_handshake
        self._on_handshake(event)

    def _on_handshake(self, event: int) -> None:
        engine, tls = self._engine, self._tls
        assert tls is not None
        try:
            tls.do_handshake()
        except ssl.SSLWantReadError:
            engine.epoll.modify(self._fd, select.EPOLLIN)
            return
        except ssl.SSLWantWriteError:
            engine.epoll.modify(self._fd, select.EPOLLOUT)
            return
        except OSError as error:
            engine.tls_failed = _why_no_tls(error)
            self.fail("protocol", monotonic_ns())
            return
        now_ns = monotonic_ns()
        self._tls_ns = now_ns - self._opened_ns - self._connect_ns
        self._opened(now_ns)

    def _opened(self, now_ns: int) -> None:
        engine = self._engine
        self.is_open = True
        engine.calls[self._fd] = self._on_event
        engine.epoll.modify(self._fd, select.EPOLLIN)
        self._shoot(now_ns)

    # One call

    def _shoot(self, now_ns: int) -> None:
        self._uses += 1
        self._sent_ns = now_ns
        try:
            sent = self._send(self._wire)
        except _AGAIN:
            sent = 0
        except OSError:
            self._out = self._wire
            self._lost("reset", now_ns)
            return
        if sent < len(self._wire):
            self._out = self._wire[sent:]
            self._engine.epoll.modify(self._fd, select.EPOLLIN | select.EPOLLOUT)
        else:
            self._awaits = True

    def _write(self) -> None:
        try:
            sent = self._send(self._out)
        except _AGAIN:
            return
        except OSError:  # it may have answered before it closed: what can be read decides
            self._engine.epoll.modify(self._fd, select.EPOLLIN)
            return
        self._out = self._out[sent:]
        if not self._out:
            self._engine.epoll.modify(self._fd, select.EPOLLIN)

    def _on_event(self, event: int) -> None:
        if self._out and event & select.EPOLLOUT:
            self._write()
            if event == select.EPOLLOUT or not self.is_open:
                return
        try:
            data = self._recv(READ_BYTES)
        except _AGAIN:
            return
        except OSError as error:  # over TLS an end that was not said is one too, and ends no body in order
            if self in self._engine.busy:
                self._lost("cut" if isinstance(error, ssl.SSLEOFError) else "reset", monotonic_ns())
            else:
                self._idle_heard(b"")
            return
        now_ns = monotonic_ns()
        engine = self._engine
        if self._awaits and data == engine.known_answer:
            self._first_ns = now_ns
            outcome, status, tokens, self._down = engine.its_meaning
            self._over(outcome, now_ns, status, tokens)
        elif data and self._frames is not None:
            self._take(data, now_ns)
        else:
            self._came(data, now_ns)
        tls = self._tls
        if tls is not None:  # epoll does not see what OpenSSL has decrypted already
            while self.is_open and tls.pending():
                self._came(self._recv(READ_BYTES), now_ns)

    def _came(self, data: bytes, now_ns: int) -> None:
        """Take what was read, empty where the peer closed."""
        self._awaits = False
        if self not in self._engine.busy:
            self._idle_heard(data)
        elif data:
            self._take(data, now_ns)
        else:
            self._ended(now_ns)

    def _take(self, data: bytes, now_ns: int) -> None:
        engine = self._engine
        if not self._first_ns:
            self._first_ns = now_ns
        try:
            head = self._head
            if head is None:
                if self._buf:
                    data = self._buf + data
                    self._buf = b""
                end = cut_head(data)
                if not end:
                    self._begins(data)
                    return
                head = engine.read_head(data[:end])
                while head.status < 200:
                    if head.status == 101:
                        raise Malformed("a switch of protocols that nobody asked for")
                    self._uses = 1  # the call was taken, whatever comes
                    data = data[end:]
                    self._first_ns = now_ns if data else 0
                    end = cut_head(data)
                    if not end:
                        self._begins(data)
                        return
                    head = engine.read_head(data[:end])
                self._head = head
                if head.whole_bytes == len(data) - end:
                    # The whole answer in one piece, as most are that are no stream.
                    tail = data[max(end, len(data) - EDGE_BYTES) :]
                    engine.saw_whole(data, head, tail)
                    self._down = head.whole_bytes
                    self._answered(head, now_ns, tail, b"")
                    return
                data = data[end:]
                self._pieces: list[bytes] = []
                self._body = response_body(head.resp, self._engine.spec.shot.method)
                self._unpack: Inflater | None = inflater(head.coding, _UNPACK_BYTES) if head.coding else None
                if head.streams:
                    self._frames = Lines() if head.lines else Frames()
                    self._gaps = []
            body = self._body
            assert body is not None
            payload = body.feed(data) if data and not body.done else b""
            unpack = self._unpack
            if unpack is not None:
                payload = unpack(payload)
                if body.done and not unpack.whole and self._down + len(payload):
                    raise Malformed("a body that ends before what it packs")
            if payload and self._frames is not None:
                self._see(self._frames, payload, now_ns)
        except Malformed:
            self.fail("protocol", now_ns)
            return
        if payload:
            self._down += len(payload)
            self._pieces.append(payload)
            if len(self._pieces) == KEEP_PIECES or len(payload) > EDGE_BYTES:
                self._pieces = [self._edge()]
        if body.done:
            self._answered(head, now_ns, self._edge(), body.rest)

    def _begins(self, data: bytes) -> None:
        """Keep the beginning of a head. Raises Malformed for what will never be one."""
        if data[:5] != _BEGINS[: len(data)]:
            raise Malformed("no HTTP")
        self._buf = data

    def _edge(self) -> bytes:
        """The end of the body so far."""
        return b"".join(self._pieces)[-EDGE_BYTES:]

    def _see(self, frames: Frames, payload: bytes, now_ns: int) -> None:
        """Note the words in a piece of a stream: when they came, and how long after the ones before."""
        carries, known = self._engine.carries, self._known
        found = 0
        for frame in frames.feed(payload):
            if carries is None or (known and frame.startswith(known) and frame[len(known)] != _QUOTE):
                found += 1
            elif (match := carries(frame)) is not None:
                known = self._known = frame[: match.end()]
                found += 1
        if not found:
            return
        self._words += found
        gaps = self._gaps
        assert gaps is not None
        if self._word_ns:
            gap_us = (now_ns - self._last_ns) // 1_000
            gaps.append(gap_us)
            self._last_ns += gap_us * 1_000  # what is cut off is in the next gap: their sum stays true
        else:
            self._word_ns = self._last_ns = now_ns
        if found > 1:  # in one piece, so at the same time
            gaps.extend([0] * (found - 1))

    def _answered(self, head: Head, now_ns: int, tail: bytes, rest: bytes) -> None:
        """The answer is whole."""
        outcome, tokens = self._engine.worth_of(head, tail, self._down)
        if rest or not head.keep_alive or self._out or isinstance(self._body, CloseBody):
            self._close()
        self._over(outcome, now_ns, head.status, tokens)

    def _over(self, outcome: int, now_ns: int, status: int, tokens: int) -> None:
        """The call is over: record it, and have its caller go on."""
        engine = self._engine
        del engine.busy[self]
        self.ended_ns = now_ns
        zero = engine.mono0_ns
        first_ns, word_ns, sent_ns = self._first_ns, self._word_ns, self._sent_ns
        engine.rows.append(
            pack(
                self._due_ns - zero,
                sent_ns - zero if sent_ns else 0,
                first_ns - zero if first_ns else 0,
                word_ns - zero if word_ns else 0,
                now_ns - zero,
                self._connect_ns,
                self._tls_ns,
                self._up,
                self._down,
                self._words,
                tokens,
                self._payload,
                engine.stage,
                status,
                outcome,
                self._again,
            )
            + self._more
        )
        if outcome > SHORT:
            engine.failed += 1
        if self._awaits:  # no answer, or a known one: nothing else came to be
            self._awaits = False
            self._first_ns = self._down = 0
        else:
            if self._gaps:
                engine.gaps.extend(self._gaps)
            self._clear()
        engine.ended.append(self)

    # Ends

    def fail(self, how: str, now_ns: int) -> None:
        """This call is over without a whole answer, and so is its connection."""
        head = self._head
        self._close()
        self._over(CODE[how], now_ns, -1 if head is None else head.status, -1)

    def _ended(self, now_ns: int) -> None:
        """The peer closed in order."""
        body, head = self._body, self._head
        if isinstance(body, CloseBody) and head is not None and (self._unpack is None or self._unpack.whole):
            body.end()
            self._answered(head, now_ns, self._edge(), b"")
        else:
            self._lost("cut", now_ns)

    def _lost(self, how: str, now_ns: int) -> None:
        """The connection broke. One that was kept alive, and closed before this call, is replaced once."""
        if self._uses > 1 and not self._first_ns and not self._again and self._untaken(now_ns):
            self._replace(now_ns)
        else:
            self.fail(how, now_ns)

    def _replace(self, now_ns: int) -> None:
        """Make this call on a new connection."""
        self._close()
        self._again = 1
        self._uses = 0
        self._clear()
        self._connect(now_ns)

    def _untaken(self, now_ns: int) -> bool:
        """Whether nobody there can have worked on the call."""
        if self._out or now_ns - self._sent_ns < CROSSED_NS:
            return True
        # SIOCOUTQ (tcp(7)): what of the bytes sent is not acknowledged. At an end OpenSSL sends an alert that nobody will.
        (left,) = struct.unpack("i", fcntl.ioctl(self._fd, termios.TIOCOUTQ, bytes(4)))
        return bool(left > (ALERT_BYTES if self._tls is not None else 0))

    def _idle_heard(self, data: bytes) -> None:
        """Something came while nothing was asked: its end (empty), or what belongs to no call."""
        with contextlib.suppress(ValueError):
            self._engine.idle.remove(self)
        self._close()

    def _close(self) -> None:
        if self._fd < 0:
            return
        engine, fd = self._engine, self._fd
        self._fd = -1
        self.is_open = self._awaits = False
        self._out = b""
        self._tls = None
        engine.open_conns -= 1
        engine.calls.pop(fd, None)
        self._sock.close()

    drop = _close
