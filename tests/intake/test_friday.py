"""Folders of Friday drills: what is in them is counted here on its own, and what is wrong with them is told."""

import json
import math
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from drillmaster.errors import Problem
from drillmaster.fridays import CUT, FAILED, OK, OPEN
from drillmaster.intake.friday import judge_friday, open_friday
from drillmaster.verdict import AtLeast, Check, Exact, Verdict
from tests.fridays.paper import MATRIX, NOW_NS, Paper


def judged(folder: Path, matrix: Path | None = None) -> Verdict:
    return judge_friday(folder, matrix or folder / "policy.yaml", now_ns=NOW_NS)


def check(verdict: Verdict, id_: str) -> Check:
    (found,) = [one for one in verdict.checks if one.id == id_]
    return found


def statuses(verdict: Verdict) -> dict[str, str]:
    return {one.id: one.status for one in verdict.checks if one.status != "pass"}


def nearest_rank(values: list[float], percent: int) -> float:
    """By the schoolbook: the smallest value that at least so many percent do not exceed."""
    ordered = sorted(values)
    return next(one for one in ordered if sum(other <= one for other in ordered) * 100 >= percent * len(ordered))


def test_a_drill_in_which_every_row_holds_passes(tmp_path: Path) -> None:
    verdict = judged(Paper(tmp_path / "run").write())
    assert (verdict.status, statuses(verdict)) == ("pass", {})
    assert verdict.counts["missions"] == verdict.counts["requests"] == 1_200


def test_the_figures_are_those_of_an_independent_count(tmp_path: Path) -> None:
    paper = Paper(tmp_path / "run")
    for n in range(100):
        paper.mission(5_000 + n, 31.0 + n / 10, 31.0 + n / 10 + 2.0 + n / 50)
    friday = open_friday(paper.write())
    inside = [took for took, due in zip(paper.latencies, paper.dues, strict=True) if 30 <= due < 60]
    told = friday.latency(friday.places("chaos"), 0.95)
    assert isinstance(told, Exact)
    assert told.value == pytest.approx(nearest_rank(inside, 95), abs=1e-9)
    assert told.n == len(inside)
    metrics = friday.metrics()
    whole = metrics["p95_latency"]
    assert isinstance(whole, Exact)
    assert whole.value == pytest.approx(nearest_rank(paper.latencies, 95), abs=1e-9)
    assert metrics["detector_delay_ms"] == Exact(17_500.0, n=1)
    assert metrics["replay_availability_ratio"] == Exact(1.0, n=1_300)


def test_think_time_is_no_latency(tmp_path: Path) -> None:
    paper = Paper(tmp_path / "run")
    name = "events/missions.jsonl"
    paper.files[name] = [line.replace('"thought_ns": 0', '"thought_ns": 1000000000') for line in paper.files[name]]
    told = open_friday(paper.write()).metrics()["p95_latency"]
    assert isinstance(told, Exact)
    assert told.value == pytest.approx(0.5)


@pytest.mark.parametrize(
    ("result", "how", "n_latencies"),
    [("failed", FAILED, 1_200), ("cut", CUT, 1_201), ("ok", OK, 1_201)],
)
def test_a_mission_that_failed_is_in_no_latency_and_one_that_was_cut_took_at_least_so_long(
    tmp_path: Path, result: str, how: int, n_latencies: int
) -> None:
    paper = Paper(tmp_path / "run")
    paper.mission(9_999, 40.0, 49.0, result)
    friday = open_friday(paper.write())
    assert friday.missions.result[-1] == how
    ok_s, cut_s = friday.latencies(friday.places("all"))
    assert len(ok_s) + len(cut_s) == n_latencies
    assert cut_s == ([9.0] if result == "cut" else [])


