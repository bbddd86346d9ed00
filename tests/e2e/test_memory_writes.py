"""Memory that is written by processes that are killed, and by several at once: a file is always one that somebody wrote whole."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from drillmaster.adapters.worker.memory import STEPS, Workspace
from drillmaster.errors import Problem
from drillmaster.guards.memory import Memory

pytestmark = pytest.mark.e2e

SCRIPT = """
import os, signal, sys
from pathlib import Path
from drillmaster.adapters.worker.memory import Workspace
from drillmaster.guards.memory import Memory
guard = Memory(grants={"runner": ("memory",)}, max_bytes=1 << 22, personal="refuse")
root, sums, step, name, times, size = sys.argv[1:]
workspace = Workspace(Path(root), guard, sums=Path(sums))
for n in range(int(times)):
    body = ("%s %d\\n" % (name, n)).encode() * int(size)
    decision = workspace.write(
        "runner", "memory.md", body, at=lambda one: os.kill(os.getpid(), signal.SIGKILL) if one == step else None
    )
    assert decision.allowed, decision
"""
GUARD = Memory(grants={"runner": ("memory",)}, max_bytes=1 << 22, personal="refuse")


def started(root: Path, sums: Path, step: str, name: str, times: int, size: int) -> subprocess.Popen[bytes]:
    words = (str(root), str(sums), step, name, str(times), str(size))
    return subprocess.Popen([sys.executable, "-c", SCRIPT, *words])


def whole(data: bytes) -> bool:
    return not data or len(set(data.splitlines(keepends=True))) == 1


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("size", [1, 60_000])
def test_a_kill_at_any_step_leaves_one_whole_file(tmp_path: Path, step: str, size: int) -> None:
    root, sums = tmp_path / "work", tmp_path / "sums.json"
    root.mkdir()
    workspace = Workspace(root, GUARD, sums=sums)
    assert workspace.write("runner", "memory.md", b"before\n").allowed
    killed = started(root, sums, step, "after", 1, size)
    assert killed.wait(60) == -signal.SIGKILL
    data = (root / "memory.md").read_bytes()
    assert data in (b"before\n", b"after 0\n" * size)
    assert workspace.read("memory.md") == data, "it has the checksum of before, or the one that was promised"
    assert workspace.write("runner", "memory.md", b"again\n").allowed, "a killed writer holds no turn"
    assert workspace.read("memory.md") == b"again\n"


def test_writers_at_once_take_turns_and_no_file_is_a_mixture(tmp_path: Path) -> None:
    root, sums = tmp_path / "work", tmp_path / "sums.json"
    root.mkdir()
    writers = [started(root, sums, "none", name, 10, 20_000) for name in ("one", "two", "three")]
    looked = 0
    while any(one.poll() is None for one in writers):
        if (root / "memory.md").exists():
            assert whole((root / "memory.md").read_bytes())
            looked += 1
    assert [one.returncode for one in writers] == [0, 0, 0]
    assert looked > 10
    assert Workspace(root, GUARD, sums=sums).read("memory.md").endswith(b" 9\n")
    assert [one["next"] for one in json.loads(sums.read_text())["files"].values()] == [""]
    assert os.listdir(root) == ["memory.md"]


SWAPPER = """
import os, sys
root, outside = sys.argv[1:]
notes, kept = root + "/notes", root + "/kept"
print("begun", flush=True)
while True:
    os.rename(notes, kept)
    os.symlink(outside, notes)
    os.unlink(notes)
    os.rename(kept, notes)
"""


def test_nothing_lands_outside_while_a_folder_is_swapped_for_a_link(tmp_path: Path) -> None:
    root, outside = tmp_path / "work", tmp_path / "outside"
    (root / "notes").mkdir(parents=True)
    outside.mkdir()
    workspace = Workspace(root, GUARD, sums=tmp_path / "sums.json")
    swapper = subprocess.Popen([sys.executable, "-c", SWAPPER, str(root), str(outside)], stdout=subprocess.PIPE)
    told = {"written": 0, "leads-elsewhere": 0, "problem": 0}
    try:
        assert swapper.stdout is not None and swapper.stdout.readline() == b"begun\n"
        for n in range(100):
            try:
                decision = workspace.write("runner", "notes/memory.md", b"%d\n" % n)
            except Problem:
                told["problem"] += 1
            else:
                told["written" if decision.allowed else decision.reason] += 1
            assert os.listdir(outside) == []
    finally:
        swapper.kill()
        swapper.wait(10)
        if swapper.stdout is not None:
            swapper.stdout.close()
    assert told["leads-elsewhere"] + told["problem"] > 0, told
    assert os.listdir(outside) == []
