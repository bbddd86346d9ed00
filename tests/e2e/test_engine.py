"""The HTTP engine against servers of known law: every call on record, each under its right name, none invented."""

import contextlib
import gzip
import json
import signal
import socket
import ssl
import struct
import subprocess
import sys
import threading
import time
import zlib
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import trustme

from drillmaster.evidence.samples import OUTCOMES, Sample, read_gaps, read_samples
from tests.e2e.wirelab import Origin, Reader

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(60)]

GOOD = (
    b'{"id":"c","object":"chat.completion","choices":[{"index":0,"message":{"role":"assistant","content":"hello"},'
    b'"finish_reason":"stop"}],"usage":{"prompt_tokens":3,"completion_tokens":7,"total_tokens":10}}'
)
EVENTS = b"".join(
    b'data: {"choices":[{"index":0,"delta":{%b},"finish_reason":%b}]}\n\n' % (said, finish)
    for said, finish in ((b'"content":"hello"', b"null"), (b"", b'"stop"'))
)
SSE = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"


class Ran:
    """What came of one run of the engine."""

    def __init__(self, code: int, told: list[dict[str, Any]], folder: Path) -> None:
        self.code = code
        self.told = told
        self.header, columns = read_samples((folder / "samples.bin").read_bytes())
        self.rows: list[Sample] = columns.rows
        self.torn_bytes = columns.torn_bytes
        self.gaps = [list(gaps) for _, gaps in read_gaps((folder / "gaps.bin").read_bytes(), self.rows)]

    @property
    def kinds(self) -> Counter[str]:
        return Counter(OUTCOMES[row.outcome] for row in self.rows)

    def ended(self, stage: str) -> dict[str, Any]:
        return next(row for row in self.told if row["event"] == "stage_ended" and row["stage"] == stage)


