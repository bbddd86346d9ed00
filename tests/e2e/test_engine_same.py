"""Answers that come again, byte for byte or nearly: what is remembered of one is never said of another."""

import socket
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from drillmaster.evidence.samples import OUTCOMES
from tests.e2e.test_engine import GOOD, Lab, answer, origin
from tests.e2e.wirelab import Reader

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(60)]

CUT_OFF = GOOD.replace(b'"stop"', b'"length"')
NO_STOP = GOOD.replace(b'"stop"', b"null  ")
DEARER = GOOD.replace(b'"completion_tokens":7', b'"completion_tokens":8')


@pytest.fixture
def lab(tmp_path: Path) -> Lab:
    return Lab(tmp_path)


def each(*wires: bytes, pieces: int = 1) -> Callable[[Reader, socket.socket], None]:
    """One after the other, over and over, for each connection; closes where an answer says so."""

    def handle(reader: Reader, sock: socket.socket) -> None:
        number = 0
        while reader.request() is not None:
            wire = wires[number % len(wires)]
            number += 1
            step = -(-len(wire) // pieces)
            for at in range(0, len(wire), step):
                sock.sendall(wire[at : at + step])
                if pieces > 1:
                    time.sleep(0.01)
            if b"Connection: close" in wire:
                return

    return handle


def said(lab: Lab, handle: Callable[[Reader, socket.socket], None], calls: int) -> list[tuple[str, int, int, int]]:
    with origin(handle) as port:
        ran = lab.run(port, {"level": 1, "calls": calls})
    assert len(ran.rows) == calls
    for row in ran.rows:
        assert row.due_ns <= row.sent_ns < row.first_ns <= row.end_ns
    return [(OUTCOMES[row.outcome], row.status, row.tokens, row.down_bytes) for row in ran.rows]


def test_the_same_answer_means_the_same_each_time(lab: Lab) -> None:
    assert said(lab, each(answer()), 8) == [("ok", 200, 7, len(GOOD))] * 8


def test_an_answer_of_other_bytes_is_read_for_itself_however_alike(lab: Lab) -> None:
    assert len(CUT_OFF) != len(GOOD) == len(NO_STOP) == len(DEARER)
    same = [("ok", 200, 7, len(GOOD))] * 3
    wires = [*[answer()] * 3, answer(CUT_OFF), answer(NO_STOP), answer(DEARER), answer(status=b"201 Created")]
    assert said(lab, each(*wires), 14) == 2 * [
        *same,
        ("short", 200, 7, len(CUT_OFF)),
        ("unfinished", 200, 7, len(NO_STOP)),
        ("ok", 200, 8, len(DEARER)),
        ("error_body", 201, 7, len(GOOD)),  # that API has no such answer
    ]


def test_a_refusal_that_comes_again_is_a_refusal_each_time(lab: Lab) -> None:
    busy = answer(b'{"error":{"message":"busy"}}', b"503 Service Unavailable")
    assert said(lab, each(busy, busy, busy, answer()), 8) == 2 * [
        *[("http_5xx", 503, -1, 28)] * 3,
        ("ok", 200, 7, len(GOOD)),
    ]


def test_an_answer_that_closes_its_connection_closes_it_each_time(lab: Lab) -> None:
    closing = answer().replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n", 1)
    with origin(each(closing)) as port:
        ran = lab.run(port, {"level": 1, "calls": 6})
    assert [row.connect_ns > 0 for row in ran.rows] == [True] * 6
    assert [row.again for row in ran.rows] == [0] * 6 and ran.kinds == {"ok": 6}


def test_the_same_answer_in_pieces_begins_with_its_first(lab: Lab) -> None:
    with origin(each(answer())) as port:
        ran = lab.run(port, {"level": 1, "calls": 3})
    lab.folder = lab.folder / "second"
    lab.folder.mkdir()
    with origin(each(answer(), answer(), answer(), *[answer()] * 3, pieces=3)) as port:
        cut = lab.run(port, {"level": 1, "calls": 6})
    assert ran.kinds == {"ok": 3} and cut.kinds == {"ok": 6}
    assert all(row.end_ns - row.first_ns > 8_000_000 for row in cut.rows)


def test_the_same_answer_behind_one_for_the_meantime_counts_from_its_own_first_byte(lab: Lab) -> None:
    def handle(reader: Reader, sock: socket.socket) -> None:
        while reader.request() is not None:
            sock.sendall(b"HTTP/1.1 102 Processing\r\n\r\n")
            time.sleep(0.02)
            sock.sendall(answer())

    with origin(handle) as port:
        ran = lab.run(port, {"level": 1, "calls": 5})
    assert ran.kinds == {"ok": 5}
    assert all(row.first_ns - row.sent_ns > 15_000_000 for row in ran.rows)


def test_heads_that_differ_in_ids_dates_lengths_and_order_are_read_for_what_they_say(lab: Lab) -> None:
    def with_fields(body: bytes, *fields: bytes) -> bytes:
        return b"\r\n".join([b"HTTP/1.1 200 OK", *fields, b"Content-Length: %d" % len(body), b"", body])

    kind = b"Content-Type: application/json"
    chunked = b"HTTP/1.1 200 OK\r\n%b\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n%b\r\n0\r\n\r\n" % (
        kind,
        len(GOOD),
        GOOD,
    )
    wires = [
        with_fields(GOOD, kind, b"X-Request-Id: 1"),
        with_fields(GOOD, kind, b"X-Request-Id: 2"),
        with_fields(CUT_OFF, kind, b"X-Request-Id: 3"),
        with_fields(GOOD, b"X-Request-Id: 4", kind),
        chunked,
        with_fields(GOOD, kind, b"X-Request-Id: 1"),
        with_fields(b"{}", kind, b"X-Request-Id: content-length: 9"),
    ]
    good, short = ("ok", 200, 7, len(GOOD)), ("short", 200, 7, len(CUT_OFF))
    assert said(lab, each(*wires), 14) == 2 * [good, good, short, good, good, good, ("unfinished", 200, -1, 2)]


def test_a_head_that_became_malformed_in_what_differs_is_no_answer(lab: Lab) -> None:
    def with_id(value: bytes) -> bytes:
        return answer().replace(b"\r\n\r\n", b"\r\nX-Id: %b\r\n\r\n" % value, 1)

    wires = [
        with_id(b"1"),
        with_id(b"2"),
        with_id(b"3\n4"),
        with_id(b"5").replace(b"Content-Length: ", b"Content-Length: +"),
    ]
    with origin(each(*wires)) as port:
        ran = lab.run(port, {"level": 1, "calls": 3})
    assert [OUTCOMES[row.outcome] for row in ran.rows] == ["ok", "ok", "protocol"]
    lab.folder = lab.folder / "second"
    lab.folder.mkdir()
    with origin(each(wires[0], wires[3])) as port:
        ran = lab.run(port, {"level": 1, "calls": 2})
    assert [OUTCOMES[row.outcome] for row in ran.rows] == ["ok", "protocol"]


def test_an_answer_that_asks_for_a_wait_is_waited_for_each_time(lab: Lab) -> None:
    busy = answer(b"{}", b"503 Service Unavailable").replace(b"\r\n\r\n", b"\r\nRetry-After: 0.01\r\n\r\n", 1)
    with origin(each(busy, busy, answer())) as port:
        ran = lab.run(port, {"level": 1, "calls": 4}, patience={"max_attempts": 3, "max_wait_s": 1})
    assert ran.kinds == {"ok": 4}
    assert [row.attempts for row in ran.rows] == [3] * 4
