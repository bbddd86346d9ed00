"""Run folders and a ledger become a job's time on a free tier, and the command says stay, leave or that nobody can say."""

import json
import os
import shutil
from pathlib import Path
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner

from drillmaster.cli.gate.free_tier import command
from drillmaster.clock import ManualClock, parse_rfc3339, rfc3339
from drillmaster.errors import Problem
from drillmaster.evidence.samples import OUTCOMES, RECORD, header
from drillmaster.gates._cases.free_tier import LIMITS
from drillmaster.intake.ledger import add, open_new
from drillmaster.load.stays import open_stay
from drillmaster.timeline import seal_run
from drillmaster.verdict import Exact
from tests.interviewed import manifest

NOW = "2026-11-30T16:00:00Z"
NOW_NS = parse_rfc3339(NOW) or 0
DAY_NS = 86_400 * 10**9
MS = 1_000_000
POLICY = {
    "kind": "policy",
    "version": 1,
    "source": "free-tier-exit",
    "owner": "Ada of the platform team",
    "review_by": "2027-02-28",
    "gates": [msgspec.to_builtins(LIMITS)],
}


def interview(
    runs: Path,
    days_ago: int,
    *,
    ms: float = 5000,
    failed: int = 0,
    drain_ms: float = 3_000_000,
    idle_s: float = 1800.0,
    status: str = "completed",
    sealed: bool = True,
    name: str = "",
    **more: Any,
) -> Path:
    """One run folder: 200 calls of eight callers, and a drain. `more`: fields of its manifest."""
    ended_ns = NOW_NS - days_ago * DAY_NS - 3600 * 10**9
    run = name or f"{rfc3339(ended_ns, digits=0).replace('-', '').replace(':', '')}-{days_ago:04x}"
    path = runs / run
    (path / "events").mkdir(parents=True)
    steps = (
        {"label": "cold", "kind": "cold", "callers": 1, "calls": 1},
        {"label": "warm_c8", "kind": "closed", "callers": 8, "calls": 200},
        {"label": "drain", "kind": "drain", "callers": 8, "calls": 50},
    )
    told = {
        "run": run,
        "job": LIMITS.job,
        "url": LIMITS.url,
        "started_at": rfc3339(ended_ns, digits=9),
        "steps": steps,
        "time_limit_s": 7200,
        "idle_s": idle_s,
    } | more
    (path / "manifest.json").write_bytes(msgspec.json.encode(manifest(**told)))
    events: list[dict[str, Any]] = [{"event": "idle_ended", "idle_s": idle_s, "proven": True, "why": ""}]
    events += [
        {"event": "stage_ended", "stage": step["label"], "wall_s": 3, "cpu_s": 0.01, "longest_turn_ms": 0.2}
        for step in steps
    ]
    events += [{"event": "load_ended", "status": status, "why": ""}]
    t = rfc3339(ended_ns)
    lines = [msgspec.json.encode({"t": t, "ns": 1, **event}) for event in events]
    (path / "events" / "load.jsonl").write_bytes(b"".join(line + b"\n" for line in lines))
    (path / "samples.cold.bin").write_bytes(header(stages=["cold"]) + record(0, 0, 9000))
    eight = b"".join(record(0, at // 8 * ms, ms, outcome="ok" if at >= failed else "http_5xx") for at in range(200))
    batch_ms = 10_000_000
    drain = b"".join(record(1, batch_ms, drain_ms * (at + 1) / 50) for at in range(50))
    (path / "samples.bin").write_bytes(header(stages=["warm_c8", "drain"]) + eight + drain)
    if sealed:
        seal_run(path, ManualClock())
    return path


def record(step: int, due_ms: float, took_ms: float, *, outcome: str = "ok") -> bytes:
    due, end = round(due_ms * MS), round((due_ms + took_ms) * MS)
    status = 200 if outcome == "ok" else 503
    return RECORD.pack(due, due, end, 0, end, 0, 0, 9, 9, 0, 4, 0, step, status, OUTCOMES.index(outcome), 0)


def booked(folder: Path) -> Path:
    path = folder / "ledger.jsonl"
    open_new(path, job=LIMITS.job, by="ada", now_ns=NOW_NS - DAY_NS)
    return path


def good(folder: Path) -> Path:
    for days in (3, 2, 1, 0):
        interview(folder / "runs", days)
    booked(folder)
    return folder / "runs"


def judged(folder: Path, *more: str, policy: dict[str, Any] = POLICY) -> tuple[int, str]:
    (folder / "policy.json").write_text(json.dumps(policy))
    words = [str(folder / "runs"), "--ledger", str(folder / "ledger.jsonl"), "--policy", str(folder / "policy.json")]
    words += ["--now", NOW, "--attempts", str(folder / "attempts.jsonl"), *more]
    result = CliRunner().invoke(command, words)
    if isinstance(result.exception, Problem):
        return int(result.exception.exit), str(result.exception)
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result.exit_code, result.output


def test_nights_in_order_stay_and_the_four_numbers_are_told(tmp_path: Path) -> None:
    stay, _, _ = open_stay(good(tmp_path), tmp_path / "ledger.jsonl", LIMITS, now_ns=NOW_NS)
    assert [one.unusable for one in stay.runs] == [""] * 4
    newest = stay.runs[-1]
    assert (newest.calls, newest.idle_s, newest.cold_s) == (200, 1800.0, Exact(9.0, n=1, low=9.0))
    assert isinstance(newest.p95_s, Exact)
    assert newest.p95_s.value == 5.0
    assert newest.drain_s == Exact(3000.0, n=50)
    code, out = judged(tmp_path)
    assert code == 0, out
    assert "stay: no criterion for leaving is met" in out
    assert "cold start 9 s beside a warm p50 of 5 s" in out


def test_two_slow_nights_leave_with_the_articles_number(tmp_path: Path) -> None:
    for days, ms in ((3, 5000), (2, 5000), (1, 19_000), (0, 19_000)):
        interview(tmp_path / "runs", days, ms=ms)
    booked(tmp_path)
    for more in ((), ("--exit-map", "articles")):
        code, out = judged(tmp_path, *more)
        assert (code, "leave:\n- p95: " in out) == (1, True), out


def test_errors_and_a_late_drain_leave(tmp_path: Path) -> None:
    good(tmp_path)
    shutil.rmtree(sorted((tmp_path / "runs").iterdir())[-1])
    interview(tmp_path / "runs", 0, failed=5, drain_ms=4_400_000)
    code, out = judged(tmp_path)
    assert code == 1, out
    assert "- error-rate: " in out
    assert "- drain: " in out


def test_incidents_and_hours_of_the_ledger_leave(tmp_path: Path) -> None:
    good(tmp_path)
    for _ in range(2):
        fields = {"kind": "incident", "cause": "capacity", "at": "2026-11-30T10:00:00Z", "by": "ada", "note": ""}
        add(tmp_path / "ledger.jsonl", fields, now_ns=NOW_NS)
    fields = {"kind": "hours", "hours": 5.0, "at": "2026-11-30T10:00:00Z", "by": "ada", "note": ""}
    add(tmp_path / "ledger.jsonl", fields, now_ns=NOW_NS)
    code, out = judged(tmp_path)
    assert code == 1, out
    assert "- capacity-incidents: " in out
    assert "- hours: " in out


def changed(path: Path) -> None:
    data = bytearray((path / "samples.bin").read_bytes())
    data[-100] ^= 1
    (path / "samples.bin").write_bytes(data)


def bare(path: Path) -> None:
    (path / "seal.json").unlink()


def torn(path: Path) -> None:
    (path / "manifest.json").write_bytes(b'{"run": ')


def no_manifest(path: Path) -> None:
    (path / "manifest.json").unlink()


@pytest.mark.parametrize("what", [changed, bare, torn, no_manifest])
def test_a_night_that_is_not_as_it_was_sealed_is_never_left_out(tmp_path: Path, what: Any) -> None:
    runs = good(tmp_path)
    what(sorted(runs.iterdir())[1])
    code, out = judged(tmp_path)
    assert code == 2, out
    assert "REFUSED every interview of the span" in out
    assert "stay:" not in out


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"status": "aborted"}, "did not come to its end (aborted)"),
        ({"stamps": ("COMPRESSED 30x",)}, "COMPRESSED 30x"),
        ({"sealed": False}, "REFUSED every interview"),
    ],
)
def test_a_night_that_was_cut_short_is_told(tmp_path: Path, more: dict[str, Any], said: str) -> None:
    good(tmp_path)
    interview(tmp_path / "runs", 4, **more)
    none_lost = POLICY | {"gates": [msgspec.to_builtins(LIMITS) | {"max_lost_runs": 0}]}
    code, out = judged(tmp_path, policy=none_lost)
    assert (code, said in out) == (2, True), out


