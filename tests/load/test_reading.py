"""Sealed interviews made by hand, and what a gate is told of them."""

from array import array
from pathlib import Path
from typing import Any

import msgspec
import pytest

from drillmaster.clock import ManualClock
from drillmaster.errors import Problem, Refused
from drillmaster.evidence.samples import OUTCOMES, RECORD, header
from drillmaster.intake.run import open_run
from drillmaster.load.reading import InterviewRun, open_interview, open_interview_run
from drillmaster.timeline import seal_run
from tests.interviewed import manifest

MS = 1_000_000
STEPS = (
    {"label": "cold", "kind": "cold", "callers": 1, "calls": 1},
    {"label": "warmup_c2", "kind": "warmup", "callers": 2, "calls": 2},
    {"label": "warm_c2", "kind": "closed", "callers": 2, "calls": 6},
)


def record(
    step: int, due_ms: float, took_ms: float, *, late_ms: float = 0, outcome: str = "ok", again: int = 0
) -> bytes:
    due, end = round(due_ms * MS), round((due_ms + took_ms) * MS)
    sent = round((due_ms + late_ms) * MS)
    return RECORD.pack(due, sent, end, 0, end, 0, 0, 9, 9, 0, 4, 0, step, 200, OUTCOMES.index(outcome), again)


PAIRS = [record(1, 300 + 100 * turn, 100) for turn in range(3) for _ in range(2)]
COLD = [record(0, 100, 150)]
WARMUP = [record(0, 300, 100)] * 2


def ended(stage: str, **more: Any) -> dict[str, Any]:
    said = {"event": "stage_ended", "stage": stage, "wall_s": 0.3, "cpu_s": 0.01, "longest_turn_ms": 0.2}
    return {**said, **more}


def run(
    folder: Path,
    records: list[bytes] = [*WARMUP, *PAIRS],  # noqa: B006 - never changed
    *,
    proven: bool | None = True,
    warm: dict[str, Any] | None = None,
    status: str | None = "completed",
    tail: bytes = b"",
    steps: tuple[dict[str, Any], ...] = STEPS,
) -> Path:
    path = folder / "run"
    (path / "events").mkdir(parents=True)
    (path / "manifest.json").write_bytes(msgspec.json.encode(manifest(steps=steps, idle_s=1, time_limit_s=5)))
    events: list[dict[str, Any]] = [{"event": "idle_ended", "idle_s": 1.0, "proven": proven, "why": "somebody"}]
    events += [ended("cold"), ended("warmup_c2")]
    events += [] if warm == {} else [ended("warm_c2", **(warm or {}))]
    events += [] if status is None else [{"event": "load_ended", "status": status, "why": ""}]
    lines = [msgspec.json.encode({"t": "2026-11-30T12:00:09Z", "ns": 1, **event}) for event in events]
    (path / "events" / "load.jsonl").write_bytes(b"".join(line + b"\n" for line in lines))
    (path / "samples.cold.bin").write_bytes(header(stages=["cold"]) + b"".join(COLD))
    (path / "samples.bin").write_bytes(header(stages=["warmup_c2", "warm_c2"]) + b"".join(records) + tail)
    seal_run(path, ManualClock())
    return path


def void(read: InterviewRun, label: str = "warm_c2") -> tuple[str, ...]:
    level = read.interview.level(label)
    assert level is not None
    return level.void


def test_a_run_that_went_well_is_all_that_a_gate_may_look_at(tmp_path: Path) -> None:
    read = open_interview_run(run(tmp_path))
    one = read.interview
    assert (one.declared, one.time_limit_s, one.idle_s, one.bare) == (("cold", "warm_c2"), 5, 1.0, False)
    assert [(level.label, level.kind, level.n, level.ok_s, level.void) for level in one.levels] == [
        ("cold", "cold", 1, (0.15,), ()),
        ("warm_c2", "closed", 6, (0.1,) * 6, ()),
    ]
    assert one.ended_wall_ns == 1_796_040_009_000_000_000
    assert one.digest.startswith("sha256:")
    assert one.examined == {"levels": 2, "calls": 7, "warm-up calls": 2}
    assert (read.ended, read.torn_bytes) == ("completed", 0)
    assert read.fitness["warm_c2"].held == pytest.approx(2)


def test_calls_made_again_on_a_kept_connection_are_counted_by_level_and_in_all(tmp_path: Path) -> None:
    records = [record(1, 300 + 100 * turn, 100, again=turn % 2) for turn in range(3) for _ in range(2)]
    one = open_interview(run(tmp_path, [record(0, 300, 100, again=1), WARMUP[0], *records]))
    assert [level.made_again for level in one.levels] == [0, 2]
    assert one.examined == {"levels": 2, "calls": 7, "warm-up calls": 2, "calls made again on a kept connection": 2}


