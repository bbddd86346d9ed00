"""Calls over WebSockets, against the real server of the `websockets` package and against servers that break the rules."""

import asyncio
import contextlib
import json
import socket
import ssl
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import trustme
from websockets.asyncio.server import ServerConnection, serve
from websockets.exceptions import ConnectionClosed

from drillmaster import ws
from tests.e2e.test_engine import Lab, Ran, origin
from tests.e2e.wirelab import Reader

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(60)]

Talk = Callable[[ServerConnection], Awaitable[None]]


@contextlib.contextmanager
def server(talk: Talk, **more: Any) -> Iterator[int]:
    """A WebSocket server in a thread of its own; its port."""
    ready: list[int] = []
    loop = asyncio.new_event_loop()
    stop = asyncio.Event()

    async def run() -> None:
        async with serve(talk, "127.0.0.1", 0, **more) as one:
            ready.append(next(iter(one.sockets)).getsockname()[1])
            await stop.wait()

    thread = threading.Thread(target=loop.run_until_complete, args=(run(),), daemon=True)
    thread.start()
    give_up = time.monotonic() + 10
    while not ready and time.monotonic() < give_up:
        time.sleep(0.01)
    try:
        yield ready[0]
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join(10)
        assert not thread.is_alive()
        loop.close()


@pytest.fixture
def lab(tmp_path: Path) -> Lab:
    return Lab(tmp_path)


def call(lab: Lab, port: int, *stages: dict[str, Any], said: dict[str, Any] | None = None, **more: Any) -> Ran:
    shot = {"dialect": "plain", "websocket": said or {}, "payloads": ['{"ask":{n}}'], **more.pop("shot", {})}
    return lab.run(port, *(stages or ({"level": 1, "calls": 5},)), shot=shot, **more)


def test_one_message_up_one_down_on_one_connection(lab: Lab) -> None:
    heard: list[str] = []
    opened = 0

    async def talk(peer: ServerConnection) -> None:
        nonlocal opened
        opened += 1
        async for message in peer:
            heard.append(str(message))
            await asyncio.sleep(0.02)
            await peer.send("fine")

    with server(talk) as port:
        ran = call(lab, port, {"level": 2, "calls": 20})
    assert sorted(heard) == sorted(f'{{"ask":{n}}}' for n in range(20))
    assert opened == 2
    assert ran.kinds == {"ok": 20}
    assert all(row.status == 101 and row.words == 1 and row.down_bytes == 4 for row in ran.rows)
    assert all(row.end_ns - row.sent_ns >= 20_000_000 for row in ran.rows)
    assert sum(row.connect_ns > 0 for row in ran.rows) == 2


def test_an_answer_of_many_messages_ends_where_the_plan_says_and_each_is_timed(lab: Lab) -> None:
    async def talk(peer: ServerConnection) -> None:
        async for _ in peer:
            for n in range(5):
                await peer.send(json.dumps({"type": "delta", "n": n}))
                await asyncio.sleep(0.03)
            await peer.send(json.dumps({"type": "done", "usage": {"completion_tokens": 12}}))

    with server(talk) as port:
        ran = call(lab, port, said={"until": '"type": *"done"'})
    assert ran.kinds == {"ok": 5}
    assert all(row.words == 6 and row.tokens == 12 for row in ran.rows)
    assert all(len(gaps) == 5 and min(gaps) > 20_000 for gaps in ran.gaps)


def test_an_error_in_band_a_close_and_a_reset_have_names_of_their_own(lab: Lab) -> None:
    nth = 0

    async def talk(peer: ServerConnection) -> None:
        nonlocal nth
        async for _ in peer:
            nth += 1
            if nth == 1:
                await peer.send('{"error": "no"}')
            elif nth == 2:
                await peer.close(1013, "try later")
            elif nth == 3:
                peer.transport.abort()
            else:
                await peer.send("fine")

    with server(talk) as port:
        ran = call(lab, port, said={"failed": '^{"error"'})
    assert ran.kinds["error_body"] == 1
    assert ran.kinds["ok"] == 2
    assert [row.status for row in ran.rows if row.status > 101] == [1013]
    assert ran.kinds["cut"] + ran.kinds["reset"] == 2


