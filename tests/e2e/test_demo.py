"""The demo as a newcomer runs it, each mistake of the stand-in agent, and every way of stopping it."""

import json
import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from drillmaster.standins.agent import BUGS

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(400)]

DEMO = (sys.executable, "-P", "-m", "drillmaster", "demo")
AT_ONCE = 6


class Showing:
    """One demo, started; every process that comes of it carries a mark in its environment."""

    def __init__(self, cwd: Path, *args: str) -> None:
        self.mark = f"DEMO_TEST={uuid.uuid4().hex}"
        name, _, value = self.mark.partition("=")
        cwd.mkdir(parents=True, exist_ok=True)
        self.process = subprocess.Popen(
            [*DEMO, *args],
            cwd=cwd,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, name: value},
            start_new_session=True,
        )

    def end(self) -> tuple[int, str, str]:
        out, err = self.process.communicate(timeout=120)
        return self.process.returncode, out, err

    def left(self) -> list[str]:
        """Command lines of processes of this demo that still live."""
        return list(self.living().values())

    def living(self) -> dict[int, str]:
        """Processes of this demo that still live, by pid."""
        found = {}
        for folder in Path("/proc").iterdir():
            if not folder.name.isdecimal():
                continue
            try:
                if self.mark.encode() in (folder / "environ").read_bytes().split(b"\0"):
                    found[int(folder.name)] = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode()
            except OSError:
                continue  # it ended while we looked, or is somebody else's
        return found

    def gone_within(self, seconds: float) -> list[str]:
        """What is still there after so many seconds; empty as soon as nothing is."""
        give_up_s = time.monotonic() + seconds
        while (left := self.left()) and time.monotonic() < give_up_s:
            time.sleep(0.2)
        return left


def test_a_newcomer_sees_a_pass_and_a_fail_and_what_to_type_next(tmp_path: Path) -> None:
    began_s = time.monotonic()
    showing = Showing(tmp_path)
    code, out, err = showing.end()
    assert code == 0, out + err
    assert time.monotonic() - began_s < 90
    assert showing.gone_within(2) == []
    assert "PASS " in out
    assert "FAIL " in out
    assert "DEMO" in out
    assert out.rstrip().endswith("init eviction")
    assert "Traceback" not in err
    assert "\x1b" not in out + err  # no terminal, no colour
    assert "FAULT INJECTED" in err
    runs = sorted(path for path in (tmp_path / "runs").iterdir() if path.is_dir())
    assert len(runs) == 2
    for run in runs:
        assert {"manifest.json", "seal.json", "verdict.json", "card.md", "report.html"} <= {
            p.name for p in run.iterdir()
        }
        for file in run.rglob("*"):
            if file.is_file():
                assert not [name for name in BUGS if name.encode() in file.read_bytes()], file
    assert {p.name for p in tmp_path.iterdir()} == {"runs"}


def one_bug(bug: str, mode: str, folder: Path) -> str:
    code, out, err = Showing(folder, "--fail", "--json", "--mode", mode, "--bug", bug).end()
    try:
        drill = json.loads(out)["drills"][0]
    except ValueError:
        return f"{bug} {mode}: exit {code}\n{out}\n{err}"
    named = [f for f in Path(folder).rglob("*") if f.is_file() and bug.encode() in f.read_bytes()]
    if drill["as_expected"] and code == drill["exit"] and not named:
        return ""
    return f"{bug} {mode}: exit {code}, {drill}, named in {named}\n{err}"


CASES = (
    *((bug, "reset") for bug in BUGS if bug != "no-client-timeout"),
    ("no-client-timeout", "hang"),
    ("status-only", "503"),  # does no harm there
    ("wrong-except", "hang"),
)


@pytest.mark.parametrize("part", [0, 1])
def test_each_mistake_gets_its_verdict_and_its_finding_and_is_named_in_no_file(part: int, tmp_path: Path) -> None:
    cases = CASES[part::2]
    with ThreadPoolExecutor(AT_ONCE) as pool:
        folders = [tmp_path / str(nth) for nth in range(len(cases))]  # not by name: paths are in the evidence
        wrong = pool.map(lambda case, folder: one_bug(case[0], case[1], folder), cases, folders)
        assert not [text for text in wrong if text]


def test_the_healthy_agent_passes_in_every_mode(tmp_path: Path) -> None:
    def one(mode: str) -> str:
        code, out, err = Showing(tmp_path / mode, "--pass", "--mode", mode).end()
        return "" if code == 0 else f"{mode}: exit {code}\n{out}\n{err}"

    with ThreadPoolExecutor(AT_ONCE) as pool:
        assert not [text for text in pool.map(one, ("reset", "503", "hang")) if text]


def test_a_signal_at_any_moment_leaves_nothing_running(tmp_path: Path) -> None:
    def one(case: tuple[signal.Signals, float, Callable[[int, int], None]]) -> str:
        number, after_s, send = case
        showing = Showing(tmp_path / f"{number.name}-{after_s}-{send.__name__}", "--fail")
        time.sleep(after_s)
        send(showing.process.pid, number)
        began_s = time.monotonic()
        code, out, err = showing.end()
        took_s = time.monotonic() - began_s
        left = showing.gone_within(3)
        early = after_s < 1 and code in (-number, 130)  # before it could arm: Python itself was told
        if (code == 3 or early) and not left and took_s < 20 and ("Traceback" not in err or early):
            return ""
        return f"{number.name} after {after_s} s: exit {code} in {took_s:.1f} s, left {left}\n{out}\n{err}"

    cases = [
        *((signal.SIGINT, after_s, os.killpg) for after_s in (0.4, 1.5, 4.0, 9.0, 14.0, 22.0)),
        *((signal.SIGTERM, after_s, os.kill) for after_s in (1.0, 2.5, 6.0, 12.0, 20.0)),
    ]
    with ThreadPoolExecutor(AT_ONCE) as pool:
        assert not [text for text in pool.map(one, cases) if text]


def test_a_killed_demo_leaves_nothing_behind_within_seconds(tmp_path: Path) -> None:
    showing = Showing(tmp_path, "--fail")
    time.sleep(12)
    showing.process.kill()
    showing.end()
    left = [line for line in showing.gone_within(15) if "drillmaster.proxy" not in line]
    assert left == []  # the proxy passes through until it is idle: an agent of yours may hang on it
    for pid in showing.living():
        os.kill(pid, signal.SIGTERM)
    assert showing.gone_within(15) == []


def test_a_folder_that_cannot_hold_runs_is_no_obstacle(tmp_path: Path) -> None:
    (tmp_path / "runs").write_text("a file of yours")
    code, out, err = Showing(tmp_path, "--pass", "--json").end()
    assert code == 0, err
    assert "the runs go to /" in err
    assert (tmp_path / "runs").read_text() == "a file of yours"
    run = Path(json.loads(out)["drills"][0]["run"])
    assert (run / "report.html").is_file()
    for file in sorted(run.parent.rglob("*"), reverse=True):
        file.rmdir() if file.is_dir() else file.unlink()
    run.parent.rmdir()


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (("--bug", "nonsense"), "--list-bugs"),
        (("--pass", "--fail"), "one of them"),
        (("--pass", "--bug", "one-loop"), "--fail with --bug"),
        (("--mode", "sulk"), "'reset', '503', 'hang'"),
    ],
)
def test_wrong_usage_is_told_at_once(args: tuple[str, ...], said: str, tmp_path: Path) -> None:
    code, out, err = Showing(tmp_path, *args).end()
    assert code == 2
    assert said in err
    assert "Traceback" not in err
    assert out == ""
