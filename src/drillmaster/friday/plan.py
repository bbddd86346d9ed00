"""The plan of a Friday drill: missions all the time, chaos flags in the middle, and who listens for the alert.

1. Load and chaos are one run: missions begin with the baseline and end behind the recovery, the flags are on in between. By default
   that is five minutes each.
2. A section's shape stands with its room: `missions`, `flags`, `detectors`. What they must make sense of together is in `checking`.
3. The drill matrix is the policy. It says what is judged, and in which window.
4. Flags are switched by this drill alone, unless the plan names a `control` listener for people with the Lead's token.
"""

from typing import Annotated, Literal

import msgspec

from drillmaster.friday.detectors import Detectors
from drillmaster.friday.flags import FlagsSection
from drillmaster.friday.missions import Missions
from drillmaster.plan import Permit, Phases, Preflight, Seats, Spend, Stop, Traffic, Window, Worker

__all__ = ["Alerting", "Control", "FridayPlan", "Kill", "Target"]


class _Part(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    pass


class Target(_Part, frozen=True, kw_only=True):
    """The agent's base URL: the paths of missions come behind it."""

    url: str
    permit: Permit | None = None


class Kill(_Part, frozen=True, kw_only=True):
    """The kill switch, tried behind the recovery: a capability is killed, and restored after `for_s`."""

    capability: str
    for_s: Annotated[float, msgspec.Meta(gt=0, le=600)] = 10.0


class Control(_Part, frozen=True, kw_only=True):
    """Who may switch flags of a running drill over `flags.listen`, besides the drill itself."""

    lead: bool
    """Whoever has the Lead's token of the run may enable and disable flags of the registry."""


class Alerting(_Part, frozen=True, kw_only=True):
    """The team's own files, for the arithmetic before the drill: what the alert can take at best and at worst."""

    prometheus: str
    """prometheus.yml, relative to the plan; the rules are found from there."""
    alertmanager: str
    """alertmanager.yml, relative to the plan."""
    job: str | None = None
    """Whose samples the rules read; None: of all jobs the slowest counts."""
    receiver: str | None = None
    """The name of the receiver in alertmanager.yml that the drill listens for; None: the one that the route leads to."""


class FridayPlan(_Part, frozen=True, kw_only=True):
    """`kind: plan`, `drill: friday`. See `drillmaster init friday` for one with every field explained."""

    kind: Literal["plan"]
    drill: Literal["friday"]
    service: str
    policy: str = "drill-matrix.yaml"
    """Path of the drill matrix, relative to the plan."""
    target: Target
    missions: Missions
    flags: FlagsSection
    detectors: Detectors
    worker: Worker | None = None
    """How to start the agent. None: it runs already, and has been told where the flag server is (CHAOS_URL)."""
    transcripts: str | None = None
    """Where an agent that the drill does not start writes transcripts, relative to the plan. One that it starts is told by
    DRILL_TRANSCRIPTS."""
    timeline: str | None = None
    """Where such an agent writes its timeline, relative to the plan."""
    phases: Phases = Phases(baseline_s=300, fault_s=300, recovery_s=300)
    kill: Kill | None = None
    tool_attempts: Annotated[int, msgspec.Meta(ge=1, le=100)] | None = None
    """How often the agent tries a tool, for what can be said before the drill; None: nobody says."""
    control: Control | None = None
    alerting: Alerting | None = None
    seats: Seats = Seats()
    window: Window | None = None
    preflight: Preflight = Preflight()
    stop: Stop = Stop()
    owners: dict[str, str] = {}
    """Row -> who owns the follow-up issue; `default` for all others."""
    seed: int = 1

    @property
    def traffic(self) -> Traffic:
        """How long a mission waits; missions have no common period."""
        return Traffic(every_s=1.0, time_limit_s=self.missions.time_limit_s)

    @property
    def spend(self) -> Spend | None:
        """What is spent at the model's endpoint is not seen by this drill: `missions.max_missions` is its bound."""
        return None
