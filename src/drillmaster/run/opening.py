"""From a plan that makes sense to a run that is sealed: lock, make the folder, walk, seal, and leave nothing behind."""

import asyncio
import contextlib
import os
import resource
import shutil
import socket
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import msgspec

from drillmaster import faults, strict
from drillmaster.clock import Clock, SystemClock, rfc3339
from drillmaster.errors import Exit, Problem
from drillmaster.evidence import Manifest
from drillmaster.intake import read_bytes, read_strict
from drillmaster.intake.change import change_of
from drillmaster.pace import Steady
from drillmaster.plan import Matrix, Plan, Target, base_urls, without_v1
from drillmaster.proxy.means import raise_descriptors
from drillmaster.proxy.settings import Settings
from drillmaster.run.child import call_control
from drillmaster.run.conductor import Conductor
from drillmaster.run.course import Course, Once
from drillmaster.run.folder import Folder, make_folder, payload_sha256, plan_on_record, plan_text_on_record, versions
from drillmaster.run.injecting import InjectorLost
from drillmaster.run.logs import Logs, open_logs
from drillmaster.run.matrix import Cells, longest_s, prepare_matrix
from drillmaster.run.parts import ProxyPart, WorkerPart, bind, listen_url
from drillmaster.run.preflight import Runway, addresses_of, agents_attempts, execute
from drillmaster.run.progress import Progress
from drillmaster.run.ready import Options, Ready, check_program, prepare_plan
from drillmaster.run.seats import Live, Lock, open_state, started_ticks, sweep, take_lock
from drillmaster.run.seats import State as Seats
from drillmaster.run.traffic import Asker, Tally, Traffic
from drillmaster.run.upstream import detour, past_proxies, tls_to
from drillmaster.sanity import fill_in, is_loopback, parse_listen, planned_requests
from drillmaster.timeline import chunks, seal_run

__all__ = ["RunResult", "conduct"]

_PLAN_CAP_BYTES = 1 << 20
MAX_COLLECTED_BYTES = 1 << 30
"""The most that is taken over of a timeline that an agent keeps elsewhere."""


class RunResult(msgspec.Struct, frozen=True):
    """Where the run lies, `Exit.PASS` when it ran to its end and is sealed, `Exit.ABORTED` and why when it was stopped."""

    run_dir: Path
    exit: Exit
    why: str
    rehearsal: bool
    policy_path: Path | None
    """The policy as it lies beside the plan: what the Verifier judges by."""


class _Site(msgspec.Struct, frozen=True, kw_only=True):
    """All that one drill is made of, before there is a conductor."""

    ready: Ready
    options: Options
    clock: Clock
    folder: Folder
    seats: Seats
    logs: Logs
    listener: socket.socket
    addresses: tuple[str, ...]
    """The target's, looked up once."""
    soft_before: int
    """The limit on descriptors as we found it: the worker gets it back."""
    soft_limit: int
    took_over: bool

    @property
    def plan(self) -> Plan:
        return self.ready.plan

    @property
    def proxy_url(self) -> str:
        return listen_url(self.listener)

    @property
    def upstream_ca(self) -> Path | None:
        ca = self.plan.proxy.upstream_ca
        return None if ca is None else self.ready.plan_path.parent / ca


def conduct(plan_path: Path, options: Options, *, clock: Clock | None = None) -> RunResult:
    """Do a whole drill, from the plan's file to the seal. Raises Problem where it is refused before anything is hurt."""
    clock = clock or SystemClock()
    prepare = prepare_plan if options.matrix is None else prepare_matrix
    ready = prepare(plan_path, options, wall_ns=clock.wall_ns())
    check_program(ready)
    limits = () if ready.numbers is None or ready.gate is None else (ready.gate.sentence(),)
    for line in (*limits, *ready.said, *(f"warning: {warning}" for warning in ready.warnings)):
        options.progress.line(line)
    # Asked outside of the event loop, which would keep a Ctrl-C to itself.
    if options.confirm is not None:
        options.confirm(ready.plan)
    return asyncio.run(_conduct(ready, options, clock))


async def _conduct(ready: Ready, options: Options, clock: Clock) -> RunResult:
    plan, progress = ready.plan, options.progress
    addresses = await addresses_of(plan, loopback_only=is_loopback)
    host, port = parse_listen(plan.proxy.listen) or ("", 0)
    target = urlsplit(plan.target.url)
    target_name = f"target {addresses[0]}:{target.port or (443 if target.scheme == 'https' else 80)}"
    lock, left = take_lock([target_name] + ([f"proxy {host}:{port}"] if port else []))
    try:
        took_over = any([await _clear_up(before, progress) for before in left])
        sweep()
        with await bind(host, port, retry_s=3.0 if took_over else 0.0) as listener:
            soft_before, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
            folder = make_folder(options.runs, clock)
            site = _Site(
                ready=ready,
                options=options,
                clock=clock,
                folder=folder,
                seats=open_state(folder.run),
                logs=open_logs(folder, clock, traffic=True),
                listener=listener,
                addresses=addresses,
                soft_before=soft_before,
                soft_limit=raise_descriptors(),
                took_over=took_over,
            )
            return await _drill(site, lock, target_name)
    finally:
        lock.close()


