"""What `drillmaster history trend` and `compare` say: which runs can be compared, and each figure of them in words."""

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

import click
import msgspec

if TYPE_CHECKING:
    from drillmaster.history import Entry
    from drillmaster.trends import Better, Compared

__all__ = ["ComparedRuns", "Trend", "compared", "tell_compared", "tell_trends", "trends"]

_BARS = "▁▂▃▄▅▆▇█"


class Trend(msgspec.Struct, frozen=True, kw_only=True):
    """One figure of one drill over its last runs, oldest first. `None`: that run has none."""

    drill: str
    name: str
    figure: str
    runs: tuple[str, ...]
    values: tuple[float | None, ...]
    cut: tuple[bool, ...]
    n: int
    median: float | None
    low: float | None
    high: float | None
    """Of the median, 95 %; None: fewer than six runs, or it lies among figures that were cut."""


class ComparedRuns(msgspec.Struct, frozen=True, kw_only=True):
    """One drill: its newest runs, how many before there were, and each figure."""

    drill: str
    name: str
    newest: tuple[str, ...]
    before: int
    left_out: dict[str, int]
    """Why runs were not compared, and how many."""
    figures: "tuple[Compared, ...]"


def _groups(entries: Iterable["Entry"]) -> dict[tuple[str, str], list["Entry"]]:
    found: dict[tuple[str, str], list[Entry]] = {}
    for entry in entries:
        found.setdefault((entry.drill, entry.name), []).append(entry)
    return found


def _alike(entries: Sequence["Entry"], *, any_payload: bool) -> tuple[list["Entry"], dict[str, int]]:
    """The runs that can be compared with the newest that was judged, oldest first, and why others cannot."""
    judged = [one for one in entries if one.status in ("pass", "fail")]
    left_out = {"refused, stopped or not judged": len(entries) - len(judged)}
    if not judged:
        return [], {why: n for why, n in left_out.items() if n}
    newest = judged[-1]
    stamped = [one for one in judged if one.stamps == newest.stamps]
    left_out["other stamps"] = len(judged) - len(stamped)
    same = [one for one in stamped if any_payload or one.payload_sha256 == newest.payload_sha256]
    left_out["another payload"] = len(stamped) - len(same)
    return same, {why: n for why, n in left_out.items() if n}


def _figures_of(runs: Sequence["Entry"], wanted: Sequence[str]) -> list[str]:
    names = list(dict.fromkeys(name for one in reversed(runs) for name in one.metrics))
    return [name for name in names if not wanted or name in wanted]


def trends(entries: Iterable["Entry"], *, last: int, figures: Sequence[str]) -> list[Trend]:
    """Each figure of each drill over its last runs."""
    from drillmaster import stats
    from drillmaster.verdict import Exact

    found = []
    for (drill, name), those in _groups(entries).items():
        alike, _ = _alike(those, any_payload=False)
        runs = alike[-last:]
        for figure in _figures_of(runs, figures):
            values = [one.metrics.get(figure) for one in runs]
            cut = [figure in one.at_least for one in runs]
            exact = [value for value, is_cut in zip(values, cut, strict=True) if value is not None and not is_cut]
            at_least = [value for value, is_cut in zip(values, cut, strict=True) if value is not None and is_cut]
            middle = stats.quantile(exact, 0.5, censored=at_least)
            told = middle if isinstance(middle, Exact) else None
            found.append(
                Trend(
                    drill=drill,
                    name=name,
                    figure=figure,
                    runs=tuple(one.run for one in runs),
                    values=tuple(values),
                    cut=tuple(cut),
                    n=len(exact) + len(at_least),
                    median=told.value if told else None,
                    low=told.low if told else None,
                    high=told.high if told else None,
                )
            )
    return found


def compared(
    entries: Iterable["Entry"],
    *,
    newest: int,
    before: int,
    figures: Sequence[str],
    ways: Mapping[str, "Better"],
    any_payload: bool,
) -> list[ComparedRuns]:
    """Hold the newest runs of each drill against those before."""
    from drillmaster.trends import among_all, compare

    found = []
    for (drill, name), those in _groups(entries).items():
        alike, left_out = _alike(those, any_payload=any_payload)
        new, old = alike[-newest:], alike[:-newest][-before:]
        said = []
        for figure in _figures_of(new, figures):
            fresh = [one.metrics[figure] for one in new if figure in one.metrics]
            past = [one for one in old if figure in one.metrics]
            said.append(
                compare(
                    figure,
                    [one.metrics[figure] for one in past],
                    fresh,
                    cut_before=[figure in one.at_least for one in past],
                    way=ways.get(figure),
                )
            )
        found.append(
            ComparedRuns(
                drill=drill,
                name=name,
                newest=tuple(one.run for one in new),
                before=len(old),
                left_out=left_out,
                figures=among_all(said),
            )
        )
    return found


