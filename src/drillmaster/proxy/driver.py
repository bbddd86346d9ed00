"""The driver of a fault's script: it owns the clock and the sockets, carries out each action, and bounds every hold.

1. A script is told of a lift by `Lifted`; what it does after that has `linger_s` at most, then the connection is reset.
2. When the client is gone the script is closed, and everything it held is free.
3. A script that yields without ever waiting gives the loop back every `MAX_STEPS` actions.
4. What a script does not read is not read from the socket either, beyond `wire.HIGH_BYTES`.
5. Where an injection has rules, they choose first: with the head where that says enough, else with the whole body, which is
   then held (`targeting.MATCH_BYTES`; `switch.MAX_HELD_BYTES` over all requests). The scripts of those that take the request
   run one after the other: one that has sent nothing when it returns hands the request, unread, to the next, also where the
   upstream was asked already, and after the last it passes through.
6. A client that owes a body and is silent for `body_s` gets a 408, whoever waits for it, unless the script set a time itself.
"""

import asyncio
import contextlib
import random
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Literal

from drillmaster.faults import (
    Action,
    Close,
    Cx,
    Data,
    End,
    Event,
    Head,
    Late,
    Lifted,
    Pass,
    Passed,
    Read,
    Refuse,
    Script,
    Send,
    Wait,
)
from drillmaster.http1 import ResponseHead
from drillmaster.proxy.choosing import Broken, choose, read_body
from drillmaster.proxy.inbox import FromClient, FromUpstream
from drillmaster.proxy.speech import Speech
from drillmaster.proxy.switch import Armed, Injection
from drillmaster.targeting import MATCH_BYTES
from drillmaster.wire import HIGH_BYTES

if TYPE_CHECKING:  # exchange and driver know each other; only one of them can import the other
    from drillmaster.proxy.exchange import Exchange

__all__ = ["MAX_STEPS", "Drive"]

MAX_STEPS = 256

Parked = Literal["client", "body", "upstream", "wait", "drain", "pass", ""]
"""What is waited for; `body`: for the client too, and no longer than it may be silent."""


