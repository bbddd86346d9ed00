"""Rows of runs: what is taken in, what never changes, and what many writers leave."""

import hashlib
import math
import os
import sqlite3
from pathlib import Path
from typing import Any

import msgspec
import pytest

from drillmaster.clock import ManualClock, parse_rfc3339
from drillmaster.entries import entry_of, take_in
from drillmaster.errors import Problem, Refused
from drillmaster.history import Entry, History, figures, open_history
from drillmaster.intake.friday import judge_friday
from drillmaster.intake.run import open_run
from drillmaster.intake.verdicts import judge_eviction, keep
from drillmaster.passports import judge_run
from drillmaster.timeline import seal_run
from tests.cli.test_matrix import POLICY as MATRIX_POLICY
from tests.cli.test_matrix import folder as matrix_folder
from tests.fridays import paper
from tests.fridays.paper import Paper
from tests.interviewed import JOB, POLICY, RUN, sealed
from tests.scene import Scene, healthy

NO_DIRT = hashlib.sha256().hexdigest()


def entry(run: str = "20261130T120000Z-0001", **more: Any) -> Entry:
    fields: dict[str, Any] = {
        "run": run, "drill": "interview", "name": JOB, "target": "http://127.0.0.1:9/v1", "status": "unjudged",
        "ended_at": f"{run[:4]}-{run[4:6]}-{run[6:8]}T12:00:00.000000000Z", "evidence_digest": "sha256:" + "a" * 64,
    }  # fmt: skip
    return Entry(**(fields | more))


@pytest.fixture
def history(tmp_path: Path) -> Any:
    with open_history(str(tmp_path / "history.sqlite")) as one:
        yield one


# What may change, and what may not


def test_a_run_is_taken_in_once(history: History) -> None:
    assert history.add(entry()) == "new"
    assert history.add(entry()) == "known"
    assert history.entries() == [entry()]


def test_the_same_run_with_another_seal_is_refused_and_the_first_row_stays(history: History) -> None:
    history.add(entry())
    with pytest.raises(Refused, match="one seal for one run"):
        history.add(entry(evidence_digest="sha256:" + "b" * 64, status="pass", judged_at="2026-11-30T13:00:00Z"))
    assert history.entries() == [entry()]


@pytest.mark.parametrize(
    "before, after, kept",
    [
        ("", "2026-11-30T13:00:00Z", "2026-11-30T13:00:00Z"),
        ("2026-11-30T13:00:00Z", "2026-11-30T14:00:00Z", "2026-11-30T14:00:00Z"),
        ("2026-11-30T14:00:00Z", "2026-11-30T13:00:00Z", "2026-11-30T14:00:00Z"),  # an older copy of the folder
        ("2026-11-30T14:00:00Z", "", "2026-11-30T14:00:00Z"),  # the verdict was deleted since
    ],
)
def test_the_latest_verdict_on_a_seal_counts(history: History, before: str, after: str, kept: str) -> None:
    history.add(entry(judged_at=before))
    history.add(entry(judged_at=after))
    assert [one.judged_at for one in history.entries()] == [kept]


def test_runs_come_oldest_first_and_the_last_are_the_newest(history: History) -> None:
    for run in ("20261130T120000Z-0002", "20261128T120000Z-0001", "20261129T120000Z-0003"):
        history.add(entry(run))
    history.add(entry("20261127T120000Z-0004", drill="eviction", name="shop"))
    assert [one.run[:8] for one in history.entries(drill="interview")] == ["20261128", "20261129", "20261130"]
    assert [one.run[:8] for one in history.entries(last=2)] == ["20261129", "20261130"]
    assert [one.name for one in history.entries(name="shop")] == ["shop"]
    assert history.entries(name="'; DROP TABLE drillmaster_history; --") == []


