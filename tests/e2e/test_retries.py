"""Attempts as the wire accounts for them, against what the client's own transport and the endpoint counted.

An agent's loop of two over an SDK of three attempts, in a whole drill by the command line, once under a rate limit that asks
for a wait and once under a plain 503.
"""

import json
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from drillmaster.intake.run import open_run
from drillmaster.retries import Accounting, account
from tests.e2e.drills import free_ports

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(120)]

AGENT = Path(__file__).parent / "agents" / "looping_agent.py"
CLI = (sys.executable, "-m", "drillmaster")
TOKENS = 21
POLICY = {
    "kind": "policy",
    "version": 1,
    "source": "tests of this repository",
    "owner": "its maintainers",
    "review_by": "2099-12-31",
    "gates": [
        {
            "gate": "eviction",
            "max_fallback_s": 6,
            "max_failed_ratio": 0.1,
            "failed_window": "fault",
            "max_recovery_s": 3,
            "min_met": 5,
            "max_baseline_failed_ratio": 0,
            "max_unattributed_ratio": 0.05,
            "max_clock_step_s": 1,
            "max_attempts_per_request": 5,
        }
    ],
}


class Endpoint:
    """A model endpoint that counts whom it answered."""

    def __init__(self) -> None:
        self.asked: Counter[str] = Counter()
        lock = threading.Lock()

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(handler) -> None:
                handler.rfile.read(int(handler.headers["content-length"]))
                with lock:
                    self.asked[handler.headers.get("traceparent", "--").split("-")[1]] += 1
                usage = {"prompt_tokens": 9, "completion_tokens": TOKENS - 9, "total_tokens": TOKENS}
                message = {"role": "assistant", "content": "an answer of the primary"}
                choice = {"index": 0, "message": message, "finish_reason": "stop"}
                said = {"id": "c", "object": "chat.completion", "created": 1, "model": "large", "choices": [choice]}
                body = json.dumps({**said, "usage": usage}).encode()
                handler.send_response(200)
                handler.send_header("content-type", "application/json")
                handler.send_header("content-length", str(len(body)))
                handler.end_headers()
                handler.wfile.write(body)

            def do_GET(handler) -> None:
                handler.send_error(404)

            def log_message(handler, *args: Any) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.port = self.server.server_address[1]
        threading.Thread(target=self.server.serve_forever, daemon=True).start()


@pytest.fixture
def endpoint() -> Iterator[Endpoint]:
    one = Endpoint()
    yield one
    one.server.shutdown()
    one.server.server_close()


def drill(folder: Path, endpoint: Endpoint, fault: dict[str, Any]) -> tuple[Path, list[dict[str, Any]]]:
    """Run one drill; its folder, and the agent's own lines."""
    agent_port, proxy_port = free_ports(2)
    log = folder / "sent.jsonl"
    plan = {
        "kind": "plan",
        "drill": "eviction",
        "service": "looping agent",
        "target": {
            "url": f"http://127.0.0.1:{agent_port}/answer?q={{payload}}",
            "payloads": ["Where is my order?", "When are you open?"],
            "expect": {"min_chars": 10},
        },
        "traffic": {"every_s": 0.5, "time_limit_s": 8},
        "proxy": {"listen": f"127.0.0.1:{proxy_port}", "upstream": f"http://127.0.0.1:{endpoint.port}"},
        "policy": "policy.json",
        "phases": {"baseline_s": 2.5, "fault_s": 7, "recovery_s": 4},
        "fault": fault,
        "worker": {"cmd": [sys.executable, str(AGENT)], "env": {"PORT": str(agent_port), "LOG": str(log)}},
    }
    (folder / "plan.json").write_text(json.dumps(plan))
    (folder / "policy.json").write_text(json.dumps(POLICY))
    argv = [*CLI, "run", "eviction", "plan.json", "--rehearsal", "--runs", "runs"]
    done = subprocess.run(argv, cwd=folder, capture_output=True, text=True, timeout=90)
    found = list((folder / "runs").glob("*/verdict.json"))
    assert len(found) == 1, done.stdout + done.stderr
    return found[0].parent, [json.loads(line) for line in log.read_text().splitlines()]


