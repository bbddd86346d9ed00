"""Many streams at once: an origin that speaks so many events a second to each, and a client that reads them all.

Each is one process with one epoll and no thread per stream; events carry the origin's send time on CLOCK_MONOTONIC, which
all processes of a machine share. `python -m tests.e2e.streamlab origin|client JSON` is one of them; `many` runs the set.

An origin that is given a certificate speaks TLS; one that is given a file leaves there, at its end, when it sent each word of
each stream, by the number that the stream's request names: `-1` for a word that was not sent.
"""

import heapq
import json
import os
import random
import re
import select
import socket
import ssl
import subprocess
import sys
import time
from array import array
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.e2e.wirelab import ProxyProcess, proxy

__all__ = ["RULES", "Read", "Result", "many"]

# Each stream gets a fault of its own: what the lots leave over, the last rule takes.
RULES: tuple[dict[str, Any], ...] = (
    {"name": "stall", "mode": "stall", "params": {"after_events": 4}, "share": 0.1},
    {"name": "ping", "mode": "ping-stall", "params": {"after_events": 4, "every_ms": 500}, "share": 0.1},
    {"name": "cut", "mode": "cut-stream", "params": {"after_events": 5}, "share": 0.1},
    {"name": "clean", "mode": "clean-end", "params": {"after_events": 5}, "share": 0.1},
    {"name": "rst", "mode": "reset-stream", "params": {"after_events": 5}, "share": 0.1},
    {"name": "error", "mode": "error-event", "params": {"after_events": 5}, "share": 0.1},
    {"name": "twice", "mode": "duplicate-events", "params": {"every": 2}, "share": 0.2},
    {"name": "split", "mode": "split-utf8", "params": {"bytes": 64}, "share": 0.2},
    {"name": "last", "mode": "missing-terminal", "share": 0.3},
    {"name": "slow", "mode": "slow-tokens", "params": {"per_s": 200}},
)
_NUMBER = re.compile(rb"stream ([0-9]+)")
_STAMP = re.compile(rb'"content":"t([0-9]+) ')
_DATA = (
    b'data: {"id":"c","object":"chat.completion.chunk","choices":[{"index":0,"delta":{"content":"t%d word %d "}}]}\n\n'
)
_STOP = (
    b'data: {"id":"c","object":"chat.completion.chunk","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\n'
)
_DONE = b"data: [DONE]\n\n"
_HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"


def _chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


def origin(per_s: float, events: int, truth: str = "", cert: str = "", key: str = "") -> None:
    """Serve until standard input ends. Prints its port first."""
    context = None
    if cert:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(cert, key)
    sent: dict[int, array[int]] = {}
    numbers: dict[int, array[int]] = {}
    listener = socket.create_server(("127.0.0.1", 0), backlog=4_096)
    listener.setblocking(False)
    poll = select.epoll()
    poll.register(listener, select.EPOLLIN)
    poll.register(sys.stdin, select.EPOLLIN)
    print(listener.getsockname()[1], flush=True)
    socks: dict[int, socket.socket] = {}
    due: list[tuple[float, int, socket.socket, int]] = []
    order = 0
    rng = random.Random(1)
    while True:
        wait = max(0.0, due[0][0] - time.monotonic()) if due else 1.0
        for fd, _ in poll.poll(wait):
            if fd == listener.fileno():
                while True:
                    try:
                        sock, _ = listener.accept()
                    except BlockingIOError:
                        break
                    sock.setblocking(False)
                    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                    if context is not None:  # the first reads shake hands
                        sock = context.wrap_socket(sock, server_side=True, do_handshake_on_connect=False)
                    socks[sock.fileno()] = sock
                    poll.register(sock, select.EPOLLIN)
                continue
            if fd == sys.stdin.fileno():
                if truth:
                    Path(truth).write_bytes(b"".join(sent[number].tobytes() for number in sorted(sent)))
                return
            sock = socks[fd]
            try:
                data = sock.recv(65_536)
            except ssl.SSLWantReadError:
                continue
            except OSError:
                data = b""
            if not data:
                socks.pop(fd).close()
            elif data.endswith(b"}"):  # the end of a request, which comes in one piece here
                sock.send(_HEAD)
                order += 1
                if truth:
                    asked = _NUMBER.search(data)
                    assert asked is not None
                    numbers[fd] = sent[int(asked[1])] = array("q", [-1]) * events
                heapq.heappush(due, (time.monotonic() + rng.random() / per_s, order, sock, 0))
        now = time.monotonic()
        while due and due[0][0] <= now:
            at, _, sock, number = heapq.heappop(due)
            if sock.fileno() < 0:
                continue
            try:
                if number < events:
                    now_ns = time.monotonic_ns()
                    if truth:
                        numbers[sock.fileno()][number] = now_ns
                    sock.send(_chunk(_DATA % (now_ns, number)))
                    order += 1
                    heapq.heappush(due, (at + 1 / per_s, order, sock, number + 1))
                else:
                    sock.send(_chunk(_STOP) + _chunk(_DONE) + b"0\r\n\r\n")
            except OSError:
                socks.pop(sock.fileno()).close()


@dataclass
class Read:
    """What one stream gave its client."""

    stream: int
    words: int = 0
    done: bool = False
    stopped: bool = False
    end: str = ""
    """`end` (framing whole), `fin`, `rst`, or empty: open to the last."""
    head: bytes = b""
    sock: Any = None
    lags_ns: list[int] = field(default_factory=list)


