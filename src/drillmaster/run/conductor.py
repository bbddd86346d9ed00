"""The conductor: walks the drill's table, carries out its effects, and lifts on every way out.

1. The table (`conduct`) decides; this carries out. An order and its effect are one step that nothing interleaves.
2. Evidence first: what is about to be done is written before it is done. Where that cannot be written, it is not done,
   the fault is lifted, what there is gets sealed, and the drill exits 3.
3. The injector is minded by `injecting`, the worker by `working`, all other parts by `company`: none of them has a name here.
4. An injector or a part that ends by itself stops the drill.
5. A worker that ends is an event. What its users get then is what the drill is about.
6. What a drill is stopped for by itself is looked at by `watch`; what people order comes by `control` and is answered by
   `answering`, what the Scribe says goes to `notes`.
7. Each step of the end is done, whatever became of the one before; what fails makes the drill a stopped one.
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any

from drillmaster import conduct as table
from drillmaster.clock import Clock, rfc3339
from drillmaster.conduct import FINAL, Effect, Order, Role, State
from drillmaster.errors import Exit, Problem, Refused
from drillmaster.evidence import Seal
from drillmaster.plan import Outline
from drillmaster.pulse import Pulse
from drillmaster.run import control
from drillmaster.run.answering import Answering
from drillmaster.run.company import Company
from drillmaster.run.course import Course, Turn
from drillmaster.run.crew import Line, Part, Told, Users
from drillmaster.run.folder import Folder
from drillmaster.run.injecting import Injector, Minder
from drillmaster.run.logs import Logs
from drillmaster.run.notes import Notes, Scribe
from drillmaster.run.parts import WorkerPart
from drillmaster.run.pins import Pins, uncovered_problem
from drillmaster.run.progress import Progress
from drillmaster.run.seats import State as Seats
from drillmaster.run.showing import Showing
from drillmaster.run.signals import EndingSignals
from drillmaster.run.traffic import Tally
from drillmaster.run.watch import BEAT_S, SPEND_S, Watch, baseline_problem, requests_spent
from drillmaster.run.working import Working
from drillmaster.sanity import window_problem

__all__ = ["Conductor"]

TICK_S = 1.0
BY_HAND_WAIT_S = 4 * 3_600.0
"""How long a drill by hand waits in its baseline for the Lead."""
SCRIBE_GRACE_S = 30.0
OWED_S = 15.0
_EVIDENCE_TROUBLE = (OSError, Problem)


class Conductor:
    """One drill. Made ready by `run.opening`; `walk` is called once."""

    def __init__(
        self,
        plan: Outline,
        folder: Folder,
        seats: Seats,
        logs: Logs,
        *,
        injector: Injector,
        parts: Sequence[Part],
        worker: WorkerPart | None,
        course: Course,
        users: Callable[[int], Users],
        prepare: Callable[["Conductor"], Awaitable[None]],
        code: Callable[[], dict[str, str | None]],
        collect: Callable[[], Told],
        max_baseline_failed_ratio: float,
        clock: Clock,
        progress: Progress,
        place: str,
        by_hand: bool,
        leaves_injector: bool,
        took_over: bool,
        rehearsal: bool,
        scribe: Scribe | None,
    ) -> None:
        self.plan = plan
        self.folder = folder
        self.minder = Minder(injector, self, clock)
        self.state = State.PREPARING
        self.why = ""
        self._working = Working(worker, self)
        self._leaves_injector = leaves_injector
        self._took_over = took_over
        self._control = seats.control
        self._logs = logs
        self._course = course
        self._turn: Turn | None = course.by_hand
        """The window that is on, or was last, or that a Lead may put on."""
        self._make_users = users
        self._prepare = prepare
        self._code = code
        self._collect = collect
        self._max_baseline_failed_ratio = max_baseline_failed_ratio
        self._clock = clock
        self._progress = progress
        self._place = place
        self._by_hand = by_hand
        self._rehearsal = rehearsal
        self._scribe = scribe
        self._users: Users | None = None
        self._users_over = False
        self._changed = asyncio.Event()
        self._ordering = asyncio.Lock()
        self._phase_ends_ns: int | None = None
        self._ending = False
        self._problem: Problem | None = None
        self._notes = Notes(logs.notes)
        self._showing = Showing(
            progress,
            forewarn=lambda: () if course.by_hand is None else injector.forewarn(course.by_hand),
            scribe=None if scribe is None else lambda scene: scribe(scene, self._as_scribe),
            run_dir=folder.path,
            by_hand=by_hand,
        )
        self._background: set[asyncio.Task[None]] = set()
        self._owed: list[asyncio.Task[None]] = []
        self._phase_name = ""
        self._signals: EndingSignals | None = None
        self._pins = Pins(folder.path)
        self._company = Company(parts, self, self._pins)
        self._watch = Watch(plan, folder, injector, self._pins, clock)
        self._answering = Answering(self, seats, plan.seats.names(), folder.path, injector.log, clock)
        self._pulse: Pulse | None = None
        self._stop_why = ""
        """Why somebody wants the drill stopped. Known before the stop is done: an end that overtakes it is none."""

    # -- orders

    async def order(self, role: Role, order: Order, *, by: str, why: str) -> State:
        """Carry an order out, effects included. Raises Refused when it is not to be had; nothing changed then."""
        async with self._ordering:
            step = table.step(self.state, role, order)
            if Effect.INJECT in step.effects:
                turn = self._may_inject(role)
                if not self.write("inject_ordered", window=turn.window, by=by, why=why):
                    raise Refused(
                        "inject", found="evidence that cannot be written", wanted="it can", remedy="free some disk"
                    )
                failed = await self.minder.inject(turn)
                if failed is not None:
                    self.why = failed
                    step = table.step(self.state, Role.GUARD, Order.STOP)
            elif order is Order.LIFT:
                self.write("lift_ordered", window=self._window, by=by, why=why)
            elif order is Order.STOP:
                self.write("stop_ordered", by=by, why=why)
            if step.state is State.STOPPING:
                self.why = self.why or why
                self._stop_why = self._stop_why or why
                self.folder.drop_ballast()
                if self._users is not None:
                    self._users.no_more()
            if Effect.LIFT in step.effects:
                await self.minder.lift(self._window)
            self.state = step.state
            self._enter()
            self._changed.set()
            return step.state

    async def stop(self, why: str) -> None:
        """A guard's order: stop the drill, whatever it is doing. Harmless when it is stopping or over already."""
        if self._ending:
            return
        with contextlib.suppress(Refused):
            await self.order(Role.GUARD, Order.STOP, by="drillmaster", why=why)

    @property
    def ending(self) -> bool:
        return self._ending

    @property
    def injected_in(self) -> Turn | None:
        """The window that is on; None: none is."""
        return self._turn if self.state is State.INJECTED else None

    @property
    def _window(self) -> str:
        return "" if self._turn is None else self._turn.window

    def _may_inject(self, role: Role) -> Turn:
        """The window that is to be injected. Raises Refused where it may not be."""
        turn = self._course.by_hand if role is Role.LEAD else self._turn
        if turn is None:
            raise Refused(
                "inject",
                found="a drill that injects by its own schedule",
                wanted="one whose fault the Lead injects",
                remedy="wait for it; to end it: drillmaster stop",
            )
        now_ns = self._clock.wall_ns()
        outside = window_problem(
            self.plan, place=self._place, from_ns=now_ns, until_ns=now_ns + round(turn.fault_s * 1e9)
        )
        if outside is not None:
            raise outside
        if self.minder.injected:  # whether the agent is well between two windows is the course's to see
            return turn
        unwell = baseline_problem(self.tally, self._max_baseline_failed_ratio, by_hand=role is Role.LEAD)
        if unwell is not None:
            raise unwell
        return turn

    def _enter(self) -> None:
        """Begin what the state asks for."""
        now_ns = self._clock.mono_ns()
        turn = self._turn
        match self.state:
            case State.BASELINE:
                self._users = self._make_users(now_ns)
                self._watch.users_begin()
                self.spawn(self._run_users(self._users))
                baseline_s = self.plan.phases.baseline_s
                self._phase("baseline", baseline_s, BY_HAND_WAIT_S if self._by_hand else baseline_s)
            case State.INJECTED:
                assert self._users is not None and turn is not None
                self._showing.injected(self._users.tally)
                self._phase("fault", turn.fault_s, 2 * turn.fault_s if self._by_hand else turn.fault_s)
                if turn.told:
                    self._progress.line(turn.told)
                else:
                    self._progress.injected(rfc3339(self._clock.wall_ns(), digits=3), turn.fault)
                self.spawn(self.minder.renew(turn))
            case State.RECOVERY:
                assert turn is not None
                self._phase("recovery", turn.recovery_s, turn.recovery_s)
                if self._course.asks_notes:
                    self._progress.line("fault lifted. Scribe: drillmaster note window_ended")
                before = [task for task in self._owed if not task.done()]
                self._owed = [*before, self.spawn(self.minder.prove_gone(turn)), self.spawn(self._record_code("lift"))]
            case State.DRAINING:
                self._phase("drain", self.plan.traffic.time_limit_s, None)
        if self.state in (State.RECOVERY, State.DRAINING, State.INJECTED):
            self.spawn(asyncio.to_thread(self._logs.sync))  # off the loop: a slow disk must not make users wait

    def _phase(self, name: str, planned_s: float, ends_s: float | None) -> None:
        self._phase_name = name
        self._phase_ends_ns = None if ends_s is None else self._clock.mono_ns() + round(ends_s * 1e9)
        self.write("phase_started", phase=name, planned_s=planned_s)
        self._progress.phase(name, planned_s if not self._by_hand or name in ("recovery", "drain") else None)

    # -- evidence

    def write(self, event: str, /, **fields: Any) -> bool:
        """Write a line of our own. Where that fails the drill is stopped, and the answer is False."""
        try:
            self._logs.conductor.write(event, **fields)
        except _EVIDENCE_TROUBLE as error:
            self.give_up(f"evidence cannot be written: {error}")
            return False
        return True

    def give_up(self, why: str) -> None:
        """Stop the drill from where nobody can wait for it. In the end it is the state alone that changes."""
        self._stop_why = self._stop_why or why
        if not self._ending:
            self.spawn(self.stop(why))
            return
        self.why = self.why or why
        if self.state is State.DRAINING:
            self.state = table.step(self.state, Role.GUARD, Order.STOP).state

    def say(self, text: str) -> None:
        """Tell the person at the terminal."""
        self._progress.line(text)

    def line(self, line: Line) -> None:
        """Put a line of the pre-flight on record, and say it."""
        extra = {name: value for name, value in (("by", line.by), ("at", line.at)) if value is not None}
        self.write("preflight", check=line.check, status=line.status, why=line.why, **extra)
        self._progress.line(
            f"pre-flight  {line.status:8}  {line.check}" + (f"  {line.why or line.by}" if line.why or line.by else "")
        )

    async def _record_code(self, at: str) -> None:
        code = await asyncio.to_thread(self._code)
        self.write("code_state", at=at, **code)
        for what in ("plan", "policy"):
            now = code.get(f"{what}_sha256") or ""
            if now.startswith("gone"):
                self._progress.line(f"the {what} is {now}: the gate refuses a run whose {what} did not stay")

    def note(self, kind: str, text: str, by: str, seen_at: str = "") -> None:
        """Write a Scribe's line. Raises Problem where it cannot be written, or is too long."""
        try:
            said = self._notes.write(kind, text, by, seen_at)
        except Refused:
            raise
        except _EVIDENCE_TROUBLE as error:
            self.give_up(f"evidence cannot be written: {error}")
            raise
        self._changed.set()
        self._progress.line(said)

    def _as_scribe(self, kind: str, text: str) -> None:
        self.note(kind, text, self.plan.seats.names()["scribe"])

    # -- the walk

    async def walk(self) -> tuple[Exit, str]:
        """Do the whole drill. Raises Problem where the pre-flight refused it; what there is has been written then."""
        server = await control.serve(self._control, self._answering.handler)
        self._signals = EndingSignals(self._on_signal)
        self._watch.begin()
        self._pulse = Pulse(asyncio.get_running_loop(), self._beat, period_s=BEAT_S)
        try:
            self._pins.hold("manifest.json", "timeline.jsonl", *self._logs.files)
            self.write("drill_started", run=self.folder.run, drill=self.plan.drill, service=self.plan.service)
            await self._until_stopped(self._get_ready())
            if self.state is State.PREPARING:
                await self.order(Role.LEAD, Order.START, by=self._lead, why="pre-flight passed")
                self.spawn(self._tick())
                self.spawn(self._watch_spend())
                await self._phases()
            if self.state is State.DRAINING:
                await self._drain()
        except Problem as problem:
            self._problem = problem
            await self.stop(str(problem))
        finally:
            # A cancelled walk must not leave a fault either: this is the one place every way out passes.
            if self.state is not State.DRAINING and self.state not in FINAL:
                await self.stop("the conductor was cancelled")
            await self._end()
            server.close()
        if self._problem is not None:
            raise self._problem
        return (Exit.PASS, "") if self.state is State.DRAINING else (Exit.ABORTED, self.why)

    @property
    def refused(self) -> Problem | None:
        """What refused the drill in its pre-flight, before any user was played; None where nothing did."""
        return self._problem if self._users is None else None

    @property
    def _lead(self) -> str:
        return self.plan.seats.names()["lead"] or "nobody named"

    async def _get_ready(self) -> None:
        await self._record_code("start")
        await self._start_parts()
        await self._prepare(self)

    async def _start_parts(self) -> None:
        """Start the injector and the parts, and watch them. Raises Problem."""
        await self.minder.start()
        self.spawn(self.minder.watch())
        self._pins.hold(self.minder.injector.evidence)
        await self._company.start()

    async def proxy_counts(self) -> dict[str, Any]:
        """What the injector counted so far. Raises Refused where it does not answer."""
        return dict((await self.minder.state(self.folder.path)).get("counts", {}))

    async def requests_spent(self) -> int:
        return requests_spent(await self.minder.state(self.folder.path))

    @property
    def worker_alive(self) -> bool:
        return self._working.alive

    async def worker_said(self) -> tuple[str, ...]:
        return await self._working.said()

    async def start_worker(self, argv: tuple[str, ...]) -> None:
        """Start the worker and watch it. Raises Problem."""
        await self._working.start(argv)

    async def restart_worker(self) -> bool:
        return await self._working.restart()

    async def _until_stopped(self, doing: Coroutine[Any, Any, None]) -> None:
        """Do something that a stop order cuts short. Raises what it raises."""
        task = asyncio.create_task(doing)
        task.add_done_callback(lambda _: self._changed.set())
        await self._wait(lambda: task.done() or self.state is not State.PREPARING)
        if not task.done():
            task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task

    async def _wait(self, until: Callable[[], bool], *, at_most_s: float | None = None) -> None:
        """Wait until something holds; looked at whenever something changed, and at the latest after `at_most_s`."""
        give_up_ns = None if at_most_s is None else self._clock.mono_ns() + round(at_most_s * 1e9)
        while not until():
            left_s = None if give_up_ns is None else (give_up_ns - self._clock.mono_ns()) / 1e9
            if left_s is not None and left_s <= 0:
                return
            self._changed.clear()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(left_s):
                    await self._changed.wait()

    async def _phases(self) -> None:
        """Wait for each phase's end, and order the next in the Lead's name, until the drill drains or stops."""
        while self.state in (State.BASELINE, State.INJECTED, State.RECOVERY):
            before = self.state
            left_s = ((self._phase_ends_ns or 0) - self._clock.mono_ns()) / 1e9
            if left_s > 0:
                await self._wait(lambda: self.state is not before, at_most_s=left_s)  # noqa: B023  # used within the turn
                continue
            # A phase that seems over may be a clock that jumped: the kernel's count says which, and is asked first.
            jumped = None if self._pulse is None else self._watch.beat(self._pulse.count(), before)
            if jumped is not None:
                await self.stop(jumped)
                continue
            if before is State.BASELINE and self._by_hand:
                await self.stop(f"nobody injected within {BY_HAND_WAIT_S / 3600:g} h")
                return
            order = Order.LIFT
            if before is not State.INJECTED:
                turn = await self._next_turn()
                if self.state is not before:
                    continue
                order = Order.DRAIN if turn is None else Order.INJECT
            try:
                await self.order(Role.SCHEDULE, order, by=f"the schedule that {self._lead} started", why="planned")
            except Refused as refused:
                if self.state is before:  # not overtaken by a person's order: it is the drill that cannot go on
                    await self.stop(str(refused))

    async def _next_turn(self) -> Turn | None:
        """Ask the course what comes now, once the last window is known to be gone."""
        turn = await self._course.next(self)
        if turn is not None:
            if self._owed:
                await asyncio.wait(self._owed, timeout=OWED_S)
            self._turn = turn
        return turn

    @property
    def tally(self) -> Tally | None:
        """What has become of the users' requests so far."""
        return None if self._users is None else self._users.tally

    async def pause(self, seconds: float) -> bool:
        """Let time pass; False when somebody stopped the drill meanwhile."""
        before = self.state
        await self._wait(lambda: self.state is not before, at_most_s=seconds)
        return self.state is before

    async def _drain(self) -> None:
        """Wait for the requests under way, and a little for the Scribe."""
        assert self._users is not None
        self._users.no_more()
        patience_s = self.plan.traffic.time_limit_s + 2
        await self._wait(lambda: self._users_over or self.state is not State.DRAINING, at_most_s=patience_s)
        if self._owed:  # what the lift set going, where the recovery was shorter than it takes
            await asyncio.wait(self._owed, timeout=OWED_S)
        if self._course.asks_notes and self._notes.missing() and not self._rehearsal and self._scribe is None:
            self._progress.line(
                f"Scribe: still missing {', '.join(self._notes.missing())}; sealing in {SCRIBE_GRACE_S:g} s"
            )
            done = lambda: not self._notes.missing() or self.state is not State.DRAINING  # noqa: E731  # one line, used once
            await self._wait(done, at_most_s=SCRIBE_GRACE_S)

    async def _end(self) -> None:
        """End the parts and write the end. The seal comes after this, when nothing of ours is open any more."""
        self._ending = True
        if self._pulse is not None:
            self._beat(self._pulse.count())  # what happened since the last one counts too
            self._pulse.close()
        for task in tuple(self._background):
            task.cancel()
        if self._stop_why:
            self.give_up(self._stop_why)
        for what, step in (
            ("the lift", self._end_fault),
            ("the worker's end", self._working.end),
            (f"{self.minder.injector.called}'s end", self._end_injector),
            ("the end of the parts", self._company.end),
            ("the record of the code", lambda: self._record_code("end")),
            ("the evidence", self._end_evidence),
        ):
            try:
                await step()
            except Exception as error:  # noqa: BLE001  # whatever it is: the steps after it matter more
                self.give_up(f"{what}: {error if isinstance(error, Problem) else f'{type(error).__name__}: {error}'}")
        self.folder.drop_ballast()
        status = "completed" if self.state is State.DRAINING else "aborted"
        self.write("drill_ended", status=status, why=self.why)
        try:
            self._logs.sync()
            missing = self._pins.complaint()
        except _EVIDENCE_TROUBLE as error:
            missing = str(error)
        if missing is not None:
            self.give_up(missing)

    async def _end_fault(self) -> None:
        if self.state is State.STOPPING and self.minder.injected:
            await self.minder.injector.lift(self._window, "ordered")  # see `injecting`, 3

    async def _end_injector(self) -> None:
        await self.minder.end(leave=self._leaves_injector and (self._users is not None or self._took_over))

    async def _end_evidence(self) -> None:
        why = self._pins.complaint()
        if why is not None:
            self.give_up(why)
            return
        for event, fields in (await asyncio.to_thread(self._collect)).items():
            self.write(event, **fields)

    def sealed(self, seal: Seal) -> None:
        """The run has been sealed. Raises Problem where it was complete and the seal does not cover all of it."""
        why = self._pins.uncovered(seal.files)
        if why is not None and self.state is State.DRAINING:
            raise uncovered_problem(self.folder.path, why)
        if why is not None:  # a stopped drill is sealed as far as it goes
            self._progress.line(f"the seal does not cover all that was written: {why}")
        self.state = table.step(self.state, Role.SCHEDULE, Order.SEAL).state

    def close(self) -> None:
        """Give the signals back.

        Until then none of them cuts the seal short; after a stop they stay without effect, since what is left to do is to
        say why, and to end with the code of a stop.
        """
        self._pins.close()
        if self._signals is not None:
            self._signals.close(deaf=self.state is not State.SEALED and self._problem is None)

    # -- what goes on meanwhile

    def spawn(self, doing: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(self._guarded(doing))
        self._background.add(task)
        task.add_done_callback(self._background.discard)
        return task

    async def _guarded(self, doing: Coroutine[Any, Any, None]) -> None:
        """Do something in the background; what goes wrong with it stops the drill."""
        try:
            await doing
        except asyncio.CancelledError:
            raise
        except Exception as error:  # noqa: BLE001  # whatever it is: a drill whose part failed has to lift and stop
            inner = error.exceptions[0] if isinstance(error, ExceptionGroup) else error
            said = str(inner) if isinstance(inner, Problem) else f"{type(inner).__name__}: {inner}"
            await self.stop(said)

    async def _run_users(self, users: Users) -> None:
        await users.run()
        self._users_over = True
        self._changed.set()

    async def _tick(self) -> None:
        """Once a second: the clock on record, the stop conditions, the screen, the stand-in Scribe."""
        while True:
            self.write("clock")
            assert self._users is not None
            why = await self._watch.look(self.state, self._users.tally) or await self._company.complaint()
            if why is not None:
                await self.stop(why)
            left_s = None if self._phase_ends_ns is None else (self._phase_ends_ns - self._clock.mono_ns()) / 1e9
            self._showing.show(self.state, self._users.tally, self._phase_name, left_s)
            await asyncio.sleep(TICK_S)

    def _beat(self, passed: int) -> None:
        why = self._watch.beat(passed, self.state)
        if why is not None:
            self.give_up(why)

    async def _watch_spend(self) -> None:
        while self.plan.spend is not None:
            why = await self._watch.spent()
            if why is not None:
                await self.stop(why)
            await asyncio.sleep(SPEND_S)

    # -- people and signals

    def _on_signal(self, name: str) -> None:
        if self._ending or self.state is State.STOPPING:
            self._progress.line(f"{name}: on its way out already")
            return
        self._progress.line(f"{name}: lifting the fault, sealing what there is")
        self.give_up(f"{name}: somebody ended the drill")
