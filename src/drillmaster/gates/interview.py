"""The interview gate: in what shape does the endpoint answer, and is that what somebody signed for?

Rules, in the order the checks are listed:

1. Admissions. Every level that was run has a threshold, and every threshold a level that was run; each has calls, in an order
   that can be; the client could hold it. A call may take longer than any limit, or it would be cut before it broke one: then
   nothing passes, and what failed all the same fails.
2. The cold call was answered, within its limit.
3. Latency counts from when a call was due. Failed calls lower none; one that was cut took at least so long. So it is with any
   other time of a call.
4. Failed calls have a limit of their own, level by level, in all and by kind. So have the calls that keep an SLO, what is spent,
   and the time that a batch takes. All that is counted is judged as it was. Where calls failed and are in no latency, a limit
   has to say how many may: nine calls that are refused at once make the tenth no quicker.
5. `decide: observed` judges what was seen, as the article's script does, and says beside it what so few calls support.
   `decide: bound` judges the 95 % upper bound, the larger of those by single calls and by blocks of `block_s`, and refuses where
   there is none. The bounds of shares take each call for an independent one, and say so.
6. A limit of which the client's own share may be a visible part is not passed.
"""

import math
from collections.abc import Iterator
from itertools import pairwise
from typing import Annotated, Literal

import msgspec

from drillmaster.deciding import BudgetNote, Caps, Decision, DecisionLimits, decide
from drillmaster.gates import Gate
from drillmaster.gates._interview_counts import again, apdex, cost, drained, goodput, shown, unlimited
from drillmaster.gates._interview_limits import Apdex, Goodput, LevelLimits, Slo, kinds_match
from drillmaster.interviews import QUANTILES, Bound, Interview, Level, Time, authors_called, limit_name
from drillmaster.policy import seconds_text, share_text
from drillmaster.stats import calls_for_rate, rate_bound, samples_for_bound
from drillmaster.verdict import Absent, AtLeast, Check, Exact, Measure, Status, at_most

__all__ = ["Apdex", "Goodput", "InterviewGate", "LevelLimits", "Slo", "gate"]

_Seconds = Annotated[float, msgspec.Meta(gt=0, le=86_400)]
_CONFIDENCE = 0.95
_VISIBLE = 0.1
_CHANCE = 1.6
"""Of so many calls a block, made at random times, six in ten of the blocks have one; of calls in turn more do."""
_SHORT_S = 1.0
"""A level that is over sooner is begun and ended for a visible part of its time."""
_WORDS: dict[Time, str] = {
    "latency": "",
    "service": "service time ",
    "ttfb": "first byte ",
    "ttft": "first token ",
    "itl": "gap between tokens ",
    "tpot": "mean gap a stream ",
    "connect": "connecting ",
    "tls": "TLS handshake ",
    "late": "sent late ",
}


