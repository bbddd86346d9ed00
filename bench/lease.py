"""What a lease costs beside a lock without tokens: `python bench/lease.py [--pairs 4000]`.

Acquire and release, one after the other, on one Redis of its own over a Unix socket: by the guard (two scripts, a token, a log),
by redis-py's Lock (one SET, one script), and by `hold` (the guard, and a thread that would renew). In turns, so that what else the
machine does meets all of them; the median turn counts.
"""

import argparse
import contextlib
import secrets
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from drillmaster.adapters.worker.lease import hold
from drillmaster.guards.lease import Lease, LeaseRequest
from drillmaster.stores import decide
from drillmaster.stores.opening import open_store

TURNS = 20


def timed(work: Callable[[int], None], times: int) -> tuple[float, float]:
    wall, cpu = time.perf_counter(), time.process_time()
    work(times)
    return (time.perf_counter() - wall) / times * 1e6, (time.process_time() - cpu) / times * 1e6


def main() -> int:
    parser = argparse.ArgumentParser(description="What a lease costs beside a lock without tokens.")
    parser.add_argument("--pairs", type=int, default=4_000)
    pairs = parser.parse_args().pairs
    program = shutil.which("redis-server")
    if program is None:
        print("needs redis-server")
        return 0
    import redis

    with tempfile.TemporaryDirectory(prefix="dm-bench-") as folder:
        socket = Path(folder) / "redis.sock"
        options = ["--port", "0", "--unixsocket", str(socket), "--dir", folder, "--save", "", "--appendonly", "no"]
        server = subprocess.Popen([program, *options], stdout=subprocess.DEVNULL)
        try:
            ends = time.monotonic() + 10
            while not socket.exists() and time.monotonic() < ends:
                time.sleep(0.01)
            measure(redis, f"unix://{socket}", pairs)
        finally:
            server.terminate()
            server.wait()
    return 0


def measure(redis: object, url: str, pairs: int) -> None:
    guard = Lease(lease="bench", ttl_ms=30_000, may_steal=())
    store = open_store(url, within_s=5)
    store.prepare()
    client = redis.Redis.from_url(url)  # type: ignore[attr-defined]  # the module

    def ours(times: int) -> None:
        for _ in range(times):
            holder = secrets.token_hex(16)
            granted = decide(
                guard, LeaseRequest(action="acquire", source="lock-client", holder=holder, by="bench"), store
            )
            token = granted.fencing_token  # type: ignore[attr-defined]  # it is granted
            given = LeaseRequest(action="release", source="lock-client", holder=holder, by="bench", fencing_token=token)
            assert decide(guard, given, store).allowed

    def held(times: int) -> None:
        for _ in range(times):
            with hold(guard, store, by="bench", item="held"):
                pass

    def theirs(times: int) -> None:
        for _ in range(times):
            lock = client.lock("bench-lock", timeout=30, thread_local=False)
            assert lock.acquire(blocking=False)
            lock.release()

    took: dict[str, list[tuple[float, float]]] = {"guard": [], "redis-py Lock": [], "hold": []}
    works = {"guard": ours, "redis-py Lock": theirs, "hold": held}
    for work in works.values():
        work(50)
    for _ in range(TURNS):
        for name, work in works.items():
            took[name].append(timed(work, max(1, pairs // TURNS)))
    walls = {name: statistics.median(wall for wall, _ in each) for name, each in took.items()}
    cpus = {name: statistics.median(cpu for _, cpu in each) for name, each in took.items()}
    for name in works:
        ratio, cpu_ratio = walls[name] / walls["redis-py Lock"], cpus[name] / cpus["redis-py Lock"]
        print(
            f"{name:14} {walls[name]:6.0f} µs ({ratio:.2f}x), CPU of the client {cpus[name]:6.0f} µs ({cpu_ratio:.2f}x)"
        )
    with contextlib.suppress(Exception):
        client.close()
    store.close()


if __name__ == "__main__":
    sys.exit(main())
