"""What the `attempt` line says of a wait that was asked for, and of the tokens that an answer cost, on real sockets."""

import gzip
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from drillmaster.rules.retry_after import http_date
from tests.e2e.wirelab import CHAT, Origin, ProxyProcess, Reader, post, proxy

pytestmark = pytest.mark.e2e

GEMINI = b"/v1beta/models/gemini-2.5-flash:generateContent"
MESSAGES = b"/v1/messages"
RETRY_INFO = (
    b'{"error":{"code":429,"message":"no","status":"RESOURCE_EXHAUSTED","details":'
    b'[{"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"36.5s"}]}}'
)


def answer(status: int, body: bytes, *fields: bytes) -> bytes:
    lines = [b"HTTP/1.1 %d Said" % status, b"Content-Length: %d" % len(body), *fields]
    return b"\r\n".join(lines) + b"\r\n\r\n" + body


def saying(said: bytes) -> Origin:
    def handle(reader: Reader, sock: socket.socket) -> None:
        while reader.request() is not None:
            sock.sendall(said)

    return Origin(handle)


def ask(ours: ProxyProcess, path: bytes = b"/v1/chat/completions") -> dict[str, Any]:
    """Send one request, and give the line that was written of it."""
    before = len(ours.rows("attempt"))
    with ours.connect() as sock:
        sock.sendall(post(path=path))
        assert Reader(sock).answer() is not None
    return ours.wait_rows("attempt", before + 1)[-1]


@pytest.fixture
def ours(tmp_path: Path) -> Iterator[ProxyProcess]:
    origin = saying(answer(200, CHAT, b"Retry-After: 9"))
    with proxy(tmp_path, upstream=origin.url) as one:
        yield one
    origin.close()


def test_what_a_script_asks_for_is_on_the_line_in_each_form(ours: ProxyProcess) -> None:
    for form, path, wanted in (
        ("seconds", b"/v1/chat/completions", (3.0, "seconds")),
        ("ms", b"/v1/chat/completions", (2500.0 / 1e3, "ms")),
        ("body", GEMINI, (2.5, "body")),
        ("body", MESSAGES, (None, None)),  # Anthropic's body says nothing
    ):
        ours.inject("rate-limit", "w" + form + path.decode()[:5], retry_after_s=2.5, form=form)
        row = ask(ours, path)
        assert (row.get("asked_s"), row.get("asked_by"), row["status"]) == (*wanted, 429)
        assert "tokens" not in row and "tokens_estimated" not in row  # the endpoint was never asked
        ours.lift("w" + form + path.decode()[:5])
    ours.inject("rate-limit", "date", retry_after_s=30, form="date")
    row = ask(ours)
    assert row["asked_by"] == "date" and 30 <= row["asked_s"] <= 32  # whole seconds, against its own Date
    ours.lift("date")
    ours.inject("rate-limit", "none", form="none")
    assert "asked_s" not in ask(ours)


@pytest.mark.parametrize(
    ("said", "wanted"),
    [
        (answer(429, b"{}", b"Retry-After: 7"), (7.0, "seconds")),
        (answer(503, b"", b"retry-after-ms: 6250", b"Retry-After: 7"), (6.25, "ms")),
        (answer(503, b"", b"retry-after-ms: 250", b"Retry-After: 7"), (7.0, "seconds")),
        (answer(429, RETRY_INFO), (36.5, "body")),
        (answer(429, gzip.compress(RETRY_INFO), b"Content-Encoding: gzip"), (36.5, "body")),
        (answer(503, b"", b"Date: " + http_date(1e9).encode(), b"Retry-After: " + http_date(1e9 + 60).encode()), (60, "date")),
        (answer(429, b"{}", b"Retry-After: soon"), (None, "unreadable")),
        (answer(500, b"{}"), (None, None)),
    ],
)  # fmt: skip
def test_what_the_endpoint_asks_for_is_on_the_line_too(tmp_path: Path, said: bytes, wanted: tuple[Any, Any]) -> None:
    origin = saying(said)
    with proxy(tmp_path, upstream=origin.url) as ours:
        row = ask(ours, GEMINI)
        assert (row.get("asked_s"), row.get("asked_by")) == wanted
        assert "tokens_estimated" not in row  # an error is not billed
    origin.close()


def test_a_good_answer_asks_for_no_wait_and_says_what_it_cost(ours: ProxyProcess) -> None:
    row = ask(ours)
    assert row["tokens"] == 2
    assert not {"asked_s", "asked_by", "tokens_estimated"} & set(row)


def test_a_cost_that_is_not_said_is_estimated_and_told_apart(tmp_path: Path) -> None:
    origin = saying(answer(200, b'{"text": "twenty-four bytes"}'))
    with proxy(tmp_path, upstream=origin.url) as ours:
        row = ask(ours)
        assert (row.get("tokens"), row["tokens_estimated"]) == (None, (2 + 29) // 4)
    origin.close()
