"""How faults of connection, time, quota and credentials go on the wire: what they leave standing, how they end, what is
written of them, and what a client that keeps to what it is told gets."""

import socket
import struct
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from drillmaster.errors import Refused
from drillmaster.rules.retry_after import Told, parse_http_date, read
from tests.e2e.test_faults_wire import BODY, GEMINI, KEY, NEW_KEY, OPENAI, shoot
from tests.e2e.wirelab import CHAT, Origin, ProxyProcess, Reader, plain_answer, post, proxy

pytestmark = pytest.mark.e2e


@pytest.fixture(scope="module")
def origin() -> Iterator[Origin]:
    one = Origin(plain_answer)
    yield one
    one.close()


@pytest.fixture(scope="module")
def ours(origin: Origin, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ProxyProcess]:
    with proxy(tmp_path_factory.mktemp("wire"), upstream=origin.url) as one:
        yield one


@pytest.fixture
def fresh(origin: Origin, tmp_path: Path) -> Iterator[ProxyProcess]:
    with proxy(tmp_path, upstream=origin.url) as one:
        yield one


# Connection


def test_refused_closes_idle_connections_and_lets_those_at_work_finish(tmp_path: Path) -> None:
    def slow(reader: Reader, sock: socket.socket) -> None:
        while reader.request() is not None:
            time.sleep(0.5)
            sock.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")

    origin = Origin(slow)
    with proxy(tmp_path, upstream=origin.url) as ours, ours.connect() as idle, ours.connect() as busy:
        ours.until(lambda state: state["counts"]["connections"] == 2)
        busy.sendall(OPENAI)
        ours.until(lambda state: state["counts"]["in_flight"] == 1)
        ours.inject("refused")
        assert idle.recv(1) == b""
        reader = Reader(busy)
        answer = reader.answer()
        assert answer is not None
        assert (answer.body, answer.field(b"connection")) == (b"ok", b"close")
        assert busy.recv(1) == b""
        assert shoot(ours, ()) == "<connect: ECONNREFUSED>\n"
        row = ours.wait_rows("attempt")[0]
        assert (row["window"], row["end"]) == (None, "clean")
        ours.lift()
        with ours.connect() as sock:
            sock.sendall(OPENAI)
            assert Reader(sock).answer() is not None
    origin.close()


@pytest.mark.parametrize("tag", ["refused", "syn-black-hole"])
def test_a_closed_port_opens_by_itself_when_nobody_renews(fresh: ProxyProcess, tag: str) -> None:
    fresh.inject(tag, ttl_s=0.8)
    assert fresh.wait_rows("fault_met")[0] | {"t": 0, "ns": 0} == {
        "event": "fault_met",
        "attempt": None,
        "window": "w1",
        "client_bytes": 0,
        "proof": "probe",
        "t": 0,
        "ns": 0,
    }
    assert shoot(fresh, ()).startswith("<connect: ")
    fresh.wait_rows("fault_lifted")
    with fresh.connect() as sock:
        sock.sendall(OPENAI)
        assert Reader(sock).answer() is not None


@pytest.mark.parametrize("tag", ["refused", "syn-black-hole"])
def test_a_proxy_that_is_killed_leaves_no_closed_port_behind(origin: Origin, tmp_path: Path, tag: str) -> None:
    with socket.socket() as listener:  # as the conductor does: the port outlives the proxy
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(("127.0.0.1", 0))
        listener.listen(64)
        with proxy(tmp_path, upstream=origin.url, listen_fd=listener.fileno()) as first:
            first.inject(tag)
            first.wait_rows("fault_met")
            assert shoot(first, ()).startswith("<connect: ")
            first.process.kill()
            first.process.wait(10)
        with proxy(tmp_path, upstream=origin.url, listen_fd=listener.fileno()) as second:
            assert second.port == listener.getsockname()[1]
            with second.connect() as sock:
                sock.sendall(OPENAI)
                assert Reader(sock).answer() is not None


def test_a_client_in_the_black_hole_gets_through_after_the_lift(fresh: ProxyProcess) -> None:
    fresh.inject("syn-black-hole")
    fresh.wait_rows("fault_met")
    with socket.socket() as sock:
        sock.settimeout(5)
        assert shoot(fresh, ()) == "<connect: no answer>\n"
        fresh.lift()
        sock.connect(("127.0.0.1", fresh.port))
        sock.sendall(OPENAI)
        assert Reader(sock).answer() is not None
    assert fresh.state()["counts"]["refused_connections"] == 0


