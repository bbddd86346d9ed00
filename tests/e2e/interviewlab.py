"""Interviews as a user does them, one command in a folder of its own, and servers that count what they saw."""

import contextlib
import json
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from drillmaster.load.reading import InterviewRun, open_interview_run
from tests.e2e.wirelab import Origin, Reader

GOOD = b'{"text":"hello"}'


def answer(body: bytes = GOOD, status: bytes = b"200 OK") -> bytes:
    return b"HTTP/1.1 %b\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%b" % (status, len(body), body)


class Truth:
    """A server with a law, and what it saw: how many requests, how many at once, what they held."""

    def __init__(self, law: Callable[[int], tuple[float, bytes]]) -> None:
        self._law = law
        self._lock = threading.Lock()
        self._now = 0
        self.most = 0
        self.heads: list[Any] = []
        self.began_s: list[float] = []

    def handle(self, reader: Reader, sock: socket.socket) -> None:
        while (message := reader.request()) is not None:
            with self._lock:
                number = len(self.heads)
                self.heads.append(message)
                self.began_s.append(time.monotonic())
                self._now += 1
                self.most = max(self.most, self._now)
            after_s, wire = self._law(number)
            time.sleep(after_s)
            with self._lock:
                self._now -= 1
            sock.sendall(wire)

    @property
    def n(self) -> int:
        return len(self.heads)


@contextlib.contextmanager
def server(law: Callable[[int], tuple[float, bytes]]) -> Iterator[tuple[str, Truth]]:
    truth = Truth(law)
    origin = Origin(truth.handle)
    try:
        yield f"{origin.url}/v1/chat", truth
    finally:
        origin.close()


class Lab:
    """A folder in which interviews are run."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.processes: list[subprocess.Popen[str]] = []

    def command(self, *words: str) -> list[str]:
        return [sys.executable, "-m", "drillmaster", "interview", *words]

    def run(self, *words: str, env: dict[str, str] | None = None, **more: Any) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            self.command(*words),
            cwd=self.folder,
            env={**os.environ, **(env or {})},
            capture_output=True,
            text=True,
            timeout=50,
            check=False,
            **more,
        )

    def start(self, *words: str) -> "subprocess.Popen[str]":
        process = subprocess.Popen(
            self.command(*words), cwd=self.folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        self.processes.append(process)
        return process

    @property
    def run_dir(self) -> Path:
        [found] = (path for path in (self.folder / "runs").iterdir() if path.is_dir())
        return found

    def read(self) -> InterviewRun:
        return open_interview_run(self.run_dir)

    def file(self, name: str = "interview.json") -> dict[str, Any]:
        found: dict[str, Any] = json.loads((self.folder / name).read_text())
        return found

    def rows(self, name: str = "interview.json") -> dict[str, dict[str, Any]]:
        return {row["label"]: row for row in self.file(name)["results"]}

    def events(self) -> list[dict[str, Any]]:
        text = (self.run_dir / "events" / "load.jsonl").read_text()
        return [json.loads(line) for line in text.splitlines() if line]

    def wait_for(self, event: str, within_s: float = 15, **fields: Any) -> None:
        until_s = time.monotonic() + within_s
        while time.monotonic() < until_s:
            with contextlib.suppress(OSError, ValueError):
                if any(row["event"] == event and fields.items() <= row.items() for row in self.events()):
                    return
            time.sleep(0.02)
        raise AssertionError(f"no {event} within {within_s} s")


def interviewing(folder: Path) -> Iterator[Lab]:
    """Lend a lab; what was started in it is ended."""
    lab = Lab(folder)
    try:
        yield lab
    finally:
        for process in lab.processes:
            if process.poll() is None:
                process.kill()
            process.communicate()
