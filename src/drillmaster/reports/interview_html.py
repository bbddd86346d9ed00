"""HTML of an interview: one page that holds everything, under 200 kB, for people who were not there.

1. Nothing is loaded and no script runs; the page's own policy forbids it.
2. The verdict stands first, then what it allows, the ladder with its bounds, the course of each level, the spread, streams,
   failures by kind, the client's own fitness, every check, the manifest, and what all of it does not prove.
3. Figures are of all calls. A picture shows a part of them where there are many, and the page says by which rule.
4. Numbers of a void level stand there, marked VOID in words; they are the client's.
5. The machine form is inside: `<script type="application/json" id="interview">` holds what `interview_json` renders. Where a
   page would be too large, the picture is thinned further, then levels past the first, and checks that passed, are left to that
   form, which then is a file of its own.
"""

from collections.abc import Sequence
from typing import Any, Final

import msgspec
from markupsafe import Markup

from drillmaster.charts import Kind, Point, mark
from drillmaster.charts.levels import Panel, Ridge, Rung, Stroke, panels, ridges, rungs
from drillmaster.deciding import KINDS, RowName, allowed_by, kind_text
from drillmaster.policy import share_text
from drillmaster.reports import clip, limit, measure, number
from drillmaster.reports._figures import bound_lines, cells, column, figure, spans_of, turns_and_waits
from drillmaster.reports._levels import Dot, LevelView, Spread, bin_edge, thin
from drillmaster.reports.html import MAX_BYTES, environment, frame, style
from drillmaster.reports.interview import InterviewView
from drillmaster.reports.interview_json import document
from drillmaster.spans import SpanUnit, span_text, unit_of
from drillmaster.verdict import AtLeast, Exact, Verdict

__all__ = ["render"]

_SIZES: Final = (
    (60, 300, 24, 400, True),
    (30, 120, 24, 400, True),
    (15, 60, 24, 200, True),
    (10, 30, 12, 100, False),
    (6, 12, 6, 40, False),
)
"""Parts of a level's time, marks of a level, levels and checks that are shown, and whether the machine form is inside."""

_CALLS: Final[dict[str, Kind]] = {
    "ok": Kind("answered", "good", "dot"),
    "cut": Kind("cut: took at least so long", "bad", "wedge"),
    "failed": Kind("failed", "worst", "cross"),
    "dropped": Kind("due, and never sent", "worst", "box"),
}
_SHOWN: Final = ("p50", "p95", "p99", "max")
_FIGURES: Final[dict[str, Kind]] = {
    "p50": Kind("p50", "good", "dot"),
    "p95": Kind("p95", "other", "diamond"),
    "max": Kind("max", "bad", "dash"),
}
_ROWS: Final[dict[RowName, str]] = {
    "errors": "Errors over the signed cap",
    "cold": "The cold call near the time limit of a call",
    "degrading": "Good for one caller, worse with more",
    "quick": "p95 under the interactive budget, and no errors",
}
_ELSEWHERE: Final[dict[RowName, str]] = {
    "errors": "everything, until it is measured again",
    "cold": "nightly jobs, after a call that warms it",
    "degrading": "chat, and completion while somebody types",
    "quick": "what a customer has a deadline for",
}
_TOO_LARGE: Final = "too large for a page: drillmaster report RUN --json-file FILE"
_HOLDS: Final = {True: "holds", False: "does not hold", None: "cannot be told"}

UNPROVEN: Final = (
    "One endpoint, one day, one place in the network, one payload. These numbers travel to no other machine and are no benchmark.",
    "Shared capacity changes unannounced, which is why a decision ends after 30 days.",
    "A caller of a ladder waits for its answer and sends nothing meanwhile: a stall hits one call a caller, and hides from its "
    "percentiles. Stages by the clock show it; where there were none, nothing here does.",
    "A bound takes each call for an independent one. Calls that came close together saw one weather, and bound less than so many "
    "calls apart.",
    "One cold call has no percentile. That nobody else was connected was seen on this machine alone.",
    "That the answers are any good: none was read.",
    "A seal shows that the files have not changed since it was made. Unsigned, it does not show who made it.",
)


def render(verdict: Verdict, view: InterviewView) -> str:
    """Write the page, at most MAX_BYTES of UTF-8."""
    page = ""
    for parts, most, levels, checks, machine in _SIZES:
        page = _page(verdict, view, parts, most, levels, checks, machine)
        if len(page.encode("utf-8", "backslashreplace")) <= MAX_BYTES:
            break
    return page


