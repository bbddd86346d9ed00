"""HTML: one page that holds everything, under 200 kB, for people who were not there.

1. Nothing is loaded: no script runs, no font, image or style comes from elsewhere; the page's own policy forbids it.
2. The verdict stands first, then what was asked for and what was observed, the picture, the diagnosis, every check.
3. Every request is one mark in the picture and one row in the table behind it. Past 2,000 requests both show a sample:
   every n-th of each outcome in each phase, first and last included; the page says so, and counts are of all.
4. The machine form is inside: `<script type="application/json" id="verdict">` holds what `json` renders. Where a page
   would be too large, long lists of cited lines are shortened in it, then the sample, and the page says that too.
5. The page says what the verdict does not prove.
"""

from collections.abc import Sequence
from importlib import resources
from itertools import groupby
from typing import Any, Final

import jinja2
import msgspec
from markupsafe import Markup

from drillmaster.charts import Band, Callout, Kind, Point, Rule, mark, scatter, span_text
from drillmaster.reports import (
    clip,
    limit,
    measure,
    number,
    one_line,
    quantity,
)
from drillmaster.reports._retries import page as retries_page
from drillmaster.reports._view import OUTCOMES, Outcome, RequestView, RunView
from drillmaster.reports.card import owner
from drillmaster.reports.json import document
from drillmaster.reports.text import last_line, where
from drillmaster.verdict import Absent, AtLeast, AtMost, Check, Exact, Measure, Status, Verdict

__all__ = ["KINDS", "MAX_BYTES", "environment", "frame", "machine", "render", "sample", "style"]

MAX_BYTES: Final = 200_000
_MOST_MARKS: Final = 2_000
_MOST_NOTES: Final = 40
_AWAITED: Final = ("fallback", "recovery")
_WORD: Final[dict[Status, str]] = {"pass": "Pass", "fail": "Fail", "refused": "Refused"}

KINDS: Final[dict[Outcome, Kind]] = {
    "ok_primary": Kind("answered by the primary", "good", "dot"),
    "ok_fallback": Kind("answered by the fallback", "other", "diamond"),
    "ok": Kind("answered, path unknown", "unsure", "lozenge"),
    "truncated": Kind("half an answer, taken for one", "bad", "half"),
    "degraded": Kind("degraded answer", "soft", "triangle"),
    "empty": Kind("empty answer", "soft", "wedge"),
    "http_3xx": Kind("HTTP 3xx", "bad", "gate"),
    "http_4xx": Kind("HTTP 4xx", "bad", "square"),
    "http_5xx": Kind("HTTP 5xx", "worst", "square"),
    "timeout": Kind("user gave up waiting", "worst", "cross"),
    "reset": Kind("connection reset", "worst", "plus"),
    "refused": Kind("connection refused", "worst", "box"),
    "cut": Kind("answer cut off", "bad", "bar"),
    "protocol": Kind("not HTTP, or no status", "bad", "dash"),
    "never_ended": Kind("never ended", "worst", "star"),
}
"""How each outcome is named and drawn, best first."""

UNPROVEN: Final = (
    "A pass is about the way down. It says that the fallback path exists and engages, not that its answers are right: "
    "whether they are good enough is a question for an evaluation, not for this drill.",
    "Only the fault named here was rehearsed. A reset, a 503 and a hang end in different branches of most HTTP clients; "
    "each mode is a drill of its own.",
    "Transport faults are the easy class. Run next what they cannot show: quota exhausted (429, with and without "
    "Retry-After), expired or revoked credentials (401, 403), and a bill that is over its cap.",
    "Not exercised: skew between your clock and the provider's, a changed tokenizer or context limit, and a provider "
    "that answers 200 with a poorer model.",
    "Traffic was steady and small. Nothing here says how much load the fallback bears, or what it costs.",
    "A seal shows that the files have not changed since it was made. Unsigned, it does not show who made it.",
)


