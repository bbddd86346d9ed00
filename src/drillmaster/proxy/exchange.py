"""One request and its answer: relayed, or given to a fault's script.

1. An exchange is over when the request was read to its end and so was the answer; then both connections are free again.
2. Nothing is buffered but heads, what a slow side has not taken yet (`wire.HIGH_BYTES`; above it the other side is not
   read), and the first `REPLAY_BYTES` of a request, in case a pooled connection turns out to have been closed.
3. A request is sent a second time only when the connection was a pooled one, not one byte of an answer came, and all that
   was sent is still at hand. Otherwise a dead upstream is a 502, a silent one a 504, in the dialect's own words.
4. A client that ends its sending side is taken to be gone, and the upstream request is cancelled: HTTP clients that give
   up look exactly like this.
5. The answer's connection option is mirrored: where the upstream would have closed, so do we.
6. What is whole in one piece is relayed in one piece: a head that came with just the bytes its Content-Length announces
   needs no body reader. Heads are read by the same `http1.HeadReader` either way, and one write a direction is all, with
   those of other exchanges where several are under way (`wire.Batch`).
7. `Upgrade` requests go through; after a 101 both sides are an opaque tunnel. `Upgrade: h2c` is dropped, CONNECT is 501.
"""

from drillmaster.dialects import EDGE_BYTES
from drillmaster.http1 import (
    LAST_CHUNK,
    Body,
    ChunkedBody,
    CloseBody,
    LengthBody,
    Malformed,
    RequestHead,
    ResponseHead,
    chunk,
    chunked_end,
    cut_head,
    has_body,
    request_body,
    response_body,
)
from drillmaster.proxy.driver import Drive
from drillmaster.proxy.hub import NEVER_NS, mono_ns
from drillmaster.proxy.peer import Ending, Peer, head_of
from drillmaster.proxy.pool import UpstreamConn
from drillmaster.proxy.witness import PEEK_BYTES, Witness
from drillmaster.wire import HIGH_BYTES

__all__ = ["Exchange"]

REPLAY_BYTES = 262_144


