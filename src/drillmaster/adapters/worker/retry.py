"""What all retry adapters share: one call from its first attempt to its last, told to the guard, the store and a ledger.

1. The call is a generator that says what to do next (ask the store, send, read a small body, wait) and does nothing itself. Each
   adapter carries that out in its library, with an event loop or without, so that there is one text of the order.
2. It classifies by the pinned map alone: status, `Retry-After`, method and the caller's key. A body is read where the guard's
   pinned dialect says so, and of it only a `google.rpc.RetryInfo`. A key is never made here, and stays the same over all attempts.
3. A call without an answer (refused, reset, timed out) is never sent again: nobody knows what became of it. An answer whose head
   was handed on is not taken back, whatever becomes of its body.
4. Nothing is sent before the wait is over on this worker's own monotonic clock, and nothing behind the deadline, however long the
   worker was held up in between. `stop` ends all waits, and what waited is not sent; a task that is cancelled is gone at once.
   What is sent again waits for its answer no longer than what is left of the deadline; the first attempt has the caller's limits.
5. A wait over the cap is kept in the store under the job's name (`job`), where a queue is named, and handed out at its time
   (`stores.later`).
6. What the store does not tell is a no: no retry, and where keys are kept no first call either.
7. Good calls are counted (`retry_counting`) and given back to the shared budget once they come to a token, or with `repay`; while
   the budget is full, far less often.
8. Most calls are good at once. A first attempt whose key is not kept is sent before the generator is made, which then begins with
   what was heard.
"""

import contextlib
import contextvars
import math
import random
import secrets
import threading
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from typing import Any, Protocol

import msgspec

from drillmaster.adapters.worker.retry_counting import Earned, Ledger
from drillmaster.guards import Ask, Decision
from drillmaster.guards.retry import CALLS, PINNED, REASONS, FailedCall, Retry
from drillmaster.rules import AnyLaw, later, retry_after, retry_budget
from drillmaster.stores import AsyncStore, Store, Unavailable
from drillmaster.stores.forking import renewed_in_a_child
from drillmaster.stores.later import check_queue
from drillmaster.stores.one_process import OneProcess

__all__ = [
    "Body",
    "Ledger",
    "Outcome",
    "Put",
    "Refused",
    "Retries",
    "Send",
    "Steps",
    "Wait",
    "carry",
    "carry_async",
    "job",
    "outcome_of",
]

KEY_FIELD = "idempotency-key"
MOST_BODY_BYTES = retry_after.MAX_BODY_BYTES
_NESTED_FIELD = "x-stainless-retry-count"
_KEPT = frozenset({"retry-after-over-cap", "deadline"})
_MOST_WAIT_US = later.MOST_US
_LAST_BYTE_MS = 10
"""An answer is heard here by its head; where it comes from, it may end so much later, and the wait counts from there."""
_job: contextvars.ContextVar[str] = contextvars.ContextVar("drillmaster_job", default="")


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """What became of a call that failed, for whoever gets its last answer."""

    decision: Decision
    calls: int
    """So many were made, by all workers."""
    kept: str = ""
    """The job that the store hands out when `decision.wait_ms` are over; "": nobody keeps it."""


class Refused(Exception):
    """The call was not sent: another worker holds its key, the store is silent, or the library above retries by itself."""

    def __init__(self, decision: Decision) -> None:
        super().__init__(f"{decision.reason}: {REASONS[decision.reason]}")
        self.decision = decision


class Records(Protocol):
    """Whoever writes decisions down, as `adapters.worker.recording.Recorder` does."""

    def record(self, entry: str, tag: str, facts: object, decision: Decision, *, route: str = "") -> None: ...


class Put(msgspec.Struct, frozen=True):
    """Ask the store; the answer is what it told, or None."""

    law: AnyLaw
    ask: Ask


class Send(msgspec.Struct, frozen=True):
    """Send the call. The answer is its status and a function that gives its fields, or None where none came."""

    left_ms: int | None = None
    """How long the answer's head may take, beside the caller's own limits; None: as long as these say."""


class Body(msgspec.Struct, frozen=True):
    """Read the answer's body, decoded, up to `MOST_BODY_BYTES`; the answer is these bytes, or None where it cannot be read."""


class Wait(msgspec.Struct, frozen=True):
    """Let the last answer go, and wait by the worker's clock; the answer is whether the worker still runs."""

    wait_ms: int


Fields = Callable[[], Iterable[tuple[str, str]]]
Heard = tuple[int, Fields] | None
"""An answer's status and a function that gives its fields; None: no answer came."""
Steps = Generator[Put | Send | Body | Wait, Any, Outcome | None]
_SEND, _BODY = Send(), Body()


