"""Kills and their ends, as the server carries them out: on the disk first, then told, then followed to the last call.

1. A kill holds from the moment it is asked for, whether or not the disk takes it; who asked is told where it did not. An end
   of a kill that the disk does not take is none.
2. It is held by a worker that says the revision, or a later one. Which of the workers that are known do not is in the answer.
   Who waits for them at a server that has just started waits for them to find it, too.
3. Calls that were under way go on. Their worker counts them, and is said to be drained once none is left.
"""

import asyncio
import fcntl
import os
import sys
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from drillmaster.clock import Clock, rfc3339
from drillmaster.errors import Problem, one_line
from drillmaster.flags.answers import Lifts
from drillmaster.flags.board import Board, On
from drillmaster.flags.doors import Client, Reply, said
from drillmaster.flags.kills import Killed, read_kills, write_kills
from drillmaster.flags.roster import Roster
from drillmaster.timeline.opening import complaint

__all__ = ["Killing"]

LOCK_S = 3.0
YOUNG_S = 1.0
"""How long workers may take to find a server that was started again: until then, those that are known are not all."""
Tell = Callable[[str, str, On | None, str, str], object]
"""Flag, state, what was on, by, why."""


class _Kill:
    """A kill, or its end, until all that was under way has ended."""

    __slots__ = ("at_ns", "drained", "number")

    def __init__(self, number: int, at_ns: int) -> None:
        self.number = number
        self.at_ns = at_ns
        self.drained: set[str] = set()


