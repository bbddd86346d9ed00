"""Rules and bodies: however one comes its fate is the same, each rule reads all of it, and none is held for ever."""

import concurrent.futures
import gzip
import json
import random
import socket
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from drillmaster import faults
from tests.e2e.wirelab import CHAT, Origin, ProxyProcess, Reader, plain_answer, post, proxy

pytestmark = pytest.mark.e2e

PATH = b"/v1/chat/completions"
DELAY = {"mode": "first-byte-delay", "params": {"delay_ms": 20}, "name": "slow"}


@pytest.fixture
def ours(tmp_path: Path) -> Iterator[ProxyProcess]:
    origin = Origin(plain_answer)
    with proxy(tmp_path, upstream=origin.url, seed=11, limits={"body_s": 0.6}) as one:
        yield one
    origin.close()


def put_on(ours: ProxyProcess, *rules: dict[str, Any], window: str = "w1", **more: Any) -> None:
    ours.ask("POST", "/inject", {"window": window, "rules": list(rules), "ttl_s": 30, **more})


def chat(number: int, *, stream: bool = False) -> bytes:
    content = f"question {number}"
    return json.dumps({"model": "m", "stream": stream, "messages": [{"role": "user", "content": content}]}).encode()


def head(*fields: bytes, version: bytes = b"1.1") -> bytes:
    return b"\r\n".join((b"POST " + PATH + b" HTTP/" + version, b"Host: x", *fields)) + b"\r\n\r\n"


def chunked(body: bytes, size: int = 7) -> bytes:
    pieces = [body[at : at + size] for at in range(0, len(body), size)]
    return b"".join(b"%x\r\n%b\r\n" % (len(piece), piece) for piece in pieces) + b"0\r\n\r\n"


# Each way sends one request and reads its status.


def by_length(sock: socket.socket, body: bytes) -> int:
    sock.sendall(post(body))
    return status(sock)


def by_chunks(sock: socket.socket, body: bytes) -> int:
    sock.sendall(head(b"Transfer-Encoding: chunked") + chunked(body))
    return status(sock)


def byte_by_byte(sock: socket.socket, body: bytes) -> int:
    for byte in post(body):
        sock.sendall(bytes([byte]))
    return status(sock)


def in_the_old_version(sock: socket.socket, body: bytes) -> int:
    sock.sendall(head(b"Content-Length: %d" % len(body), version=b"1.0") + body)
    return status(sock)


def after_continue(sock: socket.socket, body: bytes) -> int:
    sock.sendall(head(b"Content-Length: %d" % len(body), b"Expect: 100-continue"))
    interim = b""
    while not interim.endswith(b"\r\n\r\n"):
        interim += sock.recv(1)
    assert interim.startswith(b"HTTP/1.1 100 ")
    sock.sendall(body)
    return status(sock)


def compressed(sock: socket.socket, body: bytes) -> int:
    folded = gzip.compress(body, mtime=random.randrange(2**31))
    sock.sendall(head(b"Content-Encoding: gzip", b"Content-Length: %d" % len(folded)) + folded)
    return status(sock)


WAYS: tuple[Callable[[socket.socket, bytes], int], ...] = (
    by_length,
    by_chunks,
    byte_by_byte,
    in_the_old_version,
    after_continue,
    compressed,
)


def status(sock: socket.socket) -> int:
    answer = Reader(sock).answer("POST")
    assert answer is not None
    return answer.status


def test_a_request_has_the_same_fate_however_its_body_comes_and_in_whatever_order(ours: ProxyProcess) -> None:
    bodies = {number: chat(number) for number in range(24)}
    fates: list[dict[int, int]] = []
    for turn, way in enumerate(WAYS):
        put_on(ours, {"mode": 503, "name": "some", "share": 0.5}, window=f"w{turn}")
        order = list(bodies)
        random.Random(turn).shuffle(order)
        found = {}
        for number in order:
            with ours.connect() as sock:
                found[number] = way(sock, bodies[number])
        fates.append(found)
        ours.lift(f"w{turn}")
    put_on(ours, {"mode": 503, "name": "some", "share": 0.5}, window="pipelined")
    with ours.connect() as sock:
        sock.sendall(b"".join(post(body) for body in bodies.values()))
        reader = Reader(sock)
        fates.append({number: answer.status for number in bodies if (answer := reader.answer()) is not None})
    assert set(fates[0].values()) == {200, 503}
    assert fates == [fates[0]] * len(fates)


