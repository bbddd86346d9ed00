"""Pass-through where it is hard: streams, slow sides, dead and stale upstreams, TLS, upgrades, hostile heads."""

import contextlib
import json
import socket
import struct
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.e2e.wirelab import CHAT, WAIT_S, Origin, Reader, plain_answer, post, proxy

pytestmark = pytest.mark.e2e

BODY = b'{"model":"m","stream":true,"messages":[]}'
RST = struct.pack("ii", 1, 0)


def event(text: str) -> bytes:
    data = b"data: " + json.dumps({"choices": [{"delta": {"content": text}, "finish_reason": None}]}).encode() + b"\n\n"
    return b"%x\r\n%b\r\n" % (len(data), data)


SSE_HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"


def test_each_event_of_a_stream_arrives_before_the_next_is_written(tmp_path: Path) -> None:
    arrived = threading.Semaphore(0)

    def stream(reader: Reader, sock: socket.socket) -> None:
        assert reader.request() is not None
        sock.sendall(SSE_HEAD)
        for number in range(5):
            sock.sendall(event(str(number)))
            assert arrived.acquire(timeout=5)
        done = b'data: {"choices":[{"delta":{},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n'
        sock.sendall(b"%x\r\n%b\r\n0\r\n\r\n" % (len(done), done))

    origin = Origin(stream)
    with proxy(tmp_path, upstream=origin.url) as ours, ours.connect() as sock:
        sock.sendall(post(BODY))
        reader = Reader(sock)
        assert reader.head() is not None
        for number in range(5):
            assert reader.until(b'"content": "%d"' % number) is not None
            arrived.release()
        assert reader.until(b"0\r\n\r\n") is not None
        row = ours.wait_rows("attempt")[0]
        assert (row["stream"], row["terminal"], row["end"]) == (True, True, "clean")
    assert not origin.problems
    origin.close()


@pytest.mark.parametrize(
    ("finish", "end", "reset"),
    [
        (lambda sock: sock.close(), "cut", False),
        (lambda sock: (sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RST), sock.close()), "rst", True),
        (lambda sock: sock.sendall(b"0\r\n\r\n"), "clean", False),
    ],
    ids=["cut", "reset", "clean end without a finish"],
)
def test_a_stream_that_breaks_off_breaks_off_the_same_way_here(
    tmp_path: Path, finish: Callable[[socket.socket], None], end: str, reset: bool
) -> None:
    go = threading.Event()

    def stream(reader: Reader, sock: socket.socket) -> None:
        assert reader.request() is not None
        sock.sendall(SSE_HEAD + event("a"))
        go.wait(5)
        finish(sock)

    origin = Origin(stream)
    with proxy(tmp_path, upstream=origin.url) as ours, ours.connect() as sock:
        sock.sendall(post(BODY))
        reader = Reader(sock)
        assert reader.until(b'"content": "a"') is not None
        go.set()
        if reset:
            with pytest.raises(ConnectionResetError):
                while reader.more():
                    pass
        elif end == "cut":
            while reader.more():
                pass
            assert not reader.buf.endswith(b"0\r\n\r\n")
        row = ours.wait_rows("attempt")[0]
        assert (row["end"], row["terminal"], row["upstream"], row["window"]) == (end, False, True, None)
    origin.close()


@pytest.mark.parametrize("fault", [None, "wrong-model"])
def test_a_client_that_leaves_with_the_last_word_has_the_whole_answer(tmp_path: Path, fault: str | None) -> None:
    gone = threading.Event()

    def stream(reader: Reader, sock: socket.socket) -> None:
        assert reader.request() is not None
        said = b'data: {"model":"m","choices":[{"delta":{"content":"a"},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n'
        sock.sendall(SSE_HEAD + b"%x\r\n%b\r\n" % (len(said), said))
        gone.wait(WAIT_S)  # the framing's end never comes: this client does not wait for it

    origin = Origin(stream)
    with proxy(tmp_path, upstream=origin.url) as ours:
        if fault is not None:
            ours.inject(fault, model="another")
        with ours.connect() as sock:
            sock.sendall(post(BODY))
            assert Reader(sock).until(b"data: [DONE]\n\n") is not None
        row = ours.wait_rows("attempt")[0]
        assert (row["end"], row["terminal"], row["intact"]) == ("clean", True, fault is None)
    gone.set()
    origin.close()


