"""`drillmaster cutover rehearse`, as a process: killed anywhere, signed, interrupted, asked on a terminal."""

import contextlib
import json
import os
import pty
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import msgspec
import pytest

from drillmaster.gates.cutover import HaltDrill
from drillmaster.intake.cutover import record_digest
from drillmaster.signing import verify

pytestmark = pytest.mark.e2e

REHEARSE = [sys.executable, "-m", "drillmaster", "cutover", "rehearse", "--service", "ledger-writer"]


def run(*args: str, folder: Path, limit_s: float = 60.0) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*REHEARSE, *args],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=limit_s,
        stdin=subprocess.DEVNULL,
        check=False,
    )


def record(path: Path) -> HaltDrill:
    found = msgspec.json.decode(path.read_bytes(), type=HaltDrill)
    assert found.digest == record_digest(found)
    return found


def test_it_leaves_a_record_and_nothing_else(tmp_path: Path) -> None:
    done = run("--halted-by", "bea", "--compare-every", "10ms", folder=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout == ""
    assert [path.name for path in tmp_path.iterdir()] == ["halt-drill.json"]
    assert record(tmp_path / "halt-drill.json").found_rows == 7


def test_it_can_be_printed(tmp_path: Path) -> None:
    done = run("--halted-by", "bea", "--compare-every", "10ms", "--out", "-", folder=tmp_path)
    assert json.loads(done.stdout)["kind"] == "halt-drill"
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "args",
    [
        (),
        ("--halted-by", "gpt-4o"),
        ("--halted-by", "bea", "--drift", "900"),
        ("--halted-by", "bea", "--rows", "3"),
        ("--halted-by", "bea", "--compare-every", "0s"),
        ("--halted-by", "bea", "--compare-every", "1h"),
        ("--halted-by", "bea", "--plan", "missing.json"),
        ("--halted-by", "bea", "--out", "no/such\0/file"),
        ("--halted-by", "bea", "--out", "-", "--sign", "key"),
        ("--halted-by", "bea", "--compare-every", "10ms", "--sign", "missing"),
        ("--halted-by", "bea", "--service", " "),
    ],
)
def test_what_cannot_be_rehearsed_exits_2(args: tuple[str, ...], tmp_path: Path) -> None:
    with contextlib.suppress(ValueError):  # a zero in an argument never reaches a program
        done = run(*args, folder=tmp_path)
        assert done.returncode == 2, done.stderr
        assert "Traceback" not in done.stderr


@pytest.mark.needs("ssh-keygen")
def test_its_record_is_signed_as_evidence(tmp_path: Path) -> None:
    key = tmp_path / "key"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "bea", "-f", key], check=True, timeout=30)
    done = run("--halted-by", "bea", "--compare-every", "10ms", "--sign", str(key), folder=tmp_path)
    assert done.returncode == 0, done.stderr
    assert verify(tmp_path / "halt-drill.json", tmp_path / "key.pub").identity == "bea"


def test_killed_anywhere_it_leaves_a_whole_record_or_none_and_the_next_one_restores(tmp_path: Path) -> None:
    chance = random.Random(7)
    args = ["--halted-by", "bea", "--folder", "stores", "--rows", "3000", "--compare-every", "100ms"]
    for _ in range(12):
        child = subprocess.Popen([*REHEARSE, *args], cwd=tmp_path, stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL)
        with contextlib.suppress(subprocess.TimeoutExpired):
            child.wait(timeout=chance.uniform(0.1, 1.2))
        child.kill()
        child.wait(timeout=30)
        if (tmp_path / "halt-drill.json").exists():
            record(tmp_path / "halt-drill.json")
    done = run(*args, folder=tmp_path)
    assert done.returncode == 0, done.stderr
    assert record(tmp_path / "halt-drill.json").equal_after


@pytest.mark.parametrize(("sent", "code"), [(signal.SIGINT, 3), (signal.SIGTERM, 2)])
def test_an_interrupt_leaves_no_record(sent: signal.Signals, code: int, tmp_path: Path) -> None:
    args = ["--halted-by", "bea", "--compare-every", "60s"]
    child = subprocess.Popen(
        [*REHEARSE, *args], cwd=tmp_path, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True
    )
    assert child.stderr is not None
    for line in child.stderr:
        if line.startswith("drift"):
            break
    child.send_signal(sent)
    assert child.wait(timeout=30) == code
    child.stderr.close()
    assert list(tmp_path.iterdir()) == []


def test_on_a_terminal_who_halts_is_asked_and_timed(tmp_path: Path) -> None:
    lead, follow = pty.openpty()
    child = subprocess.Popen(
        [*REHEARSE, "--compare-every", "10ms"], cwd=tmp_path, stdin=follow, stdout=follow, stderr=follow, close_fds=True
    )
    os.close(follow)
    said = b""
    deadline = time.monotonic() + 30
    while b"Who halts?" not in said and time.monotonic() < deadline:
        said += os.read(lead, 4096)
    time.sleep(0.3)
    os.write(lead, b"bea@example.com\n")
    with contextlib.suppress(OSError):  # the terminal is gone with its program
        while os.read(lead, 4096):
            pass
    assert child.wait(timeout=30) == 0
    os.close(lead)
    found = record(tmp_path / "halt-drill.json")
    assert (found.halted_by, found.asked) == ("bea@example.com", "terminal")
    assert found.halt_s >= 0.3
