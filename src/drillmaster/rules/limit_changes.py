"""What changed between two versions of a policy, limit by limit, and which way.

1. A limit is a value that is no list and no object, at its JSON pointer. Order of names in an object changes nothing.
2. Entries of a list are paired by the first of `gate`, `id`, `name` and `label` that both lists' entries have, each of its
   own: an entry that moved has not changed. Other lists are compared by place.
3. A value of another type is another value: `1` is not `true`, `"5"` is not `5`, `1.0` is `1`.
4. A limit whose name begins with `max_` is looser when it grows, one with `min_` when it shrinks. A limit that went away is
   looser than any. Of others it cannot be told by the name which way they went.
"""

from collections.abc import Iterator, Mapping
from typing import Literal

import msgspec

__all__ = ["ABSENT", "LimitChange", "limit_changes"]

ABSENT = "(nothing)"
"""What stands for a value that is not there."""
_NAMES = ("gate", "id", "name", "label")

Way = Literal["looser", "tighter", "unknown"]


class LimitChange(msgspec.Struct, frozen=True):
    """One limit: its pointer in the new version (in the old one where it went away), and both values as JSON."""

    pointer: str
    before: str
    after: str
    way: Way


def limit_changes(before: object, after: object) -> tuple[LimitChange, ...]:
    """Compare two loaded files (`strict.load`), in the order of the new one, what went away last in each object."""
    return tuple(_compare(before, after, ""))


def _compare(before: object, after: object, at: str) -> Iterator[LimitChange]:
    if isinstance(before, Mapping) and isinstance(after, Mapping):
        for name in [*after, *(one for one in before if one not in after)]:
            inner = f"{at}/{_step(name)}"
            if name not in after:
                yield from _gone(before[name], inner)
            elif name not in before:
                yield from _new(after[name], inner)
            else:
                yield from _compare(before[name], after[name], inner)
    elif isinstance(before, list) and isinstance(after, list):
        yield from _lists(before, after, at)
    elif _text(before) != _text(after):
        yield LimitChange(at, _text(before), _text(after), _way(at, before, after))


def _lists(before: list[object], after: list[object], at: str) -> Iterator[LimitChange]:
    key = _paired_by(before, after)
    old = {(_name(one, key) if key else str(place)): (place, one) for place, one in enumerate(before)}
    for place, one in enumerate(after):
        was = old.pop(_name(one, key) if key else str(place), None)
        if was is None:
            yield from _new(one, f"{at}/{place}")
        else:
            yield from _compare(was[1], one, f"{at}/{place}")
    for place, one in old.values():
        yield from _gone(one, f"{at}/{place}")


def _paired_by(before: list[object], after: list[object]) -> str | None:
    for key in _NAMES:
        names = [[_name(one, key) for one in entries] for entries in (before, after)]
        if all(all(part) and len(set(part)) == len(part) for part in names):
            return key
    return None


def _name(entry: object, key: str) -> str:
    value = entry.get(key) if isinstance(entry, Mapping) else None
    return value if isinstance(value, str) else ""


def _new(value: object, at: str) -> Iterator[LimitChange]:
    for pointer, leaf in _leaves(value, at):
        yield LimitChange(pointer, ABSENT, _text(leaf), "tighter" if _bounds(pointer) else "unknown")


def _gone(value: object, at: str) -> Iterator[LimitChange]:
    for pointer, leaf in _leaves(value, at):
        yield LimitChange(pointer, _text(leaf), ABSENT, "looser" if _bounds(pointer) else "unknown")


def _leaves(value: object, at: str) -> Iterator[tuple[str, object]]:
    if isinstance(value, Mapping) and value:
        for name, inner in value.items():
            yield from _leaves(inner, f"{at}/{_step(name)}")
    elif isinstance(value, list) and value:
        for place, inner in enumerate(value):
            yield from _leaves(inner, f"{at}/{place}")
    else:
        yield at, value


def _way(at: str, before: object, after: object) -> Way:
    if not _number(before) or not _number(after) or not _bounds(at):
        return "unknown"
    grew = after > before  # type: ignore[operator]  # both are numbers
    return "looser" if grew == _last(at).startswith("max_") else "tighter"


def _bounds(pointer: str) -> bool:
    return _last(pointer).startswith(("max_", "min_"))


def _last(pointer: str) -> str:
    return pointer.rpartition("/")[2]


def _number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _text(value: object) -> str:
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**53:
        value = int(value)
    return msgspec.json.encode(value).decode()


def _step(name: object) -> str:
    return str(name).replace("~", "~0").replace("/", "~1")
