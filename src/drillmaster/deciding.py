"""What an interview earns: which kinds of jobs may run on the endpoint, which stay elsewhere, and why.

1. The table has four rows, strictest first: errors over the signed cap; a cold call near the time limit; good for one caller
   and worse with more; quick and without an error. From the strictest down the first row that holds decides.
2. A row that cannot be told decides as well, and allows nothing. Where no row holds nothing is allowed.
3. A verdict that is no pass allows nothing, whatever the rows say.
4. What "interactive", "degrading" and "near" mean are numbers of a policy, without defaults. The cap of errors, and what is
   good for one caller, are the gate's own limits for those levels.
5. A latency is held against its limit as the gate does it: what was seen, or its upper bound. How it grows with callers is
   the ratio of what was seen.
6. A decision holds for 30 days from the measurement, for the job that was interviewed, from where it was interviewed.
"""

from collections.abc import Mapping
from typing import Annotated, Literal, get_args
from urllib.parse import urlsplit

import msgspec

from drillmaster.clock import parse_rfc3339, rfc3339
from drillmaster.interviews import Interview, Level
from drillmaster.policy import share_text
from drillmaster.verdict import Absent, AtLeast, Exact, Status

__all__ = [
    "KINDS",
    "BudgetNote",
    "Caps",
    "Decision",
    "DecisionLimits",
    "JobKind",
    "Row",
    "allowed_by",
    "budget_text",
    "decide",
    "decided_by",
    "kind_text",
    "review_day",
]

JobKind = Literal["interactive", "summary", "batch", "chat", "completion", "nightly", "deadline"]
KINDS: tuple[JobKind, ...] = get_args(JobKind)
RowName = Literal["errors", "cold", "degrading", "quick"]

REVIEW_DAYS = 30
_DAY_NS = 86_400 * 10**9

_KIND_TEXTS: dict[JobKind, str] = {
    "interactive": "interactive aids",
    "summary": "summaries of one file",
    "batch": "batch with a queue and retries",
    "chat": "chat",
    "completion": "completion while somebody types",
    "nightly": "nightly jobs, which make a warming call first",
    "deadline": "what a customer has a deadline for",
}
_ALLOWED: dict[RowName, tuple[JobKind, ...]] = {
    "errors": (),
    "cold": (),
    "degrading": ("batch",),
    "quick": ("interactive", "summary"),
}
_TRAVELS_NOT = (
    "another endpoint, model or payload",
    "another place in the network: a colleague's machine, another region",
    "another day: shared capacity changes unannounced",
    "more callers than were tried, or longer than they were",
)


