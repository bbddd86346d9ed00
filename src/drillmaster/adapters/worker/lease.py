"""Hold a lease in a worker: acquire it, renew it while the work goes on, and know when it is lost.

1. Time until the deadline is counted here from before each question was sent, on the host's clock that also runs through a suspend:
   a holder thinks itself at its end before the store does, never after.
2. It is renewed each third of the ttl. A store that does not answer is asked again, until the deadline; a refusal is final. After
   the deadline nothing is renewed: whoever was late is told so, and acquires anew.
3. `held` is worked out each time it is read, so that a process which was stopped and goes on knows it without any thread of its
   own having run. Between reading it and writing, the process may be stopped again: the token at the write is what protects
   (`stores.fences`).
   Where renewing ends by an error of whatever kind, the lease is lost, and said to be.
4. Each acquisition has a random name. Asked again, since an answer was lost, it is given the same token. It is held no longer from
   when giving it back begins: the store may have done it before it is known here.
5. A forked child holds nothing.
"""

import asyncio
import contextlib
import functools
import heapq
import math
import os
import random
import secrets
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator

from drillmaster.adapters.worker.recording import Recorder
from drillmaster.errors import Refused
from drillmaster.guards import Decision
from drillmaster.guards.lease import REASONS, Lease, LeaseDecision, LeaseRequest
from drillmaster.stores import AsyncStore, Store, decide, decide_async

__all__ = ["AsyncHeldLease", "HeldLease", "LeaseLost", "LeaseNotGranted", "hold", "hold_async"]

OnLost = Callable[[str], None]


class LeaseNotGranted(Refused):
    """The lease was not granted within the time one was willing to wait. `reason` is of the guard's closed set."""

    def __init__(self, place: str, reason: str) -> None:
        super().__init__(
            place,
            found=REASONS[reason].rstrip("."),
            wanted="the lease",
            remedy="ask again later: drillmaster lease show",
        )
        self.reason = reason


class LeaseLost(Refused):
    """The lease is somebody else's or nobody's by now. `reason` is of the guard's closed set."""

    def __init__(self, place: str, reason: str) -> None:
        super().__init__(
            place, found=REASONS[reason].rstrip("."), wanted="the lease, still held", remedy="stop, and acquire it anew"
        )
        self.reason = reason


class _Term:
    """One acquisition, from its first question on: who, under which token, and until when by the clock here."""

    def __init__(self, guard: Lease, by: str, item: str, recorder: Recorder | None) -> None:
        self.guard, self.by, self.item, self._recorder = guard, by, item, recorder
        self.place = f"lease {guard.lease}{'/' if item else ''}{item}"
        self.holder = secrets.token_hex(16)
        self.token = ""
        self.lost = ""
        self._ends_s = 0.0
        self._pid = os.getpid()

    def request(self, action: str) -> LeaseRequest:
        return LeaseRequest(
            action=action,
            source="lock-client",
            holder=self.holder,
            by=self.by,
            fencing_token=self.token or None,
            item=self.item,
        )

    def ask(self, action: str, store: Store) -> Decision:
        request = self.request(action)
        return self._recorded(request, decide(self.guard, request, store))

    async def ask_async(self, action: str, store: AsyncStore) -> Decision:
        request = self.request(action)
        return self._recorded(request, await decide_async(self.guard, request, store))

    def _recorded(self, request: LeaseRequest, decision: Decision) -> Decision:
        if self._recorder is not None:
            self._recorder.record(self.guard.lease, "lease", request, decision)
        return decision

    def told(self, decision: Decision, sent_s: float) -> bool:
        """Take an answer; whether the lease is held now."""
        if not decision.allowed or not isinstance(decision, LeaseDecision) or decision.fencing_token is None:
            return False
        if self.token:
            self.ended()  # an answer that came after the deadline brings nothing back
        self.token = decision.fencing_token
        self._ends_s = sent_s + (decision.lasts_ms or 0) / 1_000
        return self.left_s() > 0

    def over(self) -> Decision | None:
        """Give the answer to a renewal of what is over here; the store may not know yet, and would renew it for nobody."""
        if not self.ended():
            return None
        return LeaseDecision(allowed=False, reason="not-held" if self.lost == "released" else self.lost)

    def ours(self) -> bool:
        """Whether this process acquired it, and not one that forked this one."""
        return self._pid == os.getpid()

    def left_s(self) -> float:
        if self.lost or not self.ours():
            return 0.0
        return max(0.0, self._ends_s - _now_s())

    def ended(self) -> bool:
        """Whether it is over; the first time that it is, remember why."""
        if not self.lost and self.left_s() <= 0:
            self.lost = "expired"
        return bool(self.lost)

    def refused(self, decision: Decision) -> bool:
        """Take an answer to a renewal that renewed nothing; whether it is final."""
        if decision.reason == "store-unavailable":
            return self.ended()
        self.lost = self.lost or decision.reason
        return True

    def pause_s(self, *, again: bool) -> float:
        """How long until the next renewal, in a third of the ttl, or sooner when one was not answered."""
        ttl_s = self.guard.ttl_ms / 1_000
        return min(self.left_s(), ttl_s / 10 if again else max(0.0, self.left_s() - ttl_s * 2 / 3))


