"""The recorded models and tools of one mission, served again on loopback: the same bytes, at the same pace.

1. Who asks what was asked, next in the order of the recording, gets what came. Calls that were under way at the same time may be
   asked in any order. What is compared, and what may differ, is the law of `rules/divergence.py`.
2. Another request gets 409 and an error that names the first difference; it changes nothing. A request of the beginning begins
   again, and so does one behind the last.
3. An answer that failed fails again: where no answer came, the connection is closed after the time that it took. What was not
   recorded whole is cut where the recording ends.
4. Pieces come as chunks of their own, at the offsets that were recorded, or as fast as they are taken.
5. One request has `REQUEST_S` to arrive, at most `BODY_BYTES`; `CONNECTIONS` may be open.
"""

import asyncio
import contextlib
import socket
from collections.abc import Callable, Sequence
from typing import Any, Literal

import msgspec

from drillmaster.http1 import HeadReader, Malformed, RequestHead, answer_head, chunk, cut_head, request_body
from drillmaster.http1.bodies import LAST_CHUNK
from drillmaster.rules.divergence import Normal, as_value, difference
from drillmaster.screen import screen_value
from drillmaster.transcripts.exchanges import Exchange
from drillmaster.transcripts.redacting import redact, redact_url

__all__ = ["Served", "Shelf", "Told", "serve"]

REQUEST_S = 60.0
BODY_BYTES = 16 << 20
CONNECTIONS = 256
_READ_BYTES = 65_536


class Served(msgspec.Struct, frozen=True, kw_only=True):
    """One request and what became of it."""

    method: str
    path: str
    exchange: int | None
    """Which one was served; None: none fitted."""
    status: int | None
    difference: str
    begun_again: bool = False


class Told(msgspec.Struct, kw_only=True):
    """What the server has seen so far."""

    rounds: int = 0
    """How often the whole recording was served."""
    served: int = 0
    diverged: int = 0
    first_difference: str = ""


class Shelf:
    """Which exchange is next; pure. `given` is what the user said in the recording."""

    def __init__(self, exchanges: Sequence[Exchange], given: str) -> None:
        self._all = list(exchanges)
        self._given = given
        self._left = list(exchanges)
        self.told = Told()

    def take(self, method: str, target: str, body: bytes) -> tuple[Exchange | None, Served]:
        """Find what a request is served with; None, and the first difference, where nothing fits."""
        path, _, query = redact_url(target).partition("?")
        value = as_value(b"".join(redact([body]))) if body else None
        begun_again = False
        if not self._left:
            self._left, begun_again = list(self._all), True
        found, why = self._fitting(self._open(self._left), method, path, query, value)
        if found is None and len(self._left) < len(self._all):
            again, _ = self._fitting(self._open(self._all), method, path, query, value)
            if again is not None:
                self._left, begun_again, found = list(self._all), True, again
        if found is None:
            self.told.diverged += 1
            self.told.first_difference = self.told.first_difference or why
            return None, Served(method=method, path=path, exchange=None, status=409, difference=why)
        self._left.remove(found)
        self.told.served += 1
        self.told.rounds += not self._left
        return found, Served(
            method=method,
            path=path,
            exchange=found.number,
            status=found.status,
            difference="",
            begun_again=begun_again,
        )

    @staticmethod
    def _open(left: list[Exchange]) -> list[Exchange]:
        """Those that may be asked now: the next one, and what was asked while it was under way."""
        return [one for one in left if one is left[0] or one.begins < left[0].ends]

    def _fitting(
        self, candidates: list[Exchange], method: str, path: str, query: str, value: Any
    ) -> tuple[Exchange | None, str]:
        closest = ""
        for one in candidates:
            why = self._why_not(one, method, path, query, value)
            if not why:
                return one, ""
            # Of several the one that agrees in where it goes says more.
            if not closest or (one.path == path and ": path " in closest):
                closest = why
        return None, closest or "nothing is recorded"

    def _why_not(self, one: Exchange, method: str, path: str, query: str, value: Any) -> str:
        place = f"exchange {one.number} ({one.kind}{f' {one.tool}' if one.tool else ''})"
        if one.path and (one.method, one.path) != (method, path):
            return f"{place}: path or method: recorded {one.method} {one.path}, now {method} {path}"
        old, new = Normal(self._given), Normal(self._given)
        found = difference(old.value(_query(one.query)), new.value(_query(query)))
        if found is not None:
            return f"{place}: query {found[0]}: recorded {found[1]}, now {found[2]}"
        found = difference(old.value(one.asked), new.value(value))
        if found is None:
            return ""
        return f"{place}: {found[0]}: recorded {found[1]}, now {found[2]}"


def _query(query: str) -> dict[str, str]:
    """Names and values; a value that was covered is the same whatever its length."""
    found = {}
    for part in query.split("&"):
        name, _, value = part.partition("=")
        if name:
            found[name] = "***" if value and not value.strip("*") else value
    return found