def test_one_night_that_was_stopped_is_told_and_does_no_harm(tmp_path: Path) -> None:
    good(tmp_path)
    interview(tmp_path / "runs", 4, status="aborted")
    code, out = judged(tmp_path)
    assert (code, "4 of 5 did, 1 did not" in out) == (0, True), out
    interview(tmp_path / "runs", 5, ms=19_000)  # beside it a slow one
    assert judged(tmp_path)[0] == 2


def test_one_night_under_two_names_is_one(tmp_path: Path) -> None:
    runs = good(tmp_path)
    newest = sorted(runs.iterdir())[-1]
    shutil.copytree(newest, runs / "20261130T155959Z-ffff")
    code, out = judged(tmp_path)
    assert (code, "REFUSED no interview stands twice" in out) == (2, True), out


def test_other_jobs_endpoints_drills_and_files_in_the_folder_do_no_harm(tmp_path: Path) -> None:
    runs = good(tmp_path)
    interview(runs, 0, name="20261130T150100Z-0001", job="another job", status="aborted")
    interview(runs, 0, name="20261130T150200Z-0002", url="http://127.0.0.1:9/v1", failed=200)
    interview(runs, 40, name="20261001T150200Z-0003", sealed=False)  # before the span
    (runs / "history.sqlite").write_bytes(b"x")
    (runs / "notes").mkdir()
    (runs / ".cache").mkdir()
    eviction = runs / "20261130T150300Z-0004"
    eviction.mkdir()
    (eviction / "manifest.json").write_text('{"drill": "eviction"}')
    assert judged(tmp_path)[0] == 0