class _Asking:
    """How long to go on asking for a lease, and what comes next: each half second at least, since it may be released any time."""

    def __init__(self, guard: Lease, by: str, item: str, wait_s: float, recorder: Recorder | None) -> None:
        if math.isnan(wait_s):
            raise ValueError("wait_s in seconds: found nan")
        self._args = guard, by, item, recorder
        self._until_s = _now_s() + wait_s
        self.term = _Term(*self._args)

    def next_s(self, decision: Decision) -> float:
        """Say how long to wait before the next question. Raises LeaseNotGranted where there is none."""
        left_s = self._until_s - _now_s()
        if decision.allowed or decision.reason == "holder-spent":  # granted, and over before the answer came
            self.term = _Term(*self._args)
            pause_s = 0.0
        elif decision.reason in ("held", "store-unavailable"):
            most_s = min(0.5, max(0.02, self.term.guard.ttl_ms / 10_000))
            wait_s = decision.wait_ms / 1_000 if decision.wait_ms else most_s
            pause_s = min(wait_s, most_s * random.uniform(0.5, 1.0))  # noqa: S311 - so that those who wait do not come at once
        else:
            left_s = pause_s = 0.0
        if left_s <= 0:
            raise LeaseNotGranted(self.term.place, "expired" if decision.allowed else decision.reason)
        return min(pause_s, left_s)


class _Watch:
    """One thread of a process that waits for the first renewal of each lease, which then gets a thread of its own.

    A lease that is given back before that costs no thread. Where a store hangs, only its own lease waits.
    """

    def __init__(self) -> None:
        self._fresh()
        os.register_at_fork(after_in_child=self._fresh)

    def _fresh(self) -> None:
        self._changed = threading.Condition()
        self._due: list[tuple[float, int, HeldLease]] = []
        self._added = self._dropped = 0
        self._thread: threading.Thread | None = None

    def add(self, due_s: float, lease: "HeldLease") -> None:
        with self._changed:
            self._added += 1
            entry = due_s, self._added, lease
            heapq.heappush(self._due, entry)
            if self._thread is None:
                thread = threading.Thread(target=self._run, name="drillmaster leases", daemon=True)
                thread.start()  # where there are no more threads just now, the next lease tries again
                self._thread = thread
            elif self._due[0] is entry:
                self._changed.notify()

    def drop(self) -> None:
        """Say that a lease was given back before its first renewal. They are swept out when most of them are such."""
        with self._changed:
            self._dropped += 1
            if self._dropped > 64 and self._dropped * 2 > len(self._due):
                self._due = [entry for entry in self._due if not entry[2].done]
                heapq.heapify(self._due)
                self._dropped = 0

    def _run(self) -> None:
        while True:
            with self._changed:
                wait_s = self._due[0][0] - _now_s() if self._due else None
                if wait_s is None or wait_s > 0:
                    self._changed.wait(wait_s)
                    continue
                lease = heapq.heappop(self._due)[2]
            try:
                lease.begin()
            except RuntimeError:  # no more threads just now; the lease goes on to its deadline
                self.add(_now_s() + 0.05, lease)


