"""Prometheus: the rows of a history, as a page to be scraped or a file for node_exporter's textfile collector.

1. `drillmaster_drill_verdicts_total` counts all runs of the history by kind of drill and verdict: rows never go away, so it
   grows. A run that is judged later moves from `unjudged` to its verdict, which looks like a reset of the one.
2. All else is of the newest run of each drill and service. What nobody measured has no sample: `absent()` alerts on that.
3. A figure that was cut ("at least") is shown with its value, and `drillmaster_drill_figure_cut` is 1 beside it.
4. Units are seconds and ratios, in the metric's name. `drillmaster_drill_figure` has every other figure, its unit in the label.
"""

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from drillmaster.clock import parse_rfc3339
from drillmaster.reports.prometheus import exposed

__all__ = ["CONTENT_TYPE", "DrillRow", "render"]

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
VERDICTS = ("pass", "fail", "refused", "aborted", "unjudged")
_NAMED = {
    "p95_latency": (
        "drillmaster_mission_latency_seconds",
        "Latency of missions from when they were due.",
        1.0,
        {"at": "p95"},
    ),
    "detector_delay_ms": (
        "drillmaster_detector_delay_seconds",
        "From the injection to the receipt of an alert that names it.",
        0.001,
        {},
    ),
    "pager_ack_seconds": ("drillmaster_pager_ack_seconds", "From that alert to its acknowledgement.", 1.0, {}),
}


class DrillRow(msgspec.Struct, frozen=True, kw_only=True):
    """One run, oldest first among its like."""

    drill: str
    service: str
    status: str
    ended_at: str
    metrics: Mapping[str, float]
    at_least: Sequence[str] = ()
    proved: Mapping[str, str] = {}


def render(rows: Iterable[DrillRow]) -> str:
    """Write the page; ends with a newline."""
    rows = list(rows)
    counts: dict[str, dict[str, int]] = {}
    newest: dict[tuple[str, str], DrillRow] = {}
    for row in rows:
        of_drill = counts.setdefault(row.drill, dict.fromkeys(VERDICTS, 0))
        of_drill[row.status] = of_drill.get(row.status, 0) + 1
        before = newest.get((row.drill, row.service))
        if before is None or row.ended_at >= before.ended_at:
            newest[row.drill, row.service] = row
    each = [({"drill": drill, "service": service}, row) for (drill, service), row in sorted(newest.items())]
    out = exposed(
        "drillmaster_drill_verdicts_total",
        "Runs of the history by kind of drill and verdict.",
        [
            ({"drill": drill, "verdict": verdict}, float(n))
            for drill, those in sorted(counts.items())
            for verdict, n in those.items()
        ],
        kind="counter",
    )
    out += exposed(
        "drillmaster_drill_verdict",
        "Whether the newest run came to this verdict.",
        [({**base, "verdict": one}, float(row.status == one)) for base, row in each for one in VERDICTS],
    )
    ends = [(base, parse_rfc3339(row.ended_at)) for base, row in each]
    out += exposed(
        "drillmaster_drill_end_timestamp_seconds",
        "When the newest run ended, as Unix time.",
        [(base, None if at is None else at / 1e9) for base, at in ends],
    )
    out += exposed(
        "drillmaster_drill_row_passed",
        "Whether a fault, a flag or a row of the matrix passed in the newest run; 0 where it failed or was refused.",
        [({**base, "row": name}, float(said == "pass")) for base, row in each for name, said in row.proved.items()],
    )
    for figure, (name, text, scale, more) in _NAMED.items():
        found = [({**base, **more}, row.metrics[figure] * scale) for base, row in each if figure in row.metrics]
        out += exposed(name, f"{text} Of the newest run.", found)
    out += exposed(
        "drillmaster_drill_figure",
        "Each other figure of the newest run; its unit is in its name.",
        [
            ({**base, "figure": figure}, value)
            for base, row in each
            for figure, value in row.metrics.items()
            if figure not in _NAMED
        ],
    )
    out += exposed(
        "drillmaster_drill_figure_cut",
        "Whether a figure of the newest run is only a least one: it took so long, and was not over.",
        [({**base, "figure": one}, float(one in row.at_least)) for base, row in each for one in row.metrics],
    )
    return "\n".join(out) + "\n"
