"""One difference between two versions of a document, and for whom it matters."""

from collections.abc import Iterable
from typing import Literal

import msgspec

from drillmaster.strict import canonical

__all__ = ["BOTH", "REQUEST", "RESPONSE", "Break", "Level", "Side", "Sides", "listed", "once", "valued"]

Level = Literal["break", "unclear", "note"]
Side = Literal["request", "response"]
Sides = frozenset[Side]

REQUEST: Sides = frozenset({"request"})
RESPONSE: Sides = frozenset({"response"})
BOTH: Sides = frozenset({"request", "response"})

_CLIP_CHARS = 60
_MOST_LISTED = 8


class Break(msgspec.Struct, frozen=True, kw_only=True):
    """`at` is a JSON pointer into the later version, `was` one into the earlier; "" where the thing is not in it.

    `break`: somebody who kept to the earlier version is refused or misled. `unclear`: it cannot be told, and counts as a
    break. `note`: nobody is, or only who reads more strictly than was promised; it asks for nothing.
    """

    rule: str
    level: Level
    says: str
    at: str = ""
    was: str = ""
    old: str = ""
    """What the earlier version had, where one value says it: a value gone from an enum."""
    since: str = ""
    """Since when the earlier version announced that it would go (`x-deprecated-values`); "": it did not."""


def once(found: Iterable[Break]) -> list[Break]:
    """Drop repetitions: what two operations share would be told twice."""
    return list(dict.fromkeys(found))


def valued(value: object) -> str:
    """Write a JSON value for a sentence, clipped and printable."""
    try:
        text = canonical(value).decode("utf-8", "replace")
    except (ValueError, TypeError, RecursionError):
        text = type(value).__name__
    text = "".join(c if c.isprintable() else f"\\u{ord(c):04x}" for c in text)
    return text if len(text) <= _CLIP_CHARS else text[: _CLIP_CHARS - 1] + "…"


def listed(words: Iterable[str]) -> str:
    """Join words for a sentence; many are counted."""
    all_words = list(words)
    shown = ", ".join(all_words[:_MOST_LISTED])
    return shown if len(all_words) <= _MOST_LISTED else f"{shown} and {len(all_words) - _MOST_LISTED} more"
