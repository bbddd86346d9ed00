"""Drill a stale holder: a process is stopped past its lease's deadline, and goes on as if nothing had been.

1. Two real processes, by turns. The first acquires, reads that it holds, and is stopped (SIGSTOP) before it writes. The second is
   granted the lease once its deadline has passed, and does the job. The first goes on (SIGCONT) and writes.
2. It is right when each job's effect is there exactly once, when the stale write was refused by the store, when the first process
   then knows that it lost the lease, when its renewal is refused, and when the second's token is higher.
3. By turns the stale write comes after the second's write, and before it: then only what the second said when it was granted the
   lease, or the lease itself, keeps the stale write out.
4. A round in which the first process lost the lease before it was stopped, on a busy machine, shows nothing; nor does one in
   which the second was not granted it in time, as when the first was stopped within a question to a file, which nobody else can
   ask until it goes on. They are void, counted, and played again. Too many of them, and there is no verdict.
5. The drill writes into tables and keys of its own, under names of its own, and takes away what it wrote; what it asked stays in
   the store's log. A file, database or server for drills is the better place all the same.
6. `fenced=False` leaves the fence out. Then the drill has to fail; a drill that cannot fail shows nothing.
"""

import contextlib
import os
import secrets
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import msgspec

from drillmaster.errors import Problem, Refused
from drillmaster.guards.lease import Lease
from drillmaster.kits.stale_holder.effects import Effects, Way, open_effects, ways
from drillmaster.kits.stale_holder.worker import Order, Said, Start
from drillmaster.rules.lease import LAW, LeaseAsk
from drillmaster.stores.opening import open_store

__all__ = ["Check", "Course", "Result", "drill"]

_WORKER = "drillmaster.kits.stale_holder.worker"
_ANSWER_S = 60.0
_STORE_S = 2.0
Tell = Callable[[str], None]


class Course(msgspec.Struct, frozen=True, kw_only=True):
    """What is drilled. `lanes` pairs of processes work beside each other, each on a lease of its own."""

    rounds: int
    ttl_ms: int
    pause_ms: int
    lanes: int = 1
    fenced: bool = True


class Check(msgspec.Struct, frozen=True, kw_only=True):
    id: str
    passed: bool
    said: str


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """What came of it, counted."""

    rounds: int = 0
    void: int = 0
    late: int = 0
    """Rounds in which the stale write came after the other's; in the rest it came before."""
    ways: dict[str, int] = {}
    stale_taken: int = 0
    doubled: int = 0
    undone: int = 0
    unaware: int = 0
    renewed: int = 0
    lower_tokens: int = 0

    @property
    def checks(self) -> tuple[Check, ...]:
        n = self.rounds
        return (
            _none("stale-write", self.stale_taken, n, "stale writes were taken", "stale writes, each refused"),
            _none("effect-once", self.doubled + self.undone, n, "jobs were done twice or not at all", "jobs, each done once"),
            _none("holder-knows", self.unaware, n, "holders went on believing", "holders knew that they had lost it"),
            _none("renewal", self.renewed, n, "stale renewals were granted", "stale renewals, each refused"),
            _none("token-rises", self.lower_tokens, n, "tokens were no higher", "takeovers, each under a higher token"),
        )  # fmt: skip  # fields in pairs

    @property
    def passed(self) -> bool:
        return self.rounds > 0 and all(check.passed for check in self.checks)


def drill(url: str, course: Course, *, tell: Tell = lambda said: None) -> Result:
    """Run the drill. Raises Problem where it cannot be run, and Refused where too many rounds showed nothing."""
    if not 0 < course.ttl_ms < course.pause_ms:
        raise Problem(
            "--pause",
            found=f"{course.pause_ms} ms",
            wanted=f"more than the ttl, {course.ttl_ms} ms",
            remedy="add --pause 500ms",
        )
    _must_answer(url)
    run = secrets.token_hex(4)
    stop = threading.Event()
    lanes = [_Lane(url, course, f"{run}-{n}", stop) for n in range(course.lanes)]
    left = iter(range(course.rounds))
    taking = threading.Lock()

    def take() -> int | None:
        with taking:
            return None if stop.is_set() else next(left, None)

    try:
        with ThreadPoolExecutor(course.lanes) as pool:
            try:
                done = [pool.submit(lane.play, take) for lane in lanes]
                results = [one.result() for one in done]
            finally:
                stop.set()
    finally:
        with open_effects(url) as effects:
            effects.forget([job for lane in lanes for job in lane.jobs], [lane.key for lane in lanes])
    result = _sum(results)
    tell(
        f"{result.rounds} rounds, {result.void} void; {', '.join(f'{n} by {way}' for way, n in sorted(result.ways.items()))}"
    )
    return result


