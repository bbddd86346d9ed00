"""Runs that reports are tested on: whole ones, joined and judged as real ones are, from lines made here with a fixed seed.

The golden cases on disk are such runs, frozen: `verdict.json` and `run.json` are what goes in, the rest is what came out
and was read by a person. `python -m tests.reports.cases` writes what comes out anew (read the diff); with `--inputs` it
freezes what goes in anew as well, which only a change of `Verdict` or `RunView` calls for.
"""

import random
import sys
from pathlib import Path
from typing import Any

import msgspec

from drillmaster import reports
from drillmaster.clock import rfc3339
from drillmaster.evidence import Manifest, Row
from drillmaster.gates.eviction import Eviction
from drillmaster.judge import judge
from drillmaster.outcomes import Run, join
from drillmaster.policy import Pin
from drillmaster.reports._view import RunView, view
from drillmaster.verdict import Verdict

WALL0_NS = 1_796_025_600_000_000_000  # 2026-11-30T08:00:00Z
LIMITS = Eviction(
    max_fallback_s=60,
    max_failed_ratio=0.01,
    failed_window="fault",
    max_recovery_s=60,
    min_met=10,
    max_baseline_failed_ratio=0.01,
    max_unattributed_ratio=0.05,
    max_clock_step_s=1.0,
)
GATE_COMMAND = "drillmaster gate eviction runs/20261130T080000Z-1a2b --policy eviction-policy.yaml"


class Lines:
    """Lines of a run folder, numbered by file."""

    def __init__(self) -> None:
        self.rows: list[Row] = []
        self._count: dict[str, int] = {}

    def add(self, file: str, event: str, at_s: float, **fields: Any) -> None:
        wall_ns = WALL0_NS + round(at_s * 1e9)
        self._count[file] = self._count.get(file, 0) + 1
        whole = {"t": rfc3339(wall_ns), "event": event, **fields}
        if file.startswith("events/"):
            whole["ns"] = round(at_s * 1e9)
        self.rows.append(Row(file, self._count[file], wall_ns, event, whole))


def run(
    *,
    service: str = "support-agent",
    mode: str = "reset",
    fallback: bool = True,
    met: bool = True,
    stamps: tuple[str, ...] = (),
    owners: dict[str, str] | None = None,
    attested: bool = True,
    noted: bool = True,
    every_s: float = 5.0,
    scale: float = 1.0,
    seats: dict[str, str] | None = None,
) -> Run:
    """Make a drill of 10, 15 and 5 minutes (times `scale`), one request every `every_s`, with a fallback or without."""
    rng = random.Random(7)
    baseline_s, fault_s, recovery_s = 600 * scale, 900 * scale, 300 * scale
    lift_s, end_s = baseline_s + fault_s, baseline_s + fault_s + recovery_s
    manifest = Manifest(
        run="20261130T080000Z-1a2b",
        drill="eviction",
        service=service,
        started_at="2026-11-30T08:00:00Z",
        mono0_ns="5",
        seed=1,
        plan={
            "proxy": {"listen": "127.0.0.1:8081", "upstream": "https://user:secret@api.example.com/v1?key=abc"},
            "owners": owners or {},
            "target": {
                "url": "http://127.0.0.1:8000/answer?q={nonce}",
                "headers": {"authorization": "Bearer never-shown"},
            },
        },
        plan_sha256="sha256:" + "a" * 64,
        policy_file="policy.yaml",
        policy_sha256="sha256:" + "b" * 64,
        payload_sha256="sha256:" + "c" * 64,
        versions={"drillmaster": "0.1.0", "python": "3.11.7"},
        seats=seats if seats is not None else {"lead": "Ana", "scribe": "Ben", "verifier": "Chen"},
        stamps=stamps,
        phases={"baseline_s": baseline_s, "fault_s": fault_s, "recovery_s": recovery_s},
        fault={"tag": mode, "params": {}},
        time_limit_s=10.0,
        every_s=every_s,
    )
    out = Lines()
    conductor, proxy, notes = (f"events/{name}.jsonl" for name in ("conductor", "proxy", "notes"))
    if attested:
        for minute, (check, who) in enumerate(
            (("quiet_window_agreed", "Ana"), ("on_call_told", "Ben"), ("status_note_drafted", "Ana"))
        ):
            when = f"2026-11-30T07:{30 + minute}:00Z"
            out.add(conductor, "preflight", 0.0, check=check, status="attested", why="", by=who, at=when)
    for check in ("target_answers", "timeline_writable", "proxy_passes_through", "upstream_reachable", "clock_sane"):
        out.add(conductor, "preflight", 0.1, check=check, status="pass", why="")
    for at, phase, start_s in (
        ("start", "baseline", 0.0),
        ("", "fault", baseline_s),
        ("lift", "recovery", lift_s),
        ("end", "drain", end_s),
    ):
        out.add(conductor, "phase_started", start_s, phase=phase, planned_s=fault_s)
        if at:
            out.add(
                conductor,
                "code_state",
                start_s,
                at=at,
                commit="4f2a" * 10,
                dirt_sha256=None,
                plan_sha256="p",
                policy_sha256="q",
            )
    out.add(proxy, "fault_injected", baseline_s, window="w1", fault=mode, params={})
    for n in range(round(end_s / every_s)):
        _request(out, n, n * every_s, rng, baseline_s, lift_s, mode=mode, fallback=fallback, met=met)
    out.add(proxy, "fault_lifted", lift_s, window="w1", why="ordered")
    if noted:
        out.add(notes, "note", baseline_s + 4, kind="injection_seen", text="reset, said aloud", by="Ben")
        out.add(
            notes,
            "note",
            baseline_s + 21,
            kind="first_fallback_seen" if fallback else "no_fallback_seen",
            text="",
            by="Ben",
        )
        out.add(notes, "note", lift_s + 3, kind="window_ended", text="", by="Ben")
    out.add(conductor, "fault_gone", lift_s + 0.2, window="w1", gone=True, why="a probe passed through")
    out.add(conductor, "drill_ended", end_s + 12, status="completed", why="")
    return join(manifest, out.rows, digest="sha256:" + "e" * 64)


