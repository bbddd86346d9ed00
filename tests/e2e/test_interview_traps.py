"""What a script that measures an endpoint stumbles over, done to a whole interview and its gate, on real sockets."""

import json
import select
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.interviewlab import Lab, answer, interviewing, server
from tests.e2e.wirelab import Origin, Reader

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(60)]

GATE: dict[str, Any] = {
    "warm_c1": {"p95_s": 5, "error_rate": 0.0},
    "warm_c2": {"p95_s": 5, "error_rate": 0.0},
    "cold_max_s": 5,
}


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[Lab]:
    yield from interviewing(tmp_path)


def gate(lab: Lab, *words: str, **limits: Any) -> "subprocess.CompletedProcess[str]":
    (lab.folder / "gate.json").write_text(json.dumps({**GATE, **limits}))
    command = [sys.executable, "-m", "drillmaster", "gate", "interview", f"runs/{lab.run_dir.name}", *words]
    return subprocess.run(command, cwd=lab.folder, capture_output=True, text=True, timeout=30, check=False)


def test_a_cold_call_that_hangs_fails_and_is_at_least_as_long_as_it_was_waited_for(lab: Lab) -> None:
    with server(lambda number: (0.9 if not number else 0.25, answer())) as (url, _):
        done = lab.run(url, "--levels", "1,2", "--warm", "10", "--idle", "0", "--timeout", "0.5")
    assert done.returncode == 0, done.stderr
    limits = {"warm_c1": {"p95_s": 0.4, "error_rate": 0.0}, "warm_c2": {"p95_s": 0.4, "error_rate": 0.0}}
    judged = gate(lab, "--policy", "gate.json", cold_max_s=0.4, **limits)
    assert (judged.returncode, "BREACH: cold" in judged.stdout) == (1, True), judged.stdout
    blind = gate(
        lab, "--policy", "gate.json", cold_max_s=0.75, **limits
    )  # cut before it could be over that, and it failed
    assert (blind.returncode, "BREACH: cold" in blind.stdout) == (1, True)
    assert "cut before it can be over that" in blind.stdout


def test_errors_at_once_are_errors_and_no_latencies(lab: Lab) -> None:
    broken = answer(b"{}", b"500 Internal Server Error")
    with server(lambda number: (0.0, broken) if number > 1 else (0.0, answer())) as (url, _):
        done = lab.run(url, "--levels", "1,2", "--warm", "20", "--idle", "0", "--timeout", "10")
    assert done.returncode == 0, done.stderr
    judged = gate(lab, "--policy", "gate.json")
    assert judged.returncode != 0
    level = lab.read().interview.level("warm_c2")
    assert level is not None
    assert (level.ok_s, level.failed) == ((), {"http_500": 20})
    assert "p95 0" not in judged.stdout.partition("BREACH")[2].splitlines()[0]


def test_a_cut_call_is_given_up_at_both_ends_and_no_level_begins_before_the_last_is_over(lab: Lab) -> None:
    given_up: list[float] = []
    asked: list[float] = []
    lock = threading.Lock()

    def handle(reader: Reader, sock: socket.socket) -> None:
        while reader.request() is not None:
            with lock:
                asked.append(time.monotonic())
                hangs = len(asked) in (9, 10)
            if hangs:
                ready, _, _ = select.select([sock], [], [], 10)
                if ready and not sock.recv(1):
                    given_up.append(time.monotonic())
                return
            time.sleep(0.01)
            sock.sendall(answer())

    origin = Origin(handle)
    try:
        # cold 1, warm-up 2, level of two: 6, of which the last two hang; then warm-up and level of one
        done = lab.run(f"{origin.url}/v1", "--levels", "2,1", "--warm", "7", "--idle", "0", "--timeout", "0.6")
    finally:
        origin.close()
    assert done.returncode == 0, done.stderr
    read = lab.read()
    two, one = read.interview.level("warm_c2"), read.interview.level("warm_c1")
    assert two is not None
    assert one is not None
    assert two.calls is not None
    assert one.calls is not None
    assert two.failed == {"timeout": 2}
    assert len(given_up) == 2
    assert min(one.calls.due_s) >= max(two.calls.end_s)
    assert max(given_up) < asked[-1]


def test_a_file_in_a_folder_that_is_not_there_is_found_before_any_call(lab: Lab) -> None:
    with server(lambda _: (0.0, answer())) as (url, truth):
        done = lab.run(url, "--idle", "0", "--out", "none/interview.json")
    assert (done.returncode, truth.n) == (2, 0)
    assert "none" in done.stderr
    assert not (lab.folder / "runs").exists()