async def _clear_up(before: Live, progress: Progress) -> bool:
    """End the proxy that an earlier run left on our port: its conductor was killed, or it still serves an agent."""
    if started_ticks(before.pid) == before.started and before.pid != os.getpid():
        return False  # alive, and done with its lock: it is on its way out by itself
    with contextlib.suppress(InjectorLost):
        await call_control(Path(before.proxy_control), "POST", "/quit", {})
        progress.line(f"took over from run {before.run}; its proxy was still passing through")
        return True
    return False


async def _drill(site: _Site, lock: Lock, target_name: str) -> RunResult:
    folder, seats, progress = site.folder, site.seats, site.options.progress
    left_proxy = None
    try:
        _copy_inputs(site.ready, folder)
        folder.write_manifest(_manifest(site, _code(site)))
        live = Live(
            run=folder.run,
            run_dir=str(folder.path),
            pid=os.getpid(),
            started=started_ticks(os.getpid()) or 0,
            control=str(seats.control),
            proxy_control=str(seats.proxy_control),
            listen=site.proxy_url,
            target=target_name,
        )
        seats.write_live(live)
        lock.note(live)
        progress.line(f"run {folder.run}  in {folder.path}")
        conductor = _conductor(site)
        try:
            exit_, why = await conductor.walk()
        finally:
            left_proxy = conductor.minder.left
            site.logs.close()
            unsealed = _seal(conductor, site)
            conductor.close()
            if conductor.refused is not None:
                _keep_or_drop(folder, conductor.refused, progress)
        if unsealed is not None:  # beside what stopped the drill, not in its place
            exit_, why = Exit.ABORTED, f"{why}; {unsealed}" if why else unsealed
        return RunResult(folder.path, exit_, why, site.ready.rehearsal, site.ready.policy_path)
    finally:
        if left_proxy is None:
            lock.clear()
        else:
            progress.line(
                f"the proxy (pid {left_proxy}) goes on passing through on {site.proxy_url} for your agent until it was "
                f"idle for 10 min; end it with `kill {left_proxy}`"
            )
        seats.close(keep_proxy=left_proxy is not None)


def _keep_or_drop(folder: Folder, refused: Problem, progress: Progress) -> None:
    """Keep the folder of a drill that its pre-flight refused only where it says more than the refusal did.

    That is what agent or proxy printed, what the agent asked for, or a file that the refusal names.
    """
    said = [name for name in ("worker.log", "proxy.log", "timeline.jsonl") if _has_text(folder.path / name)]
    if agents_attempts(folder):
        said.append("events/proxy.jsonl")
    if said or str(folder.path) in str(refused):
        progress.line(f"refused; kept for a look: {folder.path}" + (f" ({', '.join(said)})" if said else ""))
        return
    shutil.rmtree(folder.path, ignore_errors=True)
    progress.line("refused; nothing was started, and nothing is kept")


def _has_text(path: Path) -> bool:
    return path.is_file() and path.stat().st_size > 0


def _seal(conductor: Conductor, site: _Site) -> str | None:
    """Seal what there is. Where that fails the run is left for `drillmaster seal`; the reason, None when it is sealed."""
    folder, progress = site.folder, site.options.progress
    try:
        seal = seal_run(folder.path, site.clock)
        conductor.sealed(seal)
    except (OSError, Problem) as error:
        progress.line(f"not sealed: {error}; when that is mended: drillmaster seal {folder.path}")
        return f"the run could not be sealed: {error}"
    progress.line(f"sealed  {len(seal.files)} files  head {seal.head}")
    return None


def _copy_inputs(ready: Ready, folder: Folder) -> None:
    """Copy plan and policy, so that the run can be judged where they no longer are.

    The policy is copied byte for byte; from another format it is written as JSON, which is YAML. The plan is screened: a
    person may have written a key into it.
    """
    for source, name in ((ready.plan_path, "plan.yaml"), (ready.policy_path, "policy.yaml")):
        if source is None:
            continue
        data = read_bytes(source, _PLAN_CAP_BYTES)
        if source.suffix.lower() not in (".yaml", ".yml"):
            data = msgspec.json.format(msgspec.json.encode(read_strict(source, dict)), indent=2) + b"\n"
        if name == "plan.yaml":
            data = plan_text_on_record(data.decode("utf-8", "replace"), ready.plan).encode()
        (folder.path / name).write_bytes(data)


