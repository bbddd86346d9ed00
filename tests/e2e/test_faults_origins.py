"""Faults at endpoints that frame and end their answers in ways of their own, read by a client that forgives nothing.

Endpoints that close behind each answer, answers without a body, HTTP/1.0 on either side, HEAD, `Expect`.
"""

import contextlib
import socket
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from drillmaster import faults
from tests.e2e.wirelab import CHAT, Origin, ProxyProcess, Reader, post, proxy

pytestmark = pytest.mark.e2e

SILENCE_S = 0.3
EVENTS = [b'data: {"choices":[{"index":0,"delta":{"content":"%d"},"finish_reason":null}]}\n\n' % n for n in range(4)]
EVENTS += [b'data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\n', b"data: [DONE]\n\n"]
CHUNKS = b"".join(b"%x\r\n%b\r\n" % (len(event), event) for event in EVENTS) + b"0\r\n\r\n"

JSON = b"Content-Type: application/json\r\n"
LENGTH = b"Content-Length: %d\r\n\r\n" % len(CHAT)
SSE = b"Content-Type: text/event-stream\r\n"
ANSWERS: dict[str, tuple[bytes, bytes]] = {
    "length, close": (b"HTTP/1.1 200 OK\r\nConnection: close\r\n" + JSON + LENGTH, CHAT),
    "chunks, close": (
        b"HTTP/1.1 200 OK\r\nConnection: close\r\n" + SSE + b"Transfer-Encoding: chunked\r\n\r\n",
        CHUNKS,
    ),
    "chunks": (b"HTTP/1.1 200 OK\r\n" + SSE + b"Transfer-Encoding: chunked\r\n\r\n", CHUNKS),
    "events, HTTP/1.0": (b"HTTP/1.0 200 OK\r\n" + SSE + b"\r\n", b"".join(EVENTS)),
    "HTTP/1.0": (b"HTTP/1.0 200 OK\r\n" + JSON + b"\r\n", CHAT),
    "204": (b"HTTP/1.1 204 No Content\r\nX-Kind: none\r\n\r\n", b""),
    "304": (b"HTTP/1.1 304 Not Modified\r\n" + JSON + b"Content-Length: 55\r\n\r\n", b""),
    "no bytes": (b"HTTP/1.1 200 OK\r\n" + JSON + b"Content-Length: 0\r\n\r\n", b""),
}
REQUEST = b'{"model":"m","messages":[{"role":"user","content":"hello"}],"tools":[{"type":"function","function":{"name":"f"}}]}'
PARAMS: dict[str, dict[str, Any]] = {
    "body-drip": {"bytes_per_s": 1_000},
    "cut-body": {"after_bytes": 7},
    "daily-quota": {"requests": 1},
    "date-skew": {"skew_s": 3_600},
    "first-byte-delay": {"delay_ms": 40},
    "header-drip": {"bytes_per_s": 1_000},
    "ping-stall": {"every_ms": 5_000},
    "rate-limit": {"retry_after_s": 1},
    "requests-per-minute": {"requests": 1},
    "slow-close": {"delay_ms": 40},
    "slow-tokens": {"per_s": 100},
    "status": {"status": 503},
    "throttle": {"bytes_per_s": 10_000},
    "tokens-per-minute": {"tokens": 1_000},
    "usage-skew": {"factor": 3},
    "wrong-model": {"model": "other"},
}
HOLDS = {"hang", "hang-after-headers", "mcp-hang", "stall", "ping-stall"}
TAGS = [tag for tag in faults.names() if faults.load(tag).scope == "exchange"]


def respond(reader: Reader, sock: socket.socket) -> None:
    """Answer as the target's query says, and close where the answer says so."""

    def go_on() -> bool:
        sock.sendall(b"HTTP/1.1 100 Continue\r\n\r\n")
        return True

    while (request := reader.request(on_expect=go_on)) is not None:
        method, target = request.first.split(b" ")[:2]
        head, body = ANSWERS[target.partition(b"?k=")[2].decode().replace("_", " ")]
        sock.sendall(head + (b"" if method == b"HEAD" else body))
        if b"Connection: close" in head or head.startswith(b"HTTP/1.0"):
            return


@pytest.fixture(scope="module")
def ours() -> Iterator[ProxyProcess]:
    origin = Origin(respond)
    with tempfile.TemporaryDirectory() as folder, proxy(Path(folder), upstream=origin.url) as one:
        yield one
    origin.close()


def seen_by(sock: socket.socket, method: str) -> str:
    """Read one answer and give how it ended; an answer that breaks a rule of framing is an AssertionError."""
    reader = Reader(sock)
    try:
        message = reader.answer(method)
    except (TimeoutError, ConnectionResetError) as ended:
        return "silent" if isinstance(ended, TimeoutError) else "reset"
    except ValueError:
        return "broken"
    if message is None:
        return "closed"
    names = [name.lower() for name, _ in message.fields]
    assert len(names) == len(set(names)), message.fields
    assert not {b"content-length", b"transfer-encoding"} <= set(names), message.fields
    if message.status == 204:
        assert not {b"content-length", b"transfer-encoding"} & set(names), message.fields
    if not message.whole:
        return "broken"
    assert reader.buf == b"", reader.buf
    sock.settimeout(0.01)
    with contextlib.suppress(TimeoutError):  # nothing comes behind an answer but the connection's end
        assert reader.more() is False
    return "whole"


