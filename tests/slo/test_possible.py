"""What can be said of a matrix before a drill."""

import json
from typing import Any

import pytest

from drillmaster.fridays import FlagOn
from drillmaster.slo import impossible, load_matrix
from drillmaster.slo.possible import Planned, too_short
from tests.fridays.paper import MATRIX

GOOD: dict[str, Any] = {
    "flags": (FlagOn(flag="toolTimeout", kind="timeout", first=1), FlagOn(flag="refundError", kind="error", share=0.1)),
    "in_flight": 200,
    "missions": {"all": 50_000, "baseline": 15_000, "chaos": 15_000, "recovery": 15_000},
    "websocket": True,
    "attempts": 3,
    "listen_s": 600,
    "kills": ("refund",),
    "time_limit_s": 30,
    "transcripts": True,
}


def said(**planned: Any) -> dict[str, str]:
    matrix, _ = load_matrix(json.dumps(MATRIX).encode(), place="m", fmt="json")
    return dict(impossible(matrix, Planned(**{**GOOD, **planned})))


def test_a_plan_that_can_answer_every_row_is_told_nothing() -> None:
    assert said() == {}
    assert dict(impossible(load_matrix(json.dumps(MATRIX).encode(), place="m", fmt="json")[0], Planned())).keys() == {
        "detector-time",
        "tool-success",
        "kill-switch",
    }


@pytest.mark.parametrize(
    ("planned", "row", "why"),
    [
        (
            {"flags": (FlagOn(flag="toolTimeout", kind="timeout"), GOOD["flags"][1])},
            "tool-success",
            "no retry can recover",
        ),
        (
            {"flags": (FlagOn(flag="toolTimeout", kind="timeout", share=0.3), GOOD["flags"][1])},
            "tool-success",
            "97.30%",
        ),
        ({"flags": GOOD["flags"][:1]}, "detector-time", "refundError is not among the plan's flags"),
        ({"in_flight": 10}, "mission-latency", "the plan holds 10 in flight, and the row asks for 20"),
        (
            {"in_flight": 20, "ramped": 20 * 20 / 2, "seconds": {"all": 110, "baseline": 33}},
            "mission-latency",
            "with its ramp 18 are in flight on average over all, and it takes 95% of 20: shorten ramp_s",
        ),
        ({"missions": {"all": 50}}, "mission-latency", "50 missions are expected in all, and it takes 59"),
        ({"missions": {"chaos": 298}}, "tool-success", "298 missions are expected in chaos, and it takes 299"),
        ({"kills": ()}, "kill-switch", "refund is not killed"),
        ({"transcripts": False}, "replay", "no transcripts are recorded"),
    ],
)
def test_a_row_that_the_plan_cannot_answer_is_named_with_the_reason(planned: Any, row: str, why: str) -> None:
    assert why in said(**planned)[row]


def test_a_row_that_would_be_refused_where_it_should_fail_is_told_apart() -> None:
    matrix, _ = load_matrix(json.dumps(MATRIX).encode(), place="m", fmt="json")
    found = dict(too_short(matrix, Planned(**{**GOOD, "listen_s": 30, "time_limit_s": 2.5})))
    assert found.keys() == {"detector-time", "mission-latency"}
    assert found["detector-time"] == "alerts are listened for 30 s, less than < 60 s"
    assert found["mission-latency"] == "missions are cut at 2.5 s, before they could break p95 < 2.5 s"
    assert too_short(matrix, Planned(**GOOD)) == []
