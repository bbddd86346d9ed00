"""One interview, from a plan that was checked to the seal: idle, cold call, ladder, open stages, drain."""

import contextlib
import os
import shutil
import signal
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from drillmaster.clock import Clock, SystemClock, rfc3339
from drillmaster.engines import Address, Spec
from drillmaster.errors import Exit, Problem, Refused
from drillmaster.intake.runs import short
from drillmaster.intake.written import write_new
from drillmaster.ladder import InterviewPlan, LoadPermit, Step
from drillmaster.ladder.checking import Place, check, support
from drillmaster.load.driving import Drive
from drillmaster.load.hopeless import found_of, remedy_of
from drillmaster.load.idle import Neighbours
from drillmaster.load.manifest import COLD, EVENTS, LADDER, part
from drillmaster.load.preparing import LoadOptions, Ready, look_up, reach, ready_for, room_for, target_lock
from drillmaster.load.process import Ended, LeftToWorkers, Processes, RemoteTeam, Team
from drillmaster.load.recording import manifest_of
from drillmaster.load.rows import Row, file_text, row_of, row_text
from drillmaster.load.sharing import shared
from drillmaster.load.tally import StepTally, Tail
from drillmaster.run.folder import Folder, make_folder
from drillmaster.run.progress import Step as Shown
from drillmaster.run.seats import Live, started_ticks, sweep
from drillmaster.timeline import Writer, seal_run
from drillmaster.timeline.opening import complaint

__all__ = ["LoadOptions", "LoadResult", "conduct"]

LOOK_EVERY_S = 0.25
SILENT_S = 30.0
"""An engine says something four times a second; one that is silent for so long is stuck."""
OF_A_TEAM = frozenset({"worker_clock", "worker_lost", "worker_late"})


class LoadResult(msgspec.Struct, frozen=True, kw_only=True):
    """Where the run lies, and `Exit.PASS` where all of it was measured, `Exit.ABORTED` and why where it was stopped."""

    run_dir: Path
    exit: Exit
    why: str
    rows: tuple[Row, ...]
    out: Path | None
    """None: it could not be written."""


class _Stop(Exception):
    """The run ends here, and why."""


def conduct(
    plan: InterviewPlan,
    place: Place,
    options: LoadOptions,
    *,
    clock: Clock | None = None,
    environ: Mapping[str, str] = os.environ,
    team: RemoteTeam | None = None,
) -> LoadResult:
    """Do a whole interview. Raises Problem where it is refused, before anything is sent or after the cold call.

    `team`: engines elsewhere; None: as many as the plan says, here.
    """
    clock = clock or SystemClock()
    problems = check(
        plan, place=place, wall_ns=clock.wall_ns(), rehearsal=options.rehearsal, permit_host=options.permit_host
    )
    for problem in problems[1:]:
        options.progress.line(str(problem))
    if problems:
        raise problems[0]
    ready = ready_for(plan, place, options, environ if team is None else LeftToWorkers())
    cores = len(os.sched_getaffinity(0))
    if team is None and plan.processes > max(1, cores):
        options.progress.line(
            f"{plan.processes} engines share {cores} core{'s' * (cores > 1)}: what they wait for each other is in what they "
            "measure, and voids a level where it shows; take as many as there are cores"
        )
    room_for(ready, options, engines=plan.processes if team is None else team.size)
    for line in support(plan, options.wanted):
        options.progress.line(line)
    if options.confirm is not None:
        options.confirm()
    addresses = look_up(ready)
    lock = target_lock(ready, addresses)
    try:
        sweep()
        if team is not None:
            team.assemble(ready, addresses, options.progress.line)
        chosen, our_port = reach(ready, addresses)
        folder = make_folder(options.runs, clock)
        ordered = (chosen, *(one for one in addresses if one != chosen))
        run = _Run(ready, options, folder, clock, ordered, our_port, team or Processes(plan.processes))
        lock.note(_live(folder, ready, addresses))
        try:
            return run.whole()
        finally:
            lock.clear()
    finally:
        if team is not None:
            team.close()
        lock.close()


def _live(folder: Folder, ready: Ready, addresses: tuple[str, ...]) -> Live:
    return Live(
        run=folder.run,
        run_dir=str(folder.path),
        pid=os.getpid(),
        started=started_ticks(os.getpid()) or 0,
        control="",
        proxy_control="",
        listen="",
        target=f"target {addresses[0]}:{ready.port}",
    )


