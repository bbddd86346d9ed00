"""The fault language at work: scripts that no shipped fault is yet, on a real proxy in a thread of its own."""

import asyncio
import contextlib
import json
import select
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from drillmaster.faults import (
    Close,
    Cx,
    Data,
    End,
    Fault,
    Frame,
    Head,
    Late,
    Lifted,
    Lost,
    Pass,
    Passed,
    Raw,
    Read,
    Script,
    Send,
    Wait,
)
from drillmaster.proxy.server import Server
from drillmaster.proxy.settings import Settings
from drillmaster.proxy.switch import Armed
from drillmaster.targeting import Rule
from tests.e2e.wirelab import CHAT, Origin, Reader, plain_answer, post

pytestmark = pytest.mark.e2e

EVENTS = [b"data: %d\n\n" % n for n in range(6)]


def stream(reader: Reader, sock: socket.socket) -> None:
    """Six events in chunks that do not end where events end."""
    while reader.request() is not None:
        sock.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n")
        wire = b"".join(EVENTS)
        for piece in (wire[:5], wire[5:31], wire[31:]):
            sock.sendall(b"%x\r\n%b\r\n" % (len(piece), piece))
        sock.sendall(b"0\r\n\r\n")


class Rows:
    def __init__(self) -> None:
        self.rows: list[tuple[str, dict[str, Any]]] = []

    def write(self, event: str, /, **fields: Any) -> None:
        self.rows.append((event, fields))

    def write_encoded(self, event: str, fields: bytes, ns: int | None = None) -> None:
        self.write(event, **json.loads(fields))

    def of(self, event: str) -> list[dict[str, Any]]:
        return [fields for kind, fields in self.rows if kind == event]

    def wait(self, event: str, count: int = 1) -> list[dict[str, Any]]:
        give_up = time.monotonic() + 10
        while len(self.of(event)) < count and time.monotonic() < give_up:
            time.sleep(0.01)
        assert len(self.of(event)) >= count, self.rows
        return self.of(event)


class Lab:
    """A proxy in this process, so that a test can put in a fault that is in no catalogue."""

    def __init__(self, upstream: str) -> None:
        self.rows = Rows()
        self._loop = asyncio.new_event_loop()
        self.server: Server
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._run, args=(upstream,), daemon=True)
        self._thread.start()
        assert self._ready.wait(10)
        self.port = self.server.address[1]

    def _run(self, upstream: str) -> None:
        async def serve() -> None:
            self.server = Server(Settings(port=0, upstream=upstream), self._loop, self.rows)
            await self.server.start()
            self._ready.set()
            await self.server.wait()

        self._loop.run_until_complete(serve())
        self._loop.run_until_complete(self._loop.shutdown_default_executor())
        self._loop.close()

    def call(self, what: Callable[[], Any]) -> Any:
        done = threading.Event()
        out: list[Any] = []

        def run() -> None:
            out.append(what())
            done.set()

        self._loop.call_soon_threadsafe(run)
        assert done.wait(10)
        return out[0]

    def inject(self, fault: Fault, *, ttl_s: float = 30, linger_s: float = 0, window: str = "w") -> None:
        def run() -> None:
            switch = self.server.hub.switch
            switch.inject(switch.prepare(window, (Armed(Rule(mode="test"), fault, None),), ttl_s, linger_s))

        self.call(run)

    def lift(self) -> None:
        self.call(lambda: self.server.hub.switch.lift("ordered"))

    def connect(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.port), 10)

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self.server.stop, "test")
        self._thread.join(10)
        assert not self._thread.is_alive()


@pytest.fixture
def origin() -> Iterator[Origin]:
    one = Origin(stream)
    yield one
    one.close()


@pytest.fixture
def lab(origin: Origin) -> Iterator[Lab]:
    one = Lab(origin.url)
    usual_s = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)  # a loop that never waits has CPython's lock back before the threads beside it wake
    yield one
    sys.setswitchinterval(usual_s)
    give_up = time.monotonic() + 5
    while one.server.hub.running:
        assert time.monotonic() < give_up
        time.sleep(0.01)
    one.close()


def ask(lab: Lab, request: bytes = post()) -> bytes:
    """All bytes until the connection ends or is silent for a second."""
    got = b""
    with lab.connect() as sock:
        sock.settimeout(1)
        sock.sendall(request)
        with contextlib.suppress(TimeoutError):
            while data := sock.recv(65_536):
                got += data
    return got


def body_of(raw: bytes) -> bytes:
    """The body of a whole chunked answer."""
    sink, source = socket.socketpair()
    with sink, source:
        source.sendall(raw)
        source.shutdown(socket.SHUT_WR)
        answer = Reader(sink).answer()
    assert answer is not None
    assert answer.whole
    return answer.body


