"""The retry guard inside httpx and httpx2: a transport around another one, with an event loop or without.

1. `retrying(transport, retries)` gives a transport of the same kind. Both libraries know transports by their methods, so one text
   serves both, and whatever lies inside (a proxy's, a mock's) stays as it is.
2. Redirects are the client's: each hop is a call of its own. So are timeouts: one that strikes is a call without an answer. While
   a call that is sent again waits for its answer's head, each of them is at most what is left of the deadline.
3. A body that was given as bytes, JSON or a form is sent again as it was. A generator or an upload is sent once.
4. The answer that a caller gets is the library's own, unread. What became of a call that failed is in its extensions
   (`outcome_of`).
"""

import contextlib
import time
import zlib
from collections.abc import Iterator
from typing import Any, TypeVar, cast

from drillmaster.adapters.worker.retry import MOST_BODY_BYTES, Retries, carry, carry_async

__all__ = ["AsyncRetryTransport", "RetryTransport", "retrying"]

T = TypeVar("T")


def retrying(transport: T, retries: Retries) -> T:
    """Put the guard around a transport of httpx or httpx2: `httpx.Client(transport=retrying(httpx.HTTPTransport(), retries))`."""
    kind = AsyncRetryTransport if hasattr(transport, "handle_async_request") else RetryTransport
    return cast(T, kind(transport, retries))


class RetryTransport:
    def __init__(self, inner: Any, retries: Retries) -> None:
        self._inner, self._retries = inner, retries

    def handle_request(self, request: Any) -> Any:
        """Send a request as often as the guard allows. Raises what the last attempt raised, and Refused."""
        retries = self._retries
        retries.check_nested(request.headers)
        wire = _Wire(self._inner, request)
        key = retries.key_of(request.headers)
        outcome = carry(retries, wire, request.method, key, replayable=_replayable(request))
        if outcome is not None:
            wire.response.extensions["drillmaster"] = outcome
        return wire.response

    def close(self) -> None:
        self._inner.close()

    def __enter__(self) -> "RetryTransport":
        self._inner.__enter__()
        return self

    def __exit__(self, *args: Any) -> None:
        self._inner.__exit__(*args)


class AsyncRetryTransport:
    def __init__(self, inner: Any, retries: Retries) -> None:
        self._inner, self._retries = inner, retries

    async def handle_async_request(self, request: Any) -> Any:
        """Send a request as often as the guard allows. Raises what the last attempt raised, and Refused."""
        retries = self._retries
        retries.check_nested(request.headers)
        wire = _AsyncWire(self._inner, request)
        key = retries.key_of(request.headers)
        outcome = await carry_async(retries, wire, request.method, key, replayable=_replayable(request))
        if outcome is not None:
            wire.response.extensions["drillmaster"] = outcome
        return wire.response

    async def aclose(self) -> None:
        await self._inner.aclose()

    async def __aenter__(self) -> "AsyncRetryTransport":
        await self._inner.__aenter__()
        return self

    async def __aexit__(self, *args: Any) -> None:
        await self._inner.__aexit__(*args)


class _Wire:
    def __init__(self, inner: Any, request: Any) -> None:
        self._inner, self._request = inner, request
        self.response: Any = None

    def send(self, left_ms: int | None) -> tuple[int, Any]:
        with _within(self._request, left_ms):
            self.response = self._inner.handle_request(self._request)
        return self.response.status_code, self.response.headers.multi_items

    def drop(self) -> None:
        if self.response is not None:
            self.response.close()

    def body(self) -> bytes | None:
        seen, rest = [], iter(self.response.stream)
        whole = _Seen(self.response.headers.get("content-encoding", ""))
        for chunk in rest:
            seen.append(chunk)
            if whole.add(chunk):
                break
        self.response.stream = _again(self.response.stream, seen, rest)
        return whole.decoded()


