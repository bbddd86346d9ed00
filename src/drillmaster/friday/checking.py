"""What a Friday drill's plan must make sense of across its sections. Pure: a plan and its files in, problems and warnings out.

1. Everything wrong is found at once, as far as it can be told apart.
2. A row that cannot be met under these flags is said before the drill, and is no problem: it may be what a team wants to see.
3. Where missions come by the clock, how many there will be in all is said, and held against what is permitted.
"""

import math
from collections.abc import Iterator, Mapping

import msgspec

from drillmaster.clock import parse_rfc3339
from drillmaster.errors import Problem
from drillmaster.friday.flags import Registry, unknown_flag, what_is_wrong
from drillmaster.friday.missions import Artillery, Held, Locust, MissionFile, arriving, section_problems
from drillmaster.friday.plan import FridayPlan
from drillmaster.plan import Phases
from drillmaster.sanity import (
    MAX_DRILL_S,
    Sanity,
    empty_seats,
    is_loopback,
    parse_listen,
    permission_problems,
    seat_problems,
    split_url,
    window_problem,
)
from drillmaster.sanity.shapes import wrong

__all__ = ["LEAST_PHASE_S", "check", "compress", "fitting_factor", "planned_s"]

LEAST_PHASE_S = 10.0
"""How short `--compress max` lets a phase become."""


def check(
    plan: FridayPlan,
    registry: Registry,
    files: Mapping[str, MissionFile],
    *,
    place: str,
    wall_ns: int,
    rehearsal: bool = False,
    permit_host: str | None = None,
) -> Sanity:
    """Look at everything that can be known before a socket is opened. `files`: our own missions by the name in the plan."""
    problems = [
        *_phases(plan, place),
        *_target(plan, place),
        *section_problems(plan.missions, place=place),
        *_flags(plan, registry, place, wall_ns),
        *_kill(plan, registry, place),
        *seat_problems(plan.seats.names(), place=place, rehearsal=rehearsal),
        *_window(plan, place, wall_ns),
    ]
    if not problems:
        problems += _permission(plan, place, wall_ns, permit_host)
        problems += _websocket_only(plan, files, place)
    return Sanity(tuple(problems), tuple(_warnings(plan, files)) if not problems else ())


def planned_s(plan: FridayPlan) -> float:
    """How long the missions go on."""
    phases = plan.phases
    return phases.baseline_s + phases.fault_s + phases.recovery_s + (plan.kill.for_s if plan.kill else 0.0)


def compress(plan: FridayPlan, factor: float) -> FridayPlan:
    """Divide the phases, in how long the first missions are begun, and the seconds of arrivals.

    Limits, rates, a mission's time and what is in flight stay. The phases of a profile are divided where it is read.
    """
    phases = plan.phases
    loads = tuple(
        msgspec.structs.replace(
            load, ramp_s=load.ramp_s / factor, arrivals=tuple(one.over(factor) for one in load.arrivals)
        )
        if isinstance(load, Held)
        else load
        for load in plan.missions.loads
    )
    return msgspec.structs.replace(
        plan,
        phases=Phases(
            baseline_s=phases.baseline_s / factor,
            fault_s=phases.fault_s / factor,
            recovery_s=phases.recovery_s / factor,
        ),
        missions=msgspec.structs.replace(plan.missions, loads=loads),
    )


def fitting_factor(plan: FridayPlan, *, alert_s: float | None) -> float:
    """The factor of `--compress max`: no phase under LEAST_PHASE_S, and an alert that may take `alert_s` has its time."""
    phases = plan.phases
    shortest_s = min(phases.baseline_s, phases.fault_s, phases.recovery_s)
    most = shortest_s / LEAST_PHASE_S
    if (
        alert_s is not None
    ):  # below the bound and not on it: a window as long as its limit has no second in which it is missed
        most = min(most, (phases.fault_s + phases.recovery_s) / (alert_s + 5.0))
    return max(1.0, math.floor(most * 4) / 4)


def _phases(plan: FridayPlan, place: str) -> Iterator[Problem]:
    whole = True
    for name, value in msgspec.structs.asdict(plan.phases).items():
        if not (math.isfinite(value) and 0 < value <= MAX_DRILL_S):
            whole = False
            yield wrong(place, f"/phases/{name}", f"{value:g}", f"seconds > 0, at most {MAX_DRILL_S}", "set it")
    if whole and planned_s(plan) > MAX_DRILL_S:
        yield wrong(place, "/phases", f"{planned_s(plan):g} s in all", "a drill that is over in a day", "shorten them")
    stop = plan.stop
    if stop.failed_ratio is not None and not 0 < stop.failed_ratio <= 1:
        yield wrong(place, "/stop/failed_ratio", stop.failed_ratio, "a ratio > 0 and <= 1", "set it, or leave it out")
    if not 1 <= stop.over_requests <= 100_000:
        yield wrong(place, "/stop/over_requests", stop.over_requests, "1 to 100,000 missions", "set it")
    if not plan.service.strip():
        yield wrong(place, "/service", "nothing", "the service's name", "name it")


