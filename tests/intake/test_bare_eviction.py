"""Bare timelines, as four-line helpers and a shell loop write them: each gets the verdict that it deserves."""

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from drillmaster.cli.gate.eviction import _flag_limits
from drillmaster.clock import parse_rfc3339
from drillmaster.intake.run import open_bare
from drillmaster.intake.verdicts import judge_bare
from drillmaster.verdict import Check, Verdict

START = datetime(2026, 11, 29, 0, 0, tzinfo=UTC)
NOW_NS = parse_rfc3339("2026-11-29T02:00:00Z") or 0
Rows = list[dict[str, Any]]


def at(seconds: float) -> str:
    return (START + timedelta(seconds=seconds)).isoformat(timespec="milliseconds")


def user(seconds: float, status: int = 200) -> dict[str, Any]:
    """A row of the shell loop: whole seconds, `Z`, always the same id."""
    stamp = (START + timedelta(seconds=int(seconds))).strftime("%Y-%m-%dT%H:%M:%SZ")
    return {"t": stamp, "event": "user_request", "id": "curl", "status": status}


def worker(seconds: float, event: str, key: str, **fields: Any) -> dict[str, Any]:
    return {"t": at(seconds), "event": event, "id": key, **fields}


def drill(
    status: Callable[[float], int] = lambda s: 200,
    *,
    fallback_after_s: float | None = 2.0,
    inject_s: float = 600,
    lift_s: float = 1500,
    end_s: float = 1800,
    every_s: float = 5,
    recovered: bool = True,
) -> Rows:
    """Ten minutes of baseline, fifteen of fault, five after: the article's run, judged by its users."""
    rows: Rows = []
    for i in range(int(end_s / every_s)):
        s = i * every_s
        key = f"r{i}"
        rows.append(worker(s + 0.1, "user_request", key, phase="start"))
        down = inject_s <= s < lift_s or (s >= lift_s and not recovered)
        if not down:
            rows.append(worker(s + 0.2, "model_ok", key, path="primary"))
        elif fallback_after_s is not None and s >= inject_s + fallback_after_s - every_s:
            rows.append(worker(max(s + 0.2, inject_s + fallback_after_s), "fallback_engaged", key, path="fallback"))
        rows.append(
            worker(
                max(s + 0.3, inject_s + (fallback_after_s or 0) + 0.1 if down else 0),
                "user_request",
                key,
                phase="end",
                status=200,
            )
        )
        rows.append(user(s, status(s)))
    rows.append({"t": at(inject_s), "event": "fault_injected", "mode": "reset"})
    rows.append({"t": at(lift_s), "event": "fault_lifted"})
    return rows


def judged(content: Rows | bytes, tmp_path: Path, *, budget: float = 0.01, within_s: float = 60) -> Verdict:
    path = tmp_path / "drill.jsonl"
    raw = content if isinstance(content, bytes) else b"".join(json.dumps(r).encode() + b"\n" for r in content)
    path.write_bytes(raw)
    return judge_bare(open_bare(path), _flag_limits(budget, within_s), None, now_ns=NOW_NS)


def told(verdict: Verdict) -> str:
    return "\n".join(f"{c.status} {c.id}: {c.title} ({c.why}) -> {c.remedy}" for c in verdict.checks)


def without(rows: Rows, event: str, **fields: Any) -> Rows:
    return [r for r in rows if not (r["event"] == event and all(r.get(k) == v for k, v in fields.items()))]


def test_a_sound_file_passes_and_is_headed_unsealed_unproven(tmp_path: Path) -> None:
    verdict = judged(drill(), tmp_path)
    assert verdict.status == "pass", told(verdict)
    assert verdict.stamps == ("UNSEALED", "UNPROVEN", "UNPINNED")
    assert "30 min" in verdict.subject or "1795" in verdict.subject


