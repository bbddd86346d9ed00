"""From a plan's file to a run that is sealed: read, check, lock, make the folder, walk, seal, and leave nothing behind."""

import asyncio
import contextlib
import os
import shlex
import socket
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import msgspec

from drillmaster import faults, strict
from drillmaster.clock import Clock, SystemClock, rfc3339
from drillmaster.errors import Exit, Problem, Refused
from drillmaster.evidence import Manifest
from drillmaster.gates.eviction import Eviction
from drillmaster.intake import read_bytes, read_strict
from drillmaster.intake.change import change_of
from drillmaster.intake.verdicts import read_policy
from drillmaster.pace import Steady
from drillmaster.plan import Plan, Target, Worker
from drillmaster.proxy.settings import Settings
from drillmaster.run.conductor import Conductor, Logs, Scribe
from drillmaster.run.folder import Folder, make_folder, payload_sha256, plan_on_record, versions
from drillmaster.run.parts import (
    InjectorLost,
    ProxyPart,
    WorkerPart,
    bind,
    call_control,
    listen_url,
    raise_descriptor_limit,
)
from drillmaster.run.preflight import (
    PROXY_PROBE_TRACE,
    addresses_of,
    attested,
    ground,
    probe_proxy,
    reach_agent,
    reach_upstream,
    standing,
    tls_to,
)
from drillmaster.run.preflight import Line as PreflightLine
from drillmaster.run.progress import Progress, Silent
from drillmaster.run.seats import Live, Lock, open_state, started_ticks, take_lock
from drillmaster.run.seats import State as Seats
from drillmaster.run.traffic import Asker, Tally, Traffic
from drillmaster.sanity import (
    Numbers,
    check,
    compress,
    default_spend,
    fill_in,
    is_loopback,
    parse_listen,
    planned_requests,
    unnamed_seats,
)
from drillmaster.screen import screen_text
from drillmaster.timeline import Writer, chunks, seal_run

__all__ = ["Options", "Ready", "RunResult", "base_urls", "conduct", "prepare_plan"]

AGENT_WAIT_S = 600.0
"""How long a drill by hand waits for an agent that somebody starts in another terminal."""
_PLAN_CAP_BYTES = 1 << 20


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """What the command line adds to a plan."""

    runs: Path = Path("runs")
    mode: str | None = None
    cmd: str | None = None
    """The worker's command line, split as a shell splits words; no shell runs it."""
    compress: float | None = None
    rehearsal: bool = False
    by_hand: bool = False
    permit_host: str | None = None
    stamps: tuple[str, ...] = ()
    """DEMO: seats are made up, and nobody is asked to attest anything."""
    agent_wait_s: float | None = None
    """How long to wait for an agent that the drill does not start. None: not at all, by hand `AGENT_WAIT_S`."""
    progress: Progress = Silent()
    scribe: Scribe | None = None
    """A stand-in Scribe, looked in on once a second."""


class RunResult(msgspec.Struct, frozen=True):
    """Where the run lies, `Exit.PASS` when it ran to its end and is sealed, `Exit.ABORTED` and why when it was stopped."""

    run_dir: Path
    exit: Exit
    why: str
    rehearsal: bool


class Ready(msgspec.Struct, frozen=True, kw_only=True):
    """A plan that makes sense, with what was read beside it."""

    plan: Plan
    plan_path: Path
    policy_path: Path
    policy_sha256: str
    gate: Eviction
    numbers: Numbers
    stamps: tuple[str, ...]
    rehearsal: bool
    warnings: tuple[str, ...]