class InterviewGate(Gate[Interview], frozen=True, kw_only=True, tag="interview"):
    """In what shape an endpoint answers: cold, and level by level of a ladder, against thresholds that somebody signed.

    Happens: after a time without calls one call, then so many callers at once, then more; no fault is injected.
    Breaks: jobs on a path that is fine for one caller and not for four; a cold start that is longer than a client waits.
    Looks like: a latency and a share of errors for each level, each against its limit; `BREACH: none`, or what is over.
    Cannot show: another day, another place, another payload; whether the answers were good.

    `levels` names each level by its label (`warm_c1`, `warm_c4`, `open_r20`, `drain`) and gives at least one limit: on a
    quantile of a time (`p95_s`, `max_s`, `ttft_p95_s`, `itl_p99.9_s`; times are latency, `service`, `ttfb`, `ttft`, `itl`,
    `tpot`, `connect`, `tls`, `late`, quantiles `p50 p75 p90 p95 p99 p99.9 max`), `error_rate` (0 to under 1), `error_rates` by
    kind, `drain_s`, `goodput`, `apdex`, `max_requests`, `max_tokens`, `min_tokens_per_s`, `min_calls_per_s`. A level with
    failed calls is refused where none of them says how many may fail. The article's `gate.json` is read as it is. `decision`
    (optional) says which kinds of jobs a pass is for, by `interactive_p95_s`, `degrading_ratio` and `cold_near_timeout_ratio`;
    its `budget` holds `allowance`, `read_on` and `url` of the operator's terms. It changes no verdict.
    """

    decide: Literal["observed", "bound"]
    """Whether what was seen decides, or what the sample bounds at 95 %."""
    block_s: Annotated[float, msgspec.Meta(ge=0.001, le=86_400)] | msgspec.UnsetType = msgspec.UNSET
    """Several times as long as the endpoint's stalls: calls of one such block of time count as one. `bound` needs it."""
    cold_max_s: _Seconds
    levels: dict[str, LevelLimits]
    min_idle_s: _Seconds | msgspec.UnsetType = msgspec.UNSET
    """How long nobody may have called before the cold call; without it any idle time is cold enough."""
    max_age_s: Annotated[float, msgspec.Meta(gt=0, le=366 * 86_400)] | msgspec.UnsetType = msgspec.UNSET
    """How old an interview may be when it is judged; without it any age is."""
    url: str | msgspec.UnsetType = msgspec.UNSET
    """The endpoint, without user info and query; without it any endpoint's interview is judged."""
    payload_sha256: str | msgspec.UnsetType = msgspec.UNSET
    """Digest of what was asked, as manifest and `interview.json` have it; without it any payload's is."""
    decision: DecisionLimits | msgspec.UnsetType = msgspec.UNSET
    """What earns which kinds of jobs; without it a pass is for the interviewed job alone. It changes no verdict."""

    def __post_init__(self) -> None:
        if self.decide == "bound" and self.block_s is msgspec.UNSET:
            raise ValueError(
                "a line `block_s: 5` beside `decide: bound`: seconds, several times as long as a stall of the endpoint, since "
                "calls in one stall are not independent"
            )
        if not self.levels:
            raise ValueError("`levels` with a limit for each level that is run: there is none")
        if "cold" in self.levels:
            raise ValueError("no `cold` among `levels`: the cold call is limited by cold_max_s alone")

    def checks(self, evidence: Interview) -> Iterator[Check]:
        interview = evidence
        yield self._complete(interview)
        if interview.reader:
            yield _apart(interview.reader, interview.authors)
        yield from self._meant(interview)
        yield from self._usable(interview)
        yield from self._cuttable(interview)
        if self.min_idle_s is not msgspec.UNSET:
            yield _idle(interview.idle_s, self.min_idle_s)
        cold = interview.level("cold")
        if cold is not None:
            yield self._cold(cold)
        for label, limits in self.levels.items():
            level = interview.level(label)
            if level is not None and level.n:
                yield from self._level(level, limits)

    def headline(self, evidence: Interview) -> tuple[str, ...]:
        way = "what was observed"
        if self.decide == "bound":
            way = f"the 95 % upper bound of what was observed, by calls and by blocks of {self.block_s:g} s"
        return (f"{evidence.url}: {len(evidence.levels)} levels, judged by {way}",)

    def breaches(self, evidence: Interview) -> list[str]:
        """What is over its limit, in the article's words."""
        found = []
        for check in self.checks(evidence):
            if check.role == "judgement" and check.status == "fail":
                label = next(
                    (one for one in self.levels if check.id.startswith(f"{one}.")), ""
                )  # open_r0.5 has a dot too
                what = f"{label} {check.id[len(label) + 1 :]}" if label else check.id
                found.append(f"{what} {_seen(check)}")
        return found

    def foreseen(self, labels: tuple[str, ...], time_limit_s: float) -> list[Check]:
        """What of a plan will be refused whatever comes of it; `labels` are its levels', the cold call's among them."""
        levels = tuple(Level(label=label, kind="cold" if label == "cold" else "closed", n=1) for label in labels)
        planned = Interview(name="", url="", declared=labels, levels=levels, time_limit_s=time_limit_s)
        return [check for check in (self._complete(planned), *self._cuttable(planned)) if check.status != "pass"]

    def wants(self) -> dict[str, tuple[int, float]]:
        """How many calls, over how long a time, the bounds of each level take; 0: none is signed. Empty: what is seen decides."""
        wanted: dict[str, tuple[int, float]] = {}
        if self.decide == "observed":
            return wanted
        for label, limits in self.levels.items():
            names = [name for _, name in limits.times() if name != "max"]
            bounds = [Level(label=label, kind="closed", n=0).bound("latency", n, block_s=self._block_s) for n in names]
            shares = [cap for cap in (limits.error_rate,) if cap is not msgspec.UNSET and cap > 0]
            calls = [bound.calls for bound in bounds] + [calls_for_rate(cap) for cap in shares]
            wanted[label] = (max(calls, default=0), max((bound.seconds or 0.0 for bound in bounds), default=0.0))
        return wanted

    @property
    def _block_s(self) -> float | None:
        return None if self.block_s is msgspec.UNSET else self.block_s

    def decide_jobs(
        self, evidence: Interview, status: Status, *, measured_from: str = "", budget: BudgetNote | None = None
    ) -> Decision:
        """Say which kinds of jobs the verdict on this interview is for."""
        caps = {
            label: Caps(
                p95_s=limits.latencies().get("p95_s"),
                error_rate=None if limits.error_rate is msgspec.UNSET else limits.error_rate,
            )
            for label, limits in self.levels.items()
        }
        return decide(
            evidence,
            None if self.decision is msgspec.UNSET else self.decision,
            caps,
            status=status,
            by_bound=self.decide == "bound",
            block_s=self._block_s,
            measured_from=measured_from,
            budget=budget,
        )

    # Admissions

    def _complete(self, interview: Interview) -> Check:
        labels = [level.label for level in interview.levels]
        wrong = [
            f"{label} stands {labels.count(label)} times" for label in dict.fromkeys(labels) if labels.count(label) > 1
        ]
        wrong += [f"no threshold for {label}" for label in labels if label != "cold" and label not in self.levels]
        wrong += [f"{label} has a threshold and was not run" for label in self.levels if label not in labels]
        wrong += [f"{label} was to be run and is not there" for label in interview.declared if label not in labels]
        wrong += [] if "cold" in labels else ["no cold call"]
        wrong += [] if any(label != "cold" for label in labels) else ["no level beside the cold call"]
        return Check(
            id="complete",
            role="admission",
            status="refused" if wrong else "pass",
            title=f"every level has its threshold, and every threshold its level: {len(labels)} levels",
            observed=Exact(len(labels)),
            why="; ".join(dict.fromkeys(wrong)),
            remedy=self._whole(planned={*labels, "cold", *self.levels} == {*interview.declared}) if wrong else "",
        )

    def _whole(self, *, planned: bool) -> str:
        if planned:  # each as it is signed, and not all of them came
            return "run the interview again, to its end"
        signed = ",".join(label.removeprefix("warm_c") for label in self.levels if label.startswith("warm_c"))
        return (
            "run the interview again with just the levels that are signed, or sign the others before: "
            f"drillmaster interview URL --levels {signed}, or levels: [{signed}] in the plan"
        )

    def _meant(self, interview: Interview) -> Iterator[Check]:
        """Whether it is the interview that the thresholds are for."""
        again = f"drillmaster interview {interview.url if self.url is msgspec.UNSET else self.url}, and judge that run"
        if self.max_age_s is not msgspec.UNSET:
            age_s = interview.age_s
            yield Check(
                id="fresh",
                role="admission",
                status="pass" if age_s is not None and age_s <= self.max_age_s else "refused",
                title=f"the interview is at most {seconds_text(self.max_age_s)} old",
                observed=Absent("the evidence does not say when it was taken") if age_s is None else Exact(age_s),
                limit=self.max_age_s,
                unit="s",
                remedy="" if age_s is not None and age_s <= self.max_age_s else again,
            )
        for field, wanted, found in (
            ("url", self.url, interview.url),
            ("payload", self.payload_sha256, interview.payload_sha256),
        ):
            if wanted is not msgspec.UNSET:
                yield Check(
                    id=field,
                    role="admission",
                    status="pass" if found == wanted else "refused",
                    title=f"the interview is of the {field} that is signed",
                    why="" if found == wanted else f"found {found or 'none'}, wanted {wanted}",
                    remedy="" if found == wanted else again,
                )

    def _usable(self, interview: Interview) -> Iterator[Check]:
        for level in interview.levels:
            wrong = list(level.void)
            if level.n < 1:
                wrong.append("no call was made")
            elif level.failures > level.n:
                wrong.append(f"{level.failures} failures of {level.n} calls")
            wrong += _disorder(level)
            if wrong:
                yield Check(
                    id=f"{level.label}.usable",
                    role="admission",
                    status="refused",
                    title=f"{level.label} can be judged",
                    observed=Exact(level.n),
                    why="; ".join(wrong),
                    remedy=_again(level),
                )

    def _cuttable(self, interview: Interview) -> Iterator[Check]:
        """A limit at or above the time limit of a call can never be broken: whatever hangs is cut before."""
        limit_s = interview.time_limit_s
        if limit_s is None:
            return
        caps = {"cold_max_s": self.cold_max_s}
        for label, limits in self.levels.items():
            caps |= {f"{label}.{limit_name(*key)}": value for key, value in limits.times().items()}
            if limits.goodput is not msgspec.UNSET:
                caps |= {f"{label}.goodput.slo.{time}_s": span for time, span in limits.goodput.slo.within().items()}
        blind = [f"{name} {cap:g} s" for name, cap in caps.items() if cap >= limit_s]
        if blind:
            yield Check(
                id="time-limit",
                role="judgement",  # what did break a limit did so all the same: a failure outranks it, and no pass does
                status="refused",
                title=f"calls are given longer than any limit: {limit_s:g} s",
                observed=Exact(limit_s),
                why=f"{', '.join(blind)}: a call is cut before it can be over that",
                remedy=f"run with --timeout {2 * max(caps.values()):g}, or sign lower limits",
            )

    # Judgements

    def _cold(self, cold: Level) -> Check:
        observed = cold.latency("max")
        if cold.failures:
            kinds = ", ".join(f"{count} {kind}" for kind, count in cold.failed.items())
            return Check(
                id="cold",
                role="judgement",
                status="fail",
                title=f"the cold call was answered within {self.cold_max_s:g} s (observed: it failed)",
                observed=observed,
                limit=self.cold_max_s,
                unit="s",
                why=kinds,
            )
        return Check(
            id="cold",
            role="judgement",
            status=at_most(observed, self.cold_max_s),
            title=f"the cold call was answered within {self.cold_max_s:g} s (observed {shown(observed)})",
            observed=observed,
            limit=self.cold_max_s,
            unit="s",
            remedy=again(observed),
        )

    def _level(self, level: Level, limits: LevelLimits) -> Iterator[Check]:
        for (time, name), cap in limits.times().items():
            yield self._time(level, time, name, cap)
        if limits.error_rate is not msgspec.UNSET:
            yield self._errors(level, level.failures, limits.error_rate)
        for kind, cap in limits.error_rates.items() if limits.error_rates is not msgspec.UNSET else ():
            failures = sum(count for found, count in level.failed.items() if kinds_match(kind, found))
            yield self._errors(level, failures, cap, kind)
        yield from unlimited(level, limits)
        if limits.drain_s is not msgspec.UNSET:
            yield drained(level, limits.drain_s)
        if limits.goodput is not msgspec.UNSET:
            yield from goodput(level, limits.goodput, by_bound=self.decide == "bound")
        if limits.apdex is not msgspec.UNSET:
            yield apdex(level, limits.apdex)
        yield from cost(level, limits)

    def _time(self, level: Level, time: Time, name: str, cap: float) -> Check:
        observed = level.measure(time, name)
        status, remedy = at_most(observed, cap), again(observed)
        if isinstance(observed, Absent) and level.ok_s is None:
            remedy = "judge the run's folder, which holds every call: drillmaster gate interview RUN --policy FILE"
        bound = None
        if name != "max" and isinstance(observed, Exact | AtLeast) and level.ok_s is not None:
            bound = level.bound(time, name, block_s=self._block_s)
        if (
            self.decide == "bound" and name != "max" and status != "fail" and not isinstance(observed, Absent)
        ):  # the largest of all there were is a census
            if bound is None or bound.value is None:
                status, remedy = "refused", _more(bound, level) or remedy
            elif bound.value > cap:
                status = "fail"
            elif isinstance(observed, Exact):
                status = "pass"
        if bound is not None and isinstance(observed, Exact):
            high = bound.value if bound.value is not None and math.isfinite(bound.value) else None
            observed = msgspec.structs.replace(observed, high=high)
        judged = observed.value if isinstance(observed, Exact) else None
        if self.decide == "bound" and bound is not None and bound.value is not None:
            judged = bound.value
        why = _own(level, time, name, cap, judged, status)
        if why:
            status = "refused"
            remedy = "run the interview from a machine with room to spare: drillmaster interview --self-test"
        field = limit_name(time, name).removesuffix("_s")
        return Check(
            id=f"{level.label}.{field}",
            role="judgement",
            status=status,
            title=f"{level.label} {_WORDS[time]}{name} at most {cap:g} s (observed {shown(observed)}, "
            f"n {level.n if time == 'latency' or isinstance(observed, Absent) else observed.n}"
            f"{_support(observed, name, bound, by_bound=self.decide == 'bound')})",
            observed=observed,
            limit=cap,
            unit="s",
            why=why,
            remedy=remedy if status == "refused" else "",
        )

    def _errors(self, level: Level, failures: int, cap: float, kind: str = "") -> Check:
        rate = failures / level.n
        bound = rate_bound(failures, level.n)
        status: Status = "fail" if rate > cap + 1e-12 else "pass"
        kinds = ", ".join(f"{count} {found}" for found, count in level.failed.items() if count)
        support = f"95 % sure only of {share_text(bound)}"
        remedy = ""
        if cap > 0 and bound > cap and failures == 0:
            support += f", {calls_for_rate(cap)} calls without a failure would do"
        if self.decide == "bound":
            support += ", if each fails on its own: of failures that come in bursts it says less"
        if self.decide == "bound" and status == "pass" and cap > 0 and bound > cap:
            status, remedy = "refused", f"make {calls_for_rate(cap)} calls at this level or more"
        return Check(
            id=f"{level.label}.errors" + (f".{kind}" if kind else ""),
            role="judgement",
            status=status,
            title=f"{level.label} errors {f'of {kind} ' if kind else ''}at most {share_text(cap)} (observed {share_text(rate)}: "
            f"{failures} of {level.n}; {support})",
            observed=Exact(rate, n=level.n, high=bound),
            limit=cap,
            unit="ratio",
            why=kinds,
            remedy=remedy,
        )


