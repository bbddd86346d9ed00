"""Interviews of servers whose law is known: the numbers match what the server itself counted."""

import json
import socket
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import trustme

from drillmaster.evidence.samples import read_samples
from tests.e2e.interviewlab import Lab, Truth, answer, interviewing, server
from tests.e2e.test_permission import FAR, PERMIT, namespace
from tests.e2e.wirelab import Origin

__all__ = ["namespace"]

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(60)]


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[Lab]:
    yield from interviewing(tmp_path)


def test_a_server_of_fixed_law_is_seen_as_it_is_and_called_as_often_as_was_said(lab: Lab) -> None:
    with server(lambda _: (0.03, answer())) as (url, truth):
        done = lab.run(url, "--levels", "1,4", "--warm", "40", "--idle", "0.5", "--out", "rows.json")
    assert done.returncode == 0, done.stderr
    assert "125 calls" not in done.stderr
    assert f"{1 + 1 + 40 + 4 + 40} calls" in done.stderr
    assert truth.n == 86
    assert truth.most == 4
    file = lab.file("rows.json")
    assert (file["url"], file["levels"], file["idle_s"]) == (url, "1,4", 0.5)
    rows = lab.rows("rows.json")
    assert list(rows) == ["cold", "warm_c1", "warm_c4"]
    assert [row["n"] for row in rows.values()] == [1, 40, 40]
    for row in rows.values():
        assert 0.03 <= row["p50_s"] < 0.045
        assert row["p50_s"] <= row["p95_s"] <= row["max_s"]
        assert row["error_rate"] == 0
    assert [line.split()[0] for line in done.stdout.splitlines()[:4]] == ["idling", "cold", "warm_c1", "warm_c4"]
    assert "wrote rows.json" in done.stdout
    read = lab.read()
    assert read.ended == "completed"
    assert read.idle["proven"] is True
    assert read.interview.declared == ("cold", "warm_c1", "warm_c4")
    assert [level.n for level in read.interview.levels] == [1, 40, 40]
    assert read.fitness["warm_c4"].held == pytest.approx(4, abs=0.2)
    assert read.fitness["warmup_c4"].callers == 4
    level = read.interview.level("warm_c4")
    assert level is not None and level.ok_s is not None
    assert min(level.ok_s) >= 0.03
    checked = subprocess.run(
        [sys.executable, "-m", "drillmaster", "verify", str(lab.run_dir)], capture_output=True, text=True
    )
    assert checked.returncode == 0, checked.stdout


def test_nothing_is_sent_in_the_idle_time(lab: Lab) -> None:
    with server(lambda _: (0.0, answer())) as (url, truth):
        begun_s = time.monotonic()
        lab.run(url, "--levels", "1", "--warm", "1", "--idle", "1.5")
    assert truth.began_s[0] - begun_s > 1.5
    ended = next(row for row in lab.events() if row["event"] == "idle_ended")
    assert ended["sent"] == 0
    assert [row["event"] for row in lab.events()].index("idle_ended") < [row["event"] for row in lab.events()].index(
        "engine_started"
    )


def test_somebody_else_in_the_idle_time_makes_the_cold_call_void(lab: Lab) -> None:
    with server(lambda _: (0.0, answer())) as (url, _):
        process = lab.start(url, "--levels", "1", "--warm", "5", "--idle", "1.5")
        lab.wait_for("idle_started")
        host, port = url.split("/")[2].split(":")
        with socket.create_connection((host, int(port))) as sock:
            sock.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
            sock.recv(100)
            time.sleep(0.4)
        out, _err = process.communicate(timeout=20)
    assert process.returncode == 0
    assert "VOID cold: it may not have been cold" in out
    read = lab.read()
    assert read.idle["proven"] is False
    assert read.idle["connections_new"] == 1


def test_a_queue_shows_where_the_ladder_is_over_it(lab: Lab) -> None:
    slots = threading.Semaphore(2)

    def law(_: int) -> tuple[float, bytes]:
        with slots:
            time.sleep(0.03)
        return 0.0, answer()

    with server(law) as (url, _):
        done = lab.run(url, "--levels", "1,2,8", "--warm", "40", "--idle", "0")
    assert done.returncode == 0, done.stderr
    rows = lab.rows()
    assert rows["warm_c1"]["p50_s"] < 0.045
    assert rows["warm_c2"]["p50_s"] < 0.05
    assert 0.1 < rows["warm_c8"]["p50_s"] < 0.16


