"""Interviews that ask as people do, by rows and sessions, with pauses and waits, as the server itself saw them."""

import json
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from drillmaster.evidence.samples import OUTCOMES, read_samples
from tests.e2e.interviewlab import GOOD, Lab, answer, interviewing, server
from tests.e2e.test_interview import provider

__all__ = ["provider"]

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(90)]

BUSY = answer(b"{}", b"429 Too Many Requests").replace(b"\r\n\r\n", b"\r\nRetry-After: 0.2\r\n\r\n", 1)
CHAT = b'{"object":"chat.completion","choices":[{"index":0,"message":{"role":"assistant","content":"hi"},"finish_reason":"stop"}]}'


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[Lab]:
    yield from interviewing(tmp_path)


def test_rows_of_a_csv_file_are_asked_in_exact_parts_at_each_level(lab: Lab) -> None:
    (lab.folder / "rows.csv").write_text('text,lang\n"one, two",de\nthree,fr\nfour,en\nfive,es\n')
    with server(lambda _: (0.0, answer())) as (url, truth):
        words = ["--payloads", "rows.csv", "--prompt", "In {lang}: {text}", "--shuffle", "--seed", "3"]
        done = lab.run(url, "--levels", "1,3", "--warm", "20", "--idle", "0", *words)
    assert done.returncode == 0, done.stderr
    prompts = ["In de: one, two", "In fr: three", "In en: four", "In es: five"]
    asked = [json.loads(head.body)["prompt"] for head in truth.heads]
    assert len(asked) == 1 + 1 + 20 + 3 + 20
    for begin in (2, 25):
        assert Counter(asked[begin : begin + 20]) == dict.fromkeys(prompts, 5)
    in_turn = prompts * 5
    assert asked[2:22] != in_turn
    assert lab.file()["payload_sha256"] == lab.read().manifest.payload_sha256


def test_engines_that_share_a_level_draw_from_one_order(lab: Lab) -> None:
    (lab.folder / "rows.csv").write_text("text\n" + "".join(f"row {n}\n" for n in range(8)))
    with server(lambda _: (0.001, answer())) as (url, truth):
        words = ["--payloads", "rows.csv", "--prompt", "{text}", "--shuffle", "--processes", "2"]
        done = lab.run(url, "--levels", "4", "--warm", "48", "--idle", "0", *words, "--open", "40:1", "--drain", "16")
    assert done.returncode == 0, done.stderr
    asked = [json.loads(head.body)["prompt"] for head in truth.heads]
    assert len(asked) == 1 + 4 + 48 + 40 + 16
    for begin, end, each in ((5, 53, 6), (53, 93, 5), (93, 109, 2)):
        assert Counter(asked[begin:end]) == {f"row {n}": each for n in range(8)}


def test_engines_that_share_a_level_each_have_whole_sessions(lab: Lab) -> None:
    (lab.folder / "talks.jsonl").write_text('[{"t": "0 {n}"}, {"t": "1 {n}"}, {"t": "2 {n}"}]\n')
    with server(lambda _: (0.001, answer())) as (url, truth):
        words = ["--payloads", "talks.jsonl", "--think", "0.01", "--processes", "2", "--retry-after", "2:1"]
        done = lab.run(url, "--levels", "4", "--warm", "48", "--idle", "0", *words)
    assert done.returncode == 0, done.stderr
    turns: dict[str, list[str]] = {}
    for head in truth.heads[5:]:
        turn, session = json.loads(head.body)["t"].split()
        turns.setdefault(session, []).append(turn)
    assert list(turns.values()) == [["0", "1", "2"]] * 16
    level = lab.read().interview.level("warm_c4")
    assert level is not None
    assert (level.n, level.failures) == (48, 0)


def test_the_digest_is_of_what_is_asked_and_not_of_its_order(lab: Lab) -> None:
    (lab.folder / "a.jsonl").write_text('"one"\n"two"\n')
    (lab.folder / "b.jsonl").write_text('["one", "1", "two"]\n')
    digests = []
    words = ["--levels", "1", "--warm", "4", "--idle", "0", "--dialect", "openai_chat", "--model", "m"]
    with server(lambda _: (0.0, answer(CHAT))) as (url, _):
        for name, more in (("a", []), ("a", ["--shuffle"]), ("b", [])):
            file = f"{len(digests)}.json"
            done = lab.run(url, *words, "--payloads", f"{name}.jsonl", *more, "--out", file)
            assert done.returncode == 0, done.stderr
            digests.append(lab.file(file)["payload_sha256"])
    assert digests[0] == digests[1] != digests[2]


