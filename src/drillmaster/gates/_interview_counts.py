"""What of a level is counted and not bounded: drain, goodput, Apdex, cost. Checks of the interview gate."""

import math
from collections.abc import Iterator

import msgspec

from drillmaster.gates._interview_limits import Apdex, Goodput, LevelLimits, kinds_match
from drillmaster.interviews import Level
from drillmaster.policy import share_text
from drillmaster.stats import calls_for_rate, rate_bound
from drillmaster.verdict import Absent, AtLeast, Check, Exact, Measure, Status, at_most

__all__ = ["again", "apdex", "cost", "drained", "goodput", "shown", "unlimited"]

_CUT = ("timeout", "stopped", "dropped")
"""What stays among the latencies, as "at least"."""
_BEGUN = frozenset({"timeout", "stopped", "cut", "unfinished", "error_body"})
"""Failures of calls for which the endpoint may have worked, and may ask to be paid."""
_SMALL_GROUP = 100
"""Of fewer calls an Apdex is marked with a star, as its specification has it."""


def drained(level: Level, cap: float) -> Check:
    seconds = level.seconds
    observed: Measure
    if level.kind != "drain":
        observed = Absent("it is no drain: its calls were not due at once")
    elif seconds is None:
        observed = Absent("the evidence does not say when its calls ended")
    else:
        observed = AtLeast(seconds, level.n) if level.cut_s else Exact(seconds, level.n)
    status = at_most(observed, cap)
    return Check(
        id=f"{level.label}.drain",
        role="judgement",
        status=status,
        title=f"{level.label} is worked off within {cap:g} s (observed {shown(observed)}, {level.n} calls, "
        f"{level.failures} failed)",
        observed=observed,
        limit=cap,
        unit="s",
        remedy=(again(observed) if seconds is not None else "sign drain_s for the drain alone")
        if status == "refused"
        else "",
    )


def unlimited(level: Level, limits: LevelLimits) -> Iterator[Check]:
    """Refuse a level with failures that lowered no latency, and of which no limit says how many there may be."""
    kept = msgspec.UNSET if limits.goodput is msgspec.UNSET else limits.goodput.min_ratio
    if any(one is not msgspec.UNSET for one in (limits.error_rate, limits.apdex, kept)):
        return
    signed = {} if limits.error_rates is msgspec.UNSET else limits.error_rates
    cut = len(level.cut_s)
    found = {}
    for kind, count in level.failed.items():
        left = count - min(count, cut) if kind in _CUT else count
        cut -= count - left
        if left and not any(kinds_match(one, kind) for one in signed):
            found[kind] = left
    if found:
        yield Check(
            id=f"{level.label}.failures",
            role="judgement",
            status="refused",
            title=f"{level.label} failures are limited (observed {sum(found.values())} of {level.n} that are not)",
            observed=Exact(sum(found.values()), level.n),
            unit="failures",
            why=", ".join(f"{count} {kind}" for kind, count in found.items())
            + ": they are in no latency, and no limit says how many may fail",
            remedy=f"sign an error_rate for {level.label}",
        )


def goodput(level: Level, limit: Goodput, *, by_bound: bool) -> Iterator[Check]:
    """How many calls keep an SLO, of all that were due."""
    within = limit.slo.within()
    slo = " and ".join(f"{name} {span:g} s" for name, span in within.items())
    if level.calls is None:
        yield _untold(level, "goodput", f"goodput ({slo})")
        return
    met, seconds = sum(level.calls.meeting(within)), level.seconds or 0.0
    ratio = met / level.n
    low = 1 - rate_bound(level.n - met, level.n)
    if limit.min_ratio is not msgspec.UNSET:
        status = _at_least(Exact(ratio), limit.min_ratio)
        remedy = ""
        if by_bound and status == "pass" and limit.min_ratio < 1 and low < limit.min_ratio:
            status, remedy = "refused", f"make {calls_for_rate(1 - limit.min_ratio)} calls at this level or more"
        yield Check(
            id=f"{level.label}.goodput",
            role="judgement",
            status=status,
            title=f"{level.label} goodput ({slo}) at least {share_text(limit.min_ratio)} (observed {share_text(ratio)}: "
            f"{met} of {level.n}; 95 % sure only of {share_text(low)})",
            observed=Exact(ratio, n=level.n, low=low),
            limit=limit.min_ratio,
            unit="ratio",
            remedy=remedy,
        )
    if limit.min_per_s is not msgspec.UNSET:
        yield _rate(level, "goodput_per_s", f"goodput ({slo})", met, seconds, limit.min_per_s, unit="per s")


