"""What a mission's data are: a function of the seed, the mission's number and the datum's name, and of nothing else.

1. A draw is SHA-256 of `seed/number/name`, the first 16 bytes as a whole number. Any language can do it again.
2. Flows are dealt in rounds: of as many missions as the weights add up to, each flow has exactly its weight, in an order that
   the seed gives. A short drill has its shares too.
3. Numbers begin with 1 for the first mission of a load; `counter` and `sequence` follow them.
"""

import string
import uuid
from collections.abc import Mapping
from hashlib import sha256
from math import gcd
from typing import Any

from drillmaster.friday.missions import (
    Choice,
    Counter,
    Datum,
    Flow,
    Integer,
    MissionFile,
    Sequence,
    Step,
    Table,
    Text,
    Uuid,
)

__all__ = ["Deal", "draw", "draw_data", "draw_think_ns", "mission_id"]

_KEPT_ROUNDS = 64
_ALPHABET = string.ascii_letters + string.digits


def draw(seed: int | str, number: int, name: str) -> int:
    """A whole number of 128 bits."""
    return int.from_bytes(sha256(f"{seed}/{number}/{name}".encode()).digest()[:16], "big")


def draw_data(data: Mapping[str, Datum], seed: int | str, number: int) -> dict[str, Any]:
    """One mission's data by name; a table's columns are names."""
    found: dict[str, Any] = {}
    for name, datum in data.items():
        match datum:
            case Uuid():
                found[name] = str(uuid.UUID(int=draw(seed, number, name), version=4))
            case Integer():
                found[name] = datum.low + draw(seed, number, name) % (datum.high - datum.low + 1)
            case Choice():
                found[name] = _chosen(datum, draw(seed, number, name))
            case Sequence():
                found[name] = datum.of[(number - 1) % len(datum.of)]
            case Text():
                drawn = (draw(seed, number, f"{name}/{nth}") for nth in range(datum.chars))
                found[name] = "".join(_ALPHABET[one % len(_ALPHABET)] for one in drawn)
            case Counter():
                found[name] = datum.first + number - 1
            case Table():
                at = number - 1 if datum.order == "sequence" else draw(seed, number, name)
                found.update(zip(datum.columns, datum.rows[at % len(datum.rows)], strict=True))
    return found


def _chosen(datum: Choice, drawn: int) -> Any:
    if not datum.weights:
        return datum.of[drawn % len(datum.of)]
    left = drawn % sum(datum.weights)
    for value, weight in zip(datum.of, datum.weights, strict=True):
        if left < weight:
            return value
        left -= weight
    raise AssertionError("a rest below the sum falls to one of them")


def draw_think_ns(step: Step, seed: int | str, number: int, nth: int) -> int:
    """How long the user thinks before the step that is the `nth` from 0, in whole ns."""
    if not isinstance(step.think_s, tuple):
        return round(step.think_s * 1e9)
    low_ns, high_ns = round(step.think_s[0] * 1e9), round(step.think_s[1] * 1e9)
    return low_ns + draw(seed, number, f"think/{nth}") % (high_ns - low_ns + 1)


class Deal:
    """Which flow a mission has."""

    def __init__(self, file: MissionFile, seed: int | str) -> None:
        self._flows = file.flows
        self._seed = seed
        shared = gcd(*(flow.weight for flow in file.flows))
        self._cards = tuple(nth for nth, flow in enumerate(file.flows) for _ in range(flow.weight // shared))
        self._rounds: dict[int, tuple[int, ...]] = {}

    @property
    def round(self) -> int:
        """So many missions are a whole round."""
        return len(self._cards)

    def flow(self, number: int) -> Flow:
        """The flow of the mission with that number, from 1."""
        return self._flows[self.index(number)]

    def index(self, number: int) -> int:
        nth_round, at = divmod(number - 1, len(self._cards))
        dealt = self._rounds.get(nth_round)
        if dealt is None:
            if len(self._rounds) >= _KEPT_ROUNDS:
                self._rounds.clear()
            order = sorted(range(len(self._cards)), key=lambda card: draw(self._seed, nth_round, f"deal/{card}"))
            dealt = self._rounds[nth_round] = tuple(self._cards[card] for card in order)
        return dealt[at]


def mission_id(number: int, run: str) -> str:
    """What a mission is called: its number, and the end of the run's id."""
    return f"m{number:06d}-{run[-4:]}"
