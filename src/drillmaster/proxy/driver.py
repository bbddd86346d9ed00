"""The driver of a fault's script: it owns the clock and the sockets, carries out each action, and bounds every hold.

1. A script is told of a lift by `Lifted`; what it does after that has `linger_s` at most, then the connection is reset.
2. When the client is gone the script is closed, and everything it held is free.
3. A script that yields without ever waiting gives the loop back every `MAX_STEPS` actions.
4. What a script does not read is not read from the socket either, beyond `wire.HIGH_BYTES`.
"""

import asyncio
import sys
import time
from collections import deque
from functools import partial
from typing import TYPE_CHECKING, Literal

from drillmaster.faults import (
    Action,
    Close,
    Cx,
    Data,
    End,
    Event,
    Frame,
    Head,
    Late,
    Lifted,
    Lost,
    Pass,
    Passed,
    Raw,
    Read,
    Refuse,
    Script,
    Send,
    Wait,
)
from drillmaster.http1 import LAST_CHUNK, Frames, Lines, Malformed, ResponseHead, answer_head, chunk
from drillmaster.proxy.switch import Injection
from drillmaster.wire import HIGH_BYTES

if TYPE_CHECKING:  # exchange and driver know each other; only one of them can import the other
    from drillmaster.proxy.exchange import Exchange

__all__ = ["MAX_STEPS", "Drive"]

MAX_STEPS = 256

Parked = Literal["client", "upstream", "wait", "drain", "pass", ""]