def _digest_file(path: Path) -> str:
    """The digest of what a file says; of its bytes where that is no plan or policy any more; where it is not there, that."""
    with contextlib.suppress(Problem):
        return strict.digest(read_strict(path, dict))
    with contextlib.suppress(Problem):
        return strict.digest_bytes(read_bytes(path, _PLAN_CAP_BYTES))
    return f"gone from {path.absolute()}"


def _code(site: _Site) -> dict[str, str | None]:
    """What the run is made with, now: commit and dirt of the worker's tree, digests of plan and policy."""
    ready, options = site.ready, site.options
    worker = ready.plan.worker
    tree = ready.plan_path.parent if worker is None or worker.cwd is None else ready.plan_path.parent / worker.cwd
    change = change_of(tree.absolute(), exclude=[options.runs.absolute()])
    return {
        "commit": None if change is None else change.commit,
        "dirt_sha256": None if change is None else change.dirt_sha256,
        "plan_sha256": _digest_file(ready.plan_path),
        "policy_sha256": None if ready.policy_path is None else _digest_file(ready.policy_path),
    }


def _manifest(site: _Site, code: Mapping[str, str | None]) -> Manifest:
    plan, ready, folder = site.plan, site.ready, site.folder
    permit, record = plan.target.permit, plan_on_record(plan)
    return Manifest(
        run=folder.run,
        drill=plan.drill,
        service=plan.service,
        started_at=rfc3339(folder.wall0_ns, digits=9),
        mono0_ns=str(folder.mono0_ns),
        seed=plan.seed,
        plan=record,
        plan_sha256=str(code["plan_sha256"]),
        policy_file=str(ready.policy_path or ""),
        policy_sha256=ready.policy_sha256,
        payload_sha256=payload_sha256(plan),
        versions=versions(),
        seats=plan.seats.names(),
        stamps=ready.stamps,
        code=None if code["commit"] is None else {"commit": code["commit"], "dirt_sha256": code["dirt_sha256"]},
        permission={} if permit is None else msgspec.to_builtins(permit),
        phases={
            "baseline_s": plan.phases.baseline_s,
            "fault_s": plan.phases.fault_s,
            "recovery_s": plan.phases.recovery_s,
        },
        fault=_fault(ready, record) | {"linger_s": plan.fault.linger_s, "proxy": site.proxy_url},
        time_limit_s=plan.traffic.time_limit_s,
        every_s=plan.traffic.every_s,
    )


def _fault(ready: Ready, record: Mapping[str, Any]) -> dict[str, Any]:
    """What is injected, for the manifest."""
    if ready.wanted:
        return {"tag": "matrix", "params": {}, "faults": [one.label for one in ready.wanted]}
    return {"tag": ready.plan.fault.mode, "params": record["fault"]["params"]}


def _spoken(ready: Ready) -> tuple[str, ...]:
    """What the faults to come say in the API's place."""
    tags = [one.tag for one in ready.wanted] or [str(rule.mode) for rule in ready.plan.fault.wanted]
    return tuple(filter(None, (faults.load(tag).words for tag in dict.fromkeys(tags))))


def _course(site: _Site) -> Course:
    ready, picked = site.ready, site.options.matrix
    if picked is None:
        return Once(ready.plan)
    return Cells(
        ready.plan,
        ready.wanted,
        site.folder,
        site.clock,
        max_baseline_failed_ratio=_max_baseline_failed_ratio(ready),
        time_limit_s=picked.time_limit_s,
    )


def _max_baseline_failed_ratio(ready: Ready) -> float:
    """Without a policy nobody has said how much may fail: nothing may."""
    return 0.0 if ready.gate is None else ready.gate.max_baseline_failed_ratio


