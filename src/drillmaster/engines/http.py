"""The HTTP/1.1 engine: closed and open loop, plain and TLS, whole answers and streams, every call on record.

1. One epoll, no event loop: a readiness is one dictionary lookup and one call. A request is one `send`, an answer that came in
   one piece one `recv`.
2. Heads are read by `http1`, once each: what the same bytes mean is remembered, and a server's heads change once a second.
3. What an answer is worth is asked of its dialect at its end, and remembered for small bodies that come again.
4. A connection that was kept alive and turns out to have been closed before one byte of an answer came is replaced once.
5. An open loop opens as many connections as it takes, up to the stage's level. A call that is due beyond that is dropped:
   recorded as due and never sent.
"""

import contextlib
import errno
import heapq
import os
import re
import resource
import select
import signal
import socket
import ssl
import sys
from array import array
from collections.abc import Callable
from time import monotonic_ns
from typing import Any

import msgspec

from drillmaster.dialects import EDGE_BYTES, Dialect, Ending, load, output_tokens
from drillmaster.engines import Shot, Spec, Stage
from drillmaster.engines.pacing import Timer, arrivals
from drillmaster.evidence.samples import OUTCOMES, header, pack
from drillmaster.http1 import (
    Body,
    CloseBody,
    Frames,
    HeadReader,
    Lines,
    Malformed,
    ResponseHead,
    cut_head,
    has_body,
    response_body,
)

__all__ = ["Engine"]

READ_BYTES = 262_144
SWEEP_NS = 50_000_000
TELL_NS = 250_000_000
MEMO_HEADS = 512
MEMO_BODIES = 256
MEMO_BODY_BYTES = 4_096
_CODE = {name: number for number, name in enumerate(OUTCOMES)}
_OK, _SHORT, _EMPTY, _ERROR_BODY, _UNFINISHED, _HTTP_3XX, _HTTP_4XX, _HTTP_5XX = range(8)
assert OUTCOMES[:8] == ("ok", "short", "empty", "error_body", "unfinished", "http_3xx", "http_4xx", "http_5xx")
_OF_ENDING = {
    Ending.COMPLETE: _OK,
    Ending.INCOMPLETE: _SHORT,
    Ending.ERROR: _ERROR_BODY,
    Ending.CUT: _UNFINISHED,
}
_AGAIN = (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError)


class _Head:
    """What a response head means, kept for when the same bytes come again."""

    __slots__ = ("keep_alive", "lines", "resp", "status", "streams", "whole_bytes")

    def __init__(self, resp: ResponseHead, method: str) -> None:
        self.resp = resp
        self.status = resp.status
        self.keep_alive = resp.keep_alive
        self.streams = resp.content_type.startswith((b"text/event-stream", b"application/x-ndjson"))
        self.lines = resp.content_type.startswith(b"application/x-ndjson")
        self.whole_bytes = resp.length if has_body(resp, method) and not resp.chunked and not self.streams else None
        """How many bytes the body has, where that can be told from the head."""


