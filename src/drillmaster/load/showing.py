"""What reports show of a sealed interview: its levels with all their figures, and of many calls a picture's worth.

1. Only a run that is as it was sealed is shown, to its sealed end, and its figures are those that a gate would see.
2. A gate leaves its thresholds beside its verdict, in `thresholds/`, which no seal covers. What is shown of a verdict was given
   again from the sealed run and those thresholds; a verdict.json that is not that, byte for byte, is refused.
3. A run that was held against nothing is shown as refused.
"""

import math
from array import array
from bisect import bisect_left
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from drillmaster.clock import parse_rfc3339, rfc3339
from drillmaster.deciding import decided_by
from drillmaster.errors import Problem, Refused
from drillmaster.intake import is_there, read_bytes
from drillmaster.intake.change import LastChange
from drillmaster.intake.runs import short
from drillmaster.intake.thresholds import SUFFIX, kept, kept_text
from drillmaster.interviews import QUANTILES as QUANTILES_OF
from drillmaster.interviews import Calls, Level, Time
from drillmaster.load.knee import knee_text
from drillmaster.load.reading import Fitness
from drillmaster.passports import Judged, judge_run, unjudged
from drillmaster.reports import form, screened
from drillmaster.reports._levels import (
    QUANTILES,
    BoundView,
    CallKind,
    Decided,
    Dot,
    LevelView,
    Spread,
    bin_edge,
    bin_of,
    thin_places,
)
from drillmaster.reports.interview import InterviewView
from drillmaster.stats import quantile, rate_bound
from drillmaster.timeline.opening import complaint, write_whole
from drillmaster.verdict import Absent, AtLeast, Exact, Measure, Verdict

__all__ = ["judged_again", "keep_thresholds", "view_of"]

_PIN = ".pin.yaml"
PARTS = 60
MOST_DOTS = 300
_KINDS: tuple[CallKind, ...] = ("ok", "cut", "failed", "dropped")
_NEVER_SENT = frozenset({"dropped", "unsent_turn"})
_THRESHOLDS = "thresholds"
_CAP_BYTES = 16 << 20


def keep_thresholds(policy: Path, run_dir: Path, changed: LastChange | None) -> None:
    """Leave a copy of the thresholds, of their pin, and what git says of their last change, in the run's folder. Raises Problem."""
    folder = run_dir / _THRESHOLDS
    beside = policy.with_name(policy.name + _PIN)
    texts = {name.name: read_bytes(name, _CAP_BYTES) for name in (policy, beside) if is_there(name)}
    texts[policy.name + SUFFIX] = kept_text(changed)
    try:
        folder.mkdir(exist_ok=True)
        for old in folder.iterdir():
            if old.name not in texts and not old.is_dir():
                old.unlink()
        for name, text in texts.items():
            write_whole(folder / name, text)
    except OSError as error:
        raise Problem(
            str(folder),
            found=complaint(error)[0],
            wanted="a folder that can be written",
            remedy="free it, or judge without keeping the verdict: --no-record",
        ) from None


def judged_again(run_dir: Path, *, now_ns: int, measured_from: str = "") -> Judged:
    """Judge a sealed run by the thresholds that its gate left, as of then. Refused verdict where no gate did (rule 3).

    Raises Refused where verdict.json is another than that, Problem where either cannot be read.
    """
    command = f"drillmaster gate interview {short(run_dir)} --policy FILE"
    path = run_dir / "verdict.json"
    if not is_there(path):
        return unjudged(run_dir, now_ns=now_ns, command=command, measured_from=measured_from)
    said = read_bytes(path, _CAP_BYTES)
    try:
        told: Verdict = form("json").parse(said, place=str(path))
    except Problem as problem:
        raise Problem(problem.place, found=problem.found, wanted=problem.wanted, remedy=command) from None
    policy = _kept(run_dir, command)
    then_ns = parse_rfc3339(told.now)
    if then_ns is None:
        raise Refused(str(path), found="no time in it", wanted="a verdict of this gate", remedy=command)
    said_by_git = policy.with_name(policy.name + SUFFIX)
    if not is_there(said_by_git):
        raise Refused(
            str(said_by_git),
            found="nothing",
            wanted="what git said of the thresholds when they judged",
            remedy=command,
        )
    changed = kept(said_by_git)
    judged = judge_run(
        run_dir, policy, now_ns=then_ns, measured_from=measured_from, version=told.version, changed=changed
    )
    if form("json").render(judged.verdict).encode() != said:
        raise Refused(
            str(path),
            found=f"a verdict ({told.status}) that this run and its thresholds do not give ({judged.verdict.status})",
            wanted="the gate's own words on them, byte for byte",
            remedy=command,
        )
    return judged


