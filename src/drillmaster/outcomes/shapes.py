"""What a run is made of once its lines are put together. The rules are in the package's docstring."""

from typing import Any, Literal

import msgspec

from drillmaster.evidence import Defect, Manifest
from drillmaster.targeting import Rule, with_params, words
from drillmaster.verdict import Cite

__all__ = [
    "FAILED",
    "OK",
    "PROBE_TRACE",
    "Attempt",
    "CodeState",
    "JoinedBy",
    "Mark",
    "Note",
    "Outcome",
    "Preflight",
    "Request",
    "RuleMet",
    "Run",
    "Span",
    "Window",
]

Outcome = Literal[
    "ok_primary", "ok_fallback", "ok", "truncated", "degraded", "empty", "http_3xx", "http_4xx", "http_5xx",
    "timeout", "reset", "refused", "cut", "protocol", "never_ended",
]  # fmt: skip  # words, a line at a time
JoinedBy = Literal["trace", "nonce", "alone", "none"]
Proof = Literal["bytes", "connections", "probe"]
OK: frozenset[str] = frozenset({"ok_primary", "ok_fallback", "ok"})
FAILED: frozenset[str] = frozenset(Outcome.__args__) - OK  # type: ignore[attr-defined]  # Literal's own list of names

PROBE_TRACE = "6472696c6c6d7374"
"""How the trace id of the conductor's own probes begins: such an attempt is nobody's, and lies behind no answer."""


class Window(msgspec.Struct, frozen=True, kw_only=True):
    """One injection, from the proxy's word that the fault is on to its word that it is off."""

    id: str
    fault: str
    """Its tag; empty where a bare file does not say."""
    injected_ns: int
    lifted_ns: int | None
    lift_why: str
    met: int
    """Attempts the fault acted on; connections, or probes of the injector's own, where `proof` says so."""
    client_bytes: int
    cite: Cite
    proof: Proof = "bytes"
    """What shows that it was on: a fault below HTTP reads no byte of anybody's."""
    rules: tuple["RuleMet", ...] = ()
    """Where the injection had rules: what each of them did."""
    first_met_ns: int | None = None
    """When the fault first acted on anything."""
    params: dict[str, Any] = {}
    """Of the fault, where there are no rules."""
    met_ns: dict[str, int] = {}
    """With rules: when it first acted on each attempt."""

    @property
    def said(self) -> str:
        """What was injected, in short words: the fault with its parameters, or the first two rules."""
        if not self.rules:
            return with_params(self.fault, self.params)
        some = [rule.fault if rule.rule is None else words(rule.rule) for rule in self.rules]
        return " and ".join(some[:2]) + (f" and {len(some) - 2} rules more" if len(some) > 2 else "")


class RuleMet(msgspec.Struct, frozen=True, kw_only=True):
    """One rule of an injection. `matched` and `taken` None: the proxy ended before it could say."""

    name: str
    fault: str
    matched: int | None
    """Requests that looked as the rule says."""
    taken: int | None
    """Of those, the ones that its times, numbers and share let it have."""
    undecided: int
    """Requests whose body was too large to decide on, or in a coding that we cannot read."""
    met: int
    """Of the taken, the ones it acted on."""
    saw: tuple[str, ...]
    """Where nothing matched: what came instead, the most frequent first."""
    cite: Cite
    rule: Rule | None = None
    """As the plan says it; None: its line cannot be read as a rule of this version."""

    @property
    def said(self) -> str:
        """The rule in short words, with its name."""
        return f"{self.name}: {self.fault if self.rule is None else words(self.rule)}"


class Attempt(msgspec.Struct, frozen=True, kw_only=True):
    """One request that reached the proxy. `upstream`: bytes of the real endpoint's answer went to the client."""

    id: str
    window: str | None
    status: int | None
    start_ns: int
    end_ns: int
    end: str
    upstream: bool
    terminal: bool
    intact: bool
    """The client got the real endpoint's own answer, whole and unaltered; slow, it may be."""
    trace: str | None
    nonce: str | None
    retry_count: int | None
    dialect: str
    model: str | None
    request: str | None
    """The user request it belongs to, once joined."""
    cite: Cite
    first_ns: int | None = None
    """When the first byte went towards the client; None: none did, or the line does not say."""
    asked_s: float | None = None
    """The wait that its answer asked for."""
    asked_by: str | None = None
    """In which form; `unreadable` with no wait: in none that means anything."""
    tokens: int | None = None
    """What the real endpoint's answer says it cost."""
    tokens_estimated: int | None = None
    """What it cost by its bytes, where it does not say, high rather than low."""
    stream: bool | None = None
    """Whether a stream was asked for; None where that is not known."""
    down_bytes: int = 0
    """Of the answer's body, that went to the client."""

    @property
    def broken(self) -> bool:
        """Whether a fault left the client with the beginning of the endpoint's stream, and without its end."""
        return self._worded and self.stream is True and not self.terminal

    @property
    def altered(self) -> bool:
        """Whether the client got an answer that ended as the API's end, and that a fault had changed on its way."""
        return self._worded and self.terminal and not self.intact

    @property
    def _worded(self) -> bool:
        return self.window is not None and self.upstream and self.status == 200 and self.down_bytes > 0


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """One request as its user saw it. `end_ns` None: it never ended."""

    id: str
    source: Literal["traffic", "bare", "worker"]
    due_ns: int
    sent_ns: int
    first_ns: int | None
    end_ns: int | None
    status: int | None
    outcome: Outcome
    attempts: tuple[str, ...] = ()
    joined_by: JoinedBy = "none"
    met: tuple[str, ...] = ()
    """Windows whose fault acted on one of its attempts."""
    payload: int | None = None
    told: Literal["primary", "fallback"] | None = None
    """Where its answer came from by its own text, where the plan says how the fallback's looks."""
    cite: Cite

    @property
    def latency_s(self) -> float | None:
        """From when it was due to its end."""
        return None if self.end_ns is None else (self.end_ns - self.due_ns) / 1e9