def _apart(reader: str, authors: tuple[str, ...] | None) -> Check:
    """Admit a Reader who wrote nothing of what was run. Where git does not say who did, that is told and not held against them."""
    same = authors_called(authors or (), reader)
    return Check(
        id="reader",
        role="admission",
        status="refused" if same else "pass",
        title="the Reader is nobody who wrote the plan or its payloads"
        if authors
        else "git does not say who wrote the plan and its payloads: that the Reader did not is their word",
        why=f"{reader} is {same[0]}" if same else "",
        remedy="give the Reader's seat to somebody else, seats.reader of the plan, and run the interview again"
        if same
        else "",
    )


def _idle(idle_s: float | None, least_s: float) -> Check:
    """Admit a cold call that came after as long a silence as the policy calls cold."""
    ok = idle_s is not None and idle_s >= least_s
    return Check(
        id="idle",
        role="admission",
        status="pass" if ok else "refused",
        title=f"nobody called for {least_s:g} s before the cold call"
        + ("" if idle_s is None else f" (observed {idle_s:.4g} s)"),
        observed=Absent("the evidence does not say how long nobody called") if idle_s is None else Exact(idle_s),
        limit=least_s,
        unit="s",
        remedy="" if ok else f"run the interview again with --idle {least_s:g}",
    )