def test_pings_are_answered_within_a_call_and_between_calls(lab: Lab) -> None:
    pongs = 0

    async def talk(peer: ServerConnection) -> None:
        nonlocal pongs
        with contextlib.suppress(ConnectionClosed):
            async for _ in peer:
                await (await peer.ping())
                pongs += 1
                await peer.send("fine")
                await (await peer.ping())  # the caller is thinking meanwhile
                pongs += 1

    with server(talk) as port:
        pauses = {"session_s": 0.1}
        ran = call(lab, port, {"level": 1, "calls": 4, "pauses": pauses})
    assert ran.kinds == {"ok": 4}
    assert pongs >= 7


def test_an_upgrade_that_is_refused_is_told_by_its_status(lab: Lab) -> None:
    def refuse(reader: Reader, sock: socket.socket) -> None:
        reader.until(b"\r\n\r\n")
        sock.sendall(b"HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\n\r\n")

    with origin(refuse) as port:
        ran = call(lab, port, {"level": 1, "calls": 2})
    assert ran.kinds == {"http_4xx": 2}
    assert {row.status for row in ran.rows} == {401}


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        b"Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n",
        b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi",
        b"SSH-2.0-OpenSSH_9.2\r\n\r\n",
    ],
)
def test_what_is_no_websocket_is_told_as_none(lab: Lab, answer: bytes) -> None:
    def pretend(reader: Reader, sock: socket.socket) -> None:
        reader.until(b"\r\n\r\n")
        sock.sendall(answer)
        time.sleep(0.2)

    with origin(pretend) as port:
        ran = call(lab, port, {"level": 1, "calls": 1})
    assert ran.kinds == {"protocol": 1}


def test_a_silent_server_times_out_and_the_next_call_has_a_connection_of_its_own(lab: Lab) -> None:
    opened = 0

    async def talk(peer: ServerConnection) -> None:
        nonlocal opened
        opened += 1
        async for _ in peer:
            await asyncio.sleep(5)

    with server(talk) as port:
        ran = call(lab, port, {"level": 1, "calls": 2}, time_limit_s=0.4)
    assert ran.kinds == {"timeout": 2}
    assert opened == 2


def test_callers_by_the_clock_and_sessions(lab: Lab) -> None:
    talks: list[list[str]] = []

    async def talk(peer: ServerConnection) -> None:
        mine: list[str] = []
        talks.append(mine)
        async for message in peer:
            mine.append(str(message))
            await peer.send("fine")

    with server(talk) as port:
        ran = call(lab, port, {"kind": "open", "level": 50, "rate_per_s": 100, "seconds": 0.5, "takes": "first_turns"})
        assert ran.kinds == {"ok": 50}
    talks.clear()
    for name in ("samples.bin", "gaps.bin"):
        (lab.folder / name).unlink()
    with server(talk) as port:
        shot = {"payloads": ["one", "two", "three"], "turns": [3]}
        ran = call(lab, port, {"level": 1, "calls": 6}, shot=shot)
    assert ran.kinds == {"ok": 6}
    assert talks == [["one", "two", "three", "one", "two", "three"]]


