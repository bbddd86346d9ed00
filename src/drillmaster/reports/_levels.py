"""What every form shows of a load interview, level by level, and what is kept of many calls in a picture.

1. Figures are of all calls. What a picture leaves out changes none of them.
2. Of many calls a picture keeps the ones that matter: a level's time is cut into equal parts, and of each part the slowest call
   of each kind stays; of the others every n-th. So every maximum is there, and every part of the time that had calls.
3. A histogram has 20 bins to a power of ten. Good calls and calls that were cut ("at least") are counted apart.
"""

import math
from collections.abc import Sequence
from typing import Literal

import msgspec

from drillmaster.verdict import Measure

__all__ = [
    "QUANTILES",
    "BoundView",
    "CallKind",
    "Decided",
    "Dot",
    "LevelView",
    "Spread",
    "bin_edge",
    "bin_of",
    "thin",
    "thin_places",
]

QUANTILES = ("p50", "p90", "p95", "p99", "max")
BINS_PER_DECADE = 20
CallKind = Literal["ok", "cut", "failed", "dropped"]
Decided = Literal["observed", "calls", "blocks", "neither"]


class Dot(msgspec.Struct, frozen=True, array_like=True):
    """One call of a picture: when it was due, from the level's start; how long it took, None where it was never sent."""

    at_s: float
    took_s: float | None
    kind: CallKind


class Spread(msgspec.Struct, frozen=True, kw_only=True):
    """How values are spread: quantiles by name, and a histogram. Seconds."""

    n: int
    quantiles: dict[str, Measure]
    bins: dict[int, int] = {}
    """Bin to how many; see `bin_edge`."""
    cut_bins: dict[int, int] = {}
    """Of calls that were cut: at least so long."""


class BoundView(msgspec.Struct, frozen=True, kw_only=True):
    """What a quantile is surely (95 %) no more than, by each way to say so, in seconds. Absent says why there is none."""

    by_calls: Measure
    by_blocks: Measure | None
    """None: the thresholds do not say how long a block is."""
    decided: Decided
    """What the verdict went by: what was seen, or the larger of the two; `neither` where one of them is not there."""


class LevelView(msgspec.Struct, frozen=True, kw_only=True):
    """One level as it was run."""

    label: str
    kind: str
    """`cold`, `closed`, `open`, `drain`."""
    callers: int
    """Asked: calls at once; of an open stage the most that were allowed."""
    rate: str = ""
    """Of an open stage, as the plan says it: `20 a second`."""
    n: int
    failed: dict[str, int] = {}
    error_bound: float
    """The share of failures that so many calls cannot exclude, 95 %, one-sided."""
    void: tuple[str, ...] = ()
    """Why its numbers are the client's and not the endpoint's."""
    started_s: float
    """From the run's start."""
    seconds: float
    """From the first call to the last answer."""
    latency: Spread
    """From when a call was due; of good calls, and of cut ones as "at least"."""
    bounds: dict[str, BoundView] = {}
    """By quantile of the latency: of p95, and of those that were judged."""
    first_byte: Spread | None = None
    """From when a call was due; of good calls, and of cut ones as "at least"."""
    first_word: Spread | None = None
    """The same to the first word of a stream; None: no stream was asked for, or none began."""
    gaps: Spread | None = None
    """Between two words of one answer; they lean on each other, so no interval is given."""
    tokens: int | None = None
    """Of output, as the answers say; None: they do not."""
    chunks: int | None = None
    """Pieces of answers that were timed one by one; None: no stream was asked for. Mostly a token each; nobody promises it."""
    connects: int = 0
    """Connections opened within the level."""
    connect_max_s: float = 0.0
    """The longest of them, TLS included; it is in the latency of its call."""
    sent_again: int = 0
    """How often a call was sent once more, at the endpoint's word."""
    waits: int = 0
    """Calls that waited because `Retry-After` asked them to."""
    waited_s: float = 0.0
    """All of them together; it is in their latencies."""
    sessions: int = 0
    """Sessions that it had; 0: its calls stood on their own."""
    first_turns: Spread | None = None
    """Latencies of good first turns; None: its calls were no sessions."""
    later_turns: Spread | None = None
    """The same of later turns, which have what was said before them."""
    made_again: int = 0
    """Calls made once more on a new connection, since the kept one turned out to have been closed; each is one call."""
    held: float
    """In flight on average until the last call began."""
    held_overall: float
    late_p99_s: float
    """How late the client sent, 99th percentile."""
    longest_turn_s: float | None
    """The longest time that the client's loop was busy; None: the level did not end."""
    cpu_share: float | None
    """Of one core."""
    delay_share: float | None = None
    """In so large a part of the time it was ready and others had its core, for a millisecond and more; None: not known."""
    delay_p99_s: float | None = None
    """Of all moments 99 % lay in waits for a core no longer than this, or in none; None: not known."""
    dots: tuple[Dot, ...] = ()
    """Calls of the picture, thinned by rule 2, in the order they were due."""

    @property
    def failures(self) -> int:
        return sum(self.failed.values())

    @property
    def good_per_s(self) -> float | None:
        """Good answers a second; None where the level took no time."""
        return (self.n - self.failures) / self.seconds if self.seconds > 0 and self.n > 1 else None


def bin_of(seconds: float) -> int:
    """The bin of a histogram that a time falls into."""
    return math.floor(BINS_PER_DECADE * math.log10(max(seconds, 1e-6)) + 1e-9)


def bin_edge(number: int) -> float:
    """The lower edge of a bin, in seconds."""
    return float(10.0 ** (number / BINS_PER_DECADE))


def thin_places(
    at_s: Sequence[float], took_s: Sequence[float], kinds: Sequence[int], *, parts: int, most: int
) -> list[int]:
    """Choose calls for a picture by rule 2; all of them where they are not more than `most`.

    What is never left out can make them a little more.
    """
    n = len(at_s)
    if n <= most:
        return list(range(n))
    begin, end = min(at_s), max(at_s)
    width = (end - begin) / parts or 1.0
    slowest: dict[tuple[int, int], int] = {}
    for place in range(n):
        key = (min(parts - 1, int((at_s[place] - begin) / width)), kinds[place])
        best = slowest.get(key)
        if best is None or took_s[place] > took_s[best]:
            slowest[key] = place
    room = max(1, most - len(slowest))
    return sorted({*slowest.values(), *range(0, n, -(-n // room))})


def thin(dots: Sequence[Dot], *, parts: int, most: int) -> list[Dot]:
    """The same for what has been thinned before, for a page that would be too large."""
    order = {kind: number for number, kind in enumerate(("ok", "cut", "failed", "dropped"))}
    took_s = [dot.took_s or 0.0 for dot in dots]
    chosen = thin_places([dot.at_s for dot in dots], took_s, [order[d.kind] for d in dots], parts=parts, most=most)
    return [dots[place] for place in chosen]
