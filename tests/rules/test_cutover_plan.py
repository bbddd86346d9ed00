"""The article's plan.json, read whole: what does not fit is told with its pointer, all at once."""

import copy
import json
from typing import Any

import pytest

from drillmaster.rules.cutover_plan import TIMED, Plan, read_plan, timed_values

SAMPLE: dict[str, Any] = {
    "plan_id": "cutover-ledger-2026-09-19",
    "service": "ledger-writer",
    "authors": {
        "draft": "free-lane-model",
        "timed_fields": "human:sre-oncall",
        "rollback_owner": "human:payments-tl",
    },
    "traffic": {"initial_percent": 1, "step_percent": 4, "max_percent_before_freeze": 20, "error_budget_ppm": 50},
    "window": {
        "freeze_start_utc": "2026-09-20T02:00:00Z",
        "freeze_end_utc": "2026-09-20T06:00:00Z",
        "dual_write_required": True,
        "old_writer_delete_same_window": False,
    },
    "halt": {"on_checksum_mismatch": "halt", "on_retry_storm": "halt", "on_free_lane_author_for_timed_fields": "halt"},
    "idempotency": {"key_format": "human-pinned:ledger-v1", "author": "human:payments-tl"},
    "controller": {"runtime": "pinned-paid-path", "free_server_forbidden": True},
}
ABSENT = object()


def changed(pointer: str, value: object) -> dict[str, Any]:
    """The sample with one value changed; ABSENT takes it out."""
    plan = copy.deepcopy(SAMPLE)
    *groups, field = pointer.strip("/").split("/")
    part = plan
    for group in groups:
        part = part[group]
    if value is ABSENT:
        del part[field]
    else:
        part[field] = value
    return plan


def test_the_articles_sample_has_no_fault() -> None:
    plan = read_plan(json.loads(json.dumps(SAMPLE)))
    assert plan.faults == ()
    assert plan.initial_percent == 1
    assert plan.free_server_forbidden is True
    assert plan.ladder() == (1, 5, 9, 13, 17, 20)


POINTERS = [
    *(f"/{group}/{field}" for group, part in SAMPLE.items() if isinstance(part, dict) for field in part),
    "/plan_id",
    "/service",
]


@pytest.mark.parametrize("pointer", POINTERS)
def test_each_field_is_demanded(pointer: str) -> None:
    plan = read_plan(changed(pointer, ABSENT))
    assert [fault.pointer for fault in plan.faults] == [pointer]
    assert getattr(plan, pointer.rpartition("/")[2]) is None


@pytest.mark.parametrize("pointer", POINTERS)
@pytest.mark.parametrize(
    "value", [None, [], {}, ["human:a"], [3], 1.5, "5", 5, True, 1e300, "a\u200bb", "e\u0301", "x" * 201]
)
def test_no_field_is_converted(pointer: str, value: object) -> None:
    group, _, field = pointer.strip("/").rpartition("/")
    original = SAMPLE[group][field] if group else SAMPLE[field]
    fits = type(value) is type(original) and value not in ("a\u200bb", "e\u0301", "x" * 201)
    assert bool(read_plan(changed(pointer, value)).faults) != fits


@pytest.mark.parametrize("group", [name for name, part in SAMPLE.items() if isinstance(part, dict)])
@pytest.mark.parametrize("value", [ABSENT, None, [], "x", 0, True])
def test_a_group_is_an_object(group: str, value: object) -> None:
    plan = read_plan(changed(f"/{group}", value))
    assert [fault.pointer for fault in plan.faults] == [f"/{group}"]


@pytest.mark.parametrize(
    ("pointer", "value"),
    [
        ("/feature_flag_default", "on"),
        ("/ledger", {"store": "chat"}),
        ("/approved", True),
        ("/traffic/percent", 50),
        ("/Plan_id", "x"),
        ("/a~b", 1),
        ("/window/freeze_start", "2026-09-20T02:00:00Z"),
    ],
)
def test_what_is_unknown_is_named(pointer: str, value: object) -> None:
    plan = read_plan(changed(pointer, value))
    assert [fault.pointer for fault in plan.faults] == [pointer.replace("~", "~0")]
    assert plan.faults[0].remedy


@pytest.mark.parametrize("value", [None, [], [SAMPLE], "plan", 0, True, {}])
def test_what_is_no_plan_has_faults(value: object) -> None:
    assert read_plan(value).faults


def test_all_faults_are_told_at_once() -> None:
    plan = changed("/traffic/initial_percent", "5")
    del plan["plan_id"]
    plan["halt"]["on_retry_storm"] = None
    plan["ledger"] = {}
    assert [fault.pointer for fault in read_plan(plan).faults] == [
        "/ledger",
        "/plan_id",
        "/traffic/initial_percent",
        "/halt/on_retry_storm",
    ]


@pytest.mark.parametrize(
    ("first", "step", "last", "rungs"),
    [
        (1, 4, 20, (1, 5, 9, 13, 17, 20)),
        (5, 5, 20, (5, 10, 15, 20)),
        (5, 5, 5, (5,)),
        (1, 1, 2, (1, 2)),
        (1, 99, 20, (1, 20)),
        (1, 0, 20, ()),
        (1, -4, 20, ()),
        (5, 1, 4, ()),
        (0, 1, 4, ()),
        (1, 1, 1000, ()),
        (1, 1, None, ()),
    ],
)
def test_a_ladder_ends_where_it_should(first: int, step: int, last: int | None, rungs: tuple[int, ...]) -> None:
    plan = Plan(initial_percent=first, step_percent=step, max_percent_before_freeze=last)
    assert plan.ladder() == rungs


@pytest.mark.parametrize(
    ("text", "reads"),
    [
        ("2026-09-20T02:00:00Z", True),
        ("2026-09-20T02:00:00+00:00", True),
        ("2026-09-20T02:00:00.5Z", True),
        ("2026-09-20T02:00:00", False),
        ("2026-09-20T02:00:00+02:00", False),
        ("2026-09-20T02:00:00-00:00", False),  # RFC 3339: the local offset is unknown
        ("2026-09-31T02:00:00Z", False),
        ("2026-09-20", False),
        ("Sunday night", False),
        ("20260920T020000Z", False),
        ("", False),
        ("２026-09-20T02:00:00Z", False),
    ],
)
def test_a_window_is_in_utc(text: str, reads: bool) -> None:
    assert (Plan(freeze_start_utc=text).start_ns is not None) is reads


def test_timed_values_are_taken_from_whatever_there_is() -> None:
    assert timed_values(SAMPLE) == {pointer: SAMPLE[pointer.split("/")[1]][pointer.split("/")[2]] for pointer in TIMED}
    assert timed_values({"traffic": {"initial_percent": "5"}, "window": []}) == {"/traffic/initial_percent": "5"}
    assert timed_values([]) == {}
