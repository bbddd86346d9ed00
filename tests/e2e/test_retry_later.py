"""Calls over the cap: kept in a real store by the worker that heard the wait, done at their time by one that may be another."""

import asyncio
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest

from drillmaster.adapters.worker.retry import Retries, job, outcome_of
from drillmaster.adapters.worker.retry_httpx import retrying
from drillmaster.errors import Problem
from drillmaster.stores import Unavailable
from drillmaster.stores.later import AsyncLater, Later
from drillmaster.stores.one_process import OneProcess
from drillmaster.stores.opening import open_async_store, open_store
from tests.e2e.redislab import redis_server
from tests.e2e.retrylab import LIMITS, api

pytestmark = [pytest.mark.e2e, pytest.mark.needs("redis-server")]

SHORT = msgspec.structs.replace(LIMITS, cap_ms=100, hold_ms=60_000, keep_ms=3_600_000)


def test_a_call_over_the_cap_is_made_at_its_time_by_another_worker() -> None:
    with redis_server("--save", "", "--appendonly", "no") as redis, api() as server:
        store = open_store(redis.url)
        store.prepare()
        server.plan((429, {"retry-after": "1"}, None))
        first = Retries(SHORT, store, queue="refunds")
        with httpx.Client(transport=retrying(httpx.HTTPTransport(), first)) as client, job("refund-17"):
            answer = client.post(server.url, headers={"Idempotency-Key": "k-17"})
        outcome = outcome_of(answer)
        assert answer.status_code == 429 and outcome is not None
        assert (outcome.kept, outcome.decision.reason) == ("refund-17", "retry-after-over-cap")

        second = Retries(SHORT, open_store(redis.url), queue="refunds")
        later = Later(open_store(redis.url), "refunds", hold_s=30)
        assert later.claim() is None
        done: list[str] = []
        stop = threading.Event()

        def do(name: str) -> None:
            with httpx.Client(transport=retrying(httpx.HTTPTransport(), second)) as client:
                assert client.post(server.url, headers={"Idempotency-Key": f"k-{name[-2:]}"}).status_code == 200
            done.append(name)
            stop.set()

        later.work(do, stop, poll_s=0.2)
        assert done == ["refund-17"] and later.claim() is None
        assert server.gaps()[0] >= 1 and len(server.sent) == 2
        # What lies in the store is a name, a time and a number, and of the key its digest.
        import redis as driver

        with driver.Redis(unix_socket_path=str(redis.socket)) as look:
            for key in look.scan_iter():
                assert b"k-17" not in key
                kind = look.type(key)
                held = look.zrange(key, 0, -1) if kind == b"zset" else look.hgetall(key) if kind == b"hash" else b""
                assert b"k-17" not in repr(held).encode()
        for one in (store, second.store):
            assert one is not None
            one.close()
        later._store.close()


WORKER = """
import sys, time
from drillmaster.stores.later import Later
from drillmaster.stores.opening import open_store
later = Later(open_store(sys.argv[1]), "q", hold_s=1.0)
claim = later.claim()
print(claim.name, flush=True)
time.sleep(60)
"""


def test_a_job_of_a_worker_that_was_killed_is_handed_to_another(tmp_path: Path) -> None:
    url = f"sqlite:{tmp_path / 'state.db'}"
    store = open_store(url, within_s=5)
    store.prepare()
    later = Later(store, "q", hold_s=1.0)
    later.put("job-1", 0)
    with subprocess.Popen([sys.executable, "-c", WORKER, url], stdout=subprocess.PIPE, text=True) as worker:
        assert worker.stdout is not None and worker.stdout.readline() == "job-1\n"
        assert later.claim() is None
        worker.send_signal(signal.SIGKILL)
        worker.wait(10)
    begun = time.monotonic()
    while (claim := later.claim()) is None and time.monotonic() - begun < 5:
        time.sleep(0.02)
    assert claim is not None and claim.name == "job-1" and claim.nth == 3  # put, handed out, handed out again
    assert later.finish(claim) and not later.finish(claim)
    store.close()


def test_what_a_job_raises_goes_through_and_the_job_stays() -> None:
    later = Later(OneProcess(), "q", hold_s=0.2)
    later.put("job-1", 0)

    def do(name: str) -> None:
        raise ConnectionError(name)

    with pytest.raises(ConnectionError, match="job-1"):
        later.work(do, threading.Event())
    assert later.claim() is None
    time.sleep(0.25)
    claim = later.claim()
    assert claim is not None and later.finish(claim)


class Blinks(OneProcess):
    """A store in this process whose answers to some questions are lost, as on a connection that breaks."""

    def __init__(self, lost: int) -> None:
        super().__init__()
        self.lost = lost

    def ask(self, law: Any, key: str, question: Any) -> Any:
        told = super().ask(law, key, question)
        if question.what == "finish" and self.lost:
            self.lost -= 1
            raise Unavailable("this process", found="no answer", wanted="one", remedy="ask again")
        return told


def test_a_store_that_is_away_when_a_job_is_done_ends_no_worker() -> None:
    later, stop, done = Later(Blinks(2), "q", hold_s=5), threading.Event(), []
    later.put("job-1", 0)
    later.put("job-2", 0)

    def do(name: str) -> None:
        done.append(name)
        if len(done) == 2:
            stop.set()

    later.work(do, stop, poll_s=0.02)
    assert sorted(done) == ["job-1", "job-2"]


@pytest.mark.parametrize("seconds", [-1, float("nan"), float("inf"), True, "5", 10**11])
def test_a_time_that_is_none_is_refused(seconds: object) -> None:
    with pytest.raises(Problem, match="seconds"):
        Later(OneProcess(), "q", hold_s=5).put("job", seconds)  # type: ignore[arg-type]  # that is the case


@pytest.mark.parametrize("name", ["", "a\0b", "x" * 201, "a\nb", None])
def test_a_queue_that_has_no_name_is_refused(name: str) -> None:
    with pytest.raises(Problem, match="printed"):
        Later(OneProcess(), name, hold_s=5)
    if name:
        with pytest.raises(Problem, match="printed"):
            Retries(LIMITS, OneProcess(), queue=name)


def test_an_event_loop_does_them_too_and_survives_a_store_that_is_away(tmp_path: Path) -> None:
    with redis_server("--save", "", "--appendonly", "yes", "--appendfsync", "always") as redis:
        store = open_store(redis.url)
        store.prepare()
        Later(store, "q", hold_s=5).put("job-1", 0.5)
        store.close()

        async def run() -> list[str]:
            opened = open_async_store(redis.url)
            later = AsyncLater(opened, "q", hold_s=5)
            done: list[str] = []
            finished = asyncio.Event()

            async def do(name: str) -> None:
                done.append(name)
                finished.set()

            redis.kill()
            with pytest.raises(Unavailable):
                await later.claim()
            task = asyncio.create_task(later.work(do, poll_s=0.05))
            await asyncio.sleep(0.2)
            await asyncio.to_thread(redis.start)
            await asyncio.wait_for(finished.wait(), 10)
            await asyncio.sleep(0.1)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert await later.claim() is None
            await later.put("job-2", 0)
            claim = await later.claim()
            assert claim is not None and await later.finish(claim)
            await opened.close()
            return done

        assert asyncio.run(run()) == ["job-1"]
