"""Shares of errors of a canary, alone and beside its baseline: what was seen, and what so many requests can show of it."""

import math
from typing import Annotated

import msgspec

from drillmaster.gates._canary_metrics import Arm
from drillmaster.policy import share_text
from drillmaster.stats import calls_for_rate, rate_bound
from drillmaster.verdict import Check, Exact, Status, at_most, looked_at

__all__ = ["Baseline", "Ratio", "bounded", "excess", "observed", "slower"]

Ratio = Annotated[float, msgspec.Meta(ge=0, lt=1)]


class Baseline(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What the canary may be worse by than the build that has the traffic."""

    min_requests: Annotated[int, msgspec.Meta(ge=59)]
    max_error_ratio_excess: Ratio
    """How much larger the canary's share of errors may be: 0.001 is 0.1 points of a hundred."""
    max_p95_factor: Annotated[float, msgspec.Meta(gt=0, le=100)]
    """How many times the baseline's p95 the canary's may be."""


def _support(arm: Arm) -> tuple[float, str]:
    """What the share may really be at 95 %, and that in words."""
    if arm.requests < 1 or not 0 <= arm.errors <= arm.requests:
        return 1.0, "nothing to count by"
    bound = rate_bound(arm.errors, arm.requests)
    said = f"{share_text(arm.error_ratio)}: {arm.errors:,} of {arm.requests:,}; 95 % sure only of {share_text(bound)}"
    return bound, said


def observed(arm: Arm, cap: float) -> Check:
    bound, said = _support(arm)
    return looked_at(
        "error-rate",
        at_most(Exact(arm.error_ratio), cap),
        f"errors at most {share_text(cap)} (observed {said})",
        observed=Exact(arm.error_ratio, n=arm.requests, high=bound),
        limit=cap,
        unit="ratio",
    )


def bounded(arm: Arm, cap: float, *, least: int = 0) -> Check:
    """`least` is how many requests the policy asks for anyway: fewer are not named as enough."""
    bound, said = _support(arm)
    status: Status = at_most(Exact(arm.error_ratio), cap)
    if status == "pass" and cap > 0 and bound > cap:
        status = "refused"
    return looked_at(
        "error-rate",
        status,
        f"errors surely at most {share_text(cap)} (observed {said})",
        observed=Exact(arm.error_ratio, n=arm.requests, high=bound),
        limit=cap,
        unit="ratio",
        why="so few requests cannot show it" if status == "refused" else "",
        remedy=f"leave the canary at its share until {_enough(arm, cap, least)}, and collect again",
    )


def _enough(arm: Arm, cap: float, least: int) -> str:
    """How many requests at this share of errors would bound it by `cap`."""
    n = max(calls_for_rate(cap), arm.requests, least) if cap > 0 else 2**40
    while n < 2**40 and 0 <= arm.error_ratio <= 1:
        if rate_bound(round(arm.error_ratio * n), n) <= cap:
            return f"it has had about {n:,} requests"
        n = math.ceil(n * 1.25)
    return "it has had many more requests: its share of errors is too near to the limit to be told from it"


def excess(arm: Arm, base: Arm, limits: Baseline) -> Check:
    """Compare shares of errors; what may be chance is added on both sides."""
    cap, more = limits.max_error_ratio_excess, arm.error_ratio - base.error_ratio
    countable = all(0 <= one.errors <= one.requests and one.requests > 0 for one in (arm, base))
    most = more
    if countable:
        most = rate_bound(arm.errors, arm.requests) - (1 - rate_bound(base.requests - base.errors, base.requests))
    status: Status = at_most(Exact(more), cap)
    why = ""
    if status == "pass" and base.requests < limits.min_requests:
        status, why = "refused", f"the baseline had {base.requests:,} requests, wanted {limits.min_requests:,}"
    elif status == "pass" and most > cap:
        status, why = "refused", "so few requests cannot show it"
    return looked_at(
        "baseline.error-rate",
        status,
        f"errors surely at most {cap * 100:.3g} points of a hundred over the baseline's (observed {more * 100:+.3g}: "
        f"{share_text(arm.error_ratio)} and {share_text(base.error_ratio)}; 95 % sure on each side only of {most * 100:+.3g})",
        observed=Exact(more, n=arm.requests, high=most),
        limit=cap,
        unit="ratio",
        why=why,
        remedy="leave both as they are until more requests have been counted, and collect again",
    )


def slower(arm: Arm, base: Arm, limits: Baseline) -> Check:
    factor = arm.p95_ms / base.p95_ms if base.p95_ms > 0 else math.nan
    cap = limits.max_p95_factor
    return looked_at(
        "baseline.p95",
        at_most(Exact(factor), cap),
        f"p95 at most {cap:g} times the baseline's (observed {factor:.3g}: {arm.p95_ms:g} and {base.p95_ms:g} ms)",
        observed=Exact(factor, n=arm.requests),
        limit=cap,
        unit="times",
        remedy="have the collector export both",
    )
