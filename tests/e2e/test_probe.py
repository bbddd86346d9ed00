"""Probes of servers whose law is known: stay, leave, or nothing can be said; and a passport of a real interview."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.interviewlab import Lab, answer, interviewing, server
from tests.e2e.test_engine import GOOD
from tests.interviewed import DECISION, POLICY

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(60)]

KEY = "nobodys" + "-key"
BUDGETS = ("--p95-budget-ms", "400", "--error-budget", "0.02", "--timeout", "5")


class ProbeLab(Lab):
    def command(self, *words: str) -> list[str]:
        return [sys.executable, "-m", "drillmaster", *words]

    def probe(self, url: str, *words: str, env: dict[str, str] | None = None) -> tuple[int, dict[str, Any], str]:
        key = () if env else ("--no-key",)
        done = self.run("probe", "--endpoint", url, "--model", "m", "--requests", "60", *BUDGETS, *key, *words, env=env)
        return done.returncode, json.loads(done.stdout), done.stderr


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[ProbeLab]:
    for made in interviewing(tmp_path):
        yield ProbeLab(made.folder)


def test_an_endpoint_within_its_budgets_may_keep_its_job_and_the_key_goes_nowhere_else(lab: ProbeLab) -> None:
    with server(lambda _: (0.03, answer(GOOD))) as (url, truth):
        code, said, _ = lab.probe(url, env={"FREE_TIER_KEY": KEY})
    assert (code, said["verdict"], said["why"]) == (0, "pass", [])
    assert (said["requests"], said["error_rate"], said["concurrency"]) == (60, 0, 8)
    assert truth.n == 1 + 8 + 60
    assert truth.most == 8
    assert 30 <= said["p50_ms"] <= said["p95_ms"] <= said["max_ms"]
    assert {dict(head.fields)[b"Authorization"] for head in truth.heads} == {b"Bearer " + KEY.encode()}
    assert not any(KEY.encode() in path.read_bytes() for path in lab.folder.rglob("*") if path.is_file())
    assert (lab.folder / "runs" / said["run"] / "seal.json").is_file()


def test_a_slow_one_is_left_and_so_is_one_that_fails_at_once(lab: ProbeLab) -> None:
    with server(lambda number: (0.5 if number % 8 == 0 else 0.03, answer(GOOD))) as (url, _):
        code, said, _ = lab.probe(url)
    assert (code, said["verdict"]) == (1, "exit")
    assert "p95" in said["why"][0]
    with server(lambda number: (0.02, answer(b"{}", b"503 Busy") if number > 8 else answer(GOOD))) as (url, _):
        code, said, _ = lab.probe(url)
    assert (code, said["verdict"], said["error_rate"]) == (1, "exit", 1)
    assert (said["p95_ms"], said["errors"]) == (None, {"http_503": 60})


def test_one_that_turns_all_away_at_once_is_left(lab: ProbeLab) -> None:
    busy = b"HTTP/1.1 429 Slow Down\r\nRetry-After: 60\r\nContent-Length: 0\r\n\r\n"
    with server(lambda number: (0.0, answer(GOOD) if number < 9 else busy)) as (url, _):
        code, said, _ = lab.probe(url)
    assert (code, said["verdict"], said["errors"]) == (1, "exit", {"http_429": 60})


def test_an_html_page_in_a_200_is_no_answer(lab: ProbeLab) -> None:
    with server(lambda number: (0.02, answer(b"<html>log in</html>") if number > 8 else answer(GOOD))) as (url, _):
        code, said, _ = lab.probe(url)
    assert (code, said["verdict"], said["error_rate"]) == (1, "exit", 1)


def test_two_errors_of_sixty_are_over_two_percent_and_one_is_not(lab: ProbeLab) -> None:
    for bad, wanted in (((20,), 0), ((20, 40), 1)):
        with server(
            lambda number, bad=bad: (0.02, answer(b"{}", b"500 No") if number in bad else answer(GOOD))  # type: ignore[misc]
        ) as (url, _):
            assert lab.probe(url)[0] == wanted


def test_what_cannot_say_anything_is_refused_before_anything_is_sent(lab: ProbeLab) -> None:
    with server(lambda _: (0.0, answer(GOOD))) as (url, truth):
        for words, said in (
            (("--requests", "58"), "--requests 59"),
            (("--requests", "60", "--error-budget", "0.001"), "--requests 1000"),
            (("--error-budget", "1.5"), "0.02, not 2"),
            (("--p95-budget-ms", "5000"), "--timeout 10"),
            (("--concurrency", "0"), "--concurrency"),
        ):
            code, found, _ = lab.probe(url, *words)
            assert (code, found["verdict"], found["exit"]) == (2, "refused", 2)
            assert said in found["why"][0]
        for words, said in (
            (("--error-budget", "nan"), "wanted a finite number"),
            (("--idle", "5"), "a span with its unit"),
            (("--reqests", "60"), "--requests"),
            (("surplus",), "surplus"),
        ):
            code, found, stderr = lab.probe(url, *words)
            assert (code, found["verdict"], found["exit"]) == (2, "refused", 2)
            assert said in found["why"][0]
            assert said in stderr
        done = lab.run("probe", "--endpoint", url, *BUDGETS, env={"FREE_TIER_KEY": ""})
        assert done.returncode == 2
        assert "export FREE_TIER_KEY" in json.loads(done.stdout)["error"]["remedy"]
        done = lab.run("probe", "--endpoint", url, "--no-key", "--json")
        assert "budgets have no default" in json.loads(done.stdout)["why"][0]
    assert truth.n == 0


def test_the_block_of_a_policy_bounds_p95_by_blocks_beside_what_was_seen(lab: ProbeLab) -> None:
    (lab.folder / "policy.yaml").write_text(
        POLICY.replace("decide: observed\n", "decide: observed\n    block_s: 0.01\n")
    )
    (lab.folder / "none.yaml").write_text(POLICY)
    with server(lambda _: (0.03, answer(GOOD))) as (url, asked):
        code, said, _ = lab.probe(url, "--concurrency", "1", "--policy", "policy.yaml")
        before = len(asked.heads)
        refused, why, _ = lab.probe(url, "--policy", "none.yaml")
        missing, _, _ = lab.probe(url, "--policy", "nowhere.yaml")
        assert len(asked.heads) == before
    assert code in (0, 1)  # of a busy machine
    assert (said["block_s"], said["decided_by"]) == (0.01, "observed")
    assert said["p95_ms"] <= said["p95_upper_ms"] and said["p95_ms"] <= said["p95_upper_blocks_ms"]
    assert (refused, missing) == (2, 2) and "write block_s: 5 into gate interview of none.yaml" in why["why"][0]


def test_a_dead_endpoint_and_another_host_say_nothing_of_an_endpoint(lab: ProbeLab) -> None:
    code, said, _ = lab.probe("http://127.0.0.1:9/v1/chat/completions")
    assert (code, said["verdict"]) == (2, "refused")
    code, said, _ = lab.probe("http://192.0.2.1/v1/chat/completions")
    assert (code, said["verdict"]) == (2, "refused")
    assert "permit" in said["why"][0]


def test_a_cold_start_comes_from_the_probes_own_silence_or_from_the_latest_interview(lab: ProbeLab) -> None:
    cold = ("--cold-budget-ms", "300", "--least-idle", "1s")
    with server(lambda number: (0.2 if number == 0 else 0.03, answer(GOOD))) as (url, truth):
        for idle in ((), ("--idle", "0.5s")):
            code, said, _ = lab.probe(url, *cold, *idle)
            assert (code, said["verdict"]) == (2, "refused")
            assert "no cold start of the last 30 days" in said["why"][0]
            assert "add --idle 1s" in said["why"][0] and "--least-idle" in said["why"][0]
    assert truth.n == 0
    with server(lambda number: (0.2 if number == 0 else 0.03, answer(GOOD))) as (url, _):
        code, said, _ = lab.probe(url, *cold, "--idle", "1s")
        assert (code, said["verdict"]) == (0, "pass")
        assert (said["cold"]["run"], said["cold"]["ms"] >= 200) == (said["run"], True)
        first = said["run"]
        code, said, _ = lab.probe(url, *cold)
        assert (code, said["cold"]["run"]) == (0, first)
        assert 0 <= said["cold"]["age_s"] < 30
        code, said, _ = lab.probe(url, "--cold-budget-ms", "150", "--least-idle", "1s")
        assert (code, said["verdict"]) == (1, "exit")
        assert "cold start" in said["why"][0]


def test_a_probe_that_is_stopped_says_nothing_and_exits_3(lab: ProbeLab) -> None:
    with server(lambda _: (0.3, answer(GOOD))) as (url, truth):
        process = lab.start("probe", "--endpoint", url, "--model", "m", "--no-key", "--requests", "400", *BUDGETS)
        until_s = time.monotonic() + 15
        while truth.n < 20 and time.monotonic() < until_s:
            time.sleep(0.02)
        process.send_signal(signal.SIGINT)
        out, _ = process.communicate(timeout=20)
    assert process.returncode == 3
    assert json.loads(out)["verdict"] == "refused"


PLAN = """\
kind: plan
drill: interview
job: diff summary
target: {url: URL}
levels: [1, 4]
warm: 20
idle_s: 0.5
timeout_s: 5
seats: {driver: Ada, reader: Bea, recorder: Cem}
"""


def test_a_real_interview_earns_its_job_a_passport(lab: ProbeLab) -> None:
    calmly = DECISION.replace("degrading_ratio: 2", "degrading_ratio: 3")  # four callers on a busy machine
    (lab.folder / "policy.yaml").write_text(POLICY + calmly)
    with server(lambda _: (0.03, answer())) as (url, _):
        (lab.folder / "plan.yaml").write_text(PLAN.replace("URL", url))
        done = lab.run("interview", "plan.yaml")
        assert done.returncode == 0, done.stderr
    words = ("--job", "diff summary", "--policy", "policy.yaml", "--kind", "summary")
    done = lab.run("passport", "write", os.fspath(lab.run_dir), *words)
    assert done.returncode == 0, done.stderr + done.stdout
    assert lab.run("passport", "check", "diff summary").returncode == 0
    done = lab.run("passport", "check", "diff summary", "--now", "2099-01-01T00:00:00Z")
    assert done.returncode == 2
    assert "drillmaster interview http://127.0.0.1" in done.stderr
    sealed: subprocess.CompletedProcess[str] = lab.run("passport", "page", lab.run_dir.name, "--policy", "policy.yaml")
    assert sealed.stdout.startswith("# Free-Server Load Interview - diff summary\n")