def prepare_plan(plan_path: Path, options: Options, *, wall_ns: int) -> Ready:
    """Read plan and policy, apply the options, and check all that can be checked without a socket. Raises Problem."""
    plan = read_strict(plan_path, Plan)
    place = str(plan_path)
    if options.mode is not None:
        params = plan.fault.params if options.mode == plan.fault.mode else {}
        plan = msgspec.structs.replace(
            plan, fault=msgspec.structs.replace(plan.fault, mode=options.mode, params=params)
        )
    if options.cmd is not None:
        plan = msgspec.structs.replace(plan, worker=_worker(plan.worker, options.cmd))
    policy_path = plan_path.parent / plan.policy
    _, gate, policy_sha256 = read_policy(policy_path)
    if gate.max_recovery_s is None:
        raise Problem(
            f"{policy_path}: /gates",
            found="max_recovery_s: null",
            wanted="seconds",
            remedy="set max_recovery_s from the runbook",
        )
    numbers = Numbers(
        max_failed_ratio=gate.max_failed_ratio,
        failed_window=gate.failed_window,
        max_fallback_s=gate.max_fallback_s,
        max_recovery_s=gate.max_recovery_s,
    )
    stamps = list(options.stamps)
    sane = check(plan, place=place, wall_ns=wall_ns, rehearsal=options.rehearsal, permit_host=options.permit_host)
    _raise_first(sane.problems, options.progress)
    faults.make(plan.fault.mode, plan.fault.params)
    if options.compress is not None and options.compress != 1:
        plan = compress(plan, options.compress, numbers)
        stamps.append(f"COMPRESSED {options.compress:g}x")
    sane = check(
        plan,
        place=place,
        wall_ns=wall_ns,
        numbers=numbers,
        rehearsal=options.rehearsal,
        permit_host=options.permit_host,
    )
    _raise_first(sane.problems, options.progress)
    warnings = sane.warnings
    if plan.spend is None:
        plan = msgspec.structs.replace(plan, spend=default_spend(plan))
        assert plan.spend is not None
        warnings += (
            f"the plan names no spend: the drill stops at {plan.spend.max_requests} requests to the real endpoint",
        )
    rehearsal = options.rehearsal or bool(unnamed_seats(plan))
    if rehearsal:
        stamps.append("REHEARSAL")
    return Ready(
        plan=plan,
        plan_path=plan_path,
        policy_path=policy_path,
        policy_sha256=policy_sha256,
        gate=gate,
        numbers=numbers,
        stamps=tuple(dict.fromkeys(stamps)),
        rehearsal=rehearsal,
        warnings=warnings,
    )


def _worker(before: Worker | None, cmd: str) -> Worker:
    try:
        words = tuple(shlex.split(cmd))
    except ValueError as error:
        raise Problem("--cmd", found=str(error), wanted="a command line", remedy="close the quotes") from None
    if not words:
        raise Problem("--cmd", found="nothing", wanted="a command line", remedy="write --cmd 'python agent.py'")
    return Worker(cmd=words) if before is None else msgspec.structs.replace(before, cmd=words)


def _raise_first(problems: tuple[Problem, ...], progress: Progress) -> None:
    for problem in problems[1:]:
        progress.line(str(problem))
    if problems:
        raise problems[0]


def base_urls(proxy_url: str, upstream: str) -> dict[str, str]:
    """What the worker finds in its environment. All lead to the proxy, which puts the upstream's own path in front.

    MODEL_BASE_URL stands for the upstream's URL as the plan writes it. OPENAI_BASE_URL ends in `/v1` as that SDK wants,
    unless the upstream's URL has a path already. ANTHROPIC_BASE_URL never does: that SDK adds `/v1` itself.
    """
    has_path = bool(urlsplit(upstream).path.strip("/"))
    return {
        "MODEL_BASE_URL": proxy_url,
        "OPENAI_BASE_URL": proxy_url if has_path else f"{proxy_url}/v1",
        "ANTHROPIC_BASE_URL": proxy_url,
    }


def conduct(plan_path: Path, options: Options, *, clock: Clock | None = None) -> RunResult:
    """Do a whole drill, from the plan's file to the seal. Raises Problem where it is refused before anything is hurt."""
    return asyncio.run(_conduct(plan_path, options, clock or SystemClock()))


