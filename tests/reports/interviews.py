"""Interviews that reports are tested on: sealed folders made here with a fixed seed, judged and shown as real ones are.

The golden cases on disk are such runs, frozen: `verdict.json` and `view.json` are what goes in, the rest is what came out and was
read by a person. `python -m tests.reports.interviews` writes what comes out anew (read the diff); with `--inputs` it freezes what
goes in anew as well, which only a change of `Verdict` or `InterviewView` calls for.
"""

import random
import struct
import sys
import tempfile
from pathlib import Path
from typing import Any

import msgspec

from drillmaster import reports
from drillmaster.clock import ManualClock, parse_rfc3339
from drillmaster.evidence.samples import MORE, OUTCOMES, RECORD, header
from drillmaster.load.manifest import InterviewManifest
from drillmaster.load.showing import judged_again, keep_thresholds, view_of
from drillmaster.passports import judge_run
from drillmaster.reports.interview import InterviewView
from drillmaster.timeline import seal_run
from drillmaster.verdict import Verdict

GOLDEN = Path(__file__).parent.parent / "golden" / "interview_forms"
RUN = "20261130T120000Z-0001"
NOW = "2026-12-01T09:00:00Z"
MS = 1_000_000
HOSTILE = '<script>alert(1)</script> | `tick` @oncall ![x](http://evil/x.png) "q" \\ </textarea>\x1b[31m\u202egnp\ufffe'

POLICY = """\
kind: policy
version: 1
source: free-path-thresholds
owner: Bea of the platform team
review_by: 2027-02-28
gates:
  - gate: interview
    decide: observed
    cold_max_s: 10
    levels:
      warm_c1: {p95_s: 1, error_rate: 0.0}
      warm_c4: {p95_s: 1.5, error_rate: 0.05, goodput: {slo: {latency_s: 1.2}, min_ratio: 0.9}}
      open_r5: {p95_s: 2, error_rate: 0.05}
      drain: {max_s: 20, error_rate: 0.05, drain_s: 25}
    decision:
      interactive_p95_s: 2
      degrading_ratio: 4
      cold_near_timeout_ratio: 0.5
      budget: {allowance: 10 million tokens a month, read_on: "2026-11-29", url: https://example.com/terms}
"""


class Tape:
    """Records and gaps of one engine, in the order they end."""

    def __init__(self, *, long: bool = False) -> None:
        self.long = long
        self.calls = 100_000
        self.records = b""
        self.gaps = b""

    def call(
        self, stage: int, due_ms: float, took_ms: float, *, outcome: str = "ok", words: int = 0, first_ms: float = 0.0,
        status: int = 200, late_ms: float = 0.0, connect_ms: float = 0.0, tokens: int = -1,
        again: int = 0, long: tuple[int, int, int, int, int] | None = None,
    ) -> None:  # fmt: skip
        due, end = round(due_ms * MS), round((due_ms + took_ms) * MS)
        sent = 0 if outcome == "dropped" else round((due_ms + late_ms + connect_ms) * MS)
        word = round((due_ms + first_ms) * MS) if words else 0
        first = round((due_ms + (first_ms or took_ms) - 1) * MS) if outcome == "ok" else 0
        packed = RECORD.pack(
            due, sent, first, word, end if sent else due, round(connect_ms * MS), 0, 90, 400, words, tokens, 0, stage, status,
            OUTCOMES.index(outcome), again,
        )  # fmt: skip
        if self.long:
            packed += MORE.pack(*(long or (0, 0, self.calls, 0, 1)))
        self.calls += 1
        self.records += packed
        if words > 1:
            gap_us = round((took_ms - first_ms) * 1000 / (words - 1))
            self.gaps += struct.pack(f"<{words - 1}I", *([gap_us] * (words - 1)))


