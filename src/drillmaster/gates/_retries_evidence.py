"""What the retries gate looks at: what was decided about failed calls, and where there is a wire, what became of it."""

from typing import Literal

import msgspec

from drillmaster.guards.retry import REASONS
from drillmaster.verdict import Cite

__all__ = ["GOES", "KNOWN", "Decided", "Retried", "Wire"]

KNOWN = frozenset({*REASONS, "store-unavailable"})
"""The closed set of reasons: what stands in a log and is none of these is told by its line, never by its words."""
GOES = frozenset({"pinned-status"})
"""Reasons that a call may be sent again by; all others are a no."""


class Decided(msgspec.Struct, frozen=True, kw_only=True):
    """Decisions of the retry guard, counted. Reasons are those of the closed set."""

    allowed: dict[str, int] = {}
    denied: dict[str, int] = {}
    unnamed: int = 0
    """Denied without a reason, or with one that is not of the closed set."""
    sent_unnamed: int = 0
    """The same, and allowed."""
    contradicted: int = 0
    """Allowed by a reason that says no, or denied by one that says yes."""
    most_attempt: int = 0
    """The most calls that had been made when one more was allowed."""
    routes: dict[str, int] = {}
    """The same by route, where decisions say one."""
    unrouted: int = 0
    """Allowed without a route."""
    uncounted: int = 0
    """Allowed without saying after how many calls."""
    sampled: int = 0
    """Those whose writer kept a share only of the allowed ones: there were more, and nobody knows how many."""
    others: int = 0
    """Decisions of other guards; they are not looked at."""
    cites: dict[str, tuple[Cite, ...]] = {}
    """The first lines of each reason; `` for the unnamed, `!` for the contradicted."""

    @property
    def goes(self) -> int:
        return sum(self.allowed.values()) + self.sent_unnamed

    @property
    def total(self) -> int:
        return self.goes + sum(self.denied.values()) + self.unnamed

    def count(self, reason: str) -> int:
        return self.allowed.get(reason, 0) + self.denied.get(reason, 0)


class Wire(msgspec.Struct, frozen=True, kw_only=True):
    """What the proxy saw."""

    attempts: int
    retries: int
    """Of them, those that follow a failure of the same call."""
    unknown: int
    """Those that may be retries, or not: they belong to nobody, or were cut off before they were read."""
    most: int
    """Attempts of one user request."""
    most_cites: tuple[Cite, ...] = ()
    asked: int = 0
    """Answers that asked for a wait."""
    early: int = 0
    """Attempts before that wait was over."""
    early_cites: tuple[Cite, ...] = ()


class Retried(msgspec.Struct, frozen=True, kw_only=True):
    """All of it. `wire` None: a bare log, behind which there is none. `requests` None: nobody wrote them down."""

    source: Literal["run", "log"]
    decided: Decided
    requests: int | None
    wire: Wire | None
    ended_ns: int
    """The last instant there is evidence of, wall time; 0: nobody knows."""
    now_ns: int
    began_ns: int = 0
    """The first one, of a log, whose lines each stand for themselves; 0: nobody knows, or it is a run."""
    seal_problems: tuple[str, ...] = ()
    unusable: int = 0
    """Lines that cannot be taken at their word and may be a decision or a request."""
    unusable_why: str = ""
    unusable_cites: tuple[Cite, ...] = ()
    late: int = 0
