"""What a decision of a quota costs: `python bench/quota.py [--decisions 3000] [--rounds 5]`.

One Redis on a Unix socket, one worker, one key at a time. Ours decides by an exact window and a burst together; `limits` by a
moving window, throttled-py by GCRA: each does one of the two. Rounds are interleaved; the table has medians of the worker's CPU,
of the server's, and of the time until an answer. Half the decisions are granted, half refused. PostgreSQL and SQLite stand below,
without a peer. The bar: at most 1.5 times the cheaper peer's CPU, worker and server together, where we do more.
"""

import argparse
import contextlib
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parent.parent), str(Path(__file__).parent.parent / "src")]

from drillmaster.guards.quota import Also, OutboundCall, Quota  # noqa: E402 - the tests' own servers, from the checkout
from drillmaster.stores import decide  # noqa: E402 - the tests' own servers, from the checkout
from drillmaster.stores.opening import open_store  # noqa: E402 - the tests' own servers, from the checkout
from tests.e2e.pglab import postgres_server  # noqa: E402 - the tests' own servers, from the checkout
from tests.e2e.redislab import Redis, redis_server  # noqa: E402 - the tests' own servers, from the checkout

Ask = Callable[[int], bool]
CAP = 50


def _ours(url: str, *, three: bool = False) -> Ask:
    store = open_store(url, within_s=5)
    also = tuple(
        Also(name=name, counts=counts, window_ms=3_600_000, max_per_window=1_000 * CAP, burst=1_000 * CAP)
        for name, counts in ((("hour", "requests"), ("tokens", "tokens")) if three else ())
    )

    guards: dict[str, Quota] = {}

    def ask(n: int) -> bool:
        # A key for each hundred decisions: fifty are granted, fifty refused.
        name = f"p{os.getpid()}-{n // (2 * CAP)}-{three}"
        if name not in guards:
            guards[name] = Quota(
                partner=name, identity="prod", window_ms=3_600_000, max_per_window=CAP, burst=CAP, also=also
            )
        return decide(guards[name], OutboundCall(partner=name, identity="prod", tokens=10), store).allowed

    return ask


def _limits(url: str) -> Ask:
    import limits

    storage = limits.storage.RedisStorage(url.replace("unix://", "redis+unix://"))
    strategy = limits.strategies.MovingWindowRateLimiter(storage)
    item = limits.RateLimitItemPerHour(CAP)
    return lambda n: strategy.hit(item, f"p{n // (2 * CAP)}", "prod")


def _throttled(url: str) -> Ask:
    import throttled

    store = throttled.RedisStore(server=url)
    quota = throttled.per_hour(CAP, burst=CAP)
    limiter = throttled.Throttled(using="gcra", quota=quota, store=store)
    return lambda n: not limiter.limit(f"p{n // (2 * CAP)}:prod").limited


def _cpu_of(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@contextlib.contextmanager
def _redis() -> Iterator[Redis]:
    with redis_server("--save", "", "--appendonly", "no") as server:
        open_store(server.url).prepare()
        yield server


def _round(ask: Ask, start: int, decisions: int, pid: int | None) -> tuple[float, float, float, float]:
    """CPU of the worker and of the server, and the wall time, in microseconds a decision; the share that was granted."""
    server = 0.0 if pid is None else _cpu_of(pid)
    cpu, wall = time.process_time(), time.perf_counter()
    granted = sum(ask(start + n) for n in range(decisions))
    cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
    server = 0.0 if pid is None else _cpu_of(pid) - server
    return cpu / decisions * 1e6, server / decisions * 1e6, wall / decisions * 1e6, granted / decisions


def main() -> int:
    """Measure, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--decisions", type=int, default=3_000)
    parser.add_argument("--rounds", type=int, default=5)
    told = parser.parse_args()
    rows: list[tuple[str, list[tuple[float, float, float, float]]]] = []
    with _redis() as server, postgres_server(fsync=True) as pg, tempfile.TemporaryDirectory() as folder:
        assert server.process is not None
        pid = server.process.pid
        asks: list[tuple[str, Ask, int | None, int]] = [("drillmaster, Redis", _ours(server.url), pid, told.decisions)]
        asks.append(("drillmaster, Redis, 3 limits", _ours(server.url, three=True), pid, told.decisions))
        for name, make in (("limits, Redis", _limits), ("throttled-py, Redis", _throttled)):
            try:
                asks.append((name, make(server.url), pid, told.decisions))
            except ImportError as error:
                print(f"{name}: {error}: pip install limits throttled-py", file=sys.stderr)
        open_store(pg.url).prepare()
        asks.append(("drillmaster, PostgreSQL (fsync)", _ours(pg.url), None, told.decisions // 10))
        sqlite = f"sqlite:{folder}/quota.db"
        open_store(sqlite).prepare()
        asks.append(("drillmaster, SQLite (fsync)", _ours(sqlite), None, told.decisions // 10))
        rows = [(name, []) for name, *_ in asks]
        for nth in range(told.rounds + 1):  # the first one warms up
            for (_, ask, of, decisions), (_, found) in zip(asks, rows, strict=True):
                one = _round(ask, nth * told.decisions, decisions, of)
                if nth:
                    found.append(one)
    peers = [statistics.median(one[0] + one[1] for one in found) for name, found in rows if "drillmaster" not in name]
    least = min(peers) if peers else 0.0
    print(
        "| decides | CPU µs, worker | CPU µs, server | ratio | µs until the answer | granted |\n|---|---|---|---|---|---|"
    )
    for name, found in rows:
        cpu, there, wall, granted = (statistics.median(column) for column in zip(*found, strict=True))
        ratio = f"{(cpu + there) / least:.2f}" if least and "Redis" in name else ""
        print(f"| {name} | {cpu:.0f} | {f'{there:.0f}' if ratio else ''} | {ratio} | {wall:.0f} | {granted:.0%} |")
    return 0


if __name__ == "__main__":
    sys.exit(main())
