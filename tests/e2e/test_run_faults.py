"""Whole drills with faults other than the article's three: proof, path and verdict, over real sockets."""

import json
import os
import signal
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.drills import Drill, connects, drilling, wait_until

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(120)]


@pytest.fixture
def drill(tmp_path: Path) -> Iterator[Drill]:
    yield from drilling(tmp_path)


def rehearse(drill: Drill, tag: str, params: dict[str, Any], *, kind: str = "healthy") -> tuple[int, dict[str, Any]]:
    """Run a rehearsal; its exit code, and the verdict's checks by id."""
    drill.plan(kind=kind, fault={"mode": tag, "params": params})
    done = drill.run("--rehearsal", "--yes")
    path = drill.run_dir / "verdict.json"
    assert path.exists(), done.stderr
    verdict = json.loads(path.read_text())
    return done.returncode, {check["id"]: check for check in verdict["checks"]}


@pytest.mark.parametrize(
    "tag, params",
    [
        ("refused", {}),
        ("rst-on-accept", {}),
        ("syn-black-hole", {}),
        ("fin-before-headers", {}),
        ("hang-after-headers", {}),
        ("first-byte-delay", {"delay_ms": 5_000}),
        ("rate-limit", {"retry_after_s": 3600}),
        ("overloaded", {}),
    ],
)
def test_a_healthy_agent_passes_and_the_fault_is_proven(drill: Drill, tag: str, params: dict[str, Any]) -> None:
    code, checks = rehearse(drill, tag, params)
    assert checks["proof"]["status"] == "pass", checks["proof"]
    assert code == 0, {name: check for name, check in checks.items() if check["status"] != "pass"}
    assert connects(drill.proxy_port) is False  # the drill is over, and so is its proxy


@pytest.mark.parametrize("tag", ["refused", "rst-on-accept"])
def test_an_agent_without_a_fallback_fails(drill: Drill, tag: str) -> None:
    code, checks = rehearse(drill, tag, {}, kind="none")
    assert checks["proof"]["status"] == "pass", checks["proof"]
    assert code == 1


def test_an_agent_that_hands_on_what_the_fault_said_has_no_fallback(drill: Drill) -> None:
    code, checks = rehearse(drill, "weaker-answer", {}, kind="none")
    assert checks["proof"]["status"] == "pass", checks["proof"]
    assert checks["fallback"]["status"] == "fail", checks["fallback"]
    assert checks["failed"]["status"] == "fail", checks["failed"]
    assert code == 1


@pytest.mark.parametrize("tag", ["refused", "syn-black-hole"])
def test_an_agent_that_goes_elsewhere_is_refused_and_never_passed(drill: Drill, tag: str) -> None:
    drill.plan(kind=None)
    elsewhere = f"http://127.0.0.1:{drill.upstream_port}/ask"
    drill.plan(
        worker={"cmd": drill.agent("elsewhere", elsewhere), "ready_s": 15}, kind=None, fault={"mode": tag, "params": {}}
    )
    done = drill.run("--rehearsal", "--yes")
    assert done.returncode == 2, done.stderr


def test_a_primary_that_is_slow_and_still_answers_is_no_fallback_and_needs_none(drill: Drill) -> None:
    code, checks = rehearse(drill, "first-byte-delay", {"delay_ms": 100})
    assert checks["proof"]["status"] == "pass", checks["proof"]
    assert "no fallback was needed" in checks["fallback"]["title"]
    assert code == 0


def rules(drill: Drill, *rules: dict[str, Any], kind: str = "healthy") -> tuple[int, dict[str, Any]]:
    drill.plan(kind=kind, fault={"rules": list(rules)})
    done = drill.run("--rehearsal", "--yes")
    path = drill.run_dir / "verdict.json"
    assert path.exists(), done.stderr
    return done.returncode, {check["id"]: check for check in json.loads(path.read_text())["checks"]}