class Mark(msgspec.Struct, frozen=True, kw_only=True):
    """A line that a worker or a person wrote into the shared timeline."""

    ns: int
    event: str
    id: str | None
    phase: str | None
    status: int | None
    path: str | None
    kind: str | None
    cite: Cite


class Note(msgspec.Struct, frozen=True, kw_only=True):
    """A Scribe's line. `seen_ns` is when they say it happened, else when the line was written."""

    ns: int
    seen_ns: int
    kind: str
    text: str
    by: str
    cite: Cite


class Span(msgspec.Struct, frozen=True):
    """A phase as it ran."""

    phase: str
    start_ns: int
    end_ns: int
    planned_s: float | None


class CodeState(msgspec.Struct, frozen=True, kw_only=True):
    """Commit, dirt and digests at the start, the lift or the end; None where unknown."""

    at: str
    commit: str | None
    dirt_sha256: str | None
    plan_sha256: str | None
    policy_sha256: str | None
    cite: Cite


class Preflight(msgspec.Struct, frozen=True, kw_only=True):
    """One line of the pre-flight: executed, or attested by name and time."""

    check: str
    status: str
    why: str
    by: str | None
    at: str | None


class Run(msgspec.Struct, frozen=True, kw_only=True):
    """All a gate may look at. `bare`: one file, unsealed, no wire behind it."""

    name: str
    place: str
    """Where it lies, as the person who asked named it."""
    bare: bool
    manifest: Manifest | None
    started_wall_ns: int
    end_ns: int
    """The last instant there is evidence of."""
    ended: str | None
    """`completed`, `aborted`, or None: nobody wrote the end."""
    ended_why: str = ""
    windows: tuple[Window, ...] = ()
    requests: tuple[Request, ...] = ()
    """The users' requests by due time: those that judge."""
    worker_requests: tuple[Request, ...] = ()
    """What the worker's own start and end rows say: all of them for a bare file, else those that never ended."""
    attempts: tuple[Attempt, ...] = ()
    marks: tuple[Mark, ...] = ()
    notes: tuple[Note, ...] = ()
    phases: tuple[Span, ...] = ()
    code: tuple[CodeState, ...] = ()
    preflight: tuple[Preflight, ...] = ()
    gone: dict[str, tuple[bool, str]] = {}
    """Window -> whether the probe after the lift found the fault gone, and what it saw."""
    exits: tuple[Mark, ...] = ()
    """Workers that ended without being told; `kind` holds the code."""
    clock_step_s: float = 0.0
    """The largest move of wall against monotonic time in our own files."""
    defects: tuple[Defect, ...] = ()
    seal_problems: tuple[str, ...] = ()
    late: int = 0
    """Lines written behind the seal."""
    digest: str = ""
    examined: dict[str, int] = {}

    def lifted_or_end_ns(self, window: Window) -> int:
        return window.lifted_ns if window.lifted_ns is not None else self.end_ns

    def before(self, window: Window) -> list[Request]:
        """List the users' requests from the last lift, or the start, to an injection, less those it caught under way."""
        since_ns = max(
            (self.lifted_or_end_ns(w) for w in self.windows if w.injected_ns < window.injected_ns), default=None
        )
        return [
            r
            for r in self.requests
            if r.due_ns < window.injected_ns
            and (since_ns is None or r.due_ns >= since_ns)
            and not self._caught(r, window)
        ]

    def during(self, window: Window) -> list[Request]:
        """List the users' requests of a window: due and sent in it, or due before and caught by its fault."""
        end_ns = self.lifted_or_end_ns(window)
        return [
            r
            for r in self.requests
            if (window.injected_ns <= r.due_ns < end_ns and r.sent_ns < end_ns) or self._caught(r, window)
        ]

    def after(self, window: Window) -> list[Request]:
        """List the users' requests sent from the lift on and due before the next injection or the end."""
        end_ns = self.lifted_or_end_ns(window)
        until_ns = self.next_injection_ns(window)
        return [r for r in self.requests if end_ns <= r.sent_ns and r.due_ns < until_ns]

    def next_injection_ns(self, window: Window) -> int:
        later = [w.injected_ns for w in self.windows if w.injected_ns > window.injected_ns]
        return min(later, default=self.end_ns + 1)

    def _caught(self, request: Request, window: Window) -> bool:
        if request.due_ns >= window.injected_ns:
            return False
        if self.bare:  # no wire: under way at the injection is all that can be known
            return request.end_ns is None or request.end_ns >= window.injected_ns
        return window.id in request.met
