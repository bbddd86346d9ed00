"""The quota guard in httpx, httpx2 and the OpenAI SDK, over real sockets and a real store: what is denied is not sent."""

import asyncio
import json
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import httpx2
import pytest

from drillmaster.adapters.worker.guarding import Guarding
from drillmaster.adapters.worker.quota import QuotaDenied, Spender, limiting
from drillmaster.adapters.worker.retry import Retries
from drillmaster.adapters.worker.retry_httpx import retrying
from drillmaster.stores.one_process import OneProcess
from drillmaster.stores.opening import open_store
from tests.adapters.worker.test_quota import FILE
from tests.e2e.retrylab import LIMITS, Api, api

pytestmark = pytest.mark.e2e


@pytest.fixture
def server() -> Iterator[Api]:
    with api() as one:
        yield one


@pytest.fixture
def guarding(tmp_path: Path) -> Iterator[Guarding]:
    path = tmp_path / "guards.yaml"
    path.write_text(FILE)
    url = f"sqlite:{tmp_path / 'quota.db'}"
    open_store(url).prepare()
    one = Guarding.open(path, store=url, within_s=5)
    yield one
    asyncio.run(one.close_async())


@pytest.mark.parametrize("library", [httpx, httpx2], ids=["httpx", "httpx2"])
def test_a_client_sends_what_is_granted_and_nothing_else(library: Any, server: Api, guarding: Guarding) -> None:
    spender = Spender(guarding, "ledger")
    with library.Client(transport=limiting(library.HTTPTransport(), spender, tokens=10)) as client:
        for _ in range(5):
            assert client.get(server.url).status_code == 200
        with pytest.raises(QuotaDenied) as denied:
            client.get(server.url)
    assert 0 < denied.value.retry_after_s <= 2 and denied.value.left == 25
    assert len(server.sent) == 5


@pytest.mark.parametrize("library", [httpx, httpx2], ids=["httpx", "httpx2"])
def test_an_async_client_sends_what_is_granted_and_nothing_else(library: Any, server: Api, guarding: Guarding) -> None:
    async def calls() -> list[Any]:
        spender = Spender(guarding, "ledger")
        transport = limiting(library.AsyncHTTPTransport(), spender, tokens=10)
        async with library.AsyncClient(transport=transport) as client:
            return await asyncio.gather(*(client.get(server.url) for _ in range(12)), return_exceptions=True)

    told = asyncio.run(calls())
    assert sum(isinstance(one, QuotaDenied) for one in told) == 7 and len(server.sent) == 5


def test_nothing_is_sent_while_the_store_is_gone(server: Api, guarding: Guarding, tmp_path: Path) -> None:
    (tmp_path / "quota.db").rename(tmp_path / "elsewhere.db")
    with httpx.Client(transport=limiting(httpx.HTTPTransport(), Spender(guarding, "ledger"), tokens=1)) as client:
        with pytest.raises(QuotaDenied, match="store-unavailable"):
            client.get(server.url)
        assert server.sent == []
        (tmp_path / "elsewhere.db").rename(tmp_path / "quota.db")
        assert client.get(server.url).status_code == 200


def test_each_attempt_and_each_redirect_is_counted_and_retries_have_their_own_budget(
    server: Api, guarding: Guarding
) -> None:
    spender = Spender(guarding, "ledger")
    retries = Retries(LIMITS, OneProcess())
    transport = retrying(limiting(httpx.HTTPTransport(), spender, tokens=1), retries)
    with httpx.Client(transport=transport) as client:
        server.plan((503, {}, b"{}"), (503, {}, b"{}"))
        # The second attempt takes the one retry there is at once, so the third one is never sent.
        with pytest.raises(QuotaDenied, match="of again"):
            client.get(server.url)
    assert len(server.sent) == 2


@pytest.mark.parametrize("library", [httpx, httpx2], ids=["httpx", "httpx2"])
def test_a_redirect_is_a_call_and_no_retry(library: Any, server: Api, guarding: Guarding) -> None:
    spender = Spender(guarding, "ledger")
    transport = limiting(library.HTTPTransport(), spender, tokens=1)
    with library.Client(transport=transport, follow_redirects=True) as client:
        server.plan(*[(302, {"location": "/there"}, b"")] * 3, (200, {}, b"{}"))
        assert client.get(server.url).status_code == 200  # of retries one may be made at once, and these are none
        assert len(server.sent) == 4
        server.plan((302, {"location": "/there"}, b""), (200, {}, b"{}"))
        with pytest.raises(QuotaDenied, match="of requests"):
            client.get(server.url)
    assert len(server.sent) == 1


def test_an_sdk_that_retries_by_itself_sends_no_more_than_is_granted(server: Api, guarding: Guarding) -> None:
    import openai

    spender = Spender(guarding, "ledger")
    http = httpx.Client(transport=limiting(httpx.HTTPTransport(), spender, tokens=lambda request: 20))
    server.plan(*[(503, {"retry-after-ms": "1"}, b"{}")] * 9)
    with (
        openai.OpenAI(api_key="none", base_url=server.url, http_client=http, max_retries=5) as client,
        pytest.raises(QuotaDenied, match="of again"),
    ):
        client.chat.completions.create(model="m", messages=[{"role": "user", "content": "hello"}])
    assert len(server.sent) == 2  # the call, and one retry


def test_decisions_and_the_partners_own_429_are_written_down_and_nothing_of_the_call(
    server: Api, guarding: Guarding, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = tmp_path / "timeline.jsonl"
    monkeypatch.setenv("DRILL_LOG", str(log))
    server.plan((429, {}, b"{}"))
    with httpx.Client(transport=limiting(httpx.HTTPTransport(), Spender(guarding, "ledger"), tokens=1)) as client:
        assert client.post(server.url + "/secret-path", json={"prompt": "secret-words"}).status_code == 429
        with pytest.raises(QuotaDenied):
            for _ in range(6):
                client.get(server.url)
    lines = [json.loads(line) for line in log.read_text().splitlines() if line]
    assert [one["event"] for one in lines].count("partner_limited") == 1
    denied = [one for one in lines if one.get("allowed") is False]
    assert [(one["partner"], one["reason"], one["limit"]) for one in denied] == [("ledger", "over-burst", "requests")]
    assert "secret" not in log.read_text() and "127.0.0.1" not in log.read_text()


def test_waiting_within_the_bound_sends_later_and_not_too_early(server: Api, guarding: Guarding) -> None:
    spender = Spender(guarding, "ledger", max_wait_s=5)
    with httpx.Client(transport=limiting(httpx.HTTPTransport(), spender, tokens=1)) as client:
        for _ in range(5):
            client.get(server.url)
        began = time.monotonic()
        assert client.get(server.url).status_code == 200
    assert 1.5 < time.monotonic() - began < 4


def test_importing_the_guard_brings_no_event_loop_and_no_library() -> None:
    heavy = "{'asyncio', 'socket', 'ssl', 'httpx', 'redis', 'psycopg', 'sqlite3'}"
    script = f"import sys, drillmaster.guards.quota; print(sorted({heavy} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
