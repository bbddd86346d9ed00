"""The quota guard: may this worker call a partner once more, now?

1. Both limits of `rules.quota` have to grant it, in one step: the cap in any window, and the burst at once.
2. A bucket is a partner and the identity under which it knows us, and nothing below that: two routes, or two callers, share what
   the partner counts as one. `bucket` writes both so that no two pairs give one name.
3. A denial says how long to wait, and what is left. What costs more than may ever come at once is denied for good.
"""

from typing import Annotated, ClassVar

import msgspec

from drillmaster.guards import STORE_UNAVAILABLE, Ask, Decision, Guard
from drillmaster.rules import AnyLaw
from drillmaster.rules.quota import LAW, MOST_CAP, Granted, Spending, Take

__all__ = ["REASONS", "OutboundCall", "Quota", "bucket", "guard"]

REASONS: dict[str, str] = {
    "within-quota": "It is granted, and counted.",
    "over-cap": "The window holds as much as it may; ask again after `wait_ms`.",
    "over-burst": "Too much at once; ask again after `wait_ms`.",
    "never": "It costs more than may come at once, however long one waits.",
    "facts-unusable": "A fact has a type or a size that none can have.",
    "other-bucket": "The call is to another partner, or under another identity, than these limits are for.",
    **STORE_UNAVAILABLE,
}
_MOST_COST = 2**53 - 1


class OutboundCall(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a worker is about to send. There is no field for what is in it."""

    partner: str
    identity: str
    """The account, tenant or key by which the partner counts, by its name and never by its value."""
    cost: int = 1
    """Requests, or tokens."""


class Quota(Guard[Spending, OutboundCall], frozen=True, kw_only=True, tag="quota"):
    """Whether a partner may be called once more.

    Happens: many workers call one partner, whose contract says how often they may in all.
    Breaks: workers that each count for themselves, counters that begin anew on the minute, limits of a model's choice.
    Looks like: one of the reasons, a wait in milliseconds, and what is left of the window.
    Cannot show: what others call under the same identity past this guard.
    """

    LAW: ClassVar[AnyLaw] = LAW

    partner: Annotated[str, msgspec.Meta(min_length=1, max_length=200)]
    identity: Annotated[str, msgspec.Meta(min_length=1, max_length=200)]
    window_ms: Annotated[int, msgspec.Meta(ge=1, le=31 * 86_400_000)]
    max_per_window: Annotated[int, msgspec.Meta(ge=1, le=MOST_CAP)]
    """Of cost, in any window of that length, wherever it is laid."""
    burst: Annotated[int, msgspec.Meta(ge=1, le=MOST_CAP)]
    """Of cost, at once; at most the cap."""

    def __post_init__(self) -> None:
        if self.burst > self.max_per_window:
            raise ValueError(f"burst at most max_per_window: found {self.burst} over {self.max_per_window}")

    def asks(self, facts: OutboundCall) -> Ask | Decision:
        """Say what to take, and from which bucket."""
        if type(facts.cost) is not int or not 1 <= facts.cost <= _MOST_COST:
            return Decision(allowed=False, reason="facts-unusable")
        if (facts.partner, facts.identity) != (self.partner, self.identity):
            return Decision(allowed=False, reason="other-bucket")
        take = Take(cost=facts.cost, window_us=self.window_ms * 1_000, cap=self.max_per_window, burst=self.burst)
        return Ask(bucket(self.partner, self.identity), take)

    def decides(self, facts: OutboundCall, told: Granted) -> Decision:
        """Say what came of it: a grant, or how long to wait."""
        if told.allowed:
            return Decision(allowed=True, reason="within-quota", left=told.left)
        if told.wait_us is None:
            return Decision(allowed=False, reason="never", left=told.left)
        reason = "over-cap" if told.left < facts.cost else "over-burst"
        wait_ms = -(-told.wait_us // 1_000)  # rounded up: nobody comes too early
        return Decision(allowed=False, reason=reason, wait_ms=wait_ms, left=told.left)


def bucket(partner: str, identity: str) -> str:
    """Name the bucket of a partner and an identity; no two pairs have one name, whatever stands in them."""
    return f"{len(partner)}:{partner}{len(identity)}:{identity}"


guard = Quota