def script(body: Callable[[Cx], Script]) -> Fault:
    class Scripted(Fault, frozen=True, kw_only=True, tag="scripted"):
        def script(self, cx: Cx) -> Script:
            return body(cx)

    return Scripted()


def test_a_script_that_says_nothing_lets_the_exchange_pass(lab: Lab) -> None:
    def nothing(cx: Cx) -> Script:
        return
        yield

    lab.inject(script(nothing))
    assert body_of(ask(lab)) == b"".join(EVENTS)
    row = lab.rows.wait("attempt")[0]
    assert (row["window"], row["end"], row["upstream"]) == (None, "clean", True)
    assert lab.rows.of("fault_met") == []


@pytest.mark.parametrize("how", ["rst", "fin"])
@pytest.mark.parametrize("after_bytes", [1, 10, 31, 53])
def test_a_cut_comes_after_exactly_so_many_bytes(lab: Lab, how: str, after_bytes: int) -> None:
    def cut(cx: Cx) -> Script:
        passed = yield Pass(until_bytes=after_bytes)
        assert passed == Passed(after_bytes, False)
        yield Close(how)  # type: ignore[arg-type]  # a parametrized literal

    lab.inject(script(cut))
    with lab.connect() as sock:
        sock.sendall(post())
        reader = Reader(sock)
        message = reader.head()
        assert message is not None
        if how == "rst":
            with contextlib.suppress(ConnectionResetError):
                while reader.more():
                    pass
        else:
            while reader.more():
                pass
        assert not reader.buf.endswith(b"0\r\n\r\n")
    row = lab.rows.wait("attempt")[0]
    assert (row["down_bytes"], row["end"]) == (after_bytes, "rst" if how == "rst" else "cut")
    assert len(lab.rows.of("fault_met")) == 1


def test_two_passes_and_a_return_are_a_whole_answer(lab: Lab) -> None:
    def twice(cx: Cx) -> Script:
        yield Pass(until_bytes=7)
        yield Wait(0.05)
        yield Pass(until_bytes=50)
        yield Wait(0.05)

    lab.inject(script(twice))
    assert body_of(ask(lab)) == b"".join(EVENTS)
    assert lab.rows.wait("attempt")[0]["end"] == "clean"


def test_a_pass_of_more_than_there_is_ends_with_the_answer(lab: Lab) -> None:
    def much(cx: Cx) -> Script:
        yield Pass(until_bytes=1_000_000)
        raise AssertionError("not reached: the exchange is over")

    lab.inject(script(much))
    assert body_of(ask(lab)) == b"".join(EVENTS)


def test_a_delay_before_the_first_byte(lab: Lab) -> None:
    def late(cx: Cx) -> Script:
        yield Wait(0.4)

    lab.inject(script(late))
    start = time.monotonic()
    with lab.connect() as sock:
        sock.sendall(post())
        assert sock.recv(1)
        assert time.monotonic() - start >= 0.4
        Reader(sock).until(b"0\r\n\r\n")


def test_events_come_whole_and_can_be_slowed_doubled_and_reordered(lab: Lab) -> None:
    def shuffle(cx: Cx) -> Script:
        yield (yield from head(cx))
        held: list[Frame] = []
        while isinstance(frame := (yield Read("upstream", by="frame")), Frame):
            held.append(frame)
            if len(held) == 2:
                for one in (held[1], held[0], held[0]):
                    yield Wait(0.01)
                    yield Send(one)
                held.clear()
        assert frame == End()
        yield Send(End())

    lab.inject(script(shuffle))
    want = b"".join(b"".join((EVENTS[n + 1], EVENTS[n], EVENTS[n])) for n in (0, 2, 4))
    assert body_of(ask(lab)) == want
    row = lab.rows.wait("attempt")[0]
    assert (row["end"], row["upstream"], row["down_bytes"]) == ("clean", True, len(want))


def head(cx: Cx) -> Any:
    first = yield Read("upstream")
    assert isinstance(first, Head)
    kept = tuple((name, value) for name, value in first.headers if name.lower() != "content-length")
    return Send(Head(first.status, kept))


def test_a_stall_with_pings_holds_until_the_client_leaves(lab: Lab) -> None:
    def stall(cx: Cx) -> Script:
        yield (yield from head(cx))
        yield Send((yield Read("upstream", by="frame")))
        while True:
            yield Wait(0.05)
            yield Send(Frame(b": ping\n\n"))

    lab.inject(script(stall))
    with lab.connect() as sock:
        sock.sendall(post())
        reader = Reader(sock)
        assert reader.until(EVENTS[0]) is not None
        for _ in range(4):
            assert reader.until(b": ping\n\n") is not None
    assert lab.rows.wait("attempt")[0]["end"] == "stall"