def _kept(run_dir: Path, command: str) -> Path:
    """The thresholds that a gate left. Raises Refused where there are none, or several."""
    folder = run_dir / _THRESHOLDS
    there = sorted(folder.iterdir()) if folder.is_dir() else []
    names = [
        path for path in there if not path.name.endswith((_PIN, SUFFIX)) and not path.name.startswith(".drillmaster-")
    ]
    if len(names) != 1:
        raise Refused(
            str(folder),
            found="no thresholds beside the verdict" if not names else f"{len(names)} files of thresholds",
            wanted="those that the verdict is by",
            remedy=command,
        )
    return names[0]


def view_of(judged: Judged, *, gate_command: str) -> InterviewView:
    """Take from a sealed run that was judged what reports show of it."""
    run = judged.run
    assert run is not None, "a bare file has no records"
    manifest, interview = run.manifest, run.interview
    steps = {step["label"]: step for step in manifest.steps}
    levels = tuple(
        _level(level, steps[level.label], run.fitness[level.label], manifest.plan, judged) for level in interview.levels
    )
    knee = run.knee()
    ladder = sum(level.kind == "closed" for level in interview.levels)
    target: dict[str, Any] = manifest.plan.get("target") or {}
    started_ns = parse_rfc3339(manifest.started_at)
    made = InterviewView(
        page=judged.page,
        decision=judged.decision,
        decided=decided_by(judged.decision, judged.verdict.status),
        by_bound=judged.by_bound,
        block_s=judged.block_s,
        judged=judged.thresholds,
        levels=levels,
        not_run=tuple(label for label in interview.declared if interview.level(label) is None),
        warmup_calls=interview.examined.get("warm-up calls", 0),
        started_at=rfc3339(started_ns, digits=0) if started_ns is not None else manifest.started_at,
        ended_at="" if interview.ended_wall_ns is None else rfc3339(interview.ended_wall_ns, digits=0),
        ended=run.ended,
        why=run.why,
        idle_proven=run.idle.get("proven"),
        idle_why=str(run.idle.get("why") or ""),
        dialect=str(target.get("dialect", "plain")),
        stream=bool(target.get("stream", False)),
        torn_bytes=run.torn_bytes,
        knee=knee_text(knee) if ladder > 1 else "",
        knee_callers=None if knee.why else (knee.callers, knee.low, knee.high),
        gate_command=gate_command,
        # The plan holds header names and an environment's; what of it matters stands on its own.
        manifest={k: v for k, v in msgspec.to_builtins(manifest).items() if k not in ("plan", "kind", "steps")},
    )
    return screened(made)


def _judged(level: Level, verdict: Verdict) -> dict[str, Measure]:
    """The latencies that the gate looked at, with the bounds that it went by, by quantile."""
    observed = {check.id: check.observed for check in verdict.checks if isinstance(check.observed, Exact | AtLeast)}
    return {name: observed[f"{level.label}.{name}"] for name in QUANTILES if f"{level.label}.{name}" in observed}


def _level(level: Level, step: dict[str, Any], fitness: Fitness, plan: dict[str, Any], judged: Judged) -> LevelView:
    by_gate = _judged(level, judged.verdict)
    calls = level.calls or Calls(due_s=(), end_s=(), outcome=(), kind=(), times={})
    opened = [
        connect_s + (0.0 if math.isnan(tls_s) else tls_s)
        for connect_s, tls_s in zip(calls.times.get("connect", ()), calls.times.get("tls", ()), strict=True)
        if not math.isnan(connect_s)
    ]
    latency = _spread_of(level.ok_s or (), level.cut_s)
    if not latency.n:
        latency = msgspec.structs.replace(latency, quantiles={name: level.latency(name) for name in QUANTILES})
    delays = [one.delay_p99_s for one in fitness.engines or (fitness,) if one.delay_p99_s is not None]
    told = [tokens for tokens in calls.tokens if tokens >= 0]
    return LevelView(
        label=level.label,
        kind=level.kind,
        callers=step["callers"],
        rate=_rate(level.label, plan),
        n=level.n,
        failed=dict(level.failed),
        error_bound=rate_bound(level.failures, level.n),
        void=level.void,
        started_s=min(calls.due_s, default=0.0),
        seconds=fitness.seconds,
        latency=msgspec.structs.replace(latency, quantiles={**latency.quantiles, **by_gate}),
        bounds=_bounds(level, by_gate, judged),
        first_byte=_spread(calls, "ttfb"),
        first_word=_spread(calls, "ttft"),
        gaps=_spread(calls, "itl"),
        tokens=sum(told) if told else None,
        chunks=_chunks(calls),
        connects=len(opened),
        connect_max_s=max(opened, default=0.0),
        sent_again=sum(max(0, attempts - 1) for attempts in calls.attempts),
        made_again=level.made_again,
        waits=level.waits,
        waited_s=level.waited_s,
        sessions=level.sessions,
        first_turns=_spread_of(level.first_turns_s, ()) if level.sessions else None,
        later_turns=_spread_of(level.later_turns_s, ()) if level.sessions else None,
        held=fitness.held,
        held_overall=fitness.held_overall,
        late_p99_s=fitness.late_p99_s,
        longest_turn_s=fitness.longest_turn_s,
        cpu_share=fitness.cpu_share,
        delay_share=fitness.delay_share,
        delay_p99_s=max(delays, default=None),
        dots=_dots(level, calls),
    )


