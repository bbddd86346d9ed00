"""Thousands of generated exchanges, direct and through the proxy: the same bytes, the same fields, the same close."""

import random
import socket
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.wirelab import Message, Origin, Reader, proxy

pytestmark = pytest.mark.e2e

EXCHANGES = 5_000
THREADS = 4
SEED = 20_261_129


@dataclass(frozen=True)
class Case:
    """One exchange: what the client sends, what the origin answers."""

    method: str
    target: bytes
    version: bytes
    fields: tuple[bytes, ...]
    framing: str
    pieces: tuple[bytes, ...]
    trailers: tuple[bytes, ...]
    expect: bool
    client_close: bool
    interims: tuple[bytes, ...]
    status: int
    reason: bytes
    answer_fields: tuple[bytes, ...]
    answer_framing: str
    answer_pieces: tuple[bytes, ...]
    answer_trailers: tuple[bytes, ...]
    answer_close: bool


def make_case(rng: random.Random) -> Case:
    method = rng.choice(["GET", "GET", "POST", "POST", "POST", "PUT", "DELETE", "HEAD", "OPTIONS", "PATCH"])
    version = rng.choices([b"1.1", b"1.0"], [9, 1])[0]
    has_body = method in ("POST", "PUT", "PATCH") or rng.random() < 0.05
    framing = rng.choice(["length", "length", "chunked"]) if has_body else "none"
    if version == b"1.0" and framing == "chunked":
        framing = "length"
    status = rng.choices([200, 201, 204, 206, 302, 304, 400, 404, 429, 500, 503, 529, 599], [9, *[1] * 12])[0]
    answer_framing = rng.choices(["length", "chunked", "close"], [5, 5, 1])[0]
    if status in (204, 304):
        answer_framing = "none"
    return Case(
        method=method,
        target=rng.choice([b"/v1/chat/completions", b"/", b"/a%20b/c;d", b"/x?q=1&r=%ff", b"/v1/messages?beta=true"]),
        version=version,
        fields=tuple(rng.sample(FIELDS, rng.randrange(5))),
        framing=framing,
        pieces=pieces(rng) if framing != "none" else (),
        trailers=(b"X-Sum: 1", b"X-Other:  two ") if framing == "chunked" and rng.random() < 0.2 else (),
        expect=framing != "none" and version == b"1.1" and rng.random() < 0.1,
        client_close=rng.random() < 0.1,
        interims=(b"103 Early Hints",) if version == b"1.1" and rng.random() < 0.05 else (),
        status=status,
        reason=rng.choice([b"OK", b"", b"Some Reason (really)"]),
        answer_fields=tuple(rng.sample(ANSWER_FIELDS, rng.randrange(6))),
        answer_framing=answer_framing,
        answer_pieces=pieces(rng) if answer_framing != "none" else (),
        answer_trailers=(b"X-Ended: yes",) if answer_framing == "chunked" and rng.random() < 0.2 else (),
        answer_close=rng.random() < 0.1,
    )


FIELDS = [
    b"Accept: */*",
    b"accept-encoding: gzip, deflate",
    b"X-Empty:",
    b"x-MIXED-case:   spaced   ",
    b"Authorization: Bearer sk-0123456789",
    b"traceparent: 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
    b"Cookie: a=b; c=d",
    b"X-Twice: 1\r\nX-Twice: 2",
    b"x-latin: caf\xe9",
    b"Connection: X-Private\r\nX-Private: for this hop",
    b"Keep-Alive: timeout=5",
    b"TE: trailers",
    b"User-Agent: differential/1 (" + b"u" * 300 + b")",
]
ANSWER_FIELDS = [
    b"Content-Type: application/json",
    b"content-type: text/event-stream; charset=utf-8",
    b"Set-Cookie: a=b\r\nSet-Cookie: c=d",
    b"x-ratelimit-remaining-tokens: 12",
    b"Retry-After: 20",
    b"X-Empty:",
    b"Date: Sun, 29 Nov 2026 10:00:00 GMT",
    b"Keep-Alive: timeout=5",
    b"Content-Encoding: gzip",
    b"x-latin: caf\xe9",
    b"Server: " + b"s" * 500,
]


def pieces(rng: random.Random) -> tuple[bytes, ...]:
    shape = rng.random()
    if shape < 0.1:
        return ()
    if shape < 0.12:
        return (rng.randbytes(rng.randrange(100_000, 400_000)),)
    return tuple(rng.randbytes(rng.choice([1, 7, 100, 1_000, 5_000])) for _ in range(rng.randrange(1, 5)))


def frame(framing: str, parts: tuple[bytes, ...], trailers: tuple[bytes, ...]) -> list[bytes]:
    if framing != "chunked":
        return list(parts)
    end = b"0\r\n" + b"".join(t + b"\r\n" for t in trailers) + b"\r\n"
    return [b"%x\r\n%b\r\n" % (len(p), p) for p in parts] + [end]


