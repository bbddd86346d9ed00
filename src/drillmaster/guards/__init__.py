"""Guards: the same kind of decision inside a running worker. Pinned limits and facts in, one decision out. One file an entry.

1. A guard is its limits as fields, without defaults but where a smaller answer is the default, and one pure step. It reads no
   clock, no file and no network; importing it sets up nothing.
2. Its facts are a closed type of numbers and names that the worker's own code knows. A body, a prompt or an answer has no field
   to arrive in. What has the wrong type, or is out of range, is denied with a reason of its own and raises nothing.
3. Its reasons are a closed set. Exactly one stands in each decision.
4. A guard with state says what state follows; a store applies the step atomically, on the store's own clock. A store that
   cannot be reached denies.
"""

import importlib
import pkgutil
from typing import Generic, TypeVar

import msgspec

from drillmaster.errors import Problem

__all__ = ["Decision", "Guard", "find", "names"]

S = TypeVar("S")
F = TypeVar("F")


class Decision(msgspec.Struct, frozen=True, kw_only=True):
    """One answer. `reason` is of the guard's closed set."""

    allowed: bool
    reason: str
    wait_ms: int = 0
    """Not before so long from now, whether allowed here or somewhere else later."""
    left: int | None = None
    """Of what is counted, where something is."""


class Guard(msgspec.Struct, Generic[S, F], frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="guard"):
    """Limits as fields; `step` gives the state that follows and the decision."""

    def step(self, state: S | None, facts: F, now_ms: int) -> tuple[S | None, Decision]:
        """Decide. `state` None: nothing is known yet; `now_ms` is of the store's clock where there is a store."""
        raise NotImplementedError


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