def _page(
    verdict: Verdict, view: InterviewView, parts: int, most: int, most_levels: int, most_checks: int, whole_inside: bool
) -> str:
    shown = view.levels[:most_levels]
    limits = _limits(verdict)
    dots = {level.label: thin(level.dots, parts=parts, most=most) for level in shown}
    drawn = [level for level in shown if level.kind != "cold"]
    whole = sum(level.n for level in drawn)
    marks = sum(len(dots[level.label]) for level in drawn)
    streams = [level for level in shown if level.first_word is not None]
    framed = frame(verdict)
    framed["tiles"] = _tiles(verdict, framed["tiles"])
    framed["checks_left"] = max(0, len(framed["checks"]) - most_checks)
    if framed["checks_left"]:
        framed["checks"] = sorted(framed["checks"], key=lambda check: check["status"] == "pass")[:most_checks]
    inside = document(verdict, view, bins=False) if whole_inside else {"kind": "interview_report", "cut": _TOO_LARGE}
    machine = msgspec.json.encode(inside).decode()
    return (
        environment()
        .get_template("interview.html.jinja")
        .render(
            style=Markup(style()),  # noqa: S704  # the reports' own style sheet, part of the package
            view=view,
            page=view.page,
            subject=clip(view.page.job, 120),
            date=view.ended_at[:10] or view.started_at[:10],
            allowed=_allowed(view),
            decision=_decision(verdict, view),
            ladder=_ladder_chart(shown, limits),
            figures=_legend(_FIGURES, ("p50", "p95", "max")),
            rows=[_row(level, limits, verdict) for level in shown],
            course=_course_chart(drawn, dots, limits) if drawn else "",
            calls=_legend(_CALLS, {dot.kind for level in drawn for dot in dots[level.label]}),
            marks=marks,
            whole=whole,
            thinned=marks < whole,
            parts=parts,
            spread=_ridges(
                shown,
                "latency",
                "good",
                "Latency, from when a call was due (logarithmic); each row as high as its fullest bin",
                "h",
            ),
            has_cut=any(level.latency.cut_bins for level in shown),
            words=_ridges(
                streams, "first_word", "other", "To the first word, from when a call was due (logarithmic)", "w"
            ),
            gap_chart=_ridges(
                [level for level in shown if level.gaps],
                "gaps",
                "unsure",
                "Between two words of an answer (logarithmic)",
                "q",
            ),
            streams=_streams([level for level in shown if level.first_byte is not None]),
            courses=turns_and_waits(shown),
            kinds=sorted({kind for level in view.levels for kind in level.failed}),
            errors=[_errors(level) for level in shown],
            clients=_clients(shown),
            others=_others(verdict, view),
            voids=[level for level in view.levels if level.void],
            throughput=_throughput(shown),
            made_again=_made_again(view),
            left=len(view.levels) - len(shown),
            whole_inside=whole_inside,
            idle=_idle(view),
            manifest=_manifest(view),
            unproven=(*UNPROVEN, f"Does not transfer to: {'; '.join(view.decision.travels_not)}."),
            machine=Markup(_scriptable(machine)),  # noqa: S704  # only `<`, `>` and `&` could end it, and they are escaped
            **framed,
        )
    )


def _scriptable(machine: str) -> str:
    return machine.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _limits(verdict: Verdict) -> dict[str, float]:
    """The limits that levels were held against, by check: `warm_c4.p95`."""
    return {check.id: float(check.limit) for check in verdict.checks if isinstance(check.limit, float | int)}


def _limit_of(limits: dict[str, float], level: LevelView, name: str) -> float | None:
    return limits.get("cold" if level.kind == "cold" and name == "max" else f"{level.label}.{name}")


def _legend(kinds: dict[Any, Kind], present: Any) -> list[tuple[Markup, str]]:
    return [(Markup(mark(kind)), kind.label) for name, kind in kinds.items() if name in present]  # noqa: S704  # our SVG


# Decision


def _allowed(view: InterviewView) -> str:
    decision = view.decision
    if decision.job_alone:
        return "the job that was interviewed, and no other"
    return ", ".join(kind_text(kind) for kind in decision.allowed) or "nothing"


