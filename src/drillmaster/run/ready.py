"""From a plan's file and a command line to a plan that makes sense; nothing is opened but files."""

import os
import shlex
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Literal, Protocol

import msgspec

from drillmaster.errors import Problem
from drillmaster.gates.eviction import Eviction
from drillmaster.intake import is_there, read_strict
from drillmaster.intake.blanks import left_open, none_left_open
from drillmaster.intake.verdicts import read_policy
from drillmaster.matrix import Wanted
from drillmaster.plan import Outline, Plan, Worker
from drillmaster.policy import Pin, pin_problems
from drillmaster.run.notes import Scribe
from drillmaster.run.progress import Progress, Silent
from drillmaster.run.seats import writable_down
from drillmaster.sanity import Numbers, check, compress, default_spend, fitting_factor, unnamed_seats

__all__ = [
    "Limits",
    "Options",
    "Picked",
    "Ready",
    "check_program",
    "prepare_plan",
    "read_limits",
    "read_plan",
    "refuse",
    "worker_of",
]


class Picked(msgspec.Struct, frozen=True, kw_only=True):
    """What the command line says of a matrix: which faults in place of the plan's, and for how long in all."""

    faults: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    everything: bool = False
    time_limit_s: float | None = None


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """What the command line adds to a plan."""

    runs: Path = Path("runs")
    mode: str | None = None
    cmd: str | None = None
    """The worker's command line, split as a shell splits words; no shell runs it."""
    compress: float | Literal["max"] | None = None
    """Divide phases and traffic period by this; `max`: by as much as policy and plan leave room for."""
    rehearsal: bool = False
    by_hand: bool = False
    permit_host: str | None = None
    stamps: tuple[str, ...] = ()
    """DEMO: seats are made up, and nobody is asked to attest anything."""
    timeline: Path | None = None
    """Where an agent that the drill does not start writes its timeline."""
    agent_wait_s: float | None = None
    """How long to wait for an agent that the drill does not start. None: not at all, by hand `AGENT_WAIT_S`."""
    progress: Progress = Silent()
    confirm: Callable[[Any], None] | None = None
    """Asks a person about the plan, when budget and warnings have been said and before anything starts; raises Problem for a no."""
    scribe: Scribe | None = None
    """A stand-in Scribe, looked in on once a second."""
    matrix: Picked | None = None
    """Run a fault matrix; None: an eviction drill."""


class Ready(msgspec.Struct, frozen=True, kw_only=True):
    """A plan that makes sense, with what was read beside it."""

    plan: Plan
    plan_path: Path
    policy_path: Path | None
    """None: there is no policy, and the drill judges nothing."""
    policy_sha256: str
    gate: Eviction | None
    numbers: Numbers | None
    stamps: tuple[str, ...]
    rehearsal: bool
    said: tuple[str, ...]
    """What a person should hear of the drill beside the warnings."""
    warnings: tuple[str, ...]
    wanted: tuple[Wanted, ...] = ()
    """The faults of a matrix."""


class _Planned(Protocol):
    @property
    def plan(self) -> Outline: ...

    @property
    def plan_path(self) -> Path: ...


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """A policy that the drill can be judged by, with where it lies."""

    path: Path
    sha256: str
    gate: Eviction


def read_plan(plan_path: Path, options: Options) -> Plan:
    """Read a plan whose blanks are filled in, and apply what the command line says of fault, timeline and worker."""
    for what, path in (("plan", plan_path), ("--runs", options.runs), ("--timeline", options.timeline)):
        if path is not None:
            writable_down(path, place=what, remedy=f"name {what} by a path of UTF-8 alone")
    _what_is_it(plan_path, options.progress)
    plan = read_strict(plan_path, Plan)
    if options.mode is not None:
        if plan.fault.rules:
            options.progress.line(f"--mode {options.mode}: the plan's {len(plan.fault.rules)} rules are left aside")
        params = plan.fault.params if options.mode == plan.fault.mode and not plan.fault.rules else {}
        fault = msgspec.structs.replace(plan.fault, tag=options.mode, params=params, rules=())
        plan = msgspec.structs.replace(plan, fault=fault)
    if options.timeline is not None:
        plan = msgspec.structs.replace(plan, timeline=str(options.timeline.absolute()))
    if options.cmd is not None:
        plan = msgspec.structs.replace(plan, worker=worker_of(plan.worker, options.cmd))
    return plan


def read_limits(plan_path: Path, plan: Plan, *, wall_ns: int) -> Limits:
    """Read the plan's policy. Raises Problem for one that the gate would refuse, or none."""
    if plan.policy is None:
        raise Problem(
            f"{plan_path}: /policy",
            found="nothing",
            wanted="the policy file: limits have no default",
            remedy="write `policy: eviction-policy.yaml`; drillmaster init eviction makes one",
        )
    path = plan_path.parent / plan.policy
    policy, gate, sha256 = read_policy(path)
    _check_pin(policy.pin, path, wall_ns)
    return Limits(path=path, sha256=sha256, gate=gate)


