"""The workers that ask: what each holds, what its flags met, which killed calls still run, and who fell silent."""

from collections.abc import Callable, Iterator
from typing import Annotated

import msgspec

__all__ = ["Poll", "Roster", "Worker"]

MAX_WORKERS = 4_096
MAX_MET = 1_000
FORGET_S = 60.0
"""A worker that was silent for so long is no worker of ours any more."""

Name = Annotated[str, msgspec.Meta(max_length=64)]
Number = Annotated[int, msgspec.Meta(ge=0, le=1 << 53)]


class Met(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How often a worker's calls met a flag in a window, since that worker began."""

    flag: Name
    window: Annotated[str, msgspec.Meta(max_length=120)]
    n: Number
    missed: Number = 0
    """Calls that it should have met and could not: an answer without the place that is to be changed."""


class Poll(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a worker says when it asks."""

    worker: Annotated[str, msgspec.Meta(pattern=r"\A[!-~]{1,120}\Z")]
    pid: Annotated[int, msgspec.Meta(ge=0)] = 0
    flags: Annotated[tuple[Name, ...], msgspec.Meta(max_length=200)] = ()
    """The names that it uses, when it asks for the first time."""
    held: Annotated[str, msgspec.Meta(max_length=64)] = ""
    """The revision that it goes by; "": none yet."""
    met: Annotated[tuple[Met, ...], msgspec.Meta(max_length=200)] = ()
    running: Annotated[dict[Name, Number], msgspec.Meta(max_length=200)] = {}
    """Capability -> calls of it that are under way; of a killed one they began before the worker knew."""
    wait_s: Annotated[float, msgspec.Meta(ge=0, le=30)] = 0.0
    """How long the answer may be held while there is nothing new."""
    leaving: bool = False


class Worker:
    """One of them."""

    __slots__ = ("held", "lost", "met", "name", "number", "pid", "running", "seen_ns")

    def __init__(self, name: str, pid: int) -> None:
        self.name = name
        self.pid = pid
        self.held = ""
        self.number = -1
        self.seen_ns = 0
        self.lost = False
        self.met: dict[tuple[str, str], tuple[int, int]] = {}
        self.running: dict[str, int] = {}


class Roster:
    """All of them. `tell` writes a line of evidence."""

    def __init__(self, tell: Callable[[str, dict[str, object]], object]) -> None:
        self.workers: dict[str, Worker] = {}
        self.total: dict[tuple[str, str], int] = {}
        """Flag and window -> calls that met it, over all workers there ever were."""
        self._tell = tell

    def heard(self, poll: Poll, now_ns: int, number: int | None) -> Worker | None:
        """Take down what a worker says; None where there are too many, or it leaves.

        `number` is where what it holds stands among this server's revisions; None: it is another's. What goes back is no news, and
        makes no line: nobody fills the disk by saying the same in turns.
        """
        worker = self.workers.get(poll.worker)
        if worker is None:
            if len(self.workers) >= MAX_WORKERS or (poll.leaving and not poll.met):
                return None
            worker = self.workers[poll.worker] = Worker(poll.worker, poll.pid)
            self._tell("flag_joined", {"worker": poll.worker, "pid": poll.pid, "flags": list(poll.flags)})
        elif worker.lost:
            self._tell("flag_joined", {"worker": poll.worker, "pid": poll.pid, "back": True})
        worker.lost = False
        worker.seen_ns = now_ns
        worker.running = poll.running
        worker.held = poll.held
        if number is not None and number > worker.number:
            worker.number = number
            self._tell("flag_read", {"worker": poll.worker, "revision": poll.held})
        for met in poll.met:
            key = (met.flag, met.window)
            before = worker.met.get(key, (0, 0))
            more = met.n + met.missed > sum(before) and met.n >= before[0]
            if more and (key in worker.met or len(worker.met) < MAX_MET):
                self.total[key] = self.total.get(key, 0) + met.n - before[0]
                worker.met[key] = (met.n, met.missed)
                missed = {"missed": met.missed} if met.missed else {}
                line = {"worker": poll.worker, "flag": met.flag, "window": met.window, "n": met.n, **missed}
                self._tell("flag_met", line)
        if poll.leaving:
            del self.workers[poll.worker]
            self._tell("flag_left", {"worker": poll.worker})
            return None
        return worker

    def sweep(self, now_ns: int, lost_s: float) -> list[Worker]:
        """Those that fell silent just now; who was silent for a minute is forgotten."""
        lost = []
        for worker in tuple(self.workers.values()):
            silent_s = (now_ns - worker.seen_ns) / 1e9
            if silent_s > FORGET_S:
                del self.workers[worker.name]
            elif silent_s > lost_s and not worker.lost:
                worker.lost = True
                lost.append(worker)
                self._tell("flag_lost", {"worker": worker.name})
        return lost

    def behind(self, holds: Callable[[str], bool]) -> Iterator[Worker]:
        """Those that do not hold what `holds` asks for."""
        return (one for one in self.workers.values() if not holds(one.held))
