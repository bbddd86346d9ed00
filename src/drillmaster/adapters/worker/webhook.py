"""A webhook's terminator, as an ASGI application: verify, read, store, answer. Nothing else happens on this path.

1. The guard (`drillmaster.guards.webhook`) decides by facts; here they are found out, one after the other, and each answer is
   a row of its table. Bodies are bytes until their signature matched.
2. All of a body has to be here within one deadline from its head on, however it trickles. What is announced larger than may be is
   refused unread.
3. The answer waits for the store and for nothing else: no model, no rule, no other host. A store that does not answer in time is
   500; what it keeps late is the same event when it is sent again.
4. What is refused unread is read past and thrown away for a moment, within bounds: a connection that is closed on unread bytes can
   lose the answer.
5. Whoever listens to decisions hears the guard, the reason, the status and how often; never a header, an identifier or a body.
"""

import asyncio
import contextvars
import logging
import queue
import threading
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, NamedTuple

import msgspec

from drillmaster.clock import Clock, SystemClock
from drillmaster.guards.webhook import STATUS, Delivery, Document, Stored, Webhook
from drillmaster.rules.webhook_schemes import SCHEMES, Key, check, event_id, header_names, same_digest
from drillmaster.screen import key_hash
from drillmaster.stores.inbox import Arrival, Inbox, Unkept
from drillmaster.strict import Malformed, strict_json

__all__ = ["Endpoint", "Keeper", "OnDecision", "Terminator", "Told"]

Scope = dict[str, Any]
Receive = Callable[[], Awaitable[dict[str, Any]]]
Send = Callable[[dict[str, Any]], Awaitable[None]]

_log = logging.getLogger("drillmaster.webhook")
_DRAIN_S = 2.0
_DRAIN_BYTES = 4 << 20
_MOST_WAITING = 256
_TOGETHER = 64
_CLOSE_S = 5.0
_LARGE_BYTES = 16_384
_ROOM_BYTES = 64 << 20
"""Of all bodies that are under way, half ones too; at least two of the largest size."""


class Told(msgspec.Struct, frozen=True, kw_only=True):
    """One decision, without anything of what it was about. `count`: how often this reason was, since the start."""

    guard: str
    allowed: bool
    reason: str
    status: int
    count: int


OnDecision = Callable[[Told], None]


class Endpoint(msgspec.Struct, frozen=True, kw_only=True):
    """Where events of one provider arrive. `source` names the provider's account in the inbox."""

    source: str
    path: str
    limits: Webhook
    keys: tuple[Key, ...]
    hostname: str | None = None
    """The only host that is served; None: any."""


class _Waiting(NamedTuple):
    arrival: Arrival
    loop: asyncio.AbstractEventLoop
    done: "asyncio.Future[Stored]"
    context: contextvars.Context


class Keeper:
    """Threads that keep events, each with an inbox of its own. What waits is bounded, and so is each wait."""

    def __init__(self, opened: Callable[[], Inbox], *, within_s: float, threads: int, together: int = 1) -> None:
        self._opened = opened
        self._within_s = within_s
        self._together = min(together, _TOGETHER)
        self._waiting: queue.Queue[_Waiting | None] = queue.Queue(_MOST_WAITING)
        self._threads = [threading.Thread(target=self._keep_on, daemon=True, name="inbox") for _ in range(threads)]
        for thread in self._threads:
            thread.start()

    @classmethod
    def of(cls, named: str, opened: Callable[[], Inbox], *, within_s: float) -> "Keeper":
        """Take as many threads as the kind of inbox is served by: a file has one writer, who writes many at once."""
        return cls(opened, within_s=within_s, threads=4) if "://" in named else cls(
            opened, within_s=within_s, threads=1, together=_TOGETHER
        )  # fmt: skip  # one choice of two

    async def keep(self, arrival: Arrival) -> Stored:
        """Keep an event; whatever is not known to be kept is `failed`."""
        loop = asyncio.get_running_loop()
        done: asyncio.Future[Stored] = loop.create_future()
        try:
            self._waiting.put_nowait(_Waiting(arrival, loop, done, contextvars.copy_context()))
        except queue.Full:
            return "no-room"
        try:
            return await asyncio.wait_for(done, self._within_s)
        except TimeoutError:
            return "failed"

    def close(self, *, within_s: float = _CLOSE_S) -> None:
        """Let the threads end when what waits is kept; wait for that so long."""
        ends = time.monotonic() + within_s
        for _ in self._threads:
            try:
                self._waiting.put(None, timeout=within_s)
            except queue.Full:
                return
        for thread in self._threads:
            thread.join(max(0.0, ends - time.monotonic()))

    def _keep_on(self) -> None:
        inbox = self._opened()
        while (first := self._waiting.get()) is not None:
            batch, last = [first], False
            while len(batch) < self._together and not last:
                try:
                    more = self._waiting.get_nowait()
                except queue.Empty:
                    break
                if more is None:
                    last = True
                else:
                    batch.append(more)
            arrivals = [one.arrival for one in batch]
            # In the first one's context: what traces the store finds the request it was for.
            self._answer(batch, batch[0].context.run(self._kept, inbox, arrivals))
            if last:
                break
        inbox.close()

    def _kept(self, inbox: Inbox, arrivals: list[Arrival]) -> Sequence[Stored]:
        try:
            return [inbox.keep(arrivals[0])] if len(arrivals) == 1 else inbox.keep_all(arrivals)
        except Unkept as problem:
            _log.error("not kept: %s", problem)
        except Exception as error:  # noqa: BLE001 - a thread that dies here would refuse all that comes
            _log.error("not kept: %s", type(error).__name__)
        return ["failed"] * len(arrivals)

    def _answer(self, batch: list[_Waiting], stored: Sequence[Stored]) -> None:
        for one, kept in zip(batch, stored, strict=True):
            try:
                one.loop.call_soon_threadsafe(_settle, one.done, kept)
            except RuntimeError:  # the loop is closed: nobody waits any more
                return


