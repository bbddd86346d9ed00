"""Clocks that lie: a fault ends all the same, and a drill whose clock jumped says so. Needs libfaketime."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.drills import Drill, drilling, free_ports, wait_until

LIBRARY = next(iter(sorted(Path("/usr/lib").glob("*/faketime/libfaketimeMT.so.1"))), None)
pytestmark = [
    pytest.mark.e2e,
    pytest.mark.timeout(90),
    pytest.mark.skipif(LIBRARY is None, reason="faketime is not installed"),
]


@pytest.fixture
def drill(tmp_path: Path) -> Iterator[Drill]:
    yield from drilling(tmp_path)


def _faked(env: dict[str, str], clock: Path) -> dict[str, str]:
    """An environment whose clocks, the monotonic one too, are what the file `clock` says."""
    clock.write_text("+0\n")
    return {**env, "LD_PRELOAD": str(LIBRARY), "FAKETIME_TIMESTAMP_FILE": str(clock), "FAKETIME_NO_CACHE": "1"}


def _set(clock: Path, to: str) -> None:
    draft = clock.with_suffix(".new")
    draft.write_text(to + "\n")
    draft.replace(clock)


def _ask(control: Path, method: str, path: str, body: object = None) -> tuple[int, dict[str, object]]:
    content = b"" if body is None else json.dumps(body).encode()
    with socket.socket(socket.AF_UNIX) as sock:
        sock.settimeout(5)
        sock.connect(str(control))
        sock.sendall(b"%b %b HTTP/1.1\r\nHost: c\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%b" % (
            method.encode(), path.encode(), len(content), content,
        ))  # fmt: skip
        answer = b""
        while piece := sock.recv(65_536):
            answer += piece
    head, _, rest = answer.partition(b"\r\n\r\n")
    return int(head.split()[1]), json.loads(rest)


@pytest.mark.parametrize("to", ["-3600s", "2026-01-01 00:00:00"])  # it goes back; it goes back and then stands still
def test_a_fault_ends_without_its_owner_whatever_the_clock_says(tmp_path: Path, to: str) -> None:
    clock, control = tmp_path / "clock", tmp_path / "c.sock"
    upstream, port = free_ports(2)
    settings = {"port": port, "upstream": f"http://127.0.0.1:{upstream}", "control_path": str(control)}
    proxy = subprocess.Popen(
        [sys.executable, "-m", "drillmaster.proxy", json.dumps(settings)], env=_faked({**os.environ}, clock)
    )
    try:
        wait_until(control.exists, what="the proxy")
        order = {"window": "w", "fault": "reset", "params": {}, "ttl_s": 3, "linger_s": 0}
        assert _ask(control, "POST", "/inject", order)[0] == 200
        _set(clock, to)
        began = time.monotonic()
        wait_until(lambda: _ask(control, "GET", "/state")[1]["mode"] == "pass", 8, "a fault that is gone")
        assert time.monotonic() - began < 6
    finally:
        proxy.terminate()
        try:
            assert proxy.wait(timeout=10) == 0
        finally:
            proxy.kill()


def test_nothing_but_the_count_ends_a_fault_when_the_clock_stands_from_its_start(tmp_path: Path) -> None:
    clock, control = tmp_path / "clock", tmp_path / "c.sock"
    upstream, port = free_ports(2)
    settings = {"port": port, "upstream": f"http://127.0.0.1:{upstream}", "control_path": str(control)}
    proxy = subprocess.Popen(
        [sys.executable, "-m", "drillmaster.proxy", json.dumps(settings)], env=_faked({**os.environ}, clock)
    )
    try:
        wait_until(control.exists, what="the proxy")
        _set(clock, "2199-01-01 00:00:00")
        order = {"window": "w", "fault": "reset", "params": {}, "ttl_s": 2, "linger_s": 0}
        assert _ask(control, "POST", "/inject", order)[0] == 200
        assert _ask(control, "GET", "/state")[1]["mode"] == "reset"
        wait_until(lambda: _ask(control, "GET", "/state")[1]["mode"] == "pass", 6, "a fault that is gone")
    finally:
        proxy.terminate()
        try:
            assert proxy.wait(timeout=10) == 0
        finally:
            proxy.kill()


@pytest.mark.parametrize("to", ["-3600s", "+3600s"])
@pytest.mark.parametrize("phase", ["baseline", "fault", "recovery"])
def test_a_drill_whose_clock_jumps_lifts_seals_and_says_so(drill: Drill, phase: str, to: str, tmp_path: Path) -> None:
    clock = tmp_path / "clock"
    drill.env = _faked(drill.env, clock)
    spans = {"baseline_s": 1.5, "fault_s": 1.5, "recovery_s": 8} | ({} if phase == "recovery" else {f"{phase}_s": 8})
    drill.plan(phases=spans)
    process = drill.start("--rehearsal")
    drill.wait_for("phase_started", phase=phase)
    time.sleep(0.3)
    _set(clock, to)
    began = time.monotonic()
    out, err = process.communicate(timeout=40)
    assert process.returncode == 3, out + err
    # Whichever of the two looks first: forward, the traffic's own schedule is an hour late too.
    assert "clock jumped" in out or (to == "+3600s" and "3600.0 s late" in out), out + err
    assert "Traceback" not in err, err
    assert time.monotonic() - began < 25
    assert len(drill.events("events/proxy.jsonl", "fault_lifted")) == len(
        drill.events("events/proxy.jsonl", "fault_injected")
    )
    assert (drill.run_dir / "seal.json").exists()
    wait_until(lambda: drill.own_processes() == [], 8, "nothing left running")


def test_a_conductor_killed_after_its_clock_went_back_leaves_a_proxy_that_heals(drill: Drill, tmp_path: Path) -> None:
    clock = tmp_path / "clock"
    drill.env = _faked(drill.env, clock)
    drill.plan(phases={"baseline_s": 1, "fault_s": 60, "recovery_s": 5})
    process = drill.start("--rehearsal")
    drill.wait_for("fault_met", "events/proxy.jsonl")
    process.send_signal(signal.SIGSTOP)
    _set(clock, "-3600s")
    process.kill()
    process.communicate()
    wait_until(lambda: drill.events("events/proxy.jsonl", "fault_lifted") != [], 10, "the lift")
