"""The HTTP engine in trouble: what it refuses and how it says so, what stays on record, and where else it tries to connect."""

import contextlib
import json
import os
import resource
import socket
import ssl
import struct
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import trustme

from drillmaster.evidence.samples import OUTCOMES, read_samples
from drillmaster.http1 import MAX_FRAME_BYTES
from tests.e2e.test_engine import Lab, Ran, always, answer, origin
from tests.e2e.wirelab import Reader

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(60)]


@pytest.fixture
def lab(tmp_path: Path) -> Lab:
    return Lab(tmp_path)


def run_raw(
    told: bytes, before: Callable[[], None] | None = None, **more: Any
) -> tuple[int, list[dict[str, Any]], list[str]]:
    """Exit code, what was told, and the lines of standard error."""
    done = subprocess.run(
        [sys.executable, "-m", "drillmaster.engines"],
        input=told,
        capture_output=True,
        timeout=40,
        check=False,
        preexec_fn=before,
        **more,
    )
    return done.returncode, [json.loads(line) for line in done.stdout.splitlines()], done.stderr.decode().splitlines()


def refused(spec: object, before: Callable[[], None] | None = None) -> dict[str, Any]:
    """The one line in which an engine says why it does not begin."""
    code, told, trouble = run_raw(spec if isinstance(spec, bytes) else json.dumps(spec).encode(), before)
    assert code == 2
    assert len(trouble) == 1, trouble
    (said,) = told
    assert said["event"] == "error"
    for part in ("place", "found", "wanted", "remedy"):
        assert said[part]
        assert said[part] in trouble[0]
    return said


def closed_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as gone:
        return int(gone.getsockname()[1])


@pytest.mark.parametrize(
    "change",
    [
        {"to": []},
        {"to": [{"host": "localhost", "port": 80}]},
        {"to": [{"host": "127.0.0.1", "port": 0}]},
        {"stages": []},
        {"stages": [{"label": "s", "kind": "closed", "level": 1}]},
        {"time_limit_s": 0},
        {"time_limit": 5},
        {"shot": {"target": "/", "authority": "x", "payloads": []}},
    ],
    ids=str,
)
def test_a_spec_that_means_nothing_is_refused_in_one_line(lab: Lab, change: dict[str, Any]) -> None:
    said = refused({**lab.spec(1, {"level": 1, "calls": 1}), **change})
    assert said["place"] == "standard input"
    assert not (lab.folder / "samples.bin").exists()


@pytest.mark.parametrize("told", [b"", b"{", b"[]", b'{"to":"\xff"}'])
def test_what_is_no_spec_is_refused_in_one_line(told: bytes) -> None:
    assert refused(told)["place"] == "standard input"


def test_records_are_never_written_over_and_the_file_is_named(lab: Lab) -> None:
    samples = lab.folder / "samples.bin"
    samples.write_bytes(b"old")
    assert refused(lab.spec(1, {"level": 1, "calls": 1}))["place"] == str(samples)
    assert samples.read_bytes() == b"old"
    samples.unlink()
    (lab.folder / "gaps.bin").write_bytes(b"old")
    assert refused(lab.spec(1, {"level": 1, "calls": 1}))["place"] == str(lab.folder / "gaps.bin")
    assert not samples.exists()  # or the next try would be refused for a file of this one
    nowhere = lab.spec(1, {"level": 1, "calls": 1}, samples=str(lab.folder / "no" / "samples.bin"))
    assert "No such file" in refused(nowhere)["found"]


def test_an_authority_that_cannot_be_read_is_refused_before_anything_is_made(lab: Lab) -> None:
    missing, empty = lab.folder / "missing.pem", lab.folder / "empty.pem"
    empty.write_text("no certificate\n")
    for path in (missing, empty):
        said = refused(lab.spec(1, {"level": 1, "calls": 1}, tls=True, server_name="x", ca_file=str(path)))
        assert said["place"] == str(path)
    assert not (lab.folder / "samples.bin").exists()


def test_a_file_that_takes_no_more_ends_the_run_and_the_records_of_before_stay(lab: Lab) -> None:
    def small() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, 50_000))

    with origin(always(answer())) as port:
        spec = lab.spec(port, {"level": 4, "seconds": 20})
        begun = time.monotonic()
        code, told, trouble = run_raw(json.dumps(spec).encode(), small)
    assert code == 2
    assert time.monotonic() - begun < 15
    said = told[-1]
    assert (said["event"], said["place"]) == ("error", spec["samples"])
    assert "File too large" in said["found"]
    assert len(trouble) == 1
    ran = Ran(code, told, lab.folder)
    assert ran.kinds == {"ok": len(ran.rows)}
    assert len(ran.rows) >= max(row["done"] for row in told if row["event"] == "progress")
    assert len(ran.rows) > 300
    assert (lab.folder / "samples.bin").stat().st_size == 50_000