class Exchange(Witness):
    """One request and its answer."""

    __slots__ = (
        "_backlog_bytes",
        "_body",
        "_queue",
        "_queue_bytes",
        "_replay",
        "_replay_bytes",
        "_retried",
        "_tunnel",
        "_up_buf",
        "answer_fields",
        "body_to_upstream",
        "down_body",
        "drive",
        "held_down",
        "keep",
        "limit_bytes",
        "over",
        "paid",
        "raw_down",
        "resp_done",
        "upstream",
    )

    def __init__(self, client: Peer, head: RequestHead) -> None:
        self.client = client
        self.hub = hub = client.hub
        self.head = head
        self.caller = caller = hub.caller(head)
        self.route = route = caller.route
        self.start_ns = mono_ns()
        self.nonce = route.nonce
        self.keep = head.keep_alive
        """Whether the client's connection stays for another request."""
        self.over = self.req_done = self.resp_done = self.real = self.altered = self.paid = False
        self.up_bytes = self.down_bytes = self._peek_bytes = 0
        self._asked = self._asked_tail = self._nonce_tail = self._edge = b""
        self.first_ns: int | None = None
        self.status: int | None = None
        self.resp: ResponseHead | None = None
        self.told = None
        self._inflate = None
        self.recording = None if hub.recorder is None else hub.recorder.begin(head)

        self.upstream: UpstreamConn | None = None
        self.down_body: Body | None = None
        """Reads the answer's body; None before its head, and where the answer came in one piece."""
        self.raw_down = False
        """The client is HTTP/1.0 and cannot read chunks: the body goes out bare and ends with the connection."""
        self._body: LengthBody | ChunkedBody | None = None
        """Reads the request's body; None where it came whole with the head."""
        self._tunnel = self._retried = False
        self._up_buf = b""
        self._queue: tuple[bytes, ...] = ()
        """What the upstream is to get once it is connected."""
        self._queue_bytes = 0
        self._backlog_bytes = 0
        """Of the request, towards the upstream, when a deadline was last over."""
        self._replay: list[bytes] | None = []
        """What it got, as long as that is little enough to be sent once more."""
        self._replay_bytes = 0

        self.drive: Drive | None = None
        """The script that decides about this exchange, if a fault was on when it began."""
        self.body_to_upstream = False
        """With a script: whether the client's body goes to the upstream by itself, unread by the script."""
        self.limit_bytes: int | None = None
        """With a script: after how many bytes of the answer's body it has the next say."""
        self.answer_fields: tuple[tuple[str, str], ...] = ()
        """With a script: fields of the answer's head that stand in for the upstream's of the same name."""
        self.held_down = b""
        """What came of the answer beyond that limit."""

    # The client's side

    def start(self, data: bytes) -> None:
        """Begin; `data` is what came behind the head."""
        hub, head = self.hub, self.head
        counters = hub.counters
        counters.requests += 1
        counters.in_flight += 1
        if not self.route.opening or head.upgrade is not None:
            if head.method == "CONNECT":
                self.answer(501, "connect_not_supported", "upstream_error")
                return
            if head.upgrade is not None and head.upgrade.lower().startswith(b"h2c"):
                head.upgrade = None
        if len(data) == (head.length or 0) and not head.chunked:
            # Rule 6: head and body came in one piece, as most do, and nothing behind them.
            self.req_done = True
            if data:
                self.up_bytes = len(data)
                if len(data) <= PEEK_BYTES and data.find(b"dmn") < 0:  # `in` takes bytes for a number first
                    self._asked = data
                    if self.recording is not None:
                        self.recording.asked(data)
                else:
                    self.look(data)
        else:
            data = self._begin_body(data)
            if self.over:
                return
        injection = hub.switch.current
        if injection is not None and injection.scope == "exchange":
            self.drive = Drive(self, injection)
            self.drive.start(data)
        else:
            self.begin_pass(data, self.start_ns)

    def _begin_body(self, data: bytes) -> bytes:
        body = self._body = request_body(self.head)
        if body.done:
            self.req_done = True
            self.client.buf = data
            return b""
        return self._take(data) if data else b""

    def _take(self, data: bytes) -> bytes:
        """Read body bytes off the wire: unframed, counted, looked at. A malformed body ends the exchange."""
        body = self._body
        assert body is not None
        try:
            payload = body.feed(data)
        except Malformed as bad:
            self._bad_body(bad.why)
            return b""
        if body.done:
            self.req_done = True
            self.client.buf = body.rest
        if payload:
            self.up_bytes += len(payload)
            self.look(payload)
        return payload

    def from_client(self, data: bytes) -> None:
        """Bytes came while this exchange is under way."""
        if self._tunnel:
            self.up_bytes += len(data)
            self._renew_deadline()
            assert self.upstream is not None and self.upstream.wire is not None
            self.upstream.wire.send(data)
            if self.upstream.wire.backlog_bytes > HIGH_BYTES:
                self.client.wire.pause()
            return
        if self.req_done:
            client = self.client  # the next request, early: it waits its turn, and is not read without end
            client.buf += data
            if len(client.buf) > HIGH_BYTES:
                client.wire.pause()
            return
        payload = self._take(data)
        if self.over:
            return
        if self.drive is not None and not self.drive.passing and not self.body_to_upstream:
            self.drive.client_data(payload)
        else:
            self._up(payload)

    def _bad_body(self, why: str) -> None:
        self.hub.counters.refused_heads += 1
        if self.resp is None and self.status is None:
            self.keep = False
            self.answer(400, why.replace(" ", "_"), "cut")
        else:
            self.finish("cut", "linger")

    def client_gone(self) -> None:
        """The client ended or was lost. Upstream work is cancelled."""
        if self.over:
            return
        drive = self.drive
        if drive is not None and not drive.passing:
            drive.client_gone()
            return
        self.hub.counters.client_gone += 1
        self.finish("clean" if self._tunnel or self.has_said_all() else "client_gone")

    # Towards the upstream

    def begin_pass(self, payload: bytes, now_ns: int | None = None) -> None:
        """Relay this exchange from here on; `payload` is what was already read of the body. `now_ns` None: look."""
        hub = self.hub
        pool = hub.pool
        if pool is None:
            self.answer(502, "no_upstream", "upstream_error")
            return
        if hub.purse is not None and not self.paid:
            if not hub.purse.begin():
                self.answer(503, "spend_cap", "upstream_error")
                hub.broke()
                return
            self.paid = True
        if self.head.chunked:
            payload = self._frame_up(payload)
        idle = pool.idle
        while idle:
            upstream = idle.pop()
            if upstream.open:
                upstream.uses += 1
                upstream.answered = False
                self._attach(upstream, payload, now_ns)
                return
        if payload:
            self._queue += (payload,)
            self._queue_bytes += len(payload)
        self._dial()

    def _dial(self) -> None:
        self.client.deadline_ns = mono_ns() + round(self.hub.limits.connect_s * 1e9)
        assert self.hub.pool is not None
        self.upstream = self.hub.pool.dial(self)

    def _frame_up(self, payload: bytes) -> bytes:
        if not self.head.chunked:
            return payload
        framed = chunk(payload) if payload else b""
        body = self._body
        if isinstance(body, ChunkedBody) and body.done:
            framed += chunked_end(body.trailers)
        return framed

    def _attach(self, upstream: UpstreamConn, framed: bytes, now_ns: int | None = None) -> None:
        """Send the head, and with it what there is of the body."""
        self.upstream = upstream
        upstream.ex = self
        if framed:
            self._keep_for_replay(framed)
        head = self.head
        if head.length is not None:
            framing = b"Content-Length: %d\r\n" % head.length
        else:
            framing = b"Transfer-Encoding: chunked\r\n" if head.chunked else b""
        if head.upgrade is not None:
            framing += b"Connection: Upgrade\r\nUpgrade: %b\r\n" % head.upgrade
        wire = upstream.wire
        assert wire is not None
        lines, drive = head.lines, self.drive
        if drive is not None and not drive.lifted and drive.reads_answer:
            lines = [line for line in lines if line[:16].lower() != b"accept-encoding:"]
            lines.append(b"Accept-Encoding: identity")
        message = b"\r\n".join((self.route.opening, *lines, framing, framed))
        if self.req_done:
            wire.send_soon(message)
            self.client.deadline_ns = (now_ns or mono_ns()) + self.hub.answer_ns
        else:
            wire.send(message)
            self._renew_deadline()
            if wire.backlog_bytes > HIGH_BYTES:
                self.client.wire.pause()

    def upstream_open(self) -> None:
        """The connection that was dialled for this exchange stands."""
        upstream = self.upstream
        assert upstream is not None
        framed = b"".join(self._queue)
        self._queue = ()
        self._queue_bytes = 0
        self._attach(upstream, framed)
        self.client.wire.resume()

    def _keep_for_replay(self, framed: bytes) -> None:
        kept = self._replay
        if kept is not None:
            self._replay_bytes += len(framed)
            if self._replay_bytes <= REPLAY_BYTES:
                kept.append(framed)
            else:
                self._replay = None

    def _up(self, payload: bytes) -> None:
        framed = self._frame_up(payload)
        if not framed:
            return
        upstream = self.upstream
        if upstream is None or upstream.wire is None or not upstream.open:
            self._queue += (framed,)
            self._queue_bytes += len(framed)
            if self._queue_bytes > HIGH_BYTES:
                self.client.wire.pause()
            return
        self._keep_for_replay(framed)
        upstream.wire.send(framed)
        self._renew_deadline()
        if upstream.wire.backlog_bytes > HIGH_BYTES:
            self.client.wire.pause()
        if self.req_done and self.resp_done:
            self.finish("clean")

    def upstream_drained(self) -> None:
        if not self.req_done or self._tunnel:
            self.client.wire.resume()

    # From the upstream

    def from_upstream(self, data: bytes) -> None:
        if self._tunnel:
            self._down_raw(data)
            return
        drive = self.drive
        passing = drive is None or drive.passing
        first = b""
        if self.resp is None:
            if self._up_buf:
                data = self._up_buf + data
                self._up_buf = b""
            read = self._read_answer_head(data)
            if read is None:
                return
            resp, data = read
            if self.down_body is None:
                self._relay_whole(resp, data)
                return
            if passing:
                first = self._client_head(resp)
            else:
                assert drive is not None
                drive.upstream_head(resp)
        body = self.down_body
        assert body is not None
        payload = b""
        if not body.done:
            try:
                payload = body.feed(data) if data else b""
            except Malformed as bad:
                if first:
                    self.send_down(first)
                self._cut("cut", f"bad answer body: {bad.why}")
                return
        elif data:
            body.rest = data
        if body.done:
            self.resp_done = True
        else:
            self._renew_deadline()
        if not passing:
            assert drive is not None
            drive.upstream_data(payload)
        elif self.limit_bytes is not None and self.down_bytes + len(payload) >= self.limit_bytes:
            self._reach_limit(first, payload)
        else:
            self._relay_down(first, payload)

    def _relay_whole(self, resp: ResponseHead, body: bytes) -> None:
        """Relay an answer that came in one piece, which is all of this exchange (rule 6)."""
        message = self._client_head(resp, body)
        self.resp_done = True
        self.down_bytes = len(body)
        if self._inflate is None and self.recording is None:
            self._edge = body[-EDGE_BYTES:]
        else:
            self.watch(body)
        self.first_ns = now_ns = mono_ns()
        if self.keep:
            self.client.wire.send_soon(message)
        else:
            self.client.wire.send(message)
        self.finish("clean", now_ns=now_ns)

    def _read_answer_head(self, data: bytes) -> tuple[ResponseHead, bytes] | None:
        """Read the answer's head, choose the reader of its body, give what came behind. None: nothing to relay (yet)."""
        upstream = self.upstream
        try:
            while True:
                end = cut_head(data)
                if not end:
                    self._up_buf = data
                    return None
                assert upstream is not None
                upstream.head = resp = self.hub.responses.response(data[:end], upstream.head)
                data = data[end:]
                if resp.status >= 200 or resp.status == 101:
                    break
                self._interim(resp)
                if not data:
                    return None
            self.resp = resp
            if resp.status == 101:
                self._switch_protocols(resp, data)
                return None
            # Rule 6. Such an exchange is over at once: nobody asks for the reader of its body.
            whole = resp.length == len(data) and self.req_done and self.drive is None
            if not whole or not has_body(resp, self.head.method):
                self.down_body = response_body(resp, self.head.method)
        except Malformed as bad:
            self.upstream_failed(502, f"bad_answer: {bad.why}")
            return None
        return resp, data

    def _relay_down(self, first: bytes, payload: bytes) -> None:
        if payload:
            self.down_bytes += len(payload)
            self.watch(payload)
            if isinstance(self.down_body, ChunkedBody) and not self.raw_down:
                first += chunk(payload)
            else:
                first += payload
        if self.resp_done and isinstance(self.down_body, ChunkedBody) and not self.raw_down:
            trailers = self.down_body.trailers
            first += chunked_end(trailers) if trailers else LAST_CHUNK
        if first:
            self.send_down(first)
        if self.resp_done:
            self._answer_over()

    def send_down(self, data: bytes) -> None:
        """Write towards the client; above the high mark the upstream is not read."""
        if self.first_ns is None:
            self.first_ns = mono_ns()
        wire = self.client.wire
        wire.send(data)
        if wire.backlog_bytes > HIGH_BYTES and self.upstream is not None and self.upstream.wire is not None:
            self.upstream.wire.pause()

    def client_drained(self) -> None:
        if self.drive is not None and not self.drive.passing:
            self.drive.drained()
        elif self.upstream is not None and self.upstream.wire is not None:
            self.upstream.wire.resume()
            self._renew_deadline()

    def send_client_head(self) -> None:
        """Send the upstream's head, which a script has read and not answered itself."""
        assert self.resp is not None
        self.send_down(self._client_head(self.resp))

    def answered_by_script(self) -> None:
        """A script has ended its answer."""
        self.finish("clean")

    def _interim(self, resp: ResponseHead) -> None:
        if not self.head.minor:
            return
        # A script has the answer, and what comes before it; but a client that waits to be asked for its body is asked.
        if self.drive is not None and not self.drive.passing and (not self.head.expects or self.first_ns is not None):
            return
        lines = [b"HTTP/1.1 %d %b" % (resp.status, resp.reason), *resp.lines, b"\r\n"]
        self.client.wire.send(b"\r\n".join(lines))
        if resp.status == 100:
            self.head.expects = False

    def _client_head(self, resp: ResponseHead, behind: bytes = b"") -> bytes:
        """The head that goes to the client, and with it how the body is framed and whether the connection stays.

        `behind` is what follows it in the same write.
        """
        head, body, lines = self.head, self.down_body, resp.lines
        minor = head.line.minor
        self.status = resp.status
        self.real = True
        ours = b""
        if self.answer_fields:
            put = {name.lower().encode("latin-1") for name, _ in self.answer_fields}
            lines = [line for line in lines if line.partition(b":")[0].lower() not in put]
            lines += [f"{name}: {value}".encode("latin-1") for name, value in self.answer_fields]
        if body is not None:
            if isinstance(body, ChunkedBody):
                if minor:
                    ours = b"Transfer-Encoding: chunked\r\n"
                else:
                    self.raw_down = True
                    self.keep = False
                    lines = [line for line in lines if line[:8].lower() != b"trailer:"]  # which would have no place
            elif isinstance(body, CloseBody):
                self.keep = False
            elif resp.chunked and head.method == "HEAD":
                ours = b"Transfer-Encoding: chunked\r\n"
            if head.expects and not self.req_done and not self.up_bytes:
                self.keep = False
        if not resp.keep_alive:
            self.keep = False
        if not self.keep:
            ours += b"Connection: close\r\n"
        elif not minor:
            ours += b"Connection: keep-alive\r\n"
        if resp.content_encoding:
            self.watch_coding(resp)
        return b"\r\n".join((resp.opening, *lines, ours, behind))

    def _answer_over(self) -> None:
        """The answer is whole. If the request is too, so is the exchange; else the rest of the body is still relayed."""
        if self.req_done:
            self.finish("clean")
        elif self.upstream is None or self.resp is None or not self.keep or not self.resp.keep_alive:
            self.finish("clean", "linger")

    def _reach_limit(self, first: bytes, payload: bytes) -> None:
        assert self.limit_bytes is not None and self.drive is not None
        take = self.limit_bytes - self.down_bytes
        self.held_down = payload[take:]
        if self.upstream is not None and self.upstream.wire is not None:
            self.upstream.wire.pause()
        passed, payload = payload[:take], b""
        self.limit_bytes = None
        if passed or first:
            self.down_bytes += len(passed)
            self.watch(passed)
            if passed:
                first += chunk(passed) if isinstance(self.down_body, ChunkedBody) and not self.raw_down else passed
            self.send_down(first)
        self.drive.limit_reached()

    def continue_pass(self) -> None:
        """Relay on after a limit: first what was held back."""
        held, self.held_down = self.held_down, b""
        if self.limit_bytes is not None and self.down_bytes + len(held) >= self.limit_bytes:
            self._reach_limit(b"", held)
            return
        if self.upstream is not None and self.upstream.wire is not None:
            self.upstream.wire.resume()
        if held or self.resp_done:
            self._relay_down(b"", held)

    def upstream_ended(self) -> None:
        """The upstream closed in order."""
        if self.over:
            return
        if self._tunnel:
            self.finish("clean", "fin")
            return
        if self.resp is None:
            self.upstream_failed(502, "closed without an answer")
            return
        body = self.down_body
        if self.resp_done:
            self._upstream_is_done()
            return
        if isinstance(body, CloseBody):
            body.end()
            self.resp_done = True
            if self.drive is not None and not self.drive.passing:
                self.drive.upstream_data(b"")
            else:
                self._relay_down(b"", b"")
            return
        self._cut("cut", "cut")

    def upstream_lost(self, why: str) -> None:
        """The upstream connection broke, or could not be made."""
        if self.over:
            return
        if self.resp is None:
            self.upstream_failed(502, why)
        elif self.resp_done:
            self._upstream_is_done()
        else:
            self._cut("rst" if why == "reset" else "cut", why)

    def _upstream_is_done(self) -> None:
        """It has answered in full and is gone. Where the request is not whole it does not want the rest.

        A script that has the answer in hand has not sent it yet: the exchange is over when the script says so.
        """
        self.upstream = None
        if self.drive is None or self.drive.passing:
            self._answer_over()

    def upstream_failed(self, status: int, why: str) -> None:
        """No answer can be had. A stale pooled connection is replaced once; anything else is told to the client."""
        upstream, self.upstream = self.upstream, None
        if upstream is not None:
            stale = upstream.uses > 1 and not upstream.answered and status == 502
            upstream.drop()
            if stale and self._replay is not None and not self._retried:
                self._retried = True
                self.hub.counters.upstream_retries += 1
                self._queue = (*self._replay, *self._queue)
                self._replay = []
                self._replay_bytes = 0
                self._dial()
                return
        if self.drive is not None and not self.drive.passing:
            self.drive.upstream_lost("timeout" if status == 504 else why)
            return
        self.hub.counters.upstream_errors += 1
        self.answer(status, "upstream_timeout" if status == 504 else "upstream_unavailable", "upstream_error")

    def lost_before_pass(self, why: str) -> None:
        """A script lets go of an exchange whose upstream was lost while the script had it."""
        if self.status is None:
            self.hub.counters.upstream_errors += 1
            late = why == "timeout"
            self.answer(504 if late else 502, "upstream_timeout" if late else "upstream_unavailable", "upstream_error")
            return
        held, self.held_down = self.held_down, b""
        if held:
            self._relay_down(b"", held)
        self._cut("rst" if why == "reset" else "cut", why)

    def _cut(self, end: str, why: str) -> None:
        """The answer broke off: the client is shown the same."""
        if self.drive is not None and not self.drive.passing:
            self.drive.upstream_lost(why)
            return
        self.finish(end, "rst" if end == "rst" else "fin")

    def answer(self, status: int, condition: str, end: str) -> None:
        """Answer in the dialect's words, and be done. A body that is still coming is read and dropped, within bounds."""
        path = self.head.origin_form.decode("latin-1")
        answer = self.dialect.error(status, condition, request_id=f"req_{self.id}", path=path)
        if not self.req_done:
            self.keep = False
        self.status = status
        body = b"" if self.head.method == "HEAD" else answer.body
        self.down_bytes += len(body)
        self.first_ns = mono_ns()
        self.client.wire.send(head_of(answer, keep_alive=self.keep) + body)
        self.finish(end)

    # Upgrade

    def _switch_protocols(self, resp: ResponseHead, data: bytes) -> None:
        self.status = 101
        self.keep = False
        self.real = True
        lines = [b"HTTP/1.1 101 %b" % resp.reason, *resp.lines, b"Connection: Upgrade"]
        if resp.upgrade is not None:
            lines.append(b"Upgrade: %b" % resp.upgrade)
        lines.append(b"\r\n")
        self.send_down(b"\r\n".join(lines))
        self._tunnel = True
        self.req_done = True
        self._renew_deadline()
        if data:
            self._down_raw(data)
        early, self.client.buf = self.client.buf, b""
        if early:
            self.from_client(early)

    def _down_raw(self, data: bytes) -> None:
        self.down_bytes += len(data)
        self._renew_deadline()
        self.send_down(data)

    # Deadlines and the end

    def _renew_deadline(self) -> None:
        hub = self.hub
        self.client.deadline_ns = mono_ns() + (hub.answer_ns if self.req_done else hub.body_ns)

    def on_deadline(self) -> None:
        """Somebody was silent for too long, if nothing moves either."""
        if self._goes_up():
            self._renew_deadline()
            return
        self.client.deadline_ns = NEVER_NS
        if self.drive is not None and not self.drive.passing:
            self.drive.upstream_lost("timeout")
            return
        connecting = self.upstream is not None and not self.upstream.open
        if self.resp is None and (self.req_done or connecting):
            self.upstream_failed(504, "timeout")
        elif self.resp is None:
            self.keep = False
            self.answer(408, "request_body_timeout", "client_gone")
        else:
            self.finish("stall", "rst")

    def _goes_up(self) -> bool:
        """Whether the upstream has taken more of the request since this was last asked: a client that waits is not silent."""
        upstream = self.upstream
        backlog = 0 if upstream is None or upstream.wire is None else upstream.wire.backlog_bytes
        before, self._backlog_bytes = self._backlog_bytes, backlog
        return 0 < backlog != before

    def finish(self, end: str, how: Ending | None = None, *, now_ns: int | None = None) -> None:
        """Write the attempt, free the upstream, go on to the client's next request, or as `how` says. `now_ns` None: look."""
        if self.over:
            return
        self.over = True
        hub, drive = self.hub, self.drive
        end_ns = now_ns or mono_ns()
        hub.counters.in_flight -= 1
        whole = end == "clean" and self.resp_done
        upstream = self.upstream
        if upstream is not None:
            self.upstream = None
            body, resp = self.down_body, self.resp
            stays = whole and self.req_done and resp is not None and resp.keep_alive
            if stays and (body is None or not (body.rest or isinstance(body, CloseBody))):
                upstream.give(end_ns)
            else:
                upstream.drop()
        before = hub.counters.tokens
        if drive is None:
            self.record_attempt(None, end, end_ns, whole=whole)
        else:
            self.drive = None
            # A script that let the request pass untouched has not met it.
            self.record_attempt(drive.injection.window if drive.acted else None, end, end_ns, whole=whole)
            drive.over()
        if self.paid:
            assert hub.purse is not None
            hub.purse.end(hub.counters.tokens - before)
        if how is None:
            how = "linger" if not self.req_done else "keep" if self.keep else "fin"
        self.client.next_request(how, end_ns)
