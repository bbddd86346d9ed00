"""Logs of decisions and sealed runs as the retries gate reads them: what counts, what is told by its line, what is never kept."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from drillmaster import timeline
from drillmaster.adapters.worker.recording import Recorder
from drillmaster.clock import ManualClock
from drillmaster.errors import Problem
from drillmaster.gates._retries_evidence import Retried
from drillmaster.guards.retry import FailedCall, Retry
from drillmaster.intake.decisions import article_limits, open_logs, open_run_decisions, sealed_decisions
from drillmaster.intake.run import open_run
from tests.scene import Answer, Scene

T = "2026-11-30T15:00:00Z"
NOW_NS = 1_796_054_400 * 10**9


def decision(**more: Any) -> dict[str, Any]:
    return {
        "t": T,
        "event": "guard_decision",
        "guard": "retry",
        "reason": "status-not-retryable",
        "allowed": False,
        "wait_ms": 0,
        "attempt": 1,
        **more,
    }


def request(id_: object) -> dict[str, Any]:
    return {"t": T, "event": "user_request", "id": id_}


def read(folder: Path, *rows: object) -> Retried:
    path = folder / "soak.jsonl"
    path.write_text("".join((row if isinstance(row, str) else json.dumps(row)) + "\n" for row in rows))
    return open_logs([path], now_ns=NOW_NS)[0]


def test_decisions_and_requests_are_counted(tmp_path: Path) -> None:
    seen = read(
        tmp_path,
        request("a"),
        {**request("a"), "phase": "end", "status": 200},
        request("b"),
        decision(),
        decision(allowed=True, reason="pinned-status", wait_ms=120, attempt=2, route="refund"),
        decision(guard="quota", reason="cap"),
        {"t": T, "event": "model_ok", "id": "a", "path": "primary"},
    )
    said = seen.decided
    assert (seen.requests, said.total, said.goes, said.others, seen.unusable) == (2, 2, 1, 1, 0)
    assert (said.allowed, said.denied) == ({"pinned-status": 1}, {"status-not-retryable": 1})
    assert (said.most_attempt, said.routes) == (2, {"refund": 2})
    assert seen.wire is None and seen.source == "log"
    assert seen.ended_ns == (NOW_NS // 10**9 - 3600) * 10**9


@pytest.mark.parametrize(
    "row",
    [
        decision(allowed="no"),
        decision(allowed=0),
        decision(allowed=None),
        decision(guard=None),
        decision(guard=""),
        decision(attempt=0),
        decision(attempt="2"),
        decision(attempt=True),
        decision(attempt=1.5),
        decision(route=""),
        decision(route=7),
        request(""),
        request(None),
        request(True),
        {"event": "guard_decision", "guard": "retry", "allowed": True, "reason": "pinned-status"},  # no time
        '{"t": "2026-11-30T15:00:00Z", "event": "guard_decision", "guard": "retry", "allowed": fal',
        f'{{"t": "{T}", "event": "guard_decision", "guard": "retry", "allowed": false, "allowed": true}}',
        # A writer was killed in its line, and the next one wrote behind it.
        f'{{"t": "{T}", "event": "model_ok", "id"{json.dumps(decision(reason="unpinned-source"))}',
        f'{{"t": "{T}", "event": "note", "event": "guard_decision", "guard": "retry", "allowed": false}}',
        decision(guard="Retry"),
        decision(guard="retry "),
        decision(guard="rеtry"),  # with a letter of another alphabet
        decision(guard="re-try"),
        "\x00\x00\x00",
        "[]",
    ],
)
def test_a_line_that_may_be_one_and_cannot_be_read_is_told_with_its_number(tmp_path: Path, row: object) -> None:
    seen = read(tmp_path, request("a"), decision(), row)
    assert seen.unusable == 1
    assert [(one.file, one.line) for one in seen.unusable_cites] == [("soak.jsonl", 3)]


def test_a_line_of_another_event_that_is_torn_is_none_of_ours(tmp_path: Path) -> None:
    assert read(tmp_path, request("a"), '{"t": "2026-11-30T15:00:00Z", "event": "model_ok", "id": ').unusable == 0


@pytest.mark.parametrize(
    "reason", [None, "", 7, "Yes, retry: the upstream said hunter2", "unpinned_source", ["pinned-status"]]
)
def test_a_reason_that_is_none_is_counted_and_its_text_is_never_kept(tmp_path: Path, reason: object) -> None:
    seen = read(tmp_path, decision(reason=reason), decision(reason=reason, allowed=True))
    assert (seen.decided.unnamed, seen.decided.sent_unnamed, seen.decided.goes) == (1, 1, 1)
    assert "hunter2" not in repr(seen)


@pytest.mark.parametrize(("reason", "allowed"), [("unpinned-source", True), ("pinned-status", False)])
def test_a_decision_that_does_other_than_its_reason_says_is_told(tmp_path: Path, reason: str, allowed: bool) -> None:
    seen = read(tmp_path, decision(reason=reason, allowed=allowed))
    assert seen.decided.contradicted == 1
    assert seen.decided.count(reason) == 1


def test_a_sample_of_decisions_is_told_as_one(tmp_path: Path) -> None:
    go = {"allowed": True, "reason": "pinned-status"}
    seen = read(tmp_path, decision(**go, sampled=0.1), decision(**go, sampled=1), decision(**go), decision(sampled=0.1))
    assert (seen.decided.sampled, seen.decided.goes) == (2, 3)
    assert read(tmp_path, decision(sampled=True)).decided.sampled == 1


def test_a_fact_that_the_guard_denies_is_read_as_that_denial(tmp_path: Path) -> None:
    seen = read(
        tmp_path, decision(reason="facts-unusable", attempt=-5), decision(reason="facts-unusable", attempt=True)
    )
    assert (seen.unusable, seen.decided.denied) == (0, {"facts-unusable": 2})
    assert read(tmp_path, decision(reason="facts-unusable", attempt=-5, allowed=True)).unusable == 1


def test_what_our_own_recorder_writes_is_read(tmp_path: Path) -> None:
    log = tmp_path / "soak.jsonl"
    recorder = Recorder(log, allowed_share=1)
    guard = Retry(max_calls=3, deadline_ms=5000, base_ms=1, cap_ms=5, budget_tokens=100, refund=1)
    for source in ("pinned-map", "free-model"):
        call = FailedCall(
            source=source, protocol="http", method="GET", code=503, attempt=2, elapsed_ms=1, idempotency_key="hunter2"
        )
        recorder.record("model", "retry", call, guard.step(None, call, 0)[1], route="refund")
    with log.open("a") as file:
        file.write(json.dumps(request("a")) + "\n")
    seen, _ = open_logs([log], now_ns=NOW_NS)
    assert (seen.decided.allowed, seen.decided.denied) == ({"pinned-status": 1}, {"unpinned-source": 1})
    assert (seen.decided.routes, seen.decided.most_attempt, seen.unusable, seen.requests) == ({"refund": 2}, 2, 0, 1)


def test_logs_of_several_workers_are_one_and_none_counts_twice(tmp_path: Path) -> None:
    for name in ("a.jsonl", "b.jsonl"):
        (tmp_path / name).write_text(json.dumps(decision()) + "\n" + json.dumps(request(name)) + "\n")
    seen, _ = open_logs([tmp_path / "a.jsonl", tmp_path / "b.jsonl"], now_ns=NOW_NS)
    assert (seen.requests, seen.decided.total) == (2, 2)
    (tmp_path / "c.jsonl").symlink_to("a.jsonl")
    with pytest.raises(Problem, match="each log once"):
        open_logs([tmp_path / "a.jsonl", tmp_path / "c.jsonl"], now_ns=NOW_NS)


@pytest.mark.parametrize("data", [b"", b"\n\n \n"])
def test_an_empty_log_is_refused(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "soak.jsonl").write_bytes(data)
    with pytest.raises(Problem, match="no line"):
        open_logs([tmp_path / "soak.jsonl"], now_ns=NOW_NS)


def test_a_missing_log_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Problem):
        open_logs([tmp_path / "soak.jsonl"], now_ns=NOW_NS)


@pytest.mark.parametrize(
    ("ratio", "reasons", "said"),
    [
        (None, ("unpinned-source",), "--max-retry-ratio"),
        (0.05, (), "--forbid-reason"),
        (0.05, ("unpinned_source",), "unpinned_source"),
        (-1.0, ("unpinned-source",), "-1"),
        (float("nan"), ("unpinned-source",), "nan"),
    ],
)
def test_one_of_the_articles_flags_alone_is_refused_with_the_line_that_works(
    ratio: float | None, reasons: tuple[str, ...], said: str
) -> None:
    with pytest.raises(Problem) as told:
        article_limits(ratio, reasons, "drillmaster gate retries soak.jsonl")
    assert said in told.value.found
    assert told.value.remedy.endswith("soak.jsonl --max-retry-ratio 0.05 --forbid-reason unpinned-source")


# A sealed run

RETRY: tuple[str, dict[str, Any]] = (
    "guard_decision",
    {"guard": "retry", "reason": "pinned-status", "allowed": True, "attempt": 1},
)


def drilled(folder: Path, *, attempts: int, decided: bool) -> Path:
    marks = (("fallback_engaged", {"path": "fallback"}), *((RETRY,) * (attempts - 1) if decided else ()))
    fallback, primary = Answer(25, attempts=attempts, marks=marks), Answer(20)

    def behave(n: int, since_s: float, faulted: bool) -> Answer:
        return fallback if faulted else primary

    path = Scene(behave).write(folder / "20261129T153000Z-1a2b")
    timeline.seal_run(path, ManualClock())
    return path


def test_of_a_run_the_wire_says_what_was_sent_and_the_workers_lines_why(tmp_path: Path) -> None:
    seen, name, digest = open_run_decisions(drilled(tmp_path, attempts=2, decided=True), now_ns=NOW_NS)
    assert (name, digest.startswith("sha256:") or bool(digest)) == ("20261129T153000Z-1a2b", True)
    assert seen.wire is not None
    assert seen.requests == 99
    assert seen.decided.goes == 60
    assert seen.wire.attempts == 159
    assert seen.wire.most == 2
    assert seen.seal_problems == () and seen.unusable == 0


def test_a_line_behind_the_seal_is_not_read_and_one_before_it_that_changed_is_a_problem(tmp_path: Path) -> None:
    path = drilled(tmp_path, attempts=2, decided=True)
    log = path / "timeline.jsonl"
    with log.open("a") as file:
        file.write(json.dumps(decision(reason="unpinned-source")) + "\n")
    seen, _, _ = open_run_decisions(path, now_ns=NOW_NS)
    assert seen.decided.count("unpinned-source") == 0 and seen.late == 1
    log.write_bytes(log.read_bytes().replace(b"pinned-status", b"pinned-statuz", 1))
    seen, _, _ = open_run_decisions(path, now_ns=NOW_NS)
    assert seen.seal_problems


@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.binary(max_size=400))
def test_no_bytes_at_all_are_a_decision_by_accident(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "any.jsonl"
    path.write_bytes(data)
    try:
        seen, _ = open_logs([path], now_ns=NOW_NS)
    except Problem:
        return
    assert seen.decided.total == 0 or b"guard_decision" in data


def test_a_recorder_that_keeps_no_allowed_decision_says_so_in_the_others(tmp_path: Path) -> None:
    log = tmp_path / "soak.jsonl"
    recorder = Recorder(log, allowed_share=0)
    guard = Retry(max_calls=3, deadline_ms=5000, base_ms=1, cap_ms=5, budget_tokens=100, refund=1)
    for code in (503, 503, 404):
        call = FailedCall(source="pinned-map", protocol="http", method="GET", code=code, attempt=1, elapsed_ms=1)
        recorder.record("model", "retry", call, guard.step(None, call, 0)[1])
    seen, _ = open_logs([log], now_ns=NOW_NS)
    assert (seen.decided.goes, seen.decided.sampled) == (0, 1)


def test_decisions_of_guards_that_are_no_retry_guards_are_others(tmp_path: Path) -> None:
    seen = read(tmp_path, decision(guard="quota"), decision(guard="tools"), decision(guard="my-own-rule"))
    assert (seen.decided.others, seen.unusable) == (3, 0)


def test_of_a_log_the_oldest_line_counts_as_well(tmp_path: Path) -> None:
    seen = read(tmp_path, {**request("a"), "t": "2025-01-01T00:00:00Z"}, request("b"), decision())
    assert seen.began_ns == 1_735_689_600 * 10**9
    assert seen.ended_ns == NOW_NS - 3600 * 10**9


def test_a_copy_of_a_log_is_that_log_twice(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text(json.dumps(decision()) + "\n")
    (tmp_path / "b.jsonl").write_text(json.dumps(decision()) + "\n")
    (tmp_path / "hard.jsonl").hardlink_to(tmp_path / "a.jsonl")
    for other in ("b.jsonl", "hard.jsonl"):
        with pytest.raises(Problem, match="each log once"):
            open_logs([tmp_path / "a.jsonl", tmp_path / other], now_ns=NOW_NS)


@pytest.mark.parametrize("what", ["altered", "cut", "gone", "seal"])
def test_a_run_that_changes_between_the_two_times_it_is_read_is_a_problem(tmp_path: Path, what: str) -> None:
    path = drilled(tmp_path, attempts=2, decided=True)
    run = open_run(path)
    log = path / "timeline.jsonl"
    assert sealed_decisions(path, run.digest)[1] == []
    data = log.read_bytes()
    if what == "altered":
        log.write_bytes(data.replace(b"pinned-status", b"pinned-statuz", 1))
    elif what == "cut":
        log.write_bytes(data[:-200])
    elif what == "gone":
        log.unlink()
    else:  # line and seal, both anew: the one that was judged is another
        log.write_bytes(data.replace(b"pinned-status", b"pinned-statuz", 1))
        (path / "seal.json").unlink()
        timeline.seal_run(path, ManualClock())
    assert sealed_decisions(path, run.digest)[1] == [
        f"{'seal.json' if what == 'seal' else 'timeline.jsonl'} changed while it was read"
    ]
