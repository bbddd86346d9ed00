"""Each fault on the wire, by its bytes: a plain socket client, a real proxy, a real origin behind it."""

import errno
import hashlib
import json
import re
import select
import shutil
import socket
import subprocess
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from drillmaster.errors import Refused
from tests.e2e.wirelab import CHAT, Origin, ProxyProcess, Reader, plain_answer, post, proxy

pytestmark = pytest.mark.e2e

BODY = b'{"messages":[{"role":"user","content":"hello dmn0123456789abcdef"}],"model":"gpt-4o","stream":false}'
TRACE = b"traceparent: 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


@pytest.fixture
def origin() -> Iterator[Origin]:
    one = Origin(plain_answer)
    yield one
    one.close()


@pytest.fixture
def ours(tmp_path: Path, origin: Origin) -> Iterator[ProxyProcess]:
    with proxy(tmp_path, upstream=origin.url) as one:
        yield one


def is_reset(sock: socket.socket) -> bool:
    try:
        return sock.recv(65_536) != b"" and is_reset(sock)
    except ConnectionResetError:
        return True


def test_reset_is_a_rst_behind_the_head_and_no_byte_of_an_answer(ours: ProxyProcess, origin: Origin) -> None:
    ours.inject("reset")
    for request in (post(BODY, TRACE), post(b"x" * 1_000_000)[:2_000], b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"):
        with ours.connect() as sock:
            sock.sendall(request)
            with pytest.raises(ConnectionResetError):
                sock.recv(65_536)
    met = ours.wait_rows("fault_met", 3)
    assert met[0]["client_bytes"] == len(post(BODY, TRACE))
    assert (met[0]["nonce"], met[0]["trace"]) == ("dmn0123456789abcdef", "0af7651916cd43dd8448eb211c80319c")
    assert [row["end"] for row in ours.wait_rows("attempt", 3)] == ["rst"] * 3
    assert [row["status"] for row in ours.rows("attempt")] == [None] * 3
    assert origin.connections == 0


def test_reset_waits_for_the_whole_head(ours: ProxyProcess) -> None:
    ours.inject("reset")
    with ours.connect() as sock:
        sock.sendall(b"POST / HTTP/1.1\r\nHost: x\r\n")
        assert not select.select([sock], [], [], 0.2)[0]
        sock.sendall(b"\r\n")
        assert is_reset(sock)


def test_503_is_a_whole_error_of_the_dialect_on_a_connection_that_stays(ours: ProxyProcess, origin: Origin) -> None:
    ours.inject("503")
    with ours.connect() as sock:
        reader = Reader(sock)
        for _ in range(3):
            sock.sendall(post(BODY))
            answer = reader.answer()
            assert answer is not None
            assert answer.first == b"HTTP/1.1 503 Service Unavailable"
            assert answer.field(b"content-type") == b"application/json"
            assert answer.field(b"connection") is None
            error = json.loads(answer.body)["error"]
            assert (error["type"], error["code"], error["param"]) == (
                "service_unavailable_error",
                "server_is_overloaded",
                None,
            )
            assert re.fullmatch(rb"req_[0-9a-f]{24}", answer.field(b"x-request-id") or b"")
        sock.sendall(post(BODY, b"anthropic-version: 2023-06-01", path=b"/v1/messages"))
        answer = reader.answer()
        assert answer is not None
        content = json.loads(answer.body)
        assert (content["type"], content["error"]["type"]) == ("error", "api_error")
        assert content["request_id"].encode() == answer.field(b"request-id")
    assert [row["end"] for row in ours.wait_rows("attempt", 4)] == ["clean"] * 4
    assert origin.connections == 0


@pytest.mark.parametrize("size_bytes", [0, 1, 1_000_000, 8_000_000])
def test_503_reads_a_body_of_any_size_before_it_answers(ours: ProxyProcess, size_bytes: int) -> None:
    ours.inject("503")
    for _ in range(5):
        request = urllib.request.Request(f"{ours.url}/v1/chat/completions", data=b"x" * size_bytes)
        with pytest.raises(urllib.error.HTTPError) as caught:
            urllib.request.urlopen(request, timeout=20)
        assert caught.value.code == 503
        caught.value.close()
    assert {row["up_bytes"] for row in ours.wait_rows("attempt", 5)} == {size_bytes}


@pytest.mark.needs("node")
def test_503_reaches_node_fetch_whatever_the_size_of_the_prompt(ours: ProxyProcess) -> None:
    ours.inject("503", ttl_s=60)
    script = """
      const seen = {};
      for (const size of [1e6, 8e6]) for (let i = 0; i < 20; i++) {
        let word;
        try { const r = await fetch(process.argv[1], {method: 'POST', body: 'x'.repeat(size)}); await r.text(); word = r.status; }
        catch (e) { word = (e.cause && e.cause.code) || e.message; }
        seen[word] = (seen[word] || 0) + 1;
      }
      console.log(JSON.stringify(seen));
    """
    node = shutil.which("node")
    assert node is not None
    out = subprocess.run(
        [node, "--input-type=module", "-e", script, f"{ours.url}/v1/chat/completions"],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert json.loads(out.stdout) == {"503": 40}


def test_503_answers_expect_100_continue_first(ours: ProxyProcess) -> None:
    ours.inject("503")
    with ours.connect() as sock:
        head, body = post(b"12345", b"Expect: 100-continue").split(b"\r\n\r\n")
        sock.sendall(head + b"\r\n\r\n")
        reader = Reader(sock)
        first = reader.head()
        assert first is not None
        assert first.status == 100
        sock.sendall(body)
        answer = reader.answer()
        assert answer is not None
        assert answer.status == 503


def test_503_reads_a_chunked_body(ours: ProxyProcess) -> None:
    ours.inject("503")
    with ours.connect() as sock:
        sock.sendall(b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n")
        assert not select.select([sock], [], [], 0.2)[0]
        sock.sendall(b"0\r\n\r\n")
        answer = Reader(sock).answer()
        assert answer is not None
        assert answer.status == 503
    assert ours.wait_rows("attempt")[0]["up_bytes"] == 5


def test_hang_reads_sixteen_megabytes_and_never_answers(ours: ProxyProcess) -> None:
    ours.inject("hang")
    with ours.connect() as sock:
        sock.sendall(post(b"x" * 16_000_000))  # a write that stalls would time out here
        met = ours.wait_rows("fault_met")
        assert met[0]["client_bytes"] > 16_000_000
        assert not select.select([sock], [], [], 0.3)[0]
    row = ours.wait_rows("attempt")[0]
    assert (row["end"], row["status"], row["up_bytes"]) == ("held", None, 16_000_000)


def test_a_client_that_leaves_a_hang_frees_all_it_held(ours: ProxyProcess) -> None:
    ours.inject("hang")
    before = ours.descriptors()
    socks = [ours.connect() for _ in range(50)]
    for sock in socks:
        sock.sendall(post(BODY))
    ours.until(lambda state: state["counts"]["held"] == 50)
    for number, sock in enumerate(socks):
        if number % 2:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\0\0\0\0\0\0\0")
        sock.close()
    ours.until(lambda state: state["counts"]["held"] == 0 and state["counts"]["in_flight"] == 0)
    assert {row["end"] for row in ours.wait_rows("attempt", 50)} == {"held"}
    assert ours.descriptors() <= before + 1


def test_the_lift_ends_a_hang_and_says_so(ours: ProxyProcess) -> None:
    ours.inject("hang")
    with ours.connect() as sock:
        sock.sendall(post(BODY))
        ours.wait_rows("fault_met")
        ours.lift()
        assert is_reset(sock)
    row = ours.wait_rows("attempt")[0]
    assert (row["end"], row["window"]) == ("lifted", "w1")


def test_a_hang_lingers_as_long_as_the_plan_allows_and_no_longer(ours: ProxyProcess) -> None:
    ours.inject("hang", linger_s=1.0)
    with ours.connect() as sock:
        sock.sendall(post(BODY))
        ours.wait_rows("fault_met")
        ours.lift()
        start = time.monotonic()
        assert ours.state()["lingering"] == 1
        assert is_reset(sock)
        assert 0.7 < time.monotonic() - start < 3
    assert ours.wait_rows("attempt")[0]["end"] == "lifted"


def test_new_requests_pass_while_an_old_one_lingers(ours: ProxyProcess) -> None:
    ours.inject("hang", linger_s=20)
    with ours.connect() as held, ours.connect() as free:
        held.sendall(post(BODY))
        ours.wait_rows("fault_met")
        ours.lift()
        free.sendall(post(BODY))
        answer = Reader(free).answer()
        assert answer is not None
        assert answer.body == CHAT
        assert not select.select([held], [], [], 0)[0]


def test_a_request_in_flight_keeps_the_plan_it_started_with(tmp_path: Path) -> None:
    go = threading.Event()

    def slow(reader: Reader, sock: socket.socket) -> None:
        while reader.request() is not None:
            go.wait(10)
            sock.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")

    origin = Origin(slow)
    with proxy(tmp_path, upstream=origin.url) as ours, ours.connect() as sock:
        sock.sendall(post(BODY))
        ours.until(lambda state: state["counts"]["in_flight"] == 1)
        ours.inject("reset")
        go.set()
        answer = Reader(sock).answer()
        assert answer is not None
        assert answer.body == b"ok"
        sock.sendall(post(BODY))
        assert is_reset(sock)
        rows = ours.wait_rows("attempt", 2)
        assert [(row["window"], row["conn"], row["nth"]) for row in rows] == [(None, 1, 1), ("w1", 1, 2)]
    origin.close()


def test_one_port_switches_between_all_modes_on_one_connection(ours: ProxyProcess) -> None:
    with ours.connect() as sock:
        reader = Reader(sock)
        for number in range(3):
            sock.sendall(post(BODY))
            answer = reader.answer()
            assert answer is not None
            assert answer.status == 200
            ours.inject("503", f"w{number}")
            sock.sendall(post(BODY))
            answer = reader.answer()
            assert answer is not None
            assert answer.status == 503
            ours.lift(f"w{number}")
    assert [row["status"] for row in ours.wait_rows("attempt", 6)] == [200, 503] * 3


def test_a_fault_nobody_renews_ends_by_itself(ours: ProxyProcess) -> None:
    ours.inject("reset", ttl_s=0.5)
    time.sleep(0.8)
    with ours.connect() as sock:
        sock.sendall(post(BODY))
        answer = Reader(sock).answer()
        assert answer is not None
        assert answer.status == 200
    assert ours.rows("fault_lifted")[0]["why"] == "expired"


def test_a_renewed_fault_stays_and_a_late_renewal_is_told(ours: ProxyProcess) -> None:
    ours.inject("reset", ttl_s=1)
    for _ in range(4):
        time.sleep(0.4)
        assert ours.ask("POST", "/renew", {"window": "w1", "ttl_s": 1})["deadline_in_s"] == 1
    assert ours.state()["mode"] == "reset"
    time.sleep(1.4)
    with pytest.raises(Refused, match="not on"):
        ours.ask("POST", "/renew", {"window": "w1", "ttl_s": 1})
    assert ours.state()["mode"] == "pass"


def test_one_fault_at_a_time_and_each_window_once(ours: ProxyProcess) -> None:
    ours.inject("reset", "w1")
    with pytest.raises(Refused, match="w1 is on"):
        ours.inject("503", "w2")
    ours.lift("w1")
    ours.lift("w1")
    with pytest.raises(Refused, match="has been already"):
        ours.inject("reset", "w1")
    for bad in ({"ttl_s": 0}, {"ttl_s": -1}, {"ttl_s": 1e9}, {"linger_s": -1}):
        with pytest.raises(Refused):
            ours.inject("reset", "w3", **{"ttl_s": 1, **bad})  # type: ignore[arg-type]  # a wrong value is the point
    with pytest.raises(Refused, match="did you mean hang"):
        ours.inject("hnag", "w4")
    assert [row["window"] for row in ours.rows("fault_injected")] == ["w1"]


def test_lifting_another_window_lifts_nothing(ours: ProxyProcess) -> None:
    ours.inject("reset", "w1")
    ours.lift("w0")
    assert ours.state()["window"] == "w1"


def test_two_thousand_hangs_take_little_memory_and_no_threads(ours: ProxyProcess) -> None:
    ours.inject("hang", ttl_s=120)
    socks = []
    try:
        for _ in range(2_000):
            sock = ours.connect()
            sock.sendall(post(BODY))
            socks.append(sock)
        ours.until(lambda state: state["counts"]["held"] == 2_000)
        status = Path(f"/proc/{ours.process.pid}/status").read_text()
        assert int(re.search(r"VmRSS:\s+(\d+)", status)[1]) < 45_000  # type: ignore[index]  # /proc always says
        assert int(re.search(r"Threads:\s+(\d+)", status)[1]) <= 2  # type: ignore[index]  # /proc always says
    finally:
        for sock in socks:
            sock.close()
    ours.until(lambda state: state["counts"]["held"] == 0)


def test_without_an_upstream_it_is_dead_from_the_start(tmp_path: Path) -> None:
    with proxy(tmp_path, mode="503") as ours:
        assert ours.state()["mode"] == "dead"
        with ours.connect() as sock:
            sock.sendall(post(BODY))
            answer = Reader(sock).answer()
            assert answer is not None
            assert answer.status == 503
        for order, content in (
            ("/inject", {"window": "w", "fault": "reset", "ttl_s": 1}),
            ("/lift", {"window": "dead"}),
        ):
            with pytest.raises(Refused, match="no upstream"):
                ours.ask("POST", order, content)
        assert ours.rows("proxy_started")[0]["upstream"] is None
        assert (ours.rows("fault_injected")[0]["window"], ours.wait_rows("attempt")[0]["window"]) == ("dead", "dead")
    assert ours.rows("fault_lifted")[0]["why"] == "signal"


def test_the_credential_is_known_by_its_hash_alone(ours: ProxyProcess) -> None:
    with ours.connect() as sock:
        reader = Reader(sock)
        for line in (b"Authorization: Bearer sk-very-secret-0123456789", b"x-api-key: sk-very-secret-0123456789"):
            sock.sendall(post(BODY, line, TRACE, b"x-stainless-retry-count: 2"))
            assert reader.answer() is not None
    rows = ours.wait_rows("attempt", 2)
    assert rows[0]["key"] == hashlib.sha256(b"sk-very-secret-0123456789").hexdigest()[:16]
    assert rows[0]["key"] == rows[1]["key"]
    assert (rows[0]["model"], rows[0]["stream"], rows[0]["retry_count"]) == ("gpt-4o", False, 2)
    assert rows[0]["trace"] == "0af7651916cd43dd8448eb211c80319c"
    assert (rows[0]["terminal"], rows[0]["upstream"]) == (True, True)
    assert b"very-secret" not in ours.events.read_bytes()


def test_a_nonce_is_found_across_the_edges_of_pieces(ours: ProxyProcess) -> None:
    with ours.connect() as sock:
        request = post(BODY)
        middle = request.index(b"dmn") + 8
        sock.sendall(request[:middle])
        time.sleep(0.1)
        sock.sendall(request[middle:])
        assert Reader(sock).answer() is not None
    assert ours.wait_rows("attempt")[0]["nonce"] == "dmn0123456789abcdef"


def test_a_refused_connection_is_not_what_any_of_these_faults_is(ours: ProxyProcess) -> None:
    ours.inject("reset")
    with socket.socket() as sock:
        assert sock.connect_ex(("127.0.0.1", ours.port)) in (0, errno.EISCONN)