def test_failures_are_told_by_kind_and_lower_no_latency(lab: Lab) -> None:
    def law(number: int) -> tuple[float, bytes]:
        kinds = {
            1: answer(b"{}", b"429 Too Many Requests"),
            2: answer(b"{}", b"503 Service Unavailable"),
            3: answer(b""),
        }
        wire = kinds.get(number % 8, answer())
        return (0.04 if wire == answer() else 0.0), wire

    with server(law) as (url, _):
        done = lab.run(url, "--levels", "2", "--warm", "40", "--idle", "0")
    assert done.returncode == 0, done.stderr
    level = lab.read().interview.level("warm_c2")
    assert level is not None and level.ok_s is not None
    assert level.failed == {"http_429": 5, "http_503": 5, "empty": 5}
    assert min(level.ok_s) >= 0.04
    assert lab.rows()["warm_c2"]["error_rate"] == pytest.approx(15 / 40)
    assert lab.rows()["warm_c2"]["p50_s"] >= 0.04


def test_a_call_that_was_cut_took_at_least_so_long(lab: Lab) -> None:
    with server(lambda number: (1.2 if number == 10 else 0.01, answer())) as (url, _):
        done = lab.run(url, "--levels", "2", "--warm", "20", "--idle", "0", "--timeout", "0.4")
    assert done.returncode == 0, done.stderr
    assert lab.rows()["warm_c2"]["max_s"] >= 0.4
    level = lab.read().interview.level("warm_c2")
    assert level is not None
    assert level.failed == {"timeout": 1}
    assert len(level.cut_s) == 1


def test_an_open_stage_sees_the_stall_that_the_ladder_hides(lab: Lab) -> None:
    begun_s = time.monotonic()

    def law(_: int) -> tuple[float, bytes]:
        into_s = (time.monotonic() - begun_s) % 1.5
        return (0.6 - into_s if into_s < 0.6 else 0.005), answer()

    with server(law) as (url, _):
        done = lab.run(url, "--levels", "2", "--warm", "300", "--idle", "0", "--open", "60:4.5", "--drain", "20")
    assert done.returncode == 0, done.stderr
    read = lab.read()
    opened, closed = read.interview.level("open_r60"), read.interview.level("warm_c2")
    assert opened is not None and closed is not None and opened.ok_s is not None and closed.ok_s is not None
    assert opened.n == 270
    hit = sum(latency > 0.1 for latency in opened.ok_s) / opened.n
    assert 0.25 < hit < 0.45
    assert sum(latency > 0.1 for latency in closed.ok_s) / closed.n < 0.05
    drain = read.interview.level("drain")
    assert drain is not None and drain.ok_s is not None
    assert max(drain.ok_s) == pytest.approx(read.fitness["drain"].seconds)


def test_a_plan_says_all_of_it_and_its_permit_is_a_cap(lab: Lab) -> None:
    (lab.folder / "prompts.jsonl").write_text('"one"\n{"prompt": "two", "n": 2}\n')
    with server(lambda _: (0.0, answer())) as (url, truth):
        plan = {
            "kind": "plan",
            "drill": "interview",
            "job": "one-sentence diff summary",
            "target": {
                "url": url,
                "payloads": "prompts.jsonl",
                "permit": {
                    "host": "127.0.0.1",
                    "owner": "Ada",
                    "until": "2199-01-01",
                    "max_per_s": 50,
                    "max_requests": 200_000,
                    "max_in_flight": 8,
                },
            },
            "levels": [1, 4],
            "warm": 50_000,
            "idle_s": 0,
            "seats": {"driver": "Ada", "reader": "Bea", "recorder": "Cem"},
        }
        (lab.folder / "plan.json").write_text(json.dumps(plan))
        done = lab.run("plan.json", "--yes")
        refused = lab.run("plan.json", "--levels", "1")
        (lab.folder / "other.json").write_text(json.dumps({**plan, "levels": [1, 9]}))
        wide = lab.run("other.json")
    assert done.returncode == 3, done.stderr
    assert "the permit allows 50" in done.stdout
    assert truth.heads[0].body == b'{"prompt":"one"}'
    assert truth.heads[1].body == b'{"prompt":"two","n":2}'
    assert lab.read().manifest.stamps == ()
    assert lab.read().manifest.permission["owner"] == "Ada"
    assert refused.returncode == 2 and "write it into plan.json" in refused.stderr
    assert wide.returncode == 2 and "max_in_flight" in wide.stderr


