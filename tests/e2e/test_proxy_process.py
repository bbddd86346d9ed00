"""The proxy as a process: who may order, what it does when things run out, and that no fault outlives its owner."""

import contextlib
import json
import os
import resource
import shutil
import signal
import socket
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from drillmaster.errors import Problem, Refused
from drillmaster.proxy.remote import ask
from tests.e2e.wirelab import CHAT, Origin, ProxyProcess, Reader, plain_answer, post, proxy

pytestmark = pytest.mark.e2e

TOKEN = "a-token-of-some-length-0123"


@pytest.fixture
def origin() -> Iterator[Origin]:
    one = Origin(plain_answer)
    yield one
    one.close()


def answers(port: int, host: str = "127.0.0.1") -> int | None:
    """The status of one request; None when the connection was reset or closed."""
    with socket.create_connection((host, port), 10) as sock, contextlib.suppress(ConnectionError):
        sock.sendall(post(b"{}"))
        answer = Reader(sock).answer()
        return None if answer is None else answer.status
    return None


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_lifts_lets_answers_finish_and_ends_with_0(tmp_path: Path, origin: Origin, number: int) -> None:
    with proxy(tmp_path, upstream=origin.url) as ours:
        ours.inject("hang")
        with ours.connect() as sock:
            sock.sendall(post())
            ours.wait_rows("fault_met")
            ours.process.send_signal(number)
            assert ours.process.wait(10) == 0
            with pytest.raises(ConnectionResetError):
                sock.recv(1)
        assert ours.rows("fault_lifted")[0]["why"] == "signal"
        assert ours.rows("attempt")[0]["end"] == "lifted"
        assert ours.rows()[-1]["event"] == "proxy_ended"
        assert not Path(ours.control).exists()


def test_quit_lifts_and_ends_with_0(tmp_path: Path, origin: Origin) -> None:
    with proxy(tmp_path, upstream=origin.url) as ours:
        ours.inject("reset")
        assert ours.ask("POST", "/quit", {}) == {"ending": True}
        assert ours.process.wait(10) == 0
        assert ours.rows("fault_lifted")[0]["why"] == "exit"


def test_an_answer_under_way_is_finished_before_the_end(tmp_path: Path) -> None:
    def slow(reader: Reader, sock: socket.socket) -> None:
        while reader.request() is not None:
            time.sleep(0.5)
            sock.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")

    origin = Origin(slow)
    with proxy(tmp_path, upstream=origin.url) as ours, ours.connect() as sock:
        sock.sendall(post())
        ours.until(lambda state: state["counts"]["in_flight"] == 1)
        ours.process.terminate()
        answer = Reader(sock).answer()
        assert answer is not None
        assert answer.body == b"ok"
        assert ours.process.wait(10) == 0
    origin.close()


@pytest.mark.needs("curl")
def test_the_control_socket_is_for_this_user_alone(tmp_path: Path, origin: Origin) -> None:
    open_folder = Path(tempfile.mkdtemp(prefix="drillmaster-control-"))
    try:
        control = str(open_folder / "c.sock")
        with proxy(tmp_path, upstream=origin.url, control_path=control) as ours:
            assert stat.S_IMODE(os.stat(control).st_mode) == 0o600
            if os.getuid() != 0:
                pytest.skip("needs root to become somebody else")
            os.chmod(control, 0o666)  # even an open socket is not enough: the peer's uid is looked at
            open_folder.chmod(0o755)
            curl = [shutil.which("curl") or "curl", "-s", "-m", "5", "--unix-socket", control, "http://x/state"]
            assert subprocess.run(curl, capture_output=True).stdout != b""
            other = subprocess.run(curl, user=65534, capture_output=True)
            assert other.stdout == b""
            assert other.returncode in (7, 52, 56)  # closed in its face, sooner or later
            assert ours.state()["mode"] == "pass"
    finally:
        shutil.rmtree(open_folder)


