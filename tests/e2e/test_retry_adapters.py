"""The retry guard in httpx, httpx2, aiohttp, requests, urllib3, tenacity and stamina, over real sockets: what is sent, and when."""

import asyncio
import contextlib
import gzip
import json
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import msgspec
import pytest

pytest.importorskip("aiohttp")
pytest.importorskip("httpx2")
pytest.importorskip("stamina")
pytest.importorskip("tenacity")

import aiohttp
import httpx
import httpx2
import requests
import tenacity
import urllib3

from drillmaster.adapters.worker import (
    retry_aiohttp,
    retry_httpx,
    retry_requests,
    retry_stamina,
    retry_tenacity,
)
from drillmaster.adapters.worker.retry import Outcome, Refused, Retries, job, outcome_of
from drillmaster.guards.retry import Retry
from drillmaster.stores.one_process import OneProcess
from tests.e2e.retrylab import LIMITS, Api, api

pytestmark = pytest.mark.e2e

KEY = {"Idempotency-Key": "k-1"}
Asked = tuple[int | str, Outcome | None]
Ask = Callable[..., Asked]


@pytest.fixture(scope="module")
def server() -> Iterator[Api]:
    with api() as one:
        yield one


def made(limits: Retry = LIMITS, **options: Any) -> Retries:
    return Retries(limits, OneProcess(), **options)


def _of_httpx(library: Any) -> Ask:
    def ask(retries: Retries, method: str, url: str, *, headers: Any = None, content: Any = b"{}") -> Asked:
        with library.Client(transport=retry_httpx.retrying(library.HTTPTransport(), retries), timeout=5) as client:
            try:
                answer = client.request(method, url, headers=headers, content=None if method == "GET" else content)
            except library.TransportError as error:
                return type(error).__name__, outcome_of(error)
            assert answer.json()
            return answer.status_code, outcome_of(answer)

    return ask


def _of_async_httpx(library: Any) -> Ask:
    async def run(retries: Retries, method: str, url: str, headers: Any, content: Any) -> Asked:
        async with library.AsyncClient(
            transport=retry_httpx.retrying(library.AsyncHTTPTransport(), retries), timeout=5
        ) as client:
            try:
                answer = await client.request(
                    method, url, headers=headers, content=None if method == "GET" else content
                )
            except library.TransportError as error:
                return type(error).__name__, outcome_of(error)
            assert answer.json()
            return answer.status_code, outcome_of(answer)

    def ask(retries: Retries, method: str, url: str, *, headers: Any = None, content: Any = b"{}") -> Asked:
        return asyncio.run(run(retries, method, url, headers, content))

    return ask


async def _aiohttp(retries: Retries, method: str, url: str, headers: Any, content: Any) -> Asked:
    async with aiohttp.ClientSession(middlewares=(retry_aiohttp.retrying(retries),)) as session:
        try:
            async with session.request(
                method, url, headers=headers, data=None if method == "GET" else content
            ) as answer:
                assert await answer.json()
                return answer.status, outcome_of(answer)
        except aiohttp.ClientError as error:
            return type(error).__name__, outcome_of(error)


def ask_aiohttp(retries: Retries, method: str, url: str, *, headers: Any = None, content: Any = b"{}") -> Asked:
    return asyncio.run(_aiohttp(retries, method, url, headers, content))


def ask_requests(retries: Retries, method: str, url: str, *, headers: Any = None, content: Any = b"{}") -> Asked:
    with requests.Session() as session:
        session.mount("http://", retry_requests.RetryAdapter(retries))
        try:
            answer = session.request(method, url, headers=headers, data=None if method == "GET" else content, timeout=5)
        except (requests.ConnectionError, requests.Timeout) as error:
            return type(error).__name__, outcome_of(error)
        assert answer.json()
        return answer.status_code, outcome_of(answer)


