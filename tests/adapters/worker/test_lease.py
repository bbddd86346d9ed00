"""What a holder believes while its lease ends: nothing that the store may already have told somebody else."""

import asyncio
from typing import Any

import pytest

from drillmaster.adapters.worker.lease import AsyncHeldLease, HeldLease, LeaseLost, hold, hold_async
from drillmaster.guards.lease import Lease, LeaseRequest
from drillmaster.rules import AnyLaw
from drillmaster.stores.one_process import OneProcess

GUARD = Lease(lease="export", ttl_ms=3_600_000, may_steal=())


class Watched:
    """A store that notes, at each question, what the holder believes."""

    place = "this process"

    def __init__(self) -> None:
        self._store = OneProcess()
        self.lease: HeldLease | AsyncHeldLease | None = None
        self.seen: list[tuple[str, bool]] = []

    def ask(self, law: AnyLaw, key: str, question: Any) -> Any:
        self.seen.append((question.action, self.lease is not None and self.lease.held))
        return self._store.ask(law, key, question)

    def prepare(self) -> None: ...

    def close(self) -> None: ...


class AsyncWatched:
    place = "this process"

    def __init__(self, *, hangs: bool = False) -> None:
        self.watched = Watched()
        self.asked = asyncio.Event()
        self._hangs = hangs

    async def ask(self, law: AnyLaw, key: str, question: Any) -> Any:
        told = self.watched.ask(law, key, question)
        if question.action == "release" and self._hangs:
            self.asked.set()
            await asyncio.Event().wait()
        return told

    async def close(self) -> None: ...


def test_nothing_is_held_from_when_giving_it_back_begins() -> None:
    store = Watched()
    with hold(GUARD, store, by="a") as lease:
        store.lease = lease
        assert lease.held
    assert store.seen == [("acquire", False), ("release", False)]


def test_in_an_event_loop_too() -> None:
    async def go() -> None:
        store = AsyncWatched()
        async with hold_async(GUARD, store, by="a") as lease:
            store.watched.lease = lease
            assert lease.held
        assert store.watched.seen == [("acquire", False), ("release", False)]

    asyncio.run(go())


def test_who_is_cancelled_while_giving_it_back_holds_nothing() -> None:
    async def go() -> None:
        store = AsyncWatched(hangs=True)
        held: list[AsyncHeldLease] = []

        async def work() -> None:
            async with hold_async(GUARD, store, by="a") as lease:
                held.append(lease)

        task = asyncio.create_task(work())
        await store.asked.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert not held[0].held and held[0].left_s == 0

    asyncio.run(go())


def test_what_is_over_is_renewed_for_nobody() -> None:
    store = Watched()
    with hold(GUARD, store, by="a") as lease:
        pass
    assert (lease.renew().allowed, lease.renew().reason) == (False, "not-held")
    with pytest.raises(LeaseLost):
        lease.check()
    assert [action for action, _ in store.seen] == ["acquire", "release"]


def test_a_wait_that_is_no_number_is_refused() -> None:
    with pytest.raises(ValueError, match="nan"), hold(GUARD, OneProcess(), by="a", wait_s=float("nan")):
        pass


def test_a_renewal_that_somebody_cancels_does_not_end_unsaid() -> None:
    async def go() -> None:
        store = AsyncWatched()
        told: list[str] = []
        async with hold_async(GUARD, store, by="a", on_lost=told.append) as lease:
            await asyncio.sleep(0)
            for task in asyncio.all_tasks() - {asyncio.current_task()}:
                task.cancel()
            assert await asyncio.wait_for(lease.wait_lost(), 1) == "store-unavailable"
            assert not lease.held
        assert told == ["store-unavailable"]

    asyncio.run(go())


def test_a_name_that_is_no_plain_text_is_denied_in_every_store() -> None:
    class Name(str):
        pass

    request = LeaseRequest(action="acquire", source="lock-client", holder=Name("h"), by="b")
    assert GUARD.step(None, request, 1)[1].reason == "facts-unusable"
    request = LeaseRequest(action="acquire", source="lock-client", holder="h", by="b", item=Name("i"))
    assert GUARD.step(None, request, 1)[1].reason == "facts-unusable"
