"""The table as one HTML page in the reports' style: under 200 kB, no script, nothing loaded, each cell with its evidence."""

from collections.abc import Mapping
from importlib import resources
from typing import Any, Final

import jinja2
from markupsafe import Markup

from drillmaster.errors import Exit, one_line
from drillmaster.matrix.reading import exit_of
from drillmaster.matrix.shapes import BAD, GOOD, Result, Table
from drillmaster.matrix.telling import (
    UNPROVEN,
    asked,
    attempts_text,
    grouped,
    headline,
    measure_text,
    on_the_wire,
    summary,
)
from drillmaster.reports.html import MAX_BYTES, style

__all__ = ["render"]

_SIZES: Final = ((12, 1_000), (4, 1_000), (1, 1_000), (1, 120), (1, 40))
"""Cited lines a cell, and cells of which all is told, failed ones first; fewer where the page would be too large."""
_MOST_ROWS: Final = 220


def render(table: Table, *, beside: str = "") -> str:
    """Write the page. `beside` is the way from where it lies to the run folder, with a slash at its end; empty: it lies there."""
    page = ""
    for most_cites, most_told in _SIZES:
        page = _page(table, beside, most_cites, most_told)
        if len(page.encode("utf-8", "backslashreplace")) <= MAX_BYTES:
            break
    return page


def _page(table: Table, beside: str, most_cites: int, most_told: int) -> str:
    environment = jinja2.Environment(
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        finalize=lambda value: one_line(value) if isinstance(value, str) and not isinstance(value, Markup) else value,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    template = environment.from_string(resources.files(__package__).joinpath("page.html.jinja").read_text("utf-8"))
    ways, rows = _grid(table)
    code = exit_of(table)
    judged = table.max_failed_ratio is not None
    return template.render(
        table=table,
        style=Markup(style()),  # noqa: S704  # the reports' own style sheet, part of the package
        status={Exit.PASS: "pass" if judged else "refused", Exit.FAIL: "fail"}.get(code, "refused"),
        word={Exit.PASS: "Pass" if judged else "Measured", Exit.FAIL: "Fail", Exit.ABORTED: "Stopped"}.get(
            code, "Refused"
        ),
        headline=headline(table),
        summary=summary(table),
        heard=", ".join(f"{asked(p.dialect, p.stream)} ({p.attempts})" for p in table.spoken),
        ways=ways,
        rows=rows,
        left=[(why, which[:_MOST_ROWS]) for why, which in grouped(table.not_run)],
        kind=lambda r: "pass" if r.word in GOOD else "fail" if r.word in BAD else "refused",
        way_of=lambda r: asked(r.dialect, r.stream),
        counted=_counted,
        on_the_wire=on_the_wire,
        attempts=attempts_text,
        measure=measure_text,
        beside=beside,
        most_cites=most_cites,
        told=_told(table, most_told),
        unproven=UNPROVEN,
        params=lambda r: ", ".join(f"{name}={value}" for name, value in r.params.items()),
    )


def _told(table: Table, most: int) -> list[Result]:
    """The cells of which all is told, in their order."""
    chosen = {r.cell for r in sorted(table.results, key=lambda r: (r.word in GOOD, r.word not in BAD))[:most]}
    return [r for r in table.results if r.cell in chosen]


def _counted(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{n} x {what}" for what, n in counts.items())


def _grid(table: Table) -> tuple[list[str], list[tuple[str, list[dict[str, Any]]]]]:
    """Faults down, ways of asking across; what a way left out says why in its place."""
    ways = list(dict.fromkeys(asked(p.dialect, p.stream) for p in table.spoken))
    others = (asked(r.dialect, r.stream) for r in table.results if r.dialect is not None)
    ways += [way for way in dict.fromkeys(others) if way not in ways]
    everybody = asked(None, None)
    found: dict[str, dict[str, Result]] = {}
    for result in table.results:
        found.setdefault(result.label, {})[asked(result.dialect, result.stream)] = result
    whys = {(e.label, asked(e.dialect, e.stream)): e.why for e in table.not_run}
    labels = list(found)
    labels += [e.label for e in table.not_run if e.label not in found and (e.should or e.dialect is not None)]
    rows = []
    for label in dict.fromkeys(labels):
        here = found.get(label, {})
        if everybody in here or (label, everybody) in whys:
            rows.append(
                (label, [{"result": here.get(everybody), "why": whys.get((label, everybody), ""), "span": len(ways)}])
            )
        else:
            rows.append(
                (label, [{"result": here.get(way), "why": whys.get((label, way), ""), "span": 1} for way in ways])
            )
    return ways, rows[:_MOST_ROWS]
