"""Card of a Friday drill: the page that is pasted into a wiki, at most 45 lines of plain Markdown, filled from the run.

1. Rows first, each with its target, what was observed and its status; then the load, the chaos and the alerts in a line each.
2. Transcripts that people read are named. Each row that failed has one follow-up, owned by whom the plan names for it.
3. The gate's last line stands at the end, as it was printed.
"""

from typing import Final

from drillmaster.reports import clip, code_span, markdown_line, measure
from drillmaster.reports._friday_view import FridayView
from drillmaster.reports.text import last_line
from drillmaster.verdict import Verdict

__all__ = ["MAX_LINES", "render"]

MAX_LINES: Final = 45
_ROWS: Final = 18
_FOLLOW_UPS: Final = 6


def render(verdict: Verdict, view: FridayView) -> str:
    """Write the card; ends with a newline."""
    stamps = f" [{', '.join(view.stamps)}]" if view.stamps else ""
    seats = "; ".join(
        f"{seat.capitalize()} {markdown_line(clip(name, 60)) or 'nobody'}" for seat, name in view.seats.items()
    )
    lines = [
        f"# Friday drill: {markdown_line(clip(view.service, 80))}, {view.date}{stamps}",
        "",
        f"Verdict: **{verdict.status.upper()}**. Run {code_span(view.run)}. Roles: {seats}.",
        "",
        "| Row | Target | Window | Observed | Status |",
        "|---|---|---|---|---|",
    ]
    lines += [
        f"| {_cell(row.name)} | {_cell(row.objective)} | {row.window} | {_cell(row.observed)} | {row.status.upper()} |"
        for row in view.rows[:_ROWS]
    ]
    if len(view.rows) > _ROWS:
        lines.append(f"| and {len(view.rows) - _ROWS} more | | | | |")
    lines.append("")
    for one in view.stretches:
        held = "" if one.in_flight is None else f", {one.in_flight:.0f} in flight"
        lines.append(
            f"- {one.name}: {one.missions:,} missions in {one.to_s - one.from_s:.0f} s{held}; {one.ok:,} answered, "
            f"{one.failed} failed, {one.cut} cut; p95 {measure(one.p95, 's')}"
        )
    flags = "; ".join(f"{name} met {met:,} calls" for name, _, met in view.flags)
    lines.append(f"- flags: {markdown_line(clip(flags, 120)) or 'none was on'}")
    first = next(
        (one for one in view.alerts if view.chaos and one.what == "firing" and one.at_s >= view.chaos[0][0]), None
    )
    if first is None:
        lines.append("- alerts: none after the injection")
    else:
        lines.append(
            f"- first alert: {markdown_line(clip(first.rule, 60))} ({markdown_line(clip(first.severity, 20))}), "
            f"{first.at_s - view.chaos[0][0]:.1f} s after the injection"
        )
    if view.sample:
        lines.append(
            f"- to read: {', '.join(view.sample[:5])}"
            + (f" and {len(view.sample) - 5} more" if len(view.sample) > 5 else "")
        )
    broken = [row for row in view.rows if row.status == "fail"]
    for row in broken[:_FOLLOW_UPS]:
        who = view.owners.get(f"row.{row.id}") or view.owners.get(row.id) or view.owners.get("default") or row.owner
        lines.append(f"- follow-up: {_cell(row.name)}: {markdown_line(clip(who, 60))}")
    if len(broken) > _FOLLOW_UPS:
        lines.append(f"- and {len(broken) - _FOLLOW_UPS} follow-ups more")
    lines += ["", "```", clip(last_line(verdict), 160), "```"]
    return "\n".join(lines[:MAX_LINES]) + "\n"


def _cell(text: str) -> str:
    return markdown_line(clip(text, 80)).replace("|", "\\|")