def test_a_client_that_leaves_cancels_the_upstream(tmp_path: Path) -> None:
    left = threading.Event()

    def stream(reader: Reader, sock: socket.socket) -> None:
        assert reader.request() is not None
        sock.sendall(SSE_HEAD + event("a"))
        with contextlib.suppress(OSError):
            while reader.more():
                pass
        left.set()

    origin = Origin(stream)
    with proxy(tmp_path, upstream=origin.url) as ours:
        with ours.connect() as sock:
            sock.sendall(post(BODY))
            assert Reader(sock).until(b'"content": "a"') is not None
        assert left.wait(5)
        assert ours.wait_rows("attempt")[0]["end"] == "client_gone"
    origin.close()


def test_a_client_that_leaves_while_the_upstream_is_silent_cancels_it_too(tmp_path: Path) -> None:
    asked, left = threading.Event(), threading.Event()

    def silent(reader: Reader, sock: socket.socket) -> None:
        assert reader.request() is not None
        asked.set()
        with contextlib.suppress(OSError):
            while reader.more():
                pass
        left.set()

    origin = Origin(silent)
    with proxy(tmp_path, upstream=origin.url) as ours:
        with ours.connect() as sock:
            sock.sendall(post(BODY))
            assert asked.wait(5)
        assert left.wait(5)
        row = ours.wait_rows("attempt")[0]
        assert (row["end"], row["status"], row["upstream"]) == ("client_gone", None, False)
    origin.close()


def test_a_client_that_reads_slowly_holds_the_upstream_back(tmp_path: Path) -> None:
    sent = 0

    def flood(reader: Reader, sock: socket.socket) -> None:
        nonlocal sent
        assert reader.request() is not None
        sock.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 40000000\r\n\r\n")
        piece = b"x" * 100_000
        for _ in range(400):
            sock.sendall(piece)
            sent += len(piece)

    origin = Origin(flood)
    with proxy(tmp_path, upstream=origin.url) as ours, ours.connect() as sock:
        sock.sendall(post(BODY))
        time.sleep(1)
        first = sent
        time.sleep(0.5)
        assert sent == first < 20_000_000  # kernel buffers and ours, not the body
        answer = Reader(sock).answer()
        assert answer is not None
        assert len(answer.body) == 40_000_000
        row = ours.wait_rows("attempt")[0]
        assert (row["down_bytes"], row["end"]) == (40_000_000, "clean")
    origin.close()


def test_an_upstream_that_reads_slowly_holds_the_client_back(tmp_path: Path) -> None:
    go = threading.Event()

    def lazy(reader: Reader, sock: socket.socket) -> None:
        go.wait(10)
        plain_answer(reader, sock)

    origin = Origin(lazy)
    with proxy(tmp_path, upstream=origin.url) as ours, ours.connect() as sock:
        data = post(b"x" * 40_000_000)
        sock.setblocking(False)
        at = 0
        still = 0
        while at < len(data) and still < 20:
            try:
                at += sock.send(data[at : at + 1_000_000])
                still = 0
            except BlockingIOError:
                still += 1
                time.sleep(0.02)
        assert at < 25_000_000
        go.set()
        sock.settimeout(20)
        sock.sendall(data[at:])
        answer = Reader(sock).answer()
        assert answer is not None
        assert answer.body == CHAT
        assert ours.wait_rows("attempt")[0]["up_bytes"] == 40_000_000
    origin.close()