@pytest.mark.parametrize("way", WAYS[:5], ids=lambda way: way.__name__)
def test_a_second_rule_reads_the_whole_request_though_the_first_asked_the_endpoint(
    ours: ProxyProcess, way: Callable[[socket.socket, bytes], int]
) -> None:
    put_on(ours, DELAY, {"mode": "weaker-answer", "name": "weak"})
    for stream, kind in ((True, b"text/event-stream"), (False, b"application/json")):
        with ours.connect() as sock:
            sent: list[bytes] = []

            class Kept:
                """A socket that keeps what was received."""

                def sendall(self, data: bytes, sock: socket.socket = sock) -> None:
                    sock.sendall(data)

                def recv(self, size: int, sock: socket.socket = sock, sent: list[bytes] = sent) -> bytes:
                    sent.append(sock.recv(size))
                    return sent[-1]

            assert way(Kept(), chat(1, stream=stream)) == 200  # type: ignore[arg-type]  # it has what a way asks for
        answer = b"".join(sent)
        assert kind in answer
        assert b'"model":"m"' in answer
    ours.lift()
    assert [(row["rule"], row["met"]) for row in ours.wait_rows("fault_rule_tally", 2)] == [("slow", 2), ("weak", 2)]


def test_a_body_that_a_rule_waits_for_and_that_does_not_come_is_told_so(ours: ProxyProcess) -> None:
    """408 after `limits.body_s`: from a rule that chooses by it, a fault that reads it, one that asks the endpoint."""
    for window, rule in (
        ("w1", {"mode": "reset", "when": {"model": "m"}}),
        ("w2", {"mode": 503, "name": "busy"}),
        ("w3", DELAY),
    ):
        put_on(ours, rule, window=window)
        with ours.connect() as sock:
            before = time.monotonic()
            sock.sendall(post(chat(1))[:-4])
            assert status(sock) == 408
            assert 0.5 < time.monotonic() - before < 5
            assert sock.recv(1) == b""
        ours.lift(window)
    rows = ours.wait_rows("attempt", 3)
    assert [(row["status"], row["end"], row["window"]) for row in rows] == [(408, "client_gone", None)] * 3
    assert ours.state()["counts"]["upstream_errors"] == 0
    assert ours.state()["counts"]["held"] == ours.state()["counts"]["in_flight"] == 0


STATES = {
    "choosing": ({"mode": "hang", "name": "a", "when": {"model": "m"}}, DELAY),
    "holding for both": ({**DELAY, "name": "a", "when": {"method": "POST"}}, {"mode": "hang", "name": "b"}),
    "first": ({"mode": "hang", "name": "a"}, {"mode": 503, "name": "b"}),
    "second": (DELAY, {"mode": "hang", "name": "b"}),
}


@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize("ending", ["lift", "expiry", "client gone"])
def test_nothing_stays_behind_whatever_ends_a_request_and_wherever_its_rules_are(
    tmp_path: Path, state: str, ending: str
) -> None:
    origin = Origin(plain_answer)
    with proxy(tmp_path, upstream=origin.url, seed=11) as ours:
        put_on(ours, *STATES[state], ttl_s=1.2 if ending == "expiry" else 30)
        request = post(chat(1))
        half = state in ("choosing", "holding for both")
        with ours.connect() as sock:
            sock.sendall(request[:-4] if half else request)
            ours.until(lambda now: now["counts"]["held"] == 1)
            time.sleep(0.1)
            if ending == "client gone":
                sock.close()
            elif ending == "lift":
                ours.lift()
            ours.until(lambda now: ending == "client gone" or now["window"] is None)
            if ending != "client gone" and half:
                sock.sendall(request[-4:])  # whoever was still asked for the body is relayed
                assert status(sock) == 200
        ours.until(lambda now: now["counts"]["held"] == now["counts"]["in_flight"] == now["lingering"] == 0)
        assert ours.state()["counts"]["script_errors"] == 0
        assert len(ours.wait_rows("attempt", 1)) == 1
    origin.close()


def test_a_body_in_a_coding_that_nobody_reads_is_undecided_and_left_alone(ours: ProxyProcess) -> None:
    put_on(ours, {"mode": 503, "name": "whole", "when": {"stream": False}})
    for coding, body in ((b"br", b"\x0b\x02\x80{}\x03"), (b"gzip", b"no gzip")):
        with ours.connect() as sock:
            sock.sendall(head(b"Content-Encoding: " + coding, b"Content-Length: %d" % len(body)) + body)
            assert status(sock) == 200
    ours.lift()
    assert ours.wait_rows("fault_rule_tally")[0]["undecided"] == 2


def test_what_came_is_told_short_and_without_secrets(ours: ProxyProcess) -> None:
    put_on(ours, {"mode": 503, "when": {"model": "none-like-this"}})
    body = json.dumps({"model": "m" * 120, "messages": []}).encode()
    key = b"sk-" + b"proj-" + b"abcdefghijklmnopqrstuvwxyz0123456789ABCD"
    for number in range(6):
        path = b"/v1/%d/%b/" % (number, key) + b"x" * 6_000
        with ours.connect() as sock:
            sock.sendall(post(body, path=path))
            assert status(sock) == 200
    ours.lift()
    (row,) = ours.wait_rows("fault_rule_tally")
    assert len(row["saw"]) == 5
    assert all(kind.startswith("POST /v1/") for kind in row["saw"])
    text = ours.events.read_text()
    assert "abcdefghijklmnop" not in text
    assert max(map(len, text.splitlines())) <= 4096