def ask_urllib3(retries: Retries, method: str, url: str, *, headers: Any = None, content: Any = b"{}") -> Asked:
    key = (headers or {}).get("Idempotency-Key", "")
    whole = isinstance(content, bytes)
    retry = retry_requests.PinnedRetry(retries, idempotency_key=key, replayable=whole)
    with urllib3.PoolManager() as pool:
        try:
            answer = pool.request(
                method, url, headers=headers, body=None if method == "GET" else content, retries=retry, timeout=5
            )
        except (urllib3.exceptions.ProtocolError, urllib3.exceptions.MaxRetryError) as error:
            return type(error).__name__, None
        assert answer.json()
        return answer.status, None


def ask_tenacity(retries: Retries, method: str, url: str, *, headers: Any = None, content: Any = b"{}") -> Asked:
    @tenacity.retry(**retry_tenacity.policy(retries))
    def call() -> Any:
        return requests.request(method, url, headers=headers, data=None if method == "GET" else content, timeout=5)

    try:
        return call().status_code, None
    except requests.ConnectionError as error:
        return type(error).__name__, None


async def _tenacity(retries: Retries, method: str, url: str, headers: Any, content: Any) -> Asked:
    @tenacity.retry(**retry_tenacity.policy_async(retries))
    async def call() -> Any:
        async with httpx.AsyncClient(timeout=5) as client:
            answer = await client.request(method, url, headers=headers, content=None if method == "GET" else content)
            answer.raise_for_status()
            return answer

    try:
        return (await call()).status_code, None
    except httpx.HTTPStatusError as error:
        return error.response.status_code, None
    except httpx.TransportError as error:
        return type(error).__name__, None


def ask_tenacity_async(retries: Retries, method: str, url: str, *, headers: Any = None, content: Any = b"{}") -> Asked:
    return asyncio.run(_tenacity(retries, method, url, headers, content))


def ask_stamina(retries: Retries, method: str, url: str, *, headers: Any = None, content: Any = b"{}") -> Asked:
    @retry_stamina.retry(retries)
    def call() -> Any:
        answer = httpx.request(method, url, headers=headers, content=None if method == "GET" else content, timeout=5)
        answer.raise_for_status()
        return answer

    try:
        return call().status_code, None
    except httpx.HTTPStatusError as error:
        return error.response.status_code, None
    except httpx.TransportError as error:
        return type(error).__name__, None


TRANSPORTS: dict[str, Ask] = {
    "httpx": _of_httpx(httpx),
    "httpx-async": _of_async_httpx(httpx),
    "httpx2": _of_httpx(httpx2),
    "httpx2-async": _of_async_httpx(httpx2),
    "aiohttp": ask_aiohttp,
    "requests": ask_requests,
}
LOOPS: dict[str, Ask] = {
    "urllib3": ask_urllib3,
    "tenacity": ask_tenacity,
    "tenacity-async": ask_tenacity_async,
    "stamina": ask_stamina,
}
ALL = TRANSPORTS | LOOPS
each = pytest.mark.parametrize("name", list(ALL))
each_transport = pytest.mark.parametrize("name", list(TRANSPORTS))


def failing(status: int, **fields: str) -> tuple[int, dict[str, str], None]:
    return status, {name.replace("_", "-"): value for name, value in fields.items()}, None


