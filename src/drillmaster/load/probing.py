"""A probe: an interview of one level, cut down to a minute for CI, and two budgets that say stay or leave.

1. It is an interview: same plan, permission, engine and seal; its run folder is the dated report. No call is repeated, so the
   errors are those that a caller without retries sees.
2. Budgets have no defaults. What was seen decides, before any rounding; what so many calls support stands beside it.
3. Too few requests for the budgets, a level that the client could not hold, a run that was stopped, a latency that only a time
   limit ended: refused. An endpoint that answers more calls with an error than its budget allows is not refused, however
   quickly it does so: that is an exit.
4. The cold start comes from the probe's own idle time, or from the latest sealed interview of the same endpoint, with its
   age. Where a cold budget is given and there is neither, the probe is refused.
"""

import math
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Literal
from urllib.parse import urlsplit

import msgspec

from drillmaster.clock import Clock, SystemClock
from drillmaster.errors import Aborted, Exit, Problem
from drillmaster.intake.runs import run_ids, short
from drillmaster.interviews import Level
from drillmaster.ladder import InterviewPlan
from drillmaster.ladder.checking import Place
from drillmaster.load.conducting import conduct
from drillmaster.load.preparing import LoadOptions
from drillmaster.load.reading import InterviewRun, open_interview_run
from drillmaster.run.progress import Progress
from drillmaster.stats import calls_for_share, rate_bound, samples_for_bound
from drillmaster.verdict import Absent, AtLeast, Exact, Measure, Status, at_most

__all__ = ["Budgets", "Cold", "Probed", "judge_probe", "least_requests", "probe"]

OLDEST_COLD_S = 30 * 86_400.0
"""An interview's decision holds no longer, and so does its cold start."""
_LOOKED_AT = 100
_ANSWERED = frozenset({"empty", "error_body", "unfinished", "refused"})
"""Failures that no slow client makes of good answers."""


class Budgets(msgspec.Struct, frozen=True, kw_only=True):
    """What the job can bear."""

    p95_ms: float
    error_rate: float
    cold_ms: float | None = None
    """None: a cold start is not judged."""
    least_idle_s: float = 1_800.0
    """How long nobody may have called before a call counts as cold."""


class Cold(msgspec.Struct, frozen=True, kw_only=True):
    """A cold start, and where it is from."""

    ms: float
    idle_s: float
    run: str
    age_s: float


class Probed(msgspec.Struct, frozen=True, kw_only=True):
    """What came of it, under the names that scripts know, and then what is ours."""

    requests: int
    wall_seconds: float
    p50_ms: float | None
    """Of the good answers; null: there was none."""
    p95_ms: float | None
    max_ms: float | None
    error_rate: float
    verdict: Literal["pass", "exit", "refused"]
    why: tuple[str, ...]
    errors: Mapping[str, int]
    error_rate_upper: float
    """95 % sure only that it is under this."""
    p95_upper_ms: float | None
    """The same of p95, each call taken for an independent one; null: too few, or it lies among calls that were cut."""
    block_s: float | None = None
    """Of the thresholds that were named: calls of one such time count as one."""
    p95_upper_blocks_ms: float | None = None
    """The same by blocks of it; null: nobody says how long one is, so short a time, or it lies among calls that were cut."""
    decided_by: Literal["observed"] = "observed"
    """The verdict is on what was seen; bounds stand beside it."""
    concurrency: int
    held: float
    """Calls in flight on average."""
    loop: Literal["closed"] = "closed"
    """Callers wait for their answers: a stall hides the calls that were not made meanwhile."""
    retries: int = 0
    cold: Cold | None
    run: str

    @property
    def exit(self) -> Exit:
        return {"pass": Exit.PASS, "exit": Exit.FAIL, "refused": Exit.REFUSED}[self.verdict]


def least_requests(budgets: Budgets) -> int:
    """As many as bound a p95, and as one error in them stays within its budget."""
    by_rate = calls_for_share(budgets.error_rate) if budgets.error_rate > 0 else 0
    return max(samples_for_bound(0.95), by_rate)


def probe(
    plan: InterviewPlan,
    place: Place,
    budgets: Budgets,
    *,
    runs: Path,
    base: Path,
    permit_host: str | None,
    progress: Progress,
    environ: Mapping[str, str],
    clock: Clock | None = None,
    block_s: float | None = None,
) -> tuple[Probed, Exit]:
    """Run the plan's one level and judge it; the exit code is 3 for a run that was stopped. Raises Problem.

    With `block_s` p95 is bounded by blocks of so many seconds too; it decides nothing.
    """
    clock = clock or SystemClock()
    _worth_it(plan, budgets)
    own = plan.idle_s >= budgets.least_idle_s
    cold = _kept_cold(plan, runs, budgets, now_ns=clock.wall_ns()) if budgets.cold_ms is not None and not own else None
    with tempfile.TemporaryDirectory(prefix="drillmaster-probe-") as folder:
        options = LoadOptions(
            runs=runs,
            out=Path(folder) / "interview.json",  # the run folder holds it too
            base=base,
            rehearsal=True,
            permit_host=permit_host,
            progress=progress,
        )
        result = conduct(plan, place, options, clock=clock, environ=environ)
    if result.exit is not Exit.PASS:
        raise Aborted(
            short(result.run_dir),
            found=f"that the probe was stopped: {result.why}",
            wanted="a probe to its end",
            remedy="start it again",
        )
    read = open_interview_run(result.run_dir)
    level = read.interview.level(f"warm_c{plan.levels[0]}")
    assert level is not None  # a run to its end has all its steps
    if own:
        cold = _cold_of(read, budgets, clock.wall_ns())
    missing = "the probe's own cold call failed, or somebody else called before it"
    probed = judge_probe(level, budgets, read=read, cold=cold, no_cold=missing, block_s=block_s)
    return probed, probed.exit