def test_reading_a_silent_side_is_late_after_its_time(lab: Lab) -> None:
    heard: list[Any] = []

    def patient(cx: Cx) -> Script:
        while True:
            event = yield Read("client", within_s=0.1)
            heard.append(event)
            if isinstance(event, Late):
                break
        yield Close("rst")

    lab.inject(script(patient))
    with lab.connect() as sock:
        sock.sendall(post(b"0123456789")[:-4])
        with pytest.raises(ConnectionResetError):
            sock.recv(1)
    assert heard == [Data(b"012345"), Late()]


def test_what_a_script_read_of_the_request_still_reaches_the_upstream(origin: Origin) -> None:
    seen: list[bytes] = []

    def echo(reader: Reader, sock: socket.socket) -> None:
        while (message := reader.request()) is not None:
            seen.append(message.body)
            sock.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")

    def peek(cx: Cx) -> Script:
        event = yield Read("client")
        assert isinstance(event, Data)
        yield Pass()

    other = Origin(echo)
    lab = Lab(other.url)
    lab.inject(script(peek))
    with lab.connect() as sock:
        reader = Reader(sock)
        for request in (
            post(b"abcdef"),
            b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n3\r\ndef\r\n0\r\n\r\n",
        ):
            sock.sendall(request[:-3])
            time.sleep(0.1)
            sock.sendall(request[-3:])
            answer = reader.answer()
            assert answer is not None
            assert answer.body == b"ok"
    assert seen == [b"abcdef", b"abcdef"]
    lab.close()
    other.close()


def test_a_dead_upstream_is_lost_to_the_script() -> None:
    heard: list[Any] = []

    def report(cx: Cx) -> Script:
        heard.append((yield Read("upstream")))
        yield Close("fin")

    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    lab = Lab(f"http://127.0.0.1:{port}")
    lab.inject(script(report))
    assert ask(lab) == b""
    assert heard == [Lost("refused")]
    lab.close()


def test_raw_bytes_go_out_as_they_are(lab: Lab) -> None:
    def drip(cx: Cx) -> Script:
        for byte in b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhel":
            yield Wait(0.001)
            yield Send(Raw(bytes([byte])))
        yield Close("fin")

    lab.inject(script(drip))
    assert ask(lab) == b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhel"


def test_a_half_close_ends_our_side_and_goes_on_reading(lab: Lab) -> None:
    def half(cx: Cx) -> Script:
        yield Close("half")

    lab.inject(script(half))
    with lab.connect() as sock:
        sock.sendall(post(b"x" * 100)[:-50])
        assert sock.recv(1) == b""
        sock.sendall(b"x" * 50)
    assert lab.rows.wait("attempt")[0]["end"] in ("held", "stall")


def test_a_state_cell_outlives_the_request_and_not_the_window(lab: Lab) -> None:
    def first_two(cx: Cx) -> Script:
        count = cx.cell("count")
        count["n"] = count.get("n", 0) + 1
        if count["n"] <= 2:
            yield Close("fin")

    for window in ("w1", "w2"):
        lab.inject(script(first_two), window=window)
        assert [bool(ask(lab)) for _ in range(3)] == [False, False, True]
        lab.lift()


def test_the_second_request_on_a_connection_can_be_told(lab: Lab) -> None:
    def stale(cx: Cx) -> Script:
        if cx.nth == 2:
            yield Close("rst")

    lab.inject(script(stale))
    with lab.connect() as sock:
        sock.sendall(post())
        Reader(sock).until(b"0\r\n\r\n")
        sock.sendall(post())
        with pytest.raises(ConnectionResetError):
            sock.recv(1)


def test_fates_are_the_same_for_the_same_seed(lab: Lab) -> None:
    drawn: list[float] = []

    def draw(cx: Cx) -> Script:
        drawn.append(cx.rng.random())
        yield Close("fin")

    lab.inject(script(draw))
    ask(lab)
    ask(lab)
    assert len(set(drawn)) == 2
    assert all(0 <= value < 1 for value in drawn)


def test_a_script_that_never_waits_does_not_stop_the_others(lab: Lab) -> None:
    def busy(cx: Cx) -> Script:
        if cx.request is not None and cx.request.path == "/busy":
            yield Send(Head(200))
            while True:
                yield Send(Data(b""))

    lab.inject(script(busy))
    with lab.connect() as sock:
        sock.sendall(post(path=b"/busy"))
        assert sock.recv(100).startswith(b"HTTP/1.1 200")
        assert body_of(ask(lab)) == b"".join(EVENTS)
    lab.rows.wait("attempt", 2)