# plan, method, key -> calls on the wire, what the caller gets, the last reason
PLANS: list[tuple[list[Any], str, bool, int, int, str | None]] = [
    ([], "POST", True, 1, 200, None),
    ([failing(503)], "POST", True, 2, 200, None),
    ([failing(503), failing(429)], "POST", True, 3, 200, None),
    ([failing(503)] * 9, "POST", True, 3, 503, "budget-exhausted"),
    ([failing(502)], "POST", False, 1, 502, "mutating-without-idempotency"),
    ([failing(503)], "PUT", False, 1, 503, "mutating-without-idempotency"),
    ([failing(503)], "DELETE", False, 1, 503, "mutating-without-idempotency"),
    ([failing(503)], "GET", False, 2, 200, None),
    ([failing(500)], "POST", True, 1, 500, "status-not-retryable"),
    ([failing(404)], "GET", False, 1, 404, "status-not-retryable"),
    ([failing(409)], "POST", True, 1, 409, "status-not-retryable"),
    ([failing(529)], "POST", True, 1, 529, "status-not-retryable"),
    ([failing(408), failing(425)], "POST", True, 3, 200, None),
    ([failing(429, retry_after="3600")], "POST", True, 1, 429, "retry-after-over-cap"),
    ([failing(429, retry_after="9999999999")], "POST", True, 1, 429, "retry-after-over-cap"),
    ([failing(429, retry_after="soon")], "POST", True, 1, 429, "retry-after-unreadable"),
    ([failing(429, retry_after="2026-09-23T16:17:42Z")], "POST", True, 1, 429, "retry-after-unreadable"),
    ([failing(429, retry_after="Thu, 23 Sep 2026 16:17:42 GMT")], "POST", True, 1, 429, "retry-after-unreadable"),
    ([failing(503, x_should_retry="true", retry_after="0")], "POST", True, 2, 200, None),
]


@each
@pytest.mark.parametrize("plan, method, keyed, calls, got, reason", PLANS, ids=lambda one: str(one)[:40])
def test_what_is_sent_is_what_the_policy_allows(
    server: Api, name: str, plan: list[Any], method: str, keyed: bool, calls: int, got: int, reason: str | None
) -> None:
    server.plan(*plan)
    retries = made()
    status, outcome = ALL[name](retries, method, f"{server.url}/v1/refunds", headers=KEY if keyed else None)
    assert (status, len(server.sent)) == (got, calls)
    counts = {one: n for one, n in retries.ledger.counts().items() if n}
    assert counts == ({"pinned-status": calls - 1} if calls > 1 else {}) | ({reason: 1} if reason else {})
    assert (retries.ledger.requests, retries.ledger.retries) == (1, calls - 1)
    if name in TRANSPORTS:
        assert (outcome and outcome.decision.reason) == reason
        assert outcome is None or outcome.calls == calls
    # One call, one body, one key: what is sent again is the same.
    assert len({one.body for one in server.sent}) == 1
    assert {one.fields.get("idempotency-key") for one in server.sent} == {"k-1" if keyed else None}


@each
@pytest.mark.parametrize("fields", [{"retry_after": "1"}, {"retry_after_ms": "250"}], ids=str)
def test_nobody_comes_earlier_than_asked(server: Api, name: str, fields: dict[str, str]) -> None:
    server.plan(failing(429, **fields))
    status, _ = ALL[name](made(), "POST", server.url, headers=KEY)
    asked_s = 1.0 if "retry_after" in fields else 0.25
    assert status == 200
    (gap,) = server.gaps()
    assert asked_s <= gap < asked_s + 1


@each
@pytest.mark.parametrize("method", ["POST", "GET", "PUT", "DELETE"])
def test_a_connection_that_is_lost_is_never_sent_again(server: Api, name: str, method: str) -> None:
    server.plan("cut")
    retries = made()
    status, _ = ALL[name](retries, method, server.url, headers=KEY)
    assert isinstance(status, str) and len(server.sent) == 1
    assert retries.ledger.counts()["status-not-retryable"] == 1


@each
def test_retries_fade_when_all_calls_fail_and_return_when_they_go_well(server: Api, name: str) -> None:
    retries = made(msgspec.structs.replace(LIMITS, budget_tokens=2, refund=0.5))
    ask = ALL[name]
    server.plan(*[failing(503)] * 20)
    for _ in range(3):
        ask(retries, "POST", server.url, headers=KEY)
    assert len(server.sent) == 5 and retries.ledger.counts()["retry-budget"] == 2
    server.plan()
    for _ in range(2):
        ask(retries, "POST", server.url, headers=KEY)
    server.plan(failing(503))
    assert ask(retries, "POST", server.url, headers=KEY)[0] == 200


