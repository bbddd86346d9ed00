"""The retry guard: may a call that failed be sent again, by this worker, now?

1. In this order the first that holds decides: facts that are none (`facts-unusable`), a map that is not the pinned one
   (`unpinned-source`), another route's call (`other-route`), total calls or time used up (`budget-exhausted`), an end that does
   not heal (`status-not-retryable`), a method without a rule (`method-unknown`), a change without a key
   (`mutating-without-idempotency`), a body that is gone (`body-sent-once`), a wait that was asked for and cannot be read
   (`retry-after-unreadable`) or is longer than this worker may hold a call (`retry-after-over-cap`), a wait that ends behind the
   deadline (`deadline`), the budget that all calls share (`retry-budget`). Else `pinned-status`.
2. `attempt` counts calls, from 1: so many were made, by all workers that made this call. `max_calls` is the most there may be, the
   first one included.
3. Nobody comes earlier than asked. A wait over the cap is denied here, with the whole wait told: whoever keeps it (`stores.later`)
   sends the call then. It is never cut down to the cap.
4. Without a wait that was asked for, or with one of 0 (a date that has passed), it is full jitter: evenly between 0 and the smaller
   of `cap_ms` and `base_ms` doubled for each call that was made (Brooker, "Exponential Backoff And Jitter"). The random number
   is a fact, so that a decision can be given again.
5. The shared budget is the law of `rules.retry_budget`, in a store: a retry takes a token, a call that went well gives `refund` of
   one back (`repays`). In a long outage retries fade away by themselves.
6. A call that has a key may be told to the store as it begins, waits and ends (`says`, the law of `rules.call_state`): a second
   worker hears that it is in flight, and one that takes over goes on counting. This is asked where `hold_ms` is set.
"""

import functools
import math
from typing import Annotated, ClassVar, Literal

import msgspec

from drillmaster.guards import STORE_UNAVAILABLE, Ask, Decision, Guard
from drillmaster.rules import AnyLaw, call_state, retry_budget
from drillmaster.rules.call_state import Held, Report
from drillmaster.rules.retry_budget import Draw, Drawn, Spent
from drillmaster.rules.retryable import SAFE_METHODS, Protocol, keyed_methods, retryable

__all__ = ["CALLS", "LIMITS", "PINNED", "REASONS", "FailedCall", "Retry", "guard"]

CALLS: AnyLaw = call_state.LAW
"""What a store carries out for `Retry.says`."""

PINNED = "pinned-map"
REASONS: dict[str, str] = {
    "pinned-status": "It may be sent again, not before `wait_ms`.",
    "facts-unusable": "A fact has a type or a size that none can have: nobody knows what failed.",
    "unpinned-source": "The classification came from somewhere else than the pinned map.",
    "other-route": "The call is of another route than these limits are for.",
    "budget-exhausted": "So many calls as may be were made.",
    "status-not-retryable": "This end does not heal, or nobody knows that it does.",
    "method-unknown": "The method has no rule: what a second one does is not known.",
    "mutating-without-idempotency": "It changes something, and no key tells the server that it is the same call.",
    "body-sent-once": "The body is gone: it was a stream, or a file that cannot be rewound.",
    "retry-after-unreadable": "The answer asks for a wait that cannot be read.",
    "retry-after-over-cap": "The answer asks for a longer wait than a call is held here; send it from elsewhere after `wait_ms`.",
    "deadline": "The wait ends behind the deadline of the whole call.",
    "retry-budget": "All calls together have retried as much as they may.",
    "call-in-flight": "Another worker holds this call's key, for `wait_ms` at most.",
    "call-done": "A call of this key has been made, and went well.",
    "call-early": "An answer to this key asked for a wait, of which `wait_ms` are left.",
    "call-lost": "The key was held too long and is another worker's now.",
    "nested-retries": "The library above retries by itself: calls would be multiplied.",
    "stopped": "The worker is stopping: it sends nothing again.",
    **STORE_UNAVAILABLE,
}
LIMITS: dict[str, tuple[str, ...]] = {
    "pinned-status": ("max_calls", "deadline_ms", "base_ms", "cap_ms", "budget_tokens"),
    "other-route": ("route",),
    "budget-exhausted": ("max_calls", "deadline_ms"),
    "retry-after-over-cap": ("cap_ms",),
    "deadline": ("deadline_ms",),
    "retry-budget": ("budget_tokens", "refund", "budget"),
    "call-in-flight": ("hold_ms",),
    "call-lost": ("hold_ms",),
    "call-done": ("keep_ms",),
}
"""Which limits a reason was held against; the others go by pinned tables, or by the facts alone."""
_HELD = {
    "in-flight": "call-in-flight",
    "done": "call-done",
    "early": "call-early",
    "spent": "budget-exhausted",
    "lost": "call-lost",
}

