"""The quota guard: may this worker call a partner once more, now?

1. All limits of `rules.quota` that a call meets have to grant it, in one step: of each the cap in any window, and the burst
   at once.
2. A bucket is a partner and the identity under which it knows us: two routes, or two callers, share what the partner counts as
   one. `bucket` writes both so that no two pairs give one name.
3. `also` holds further limits of the same bucket: of tokens, of a day beside a minute, of one caller or one route. Since all
   have to grant, each can only make it less. Where one names a caller, a caller that none names is denied; so it is with
   routes. Names are pinned: a path with a number in it makes no bucket of its own.
4. A retry is a call, and takes from a limit that counts retries besides. Where none does, it is denied.
5. A limit that counts tokens needs to be told how many; a call that does not know is denied.
6. A denial says how long to wait, which limit, and what is left of it. What costs more than may ever come at once is denied
   for good.
"""

from typing import Annotated, ClassVar, Literal

import msgspec

from drillmaster.guards import STORE_UNAVAILABLE, Ask, Decision, Guard
from drillmaster.rules import AnyLaw
from drillmaster.rules.quota import LAW, MOST_CAP, MOST_COST, MOST_LIMITS, Granted, Limit, Spending, Take

__all__ = ["MAIN", "REASONS", "Also", "OutboundCall", "Quota", "bucket", "guard"]

MAIN = "requests"
"""The name of the limit that each quota has."""
REASONS: dict[str, str] = {
    "within-quota": "It is granted, and counted.",
    "over-cap": "The window holds as much as it may; ask again after `wait_ms`.",
    "over-burst": "Too much at once; ask again after `wait_ms`.",
    "never": "It costs more than may come at once, however long one waits.",
    "facts-unusable": "A fact has a type or a size that none can have.",
    "other-bucket": "The call is to another partner, or under another identity, than these limits are for.",
    "caller-not-listed": "Callers have limits of their own here, and this one has none.",
    "route-not-listed": "Routes have limits of their own here, and this one has none.",
    "tokens-unknown": "Tokens are counted here, and nobody said how many the call takes.",
    "retries-not-listed": "It is a retry, and nothing here counts retries.",
    **STORE_UNAVAILABLE,
}
_Name = Annotated[str, msgspec.Meta(min_length=1, max_length=200)]
_WindowMs = Annotated[int, msgspec.Meta(ge=1, le=31 * 86_400_000)]
_Count = Annotated[int, msgspec.Meta(ge=1, le=MOST_CAP)]