class _AsyncWire:
    def __init__(self, inner: Any, request: Any) -> None:
        self._inner, self._request = inner, request
        self.response: Any = None

    async def send(self, left_ms: int | None) -> tuple[int, Any]:
        with _within(self._request, left_ms):
            self.response = await self._inner.handle_async_request(self._request)
        return self.response.status_code, self.response.headers.multi_items

    async def drop(self) -> None:
        if self.response is not None:
            await self.response.aclose()

    async def body(self) -> bytes | None:
        seen, rest = [], aiter(self.response.stream)
        whole = _Seen(self.response.headers.get("content-encoding", ""))
        async for chunk in rest:
            seen.append(chunk)
            if whole.add(chunk):
                break
        self.response.stream = _again_async(self.response.stream, seen, rest)
        return whole.decoded()


class _Left(dict[str, Any]):
    """A request's time limits, each looked up when its part begins, and at most what is left then."""

    def __init__(self, own: Any, due_s: float) -> None:
        super().__init__(own)
        self._due_s = due_s

    def __getitem__(self, name: str) -> Any:
        return self.get(name)

    def get(self, name: str, default: Any = None) -> Any:
        left_s, own_s = max(0.001, self._due_s - time.monotonic()), super().get(name, default)
        return left_s if own_s is None else min(own_s, left_s)


@contextlib.contextmanager
def _within(request: Any, left_ms: int | None) -> Iterator[None]:
    """Let a request wait no longer for its answer. The body that comes behind has the caller's own limits."""
    if left_ms is None:
        yield
        return
    extensions, own = request.extensions, request.extensions.get("timeout")
    extensions["timeout"] = _Left(own or {}, time.monotonic() + left_ms / 1_000)
    try:
        yield
    finally:
        if own is None:
            del extensions["timeout"]
        else:
            extensions["timeout"] = own


class _Seen:
    """The beginning of a body, undone of its coding."""

    def __init__(self, coding: str) -> None:
        coding = coding.strip().lower()
        self._plain = coding in ("", "identity")
        self._zip = zlib.decompressobj(zlib.MAX_WBITS | 32) if coding in ("gzip", "deflate") else None
        self._raw = bytearray()

    def add(self, chunk: bytes) -> bool:
        """Take a piece; True: it is more than is read."""
        self._raw += chunk
        return len(self._raw) > MOST_BODY_BYTES

    def decoded(self) -> bytes | None:
        """None: it is longer, or of a coding that is not known or was not kept."""
        if len(self._raw) > MOST_BODY_BYTES or not (self._plain or self._zip):
            return None
        if self._zip is None:
            return bytes(self._raw)
        try:
            whole = self._zip.decompress(bytes(self._raw), MOST_BODY_BYTES)
            return whole if not self._zip.unconsumed_tail else None
        except zlib.error:
            return None


def _again(stream: Any, seen: list[bytes], rest: Any) -> Any:
    """Make a stream of what was read and what was not, of the library's own kind, so that a caller reads it as ever."""

    def parts(self: Any) -> Any:
        yield from seen
        yield from rest

    return _made(stream, "SyncByteStream", {"__iter__": parts, "close": lambda self: stream.close()})


def _again_async(stream: Any, seen: list[bytes], rest: Any) -> Any:
    async def parts(self: Any) -> Any:
        for one in seen:
            yield one
        async for one in rest:
            yield one

    async def close(self: Any) -> None:
        await stream.aclose()

    return _made(stream, "AsyncByteStream", {"__aiter__": parts, "aclose": close})


def _made(stream: Any, name: str, methods: dict[str, Any]) -> Any:
    base = next((kind for kind in type(stream).__mro__ if kind.__name__ == name), object)
    return type(name, (base,), methods)()


def _replayable(request: Any) -> bool:
    """Whether the body is at hand as a whole."""
    try:
        request.content  # noqa: B018 - it raises where the body is a stream
    except Exception as error:
        if type(error).__name__ == "RequestNotRead":
            return False
        raise
    return True
