"""Interviews that are refused, stopped, killed or run out of disk; and what is kept of keys."""

import json
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from drillmaster.clock import SystemClock
from drillmaster.errors import Refused
from drillmaster.load.reading import open_interview
from drillmaster.timeline import seal_run
from tests.e2e.interviewlab import Lab, answer, interviewing, server

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(60)]

KEY = "sk-" + "test-" + "0123456789abcdefghijklmnopqrstuv"


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[Lab]:
    yield from interviewing(tmp_path)


@pytest.mark.parametrize(
    ("status", "option"),
    [
        ("401 Unauthorized", "--header"),
        ("501 Not Implemented", "--query"),
        ("304 Not Modified", "If-None-Match"),
        ("407 Proxy Authentication Required", "the endpoint's own URL"),
    ],
)
def test_an_answer_that_no_other_call_would_better_refuses_the_ladder(lab: Lab, status: str, option: str) -> None:
    with server(lambda _: (0.0, answer(b"{}", status.encode()))) as (url, truth):
        done = lab.run(url, "--idle", "0")
    assert done.returncode == 2
    assert f"status {status[:3]}" in done.stderr
    assert option in done.stderr
    assert truth.n == 1
    assert lab.read().ended == "refused"
    assert [level.label for level in lab.read().interview.levels] == ["cold"]


def test_a_body_that_is_not_as_its_head_says_is_told_apart_from_what_is_no_http(lab: Lab) -> None:
    packed = b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 2\r\n\r\n{}"
    with server(lambda _: (0.0, packed)) as (url, _):
        done = lab.run(url, "--idle", "0")
    assert done.returncode == 2
    assert "status 200, and a body that is not framed or packed as its head says" in done.stderr
    assert "speaks HTTP/1.1" not in done.stderr


def test_an_interrupt_keeps_what_was_measured_and_names_it_partial(lab: Lab) -> None:
    with server(lambda _: (0.05, answer())) as (url, _):
        process = lab.start(url, "--levels", "1,2", "--warm", "40", "--idle", "0")
        lab.wait_for("stage_started", stage="warm_c2")
        time.sleep(0.4)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=20)
    assert process.returncode == 3, err
    assert "PARTIAL warm_c2" in out
    assert "partial: stopped by SIGINT" in out
    assert list(lab.rows()) == ["cold", "warm_c1"]
    read = lab.read()
    assert read.ended == "aborted"
    level = read.interview.level("warm_c2")
    assert level is not None
    assert set(level.failed) <= {"stopped"}
    assert level.failures == len(level.cut_s) <= 2
    assert "stopped before its end" in level.void[0]
    assert read.interview.declared == ("cold", "warm_c1", "warm_c2")


def test_a_sigterm_in_the_idle_time_is_a_stop(lab: Lab) -> None:
    with server(lambda _: (0.0, answer())) as (url, truth):
        process = lab.start(url, "--idle", "30")
        lab.wait_for("idle_started")
        process.send_signal(signal.SIGTERM)
        _, err = process.communicate(timeout=20)
    assert (process.returncode, truth.n) == (3, 0), err
    assert lab.read().interview.levels == ()
    assert not (lab.folder / "interview.json").exists()


def test_a_kill_leaves_records_that_can_be_sealed_and_read_and_no_engine(lab: Lab) -> None:
    with server(lambda _: (0.02, answer())) as (url, truth):
        process = lab.start(url, "--levels", "4", "--warm", "2000", "--idle", "0")
        lab.wait_for("stage_started", stage="warm_c4")
        engine = next(row["pid"] for row in reversed(lab.events()) if row["event"] == "engine_started")
        time.sleep(1.0)
        process.kill()
        process.wait(5)
        until_s = time.monotonic() + 3
        while Path(f"/proc/{engine}").exists() and time.monotonic() < until_s:
            time.sleep(0.05)
        assert not Path(f"/proc/{engine}").exists()
        seen = truth.n
        time.sleep(0.3)
        assert truth.n == seen
    with pytest.raises(Refused):
        open_interview(lab.run_dir)
    seal_run(lab.run_dir, SystemClock())
    read = lab.read()
    assert read.ended == ""
    level = read.interview.level("warm_c4")
    assert level is not None
    assert level.n > 50
    assert "stopped before its end" in level.void[0]


def test_a_disk_that_takes_no_more_ends_the_run_and_what_there_is_is_sealed(lab: Lab) -> None:
    def small() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))

    with server(lambda _: (0.0, answer())) as (url, _):
        done = lab.run(url, "--levels", "2", "--warm", "5000", "--idle", "0", preexec_fn=small)
    assert done.returncode == 3, done.stderr
    assert "partial" in done.stdout
    assert "Traceback" not in done.stderr
    read = lab.read()
    level = read.interview.level("warm_c2")
    assert level is not None
    assert 400 < level.n < 5000
    assert level.void


def test_a_cap_on_tokens_ends_the_run(lab: Lab) -> None:
    body = b'{"text":"hello","usage":{"prompt_tokens":3,"completion_tokens":10,"total_tokens":13}}'
    with server(lambda _: (0.02, answer(body))) as (url, truth):
        plan = {
            "kind": "plan", "drill": "interview", "job": "a job", "target": {"url": url}, "levels": [1, 2], "warm": 400,
            "idle_s": 0, "spend": {"max_requests": 900, "max_tokens": 300},
        }  # fmt: skip
        (lab.folder / "plan.json").write_text(json.dumps(plan))
        done = lab.run("plan.json")
    assert done.returncode == 3, done.stderr
    assert "tokens were spent, and the plan's cap is 300" in done.stdout
    assert 30 < truth.n < 90
    assert lab.read().ended == "aborted"


