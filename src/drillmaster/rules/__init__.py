"""Laws that more than one part carries out: pure functions, each with one table of cases in `tests/rules/`.

What stands here is the only text of a law. Another carrier (a script in a store, a query, an example in another
language) is tested against the same table.
"""

from collections.abc import Callable
from typing import Any, Generic, TypeVar

import msgspec

__all__ = ["Law", "Step"]

S = TypeVar("S")
A = TypeVar("A")
T = TypeVar("T")


class Step(msgspec.Struct, Generic[S, T], frozen=True):
    """What one question leaves behind and what it is told."""

    state: S | None
    told: T
    keep_us: int | None
    """After so long without a question the state says no more than none would, and may be forgotten; None: never. Where
    `state` is the very one that was given, nothing is written and this counts for nothing."""


class Law(msgspec.Struct, Generic[S, A, T], frozen=True, kw_only=True):
    """A law with state, as a store carries it out: one question at a time, on the store's own clock.

    `stores/laws/` holds its other carriers: `NAME.sql` makes a function `drillmaster_NAME(key, question..., now)` in
    PostgreSQL, `NAME.lua` is a script for Redis. Both take the fields of `asked` and give those of `told`, in their order:
    whole numbers below 2^53, texts, booleans and None; a tuple of structs is one text, `1,2;3,4`. `_cases/NAME.json` is the
    table that each carrier is held against.
    """

    name: str
    state: type[S]
    """Takes no field that it does not know: what a newer version keeps there an older one would drop, and so grant again."""
    asked: type[A]
    told: type[T]
    step: Callable[[S | None, A, int], Step[S, T]]
    """(state, question, microseconds since 1970) -> what follows. Raises ValueError for a question that is none."""
    logged: bool = False
    """Whether a store writes each question down, with what it was told and when, in the same step."""
    parts: Callable[[A], tuple[str, ...]] | None = None
    """What a question touches, by name, where each has keys and a lifetime of its own in Redis; None: one thing."""


AnyLaw = Law[Any, Any, Any]
