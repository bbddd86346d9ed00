"""Engine processes on this machine: started, heard, told to begin a step together, and ended."""

import contextlib
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import msgspec

from drillmaster.engines import Spec
from drillmaster.load.manifest import part
from drillmaster.load.preparing import Ready
from drillmaster.screen import screen_text

__all__ = ["Crew", "Ended", "EngineProcess", "LeftToWorkers", "Processes", "RemoteTeam", "Team"]

LEAD_S = 0.02
"""Between the word to begin and the instant that it names."""


class Ended(msgspec.Struct, frozen=True, kw_only=True):
    """How one engine ended."""

    code: int | None
    """None: nobody can tell, it was lost."""
    why: str = ""
    """Its last word, where it did not end well."""
    pid: int | None = None


class EngineProcess:
    """`python -m drillmaster.engines`. In a session of its own, so that a Ctrl-C is ours to pass on.

    Should we be killed, its next word finds nobody, and it ends; its records are on the disk.
    """

    def __init__(self, spec: Spec, *, log: Path, core: int | None = None) -> None:
        """Start it and tell it everything. What it prints as trouble goes to `log`. Raises OSError."""
        self._log = log
        with log.open("ab") as trouble:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "drillmaster.engines"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=trouble,
                start_new_session=True,
            )
        if core is not None:
            with contextlib.suppress(OSError):  # a core that went offline meanwhile
                os.sched_setaffinity(self._process.pid, {core})
        assert self._process.stdin is not None and self._process.stdout is not None
        self._stdin = self._process.stdin
        with contextlib.suppress(BrokenPipeError):  # it is dead already; its exit code says so
            self._stdin.write(msgspec.json.encode(spec) + b"\n")
            if spec.together:
                self._stdin.flush()
            else:
                self._stdin.close()
        self.fd = self._process.stdout.fileno()
        self._poll = select.poll()
        self._poll.register(self.fd, select.POLLIN)
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
        data = os.read(self.fd, 1 << 16)
        if not data:
            self.ended = True
            return []
        self.heard_s = time.monotonic()
        *lines, self._rest = (self._rest + data).split(b"\n")
        return [msgspec.json.decode(line) for line in lines]

    def begin(self, start_ns: int) -> None:
        """Tell an engine that waits for others when the stage begins, on the run's clock."""
        with contextlib.suppress(BrokenPipeError):
            self._stdin.write(b'{"start_ns":%d}\n' % start_ns)
            self._stdin.flush()

    def ask_to_stop(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            self._process.send_signal(signal.SIGTERM)

    def close(self, *, within_s: float) -> Ended:
        """Wait for its end, or make it."""
        try:
            code = self._process.wait(within_s)
        except subprocess.TimeoutExpired:
            self._process.kill()
            code = self._process.wait(5)
        with contextlib.suppress(OSError):
            self._stdin.close()
        if self._process.stdout is not None:
            self._process.stdout.close()
        said = _last_line(self._log) if code else ""
        with contextlib.suppress(OSError):
            if not self._log.stat().st_size:
                self._log.unlink()
        return Ended(code=code, why=said, pid=self._process.pid)


class Crew(Protocol):
    """Engines that do the same steps at one time, each its share. They are counted from 0."""

    @property
    def said(self) -> Sequence[Mapping[str, Any]]:
        """What is known of each, for the record."""
        ...

    def hear(self, wait_s: float) -> list[tuple[int, Mapping[str, Any]]]:
        """What they told since the last time, and who, after a wait of at most so long."""
        ...

    @property
    def gone(self) -> Sequence[int]:
        """Who has ended, or was lost."""
        ...

    @property
    def ended(self) -> bool:
        """Whether there is nobody left to hear."""
        ...

    def silent(self, over_s: float) -> int | None:
        """The first that has not ended and has said nothing for so long."""
        ...

    def begin(self, now_ns: int) -> None:
        """Tell all to begin the step that they wait for, a moment from now on the run's clock."""
        ...

    def ask_to_stop(self) -> None: ...

    def close(self, *, within_s: float) -> Sequence[Ended]:
        """Wait for their ends, or make them."""
        ...


class Team(Protocol):
    """Who brings engines."""

    kind: str
    size: int
    """How many engines share a step."""
    together: bool
    """Whether they are told when to begin."""
    end_s: float
    """How long it may take until the last record of engines that were told to stop is here."""

    def name(self, engine: int) -> str:
        """What an engine is called in sentences."""
        ...

    def record(self) -> dict[str, Any]:
        """What the manifest says of it: kind, size, members."""
        ...

    def crew(self, specs: Sequence[Spec], log: Path) -> Crew:
        """Start engines. `log`: where one that is alone puts its trouble. Raises Problem, OSError."""
        ...


class RemoteTeam(Team, Protocol):
    """Engines that are on other machines, or may be."""

    def assemble(self, ready: Ready, addresses: tuple[str, ...], say: Callable[[str], None]) -> None:
        """Wait until all are there, and each has said that it may and can do what is asked. Raises Problem."""
        ...

    def close(self) -> None:
        """Send them away."""
        ...


class LeftToWorkers(Mapping[str, str]):
    """An environment in which each name stands for itself: keys are taken from the worker's own."""

    def __getitem__(self, name: str) -> str:
        return f"${{{name}}}"

    def __contains__(self, name: object) -> bool:
        return True

    def __iter__(self) -> Iterator[str]:
        return iter(())

    def __len__(self) -> int:
        return 0


class Processes:
    """A team of engine processes on this machine, one a core where there are as many."""

    kind = "processes"
    end_s = 10.0

    def __init__(self, size: int) -> None:
        self.size = size
        self.together = size > 1
        cores = sorted(os.sched_getaffinity(0))
        self.cores = cores[:size] if 1 < size <= len(cores) else None

    def name(self, engine: int) -> str:
        return f"engine {engine + 1} of {self.size}" if self.size > 1 else "the engine"

    def record(self) -> dict[str, Any]:
        members = [{} for _ in range(self.size)] if self.cores is None else [{"core": core} for core in self.cores]
        return {"kind": self.kind, "size": self.size, "members": members}

    def crew(self, specs: Sequence[Spec], log: Path) -> "_Here":
        here = _Here()
        try:
            for at, spec in enumerate(specs):
                core = None if self.cores is None or len(specs) == 1 else self.cores[at]
                here.add(EngineProcess(spec, log=log.parent / part(log.name, at, len(specs)), core=core), core)
        except BaseException:
            here.ask_to_stop()
            here.close(within_s=2.0)
            raise
        return here


class _Here:
    """A crew of processes."""

    def __init__(self) -> None:
        self._engines: list[EngineProcess] = []
        self.said: list[Mapping[str, Any]] = []
        self._poll = select.poll()

    def add(self, engine: EngineProcess, core: int | None) -> None:
        self._engines.append(engine)
        self.said.append({"pid": engine.pid} | ({} if core is None else {"core": core}))
        self._poll.register(engine.fd, select.POLLIN)

    def hear(self, wait_s: float) -> list[tuple[int, Mapping[str, Any]]]:
        ready = {fd for fd, _ in self._poll.poll(wait_s * 1000)}
        found = []
        for at, engine in enumerate(self._engines):
            if engine.fd in ready:
                found += [(at, said) for said in engine.hear(0)]
                if engine.ended:
                    self._poll.unregister(engine.fd)
        return found

    @property
    def gone(self) -> list[int]:
        return [at for at, engine in enumerate(self._engines) if engine.ended]

    @property
    def ended(self) -> bool:
        return all(engine.ended for engine in self._engines)

    def silent(self, over_s: float) -> int | None:
        since_s = time.monotonic() - over_s
        silent = (at for at, one in enumerate(self._engines) if not one.ended and one.heard_s < since_s)
        return next(silent, None)

    def begin(self, now_ns: int) -> None:
        for engine in self._engines:
            engine.begin(now_ns + round(LEAD_S * 1e9))

    def ask_to_stop(self) -> None:
        for engine in self._engines:
            if not engine.ended:
                engine.ask_to_stop()

    def close(self, *, within_s: float) -> list[Ended]:
        until_s = time.monotonic() + within_s
        return [engine.close(within_s=max(0.1, until_s - time.monotonic())) for engine in self._engines]


def _last_line(log: Path) -> str:
    with contextlib.suppress(OSError):
        lines = log.read_text("utf-8", "replace").strip().splitlines()
        return screen_text(lines[-1])[:300] if lines else "it said nothing"
    return "it said nothing"
