"""The plan of a load interview: one endpoint, one frozen payload, an idle time, a cold call, and a ladder of callers.

1. Steps come in one order and never at once: idle, the cold call, each level after a warm-up of its own connections, the open
   stages, the drain of one batch.
2. A level of N is N callers with one call at a time each. Its warm-up is one call per connection, kept apart and not judged.
3. An open stage is arrivals by the clock, whatever became of the calls before. A drain is a batch that is due at once and is
   worked off by as many callers as the plan says.
4. In the levels a caller has whole sessions, turn by turn on its connection, and pauses as the plan says. The cold call and the
   warm-up have first turns; open stages and the drain take all turns as calls on their own, each with what was said before it.
5. Nothing here has authority over a verdict: thresholds are the Reader's file.
"""

import math
from typing import Literal

import msgspec

from drillmaster.plan import Permit, Spend

__all__ = [
    "LONGEST_PAUSE",
    "Arrivals",
    "Asked",
    "Batch",
    "Honour",
    "InterviewPlan",
    "InterviewSeats",
    "InterviewStop",
    "LoadPermit",
    "Messages",
    "NoRetry",
    "Step",
    "StepKind",
    "Think",
    "steps",
]

LONGEST_PAUSE = 10
"""An exponential pause is cut at so many times its mean, which one in 22,000 would be over: every wait has an end."""

StepKind = Literal["cold", "warmup", "closed", "open", "drain"]


