"""The terminator over real sockets: what arrives by halves, too large, too slow, twice, or for somebody else."""

import concurrent.futures
import gzip
import os
import re
import signal
import socket
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.hooklab import KEY_TEXT, PATH, Served, environ, read_all, run, served, settings, signed

pytestmark = pytest.mark.e2e


@pytest.fixture(scope="module")
def hook(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    path = settings(tmp_path_factory.mktemp("hook"))
    assert run("prepare", str(path)).returncode == 0
    with served("serve", path) as made:
        yield made


def head(body: bytes, *more: bytes, length: int | None = None) -> bytes:
    lines = [f"{name}: {value}".encode() for name, value in signed(body).items()]
    lines += [b"content-length: %d" % (len(body) if length is None else length), *more]
    return b"POST " + PATH.encode() + b" HTTP/1.1\r\nhost: h\r\n" + b"\r\n".join(lines) + b"\r\n\r\n"


def status(said: bytes) -> int:
    match = re.match(rb"HTTP/1\.1 (\d{3}) ", said)
    return int(match[1]) if match else 0


def test_what_is_signed_is_accepted_once_and_again(hook: Served) -> None:
    body = b'{"id":"evt_twice"}'
    assert hook.post(body) == (202, b"accepted\n")
    assert hook.post(body) == (202, b"accepted-before\n")
    assert hook.post(b'{"id":"evt_twice","x":1}') == (409, b"other-body\n")


@pytest.mark.parametrize("size", [65_537, 1_000_000, 3_000_000])
def test_a_body_that_is_too_large_is_answered_413_and_the_answer_arrives(hook: Served, size: int) -> None:
    """A client that sends all of it before it reads still reads the answer."""
    body = b"x" * size
    said = hook.raw(head(body) + body)
    assert status(said) == 413 and b"connection: close" in said.lower() and said.endswith(b"too-large\n")


def test_a_client_that_has_to_wait_while_it_sends_is_read_past_and_answered(hook: Served) -> None:
    """Its own buffer is small: a connection that is closed on it would break its sending."""
    body = b"x" * 2_000_000
    with socket.socket() as made:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 8_192)
        made.settimeout(10)
        made.connect(("127.0.0.1", hook.port))
        made.sendall(head(body) + body)
        assert status(read_all(made)) == 413


def test_a_chunked_body_that_grows_too_large_is_413(hook: Served) -> None:
    chunk = b"8000\r\n" + b"x" * 0x8000 + b"\r\n"
    request = b"POST %b HTTP/1.1\r\nhost: h\r\ntransfer-encoding: chunked\r\n\r\n" % PATH.encode()
    assert status(hook.raw(request + chunk * 4 + b"0\r\n\r\n")) == 413


def test_a_client_that_asks_first_is_told_before_it_sends(hook: Served) -> None:
    with hook.connect() as made:
        made.sendall(head(b"x" * 100_000, b"expect: 100-continue"))
        made.settimeout(5)
        assert status(made.recv(1_000)) == 413
    body = b'{"id":"evt_expect"}'
    with hook.connect() as made:
        made.sendall(head(body, b"expect: 100-continue"))
        assert b"100 Continue" in made.recv(1_000)
        made.sendall(body)
        assert status(read_all(made)) == 202


def test_a_body_that_stops_halfway_is_408_and_closed(hook: Served) -> None:
    began = time.monotonic()
    with hook.connect() as made:
        made.sendall(head(b'{"id":"evt_slow"}', length=1_000) + b'{"id":')
        said = read_all(made)
    assert status(said) == 408 and b"connection: close" in said.lower()
    assert 0.9 < time.monotonic() - began < 4


def test_a_body_that_trickles_has_one_deadline(hook: Served) -> None:
    began = time.monotonic()
    with hook.connect() as made:
        made.sendall(head(b"", length=1_000))
        made.settimeout(0.1)
        said = b""
        while not said and time.monotonic() - began < 5:
            made.sendall(b"x")
            try:
                said = made.recv(1_000)
            except TimeoutError:
                continue
    assert status(said) == 408 and time.monotonic() - began < 3


