"""From a drill that makes sense to a run that is sealed: lock, make the folder, walk, seal, and leave nothing behind.

What kind of drill it is stands in its `Production`: what is written into the manifest, and which parts there are.
"""

import contextlib
import os
import resource
import shutil
import socket
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Protocol
from urllib.parse import urlsplit

import msgspec

from drillmaster import strict
from drillmaster.child import ChildLost, call_control
from drillmaster.clock import Clock
from drillmaster.errors import Exit, Problem
from drillmaster.evidence import Manifest
from drillmaster.intake import read_bytes, read_strict
from drillmaster.intake.change import change_of
from drillmaster.plan import Outline, Worker
from drillmaster.proxy.means import raise_descriptors
from drillmaster.run.conductor import Conductor
from drillmaster.run.crew import Told
from drillmaster.run.folder import Folder, make_folder
from drillmaster.run.logs import Logs, open_logs
from drillmaster.run.parts import WorkerPart, bind, listen_url
from drillmaster.run.preflight import addresses_of, agents_attempts
from drillmaster.run.progress import Progress
from drillmaster.run.ready import Options
from drillmaster.run.seats import Live, Lock, open_state, started_ticks, sweep, take_lock
from drillmaster.run.seats import State as Seats
from drillmaster.sanity import is_loopback, parse_listen
from drillmaster.timeline import chunks, seal_run

__all__ = ["Production", "RunResult", "Site", "carry_out", "collector", "take_over", "worker_part"]

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


class Production(Protocol):
    """What one kind of drill brings to its run."""

    @property
    def plan(self) -> Outline: ...

    @property
    def plan_path(self) -> Path: ...

    @property
    def policy_path(self) -> Path | None: ...

    @property
    def rehearsal(self) -> bool: ...

    @property
    def own_timeline(self) -> Path | None:
        """Where an agent that the drill does not start writes its timeline."""

    @property
    def target_url(self) -> str: ...

    @property
    def permitted(self) -> bool:
        """Whether the plan permits a target that is not loopback."""

    @property
    def listens(self) -> tuple[str, str]:
        """Where the injector listens, as the plan writes it, and the place of that in the plan."""

    @property
    def socket(self) -> str:
        """What the injector's control socket is called: the next run ends by it what this one leaves."""

    @property
    def traffic(self) -> bool:
        """Whether users are played by the conductor's own process."""

    def on_record(self, text: str) -> str:
        """The plan's text as the run keeps it."""

    def manifest(self, site: "Site", code: Mapping[str, str | None]) -> Manifest: ...

    def conductor(self, site: "Site", code: Callable[[], dict[str, str | None]]) -> Conductor: ...


class Site(msgspec.Struct, frozen=True, kw_only=True):
    """All that one drill is made of, before there is a conductor."""

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
    def url(self) -> str:
        """The injector's."""
        return listen_url(self.listener)


async def carry_out(production: Production, options: Options, clock: Clock) -> RunResult:
    """Do the drill. Raises Problem where it is refused before anything is hurt."""
    progress = options.progress
    addresses = await addresses_of(production.target_url, permitted=production.permitted, loopback_only=is_loopback)
    listens, place = production.listens
    host, port = parse_listen(listens) or ("", 0)
    target = urlsplit(production.target_url)
    target_name = f"target {addresses[0]}:{target.port or (443 if target.scheme == 'https' else 80)}"
    lock, left = take_lock([target_name] + ([f"proxy {host}:{port}"] if port else []))
    try:
        took_over = any([await _clear_up(before, progress) for before in left])
        sweep()
        with await bind(host, port, retry_s=3.0 if took_over else 0.0, place=place) as listener:
            soft_before, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
            folder = make_folder(options.runs, clock)
            site = Site(
                options=options,
                clock=clock,
                folder=folder,
                seats=open_state(folder.run),
                logs=open_logs(folder, clock, traffic=production.traffic),
                listener=listener,
                addresses=addresses,
                soft_before=soft_before,
                soft_limit=raise_descriptors(),
                took_over=took_over,
            )
            return await _drill(production, site, lock, target_name)
    finally:
        lock.close()


async def _clear_up(before: Live, progress: Progress) -> bool:
    """End the injector that an earlier run left on our port: its conductor was killed, or it still serves an agent."""
    if started_ticks(before.pid) == before.started and before.pid != os.getpid():
        return False  # alive, and done with its lock: it is on its way out by itself
    with contextlib.suppress(ChildLost):
        await call_control(Path(before.proxy_control), "POST", "/quit", {})
        progress.line(f"took over from run {before.run}; its injector was still there, passing through")
        return True
    return False


