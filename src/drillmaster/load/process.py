"""One engine process: started, heard, and ended."""

import contextlib
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from drillmaster.engines import Spec

__all__ = ["EngineProcess"]


class EngineProcess:
    """`python -m drillmaster.engines`. In a session of its own, so that a Ctrl-C is ours to pass on.

    Should we be killed, its next word finds nobody, and it ends; its records are on the disk.
    """

    def __init__(self, spec: Spec, *, log: Path) -> None:
        """Start it and tell it everything. What it prints as trouble goes to `log`. Raises OSError."""
        with log.open("ab") as trouble:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "drillmaster.engines"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=trouble,
                start_new_session=True,
            )
        assert self._process.stdin is not None and self._process.stdout is not None
        with contextlib.suppress(BrokenPipeError):  # it is dead already; its exit code says so
            self._process.stdin.write(msgspec.json.encode(spec))
            self._process.stdin.close()
        self._fd = self._process.stdout.fileno()
        self._poll = select.poll()
        self._poll.register(self._fd, select.POLLIN)
        self._rest = b""
        self.ended = False
        self.heard_s = time.monotonic()

    @property
    def pid(self) -> int:
        return self._process.pid

    def hear(self, wait_s: float) -> list[Mapping[str, Any]]:
        """What it told since the last time, after a wait of at most so long; sets `ended` when that was all."""
        if not self._poll.poll(wait_s * 1000):
            return []
        data = os.read(self._fd, 1 << 16)
        if not data:
            self.ended = True
            return []
        self.heard_s = time.monotonic()
        *lines, self._rest = (self._rest + data).split(b"\n")
        return [msgspec.json.decode(line) for line in lines]

    def ask_to_stop(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            self._process.send_signal(signal.SIGTERM)

    def close(self, *, within_s: float) -> int:
        """Wait for its end, or make it; its exit code, negative for a signal."""
        try:
            code = self._process.wait(within_s)
        except subprocess.TimeoutExpired:
            self._process.kill()
            code = self._process.wait(5)
        if self._process.stdout is not None:
            self._process.stdout.close()
        return code