@pytest.mark.parametrize("sent", [b"", b"POST /web", b"POST /webhooks/billing HTTP/1.1\r\nhost: h\r\n"])
def test_a_head_that_never_ends_is_closed(hook: Served, sent: bytes) -> None:
    began = time.monotonic()
    with hook.connect() as made:
        made.sendall(sent)
        made.settimeout(8)
        assert made.recv(1_000) == b""
    assert time.monotonic() - began < 4


def test_a_second_head_on_one_connection_has_its_deadline_too(hook: Served) -> None:
    body = b'{"id":"evt_kept_alive"}'
    with hook.connect() as made:
        made.sendall(head(body) + body)
        made.settimeout(5)
        said = made.recv(1_000)
        while not said.endswith(b"accepted\n"):  # head and body may come apart
            said += made.recv(1_000)
        made.sendall(b"POST /web")
        began = time.monotonic()
        assert made.recv(1_000) == b"" and time.monotonic() - began < 4


def test_many_on_one_connection_are_answered_in_their_order(hook: Served) -> None:
    bodies = [b'{"id":"evt_row_%d"}' % n for n in range(3)]
    with hook.connect() as made:
        made.sendall(b"".join(head(body) + body for body in bodies))
        said = read_all(made)
    assert [int(one) for one in re.findall(rb"HTTP/1\.1 (\d+)", said)] == [202, 202, 202]


@pytest.mark.parametrize(
    ("request_line", "wanted"),
    [
        (b"GET /webhooks/billing", 405),
        (b"PUT /webhooks/billing", 405),
        (b"OPTIONS /webhooks/billing", 405),
        (b"POST /", 404),
        (b"POST /webhooks/billing/", 404),
        (b"POST /webhooks//billing", 404),
        (b"POST /webhooks/%62illing", 404),
        (b"POST /webhooks/billing?x=1", 404),
        (b"POST /WEBHOOKS/BILLING", 404),
        (b"GET /", 404),
    ],
)  # fmt: skip
def test_only_one_path_and_one_method_are_served(hook: Served, request_line: bytes, wanted: int) -> None:
    body = b'{"id":"evt_path"}'
    said = hook.raw(request_line + head(body).partition(b"billing")[2] + body)
    assert status(said) == wanted
    if wanted == 405:
        assert b"allow: POST" in said


@pytest.mark.parametrize(
    "lines",
    [
        b"content-length: 4\r\ncontent-length: 5",
        b"content-length: -1",
        b"content-length: +4",
        b"content-length: 0x4",
        b"content-length: 99999999999999999999999999",
        b"content-length : 4",
        b"transfer-encoding: gzip",
        b"transfer-encoding: chunked, chunked",
        b"x: \x00",
    ],
)
def test_what_is_no_http_reaches_nobody_and_is_no_5xx(hook: Served, lines: bytes) -> None:
    said = hook.raw(b"POST /webhooks/billing HTTP/1.1\r\nhost: h\r\n" + lines + b"\r\n\r\nbody")
    assert 400 <= status(said) < 500 or (b"501" in said[:20])


def test_a_request_of_two_lengths_is_the_last_on_its_connection(hook: Served) -> None:
    """A proxy that goes by the other length would take what follows for the next request, or its answer for another's."""
    body = b'{"id":"evt_lengths"}'
    chunked = b"%x\r\n%b\r\n0\r\n\r\n" % (len(body), body)
    request = head(body, b"transfer-encoding: chunked", length=5) + chunked
    said = hook.raw(request + head(body) + body)
    assert re.findall(rb"HTTP/1\.1 (\d+)", said) == [b"202"] and b"connection: close" in said.lower()


def test_two_lines_of_a_signature_are_401(hook: Served) -> None:
    body = b'{"id":"evt_lines"}'
    line = f"Stripe-Signature: {signed(body)['stripe-signature']}".encode()
    assert status(hook.raw(head(body, line) + body)) == 401


