"""A fence in front of an HTTP service: the header with the token, and an ASGI middleware that checks it.

1. A client that holds a lease sends its token: `Fencing-Token: 1796088673521405`, once, as the store gave it.
2. The middleware asks the law of `rules.fence`, in a store of the service: the highest token that a resource saw. An older one is
   answered 412, and so is none, two, or one that is none; the reason is in the body. 412 and not 409, which clients send again.
   A store that does not answer is a 503. A WebSocket is asked once, when it opens.
3. What only reads passes (`safe`).
4. It stands at the door, and not at the write: a request that passed and was then held up is older by the time it writes. The token
   is in the scope's `state` as `fencing_token`, so that the handler can fence its own write (`stores.fences`).
"""

import posixpath
import re
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

import msgspec

from drillmaster.rules.fence import LAW, REASONS, FencedWrite, read_token
from drillmaster.stores import AsyncStore, Unavailable

__all__ = ["HEADER", "FenceMiddleware", "fencing_headers"]

HEADER = "Fencing-Token"
_REASONS: dict[str, str] = {
    **REASONS,
    "token-missing": "The request has no Fencing-Token.",
    "token-unusable": "Its Fencing-Token is none that a store gave, or there is more than one.",
    "resource-unnamed": "Nobody knows what the request is about.",
    "store-unavailable": "Nobody can say which token is the newest.",
}
_NO_TEXT = re.compile("[\x00\ud800-\udfff]")
Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]


def fencing_headers(token: str) -> dict[str, str]:
    """Give the header for a client's request. Raises ValueError for a token that is none."""
    if read_token(token) is None:
        raise ValueError("a fencing token as the store gave it")
    return {HEADER: token}


class FenceMiddleware:
    """Let through what comes under the newest token of its resource, and refuse what does not.

    `resource` names what a request changes, from its ASGI scope; by itself that is its path. None of it: refused.
    """

    def __init__(
        self,
        app: App,
        store: AsyncStore,
        *,
        resource: Callable[[Scope], str | None] | None = None,
        safe: frozenset[str] = frozenset({"GET", "HEAD", "OPTIONS"}),
    ) -> None:
        self._app, self._store, self._safe = app, store, safe
        self._resource = resource or _path

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan" or (scope["type"] == "http" and scope["method"] in self._safe):
            await self._app(scope, receive, send)
            return
        reason, token = await self._judged(scope)
        if reason != "current":
            await _refuse(scope, send, reason)
            return
        scope.setdefault("state", {})["fencing_token"] = token
        await self._app(scope, receive, send)

    async def _judged(self, scope: Scope) -> tuple[str, str]:
        given = [value for name, value in scope["headers"] if name.lower() == HEADER.lower().encode()]
        if not given:
            return "token-missing", ""
        token = given[0].decode("latin-1")
        number = read_token(token) if len(given) == 1 else None
        if number is None:
            return "token-unusable", ""
        resource = self._resource(scope)
        if not isinstance(resource, str) or not resource or _NO_TEXT.search(resource):
            return "resource-unnamed", ""
        try:
            told = await self._store.ask(LAW, resource, FencedWrite(token=number))
        except Unavailable:
            return "store-unavailable", ""
        return told.reason, token


def _path(scope: Scope) -> str | None:
    """Name the path, the same for all its spellings with more slashes and dots: most services take them for one."""
    path = str(scope.get("path") or "")
    return posixpath.normpath("/" + path.lstrip("/")) if path else None


async def _refuse(scope: Scope, send: Send, reason: str) -> None:
    if scope["type"] != "http":
        await send({"type": "websocket.close", "code": 1008, "reason": reason})
        return
    body = msgspec.json.encode({"reason": reason, "said": _REASONS[reason]})
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    status = 503 if reason == "store-unavailable" else 412
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