FAILS: dict[str, Rows] = {
    "every status 0": drill(lambda s: 0 if 600 <= s < 1500 else 200),
    "every status 401": drill(lambda s: 401 if 600 <= s < 1500 else 200),
    "every status 403": drill(lambda s: 403 if 600 <= s < 1500 else 200),
    "every status 404": drill(lambda s: 404 if 600 <= s < 1500 else 200),
    "every status 429": drill(lambda s: 429 if 600 <= s < 1500 else 200),
    "2 of 180 are 502": drill(lambda s: 502 if s in (700, 800) else 200),
    "no fallback at all": drill(fallback_after_s=None),
    "fallback after 61 s": drill(fallback_after_s=61),
    "the only fallback came before the injection": [
        *drill(fallback_after_s=None),
        worker(10, "fallback_engaged", "r2", path="fallback"),
    ],
    "the fallback never let go": drill(recovered=False),
    "an unhandled exception in the window": [*drill(), worker(700, "unhandled_exception", "r140", kind="KeyError")],
    "one started and never ended": [*drill(), worker(700, "user_request", "lost", phase="start")],
    "99 started, 1 ended": [
        *without(drill(), "user_request", id="curl"),
        *(worker(700, "user_request", f"x{i}", phase="start") for i in range(99)),
    ],
}


@pytest.mark.parametrize("name", FAILS)
def test_what_the_agent_failed_at_fails(name: str, tmp_path: Path) -> None:
    verdict = judged(FAILS[name], tmp_path)
    assert verdict.status == "fail", told(verdict)


def test_a_file_of_users_alone_is_told_that_the_worker_marks_nothing(tmp_path: Path) -> None:
    def fallback(rows: Rows) -> Check:
        return next(check for check in judged(rows, tmp_path).checks if check.id == "fallback")

    silent = fallback([row for row in drill() if row.get("id") == "curl" or row["event"].startswith("fault_")])
    marked = fallback(drill(fallback_after_s=None))
    assert silent.status == marked.status == "fail"
    assert "the worker marks nothing" in silent.why and "write-a-timeline" in silent.why
    assert "the worker marks nothing" not in marked.why


def raw(rows: Rows) -> bytes:
    return b"".join(json.dumps(r).encode() + b"\n" for r in rows)


