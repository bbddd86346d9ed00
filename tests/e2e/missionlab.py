"""An agent of a few lines that behaves as its path says, and a driver of missions against it."""

import asyncio
import contextlib
import json
import os
import ssl
import struct
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import msgspec
import websockets
from websockets.asyncio.server import serve as serve_ws

from drillmaster.friday.missions import Load, Missions
from drillmaster.missions.preparing import prepare, read_loads
from drillmaster.missions.process import Driver
from drillmaster.missions.settings import Settings

__all__ = ["ANSWER", "Agent", "Drive", "agent", "driving", "missions_text", "socket_agent"]

ANSWER = b'{"answer":"refunded","ticket":{"id":"t/7"}}'


class Agent:
    """What the agent saw, and how it is to behave."""

    def __init__(self) -> None:
        self.port = 0
        self.delay_s = 0.02
        self.requests: list[tuple[str, dict[str, str], bytes]] = []
        self.in_flight = self.most = self.connections = 0
        self.area = 0.0
        self._at = time.monotonic()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def paths(self) -> Counter[str]:
        return Counter(path for path, _, _ in self.requests)

    def _count(self, by: int) -> None:
        now = time.monotonic()
        self.area += self.in_flight * (now - self._at)
        self._at = now
        self.in_flight += by
        self.most = max(self.most, self.in_flight)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
                fields = {n.lower(): v.strip() for n, _, v in (line.partition(":") for line in head[1:] if line)}
                body = await reader.readexactly(int(fields.get("content-length", 0)))
                path = head[0].split(" ")[1]
                self.requests.append((path, fields, body))
                self._count(1)
                try:
                    await self._answer(path, writer)
                finally:
                    self._count(-1)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    async def _answer(self, path: str, writer: asyncio.StreamWriter) -> None:
        name = path.strip("/").partition("/")[0].partition("?")[0]
        await asyncio.sleep(self.delay_s)
        status, body, more = b"200 OK", ANSWER, b""
        if name == "hang":
            await asyncio.sleep(60)
        elif name == "reset":
            writer.get_extra_info("socket").setsockopt(1, 13, struct.pack("ii", 1, 0))  # SO_LINGER: a RST
            writer.transport.abort()
            raise ConnectionResetError
        elif name == "half":
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n" + body)
            await writer.drain()
            raise ConnectionResetError
        elif name == "broken":
            status = b"503 Service Unavailable"
        elif name == "sorry":
            body = b'{"error":"overloaded"}'
        elif name == "big":
            body = b'{"answer":"' + b"x" * 100_000 + b'"}'
        elif name == "close":
            more = b"Connection: close\r\n"
        elif name == "garbage":
            writer.write(b"HTTP/9.9 what\r\n\r\n")
            return
        elif name == "chunks":
            writer.write(b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
            for at in range(0, len(body), 7):
                writer.write(b"%x\r\n%b\r\n" % (len(body[at : at + 7]), body[at : at + 7]))
                await asyncio.sleep(0.001)
            writer.write(b"0\r\n\r\n")
            return
        writer.write(b"HTTP/1.1 %b\r\nContent-Length: %d\r\n%b\r\n" % (status, len(body), more) + body)
        await writer.drain()
        if name == "close":
            raise ConnectionResetError


@contextlib.asynccontextmanager
async def agent(tls: ssl.SSLContext | None = None) -> AsyncIterator[Agent]:
    """An agent on a port of its own."""
    seen = Agent()
    server = await asyncio.start_server(seen.serve, "127.0.0.1", 0, backlog=4096, ssl=tls)
    seen.port = server.sockets[0].getsockname()[1]
    try:
        yield seen
    finally:
        server.close()


@contextlib.asynccontextmanager
async def socket_agent(talk: Callable[[Any], Awaitable[None]]) -> AsyncIterator[int]:
    """A WebSocket server by somebody else, on a port of its own."""

    async def handler(connection: Any) -> None:
        with contextlib.suppress(websockets.ConnectionClosed):
            await talk(connection)

    async with serve_ws(handler, "127.0.0.1", 0) as server:
        yield next(iter(server.sockets)).getsockname()[1]


def missions_text(*paths: str, **more: Any) -> str:
    """A file with one flow a path."""
    flows = [
        {
            "name": path.strip("/"),
            "steps": [{"path": path, "json": {"user": "{{ user }}"}, "expect": {"pointer": "/answer"}}],
        }
        for path in paths
    ]
    return json.dumps({"kind": "missions", "data": {"user": {"make": "uuid"}}, "flows": flows, **more})


class Drive:
    """A driver, and what it wrote."""

    def __init__(self, folder: Path, settings: Settings, driver: Driver) -> None:
        self.folder = folder
        self.settings = settings
        self.driver = driver

    def rows(self, event: str | None = None) -> list[dict[str, Any]]:
        lines = (self.folder / "events" / "missions.jsonl").read_bytes().splitlines()
        found = [json.loads(line) for line in lines if line.endswith(b"}")]  # a full disk tears one
        return [row for row in found if event is None or row["event"] == event]

    @property
    def log(self) -> str:
        return (self.folder / "log").read_text()

    async def until(self, done: Callable[[dict[str, Any]], bool], within_s: float = 20.0) -> dict[str, Any]:
        """Wait for a state."""
        async with asyncio.timeout(within_s):
            while not done(state := await self.driver.state()):
                await asyncio.sleep(0.02)
        return state

    async def finish(self) -> int:
        await self.driver.no_more()
        async with asyncio.timeout(40):
            return await self.driver.wait()


@contextlib.asynccontextmanager
async def driving(
    tmp_path: Path, load: Load, *, url: str, name: str = "run", env: dict[str, str] | None = None, **more: Any
) -> AsyncIterator[Drive]:
    """A driver that is ready and has not begun; the load's file lies in `tmp_path`. `more`: of the section, or `prepare`."""
    folder = tmp_path / name
    (folder / "events").mkdir(parents=True)
    of_section = {key: more.pop(key) for key in list(more) if key in Missions.__struct_fields__}
    understood = read_loads(Missions(loads=(load,), **of_section), tmp_path, place="plan.yaml")
    settings = prepare(
        understood,
        folder,
        url=url,
        seed=more.pop("seed", 1),
        run="20261201T000000Z-ab12",
        mono0_ns=time.monotonic_ns(),
        control=tmp_path / "c.sock",
        longest_s=more.pop("longest_s", 60),
        **more,
    )
    settings = msgspec.structs.replace(settings, owner_pid=os.getpid())
    driver = Driver(settings, log=folder / "log", env={**os.environ, **(env or {})})
    await driver.start()
    try:
        yield Drive(folder, settings, driver)
    finally:
        await driver.quit(within_s=4)
