"""Counts over a Friday's columns. The rules are in the package's docstring."""

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec

from drillmaster.rules.tool_recovery import MissionTools, Recovery
from drillmaster.verdict import Absent, AtLeast, Exact, Measure

if TYPE_CHECKING:
    from drillmaster.fridays.shapes import HeldAt, Killed, Missions

__all__ = ["Held", "Recovered", "held", "kill", "ratio", "recovered"]

_SHOWN = 3
_COVERED = 0.5
"""Of less of a span the driver's counts say nothing of the whole."""


class Held(msgspec.Struct, frozen=True, kw_only=True):
    """How many were in flight over a span of time."""

    mean: float
    """Weighted by time; the lower of the two counts."""
    by_missions: float
    by_driver: float | None
    """None: the driver counted too seldom to say."""
    most: int
    busy_ratio: float
    """The share of the span in which at least one was in flight."""


class Recovered(msgspec.Struct, frozen=True, kw_only=True):
    """Missions with tool calls: how many there are, and of how many all calls ended well."""

    n: int
    ok: int
    calls: int
    attempts: int
    again: int
    """Missions that needed more than one attempt at a call, and ended well."""
    killed: int
    """Missions left out: a kill switch that was on refused their call."""
    bad: tuple[tuple[str, int], ...] = ()
    """File and line of the first missions that did not end well."""

    @property
    def attempts_per_call(self) -> Measure:
        return Exact(self.attempts / self.calls, n=self.calls) if self.calls else Absent("no tool call")


def ratio(good: int, n: int) -> Measure:
    """A share of what was counted; absent where nothing was."""
    return Exact(good / n, n=n) if n else Absent("nothing was counted")


def held(missions: "Missions", said: "HeldAt", span: tuple[float, float], run_end_s: float) -> Held:
    """Weigh what was in flight by time, from missions' own spans and from the driver's count."""
    from_s, to_s = span
    total = 0.0
    edges: list[tuple[float, int]] = []
    for sent_s, end_s in zip(missions.sent_s, missions.end_s, strict=True):
        if sent_s != sent_s:
            continue
        begin_s = max(sent_s, from_s)
        over_s = min(end_s if end_s == end_s else run_end_s, to_s)
        if over_s > begin_s:
            total += over_s - begin_s
            edges.append((begin_s, 1))
            edges.append((over_s, -1))
    edges.sort()
    now = most = 0
    busy_s, since_s = 0.0, from_s
    for at_s, change in edges:
        if now:
            busy_s += at_s - since_s
        since_s = at_s
        now += change
        most = max(most, now)
    by_missions = total / (to_s - from_s)
    by_driver = _driver(said, from_s, to_s)
    return Held(
        mean=by_missions if by_driver is None else min(by_missions, by_driver),
        by_missions=by_missions,
        by_driver=by_driver,
        most=most,
        busy_ratio=min(1.0, busy_s / (to_s - from_s)),
    )


def _driver(said: "HeldAt", from_s: float, to_s: float) -> float | None:
    """The driver's counts, each for as long as it says it held; None: they cover less than half of the span."""
    weighed = covered_s = 0.0
    for begin_s, end_s, mean in zip(said.from_s, said.to_s, said.mean, strict=True):
        inside_s = min(end_s, to_s) - max(begin_s, from_s)
        if inside_s > 0:
            weighed += mean * inside_s
            covered_s += inside_s
    return weighed / covered_s if covered_s >= _COVERED * (to_s - from_s) else None


def recovered(found: Recovery, kills: "Sequence[Killed]", ids: frozenset[str], wall0_ns: int) -> Recovered:
    """Count missions whose tool calls all ended well, of those among `ids`."""
    ok = again = calls = attempts = killed = 0
    bad: list[MissionTools] = []
    for one in found.missions:
        if one.mission not in ids:
            continue
        calls += one.calls
        attempts += one.attempts
        if one.succeeded:
            ok += 1
            again += one.outcome == "recovered"
        elif one.outcome == "killed" and any(_ordered(one, kill, wall0_ns) for kill in kills):
            killed += 1
        else:
            bad.append(one)
    return Recovered(
        n=ok + len(bad),
        ok=ok,
        calls=calls,
        attempts=attempts,
        again=again,
        killed=killed,
        bad=tuple((one.file, one.line) for one in bad[:_SHOWN]),
    )


def _ordered(one: MissionTools, kill: "Killed", wall0_ns: int) -> bool:
    """Whether a mission's call was refused by a kill that was on while it called."""
    if not set(kill.tools or (kill.capability,)) & set(one.tools):
        return False
    restored_s = math.inf if kill.restored_s is None else kill.restored_s
    return (one.first_wall_ns - wall0_ns) / 1e9 <= restored_s and (one.last_wall_ns - wall0_ns) / 1e9 >= kill.killed_s


def kill(one: "Killed") -> Measure:
    """How long a kill took, in seconds: until the last call that ran was over, and each worker held it.

    Where nothing was refused, it took at least as long as calls ran on, and nobody knows whether it ever came.
    """
    if not one.refused and one.ran and one.last_end_s is not None:
        return AtLeast(max(one.last_end_s - one.killed_s, 0.0), n=one.ran)
    if not one.refused:
        return Absent(f"no call of {one.capability} was refused after the kill: nothing called it, or nothing refused")
    if one.undrained:
        return AtLeast(one.over_s, n=one.refused + one.ran)
    ran_s = 0.0 if one.last_end_s is None else one.last_end_s - one.killed_s
    return Exact(max(ran_s, *one.drained_s.values(), 0.0), n=one.refused + one.ran)
