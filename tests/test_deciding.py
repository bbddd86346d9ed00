"""The decision table: each row on paper, the strictest of several, and all that is not known allows nothing."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from drillmaster.clock import parse_rfc3339
from drillmaster.deciding import (
    BudgetNote,
    Caps,
    Decision,
    DecisionLimits,
    JobKind,
    Row,
    allowed_by,
    budget_text,
    decide,
    decided_by,
)
from drillmaster.interviews import Interview, Level
from drillmaster.verdict import Status
from tests.gates.test_interview import timed

END_NS = parse_rfc3339("2026-11-30T23:30:00Z")
LIMITS = DecisionLimits(interactive_p95_s=2.0, degrading_ratio=2.0, cold_near_timeout_ratio=0.5)
CAPS = {
    "warm_c1": Caps(p95_s=20, error_rate=0.0),
    "warm_c4": Caps(p95_s=35, error_rate=0.1),
    "warm_c8": Caps(p95_s=60, error_rate=0.1),
}


def level(label: str, p95: float, failed: int = 0, **over: Any) -> Level:
    n = 1 if label == "cold" else 10
    fields: dict[str, Any] = {
        "label": label,
        "kind": "cold" if label == "cold" else "closed",
        "n": n,
        "failed": {"http_503": failed} if failed else {},
        "known": {"p50": p95, "p95": p95, "max": p95},
    }
    return Level(**(fields | over))


def interview(*levels: Level, **over: Any) -> Interview:
    fields: dict[str, Any] = {
        "name": "interview.json",
        "url": "http://host/v1/chat",
        "declared": tuple(one.label for one in levels),
        "levels": levels,
        "time_limit_s": 60.0,
        "ended_wall_ns": END_NS,
    }
    return Interview(**(fields | over))


def decided(*levels: Level, status: Status = "pass", by_bound: bool = False, **over: Any) -> Decision:
    return decide(interview(*levels, **over), LIMITS, CAPS, status=status, by_bound=by_bound)


QUICK = (level("cold", 3.0), level("warm_c1", 1.0), level("warm_c4", 1.5), level("warm_c8", 1.9))
STEEP = (level("cold", 3.0), level("warm_c1", 4.0), level("warm_c4", 8.0), level("warm_c8", 9.0))
NIGHTLY = (level("cold", 30.0), level("warm_c1", 1.0), level("warm_c4", 1.5), level("warm_c8", 1.9))

ROWS: dict[str, tuple[tuple[Level, ...], tuple[JobKind, ...], str]] = {
    "quick, and no error": (QUICK, ("interactive", "summary"), "no call failed"),
    "worse by a factor with more callers": (STEEP, ("batch",), "grows 2.25 times from one caller to warm_c8"),
    "worse by just the factor": ((QUICK[0], level("warm_c1", 4.0), level("warm_c4", 8.0)), ("batch",), "grows 2 times"),
    "a cold call at half the time limit": (NIGHTLY, (), "took 30 s of 60 s"),
    "errors over their cap": ((*QUICK[:2], level("warm_c4", 1.5, failed=2), QUICK[3]), (), "warm_c4 fails 20 %"),
    "a cold call that failed": ((level("cold", 0.001, failed=1), *QUICK[1:]), (), "cold fails 100 %"),
    # Two rows hold: the stricter decides.
    "quick and steep": ((QUICK[0], level("warm_c1", 0.2), *QUICK[2:]), ("batch",), "grows 9.5 times"),
    "steep and cold": ((NIGHTLY[0], *STEEP[1:]), (), "the cold call took"),
    "cold and errors": ((NIGHTLY[0], level("warm_c1", 1.0, failed=1), *QUICK[2:]), (), "warm_c1 fails 10 %"),
    # No row fits.
    "slow and even": ((QUICK[0], level("warm_c1", 5.0), level("warm_c4", 6.0)), (), "no row of the table fits"),
    "as long as a person waits": ((QUICK[0], level("warm_c1", 2.0), level("warm_c4", 2.0)), (), "no row of the table fits"),
    "quick with an error under its cap": ((*QUICK[:2], level("warm_c4", 1.5, failed=1)), (), "calls failed: 1"),
    # What cannot be told.
    "no cold call": (QUICK[1:], (), "no cold call"),
    "no level with one caller": ((QUICK[0], *QUICK[2:]), (), "no level with one caller"),
    "one level alone": (QUICK[:2], (), "no level with more callers"),
    "no level": ((), (), "no level was run"),
    "a level without calls": ((*QUICK[:3], level("warm_c8", 1.9, n=0)), (), "warm_c8 has no call"),
    "a level without a signed cap": ((*QUICK, level("warm_c16", 1.9)), (), "no error_rate is signed for warm_c16"),
    "a level without a p95": ((*QUICK[:3], level("warm_c8", 1.9, known={})), (), "does not say p95"),
    "one caller in no time": ((QUICK[0], level("warm_c1", 0.0), *QUICK[2:]), (), "p95 of one caller is not known"),
    "a level that was cut": (
        (*QUICK[:3], level("warm_c8", 0, ok_s=(0.5,) * 5, cut_s=(1.5,) * 5)), (), "p95 of warm_c8 is at least 1.5 s",
    ),
    "one caller over its own limit": ((QUICK[0], level("warm_c1", 21.0), level("warm_c4", 50.0)), (), "over its 20 s already"),
}  # fmt: skip


@pytest.mark.parametrize("case", ROWS)
def test_the_strictest_row_that_holds_decides_and_what_is_not_known_allows_nothing(case: str) -> None:
    levels, allowed, why = ROWS[case]
    decision = decided(*levels)
    assert decision.allowed == allowed
    assert why in decision.why
    assert set(decision.elsewhere) == {*decided().elsewhere} - set(allowed)


def test_a_time_limit_that_is_not_known_allows_nothing() -> None:
    decision = decided(*QUICK, time_limit_s=None)
    assert decision.allowed == ()
    assert "nobody says when a call was cut" in decision.why


@pytest.mark.parametrize("status", ["fail", "refused"])
def test_a_verdict_that_is_no_pass_allows_nothing(status: Status) -> None:
    decision = decided(*QUICK, status=status)
    assert (decision.allowed, decision.job_alone) == ((), False)
    assert f"verdict is {status}" in decision.why


def test_without_numbers_of_a_policy_a_pass_is_for_the_job_alone() -> None:
    decision = decide(interview(*QUICK), None, CAPS, status="pass", by_bound=False)
    assert (decision.allowed, decision.job_alone) == ((), True)
    assert not decide(interview(*QUICK), None, CAPS, status="fail", by_bound=False).job_alone


def test_a_gate_that_decides_by_the_bound_needs_a_bound_here_too() -> None:
    def of(calls: int) -> tuple[Level, ...]:
        cold = level("cold", 0, ok_s=(3.0,))
        return (cold, *(level(label, 0, n=calls, ok_s=(1.0,) * calls) for label in ("warm_c1", "warm_c4")))

    assert decided(*of(59), by_bound=True).allowed == ("interactive", "summary")
    few = decided(*of(58), by_bound=True)
    assert few.allowed == ()
    assert "p95 of warm_c1 is not known" in few.why


def test_a_gate_that_counts_blocks_of_time_needs_enough_of_them_here_too() -> None:
    def of(every_s: float) -> Decision:
        levels = [timed(label, [1.0] * 60, every_s=every_s) for label in ("warm_c1", "warm_c4")]
        one = interview(timed("cold", [3.0], kind="cold"), *levels)
        return decide(one, LIMITS, CAPS, status="pass", by_bound=True, block_s=5.0)

    assert of(5.0).allowed == ("interactive", "summary")
    short = of(0.1)
    assert short.allowed == ()
    assert "p95 of warm_c1 is not known" in short.why


def test_calls_by_the_clock_have_to_be_quick_too() -> None:
    caps = {**CAPS, "open_r20": Caps(p95_s=60, error_rate=0.1)}
    slow = interview(*QUICK, level("open_r20", 9.0, kind="open"))
    assert decide(slow, LIMITS, caps, status="pass", by_bound=False).allowed == ()


def test_a_decision_says_when_how_many_and_until_when() -> None:
    decision = decided(*QUICK)
    assert (decision.measured_on, decision.review_on, decision.n) == ("2026-11-30", "2026-12-30", 31)
    undated = decided(*QUICK, ended_wall_ns=None)
    assert (undated.measured_on, undated.review_on) == ("", "")


WHOLE = BudgetNote(allowance="10 million tokens a month", read_on="2026-11-29", url="https://host/terms")


@pytest.mark.parametrize(
    ("note", "said"),
    [
        (WHOLE, "10 million tokens a month, read on 2026-11-29 at https://host/terms"),
        (None, "OPEN: the allowance with its number, the day it was read, the address it was read at"),
        (BudgetNote(allowance="plenty", read_on=WHOLE.read_on, url=WHOLE.url), "OPEN: the allowance with its number"),
        (BudgetNote(allowance="10 M", read_on="2026-02-30", url=WHOLE.url), "OPEN: the day it was read"),
        (BudgetNote(allowance="10 M", read_on=WHOLE.read_on, url="a wiki"), "OPEN: the address it was read at"),
        (BudgetNote(allowance="10 M", read_on=WHOLE.read_on, url="http://["), "OPEN: the address it was read at"),
    ],
)
def test_a_budget_note_without_number_day_or_address_is_open(note: BudgetNote | None, said: str) -> None:
    assert budget_text(note) == said


@given(st.lists(st.tuples(st.floats(0, 100), st.integers(0, 3)), min_size=3, max_size=3), st.floats(0, 100))
def test_nobody_who_waits_is_allowed_where_a_level_is_slow_or_a_call_failed(
    found: list[tuple[float, int]], cold: float
) -> None:
    levels = [level(label, p95, failed) for label, (p95, failed) in zip(CAPS, found, strict=True)]
    allowed = decided(level("cold", cold), *levels).allowed
    if any(p95 >= 2.0 or failed for p95, failed in found) or cold >= 30.0:
        assert not {"interactive", "summary", "chat", "completion", "deadline"} & set(allowed)


def test_which_row_decided_is_said_of_a_pass_alone() -> None:
    rows = (
        Row(name="errors", holds=False, why=""),
        Row(name="cold", holds=None, why=""),
        Row(name="quick", holds=True, why=""),
    )
    decision = msgspec.structs.replace(decided(*QUICK), rows=rows)
    assert decided_by(decision, "pass") == 1  # what cannot be told decides as well
    assert decided_by(decision, "fail") is None and decided_by(decision, "refused") is None
    assert decided_by(msgspec.structs.replace(decision, rows=rows[:1]), "pass") is None
    assert allowed_by("quick") == ("interactive", "summary") and allowed_by("cold") == ()