def _decision(verdict: Verdict, view: InterviewView) -> dict[str, Any]:
    decision = view.decision
    rows = [
        {
            "text": _ROWS[row.name],
            "holds": _HOLDS[row.holds],
            "why": row.why,
            "allowed": ", ".join(kind_text(kind) for kind in allowed_by(row.name)) or "nothing",
            "elsewhere": _ELSEWHERE[row.name],
            "decided": view.decided == at,
        }
        for at, row in enumerate(decision.rows)
    ]
    elsewhere = [kind_text(kind) for kind in KINDS if kind not in decision.allowed]
    return {
        "rows": rows,
        "by": "" if view.decided is None else rows[view.decided]["text"],
        "elsewhere": "every other job" if decision.job_alone else ", ".join(elsewhere),
        "why": decision.why,
        "until": decision.review_on or "OPEN: the evidence does not say when it was measured",
        "budget": decision.budget,
        "judged": view.judged and verdict.status != "refused",
    }


# Figures


def _tiles(verdict: Verdict, tiles: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Say the figures of the tiles as the rest of the page does, and their bounds with the limit."""
    checks = {check.id: check for check in verdict.checks}
    found = []
    for tile in tiles:
        check = checks[tile["id"]]
        name = tile["name"].replace(".", " ")
        if check.unit != "s" or check.observed is None or not isinstance(check.limit, float | int):
            found.append(tile | {"name": name})
            continue
        unit = unit_of([*spans_of(check.observed), check.limit])
        value, bounds = figure(check.observed, unit)
        cap = unit.text(check.limit)
        found.append(tile | {"name": name, "observed": value, "limit": f"{cap}{f' · {bounds}' if bounds else ''}"})
    return found


def _row(level: LevelView, limits: dict[str, float], verdict: Verdict) -> dict[str, Any]:
    word, status = _standing(level, verdict)
    taken = level.latency.quantiles
    caps = {name: _limit_of(limits, level, name) for name in _SHOWN}
    by = [one for name in _SHOWN if (b := level.bounds.get(name)) for one in (b.by_calls, b.by_blocks)]
    unit = unit_of([*spans_of(*(taken.get(name) for name in _SHOWN), *by), *caps.values()])
    figures = []
    for name, cap in caps.items():
        value, bounds = figure(taken.get(name), unit)
        notes = [bounds] if bounds and name != "max" else []
        notes += bound_lines(level.bounds.get(name), unit)
        figures.append((value, [*notes, *([f"limit {unit.text(cap)}"] if cap is not None else [])]))
    cap = limits.get(f"{level.label}.errors")
    return {
        "label": level.label,
        "what": _what(level),
        "n": level.n,
        "cells": figures,
        "errors": share_text(level.failures / level.n) if level.n else "none",
        "error_note": f"{level.failures} of {level.n}; ≤ {share_text(level.error_bound)}",
        "error_limit": f"limit {share_text(cap)}" if cap is not None else "",
        "word": word,
        "status": status,
    }


def _standing(level: LevelView, verdict: Verdict) -> tuple[str, str]:
    """How a level stands: VOID, or what its checks came to."""
    if level.void:
        return "VOID", "refused"
    mine = {c.status for c in verdict.checks if c.id == level.label or c.id.startswith(f"{level.label}.")}
    for status in ("fail", "refused", "pass"):
        if status in mine:
            return status.upper(), status
    return "not judged", ""


def _what(level: LevelView) -> str:
    if level.kind == "open":
        return f"{level.rate} by the clock"
    if level.kind == "drain":
        return f"a batch, {level.callers} at a time"
    if level.kind == "cold":
        return "one call after silence"
    return f"{level.callers} caller{'s' if level.callers > 1 else ''}"


def _throughput(levels: Sequence[LevelView]) -> list[dict[str, str]]:
    took, connect = (unit_of(level.seconds for level in levels), unit_of(level.connect_max_s for level in levels))
    return [_through(level, took, connect) for level in levels]


def _through(level: LevelView, took: SpanUnit, connect: SpanUnit) -> dict[str, str]:
    good = level.good_per_s
    counted, by = level.tokens, ""
    if counted is None and level.chunks is not None:
        counted, by = level.chunks, " by chunk"
    tokens = f"{number(round(counted / level.seconds, 1))}{by}" if counted is not None and level.seconds > 0 else ""
    return {
        "label": level.label,
        "took": took.text(level.seconds),
        "good": "none" if good is None else number(round(good, 2)),
        "tokens": tokens or "not told",
        "total": "not told" if counted is None else f"{counted}{by}",
        "connects": str(level.connects),
        "connect": connect.text(level.connect_max_s) if level.connects else "none",
        "again": str(level.sent_again),
    }


def _made_again(view: InterviewView) -> str:
    """Which levels have calls that were made again on a kept connection; empty: none has."""
    calls = {level.label: level.made_again for level in view.levels if level.made_again}
    return ", ".join(f"{n} call{'s' * (n > 1)} of {label}" for label, n in calls.items())


def _streams(levels: Sequence[LevelView]) -> list[dict[str, Any]]:
    names: dict[str, tuple[str, ...]] = {
        "first_byte": ("p50", "p95"),
        "first_word": ("p50", "p95", "max"),
        "gaps": ("p50", "p95", "p99", "max"),
    }
    units = {which: column([getattr(level, which) for level in levels], taken) for which, taken in names.items()}
    return [
        {
            "label": level.label,
            **{which: cells(getattr(level, which), taken, units[which]) for which, taken in names.items()},
            "n_gaps": 0 if level.gaps is None else level.gaps.n,
        }
        for level in levels
    ]


def _errors(level: LevelView) -> dict[str, Any]:
    return {
        "label": level.label,
        "n": level.n,
        "by": level.failed,
        "share": share_text(level.failures / level.n) if level.n else "none",
        "bound": share_text(level.error_bound),
    }


def _clients(levels: Sequence[LevelView]) -> list[dict[str, Any]]:
    units = (
        unit_of(level.late_p99_s for level in levels),
        unit_of(level.longest_turn_s for level in levels),
        unit_of(level.delay_p99_s for level in levels),
    )
    return [_client(level, *units) for level in levels]


def _client(level: LevelView, late: SpanUnit, turn: SpanUnit, delay: SpanUnit) -> dict[str, Any]:
    asked = f"at most {level.callers}" if level.kind == "open" else str(min(level.callers, level.n))
    return {
        "label": level.label,
        "asked": asked,
        "held": f"{level.held:.3g}",
        "overall": f"{level.held_overall:.3g}",
        "late": late.text(level.late_p99_s),
        "turn": "not told" if level.longest_turn_s is None else turn.text(level.longest_turn_s),
        "cpu": "not told" if level.cpu_share is None else f"{number(round(level.cpu_share * 100, 1))} %",
        "waited": "not told" if level.delay_p99_s is None else delay.text(level.delay_p99_s),
        "waited_share": ""
        if level.delay_share is None
        else f"{number(round(level.delay_share * 100, 1))} % of the time",
        "void": level.void,
    }


def _others(verdict: Verdict, view: InterviewView) -> list[dict[str, str]]:
    """What else was signed of a level, goodput and the like: all that has no place in the tables above."""
    there = {f"{level.label}.{name}" for level in view.levels for name in (*_SHOWN, "errors", "usable")}
    found = []
    for check in verdict.checks:
        level = next((one.label for one in view.levels if check.id.startswith(f"{one.label}.")), None)
        if level is None or check.id in there or check.role != "judgement":
            continue
        cap = check.limit
        told, most = measure(check.observed, check.unit), limit(cap, check.unit)
        if check.unit == "s" and isinstance(cap, float | int):
            unit = unit_of([*spans_of(check.observed), cap])
            told, most = figure(check.observed, unit)[0], unit.text(cap)
        found.append(
            {
                "label": level,
                "name": check.id[len(level) + 1 :].replace("_", " ").replace(".", " "),
                "observed": told,
                "limit": most,
                "title": check.title,
                "status": check.status,
            }
        )
    return found


def _idle(view: InterviewView) -> str:
    if view.page.idle_s is None:
        return "Nobody recorded how long it was silent before the cold call."
    said = {True: "nobody else was connected", False: "somebody else was", None: "nobody can tell who else was"}
    why = f": {view.idle_why}" if view.idle_why and view.idle_proven is not True else ""
    return f"Before the cold call nothing was sent for {number(round(view.page.idle_s, 1))} s, and {said[view.idle_proven]}{why}."


def _manifest(view: InterviewView) -> list[tuple[str, str]]:
    page, m = view.page, view.manifest
    versions = ", ".join(f"{name} {text}" for name, text in dict(m.get("versions") or {}).items())
    permission = dict(m.get("permission") or {})
    engines = dict(m.get("engines") or {})
    found = [
        ("Target", page.url),
        ("Address", ", ".join(map(str, m.get("addresses") or ()))),
        ("API", f"{view.dialect}{', streams' if view.stream else ''}"),
        ("Payload", page.payload),
        ("Payload digest", page.payload_sha256),
        ("Payloads in turn", str(m.get("payloads", ""))),
        ("Measured from", view.decision.measured_from or "OPEN"),
        ("Began", view.started_at),
        ("Ended", view.ended_at),
        ("A call is cut at", span_text(page.time_limit_s) if page.time_limit_s is not None else ""),
        ("Driver", page.driver or "OPEN"),
        ("Reader", page.reader or "OPEN"),
        ("Recorder", page.recorder or "OPEN"),
        ("Commit", page.commit or "OPEN: the plan lies in no repository"),
        ("Plan digest", str(m.get("plan_sha256", ""))),
        ("Seed", str(m.get("seed", ""))),
        ("Permission", ", ".join(f"{name} {value}" for name, value in permission.items()) or "none: loopback"),
        ("Engines", f"{engines.get('size')} ({engines.get('kind')})" if engines else ""),
        ("Versions", versions),
        ("Run", str(m.get("run", ""))),
    ]
    return [(name, clip(value, 600)) for name, value in found if value]


# Pictures


def _ladder_chart(levels: Sequence[LevelView], limits: dict[str, float]) -> Markup:
    drawn = [_rung(level, limits) for level in levels]
    said = []
    for level in levels:
        figures = ", ".join(f"{n} {measure(level.latency.quantiles.get(n), 's')}" for n in ("p50", "p95", "max"))
        said.append(f"{level.label}: {figures}{'; VOID' if level.void else ''}.")
    return Markup(  # noqa: S704  # our own SVG, whose texts are escaped
        rungs(
            drawn,
            kinds=_FIGURES,
            title="Latency by level, with bounds and limits",
            description=" ".join(said),
            y_title="Latency from when a call was due (logarithmic). Line: where the true figure lies, 90 %; open arrow: "
            "not bounded. Dashed: its limit.",
        )
    )


def _rung(level: LevelView, limits: dict[str, float]) -> Rung:
    strokes = []
    for name in ("max",) if level.kind == "cold" else ("p50", "p95", "max"):
        taken, cap = level.latency.quantiles.get(name), _limit_of(limits, level, name)
        match taken:
            case Exact(value=value, low=low, high=high):
                bounded = name != "max"
                strokes.append(
                    Stroke(name, value, low if bounded else None, high if bounded else None, bounded=bounded, limit=cap)
                )
            case AtLeast(value=value):
                strokes.append(Stroke(name, value, censored=True, limit=cap))
    note = f"{_what(level)}" if level.kind in ("open", "cold") else f"n {level.n}"
    return Rung(level.label, note, tuple(strokes), "VOID" if level.void else "")


def _course_chart(levels: Sequence[LevelView], dots: dict[str, list[Dot]], limits: dict[str, float]) -> Markup:
    made = []
    for level in levels:
        name = next((n for n in ("p95", "max", "p99", "p50") if _limit_of(limits, level, n) is not None), "")
        mine = dots[level.label]
        made.append(
            Panel(
                level.label,
                f"{level.n} calls",
                tuple(Point(dot.at_s, dot.took_s, dot.kind) for dot in mine),
                max([level.seconds if level.kind == "drain" else 0.0, *(dot.at_s for dot in mine)]),
                _limit_of(limits, level, name) if name else None,
                f"limit {name}",
                "VOID" if level.void else "",
            )
        )
    said = []
    for level in levels:
        most = level.latency.quantiles.get("max")
        slowest = figure(most, unit_of(spans_of(most)))[0]
        took = span_text(level.seconds)
        said.append(f"{level.label}: {level.n} calls in {took}, the slowest {slowest}, {level.failures} failed.")
    return Markup(  # noqa: S704  # our own SVG, whose texts are escaped
        panels(
            made,
            kinds=_CALLS,
            title="What each call took over the time of its level",
            description=" ".join(said),
            lane="not sent",
            y_title="Latency (logarithmic), against the time since the level's start; of a batch, against when each call ended.",
        )
    )


def _ridges(levels: Sequence[LevelView], which: str, tone: Any, x_title: str, prefix: str) -> Markup | None:
    rows, said = [], []
    for level in levels:
        spread: Spread | None = getattr(level, which)
        if spread is None or not (spread.bins or spread.cut_bins) or spread.n < 2:
            continue
        lines = []
        for name in ("p50", "p95"):
            taken = spread.quantiles.get(name)
            if isinstance(taken, Exact):
                lines.append((name, taken.value))
        rows.append(Ridge(level.label, f"n {spread.n}", spread.bins, spread.cut_bins, tuple(lines)))
        said.append(f"{level.label}: n {spread.n}, " + ", ".join(f"{n} {span_text(v)}" for n, v in lines) + ".")
    if not rows:
        return None
    return Markup(  # noqa: S704  # our own SVG, whose texts are escaped
        ridges(
            rows,
            edge=bin_edge,
            tone=tone,
            title=x_title.partition(" (")[0],
            description=" ".join(said),
            x_title=x_title,
            prefix=prefix,
        )
    )
