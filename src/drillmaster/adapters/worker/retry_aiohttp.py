"""The retry guard inside aiohttp: a middleware of its client (aiohttp 3.12 or later).

`aiohttp.ClientSession(middlewares=(retrying(retries),))`. Redirects are aiohttp's, and each hop a call of its own. A body of bytes,
text, JSON or a form without files is sent again; what aiohttp reads from a stream, a file or a generator is sent once. An answer
to a call that failed holds what became of it (`outcome_of`).

aiohttp itself sends GET, PUT, DELETE and their like once more when their connection breaks, past all middleware. Such a failure is
handed on as a `LostConnection`, which aiohttp lets through; its cause is aiohttp's own exception.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import aiohttp

from drillmaster.adapters.worker.retry import MOST_BODY_BYTES, Retries, carry_async

__all__ = ["LostConnection", "retrying"]

Handler = Callable[[Any], Awaitable[Any]]
_WHOLE = frozenset({"BytesPayload", "StringPayload", "JsonPayload"})


class LostConnection(aiohttp.ClientConnectionError):
    """The connection broke, and nobody knows what became of the call: it is not sent again."""


def retrying(retries: Retries) -> Callable[[Any, Handler], Awaitable[Any]]:
    """Make the middleware."""

    async def middleware(request: Any, handler: Handler) -> Any:
        retries.check_nested(request.headers)
        wire = _Wire(request, handler)
        body = request.body
        replayable = not body or type(body).__name__ in _WHOLE
        key = retries.key_of(request.headers)
        try:
            outcome = await carry_async(retries, wire, request.method, key, replayable=replayable)
        except (aiohttp.ClientOSError, aiohttp.ServerDisconnectedError) as error:
            if isinstance(error, aiohttp.ClientConnectorError):  # there was no connection, and aiohttp lets it through
                raise
            raise LostConnection(str(error)) from error
        if outcome is not None:
            wire.response.drillmaster = outcome
        return wire.response

    return middleware


class _Wire:
    def __init__(self, request: Any, handler: Handler) -> None:
        self._request, self._handler = request, handler
        self.response: Any = None

    async def send(self, left_ms: int | None) -> tuple[int, Any]:
        try:
            async with asyncio.timeout(None if left_ms is None else left_ms / 1_000) as limit:
                self.response = await self._handler(self._request)
        except TimeoutError as error:
            if limit.expired():
                raise aiohttp.ServerTimeoutError("no answer before the deadline of the whole call") from error
            raise
        return self.response.status, self.response.headers.items

    async def drop(self) -> None:
        if self.response is not None:
            self.response.close()

    async def body(self) -> bytes | None:
        # aiohttp keeps what was read for the caller; a body that does not say its length is not read here.
        length = self.response.content_length
        if length is None or length > MOST_BODY_BYTES:
            return None
        whole: bytes = await self.response.read()
        return whole if len(whole) <= MOST_BODY_BYTES else None
