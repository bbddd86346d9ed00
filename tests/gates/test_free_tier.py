"""The free-tier gate: each criterion for leaving at its edge, and what cannot say that a job may stay."""

import math
from itertools import pairwise
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from drillmaster import strict
from drillmaster.errors import Problem
from drillmaster.gates._asks import asks, shared
from drillmaster.gates._cases.free_tier import (
    DAY_NS,
    GOOD,
    HOUR_NS,
    LIMITS,
    NOW_NS,
    SLOW,
    _incidents,
    but,
    night,
    nights,
)
from drillmaster.gates._selftest import selftest
from drillmaster.gates.free_tier import FreeTier, Incident, Interviewed, Spent, Stay
from drillmaster.verdict import Absent, AtLeast, Exact, Verdict, conclude


def statuses(stay: Stay, gate: FreeTier = LIMITS) -> dict[str, str]:
    return {check.id: check.status for check in gate.checks(stay)}


def ends(stay: Stay, gate: FreeTier = LIMITS) -> str:
    return conclude(tuple(gate.checks(stay)))


def closing(stay: Stay) -> tuple[str, ...]:
    checks = tuple(LIMITS.checks(stay))
    return LIMITS.closing(stay, Verdict(gate="free-tier", status=conclude(checks), checks=checks))


def test_every_check_is_shown_to_go_red_and_green() -> None:
    assert [(row.check, row.problems) for row in selftest("free-tier") if not row.holds] == []


def test_every_line_of_the_contract_has_checks_that_exist_or_a_question() -> None:
    told = asks("free-tier")
    known = {entry.id for entry in (*told.check, *shared().check)}
    assert [line.text for line in told.line if not known.issuperset(line.checks)] == []
    assert sum(bool(line.checks) for line in told.line) * 3 >= len(told.line) * 2
    assert {entry.id for entry in told.check} == {check.id for check in LIMITS.checks(GOOD)}


def test_a_job_whose_nights_are_in_order_stays() -> None:
    assert set(statuses(GOOD).values()) == {"pass"}
    assert closing(GOOD) == ("stay: no criterion for leaving is met",)


def again(days_ago: int) -> Interviewed:
    """One more interview of a day, an hour after the first."""
    first = night(days_ago)
    return msgspec.structs.replace(first, ended_ns=first.ended_ns + HOUR_NS, digest=f"sha256:{days_ago + 100:064x}")


LEAVE: dict[str, Stay] = {
    "p95 over three budgets, the last two": nights({}, SLOW, SLOW),
    "p95 over three budgets, two in the middle": nights({}, SLOW, SLOW, {}),
    "a hair over": nights({}, {"p95_s": Exact(18.000001)}, {"p95_s": Exact(18.000001)}),
    "two slow nights, each repeated until it was good": but(
        runs=(night(2), night(1, **SLOW), again(1), night(0, **SLOW), again(0))
    ),
    "cut at more than that": nights({}, {"p95_s": AtLeast(18.5)}, {"p95_s": AtLeast(18.5)}),
    "errors that rounding would lose": nights({}, {}, {"error_ratio": Exact(0.02004)}),
    "a dead endpoint": nights({}, {}, {"error_ratio": Exact(1.0)}),
    "errors, and a good run on the same day": but(
        runs=(night(2), night(1), night(0, error_ratio=Exact(0.3)), again(0))
    ),
    "a drain over, and a good run on the same day": but(
        runs=(night(2), night(1), night(0, drain_s=Exact(9000.0)), again(0))
    ),
    "a drain a hair over": nights({}, {}, {"drain_s": Exact(4320.001)}),
    "a drain that did not end": nights({}, {}, {"drain_s": AtLeast(5000.0)}),
    "two incidents of capacity": but(incidents=_incidents("capacity", "code", "capacity")),
    "two incidents on both sides of a month's end": but(
        incidents=(*_incidents("capacity", days_ago=0.1), *_incidents("capacity", days_ago=30.5))
    ),
    "hours of many small notes": but(spent=tuple(Spent(at_ns=NOW_NS, hours=0.45, line=2 + n) for n in range(10))),
    "two red flags": but(flags=("routed-around", "ceiling-unknown")),
}


