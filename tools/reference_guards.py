"""What a guard's entry on its page holds below its docstring: limits, facts and reasons, asked of the guard itself."""

import typing
from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from drillmaster.intake.guards_files import kind_of

__all__ = ["entry"]


def entry(tag: str, table: Callable[[type], Iterator[str]]) -> Iterator[str]:
    """Yield the lines of one guard. `table` makes the table of a type's fields."""
    kind = kind_of(tag)
    counts = (
        "in a store" if kind.by_law else "in each process, for each session" if kind.state is not None else "nothing"
    )
    yield from (f"It counts {counts}.", "", "Its limits, in the guards file:", "", *table(kind.guard))
    for inner in _inner(kind.guard):
        yield from (f"`{inner.__name__}`: {_first(inner)}", "", *table(inner))
    yield from ("Its facts, from the worker:", "")
    kinds = typing.get_args(kind.facts) or (kind.facts,)
    for one in kinds:
        if len(kinds) > 1:
            yield from (f"`{one.__name__}`: {_first(one)}", "")
        yield from table(one)
    yield from ("| reason | |", "|---|---|", *(f"| `{reason}` | {said} |" for reason, said in kind.reasons.items()), "")


def _first(kind: type) -> str:
    return (kind.__doc__ or "").partition("\n")[0]


def _inner(kind: type) -> list[type]:
    """List the structs that a type's fields are made of, each once, in their order."""
    found: dict[type, None] = {}
    for field in msgspec.structs.fields(kind):
        for one in _structs(field.type):
            found |= dict.fromkeys((one, *_inner(one)))
    return list(found)


def _structs(hint: Any) -> Iterator[type]:
    if isinstance(hint, type) and issubclass(hint, msgspec.Struct):
        yield hint
    for inner in typing.get_args(hint):
        yield from _structs(inner)
