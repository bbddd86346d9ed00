"""The free-tier gate: may the job stay on an endpoint that nobody pays for? Sealed interviews in a row, and a ledger, say.

1. One night proves little and can be repeated until it is good. Interviews of one job at one endpoint are looked at in the
   order in which they were taken, all of a span, and none of them may be unreadable, unsealed or changed. So many as the policy
   says may have measured nothing; beside a bad night such a one is not taken for a good one.
2. What was not measured is not in order: too few runs, a gap between two, a newest one that is old, no cold start after real
   silence, no ledger, or one that nobody keeps. Each is refused.
3. The criteria for leaving are agreed on while it is calm, and are the policy's: p95 some times over its budget in runs or days
   in a row, errors after retries, a drain that runs over its window, incidents of capacity, hours of engineers that cost more
   than the paid tier, red flags that stand. Any one of them says leave. A bad run is not undone by another of its UTC day.
4. Of what is in a month all counts that happened in the 31 days before: no month is longer, and none has an edge to hide at.
5. An incident of unknown cause is not one of another cause: where it would tip the balance the answer is refused.
6. Some jobs no measurement can keep on a free tier: an SLO, a fan-out, a contract.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import Annotated, ClassVar, Literal, get_args

import msgspec

from drillmaster.clock import rfc3339
from drillmaster.gates import Gate
from drillmaster.policy import seconds_text, share_text
from drillmaster.verdict import Absent, AtLeast, AtMost, Check, Exact, Measure, Status, Verdict, at_most, looked_at

__all__ = ["MONTH_S", "Flag", "FreeTier", "Incident", "Interviewed", "Spent", "Stay", "gate"]

MONTH_S = 31 * 86_400.0
_SKEW_S = 60.0
_DAY_NS = 86_400 * 10**9
Flag = Literal["retries-grown", "second-window", "ceiling-unknown", "mean-only", "routed-around"]
FLAGS: dict[str, str] = {
    "retries-grown": "retries went from one attempt to three",
    "second-window": "the job needs a second window",
    "ceiling-unknown": "nobody can say how many calls at once it bears",
    "mean-only": "dashboards show the mean alone",
    "routed-around": "releases go around the endpoint",
}
_NEVER = {
    "interactive": "an interactive path with an SLO on its latency: there is no capacity that anybody promised",
    "fan-out": "a burst of ten times: retries multiply in it",
    "contractual": "uptime that a contract promises: that takes a vendor's word",
}

_Seconds = Annotated[float, msgspec.Meta(gt=0, le=366 * 86_400)]
_Ratio = Annotated[float, msgspec.Meta(ge=0, lt=1)]
_Price = Annotated[float, msgspec.Meta(gt=0, le=1e9)]


class Interviewed(msgspec.Struct, frozen=True, kw_only=True):
    """One interview of the job, as its seal has it."""

    run: str
    ended_ns: int
    """Wall time; 0: nobody knows."""
    digest: str = ""
    unusable: str = ""
    """Why it is no evidence; empty: it is."""
    lost: str = ""
    """Why it measured nothing, as it was sealed: it was stopped, or its numbers are the client's own."""
    calls: int = 0
    """Of the level that is judged."""
    p50_s: Measure = Absent("not measured")
    p95_s: Measure = Absent("not measured")
    error_ratio: Measure = Absent("not measured")
    """Of calls, once their retries were over."""
    drain_s: Measure = Absent("not measured")
    cold_s: Measure = Absent("not measured")
    idle_s: float | None = None
    """Of silence before the cold call."""
    max_attempts: int = 1
    """How often its client sends one call, the first time included."""
    payload_sha256: str = ""


class Incident(msgspec.Struct, frozen=True, kw_only=True):
    """One incident of the ledger. `at_ns` is when it was, wall time."""

    at_ns: int
    cause: Literal["capacity", "code", "unknown"]
    line: int


class Spent(msgspec.Struct, frozen=True, kw_only=True):
    """Hours that an engineer spent on finding out what is wrong with the endpoint."""

    at_ns: int
    hours: float
    line: int


