"""Interviews by several engine processes: together they do what one would have done, and what one of them loses is known."""

import json
import os
import resource
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from drillmaster.clock import SystemClock
from drillmaster.evidence.samples import read_samples
from drillmaster.timeline import seal_run
from tests.e2e.interviewlab import Lab, interviewing
from tests.e2e.truthlab import Seen, at, truth_server

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(90)]

NUMBERED = ("--prompt", "call #{n}#")
LOOPBACK_S = 0.012
"""What sockets and a machine that is full put on top at the median."""


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[Lab]:
    yield from interviewing(tmp_path)


def of_step(lab: Lab, seen: Seen, label: str) -> list[list[Any]]:
    """What the server saw of one step."""
    mono0_ns = int(lab.read().manifest.mono0_ns)
    begun = next(row for row in lab.events() if row["event"] == "stage_started" and row["stage"] == label)
    over = next(row for row in lab.events() if row["event"] == "stage_ended" and row["stage"] == label)
    return seen.between(mono0_ns + begun["start_ns"], mono0_ns + over["end_ns"])


def most_at_once(rows: list[list[Any]]) -> int:
    now = most = 0
    for _, change in sorted([(row[1], 1) for row in rows] + [(row[2], -1) for row in rows]):
        now += change
        most = max(most, now)
    return most


@pytest.mark.parametrize("processes", [1, 3])
def test_the_server_saw_what_the_plan_says_whoever_shared_it(lab: Lab, tmp_path: Path, processes: int) -> None:
    with truth_server(tmp_path) as seen:
        done = lab.run(
            seen.url, *NUMBERED, "--levels", "1,8", "--warm", "120", "--idle", "0", "--open", "60:1.5", "--drain", "64",
            "--processes", str(processes), "--out", "rows.json",
        )  # fmt: skip
    assert done.returncode == 0, done.stderr
    calls = {"cold": 1, "warmup_c1": 1, "warm_c1": 120, "warmup_c8": 8, "warm_c8": 120, "open_r60": 90, "drain": 64}
    assert Counter(row[0] for row in seen.rows) == Counter(range(sum(calls.values())))  # each number once
    read = lab.read()
    rows = lab.rows("rows.json")
    assert list(rows) == ["cold", "warm_c1", "warm_c8"]
    for level in read.interview.levels:
        truth = of_step(lab, seen, level.label)
        assert level.n == len(truth) == calls[level.label]
        assert level.ok_s is not None and len(level.ok_s) == level.n
        if level.kind == "closed":
            served_s = [(row[2] - row[1]) / 1e9 for row in truth]
            for q in (0.5, 0.9):
                assert 0 < at(list(level.ok_s), q) - at(served_s, q) < LOOPBACK_S
            assert rows[level.label]["n"] == level.n
            assert rows[level.label]["p50_s"] == round(at(list(level.ok_s), 0.5), 6)
    assert most_at_once(of_step(lab, seen, "warm_c8")) == 8
    assert read.fitness["warm_c8"].held == pytest.approx(8, abs=0.4)
    assert most_at_once(of_step(lab, seen, "drain")) == 8
    verified = subprocess.run([sys.executable, "-m", "drillmaster", "verify", str(lab.run_dir)], capture_output=True)
    assert verified.returncode == 0
    report = subprocess.run(
        [sys.executable, "-m", "drillmaster", "report", str(lab.run_dir)],
        capture_output=True,
        text=True,
        cwd=lab.folder,
    )
    assert report.returncode in (0, 2), report.stderr


