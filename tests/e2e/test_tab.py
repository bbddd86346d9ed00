"""A real bash on a terminal, with the completion that it was given: what stands on the line after a Tab."""

import os
import pty
import select
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

pytestmark = [pytest.mark.e2e, pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash here")]

WAIT_S = 20.0


class Terminal:
    """One bash in a folder, spoken to by keys."""

    def __init__(self, folder: Path, script: str) -> None:
        self._fd, theirs = pty.openpty()
        bin_folder = Path(sys.executable).parent
        env = {"PATH": f"{bin_folder}:{os.environ['PATH']}", "TERM": "dumb", "HOME": str(folder), "PS1": "$ "}
        self._bash = subprocess.Popen(
            ["bash", "--norc", "--noprofile", "-i"],
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            cwd=folder,
            env=env,
            start_new_session=True,
        )
        os.close(theirs)
        self.type(f". ./{script}; bind 'set bell-style none'; bind 'set enable-bracketed-paste off'; echo re''ady\n")
        self.until("ready")

    def type(self, keys: str) -> None:
        os.write(self._fd, keys.encode())

    def until(self, wanted: str) -> str:
        """What it writes, up to that."""
        said, give_up_s = "", time.monotonic() + WAIT_S
        while wanted not in said and time.monotonic() < give_up_s:
            if select.select([self._fd], [], [], 0.1)[0]:
                said += os.read(self._fd, 65_536).decode("utf-8", "replace")
        assert wanted in said
        return said

    def close(self) -> None:
        self._bash.kill()
        self._bash.wait(5)
        os.close(self._fd)


@pytest.fixture(scope="module")
def terminal(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Terminal]:
    folder = tmp_path_factory.mktemp("here")
    for name in ("eviction-plan.yaml", "interview.json", "gate.json", "some-rules.yaml"):
        (folder / name).write_text("")
    (folder / "runs" / "20261129T153000Z-1a2b").mkdir(parents=True)
    (folder / "runs" / "20261129T153000Z-1a2b" / "manifest.json").write_text("{}")
    script = subprocess.run(
        [sys.executable, "-m", "drillmaster"],
        env=os.environ | {"_DRILLMASTER_COMPLETE": "bash_source"},
        capture_output=True,
        text=True,
        timeout=30,
        check=True,
    )
    (folder / "complete.sh").write_text(script.stdout)
    bash = Terminal(folder, "complete.sh")
    try:
        yield bash
    finally:
        bash.close()


@pytest.mark.parametrize(
    ("typed", "whole"),
    [
        ("run eviction ev", "run eviction eviction-plan.yaml"),
        ("run matrix ev", "run matrix eviction-plan.yaml"),
        ("gate interview i", "gate interview interview.json"),
        ("gate interview interview.json g", "gate interview interview.json gate.json"),
        ("gate eviction 2026", "gate eviction 20261129T153000Z-1a2b"),
        ("gate eviction i", "gate eviction interview.json"),
        ("fault try --rules som", "fault try --rules some-rules.yaml"),
        ("run matrix --faults reset,50", "run matrix --faults reset,503"),
        ("report ru", "report runs/"),
    ],
)
def test_a_tab_in_bash_puts_the_rest_of_the_word_on_the_line(terminal: Terminal, typed: str, whole: str) -> None:
    terminal.type(f"drillmaster {typed}\t")
    terminal.until(whole)
    terminal.type("\x15")  # the line is given up