def _request(
    out: Lines,
    n: int,
    due_s: float,
    rng: random.Random,
    baseline_s: float,
    lift_s: float,
    *,
    mode: str,
    fallback: bool,
    met: bool,
) -> None:
    faulted = baseline_s <= due_s < lift_s and met
    result: str
    answer: str | None
    status: int | None
    trace = f"{n + 1:032x}"
    took_s = 0.55 + 0.5 * rng.random() ** 2 + (rng.random() < 0.03) * 2.5
    result, answer, status = "answered", "ok", 200
    if faulted and not fallback:
        result, answer, status = ("timeout", None, None) if n % 3 == 0 else ("answered", None, 502)
        took_s = 10.0 if result == "timeout" else 3.1 + rng.random()
    elif faulted and due_s < baseline_s + 2:
        answer, status, took_s = None, 503, 2.4  # the first one met the fault before the fallback had
    elif faulted:
        took_s = 0.21 + 0.2 * rng.random()
    start_ns, end_ns = round(due_s * 1e9), round((due_s + took_s) * 1e9)
    out.add(
        "events/traffic.jsonl",
        "user_request",
        due_s,
        phase="start",
        id=f"r{n}",
        due_ns=start_ns,
        sent_ns=start_ns,
        trace=trace,
    )
    if faulted:
        out.add(
            "events/proxy.jsonl", "fault_met", due_s + 0.02, attempt=f"a{n}", window="w1", client_bytes=412, trace=trace
        )
    # A client that goes round the proxy leaves no attempt.
    if met:
        out.add(
            "events/proxy.jsonl", "attempt", due_s + took_s - 0.01, id=f"a{n}", window="w1" if faulted else None, conn=n, nth=1,
            status=None if faulted else 200, start_ns=start_ns + 10_000_000, first_ns=None, end_ns=end_ns - 10_000_000,
            end="rst" if faulted else "clean", terminal=not faulted, upstream=not faulted, trace=trace, dialect="openai_chat",
        )  # fmt: skip
    out.add(
        "events/traffic.jsonl", "user_request", due_s + took_s, phase="end", id=f"r{n}", due_ns=start_ns, sent_ns=start_ns,
        first_ns=None, end_ns=end_ns, status=status, result=result, answer=answer, why="", ms=took_s * 1e3,
    )  # fmt: skip