class Retries:
    """One route's retries in one worker: the guard, the store, the ledger. It may be used from several threads."""

    def __init__(
        self,
        guard: Retry,
        store: Store | OneProcess | None,
        *,
        async_store: AsyncStore | None = None,
        queue: str = "",
        ledger: Ledger | None = None,
        recorder: Records | None = None,
        name: str = "retry",
        key_field: str = KEY_FIELD,
    ) -> None:
        """`store` is asked by calls without an event loop, `async_store` by those in one; without it they ask `store` in a thread.

        `queue` names where calls over the cap are kept; "" keeps none. `name` is what the guards file calls the guard, for the
        recorder. `key_field` is the header that holds the caller's key.
        """
        if queue:
            check_queue(queue)
        self.guard = guard
        self.store = store
        self.async_store = async_store
        self.ledger = ledger or Ledger()
        self.key_field = key_field.lower()
        self._queue, self._name = queue, name
        self._recorder = recorder
        self.keeps_keys = guard.hold_ms is not None
        self.earned = Earned(guard)
        self._stopped = threading.Event()
        self.forked()
        renewed_in_a_child(self)

    def forked(self) -> None:
        stopped = self._stopped.is_set()
        self._stopped = threading.Event()
        if stopped:
            self._stopped.set()

    def stop(self) -> None:
        """End all waits: the worker goes down, and sends nothing again."""
        self._stopped.set()

    @property
    def stopped(self) -> bool:
        return self._stopped.is_set()

    def sleep(self, wait_ms: int) -> bool:
        """Wait so long by the monotonic clock; False: the worker stops."""
        due_ns = time.monotonic_ns() + wait_ms * 1_000_000
        while (left_ns := due_ns - time.monotonic_ns()) > 0:
            if self._stopped.wait(left_ns / 1e9):
                return False
        return not self._stopped.is_set()

    async def sleep_async(self, wait_ms: int) -> bool:
        """Do as `sleep` does, in an event loop."""
        import asyncio

        due_ns = time.monotonic_ns() + wait_ms * 1_000_000
        while (left_ns := due_ns - time.monotonic_ns()) > 0 and not self._stopped.is_set():  # noqa: ASYNC110 - see below
            # `stop` may come from another thread, so it is looked for once a second.
            await asyncio.sleep(min(1.0, left_ns / 1e9))
        return not self._stopped.is_set()

    def key_of(self, fields: Mapping[str, Any]) -> str:
        """Find the caller's key among a request's fields, as it arrives: blanks around a field's value are none of it."""
        value = fields.get(self.key_field)
        return value.strip(" \t") if isinstance(value, str) else ""

    def check_nested(self, fields: Mapping[str, Any]) -> None:
        """Refuse a call that the library above says is a retry of its own. Raises Refused."""
        if fields.get(_NESTED_FIELD, "0") not in ("", "0"):
            raise Refused(self._decided(None, Decision(allowed=False, reason="nested-retries")))

    def done(self, idempotency_key: str) -> bool:
        """Say that the effect of a key's call is safe: nobody begins it again while the key is known. False: it was not noted."""
        put = self._done(idempotency_key)
        told = None if put is None else ask_store(self.store, put)
        return told is not None and told.allowed

    async def done_async(self, idempotency_key: str) -> bool:
        """Do as `done` does, in an event loop."""
        put = self._done(idempotency_key)
        told = None if put is None else await ask_store_async(self, put)
        return told is not None and told.allowed

    def _done(self, idempotency_key: str) -> "Put | None":
        asked = self.guard.says("done", idempotency_key, holder=secrets.token_hex(8))
        return None if asked is None else Put(CALLS, asked)

    def repay(self) -> None:
        """Give what good calls earned back to the shared budget, as at the end of a short process."""
        _driven(self.gives_back(least=1), lambda put: ask_store(self.store, put))

    async def repay_async(self) -> None:
        """Do as `repay` does, in an event loop."""
        await _driven_async(self.gives_back(least=1), self)

    def call(self, method: str, key: str, *, replayable: bool, begun: tuple[Heard, int] | None = None) -> Steps:
        """Make one call. Returns what became of it where it failed, and None where it went well. Raises Refused.

        `begun`: its first attempt was sent and counted, with what was heard, and when by the monotonic clock.
        """
        guard, began_ns = self.guard, time.monotonic_ns() if begun is None else begun[1]
        holder = secrets.token_hex(8) if begun is None and self.keeps_keys and key.strip() else ""
        nth = calls = 0
        send = _SEND
        while True:
            nth += 1
            calls += 1
            if holder:
                denied, told_calls = yield from self._begins(key, holder)
                if denied is not None:
                    raise Refused(denied)
                calls = max(calls, told_calls)
            if nth > 1:
                left_ms = guard.deadline_ms - (time.monotonic_ns() - began_ns) // 1_000_000
                if left_ms <= 0:  # the worker was held up
                    if holder:
                        yield from self._says("leave", key, holder)
                    raise self.late()
                send = Send(left_ms)
                self.ledger.retried()
            elif begun is None:
                next(self.ledger.numbers)
            heard = begun[0] if begun is not None and nth == 1 else (yield send)
            if heard is not None and heard[0] < 400:
                if next(self.earned.numbers) >= self.earned.due:
                    yield from self.gives_back()
                if holder:
                    yield from self._says("leave", key, holder)
                return None
            facts = yield from self._facts(heard, method, key, calls, began_ns, replayable=replayable)
            decision = yield from self._asks(facts)
            if not decision.allowed:
                kept = yield from self._keeps(decision)
                if holder:
                    yield from self._says("leave", key, holder, decision.wait_ms)
                return Outcome(decision=decision, calls=calls, kept=kept)
            if holder:
                yield from self._says("wait", key, holder, decision.wait_ms)
            if not (yield Wait(decision.wait_ms + (_LAST_BYTE_MS if facts.asked_wait_ms else 0))):
                if holder:
                    yield from self._says("leave", key, holder)
                raise self.stops()

    def decide(self, facts: FailedCall) -> Decision:
        """Decide about a call that a loop of another library makes: tenacity's, stamina's, urllib3's."""
        decision: Decision = _driven(self._looped(facts), lambda put: ask_store(self.store, put))
        return decision

    async def decide_async(self, facts: FailedCall) -> Decision:
        """Do as `decide` does, in an event loop."""
        decision: Decision = await _driven_async(self._looped(facts), self)
        return decision

    def good(self, *, first: bool) -> None:
        """Count a call of such a loop that went well. `first`: it was not sent again."""
        if first:
            next(self.ledger.numbers)
        if next(self.earned.numbers) >= self.earned.due:
            _driven(self.gives_back(), lambda put: ask_store(self.store, put))

    async def good_async(self, *, first: bool) -> None:
        """Do as `good` does, in an event loop."""
        if first:
            next(self.ledger.numbers)
        if next(self.earned.numbers) >= self.earned.due:
            await _driven_async(self.gives_back(), self)

    def late(self) -> Refused:
        """Make what is raised where a wait was over behind the deadline."""
        return self.refused("deadline")

    def stops(self) -> Refused:
        """Make what is raised where a wait was ended by `stop`."""
        return self.refused("stopped")

    def refused(self, reason: str, *, wait_ms: int = 0) -> Refused:
        """Make what is raised for a reason, and count it."""
        return Refused(self._decided(None, Decision(allowed=False, reason=reason, wait_ms=wait_ms)))

    def facts(
        self,
        status: int | None,
        fields: Iterable[tuple[str, str]],
        body: bytes | None,
        *,
        method: str,
        key: str,
        attempt: int,
        elapsed_ms: int,
        replayable: bool,
    ) -> FailedCall:
        """Make the facts of a call that failed. Of the body only a pinned dialect's wait is read; None: it cannot be."""
        told = retry_after.read(fields, now_s=time.time())
        if told is None and body and self.guard.dialect == "gemini":
            told = retry_after.retry_info(body)
        # Rounded up: nobody comes a fraction of a millisecond too early.
        asked_ms = math.ceil(told.wait_s * 1_000) if isinstance(told, retry_after.Told) else None
        return FailedCall(
            source=PINNED,
            protocol="http",
            method=method,
            code=status,
            attempt=attempt,
            elapsed_ms=elapsed_ms,
            asked_wait_ms=asked_ms,
            asked_unreadable=isinstance(told, retry_after.Unreadable) or (told is None and body is None),
            idempotency_key=key,
            route=self.guard.route,
            replayable=replayable,
            jitter=random.random(),  # noqa: S311 - it spreads, and hides nothing
        )

    def _facts(
        self, heard: Heard, method: str, key: str, calls: int, began_ns: int, *, replayable: bool
    ) -> Generator[Any, Any, FailedCall]:
        status, fields = heard if heard is not None else (None, tuple)
        body: bytes | None = b""
        if self.guard.dialect == "gemini" and status in (429, 503):
            body = yield _BODY
        elapsed_ms = (time.monotonic_ns() - began_ns) // 1_000_000
        return self.facts(
            status, fields(), body, method=method, key=key, attempt=calls, elapsed_ms=elapsed_ms, replayable=replayable
        )

    def _looped(self, facts: FailedCall) -> Generator[Any, Any, Decision]:
        if facts.attempt == 1:
            next(self.ledger.numbers)
        decision = yield from self._asks(facts)
        if decision.allowed:
            self.ledger.retried()
        return decision

    def _begins(self, key: str, holder: str) -> Generator[Any, Any, tuple[Decision | None, int]]:
        told = yield from self._says("begin", key, holder)
        if told is None:
            return self._decided(None, Decision(allowed=False, reason="store-unavailable")), 0
        denied = self.guard.hears(told)
        return (None if denied is None else self._decided(None, denied)), told.calls

    def _says(self, what: Any, key: str, holder: str, wait_ms: int = 0) -> Generator[Any, Any, Any]:
        asked = self.guard.says(what, key, holder=holder, wait_ms=wait_ms)
        return None if asked is None else (yield Put(CALLS, asked))

    def _asks(self, facts: FailedCall) -> Generator[Any, Any, Decision]:
        asked = self.guard.asks(facts)
        if isinstance(asked, Ask):
            calls = self.earned.take_with_a_retry() if self.earned.silent else 0
            if calls:
                asked = self.guard.repays(calls, secrets.token_hex(8), takes=True) or asked
            told = yield Put(retry_budget.LAW, asked)
            unavailable = Decision(allowed=False, reason="store-unavailable")
            return self._decided(facts, unavailable if told is None else self.guard.decides(facts, told))
        return self._decided(facts, asked)

    def _keeps(self, decision: Decision) -> Generator[Any, Any, str]:
        name = _job.get()
        if not (name and self._queue and decision.wait_ms and decision.reason in _KEPT):
            return ""
        word = later.Word(what="put", name=name, span_us=min(decision.wait_ms * 1_000, _MOST_WAIT_US))
        told = yield Put(later.LAW, Ask(self._queue, word))
        return name if told is not None and told.allowed else ""

    def gives_back(self, *, least: int | None = None) -> Generator[Any, Any, None]:
        calls = self.earned.take(least=least)
        asked = self.guard.repays(calls, secrets.token_hex(8)) if calls else None
        if asked is not None:
            told = yield Put(retry_budget.LAW, asked)  # what was not heard is not said again: it may have been
            self.earned.heard(full=told is not None and told.left_milli >= asked.question.full_milli)

    def _decided(self, facts: FailedCall | None, decision: Decision) -> Decision:
        self.ledger.decided(decision)
        if self._recorder is not None:
            self._recorder.record(self._name, "retry", facts, decision, route=self.guard.route)
        return decision


