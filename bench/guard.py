"""What a decision costs over loopback: `python bench/guard.py [--requests 20000] [--rounds 3] [--connections 16]`.

`guard serve` beside a bare echo on the same server (`adapters.worker.serving`), each a process of its own: a guard without a store,
and where there is a Redis the quota on it, in one EVALSHA. Clients are raw sockets that keep alive, turn by turn. CPU is read from
/proc/PID/stat around each run, rounds are interleaved, medians are printed. In the process: the guard's step alone, the reading of
its facts, and what writing one line adds. Exits 1 where a decision without a store takes more than `BAR` times the echo's CPU.
"""

import argparse
import asyncio
import contextlib
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

BAR = 3.0
TICK_S = 1 / os.sysconf("SC_CLK_TCK")
EVENT = {
    "path_known": True,
    "method": "POST",
    "complete": True,
    "signature": "matched",
    "document": "usable",
    "stored": "new",
}
CALL = {"partner": "ledger", "identity": "acct-7"}
GUARDS = {
    "kind": "guards", "version": 1, "source": "bench-runbook", "owner": "bench", "reviewers": ["bench"], "review_by": "2099-02-28",
    "guards": [
        {"guard": "webhook", "scheme": "github", "max_body_bytes": 1000, "read_within_ms": 1000},
        {
            "guard": "quota", "partner": "ledger", "identity": "acct-7", "window_ms": 1000, "max_per_window": 90_000_000,
            "burst": 90_000_000,
        },
    ],
}  # fmt: skip  # a file
ECHO = """
import asyncio, sys
from drillmaster.adapters.worker.serving import Reply, Server, listen

async def main():
    sock, name = listen("127.0.0.1:0")
    server = Server(lambda asked: Reply(200, asked.body), lambda status, why: Reply(status, why.encode()))
    await server.start(sock)
    print(f"echo listening on {name}", flush=True)
    await asyncio.Event().wait()

asyncio.run(main())
"""


@contextlib.contextmanager
def program(*words: str, cwd: Path) -> Iterator[tuple[int, int]]:
    """Start a server; its process and its port."""
    process = subprocess.Popen([sys.executable, *words], stdout=subprocess.PIPE, text=True, cwd=cwd)
    try:
        assert process.stdout is not None
        yield process.pid, int(process.stdout.readline().rpartition(":")[2])
    finally:
        process.kill()
        process.communicate()


@contextlib.contextmanager
def redis(folder: Path) -> Iterator[str | None]:
    """Lend a Redis on a socket file; None where there is none here."""
    found = shutil.which("redis-server")
    if found is None:
        yield None
        return
    sock = folder / "r.sock"
    words = [found, "--port", "0", "--unixsocket", str(sock), "--save", "", "--dir", str(folder)]
    process = subprocess.Popen(words, stdout=subprocess.DEVNULL)
    try:
        from drillmaster.errors import Problem
        from drillmaster.stores.opening import open_store

        with contextlib.closing(open_store(f"unix://{sock}")) as store:
            for _ in range(200):
                try:
                    store.prepare()
                    break
                except Problem:
                    time.sleep(0.02)
        yield f"unix://{sock}"
    finally:
        process.terminate()
        process.wait(10)


def cpu_s(pid: int) -> float:
    """Read what a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()
    return (int(fields[11]) + int(fields[12])) * TICK_S


async def ask(port: int, path: str, body: bytes, count: int, connections: int) -> list[float]:
    """Ask so often over so many connections; seconds of each."""
    head = f"POST {path} HTTP/1.1\r\nhost: l\r\ncontent-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"
    data, took = head.encode() + body, []

    async def one() -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        for _ in range(count // connections):
            began = time.perf_counter()
            writer.write(data)
            answer = await reader.readuntil(b"\r\n\r\n")
            assert answer.startswith(b"HTTP/1.1 200 "), answer
            await reader.readexactly(int(answer.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0]))
            took.append(time.perf_counter() - began)
        writer.close()

    await asyncio.gather(*(one() for _ in range(connections)))
    return took


def measured(pid: int, port: int, path: str, facts: object, count: int, connections: int) -> tuple[float, float]:
    """CPU of the server a request, and the median of one connection's answers; µs."""
    body = json.dumps(facts).encode()
    before = cpu_s(pid)
    asyncio.run(ask(port, path, body, count, connections))
    each_us = (cpu_s(pid) - before) / count * 1e6
    alone = asyncio.run(ask(port, path, body, min(2_000, count), 1))
    return each_us, statistics.median(alone) * 1e6


