"""A workspace that changes under the scanner's eyes, and a gate that judges from the base ref."""

import contextlib
import json
import os
import shutil
import subprocess
import sys
import threading
from pathlib import Path

import msgspec
import pytest

from drillmaster.gates._cases.workspace import LIMITS
from drillmaster.intake.trees import Limits, walk

pytestmark = [pytest.mark.e2e, pytest.mark.needs("git")]

AWS = "AKI" + "A4QTRVZ7WX2LMNOPB"
BOUNDS = Limits(max_file_bytes=100_000, max_total_bytes=10_000_000, max_files=10_000, max_unpacked_bytes=1 << 20)
ROUNDS = 50


def swapping(root: Path, outside: Path, stop: threading.Event) -> None:
    """Make one name a file, a link to a folder, a pipe, a folder and nothing, again and again."""
    name = root / "swapped"
    while not stop.is_set():
        for make in (
            lambda: name.write_text(AWS),
            lambda: name.symlink_to(outside),
            lambda: os.mkfifo(name),
            lambda: (name.mkdir(), (name / "inside.txt").write_text("text")),
            lambda: None,
        ):
            with contextlib.suppress(OSError):
                make()
            with contextlib.suppress(OSError):
                shutil.rmtree(name) if name.is_dir() and not name.is_symlink() else name.unlink()


def test_what_is_swapped_is_never_followed_and_never_waited_for(tmp_path: Path) -> None:
    root, outside = tmp_path / "work", tmp_path / "outside"
    root.mkdir()
    outside.mkdir()
    (outside / "elsewhere.txt").write_text("what lies outside is none of the tree")
    for n in range(40):
        (root / f"file-{n:02}.txt").write_text("text " * 200)
    stop = threading.Event()
    thread = threading.Thread(target=swapping, args=(root, outside, stop))
    thread.start()
    try:
        for _ in range(ROUNDS):
            tree = walk(root, BOUNDS, now_ns=1)
            assert not [one.path for one in tree.entries if "elsewhere" in one.path]
            steady = [one for one in tree.entries if one.path.startswith("file-")]
            assert len(steady) == 40
            whole = [one for one in tree.entries if one.path.startswith("swapped")]
            assert all(one.sha256 or one.trouble or one.kind != "file" for one in whole)
    finally:
        stop.set()
        thread.join()


def run(cwd: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "drillmaster", *words], cwd=cwd, capture_output=True, text=True, timeout=60, check=False
    )


def git(cwd: Path, *words: str) -> None:
    named = ("-c", "user.name=Ada", "-c", "user.email=ada@example.com", "-c", "commit.gpgsign=false")
    subprocess.run(["git", *named, *words], cwd=cwd, check=True, capture_output=True)


def test_the_policy_of_the_base_judges_and_a_wider_one_beside_it_does_not(tmp_path: Path) -> None:
    repo = tmp_path / "repo"
    (repo / ".drillmaster").mkdir(parents=True)
    (repo / "work").mkdir()
    (repo / "work" / "readme.md").write_text("text")
    policy = repo / ".drillmaster" / "workspace-policy.json"
    limits = msgspec.to_builtins(LIMITS)
    said = {
        "kind": "policy",
        "version": 1,
        "source": "runbook",
        "owner": "ada",
        "review_by": "2099-01-01",
        "gates": [limits],
    }
    policy.write_text(json.dumps(said))
    git(repo, "init", "-q", "-b", "main")
    git(repo, "add", "-A")
    git(repo, "commit", "-q", "-m", "base")
    words = ("gate", "workspace", "work", "--policy", ".drillmaster/workspace-policy.json", "--base", "main")
    assert run(repo, *words).returncode == 0
    (repo / "work" / "screen.png").write_bytes(b"\x89PNG\r\n\x1a\n" + b"\0" * 20)
    policy.write_text(json.dumps(said | {"gates": [limits | {"media": "report"}]}))
    ended = run(repo, *words)
    assert ended.returncode == 1, ended.stdout + ended.stderr
    git(repo, "checkout", "-q", "-b", "change")
    git(repo, "add", "-A")
    git(repo, "commit", "-q", "-m", "wider")
    ended = run(repo, *words)
    assert ended.returncode in (1, 2), ended.stdout
    assert "screen.png" in ended.stdout


def test_progress_is_for_terminals(tmp_path: Path) -> None:
    (tmp_path / "readme.md").write_text("text")
    ended = run(tmp_path, "gate", "workspace", str(tmp_path))
    assert (ended.returncode, ended.stderr) == (0, "")
