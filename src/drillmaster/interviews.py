"""What a load interview found: one level per step of it, each with what was asked, what was held and what came.

1. A level's latencies count from when a call was due. Failed calls are counted by kind and lower no latency; a call that was
   cut at its time limit took "at least" that long and stays among the latencies.
2. A level of a run holds its raw samples. One of an article's file holds the figures that its script wrote, and no more can
   be said than they say: no other quantile, no bound.
3. Any time of a call may be asked for. Of `itl`, the gaps between words, all are one sample, whichever stream they are from; `tpot`
   is one mean gap a stream. What is said of latencies holds for all of them.
4. What bounds a quantile is the larger of two: by single calls, and by blocks of time, since stalls come in bursts.
5. A level that the client could not hold (too few in flight, sent late, a core that was full) is void: its numbers are the
   client's.
"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Literal, get_args

import msgspec

from drillmaster.stats import block_bound, blocks_for_bound, order_bound, quantile, samples_for_bound
from drillmaster.verdict import Absent, Exact, Measure

__all__ = [
    "MADE_AGAIN",
    "QUANTILES",
    "TIMES",
    "WAITED_MS",
    "WAITS",
    "Bound",
    "Calls",
    "Interview",
    "Kind",
    "Level",
    "Time",
    "authors_called",
    "counted",
    "limit_name",
    "limit_names",
]

Kind = Literal["cold", "closed", "open", "drain"]
Time = Literal["latency", "service", "ttfb", "ttft", "itl", "tpot", "connect", "tls", "late"]
TIMES: tuple[Time, ...] = get_args(Time)
QUANTILES = {"p50": 0.5, "p75": 0.75, "p90": 0.9, "p95": 0.95, "p99": 0.99, "p99.9": 0.999, "max": 1.0}
MADE_AGAIN = "calls made again on a kept connection"
"""Under this they are counted in a verdict, where there are any; so with the next two."""
WAITS = "calls that waited for Retry-After"
WAITED_MS = "ms that they waited"
_GOOD, _CUT = 0, 1


class Calls(msgspec.Struct, frozen=True, kw_only=True):
    """A level's calls, column by column; a place in each is one call. Seconds from the run's start."""

    due_s: Sequence[float]
    end_s: Sequence[float]
    outcome: Sequence[int]
    """0 good, 1 cut or never sent, 2 failed."""
    kind: Sequence[str]
    """Of failure; empty: it was good."""
    times: Mapping[str, Sequence[float]]
    """NaN: there was none. Negative: at least so long."""
    gaps_s: Sequence[float] = ()
    """Between words of streams, of all calls that were good or cut; negative: at least so long."""
    gap_at_s: Sequence[float] = ()
    """When each of them was over."""
    tokens: Sequence[int] = ()
    """-1: the answer does not say."""
    attempts: Sequence[int] = ()
    """How often each was sent."""

    def samples(self, time: Time) -> Iterator[tuple[float, float]]:
        """When and how long, of all that have such a time; negative: at least so long."""
        if time == "itl":
            yield from zip(self.gap_at_s, self.gaps_s, strict=True)
            return
        for due_s, value in zip(self.due_s, self.times.get(time, ()), strict=False):
            if not math.isnan(value):
                yield due_s, value

    def meeting(self, within: Mapping[str, float]) -> list[bool]:
        """Call by call, whether it was good and each of these times came within its span; one that it has not, did not."""
        met = [one == _GOOD for one in self.outcome]
        for time, span_s in within.items():
            for at, value in enumerate(self.times[time]):
                met[at] = met[at] and 0 <= value <= span_s
        return met


class Bound(msgspec.Struct, frozen=True, kw_only=True):
    """What a quantile is surely no more than, or how many calls and how long a time would say so."""

    value: float | None
    """Infinite: it lies among calls that were cut. None: too few calls, or too short a time."""
    few: bool = False
    short: bool = False
    by_calls: float | None = None
    """By single calls alone; None: too few."""
    by_blocks: float | None = None
    """By blocks of time alone; None: too short, or nobody says how long a stall is."""
    calls: int
    """So many would do."""
    seconds: float | None
    """Over so long a time; None: nobody says how long a stall is."""
    blocks: int | None = None
    """So many blocks of it have to have a call."""


class Level(msgspec.Struct, frozen=True, kw_only=True):
    """One step: the cold call, one number of callers, one arrival rate, the drain of a batch."""

    label: str
    """`cold`, `warm_c4`, `open_r20`, `drain`."""
    kind: Kind
    n: int
    """Calls that were due."""
    failed: Mapping[str, int] = {}
    """Kind of failure to how many."""
    ok_s: tuple[float, ...] | None = None
    """Latencies of the good calls; None: only `known` is known."""
    cut_s: tuple[float, ...] = ()
    """Of calls that were cut at the time limit: at least so long."""
    known: Mapping[str, float] = {}
    """What a file says without its samples: `p50`, `p95`, `max`, in seconds."""
    void: tuple[str, ...] = ()
    """Why its numbers are the client's and not the endpoint's."""
    calls: Calls | None = None
    """None: nothing but latencies is known."""
    client_s: float | None = None
    """What may be the client's own in any time of it, at 99 % of its moments; None: nobody says."""
    longest_turn_s: float | None = None
    """The longest that the client did not look at its connections: it was busy, or not let run."""
    waits: int = 0
    """Calls that waited because the endpoint asked them to, by `Retry-After`."""
    waited_s: float = 0.0
    """All of them together; it is in their latencies."""
    sessions: int = 0
    """Sessions that it had; 0: its calls stood on their own."""
    first_turns_s: tuple[float, ...] = ()
    """Latencies of good first turns of sessions, and of later ones."""
    later_turns_s: tuple[float, ...] = ()
    made_again: int = 0
    """Calls made once more on a new connection, since the kept one turned out to have been closed: each is one call, and its
    latency holds both."""

    @property
    def failures(self) -> int:
        return sum(self.failed.values())

    def latency(self, name: str, *, confidence: float = 0.90) -> Measure:
        """Measure `p50`, `p95`, … or `max`, in seconds. Its upper end bounds the quantile at (1 + confidence) / 2, one-sided."""
        if self.ok_s is None:
            value = self.known.get(name)
            return Absent(f"the file does not say {name}") if value is None else Exact(value, n=self.n)
        if not self.ok_s and not self.cut_s:
            return Absent("no call that was answered")
        return quantile(self.ok_s, QUANTILES[name], censored=self.cut_s, confidence=confidence)

    def measure(self, time: Time, name: str, *, confidence: float = 0.90) -> Measure:
        """Measure a quantile, or `max`, of any time; see `latency`."""
        if time == "latency":
            return self.latency(name, confidence=confidence)
        if self.calls is None:
            return Absent(f"the evidence holds no {time}, but latencies alone")
        samples = [value for _, value in self.calls.samples(time)]
        if not samples:
            return Absent(_NONE.get(time, f"no call has a {time}"))
        seen = [value for value in samples if value >= 0]
        cut = [-value for value in samples if value < 0]
        return quantile(seen, QUANTILES[name], censored=cut, confidence=confidence)

    def bound(self, time: Time, name: str, *, block_s: float | None, confidence: float = 0.95) -> Bound:
        """Bound a quantile from above, one-sided: by single calls and, with `block_s`, by blocks of that length too."""
        q = QUANTILES[name]
        if self.calls is not None:
            samples = [(at, value if value >= 0 else math.inf) for at, value in self.calls.samples(time)]
        else:
            samples = [(0.0, value) for value in (*(self.ok_s or ()), *(math.inf for _ in self.cut_s))]
        by_call = order_bound([value for _, value in samples], q, confidence=confidence)
        by_block = None if block_s is None else block_bound(samples, q, block_s=block_s, confidence=confidence)
        short = block_s is not None and by_block is None
        return Bound(
            value=None if by_call is None or short else max(by_call, -math.inf if by_block is None else by_block),
            few=by_call is None,
            short=short,
            by_calls=by_call,
            by_blocks=by_block,
            calls=samples_for_bound(q, confidence),
            seconds=None if block_s is None else blocks_for_bound(q, confidence) * block_s,
            blocks=None if block_s is None else blocks_for_bound(q, confidence),
        )

    @property
    def seconds(self) -> float | None:
        """From the first call that was due to the last end."""
        if self.calls is None or not self.calls.due_s:
            return None
        return max(self.calls.end_s) - min(self.calls.due_s)


