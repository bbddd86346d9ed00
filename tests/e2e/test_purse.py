"""What was spent at the real endpoint is spent, whoever counts it: a proxy that is killed and replaced goes on from there."""

import asyncio
import os
import socket
from pathlib import Path

import pytest

from drillmaster.proxy.settings import Settings
from drillmaster.run.parts import ProxyPart
from tests.e2e.wirelab import CHAT, Origin, Reader, plain_answer, post

pytestmark = pytest.mark.e2e


def ask(port: int) -> int:
    with socket.create_connection(("127.0.0.1", port), 10) as sock:
        sock.sendall(post())
        answer = Reader(sock).answer()
        assert answer is not None
        return answer.status


async def spend(
    tmp_path: Path, url: str, caps: dict[str, int], kills: int, each: int
) -> tuple[list[int], dict[str, int]]:
    listener = socket.create_server(("127.0.0.1", 0))
    settings = Settings(
        listen_fd=listener.fileno(),
        upstream=url,
        control_path=str(tmp_path / "c.sock"),
        events=str(tmp_path / "proxy.jsonl"),
        owner_pid=os.getpid(),
        max_requests=caps.get("requests"),
        max_tokens=caps.get("tokens"),
    )
    part = ProxyPart(settings, tmp_path / "c.sock", log=tmp_path / "proxy.log", env=os.environ)
    port, statuses = listener.getsockname()[1], []
    for turn in range(kills + 1):
        await part.start()
        statuses += [await asyncio.to_thread(ask, port) for _ in range(each)]
        if turn < kills:
            part.kill()
            assert await part.wait() < 0
    spent = (await part.state())["spent"]
    await part.quit()
    listener.close()
    return statuses, spent


@pytest.mark.parametrize(("caps", "served"), [({"requests": 7}, 7), ({"tokens": 14}, 7)])
def test_kills_buy_no_more_than_the_cap(tmp_path: Path, caps: dict[str, int], served: int) -> None:
    assert b'"total_tokens":2' in CHAT
    origin = Origin(plain_answer)
    statuses, spent = asyncio.run(spend(tmp_path, origin.url, caps, kills=2, each=3))
    assert statuses == [200] * served + [503] * (9 - served)
    assert spent == {"requests": served, "tokens": 2 * served}
    origin.close()
