"""The interview gate: in what shape does the endpoint answer, and is that what somebody signed for?

Rules, in the order the checks are listed:

1. Admissions. Every level that was run has a threshold, and every threshold a level that was run; each has calls, in an order
   that can be; the client could hold it; a call may take longer than any limit, or it would be cut before it broke one.
2. The cold call was answered, within its limit.
3. Latency counts from when a call was due. Failed calls lower none; one that was cut took at least so long.
4. Failed calls have a limit of their own, level by level.
5. `decide: observed` judges what was seen, as the article's script does, and says beside it what so few calls support.
   `decide: bound` judges the 95 % upper bound, and refuses where there is none.
"""

import math
from collections.abc import Iterator
from itertools import pairwise
from typing import Annotated, Literal

import msgspec

from drillmaster.deciding import BudgetNote, Caps, Decision, DecisionLimits, decide
from drillmaster.gates import Gate
from drillmaster.interviews import Interview, Level, quantile_name
from drillmaster.policy import share_text
from drillmaster.stats import calls_for_rate, rate_bound, samples_for_bound
from drillmaster.verdict import Absent, AtLeast, Check, Exact, Measure, Status, at_most

__all__ = ["InterviewGate", "LevelLimits", "gate"]

_Seconds = Annotated[float, msgspec.Meta(gt=0, le=86_400)]
_CONFIDENCE = 0.95


