"""The flag server as a process: kills on the disk, deadlines, hostile clients, its end."""

import json
import resource
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.conftest import find_program
from tests.e2e.flagslab import TOKENS, Lab, lab, until

pytestmark = pytest.mark.e2e


def test_a_kill_is_on_the_disk_before_it_is_said(short_dir: Path) -> None:
    with lab(short_dir) as server:
        for round_ in range(5):
            name = ("refund", "search")[round_ % 2]
            assert server.kill(name)[0] == 200
            server.signal(signal.SIGKILL)
            server.start()
            assert server.state(name) == "killed"
            assert server.restore(name)[0] == 200
            server.signal(signal.SIGKILL)
            server.start()
            assert server.state(name) == "off"


def test_a_secret_that_somebody_writes_down_lies_nowhere(short_dir: Path) -> None:
    key = "-".join(("sk", "proj", "abcdefghijklmnopqrstuvwxyz0123456789ABCD"))
    with lab(short_dir) as server:
        assert server.kill("refund", why=f"leaked {key}", by=f"Bearer {key}")[0] == 200
        assert server.enable("toolError", params={"message": f"with {key}"}, by=key)[0] == 200
        told = json.dumps([server.get(path)[1] for path in ("/flags", "/workers", "/healthz")])
        on_disk = "".join(path.read_text() for path in (server.events, server.log, short_dir / "kills.json"))
    assert key not in on_disk
    assert not any(token in told + on_disk for token in TOKENS.values())


def test_kills_that_cannot_be_read_kill_all_that_can_be(short_dir: Path) -> None:
    (short_dir / "kills.json").write_text('{"kind":"kills","ver')
    with lab(short_dir) as server:
        assert (server.state("refund"), server.state("search")) == ("killed", "killed")
        assert "all that can be killed is killed" in server.log.read_text()
        assert server.restore("refund")[0] == 200
        assert (server.state("refund"), server.state("search")) == ("off", "killed")


def test_a_kill_that_the_disk_does_not_take_kills_and_says_so(short_dir: Path) -> None:
    folder = short_dir / "gone"
    folder.mkdir()
    with lab(short_dir, kills_path=str(folder / "kills.json")) as server:
        (folder / "kills.json.lock").unlink()
        folder.rmdir()
        status, told = server.kill("refund")
        assert (status, told["durable"]) == (507, False)
        assert server.state("refund") == "killed"
        folder.mkdir()
        assert server.kill("refund")[0] == 200  # said again, it lasts
        assert json.loads((folder / "kills.json").read_text())["killed"][0]["capability"] == "refund"


def test_one_file_of_kills_has_one_server(short_dir: Path) -> None:
    with lab(short_dir) as server:
        settings = msgspec.structs.replace(server.settings, port=0, control_path=None, events=None)
        told = subprocess.run(
            [sys.executable, "-m", "drillmaster.flags", msgspec.json.encode(settings).decode()],
            capture_output=True,
            text=True,
            timeout=30,
            check=False,
        )
        assert (told.returncode, "another flag server" in told.stderr) == (2, True)


