"""The stand-in provider as a program: HTTP/1.1 on loopback, framed by `http1`.

A request is read whole before it is answered, so that no client sees a reset where an error was meant.
"""

import asyncio
import signal
import time
from collections.abc import AsyncIterator
from contextlib import suppress

import msgspec

from drillmaster import http1
from drillmaster.standins import check_port, say, watch_parent
from drillmaster.standins.provider import Latency, Reply, error_reply, reply_to
from drillmaster.standins.provider_script import Script

__all__ = ["Provider", "serve"]

_BODY_BYTES = 32 * 1024 * 1024
_IDLE_S = 75.0
_HEAD_S = 10.0
_BODY_S = 60.0
_LINGER_S = 1.0
_CONNECTIONS = 1024
_WANTED = frozenset({b"anthropic-version", b"api-key"})

_REASONS = {
    200: "OK",
    202: "Accepted",
    204: "No Content",
    400: "Bad Request",
    404: "Not Found",
    405: "Method Not Allowed",
    413: "Content Too Large",
    431: "Request Header Fields Too Large",
}


class _Refuse(Exception):
    """A request that cannot be framed: answer with this status and close."""

    def __init__(self, status: int, why: str) -> None:
        super().__init__(why)
        self.status = status
        self.why = why


class Provider:
    """One provider on one listening socket. `served` counts requests answered.

    `dialect` is the API that it is, for paths that several have; None: the path says. `script` is what its models say
    that the script knows of; None: they speak for themselves.
    """

    def __init__(self, latency: Latency, dialect: str | None = None, script: Script | None = None) -> None:
        self.latency = latency
        self.dialect = dialect
        self.script = script
        self.served = 0
        self._serving: set[asyncio.Task[None]] = set()

    async def start(self, host: str, port: int) -> asyncio.Server:
        """Listen; port 0 takes a free one. Raises OSError when the port cannot be had."""
        return await asyncio.start_server(self._accept, host, port, backlog=256)

    async def drop(self) -> None:
        """Cut every open connection."""
        for task in self._serving:
            task.cancel()
        await asyncio.gather(*self._serving, return_exceptions=True)

    # A plain function, so that the tasks are ours: `asyncio.streams` complains of its own when they are cancelled.
    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if len(self._serving) >= _CONNECTIONS:
            writer.transport.abort()
            return
        task = asyncio.create_task(self._connection(_Wire(reader, writer)))
        self._serving.add(task)
        task.add_done_callback(self._serving.discard)

    async def _connection(self, wire: "_Wire") -> None:
        try:
            while await self._exchange(wire):
                pass
            wire.writer.close()
        except (ConnectionError, TimeoutError):
            pass  # the client went away, or dawdled; a real provider says nothing either
        finally:
            if not wire.writer.is_closing():
                wire.writer.transport.abort()

    async def _exchange(self, wire: "_Wire") -> bool:
        """Serve one request; False when the connection is over."""
        path = ""
        try:
            head = await wire.head()
            if head is None:
                return False
            path = head.origin_form.decode("latin-1")
            body = await wire.body(head)
        except _Refuse as refusal:
            self.served += 1
            reply = error_reply(path, refusal.status, refusal.why, number=self.served, dialect=self.dialect)
            await _send(wire.writer, reply, keep=False, head_only=False, minor=1)
            await wire.linger()
            return False
        self.served += 1
        number = self.served
        fields = {name.decode(): value.decode("latin-1") for name, value in head.named.items()}
        now_s = int(time.time())
        reply = reply_to(
            head.method,
            path,
            fields,
            body,
            number=number,
            now_s=now_s,
            dialect=self.dialect,
            script=self.script,
        )
        started = time.monotonic()
        if reply.thinks:
            await asyncio.sleep(self.latency.first_s(number))
        if "x-request-id" in reply.headers:
            spent_ms = round((time.monotonic() - started) * 1e3)
            reply = msgspec.structs.replace(reply, headers={**reply.headers, "openai-processing-ms": str(spent_ms)})
        keep = head.keep_alive and head.minor == 1
        gap_s = self.latency.token_ms / 1e3
        await _send(wire.writer, reply, keep=keep, head_only=head.method == "HEAD", minor=head.minor, gap_s=gap_s)
        return keep


