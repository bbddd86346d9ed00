"""The law of a lease: who holds a name, until when, and by which fencing token.

1. Whoever is granted a lease gets a token that the store made: one more than the latest it gave for that name, and never below the
   store's time in microseconds. Tokens of one name strictly increase, also where the store lost its memory: its clock goes on.
2. A holder is named anew for each acquisition, by a text that nobody else has. The same question asked again, since the answer to
   it was lost, gives the same token and makes no second holder. The name that held last holds nothing again.
3. A lease ends at its deadline on the store's clock, or when it is released. Renewing sets the deadline to one whole ttl from now;
   it never adds to what was left.
4. Only the latest token together with its holder renews or releases, and only before the deadline. Releasing twice is releasing.
5. Stealing names the token that is taken over, so that a theft that was decided on old news does not meet whoever came next.
   Who may steal is not known here: the guard says of each theft whether it is permitted, and one that is not is written down.
6. Time that goes backwards is taken to stand still.
7. Nothing is forgotten: what is kept of a name is as long as the name, and small. Where a store forgets all the same, rule 1 holds.
8. Nobody is told another's token.
9. Each question is written down where the state is, with what it was told: names, tokens, reasons and times.

A deadline protects nothing by itself: a holder that was paused does not know that it is late. What protects is the token at the
write (`stores.fences`).
"""

import msgspec

from drillmaster.errors import one_line
from drillmaster.rules import Law, Step

__all__ = ["ACTIONS", "LAW", "MOST_TTL_US", "REASONS", "Held", "LeaseAsk", "LeaseTold", "is_name", "lease"]

ACTIONS = ("acquire", "renew", "release", "steal")
REASONS: dict[str, str] = {
    "granted": "The lease is the asker's, under the token that is told.",
    "renewed": "The deadline is one ttl from now.",
    "released": "The asker holds it no longer.",
    "stolen": "It was taken over from the token that was named, under a new one.",
    "held": "Somebody else holds it.",
    "expired": "The deadline has passed, whether or not somebody else holds it by now.",
    "stale-token": "The token is not the latest that was given for this name.",
    "other-holder": "The token is the latest, and somebody else's.",
    "not-held": "Nobody holds it: it was never acquired, or it was released.",
    "steal-not-permitted": "The guards file names who may steal, and this is nobody of them.",
    "holder-spent": "This holder has held it before; each acquisition has a name of its own.",
}
MOST_TTL_US = 31 * 86_400_000_000
_MOST_TOKEN = 2**63 - 1
_MOST_NAME = 200


class LeaseAsk(msgspec.Struct, frozen=True, kw_only=True):
    """One question. `token` is the asker's own for renewing and releasing, and the one taken over for stealing."""

    action: str
    holder: str
    by: str
    """Who asks, for the log: a worker or a person, by name."""
    token: int | None
    ttl_us: int
    permitted: bool
    """Whether who asks may do that at all, by the guard's limits; if not, it is only written down."""

    def __post_init__(self) -> None:
        if self.action not in ACTIONS:
            raise ValueError(f"one of {', '.join(ACTIONS)}")
        if not is_name(self.holder) or not is_name(self.by):
            raise ValueError("names of 1 to 200 characters, without controls")
        if (self.token is None) != (self.action == "acquire"):
            raise ValueError("a token for all but acquiring")
        if self.token is not None and (type(self.token) is not int or not 0 < self.token <= _MOST_TOKEN):
            raise ValueError("a token of 1 to 2^63 - 1")
        if type(self.ttl_us) is not int or not 0 < self.ttl_us <= MOST_TTL_US:
            raise ValueError("a ttl of at most 31 days")
        if type(self.permitted) is not bool or not (self.permitted or self.action == "steal"):
            raise ValueError("whether it is permitted, which all but stealing is")


class Held(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The latest grant of a name. `until_us` is its deadline; 0: it was released."""

    token: int
    holder: str
    by: str
    since_us: int
    until_us: int
    seen_us: int
    """The latest time that was asked about."""


class LeaseTold(msgspec.Struct, frozen=True, kw_only=True):
    """What came of it. `token` is the asker's, where it holds the lease; `left_us` how long the lease stands from now."""

    allowed: bool
    reason: str
    token: int | None
    left_us: int | None


def lease(held: Held | None, asked: LeaseAsk, now_us: int) -> Step[Held, LeaseTold]:
    """Answer one question about a name. Raises ValueError for a time that is none."""
    if type(now_us) is not int or now_us < 1:
        raise ValueError("a time in whole microseconds since 1970")
    if held is None:
        if asked.action == "acquire":
            return _granted(0, asked, now_us)
        return _refused(None, "not-held" if asked.permitted else "steal-not-permitted")
    held = msgspec.structs.replace(held, seen_us=max(now_us, held.seen_us))
    now_us = held.seen_us
    if not asked.permitted:
        return _refused(held, "steal-not-permitted")
    live = now_us < held.until_us
    if asked.action in ("acquire", "steal"):
        if asked.holder == held.holder:
            reason = "granted" if asked.action == "acquire" else "stolen"
            return _holds(held, reason) if live else _refused(held, "holder-spent")
        if asked.action == "acquire":
            return _refused(held, "held") if live else _granted(held.token, asked, now_us)
        return _granted(held.token, asked, now_us) if asked.token == held.token else _refused(held, "stale-token")
    if asked.token != held.token:
        return _refused(held, "stale-token")
    if asked.holder != held.holder:
        return _refused(held, "other-holder")
    if asked.action == "release" and (live or held.until_us == 0):
        told = LeaseTold(allowed=True, reason="released", token=None, left_us=None)
        return Step(msgspec.structs.replace(held, until_us=0), told, None)
    if not live:
        return _refused(held, "expired" if held.until_us else "not-held")
    return _holds(msgspec.structs.replace(held, until_us=now_us + asked.ttl_us), "renewed")


def is_name(value: object) -> bool:
    """Whether this can name a holder, a worker or a person: 1 to 200 characters, none of which acts on a terminal or a store."""
    return type(value) is str and 0 < len(value) <= _MOST_NAME and one_line(value) == value


def _granted(last: int, asked: LeaseAsk, now_us: int) -> Step[Held, LeaseTold]:
    held = Held(
        token=max(last + 1, now_us),
        holder=asked.holder,
        by=asked.by,
        since_us=now_us,
        until_us=now_us + asked.ttl_us,
        seen_us=now_us,
    )
    return _holds(held, "granted" if asked.action == "acquire" else "stolen")


def _holds(held: Held, reason: str) -> Step[Held, LeaseTold]:
    return Step(
        held, LeaseTold(allowed=True, reason=reason, token=held.token, left_us=held.until_us - held.seen_us), None
    )


def _refused(held: Held | None, reason: str) -> Step[Held, LeaseTold]:
    left_us = held.until_us - held.seen_us if held is not None and reason == "held" else None
    return Step(held, LeaseTold(allowed=False, reason=reason, token=None, left_us=left_us), None)


LAW = Law(name="lease", state=Held, asked=LeaseAsk, told=LeaseTold, step=lease, logged=True)
