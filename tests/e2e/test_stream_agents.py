"""Drills of agents that stream: each fault inside a stream against each way of reading one, right and wrong.

Each row is a whole drill over real sockets by the command line. Its exit code and its findings have to be right: an agent
that took half an answer for a whole one fails, and one that fell back, or that a fault did not harm, passes.

What needs LiteLLM runs in the Python that DRILLMASTER_LITELLM_PYTHON names, or in this one where it is installed: with what
it brings along it is too large to share an environment with everything else.
"""

import importlib.util
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.e2e.drills import free_ports

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(600)]

AGENTS = Path(__file__).parent / "agents"
CLI = (sys.executable, "-m", "drillmaster")
AT_ONCE = 3
ALWAYS = {
    "transport-only", "one-payload", "slow-fallback", "slow-primary-first", "evicted-nobody",
    "billed-again", "no-backoff", "retries-for-nobody",
}  # fmt: skip
"""Findings that tell of the drill, of milliseconds and of retries, and not of what the agent made of a stream."""

PASS, FAIL, REFUSED = 0, 1, 2

TRUNCATED = "truncated-answer"
ESCAPED = "mid-stream-error-escaped"
IN_BAND = "in-band-error-missed"
NO_LIMIT = "no-stream-limit"
TWICE = "half-shown-twice"
AGAINST = "marks-against-wire"


class Case(NamedTuple):
    fault: str
    habit: str
    code: int
    findings: frozenset[str] = frozenset()
    params: dict[str, Any] = {}  # noqa: RUF012  # never written to
    told: str = "marks"
    """What tells the fallback's answers from the primary's: `marks`, `text` (fallback_matching), or `nobody`."""
    kind: str = ""
    """The exception's class that the diagnosis has to name."""


def row(fault: str, habit: str, code: int, *findings: str, told: str = "marks", kind: str = "", **params: Any) -> Case:
    return Case(fault, habit, code, frozenset(findings), params, told, kind)


SLOW = {"per_s": 4}

CASES: dict[str, tuple[Case, ...]] = {
    "anthropic_stream_agent.py": (
        # `except anthropic.APIError`, and what came is the answer.
        row("clean-end", "narrow", FAIL, TRUNCATED),
        row("clean-end", "narrow", FAIL, TRUNCATED, told="text", framing="close"),
        row("cut-stream", "narrow", FAIL, ESCAPED, kind="RemoteProtocolError"),
        row("reset-stream", "narrow", FAIL, ESCAPED, kind="ReadError"),
        row("stall", "narrow", FAIL, ESCAPED, kind="ReadTimeout"),
        row("ping-stall", "narrow", FAIL, NO_LIMIT, every_ms=100),
        row("malformed-chunk", "narrow", FAIL, ESCAPED, kind="JSONDecodeError"),
        row("malformed-chunk", "narrow", FAIL, ESCAPED, where="framing", kind="RemoteProtocolError"),
        row("missing-terminal", "narrow", FAIL, TRUNCATED),
        row("error-event", "narrow", PASS),  # its APIStatusError is an APIError
        row("error-in-200", "narrow", FAIL, IN_BAND, AGAINST),
        row("empty-200", "narrow", FAIL, "hollow-fallback", AGAINST),
        # What a right one does with each.
        row("clean-end", "", PASS),
        row("cut-stream", "", PASS, told="text"),
        row("reset-stream", "", PASS),
        row("stall", "", PASS, told="text"),
        row("ping-stall", "", PASS, every_ms=100),
        row("error-event", "", PASS, shape="event", told="text"),
        row("malformed-chunk", "", PASS),
        row("missing-terminal", "", PASS),
        row("error-in-200", "", PASS, told="nobody"),
        row("empty-200", "", PASS, told="nobody"),
        row("split-utf8", "", PASS, told="text"),
        row("duplicate-events", "", PASS),
        row("slow-tokens", "", PASS, **SLOW),
        row("slow-tokens", "patient", FAIL, NO_LIMIT, **SLOW),
        # Nothing tells half an answer from the fallback's: nobody is blamed, and nobody passes.
        row("clean-end", "", REFUSED, told="nobody"),
        row("clean-end", "trusting", REFUSED, told="nobody"),
    ),
    "responses_stream_agent.py": (
        # Of the three shapes in which this API fails inside a stream, the SDK raises at one.
        row("error-event", "trusting", FAIL, IN_BAND, shape="flat"),
        row("error-event", "trusting", FAIL, IN_BAND, shape="failed", told="text"),
        row("error-event", "trusting", PASS, shape="nested"),
        row("error-event", "", PASS, shape="flat"),
        row("error-event", "", PASS, shape="failed"),
        row("clean-end", "trusting", FAIL, TRUNCATED),
        row("missing-terminal", "trusting", FAIL, TRUNCATED),
        row("missing-terminal", "", PASS, told="text"),
    ),
    "openai_stream_agent.mjs": (
        row("clean-end", "trusting", FAIL, TRUNCATED),
        row("clean-end", "trusting", FAIL, TRUNCATED, told="text", after_events=3),
        row("clean-end", "", PASS),
        row("cut-answer", "trusting", FAIL, TRUNCATED, AGAINST),  # a finish reason of `length` is one too
        row("cut-stream", "", PASS, told="text", after_bytes=900),
        row("reset-stream", "replay", PASS, TWICE),
        row("reset-stream", "", PASS),
        row("stall", "", PASS),
        row("ping-stall", "", PASS, told="text", every_ms=100),
        row("ping-stall", "patient", FAIL, NO_LIMIT, every_ms=100),
        row("error-event", "", PASS, shape="data-error"),
        row("error-event", "trusting", PASS),  # the package raises
        row("malformed-chunk", "narrow", FAIL, ESCAPED, kind="SyntaxError"),
        row("missing-terminal", "", PASS),  # a chat's stream ends with its finish reason
        row("split-utf8", "", PASS),
        row("duplicate-events", "", PASS, told="text"),
        row("error-in-200", "trusting", FAIL, IN_BAND, AGAINST),
        row("error-in-200", "", PASS),
        row("empty-200", "", PASS),
    ),
    "fetch_stream_agent.mjs": (
        row("clean-end", "careless", FAIL, TRUNCATED),
        row("error-event", "careless", FAIL, IN_BAND),
        row("error-event", "", PASS),
        row("error-in-200", "careless", FAIL, IN_BAND, AGAINST),
        row("malformed-chunk", "", PASS, told="text"),
        row("split-utf8", "", PASS, bytes=3),
        row("cut-stream", "careless", PASS),  # fetch itself rejects
    ),
    "litellm_router_agent.py": (
        # The router falls back before the first word, and not after it (1.110.2).
        row("reset", "", PASS),
        row("clean-end", "", FAIL, ESCAPED, kind="APIConnectionError"),
        row("reset-stream", "", FAIL, ESCAPED, kind="APIConnectionError", told="text"),
        row("stall", "", FAIL, ESCAPED, kind="Timeout"),
        row("error-event", "", FAIL, ESCAPED, kind="APIConnectionError"),
        row("ping-stall", "", FAIL, NO_LIMIT, every_ms=100),
        row("error-in-200", "", FAIL, IN_BAND, AGAINST),  # it makes up a finish reason of `stop`
        row("empty-200", "", FAIL, "hollow-fallback", AGAINST),
        row("clean-end", "guarded", PASS),
        row("stall", "guarded", PASS),
        row("ping-stall", "guarded", PASS, told="text", every_ms=100),
        row("error-event", "guarded", PASS),
        row("error-in-200", "guarded", PASS),
    ),
}