def inside(folder: Path) -> None:
    """Say what the parts cost without a socket."""
    from drillmaster.adapters.worker.guarding import Guarding
    from drillmaster.adapters.worker.recording import Recorder
    from drillmaster.intake.guards_files import kind_of, read_facts

    kind = kind_of("webhook")
    body = json.dumps(EVENT).encode()
    facts = read_facts(body, kind, place="facts")
    silent = Guarding(folder / "guards.json", recorder=Recorder())
    writes = Guarding(folder / "guards.json", recorder=Recorder(folder / "lines.jsonl"))
    guard = silent.guards.entries["webhook"]
    parts: dict[str, Callable[[], object]] = {
        "the guard's step": lambda: guard.step(None, facts, 1),
        "reading its facts": lambda: read_facts(body, kind, place="facts"),
        "decide, counted": lambda: silent.decide("webhook", facts),
        "decide, counted and written": lambda: writes.decide("webhook", facts),
    }
    for said, call in parts.items():
        began = time.process_time()
        for _ in range(20_000):
            call()
        print(f"{said:32} {(time.process_time() - began) / 20_000 * 1e6:6.2f} us CPU")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--requests", type=int, default=20_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--connections", type=int, default=16)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="bench-guard-") as name:
        folder = Path(name)
        (folder / "guards.json").write_text(json.dumps(GUARDS))
        inside(folder)
        serve = ("-m", "drillmaster", "guard", "serve", "--guards", "guards.json", "--listen", "127.0.0.1:0")
        with contextlib.ExitStack() as stack:
            url = stack.enter_context(redis(folder))
            where = ("--store", url or "sqlite:none.db")
            echo = stack.enter_context(program("-c", ECHO, cwd=folder))
            counts = stack.enter_context(program(*serve, *where, "--allowed-share", "0", cwd=folder))
            writes = stack.enter_context(program(*serve, *where, "--log", "served.jsonl", cwd=folder))
            rows = {
                "bare echo": (*echo, "/v1/webhook", EVENT),
                "decision, counted": (*counts, "/v1/webhook", EVENT),
                "decision, counted and written": (*writes, "/v1/webhook", EVENT),
            }
            if url is not None:
                rows["quota on Redis, counted"] = (*counts, "/v1/quota", CALL)
            found: dict[str, list[tuple[float, float]]] = {said: [] for said in rows}
            for _ in range(asked.rounds):
                for said, (pid, port, path, facts) in rows.items():
                    found[said].append(measured(pid, port, path, facts, asked.requests, asked.connections))
        medians = {
            said: [statistics.median(column) for column in zip(*each, strict=True)] for said, each in found.items()
        }
        base_p50 = medians["bare echo"][1]
        ratios = {
            said: statistics.median(a[0] / b[0] for a, b in zip(each, found["bare echo"], strict=True))
            for said, each in found.items()
        }
        for said, (each_us, p50) in medians.items():
            print(f"{said:32} {each_us:6.1f} us CPU   {ratios[said]:4.2f}x   p50 {p50:6.1f} us, {p50 - base_p50:+6.1f}")
        ratio = ratios["decision, counted"]
        print(f"a decision without a store: {ratio:.2f} times the echo (bar: {BAR})")
        return int(ratio > BAR)


if __name__ == "__main__":
    sys.exit(main())
