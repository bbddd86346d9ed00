"""Real sockets for the proxy's tests: an origin that answers as it is told, a client that reads bytes, a proxy process.

The reading here is written apart from the product's, on blocking sockets, so that both cannot be wrong in one way.
"""

import asyncio
import contextlib
import json
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from drillmaster.errors import Problem
from drillmaster.proxy.remote import ask
from drillmaster.standins.provider import Latency
from drillmaster.standins.provider_http import Provider

WAIT_S = 10.0

HOP = {b"connection", b"keep-alive", b"te", b"transfer-encoding", b"upgrade", b"proxy-connection", b"trailer"}


@dataclass
class Message:
    """One message as it was read."""

    first: bytes
    fields: list[tuple[bytes, bytes]]
    body: bytes = b""
    trailers: bytes = b""
    raw: bytes = b""
    interims: list[int] = field(default_factory=list)
    whole: bool = True

    def field(self, name: bytes) -> bytes | None:
        return next((value for key, value in self.fields if key.lower() == name), None)

    @property
    def status(self) -> int:
        return int(self.first.split(b" ")[1])

    @property
    def end_to_end(self) -> list[tuple[bytes, bytes]]:
        return [(key, value) for key, value in self.fields if key.lower() not in HOP]


class Reader:
    """Reads messages off a blocking socket."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self.buf = b""

    def more(self) -> bool:
        data = self.sock.recv(65_536)
        self.buf += data
        return bool(data)

    def until(self, mark: bytes) -> bytes | None:
        while mark not in self.buf:
            if not self.more():
                return None
        got, _, self.buf = self.buf.partition(mark)
        return got

    def exactly(self, count: int) -> bytes:
        parts, have = [self.buf], len(self.buf)
        while have < count and (data := self.sock.recv(262_144)):
            parts.append(data)
            have += len(data)
        whole = b"".join(parts)
        self.buf = whole[count:]
        return whole[:count]

    def head(self) -> Message | None:
        head = self.until(b"\r\n\r\n")
        if head is None:
            return None
        first, *lines = head.split(b"\r\n")
        fields = []
        for line in lines:
            name, _, value = line.partition(b":")
            fields.append((name, value.strip()))
        return Message(first, fields)

    def chunked(self, message: Message) -> None:
        while True:
            line = self.until(b"\r\n")
            if line is None:
                message.whole = False
                return
            size = int(line.split(b";")[0], 16)
            if size:
                got = self.exactly(size + 2)
                message.body += got[:size]
                if len(got) < size + 2:
                    message.whole = False
                    return
                continue
            while line := self.until(b"\r\n"):
                message.trailers += line + b"\n"
            return

    def body(self, message: Message, *, to_the_end: bool) -> None:
        length = message.field(b"content-length")
        if (message.field(b"transfer-encoding") or b"").lower() == b"chunked":
            self.chunked(message)
        elif length is not None:
            message.body = self.exactly(int(length))
            message.whole = len(message.body) == int(length)
        elif to_the_end:
            while self.more():
                pass
            message.body, self.buf = self.buf, b""

    def request(self, *, on_expect: Callable[[], bool] = lambda: True) -> Message | None:
        message = self.head()
        if message is not None and (message.field(b"expect") is None or on_expect()):
            self.body(message, to_the_end=False)
        return message

    def answer(self, method: str = "GET") -> Message | None:
        interims = []
        while True:
            message = self.head()
            if message is None:
                return None
            if message.status >= 200 or message.status == 101:
                break
            interims.append(message.status)
        message.interims = interims
        if method != "HEAD" and message.status not in (101, 204, 304):
            self.body(message, to_the_end=True)
        return message


class Origin:
    """A server whose every connection is handled by `handle(reader, sock)` in a thread of its own."""

    def __init__(
        self, handle: Callable[[Reader, socket.socket], None], *, tls: Any = None, host: str = "127.0.0.1"
    ) -> None:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self.listener = socket.create_server((host, 0), backlog=256, family=family)
        self.port = self.listener.getsockname()[1]
        self.connections = 0
        self.problems: list[BaseException] = []
        self._handle = handle
        self._tls = tls
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def url(self) -> str:
        return f"{'https' if self._tls else 'http'}://{'localhost' if self._tls else '127.0.0.1'}:{self.port}"

    def _accept(self) -> None:
        while True:
            try:
                sock, _ = self.listener.accept()
            except OSError:
                return
            self.connections += 1
            threading.Thread(target=self._one, args=(sock,), daemon=True).start()

    def _one(self, sock: socket.socket) -> None:
        sock.settimeout(30)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        try:
            if self._tls is not None:
                sock = self._tls.wrap_socket(sock, server_side=True)
            with sock:
                self._handle(Reader(sock), sock)
        except OSError:
            pass  # the peer left; what that means is the test's to see on the other side
        except Exception as problem:
            self.problems.append(problem)

    def close(self) -> None:
        # A thread that waits in `accept` outlives the close, and its number may be another origin's by then: wake it.
        with contextlib.suppress(OSError):
            self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()


CHAT = b'{"id":"c","object":"chat.completion","choices":[{"index":0,"message":{"role":"assistant","content":"hi"},'
CHAT += b'"finish_reason":"stop"}],"usage":{"prompt_tokens":1,"completion_tokens":1,"total_tokens":2}}'


def plain_answer(reader: Reader, sock: socket.socket) -> None:
    """Answer each request with a chat completion, kept alive."""
    while reader.request() is not None:
        sock.sendall(
            b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%b" % (len(CHAT), CHAT)
        )


class ProxyProcess:
    """One `python -m drillmaster.proxy`."""

    def __init__(self, folder: Path, *, preexec: Callable[[], None] | None = None, **settings: Any) -> None:
        self.events = folder / "proxy.jsonl"
        self.control = settings.get("control_path") or str(folder / "c.sock")
        self.stderr = folder / "stderr.txt"
        settings = {"port": 0, "control_path": self.control, "events": str(self.events), **settings}
        with self.stderr.open("wb") as stderr:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "drillmaster.proxy", json.dumps(settings)],
                stdout=subprocess.DEVNULL,
                stderr=stderr,
                preexec_fn=preexec,
                pass_fds=[settings["listen_fd"]] if "listen_fd" in settings else [],
            )
        give_up = time.monotonic() + WAIT_S
        while True:
            try:
                listen = self.state()["listen"]
                break
            except Problem:
                if time.monotonic() > give_up or self.process.poll() is not None:
                    raise RuntimeError(self.stderr.read_text()) from None
                time.sleep(0.02)
        self.port = int(listen.rpartition(":")[2])
        self.url = f"http://127.0.0.1:{self.port}"

    def ask(self, method: str, path: str, content: dict[str, Any] | None = None) -> dict[str, Any]:
        return ask(self.control, method, path, content)

    def state(self) -> dict[str, Any]:
        return self.ask("GET", "/state")

    def inject(self, fault: str, window: str = "w1", *, ttl_s: float = 30, linger_s: float = 0, **params: Any) -> None:
        order = {"window": window, "fault": fault, "params": params, "ttl_s": ttl_s, "linger_s": linger_s}
        self.ask("POST", "/inject", order)

    def lift(self, window: str = "w1") -> None:
        self.ask("POST", "/lift", {"window": window})

    def connect(self) -> socket.socket:
        sock = socket.create_connection(("127.0.0.1", self.port), WAIT_S)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return sock

    def rows(self, event: str | None = None) -> list[dict[str, Any]]:
        rows = [json.loads(line) for line in self.events.read_bytes().splitlines() if line]
        return [row for row in rows if event in (None, row["event"])]

    def wait_rows(self, event: str, count: int = 1) -> list[dict[str, Any]]:
        give_up = time.monotonic() + WAIT_S
        while len(rows := self.rows(event)) < count and time.monotonic() < give_up:
            time.sleep(0.01)
        assert len(rows) >= count, f"{len(rows)} lines {event}, wanted {count}"
        return rows

    def until(self, holds: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        give_up = time.monotonic() + WAIT_S
        while not holds(state := self.state()):
            assert time.monotonic() < give_up, state
            time.sleep(0.01)
        return state

    def stop(self) -> int:
        if self.process.poll() is None:
            self.process.terminate()
        try:
            return self.process.wait(WAIT_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            raise

    def descriptors(self) -> int:
        return sum(1 for _ in Path(f"/proc/{self.process.pid}/fd").iterdir())


@contextlib.contextmanager
def proxy(folder: Path, **settings: Any) -> Iterator[ProxyProcess]:
    one = ProxyProcess(folder, **settings)
    try:
        yield one
    finally:
        one.stop()


@contextlib.contextmanager
def injections(ours: ProxyProcess) -> Iterator[Callable[..., str]]:
    """What injects a fault and gives its window; all of them are lifted in the end."""
    windows: list[str] = []

    def put(tag: str, **params: Any) -> str:
        windows.append(f"{tag}-{time.monotonic_ns()}")
        ours.inject(tag, windows[-1], **params)
        return windows[-1]

    try:
        yield put
    finally:
        for window in windows:
            ours.lift(window)


@contextlib.contextmanager
def standin() -> Iterator[str]:
    """A stand-in provider in a thread of its own, which answers at once; its URL."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    provider = Provider(Latency(median_ms=0, token_ms=0, seed=1))
    server = asyncio.run_coroutine_threadsafe(provider.start("127.0.0.1", 0), loop).result(5)

    async def close() -> None:
        server.close()
        await provider.drop()

    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        asyncio.run_coroutine_threadsafe(close(), loop).result(5)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(5)
        loop.close()


def post(body: bytes = b"{}", *fields: bytes, path: bytes = b"/v1/chat/completions") -> bytes:
    lines = [b"POST " + path + b" HTTP/1.1", b"Host: x", b"Content-Length: %d" % len(body), *fields]
    return b"\r\n".join(lines) + b"\r\n\r\n" + body