def test_two_levels_of_one_number_and_levels_that_are_none_are_refused_before_any_call(lab: Lab) -> None:
    with server(lambda _: (0.0, answer())) as (url, truth):
        for levels in ("1,1", "1,x", "1,0", "1,-4", "1,4.0"):
            done = lab.run(url, "--idle", "0", "--levels", levels)
            assert (done.returncode, "--levels" in done.stderr) == (2, True), levels
        assert lab.run(url, "--idle", "0", "--warm", "0").returncode == 2
    assert truth.n == 0


def test_a_gate_without_its_files_or_with_them_swapped_is_refused_and_is_no_breach(lab: Lab) -> None:
    with server(lambda _: (0.0, answer())) as (url, _):
        assert lab.run(url, "--levels", "1,2", "--warm", "5", "--idle", "0", "--timeout", "10").returncode == 0
    for words in ((), ("--policy", "none.json"), ("--policy", "interview.json")):
        judged = gate(lab, *words)
        assert (judged.returncode, "BREACH" in judged.stdout + judged.stderr) == (2, False), words


def test_letters_of_any_language_in_a_url_are_sent_as_a_browser_sends_them(lab: Lab) -> None:
    with server(lambda _: (0.0, answer())) as (url, truth):
        done = lab.run(
            f"{url}/größe?q=10€&r=%20+[1]", "--idle", "0", "--yes", "--rehearsal", "--levels", "1", "--warm", "2"
        )
    assert done.returncode == 0, done.stderr
    assert {head.first for head in truth.heads} == {b"POST /v1/chat/gr%C3%B6%C3%9Fe?q=10%E2%82%AC&r=%20+[1] HTTP/1.1"}


def test_a_file_in_the_place_of_the_run_folders_is_found_before_any_call(lab: Lab) -> None:
    with server(lambda _: (0.0, answer())) as (url, truth):
        done = lab.run(url, "--idle", "0", "--yes", "--rehearsal", "--levels", "1", "--warm", "2", "--out", "runs")
    assert (done.returncode, truth.n) == (2, 0)
    assert "--out" in done.stderr


def test_calls_made_again_since_the_server_had_closed_a_kept_connection_are_in_row_file_and_verdict(lab: Lab) -> None:
    def two_each(reader: Reader, sock: socket.socket) -> None:
        for _ in range(2):
            if reader.request() is None:
                return
            sock.sendall(answer())
        time.sleep(0.03)  # closes without having said so

    origin = Origin(two_each)
    try:
        done = lab.run(f"{origin.url}/", "--levels", "1", "--warm", "8", "--idle", "0", "--timeout", "5")
    finally:
        origin.close()
    assert done.returncode == 0, done.stderr
    rows = json.loads((lab.folder / "interview.json").read_text())["results"]
    again = rows[1]["made_again"]
    assert 2 <= again <= 4 and "made_again" not in rows[0]
    assert f"{again} calls made again on a kept connection that was closed" in done.stdout
    judged = gate(lab, "--policy", "gate.json", "--json")
    said = json.loads(judged.stdout)
    assert said["counts"]["calls made again on a kept connection"] == again


def test_a_proxy_of_the_environment_is_not_asked(lab: Lab) -> None:
    nobody = "http://127.0.0.1:1"
    proxies = {name: nobody for word in ("http", "https", "all") for name in (f"{word}_proxy", f"{word}_proxy".upper())}
    with server(lambda _: (0.02, answer())) as (url, truth):
        done = lab.run(
            url, "--levels", "1", "--warm", "5", "--idle", "0", "--timeout", "5", env=proxies | {"NO_PROXY": ""}
        )
        assert done.returncode == 0, done.stderr
        assert len(truth.heads) == 7  # cold, one to warm up, five
    assert lab.rows()["warm_c1"]["error_rate"] == 0


@pytest.mark.parametrize("status", [b"201 Created", b"202 Accepted", b"203 Other"])
def test_each_status_of_success_is_one(lab: Lab, status: bytes) -> None:
    with server(lambda _: (0.02, answer(status=status))) as (url, _):
        done = lab.run(url, "--levels", "1", "--warm", "5", "--idle", "0", "--timeout", "5")
    assert done.returncode == 0, done.stderr
    assert lab.rows()["warm_c1"]["error_rate"] == 0