async def _drill(production: Production, site: Site, lock: Lock, target_name: str) -> RunResult:
    folder, seats, progress = site.folder, site.seats, site.options.progress
    left_proxy = None
    try:

        def code() -> dict[str, str | None]:
            return _code(production, site.options.runs)

        _copy_inputs(production, folder)
        folder.write_manifest(production.manifest(site, code()))
        live = Live(
            run=folder.run,
            run_dir=str(folder.path),
            pid=os.getpid(),
            started=started_ticks(os.getpid()) or 0,
            control=str(seats.control),
            proxy_control=str(seats.socket(production.socket)),
            listen=site.url,
            target=target_name,
        )
        seats.write_live(live)
        lock.note(live)
        progress.line(f"run {folder.run}  in {folder.path}")
        conductor = production.conductor(site, code)
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
        return RunResult(folder.path, exit_, why, production.rehearsal, production.policy_path)
    finally:
        if left_proxy is None:
            lock.clear()
        else:
            progress.line(
                f"the proxy (pid {left_proxy}) goes on passing through on {site.url} for your agent until it was "
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


def _seal(conductor: Conductor, site: Site) -> str | None:
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


def _copy_inputs(production: Production, folder: Folder) -> None:
    """Copy plan and policy, so that the run can be judged where they no longer are.

    The policy is copied byte for byte; from another format it is written as JSON, which is YAML. The plan is screened: a
    person may have written a key into it.
    """
    for source, name in ((production.plan_path, "plan.yaml"), (production.policy_path, "policy.yaml")):
        if source is None:
            continue
        data = read_bytes(source, _PLAN_CAP_BYTES)
        if source.suffix.lower() not in (".yaml", ".yml"):
            data = msgspec.json.format(msgspec.json.encode(read_strict(source, dict)), indent=2) + b"\n"
        if name == "plan.yaml":
            data = production.on_record(data.decode("utf-8", "replace")).encode()
        (folder.path / name).write_bytes(data)


def _digest_file(path: Path) -> str:
    """The digest of what a file says; of its bytes where that is no plan or policy any more; where it is not there, that."""
    with contextlib.suppress(Problem):
        return strict.digest(read_strict(path, dict))
    with contextlib.suppress(Problem):
        return strict.digest_bytes(read_bytes(path, _PLAN_CAP_BYTES))
    return f"gone from {path.absolute()}"


def _code(production: Production, runs: Path) -> dict[str, str | None]:
    """What the run is made with, now: commit and dirt of the worker's tree, digests of plan and policy."""
    worker, beside, policy = production.plan.worker, production.plan_path.parent, production.policy_path
    tree = beside if worker is None or worker.cwd is None else beside / worker.cwd
    change = change_of(tree.absolute(), exclude=[runs.absolute()])
    return {
        "commit": None if change is None else change.commit,
        "dirt_sha256": None if change is None else change.dirt_sha256,
        "plan_sha256": _digest_file(production.plan_path),
        "policy_sha256": None if policy is None else _digest_file(policy),
    }


def collector(production: Production, site: Site) -> Callable[[], Told]:
    """Take what an agent of somebody else's writes to its own timeline from now on, and give it to the run at the end.

    Lines from before are another drill's. Raises Problem at the end where the file cannot be read.
    """
    source = production.own_timeline
    if source is None:
        return dict
    before_bytes = source.stat().st_size if source.is_file() else 0

    def collect() -> Told:
        if not source.exists():
            site.options.progress.line(f"{source}: the agent wrote no timeline")
            return {}
        take_over(source, site.folder.timeline, skip=before_bytes)
        return {}

    return collect


def take_over(source: Path, to: Path, *, skip: int) -> None:
    """Append what a file of somebody else's has behind `skip` bytes. Raises Problem where it cannot be read."""
    if source.stat().st_size < skip:  # shorter than it was: it was begun anew
        skip = 0
    with to.open("ab") as file:
        for chunk in chunks(source, limit_bytes=MAX_COLLECTED_BYTES + skip):
            file.write(chunk[skip:])
            skip = max(0, skip - len(chunk))


def worker_part(
    worker: Worker | None, site: Site, *, beside: Path, env: Callable[[], dict[str, str]]
) -> WorkerPart | None:
    """The worker that the plan names, from a folder that is relative to the plan's own (`beside`)."""
    if worker is None:
        return None
    cwd = (beside / (worker.cwd or "")).absolute()
    log = site.folder.path / "worker.log"
    return WorkerPart(worker, cwd=cwd, env=env(), log=log, soft_limit=site.soft_before)
