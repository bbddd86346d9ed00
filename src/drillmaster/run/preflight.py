"""The pre-flight, executed and not ticked: everything that would make the drill worthless, found before anything is hurt.

1. Each line is looked at by doing it, in the order in which a failure explains the next, and is written down.
2. What only people can know is attested by name and time in the plan. A rehearsal needs none of it.
3. A line that does not hold refuses the drill, with the one thing to do.
"""

import asyncio
import contextlib
import os
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import msgspec

from drillmaster.clock import Clock, parse_rfc3339, rfc3339
from drillmaster.errors import Problem, Refused
from drillmaster.plan import Attest, Outline, Plan, Target
from drillmaster.run.crew import Crew, Line, Recorder
from drillmaster.run.folder import Folder
from drillmaster.run.reach import reach_agent
from drillmaster.run.traffic import Asker, look_up
from drillmaster.run.upstream import PROXY_PROBE_TRACE, Detour, probe_proxy, reach_upstream, see_through
from drillmaster.sanity import window_problem
from drillmaster.timeline import chunks

__all__ = [
    "ATTESTED",
    "Ground",
    "Line",
    "agents_attempts",
    "attested",
    "ground",
    "nobody_there",
    "on_record",
    "reach_agent",
    "record",
    "standing",
]

ATTESTED = ("quiet_window_agreed", "on_call_told", "status_note_drafted")
ATTEST_DAYS = 31
AGENT_WAIT_S = 600.0
"""How long a drill by hand waits for an agent that somebody starts in another terminal."""
OWN_DESCRIPTORS = 40
"""What the conductor itself has open, besides one per request in flight."""


class Ground(msgspec.Struct, frozen=True, kw_only=True):
    """What the drill stands on, as it is: handed in, so that it can be judged without a machine."""

    free_bytes: int
    descriptors: int
    wall_ns: int
    drift_s: float
    """How far the wall clock moved against the monotonic one since the run's zero."""


def ground(folder: Path, clock: Clock, *, wall0_ns: int, mono0_ns: int, descriptors: int) -> Ground:
    """Look at disk and clocks."""
    wall_ns, mono_ns = clock.wall_ns(), clock.mono_ns()
    return Ground(
        free_bytes=shutil.disk_usage(folder).free,
        descriptors=descriptors,
        wall_ns=wall_ns,
        drift_s=((wall_ns - wall0_ns) - (mono_ns - mono0_ns)) / 1e9,
    )


def attested(plan: Outline, *, place: str, wall_ns: int) -> list[Line | Refused]:
    """The human lines: as attested, or refused where nobody did, or did so too long ago."""
    found: list[Line | Refused] = []
    for check in ATTESTED:
        attest: Attest | None = getattr(plan.preflight, check)
        at_ns = None if attest is None else parse_rfc3339(attest.at)
        remedy = f"fill in `preflight: {{{check}: {{by: NAME, at: {rfc3339(wall_ns, digits=0)}}}}}`, or use --rehearsal"
        if attest is None or at_ns is None:
            found.append(
                Refused(
                    f"{place}: /preflight/{check}",
                    found="nobody's word",
                    wanted="who saw to it, and when",
                    remedy=remedy,
                )
            )
        elif not -300 <= (wall_ns - at_ns) / 1e9 <= ATTEST_DAYS * 86_400:
            found.append(
                Refused(
                    f"{place}: /preflight/{check}/at",
                    found=f"{attest.at}, and it is {rfc3339(wall_ns, digits=0)} now",
                    wanted=f"a time of the last {ATTEST_DAYS} days",
                    remedy="have it seen to again, and write when",
                )
            )
        else:
            found.append(Line(check=check, status="attested", by=attest.by, at=attest.at))
    return found


