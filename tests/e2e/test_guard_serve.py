"""`guard serve` as a process: over sockets, with a store that dies, under signals, read by a real Prometheus."""

import asyncio
import contextlib
import http.client
import json
import os
import resource
import signal
import socket
import stat
import subprocess
import time
import urllib.request
from pathlib import Path

import pytest

from drillmaster.adapters.worker.serving import listen
from drillmaster.errors import Problem
from drillmaster.evidence import Row, rows
from drillmaster.timeline import chunks
from tests.e2e.guardlab import CLI, QUOTA, RETRY, Served, prepared, served, write_guards
from tests.e2e.redislab import redis_server

pytestmark = pytest.mark.e2e

CALL = {"partner": "ledger", "identity": "acct-7"}
FAILED = {"source": "pinned-map", "protocol": "http", "method": "GET", "code": 503, "attempt": 1, "elapsed_ms": 5}
EVENT = {
    "path_known": True,
    "method": "POST",
    "complete": True,
    "signature": "matched",
    "document": "usable",
    "stored": "new",
}
TOKEN = "0123456789abcdef0123456789abcdef"


def raw(port: int, data: bytes, within_s: float = 5) -> bytes:
    """Send bytes, and read until the server ends."""
    with socket.create_connection(("127.0.0.1", port), timeout=within_s) as wire:
        wire.sendall(data)
        got = b""
        while piece := wire.recv(65_536):
            got += piece
        return got


def test_the_same_decision_comes_from_a_server_from_the_command_line_and_from_python(tmp_path: Path) -> None:
    from drillmaster.adapters.worker.guarding import Guarding
    from drillmaster.guards.retry import FailedCall

    python = Guarding.open(write_guards(tmp_path / "guards.json"), store=prepared(tmp_path))
    with served(tmp_path) as server:
        for change in (
            {},
            {"code": 400},
            {"attempt": 3},
            {"method": "POST"},
            {"asked_wait_ms": 9_000},
            {"jitter": 0.25},
        ):
            facts = {**FAILED, **change}
            status, told = server.ask("retry", facts)
            ran = subprocess.run(
                [*CLI, "guard", "retry", "--explain", "-", "--guards", "guards.json", "--json"],
                input=json.dumps(facts), cwd=tmp_path, capture_output=True, text=True, timeout=60,
            )  # fmt: skip  # a command
            shown = json.loads(ran.stdout)
            decided = python.decide("retry", FailedCall(**facts))
            for one in ("allowed", "reason", "wait_ms"):
                assert told[one] == shown[one] == getattr(decided, one), facts
            assert (status, ran.returncode) == ((200, 0) if decided.allowed else (403, 1))


@pytest.mark.needs("redis-server")
def test_a_store_that_dies_denies_at_once_and_allows_again_when_it_is_back(tmp_path: Path) -> None:
    import redis as library

    from drillmaster.stores.opening import open_store

    with redis_server() as redis:
        with contextlib.closing(open_store(redis.url)) as store:
            store.prepare()
        with served(tmp_path, store=redis.url) as server:
            assert server.ask("quota", CALL)[0] == 200
            redis.kill()
            status, told = server.ask("quota", CALL)
            assert (status, told["allowed"], told["reason"]) == (503, False, "store-unavailable")
            assert server.ask("webhook", EVENT)[0] == 200  # it asks no store
            redis.start()
            assert server.ask("quota", CALL)[0] == 200
            assert redis.process is not None
            redis.process.send_signal(signal.SIGSTOP)
            began = time.monotonic()
            status, told = server.ask("quota", CALL)
            took_s = time.monotonic() - began
            redis.process.send_signal(signal.SIGCONT)
            assert (status, told["allowed"]) == (503, False)
            assert took_s < 2  # 0.5 of the store's
            with contextlib.closing(library.Redis(unix_socket_path=str(redis.socket))) as client:
                client.flushall()  # it comes back empty: nobody may take that for a store in which nothing was spent
                client.client_kill_filter(_type="normal", skipme=True)
            assert server.ask("quota", CALL)[0] == 503