class Lab:
    """The origin's half: answers each request by the case that its X-Case names, and keeps what it got."""

    def __init__(self, cases: list[Case]) -> None:
        self.cases = cases
        self.got: dict[tuple[str, int], Message] = {}
        self.origin = Origin(self.handle)

    def handle(self, reader: Reader, sock: socket.socket) -> None:
        while True:
            message = reader.request(on_expect=lambda: sock.sendall(b"HTTP/1.1 100 Continue\r\n\r\n") is None)
            if message is None:
                return
            way, _, number = (message.field(b"x-case") or b"").decode().partition("-")
            self.got[way, int(number)] = message
            case = self.cases[int(number)]
            for interim in case.interims:
                sock.sendall(b"HTTP/1.1 " + interim + b"\r\nLink: </a>\r\n\r\n")
            lines = [b"HTTP/1.1 %d %b" % (case.status, case.reason), *case.answer_fields]
            content = b"".join(case.answer_pieces)
            close = case.answer_close or case.answer_framing == "close" or case.client_close
            # An answer in chunks is no answer to HTTP/1.0; an origin that knows its trade ends with the connection.
            framing = case.answer_framing
            if case.version == b"1.0" and framing == "chunked":
                framing, close = "close", True
            if framing == "length":
                lines.append(b"Content-Length: %d" % len(content))
            elif framing == "chunked":
                lines.append(b"Transfer-Encoding: chunked")
            if close:
                lines.append(b"Connection: close")
            parts = frame(framing, case.answer_pieces, case.answer_trailers) if case.method != "HEAD" else []
            head = b"\r\n".join(lines) + b"\r\n\r\n"
            if len(parts) % 2:
                sock.sendall(head)
            else:
                parts = [head, *parts]
            for part in parts:
                sock.sendall(part)
            if close:
                return


class Way:
    """The client's half: one way to the origin, connections kept where both sides keep them."""

    def __init__(self, name: str, port: int) -> None:
        self.name, self.port = name, port
        self.reader: Reader | None = None

    def run(self, number: int, case: Case) -> tuple[Message | None, bool]:
        if self.reader is None:
            sock = socket.create_connection(("127.0.0.1", self.port), 20)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self.reader = Reader(sock)
        reader = self.reader
        lines = [b"%b %b HTTP/%b" % (case.method.encode(), case.target, case.version), b"Host: client.example"]
        lines += [b"X-Case: %b-%d" % (self.name.encode(), number), *case.fields]
        if case.framing == "length":
            lines.append(b"Content-Length: %d" % len(b"".join(case.pieces)))
        elif case.framing == "chunked":
            lines.append(b"Transfer-Encoding: chunked")
        if case.expect:
            lines.append(b"Expect: 100-continue")
        if case.client_close:
            lines.append(b"Connection: close")
        elif case.version == b"1.0":
            lines.append(b"Connection: keep-alive")
        parts = frame(case.framing, case.pieces, case.trailers) if case.framing != "none" else []
        head = b"\r\n".join(lines) + b"\r\n\r\n"
        if case.expect:
            reader.sock.sendall(head)
            first = reader.head()
            assert first is not None
            assert first.status == 100
        elif number % 3:
            parts = [head, *parts]
        else:
            parts = [head + b"".join(parts)]
        for part in parts:
            reader.sock.sendall(part)
        answer = reader.answer(case.method)
        said_close = answer is None or (answer.field(b"connection") or b"").lower() == b"close"
        if said_close:
            assert reader.sock.recv(1) == b"", "said close and did not"
            reader.sock.close()
            self.reader = None
        return answer, said_close

    def close(self) -> None:
        if self.reader is not None:
            self.reader.sock.close()


def test_generated_exchanges_are_the_same_direct_and_through_the_proxy(tmp_path: Path) -> None:
    rng = random.Random(SEED)
    cases = [make_case(rng) for _ in range(EXCHANGES)]
    lab = Lab(cases)
    problems: list[str] = []
    with proxy(tmp_path, upstream=lab.origin.url) as ours:

        def work(share: int) -> None:
            direct, through = Way("direct", lab.origin.port), Way("through", ours.port)
            for number in range(share, EXCHANGES, THREADS):
                try:
                    compare(
                        number, cases[number], direct.run(number, cases[number]), through.run(number, cases[number])
                    )
                except Exception as error:
                    problems.append(f"case {number}: {error!r} {cases[number]!r}"[:2_000])
                    break
            direct.close()
            through.close()

        def compare(number: int, case: Case, direct: Any, through: Any) -> None:
            (plain, plain_close), (passed, passed_close) = direct, through
            assert plain.body == passed.body
            assert plain.whole
            assert passed.whole
            assert (plain.first, plain.interims, plain.trailers) == (passed.first, passed.interims, passed.trailers)
            assert plain.end_to_end == passed.end_to_end
            assert plain_close == passed_close
            sent, arrived = lab.got["direct", number], lab.got["through", number]
            assert sent.first.replace(b"HTTP/1.0", b"HTTP/1.1") == arrived.first
            assert (sent.body, sent.trailers) == (arrived.body, arrived.trailers)
            own = {b"host", b"x-case", b"content-length", b"x-private"}
            assert [f for f in sent.end_to_end if f[0].lower() not in own] == [
                f for f in arrived.end_to_end if f[0].lower() not in own
            ]
            assert sent.field(b"content-length") == arrived.field(b"content-length")
            assert arrived.field(b"host") == b"127.0.0.1:%d" % lab.origin.port

        threads = [threading.Thread(target=work, args=(share,)) for share in range(THREADS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(110)
        assert not problems, problems[0]
        assert not lab.origin.problems
        rows = ours.wait_rows("attempt", EXCHANGES)
        assert len(rows) == EXCHANGES
        assert {row["end"] for row in rows} == {"clean"}
        assert all(row["window"] is None for row in rows)
        assert ours.state()["counts"]["in_flight"] == 0
    lab.origin.close()
