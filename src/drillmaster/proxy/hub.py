"""What all connections of one proxy share: the switch, the upstream pool, the counters, the evidence, the deadlines."""

import asyncio
import hashlib
import os
import random
import re
import ssl
from collections.abc import Callable
from dataclasses import dataclass
from time import monotonic_ns as mono_ns
from typing import Any, Protocol

import msgspec

from drillmaster.clock import Clock
from drillmaster.dialects import Dialect, catalogue, load, recognise
from drillmaster.errors import Problem
from drillmaster.http1 import HeadReader, RequestHead
from drillmaster.proxy.pool import Pool
from drillmaster.proxy.purse import Purse
from drillmaster.proxy.recording import FIELD, Recorder
from drillmaster.proxy.settings import Limits, Upstream
from drillmaster.proxy.switch import Counters, Injection, Switch
from drillmaster.screen import screen_text

__all__ = ["NEVER_NS", "EventSink", "Hub", "NullSink", "mono_ns"]

NAMED = frozenset(
    (
        b"authorization",
        b"x-api-key",
        b"api-key",
        b"x-goog-api-key",
        b"traceparent",
        b"x-stainless-retry-count",
        b"anthropic-version",
        b"mcp-session-id",
        b"mcp-protocol-version",
    )
)
"""The fields of a request that the evidence, or a dialect, asks for."""
_encode = msgspec.json.Encoder().encode
_NONCE = re.compile(rb"dmn[0-9a-f]{16}")
MAX_TEXT_CHARS = 200
MAX_KEYS = 4_096
MAX_ROUTE_BYTES = 1_024
"""A longer request line is looked at each time."""
_METHODS = frozenset(("GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS"))
NEVER_NS = 1 << 62
"""Later than any monotonic clock reads."""


class EventSink(Protocol):
    """Where evidence goes. `write` raises OSError or Problem when the line is not on its way to the disk."""

    def write(self, event: str, /, **fields: Any) -> object: ...

    def write_encoded(self, event: str, fields: bytes, ns: int | None = None) -> object:
        """The same, of a JSON object whose texts are screened already. `ns` None: now."""


class Swept(Protocol):
    """A client connection, as far as the hub knows it."""

    deadline_ns: int

    def on_deadline(self) -> None: ...


class Running(Protocol):
    """A script that is under way."""

    injection: Injection

    def lift(self) -> None: ...

    def sweep(self, now_ns: int) -> None: ...


class NullSink:
    """No evidence: a proxy that a person started by hand without `--events`."""

    def write(self, event: str, /, **fields: Any) -> None:
        return None

    def write_encoded(self, event: str, fields: bytes, ns: int | None = None) -> None:
        return None


@dataclass(frozen=True, slots=True)
class Route:
    """What requests have in common that share their first line, host and the names that evidence asks for."""

    dialect: Dialect
    name: str
    """The dialect's."""
    corrects: bool
    """Whether the dialect knows more of model and stream than the body says."""
    method: str
    path: str
    """Both as evidence shows them."""
    opening: bytes
    """Request line and Host field as they go to the upstream; empty where nothing of this kind goes there."""
    nonce: bytes | None
    """The one in the target."""


@dataclass(frozen=True, slots=True)
class Caller:
    """What requests have in common that share the values of those fields as well: as a rule all of one connection."""

    route: Route
    key: str | None
    """The credential's, see `Hub.key_hash`."""
    retry_count: int | None
    """Which attempt of its SDK's it says that it is, from 0."""


_MET = {"reset": "reset one connection", "503": "served 503", "hang": "hanging one connection"}


