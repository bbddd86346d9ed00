"""How figures of levels stand in a table: each row, or each column, in one unit, that of its largest."""

from collections.abc import Iterator, Sequence
from typing import Any

from drillmaster.reports._levels import BoundView, LevelView, Spread
from drillmaster.spans import SpanUnit, unit_of
from drillmaster.verdict import Absent, AtLeast, Exact, Measure

__all__ = ["bound_lines", "cells", "column", "figure", "spans_of", "turns_and_waits"]


def spans_of(*taken: Measure | None) -> Iterator[float]:
    """All spans that some figures will be said with: values, and what bounds them."""
    for one in taken:
        match one:
            case Exact(value=value, low=low, high=high):
                yield from (span for span in (value, low, high) if span is not None)
            case AtLeast(value=value):
                yield value
            case _:
                pass


def figure(taken: Measure | None, unit: SpanUnit) -> tuple[str, str]:
    """A figure, and apart what bounds it."""
    match taken:
        case Exact(value=value, n=n, low=low, high=high):
            if (low is None and high is None) or n == 1:
                return unit.text(value), ""
            return unit.text(value), _between(low, high, unit)
        case AtLeast(value=value):
            return f"at least {unit.text(value)}", ""
        case Absent(why=why):
            return "none", why
    return "none", ""


def _between(low: float | None, high: float | None, unit: SpanUnit) -> str:
    if low is not None and high is not None:
        return f"{unit.number(low)} to {unit.text(high)}"
    if low is not None:
        return f"{unit.text(low)} and up"
    return "not bounded" if high is None else f"up to {unit.text(high)}"


def bound_lines(bound: BoundView | None, unit: SpanUnit) -> list[str]:
    """What a quantile is at most, by calls and by blocks, and which of it decided. Without blocks it is the interval's end."""
    if bound is None or bound.by_blocks is None:
        return []
    found = []
    for name, by in (("calls", bound.by_calls), ("blocks", bound.by_blocks)):
        text = (
            f"≤ {unit.text(by.value)} by {name}" if isinstance(by, Exact) else f"none by {name}: {figure(by, unit)[1]}"
        )
        found.append(text + (", decided" if bound.decided == name else ""))
    return found


def column(spreads: Sequence[Spread | None], names: Sequence[str]) -> SpanUnit:
    """The unit of columns that hold these quantiles of each."""
    return unit_of(span for spread in spreads if spread for name in names for span in spans_of(spread.quantiles[name]))


def cells(spread: Spread | None, names: Sequence[str], unit: SpanUnit) -> list[tuple[str, str]]:
    """One row's cells of them."""
    return [("none", "") if spread is None else figure(spread.quantiles[name], unit) for name in names]


def turns_and_waits(levels: Sequence[LevelView]) -> list[dict[str, Any]]:
    """How each level's calls fell into sessions, and how long they waited at the endpoint's word; empty: none did either."""
    if not any(level.sessions or level.waits for level in levels):
        return []
    names = ("p50", "p95")
    turns = column([spread for level in levels for spread in (level.first_turns, level.later_turns)], names)
    waited = unit_of(level.waited_s for level in levels)
    return [
        {
            "label": level.label,
            "sessions": level.sessions,
            "first": cells(level.first_turns, names, turns),
            "first_n": 0 if level.first_turns is None else level.first_turns.n,
            "later": cells(level.later_turns, names, turns),
            "later_n": 0 if level.later_turns is None else level.later_turns.n,
            "unsent": level.failed.get("unsent_turn", 0),
            "waits": level.waits,
            "waited": waited.text(level.waited_s) if level.waits else "none",
            "again": level.sent_again,
        }
        for level in levels
    ]
