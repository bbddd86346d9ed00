"""Evidence on which each check of the retries gate goes red, and on which it is green."""

from collections.abc import Iterator
from typing import Any

import msgspec

from drillmaster.clock import parse_rfc3339
from drillmaster.gates import Case
from drillmaster.gates.retries import Decided, Layer, Retried, Retries, RetriesArticle, Wire
from drillmaster.verdict import Status

__all__ = ["GOOD", "LIMITS", "LOG", "NOW_NS", "but", "cases", "decided", "limits", "wire"]

NOW_NS = parse_rfc3339("2026-11-30T16:00:00Z") or 0

LIMITS = Retries(
    max_retry_ratio=0.05,
    min_requests=500,
    forbid_reasons=("unpinned-source",),
    min_decisions=20,
    max_reason_ratio={"budget-exhausted": 0.2, "status-not-retryable": 0.6},
    layers=(
        Layer(name="SDK", kind="again", times=1),
        Layer(name="loop", kind="again", times=3),
        Layer(name="tools", kind="beside", times=4),
        Layer(name="turns", kind="turns", times=50),
    ),
    max_calls=600,
    routes={"refund": 3, "balance": 2},
    max_age_s=86_400.0,
)
ARTICLE = RetriesArticle(max_retry_ratio=0.05, forbid_reasons=("unpinned-source",))

_DECIDED = Decided(
    allowed={"pinned-status": 40},
    denied={"status-not-retryable": 20, "budget-exhausted": 5, "retry-after-over-cap": 2},
    most_attempt=2,
    routes={"refund": 2, "balance": 1},
)
_WIRE = Wire(attempts=1040, retries=40, unknown=0, most=3, asked=6)
GOOD = Retried(
    source="run",
    decided=_DECIDED,
    requests=1000,
    wire=_WIRE,
    ended_ns=NOW_NS - 3600 * 10**9,
    now_ns=NOW_NS,
)
LOG = msgspec.structs.replace(GOOD, source="log", wire=None)


def but(**more: Any) -> Retried:
    """The good evidence with other fields."""
    return msgspec.structs.replace(GOOD, **more)


def decided(**more: Any) -> Retried:
    """The good evidence with other decisions."""
    return but(decided=msgspec.structs.replace(_DECIDED, **more))


def wire(**more: Any) -> Retried:
    """The good evidence with another wire."""
    return but(wire=msgspec.structs.replace(_WIRE, **more))


def limits(**more: Any) -> Retries:
    """The limits with other ones."""
    return msgspec.structs.replace(LIMITS, **more)


def _red() -> Iterator[tuple[str, Status, Retried]]:
    yield "sealed", "refused", but(seal_problems=("timeline.jsonl:3 altered",))
    yield "lines-usable", "refused", but(unusable=1, unusable_why="soak.jsonl:7 torn")
    yield "fresh", "refused", but(ended_ns=NOW_NS - 86_401 * 10**9)
    yield "fresh", "refused", but(ended_ns=NOW_NS + 61 * 10**9)
    yield "fresh", "refused", but(ended_ns=0)
    yield "fresh", "refused", msgspec.structs.replace(LOG, began_ns=NOW_NS - 86_401 * 10**9)
    yield "examined", "refused", but(requests=499)
    yield "examined", "refused", but(requests=None)
    yield "decisions", "refused", but(decided=Decided())
    yield "decisions", "refused", but(decided=Decided(allowed={"pinned-status": 19}))
    yield "retry-ratio", "fail", wire(retries=51)
    yield "retry-ratio", "refused", wire(retries=50, unknown=1)
    yield "retry-ratio", "refused", but(requests=None)
    yield "retry-ratio", "refused", msgspec.structs.replace(decided(sampled=1), source="log", wire=None)
    yield "forbidden.*", "fail", decided(denied={"unpinned-source": 1})
    yield "forbidden.*", "fail", decided(allowed={"pinned-status": 40, "unpinned-source": 1})
    yield "forbidden.*", "refused", but(decided=Decided())
    yield "reason-recorded", "fail", decided(unnamed=1)
    yield "reason-recorded", "fail", decided(sent_unnamed=1)
    yield "reason-contradicted", "fail", decided(contradicted=1)
    yield "share.*", "fail", decided(denied={"budget-exhausted": 11})
    yield "share.*", "refused", but(decided=Decided())
    yield "route.*", "fail", decided(routes={"refund": 3})
    yield "route-said", "fail", decided(unrouted=1)
    yield "route-said", "fail", decided(routes={"refund": 1, "elsewhere": 1})
    yield "as-declared", "fail", wire(most=13)
    yield "as-declared", "fail", decided(most_attempt=12)
    yield "as-declared", "refused", wire(unknown=10)
    yield "share.*", "refused", decided(sampled=1, allowed={"pinned-status": 1})
    yield "as-declared", "refused", msgspec.structs.replace(decided(uncounted=1), source="log", wire=None)
    yield "retries-decided", "fail", wire(retries=41)
    yield "retries-decided", "refused", wire(unknown=1)
    yield "retries-decided", "refused", but(decided=Decided())
    yield "retries-decided", "refused", msgspec.structs.replace(decided(sampled=40), wire=wire(retries=41).wire)
    yield "waits-kept", "fail", wire(early=1)


_CHECKS = (
    "sealed",
    "lines-usable",
    "fresh",
    "examined",
    "decisions",
    "retry-ratio",
    "forbidden.*",
    "reason-recorded",
    "reason-contradicted",
    "share.*",
    "route.*",
    "route-said",
    "worst-case",
    "as-declared",
    "retries-decided",
    "waits-kept",
)


def cases() -> Iterator[Case]:
    for check, status, evidence in _red():
        yield Case(check=check, status=status, gate=LIMITS, evidence=evidence)
    yield Case(check="worst-case", status="fail", gate=limits(max_calls=599), evidence=GOOD)
    for check in _CHECKS:
        yield Case(check=check, status="pass", gate=LIMITS, evidence=GOOD)
    for check in ("retry-ratio", "forbidden.*", "examined"):
        yield Case(check=check, status="pass", gate=ARTICLE, evidence=LOG)
    yield Case(check="examined", status="refused", gate=ARTICLE, evidence=but(requests=19))
