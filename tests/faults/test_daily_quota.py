"""The fault `daily-quota`, played by hand."""

import pytest

from drillmaster.errors import Problem
from drillmaster.faults import make
from drillmaster.rules.retry_after import Told, read
from tests.faults.stage import Stage


def test_a_day_has_so_many_requests_and_ends() -> None:
    stage = Stage()
    fault = make("daily-quota", {"requests": 2})
    assert [stage.play(fault).status for _ in range(2)] == [None, None]
    stage.clock.advance(86_000)
    refused = stage.play(fault)
    assert (refused.status, refused.field("retry-after")) == (429, "400")
    stage.clock.advance(399)
    assert stage.play(fault).status == 429
    stage.clock.advance(1)
    assert [stage.play(fault).status for _ in range(3)] == [None, None, 429]


def test_gemini_says_the_day_and_the_wait_in_its_body_alone() -> None:
    stage = Stage("gemini")
    fault = make("daily-quota", {"requests": 1, "day_s": 120})
    stage.play(fault)
    refused = stage.play(fault)
    assert refused.head is not None
    assert read(refused.head.headers, refused.sent, now_s=0) == Told(120.0, "body", False)
    assert b"PerDay" in refused.sent


def test_each_credential_has_a_day_of_its_own() -> None:
    stage = Stage()
    fault = make("daily-quota", {"requests": 1})
    assert [stage.play(fault, key=key).status for key in ("k1", "k2", "k1", None, None)] == [None, None, 429, None, 429]


def test_the_fields_report_what_is_left() -> None:
    assert dict(Stage().play(make("daily-quota", {"requests": 5})).fields)["x-ratelimit-remaining-requests"] == "4"


@pytest.mark.parametrize(
    "params, field",
    [
        ({}, "requests"),
        ({"requests": 0}, "requests"),
        ({"requests": -1}, "requests"),
        ({"requests": 1, "day_s": 0}, "day_s"),
        ({"requests": 1, "day_s": float("nan")}, "day_s"),
        ({"requests": 1, "day_s": 1e9}, "day_s"),
    ],
)
def test_nonsense_is_refused_by_the_name_of_its_field(params: dict[str, object], field: str) -> None:
    with pytest.raises(Problem, match=field):
        make("daily-quota", params)