class Engine:
    """One run of a `Spec`."""

    def __init__(self, spec: Spec, tell: Callable[[dict[str, Any]], None]) -> None:
        """`tell` is given progress as it comes. Raises Problem, OSError."""
        self.spec = spec
        self.dialect: Dialect = load(spec.shot.dialect)
        self._tell = tell
        self.epoll = select.epoll()
        self.calls: dict[int, Callable[[int], None]] = {}
        self.busy: dict[Conn, None] = {}
        self.idle: list[Conn] = []
        self.open_conns = 0
        self.rows: list[bytes] = []
        self.gaps = array("I")
        self.heads = HeadReader(response=True)
        self.memo: dict[bytes, _Head] = {}
        self.worth: dict[tuple[int, bytes, bytes], tuple[int, int]] = {}
        self.word = re.compile(self.dialect.carries) if self.dialect.carries is not None else None
        self.shots = _Shots(spec.shot)
        self.mono0_ns = spec.mono0_ns
        self.limit_ns = round(spec.time_limit_s * 1e9)
        self.stage = 0
        self.number = spec.first_call
        self.done = 0
        self.failed = 0
        self.stopping = False
        self.tls = _context(spec.ca_file) if spec.tls else None
        self._samples = os.open(spec.samples, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC, 0o644)
        self._gaps_fd: int | None = None
        if spec.gaps is not None:
            self._gaps_fd = os.open(spec.gaps, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC, 0o644)
        self.end_of_call: Callable[[Conn | None, int], None] = self._nobody_next
        self._sweep_ns = self._told_ns = 0
        self._longest_turn_ns = 0

    # The run

    def run(self) -> int:
        """All stages; the exit code: 0, or 3 where it was stopped."""
        os.write(self._samples, header(stages=[stage.label for stage in self.spec.stages]))
        try:
            for number, stage in enumerate(self.spec.stages):
                if not self.stopping:
                    self.stage = number
                    self._run_stage(stage)
        finally:
            for conn in (*self.busy, *self.idle):
                conn.drop()
            self.flush()
            os.fsync(self._samples)
            os.close(self._samples)
            if self._gaps_fd is not None:
                os.close(self._gaps_fd)
            self.epoll.close()
        return 3 if self.stopping else 0

    def stop(self, *_: object) -> None:
        """End as soon as may be: nothing more begins, what is under way is recorded as stopped."""
        self.stopping = True

    def _run_stage(self, stage: Stage) -> None:
        begun_ns = monotonic_ns()
        used = resource.getrusage(resource.RUSAGE_SELF)
        self._longest_turn_ns = 0
        self._say("stage_started", stage, begun_ns)
        if stage.kind == "closed":
            self._closed(stage, begun_ns)
        else:
            self._open(stage, begun_ns)
        ended_ns = monotonic_ns()
        after = resource.getrusage(resource.RUSAGE_SELF)
        self.flush()
        cpu_s = after.ru_utime + after.ru_stime - used.ru_utime - used.ru_stime
        self._say(
            "stage_ended",
            stage,
            ended_ns,
            wall_s=(ended_ns - begun_ns) / 1e9,
            cpu_s=cpu_s,
            longest_turn_ms=self._longest_turn_ns / 1e6,
        )

    def _say(self, event: str, stage: Stage, now_ns: int, **more: Any) -> None:
        self._tell(
            {
                "event": event,
                "stage": stage.label,
                "ns": now_ns - self.mono0_ns,
                "in_flight": len(self.busy),
                "connections": self.open_conns,
                "done": self.done,
                "failed": self.failed,
                **more,
            }
        )

    # Closed loop

    def _closed(self, stage: Stage, begun_ns: int) -> None:
        left = stage.calls if stage.calls is not None else 1 << 62
        until_ns = begun_ns + round(stage.seconds * 1e9) if stage.seconds is not None else 1 << 62
        think_ns = round(stage.think_s * 1e9)
        thinking: list[tuple[int, int, Conn | None]] = []
        order = 0

        def begin(conn: Conn | None, now_ns: int) -> None:
            nonlocal left
            if left <= 0 or now_ns >= until_ns or self.stopping:
                if conn is not None:
                    self.idle.append(conn)
                return
            left -= 1
            self._call(conn, now_ns, now_ns)

        def after(conn: Conn | None, now_ns: int) -> None:
            nonlocal order
            if not think_ns:
                begin(conn, now_ns)
                return
            order += 1
            heapq.heappush(thinking, (now_ns + think_ns, order, conn))

        self.end_of_call = after
        for _ in range(min(stage.level, left)):
            begin(self.idle.pop() if self.idle else None, monotonic_ns())
        while self.busy or thinking:
            if self.stopping:
                break
            wait_s = 0.05
            if thinking:
                wait_s = min(wait_s, max(0.0, (thinking[0][0] - monotonic_ns()) / 1e9))
            now_ns = self._turn(wait_s, stage)
            while thinking and thinking[0][0] <= now_ns:
                _, _, conn = heapq.heappop(thinking)
                begin(conn if conn is not None and conn.is_open else None, now_ns)
        self._end_stage()

    # Open loop

    def _open(self, stage: Stage, begun_ns: int) -> None:
        timer = Timer()
        self.epoll.register(timer.fd, select.EPOLLIN)
        self.calls[timer.fd] = lambda _: timer.heard()
        self.end_of_call = self._keep
        due = arrivals(stage, begun_ns, self.spec.seed)
        try:
            next_ns = next(due, None)
            while (next_ns is not None or self.busy) and not self.stopping:
                now_ns = monotonic_ns()
                while next_ns is not None and next_ns <= now_ns:
                    self._arrive(stage, next_ns, now_ns)
                    next_ns = next(due, None)
                    now_ns = monotonic_ns()
                if next_ns is not None:
                    timer.arm(next_ns - now_ns)
                self._turn(0.05, stage)
        finally:
            del self.calls[timer.fd]
            self.epoll.unregister(timer.fd)
            timer.close()
        self._end_stage()

    def _arrive(self, stage: Stage, due_ns: int, now_ns: int) -> None:
        if len(self.busy) >= stage.level:
            number = self.number
            self.number = number + 1
            at_ns = due_ns - self.mono0_ns
            payload = number % len(self.spec.shot.payloads)
            self.record(
                pack(at_ns, 0, 0, 0, at_ns, 0, 0, 0, 0, 0, -1, payload, self.stage, -1, _CODE["dropped"], 0), bad=True
            )
            return
        idle = self.idle
        self._call(idle.pop() if idle else None, due_ns, now_ns)

    def _keep(self, conn: "Conn | None", now_ns: int) -> None:
        if conn is not None:
            self.idle.append(conn)

    def _nobody_next(self, conn: "Conn | None", now_ns: int) -> None:
        """Nothing is under way."""

    # One turn

    def _turn(self, wait_s: float, stage: Stage) -> int:
        events = self.epoll.poll(wait_s, 512)
        begun_ns = monotonic_ns()
        calls = self.calls
        for fd, event in events:
            call = calls.get(fd)
            if call is not None:
                call(event)
        now_ns = monotonic_ns()
        if now_ns - begun_ns > self._longest_turn_ns:
            self._longest_turn_ns = now_ns - begun_ns
        if now_ns - self._sweep_ns > SWEEP_NS:
            self._sweep_ns = now_ns
            for conn in [conn for conn in self.busy if conn.deadline_ns <= now_ns]:
                conn.fail("timeout", now_ns)
            if now_ns - self._told_ns > TELL_NS:
                self._told_ns = now_ns
                self.flush()
                self._say("progress", stage, now_ns)
        return now_ns

    def _end_stage(self) -> None:
        """Whatever is left is stopped; nothing of this stage reaches into the next."""
        self.end_of_call = self._nobody_next
        now_ns = monotonic_ns()
        for conn in tuple(self.busy):
            conn.fail("stopped", now_ns)

    def _call(self, conn: "Conn | None", due_ns: int, now_ns: int) -> None:
        number = self.number
        self.number = number + 1
        if conn is None:
            conn = Conn(self)
        payload, size, wire = self.shots.take(number)
        conn.begin(due_ns, payload, size, wire, now_ns)

    def record(self, row: bytes, *, bad: bool) -> None:
        """Take down one call that is over."""
        self.rows.append(row)
        self.done += 1
        self.failed += bad

    def flush(self) -> None:
        """Put what is recorded into the files. Raises OSError, say on a full disk: a record that is lost is no record."""
        rows, self.rows = self.rows, []
        if rows:
            _write_all(self._samples, b"".join(rows))
        if self._gaps_fd is not None and self.gaps:
            gaps, self.gaps = self.gaps, array("I")
            _write_all(self._gaps_fd, gaps.tobytes())

    def read_head(self, data: bytes) -> _Head:
        """What a head says. Raises Malformed."""
        known = self.memo.get(data)
        if known is None:
            known = _Head(self.heads.response(data), self.spec.shot.method)
            if len(self.memo) >= MEMO_HEADS:
                self.memo.clear()
            self.memo[data] = known
        return known

    def worth_of(self, head: _Head, tail: bytes, size: int) -> tuple[int, int]:
        """Outcome and output tokens of an answer whose framing is whole; `tail` is the end of its body."""
        status = head.status
        if not 200 <= status < 300:
            return _HTTP_5XX if status >= 500 else _HTTP_4XX if status >= 400 else _HTTP_3XX, -1
        if not size:
            return _EMPTY, -1
        content_type = head.resp.content_type
        key = (status, content_type, tail)
        known = self.worth.get(key)
        if known is None:
            tokens = output_tokens(tail)
            known = (
                _OF_ENDING[self.dialect.ending(status, content_type, tail, True)],
                -1 if tokens is None else tokens,
            )
            if size <= MEMO_BODY_BYTES:
                if len(self.worth) >= MEMO_BODIES:
                    self.worth.clear()
                self.worth[key] = known
        return known