def test_hundreds_of_connections_stay_open_and_each_is_answered_in_order(tmp_path: Path) -> None:
    body = json.dumps(EVENT).encode()
    head = (
        b"POST /v1/webhook HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n"
        % len(body)
    )

    async def client(port: int, rounds: int, together: asyncio.Barrier) -> list[bytes]:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        await together.wait()  # all are open before the first one asks
        seen = []
        for _ in range(rounds):
            writer.write(head + body)
            answer = await reader.readuntil(b"\r\n\r\n")
            length = int(answer.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0])
            seen.append(answer.partition(b"\r\n")[0] + (await reader.readexactly(length))[:15])
        writer.close()
        return seen

    async def all_of_them(port: int) -> list[list[bytes]]:
        together = asyncio.Barrier(400)
        return await asyncio.gather(*(client(port, 5, together) for _ in range(400)))

    with served(tmp_path, "--allowed-share", "0") as server:
        found = asyncio.run(all_of_them(server.port))
        assert {answer for one in found for answer in one} == {b'HTTP/1.1 200 OK{"allowed":true'}
        _, text = server.ask("/metrics", None, method="GET")
        assert 'reason="accepted",allowed="true"} 2000' in text


def test_files_enough_for_its_connections_are_asked_for(tmp_path: Path) -> None:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (256, before[1]))
    try:
        with served(tmp_path, "--connections", "600") as server:
            assert resource.prlimit(server.process.pid, resource.RLIMIT_NOFILE)[0] >= min(600, before[1])
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


def test_a_stores_url_may_come_from_the_environment(tmp_path: Path) -> None:
    url = prepared(tmp_path)
    with served(tmp_path, store="", env={"DRILLMASTER_GUARD_STORE": url}) as server:
        assert server.ask("quota", CALL)[0] == 200
        assert url.encode() not in Path(f"/proc/{server.process.pid}/cmdline").read_bytes()


def test_a_store_that_gives_no_answer_is_told_at_the_start_and_served_all_the_same(tmp_path: Path) -> None:
    with served(tmp_path, store=f"sqlite:{tmp_path}/none.db") as server:
        assert "drillmaster store prepare sqlite:" in server.said()
        assert server.ask("quota", CALL)[0] == 503


def test_who_sends_slowly_or_too_much_is_turned_away_and_holds_nobody_up(tmp_path: Path) -> None:
    with served(tmp_path, "--read-within-s", "0.3", "--connections", "4") as server:
        assert b" 408 " in raw(server.port, b"POST /v1/retry HTTP/1.1\r\nhost: localhost\r\n")
        head = b"POST /v1/retry HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
        assert b" 408 " in raw(server.port, head + b"content-length: 10\r\n\r\n{")
        assert b" 413 " in raw(server.port, head + b"content-length: 10000000\r\n\r\n{")
        slow = [socket.create_connection(("127.0.0.1", server.port)) for _ in range(4)]
        time.sleep(0.1)
        with pytest.raises((http.client.HTTPException, ConnectionError)):
            server.ask("retry", FAILED)  # one too many
        for wire in slow:
            wire.close()
        time.sleep(0.1)
        assert server.ask("retry", FAILED)[0] == 200


@pytest.mark.needs("redis-server")
def test_clients_that_connect_and_say_nothing_keep_the_places_no_longer_than_a_request_may_take(tmp_path: Path) -> None:
    with served(tmp_path, "--connections", "8", "--read-within-s", "0.5") as server, contextlib.ExitStack() as stack:
        for _ in range(8):
            stack.enter_context(socket.create_connection(("127.0.0.1", server.port)))
        time.sleep(1.2)
        assert server.ask("webhook", EVENT)[0] == 200


