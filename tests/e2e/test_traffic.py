"""What becomes of one request, by a server that does one thing to it."""

import asyncio
import contextlib
import gzip
import itertools
import os
import resource
import socket
import ssl
import struct
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
import trustme

from drillmaster.clock import SystemClock
from drillmaster.errors import Refused
from drillmaster.pace import Steady
from drillmaster.plan import Target
from drillmaster.run.traffic import Answer, Asker, Tally, Traffic, look_up, outcome_of, prepare

pytestmark = pytest.mark.e2e

CLOCK = SystemClock()
Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


def says(*parts: bytes, then: str = "close", read: bool = True) -> Serve:
    """A server that reads the head, sends these parts with a breath between them, and then closes, resets or holds."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            if read:
                await reader.readuntil(b"\r\n\r\n")
            for part in parts:
                writer.write(part)
                await writer.drain()
                await asyncio.sleep(0.01)
            if then == "hold":
                await reader.read()
            if then == "reset":
                sock = writer.get_extra_info("socket")
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        writer.close()

    return serve


@contextlib.asynccontextmanager
async def serving(serve: Serve, address: str = "127.0.0.1", *, tls: ssl.SSLContext | None = None) -> AsyncIterator[int]:
    """Serve on a free port while inside; nothing of it is left when the loop is closed."""
    under_way: set[asyncio.Task[None]] = set()

    async def one(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        under_way.add(task)
        try:
            await serve(reader, writer)
        except asyncio.CancelledError:
            pass  # the test is over
        finally:
            writer.transport.abort() if not writer.is_closing() else None
            under_way.discard(task)

    server = await asyncio.start_server(one, address, 0, ssl=tls)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        for task in tuple(under_way):
            task.cancel()
        await asyncio.sleep(0.05)


async def _ask(serve: Serve, target: dict[str, Any], *, limit_s: float) -> Answer:
    async with serving(serve) as port:
        return await put(msgspec.convert({"url": f"http://127.0.0.1:{port}/answer", **target}, Target), limit_s=limit_s)


async def put(
    target: Target,
    addresses: tuple[str, ...] = ("127.0.0.1",),
    *,
    limit_s: float = 2.0,
    permitted: bool = False,
    tls: ssl.SSLContext | None = None,
) -> Answer:
    """Ask one request of a target."""
    asker = Asker(target, addresses, clock=CLOCK, permitted=permitted, tls=tls)
    request = prepare(target, id="u1", trace="a" * 32, span="b" * 16, nonce="dmn" + "0" * 16, payload=None)
    return await asker.ask(request, due_ns=CLOCK.mono_ns(), time_limit_s=limit_s)


def ask(serve: Serve, *, limit_s: float = 5.0, **target: Any) -> Answer:
    return asyncio.run(_ask(serve, target, limit_s=limit_s))


OK = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"
HEAD = b"HTTP/1.1 200 OK\r\n"


@pytest.mark.parametrize(
    ("serve", "result", "status", "answer"),
    [
        (says(OK), "answered", 200, "ok"),
        (says(OK, then="hold"), "answered", 200, "ok"),  # a kept connection is no reason to wait
        (says(*[OK[i : i + 1] for i in range(len(OK))]), "answered", 200, "ok"),
        (says(HEAD + b"Transfer-Encoding: chunked\r\n\r\n2\r\nhe\r\n3\r\nllo\r\n0\r\n\r\n"), "answered", 200, "ok"),
        (says(HEAD + b"\r\nhello"), "answered", 200, "ok"),  # until the connection ends
        (says(b"HTTP/1.0 200 OK\r\n\r\nhello"), "answered", 200, "ok"),
        (says(b"HTTP/1.1 103 Early Hints\r\n\r\n", OK), "answered", 200, "ok"),
        (says(HEAD + b"Content-Length: 0\r\n\r\n"), "answered", 200, "empty"),
        (says(b"HTTP/1.1 204 No Content\r\n\r\n"), "answered", 204, None),
        (says(b"HTTP/1.1 500 Oops\r\nContent-Length: 0\r\n\r\n"), "answered", 500, None),
        (says(b"HTTP/1.1 302 Found\r\nLocation: http://10.0.0.1/\r\nContent-Length: 0\r\n\r\n"), "answered", 302, None),
        (says(), "cut", None, None),
        (says(b"HTTP/1.1 200"), "cut", None, None),
        (says(HEAD + b"Content-Length: 6\r\n\r\nhello"), "cut", 200, None),
        (says(HEAD + b"Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n"), "cut", 200, None),
        (says(then="reset"), "reset", None, None),
        (says(HEAD + b"Content-Length: 6\r\n\r\nhello", then="reset"), "reset", 200, None),
        (says(then="reset", read=False), "reset", None, None),
        (says(b"SSH-2.0-OpenSSH_9.2\r\n\r\n"), "protocol", None, None),
        (says(b"\x15\x03\x01\x00\x02\x02\x46" * 20_000), "protocol", None, None),
        (says(HEAD + b"Content-Length: 5\r\nContent-Length: 6\r\n\r\nhello"), "protocol", None, None),
        (says(HEAD + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n"), "protocol", 200, None),
    ],
)
def test_each_end_has_one_name(serve: Serve, result: str, status: int | None, answer: str | None) -> None:
    got = ask(serve)
    assert (got.result, got.status, got.answer) == (result, status, answer), got.why


@pytest.mark.parametrize(
    ("parts", "why"),
    [((), "no answer"), ((b"HTTP/1.1 200 OK\r\n",), "half"), ((HEAD + b"Content-Length: 9\r\n\r\nhello",), "half")],
)
def test_a_user_gives_up_at_the_limit_from_when_the_request_was_due(parts: tuple[bytes, ...], why: str) -> None:
    got = ask(says(*parts, then="hold"), limit_s=0.3)
    assert got.result == "timeout" and why in got.why
    assert 0.29e9 < got.end_ns - got.sent_ns < 1e9


def test_nobody_at_the_port_is_refused() -> None:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        got = asyncio.run(put(Target(url=f"http://127.0.0.1:{sock.getsockname()[1]}/")))
    assert outcome_of(got) == "refused"


def test_the_second_address_is_tried_where_nobody_is_at_the_first() -> None:
    async def run() -> Answer:
        async with serving(says(OK)) as port:
            return await put(Target(url=f"http://localhost:{port}/"), ("::1", "127.0.0.1"))

    assert outcome_of(asyncio.run(run())) == "ok"


def test_a_body_that_was_packed_without_being_asked_is_unpacked() -> None:
    body = gzip.compress(b'{"text": "hello"}')
    head = HEAD + b"Content-Encoding: gzip\r\nContent-Length: %d\r\n\r\n" % len(body)
    assert ask(says(head + body), expect={"pointer": "/text"}).answer == "ok"
    assert ask(says(head + b"x" * len(body))).result == "protocol"


def test_a_body_without_end_is_cut_off_and_not_kept() -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(HEAD + b"\r\n")
        with contextlib.suppress(ConnectionError):
            while True:
                writer.write(b"x" * 1_000_000)
                await writer.drain()

    got = ask(serve, limit_s=20)
    assert got.result == "protocol" and "over" in got.why


def test_a_server_that_answers_before_it_has_read_all_is_heard() -> None:
    got = ask(says(OK), method="POST", body="x" * 3_000_000)
    assert outcome_of(got) in ("ok", "reset")


def test_a_certificate_that_nobody_vouches_for_is_no_answer() -> None:
    ca = trustme.CA()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    ca.issue_cert("127.0.0.1").configure_cert(context)
    trusting = ssl.create_default_context()
    ca.configure_trust(trusting)

    async def run(tls: ssl.SSLContext) -> Answer:
        async with serving(says(OK), tls=context) as port:
            return await put(Target(url=f"https://127.0.0.1:{port}/"), tls=tls, limit_s=5)

    got = asyncio.run(run(ssl.create_default_context()))
    assert got.result == "protocol" and "CERTIFICATE" in got.why
    assert outcome_of(asyncio.run(run(trusting))) == "ok"


def _own_address() -> str | None:
    """An address of this machine that is not loopback, if it has one; nothing is sent."""
    with contextlib.suppress(OSError), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.connect(("192.0.2.1", 9))
        address = str(sock.getsockname()[0])
        return None if address.startswith("127.") else address
    return None


def test_the_connected_address_decides_before_a_byte_is_sent() -> None:
    address = _own_address()
    if address is None:
        pytest.skip("needs an address besides loopback")
    got: list[bytes] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        got.append(await reader.read(100))
        writer.write(OK)
        writer.close()

    async def run() -> Answer:
        async with serving(serve, address) as port:
            target = Target(url=f"http://agent.test:{port}/")
            with pytest.raises(Refused, match="not loopback"):
                await put(target, (address,))
            await asyncio.sleep(0.05)
            assert b"".join(got) == b""
            return await put(target, (address,), permitted=True)

    assert outcome_of(asyncio.run(run())) == "ok"


def test_out_of_descriptors_is_the_drill_s_fault_and_no_outcome() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)

    async def run() -> None:
        async with serving(says(OK)) as port:
            target = Target(url=f"http://127.0.0.1:{port}/")
            used = len(list(Path("/proc/self/fd").iterdir()))
            resource.setrlimit(resource.RLIMIT_NOFILE, (used, hard))
            held = []
            try:
                with contextlib.suppress(OSError):
                    while True:
                        held.append(os.dup(0))
                with pytest.raises(OSError, match="Too many open files"):
                    await put(target)
            finally:
                resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
                for fd in held:
                    os.close(fd)

    asyncio.run(run())


class Lines:
    def __init__(self) -> None:
        self.lines: list[dict[str, Any]] = []

    def write(self, event: str, /, **fields: Any) -> None:
        self.lines.append({"event": event, **fields})


def test_a_dead_agent_does_not_thin_the_traffic_and_every_start_has_one_end() -> None:
    log = Lines()

    async def run() -> Tally:
        async with serving(says(then="hold")) as port:
            target = Target(url=f"http://127.0.0.1:{port}/?n={{nonce}}")
            start_ns = CLOCK.mono_ns()
            traffic = Traffic(
                target,
                Asker(target, ["127.0.0.1"], clock=CLOCK, permitted=False, tls=None),
                log,
                pace=Steady(start_ns=start_ns, every_ns=10_000_000),
                time_limit_s=0.5,
                seed="s",
                clock=CLOCK,
                mono0_ns=start_ns,
                tally=Tally(10),
                max_requests=10_000,
            )
            async with asyncio.TaskGroup() as group:
                group.create_task(traffic.run())
                await asyncio.sleep(1.0)
                assert traffic.tally.in_flight > 30
                traffic.no_more()
            return traffic.tally

    tally = asyncio.run(run())
    starts = [line for line in log.lines if line["phase"] == "start"]
    ends = {line["id"]: line for line in log.lines if line["phase"] == "end"}
    assert 95 <= len(starts) <= 101 and len(ends) == len(starts) == tally.done
    assert tally.by_outcome == {"timeout": len(starts)}
    assert [b["due_ns"] - a["due_ns"] for a, b in itertools.pairwise(starts)] == [10_000_000] * (len(starts) - 1)
    assert len({line["trace"] for line in starts}) == len({line["nonce"] for line in starts}) == len(starts)
    assert all(480 < end["ms"] < 1500 for end in ends.values())


def test_a_name_is_looked_up_once_for_all_its_addresses() -> None:
    assert "127.0.0.1" in asyncio.run(look_up("localhost", 80))
