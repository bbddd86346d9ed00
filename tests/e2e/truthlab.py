"""A server that writes down what it truly saw: which call, when it had been read, when it was answered.

`python -m tests.e2e.truthlab HOST LAW_MS TRUTH`: prints its port, serves until standard input ends, and leaves in TRUTH one
line of JSON a request, `[number, read_ns, answered_ns, peer, authorization]`. Calls are told apart by `#N#` in their body.
"""

import asyncio
import contextlib
import json
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from drillmaster.stats import quantile
from drillmaster.verdict import Exact

NUMBER = re.compile(rb"#([0-9]+)#")
KEY = re.compile(rb"(?im)^authorization: *(.+?)\r$")
ANSWER = b'HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 16\r\n\r\n{"text":"hello"}'


class _Law(asyncio.Protocol):
    def __init__(self, law_s: float, truth: list[list[Any]]) -> None:
        self._law_s = law_s
        self._truth = truth
        self._data = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._peer = transport.get_extra_info("peername")[0]

    def data_received(self, data: bytes) -> None:
        self._data += data
        end = self._data.find(b"\r\n\r\n")
        if end < 0:
            return
        length = re.search(rb"(?i)content-length: *([0-9]+)", self._data[:end])
        size = int(length[1]) if length else 0
        if len(self._data) < end + 4 + size:
            return
        read_ns = time.monotonic_ns()
        head, body = self._data[: end + 2], self._data[end + 4 : end + 4 + size]
        self._data = self._data[end + 4 + size :]
        number, key = NUMBER.search(body), KEY.search(head)
        row = [int(number[1]) if number else -1, read_ns, 0, self._peer, key[1].decode() if key else None]
        asyncio.get_running_loop().call_later(self._law_s, self._answer, row)

    def _answer(self, row: list[Any]) -> None:
        row[2] = time.monotonic_ns()  # before: whoever is answered may be quicker than the next line
        self._truth.append(row)
        self._transport.write(ANSWER)


async def _serve(host: str, law_s: float, truth: list[list[Any]]) -> None:
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: _Law(law_s, truth), host, 0, backlog=1024)
    print(server.sockets[0].getsockname()[1], flush=True)
    over = asyncio.Event()
    loop.add_reader(sys.stdin.fileno(), over.set)
    await over.wait()
    server.close()


class Seen:
    """What the server saw; there when it has ended."""

    def __init__(self, url: str, file: Path) -> None:
        self.url = url
        self._file = file

    @property
    def rows(self) -> list[list[Any]]:
        return [json.loads(line) for line in self._file.read_text().splitlines()]

    def between(self, start_ns: int, end_ns: int) -> list[list[Any]]:
        return [row for row in self.rows if start_ns <= row[1] <= end_ns]


@contextlib.contextmanager
def truth_server(folder: Path, *, law_ms: float = 20, host: str = "127.0.0.1") -> Iterator[Seen]:
    file = folder / "truth"
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.e2e.truthlab", host, str(law_ms), str(file)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=Path(__file__).parents[2],
        start_new_session=True,
    )
    assert process.stdin is not None and process.stdout is not None
    port = process.stdout.readline().strip()
    try:
        yield Seen(f"http://{host}:{port}/v1/chat", file)
        process.stdin.close()
        process.wait(20)
    finally:
        process.kill()
        process.communicate() if not process.stdin.closed else process.wait()
        process.stdout.close()


def at(values: list[float], q: float) -> float:
    measure = quantile(values, q)
    assert isinstance(measure, Exact)
    return measure.value


if __name__ == "__main__":
    _truth: list[list[Any]] = []
    asyncio.run(_serve(sys.argv[1], float(sys.argv[2]) / 1e3, _truth))
    Path(sys.argv[3]).write_text("".join(json.dumps(row) + "\n" for row in _truth))
