"""Two sealed interviews of one endpoint and payload, level by level: is the second no worse than the first?

1. Only what asked the same is compared: payload, address, model, levels and rates, streams, limits of a call. Whatever differs is
   named, and refuses. So does a run that was stopped, and a level that is the client's own.
2. A latency is compared as a ratio, errors as a difference of their shares. What lies around either is an interval by resampling
   whole blocks of time, of both runs each on its own, its ends moved out for so few blocks (Hesterberg, 2015, *What teachers
   should know about the bootstrap*: expanded percentiles). An upper end is 95 % sure, a lower one surer.
3. No worse: the upper end is within the margin. Worse: the lower end is beyond it. Else nothing is decided. One figure that is
   worse makes the whole worse; one that is not decided leaves the whole undecided.
   So many figures are so many chances that one seems worse: each lower end is 1 - 0.05/m sure, of m figures that are compared
   (Bonferroni), and that the whole is called worse in error is as rare as 95 % says. No worse is said of the whole only where all
   are: then 95 % of each upper end is enough (Berger, 1982, *Multiparameter hypothesis testing and acceptance sampling*).
4. The cold call and the drain are one of each: their figures are shown, and nothing can be said of chance. Where nobody failed, in
   either, no resampling finds a failure: what so many calls exclude stands there, and a margin of 0 is a census.
5. The same runs give the same answer: the seed is fixed.
"""

import math
import random
from collections.abc import Callable, Iterator, Sequence
from statistics import NormalDist
from typing import Any, Literal

import msgspec

from drillmaster.errors import Exit, Refused
from drillmaster.interviews import QUANTILES, Calls, Level
from drillmaster.load.blocks import Blocks, draw
from drillmaster.load.reading import InterviewRun
from drillmaster.stats import calls_for_rate, rate_bound, samples_for_bound, t_quantile
from drillmaster.verdict import AtLeast, Exact

__all__ = ["BLOCKS", "Compared", "Figure", "LevelCompared", "compare", "interval"]

BLOCKS = 20
"""Fewer blocks of time than this say too little of how they vary. A level is cut into so many where nobody says how long one is."""
_RESAMPLES = 2_000
_CONFIDENCE = 0.95
_LATENCIES = ("p50", "p95")
_FIGURES = len(_LATENCIES) + 1
"""Of a level: these, and its errors."""
_SAME_TARGET = ("method", "dialect", "model", "stream", "max_tokens", "order", "form", "query")
_SAME_PLAN = ("levels", "timeout_s", "think", "retry", "drain", "measured_from")
_SAME_OPEN = ("rate_per_s", "rate_to_per_s", "poisson", "max_in_flight")
_SINGLE = ("cold", "drain")
Said = Literal["no worse", "worse", "undecided"]


class Figure(msgspec.Struct, frozen=True, kw_only=True):
    """One figure of one level, in both runs."""

    name: str
    """`p50`, `p95`, `errors`."""
    a: float | None
    """Of the first run, in seconds or as a share; null: it has none."""
    b: float | None
    change: float | None
    """A latency's ratio, b over a; of errors the difference, b less a."""
    low: float | None
    """As sure as `worse_confidence` says it is no less; null with a `high`: so few calls are not."""
    high: float | None
    """95 % sure it is no more; null with a `low`: it lies among calls that were cut."""
    margin: float
    """Up to this it counts as no worse."""
    said: Said
    why: str = ""
    """Why nothing is decided."""


class LevelCompared(msgspec.Struct, frozen=True, kw_only=True):
    label: str
    n: tuple[int, int]
    block_s: tuple[float, float]
    """How long the blocks are that were resampled, in each run."""
    figures: tuple[Figure, ...]
    """`p50`, `p95`, `errors`."""


class Single(msgspec.Struct, frozen=True, kw_only=True):
    """What there is one of: how long it took, in seconds; null: it failed, or was cut."""

    label: str
    a: float | None
    b: float | None


class Compared(msgspec.Struct, frozen=True, kw_only=True):
    """What came of it."""

    a: str
    b: str
    url: str
    stamps: tuple[str, ...]
    """Of either run: REHEARSAL, COMPRESSED."""
    within: float
    errors_within: float
    figures: int
    """So many are compared."""
    worse_confidence: float
    """How sure each has to be to be called worse: 1 - 0.05 / `figures`."""
    levels: tuple[LevelCompared, ...]
    singles: tuple[Single, ...]
    said: Said

    @property
    def exit(self) -> Exit:
        return {"no worse": Exit.PASS, "worse": Exit.FAIL, "undecided": Exit.REFUSED}[self.said]


