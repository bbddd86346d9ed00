"""Locks in a forked child: one that a thread of the parent held there is given back by nobody."""

import os
import weakref
from typing import Protocol

__all__ = ["renewed_in_a_child"]


class Forked(Protocol):
    def forked(self) -> None:
        """Make one's locks anew."""


_OWNERS: "weakref.WeakSet[Forked]" = weakref.WeakSet()


def renewed_in_a_child(owner: Forked) -> None:
    """Have an owner of locks told of each fork, in the child, for as long as it lives."""
    _OWNERS.add(owner)


def _in_child() -> None:
    for owner in _OWNERS:
        owner.forked()


os.register_at_fork(after_in_child=_in_child)
