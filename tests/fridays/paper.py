"""A run folder of a Friday drill, line by line, as its parts write it: for whoever reads such a folder.

Times are in seconds of the run. Nothing here is counted by the code under test: `Paper` keeps its own plain lists.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from drillmaster.clock import SystemClock, parse_rfc3339, rfc3339
from drillmaster.slo import load_matrix
from drillmaster.timeline import seal_run

RUN = "20261204T140000Z-1a2b"
STARTED = "2026-12-04T14:00:00.000000000Z"
WALL0_NS = parse_rfc3339(STARTED) or 0
NOW_NS = WALL0_NS + 600 * 10**9

MATRIX: dict[str, Any] = {
    "kind": "drill-matrix",
    "version": 1,
    "service": "escalation-concierge",
    "source": "launch-checklist",
    "owner": "Ada of support",
    "review_by": "2199-01-01",
    "rows": [
        {
            "id": "mission-latency",
            "name": "Mission latency",
            "measure": "mission_latency",
            "objective": "p95 < 2.5 s",
            "probe": {"kind": "load", "in_flight": 20},
            "window": "all",
            "owner": "Ada of support",
            "source": "launch-checklist, 1",
        },
        {
            "id": "detector-time",
            "name": "Detector time",
            "measure": "detector_delay",
            "objective": "< 60 s",
            "probe": {"kind": "chaos", "flags": ["refundError"]},
            "window": "chaos",
            "alert": {"rule": "RefundErrors", "least": "sev2"},
            "owner": "Bo of operations",
            "source": "launch-checklist, 2",
        },
        {
            "id": "tool-success",
            "name": "Tool success",
            "measure": "tool_success",
            "objective": ">= 99 %",
            "probe": {"kind": "chaos", "flags": ["toolTimeout"], "in_flight": 20},
            "window": "chaos",
            "owner": "Bo of operations",
            "source": "launch-checklist, 3",
        },
        {
            "id": "replay",
            "name": "Replay availability",
            "measure": "replay_availability",
            "objective": ">= 100 %",
            "probe": {"kind": "transcripts", "sample": 20},
            "window": "all",
            "owner": "Cy of audit",
            "source": "launch-checklist, 4",
        },
        {
            "id": "kill-switch",
            "name": "Kill switch",
            "measure": "kill_switch",
            "objective": "< 1 s",
            "probe": {"kind": "kill", "capability": "refund"},
            "window": "all",
            "owner": "Cy of audit",
            "source": "launch-checklist, 5",
        },
    ],
}


class Paper:
    """90 s of load by 20 users, one mission of 1.5 s after another; chaos from 30 s to 60 s; a kill at 80 s."""

    def __init__(
        self, folder: Path, *, matrix: Mapping[str, Any] = MATRIX, users: int = 20, each_s: float = 1.5
    ) -> None:
        self.folder = folder
        self.matrix = matrix
        self.files: dict[str, list[str]] = {}
        self.latencies: list[float] = []
        """Of each mission, in the order of their due: what an independent count goes by."""
        self.dues: list[float] = []
        self._conductor()
        self._flags(met=round(users * 30 / each_s / 10))
        self._detectors()
        n = 0
        at = 0.0
        while at + each_s <= 90:
            for _ in range(users):
                self.mission(n, at, at + each_s)
                n += 1
            at += each_s
        self.missions = n
        for second in range(1, 91):
            self.event(
                "missions", second, "held", in_flight=users, mean=float(users), low=users, high=users, span_ns=10**9
            )

    def event(self, file: str, at_s: float, event: str, **fields: Any) -> None:
        """One line of ours."""
        ns = round(at_s * 1e9)
        line = {"t": rfc3339(WALL0_NS + ns, digits=9), "event": event, "ns": ns, **fields}
        self.files.setdefault(f"events/{file}.jsonl", []).append(json.dumps(line))

    def worker(self, at_s: float, event: str, **fields: Any) -> None:
        line = {"t": rfc3339(WALL0_NS + round(at_s * 1e9), digits=9), "event": event, **fields}
        self.files.setdefault("timeline.jsonl", []).append(json.dumps(line))

    def mission(self, n: int, due_s: float, end_s: float, result: str = "ok", *, tool: bool = True) -> None:
        """One mission of one step, with one tool call: in the chaos every fifth call needs a second attempt."""
        name = f"m{n}1a2b"
        due, end = round(due_s * 1e9), round(end_s * 1e9)
        about = {"mission": name, "flow": "refund", "entry": "websocket" if n % 2 else "http", "due_ns": due}
        self.event("missions", due_s, "mission_started", **about, slot=n % 20)
        times = {"due_ns": due, "sent_ns": due, "first_ns": end, "end_ns": end}
        self.event("missions", end_s, "step_ended", mission=name, step=0, name="ask", status=200, result="ok", **times)
        ended = {**about, "result": result, "why": "" if result == "ok" else "status: 500", "end_ns": end}
        self.event("missions", end_s, "mission_ended", **ended, thought_ns=0, steps=1)
        self.latencies.append(end_s - due_s)
        self.dues.append(due_s)
        if tool:
            killed = due_s >= 80
            again = 30 <= due_s < 60 and n % 5 == 0
            attempts = 2 if again else 1
            for attempt in range(1, attempts + 1):
                how = "killed" if killed else "timeout" if attempt < attempts else "ok"
                self.worker(
                    due_s + 0.1 * attempt,
                    "tool_attempted",
                    mission=name,
                    tool="refund",
                    attempt=attempt,
                    result=how,
                    ms=90,
                )
            fields = {"mission": name, "tool": "refund", "attempts": attempts, "ok": not killed, "ms": 200}
            self.worker(due_s + 0.3, "tool_finished", **fields)
        kinds = ("started", "user", "answer", "ended")
        for seq, kind in enumerate(kinds):
            t = rfc3339(WALL0_NS + round(due_s * 1e9), digits=9)
            line: dict[str, Any] = {"t": t, "mission": name, "run": RUN, "seq": seq, "kind": kind}
            if kind == "ended":
                line |= {"lines": len(kinds), "ok": True}
            self.files.setdefault("transcripts/w1.ndjson", []).append(json.dumps(line))

    def _conductor(self) -> None:
        self.event("conductor", 0, "phase_started", phase="baseline", planned_s=30)
        self.event("conductor", 30, "phase_started", phase="fault", planned_s=30)
        self.event("conductor", 60, "phase_started", phase="recovery", planned_s=30)
        self.event("conductor", 61, "fault_gone", window="w1", gone=True, why="off")
        self.event("conductor", 90, "phase_started", phase="drain", planned_s=5)
        self.event("conductor", 95, "drill_ended", status="completed", why="")

    def _flags(self, *, met: int) -> None:
        """What the flag server wrote: each of two workers met each flag so often, which is each call that is tried again."""
        flags = [
            {"flag": "toolTimeout", "kind": "timeout", "share": 0.2},
            {"flag": "refundError", "kind": "error", "share": 0.2},
        ]
        for worker in ("a", "b"):
            self.event("flags", 0.1, "flag_joined", worker=worker, pid=7, flags=["toolTimeout", "refundError"])
            self.event("flags", 0.1, "flag_read", worker=worker, revision="s1-0")
        self.event("flags", 30, "fault_injected", window="w1", fault="flags", flags=flags, by="the conductor")
        for number, flag in enumerate(("toolTimeout", "refundError"), 1):
            switched = {"flag": flag, "state": "on", "window": "w1", "revision": f"s1-{number}"}
            self.event("flags", 30, "flag_switched", **switched)
        for worker, at_s in (("a", 30.2), ("b", 30.4)):
            self.event("flags", at_s, "flag_read", worker=worker, revision="s1-2")
            for flag in ("toolTimeout", "refundError"):
                self.event("flags", 40, "flag_met", worker=worker, flag=flag, window="w1", n=met // 4)
                self.event("flags", 60, "flag_met", worker=worker, flag=flag, window="w1", n=met)
        self.event("flags", 60, "fault_lifted", window="w1", why="ordered", lifted_ns=60 * 10**9)
        self.event(
            "flags",
            80,
            "flag_switched",
            flag="refund",
            kind="kill",
            state="killed",
            tools=["refund"],
            window=None,
            revision="s1-4",
        )
        for worker, at_s in (("a", 80.2), ("b", 80.5)):
            self.event("flags", at_s, "kill_drained", flag="refund", worker=worker, seconds=at_s - 80)

    def _detectors(self) -> None:
        self.event("detectors", 0.2, "detector_ready", receiver="pager", form="alertmanager")
        self.alert(47.5, starts_s=45)

    def alert(self, at_s: float, *, starts_s: float, severity: str = "sev2", state: str = "firing") -> None:
        self.event(
            "detectors",
            at_s,
            "alert_received",
            receiver="pager",
            form="alertmanager",
            rule="RefundErrors",
            severity=severity,
            state=state,
            starts_at=rfc3339(WALL0_NS + round(starts_s * 1e9), digits=3),
            ends_at=None,
            key="a1",
            labels={"alertname": "RefundErrors"},
            group="g1",
        )

    def write(self, *, seal: bool = True, more: Mapping[str, Any] | None = None) -> Path:
        """Write the folder; sealed, unless somebody forgot."""
        _, digest = load_matrix(json.dumps(self.matrix).encode(), place="matrix.json", fmt="json")
        manifest = {
            "kind": "run",
            "version": 1,
            "run": RUN,
            "drill": "friday",
            "service": "escalation-concierge",
            "started_at": STARTED,
            "mono0_ns": "1000",
            "seed": 7,
            "plan": {},
            "plan_sha256": "sha256:" + "0" * 64,
            "policy_file": "drill-matrix.yaml",
            "policy_sha256": digest,
            "payload_sha256": "",
            "versions": {},
            "seats": {},
            "phases": {"baseline_s": 30, "fault_s": 30, "recovery_s": 30},
            "fault": {},
            "time_limit_s": 10,
            "every_s": 1,
            **(more or {}),
        }
        self.folder.mkdir(parents=True, exist_ok=True)
        (self.folder / "manifest.json").write_text(json.dumps(manifest))
        (self.folder / "policy.yaml").write_text(json.dumps(self.matrix))
        for name, lines in self.files.items():
            path = self.folder / name
            path.parent.mkdir(exist_ok=True)
            path.write_text("".join(f"{line}\n" for line in lines))
        if seal:
            seal_run(self.folder, SystemClock())
        return self.folder