async def _conduct(plan_path: Path, options: Options, clock: Clock) -> RunResult:
    ready = prepare_plan(plan_path, options, wall_ns=clock.wall_ns())
    plan, progress = ready.plan, options.progress
    progress.line(ready.gate.sentence())
    for warning in ready.warnings:
        progress.line(f"warning: {warning}")
    addresses = await addresses_of(plan, loopback_only=is_loopback)
    host, port = parse_listen(plan.proxy.listen) or ("", 0)
    target = urlsplit(plan.target.url)
    target_name = f"target {addresses[0]}:{target.port or (443 if target.scheme == 'https' else 80)}"
    things = [target_name] + ([f"proxy {host}:{port}"] if port else [])
    lock, left = take_lock(things)
    try:
        for before in left:
            await _clear_up(before, progress)
        listener = await bind(host, port, retry_s=3.0 if left else 0.0)
        with listener:
            return await _open(ready, options, clock, lock, listener, addresses, target_name)
    finally:
        lock.close()


async def _clear_up(before: Live, progress: Progress) -> None:
    """End the proxy that an earlier run left on our port: its conductor was killed, or it still serves a worker."""
    if started_ticks(before.pid) == before.started and before.pid != os.getpid():
        return  # alive and done with its lock: it is on its way out by itself
    with contextlib.suppress(InjectorLost):
        await call_control(Path(before.proxy_control), "POST", "/quit", {})
        progress.line(f"took over from run {before.run}; its proxy was still passing through")


async def _open(
    ready: Ready,
    options: Options,
    clock: Clock,
    lock: Lock,
    listener: socket.socket,
    addresses: tuple[str, ...],
    target_name: str,
) -> RunResult:
    plan, progress = ready.plan, options.progress
    soft_before, soft_limit = raise_descriptor_limit()
    folder = make_folder(options.runs, clock)
    seats = open_state(folder.run)
    proxy_url = listen_url(listener)
    leaves_proxy = plan.worker is None
    try:
        logs = Logs(
            *(
                Writer(folder.events / f"{name}.jsonl", clock, folder.mono0_ns)
                for name in ("conductor", "traffic", "notes")
            )
        )
        _copy_inputs(ready, folder)
        folder.write_manifest(_manifest(ready, folder, proxy_url, _code(ready, options)))
        live = Live(
            run=folder.run,
            run_dir=str(folder.path),
            pid=os.getpid(),
            started=started_ticks(os.getpid()) or 0,
            control=str(seats.control),
            proxy_control=str(seats.proxy_control),
            listen=proxy_url,
            target=target_name,
        )
        seats.write_live(live)
        lock.note(live)
        progress.line(f"run {folder.run}  in {folder.path}")
        conductor = _conductor(ready, options, clock, folder, seats, logs, listener, addresses, soft_before, soft_limit)
        try:
            exit_, why = await conductor.walk()
        finally:
            logs.close()
            _seal(conductor, folder, clock, progress)
        if not leaves_proxy:
            lock.clear()
        elif conductor.proxy.pid is not None:
            progress.line(
                f"the proxy (pid {conductor.proxy.pid}) goes on passing through on {proxy_url} for your agent, until it is "
                f"idle for 10 min; end it with `kill {conductor.proxy.pid}`"
            )
        return RunResult(folder.path, exit_, why, ready.rehearsal)
    finally:
        seats.close(keep_proxy=leaves_proxy)


def _seal(conductor: Conductor, folder: Folder, clock: Clock, progress: Progress) -> None:
    """Seal what there is. Where that fails the run is left for `drillmaster seal`, and the reason is said."""
    try:
        seal = seal_run(folder.path, clock)
    except (OSError, Problem) as error:
        progress.line(f"the run could not be sealed: {error}; later: drillmaster seal {folder.path}")
        conductor.seal_failed = True
        return
    conductor.sealed()
    progress.line(f"sealed  {len(seal.files)} files  head {seal.head}")


