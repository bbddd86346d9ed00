"""A Friday drill, from its plan's file to the run: missions all the time, flags in the middle, somebody who listens for the alert.

1. All that can be refused is refused before a process is started: plan, matrix, registry, missions, secrets of the receivers.
2. What a row cannot answer with under this plan is said before the drill.
3. The course is one window of flags; behind the recovery the kill switch is tried, where the plan names a capability.
"""

import asyncio
import os
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from urllib.parse import urlsplit

import msgspec

from drillmaster import strict
from drillmaster.child import ChildLost
from drillmaster.clock import Clock, SystemClock, rfc3339
from drillmaster.conduct import State
from drillmaster.detectors.settings import of_section, secrets_of
from drillmaster.errors import Problem, one_line
from drillmaster.evidence import Manifest
from drillmaster.flags.settings import Settings as FlagsSettings
from drillmaster.friday.checking import check, compress, fitting_factor
from drillmaster.friday.flags import Registry, load_registry
from drillmaster.friday.plan import FridayPlan, Kill
from drillmaster.intake import format_of, is_there, read_bytes, read_strict
from drillmaster.intake.blanks import left_open, none_left_open
from drillmaster.intake.state import state_root
from drillmaster.missions.preparing import Understood, prepare, read_loads
from drillmaster.policy import pin_problems
from drillmaster.run.conductor import Conductor
from drillmaster.run.course import Stage, Turn
from drillmaster.run.crew import Told
from drillmaster.run.flagging import FlagsPart
from drillmaster.run.folder import Folder, plan_on_record, plan_text_on_record, versions
from drillmaster.run.friday_preflight import Checkup, execute_friday
from drillmaster.run.friday_rows import rows_said
from drillmaster.run.listening import ListenerPart
from drillmaster.run.mission_users import MissionsPart
from drillmaster.run.ready import Options, check_program, refuse, worker_of
from drillmaster.run.staging import RunResult, Site, carry_out, collector, take_over, worker_part
from drillmaster.run.traffic import Tally
from drillmaster.sanity import empty_seats, fill_in
from drillmaster.slo import DrillMatrix, load_matrix
from drillmaster.transcripts.covering import cover

__all__ = ["FridayReady", "conduct_friday", "prepare_friday"]

_CAP_BYTES = 1 << 20
_MAX_BASELINE_FAILED_RATIO = 0.05
"""A drill whose users fail before anything is injected shows nothing. The matrix has no limit for it."""


class FridayReady(msgspec.Struct, frozen=True, kw_only=True):
    """A plan that makes sense, with what was read beside it."""

    plan: FridayPlan
    plan_path: Path
    policy_path: Path
    policy_sha256: str
    matrix: DrillMatrix
    registry: Registry
    registry_path: Path
    understood: Understood
    stamps: tuple[str, ...]
    rehearsal: bool
    said: tuple[str, ...]
    warnings: tuple[str, ...]


def conduct_friday(plan_path: Path, options: Options, *, clock: Clock | None = None) -> RunResult:
    """Do a whole Friday drill. Raises Problem where it is refused before anything is switched."""
    clock = clock or SystemClock()
    ready = prepare_friday(plan_path, options, wall_ns=clock.wall_ns())
    check_program(ready)
    for line in (*ready.said, *(f"warning: {warning}" for warning in ready.warnings)):
        options.progress.line(line)
    if options.confirm is not None:
        options.confirm(ready.plan)
    return asyncio.run(carry_out(_FridayDrill(ready), options, clock))


