"""The accounting of retries in people's words: a line of the card, two tables and a picture of the page. No form.

1. What cannot be told is said so: "at least" where attempts belong to nobody, "untold" for clients that do not say.
2. On paper, where a page is two sheets, the line stands for the tables.
3. Tokens that are estimated from bytes are never added to those that an answer told.
"""

from collections.abc import Sequence
from typing import Any

from drillmaster.charts import Band, Rule, Series, span_text, steps
from drillmaster.reports import clip, number, quantity
from drillmaster.retries import AT_ONCE_S, Accounting, Layers, Load, Phase, Waits
from drillmaster.verdict import Absent, AtLeast, AtMost, Exact, Measure

__all__ = ["card_text", "page"]

QUIET_FACTOR = 1.05
"""Up to here a load is the baseline's: what is under way at an edge of a stretch counts on one side of it."""


def card_text(books: Accounting) -> str:
    """Say in one sentence what retries made of the worst window; empty where nothing was sent again and no load rose."""
    baseline = books.phases[0]
    faults = [phase for phase in books.phases if phase.name == "fault"]
    loads = [load for storm in books.storms for load in (storm.fault, storm.back) if load is not None]
    rose = any(isinstance(load.factor, Exact) and load.factor.value > QUIET_FACTOR for load in loads)
    if not faults or not (
        rose or any(p.layers.retries or p.layers.elsewhere or p.layers.unread or p.waits.asked for p in faults)
    ):
        return ""
    fault = max(faults, key=lambda phase: _floor(phase.mean))
    storm = books.storm(fault.window or "")
    mean, most, usual = _count(fault.mean), _count(fault.most), _count(baseline.mean)
    if storm is not None and fault.unattributed > fault.attempts:  # what the owners are known of says next to nothing
        text = f"attempts: {storm.fault.attempts} for {storm.fault.due} user requests in the fault"
        text += f"; whose {fault.unattributed} of them were is not known (pass traceparent on, or put {{nonce}} into the prompt)"
    elif isinstance(fault.most, AtLeast):
        text = f"attempts: {mean} a request in the fault, and one had {most} ({usual} in the baseline)"
    else:
        text = f"attempts: {mean} a request in the fault, {most} at most ({usual} in the baseline)"
    if storm is not None and isinstance(storm.fault.factor, Exact):
        text += f"; load {number(round(storm.fault.factor.value, 2))} x"
        if storm.back is not None and isinstance(storm.back.factor, Exact):
            text += f", {number(round(storm.back.factor.value, 2))} x on return"
    if layers := _layers(fault.layers):
        text += f"; sent again: {'at least ' if fault.unattributed else ''}{layers}"
    if fault.waits.asked:
        text += f"; waits asked for: {_waits(fault.waits)}"
    if tokens := _again(fault):
        text += f"; {tokens} tokens billed again"
    return text


def page(books: Accounting, *, bands: Sequence[Band], rules: Sequence[Rule]) -> dict[str, Any]:
    """Give the page its tables, cell by cell, and its picture."""
    many = len(books.storms) > 1
    stretches: list[tuple[str, Load | None]] = [("baseline", books.baseline)]
    for storm in books.storms:
        tail = f" {clip(storm.window, 24)}" if many else ""
        for name, load in (("fault", storm.fault), ("return", storm.back), ("after it", storm.rest)):
            stretches.append((f"{name}{tail}", load))
    heads = [
        f"{phase.name}{f' {clip(phase.window or str(), 24)}' if many and phase.window else ''}"
        for phase in books.phases
    ]
    return {
        "sentence": sentence[:1].upper() + sentence[1:] + "." if (sentence := card_text(books)) else "",
        "chart": _chart(books, bands, rules),
        "loads": [_load(name, load) for name, load in stretches if load is not None],
        "heads": heads,
        "rows": [(label, [cell(phase) for phase in books.phases]) for label, cell in _ROWS if _said(books, cell)],
    }


def _load(name: str, load: Load) -> tuple[str, ...]:
    return (
        name,
        f"{span_text(load.start_s)} to {span_text(load.end_s)}",
        str(load.due),
        str(load.attempts),
        f"{'at least ' if load.unattributed else ''}{load.retries}",
        _count(load.each),
        f"{_count(load.factor)} x" if isinstance(load.factor, Exact) else "none",
        str(load.peak_per_s),
    )


def _layers(layers: Layers) -> str:
    parts = (
        (layers.sdk, "by the SDK"),
        (layers.above, "above it"),
        (layers.untold, "by a client that does not say"),
        (layers.elsewhere, "to another model"),
        (layers.unread, "for a model that was not read"),
    )
    return ", ".join(f"{n} {who}" for n, who in parts if n)