def test_one_interview_at_a_time_on_a_target(lab: Lab) -> None:
    with server(lambda _: (0.0, answer())) as (url, _):
        process = lab.start(url, "--idle", "20")
        lab.wait_for("idle_started")
        second = lab.run(url, "--idle", "0")
        assert process.poll() is None
    assert second.returncode == 2
    assert "one drill or interview at a time" in second.stderr


@pytest.mark.parametrize("named", [True, False])
def test_another_terminal_stops_an_interview_and_finds_it_sealed(
    lab: Lab, named: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DRILLMASTER_STATE", str(lab.folder / "state"))  # what goes on elsewhere is none of this one's
    with server(lambda _: (0.05, answer())) as (url, _):
        process = lab.start(url, "--levels", "2", "--warm", "400", "--idle", "0")
        lab.wait_for("stage_started", stage="warm_c2")
        for verb in ("seal", "gate"):
            words = [verb, *(["interview"] if verb == "gate" else []), f"runs/{lab.run_dir.name}"]
            more = ["--policy", "gate.json"] if verb == "gate" else []
            assert other(lab, *words, *more).returncode == 2
        assert process.poll() is None
        stopped = other(lab, "stop", *([lab.run_dir.name] if named else []))
        _, err = process.communicate(timeout=20)
    assert stopped.returncode == 0, stopped.stderr
    assert f"run {lab.run_dir.name} is sealed" in stopped.stdout
    assert process.returncode == 3, err
    assert lab.read().why == "stopped by SIGTERM"
    again = other(lab, "stop")
    assert again.returncode == 2
    assert "no live run" in again.stderr


def other(lab: Lab, *words: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "drillmaster", *words]
    return subprocess.run(command, cwd=lab.folder, capture_output=True, text=True, timeout=30, check=False)


def test_a_key_goes_to_the_endpoint_and_into_no_file(lab: Lab) -> None:
    with server(lambda _: (0.0, answer())) as (url, truth):
        done = lab.run(
            f"{url}?token=abcdef0123456789", "--levels", "1", "--warm", "5", "--idle", "0",
            "--header", "Authorization=MODEL_KEY", "--header", "x-team=TEAM", env={"MODEL_KEY": KEY, "TEAM": "blue-whale"},
        )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert {head.field(b"authorization") for head in truth.heads} == {f"Bearer {KEY}".encode()}
    assert {head.field(b"x-team") for head in truth.heads} == {b"blue-whale"}
    assert b"?token=abcdef0123456789" in truth.heads[0].first
    written = [path.read_bytes() for path in lab.folder.rglob("*") if path.is_file()]
    written += [done.stdout.encode(), done.stderr.encode()]
    for secret in (KEY, "blue-whale", "abcdef0123456789"):
        assert not [data for data in written if secret.encode() in data]
    assert lab.file()["url"] == url


def test_user_and_password_of_a_url_are_sent_and_not_kept(lab: Lab) -> None:
    with server(lambda _: (0.0, answer())) as (url, truth):
        done = lab.run(
            url.replace("http://", "http://ada:s3cret-word@"), "--levels", "1", "--warm", "1", "--idle", "0", "--json"
        )
    assert done.returncode == 0, done.stderr
    assert truth.heads[0].field(b"authorization") == b"Basic YWRhOnMzY3JldC13b3Jk"
    written = [path.read_bytes() for path in lab.folder.rglob("*") if path.is_file()]
    assert not [data for data in written if b"s3cret-word" in data or b"YWRhOnMzY3JldC13b3Jk" in data]
    said = json.loads(done.stdout)
    assert said["exit"] == 0
    assert [row["label"] for row in said["results"]] == ["cold", "warm_c1"]


def test_what_is_there_is_not_written_over(lab: Lab) -> None:
    (lab.folder / "interview.json").write_text("old")
    with server(lambda _: (0.0, answer())) as (url, truth):
        refused = lab.run(url, "--levels", "1", "--idle", "0", "--out", "interview.json")
        assert (refused.returncode, truth.n) == (2, 0)
        done = lab.run(url, "--levels", "1", "--idle", "0")
    assert done.returncode == 0
    assert (lab.folder / "interview.json").read_text() == "old"
    assert (lab.folder / f"interview-{lab.run_dir.name}.json").exists()


@pytest.mark.parametrize(
    "words",
    [
        ("--warm", "0"), ("--levels", "1,x"), ("--levels", "1,0"), ("--levels", "1,-4"), ("--levels", "1,4.0"), ("--levels", "1,1"),
        ("--levels", "64"), ("--timeout", "0"), ("--timeout", "nan"), ("--timeout", "inf"), ("--idle", "-1"), ("--idle", "nan"),
        ("--out", "missing/rows.json"), ("--dialect", "openai_chat"), ("--header", "Authorization=NOT_SET_ANYWHERE"),
        ("--payloads", "missing.jsonl"), ("--open", "0:5"), ("--open", "5"), ("--drain", "0"),
        ("--header", "Accept-Encoding=BROTLI"),
    ],
)  # fmt: skip
def test_what_cannot_work_is_refused_before_anything_is_sent(lab: Lab, words: tuple[str, ...]) -> None:
    with server(lambda _: (0.0, answer())) as (url, truth):
        done = lab.run(url, "--idle", "0", *words, env={"BROTLI": "gzip, br"})
    assert done.returncode == 2, done.stdout
    assert truth.n == 0
    assert "interview: /" not in done.stderr  # a pointer into a plan that nobody wrote
    assert "wanted" in done.stderr
    assert not (lab.folder / "runs").exists()
