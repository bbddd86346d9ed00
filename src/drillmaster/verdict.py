"""What a gate says: measures against limits, and one status out of many checks.

1. A measure is exact, censored ("at least 900 s": a fallback that never came), or absent. Absence is never judged: it
   is refused. A censored measure is judged where it settles the question, and refused where it does not.
2. An *admission* that does not pass refuses the verdict: the drill proved nothing, whatever its numbers.
3. After that a failed *judgement* outranks a refused one, and a refused one outranks a pass.
4. No judgement at all is a refusal. Nothing looked at is not a pass.
"""

import math
from collections.abc import Sequence
from typing import Literal

import msgspec

from drillmaster.errors import Exit

__all__ = [
    "Absent",
    "AtLeast",
    "AtMost",
    "Check",
    "Cite",
    "Exact",
    "Finding",
    "Measure",
    "Role",
    "Status",
    "Verdict",
    "at_most",
    "conclude",
    "holds",
    "looked_at",
]

Status = Literal["pass", "fail", "refused"]
Role = Literal["admission", "judgement"]


class Exact(msgspec.Struct, frozen=True, tag="exact"):
    """A value that was seen, over `n` observations; `low` and `high` bound it where it is an estimate."""

    value: float
    n: int | None = None
    low: float | None = None
    high: float | None = None


class AtLeast(msgspec.Struct, frozen=True, tag="at_least"):
    """Censored on the right: it took this long and was not over when we stopped looking."""

    value: float
    n: int | None = None


class AtMost(msgspec.Struct, frozen=True, tag="at_most"):
    """Censored on the left: it was over when we looked, and we looked this late."""

    value: float
    n: int | None = None


class Absent(msgspec.Struct, frozen=True, tag="absent"):
    """Nothing was measured, and why."""

    why: str


Measure = Exact | AtLeast | AtMost | Absent


class Cite(msgspec.Struct, frozen=True):
    """A line of evidence: file inside the run folder, line from 1 (0: the whole file)."""

    file: str
    line: int


class Check(msgspec.Struct, frozen=True, kw_only=True):
    """One thing looked at.

    `id` is stable and is what scripts match; `title` is the line a person reads after `PASS `, `FAIL ` or `REFUSED `.
    `why` says what was found where that is not plain from the title; `remedy` is the one command or edit that makes a
    refusal go away.
    """

    id: str
    role: Role
    status: Status
    title: str
    observed: Measure | None = None
    limit: float | str | None = None
    unit: str = ""
    cites: tuple[Cite, ...] = ()
    why: str = ""
    remedy: str = ""


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """A diagnosis: what most likely happened and what to do next. It never changes the status."""

    id: str
    cause: str
    next: str
    cites: tuple[Cite, ...] = ()


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """The answer, with everything needed to give it again: digests, `now`, version, and all that was counted."""

    gate: str
    status: Status
    checks: tuple[Check, ...]
    findings: tuple[Finding, ...] = ()
    stamps: tuple[str, ...] = ()
    """What every form prints in its heading: UNSEALED, UNPROVEN, UNPINNED, REHEARSAL, DEMO, COMPRESSED 30x."""
    subject: str = ""
    """What was judged, for a heading: service and run, or the file."""
    headline: tuple[str, ...] = ()
    """Lines a person should read first, such as the budget sentence."""
    counts: dict[str, int] = {}
    """Everything examined, by name."""
    evidence_digest: str = ""
    policy_digest: str = ""
    now: str = ""
    version: str = ""

    @property
    def exit(self) -> Exit:
        return {"pass": Exit.PASS, "fail": Exit.FAIL, "refused": Exit.REFUSED}[self.status]


def conclude(checks: Sequence[Check]) -> Status:
    """Fold checks into one status by the rules above."""
    if any(c.role == "admission" and c.status != "pass" for c in checks):
        return "refused"
    judgements = [c.status for c in checks if c.role == "judgement"]
    if not judgements:
        return "refused"
    for status in ("fail", "refused"):
        if status in judgements:
            return status
    return "pass"


def at_most(observed: Measure, limit: float) -> Status:
    """Judge a measure against an upper limit; equal passes. Not a number, on either side, is refused."""
    if not math.isfinite(limit):
        return "refused"
    match observed:
        case Exact(value=value) if math.isfinite(value):
            return "pass" if value <= limit else "fail"
        case AtLeast(value=value) if value > limit:
            return "fail"
        case AtMost(value=value) if value <= limit:
            return "pass"
    return "refused"


def looked_at(
    id: str,
    status: Status,
    title: str,
    *,
    role: Role = "judgement",
    observed: Measure | None = None,
    limit: float | str | None = None,
    unit: str = "",
    why: str = "",
    remedy: str = "",
    cites: tuple[Cite, ...] = (),
) -> Check:
    """Make a check; why and cites stand only on one that did not pass, the remedy only on a refusal."""
    return Check(
        id=id,
        role=role,
        status=status,
        title=title,
        observed=observed,
        limit=limit,
        unit=unit,
        why="" if status == "pass" else why,
        remedy=remedy if status == "refused" else "",
        cites=() if status == "pass" else cites,
    )


def holds(condition: bool | None, *, otherwise: Status = "fail") -> Status:
    """Turn a fact into a status: True passes, False is `otherwise`, unknown (None) is refused."""
    if condition is None:
        return "refused"
    return "pass" if condition else otherwise
