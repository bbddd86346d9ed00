"""The lease guard: may this worker acquire, renew, release or steal a lease?

1. A request comes from the lock client, by its own code. Text that a model or a person wrote has no field to arrive in.
2. Actions are a closed set: acquire, renew, release, steal. There is no extending: a renewal sets the deadline to one ttl from now.
3. A fencing token is a text as the store gave it (`rules.fence`), the one named exactly where the action needs one.
4. The ttl, and who may steal, are the guards file's: reviewed, with an owner and a date. No request carries either.
5. Holding a lease is no leave to write: the token has to be compared at the write (`stores.fences`).
"""

from typing import Annotated, Any, ClassVar

import msgspec

from drillmaster.guards import STORE_UNAVAILABLE, Ask, Decision, Guard
from drillmaster.rules import AnyLaw
from drillmaster.rules.fence import read_token
from drillmaster.rules.lease import ACTIONS, LAW, Held, LeaseAsk, LeaseTold, is_name
from drillmaster.rules.lease import REASONS as TOLD

__all__ = ["REASONS", "Lease", "LeaseDecision", "LeaseRequest", "guard", "key_of"]

SOURCE = "lock-client"
REASONS: dict[str, str] = {
    **TOLD,
    "source-not-lock-client": "Only the lock client asks, by its own code.",
    "action-unknown": "The action is none of acquire, renew, release and steal.",
    "token-unusable": "The token is none that a store gave: digits as text, from 1 to 2^63 - 1, no more and no less.",
    "token-not-asked": "Nobody has a token before it is granted the lease.",
    "facts-unusable": "A name is missing, too long, or none.",
    **STORE_UNAVAILABLE,
}


class LeaseRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What the lock client asks. There is no field for a ttl, a deadline or a reason."""

    action: str
    source: str
    holder: str
    """Of one acquisition, and of no other: a text made at random for it."""
    by: str
    """The worker or person that asks, by name."""
    fencing_token: str | None = None
    """For renewing and releasing one's own; for stealing the one that is taken over."""
    item: str = ""
    """Which of many things under these limits; left out where the lease is one thing."""


class LeaseDecision(Decision, frozen=True, kw_only=True):
    """One answer. The token is there where the asker holds the lease."""

    fencing_token: str | None = None
    lasts_ms: int | None = None
    """So long the lease stands, from when the store answered, unless it is renewed."""


class Lease(Guard[Held, LeaseRequest], frozen=True, kw_only=True, tag="lease"):
    """Whether a worker may hold a lease, go on holding it, or take it over.

    Happens: one of many workers does what only one may do, until it is done or gone.
    Breaks: renewals of what was never owned, deadlines of a model's choice, thefts by whoever asks.
    Looks like: one of the reasons, and for a holder its fencing token and how long the lease lasts.
    Cannot show: that a holder stopped in time; only the token at the write keeps out one that did not.
    """

    LAW: ClassVar[AnyLaw] = LAW

    lease: Annotated[str, msgspec.Meta(min_length=1, max_length=200)]
    """What is held, by name: nightly-export."""
    ttl_ms: Annotated[int, msgspec.Meta(ge=1, le=31 * 86_400_000)]
    """How long it lasts unless it is renewed: long enough for a slow store, short enough to wait for after a crash."""
    may_steal: tuple[Annotated[str, msgspec.Meta(min_length=1, max_length=200)], ...]
    """Names of workers or people; empty: nobody steals."""

    def __post_init__(self) -> None:
        if not is_name(self.lease) or not all(map(is_name, self.may_steal)):
            raise ValueError("names of 1 to 200 characters, without controls")
        if type(self.ttl_ms) is not int or not 0 < self.ttl_ms <= 31 * 86_400_000:
            raise ValueError("a ttl of 1 ms to 31 days")

    def key(self, item: str = "") -> str:
        """Name what a store keeps."""
        return key_of(self.lease, item)

    def asks(self, facts: LeaseRequest) -> Ask | Decision:
        """Say what to ask of the store, or why not."""
        if not isinstance(facts.source, str) or facts.source != SOURCE:
            return _denied("source-not-lock-client")
        if not isinstance(facts.action, str) or facts.action not in ACTIONS:
            return _denied("action-unknown")
        if not is_name(facts.holder) or not is_name(facts.by) or not (facts.item == "" or is_name(facts.item)):
            return _denied("facts-unusable")
        token = None
        if facts.action == "acquire":
            if facts.fencing_token is not None:
                return _denied("token-not-asked")
        elif (token := read_token(facts.fencing_token)) is None:
            return _denied("token-unusable")
        question = LeaseAsk(
            action=facts.action,
            holder=facts.holder,
            by=facts.by,
            token=token,
            ttl_us=self.ttl_ms * 1_000,
            permitted=facts.action != "steal" or facts.by in self.may_steal,
        )
        return Ask(self.key(facts.item), question)

    def decides(self, facts: LeaseRequest, told: LeaseTold | Any) -> Decision:
        """Say what came of it."""
        left_us = told.left_us
        if not told.allowed:
            # Rounded up: who comes then does not come too early.
            return _denied(told.reason, 0 if left_us is None else -(-left_us // 1_000))
        return LeaseDecision(
            allowed=True,
            reason=told.reason,
            fencing_token=None if told.token is None else str(told.token),
            lasts_ms=None if left_us is None else left_us // 1_000,
        )


def _denied(reason: str, wait_ms: int = 0) -> Decision:
    return LeaseDecision(allowed=False, reason=reason, wait_ms=wait_ms)


def key_of(lease: str, item: str = "") -> str:
    """Name what a store keeps of a lease and an item; no two pairs have one name."""
    return f"{len(lease)}:{lease}{len(item)}:{item}"


guard = Lease