def test_the_port_stays_ours_while_it_refuses(fresh: ProxyProcess) -> None:
    fresh.inject("refused")
    fresh.wait_rows("fault_met")
    with socket.socket() as thief, pytest.raises(OSError, match="in use"):
        thief.bind(("127.0.0.1", fresh.port))
    for number in range(3):
        fresh.lift(f"w{number}" if number else "w1")
        fresh.inject("refused", f"w{number + 2}")
        assert shoot(fresh, ()) == "<connect: ECONNREFUSED>\n"
        fresh.lift(f"w{number + 2}")


def test_a_proxy_that_is_dead_by_refusal_from_the_start_refuses(tmp_path: Path) -> None:
    with proxy(tmp_path, mode="refused") as ours:
        ours.wait_rows("fault_met")
        assert shoot(ours, ()) == "<connect: ECONNREFUSED>\n"


def test_rst_on_accept_meets_connections_of_which_no_byte_was_read(fresh: ProxyProcess, origin: Origin) -> None:
    before = origin.connections
    fresh.inject("rst-on-accept")
    with pytest.raises(ConnectionResetError), fresh.connect() as sock:
        sock.recv(1)
    row = fresh.wait_rows("fault_met")[0]
    assert (row["attempt"], row["client_bytes"], row["proof"]) == (None, 0, "connections")
    assert fresh.rows("attempt") == []
    assert origin.connections == before
    assert fresh.state()["counts"]["in_flight"] == 0


def test_two_hundred_resets_on_accept_leave_nothing_behind(fresh: ProxyProcess) -> None:
    fresh.inject("rst-on-accept")
    before = fresh.descriptors()
    for _ in range(200):
        with pytest.raises(ConnectionError), fresh.connect() as sock:
            sock.sendall(OPENAI)
            sock.recv(1)
    fresh.wait_rows("fault_met", 200)
    state = fresh.until(lambda state: state["counts"]["held"] == 0)
    assert (state["met"], state["counts"]["met"]) == (200, 200)
    assert fresh.descriptors() <= before + 1


def test_fin_before_headers_reads_eight_megabytes_so_that_no_rst_follows(fresh: ProxyProcess) -> None:
    fresh.inject("fin-before-headers")
    with fresh.connect() as sock:
        sock.sendall(post(b"x" * 8_000_000))
        assert sock.recv(1) == b""
    row = fresh.wait_rows("attempt")[0]
    assert (row["end"], row["up_bytes"], row["window"]) == ("cut", 8_000_000, "w1")


def test_the_request_before_a_stale_one_is_not_counted_as_met(fresh: ProxyProcess) -> None:
    fresh.inject("stale-keep-alive")
    shoot(fresh, (OPENAI, OPENAI))
    rows = fresh.wait_rows("attempt", 2)
    assert [(row["nth"], row["window"], row["end"]) for row in rows] == [(1, None, "clean"), (2, "w1", "rst")]


def test_what_is_cut_coded_or_ours_is_not_the_upstreams_own_answer(fresh: ProxyProcess) -> None:
    ways: tuple[tuple[str, dict[str, Any]], ...] = (
        ("cut-body", {"after_bytes": 9}),
        ("status", {"status": 500}),
        ("bad-gzip", {}),  # the body as it was, behind a head that says it is to be read otherwise
    )
    for number, (tag, params) in enumerate(ways):
        fresh.inject(tag, f"n{number}", **params)
        shoot(fresh, (OPENAI,))
        fresh.lift(f"n{number}")
    shoot(fresh, (OPENAI,))
    rows = fresh.wait_rows("attempt", 4)
    assert [(row["upstream"], row["intact"]) for row in rows] == [
        (True, False),
        (False, False),
        (True, False),
        (True, True),
    ]


# Time


def test_a_delay_comes_on_top_and_the_answer_is_the_upstreams_own(fresh: ProxyProcess) -> None:
    fresh.inject("first-byte-delay", delay_ms=400)
    with fresh.connect() as sock:
        start = time.monotonic()
        sock.sendall(post(b"x" * 2_000_000, KEY))
        sock.recv(1, socket.MSG_PEEK)
        taken_s = time.monotonic() - start
        answer = Reader(sock).answer()
    assert answer is not None
    assert answer.body == CHAT
    assert 0.4 <= taken_s < 2
    row = fresh.wait_rows("attempt")[0]
    assert (row["window"], row["end"], row["terminal"], row["upstream"]) == ("w1", "clean", True, True)