def prepare_friday(
    plan_path: Path, options: Options, *, wall_ns: int, environ: Mapping[str, str] = os.environ
) -> FridayReady:
    """Read the plan and all it names, apply the options, and check what can be checked without a socket. Raises Problem."""
    place, beside = str(plan_path), plan_path.parent
    plan = _read_plan(plan_path, options)
    matrix, digest = load_matrix(
        read_bytes(beside / plan.policy, _CAP_BYTES), place=str(beside / plan.policy), fmt=format_of(plan.policy)
    )
    _check_pin(matrix, beside / plan.policy, wall_ns)
    if matrix.service != plan.service:
        raise Problem(
            f"{place}: /service",
            found=plan.service[:200],
            wanted=f"{matrix.service}, whose matrix {plan.policy} is",
            remedy="name one service in both files",
        )
    registry_path = beside / plan.flags.registry
    registry = load_registry(read_bytes(registry_path, _CAP_BYTES), place=str(registry_path))
    stamps = list(options.stamps)
    said: list[str] = []
    factor = 1.0
    if options.compress is not None:
        slowest = [row.asks.limit for row in matrix.rows if row.alert is not msgspec.UNSET]
        longest_s = max(slowest, default=None)
        factor = fitting_factor(plan, alert_s=longest_s) if options.compress == "max" else options.compress
        if factor != 1:
            plan = compress(plan, factor)
            stamps.append(f"COMPRESSED {factor:g}x")
        phases = plan.phases
        said.append(
            f"compressed {factor:g}x: baseline {phases.baseline_s:.3g} s, flags {phases.fault_s:.3g} s, recovery "
            f"{phases.recovery_s:.3g} s; ramp and arrivals as well; as many missions in flight, and every limit as it is"
        )
    understood = read_loads(plan.missions, beside, place=place, environ=environ, compressed=factor)
    files = {load.source: load.missions for load in understood.loads if hasattr(load, "missions")}
    sane = check(
        plan,
        registry,
        files,
        place=place,
        wall_ns=wall_ns,
        rehearsal=options.rehearsal,
        permit_host=options.permit_host,
    )
    refuse(sane.problems, options.progress)
    secrets_of(plan.detectors.receivers, environ)
    rehearsal = options.rehearsal or bool(empty_seats(plan.seats.names()))
    if rehearsal:
        stamps.append("REHEARSAL")
    said += understood.said
    said += [f"row {row.id}: {row.objective}, judged on {row.window}" for row in matrix.rows]
    warnings = [*sane.warnings, *rows_said(plan, registry, matrix, understood, beside=beside)]
    return FridayReady(
        plan=plan,
        plan_path=plan_path,
        policy_path=beside / plan.policy,
        policy_sha256=digest,
        matrix=matrix,
        registry=registry,
        registry_path=registry_path,
        understood=understood,
        stamps=tuple(dict.fromkeys(stamps)),
        rehearsal=rehearsal,
        said=tuple(said),
        warnings=tuple(warnings),
    )


def _read_plan(plan_path: Path, options: Options) -> FridayPlan:
    """Read a plan whose blanks are filled in, of this drill, with the command line's worker. Raises Problem."""
    raw: dict[str, object] = read_strict(plan_path, dict)
    if raw.get("kind") != "plan" or raw.get("drill") != "friday":
        found = one_line(f"kind: {raw.get('kind')}, drill: {raw.get('drill')}")[:200]
        other = raw.get("drill") if raw.get("kind") == "plan" and raw.get("drill") in ("eviction", "matrix") else None
        raise Problem(
            str(plan_path),
            found=found,
            wanted="a plan of a Friday drill (`kind: plan`, `drill: friday`)",
            remedy=f"drillmaster run {other} {plan_path}" if other else "drillmaster init friday writes one",
        )
    files = {plan_path: left_open(raw, "friday", "plan")}
    named = raw.get("policy", "drill-matrix.yaml")
    policy_path = plan_path.parent / named if isinstance(named, str) else None
    if policy_path is not None and is_there(policy_path):
        files[policy_path] = left_open(read_strict(policy_path, dict), "friday", "matrix")
    none_left_open(files, options.progress.line)
    plan = read_strict(plan_path, FridayPlan)
    if options.cmd is not None:
        plan = msgspec.structs.replace(
            plan, worker=worker_of(plan.worker, options.cmd), timeline=None, transcripts=None
        )
    if options.timeline is not None:
        plan = msgspec.structs.replace(plan, timeline=str(options.timeline.absolute()))
    return plan


def _check_pin(matrix: DrillMatrix, path: Path, wall_ns: int) -> None:
    for field, found, wanted in pin_problems(matrix.pin, now_ns=wall_ns):
        raise Problem(
            f"{path}: /{field}",
            found=found,
            wanted=wanted,
            remedy=f"have the matrix's owner ({matrix.owner.strip() or 'nobody yet'}) mend {field}; the gate would refuse the run",
        )


