"""Fault matrices of agents that are not ours: one command, and a word for each cell that is the right one."""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.drills import POLICY, alive, connects, free_ports, wait_until

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(180)]

AGENTS = Path(__file__).parent / "agents"
PYTHON = (sys.executable, str(AGENTS / "both_ways_agent.py"))
NODE = ("node", str(AGENTS / "fetch_agent.mjs"))


class Bench:
    """A stand-in provider, an agent that the drill starts, and one plan."""

    def __init__(self, folder: Path, state: Path) -> None:
        self.folder = folder
        self.upstream, self.agent, self.proxy = free_ports(3)
        self.env = {**os.environ, "DRILLMASTER_STATE": str(state)}
        self.processes: list[subprocess.Popen[str]] = []
        provider = ("standin", "provider", "--port", str(self.upstream), "--latency-ms", "5", "--token-ms", "1")
        self._spawn(self.command(*provider, "--die-with-parent"), stdout=subprocess.DEVNULL)
        wait_until(lambda: connects(self.upstream), what="the provider")
        (folder / "policy.yaml").write_text(POLICY)

    def _spawn(self, argv: list[str], **more: Any) -> "subprocess.Popen[str]":
        process = subprocess.Popen(argv, cwd=self.folder, env=self.env, text=True, **more)
        self.processes.append(process)
        return process

    def command(self, *args: str) -> list[str]:
        return [sys.executable, "-m", "drillmaster", *args]

    def plan(self, *faults: str, cmd: tuple[str, ...] = PYTHON, env: dict[str, str] | None = None, **over: Any) -> None:
        plan: dict[str, Any] = {
            "kind": "plan",
            "drill": "matrix",
            "service": "toy",
            "target": {
                "url": f"http://127.0.0.1:{self.agent}/?q={{payload}}",
                "payloads": ["stream: where is my order?", "whole: where is my order?"],
                "expect": {"min_chars": 5},
            },
            "traffic": {"every_s": 0.06, "time_limit_s": 3},
            "proxy": {"listen": f"127.0.0.1:{self.proxy}", "upstream": f"http://127.0.0.1:{self.upstream}"},
            "matrix": {
                "faults": list(faults), "baseline_s": 1.2, "window_s": 1, "recovery_s": 0.3, "back_within_s": 10,
                "requests_per_cell": 2,
            },
            "worker": {"cmd": list(cmd), "env": {"PORT": str(self.agent), **(env or {})}, "ready_s": 30},
        }  # fmt: skip
        for name, value in over.items():
            plan[name] = {**plan[name], **value} if isinstance(plan.get(name), dict) else value
        (self.folder / "matrix-plan.yaml").write_text(json.dumps(plan))

    def start(self, *args: str) -> "subprocess.Popen[str]":
        pipe = subprocess.PIPE
        argv = self.command("run", "matrix", "--rehearsal", "--yes", *args)
        return self._spawn(argv, stdout=pipe, stderr=pipe, stdin=subprocess.DEVNULL)

    def run(self, *args: str) -> tuple[int, dict[str, Any], str]:
        """Run a matrix: exit code, the table, and what was said on the way."""
        process = self.start("--json", *args)
        out, err = process.communicate(timeout=120)
        assert out, err
        return process.returncode, json.loads(out), err

    def verb(self, *args: str) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            self.command(*args), cwd=self.folder, env=self.env, capture_output=True, text=True, timeout=60
        )

    @property
    def run_dir(self) -> Path:
        return max(path for path in (self.folder / "runs").iterdir() if path.is_dir())

    def injected(self, window: str) -> bool:
        with contextlib.suppress(OSError, ValueError):
            text = (self.run_dir / "events/proxy.jsonl").read_text()
            return any('"fault_met"' in line and f'"{window}"' in line for line in text.splitlines())
        return False

    def wrote(self, event: str) -> bool:
        with contextlib.suppress(OSError, ValueError):
            return f'"{event}"' in (self.run_dir / "events/conductor.jsonl").read_text()
        return False

    def close(self) -> None:
        for process in self.processes:
            if process.poll() is None:
                process.kill()
            process.communicate()
        for entry in Path("/proc").iterdir():
            with contextlib.suppress(OSError, ValueError):
                if self.env["DRILLMASTER_STATE"].encode() in (entry / "environ").read_bytes() and alive(
                    int(entry.name)
                ):
                    os.kill(int(entry.name), signal.SIGKILL)


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    state = Path(tempfile.mkdtemp(prefix="dm-", dir="/tmp"))
    bench = Bench(tmp_path, state)
    try:
        yield bench
    finally:
        bench.close()
        shutil.rmtree(state, ignore_errors=True)


# An agent that falls back on error statuses and time limits alone.
WORDS = {
    ("503", False): "survived by fallback",
    ("503", True): "survived by fallback",
    ("hang", False): "survived by fallback",
    ("reset", False): "never engaged",
    ("reset", True): "never engaged",
    ("html-200", False): "never engaged",
    ("html-200", True): "answered with garbage",
    ("login-redirect", False): "never engaged",  # the page is no error of the SDK's own
    ("login-redirect", True): "answered with garbage",
    ("clean-end", True): "answered with garbage",
    ("error-event", True): "never engaged",
    ("body-drip", True): "hung",
    ("usage-skew", False): "no fallback needed",
    ("refused", None): "never engaged",
}