def _worth_it(plan: InterviewPlan, budgets: Budgets) -> None:
    """Refuse what could say nothing, before anything is sent. Raises Problem."""
    least = least_requests(budgets)
    if plan.warm < least:
        raise Problem(
            "--requests",
            found=str(plan.warm),
            wanted=f"at least {least}: fewer bound no p95, or one error in them is over the budget already",
            remedy=f"--requests {least}",
        )
    for option, value_ms in (("--p95-budget-ms", budgets.p95_ms), ("--cold-budget-ms", budgets.cold_ms)):
        if value_ms is not None and value_ms >= plan.timeout_s * 1e3:
            raise Problem(
                option,
                found=f"{value_ms:g}, and a call is cut at {plan.timeout_s * 1e3:g} ms",
                wanted="a budget under the time limit: a call that is cut before it can never be over it",
                remedy=f"--timeout {2 * value_ms / 1e3:g}",
            )


def judge_probe(
    level: Level,
    budgets: Budgets,
    *,
    read: InterviewRun,
    cold: Cold | None,
    no_cold: str,
    block_s: float | None = None,
) -> Probed:
    """Judge one level. `no_cold`: why there is no cold start where one is needed. Pure."""
    p50, p95, most = (level.latency(name) for name in ("p50", "p95", "max"))
    rate = level.failures / level.n
    refused, over = list(level.void), []
    answered = sum(count for kind, count in level.failed.items() if kind.startswith("http_") or kind in _ANSWERED)
    if answered / level.n > budgets.error_rate:
        refused = []  # whatever the client could not hold: these are the endpoint's own words
    if rate > budgets.error_rate:
        over.append(f"error_rate {rate:.6g} is over {budgets.error_rate:g}: {_kinds(level)}")
    quick: Status = at_most(p95, budgets.p95_ms / 1e3)
    if quick == "fail":
        over.append(f"p95 {_words(p95)} is over {budgets.p95_ms:g} ms")
    elif quick == "refused" and not over:
        refused.append(f"p95 cannot be told: {_words(p95)}")
    if budgets.cold_ms is not None:
        if cold is None:
            refused.append(no_cold)
        elif cold.ms > budgets.cold_ms:
            over.append(f"cold start {cold.ms:.6g} ms is over {budgets.cold_ms:g} ms")
    fitness = read.fitness[level.label]
    bound = level.bound("latency", "p95", block_s=block_s)
    verdict: Literal["pass", "exit", "refused"] = "refused" if refused else "exit" if over else "pass"
    return Probed(
        requests=level.n,
        wall_seconds=round(fitness.seconds, 3),
        p50_ms=_ms(p50),
        p95_ms=_ms(p95),
        max_ms=_ms(most),
        error_rate=rate,
        verdict=verdict,
        why=tuple(refused or over),
        errors=dict(level.failed),
        error_rate_upper=round(rate_bound(level.failures, level.n), 6),
        p95_upper_ms=_finite_ms(bound.by_calls),
        block_s=block_s,
        p95_upper_blocks_ms=_finite_ms(bound.by_blocks),
        concurrency=fitness.callers,
        held=round(fitness.held, 2),
        cold=cold,
        run=read.interview.name,
    )


def _kept_cold(plan: InterviewPlan, runs: Path, budgets: Budgets, *, now_ns: int) -> Cold:
    """The cold start of the latest run of this endpoint that has one. Raises Problem where none has: before anything is sent."""
    parts = urlsplit(plan.target.url)
    url = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"
    for run in run_ids(runs)[: -_LOOKED_AT - 1 : -1]:
        try:
            read = open_interview_run(runs / run)
        except Problem:  # of another drill, unsealed, edited: no evidence
            continue
        if read.interview.url != url:
            continue
        found = _cold_of(read, budgets, now_ns)
        if found is not None and 0 <= found.age_s <= OLDEST_COLD_S:
            return found
    least = f"{budgets.least_idle_s:g}"
    raise Problem(
        "--cold-budget-ms",
        found=f"no cold start of the last 30 days after {least} s of silence, and --idle {plan.idle_s:g}s",
        wanted=f"a first call after as long a silence: of this probe, or of a sealed run of {url} in {runs}",
        remedy=f"add --idle {least}s, or drillmaster interview {url} --idle {least}; what counts as silence is --least-idle",
    )


def _cold_of(read: InterviewRun, budgets: Budgets, now_ns: int) -> Cold | None:
    interview = read.interview
    level, idle_s = interview.level("cold"), interview.idle_s or 0.0
    if (
        level is None
        or level.void
        or level.failures
        or idle_s < budgets.least_idle_s
        or interview.ended_wall_ns is None
    ):
        return None
    took = level.latency("max")
    if not isinstance(took, Exact):
        return None
    age_s = max(0.0, round((now_ns - interview.ended_wall_ns) / 1e9, 1))
    return Cold(ms=round(took.value * 1e3, 3), idle_s=idle_s, run=interview.name, age_s=age_s)


def _finite_ms(seconds: float | None) -> float | None:
    return round(seconds * 1e3, 3) if seconds is not None and math.isfinite(seconds) else None


def _ms(observed: Measure) -> float | None:
    return round(observed.value * 1e3, 3) if isinstance(observed, Exact | AtLeast) else None


def _words(observed: Measure) -> str:
    if isinstance(observed, Absent):
        return observed.why
    return f"{'at least ' if isinstance(observed, AtLeast) else ''}{observed.value * 1e3:.6g} ms"


def _kinds(level: Level) -> str:
    return ", ".join(f"{count} {kind}" for kind, count in level.failed.items())
