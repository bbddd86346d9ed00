"""Limits that a policy may set on retries: what holds, what fails, and what cannot be judged is refused."""

import math
from typing import Any

import msgspec
import pytest

from drillmaster.gates.eviction import Eviction
from drillmaster.retries import retry_checks
from drillmaster.verdict import Check
from tests.retries.test_accounting import GOOD, PATIENT, attempt, scene
from tests.scene import FALLBACK, LIMITS, Answer, Scene, judged


def three_times(trace: bool = True) -> Scene:
    """Every request of the fault is tried three times, and served by the fallback."""
    paper = Scene(lambda n, s, on: Answer(600, attempts=0, marks=FALLBACK.marks) if on else Answer(20))
    for n in range(20, 79):
        for k in range(3):
            attempt(paper, n, k * 0.2, retry_count=k, trace=f"{n:032x}" if trace else None)
    return paper


def checks(paper: Scene, **limits: Any) -> dict[str, Check]:
    return judged(paper, **limits)[1]


def test_without_a_limit_nothing_is_judged() -> None:
    assert not {"attempts", "storm", "storm_return"} & set(checks(three_times()))


@pytest.mark.parametrize(("limit", "status"), [(3, "pass"), (2, "fail")])
def test_attempts_of_one_request_are_held_against_their_limit(limit: int, status: str) -> None:
    check = checks(three_times(), max_attempts_per_request=limit)["attempts"]
    assert (check.status, check.role) == (status, "judgement")
    assert f"at most {limit} (observed 3)" in check.title
    assert check.cites


def test_attempts_of_nobody_s_leave_a_number_that_can_fail_and_not_pass() -> None:
    paper = three_times()
    attempt(paper, 30, -0.3, trace=None)  # between two requests
    assert checks(paper, max_attempts_per_request=2)["attempts"].status == "fail"
    refused = checks(paper, max_attempts_per_request=3)["attempts"]
    assert refused.status == "refused"
    assert "traceparent" in refused.remedy and "1 attempts belong to nobody" in refused.why


@pytest.mark.parametrize(("limit", "status"), [(3.0, "pass"), (2.9, "fail")])
def test_the_storm_is_held_against_its_limit(limit: float, status: str) -> None:
    found = checks(three_times(), max_storm_factor=limit)
    assert (found["storm"].status, found["storm_return"].status) == (status, "pass")
    assert found["storm"].observed is not None


def test_the_return_has_a_check_of_its_own() -> None:
    paper = scene(PATIENT)
    attempt(paper, 30, 0)
    for k in range(40):
        attempt(paper, 78, 1.5 + k * 0.01, retry_count=1, **GOOD)
    found = checks(paper, max_storm_factor=2.0)
    assert (found["storm"].status, found["storm_return"].status) == ("pass", "fail")
    assert "50 attempts for 10 user requests, up to 41 in a second" in found["storm_return"].why


def test_a_baseline_without_an_attempt_and_a_bare_file_are_refused_with_what_mends_it() -> None:
    no_model = scene().drop("attempt")
    assert checks(no_model, max_storm_factor=2.0)["storm"].status == "refused"
    assert checks(scene().drop("attempt"), max_attempts_per_request=1)["attempts"].status == "pass"
    bare = msgspec.structs.replace(Scene().run(), bare=True)
    found = list(retry_checks(bare, 3, 2.0))
    assert {check.id: check.status for check in found} == dict.fromkeys(
        ("attempts", "storm", "storm_return"), "refused"
    )
    assert all("drillmaster run eviction" in check.remedy for check in found)


@pytest.mark.parametrize(
    "wrong",
    [
        {"max_attempts_per_request": 0},
        {"max_storm_factor": 0.0},
        {"max_storm_factor": -1.0},
        {"max_storm_factor": math.nan},
        {"max_storm_factor": math.inf},
    ],
)
def test_a_limit_that_decides_nothing_is_no_limit(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=f"{next(iter(wrong))}: found .*, wanted"):
        Eviction(**{**LIMITS, **wrong})