def _waits(waits: Waits) -> str:
    parts = (
        (waits.kept, "kept"),
        (waits.early, "cut short"),
        (waits.gave_up, "given up"),
        (waits.user_left, "outlasted the user"),
    )
    said = ", ".join(f"{n} {what}" for n, what in parts if n)
    return f"{said} of {waits.asked}"


def _tokens(told: int, estimated: int) -> str:
    return " and ".join(filter(None, (str(told) if told else "", f"about {estimated}" if estimated else "")))


def _again(phase: Phase) -> str:
    """Tokens billed again; a lower bound where attempts of nobody's cost some too."""
    said = _tokens(phase.tokens.again, phase.tokens.again_estimated)
    least = said and (phase.tokens.nobodys or phase.tokens.nobodys_estimated)
    return f"at least {said}" if least else said


def _nested(phase: Phase) -> str:
    nested = phase.nested
    if not nested.requests:
        return ""
    return (
        f"{nested.requests}; at worst {nested.tries} tries of up to {nested.attempts_a_try}, {nested.attempts} in all"
    )


def _early(phase: Phase) -> str:
    short_s = phase.waits.most_early_s
    return "" if short_s is None else f"{phase.waits.early}, by up to {quantity(round(short_s, 3), 's')}"


def _pause(phase: Phase) -> str:
    pauses = phase.pauses
    if not pauses.retries or not isinstance(pauses.p50_s, Exact):
        return ""
    return f"p50 {quantity(round(pauses.p50_s.value, 3), 's')}; {pauses.at_once} of {pauses.retries} at once"


_ROWS = (
    ("User requests", lambda p: str(p.requests)),
    ("Attempts of theirs", lambda p: str(p.attempts)),
    ("Attempts of nobody's", lambda p: str(p.unattributed or "")),
    ("Attempts a request: mean", lambda p: _count(p.mean)),
    ("95 % have no more than", lambda p: _count(p.p95)),
    ("The most one had", lambda p: _count(p.most)),
    ("Calls and next steps", lambda p: str(p.layers.call)),
    ("Sent again by the SDK", lambda p: str(p.layers.sdk or "")),
    ("Sent again above the SDK", lambda p: str(p.layers.above or "")),
    ("Sent again, layer untold", lambda p: str(p.layers.untold or "")),
    ("To another model after a failure", lambda p: str(p.layers.elsewhere or "")),
    ("After a failure, for a model that was not read", lambda p: str(p.layers.unread or "")),
    ("Requests in which both sent again", _nested),
    (f"Pause before a retry (at once: under {AT_ONCE_S:g} s)", _pause),
    ("Waits asked for", lambda p: _waits(p.waits) if p.waits.asked else ""),
    ("Came too early", _early),
    ("Waits that could not be read", lambda p: str(p.waits.unreadable or "")),
    ("Retries begun when the user was gone", lambda p: str(p.for_nobody or "")),
    ("Tokens", lambda p: _tokens(p.tokens.told, p.tokens.estimated)),
    ("Tokens of attempts of nobody's", lambda p: _tokens(p.tokens.nobodys, p.tokens.nobodys_estimated)),
    ("Tokens billed again", _again),
)


def _said(books: Accounting, cell: Any) -> bool:
    """Whether a row has anything in it: one that is empty in each phase is left out."""
    return any(cell(phase) for phase in books.phases)


def _count(measure: Measure) -> str:
    match measure:
        case Exact(value=value):
            return number(round(value, 2))
        case AtLeast(value=value):
            return f"at least {number(round(value, 2))}"
        case AtMost(value=value):
            return f"at most {number(round(value, 2))}"
        case Absent():
            return "none"


def _floor(measure: Measure) -> float:
    return measure.value if isinstance(measure, Exact | AtLeast) else 0.0


def _chart(books: Accounting, bands: Sequence[Band], rules: Sequence[Rule]) -> str:
    rates = books.rates
    fault = max((storm.fault.peak_per_s for storm in books.storms), default=0)
    return steps(
        [
            Series("attempts", "bad", tuple(n / rates.bin_s for n in rates.attempts), filled=True),
            Series("users", "other", tuple(n / rates.bin_s for n in rates.due)),
        ],
        bin_s=rates.bin_s,
        title="Attempts on the wire and users' requests, a second",
        description=f"{sum(rates.attempts)} attempts for {sum(rates.due)} user requests; up to {books.baseline.peak_per_s} "
        f"attempts in a second of the baseline, {fault} in the fault.",
        y_title="A second: attempts (filled) and users' requests due (line)",
        bands=bands,
        rules=rules,
    )