class _Course:
    """One window of flags, and behind the recovery the kill switch."""

    asks_notes = False
    by_hand = None

    def __init__(self, plan: FridayPlan, flags: FlagsPart) -> None:
        self._plan = plan
        self._flags = flags

    async def next(self, stage: Stage) -> Turn | None:
        plan = self._plan
        if stage.state is State.BASELINE:
            names = ", ".join(one.flag for one in plan.flags.on)
            return Turn(
                window="w1",
                fault=names,
                told=f"flags are on: {names}",
                rules=plan.flags.on,
                fault_s=plan.phases.fault_s,
                recovery_s=plan.phases.recovery_s,
                linger_s=plan.flags.lease_s,
            )
        if plan.kill is not None and stage.state is State.RECOVERY:
            await self._kill(stage, plan.kill)
        return None

    async def _kill(self, stage: Stage, kill: Kill) -> None:
        stage.say(f"kill switch: {kill.capability} for {kill.for_s:g} s")
        if not stage.write("kill_ordered", capability=kill.capability):
            return
        try:
            await self._flags.switch("kill", kill.capability)
            await stage.pause(kill.for_s)
        except ChildLost as lost:
            stage.say(f"the kill switch: {lost.why}")
        finally:
            await self._restore(stage, kill.capability)

    async def _restore(self, stage: Stage, capability: str) -> None:
        stage.write("restore_ordered", capability=capability)
        for _ in range(2):
            try:
                await self._flags.switch("restore", capability)
            except ChildLost as lost:
                why = lost.why
            else:
                return
        stage.say(
            f"{capability} was not restored ({why}); when the server is back: drillmaster flags restore {capability}"
        )