def test_a_signature_of_any_bytes_is_401(hook: Served) -> None:
    body = b'{"id":"evt_bytes"}'
    for value in (b"t=1,v1=\xff\xfe", b"\xc3\xa9", b"t=1", b"," * 5_000, b"t=\xd9\xa1,v1=" + b"0" * 64):
        request = b"POST %b HTTP/1.1\r\nhost: h\r\ncontent-length: %d\r\nstripe-signature: %b\r\n\r\n" % (
            PATH.encode(),
            len(body),
            value,
        )
        assert status(hook.raw(request + body)) == 401, value


def test_a_compressed_body_is_not_unpacked(hook: Served) -> None:
    plain = b'{"id":"evt_gzip"}'
    packed = gzip.compress(plain)
    assert hook.post(packed, {**signed(plain), "content-encoding": "gzip"})[0] == 401
    assert hook.post(packed, {**signed(packed), "content-encoding": "gzip"})[0] == 400


def test_a_crowd_is_answered_and_each_event_is_stored_once(hook: Served) -> None:
    bodies = [b'{"id":"evt_crowd_%d"}' % (n % 100) for n in range(300)]
    with concurrent.futures.ThreadPoolExecutor(16) as pool:
        told = list(pool.map(hook.post, bodies))
    assert [answer for answer, _ in told] == [202] * 300
    assert sum(text == b"accepted\n" for _, text in told) == 100


def test_it_listens_on_loopback_alone(hook: Served) -> None:
    assert hook.line.startswith("serving http://127.0.0.1:")
    inode = re.findall(rf"^\s*\d+: (\w+):{hook.port:04X} 00000000:0000 0A", Path("/proc/net/tcp").read_text(), re.M)
    assert inode == ["0100007F"]


def test_it_ends_by_sigterm_when_what_is_under_way_is_answered(tmp_path: Path) -> None:
    path = settings(tmp_path, read_within_s=5)
    run("prepare", str(path))
    with served("serve", path) as made:
        body = b'{"id":"evt_last"}'
        with made.connect() as connection:
            connection.sendall(head(body) + body[:5])
            time.sleep(0.2)
            made.process.send_signal(signal.SIGTERM)
            time.sleep(0.2)
            connection.sendall(body[5:])
            assert status(read_all(connection)) == 202
        assert made.process.wait(10) == 0
        assert made.process.stdout is not None and "accepted 1" in made.process.stdout.read()
    rows = sqlite3.connect(tmp_path / "inbox.db").execute("SELECT event_id FROM drillmaster_inbox").fetchall()
    assert rows == [("evt_last",)]


def test_a_store_that_is_away_is_500_and_comes_back(tmp_path: Path) -> None:
    path = settings(tmp_path, store_within_s=0.5)
    run("prepare", str(path))
    with served("serve", path) as made:
        holder = sqlite3.connect(tmp_path / "inbox.db", isolation_level=None)
        holder.execute("BEGIN IMMEDIATE")
        assert made.post(b'{"id":"evt_1"}') == (500, b"store-failed\n")
        holder.execute("ROLLBACK")
        holder.close()
        assert made.post(b'{"id":"evt_1"}')[0] == 202


# What does not start


@pytest.mark.parametrize(
    ("env", "said"),
    [
        ({"WEBHOOK_SECRET": ""}, "nothing in it"),
        ({"WEBHOOK_SECRET": "x" * 23}, "23 bytes"),
        ({"WEBHOOK_SECRET": "y" * 40}, "not among"),
    ],
)
def test_without_production_s_key_it_does_not_start(tmp_path: Path, env: dict[str, str], said: str) -> None:
    path = settings(tmp_path)
    run("prepare", str(path))
    ended = run("serve", str(path), "--port", "0", env=environ(**env))
    assert ended.returncode == 2 and said in ended.stderr and "yyyy" not in ended.stderr