def generated() -> Iterator[bytes]:
    yield b"{"
    yield b"}"


async def generated_async() -> AsyncIterator[bytes]:
    yield b"{"
    yield b"}"


@pytest.mark.parametrize("name", [*TRANSPORTS, "urllib3"])
def test_a_body_that_comes_from_a_generator_is_sent_once(server: Api, name: str) -> None:
    server.plan(failing(503))
    retries = made()
    content = generated_async() if name in ("httpx-async", "httpx2-async", "aiohttp") else generated()
    status, _ = ALL[name](retries, "POST", server.url, headers=KEY, content=content)
    assert (status, len(server.sent), server.sent[0].body) == (503, 1, b"{}")
    assert retries.ledger.counts()["body-sent-once"] == 1


GEMINI = {"error": {"code": 429, "message": "Please retry in 0.4s.", "status": "RESOURCE_EXHAUSTED", "details": [
    {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "0.4s"}]}}  # fmt: skip  # one answer


@each_transport
@pytest.mark.parametrize("coding", ["", "gzip"])
def test_a_wait_in_a_body_counts_where_the_pinned_dialect_says_so(server: Api, name: str, coding: str) -> None:
    text = json.dumps(GEMINI).encode()
    answer = (429, {"content-encoding": coding} if coding else {}, gzip.compress(text) if coding else text)
    server.plan(answer)
    pinned = made(msgspec.structs.replace(LIMITS, dialect="gemini"))
    assert TRANSPORTS[name](pinned, "POST", server.url, headers=KEY)[0] == 200
    assert 0.4 <= server.gaps()[0] < 1.4
    server.plan(answer)
    assert TRANSPORTS[name](made(), "POST", server.url, headers=KEY)[0] == 200
    assert server.gaps()[0] < 0.35


@each_transport
def test_a_caller_reads_a_body_that_the_guard_has_read(server: Api, name: str) -> None:
    long = {"error": {"details": [{"@type": "google.rpc.RetryInfo", "retryDelay": "3600s"}], "pad": "x" * 3_000}}
    for body in (long, {**long, "more": "y" * 100_000}):
        server.plan((429, {}, json.dumps(body).encode()))
        retries = made(msgspec.structs.replace(LIMITS, dialect="gemini"))
        status, outcome = TRANSPORTS[name](retries, "POST", server.url, headers=KEY)  # each of them reads it as JSON
        assert status == 429 and outcome is not None
        large = "more" in body
        assert outcome.decision.reason == ("retry-after-unreadable" if large else "retry-after-over-cap")
        assert outcome.decision.wait_ms == (0 if large else 3_600_000)


KEPT = msgspec.structs.replace(LIMITS, hold_ms=60_000, keep_ms=3_600_000)


@each_transport
def test_a_key_that_is_in_flight_is_told_so_and_calls_are_counted_over_workers(server: Api, name: str) -> None:
    store = OneProcess()
    one, two = Retries(KEPT, store), Retries(KEPT, store)
    server.plan(*[failing(503)] * 2)
    assert TRANSPORTS[name](one, "POST", server.url, headers=KEY)[0] == 200
    assert len(server.sent) == 3
    with pytest.raises(Refused, match="budget-exhausted"):
        TRANSPORTS[name](two, "POST", server.url, headers=KEY)
    assert len(server.sent) == 3 and two.ledger.counts()["budget-exhausted"] == 1
    other = {"Idempotency-Key": "k-2"}
    server.plan((503, {"retry-after": "1"}, None))
    thread = threading.Thread(target=lambda: TRANSPORTS[name](one, "POST", server.url, headers=other))
    thread.start()
    while not server.sent:
        time.sleep(0.01)
    time.sleep(0.2)
    with pytest.raises(Refused, match="call-in-flight") as refused:
        TRANSPORTS[name](two, "POST", server.url, headers=other)
    assert 0 < refused.value.decision.wait_ms <= 61_500
    thread.join()
    assert one.done("k-2")
    with pytest.raises(Refused, match="call-done"):
        TRANSPORTS[name](two, "POST", server.url, headers=other)
    assert [sent.fields["idempotency-key"] for sent in server.sent] == ["k-2", "k-2"]


