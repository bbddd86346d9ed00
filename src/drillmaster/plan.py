"""The plan: who does what to which target, when.

A plan is a YAML (or JSON or TOML) file that people write and review. This module holds its shape; `sanity` holds what a
plan must make sense of. Fields carry their units. Nothing here has authority over a verdict: limits are the policy's.
"""

from typing import Annotated, Any, Literal, Protocol
from urllib.parse import urlsplit, urlunsplit

import msgspec

from drillmaster.targeting import Rule, label

__all__ = [
    "Aimed",
    "Attest",
    "Expect",
    "Fault",
    "Matrix",
    "Outline",
    "Permit",
    "Phases",
    "Pick",
    "Plan",
    "Preflight",
    "Proxy",
    "Seats",
    "Spend",
    "Stop",
    "Target",
    "Traffic",
    "Window",
    "Worker",
    "base_urls",
    "without_v1",
]


class _Part(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    pass


class Seats(_Part, frozen=True, kw_only=True):
    """Three people. The same name twice is refused unless the run is a rehearsal; an empty seat makes it one."""

    lead: str | None = None
    scribe: str | None = None
    verifier: str | None = None

    def names(self) -> dict[str, str]:
        """Seat -> who holds it; empty where nobody does."""
        return {"lead": self.lead or "", "scribe": self.scribe or "", "verifier": self.verifier or ""}


class Permit(_Part, frozen=True, kw_only=True):
    """Who allowed load and faults on a host that is not loopback, until when, and how much."""

    host: str
    owner: str
    until: str
    """RFC 3339, or a date (the end of that day, UTC)."""
    max_per_s: float
    max_requests: int


class Expect(_Part, frozen=True, kw_only=True):
    """What counts as an answer. `pointer` is a JSON pointer into the body; without it the whole body is the text."""

    status: tuple[int, ...] = (200,)
    pointer: str | None = None
    min_chars: int = 1
    not_matching: str | None = None
    """A regular expression: text that matches is a degraded answer ("sorry, try later")."""
    fallback_matching: str | None = None
    """A regular expression that finds in the body what only the fallback's answers have. Every other answer is then the
    primary's: where a stream broke off behind it, it is half an answer, and failed."""


class Target(_Part, frozen=True, kw_only=True):
    """The agent's own user-facing endpoint. `{nonce}`, `{id}` and `{payload}` in url and body are filled each time."""

    url: str
    method: str = "GET"
    headers: dict[str, str] = {}
    """`${NAME}` in a value is taken from the environment; that is where keys belong."""
    body: str | None = None
    payloads: tuple[str, ...] = ()
    expect: Expect = Expect()
    permit: Permit | None = None


class Traffic(_Part, frozen=True, kw_only=True):
    """Open loop: one request every `every_s`, whatever became of the last; a user gives up after `time_limit_s`."""

    every_s: float
    time_limit_s: float


class Proxy(_Part, frozen=True, kw_only=True):
    """Where the agent finds its model endpoint, and where that really is. `upstream` None: dead from the start."""

    listen: str = "127.0.0.1:8081"
    upstream: str | None
    upstream_ca: str | None = None
    """A PEM file to trust besides the system's store."""
    dialect: Literal[
        "auto",
        "anthropic",
        "azure_openai",
        "gemini",
        "groq",
        "mcp",
        "mistral",
        "ollama",
        "openai_chat",
        "openai_responses",
        "openrouter",
        "plain",
    ] = "auto"
    """Whose API it is; `auto` tells by the upstream's host, then by each request. Mistral behind a gateway must be named."""


class Phases(_Part, frozen=True, kw_only=True):
    baseline_s: float = 600
    fault_s: float = 900
    recovery_s: float = 300


class Fault(_Part, frozen=True, kw_only=True):
    """Which fault for all requests, or rules for some, and how long a script that is running at the lift may go on."""

    tag: str | int | msgspec.UnsetType = msgspec.field(default=msgspec.UNSET, name="mode")
    """A fault's tag; left out, and without rules, `reset`. `503` may stand without quotes, which YAML reads as a number:
    here and in a rule a number is text."""
    params: dict[str, Any] = {}
    rules: Annotated[tuple[Rule, ...], msgspec.Meta(min_length=1)] = ()
    """In place of `mode`: several faults, each with the requests that it meets; one at least."""
    linger_s: float = 0

    def __post_init__(self) -> None:
        if self.tag is not msgspec.UNSET:  # text in the manifest too, however it was written
            msgspec.structs.force_setattr(self, "tag", str(self.tag))

    @property
    def mode(self) -> str:
        """What people call it."""
        return label(self.wanted)

    @property
    def wanted(self) -> tuple[Rule, ...]:
        """As the proxy is told: a fault for everybody is one rule without conditions."""
        return self.rules or (Rule(mode="reset" if self.tag is msgspec.UNSET else self.tag, params=self.params),)


class Pick(_Part, frozen=True, kw_only=True):
    """One fault of a matrix, with parameters of its own."""

    mode: str | int
    params: dict[str, Any] = {}


class Matrix(_Part, frozen=True, kw_only=True):
    """Which faults, one after another, and how long for each. What is left out follows from the traffic."""

    faults: tuple[str | int | Pick, ...] = ()
    """Tags, or `{mode, params}`. With `groups` empty too: one of each kind of end that clients are known to tell apart."""
    groups: tuple[str, ...] = ()
    """All faults of these groups: `connection`, `time`, `status`, `quota`, `credentials`, `content`, `stream`, `tools`."""
    baseline_s: float | None = None
    """Seconds in which is heard what the agent speaks; left out: 12 requests, at least 10 s, at most `phases.baseline_s`."""
    window_s: float | None = None
    """Of each fault; left out: `requests_per_cell` and two more, and the users' patience, of which 10 s at most."""
    recovery_s: float | None = None
    """After each fault at least; left out: three requests, at least 2 s."""
    back_within_s: float = 60
    """How long the agent may take to be back after a lift, before nothing more is done to it."""
    requests_per_cell: int = 5
    """User requests that must have met a fault for its cell to say that they survived."""


class Worker(_Part, frozen=True, kw_only=True):
    """How to start the agent, if the drill starts it. It gets DRILL_LOG and the base URLs of the proxy."""

    cmd: tuple[str, ...]
    cwd: str | None = None
    env: dict[str, str] = {}
    """On top of the drill's environment. `${NAME}` is taken from there, `${MODEL_BASE_URL}` included."""
    ready_s: float = 30
    """How long it may take until the target's port answers."""


class Attest(_Part, frozen=True, kw_only=True):
    """A human line of the pre-flight: by whom, and when (RFC 3339)."""

    by: str
    at: str


class Preflight(_Part, frozen=True, kw_only=True):
    quiet_window_agreed: Attest | None = None
    on_call_told: Attest | None = None
    status_note_drafted: Attest | None = None


class Window(_Part, frozen=True, kw_only=True):
    """The agreed quiet window (RFC 3339, both ends). Outside it injection is refused."""

    start: str
    end: str


class Spend(_Part, frozen=True, kw_only=True):
    """Caps on what the drill may cost at the real endpoint, counted at the proxy."""

    max_requests: int
    max_tokens: int | None = None


class Stop(_Part, frozen=True, kw_only=True):
    """When the drill gives up, lifts and exits 3. `failed_ratio` is over the last `over_requests` requests."""

    failed_ratio: float | None = None
    over_requests: int = 20
    min_free_mb: int = 100


class Plan(_Part, frozen=True, kw_only=True):
    """`kind: plan`. See `drillmaster init eviction` for one with every field explained."""

    kind: Literal["plan"]
    drill: Literal["eviction", "matrix"]
    service: str
    target: Target
    traffic: Traffic
    proxy: Proxy
    policy: str | None = None
    """Path of the policy file, relative to the plan. An eviction drill needs one; a matrix without one judges nothing."""
    seats: Seats = Seats()
    phases: Phases = Phases()
    fault: Fault = Fault()
    matrix: Matrix | None = None
    """For `drillmaster run matrix`, beside or in place of `fault`."""
    window: Window | None = None
    preflight: Preflight = Preflight()
    worker: Worker | None = None
    timeline: str | None = None
    """Where an agent that the drill does not start writes its timeline, relative to the plan. What it writes from the
    pre-flight to the end becomes the run's. An agent that the drill starts is told by DRILL_LOG."""
    spend: Spend | None = None
    stop: Stop = Stop()
    owners: dict[str, str] = {}
    """Check id -> who owns the follow-up issue; `default` for all others."""
    seed: int = 1


class Aimed(Protocol):
    """A target, of whatever kind."""

    @property
    def url(self) -> str: ...
    @property
    def permit(self) -> Permit | None: ...


class Outline(Protocol):
    """What every drill's plan says, whatever its users do and whatever is injected: all that a conductor goes by."""

    @property
    def drill(self) -> str: ...
    @property
    def service(self) -> str: ...
    @property
    def seats(self) -> Seats: ...
    @property
    def target(self) -> Aimed: ...
    @property
    def phases(self) -> Phases: ...
    @property
    def traffic(self) -> Traffic: ...
    @property
    def window(self) -> Window | None: ...
    @property
    def preflight(self) -> Preflight: ...
    @property
    def worker(self) -> Worker | None: ...
    @property
    def spend(self) -> Spend | None: ...
    @property
    def stop(self) -> Stop: ...


def without_v1(upstream: str) -> str:
    """The upstream's URL less a `/v1` at the end of its path.

    `/v1` belongs to what a client asks for, and people copy a base URL with it. Kept in the proxy's prefix it would come
    twice for a client whose own base URL ends in it; without it both spellings mean the same.
    """
    parts = urlsplit(upstream)
    path = parts.path.rstrip("/")
    return urlunsplit(parts._replace(path=path.removesuffix("/v1"))) if path.endswith("/v1") else upstream


def base_urls(proxy_url: str, upstream: str) -> dict[str, str]:
    """What the worker finds in its environment. All lead to the proxy, which puts the upstream's own path in front.

    OPENAI_BASE_URL ends in `/v1` as that SDK wants, unless the upstream's path is of another kind (`/openai`).
    ANTHROPIC_BASE_URL never does, since that SDK adds it, and neither does MODEL_BASE_URL, whatever `upstream` ends in.
    """
    path = urlsplit(upstream).path.strip("/")
    v1 = not path or path.endswith("v1")
    return {
        "MODEL_BASE_URL": proxy_url,
        "OPENAI_BASE_URL": f"{proxy_url}/v1" if v1 else proxy_url,
        "ANTHROPIC_BASE_URL": proxy_url,
    }
