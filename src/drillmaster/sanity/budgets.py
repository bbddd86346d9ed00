"""A plan's arithmetic: how many requests it sends, and whether they can tell the policy's budgets. Rule 3 of `sanity`."""

import math
from collections.abc import Iterator

from drillmaster.errors import Problem, Refused
from drillmaster.pace import arrivals_in
from drillmaster.plan import Plan, Spend
from drillmaster.policy import share_text
from drillmaster.sanity.shapes import Numbers
from drillmaster.stats import calls_for_share

__all__ = [
    "allowed_failures",
    "budget_problems",
    "default_spend",
    "judged_s",
    "least_requests",
    "planned_requests",
    "total_s",
]


def total_s(plan: Plan) -> float:
    """How long the drill takes."""
    return plan.phases.baseline_s + plan.phases.fault_s + plan.phases.recovery_s


def planned_requests(plan: Plan) -> int:
    """How many requests the traffic sends in all."""
    return arrivals_in(total_s(plan), plan.traffic.every_s)


def default_spend(plan: Plan) -> Spend:
    """The cap of a plan that names none: ten requests to the real endpoint for each that baseline and recovery ask."""
    every_s = plan.traffic.every_s
    asked = arrivals_in(plan.phases.baseline_s, every_s) + arrivals_in(plan.phases.recovery_s, every_s)
    return Spend(max_requests=10 * asked + 20)


def least_requests(max_failed_ratio: float) -> int:
    """How many requests it takes to tell a budget at all: 1/budget; one where the budget is 0, which is a census."""
    return calls_for_share(max_failed_ratio) if max_failed_ratio > 0 else 1


def allowed_failures(max_failed_ratio: float, requests: int) -> int:
    """How many of `requests` may fail."""
    return math.floor(round(max_failed_ratio * requests, 9))


def judged_s(plan: Plan, numbers: Numbers) -> float:
    """How long the window is whose failures the policy counts."""
    return plan.phases.fault_s if numbers.failed_window == "fault" else total_s(plan)


def budget_problems(plan: Plan, place: str, numbers: Numbers) -> Iterator[Problem]:
    """A window that has too few requests to tell its budget, or that is shorter than it."""
    window_s = judged_s(plan, numbers)
    requests, least = arrivals_in(window_s, plan.traffic.every_s), least_requests(numbers.max_failed_ratio)
    if requests < least:
        yield Refused(
            f"{place}: /traffic/every_s",
            found=f"{requests} requests in the {numbers.failed_window} window of {window_s:g} s",
            wanted=f"at least {least}: fewer cannot tell a budget of {share_text(numbers.max_failed_ratio)}",
            remedy=f"set every_s to {_shorter(window_s / (least + 2)):g}",
        )
    for name, budget_s, phase, phase_s in (
        ("max_fallback_s", numbers.max_fallback_s, "fault", plan.phases.fault_s),
        ("max_recovery_s", numbers.max_recovery_s, "recovery", plan.phases.recovery_s),
    ):
        if budget_s is not None and budget_s > phase_s:
            yield Refused(
                f"{place}: /phases/{phase}_s",
                found=f"{phase_s:g} s, and the policy's {name} is {budget_s:g} s",
                wanted="a window that is at least as long as its budget",
                remedy=f"set {phase}_s to {budget_s:g} or more, or compress less: budgets stay in seconds",
            )


def _shorter(period_s: float) -> float:
    """A period that is not longer than `period_s` and has three digits at most."""
    digits = 2 - math.floor(math.log10(period_s))
    scale: float = 10.0**digits
    return math.floor(period_s * scale) / scale