def standing(
    plan: Outline, here: Ground, *, place: str, timeline: Path, in_flight: int | None = None
) -> list[Line | Refused]:
    """The lines about this machine and this hour. `in_flight` None: as many users as come while one waits."""
    found: list[Line | Refused] = []
    if plan.window is not None:
        from_ns = here.wall_ns + round(plan.phases.baseline_s * 1e9)
        outside = window_problem(
            plan, place=place, from_ns=from_ns, until_ns=from_ns + round(plan.phases.fault_s * 1e9)
        )
        found.append(outside or Line(check="window", status="pass", why=f"{plan.window.start} .. {plan.window.end}"))
    free_mb = here.free_bytes // 1_000_000
    if free_mb < plan.stop.min_free_mb:
        found.append(
            Refused(
                "disk_space",
                found=f"{free_mb} MB free",
                wanted=f"at least {plan.stop.min_free_mb} MB (stop.min_free_mb)",
                remedy="free some, or choose another disk with --runs DIR",
            )
        )
    else:
        found.append(Line(check="disk_space", status="pass", why=f"{free_mb} MB free"))
    if in_flight is None:
        in_flight = int(plan.traffic.time_limit_s / plan.traffic.every_s) + 1
    need = OWN_DESCRIPTORS + in_flight
    if need > here.descriptors:
        found.append(
            Refused(
                "descriptors",
                found=f"{here.descriptors} allowed",
                wanted=f"{need}: one for each request that may be in flight when nothing answers",
                remedy=f"run `ulimit -n {need}` first, or raise traffic.every_s",
            )
        )
    else:
        found.append(Line(check="descriptors", status="pass", why=f"{here.descriptors} allowed, {need} needed"))
    if not 1_735_689_600_000_000_000 <= here.wall_ns < 7_258_118_400_000_000_000 or abs(here.drift_s) > 0.5:
        found.append(
            Refused(
                "clock",
                found=f"{rfc3339(here.wall_ns)}, moved {here.drift_s:.3f} s against the monotonic clock while we looked",
                wanted="a wall clock that is set and steady",
                remedy="see timedatectl status",
            )
        )
    else:
        found.append(Line(check="clock", status="pass", why=rfc3339(here.wall_ns)))
    if os.access(timeline, os.W_OK):
        found.append(Line(check="timeline_writable", status="pass", why=str(timeline)))
    else:
        found.append(
            Refused(
                "timeline_writable", found=f"no right to write {timeline}", wanted="one", remedy="choose --runs DIR"
            )
        )
    return found


def own_timeline(path: Path) -> Line | Refused:
    """The agent's own timeline file: a regular file, or a folder in which it can be made."""
    place = "own_timeline"
    if path.exists() and not path.is_file():
        return Refused(place, found=f"{path}: no regular file", wanted="a file", remedy="mend /timeline in the plan")
    if not path.exists() and not path.parent.is_dir():
        return Refused(place, found=f"{path.parent}: no such folder", wanted="one", remedy=f"mkdir -p {path.parent}")
    return Line(check=place, status="pass", why=f"{path}{'' if path.exists() else ', not there yet'}")


async def nobody_there(plan: Outline, addresses: Sequence[str]) -> Line:
    """See that the worker's port is free before the worker is started: another agent there would take the drill."""
    parts = urlsplit(plan.target.url)
    port = parts.port or (443 if parts.scheme == "https" else 80)
    for address in addresses:
        with contextlib.suppress(OSError, TimeoutError):
            async with asyncio.timeout(2):
                _, writer = await asyncio.open_connection(address, port)
            writer.transport.abort()
            raise Refused(
                f"target_free {address}:{port}",
                found="somebody who listens there already",
                wanted="a free port: the worker that the drill starts is to be drilled",
                remedy=f"end it (ss -ltnp 'sport = :{port}' names it), or drop `worker` and drill that one",
            )
    return Line(check="target_free", status="pass", why=f"nobody listens on port {port} yet")


async def addresses_of(url: str, *, permitted: bool, loopback_only: Callable[[str], bool]) -> tuple[str, ...]:
    """Look the target up, once for the whole drill. Raises Refused for a name that is unknown, or leads elsewhere."""
    parts = urlsplit(url)
    host = parts.hostname or ""
    try:
        found: Sequence[str] = await look_up(host, parts.port or (443 if parts.scheme == "https" else 80))
    except OSError as error:
        raise Refused(
            f"target {host}",
            found=error.strerror or "an error",
            wanted="a name that is known",
            remedy="mend /target/url",
        ) from None
    outside = [address for address in found if not loopback_only(address)]
    if outside and not permitted:
        raise Refused(
            f"target {host}",
            found=f"{outside[0]}, which is not loopback",
            wanted="loopback: load and faults go nowhere else without permission",
            remedy="write the agent's loopback address, or add `permit:`",
        )
    return tuple(found)


class Runway(msgspec.Struct, frozen=True, kw_only=True):
    """What the pre-flight has to know of the drill."""

    plan: Plan
    target: Target
    """The plan's, with its keys put in: for what is sent, and for no message."""
    base_urls: Mapping[str, str]
    """What an agent that somebody else starts has to be given, by variable."""
    place: str
    """How the plan's file is called in messages."""
    attest: bool
    """Whether people have to attest their lines."""
    folder: Folder
    descriptors: int
    proxy_url: str
    upstream_ca: Path | None
    agent_wait_s: float | None
    by_hand: bool
    addresses: tuple[str, ...]
    """The target's."""
    detour: Detour | None
    """What of the agent's environment, or of this one where the agent is somebody else's, would lead it past the proxy."""
    own_timeline: Path | None
    """Where an agent that the drill does not start writes its timeline; None: into the run, or none at all."""