def test_a_mission_without_an_end_is_open_and_took_at_least_until_the_end(tmp_path: Path) -> None:
    paper = Paper(tmp_path / "run")
    about = {"mission": "m9999", "flow": "refund", "entry": "http", "due_ns": 60 * 10**9}
    paper.event("missions", 60, "mission_started", **about, slot=0)
    friday = open_friday(paper.write())
    assert friday.missions.result[-1] == OPEN
    assert friday.latencies([friday.missions.n - 1]) == ([], [35.0])  # the drill ended at 95 s


def test_a_transcript_that_is_dropped_turns_its_row_red(tmp_path: Path) -> None:
    paper = Paper(tmp_path / "run")
    lines = paper.files["transcripts/w1.ndjson"]
    paper.files["transcripts/w1.ndjson"] = [line for line in lines if '"m7001a2b"' not in line]
    verdict = judged(paper.write())
    assert (verdict.status, statuses(verdict)) == ("fail", {"row.replay": "fail"})
    row = check(verdict, "row.replay")
    assert row.observed == Exact(1_199 / 1_200, n=1_200)
    assert "m7001a2b: no line of it" in row.why


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(at=st.integers(0, 4_799))
def test_any_line_of_a_transcript_that_is_missing_turns_the_row_red(tmp_path_factory: Any, at: int) -> None:
    paper = Paper(tmp_path_factory.mktemp("friday") / "run")
    del paper.files["transcripts/w1.ndjson"][at]
    assert check(judged(paper.write()), "row.replay").status == "fail"


def test_no_transcripts_at_all_refuse_the_row(tmp_path: Path) -> None:
    paper = Paper(tmp_path / "run")
    del paper.files["transcripts/w1.ndjson"]
    assert statuses(judged(paper.write())) == {"row.replay": "refused"}


# Alerts


def test_an_alert_from_before_the_injection_is_a_finding_and_no_detection(tmp_path: Path) -> None:
    paper = Paper(tmp_path / "run")
    paper.files["events/detectors.jsonl"] = paper.files["events/detectors.jsonl"][:1]
    paper.alert(20.0, starts_s=19.0)
    paper.alert(50.0, starts_s=19.0)  # sent again
    verdict = judged(paper.write())
    assert statuses(verdict) == {"row.detector-time": "fail"}
    assert check(verdict, "row.detector-time").observed == AtLeast(65.0)
    assert "alert-before-injection" in {one.id for one in verdict.findings}


@pytest.mark.parametrize(
    ("severity", "status"), [("sev1", "pass"), ("critical", "pass"), ("sev3", "fail"), ("bad", "refused")]
)
def test_a_lower_severity_is_a_breach_and_an_unknown_one_refused(tmp_path: Path, severity: str, status: str) -> None:
    paper = Paper(tmp_path / "run")
    paper.files["events/detectors.jsonl"] = paper.files["events/detectors.jsonl"][:1]
    paper.alert(47.5, starts_s=45, severity=severity)
    assert check(judged(paper.write()), "row.detector-time").status == status


def test_the_delay_is_of_the_receipt_and_strict(tmp_path: Path) -> None:
    for at_s, status in ((89.999, "pass"), (90.0, "fail")):
        paper = Paper(tmp_path / f"at-{at_s}")
        paper.files["events/detectors.jsonl"] = paper.files["events/detectors.jsonl"][:1]
        paper.alert(at_s, starts_s=45)
        assert check(judged(paper.write()), "row.detector-time").status == status, at_s


def test_nobody_listening_is_no_breach_and_no_pass(tmp_path: Path) -> None:
    paper = Paper(tmp_path / "run")
    del paper.files["events/detectors.jsonl"]
    assert statuses(judged(paper.write())) == {"row.detector-time": "refused"}


# Load and chaos


def test_load_that_was_not_held_voids_the_row(tmp_path: Path) -> None:
    verdict = judged(Paper(tmp_path / "run", users=16).write())
    assert statuses(verdict) == {"row.mission-latency": "refused", "row.tool-success": "refused"}
    assert "VOID: 16.0 were in flight on average" in check(verdict, "row.mission-latency").why