class OutboundCall(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a worker is about to send. There is no field for what is in it."""

    partner: str
    identity: str
    """The account, tenant or key by which the partner counts, by its name and never by its value."""
    caller: str = ""
    """Which part of us calls, by a name of the guards file."""
    route: str = ""
    """What it calls, by a name of the guards file: `search`, not a path with a number in it."""
    requests: int = 1
    """As many as it comes to on the wire; a batch may count as more."""
    tokens: int | None = None
    """The most it may use: of the prompt, and as many as the answer may have. None: nobody knows."""
    retry: bool = False
    """The same was sent before."""


class Also(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One more limit of the same bucket."""

    name: Annotated[str, msgspec.Meta(pattern="^[a-z0-9][a-z0-9-]{0,39}$")]
    """What was granted under a name counts under it, whatever its numbers were then. Who renames it begins anew."""
    counts: Literal["requests", "tokens", "retries"]
    window_ms: _WindowMs
    max_per_window: _Count
    burst: _Count
    caller: Annotated[str, msgspec.Meta(max_length=200)] = ""
    """Only calls of this caller; "": of all."""
    route: Annotated[str, msgspec.Meta(max_length=200)] = ""
    """Only calls of this route; "": of all."""

    def __post_init__(self) -> None:
        _check(self)
        if self.name == MAIN:
            raise ValueError(f"a name other than {MAIN}, which is the quota's own")


class Quota(Guard[dict[str, Spending], OutboundCall], frozen=True, kw_only=True, tag="quota"):
    """Whether a partner may be called once more.

    Happens: many workers call one partner, whose contract says how often they may in all.
    Breaks: workers that each count for themselves, counters that begin anew on the minute, limits of a model's choice.
    Looks like: one of the reasons, a wait in milliseconds, and what is left of the window.
    Cannot show: what others call under the same identity past this guard.
    """

    LAW: ClassVar[AnyLaw] = LAW

    partner: _Name
    identity: _Name
    window_ms: _WindowMs
    max_per_window: _Count
    """Of requests, in any window of that length, wherever it is laid."""
    burst: _Count
    """Of requests, at once; at most the cap."""
    also: Annotated[tuple[Also, ...], msgspec.Meta(max_length=MOST_LIMITS - 1)] = ()

    def __post_init__(self) -> None:
        _check(self)
        for what in (self.partner, self.identity):
            if type(what) is not str or not what or not _is_text(what):
                raise ValueError(f"partner and identity a name each: found {what!r}")
        names = [one.name for one in self.also]
        twice = next((name for name in names if names.count(name) > 1), None)
        if twice is not None:
            raise ValueError(f"each name of `also` once: found {twice} twice")

    def asks(self, facts: OutboundCall) -> Ask | Decision:
        """Say what to take, and from which bucket."""
        if _unusable(facts):
            return Decision(allowed=False, reason="facts-unusable")
        if (facts.partner, facts.identity) != (self.partner, self.identity):
            return Decision(allowed=False, reason="other-bucket")
        callers = {one.caller for one in self.also if one.caller}
        routes = {one.route for one in self.also if one.route}
        if callers and facts.caller not in callers:
            return Decision(allowed=False, reason="caller-not-listed")
        if routes and facts.route not in routes:
            return Decision(allowed=False, reason="route-not-listed")
        limits = self.limits(facts)
        if facts.retry and all(one.counts != "retries" or not _meets(one, facts) for one in self.also):
            return Decision(allowed=False, reason="retries-not-listed")
        if any(one.cost == 0 for one in limits):
            return Decision(allowed=False, reason="tokens-unknown", limit=next(o.name for o in limits if o.cost == 0))
        return Ask(
            bucket(self.partner, self.identity),
            Take(
                tuple(
                    Limit(name=one.name, cost=one.cost, window_us=one.window_ms * 1_000, cap=one.cap, burst=one.burst)
                    for one in limits
                )
            ),
        )

    def limits(self, facts: OutboundCall) -> list["_Met"]:
        """List what a call meets, the quota's own first."""
        met = [_Met(MAIN, facts.requests, self.window_ms, self.max_per_window, self.burst)]
        for one in self.also:
            if _meets(one, facts):
                cost = {"requests": facts.requests, "tokens": facts.tokens or 0, "retries": 1}[one.counts]
                met.append(_Met(one.name, cost, one.window_ms, one.max_per_window, one.burst))
        return met

    def decides(self, facts: OutboundCall, told: Granted) -> Decision:
        """Say what came of it: a grant, or how long to wait."""
        if told.allowed:
            return Decision(allowed=True, reason="within-quota", left=told.left, limit=MAIN)
        met = self.limits(facts)[told.limit]
        if told.wait_us is None:
            return Decision(allowed=False, reason="never", left=told.left, limit=met.name)
        reason = "over-cap" if told.left < met.cost else "over-burst"
        wait_ms = -(-told.wait_us // 1_000)  # rounded up: nobody comes too early
        return Decision(allowed=False, reason=reason, wait_ms=wait_ms, left=told.left, limit=met.name)


class _Met(msgspec.Struct, frozen=True):
    name: str
    cost: int
    window_ms: int
    cap: int
    burst: int


def bucket(partner: str, identity: str) -> str:
    """Name the bucket of a partner and an identity; no two pairs have one name, whatever stands in them."""
    return f"{len(partner)}:{partner}{len(identity)}:{identity}"


def _meets(one: Also, facts: OutboundCall) -> bool:
    if (one.caller and one.caller != facts.caller) or (one.route and one.route != facts.route):
        return False
    return one.counts != "retries" or facts.retry


def _check(limits: Also | Quota) -> None:
    """Refuse limits that are none, where they are made in code too. A NaN, or a text, compares with nothing."""
    for name, most in (("window_ms", 31 * 86_400_000), ("max_per_window", MOST_CAP), ("burst", MOST_CAP)):
        value = getattr(limits, name)
        if type(value) is not int or not 1 <= value <= most:
            raise ValueError(f"{name} a whole number from 1 to {most:,}: found {value!r}")
    if limits.burst > limits.max_per_window:
        raise ValueError(f"burst at most max_per_window: found {limits.burst} over {limits.max_per_window}")


def _unusable(facts: OutboundCall) -> bool:
    """Whether a fact is none. Types are looked at too: a struct that was made in code is checked by nobody else."""
    counts = (facts.requests, *(() if facts.tokens is None else (facts.tokens,)))
    if any(type(one) is not int or not 1 <= one <= MOST_COST for one in counts) or type(facts.retry) is not bool:
        return True
    names = (facts.partner, facts.identity, facts.caller, facts.route)
    return any(type(one) is not str or not _is_text(one) for one in names)


def _is_text(name: str) -> bool:
    """Whether every store can take it: no half of a surrogate pair, and no NUL."""
    if "\0" in name:
        return False
    return name.isascii() or not any("\ud800" <= one <= "\udfff" for one in name)


guard = Quota