async def execute(runway: Runway, asker: Asker, crew: Crew, *, clock: Clock) -> None:
    """Execute the pre-flight, from the ground up to the agent's first answer. Raises the first refusal; all are on record."""
    plan, place, folder, proxy_url = runway.plan, runway.place, runway.folder, runway.proxy_url
    here = ground(
        folder.path, clock, wall0_ns=folder.wall0_ns, mono0_ns=folder.mono0_ns, descriptors=runway.descriptors
    )
    lines = standing(plan, here, place=place, timeline=folder.timeline)
    if runway.own_timeline is not None:
        lines.append(own_timeline(runway.own_timeline))
    if runway.attest:
        lines = attested(plan, place=place, wall_ns=here.wall_ns) + lines
    record(crew, lines)
    with on_record(crew, "upstream_reachable"):
        crew.line(await reach_upstream(plan, ca=runway.upstream_ca))
    with on_record(crew, "proxy_passes"):
        before = int((await crew.proxy_counts()).get("upstream_errors", 0))
        status, seen, location = await probe_proxy(proxy_url, within_s=10)
        own = int((await crew.proxy_counts()).get("upstream_errors", 0)) > before
        crew.line(await see_through(plan, status, seen, location, own=own))
    if runway.detour is not None:
        own_worker = plan.worker is not None
        said, remedy = runway.detour.said(own_worker=own_worker), runway.detour.remedy(own_worker=own_worker)
        crew.say(f"warning: the agent: {said}; a model client that heeds it never comes to the proxy; {remedy}")
    if plan.worker is not None:
        with on_record(crew, "target_free"):
            crew.line(await nobody_there(plan, runway.addresses))
        with on_record(crew, "worker_starts"):
            await crew.start_worker(plan.worker.cmd)
    else:
        crew.say("the agent is yours to start; its model client has to find the proxy, by whichever of these it reads:")
        crew.say("  export " + " ".join(f"{name}={url}" for name, url in runway.base_urls.items()))
        if runway.own_timeline is None:
            crew.say(f"  export DRILL_LOG={folder.timeline}   for its marks in the evidence")
        else:
            crew.say(f"its marks are taken from {runway.own_timeline}")
    wait_s = plan.worker.ready_s if plan.worker is not None else (runway.agent_wait_s or 0.0)
    if plan.worker is None and runway.by_hand and runway.agent_wait_s is None:
        wait_s = AGENT_WAIT_S

    with on_record(crew, "target_answers"):
        for line in await reach_agent(
            plan,
            asker,
            target=runway.target,
            clock=clock,
            proxy_url=proxy_url,
            proxy_counts=crew.proxy_counts,
            wait_s=wait_s,
            alive=lambda: plan.worker is None or crew.worker_alive,
            attempts=lambda: agents_attempts(folder),
            worker_said=crew.worker_said,
            detour=runway.detour,
        ):
            crew.line(line)


def agents_attempts(folder: Folder) -> list[Mapping[str, Any]]:
    """What the proxy wrote of the agent's own requests: all attempts but the conductor's probe of the proxy."""
    found: list[Mapping[str, Any]] = []
    if not (folder.events / "proxy.jsonl").exists():
        return found
    for line in b"".join(chunks(folder.events / "proxy.jsonl", limit_bytes=1 << 20)).split(b"\n"):
        with contextlib.suppress(msgspec.DecodeError):
            row = msgspec.json.decode(line)
            if row.get("event") == "attempt" and not str(row.get("trace")).startswith(PROXY_PROBE_TRACE):
                found.append(row)
    return found


def record(crew: Recorder, lines: list[Line | Refused]) -> None:
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
            crew.line(Line(check=name.split()[0], status="refused", why=str(line)))
        else:
            crew.line(line)
    if refusals:
        raise refusals[0]


@contextlib.contextmanager
def on_record(crew: Recorder, name: str) -> Iterator[None]:
    """Put a refusal of this line on record on its way out."""
    try:
        yield
    except Problem as problem:
        check_name = problem.place.split()[0] if problem.place.startswith("agent_uses_proxy") else name
        crew.line(Line(check=check_name, status="refused", why=str(problem)))
        raise
