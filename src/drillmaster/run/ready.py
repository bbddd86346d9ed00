"""From a plan's file and a command line to a plan that makes sense; nothing is opened but files."""

import shlex
from pathlib import Path
from urllib.parse import urlsplit

import msgspec

from drillmaster import faults
from drillmaster.errors import Problem
from drillmaster.gates.eviction import Eviction
from drillmaster.intake import read_strict
from drillmaster.intake.verdicts import read_policy
from drillmaster.plan import Plan, Worker
from drillmaster.run.conductor import Scribe
from drillmaster.run.progress import Progress, Silent
from drillmaster.sanity import Numbers, check, compress, default_spend, unnamed_seats

__all__ = ["Options", "Ready", "base_urls", "prepare_plan"]


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
    timeline: Path | None = None
    """Where an agent that the drill does not start writes its timeline."""
    agent_wait_s: float | None = None
    """How long to wait for an agent that the drill does not start. None: not at all, by hand `AGENT_WAIT_S`."""
    progress: Progress = Silent()
    scribe: Scribe | None = None
    """A stand-in Scribe, looked in on once a second."""


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
    if options.timeline is not None:
        plan = msgspec.structs.replace(plan, timeline=str(options.timeline.absolute()))
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
