"""Do a drill in less time: by a factor, or by as much as goes. Rule 4 of `sanity`."""

import math
import re

import msgspec

from drillmaster.errors import Refused
from drillmaster.plan import Phases, Plan
from drillmaster.sanity.budgets import judged_s, least_requests
from drillmaster.sanity.checking import MIN_EVERY_S, check
from drillmaster.sanity.shapes import Numbers
from drillmaster.targeting import faster

__all__ = ["compress", "fitting_factor", "parse_factor"]

LEAST_PHASE_S = 10.0
"""How short `--compress max` lets a phase become."""
MAX_FITTING = 30
"""How many times its planned rate `--compress max` asks of the real endpoint, at most."""


def parse_factor(text: str) -> float | None:
    """Read `30x` or `30`; None when it is no finite factor of at least 1."""
    match = re.fullmatch(r"(\d{1,6}(?:\.\d{1,6})?)[xX]?", text.strip())
    return float(match[1]) if match is not None and float(match[1]) >= 1 else None


def _budgets(plan: Plan, numbers: Numbers) -> tuple[tuple[str, float, str, float], ...]:
    """The budgets in seconds, each with the phase it has to fit into."""
    return (
        ("max_fallback_s", numbers.max_fallback_s, "fault_s", plan.phases.fault_s),
        ("max_recovery_s", numbers.max_recovery_s or 0.0, "recovery_s", plan.phases.recovery_s),
    )


def _most(plan: Plan, numbers: Numbers) -> tuple[float, str]:
    """The largest factor that leaves each budget its window and the traffic its least period, and what sets it."""
    each = [
        (phase_s / budget_s, f"{phase} is {phase_s:g} s and the policy's {name} {budget_s:g} s")
        for name, budget_s, phase, phase_s in _budgets(plan, numbers)
        if budget_s > 0
    ]
    least = least_requests(numbers.max_failed_ratio)
    shortest_s = min(plan.traffic.every_s, judged_s(plan, numbers) / (least + 2))
    each.append((shortest_s / MIN_EVERY_S, f"requests come {MIN_EVERY_S * 1000:g} ms apart at least"))
    factor, why = min(each)
    hundredths: int = math.floor(round(factor * 100, 6))
    return hundredths / 100, why


def fitting_factor(
    plan: Plan, numbers: Numbers, *, place: str, wall_ns: int, rehearsal: bool = False, permit_host: str | None = None
) -> float:
    """The factor of `--compress max`: the largest that policy and plan leave room for; 1 where they leave none.

    Each budget stays shorter than its window, a user's patience shorter than the fault, no phase gets shorter than
    LEAST_PHASE_S, the plan still makes sense, and the real endpoint gets at most MAX_FITTING times the planned rate.
    """
    phases = plan.phases
    shortest_s = min(phases.baseline_s, phases.fault_s, phases.recovery_s)
    # Below a bound and not on it: a window that is as long as its budget has no second in which it could be missed.
    below = min(phases.fault_s / plan.traffic.time_limit_s, _most(plan, numbers)[0])
    candidates: tuple[float, ...] = (*range(MAX_FITTING, 1, -1), 1.75, 1.5, 1.25)
    for factor in candidates:
        if factor >= below or shortest_s / factor < LEAST_PHASE_S:
            continue
        sane = check(
            compress(plan, factor, numbers),
            place=place,
            wall_ns=wall_ns,
            numbers=numbers,
            rehearsal=rehearsal,
            permit_host=permit_host,
        )
        if not sane.problems:
            return factor
    return 1.0


def compress(plan: Plan, factor: float, numbers: Numbers) -> Plan:
    """Divide phases and traffic period by `factor`; shorten the period further where fewer than 1/budget would be left.

    Seconds of budgets, of patience and of lingering stay. Raises Refused where a budget does not fit into its window
    any more, or no period is short enough, naming the largest factor that works.
    """
    if not (math.isfinite(factor) and factor >= 1):
        raise Refused(
            "--compress",
            found=f"{factor:g}",
            wanted="a factor of at least 1, such as 5x, or max",
            remedy="write --compress max",
        )
    phases = plan.phases
    most, why = _most(plan, numbers)
    if factor > most:
        short = [
            f"{phase} of {phase_s / factor:.3g} s for the policy's {name}, {budget_s:g} s"
            for name, budget_s, phase, phase_s in _budgets(plan, numbers)
            if budget_s > phase_s / factor
        ]
        raise Refused(
            f"--compress {factor:g}x",
            found=" and ".join(short) or f"requests less than {MIN_EVERY_S * 1000:g} ms apart",
            wanted=f"at most {most:g}x, since {why}; budgets stay in seconds"
            if most >= 1
            else f"a window that holds its budget uncompressed: {why}",
            remedy=f"write --compress max, or {most:g}x at most" if most >= 1 else "lengthen the phase in the plan",
        )
    short_phases = Phases(
        baseline_s=phases.baseline_s / factor, fault_s=phases.fault_s / factor, recovery_s=phases.recovery_s / factor
    )
    rules = tuple(faster(rule, factor) for rule in plan.fault.rules)
    shorter = msgspec.structs.replace(plan, phases=short_phases, fault=msgspec.structs.replace(plan.fault, rules=rules))
    needed_s = judged_s(shorter, numbers) / (least_requests(numbers.max_failed_ratio) + 2)
    every_s = min(plan.traffic.every_s / factor, needed_s, short_phases.baseline_s, short_phases.recovery_s)
    every_s = max(every_s, MIN_EVERY_S)  # the bound above holds but for its rounding
    return msgspec.structs.replace(shorter, traffic=msgspec.structs.replace(plan.traffic, every_s=every_s))
