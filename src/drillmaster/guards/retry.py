"""The retry guard: may a call that failed be sent again, by this worker, now?

1. In this order the first that holds decides: facts that are none (`facts-unusable`), a map that is not the pinned one
   (`unpinned-source`), total calls or time used up (`budget-exhausted`), an end that does not heal (`status-not-retryable`), a
   method without a rule (`method-unknown`), a change without a key (`mutating-without-idempotency`), a wait that was asked for
   and cannot be read (`retry-after-unreadable`) or is longer than this worker may hold a call (`retry-after-over-cap`), a wait
   that ends behind the deadline (`deadline`), the budget that all calls share (`retry-budget`). Else `pinned-status`.
2. `attempt` counts calls, from 1: so many were made. `max_calls` is the most there may be, the first one included.
3. Nobody comes earlier than asked. A wait over the cap is denied here, with the whole wait told: whoever keeps it (a queue, a
   scheduler) sends the call then. It is never cut down to the cap.
4. Without a wait that was asked for it is full jitter: evenly between 0 and the smaller of `cap_ms` and `base_ms` doubled for each
   call that was made (Brooker, "Exponential Backoff And Jitter"). The random number is a fact, so that a decision can be
   given again.
5. The shared budget is a bucket of tokens: a retry takes one, a call that went well gives `refund` of one back, as gRPC's
   retry throttling has it. In a long outage retries fade away by themselves.
"""

import math
from typing import Annotated

import msgspec

from drillmaster.guards import Decision, Guard
from drillmaster.rules.retryable import SAFE_METHODS, Protocol, keyed_methods, retryable

__all__ = ["PINNED", "REASONS", "FailedCall", "Retry", "Spent", "guard"]

PINNED = "pinned-map"
REASONS: dict[str, str] = {
    "pinned-status": "It may be sent again, not before `wait_ms`.",
    "facts-unusable": "A fact has a type or a size that none can have: nobody knows what failed.",
    "unpinned-source": "The classification came from somewhere else than the pinned map.",
    "budget-exhausted": "So many calls as may be were made.",
    "status-not-retryable": "This end does not heal, or nobody knows that it does.",
    "method-unknown": "The method has no rule: what a second one does is not known.",
    "mutating-without-idempotency": "It changes something, and no key tells the server that it is the same call.",
    "retry-after-unreadable": "The answer asks for a wait that cannot be read.",
    "retry-after-over-cap": "The answer asks for a longer wait than a call is held here; send it from elsewhere after `wait_ms`.",
    "deadline": "The wait ends behind the deadline of the whole call.",
    "retry-budget": "All calls together have retried as much as they may.",
}

_Ms = Annotated[int, msgspec.Meta(ge=1, le=86_400_000)]
_MOST_CALLS = 1_000
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
    jitter: float = 1.0
    """A random number from 0 to 1, of the worker's own."""


class Spent(msgspec.Struct, frozen=True):
    """The shared budget: thousandths of a token that are left."""

    left_milli: int


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

    def step(self, state: Spent | None, facts: FailedCall, now_ms: int) -> tuple[Spent | None, Decision]:
        """Decide. The state that follows holds the token less, where one was taken."""
        spent = state or Spent(self.budget_tokens * 1_000)
        reason, wait_ms = self._judged(facts)
        if reason == "pinned-status" and spent.left_milli < 1_000:
            reason = "retry-budget"
        if reason != "pinned-status":
            return state, Decision(allowed=False, reason=reason, wait_ms=wait_ms, left=spent.left_milli // 1_000)
        after = Spent(spent.left_milli - 1_000)
        return after, Decision(allowed=True, reason=reason, wait_ms=wait_ms, left=after.left_milli // 1_000)

    def succeeded(self, state: Spent | None) -> Spent | None:
        """Give back what one good call earns; the state that follows. A full bucket is None, as one that was never used."""
        if state is None:
            return None
        full = self.budget_tokens * 1_000
        left = min(full, state.left_milli + round(self.refund * 1_000))
        return None if left == full else Spent(left)

    def _judged(self, call: FailedCall) -> tuple[str, int]:
        if _unusable(call):
            return "facts-unusable", 0
        if call.source != PINNED:
            return "unpinned-source", 0
        if call.attempt >= self.max_calls or call.elapsed_ms >= self.deadline_ms:
            return "budget-exhausted", 0
        if retryable(call.protocol, call.code) is None:
            return "status-not-retryable", 0
        if call.method not in SAFE_METHODS:
            if call.method not in keyed_methods():
                return "method-unknown", 0
            if not call.idempotency_key.strip():
                return "mutating-without-idempotency", 0
        if call.asked_unreadable:
            return "retry-after-unreadable", 0
        if call.asked_wait_ms is not None:
            wait_ms = call.asked_wait_ms
            if wait_ms > self.cap_ms:
                return "retry-after-over-cap", wait_ms
        else:
            most_ms = min(self.cap_ms, self.base_ms * 2 ** min(call.attempt - 1, 60))
            wait_ms = math.floor(most_ms * call.jitter)
        if call.elapsed_ms + wait_ms > self.deadline_ms:
            return "deadline", wait_ms
        return "pinned-status", wait_ms


def _unusable(call: FailedCall) -> bool:
    """Whether a fact is none. Types are looked at too: a struct that was made in code is checked by nobody else."""
    numbers = (call.attempt, call.elapsed_ms, *(() if call.asked_wait_ms is None else (call.asked_wait_ms,)))
    if any(type(one) is not int for one in numbers) or (call.code is not None and type(call.code) is not int):
        return True
    if any(type(one) is not str for one in (call.source, call.protocol, call.method, call.idempotency_key)):
        return True
    if type(call.jitter) not in (float, int) or type(call.asked_unreadable) is not bool:
        return True
    in_range = 1 <= call.attempt <= _MOST_CALLS and all(0 <= one <= _LONGEST_MS for one in numbers)
    return not (in_range and 0 <= call.jitter <= 1)


guard = Retry
