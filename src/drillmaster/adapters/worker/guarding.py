"""The guards of a worker: a guards file, the store behind it and a recorder, as one object that decides by name.

1. It decides with the same code as the command line and `drillmaster guard serve`: the guard's own, and `stores.decide`.
2. Everything that is no answer is a denial: no store, a name that the file does not have, facts of another type. Nothing raises.
3. A guard with state and without a law counts in this process, for each session apart (`session`), and another process counts by
   itself. Where there is no room for one more session, it is denied; none is forgotten to make room, since a session that was
   halted would begin anew.
4. `reload` reads the file again. One that cannot be used changes nothing: the last good one stays in force.
5. Whether a file's day for review has passed is looked at when it is loaded, and not between: a worker does not stop at midnight.
"""

import os
import re
import threading
from pathlib import Path
from typing import Any

from drillmaster import stores
from drillmaster.adapters.worker.recording import Recorder
from drillmaster.clock import Clock, SystemClock
from drillmaster.errors import Problem
from drillmaster.guards import Ask, Decision
from drillmaster.intake.guards_files import AnyGuard, Guards, Kind, kind_of, read_guards
from drillmaster.stores import AsyncStore, Store
from drillmaster.stores.forking import renewed_in_a_child

__all__ = ["MOST_SESSIONS", "REASONS", "Guarding", "no_store"]

REASONS = {
    "unlisted-guard": "The guards file in force has no guard of that name.",
    "facts-unusable": "They are not the facts of this guard.",
    "store-unavailable": "There is no store, or it did not answer in time: what nobody can count is denied.",
    "sessions-exhausted": "So many sessions are counted in this process that there is no room for one more.",
}
"""Beside those of the guard itself."""
MOST_SESSIONS = 10_000
_MOST_CALLS = 1_000_000
_UNLISTED = "unlisted"
_MARK = re.compile(r"[0-9A-Za-z_-]{1,40}", re.ASCII)


