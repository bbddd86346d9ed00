"""What reports show of a sealed interview: its levels with all their figures, and of many calls a picture's worth.

1. Only a run that is as it was sealed is shown, to its sealed end. Its records are read a second time here, since a gate looks
   at latencies alone, and a page also at first words, gaps, connections and the course of time.
2. A gate leaves its thresholds beside its verdict, in `thresholds/`, which no seal covers. What is shown of a verdict was given
   again from the sealed run and those thresholds; a verdict.json that is not that, byte for byte, is refused.
3. A run that was held against nothing is shown as refused.
"""

import hashlib
import math
from array import array
from collections import Counter
from collections.abc import Iterator
from itertools import accumulate
from pathlib import Path
from struct import Struct
from typing import Any

import msgspec

from drillmaster import timeline
from drillmaster.clock import parse_rfc3339, rfc3339
from drillmaster.deciding import decided_by
from drillmaster.errors import Problem, Refused, one_line
from drillmaster.evidence.samples import OUTCOMES, Sample
from drillmaster.intake import is_there, read_bytes
from drillmaster.intake.runs import short
from drillmaster.interviews import Level
from drillmaster.load.manifest import COLD, InterviewManifest, ladder_files
from drillmaster.load.reading import Fitness
from drillmaster.passports import Judged, judge_run, unjudged
from drillmaster.reports import form, screened
from drillmaster.reports._levels import QUANTILES, CallKind, Dot, LevelView, Spread, bin_of, thin_places
from drillmaster.reports.interview import InterviewView
from drillmaster.stats import quantile, rate_bound
from drillmaster.timeline.opening import complaint, write_whole
from drillmaster.verdict import Absent, Exact, Measure, Verdict

__all__ = ["judged_again", "keep_thresholds", "view_of"]

_PIN = ".pin.yaml"
PARTS = 60
MOST_DOTS = 300
_CONFIDENCE = 0.90
"""Two-sided, so that its upper end is the bound that a gate judges, 95 % one-sided."""
_KINDS: tuple[CallKind, ...] = ("ok", "cut", "failed", "dropped")
_CUT = frozenset({OUTCOMES.index("timeout"), OUTCOMES.index("stopped")})
_SHORT = OUTCOMES.index("short")
_EXACT_QUANTILES = {"p50": 0.5, "p90": 0.9, "p95": 0.95, "p99": 0.99, "max": 1.0}


_THRESHOLDS = "thresholds"
_CAP_BYTES = 16 << 20


def keep_thresholds(policy: Path, run_dir: Path) -> None:
    """Leave a copy of the thresholds, and of their pin, in the run's folder. Raises Problem."""
    folder = run_dir / _THRESHOLDS
    beside = policy.with_name(policy.name + _PIN)
    texts = {name.name: read_bytes(name, _CAP_BYTES) for name in (policy, beside) if is_there(name)}
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
    judged = judge_run(run_dir, policy, now_ns=then_ns, measured_from=measured_from, version=told.version)
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
    names = [path for path in there if not path.name.endswith(_PIN) and not path.name.startswith(".drillmaster-")]
    if len(names) != 1:
        raise Refused(
            str(folder),
            found="no thresholds beside the verdict" if not names else f"{len(names)} files of thresholds",
            wanted="those that the verdict is by",
            remedy=command,
        )
    return names[0]


class _Level:
    """What is taken from the records of one level."""

    def __init__(self) -> None:
        self.due = array("q")
        self.end = array("q")
        self.kind = array("B")
        self.first_byte = array("d")
        self.first_word = array("d")
        self.gaps_us: Counter[int] = Counter()
        self.tokens = 0
        self.untold = 0
        self.words = 0
        self.connects = 0
        self.connect_max_ns = 0
        self.sent_again = 0

    def add(self, sample: Sample) -> None:
        good = sample.outcome <= _SHORT
        self.due.append(sample.due_ns)
        self.end.append(sample.end_ns)
        self.kind.append(0 if good else 3 if not sample.sent_ns else 1 if sample.outcome in _CUT else 2)
        if good and sample.first_ns:
            self.first_byte.append((sample.first_ns - sample.due_ns) / 1e9)
        if good and sample.word_ns:
            self.first_word.append((sample.word_ns - sample.due_ns) / 1e9)
        if sample.tokens >= 0:
            self.tokens += sample.tokens
        elif good:
            self.untold += 1
        self.words += sample.words
        if sample.connect_ns or sample.tls_ns:
            self.connects += 1
            self.connect_max_ns = max(self.connect_max_ns, sample.connect_ns + sample.tls_ns)
        self.sent_again += sample.again