class Drive:
    """One script at work on one exchange."""

    __slots__ = (
        "_by",
        "_chunked",
        "_client_events",
        "_client_queued",
        "_ended",
        "_ex",
        "_framed",
        "_frames",
        "_head_sent",
        "_held",
        "_parked",
        "_raw",
        "_script",
        "_stepping",
        "_timer",
        "_up_events",
        "_up_queued",
        "_up_started",
        "acted",
        "deadline_ns",
        "injection",
        "lifted",
        "passing",
    )

    def __init__(self, ex: "Exchange", injection: Injection) -> None:
        self._ex = ex
        self.injection = injection
        self.passing = False
        """Whether the exchange relays by itself just now."""
        self.acted = False
        self.lifted = False
        self.deadline_ns = time.monotonic_ns() + round(ex.hub.limits.hold_s * 1e9)
        """When it is cut whatever it does; after a lift, when the linger is over."""
        self._stepping = False
        self._parked: Parked = ""
        self._timer: asyncio.TimerHandle | asyncio.Handle | None = None
        self._client_events: deque[Event] = deque()
        self._client_queued = 0
        self._up_events: deque[Event] = deque()
        self._up_queued = 0
        self._up_started = False
        self._held: list[bytes] = []
        """What the script read of the client's body; it goes first if the upstream is asked after all."""
        self._frames: Frames | None = None
        self._by = "data"
        self._head_sent = self._chunked = self._framed = self._raw = self._ended = False
        self._script: Script | None = None

    def start(self, payload: bytes) -> None:
        """Begin; `payload` is what came of the body together with the head."""
        ex = self._ex
        hub, injection = ex.hub, self.injection
        hub.running.add(self)
        hub.counters.held += 1
        client = ex.client
        self._client_arrived(payload)
        key_hash = hub.key_hash(ex.head.named)
        self._script = injection.fault.script(
            Cx(
                request=ex.head,
                conn=client.id,
                nth=client.nth,
                dialect=ex.dialect,
                make_rng=partial(hub.rng, injection, client.id, client.nth),
                now_ns=hub.now_ns,
                cell=injection.cell,
                wall_ns=hub.wall_ns,
                injected_ns=injection.injected_ns,
                key_hash=key_hash,
                key_first_ns=hub.key_first_ns(key_hash),
                keys_since_ns=hub.keys_since_ns(),
            )
        )
        self._step(None)

    # What happens outside

    def client_data(self, payload: bytes) -> None:
        """Bytes of the client's body, unframed."""
        self._client_arrived(payload)
        if self._client_queued > HIGH_BYTES:
            self._ex.client.wire.pause()
        if self._parked == "client" and self._client_events:
            self._wake(self._next_client())

    def _client_arrived(self, payload: bytes) -> None:
        if payload:
            self._client_events.append(Data(payload))
            self._client_queued += len(payload)
        if self._ex.req_done and not (self._client_events and isinstance(self._client_events[-1], End)):
            self._client_events.append(End())

    def _next_client(self) -> Event:
        event = self._client_events.popleft()
        if isinstance(event, Data):
            self._client_queued -= len(event.body)
            self._keep(event.body)
        elif isinstance(event, End):
            self._client_events.append(event)  # the end stays the end, however often it is read
        return event

    def _keep(self, body: bytes) -> None:
        """Hold what was read for an upstream that may still be asked, up to `wire.HIGH_BYTES`."""
        if self._held is not _TOO_LARGE and self.injection.fault.asks_upstream:
            self._held.append(body)
            if sum(map(len, self._held)) > HIGH_BYTES:
                self._held = _TOO_LARGE

    def upstream_head(self, resp: ResponseHead) -> None:
        headers = []
        for line in resp.lines:
            name, _, value = line.partition(b":")
            headers.append((name.decode("latin-1"), value.strip(b" \t").decode("latin-1")))
        self._up_events.append(Head(resp.status, tuple(headers), resp.reason.decode("latin-1")))

    def upstream_data(self, payload: bytes) -> None:
        ex = self._ex
        if payload:
            self._up_events.append(Data(payload))
            self._up_queued += len(payload)
            if self._up_queued > HIGH_BYTES and ex.upstream is not None and ex.upstream.wire is not None:
                ex.upstream.wire.pause()
        if ex.resp_done:
            self._up_events.append(End())
        self._serve_upstream()

    def upstream_lost(self, why: str) -> None:
        self._up_events.append(Lost(why))
        self._serve_upstream()

    def _serve_upstream(self) -> None:
        if self._parked == "upstream":
            event = self._next_upstream()
            if event is not None:
                self._wake(event)

    def _next_upstream(self) -> Event:
        """The next event as the script asked for it; None when more has to come first."""
        events = self._up_events
        while events:
            event = events[0]
            if self._by == "frame" and isinstance(event, Data):
                events.popleft()
                self._up_queued -= len(event.body)
                if self._frames is None:
                    resp = self._ex.resp
                    lines = resp is not None and resp.content_type.startswith(b"application/x-ndjson")
                    self._frames = Lines() if lines else Frames()
                try:
                    cut = self._frames.feed(event.body)
                except Malformed as bad:
                    events.clear()
                    events.append(Lost(bad.why))
                    continue
                events.extendleft(Frame(frame) for frame in reversed(cut))
                self._up_queued += sum(map(len, cut))
                continue
            if isinstance(event, End | Lost):
                if self._frames is not None and (rest := self._frames.rest()):
                    self._frames = None
                    return Frame(rest)
                return event  # stays: the end is the end, however often it is read
            events.popleft()
            if isinstance(event, Data | Frame):
                self._up_queued -= len(event.body)
            return event
        ex = self._ex
        if ex.upstream is not None and ex.upstream.wire is not None:
            ex.upstream.wire.resume()
        return None

    def drained(self) -> None:
        """The client has taken enough of what was sent."""
        if self._parked == "drain":
            self._wake(None)

    def limit_reached(self) -> None:
        """A Pass has let its bytes through."""
        self.passing = False
        ex = self._ex
        if self._parked == "pass":
            self._wake(Passed(ex.down_bytes, ex.resp_done and not ex.held_down))

    def client_gone(self) -> None:
        """The client left. Everything is freed at once."""
        ex = self._ex
        if self._script is not None:
            self._script.close()
        held = "stall" if ex.status is not None else "held"
        ex.hub.counters.client_gone += 1
        ex.finish(held if self.acted else "client_gone", "fin")

    def lift(self) -> None:
        """The fault is off: tell the script; it has `linger_s` from now."""
        if self.lifted or self._ex.over:
            return
        self.lifted = True
        self.deadline_ns = time.monotonic_ns() + round(self.injection.linger_s * 1e9)
        if self.passing:
            if self.injection.linger_s <= 0:
                self._let_pass()
        elif self._stepping:
            # The lift came out of this script's own action, say because its evidence could not be written.
            self._ex.hub.loop.call_soon(self._tell_lift)
        else:
            self._wake(Lifted())

    def _tell_lift(self) -> None:
        if self._script is not None and not self.passing and not self._ex.over:
            self._wake(Lifted())

    def _let_pass(self) -> None:
        """The rest of the answer goes through, and the script has no more say."""
        self._ex.limit_bytes = None
        script, self._script = self._script, None
        if script is not None:
            script.close()

    def sweep(self, now_ns: int) -> None:
        """Cut what lingers beyond its time, and what holds beyond any."""
        if now_ns < self.deadline_ns:
            return
        if self.passing:
            self._let_pass()
        elif self.lifted:
            self._cut()
        else:
            self._ex.finish("stall" if self._ex.status is not None else "held", "rst")

    def over(self) -> None:
        """The exchange is finished, by whomever."""
        self._unpark()
        hub = self._ex.hub
        if self in hub.running:
            hub.running.discard(self)
            hub.counters.held -= 1
        script, self._script = self._script, None
        # A script that has just been sent something is closed by the step that did it.
        if script is not None and not self._stepping:
            script.close()

    # The script

    def _wake(self, value: Event | Lifted) -> None:
        self._unpark()
        self._step(value)

    def _unpark(self) -> None:
        self._parked = ""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _park(self, on: Parked, seconds: float | None) -> None:
        self._parked = on
        if seconds is not None:
            self._timer = self._ex.hub.loop.call_later(
                min(max(seconds, 0.0), self._ex.hub.limits.hold_s), self._timed_out
            )

    def _timed_out(self) -> None:
        self._timer = None
        on, self._parked = self._parked, ""
        self._step(Late() if on in ("client", "upstream") else None)

    def _step(self, value: Event | Lifted) -> None:
        self._stepping = True
        try:
            self._run(value)
        finally:
            self._stepping = False

    def _run(self, value: Event | Lifted) -> None:
        ex = self._ex
        for _ in range(MAX_STEPS):
            script = self._script
            if script is None or ex.over:
                if script is not None:
                    script.close()
                return
            try:
                action = script.throw(value) if isinstance(value, Lifted) else script.send(value)
            except StopIteration:
                self._script = None
                self._returned()
                return
            except Lifted:
                self._script = None
                self._cut()
                return
            except Exception as error:  # noqa: BLE001 - a script is foreign code; whatever it raises must not hold a client
                self._script = None
                self._failed(error)
                return
            if self.lifted and self.injection.linger_s <= 0:
                self._cut()
                return
            parked, value = self._do(action)
            if parked:
                return
        self._timer = ex.hub.loop.call_soon(self._go_on, value)

    def _go_on(self, value: Event | Lifted) -> None:
        self._timer = None
        self._step(value)

    def _do(self, action: Action) -> tuple[bool, Event]:
        """Carry one action out: whether the script has to wait, and else what to tell it."""
        ex = self._ex
        match action:
            case Read(side="client", within_s=within_s):
                if self._client_events:
                    return False, self._next_client()
                if ex.head.expects and not ex.up_bytes:
                    ex.head.expects = False
                    ex.client.wire.send(b"HTTP/1.1 100 Continue\r\n\r\n")
                ex.client.wire.resume()
                self._park("client", within_s if within_s is not None else ex.hub.limits.body_s)
            case Read(side="upstream", within_s=within_s, by=by):
                self._by = by
                if not self._up_started:
                    self._ask_upstream()
                event = self._next_upstream()
                if event is not None:
                    return False, event
                self._park("upstream", within_s)
            case Send(part=part, relayed=relayed):
                if not relayed:
                    self._act()
                    ex.altered = ex.altered or not isinstance(part, Head | End)
                self._send(part)
                if ex.over:
                    return True, None
                if ex.client.wire.backlog_bytes > HIGH_BYTES:
                    self._park("drain", ex.hub.limits.hold_s)
                    return True, None
                return False, None
            case Wait(seconds=seconds):
                self._act()
                self._watch_client()
                self._park("wait", seconds if seconds is not None else ex.hub.limits.hold_s)
            case Pass(until_bytes=until_bytes, fields=fields):
                ex.limit_bytes = until_bytes
                ex.answer_fields = fields or ex.answer_fields
                self._parked = "pass"
                self._pass()
            case Close(how=how):
                self._act()
                self._close(how)
            case Refuse():
                raise RuntimeError("Refuse is for port scope")
        return True, None

    def _watch_client(self) -> None:
        # A client that leaves is noticed by reading alone; what it sends meanwhile is bounded by HIGH_BYTES.
        if self._client_queued <= HIGH_BYTES:
            self._ex.client.wire.resume()

    def _act(self) -> None:
        """The first action that the client could feel: the fault has met this request."""
        if self.acted:
            return
        self.acted = True
        ex, injection = self._ex, self.injection
        client_bytes = ex.head.head_bytes + ex.up_bytes
        injection.met += 1
        injection.client_bytes += client_bytes
        ex.hub.counters.met += 1
        ex.hub.record(
            "fault_met",
            {
                "attempt": ex.id,
                "window": injection.window,
                "client_bytes": client_bytes,
                "trace": ex.trace(),
                "nonce": ex.nonce_text(),
            },
        )
        ex.hub.say(injection)

    def _ask_upstream(self) -> None:
        self._up_started = True
        if self._held is _TOO_LARGE:
            self._up_events.append(Lost("too large"))
            return
        self._hand_over_body()

    def _hand_over_body(self) -> None:
        """From here on the client's body goes to the upstream by itself, what the script has seen of it first."""
        ex = self._ex
        queued = [event.body for event in self._client_events if isinstance(event, Data)]
        payload = b"".join((*self._held, *queued))
        self._held = []
        self._client_queued = 0
        for event in [e for e in self._client_events if isinstance(e, Data)]:
            self._client_events.remove(event)
        ex.body_to_upstream = True
        ex.client.wire.resume()
        ex.begin_pass(payload)

    def _pass(self) -> None:
        ex = self._ex
        lost = next((event.why for event in self._up_events if isinstance(event, Lost)), None)
        self.passing = True
        if self._up_started:
            self._deliver_queued()
            if lost is not None:
                ex.lost_before_pass(lost)
                return
            if not ex.over:
                ex.continue_pass()
        else:
            self._up_started = True
            if self._held is _TOO_LARGE:
                ex.answer(502, "too_large_to_replay", "upstream_error")
                return
            self._hand_over_body()

    def _deliver_queued(self) -> None:
        """What came from the upstream while the script read it, and was not read, is relayed first."""
        ex = self._ex
        held = b"".join(e.body for e in self._up_events if isinstance(e, Data | Frame))
        if self._frames is not None:
            held += self._frames.rest()
            self._frames = None
        self._up_events.clear()
        self._up_queued = 0
        ex.held_down = held + ex.held_down
        if ex.resp is not None and not self._head_sent and ex.status is None:
            ex.send_client_head()

    def _returned(self) -> None:
        """The script has no more to say."""
        ex = self._ex
        if ex.over:
            return
        if self._head_sent or self._raw:
            if not self._ended:
                self._send(End())
        elif ex.status is None or self._up_started:
            ex.limit_bytes = None
            self._pass()

    def _send(self, part: Head | Data | Frame | Raw | End) -> None:
        ex = self._ex
        match part:
            case Head(status=status, headers=headers, reason=reason):
                if not ex.req_done:
                    ex.keep = False
                fields = list(headers)
                if "content-length" not in {name.lower() for name, _ in headers}:
                    if ex.head.minor:
                        self._chunked = True
                        fields.append(("transfer-encoding", "chunked"))
                    else:
                        ex.keep = False
                if not ex.keep:
                    fields.append(("connection", "close"))
                elif not ex.head.minor:
                    fields.append(("connection", "keep-alive"))
                self._head_sent = True
                ex.status = status
                ex.told = headers
                ex.real = ex.real or ex.resp is not None
                ex.send_down(answer_head(status, fields, reason))
            case Data(body=body) | Frame(body=body):
                if body and ex.head.method != "HEAD":
                    ex.down_bytes += len(body)
                    ex.watch(body)  # what ended, or did not, is what the client was given
                    ex.send_down(chunk(body) if self._chunked else body)
            case Raw(wire=wire, status=status):
                self._raw = True
                ex.status = status if ex.status is None else ex.status
                ex.real = ex.real or ex.resp is not None
                ex.keep = False
                ex.send_down(wire)
            case End():
                self._ended = True
                if self._chunked and ex.head.method != "HEAD":
                    ex.send_down(LAST_CHUNK)
                ex.answered_by_script()

    def _close(self, how: str) -> None:
        ex = self._ex
        if how == "rst":
            ex.finish("rst", "rst")
        elif how == "fin":
            ex.finish("cut", "fin")
        else:
            ex.client.wire.finish()
            self._park("wait", ex.hub.limits.hold_s)

    def _failed(self, error: Exception) -> None:
        """The script itself is broken: what it does from here on is nobody's fault on purpose, so the fault is lifted."""
        ex = self._ex
        ex.hub.counters.script_errors += 1
        print(f"fault {self.injection.tag}: its script raised {error!r}; lifted", file=sys.stderr, flush=True)
        ex.finish("lifted", "rst")
        if ex.hub.switch.current is self.injection:
            ex.hub.switch.lift("failed")

    def _cut(self) -> None:
        """The lift ends this exchange now."""
        self._ex.finish("lifted", "rst")


_TOO_LARGE: list[bytes] = []
"""Stands for a body that was read and not kept: compared by identity."""