def test_a_refused_upstream_is_a_502_in_the_dialects_words(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    with proxy(tmp_path, upstream=f"http://127.0.0.1:{port}") as ours, ours.connect() as sock:
        reader = Reader(sock)
        kinds = ((b"/v1/chat/completions", "openai_chat"), (b"/v1/messages", "anthropic"), (b"/x", "plain"))
        for number, (path, kind) in enumerate(kinds, 1):
            sock.sendall(post(BODY, path=path))
            answer = reader.answer()
            assert answer is not None
            assert answer.status == 502
            assert "error" in json.loads(answer.body)
            row = ours.wait_rows("attempt", number)[-1]
            assert (row["dialect"], row["end"], row["upstream"], row["window"]) == (kind, "upstream_error", False, None)


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"HTTP/1.1 200 OK\r\nContent-Le",
        b"nonsense\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nA: b\n\r\n\r\n",
    ],
)
def test_an_upstream_that_gives_no_answer_is_a_502(tmp_path: Path, answer: bytes) -> None:
    def broken(reader: Reader, sock: socket.socket) -> None:
        assert reader.request() is not None
        sock.sendall(answer)

    origin = Origin(broken)
    with proxy(tmp_path, upstream=origin.url) as ours, ours.connect() as sock:
        sock.sendall(post(BODY))
        got = Reader(sock).answer()
        assert got is not None
        assert got.status == 502
        assert ours.wait_rows("attempt")[0]["end"] == "upstream_error"
    assert origin.connections == 1  # a fresh connection is not tried twice
    origin.close()


def test_a_silent_upstream_is_a_504_and_a_silent_client_a_408(tmp_path: Path) -> None:
    def silent(reader: Reader, sock: socket.socket) -> None:
        while reader.more():
            pass

    origin = Origin(silent)
    limits = {"answer_s": 0.5, "body_s": 0.5}
    with proxy(tmp_path, upstream=origin.url, limits=limits) as ours:
        for request, status in ((post(BODY), 504), (post(BODY)[:-5], 408)):
            with ours.connect() as sock:
                sock.sendall(request)
                answer = Reader(sock).answer()
                assert answer is not None
                assert answer.status == status
        assert [row["end"] for row in ours.wait_rows("attempt", 2)] == ["upstream_error", "client_gone"]
    origin.close()


def test_a_stale_pooled_connection_is_replaced_once_and_nobody_notices(tmp_path: Path) -> None:
    served: list[bytes] = []

    def once(reader: Reader, sock: socket.socket) -> None:
        """Answer one request, keep the connection, and close it only when the second request is here."""
        request = reader.request()
        assert request is not None
        served.append(request.body)
        sock.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
        reader.more()

    origin = Origin(once)
    with proxy(tmp_path, upstream=origin.url) as ours, ours.connect() as sock:
        reader = Reader(sock)
        for number in range(4):
            sock.sendall(post(b"%d" % number))
            answer = reader.answer()
            assert answer is not None
            assert answer.status == 200
        counts = ours.state()["counts"]
        assert counts["upstream_retries"] >= 1
        assert counts["upstream_errors"] == 0
    assert served == [b"0", b"1", b"2", b"3"]
    origin.close()


def test_a_stale_connection_with_a_body_too_large_to_keep_is_a_502(tmp_path: Path) -> None:
    def once(reader: Reader, sock: socket.socket) -> None:
        assert reader.request() is not None
        sock.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
        reader.exactly(600_000)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RST)

    origin = Origin(once)
    with proxy(tmp_path, upstream=origin.url) as ours, ours.connect() as sock:
        reader = Reader(sock)
        sock.sendall(post(b"a"))
        assert reader.answer() is not None
        sock.sendall(post(b"x" * 1_000_000))
        answer = reader.answer()
        assert answer is not None
        assert answer.status == 502
        assert ours.state()["counts"]["upstream_retries"] == 0
    origin.close()