@pytest.mark.parametrize(
    "tag, params, least_s, pieces",
    [
        ("throttle", {"bytes_per_s": 400}, len(CHAT) / 400 - 0.1, 5),
        ("body-drip", {"bytes_per_s": 300}, len(CHAT) / 300 - 0.1, len(CHAT) // 2),
        ("header-drip", {"bytes_per_s": 200}, 0.3, 40),
    ],
)
def test_what_drips_comes_in_pieces_and_is_whole(
    fresh: ProxyProcess, tag: str, params: dict[str, Any], least_s: float, pieces: int
) -> None:
    fresh.inject(tag, **params)
    got: list[bytes] = []
    with fresh.connect() as sock:
        start = time.monotonic()
        sock.sendall(OPENAI)
        while CHAT not in b"".join(got):
            got.append(sock.recv(65_536))
        taken_s = time.monotonic() - start
    assert taken_s >= least_s
    assert len(got) >= pieces
    row = fresh.wait_rows("attempt")[0]
    assert (row["status"], row["window"], row["upstream"], row["down_bytes"]) == (200, "w1", True, len(CHAT))
    assert (row["intact"], row["terminal"]) == (True, True)


@pytest.mark.parametrize(
    "tag, params, linger_s",
    [
        ("body-drip", {"bytes_per_s": 0.5}, 0),
        ("throttle", {"bytes_per_s": 1}, 5),
        ("first-byte-delay", {"delay_ms": 60_000}, 0),
        ("header-drip", {"bytes_per_s": 0.5}, 5),
        ("slow-close", {"delay_ms": 60_000}, 5),
    ],
)
def test_what_is_slow_lets_the_rest_through_at_the_lift(
    fresh: ProxyProcess, tag: str, params: dict[str, Any], linger_s: float
) -> None:
    fresh.inject(tag, linger_s=linger_s, **params)
    with fresh.connect() as sock:
        sock.sendall(OPENAI)
        fresh.wait_rows("fault_met")
        fresh.lift()
        answer = Reader(sock).answer()
        assert answer is not None
        assert answer.whole
        assert answer.body == CHAT
    row = fresh.wait_rows("attempt")[0]
    assert (row["end"], row["terminal"], row["window"]) == ("clean", True, "w1")


def test_slow_close_has_the_whole_answer_there_and_its_end_late(fresh: ProxyProcess) -> None:
    fresh.inject("slow-close", delay_ms=600)
    with fresh.connect() as sock:
        sock.sendall(OPENAI)
        got = b""
        while CHAT not in got:
            got += sock.recv(65_536)
        start = time.monotonic()
        assert sock.recv(1) == b""
        assert 0.4 < time.monotonic() - start < 2
    assert b"content-length" not in got.lower()
    row = fresh.wait_rows("attempt")[0]
    assert (row["end"], row["terminal"], row["down_bytes"]) == ("clean", True, len(CHAT))
    assert row["intact"]


@pytest.mark.parametrize("tag, params", [("first-byte-delay", {"delay_ms": 50}), ("hang-after-headers", {})])
def test_an_upstream_that_is_gone_is_a_502_and_no_hang(tmp_path: Path, tag: str, params: dict[str, Any]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    with proxy(tmp_path, upstream=f"http://127.0.0.1:{port}") as ours:
        ours.inject(tag, **params)
        with ours.connect() as sock:
            sock.sendall(OPENAI)
            answer = Reader(sock).answer()
            assert answer is not None
            assert answer.status == 502
        row = ours.wait_rows("attempt")[0]
        assert (row["window"], row["end"]) == (None, "upstream_error")


# Quota and credentials


@pytest.mark.parametrize("wait_s", [1, 60, 120, 121, 3600, 277_403])
@pytest.mark.parametrize("form", ["own", "seconds", "ms", "date", "body"])
def test_the_wait_that_is_asked_for_is_the_wait_that_is_read(ours: ProxyProcess, wait_s: int, form: str) -> None:
    window = f"read-{form}-{wait_s}"
    ours.inject("rate-limit", window, retry_after_s=wait_s, form=form)
    with ours.connect() as sock:
        sock.sendall(OPENAI)
        answer = Reader(sock).answer()
    ours.lift(window)
    assert answer is not None
    assert answer.status == 429
    fields = [(name.decode(), value.decode()) for name, value in answer.fields]
    told = read(fields, answer.body, now_s=time.time())
    assert isinstance(told, Told)
    assert told.by == {"own": "ms" if told.by == "ms" else "seconds"}.get(form, form)
    assert wait_s <= told.wait_s <= wait_s + 1


def test_a_date_stands_beside_the_date_it_counts_from(ours: ProxyProcess) -> None:
    ours.inject("rate-limit", "dated", retry_after_s=3600, form="date")
    with ours.connect() as sock:
        sock.sendall(OPENAI)
        answer = Reader(sock).answer()
    ours.lift("dated")
    assert answer is not None
    written_s = parse_http_date((answer.field(b"date") or b"").decode(), now_s=time.time())
    assert written_s == pytest.approx(time.time(), abs=5)


def test_gemini_says_the_wait_in_its_body_alone(ours: ProxyProcess) -> None:
    ours.inject("rate-limit", "gemini", retry_after_s=36)
    with ours.connect() as sock:
        sock.sendall(GEMINI)
        answer = Reader(sock).answer()
    ours.lift("gemini")
    assert answer is not None
    assert answer.field(b"retry-after") is None
    assert read([], answer.body, now_s=0) == Told(36.0, "body", False)


def test_a_bucket_heals_by_itself_when_the_client_keeps_to_it(fresh: ProxyProcess) -> None:
    fresh.inject("requests-per-minute", requests=120, burst=2)
    with fresh.connect() as sock:
        reader = Reader(sock)
        statuses = []
        for _ in range(3):
            sock.sendall(OPENAI)
            answer = reader.answer()
            assert answer is not None
            statuses.append(answer.status)
        assert answer is not None
        assert statuses == [200, 200, 429]
        fields = [(name.decode(), value.decode()) for name, value in answer.fields]
        told = read(fields, answer.body, now_s=time.time())
        assert isinstance(told, Told)
        assert 0 < told.wait_s <= 1
        time.sleep(told.wait_s)
        sock.sendall(OPENAI)
        answer = reader.answer()
        assert answer is not None
        assert (answer.status, answer.body) == (200, CHAT)
        # Another key has a bucket of its own.
        for _ in range(2):
            sock.sendall(post(BODY, NEW_KEY))
            answer = reader.answer()
            assert answer is not None
            assert answer.status == 200
    rows = fresh.wait_rows("attempt", 6)
    assert [row["window"] for row in rows] == [None, None, "w1", None, None, None]


def test_rate_fields_stand_in_for_the_upstreams_own(tmp_path: Path) -> None:
    def limited(reader: Reader, sock: socket.socket) -> None:
        while reader.request() is not None:
            sock.sendall(
                b"HTTP/1.1 200 OK\r\nX-RateLimit-Limit-Requests: 9999\r\nX-Other: kept\r\nContent-Length: 2\r\n\r\nok"
            )

    origin = Origin(limited)
    with proxy(tmp_path, upstream=origin.url) as ours:
        ours.inject("requests-per-minute", requests=5)
        with ours.connect() as sock:
            sock.sendall(OPENAI)
            answer = Reader(sock).answer()
    origin.close()
    assert answer is not None
    limits = [value for name, value in answer.fields if name.lower() == b"x-ratelimit-limit-requests"]
    assert limits == [b"5"]
    assert (answer.field(b"x-other"), answer.body) == (b"kept", b"ok")


def test_the_key_of_the_baseline_is_dead_and_the_first_new_one_passes(fresh: ProxyProcess) -> None:
    old, new = OPENAI, post(BODY, NEW_KEY)
    statuses = []
    with fresh.connect() as sock:
        reader = Reader(sock)

        def ask(request: bytes) -> None:
            sock.sendall(request)
            answer = reader.answer()
            assert answer is not None
            statuses.append(answer.status)

        ask(old)
        fresh.inject("key-expired")
        for request in (new, old, new, old):
            ask(request)
        fresh.lift()
        ask(old)
    assert statuses == [200, 200, 401, 200, 401, 200]
    text = fresh.events.read_text()
    assert "sk-old" not in text
    assert "sk-new" not in text


def test_a_fault_with_nonsense_for_a_parameter_is_refused_before_anything_happens(ours: ProxyProcess) -> None:
    cases: tuple[tuple[str, dict[str, Any], str], ...] = (
        ("rate-limit", {"retry_after_s": 0}, "retry_after_s"),
        ("rate-limit", {}, "retry_after_s"),
        ("throttle", {"bytes_per_s": -1}, "bytes_per_s"),
        ("cut-body", {}, "after_bytes"),
    )
    for tag, params, name in cases:
        with pytest.raises(Refused, match=name):
            ours.inject(tag, "nonsense", **params)
    assert not [row for row in ours.rows("fault_injected") if row["window"] == "nonsense"]


def _rst_on_close(sock: socket.socket) -> None:
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


@pytest.mark.parametrize("tag", ["hang-after-headers", "slow-close", "first-byte-delay", "body-drip"])
def test_a_client_that_leaves_frees_all_it_held(fresh: ProxyProcess, tag: str) -> None:
    params: dict[str, dict[str, Any]] = {
        "slow-close": {"delay_ms": 60_000},
        "first-byte-delay": {"delay_ms": 60_000},
        "body-drip": {"bytes_per_s": 1},
    }
    fresh.inject(tag, **params.get(tag, {}))
    before = fresh.descriptors()
    socks = [fresh.connect() for _ in range(20)]
    for sock in socks:
        sock.sendall(OPENAI)
    fresh.wait_rows("fault_met", 20)
    for number, sock in enumerate(socks):
        if number % 2:
            _rst_on_close(sock)
        sock.close()
    fresh.until(lambda state: state["counts"]["held"] == 0 and state["counts"]["in_flight"] == 0)
    assert fresh.descriptors() <= before + 2