def _copy_inputs(ready: Ready, folder: Folder) -> None:
    """Copy plan and policy, so that the run can be judged where they no longer are.

    The policy is copied byte for byte; from another format it is written as JSON, which is YAML. The plan is screened: a
    person may have written a key into it.
    """
    for source, name in ((ready.plan_path, "plan.yaml"), (ready.policy_path, "policy.yaml")):
        data = read_bytes(source, _PLAN_CAP_BYTES)
        if source.suffix.lower() not in (".yaml", ".yml"):
            data = msgspec.json.format(msgspec.json.encode(read_strict(source, dict)), indent=2) + b"\n"
        if name == "plan.yaml":
            data = screen_text(data.decode("utf-8", "replace")).encode()
        (folder.path / name).write_bytes(data)


def _digest_file(path: Path) -> str:
    """The digest of what a file says; of its bytes where it cannot be read any more; `gone` where it is not there."""
    with contextlib.suppress(Problem):
        return strict.digest(read_strict(path, dict))
    with contextlib.suppress(Problem):
        return strict.digest_bytes(read_bytes(path, _PLAN_CAP_BYTES))
    return "gone"


def _code(ready: Ready, options: Options) -> dict[str, str | None]:
    """What the run is made with, now: commit and dirt of the worker's tree, digests of plan and policy."""
    worker = ready.plan.worker
    tree = ready.plan_path.parent if worker is None or worker.cwd is None else ready.plan_path.parent / worker.cwd
    change = change_of(tree.absolute(), exclude=[options.runs.absolute()])
    return {
        "commit": None if change is None else change.commit,
        "dirt_sha256": None if change is None else change.dirt_sha256,
        "plan_sha256": _digest_file(ready.plan_path),
        "policy_sha256": _digest_file(ready.policy_path),
    }


def _manifest(ready: Ready, folder: Folder, proxy_url: str, code: Mapping[str, str | None]) -> Manifest:
    plan = ready.plan
    permit = plan.target.permit
    return Manifest(
        run=folder.run,
        drill=plan.drill,
        service=plan.service,
        started_at=rfc3339(folder.wall0_ns, digits=9),
        mono0_ns=str(folder.mono0_ns),
        seed=plan.seed,
        plan=plan_on_record(plan),
        plan_sha256=str(code["plan_sha256"]),
        policy_file=str(ready.policy_path),
        policy_sha256=ready.policy_sha256,
        payload_sha256=payload_sha256(plan),
        versions=versions(),
        seats={"lead": plan.seats.lead, "scribe": plan.seats.scribe, "verifier": plan.seats.verifier},
        stamps=ready.stamps,
        code=None if code["commit"] is None else {"commit": code["commit"], "dirt_sha256": code["dirt_sha256"]},
        permission={} if permit is None else msgspec.to_builtins(permit),
        phases={
            "baseline_s": plan.phases.baseline_s,
            "fault_s": plan.phases.fault_s,
            "recovery_s": plan.phases.recovery_s,
        },
        fault={
            "tag": plan.fault.mode,
            "params": plan.fault.params,
            "linger_s": plan.fault.linger_s,
            "proxy": proxy_url,
        },
        time_limit_s=plan.traffic.time_limit_s,
        every_s=plan.traffic.every_s,
    )


