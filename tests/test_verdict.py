import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drillmaster.verdict import (
    Absent,
    AtLeast,
    AtMost,
    Check,
    Exact,
    Measure,
    Status,
    Verdict,
    at_most,
    conclude,
    holds,
)

A, J = "admission", "judgement"


def check(role: str, status: str) -> Check:
    return Check(id="x", role=role, status=status, title="x")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("checks", "want"),
    [
        ([], "refused"),  # nothing looked at
        ([(A, "pass")], "refused"),  # admitted, and nothing judged
        ([(A, "pass"), (J, "pass")], "pass"),
        ([(J, "pass")], "pass"),
        ([(A, "pass"), (J, "fail"), (J, "refused")], "fail"),  # a failure outranks a refused judgement
        ([(A, "pass"), (J, "pass"), (J, "refused")], "refused"),
        ([(A, "refused"), (J, "fail")], "refused"),  # but never an admission
        ([(A, "fail"), (J, "pass")], "refused"),
    ],
)
def test_checks_fold_by_precedence(checks: list[tuple[str, str]], want: str) -> None:
    assert conclude([check(*c) for c in checks]) == want


@pytest.mark.parametrize(
    ("observed", "want"),
    [
        (Exact(60), "pass"),  # equal passes
        (Exact(60.001), "fail"),
        (Exact(math.nan), "refused"),
        (Exact(math.inf), "refused"),
        (Exact(-math.inf), "refused"),
        (AtLeast(900), "fail"),  # a fallback that never came
        (AtLeast(60), "refused"),  # it may have been 60
        (AtLeast(30), "refused"),
        (AtLeast(math.nan), "refused"),
        (AtMost(60), "pass"),
        (AtMost(61), "refused"),
        (AtMost(math.nan), "refused"),
        (Absent("nothing"), "refused"),
    ],
)
def test_a_measure_is_judged_where_it_settles_the_question(observed: Measure, want: Status) -> None:
    assert at_most(observed, 60) == want


@pytest.mark.parametrize("limit", [math.nan, math.inf, -math.inf])
def test_no_measure_passes_a_limit_that_is_not_finite(limit: float) -> None:
    for observed in (Exact(0), AtMost(0), AtLeast(1e9), Absent("")):
        assert at_most(observed, limit) == "refused"


@given(st.floats(), st.floats())
def test_a_pass_implies_finite_numbers_under_finite_limits(value: float, limit: float) -> None:
    for observed in (Exact(value), AtMost(value)):
        if at_most(observed, limit) == "pass":
            assert math.isfinite(limit)
            assert value <= limit


def test_unknown_is_refused() -> None:
    assert holds(None) == "refused"
    assert holds(True) == "pass"
    assert holds(False) == "fail"
    assert holds(False, otherwise="refused") == "refused"


@pytest.mark.parametrize(("status", "code"), [("pass", 0), ("fail", 1), ("refused", 2)])
def test_the_exit_code_is_the_status(status: Status, code: int) -> None:
    assert Verdict(gate="g", status=status, checks=()).exit == code
