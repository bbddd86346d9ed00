"""A fence in front of a service on a real socket: two workers, of which one was paused, and a store that is shared."""

import asyncio
import socket
from pathlib import Path
from typing import Any

import httpx
import pytest

from drillmaster.adapters.worker.fence_header import FenceMiddleware, fencing_headers
from drillmaster.adapters.worker.lease import hold_async
from drillmaster.guards.lease import Lease
from drillmaster.stores.opening import open_async_store
from tests.e2e.leaselab import store_url

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(60)]

STORES = [
    "sqlite",
    pytest.param("postgresql", marks=pytest.mark.needs("postgres")),
    pytest.param("redis", marks=pytest.mark.needs("redis-server")),
]


@pytest.mark.parametrize("kind", STORES)
def test_a_paused_workers_request_is_refused_by_the_service(kind: str, tmp_path: Path) -> None:
    import uvicorn
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import PlainTextResponse
    from starlette.routing import Route

    async def put(request: Request) -> PlainTextResponse:
        return PlainTextResponse(request.state.fencing_token)

    async def go(url: str) -> None:
        store = open_async_store(url, within_s=5)
        app: Any = FenceMiddleware(Starlette(routes=[Route("/exports/{day}", put, methods=["PUT", "GET"])]), store)
        listening = socket.create_server(("127.0.0.1", 0))
        server = uvicorn.Server(uvicorn.Config(app, log_level="error", lifespan="off", ws="none"))
        serving = asyncio.create_task(server.serve([listening]))
        guard = Lease(lease="export", ttl_ms=200, may_steal=())
        base = f"http://127.0.0.1:{listening.getsockname()[1]}"
        async with httpx.AsyncClient(base_url=base, trust_env=False) as client:

            async def write(token: str) -> tuple[int, str]:
                said = await client.put("/exports/1", headers=fencing_headers(token))
                return said.status_code, said.text

            async with hold_async(guard, store, by="a") as first:
                assert await write(first.token) == (200, first.token)
                first._task.cancel()  # as if it had been stopped: nothing renews
                async with hold_async(guard, store, by="b", wait_s=5) as second:
                    assert await write(second.token) == (200, second.token)
                    status, said = await write(first.token)
                    assert status == 412 and "stale-token" in said
                    assert await write(second.token) == (200, second.token)
                    assert (await client.put("/exports/1")).status_code == 412
        server.should_exit = True
        await serving
        await store.close()

    with store_url(kind, tmp_path) as url:
        asyncio.run(go(url))
