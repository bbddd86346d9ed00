"""The server's reading and answering, byte by byte, over a transport that only remembers; sockets are met in tests/e2e."""

import asyncio
import itertools
import re
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from drillmaster.adapters.worker.serving import Asked, Bounds, Reply, Server, _Connection, spoken
from drillmaster.errors import Problem


class Remembers(asyncio.Transport):
    """A transport that keeps what it was given."""

    def __init__(self) -> None:
        super().__init__()
        self.wrote = b""
        self.gone = self.aborted = self.paused = self.half = False

    def write(self, data: Any) -> None:
        self.wrote += bytes(data)

    def is_closing(self) -> bool:
        return self.gone

    def close(self) -> None:
        self.gone = True

    def abort(self) -> None:
        self.gone = self.aborted = True

    def can_write_eof(self) -> bool:
        return True

    def write_eof(self) -> None:
        self.half = True

    def pause_reading(self) -> None:
        self.paused = True

    def resume_reading(self) -> None:
        self.paused = False


def echo(asked: Asked) -> Reply:
    return Reply(200, f"{asked.method} {asked.path} {asked.query} {asked.body.decode()}".encode())


async def later(asked: Asked) -> Reply:
    await asyncio.sleep(0)
    return echo(asked)


def refuse(status: int, why: str) -> Reply:
    return Reply(status, f'{{"allowed":false,"why":"{why}"}}'.encode())


def met(
    *pieces: bytes,
    answer: Callable[[Asked], Reply | Awaitable[Reply]] = echo,
    token: str = "",
    bounds: Bounds | None = None,
    after_s: float = 0,
) -> Remembers:
    """Give a connection its bytes, and say what it wrote."""

    async def run() -> Remembers:
        server = Server(answer, refuse, token=token, bounds=bounds)
        connection, wire = _Connection(server), Remembers()
        connection.connection_made(wire)
        for piece in pieces:
            connection.data_received(piece)
            for _ in range(4):
                await asyncio.sleep(0)
        if after_s:
            connection.look_at_the_clock(asyncio.get_running_loop().time() + after_s)
        connection.connection_lost(None)
        return wire

    return asyncio.run(run())


def post(body: bytes, *fields: str, path: str = "/v1/x") -> bytes:
    lines = [
        f"POST {path} HTTP/1.1",
        "host: l",
        "content-type: application/json",
        f"content-length: {len(body)}",
        *fields,
    ]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


def statuses(wrote: bytes) -> list[int]:
    return [int(status) for status in re.findall(rb"HTTP/1\.1 (\d{3}) ", wrote)]


STREAM = (
    post(b'{"a":1}')
    + b"GET /healthz HTTP/1.1\r\nhost: l\r\n\r\n"
    + b"POST /v1/y?route=r HTTP/1.1\r\nhost: l\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n"
    + b"3\r\nabc\r\n0\r\n\r\n"
    + post(b"{}", "connection: close")
)


@given(cuts=st.lists(st.integers(0, len(STREAM)), max_size=12), slow=st.booleans())
@example(cuts=list(range(len(STREAM))), slow=False)
@example(cuts=list(range(len(STREAM))), slow=True)
@example(cuts=[], slow=True)
def test_any_cutting_of_the_same_bytes_gets_the_same_answers_in_their_order(cuts: list[int], slow: bool) -> None:
    edges = sorted({0, *cuts, len(STREAM)})
    pieces = [STREAM[a:b] for a, b in itertools.pairwise(edges)]
    wire = met(*pieces, b"", answer=later if slow else echo)
    bodies = [part.partition(b"HTTP/1.1")[0] for part in wire.wrote.split(b"\r\n\r\n")[1:]]
    assert bodies == [b'POST /v1/x  {"a":1}', b"GET /healthz  ", b"POST /v1/y route=r abc", b"POST /v1/x  {}"]
    assert wire.half  # the last one asked for the end