def test_at_sigterm_what_was_begun_is_answered_and_nobody_new_is_let_in(tmp_path: Path) -> None:
    from drillmaster.stores.opening import open_store

    with redis_server() as redis:
        with contextlib.closing(open_store(redis.url)) as store:
            store.prepare()
        with served(tmp_path, "--store-within-s", "1.5", store=redis.url) as server:
            idle = http.client.HTTPConnection("127.0.0.1", server.port, timeout=10)
            idle.request("GET", "/healthz")
            idle.getresponse().read()
            assert redis.process is not None
            redis.process.send_signal(signal.SIGSTOP)
            waiting = http.client.HTTPConnection("127.0.0.1", server.port, timeout=10)
            waiting.request("POST", "/v1/quota", json.dumps(CALL), {"content-type": "application/json"})
            time.sleep(0.3)
            server.process.send_signal(signal.SIGTERM)
            time.sleep(0.2)
            with pytest.raises(OSError):  # refused, or reset
                socket.create_connection(("127.0.0.1", server.port), timeout=2).recv(1)
            answer = waiting.getresponse()
            assert (answer.status, json.loads(answer.read())["allowed"]) == (503, False)
            assert answer.headers["connection"] == "close"
            redis.process.send_signal(signal.SIGCONT)
            assert server.process.wait(10) == 0
            idle.close()
            waiting.close()


def test_at_sighup_the_file_is_read_again_and_a_bad_one_leaves_the_last_good_one(tmp_path: Path) -> None:
    with served(tmp_path) as server:
        first = server.ask("/healthz", None, method="GET")[1]["digest"]
        write_guards(tmp_path / "guards.json", {**RETRY, "max_calls": 1}, QUOTA)
        server.process.send_signal(signal.SIGHUP)
        assert "reloaded" in server.said()
        assert server.ask("retry", FAILED)[1]["reason"] == "budget-exhausted"
        second = server.ask("/healthz", None, method="GET")[1]["digest"]
        assert second != first
        for change in ({"owner": ""}, {"review_by": "2020-01-01"}, {"guards": [{**RETRY, "max_calls": "1"}]}):
            write_guards(tmp_path / "guards.json", **change)
            server.process.send_signal(signal.SIGHUP)
            assert "not reloaded" in server.said()
        (tmp_path / "guards.json").write_text("{")
        server.process.send_signal(signal.SIGHUP)
        assert "not reloaded" in server.said()
        assert server.ask("/healthz", None, method="GET")[1]["digest"] == second
        assert 'reloads_total{taken="false"} 4' in server.ask("/metrics", None, method="GET")[1]
        assert server.ask("retry", FAILED)[1]["reason"] == "budget-exhausted"


def test_beyond_loopback_a_token_has_to_be_known(tmp_path: Path) -> None:
    words = ("--allow-host", "0.0.0.0")
    with served(tmp_path, *words, listen="0.0.0.0:0", env={"DRILLMASTER_GUARD_TOKEN": TOKEN}) as server:
        for token, status in (("", 401), (TOKEN[:-1], 401), (TOKEN, 200)):
            code, told = server.ask("retry", FAILED, token=token)
            assert (code, told["allowed"]) == (status, status == 200)
        assert server.ask("/metrics", None, method="GET")[0] == 401
        assert server.ask("/healthz", None, method="GET")[0] == 200
        environ = Path(f"/proc/{server.process.pid}/cmdline").read_bytes()
        assert TOKEN.encode() not in environ  # it is in no command line


def test_a_socket_file_is_for_this_user_alone_and_a_live_one_is_not_taken(short_dir: Path, tmp_path: Path) -> None:
    path = short_dir / "g.sock"
    with served(tmp_path, listen=f"unix:{path}") as server:
        assert server.address == f"unix:{path}"
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        with socket.socket(socket.AF_UNIX) as wire:
            wire.connect(str(path))
            wire.sendall(b"GET /healthz HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n")
            assert wire.recv(65_536).startswith(b"HTTP/1.1 200 ")
        second = subprocess.run(
            [*CLI, "guard", "serve", "--guards", "guards.json", "--store", "sqlite:store.db", "--listen", f"unix:{path}"],
            cwd=tmp_path, capture_output=True, text=True, timeout=30,
        )  # fmt: skip  # a command
        assert second.returncode == 2
        assert "a path that cannot be had" in second.stderr
    with served(tmp_path, listen=f"unix:{path}"):  # the one before was killed and left its file
        assert path.exists()


def test_a_socket_file_is_taken_by_one_of_two_that_start_at_once(short_dir: Path) -> None:
    path = short_dir / "g.sock"
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(path))  # and it never listens: left behind
    first, _ = listen(f"unix:{path}")  # it is bound, and its event loop has not begun
    with contextlib.closing(first):
        with pytest.raises(Problem, match="a path that cannot be had"):
            listen(f"unix:{path}")
        with socket.socket(socket.AF_UNIX) as wire:
            wire.connect(str(path))