def _target(plan: FridayPlan, place: str) -> Iterator[Problem]:
    parts = split_url(plan.target.url)
    if parts is None or parts.query or parts.fragment or parts.username is not None:
        yield wrong(
            place,
            "/target/url",
            "no base URL",
            "scheme, host, port and perhaps a path",
            "write `url: http://127.0.0.1:8090`; the paths of requests stand in missions.yaml",
        )
    if parse_listen(plan.flags.listen) is None:
        yield wrong(place, "/flags/listen", repr(plan.flags.listen)[:60], "ADDRESS:PORT", "write 127.0.0.1:8070")
    for name, given in (("timeline", plan.timeline), ("transcripts", plan.transcripts)):
        if given is not None and plan.worker is not None:
            yield wrong(
                place,
                f"/{name}",
                given[:60],
                f"none beside `worker`, which is told where its {name} go",
                f"remove {name}",
            )


def _permission(plan: FridayPlan, place: str, wall_ns: int, permit_host: str | None) -> Iterator[Problem]:
    missions, per_s = _arrivals(plan)
    permit = plan.target.permit
    yield from permission_problems(
        plan.target.url,
        permit,
        place=place,
        wall_ns=wall_ns,
        permit_host=permit_host,
        total_s=planned_s(plan),
        per_s=per_s,
        requests=missions,
        calmer="hold fewer missions, or ask the owner for more",
    )


def _arrivals(plan: FridayPlan) -> tuple[int, float]:
    """How many missions come by the clock in all, and the highest rate at which they do."""
    count, per_s = 0, 0.0
    for load in plan.missions.loads:
        match load:
            case Held() if load.arrivals:
                count += arriving(load.arrivals)
                per_s += max(max(part.per_s, part.to_per_s or 0.0) for part in load.arrivals)
            case Artillery():
                count += load.max_arrivals
            case Held() | Locust():
                pass
    return count, per_s


def _flags(plan: FridayPlan, registry: Registry, place: str, wall_ns: int) -> Iterator[Problem]:
    for one in what_is_wrong(plan.flags, registry, fault_s=plan.phases.fault_s, now_wall_ns=wall_ns):
        yield wrong(place, one.pointer, one.found, one.wanted, one.remedy)


def _kill(plan: FridayPlan, registry: Registry, place: str) -> Iterator[Problem]:
    if plan.kill is not None and plan.kill.capability not in registry.capabilities:
        yield unknown_flag(
            plan.kill.capability, registry.capabilities, place=f"{place}: /kill/capability", what="capability"
        )


def _window(plan: FridayPlan, place: str, wall_ns: int) -> Iterator[Problem]:
    if plan.window is None or not planned_s(plan) <= MAX_DRILL_S:  # refused by its phases
        return
    for end in ("start", "end"):
        if parse_rfc3339(getattr(plan.window, end)) is None:
            yield wrong(
                place, f"/window/{end}", getattr(plan.window, end)[:40], "RFC 3339 with a zone", "write both ends"
            )
            return
    from_ns = wall_ns + round(plan.phases.baseline_s * 1e9)
    outside = window_problem(plan, place=place, from_ns=from_ns, until_ns=from_ns + round(plan.phases.fault_s * 1e9))
    if outside is not None:
        yield outside


def _websocket_only(plan: FridayPlan, files: Mapping[str, MissionFile], place: str) -> Iterator[Problem]:
    for nth, load in enumerate(plan.missions.loads):
        if isinstance(load, Held) and load.file not in files:
            yield wrong(
                place, f"/missions/loads/{nth}/file", load.file, "a file of missions", "drillmaster init friday"
            )


def _warnings(plan: FridayPlan, files: Mapping[str, MissionFile]) -> Iterator[str]:
    empty = empty_seats(plan.seats.names())
    if empty:
        yield f"nobody is named as {', '.join(empty)}: the run is stamped REHEARSAL"
    missions, per_s = _arrivals(plan)
    if per_s:
        yield (
            f"{missions:,} missions come by the clock, up to {per_s:g} a second, whatever becomes of those before: "
            f"an agent that takes 2.5 s has {per_s * 2.5:.0f} in flight then"
        )
    permit = plan.target.permit
    if permit is not None and plan.missions.concurrent:
        yield (
            f"missions that are held come as fast as they are answered; the permit ends them at {permit.max_requests:,} requests, "
            f"{permit.max_requests / planned_s(plan):.0f} a second over the whole drill"
        )
    entries = {flow.entry for file in files.values() for flow in file.flows}
    if files and "websocket" not in entries:
        yield "no mission opens a WebSocket: a row of that entry would be refused"
    if plan.missions.time_limit_s >= plan.phases.fault_s:
        yield (
            f"a mission waits {plan.missions.time_limit_s:g} s and the flags are on for {plan.phases.fault_s:g} s: "
            "nobody gives up before they are off"
        )
    listen = parse_listen(plan.flags.listen)
    if listen is not None and not is_loopback(listen[0]):
        yield f"the flag server listens on {plan.flags.listen}: whoever reads there needs the read token"
    if plan.control is not None and plan.control.lead:
        yield "flags can be switched from outside during the drill, with the Lead's token; each switching is in the evidence"
    if plan.window is not None:
        yield f"quiet window {plan.window.start} .. {plan.window.end}"
