"""The process with provider and proxy, from outside: started once, asked over a pipe, surely ended."""

import json
import os
import select
import subprocess
import sys
import tempfile
import threading
from typing import Any

from drillmaster.errors import Problem

__all__ = ["Child", "NoAnswer"]

MAX_ORDER_BYTES = 64 * 1024 * 1024
"""Of an order; more is refused before it is sent."""
START_S = 30
ANSWER_S = 20
END_S = 0.01
ENDS = 300
"""How long one look for its end lasts, and how many there are."""
_KEPT = (
    "HOME",
    "LANG",
    "LC_ALL",
    "LD_LIBRARY_PATH",
    "PATH",
    "PYTHONHOME",
    "PYTHONPATH",
    "SSL_CERT_DIR",
    "SSL_CERT_FILE",
    "TMPDIR",
    "TZ",
    "VIRTUAL_ENV",
)

_SAID = {"--upstream": "drillmaster_upstream", "--dialect": "drillmaster_dialect"}
"""Where a run of pytest says what a proxy of its own has options for."""


def _line(order: dict[str, Any]) -> bytes:
    """The order as a line of JSON. Raises Problem for what JSON has no word for."""
    place = f"provider.{order['do']}"
    try:
        line = json.dumps(order, ensure_ascii=False, allow_nan=False).encode("utf-8") + b"\n"
    except (TypeError, ValueError, RecursionError) as error:
        raise Problem(
            place, found=str(error)[:200], wanted="what JSON can hold", remedy="write it as JSON has it"
        ) from None
    if len(line) > MAX_ORDER_BYTES:
        raise Problem(
            place, found=f"{len(line):,} bytes", wanted=f"at most {MAX_ORDER_BYTES:,}", remedy="ask for less at once"
        )
    return line


class NoAnswer(Exception):
    """The process has ended, or is silent."""


class Child:
    """The process, and the one line to it."""

    def __init__(self, *, upstream: str | None = None, dialect: str = "auto") -> None:
        """Start it. Raises Problem for what it cannot be started with, NoAnswer where it does not come up."""
        plot = {"parent": os.getpid(), "upstream": upstream, "dialect": dialect}
        self._owner = os.getpid()
        self._complaints = tempfile.TemporaryFile()  # noqa: SIM115 - lives as long as the process
        self._process = subprocess.Popen(  # noqa: S603 - our own interpreter, our own module
            [sys.executable, "-P", "-m", "drillmaster.backstage", json.dumps(plot)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._complaints,
            env={name: os.environ[name] for name in _KEPT if name in os.environ},
        )
        assert self._process.stdin is not None and self._process.stdout is not None
        self._in = self._process.stdin.fileno()
        self._out = self._process.stdout.fileno()
        self._poll = select.poll()  # not select.select: a run may have more than 1,024 descriptors open
        self._poll.register(self._out, select.POLLIN)
        self._held = bytearray()
        self._torn = False
        """Whether an order was left half written, say by a time limit of the test's."""
        self._number = 0
        self._lock = threading.Lock()
        try:
            told = self._line(START_S)
            if "error" in told:
                error = told["error"]
                raise Problem(**{**error, "place": _SAID.get(error["place"], error["place"])})
        except BaseException:
            self.close()
            raise
        self.url: str = told["url"]
        """Where clients connect, for as long as it lives."""

    @property
    def pid(self) -> int:
        return self._process.pid

    def ask(self, do: str, **order: Any) -> dict[str, Any]:
        """Have an order carried out. Raises Problem where it is refused, NoAnswer where nobody is there to do so."""
        if os.getpid() != self._owner:
            raise NoAnswer("the provider belongs to the process that started it; this is a fork of that one")
        with self._lock:
            self._number += 1
            number = self._number
            self._write(_line({"id": number, "do": do, **order}))
            while (told := self._line(ANSWER_S)).get("id") != number:
                pass  # the answer to an order that was interrupted, say by a time limit of the test's
        if "error" in told:
            raise Problem(**told["error"])
        answer: dict[str, Any] = told["ok"]
        return answer

    def _write(self, data: bytes) -> None:
        rest = memoryview(b"\n" + data if self._torn else data)
        self._torn = True
        try:
            while rest:
                rest = rest[os.write(self._in, rest) :]
        except OSError:
            raise self._gone() from None
        self._torn = False

    def _line(self, within_s: float) -> dict[str, Any]:
        held = self._held
        end = held.find(b"\n")
        while end < 0:
            if not self._poll.poll(within_s * 1_000):
                raise NoAnswer(f"the provider's process {self.pid} is silent for {within_s} s")
            data = os.read(self._out, 1 << 20)
            if not data:
                raise self._gone()
            looked = len(held)
            held += data
            end = held.find(b"\n", looked)
        line = bytes(held[:end])
        del held[: end + 1]
        told: dict[str, Any] = json.loads(line)
        return told

    def _gone(self) -> NoAnswer:
        code = self._ended()
        said = self.complaints()
        return NoAnswer(f"the provider's process ended with {code}: {said[-1] if said else 'no word'}")

    def complaints(self) -> list[str]:
        """The last lines that it wrote to its standard error."""
        fd = self._complaints.fileno()
        size = os.fstat(fd).st_size  # read in place: the other process writes where the descriptor stands
        return os.pread(fd, 4_000, max(0, size - 4_000)).decode("utf-8", "replace").strip().splitlines()

    def close(self) -> None:
        """End it, and wait for its end."""
        if os.getpid() != self._owner:
            return
        process = self._process
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                pipe.close()
        if self._ended() is None:
            process.kill()
            process.wait()
        self._complaints.close()

    def _ended(self) -> int | None:
        """Its exit code, None where it goes on. Counted by `select`, which no frozen clock stops."""
        for _ in range(ENDS):
            if self._process.poll() is not None:
                break
            select.select([], [], [], END_S)
        return self._process.returncode
