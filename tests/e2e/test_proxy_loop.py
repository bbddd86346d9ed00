"""The proxy's loop: readers called from the poll, beside what asyncio has registered itself."""

import asyncio
import socket
from collections.abc import Iterator
from typing import Any

import pytest

from drillmaster.proxy.loop import make_loop

pytestmark = pytest.mark.e2e


@pytest.fixture
def pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    ours, theirs = socket.socketpair()
    for sock in (ours, theirs):
        sock.setblocking(False)
    yield ours, theirs
    ours.close()
    theirs.close()


def run(main: Any) -> Any:
    with asyncio.Runner(loop_factory=make_loop) as runner:
        return runner.run(asyncio.wait_for(main, 5))


def test_what_a_reader_raises_is_told_and_the_next_event_still_comes(pair: tuple[socket.socket, socket.socket]) -> None:
    ours, theirs = pair

    async def main() -> tuple[list[str], bytes]:
        loop = asyncio.get_running_loop()
        told: list[str] = []
        got: asyncio.Future[bytes] = loop.create_future()

        def reader() -> None:
            data = ours.recv(100)
            if data == b"bad":
                theirs.send(b"good")
                raise ValueError("bad")
            got.set_result(data)

        loop.set_exception_handler(lambda _, context: told.append(str(context["exception"])))
        loop.add_reader(ours.fileno(), reader)
        theirs.send(b"bad")
        data = await got
        assert loop.remove_reader(ours.fileno())
        assert not loop.remove_reader(ours.fileno())
        return told, data

    assert run(main()) == (["bad"], b"good")


def test_reader_and_writer_of_one_descriptor_do_not_lose_each_other(pair: tuple[socket.socket, socket.socket]) -> None:
    ours, theirs = pair

    async def main() -> list[str]:
        loop = asyncio.get_running_loop()
        seen: list[str] = []
        done: asyncio.Future[None] = loop.create_future()
        fd = ours.fileno()

        def writable() -> None:
            seen.append("writable")
            loop.remove_writer(fd)
            theirs.send(b"x")

        def readable() -> None:
            seen.append("readable")
            loop.remove_reader(fd)
            done.set_result(None)

        loop.add_reader(fd, readable)
        loop.add_writer(fd, writable)
        await done
        return seen

    assert run(main()) == ["writable", "readable"]


def test_a_reader_that_ends_another_is_not_followed_by_it() -> None:
    pairs = [socket.socketpair() for _ in range(2)]

    async def main() -> list[int]:
        loop = asyncio.get_running_loop()
        called: list[int] = []

        def reader(me: int) -> None:
            called.append(me)
            for ours, _ in pairs:
                loop.remove_reader(ours.fileno())
                ours.close()

        for i, (ours, theirs) in enumerate(pairs):
            loop.add_reader(ours.fileno(), reader, i)
            theirs.send(b"x")
        await asyncio.sleep(0.05)
        return called

    try:
        assert len(run(main())) == 1
    finally:
        for sock in (sock for two in pairs for sock in two):
            sock.close()


def test_timers_tasks_and_other_threads_wake_it() -> None:
    async def main() -> int:
        await asyncio.sleep(0.01)
        return await asyncio.to_thread(lambda: 7)

    assert run(main()) == 7