class Lab:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.mono0_ns = 0

    def spec(self, port: int, *stages: dict[str, Any], **more: Any) -> dict[str, Any]:
        self.mono0_ns = time.monotonic_ns()
        shot = {
            "target": "/v1/chat/completions",
            "authority": "x",
            "dialect": "openai_chat",
            "payloads": ['{"model":"m"}'],
        }
        return {
            "to": [{"host": "127.0.0.1", "port": port}],
            "shot": {**shot, **more.pop("shot", {})},
            "stages": [{"label": f"s{n}", "kind": "closed", **stage} for n, stage in enumerate(stages)],
            "time_limit_s": 5,
            "samples": str(self.folder / "samples.bin"),
            "gaps": str(self.folder / "gaps.bin"),
            "mono0_ns": self.mono0_ns,
            **more,
        }

    def start(self, spec: dict[str, Any]) -> "subprocess.Popen[bytes]":
        process = subprocess.Popen(
            [sys.executable, "-m", "drillmaster.engines"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        assert process.stdin is not None
        process.stdin.write(json.dumps(spec).encode())
        process.stdin.close()
        return process

    def run(self, port: int, *stages: dict[str, Any], **more: Any) -> Ran:
        with self.start(self.spec(port, *stages, **more)) as process:
            assert process.stdout is not None
            told = [json.loads(line) for line in process.stdout]
            code = process.wait(30)
        return Ran(code, told, self.folder)


@pytest.fixture
def lab(tmp_path: Path) -> Lab:
    return Lab(tmp_path)


@contextlib.contextmanager
def origin(handle: Callable[[Reader, socket.socket], None], **more: Any) -> Iterator[int]:
    one = Origin(handle, **more)
    try:
        yield int(one.url.rpartition(":")[2])
    finally:
        one.close()


def answer(body: bytes = GOOD, status: bytes = b"200 OK", kind: bytes = b"application/json") -> bytes:
    return b"HTTP/1.1 %b\r\nContent-Type: %b\r\nContent-Length: %d\r\n\r\n%b" % (status, kind, len(body), body)


def packed(
    body: bytes,
    *,
    how: bytes = b"gzip",
    by: Callable[[bytes], bytes] = gzip.compress,
    kind: bytes = b"application/json",
    length: bool = True,
) -> bytes:
    """The same in a content coding; without `length` it ends where the connection does."""
    body = by(body)
    fields = b"Content-Type: %b\r\nContent-Encoding: %b" % (kind, how)
    framing = b"\r\nContent-Length: %d" % len(body) if length else b""
    return b"HTTP/1.1 200 OK\r\n%b%b\r\n\r\n%b" % (fields, framing, body)


def always(wire: bytes, *, after_s: float = 0.0) -> Callable[[Reader, socket.socket], None]:
    def handle(reader: Reader, sock: socket.socket) -> None:
        while reader.request() is not None:
            time.sleep(after_s)
            sock.sendall(wire)

    return handle


def test_a_closed_loop_makes_as_many_calls_as_it_is_told_on_as_many_connections_and_no_more(lab: Lab) -> None:
    at_once, most, lock = 0, 0, threading.Lock()

    def handle(reader: Reader, sock: socket.socket) -> None:
        nonlocal at_once, most
        while reader.request() is not None:
            with lock:
                at_once += 1
                most = max(most, at_once)
            time.sleep(0.02)
            with lock:
                at_once -= 1
            sock.sendall(answer())

    with origin(handle) as port:
        ran = lab.run(port, {"level": 4, "calls": 40})
    assert (ran.code, ran.kinds, most) == (0, {"ok": 40}, 4)
    assert ran.ended("s0")["connections"] == 4
    for row in ran.rows:
        assert 0 < row.due_ns <= row.sent_ns < row.first_ns <= row.end_ns
        assert 0.02e9 <= row.end_ns - row.due_ns < 1e9
        assert (row.status, row.tokens, row.down_bytes, row.up_bytes) == (200, 7, len(GOOD), 13)
    assert sum(row.connect_ns > 0 for row in ran.rows) == 4


@pytest.mark.parametrize(
    ("wire", "kind", "status"),
    [
        (answer(), "ok", 200),
        (answer(GOOD.replace(b'"stop"', b'"length"')), "short", 200),
        (answer(b""), "empty", 200),
        (answer(b'{"error":{"message":"overloaded","type":"server_error"}}'), "error_body", 200),
        (answer(b"<html>log in</html>", kind=b"text/html"), "unfinished", 200),
        (answer(b"{}"), "unfinished", 200),
        (answer(b"", status=b"302 Found"), "http_3xx", 302),
        (answer(b"{}", status=b"429 Too Many Requests"), "http_4xx", 429),
        (answer(b"{}", status=b"503 Service Unavailable"), "http_5xx", 503),
        (answer()[:-5], "cut", 200),
        (SSE + b"4\r\nda", "cut", 200),
        (b"SSH-2.0-none\r\n\r\n", "protocol", -1),
        (b"SSH-2.0-none\r\n", "protocol", -1),  # and waits for more
        (b"\x15\x03\x01\x00\x02\x02\x0a", "protocol", -1),  # TLS, which was called in the clear
        (b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: h2c\r\n\r\n", "protocol", -1),
        (b"HTTP/1.1 102 Processing\r\n\r\n" * 2_000 + answer(), "ok", 200),
        (b"HTTP/1.1 102 Processing\r\n\r\n" * 2_000, "cut", -1),
        (packed(GOOD), "ok", 200),
        (packed(GOOD.replace(b'"stop"', b'"length"')), "short", 200),
        (packed(b'{"error":{"message":"overloaded"}}'), "error_body", 200),
        (packed(b""), "empty", 200),
        (packed(GOOD, how=b"deflate", by=zlib.compress), "ok", 200),
        (packed(GOOD, by=lambda body: gzip.compress(body)[:-9]), "protocol", 200),
        (packed(GOOD, by=lambda body: body), "protocol", 200),
        (packed(EVENTS, kind=b"text/event-stream"), "ok", 200),
        (packed(EVENTS, kind=b"text/event-stream", length=False), "ok", 200),
        (packed(EVENTS, kind=b"text/event-stream", length=False)[:-12], "cut", 200),
        (SSE + b"zz\r\n\r\n", "protocol", 200),
        (b"", "cut", -1),
    ],
)
def test_each_way_to_end_has_its_own_name(lab: Lab, wire: bytes, kind: str, status: int) -> None:
    def once(reader: Reader, sock: socket.socket) -> None:
        reader.request()
        sock.sendall(wire)

    with origin(once) as port:
        ran = lab.run(port, {"level": 1, "calls": 3})
    assert ran.kinds == {kind: 3}
    assert {row.status for row in ran.rows} == {status}


def test_a_stream_is_timed_word_by_word_and_has_to_end_as_its_api_says(lab: Lab) -> None:
    def word(text: str) -> bytes:
        data = (
            b'data: {"object":"chat.completion.chunk","choices":[{"index":0,"delta":{"content":"%b"}}]}\n\n'
            % text.encode()
        )
        return b"%x\r\n%b\r\n" % (len(data), data)

    stop = b'data: {"object":"chat.completion.chunk","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n'
    turn = iter(range(100))

    def handle(reader: Reader, sock: socket.socket) -> None:
        while reader.request() is not None:
            sock.sendall(SSE + word(""))  # the role, which is no word
            time.sleep(0.05)
            sock.sendall(word("a"))
            time.sleep(0.02)
            half = word("b")
            sock.sendall(half[:30])
            sock.sendall(half[30:] + word("c"))
            if next(turn) == 0:
                sock.sendall(b"%x\r\n%b\r\n" % (len(stop), stop))
            sock.sendall(b"0\r\n\r\n")

    with origin(handle) as port:
        ran = lab.run(port, {"level": 1, "calls": 2})
    assert [OUTCOMES[row.outcome] for row in ran.rows] == ["ok", "unfinished"]
    for row, gaps in zip(ran.rows, ran.gaps, strict=True):
        assert row.words == 3
        assert row.word_ns - row.sent_ns >= 0.05e9
        assert row.first_ns < row.word_ns
        assert len(gaps) == 2
        assert gaps[0] >= 18_000
        assert gaps[1] < 15_000


def test_an_open_loop_counts_from_when_a_call_was_due_and_sees_the_stall_that_a_closed_one_hides(lab: Lab) -> None:
    begun = time.monotonic()

    def stalls(reader: Reader, sock: socket.socket) -> None:
        while reader.request() is not None:
            into = (time.monotonic() - begun) % 2.0
            if into < 0.8:
                time.sleep(0.8 - into)
            sock.sendall(answer())

    with origin(stalls) as port:
        ran = lab.run(port, {"kind": "open", "rate_per_s": 100, "seconds": 4, "level": 500}, {"level": 4, "seconds": 4})
    opened = sorted(row.end_ns - row.due_ns for row in ran.rows if row.stage == 0)
    closed = sorted(row.end_ns - row.due_ns for row in ran.rows if row.stage == 1)
    assert len(opened) == 400
    # Of each period 40 % is a stall; who is due in it waits for its end.
    hit = sum(latency > 0.1e9 for latency in opened) / len(opened)
    assert 0.28 < hit < 0.42
    assert 0.6e9 < opened[int(0.95 * len(opened))] < 0.95e9
    assert sum(latency > 0.1e9 for latency in closed) / len(closed) < 0.05


def test_what_was_due_and_could_not_be_sent_is_on_record(lab: Lab) -> None:
    with origin(always(answer(), after_s=0.1)) as port:
        ran = lab.run(port, {"kind": "open", "rate_per_s": 100, "seconds": 1, "level": 2})
    assert sum(ran.kinds.values()) == 100
    assert set(ran.kinds) == {"ok", "dropped"}
    assert 15 <= ran.kinds["ok"] <= 24
    for row in ran.rows:
        if OUTCOMES[row.outcome] == "dropped":
            assert (row.sent_ns, row.first_ns, row.status) == (0, 0, -1)


def test_nobody_there_and_nobody_answering_are_told_apart(lab: Lab) -> None:
    with socket.create_server(("127.0.0.1", 0)) as gone:
        port = gone.getsockname()[1]
    ran = lab.run(port, {"level": 2, "calls": 4})
    assert ran.kinds == {"refused": 4}
    lab.folder = lab.folder / "second"
    lab.folder.mkdir()
    with origin(lambda reader, sock: time.sleep(1.5)) as port:
        ran = lab.run(port, {"level": 2, "calls": 2}, time_limit_s=0.4)
    assert ran.kinds == {"timeout": 2}
    for row in ran.rows:
        assert 0.4e9 <= row.end_ns - row.due_ns < 0.7e9


def test_a_kept_connection_that_was_closed_is_replaced_once_and_said(lab: Lab) -> None:
    def one_each(reader: Reader, sock: socket.socket) -> None:
        reader.request()
        sock.sendall(answer())
        time.sleep(0.05)  # closes without having said so

    with origin(one_each) as port:
        ran = lab.run(port, {"level": 1, "calls": 5})
    assert ran.kinds == {"ok": 5}
    assert sum(row.again for row in ran.rows) >= 3


def test_a_reset_between_two_calls_belongs_to_none(lab: Lab) -> None:
    def resets(reader: Reader, sock: socket.socket) -> None:
        reader.request()
        sock.sendall(answer())
        time.sleep(0.05)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))

    with origin(resets) as port:
        ran = lab.run(port, {"kind": "open", "level": 4, "rate_per_s": 4, "seconds": 1})
    assert (ran.code, ran.kinds) == (0, {"ok": 4})
    assert all(row.connect_ns and not row.again for row in ran.rows)


def test_tls_is_checked_and_timed(lab: Lab, tmp_path: Path) -> None:
    authority = trustme.CA()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("localhost").configure_cert(context)
    authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    with origin(always(answer()), tls=context) as port:
        trusted = lab.run(
            port, {"level": 2, "calls": 6}, tls=True, server_name="localhost", ca_file=str(tmp_path / "ca.pem")
        )
        lab.folder = tmp_path / "second"
        lab.folder.mkdir()
        other = lab.run(port, {"level": 1, "calls": 1}, tls=True, server_name="other", ca_file=str(tmp_path / "ca.pem"))
    assert trusted.kinds == {"ok": 6}
    assert sorted(row.tls_ns > 0 for row in trusted.rows) == [False] * 4 + [True] * 2
    assert other.kinds == {"protocol": 1}


def test_payloads_are_taken_in_turn_and_a_call_may_carry_its_number(lab: Lab) -> None:
    heard: list[bytes] = []

    def handle(reader: Reader, sock: socket.socket) -> None:
        while (message := reader.request()) is not None:
            heard.append(message.body)
            sock.sendall(answer())

    with origin(handle) as port:
        ran = lab.run(port, {"level": 1, "calls": 4}, shot={"payloads": ["a", "b-{n}"]}, first_call=10)
    assert heard == [b"a", b"b-11", b"a", b"b-13"]
    assert [row.payload for row in ran.rows] == [0, 1, 0, 1]


def test_a_stop_records_what_was_under_way(lab: Lab) -> None:
    with (
        origin(always(answer(), after_s=0.2)) as port,
        lab.start(lab.spec(port, {"level": 3, "seconds": 30})) as process,
    ):
        assert process.stdout is not None
        process.stdout.readline()
        time.sleep(0.7)
        process.send_signal(signal.SIGTERM)
        told = [json.loads(line) for line in process.stdout]
        code = process.wait(5)
    ran = Ran(code, told, lab.folder)
    assert ran.code == 3
    assert ran.kinds["stopped"] == 3
    assert ran.kinds["ok"] >= 3


def test_a_killed_engine_leaves_what_it_had_told(lab: Lab) -> None:
    with origin(always(answer())) as port, lab.start(lab.spec(port, {"level": 8, "seconds": 30})) as process:
        assert process.stdout is not None
        told = []
        for line in process.stdout:
            told.append(json.loads(line))
            if told[-1]["event"] == "progress" and told[-1]["done"] > 500:
                break
        process.kill()
        process.wait(5)
    ran = Ran(-9, told, lab.folder)
    assert len(ran.rows) >= told[-1]["done"]
    assert ran.kinds == {"ok": len(ran.rows)}


def test_a_file_that_is_there_is_not_written_over(lab: Lab) -> None:
    (lab.folder / "samples.bin").write_bytes(b"old")
    with origin(always(answer())) as port, lab.start(lab.spec(port, {"level": 1, "calls": 1})) as process:
        assert process.wait(10) != 0
    assert (lab.folder / "samples.bin").read_bytes() == b"old"
