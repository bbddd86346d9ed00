"""Drills of agents that are not ours: four ways to call a model, with and without a timeline, healthy and with a mistake.

Each row is a whole drill over real sockets, a few seconds long, by the command line: exit code and findings have to be
right. Drills of one agent run side by side.
"""

import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import pytest

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(300)]

AGENTS = Path(__file__).parent / "agents"
CLI = (sys.executable, "-m", "drillmaster")
AT_ONCE = 4
ALWAYS = {"transport-only", "one-payload"}
"""Findings that tell of the drill and not of the agent."""

PASS, FAIL = 0, 1


class Case(NamedTuple):
    mode: str
    habit: str
    marks: bool
    joined: str
    """How attempts find their user: `trace`, `nonce`, or `none` (alone in flight, or not at all)."""
    code: int
    findings: frozenset[str] = frozenset()
    may: frozenset[str] = frozenset()
    """Findings that are true too, but hang on a few milliseconds."""


def row(mode: str, habit: str, marks: bool, joined: str, code: int, *findings: str) -> Case:
    sure = frozenset(f for f in findings if not f.startswith("?"))
    return Case(mode, habit, marks, joined, code, sure, frozenset(f[1:] for f in findings if f.startswith("?")))


# Under a hang every answer of an agent without a breaker waits for the client's time limit first: it passes, and is slow.
CASES: dict[str, tuple[Case, ...]] = {
    "openai_agent.py": (
        row("reset", "", True, "trace", PASS),
        row("503", "", False, "none", PASS),
        row("hang", "", False, "nonce", PASS, "slow-primary-first"),
        row("503", "narrow", True, "trace", PASS),
        row("reset", "narrow", True, "trace", FAIL, "no-fallback"),
        row("hang", "narrow", False, "none", FAIL, "no-fallback"),
        row("reset", "hollow", True, "nonce", FAIL, "phantom-fallback"),
        row("hang", "patience", False, "trace", FAIL, "no-client-time-limit"),
    ),
    "anthropic_agent.py": (
        row("reset", "", False, "nonce", PASS),
        row("503", "", True, "trace", PASS),
        row("hang", "", True, "none", PASS, "slow-primary-first"),
        row("503", "stubborn", False, "trace", PASS, "retry-storm", "no-backoff", "?slow-fallback"),
        row("reset", "stubborn", True, "none", PASS, "retry-storm", "?no-backoff", "?slow-fallback"),
        row("reset", "hopeful", True, "trace", FAIL, "no-fallback"),
        row("503", "hopeful", False, "none", FAIL, "no-fallback"),
    ),
    "requests_agent.py": (
        row("reset", "", True, "none", PASS),
        row("503", "", False, "trace", PASS),
        row("hang", "", False, "none", PASS, "slow-primary-first"),
        row("503", "trusting", True, "trace", FAIL, "no-fallback"),
        row("reset", "trusting", False, "none", PASS),
        row("hang", "patience", True, "nonce", FAIL, "no-client-time-limit"),
        row("503", "sluggish", False, "nonce", PASS, "slow-fallback"),
    ),
    "fetch_agent.mjs": (
        row("reset", "", False, "none", PASS),
        row("503", "", True, "nonce", PASS),
        row("hang", "", True, "trace", PASS, "slow-primary-first"),
        row("reset", "clingy", True, "trace", FAIL, "sticky-fallback"),
        row("503", "clingy", False, "none", FAIL, "sticky-fallback", "?slow-fallback"),
        row("503", "unprepared", True, "nonce", FAIL, "no-fallback"),
        row("reset", "partial", False, "nonce", FAIL, "fallback-errs"),
    ),
}

POLICY: dict[str, Any] = {
    "kind": "policy",
    "version": 1,
    "source": "tests of this repository",
    "owner": "its maintainers",
    "review_by": "2099-12-31",
    "gates": [
        {
            "gate": "eviction",
            "max_fallback_s": 1.5,
            "max_failed_ratio": 0.04,
            "failed_window": "fault",
            "max_recovery_s": 2,
            "min_met": 5,
            "max_baseline_failed_ratio": 0,
            "max_clock_step_s": 1,
        }
    ],
}


def free_ports(count: int) -> list[int]:
    """Find ports nobody has: all bound at once, so that they differ."""
    held = [socket.socket() for _ in range(count)]
    try:
        for sock in held:
            sock.bind(("127.0.0.1", 0))
        return [sock.getsockname()[1] for sock in held]
    finally:
        for sock in held:
            sock.close()


