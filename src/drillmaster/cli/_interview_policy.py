"""Thresholds that are named before an interview: whether its plan can meet them, and how long that takes."""

from pathlib import Path
from typing import TYPE_CHECKING

from drillmaster.errors import Problem

if TYPE_CHECKING:
    from drillmaster.ladder import InterviewPlan

__all__ = ["wanted"]


def wanted(policy: Path | None, plan: "InterviewPlan") -> dict[str, tuple[int, float]] | None:
    """Level by level the calls and seconds that the policy's bounds take. Raises Problem where no run of this plan could pass."""
    if policy is None:
        return None
    from drillmaster.intake.interviews import read_thresholds
    from drillmaster.ladder import steps

    gate = read_thresholds(policy).gate
    labels = tuple(step.label for step in steps(plan) if step.kind != "warmup")
    for check in gate.foreseen(labels, plan.timeout_s):
        raise Problem(
            f"{policy}",
            found=check.why,
            wanted="thresholds that a run of this plan can meet: it would be refused, whatever comes of it",
            remedy=check.remedy,
        )
    return gate.wants()