def view_of(run_dir: Path, judged: Judged, *, gate_command: str) -> InterviewView:
    """Take from a sealed run that was judged what reports show of it. Raises Refused where it is not as it was sealed."""
    run = judged.run
    assert run is not None, "a bare file has no records"
    manifest, interview = run.manifest, run.interview
    steps = {step["label"]: step for step in manifest.steps}
    found = _records(run_dir, manifest, steps)
    levels = tuple(
        _level(level, steps[level.label], found[level.label], run.fitness[level.label], manifest.plan)
        for level in interview.levels
    )
    target: dict[str, Any] = manifest.plan.get("target") or {}
    started_ns = parse_rfc3339(manifest.started_at)
    made = InterviewView(
        page=judged.page,
        decision=judged.decision,
        decided=decided_by(judged.decision, judged.verdict.status),
        by_bound=judged.by_bound,
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
        gate_command=gate_command,
        # The plan holds header names and an environment's; what of it matters stands on its own.
        manifest={k: v for k, v in msgspec.to_builtins(manifest).items() if k not in ("plan", "kind", "steps")},
    )
    return screened(made)


def _records(run_dir: Path, manifest: InterviewManifest, steps: dict[str, dict[str, Any]]) -> dict[str, _Level]:
    sealed = timeline.read_seal(run_dir).files
    found = {label: _Level() for label in steps}
    cold = [label for label, step in steps.items() if step["kind"] == "cold"]
    others = [label for label in steps if label not in cold]
    for (name, gaps_name), labels in ((COLD, cold), *((files, others) for files in ladder_files(manifest))):
        if name not in sealed:
            continue
        gaps = _Gaps(_chunks(run_dir, gaps_name, sealed)) if gaps_name in sealed else None
        for sample in _samples(_chunks(run_dir, name, sealed)):
            level = found[labels[sample.stage]]
            level.add(sample)
            if gaps is not None and sample.words > 1:
                taken = gaps.take(sample.words - 1)
                if sample.outcome <= _SHORT:
                    level.gaps_us.update(taken)
    return found


def _chunks(run_dir: Path, name: str, sealed: dict[str, Any]) -> Iterator[bytes]:
    """A file to its sealed end; raises Refused at the end of one that is not the sealed one."""
    digest = hashlib.sha256()
    for chunk in timeline.chunks(run_dir / name, limit_bytes=sealed[name].bytes):
        digest.update(chunk)
        yield chunk
    if digest.hexdigest() != sealed[name].sha256:
        raise Refused(
            one_line(str(run_dir / name)),
            found="that it changed while it was read",
            wanted="a run that is as it was sealed",
            remedy=f"drillmaster verify {one_line(str(run_dir))}",
        )


def _samples(chunks: Iterator[bytes]) -> Iterator[Sample]:
    """All whole records, laid out as the header says."""
    rest = b""
    record: Struct | None = None
    for chunk in chunks:
        rest += chunk
        if record is None:
            end = rest.find(b"\n") + 1
            if not end:
                continue
            record = Struct(str(msgspec.json.decode(rest[:end])["record"]))
            rest = rest[end:]
        whole = len(rest) - len(rest) % record.size
        for row in record.iter_unpack(memoryview(rest)[:whole]):
            yield Sample(*row)
        rest = rest[whole:]


class _Gaps:
    """A file of gaps, taken answer by answer; what a killed writer did not write is not there."""

    def __init__(self, chunks: Iterator[bytes]) -> None:
        self._chunks = chunks
        self._rest = b""

    def take(self, count: int) -> "array[int]":
        need = 4 * count
        while len(self._rest) < need and (chunk := next(self._chunks, None)) is not None:
            self._rest += chunk
        taken = array("I")
        taken.frombytes(self._rest[: need - need % 4] if len(self._rest) >= need else b"")
        self._rest = self._rest[need:]
        return taken