LIMITS: dict[str, Any] = {
    "gate": "eviction",
    "max_fallback_s": 2.5,
    "max_failed_ratio": 0.05,
    "failed_window": "fault",
    "max_recovery_s": 2.5,
    "min_met": 5,
    "max_baseline_failed_ratio": 0,
    "max_unattributed_ratio": 0.05,
    "max_clock_step_s": 1,
}
POLICY: dict[str, Any] = {
    "kind": "policy",
    "version": 1,
    "source": "tests of this repository",
    "owner": "its maintainers",
    "review_by": "2099-12-31",
    "gates": [LIMITS],
}


@pytest.fixture(scope="module")
def provider() -> Iterator[int]:
    argv = [*CLI, "standin", "provider", "--port", "0", "--latency-ms", "8", "--die-with-parent"]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        yield int(process.stdout.readline().rpartition(":")[2].partition("/")[0])
        process.terminate()


@pytest.fixture(scope="module")
def node_modules(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The `openai` package of npm: one folder without dependencies, 20 MB, two seconds."""
    folder = tmp_path_factory.mktemp("node")
    argv = [shutil.which("npm") or "npm", "install", "--no-audit", "--no-fund", "--ignore-scripts", "openai@6"]
    done = subprocess.run(argv, cwd=folder, capture_output=True, text=True, timeout=120)
    if done.returncode:
        pytest.skip("needs npm's openai package")
    return folder


def litellm_python() -> str:
    named = os.environ.get("DRILLMASTER_LITELLM_PYTHON", "")
    if not named and importlib.util.find_spec("litellm") is None:
        pytest.skip("needs litellm (DRILLMASTER_LITELLM_PYTHON)")
    return named or sys.executable


def phases(agent: str) -> dict[str, dict[str, float]]:
    """LiteLLM's router takes tens of milliseconds of CPU for a request: half the traffic, for longer."""
    slow = agent.startswith("litellm")
    return {
        "traffic": {"every_s": 0.28 if slow else 0.15, "time_limit_s": 3},
        "phases": {"baseline_s": 3 if slow else 1.5, "fault_s": 6 if slow else 5, "recovery_s": 3},
    }


def plan(agent: str, case: Case, provider_port: int, program: list[str], env: dict[str, str]) -> dict[str, Any]:
    agent_port, proxy_port = free_ports(2)
    worker = {"PORT": str(agent_port), "HABIT": case.habit, "TRACE": "1", **env}
    worker |= {"MARKS": "1"} if case.told == "marks" else {}
    expect: dict[str, Any] = {"min_chars": 10}
    told = "We are looking into it"
    if agent.startswith("litellm"):
        worker["BACKUP_BASE_URL"] = f"http://127.0.0.1:{provider_port}/v1"
        expect["pointer"] = "/text"
        told = '"model": "standin-small"'
    expect |= {"fallback_matching": told} if case.told == "text" else {}
    return {
        "kind": "plan",
        "drill": "eviction",
        "service": f"{agent} {case.habit or 'right'} under {case.fault}",
        "target": {
            "url": f"http://127.0.0.1:{agent_port}/answer?q={{payload}}",
            "payloads": ["Where is my order?", "When are you open?", "I want a refund"],
            "expect": expect,
        },
        "proxy": {"listen": f"127.0.0.1:{proxy_port}", "upstream": f"http://127.0.0.1:{provider_port}"},
        "policy": "policy.json",
        **phases(agent),
        "fault": {"mode": case.fault, "params": case.params, "linger_s": 1},
        "worker": {"cmd": [*program, str(AGENTS / agent)], "env": worker, "ready_s": 60},
    }


def drill(agent: str, case: Case, folder: Path, provider_port: int, program: list[str], env: dict[str, str]) -> str:
    """Run one drill; say what is wrong with its verdict, or nothing."""
    folder.mkdir()
    (folder / "plan.json").write_text(json.dumps(plan(agent, case, provider_port, program, env)))
    (folder / "policy.json").write_text(json.dumps(POLICY))
    argv = [*CLI, "run", "eviction", "plan.json", "--rehearsal", "--runs", "runs"]
    done = subprocess.run(argv, cwd=folder, capture_output=True, text=True, timeout=120, env=dict(os.environ))
    said = f"{agent} {case}:\n{done.stdout[-4000:]}\n{done.stderr[-2000:]}"
    found = list((folder / "runs").glob("*/verdict.json"))
    if len(found) != 1:
        return f"no verdict: {said}"
    causes = {f["id"]: f["cause"] for f in json.loads(found[0].read_text())["findings"]}
    findings = set(causes) - (ALWAYS - case.findings)
    if done.returncode != case.code or findings != case.findings:
        return f"exit {done.returncode} and {sorted(findings)}, wanted {case.code} and {sorted(case.findings)}: {said}"
    if case.kind and case.told == "marks" and case.kind not in causes[ESCAPED]:
        return f"{case.kind} is not named: {said}"
    return ""


def drill_all(agent: str, folder: Path, provider_port: int, program: list[str], env: dict[str, str]) -> list[str]:
    def one(number: int, case: Case) -> str:
        return drill(agent, case, folder / f"{number:02}-{case.fault}", provider_port, program, env)

    with ThreadPoolExecutor(1 if agent.startswith("litellm") else AT_ONCE) as pool:
        return [text for text in pool.map(one, range(len(CASES[agent])), CASES[agent]) if text]


def test_an_anthropic_agent_that_streams(provider: int, tmp_path: Path) -> None:
    wrong = drill_all("anthropic_stream_agent.py", tmp_path, provider, [sys.executable], {})
    assert not wrong, "\n\n".join(wrong)


def test_an_agent_that_streams_openai_s_responses(provider: int, tmp_path: Path) -> None:
    wrong = drill_all("responses_stream_agent.py", tmp_path, provider, [sys.executable], {})
    assert not wrong, "\n\n".join(wrong)


@pytest.mark.needs("node", "npm")
def test_an_agent_in_node_on_the_openai_package(provider: int, tmp_path: Path, node_modules: Path) -> None:
    env = {"NODE_MODULES": str(node_modules)}
    wrong = drill_all("openai_stream_agent.mjs", tmp_path, provider, ["node"], env)
    assert not wrong, "\n\n".join(wrong)


@pytest.mark.needs("node")
def test_an_agent_in_node_that_reads_the_stream_itself(provider: int, tmp_path: Path) -> None:
    wrong = drill_all("fetch_stream_agent.mjs", tmp_path, provider, ["node"], {})
    assert not wrong, "\n\n".join(wrong)


def test_an_agent_behind_litellm_s_router_whose_fallback_is_healthy(provider: int, tmp_path: Path) -> None:
    wrong = drill_all("litellm_router_agent.py", tmp_path, provider, [litellm_python()], {})
    assert not wrong, "\n\n".join(wrong)


def test_each_fault_inside_a_stream_is_drilled_and_each_finding_occurs() -> None:
    everything = [case for cases in CASES.values() for case in cases]
    assert {case.fault for case in everything} >= {
        "clean-end", "cut-stream", "reset-stream", "stall", "ping-stall", "error-event", "malformed-chunk",
        "missing-terminal", "split-utf8", "duplicate-events", "slow-tokens", "error-in-200", "empty-200",
    }  # fmt: skip
    assert {finding for case in everything for finding in case.findings} >= {
        TRUNCATED,
        ESCAPED,
        IN_BAND,
        NO_LIMIT,
        TWICE,
    }
