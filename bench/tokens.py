"""An origin of tokens, with a truth of its own: so many streams, each of so many tokens a second, as one process.

It speaks OpenAI's chat API. A stream's role comes at once, its first token 200 to 220 ms after it was asked, the others 20 ms
apart; each carries the time on CLOCK_MONOTONIC at which it was sent. With `ends` other than `whole` every fourth answer ends at
its half: `cut` closes the connection within it, `unfinished` is a whole answer of HTTP without `finish_reason` and `[DONE]`.
What a socket does not take waits for it, and no stream waits for another. `python bench/tokens.py JSON` is one; see `origin`.
"""

import contextlib
import heapq
import itertools
import json
import random
import re
import select
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

from bench.proxy import on_core

PER_S = 50.0
FIRST_S = 0.2
"""And up to one token's time more: else all streams of a burst would speak at once, and one read would do for many."""
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
EVENT = b'data: {"id":"c%d","object":"chat.completion.chunk","created":1,"model":"m","choices":[%b]%b}\n\n'
CHOICE = b'{"index":0,"delta":%b,"logprobs":null,"finish_reason":%b}'
USAGE = b',"usage":{"prompt_tokens":2,"completion_tokens":%d,"total_tokens":%d}'
DONE = b"data: [DONE]\n\n"
OVER = b"0\r\n\r\n"
MODELS = b'{"object":"list","data":[{"id":"m","object":"model","created":1,"owned_by":"o"}]}'
"""What it says to whoever asks which models there are, or whether all is well."""


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


@dataclass
class Answer:
    """One stream, as the origin saw it."""

    number: int
    sock: socket.socket
    came_ns: int
    wants_usage: bool
    sent_ns: list[int] = field(default_factory=list)
    whole: bool = False
    over_ns: int = 0
    waits: bytes = b""
    """What the socket would not take yet."""

    def says(self, delta: bytes, reason: bytes = b"null") -> bytes:
        return chunk(EVENT % (self.number, CHOICE % (delta, reason), b""))

    def ends(self) -> bytes:
        n = len(self.sent_ns)
        usage = chunk(EVENT % (self.number, b"", USAGE % (n, n + 2))) if self.wants_usage else b""
        return self.says(b"{}", b'"stop"') + usage + chunk(DONE)


