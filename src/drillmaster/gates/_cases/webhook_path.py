"""Evidence on which each check of the webhook-path gate goes red, and on which it is green."""

from collections.abc import Iterator
from typing import Any

import msgspec

from drillmaster.clock import parse_rfc3339
from drillmaster.gates import Case
from drillmaster.gates.webhook_path import Span, Spans, WebhookPath
from drillmaster.verdict import Cite, Status

__all__ = ["LIMITS", "MODEL", "NOW_NS", "accept", "cases", "good", "limits", "model", "span", "spans"]

NOW_NS = parse_rfc3339("2026-11-30T16:00:00Z") or 0
T0_NS = NOW_NS - 60 * 10**9
MS = 10**6

LIMITS = WebhookPath(
    accept_paths=("/webhooks/billing",),
    accept_names=(),
    statuses=(202, 400, 401, 408, 413, 500),
    min_accepts=1,
    min_model_spans=1,
    max_accept_ms=2000.0,
    store_span=True,
    max_skew_ms=100.0,
    max_age_s=86_400.0,
)


def limits(**more: Any) -> WebhookPath:
    """The limits with other ones."""
    return msgspec.structs.replace(LIMITS, **more)


def span(id_: str, name: str, start_ms: float, end_ms: float, **more: Any) -> Span:
    """One span of the terminator's trace, in milliseconds from its beginning."""
    fields: dict[str, Any] = {
        "trace": "a" * 32,
        "id": id_,
        "name": name,
        "start_ns": T0_NS + round(start_ms * MS),
        "end_ns": T0_NS + round(end_ms * MS),
        "process": "terminator/1",
        "clock": "host-1",
        "cite": Cite("spans.json", 1),
    } | more
    return Span(**fields)


def accept(**more: Any) -> Span:
    """The accept span: 40 ms, 202."""
    fields: dict[str, Any] = {"kind": "server", "method": "POST", "path": "/webhooks/billing", "status": 202} | more
    return span("01", "POST /webhooks/billing", 0, 40, **fields)


def model(start_ms: float = 90, **more: Any) -> Span:
    """A worker's model, asked below the accept span, when the answer is out."""
    fields: dict[str, Any] = {
        "parent": "03",
        "kind": "client",
        "signals": ("gen_ai.operation.name",),
        "process": "worker/1",
    } | more
    return span("04", "chat gpt-4o", start_ms, start_ms + 900, **fields)


INSERT = span("02", "INSERT events", 10, 20, parent="01", kind="client", stores=True)
WORK = span("03", "process evt", 60, 1200, parent="01", kind="consumer", process="worker/1")
MODEL = model()


def spans(*those: Span, **more: Any) -> Spans:
    """Spans as evidence."""
    return Spans(spans=those, now_ns=NOW_NS, **more)


def good(*more: Span, instead: Span | None = None) -> Spans:
    """The good evidence, with more spans, or with one in the place of that with its id."""
    those = {one.id: one for one in (accept(), INSERT, WORK, MODEL, *more)}
    if instead is not None:
        those[instead.id] = instead
    return spans(*those.values())


def _red() -> Iterator[tuple[str, Status, Spans]]:
    yield "examined", "refused", spans()
    yield "examined", "refused", good(instead=accept(status=401))
    yield "examined", "refused", good(instead=accept(kind="client"))
    yield "fresh", "refused", msgspec.structs.replace(good(), now_ns=NOW_NS + 86_400 * 10**9)
    yield "fresh", "refused", msgspec.structs.replace(good(), now_ns=T0_NS - 61 * 10**9)
    yield "span-twice", "refused", msgspec.structs.replace(good(), twice=(Cite("spans.json", 3),))
    yield "answered", "refused", good(instead=accept(status=None))
    yield "answered", "refused", good(instead=accept(end_ns=0))
    yield "trace-whole", "refused", good(instead=model(parent="99"))
    yield "dropped", "refused", good(instead=accept(dropped=1))
    yield "dropped", "refused", good(instead=model(dropped=2))
    yield "clocks", "refused", good(instead=model(50))  # before the span it hangs below, by one clock
    yield "clocks", "refused", good(instead=accept(end_ns=T0_NS - 1))
    yield "instrumented", "refused", spans(accept(), INSERT, WORK)
    yield "model-before-202", "fail", good(instead=model(30, parent="01"))
    yield "model-before-202", "fail", good(instead=accept(signals=("gen_ai.choice",)))
    yield "model-before-202", "fail", good(span("05", "LLM.complete", 5, 30, parent="01"))
    yield "model-before-202", "fail", good(instead=model(30, parent="", trace="b" * 32, links=(("a" * 32, "01"),)))
    yield "model-before-202", "refused", good(instead=model(90, clock="host-2"))
    yield "context-lost", "refused", good(span("06", "chat gpt-4o", 20, 30, trace="c" * 32))
    yield "status-map", "fail", good(instead=accept(status=200))
    yield "accept-slow", "fail", good(instead=accept(end_ns=T0_NS + 2001 * MS))
    yield "stored-first", "fail", spans(accept(), WORK, MODEL)
    yield "stored-first", "fail", good(instead=msgspec.structs.replace(INSERT, end_ns=T0_NS + 41 * MS))


_CHECKS = (
    "examined",
    "fresh",
    "span-twice",
    "answered",
    "trace-whole",
    "dropped",
    "clocks",
    "instrumented",
    "model-before-202",
    "context-lost",
    "status-map",
    "accept-slow",
    "stored-first",
)


def cases() -> Iterator[Case]:
    for check, status, evidence in _red():
        yield Case(check=check, status=status, gate=LIMITS, evidence=evidence)
    for check in _CHECKS:
        yield Case(check=check, status="pass", gate=LIMITS, evidence=good())
