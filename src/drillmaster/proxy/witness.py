"""What one exchange tells the evidence: what it asked for, how its answer ended, one `attempt` line when it is over.

1. Bodies are never kept whole: of a request up to `PEEK_BYTES`, of a larger one its two ends; of an answer its end.
2. The nonce is looked for in every byte that goes up, once, also across the edges of pieces; the last one found is this
   request's own, since a conversation's history may hold older ones.
3. No credential leaves this module: a key is known by the first 16 hex digits of its sha256.
4. How long an answer asks its client to wait is read from what the client was given, a script's words or the upstream's,
   and from answers of 400 and over alone: nobody sends a request again because it was answered well.
5. Only an answer of the real endpoint costs tokens, and an error only where its own usage says so.
"""

import re
import zlib

import msgspec

from drillmaster.dialects import EDGE_BYTES, Dialect, Peek, peek_json, spent_tokens
from drillmaster.http1 import RequestHead, ResponseHead
from drillmaster.proxy.hub import Caller, Hub, Route
from drillmaster.proxy.peer import Peer
from drillmaster.proxy.recording import Recording
from drillmaster.rules import retry_after

__all__ = ["Attempt", "Witness"]

PEEK_BYTES = 65_536
INFLATE_BYTES = 1_048_576
"""The most that one piece of a compressed answer may unfold to; what is beyond is not looked at."""

_NONCE = re.compile(rb"dmn[0-9a-f]{16}")
_NONCE_BYTES = 19
# W3C Trace Context: version, trace id, parent id, flags; a later version may append more.
_TRACE = re.compile(rb"[0-9a-f]{2}-([0-9a-f]{32})-[0-9a-f]{16}-[0-9a-f]{2}(?:-.*)?")
_HEX, _DASH = b"0123456789abcdef", 45
_NOTHING = Peek()
_READABLE = frozenset((b"", b"identity"))