class Stay(msgspec.Struct, frozen=True, kw_only=True):
    """All that is known of a job's time on a free tier."""

    job: str
    url: str
    runs: tuple[Interviewed, ...]
    """Of the span, oldest first."""
    unreadable: tuple[str, ...] = ()
    """Run folders of which nobody can say whose they are."""
    ledger: str = ""
    """Why the ledger is none; empty: it is whole."""
    ledger_job: str = ""
    ledger_kept_ns: int | None = None
    """When its last line was written."""
    incidents: tuple[Incident, ...] = ()
    spent: tuple[Spent, ...] = ()
    flags: tuple[str, ...] = ()
    """That stand."""
    now_ns: int


class FreeTier(Gate[Stay], frozen=True, kw_only=True, tag="free-tier"):
    """Whether a job may stay on a free endpoint, or a criterion for leaving is met that was written down before.

    Happens: an agent's job runs on an endpoint that costs nothing; it is interviewed every night; people note incidents and
    the hours that they spend on it.
    Breaks: jobs that get slower by a little each week; retries and second windows that hide it; free compute that costs more
    hours of engineers than the paid tier costs money.
    Looks like: `stay`, or `leave` and the criteria that were met.
    Cannot show: what nobody noted; that the paid tier is better; that tomorrow is like the nights that were measured.

    `RUNS` is a folder of sealed interviews, the ledger a file of `drillmaster ledger`. Every number is the policy's, the price
    of an hour and of the paid tier among them.
    """

    ARTICLE_CODES: ClassVar[dict[str, int]] = {}

    job: Annotated[str, msgspec.Meta(min_length=1, max_length=200)]
    """The job, as its interviews name it."""
    url: Annotated[str, msgspec.Meta(min_length=1)]
    """The endpoint, without user info and query, as its interviews name it."""
    workload: Literal["dev-chat", "idempotent-agent", "batch", "interactive", "fan-out", "contractual"]
    """What kind of job it is. The last three may never stay."""
    level: Annotated[str, msgspec.Meta(pattern=r"\A(?:warm_c|open_r)[0-9.]+\Z")]
    """The level of the interviews with the job's real concurrency: `warm_c8`."""
    p95_budget_s: Annotated[float, msgspec.Meta(gt=0, le=86_400)]
    leave_over_budgets: Annotated[float, msgspec.Meta(ge=1, le=100)]
    """How many times its budget p95 has to be over: 3."""
    consecutive_runs: Annotated[int, msgspec.Meta(ge=2, le=100)]
    """In so many runs in a row: 2."""
    max_error_ratio: _Ratio
    """Share of calls without a good answer, after retries: 0.02."""
    max_attempts_per_call: Annotated[int, msgspec.Meta(ge=1, le=100)]
    """How often the job's client may send one call: retries without a cap make any endpoint look well."""
    batch_window_s: _Seconds | Literal["none"]
    """The time that the job's batch has; `none`: it has no batch."""
    leave_over_window_ratio: Annotated[float, msgspec.Meta(ge=0, le=10)]
    """How far over its window a drain has to be: 0.2."""
    leave_at_incidents: Annotated[int, msgspec.Meta(ge=1, le=1000)]
    """So many incidents of capacity in a month: 2."""
    hourly_cost: _Price
    """Of an engineer, in the currency of the next."""
    paid_tier_per_month: _Price
    leave_at_red_flags: Annotated[int, msgspec.Meta(ge=1, le=5)]
    """So many red flags that stand: 2."""
    min_calls: Annotated[int, msgspec.Meta(ge=59)]
    """Of the level, in each run. Fewer than 59 bound no p95."""
    min_runs: Annotated[int, msgspec.Meta(ge=2, le=1000)]
    max_lost_runs: Annotated[int, msgspec.Meta(ge=0, le=1000)]
    """So many in the span may have measured nothing: stopped, or the client's own numbers."""
    span_s: _Seconds
    """How far back runs are looked at."""
    max_gap_s: _Seconds
    """The longest time between two runs that are one after the other."""
    max_age_s: _Seconds
    """How old the newest run may be."""
    min_idle_s: _Seconds
    """How long nobody may have called before a cold start counts as one: 1800."""
    max_ledger_silence_s: _Seconds
    """How long ago somebody may have written into the ledger last, be it that nothing happened."""

    def __post_init__(self) -> None:
        if self.min_runs < self.consecutive_runs:
            raise ValueError(f"min_runs of at least consecutive_runs, {self.consecutive_runs}")
        if self.workload == "batch" and self.batch_window_s == "none":
            raise ValueError("batch_window_s in seconds, for a batch")

    def checks(self, evidence: Stay) -> Iterator[Check]:
        stay = evidence
        usable = _measured(stay)
        yield self._subject(stay)
        yield self._all_usable(stay)
        yield self._enough(usable)
        yield self._distinct(usable)
        yield self._sampled(usable)
        yield self._fresh(usable, stay.now_ns)
        yield self._gapless(usable)
        yield self._cold(usable)
        yield self._ledger(stay)
        yield self._kept(stay)
        yield looked_at(
            "workload",
            "fail" if self.workload in _NEVER else "pass",
            f"the kind of job, {self.workload}, may be on a free tier where the numbers allow it",
            why=_NEVER.get(self.workload, ""),
        )
        yield self._slow(stay)
        yield self._failing(usable)
        yield self._retries(usable)
        if self.batch_window_s != "none":
            yield self._drain(usable, self.batch_window_s)
        yield self._incidents(stay)
        yield self._hours(stay)
        yield self._flags(stay, usable)

    def headline(self, evidence: Stay) -> tuple[str, ...]:
        usable = _measured(evidence)
        lines = [f"{self.job} at {self.url}: {len(usable)} interviews, {_day(usable, 0)} to {_day(usable, -1)}"]
        cold = self._coldest(usable)
        if cold is not None:
            lines.append(
                f"cold start {_shown(cold.cold_s, 's')} beside a warm p50 of {_shown(cold.p50_s, 's')}, {cold.run}"
            )
        return tuple(lines)

    def closing(self, evidence: Stay, verdict: Verdict) -> tuple[str, ...]:
        if verdict.status == "pass":
            return ("stay: no criterion for leaving is met",)
        met = [check for check in verdict.checks if check.status == "fail"]
        if verdict.status != "fail":
            return ()
        return ("leave:", *(f"- {check.id}: {check.title}" for check in met))

    # Admissions

    def _subject(self, stay: Stay) -> Check:
        wrong = []
        if stay.job != self.job or stay.url != self.url:
            wrong.append(f"the interviews are of {stay.job} at {stay.url}")
        if not stay.ledger and stay.ledger_job != self.job:
            wrong.append(f"the ledger is of {stay.ledger_job or 'nobody'}")
        payloads = {one.payload_sha256 for one in _measured(stay)}
        if len(payloads) > 1:
            wrong.append(f"{len(payloads)} different payloads were asked: their numbers are no series")
        return looked_at(
            "subject",
            "refused" if wrong else "pass",
            f"interviews and ledger are of one job, {self.job}, and of one payload",
            role="admission",
            why="; ".join(wrong),
            remedy="keep interviews of other payloads in another folder, and name the ledger of this job",
        )

    def _all_usable(self, stay: Stay) -> Check:
        bad = [f"{one.run}: {one.unusable}" for one in stay.runs if one.unusable] + list(stay.unreadable)
        lost = [f"{one.run}: {one.lost}" for one in stay.runs if one.lost and not one.unusable]
        if len(lost) > self.max_lost_runs:
            bad += lost
        more = f" and {len(bad) - 5} more" if len(bad) > 5 else ""
        return looked_at(
            "runs-usable",
            "refused" if bad else "pass",
            f"every interview of the span is as it was sealed, and at most {self.max_lost_runs} measured nothing: "
            f"{len(_measured(stay))} of {len(stay.runs)} did, {len(lost)} did not",
            role="admission",
            observed=Exact(len(lost), n=len(stay.runs)),
            limit=self.max_lost_runs,
            why="; ".join(bad[:5]) + more,
            remedy="a bad night that is left out is the one that counts: look at it with drillmaster verify RUN, and begin the "
            "series behind it (span_s)",
        )

    def _enough(self, usable: Sequence[Interviewed]) -> Check:
        return looked_at(
            "runs",
            "pass" if len(usable) >= self.min_runs else "refused",
            f"at least {self.min_runs} interviews in {_span(self.span_s)}",
            role="admission",
            observed=Exact(len(usable)),
            limit=self.min_runs,
            why=f"found {len(usable)}",
            remedy=f"interview it again: drillmaster interview {self.url}, with the plan of the job",
        )

    def _distinct(self, usable: Sequence[Interviewed]) -> Check:
        seals = [one.digest for one in usable]
        twice = sorted({one.run for one in usable if seals.count(one.digest) > 1})
        return looked_at(
            "runs-distinct",
            "refused" if twice else "pass",
            "no interview stands twice in the series",
            role="admission",
            why=f"one seal: {', '.join(twice[:4])}",
            remedy="remove the copies of run folders",
        )

    def _sampled(self, usable: Sequence[Interviewed]) -> Check:
        few = [f"{one.run}: {one.calls}" for one in usable if one.calls < self.min_calls]
        return looked_at(
            "calls",
            "refused" if few or not usable else "pass",
            f"each interview made {self.min_calls} calls or more at {self.level}",
            role="admission",
            observed=Exact(min((one.calls for one in usable), default=0)),
            limit=self.min_calls,
            why="; ".join(few[:5]) or "there is none",
            remedy=f"interview with more calls at this level: --warm {self.min_calls}, or warm: {self.min_calls} in the plan",
        )

    def _fresh(self, usable: Sequence[Interviewed], now_ns: int) -> Check:
        age_s = (now_ns - usable[-1].ended_ns) / 1e9 if usable else math.inf
        undated = any(one.ended_ns <= 0 for one in usable)
        ahead = age_s < -_SKEW_S
        ok = usable and not undated and not ahead and at_most(Exact(age_s), self.max_age_s) == "pass"
        return looked_at(
            "fresh",
            "pass" if ok else "refused",
            f"the newest interview is at most {_span(self.max_age_s)} old",
            role="admission",
            observed=Exact(age_s) if usable else Absent("there is none"),
            limit=self.max_age_s,
            unit="s",
            why="an interview has no date"
            if undated
            else f"{usable[-1].run} is from the future"
            if ahead
            else "it is older"
            if usable
            else "there is none",
            remedy=f"interview it again: drillmaster interview {self.url}, with the plan of the job",
        )

    def _gapless(self, usable: Sequence[Interviewed]) -> Check:
        steps = [((later.ended_ns - one.ended_ns) / 1e9, one.run, later.run) for one, later in pairwise(usable)]
        longest = max(steps, default=(0.0, "", ""))
        disorder = any(step[0] < 0 for step in steps)
        return looked_at(
            "gaps",
            "pass" if longest[0] <= self.max_gap_s and not disorder else "refused",
            f"no more than {_span(self.max_gap_s)} lie between two interviews",
            role="admission",
            observed=Exact(longest[0]),
            limit=self.max_gap_s,
            unit="s",
            why="they are not in order"
            if disorder
            else f"{_span(round(longest[0]))} between {longest[1]} and {longest[2]}",
            remedy="runs on both sides of a gap are not in a row: interview on, until the span has none",
        )

    def _cold(self, usable: Sequence[Interviewed]) -> Check:
        found = self._coldest(usable)
        idle = max((one.idle_s for one in usable if one.idle_s is not None), default=None)
        return looked_at(
            "cold-start",
            "pass" if found is not None else "refused",
            f"a cold start was measured after {_span(self.min_idle_s)} of silence"
            + ("" if found is None else f" (observed {_shown(found.cold_s, 's')})"),
            role="admission",
            observed=Absent("no cold call after such a silence") if found is None else found.cold_s,
            why="" if idle is None else f"the longest silence was {_span(idle)}",
            remedy=f"interview it with --idle {self.min_idle_s:g}, or idle_s: {self.min_idle_s:g} in the plan",
        )

    def _coldest(self, usable: Sequence[Interviewed]) -> Interviewed | None:
        """The newest run with a cold start that counts as one."""
        return next(
            (
                one
                for one in reversed(usable)
                if one.idle_s is not None and one.idle_s >= self.min_idle_s and not isinstance(one.cold_s, Absent)
            ),
            None,
        )

    def _ledger(self, stay: Stay) -> Check:
        return looked_at(
            "ledger",
            "refused" if stay.ledger else "pass",
            f"there is a ledger to which lines were only ever added: {len(stay.incidents)} incidents, "
            f"{len(stay.spent)} notes of hours",
            role="admission",
            why=stay.ledger,
            remedy=f'drillmaster ledger open --job "{self.job}" --by NAME',
        )

    def _kept(self, stay: Stay) -> Check:
        silent_s = math.inf if stay.ledger_kept_ns is None else (stay.now_ns - stay.ledger_kept_ns) / 1e9
        ok = -_SKEW_S <= silent_s <= self.max_ledger_silence_s
        return looked_at(
            "ledger-kept",
            "pass" if ok else "refused",
            f"somebody wrote into it in the last {_span(self.max_ledger_silence_s)}",
            role="admission",
            observed=Exact(silent_s) if math.isfinite(silent_s) else Absent("nobody ever did"),
            limit=self.max_ledger_silence_s,
            unit="s",
            why="its last line is from the future" if silent_s < -_SKEW_S else "nobody knows whether nothing happened",
            remedy="drillmaster ledger add nothing --by NAME, or what happened",
        )

    # The criteria for leaving

    def _slow(self, stay: Stay) -> Check:
        cap = self.p95_budget_s * self.leave_over_budgets
        nights = [one for one in stay.runs if not one.unusable]
        each: list[Status] = ["refused" if one.lost else at_most(one.p95_s, cap) for one in nights]
        days = _by_day(nights, each)
        status: Status = "pass"
        if max(_in_a_row(each, {"fail"}), _in_a_row(days, {"fail"})) >= self.consecutive_runs:
            status = "fail"
        elif not each or _in_a_row(each, {"fail", "refused"}) >= self.consecutive_runs:
            status = "refused"
        last = ", ".join("lost" if one.lost else _shown(one.p95_s, "s") for one in nights[-4:])
        return looked_at(
            "p95",
            status,
            f"p95 at {self.level} over {cap:g} s ({self.leave_over_budgets:g} times its budget) in fewer than "
            f"{self.consecutive_runs} runs or days in a row (the last: {last or 'none'})",
            observed=Exact(max(_in_a_row(each, {"fail"}), _in_a_row(days, {"fail"})), n=len(each)),
            limit=self.consecutive_runs - 1,
            unit="runs",
            remedy="interview on: a night that measured nothing is no good one; where calls are cut, with a longer --timeout",
        )

    def _failing(self, usable: Sequence[Interviewed]) -> Check:
        observed = _of_newest_day(usable, lambda one: one.error_ratio, self.max_error_ratio)
        return looked_at(
            "error-rate",
            at_most(observed, self.max_error_ratio),
            f"errors after retries at most {share_text(self.max_error_ratio)} on the newest day (observed {_share(observed)})",
            observed=observed,
            limit=self.max_error_ratio,
            unit="ratio",
            remedy=f"interview it with {self.level}",
        )

    def _retries(self, usable: Sequence[Interviewed]) -> Check:
        most = max((one.max_attempts for one in usable), default=0)
        status: Status = "pass" if most <= self.max_attempts_per_call else "fail"
        return looked_at(
            "retries",
            status if usable else "refused",
            f"one call is sent {self.max_attempts_per_call} times at most (observed {most})",
            observed=Exact(most, n=len(usable)),
            limit=self.max_attempts_per_call,
            unit="attempts",
            remedy="interview it with the job's own retry policy",
        )

    def _drain(self, usable: Sequence[Interviewed], window_s: float) -> Check:
        cap = window_s * (1 + self.leave_over_window_ratio)
        observed = _of_newest_day(usable, lambda one: one.drain_s, cap)
        return looked_at(
            "drain",
            at_most(observed, cap),
            f"a batch is worked off in its window of {_span(window_s)} and {share_text(self.leave_over_window_ratio)} "
            f"more on the newest day (observed {_shown(observed, 's')})",
            observed=observed,
            limit=cap,
            unit="s",
            remedy="interview it with one realistic batch: --drain, or drain: in the plan",
        )

    def _incidents(self, stay: Stay) -> Check:
        recent = [one for one in stay.incidents if _in_month(stay, one.at_ns)]
        count = sum(one.cause == "capacity" for one in recent)
        unknown = sum(one.cause == "unknown" for one in recent)
        status: Status = "pass"
        if count >= self.leave_at_incidents:
            status = "fail"
        elif count + unknown >= self.leave_at_incidents:
            status = "refused"
        return looked_at(
            "capacity-incidents",
            status,
            f"fewer than {self.leave_at_incidents} incidents of capacity in 31 days (observed {count}, and {unknown} of unknown "
            "cause)",
            observed=Exact(count, n=len(recent)),
            limit=self.leave_at_incidents - 1,
            unit="incidents",
            why="with those of unknown cause there are enough" if status == "refused" else "",
            remedy="find out, then: drillmaster ledger add incident --settles LINE --cause capacity --by NAME",
        )

    def _hours(self, stay: Stay) -> Check:
        hours = math.fsum(one.hours for one in stay.spent if _in_month(stay, one.at_ns))
        cost = hours * self.hourly_cost
        return looked_at(
            "hours",
            at_most(Exact(cost), self.paid_tier_per_month),
            f"31 days of engineers' hours cost no more than a month of the paid tier, {self.paid_tier_per_month:g} "
            f"(observed {cost:g}: {hours:g} h at {self.hourly_cost:g})",
            observed=Exact(cost, n=len(stay.spent)),
            limit=self.paid_tier_per_month,
            remedy="mend the ledger's hours",
        )

    def _flags(self, stay: Stay, usable: Sequence[Interviewed]) -> Check:
        standing = set(stay.flags)
        if usable and usable[0].max_attempts <= 1 and usable[-1].max_attempts >= 3:
            standing.add("retries-grown")
        return looked_at(
            "red-flags",
            "fail" if len(standing) >= self.leave_at_red_flags else "pass",
            f"fewer than {self.leave_at_red_flags} red flags stand (observed {len(standing)})",
            observed=Exact(len(standing), n=len(get_args(Flag))),
            limit=self.leave_at_red_flags - 1,
            unit="flags",
            why="; ".join(FLAGS.get(one, one) for one in sorted(standing)),
        )