ALONE = [record(1, 300 + 100 * turn, 100) for turn in range(6)]
LATE = [record(1, 300 + 100 * turn, 100, late_ms=11) for turn in range(3) for _ in range(2)]


@pytest.mark.parametrize(
    ("records", "warm", "said"),
    [
        (ALONE, {}, "in flight on average, and 2 were to be"),
        (LATE, {}, "calls were sent up to 11 ms late"),
        (PAIRS, {"longest_turn_ms": 10.5}, "busy for 10.5 ms at a time"),
        (PAIRS, {"cpu_s": 0.28}, "93% of a core"),
        (PAIRS, {"cpu_s": 0.16}, "the client took 2.67e+04 µs a call"),
    ],
)
def test_a_level_that_the_client_could_not_hold_is_void(
    tmp_path: Path, records: list[bytes], warm: dict[str, Any], said: str
) -> None:
    read = open_interview_run(run(tmp_path, [*WARMUP, *records], warm=warm or None))
    assert [said in reason for reason in void(read)] == [True]


def test_what_the_machine_does_on_its_own_voids_nothing(tmp_path: Path) -> None:
    records = [record(1, 300 + 100 * turn, 100, late_ms=9) for turn in range(3) for _ in range(2)]
    assert void(open_interview_run(run(tmp_path, [*WARMUP, *records], warm={"longest_turn_ms": 9.9}))) == ()
    assert void(open_interview_run(run(tmp_path / "b", warm={"cpu_s": 0.14}))) == ()


@pytest.mark.parametrize(
    ("warm", "said"),
    [
        # Each call waits for what the client uses and for what it waits for.
        (
            {"cpu_s": 0.14, "run_delay_s": 0.14, "long_delay_s": 0.14},
            "used 47% of a core and was not let run for 47% of the time: it had no room",
        ),
        ({"cpu_s": 0.01, "run_delay_s": 0.27, "long_delay_s": 0.27}, "it had no room to measure"),
        (
            {"cpu_s": 0.1, "run_delay_s": 0.08, "long_delay_s": 0.08},
            "the client took 3e+04 µs a call, what it waited for a core among it",
        ),
        (
            {"longest_delay_ms": 60.0, "delay_p99_ms": 10.5},
            "ready and not let run for 10.5 ms at a time (p99 of moments)",
        ),
    ],
)
def test_a_level_in_which_the_client_waited_for_a_core_is_void(tmp_path: Path, warm: dict[str, Any], said: str) -> None:
    assert [said in reason for reason in void(open_interview_run(run(tmp_path, warm=warm)))] == [True]


def test_a_wait_for_a_core_that_a_busy_neighbour_makes_voids_nothing_and_is_the_clients_own(tmp_path: Path) -> None:
    warm = {"cpu_s": 0.01, "run_delay_s": 0.02, "long_delay_s": 0.02, "longest_delay_ms": 60.0, "delay_p99_ms": 9.9}
    read = open_interview_run(run(tmp_path, warm=warm))
    assert void(read) == ()
    level = read.interview.level("warm_c2")
    assert level is not None
    assert (level.client_s, level.longest_turn_s) == (0.0099, 0.06)
    one = read.fitness["warm_c2"]
    assert (one.run_delay_s, one.delay_p99_s, one.longest_delay_s) == (0.02, 0.0099, 0.06)
    assert one.delay_share == pytest.approx(0.0667, abs=1e-3)


def test_what_any_wake_up_takes_voids_nothing(tmp_path: Path) -> None:
    warm = {"cpu_s": 0.14, "run_delay_s": 0.15, "long_delay_s": 0.0, "longest_delay_ms": 0.9, "delay_p99_ms": 0.9}
    assert void(open_interview_run(run(tmp_path, warm=warm))) == ()


def test_a_run_of_before_says_nothing_of_such_waits(tmp_path: Path) -> None:
    one = open_interview_run(run(tmp_path)).fitness["warm_c2"]
    assert (one.run_delay_s, one.delay_p99_s, one.longest_delay_s, one.delay_share) == (None, None, None, None)