def ask(ours: ProxyProcess, tag: str, kind: str, request: bytes) -> str:
    window = f"{tag}-{kind}-{ours.state()['counts']['connections']}"
    ours.inject(tag, window, linger_s=0.2, **PARAMS.get(tag, {}))
    method = request.partition(b" ")[0].decode()
    try:
        with ours.connect() as sock:
            sock.settimeout(SILENCE_S if tag in HOLDS else 2.0)
            sock.sendall(request)
            found = seen_by(sock, method)
            if found == "silent":  # no client is held past the lift
                ours.lift(window)
                sock.settimeout(2.0)
                with contextlib.suppress(ConnectionResetError):
                    sock.recv(1_024)  # the rest of the answer, or an end
            return found
    finally:
        ours.lift(window)


def target(kind: str) -> bytes:
    return b"/v1/chat/completions?k=" + kind.replace(" ", "_").encode()


HOW: dict[str, set[str]] = {
    "reset": {"reset"},
    "fin-before-headers": {"closed"},
    "hang": {"silent"},
}


def expected(tag: str, kind: str, *, has_body: bool) -> set[str]:
    """What a client is left with, by the fault's own words and by what the endpoint's answer is."""
    if tag in HOW:
        return HOW[tag]
    fault = faults.load(tag)
    if "mcp" in fault.needs:
        return {"whole"}
    streams = kind in ("chunks", "chunks, close", "events, HTTP/1.0")
    if not has_body or ("stream" in fault.needs and not streams):
        return {"whole"}
    if tag in ("cut-body", "cut-stream", "reset-stream"):
        return {"broken", "reset"}
    return {"silent"} if tag in HOLDS else {"whole"}


@pytest.mark.parametrize("tag", TAGS)
def test_whatever_an_endpoint_answers_what_a_client_is_given_is_framed(ours: ProxyProcess, tag: str) -> None:
    wrong = []
    for kind, (_, body) in ANSWERS.items():
        for name, request in (
            ("POST", post(REQUEST, path=target(kind))),
            ("HEAD", b"HEAD " + target(kind) + b" HTTP/1.1\r\nHost: x\r\n\r\n"),
            ("1.0", post(REQUEST, path=target(kind)).replace(b"HTTP/1.1", b"HTTP/1.0")),
        ):
            if name == "1.0" and tag in ("cut-stream", "malformed-chunk"):
                continue  # without chunks a FIN is the end
            found = ask(ours, tag, kind, request)
            wanted = expected(tag, kind, has_body=bool(body) and name != "HEAD")
            if found not in wanted:
                wrong.append((kind, name, found, wanted))
    assert not wrong
    assert ours.state()["counts"]["script_errors"] == 0
    assert ours.until(lambda state: state["counts"]["in_flight"] == 0)["counts"]["held"] == 0


@pytest.mark.parametrize(
    "tag", ["date-skew", "first-byte-delay", "stall", "cut-body", "wrong-model", "503", "weaker-answer"]
)
def test_a_client_that_waits_for_100_continue_gets_it_whatever_the_fault(ours: ProxyProcess, tag: str) -> None:
    head, _, body = post(REQUEST, b"Expect: 100-continue", path=target("chunks, close")).partition(b"\r\n\r\n")
    ours.inject(tag, f"expect-{tag}", **PARAMS.get(tag, {}))
    try:
        with ours.connect() as sock:
            sock.settimeout(2.0)
            sock.sendall(head + b"\r\n\r\n")
            assert sock.recv(100) == b"HTTP/1.1 100 Continue\r\n\r\n"
            sock.sendall(body)
            assert sock.recv(9) == b"HTTP/1.1 "
    finally:
        ours.lift(f"expect-{tag}")


@pytest.mark.parametrize("tag", ["missing-terminal", "clean-end", "error-event", "split-utf8"])
def test_an_answer_that_a_fault_ended_or_rewrote_is_not_recorded_as_intact(ours: ProxyProcess, tag: str) -> None:
    before = len(ours.rows("attempt"))
    assert ask(ours, tag, "chunks", post(REQUEST, path=target("chunks"))) == "whole"
    row = ours.wait_rows("attempt", before + 1)[before]
    assert row["window"] is not None
    assert (row["end"], row["upstream"], row["intact"]) == ("clean", True, False)


@pytest.mark.parametrize("tag", ["slow-tokens", "first-byte-delay", "slow-close", "header-drip", "date-skew"])
@pytest.mark.parametrize("kind", ["chunks", "chunks, close"])
def test_a_slow_answer_is_recorded_as_intact(ours: ProxyProcess, tag: str, kind: str) -> None:
    before = len(ours.rows("attempt"))
    assert ask(ours, tag, kind, post(REQUEST, path=target(kind))) == "whole"
    row = ours.wait_rows("attempt", before + 1)[before]
    assert row["window"] is not None
    assert (row["end"], row["upstream"], row["intact"], row["terminal"]) == ("clean", True, True, True)


def test_a_body_that_the_endpoint_takes_slowly_is_no_silence_of_the_client(tmp_path: Path) -> None:
    size = 17 * 1024 * 1024  # over what rules wait for: all that was held goes up at once

    def take_slowly(reader: Reader, sock: socket.socket) -> None:
        assert reader.head() is not None
        left_bytes = size - len(reader.buf)
        while left_bytes > 0:
            left_bytes -= len(sock.recv(262_144))
            time.sleep(0.06 if left_bytes > 4_194_304 else 0)  # for longer than anybody may be silent
        sock.sendall(ANSWERS["length, close"][0] + CHAT)

    origin = Origin(take_slowly)
    with proxy(tmp_path, upstream=origin.url, limits={"body_s": 0.75}) as ours:
        rules = [{"mode": "503", "when": {"model": "m"}, "name": "by-model"}]
        ours.ask("POST", "/inject", {"window": "w", "rules": rules, "ttl_s": 60})
        with ours.connect() as sock:
            sock.settimeout(20)
            sock.sendall(post(b" " * size))
            answer = Reader(sock).answer()
            assert answer is not None
            assert (answer.status, answer.body) == (200, CHAT)
    origin.close()
