"""The official MCP client over the retry guard's transport, under every fault of the catalogue, through the real proxy.

Its messages are POSTs. Without a key none is ever sent twice, whatever comes back. With a key of its own each message may be: as
often as the guard allows, behind an answer that the pinned map has, and no earlier than that answer asks for.
"""

import asyncio
import contextlib
import hashlib
import itertools
import time
from collections.abc import Iterator
from typing import Any

import httpx2
import pytest
from mcp.client.session import ClientSession
from mcp.client.streamable_http import streamable_http_client

from drillmaster import faults
from drillmaster.adapters.worker.retry import Retries
from drillmaster.adapters.worker.retry_httpx import retrying
from drillmaster.errors import Problem
from drillmaster.guards.retry import Retry
from drillmaster.matrix.cells import choose
from drillmaster.plan import Matrix
from drillmaster.rules.retryable import retryable
from drillmaster.stores.one_process import OneProcess
from tests.e2e.wirelab import ProxyProcess, proxy, standin

pytestmark = pytest.mark.e2e

LIMITS = Retry(max_calls=3, deadline_ms=10_000, base_ms=4, cap_ms=2_500, budget_tokens=100, refund=0.1)
EVERY = choose(Matrix(), everything=True)
windows = iter(range(1_000_000))


class Seen(httpx2.AsyncBaseTransport):
    """What goes onto the wire, below the guard: each request with its times and its status; None: there was none."""

    def __init__(self) -> None:
        self._inner = httpx2.AsyncHTTPTransport()
        self.sent: list[tuple[str, bytes, float, float, int | None, Any]] = []

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        began, status, fields = time.monotonic(), None, None
        try:
            response = await self._inner.handle_async_request(request)
            status, fields = response.status_code, response.headers
            return response
        finally:
            self.sent.append((request.method, bytes(request.content), began, time.monotonic(), status, fields))

    async def aclose(self) -> None:
        await self._inner.aclose()


@pytest.fixture(scope="module")
def ours(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ProxyProcess]:
    with standin() as upstream, proxy(tmp_path_factory.mktemp("mcp"), upstream=upstream) as one:
        yield one


async def _key(request: httpx2.Request) -> None:
    """A key a message, as a worker that knows its messages gives it."""
    if request.method == "POST":
        request.headers["Idempotency-Key"] = hashlib.sha256(request.content).hexdigest()


async def _call(url: str, retries: Retries, seen: Seen, *, keyed: bool) -> None:
    hooks: Any = {"request": [_key] if keyed else []}
    async with (
        httpx2.AsyncClient(transport=retrying(seen, retries), timeout=0.5, event_hooks=hooks) as http,
        streamable_http_client(f"{url}/mcp", http_client=http) as ends,
        ClientSession(ends[0], ends[1]) as session,
    ):
        await session.initialize()
        tools = await session.list_tools()
        await session.call_tool(tools.tools[0].name, {"order_id": "A-1"})


def called(url: str, *, keyed: bool) -> tuple[Retries, Seen]:
    async def bounded() -> None:
        async with asyncio.timeout(4):
            await _call(url, retries, seen, keyed=keyed)

    retries, seen = Retries(LIMITS, OneProcess()), Seen()
    with contextlib.suppress(Exception, BaseExceptionGroup):  # what a fault makes of it is the client's to say
        asyncio.run(bounded())
    return retries, seen


def hold(retries: Retries, seen: Seen, *, keyed: bool) -> None:
    messages: dict[tuple[str, bytes], list[Any]] = {}
    for method, body, *rest in seen.sent:
        messages.setdefault((method, body), []).append(rest)
    again = 0
    for (method, _), attempts in messages.items():
        assert len(attempts) <= (LIMITS.max_calls if keyed else 1) or method != "POST"
        for (_, ended, status, fields), (began, *_) in itertools.pairwise(attempts):
            if method == "GET" and retryable("http", status) is None:
                continue  # the client itself opens its stream anew
            assert retryable("http", status) is not None
            again += 1
            asked = fields.get("retry-after", "")
            if asked.isdigit():
                assert began - ended >= int(asked)
    assert retries.ledger.retries == retries.ledger.counts().get("pinned-status", 0) <= again


def test_without_a_fault_each_message_is_sent_once_and_answered(ours: ProxyProcess) -> None:
    retries, seen = called(ours.url, keyed=False)
    hold(retries, seen, keyed=False)
    assert retries.ledger.retries == 0
    assert sum(method == "POST" for method, *_ in seen.sent) >= 3
    assert all(status is not None and status < 300 for method, *_, status, _ in seen.sent if method == "POST")


@pytest.mark.parametrize("keyed", [False, True])
@pytest.mark.parametrize("fault", EVERY, ids=lambda one: one.tag)
def test_no_message_is_sent_again_that_the_policy_forbids_and_none_too_early(
    ours: ProxyProcess, fault: Any, keyed: bool
) -> None:
    assert len(EVERY) == len(faults.names())
    window = f"w{next(windows)}"
    try:
        ours.inject(fault.tag, window, ttl_s=30, **fault.params)
    except Problem as problem:
        pytest.skip(str(problem))
    try:
        hold(*called(ours.url, keyed=keyed), keyed=keyed)
    finally:
        ours.lift(window)


@pytest.mark.parametrize(
    ("params", "sent"),
    [
        ({"retry_after_s": 1, "form": "seconds"}, 3),
        ({"retry_after_s": 3600, "form": "seconds"}, 1),
        ({"form": "none"}, 3),
    ],
    ids=str,
)
def test_the_first_message_is_tried_as_often_as_may_be(ours: ProxyProcess, params: dict[str, Any], sent: int) -> None:
    for keyed in (True, False):
        window = f"w{next(windows)}"
        ours.inject("rate-limit", window, ttl_s=30, **params)
        retries, seen = called(ours.url, keyed=keyed)
        ours.lift(window)
        hold(retries, seen, keyed=keyed)
        posts = [row for row in seen.sent if row[0] == "POST"]
        assert len(posts) == (sent if keyed else 1), [row[:1] + row[2:5] for row in seen.sent]
