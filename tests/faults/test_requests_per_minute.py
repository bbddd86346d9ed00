"""The fault `requests-per-minute`, played by hand."""

import pytest

from drillmaster.errors import Problem
from drillmaster.faults import make
from tests.faults.stage import Stage


def statuses(stage: Stage, count: int, *, key: str = "k1", **params: object) -> list[int | None]:
    """None: it passed."""
    return [stage.play(make("requests-per-minute", params), key=key).status for _ in range(count)]


def test_a_minutes_requests_may_come_at_once_and_no_more() -> None:
    assert statuses(Stage(), 5, requests=3) == [None, None, None, 429, 429]


def test_a_burst_may_be_smaller_than_a_minutes_requests() -> None:
    assert statuses(Stage(), 3, requests=60, burst=2) == [None, None, 429]


def test_it_heals_by_itself_exactly_when_it_said() -> None:
    stage = Stage()
    fault = make("requests-per-minute", {"requests": 3})
    statuses(stage, 3, requests=3)
    refused = stage.play(fault)
    assert (refused.status, refused.field("retry-after")) == (429, "20")
    stage.clock.advance(19.9)
    assert stage.play(fault).status == 429
    stage.clock.advance(0.1)
    assert stage.play(fault).kinds() == ["Pass"]


def test_each_credential_has_a_bucket_of_its_own() -> None:
    stage = Stage()
    assert statuses(stage, 2, key="k1", requests=1) == [None, 429]
    assert statuses(stage, 2, key="k2", requests=1) == [None, 429]


def test_every_answer_reports_the_bucket_in_the_apis_own_fields() -> None:
    stage = Stage()
    fault = make("requests-per-minute", {"requests": 2})
    seen = [dict(stage.play(fault).fields)["x-ratelimit-remaining-requests"] for _ in range(2)]
    refused = stage.play(fault)
    assert seen == ["1", "0"]
    assert refused.field("x-ratelimit-remaining-requests") == "0"
    assert refused.field("x-ratelimit-limit-requests") == "2"
    assert refused.field("x-ratelimit-reset-requests") == "1m0s"


def test_an_api_without_such_fields_gets_none() -> None:
    assert Stage("gemini").play(make("requests-per-minute", {"requests": 2})).fields == ()


@pytest.mark.parametrize(
    "params, field",
    [
        ({}, "requests"),
        ({"requests": 0}, "requests"),
        ({"requests": -1}, "requests"),
        ({"requests": 1.5}, "requests"),
        ({"requests": float("nan")}, "requests"),
        ({"requests": 10**9}, "requests"),
        ({"requests": 1, "burst": 0}, "burst"),
    ],
)
def test_nonsense_is_refused_by_the_name_of_its_field(params: dict[str, object], field: str) -> None:
    with pytest.raises(Problem, match=field):
        make("requests-per-minute", params)
