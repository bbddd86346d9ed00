"""One fault, played once by hand: a stand-in provider, a proxy with the fault on, a request over a plain socket.

1. What is seen is the wire's, in the order and at the time it came; what is meant is read from it afterwards, by the API's
   own terms. Nothing here asks a model client. The same request goes first without a fault, so that there is something to
   compare with.
2. Whether the fault was met is the proxy's word, as in a drill; what the client was left with is the client's. A fault is
   met *as described* when it was met and the client was left with what the entry says (`Fault.seen`).
3. It listens and connects on loopback alone. A request has `limit_s` in all, connect included, and so everything ends.
   A fault may come as rules, which choose among requests; then those that met a request say what it is left with.
4. What is shown or kept is screened.

The rooms: `shelf` (which faults there are), `parameters` (what they take), `asks` (a request of each API), `client` (the
socket), `reading` (what a fallback would make of it), `stage` (provider and proxy), `trial` (all of it in order), `telling`
(as text), `playing` (what a fault says without any socket).
"""

from typing import Any

import msgspec

from drillmaster.targeting import Rule, label

__all__ = ["Ask", "Met", "Outcome", "Trial", "Tried"]


class Ask(msgspec.Struct, frozen=True, kw_only=True):
    """One request."""

    method: str
    path: str
    fields: tuple[tuple[str, str], ...]
    """Without Host and Content-Length."""
    body: bytes


class Trial(msgspec.Struct, frozen=True, kw_only=True):
    """What to play."""

    rules: tuple[Rule, ...]
    """One without more than fault and parameters meets every request, as a plan's `fault.mode` does."""
    dialect: str
    stream: bool
    ask: Ask
    upstream: str | None = None
    """An endpoint on loopback in the stand-in provider's place; None: the stand-in."""
    repeat: int | None = None
    """How many requests, on one connection for as long as it stands; None: until the fault was met."""
    limit_s: float = 5.0

    @property
    def title(self) -> str:
        """The faults by their tags."""
        return label(self.rules)

    @classmethod
    def of(cls, tag: str, params: dict[str, Any], **more: Any) -> "Trial":
        """One fault for every request."""
        return cls(rules=(Rule(mode=tag, params=params),), **more)


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """What one request was left with."""

    seen: str
    """One of `faults.Seen`."""
    why: str = ""
    """What a client would be told, where it was told anything."""
    status: int | None = None
    ending: str | None = None
    """`dialects.Ending`, asked of what came; None: no head came."""
    finished: bool = False
    """Whether the API's terminal state was reached."""
    raises: bool = False
    """Whether an HTTP client raises by itself. A status raises nothing in most of them, only in SDKs."""
    body_bytes: int = 0
    pieces: int = 0
    connect_ms: float | None = None
    head_ms: float | None = None
    first_ms: float | None = None
    """From the send to the first byte of the body."""
    end_ms: float = 0.0
    """From the send, or from the attempt to connect, to the end or to the giving up."""


class Met(msgspec.Struct, frozen=True, kw_only=True):
    """One request and whether the fault met it."""

    outcome: Outcome
    met: bool
    by: tuple[str, ...] = ()
    """The rules that met it, by name; of a plain fault, its tag."""
    described: tuple[str, ...] = ()
    """What their entries say that a client is left with."""
    as_described: bool = False


class Tried(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="fault-try"):
    """All of it."""

    fault: str
    rules: tuple[Rule, ...]
    dialect: str
    stream: bool
    baseline: Outcome
    """What the same request was left with before the fault was on."""
    requests: tuple[Met, ...]
    met: bool
    as_described: bool
    why_not: str = ""
    """Why it was not met, where that can be said."""