def test_control_over_tcp_wants_the_token(tmp_path: Path, origin: Origin) -> None:
    token = tmp_path / "token"
    token.write_text(TOKEN + "\n")
    token.chmod(0o600)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    settings = {"upstream": origin.url, "control_port": port, "token_file": str(token), "port": 0}
    process = subprocess.Popen([sys.executable, "-m", "drillmaster.proxy", json.dumps(settings)])
    try:
        where = f"127.0.0.1:{port}"
        give_up = time.monotonic() + 10
        while True:
            try:
                assert ask(where, "GET", "/state", token=TOKEN)["mode"] == "pass"
                break
            except Refused:
                raise
            except Problem:
                assert time.monotonic() < give_up
                time.sleep(0.05)
        for wrong in (None, "", TOKEN[:-1], TOKEN + "x"):
            with pytest.raises(Refused, match="token"):
                ask(where, "POST", "/inject", {"window": "w", "fault": "reset", "ttl_s": 5}, token=wrong)
        assert ask(where, "GET", "/state", token=TOKEN)["mode"] == "pass"
    finally:
        process.terminate()
        assert process.wait(10) == 0


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"upstream": "ftp://x"}, "http or https"),
        ({"upstream": "http://user:pass@x"}, "user info"),
        ({"mode": "rest"}, "did you mean reset"),
        ({"control_port": 0}, "token"),
        ({"upstream": "https://x", "upstream_ca": "/no/such"}, "upstream-ca"),
        ({"port": 1, "host": "203.0.113.7"}, "an address of this machine"),
        ({"unknown": 1}, "unknown"),
        ({"events": "/no/such/folder/x.jsonl"}, "found"),
        ({"token_file": "/etc/passwd"}, "chmod 600"),
    ],
)
def test_settings_that_cannot_work_are_told_in_one_line(settings: dict[str, object], words: str) -> None:
    argv = [sys.executable, "-m", "drillmaster.proxy", json.dumps({"port": 0, **settings})]
    out = subprocess.run(argv, capture_output=True, text=True, timeout=20)
    assert out.returncode == 2
    assert words in out.stderr
    assert len(out.stderr.splitlines()) == 1
    assert "pass@" not in out.stderr


def test_a_taken_port_is_told(origin: Origin) -> None:
    argv = [sys.executable, "-m", "drillmaster.proxy", json.dumps({"port": origin.port})]
    out = subprocess.run(argv, capture_output=True, text=True, timeout=20)
    assert out.returncode == 2
    assert "Address already in use" in out.stderr


def test_out_of_descriptors_it_turns_clients_away_says_so_and_lives(tmp_path: Path, origin: Origin) -> None:
    def few() -> None:
        resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))

    with proxy(tmp_path, upstream=origin.url, preexec=few) as ours:
        ours.inject("hang", ttl_s=60)
        socks = []
        for _ in range(120):
            with contextlib.suppress(ConnectionError):  # turned away, sooner or later
                socks.append(ours.connect())
                socks[-1].sendall(post())
        exhausted = ours.wait_rows("descriptors_exhausted")
        assert exhausted[0]["refused"] > 0
        state = ours.state()  # the control door is not shut by a flood
        assert state["counts"]["refused_connections"] > 40
        assert state["counts"]["held"] > 20
        ours.lift()
        for sock in socks:
            sock.close()
        ours.until(lambda state: state["counts"]["in_flight"] == 0)
        assert answers(ours.port) == 200
        assert ours.process.poll() is None


def test_the_soft_descriptor_limit_is_raised_to_the_hard_one(tmp_path: Path, origin: Origin) -> None:
    def low() -> None:
        resource.setrlimit(resource.RLIMIT_NOFILE, (64, 4_096))

    with proxy(tmp_path, upstream=origin.url, preexec=low) as ours:
        limits = Path(f"/proc/{ours.process.pid}/limits").read_text()
        assert [line.split()[3:5] for line in limits.splitlines() if "open files" in line] == [["4096", "4096"]]


def test_kill_9_of_the_owner_heals_within_the_ttl_and_the_orphan_ends_when_idle(tmp_path: Path, origin: Origin) -> None:
    control, events = str(tmp_path / "c.sock"), tmp_path / "proxy.jsonl"
    settings = {
        "port": 0,
        "upstream": origin.url,
        "control_path": control,
        "events": str(events),
        "orphan_grace_s": 1.5,
    }
    owner_code = (
        "import json, os, subprocess, sys, time\n"
        "from drillmaster.proxy.remote import ask\n"
        "settings = json.loads(sys.argv[1]) | {'owner_pid': os.getpid()}\n"
        "p = subprocess.Popen([sys.executable, '-m', 'drillmaster.proxy', json.dumps(settings)])\n"
        "while not os.path.exists(settings['control_path']): time.sleep(0.02)\n"
        "time.sleep(0.2)\n"
        "ask(settings['control_path'], 'POST', '/inject', {'window': 'w', 'fault': 'reset', 'ttl_s': 2})\n"
        "print(p.pid, flush=True)\n"
        "while True:\n"
        "    time.sleep(0.5)\n"
        "    ask(settings['control_path'], 'POST', '/renew', {'window': 'w', 'ttl_s': 2})\n"
    )
    owner = subprocess.Popen(
        [sys.executable, "-c", owner_code, json.dumps(settings)], stdout=subprocess.PIPE, text=True
    )
    assert owner.stdout is not None
    with owner.stdout:
        pid = int(owner.stdout.readline())
        port = int(ask(control, "GET", "/state")["listen"].rpartition(":")[2])
        time.sleep(2.5)
        assert answers(port) is None  # renewed past its first deadline
        owner.kill()
        owner.wait()
        killed = time.monotonic()
        while answers(port) is None:
            assert time.monotonic() - killed < 5
            time.sleep(0.1)
        assert answers(port) == 200
        give_up = time.monotonic() + 10
        while Path(f"/proc/{pid}").exists() and time.monotonic() < give_up:
            if Path(f"/proc/{pid}/stat").read_text().split()[2] == "Z":
                break
            time.sleep(0.1)
        else:
            assert time.monotonic() < give_up
    rows = [json.loads(line) for line in events.read_bytes().splitlines() if line]
    assert [row["why"] for row in rows if row["event"] == "fault_lifted"] == ["expired"]
    assert rows[-1] == {**rows[-1], "event": "proxy_ended", "why": "orphaned"}


