"""JSON of an interview: verdict, decision, levels with all their figures, and manifest, for machines.

    {"kind": "interview_report", "schema_version": 1, "verdict": {...}, "decision": {...}, "levels": [...], "run": {...}}

`verdict` is what the form `json` renders. A figure is null or an object whose `type` is `exact` (`value`, `n`, `low`, `high`),
`at_least` (`value`, `n`: calls that were cut) or `absent` (`why`); seconds. `bounds` of a level are the 95 % ones of a quantile,
`by_calls` and `by_blocks` of `block_s`, and what `decided`. `bins` are pairs of a lower edge in seconds and a
count, 20 bins to a power of ten; `cut_bins` are of calls that were cut. UTF-8, two spaces of indentation, a newline at the end.
The same run and verdict give the same bytes.
"""

from typing import Any, Final

import msgspec

from drillmaster.reports import json as verdict_form
from drillmaster.reports._levels import LevelView, Spread, bin_edge
from drillmaster.reports.interview import InterviewView
from drillmaster.verdict import Verdict

__all__ = ["SCHEMA_VERSION", "document", "render"]

SCHEMA_VERSION: Final = 1
_AS_SPREADS: Final = ("latency", "first_byte", "first_word", "gaps", "first_turns", "later_turns")


def document(verdict: Verdict, view: InterviewView, *, bins: bool = True) -> dict[str, Any]:
    """Turn all of it into plain lists and dicts; without `bins` the histograms are left out."""
    decision = msgspec.to_builtins(view.decision)
    return {
        "kind": "interview_report",
        "schema_version": SCHEMA_VERSION,
        "verdict": verdict_form.document(verdict),
        "decision": {
            "allowed": decision["allowed"],
            "elsewhere": decision["elsewhere"],
            "job_alone": decision["job_alone"],
            "why": decision["why"],
            "rows": [{**row, "decided": view.decided == at} for at, row in enumerate(decision["rows"])],
            "measured_from": decision["measured_from"] or None,
            "review_on": decision["review_on"] or None,
            "budget": decision["budget"],
            "does_not_transfer_to": decision["travels_not"],
        },
        "levels": [_level(level, bins=bins) for level in view.levels],
        "not_run": list(view.not_run),
        "knee": _knee(view),
        "run": {
            "id": view.page.evidence,
            "job": view.page.job,
            "url": view.page.url,
            "payload_sha256": view.page.payload_sha256,
            "started_at": view.started_at,
            "ended_at": view.ended_at or None,
            "ended": view.ended or None,
            "why": view.why or None,
            "idle_s": view.page.idle_s,
            "idle_proven": view.idle_proven,
            "time_limit_s": view.page.time_limit_s,
            "dialect": view.dialect,
            "stream": view.stream,
            "warmup_calls": view.warmup_calls,
            "torn_bytes": view.torn_bytes,
            "thresholds": view.page.thresholds or None,
            "decides": "bound" if view.by_bound else "observed",
            "block_s": view.block_s,
            "manifest": view.manifest,
        },
    }


def render(verdict: Verdict, view: InterviewView) -> str:
    """Write the document; ends with a newline."""
    return msgspec.json.format(msgspec.json.encode(document(verdict, view)), indent=2).decode() + "\n"


def _level(level: LevelView, *, bins: bool) -> dict[str, Any]:
    fields: dict[str, Any] = msgspec.to_builtins(level)
    del fields["dots"]
    for name in _AS_SPREADS:
        spread: Spread | None = getattr(level, name)
        if spread is None:
            continue
        fields[name] = {"n": spread.n, "quantiles": msgspec.to_builtins(spread.quantiles)}
        if bins:
            fields[name] |= {
                "bins": _bins(spread.bins),
                "cut_bins": _bins(spread.cut_bins),
            }
    good = level.good_per_s
    return {**fields, "failures": level.failures, "good_per_s": None if good is None else round(good, 6)}


def _knee(view: InterviewView) -> dict[str, Any]:
    callers, low, high = view.knee_callers or (None, None, None)
    return {
        "told": view.knee_callers is not None,
        "callers": callers,
        "low": low,
        "high": high,
        "text": view.knee or None,
    }


def _bins(bins: dict[int, int]) -> list[list[float]]:
    return [[float(f"{bin_edge(number):.4g}"), count] for number, count in sorted(bins.items())]