@pytest.fixture(scope="module")
def provider() -> Iterator[int]:
    argv = [*CLI, "standin", "provider", "--port", "0", "--latency-ms", "8", "--die-with-parent"]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        yield int(process.stdout.readline().rpartition(":")[2].partition("/")[0])
        process.terminate()


def policy(case: Case) -> dict[str, Any]:
    """The limits of a case. Where nothing tells attempts apart, those that overlap stay unknown, and may be many."""
    limits = {**POLICY["gates"][0], "max_unattributed_ratio": 0.5 if case.joined == "none" else 0.05}
    return {**POLICY, "gates": [limits]}


def plan(agent: str, case: Case, provider_port: int) -> dict[str, Any]:
    agent_port, proxy_port = free_ports(2)
    nonce = " {nonce}" if case.joined == "nonce" else ""
    worker = {"PORT": str(agent_port), "HABIT": case.habit}
    worker |= {"MARKS": "1"} if case.marks else {}
    worker |= {"TRACE": "1"} if case.joined == "trace" else {}
    program = [sys.executable] if agent.endswith(".py") else ["node"]
    return {
        "kind": "plan",
        "drill": "eviction",
        "service": f"{agent} {case.mode} {'with' if case.marks else 'without'} marks",
        "target": {
            "url": f"http://127.0.0.1:{agent_port}/answer?q={{payload}}",
            "payloads": [f"Where is my order?{nonce}", f"When are you open?{nonce}", f"I want a refund{nonce}"],
            "expect": {"min_chars": 10},
        },
        "traffic": {"every_s": 0.1, "time_limit_s": 2.5},
        "proxy": {"listen": f"127.0.0.1:{proxy_port}", "upstream": f"http://127.0.0.1:{provider_port}"},
        "policy": "policy.json",
        "phases": {"baseline_s": 2.5, "fault_s": 4, "recovery_s": 3},
        "fault": {"mode": case.mode},
        "worker": {"cmd": [*program, str(AGENTS / agent)], "env": worker},
    }


def drill(agent: str, case: Case, provider_port: int, folder: Path) -> str:
    """Run one drill; say what is wrong with its verdict, or nothing."""
    folder.mkdir()
    made = plan(agent, case, provider_port)
    (folder / "plan.json").write_text(json.dumps(made))
    (folder / "policy.json").write_text(json.dumps(policy(case)))
    argv = [*CLI, "run", "eviction", "plan.json", "--rehearsal", "--runs", "runs"]
    done = subprocess.run(argv, cwd=folder, capture_output=True, text=True, timeout=100, env=dict(os.environ))
    said = f"{agent} {case}:\n{done.stdout[-4000:]}\n{done.stderr[-2000:]}"
    found = list((folder / "runs").glob("*/verdict.json"))
    if len(found) != 1:
        return f"no verdict: {said}"
    verdict = json.loads(found[0].read_text())
    findings = {f["id"] for f in verdict["findings"]} - ALWAYS - (case.may - case.findings)
    if done.returncode != case.code or findings != case.findings:
        return f"exit {done.returncode} and {sorted(findings)}, wanted {case.code} and {sorted(case.findings)}: {said}"
    return ""


@pytest.mark.parametrize(
    "agent", [pytest.param(a, marks=pytest.mark.needs("node")) if a.endswith(".mjs") else a for a in CASES]
)
def test_verdict_and_diagnosis_are_right_in_every_mode_with_marks_and_without(
    agent: str, provider: int, tmp_path: Path
) -> None:
    with ThreadPoolExecutor(AT_ONCE) as pool:
        folders = [tmp_path / f"{i}-{case.mode}" for i, case in enumerate(CASES[agent])]
        wrong = pool.map(lambda c, f: drill(agent, c, provider, f), CASES[agent], folders)
        assert not [text for text in wrong if text]


def test_each_mode_is_drilled_with_marks_and_without_and_each_way_of_joining_occurs() -> None:
    for cases in CASES.values():
        assert {c.mode for c in cases} == {"reset", "503", "hang"}
        assert {c.marks for c in cases} == {True, False}
        assert {c.code for c in cases} == {PASS, FAIL}
    everything = [c for cases in CASES.values() for c in cases]
    assert {(c.mode, c.joined) for c in everything} >= {
        (m, j) for m in ("reset", "503", "hang") for j in ("trace", "nonce", "none")
    }