class BudgetNote(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What the operator allows, when somebody read it, and where. It goes onto page and passport; it judges nothing."""

    allowance: str = ""
    """With its number: `10 million tokens a month`."""
    read_on: str = ""
    """The day: `2026-11-29`."""
    url: str = ""
    """Where it was read."""


class DecisionLimits(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What the rows of the table mean here. None has a default."""

    interactive_p95_s: Annotated[float, msgspec.Meta(gt=0, le=86_400)]
    """A person waits for less than this, 95 times in 100."""
    degrading_ratio: Annotated[float, msgspec.Meta(gt=1, le=1_000)]
    """p95 of a level over p95 of one caller, from which on it degrades."""
    cold_near_timeout_ratio: Annotated[float, msgspec.Meta(gt=0, le=1)]
    """The cold call over the time limit of a call, from which on it is near."""
    budget: BudgetNote | msgspec.UnsetType = msgspec.UNSET
    """What the operator allows, for page and passport; without it they say OPEN."""


class Caps(msgspec.Struct, frozen=True, kw_only=True):
    """What the gate signs for one level; None: nothing."""

    p95_s: float | None = None
    error_rate: float | None = None


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """One row of the table. `holds` None: it cannot be told, and `why` says what is missing."""

    name: RowName
    holds: bool | None
    why: str


class Decision(msgspec.Struct, frozen=True, kw_only=True):
    """What may run on the endpoint, until when, and on what grounds."""

    allowed: tuple[JobKind, ...]
    elsewhere: tuple[JobKind, ...]
    job_alone: bool = False
    """The policy has no `decision`: a pass is for the interviewed job, and for nothing else."""
    why: str
    rows: tuple[Row, ...] = ()
    measured_on: str
    """UTC day of the end of the interview; empty: the file does not say."""
    review_on: str
    """30 days later; empty where that is not known."""
    measured_from: str
    """Where the load came from; empty: nobody said."""
    n: int
    """Calls that were judged."""
    travels_not: tuple[str, ...] = _TRAVELS_NOT
    budget: str


def kind_text(kind: JobKind) -> str:
    """Say a kind of job in words."""
    return _KIND_TEXTS[kind]


def allowed_by(row: RowName) -> tuple[JobKind, ...]:
    """The kinds of jobs that a row allows where it decides."""
    return _ALLOWED[row]


def decided_by(decision: Decision, status: Status) -> int | None:
    """Which of the decision's rows decided; None where the verdict did, or no row fits."""
    if status != "pass":
        return None
    return next((at for at, row in enumerate(decision.rows) if row.holds is not False), None)


def decide(
    interview: Interview,
    limits: DecisionLimits | None,
    caps: Mapping[str, Caps],
    *,
    status: Status,
    by_bound: bool,
    block_s: float | None = None,
    measured_from: str = "",
    budget: BudgetNote | None = None,
) -> Decision:
    """Decide by the table. `status` is the gate's verdict on the same interview; `budget` goes before the policy's own note.

    `by_bound` by calls and, with `block_s`, by blocks of time.
    """
    rows = () if limits is None else _rows(interview, limits, caps, _Judged(by_bound=by_bound, block_s=block_s))
    allowed, why = _outcome(status, rows)
    if budget is None and limits is not None and limits.budget is not msgspec.UNSET:
        budget = limits.budget
    day = "" if interview.ended_wall_ns is None else rfc3339(interview.ended_wall_ns)[:10]
    return Decision(
        allowed=allowed,
        elsewhere=tuple(kind for kind in KINDS if kind not in allowed),
        job_alone=limits is None and status == "pass",
        why=why,
        rows=rows,
        measured_on=day,
        review_on=review_day(interview.ended_wall_ns),
        measured_from=measured_from,
        n=sum(level.n for level in interview.levels),
        budget=budget_text(budget),
    )


def review_day(ended_wall_ns: int | None) -> str:
    """The last day, in UTC, on which a decision holds; empty where the end of the interview is not known."""
    return "" if ended_wall_ns is None else rfc3339(ended_wall_ns + REVIEW_DAYS * _DAY_NS)[:10]


def budget_text(note: BudgetNote | None) -> str:
    """Say the budget note on one line. OPEN, and what is missing, where it lacks its number, day or address."""
    note = note or BudgetNote()
    missing = []
    if not any(char.isdecimal() for char in note.allowance):
        missing.append("the allowance with its number")
    if parse_rfc3339(f"{note.read_on}T00:00:00Z") is None:
        missing.append("the day it was read")
    try:
        parts = urlsplit(note.url)
        known = parts.scheme in ("http", "https") and bool(parts.hostname)
    except ValueError:
        known = False
    if not known:
        missing.append("the address it was read at")
    if missing:
        return f"OPEN: {', '.join(missing)}"
    return f"{note.allowance}, read on {note.read_on} at {note.url}"


def _outcome(status: Status, rows: tuple[Row, ...]) -> tuple[tuple[JobKind, ...], str]:
    if status != "pass":
        held = next((row.why for row in rows if row.holds), "")
        return (), f"the gate's verdict is {status}" + (f"; {held}" if held else "")
    if not rows:
        return (), "the policy has no decision part, which could allow more"
    for row in rows:
        if row.holds is None:
            return (), f"it cannot be told whether the row {row.name} holds: {row.why}"
        if row.holds:
            return _ALLOWED[row.name], row.why
    return (), "no row of the table fits: " + "; ".join(row.why for row in rows)


class _Judged(msgspec.Struct, frozen=True, kw_only=True):
    """p95 as the gate decides on it."""

    by_bound: bool
    block_s: float | None

    def p95(self, level: Level) -> float | None:
        """What was seen, or its upper bound; None where that is not known."""
        observed = level.latency("p95")
        if not isinstance(observed, Exact):
            return None
        if not self.by_bound:
            return observed.value
        return None if level.ok_s is None else level.bound("latency", "p95", block_s=self.block_s).value


def _rows(interview: Interview, limits: DecisionLimits, caps: Mapping[str, Caps], judged: _Judged) -> tuple[Row, ...]:
    return (
        _errors(interview, caps),
        _cold(interview, limits),
        _degrading(interview, limits, caps, judged),
        _quick(interview, limits, judged),
    )


def _errors(interview: Interview, caps: Mapping[str, Caps]) -> Row:
    over, unsigned = [], []
    for level in interview.levels:
        if level.n < 1:
            unsigned.append(f"{level.label} has no call")
            continue
        cap = 0.0 if level.kind == "cold" else caps.get(level.label, Caps()).error_rate
        rate = level.failures / level.n
        if cap is None:
            unsigned.append(f"no error_rate is signed for {level.label}")
        elif rate > cap + 1e-12:
            over.append(f"{level.label} fails {share_text(rate)}, and {share_text(cap)} is signed")
    if over:
        return Row(name="errors", holds=True, why="; ".join(over))
    if unsigned or not interview.levels:
        return Row(name="errors", holds=None, why="; ".join(unsigned) or "no level was run")
    return Row(name="errors", holds=False, why="errors are within their caps")


def _cold(interview: Interview, limits: DecisionLimits) -> Row:
    cold, limit_s = interview.level("cold"), interview.time_limit_s
    if cold is None or limit_s is None:
        missing = "no cold call" if cold is None else "nobody says when a call was cut"
        return Row(name="cold", holds=None, why=missing)
    match cold.latency("max"):
        case Absent(why=why):
            return Row(name="cold", holds=None, why=f"the cold call: {why}")
        case AtLeast(value=value) | Exact(value=value):
            near_s = limits.cold_near_timeout_ratio * limit_s
            cut = bool(cold.cut_s) or value >= near_s
            said = f"the cold call took {value:.3g} s of {limit_s:g} s; near begins at {near_s:.3g} s"
            return Row(name="cold", holds=cut, why=said)
    return Row(name="cold", holds=None, why="the cold call has no latency")


def _degrading(interview: Interview, limits: DecisionLimits, caps: Mapping[str, Caps], judged: _Judged) -> Row:
    alone = interview.level("warm_c1")
    others = [level for level in interview.levels if level.kind == "closed" and level.label != "warm_c1"]
    if alone is None or not others:
        missing = "no level with one caller" if alone is None else "no level with more callers than one"
        return Row(name="degrading", holds=None, why=missing)
    base = alone.latency("p95")
    if not isinstance(base, Exact) or base.value <= 0:
        return Row(name="degrading", holds=None, why="p95 of one caller is not known")
    worst, worst_label, untold = 0.0, "", ""
    for level in others:
        grown = level.latency("p95")
        if isinstance(grown, Absent):
            untold = f"{level.label}: {grown.why}"
            continue
        ratio = grown.value / base.value
        if isinstance(grown, AtLeast) and ratio < limits.degrading_ratio:
            untold = f"p95 of {level.label} is at least {grown.value:.3g} s"
        if ratio > worst:
            worst, worst_label = ratio, level.label
    grows = (
        f"p95 grows {worst:.3g} times from one caller to {worst_label}; from {limits.degrading_ratio:g} on it degrades"
    )
    if worst < limits.degrading_ratio:
        return Row(name="degrading", holds=None if untold else False, why=untold or grows)
    cap = caps.get("warm_c1", Caps()).p95_s
    value = judged.p95(alone)
    if cap is None or value is None:
        missing = "no p95_s is signed for warm_c1" if cap is None else "so few calls bound no p95 of warm_c1"
        return Row(name="degrading", holds=None, why=f"{grows}; {missing}")
    if value > cap:
        # Bad for one caller too is worse than the row says: it must not fall through to a row that allows more.
        return Row(name="degrading", holds=None, why=f"{grows}; p95 of one caller is over its {cap:g} s already")
    return Row(name="degrading", holds=True, why=grows)


def _quick(interview: Interview, limits: DecisionLimits, judged: _Judged) -> Row:
    waited = [level for level in interview.levels if level.kind in ("closed", "open")]
    if not waited:
        return Row(name="quick", holds=None, why="no level beside the cold call")
    slow, untold = [], []
    for level in waited:
        value = judged.p95(level)
        if value is None:
            untold.append(f"p95 of {level.label} is not known")
        elif value >= limits.interactive_p95_s:
            slow.append(f"p95 of {level.label} is {value:.3g} s, and people wait under {limits.interactive_p95_s:g} s")
    failed = sum(level.failures for level in interview.levels)
    if failed:
        slow.append(f"calls failed: {failed}")
    if slow:
        return Row(name="quick", holds=False, why="; ".join(slow))
    if untold:
        return Row(name="quick", holds=None, why="; ".join(untold))
    said = f"p95 of every level is under {limits.interactive_p95_s:g} s, and no call failed"
    return Row(name="quick", holds=True, why=said)