def test_a_full_disk_ends_the_run_and_the_records_of_before_stay(lab: Lab) -> None:
    if os.geteuid() != 0:
        pytest.skip("needs root: mounts a tmpfs of 64 kB")
    small = lab.folder / "small"
    small.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(small)]
    if subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("needs the right to mount a tmpfs of 64 kB")
    try:
        with origin(always(answer())) as port:
            spec = lab.spec(port, {"level": 4, "seconds": 20}, samples=str(small / "samples.bin"), gaps=None)
            code, told, _ = run_raw(json.dumps(spec).encode())
        assert (code, told[-1]["event"]) == (2, "error")
        assert "No space left" in told[-1]["found"]
        _, columns = read_samples((small / "samples.bin").read_bytes())
        assert len(columns.rows) > 300
        assert {OUTCOMES[row.outcome] for row in columns.rows} == {"ok"}
    finally:
        subprocess.run(["umount", str(small)], check=True)


def few_descriptors() -> None:
    resource.setrlimit(resource.RLIMIT_NOFILE, (40, 40))


def test_more_callers_than_there_can_be_connections_are_refused_before_a_call_is_made(lab: Lab) -> None:
    said = refused(lab.spec(1, {"level": 64, "calls": 64}), few_descriptors)
    assert said["place"] == "stage s0"
    assert said["found"] == "64 callers"
    assert not (lab.folder / "samples.bin").exists()


def test_a_soft_limit_of_descriptors_is_raised(lab: Lab) -> None:
    def soft() -> None:
        resource.setrlimit(resource.RLIMIT_NOFILE, (40, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))

    with origin(always(answer(), after_s=0.3)) as port:
        code, told, _ = run_raw(json.dumps(lab.spec(port, {"level": 64, "calls": 64})).encode(), soft)
    ran = Ran(code, told, lab.folder)
    assert (ran.code, ran.kinds) == (0, {"ok": 64})


def test_an_arrival_for_which_there_is_no_descriptor_is_dropped_and_the_run_goes_on(lab: Lab) -> None:
    with origin(always(answer(), after_s=0.5)) as port:
        spec = lab.spec(port, {"kind": "open", "rate_per_s": 200, "seconds": 1, "level": 500})
        code, told, trouble = run_raw(json.dumps(spec).encode(), few_descriptors)
    ran = Ran(code, told, lab.folder)
    assert (code, trouble, len(ran.rows)) == (0, [], 200)
    assert set(ran.kinds) == {"ok", "dropped"}
    assert ran.kinds["ok"] >= 20
    assert all(row.sent_ns == 0 for row in ran.rows if OUTCOMES[row.outcome] == "dropped")


def test_the_next_address_is_tried_where_one_refuses(lab: Lab) -> None:
    with origin(always(answer())) as port:
        to = [{"host": "127.0.0.1", "port": closed_port()}, {"host": "127.0.0.1", "port": port}]
        ran = lab.run(port, {"level": 3, "calls": 9}, to=to)
    assert (ran.code, ran.kinds) == (0, {"ok": 9})
    assert ran.ended("s0")["connections"] == 3
    lab.folder = lab.folder / "second"
    lab.folder.mkdir()
    nobody = [{"host": "127.0.0.1", "port": closed_port()}, {"host": "127.0.0.2", "port": closed_port()}]
    ran = lab.run(port, {"level": 3, "calls": 9}, to=nobody)
    assert ran.kinds == {"refused": 9}
    assert ran.ended("s0")["connections"] == 0


def test_no_way_to_an_address_fails_each_call_however_many_there_are(lab: Lab) -> None:
    # Refused by the kernel at once, before a packet leaves: TCP has no broadcast.
    ran = lab.run(1, {"level": 2, "calls": 5_000}, to=[{"host": "255.255.255.255", "port": 9}])
    assert (ran.code, ran.kinds) == (0, {"refused": 5_000})