def test_a_session_holds_what_was_said_before_and_its_turns_are_told_apart(lab: Lab) -> None:
    (lab.folder / "talks.jsonl").write_text('["Hi", "Hello.", "Why?", "So.", "And {n}?"]\n"Alone"\n')
    with server(lambda _: (0.01, answer(CHAT))) as (url, truth):
        words = ["--dialect", "openai_chat", "--model", "m", "--payloads", "talks.jsonl"]
        done = lab.run(url, *words, "--levels", "2", "--warm", "16", "--idle", "0", "--think", "0.02,0.05")
    assert done.returncode == 0, done.stderr
    said = Counter(
        tuple(one["content"].partition(" ")[0] for one in json.loads(head.body)["messages"]) for head in truth.heads
    )
    # The cold call and the warm-up have first turns; four sessions of three turns and four of one are a level of 16 calls.
    assert said == {
        ("Hi",): 4 + 2,
        ("Hi", "Hello.", "Why?"): 4,
        ("Hi", "Hello.", "Why?", "So.", "And"): 4,
        ("Alone",): 4 + 1,
    }
    numbers = [json.loads(head.body)["messages"][-1]["content"] for head in truth.heads]
    assert len({number for number in numbers if number.startswith("And")}) == 4
    row = lab.rows()["warm_c2"]
    assert row["n"] == 16
    assert row["first_turns_p50_s"] > 0 and row["later_turns_p50_s"] > 0
    assert "first turns p50" in done.stdout
    assert "a caller pauses 0.02 s between turns of a session and 0.05 s between sessions" in done.stderr
    level = lab.read()
    assert level.fitness["warm_c2"].held == pytest.approx(2, abs=0.3)  # a caller who pauses is held
    found = level.interview.level("warm_c2")
    assert found is not None and not any("in flight" in why for why in found.void)


@pytest.mark.parametrize(
    ("dialect", "path"),
    [
        ("openai_chat", "/v1/chat/completions"),
        ("openai_responses", "/v1/responses"),
        ("anthropic", "/v1/messages"),
        ("gemini", "/v1beta/models/m:streamGenerateContent?alt=sse"),
        ("ollama", "/api/chat"),
    ],
)
def test_each_api_takes_a_talk_of_several_turns(lab: Lab, provider: str, dialect: str, path: str) -> None:
    (lab.folder / "talks.jsonl").write_text('["Hi", "Hello.", "Why?", "So.", "And {n}?"]\n')
    words = ["--dialect", dialect, "--model", "m", "--stream", "--payloads", "talks.jsonl"]
    done = lab.run(provider + path, *words, "--levels", "2", "--warm", "12", "--idle", "0")
    assert done.returncode == 0, done.stderr
    level = lab.read().interview.level("warm_c2")
    assert level is not None
    assert (level.n, level.failures) == (12, 0), level.failed
    assert lab.rows()["warm_c2"]["later_turns_p50_s"] > 0


def test_turns_that_were_never_sent_are_counted_by_name(lab: Lab) -> None:
    (lab.folder / "talks.jsonl").write_text('[{"t": 0}, {"t": 1}, {"t": 2}, {"t": 3}]\n')
    lost = answer(b"{}", b"500 Oops")
    with server(lambda number: (0.0, lost if number == 5 else answer())) as (url, truth):
        done = lab.run(url, "--payloads", "talks.jsonl", "--levels", "1", "--warm", "12", "--idle", "0")
    assert done.returncode == 0, done.stderr
    assert [json.loads(head.body)["t"] for head in truth.heads] == [0, 0, *[0, 1, 2, 3] * 3]
    row = lab.rows()["warm_c1"]
    assert (row["n"], row["error_rate"]) == (12, pytest.approx(1 / 12))
    lab.folder = lab.folder / "second"
    lab.folder.mkdir()
    (lab.folder / "talks.jsonl").write_text('[{"t": 0}, {"t": 1}, {"t": 2}, {"t": 3}]\n')
    with server(lambda number: (0.0, lost if number == 3 else answer())) as (url, truth):
        done = lab.run(url, "--payloads", "talks.jsonl", "--levels", "1", "--warm", "12", "--idle", "0")
    assert truth.n == 2 + 10
    row = lab.rows()["warm_c1"]
    assert (row["n"], row["unsent_turns"], row["error_rate"]) == (12, 2, pytest.approx(3 / 12))
    assert "1 http_500" in done.stdout and "2 unsent_turn" in done.stdout