class _Run:
    """One run that has a folder."""

    def __init__(
        self,
        ready: Ready,
        options: LoadOptions,
        folder: Folder,
        clock: Clock,
        addresses: tuple[str, ...],
        our_port: int,
        team: Team,
    ) -> None:
        self._ready = ready
        self._plan = ready.plan
        self._options = options
        self._folder = folder
        self._clock = clock
        self._addresses = addresses
        self._our_port = our_port
        self._team = team
        self._progress = options.progress
        self._tls_failed = ""
        self._writer = Writer(folder.path / EVENTS, clock, folder.mono0_ns)
        self._tallies = {
            step.label: StepTally(ready.plan.timeout_s, batch=step.kind == "drain") for step in ready.steps
        }
        self._rows: list[Row] = []
        self._signal: str | None = None
        self._status, self._why = "aborted", "an internal error"  # until it is known better
        self._disk_s = 0.0
        self._sent: Counter[int] = Counter()
        """How much was sent in each second of the run, or in the time of one permitted call where that is longer."""

    def whole(self) -> LoadResult:
        """Walk, and seal on every way out. Raises the refusal that came after the cold call."""
        folder = self._folder
        folder.write_manifest(
            manifest_of(
                self._ready,
                folder,
                self._team,
                self._addresses,
                base=self._options.base,
                plan_file=self._options.plan_file,
                runs=self._options.runs,
            )
        )
        self._progress.line(f"run {folder.run}  in {folder.path}")
        with self._heard():
            try:
                refused = self._way_out()
            finally:
                text, unsealed = self._keep()
        if refused is not None:
            self._progress.line(f"what was measured is sealed: {short(folder.path)}")
            raise refused
        out = self._write_out(text) if self._rows else None
        lost = self._rows and out is None
        why = "; ".join(
            filter(
                None,
                (self._why, unsealed, f"{self._options.out or 'interview.json'} could not be written" if lost else ""),
            )
        )
        if "drain" in self._tallies and not why:
            drain = self._tallies["drain"]
            self._progress.line(f"the batch of {drain.n} was drained in {drain.seconds:.3f} s")
        return LoadResult(
            run_dir=folder.path,
            exit=Exit.ABORTED if why else Exit.PASS,
            why=why,
            rows=tuple(self._rows),
            out=out,
        )

    def _way_out(self) -> Problem | None:
        """Walk; `_status` and `_why` say how it ended. The refusal, where that is how."""
        try:
            self._walk()
        except _Stop as stop:
            self._status, self._why = "aborted", str(stop)
        except Refused as refused:
            self._status, self._why = "refused", str(refused)
            return refused
        except Problem as problem:
            self._status, self._why = "aborted", str(problem)
        except OSError as error:
            self._status, self._why = "aborted", f"evidence could not be written: {complaint(error)[0]}"
        else:
            self._status, self._why = "completed", ""
        return None

    def _keep(self) -> tuple[str, str | None]:
        """Put the last line, the rows and the seal on the disk; the rows as text, and why there is no seal."""
        self._folder.drop_ballast()
        with contextlib.suppress(Problem):
            self._writer.write("load_ended", status=self._status, why=self._why)
        self._writer.close()
        text = self._file_text()
        if self._rows:
            with contextlib.suppress(Problem):
                write_new(self._folder.path / "interview.json", text)
        return text, self._seal()

    # The walk

    def _walk(self) -> None:
        """All steps. Raises _Stop, Refused, or what a disk does."""
        ready, writer = self._ready, self._writer
        writer.write("load_started", run=self._folder.run, drill="interview", job=self._plan.job)
        for step in ready.steps:
            writer.write(
                "stage_planned",
                stage=step.label,
                kind=step.kind,
                callers=step.callers,
                calls=step.calls,
                seconds=step.seconds if step.arrivals is None else step.arrivals.seconds,
            )
        writer.write("target_reached", address=self._addresses[0], port=ready.port)
        self._idle()
        cold, *others = ready.steps
        self._drive((cold,), COLD, engines=1, first_call=0)
        self._can_it_work()
        self._drive(tuple(others), LADDER, engines=self._team.size, first_call=1)

    def _idle(self) -> None:
        """Send nothing, and look who else does."""
        idle_s = self._plan.idle_s
        neighbours = Neighbours(self._addresses[0], self._ready.port, ours=self._our_port)
        self._writer.write("idle_started", planned_s=idle_s)
        self._say(f"idling {idle_s:g}s for a cold probe...")
        self._progress.phase("idle", idle_s)
        begun_s = time.monotonic()
        while (left_s := begun_s + idle_s - time.monotonic()) > 0:
            time.sleep(min(LOOK_EVERY_S, left_s))
            self._look_around()
            neighbours.look()
            self._progress.tick("idle", left_s, {"others": neighbours.seen().new}, 0)
        seen = neighbours.seen()
        self._writer.write(
            "idle_ended",
            idle_s=round(time.monotonic() - begun_s, 3),
            sent=0,
            proven=seen.proven,
            why=seen.why,
            connections_new=seen.new,
            connections_standing=seen.standing,
        )
        if seen.proven is not True:
            self._progress.line(f"idle: {seen.why}")

    def _can_it_work(self) -> None:
        """Refuse the ladder where the cold call's answer says that every other would be the same. Raises Refused."""
        tally = self._tallies["cold"]
        if not tally.failed:
            return
        (kind,) = tally.failed
        status = tally.first_status
        remedy = remedy_of(kind, status, websocket=self._plan.target.is_websocket, tls_failed=self._tls_failed)
        if remedy is None:
            self._progress.line(f"the cold call failed: {kind}")
            return
        raise Refused(
            f"cold call to {self._ready.url}",
            found=found_of(kind, status, tls_failed=self._tls_failed),
            wanted="an answer: no ladder is run on a plan that cannot work",
            remedy=remedy,
        )

    def _drive(self, planned: tuple[Step, ...], files: tuple[str, str], *, engines: int, first_call: int) -> None:
        """Run steps in so many engines. Raises _Stop."""
        folder, ready = self._folder, self._ready
        shares = shared(planned, engines, first_call=first_call, seed=self._plan.seed, shot=ready.shot)
        specs = [
            Spec(
                to=tuple(Address(host=address, port=ready.port) for address in self._addresses),
                tls=ready.tls,
                server_name=ready.host if ready.tls else None,
                ca_file=ready.ca_file,
                shot=ready.shot,
                stages=tuple(share.stage for share in mine),
                time_limit_s=self._plan.timeout_s,
                patience=ready.patience,
                samples=str(folder.path / part(files[0], engine, engines)),
                gaps=str(folder.path / part(files[1], engine, engines)) if self._plan.target.has_words else None,
                mono0_ns=folder.mono0_ns,
                seed=self._plan.seed,
                first_call=first_call,
                together=self._team.together,
            )
            for engine, mine in enumerate(shares)
        ]
        crew = self._team.crew(specs, folder.path / "engine.log")
        drive = Drive(self._team, crew, planned, shares, [Tail(spec.samples) for spec in specs])
        why: str | None = None
        ends: Sequence[Ended] = ()
        try:
            for engine, said in enumerate(crew.said):
                self._writer.write(
                    "engine_started", **_which(engine, engines), **said, stages=[step.label for step in planned]
                )
            why = self._listen(drive)
        finally:
            if not crew.ended:
                crew.ask_to_stop()
                until_s = time.monotonic() + self._team.end_s
                while not crew.ended and time.monotonic() < until_s:
                    with contextlib.suppress(Problem):
                        self._heard_ending(drive)
            ends = crew.close(within_s=2.0)
            self._count(drive)
        for engine, end in enumerate(ends):
            self._writer.write(
                "engine_exited",
                **_which(engine, engines),
                **({} if end.pid is None else {"pid": end.pid}),
                code=end.code,
                expected=end.code == 0,
            )
        first = next((engine for engine, end in enumerate(ends) if end.code != 0), None)
        if why is None and first is not None:
            why = drive.how_it_fell(first, ends[first])
        if why is not None:
            self._partial_rows(planned)
            raise _Stop(why)

    def _listen(self, drive: Drive) -> str | None:
        """Hear engines to their ends; why they are to be stopped before, or None."""
        step: Step | None = None
        begun_s = time.monotonic()
        while not drive.crew.ended:
            for engine, said in drive.crew.hear(LOOK_EVERY_S):
                if said["event"] in OF_A_TEAM:
                    self._of_the_team(engine, said)
                    continue
                if (wrong := drive.wrong(engine, said)) is not None:
                    return wrong
                for row in drive.together.hear(engine, said):
                    self._told([row])
                    if row["event"] == "stage_ready":
                        drive.crew.begin(time.monotonic_ns() - self._folder.mono0_ns)
                    elif row["event"] == "stage_started":
                        step = drive.steps[row["stage"]]
                        begun_s = time.monotonic()
                        if step.arrivals is not None:
                            self._progress.phase(step.label, step.arrivals.seconds)
                        elif step.kind != "warmup":
                            self._progress.line(f"phase {step.label}, {step.calls} call{'s' * (step.calls > 1)}")
                    elif row["event"] == "stage_ended":
                        self._tls_failed = str(row.get("tls_failed", ""))
                        self._count(drive)
                        if (lost := drive.lost(row["stage"]) or self._too_fast()) is not None:
                            return lost
                        self._row(drive.steps[row["stage"]], row["wall_s"])
                    elif row["event"] == "progress" and step is not None and row["stage"] == step.label:
                        self._count(drive)
                        self._tick(step, row, time.monotonic() - begun_s)
                        if (why := self._too_fast()) is not None:
                            return why
            try:
                self._look_around()
            except _Stop as stop:
                return str(stop)
            if not drive.crew.ended:
                if (fallen := drive.fallen()) is not None:
                    return self._fell(drive, fallen)
                if (silent := drive.silent(SILENT_S)) is not None:
                    return silent
        return None

    def _fell(self, drive: Drive, engine: int) -> str:
        """Why the others stop, where one engine of several has ended before its last step."""
        drive.crew.ask_to_stop()
        until_s = time.monotonic() + self._team.end_s
        while not drive.crew.ended and time.monotonic() < until_s:
            self._heard_ending(drive)
        end = drive.crew.close(within_s=2.0)[engine]
        return f"{drive.how_it_fell(engine, end)}; the others were stopped"

    def _heard_ending(self, drive: Drive) -> None:
        """Hear engines that were told to stop."""
        for engine, said in drive.crew.hear(0.2):
            if said["event"] in OF_A_TEAM:
                self._of_the_team(engine, said)
            elif drive.wrong(engine, said) is None:
                self._told(drive.together.hear(engine, said))

    def _of_the_team(self, engine: int, said: Mapping[str, Any]) -> None:
        """Put on record what a team says of its members; one that came too late is none."""
        fields = dict(said)
        event = fields.pop("event")
        self._writer.write(event, **({"engine": engine + 1} if engine >= 0 else {}), **fields)
        if event == "worker_late":
            self._progress.line(f"a worker came when the run had begun, and was sent away: {said['worker']}")

    def _told(self, rows: list[dict[str, Any]]) -> None:
        """Put on record what follows from an engine's words."""
        for row in rows:
            if row["event"] in ("share_started", "stage_started", "share_ended", "stage_ended"):
                fields = dict(row)
                self._writer.write(fields.pop("event"), **fields)

    def _count(self, drive: Drive) -> None:
        permit = self._plan.target.permit
        span_ns = 0 if permit is None else round(_span_s(permit) * 1e9)
        for stage, calls in drive.new():
            self._tallies[stage].add(calls)
            if span_ns:
                self._sent.update(call[1] // span_ns for call in calls if call[1])
                self._sent.update(call[2] // span_ns for call in calls if call[14:] > (1,))  # `attempts`: sent again

    def _row(self, step: Step, wall_s: float) -> None:
        """One step ended: its row is kept and said, unless the engine was ended within it."""
        tally = self._tallies[step.label]
        seconds = step.seconds if step.arrivals is None else step.arrivals.seconds
        if (step.arrivals is not None or tally.n < step.calls) and (seconds is None or wall_s < seconds - 0.1):
            return
        row = row_of(step.label, tally)
        if step.kind == "warmup":
            if tally.failures:
                kinds = ", ".join(f"{count} {kind}" for kind, count in tally.failed.most_common())
                self._progress.line(f"warm-up of {step.callers} callers: {kinds}")
            return
        if row is not None:
            self._rows.append(row)
            self._say(row_text(row, tally))

    def _partial_rows(self, planned: tuple[Step, ...]) -> None:
        """What of the step that was under way is there: said, and in no file of rows."""
        for step in planned:
            tally = self._tallies[step.label]
            row = row_of(step.label, tally)
            if step.kind != "warmup" and row is not None and all(kept.label != step.label for kept in self._rows):
                self._say(f"PARTIAL {row_text(row, tally)}")

    def _tick(self, step: Step, said: Mapping[str, Any], spent_s: float) -> None:
        """Show how far a step is: by what engines say, since records of those elsewhere come when it is over."""
        done: int = said["done"]
        p95_s = self._tallies[step.label].p95_s() if said["p95_s"] is None else said["p95_s"]
        left_s = None
        if step.arrivals is not None:
            left_s = step.arrivals.seconds - spent_s
        elif done > 0:
            left_s = spent_s / done * max(0, step.calls - done)
        if step.seconds is not None:
            left_s = min(max(0.0, step.seconds - spent_s), step.seconds if left_s is None else left_s)
        done_ratio = None if left_s is None else spent_s / max(1e-9, spent_s + left_s)
        now = Shown(step.label, done_ratio, left_s, p95_s, said["failed"], done, said["in_flight"])
        self._progress.step(now)

    # What ends it early

    def _look_around(self) -> None:
        """Raises _Stop where somebody or something ends the run."""
        if self._signal is not None:
            raise _Stop(f"stopped by {self._signal}")
        spend = self._plan.spend
        if spend is not None and spend.max_tokens is not None:
            tokens = sum(tally.tokens for tally in self._tallies.values())
            if tokens > spend.max_tokens:
                raise _Stop(f"{tokens} tokens were spent, and the plan's cap is {spend.max_tokens}")
        if time.monotonic() - self._disk_s > 1.0:
            self._disk_s = time.monotonic()
            free_mb = shutil.disk_usage(self._folder.path).free // 1_000_000
            if free_mb < self._plan.stop.min_free_mb:
                raise _Stop(f"{free_mb} MB are free on the disk, and the plan wants {self._plan.stop.min_free_mb}")

    def _too_fast(self) -> str | None:
        """Callers call as fast as they are answered: where more was sent in one second than is permitted, they are stopped."""
        permit = self._plan.target.permit
        if permit is None:
            return None
        rate = max(self._sent.values(), default=0) / _span_s(permit)
        if rate > permit.max_per_s:
            return f"{rate:.0f} calls a second, and the permit allows {permit.max_per_s:g}: take fewer callers"
        return None

    @contextlib.contextmanager
    def _heard(self) -> Iterator[None]:
        """The signals that end a process are an order to stop, until all is sealed."""

        def heard(number: int, _: object) -> None:
            self._signal = signal.Signals(number).name

        here = threading.current_thread() is threading.main_thread()
        before = {}
        if here:
            for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
                before[number] = signal.signal(number, heard)
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    # What is kept

    def _seal(self) -> str | None:
        try:
            seal = seal_run(self._folder.path, self._clock)
        except (OSError, Problem) as error:
            again = f"drillmaster seal {short(self._folder.path)}"
            self._progress.line(f"not sealed: {error}; when that is mended: {again}")
            return "the run could not be sealed"
        self._progress.line(f"sealed  {len(seal.files)} files  head {seal.head}")
        return None

    def _file_text(self) -> str:
        return file_text(
            self._rows,
            url=self._ready.url,
            levels=",".join(map(str, self._plan.levels)),
            time_limit_s=self._plan.timeout_s,
            idle_s=self._plan.idle_s,
            ended_at=rfc3339(self._clock.wall_ns()),
            payload_sha256=self._ready.payload_sha256,
            run=self._folder.run,
        )

    def _write_out(self, text: str) -> Path | None:
        """The article's file: at the name that was given, or at one that is free. None, and said, where it cannot be."""
        named = self._options.out
        names = [named] if named is not None else [Path("interview.json"), Path(f"interview-{self._folder.run}.json")]
        for name in names:
            try:
                if write_new(name, text):
                    self._say(f"wrote {name}")
                    return name
            except Problem as problem:
                self._progress.line(
                    f"{problem}; the same file lies in the run: {short(self._folder.path)}/interview.json"
                )
                return None
        self._progress.line(
            f"{names[-1]} came meanwhile and is left as it is; the same file lies in the run: "
            f"{short(self._folder.path)}/interview.json"
        )
        return None

    def _say(self, text: str) -> None:
        if self._options.say is not None:
            self._options.say(text)


def _span_s(permit: LoadPermit) -> float:
    """In what time one call at least is permitted; a second at least."""
    return max(1.0, 1 / permit.max_per_s)


def _which(engine: int, engines: int) -> dict[str, int]:
    """Who it is, where there are several."""
    return {} if engines == 1 else {"engine": engine + 1}