def _settle(done: "asyncio.Future[Stored]", stored: Stored) -> None:
    if not done.done():
        done.set_result(stored)


class _Gone(Exception):
    """The client went away: nobody is left to answer."""


class Terminator:
    """The application. `counts` says how often each reason was, and how often a client was gone before it was answered."""

    def __init__(
        self, endpoint: Endpoint, keeper: Keeper, *, clock: Clock | None = None, on_decision: OnDecision | None = None
    ) -> None:
        if endpoint.limits.lane == "production" and not endpoint.keys:
            raise ValueError("an endpoint in production has keys")
        self._endpoint = endpoint
        self._scheme = SCHEMES[endpoint.limits.scheme]
        self._path = endpoint.path.encode("ascii")
        self._keeper = keeper
        self._clock = clock or SystemClock()
        self._on_decision = on_decision
        self._signed = header_names()
        self._room_bytes = max(_ROOM_BYTES, 2 * endpoint.limits.max_body_bytes)
        self.counts: dict[str, int] = {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._lifespan(receive, send)
        elif scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008})
        elif scope["type"] == "http":
            await self._http(scope, receive, send)

    async def _lifespan(self, receive: Receive, send: Send) -> None:
        while True:
            message = await receive()
            if message["type"] == "lifespan.startup":
                await send({"type": "lifespan.startup.complete"})
            elif message["type"] == "lifespan.shutdown":
                await asyncio.to_thread(self._keeper.close)
                await send({"type": "lifespan.shutdown.complete"})
                return

    async def _http(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            reason, unread = await self._decided(scope, receive)
        except _Gone:
            self._count("client-gone")
            return
        except Exception as error:  # noqa: BLE001 - what it says could quote a body
            _log.error("a request ended in %s", type(error).__name__)
            reason, unread = "facts-unusable", True
        self._tell(reason)
        await _reply(send, reason, closes=_has_two_lengths(scope))
        if unread:
            await _drain(receive)
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _decided(self, scope: Scope, receive: Receive) -> tuple[str, bool]:
        """Find out facts until they decide; the reason, and whether something of the body is unread."""
        parts: list[bytes] = []
        try:
            return await self._found(scope, receive, parts)
        finally:
            self._room_bytes += sum(map(len, parts))

    async def _found(self, scope: Scope, receive: Receive, parts: list[bytes]) -> tuple[str, bool]:
        headers: Sequence[tuple[bytes, bytes]] = [(name.lower(), value) for name, value in scope["headers"]]
        facts = Delivery(
            path_known=self._is_ours(scope, headers), method=scope["method"], body_bytes=_announced(headers)
        )
        if (reason := self._ask(facts, self._now_ms())) != "undecided":
            return reason, True
        room, complete, ended = await self._read(receive, parts)
        body = b"".join(parts)
        # One time for all that follows: an event is as old as when it was here, however long it takes to store it.
        now_ms = self._now_ms()
        facts = msgspec.structs.replace(facts, body_bytes=len(body), complete=complete, room=room)
        if (reason := self._ask(facts, now_ms)) != "undecided":
            return reason, reason in ("too-large", "no-room") and not ended
        checked = check(self._scheme, headers, body, self._endpoint.keys)
        signature: Any = checked.signature
        if self._endpoint.limits.lane == "lab":
            signature = "wrong" if any(self._signs(name) for name, _ in headers) else "unsigned"
        facts = msgspec.structs.replace(facts, signature=signature, signed_s=checked.time_s)
        if (reason := self._ask(facts, now_ms)) != "undecided":
            return reason, False
        # JSON that is wrong at its end costs 1.6 µs a byte: a large one is read beside the loop, and holds nobody up.
        document, usable = _document(body) if len(body) < _LARGE_BYTES else await asyncio.to_thread(_document, body)
        known = event_id(self._scheme, checked, body, document) if usable == "usable" else None
        if usable == "usable" and known is None:
            usable = "no-id"
        facts = msgspec.structs.replace(facts, document=usable)
        if (reason := self._ask(facts, now_ms)) != "undecided" or known is None:
            return reason, False
        arrival = Arrival(
            source=self._endpoint.source, event_id=known, digest=same_digest(self._scheme, body, document), body=body
        )
        stored = await self._keeper.keep(arrival)
        if stored == "other-body":
            _log.critical(
                "ALARM: another body under a known identifier: source %s, identifier %s",
                arrival.source,
                key_hash(known),
            )
        return self._ask(msgspec.structs.replace(facts, stored=stored), now_ms), False

    def _signs(self, name: bytes) -> bool:
        """Whether a header signs something, by a scheme of the table or one that is called so."""
        return name in self._signed or b"signature" in name or b"hmac" in name

    def _is_ours(self, scope: Scope, headers: Sequence[tuple[bytes, bytes]]) -> bool:
        path = scope.get("raw_path")  # a server need not say it
        if (scope["path"].encode("utf-8", "replace") if path is None else path) != self._path or scope.get(
            "query_string"
        ):
            return False
        wanted = self._endpoint.hostname
        if wanted is None:
            return True
        hosts = [value for name, value in headers if name == b"host"]
        return len(hosts) == 1 and hosts[0].rpartition(b":")[0 if b":" in hosts[0] else 2].lower() == wanted.encode()

    async def _read(self, receive: Receive, parts: list[bytes]) -> tuple[bool, bool, bool]:
        """Read the body to its end, its cap, its deadline or the end of the room: whether there was any, in time, and all."""
        limits = self._endpoint.limits
        size, room, ended = 0, True, False
        try:
            async with asyncio.timeout(limits.read_within_ms / 1_000):
                while room and not ended and size <= limits.max_body_bytes:
                    message = await receive()
                    if message["type"] != "http.request":
                        raise _Gone
                    parts.append(message.get("body", b""))
                    size += len(parts[-1])
                    self._room_bytes -= len(parts[-1])
                    room = self._room_bytes >= 0
                    ended = not message.get("more_body", False)
        except TimeoutError:
            return room, False, False
        return room, True, ended

    def _now_ms(self) -> int:
        return self._clock.wall_ns() // 1_000_000

    def _ask(self, facts: Delivery, now_ms: int) -> str:
        _, decision = self._endpoint.limits.step(None, facts, now_ms)
        return decision.reason

    def _count(self, reason: str) -> int:
        self.counts[reason] = count = self.counts.get(reason, 0) + 1
        return count

    def _tell(self, reason: str) -> None:
        count = self._count(reason)
        if self._on_decision is None:
            return
        status = STATUS[reason]
        told = Told(guard="webhook", allowed=status == 202, reason=reason, status=status, count=count)
        try:
            self._on_decision(told)
        except Exception as error:  # noqa: BLE001 - whoever listens does not decide
            self._count("listener-failed")
            _log.error("a listener to decisions ended in %s", type(error).__name__)


def _announced(headers: Sequence[tuple[bytes, bytes]]) -> int:
    """Give the body's length as it was announced; 0 where nobody said it. The server has checked that it is one number."""
    said = next((value for name, value in headers if name == b"content-length"), b"")
    return int(said) if said.isdigit() and len(said) <= 15 else 0


def _document(body: bytes) -> tuple[object, Document]:
    try:
        document = strict_json(body)
    except Malformed:
        return None, "unusable"
    return (document, "usable") if isinstance(document, dict) else (None, "unusable")


def _has_two_lengths(scope: Scope) -> bool:
    """Whether a proxy in front may have taken another length than the server did; RFC 9112, 6.1: close the connection then."""
    names = {name.lower() for name, _ in scope["headers"]}
    return b"content-length" in names and b"transfer-encoding" in names


async def _reply(send: Send, reason: str, *, closes: bool) -> None:
    """Send the whole answer but its end, so that what is unread can be read past before the connection is closed."""
    status = STATUS[reason]
    text = f"{reason}\n".encode()
    headers = [(b"content-type", b"text/plain; charset=utf-8"), (b"content-length", b"%d" % len(text))]
    if closes or status in (404, 405, 408, 413, 500):
        headers.append((b"connection", b"close"))
    if status == 405:
        headers.append((b"allow", b"POST"))
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": text, "more_body": True})


async def _drain(receive: Receive) -> None:
    size = 0
    try:
        async with asyncio.timeout(_DRAIN_S):
            while size < _DRAIN_BYTES:
                message = await receive()
                if message["type"] != "http.request" or not message.get("more_body", False):
                    return
                size += len(message.get("body", b""))
    except TimeoutError:
        return