@contextlib.contextmanager
def job(name: str) -> Iterator[None]:
    """Name the job whose calls these are: what a queue keeps of a call that may only be made later. Visible ASCII, at most 200."""
    later.Word(what="put", name=name)
    token = _job.set(name)
    try:
        yield
    finally:
        _job.reset(token)


def outcome_of(answer: Any) -> Outcome | None:
    """Find what became of the call of an answer, or of an SDK's error that holds one; None: nothing is known, or it went well."""
    for one in (answer, getattr(answer, "response", None), getattr(answer, "__cause__", None)):
        extensions = getattr(one, "extensions", None)
        found = extensions.get("drillmaster") if isinstance(extensions, dict) else getattr(one, "drillmaster", None)
        if isinstance(found, Outcome):
            return found
    return None


class Wire(Protocol):
    """One library's end of a call, without an event loop."""

    def send(self, left_ms: int | None) -> tuple[int, Fields]:
        """Send, and wait so long for the answer's head. What it raises is a call without an answer."""

    def body(self) -> bytes | None:
        """Read the answer's body, decoded; None: it cannot be read, or is longer than what is read."""

    def drop(self) -> None:
        """Let the last answer go."""


class AsyncWire(Protocol):
    """The same in an event loop."""

    async def send(self, left_ms: int | None) -> tuple[int, Fields]: ...

    async def body(self) -> bytes | None: ...

    async def drop(self) -> None: ...