class LevelLimits(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What one level may cost. At least one of them; those that are left out judge nothing."""

    p50_s: _Seconds | msgspec.UnsetType = msgspec.UNSET
    p95_s: _Seconds | msgspec.UnsetType = msgspec.UNSET
    p99_s: _Seconds | msgspec.UnsetType = msgspec.UNSET
    max_s: _Seconds | msgspec.UnsetType = msgspec.UNSET
    error_rate: Annotated[float, msgspec.Meta(ge=0, lt=1)] | msgspec.UnsetType = msgspec.UNSET
    """Share of calls without a good answer: 0.05, not 5."""

    def __post_init__(self) -> None:
        if not self.latencies() and self.error_rate is msgspec.UNSET:
            raise ValueError("no limit: give p95_s, error_rate or another")

    def latencies(self) -> dict[str, float]:
        """The limits in seconds that are set, by field."""
        given = {field: getattr(self, field) for field in ("p50_s", "p95_s", "p99_s", "max_s")}
        return {field: value for field, value in given.items() if value is not msgspec.UNSET}


class InterviewGate(Gate[Interview], frozen=True, kw_only=True, tag="interview"):
    """In what shape an endpoint answers: cold, and level by level of a ladder, against thresholds that somebody signed.

    Happens: after a time without calls one call, then so many callers at once, then more; no fault is injected.
    Breaks: jobs on a path that is fine for one caller and not for four; a cold start that is longer than a client waits.
    Looks like: a latency and a share of errors for each level, each against its limit; `BREACH: none`, or what is over.
    Cannot show: another day, another place, another payload; whether the answers were good.

    `levels` names each level by its label (`warm_c1`, `warm_c4`, `open_r20`, `drain`) and gives at least one of `p50_s`, `p95_s`,
    `p99_s`, `max_s` (seconds) and `error_rate` (0 to under 1). The article's `gate.json` is read as it is. `decision` (optional)
    says which kinds of jobs a pass is for, by `interactive_p95_s`, `degrading_ratio` and `cold_near_timeout_ratio`; its `budget`
    holds `allowance`, `read_on` and `url` of the operator's terms. It changes no verdict.
    """

    decide: Literal["observed", "bound"]
    """Whether what was seen decides, or what the sample bounds at 95 %."""
    cold_max_s: _Seconds
    levels: dict[str, LevelLimits]
    min_idle_s: _Seconds | msgspec.UnsetType = msgspec.UNSET
    """How long nobody may have called before the cold call; without it any idle time is cold enough."""
    decision: DecisionLimits | msgspec.UnsetType = msgspec.UNSET
    """What earns which kinds of jobs; without it a pass is for the interviewed job alone. It changes no verdict."""

    def __post_init__(self) -> None:
        if not self.levels:
            raise ValueError("levels: found none, wanted a limit for each level that is run")
        if "cold" in self.levels:
            raise ValueError("levels.cold: the cold call is limited by cold_max_s alone")

    def checks(self, evidence: Interview) -> Iterator[Check]:
        interview = evidence
        yield self._complete(interview)
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
        way = "what was observed" if self.decide == "observed" else "the 95 % upper bound of what was observed"
        return (f"{evidence.url}: {len(evidence.levels)} levels, judged by {way}",)

    def breaches(self, evidence: Interview) -> list[str]:
        """What is over its limit, in the article's words."""
        found = []
        for check in self.checks(evidence):
            if check.role == "judgement" and check.status == "fail":
                found.append(f"{check.id.replace('.', ' ')} {_seen(check)}")
        return found

    def decide_jobs(
        self, evidence: Interview, status: Status, *, measured_from: str = "", budget: BudgetNote | None = None
    ) -> Decision:
        """Say which kinds of jobs the verdict on this interview is for."""
        caps = {
            label: Caps(
                p95_s=None if limits.p95_s is msgspec.UNSET else limits.p95_s,
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
            remedy="run the interview again with just the levels that are signed: drillmaster interview URL --levels "
            + ",".join(label.removeprefix("warm_c") for label in self.levels if label.startswith("warm_c"))
            if wrong
            else "",
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
                    remedy="run the interview again"
                    + (" from a machine with room to spare: drillmaster interview --self-test" if level.void else ""),
                )

    def _cuttable(self, interview: Interview) -> Iterator[Check]:
        """A limit at or above the time limit of a call can never be broken: whatever hangs is cut before."""
        limit_s = interview.time_limit_s
        if limit_s is None:
            return
        caps = {"cold_max_s": self.cold_max_s}
        for label, limits in self.levels.items():
            caps |= {f"{label}.{field}": value for field, value in limits.latencies().items()}
        blind = [f"{name} {cap:g} s" for name, cap in caps.items() if cap >= limit_s]
        if blind:
            yield Check(
                id="time-limit",
                role="admission",
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
            status=_over(observed, self.cold_max_s),
            title=f"the cold call was answered within {self.cold_max_s:g} s (observed {_shown(observed)})",
            observed=observed,
            limit=self.cold_max_s,
            unit="s",
            remedy=_again(observed),
        )

    def _level(self, level: Level, limits: LevelLimits) -> Iterator[Check]:
        for field, cap in limits.latencies().items():
            yield self._latency(level, quantile_name(field), cap)
        if limits.error_rate is not msgspec.UNSET:
            yield self._errors(level, limits.error_rate)

    def _latency(self, level: Level, name: str, cap: float) -> Check:
        observed = level.latency(name)
        support = _support(observed, name)
        status = _over(observed, cap)
        remedy = _again(observed)
        if self.decide == "bound" and status != "fail" and isinstance(observed, Exact):
            if name == "max":
                pass  # the largest of all there were: a census
            elif observed.high is None:
                status, remedy = "refused", f"make {samples_for_bound(_q(name))} calls at this level or more"
            elif observed.high > cap:
                status = "fail"
        return Check(
            id=f"{level.label}.{name}",
            role="judgement",
            status=status,
            title=f"{level.label} {name} at most {cap:g} s (observed {_shown(observed)}, n {level.n}{support})",
            observed=observed,
            limit=cap,
            unit="s",
            remedy=remedy if status == "refused" else "",
        )

    def _errors(self, level: Level, cap: float) -> Check:
        rate = level.failures / level.n
        bound = rate_bound(level.failures, level.n)
        status: Status = "fail" if rate > cap + 1e-12 else "pass"
        kinds = ", ".join(f"{count} {kind}" for kind, count in level.failed.items() if count)
        support = f"95 % sure only of {share_text(bound)}"
        remedy = ""
        if cap > 0 and bound > cap and level.failures == 0:
            support += f", {calls_for_rate(cap)} calls without a failure would do"
        if self.decide == "bound" and status == "pass" and cap > 0 and bound > cap:
            status, remedy = "refused", f"make {calls_for_rate(cap)} calls at this level or more"
        return Check(
            id=f"{level.label}.errors",
            role="judgement",
            status=status,
            title=f"{level.label} errors at most {share_text(cap)} (observed {share_text(rate)}: {level.failures} of {level.n}; "
            f"{support})",
            observed=Exact(rate, n=level.n, high=bound),
            limit=cap,
            unit="ratio",
            why=kinds,
            remedy=remedy,
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


def _over(observed: Measure, cap: float) -> Status:
    return at_most(observed, cap)


def _support(observed: Measure, name: str) -> str:
    """Say what so many calls can support, to follow what was observed."""
    if not isinstance(observed, Exact) or name == "max":
        return ""
    q = _q(name)
    n = observed.n or 0
    if observed.high is not None:
        return f"; 95 % sure only of {observed.high:.3g} s"
    return f"; the largest of so few bounds it with {1 - q**n:.0%}, {samples_for_bound(q)} calls would do for 95 %"


def _q(name: str) -> float:
    return int(name[1:]) / 10.0 ** (len(name) - 1)


def _shown(observed: Measure) -> str:
    if isinstance(observed, Absent):
        return observed.why
    at_least = "at least " if isinstance(observed, AtLeast) else ""
    return f"{at_least}{observed.value:.4g} s"


def _seen(check: Check) -> str:
    observed = check.observed
    if isinstance(observed, Absent) or observed is None:
        return "failed"
    return f"{observed.value:.4g}" + ("s" if check.unit == "s" else "")


def _again(observed: Measure) -> str:
    if isinstance(observed, Absent):
        return "see that the endpoint answers, and run the interview again"
    return "give calls a longer --timeout, and run the interview again" if isinstance(observed, AtLeast) else ""


gate = InterviewGate
