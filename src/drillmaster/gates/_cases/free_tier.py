"""Evidence on which each check of the free-tier gate goes red, and on which it is green."""

from collections.abc import Iterator
from typing import Any

import msgspec

from drillmaster.clock import parse_rfc3339
from drillmaster.gates import Case
from drillmaster.gates.free_tier import FreeTier, Incident, Interviewed, Spent, Stay
from drillmaster.verdict import Absent, AtLeast, Exact, Status

__all__ = ["cases"]

NOW_NS = parse_rfc3339("2026-11-30T16:00:00Z") or 0
HOUR_NS = 3600 * 10**9
DAY_NS = 24 * HOUR_NS
JOB, URL = "nightly lint", "http://127.0.0.1:8000/v1/chat"

LIMITS = FreeTier(
    job=JOB,
    url=URL,
    workload="batch",
    level="warm_c8",
    p95_budget_s=6.0,
    leave_over_budgets=3.0,
    consecutive_runs=2,
    max_error_ratio=0.02,
    max_attempts_per_call=3,
    batch_window_s=3600.0,
    leave_over_window_ratio=0.2,
    leave_at_incidents=2,
    hourly_cost=90.0,
    paid_tier_per_month=400.0,
    leave_at_red_flags=2,
    min_calls=200,
    min_runs=3,
    max_lost_runs=1,
    span_s=30 * 86_400.0,
    max_gap_s=2 * 86_400.0,
    max_age_s=2 * 86_400.0,
    min_idle_s=1800.0,
    max_ledger_silence_s=7 * 86_400.0,
)


def night(days_ago: int, **more: Any) -> Interviewed:
    """One interview, in order, so many days ago."""
    ended_ns = NOW_NS - days_ago * DAY_NS - 10 * HOUR_NS
    fields: dict[str, Any] = {
        "run": f"2026-11-{30 - days_ago:02d}",
        "ended_ns": ended_ns,
        "digest": f"sha256:{days_ago:064x}",
        "calls": 200,
        "p50_s": Exact(1.1, n=200),
        "p95_s": Exact(5.0, n=200),
        "error_ratio": Exact(0.01, n=200),
        "drain_s": Exact(3000.0, n=500),
        "cold_s": Exact(9.0, n=1),
        "idle_s": 1800.0,
        "payload_sha256": "sha256:5f0e",
    } | more
    return Interviewed(**fields)


RUNS = tuple(night(days) for days in (3, 2, 1, 0))
GOOD = Stay(
    job=JOB,
    url=URL,
    runs=RUNS,
    ledger_job=JOB,
    ledger_kept_ns=NOW_NS - DAY_NS,
    incidents=(Incident(at_ns=NOW_NS - 40 * DAY_NS, cause="capacity", line=2),),
    spent=(Spent(at_ns=NOW_NS - 3 * DAY_NS, hours=4.0, line=3),),
    flags=("mean-only",),
    now_ns=NOW_NS,
)


def but(**more: Any) -> Stay:
    """The good evidence with other fields."""
    return msgspec.structs.replace(GOOD, **more)


def nights(*more: dict[str, Any]) -> Stay:
    """The good evidence with other nights, oldest first; the last is today's."""
    return but(runs=tuple(night(len(more) - 1 - at, **one) for at, one in enumerate(more)))


SLOW = {"p95_s": Exact(18.1, n=200)}
CUT = {"p95_s": AtLeast(20.0, 200)}
UNKNOWN = {"p95_s": AtLeast(17.0, 200)}


def _incidents(*causes: str, days_ago: float = 1) -> tuple[Incident, ...]:
    at_ns = NOW_NS - round(days_ago * DAY_NS)
    return tuple(
        Incident(at_ns=at_ns, cause=cause, line=2 + at)  # type: ignore[arg-type]  # words of the table below
        for at, cause in enumerate(causes)
    )