class Attempt(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """The `attempt` line, field by field as docs/reference/events.md says; times in ns since the run's zero.

    Fields with a default are left out where they have nothing to say.
    """

    id: str
    window: str | None
    conn: int
    nth: int
    method: str
    path: str
    dialect: str
    model: str | None
    stream: bool | None
    status: int | None
    retry_count: int | None
    key: str | None
    trace: str | None
    nonce: str | None
    start_ns: int
    first_ns: int | None
    end_ns: int
    up_bytes: int
    down_bytes: int
    end: str
    terminal: bool | None
    upstream: bool
    intact: bool
    tokens: int | None = None
    """What the answer's own usage says."""
    tokens_estimated: int | None = None
    """What an answer cost that does not say it, or not all of it."""
    asked_s: float | None = None
    asked_by: str | None = None


class Witness:
    """The observing half of an exchange, which says what it begins with."""

    __slots__ = (
        "_asked",
        "_asked_tail",
        "_edge",
        "_inflate",
        "_nonce_tail",
        "_peek_bytes",
        "altered",
        "caller",
        "client",
        "down_bytes",
        "first_ns",
        "head",
        "hub",
        "nonce",
        "real",
        "recording",
        "req_done",
        "resp",
        "route",
        "start_ns",
        "status",
        "told",
        "up_bytes",
    )

    hub: Hub
    head: RequestHead
    caller: Caller
    route: Route
    """The caller's."""
    client: Peer
    start_ns: int
    first_ns: int | None
    up_bytes: int
    down_bytes: int
    status: int | None
    nonce: bytes | None
    resp: ResponseHead | None
    real: bool
    """Whether bytes of a real upstream answer went to the client."""
    altered: bool
    """Whether a script sent the client something of an answer that the upstream did not say."""
    told: tuple[tuple[str, str], ...] | None
    """The fields of a head that a script sent; None: the client got the upstream's, or none."""
    req_done: bool
    recording: Recording | None
    """None: this exchange is of no mission, or nothing is recorded."""

    _nonce_tail: bytes
    _peek_bytes: int
    _asked: bytes
    _asked_tail: bytes
    _edge: bytes
    _inflate: "zlib._Decompress | None"

    @property
    def id(self) -> str:
        """Unique in the run."""
        return f"{self.hub.attempt_prefix}{self.client.id}-{self.client.nth}"

    @property
    def dialect(self) -> Dialect:
        return self.route.dialect

    def look(self, payload: bytes) -> None:
        """See a piece of the request's body."""
        if self.recording is not None:
            self.recording.asked(payload)
        tail = self._nonce_tail
        seen = tail + payload if tail else payload
        at = seen.find(b"dmn")
        while at >= 0:
            if match := _NONCE.match(seen, at):
                self.nonce = match[0]
            at = seen.find(b"dmn", at + 3)
        if not self.req_done:
            self._nonce_tail = seen[-(_NONCE_BYTES - 1) :]
        before, size = self._peek_bytes, len(payload)
        self._peek_bytes = before + size
        if before + size <= PEEK_BYTES:
            self._asked = self._asked + payload if before else payload
            return
        if before <= PEEK_BYTES:
            whole = self._asked + payload[:EDGE_BYTES]
            self._asked_tail = self._asked[-EDGE_BYTES:]
            self._asked = whole[:EDGE_BYTES]
        self._asked_tail = (self._asked_tail + payload[-EDGE_BYTES:])[-EDGE_BYTES:]

    def peek(self) -> Peek:
        """Model and stream, as far as the request says."""
        if not self._asked:
            return _NOTHING
        if self._peek_bytes > PEEK_BYTES or not self.req_done:
            seen = peek_json(self._asked[:EDGE_BYTES], self._asked_tail)
        else:
            seen = peek_json(self._asked)
        return self.dialect.peek(self.head, seen) if self.route.corrects else seen

    def watch_coding(self, resp: ResponseHead) -> None:
        """Be ready for the answer's content coding: gzip and deflate can be looked into."""
        if resp.content_encoding in (b"gzip", b"x-gzip", b"deflate"):
            self._inflate = zlib.decompressobj(47)  # gzip or zlib, told by its header

    def watch(self, payload: bytes) -> None:
        """See a piece of the answer's body; its decoded end is kept."""
        if self.recording is not None:
            self.recording.answered(payload)
        if self._inflate is not None:
            try:
                payload = self._inflate.decompress(payload, INFLATE_BYTES)
            except zlib.error:
                self._inflate = None
                payload = b""
        if len(payload) >= EDGE_BYTES or not self._edge:
            self._edge = payload[-EDGE_BYTES:]
        else:
            self._edge = (self._edge + payload)[-EDGE_BYTES:]

    def trace(self) -> str | None:
        """The trace id of the request's `traceparent`."""
        traceparent = self.head.named.get(b"traceparent")
        if traceparent is None:
            return None
        # The version of today by its shape, at a third of the price of the expression, which knows the versions to come.
        t = traceparent
        if len(t) == 55 and t[2] == t[35] == t[52] == _DASH and t.translate(None, _HEX) == b"---":
            return t[3:35].decode("ascii")
        match = _TRACE.fullmatch(traceparent)
        return None if match is None else match[1].decode("ascii")

    def nonce_text(self) -> str | None:
        return None if self.nonce is None else self.nonce.decode("ascii")

    def terminal(self, *, whole: bool) -> bool | None:
        """Whether the API's terminal state was reached; None where the answer is coded as we cannot read."""
        resp, status = self.resp, self.status
        if resp is None or status is None or not self.real:
            return False
        coding = resp.content_encoding
        if coding and whole and status == 200 and self._inflate is None and coding not in _READABLE:
            return None
        return self.route.dialect.finished(status, resp.content_type, self._edge, whole)

    def has_said_all(self) -> bool:
        """Whether a stream has given its client the API's last word: many leave with that, before the framing's end."""
        resp = self.resp
        streams = resp is not None and resp.content_type.startswith((b"text/event-stream", b"application/x-ndjson"))
        return streams and self.terminal(whole=True) is True

    def asked(self) -> tuple[float | None, str | None]:
        """How many seconds an answer that is an error asks to wait, and in which form; rule 4."""
        fields = self.told
        if fields is None:
            resp = self.resp
            if resp is None or resp.status != self.status:
                return None, None
            fields = tuple(
                (name.decode("latin-1"), value.decode("latin-1"))
                for name, _, value in (line.partition(b":") for line in resp.lines)
            )
        read = retry_after.read(fields, self._edge, now_s=self.hub.wall_ns() / 1e9)
        if read is None:
            return None, None
        return (read.wait_s, read.by) if isinstance(read, retry_after.Told) else (None, "unreadable")

    def record_attempt(self, window: str | None, end: str, end_ns: int, *, whole: bool) -> None:
        """Write the `attempt` line (docs/reference/events.md)."""
        whole = whole or (end == "clean" and self.has_said_all())
        hub, route, caller, client = self.hub, self.route, self.caller, self.client
        peek = self.peek()
        mono0_ns = hub.mono0_ns
        first_ns, nonce, model = self.first_ns, self.nonce, peek.model
        real, status = self.real, self.status
        tokens = estimated = asked_s = asked_by = None
        if real:
            spent, told = spent_tokens(self._edge, self.up_bytes, self.down_bytes)
            hub.counters.tokens += spent
            if told:
                tokens = spent
            elif status is not None and status < 400:
                estimated = spent
        if status is not None and status >= 400:
            asked_s, asked_by = self.asked()
        ns = end_ns - mono0_ns
        nth = client.nth
        hub.record_attempt(
            Attempt(
                f"{hub.attempt_prefix}{client.id}-{nth}",
                window,
                client.id,
                nth,
                route.method,
                route.path,
                route.name,
                model if model is None else hub.cleaned.get(model) or hub.clean(model),
                peek.stream,
                status,
                caller.retry_count,
                caller.key,
                self.trace(),
                None if nonce is None else nonce.decode("ascii"),
                self.start_ns - mono0_ns,
                None if first_ns is None else first_ns - mono0_ns,
                ns,
                self.up_bytes,
                self.down_bytes,
                end,
                self.terminal(whole=whole),
                real,
                real and whole and not self.altered,
                tokens,
                estimated,
                asked_s,
                asked_by,
            ),
            ns,
        )
        if self.recording is not None:
            self._recorded(end)

    def _recorded(self, end: str) -> None:
        """Hand the exchange to the recorder, as its client had it."""
        recorder, recording, head, resp = self.hub.recorder, self.recording, self.head, self.resp
        assert recorder is not None and recording is not None
        fields, coding = self.told, b""
        if fields is None and resp is not None:
            fields = tuple(
                (name.decode("latin-1"), value.decode("latin-1").strip())
                for name, _, value in (line.partition(b":") for line in resp.lines)
            )
            coding = resp.content_encoding
        recorder.end(
            recording,
            self.id,
            (head.method, head.origin_form.decode("latin-1"), head.lines),
            status=self.status,
            answer_headers=list(fields or ()),
            coding=coding,
            end=end,
        )
