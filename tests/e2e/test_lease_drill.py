"""The stale-holder drill on real stores: 50 rounds here, 1,000 and one of 30 seconds in `make soak`; and it can fail."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from drillmaster.kits.stale_holder import Course, drill
from drillmaster.stores.leases import read_leases
from tests.e2e.leaselab import store_url

SOAK = os.environ.get("DRILLMASTER_SOAK", "") not in ("", "0")
ROUNDS = 1_000 if SOAK else 50
pytestmark = [pytest.mark.e2e, pytest.mark.timeout(3_600 if SOAK else 240)]

STORES = [
    "sqlite",
    pytest.param("postgresql", marks=pytest.mark.needs("postgres")),
    pytest.param("redis", marks=pytest.mark.needs("redis-server")),
]


@pytest.fixture(params=STORES, scope="module")
def url(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with store_url(request.param, tmp_path_factory.mktemp("drill")) as lent:
        yield lent


def lease(*words: str, limit_s: float = 120.0) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "drillmaster", "lease", *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=limit_s, check=False)


def test_no_stale_write_is_taken_and_no_job_is_done_twice(url: str) -> None:
    result = drill(url, Course(rounds=ROUNDS, ttl_ms=200, pause_ms=500, lanes=5))
    assert result.passed, result
    assert result.rounds == ROUNDS and 0 < result.late < ROUNDS
    assert set(result.ways) == ({"key"} if url.startswith("unix") else {"lease", "column"})
    assert read_leases(url) == [], "what the drill wrote is taken away"


def test_rounds_that_show_nothing_are_void_and_played_again(tmp_path: Path) -> None:
    import sqlite3
    import threading

    def block() -> None:
        with contextlib.closing(sqlite3.connect(tmp_path / "leases.sqlite", isolation_level=None)) as db:
            holders = "SELECT 1 FROM drillmaster_lease WHERE held_by = 'first' AND until_us > seen_us"
            while not db.execute(holders).fetchall():
                time.sleep(0.001)
            db.execute("PRAGMA busy_timeout = 5000")
            db.execute("BEGIN IMMEDIATE")  # as a process that was stopped within a question has it
            time.sleep(4)
            db.execute("ROLLBACK")

    with store_url("sqlite", tmp_path) as url:
        blocking = threading.Thread(target=block)
        blocking.start()
        result = drill(url, Course(rounds=8, ttl_ms=200, pause_ms=500, lanes=2))
        blocking.join()
    assert result.passed and result.rounds == 8 and result.void >= 1, result


def test_without_the_fence_it_fails(url: str) -> None:
    done = lease("drill", "--store", url, "--rounds", "4", "--pairs", "2", "--without-fence", "--json")
    assert done.returncode == 1, done.stderr
    said: dict[str, Any] = json.loads(done.stdout)
    assert not said["passed"]
    assert said["counts"]["stale_taken"] == said["counts"]["doubled"] == said["counts"]["rounds"] == 4
    assert {check["id"] for check in said["checks"] if not check["passed"]} == {"stale-write", "effect-once"}


def test_it_says_what_it_found_and_exits_by_it(url: str) -> None:
    done = lease("drill", "--store", url, "--rounds", "4", "--pairs", "2")
    assert (done.returncode, done.stderr) == (0, "")
    assert [line.split()[:2] for line in done.stdout.splitlines()[1:]] == [
        ["PASS", f"{check}:"] for check in ("stale-write", "effect-once", "holder-knows", "renewal", "token-rises")
    ]


def test_a_store_that_nobody_prepared_gives_no_verdict(tmp_path: Path) -> None:
    done = lease("drill", "--store", f"sqlite:{tmp_path / 'none.db'}", "--rounds", "1")
    assert done.returncode == 2 and "store prepare" in done.stderr
    done = lease("drill", "--store", f"sqlite:{tmp_path / 'none.db'}", "--rounds", "1", "--ttl", "1s", "--pause", "1s")
    assert done.returncode == 2 and "more than the ttl" in done.stderr


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL], ids=lambda one: one.name)
def test_a_drill_that_is_interrupted_leaves_no_stopped_process(tmp_path: Path, number: signal.Signals) -> None:
    with store_url("sqlite", tmp_path) as url:
        mark = f"drill-{os.getpid()}-{time.monotonic_ns()}"
        process = subprocess.Popen(
            [sys.executable, "-m", "drillmaster", "lease", "drill", "--store", url, "--rounds", "100", "--pause", "3s"],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env={**os.environ, "DRILL_TEST_MARK": mark},
        )  # fmt: skip

        def running() -> list[str]:
            found = []
            for entry in Path("/proc").iterdir():
                try:
                    if entry.name.isdigit() and f"DRILL_TEST_MARK={mark}".encode() in (entry / "environ").read_bytes():
                        found.append((entry / "stat").read_text().rpartition(") ")[2][0])
                except OSError:
                    continue
            return found

        ends = time.monotonic() + 60
        while "T" not in running() and time.monotonic() < ends:
            time.sleep(0.05)
        assert "T" in running()
        process.send_signal(number)
        process.wait(20)
        ends = time.monotonic() + 30
        while running() and time.monotonic() < ends:
            time.sleep(0.1)
        assert running() == []


if SOAK:  # minutes, so `make soak` has it alone; where CI is true a skipped test is a failed run

    def test_a_pause_of_half_a_minute(url: str) -> None:
        result = drill(url, Course(rounds=2, ttl_ms=10_000, pause_ms=30_000, lanes=2))
        assert result.passed, result