def test_waits_are_in_the_latency_and_counted_and_a_gate_reads_the_file(lab: Lab) -> None:
    with server(lambda number: (0.0, BUSY if number % 5 == 4 else answer())) as (url, truth):
        done = lab.run(url, "--levels", "1", "--warm", "16", "--idle", "0", "--retry-after", "3:2")
    assert done.returncode == 0, done.stderr
    row = lab.rows()["warm_c1"]
    _, columns = read_samples((lab.run_dir / "samples.bin").read_bytes())
    mine = [one for one in columns.rows if one.stage == 1]
    assert truth.n == 1 + 1 + row["requests"] == 2 + sum(one.attempts for one in mine)
    assert row["error_rate"] == 0
    assert (row["requests"], row["waits"], row["waited_s"]) == (20, 4, pytest.approx(0.8))
    assert row["max_s"] >= 0.2 > row["p50_s"]
    assert "4 calls waited 800 ms because the endpoint asked for it, 20 requests" in done.stdout
    heard = truth.began_s
    for number in range(4, len(heard) - 1, 5):
        assert heard[number + 1] - heard[number] >= 0.2
    (lab.folder / "gate.json").write_text('{"warm_c1": {"p95_s": 5, "error_rate": 0.0}, "cold_max_s": 5}')
    gate = subprocess.run(
        [sys.executable, "-m", "drillmaster", "gate", "interview", "interview.json", "gate.json", "--unsealed"],
        cwd=lab.folder,
        capture_output=True,
        text=True,
    )
    assert gate.returncode == 0, gate.stderr + gate.stdout
    assert "BREACH: none" in gate.stdout


def test_what_still_asks_for_waits_after_so_many_is_a_failure_of_its_own_kind(lab: Lab) -> None:
    with server(lambda number: (0.0, BUSY if number > 2 else answer())) as (url, truth):
        done = lab.run(url, "--levels", "1", "--warm", "3", "--idle", "0", "--retry-after", "2:2")
    assert done.returncode == 0, done.stderr
    assert "(2 attempts_spent)" in done.stdout
    assert truth.n == 1 + 1 + 1 + 2 * 2
    assert lab.rows()["warm_c1"]["requests"] == 5


def test_a_cold_call_that_is_sent_away_for_good_failed_and_the_ladder_is_run(lab: Lab) -> None:
    with server(lambda number: (0.0, BUSY if number < 2 else answer())) as (url, truth):
        done = lab.run(url, "--levels", "1", "--warm", "3", "--idle", "0", "--retry-after", "2:2")
    assert done.returncode == 0, done.stderr
    assert "the cold call failed: attempts_spent" in done.stderr
    cold = lab.read().interview.level("cold")
    assert cold is not None and cold.failed == {"attempts_spent": 1}
    assert lab.rows()["cold"]["requests"] == 2
    assert truth.n == 2 + 1 + 3


def test_a_form_and_a_query_are_sent_as_browsers_send_them(lab: Lab) -> None:
    (lab.folder / "rows.csv").write_text('q\n"a b&c"\nü\n')
    words = ["--payloads", "rows.csv", "--levels", "1", "--warm", "2", "--idle", "0"]
    with server(lambda _: (0.0, answer(GOOD))) as (url, truth):
        done = lab.run(url, *words, "--form", "text={q}", "--form", "n={n}", "--out", "form.json")
        assert done.returncode == 0, done.stderr
        assert [head.body for head in truth.heads[:2]] == [b"text=a+b%26c&n=0", b"text=%C3%BC&n=1"]
        assert truth.heads[0].field(b"content-type") == b"application/x-www-form-urlencoded"
        done = lab.run(f"{url}?k=1", *words, "--query", "text={q}", "--out", "query.json")
        assert done.returncode == 0, done.stderr
    gets = truth.heads[4:]
    assert [head.first for head in gets[:2]] == [
        b"GET /v1/chat?k=1&text=a+b%26c HTTP/1.1",
        b"GET /v1/chat?k=1&text=%C3%BC HTTP/1.1",
    ]
    assert all(head.body == b"" and head.field(b"content-type") is None for head in gets)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--payloads", "rows.csv"], "rows.csv:2: found the prompt names nothing of it"),
        (["--payloads", "rows.csv", "--prompt", "{texd}"], "rows.csv:2: found {texd}"),
        (["--payloads", "torn.csv", "--prompt", "{text}"], "torn.csv:3: found 1 fields, wanted 2"),
        (["--payloads", "talks.jsonl"], "talks.jsonl:1: found a session of prompts"),
        (["--payloads", "bodies.jsonl", "--levels", "4"], "--warm: found 10 calls for a level of 4 callers"),
        (["--form", "q"], "--form: found 'q'"),
        (["--form", "q=1", "--query", "q=1"], "--form: found a form and a query"),
        (["--think", "-1"], "--think: found '-1'"),
        (["--retry-after", "3"], "--retry-after: found '3'"),
        (["--retry-after", "1:9"], "--retry-after: found 1"),
        (["--poisson"], "--poisson: found no --open"),
        (["--max-in-flight", "9"], "--max-in-flight: found no --open"),
        (["--drain-callers", "9"], "--drain-callers: found no --drain"),
    ],
)
def test_what_cannot_be_asked_is_refused_before_anything_is_sent(lab: Lab, words: list[str], said: str) -> None:
    (lab.folder / "rows.csv").write_text("text,lang\none,de\n")
    (lab.folder / "torn.csv").write_text("text,lang\none,de\ntwo\n")
    (lab.folder / "talks.jsonl").write_text('["Hi", "Hello.", "Why?"]\n')
    (lab.folder / "bodies.jsonl").write_text('[{"a": 1}, {"a": 2}, {"a": 3}]\n')
    with server(lambda _: (0.0, answer())) as (url, truth):
        done = lab.run(url, "--idle", "0", *words)
    assert done.returncode == 2
    assert said in done.stderr
    assert truth.n == 0
    assert not (lab.folder / "runs").exists()


