"""The conductor: walks the drill's table, carries out its effects, and lifts on every way out.

1. The table (`conduct`) decides; this carries out. An order and its effect are one step that nothing interleaves.
2. Evidence first: what is about to be done is written before it is done. Where that cannot be written, it is not done,
   the fault is lifted, what there is gets sealed, and the drill exits 3.
3. The proxy holds the fault's deadline. The conductor only renews it, and only while it is well.
4. A killed proxy is replaced at once, passing through, behind the socket that the conductor holds. The drill is stopped
   all the same: its evidence has a hole.
5. A worker that ends is an event. What its users get then is what the drill is about.
6. What a drill is stopped for by itself is looked at by `watch`; what people order comes by `control`, what the Scribe
   says goes to `notes`.
7. Each step of the end is done, whatever became of the one before; what fails makes the drill a stopped one.
"""

import asyncio
import contextlib
import signal
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

import msgspec

from drillmaster import conduct as table
from drillmaster.clock import Clock, rfc3339
from drillmaster.conduct import FINAL, NOTE_KINDS, Effect, Order, Role, State
from drillmaster.errors import Exit, Problem, Refused
from drillmaster.evidence import Seal
from drillmaster.plan import Plan
from drillmaster.pulse import Pulse
from drillmaster.run import control
from drillmaster.run.control import Asked, Told
from drillmaster.run.course import Course, Turn
from drillmaster.run.folder import Folder
from drillmaster.run.forewarn import forewarnings
from drillmaster.run.notes import MAX_NAME_CHARS, MAX_NOTE_CHARS, Notes, Scene, Scribe, shown
from drillmaster.run.parts import InjectorLost, ProxyPart, WorkerPart
from drillmaster.run.pins import Pins, uncovered_problem
from drillmaster.run.preflight import Line
from drillmaster.run.progress import Progress
from drillmaster.run.seats import State as Seats
from drillmaster.run.signals import EndingSignals
from drillmaster.run.tail import Tail
from drillmaster.run.traffic import Tally, Traffic
from drillmaster.run.upstream import probe_proxy
from drillmaster.run.watch import BEAT_S, SPEND_S, Watch, requests_spent
from drillmaster.sanity import window_problem
from drillmaster.screen import screen_argv
from drillmaster.timeline import Writer

__all__ = ["Conductor", "Logs"]

TTL_S = 8.0
RENEW_S = 2.0
TICK_S = 1.0
SHOWN_REQUESTS = 5
"""So many users served show how the agent asks its endpoint."""
BY_HAND_WAIT_S = 4 * 3_600.0
"""How long a drill by hand waits in its baseline for the Lead."""
SCRIBE_GRACE_S = 30.0
OWED_S = 15.0
_MAX_PROXY_STARTS = 5
_EVIDENCE_TROUBLE = (OSError, Problem)
_WRITERS = ("conductor", "traffic", "notes")


class Logs(msgspec.Struct, frozen=True):
    """The conductor's own writers, one file each."""

    conductor: Writer
    traffic: Writer
    notes: Writer

    def sync(self) -> None:
        for writer in (self.conductor, self.traffic, self.notes):
            writer.sync()

    def close(self) -> None:
        for writer in (self.conductor, self.traffic, self.notes):
            writer.close()