class _Wire:
    """One connection, read message by message."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.writer = writer
        self._reader = reader
        self._heads = http1.HeadReader(_WANTED)
        self._held = b""

    async def _more(self) -> bytes:
        data = await self._reader.read(65_536)
        if not data:
            raise ConnectionResetError("the client closed within a message")
        return data

    async def head(self) -> http1.RequestHead | None:
        """The next head; None when the client is done. Raises _Refuse, TimeoutError."""
        try:
            if not self._held:
                async with asyncio.timeout(_IDLE_S):
                    self._held = await self._reader.read(65_536)
                if not self._held:
                    return None
            async with asyncio.timeout(_HEAD_S):
                while not (end := http1.cut_head(self._held)):
                    self._held += await self._more()
            raw, self._held = self._held[:end], self._held[end:]
            return self._heads.request(raw)
        except http1.Malformed as error:
            raise _Refuse(431 if len(self._held) >= http1.MAX_HEAD_BYTES else 400, error.why) from None

    async def body(self, head: http1.RequestHead) -> bytes:
        """The whole body of that head. Raises _Refuse, TimeoutError."""
        if head.length is not None and head.length > _BODY_BYTES:
            raise _Refuse(413, f"more than {_BODY_BYTES} bytes of body")
        coming = http1.request_body(head)
        if head.expects and not coming.done and not self._held:
            self.writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        body = bytearray()
        try:
            async with asyncio.timeout(_BODY_S):
                while not coming.done:
                    data, self._held = self._held or await self._more(), b""
                    body += coming.feed(data)
                    if len(body) > _BODY_BYTES:
                        raise _Refuse(413, f"more than {_BODY_BYTES} bytes of body")
        except http1.Malformed as error:
            raise _Refuse(400, error.why) from None
        self._held = coming.rest or self._held
        return bytes(body)

    async def linger(self) -> None:
        """Let what is still on its way arrive, for a while: else our end would be a reset and eat the answer."""
        self.writer.write_eof()
        with suppress(TimeoutError):
            async with asyncio.timeout(_LINGER_S):
                while await self._reader.read(65_536):
                    pass


async def _send(
    writer: asyncio.StreamWriter, reply: Reply, *, keep: bool, head_only: bool, minor: int, gap_s: float = 0.0
) -> None:
    """Frame and send. A stream goes out chunked, an event a chunk; to HTTP/1.0 it ends with the connection."""
    keep = keep and minor == 1
    stamp = time.strftime("%a, %d %b %Y %H:%M:%S GMT", time.gmtime())
    lines = [f"HTTP/1.1 {reply.status} {_REASONS.get(reply.status, 'Status')}", "server: drillmaster-standin"]
    lines += [f"date: {stamp}", f"content-type: {reply.content_type}"]
    lines += [f"{name}: {value}" for name, value in reply.headers.items()]
    chunked = reply.body is None and minor == 1
    if reply.status == 204:
        lines.pop(3)  # of no content there is no type and no length
    elif reply.body is not None:
        lines.append(f"content-length: {len(reply.body)}")
    else:
        lines.append("cache-control: no-cache")
        if chunked:
            lines.append("transfer-encoding: chunked")
    if not keep:
        lines.append("connection: close")
    head = "\r\n".join(lines).encode("latin-1") + b"\r\n\r\n"
    if reply.body is not None or head_only:
        writer.write(head + (b"" if head_only else reply.body or b""))
        await writer.drain()
        return
    writer.write(head)
    async for event in _paced(reply.events, gap_s):
        writer.write(http1.chunk(event) if chunked else event)
        await writer.drain()
    if chunked:
        writer.write(http1.LAST_CHUNK)
        await writer.drain()


async def _paced(events: tuple[bytes, ...], gap_s: float) -> AsyncIterator[bytes]:
    for i, event in enumerate(events):
        if i and gap_s:
            await asyncio.sleep(gap_s)
        yield event


async def _until_told(host: str, port: int, latency: Latency, dialect: str | None, die_with_parent: bool) -> None:
    loop = asyncio.get_running_loop()
    told = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, told.set)
    if die_with_parent:
        watch_parent(loop.call_soon_threadsafe, told.set)
    provider = Provider(latency, dialect)
    try:
        server = await provider.start(host, port)
    except OSError as error:
        raise check_port(host, port, error) from None
    address = server.sockets[0].getsockname()
    shown = f"[{address[0]}]" if ":" in address[0] else address[0]
    say(f"standin provider listening on http://{shown}:{address[1]}/v1")
    await told.wait()
    server.close()
    await provider.drop()


def serve(host: str, port: int, latency: Latency, *, dialect: str | None = None, die_with_parent: bool = False) -> None:
    """Serve until SIGTERM, SIGINT or, when asked, the parent's end. Prints the address on one line of stdout."""
    asyncio.run(_until_told(host, port, latency, dialect, die_with_parent))