@functools.cache
def _watch() -> _Watch:
    return _Watch()


class _Held:
    """What whoever holds a lease may ask of it without asking the store."""

    _term: _Term

    @property
    def token(self) -> str:
        """For the write: text, as the store gave it. It stays the same after the lease is lost, and is refused there."""
        return self._term.token

    @property
    def holder(self) -> str:
        return self._term.holder

    @property
    def held(self) -> bool:
        return self._term.left_s() > 0

    @property
    def left_s(self) -> float:
        """How long it is held at least, were it not renewed again."""
        return self._term.left_s()

    def check(self) -> None:
        """Raise LeaseLost where it is held no longer."""
        if self._term.ended():
            raise LeaseLost(self._term.place, self._term.lost)


class HeldLease(_Held):
    """A lease that is held, and renewed from a thread until it is released or lost."""

    def __init__(self, term: _Term, store: Store, on_lost: OnLost | None) -> None:
        self._term, self._store, self._on_lost = term, store, on_lost
        self._done = threading.Event()
        self._still = threading.Event()
        self._lost = threading.Event()
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        _watch().add(_now_s() + term.pause_s(again=False), self)

    @property
    def done(self) -> bool:
        """Whether it was given back, or tried to be."""
        return self._done.is_set()

    def begin(self) -> None:
        """Start renewing, in a thread; called once, by what waits for that."""
        with self._lock:
            if not self._done.is_set():
                thread = threading.Thread(target=self._renew, name=f"drillmaster {self._term.place}", daemon=True)
                thread.start()
                self._thread = thread

    def renew(self) -> Decision:
        """Renew now, besides what the thread does, and say what the store said; what was lost stays lost, and asks nobody."""
        if (over := self._term.over()) is not None:
            return over
        sent_s = _now_s()
        decision = self._term.ask("renew", self._store)
        if not self._term.told(decision, sent_s) and not decision.allowed:
            self._term.refused(decision)
        return decision

    def wait_lost(self, timeout_s: float) -> bool:
        """Wait until it is lost, at most so long; whether it is."""
        return self._lost.wait(timeout_s)

    def release(self) -> bool:
        """Give it back. False: it was not this holder's any more, or the store did not answer; then it ends at its deadline."""
        if self._done.is_set():
            return False
        if not self._term.ours():
            self._done.set()
            return False
        with self._lock:
            self._done.set()
        if self._thread is None:
            _watch().drop()
        else:
            self._still.wait()  # for a question that the store answers in its time, and not for `on_lost`
        if self._term.ended():
            return False
        self._term.lost = "released"
        return self._term.ask("release", self._store).allowed

    def _renew(self) -> None:
        term = self._term
        try:
            self._renewing()
        except BaseException:
            term.lost = term.lost or "store-unavailable"
            raise
        finally:
            lost = term.lost
            self._still.set()
            if lost:
                self._lost.set()
                if self._on_lost is not None:
                    self._on_lost(lost)

    def _renewing(self) -> None:
        term, again = self._term, False
        while not self._done.wait(term.pause_s(again=again)):
            if term.ended():
                break
            sent_s = _now_s()
            decision = term.ask("renew", self._store)
            again = not term.told(decision, sent_s)
            if again and (term.ended() if decision.allowed else term.refused(decision)):
                break


