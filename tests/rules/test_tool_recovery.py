"""Success of tools is counted per mission after retries, and a mark that flatters counts for nothing."""

from typing import Any

import pytest

from drillmaster.evidence import Row
from drillmaster.rules.tool_recovery import Recovery, recovery

A, F = "tool_attempted", "tool_finished"


def rows(*said: tuple[str, dict[str, Any]]) -> list[Row]:
    return [
        Row(
            "timeline.jsonl",
            number,
            number * 1_000,
            event,
            {"event": event, "mission": "m1", "tool": "refund", **fields},
        )
        for number, (event, fields) in enumerate(said, 1)
    ]


def tried(attempt: int, result: str = "ok", **more: Any) -> tuple[str, dict[str, Any]]:
    return A, {"attempt": attempt, "result": result, "ms": 1.0, **more}


def over(attempts: int, ok: bool = True, **more: Any) -> tuple[str, dict[str, Any]]:
    return F, {"attempts": attempts, "ok": ok, "ms": 3.0, **more}


def of(*said: tuple[str, dict[str, Any]]) -> Recovery:
    return recovery(rows(*said))


@pytest.mark.parametrize(
    ("said", "outcome", "attempts"),
    [
        ([tried(1, "timeout")], "failed", 1),  # killed within the call: nobody got an answer
        ([tried(1, "timeout"), over(1, ok=False)], "failed", 1),
        ([tried(1, "timeout"), over(1)], "failed", 1),  # the end says "well", the attempt does not
        ([over(0, ok=False)], "failed", 1),
        ([tried(1, "killed"), over(1, ok=False)], "killed", 1),
        ([tried(1, "error"), tried(2, "killed"), over(2, ok=False)], "killed", 2),
        ([tried(1, "killed"), tried(2, "error"), over(2, ok=False)], "failed", 2),
        ([tried(1, "timeout"), tried(2, "wrong"), tried(3), over(3)], "recovered", 3),
        ([tried(3), over(3)], "recovered", 3),  # the lines of the first two are lost, their number is not
        ([over(2)], "recovered", 2),
        ([tried(1), over(5)], "recovered", 5),  # of two counts the larger one
        ([tried(1), over(1)], "ok", 1),
        ([over(1)], "ok", 1),
    ],
)
def test_a_mission_is_what_its_calls_came_to(
    said: list[tuple[str, dict[str, Any]]], outcome: str, attempts: int
) -> None:
    found = of(*said)
    assert [(one.outcome, one.attempts) for one in found.missions] == [(outcome, attempts)]
    assert found.succeeded == (outcome in ("ok", "recovered"))


def test_the_worst_call_decides_and_its_line_is_named() -> None:
    found = of(
        tried(1),
        over(1),
        tried(1, "error", tool="crm"),
        over(1, ok=False, tool="crm"),
        tried(1, "error"),
        tried(2),
        over(2),
    )
    (one,) = found.missions
    assert (one.outcome, one.calls, one.attempts, one.recovered, one.failed) == ("failed", 3, 4, 1, 1)
    assert (one.tools, one.file, one.line) == (("refund", "crm"), "timeline.jsonl", 4)
    assert (found.tools["refund"].recovered, found.tools["refund"].results) == (1, {"ok": 2, "error": 1})
    assert (found.tools["crm"].failed, found.tools["crm"].attempts) == (1, 1)


def test_two_calls_of_one_tool_at_once_are_told_apart_by_their_name() -> None:
    found = of(
        tried(1, "timeout", call="a"), tried(1, call="b"), over(1, call="b"), tried(2, call="a"), over(2, call="a")
    )
    (one,) = found.missions
    assert (one.outcome, one.calls, one.attempts, found.unfinished) == ("recovered", 2, 3, 0)


def test_a_first_attempt_begins_a_call_and_leaves_the_one_before_without_an_end() -> None:
    found = of(tried(1, "timeout"), tried(1), over(1))
    assert (found.missions[0].outcome, found.missions[0].calls, found.unfinished) == ("failed", 2, 1)


def test_an_end_that_flatters_is_a_contradiction_with_its_line() -> None:
    assert of(tried(1, "timeout"), over(1)).contradictions == (("timeline.jsonl", 2),)
    assert of(tried(1, "timeout"), tried(2), over(1)).contradictions == (("timeline.jsonl", 3),)
    assert of(tried(1, "timeout"), tried(2), over(2)).contradictions == ()


@pytest.mark.parametrize(
    "wrong",
    [
        tried(0), tried(True), tried(1.0), tried(1, "fine"), tried(1, None),  # type: ignore[arg-type]  # that is the case
        tried(1, tool=""), tried(1, mission=7), tried(1, call=[]), over(-1), over("1"), over(1, ok="true"), over(1, ok=1),  # type: ignore[arg-type]
    ],
)  # fmt: skip  # one case a piece
def test_a_line_without_its_fields_counts_for_nothing_and_is_named(wrong: tuple[str, dict[str, Any]]) -> None:
    found = of(wrong)
    assert (found.missions, found.unusable) == ((), (("timeline.jsonl", 1),))


def test_a_mission_of_another_run_is_no_mission_of_this_one() -> None:
    said = rows(tried(1), over(1), tried(1, "error", mission="x"), over(1, ok=False, mission="x"))
    found = recovery(said, started=["m1", "m2"])
    assert ([one.mission for one in found.missions], found.strangers) == (["m1"], 1)


def test_no_lines_are_no_missions() -> None:
    assert recovery([]).missions == ()