def compare(
    a: InterviewRun, b: InterviewRun, *, within: float, errors_within: float, block_s: float | None = None
) -> Compared:
    """Compare run `b` with run `a`. Raises Refused where they are none that can be compared. `block_s` None: 20 to a level."""
    differences = list(_differences(a, b))
    if differences:
        raise Refused(
            f"{a.interview.name} and {b.interview.name}",
            found="; ".join(differences),
            wanted="two whole interviews that asked the same",
            remedy="run the second one again by the plan of the first",
        )
    many = [one for one in a.interview.levels if one.kind not in _SINGLE]
    figures = max(1, len(many) * _FIGURES)
    worse = 1 - (1 - _CONFIDENCE) / figures
    levels = tuple(
        _level(one, _named(b, one.label), within=within, errors_within=errors_within, block_s=block_s, worse=worse)
        for one in many
    )
    said = [figure.said for level in levels for figure in level.figures]
    return Compared(
        a=a.interview.name,
        b=b.interview.name,
        url=a.interview.url,
        stamps=tuple(dict.fromkeys((*a.manifest.stamps, *b.manifest.stamps))),
        within=within,
        errors_within=errors_within,
        figures=figures,
        worse_confidence=worse,
        levels=levels,
        singles=tuple(_single(one, _named(b, one.label)) for one in a.interview.levels if one.kind in _SINGLE),
        said="worse" if "worse" in said else "undecided" if "undecided" in said or not said else "no worse",
    )


def _named(run: InterviewRun, label: str) -> Level:
    level = run.interview.level(label)
    assert level is not None  # the same levels were run in both
    return level


def _single(a: Level, b: Level) -> Single:
    took = [one.value if isinstance(one, Exact) else None for one in (level.latency("max") for level in (a, b))]
    return Single(label=a.label, a=took[0], b=took[1])


def _differences(a: InterviewRun, b: InterviewRun) -> Iterator[str]:
    """Why two runs say nothing of each other."""
    if a.interview.digest == b.interview.digest:
        yield "the same run twice"
    for which, run in (("the first", a), ("the second", b)):
        if run.ended != "completed":
            yield f"{which} was stopped before its end" + (f": {run.why}" if run.why else "")
        for level in run.interview.levels:
            if level.void and level.kind != "cold":
                yield f"{level.label} of {which} is void: {'; '.join(level.void)}"
    if a.manifest.url != b.manifest.url:
        yield f"other targets: {a.manifest.url} and {b.manifest.url}"
    if a.manifest.payload_sha256 != b.manifest.payload_sha256:
        yield f"other payloads: {a.manifest.payload_sha256[:19]} and {b.manifest.payload_sha256[:19]}"
    ours, theirs = _asked(a.manifest.plan), _asked(b.manifest.plan)
    for name in dict.fromkeys((*ours, *theirs)):
        if ours.get(name) != theirs.get(name):
            yield f"other plans: {name} {_short(ours.get(name))} and {_short(theirs.get(name))}"
    labels = [[level.label for level in run.interview.levels] for run in (a, b)]
    if labels[0] != labels[1]:
        yield f"other levels: {', '.join(labels[0])} and {', '.join(labels[1])}"


def _asked(plan: dict[str, Any]) -> dict[str, Any]:
    """What of a plan changes its numbers; how many calls a level makes, and how long it lasts, does not."""
    target = plan.get("target") or {}
    found = {f"target.{name}": target[name] for name in _SAME_TARGET if name in target}
    found |= {name: plan[name] for name in _SAME_PLAN if name in plan}
    found["open"] = [{name: one.get(name) for name in _SAME_OPEN} for one in plan.get("open") or ()]
    return found


def _short(value: object) -> str:
    return msgspec.json.encode(value).decode()[:80]


def _level(
    a: Level, b: Level, *, within: float, errors_within: float, block_s: float | None, worse: float
) -> LevelCompared:
    assert a.calls is not None and b.calls is not None  # a sealed run has them
    lengths = tuple(_block_s(calls) if block_s is None else block_s for calls in (a.calls, b.calls))
    figures = [_latency(name, a, b, lengths, within, worse) for name in _LATENCIES]
    figures.append(_errors(a, b, lengths, errors_within, worse))
    return LevelCompared(label=a.label, n=(a.n, b.n), block_s=(lengths[0], lengths[1]), figures=tuple(figures))


def _block_s(calls: Calls) -> float:
    """As long as can be: stalls, and what else leans on its neighbours, are to lie within one."""
    span_s = max(calls.due_s) - min(calls.due_s)
    return max(span_s / BLOCKS * (1 + 1e-9), 1e-9)


