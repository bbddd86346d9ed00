"""A job's nights on a free tier, made by the interview itself, and the gate's word on them."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from drillmaster.gates._cases.free_tier import LIMITS
from drillmaster.load.reading import open_interview
from tests.e2e.interviewlab import Lab, answer, interviewing, server
from tests.e2e.repolab import Repo
from tests.e2e.test_engine import GOOD

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(120)]


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[Lab]:
    yield from interviewing(tmp_path)


def policy(folder: Path, url: str, **more: Any) -> None:
    limits = msgspec.to_builtins(LIMITS) | {
        "job": "nightly lint",
        "url": url,
        "level": "warm_c4",
        "p95_budget_s": 1.0,
        "batch_window_s": 10.0,
        "min_calls": 60,
        "min_runs": 2,
        "max_lost_runs": 6,
        "min_idle_s": 0.5,
        "max_attempts_per_call": 3,
    }
    told = {
        "kind": "policy",
        "version": 1,
        "source": "free-tier-exit",
        "owner": "Ada",
        "review_by": "2199-02-28",
        "gates": [limits | more],
    }
    (folder / "policy.json").write_text(json.dumps(told))


def told(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "drillmaster", *words],
        cwd=folder,
        env={**os.environ, "DRILLMASTER_STATE": str(folder / "state")},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def night(lab: Lab, url: str, number: int, *more: str) -> None:
    done = lab.run(
        url, "--job", "nightly lint", "--levels", "4", "--warm", "60", "--idle", "0.6", "--timeout", "5",
        "--drain", "20", "--out", f"night-{number}.json", "--rehearsal", *more,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr


def nights(lab: Lab, url: str) -> None:
    """Two nights that measured something: on a busy machine the client is a visible part of some, and they are lost."""
    measured = 0
    for number in range(6):
        night(lab, url, number, "--retry-after", "3:5")
        newest = sorted((lab.folder / "runs").glob("2*"))[-1]
        level = open_interview(newest).level("warm_c4")
        measured += level is not None and not level.void
        if measured == 2:
            return
    raise AssertionError("no two nights were measured: is the machine that busy?")


def test_good_nights_stay_slow_ones_leave_and_a_changed_one_refuses(lab: Lab) -> None:
    gate = ("gate", "free-tier", "runs", "--policy", "policy.json")
    took_s = 0.2
    with server(lambda _: (took_s, answer(GOOD))) as (url, _):
        policy(lab.folder, url)
        nights(lab, url)
        nobody = told(lab.folder, *gate)
        assert (nobody.returncode, "drillmaster ledger open" in nobody.stdout) == (2, True), nobody.stdout
        assert told(lab.folder, "ledger", "open", "--job", "nightly lint", "--by", "ada").returncode == 0
        stay = told(lab.folder, *gate)
        assert stay.returncode == 0, stay.stdout + stay.stderr
        assert "stay: no criterion for leaving is met" in stay.stdout
        assert "PASS one call is sent 3 times at most (observed 3)" in stay.stdout
        assert "REHEARSAL" in stay.stdout.splitlines()[0]
        policy(lab.folder, url, p95_budget_s=0.02)
        leave = told(lab.folder, *gate)
        assert (leave.returncode, "leave:\n- p95:" in leave.stdout) == (1, True), leave.stdout
        policy(lab.folder, url, batch_window_s=0.05)
        late = told(lab.folder, *gate)
        assert (late.returncode, "- drain:" in late.stdout) == (1, True), late.stdout
    samples = sorted((lab.folder / "runs").glob("*/samples.bin"))[0]
    samples.write_bytes(samples.read_bytes()[:-40])
    policy(lab.folder, url)
    changed = told(lab.folder, *gate)
    assert (changed.returncode, "REFUSED every interview of the span" in changed.stdout) == (2, True), changed.stdout


@pytest.mark.needs("git")
def test_lines_of_the_ledger_that_the_base_has_are_still_there(tmp_path: Path) -> None:
    repo = Repo(tmp_path / "repo")
    url = LIMITS.url
    policy(repo.path, url)
    assert told(repo.path, "ledger", "open", "--job", "nightly lint", "--by", "ada").returncode == 0
    assert told(repo.path, "ledger", "add", "nothing", "--by", "ada").returncode == 0
    assert told(repo.path, "ledger", "add", "incident", "--cause", "capacity", "--by", "ada").returncode == 0
    repo.commit()
    (repo.path / "runs").mkdir()
    gate = ("gate", "free-tier", "runs", "--policy", "policy.json", "--base", "main")
    whole = "PASS there is a ledger to which lines were only ever added: 1 incidents"
    assert whole in told(repo.path, *gate).stdout
    assert told(repo.path, "ledger", "add", "nothing", "--by", "bea").returncode == 0
    assert whole in told(repo.path, *gate).stdout
    ledger = repo.path / "free-tier-ledger.jsonl"
    ledger.write_bytes(b"".join(ledger.read_bytes().splitlines(keepends=True)[:2]))  # a whole chain, and shorter
    said = told(repo.path, *gate).stdout
    assert "REFUSED there is a ledger" in said
    assert "are not there, or are others" in said