def _conductor(
    ready: Ready,
    options: Options,
    clock: Clock,
    folder: Folder,
    seats: Seats,
    logs: Logs,
    listener: socket.socket,
    addresses: tuple[str, ...],
    soft_before: int,
    soft_limit: int,
) -> Conductor:
    plan = ready.plan
    assert plan.proxy.upstream is not None
    proxy_url = listen_url(listener)
    ca = None if plan.proxy.upstream_ca is None else ready.plan_path.parent / plan.proxy.upstream_ca
    proxy = ProxyPart(
        Settings(
            listen_fd=listener.fileno(),
            upstream=plan.proxy.upstream,
            upstream_ca=None if ca is None else str(ca),
            mode=plan.fault.mode,
            params=plan.fault.params,
            dialect=plan.proxy.dialect,
            control_path=str(seats.proxy_control),
            events=str(folder.events / "proxy.jsonl"),
            mono0_ns=folder.mono0_ns,
            seed=plan.seed,
            owner_pid=os.getpid(),
        ),
        seats.proxy_control,
        log=folder.path / "proxy.log",
        env=os.environ,
    )
    target = _with_keys(ready)
    asker = Asker(
        target,
        addresses,
        clock=clock,
        permitted=plan.target.permit is not None,
        tls=tls_to(urlsplit(plan.target.url).scheme, None),
    )

    def traffic(start_ns: int) -> Traffic:
        return Traffic(
            target,
            asker,
            logs.traffic,
            pace=Steady(start_ns=start_ns, every_ns=round(plan.traffic.every_s * 1e9)),
            time_limit_s=plan.traffic.time_limit_s,
            seed=f"{plan.seed} {folder.run}",
            clock=clock,
            mono0_ns=folder.mono0_ns,
            tally=Tally(plan.stop.over_requests),
            max_requests=_max_requests(plan, options),
        )

    async def prepare(conductor: Conductor) -> None:
        await _preflight(ready, options, clock, folder, conductor, target, asker, proxy_url, ca, soft_limit)

    return Conductor(
        plan,
        folder,
        seats,
        logs,
        proxy=proxy,
        proxy_url=proxy_url,
        worker=_worker_part(ready, folder, proxy_url, soft_before),
        traffic=traffic,
        prepare=prepare,
        code=lambda: _code(ready, options),
        max_baseline_failed_ratio=ready.gate.max_baseline_failed_ratio,
        clock=clock,
        progress=options.progress,
        place=str(ready.plan_path),
        by_hand=options.by_hand,
        leaves_proxy=plan.worker is None,
        rehearsal=ready.rehearsal,
        scribe=options.scribe,
    )


def _with_keys(ready: Ready) -> Target:
    """The target with its keys put in: for what is sent, and for no record."""
    target = ready.plan.target
    headers = fill_in(target.headers, os.environ, place=f"{ready.plan_path}: /target/headers")
    for name, value in headers.items():
        if not value.isascii() or not value.isprintable():
            raise Problem(
                f"/target/headers/{name}",
                found="a value that is no one line of ASCII",
                wanted="one",
                remedy="mend the variable",
            )
    return msgspec.structs.replace(target, headers=headers)


def _max_requests(plan: Plan, options: Options) -> int:
    """The bound on the traffic: twice what is planned by schedule; by hand what the waiting allows; the permit's cap."""
    bound = 2 * planned_requests(plan) + 10 if not options.by_hand else 1_000_000
    return bound if plan.target.permit is None else min(bound, plan.target.permit.max_requests)


def _worker_part(ready: Ready, folder: Folder, proxy_url: str, soft_limit: int) -> WorkerPart | None:
    plan = ready.plan
    if plan.worker is None:
        return None
    cwd = (ready.plan_path.parent / (plan.worker.cwd or "")).absolute()
    if not cwd.is_dir():
        raise Problem(f"{ready.plan_path}: /worker/cwd", found=str(cwd), wanted="a folder", remedy="mend cwd")
    env = {**os.environ, **base_urls(proxy_url, plan.proxy.upstream or ""), "DRILL_LOG": str(folder.timeline)}
    # An agent with a name of its own for the URL takes it from ours: `LLM_URL: ${MODEL_BASE_URL}`.
    env |= fill_in(plan.worker.env, env, place=f"{ready.plan_path}: /worker/env")
    return WorkerPart(plan.worker, cwd=cwd, env=env, log=folder.path / "worker.log", soft_limit=soft_limit)