def test_each_process_has_its_share_and_says_so(lab: Lab, tmp_path: Path) -> None:
    with truth_server(tmp_path) as seen:
        done = lab.run(seen.url, "--levels", "1,5", "--warm", "50", "--idle", "0", "--processes", "2")
    assert done.returncode == 0, done.stderr
    manifest = lab.read().manifest
    assert (manifest.engines["kind"], manifest.engines["size"]) == ("processes", 2)
    assert list(manifest.shares[1:]) == [
        {"label": "warm_c1", "callers": [1, 0], "calls": [50, 0]},
        {"label": "warmup_c5", "callers": [3, 2], "calls": [3, 2]},
        {"label": "warm_c5", "callers": [3, 2], "calls": [30, 20]},
    ]
    told = [row for row in lab.events() if row["event"] == "share_ended" and row["stage"] == "warm_c5"]
    assert sorted((row["engine"], row["calls"]) for row in told) == [(1, 30), (2, 20)]
    counts = []
    for engine in (1, 2):
        _, columns = read_samples((lab.run_dir / f"samples.{engine}.bin").read_bytes())
        counts.append(sum(row.stage == 3 for row in columns.rows))
    assert counts == [30, 20]
    begun = [row for row in lab.events() if row["event"] == "stage_started"]
    assert [row["stage"] for row in begun] == ["cold", "warmup_c1", "warm_c1", "warmup_c5", "warm_c5"]
    assert all(row["skew_ms"] < 100 for row in begun[1:])
    if len(os.sched_getaffinity(0)) >= 2:
        cores = [row["core"] for row in lab.events() if row["event"] == "engine_started" and "engine" in row]
        assert len(set(cores)) == 2


def test_poisson_arrivals_of_a_plan_are_the_same_ones_by_one_process_and_by_three(lab: Lab, tmp_path: Path) -> None:
    plan = {
        "kind": "plan",
        "drill": "interview",
        "job": "x",
        "levels": [1],
        "warm": 1,
        "idle_s": 0,
        "seed": 5,
        "open": [{"rate_per_s": 80, "seconds": 1.5, "poisson": True, "max_in_flight": 60}],
    }
    due: list[list[float]] = []
    with truth_server(tmp_path) as seen:
        for processes in (1, 3):
            file = lab.folder / "plan.json"
            file.write_text(json.dumps({**plan, "processes": processes, "target": {"url": seen.url}}))
            runs = f"runs{processes}"
            done = lab.run("plan.json", "--rehearsal", "--runs", runs, "--out", f"{processes}.json")
            assert done.returncode == 0, done.stderr
            [run_dir] = (lab.folder / runs).glob("2*")
            found = []
            for name in sorted(run_dir.glob("samples*.bin")):
                header, columns = read_samples(name.read_bytes())
                stages = header["stages"]
                assert isinstance(stages, list)
                found += [row.due_ns for row in columns.rows if stages[row.stage] == "open_r80"]
            found.sort()
            due.append([(ns - found[0]) / 1e6 for ns in found])
    assert len(due[0]) > 80
    assert due[1] == pytest.approx(due[0], abs=1e-3)


def test_a_process_that_dies_makes_the_run_partial_and_is_named(lab: Lab, tmp_path: Path) -> None:
    with truth_server(tmp_path) as seen:
        process = lab.start(seen.url, "--levels", "6", "--warm", "1500", "--idle", "0", "--processes", "3")
        lab.wait_for("stage_started", stage="warm_c6")
        time.sleep(0.7)
        victim = next(row for row in lab.events() if row["event"] == "engine_started" and row.get("engine") == 2)
        os.kill(victim["pid"], signal.SIGKILL)
        out, err = process.communicate(timeout=30)
    assert process.returncode == 3, err
    assert "engine 2 of 3 ended with code -9 in warm_c6" in out
    read = lab.read()
    assert read.ended == "aborted"
    [level] = (level for level in read.interview.levels if level.label == "warm_c6")
    assert level.void
    assert 0 < level.n <= len(seen.rows)
    pids = [row["pid"] for row in lab.events() if row["event"] == "engine_started"]
    assert [pid for pid in pids if Path(f"/proc/{pid}").exists()] == []


def test_a_stop_ends_all_processes_and_keeps_what_they_had(lab: Lab, tmp_path: Path) -> None:
    with truth_server(tmp_path) as seen:
        process = lab.start(seen.url, "--levels", "6", "--warm", "3000", "--idle", "0", "--processes", "2")
        lab.wait_for("stage_started", stage="warm_c6")
        time.sleep(0.6)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=30)
    assert process.returncode == 3, err
    read = lab.read()
    assert read.why == "stopped by SIGINT"
    [level] = (level for level in read.interview.levels if level.label == "warm_c6")
    stopped = level.failed.get("stopped", 0)
    served = len(seen.rows) - 1 - 6
    assert stopped <= 6
    assert level.n - stopped <= served <= level.n  # what was under way when it was cut is named so


