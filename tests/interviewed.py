"""A sealed interview on paper: a cold call, one caller, four callers, each with the latency and the failures one asks for."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from drillmaster.clock import ManualClock
from drillmaster.evidence.samples import OUTCOMES, RECORD, header
from drillmaster.load.manifest import InterviewManifest
from drillmaster.timeline import seal_run

MS = 1_000_000
RUN = "20261130T120000Z-0001"
JOB = "one-sentence diff summary"
SEATS = {"driver": "Ada", "reader": "Bea", "recorder": "Cem"}

POLICY = """\
kind: policy
version: 1
source: free-path-thresholds
owner: Bea of the platform team
review_by: 2027-02-28
gates:
  - gate: interview
    decide: observed
    cold_max_s: 2
    levels:
      warm_c1: {p95_s: 1, error_rate: 0.0}
      warm_c4: {p95_s: 3, error_rate: 0.1}
"""
DECISION = """\
    decision:
      interactive_p95_s: 0.5
      degrading_ratio: 2
      cold_near_timeout_ratio: 0.5
"""


def manifest(**more: Any) -> InterviewManifest:
    """What an interview of one endpoint says of itself. `more`: fields in place of these."""
    fields: Mapping[str, Any] = {
        "run": RUN,
        "job": JOB,
        "started_at": "2026-11-30T12:00:00Z",
        "mono0_ns": "5",
        "seed": 1,
        "plan": {},
        "plan_sha256": "x",
        "url": "http://127.0.0.1:8000/v1/chat",
        "addresses": ("127.0.0.1",),
        "payload_sha256": "sha256:5f0e",
        "payloads": 1,
        "payload": '{"prompt":"Summarize this diff in one sentence."}',
        "idle_s": 120,
        "time_limit_s": 10,
        "versions": {},
        "seats": SEATS,
        "code": {"commit": "0f1e2d3c", "dirt_sha256": None},
    } | more
    return InterviewManifest(**fields)


def sealed(
    folder: Path,
    *,
    cold_ms: float = 900,
    one_ms: float = 100,
    four_ms: float = 150,
    failed: int = 0,
    calls: int = 20,
    **more: Any,
) -> Path:
    """A run folder of `folder`; `failed`: of the calls with four callers. `more`: fields of its manifest."""
    path = folder / RUN
    (path / "events").mkdir(parents=True)
    steps = (
        {"label": "cold", "kind": "cold", "callers": 1, "calls": 1},
        {"label": "warm_c1", "kind": "closed", "callers": 1, "calls": calls},
        {"label": "warm_c4", "kind": "closed", "callers": 4, "calls": calls},
    )
    (path / "manifest.json").write_bytes(msgspec.json.encode(manifest(steps=steps, **more)))
    events: list[dict[str, Any]] = [{"event": "idle_ended", "idle_s": 120.0, "proven": True, "why": ""}]
    events += [
        {"event": "stage_ended", "stage": step["label"], "wall_s": 3, "cpu_s": 0.01, "longest_turn_ms": 0.2}
        for step in steps
    ]
    events += [{"event": "load_ended", "status": "completed", "why": ""}]
    lines = [msgspec.json.encode({"t": "2026-11-30T12:20:00Z", "ns": 1, **event}) for event in events]
    (path / "events" / "load.jsonl").write_bytes(b"".join(line + b"\n" for line in lines))
    (path / "samples.cold.bin").write_bytes(header(stages=["cold"]) + _record(0, 0, cold_ms))
    one = b"".join(_record(0, turn * one_ms, one_ms) for turn in range(calls))
    four = b"".join(
        _record(1, 10_000 + at // 4 * four_ms, four_ms, outcome="ok" if at >= failed else "http_5xx")
        for at in range(calls)
    )
    (path / "samples.bin").write_bytes(header(stages=["warm_c1", "warm_c4"]) + one + four)
    seal_run(path, ManualClock())
    return path


def _record(step: int, due_ms: float, took_ms: float, *, outcome: str = "ok") -> bytes:
    due, end = round(due_ms * MS), round((due_ms + took_ms) * MS)
    status = 200 if outcome == "ok" else 503
    return RECORD.pack(due, due, end, 0, end, 0, 0, 9, 9, 0, 4, 0, step, status, OUTCOMES.index(outcome), 0)