_DAY_MS = 86_400_000
_MOST = {
    "max_calls": 100,
    "deadline_ms": _DAY_MS,
    "base_ms": _DAY_MS,
    "cap_ms": _DAY_MS,
    "budget_tokens": 1_000_000,
    "hold_ms": _DAY_MS,
    "keep_ms": 31 * _DAY_MS,
}
_Ms = Annotated[int, msgspec.Meta(ge=1, le=86_400_000)]
_MOST_CALLS = 1_000
_KEYED = keyed_methods()
_LONGEST_MS = 2**53 - 1


class FailedCall(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a worker knows of a call that failed. There is no field for a body, a prompt or a message."""

    source: str
    """Who classified it: `pinned-map`."""
    protocol: Protocol
    method: str
    """As it was sent, in capitals; of a gRPC call or a WebSocket message `POST`, or `GET` where it only reads."""
    code: int | None
    """Status, gRPC code or close code; None: there was none, such as after a lost connection."""
    attempt: int
    """Calls made so far, from 1."""
    elapsed_ms: int
    """Since the first of them began."""
    asked_wait_ms: int | None = None
    """What the answer asks for (`rules.retry_after`); None: nothing."""
    asked_unreadable: bool = False
    """It asks for something that cannot be read."""
    idempotency_key: str = ""
    route: str = ""
    """What the worker calls the way it went; "" where routes are not told apart."""
    replayable: bool = True
    """Whether the same bytes can be sent once more."""
    jitter: float = 1.0
    """A random number from 0 to 1, of the worker's own."""


class Retry(Guard[Spent, FailedCall], frozen=True, kw_only=True, tag="retry"):
    """Whether a failed call may be sent again.

    Happens: a call ends in a status, a code, or nothing; the worker's code wants to try again.
    Breaks: retries of what is no use, of what is done twice, earlier than asked, or by every worker at once.
    Looks like: one of the reasons, and a wait in milliseconds.
    Cannot show: whether the first call had its effect; that a key is honoured by the server that gets it.
    """

    max_calls: Annotated[int, msgspec.Meta(ge=1, le=100)]
    """Total calls, the first one included."""
    deadline_ms: _Ms
    """From the first call's beginning: no wait may end later."""
    base_ms: _Ms
    cap_ms: _Ms
    """The longest wait that a call is held here, whoever asks for it."""
    budget_tokens: Annotated[int, msgspec.Meta(ge=1, le=1_000_000)]
    """How many retries all calls may make in a row without a success."""
    refund: Annotated[float, msgspec.Meta(ge=0, le=1)]
    """What one success gives back, in tokens: 0.1 allows one retry for ten good calls in the long run."""
    route: Annotated[str, msgspec.Meta(max_length=200)] = ""
    """The route that these limits are for; "": calls that name none."""
    budget: Annotated[str, msgspec.Meta(max_length=200)] = ""
    """The shared budget's name: routes that name one share it."""
    dialect: Literal["none", "gemini"] = "none"
    """Whose error bodies are read for a wait: `gemini` says it in a `google.rpc.RetryInfo` and nowhere else. `none`: nobody's."""
    hold_ms: _Ms | None = None
    """How long a key stays in flight behind its holder's last word: longer than a call may take. None: keys are not kept."""
    keep_ms: Annotated[int, msgspec.Meta(ge=1, le=31 * 86_400_000)] | None = None
    """How long a key is known after that; with `hold_ms`."""

    LAW: ClassVar[AnyLaw] = retry_budget.LAW

    def __post_init__(self) -> None:
        # Limits that are made in code are checked by nobody else, and a NaN is over no number of calls.
        for name, most in _MOST.items():
            value = getattr(self, name)
            if value is None and name in ("hold_ms", "keep_ms"):
                continue
            if type(value) is not int or not 1 <= value <= most:
                raise ValueError(f"{name} a whole number from 1 to {most:,}: found {value!r}")
        if type(self.refund) not in (int, float) or not 0 <= self.refund <= 1:
            raise ValueError(f"refund a number from 0 to 1: found {self.refund!r}")
        for name in ("route", "budget"):
            value = getattr(self, name)
            if type(value) is not str or len(value) > 200 or not value.isprintable():
                raise ValueError(f"{name} a name of at most 200 characters that can be printed")
        if self.dialect not in ("none", "gemini"):
            raise ValueError(f"dialect none or gemini: found {self.dialect!r}")
        if (self.hold_ms is None) != (self.keep_ms is None):
            raise ValueError("hold_ms and keep_ms, both or neither")

    def asks(self, facts: FailedCall) -> Ask | Decision:
        """Say what to take, or why the call is not sent again."""
        reason = self._judged(facts)
        if reason == "pinned-status":
            return _taken(self.budget, self.budget_tokens * 1_000)
        told = reason in ("retry-after-over-cap", "deadline")
        return Decision(allowed=False, reason=reason, wait_ms=self._wait_ms(facts) if told else 0)

    def decides(self, facts: FailedCall, told: Drawn) -> Decision:
        """Say whether there was a token, and how long to wait."""
        reason = "pinned-status" if told.allowed else "retry-budget"
        left = told.left_milli // 1_000
        return Decision(allowed=told.allowed, reason=reason, wait_ms=self._wait_ms(facts), left=left)

    def repays(self, calls: int, mark: str, *, takes: bool = False) -> Ask | None:
        """Say what so many good calls give back; None: nothing. `mark` is a name that no other giving has.

        `takes`: a retry's token is taken with the same question, behind the giving, as `asks` would take it.
        """
        milli, full_milli = round(self.refund * 1_000) * min(calls, 1_000_000), self.budget_tokens * 1_000
        if milli <= 0:
            return None
        take_milli, give_milli = 1_000 if takes else 0, min(milli, full_milli)
        return Ask(self.budget, Draw(take_milli=take_milli, give_milli=give_milli, full_milli=full_milli, mark=mark))

    def says(self, what: call_state.What, idempotency_key: str, *, holder: str, wait_ms: int = 0) -> Ask | None:
        """Say what to tell the store of a call that has a key (`CALLS`); None: these limits keep no keys, or there is none.

        `holder` is a name that no other call of any worker has. What is kept is the key's digest.
        """
        if self.hold_ms is None or self.keep_ms is None or not idempotency_key.strip():
            return None
        import hashlib

        whole = f"{len(self.route)}:{self.route}{idempotency_key}".encode("utf-8", "surrogatepass")
        question = Report(
            what=what,
            holder=holder,
            hold_us=self.hold_ms * 1_000,
            wait_us=min(wait_ms * 1_000, call_state.MOST_US),
            keep_us=self.keep_ms * 1_000,
            most=self.max_calls,
        )
        return Ask(hashlib.sha256(whole).hexdigest(), question)

    def hears(self, told: Held) -> Decision | None:
        """Say why a call may not begin; None: it may, and is call `told.calls`."""
        if told.allowed:
            return None
        return Decision(allowed=False, reason=_HELD[told.why], wait_ms=-(-told.wait_us // 1_000))

    def _judged(self, call: FailedCall) -> str:
        if _unusable(call):
            return "facts-unusable"
        if call.source != PINNED:
            return "unpinned-source"
        if call.route != self.route:
            return "other-route"
        if call.attempt >= self.max_calls or call.elapsed_ms >= self.deadline_ms:
            return "budget-exhausted"
        if retryable(call.protocol, call.code) is None:
            return "status-not-retryable"
        if call.method not in SAFE_METHODS:
            if call.method not in _KEYED:
                return "method-unknown"
            if not call.idempotency_key.strip():
                return "mutating-without-idempotency"
        if not call.replayable:
            return "body-sent-once"
        if call.asked_unreadable:
            return "retry-after-unreadable"
        if call.asked_wait_ms is not None and call.asked_wait_ms > self.cap_ms:
            return "retry-after-over-cap"
        if call.elapsed_ms + (call.asked_wait_ms or self.cap_ms) <= self.deadline_ms:  # no wait is longer
            return "pinned-status"
        return "deadline" if call.elapsed_ms + self._wait_ms(call) > self.deadline_ms else "pinned-status"

    def _wait_ms(self, call: FailedCall) -> int:
        if call.asked_wait_ms:
            return call.asked_wait_ms
        return math.floor(min(self.cap_ms, self.base_ms << min(call.attempt - 1, 60)) * call.jitter)


def _unusable(call: FailedCall) -> bool:
    """Whether a fact is none. Types are looked at too: a struct that was made in code is checked by nobody else."""
    code, asked_ms = call.code, call.asked_wait_ms
    protocol: object = call.protocol
    return not (
        type(call.attempt) is int
        and 1 <= call.attempt <= _MOST_CALLS
        and type(call.elapsed_ms) is int
        and 0 <= call.elapsed_ms <= _LONGEST_MS
        and (asked_ms is None or (type(asked_ms) is int and 0 <= asked_ms <= _LONGEST_MS))
        and (code is None or type(code) is int)
        and type(call.source) is str
        and type(protocol) is str
        and type(call.method) is str
        and type(call.idempotency_key) is str
        and type(call.route) is str
        and type(call.asked_unreadable) is bool
        and type(call.replayable) is bool
        and type(call.jitter) in (float, int)
        and 0 <= call.jitter <= 1
    )


@functools.lru_cache(64)
def _taken(budget: str, full_milli: int) -> Ask:
    """One token of a budget."""
    return Ask(budget, Draw(take_milli=1_000, give_milli=0, full_milli=full_milli))


guard = Retry