def _latency(name: str, a: Level, b: Level, lengths: Sequence[float], within: float, worse: float) -> Figure:
    q = QUANTILES[name]
    seen = [level.latency(name) for level in (a, b)]
    why = ""
    if isinstance(seen[0], AtLeast):
        why = "calls of the first run were cut, and nobody knows how long they would have taken"
    # A cut call of the second run may have taken for ever; one of the first counts as what it took at least.
    first = Blocks(_latencies(a, cut_s=None), lengths[0])
    second = Blocks(_latencies(b, cut_s=math.inf), lengths[1])
    fewest, least = min(first.n, second.n), samples_for_bound(q)
    if fewest < least:
        why = f"{fewest} calls with a latency, and {least} would do"
    surely = samples_for_bound(q, worse)
    values = [one.value if isinstance(one, Exact | AtLeast) else None for one in seen]
    before, after = values
    change = None if before is None or after is None or before <= 0 else after / before
    return _figure(
        Figure(
            name=name,
            a=before,
            b=after,
            change=change,
            low=None,
            high=None,
            margin=1 + within,
            said="undecided",
            why=why,
        ),
        lambda rng: second.quantile(q, draw(second.blocks, rng)) / first.quantile(q, draw(first.blocks, rng)),
        min(first.blocks, second.blocks),
        worse,
        unsure="" if fewest >= surely else f"{fewest} calls with a latency, and {surely} would do to call it worse",
    )


def _errors(a: Level, b: Level, lengths: Sequence[float], within: float, worse: float) -> Figure:
    first, second = (
        Blocks([(at, float(bool(kind))) for at, kind in zip(level.calls.due_s, level.calls.kind, strict=True)], length)
        for level, length in zip((a, b), lengths, strict=True)
        if level.calls is not None
    )
    before, after = a.failures / a.n, b.failures / b.n
    if not a.failures and not b.failures:
        low, high = -rate_bound(0, a.n, worse), rate_bound(0, b.n)
        said: Said = "no worse" if within == 0 or high <= within else "undecided"
        why = "" if said == "no worse" else f"none failed, and {calls_for_rate(within)} calls would show it"
        return Figure(
            name="errors", a=before, b=after, change=0.0, low=low, high=high, margin=within, said=said, why=why
        )
    return _figure(
        Figure(
            name="errors",
            a=before,
            b=after,
            change=after - before,
            low=None,
            high=None,
            margin=within,
            said="undecided",
        ),
        lambda rng: second.mean(draw(second.blocks, rng)) - first.mean(draw(first.blocks, rng)),
        min(first.blocks, second.blocks),
        worse,
    )


def _latencies(level: Level, *, cut_s: float | None) -> list[tuple[float, float]]:
    """When and how long; a cut call took `cut_s`, or None: what it had taken then."""
    assert level.calls is not None
    found = []
    for at, one in level.calls.samples("latency"):
        found.append((at, one if one >= 0 else -one if cut_s is None else cut_s))
    return found


def _figure(
    figure: Figure, change: Callable[[random.Random], float], blocks: int, worse: float, *, unsure: str = ""
) -> Figure:
    """Give a figure its interval, and what follows from it; one that says why it has none keeps none.

    `unsure`: why it has no lower end, and cannot be called worse.
    """
    why = figure.why
    if not why and blocks < BLOCKS:
        why = f"{blocks} blocks of time with calls, and {BLOCKS} would do: more calls, or shorter blocks"
    if why or figure.change is None:
        return msgspec.structs.replace(figure, why=why or "nothing to compare")
    low, high = interval(change, blocks, worse=worse)
    low = -math.inf if unsure else low
    margin = figure.margin
    said: Said = "no worse" if high <= margin + 1e-12 else "worse" if low > margin else "undecided"
    return msgspec.structs.replace(
        figure,
        low=low if math.isfinite(low) else None,
        high=high if math.isfinite(high) else None,
        said=said,
        why=(unsure or "the interval holds both") if said == "undecided" else "",
    )


def interval(change: Callable[[random.Random], float], blocks: int, *, worse: float) -> tuple[float, float]:
    """Resample a change; its lower end, as sure as `worse` says, and its upper one, 95 %; wider for fewer blocks."""
    rng = random.Random(1)  # noqa: S311 - resampling, not secrets
    found = sorted(change(rng) for _ in range(_RESAMPLES))
    below, above = (
        NormalDist().cdf(-math.sqrt(blocks / (blocks - 1)) * t_quantile(confidence, blocks - 1))
        for confidence in (worse, _CONFIDENCE)
    )
    return found[math.floor(below * _RESAMPLES)], found[min(_RESAMPLES - 1, math.ceil((1 - above) * _RESAMPLES) - 1)]