def client(port: int, streams: int, seconds: float, order_seed: int, ramp_s: float) -> None:
    """Open all streams within `ramp_s`, read for `seconds` more, print one JSON document."""
    order = list(range(streams))
    random.Random(order_seed).shuffle(order)
    poll = select.epoll()
    by_fd: dict[int, Read] = {}
    reads: list[Read] = []
    begun = time.monotonic()
    opened = 0
    while True:
        now = time.monotonic()
        while opened < streams and now - begun >= opened / streams * ramp_s:
            number = order[opened]
            sock = socket.create_connection(("127.0.0.1", port), 10)
            body = b'{"model":"m","stream":true,"messages":[{"role":"user","content":"stream %d"}]}' % number
            sock.sendall(
                b"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
                b"traceparent: 00-%032x-%016x-01\r\nContent-Length: %d\r\n\r\n%b" % (number + 1, 1, len(body), body)
            )
            sock.setblocking(False)
            by_fd[sock.fileno()] = one = Read(number, sock=sock)
            reads.append(one)
            poll.register(sock, select.EPOLLIN)
            opened += 1
            now = time.monotonic()
        if now - begun > ramp_s + seconds:
            break
        for fd, _ in poll.poll(0.001 if opened < streams else 0.05):
            one = by_fd[fd]
            try:
                data = one.sock.recv(65_536)
            except ConnectionResetError:
                one.end, data = "rst", b""
            except BlockingIOError:
                continue
            if not data:
                one.end = one.end or "fin"
                one.sock.close()
                continue
            at = time.monotonic_ns()
            seen = one.head + data
            for match in _STAMP.finditer(seen):
                one.words += 1
                one.lags_ns.append(at - int(match[1]))
            one.done = one.done or b"[DONE]" in seen
            one.stopped = one.stopped or b'"stop"' in seen
            if seen.endswith(b"0\r\n\r\n"):
                one.end = "end"
                one.sock.close()
                continue
            cut = max(seen.rfind(b"\n\n") + 2, len(seen) - 4_096) if b"\n\n" in seen else max(0, len(seen) - 4_096)
            one.head = seen[cut:]
    rows = [[r.stream, r.words, r.done, r.stopped, r.end] for r in reads]
    lags = sorted(lag for r in reads for lag in r.lags_ns)
    print(json.dumps({"rows": rows, "lags_ns": lags[:: max(1, len(lags) // 20_000)], "words": len(lags)}), flush=True)


@dataclass
class Result:
    """One run of the set."""

    reads: dict[int, Read]
    fates: dict[int, tuple[str, ...]]
    """Stream to the rules that acted on it, by the evidence."""
    lags_ms: list[float]
    """A sample of the words', sorted."""
    cpu_s: float
    """Of the proxy, over the seconds all streams were open."""
    wall_s: float
    rss_mb: tuple[float, float]
    """Of the proxy: when all streams stood, and at the end."""
    words: int

    def lag_ms(self, share: float) -> float:
        return self.lags_ms[min(len(self.lags_ms) - 1, int(share * len(self.lags_ms)))]


def _rss_mb(pid: int) -> float:
    text = Path(f"/proc/{pid}/status").read_text()
    found = re.search(r"VmRSS:\s+(\d+) kB", text)
    assert found is not None
    return int(found[1]) / 1024


def _cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def many(
    folder: Path,
    *,
    streams: int,
    per_s: float,
    events: int,
    seed: int = 7,
    order_seed: int = 0,
    ramp_s: float = 3.0,
    rules: tuple[dict[str, Any], ...] = RULES,
) -> Result:
    """Run all three once. `rules` empty: no fault at all."""
    here = [sys.executable, "-m", "tests.e2e.streamlab"]
    source = subprocess.Popen(
        [*here, "origin", json.dumps([per_s, events])], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert source.stdout is not None
    assert source.stdin is not None
    seconds = events / per_s + 5.0
    try:
        port = int(source.stdout.readline())
        with proxy(folder, upstream=f"http://127.0.0.1:{port}", seed=seed) as ours:
            _pin(ours)
            if rules:
                ours.ask("POST", "/inject", {"window": "w1", "rules": list(rules), "ttl_s": ramp_s + seconds + 60})
            reader = subprocess.Popen(
                [*here, "client", json.dumps([ours.port, streams, seconds, order_seed, ramp_s])],
                stdout=subprocess.PIPE,
                text=True,
            )
            try:
                time.sleep(ramp_s + 0.5)
                pid = ours.process.pid
                cpu_s, begun, rss = _cpu_s(pid), time.monotonic(), _rss_mb(pid)
                time.sleep(max(0.1, events / per_s - ramp_s - 0.5))
                cpu_s, wall_s, rss_end = _cpu_s(pid) - cpu_s, time.monotonic() - begun, _rss_mb(pid)
                out = json.loads(reader.communicate(timeout=seconds + 60)[0])
            finally:
                if reader.poll() is None:
                    reader.kill()
                    reader.wait()
            ours.until(lambda state: state["counts"]["in_flight"] == 0)
            fates: dict[int, tuple[str, ...]] = {}
            for row in ours.rows("fault_met"):
                number = int(row["trace"], 16) - 1
                fates[number] = (*fates.get(number, ()), row["rule"])
    finally:
        source.stdin.close()
        source.stdout.close()
        source.wait(10)
    reads = {row[0]: Read(*row) for row in out["rows"]}
    return Result(
        reads=reads,
        fates=fates,
        lags_ms=[ns / 1e6 for ns in out["lags_ns"]],
        cpu_s=cpu_s,
        wall_s=wall_s,
        rss_mb=(rss, rss_end),
        words=out["words"],
    )


def _pin(ours: ProxyProcess) -> None:
    """Hold the proxy to one core."""
    cores = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(ours.process.pid, {cores[-1]})


if __name__ == "__main__":
    {"origin": origin, "client": client}[sys.argv[1]](*json.loads(sys.argv[2]))