REFUSED: dict[str, Rows | bytes] = {
    "empty": b"",
    "blank lines": b"\n\n\n",
    "no injection, one spurious fallback": without(drill(), "fault_injected"),
    "three lines, six seconds": [user(0), {"t": at(2), "event": "fault_injected"}, user(6)],
    "requests in the baseline only": [r for r in drill() if r["t"] < at(590) or r["event"].startswith("fault")],
    "never lifted": without(drill(), "fault_lifted"),
    "nothing after the lift": [r for r in drill() if r["t"] < at(1499) or r["event"].startswith("fault")],
    "two minutes of fault": drill(lift_s=720),
    "baseline all 503, fault window all 200": drill(lambda s: 503 if s < 600 else 200),
    "exception before the injection": [*drill(), worker(100, "unhandled_exception", "r20", kind="KeyError")],
    "status -1": [*drill(), user(700, -1)],
    "status true": [*drill(), user(700, True)],
    "status 499.9": [*drill(), {**user(700), "status": 499.9}],
    "status null": [*drill(), {**user(700), "status": None}],
    "status as text": [*drill(), {**user(700), "status": "200"}],
    "status 700": [*drill(), user(700, 700)],
    "status twice": raw(drill())
    + b'{"t":"2026-11-29T00:11:40Z","event":"user_request","id":"c","status":502,"status":200}\n',
    "status NaN": raw(drill()) + b'{"t":"2026-11-29T00:11:40Z","event":"user_request","id":"c","status":NaN}\n',
    "status 000000": raw(drill()) + b'{"t":"2026-11-29T00:11:40Z","event":"user_request","id":"c","status":000000}\n',
    "a torn last line": raw(drill())[:-20],
    "a line without event": raw(drill()) + b'{"t":"2026-11-29T00:11:40Z","who":"scribe"}\n',
    "a line without t": raw(drill()) + b'{"event":"user_request","id":"c","status":200}\n',
    "t yesterday": [*drill(), {**user(700), "t": "yesterday"}],
    "t without a zone": [*drill(), {**user(700), "t": "2026-11-29T00:11:40"}],
    "t a number": [*drill(), {**user(700), "t": 1796000000}],
    "dated last year": [*drill(), {**user(700), "t": "2025-11-29T00:11:40Z"}],
    "year 2199": [*drill(), {**user(700), "t": "2199-11-29T00:11:40Z"}],
    "year 2201": [*drill(), {**user(700), "t": "2201-11-29T00:11:40Z"}],
    "a list as a row": raw(drill()) + b"[1]\n",
    "a number as a row": raw(drill()) + b"7\n",
    "a byte order mark": b"\xef\xbb\xbf" + raw(drill()),
    "UTF-16": raw(drill()).decode().encode("utf-16"),
    "one bad byte": raw(drill()).replace(b"curl", b"c\xffrl", 1),
    "100,000 brackets": raw(drill()) + b"[" * 100_000 + b"\n",
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_the_drill_failed_at_is_refused_and_says_what_to_do(name: str, tmp_path: Path) -> None:
    verdict = judged(REFUSED[name], tmp_path)
    assert verdict.status == "refused", told(verdict)
    stopped = [c for c in verdict.checks if c.status == "refused"]
    assert all(c.remedy for c in stopped), told(verdict)


def test_damage_is_named_by_line(tmp_path: Path) -> None:
    rows = drill()
    damaged = raw(rows[:9]) + b'{"status":502,"status":200}\n' + raw(rows[9:])
    assert "drill.jsonl:10" in told(judged(damaged, tmp_path))


def test_curls_doubled_code_is_answered_with_the_line_that_works(tmp_path: Path) -> None:
    assert "status=$((10#$code))" in told(judged(REFUSED["status 000000"], tmp_path))


def test_two_injections_are_both_judged(tmp_path: Path) -> None:
    second = drill(fallback_after_s=None)
    shifted = [
        {**r, "t": (datetime.fromisoformat(r["t"].replace("Z", "+00:00")) + timedelta(hours=1)).isoformat()}
        for r in second
    ]
    for r in shifted:
        if r.get("id", "").startswith("r"):
            r["id"] = "b" + r["id"]
    verdict = judged([*drill(), *shifted], tmp_path)
    assert verdict.status == "fail", told(verdict)
    assert {c.id: c.status for c in verdict.checks}["fallback [w1]"] == "pass"
    assert {c.id: c.status for c in verdict.checks}["fallback [w2]"] == "fail"


def test_the_scribes_two_minutes_are_a_finding_that_names_both(tmp_path: Path) -> None:
    notes = [
        {"t": at(720), "event": "note", "kind": "injection_seen", "text": "00:12:00", "by": "Bo"},
        {"t": at(730), "event": "note", "kind": "first_fallback_seen", "text": "", "by": "Bo"},
        {"t": at(1501), "event": "note", "kind": "window_ended", "text": "", "by": "Bo"},
    ]
    verdict = judged([*drill(), *notes], tmp_path)
    assert verdict.status == "pass", told(verdict)
    finding = next(f for f in verdict.findings if f.id == "scribe-against-wire")
    assert "2 min after" in finding.cause
    assert len(finding.cites) == 2


def test_a_file_of_user_rows_alone_is_judged_by_its_marks(tmp_path: Path) -> None:
    rows = [r for r in drill() if r.get("id") == "curl" or r["event"].startswith("fault")]
    rows.append(worker(603, "fallback_engaged", "somewhere", path="fallback"))
    assert judged(rows, tmp_path).status == "pass"
    assert judged(rows[:-1], tmp_path).status == "fail"


def test_a_worker_that_marks_its_boundary_with_502_is_counted_among_its_own_requests(tmp_path: Path) -> None:
    rows = without(drill(), "user_request", id="curl")
    rows += [{"t": at(700 + i), "event": "user_request", "status": 502} for i in range(3)]
    verdict = judged(rows, tmp_path)
    assert verdict.status == "fail", told(verdict)
    assert "3 of 183" in told(verdict)


# What an adversary found: each of these once passed, or failed where it should not have.

USERS = [r for r in drill() if r.get("id") == "curl"]
FAULT = [{"t": at(600), "event": "fault_injected"}, {"t": at(1500), "event": "fault_lifted"}]
MARK = worker(601, "fallback_engaged", "somewhere")


def swap(status: int, from_s: float, to_s: float) -> Rows:
    return [{**r, "status": status} if at(from_s) <= r["t"].replace("Z", ".000+00:00") < at(to_s) else r for r in USERS]


FOUND: dict[str, tuple[str, Rows]] = {
    "an agent that is dead after the lift": ("fail", [*swap(503, 1500, 1900), *FAULT, MARK]),
    "a fallback that goes on after the lift": (
        "fail",
        [*USERS, *FAULT, MARK, *(worker(1502 + 5 * i, "fallback_engaged", "x") for i in range(59))],
    ),
    "users that hung until just after the lift": (
        "fail",
        [*USERS, *FAULT, MARK, *({**user(1502, 504), "id": f"h{i}"} for i in range(90))],
    ),
    "a second lift for one injection": ("refused", [*USERS, *FAULT, MARK, {"t": at(700), "event": "fault_lifted"}]),
    "a second injection while the first is on": (
        "refused",
        [*USERS, *FAULT, MARK, {"t": at(640), "event": "fault_injected", "window": "w1"}],
    ),
    "a mark whose request ended in the baseline": (
        "fail",
        [
            *USERS,
            *FAULT,
            worker(10, "user_request", "old", phase="start"),
            worker(11, "user_request", "old", phase="end", status=200),
            worker(700, "fallback_engaged", "old"),
        ],
    ),
    "400 s of silence after the injection": (
        "fail",
        [*(r for r in USERS if not at(601) < r["t"] < at(1000)), *FAULT, MARK],
    ),
    "one user who waits 800 s": (
        "fail",
        [*(r for r in USERS if not at(601) < r["t"] < at(1400)), {**user(1401), "ms": 800_000}, *FAULT, MARK],
    ),
    "an aborted drill": (
        "refused",
        [*USERS, *FAULT, MARK, {"t": at(1799), "event": "drill_ended", "status": "aborted"}],
    ),
    "a duration past all sense": ("refused", [*USERS, *FAULT, MARK, {**user(700), "ms": 1e303}]),
    "an id that is a list": (
        "refused",
        [*USERS, *FAULT, MARK, {**worker(700, "user_request", "x", phase="start"), "id": ["a"]}],
    ),
    "a worker that uses one id for all": (
        "pass",
        [{**r, "id": "one"} if r.get("id", "").startswith("r") else r for r in drill()],
    ),
}


@pytest.mark.parametrize("name", FOUND)
def test_what_once_got_a_verdict_it_did_not_deserve(name: str, tmp_path: Path) -> None:
    want, rows = FOUND[name]
    verdict = judged(rows, tmp_path)
    assert verdict.status == want, told(verdict)


def test_the_base_of_these_cases_is_sound(tmp_path: Path) -> None:
    assert judged([*USERS, *FAULT, MARK], tmp_path).status == "pass"


def test_a_file_from_the_future_is_refused(tmp_path: Path) -> None:
    (tmp_path / "d.jsonl").write_bytes(raw(drill()))
    early = parse_rfc3339("2026-11-28T23:00:00Z") or 0
    verdict = judge_bare(open_bare(tmp_path / "d.jsonl"), _flag_limits(0.01, 60), None, now_ns=early)
    assert verdict.status == "refused"


def test_a_key_in_a_workers_words_reaches_no_verdict(tmp_path: Path) -> None:
    key = "sk-proj-" + "a1B2" * 10
    rows = [*drill(), worker(700, "unhandled_exception", "r140", kind=f"AuthError {key}")]
    rows += [{"t": at(701), "event": "user_request", "id": "c", "status": key}]
    assert key not in repr(judged(rows, tmp_path))


def test_a_worker_that_says_otherwise_than_its_users_is_a_finding(tmp_path: Path) -> None:
    rows = [{**r, "status": 503} if r.get("phase") == "end" and at(600) <= r["t"] < at(1500) else r for r in drill()]
    verdict = judged(rows, tmp_path)
    assert "worker-against-users" in {f.id for f in verdict.findings}


def test_exactly_the_budget_holds_however_it_is_written(tmp_path: Path) -> None:
    from drillmaster.cli._quantities import Share

    for text, ratio in (("0.7 %", 0.007), ("1.4%", 0.014), ("0.01", 0.01), ("2.9 %", 0.029)):
        assert Share().convert(text, None, None) == ratio
