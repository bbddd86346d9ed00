"""Interviews by Locust's master and workers, each of which drives our engine: real processes, and in namespaces real hosts."""

import contextlib
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from drillmaster.evidence.samples import read_gaps, read_samples
from tests.e2e.interviewlab import answer, server
from tests.e2e.locustlab import Many, needs_locust, plan_for, together
from tests.e2e.test_engine_websocket import server as websocket_server
from tests.e2e.test_interview import provider
from tests.e2e.test_interview_processes import LOOPBACK_S, NUMBERED, most_at_once, of_step
from tests.e2e.test_interview_websocket import echo
from tests.e2e.truthlab import at, truth_server

__all__ = ["provider"]

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(120), needs_locust]


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[Many]:
    yield from together(tmp_path)


def test_three_workers_do_what_one_engine_would_and_the_server_saw_just_that(lab: Many, tmp_path: Path) -> None:
    with truth_server(tmp_path) as seen:
        lab.lead(
            seen.url, *NUMBERED, "--levels", "1,8", "--warm", "120", "--idle", "0", "--open", "60:1.5", "--drain", "64",
            "--header", "Authorization=WORKER_KEY", workers=3,
        )  # fmt: skip
        workers = [lab.follow(WORKER_KEY=f"k{number}") for number in (1, 2, 3)]
        assert lab.ends() == 0, lab.text
        assert [worker.wait(20) for worker in workers] == [0, 0, 0]
    calls = {"cold": 1, "warmup_c1": 1, "warm_c1": 120, "warmup_c8": 8, "warm_c8": 120, "open_r60": 90, "drain": 64}
    assert Counter(row[0] for row in seen.rows) == Counter(range(sum(calls.values())))  # each number once, none lost
    assert {row[4] for row in seen.rows} == {"Bearer k1", "Bearer k2", "Bearer k3"}  # each worker's own key
    read = lab.read()
    assert read.ended == "completed"
    for level in read.interview.levels:
        truth = of_step(lab, seen, level.label)
        assert level.n == len(truth) == calls[level.label]
        assert level.ok_s is not None and len(level.ok_s) == level.n
        if level.kind == "closed":
            served_s = [(row[2] - row[1]) / 1e9 for row in truth]
            for q in (0.5, 0.9):
                assert 0 < at(list(level.ok_s), q) - at(served_s, q) < LOOPBACK_S
    assert most_at_once(of_step(lab, seen, "warm_c8")) == 8
    assert list(lab.rows()) == ["cold", "warm_c1", "warm_c8"]
    manifest = read.manifest
    assert (manifest.engines["kind"], manifest.engines["size"]) == ("locust", 3)
    # On one machine the clocks are one: what the round trips say of them is true within the bound that they give.
    clocks = [row for row in lab.events() if row["event"] == "worker_clock"]
    assert len(clocks) >= 3 * 6
    assert all(abs(row["offset_ns"]) <= row["bound_ns"] for row in clocks)
    assert all(row["one_clock"] for row in manifest.engines["members"])
    begun = [row for row in lab.events() if row["event"] == "stage_started" and "skew_ms" in row]
    assert len(begun) == 6
    whole = (lab.run_dir / "manifest.json").read_text() + (lab.run_dir / "events" / "load.jsonl").read_text() + lab.text
    assert not re.search(r"\bk[123]\b", whole)


def test_a_worker_that_is_killed_makes_the_run_partial_and_is_named(lab: Many, tmp_path: Path) -> None:
    with truth_server(tmp_path) as seen:
        lab.lead(seen.url, "--levels", "3,6", "--warm", "600", "--idle", "0", workers=3)
        workers = [lab.follow() for _ in range(3)]
        lab.wait_to_hear("phase warm_c6")
        time.sleep(0.5)
        workers[1].kill()
        assert lab.ends() == 3, lab.text
        read = lab.read()
        [lost] = [row for row in lab.events() if row["event"] == "worker_lost"]
        name = next(row for row in read.manifest.engines["members"] if row["pid"] == workers[1].pid)
        assert read.manifest.engines["members"].index(name) == lost["engine"] - 1
        assert lost["why"] == "its heartbeats stopped"
        assert f"worker {lost['engine']} of 3" in read.why
        assert "was lost in warm_c6, after" in read.why
        levels = {level.label: level for level in read.interview.levels}
        assert (levels["warm_c3"].n, levels["warm_c3"].void) == (600, ())  # what was over before it is whole
        assert levels["warm_c6"].void and levels["warm_c6"].n < 600
        [stage] = [row for row in lab.events() if row["event"] == "stage_started" and row["stage"] == "warm_c6"]
        assert stage
        for worker in (workers[0], workers[2]):
            assert worker.wait(20) == 0
        time.sleep(0.3)
        count = len(list(_engines()))
    assert count == 0  # its engine did not outlive it