def test_a_script_that_floods_waits_for_a_client_that_does_not_read(lab: Lab) -> None:
    sent = 0

    def flood(cx: Cx) -> Script:
        nonlocal sent
        yield Send(Head(200))
        while True:
            yield Send(Data(b"x" * 100_000))
            sent += 100_000

    lab.inject(script(flood))
    with lab.connect() as sock:
        sock.sendall(post())
        time.sleep(0.7)
        first = sent
        time.sleep(0.3)
        assert sent == first < 20_000_000
        Reader(sock).exactly(first)
        assert sent > first
    lab.rows.wait("attempt")


def test_a_lift_lets_a_passing_answer_go_on_to_its_end(lab: Lab) -> None:
    go = threading.Event()

    def gated(reader: Reader, sock: socket.socket) -> None:
        assert reader.request() is not None
        sock.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n12345")
        go.wait(5)
        sock.sendall(b"67890")
        reader.more()

    def cut(cx: Cx) -> Script:
        yield Pass(until_bytes=8)
        yield Close("rst")

    other = Origin(gated)
    mine = Lab(other.url)
    mine.inject(script(cut))
    with mine.connect() as sock:
        sock.sendall(post())
        reader = Reader(sock)
        assert reader.until(b"12345") is not None
        mine.lift()
        go.set()
        assert reader.exactly(5) == b"67890"
    assert mine.rows.wait("attempt")[0]["end"] == "clean"
    mine.close()
    other.close()


def test_a_script_that_is_told_of_the_lift_may_use_its_linger(lab: Lab) -> None:
    def polite(cx: Cx) -> Script:
        try:
            yield Wait()
        except Lifted:
            yield Send(Head(503, (("content-length", "4"),)))
            yield Send(Data(b"busy"))
            yield Send(End())

    lab.inject(script(polite), linger_s=5)
    with lab.connect() as sock:
        sock.sendall(post())
        lab.rows.wait("fault_met")
        lab.lift()
        answer = Reader(sock).answer()
        assert answer is not None
        assert (answer.status, answer.body) == (503, b"busy")
    assert lab.rows.wait("attempt")[0]["end"] == "clean"


def test_without_a_linger_nothing_is_said_after_the_lift(lab: Lab) -> None:
    def stubborn(cx: Cx) -> Script:
        while True:
            try:
                yield Wait(0.01)
            except Lifted:
                yield Send(Head(200))

    lab.inject(script(stubborn))
    with lab.connect() as sock:
        sock.sendall(post())
        lab.rows.wait("fault_met")
        lab.lift()
        with pytest.raises(ConnectionResetError):
            sock.recv(1)
    assert lab.rows.wait("attempt")[0]["end"] == "lifted"


def test_evidence_that_fails_at_the_very_act_lifts_the_fault(lab: Lab) -> None:
    def act(cx: Cx) -> Script:
        yield Wait(5)
        yield Close("rst")

    def refuse(event: str, /, **fields: Any) -> None:
        raise OSError(28, "No space left on device")

    lab.inject(script(act))
    lab.rows.write = refuse  # type: ignore[method-assign]  # the disk is full from now on
    with lab.connect() as sock:
        sock.sendall(post())
        with pytest.raises(ConnectionResetError):
            sock.recv(1)
    assert lab.call(lambda: lab.server.hub.switch.current) is None
    assert body_of(ask(lab)) == b"".join(EVENTS)


def test_an_error_of_the_script_itself_is_no_fault_and_no_hang(lab: Lab) -> None:
    def broken(cx: Cx) -> Script:
        yield Wait(0.01)
        raise ZeroDivisionError

    lab.inject(script(broken))
    with lab.connect() as sock:
        sock.sendall(post())
        with pytest.raises(ConnectionResetError):
            sock.recv(1)
    assert lab.rows.wait("attempt")[0]["end"] == "lifted"
    assert lab.rows.wait("fault_lifted")[0]["why"] == "failed"
    assert body_of(ask(lab)) == b"".join(EVENTS)


def test_plain_answers_pass_a_script_that_looks_at_frames(origin: Origin) -> None:
    other = Origin(plain_answer)
    lab = Lab(other.url)

    def relay(cx: Cx) -> Script:
        yield (yield from head(cx))
        while isinstance(event := (yield Read("upstream", by="frame")), Frame):
            yield Send(event)
        assert event == End()
        yield Send(End())

    lab.inject(script(relay))
    assert json.loads(body_of(ask(lab))) == json.loads(CHAT)
    lab.close()
    other.close()


def test_nothing_is_sent_to_a_client_that_only_waits(lab: Lab) -> None:
    def hold(cx: Cx) -> Script:
        yield Wait(30)

    lab.inject(script(hold))
    with lab.connect() as sock:
        sock.sendall(post())
        lab.rows.wait("fault_met")
        assert not select.select([sock], [], [], 0.2)[0]
    assert lab.rows.wait("attempt")[0]["end"] == "held"
