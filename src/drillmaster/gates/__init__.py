"""Gates: evidence and pinned limits in, checks out. One file an entry, tag = file name; listing reads names only.

A gate is its limits as fields, without defaults, and one pure method. It never reads a file, a clock or the network, and
what a model wrote is no input to it. Add one by adding a file and its test.
"""

import importlib
import pkgutil
from collections.abc import Iterator
from typing import Generic, TypeVar

import msgspec

from drillmaster.errors import Problem
from drillmaster.verdict import Check, Finding

__all__ = ["Gate", "find", "names"]

E = TypeVar("E")


class Gate(msgspec.Struct, Generic[E], frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="gate"):
    """Limits as fields; `checks` yields everything that was looked at, every time, whatever the outcome."""

    def checks(self, evidence: E) -> Iterator[Check]:
        raise NotImplementedError

    def findings(self, evidence: E, checks: tuple[Check, ...]) -> Iterator[Finding]:
        """Say what most likely happened. Findings never change a status."""
        yield from ()

    def headline(self, evidence: E) -> tuple[str, ...]:
        """Say in words what the limits ask for, for the top of every form."""
        return ()


def names() -> list[str]:
    """List the gates without importing one."""
    return sorted(m.name.replace("_", "-") for m in pkgutil.iter_modules(__path__) if not m.name.startswith("_"))


def find(name: str) -> type[Gate]:  # type: ignore[type-arg]  # each gate has its own kind of evidence
    """Import one gate. Raises Problem, with the nearest name, when there is none of that name."""
    if name not in names():
        import difflib

        near = difflib.get_close_matches(name, names(), 1)
        hint = f"did you mean {near[0]}?" if near else f"the gates are {', '.join(names())}"
        raise Problem("gate", found=repr(name), wanted="the name of a gate", remedy=hint)
    module = importlib.import_module(f"{__name__}.{name.replace('-', '_')}")
    gate: type[Gate] = module.gate  # type: ignore[type-arg]  # likewise
    return gate