def test_every_cell_gets_the_word_that_the_agents_code_deserves(bench: Bench) -> None:
    faults = list(dict.fromkeys(tag for tag, _ in WORDS))
    bench.plan(*faults, "mcp-error", policy="policy.yaml", matrix={"window_s": 1.4})
    code, table, said = bench.run()
    found = {(r["label"], r["stream"]): r for r in table["results"]}
    assert {key: found[key]["word"] for key in WORDS} == WORDS, said
    assert code == table["exit"] == 1  # the policy allows a tenth, and cells failed all
    for key, word in WORDS.items():
        assert found[key]["failed"] is (word not in ("survived by fallback", "no fallback needed")), found[key]

    reset, down, html = found["reset", True], found["503", False], found["html-200", False]
    assert set(reset["wire"]) == {"reset without an answer"} and set(reset["exceptions"]) == {"APIConnectionError"}
    assert set(down["wire"]) == {"status 503"} and set(down["fallbacks"]) == {"small-model"}
    assert set(html["exceptions"]) == {"AttributeError"}
    assert set(found["login-redirect", False]["wire"]) == {"status 302", "status 200, the fault's own"}
    assert set(found["clean-end", True]["users"]) == {"truncated"}
    assert all(r["back_s"] is not None for r in found.values())

    left = {(e["label"], e["stream"]): e["why"] for e in table["not_run"]}
    assert left["clean-end", False] == "it strikes streamed answers alone"
    assert "made none" in left["mcp-error", None]
    assert not any(e["should"] for e in table["not_run"])

    # The run is sealed, the page is small and its own, and whoever reads the folder reads the same.
    assert bench.verb("verify", str(bench.run_dir)).returncode == 0
    page = (bench.run_dir / "matrix.html").read_text()
    assert (
        len(page.encode()) < 200_000
        and "never engaged" in page
        and "<script" not in page
        and "events/proxy.jsonl" in page
    )
    again = json.loads(bench.verb("matrix", str(bench.run_dir), "--json").stdout)
    assert [name for name, value in table.items() if again.get(name) != value] == ["html"]
    gate = bench.verb("gate", "eviction", str(bench.run_dir))
    assert gate.returncode == 2 and "matrix" in gate.stderr


def test_ctrl_c_lifts_seals_prints_what_there_is_and_names_the_rest(bench: Bench) -> None:
    bench.plan("503", "reset", "hang", matrix={"window_s": 2})
    process = bench.start("--json")
    wait_until(lambda: bench.injected("w2"), 60, "the second cell")
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    table = json.loads(out)
    assert process.returncode == 3, err
    assert table["results"][0]["word"] == "survived by fallback"
    assert [e["why"] for e in table["not_run"]] == ["stopped: SIGINT: somebody ended the drill"] * 4
    assert bench.verb("verify", str(bench.run_dir)).returncode == 0
    assert not connects(bench.proxy) and not connects(bench.agent)


def test_ctrl_c_while_the_agent_is_started_anew_is_not_waited_out(bench: Bench) -> None:
    bench.plan("503", "reset", env={"BREAKER": "300"}, worker={"ready_s": 200}, matrix={"back_within_s": 1})
    process = bench.start("--json")
    wait_until(lambda: bench.wrote("agent_restarted"), 60, "an agent started anew")
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)  # it would be 201 s
    assert (process.returncode, json.loads(out)["ended"]) == (3, "SIGINT: somebody ended the drill"), err


def test_a_killed_conductor_leaves_no_fault_and_evidence_that_can_be_read(bench: Bench) -> None:
    bench.plan("503", "reset", matrix={"window_s": 20})
    process = bench.start()
    wait_until(lambda: bench.injected("w1"), 60, "the first cell")
    process.kill()
    process.communicate()
    events = bench.run_dir / "events/proxy.jsonl"
    wait_until(lambda: '"fault_lifted"' in events.read_text(), 30, "a lift without a conductor")
    assert bench.verb("matrix", str(bench.run_dir)).returncode == 2  # not sealed yet
    assert bench.verb("seal", str(bench.run_dir)).returncode == 0
    shown = bench.verb("matrix", str(bench.run_dir))
    assert shown.returncode == 3, shown.stdout + shown.stderr
    assert "its end was never written" in shown.stdout and "the evidence ends before it" in shown.stdout


@pytest.mark.skipif(shutil.which("node") is None, reason="no node here")
def test_an_agent_in_node_that_gives_its_primary_up_is_started_anew(bench: Bench) -> None:
    clingy = {"HABIT": "clingy", "MARKS": "1", "TRACE": "1"}
    bench.plan("503", "reset", "stall", cmd=NODE, env=clingy, matrix={"back_within_s": 1})
    code, table, said = bench.run()
    found = {r["label"]: r for r in table["results"]}
    assert {label: r["word"] for label, r in found.items()} == {
        "503": "survived by fallback",
        "reset": "survived by fallback",
    }, said
    assert "gave the primary up" in found["503"]["not_back"] and found["503"]["restarted"]
    assert {e["why"] for e in table["not_run"] if e["label"] == "stall"} == {
        "it strikes streamed answers alone",
        "this agent asked openai_chat for no streams in the baseline",
    }
    assert code == 0
