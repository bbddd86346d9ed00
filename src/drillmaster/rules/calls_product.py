"""How many calls one moment can come to: the layers that call again or call more, multiplied.

1. A layer that tries again counts with all its calls, the first one included: an SDK with two retries is 3, a loop that gives up
   after three tries is 3. A layer that calls several at once (fan-out over tools, turns side by side) counts with how many.
2. The worst case is the product of all layers, since each call of an outer one can use up the inner one whole: 3 x 3 is 9, and
   9 x 4 tools x 50 turns is 1,800.
3. At once go the layers that do not wait for a failure: fan-out times turns. That number meets a burst; the product meets a
   cap, as far as the waits between tries let it into one window.
4. Of one turn is the product without the turns beside it. It is what one user's request can become on the wire.
5. Whole numbers, exactly; each factor is at least 1. Nothing is assumed for a layer that nobody declared: a missing one is a
   missing number and not 1.
"""

from collections.abc import Iterable
from math import prod
from typing import Annotated, Literal

import msgspec

__all__ = ["MOST_LAYERS", "MOST_TIMES", "Layer", "Product", "calls_product"]

MOST_TIMES = 1_000_000
MOST_LAYERS = 16
Kind = Literal["again", "beside", "turns"]
_KINDS = ("again", "beside", "turns")


class Layer(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One layer. `again`: calls after a failure, the first one included; `beside`: calls at once; `turns`: turns side by side."""

    name: Annotated[str, msgspec.Meta(min_length=1, max_length=100)]
    kind: Kind
    times: Annotated[int, msgspec.Meta(ge=1, le=MOST_TIMES)]


class Product(msgspec.Struct, frozen=True, kw_only=True):
    """What the layers come to."""

    calls: int
    """All of them: the worst case."""
    a_turn: int
    """Of one turn."""
    at_once: int
    """Those that wait for nothing."""
    text: str
    """As people read it: `SDK 3 x loop 3 x tools 4 x turns 50`."""


def calls_product(layers: Iterable[Layer]) -> Product:
    """Multiply. Raises ValueError for no layer, too many, a name twice, or a number that is no whole one in range."""
    found = tuple(layers)
    if not 1 <= len(found) <= MOST_LAYERS:
        raise ValueError(f"found {len(found)} layers, wanted 1 to {MOST_LAYERS}")
    names = [one.name for one in found]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise ValueError(f"found the layer {twice!r} twice, wanted each once")
    for one in found:  # a struct that was made in code is checked by nobody else
        if type(one.times) is not int or not 1 <= one.times <= MOST_TIMES or one.kind not in _KINDS:
            raise ValueError(f"{one.name}: found {one.times!r} of {one.kind!r}, wanted 1 to {MOST_TIMES:,} calls")
    return Product(
        calls=prod(one.times for one in found),
        a_turn=prod(one.times for one in found if one.kind != "turns"),
        at_once=prod(one.times for one in found if one.kind != "again"),
        text=" x ".join(f"{one.name} {one.times:,}" for one in found),
    )