@pytest.mark.parametrize(
    ("data", "status"),
    [
        (b"GARBAGE\r\n\r\n", 400),
        (b"GET / HTTP/1.1\n\n", 400),
        (b"GET / HTTP/1.1\r\n\r\n", 400),  # no host
        (b"GET / HTTP/1.1\r\nhost: l\r\n folded\r\n\r\n", 400),
        (post(b"{}", "transfer-encoding: chunked"), 400),  # both framings
        (post(b"{}", "content-length: 3"), 400),
        (post(b"{}", "origin: http://evil.example"), 403),
        (post(b"{}").replace(b"application/json", b"text/plain"), 415),
        (post(b"{}").replace(b"content-type: application/json\r\n", b""), 415),
        (post(b"x" * 65_537), 413),
        (b"POST / HTTP/1.1\r\nhost: l\r\ncontent-type: application/json\r\ncontent-length: 99999999\r\n\r\n", 413),
        (
            b"POST / HTTP/1.1\r\nhost: l\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n"
            + b"8000\r\n" + b"x" * 0x8000 + b"\r\n8001\r\n" + b"x" * 0x8001 + b"\r\n",
            413,
        ),
        (b"GET / HTTP/1.1\r\nhost: l\r\nx: " + b"y" * 20_000 + b"\r\n\r\n", 431),
        (b"GET / HTTP/1.1\r\nhost: l\r\nx: " + b"y" * 20_000, 431),
        (b"GET / HTTP/1.1\r\nhost: l\r\nconnection: upgrade\r\nupgrade: h2c\r\n\r\n", 400),
    ],
)  # fmt: skip  # a table
def test_what_is_not_given_on_is_answered_once_and_ends_the_connection(data: bytes, status: int) -> None:
    def never(asked: Asked) -> Reply:
        raise AssertionError("it was given on")

    wire = met(data, post(b"{}"), answer=never)
    assert statuses(wire.wrote) == [status]
    assert b'"allowed":false' in wire.wrote
    assert b"connection: close" in wire.wrote


@pytest.mark.parametrize(
    ("said", "status"),
    [
        ((), 401),
        (("authorization: Bearer wrong",), 401),
        (("authorization: Bearer",), 401),
        (("authorization: Basic abcdefghijklmnop",), 401),
        (("authorization: Bearer abcdefghijklmno",), 401),
        (("authorization: Bearer abcdefghijklmnop",), 200),
        (("authorization: bearer abcdefghijklmnop",), 200),
    ],
)
def test_a_token_is_asked_for_where_there_is_one(said: tuple[str, ...], status: int) -> None:
    assert statuses(met(post(b"{}", *said), token="abcdefghijklmnop").wrote) == [status]


def test_whether_it_lives_may_be_asked_without_a_token() -> None:
    assert statuses(met(b"GET /healthz HTTP/1.1\r\nhost: l\r\n\r\n", token="abcdefghijklmnop").wrote) == [200]


@pytest.mark.parametrize("begun", [b"P", post(b"{}")[:-1], post(b"{}").partition(b"\r\n\r\n")[0]])
def test_a_request_that_does_not_come_whole_in_time_is_a_408(begun: bytes) -> None:
    wire = met(begun, after_s=6, bounds=Bounds(read_s=5))
    assert statuses(wire.wrote) == [408]
    assert not met(begun, after_s=4, bounds=Bounds(read_s=5)).wrote


def test_one_that_is_idle_for_too_long_is_ended_without_a_word() -> None:
    wire = met(post(b"{}"), after_s=80)
    assert statuses(wire.wrote) == [200]
    assert wire.half
    assert not met(post(b"{}"), after_s=70).half


def test_a_mistake_of_the_servers_own_is_a_500_that_allows_nothing_and_the_next_one_is_answered() -> None:
    def broken(asked: Asked) -> Reply:
        if asked.body == b"{}":
            raise RuntimeError("ours")
        return echo(asked)

    async def broken_later(asked: Asked) -> Reply:
        return broken(asked)

    for answer in (broken, broken_later):
        wire = met(post(b"{}") + post(b'{"a":1}'), answer=answer)
        assert statuses(wire.wrote) == [500, 200]
        assert b'"allowed":false' in wire.wrote


def test_while_an_answer_is_made_only_so_much_is_read_ahead() -> None:
    async def never(asked: Asked) -> Reply:
        await asyncio.Event().wait()
        raise AssertionError

    wire = met(post(b"{}"), *(b"x" * 40_000 for _ in range(3)), answer=never)
    assert wire.paused
    assert not wire.wrote


def test_a_client_that_reads_no_answer_gets_no_further_and_is_cut() -> None:
    async def run() -> tuple[int, bool]:
        server = Server(echo, refuse, bounds=Bounds(read_s=5))
        connection, wire = _Connection(server), Remembers()
        connection.connection_made(wire)
        connection.data_received(post(b"{}"))
        connection.pause_writing()
        connection.data_received(post(b"{}"))
        assert len(statuses(wire.wrote)) == 1
        connection.resume_writing()
        connection.pause_writing()
        connection.data_received(post(b"{}"))
        connection.look_at_the_clock(asyncio.get_running_loop().time() + 6)
        return len(statuses(wire.wrote)), wire.aborted

    assert asyncio.run(run()) == (2, True)


def test_a_client_that_closed_its_side_gets_the_answer_that_is_being_made_and_no_other() -> None:
    async def run() -> tuple[bool, Remembers]:
        connection, wire = _Connection(Server(later, refuse)), Remembers()
        connection.connection_made(wire)
        connection.data_received(post(b"{}"))
        stays = connection.eof_received()
        for _ in range(4):
            await asyncio.sleep(0)
        return stays, wire

    stays, wire = asyncio.run(run())
    assert stays
    assert statuses(wire.wrote) == [200]
    assert b"connection: close" in wire.wrote
    assert wire.half