def prepare_plan(plan_path: Path, options: Options, *, wall_ns: int) -> Ready:
    """Read plan and policy, apply the options, and check all that can be checked without a socket. Raises Problem."""
    place = str(plan_path)
    plan = read_plan(plan_path, options)
    if plan.drill != "eviction":
        raise Problem(
            f"{place}: /drill",
            found=plan.drill,
            wanted="eviction",
            remedy=f"drillmaster run {plan.drill} {plan_path}",
        )
    limits = read_limits(plan_path, plan, wall_ns=wall_ns)
    policy_path, policy_sha256, gate = limits.path, limits.sha256, limits.gate
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
    said: list[str] = []
    sane = check(plan, place=place, wall_ns=wall_ns, rehearsal=options.rehearsal, permit_host=options.permit_host)
    refuse(sane.problems, options.progress)
    factor = options.compress or 1.0
    if factor == "max":
        factor = fitting_factor(
            plan,
            numbers,
            place=place,
            wall_ns=wall_ns,
            rehearsal=options.rehearsal,
            permit_host=options.permit_host,
        )
        if factor == 1:
            said.append("--compress max: policy and plan leave no room, the drill runs at full length")
    if factor != 1:
        every_s = plan.traffic.every_s
        plan = compress(plan, factor, numbers)
        stamps.append(f"COMPRESSED {factor:g}x")
        said.append(
            f"compressed {factor:g}x: baseline {plan.phases.baseline_s:.3g} s, fault {plan.phases.fault_s:.3g} s, recovery "
            f"{plan.phases.recovery_s:.3g} s; one request every {plan.traffic.every_s:.3g} s, so the real endpoint gets "
            f"{every_s / plan.traffic.every_s:.3g} times as many a second"
        )
    sane = check(
        plan,
        place=place,
        wall_ns=wall_ns,
        numbers=numbers,
        rehearsal=options.rehearsal,
        permit_host=options.permit_host,
    )
    refuse(sane.problems, options.progress)
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
        said=tuple(said),
        warnings=warnings,
    )


def worker_of(before: Worker | None, cmd: str) -> Worker:
    try:
        words = tuple(shlex.split(cmd))
    except ValueError as error:
        raise Problem("--cmd", found=str(error), wanted="a command line", remedy="close the quotes") from None
    if not words:
        raise Problem("--cmd", found="nothing", wanted="a command line", remedy="write --cmd 'python3 agent.py'")
    return Worker(cmd=words) if before is None else msgspec.structs.replace(before, cmd=words)


def refuse(problems: tuple[Problem, ...], progress: Progress) -> None:
    """Raise the first of these problems, if there is one, and say the others."""
    for problem in problems[1:]:
        progress.line(str(problem))
    if problems:
        raise problems[0]


def _what_is_it(plan_path: Path, progress: Progress) -> None:
    """Refuse another kind of file than a plan, and name every blank of plan and policy at once. Raises Problem."""
    plan: dict[str, Any] = read_strict(plan_path, dict)
    _check_kind(plan, "plan", plan_path, remedy=f"name the plan: drillmaster run eviction {_beside(plan_path)}")
    kit = "matrix" if plan.get("drill") == "matrix" else "eviction"
    files = {plan_path: left_open(plan, kit, "plan")}
    named = plan.get("policy")
    policy_path = plan_path.parent / named if isinstance(named, str) else None
    if policy_path is not None and is_there(policy_path):
        policy: dict[str, Any] = read_strict(policy_path, dict)
        _check_kind(policy, "policy", policy_path, remedy=f"name the policy in {plan_path}: /policy")
        files[policy_path] = left_open(policy, "eviction", "policy")
    none_left_open(files, progress.line)


def _check_kind(value: Mapping[str, Any], wanted: str, path: Path, *, remedy: str) -> None:
    found = value.get("kind")
    if found in ("plan", "policy") and found != wanted:
        raise Problem(str(path), found=f"a {found}", wanted=f"a {wanted} (`kind: {wanted}`)", remedy=remedy)


def _beside(policy_path: Path) -> str:
    """The plan that lies beside a policy, as one would type it; PLAN where none does."""
    near = policy_path.with_name(policy_path.name.replace("policy", "plan"))
    return str(near) if near != policy_path and near.is_file() else "PLAN"


def _check_pin(pin: Pin, path: Path, wall_ns: int) -> None:
    """Refuse a policy that the gate would refuse: before the drill, not after it."""
    for field, found, wanted in pin_problems(pin, now_ns=wall_ns):
        raise Problem(
            f"{path}: /{field}",
            found=found,
            wanted=wanted,
            remedy=f"have the policy's owner ({pin.owner.strip() or 'nobody yet'}) mend {field}; the gate would refuse the run",
        )


def check_program(ready: _Planned, environ: Mapping[str, str] = os.environ) -> None:
    """Refuse a worker whose folder is not there or whose program cannot be found. Raises Problem; starts nothing."""
    worker = ready.plan.worker
    if worker is None:
        return
    cwd = (ready.plan_path.parent / (worker.cwd or "")).absolute()
    if not cwd.is_dir():
        raise Problem(f"{ready.plan_path}: /worker/cwd", found=f"no folder {cwd}", wanted="a folder", remedy="mend cwd")
    program = worker.cmd[0]
    path = worker.env.get("PATH", environ.get("PATH", os.defpath)).replace("${PATH}", environ.get("PATH", os.defpath))
    if "/" in program:
        there = os.access(cwd / program, os.X_OK) and (cwd / program).is_file()
    else:
        there = shutil.which(program, path=path) is not None
    if there:
        return
    instead = "python3" if program == "python" and shutil.which("python3", path=path) else None
    raise Problem(
        f"{ready.plan_path}: /worker/cmd",
        found=f"{program}: {'no program there' if '/' in program else 'not on PATH'}",
        wanted="a program that can be started",
        remedy=f"write {instead} for {program}"
        if instead
        else f"write its path, from {cwd}; no shell reads this line"
        if "/" not in program
        else f"see ls -l {cwd / program}",
    )
