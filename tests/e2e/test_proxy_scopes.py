"""Scripts of connection scope, and exchanges whose upstream is lost while a script has them, on a real proxy."""

import socket
import struct
import time
from collections.abc import Callable, Iterator
from typing import ClassVar

import pytest

from drillmaster.faults import Close, Cx, Data, End, Fault, Late, Lifted, Proof, Raw, Read, Scope, Script, Send, Wait
from tests.e2e.test_proxy_scripts import Lab, script
from tests.e2e.wirelab import CHAT, Origin, Reader, plain_answer, post

pytestmark = pytest.mark.e2e


def on_connection(body: Callable[[Cx], Script]) -> Fault:
    class Scripted(Fault, frozen=True, kw_only=True, tag="scripted"):
        scope: ClassVar[Scope] = "connection"
        proof: ClassVar[Proof] = "connections"

        def script(self, cx: Cx) -> Script:
            assert (cx.request, cx.nth) == (None, 0)
            return body(cx)

    return Scripted()


@pytest.fixture
def origin() -> Iterator[Origin]:
    one = Origin(plain_answer)
    yield one
    one.close()


@pytest.fixture
def lab(origin: Origin) -> Iterator[Lab]:
    one = Lab(origin.url)
    yield one
    give_up = time.monotonic() + 5
    while one.server.hub.running:
        assert time.monotonic() < give_up
        time.sleep(0.01)
    assert one.server.hub.counters.held == 0
    one.close()


def answer_of(sock: socket.socket) -> bytes:
    sock.sendall(post())
    answer = Reader(sock).answer()
    assert answer is not None
    return answer.body


def test_a_script_that_says_nothing_leaves_an_ordinary_connection(lab: Lab) -> None:
    def nothing(cx: Cx) -> Script:
        return
        yield

    lab.inject(on_connection(nothing))
    with lab.connect() as sock:
        assert answer_of(sock) == CHAT
        assert answer_of(sock) == CHAT
    assert lab.rows.of("fault_met") == []
    assert [row["window"] for row in lab.rows.wait("attempt", 2)] == [None, None]


def test_a_script_may_answer_in_raw_bytes(lab: Lab) -> None:
    def banner(cx: Cx) -> Script:
        got = b""
        while b"\r\n\r\n" not in got:
            event = yield Read("client")
            assert isinstance(event, Data)
            got += event.body
        yield Send(Raw(b"SSH-2.0-none\r\n"))
        yield Close("fin")

    lab.inject(on_connection(banner))
    with lab.connect() as sock:
        sock.sendall(b"GET / HTTP/1.1\r\n\r\n")
        assert sock.recv(100) == b"SSH-2.0-none\r\n"
        assert sock.recv(100) == b""
    row = lab.rows.wait("fault_met")[0]
    assert (row["attempt"], row["client_bytes"], row["proof"]) == (None, 18, "connections")


def test_a_silent_client_is_late_and_a_client_that_ends_is_seen(lab: Lab) -> None:
    heard: list[object] = []

    def listen(cx: Cx) -> Script:
        heard.append((yield Read("client", within_s=0.05)))
        heard.append((yield Read("client")))
        yield Close("rst")

    lab.inject(on_connection(listen))
    with lab.connect() as sock:
        time.sleep(0.2)
        sock.shutdown(socket.SHUT_WR)
        with pytest.raises(ConnectionResetError):
            sock.recv(1)
    assert heard == [Late(), End()]


@pytest.mark.parametrize("linger_s, least_s, most_s", [(0.0, 0.0, 1.0), (0.6, 0.3, 3.0)])
def test_a_lift_ends_it_when_the_linger_is_over(lab: Lab, linger_s: float, least_s: float, most_s: float) -> None:
    def hold(cx: Cx) -> Script:
        while True:
            try:
                yield Wait()
            except Lifted:
                continue

    lab.inject(on_connection(hold), linger_s=linger_s)
    with lab.connect() as sock:
        lab.rows.wait("fault_met")
        begun = time.monotonic()
        lab.lift()
        with pytest.raises(ConnectionResetError):
            sock.recv(1)
        assert least_s <= time.monotonic() - begun <= most_s
    with lab.connect() as sock:
        assert answer_of(sock) == CHAT


def test_a_client_that_leaves_closes_the_script(lab: Lab) -> None:
    closed: list[bool] = []

    def hold(cx: Cx) -> Script:
        try:
            yield Wait()
        finally:
            closed.append(True)

    lab.inject(on_connection(hold))
    for how in ("fin", "rst"):
        sock = lab.connect()
        lab.rows.wait("fault_met", len(closed) + 1)
        if how == "rst":
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        sock.close()
        give_up = time.monotonic() + 5
        while lab.server.hub.running and time.monotonic() < give_up:
            time.sleep(0.01)
    assert closed == [True, True]


def test_a_broken_script_lifts_its_fault(lab: Lab) -> None:
    def broken(cx: Cx) -> Script:
        yield Wait(0.0)
        raise KeyError("oops")

    lab.inject(on_connection(broken))
    with pytest.raises(ConnectionResetError), lab.connect() as sock:  # the reset may be there before `connect` returns
        sock.recv(1)
    assert lab.rows.wait("fault_lifted")[0]["why"] == "failed"
    with lab.connect() as sock:
        assert answer_of(sock) == CHAT


def test_what_an_upstream_sent_before_it_broke_is_shown_with_the_break() -> None:
    def broken(reader: Reader, sock: socket.socket) -> None:
        reader.request()
        sock.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf")
        time.sleep(0.1)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))

    origin = Origin(broken)
    lab = Lab(origin.url)

    def late(cx: Cx) -> Script:
        yield Read("upstream")
        yield Wait(0.5)

    lab.inject(script(late))
    with lab.connect() as sock:
        sock.sendall(post())
        got = b""
        with pytest.raises(ConnectionResetError):
            while data := sock.recv(65_536):
                got += data
    assert got.endswith(b"\r\n\r\nhalf")
    row = lab.rows.wait("attempt")[0]
    assert (row["status"], row["end"], row["intact"], row["window"]) == (200, "rst", False, "w")
    lab.close()
    origin.close()