class Killing:
    """What is killed, where that lies, and who waits for it."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        board: Board,
        roster: Roster,
        clock: Clock,
        record: Callable[[str, dict[str, Any]], bool],
        tell: Tell,
        path: str | None,
    ) -> None:
        """Raises Problem where another server keeps its kills at `path`."""
        self._loop = loop
        self._board = board
        self._roster = roster
        self._clock = clock
        self._record = record
        self._tell = tell
        self._path = None if path is None else Path(path)
        self._kept: dict[str, Killed] = {}
        self._kills: dict[str, _Kill] = {}
        self._waiting: dict[Client, tuple[str, Lifts, int]] = {}
        self._after: list[Callable[[OSError | None], None]] = []
        self._keeper: asyncio.Task[None] | None = None
        self._one_writer = threading.Lock()
        self._version = self._written = 0
        self._lock_fd = None if path is None else _lock(path)
        self._since_ns = time.monotonic_ns()

    def take_up(self) -> None:
        """Kill what was killed when the last server ended."""
        if self._path is None:
            return
        board = self._board
        try:
            found = read_kills(self._path)
        except Problem as problem:
            at = rfc3339(self._clock.wall_ns())
            for name in board.registry.capabilities:
                board.kill(name, "the server")
                self._kept[name] = Killed(capability=name, by="the server", why="kills could not be read", at=at)
            print(f"{problem}; all that can be killed is killed", file=sys.stderr, flush=True)
        else:
            for one in found:
                self._kept[one.capability] = one
                if one.capability in board.registry.capabilities:
                    board.kill(one.capability, one.by)
                else:
                    known = "a kill is kept whose capability the registry does not know"
                    print(one_line(f"{self._path}: {known}: {one.capability}"), file=sys.stderr, flush=True)
        for name in board.killed:
            self._kills[name] = self._now()
            self._tell(name, "killed", None, self._kept[name].by, "kept over a restart")

    def _now(self) -> _Kill:
        return _Kill(self._board.number(self._board.revision) or 0, time.monotonic_ns())

    def kill(self, name: str, order: Lifts, client: Client) -> Reply | None:
        """Kill, and answer once it is held or the wait is over. Raises Problem for no capability."""
        board = self._board
        board.capability(name)
        if self._path is None:
            return said(403, {"error": "this server was started without a file of kills: a kill would end with it"})
        if board.kill(name, order.by):
            self._kills[name] = self._now()
            self._tell(name, "killed", None, order.by, order.why)
            at = rfc3339(self._clock.wall_ns())
            self._kept[name] = Killed(capability=name, by=order.by, why=order.why, at=at)

        def kept(error: OSError | None) -> None:
            if error is None:
                self._wait(client, name, order)
                return
            # Killed all the same, here and now; but nobody is told that it lasts.
            wrong = f"killed, but not on the disk ({error.strerror or error}): a restart would forget it"
            client.answer(said(507, {**self._told(name), "error": wrong, "durable": False}))

        self._keep(kept)
        return None

    def restore(self, name: str, order: Lifts, client: Client) -> Reply | None:
        """End a kill, where the disk takes it; else it stays killed. Raises Problem for no capability."""
        board = self._board
        board.capability(name)
        if self._path is None:
            return said(403, {"error": "this server was started without a file of kills"})
        before = self._kept.pop(name, None)

        def kept(error: OSError | None) -> None:
            if error is not None:
                if before is not None:
                    self._kept.setdefault(name, before)
                wrong = f"not restored: the disk does not take it ({error.strerror or error})"
                client.answer(said(507, {**self._told(name), "error": wrong, "durable": False}))
                return
            if name not in self._kept and board.restore(name):  # nobody has killed it again meanwhile
                self._kills[name] = self._now()
                self._tell(name, "restored", None, order.by, order.why)
            self._wait(client, name, order)

        self._keep(kept)
        return None

    # The disk, which may take its time: nobody else waits for it

    def _keep(self, then: Callable[[OSError | None], None]) -> None:
        self._after.append(then)
        if self._keeper is None:
            self._keeper = self._loop.create_task(self._keep_all())

    async def _keep_all(self) -> None:
        try:
            while self._after:
                after, self._after = self._after, []
                self._version += 1
                error = await self._loop.run_in_executor(None, self._write, self._version, tuple(self._kept.values()))
                for then in after:
                    then(error)
        finally:
            self._keeper = None

    def _write(self, version: int, killed: tuple[Killed, ...]) -> OSError | None:
        assert self._path is not None
        with self._one_writer:
            if version < self._written:
                return None  # a later one is there
            try:
                write_kills(self._path, killed)
            except OSError as error:
                return error
            self._written = version
            return None

    def _told(self, name: str) -> dict[str, Any]:
        kill = self._kills.get(name)
        behind = [] if kill is None else list(self._roster.behind(partial(self._holds, kill)))
        held = [one for one in self._roster.workers.values() if one not in behind]
        now_ns = time.monotonic_ns()
        return {
            "capability": name,
            "state": self._board.state(name),
            "revision": self._board.revision,
            "held_by": sorted(one.name for one in held),
            "not_held": [
                {"worker": one.name, "silent_s": round((now_ns - one.seen_ns) / 1e9, 3), "lost": one.lost}
                for one in behind
            ],
            "running": sum(one.running.get(name, 0) for one in held),
            "seconds": None if kill is None else round((now_ns - kill.at_ns) / 1e9, 6),
            "durable": True,
        }

    def _holds(self, kill: _Kill, revision: str) -> bool:
        number = self._board.number(revision)
        return number is not None and number >= kill.number

    def _settled(self, told: dict[str, Any], order: Lifts) -> bool:
        young = time.monotonic_ns() - self._since_ns < YOUNG_S * 1e9
        return not young and not told["not_held"] and not (order.drain and told["running"])

    def _wait(self, client: Client, name: str, order: Lifts) -> None:
        told = self._told(name)
        if self._settled(told, order) or not order.wait_s:
            client.answer(said(200, told))
            return
        self._waiting[client] = (name, order, time.monotonic_ns() + round(order.wait_s * 1e9))
        client.on_gone = partial(self._waiting.pop, client, None)

    def heard(self, now_ns: int) -> None:
        """A worker said what it holds."""
        for name, kill in self._kills.items():
            if name not in self._board.killed:
                continue
            for worker in self._roster.workers.values():
                if worker.name in kill.drained or worker.running.get(name, 0) or not self._holds(kill, worker.held):
                    continue
                kill.drained.add(worker.name)
                seconds = round((now_ns - kill.at_ns) / 1e9, 6)
                self._record("kill_drained", {"flag": name, "worker": worker.name, "seconds": seconds})
        self.settle(now_ns)

    def settle(self, now_ns: int) -> None:
        """Answer who waited for what has come about, or for too long."""
        for client, (name, order, until_ns) in tuple(self._waiting.items()):
            told = self._told(name)
            if self._settled(told, order) or now_ns >= until_ns:
                self._waiting.pop(client, None)
                client.answer(said(200, told))

    def stop(self) -> None:
        """Have on the disk what is owed to it, and answer all who wait."""
        after, self._after = self._after, []
        if after or self._keeper is not None:
            self._version += 1
            error = self._write(self._version, tuple(self._kept.values()))
            for then in after:
                then(error)
        for client, (name, _, _) in tuple(self._waiting.items()):
            client.answer(said(200, self._told(name)))
        self._waiting.clear()

    def close(self) -> None:
        """Let another server have the file."""
        if self._lock_fd is not None:
            os.close(self._lock_fd)
            self._lock_fd = None


def _lock(path: str) -> int:
    """Be the only server that keeps these kills. One that is just ending is waited for. Raises Problem."""
    place = f"{path}.lock"
    try:
        fd = os.open(place, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    except OSError as error:
        found, remedy = complaint(error)
        raise Problem(place, found=found, wanted="a place for kills", remedy=remedy) from None
    until_s = time.monotonic() + LOCK_S
    while True:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return fd
        except BlockingIOError:
            if time.monotonic() > until_s:
                os.close(fd)
                raise Problem(
                    path,
                    found="another flag server that keeps its kills there",
                    wanted="one server to a file of kills",
                    remedy="end that one, or give this one a file of its own",
                ) from None
            time.sleep(0.02)