def judged(case: Run) -> Verdict:
    assert case.manifest is not None
    return judge(
        LIMITS,
        case,
        name="eviction",
        subject=f"{case.manifest.service} {case.name}",
        stamps=case.manifest.stamps,
        pin=Pin(source="runbook-2026-11", owner="payments-oncall", review_by="2027-02-28"),
        policy_digest="sha256:" + "b" * 64,
        policy_expected="sha256:" + "b" * 64,
        evidence_digest="sha256:" + "e" * 64,
        counts={"requests": len(case.requests), "attempts": len(case.attempts), "lines": case.examined["lines"]},
        evidence_end_ns=WALL0_NS + case.end_ns,
        now_ns=WALL0_NS + 3600 * 10**9,
        version="0.1.0",
    )


GOLDEN = Path(__file__).parent.parent / "golden" / "reports"


def frozen(name: str) -> tuple[Verdict, RunView]:
    """Read a golden case's inputs."""
    folder = GOLDEN / name
    verdict = reports.form("json").parse((folder / "verdict.json").read_bytes(), place=name)
    return verdict, msgspec.json.decode((folder / "run.json").read_bytes(), type=RunView)


def outputs(verdict: Verdict, view: RunView) -> dict[str, str]:
    """Render every form but the page, by file name."""
    out = {
        "gate.txt": reports.form("text").render(verdict, colour=False),
        "card.md": reports.form("card").render(verdict, view),
    }
    issues = reports.form("issues").render(verdict, view)
    return out | {f"issues/{name}": text for name, text in issues.items()}


def write(*, inputs: bool) -> None:
    for name, make in CASES.items():
        folder = GOLDEN / name
        folder.mkdir(parents=True, exist_ok=True)
        if inputs:
            verdict, view = both(make())
            (folder / "verdict.json").write_text(reports.form("json").render(verdict), encoding="utf-8")
            (folder / "run.json").write_bytes(msgspec.json.encode(view) + b"\n")
        verdict, view = frozen(name)
        for file, text in outputs(verdict, view).items():
            (folder / file).parent.mkdir(exist_ok=True)
            (folder / file).write_text(text, encoding="utf-8")
        if name in PAGES:
            (folder / "report.html").write_text(reports.form("html").render(verdict, view), encoding="utf-8")


def both(case: Run) -> tuple[Verdict, RunView]:
    verdict = judged(case)
    return verdict, view(case, verdict, gate_command=GATE_COMMAND)


HOSTILE = "<script>alert(1)</script> | `tick` ``` @oncall ![x](http://evil/x.png) </textarea>\x1b[31m\u202egnp"


def passing() -> Run:
    return run()


def failing() -> Run:
    return run(mode="503", fallback=False, owners={"fallback": "Dana"})


def refusing() -> Run:
    return run(met=False, attested=False, noted=False)


def rehearsal() -> Run:
    stamps = ("REHEARSAL", "DEMO", "COMPRESSED 30x")
    return run(stamps=stamps, noted=False, attested=False, seats={}, every_s=1.0, scale=1 / 30)


def hostile() -> Run:
    """Everything a person or a worker can name is an attack."""
    case = run(service=HOSTILE, mode=HOSTILE, fallback=False, owners={"default": HOSTILE, "failed": "@dana"})
    notes = tuple(msgspec.structs.replace(note, text=HOSTILE, by=HOSTILE) for note in case.notes)
    seats = {"lead": HOSTILE, "scribe": "@ben", "verifier": "a|b"}
    manifest = msgspec.structs.replace(case.manifest, seats=seats) if case.manifest else None
    lines = tuple(msgspec.structs.replace(line, why=HOSTILE, by=HOSTILE) for line in case.preflight)
    return msgspec.structs.replace(case, notes=notes, manifest=manifest, preflight=lines)


CASES = {"pass": passing, "fail": failing, "refused": refusing, "rehearsal": rehearsal, "hostile": hostile}
PAGES = ("rehearsal",)
"""Whose page is kept on disk too."""

if __name__ == "__main__":
    write(inputs="--inputs" in sys.argv[1:])