@pytest.mark.parametrize("case", LEAVE)
def test_a_criterion_that_is_met_says_leave(case: str) -> None:
    assert ends(LEAVE[case]) == "fail", statuses(LEAVE[case])
    assert closing(LEAVE[case])[0] == "leave:"


STAY: dict[str, Stay] = {
    "one slow night": nights({}, SLOW, {}),
    "one slow night, and a good run on its day": but(runs=(night(2), night(1), night(0, **SLOW), again(0))),
    "a lost run, and a good one on its day": but(runs=(night(2), night(1, lost="stopped"), again(1), night(0, **SLOW))),
    "two slow nights that are not in a row": nights(SLOW, {}, SLOW),
    "errors just at the cap": nights({}, {}, {"error_ratio": Exact(0.02)}),
    "a run without a batch earlier on the day": but(
        runs=(night(2), night(1), night(0, drain_s=Absent("no batch")), again(0))
    ),
    "an older night of errors": nights({}, {"error_ratio": Exact(0.3)}, {}),
    "a drain just at its fifth": nights({}, {}, {"drain_s": Exact(4320.0)}),
    "one incident of capacity": but(incidents=_incidents("capacity")),
    "many incidents of our own": but(incidents=_incidents(*("code",) * 9)),
    "an incident of unknown cause alone": but(incidents=_incidents("unknown")),
    "two incidents of last month": but(incidents=_incidents("capacity", "capacity", days_ago=32)),
    "hours that cost just as much": but(spent=(Spent(at_ns=NOW_NS, hours=400 / 90, line=2),)),
    "hours of last month": but(spent=(Spent(at_ns=NOW_NS - 32 * DAY_NS, hours=100, line=2),)),
    "one red flag": but(flags=("mean-only",)),
    "no entry but that nothing happened": but(incidents=(), spent=(), flags=()),
    "a gap just as long as may be": but(runs=(night(4), night(2), night(0))),
    "a lost night between two good ones": nights({}, {}, {"lost": "stopped"}, {}),
    "a lost night at the end": nights({}, {}, {}, {"lost": "stopped"}),
    "a cold start of another night": nights({}, {"idle_s": 60.0}, {"idle_s": None}),
}


@pytest.mark.parametrize("case", STAY)
def test_what_is_no_criterion_keeps_nobody_from_staying(case: str) -> None:
    assert ends(STAY[case]) == "pass", statuses(STAY[case])


