"""Engines that put load on an endpoint. Each is a process of its own, told by one JSON object and heard line by line.

1. The engine decides nothing: what is sent, when, to which address and for how long is in its `Spec`. Permission was asked
   before it was started; it connects to the addresses it was given and follows no redirect.
2. Every call that was due has a record: sent or not, ended or not. Nothing is back-filled and nothing left out.
3. The engine measures itself: how late it sent, how long its loop took, what it burned. Whether that voids what it saw is
   for others to say.
4. Engines that share a plan know nothing of each other: each has its callers, its calls and every so many-th arrival, and all
   wait before each stage until they are told the one instant to begin at. Without whoever tells it, an engine ends.
"""

import ipaddress
import re
from typing import Literal

import msgspec

__all__ = ["Address", "Patience", "Pauses", "Shot", "Spec", "Stage", "WebSocket"]


class _Part(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    pass


class Address(_Part, frozen=True, kw_only=True):
    """One place to connect to."""

    host: str
    """An IP address."""
    port: int

    def __post_init__(self) -> None:
        ipaddress.ip_address(self.host)
        if not 0 < self.port < 65_536:
            raise ValueError("a port is a number from 1 to 65535")


class WebSocket(_Part, frozen=True, kw_only=True):
    """Calls are messages on a WebSocket (RFC 6455), text, and not requests."""

    until: str | None = None
    """A regular expression: the message that it matches ends the answer; None: the first message does."""
    failed: str | None = None
    """A regular expression: a message that it matches ends the answer and is an error."""
    subprotocol: str | None = None
    """What `Sec-WebSocket-Protocol` asks for."""

    def __post_init__(self) -> None:
        for pattern in (self.until, self.failed):
            try:
                re.compile((pattern or "").encode())
            except re.error as error:
                raise ValueError(f"{pattern!r} is no regular expression: {error}") from None


class Shot(_Part, frozen=True, kw_only=True):
    """What is sent. Keys stand in `headers`: a spec goes over a pipe and is written nowhere."""

    method: str = "POST"
    target: str
    """Path and query."""
    authority: str
    """What the Host field says."""
    headers: dict[str, str] = {}
    payloads: tuple[str, ...] = ("",)
    """Bodies; of a method that has none, queries. `{n}` in one stands for the call's number, in a session for the session's."""
    turns: tuple[int, ...] = ()
    """How many of the payloads, in their order, each session has; empty: every payload is a call on its own."""
    shuffled: bool = False
    """Each pass through the set has an order of its own, by the seed; else they are taken in turn."""
    dialect: str = "plain"
    websocket: WebSocket | None = None
    """None: requests and answers. Else payloads are messages, and `headers` go with the upgrade."""

    def __post_init__(self) -> None:
        if not self.payloads:
            raise ValueError("a shot has a payload at least, which may be empty")
        if self.turns and (min(self.turns) < 1 or sum(self.turns) != len(self.payloads)):
            raise ValueError("sessions have a turn at least, and all payloads among them")


class Pauses(_Part, frozen=True, kw_only=True):
    """Of a caller, between its calls."""

    turn_s: float = 0.0
    """Between two turns of a session."""
    session_s: float = 0.0
    """Between two sessions, and between two calls on their own."""
    exponential: bool = False
    """Of that mean, by the seed, cut at ten times it; else all alike."""


class Patience(_Part, frozen=True, kw_only=True):
    """A 429 or 503 that says how long to wait is waited for, and the call sent again."""

    max_attempts: int
    """The first time included."""
    max_wait_s: float
    """Of one call in all."""

    def __post_init__(self) -> None:
        if not 1 <= self.max_attempts <= 255 or not 0 < self.max_wait_s < 1e9:
            raise ValueError("patience is for 1 to 255 attempts and for seconds")


class Stage(_Part, frozen=True, kw_only=True):
    """One part of a run, drained before the next begins."""

    label: str
    kind: Literal["closed", "open"]
    level: int = 1
    """Closed: how many callers, each with one call at a time. Open: the most that may be in flight."""
    calls: int | None = None
    """How many calls, in all."""
    seconds: float | None = None
    """For how long calls begin; closed, with `calls`: or until so many have begun."""
    rate_per_s: float = 1.0
    """Open: arrivals a second, at the start of the stage."""
    rate_to_per_s: float | None = None
    """Open: arrivals a second at its end, which the rate moves to evenly; None: it stays."""
    poisson: bool = False
    """Open: arrivals with exponential gaps of that mean, by the seed; else evenly spaced."""
    takes: Literal["sessions", "first_turns", "turns"] = "sessions"
    """Where payloads are sessions: whole ones, turn by turn (closed alone); the first turn of each; or all turns, as calls on their
    own."""
    pauses: Pauses | None = None
    """Closed: of a caller, between its calls."""
    first_call: int | None = None
    """Number of its first call, where several engines share the stage; None: the next one."""
    nth: int = 0
    """Open: of all arrivals the engine takes every `of`-th, from this one on (0 is the first); numbers go by `of` too."""
    of: int = 1

    def __post_init__(self) -> None:
        if not 0 <= self.nth < self.of:
            raise ValueError("an engine's share of the arrivals is the nth of so many, counted from 0")
        if (self.calls is None and self.seconds is None) or self.level < 1:
            raise ValueError("a stage has calls or seconds, and a level of at least 1")
        if self.kind == "open" and self.calls is not None:
            raise ValueError("the calls of an open stage come by the clock")
        if self.kind == "open" and (self.seconds is None or self.pauses is not None):
            raise ValueError("an open stage has seconds and no pauses")


class Spec(_Part, frozen=True, kw_only=True):
    """How one engine process runs."""

    to: tuple[Address, ...]
    """Tried in this order."""
    tls: bool = False
    server_name: str | None = None
    ca_file: str | None = None
    shot: Shot
    stages: tuple[Stage, ...]
    time_limit_s: float
    """Of one call, from when it was due; of one that is sent again, anew from each time that it is due again."""
    patience: Patience | None = None
    """None: 429 and 503 are failures as they come."""
    samples: str
    """The file for records; it must not be there."""
    gaps: str | None = None
    """The file for gaps between words; None: they are not kept."""
    mono0_ns: int
    """The run's zero on CLOCK_MONOTONIC."""
    seed: int = 1
    first_call: int = 0
    """Number of the first call, where several engines share a plan."""
    together: bool = False
    """Before each stage it says `stage_ready`, and begins when a line on standard input says so: `{"start_ns": N}`."""

    def __post_init__(self) -> None:
        if not self.to or not self.stages or not self.time_limit_s > 0:
            raise ValueError("a spec has an address, a stage and a time limit above 0")

    @property
    def long(self) -> bool:
        """Whether a call may be more than one request on its own, or none, which records of the second format tell."""
        paused = any(stage.pauses for stage in self.stages)
        return bool(self.patience or self.shot.turns or self.shot.websocket or paused)
