"""Stores: what outlives a worker. A law's question goes in, one answer comes out, applied at once and on the store's own clock.

1. One question is one round trip. Nobody reads, decides and writes back.
2. Time is the store's. A worker's clock is asked for nothing.
3. Who does not answer within the time limit is unavailable, and what is unavailable denies. Nothing is kept beside the store to
   go on with: it would begin empty in each process.
4. A store is prepared once, by a person (`drillmaster store prepare URL`). One that is not prepared is unavailable: a file that
   was not mounted, or a server that came back empty, must not look like one in which nothing was spent.
5. Where a connection that was kept turns out to be gone, the question is asked once more on a new one. It may then have been
   carried out twice, so laws are written such that this can deny but never grant too much.
"""

from typing import Any, Protocol

from drillmaster.errors import Problem
from drillmaster.guards import Decision, Guard
from drillmaster.rules import AnyLaw

__all__ = ["AsyncStore", "Store", "Unavailable", "decide", "decide_async"]


class Unavailable(Problem):
    """The store gave no answer: it is not there, too slow, not prepared, or said what nobody can read."""


class Store(Protocol):
    """One store. Calls from several threads may overlap; a process that forks gets connections of its own."""

    place: str
    """How to name it in a message; holds no password."""

    def ask(self, law: AnyLaw, key: str, question: Any) -> Any:
        """Put a question to what is kept under a key. Raises Unavailable."""

    def prepare(self) -> None:
        """Make what is needed and is not there. Raises Problem."""

    def close(self) -> None: ...


class AsyncStore(Protocol):
    """The same for a worker with an event loop."""

    place: str

    async def ask(self, law: AnyLaw, key: str, question: Any) -> Any: ...

    async def close(self) -> None: ...


def decide(guard: Guard[Any, Any], facts: Any, store: Store) -> Decision:
    """Decide by a guard whose state is in a store. Denies, with `store-unavailable`, where the store gives no answer."""
    asked = guard.asks(facts)
    if isinstance(asked, Decision):
        return asked
    assert guard.LAW is not None  # whoever asks has one
    try:
        told = store.ask(guard.LAW, asked.key, asked.question)
    except Unavailable:
        return _unavailable()
    return guard.decides(facts, told)


async def decide_async(guard: Guard[Any, Any], facts: Any, store: AsyncStore) -> Decision:
    """Do as `decide` does, in an event loop."""
    asked = guard.asks(facts)
    if isinstance(asked, Decision):
        return asked
    assert guard.LAW is not None  # whoever asks has one
    try:
        told = await store.ask(guard.LAW, asked.key, asked.question)
    except Unavailable:
        return _unavailable()
    return guard.decides(facts, told)


def _unavailable() -> Decision:
    return Decision(allowed=False, reason="store-unavailable")
