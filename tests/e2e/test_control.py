"""The conductor's socket: orders from other terminals, and what is none."""

import asyncio
import json
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from drillmaster.errors import Refused
from drillmaster.run.control import Asked, Told, ask, serve

pytestmark = pytest.mark.e2e


class Desk:
    """A conductor's desk in a thread of its own, that says yes to everything but `stop`."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.asked: list[Asked] = []
        self._ready = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._run()), daemon=True)
        self._thread.start()
        assert self._ready.wait(5)

    async def _run(self) -> None:
        self._loop, self._over = asyncio.get_running_loop(), asyncio.Event()
        server = await serve(self.path, self._answer)
        self._ready.set()
        await self._over.wait()
        server.close()
        await asyncio.sleep(0.05)

    async def _answer(self, asked: Asked) -> Told:
        self.asked.append(asked)
        if asked.order == "stop":
            raise Refused("order stop", found="a", wanted="b", remedy="c")
        return Told(done=True, state="baseline", text="done")

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._over.set)
        self._thread.join(5)


@pytest.fixture
def desk(short_dir: Path) -> Iterator[Desk]:
    made = Desk(short_dir / "c.sock")
    try:
        yield made
    finally:
        made.close()


def raw(desk: Desk, data: bytes) -> dict[str, object]:
    with socket.socket(socket.AF_UNIX) as sock:
        sock.settimeout(8)
        sock.connect(str(desk.path))
        sock.sendall(data)
        line = b""
        while piece := sock.recv(65_536):
            line += piece
    return json.loads(line) if line else {}


def test_an_order_comes_back_with_what_was_done(desk: Desk) -> None:
    assert ask(str(desk.path), Asked(order="inject", token="t", by="Ada")).text == "done"
    assert desk.asked == [Asked(order="inject", token="t", by="Ada")]


def test_a_refusal_comes_back_whole(desk: Desk) -> None:
    with pytest.raises(Refused, match="order stop: found a, wanted b; c"):
        ask(str(desk.path), Asked(order="stop", token="t"))


def test_only_this_user_may_open_the_socket(desk: Desk) -> None:
    assert desk.path.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize(
    "line",
    [b"\n", b"{}\n", b"inject\n", b'{"order":"seal","token":"t"}\n', b'{"order":"inject","token":1}\n',
     b'{"order":"inject","token":"t","more":1}\n', b"\xff\n", b"[" * 5_000 + b"\n"],
)  # fmt: skip
def test_what_is_no_order_is_answered_with_what_was_wanted(desk: Desk, line: bytes) -> None:
    answer = raw(desk, line)
    assert answer["done"] is False and answer["wanted"]
    assert desk.asked == []


def test_a_line_without_end_is_refused(desk: Desk) -> None:
    assert raw(desk, b"x" * 100_000)["found"] == "over 8192 bytes"
    assert ask(str(desk.path), Asked(order="lift", token="t")).done


def test_silent_clients_cost_nothing_but_their_own_turn(desk: Desk) -> None:
    silent = [socket.socket(socket.AF_UNIX) for _ in range(40)]
    for sock in silent:
        sock.connect(str(desk.path))
    assert ask(str(desk.path), Asked(order="lift", token="t")).done  # asked again until their time is over
    for sock in silent:
        sock.close()
    time.sleep(0.2)
    assert ask(str(desk.path), Asked(order="lift", token="t")).done


def test_a_conductor_that_is_not_there_is_said_so(short_dir: Path) -> None:
    with pytest.raises(Refused, match="the conductor"):
        ask(str(short_dir / "nobody.sock"), Asked(order="lift", token="t"))


def test_a_desk_that_others_crowd_says_busy_and_takes_the_lift_in_the_end(desk: Desk) -> None:
    idle = [socket.socket(socket.AF_UNIX) for _ in range(20)]
    try:
        for sock in idle:
            sock.connect(str(desk.path))
        time.sleep(0.2)
        assert raw(desk, b"{}\n")["place"] == "busy"
        told = ask(str(desk.path), Asked(order="lift", token="t", text="w" * 50_000, by="\udce9" * 500))
        assert told.done
        assert len(desk.asked[-1].text) == 1_000 and len(desk.asked[-1].by) == 100
    finally:
        for sock in idle:
            sock.close()


def test_a_note_that_is_too_long_is_refused_by_name_before_it_is_sent(desk: Desk) -> None:
    with pytest.raises(Refused, match="at most 1000"):
        ask(str(desk.path), Asked(order="note", token="t", kind="other", text="w" * 1_001))
    assert desk.asked == []
