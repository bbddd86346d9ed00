"""A drill on paper: what users, wire and worker would have written, line by line, for an agent of a given behaviour."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from drillmaster.clock import rfc3339
from drillmaster.evidence import Manifest, Row
from drillmaster.gates.eviction import Eviction
from drillmaster.judge import load_policy
from drillmaster.outcomes import Run, join
from drillmaster.verdict import Check, Finding, conclude

WALL0_NS = 1_796_000_000_000_000_000
S = 10**9

LIMITS: dict[str, Any] = {
    "max_fallback_s": 5.0,
    "max_failed_ratio": 0.05,
    "failed_window": "fault",
    "max_recovery_s": 5.0,
    "min_met": 3,
    "max_baseline_failed_ratio": 0.02,
    "max_unattributed_ratio": 0.05,
    "max_clock_step_s": 1.0,
}

POLICY = """\
kind: policy
version: 1
source: runbook-2026-11
owner: payments-oncall
review_by: 2027-02-28
gates:
  - gate: eviction
""" + "".join(f"    {name}: {value}\n" for name, value in LIMITS.items())


class Answer:
    """What one user got, and what the agent did for it."""

    def __init__(
        self,
        ms: float = 20,
        *,
        result: str = "answered",
        status: int | None = 200,
        answer: str | None = "ok",
        attempts: int = 1,
        marks: tuple[tuple[str, dict[str, Any]], ...] = (),
    ) -> None:
        self.ms, self.result, self.status, self.answer = ms, result, status, answer
        self.attempts, self.marks = attempts, marks


PRIMARY = Answer(20, marks=(("model_ok", {"path": "primary"}),))
FALLBACK = Answer(25, marks=(("fallback_engaged", {"path": "fallback"}),))
BROKEN = Answer(15, status=502, answer=None)

Behaviour = Callable[[int, float, bool], Answer]
"""(number of the request, seconds since the injection or the lift, whether the fault is on) -> answer."""


def healthy(n: int, since_s: float, faulted: bool) -> Answer:
    return FALLBACK if faulted else PRIMARY


class Scene:
    """Baseline, fault, recovery; one request every `every_s`; `trace` False: the agent passes no traceparent on."""

    def __init__(
        self,
        behave: Behaviour = healthy,
        *,
        mode: str = "reset",
        baseline_s: float = 20,
        fault_s: float = 60,
        recovery_s: float = 20,
        every_s: float = 1.0,
        time_limit_s: float = 5.0,
        trace: bool = True,
        marks: bool = True,
        notes: bool = True,
        stamps: tuple[str, ...] = (),
    ) -> None:
        self.rows: list[Row] = []
        self._lines: dict[str, int] = {}
        self.mode = mode
        self.inject_ns = round(baseline_s * S)
        self.lift_ns = self.inject_ns + round(fault_s * S)
        self.end_ns = self.lift_ns + round(recovery_s * S)
        self.manifest = Manifest(
            run="20261129T153000Z-1a2b",
            drill="eviction",
            service="support-agent",
            started_at=rfc3339(WALL0_NS, digits=9),
            mono0_ns="0",
            seed=1,
            plan={"target": {"url": "http://127.0.0.1:8000/answer", "payloads": ["a", "b"]}},
            plan_sha256="p",
            policy_file="policy.yaml",
            policy_sha256="q",
            payload_sha256="r",
            versions={},
            seats={"lead": "Ada", "scribe": "Bo", "verifier": "Cy"},
            stamps=stamps,
            phases={"baseline_s": baseline_s, "fault_s": fault_s, "recovery_s": recovery_s},
            fault={"tag": mode},
            time_limit_s=time_limit_s,
            every_s=every_s,
        )
        c = "events/conductor.jsonl"
        self.add(c, 0, "drill_started", run="r", drill="eviction", service="support-agent")
        for at, ns in (("start", 1), ("lift", self.lift_ns), ("end", self.end_ns + S)):
            self.add(c, ns, "code_state", at=at, commit="c0ffee", dirt_sha256="d", plan_sha256="p", policy_sha256="q")
        for phase, ns, planned in (
            ("baseline", 2, baseline_s),
            ("fault", self.inject_ns, fault_s),
            ("recovery", self.lift_ns, recovery_s),
        ):
            self.add(c, ns, "phase_started", phase=phase, planned_s=planned)
        self.add("events/proxy.jsonl", self.inject_ns, "fault_injected", window="w1", fault=mode, params={})
        self.add("events/proxy.jsonl", self.lift_ns, "fault_lifted", window="w1", why="ordered")
        self.add(c, self.lift_ns + 1, "fault_gone", window="w1", gone=True, why="200 through the proxy")
        if notes:
            for kind, ns in (
                ("injection_seen", self.inject_ns + S),
                ("first_fallback_seen", self.inject_ns + 3 * S),
                ("window_ended", self.lift_ns + S),
            ):
                self.add("events/notes.jsonl", ns, "note", kind=kind, text="seen", by="Bo")
        self._traffic(behave, round(every_s * S), trace, marks)
        self.add(c, self.end_ns + 2 * S, "drill_ended", status="completed", why="")

    def _traffic(self, behave: Behaviour, every_ns: int, trace: bool, marks: bool) -> None:
        for n, due in enumerate(range(every_ns, self.end_ns, every_ns)):
            faulted = self.inject_ns <= due < self.lift_ns
            since = due - (self.inject_ns if faulted else self.lift_ns if due >= self.lift_ns else due)
            got = behave(n, since / S, faulted)
            key, token = f"t{n}", f"{n:032x}"
            end = due + round(got.ms * 1e6)
            tr = "events/traffic.jsonl"
            self.add(
                tr, due, "user_request", id=key, phase="start", due_ns=due, sent_ns=due, trace=token, payload=n % 2
            )
            if got.result != "never":
                self.add(
                    tr, end, "user_request", id=key, phase="end", due_ns=due, sent_ns=due, first_ns=end, end_ns=end,
                    status=got.status, result=got.result, answer=got.answer, why="", ms=got.ms,
                )  # fmt: skip
            for k in range(got.attempts):
                start = due + 1000 + k
                common = {
                    "id": f"a{n}.{k}", "conn": n, "nth": 1, "method": "POST", "path": "/v1/chat/completions",
                    "dialect": "openai_chat", "model": "m", "stream": False, "retry_count": k, "key": None,
                    "trace": token if trace else None, "nonce": None, "start_ns": start, "up_bytes": 80,
                }  # fmt: skip
                if faulted:
                    self.add(
                        "events/proxy.jsonl", start + 1, "fault_met", attempt=f"a{n}.{k}", window="w1", client_bytes=80
                    )
                    self.add(
                        "events/proxy.jsonl", end, "attempt", **common, window="w1", status=None, first_ns=None,
                        end_ns=min(end, start + 2000), down_bytes=0, end="rst", terminal=False, upstream=False,
                    )  # fmt: skip
                else:
                    self.add(
                        "events/proxy.jsonl", end - 1, "attempt", **common, window=None, status=200, first_ns=end - 2,
                        end_ns=end - 1, down_bytes=90, end="clean", terminal=True, upstream=True,
                    )  # fmt: skip
            if marks:
                for event, fields in got.marks:
                    self.add("timeline.jsonl", end - 3, event, id=f"req-{n}", **fields)

    def add(self, file: str, ns: int, event: str, **fields: Any) -> None:
        line = self._lines[file] = self._lines.get(file, 0) + 1
        extra = {"ns": ns} if file.startswith("events/") else {}
        body = {"t": rfc3339(WALL0_NS + ns, digits=9), "event": event, **extra, **fields}
        self.rows.append(Row(file, line, WALL0_NS + ns, event, body))

    def drop(self, event: str, **fields: Any) -> "Scene":
        self.rows = [
            r for r in self.rows if not (r.event == event and all(r.fields.get(k) == v for k, v in fields.items()))
        ]
        return self

    def write(self, folder: Path, policy: str = POLICY) -> Path:
        """Lay the run out on disk, unsealed."""
        (folder / "events").mkdir(parents=True)
        (folder / "policy.yaml").write_text(policy, encoding="utf-8")
        digest = load_policy(policy.encode(), place="policy.yaml", fmt="yaml")[1]
        manifest = msgspec.structs.replace(self.manifest, policy_sha256=digest)
        (folder / "manifest.json").write_bytes(msgspec.json.encode(manifest) + b"\n")
        texts: dict[str, list[bytes]] = {"timeline.jsonl": []}
        for row in self.rows:
            texts.setdefault(row.file, []).append(msgspec.json.encode(row.fields) + b"\n")
        for name, lines in texts.items():
            (folder / name).write_bytes(b"".join(lines))
        return folder

    def run(self, **extra: Any) -> Run:
        return join(self.manifest, self.rows, **extra)


def judged(scene: Scene | Run, **limits: Any) -> tuple[str, dict[str, Check], dict[str, Finding]]:
    """Give status, checks and findings by id."""
    run = scene.run() if isinstance(scene, Scene) else scene
    gate = Eviction(**{**LIMITS, **limits})
    checks = tuple(gate.checks(run))
    findings = tuple(gate.findings(run, checks))
    return conclude(checks), {c.id: c for c in checks}, {f.id: f for f in findings}