class _Lane:
    """One pair of processes."""

    def __init__(self, url: str, course: Course, name: str, stop: threading.Event) -> None:
        self._url, self._course, self._name, self._stop = url, course, name, stop
        self._guard = Lease(lease="drillmaster stale-holder drill", ttl_ms=course.ttl_ms, may_steal=())
        self.key = self._guard.key(name)
        self.jobs: list[str] = []

    def play(self, take: Callable[[], int | None]) -> Result:
        result = Result()
        offered: tuple[Way, ...] = ways(self._url) if self._course.fenced else ("none",)
        with self._worker("first") as first, self._worker("second") as second, open_effects(self._url) as effects:
            while (n := take()) is not None:
                way, late = offered[n % len(offered)], n // len(offered) % 2 == 0
                while (one := self._round(first, second, effects, way, late=late)) is None:
                    result = _sum([result, Result(void=1)])
                    if result.void > self._course.rounds:
                        raise Refused(
                            "stale-holder",
                            found=f"{result.void} rounds that show nothing, with a ttl of {self._course.ttl_ms} ms",
                            wanted="a machine and a store that are quick enough",
                            remedy="use a longer ttl and pause: --ttl 1s --pause 2s",
                        )
                result = _sum([result, one])
        return result

    def _round(self, first: "_Worker", second: "_Worker", effects: Effects, way: Way, *, late: bool) -> Result | None:
        job = f"{self._name}-{len(self.jobs)}"
        self.jobs.append(job)
        effects.begin(job)
        acquire = Order(
            do="acquire", job=job, way=way, wait_s=(self._course.ttl_ms + self._course.pause_ms) / 1_000 + 1
        )
        granted = first.ask(acquire)
        if not granted.ok:
            return None
        if not first.ask(Order(do="check")).ok:
            first.ask(Order(do="release"))
            return None
        wrote = False
        with first.stopped():
            stopped_s = time.monotonic()
            first.send(Order(do="write", job=job, way=way))
            over = second.ask(acquire)
            if over.ok and late:
                wrote = second.ask(Order(do="write", job=job, way=way)).ok
            self._stop.wait(max(0.0, self._course.pause_ms / 1_000 - (time.monotonic() - stopped_s)))
        stale = first.answer()
        if not over.ok:
            first.ask(Order(do="release"))
            return None
        renewal = first.ask(Order(do="renew"))
        if not late:
            wrote = second.ask(Order(do="write", job=job, way=way)).ok
        first.ask(Order(do="release"))
        second.ask(Order(do="release"))
        count = effects.count(job)
        return Result(
            rounds=1,
            late=int(late),
            ways={way: 1},
            stale_taken=int(stale.ok),
            doubled=int(count > 1),
            undone=int(count < 1 or not wrote),
            unaware=int(stale.held),
            renewed=int(renewal.ok),
            lower_tokens=int(int(over.token) <= int(granted.token)),
        )

    @contextlib.contextmanager
    def _worker(self, by: str) -> Iterator["_Worker"]:
        start = Start(url=self._url, guard=self._guard, item=self._name, by=by, within_s=_STORE_S)
        worker = _Worker(start)
        try:
            worker.answer()
            yield worker
        finally:
            worker.end()


class _Worker:
    """One process, spoken to a line at a time."""

    def __init__(self, start: Start) -> None:
        self._process = subprocess.Popen(  # noqa: S603 - this interpreter
            [sys.executable, "-c", f"import {_WORKER} as it; it.main()"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        self._write(start)

    def send(self, order: Order) -> None:
        self._write(order)

    def answer(self, more_s: float = 0.0) -> Said:
        """Read its answer. `more_s`: so much longer it may take, for what it was told to wait for."""
        assert self._process.stdout is not None
        killer = threading.Timer(_ANSWER_S + more_s, self._process.kill)
        killer.start()
        try:
            line = self._process.stdout.readline()
        finally:
            killer.cancel()
        if not line:
            raise Problem(
                "stale-holder",
                found="a worker that ended, or did not answer",
                wanted="one that goes on",
                remedy="see what it wrote above; with a busy machine, use a longer ttl and pause",
            )
        return msgspec.json.decode(line, type=Said)

    def ask(self, order: Order) -> Said:
        self.send(order)
        return self.answer(order.wait_s)

    @contextlib.contextmanager
    def stopped(self) -> Iterator[None]:
        """Stop the process, all threads of it, and let it go on on every way out."""
        self._process.send_signal(signal.SIGSTOP)
        try:
            # Its parent is told when it has stopped; WNOWAIT leaves the telling of its end to Popen.
            os.waitid(os.P_PID, self._process.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)
            yield
        finally:
            self._process.send_signal(signal.SIGCONT)

    def end(self) -> None:
        for pipe in (self._process.stdin, self._process.stdout):
            with contextlib.suppress(OSError):
                if pipe is not None:
                    pipe.close()
        try:
            self._process.wait(_STORE_S * 3)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def _write(self, said: msgspec.Struct) -> None:
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):  # it has ended; its answer will say so
            self._process.stdin.write(msgspec.json.encode(said) + b"\n")
            self._process.stdin.flush()


def _must_answer(url: str) -> None:
    """Ask the store one question that changes nothing. Raises Problem where it gives no answer."""
    nobody = LeaseAsk(action="release", holder="nobody", by="drill", token=1, ttl_us=1, permitted=True)
    with contextlib.closing(open_store(url, within_s=_STORE_S)) as store:
        store.ask(LAW, "drillmaster stale-holder drill", nobody)


def _none(check: str, bad: int, n: int, failed: str, passed: str) -> Check:
    return Check(id=check, passed=n > 0 and bad == 0, said=f"{bad} of {n}: {failed}" if bad else f"{n} {passed}")


def _sum(results: list[Result]) -> Result:
    counts = {name: sum(getattr(one, name) for one in results) for name in Result.__struct_fields__ if name != "ways"}
    by_way: dict[str, int] = {}
    for one in results:
        for way, n in one.ways.items():
            by_way[way] = by_way.get(way, 0) + n
    return Result(ways=by_way, **counts)