def _disorder(level: Level) -> list[str]:
    known = [(name, level.known[name]) for name in ("p50", "p95", "max") if name in level.known]
    wrong = [f"{name} {value:g} s" for name, value in known if not (math.isfinite(value) and value >= 0)]
    wrong += [f"{a} {x:g} s is over {b} {y:g} s" for (a, x), (b, y) in pairwise(known) if x > y]
    return wrong


def _again(level: Level) -> str:
    """How to come by a level that can be judged."""
    if not level.void:
        return "run the interview again"
    if any(why.startswith("it was stopped") for why in level.void):
        return "run the interview again, to its end"
    if level.kind == "closed" and level.seconds is not None and level.seconds < _SHORT_S:
        return (
            f"let the level last longer than {level.seconds:.2g} s, in which all callers are hardly there: --seconds 5, or "
            "seconds: 5 in the plan"
        )
    return "run the interview again from a machine with room to spare: drillmaster interview --self-test"


def _own(level: Level, time: Time, name: str, cap: float, judged: float | None, status: Status) -> str:
    """Why the client's own share forbids a verdict on a limit; empty: it does not. At the far end one long turn is all it takes."""
    own_s = level.longest_turn_s if name in ("p99.9", "max") else level.client_s
    if time == "late" or own_s is None or judged is None:
        return ""
    said = f"up to {own_s * 1e3:.3g} ms of it may be the client's own"
    if status == "pass" and own_s > _VISIBLE * cap:
        return f"{said}, a visible part of {cap:g} s"
    return f"{said}, and without it the limit may be kept" if status == "fail" and judged - own_s <= cap else ""


