"""Many worker processes with one store: what they retry together, and what becomes of a key whose worker was killed."""

import asyncio
import contextlib
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest

from drillmaster.adapters.worker.retry import Refused, Retries
from drillmaster.adapters.worker.retry_httpx import retrying
from drillmaster.stores.opening import open_async_store, open_store
from tests.e2e.pglab import postgres
from tests.e2e.redislab import redis_server
from tests.e2e.retrylab import LIMITS, Api, api

pytestmark = pytest.mark.e2e

STORES = [
    "sqlite",
    pytest.param("postgresql", marks=pytest.mark.needs("postgres")),
    pytest.param("redis", marks=pytest.mark.needs("redis-server")),
]

WORKER = """
import sys, httpx, msgspec
from drillmaster.adapters.worker.retry import Retries
from drillmaster.adapters.worker.retry_httpx import retrying
from drillmaster.guards.retry import Retry
from drillmaster.stores.opening import open_async_store, open_store
store, url, limits, calls, keyed = sys.argv[1:6]
retries = Retries(msgspec.json.decode(limits, type=Retry), open_store(store, within_s=10))
with httpx.Client(transport=retrying(httpx.HTTPTransport(), retries), timeout=90) as client:
    for n in range(int(calls)):
        headers = {"Idempotency-Key": keyed if keyed else f"k{n}"}
        print(client.post(url, headers=headers).status_code, flush=True)
retries.repay()
"""


@pytest.fixture(params=STORES)
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    with contextlib.ExitStack() as stack:
        if request.param == "sqlite":
            url = f"sqlite:{tmp_path / 'state.db'}"
        elif request.param == "postgresql":
            url = stack.enter_context(postgres())
        else:
            url = stack.enter_context(redis_server("--save", "", "--appendonly", "no")).url
        one = open_store(url, within_s=10)
        one.prepare()
        one.close()
        yield url


@pytest.fixture(scope="module")
def server() -> Iterator[Api]:
    with api() as one:
        yield one


def test_an_event_loop_asks_either_kind_of_store(store: str, server: Api) -> None:
    async def run(retries: Retries) -> int:
        async with httpx.AsyncClient(transport=retrying(httpx.AsyncHTTPTransport(), retries)) as client:
            status: int = (await client.post(server.url, headers={"Idempotency-Key": "k"})).status_code
        if retries.async_store is not None:
            await retries.repay_async()
            assert not await retries.done_async("k")  # these limits keep no keys
            await retries.async_store.close()
        return status

    opened = open_store(store, within_s=10)
    for retries in (
        Retries(LIMITS, opened),
        Retries(LIMITS, None, async_store=open_async_store(store, within_s=10)),
    ):
        server.plan((503, {}, None))
        assert asyncio.run(run(retries)) == 200 and len(server.sent) == 2
    opened.close()


@pytest.mark.needs("redis-server")
def test_a_store_that_hangs_is_a_no_within_its_time_limit(server: Api) -> None:
    with redis_server("--save", "", "--appendonly", "no") as redis:
        opened = open_store(redis.url, within_s=0.4)
        opened.prepare()
        retries = Retries(LIMITS, opened)
        with httpx.Client(transport=retrying(httpx.HTTPTransport(), retries)) as client:
            server.plan((503, {}, None))
            assert client.post(server.url, headers={"Idempotency-Key": "k"}).status_code == 200
            assert redis.process is not None
            redis.process.send_signal(signal.SIGSTOP)
            try:
                server.plan((503, {}, None))
                begun = time.monotonic()
                assert client.post(server.url, headers={"Idempotency-Key": "k"}).status_code == 503
                assert time.monotonic() - begun < 2
            finally:
                redis.process.send_signal(signal.SIGCONT)
            assert retries.ledger.counts()["store-unavailable"] == 1 and len(server.sent) == 1
            server.plan((503, {}, None))
            assert client.post(server.url, headers={"Idempotency-Key": "k"}).status_code == 200
        opened.close()


def start(store: str, url: str, limits: Any, *, calls: int = 1, key: str = "") -> subprocess.Popen[str]:
    argv = [sys.executable, "-c", WORKER, store, url, msgspec.json.encode(limits).decode(), str(calls), key]
    return subprocess.Popen(argv, stdout=subprocess.PIPE, text=True)


def test_all_workers_together_retry_at_most_what_the_budget_has(store: str, server: Api) -> None:
    limits = msgspec.structs.replace(LIMITS, budget_tokens=7, refund=0.0)
    server.plan(*[(503, {}, None)] * 500)
    workers = [start(store, server.url, limits, calls=10) for _ in range(3)]
    assert all(one.wait(60) == 0 for one in workers)
    for one in workers:
        assert one.stdout is not None
        one.stdout.close()
    assert len(server.sent) == 30 + 7


def test_short_processes_pay_back_what_they_earned(store: str, server: Api) -> None:
    limits = msgspec.structs.replace(LIMITS, budget_tokens=1, refund=0.5)
    for answers, sent in (
        ([(503, {}, None)] * 5, 2),  # one retry, and the bucket is empty
        ([(503, {}, None)], 1),  # no retry
        ([], 1),  # half a token is given back
        ([(503, {}, None)], 1),
        ([], 1),  # the other half
        ([(503, {}, None)], 2),
    ):
        server.plan(*answers)
        worker = start(store, server.url, limits)
        assert worker.wait(30) == 0 and worker.stdout is not None
        worker.stdout.close()
        assert len(server.sent) == sent, answers


def test_a_killed_workers_key_comes_free_at_its_expiry_and_its_calls_count(store: str, server: Api) -> None:
    limits = msgspec.structs.replace(LIMITS, cap_ms=60_000, deadline_ms=90_000, hold_ms=1_500, keep_ms=600_000)
    server.plan((503, {"retry-after": "2"}, None), (503, {}, None))
    worker = start(store, server.url, limits, key="k-1")
    ends = time.monotonic() + 30
    while not server.sent and time.monotonic() < ends:
        time.sleep(0.01)
    time.sleep(0.3)  # it waits now
    worker.send_signal(signal.SIGKILL)
    worker.wait(10)
    assert worker.stdout is not None
    worker.stdout.close()
    opened = open_store(store, within_s=10)
    retries = Retries(limits, opened)
    with httpx.Client(transport=retrying(httpx.HTTPTransport(), retries)) as client:
        with pytest.raises(Refused, match="call-in-flight") as refused:
            client.post(server.url, headers={"Idempotency-Key": "k-1"})
        # It holds the key for its wait, and `hold_ms` past that.
        assert 2_000 < refused.value.decision.wait_ms <= 3_500
        time.sleep(refused.value.decision.wait_ms / 1_000)
        assert client.post(server.url, headers={"Idempotency-Key": "k-1"}).status_code == 200
    opened.close()
    assert len(server.sent) == 3 and retries.ledger.retries == 1
    assert server.gaps()[0] >= 2  # what the dead worker was told holds for the next
