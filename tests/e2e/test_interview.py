"""Interviews of servers whose law is known, as a user does them: one command, real processes, what the server itself counted."""

import contextlib
import json
import os
import resource
import signal
import socket
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import trustme

from drillmaster.clock import SystemClock
from drillmaster.errors import Refused
from drillmaster.evidence.samples import read_samples
from drillmaster.load.reading import InterviewRun, open_interview, open_interview_run
from drillmaster.timeline import seal_run
from tests.e2e.test_permission import FAR, PERMIT, namespace
from tests.e2e.wirelab import Origin, Reader

__all__ = ["namespace"]

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(60)]

GOOD = b'{"text":"hello"}'
KEY = "sk-" + "test-" + "0123456789abcdefghijklmnopqrstuv"


def answer(body: bytes = GOOD, status: bytes = b"200 OK") -> bytes:
    return b"HTTP/1.1 %b\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%b" % (status, len(body), body)


class Truth:
    """A server with a law, and what it saw: how many requests, how many at once, what they held."""

    def __init__(self, law: Callable[[int], tuple[float, bytes]]) -> None:
        self._law = law
        self._lock = threading.Lock()
        self._now = 0
        self.most = 0
        self.heads: list[Any] = []
        self.began_s: list[float] = []

    def handle(self, reader: Reader, sock: socket.socket) -> None:
        while (message := reader.request()) is not None:
            with self._lock:
                number = len(self.heads)
                self.heads.append(message)
                self.began_s.append(time.monotonic())
                self._now += 1
                self.most = max(self.most, self._now)
            after_s, wire = self._law(number)
            time.sleep(after_s)
            with self._lock:
                self._now -= 1
            sock.sendall(wire)

    @property
    def n(self) -> int:
        return len(self.heads)


@contextlib.contextmanager
def server(law: Callable[[int], tuple[float, bytes]]) -> Iterator[tuple[str, Truth]]:
    truth = Truth(law)
    origin = Origin(truth.handle)
    try:
        yield f"{origin.url}/v1/chat", truth
    finally:
        origin.close()


class Lab:
    """A folder in which interviews are run."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.processes: list[subprocess.Popen[str]] = []

    def command(self, *words: str) -> list[str]:
        return [sys.executable, "-m", "drillmaster", "interview", *words]

    def run(self, *words: str, env: dict[str, str] | None = None, **more: Any) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            self.command(*words),
            cwd=self.folder,
            env={**os.environ, **(env or {})},
            capture_output=True,
            text=True,
            timeout=50,
            check=False,
            **more,
        )

    def start(self, *words: str) -> "subprocess.Popen[str]":
        process = subprocess.Popen(
            self.command(*words), cwd=self.folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        self.processes.append(process)
        return process

    @property
    def run_dir(self) -> Path:
        [found] = (path for path in (self.folder / "runs").iterdir() if path.is_dir())
        return found

    def read(self) -> InterviewRun:
        return open_interview_run(self.run_dir)

    def file(self, name: str = "interview.json") -> dict[str, Any]:
        found: dict[str, Any] = json.loads((self.folder / name).read_text())
        return found

    def rows(self, name: str = "interview.json") -> dict[str, dict[str, Any]]:
        return {row["label"]: row for row in self.file(name)["results"]}

    def events(self) -> list[dict[str, Any]]:
        text = (self.run_dir / "events" / "load.jsonl").read_text()
        return [json.loads(line) for line in text.splitlines() if line]

    def wait_for(self, event: str, within_s: float = 15, **fields: Any) -> None:
        until_s = time.monotonic() + within_s
        while time.monotonic() < until_s:
            with contextlib.suppress(OSError, ValueError):
                if any(row["event"] == event and fields.items() <= row.items() for row in self.events()):
                    return
            time.sleep(0.02)
        raise AssertionError(f"no {event} within {within_s} s")


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[Lab]:
    lab = Lab(tmp_path)
    try:
        yield lab
    finally:
        for process in lab.processes:
            if process.poll() is None:
                process.kill()
            process.communicate()


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


def test_an_answer_that_no_other_call_would_better_refuses_the_ladder(lab: Lab) -> None:
    with server(lambda _: (0.0, answer(b"{}", b"401 Unauthorized"))) as (url, truth):
        done = lab.run(url, "--idle", "0")
    assert done.returncode == 2
    assert "status 401" in done.stderr
    assert "--header" in done.stderr
    assert truth.n == 1
    assert lab.read().ended == "refused"
    assert [level.label for level in lab.read().interview.levels] == ["cold"]


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


def test_one_interview_at_a_time_on_a_target(lab: Lab) -> None:
    with server(lambda _: (0.0, answer())) as (url, _):
        process = lab.start(url, "--idle", "20")
        lab.wait_for("idle_started")
        second = lab.run(url, "--idle", "0")
        assert process.poll() is None
    assert second.returncode == 2
    assert "one drill or interview at a time" in second.stderr


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
    ],
)  # fmt: skip
def test_what_cannot_work_is_refused_before_anything_is_sent(lab: Lab, words: tuple[str, ...]) -> None:
    with server(lambda _: (0.0, answer())) as (url, truth):
        done = lab.run(url, "--idle", "0", *words)
    assert done.returncode == 2, done.stdout
    assert truth.n == 0
    assert "wanted" in done.stderr
    assert not (lab.folder / "runs").exists()


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
    finally:
        origin.close()
    assert "REHEARSAL" in lab.read().manifest.stamps  # nobody sits anywhere
    level = lab.read().interview.level("warm_c3")
    assert level is not None
    assert (level.n, level.failures) == (12, 0)
    _, cold = read_samples((lab.run_dir / "samples.cold.bin").read_bytes())
    assert cold.rows[0].connect_ns > 0
    assert cold.rows[0].tls_ns > 0
    assert other.returncode == 2
    assert "a certificate that ca_file trusts" in other.stderr


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
