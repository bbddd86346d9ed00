"""A server of known law: each request is answered after one fixed time, and what it truly took is written down at the end.

`python -m drillmaster.load.origin LAW_MS TRUTH`: prints its port, serves until standard input ends, and leaves in TRUTH when
each request was read and answered, as pairs of CLOCK_MONOTONIC in ns. It reads no more of HTTP than it has to.
"""

import asyncio
import sys
import time
from array import array
from pathlib import Path

__all__ = ["main"]

_ANSWER = b'HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 16\r\n\r\n{"text":"hello"}'


class _Origin(asyncio.Protocol):
    def __init__(self, law_s: float, truth: "array[int]") -> None:
        self._law_s = law_s
        self._truth = truth
        self._loop = asyncio.get_running_loop()
        self._data = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._data += data
        head_end = self._data.find(b"\r\n\r\n")
        if head_end < 0:
            return
        head = self._data[:head_end].lower()
        at = head.find(b"content-length:")
        length = 0 if at < 0 else int(head[at + 15 :].split(b"\r\n", 1)[0])
        if len(self._data) >= head_end + 4 + length:
            self._data = self._data[head_end + 4 + length :]
            self._loop.call_later(self._law_s, self._answer, time.monotonic_ns())

    def _answer(self, read_ns: int) -> None:
        self._transport.write(_ANSWER)
        self._truth.extend((read_ns, time.monotonic_ns()))


async def _serve(law_s: float, truth: "array[int]") -> None:
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: _Origin(law_s, truth), "127.0.0.1", 0, backlog=4096)
    print(server.sockets[0].getsockname()[1], flush=True)
    over = asyncio.Event()
    loop.add_reader(sys.stdin.fileno(), over.set)
    await over.wait()
    server.close()


def main(argv: list[str]) -> None:
    from drillmaster.proxy.means import raise_descriptors

    raise_descriptors()
    truth = array("q")
    asyncio.run(_serve(float(argv[0]) / 1e3, truth))
    Path(argv[1]).write_bytes(truth.tobytes())


if __name__ == "__main__":
    main(sys.argv[1:])