def tell_trends(found: Sequence[Trend]) -> None:
    """Print them, a line each."""
    from drillmaster.errors import one_line
    from drillmaster.reports import number

    if not found:
        click.echo("no judged run with a figure: drillmaster history lists what there is")
        return
    width = max(len(one_line(one.figure)) for one in found)
    heading = ""
    for one in found:
        head = f"{one.drill}  {one_line(one.name)}"
        if head != heading:
            click.echo(head)
            heading = head
        newest = next((v for v in reversed(one.values) if v is not None), None)
        cut = bool(one.cut and one.cut[-1] and one.values[-1] is not None)
        middle = "no median" if one.median is None else f"median {number(one.median)}"
        spread = f" ({number(one.low)} to {number(one.high)})" if one.low is not None and one.high is not None else ""
        value = "nothing" if newest is None else f"{'>= ' if cut else ''}{number(newest)}"
        click.echo(
            f"  {one_line(one.figure).ljust(width)}  {_line(one.values)}  newest {value}, {middle}{spread} of {one.n}"
        )


def _line(values: Sequence[float | None]) -> str:
    """A bar a run, from the least to the largest; a gap where a run has none."""
    there = [value for value in values if value is not None]
    low, high = min(there, default=0.0), max(there, default=0.0)
    step = (high - low) / (len(_BARS) - 1) or 1.0
    return "".join(" " if value is None else _BARS[round((value - low) / step)] for value in values)


def tell_compared(found: Sequence[ComparedRuns]) -> None:
    """Print them, a line a figure."""
    from drillmaster.errors import one_line

    if not found:
        click.echo("no runs: drillmaster history lists what there is")
    for group in found:
        left = "".join(f"; {n} left out: {why}" for why, n in group.left_out.items())
        runs = ", ".join(group.newest) or "no judged run"
        click.echo(f"{group.drill}  {one_line(group.name)}: {runs} against {group.before} before{left}")
        width = max((len(one_line(one.figure)) for one in group.figures), default=0)
        for one in group.figures:
            click.echo(f"  {one.word.upper():<9}  {one_line(one.figure).ljust(width)}  {_told(one)}")
        _tell_chance(group.figures)


def _tell_chance(figures: "Sequence[Compared]") -> None:
    """Say what of it may be chance, where several figures were compared and one is worse."""
    from drillmaster.trends import CONFIDENCE

    tried = [one for one in figures if one.p_of_all is not None]
    worse = [one for one in tried if one.word == "worse"]
    if not worse:
        return
    sure = [one.figure for one in worse if one.p_of_all is not None and one.p_of_all <= 1 - CONFIDENCE + 1e-12]
    click.echo(
        f"  {len(tried)} figures were compared, and one in twenty is worse by chance; {CONFIDENCE:.0%} sure among all of them: "
        f"{', '.join(sure) or 'none'}"
    )


def _told(one: "Compared") -> str:
    from drillmaster.reports import number

    newest = ", ".join(f"{number(value)}" for value in one.newest)
    middle = "" if one.median is None else f", median before {number(one.median)}"
    spread = f" ({number(one.low)} to {number(one.high)})" if one.low is not None and one.high is not None else ""
    if one.word == "refused":
        return f"{newest}{middle}{spread}: {one.why}"
    by = (
        ""
        if one.shift is None
        else f", worse by {number(one.shift)}"
        if one.shift > 0
        else f", better by {number(-one.shift)}"
        if one.shift
        else ""
    )
    least = f", at least {number(one.at_least)}" if one.word == "worse" and one.at_least is not None else ""
    of_all = "" if one.p_of_all is None or one.word != "worse" else f", among all figures {one.p_of_all:.3f}"
    return f"{newest}{middle}{spread} of {one.before}{by}{least} (p = {one.p:.3f}{of_all})"