def test_rules_meet_whom_they_name_and_the_verdict_counts_each(drill: Drill) -> None:
    code, checks = rules(
        drill,
        {"mode": "first-byte-delay", "params": {"delay_ms": 20}, "name": "slow", "share": 0.9},
        {"mode": 503, "name": "down", "when": {"path": "/ask*", "method": "POST"}},
    )
    assert checks["rules"]["status"] == "pass", checks["rules"]
    assert "slow (first-byte-delay)" in checks["rules"]["why"]
    assert checks["fallback"]["status"] == "pass"
    assert code == 0, {name: check for name, check in checks.items() if check["status"] != "pass"}


def test_a_rule_that_nobody_fits_refuses_the_drill_and_says_what_came(drill: Drill) -> None:
    code, checks = rules(drill, {"mode": "reset", "when": {"model": "no-such-*"}}, {"mode": 503, "name": "chat"})
    assert code == 2
    assert checks["rules"]["status"] == "refused"
    assert "r1 (reset) fits no request; what came: POST /ask" in checks["rules"]["why"]


def test_rules_that_make_no_sense_are_refused_before_anything_starts(drill: Drill) -> None:
    drill.plan(fault={"rules": [{"mode": "refused", "share": 0.5}]})
    done = drill.run("--rehearsal", "--yes")
    assert done.returncode == 2
    assert "/fault/rules/0/mode" in done.stderr


@pytest.mark.parametrize("tag", ["refused", "syn-black-hole"])
def test_a_conductor_that_is_killed_leaves_a_port_that_opens_by_itself(drill: Drill, tag: str) -> None:
    drill.plan(fault={"mode": tag, "params": {}}, phases={"baseline_s": 1.5, "fault_s": 30, "recovery_s": 1.5})
    process = drill.start("--rehearsal", "--yes")
    drill.wait_for("fault_met", "events/proxy.jsonl")
    process.send_signal(signal.SIGKILL)
    process.communicate()

    def passes() -> bool:
        try:
            with socket.create_connection(("127.0.0.1", drill.proxy_port), timeout=1) as sock:
                sock.settimeout(1)
                sock.sendall(b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
                return b" 200 " in sock.recv(100)
        except OSError:
            return False

    wait_until(passes, within_s=12, what="a proxy that passes through")
    assert drill.events("events/proxy.jsonl", "fault_lifted")[0]["why"] == "expired"


@pytest.mark.parametrize("tag", ["refused", "syn-black-hole"])
def test_a_proxy_that_is_killed_with_its_port_closed_is_replaced_by_one_that_listens(drill: Drill, tag: str) -> None:
    drill.plan(fault={"mode": tag, "params": {}}, phases={"baseline_s": 1.5, "fault_s": 30, "recovery_s": 1.5})
    process = drill.start("--rehearsal", "--yes")
    drill.wait_for("fault_met", "events/proxy.jsonl")
    pid = drill.events("events/proxy.jsonl", "proxy_started")[0]["pid"]
    os.kill(pid, signal.SIGKILL)
    _, err = process.communicate(timeout=40)
    assert process.returncode == 3, err
    # The second one ends when it is told to; that it listens, on the very socket, is in test_faults_wire_ways.
    ended = drill.events("events/conductor.jsonl", "proxy_exited")
    assert [(row["code"], row["expected"]) for row in ended] == [(-9, False), (0, True)]
    assert (drill.run_dir / "seal.json").exists()


def test_a_fault_of_streams_is_named_in_the_baseline_of_an_agent_that_asks_for_whole_answers(drill: Drill) -> None:
    drill.plan(kind="healthy", fault={"mode": "clean-end"})
    done = drill.run("--rehearsal", "--yes")
    assert done.returncode == 2, done.stderr
    warned, _, after = done.stderr.partition("FAULT INJECTED at ")
    assert "warning: clean-end strikes streamed answers alone, and this agent asks for whole ones" in warned
    assert "clean-end" in after.splitlines()[0]
    assert "\nFAIL " not in done.stdout and "finding" not in done.stdout
    assert "mend proof: take a fault that strikes whole answers (mode: cut-body, or reset, 503, hang)" in done.stdout