def test_a_field_of_a_later_version_does_no_harm(history: History, tmp_path: Path) -> None:
    history.add(entry())
    with sqlite3.connect(tmp_path / "history.sqlite") as raw:
        text = msgspec.json.decode(raw.execute("SELECT entry FROM drillmaster_history").fetchone()[0])
        raw.execute("UPDATE drillmaster_history SET entry = ?", (msgspec.json.encode(text | {"later": 1}).decode(),))
    assert history.entries() == [entry()]


# What cannot be opened


@pytest.mark.parametrize(
    "named, found",
    [
        ("/dev/null/h.sqlite", "no folder that can be made"),
        ("mysql://root@127.0.0.1/x", "the scheme 'mysql'"),
        (".", "unable to open"),
    ],
)
def test_what_is_no_history_is_refused(named: str, found: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(Problem, match=found):
        open_history(named)


def test_a_file_of_another_kind_is_refused_and_left_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    path.write_text("<p>not a database</p>" * 100)
    with pytest.raises(Problem, match="not a database"):
        open_history(str(path))
    assert path.read_text().startswith("<p>")


def test_a_history_that_cannot_be_used_says_what_helps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("drillmaster.history.BUSY_S", 0.01)
    path = tmp_path / "h.sqlite"
    with open_history(str(path)) as one:
        one.add(entry())
    held = sqlite3.connect(path, isolation_level=None)
    held.execute("BEGIN EXCLUSIVE")
    with pytest.raises(Problem, match="wait for whoever holds it"):
        open_history(str(path))
    held.close()
    with path.open("r+b") as file:
        file.truncate(5_000)
    with pytest.raises(Problem, match="made again from the run folders"):
        open_history(str(path))


def test_a_row_that_somebody_broke_is_named(history: History, tmp_path: Path) -> None:
    history.add(entry())
    with sqlite3.connect(tmp_path / "history.sqlite") as raw:
        raw.execute("UPDATE drillmaster_history SET entry = '{'")
    with pytest.raises(Problem, match="a row that cannot be read"):
        history.entries()


@pytest.mark.parametrize(
    "named",
    [
        "ftp://ada:hunter2@127.0.0.1/x?password=hunter3",
        "postgresql://ada:1/hunter2@127.0.0.1/x",
        "postgresql://ada:hunter2/hunter3@127.0.0.1:1/x",
        "postgresql://ada:hunter2?hunter3@127.0.0.1:1/x",
        "postgresql://ada:hunter2#hunter3@127.0.0.1:1/x",
        "postgresql://127.0.0.1:1/x?user=ada&passwrd=hunter2@x",
        "postgresql://ada:hunter2@[::1/x",  # what libpq cannot read it says again, whole
        "postgresql://ada:hunter2@127.0.0.1:port/x",
        "postgresql://ada:%zzhunter2@127.0.0.1/x",
    ],
)
def test_no_message_holds_a_password(named: str) -> None:
    with pytest.raises(Problem) as told:
        open_history(named)
    assert "hunter" not in str(told.value)


# Rows of folders


def test_an_interviews_row_has_its_figures_level_by_level(tmp_path: Path) -> None:
    one = entry_of(sealed(tmp_path, cold_ms=900, one_ms=100, four_ms=150, failed=2))
    assert (one.run, one.drill, one.name, one.status) == (RUN, "interview", JOB, "unjudged")
    assert one.metrics["cold.max_s"] == pytest.approx(0.9)
    assert one.metrics["warm_c1.p95_s"] == pytest.approx(0.1)
    assert one.metrics["warm_c4.error_rate"] == pytest.approx(0.1)
    assert parse_rfc3339(one.ended_at) is not None


def test_a_verdict_beside_the_run_counts_where_it_is_on_this_seal(tmp_path: Path) -> None:
    folder, policy = sealed(tmp_path / "a"), tmp_path / "policy.yaml"
    policy.write_text(POLICY)
    now_ns = parse_rfc3339("2026-12-01T08:00:00Z")
    assert now_ns is not None
    verdict = judge_run(folder, policy, now_ns=now_ns).verdict
    keep(verdict, folder)
    assert (entry_of(folder).status, entry_of(folder).judged_at) == (verdict.status, "2026-12-01T08:00:00Z")
    other = sealed(tmp_path / "b", cold_ms=800)
    keep(verdict, other)
    assert entry_of(other).status == "unjudged"


def test_a_drills_row_has_what_its_gate_saw(tmp_path: Path) -> None:
    folder = Scene(healthy).write(tmp_path)
    with pytest.raises(Refused, match="not sealed"):
        entry_of(folder)
    seal_run(folder, ManualClock())
    assert (entry_of(folder).drill, entry_of(folder).status, entry_of(folder).metrics) == ("eviction", "unjudged", {})
    run = open_run(folder)
    keep(judge_eviction(run, folder / "policy.yaml", now_ns=run.started_wall_ns + run.end_ns), folder)
    one = entry_of(folder)
    assert one.status == "pass"
    assert one.metrics["fallback_s"] > 0
    assert one.metrics["failed_ratio"] == 0
    assert one.judged_at.endswith("Z")


def test_what_is_not_as_it_was_sealed_is_left_out_and_named(tmp_path: Path, history: History) -> None:
    folder = sealed(tmp_path)
    with (folder / "events" / "load.jsonl").open("ab") as file:
        file.seek(0)
        file.truncate(5)
    os.mkdir(tmp_path / "20261130T130000Z-0002")
    (tmp_path / "20261130T130000Z-0002" / "manifest.json").write_text("{")
    taken = take_in(history, tmp_path)
    assert set(taken.left_out) == {RUN, "20261130T130000Z-0002"}
    assert not taken.new
    assert not history.entries()


def test_a_folder_is_taken_in_once_and_again_when_it_is_judged(tmp_path: Path, history: History) -> None:
    folder, policy = sealed(tmp_path), tmp_path / "policy.yaml"
    policy.write_text(POLICY)
    assert take_in(history, tmp_path).new == (RUN,)
    assert take_in(history, tmp_path) == take_in(history, tmp_path)
    now_ns = parse_rfc3339("2026-12-01T08:00:00Z")
    assert now_ns is not None
    keep(judge_run(folder, policy, now_ns=now_ns).verdict, folder)
    assert take_in(history, tmp_path).judged == (RUN,)
    assert history.entries()[0].status == "pass"


def test_a_run_that_was_sealed_again_is_told_apart(tmp_path: Path, history: History) -> None:
    sealed(tmp_path / "runs")
    take_in(history, tmp_path / "runs")
    sealed(tmp_path / "others", cold_ms=10)
    taken = take_in(history, tmp_path / "others")
    assert taken.sealed_twice == (RUN,)
    assert history.entries()[0].metrics["cold.max_s"] == pytest.approx(0.9)


# What a figure may be


@pytest.mark.parametrize(
    "value, why",
    [
        (math.nan, "nan is no finite number"),
        (math.inf, "inf is no finite number"),
        ({1, 2}, "a set is no number"),
        ("fast", "a str is no number"),
        (True, "a bool is no number"),
        (None, "nobody measured it"),
        ([[[]]], "a list is no number"),
        (10**400, "is no finite number that JSON can hold"),
    ],
)
def test_a_figure_that_is_none_is_null_with_its_reason_and_the_row_is_kept(
    history: History, value: object, why: str
) -> None:
    kept, missing = figures({"p95_latency": 1.5, "odd": value})
    assert kept == {"p95_latency": 1.5}
    assert why in missing["odd"]
    assert history.add(entry(metrics={"p95_latency": 1.5, "odd": value})) == "new"
    (row,) = history.entries()
    assert row.metrics == {"p95_latency": 1.5}
    assert why in row.missing["odd"]


def test_the_folder_that_a_history_lies_in_is_made(tmp_path: Path) -> None:
    with open_history(str(tmp_path / "logs" / "drills" / "history.sqlite")) as one:
        assert one.add(entry()) == "new"


def test_a_drills_row_says_what_fault_was_tried_and_with_what_code(tmp_path: Path) -> None:
    folder = Scene(healthy).write(tmp_path)
    seal_run(folder, ManualClock())
    run = open_run(folder)
    assert entry_of(folder).proved == {}
    keep(judge_eviction(run, folder / "policy.yaml", now_ns=run.started_wall_ns + run.end_ns), folder)
    assert entry_of(folder).proved == {"fault/reset": "pass"}


def test_a_friday_drills_row_has_the_articles_figures_and_what_each_row_came_to(tmp_path: Path) -> None:
    folder = Paper(tmp_path / paper.RUN).write(more={"code": {"commit": "a" * 40, "dirt_sha256": NO_DIRT}})
    before = entry_of(folder)
    assert (before.drill, before.status, before.proved) == ("friday", "unjudged", {})
    assert before.metrics["p95_latency"] == 1.5
    assert before.metrics["detector_delay_ms"] == 17_500
    assert before.missing["pager_ack_seconds"] == "nobody acknowledged"  # no figure that a page could take for one
    keep(judge_friday(folder, folder / "policy.yaml", now_ns=paper.NOW_NS), folder)
    one = entry_of(folder)
    assert one.status == "pass"
    assert one.proved["row/mission-latency"] == "pass"
    assert one.proved["flag/toolTimeout"] == "pass"
    assert one.metrics["row.mission-latency_s"] == 1.5
    assert (one.commit, one.clean) == ("a" * 40, True)
    assert parse_rfc3339(one.ended_at) == paper.WALL0_NS + 95 * 10**9


def test_rows_of_a_drill_that_was_not_admitted_passed_nothing(tmp_path: Path) -> None:
    made = Paper(tmp_path / paper.RUN)
    del made.files["events/flags.jsonl"]  # chaos that nobody can show
    folder = made.write()
    verdict = judge_friday(folder, folder / "policy.yaml", now_ns=paper.NOW_NS)
    assert verdict.status == "refused"
    assert "pass" in {check.status for check in verdict.checks if check.id.startswith("row.")}
    keep(verdict, folder)
    assert set(entry_of(folder).proved.values()) == {"refused"}


def test_a_friday_drill_without_a_detector_has_null_and_why(tmp_path: Path, history: History) -> None:
    made = Paper(tmp_path / paper.RUN)
    del made.files["events/detectors.jsonl"]
    made.write()
    assert take_in(history, tmp_path).new == (paper.RUN,)
    (row,) = history.entries()
    assert "detector_delay_ms" not in row.metrics
    assert row.missing["detector_delay_ms"]


def test_a_history_is_made_again_from_the_folders(tmp_path: Path, history: History) -> None:
    folder = Paper(tmp_path / "runs" / paper.RUN).write()
    keep(judge_friday(folder, folder / "policy.yaml", now_ns=paper.NOW_NS), folder)
    take_in(history, tmp_path / "runs")
    with open_history(str(tmp_path / "again.sqlite")) as again:
        take_in(again, tmp_path / "runs")
        assert again.entries() == history.entries()


@pytest.mark.parametrize(
    "policy, ended, proved",
    [
        (MATRIX_POLICY, "completed", {"fault/503": "pass", "fault/reset": "fail"}),
        (MATRIX_POLICY, "aborted", {}),  # a matrix that was stopped proves nothing of what it had done
        ("", "completed", {"fault/503": "refused", "fault/reset": "refused"}),  # measured, and held against no limit
    ],
)
def test_a_fault_matrix_says_of_each_fault_what_came_of_it(
    tmp_path: Path, policy: str, ended: str, proved: dict[str, str]
) -> None:
    one = entry_of(matrix_folder(tmp_path, policy=policy, ended=ended))
    assert (one.drill, one.proved) == ("matrix", proved)
