"""What several engines say, put together to what one would have said."""

from typing import Any

import pytest

from drillmaster.load.together import Together


def said(event: str, stage: str = "warm", **more: Any) -> dict[str, Any]:
    return {"event": event, "stage": stage, "ns": 0, "in_flight": 0, "connections": 0, "done": 0, "failed": 0, **more}


SPENT = {
    "wall_s": 1.0,
    "cpu_s": 0.1,
    "longest_turn_ms": 1.0,
    "turn_p99_ms": 1.0,
    "run_delay_s": 0.2,
    "long_delay_s": 0.1,
    "longest_delay_ms": 4.0,
    "delay_p99_ms": 3.0,
}


def ended(ns: int, done: int, **more: Any) -> dict[str, Any]:
    return said(
        "stage_ended",
        ns=ns,
        done=done,
        **{**SPENT, **more},
    )


def test_a_step_is_ready_when_the_last_engine_is() -> None:
    both = Together(["warm"], 2)
    assert both.hear(0, said("stage_ready")) == []
    assert both.hear(1, said("stage_ready")) == [{"event": "stage_ready", "stage": "warm"}]


def test_a_step_begins_with_the_first_and_ends_with_the_last() -> None:
    both = Together(["warm"], 2)
    (own,) = both.hear(1, said("stage_started", ns=5_000_000, connections=3, done=10))
    assert (own["event"], own["engine"]) == ("share_started", 2)
    _, begun = both.hear(0, said("stage_started", ns=3_000_000, connections=1, done=20))
    assert begun == {
        "event": "stage_started",
        "stage": "warm",
        "start_ns": 3_000_000,
        "connections": 4,
        "engines": 2,
        "skew_ms": 2.0,
    }
    (own,) = both.hear(0, ended(1_003_000_000, 60, cpu_s=0.4, longest_turn_ms=7.0))
    assert (own["calls"], own["cpu_s"]) == (40, 0.4)
    _, over = both.hear(1, ended(2_003_000_000, 15, cpu_s=0.1))
    assert (over["wall_s"], over["cpu_s"], over["longest_turn_ms"], over["end_ns"]) == (2.0, 0.5, 7.0, 2_003_000_000)
    assert [both.calls("warm", engine) for engine in (0, 1)] == [40, 5]


def test_waits_for_a_core_add_up_and_the_longest_is_that_of_who_waited_longest() -> None:
    both = Together(["warm"], 2)
    for engine in (0, 1):
        both.hear(engine, said("stage_started"))
    (own,) = both.hear(0, ended(9, 4, run_delay_s=0.25, longest_delay_ms=12.0, delay_p99_ms=2.0))
    assert (own["run_delay_s"], own["longest_delay_ms"], own["delay_p99_ms"]) == (0.25, 12.0, 2.0)
    _, over = both.hear(1, ended(9, 4))
    assert (over["run_delay_s"], over["longest_delay_ms"], over["delay_p99_ms"]) == (0.45, 12.0, 3.0)
    assert (own["long_delay_s"], over["long_delay_s"]) == (0.1, 0.2)


def test_one_engine_says_it_itself() -> None:
    alone = Together(["warm"], 1)
    (begun,) = alone.hear(0, said("stage_started", ns=7, connections=1))
    assert begun == {"event": "stage_started", "stage": "warm", "start_ns": 7, "connections": 1}
    (over,) = alone.hear(0, ended(9, 4, wall_s=0.5))
    assert "engines" not in over
    assert over["wall_s"] == 0.5


def test_progress_is_that_of_all_that_were_heard() -> None:
    both = Together(["warm"], 2)
    both.hear(0, said("stage_started", done=10, failed=2))
    both.hear(0, said("progress", done=14, failed=2, in_flight=2))
    (row,) = both.hear(1, said("progress", done=5, failed=1, in_flight=3))  # it has not begun this step
    assert row == {"event": "progress", "stage": "warm", "done": 4, "failed": 0, "in_flight": 5, "p95_s": None}
    both.hear(1, said("stage_started", done=5, failed=1))
    (row,) = both.hear(1, said("progress", done=8, failed=2, in_flight=3))
    assert (row["done"], row["failed"]) == (7, 1)


def test_the_p95_so_far_is_of_the_engine_that_has_the_highest() -> None:
    both = Together(["warm"], 2)
    for engine in (0, 1):
        both.hear(engine, said("stage_started"))
    both.hear(0, said("progress", done=4, p95_s=0.25))
    (row,) = both.hear(1, said("progress", done=5, p95_s=0.125))
    assert row["p95_s"] == 0.25
    (row,) = both.hear(0, said("progress", done=9))
    assert row["p95_s"] == 0.125


def test_an_engine_that_fell_is_known_by_the_step_that_it_was_in() -> None:
    both = Together(["one", "two"], 2)
    assert both.under_way(0) == ("one", None)
    both.hear(0, said("stage_started", "one", done=0))
    both.hear(0, ended(5, 30) | {"stage": "one"})
    both.hear(0, said("progress", "two", done=30))  # it waits for the other one
    assert both.under_way(0) == ("two", None)
    both.hear(0, said("stage_started", "two", done=30))
    both.hear(0, said("progress", "two", done=42))
    assert both.under_way(0) == ("two", 12)
    assert not both.finished(0)
    both.hear(0, ended(5, 60) | {"stage": "two"})
    assert both.finished(0)
    assert both.calls("two", 1) is None


@pytest.mark.parametrize(
    ("word", "why"),
    [
        (said("stage_ended"), "no wall_s that could be"),
        (ended(5, 9, wall_s=None), "no wall_s"),
        (ended(5, 9, wall_s=float("nan")), "no wall_s"),
        (ended(5, 9, cpu_s=-1.0), "no cpu_s"),
        (ended(5, 3), "fewer calls than before"),
        (said("stage_started", ns=5, done=4), "stage_started of warm, which was not its turn"),
        (said("stage_ready", done=4), "stage_ready of warm, which was not its turn"),
        (said("stage_started", stage="next", done=4), "stage_started of next, which was not its turn"),
        (said("progress", stage="other", done=4), "a step that is none of its own"),
        (said("progress", done="4"), "no done"),
        (said("progress", done=True), "no done"),
        (said("progress", done=4, p95_s="1"), "no p95_s"),
        (said("progress", done=4, p95_s=float("nan")), "no p95_s"),
        (said("progress", done=4, p95_s=-1.0), "no p95_s"),
        (said("progress", done=4, p95_s=True), "no p95_s"),
        (said("progress", done=1 << 70), "no done"),
        (said("worker_lost", done=4), "a word that no engine has"),
        ({"event": "progress"}, "a step that is none of its own"),
    ],
)
def test_what_is_no_word_of_an_engine_now_is_told(word: dict[str, Any], why: str) -> None:
    both = Together(["warm", "next"], 2)
    for engine in (0, 1):
        for one in (said("stage_ready"), said("stage_started", ns=5), said("progress", ns=6, done=4)):
            assert both.wrong(engine, one) is None
            both.hear(engine, one)
    found = both.wrong(0, word)
    assert found is not None and why in found


def test_a_step_ends_once_and_the_next_may_begin() -> None:
    both = Together(["warm", "next"], 2)
    for one in (said("stage_started"), ended(9, 4)):
        assert both.wrong(0, one) is None
        both.hear(0, one)
    again = both.wrong(0, ended(9, 4))
    assert again is not None and "not its turn" in again
    for one in (said("progress", stage="next", done=4), said("stage_ready", stage="next", done=4)):
        assert both.wrong(0, one) is None
