"""The retries gate by its command line: a worker's own log of a soak, a drilled agent, and the article's line as it stands."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest

from drillmaster.gates._cases.retries import LIMITS
from tests.e2e.repolab import Repo
from tests.e2e.test_retries import Endpoint, drill, endpoint

__all__ = ["endpoint"]  # a fixture

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(120)]

WORKER = """
import json, sys, threading, time, urllib.request, urllib.error
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from drillmaster.guards.retry import FailedCall, Retry

planted = int(sys.argv[2])
voter = sys.argv[3]

class Handler(BaseHTTPRequestHandler):
    n = 0
    def do_POST(self):
        Handler.n += 1
        self.send_response(503 if Handler.n <= planted else 200)
        self.send_header("content-length", "0")
        self.end_headers()
    def log_message(self, *args): pass

server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
threading.Thread(target=server.serve_forever, daemon=True).start()
url = f"http://127.0.0.1:{server.server_address[1]}/"
guard = Retry(max_calls=3, deadline_ms=5000, base_ms=1, cap_ms=5, budget_tokens=1000, refund=1)
state = None
with open(sys.argv[1], "a") as log:
    def write(event, **fields):
        now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        log.write(json.dumps({"t": now, "event": event, **fields}) + "\\n")
    for n in range(100):
        write("user_request", id=f"r{n}")
        for attempt in range(1, 10):
            try:
                urllib.request.urlopen(urllib.request.Request(url, data=b"x", method="POST")).close()
                break
            except urllib.error.HTTPError as error:
                call = FailedCall(source=voter, protocol="http", method="POST", code=error.code, attempt=attempt,
                                  elapsed_ms=1, idempotency_key=f"k{n}", jitter=0.5)
                state, said = guard.step(state, call, 0)
                write("guard_decision", guard="retry", reason=said.reason, allowed=said.allowed, wait_ms=said.wait_ms,
                      attempt=attempt, route="refund")
                if not said.allowed:
                    break
server.shutdown()
"""


def soak(folder: Path, planted: int, voter: str = "pinned-map") -> Path:
    log = folder / "soak.jsonl"
    subprocess.run([sys.executable, "-c", WORKER, str(log), str(planted), voter], check=True, timeout=60)
    return log


ADAPTED = """
import sys, threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
import httpx
from drillmaster import mark
from drillmaster.adapters.worker.recording import Recorder
from drillmaster.adapters.worker.retry import Refused, Retries
from drillmaster.adapters.worker.retry_httpx import retrying
from drillmaster.guards.retry import Retry
from drillmaster.stores.one_process import OneProcess

class Handler(BaseHTTPRequestHandler):
    n = 0
    def do_POST(self):
        Handler.n += 1
        self.send_response(503 if Handler.n <= int(sys.argv[1]) else 200)
        self.send_header("content-length", "0")
        self.end_headers()
    def log_message(self, *args): pass

server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
threading.Thread(target=server.serve_forever, daemon=True).start()
guard = Retry(max_calls=3, deadline_ms=5000, base_ms=1, cap_ms=5, budget_tokens=1000, refund=1, route="refund")
retries = Retries(guard, OneProcess(), recorder=Recorder())
with httpx.Client(transport=retrying(httpx.HTTPTransport(), retries)) as client:
    for n in range(100):
        mark("user_request", id=f"r{n}")
        client.post(f"http://127.0.0.1:{server.server_address[1]}/", headers={"idempotency-key": f"k{n}"})