async def serve(
    shelf: Shelf,
    *,
    host: str,
    port: int,
    ready: Callable[[str, int], None],
    say: Callable[[Served], None],
    as_fast_as_possible: bool = False,
    once: bool = False,
    stop: asyncio.Event | None = None,
) -> Told:
    """Serve until `stop` is set; with `once` until all was served once, or a request diverged. Raises OSError."""
    over = stop or asyncio.Event()
    live: set[asyncio.Task[None]] = set()

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        if len(live) >= CONNECTIONS:
            writer.close()
            return
        live.add(task)
        try:
            await _Door(shelf, say, fast=as_fast_as_possible, once=over if once else None).hold(reader, writer)
        except (OSError, asyncio.CancelledError):
            pass
        finally:
            live.discard(task)
            writer.close()

    server = await asyncio.start_server(handle, host, port, limit=_READ_BYTES, family=_family(host))
    async with server:
        at = server.sockets[0].getsockname()
        ready(at[0], at[1])
        await over.wait()
        server.close()
        if live:
            await asyncio.wait(list(live), timeout=0.5)  # who is being told why has a moment to hear it
        for task in list(live):
            task.cancel()
        await asyncio.gather(*live, return_exceptions=True)
    return shelf.told


def _family(host: str) -> socket.AddressFamily:
    return socket.AF_INET6 if ":" in host else socket.AF_INET


class _Door:
    """One connection."""

    def __init__(self, shelf: Shelf, say: Callable[[Served], None], *, fast: bool, once: asyncio.Event | None) -> None:
        self._shelf = shelf
        self._say = say
        self._fast = fast
        self._once = once
        self._heads = HeadReader()

    async def hold(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        rest = b""
        while True:
            try:
                async with asyncio.timeout(REQUEST_S):
                    read = await self._request(reader, writer, rest)
            except (Malformed, TimeoutError) as error:
                why = error.why if isinstance(error, Malformed) else "it did not come in time"
                await self._refuse(writer, 400, f"the request cannot be read: {why}")
                return
            if read is None:
                return
            head, body, rest = read
            # In the origin form: a proxy's absolute one says the same.
            found, told = self._shelf.take(head.method, head.origin_form.decode("latin-1"), body)
            self._say(told)
            if found is None:
                await self._refuse(writer, 409, told.difference)
            elif not await self._answer(writer, found, head):
                self._is_over()
                return
            self._is_over(diverged=found is None)
            if not head.keep_alive:
                return

    def _is_over(self, *, diverged: bool = False) -> None:
        if self._once is not None and (diverged or self._shelf.told.rounds):
            self._once.set()

    async def _request(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, data: bytes
    ) -> tuple[RequestHead, bytes, bytes] | None:
        while not (end := cut_head(data)):
            more = await reader.read(_READ_BYTES)
            if not more:
                return None
            data += more
        head = self._heads.request(data[:end])
        if head.upgrade is not None:
            raise Malformed("an upgrade, and only HTTP is served")
        if head.expects:
            writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        framing = request_body(head)
        body = [framing.feed(data[end:])] if not framing.done else []
        rest = framing.rest if body else data[end:]
        size = sum(map(len, body))
        while not framing.done:
            more = await reader.read(_READ_BYTES)
            if not more:
                return None
            body.append(framing.feed(more))
            rest = framing.rest
            size += len(body[-1])
            if size > BODY_BYTES:
                raise Malformed("a body over 16 MB")
        return head, b"".join(body), rest

    async def _answer(self, writer: asyncio.StreamWriter, one: Exchange, head: RequestHead) -> bool:
        """Give what came; False where the connection is to be closed as it was then."""
        if not self._fast:
            await asyncio.sleep(one.wait_ms / 1e3)
        if one.status is None:
            _reset(writer)
            return False
        bodyless = head.method == "HEAD" or one.status in (204, 304) or one.status < 200
        writer.write(answer_head(one.status, _fields(one, bodyless)))
        if bodyless:
            await writer.drain()
            return True
        began = asyncio.get_running_loop().time()
        for at_ms, data in one.pieces:
            if not self._fast:
                left_s = began + at_ms / 1e3 - asyncio.get_running_loop().time()
                if left_s > 0:
                    await writer.drain()
                    await asyncio.sleep(left_s)
            if data:
                writer.write(chunk(data))
        if not one.whole and one.pieces:
            await writer.drain()
            _reset(writer)
            return False
        writer.write(LAST_CHUNK)
        await writer.drain()
        return True

    async def _refuse(self, writer: asyncio.StreamWriter, status: int, why: str) -> None:
        kind: Literal["replay_divergence", "replay_request"] = (
            "replay_divergence" if status == 409 else "replay_request"
        )
        body = msgspec.json.encode({"error": {"type": kind, "code": kind, "message": screen_value(why, 1_000)}})
        fields = [
            ("content-type", "application/json"),
            ("content-length", str(len(body))),
            ("x-should-retry", "false"),  # SDKs that try a 409 again do not try this one
        ]
        writer.write(answer_head(status, fields) + body)
        await writer.drain()


def _fields(one: Exchange, bodyless: bool) -> list[tuple[str, str]]:
    kept = [
        (name, value.encode("latin-1", "replace").decode("latin-1"))
        for name, value in one.headers
        if name.replace("-", "").replace("_", "").isalnum() and not set("\r\n\0") & set(value)
    ]
    return kept if bodyless else [*kept, ("transfer-encoding", "chunked")]


def _reset(writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError, AttributeError):
        writer.transport.abort()