def test_the_lower_of_the_two_counts_of_what_is_in_flight_counts(tmp_path: Path) -> None:
    paper = Paper(tmp_path / "run")
    name = "events/missions.jsonl"
    paper.files[name] = [line.replace('"mean": 20.0', '"mean": 12.0') for line in paper.files[name]]
    held = open_friday(paper.write()).in_flight("all")
    assert held is not None
    assert (held.mean, held.by_missions, held.by_driver) == (12.0, pytest.approx(20.0), 12.0)


def test_chaos_after_the_load_is_refused(tmp_path: Path) -> None:
    paper = Paper(tmp_path / "run")
    for name in ("events/missions.jsonl", "timeline.jsonl"):
        paper.files[name] = [line for line in paper.files[name] if json.loads(line)["t"] < "2026-12-04T14:00:30"]
    verdict = judged(paper.write())
    assert verdict.status == "refused"
    assert check(verdict, "overlap").status == "refused"


@pytest.mark.parametrize(
    ("drop", "refused"),
    [
        ("fault_injected", {"chaos", "lines-usable"}),
        ("fault_lifted", {"chaos"}),
        ("fault_gone", {"gone"}),
        ("drill_ended", {"whole"}),
        ("flag_met", {"flag.toolTimeout", "flag.refundError"}),
        ("mission_ended", {"row.mission-latency"}),
    ],
)
def test_an_event_that_is_missing_is_missed(tmp_path: Path, drop: str, refused: set[str]) -> None:
    paper = Paper(tmp_path / "run")
    for name, lines in paper.files.items():
        paper.files[name] = [line for line in lines if json.loads(line).get("event") != drop]
    verdict = judged(paper.write())
    assert verdict.status in ("refused", "fail")
    assert refused <= set(statuses(verdict))


def test_a_worker_that_never_held_the_flags_is_named(tmp_path: Path) -> None:
    paper = Paper(tmp_path / "run")
    paper.event("flags", 5, "flag_joined", worker="c-blind", pid=9, flags=[])
    verdict = judged(paper.write())
    assert statuses(verdict) == {"sight": "refused", "row.kill-switch": "fail"}
    assert "c-blind" in check(verdict, "sight").why


def test_a_worker_that_left_before_the_chaos_is_not_asked(tmp_path: Path) -> None:
    paper = Paper(tmp_path / "run")
    paper.event("flags", 5, "flag_joined", worker="c", pid=9, flags=[])
    paper.event("flags", 9, "flag_left", worker="c")
    assert judged(paper.write()).status == "pass"


def test_a_revision_of_another_server_is_none_of_this_one(tmp_path: Path) -> None:
    paper = Paper(tmp_path / "run")
    name = "events/flags.jsonl"
    lines = [
        line.replace('"worker": "b", "revision": "s1-2"', '"worker": "b", "revision": "s2-9"')
        for line in paper.files[name]
    ]
    paper.files[name] = [line for line in lines if '"worker": "b"' not in line or "flag_met" not in line]
    assert check(judged(paper.write()), "sight").status == "refused"


# Tools and the kill


def test_a_call_that_no_retry_recovers_breaks_the_row(tmp_path: Path) -> None:
    paper = Paper(tmp_path / "run")
    changed = 0
    lines = []
    for line in paper.files["timeline.jsonl"]:
        row = json.loads(line)
        if row["event"] == "tool_finished" and "14:00:4" in row["t"] and changed < 5:
            row["ok"], changed = False, changed + 1
        lines.append(json.dumps(row))
    paper.files["timeline.jsonl"] = lines
    row = check(judged(paper.write()), "row.tool-success")
    assert (row.status, row.observed) == ("fail", Exact(395 / 400, n=400))
    assert row.cites and row.cites[0].file == "timeline.jsonl"


def test_a_torn_line_of_a_worker_may_be_a_call_that_failed(tmp_path: Path) -> None:
    paper = Paper(tmp_path / "run")
    paper.files["timeline.jsonl"].insert(700, '{"t":"2026-12-04T14:00:40Z","event":"tool_fini')
    verdict = judged(paper.write())
    assert statuses(verdict) == {"row.tool-success": "refused"}