class _FridayDrill:
    """What a Friday drill brings to its run."""

    traffic = False
    socket = "flags"

    def __init__(self, ready: FridayReady) -> None:
        self._ready = ready
        self.plan = ready.plan
        self.plan_path = ready.plan_path
        self.policy_path: Path | None = ready.policy_path
        self.rehearsal = ready.rehearsal
        self.target_url = ready.plan.target.url
        self.permitted = ready.plan.target.permit is not None
        self.listens = (ready.plan.flags.listen, "/flags/listen")

    @property
    def own_timeline(self) -> Path | None:
        return None if self.plan.timeline is None else self.plan_path.parent / self.plan.timeline

    def on_record(self, text: str) -> str:
        return plan_text_on_record(text, self.plan)

    def manifest(self, site: Site, code: Mapping[str, str | None]) -> Manifest:
        plan, ready, folder = self.plan, self._ready, site.folder
        permit, record = plan.target.permit, plan_on_record(plan)
        return Manifest(
            run=folder.run,
            drill="friday",
            service=plan.service,
            started_at=rfc3339(folder.wall0_ns, digits=9),
            mono0_ns=str(folder.mono0_ns),
            seed=plan.seed,
            plan=record,
            plan_sha256=str(code["plan_sha256"]),
            policy_file=str(ready.policy_path),
            policy_sha256=ready.policy_sha256,
            payload_sha256=strict.digest(
                {"url": record["target"]["url"], "loads": sorted(load.sha256 for load in ready.understood.loads)}
            ),
            versions=versions(),
            seats=plan.seats.names(),
            stamps=ready.stamps,
            code=None if code["commit"] is None else {"commit": code["commit"], "dirt_sha256": code["dirt_sha256"]},
            permission={} if permit is None else msgspec.to_builtins(permit),
            phases=msgspec.structs.asdict(plan.phases),
            fault={
                "tag": "flags",
                "params": {},
                "on": record["flags"]["on"],
                "kill": record["kill"],
                "linger_s": plan.flags.lease_s,
            },
            time_limit_s=plan.missions.time_limit_s,
            every_s=plan.traffic.every_s,
        )

    def conductor(self, site: Site, code: Callable[[], dict[str, str | None]]) -> Conductor:
        plan, ready, folder, clock = self.plan, self._ready, site.folder, site.clock
        (folder.path / "flags.yaml").write_bytes(read_bytes(ready.registry_path, _CAP_BYTES))
        transcripts = self._transcripts(folder)
        flags = self._flags_part(site)
        listener = self._listener_part(site)
        missions = self._missions_part(site)
        checkup = Checkup(
            plan=plan,
            place=str(ready.plan_path),
            attest=not ready.rehearsal and "DEMO" not in ready.stamps,
            understood=ready.understood,
            folder=folder,
            transcripts=transcripts,
            wants_transcripts=any(row.measure == "replay_availability" for row in ready.matrix.rows),
            descriptors=site.soft_limit,
            addresses=site.addresses,
            flags_url=site.url,
            kills_path=self._kills_path(),
            agent_wait_s=site.options.agent_wait_s,
        )

        async def prepare(conductor: Conductor) -> None:
            await execute_friday(checkup, flags, listener, conductor, clock=clock)

        return Conductor(
            plan,
            folder,
            site.seats,
            site.logs,
            injector=flags,
            parts=(listener, missions),
            worker=worker_part(
                plan.worker, site, beside=self.plan_path.parent, env=lambda: self._agents_env(site, transcripts)
            ),
            course=_Course(plan, flags),
            users=missions.users,
            prepare=prepare,
            code=code,
            collect=self._collector(site, transcripts),
            max_baseline_failed_ratio=_MAX_BASELINE_FAILED_RATIO,
            clock=clock,
            progress=site.options.progress,
            place=str(ready.plan_path),
            by_hand=False,
            leaves_injector=False,
            took_over=site.took_over,
            rehearsal=ready.rehearsal,
            scribe=site.options.scribe,
        )

    def _transcripts(self, folder: Folder) -> Path:
        """Where the agent writes them: into the run, or where somebody else's agent does."""
        path = folder.path / "transcripts"
        path.mkdir()
        return path if self.plan.transcripts is None else self.plan_path.parent / self.plan.transcripts

    def _collector(self, site: Site, transcripts: Path) -> Callable[[], Told]:
        """Take timeline and transcripts over from an agent of somebody else's, and cover secrets that its writers left."""
        run_dir = site.folder.path
        own = run_dir / "transcripts"
        before = {} if transcripts == own else {path.name: path.stat().st_size for path in transcripts.glob("*.ndjson")}
        timeline = collector(self, site)

        def collect() -> Told:
            timeline()
            if transcripts != own:
                for path in sorted(transcripts.glob("*.ndjson")):
                    take_over(path, own / path.name, skip=before.get(path.name, 0))
            return {"transcripts_covered": msgspec.to_builtins(cover(run_dir))}

        return collect

    def _flags_part(self, site: Site) -> FlagsPart:
        plan, seats = self.plan, site.seats
        outside = plan.control is not None and plan.control.lead
        settings = FlagsSettings(
            registry=str(site.folder.path / "flags.yaml"),
            listen_fd=site.listener.fileno(),
            control_path=str(seats.socket("flags")),
            lead_token_file=str(seats.folder / "lead.token") if outside else None,
            kill_token_file=str(seats.further_token("kill")),
            read_token_file=str(seats.further_token("read")),
            kills_path=str(self._kills_path()),
            events=str(site.folder.events / "flags.jsonl"),
            mono0_ns=site.folder.mono0_ns,
            seed=plan.seed,
            lease_s=plan.flags.lease_s,
            owner_pid=os.getpid(),
        )
        return FlagsPart(
            settings, seats.socket("flags"), log=site.folder.path / "flags.log", env=os.environ, url=site.url
        )

    def _kills_path(self) -> Path:
        """Where kills of this service's workers at this target lie: two targets' drills know nothing of each other's."""
        service = re.sub(r"[^A-Za-z0-9]+", "-", self.plan.service)[:60]
        where = strict.digest(urlsplit(self.target_url).netloc.lower()).removeprefix("sha256:")[:12]
        return state_root() / f"kills-{service}-{where}.json"

    def _listener_part(self, site: Site) -> ListenerPart:
        control = site.seats.socket("detectors")
        settings = of_section(
            self.plan.detectors,
            events=str(site.folder.events / "detectors.jsonl"),
            mono0_ns=site.folder.mono0_ns,
            control_path=str(control),
            folder=str(self.plan_path.parent.absolute()),
            owner_pid=os.getpid(),
        )
        return ListenerPart(settings, control, log=site.folder.path / "detectors.log", env=os.environ, clock=site.clock)

    def _missions_part(self, site: Site) -> MissionsPart:
        plan, folder = self.plan, site.folder
        permit = plan.target.permit
        settings = prepare(
            self._ready.understood,
            folder.path,
            url=plan.target.url,
            seed=plan.seed,
            run=folder.run,
            mono0_ns=folder.mono0_ns,
            control=site.seats.socket("missions"),
            scratch=site.seats.folder,
            permitted=permit is not None,
            longest_s=2 * sum(msgspec.structs.astuple(plan.phases)) + (plan.kill.for_s if plan.kill else 0.0) + 60,
            max_per_s=None if permit is None else permit.max_per_s,
            max_requests=None if permit is None else permit.max_requests,
        )
        return MissionsPart(
            settings, log=folder.path / "missions.log", env=os.environ, tally=Tally(plan.stop.over_requests)
        )

    def _agents_env(self, site: Site, transcripts: Path) -> dict[str, str]:
        """The agent's environment: where flags, timeline and transcripts are, and whose run it is."""
        env = {
            **os.environ,
            "CHAOS_URL": site.url,
            "DRILL_LOG": str(site.folder.timeline),
            "DRILL_TRANSCRIPTS": str(transcripts.absolute()),
            "DRILL_RUN": site.folder.run,
        }
        worker = self.plan.worker
        return env if worker is None else env | fill_in(worker.env, env, place=f"{self.plan_path}: /worker/env")
