"""Evidence on which each check of the canary gate goes red, and on which it is green."""

import math
from collections.abc import Iterator
from typing import Any

import msgspec

from drillmaster.clock import parse_rfc3339
from drillmaster.gates import Case
from drillmaster.gates._canary_exceptions import Exemption
from drillmaster.gates.canary import Arm, Baseline, Canary, CanaryArticle, CanaryMetrics
from drillmaster.verdict import Status

__all__ = ["cases"]

NOW_NS = parse_rfc3339("2026-11-30T16:00:00Z") or 0
BUILD = "sha256:" + "a1" * 32
OTHER = "sha256:" + "b2" * 32
MINUTE_NS = 60 * 10**9

LIMITS = Canary(
    service="checkout",
    collectors=("prometheus",),
    max_age_s=900,
    min_requests=5000,
    max_error_ratio=0.002,
    max_p95_ms=180,
    slo_target_ratio=0.999,
    max_slo_burn=1.5,
    min_healthy_hosts=2,
    min_window_s=600,
    min_coverage_ratio=0.95,
    baseline=Baseline(min_requests=5000, max_error_ratio_excess=0.002, max_p95_factor=1.25),
)
ARTICLE = CanaryArticle(
    min_requests=5000,
    max_error_rate=0.002,
    max_p95_ms=180,
    max_slo_burn=1.0,
    min_healthy_hosts=2,
    required_window_seconds=600,
)
ARM = Arm(requests=8200, errors=6, p95_ms=142, healthy_hosts=3, slo_burn=0.4, artifact=BUILD)
GOOD = CanaryMetrics(
    source="prometheus",
    canary=ARM,
    baseline=Arm(requests=150_000, errors=90, p95_ms=139, healthy_hosts=20, artifact=OTHER),
    window_s=900,
    ended_ns=NOW_NS - 2 * MINUTE_NS,
    produced_ns=NOW_NS - MINUTE_NS,
    coverage_ratio=1.0,
    service="checkout",
    wanted_artifact=BUILD,
    now_ns=NOW_NS,
)
EXEMPTION = Exemption(
    check="p95",
    artifact=BUILD,
    by=("ada@example.com", "bea@example.com"),
    granted_at="2026-11-30T15:00:00Z",
    until="2026-11-30T20:00:00Z",
    reason="the slow path is switched off behind a flag",
)


def arm(**more: Any) -> CanaryMetrics:
    """The good evidence with other numbers of the canary."""
    return msgspec.structs.replace(GOOD, canary=msgspec.structs.replace(ARM, **more))


def but(**more: Any) -> CanaryMetrics:
    """The good evidence with other fields."""
    return msgspec.structs.replace(GOOD, **more)


def _red() -> Iterator[tuple[str, Status, CanaryMetrics]]:
    yield "model-verdict-present", "fail", but(offered=("/verdict",))
    yield "artifact", "refused", but(wanted_artifact=OTHER)
    yield "artifact", "refused", but(wanted_artifact=None)
    yield "service", "refused", but(service="search")
    yield "fresh", "refused", but(ended_ns=NOW_NS - 60 * MINUTE_NS)
    yield "fresh", "refused", but(ended_ns=NOW_NS + 5 * MINUTE_NS)
    yield "examined", "refused", arm(requests=0, errors=0)
    yield "consistent", "refused", arm(errors=8201)
    yield "consistent", "refused", arm(errors=-100)
    yield "consistent", "refused", arm(p95_ms=math.nan)
    yield "consistent", "refused", arm(p95_ms=0.0)
    yield "consistent", "refused", arm(slo_burn=-math.inf)
    yield "baseline", "refused", but(baseline=None)
    yield "baseline", "refused", but(baseline=ARM)
    yield "source", "fail", but(source="screenshot")
    yield "sample-size", "fail", arm(requests=4999)
    yield "error-rate", "fail", arm(errors=90)
    yield "error-rate", "refused", arm(errors=16)
    yield "p95", "fail", arm(p95_ms=181)
    yield "p95", "refused", arm(p95_ms=math.nan)
    yield "slo-burn", "fail", arm(slo_burn=1.6)
    yield "slo-burn", "fail", arm(errors=13, slo_burn=0.0)
    yield "slo-burn", "refused", arm(slo_burn=math.nan)
    yield "healthy-hosts", "fail", arm(healthy_hosts=1)
    yield "window", "fail", but(window_s=599.9)
    yield "coverage", "fail", but(coverage_ratio=0.5)
    yield "coverage", "refused", but(coverage_ratio=None)
    base = GOOD.baseline
    assert base is not None
    yield "baseline.error-rate", "fail", arm(errors=30)
    yield "baseline.error-rate", "refused", but(baseline=msgspec.structs.replace(base, requests=4000, errors=0))
    yield "baseline.error-rate", "refused", arm(requests=900, errors=0)
    yield "baseline.p95", "fail", but(baseline=msgspec.structs.replace(base, p95_ms=100))
    yield "baseline.p95", "refused", but(baseline=msgspec.structs.replace(base, p95_ms=math.nan))


def cases() -> Iterator[Case]:
    """Yield evidence with the status that one check has on it."""
    for check, status, evidence in _red():
        yield Case(check=check, status=status, gate=LIMITS, evidence=evidence)
        yield Case(check=check, status="pass", gate=LIMITS, evidence=GOOD)
    slow = arm(p95_ms=181)
    one = msgspec.structs.replace(LIMITS, exceptions=(EXEMPTION,))
    signed = msgspec.structs.replace(slow, signers=EXEMPTION.by)
    yield Case(check="exceptions", status="pass", gate=one, evidence=signed)
    yield Case(check="p95", status="pass", gate=one, evidence=signed)
    yield Case(check="p95", status="fail", gate=one, evidence=slow)
    alone = msgspec.structs.replace(EXEMPTION, by=("ada@example.com", "Ada@example.com"))
    yield Case(
        check="exceptions", status="refused", gate=msgspec.structs.replace(LIMITS, exceptions=(alone,)), evidence=GOOD
    )
    article = msgspec.structs.replace(GOOD, baseline=None, coverage_ratio=None, ended_ns=None, wanted_artifact=None)
    for check in (
        *("model-verdict-present", "fresh", "examined", "consistent", "source", "sample-size", "error-rate", "p95"),
        *("slo-burn", "healthy-hosts", "window"),
    ):
        yield Case(check=check, status="pass", gate=ARTICLE, evidence=article)
