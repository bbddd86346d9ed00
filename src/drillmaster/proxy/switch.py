"""Which injection is on: one at a time, each with a deadline that its owner renews. No socket, no loop; the clock is given.

1. A fault is on from its injection until its lift or its deadline, whichever comes first. Nothing extends it but a renewal
   that arrives before the deadline. A clock that went back has passed every deadline; and who counts the time by other
   means (`pass_time`) ends it as well, so that no clock that stands still, jumps or lies can hold a fault on.
2. A window is injected once; the same name again is refused, so that a gate can judge windows by name.
3. A proxy without an upstream is dead from the start: its window has no deadline, since there is nothing to pass to.
4. An injection is one fault for everybody, or several with rules that say whom each meets (`drillmaster.targeting`).
"""

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import msgspec

from drillmaster.clock import Clock
from drillmaster.faults import Fault, Scope, make
from drillmaster.targeting import Aim, Rule, label, named, what_is_wrong

__all__ = ["MAX_TTL_S", "Armed", "Conflict", "Counters", "Injection", "Switch", "arm"]

MAX_TTL_S = 3_600.0
MAX_CELLS = 65_536
MAX_SAW = 32
MAX_HELD_BYTES = 268_435_456
"""Of bodies that rules hold, over all requests: past it, the next are left alone as undecided."""
MAX_SAID = 5
COUNTED_LATE_S = 0.5
"""How much later than by the clock a fault ends by count: the count is coarse."""


class Conflict(Exception):
    """The order does not fit the state; nothing was changed."""


class Armed:
    """One fault of an injection, with whom it meets and what it has met."""

    __slots__ = ("_cells", "aim", "fault", "met", "rule")

    def __init__(self, rule: Rule, fault: Fault, aim: Aim | None) -> None:
        self.rule = rule
        self.fault = fault
        self.aim = aim
        """None: it meets everybody."""
        self.met = 0
        self._cells: dict[str, dict[str, Any]] = {}

    def cell(self, key: str) -> dict[str, Any]:
        """State of this fault in this window by key. Bounded: past `MAX_CELLS` keys the oldest is forgotten."""
        cell = self._cells.get(key)
        if cell is None:
            if len(self._cells) >= MAX_CELLS:
                del self._cells[next(iter(self._cells))]
            cell = self._cells[key] = {}
        return cell


def arm(rules: Sequence[Rule], seed: int) -> tuple[Armed, ...]:
    """Make the faults of these rules. Raises Problem for an unknown tag or a wrong parameter, ValueError for a senseless rule.

    One rule without a name that meets everybody is a plain fault: it counts nothing and reads no body.
    """
    given = tuple(rules)
    made = [make(rule.tag, rule.params) for rule in given]
    for wrong in what_is_wrong(
        given, {rule.tag: fault.scope for rule, fault in zip(given, made, strict=True)}.__getitem__, ""
    ):
        raise ValueError(f"rules{wrong.pointer}: found {wrong.found}, wanted {wrong.wanted}; {wrong.remedy}")
    # One that acts on ports or connections meets everybody whatever it is called: it sees no request that a rule could count.
    if len(given) == 1 and given[0].plain and (not given[0].name or made[0].scope != "exchange"):
        return (Armed(given[0], made[0], None),)
    return tuple(Armed(rule, fault, Aim(rule, seed)) for rule, fault in zip(named(given), made, strict=True))


class Injection:
    """One window as the proxy holds it, from the injection until its last script is over."""

    __slots__ = (
        "armed",
        "client_bytes",
        "deadline_ns",
        "held_bytes",
        "injected_ns",
        "left_s",
        "lifted_ns",
        "linger_s",
        "met",
        "saw",
        "scope",
        "tag",
        "why",
        "window",
    )

    def __init__(
        self, window: str, armed: tuple[Armed, ...], injected_ns: int, deadline_ns: int | None, linger_s: float
    ) -> None:
        self.window = window
        self.armed = armed
        self.tag = label(one.rule for one in armed)
        """What people call it."""
        self.scope: Scope = armed[0].fault.scope
        """Of all its faults: several are all of exchanges."""
        self.injected_ns = injected_ns
        self.deadline_ns = deadline_ns
        """CLOCK_MONOTONIC; None for a proxy that is dead from the start."""
        self.linger_s = linger_s
        self.left_s = math.inf
        """Seconds that may still be counted without a renewal."""
        self.lifted_ns: int | None = None
        self.why: str | None = None
        self.met = 0
        """Requests that any of its faults acted on; connections or probes below HTTP."""
        self.client_bytes = 0
        self.held_bytes = 0
        """Of bodies that were read for its rules to choose, and are not over."""
        self.saw: dict[str, int] = {}
        """What requests came while it was on, by what rules look at; kept where there are rules, the first `MAX_SAW` kinds."""

    @property
    def plain(self) -> Armed | None:
        """Its one fault, where that meets everybody."""
        return self.armed[0] if self.armed[0].aim is None else None

    def is_full(self) -> bool:
        """Whether its rules hold as much as they may."""
        return self.held_bytes > MAX_HELD_BYTES

    def see(self, kind: str) -> None:
        """Remember what kind of request came: a rule that met nobody is mended by what it could have met."""
        if kind in self.saw or len(self.saw) < MAX_SAW:
            self.saw[kind] = self.saw.get(kind, 0) + 1

    def tallies(self) -> Iterator[dict[str, Any]]:
        """What each rule did, for the evidence; nothing where there are no rules."""
        usual = sorted(self.saw, key=self.saw.__getitem__, reverse=True)[:MAX_SAID]
        for one in self.armed:
            aim = one.aim
            if aim is not None:
                yield {
                    "window": self.window,
                    "rule": one.rule.name,
                    "matched": aim.matched,
                    "counted": aim.counted,
                    "taken": aim.taken,
                    "undecided": aim.undecided,
                    "met": one.met,
                    "saw": [] if aim.matched else usual,
                }