def ask_store(store: Store | OneProcess | None, put: Put) -> Any:
    """Put a question; None where there is no answer."""
    if store is None:
        return None
    try:
        return store.ask(put.law, put.ask.key, put.ask.question)
    except Unavailable:
        return None


async def ask_store_async(retries: Retries, put: Put) -> Any:
    """Do as `ask_store` does, in an event loop."""
    if isinstance(retries.store, OneProcess):
        return ask_store(retries.store, put)
    if retries.async_store is None:
        import asyncio

        return await asyncio.to_thread(ask_store, retries.store, put)
    try:
        return await retries.async_store.ask(put.law, put.ask.key, put.ask.question)
    except Unavailable:
        return None


def _driven(steps: Generator[Any, Any, Any], ask: Callable[[Put], Any]) -> Any:
    told = None
    try:
        while True:
            told = ask(steps.send(told))
    except StopIteration as end:
        return end.value


async def _driven_async(steps: Generator[Any, Any, Any], retries: Retries) -> Any:
    told = None
    try:
        while True:
            told = await ask_store_async(retries, steps.send(told))
    except StopIteration as end:
        return end.value


def _ended(outcome: Outcome | None, lost: Exception | None) -> Outcome | None:
    if lost is not None:
        lost.drillmaster = outcome  # type: ignore[attr-defined]  # for `outcome_of`
        raise lost
    return outcome