def _conductor(site: _Site) -> Conductor:
    plan, clock, folder, logs = site.plan, site.clock, site.folder, site.logs
    target = _with_keys(site.ready)
    asker = Asker(
        target,
        site.addresses,
        clock=clock,
        permitted=plan.target.permit is not None,
        tls=tls_to(urlsplit(plan.target.url).scheme, None),
        spoken=_spoken(site.ready),
    )

    def users(start_ns: int) -> Traffic:
        assert logs.traffic is not None
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
            max_requests=_max_requests(site.ready, site.options),
        )

    async def prepare(conductor: Conductor) -> None:
        await execute(
            Runway(
                plan=plan,
                target=target,
                base_urls=base_urls(site.proxy_url, plan.proxy.upstream or ""),
                place=str(site.ready.plan_path),
                attest=not site.ready.rehearsal and "DEMO" not in site.ready.stamps,
                folder=folder,
                descriptors=site.soft_limit,
                proxy_url=site.proxy_url,
                upstream_ca=site.upstream_ca,
                agent_wait_s=site.options.agent_wait_s,
                by_hand=site.options.by_hand,
                addresses=site.addresses,
                detour=detour(_agents_env(site), site.proxy_url),
                own_timeline=None if plan.timeline is None else site.ready.plan_path.parent / plan.timeline,
            ),
            asker,
            conductor,
            clock=clock,
        )

    return Conductor(
        plan,
        folder,
        site.seats,
        logs,
        injector=_proxy_part(site),
        parts=(),
        worker=_worker_part(site),
        course=_course(site),
        users=users,
        prepare=prepare,
        code=lambda: _code(site),
        collect=_collector(site),
        max_baseline_failed_ratio=_max_baseline_failed_ratio(site.ready),
        clock=clock,
        progress=site.options.progress,
        place=str(site.ready.plan_path),
        by_hand=site.options.by_hand,
        leaves_injector=plan.worker is None,
        took_over=site.took_over,
        rehearsal=site.ready.rehearsal,
        scribe=site.options.scribe,
    )


def _collector(site: _Site) -> Callable[[], None]:
    """Take what an agent of somebody else's writes to its own timeline from now on, and give it to the run at the end.

    Lines from before are another drill's. Raises Problem at the end where the file cannot be read.
    """
    own = site.plan.timeline
    if own is None:
        return lambda: None
    source = site.ready.plan_path.parent / own
    before_bytes = source.stat().st_size if source.is_file() else 0

    def collect() -> None:
        if not source.exists():
            site.options.progress.line(f"{source}: the agent wrote no timeline")
            return
        skip = before_bytes if source.stat().st_size >= before_bytes else 0  # shorter than it was: it was begun anew
        with site.folder.timeline.open("ab") as timeline:
            for chunk in chunks(source, limit_bytes=MAX_COLLECTED_BYTES + skip):
                timeline.write(chunk[skip:])
                skip = max(0, skip - len(chunk))

    return collect


def _proxy_part(site: _Site) -> ProxyPart:
    plan, folder = site.plan, site.folder
    settings = Settings(
        listen_fd=site.listener.fileno(),
        upstream=without_v1(plan.proxy.upstream or ""),
        upstream_ca=None if site.upstream_ca is None else str(site.upstream_ca),
        dialect=plan.proxy.dialect,
        control_path=str(site.seats.proxy_control),
        events=str(folder.events / "proxy.jsonl"),
        mono0_ns=folder.mono0_ns,
        seed=plan.seed,
        max_requests=None if plan.spend is None else plan.spend.max_requests,
        max_tokens=None if plan.spend is None else plan.spend.max_tokens,
        owner_pid=os.getpid(),
    )
    return ProxyPart(
        settings, site.seats.proxy_control, log=folder.path / "proxy.log", env=os.environ, url=site.proxy_url
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


def _max_requests(ready: Ready, options: Options) -> int:
    """The bound on the traffic: twice what is planned by schedule; by hand what the waiting allows; the permit's cap."""
    plan = ready.plan
    bound = 2 * planned_requests(plan) + 10 if not options.by_hand else 1_000_000
    if ready.wanted:
        bound = int(longest_s(plan, plan.matrix or Matrix(), ready.wanted) / plan.traffic.every_s) + 10
    return bound if plan.target.permit is None else min(bound, plan.target.permit.max_requests)


def _worker_part(site: _Site) -> WorkerPart | None:
    plan, ready, folder = site.plan, site.ready, site.folder
    if plan.worker is None:
        return None
    cwd = (ready.plan_path.parent / (plan.worker.cwd or "")).absolute()
    log = folder.path / "worker.log"
    return WorkerPart(plan.worker, cwd=cwd, env=_agents_env(site), log=log, soft_limit=site.soft_before)


def _agents_env(site: _Site) -> dict[str, str]:
    """The worker's environment, kept off other proxies; without a worker this process's own, the best guess at another's."""
    plan = site.plan
    env = {**os.environ, **base_urls(site.proxy_url, plan.proxy.upstream or ""), "DRILL_LOG": str(site.folder.timeline)}
    if plan.worker is None:
        return env
    # An agent with a name of its own for the URL takes it from ours: `LLM_URL: ${MODEL_BASE_URL}`.
    env |= fill_in(plan.worker.env, env, place=f"{site.ready.plan_path}: /worker/env")
    return past_proxies(env, site.proxy_url)