def test_a_listening_socket_is_inherited_and_outlives_the_proxy(tmp_path: Path, origin: Origin) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        for name in ("a", "b"):
            (tmp_path / name).mkdir()
            ours = ProxyProcess(tmp_path / name, upstream=origin.url, listen_fd=listener.fileno())
            assert ours.port == port
            assert answers(port) == 200
            ours.process.kill()
            ours.process.wait()
            # Nobody accepts just now, but nobody is refused: the next proxy will.
            socket.create_connection(("127.0.0.1", port), 5).close()


def test_a_restarted_proxy_goes_on_in_the_same_file_and_passes_through(tmp_path: Path, origin: Origin) -> None:
    first = ProxyProcess(tmp_path, upstream=origin.url)
    first.inject("reset")
    first.process.kill()
    first.process.wait()
    with proxy(tmp_path, upstream=origin.url) as second:
        assert answers(second.port) == 200
        assert second.state()["mode"] == "pass"
        assert len(second.rows("proxy_started")) == 2
        ids = [row["id"] for row in second.wait_rows("attempt")]
        assert len(ids) == len(set(ids))


def test_when_evidence_cannot_be_written_the_fault_is_lifted_and_traffic_passes(tmp_path: Path, origin: Origin) -> None:
    def small() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (3_000, 3_000))

    with proxy(tmp_path, upstream=origin.url, preexec=small) as ours:
        ours.inject("503", ttl_s=60)
        for _ in range(12):
            status = answers(ours.port)
            assert status in (200, 503)
        assert answers(ours.port) == 200
        state = ours.state()
        assert (state["mode"], state["evidence"]) == ("pass", "lost")
        assert state["counts"]["evidence_lost"] > 0
        with pytest.raises(Refused, match="evidence"):
            ours.inject("503", "w2")
        assert ours.state()["mode"] == "pass"
        ours.ask("POST", "/quit", {})
        assert ours.process.wait(10) == 2


@pytest.mark.needs("ip")
def test_an_agent_in_another_network_namespace_reaches_listen_and_never_control(tmp_path: Path, origin: Origin) -> None:
    ip = shutil.which("ip") or "/usr/sbin/ip"
    name = f"dm{os.getpid()}"
    made = subprocess.run([ip, "netns", "add", name], capture_output=True, text=True)
    if made.returncode:
        pytest.skip(f"needs the right to make a network namespace: {made.stderr.strip()}")
    near, far = f"v{os.getpid()}a"[:15], f"v{os.getpid()}b"[:15]
    try:
        for argv in (
            ["link", "add", near, "type", "veth", "peer", "name", far, "netns", name],
            ["addr", "add", "10.213.7.1/24", "dev", near],
            ["link", "set", near, "up"],
            ["-n", name, "addr", "add", "10.213.7.2/24", "dev", far],
            ["-n", name, "link", "set", far, "up"],
        ):
            subprocess.run([ip, *argv], check=True, capture_output=True)
        token = tmp_path / "token"
        token.write_text(TOKEN + "\n")
        token.chmod(0o600)
        code = (
            "import socket, sys\n"
            "s = socket.create_connection(('10.213.7.1', int(sys.argv[1])), 5)\n"
            "s.sendall(b'GET / HTTP/1.1\\r\\nHost: x\\r\\nConnection: close\\r\\n\\r\\n')\n"
            "print(s.makefile('rb').read().decode()[:15])\n"
        )
        with socket.create_server(("127.0.0.1", 0)) as one, socket.create_server(("127.0.0.1", 0)) as two:
            port, control_port = one.getsockname()[1], two.getsockname()[1]
        command = [sys.executable, "-c", "from drillmaster.cli import main; main()", "proxy", "--upstream", origin.url]
        command += ["--listen", f"10.213.7.1:{port}", "--control", str(tmp_path / "c.sock")]
        command += ["--control-port", str(control_port), "--token-file", str(token)]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        assert process.stdout is not None
        try:
            assert f"10.213.7.1:{port}" in process.stdout.readline()
            inside = [ip, "netns", "exec", name, sys.executable, "-c", code]
            out = subprocess.run([*inside, str(port)], capture_output=True, text=True, timeout=20)
            assert out.stdout.startswith("HTTP/1.1 200")
            out = subprocess.run([*inside, str(control_port)], capture_output=True, text=True, timeout=20)
            assert "ConnectionRefused" in out.stderr
        finally:
            process.terminate()
            process.wait(10)
            process.stdout.close()
    finally:
        subprocess.run([ip, "link", "del", near], capture_output=True)
        subprocess.run([ip, "netns", "del", name], capture_output=True)


