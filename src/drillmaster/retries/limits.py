"""The limits that a policy may set on retries, and what their checks say. A limit that is left out is not judged."""

from collections.abc import Iterator

from drillmaster.outcomes import Run, Window
from drillmaster.retries.accounting import account
from drillmaster.retries.shapes import Accounting, Load
from drillmaster.verdict import Absent, AtLeast, Check, Exact, Measure, at_most

__all__ = ["retry_checks", "retry_limit_problem"]

_ATTRIBUTE = (
    "let the agent pass traceparent on, or put {nonce} into target.url or target.body of the plan, and run again"
)
_NO_WIRE = Absent("a bare file has no wire behind it")


def retry_limit_problem(max_attempts_per_request: int | None, max_storm_factor: float | None) -> str | None:
    """Say what is wrong with the limits, by name, value and range; None: nothing."""
    if max_attempts_per_request is not None and max_attempts_per_request < 1:
        return f"max_attempts_per_request: found {max_attempts_per_request}, wanted at least 1"
    if max_storm_factor is not None and not 0 < max_storm_factor <= 1_000_000:
        return f"max_storm_factor: found {max_storm_factor}, wanted a number over 0 (2 is twice the baseline's load)"
    return None


def retry_checks(run: Run, max_attempts_per_request: int | None, max_storm_factor: float | None) -> Iterator[Check]:
    """Judge each window, and the recovery behind it, by the limits that are given."""
    if max_attempts_per_request is None and max_storm_factor is None:
        return
    books = account(run)
    for window in run.windows:
        tail = "" if len(run.windows) == 1 else f" [{window.id}]"
        if max_attempts_per_request is not None:
            yield _attempts(books, window, max_attempts_per_request, tail)
        if max_storm_factor is not None:
            storm = None if books is None else books.storm(window.id)
            yield _storm("storm", "in the fault", None if storm is None else storm.fault, books, max_storm_factor, tail)
            yield _storm(
                "storm_return", "when it is back", None if storm is None else storm.back, books, max_storm_factor, tail
            )


def _attempts(books: Accounting | None, window: Window, limit: int, tail: str) -> Check:
    phases = [] if books is None else [p for p in books.phases if p.window == window.id and p.requests]
    worst = max(phases, key=lambda p: _floor(p.most), default=None)
    observed: Measure = _NO_WIRE if books is None else Absent("no user request")
    if worst is not None:
        bounded = any(isinstance(p.most, AtLeast) for p in phases)
        n = sum(p.requests for p in phases)
        observed = AtLeast(_floor(worst.most), n) if bounded else Exact(_floor(worst.most), n)
    status = at_most(observed, limit)
    seen = (
        "nothing" if worst is None else f"{'at least ' if isinstance(observed, AtLeast) else ''}{_floor(worst.most):g}"
    )
    stray = sum(p.unattributed for p in phases)
    return Check(
        id=f"attempts{tail}",
        role="judgement",
        status=status,
        title=f"attempts of one user request at most {limit} (observed {seen}){tail}",
        observed=observed,
        limit=float(limit),
        cites=() if worst is None else worst.most_cites,
        why=observed.why if isinstance(observed, Absent) else f"{stray} attempts belong to nobody" if stray else "",
        remedy="" if status != "refused" else _wanted(books is None, _ATTRIBUTE),
    )


def _storm(key: str, when: str, load: Load | None, books: Accounting | None, limit: float, tail: str) -> Check:
    observed: Measure = _NO_WIRE if books is None else Absent("it had no time") if load is None else load.factor
    status = at_most(observed, limit)
    seen = f"{observed.value:.2g}" if isinstance(observed, Exact) else "nothing"
    said = (
        ""
        if load is None
        else f"{load.attempts} attempts for {load.due} user requests, up to {load.peak_per_s} in a second"
    )
    return Check(
        id=f"{key}{tail}",
        role="judgement",
        status=status,
        title=f"load on the endpoint {when} at most {limit:g} times the baseline's (observed {seen}){tail}",
        observed=observed,
        limit=limit,
        cites=() if load is None else load.cites,
        why=observed.why if isinstance(observed, Absent) else said,
        remedy=""
        if status != "refused"
        else _wanted(books is None, "run a baseline and a recovery in which the agent calls its model, and run again"),
    )


def _wanted(bare: bool, otherwise: str) -> str:
    return "judge a run folder: drillmaster run eviction PLAN" if bare else otherwise


def _floor(measure: Measure) -> float:
    return measure.value if isinstance(measure, Exact | AtLeast) else 0.0