class Guarding:
    """All guards of one file. It may be used from several threads; of an event loop, from one."""

    def __init__(
        self,
        guards: Guards | str | os.PathLike[str],
        *,
        store: Store | None = None,
        async_store: AsyncStore | None = None,
        recorder: Recorder | None = None,
        clock: Clock | None = None,
    ) -> None:
        """Take a guards file, or read it. Raises Problem where it cannot be used, or its day for review has passed."""
        self._clock = clock or SystemClock()
        self._guards = guards if isinstance(guards, Guards) else read_guards(guards, now_ns=self._clock.wall_ns())
        self._path = Path(self._guards.place)
        self.recorder = recorder or Recorder()
        self._store = store
        self._async_store = async_store
        self.forked()
        renewed_in_a_child(self)
        self._states: dict[tuple[str, str], Any] = {}
        self._kinds: dict[str, Kind] = {}
        self._take(self._guards)

    def forked(self) -> None:
        self._lock = threading.Lock()

    @classmethod
    def open(
        cls,
        path: str | os.PathLike[str],
        *,
        store: str | None = None,
        within_s: float = 0.5,
        recorder: Recorder | None = None,
        clock: Clock | None = None,
    ) -> "Guarding":
        """Open a guards file, and its store by URL, for both kinds of worker. Nothing is connected yet. Raises Problem."""
        from drillmaster.stores.opening import open_async_store, open_store

        return cls(
            path,
            store=None if store is None else open_store(store, within_s=within_s),
            async_store=None if store is None else open_async_store(store, within_s=within_s),
            recorder=recorder,
            clock=clock,
        )

    @property
    def guards(self) -> Guards:
        """The file in force."""
        return self._guards

    def kind(self, name: str) -> Kind | None:
        """Say what the guard of that name is made of; None: there is none of it."""
        return self._kinds.get(name)

    def decide(self, name: str, facts: Any, *, route: str = "", session: str = "") -> Decision:
        """Decide, and record it. `route` and `session` are names of the worker's own."""
        kind, guard, decision = self._before(name, facts, session)
        if decision is None and guard is not None:
            decision = _denied("store-unavailable") if self._store is None else stores.decide(guard, facts, self._store)
        return self._recorded(name, kind, facts, decision, route)

    async def decide_async(self, name: str, facts: Any, *, route: str = "", session: str = "") -> Decision:
        """Do as `decide` does, in an event loop."""
        kind, guard, decision = self._before(name, facts, session)
        if decision is None and guard is not None:
            store = self._async_store
            decision = _denied("store-unavailable") if store is None else await stores.decide_async(guard, facts, store)
        return self._recorded(name, kind, facts, decision, route)

    def succeeded(self, name: str, *, calls: int = 1, mark: str = "") -> bool:
        """Give a shared budget back what so many good calls earn; False: there is none, or the store gave no answer.

        `mark` names this giving, so that one that is told again changes nothing: at most 40 letters, digits, `_` and `-`, which no
        other giving of any worker has. The last 32 are known. "": it is told once.
        """
        ask = self._repays(name, calls, mark)
        if ask is None or self._store is None:
            return False
        try:
            self._store.ask(self._guards.entries[name].LAW, ask.key, ask.question)
        except stores.Unavailable:
            return False
        return True

    async def succeeded_async(self, name: str, *, calls: int = 1, mark: str = "") -> bool:
        """Do as `succeeded` does, in an event loop."""
        ask = self._repays(name, calls, mark)
        if ask is None or self._async_store is None:
            return False
        try:
            await self._async_store.ask(self._guards.entries[name].LAW, ask.key, ask.question)
        except stores.Unavailable:
            return False
        return True

    def earns(self, name: str) -> bool:
        """Say whether the guard of that name has a budget that good calls give back to."""
        return hasattr(self._guards.entries.get(name), "repays")

    def forget(self, name: str, *, session: str) -> None:
        """End a session: what was counted for it in this process is dropped."""
        with self._lock:
            self._states.pop((name, session), None)

    def reload(self) -> Guards:
        """Read the file again and put it in force. Raises Problem, and leaves the one before in force."""
        found = read_guards(self._path, now_ns=self._clock.wall_ns())
        if found.needs_store and self._store is None and self._async_store is None:
            raise no_store(found)
        self._take(found)
        return found

    def close(self) -> None:
        """Close the store of `decide`."""
        if self._store is not None:
            self._store.close()

    async def close_async(self) -> None:
        """Close the stores."""
        self.close()
        if self._async_store is not None:
            await self._async_store.close()

    def _take(self, guards: Guards) -> None:
        kinds = {name: kind_of(_tag(guard)) for name, guard in guards.entries.items()}
        with self._lock:
            # What was counted belongs to a guard; an entry that is another one now begins anew.
            gone = {name for name, kind in self._kinds.items() if name not in kinds or kinds[name].tag != kind.tag}
            self._states = {key: state for key, state in self._states.items() if key[0] not in gone}
            self._guards, self._kinds = guards, kinds

    def _before(self, name: str, facts: Any, session: str) -> tuple[Kind | None, AnyGuard | None, Decision | None]:
        """Look up what decides; decide where no store is asked."""
        guard, kind = self._guards.entries.get(name), self._kinds.get(name)
        if guard is None or kind is None or kind.guard is not type(guard):
            return None, None, _denied("unlisted-guard")
        if not isinstance(facts, kind.facts):
            return kind, guard, _denied("facts-unusable")
        if kind.by_law:
            return kind, guard, None
        now_ms = self._clock.wall_ns() // 1_000_000
        if kind.state is None:
            return kind, guard, guard.step(None, facts, now_ms)[1]
        key = (name, session)
        with self._lock:
            if key not in self._states and len(self._states) >= MOST_SESSIONS:
                return kind, guard, _denied("sessions-exhausted")
            state, decision = guard.step(self._states.get(key), facts, now_ms)
            self._keep(key, state)
        return kind, guard, decision

    def _repays(self, name: str, calls: int, mark: str) -> Ask | None:
        guard = self._guards.entries.get(name)
        if guard is None or not self.earns(name) or not 1 <= calls <= _MOST_CALLS:
            return None
        if mark and _MARK.fullmatch(mark) is None:
            return None
        # A name that no other giving has: one that is carried out twice counts once.
        ask: Ask | None = guard.repays(calls, mark or os.urandom(16).hex())
        return ask

    def _keep(self, key: tuple[str, str], state: Any) -> None:
        if state is None:
            self._states.pop(key, None)
        else:
            self._states[key] = state

    def _recorded(self, name: str, kind: Kind | None, facts: Any, decision: Decision | None, route: str) -> Decision:
        decision = decision or _denied("unlisted-guard")
        if kind is not None:
            self.recorder.record(name, kind.tag, facts, decision, route=route)
        else:  # whoever asks may have made the name up: it is not written down
            self.recorder.record(_UNLISTED, _UNLISTED, None, decision)
        return decision


def no_store(guards: Guards) -> Problem:
    """Make the problem of a file with guards that a store carries out, where none was named."""
    return Problem(
        guards.place,
        found=f"no store, and {', '.join(guards.needs_store)}",
        wanted="a store that workers share: what nobody can count is denied",
        remedy="name it by its URL: --store redis://127.0.0.1:6379/0",
    )


def _tag(guard: AnyGuard) -> str:
    return str(type(guard).__struct_config__.tag)


def _denied(reason: str) -> Decision:
    return Decision(allowed=False, reason=reason)