class Conductor:
    """One drill. Made ready by `run.opening`; `walk` is called once."""

    def __init__(
        self,
        plan: Plan,
        folder: Folder,
        seats: Seats,
        logs: Logs,
        *,
        proxy: ProxyPart,
        proxy_url: str,
        worker: WorkerPart | None,
        course: Course,
        traffic: Callable[[int], Traffic],
        prepare: Callable[["Conductor"], Awaitable[None]],
        code: Callable[[], dict[str, str | None]],
        collect: Callable[[], None],
        max_baseline_failed_ratio: float,
        clock: Clock,
        progress: Progress,
        place: str,
        by_hand: bool,
        leaves_proxy: bool,
        took_over: bool,
        rehearsal: bool,
        scribe: Scribe | None,
    ) -> None:
        self.plan = plan
        self.folder = folder
        self.proxy = proxy
        self.worker = worker
        self.state = State.PREPARING
        self.why = ""
        self.worker_alive = False
        self._watching: asyncio.Task[None] | None = None
        self._replacing = False
        """The worker is being ended because another takes its place."""
        self.leaves_proxy = leaves_proxy
        self.left_proxy: int | None = None
        """The pid of a proxy that goes on for an agent which is not ours to end."""
        self._took_over = took_over
        self._seats = seats
        self._logs = logs
        self._proxy_url = proxy_url
        self._course = course
        self._turn: Turn | None = course.by_hand
        """The window that is on, or was last, or that a Lead may put on."""
        self._make_traffic = traffic
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
        self._traffic: Traffic | None = None
        self._traffic_over = False
        self._injected = False
        self._forewarned = False
        self._changed = asyncio.Event()
        self._ordering = asyncio.Lock()
        self._phase_ends_ns: int | None = None
        self._ending = False
        self._problem: Problem | None = None
        self._notes = Notes(logs.notes)
        self._at_injection: dict[str, int] = {}
        self._background: set[asyncio.Task[None]] = set()
        self._owed: list[asyncio.Task[None]] = []
        self._phase_name = ""
        self._signals: EndingSignals | None = None
        self._pins = Pins(folder.path)
        self._watch = Watch(plan, folder, proxy, self._pins, clock)
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
                if not await self._inject(turn):
                    step = table.step(self.state, Role.GUARD, Order.STOP)
            elif order is Order.LIFT:
                self.write("lift_ordered", window=self._window, by=by, why=why)
            elif order is Order.STOP:
                self.write("stop_ordered", by=by, why=why)
            if step.state is State.STOPPING:
                self.why = self.why or why
                self._stop_why = self._stop_why or why
                self.folder.drop_ballast()
                if self._traffic is not None:
                    self._traffic.no_more()
            if Effect.LIFT in step.effects:
                await self._lift()
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
        if self._injected:  # whether the agent is well between two windows is the course's to see
            return turn
        tally = self._traffic.tally if self._traffic is not None else None
        if tally is None or tally.done == 0:
            raise Refused(
                "baseline",
                found="no request that has ended",
                wanted="a healthy baseline before anything is injected",
                remedy="wait for the first answers" if role is Role.LEAD else "lengthen phases.baseline_s",
            )
        ratio = tally.failed / tally.done
        if ratio > self._max_baseline_failed_ratio:
            words = ", ".join(f"{n} {word}" for word, n in tally.by_outcome.most_common(4))
            raise Refused(
                "baseline",
                found=f"{tally.failed} of {tally.done} failed with nothing injected ({words})",
                wanted=f"a share of at most {self._max_baseline_failed_ratio:g}",
                remedy="mend the agent or its real endpoint, see that it answers, and run again",
            )
        return turn

    async def _inject(self, turn: Turn) -> bool:
        self._injected = True  # from here on nobody may take it for off
        try:
            await self.proxy.inject(turn.window, turn.rules, ttl_s=TTL_S, linger_s=turn.linger_s)
        except InjectorLost as lost:
            self.why = f"the injection failed: {lost.why}"
            return False
        return True

    async def _lift(self) -> None:
        for _ in range(2 if self._injected else 0):
            try:
                await self.proxy.lift(self._window, "ordered")
            except InjectorLost as lost:
                self.write("lift_failed", window=self._window, why=lost.why)
            else:
                return
        if self._injected:
            self._progress.line(f"the proxy does not answer; without renewals its fault ends within {TTL_S:g} s")

    def _enter(self) -> None:
        """Begin what the state asks for."""
        now_ns = self._clock.mono_ns()
        turn = self._turn
        match self.state:
            case State.BASELINE:
                self._traffic = self._make_traffic(now_ns)
                self._watch.users_begin()
                self._spawn(self._run_traffic(self._traffic))
                baseline_s = self.plan.phases.baseline_s
                self._phase("baseline", baseline_s, BY_HAND_WAIT_S if self._by_hand else baseline_s)
            case State.INJECTED:
                assert self._traffic is not None and turn is not None
                self._at_injection = dict(self._traffic.tally.by_outcome)
                self._phase("fault", turn.fault_s, 2 * turn.fault_s if self._by_hand else turn.fault_s)
                if turn.told:
                    self._progress.line(turn.told)
                else:
                    self._progress.injected(rfc3339(self._clock.wall_ns(), digits=3), turn.fault)
                self._spawn(self._renew(turn))
            case State.RECOVERY:
                assert turn is not None
                self._phase("recovery", turn.recovery_s, turn.recovery_s)
                if self._course.asks_notes:
                    self._progress.line("fault lifted. Scribe: drillmaster note window_ended")
                before = [task for task in self._owed if not task.done()]
                self._owed = [*before, self._spawn(self._prove_gone(turn)), self._spawn(self._record_code("lift"))]
            case State.DRAINING:
                self._phase("drain", self.plan.traffic.time_limit_s, None)
        if self.state in (State.RECOVERY, State.DRAINING, State.INJECTED):
            self._spawn(asyncio.to_thread(self._logs.sync))  # off the loop: a slow disk must not make users wait

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
            self._give_up(f"evidence cannot be written: {error}")
            return False
        return True

    def _give_up(self, why: str) -> None:
        """Stop the drill from where nobody can wait for it. In the end it is the state alone that changes."""
        self._stop_why = self._stop_why or why
        if not self._ending:
            self._spawn(self.stop(why))
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
            self._give_up(f"evidence cannot be written: {error}")
            raise
        self._changed.set()
        self._progress.line(said)

    # -- the walk

    async def walk(self) -> tuple[Exit, str]:
        """Do the whole drill. Raises Problem where the pre-flight refused it; what there is has been written then."""
        server = await control.serve(self._seats.control, self._told)
        self._signals = EndingSignals(self._on_signal)
        self._watch.begin()
        self._pulse = Pulse(asyncio.get_running_loop(), self._beat, period_s=BEAT_S)
        try:
            self._pins.hold("manifest.json", "timeline.jsonl", *(f"events/{n}.jsonl" for n in _WRITERS))
            self.write("drill_started", run=self.folder.run, drill=self.plan.drill, service=self.plan.service)
            await self._until_stopped(self._get_ready())
            if self.state is State.PREPARING:
                await self.order(Role.LEAD, Order.START, by=self._lead, why="pre-flight passed")
                self._spawn(self._tick())
                self._spawn(self._watch_spend())
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
        return self._problem if self._traffic is None else None

    @property
    def _lead(self) -> str:
        return self.plan.seats.names()["lead"] or "nobody named"

    async def _get_ready(self) -> None:
        await self._record_code("start")
        await self.start_proxy()
        await self._prepare(self)

    async def start_proxy(self) -> None:
        """Start the proxy and watch it. Raises Problem."""
        self.write("proxy_started", pid=await self.proxy.start())
        self._spawn(self._watch_proxy())
        self._pins.hold("events/proxy.jsonl")

    async def proxy_counts(self) -> dict[str, Any]:
        """What the proxy counted so far. Raises Refused where it does not answer."""
        counts: dict[str, Any] = (await self._proxy_state()).get("counts", {})
        return counts

    async def requests_spent(self) -> int:
        return requests_spent(await self._proxy_state())

    async def _proxy_state(self) -> dict[str, Any]:
        try:
            return await self.proxy.state()
        except InjectorLost as lost:
            log = self.folder.path / "proxy.log"
            raise Refused("the proxy", found=lost.why, wanted="its counts", remedy=f"see {log}") from None

    async def worker_said(self) -> tuple[str, ...]:
        """The last lines of a worker that the drill started, told to the person too."""
        said = () if self.worker is None else await self.worker.said()
        for line in said:
            self._progress.line(f"the agent printed: {line}")
        return said

    async def start_worker(self, argv: tuple[str, ...]) -> None:
        """Start the worker and watch it. Raises Problem."""
        assert self.worker is not None
        pid = await self.worker.start()
        self.worker_alive = True
        self.write("worker_started", pid=pid, argv=screen_argv(argv))
        self._watching = self._spawn(self._watch_worker())

    async def restart_worker(self) -> bool:
        """End the worker, if it is still there, and start it anew; False where that is not ours to do, or fails."""
        if self.worker is None or self.plan.worker is None or self._ending:
            return False
        self._replacing = True
        try:
            await self.worker.stop()
            if self._watching is not None:
                await asyncio.wait((self._watching,), timeout=OWED_S)
            await self.start_worker(self.plan.worker.cmd)
        except Problem as problem:
            self._progress.line(str(problem))
            return False
        finally:
            self._replacing = False
        return True

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
        return None if self._traffic is None else self._traffic.tally

    async def pause(self, seconds: float) -> bool:
        """Let time pass; False when somebody stopped the drill meanwhile."""
        before = self.state
        await self._wait(lambda: self.state is not before, at_most_s=seconds)
        return self.state is before

    async def _drain(self) -> None:
        """Wait for the requests under way, and a little for the Scribe."""
        assert self._traffic is not None
        self._traffic.no_more()
        patience_s = self.plan.traffic.time_limit_s + 2
        await self._wait(lambda: self._traffic_over or self.state is not State.DRAINING, at_most_s=patience_s)
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
            self._give_up(self._stop_why)
        for what, step in (
            ("the lift", self._end_fault),
            ("the worker's end", self._end_worker),
            ("the proxy's end", self._end_proxy),
            ("the record of the code", lambda: self._record_code("end")),
            ("the evidence", self._end_evidence),
        ):
            try:
                await step()
            except Exception as error:  # noqa: BLE001  # whatever it is: the steps after it matter more
                self._give_up(f"{what}: {error if isinstance(error, Problem) else f'{type(error).__name__}: {error}'}")
        self.folder.drop_ballast()
        status = "completed" if self.state is State.DRAINING else "aborted"
        self.write("drill_ended", status=status, why=self.why)
        try:
            self._logs.sync()
            missing = self._pins.complaint()
        except _EVIDENCE_TROUBLE as error:
            missing = str(error)
        if missing is not None:
            self._give_up(missing)

    async def _end_fault(self) -> None:
        if self.state is State.STOPPING and self._injected:
            await self.proxy.lift(self._window, "ordered")  # once more: the order that stopped us may have failed to

    async def _end_worker(self) -> None:
        if self.worker is None:
            return
        await self.worker.stop()
        if self.worker_alive:
            self.worker_alive = False
            self.write("worker_exited", pid=self.worker.pid, code=await self.worker.wait(), expected=True)

    async def _end_proxy(self) -> None:
        pid = self.proxy.pid
        if pid is None:
            return
        if self.leaves_proxy and (self._traffic is not None or self._took_over):
            self.left_proxy = pid
            lost = (await self.proxy.state()).get("counts", {}).get("evidence_lost")
            if lost:
                self._give_up(f"the proxy could not write {lost} lines of evidence")
            return
        code = await self.proxy.quit()
        self.write("proxy_exited", pid=pid, code=code, expected=True)
        if code != 0:
            self._give_up(f"the proxy ended with {_how(code)}: lines of its evidence may be lost")

    async def _end_evidence(self) -> None:
        why = self._pins.complaint()
        if why is not None:
            self._give_up(why)
            return
        await asyncio.to_thread(self._collect)

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

    def _spawn(self, doing: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
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

    async def _run_traffic(self, traffic: Traffic) -> None:
        await traffic.run()
        self._traffic_over = True
        self._changed.set()

    async def _renew(self, turn: Turn) -> None:
        while True:
            await asyncio.sleep(RENEW_S)
            if self.state is not State.INJECTED or self._turn is not turn:
                return
            try:
                if await self.proxy.renew(turn.window, ttl_s=TTL_S):
                    continue
            except InjectorLost:
                continue  # the next one may get through; the ticker counts silence
            if self._is(State.INJECTED) and self._turn is turn:
                await self.stop("the fault ended before its lift: it was not renewed in time")

    def _is(self, state: State) -> bool:
        """Look again: while we waited for something, somebody may have ordered."""
        return self.state is state

    async def _prove_gone(self, turn: Turn) -> None:
        """After the lift, ask through the proxy until it passes, and write down what was seen."""
        give_up_ns = self._clock.mono_ns() + round((turn.linger_s + 10) * 1e9)
        while True:
            status, seen, _ = await probe_proxy(self._proxy_url, within_s=5)
            mode = "unknown"
            with contextlib.suppress(InjectorLost):
                mode = str((await self.proxy.state()).get("mode"))
            gone = status is not None and mode == "pass"
            if gone or self._clock.mono_ns() >= give_up_ns:
                self.write("fault_gone", window=turn.window, gone=gone, why=f"mode {mode}, the probe got {seen}")
                return
            await asyncio.sleep(0.2)

    async def _watch_proxy(self) -> None:
        starts = 0
        while True:
            pid = self.proxy.pid
            code = await self.proxy.wait()
            if self._ending:
                return
            self.write("proxy_exited", pid=pid, code=code, expected=False)
            how = _how(code)
            self._progress.line(f"the proxy ended by itself ({how}); starting it again, passing through")
            starts += 1
            if starts < _MAX_PROXY_STARTS:
                try:
                    self.write("proxy_started", pid=await self.proxy.start())
                except Problem as problem:
                    self._progress.line(str(problem))
            await self.stop(f"the proxy ended by itself ({how}): the evidence has a hole")
            if starts >= _MAX_PROXY_STARTS:
                return

    async def _watch_worker(self) -> None:
        assert self.worker is not None
        code = await self.worker.wait()
        self.worker_alive = False
        self.write("worker_exited", pid=self.worker.pid, code=code, expected=self._replacing)
        if self._replacing:
            return
        if self.worker.keeper_lost:
            await self.stop("the worker's keeper was killed: what the worker had started was ended with it")
            return
        self._progress.line(f"the worker ended by itself ({_how(code)})")

    async def _tick(self) -> None:
        """Once a second: the clock on record, the stop conditions, the screen, the stand-in Scribe."""
        while True:
            self.write("clock")
            assert self._traffic is not None
            why = await self._watch.look(self.state, self._traffic.tally)
            if why is not None:
                await self.stop(why)
            self._forewarn()
            self._show()
            await asyncio.sleep(TICK_S)

    def _forewarn(self) -> None:
        """Say in the baseline, once it has shown how the agent asks, that the fault would let it pass."""
        turn = self._course.by_hand
        ready = (
            self.state is State.BASELINE and self._traffic is not None and self._traffic.tally.done >= SHOWN_REQUESTS
        )
        if ready and turn is not None and not self._forewarned:
            self._forewarned = True
            for warning in forewarnings(turn.rules, Tail(self.folder.events / "proxy.jsonl").rows()):
                self._progress.line(warning)

    def _show(self) -> None:
        if self._traffic is None:
            return
        tally = self._traffic.tally
        left_s = None
        if self._phase_ends_ns is not None and not (self._by_hand and self._phase_name in ("baseline", "fault")):
            left_s = (self._phase_ends_ns - self._clock.mono_ns()) / 1e9
        self._progress.tick(self._phase_name, left_s, tally.by_outcome, tally.in_flight)
        if self._scribe is not None:
            since = (
                {w: n - self._at_injection.get(w, 0) for w, n in tally.by_outcome.items()} if self._at_injection else {}
            )
            scene = Scene(state=self.state, since_injection=since, run_dir=self.folder.path)
            self._scribe(scene, lambda kind, text: self.note(kind, text, self.plan.seats.names()["scribe"]))

    def _beat(self, passed: int) -> None:
        why = self._watch.beat(passed, self.state)
        if why is not None:
            self._give_up(why)

    async def _watch_spend(self) -> None:
        while self.plan.spend is not None:
            why = await self._watch.spent()
            if why is not None:
                await self.stop(why)
            await asyncio.sleep(SPEND_S)

    # -- people and signals

    async def _told(self, asked: Asked) -> Told:
        """Answer an order from another terminal. Raises Problem."""
        role = self._seats.role(asked.token)
        if role is None:
            raise Refused(
                f"order {asked.order}",
                found="a token of no seat of this run",
                wanted=f"the {table.owner(Order(asked.order) if asked.order != 'state' else Order.STOP).capitalize()}'s token",
                remedy=f"name its file: --token-file {self._seats.folder}/lead.token",
            )
        if self._ending:
            raise Refused(
                f"order {asked.order}",
                found="a drill that is over",
                wanted="a live one",
                remedy="nothing is left to order",
            )
        if asked.order == "state":
            return Told(done=True, state=self.state)
        order = Order(asked.order)
        name = self.plan.seats.names()[role] or role
        by, why = shown(asked.by), shown(asked.text)
        if order is Order.NOTE:
            table.step(self.state, role, order)
            if asked.kind not in NOTE_KINDS:
                raise Refused(
                    "note", found=asked.kind[:40], wanted=f"one of {', '.join(NOTE_KINDS)}", remedy="write `other`"
                )
            self.note(asked.kind, asked.text, asked.by or name, asked.seen_at)
            return Told(
                done=True, state=self.state, text=f"noted {asked.kind} at {rfc3339(self._clock.wall_ns(), digits=3)}"
            )
        # An order is not to fail for a long reason.
        state = await self.order(role, order, by=by[:MAX_NAME_CHARS] or name, why=why[:MAX_NOTE_CHARS] or "ordered")
        if order is Order.INJECT and state is not State.INJECTED:
            raise Refused(
                "inject", found=self.why, wanted="a fault that is on", remedy=f"see {self.folder.path}/proxy.log"
            )
        return Told(done=True, state=state, text=f"{order} done at {rfc3339(self._clock.wall_ns(), digits=3)}")

    def _on_signal(self, name: str) -> None:
        if self._ending or self.state is State.STOPPING:
            self._progress.line(f"{name}: on its way out already")
            return
        self._progress.line(f"{name}: lifting the fault, sealing what there is")
        self._give_up(f"{name}: somebody ended the drill")


def _how(code: int | None) -> str:
    """How a process ended, in words."""
    if code is None:
        return "its keeper was killed"
    if code < 0:
        with contextlib.suppress(ValueError):
            return signal.Signals(-code).name
    return f"exit {code}"