@pytest.mark.parametrize("fault", [{"mode": "rate-limit", "params": {"retry_after_s": 1}}, {"mode": "503"}], ids=str)
def test_the_wire_s_account_is_the_client_s_and_the_endpoint_s(
    tmp_path: Path, endpoint: Endpoint, fault: dict[str, Any]
) -> None:
    run_dir, sent = drill(tmp_path, endpoint, fault)
    run = open_run(run_dir)
    books = account(run)
    assert books is not None
    traces = {a.request: a.trace for a in run.attempts if a.request is not None}
    mine = {trace for trace in traces.values() if trace is not None}
    sent = [line for line in sent if line["trace"] in mine]

    # Whose: request by request, as the client's own transport counted them.
    counted = Counter(line["trace"] for line in sent)
    assert {traces[r.id]: len(r.attempts) for r in run.requests if r.attempts} == dict(counted)
    assert sum(phase.attempts for phase in books.phases) == len(sent)
    assert not any(phase.unattributed for phase in books.phases)

    # Why: the layers that the client and its loop know of themselves.
    layers = [phase.layers for phase in books.phases]
    assert sum(one.sdk for one in layers) == sum(line["sdk"] > 0 for line in sent)
    assert sum(one.above for one in layers) == sum(line["sdk"] == 0 and line["loop"] > 0 for line in sent)
    assert sum(one.call for one in layers) == sum(line["sdk"] == 0 and line["loop"] == 0 for line in sent)
    assert not any(one.untold or one.elsewhere for one in layers)
    fault_phase = books.phase("fault", "w1") or books.phases[1]
    assert (fault_phase.nested.tries, fault_phase.nested.attempts_a_try, fault_phase.nested.attempts) == (2, 3, 6)

    # What it cost: every answer of the endpoint's, none of them twice for one call.
    answered = sum(n for trace, n in endpoint.asked.items() if trace in mine)
    assert sum(phase.tokens.told for phase in books.phases) == TOKENS * answered
    assert not any(phase.tokens.again or phase.tokens.estimated for phase in books.phases)

    _waits(books, run_dir, asked=fault["mode"] == "rate-limit", refused=len(sent) - answered)
    _shown(run_dir, books)


def _waits(books: Accounting, run_dir: Path, *, asked: bool, refused: int) -> None:
    """The SDK keeps to the wait; the loop above it does not know of it, and comes after its own pause."""
    waits = [phase.waits for phase in books.phases]
    found = {one["id"] for one in json.loads((run_dir / "verdict.json").read_text())["findings"]}
    assert "nested-retries" in found
    if not asked:
        assert not any(one.asked for one in waits)
        assert "retried-too-early" not in found
        return
    assert sum(one.asked for one in waits) == refused
    # Every wait that was cut short was cut by the loop.
    assert sum(one.early for one in waits) == sum(phase.layers.above for phase in books.phases)
    assert sum(one.kept for one in waits) == sum(phase.layers.sdk for phase in books.phases)
    assert 0.5 < max(one.most_early_s or 0 for one in waits) < 0.9  # a second less the loop's fifth of one
    assert "retried-too-early" in found


def _shown(run_dir: Path, books: Accounting) -> None:
    """People see it: the check that a limit asks for, the card, the page, and the JSON of the report."""
    verdict = json.loads((run_dir / "verdict.json").read_text())
    check = next(one for one in verdict["checks"] if one["id"] == "attempts")
    assert (check["status"], check["observed"]["value"], check["limit"]) == ("fail", 6, 5)
    argv = [*CLI, "report", str(run_dir), "--json"]
    said = json.loads(subprocess.run(argv, capture_output=True, text=True, timeout=60, check=True).stdout)
    assert said["retries"]["phases"][1]["layers"]["sdk"] == books.phases[1].layers.sdk
    assert "What the endpoint got" in (run_dir / "report.html").read_text(encoding="utf-8")
    card = subprocess.run([*CLI, "card", str(run_dir)], capture_output=True, text=True, timeout=60, check=True).stdout
    assert "- attempts: " in card
    assert len(card.splitlines()) <= 45
