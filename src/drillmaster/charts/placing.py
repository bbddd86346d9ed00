"""Where words may stand in a picture: beside their mark, and over no other mark and no other word.

1. Marks are there first. Words come in the order of their weight, each at the first of its places that is free.
2. A word that finds no room is left out: the table beneath has every figure.
3. Widths are those of a wide font at the size of the pictures' words, since nobody knows the reader's; a narrower one leaves air.
"""

from collections.abc import Iterable
from typing import Literal, NamedTuple

__all__ = ["Box", "Place", "Room", "width_of"]

_WIDTHS = dict.fromkeys("il|'", 3.4) | dict.fromkeys(" .,:;tfj()", 4.7) | dict.fromkeys("mwMW@%", 11.7)
_OTHER, _BOLD = 7.6, 1.13
_UP, _DOWN = 10.0, 3.0
"""How far letters reach above and below their line."""


def width_of(said: str, *, strong: bool = False) -> float:
    """How wide a word is, or less."""
    return sum(_WIDTHS.get(char, _OTHER) for char in said) * (_BOLD if strong else 1.0)


class Box(NamedTuple):
    """What a mark or a word takes: left, top, right, bottom."""

    left: float
    top: float
    right: float
    bottom: float

    def meets(self, other: "Box") -> bool:
        return (
            self.left < other.right and other.left < self.right and self.top < other.bottom and other.top < self.bottom
        )


class Place(NamedTuple):
    """Where a word could stand: its anchor's x, its line's y."""

    x: float
    y: float
    anchor: Literal["start", "middle", "end"] = "middle"

    def box(self, said: str) -> Box:
        """What it takes there."""
        wide = width_of(said)
        left = self.x - {"start": 0.0, "middle": wide / 2, "end": wide}[self.anchor]
        return Box(left, self.y - _UP, left + wide, self.y + _DOWN)


class Room:
    """The free room of a picture between two edges."""

    def __init__(self, left: float, right: float) -> None:
        self._left, self._right = left, right
        self._taken: list[Box] = []

    def take(self, box: Box) -> None:
        """Mark a part as taken."""
        self._taken.append(box)

    def place(self, said: str, places: Iterable[Place]) -> Place | None:
        """Take the first place that is free for a word, moved inside the edges; None: none is."""
        for place in places:
            box = place.box(said)
            shift = max(0.0, self._left - box.left) - max(0.0, box.right - self._right)
            box = Box(box.left + shift, box.top, box.right + shift, box.bottom)
            if not any(box.meets(other) for other in self._taken):
                self._taken.append(box)
                return place._replace(x=place.x + shift)
        return None