def folder(
    runs: Path,
    *,
    job: str = "one-sentence diff summary",
    stream: bool = True,
    calls: int = 60,
    failing: int = 0,
    cut: int = 0,
    dropped: int = 0,
    slow: float = 1.0,
    late_ms: float = 0.0,
    again: int = 0,
    waits: int = 0,
    ended: str = "completed",
    name: str = "Ada",
    stamps: tuple[str, ...] = (),
    levels: tuple[int, ...] = (1, 4),
    measured_from: str | None = "CI runner, Frankfurt",
) -> Path:
    """Write and seal a run. `failing`, `cut`, `dropped`: of the open stage's calls; `late_ms`: of the client with four callers.

    `again`: so many calls of one caller were made once more. `waits`: so many waited half a second at the endpoint's word, and all
    calls are turns of sessions, three each.
    """
    rng = random.Random(11)
    path = runs / RUN
    (path / "events").mkdir(parents=True)
    steps: list[dict[str, Any]] = [{"label": "cold", "kind": "cold", "callers": 1, "calls": 1}]
    for level in levels:
        steps.append({"label": f"warmup_c{level}", "kind": "warmup", "callers": level, "calls": level})
        steps.append({"label": f"warm_c{level}", "kind": "closed", "callers": level, "calls": calls})
    steps.append({"label": "open_r5", "kind": "open", "callers": 50, "calls": calls})
    steps.append({"label": "drain", "kind": "drain", "callers": max(levels), "calls": calls})
    words = 12 if stream else 0
    cold, tape = Tape(), Tape(long=waits > 0)
    cold.call(0, 120_000, 4_812, words=words, first_ms=3_900, connect_ms=22, tokens=words or -1)
    at_ms = 126_000.0
    ends: dict[str, float] = {"cold": 124_812.0}
    for stage, step in enumerate(steps[1:]):
        kind, callers = step["kind"], step["callers"]
        free, had = [at_ms] * callers, [0] * callers
        for n in range(step["calls"] if ended == "completed" or kind != "drain" else step["calls"] // 3):
            worker = min(range(callers), key=lambda w: free[w])
            due_ms = at_ms + 200.0 * n if kind == "open" else free[worker]
            took_ms = slow * rng.lognormvariate(6.2 if callers < 4 else 6.5, 0.25)
            more: dict[str, Any] = {"words": words, "first_ms": took_ms * 0.3, "tokens": words or -1}
            if kind == "open" and n % 7 == 3 and failing > 0:
                failing -= 1
                more = {"outcome": "http_4xx", "status": 429}
                took_ms = 12
            elif kind == "open" and n % 7 == 5 and cut > 0:
                cut -= 1
                more = {"outcome": "timeout", "status": -1}
                took_ms = 10_000
            elif kind == "open" and n % 7 == 6 and dropped > 0:
                dropped -= 1
                more = {"outcome": "dropped", "status": -1}
                took_ms = 0
            if kind == "warmup":
                more["connect_ms"] = 8.0
            if step["label"] == "warm_c1" and n < again:
                more["again"] = 1
            if step["label"] == "warm_c4":
                more["late_ms"] = late_ms
            if waits and kind == "closed":
                waited = step["label"] == "warm_c1" and n < waits
                session = 1_000 * stage + 100 * worker + had[worker] // 3
                more["long"] = (500 * MS * waited, 0, session, had[worker] % 3, 1 + waited)
                had[worker] += 1
            tape.call(stage, due_ms, took_ms, **more)
            free[worker] = due_ms + took_ms
            ends[step["label"]] = max(ends.get(step["label"], 0.0), due_ms + took_ms)
        at_ms = max(ends[step["label"]], *free) + 5
    manifest = InterviewManifest(
        run=RUN,
        job=job,
        started_at="2026-11-30T12:00:00Z",
        mono0_ns="5",
        seed=1,
        plan={
            "target": {"dialect": "openai_chat", "stream": stream},
            "open": [{"rate_per_s": 5.0, "seconds": calls / 5, "rate_to_per_s": None}],
            "measured_from": measured_from,
        },
        plan_sha256="sha256:" + "a" * 64,
        url="http://127.0.0.1:8000/v1/chat/completions",
        addresses=("127.0.0.1",),
        payload_sha256="sha256:" + "c" * 64,
        payloads=1,
        payload='{"messages":[{"role":"user","content":"Summarize this diff in one sentence."}]}',
        steps=tuple(steps),
        idle_s=120,
        time_limit_s=60,
        versions={"drillmaster": "0.1.0", "python": "3.11.7"},
        seats={"driver": name, "reader": "Bea", "recorder": "Cem"},
        stamps=stamps,
        code={"commit": "0f1e2d3c", "dirt_sha256": None},
    )
    (path / "manifest.json").write_bytes(msgspec.json.encode(manifest))
    events: list[dict[str, Any]] = [
        {"event": "idle_ended", "idle_s": 120.0, "proven": True, "why": "nobody was connected"}
    ]
    events += [
        {"event": "stage_ended", "stage": s["label"], "wall_s": 30.0, "cpu_s": 0.02, "longest_turn_ms": 0.4}
        for s in steps
    ]
    events += [{"event": "load_ended", "status": ended, "why": "" if ended == "completed" else "stopped by SIGINT"}]
    lines = [msgspec.json.encode({"t": "2026-11-30T12:20:00Z", "ns": 1, **event}) for event in events]
    (path / "events" / "load.jsonl").write_bytes(b"".join(line + b"\n" for line in lines))
    (path / "samples.cold.bin").write_bytes(header(stages=["cold"]) + cold.records)
    (path / "samples.bin").write_bytes(header(stages=[s["label"] for s in steps[1:]], long=waits > 0) + tape.records)
    if stream:
        (path / "gaps.cold.bin").write_bytes(cold.gaps)
        (path / "gaps.bin").write_bytes(tape.gaps)
    seal_run(path, ManualClock())
    return path


def judge(path: Path, policy: str = POLICY) -> None:
    """Judge a run as the gate does, and leave verdict and thresholds beside it."""
    file = path.parent / "interview-policy.yaml"
    file.write_text(policy, encoding="utf-8")
    now_ns = parse_rfc3339(NOW)
    assert now_ns is not None
    verdict = judge_run(path, file, now_ns=now_ns, version="0.1.0").verdict
    keep_thresholds(file, path, None)
    (path / "verdict.json").write_text(reports.form("json").render(verdict), encoding="utf-8")


def shown(path: Path) -> tuple[Verdict, InterviewView]:
    """What forms are made of."""
    now_ns = parse_rfc3339(NOW)
    assert now_ns is not None
    judged = judged_again(path, now_ns=now_ns)
    command = f"drillmaster gate interview runs/{RUN} --policy interview-policy.yaml"
    return judged.verdict, view_of(judged, gate_command=command)


CASES: dict[str, dict[str, Any]] = {
    "pass": {},
    "fail": {"failing": 4, "cut": 3, "dropped": 2, "slow": 1.4, "stream": False},
    "refused": {"late_ms": 300, "stamps": ("REHEARSAL", "COMPRESSED 10x")},
    "partial": {"ended": "aborted"},
    "hostile": {"job": HOSTILE, "name": HOSTILE, "measured_from": '=HYPERLINK("http://evil")'},
}


def case(name: str, runs: Path) -> tuple[Verdict, InterviewView]:
    """Make a case, judge it, and give what forms are made of."""
    path = folder(runs, **CASES[name])
    judge(path)
    return shown(path)


def outputs(verdict: Verdict, view: InterviewView) -> dict[str, str]:
    """Render every form, by file name."""
    return {
        "levels.csv": reports.form("csv").render(verdict, view),
        "report.json": reports.form("interview_json").render(verdict, view),
        "junit.xml": reports.form("junit").render(verdict),
        "metrics.prom": reports.form("prometheus").render(verdict, view),
        "page.md": reports.form("interview").render(verdict, view.page, view.decision),
    }


PAGES = ("fail",)
"""Whose page is kept on disk too."""


def frozen(name: str) -> tuple[Verdict, InterviewView]:
    """Read a golden case's inputs."""
    place = GOLDEN / name
    verdict = reports.form("json").parse((place / "verdict.json").read_bytes(), place=name)
    return verdict, msgspec.json.decode((place / "view.json").read_bytes(), type=InterviewView)


def write(*, inputs: bool) -> None:
    for name in CASES:
        into = GOLDEN / name
        into.mkdir(parents=True, exist_ok=True)
        if inputs:
            with tempfile.TemporaryDirectory() as runs:
                verdict, view = case(name, Path(runs))
            (into / "verdict.json").write_text(reports.form("json").render(verdict), encoding="utf-8")
            (into / "view.json").write_bytes(msgspec.json.encode(view) + b"\n")
        verdict, view = frozen(name)
        for file, text in outputs(verdict, view).items():
            (into / file).write_bytes(text.encode())
        if name in PAGES:
            (into / "report.html").write_bytes(reports.form("interview_html").render(verdict, view).encode())


if __name__ == "__main__":
    write(inputs="--inputs" in sys.argv[1:])