def _more(bound: Bound | None, level: Level) -> str:
    """What would make a bound of too little."""
    if bound is None:
        return "judge the run's folder: a file of rows holds no calls that could be counted by blocks of time"
    if level.kind == "drain" and bound.short:
        return "sign drain_s or max_s for the drain: one batch is due at once, and bounds no quantile of others"
    wanted = []
    if bound.few:
        wanted.append(f"make {bound.calls} calls at this level or more")
    if bound.short and bound.seconds is not None:
        wanted.append(
            f"let this level run for {seconds_text(bound.seconds)} or longer, with a call in each block: "
            + ("a longer --open, or seconds of that stage" if level.kind == "open" else _lasting(bound, level))
        )
    return ", and ".join(wanted)


def _lasting(bound: Bound, level: Level) -> str:
    """What has a level of callers last so long: a plan's `warm` ends it before its `seconds` do.

    Calls that are rarer than blocks leave some without one: then it takes as long as so many calls do, and more for chance.
    """
    assert bound.seconds is not None and bound.blocks is not None
    call_s = (level.seconds or 0.0) / level.n
    seconds = max(bound.seconds, _rounded_up(_CHANCE * bound.blocks * call_s, digits=2))
    most = _rounded_up(max(bound.calls, level.n, 2 * seconds / (call_s or seconds)), digits=1)
    return (
        f"--seconds {seconds:g} --warm {most:.0f}, or seconds: {seconds:g} and warm: {most:.0f} in the plan (the most calls that "
        "it makes in that time)"
    )


