"""Trailers of the real endpoint: passed, relayed by a script, or not announced."""

import socket

import pytest

from drillmaster.faults import Cx, Data, End, Fault, Head, Pass, Read, Script, Send, make, relay_body
from tests.e2e.test_proxy_scripts import Lab, ask, script
from tests.e2e.wirelab import Message, Origin, Reader, post

pytestmark = pytest.mark.e2e

SUMMED = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTrailer: X-Sum\r\nTransfer-Encoding: chunked\r\n\r\n"


def summed(reader: Reader, sock: socket.socket) -> None:
    """An answer in chunks with a trailer."""
    while reader.request() is not None:
        sock.sendall(SUMMED + b"2\r\n{}\r\n0\r\nX-Sum: 7\r\n\r\n")


def with_trailer(fault: Fault | None, request: bytes = post()) -> Message:
    """What a client gets of such an answer."""
    origin = Origin(summed)
    lab = Lab(origin.url)
    if fault is not None:
        lab.inject(fault)
    raw = ask(lab, request)
    lab.close()
    origin.close()
    sink, source = socket.socketpair()
    with sink, source:
        source.sendall(raw)
        source.shutdown(socket.SHUT_WR)
        answer = Reader(sink).answer()
    assert answer is not None and answer.whole and answer.body
    return answer


def relay(cx: Cx) -> Script:
    yield Send((yield Read("upstream")), relayed=True)
    yield from relay_body()


def end_early(cx: Cx) -> Script:
    yield Send((yield Read("upstream")), relayed=True)
    yield Send(Data(b"{"))
    yield Send(End())


def sized(cx: Cx) -> Script:
    head = yield Read("upstream")
    yield from relay_sized(head)


def relay_sized(head: Head) -> Script:
    yield Send(Head(head.status, (*head.headers, ("content-length", "2")), head.reason), relayed=True)
    yield from relay_body()


def own(cx: Cx) -> Script:
    yield Read("upstream")
    yield Send(Head(200, (("content-type", "application/json"),)))
    while not isinstance((yield Read("upstream")), End):
        pass
    yield Send(Data(b"{}"))


def pass_all(cx: Cx) -> Script:
    yield Pass()


@pytest.mark.parametrize(
    ("fault", "named", "trailers"),
    [
        (None, b"X-Sum", b"X-Sum: 7\n"),
        (script(pass_all), b"X-Sum", b"X-Sum: 7\n"),
        (script(relay), b"X-Sum", b"X-Sum: 7\n"),
        (make("date-skew", {"skew_s": 60}), b"X-Sum", b"X-Sum: 7\n"),
        (script(end_early), b"X-Sum", b""),  # its end is not the upstream's
        (script(sized), None, b""),  # what has a length has no trailer
        (script(own), None, b""),  # an answer of its own
        (make("wrong-model", {"model": "m"}), None, b""),
        (make("header-drip", {"bytes_per_s": 1000}), None, b""),
        (make("slow-close", {"delay_ms": 1}), None, b""),
    ],
)
def test_a_trailer_goes_on_where_the_framing_can_carry_it_and_is_not_announced_where_it_cannot(
    fault: Fault | None, named: bytes | None, trailers: bytes
) -> None:
    answer = with_trailer(fault)
    assert (answer.field(b"trailer"), answer.trailers) == (named, trailers)


def test_an_old_client_is_told_of_no_trailer() -> None:
    request = post().replace(b"HTTP/1.1", b"HTTP/1.0", 1)
    for fault in (None, script(relay)):
        answer = with_trailer(fault, request)
        assert (answer.field(b"trailer"), answer.body) == (None, b"{}")
