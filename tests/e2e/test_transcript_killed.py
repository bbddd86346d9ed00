"""A worker that is killed, or whose disk stands still, costs what it was in the middle of and nothing else."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from drillmaster.transcripts import read_census

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(60)]
RUN = "20261204T160000Z-1a2b"
WORKER = r"""
import itertools, os, sys, threading
from drillmaster.adapters.worker import transcript
def serve(thread):
    for number in itertools.count():
        name = f"m{thread}.{number}"
        with transcript.mission(name) as said:
            said.user("x" * 3000)
            said.answer("y" * 3000, status=200)
        os.write(1, (name + "\n").encode())  # what a user got, in one piece
for thread in range(4):
    threading.Thread(target=serve, args=(thread,), daemon=True).start()
threading.Event().wait()
"""


@pytest.mark.parametrize("round_", range(5))
def test_a_worker_that_is_killed_loses_no_mission_that_it_had_answered(tmp_path: Path, round_: int) -> None:
    environ = {**os.environ, "DRILL_TRANSCRIPTS": str(tmp_path / "transcripts"), "DRILL_RUN": RUN}
    worker = subprocess.Popen([sys.executable, "-c", WORKER], env=environ, stdout=subprocess.PIPE, text=True)
    assert worker.stdout is not None
    said = [worker.stdout.readline().strip()]
    time.sleep(0.05 * round_)
    worker.send_signal(signal.SIGKILL)
    said += worker.stdout.read().split()
    worker.wait(10)
    worker.stdout.close()
    census = read_census(tmp_path, None, {name: 1 for name in said if name.count(".") == 1}, run=RUN)
    assert census.lacking == ()
    assert (census.complete >= 1, census.spoilt <= 1) == (True, True)
    # what it was in the middle of is at most one mission a thread
    assert census.strangers <= 4


STALLED = """
import os, sys, time
from drillmaster.adapters.worker import transcript
class Disk:
    slow = False
    def write(self, fd, data):
        if self.slow:
            time.sleep(0.8)
        return os.write(fd, data)
disk = Disk()
transcript._lines = transcript._Lines(disk.write)
took = []
for number in range(60):
    disk.slow = 5 <= number < 10
    began = time.monotonic()
    with transcript.mission(f"m{number}") as said:
        said.user("x")
        said.answer("y")
    took.append(time.monotonic() - began)
print(sorted(took)[-2])
"""


def test_a_disk_that_stands_still_holds_up_one_request_and_loses_nothing(tmp_path: Path) -> None:
    environ = {**os.environ, "DRILL_TRANSCRIPTS": str(tmp_path / "transcripts"), "DRILL_RUN": RUN}
    ran = subprocess.run(
        [sys.executable, "-c", STALLED], env=environ, capture_output=True, text=True, timeout=30, check=True
    )
    assert json.loads(ran.stdout) < 0.6
    census = read_census(tmp_path, None, {f"m{n}": 1 for n in range(60)}, run=RUN)
    assert (census.complete + census.lost >= 59, census.spoilt) == (True, 0)


ORDER = """
import os, threading, time
from drillmaster.adapters.worker import transcript
class Disk:
    def write(self, fd, data):
        if time.monotonic() % 1 < 0.3:
            time.sleep(0.03)
        return os.write(fd, data)
transcript.STALL_NS = 10_000_000
transcript._lines = transcript._Lines(Disk().write)
def serve(thread):
    for number in range(60):
        with transcript.mission(f"m{thread}.{number}") as said:
            said.user("x")
            time.sleep(0.002)
            said.answer("y")
            time.sleep(0.01)
threads = [threading.Thread(target=serve, args=(n,)) for n in range(8)]
[one.start() for one in threads]
[one.join() for one in threads]
"""


def test_a_disk_that_is_slow_now_and_then_mixes_up_no_missions_lines(tmp_path: Path) -> None:
    environ = {**os.environ, "DRILL_TRANSCRIPTS": str(tmp_path / "transcripts"), "DRILL_RUN": RUN}
    subprocess.run([sys.executable, "-c", ORDER], env=environ, timeout=50, check=True)
    census = read_census(tmp_path, None, {f"m{a}.{b}": 1 for a in range(8) for b in range(60)}, run=RUN)
    assert (census.lacking, census.lost, census.spoilt) == ((), 0, 0)