def _red() -> Iterator[tuple[str, Status, Stay]]:
    yield "subject", "refused", but(ledger_job="another job")
    yield "subject", "refused", nights({}, {}, {"payload_sha256": "sha256:0000"})
    yield "runs-usable", "refused", nights({}, {"unusable": "it was not sealed"}, {}, {})
    yield "runs-usable", "refused", nights({}, {"lost": "it was stopped"}, {"lost": "it was stopped"}, {}, {})
    yield "runs-usable", "refused", but(unreadable=("2026-11-28: an empty file",))
    yield "runs", "refused", nights({}, {})
    yield "runs", "refused", but(runs=())
    yield "runs-distinct", "refused", nights({"digest": "sha256:1"}, {"digest": "sha256:1"}, {})
    yield "calls", "refused", nights({}, {"calls": 199}, {})
    yield "fresh", "refused", but(now_ns=NOW_NS + 3 * DAY_NS)
    yield "fresh", "refused", nights({}, {}, {"ended_ns": 0})
    yield "fresh", "refused", nights({}, {}, {"ended_ns": NOW_NS + HOUR_NS})
    yield "fresh", "pass", nights({}, {}, {"ended_ns": NOW_NS + 30 * 10**9})
    yield "gaps", "refused", but(runs=(night(9), night(3), night(0)))
    yield "gaps", "refused", but(runs=(night(0), night(1), night(2)))
    yield "cold-start", "refused", nights(*({"idle_s": 120.0},) * 3)
    yield "cold-start", "refused", nights(*({"cold_s": Absent("it may not have been cold")},) * 3)
    yield "ledger", "refused", but(ledger="nothing")
    yield "ledger-kept", "refused", but(ledger_kept_ns=NOW_NS - 8 * DAY_NS)
    yield "ledger-kept", "refused", but(ledger_kept_ns=None)
    yield "p95", "fail", nights({}, SLOW, CUT)
    yield "p95", "fail", nights(SLOW, SLOW, {})
    yield "p95", "refused", nights({}, SLOW, UNKNOWN)
    yield "p95", "refused", nights({}, SLOW, {"lost": "it was stopped"}, {})
    yield "error-rate", "fail", nights({}, {}, {"error_ratio": Exact(0.02004, n=200)})
    yield "error-rate", "refused", nights({}, {}, {"error_ratio": Absent("not measured")})
    yield "retries", "fail", nights({}, {"max_attempts": 4}, {})
    yield "drain", "fail", nights({}, {}, {"drain_s": Exact(4320.5, n=500)})
    yield "drain", "refused", nights({}, {}, {"drain_s": Absent("no batch was worked off")})
    yield "capacity-incidents", "fail", but(incidents=_incidents("capacity", "capacity"))
    yield "capacity-incidents", "fail", but(incidents=_incidents("capacity", "capacity", days_ago=31))
    yield "capacity-incidents", "refused", but(incidents=_incidents("capacity", "unknown", "code"))
    yield "hours", "fail", but(spent=(Spent(at_ns=NOW_NS, hours=4.5, line=2),))
    yield "red-flags", "fail", but(flags=("mean-only", "second-window"))
    yield "red-flags", "fail", nights({"max_attempts": 1}, {}, {"max_attempts": 3})


def _green() -> Iterator[tuple[str, Stay]]:
    yield "p95", nights(SLOW, {}, SLOW, {})
    yield "p95", nights({}, {"lost": "it was stopped"}, {}, {})
    yield "runs-usable", nights({}, {"lost": "it was stopped"}, {}, {})
    yield "p95", nights({"p95_s": Exact(18.0)}, {"p95_s": Exact(18.0)}, {"p95_s": Exact(18.0)})
    yield "error-rate", nights({"error_ratio": Exact(0.5)}, {}, {"error_ratio": Exact(0.02)})
    yield "drain", nights({}, {}, {"drain_s": Exact(4320.0)})
    yield "capacity-incidents", but(incidents=_incidents("capacity", "capacity", days_ago=31.01))
    yield "capacity-incidents", but(incidents=_incidents("capacity", "code", "code"))
    yield "hours", but(spent=(Spent(at_ns=NOW_NS, hours=400 / 90, line=2),))


def cases() -> Iterator[Case]:
    """Yield evidence with the status that one check has on it."""
    for check, status, evidence in _red():
        yield Case(check=check, status=status, gate=LIMITS, evidence=evidence)
        yield Case(check=check, status="pass", gate=LIMITS, evidence=GOOD)
    for check, evidence in _green():
        yield Case(check=check, status="pass", gate=LIMITS, evidence=evidence)
    for kind in ("interactive", "fan-out", "contractual"):
        never = msgspec.structs.replace(LIMITS, workload=kind)
        yield Case(check="workload", status="fail", gate=never, evidence=GOOD)
    for kind in ("dev-chat", "idempotent-agent", "batch"):
        fit = msgspec.structs.replace(LIMITS, workload=kind)
        yield Case(check="workload", status="pass", gate=fit, evidence=GOOD)