async def _preflight(
    ready: Ready,
    options: Options,
    clock: Clock,
    folder: Folder,
    conductor: Conductor,
    target: Target,
    asker: Asker,
    proxy_url: str,
    ca: Path | None,
    soft_limit: int,
) -> None:
    """Execute the pre-flight. Raises the first refusal; all are on record."""
    plan, place = ready.plan, str(ready.plan_path)
    here = ground(folder.path, clock, wall0_ns=folder.wall0_ns, mono0_ns=folder.mono0_ns, descriptors=soft_limit)
    lines = standing(plan, here, place=place, timeline=folder.timeline)
    if not ready.rehearsal and "DEMO" not in ready.stamps:
        lines = attested(plan, place=place, wall_ns=here.wall_ns) + lines
    _record(conductor, lines)
    with _on_record(conductor, "upstream_reachable"):
        conductor.line(await reach_upstream(plan, ca=ca))
    with _on_record(conductor, "proxy_passes"):
        status, seen = await probe_proxy(proxy_url, within_s=10)
        if status is None:
            raise Refused(
                "proxy_passes",
                found=seen,
                wanted="an answer of the real endpoint",
                remedy=f"see {folder.path}/proxy.log",
            )
        conductor.line(PreflightLine(check="proxy_passes", status="pass", why=f"the real endpoint said {seen}"))
    if plan.worker is not None:
        with _on_record(conductor, "worker_starts"):
            await conductor.start_worker(plan.worker.cmd)
    else:
        conductor.say(f"the agent is yours to start, with   export MODEL_BASE_URL={proxy_url}")
        conductor.say(f"and, for its marks in the evidence, export DRILL_LOG={folder.timeline}")
    wait_s = plan.worker.ready_s if plan.worker is not None else (options.agent_wait_s or 0.0)
    if plan.worker is None and options.by_hand and options.agent_wait_s is None:
        wait_s = AGENT_WAIT_S

    async def counts() -> dict[str, Any]:
        try:
            found: dict[str, Any] = (await conductor.proxy.state()).get("counts", {})
        except InjectorLost as lost:
            raise Refused(
                "the proxy", found=lost.why, wanted="its counts", remedy=f"see {folder.path}/proxy.log"
            ) from None
        return found

    with _on_record(conductor, "target_answers"):
        for line in await reach_agent(
            msgspec.structs.replace(plan, target=target),
            asker,
            clock=clock,
            proxy_url=proxy_url,
            proxy_counts=counts,
            wait_s=wait_s,
            alive=lambda: plan.worker is None or conductor.worker_alive,
            attempts=lambda: _agents_attempts(folder),
        ):
            conductor.line(line)


def _agents_attempts(folder: Folder) -> list[Mapping[str, Any]]:
    """What the proxy wrote of the agent's own requests: all attempts but the conductor's probe of the proxy."""
    found: list[Mapping[str, Any]] = []
    for line in b"".join(chunks(folder.events / "proxy.jsonl", limit_bytes=1 << 20)).split(b"\n"):
        with contextlib.suppress(msgspec.DecodeError):
            row = msgspec.json.decode(line)
            if row.get("event") == "attempt" and not str(row.get("trace")).startswith(PROXY_PROBE_TRACE):
                found.append(row)
    return found


def _record(conductor: Conductor, lines: list[PreflightLine | Refused]) -> None:
    """Put all lines on record, then raise the first refusal."""
    refusals = []
    for line in lines:
        if isinstance(line, Refused):
            refusals.append(line)
            name = (
                line.place.rsplit("/", 1)[-1]
                if "/preflight/" not in line.place
                else line.place.split("/preflight/")[1].split("/")[0]
            )
            conductor.line(PreflightLine(check=name.split()[0], status="refused", why=str(line)))
        else:
            conductor.line(line)
    if refusals:
        raise refusals[0]


@contextlib.contextmanager
def _on_record(conductor: Conductor, name: str) -> Iterator[None]:
    """Put a refusal of this line on record on its way out."""
    try:
        yield
    except Problem as problem:
        check_name = problem.place.split()[0] if problem.place.startswith("agent_uses_proxy") else name
        conductor.line(PreflightLine(check=check_name, status="refused", why=str(problem)))
        raise