def _engines() -> Iterator[int]:
    """Engines that this test left: their parent is gone."""
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            if (
                b"drillmaster.engines" in path.read_bytes()
                and f"PPid:\t{os.getpid()}" not in (path.parent / "status").read_text()
            ):
                parent = re.search(r"PPid:\t([0-9]+)", (path.parent / "status").read_text())
                if parent is not None and parent[1] == "1":
                    yield int(path.parent.name)


def test_an_interrupt_of_the_master_stops_all_workers_and_keeps_their_records(lab: Many, tmp_path: Path) -> None:
    with truth_server(tmp_path) as seen:
        lab.lead(seen.url, "--levels", "6", "--warm", "6000", "--idle", "0", workers=2)
        workers = [lab.follow(), lab.follow()]
        lab.wait_to_hear("phase warm_c6")
        time.sleep(0.8)
        lab.master.send_signal(signal.SIGINT)
        assert lab.ends() == 3, lab.text
        assert [worker.wait(20) for worker in workers] == [0, 0]
    read = lab.read()
    assert read.why == "stopped by SIGINT"
    [level] = (level for level in read.interview.levels if level.label == "warm_c6")
    stopped = level.failed.get("stopped", 0)
    assert level.n - stopped <= len(seen.rows) - 7 <= level.n
    assert level.n > 50
    for engine in (1, 2):
        read_samples((lab.run_dir / f"samples.{engine}.bin").read_bytes())


def test_an_interrupt_of_a_worker_is_told_and_ends_the_run(lab: Many, tmp_path: Path) -> None:
    with truth_server(tmp_path) as seen:
        lab.lead(seen.url, "--levels", "6", "--warm", "6000", "--idle", "0", workers=2)
        workers = [lab.follow(), lab.follow()]
        lab.wait_to_hear("phase warm_c6")
        time.sleep(0.5)
        workers[0].send_signal(signal.SIGINT)
        assert lab.ends() == 3, lab.text
        assert workers[0].wait(20) == 3
    assert "it was stopped by SIGINT" in lab.read().why


def test_a_worker_that_comes_late_has_no_share_and_is_sent_away(lab: Many, tmp_path: Path) -> None:
    with truth_server(tmp_path) as seen:
        lab.lead(seen.url, "--levels", "4", "--warm", "800", "--idle", "0", workers=2)
        workers = [lab.follow(), lab.follow()]
        lab.wait_to_hear("phase warm_c4")
        late = lab.follow()
        assert late.wait(30) == 2
        assert late.stderr is not None and "has no share left" in late.stderr.read()
        assert lab.ends() == 0, lab.text
        assert [worker.wait(20) for worker in workers] == [0, 0]
    assert [level.n for level in lab.read().interview.levels] == [1, 800]
    assert len(seen.rows) == 1 + 4 + 800
    [row] = [row for row in lab.events() if row["event"] == "worker_late"]
    assert "was sent away" in lab.text
    assert row["worker"]


def test_workers_end_when_their_master_is_killed(lab: Many, tmp_path: Path) -> None:
    with truth_server(tmp_path) as seen:
        lab.lead(seen.url, "--levels", "4", "--warm", "60000", "--idle", "0", workers=2)
        workers = [lab.follow(), lab.follow()]
        lab.wait_to_hear("phase warm_c4")
        lab.master.kill()
        for worker in workers:
            assert worker.wait(30) == 3
            assert worker.stderr is not None and "whoever led the run is gone" in worker.stderr.read()
        time.sleep(0.3)
        before = list(_engines())
    assert before == []


@pytest.mark.parametrize(
    ("flags", "env", "word"),
    [
        ([], {}, "WORKER_KEY}, which is not set"),
    ],
)
def test_what_a_worker_cannot_do_is_refused_before_anything_is_sent(
    lab: Many, tmp_path: Path, flags: list[str], env: dict[str, str], word: str
) -> None:
    with truth_server(tmp_path) as seen:
        lab.lead(
            seen.url, "--levels", "1", "--warm", "1", "--idle", "0", "--header", "Authorization=WORKER_KEY", workers=2
        )
        first, second = lab.follow(WORKER_KEY="x"), lab.follow(*flags, **env)
        assert lab.ends() == 2, lab.text
        assert word in lab.text
        assert second.wait(20) == 2
        first.wait(20)
    assert seen.rows == []
    assert not (lab.folder / "runs").exists()


