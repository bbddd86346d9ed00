"""The history of real runs, in an SQLite file and in a real PostgreSQL, written by many at once and by some that are killed."""

import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from pathlib import Path
from typing import Any

import psycopg
import pytest

from drillmaster.history import open_history
from drillmaster.intake.friday import judge_friday
from drillmaster.intake.verdicts import keep
from tests.e2e.interviewlab import answer, server
from tests.e2e.pglab import postgres
from tests.fridays import paper
from tests.fridays.paper import Paper
from tests.interviewed import JOB, RUN, sealed

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(120)]

CLI = (sys.executable, "-m", "drillmaster")
WRITER = """\
import sys
from drillmaster.history import Entry, open_history
with open_history(sys.argv[1]) as history:
    for n in range(int(sys.argv[3])):
        run = f"20261130T12{n:04d}Z-{sys.argv[2]}"
        history.add(Entry(run=run, drill="interview", name="job", target="", ended_at=run, status="pass", evidence_digest=run))
        print(run, flush=True)
"""


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.needs("postgres"))])
def named(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    if request.param == "sqlite":
        yield str(tmp_path / "team.sqlite")
    else:
        with postgres() as url:
            yield url


def history(where: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*CLI, "history", *words], cwd=where, capture_output=True, text=True, timeout=60)


def test_runs_of_one_team_come_together_wherever_they_lie(named: str, tmp_path: Path) -> None:
    sealed(tmp_path / "a" / "runs")
    done = history(tmp_path / "a", "--history", named)
    assert done.returncode == 0, done.stderr
    assert "warm_c4 0.15 s" in done.stdout
    assert "1 runs in" in done.stdout
    again = history(tmp_path, "--history", named, "--json")
    said = json.loads(again.stdout)
    assert [entry["run"] for entry in said["entries"]] == [RUN]
    assert said["taken_in"]["new"] == []
    sealed(tmp_path / "b" / "runs", cold_ms=5)
    other = history(tmp_path / "b", "--history", named)
    assert other.returncode == 2
    assert "one seal for one run" not in other.stdout
    assert RUN in other.stderr


def test_an_interview_and_its_verdict_are_taken_in(named: str, tmp_path: Path) -> None:
    with server(lambda _: (0.002, answer())) as (url, _):
        words = [*CLI, "interview", url, "--levels", "1,2", "--warm", "5", "--idle", "0", "--rehearsal"]
        subprocess.run(words, cwd=tmp_path, check=True, capture_output=True, timeout=60)
    (entry,) = json.loads(history(tmp_path, "--history", named, "--json").stdout)["entries"]
    assert entry["status"] == "unjudged"
    assert entry["metrics"]["warm_c2.n"] == 5
    limits = {"warm_c1": {"p95_s": 5, "error_rate": 0.0}, "warm_c2": {"p95_s": 5, "error_rate": 0.0}, "cold_max_s": 5}
    (tmp_path / "gate.json").write_text(json.dumps(limits))
    subprocess.run(
        [*CLI, "gate", "interview", f"runs/{entry['run']}", "--policy", "gate.json"], cwd=tmp_path, timeout=60, check=True,
        capture_output=True,
    )  # fmt: skip
    (line,) = history(tmp_path, "--history", named, "--ndjson").stdout.splitlines()
    said = json.loads(line)
    assert (said["status"], said["run"]) == ("pass", entry["run"])
    assert said["metrics"]["p95_latency"] == max(said["metrics"][f"warm_c{n}.p95_s"] for n in (1, 2))
    assert set(said) >= {"timestamp", "name", "status", "metrics"}


@pytest.mark.needs("postgres")
def test_many_who_open_a_new_one_at_once_all_get_it() -> None:
    with postgres() as url, ThreadPoolExecutor(8) as pool:
        for _ in range(10):
            together = threading.Barrier(8)

            def opened(together: threading.Barrier = together) -> int:
                together.wait()
                with open_history(url) as found:
                    return len(found.entries())

            assert [one.result(30) for one in [pool.submit(opened) for _ in range(8)]] == [0] * 8
            with psycopg.connect(url, autocommit=True) as connection:
                connection.execute("DROP TABLE drillmaster_history")