_NONE: dict[str, str] = {
    "ttft": "no stream's first word was timed: run with --stream",
    "itl": "no stream's words were timed: run with --stream",
    "tpot": "no stream's words were timed: run with --stream",
    "connect": "no call opened a connection: they were open from the warm-up",
    "tls": "no call shook hands: the connections were open from the warm-up, or in the clear",
}


class Interview(msgspec.Struct, frozen=True, kw_only=True):
    """All a gate may look at."""

    name: str
    url: str
    """Without user info and query."""
    declared: tuple[str, ...]
    """The labels of the levels that were to be run."""
    levels: tuple[Level, ...]
    time_limit_s: float | None = None
    """When a call was cut; None: not known."""
    idle_s: float | None = None
    """How long nobody called before the cold call."""
    bare: bool = False
    """One file, unsealed: somebody's word."""
    reader: str = ""
    """Who holds the Reader's seat; empty: nobody is named."""
    authors: tuple[str, ...] | None = None
    """Who git says wrote the plan and its payloads, as `Name <address>`; None: that is not known."""
    payload_sha256: str = ""
    """Digest of what was asked; empty: nobody says."""
    age_s: float | None = None
    """From its end to when it is judged; None: it has no date, or is not being judged."""
    digest: str = ""
    ended_wall_ns: int | None = None
    examined: Mapping[str, int] = {}

    def as_of(self, now_ns: int) -> "Interview":
        """The same with its age, in wall time."""
        if self.ended_wall_ns is None:
            return self
        return msgspec.structs.replace(self, age_s=max(0.0, (now_ns - self.ended_wall_ns) / 1e9))

    def level(self, label: str) -> Level | None:
        return next((level for level in self.levels if level.label == label), None)


