"""What is looked at beside the plan, and what is said of it."""

from typing import Literal

import msgspec

from drillmaster.errors import Problem

__all__ = ["Numbers", "Sanity", "wrong"]


class Numbers(msgspec.Struct, frozen=True, kw_only=True):
    """What the arithmetic needs to know of the policy; its caller reads them there, they have no defaults."""

    max_failed_ratio: float
    failed_window: Literal["fault", "run"]
    max_fallback_s: float
    max_recovery_s: float | None = None


class Sanity(msgspec.Struct, frozen=True):
    """What is wrong with a plan: what stops the drill, and what a person should have heard before it."""

    problems: tuple[Problem, ...]
    warnings: tuple[str, ...]


def wrong(place: str, pointer: str, found: object, wanted: str, remedy: str) -> Problem:
    """A field of the plan, and what should stand there."""
    return Problem(f"{place}: {pointer}", found=str(found), wanted=wanted, remedy=remedy)