@pytest.mark.parametrize(
    "more, code",
    [
        ({"levels": [4], "warm": 200}, 3),  # over in less than a second
        (
            {"levels": [1], "warm": 5, "open": [{"rate_per_s": 45, "seconds": 4, "max_in_flight": 99}]},
            0,
        ),  # what waited for a stall ends at once
        ({"levels": [4], "warm": 40}, 0),
    ],
)
def test_a_permitted_rate_is_of_what_was_sent_in_a_second_however_short_the_level(
    lab: Lab, more: dict[str, Any], code: int
) -> None:
    until_s: list[float] = []

    def stalls(number: int) -> tuple[float, bytes]:
        if not 60 <= number < 120 or "open" not in more:
            return 0.002, answer()
        until_s.append(time.monotonic() + 1.3)
        return max(0.0, until_s[0] - time.monotonic()), answer()

    permit = {
        "host": "127.0.0.1", "owner": "Ada", "until": "2199-01-01", "max_per_s": 50, "max_requests": 500, "max_in_flight": 99,
    }  # fmt: skip
    with server(stalls) as (url, _):
        plan = {"kind": "plan", "drill": "interview", "job": "x", "idle_s": 0, "target": {"url": url, "permit": permit}}
        (lab.folder / "plan.json").write_text(json.dumps({**plan, **more}))
        done = lab.run("plan.json", "--yes", "--rehearsal")
    assert done.returncode == code, done.stdout + done.stderr
    assert ("the permit allows 50" in done.stdout) is (code == 3)
    assert not code or lab.rows().keys() == {"cold"}


def test_over_tls_the_certificate_is_checked_and_the_handshake_is_timed(lab: Lab) -> None:
    authority = trustme.CA()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("localhost").configure_cert(context)
    authority.cert_pem.write_to_path(str(lab.folder / "ca.pem"))
    truth = Truth(lambda _: (0.01, answer()))
    origin = Origin(truth.handle, tls=context)
    try:
        plan = {
            "kind": "plan",
            "drill": "interview",
            "job": "a job",
            "target": {"url": f"{origin.url}/v1/chat", "ca_file": "ca.pem"},
            "levels": [1, 3],
            "warm": 12,
            "idle_s": 0,
        }
        (lab.folder / "plan.json").write_text(json.dumps(plan))
        done = lab.run("plan.json")
        assert done.returncode == 0, done.stderr
        other = lab.run(f"{origin.url}/v1/chat", "--idle", "0", "--runs", "others")
        named = {
            **plan,
            "target": {"url": f"{origin.url}/v1/chat".replace("localhost", "127.0.0.1"), "ca_file": "ca.pem"},
        }
        (lab.folder / "named.json").write_text(json.dumps(named))
        misnamed = lab.run("named.json", "--runs", "misnamed")
    finally:
        origin.close()
    in_the_clear = Origin(lambda reader, sock: sock.sendall(answer(b"{}", b"400 Bad Request")))
    try:
        clear = lab.run(in_the_clear.url.replace("http", "https"), "--idle", "0", "--runs", "clear")
    finally:
        in_the_clear.close()
    assert "REHEARSAL" in lab.read().manifest.stamps  # nobody sits anywhere
    level = lab.read().interview.level("warm_c3")
    assert level is not None
    assert (level.n, level.failures) == (12, 0)
    _, cold = read_samples((lab.run_dir / "samples.cold.bin").read_bytes())
    assert cold.rows[0].connect_ns > 0
    assert cold.rows[0].tls_ns > 0
    assert other.returncode == 2
    assert "TLS handshake that failed (unable to get local issuer certificate)" in other.stderr
    assert "target.ca_file of a plan" in other.stderr
    assert misnamed.returncode == 2
    assert "not valid for '127.0.0.1'" in misnamed.stderr
    assert clear.returncode == 2
    assert "WRONG_VERSION_NUMBER" in clear.stderr
    assert "write http://" in clear.stderr


