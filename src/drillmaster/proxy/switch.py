"""Which fault is on: one at a time, each with a deadline that its owner renews. No socket, no loop; the clock is given.

1. A fault is on from its injection until its lift or its deadline, whichever comes first. Nothing extends it but a renewal
   that arrives before the deadline. A clock that went back has passed every deadline; and who counts the time by other
   means (`pass_time`) ends it as well, so that no clock that stands still, jumps or lies can hold a fault on.
2. A window is injected once; the same name again is refused, so that a gate can judge windows by name.
3. A proxy without an upstream is dead from the start: its window has no deadline, since there is nothing to pass to.
"""

import math
from collections.abc import Callable
from typing import Any

import msgspec

from drillmaster.clock import Clock
from drillmaster.faults import Fault

__all__ = ["MAX_TTL_S", "Conflict", "Counters", "Injection", "Switch"]

MAX_TTL_S = 3_600.0
MAX_CELLS = 65_536
COUNTED_LATE_S = 0.5
"""How much later than by the clock a fault ends by count: the count is coarse."""


class Conflict(Exception):
    """The order does not fit the state; nothing was changed."""


class Injection:
    """One window as the proxy holds it, from the injection until its last script is over."""

    __slots__ = (
        "_cells",
        "client_bytes",
        "deadline_ns",
        "fault",
        "injected_ns",
        "left_s",
        "lifted_ns",
        "linger_s",
        "met",
        "params",
        "tag",
        "why",
        "window",
    )

    def __init__(
        self,
        window: str,
        tag: str,
        fault: Fault,
        params: dict[str, Any],
        injected_ns: int,
        deadline_ns: int | None,
        linger_s: float,
    ) -> None:
        self.window = window
        self.tag = tag
        self.fault = fault
        self.params = params
        self.injected_ns = injected_ns
        self.deadline_ns = deadline_ns
        """CLOCK_MONOTONIC; None for a proxy that is dead from the start."""
        self.linger_s = linger_s
        self.left_s = math.inf
        """Seconds that may still be counted without a renewal."""
        self.lifted_ns: int | None = None
        self.why: str | None = None
        self.met = 0
        self.client_bytes = 0
        self._cells: dict[str, dict[str, Any]] = {}

    def cell(self, key: str) -> dict[str, Any]:
        """State of this window by key. Bounded: past `MAX_CELLS` keys the oldest is forgotten."""
        cell = self._cells.get(key)
        if cell is None:
            if len(self._cells) >= MAX_CELLS:
                del self._cells[next(iter(self._cells))]
            cell = self._cells[key] = {}
        return cell


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
    script_errors: int = 0
    evidence_lines: int = 0
    evidence_lost: int = 0


class Switch:
    """The one fault that is on, or none."""

    def __init__(self, clock: Clock, on_lift: Callable[[Injection], None]) -> None:
        """`on_lift` is called after each lift, by order or by time, with what was lifted."""
        self._clock = clock
        self._on_lift = on_lift
        self._used: set[str] = set()
        self.current: Injection | None = None
        self._latest_ns = 0

    def prepare(
        self, window: str, tag: str, fault: Fault, params: dict[str, Any], ttl_s: float | None, linger_s: float
    ) -> Injection:
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
        injection = Injection(window, tag, fault, params, now_ns, deadline_ns, linger_s)
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