def _chunks(calls: Calls) -> int | None:
    """First words and those after each gap that ended, of good and cut streams; None: there was no stream."""
    begun = [value for value in calls.times.get("ttft", ()) if not math.isnan(value)]
    return sum(value > 0 for value in begun) + sum(gap_s >= 0 for gap_s in calls.gaps_s) if begun else None


def _bounds(level: Level, by_gate: dict[str, Measure], judged: Judged) -> dict[str, BoundView]:
    """The bounds of p95, and of what the gate looked at; a census and a cold call have none."""
    if level.kind == "cold" or level.calls is None or not (level.ok_s or level.cut_s):
        return {}
    found = {}
    for name in QUANTILES:
        if name == "max" or (name not in by_gate and name != "p95"):
            continue
        bound = level.bound("latency", name, block_s=judged.block_s)
        decided: Decided = "observed"
        if judged.by_bound:
            decided = "neither"
            if bound.by_calls is not None and bound.by_blocks is not None:
                decided = "calls" if bound.by_calls > bound.by_blocks else "blocks"
        found[name] = BoundView(
            by_calls=_bound(bound.by_calls, f"{bound.calls} calls would do"),
            by_blocks=None if judged.block_s is None else _bound(bound.by_blocks, f"{bound.blocks} would do"),
            decided=decided,
        )
    return found


def _bound(seconds: float | None, why: str) -> Measure:
    if seconds is None:
        return Absent(why)
    return Exact(seconds) if math.isfinite(seconds) else Absent("among calls that were cut")


def _dots(level: Level, calls: Calls) -> tuple[Dot, ...]:
    """A picture's worth of the level's calls, in the order they were due; of a batch, in the order they ended."""
    begin_s = min(calls.due_s, default=0.0)
    at_s, took_s, kinds = array("d"), array("d"), array("B")
    latencies = calls.times.get("latency", ())
    for due_s, end_s, outcome, kind, latency in zip(
        calls.due_s, calls.end_s, calls.outcome, calls.kind, latencies, strict=True
    ):
        kinds.append(3 if kind in _NEVER_SENT else outcome)
        took = max(0.0, end_s - (begin_s if level.kind == "drain" else due_s)) if math.isnan(latency) else abs(latency)
        took_s.append(took)
        at_s.append(took if level.kind == "drain" else due_s - begin_s)  # all of a batch was due at once
    places = sorted(thin_places(at_s, took_s, kinds, parts=PARTS, most=MOST_DOTS), key=lambda place: at_s[place])
    return tuple(
        Dot(round(at_s[at], 4), None if kinds[at] == 3 else round(took_s[at], 6), _KINDS[kinds[at]]) for at in places
    )


def _rate(label: str, plan: dict[str, Any]) -> str:
    """How an open stage's rate is said; empty for another step."""
    for one in plan.get("open") or ():
        rate, rate_to = one.get("rate_per_s"), one.get("rate_to_per_s")
        if label == f"open_r{rate:g}" + (f"_to_{rate_to:g}" if rate_to is not None else ""):
            return f"{rate:g}" + (f" to {rate_to:g}" if rate_to is not None else "") + " a second"
    return ""


def _spread(calls: Calls, time: Time) -> Spread | None:
    """How a time is spread; None where no call has it. Gaps of one answer lean on each other, and have no interval."""
    samples = [value for _, value in calls.samples(time)]
    if not samples:
        return None
    spread = _spread_of([value for value in samples if value >= 0], [-value for value in samples if value < 0])
    if time != "itl":
        return spread
    bare = {
        name: Exact(taken.value, taken.n) if isinstance(taken, Exact) else taken
        for name, taken in spread.quantiles.items()
    }
    return msgspec.structs.replace(spread, quantiles=bare)


def _spread_of(seen_s: Sequence[float], cut_s: Sequence[float]) -> Spread:
    """The figures that `Level.measure` gives, and histograms. Sorted once: there may be millions, and so is a sorted one."""
    seen, cut = sorted(seen_s), sorted(cut_s)
    return Spread(
        n=len(seen) + len(cut),
        quantiles={name: quantile(seen, QUANTILES_OF[name], censored=cut, confidence=0.90) for name in QUANTILES},
        bins=_bins(seen),
        cut_bins=_bins(cut),
    )


def _bins(values: Sequence[float]) -> dict[int, int]:
    """Sorted values by bin."""
    found: dict[int, int] = {}
    at = 0
    while at < len(values):
        number = bin_of(values[at])
        end = max(at + 1, bisect_left(values, bin_edge(number + 1) * (1 - 1e-12), at))
        found[number] = found.get(number, 0) + end - at
        at = end
    return found