server.shutdown()
"""


def gate(folder: Path, *words: str) -> tuple[int, str]:
    done = subprocess.run(
        [sys.executable, "-m", "drillmaster", "gate", "retries", *words],
        cwd=folder,
        env={**os.environ, "DRILLMASTER_STATE": str(folder / "state")},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    return done.returncode, done.stdout + done.stderr


def policy(folder: Path, **more: Any) -> str:
    limits = {**msgspec.to_builtins(LIMITS), "min_requests": 100, "min_decisions": 2, "routes": {"refund": 3}, **more}
    told = {
        "kind": "policy",
        "version": 1,
        "source": "retry-runbook",
        "owner": "Ada",
        "review_by": "2199-02-28",
        "gates": [limits],
    }
    (folder / "policy.json").write_text(json.dumps(told))
    return "policy.json"


def test_a_soak_with_three_planted_failures_passes_and_with_nine_fails(tmp_path: Path) -> None:
    log = soak(tmp_path, 3)
    code, said = gate(tmp_path, log.name, "--policy", policy(tmp_path, max_reason_ratio={}))
    assert code == 0, said
    assert "UNSEALED" in said and "100 requests, 2 retries allowed, 1 denied" in said
    log.unlink()
    code, said = gate(tmp_path, soak(tmp_path, 9).name, "--policy", policy(tmp_path, max_reason_ratio={}))
    assert code == 1, said
    assert re.search(r"FAIL at most 0.05 retries for each request: 6 of 100", said)


@pytest.mark.parametrize(("planted", "code"), [(4, 0), (12, 1)])
def test_what_our_own_adapter_writes_for_httpx_is_judged(tmp_path: Path, planted: int, code: int) -> None:
    env = {**os.environ, "DRILL_LOG": str(tmp_path / "soak.jsonl")}
    subprocess.run([sys.executable, "-c", ADAPTED, str(planted)], check=True, timeout=60, env=env)
    found, said = gate(tmp_path, "soak.jsonl", "--policy", policy(tmp_path, max_reason_ratio={}))
    assert found == code, said
    # Three calls each: two of them are retries.
    assert f"{planted // 3 * 2 + planted % 3} of 100" in said


def test_a_model_that_votes_in_the_worker_stops_the_ship(tmp_path: Path) -> None:
    log = soak(tmp_path, 1, voter="free-model")
    for flags in (("--max-retry-ratio", "0.05", "--forbid-reason", "unpinned-source"), ("--policy", policy(tmp_path))):
        code, said = gate(tmp_path, log.name, *flags)
        assert code == 1, said
        assert "FAIL no decision says unpinned-source" in said and "soak.jsonl:2" in said


def test_the_articles_flags_judge_a_log_and_say_what_they_do_not_ask(tmp_path: Path) -> None:
    code, said = gate(
        tmp_path, soak(tmp_path, 2).name, "--max-retry-ratio", "0.05", "--forbid-reason", "unpinned-source"
    )
    assert code == 0, said
    for stamp in ("UNPINNED", "UNSEALED", "AGE NOT JUDGED", "WORST CASE NOT JUDGED"):
        assert stamp in said


def test_the_articles_own_line_has_no_log_and_is_refused_with_the_line_that_works(tmp_path: Path) -> None:
    code, said = gate(tmp_path, "--max-retry-ratio", "0.05", "--forbid-reason", "unpinned-source")
    assert code == 2
    found = re.search(r"drillmaster gate retries (soak\.jsonl .*)$", said.strip())
    assert found is not None, said
    soak(tmp_path, 2)
    assert gate(tmp_path, *found[1].split())[0] == 0


@pytest.mark.parametrize("more", [("--policy", "policy.json"), ("--base", "main")])
def test_limits_from_two_places_are_refused(tmp_path: Path, more: tuple[str, str]) -> None:
    policy(tmp_path)
    soak(tmp_path, 2)
    code, said = gate(tmp_path, "soak.jsonl", "--max-retry-ratio", "9", "--forbid-reason", "unpinned-source", *more)
    assert code == 2 and "limits twice" in said


@pytest.mark.needs("git")
def test_in_ci_the_policy_is_the_bases_and_a_laxer_one_of_the_change_is_a_finding(tmp_path: Path) -> None:
    repo = Repo(tmp_path / "repo")
    text = (repo.path.parent / policy(tmp_path, max_reason_ratio={})).read_text()
    repo.commit({".drillmaster/retries-policy.yaml": text})
    repo.branch("change")
    soak(tmp_path, 9)
    (tmp_path / "soak.jsonl").rename(repo.path / "soak.jsonl")
    lax = (repo.path.parent / policy(tmp_path, max_reason_ratio={}, max_retry_ratio=9)).read_text()
    repo.commit({".drillmaster/retries-policy.yaml": lax})
    code, said = gate(repo.path, "soak.jsonl", "--base", "main")
    assert code == 1, said
    assert "6 of 100" in said


def test_a_drilled_agent_whose_sdk_retries_inside_its_loop_is_found_on_the_wire(
    tmp_path: Path, endpoint: Endpoint
) -> None:
    run_dir, _ = drill(tmp_path, endpoint, {"mode": "503"})
    one = {"layers": [{"name": "loop", "kind": "again", "times": 2}], "max_calls": 2, "min_requests": 5, "routes": {}}
    code, said = gate(tmp_path, str(run_dir), "--policy", policy(tmp_path, **one), "--json")
    assert code == 1, said
    checks = {check["id"]: check for check in json.loads(said)["checks"]}
    assert checks["retry-ratio"]["status"] == checks["as-declared"]["status"] == "fail"
    assert checks["sealed"]["status"] == "pass"
    assert checks["decisions"]["status"] == checks["retries-decided"]["status"] == "refused"
    assert checks["as-declared"]["observed"]["value"] == 6  # three of the SDK, twice
