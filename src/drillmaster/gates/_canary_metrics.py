"""What a canary gate looks at: a collector's numbers, and how a check of them is written."""

import msgspec

__all__ = ["Arm", "CanaryMetrics"]


class Arm(msgspec.Struct, frozen=True, kw_only=True):
    """What was counted of one build in the window."""

    requests: int
    errors: int
    p95_ms: float
    healthy_hosts: int
    slo_burn: float | None = None
    """As the collector reports it: 1 spends the error budget just in time. None: it reports none."""
    artifact: str = ""

    @property
    def error_ratio(self) -> float:
        """1 where there were no requests: nothing counted is no success."""
        return self.errors / self.requests if self.requests else 1.0


class CanaryMetrics(msgspec.Struct, frozen=True, kw_only=True):
    """A collector's numbers on a canary. None: the form of the file has no field for it."""

    source: str
    """The collector, as the file names it."""
    canary: Arm
    baseline: Arm | None = None
    window_s: float
    ended_ns: int | None = None
    """Of the window, wall time."""
    produced_ns: int
    coverage_ratio: float | None = None
    """Share of the window in which the collector had a sample of the canary's hosts."""
    service: str = ""
    wanted_artifact: str | None = None
    """The build that is about to have more traffic, as whoever promotes names it."""
    offered: tuple[str, ...] = ()
    """Where in file or command line somebody's verdict was offered."""
    signers: tuple[str, ...] = ()
    """Identities whose signatures under the policy held."""
    now_ns: int