def apdex(level: Level, limit: Apdex) -> Check:
    """Apdex Alliance, technical specification 1.1: failed calls are frustrated ones, whenever they failed."""
    if level.calls is None:
        return _untold(level, "apdex", "Apdex")
    satisfied = sum(level.calls.meeting({"latency": limit.t_s}))
    tolerating = sum(level.calls.meeting({"latency": 4 * limit.t_s})) - satisfied
    score = (satisfied + tolerating / 2) / level.n
    small = "*" if level.n < _SMALL_GROUP else ""
    return Check(
        id=f"{level.label}.apdex",
        role="judgement",
        status=_at_least(Exact(score), limit.min_score),
        title=f"{level.label} Apdex at least {limit.min_score:g} (observed {score:.2f} [{limit.t_s:g}]{small}: "
        f"{satisfied} satisfied, {tolerating} tolerating, {level.n - satisfied - tolerating} frustrated)",
        observed=Exact(score, n=level.n),
        limit=limit.min_score,
        unit="score",
    )


def cost(level: Level, limits: LevelLimits) -> Iterator[Check]:
    asked = {
        name: getattr(limits, name) for name in ("max_requests", "max_tokens", "min_tokens_per_s", "min_calls_per_s")
    }
    asked = {name: limit for name, limit in asked.items() if limit is not msgspec.UNSET}
    if level.calls is None:
        for name in asked:
            yield _untold(level, name.removeprefix("max_").removeprefix("min_"), name)
        return
    calls, seconds = level.calls, level.seconds or 0.0
    tokens = sum(one for one in calls.tokens if one >= 0)
    untold = sum(1 for one, outcome in zip(calls.tokens, calls.outcome, strict=True) if one < 0 and outcome == 0)
    begun = sum(1 for one, kind in zip(calls.tokens, calls.kind, strict=True) if one < 0 and kind in _BEGUN)
    said: Measure = AtLeast(tokens, level.n) if untold or begun else Exact(tokens, level.n)
    why = f"{untold} good answers do not say what they cost" if untold else ""
    if begun:
        why += f"{' and ' if why else ''}{begun} that were begun and not whole cost what nobody says"
    if "max_requests" in asked:
        sent = sum(calls.attempts)
        yield _count(level, "requests", "requests", Exact(sent, level.n), asked["max_requests"])
    if "max_tokens" in asked:
        yield _count(level, "tokens", "tokens of output", said, asked["max_tokens"], why)
    if "min_tokens_per_s" in asked:
        least = asked["min_tokens_per_s"]
        yield _rate(level, "tokens_per_s", "tokens of output", tokens, seconds, least, unit="per s", untold=untold)
    if "min_calls_per_s" in asked:
        yield _rate(level, "calls_per_s", "good calls", level.n - level.failures, seconds, asked["min_calls_per_s"])


def _count(level: Level, field: str, words: str, observed: Measure, cap: int, why: str = "") -> Check:
    status = at_most(observed, cap)
    return Check(
        id=f"{level.label}.{field}",
        role="judgement",
        status=status,
        title=f"{level.label} takes at most {cap} {words} (observed {shown(observed, '')})",
        observed=observed,
        limit=cap,
        unit=field,
        why=why,
        remedy="ask for usage in the answers, or sign no max_tokens" if status == "refused" else "",
    )


def _rate(
    level: Level,
    field: str,
    words: str,
    count: int,
    seconds: float,
    least: float,
    *,
    unit: str = "per s",
    untold: int = 0,
) -> Check:
    observed: Measure = Absent("it took no time") if seconds <= 0 else Exact(count / seconds, n=level.n)
    if untold and isinstance(observed, Exact):
        observed = AtLeast(observed.value, level.n)
    status = _at_least(observed, least)
    return Check(
        id=f"{level.label}.{field}",
        role="judgement",
        status=status,
        title=f"{level.label} {words} at least {least:g} a second (observed {shown(observed, ' a second')}: "
        f"{count} in {seconds:.4g} s)",
        observed=observed,
        limit=least,
        unit=unit,
        why=f"{untold} good answers do not say what they cost" if untold else "",
        remedy="ask for usage in the answers, or sign no min_tokens_per_s" if status == "refused" else "",
    )


def _untold(level: Level, field: str, words: str) -> Check:
    return Check(
        id=f"{level.label}.{field}",
        role="judgement",
        status="refused",
        title=f"{level.label} {words}",
        observed=Absent("the evidence holds no calls, but figures of them"),
        why="one file of rows does not say what came of each call",
        remedy="judge the run's folder: drillmaster gate interview RUN --policy FILE",
    )


def _at_least(observed: Measure, least: float) -> Status:
    """Judge a measure against a lower limit; equal passes."""
    match observed:
        case Exact(value=value) if math.isfinite(value):
            return "pass" if value >= least else "fail"
        case AtLeast(value=value) if value >= least:
            return "pass"
    return "refused"


def shown(observed: Measure, unit: str = " s") -> str:
    if isinstance(observed, Absent):
        return observed.why
    at_least = "at least " if isinstance(observed, AtLeast) else ""
    return f"{at_least}{observed.value:.4g}{unit}"


def again(observed: Measure) -> str:
    if isinstance(observed, Absent):
        return "see that the endpoint answers what is limited, and run the interview again, or sign no such limit"
    return "give calls a longer --timeout, and run the interview again" if isinstance(observed, AtLeast) else ""