def test_a_plan_beside_an_option_is_told_by_the_options_name(lab: Lab) -> None:
    (lab.folder / "plan.yaml").write_text("kind: plan\n")
    done = lab.run("plan.yaml", "--think", "2")
    assert done.returncode == 2
    assert "a plan, and --think beside it" in done.stderr


def test_two_hundred_callers_are_held_where_they_are_asked_for(lab: Lab) -> None:
    with server(lambda _: (0.1, answer())) as (url, truth):
        done = lab.run(url, "--levels", "200", "--warm", "800", "--idle", "0")
        assert done.returncode == 0, done.stderr
        few = lab.run(url, "--levels", "200", "--idle", "0", "--out", "few.json")
    assert truth.n == 1 + 200 + 800
    assert truth.most >= 190
    assert lab.rows()["warm_c200"]["n"] == 800
    assert few.returncode == 2
    assert "give --warm 200 or more" in few.stderr


def test_a_probe_repeats_no_call_whatever_its_plan_heeds(lab: Lab) -> None:
    with server(lambda number: (0.0, BUSY if number == 10 else answer())) as (url, truth):
        (lab.folder / "plan.yaml").write_text(
            f"kind: plan\ndrill: interview\njob: a job\ntarget: {{url: '{url}'}}\n"
            "retry: {policy: honour, max_attempts: 3, max_wait_s: 9}\nthink: {session_s: 3}\n"
        )
        words = ["--plan", "plan.yaml", "--requests", "60", "--concurrency", "2", "--timeout", "5"]
        begun_s = time.monotonic()
        done = subprocess.run(
            [sys.executable, "-m", "drillmaster", "probe", *words, "--p95-budget-ms", "900", "--error-budget", "0.02"],
            cwd=lab.folder,
            capture_output=True,
            text=True,
            timeout=60,
        )
        took_s = time.monotonic() - begun_s
    said = json.loads(done.stdout)
    assert said["errors"] == {"http_429": 1}
    assert truth.n == 1 + 2 + 60
    assert took_s < 60  # and nobody pauses


def test_a_stop_amid_waits_keeps_what_was_measured(lab: Lab) -> None:
    slow = answer(b"{}", b"503 Unavailable").replace(b"\r\n\r\n", b"\r\nRetry-After: 30\r\n\r\n", 1)
    with server(lambda number: (0.0, slow if number > 8 else answer())) as (url, truth):
        process = lab.start(url, "--levels", "2", "--warm", "20", "--idle", "0", "--retry-after", "3:60")
        lab.wait_for("stage_started", stage="warm_c2")
        while truth.n < 11:
            time.sleep(0.02)
        time.sleep(0.3)
        process.terminate()
        out, _ = process.communicate(timeout=20)
    assert process.returncode == 3
    assert "PARTIAL warm_c2" in out
    _, columns = read_samples((lab.run_dir / "samples.bin").read_bytes())
    stopped = [row for row in columns.rows if OUTCOMES[row.outcome] == "stopped"]
    assert len(stopped) == 2
    assert all(row.waited_ns > 0 and row.status == 503 and row.attempts == 1 for row in stopped)
