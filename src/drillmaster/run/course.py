"""Which windows a drill has, one after another: one for an eviction drill, as many as it has cells for a matrix.

1. The conductor asks for the next window when the baseline is over, and when each recovery is. None: there is none, and the
   drill drains.
2. A course may take its time to answer, by `Stage.pause` alone, which ends early when somebody stops the drill.
3. A course orders nothing and touches no part: it says what, the conductor does it.
"""

from typing import Any, Protocol

import msgspec

from drillmaster.conduct import State
from drillmaster.plan import Plan
from drillmaster.run.traffic import Tally
from drillmaster.targeting import words

__all__ = ["Course", "Once", "Stage", "Turn"]


class Turn(msgspec.Struct, frozen=True, kw_only=True):
    """One window: what is injected, for how long, and how long the agent has afterwards at least."""

    window: str
    fault: str
    """What people call it."""
    rules: tuple[msgspec.Struct, ...]
    """What the injector is given, in its own words: rules of the wire, or flags."""
    fault_s: float
    recovery_s: float
    linger_s: float = 0.0
    told: str = ""
    """What is said at its injection; empty: the time, in large type, for a Scribe to write down."""


class Stage(Protocol):
    """What a course sees of the drill."""

    state: State

    @property
    def tally(self) -> Tally | None: ...

    def write(self, event: str, /, **fields: Any) -> bool: ...

    def say(self, text: str) -> None: ...

    async def pause(self, seconds: float) -> bool:
        """Let time pass; False when somebody stopped the drill meanwhile."""

    async def requests_spent(self) -> int:
        """How many requests went to the real endpoint so far. Raises Problem where the proxy does not answer."""

    @property
    def worker_alive(self) -> bool: ...

    async def restart_worker(self) -> bool:
        """End the agent and start it anew; False where the drill did not start it, or it does not start."""


class Course(Protocol):
    """The windows of a drill."""

    asks_notes: bool
    """Whether a Scribe's lines are waited for at the end."""

    @property
    def by_hand(self) -> Turn | None:
        """The window that a Lead may inject from another terminal; None: they come by the schedule alone."""

    async def next(self, stage: Stage) -> Turn | None:
        """The window that comes now; None: that was the last."""


class Once:
    """One window, as the plan says."""

    asks_notes = True

    def __init__(self, plan: Plan) -> None:
        phases, fault = plan.phases, plan.fault
        self._turn = Turn(
            window="w1",
            fault="; ".join(words(rule) for rule in fault.wanted),
            rules=fault.wanted,
            fault_s=phases.fault_s,
            recovery_s=phases.recovery_s,
            linger_s=fault.linger_s,
        )

    @property
    def by_hand(self) -> Turn | None:
        return self._turn

    async def next(self, stage: Stage) -> Turn | None:
        return self._turn if stage.state is State.BASELINE else None