def _rounded_up(value: float, *, digits: int) -> float:
    if value <= 0:
        return 0.0
    power = math.floor(math.log10(value)) + 1 - digits
    return math.ceil(round(value / 10.0**power, 6)) * 10.0**power


def _sure(seconds: float) -> str:
    return f"{seconds:.3g} s" if math.isfinite(seconds) else "what cut calls would have taken"


def _support(observed: Measure, name: str, bound: Bound | None, *, by_bound: bool) -> str:
    """Say what so many calls over so long a time can support, to follow what was observed, and which bound decides."""
    if not isinstance(observed, Exact) or name == "max":
        return ""
    q, n = QUANTILES[name], observed.n or 0
    if bound is not None and bound.by_calls is not None:
        if bound.blocks is None or bound.seconds is None:
            return f"; 95 % sure only of {_sure(bound.by_calls)}"
        block = f"by blocks of {bound.seconds / bound.blocks:g} s"
        if bound.by_blocks is None:
            wanted = f"{block} so short a time bounds nothing, {seconds_text(bound.seconds)} would do for 95 %"
            return f"; 95 % sure only of {_sure(bound.by_calls)} by calls, and {wanted}"
        if bound.by_calls == bound.by_blocks:
            return f"; 95 % sure only of {_sure(bound.by_calls)}, by calls and {block} alike"
        ways = [(bound.by_calls, "by calls"), (bound.by_blocks, block)]
        (_, less), (most, more) = sorted(ways, key=lambda way: way[0])
        low = _sure(min(bound.by_calls, bound.by_blocks))
        return f"; 95 % sure only of {low} {less} and of {_sure(most)} {more}{', which decides' if by_bound else ''}"
    return f"; the largest of so few bounds it with {1 - q**n:.0%}, {samples_for_bound(q)} calls would do for 95 %"


def _seen(check: Check) -> str:
    observed = check.observed
    if isinstance(observed, Absent) or observed is None:
        return "failed"
    return f"{observed.value:.4g}" + ("s" if check.unit == "s" else "")


gate = InterviewGate