def test_a_port_is_taken_by_one_of_two_that_start_at_once() -> None:
    first, name = listen("127.0.0.1:0")
    with contextlib.closing(first), pytest.raises(Problem, match="a port that cannot be had"):
        listen(name.removeprefix("http://"))


def test_a_browsers_page_by_its_own_name_reads_nothing(tmp_path: Path) -> None:
    head = b"GET %b HTTP/1.1\r\nhost: evil.example:8787\r\n\r\n"
    with served(tmp_path) as server:
        for path in (b"/healthz", b"/metrics", b"/v1"):
            assert raw(server.port, head % path).startswith(b"HTTP/1.1 421 ")
    with served(tmp_path, env={"DRILLMASTER_GUARD_TOKEN": TOKEN}) as server:  # no page has the token
        assert raw(server.port, head % b"/metrics").startswith(b"HTTP/1.1 401 ")


def test_decisions_of_several_processes_are_whole_lines_of_one_file(tmp_path: Path) -> None:
    log = tmp_path / "timeline.jsonl"
    with served(tmp_path, "--log", str(log)) as one, served(tmp_path, "--log", str(log)) as other:
        worker = subprocess.Popen(
            [
                *CLI[:1],
                "-c",
                "from drillmaster.adapters.worker.guarding import Guarding\n"
                "from drillmaster.guards.retry import FailedCall\n"
                "guards = Guarding.open('guards.json', store='sqlite:store.db')\n"
                "for _ in range(300):\n"
                "    guards.decide('retry', FailedCall(source='pinned-map', protocol='http', method='GET', code=503,"
                " attempt=1, elapsed_ms=1), route='worker')\n",
            ],
            cwd=tmp_path,
            env={**os.environ, "DRILL_LOG": str(log)},
        )
        for _ in range(100):
            one.ask("retry?route=one", FAILED)
            other.ask("retry?route=other", {**FAILED, "code": 400})
        assert worker.wait(60) == 0
    found = list(rows(chunks(log), file="timeline.jsonl"))
    assert all(isinstance(row, Row) for row in found)
    routes = [row.fields["route"] for row in found if isinstance(row, Row)]
    assert {route: routes.count(route) for route in set(routes)} == {"worker": 300, "one": 100, "other": 100}
    assert max(len(line) for line in log.read_bytes().splitlines()) <= 4_096


def test_a_payload_is_in_no_line_no_metric_and_no_complaint(tmp_path: Path) -> None:
    log, payload = tmp_path / "timeline.jsonl", "Dear Sir, my card number is 4111"
    with served(tmp_path, "--log", str(log)) as server:
        server.ask("retry", {**FAILED, "body": payload})
        server.ask("retry", {**FAILED, "method": payload})
        server.ask("retry", {**FAILED, "idempotency_key": payload})
        server.ask("quota", {**CALL, "partner": payload})
        server.ask("quota", payload)
        metrics = server.ask("/metrics", None, method="GET")[1]
        server.process.send_signal(signal.SIGTERM)
        _, err = server.process.communicate(timeout=10)
    for text in (log.read_text(), metrics, err):
        assert "Dear" not in text
        assert "4111" not in text


@pytest.mark.needs("promtool")
@pytest.mark.needs("prometheus")
def test_a_real_prometheus_takes_the_metrics_and_counts_the_denials(tmp_path: Path) -> None:
    with served(tmp_path) as server:
        for code in (503, 503, 400):
            server.ask("retry", {**FAILED, "code": code})
        server.ask("nope", {})
        text = server.ask("/metrics", None, method="GET")[1]
        checked = subprocess.run(
            ["promtool", "check", "metrics"], input=text, capture_output=True, text=True, timeout=30
        )
        assert (checked.returncode, checked.stdout + checked.stderr) == (0, "")
        assert _asked_of_prometheus(tmp_path, server) == {
            ("pinned-status", "true"): "2",
            ("status-not-retryable", "false"): "1",
        }