class Conn:
    """One connection, and the call that is under way on it."""

    __slots__ = (
        "_again",
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
        "_last_ns",
        "_opened_ns",
        "_out",
        "_payload",
        "_recv",
        "_send",
        "_sent_ns",
        "_sock",
        "_tail",
        "_tls",
        "_tls_ns",
        "_up",
        "_uses",
        "_wire",
        "_word_ns",
        "_words",
        "deadline_ns",
        "is_open",
    )

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self.is_open = False
        self._uses = 0
        self._fd = -1
        self.deadline_ns = 0
        self._connect_ns = self._tls_ns = 0
        self._again = 0
        self._out = b""
        self._tls: ssl.SSLSocket | None = None
        self._recv: Callable[[int], bytes]
        self._send: Callable[[bytes], int]

    def begin(self, due_ns: int, payload: int, up: int, wire: bytes, now_ns: int) -> None:
        """Make one call: send, or connect first."""
        engine = self._engine
        self._due_ns = due_ns
        self.deadline_ns = due_ns + engine.limit_ns
        self._payload = payload
        self._up = up
        self._wire = wire
        self._again = 0
        engine.busy[self] = None
        if self.is_open:
            self._connect_ns = self._tls_ns = 0
            self._shoot(now_ns)
        else:
            self._sent_ns = 0
            self._clear()
            self._connect(now_ns)

    def _clear(self) -> None:
        self._first_ns = self._word_ns = self._last_ns = self._words = self._down = 0
        self._buf = self._tail = b""
        self._head: _Head | None = None
        self._body: Body | None = None
        self._frames: Frames | None = None
        self._gaps: list[int] | None = None

    # Opening

    def _connect(self, now_ns: int) -> None:
        engine = self._engine
        to = engine.spec.to[0]
        family = socket.AF_INET6 if ":" in to.host else socket.AF_INET
        sock = socket.socket(family, socket.SOCK_STREAM | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._sock = sock
        self._fd = sock.fileno()
        self._opened_ns = now_ns
        engine.open_conns += 1
        failed = sock.connect_ex((to.host, to.port))
        if failed not in (0, errno.EINPROGRESS):
            self.fail("refused" if failed == errno.ECONNREFUSED else "reset", monotonic_ns())
            return
        engine.calls[self._fd] = self._on_connect
        engine.epoll.register(self._fd, select.EPOLLOUT)

    def _on_connect(self, event: int) -> None:
        now_ns = monotonic_ns()
        failed = self._sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if failed:
            self.fail("refused" if failed == errno.ECONNREFUSED else "reset", now_ns)
            return
        engine = self._engine
        self._connect_ns = now_ns - self._opened_ns
        if engine.tls is None:
            self._recv, self._send = self._sock.recv, self._sock.send
            self._opened(now_ns)
            return
        tls = engine.tls.wrap_socket(
            self._sock,
            server_hostname=engine.spec.server_name,
            do_handshake_on_connect=False,
            suppress_ragged_eofs=False,
        )
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
        except OSError:
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
        self._clear()
        self._uses += 1
        self._sent_ns = now_ns
        try:
            sent = self._send(self._wire)
        except _AGAIN:
            sent = 0
        except OSError:
            self._lost("reset", now_ns)
            return
        if sent < len(self._wire):
            self._out = self._wire[sent:]
            self._engine.epoll.modify(self._fd, select.EPOLLIN | select.EPOLLOUT)

    def _write(self) -> None:
        try:
            sent = self._send(self._out)
        except _AGAIN:
            return
        except OSError:
            self._lost("reset", monotonic_ns())
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
        except OSError:
            self._lost("reset", monotonic_ns())
            return
        now_ns = monotonic_ns()
        if self not in self._engine.busy:
            self._idle_heard()
            return
        if not data:
            self._ended(now_ns)
            return
        self._take(data, now_ns)
        tls = self._tls
        if tls is not None:  # epoll does not see what OpenSSL has decrypted already
            while self.is_open and tls.pending():
                data = self._recv(READ_BYTES)
                if not data or self not in self._engine.busy:
                    return
                self._take(data, now_ns)

    def _take(self, data: bytes, now_ns: int) -> None:
        if not self._first_ns:
            self._first_ns = now_ns
        try:
            head = self._head
            if head is None:
                if self._buf:
                    data = self._buf + data
                end = cut_head(data)
                if not end:
                    self._buf = data
                    return
                head = self._engine.read_head(data[:end])
                if head.status < 200:
                    self._buf = b""
                    if len(data) > end:
                        self._take(data[end:], now_ns)
                    return
                self._head = head
                data = data[end:]
                if head.whole_bytes == len(data):
                    # The whole answer in one piece, as most are that are no stream.
                    self._down = len(data)
                    self._tail = data[-EDGE_BYTES:]
                    self._answered(head, now_ns, b"")
                    return
                self._body = response_body(head.resp, self._engine.spec.shot.method)
                if head.streams:
                    self._frames = Lines() if head.lines else Frames()
                    self._gaps = []
            body = self._body
            assert body is not None
            payload = body.feed(data) if data and not body.done else b""
        except Malformed:
            self.fail("protocol", now_ns)
            return
        if payload:
            self._down += len(payload)
            if self._frames is not None:
                self._see(self._frames, payload, now_ns)
            self._tail = payload[-EDGE_BYTES:] if len(payload) >= EDGE_BYTES else (self._tail + payload)[-EDGE_BYTES:]
        if body.done:
            self._answered(head, now_ns, body.rest)

    def _see(self, frames: Frames, payload: bytes, now_ns: int) -> None:
        """Note the words in a piece of a stream: when they came, and how long after the ones before."""
        word = self._engine.word
        found = 0
        for frame in frames.feed(payload):
            if word is None or word.search(frame) is not None:
                found += 1
        if not found:
            return
        self._words += found
        gaps = self._gaps
        assert gaps is not None
        if self._word_ns:
            gaps.append((now_ns - self._last_ns) // 1_000)
        else:
            self._word_ns = now_ns
        self._last_ns = now_ns
        if found > 1:  # in one piece, so at the same time
            gaps.extend([0] * (found - 1))

    def _answered(self, head: _Head, now_ns: int, rest: bytes) -> None:
        """The answer is whole."""
        outcome, tokens = self._engine.worth_of(head, self._tail, self._down)
        if rest or not head.keep_alive or self._out or isinstance(self._body, CloseBody):
            self._close()
        self._over(outcome, now_ns, head.status, tokens)

    def _over(self, outcome: int, now_ns: int, status: int, tokens: int) -> None:
        engine = self._engine
        del engine.busy[self]
        zero = engine.mono0_ns
        first_ns, word_ns, sent_ns = self._first_ns, self._word_ns, self._sent_ns
        engine.record(
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
            ),
            bad=outcome > _SHORT,
        )
        if self._gaps:
            engine.gaps.extend(self._gaps)
        engine.end_of_call(self if self.is_open else None, now_ns)

    # Ends

    def fail(self, how: str, now_ns: int) -> None:
        """This call is over without a whole answer, and so is its connection."""
        head = self._head
        self._close()
        self._over(_CODE[how], now_ns, -1 if head is None else head.status, -1)

    def _ended(self, now_ns: int) -> None:
        """The peer closed in order."""
        body, head = self._body, self._head
        if isinstance(body, CloseBody) and head is not None:
            body.end()
            self._answered(head, now_ns, b"")
        else:
            self._lost("cut", now_ns)

    def _lost(self, how: str, now_ns: int) -> None:
        """The connection broke. One that was kept alive, and closed before this call, is replaced once."""
        if self._uses > 1 and not self._first_ns and not self._again:
            self._close()
            self._again = 1
            self._uses = 0
            self._clear()
            self._connect(now_ns)
            return
        self.fail(how, now_ns)

    def _idle_heard(self) -> None:
        """Something came while nothing was asked: its end, or what belongs to no call."""
        with contextlib.suppress(ValueError):
            self._engine.idle.remove(self)
        self._close()

    def _close(self) -> None:
        if self._fd < 0:
            return
        engine, fd = self._engine, self._fd
        self._fd = -1
        self.is_open = False
        self._out = b""
        self._tls = None
        engine.open_conns -= 1
        engine.calls.pop(fd, None)
        self._sock.close()

    drop = _close


class _Shots:
    """Requests ready to be sent: rendered once each, or at each call where a payload names the call."""

    def __init__(self, shot: Shot) -> None:
        fields = "".join(f"{name}: {value}\r\n" for name, value in shot.headers.items())
        self._opening = f"{shot.method} {shot.target} HTTP/1.1\r\nHost: {shot.authority}\r\n{fields}".encode("latin-1")
        self._bodies = [payload.encode() for payload in shot.payloads]
        self._bare = shot.method in ("GET", "HEAD")
        self._ready = [None if b"{n}" in body else (at, *self._render(body)) for at, body in enumerate(self._bodies)]

    def take(self, number: int) -> tuple[int, int, bytes]:
        """Which payload, how many bytes of body, and all that is sent."""
        at = number % len(self._ready)
        ready = self._ready[at]
        if ready is not None:
            return ready
        return (at, *self._render(self._bodies[at].replace(b"{n}", b"%d" % number)))

    def _render(self, body: bytes) -> tuple[int, bytes]:
        if self._bare:
            return 0, self._opening + b"\r\n"
        return len(body), b"%bContent-Length: %d\r\n\r\n%b" % (self._opening, len(body), body)


def _context(ca_file: str | None) -> ssl.SSLContext:
    context = ssl.create_default_context()
    context.set_alpn_protocols(["http/1.1"])
    if ca_file is not None:
        context.load_verify_locations(ca_file)
    return context


def _write_all(fd: int, data: bytes) -> None:
    """Write it all: a file may take less than it was given, on a disk that is nearly full."""
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]


def main() -> int:
    """Read a spec as JSON from standard input, run it, tell progress as lines of JSON on standard output."""
    spec = msgspec.json.decode(sys.stdin.buffer.read(), type=Spec)
    out = sys.stdout.fileno()
    engine = Engine(spec, lambda row: _write_all(out, msgspec.json.encode(row) + b"\n"))
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, engine.stop)
    return engine.run()