def render(verdict: Verdict, view: RunView | None = None) -> str:
    """Write the page, at most MAX_BYTES of UTF-8. Without a run it has no picture, no card and no manifest."""
    page = ""
    for marks, cites in ((_MOST_MARKS, 50), (_MOST_MARKS, 5), (1_000, 2), (400, 0), (100, 0)):
        page = _page(verdict, view, marks, cites)
        if len(page.encode()) <= MAX_BYTES:
            break
    return page


def sample(requests: Sequence[RequestView], most: int) -> tuple[list[RequestView], int]:
    """Take every n-th request of each outcome in each phase, first and last included; n is 1 where all fit.

    Gives the sample in order of due times, and n. Outcomes that are rare stay, so a sample can be a little over `most`.
    """
    if len(requests) <= most:
        return list(requests), 1
    every = -(-len(requests) // max(1, most))
    strata: dict[tuple[str, str], list[int]] = {}
    for index, request in enumerate(requests):
        strata.setdefault((request.phase, request.outcome), []).append(index)
    chosen = {index for places in strata.values() for index in (*places[::every], places[-1])}
    return [requests[index] for index in sorted(chosen)], every


def _visible(value: object) -> object:
    """Make what a template prints safe to look at; autoescape then makes it safe to parse. Our own markup passes."""
    return one_line(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def style() -> str:
    """The style sheet of all pages."""
    return _template("page.html.jinja").partition("<style>")[2].partition("</style>")[0]


def _template(name: str) -> str:
    return resources.files(__package__).joinpath(name).read_text("utf-8")


def environment() -> jinja2.Environment:
    """Where pages are made: all that is printed is safe to parse and to look at, and nothing is missing in silence."""
    return jinja2.Environment(
        loader=jinja2.FunctionLoader(_template),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        finalize=_visible,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def frame(verdict: Verdict) -> dict[str, Any]:
    """What every page says of a verdict: its word, its checks, those that did not pass, and up to four figures."""
    checks = [_check(check) for check in verdict.checks]
    return {
        "verdict": verdict,
        "word": _WORD[verdict.status],
        "summary": _summary(verdict),
        "barred": _barred(verdict) > 0,
        "last_line": last_line(verdict),
        "checks": checks,
        "missed": [check for check in checks if check["status"] != "pass"],
        "tiles": [checks[place] | {"observed": _tile(verdict.checks[place])} for place in _tiles(verdict.checks)],
        "findings": [(_sentence(f.cause), _sentence(f.next), where(f.cites)) for f in verdict.findings],
        "counts": sorted(verdict.counts.items()),
    }


def _page(verdict: Verdict, view: RunView | None, most_marks: int, most_cites: int) -> str:
    return (
        environment()
        .get_template("page.html.jinja")
        .render(
            view=view,
            subject=clip(view.service if view else verdict.subject or verdict.gate, 120),
            unproven=UNPROVEN,
            run=_run(view, most_marks) if view else None,
            owners=_owners(verdict, view),
            **frame(verdict),
            **machine(verdict, most_cites),
        )
    )


def _summary(verdict: Verdict) -> str:
    total = len(verdict.checks)
    failed = sum(check.status == "fail" for check in verdict.checks)
    refused = sum(check.status == "refused" for check in verdict.checks)
    if verdict.status == "pass":
        return f"All {total} checks passed."
    if verdict.status == "fail":
        also = f", {refused} could not be judged" if refused else ""
        return f"{failed} of {total} checks failed{also}."
    if not total:
        return "Nothing was looked at, so nothing was proven."
    if _barred(verdict):
        return f"The drill proves nothing as it stands: {_barred(verdict)} of its preconditions did not hold."
    return f"{refused} of {total} checks could not be judged, and the others cannot stand in for them."


def _barred(verdict: Verdict) -> int:
    """Count the admissions that did not pass: with one of them the judgements settle nothing."""
    return sum(check.role == "admission" and check.status != "pass" for check in verdict.checks)


def _tiles(checks: Sequence[Check]) -> list[int]:
    """Choose up to four judgements with a number and a limit: those that did not pass first, then those with a unit."""
    places = [
        place
        for place, check in enumerate(checks)
        if check.role == "judgement" and check.observed is not None and isinstance(check.limit, float | int)
    ]
    return sorted(sorted(places, key=lambda place: (checks[place].status == "pass", not checks[place].unit))[:4])


def _tile(check: Check) -> str:
    """Say what was observed, in a word where there is one: what took at least the whole window never came."""
    if isinstance(check.observed, AtLeast) and check.unit == "s" and check.id.partition("[")[0].strip() in _AWAITED:
        return f"never ({quantity(check.observed.value, check.unit)})"
    return measure(check.observed, check.unit)


def _check(check: Check) -> dict[str, Any]:
    return {
        "id": check.id,
        "name": check.id.replace("_", " ").replace("-", " "),
        "role": check.role,
        "status": check.status,
        "title": check.title,
        "observed": measure(check.observed, check.unit),
        "limit": limit(check.limit, check.unit),
        "why": check.why,
        "remedy": check.remedy,
        "cites": where(check.cites),
    }


def _owners(verdict: Verdict, view: RunView | None) -> list[tuple[str, str]]:
    failed = [check for check in verdict.checks if check.status == "fail"]
    return [(c.title, owner(c.id, view.owners) or "OPEN") for c in failed] if view else []


def machine(verdict: Verdict, most_cites: int) -> dict[str, Any]:
    """Give the machine form, its long lists of cites cut to `most_cites`, and how many checks and findings that met.

    Inside a script element only `<` could end it or begin a comment; written as an escape it is the same JSON.
    """
    fields = document(verdict)
    cut = 0
    for entry in (*fields["checks"], *fields["findings"]):
        if len(entry["cites"]) > most_cites:
            entry["cites"] = entry["cites"][:most_cites]
            cut += 1
    encoded = (
        msgspec.json.encode(fields).decode().replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
    )
    return {"machine": encoded, "machine_cut": cut, "machine_cites": most_cites}


def _run(view: RunView, most_marks: int) -> dict[str, Any]:
    shown, every = sample(view.requests, most_marks)
    present = [outcome for outcome in OUTCOMES if any(r.outcome == outcome for r in view.requests)]
    totals = {outcome: sum(r.outcome == outcome for r in view.requests) for outcome in present}
    return {
        "chart": _chart(view, shown),
        "every": every,
        "shown": len(shown),
        "total": len(view.requests),
        "legend": [(mark(KINDS[outcome]), KINDS[outcome].label, totals[outcome]) for outcome in present],
        "outcomes": [KINDS[outcome].label[:1].upper() + KINDS[outcome].label[1:] for outcome in present],
        "phases": [
            {
                "name": phase.name,
                "span": f"{span_text(phase.start_s)} to {span_text(phase.end_s)}",
                "total": sum(phase.counts.values()),
                "counts": [phase.counts.get(outcome, 0) for outcome in present],
                "quantiles": [_quantile(phase.p50), _quantile(phase.p95)],
            }
            for phase in view.phases
        ],
        "rows": [
            (
                phase or "outside all phases",
                [
                    (
                        f"{r.due_s:.1f}",
                        "none" if r.latency_s is None else f"{r.latency_s:.3f}",
                        KINDS[r.outcome].label.removeprefix("answered by the "),
                    )
                    for r in group
                ],
            )
            for phase, group in ((p, list(g)) for p, g in groupby(shown, key=lambda r: r.phase))
        ],
        "seats": [(seat.title(), view.seats.get(seat, "nobody")) for seat in ("lead", "scribe", "verifier")],
        "windows": [
            {
                "fault": window.said or window.fault,
                "rules": window.rules,
                "injected": f"{window.injected_at} ({span_text(window.injected_s)} into the run)",
                "lifted": "never" if window.lifted_s is None else f"{span_text(window.lifted_s)} into the run",
                "met": window.met,
                "fallback": "none came"
                if window.first_fallback_s is None
                else f"{number(round(window.first_fallback_s - window.injected_s, 1))} s after the injection",
                "gone": {True: "yes, a probe saw it", False: "no", None: "nobody looked"}[window.gone],
            }
            for window in view.windows
        ],
        "preflight": [
            {
                "check": line.check.replace("_", " ").replace("-", " "),
                "status": line.status,
                "why": line.why or (f"{line.by}, {line.at}" if line.by else ""),
            }
            for line in view.preflight
        ],
        "notes": [
            (n.at, n.kind.replace("_", " "), clip(n.text, 200), clip(n.by, 60)) for n in view.notes[:_MOST_NOTES]
        ],
        "notes_left": max(0, len(view.notes) - _MOST_NOTES),
        "manifest": _manifest(view.manifest),
        "retries": None if view.retries is None else retries_page(view.retries, bands=_bands(view), rules=_rules(view)),
    }


def _manifest(manifest: dict[str, Any]) -> list[tuple[str, str]]:
    texts = {
        key: value if isinstance(value, str) else msgspec.json.encode(value).decode() for key, value in manifest.items()
    }
    return [(key, clip(text, 400)) for key, text in texts.items()]


def _sentence(text: str) -> str:
    """Begin with a capital and end with a full stop, for prose that a gate wrote as a clause."""
    text = text.strip()
    return text[:1].upper() + text[1:] + ("" if text.endswith((".", "?", "!")) else ".")


def _quantile(taken: Measure) -> tuple[str, str]:
    """Give a quantile and, apart, what the sample says about it; under a second in milliseconds, bounds in the same unit."""
    if isinstance(taken, Absent):
        return "none", ""
    unit, scale = ("ms", 1000.0) if abs(taken.value) < 1 else ("s", 1.0)
    value = quantity(taken.value * scale, unit)
    match taken:
        case Exact(n=n, low=low, high=high):
            bounds = (
                f"{number(low * scale)} to {number(high * scale)}, " if low is not None and high is not None else ""
            )
            return value, f"{bounds}n = {n}"
        case AtLeast(n=n):
            return f"at least {value}", f"n = {n}"
        case AtMost(n=n):
            return f"at most {value}", f"n = {n}"


def _chart(view: RunView, shown: Sequence[RequestView]) -> str:
    ends = [phase.end_s for phase in view.phases] + [r.due_s for r in view.requests]
    return scatter(
        [Point(r.due_s, r.latency_s, r.outcome) for r in shown],
        kinds={name: KINDS[name] for name in OUTCOMES},
        x_end=max(ends, default=1.0),
        title="What each request's user got, and how long it took",
        description=_described(view),
        lane="no end",
        y_title="Seconds until the user had an answer or gave up (logarithmic)",
        bands=_bands(view),
        rules=_rules(view),
        callout=_first_fallback(view),
    )


def _bands(view: RunView) -> list[Band]:
    return [
        Band(
            one_line(f"fault: {clip(view.mode, 24)}" if phase.name == "fault" else phase.name),
            phase.start_s,
            phase.end_s,
            strong=phase.name == "fault",
        )
        for phase in view.phases
    ]


def _rules(view: RunView) -> list[Rule]:
    rules = []
    for window in view.windows[:4]:
        rules.append(Rule(window.injected_s, f"injected {span_text(window.injected_s)}"))
        if window.lifted_s is not None:
            rules.append(Rule(window.lifted_s, f"lifted {span_text(window.lifted_s)}"))
    return rules


def _first_fallback(view: RunView) -> Callout | None:
    window = next((w for w in view.windows if w.first_fallback_s is not None), None)
    if window is None or window.first_fallback_s is None:
        return None
    end_s = window.first_fallback_s
    first = next(
        (
            r
            for r in view.requests
            if r.outcome == "ok_fallback" and r.latency_s is not None and abs(r.due_s + r.latency_s - end_s) < 1e-6
        ),
        None,
    )
    if first is None:
        return None
    after_s = number(round(end_s - window.injected_s, 1))
    return Callout(first.due_s, first.latency_s, f"first fallback, {after_s} s after the injection")


def _described(view: RunView) -> str:
    parts = [f"{len(view.requests)} requests over {span_text(max((p.end_s for p in view.phases), default=0.0))}."]
    for phase in view.phases:
        said = ", ".join(f"{n} {KINDS[outcome].label}" for outcome, n in phase.counts.items()) or "no requests"
        parts.append(f"{one_line(phase.name)}: {said}.")
    return " ".join(parts)