def counted(levels: Sequence[Level]) -> dict[str, int]:
    """What was looked at, in numbers."""
    again = sum(level.made_again for level in levels)
    found = {"levels": len(levels), "calls": sum(level.n for level in levels)}
    waits = sum(level.waits for level in levels)
    if waits:
        waited_ms = round(sum(level.waited_s for level in levels) * 1e3)
        found |= {WAITS: waits, WAITED_MS: waited_ms}
    sessions = sum(level.sessions for level in levels)
    if sessions:
        found |= {
            "sessions": sessions,
            "good first turns": sum(len(level.first_turns_s) for level in levels),
            "good later turns": sum(len(level.later_turns_s) for level in levels),
        }
    return found | ({MADE_AGAIN: again} if again else {})


def authors_called(authors: Iterable[str], who: str) -> list[str]:
    """Those of the authors (`Name <address>`) whom a name or an address means, in any case and spacing."""
    wanted = " ".join(who.casefold().split())
    found = []
    for author in authors:
        name, _, address = " ".join(author.casefold().split()).partition(" <")
        if wanted and wanted in (name, address.rstrip(">"), f"{name} <{address}"):
            found.append(author)
    return found


def limit_names() -> dict[str, tuple[Time, str]]:
    """Every limit on a time, by its name: `p95_s` is of the latency, `ttft_p99.9_s` and `itl_max_s` of another."""
    return {limit_name(time, name): (time, name) for time in TIMES for name in QUANTILES}


def limit_name(time: Time, name: str) -> str:
    """The name of one."""
    return f"{name}_s" if time == "latency" else f"{time}_{name}_s"
