"""HTML of a Friday drill: one page that holds everything, under 200 kB, for executives and engineers.

1. Nothing is loaded and no script runs; the page's own policy forbids it.
2. The verdict stands first, then the rows of the drill matrix, the missions with the band in which flags were on, alerts and
   acknowledgements, flags and workers, the transcripts that people read, every check, and what none of it proves.
3. Past 2,000 missions the picture shows a sample: every n-th of each result, and the slowest of each second. Figures are of all.
4. The machine form of the verdict is inside.
"""

from collections.abc import Sequence
from typing import Final

from markupsafe import Markup

from drillmaster.charts import Band, Kind, Point, Rule, Series, mark, scatter, steps
from drillmaster.reports import clip, quantity
from drillmaster.reports._friday_view import FridayView, MissionDot
from drillmaster.reports.html import MAX_BYTES, environment, frame, machine, style
from drillmaster.verdict import AtLeast, Exact, Measure, Verdict

__all__ = ["render"]

_TILES: Final = 12
_KINDS: Final[dict[str, Kind]] = {
    "ok": Kind("answered", "good", "dot"),
    "cut": Kind("cut: took at least so long", "bad", "wedge"),
    "open": Kind("no line says its end", "bad", "star"),
    "failed": Kind("failed", "worst", "cross"),
    "unsent": Kind("due, and never sent", "worst", "box"),
}

UNPROVEN: Final = (
    "Missions are synthetic, and the load is one day's. Real incidents ask other things, in other shares.",
    "A flag in a tool exercises no transport: a reset connection, a status or a quota is the eviction drill's.",
    "That the alert reached the listener says nothing of who would have read it, and what they would have done.",
    "That a transcript is whole says that a person can replay the mission, not that the agent acted rightly in it.",
    "A seal shows that the files have not changed since it was made. Unsigned, it does not show who made it.",
)


def render(verdict: Verdict, view: FridayView) -> str:
    """Write the page, at most MAX_BYTES of UTF-8."""
    page = ""
    for most, cites in ((2_000, 20), (1_000, 5), (400, 0), (100, 0)):
        page = _page(verdict, view, most, cites)
        if len(page.encode("utf-8", "backslashreplace")) <= MAX_BYTES:
            break
    return page


def _page(verdict: Verdict, view: FridayView, most: int, most_cites: int) -> str:
    shown = _sample(view.dots, most)
    framed = frame(verdict)
    framed["tiles"] = [
        {"name": row.name, "observed": row.short, "limit": row.objective, "status": row.status}
        for row in sorted(view.rows, key=lambda row: row.status == "pass")[:_TILES]
    ]
    return (
        environment()
        .get_template("friday.html.jinja")
        .render(
            style=Markup(style()),  # noqa: S704  # the reports' own style sheet, part of the package
            view=view,
            subject=clip(view.service, 120),
            chart=Markup(_missions(view, shown)),  # noqa: S704  # our own picture: its texts are escaped where it is drawn
            flight=Markup(_flight(view)),  # noqa: S704  # the same
            legend=[
                (Markup(mark(kind)), kind.label, sum(dot.result == name for dot in view.dots))  # noqa: S704  # the same
                for name, kind in _KINDS.items()
                if any(dot.result == name for dot in view.dots)
            ],
            shown=len(shown),
            total=len(view.dots),
            headline=[line for line in verdict.headline if not line.startswith("for people to read")],
            stretches=[
                (one.name, f"{one.to_s - one.from_s:.1f} s", one, _value(one.p50), _value(one.p95))
                for one in view.stretches
            ],
            unproven=UNPROVEN,
            owners=[
                (check.title, view.owners.get(check.id) or view.owners.get("default") or "OPEN")
                for check in verdict.checks
                if check.status == "fail"
            ],
            **framed,
            **machine(verdict, most_cites),
        )
    )


def _value(found: Measure) -> str:
    """Without interval and number: those of the rows stand in their table."""
    match found:
        case Exact(value=value):
            return quantity(value, "s")
        case AtLeast(value=value):
            return f">= {quantity(value, 's')}"
        case _:
            return "none"


def _sample(dots: Sequence[MissionDot], most: int) -> list[MissionDot]:
    """Every n-th of each result; of each second also the slowest."""
    if len(dots) <= most:
        return list(dots)
    slowest: dict[int, MissionDot] = {}
    for dot in dots:
        at = int(dot.due_s)
        if at not in slowest or (dot.took_s or 0) > (slowest[at].took_s or 0):
            slowest[at] = dot
    every = -(-len(dots) // max(1, most - min(len(slowest), most // 2)))
    chosen = {id(dot): dot for dot in list(slowest.values())[: most // 2]}
    for name in _KINDS:
        same = [dot for dot in dots if dot.result == name]
        chosen |= {id(dot): dot for dot in same[::every]}
    return sorted(chosen.values(), key=lambda dot: dot.due_s)


def _bands(view: FridayView) -> list[Band]:
    bands = []
    at_s = view.begin_s
    for from_s, to_s, flags in view.chaos:
        if from_s > at_s:
            bands.append(Band("no flag", at_s - view.begin_s, from_s - view.begin_s))
        bands.append(Band(clip(flags, 60), from_s - view.begin_s, to_s - view.begin_s, strong=True))
        at_s = to_s
    if view.end_s > at_s:
        bands.append(Band("no flag", at_s - view.begin_s, view.end_s - view.begin_s))
    return bands


def _rules(view: FridayView) -> list[Rule]:
    """The first alert of each injection, and the kills."""
    found = [Rule(at_s - view.begin_s, f"kill {name}") for at_s, _, name in view.kills]
    first = next(
        (one for one in view.alerts if one.what == "firing" and view.chaos and one.at_s >= view.chaos[0][0]), None
    )
    if first is not None:
        found.append(Rule(first.at_s - view.begin_s, f"alert {clip(first.rule, 30)}"))
    return found


def _missions(view: FridayView, shown: Sequence[MissionDot]) -> str:
    return scatter(
        [Point(dot.due_s - view.begin_s, dot.took_s, dot.result) for dot in shown],
        kinds=_KINDS,
        x_end=view.end_s - view.begin_s,
        title="Latency of missions over time",
        description="Each mark is a mission, where it was due; upwards how long it took.",
        lane="no time",
        y_title="Latency (logarithmic)",
        bands=_bands(view),
        rules=_rules(view),
        prefix="m",
    )


def _flight(view: FridayView) -> str:
    return steps(
        [Series("in flight", "other", view.held, filled=True)],
        bin_s=1.0,
        title="Missions in flight over time",
        description="How many missions were under way, second by second.",
        y_title="Missions in flight",
        bands=_bands(view),
        prefix="f",
    )
