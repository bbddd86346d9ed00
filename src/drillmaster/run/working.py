"""The worker as the conductor minds it: started, watched, replaced, ended. One that ends by itself is an event, no stop."""

import asyncio

from drillmaster.errors import Problem
from drillmaster.run.injecting import Desk, how_it_ended
from drillmaster.run.parts import WorkerPart
from drillmaster.screen import screen_argv

__all__ = ["Working"]

_WATCHED_S = 15.0


class Working:
    """One drill's worker; None where somebody else starts the agent."""

    def __init__(self, worker: WorkerPart | None, desk: Desk) -> None:
        self.worker = worker
        self.alive = False
        self._desk = desk
        self._argv: tuple[str, ...] = ()
        self._watching: asyncio.Task[None] | None = None
        self._replacing = False
        """It is being ended because another takes its place."""

    async def start(self, argv: tuple[str, ...]) -> None:
        """Start it and watch it. Raises Problem."""
        assert self.worker is not None
        self._argv = argv
        pid = await self.worker.start()
        self.alive = True
        self._desk.write("worker_started", pid=pid, argv=screen_argv(argv))
        self._watching = self._desk.spawn(self._watch())

    async def restart(self) -> bool:
        """End it, if it is still there, and start it anew; False where that is not ours to do, or fails."""
        if self.worker is None or not self._argv or self._desk.ending:
            return False
        self._replacing = True
        try:
            await self.worker.stop()
            if self._watching is not None:
                await asyncio.wait((self._watching,), timeout=_WATCHED_S)
            await self.start(self._argv)
        except Problem as problem:
            self._desk.say(str(problem))
            return False
        finally:
            self._replacing = False
        return True

    async def said(self) -> tuple[str, ...]:
        """The last lines of a worker that the drill started, told to the person too."""
        said = () if self.worker is None else await self.worker.said()
        for line in said:
            self._desk.say(f"the agent printed: {line}")
        return said

    async def end(self) -> None:
        if self.worker is None:
            return
        await self.worker.stop()
        if self.alive:
            self.alive = False
            self._desk.write("worker_exited", pid=self.worker.pid, code=await self.worker.wait(), expected=True)

    async def _watch(self) -> None:
        assert self.worker is not None
        code = await self.worker.wait()
        self.alive = False
        self._desk.write("worker_exited", pid=self.worker.pid, code=code, expected=self._replacing)
        if self._replacing:
            return
        if self.worker.keeper_lost:
            await self._desk.stop("the worker's keeper was killed: what the worker had started was ended with it")
            return
        self._desk.say(f"the worker ended by itself ({how_it_ended(code)})")