class AsyncHeldLease(_Held):
    """The same, renewed from a task of the loop."""

    def __init__(self, term: _Term, store: AsyncStore, on_lost: OnLost | None) -> None:
        self._term, self._store, self._on_lost = term, store, on_lost
        self._done = self._cut = False
        self._lost = asyncio.Event()
        self._task = asyncio.get_running_loop().create_task(self._renew(), name=f"drillmaster {term.place}")

    async def renew(self) -> Decision:
        """Renew now, besides what the task does, and say what the store said; what was lost stays lost, and asks nobody."""
        if (over := self._term.over()) is not None:
            return over
        sent_s = _now_s()
        decision = await self._term.ask_async("renew", self._store)
        if not self._term.told(decision, sent_s) and not decision.allowed:
            self._term.refused(decision)
        return decision

    async def wait_lost(self) -> str:
        """Wait until it is lost; the reason."""
        await self._lost.wait()
        return self._term.lost

    async def release(self) -> bool:
        """Give it back. False: it was not this holder's any more, or the store did not answer; then it ends at its deadline."""
        if self._done:
            return False
        self._done = True
        self._task.cancel()
        try:
            await asyncio.wait((self._task,))  # who is cancelled meanwhile is, and the lease ends at its deadline
            if self._term.ended() and not self._cut:
                return False
        finally:
            self._term.lost = self._term.lost or "released"
        return (await self._term.ask_async("release", self._store)).allowed

    async def _renew(self) -> None:
        term = self._term
        try:
            await self._renewing()
        except BaseException:
            if (
                not self._done
            ):  # or somebody who cancels all tasks has cancelled this one, and it may still be given back
                self._cut = not term.ended()
                term.lost = term.lost or "store-unavailable"
            raise
        finally:
            if term.lost:
                self._lost.set()
                if self._on_lost is not None:
                    self._on_lost(term.lost)

    async def _renewing(self) -> None:
        term, again = self._term, False
        while True:
            await asyncio.sleep(term.pause_s(again=again))
            if term.ended():
                break
            sent_s = _now_s()
            decision = await term.ask_async("renew", self._store)
            again = not term.told(decision, sent_s)
            if again and (term.ended() if decision.allowed else term.refused(decision)):
                break


@contextlib.contextmanager
def hold(
    guard: Lease,
    store: Store,
    *,
    by: str,
    item: str = "",
    wait_s: float = 0.0,
    on_lost: OnLost | None = None,
    recorder: Recorder | None = None,
) -> Iterator[HeldLease]:
    """Hold a lease for as long as the block lasts. Raises LeaseNotGranted where it is not granted within `wait_s`.

    `by` names this worker in the store's log. `on_lost` is called once, from the renewing thread, with the reason.
    `recorder` writes each decision down and counts it.
    """
    asking = _Asking(guard, by, item, wait_s, recorder)
    while True:
        sent_s = _now_s()
        decision = asking.term.ask("acquire", store)
        if asking.term.told(decision, sent_s):
            break
        time.sleep(asking.next_s(decision))
    try:
        lease = HeldLease(asking.term, store, on_lost)
    except BaseException:  # there was no thread for it
        asking.term.ask("release", store)
        raise
    try:
        yield lease
    finally:
        lease.release()


@contextlib.asynccontextmanager
async def hold_async(
    guard: Lease,
    store: AsyncStore,
    *,
    by: str,
    item: str = "",
    wait_s: float = 0.0,
    on_lost: OnLost | None = None,
    recorder: Recorder | None = None,
) -> AsyncIterator[AsyncHeldLease]:
    """Do as `hold` does, in an event loop; `on_lost` is called in it."""
    asking = _Asking(guard, by, item, wait_s, recorder)
    while True:
        sent_s = _now_s()
        decision = await asking.term.ask_async("acquire", store)
        if asking.term.told(decision, sent_s):
            break
        await asyncio.sleep(asking.next_s(decision))
    lease = AsyncHeldLease(asking.term, store, on_lost)
    try:
        yield lease
    finally:
        await lease.release()


def _now_s() -> float:
    """The host's time since its boot, suspends included where the system tells them."""
    clock = getattr(time, "CLOCK_BOOTTIME", None)
    return time.monotonic() if clock is None else time.clock_gettime(clock)
