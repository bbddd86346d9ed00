"""An eviction drill or a fault matrix, from its plan's file to the run: users from here, the wire proxy that injects."""

import asyncio
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import msgspec

from drillmaster import faults
from drillmaster.clock import Clock, SystemClock, rfc3339
from drillmaster.errors import Problem
from drillmaster.evidence import Manifest
from drillmaster.pace import Steady
from drillmaster.plan import Matrix, Plan, Target, base_urls, without_v1
from drillmaster.proxy.settings import Settings
from drillmaster.run.conductor import Conductor
from drillmaster.run.course import Course, Once
from drillmaster.run.folder import payload_sha256, plan_on_record, plan_text_on_record, versions
from drillmaster.run.matrix import Cells, longest_s, prepare_matrix
from drillmaster.run.parts import ProxyPart
from drillmaster.run.preflight import Runway, execute
from drillmaster.run.ready import Options, Ready, check_program, prepare_plan
from drillmaster.run.staging import RunResult, Site, carry_out, collector, worker_part
from drillmaster.run.traffic import Asker, Tally, Traffic
from drillmaster.run.upstream import detour, past_proxies, tls_to
from drillmaster.sanity import fill_in, planned_requests

__all__ = ["conduct"]


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
    return asyncio.run(carry_out(_Eviction(ready), options, clock))


class _Eviction:
    """What an eviction drill or a matrix brings to its run."""

    traffic = True
    socket = "proxy"

    def __init__(self, ready: Ready) -> None:
        self._ready = ready
        self.plan: Plan = ready.plan
        self.plan_path = ready.plan_path
        self.policy_path = ready.policy_path
        self.rehearsal = ready.rehearsal
        self.target_url = ready.plan.target.url
        self.permitted = ready.plan.target.permit is not None
        self.listens = (ready.plan.proxy.listen, "/proxy/listen")

    @property
    def own_timeline(self) -> Path | None:
        return None if self.plan.timeline is None else self.plan_path.parent / self.plan.timeline

    @property
    def _upstream_ca(self) -> Path | None:
        ca = self.plan.proxy.upstream_ca
        return None if ca is None else self.plan_path.parent / ca

    def on_record(self, text: str) -> str:
        return plan_text_on_record(text, self.plan)

    def manifest(self, site: Site, code: Mapping[str, str | None]) -> Manifest:
        plan, ready, folder = self.plan, self._ready, site.folder
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
            fault=_fault(ready, record) | {"linger_s": plan.fault.linger_s, "proxy": site.url},
            time_limit_s=plan.traffic.time_limit_s,
            every_s=plan.traffic.every_s,
        )

    def conductor(self, site: Site, code: Callable[[], dict[str, str | None]]) -> Conductor:
        plan, clock, folder, logs = self.plan, site.clock, site.folder, site.logs
        target = _with_keys(self._ready)
        asker = Asker(
            target,
            site.addresses,
            clock=clock,
            permitted=plan.target.permit is not None,
            tls=tls_to(urlsplit(plan.target.url).scheme, None),
            spoken=_spoken(self._ready),
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
                max_requests=_max_requests(self._ready, site.options),
            )

        async def prepare(conductor: Conductor) -> None:
            await execute(
                Runway(
                    plan=plan,
                    target=target,
                    base_urls=base_urls(site.url, plan.proxy.upstream or ""),
                    place=str(self._ready.plan_path),
                    attest=not self._ready.rehearsal and "DEMO" not in self._ready.stamps,
                    folder=folder,
                    descriptors=site.soft_limit,
                    proxy_url=site.url,
                    upstream_ca=self._upstream_ca,
                    agent_wait_s=site.options.agent_wait_s,
                    by_hand=site.options.by_hand,
                    addresses=site.addresses,
                    detour=detour(self._agents_env(site), site.url),
                    own_timeline=self.own_timeline,
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
            injector=self._proxy_part(site),
            parts=(),
            worker=worker_part(plan.worker, site, beside=self.plan_path.parent, env=lambda: self._agents_env(site)),
            course=self._course(site),
            users=users,
            prepare=prepare,
            code=code,
            collect=collector(self, site),
            max_baseline_failed_ratio=_max_baseline_failed_ratio(self._ready),
            clock=clock,
            progress=site.options.progress,
            place=str(self._ready.plan_path),
            by_hand=site.options.by_hand,
            leaves_injector=plan.worker is None,
            took_over=site.took_over,
            rehearsal=self._ready.rehearsal,
            scribe=site.options.scribe,
        )

    def _course(self, site: Site) -> Course:
        ready, picked = self._ready, site.options.matrix
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

    def _proxy_part(self, site: Site) -> ProxyPart:
        plan, folder = self.plan, site.folder
        settings = Settings(
            listen_fd=site.listener.fileno(),
            upstream=without_v1(plan.proxy.upstream or ""),
            upstream_ca=None if self._upstream_ca is None else str(self._upstream_ca),
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
            settings, site.seats.proxy_control, log=folder.path / "proxy.log", env=os.environ, url=site.url
        )

    def _agents_env(self, site: Site) -> dict[str, str]:
        """The worker's environment, kept off other proxies; without a worker this process's own, the best guess at another's."""
        plan = self.plan
        env = {**os.environ, **base_urls(site.url, plan.proxy.upstream or ""), "DRILL_LOG": str(site.folder.timeline)}
        if plan.worker is None:
            return env
        # An agent with a name of its own for the URL takes it from ours: `LLM_URL: ${MODEL_BASE_URL}`.
        env |= fill_in(plan.worker.env, env, place=f"{self.plan_path}: /worker/env")
        return past_proxies(env, site.url)


def _fault(ready: Ready, record: Mapping[str, Any]) -> dict[str, Any]:
    """What is injected, for the manifest."""
    if ready.wanted:
        return {"tag": "matrix", "params": {}, "faults": [one.label for one in ready.wanted]}
    return {"tag": ready.plan.fault.mode, "params": record["fault"]["params"]}


def _spoken(ready: Ready) -> tuple[str, ...]:
    """What the faults to come say in the API's place."""
    tags = [one.tag for one in ready.wanted] or [str(rule.mode) for rule in ready.plan.fault.wanted]
    return tuple(filter(None, (faults.load(tag).words for tag in dict.fromkeys(tags))))


def _max_baseline_failed_ratio(ready: Ready) -> float:
    """Without a policy nobody has said how much may fail: nothing may."""
    return 0.0 if ready.gate is None else ready.gate.max_baseline_failed_ratio


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