def test_an_answer_says_when_it_was_made() -> None:
    assert re.search(
        rb"\r\ndate: (Mon|Tue|Wed|Thu|Fri|Sat|Sun), \d\d \w{3} \d{4} \d\d:\d\d:\d\d GMT\r\n", met(post(b"{}")).wrote
    )


def test_one_connection_too_many_is_cut() -> None:
    async def run() -> list[bool]:
        server = Server(echo, refuse, bounds=Bounds(connections=2))
        wires = [Remembers() for _ in range(3)]
        for wire in wires:
            _Connection(server).connection_made(wire)
        return [wire.aborted for wire in wires]

    assert asyncio.run(run()) == [False, False, True]


def test_head_gets_no_body_and_the_old_version_no_second_request() -> None:
    wire = met(b"HEAD /healthz HTTP/1.1\r\nhost: l\r\n\r\n")
    assert wire.wrote.endswith(b"\r\n\r\n")
    assert b"content-length: 15" in wire.wrote
    wire = met(b"GET /a HTTP/1.0\r\n\r\n", b"GET /b HTTP/1.0\r\n\r\n")
    assert statuses(wire.wrote) == [200]


def test_whoever_waits_for_a_word_gets_it_before_the_body() -> None:
    head, _, body = post(b"{}", "expect: 100-continue").partition(b"\r\n\r\n")
    assert statuses(met(head + b"\r\n\r\n", body).wrote) == [100, 200]


@pytest.mark.parametrize("where", ["", "8787", ":8787", "127.0.0.1", "127.0.0.1:x", "127.0.0.1:65536", "127.0.0.1:-1"])
def test_an_address_that_is_none_is_refused(where: str) -> None:
    with pytest.raises(Problem, match="--listen"):
        spoken(where)


@pytest.mark.parametrize(
    ("where", "found"),
    [("127.0.0.1:0", ("127.0.0.1", 0)), ("localhost:80", ("127.0.0.1", 80)), ("[::1]:8787", ("::1", 8787))],
)
def test_an_address_is_host_and_port(where: str, found: tuple[str, int]) -> None:
    assert spoken(where) == found


@given(
    data=st.lists(
        st.one_of(st.binary(max_size=60), st.sampled_from([STREAM[:120], post(b"{}"), b"\r\n\r\n", b"0\r\n"])),
        max_size=6,
    )
)
def test_no_bytes_crash_it_and_each_answer_is_a_whole_one(data: list[bytes]) -> None:
    wire = met(*data)
    for status in statuses(wire.wrote):
        assert status in (100, 200, 400, 401, 403, 408, 413, 415, 421, 431)
    assert not wire.wrote or wire.wrote.startswith(b"HTTP/1.1 ")


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("127.0.0.1:8787", 200),
        ("[::1]:8787", 200),
        ("10.0.0.4", 200),
        ("localhost", 200),
        ("Guards.LocalHost:1", 200),
        ("evil.example:8787", 421),
        ("127.0.0.1.evil.example:8787", 421),
        ("localhost.evil.example", 421),
        ("0x7f.1:8787", 421),
        ("guards", 421),
    ],
)
def test_a_page_whose_name_was_made_to_lead_here_reads_nothing(host: str, status: int) -> None:
    async def run() -> list[int]:
        connection, wire = _Connection(Server(echo, refuse, names=False)), Remembers()
        connection.connection_made(wire)
        connection.data_received(f"GET /metrics HTTP/1.1\r\nhost: {host}\r\n\r\n".encode())
        return statuses(wire.wrote)

    assert asyncio.run(run()) == [status]


@pytest.mark.parametrize(
    ("field", "status"),
    [
        ("origin: null", 403),
        ("sec-fetch-site: cross-site", 403),
        ("sec-fetch-site: same-site", 403),
        ("sec-fetch-site: none", 200),  # somebody wrote the address themselves
        ("sec-fetch-mode: cors", 200),  # Node's fetch says so
    ],
)
def test_a_page_gets_nothing_by_a_form_without_a_body(field: str, status: int) -> None:
    asked = f"POST /v1/x/succeeded HTTP/1.1\r\nhost: l\r\ncontent-length: 0\r\n{field}\r\n\r\n"
    assert statuses(met(asked.encode()).wrote) == [status]


def test_no_answer_may_be_kept_by_anything_between() -> None:
    for asked in (post(b"{}"), b"GET /v1 HTTP/1.1\r\nhost: l\r\n\r\n", b"GARBAGE\r\n\r\n"):
        assert b"\r\ncache-control: no-store\r\n" in met(asked).wrote


def test_who_connects_and_asks_nothing_has_no_longer_than_a_request_may_take() -> None:
    assert met(after_s=6, bounds=Bounds(read_s=5)).gone
    assert not met(after_s=4, bounds=Bounds(read_s=5)).gone