def _asked_of_prometheus(folder: Path, server: Served) -> dict[tuple[str, str], str]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    (folder / "prometheus.yml").write_text(
        "global: {scrape_interval: 200ms, scrape_timeout: 200ms}\n"
        f"scrape_configs: [{{job_name: guards, static_configs: [{{targets: ['127.0.0.1:{server.port}']}}]}}]\n"
    )
    process = subprocess.Popen(
        ["prometheus", "--config.file=prometheus.yml", "--storage.tsdb.path=data", f"--web.listen-address=127.0.0.1:{port}"],
        cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip  # a command
    url = f"http://127.0.0.1:{port}/api/v1/query?query=drillmaster_guard_decisions_total"
    try:
        ends = time.monotonic() + 40
        while time.monotonic() < ends:
            with contextlib.suppress(OSError):
                with urllib.request.urlopen(url, timeout=2) as answer:
                    found = json.loads(answer.read())["data"]["result"]
                if len(found) == 2:
                    return {(one["metric"]["reason"], one["metric"]["allowed"]): one["value"][1] for one in found}
            time.sleep(0.2)
        raise AssertionError("Prometheus has no such series")
    finally:
        process.terminate()
        process.wait(20)


EVERY: dict[str, tuple[dict[str, object], dict[str, object]]] = {
    "cache-key": (
        {"types": [{"name": "cart", "version": 3, "fields": [{"name": "id", "kind": "id"}]}]},
        {"key": "Dear Sir", "tenant": "acme-corp"},
    ),
    "draft": ({"lanes": {"drafting": ["explain_log"]}, "max_chars": 500}, {"lane": "lab", "draft": {"action": "hold"}}),
    "lease": (
        {"lease": "nightly-export", "ttl_ms": 30_000, "may_steal": []},
        {"action": "acquire", "source": "lock-client", "holder": "h1", "by": "worker-1", "fencing_token": None},
    ),
    "memory": (
        {"grants": {"runner": ["plan"]}, "max_bytes": 100, "personal": "refuse"},
        {"lane": "runner", "path": "x", "leads": "x", "found": "nothing", "bytes": 1, "secrets": 0, "personal": 0, "unread": 0},
    ),
    "quota": ({**QUOTA}, {**CALL}),
    "retry": ({**RETRY}, {**FAILED}),
    "tools": (
        {
            "privileges": ["fs.read"], "granted": [], "wire": "not compared", "max_compared_ms": 0, "max_arguments_bytes": 100,
            "max_calls": 1,
        },
        {"asks": "call", "list_sha256": ""},
    ),
    "webhook": ({"scheme": "github", "max_body_bytes": 1_000, "read_within_ms": 1_000}, {**EVENT}),
}  # fmt: skip  # a table


def test_every_kind_of_guard_is_served_with_a_law_and_without_and_says_no_to_what_is_none(tmp_path: Path) -> None:
    entries = [{**limits, "guard": tag} for tag, (limits, _) in EVERY.items()]
    write_guards(tmp_path / "guards.json", *entries)
    with served(tmp_path) as server:
        reasons = {row["name"]: row["reasons"] for row in server.ask("/v1", None, method="GET")[1]}
        for tag, (_, facts) in EVERY.items():
            status, told = server.ask(tag, facts)
            assert (status == 200) is told["allowed"], tag
            assert told["reason"] in reasons[tag], tag
            assert server.ask(tag, {**facts, "prompt": "x"})[1]["reason"] == "facts-unusable"
        assert server.ask("lease", EVERY["lease"][1])[1]["reason"] in ("held", "granted")
        told = server.ask("lease", {**EVERY["lease"][1], "holder": "h2"})[1]
        assert (told["allowed"], told["reason"]) == (False, "held")


@pytest.mark.needs("postgres")
def test_a_quota_in_postgresql_is_one_for_all_servers(tmp_path: Path) -> None:
    from drillmaster.stores.opening import open_store
    from tests.e2e.pglab import postgres

    with postgres() as url:
        with contextlib.closing(open_store(url)) as store:
            store.prepare()
        write_guards(tmp_path / "guards.json", {**QUOTA, "max_per_window": 5})
        with served(tmp_path, store=url) as one, served(tmp_path, store=url) as other:
            statuses = [(one if n % 2 else other).ask("quota", CALL)[0] for n in range(7)]
    assert statuses == [200] * 5 + [403] * 2
