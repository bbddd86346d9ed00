"""A Locust master and its workers, as processes that a test starts one by one."""

import contextlib
import importlib.util
import json
import os
import pty
import re
import subprocess
import sys
import termios
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.interviewlab import Lab, interviewing

__all__ = ["START_S", "Many", "needs_locust", "plan_for", "together"]

START_S = 30.0
needs_locust = pytest.mark.skipif(
    importlib.util.find_spec("locust") is None, reason="needs Locust: pip install 'drillmaster[locust]'"
)


class Many(Lab):
    """A master, and workers that come when they are asked to."""

    master: "subprocess.Popen[str]"

    def lead(self, *words: str, workers: int, bind: str = "127.0.0.1:0", terminal: bool = False) -> None:
        """Start the master, and read on until it says where it is. `terminal`: it speaks to one, which is as wide as can be."""
        argv = self.command(*words, "--engine", "locust", "--workers", str(workers), "--bind", bind)
        heard, speaks = pty.openpty() if terminal else os.pipe()
        if terminal:
            termios.tcsetwinsize(speaks, (24, 200))
        self.master = subprocess.Popen(
            argv, cwd=self.folder, stdout=subprocess.PIPE, stderr=speaks, text=True, env=self.env()
        )
        os.close(speaks)
        self.processes.append(self.master)
        self.said: list[str] = []
        self._heard = open(heard, encoding="utf-8", errors="replace")  # noqa: SIM115 - a descriptor, read to its end
        for line in self._heard:
            self.said.append(line)
            if (found := re.search(r"--master (\S+)", line)) is not None:
                self.address = found[1]
                break
        else:
            raise AssertionError("".join(self.said))
        threading.Thread(target=self._read_on, daemon=True).start()

    def env(self, **more: str) -> dict[str, str]:
        return {name: value for name, value in os.environ.items() if name != "WORKER_KEY"} | more

    def _read_on(self) -> None:
        with contextlib.suppress(ValueError, OSError), self._heard:  # a terminal ends with an error
            for line in self._heard:
                self.said.append(line)

    def follow(self, *flags: str, within: list[str] | None = None, **env: str) -> "subprocess.Popen[str]":
        """Start a worker."""
        argv = [*(within or []), sys.executable, "-m", "drillmaster", "locust-worker", "--master", self.address, *flags]
        worker = subprocess.Popen(
            argv, cwd=self.folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=self.env(**env)
        )
        self.processes.append(worker)
        return worker

    def ends(self, within_s: float = 60) -> int:
        return self.master.wait(within_s)

    @property
    def text(self) -> str:
        return "".join(self.said)

    def wait_to_hear(self, words: str, within_s: float = START_S) -> None:
        until_s = time.monotonic() + within_s
        while words not in self.text:
            assert time.monotonic() < until_s, self.text
            time.sleep(0.02)


def together(tmp_path: Path) -> Iterator[Many]:
    """Lend a lab; what was started in it is ended."""
    many = Many(tmp_path)
    for _ in interviewing(tmp_path):
        try:
            yield many
        finally:
            for process in many.processes:
                if process.poll() is None:
                    process.kill()
            for process in many.processes:
                process.wait()
                for stream in (process.stdout, process.stderr):
                    if stream is not None:
                        stream.close()


def plan_for(lab: Many, url: str, **more: Any) -> str:
    host = url.split("/")[2].rpartition(":")[0]
    permit = {
        "host": host,
        "owner": "Ada",
        "until": "2199-01-01",
        "max_per_s": 5_000,
        "max_requests": 5_000,
        "max_in_flight": 50,
    }
    plan = {
        "kind": "plan",
        "drill": "interview",
        "job": "x",
        "target": {"url": url, "prompt": "call #{n}#", "permit": permit},
        "levels": [6],
        "warm": 240,
        "idle_s": 0,
        "open": [{"rate_per_s": 40, "seconds": 1.5, "poisson": True, "max_in_flight": 40}],
        **more,
    }
    (lab.folder / "plan.json").write_text(json.dumps(plan))
    return "plan.json"