def test_an_event_without_an_end_fails_its_call_and_no_other(lab: Lab) -> None:
    """What is more than an event may hold is no event."""
    piece = b"%x\r\n%b\r\n" % (1 << 20, b"data: ".ljust(1 << 20, b"x"))
    turn = iter(range(100))

    def handle(reader: Reader, sock: socket.socket) -> None:
        while reader.request() is not None:
            if next(turn):
                sock.sendall(answer())
                continue
            sock.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n")
            with contextlib.suppress(OSError):
                for _ in range(2 * MAX_FRAME_BYTES // len(piece) + 2):
                    sock.sendall(piece)

    with origin(handle) as port:
        ran = lab.run(port, {"level": 1, "calls": 4}, time_limit_s=20)
    assert (ran.code, ran.kinds) == (0, {"protocol": 1, "ok": 3})


def test_an_engine_that_nobody_hears_any_more_ends_and_its_records_are_there(lab: Lab) -> None:
    with origin(always(answer())) as port:
        process = subprocess.Popen(
            [sys.executable, "-m", "drillmaster.engines"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        assert process.stdin is not None and process.stdout is not None and process.stderr is not None
        process.stdin.write(json.dumps(lab.spec(port, {"level": 2, "seconds": 30})).encode())
        process.stdin.close()
        while not json.loads(process.stdout.readline())["done"]:
            pass
        process.stdout.close()
        assert process.wait(10) == 2
        trouble = process.stderr.read().decode().splitlines()
        process.stderr.close()
    assert trouble == ["the engine: Broken pipe"]
    ran = Ran(2, [], lab.folder)
    assert ran.kinds["ok"] == len(ran.rows) > 0


def test_an_endpoint_may_live_on_version_6(lab: Lab) -> None:
    try:
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
    except OSError:
        pytest.skip("needs IPv6 on loopback")
    with origin(always(answer()), host="::1") as port:
        ran = lab.run(port, {"level": 2, "calls": 6}, to=[{"host": "::1", "port": port}])
    assert ran.kinds == {"ok": 6}


@pytest.mark.parametrize("turns", [[], [3]])
@pytest.mark.parametrize("how", ["close", "reset", "tls"])
def test_a_call_that_was_taken_and_came_to_nothing_is_a_failure_on_a_kept_connection_too(
    lab: Lab, turns: list[int], how: str
) -> None:
    heard = 0

    def drops_each_third(reader: Reader, sock: socket.socket) -> None:
        nonlocal heard
        for number in range(3):
            if reader.request() is None:
                return
            heard += 1
            time.sleep(0.15)
            if number < 2:
                sock.sendall(answer())
        if how == "reset":
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))

    context: ssl.SSLContext | None = None
    over_tls: dict[str, Any] = {}
    if how == "tls":
        authority = trustme.CA()
        authority.cert_pem.write_to_path(str(lab.folder / "ca.pem"))
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        authority.issue_cert("localhost").configure_cert(context)
        over_tls = {"tls": True, "server_name": "localhost", "ca_file": str(lab.folder / "ca.pem")}
    with origin(drops_each_third, tls=context) as port:
        ran = lab.run(port, {"level": 1, "calls": 9}, shot={"payloads": ["0", "1", "2"], "turns": turns}, **over_tls)
    assert ran.kinds == {"ok": 6, "reset" if how == "reset" else "cut": 3}
    assert heard == 9
    assert not any(row.again for row in ran.rows)


@pytest.mark.parametrize("drains", [False, True])
def test_a_server_that_closes_after_its_answer_and_does_not_say_so_fails_no_call(lab: Lab, drains: bool) -> None:
    """One that drains ends its own side and reads what still comes, which is how a server is asked to close (RFC 9112, 9.6)."""
    heard = 0

    def leaves(reader: Reader, sock: socket.socket) -> None:
        nonlocal heard
        reader.request()
        heard += 1
        sock.sendall(answer())
        if drains:
            sock.shutdown(socket.SHUT_WR)
            sock.settimeout(0.05)
            with contextlib.suppress(OSError):
                while sock.recv(65_536):
                    pass
            return
        time.sleep(0.02)  # the next call comes into a socket that nobody reads any more
        sock.shutdown(socket.SHUT_RDWR)
        time.sleep(0.01)

    with origin(leaves) as port:
        ran = lab.run(port, {"level": 1, "calls": 9})
    assert ran.kinds == {"ok": 9}
    assert heard == 9
    assert sum(row.again for row in ran.rows) == 8


def test_a_call_that_was_dropped_at_once_is_made_once_more_and_no_oftener(lab: Lab) -> None:
    """Nothing tells it from one that a closing server had not read; that it was made again stands in its record."""
    heard = 0

    def drops_all_but_the_first(reader: Reader, sock: socket.socket) -> None:
        nonlocal heard
        reader.request()
        heard += 1
        if heard == 1:
            sock.sendall(answer())
            reader.request()
            heard += 1

    with origin(drops_all_but_the_first) as port:
        ran = lab.run(port, {"level": 1, "calls": 3})
    assert ran.kinds == {"ok": 1, "cut": 2}
    assert heard == 4
    assert [row.again for row in ran.rows] == [0, 1, 0]


@pytest.mark.parametrize("interim", [b"102 Processing", b"103 Early Hints"])
def test_an_answer_for_the_meantime_is_no_first_byte_and_means_that_the_call_was_taken(
    lab: Lab, interim: bytes
) -> None:
    heard = 0

    def handle(reader: Reader, sock: socket.socket) -> None:
        nonlocal heard
        while reader.request() is not None:
            heard += 1
            sock.sendall(b"HTTP/1.1 %b\r\n\r\n" % interim)
            time.sleep(0.05)
            if heard == 3:
                return
            sock.sendall(answer())

    with origin(handle) as port:
        ran = lab.run(port, {"level": 1, "calls": 5})
    assert ran.kinds == {"ok": 4, "cut": 1}
    assert heard == 5
    assert all(row.first_ns - row.sent_ns >= 50_000_000 for row in ran.rows if row.first_ns)


def test_who_answers_before_all_was_sent_and_closes_has_answered(lab: Lab) -> None:
    def too_large(reader: Reader, sock: socket.socket) -> None:
        reader.until(b"\r\n\r\n")
        sock.sendall(answer(b"{}", b"413 Content Too Large"))

    with origin(too_large) as port:
        ran = lab.run(port, {"level": 1, "calls": 5}, shot={"payloads": ["x" * 20_000_000]})
    assert {row.status for row in ran.rows} == {413}


def test_an_engine_that_nobody_hears_for_a_while_says_how_long_it_was_stuck(lab: Lab) -> None:
    with origin(always(answer(), after_s=0.02)) as port:
        spec = lab.spec(port, {"level": 2, "seconds": 2.5})
        process = lab.start({**spec, "stages": [{**stage, "label": "s" * 60_000} for stage in spec["stages"]]})
        with process:
            assert process.stdout is not None
            time.sleep(1.5)  # two lines are more than a pipe takes
            told = [json.loads(line) for line in process.stdout]
            assert process.wait(30) == 0
    assert told[-1]["longest_turn_ms"] > 500


def test_an_engine_that_waits_for_a_slow_endpoint_is_not_busy(lab: Lab) -> None:
    with origin(always(answer(), after_s=0.4)) as port:
        ran = lab.run(port, {"level": 2, "calls": 6})
    assert ran.ended("s0")["turn_p99_ms"] < 50


PAGE = b"<!-- sso -->\n<!DOCTYPE html><html><body>Sign in</body></html>\n"


@pytest.mark.parametrize(
    "kind, body, asked_in, ends",
    [
        (b"text/html; charset=utf-8", PAGE, "application/json", "error_body"),
        (b"text/html", PAGE * 200, "application/json", "error_body"),  # its beginning is out of sight
        (b"text/html", b"hello", "application/json", "ok"),  # what some frameworks call all text
        (b"text/html", PAGE, "application/x-www-form-urlencoded", "ok"),
        (b"application/json", PAGE, "application/json", "error_body"),  # whatever it is called
        (b"text/plain", b"<html> is a word of a page", "application/json", "error_body"),
        (b"application/json", b'{"text":"<html>"}', "application/json", "ok"),
        (b"application/json", b'\xef\xbb\xbf{"error":"no quota"}', "application/json", "error_body"),
        (b"application/json", b'\xef\xbb\xbf{"text":"hello"}', "application/json", "ok"),
        (b"application/json", b'{"error":{"message":"no quota"}}', "application/json", "error_body"),
        (b"application/json", b'{"error":"no quota"}', "application/json", "error_body"),
        (b"application/json", b'{"text":"hello","error":null}', "application/json", "ok"),
        (b"application/json", b'{"text":"an \\"error\\": here"}', "application/json", "ok"),
        (b"application/json", b'[{"error":1}]', "application/json", "ok"),
        (b"text/event-stream", b'data: {"text":"a"}\n\ndata: {"error":"full"}\n\n', "application/json", "error_body"),
        (b"text/event-stream", b'data: {"text":"a"}\n\ndata: [DONE]\n\n', "application/json", "ok"),
    ],
)
def test_who_asks_plainly_in_json_has_no_answer_in_a_page_or_an_error(
    lab: Lab, kind: bytes, body: bytes, asked_in: str, ends: str
) -> None:
    with origin(always(answer(body, kind=kind))) as port:
        shot = {"dialect": "plain", "headers": {"content-type": asked_in}}
        ran = lab.run(port, {"level": 1, "calls": 3}, shot=shot)
    assert ran.kinds == {ends: 3}