class _Part(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    pass


class LoadPermit(Permit, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Who allowed load on a host that is not loopback, until when, and how much."""

    max_in_flight: int
    """Calls at once, in any step."""


class Messages(_Part, frozen=True, kw_only=True):
    """How a WebSocket is spoken to: one message up, and messages down to the one that ends the answer."""

    until: str | None = None
    """A regular expression: the message that it matches ends the answer. Null: the first message does; where a server sends more,
    the next call takes what is left for its own answer."""
    failed: str | None = None
    """A regular expression: a message that it matches ends the answer, and is an error."""
    subprotocol: str | None = None
    """What the upgrade asks for in `Sec-WebSocket-Protocol`."""


class Asked(_Part, frozen=True, kw_only=True):
    """The endpoint, and what it is asked."""

    url: str
    """The whole URL, path included, as the job calls it. With `ws://` or `wss://` payloads are messages."""
    method: Literal["POST", "GET"] = "POST"
    dialect: str = "plain"
    """Whose API it is: how the prompt is put, and when an answer is really finished. `plain` sends `{"prompt": ...}`."""
    model: str | None = None
    stream: bool = False
    max_tokens: int | None = None
    """The most that one answer may have; null: as the API has it (Anthropic's has to be told: 1024)."""
    headers: dict[str, str] = {}
    """`${NAME}` in a value is taken from the environment; that is where keys belong."""
    prompt: str = "Summarize this diff in one sentence."
    """With rows of a CSV file it is a template: `{column}` stands for the row's text in that column."""
    payloads: str | None = None
    """A file beside the plan, in place of `prompt`. JSONL: a line that is a string is a prompt, an object a whole body, an array a
    session (prompts and recorded answers in turn, or whole bodies). `.csv`: rows that fill the `{column}`s of `prompt`, `form`
    or `query`. `{n}` in a payload becomes the number of the call, in a session that of the session, which defeats a cache."""
    order: Literal["in_turn", "shuffled"] = "in_turn"
    """How payloads (sessions, where there are some) are drawn: in the file's order, or each pass through it in an order of its
    own, by the seed."""
    form: dict[str, str] | None = None
    """The body is these fields, URL-encoded (`application/x-www-form-urlencoded`). `{prompt}` in a value is the prompt; with rows,
    `{column}` the row's text."""
    query: dict[str, str] | None = None
    """The same in the URL of a `GET`, behind the query that the URL has."""
    websocket: Messages | None = None
    """Of a `ws://` or `wss://` URL; null: one message ends each answer."""
    ca_file: str | None = None
    """A PEM file to trust besides the system's store."""
    permit: LoadPermit | None = None

    @property
    def is_websocket(self) -> bool:
        return self.url[:5].lower() == "ws://" or self.url[:6].lower() == "wss://"

    @property
    def http_url(self) -> str:
        """The URL to connect to: a WebSocket begins as HTTP, in the clear or over TLS."""
        return f"http{self.url[2:]}" if self.is_websocket else self.url

    @property
    def has_words(self) -> bool:
        """Whether an answer comes in pieces that are timed one by one."""
        return self.stream or self.is_websocket


class Arrivals(_Part, frozen=True, kw_only=True):
    """One open stage. Its label is `open_r` and the rate."""

    rate_per_s: float
    """Calls a second, at its start."""
    seconds: float
    rate_to_per_s: float | None = None
    """Calls a second at its end, which the rate moves to evenly; null: it stays."""
    poisson: bool = False
    """Exponential gaps of that mean, by the seed; else evenly spaced."""
    max_in_flight: int | None = None
    """What is due beyond that is dropped, and a failure; null: no cap. More than 10,000 at once want one."""

    @property
    def label(self) -> str:
        return f"open_r{self.rate_per_s:g}" + (f"_to_{self.rate_to_per_s:g}" if self.rate_to_per_s is not None else "")

    @property
    def most_per_s(self) -> float:
        """Calls a second where they come fastest."""
        return max(self.rate_per_s, self.rate_to_per_s or 0.0)

    @property
    def calls(self) -> int:
        """How many are due, about."""
        last = self.rate_per_s if self.rate_to_per_s is None else self.rate_to_per_s
        return round((self.rate_per_s + last) / 2 * self.seconds)

    def in_flight(self, timeout_s: float) -> int:
        """The most that may be under way at once; without a cap all that come in one time limit, when the first are cut."""
        if self.max_in_flight is not None:
            return self.max_in_flight
        return max(1, math.ceil(self.most_per_s * timeout_s))


class Batch(_Part, frozen=True, kw_only=True):
    """One realistic batch, due at once. Its latencies count from its start: the largest is the time it took to drain."""

    calls: int
    callers: int | None = None
    """How many work on it; null: as many as the largest level has."""


class Think(_Part, frozen=True, kw_only=True):
    """Pauses of a caller in the levels of the ladder."""

    turn_s: float = 0.0
    """Between two turns of a session."""
    session_s: float = 0.0
    """Between two sessions; between two calls, where there are no sessions."""
    law: Literal["fixed", "exponential"] = "fixed"
    """Each that long, or of that mean by the seed, and then at most ten times as long."""

    @property
    def longest_s(self) -> float:
        """How long one pause may be."""
        return max(self.turn_s, self.session_s) * (LONGEST_PAUSE if self.law == "exponential" else 1)


class NoRetry(_Part, frozen=True, kw_only=True, tag_field="policy", tag="none"):
    """429 and 503 are failures like any other."""


class Honour(_Part, frozen=True, kw_only=True, tag_field="policy", tag="honour"):
    """A 429 or 503 that says how long to wait is waited for, and the call is sent again.

    Its latency counts on; attempts and seconds are counted. One that does not say so is a failure.
    """

    max_attempts: int
    """The most that one call is sent, the first time included."""
    max_wait_s: float
    """The most that one call waits in all."""


class InterviewSeats(_Part, frozen=True, kw_only=True):
    """Three people. The same name twice is refused unless the run is a rehearsal; an empty seat makes it one."""

    driver: str | None = None
    reader: str | None = None
    recorder: str | None = None

    def names(self) -> dict[str, str]:
        """Seat -> who holds it; empty where nobody does."""
        return {"driver": self.driver or "", "reader": self.reader or "", "recorder": self.recorder or ""}


class InterviewStop(_Part, frozen=True, kw_only=True):
    """When the run is given up, sealed as it is, and exits 3."""

    min_free_mb: int = 100


class InterviewPlan(_Part, frozen=True, kw_only=True):
    """`kind: plan`, `drill: interview`."""

    kind: Literal["plan"]
    drill: Literal["interview"]
    job: str
    """The one recurring job that this is about, by name: `one-sentence diff summary`."""
    target: Asked
    levels: tuple[int, ...] = (1, 4, 8)
    """Callers, level by level."""
    warm: int = 10
    """Calls of each level, its warm-up not counted; with `seconds` the most that it makes."""
    seconds: float | None = None
    """How long each level makes calls; null: until all of `warm` are made. What bounds a quantile needs a length of time, since
    calls of one stall are not independent."""
    idle_s: float = 120
    """Silence before the cold call."""
    timeout_s: float = 60
    """When one call is cut, from when it was due."""
    think: Think = Think()
    retry: NoRetry | Honour = NoRetry()
    """`policy: none`, or `policy: honour` for what a client does that heeds `Retry-After`."""
    open: tuple[Arrivals, ...] = ()
    drain: Batch | None = None
    measured_from: str | None = None
    """Where the load comes from, for page and passport: `CI runner, Frankfurt`. Numbers do not travel to another place."""
    seats: InterviewSeats = InterviewSeats()
    spend: Spend | None = None
    """Caps on what the interview may cost at the endpoint. Tokens as its answers say them."""
    stop: InterviewStop = InterviewStop()
    processes: int = 1
    """Engine processes that share each step, for what one core cannot hold. Callers, calls and arrivals stay in sum."""
    seed: int = 1


class Step(msgspec.Struct, frozen=True, kw_only=True):
    """One step that sends something."""

    label: str
    kind: StepKind
    callers: int
    """Calls at once. Open: at most."""
    calls: int
    """How many; open: about; with `seconds` at most."""
    arrivals: Arrivals | None = None
    think: Think | None = None
    """Pauses between its calls; None: there are none."""
    seconds: float | None = None
    """Closed: how long calls begin, unless all are made before; None: until then."""


def steps(plan: InterviewPlan) -> tuple[Step, ...]:
    """All steps of a plan after the idle time, in order."""
    think = plan.think if plan.think.longest_s else None
    found = [Step(label="cold", kind="cold", callers=1, calls=1)]
    for level in plan.levels:
        found.append(Step(label=f"warmup_c{level}", kind="warmup", callers=level, calls=level))
        found.append(
            Step(
                label=f"warm_c{level}", kind="closed", callers=level, calls=plan.warm, think=think, seconds=plan.seconds
            )
        )
    for one in plan.open:
        found.append(
            Step(
                label=one.label,
                kind="open",
                callers=one.in_flight(plan.timeout_s),
                calls=one.calls,
                arrivals=one,
            )
        )
    if plan.drain is not None:
        callers = plan.drain.callers or max(plan.levels)
        found.append(Step(label="drain", kind="drain", callers=callers, calls=plan.drain.calls))
    return tuple(found)