def test_another_code_on_a_worker_is_refused(lab: Many, tmp_path: Path) -> None:
    import drillmaster

    other = tmp_path / "other"
    shutil.copytree(
        Path(drillmaster.__file__).parent, other / "drillmaster", ignore=shutil.ignore_patterns("__pycache__")
    )
    clock = other / "drillmaster" / "clock.py"
    clock.write_text(clock.read_text() + "\n# changed\n")
    with truth_server(tmp_path) as seen:
        lab.lead(seen.url, "--levels", "1", "--warm", "1", "--idle", "0", workers=1)
        worker = lab.follow(PYTHONPATH=str(other))
        assert lab.ends() == 2, lab.text
        assert "version of code" in lab.text
        assert worker.wait(20) == 2
    assert seen.rows == []


def test_workers_that_are_there_long_before_their_master_meet_it(lab: Many, tmp_path: Path) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        lab.address = f"127.0.0.1:{free.getsockname()[1]}"
    worker = lab.follow()
    assert worker.stderr is not None
    assert "looking for the master" in worker.stderr.readline()
    time.sleep(6)  # Locust tries anew every five seconds
    assert worker.poll() is None
    with truth_server(tmp_path) as seen:
        lab.lead(seen.url, "--levels", "1", "--warm", "3", "--idle", "0", workers=1, bind=lab.address)
        assert lab.ends() == 0, lab.text
        assert worker.wait(20) == 0
    assert len(seen.rows) == 5


def test_an_interrupt_ends_a_worker_that_waits_for_its_master(lab: Many) -> None:
    lab.address = "127.0.0.1:9"
    worker = lab.follow()
    assert worker.stderr is not None
    assert worker.stderr.readline() == "looking for the master at 127.0.0.1:9, for 300 s\n"
    time.sleep(0.5)
    worker.send_signal(signal.SIGINT)
    assert worker.wait(20) == 3
    assert "an interrupt" in worker.stderr.read()


def test_no_master_is_said(lab: Many) -> None:
    lab.address = "127.0.0.1:9"
    worker = lab.follow("--within", "2")
    assert worker.wait(20) == 2
    assert worker.stderr is not None and "no master that answered within 2 s" in worker.stderr.read()