class Drive:
    """One script at work on one exchange."""

    __slots__ = (
        "_armed",
        "_by",
        "_chain",
        "_ex",
        "_from_client",
        "_from_upstream",
        "_met",
        "_owed_bytes",
        "_parked",
        "_script",
        "_speech",
        "_stepping",
        "_timer",
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
        self._from_client = FromClient()
        self._from_upstream = FromUpstream()
        self._up_started = False
        self._owed_bytes = 0
        """What was read to choose: counted among the injection's `held_bytes` until the exchange is over."""
        self._by: Literal["data", "frame"] = "data"
        self._speech = Speech(ex, self._from_upstream)
        self._script: Script | None = None
        self._armed: Armed | None = None
        """Whose script it is; None while the rules choose."""
        self._met = False
        """Whether that one has acted on this request."""
        self._chain: deque[tuple[Armed, random.Random]] = deque()
        """Who comes next, if that one lets the request go on."""

    @property
    def reads_answer(self) -> bool:
        """Whether a script has to understand the upstream's answer."""
        return any(one.fault.reads_answer for one in self._waiting())

    def _waiting(self) -> Iterator[Armed]:
        if self._armed is not None:
            yield self._armed
        for one, _ in self._chain:
            yield one

    def start(self, payload: bytes) -> None:
        """Begin; `payload` is what came of the body together with the head."""
        ex = self._ex
        hub, injection = ex.hub, self.injection
        hub.running.add(self)
        hub.counters.held += 1
        self._client_arrived(payload)
        plain = injection.plain
        if plain is not None:
            self._begin(plain, partial(hub.rng, injection, ex.client.id, ex.client.nth))
        elif any(one.rule.reads_body for one in injection.armed):
            self._script = self._read_to_choose()
        else:
            self._chain.extend(choose(ex, injection, None))
            if len(self._chain) > 1 and not ex.req_done:
                self._script = self._read_for_all()
            elif not self._next_script():
                self._stand_aside()
                return
        self._step(None)

    def _begin(self, armed: Armed, make_rng: Callable[[], random.Random]) -> None:
        ex = self._ex
        hub, injection = ex.hub, self.injection
        key_hash = hub.key_hash(ex.head.named)
        self._armed, self._met = armed, False
        self._script = armed.fault.script(
            Cx(
                request=ex.head,
                conn=ex.client.id,
                nth=ex.client.nth,
                dialect=ex.dialect,
                make_rng=make_rng,
                now_ns=hub.now_ns,
                cell=armed.cell,
                wall_ns=hub.wall_ns,
                injected_ns=injection.injected_ns,
                key_hash=key_hash,
                key_first_ns=hub.key_first_ns(key_hash),
                keys_since_ns=hub.keys_since_ns(),
            )
        )

    # Rules

    def _read_to_choose(self) -> Script:
        """Let the rules choose once the body is whole, or too large to wait for."""
        try:
            body = yield from read_body(MATCH_BYTES, self.injection.is_full)
        except Broken:
            return  # whoever relays it sees the same
        self._chain.extend(choose(self._ex, self.injection, body))

    def _read_for_all(self) -> Script:
        """Several took the request by its head: the body is read before the first of them, so that each can read it."""
        with contextlib.suppress(Broken):
            yield from read_body(MATCH_BYTES, self.injection.is_full)

    def _stand_aside(self) -> None:
        """No rule takes this request: it is relayed as if there were none, through a lift as well."""
        ex = self._ex
        self._release()
        if self._owed_bytes > HIGH_BYTES:
            self.passing = True  # and stays to the end, so that a large body is counted for as long as it is held
        else:
            self._give_back()
            ex.drive = None
        ex.client.wire.resume()
        ex.begin_pass(self._from_client.hand_over())

    def _next_script(self) -> bool:
        """Give the request to the next that took it, unread; False when there is none."""
        if not self._chain:
            return False
        if self._from_client.too_large and not self._up_started:
            return False  # it cannot be read again, so it passes through, which says so
        self._from_client.rewind()
        if self._ex.resp is not None:
            self._from_upstream.put_head(self._ex.resp, again=True)
        armed, fate = self._chain.popleft()
        self._begin(armed, lambda: fate)
        return True

    # What happens outside

    def client_data(self, payload: bytes) -> None:
        """Bytes of the client's body, unframed."""
        self._client_arrived(payload)
        if self._from_client.queued_bytes > HIGH_BYTES:
            self._ex.client.wire.pause()
        if self._parked in ("client", "body") and self._from_client:
            self._wake(self._next_client())

    def _client_arrived(self, payload: bytes) -> None:
        self._from_client.put(payload, done=self._ex.req_done)

    def _next_client(self) -> Event:
        event = self._from_client.next()
        if isinstance(event, Data):
            self._keep(event.body)
        return event

    def _keep(self, body: bytes) -> None:
        """Hold what was read for whoever may still want it: an upstream that is asked after all, the next script."""
        armed, size = self._armed, len(body)
        if armed is None:
            self._owed_bytes += size
            self.injection.held_bytes += size
            self._from_client.keep(body)
        elif not self._up_started and (self._chain or armed.fault.asks_upstream):
            self._from_client.keep(body, max(HIGH_BYTES, self._owed_bytes))

    def upstream_head(self, resp: ResponseHead) -> None:
        self._from_upstream.put_head(resp)

    def upstream_data(self, payload: bytes) -> None:
        ex = self._ex
        self._from_upstream.put(payload, done=ex.resp_done)
        if self._from_upstream.queued_bytes > HIGH_BYTES and ex.upstream is not None and ex.upstream.wire is not None:
            ex.upstream.wire.pause()
        self._serve_upstream()

    def upstream_lost(self, why: str) -> None:
        ex = self._ex
        if why == "timeout" and ex.resp is None and not ex.req_done and ex.upstream is not None and ex.upstream.open:
            self._body_late()  # the upstream waits as we do
            return
        self._from_upstream.put_loss(why)
        self._serve_upstream()

    def _serve_upstream(self) -> None:
        if self._parked == "upstream":
            event = self._next_upstream()
            if event is not None:
                self._wake(event)

    def _next_upstream(self) -> Event:
        """The next event as the script asked for it; None when more has to come first."""
        event = self._from_upstream.next(self._by)
        ex = self._ex
        if event is None and ex.upstream is not None and ex.upstream.wire is not None:
            ex.upstream.wire.resume()
        return event

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

    def _codes_anew(self, head: Head) -> bool:
        """Whether this head says of the upstream's body that it is to be read otherwise than the upstream said."""
        resp = self._ex.resp
        coding = next((value for name, value in head.headers if name.lower() == "content-encoding"), "")
        return resp is not None and coding.strip().lower().encode("latin-1", "replace") != resp.content_encoding.lower()

    def client_gone(self) -> None:
        """The client left. Everything is freed at once."""
        ex = self._ex
        if self._script is not None:
            self._script.close()
        held = "stall" if ex.status is not None else "held"
        ex.hub.counters.client_gone += 1
        ex.finish("clean" if ex.has_said_all() else held if self.acted else "client_gone", "fin")

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
        self._release()
        self._give_back()
        script, self._script = self._script, None
        # A script that has just been sent something is closed by the step that did it.
        if script is not None and not self._stepping:
            script.close()

    def _release(self) -> None:
        self._unpark()
        hub = self._ex.hub
        if self in hub.running:
            hub.running.discard(self)
            hub.counters.held -= 1

    def _give_back(self) -> None:
        """What was read to choose is held no more."""
        self.injection.held_bytes -= self._owed_bytes
        self._owed_bytes = 0

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
        if on == "body":
            self._body_late()
            return
        self._step(Late() if on in ("client", "upstream") else None)

    def _body_late(self) -> None:
        """The client owes a body and says nothing (rule 6)."""
        ex = self._ex
        if self._speech.begun or ex.status is not None:
            ex.finish("client_gone", "rst")
        else:
            ex.answer(408, "request_body_timeout", "client_gone")

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
                if not self._speech.begun and ex.status is None and not self.lifted and self._next_script():
                    value = None
                    continue
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
                if self._from_client:
                    return False, self._next_client()
                if ex.req_done or ex.body_to_upstream:
                    return False, End()  # the body goes to the upstream by itself
                if ex.head.expects and not ex.up_bytes:
                    ex.head.expects = False
                    ex.client.wire.send(b"HTTP/1.1 100 Continue\r\n\r\n")
                ex.client.wire.resume()
                if within_s is None:
                    self._park("body", ex.hub.limits.body_s)
                else:
                    self._park("client", within_s)
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
                    ex.altered = ex.altered or (
                        not isinstance(part, Head) or self._codes_anew(part)  # an end of its own leaves something out
                    )
                self._speech.send(part, relayed=relayed)
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
        ex = self._ex
        waiting_bytes = len(ex.client.buf) if ex.req_done else self._from_client.queued_bytes
        if waiting_bytes <= HIGH_BYTES:
            ex.client.wire.resume()

    def _act(self) -> None:
        """The first action that the client could feel: the fault has met this request."""
        armed = self._armed
        if self._met or armed is None:
            return
        self._met = True
        ex, injection = self._ex, self.injection
        client_bytes = ex.head.head_bytes + ex.up_bytes
        armed.met += 1
        if not self.acted:
            self.acted = True
            injection.met += 1
            injection.client_bytes += client_bytes
            ex.hub.counters.met += 1
        row: dict[str, object] = {
            "attempt": ex.id,
            "window": injection.window,
            "client_bytes": client_bytes,
            "trace": ex.trace(),
            "nonce": ex.nonce_text(),
        }
        if armed.aim is not None:
            row["rule"] = armed.rule.name
        ex.hub.record("fault_met", row)
        ex.hub.say(injection)

    def _ask_upstream(self) -> None:
        self._up_started = True
        if self._from_client.too_large:
            self._from_upstream.put_loss("too large")
            return
        self._hand_over_body()

    def _hand_over_body(self) -> None:
        """From here on the client's body goes to the upstream by itself, what the script has seen of it first."""
        ex = self._ex
        payload = self._from_client.hand_over(again=bool(self._chain))
        ex.body_to_upstream = True
        ex.client.wire.resume()
        ex.begin_pass(payload)

    def _pass(self) -> None:
        ex = self._ex
        lost = self._from_upstream.loss
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
            if self._from_client.too_large:
                ex.answer(502, "too_large_to_replay", "upstream_error")
                return
            self._hand_over_body()

    def _deliver_queued(self) -> None:
        """What came from the upstream while the script read it, and was not read, is relayed first."""
        ex = self._ex
        ex.held_down = self._from_upstream.take_unread() + ex.held_down
        if ex.resp is not None and not self._speech.head_sent and ex.status is None:
            ex.send_client_head()

    def _returned(self) -> None:
        """The script has no more to say."""
        ex = self._ex
        if ex.over:
            return
        if self._armed is None and not self._up_started:
            self._stand_aside()
        elif self._speech.begun:
            if not self._speech.ended:
                self._speech.send(End())
        elif ex.status is None or self._up_started:
            ex.limit_bytes = None
            self._pass()

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
