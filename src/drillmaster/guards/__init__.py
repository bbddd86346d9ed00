"""Guards: the same kind of decision inside a running worker. Pinned limits and facts in, one decision out. One file an entry.

1. A guard is its limits as fields, without defaults but where a smaller answer is the default, and one pure step. It reads no
   clock, no file and no network; importing it sets up nothing.
2. Its facts are a closed type of numbers and names that the worker's own code knows. A body, a prompt or an answer has no field
   to arrive in. What has the wrong type, or is out of range, is denied with a reason of its own and raises nothing.
3. Its reasons are a closed set. Exactly one stands in each decision.
4. A guard with state asks a law (`rules.Law`): `asks` says which question its facts come to, or decides at once where none is
   left; `decides` reads the answer. A store carries the law out, atomically, on its own clock, in one round trip
   (`stores.decide`). A store that cannot be reached denies.
5. A guards file (`policy.GuardsFile`) holds a team's guards, each with its limits, under one pin: whose numbers they are, and
   until when.
"""

import importlib
import pkgutil
from typing import Any, ClassVar, Generic, TypeVar

import msgspec

from drillmaster.errors import Problem
from drillmaster.rules import AnyLaw

__all__ = ["STORE_UNAVAILABLE", "Ask", "Decision", "Guard", "find", "names"]

S = TypeVar("S")
F = TypeVar("F")

STORE_UNAVAILABLE = {"store-unavailable": "The store did not answer in time: what nobody can count is denied."}


class Decision(msgspec.Struct, frozen=True, kw_only=True):
    """One answer. `reason` is of the guard's closed set."""

    allowed: bool
    reason: str
    wait_ms: int = 0
    """Not before so long from now, whether allowed here or somewhere else later."""
    left: int | None = None
    """Of what is counted, where something is."""
    limit: str | None = None
    """Which of several limits that is, by its name in the guards file."""


class Ask(msgspec.Struct, frozen=True):
    """One question to a law: about what is kept under `key`, a name that no other thing has."""

    key: str
    question: Any


class Guard(msgspec.Struct, Generic[S, F], frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="guard"):
    """Limits as fields; `step` gives the state that follows and the decision."""

    LAW: ClassVar[AnyLaw | None] = None
    """What a store carries out for it; None: there is no state."""

    def asks(self, facts: F) -> Ask | Decision:
        """Say what has to be asked, or decide. Only a guard with a law has one."""
        raise NotImplementedError

    def decides(self, facts: F, told: Any) -> Decision:
        """Read what the law told."""
        raise NotImplementedError

    def step(self, state: S | None, facts: F, now_ms: int) -> tuple[S | None, Decision]:
        """Decide. `state` None: nothing is known yet; `now_ms` is of the store's clock where there is a store."""
        asked = self.asks(facts)
        if isinstance(asked, Decision):
            return state, asked
        assert self.LAW is not None  # whoever asks has one
        then = self.LAW.step(state, asked.question, now_ms * 1_000)
        return then.state, self.decides(facts, then.told)


def names() -> list[str]:
    """List the guards without importing one."""
    return sorted(m.name.replace("_", "-") for m in pkgutil.iter_modules(__path__) if not m.name.startswith("_"))


def find(name: str) -> type[Guard]:  # type: ignore[type-arg]  # each guard has its own state and facts
    """Import one guard. Raises Problem, with the nearest name, when there is none of that name."""
    if name not in names():
        import difflib

        near = difflib.get_close_matches(name, names(), 1)
        hint = f"did you mean {near[0]}?" if near else f"the guards are {', '.join(names())}"
        raise Problem("guard", found=repr(name), wanted="the name of a guard", remedy=hint)
    module = importlib.import_module(f"{__name__}.{name.replace('-', '_')}")
    guard: type[Guard] = module.guard  # type: ignore[type-arg]  # likewise
    return guard