def test_two_who_enable_at_once_have_one_window(short_dir: Path) -> None:
    with lab(short_dir) as server:
        told: list[tuple[int, Any]] = []
        threads = [threading.Thread(target=lambda: told.append(server.enable("toolError"))) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert [status for status, _ in told] == [200] * 8
        assert len({body["window"] for _, body in told}) == 1
        assert len(server.lines("fault_injected")) == 1
        assert server.enable("toolError", share=0.5)[0] == 400  # not as it is on
        assert server.drive("/inject", {"window": "w", "flags": [{"flag": "toolError"}], "ttl_s": 5})[0] == 409


def test_a_window_that_nobody_renews_ends_and_the_evidence_says_so(short_dir: Path) -> None:
    with lab(short_dir) as server:
        order = {"window": "w", "flags": [{"flag": "toolError"}, {"flag": "tenfold"}], "ttl_s": 0.6}
        assert server.drive("/inject", order)[0] == 200
        for _ in range(4):
            time.sleep(0.3)
            assert server.drive("/renew", {"window": "w", "ttl_s": 0.6})[0] == 200
        renewed_s = time.monotonic()
        until(lambda: server.state("toolError") == "off")
        assert time.monotonic() - renewed_s < 1.5
        assert server.drive("/renew", {"window": "w", "ttl_s": 1})[0] == 404
        (lifted,) = server.lines("fault_lifted")
        assert (lifted["window"], lifted["why"]) == ("w", "expired")
        assert server.drive("/inject", order)[0] == 409  # a window's name is used once


def test_an_auto_off_ends_what_is_renewed(short_dir: Path) -> None:
    with lab(short_dir) as server:
        assert server.enable("brief")[1]["left_s"] <= 1
        until(lambda: server.state("brief") == "off", within_s=3)
        assert server.lines("fault_lifted")[0]["why"] == "expired"
        switched = [line for line in server.lines("flag_switched") if line["state"] == "off"]
        assert switched[0]["why"] in ("auto-off", "expired")


def test_a_server_that_is_told_to_end_lifts_first(short_dir: Path) -> None:
    with lab(short_dir) as server:
        server.enable("toolError")
        server.signal(signal.SIGTERM)
        assert server.process is not None
        assert server.process.wait(10) == 0
        assert [line["event"] for line in server.lines()][-2:] == ["fault_lifted", "flags_ended"]


def test_chaos_ends_with_whoever_started_the_server(short_dir: Path) -> None:
    lab_ = Lab(short_dir)
    program = (
        "import os, subprocess, sys, time, msgspec\n"
        "settings = msgspec.json.decode(sys.argv[1])\n"
        "settings['owner_pid'] = os.getpid()\n"
        "log = open(sys.argv[2], 'ab')\n"
        "child = subprocess.Popen([sys.executable, '-m', 'drillmaster.flags', msgspec.json.encode(settings).decode()],"
        " stdout=log, stderr=log, start_new_session=True)\n"
        "print(child.pid, flush=True); time.sleep(60)\n"
    )
    settings = msgspec.structs.replace(lab_.settings, orphan_grace_s=0.5)
    owner = subprocess.Popen(
        [sys.executable, "-c", program, msgspec.json.encode(settings).decode(), str(lab_.log)],
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert owner.stdout is not None
        pid = int(owner.stdout.readline())
        until(lambda: _there(lab_), what="the server's first answer")
        lab_.enable("toolError")
        owner.kill()
        owner.wait()
        owner.stdout.close()
        until(lambda: lab_.lines("fault_lifted"), what="the lift")
        assert lab_.lines("fault_lifted")[0]["why"] == "owner gone"
        until(lambda: not Path(f"/proc/{pid}").exists(), what="the server's end")
    finally:
        owner.kill()
        owner.wait()


def _there(server: Lab) -> bool:
    try:
        return server.get("/healthz")[0] == 200
    except OSError:
        return False


@pytest.mark.parametrize(
    "sent",
    [
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",  # TLS
        b"GET / HTTP/9.9\r\n\r\n",
        b"GET /flags HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
        b"POST /poll HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        b"POST /poll HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 99999999\r\n\r\n",
        b"POST /poll HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: 60000\r\n\r\n"
        + b"[" * 60_000,
        b"GET /" + b"a" * 20_000 + b" HTTP/1.1\r\n\r\n",
        b"GET /flags HTTP/1.1\r\n" + b"".join(b"x-%d: y\r\n" % n for n in range(4_000)) + b"\r\n",
        b"\n" * 100,
        bytes(range(256)) * 20,
    ],
)
def test_whatever_is_sent_the_server_lives_on(short_dir: Path, sent: bytes) -> None:
    with lab(short_dir) as server:
        with socket.create_connection(("127.0.0.1", server.port), timeout=5) as sock:
            sock.sendall(sent)
            sock.shutdown(socket.SHUT_WR)
            answer = b""
            try:
                while piece := sock.recv(65_536):
                    answer += piece
            except ConnectionError:
                pass
        assert not answer or answer.startswith(b"HTTP/1.1 4"), answer[:200]
        assert server.get("/healthz")[0] == 200


def test_many_requests_on_one_connection_are_answered_in_order(short_dir: Path) -> None:
    with lab(short_dir) as server:
        one = b"POST /ofrep/v1/evaluate/flags/%b HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 0\r\n\r\n"
        names = [b"tenfold", b"refund", b"search"] * 100
        with socket.create_connection(("127.0.0.1", server.port), timeout=5) as sock:
            sock.sendall(b"".join(one % name for name in names))
            answer = b""
            while answer.count(b'"metadata"') < len(names):
                answer += sock.recv(65_536)
        keys = [
            json.loads(part.split(b"\r\n\r\n")[1].split(b"HTTP/1.1")[0])["key"]
            for part in answer.split(b"HTTP/1.1 ")[1:]
        ]
        assert keys == [name.decode() for name in names]


def test_a_client_that_is_slow_holds_nobody_up(short_dir: Path) -> None:
    with lab(short_dir) as server:
        slow = [socket.create_connection(("127.0.0.1", server.port)) for _ in range(100)]
        for sock in slow:
            sock.sendall(b"POST /poll HTTP/1.1\r\nHost: x")
        began_s = time.monotonic()
        assert server.get("/flags")[0] == 200
        assert time.monotonic() - began_s < 1
        for sock in slow:
            sock.close()


def test_a_flagd_file_follows_the_state(short_dir: Path) -> None:
    path = short_dir / "flagd.json"
    with lab(short_dir, flagd_path=str(path)) as server:

        def says(name: str) -> str:
            return str(json.loads(path.read_text())["flags"][name]["defaultVariant"])

        assert says("toolError") == "off"
        server.enable("toolError")
        until(lambda: says("toolError") == "on")
        server.kill("refund")
        until(lambda: says("refund") == "on")
        server.disable("toolError")
        until(lambda: (says("toolError"), says("refund")) == ("off", "on"))


def test_a_held_question_is_answered_by_a_change(short_dir: Path) -> None:
    with lab(short_dir) as server:
        etag = server.get("/flags")[2]["etag"]
        answers: list[tuple[int, float]] = []
        began_s = time.monotonic()

        def ask() -> None:
            status = server.get("/flags?wait_s=10", if_none_match=etag)[0]
            answers.append((status, time.monotonic() - began_s))

        thread = threading.Thread(target=ask)
        thread.start()
        time.sleep(0.3)
        server.enable("toolError")
        thread.join(10)
        assert answers[0][0] == 200
        assert 0.25 < answers[0][1] < 1.5
        assert server.get("/flags?wait_s=0.2", if_none_match=server.get("/flags")[2]["etag"])[0] == 304


def test_evidence_that_cannot_be_written_puts_nothing_on(short_dir: Path) -> None:
    made = Lab(short_dir)

    def small() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (600, 600))
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)

    with made.log.open("ab") as log:
        made.process = subprocess.Popen(
            [sys.executable, "-m", "drillmaster.flags", msgspec.json.encode(made.settings).decode()],
            stdout=log,
            stderr=log,
            preexec_fn=small,  # one thread, in a test
        )
    try:
        until(lambda: _there(made), what="the server's first answer")
        for n in range(20):
            order = {"window": f"w{n}", "flags": [{"flag": "toolError"}], "ttl_s": 5}
            status, told = made.drive("/inject", order)
            made.drive("/lift", {"window": f"w{n}"})
            if status == 507:
                break
        assert status == 507, told
        assert made.state("toolError") == "off"
        assert made.kill("refund")[0] in (200, 507)  # not killing would be the greater harm
        assert made.state("refund") == "killed"
    finally:
        made.close()


@pytest.mark.needs("faketime")
def test_a_wall_that_jumps_past_a_deadline_ends_the_flag(short_dir: Path) -> None:
    (short_dir / "clock").write_text("+0d\n")
    lab_ = Lab(short_dir)
    library = next(Path("/usr/lib").glob("*/faketime/libfaketime.so.1"), None)
    assert find_program("faketime") is not None
    if library is None:
        pytest.skip("needs libfaketime")
    env = {
        "LD_PRELOAD": str(library),
        "FAKETIME_TIMESTAMP_FILE": str(short_dir / "clock"),
        "FAKETIME_NO_CACHE": "1",
        "FAKETIME_DONT_FAKE_MONOTONIC": "1",
    }
    try:
        lab_.start(**env)
        lab_.enable("toolError")
        assert lab_.state("toolError") == "on"
        (short_dir / "clock").write_text("+30000d\n")
        until(lambda: lab_.state("toolError") == "off", what="the deadline")
        assert lab_.enable("toolError")[0] in (400, 404)
        (short_dir / "clock").write_text("+0d\n")
        time.sleep(0.3)
        assert lab_.state("toolError") == "off"  # a step back puts nothing on
    finally:
        lab_.close()