def test_a_missing_locust_is_refused_with_the_line_that_brings_it(lab: Many, tmp_path: Path) -> None:
    blocked = tmp_path / "none"
    blocked.mkdir()
    (blocked / "sitecustomize.py").write_text(
        "import importlib.util as u\nf = u.find_spec\nu.find_spec = lambda n, *a: None if n == 'locust' else f(n, *a)\n"
    )
    for words in (
        ["interview", "http://127.0.0.1:9/", "--engine", "locust", "--workers", "1"],
        ["locust-worker", "--master", "127.0.0.1:9"],
    ):
        done = subprocess.run(
            [sys.executable, "-m", "drillmaster", *words],
            env={**os.environ, "PYTHONPATH": f"{blocked}:{os.environ.get('PYTHONPATH', '')}"},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 2
        assert "pip install 'drillmaster[locust]'" in done.stderr


def test_while_a_level_lasts_its_p95_and_errors_so_far_are_shown(lab: Many) -> None:
    with server(lambda number: (0.05, answer(status=b"503 Busy" if number % 4 == 3 else b"200 OK"))) as (url, _):
        lab.lead(url, "--levels", "4", "--warm", "160", "--idle", "0", workers=2, terminal=True)
        workers = [lab.follow(), lab.follow()]
        assert lab.ends() == 0, lab.text
        assert [worker.wait(20) for worker in workers] == [0, 0]
    lab.wait_to_hear("sealed")
    bars = re.findall(r"warm_c4 \[.*?p95 ([\d.]+) ms .*?errors (\d+)\S* of (\d+)", lab.text)
    assert len(bars) > 3
    p95_ms, errors, calls = (float(text) for text in bars[-1])
    assert 45 < p95_ms < 500
    assert 5 < errors < 41 and errors < calls <= 160


# Separate hosts


def test_a_cap_on_tokens_holds_within_a_step(lab: Many) -> None:
    body = b'{"text":"hello","usage":{"prompt_tokens":1,"completion_tokens":100,"total_tokens":101}}'
    with server(lambda _: (0.01, answer(body))) as (url, truth):
        plan = {
            "kind": "plan",
            "drill": "interview",
            "job": "x",
            "target": {"url": url},
            "levels": [2],
            "warm": 6000,
            "idle_s": 0,
            "spend": {"max_requests": 10_000, "max_tokens": 5_000},
        }
        (lab.folder / "plan.json").write_text(json.dumps(plan))
        lab.lead("plan.json", "--rehearsal", workers=2)
        workers = [lab.follow(), lab.follow()]
        assert lab.ends() == 3, lab.text
        assert [worker.wait(20) for worker in workers] == [0, 0]
    assert "tokens were spent, and the plan's cap is 5000" in lab.read().why
    assert 50 < truth.n < 5_000


def test_words_of_streams_come_back_with_their_gaps(lab: Many, provider: str) -> None:
    lab.lead(
        f"{provider}/v1/chat/completions", "--dialect", "openai_chat", "--model", "standin-large", "--stream",
        "--levels", "4", "--warm", "40", "--idle", "0", workers=2,
    )  # fmt: skip
    workers = [lab.follow(), lab.follow()]
    assert lab.ends() == 0, lab.text
    assert [worker.wait(20) for worker in workers] == [0, 0]
    total = 0
    for engine in (1, 2):
        _, columns = read_samples((lab.run_dir / f"samples.{engine}.bin").read_bytes())
        gaps = list(read_gaps((lab.run_dir / f"gaps.{engine}.bin").read_bytes(), columns.rows))
        assert len(gaps) == len(columns.rows) == 22
        assert all(len(mine) == row.words - 1 for row, mine in gaps)
        total += sum(len(mine) for _, mine in gaps)
    assert total * 4 == sum((lab.run_dir / f"gaps.{engine}.bin").stat().st_size for engine in (1, 2))


def test_messages_on_websockets_are_shared_among_workers_too(lab: Many) -> None:
    with websocket_server(echo) as port:
        lab.lead(
            f"ws://127.0.0.1:{port}/talk", "--levels", "4", "--warm", "40", "--idle", "0", "--rehearsal", "--open", "20:1",
            workers=2,
        )  # fmt: skip
        workers = [lab.follow(), lab.follow()]
        assert lab.ends() == 0, lab.text
        assert [worker.wait(20) for worker in workers] == [0, 0]
    levels = {level.label: level for level in lab.read().interview.levels}
    assert {label: (level.n, level.failures) for label, level in levels.items()} == {
        "cold": (1, 0),
        "warm_c4": (40, 0),
        "open_r20": (20, 0),
    }


def test_a_permitted_rate_holds_within_a_step(lab: Many, tmp_path: Path) -> None:
    with truth_server(tmp_path) as seen:
        permit = {
            "host": "127.0.0.1", "owner": "Ada", "until": "2199-01-01", "max_per_s": 50, "max_requests": 9_000, "max_in_flight": 9,
        }  # fmt: skip
        target = {"url": seen.url, "prompt": "call #{n}#", "permit": permit}
        plan = plan_for(lab, seen.url, target=target, open=[], warm=6_000)  # six callers at 20 ms come to 300 a second
        lab.lead(plan, "--rehearsal", "--yes", workers=2)
        workers = [lab.follow(), lab.follow()]
        assert lab.ends() == 3, lab.text
        assert [worker.wait(20) for worker in workers] == [0, 0]
    assert "the permit allows 50" in lab.read().why
    assert len(seen.rows) < 3_000


def test_a_name_that_is_loopback_on_a_worker_alone_is_refused() -> None:
    said = subprocess.run(
        [
            sys.executable,
            "-c",
            "from drillmaster.adapters.drill import locust_worker as w\n"
            "from drillmaster.adapters.drill.meeting import Meeting, Where\n"
            "for loopback in (True, False):\n"
            "    one = Meeting(versions={}, where=Where.here(), url='http://localhost:1', host='localhost', port=1, tls=False,\n"
            "        loopback=loopback, permit={'host': 'localhost'}, headers={}, callers=1, total_s=1, per_s=1, requests=1,\n"
            "        time_limit_s=1)\n"
            "    try:\n"
            "        print(bool(w._looked_up(one, 'here')))\n"
            "    except w.Refused as refused:\n"
            "        print(refused)\n",
        ],
        capture_output=True,
        text=True,
        timeout=30,
        check=True,
    )
    first, second = said.stdout.splitlines()
    assert first == "True"
    assert "localhost is loopback here, and another host where the master is" in second