@each_transport
def test_a_wait_over_the_cap_is_everybodys(server: Api, name: str) -> None:
    store = OneProcess()
    one = Retries(KEPT, store, queue="refunds")
    server.plan(failing(429, retry_after="3600"))
    with job("refund-17"):
        status, outcome = TRANSPORTS[name](one, "POST", server.url, headers=KEY)
    assert (status, outcome and outcome.kept) == (429, "refund-17")
    with pytest.raises(Refused, match="call-early") as refused:
        TRANSPORTS[name](Retries(KEPT, store), "POST", server.url, headers=KEY)
    assert 3_590_000 < refused.value.decision.wait_ms <= 3_600_000
    assert len(server.sent) == 1


@each_transport
def test_without_a_store_nothing_is_retried_and_a_kept_key_is_not_sent(server: Api, name: str) -> None:
    server.plan(failing(503))
    retries = Retries(LIMITS, None)
    assert TRANSPORTS[name](retries, "POST", server.url, headers=KEY)[0] == 503
    assert len(server.sent) == 1 and retries.ledger.counts()["store-unavailable"] == 1
    with pytest.raises(Refused, match="store-unavailable"):
        TRANSPORTS[name](Retries(KEPT, None), "POST", server.url, headers=KEY)
    assert len(server.sent) == 1


@pytest.mark.parametrize("name", ["httpx", "requests", "aiohttp", "urllib3", "tenacity"])
def test_a_worker_that_stops_ends_its_waits_and_sends_nothing(server: Api, name: str) -> None:
    limits = msgspec.structs.replace(LIMITS, cap_ms=30_000, deadline_ms=60_000)
    retries = made(limits)
    server.plan(failing(503, retry_after="15"))
    threading.Timer(0.3, retries.stop).start()
    begun = time.monotonic()
    with pytest.raises(Refused, match="stopped"):
        ALL[name](retries, "POST", server.url, headers=KEY)
    assert time.monotonic() - begun < 5 and len(server.sent) == 1


def test_a_task_that_is_cancelled_leaves_its_wait_at_once(server: Api) -> None:
    server.plan(failing(503, retry_after="15"))
    retries = made(msgspec.structs.replace(LIMITS, cap_ms=30_000, deadline_ms=60_000))

    async def run() -> None:
        transport = retry_httpx.retrying(httpx.AsyncHTTPTransport(), retries)
        async with httpx.AsyncClient(transport=transport) as client:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(0.4):
                    await client.post(server.url, headers=KEY)
            assert (await client.get(server.url)).status_code == 200  # the pool has its connections back

    begun = time.monotonic()
    asyncio.run(run())
    assert time.monotonic() - begun < 3 and len(server.sent) == 2


def test_a_library_that_retries_by_itself_is_refused_at_its_second_call(server: Api) -> None:
    server.plan()
    retries = made()
    with pytest.raises(Refused, match="nested-retries"):
        TRANSPORTS["httpx"](retries, "POST", server.url, headers={"x-stainless-retry-count": "1", **KEY})
    assert not server.sent and retries.ledger.counts()["nested-retries"] == 1


def test_a_stream_whose_answer_began_is_not_sent_again(server: Api) -> None:
    server.plan((200, {"content-length": "1000"}, b"data: 1\n\n"))
    with (
        httpx.Client(transport=retry_httpx.retrying(httpx.HTTPTransport(), made()), timeout=0.4) as client,
        pytest.raises(httpx.TransportError),
        client.stream("POST", server.url, headers=KEY, content=b"{}") as answer,
    ):
        assert list(answer.iter_bytes())
    assert len(server.sent) == 1