def test_a_flag_that_went_off_before_its_windows_lift_is_seen(tmp_path: Path) -> None:
    paper = Paper(tmp_path / "run")
    paper.event("flags", 31, "flag_switched", flag="toolTimeout", kind="timeout", state="off", window="w1", by="x")
    row = check(judged(paper.write()), "row.tool-success")
    assert row.status == "refused"
    assert "toolTimeout was on for" in row.why


def test_a_call_that_ran_after_the_kill_is_measured_to_its_end(tmp_path: Path) -> None:
    paper = Paper(tmp_path / "run")
    paper.worker(81.25, "tool_attempted", mission="m1", tool="refund", attempt=1, result="ok", ms=900)
    row = check(judged(paper.write()), "row.kill-switch")
    assert row.status == "fail"
    assert isinstance(row.observed, Exact)
    assert row.observed.value == pytest.approx(1.25)


def test_a_kill_that_nothing_met_proves_nothing(tmp_path: Path) -> None:
    paper = Paper(tmp_path / "run")
    paper.files["timeline.jsonl"] = [line for line in paper.files["timeline.jsonl"] if '"killed"' not in line]
    assert check(judged(paper.write()), "row.kill-switch").status == "refused"


def test_what_a_kill_refused_is_no_failure_of_a_tool(tmp_path: Path) -> None:
    matrix = json.loads(json.dumps(MATRIX))
    matrix["rows"][2] |= {"window": "all"}
    verdict = judged(Paper(tmp_path / "run", matrix=matrix).write())
    row = check(verdict, "row.tool-success")
    assert row.status == "pass"
    assert "refused by a kill switch left out" in row.title


# Folders


def test_a_line_of_ours_that_is_torn_refuses_and_is_named(tmp_path: Path) -> None:
    paper = Paper(tmp_path / "run")
    paper.files["events/missions.jsonl"].insert(10, '{"t":"2026-12-04T14:00:01Z","event":"mission_en')
    verdict = judged(paper.write())
    assert statuses(verdict) == {"lines-usable": "refused"}
    assert "events/missions.jsonl:11 torn" in check(verdict, "lines-usable").why


@pytest.mark.parametrize(
    ("file", "event", "fields"),
    [
        ("missions", "mission_ended", {"mission": "m0", "result": "fine"}),
        ("missions", "mission_started", {"mission": "", "flow": "x", "entry": "http", "due_ns": 1}),
        ("missions", "mission_started", {"mission": "m9", "flow": "x", "entry": "smtp", "due_ns": 1}),
        ("missions", "step_ended", {"mission": "m01a2b", "result": 7}),
        (
            "missions",
            "mission_ended",
            {"mission": "m9", "flow": "x", "entry": "http", "due_ns": 5, "end_ns": 9, "result": "ok", "thought_ns": 10},
        ),
        ("missions", "held", {"in_flight": "many"}),
        ("missions", "held", {"in_flight": True}),
        ("flags", "flag_met", {"worker": "a", "flag": "toolTimeout", "window": "w1", "n": -1}),
        ("flags", "fault_lifted", {"window": "w9"}),
        ("flags", "flag_switched", {"flag": "x", "state": "ON"}),
        ("detectors", "alert_received", {"state": "firing", "labels": 3}),
        ("conductor", "drill_ended", {}),
    ],
)
def test_a_line_of_ours_without_what_it_has_to_say_is_unusable(
    tmp_path: Path, file: str, event: str, fields: dict[str, Any]
) -> None:
    paper = Paper(tmp_path / "run")
    paper.event(file, 50, event, **fields)
    assert check(judged(paper.write()), "lines-usable").status == "refused"