FAR_SERVER = """\
import socketserver, sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
class H(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def do_POST(self):
        self.rfile.read(int(self.headers["content-length"]))
        self.wfile.write(b"HTTP/1.1 200 OK\\r\\nContent-Length: 2\\r\\n\\r\\n{}")
    def log_message(self, *a): pass
server = ThreadingHTTPServer((sys.argv[1], 0), H)
print(server.server_address[1], flush=True)
server.serve_forever()
"""


@pytest.mark.needs("ip")
def test_another_host_needs_a_permit_and_its_idleness_is_not_proven(lab: Lab, namespace: list[str]) -> None:
    with subprocess.Popen(
        [*namespace, sys.executable, "-c", FAR_SERVER, FAR], stdout=subprocess.PIPE, text=True
    ) as far:
        try:
            assert far.stdout is not None
            url = f"http://{FAR}:{far.stdout.readline().strip()}/v1/chat"
            bare = lab.run(url, "--idle", "0")
            permit = {**PERMIT, "max_per_s": 100_000, "max_in_flight": 4}
            target = {"url": url, "permit": permit}
            plan = {
                "kind": "plan",
                "drill": "interview",
                "job": "a job",
                "target": target,
                "levels": [1, 4],
                "idle_s": 0.3,
            }
            (lab.folder / "plan.json").write_text(json.dumps(plan))
            once = lab.run("plan.json")
            assert not (lab.folder / "runs").exists()
            twice = lab.run("plan.json", "--permit-host", FAR)
        finally:
            far.terminate()
    assert (bare.returncode, once.returncode) == (2, 2)
    assert "permission" in bare.stderr
    assert f"add --permit-host {FAR}" in once.stderr
    assert twice.returncode == 0, twice.stderr
    assert lab.read().idle["proven"] is None
    assert "who else calls it cannot be seen from here" in twice.stderr
    # Before anybody else's machine is called, this one is tried; what is refused before sends nothing and tries nothing.
    assert "this machine first, on a built-in server" in twice.stderr and "4 callers  held" in twice.stderr
    assert "this machine first" not in bare.stderr + once.stderr


def test_the_self_test_sets_the_client_beside_a_server_that_says_what_it_did(lab: Lab) -> None:
    done = lab.run("--self-test", "--levels", "4,16", "--json")
    assert done.returncode in (0, 2), done.stderr
    said = json.loads(done.stdout)
    assert [level["callers"] for level in said["levels"]] == [4, 16]
    for level in said["levels"]:
        assert level["held"] >= 0.9 * level["callers"]
        assert 0 <= level["added_p50_ms"] < 30
        assert level["cpu_us"] > 0
    assert done.returncode == (2 if any(level["void"] for level in said["levels"]) else 0)
    assert list(lab.folder.iterdir()) == []
    assert lab.run("--self-test", "http://127.0.0.1:1/").returncode == 2


@pytest.fixture
def provider() -> Iterator[str]:
    words = ["standin", "provider", "--port", "0", "--latency-ms", "20", "--token-ms", "2", "--die-with-parent"]
    process = subprocess.Popen([sys.executable, "-m", "drillmaster", *words], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        line = process.stdout.readline()
        yield next(word for word in line.split() if word.startswith("http://")).rstrip("/,.").removesuffix("/v1")
    finally:
        process.terminate()
        process.communicate(timeout=5)


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    ("dialect", "path"),
    [
        ("openai_chat", "/v1/chat/completions"),
        ("openai_responses", "/v1/responses"),
        ("anthropic", "/v1/messages"),
        ("gemini", "/v1beta/models/m:generateContent"),
        ("ollama", "/api/chat"),
    ],
)
def test_each_api_is_asked_in_its_own_words(lab: Lab, provider: str, dialect: str, path: str, stream: bool) -> None:
    if stream:
        path = path.replace(":generateContent", ":streamGenerateContent?alt=sse")
    words = ["--dialect", dialect, "--model", "m", "--levels", "2", "--warm", "6", "--idle", "0"]
    done = lab.run(provider + path, *words, *(["--stream"] if stream else []))
    assert done.returncode == 0, done.stderr
    level = lab.read().interview.level("warm_c2")
    assert level is not None
    assert (level.n, level.failures) == (6, 0), level.failed
    assert (lab.run_dir / "gaps.bin").exists() == stream
