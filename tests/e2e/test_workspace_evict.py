"""A cut that is killed at each of its steps: there is always one whole copy that can be found, and doing it again ends it."""

import hashlib
import os
import resource
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from drillmaster.cuts import STEPS
from drillmaster.intake.pointers import read_pointer

pytestmark = pytest.mark.e2e

SCRIPT = """
import os, signal, sys
from pathlib import Path
from drillmaster.cuts import cut
source, store, step = sys.argv[1:]
cut(Path(source), Path(store), at=lambda one: os.kill(os.getpid(), signal.SIGKILL) if one == step else None)
"""
CLI = [sys.executable, "-m", "drillmaster", "workspace"]
SIZES = (0, 40, 1 << 20, (1 << 20) + 1)


def run(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*CLI, *words], capture_output=True, text=True, timeout=60, check=False)


def digest(path: Path) -> str | None:
    return hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else None


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("step", STEPS)
def test_a_kill_at_any_step_loses_nothing(tmp_path: Path, step: str, size: int) -> None:  # 52 rounds
    work, store = tmp_path / "work", tmp_path / "store"
    work.mkdir()
    store.mkdir()
    source, target, pointer = work / "memory.json", store / "memory.json", work / "MEMORY_POINTER"
    source.write_bytes(os.urandom(size))
    wanted = digest(source)
    ended = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(source), str(store), step], capture_output=True, timeout=60, check=False
    )
    assert ended.returncode == -signal.SIGKILL
    assert digest(target) in (None, wanted), "what has the file's name in the store is the file"
    assert wanted in (digest(source), digest(target)), "one whole copy at least"
    if not source.exists():
        (block,) = read_pointer(pointer.read_bytes(), place="pointer")
        assert (block.sha256, block.path) == (wanted, str(target)), "what is gone is pointed at"
    if source.exists():
        again = run("evict", str(source), "--to", str(store))
        assert again.returncode == 0, again.stderr
    checked = run("resume", str(work))
    assert checked.returncode == 0, checked.stdout
    assert sorted(one.name for one in work.iterdir()) == ["MEMORY_POINTER"]
    assert sorted(one.name for one in store.iterdir()) == ["memory.json"]
    assert digest(target) == wanted


@pytest.mark.parametrize("step", STEPS[STEPS.index("pointer-named") : STEPS.index("cut")])
def test_resume_ends_what_was_interrupted_behind_the_pointer(tmp_path: Path, step: str) -> None:
    work, store = tmp_path / "work", tmp_path / "store"
    work.mkdir()
    store.mkdir()
    (work / "memory.json").write_text("{}")
    subprocess.run([sys.executable, "-c", SCRIPT, str(work / "memory.json"), str(store), step], timeout=60, check=False)
    looked = run("resume", str(work), "--check")
    assert (looked.returncode, (work / "memory.json").exists()) == (1, True)
    assert run("resume", str(work)).returncode == 0
    assert not (work / "memory.json").exists()


def test_a_store_without_room_leaves_everything_where_it_was(tmp_path: Path) -> None:
    work, store = tmp_path / "work", tmp_path / "store"
    work.mkdir()
    store.mkdir()
    (work / "memory.json").write_bytes(b"x" * 100_000)

    def small() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, 50_000))

    ended = subprocess.run(
        [*CLI, "evict", str(work / "memory.json"), "--to", str(store)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        preexec_fn=small,
    )
    assert ended.returncode == 2
    assert "Traceback" not in ended.stderr
    assert (work / "memory.json").stat().st_size == 100_000
    assert list(store.iterdir()) == []


def test_two_at_once_share_a_pointer_and_lose_no_block(tmp_path: Path) -> None:
    work, store = tmp_path / "work", tmp_path / "store"
    work.mkdir()
    store.mkdir()
    for n in range(4):
        (work / f"memory-{n}.json").write_text(str(n))
    started = [
        subprocess.Popen([*CLI, "evict", str(work / f"memory-{n}.json"), "--to", str(store)], stdout=subprocess.DEVNULL)
        for n in range(4)
    ]
    assert [one.wait(60) for one in started] == [0] * 4
    assert len(read_pointer((work / "MEMORY_POINTER").read_bytes(), place="pointer")) == 4
    assert run("resume", str(work)).returncode == 0


def test_the_verbs_say_what_is_wrong_and_how_to_mend_it(tmp_path: Path) -> None:
    (tmp_path / "store").mkdir()
    missing = run("evict", str(tmp_path / "no.json"), "--to", str(tmp_path / "store"))
    assert (missing.returncode, "Traceback" in missing.stderr) == (2, False)
    none = run("resume", str(tmp_path))
    assert none.returncode == 2
    assert "drillmaster workspace evict" in none.stderr
    assert run("resume", str(tmp_path / "nowhere")).returncode == 2
    # What an unset variable leaves behind is no path, and not the folder we stand in.
    for words in (("resume", ""), ("evict", "", "--to", str(tmp_path / "store")), ("evict", "a", "--to", "")):
        assert run(*words).returncode == 2


def test_the_folder_we_stand_in_can_be_named(tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    (tmp_path / "store").mkdir()
    (tmp_path / "work" / "memory.json").write_text("{}")
    for words in (("evict", "memory.json", "--to", "../store"), ("resume", ".")):
        ended = subprocess.run(
            [*CLI, *words], cwd=tmp_path / "work", capture_output=True, text=True, timeout=60, check=False
        )
        assert ended.returncode == 0, ended.stderr