def test_pooled_connections_are_used_again_and_pipelined_requests_wait_their_turn(tmp_path: Path) -> None:
    origin = Origin(plain_answer)
    with proxy(tmp_path, upstream=origin.url) as ours, ours.connect() as sock:
        sock.sendall(post(b"1") + post(b"22") + b"\r\n" + b"GET /x HTTP/1.1\r\nHost: a\r\n\r\n")
        reader = Reader(sock)
        for _ in range(3):
            answer = reader.answer()
            assert answer is not None
            assert answer.body == CHAT
        assert [row["up_bytes"] for row in ours.wait_rows("attempt", 3)] == [1, 2, 0]
    assert origin.connections == 1
    origin.close()


def test_an_answer_that_comes_before_the_body_is_sent_arrives(tmp_path: Path) -> None:
    def early(reader: Reader, sock: socket.socket) -> None:
        assert reader.head() is not None
        sock.sendall(b"HTTP/1.1 413 Too Large\r\nContent-Length: 3\r\nConnection: close\r\n\r\nbig")
        sock.shutdown(socket.SHUT_WR)
        while reader.more():
            pass

    origin = Origin(early)
    with proxy(tmp_path, upstream=origin.url) as ours, ours.connect() as sock:
        sock.sendall(post(b"x" * 2_000_000)[:500_000])
        answer = Reader(sock).answer()
        assert answer is not None
        assert (answer.status, answer.body) == (413, b"big")
        row = ours.wait_rows("attempt")[0]
        assert (row["status"], row["upstream"]) == (413, True)
    origin.close()


def test_a_body_that_goes_on_after_the_answer_is_still_relayed_where_the_upstream_keeps_the_connection(
    tmp_path: Path,
) -> None:
    bodies: list[bytes] = []

    def early(reader: Reader, sock: socket.socket) -> None:
        while (message := reader.head()) is not None:
            sock.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
            reader.body(message, to_the_end=False)
            bodies.append(message.body)

    origin = Origin(early)
    with proxy(tmp_path, upstream=origin.url) as ours, ours.connect() as sock:
        reader = Reader(sock)
        for number in range(2):
            request = post(b"%d" % number * 100_000)
            sock.sendall(request[:5_000])
            answer = reader.answer()
            assert answer is not None
            assert answer.status == 200
            sock.sendall(request[5_000:])
        ours.wait_rows("attempt", 2)
        assert ours.state()["counts"]["connections"] == 1
    assert [len(b) for b in bodies] == [100_000, 100_000]
    origin.close()


HOSTILE = [
    b"GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: a\r\n folded: x\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: a\r\nA: b\x00c\r\n\r\n",
    b"GET / HTTP/1.1\nHost: a\n\n",
    b"GET / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: identity\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: a\r\nA: " + b"x" * 70_000,
    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\n",
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
]


@pytest.mark.parametrize("request_bytes", HOSTILE)
def test_a_head_that_could_be_smuggled_is_a_400_and_never_reaches_the_upstream(
    tmp_path: Path, request_bytes: bytes
) -> None:
    origin = Origin(plain_answer)
    with proxy(tmp_path, upstream=origin.url) as ours, ours.connect() as sock:
        sock.sendall(request_bytes)
        answer = Reader(sock).answer()
        assert answer is not None
        assert answer.status == 400
        assert answer.field(b"connection") == b"close"
        assert sock.recv(1) == b""
        assert ours.state()["counts"]["refused_heads"] == 1
    assert origin.connections == 0
    origin.close()


