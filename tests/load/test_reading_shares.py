"""Sealed interviews that several engines shared: read like those of one, each engine looked at, and nothing silently absent."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from drillmaster.clock import ManualClock
from drillmaster.evidence.samples import OUTCOMES, RECORD, header
from drillmaster.load.reading import InterviewRun, open_interview_run
from drillmaster.timeline import seal_run
from tests.interviewed import manifest

MS = 1_000_000
STEPS = (
    {"label": "cold", "kind": "cold", "callers": 1, "calls": 1},
    {"label": "warm_c3", "kind": "closed", "callers": 3, "calls": 9},
)
SHARES = ({"label": "warm_c3", "callers": [2, 1], "calls": [6, 3]},)


def record(due_ms: float, took_ms: float = 100, *, late_ms: float = 0, step: int = 0) -> bytes:
    due, sent, end = (round(ms * MS) for ms in (due_ms, due_ms + late_ms, due_ms + took_ms))
    return RECORD.pack(due, sent, end, 0, end, 0, 0, 9, 9, 0, 4, 0, step, 200, OUTCOMES.index("ok"), 0)


FIRST = [record(300 + 100 * turn) for turn in range(3) for _ in range(2)]
SECOND = [record(300 + 100 * turn) for turn in range(3)]


def ended(engine: int | None, calls: int, **more: Any) -> dict[str, Any]:
    whose = {"event": "stage_ended"} if engine is None else {"event": "share_ended", "engine": engine, "calls": calls}
    return {**whose, "stage": "warm_c3", "wall_s": 0.3, "cpu_s": 0.01, "longest_turn_ms": 0.2, **more}


def run(
    folder: Path,
    files: tuple[list[bytes] | None, ...] = (FIRST, SECOND),
    *,
    told: tuple[int, int] = (6, 3),
    one: dict[str, Any] | None = None,
    two: dict[str, Any] | None = None,
    shares: tuple[dict[str, Any], ...] = SHARES,
    cold: bytes = record(100, 150),
    cold_turn_ms: float = 0.2,
    members: tuple[dict[str, Any], ...] = ({}, {}),
    team: str = "processes",
) -> InterviewRun:
    path = folder / "run"
    (path / "events").mkdir(parents=True)
    engines = {"kind": team, "size": 2, "members": list(members)}
    told_of = manifest(steps=STEPS, engines=engines, shares=shares, idle_s=1, time_limit_s=5)
    (path / "manifest.json").write_bytes(msgspec.json.encode(told_of))
    events = [
        {"event": "idle_ended", "idle_s": 1.0, "proven": True, "why": ""},
        {**ended(None, 0, longest_turn_ms=cold_turn_ms), "stage": "cold"},
        *({**row, "event": "share_started"} for row in (ended(1, 0, **(one or {})), ended(2, 0, **(two or {})))),
        ended(1, told[0], **(one or {})),
        ended(2, told[1], **(two or {})),
        ended(None, 0, cpu_s=sum((share or {}).get("cpu_s", 0.01) for share in (one, two))),
        {"event": "load_ended", "status": "completed", "why": ""},
    ]
    lines = [msgspec.json.encode({"t": "2026-11-30T12:00:09Z", "ns": 1, **event}) for event in events]
    (path / "events" / "load.jsonl").write_bytes(b"".join(line + b"\n" for line in lines))
    (path / "samples.cold.bin").write_bytes(header(stages=["cold"]) + cold)
    for engine, records in enumerate(files, start=1):
        if records is not None:
            (path / f"samples.{engine}.bin").write_bytes(header(stages=["warm_c3"]) + b"".join(records))
    seal_run(path, ManualClock())
    return open_interview_run(path)


def void(read: InterviewRun) -> tuple[str, ...]:
    level = read.interview.level("warm_c3")
    assert level is not None
    return level.void


def test_the_records_of_all_engines_are_one_level(tmp_path: Path) -> None:
    read = run(tmp_path)
    level = read.interview.level("warm_c3")
    assert level is not None
    assert (level.n, level.ok_s, level.void) == (9, (0.1,) * 9, ())
    fitness = read.fitness["warm_c3"]
    assert fitness.held == pytest.approx(3)
    assert [round(engine.held, 3) for engine in fitness.engines] == [2, 1]
    assert (fitness.cpu_s, fitness.cpu_share) == (0.02, pytest.approx(0.0333, abs=1e-3))


def test_a_record_that_an_engine_made_and_that_is_not_there_voids_the_level(tmp_path: Path) -> None:
    assert void(run(tmp_path, (FIRST, SECOND[:2]))) == (
        "engine 2 made 3 calls, and records of 2 are there",
        "it was stopped before its end, after 8 of 9 calls",
    )


def test_a_file_that_is_not_there_is_no_engine_that_did_nothing(tmp_path: Path) -> None:
    assert "engine 2 made 3 calls, and records of 0 are there" in void(run(tmp_path, (FIRST, None)))


def test_records_that_nobody_told_void_the_level_too(tmp_path: Path) -> None:
    assert "engine 1 made 5 calls, and records of 6 are there" in void(run(tmp_path, told=(5, 3)))


def test_one_engine_that_could_not_hold_its_share_voids_the_level(tmp_path: Path) -> None:
    busy = run(tmp_path / "busy", two={"cpu_s": 0.29})
    assert void(busy) == ("engine 2: the client used 97% of a core: it had no room to measure",)
    slow = run(tmp_path / "slow", one={"longest_turn_ms": 30.0, "turn_p99_ms": 30.0})
    assert void(slow) == (
        "engine 1: the client was busy for 30 ms at a time (p99 of moments), and the median is 100 ms",
    )


def test_two_engines_at_60_percent_of_a_core_each_are_no_core_that_is_full(tmp_path: Path) -> None:
    read = run(tmp_path, one={"cpu_s": 0.18}, two={"cpu_s": 0.18})
    assert read.fitness["warm_c3"].cpu_share == pytest.approx(0.6)
    assert not [why for why in void(read) if "no room" in why]


def test_lateness_is_that_of_all_calls_together(tmp_path: Path) -> None:
    late = [record(300 + 100 * turn, late_ms=11) for turn in range(3)]
    assert void(run(tmp_path, (FIRST, late))) == ("calls were sent up to 11 ms late (p99), and the median is 100 ms",)


def test_an_engine_for_which_no_arrival_was_left_measured_nothing_and_voids_nothing(tmp_path: Path) -> None:
    none_left = ({"label": "warm_c3", "callers": [2, 1], "calls": [9, 0]},)
    all_of_them = [record(300 + 100 * turn) for turn in range(3) for _ in range(3)]
    read = run(tmp_path, (all_of_them, []), told=(9, 0), two={"wall_s": 0.00002, "cpu_s": 0.00002}, shares=none_left)
    assert void(read) == ()
    assert read.fitness["warm_c3"].cpu_share == pytest.approx(0.0333, abs=1e-3)


STEP = {"start_ns": 300 * MS, "end_ns": 600 * MS}


@pytest.mark.parametrize(
    ("two", "why"),
    [
        ([record(300 + 100 * turn) for turn in range(3)], ()),
        (
            [record(5_000 + 100 * turn) for turn in range(3)],
            ("engine 2 has records from outside of its time in the step",),
        ),
        ([record(-9_000), *SECOND[1:]], ("engine 2 has records from outside of its time in the step",)),
        ([record(300, -50), *SECOND[1:]], ("engine 2 has records that end before they begin",)),
    ],
)
def test_records_that_cannot_be_of_the_step_void_it(tmp_path: Path, two: list[bytes], why: tuple[str, ...]) -> None:
    read = run(tmp_path, (FIRST, two), one=STEP, two=STEP)
    assert void(read)[: len(why)] == why
    assert bool(void(read)) == bool(why)


def test_a_cold_call_that_ends_before_it_begins_is_void(tmp_path: Path) -> None:
    level = run(tmp_path, cold=record(100, -20)).interview.level("cold")
    assert level is not None
    assert level.void == ("there are records that end before they begin",)


@pytest.mark.parametrize(
    ("took_ms", "turn_ms", "why"),
    [
        (5_000, 4_900, ("the client was busy, or not let run, for 4.9e+03 ms of the 5e+03 ms that it took",)),
        (5_000, 501, ("the client was busy, or not let run, for 501 ms of the 5e+03 ms that it took",)),
        (5_000, 499, ()),
        (60, 50, ()),  # a machine with a busy neighbour, and no limit on a cold call is so short
    ],
)
def test_a_cold_call_in_which_the_client_was_frozen_is_void(
    tmp_path: Path, took_ms: float, turn_ms: float, why: tuple[str, ...]
) -> None:
    level = run(tmp_path, cold=record(100, took_ms), cold_turn_ms=turn_ms).interview.level("cold")
    assert level is not None
    assert level.void == why


@pytest.mark.parametrize(
    ("members", "delay_p99_ms", "is_void"),
    [
        (({}, {}), 10.5, True),
        (({}, {}), 9.9, False),  # under a tenth of the median
        (({"core": 0}, {"core": 1}), 10.5, True),
    ],
)
def test_what_engines_wait_for_each_others_core_voids_where_it_shows(
    tmp_path: Path, members: tuple[dict[str, Any], ...], delay_p99_ms: float, is_void: bool
) -> None:
    two = {"delay_p99_ms": delay_p99_ms, "longest_delay_ms": 12.0, "run_delay_s": 0.02, "long_delay_s": 0.02}
    level = run(tmp_path, two=two, members=members).interview.level("warm_c3")
    assert level is not None
    said = ["engine 2: the client was ready and not let run for 10.5 ms at a time" in why for why in level.void]
    assert said == [True] * is_void


@pytest.mark.parametrize(
    ("team", "members", "is_void"),
    [
        ("processes", ({}, {}), True),
        ("processes", ({"core": 0}, {"core": 1}), False),
        ("locust", ({"worker": "a"}, {"worker": "b"}), False),
    ],
)
def test_engines_without_a_core_of_their_own_are_let_off_less(
    tmp_path: Path, team: str, members: tuple[dict[str, Any], ...], is_void: bool
) -> None:
    files = (
        [record(300 + 20 * turn, 20) for turn in range(3) for _ in range(2)],
        [record(300 + 20 * n, 20) for n in range(3)],
    )
    two = {"delay_p99_ms": 3.0, "longest_delay_ms": 3.0, "run_delay_s": 0.01, "long_delay_s": 0.01}
    level = run(tmp_path, files, two=two, members=members, team=team).interview.level("warm_c3")
    assert level is not None
    assert ["engine 2: the client was ready and not let run for 3 ms" in why for why in level.void] == [True] * is_void


def test_engines_that_take_turns_on_a_core_have_no_room_each(tmp_path: Path) -> None:
    half = {"cpu_s": 0.14, "run_delay_s": 0.15, "long_delay_s": 0.15}
    level = run(tmp_path, one=half, two=half).interview.level("warm_c3")
    assert level is not None
    assert [
        f"engine {n}: the client used 47% of a core and was not let run for 50% of the time" in why
        for n, why in enumerate(level.void, start=1)
    ] == [True, True]