def test_what_comes_after_the_seal_is_late_and_changes_nothing(tmp_path: Path) -> None:
    folder = Paper(tmp_path / "run").write()
    before = judged(folder)
    with (folder / "timeline.jsonl").open("a") as file:
        file.write('{"t":"2026-12-04T14:02:00Z","event":"tool_finished"}\n' * 3)
    after = judged(folder)
    assert (after.status, after.evidence_digest) == ("pass", before.evidence_digest)
    assert after.counts["late"] == 3


@pytest.mark.parametrize(
    "name", ["events/missions.jsonl", "timeline.jsonl", "transcripts/w1.ndjson", "events/flags.jsonl"]
)
def test_a_sealed_line_that_was_changed_refuses(tmp_path: Path, name: str) -> None:
    folder = Paper(tmp_path / "run").write()
    lines = (folder / name).read_text().splitlines()
    del lines[5]
    (folder / name).write_text("\n".join(lines) + "\n")
    verdict = judged(folder)
    assert verdict.status == "refused"
    assert check(verdict, "sealed").status == "refused"


@pytest.mark.parametrize(
    "name",
    [
        "events/missions.jsonl",
        "events/flags.jsonl",
        "events/detectors.jsonl",
        "events/conductor.jsonl",
        "timeline.jsonl",
    ],
)
def test_a_file_that_is_gone_never_passes(tmp_path: Path, name: str) -> None:
    folder = Paper(tmp_path / "run").write()
    (folder / name).unlink()
    assert judged(folder).status == "refused"
    paper = Paper(tmp_path / "never")
    del paper.files[name]
    assert judged(paper.write()).status in ("refused", "fail")


def test_a_folder_without_a_seal_is_refused_and_still_told(tmp_path: Path) -> None:
    verdict = judged(Paper(tmp_path / "run").write(seal=False))
    assert (verdict.status, statuses(verdict)) == ("refused", {"sealed": "refused"})
    assert len(verdict.checks) == 17


def test_another_matrix_than_the_runs_own_is_refused(tmp_path: Path) -> None:
    folder = Paper(tmp_path / "run").write()
    looser = json.loads(json.dumps(MATRIX))
    looser["rows"][0]["objective"] = "p95 < 25 s"
    (tmp_path / "other.json").write_text(json.dumps(looser))
    assert statuses(judged(folder, tmp_path / "other.json")) == {"policy": "refused"}


def test_a_run_of_another_drill_is_named_as_such(tmp_path: Path) -> None:
    folder = Paper(tmp_path / "run").write(more={"drill": "eviction"})
    with pytest.raises(Problem, match='found text "eviction", wanted "friday"'):
        judged(folder)
    with pytest.raises(Problem, match="no manifest"):
        open_friday(tmp_path)


def test_a_folder_whose_matrix_is_none_has_no_alerts_to_look_for(tmp_path: Path) -> None:
    folder = Paper(tmp_path / "run").write(seal=False)
    (folder / "policy.yaml").write_text("kind: policy\n")
    friday = open_friday(folder)
    assert friday.wanted == ()
    assert not math.isnan(friday.end_s)


def test_the_pre_flights_own_mission_is_nobodys_and_no_finding(tmp_path: Path) -> None:
    paper = Paper(tmp_path / "run")
    call = {"tool": "refund", "attempts": 1, "ok": False, "ms": 1}
    paper.worker(0.05, "tool_finished", mission="probe-1a2b", **call)
    assert "calls-of-nobody" not in {one.id for one in judged(paper.write()).findings}
    paper = Paper(tmp_path / "other")
    paper.worker(0.05, "tool_finished", mission="somebody", **call)
    assert "calls-of-nobody" in {one.id for one in judged(paper.write()).findings}


def test_a_receiver_that_was_ready_too_late_has_measured_nothing(tmp_path: Path) -> None:
    paper = Paper(tmp_path / "run")
    paper.event("detectors", 40, "detector_ready", receiver="second", form="grafana")
    row = check(judged(paper.write()), "row.detector-time")
    assert row.status == "refused"
    assert "began after the injection" in row.why