def test_an_engine_that_is_left_alone_while_it_waits_ends(tmp_path: Path) -> None:
    spec = {
        "to": [{"host": "127.0.0.1", "port": 9}],
        "shot": {"target": "/", "authority": "x"},
        "stages": [{"label": "one", "kind": "closed", "level": 1, "calls": 1}],
        "time_limit_s": 1,
        "samples": str(tmp_path / "samples.bin"),
        "mono0_ns": 0,
        "together": True,
    }
    done = subprocess.run(
        [sys.executable, "-m", "drillmaster.engines"],
        input=json.dumps(spec).encode() + b"\n",
        capture_output=True,
        timeout=20,
        check=False,
    )
    assert done.returncode == 3, done.stderr
    assert {json.loads(line)["event"] for line in done.stdout.splitlines()} <= {"stage_ready", "progress"}
    _, columns = read_samples((tmp_path / "samples.bin").read_bytes())
    assert columns.rows == []


def test_the_self_test_says_what_several_processes_hold(lab: Lab) -> None:
    done = lab.run("--self-test", "--levels", "6", "--processes", "2", "--json")
    assert done.returncode in (0, 2), done.stderr
    [level] = json.loads(done.stdout)["levels"]
    assert level["callers"] == 6
    assert level["held"] >= 0.9 * 6
    assert lab.run("--self-test", "--engine", "locust", "--workers", "2").returncode == 2


@pytest.mark.parametrize(("processes", "words"), [("1", "share them among --processes"), ("2", "connection refused")])
def test_callers_that_are_too_many_for_one_process_may_be_shared(lab: Lab, processes: str, words: str) -> None:
    def few() -> None:
        resource.setrlimit(resource.RLIMIT_NOFILE, (100, 100))

    url = "http://127.0.0.1:9/"  # nobody is there: what is looked at before has passed
    done = lab.run(url, "--levels", "100", "--warm", "100", "--processes", processes, preexec_fn=few)
    assert done.returncode == 2
    assert words in done.stderr.splitlines()[-1]


def test_a_kill_of_who_leads_them_ends_all_engines_and_leaves_their_records(lab: Lab, tmp_path: Path) -> None:
    with truth_server(tmp_path) as seen:
        process = lab.start(seen.url, "--levels", "6", "--warm", "6000", "--idle", "0", "--processes", "3")
        lab.wait_for("stage_started", stage="warm_c6")
        time.sleep(1.0)
        process.kill()
        process.wait(5)
        engines = [row["pid"] for row in lab.events() if row["event"] == "engine_started" and "engine" in row]
        assert len(engines) == 3
        until_s = time.monotonic() + 10
        while any(Path(f"/proc/{pid}").exists() for pid in engines) and time.monotonic() < until_s:
            time.sleep(0.05)
        assert not [pid for pid in engines if Path(f"/proc/{pid}").exists()]
    seal_run(lab.run_dir, SystemClock())
    read = lab.read()
    [level] = (level for level in read.interview.levels if level.label == "warm_c6")
    assert read.ended == ""
    assert 30 < level.n <= len(seen.rows)
    assert "stopped before its end" in level.void[0]


def test_more_engines_than_cores_are_told_what_that_costs(lab: Lab, tmp_path: Path) -> None:
    cores = len(os.sched_getaffinity(0))
    with truth_server(tmp_path) as seen:
        done = lab.run(seen.url, "--levels", "1", "--warm", "2", "--idle", "0", "--processes", str(max(2, cores + 1)))
    assert done.returncode == 0, done.stderr
    assert f"{max(2, cores + 1)} engines share {cores} core" in done.stderr
    shares = [row for row in lab.events() if row["event"] == "share_ended"]
    assert len(shares) >= max(2, cores + 1)
    assert all(0 <= row["run_delay_s"] <= row["wall_s"] + 0.1 and row["delay_p99_ms"] >= 0 for row in shares)