class Origin:
    def __init__(self, tokens: int, ends: str) -> None:
        self.tokens = tokens
        self.early = ends
        self.answers: list[Answer] = []
        self._poll = select.epoll()
        self._socks: dict[int, tuple[socket.socket, bytearray]] = {}
        self._speaks: dict[int, Answer] = {}
        self._due: list[tuple[float, int, Answer]] = []
        self._order = itertools.count()
        self._rng = random.Random(1)

    def serve(self) -> None:
        """Serve until standard input ends; prints its port first."""
        listener = socket.create_server(("127.0.0.1", 0), backlog=4_096)
        listener.setblocking(False)
        self._poll.register(listener, select.EPOLLIN)
        self._poll.register(sys.stdin, select.EPOLLIN)
        print(listener.getsockname()[1], flush=True)
        while True:
            wait_s = max(0.0, self._due[0][0] - time.monotonic()) if self._due else 1.0
            for fd, event in self._poll.poll(wait_s):
                if fd == sys.stdin.fileno():
                    return
                if fd == listener.fileno():
                    self._accept(listener)
                elif fd in self._socks:
                    try:
                        self._meet(fd, event)
                    except OSError:
                        self._drop(fd)
            self._speak()

    def _accept(self, listener: socket.socket) -> None:
        with contextlib.suppress(BlockingIOError):
            while True:
                sock, _ = listener.accept()
                sock.setblocking(False)
                sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                self._socks[sock.fileno()] = (sock, bytearray())
                self._poll.register(sock, select.EPOLLIN)

    def _meet(self, fd: int, event: int) -> None:
        sock, data = self._socks[fd]
        if event & select.EPOLLOUT:
            self._poll.modify(fd, select.EPOLLIN)
            answer = self._speaks[fd]
            waits, answer.waits = answer.waits, b""
            self._push(answer, waits)
        if not event & ~select.EPOLLOUT:
            return
        got = sock.recv(65_536)
        if not got:
            self._drop(fd)
            return
        data += got
        head_end = data.find(b"\r\n\r\n")
        if head_end < 0:
            return
        length = re.search(rb"(?i)\r\ncontent-length: *(\d+)", data[: head_end + 2])
        whole = head_end + 4 + (int(length[1]) if length else 0)
        if len(data) < whole:
            return
        if data.startswith(b"POST"):
            self._ask(fd, sock, bytes(data[head_end + 4 : whole]))
        else:
            head = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
            sock.send(head % len(MODELS) + MODELS)
        del data[:whole]

    def _ask(self, fd: int, sock: socket.socket, body: bytes) -> None:
        wants_usage = re.search(rb'"include_usage": ?true', body) is not None
        answer = Answer(len(self.answers), sock, time.monotonic_ns(), wants_usage)
        self.answers.append(answer)
        self._speaks[fd] = answer
        self._push(answer, HEAD + answer.says(b'{"role":"assistant","content":""}'))
        heapq.heappush(self._due, (time.monotonic() + FIRST_S + self._rng.random() / PER_S, next(self._order), answer))

    def _speak(self) -> None:
        """Say all that is due."""
        now = time.monotonic()
        while self._due and self._due[0][0] <= now:
            at, _, answer = heapq.heappop(self._due)
            fd = answer.sock.fileno()
            if fd < 0 or self._speaks.get(fd) is not answer:  # its client has gone
                answer.over_ns = time.monotonic_ns()
                continue
            try:
                if self._goes_on(answer):
                    heapq.heappush(self._due, (at + 1 / PER_S, next(self._order), answer))
            except OSError:
                answer.over_ns = time.monotonic_ns()
                self._drop(fd)

    def _goes_on(self, answer: Answer) -> bool:
        early = self.early != "whole" and answer.number % 4 == 3 and len(answer.sent_ns) >= self.tokens // 2
        if len(answer.sent_ns) < self.tokens and not early:
            now_ns = time.monotonic_ns()
            self._push(answer, answer.says(b'{"content":"t%d "}' % now_ns))
            answer.sent_ns.append(now_ns)
            return True
        answer.over_ns = time.monotonic_ns()
        if early and self.early == "cut":
            self._drop(answer.sock.fileno())
            return False
        answer.whole = not early
        self._push(answer, OVER if early else answer.ends() + OVER)
        return False

    def _push(self, answer: Answer, data: bytes) -> None:
        if answer.waits:
            answer.waits += data
            return
        try:
            sent = answer.sock.send(data)
        except BlockingIOError:
            sent = 0
        if sent < len(data):
            answer.waits = data[sent:]
            self._poll.modify(answer.sock.fileno(), select.EPOLLIN | select.EPOLLOUT)

    def _drop(self, fd: int) -> None:
        self._socks.pop(fd)[0].close()
        self._speaks.pop(fd, None)


@dataclass(frozen=True)
class Truth:
    """What the origin sent, answer by answer in the order they were asked for."""

    rows: list[tuple[int, int, bool, list[int]]]

    @property
    def tokens(self) -> int:
        return sum(len(sent) for *_, sent in self.rows)

    @property
    def broken(self) -> int:
        return sum(not whole for _, _, whole, _ in self.rows)

    @property
    def firsts_s(self) -> list[float]:
        return [(sent[0] - came) / 1e9 for came, _, _, sent in self.rows if sent]

    @property
    def gaps_s(self) -> list[float]:
        return [(b - a) / 1e9 for *_, sent in self.rows for a, b in itertools.pairwise(sent)]

    @property
    def span_ns(self) -> tuple[int, int]:
        """From the first request to the last word."""
        return self.rows[0][0], max(over for _, over, _, _ in self.rows)

    def after(self, skip: int) -> "Truth":
        return Truth(self.rows[skip:])


@contextlib.contextmanager
def origin(tokens: int, ends: str, log: Path) -> Iterator[int]:
    """Run one on core 0; its port. What it sent, and when, is in `log` once this is over."""
    process = subprocess.Popen(
        on_core(0, [sys.executable, __file__, json.dumps([tokens, ends, str(log)])]),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        yield int(process.stdout.readline())
    finally:
        process.stdin.close()
        process.stdout.close()
        process.wait(30)


def main(tokens: int, ends: str, log: str) -> None:
    one = Origin(tokens, ends)
    one.serve()
    rows = [[answer.came_ns, answer.over_ns, answer.whole, answer.sent_ns] for answer in one.answers]
    Path(log).write_text(json.dumps(rows))


if __name__ == "__main__":
    main(*json.loads(sys.argv[1]))
