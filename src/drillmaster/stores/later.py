"""Calls that may only be made later: a job's name is kept in the store, and handed out at its time to one worker at once.

1. Nothing is kept but a name and a time (`rules.later`). What is to be called lies with the job's owner, who knows it by the name.
2. Whoever is handed a job holds it for `hold_s`. A worker that crashed says nothing, and after that time the job is handed to
   another. So a job may be done twice, and what it calls has a key.
3. The store's clock counts, and outlives workers. Nobody is handed a job before its time.
4. A store that does not answer hands out nothing; `work` goes on asking. Nor does it end at a job that is done and cannot be
   finished: that is said again for as long as the job may be held.
"""

import math
import threading
import time
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec

from drillmaster.errors import Problem
from drillmaster.rules.later import LAW, MOST_US, Told, Word
from drillmaster.stores import AsyncStore, Store, Unavailable
from drillmaster.stores.one_process import OneProcess

__all__ = ["AsyncLater", "Claim", "Later", "check_queue"]

POLL_S = 1.0
_AGAIN_S = 0.25


class Claim(msgspec.Struct, frozen=True):
    """A job that was handed out, and which handing out that was."""

    name: str
    nth: int


class Later:
    """One queue, for workers without an event loop."""

    def __init__(self, store: Store | OneProcess, queue: str, *, hold_s: float) -> None:
        """`hold_s` is longer than a job may take: past it another worker is handed the same job."""
        self._store, self._queue, self._hold_us = store, check_queue(queue), _microseconds(queue, hold_s)

    def put(self, name: str, wait_s: float) -> None:
        """Keep a job for so long at least; one that is there already stays until the later of both times.

        `name` is 1 to 200 visible ASCII characters. Raises Unavailable, and Problem where the queue is full.
        """
        _put(self._queue, self._told(_word("put", name, span_us=_microseconds(self._queue, wait_s, least=0))))

    def claim(self) -> Claim | None:
        """Take the job that has been due the longest; None: none is due. Raises Unavailable."""
        return _claim(self._told(_word("claim", span_us=self._hold_us)))

    def finish(self, claim: Claim) -> bool:
        """Say that a job is done. False: it was handed to another since, or put again. Raises Unavailable."""
        return self._told(_word("finish", claim.name, nth=claim.nth)).allowed

    def work(self, do: Callable[[str], object], stop: threading.Event, *, poll_s: float = POLL_S) -> None:
        """Do jobs as they are due, one after another, until `stop` is set.

        A job is finished when `do` returns. What it raises goes through, and the job comes again when its claim is over.
        """
        while not stop.is_set():
            try:
                told = self._told(_word("claim", span_us=self._hold_us))
            except Unavailable:
                stop.wait(poll_s)
                continue
            claim = _claim(told)
            if claim is None:
                stop.wait(_pause_s(told, poll_s))
                continue
            do(claim.name)
            until_s = time.monotonic() + self._hold_us / 1e6
            while time.monotonic() < until_s:  # behind that the job is another worker's
                try:
                    self.finish(claim)
                    break
                except Unavailable:
                    if stop.wait(min(poll_s, _AGAIN_S)):
                        break

    def _told(self, word: Word) -> Told:
        told: Told = self._store.ask(LAW, self._queue, word)
        return told


class AsyncLater:
    """The same in an event loop."""

    def __init__(self, store: AsyncStore, queue: str, *, hold_s: float) -> None:
        self._store, self._queue, self._hold_us = store, check_queue(queue), _microseconds(queue, hold_s)

    async def put(self, name: str, wait_s: float) -> None:
        _put(self._queue, await self._told(_word("put", name, span_us=_microseconds(self._queue, wait_s, least=0))))

    async def claim(self) -> Claim | None:
        return _claim(await self._told(_word("claim", span_us=self._hold_us)))

    async def finish(self, claim: Claim) -> bool:
        return (await self._told(_word("finish", claim.name, nth=claim.nth))).allowed

    async def work(self, do: Callable[[str], Awaitable[object]], *, poll_s: float = POLL_S) -> None:
        """Do jobs as they are due, one after another, until this task is cancelled."""
        import asyncio

        while True:
            try:
                told = await self._told(_word("claim", span_us=self._hold_us))
            except Unavailable:
                await asyncio.sleep(poll_s)
                continue
            claim = _claim(told)
            if claim is None:
                await asyncio.sleep(_pause_s(told, poll_s))
                continue
            await do(claim.name)
            until_s = time.monotonic() + self._hold_us / 1e6
            while time.monotonic() < until_s:  # behind that the job is another worker's
                try:
                    await self.finish(claim)
                    break
                except Unavailable:
                    await asyncio.sleep(min(poll_s, _AGAIN_S))

    async def _told(self, word: Word) -> Told:
        told: Told = await self._store.ask(LAW, self._queue, word)
        return told


def _word(what: Any, name: str = "", *, span_us: int = 0, nth: int = 0) -> Word:
    return Word(what=what, name=name, span_us=span_us, nth=nth)


def _put(queue: str, told: Told) -> None:
    if not told.allowed:
        raise Problem(
            f"queue {queue}",
            found="10,000 jobs in it",
            wanted="room for one more",
            remedy="see why they are not done: a queue that is full keeps nothing",
        )


def _claim(told: Told) -> Claim | None:
    return Claim(told.name, told.nth) if told.allowed else None


def _pause_s(told: Told, poll_s: float) -> float:
    """How long to look away: until the next job is due, or for `poll_s` if that is less, since one may be put in between."""
    return poll_s if told.wait_us is None else min(poll_s, max(0.001, told.wait_us / 1e6))


def check_queue(queue: str) -> str:
    """Give a queue's name back. Raises Problem where it is none."""
    if type(queue) is str and 0 < len(queue) <= 200 and queue.isprintable():
        return queue
    raise Problem(
        "queue",
        found="a name that is none",
        wanted="1 to 200 characters that can be printed",
        remedy="name the queue by what its workers do: refunds",
    )


def _microseconds(queue: str, seconds: float, *, least: int = 1) -> int:
    """Rounded up: nobody comes a fraction too early."""
    if type(seconds) in (int, float) and least <= seconds * 1e6 <= MOST_US:
        return math.ceil(seconds * 1e6)
    raise Problem(
        f"queue {queue}",
        found=f"{seconds!r} seconds",
        wanted="a time from now",
        remedy="give a number of seconds from 0",
    )