def test_many_at_once_lose_nothing(named: str) -> None:
    writers = [writer(named, f"{n:04x}", 25) for n in range(6)]
    for one in writers:
        out, err = one.communicate(timeout=60)
        assert one.returncode == 0, err
        assert len(out.splitlines()) == 25
    with open_history(named) as found:
        assert len(found.entries()) == 150


def test_what_a_killed_writer_said_was_added_is_there(named: str) -> None:
    chance = random.Random(7)
    said: set[str] = set()
    for n in range(6):
        one = writer(named, f"{n:04x}", 500)
        assert one.stdout is not None
        said.add(one.stdout.readline().strip())
        time.sleep(chance.random() / 20)
        os.kill(one.pid, signal.SIGKILL)
        out, _ = one.communicate(timeout=30)
        said |= {line for line in out.split("\n")[:-1] if line}
    with open_history(named) as found:
        assert said <= {entry.run for entry in found.entries()}


def writer(named: str, mark: str, count: int) -> Any:
    words = [sys.executable, "-c", WRITER, named, mark, str(count)]
    return subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def test_a_disk_that_is_full_is_told_and_nothing_is_half_there(tmp_path: Path) -> None:
    sealed(tmp_path / "runs")
    words = f"ulimit -f 0; exec {sys.executable} -m drillmaster history"
    done = subprocess.run(["bash", "-c", words], cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert done.returncode == 2
    assert "wanted a database that can be read and written" in done.stderr, done.stderr
    assert history(tmp_path).returncode == 0


@pytest.mark.needs("postgres")
def test_a_server_that_is_not_there_is_told_without_its_password(tmp_path: Path) -> None:
    done = history(tmp_path, "--history", f"postgresql://ada:hunter2@/x?host={tmp_path}")
    assert done.returncode == 2
    assert "hunter2" not in done.stdout + done.stderr
    assert "wanted a database that takes a connection" in done.stderr


def test_a_folder_without_runs_says_what_makes_one(tmp_path: Path) -> None:
    (tmp_path / "runs").mkdir()
    done = history(tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert "drillmaster demo" in done.stdout
    assert JOB not in done.stdout


def test_friday_drills_come_together_and_go_out_under_the_articles_names(named: str, tmp_path: Path) -> None:
    folder = Paper(tmp_path / "runs" / paper.RUN).write()
    stopped = Paper(tmp_path / "runs" / "20261204T150000Z-2b3c")
    ended = next(at for at, line in enumerate(stopped.files["events/conductor.jsonl"]) if "drill_ended" in line)
    line = stopped.files["events/conductor.jsonl"][ended]
    stopped.files["events/conductor.jsonl"][ended] = line.replace('"completed"', '"aborted"')
    stopped.write(more={"run": "20261204T150000Z-2b3c", "started_at": "2026-12-04T15:00:00.000000000Z"})
    keep(judge_friday(folder, folder / "policy.yaml", now_ns=paper.NOW_NS), folder)
    done = history(tmp_path, "--history", named, "--ndjson")
    assert done.returncode == 0, done.stderr
    rows = [json.loads(line, parse_constant=pytest.fail) for line in done.stdout.splitlines()]
    assert [row["status"] for row in rows] == ["pass", "aborted"]
    assert rows[0]["metrics"]["p95_latency"] == 1.5
    assert rows[0]["metrics"]["detector_delay_ms"] == 17_500
    assert rows[0]["proved"]["row/kill-switch"] == "pass"
    assert all(datetime.fromisoformat(row["timestamp"]).tzinfo is not None for row in rows)
    again = history(tmp_path, "--history", str(tmp_path / "again.sqlite"), "--ndjson")
    assert again.stdout == done.stdout  # the folders make the same rows, wherever they are kept
    shown = history(tmp_path, "compare", "--history", named, "--json")
    assert shown.returncode == 2  # one run, and nothing before it
    figures = json.loads(shown.stdout)["compared"][0]["figures"]
    assert {one["word"] for one in figures} == {"refused"}