def _level(level: Level, step: dict[str, Any], seen: _Level, fitness: Fitness, plan: dict[str, Any]) -> LevelView:
    ok_s = level.ok_s or ()
    failures = level.failures
    begin_ns = min(seen.due, default=0)
    since_ns = begin_ns if level.kind == "drain" else None  # all of a batch was due then
    at_s = [(due - begin_ns) / 1e9 for due in seen.due]
    took_s = [
        (end - (due if since_ns is None else since_ns)) / 1e9 for due, end in zip(seen.due, seen.end, strict=True)
    ]
    if since_ns is not None:  # drawn where each ended, since all were due at once
        at_s = [max(0.0, took) for took in took_s]
    places = thin_places(at_s, took_s, seen.kind, parts=PARTS, most=MOST_DOTS)
    return LevelView(
        label=level.label,
        kind=level.kind,
        callers=step["callers"],
        rate=_rate(level.label, plan),
        n=level.n,
        failed=dict(level.failed),
        error_bound=rate_bound(failures, level.n),
        void=level.void,
        started_s=begin_ns / 1e9,
        seconds=fitness.seconds,
        latency=Spread(
            n=len(ok_s) + len(level.cut_s),
            quantiles={name: level.latency(name) for name in QUANTILES},
            bins=dict(Counter(map(bin_of, ok_s))),
            cut_bins=dict(Counter(map(bin_of, level.cut_s))),
        ),
        first_byte=_spread(seen.first_byte),
        first_word=_spread(seen.first_word),
        gaps=_gap_spread(seen.gaps_us),
        tokens=seen.tokens if seen.tokens or (level.n > failures and not seen.untold) else None,
        words=seen.words,
        connects=seen.connects,
        connect_max_s=seen.connect_max_ns / 1e9,
        sent_again=seen.sent_again,
        held=fitness.held,
        held_overall=fitness.held_overall,
        late_p99_s=fitness.late_p99_s,
        longest_turn_s=fitness.longest_turn_s,
        cpu_share=fitness.cpu_share,
        dots=tuple(
            Dot(round(at_s[at], 4), None if seen.kind[at] == 3 else round(took_s[at], 6), _KINDS[seen.kind[at]])
            for at in places
        ),
    )


def _rate(label: str, plan: dict[str, Any]) -> str:
    """How an open stage's rate is said; empty for another step."""
    for one in plan.get("open") or ():
        rate, rate_to = one.get("rate"), one.get("rate_to")
        if label == f"open_r{rate:g}" + (f"_to_{rate_to:g}" if rate_to is not None else ""):
            return f"{rate:g}" + (f" to {rate_to:g}" if rate_to is not None else "") + " a second"
    return ""


def _spread(values: "array[float]") -> Spread | None:
    if not values:
        return None
    return Spread(
        n=len(values),
        quantiles={name: quantile(values, q, confidence=_CONFIDENCE) for name, q in _EXACT_QUANTILES.items()},
        bins=dict(Counter(map(bin_of, values))),
    )


def _gap_spread(gaps_us: Counter[int]) -> Spread | None:
    """Exact nearest ranks over counted values; there may be millions of gaps, and few different ones."""
    if not gaps_us:
        return None
    values = sorted(gaps_us)
    n = gaps_us.total()
    ends = list(accumulate(gaps_us[value] for value in values))
    quantiles: dict[str, Measure] = {}
    for name, q in _EXACT_QUANTILES.items():
        rank = max(1, math.ceil(q * n - 1e-9))
        at = next((place for place, end in enumerate(ends) if end >= rank), None)
        quantiles[name] = Absent("no gap") if at is None else Exact(values[at] / 1e6, n)
    bins: Counter[int] = Counter()
    for value in values:
        bins[bin_of(value / 1e6)] += gaps_us[value]
    return Spread(n=n, quantiles=quantiles, bins=dict(bins))
