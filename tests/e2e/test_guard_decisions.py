"""Decisions from the command line with a store, their lines in the gate that reads them, and a recorder in a worker that forks."""

import json
import os
import subprocess
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from drillmaster.adapters.worker.guarding import Guarding
from drillmaster.adapters.worker.recording import Recorder
from drillmaster.evidence import Row, rows
from drillmaster.guards import Decision
from drillmaster.guards.retry import FailedCall
from drillmaster.timeline import chunks, mark
from tests.e2e.guardlab import CLI, QUOTA, prepared, write_guards

pytestmark = pytest.mark.e2e

CALL = '{"partner": "ledger", "identity": "acct-7"}'


def explain(folder: Path, *words: str) -> tuple[int, dict[str, Any]]:
    ran = subprocess.run(
        [*CLI, "guard", "quota", "--explain", "-", "--guards", "guards.json", "--json", *words],
        input=CALL, cwd=folder, capture_output=True, text=True, timeout=60,
    )  # fmt: skip  # a command
    return ran.returncode, json.loads(ran.stdout)


def test_with_a_store_the_command_line_is_counted_as_a_worker_is(tmp_path: Path) -> None:
    from drillmaster.guards.quota import OutboundCall

    write_guards(tmp_path / "guards.json", {**QUOTA, "max_per_window": 10})  # one a minute, behind the burst
    url = prepared(tmp_path)
    worker = Guarding.open(tmp_path / "guards.json", store=url)
    assert [explain(tmp_path, "--store", url)[0] for _ in range(3)] == [0, 0, 0]
    call = OutboundCall(partner="ledger", identity="acct-7")
    assert [worker.decide("quota", call).allowed for _ in range(2)] == [True, True]
    code, told = explain(tmp_path, "--store", url)
    assert (code, told["reason"], told["how"]) == (1, "over-burst", "by the store, which has counted it as a worker's")
    assert explain(tmp_path)[0] == 0  # without a store nothing was counted
    worker.close()


def test_a_store_that_nobody_prepared_denies_on_the_command_line_too(tmp_path: Path) -> None:
    write_guards(tmp_path / "guards.json")
    for url in ("sqlite:none.db", "redis://127.0.0.1:1/0", "postgresql://x@127.0.0.1:1/x"):
        code, told = explain(tmp_path, "--store", url)
        assert (code, told["allowed"], told["reason"]) == (1, False, "store-unavailable")
    assert not (tmp_path / "none.db").exists()


def test_what_is_recorded_is_what_the_retries_gate_reads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = tmp_path / "soak.jsonl"
    monkeypatch.setenv("DRILL_LOG", str(log))
    guards = Guarding.open(write_guards(tmp_path / "guards.json"), store=prepared(tmp_path))
    failed = {"source": "pinned-map", "protocol": "http", "method": "GET", "attempt": 1, "elapsed_ms": 5}
    for n in range(100):
        mark("user_request", id=f"r-{n}", phase="end", status=200)
        if n % 25 == 0:
            guards.decide("retry", FailedCall(code=503, **failed), route="plan")
        if n % 50 == 0:
            guards.decide("retry", FailedCall(code=400, **failed), route="plan")

    def gate(ratio: str, *words: str) -> tuple[int, dict[str, Any]]:
        ran = subprocess.run(
            [*CLI, "gate", "retries", "soak.jsonl", "--max-retry-ratio", ratio, *words, "--json"],
            cwd=tmp_path, capture_output=True, text=True, timeout=60,
        )  # fmt: skip  # a command
        return ran.returncode, json.loads(ran.stdout)

    forbidden = ("--forbid-reason", "unpinned-source")
    code, told = gate("0.05", *forbidden)
    assert (code, told["counts"]["requests"], told["counts"]["decisions"], told["counts"]["retries"]) == (0, 100, 6, 4)
    assert gate("0.03", *forbidden)[0] == 1
    assert gate("0.05", "--forbid-reason", "status-not-retryable")[0] == 1
    guards.close()


def test_a_worker_that_forks_while_threads_decide_tears_no_line_and_waits_for_no_lock(tmp_path: Path) -> None:
    log = tmp_path / "timeline.jsonl"
    recorder = Recorder(log)
    over = threading.Event()

    def decide(who: str, times: int) -> None:
        for _ in range(times):
            recorder.record(who, "retry", None, Decision(allowed=False, reason="deadline"))

    def hammer() -> None:
        while not over.is_set():
            decide("parent", 1)
            time.sleep(0.001)

    threads = [threading.Thread(target=hammer) for _ in range(4)]
    for thread in threads:
        thread.start()
    children = []
    for n in range(20):
        child = os.fork()
        if not child:
            decide(f"child-{n}", 50)
            os._exit(0 if sum(recorder.counts().values()) == 50 else 1)  # the parent's counts are the parent's
        children.append(child)
    assert [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children] == [0] * 20
    over.set()
    for thread in threads:
        thread.join()
    found = list(rows(chunks(log), file="timeline.jsonl"))
    assert all(isinstance(row, Row) for row in found)
    entries = Counter(row.fields["entry"] for row in found if isinstance(row, Row) and row.event == "guard_decision")
    assert set(entries) == {"parent", *(f"child-{n}" for n in range(20))}
    assert entries["parent"] <= recorder.counts()["parent", "retry", "deadline", False]
    assert (
        max(count for who, count in entries.items() if who != "parent") <= 50
    )  # a line that a full disk lost is counted as lost