def test_another_payload_is_no_series(tmp_path: Path) -> None:
    good(tmp_path)
    interview(tmp_path / "runs", 4, payload_sha256="sha256:0000")
    code, out = judged(tmp_path)
    assert (code, "different payloads" in out) == (2, True), out


def test_no_ledger_is_refused_with_the_command_that_opens_one(tmp_path: Path) -> None:
    good(tmp_path)
    (tmp_path / "ledger.jsonl").unlink()
    code, out = judged(tmp_path)
    assert (code, "drillmaster ledger open --job" in out) == (2, True), out


def test_no_runs_are_refused(tmp_path: Path) -> None:
    booked(tmp_path)
    assert judged(tmp_path)[0] == 2
    (tmp_path / "runs").mkdir()
    code, out = judged(tmp_path)
    assert (code, "REFUSED at least 3 interviews" in out) == (2, True), out
    (tmp_path / "runs").rmdir()
    (tmp_path / "runs").write_text("x")
    assert judged(tmp_path)[0] == 2


def test_a_policy_that_nobody_reviewed_is_refused(tmp_path: Path) -> None:
    good(tmp_path)
    assert judged(tmp_path, policy=POLICY | {"review_by": "2026-11-29"})[0] == 2


def fifo(path: Path) -> None:
    (path / "manifest.json").unlink()
    os.mkfifo(path / "manifest.json")


def loop(path: Path) -> None:
    (path / "manifest.json").unlink()
    (path / "manifest.json").symlink_to("manifest.json")


def a_list(path: Path) -> None:
    (path / "manifest.json").write_text("[]")


def no_drill(path: Path) -> None:
    (path / "manifest.json").write_text('{"job": "nightly lint"}')


@pytest.mark.parametrize("what", [fifo, loop, a_list, no_drill])
def test_a_manifest_that_is_none_refuses_and_is_waited_for_by_nobody(tmp_path: Path, what: Any) -> None:
    runs = good(tmp_path)
    what(sorted(runs.iterdir())[1])
    code, out = judged(tmp_path)
    assert (code, "REFUSED every interview of the span" in out) == (2, True), out


def test_a_folder_whose_name_is_no_text_is_named_all_the_same(tmp_path: Path) -> None:
    runs = good(tmp_path)
    strange = os.fsdecode(os.fsencode(runs) + b"/2026\xff\n\x1b[31m")
    os.mkdir(strange)
    Path(strange, "manifest.json").write_text("{")
    code, out = judged(tmp_path)
    assert code == 2, out
    assert "\x1b" not in out
    assert "2026\\udcff" in out


def test_links_that_lead_in_a_circle_are_no_runs(tmp_path: Path) -> None:
    runs = good(tmp_path)
    (runs / "loop").symlink_to("loop")
    (runs / "gone").symlink_to("nowhere")
    assert judged(tmp_path)[0] == 0


def test_a_run_that_a_link_shows_again_stands_twice(tmp_path: Path) -> None:
    runs = good(tmp_path)
    (runs / "again").symlink_to(sorted(runs.iterdir())[0].name)
    assert judged(tmp_path)[0] == 2


@pytest.mark.parametrize("what", ["fifo", "folder", "empty", "broken"])
def test_a_ledger_that_is_none_refuses(tmp_path: Path, what: str) -> None:
    good(tmp_path)
    path = tmp_path / "ledger.jsonl"
    data = path.read_bytes()
    path.unlink()
    {
        "fifo": lambda: os.mkfifo(path),
        "folder": path.mkdir,
        "empty": path.touch,
        "broken": lambda: path.write_bytes(data.replace(b"ada", b"eve") + data),
    }[what]()
    code, out = judged(tmp_path)
    assert (code, "REFUSED there is a ledger" in out) == (2, True), out


@pytest.mark.parametrize(
    "said",
    [{"job": "other"}, {"url": "http://127.0.0.1:1"}, {"started_at": "2019-01-01T00:00:00Z"}, {"drill": "eviction"}],
)
def test_a_bad_night_that_was_given_another_name_is_told(tmp_path: Path, said: dict[str, Any]) -> None:
    bad = interview(good(tmp_path), 0, ms=19_000, name="bad")
    manifest_path = bad / "manifest.json"
    manifest_path.write_text(json.dumps(json.loads(manifest_path.read_text()) | said))
    code, out = judged(tmp_path)
    assert (code, "bad: its manifest is another one than was sealed" in out) == (2, True)


def test_nights_of_other_jobs_sealed_or_running_are_nobodys_business(tmp_path: Path) -> None:
    runs = good(tmp_path)
    interview(runs, 0, ms=19_000, name="sealed", job="other")
    interview(runs, 0, ms=19_000, name="running", job="other", sealed=False)
    interview(runs, 300, name="old")
    assert judged(tmp_path)[0] == 0