def carry(retries: Retries, wire: Wire, method: str, key: str, *, replayable: bool) -> Outcome | None:
    """Carry out one call; None: it went well. Raises what the last attempt raised, and Refused.

    `key` is the caller's ("": none), and `replayable` says that the body can be sent once more.
    """
    lost: Exception | None = None
    got: Any = None
    steps: Steps | None = None
    try:
        if retries.keeps_keys and key.strip():
            steps = retries.call(method, key, replayable=replayable)
        else:
            began_ns, heard = time.monotonic_ns(), None
            next(retries.ledger.numbers)
            try:
                heard = wire.send(None)
            except Exception as error:  # noqa: BLE001 - whatever it is, no answer came
                lost = error
            if heard is None or heard[0] >= 400:
                steps = retries.call(method, key, replayable=replayable, begun=(heard, began_ns))
            elif next(retries.earned.numbers) < retries.earned.due:
                return None
            else:
                steps = retries.gives_back()
        while True:
            step = steps.send(got)
            if type(step) is Send:
                try:
                    got, lost = wire.send(step.left_ms), None
                except Exception as error:  # noqa: BLE001 - whatever it is, no answer came
                    got, lost = None, error
            elif type(step) is Put:
                got = ask_store(retries.store, step)
            elif type(step) is Wait:
                wire.drop()
                got = retries.sleep(step.wait_ms)
            else:
                try:
                    got = wire.body()
                except Exception as error:  # noqa: BLE001 - the answer broke off
                    got, lost = None, error
                    with contextlib.suppress(Exception):
                        wire.drop()
    except StopIteration as end:
        outcome: Outcome | None = end.value
    except BaseException:
        wire.drop()
        raise
    finally:
        if steps is not None:
            steps.close()
    return _ended(outcome, lost)


async def carry_async(retries: Retries, wire: AsyncWire, method: str, key: str, *, replayable: bool) -> Outcome | None:
    """Do as `carry` does, in an event loop."""
    lost: Exception | None = None
    got: Any = None
    steps: Steps | None = None
    try:
        if retries.keeps_keys and key.strip():
            steps = retries.call(method, key, replayable=replayable)
        else:
            began_ns, heard = time.monotonic_ns(), None
            next(retries.ledger.numbers)
            try:
                heard = await wire.send(None)
            except Exception as error:  # noqa: BLE001 - whatever it is, no answer came
                lost = error
            if heard is None or heard[0] >= 400:
                steps = retries.call(method, key, replayable=replayable, begun=(heard, began_ns))
            elif next(retries.earned.numbers) < retries.earned.due:
                return None
            else:
                steps = retries.gives_back()
        while True:
            step = steps.send(got)
            if type(step) is Send:
                try:
                    got, lost = await wire.send(step.left_ms), None
                except Exception as error:  # noqa: BLE001 - whatever it is, no answer came
                    got, lost = None, error
            elif type(step) is Put:
                got = await ask_store_async(retries, step)
            elif type(step) is Wait:
                await wire.drop()
                got = await retries.sleep_async(step.wait_ms)
            else:
                try:
                    got = await wire.body()
                except Exception as error:  # noqa: BLE001 - the answer broke off
                    got, lost = None, error
                    with contextlib.suppress(Exception):
                        await wire.drop()
    except StopIteration as end:
        outcome: Outcome | None = end.value
    except BaseException:
        await wire.drop()
        raise
    finally:
        if steps is not None:
            steps.close()
    return _ended(outcome, lost)