class Counters(msgspec.Struct):
    """What the proxy did, for `GET /state`. Requests, unless the name says otherwise."""

    requests: int = 0
    met: int = 0
    in_flight: int = 0
    held: int = 0
    connections: int = 0
    refused_connections: int = 0
    refused_heads: int = 0
    head_deadlines: int = 0
    client_gone: int = 0
    upstream_errors: int = 0
    upstream_retries: int = 0
    tokens: int = 0
    """What the real endpoint's answers cost, by their `usage`; estimated, and high, where they do not say."""
    spend_refused: int = 0
    """Kept from the real endpoint, since what may be spent is spent."""
    script_errors: int = 0
    evidence_lines: int = 0
    evidence_lost: int = 0


class Switch:
    """The one injection that is on, or none."""

    def __init__(self, clock: Clock, on_lift: Callable[[Injection], None]) -> None:
        """`on_lift` is called after each lift, by order or by time, with what was lifted."""
        self._clock = clock
        self._on_lift = on_lift
        self._used: set[str] = set()
        self.current: Injection | None = None
        self._latest_ns = 0

    def prepare(self, window: str, armed: tuple[Armed, ...], ttl_s: float | None, linger_s: float) -> Injection:
        """An injection that is not on yet. `ttl_s` None: dead from the start, never lifted by time.

        Raises Conflict when one is on or the window was used before, ValueError for a `ttl_s` out of 0..`MAX_TTL_S`.
        """
        self.expire()
        if self.current is not None:
            raise Conflict(f"window {self.current.window} is on")
        if window in self._used:
            raise Conflict(f"window {window} has been already")
        now_ns = self._latest_ns = self._clock.mono_ns()
        deadline_ns = None if ttl_s is None else now_ns + _ttl_ns(ttl_s)
        injection = Injection(window, armed, now_ns, deadline_ns, linger_s)
        if ttl_s is not None:
            injection.left_s = ttl_s + COUNTED_LATE_S
        return injection

    def inject(self, injection: Injection) -> None:
        """Put it on."""
        if self.current is not None:
            raise Conflict(f"window {self.current.window} is on")
        self._used.add(injection.window)
        self.current = injection

    def renew(self, window: str, ttl_s: float) -> int | None:
        """Move the deadline; None when that window is not on any more."""
        self.expire()
        current = self.current
        if current is None or current.window != window or current.deadline_ns is None:
            return None
        current.deadline_ns = self._clock.mono_ns() + _ttl_ns(ttl_s)
        current.left_s = ttl_s + COUNTED_LATE_S
        return current.deadline_ns

    def lift(self, why: str) -> Injection | None:
        """Take the fault off; None when none is on."""
        lifted, self.current = self.current, None
        if lifted is not None:
            lifted.lifted_ns = self._clock.mono_ns()
            lifted.why = why
            self._on_lift(lifted)
        return lifted

    def expire(self) -> Injection | None:
        """Take the fault off if its deadline has passed, or the clock went back."""
        current = self.current
        if current is None or current.deadline_ns is None:
            return None
        before_ns, self._latest_ns = self._latest_ns, self._clock.mono_ns()
        if before_ns <= self._latest_ns < current.deadline_ns:
            return None
        return self.lift("expired")

    def pass_time(self, seconds: float) -> Injection | None:
        """Count time that passed by other means than the clock; take the fault off where its life is counted out."""
        current = self.current
        if current is None:
            return None
        current.left_s -= seconds
        return self.lift("expired") if current.left_s <= 0 else self.expire()


def _ttl_ns(ttl_s: float) -> int:
    if not 0 < ttl_s <= MAX_TTL_S:  # not a number is refused too
        raise ValueError(f"ttl_s {ttl_s} is not in 0 < s <= {MAX_TTL_S:g}")
    return round(ttl_s * 1e9)