def run_verb(*argv: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", "from drillmaster.cli import main; main()", "proxy", *argv]
    return subprocess.run(command, capture_output=True, text=True, timeout=20)


def test_the_verb_passes_through_injects_lifts_and_shows(tmp_path: Path, origin: Origin) -> None:
    control = str(tmp_path / "c.sock")
    command = [sys.executable, "-c", "from drillmaster.cli import main; main()", "proxy", "--upstream", origin.url]
    command += ["--port", "0", "--control", control, "--mode", "reset", "--events", str(tmp_path / "e.jsonl")]
    with (tmp_path / "err").open("wb") as err:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=err, text=True)
    assert process.stdout is not None
    try:
        line = process.stdout.readline()
        port = int(line.split()[3].rstrip(",").rpartition(":")[2])
        assert line.startswith("proxy listening on 127.0.0.1:")
        assert answers(port) == 200
        out = run_verb("inject", "--control", control, "--mode", "reset", "--for", "30")
        assert (out.returncode, "reset is on for 30 s" in out.stdout) == (0, True)
        assert answers(port) is None
        out = run_verb("state", "--control", control, "--json")
        assert json.loads(out.stdout)["met"] == 1
        out = run_verb("lift", "--control", control)
        assert (out.returncode, "passing through" in out.stdout) == (0, True)
        assert answers(port) == 200
        out = run_verb("inject", "--control", control, "--mode", "nonsense")
        assert (out.returncode, "see: drillmaster fault list" in out.stderr) == (2, True)
    finally:
        process.terminate()
        assert process.wait(10) == 0
        process.stdout.close()
    said = (tmp_path / "err").read_text()
    for name in ("MODEL_BASE_URL=", "OPENAI_BASE_URL=", "ANTHROPIC_BASE_URL=", "drillmaster proxy inject"):
        assert name in said
    assert "reset one connection" in said


def test_the_verb_without_an_upstream_says_the_line_scripts_wait_for(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = [sys.executable, "-c", "from drillmaster.cli import main; main()", "proxy", "--host", "127.0.0.1"]
    command += ["--port", str(port), "--mode", "503", "--control", str(tmp_path / "c.sock")]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    assert process.stdout is not None
    try:
        assert process.stdout.readline() == f"dead proxy listening on 127.0.0.1:{port} mode=503\n"
        assert answers(port) == 503
    finally:
        process.terminate()
        assert process.wait(10) == 0
        process.stdout.close()


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (["--host", "0.0.0.0"], "--listen 0.0.0.0:8081"),
        (["--listen", "8081"], "ADDR:PORT"),
        (["--mode", "hnag"], "did you mean hang"),
        (["state", "--control", "/no/such.sock"], "drillmaster proxy --upstream URL"),
        (["--upstream", "localhost:80"], "http or https"),
    ],
)
def test_the_verb_tells_what_to_do(argv: list[str], words: str) -> None:
    out = run_verb(*argv)
    assert out.returncode == 2
    assert words in out.stderr
    assert "Traceback" not in out.stderr


def test_the_answer_of_an_origin_is_what_arrives(tmp_path: Path, origin: Origin) -> None:
    with proxy(tmp_path, upstream=origin.url) as ours, ours.connect() as sock:
        sock.sendall(post())
        answer = Reader(sock).answer()
        assert answer is not None
        assert answer.body == CHAT


def test_a_cap_on_requests_is_held_by_the_proxy_itself_and_ends_the_fault(tmp_path: Path) -> None:
    asked = 0

    def count(reader: Reader, sock: socket.socket) -> None:
        nonlocal asked
        while reader.request() is not None:
            asked += 1
            sock.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}")

    origin = Origin(count)
    with proxy(tmp_path, upstream=origin.url, max_requests=5) as ours, ours.connect() as sock:
        reader = Reader(sock)
        statuses = []
        for number in range(8):
            if number == 3:
                ours.inject("first-byte-delay", delay_ms=1)
            sock.sendall(post())
            answer = reader.answer()
            assert answer is not None
            statuses.append(answer.status)
        assert statuses == [200] * 5 + [503] * 3
        assert asked == 5
        assert ours.state()["counts"]["spend_refused"] == 3
        assert ours.state()["window"] is None
        assert [row["requests"] for row in ours.rows("spend_capped")] == [5]
    origin.close()