def test_over_tls_and_with_headers_and_a_subprotocol(lab: Lab) -> None:
    seen: list[Any] = []
    ca = trustme.CA()
    ca.cert_pem.write_to_path(str(lab.folder / "ca.pem"))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    ca.issue_cert("localhost").configure_cert(context)

    async def talk(peer: ServerConnection) -> None:
        assert peer.request is not None
        seen.append((peer.request.path, peer.request.headers["X-Key"], peer.subprotocol))
        async for message in peer:
            await peer.send(str(message)[::-1] + "x" * 100_000)

    with server(talk, ssl=context, subprotocols=["chat.v2"]) as port:
        tls = {"tls": True, "server_name": "localhost", "ca_file": str(lab.folder / "ca.pem")}
        shot = {"target": "/talk?room=1", "headers": {"X-Key": "value"}, "payloads": ["y" * 70_000]}
        ran = call(lab, port, {"level": 3, "calls": 12}, said={"subprotocol": "chat.v2"}, shot=shot, **tls)
    assert ran.kinds == {"ok": 12}
    assert set(seen) == {("/talk?room=1", "value", "chat.v2")}
    assert all(row.down_bytes == 170_000 and row.up_bytes == 70_000 for row in ran.rows)
    assert all(row.tls_ns > 0 for row in ran.rows if row.connect_ns)


def by_hand(talk: Callable[[socket.socket, int], bool], behind_upgrade: bytes = b"") -> Callable[..., None]:
    """A server that says bytes: `talk` is given each message's number and says whether it goes on."""

    def handle(reader: Reader, sock: socket.socket) -> None:
        head = reader.until(b"\r\n\r\n") or b""
        [key] = [line.split(b": ")[1] for line in head.split(b"\r\n") if line.startswith(b"Sec-WebSocket-Key")]
        sock.sendall(
            b"HTTP/1.1 103 Early Hints\r\nLink: </style.css>\r\n\r\nHTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n"
            b"Connection: Upgrade\r\nSec-WebSocket-Accept: " + ws.accept_of(key) + b"\r\n\r\n" + behind_upgrade
        )
        number = 0
        while (first := reader.exactly(2)) and first[0] & 0x0F == ws.TEXT:
            reader.exactly(4 + (first[1] & 0x7F))
            if not talk(sock, number):
                return
            number += 1

    return handle


def said(payload: bytes, kind: int = ws.TEXT) -> bytes:
    return bytes((0x80 | kind, len(payload))) + payload


@pytest.mark.parametrize("whole", [True, False])
def test_what_comes_behind_an_answer_or_an_upgrade_in_one_piece_answers_no_call(lab: Lab, whole: bool) -> None:
    push = said(b"news of the day")
    cut = len(push) if whole else 4

    def talk(sock: socket.socket, number: int) -> bool:
        time.sleep(0.03)
        sock.sendall((b"" if whole else push[cut:]) + said(b"fine") + push[:cut])
        return True

    with origin(by_hand(talk, push[:cut])) as port:
        ran = call(lab, port)
    assert ran.kinds == {"ok": 5}
    assert all(row.down_bytes == 4 and row.end_ns - row.sent_ns >= 30_000_000 for row in ran.rows)


@pytest.mark.parametrize("code", [b"", b"\x03\xe8", b"\x03\xe9"])
@pytest.mark.parametrize("apart_s", [0.0, 0.01])
def test_a_server_that_says_goodbye_after_each_answer_cuts_no_call(lab: Lab, code: bytes, apart_s: float) -> None:
    def talk(sock: socket.socket, number: int) -> bool:
        if apart_s:
            sock.sendall(said(b"fine"))
            time.sleep(apart_s)
        sock.sendall(said(code, ws.CLOSE) if apart_s else said(b"fine") + said(code, ws.CLOSE))
        return False

    with origin(by_hand(talk)) as port:
        ran = call(lab, port)
    assert ran.kinds == {"ok": 5}


def test_a_server_is_told_that_it_is_over_and_sees_no_abnormal_end(lab: Lab) -> None:
    codes: list[int | None] = []

    async def talk(peer: ServerConnection) -> None:
        async for message in peer:
            await peer.send(message)
        codes.append(peer.close_code)

    with server(talk) as port:
        ran = call(lab, port, {"level": 3, "calls": 9})
    assert ran.kinds == {"ok": 9}
    assert codes == [1000, 1000, 1000]