def test_a_fault_of_connections_is_the_same_with_a_name_as_without(ours: ProxyProcess) -> None:
    put_on(ours, {"mode": "rst-on-accept", "name": "nobody-gets-in"})
    with pytest.raises(ConnectionError), ours.connect() as sock:
        by_length(sock, b"{}")
    ours.lift()
    assert ours.wait_rows("fault_met")[0]["window"] == "w1"
    assert not ours.rows("fault_rule")
    assert not ours.rows("fault_rule_tally")


NEEDED: dict[str, dict[str, Any]] = {
    "body-drip": {"bytes_per_s": 1_000},
    "cut-body": {"after_bytes": 20},
    "daily-quota": {"requests": 1_000},
    "date-skew": {"skew_s": 60},
    "first-byte-delay": {"delay_ms": 20},
    "header-drip": {"bytes_per_s": 1_000},
    "rate-limit": {"form": "none"},
    "requests-per-minute": {"requests": 1_000},
    "slow-close": {"delay_ms": 20},
    "slow-tokens": {"per_s": 100},
    "status": {"status": 502},
    "throttle": {"bytes_per_s": 200_000},
    "tokens-per-minute": {"tokens": 100_000},
    "usage-skew": {"factor": 2},
    "wrong-model": {"model": "another"},
}
CHUNKS = tuple(
    json.dumps({"id": "c", "object": "chat.completion.chunk", "model": "m", "choices": [choice]}).encode()
    for choice in (
        *({"index": 0, "delta": {"content": word}, "finish_reason": None} for word in ["one", "two", "three", "four"]),
        {"index": 0, "delta": {}, "finish_reason": "stop"},
    )
)


def stream_or_answer(reader: Reader, sock: socket.socket) -> None:
    while (message := reader.request()) is not None:
        if json.loads(message.body)["stream"]:
            frames = b"".join(b"data: %b\n\n" % piece for piece in (*CHUNKS, b"[DONE]"))
            sock.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n")
            sock.sendall(b"%x\r\n%b\r\n0\r\n\r\n" % (len(frames), frames))
        else:
            length = b"Content-Length: %d" % len(CHAT)
            sock.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n" + length + b"\r\n\r\n" + CHAT)


def left_with(ours: ProxyProcess, pair: str, *, stream: bool) -> tuple[Any, ...]:
    """What a plain client is left with; of a whole answer of 200 its length too, which random ids do not move."""
    body = json.loads(chat(1, stream=stream))
    body["tools"] = [{"type": "function", "function": {"name": "look", "parameters": {}}}]
    with ours.connect() as sock:
        sock.sendall(post(json.dumps(body).encode(), b"x-pair: " + pair.encode()))
        try:
            answer = Reader(sock).answer("POST")
        except ConnectionError:
            return ("reset",)
        if answer is None:
            return ("closed",)
        size = len(answer.body) if answer.whole and answer.status == 200 else None
        return answer.status, answer.field(b"content-type"), answer.whole, size


def test_a_delay_before_any_fault_changes_nothing_of_what_the_client_is_left_with(tmp_path: Path) -> None:
    made = {tag: faults.make(tag, NEEDED.get(tag, {})) for tag in faults.names()}
    silent = {"silent", "stalled"}
    tags = [tag for tag, one in made.items() if one.scope == "exchange" and not silent & set(one.seen)]
    assert len(tags) > 40
    origin = Origin(stream_or_answer)
    with proxy(tmp_path, upstream=origin.url, seed=11) as ours, concurrent.futures.ThreadPoolExecutor(16) as pool:
        for at in range(0, len(tags), 8):
            rules = []
            for tag in tags[at : at + 8]:
                alone = {"mode": tag, "params": NEEDED.get(tag, {})}
                for pair, these in ((f"{tag}.alone", (alone,)), (f"{tag}.behind", (DELAY, alone))):
                    for number, rule in enumerate(these):
                        rules.append({**rule, "name": f"{pair}.{number}"[-40:], "when": {"header": {"x-pair": pair}}})
            put_on(ours, *rules, window=f"w{at}")
            for stream in (False, True):
                ways = ("alone", "behind")
                found = {
                    (tag, way): pool.submit(left_with, ours, f"{tag}.{way}", stream=stream)
                    for tag in tags[at : at + 8]
                    for way in ways
                }
                for tag in tags[at : at + 8]:
                    assert found[tag, "behind"].result() == found[tag, "alone"].result(), (tag, stream)
            ours.lift(f"w{at}")
        assert ours.state()["counts"]["script_errors"] == 0
        tallies = ours.wait_rows("fault_rule_tally", 3 * len(tags))
        assert {row["met"] for row in tallies if row["rule"].endswith("behind.0")} == {2}
    assert origin.problems == []
    origin.close()