class Hub:
    """Shared state of one proxy. Made before the loop runs; `relay` and `control` use it from the loop."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        clock: Clock,
        sink: EventSink,
        *,
        upstream: Upstream | None,
        tls: ssl.SSLContext | None,
        dialect: str,
        limits: Limits,
        mono0_ns: int,
        seed: int,
        purse: Purse | None = None,
        recorder: Recorder | None = None,
    ) -> None:
        self.loop = loop
        self.clock = clock
        self.sink = sink
        self.upstream = upstream
        self.limits = limits
        self.pool = Pool(loop, upstream, tls, limits) if upstream is not None else None
        self.mono0_ns = mono0_ns
        self.seed = seed
        self.counters = Counters()
        self.purse = purse
        """None: there is no cap."""
        self.switch = Switch(clock, self._lifted)
        self.head_ns = round(limits.head_s * 1e9)
        self.idle_ns = round(limits.idle_s * 1e9)
        self.answer_ns = round(limits.answer_s * 1e9)
        self.body_ns = round(limits.body_s * 1e9)
        self.recorder = recorder
        """None: no exchange is recorded."""
        named = NAMED if recorder is None else NAMED | {FIELD}
        self.requests = HeadReader(named, fresh=frozenset((b"traceparent", FIELD)))
        self.responses = HeadReader(response=True)
        self.clients: set[Any] = set()
        self.running: set[Running] = set()
        """The script drivers that are under way, of whatever window."""
        self.dialects = catalogue() if dialect == "auto" else (load(dialect),)
        self.last_dialect = self.dialects[-1]
        self.evidence_failed = False
        self.tell: Callable[[str], None] | None = None
        self.on_lift: Callable[[Injection], None] | None = None
        """Called at each lift, after its line was written and before its scripts are told."""
        self._conn = 0
        self.attempt_prefix = f"{os.getpid():x}-"
        """Begins the ids of attempts: a restarted proxy has another process id."""
        self._lifted_ns: dict[str, int] = {}
        self._owed: list[tuple[str, dict[str, Any]]] = []
        self.cleaned: dict[str, str] = {}
        """What `clean` remembers: texts that were few so far, screened."""
        self._routes: dict[tuple[object, ...], Route] = {}
        self._key_hashes: dict[bytes, str] = {}
        self._key_first_ns: dict[str, int] = {}

    def next_conn(self) -> int:
        self._conn += 1
        return self._conn

    def say(self, injection: Injection) -> None:
        """Tell a person at the terminal that a request was met."""
        if self.tell is not None:
            self.tell(_MET.get(injection.tag, f"{injection.tag} met one request"))

    def forget(self, client: Swept) -> None:
        """This client's connection is closed."""
        self.clients.discard(client)

    # Evidence

    def record(self, event: str, fields: dict[str, Any]) -> bool:
        """Write one line; False when that was not possible. Then the fault is lifted, and traffic goes on passing."""
        try:
            self.sink.write(event, **fields)
        except (OSError, Problem):
            if event == "fault_lifted":
                self._owed.append((event, fields))
            self._lost()
            return False
        self._kept()
        return True

    def record_attempt(self, attempt: msgspec.Struct, ns: int) -> None:
        """Write one `attempt` line, whose texts are screened already, as of `ns` since the run's zero."""
        try:
            self.sink.write_encoded("attempt", _encode(attempt), ns)
        except (OSError, Problem):
            self._lost()
            return
        if self.evidence_failed:
            self._kept()
        else:
            self.counters.evidence_lines += 1

    def _lost(self) -> None:
        self.counters.evidence_lost += 1
        if not self.evidence_failed:
            self.evidence_failed = True
            self.switch.lift("failed")

    def _kept(self) -> None:
        self.counters.evidence_lines += 1
        if self.evidence_failed:
            # There is room again. What is owed is written late rather than never; what was lost stays counted.
            self.evidence_failed = False
            owed, self._owed = self._owed, []
            for late, late_fields in owed:
                self.record(late, late_fields)

    def broke(self) -> None:
        """A request was kept from the real endpoint, since the cap is reached: the drill is over, and so is its fault."""
        purse = self.purse
        assert purse is not None
        if not self.counters.spend_refused:
            self.record("spend_capped", {"requests": purse.requests, "tokens": purse.tokens})
            self.switch.lift("failed")
        self.counters.spend_refused = purse.refused

    def clean(self, text: str) -> str:
        """Screen a text that a client wrote, and shorten it. Remembered: paths and models are few."""
        if len(text) > MAX_TEXT_CHARS:
            # Screened before it is cut: a secret that the cut would halve is no longer seen for one.
            return screen_text(text[: 4 * MAX_TEXT_CHARS])[:MAX_TEXT_CHARS]
        known = self.cleaned.get(text)
        if known is None:
            if len(self.cleaned) >= 1_024:
                self.cleaned.clear()
            known = self.cleaned[text] = screen_text(text)
        return known

    def _lifted(self, injection: Injection) -> None:
        lifted_ns = (injection.lifted_ns or 0) - self.mono0_ns
        self._lifted_ns[injection.window] = lifted_ns
        self.record("fault_lifted", {"window": injection.window, "why": injection.why, "lifted_ns": lifted_ns})
        for row in injection.tallies():
            self.record("fault_rule_tally", row)
        if self.on_lift is not None:
            self.on_lift(injection)
        for drive in tuple(self.running):
            if drive.injection is injection:
                drive.lift()

    def lifted_ns(self, window: str) -> int | None:
        """When that window was lifted, since the run's zero; None: it never was on."""
        return self._lifted_ns.get(window)

    def caller(self, request: RequestHead) -> Caller:
        """What is known of whoever sends this. Remembered with the head, from one of a connection to the next."""
        known: Caller | None = request.memo
        if known is None:
            named = request.named
            retry = named.get(b"x-stainless-retry-count")
            known = request.memo = Caller(
                self.route(request),
                self.key_hash(named),
                int(retry) if retry is not None and retry.isdigit() and len(retry) < 6 else None,
            )
        return known

    def route(self, request: RequestHead) -> Route:
        """Which API this request speaks, and how it is put to the upstream. Remembered by all that recognition looks at."""
        seen = (request.line.raw, request.host, *request.named)
        known = self._routes.get(seen)
        if known is None:
            known = self._read_route(request)
            if len(request.line.raw) <= MAX_ROUTE_BYTES:
                if len(self._routes) >= 256:
                    self._routes.clear()
                self._routes[seen] = known
        return known

    def _read_route(self, request: RequestHead) -> Route:
        upstream = self.upstream
        opening = b""
        if upstream is not None and request.method != "CONNECT":
            opening = b"%b %b%b HTTP/1.1\r\nHost: %b" % (
                request.method.encode("ascii"),
                upstream.prefix,
                request.origin_form,
                upstream.authority,
            )
        dialect = recognise(request, self.dialects, None if upstream is None else upstream.authority)
        nonce = _NONCE.search(request.target)
        return Route(
            dialect=dialect,
            name=dialect.name,
            corrects=type(dialect).peek is not Dialect.peek,
            method=request.method if request.method in _METHODS else self.clean(request.method),
            path=self.clean(request.path),
            opening=opening,
            nonce=None if nonce is None else nonce[0],
        )

    def key_hash(self, named: dict[bytes, bytes]) -> str | None:
        """The first 16 hex digits of the credential's sha256; never the credential."""
        get = named.get
        credential = get(b"authorization") or get(b"x-api-key") or get(b"api-key") or get(b"x-goog-api-key")
        if credential is None:
            return None
        known = self._key_hashes.get(credential)
        if known is None:
            if len(self._key_hashes) >= 256:
                self._key_hashes.clear()
            bare = credential[7:].strip() if credential[:7].lower() == b"bearer " else credential
            known = self._key_hashes[credential] = hashlib.sha256(bare).hexdigest()[:16]
            if known not in self._key_first_ns:
                if len(self._key_first_ns) >= MAX_KEYS:
                    del self._key_first_ns[next(iter(self._key_first_ns))]
                self._key_first_ns[known] = mono_ns()
        return known

    def key_first_ns(self, key_hash: str | None) -> int | None:
        """When a credential was first seen here; None: never, or forgotten since (`MAX_KEYS` are kept)."""
        return None if key_hash is None else self._key_first_ns.get(key_hash)

    def keys_since_ns(self) -> int | None:
        """When the first credential of those that are remembered was seen here."""
        return next(iter(self._key_first_ns.values()), None)

    def wall_ns(self) -> int:
        return self.clock.wall_ns()

    def rng(self, injection: Injection, conn: int, nth: int) -> random.Random:
        """Seeded by run, window, connection and request."""
        return random.Random(f"{self.seed}/{injection.window}/{conn}/{nth}")  # noqa: S311 - fates, not secrets

    def now_ns(self) -> int:
        return mono_ns()
