"""The drill as a table: who may order what, when, and what then happens to the fault.

1. What is not in `MOVES` is refused and changes nothing.
2. Only the Lead starts, injects, lifts and stops. The schedule acts for the Lead who started it; a guard (a stop
   condition, a signal) can only stop. The Scribe writes notes, the Verifier judges what is sealed, and nothing else.
3. A fault is in place in exactly one state, `INJECTED`. Every move out of it lifts, and `STOPPING` lifts again whatever
   went before, since the order that brought us there may be an injection of which nobody knows how it went.
4. People inject once a run: what they rehearse is one fault, and one call. Only a schedule injects again, from the recovery.
5. The table is not what a fault's life hangs on: the proxy holds the deadline, and without renewals it lifts by itself.
"""

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType

import msgspec

from drillmaster.errors import Refused

__all__ = [
    "FINAL",
    "MOVES",
    "NOTE_KINDS",
    "SAID",
    "Effect",
    "Order",
    "Role",
    "State",
    "Step",
    "effects",
    "owner",
    "step",
]


class State(StrEnum):
    PREPARING = "preparing"
    BASELINE = "baseline"
    INJECTED = "injected"
    RECOVERY = "recovery"
    DRAINING = "draining"
    STOPPING = "stopping"
    SEALED = "sealed"
    ABORTED = "aborted"


class Role(StrEnum):
    LEAD = "lead"
    SCRIBE = "scribe"
    VERIFIER = "verifier"
    SCHEDULE = "schedule"
    """The plan's own clock, which the Lead started."""
    GUARD = "guard"
    """A stop condition, a signal, a part that failed."""


class Order(StrEnum):
    START = "start"
    INJECT = "inject"
    LIFT = "lift"
    STOP = "stop"
    NOTE = "note"
    DRAIN = "drain"
    SEAL = "seal"
    JUDGE = "judge"


class Effect(StrEnum):
    """What a move does to the world, in the order in which it is to be done."""

    INJECT = "inject"
    LIFT = "lift"


FINAL = frozenset({State.SEALED, State.ABORTED})

NOTE_KINDS = ("injection_seen", "first_fallback_seen", "no_fallback_seen", "window_ended", "other")
"""What a Scribe's line can be about."""

SAID: Mapping[State, str] = MappingProxyType(
    {
        State.PREPARING: "in its pre-flight",
        State.BASELINE: "in its baseline",
        State.INJECTED: "under its fault",
        State.RECOVERY: "recovering",
        State.DRAINING: "waiting for its last answers",
        State.STOPPING: "being stopped",
        State.SEALED: "over and sealed",
        State.ABORTED: "stopped and sealed",
    }
)
"""How a person says where a drill is: `the drill is ...`."""

_LIVE = (State.PREPARING, State.BASELINE, State.INJECTED, State.RECOVERY, State.DRAINING, State.STOPPING)

MOVES: Mapping[tuple[State, Role, Order], State] = MappingProxyType(
    {
        (State.PREPARING, Role.LEAD, Order.START): State.BASELINE,
        (State.BASELINE, Role.LEAD, Order.INJECT): State.INJECTED,
        (State.BASELINE, Role.SCHEDULE, Order.INJECT): State.INJECTED,
        (State.INJECTED, Role.LEAD, Order.LIFT): State.RECOVERY,
        (State.INJECTED, Role.SCHEDULE, Order.LIFT): State.RECOVERY,
        (State.RECOVERY, Role.SCHEDULE, Order.INJECT): State.INJECTED,
        (State.RECOVERY, Role.SCHEDULE, Order.DRAIN): State.DRAINING,
        (State.BASELINE, Role.SCHEDULE, Order.DRAIN): State.DRAINING,
        (State.DRAINING, Role.SCHEDULE, Order.SEAL): State.SEALED,
        (State.STOPPING, Role.SCHEDULE, Order.SEAL): State.ABORTED,
        (State.SEALED, Role.VERIFIER, Order.JUDGE): State.SEALED,
        (State.ABORTED, Role.VERIFIER, Order.JUDGE): State.ABORTED,
        **{(state, Role.SCRIBE, Order.NOTE): state for state in _LIVE},
        **{
            (state, role, Order.STOP): State.STOPPING
            for state in _LIVE
            if state is not State.STOPPING
            for role in (Role.LEAD, Role.GUARD)
        },
    }
)


class Step(msgspec.Struct, frozen=True):
    """Where a move leads, and what has to be done on the way."""

    state: State
    effects: tuple[Effect, ...]


def effects(before: State, after: State) -> tuple[Effect, ...]:
    """What the move from `before` to `after` does to the fault."""
    if before is after:
        return ()
    if after is State.INJECTED:
        return (Effect.INJECT,)
    if before is State.INJECTED or after is State.STOPPING:
        return (Effect.LIFT,)
    return ()


def owner(order: Order) -> Role:
    """Whose order it is, for a refusal that names the seat."""
    return {Order.NOTE: Role.SCRIBE, Order.JUDGE: Role.VERIFIER}.get(order, Role.LEAD)


def step(state: State, role: Role, order: Order) -> Step:
    """Look a move up. Raises Refused when the table does not hold it: wrong seat, or not now."""
    after = MOVES.get((state, role, order))
    if after is not None:
        return Step(after, effects(state, after))
    theirs = owner(order)
    if role is not theirs and (state, theirs, order) in MOVES:
        raise Refused(
            f"order {order}",
            found=f"the {role.capitalize()}'s token",
            wanted=f"the {theirs.capitalize()}'s: {order} is the {theirs.capitalize()}'s order",
            remedy=f"ask the {theirs.capitalize()}, who holds {theirs}.token",
        )
    allowed = {s for s, r, o in MOVES if o is order and r in (role, theirs)}
    raise Refused(
        f"order {order}",
        found=f"a drill that is {SAID[state]}",
        wanted="one that is "
        + (" or ".join(SAID[s] for s in State if s in allowed) if len(allowed) < 4 else "going on"),
        remedy="see `drillmaster report RUN` for what was recorded" if state in FINAL else "wait for that phase",
    )
