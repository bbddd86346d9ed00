"""CSV of an interview: one row a level, for tables of many runs one below the other.

1. The first row names the columns; the unit is in the name. Runs, job and address stand in every row.
2. A cell that is empty was not measured. A quantile that is only "at least" its value has `true` in its `_cut` column; a bound
   that so few calls do not give is empty.
3. Bounds are the 95 % ones of p95, by single calls and by blocks of time; what decided is `observed`, `calls`, `blocks` or
   `neither`, of which one was not there.
4. A level that is void says why in `void`; its figures stand there, and are the client's.
5. RFC 4180: CRLF, quotes doubled. Text that a spreadsheet would take for a formula begins with an apostrophe.
"""

import csv
import io
import re
from typing import Final

from drillmaster.reports import one_line
from drillmaster.reports._levels import LevelView, Spread
from drillmaster.reports.interview import InterviewView
from drillmaster.verdict import AtLeast, Exact, Measure, Verdict

__all__ = ["COLUMNS", "render"]

_LATENCIES: Final = ("p50", "p90", "p95", "p99", "max")
_STREAM: Final = ("p50", "p95", "max")
COLUMNS: Final = (
    "run", "job", "url", "measured_from", "started_at", "verdict", "stamps", "level", "kind", "callers", "calls", "failed",
    *(f"{name}_{end}" for name in _LATENCIES for end in (("s", "low_s", "high_s", "cut") if name != "max" else ("s", "cut"))),
    "error_ratio", "error_ratio_high", "failed_kinds", "span_s", "good_per_s", "output_tokens",
    *(f"first_byte_{name}_s" for name in _STREAM), *(f"first_word_{name}_s" for name in _STREAM),
    *(f"gap_{name}_s" for name in ("p50", "p95", "p99", "max")),
    "held", "late_p99_s", "busy_max_s", "cpu_ratio", "void", "made_again",
    "delay_p99_s", "delay_ratio",
    "p95_bound_calls_s", "p95_bound_blocks_s", "p95_decided_by",
    "chunks", "waits", "waited_s", "sessions", "first_turns_p50_s", "later_turns_p50_s",
)  # fmt: skip  # columns, in the order of the file
_FORMULA = re.compile(r"[=+\-@\t\r]")


def render(verdict: Verdict, view: InterviewView) -> str:
    """Write the table; lines end with CRLF."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\r\n")
    writer.writerow(COLUMNS)
    for level in view.levels:
        writer.writerow([_cell(value) for value in _row(verdict, view, level)])
    return out.getvalue()


def _row(verdict: Verdict, view: InterviewView, level: LevelView) -> list[object]:
    found: list[object] = [
        view.page.evidence,
        view.page.job,
        view.page.url,
        view.decision.measured_from,
        view.started_at,
        verdict.status,
        "; ".join(verdict.stamps),
        level.label,
        level.kind,
        level.callers,
        level.n,
        level.failures,
    ]
    for name in _LATENCIES:
        match level.latency.quantiles.get(name):
            case Exact(value=value, low=low, high=high):
                found += [value, low, high, False] if name != "max" else [value, False]
            case AtLeast(value=value):
                found += [value, None, None, True] if name != "max" else [value, True]
            case _:
                found += [None] * (4 if name != "max" else 2)
    found += [
        level.failures / level.n if level.n else None,
        level.error_bound,
        "; ".join(f"{kind} {count}" for kind, count in sorted(level.failed.items())),
        level.seconds,
        level.good_per_s,
        level.tokens,
    ]
    found += _quantiles(level.first_byte, _STREAM)
    found += _quantiles(level.first_word, _STREAM)
    found += _quantiles(level.gaps, ("p50", "p95", "p99", "max"))
    found += [level.held, level.late_p99_s, level.longest_turn_s, level.cpu_share, "; ".join(level.void)]
    found += [level.made_again, level.delay_p99_s, level.delay_share]
    bound = level.bounds.get("p95")
    found += [_exact(bound.by_calls), _exact(bound.by_blocks), bound.decided] if bound else [None, None, None]
    found += [level.chunks, level.waits, level.waited_s, level.sessions]
    return found + _quantiles(level.first_turns, ("p50",)) + _quantiles(level.later_turns, ("p50",))


def _quantiles(spread: Spread | None, names: tuple[str, ...]) -> list[object]:
    taken = [None if spread is None else spread.quantiles.get(name) for name in names]
    return [_exact(measure) for measure in taken]


def _exact(measure: Measure | None) -> float | None:
    return measure.value if isinstance(measure, Exact) else None


def _cell(value: object) -> str:
    match value:
        case None:
            return ""
        case bool():
            return "true" if value else "false"
        case float():
            return f"{value:.9g}"
        case int():
            return str(value)
    text = one_line(str(value))
    return f"'{text}" if _FORMULA.match(text) else text