@each_transport
def test_what_is_sent_again_waits_for_its_answer_no_longer_than_the_deadline(server: Api, name: str) -> None:
    server.plan(failing(503), 3.0)
    began = time.monotonic()
    told, outcome = TRANSPORTS[name](made(msgspec.structs.replace(LIMITS, deadline_ms=700)), "GET", server.url)
    assert time.monotonic() - began < 2
    assert told in ("ReadTimeout", "ServerTimeoutError")
    assert len(server.sent) == 2
    assert outcome is not None and outcome.decision.reason in ("budget-exhausted", "status-not-retryable")


@each_transport
def test_a_first_attempt_has_the_callers_own_limits(server: Api, name: str) -> None:
    server.plan(0.5)
    assert TRANSPORTS[name](made(msgspec.structs.replace(LIMITS, deadline_ms=100)), "GET", server.url) == (200, None)


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH"])
def test_urllib3_sends_no_body_again_that_nobody_said_is_at_hand(server: Api, method: str) -> None:
    with urllib3.PoolManager() as pool:
        server.plan(failing(503))
        retry = retry_requests.PinnedRetry(made(), idempotency_key="k-1")
        assert pool.request(method, server.url, headers=KEY, body=generated(), retries=retry).status == 503
        assert len(server.sent) == 1
        server.plan(failing(503))
        retry = retry_requests.PinnedRetry(made(), idempotency_key="k-1", replayable=True)
        assert pool.request(method, server.url, headers=KEY, body=b"whole", retries=retry).status == 200
        assert [one.body for one in server.sent] == [b"whole", b"whole"]


@pytest.mark.parametrize(
    ("asked", "reason"), [("3", "retry-after-over-cap"), ("soon", "retry-after-unreadable"), ("1", "stopped")]
)
def test_urllib3_follows_no_redirect_earlier_than_asked(server: Api, asked: str, reason: str) -> None:
    retries = made()
    if reason == "stopped":
        threading.Timer(0.2, retries.stop).start()
    server.plan((307, {"location": "/b", "retry-after": asked}, None))
    host, _, port = server.url.removeprefix("http://").strip("/").partition(":")
    with urllib3.HTTPConnectionPool(host, int(port)) as pool, pytest.raises(Refused, match=reason):
        pool.request("GET", "/a", retries=retry_requests.PinnedRetry(retries))
    assert len(server.sent) == 1


def test_stamina_sends_nothing_again_when_the_worker_stopped_in_its_wait(server: Api) -> None:
    retries = made()
    server.plan(failing(503, retry_after="1"))
    threading.Timer(0.2, retries.stop).start()
    with pytest.raises(Refused, match="stopped"):
        ask_stamina(retries, "GET", server.url)
    assert len(server.sent) == 1


class HeldUp(Retries):
    """A worker that is stopped for a while behind each decision."""

    def decide(self, facts: Any) -> Any:
        decision = super().decide(facts)
        time.sleep(0.3)
        return decision

    async def decide_async(self, facts: Any) -> Any:
        decision = await super().decide_async(facts)
        time.sleep(0.3)  # of a process that is stopped no task runs
        return decision


@pytest.mark.parametrize("name", ["tenacity", "tenacity-async", "stamina"])
def test_a_loop_that_was_held_up_past_the_deadline_sends_nothing_again(server: Api, name: str) -> None:
    retries = HeldUp(msgspec.structs.replace(LIMITS, deadline_ms=250), OneProcess())
    server.plan(failing(503))
    with pytest.raises(Refused, match="deadline"):
        ALL[name](retries, "GET", server.url)
    assert len(server.sent) == 1 and retries.ledger.counts()["deadline"] == 1