def test_a_single_long_turn_is_no_more_of_a_level_than_its_share_of_the_time(tmp_path: Path) -> None:
    once = {"longest_turn_ms": 60.0, "turn_p99_ms": 1.0}
    assert void(open_interview_run(run(tmp_path, warm=once))) == ()
    often = {"longest_turn_ms": 60.0, "turn_p99_ms": 10.5}
    [why] = void(open_interview_run(run(tmp_path / "b", warm=often)))
    assert "busy for 10.5 ms at a time (p99 of moments)" in why
    level = open_interview(run(tmp_path / "c", warm=once)).level("warm_c2")
    assert level is not None
    assert (level.client_s, level.longest_turn_s) == (0.001, 0.06)


def test_a_level_that_was_to_last_so_long_is_whole_when_its_time_is_over(tmp_path: Path) -> None:
    def of(folder: str, **more: Any) -> tuple[str, ...]:
        steps = (*STEPS[:2], {**STEPS[2], "calls": 1_000, "seconds": 0.3})
        return void(open_interview_run(run(tmp_path / folder, steps=steps, **more)))

    assert of("whole") == ()
    assert "after 6 of 1000 calls" in of("stopped", status="aborted")[0]


def test_a_level_holds_its_calls_column_by_column(tmp_path: Path) -> None:
    level = open_interview(run(tmp_path)).level("warm_c2")
    assert level is not None
    assert level.calls is not None
    assert list(level.calls.due_s) == [0.3, 0.3, 0.4, 0.4, 0.5, 0.5]
    assert level.calls.tokens == array("q", [4] * 6)
    assert level.seconds == pytest.approx(0.3)


def test_a_level_that_was_stopped_is_void_and_one_that_never_began_is_declared(tmp_path: Path) -> None:
    read = open_interview_run(run(tmp_path, [*WARMUP, *PAIRS[:4]], status="aborted"))
    assert "after 4 of 6 calls" in void(read)[0]
    read = open_interview_run(run(tmp_path / "b", WARMUP, warm={}, status=None))
    assert [level.label for level in read.interview.levels] == ["cold"]
    assert read.interview.declared == ("cold", "warm_c2")
    assert read.ended == ""


def test_a_record_that_a_killed_writer_left_half_is_counted(tmp_path: Path) -> None:
    read = open_interview_run(run(tmp_path, tail=PAIRS[0][:20], warm={}, status=None))
    assert read.torn_bytes == 20
    assert "stopped before its end" in void(read)[0]


def test_a_cold_call_after_somebody_elses_may_not_have_been_cold(tmp_path: Path) -> None:
    assert "may not have been cold" in void(open_interview_run(run(tmp_path, proven=False)), "cold")[0]
    assert void(open_interview_run(run(tmp_path / "b", proven=None)), "cold") == ()


def test_one_changed_byte_of_a_record_refuses_the_run(tmp_path: Path) -> None:
    path = run(tmp_path)
    data = bytearray((path / "samples.bin").read_bytes())
    data[-30] ^= 1
    (path / "samples.bin").write_bytes(data)
    with pytest.raises(Refused, match=r"samples\.bin"):
        open_interview(path)


@pytest.mark.parametrize("name", ["samples.bin", "events/load.jsonl", "manifest.json"])
def test_a_file_that_is_gone_refuses_the_run(tmp_path: Path, name: str) -> None:
    path = run(tmp_path)
    (path / name).unlink()
    with pytest.raises(Problem):
        open_interview(path)


def test_a_file_that_came_later_refuses_the_run(tmp_path: Path) -> None:
    path = run(tmp_path)
    (path / "samples.2.bin").write_bytes(header(stages=["warm_c2"]))
    with pytest.raises(Refused, match="was not there when the run was sealed"):
        open_interview(path)


def test_a_run_that_is_not_sealed_is_refused(tmp_path: Path) -> None:
    path = run(tmp_path)
    (path / "seal.json").unlink()
    with pytest.raises(Refused, match="drillmaster seal"):
        open_interview(path)


def test_a_record_of_a_step_that_no_plan_has_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Refused, match="a record of step 7"):
        open_interview(run(tmp_path, [*WARMUP, record(7, 300, 10)]))


def test_an_interview_is_no_drill_with_faults(tmp_path: Path) -> None:
    with pytest.raises(Problem, match=r"the run of a load interview.*drillmaster gate interview"):
        open_run(run(tmp_path))


def test_another_drill_is_no_interview(tmp_path: Path) -> None:
    path = tmp_path / "run"
    path.mkdir()
    (path / "manifest.json").write_text('{"drill": "eviction"}')
    seal_run(path, ManualClock())
    with pytest.raises(Problem, match="another drill"):
        open_interview(path)
    with pytest.raises(Problem, match="nothing"):
        open_interview(tmp_path / "none")