def test_an_alert_without_a_window_is_not_the_earlier_injections(tmp_path: Path) -> None:
    paper = Paper(tmp_path / "run")
    paper.files["events/detectors.jsonl"] = paper.files["events/detectors.jsonl"][:1]
    flags = [{"flag": "refundError", "kind": "error", "share": 0.2}]
    paper.event("flags", 70, "fault_injected", window="w2", fault="flags", flags=flags)
    paper.event("flags", 75, "fault_lifted", window="w2", why="ordered", lifted_ns=75 * 10**9)
    paper.event("conductor", 76, "fault_gone", window="w2", gone=True, why="off")
    paper.alert(72, starts_s=71)
    row = check(judged(paper.write()), "row.detector-time")
    assert (row.status, row.observed) == ("refused", AtLeast(40.0))  # until the second injection, and the limit is 60 s


def test_a_load_that_was_over_before_anybody_said_so_is_told(tmp_path: Path) -> None:
    paper = Paper(tmp_path)
    paper.event(
        "missions",
        40,
        "load_ended",
        source="missions.yaml",
        by="missions",
        exit=None,
        ordered=False,
        why="max_missions",
    )
    paper.event("missions", 90, "load_ended", source="locustfile.py", by="locust", exit=0, ordered=True)
    told = judged(paper.write())
    assert told.status == "pass"
    assert [one.cause for one in told.findings if one.id == "load-ended"] == [
        "missions.yaml began no more missions from 40.0 s on: max_missions"
    ]


def test_a_flag_that_somebody_else_put_on_before_makes_the_chaos_no_longer(tmp_path: Path) -> None:
    """Twenty quiet seconds in between would be missions of the row in which nothing was broken."""
    paper = Paper(tmp_path)
    flag = {"flag": "toolTimeout", "kind": "timeout", "share": 0.1}
    paper.event("flags", 5, "fault_injected", window="enabled-a-1", fault="flags", flags=[flag], by="somebody")
    paper.event("flags", 6, "fault_lifted", window="enabled-a-1", why="expired")
    told = check(judged(paper.write()), "row.tool-success")
    assert (told.status, "another injection stretches it" in told.why) == ("refused", True)


@pytest.mark.parametrize(
    "line",
    [
        '{"t": "2026-12-04T14:00:50", "event": "held", "ns": 1}',
        '{"t": "2026-12-04T14:00:50Z", "event": "held", "ns": 1, "mean": NaN}',
    ],
)
def test_a_time_without_a_zone_and_a_number_that_is_none_cannot_be_read(tmp_path: Path, line: str) -> None:
    paper = Paper(tmp_path / "run")
    paper.files["events/missions.jsonl"].append(line)
    assert statuses(judged(paper.write())) == {"lines-usable": "refused"}


def test_a_kill_that_no_worker_is_known_to_hold_has_not_come(tmp_path: Path) -> None:
    paper = Paper(tmp_path / "run")
    name = "events/flags.jsonl"
    assert any('"kill_drained"' in line for line in paper.files[name])
    paper.files[name] = [line for line in paper.files[name] if '"kill_drained"' not in line]
    assert check(judged(paper.write()), "row.kill-switch").status == "fail"


def test_calls_under_a_name_like_a_probes_are_of_nobody(tmp_path: Path) -> None:
    paper = Paper(tmp_path / "run")
    paper.worker(45, "tool_finished", mission="probe-zz", tool="refund", attempts=1, ok=False, ms=5)
    assert "calls-of-nobody" in {finding.id for finding in judged(paper.write()).findings}


def test_whoever_waits_is_told_how_far_the_reading_is(tmp_path: Path) -> None:
    folder = Paper(tmp_path / "run").write()
    told: list[tuple[int, int]] = []
    open_friday(folder, heard=lambda files, size: told.append((files, size)))
    read = [*folder.glob("events/*.jsonl"), folder / "timeline.jsonl", *folder.glob("transcripts/*.ndjson")]
    assert told == sorted(told)
    assert told[-1] == (len(read), sum(path.stat().st_size for path in read))