REFUSED: dict[str, Stay] = {
    "no run": but(runs=()),
    "too few runs": nights({}, {}),
    "a gap": but(runs=(night(5), night(2), night(1))),
    "not in order": but(runs=(night(0), night(1), night(2))),
    "stale": but(now_ns=NOW_NS + 2 * DAY_NS),
    "undated": nights({"ended_ns": 0}, {}, {}),
    "a night that was not sealed": nights({}, {"unusable": "it was not sealed"}, {}, {}),
    "a bad night and a good one that was lost": nights(SLOW, {"unusable": "altered"}, {}, {}),
    "a lost night beside a slow one": nights({}, {}, SLOW, {"lost": "stopped"}),
    "a lost night between two slow ones": nights(SLOW, {"lost": "stopped"}, SLOW, {}, {}),
    "more lost nights than may be": nights({}, {"lost": "stopped"}, {}, {"lost": "busy"}, {}),
    "one night under two names": nights({"digest": "sha256:7"}, {"digest": "sha256:7"}, {}),
    "a call too few": nights({}, {}, {"calls": 199}),
    "no silence": nights(*({"idle_s": 1799.9},) * 3),
    "no ledger": but(ledger="nothing"),
    "a ledger that nobody keeps": but(ledger_kept_ns=NOW_NS - 7 * DAY_NS - 10**9),
    "a ledger of tomorrow": but(ledger_kept_ns=NOW_NS + DAY_NS),
    "another job's ledger": but(ledger_job="nightly lint 2"),
    "no batch": nights({}, {}, {"drain_s": Absent("no batch")}),
    "cut before it could be too slow": nights({}, {"p95_s": AtLeast(10)}, {"p95_s": AtLeast(10)}),
    "an incident whose cause would tip it": but(incidents=_incidents("capacity", "unknown")),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_was_not_measured_is_not_in_order(case: str) -> None:
    assert ends(REFUSED[case]) == "refused", statuses(REFUSED[case])
    assert not any(line.startswith("stay") for line in closing(REFUSED[case]))
    assert all(check.remedy for check in LIMITS.checks(REFUSED[case]) if check.status == "refused")


@pytest.mark.parametrize("kind", ["interactive", "fan-out", "contractual"])
def test_no_numbers_keep_such_a_job(kind: str) -> None:
    assert ends(GOOD, msgspec.structs.replace(LIMITS, workload=kind)) == "fail"


def test_a_job_without_a_batch_needs_no_drain() -> None:
    gate = msgspec.structs.replace(LIMITS, workload="dev-chat", batch_window_s="none")
    assert ends(nights({}, {}, {"drain_s": Absent("no batch")}), gate) == "pass"


def test_retries_that_grew_are_a_red_flag_that_nobody_has_to_raise() -> None:
    grown = nights({"max_attempts": 1}, {"max_attempts": 3}, {"max_attempts": 3})
    assert statuses(but(runs=grown.runs, flags=()))["red-flags"] == "pass"
    assert statuses(but(runs=grown.runs, flags=("second-window",)))["red-flags"] == "fail"


POLICY = msgspec.to_builtins(LIMITS)
BAD_LIMITS: dict[str, dict[str, Any]] = {
    "one run in a row": {"consecutive_runs": 1},
    "fewer runs than in a row": {"min_runs": 2, "consecutive_runs": 3},
    "an error budget of 1.5": {"max_error_ratio": 1.5},
    "an error budget of 1": {"max_error_ratio": 1.0},
    "an error budget that is no number": {"max_error_ratio": math.nan},
    "no price": {"paid_tier_per_month": 0},
    "no hourly cost": {"hourly_cost": 0},
    "a batch without a window": {"batch_window_s": "none"},
    "58 calls": {"min_calls": 58},
    "the cold call for a level": {"level": "cold"},
    "another kind of job": {"workload": "nightly"},
    "an unknown limit": {"max_p99_s": 3},
    "a flag": {"leave_at_red_flags": 6},
}


@pytest.mark.parametrize("case", BAD_LIMITS)
def test_limits_that_cannot_be_meant_are_refused(case: str) -> None:
    with pytest.raises(Problem):
        strict.as_type(POLICY | BAD_LIMITS[case], FreeTier, place="policy.yaml")


@pytest.mark.parametrize("field", [name for name in POLICY if name != "gate"])
def test_no_limit_has_a_default(field: str) -> None:
    with pytest.raises(Problem, match=field):
        strict.as_type({k: v for k, v in POLICY.items() if k != field}, FreeTier, place="policy.yaml")


NUMBERS = st.floats() | st.sampled_from([math.nan, math.inf, -math.inf])


@given(
    p95=st.lists(NUMBERS, min_size=3, max_size=5), errors=NUMBERS, drain=NUMBERS, hours=NUMBERS, days=st.integers(0, 40)
)
def test_to_stay_takes_finite_numbers_under_finite_limits(
    p95: list[float], errors: float, drain: float, hours: float, days: int
) -> None:
    stay = nights(*({"p95_s": Exact(one), "error_ratio": Exact(errors), "drain_s": Exact(drain)} for one in p95))
    spent = (Spent(at_ns=NOW_NS - days * DAY_NS, hours=hours, line=2),)
    stay = msgspec.structs.replace(stay, spent=spent, incidents=(Incident(at_ns=NOW_NS, cause="code", line=3),))
    if ends(stay) == "pass":
        assert math.isfinite(errors)
        assert math.isfinite(drain)
        assert errors <= 0.02
        assert drain <= 4320
        assert days > 31 or hours * 90 <= 400
        slow = [not one <= 18 for one in p95]
        assert not any(a and b for a, b in pairwise(slow))