def test_it_does_not_start_with_an_inbox_that_nobody_prepared_or_for_everybody(tmp_path: Path) -> None:
    path = settings(tmp_path)
    ended = run("serve", str(path), "--port", "0")
    assert ended.returncode == 2 and "webhook prepare" in ended.stderr
    run("prepare", str(path))
    ended = run("serve", str(path), "--port", "0", "--host", "0.0.0.0")
    assert ended.returncode == 2 and "say it twice" in ended.stderr
    with socket.create_server(("127.0.0.1", 0)) as taken:
        ended = run("serve", str(path), "--port", str(taken.getsockname()[1]))
        assert ended.returncode == 2 and "a port that cannot be had" in ended.stderr


def test_the_lab_takes_fixtures_at_its_hostname_and_none_that_is_signed(tmp_path: Path) -> None:
    path = settings(tmp_path)
    run("prepare", str(path))
    bare = {name: value for name, value in os.environ.items() if name != "WEBHOOK_SECRET"}
    with served("lab", path, env=bare) as made:
        host = {"host": f"hooks.lab.example:{made.port}"}
        assert made.post(b'{"id":"fix_1"}', host)[0] == 202
        assert made.post(b'{"id":"fix_2"}', {"host": "hooks.example"})[0] == 404
        assert made.post(b'{"id":"fix_3"}', {**host, **signed(b'{"id":"fix_3"}')}) == (401, b"signed-in-lab\n")
    for name, wanted in (("lab.db", [("fix_1",)]), ("inbox.db", [])):
        assert sqlite3.connect(tmp_path / name).execute("SELECT event_id FROM drillmaster_inbox").fetchall() == wanted


@pytest.mark.parametrize("where", ["named", "renamed", "file"])
def test_a_lab_that_finds_production_s_key_does_not_start_and_says_names_only(tmp_path: Path, where: str) -> None:
    path = settings(tmp_path)
    run("prepare", str(path))
    bare = {name: value for name, value in os.environ.items() if name != "WEBHOOK_SECRET"}
    words: tuple[str, ...] = ()
    if where == "file":
        (tmp_path / "conf").mkdir()
        (tmp_path / "conf" / "old.env").write_text(f"KEY={KEY_TEXT}\n")
        words = ("--look-in", str(tmp_path / "conf"))
    else:
        bare["WEBHOOK_SECRET" if where == "named" else "SOMETHING_ELSE"] = KEY_TEXT if where == "renamed" else "any"
    ended = run("lab", str(path), "--port", "0", *words, env=bare)
    assert ended.returncode == 2 and KEY_TEXT not in ended.stderr + ended.stdout
    assert {"named": "WEBHOOK_SECRET", "renamed": "SOMETHING_ELSE", "file": "old.env"}[where] in ended.stderr


def test_answers_on_one_connection_do_not_wait_for_each_other_s_acknowledgement(hook: Served) -> None:
    """Nagle's algorithm holds the second part of an answer for 40 ms."""
    took = []
    with hook.connect() as made:
        for n in range(21):
            body = b'{"id":"evt_prompt_%d"}' % n
            began = time.monotonic()
            made.sendall(head(body) + body)
            said = made.recv(1_000)
            while not said.endswith(b"accepted\n"):
                said += made.recv(1_000)
            took.append(time.monotonic() - began)
    assert sorted(took)[10] < 0.03


def test_a_client_that_has_said_all_and_closes_its_half_is_answered(hook: Served) -> None:
    body = b'{"id":"evt_half"}'
    for wanted in (b"accepted\n", b"accepted-before\n"):
        with hook.connect() as made:
            made.sendall(head(body) + body)
            made.shutdown(socket.SHUT_WR)
            made.settimeout(5)
            assert read_all(made).endswith(wanted)
    bodies = [b'{"id":"evt_half_%d"}' % n for n in range(3)]
    with hook.connect() as made:
        made.sendall(b"".join(head(one) + one for one in bodies))
        made.shutdown(socket.SHUT_WR)
        made.settimeout(5)
        assert re.findall(rb"HTTP/1\.1 (\d+)", read_all(made)) == [b"202"] * 3
    began = time.monotonic()
    with hook.connect() as made:  # not all: nobody waits for the rest
        made.sendall(head(b'{"id":"evt_half_body"}', length=1_000) + b'{"id":')
        made.shutdown(socket.SHUT_WR)
        made.settimeout(5)
        assert status(read_all(made)) in (0, 400, 408) and time.monotonic() - began < 4