def _measured(stay: Stay) -> list[Interviewed]:
    return [one for one in stay.runs if not one.unusable and not one.lost]


def _span(seconds: float) -> str:
    """Write a span of hours or days as people say it."""
    if seconds >= 172_800 and seconds % 3600 == 0:
        return f"{seconds / 86_400:g} days"
    return f"{seconds / 3600:g} h" if seconds >= 7200 and seconds % 60 == 0 else seconds_text(seconds)


def _in_month(stay: Stay, at_ns: int) -> bool:
    return stay.now_ns - at_ns <= MONTH_S * 1e9


def _of_newest_day(usable: Sequence[Interviewed], of: Callable[[Interviewed], Measure], cap: float) -> Measure:
    """Find what the newest run measured, or one of its UTC day that was over the cap."""
    if not usable:
        return Absent("there is no interview")
    day = usable[-1].ended_ns // _DAY_NS
    measures = [of(one) for one in usable if one.ended_ns // _DAY_NS == day]
    return next((one for one in measures if at_most(one, cap) == "fail"), measures[-1])


def _by_day(runs: Sequence[Interviewed], each: Sequence[Status]) -> list[Status]:
    """Put the runs of one UTC day together: one that was over is not undone by one that was repeated until it was good."""
    days: dict[int, set[Status]] = {}
    for one, status in zip(runs, each, strict=True):
        days.setdefault(one.ended_ns // _DAY_NS, set()).add(status)
    return ["fail" if "fail" in found else "pass" if "pass" in found else "refused" for found in days.values()]


def _in_a_row(each: Sequence[Status], which: set[Status]) -> int:
    """The longest run of statuses that are all of `which`."""
    longest = now = 0
    for one in each:
        now = now + 1 if one in which else 0
        longest = max(longest, now)
    return longest


def _shown(measure: Measure, unit: str) -> str:
    match measure:
        case Exact(value=value):
            return f"{value:.4g} {unit}"
        case AtLeast(value=value):
            return f"at least {value:.4g} {unit}"
        case AtMost(value=value):
            return f"at most {value:.4g} {unit}"
    return "none"


def _share(measure: Measure) -> str:
    return share_text(measure.value) if isinstance(measure, Exact) else "none"


def _day(usable: Sequence[Interviewed], at: int) -> str:
    return rfc3339(usable[at].ended_ns, digits=0)[:10] if usable else "never"


gate = FreeTier
