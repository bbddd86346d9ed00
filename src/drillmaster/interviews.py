"""What a load interview found: one level per step of it, each with what was asked, what was held and what came.

1. A level's latencies count from when a call was due. Failed calls are counted by kind and lower no latency; a call that was
   cut at its time limit took "at least" that long and stays among the latencies.
2. A level of a run holds its raw samples. One of an article's file holds the figures that its script wrote, and no more can
   be said than they say: no other quantile, no bound.
3. A level that the client could not hold (too few in flight, sent late, a core that was full) is void: its numbers are the
   client's.
"""

from collections.abc import Mapping
from typing import Literal

import msgspec

from drillmaster.stats import quantile
from drillmaster.verdict import Absent, Exact, Measure

__all__ = ["Interview", "Kind", "Level", "quantile_name"]

Kind = Literal["cold", "closed", "open", "drain"]


class Level(msgspec.Struct, frozen=True, kw_only=True):
    """One step: the cold call, one number of callers, one arrival rate, the drain of a batch."""

    label: str
    """`cold`, `warm_c4`, `open_r20`, `drain`."""
    kind: Kind
    n: int
    """Calls that were due."""
    failed: Mapping[str, int] = {}
    """Kind of failure to how many."""
    ok_s: tuple[float, ...] | None = None
    """Latencies of the good calls; None: only `known` is known."""
    cut_s: tuple[float, ...] = ()
    """Of calls that were cut at the time limit: at least so long."""
    known: Mapping[str, float] = {}
    """What a file says without its samples: `p50`, `p95`, `max`, in seconds."""
    void: tuple[str, ...] = ()
    """Why its numbers are the client's and not the endpoint's."""

    @property
    def failures(self) -> int:
        return sum(self.failed.values())

    def latency(self, name: str, *, confidence: float = 0.90) -> Measure:
        """Measure `p50`, `p95`, … or `max`, in seconds. Its upper end bounds the quantile at (1 + confidence) / 2, one-sided."""
        if self.ok_s is None:
            value = self.known.get(name)
            return Absent(f"the file does not say {name}") if value is None else Exact(value, n=self.n)
        if not self.ok_s and not self.cut_s:
            return Absent("no call that was answered")
        if name == "max":
            return quantile(self.ok_s, 1.0, censored=self.cut_s, confidence=confidence)
        return quantile(self.ok_s, int(name[1:]) / 10 ** (len(name) - 1), censored=self.cut_s, confidence=confidence)


class Interview(msgspec.Struct, frozen=True, kw_only=True):
    """All a gate may look at."""

    name: str
    url: str
    """Without user info and query."""
    declared: tuple[str, ...]
    """The labels of the levels that were to be run."""
    levels: tuple[Level, ...]
    time_limit_s: float | None = None
    """When a call was cut; None: not known."""
    idle_s: float | None = None
    """How long nobody called before the cold call."""
    bare: bool = False
    """One file, unsealed: somebody's word."""
    digest: str = ""
    ended_wall_ns: int | None = None
    examined: Mapping[str, int] = {}

    def level(self, label: str) -> Level | None:
        return next((level for level in self.levels if level.label == label), None)


def quantile_name(field: str) -> str:
    """The quantile that a limit's field is about: `p95_s` is `p95`, `max_s` is `max`."""
    return field.removesuffix("_s")
