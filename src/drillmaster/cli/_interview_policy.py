"""Thresholds that are named before an interview: whether its plan can meet them, and how long that takes."""

from pathlib import Path
from typing import TYPE_CHECKING

from drillmaster.errors import Problem

if TYPE_CHECKING:
    from drillmaster.ladder import InterviewPlan

__all__ = ["wanted"]


def wanted(
    policy: Path | None, plan: "InterviewPlan", *, base: Path, rehearsal: bool
) -> dict[str, tuple[int, float]] | None:
    """Level by level the calls and seconds that the policy's bounds take. Raises Problem where no run of this plan could pass.

    `base` is where the plan lies, whose commit the run will be of.
    """
    if policy is None:
        return None
    from drillmaster.intake.change import change_of, last_change
    from drillmaster.intake.interviews import read_thresholds
    from drillmaster.intake.thresholds import apart
    from drillmaster.ladder import steps
    from drillmaster.sanity import empty_seats

    gate = read_thresholds(policy).gate
    labels = tuple(step.label for step in steps(plan) if step.kind != "warmup")
    seats = plan.seats.names()
    head = change_of(base.absolute())
    not_the_drivers, _ = apart(
        last_change(policy, at=None if head is None else head.commit),
        driver=seats["driver"],
        reader=seats["reader"],
        rehearsal=rehearsal or bool(empty_seats(seats)),
        name=policy.name,
    )
    foreseen = [not_the_drivers] if not_the_drivers.status == "refused" else []
    for check in [*foreseen, *gate.foreseen(labels, plan.timeout_s)]:
        raise Problem(
            f"{policy}",
            found=check.why,
            wanted="thresholds that a run of this plan can meet: it would be refused, whatever comes of it",
            remedy=check.remedy,
        )
    return gate.wants()