def test_a_client_that_reads_no_answers_is_given_up(hook: Served) -> None:
    request = b"POST %b HTTP/1.1\r\nhost: h\r\ncontent-length: 0\r\n\r\n" % PATH.encode()
    with socket.socket() as made:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
        made.settimeout(15)
        made.connect(("127.0.0.1", hook.port))
        began = time.monotonic()
        with pytest.raises((ConnectionError, BrokenPipeError)):
            while time.monotonic() - began < 14:
                made.sendall(request * 500)
    assert hook.post(b'{"id":"evt_after_deaf"}')[0] == 202


@pytest.mark.parametrize(
    "lines",
    [
        b"connection: upgrade, http2-settings\r\nupgrade: h2c\r\nhttp2-settings: AAMAAABkAAQAAP__",
        b"connection: upgrade\r\nupgrade: websocket\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\nsec-websocket-version: 13",
    ],
)
def test_an_upgrade_is_not_made_and_the_request_is_one_like_others(hook: Served, lines: bytes) -> None:
    body = b'{"id":"evt_upgrade"}'
    with hook.connect() as made:
        made.sendall(head(body, lines) + body)
        made.settimeout(5)
        assert status(made.recv(1_000)) == 202


def test_trailers_sign_nothing(hook: Served) -> None:
    body = b'{"id":"evt_trailer"}'
    line = f"stripe-signature: {signed(body)['stripe-signature']}".encode()
    chunked = b"%x\r\n%b\r\n0\r\n%b\r\n\r\n" % (len(body), body, line)
    request = b"POST %b HTTP/1.1\r\nhost: h\r\ntrailer: stripe-signature\r\ntransfer-encoding: chunked\r\n\r\n"
    assert status(hook.raw(request % PATH.encode() + chunked)) == 401


def test_the_first_bytes_of_another_protocol_are_no_5xx(hook: Served) -> None:
    for sent in (
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"\x16\x03\x01\x02\x00",
        b"\x00" * 100,
        b"GET / HTTP/9.9\r\n\r\n",
    ):
        assert status(hook.raw(sent)) < 500, sent


def test_more_connections_than_a_process_may_have_at_first_are_held_and_events_are_taken(tmp_path: Path) -> None:
    """A soft limit of a shell is no limit of the server's."""
    import resource

    path = settings(tmp_path, read_within_s=20)
    run("prepare", str(path))
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(256, limits[0]), limits[1]))
    try:
        with served("serve", path) as made:
            resource.setrlimit(resource.RLIMIT_NOFILE, limits)
            idle = [made.connect() for _ in range(600)]
            try:
                assert made.post(b'{"id":"evt_in_a_crowd"}')[0] == 202
            finally:
                for one in idle:
                    one.close()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)


def test_a_lab_whose_parent_has_production_s_key_does_not_start(tmp_path: Path) -> None:
    path = settings(tmp_path)
    run("prepare", str(path))
    script = '"$@"; exit $?'
    words = [
        "sh",
        "-c",
        script,
        "sh",
        "env",
        "-u",
        "WEBHOOK_SECRET",
        sys.executable,
        "-m",
        "drillmaster",
        "webhook",
        "lab",
    ]
    ended = subprocess.run(
        [*words, str(path), "--port", "0"], env=environ(), capture_output=True, text=True, timeout=20, check=False
    )
    assert ended.returncode == 2 and KEY_TEXT not in ended.stderr + ended.stdout
    assert "WEBHOOK_SECRET of the process that started this one" in ended.stderr