def test_a_bad_chunk_is_a_400_and_the_upstream_request_is_cancelled(tmp_path: Path) -> None:
    origin = Origin(plain_answer)
    with proxy(tmp_path, upstream=origin.url) as ours, ours.connect() as sock:
        sock.sendall(b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n")
        ours.until(lambda state: state["counts"]["in_flight"] == 1)
        sock.sendall(b"zz\r\n")
        answer = Reader(sock).answer()
        assert answer is not None
        assert answer.status == 400
        assert ours.wait_rows("attempt")[0]["end"] == "cut"
    origin.close()


def test_idle_and_slow_heads_meet_a_deadline(tmp_path: Path) -> None:
    origin = Origin(plain_answer)
    with proxy(tmp_path, upstream=origin.url, limits={"head_s": 0.5}) as ours:
        socks = [ours.connect() for _ in range(50)]
        socks[0].sendall(b"GET / HTTP/1.1\r\nHo")
        for sock in socks:
            assert sock.recv(1) == b""
            sock.close()
        assert ours.state()["counts"]["head_deadlines"] == 50
        assert b"Traceback" not in ours.stderr.read_bytes()
    origin.close()


def test_clients_that_reset_at_once_leave_nothing_behind(tmp_path: Path) -> None:
    origin = Origin(plain_answer)
    with proxy(tmp_path, upstream=origin.url) as ours:
        before = ours.descriptors()
        for number in range(60):
            sock = ours.connect()
            sock.sendall(post(BODY)[: number * 3])
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RST)
            sock.close()
        ours.until(lambda state: state["counts"]["in_flight"] == 0)
        time.sleep(0.3)
        assert ours.descriptors() <= before + 8
        assert ours.stderr.read_bytes() == b""
    origin.close()


def test_an_upgrade_becomes_an_opaque_tunnel(tmp_path: Path) -> None:
    def upgraded(reader: Reader, sock: socket.socket) -> None:
        message = reader.request()
        assert message is not None
        assert (message.field(b"upgrade"), message.field(b"connection")) == (b"websocket", b"Upgrade")
        sock.sendall(b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\nhello")
        while True:
            if not reader.buf and not reader.more():
                return
            sock.sendall(reader.buf.upper())
            reader.buf = b""

    origin = Origin(upgraded)
    with proxy(tmp_path, upstream=origin.url) as ours:
        with ours.connect() as sock:
            sock.sendall(b"GET /ws HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
            reader = Reader(sock)
            answer = reader.answer()
            assert answer is not None
            assert (answer.status, answer.field(b"upgrade")) == (101, b"websocket")
            assert reader.exactly(5) == b"hello"
            sock.sendall(b"\x00\xff raw bytes")
            assert reader.exactly(12) == b"\x00\xff RAW BYTES"
        row = ours.wait_rows("attempt")[0]
        assert (row["status"], row["end"], row["up_bytes"]) == (101, "clean", 12)
    assert not origin.problems
    origin.close()


def test_h2c_is_not_offered_on_and_connect_is_refused(tmp_path: Path) -> None:
    seen: list[bytes | None] = []

    def note(reader: Reader, sock: socket.socket) -> None:
        while (message := reader.request()) is not None:
            seen.append(message.field(b"upgrade"))
            sock.sendall(b"HTTP/1.1 204 No Content\r\n\r\n")

    origin = Origin(note)
    with proxy(tmp_path, upstream=origin.url) as ours:
        with ours.connect() as sock:
            sock.sendall(b"GET / HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\n")
            answer = Reader(sock).answer()
            assert answer is not None
            assert answer.status == 204
        with ours.connect() as sock:
            sock.sendall(b"CONNECT api.example:443 HTTP/1.1\r\nHost: api.example:443\r\n\r\n")
            answer = Reader(sock).answer()
            assert answer is not None
            assert answer.status == 501
    assert seen == [None]
    origin.close()


def test_the_upstreams_prefix_and_host_are_put_in(tmp_path: Path) -> None:
    seen: list[tuple[bytes, bytes | None]] = []

    def note(reader: Reader, sock: socket.socket) -> None:
        while (message := reader.request()) is not None:
            seen.append((message.first, message.field(b"host")))
            sock.sendall(b"HTTP/1.1 204 No Content\r\n\r\n")

    origin = Origin(note)
    with proxy(tmp_path, upstream=f"http://localhost:{origin.port}/base/") as ours, ours.connect() as sock:
        for target in (b"/v1/x?q", b"http://other.example/v1/x?q"):
            sock.sendall(b"GET " + target + b" HTTP/1.1\r\nHost: mine\r\n\r\n")
            assert Reader(sock).answer() is not None
    assert seen == [(b"GET /base/v1/x?q HTTP/1.1", b"localhost:%d" % origin.port)] * 2
    origin.close()
