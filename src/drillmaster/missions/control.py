"""The driver's control door: HTTP/1.1 with JSON on a Unix socket of mode 0600; only this uid and root are heard.

`GET /state`, `POST /start {start_ns?}`, `POST /no_more {why?}`, `POST /quit {why?}`. One request a connection. `start_ns` is of
the monotonic clock, which all processes of a machine share.
"""

import asyncio
import contextlib
import os
from pathlib import Path
from typing import Any, Protocol

import msgspec

from drillmaster.asked import peer_uid
from drillmaster.errors import Problem
from drillmaster.http1 import HeadReader, Malformed, answer_head, cut_head
from drillmaster.strict import load_as

__all__ = ["Control", "Orders"]

_DEADLINE_S = 10.0
_BODY_CAP_BYTES = 4_096


class Start(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    start_ns: int | None = None


class Why(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    why: str = "ordered"


class Orders(Protocol):
    """What the door can have done."""

    def told(self) -> dict[str, Any]: ...

    def start(self, start_ns: int | None) -> dict[str, Any]: ...

    def no_more(self, why: str) -> dict[str, Any]: ...

    def quit(self, why: str) -> dict[str, Any]: ...


class Control:
    """The door."""

    def __init__(self, path: str, orders: Orders) -> None:
        self._path = Path(path)
        self._orders = orders
        self._server: asyncio.Server | None = None
        self._callers: set[asyncio.StreamWriter] = set()

    async def listen(self) -> None:
        """Raises Problem."""
        old = os.umask(0o177)
        try:
            with contextlib.suppress(FileNotFoundError):
                self._path.unlink()
            self._server = await asyncio.start_unix_server(self._serve, self._path, limit=65_536)
        except OSError as error:
            raise Problem(
                str(self._path),
                found=error.strerror or "an error",
                wanted="a control socket",
                remedy="choose another folder",
            ) from None
        finally:
            os.umask(old)

    def close(self) -> None:
        if self._server is not None:
            self._server.close()
        for writer in tuple(self._callers):
            writer.close()
        with contextlib.suppress(OSError):
            self._path.unlink()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._callers.add(writer)
        try:
            if peer_uid(writer.get_extra_info("socket")) not in (0, os.getuid()):
                return
            async with asyncio.timeout(_DEADLINE_S):
                status, said = await self._answer(reader)
                body = msgspec.json.encode(said)
                fields = [
                    ("content-type", "application/json"),
                    ("content-length", str(len(body))),
                    ("connection", "close"),
                ]
                writer.write(answer_head(status, fields) + body)
                await writer.drain()
        except (OSError, TimeoutError, asyncio.IncompleteReadError):
            return
        finally:
            self._callers.discard(writer)
            writer.close()

    async def _answer(self, reader: asyncio.StreamReader) -> tuple[int, dict[str, Any]]:
        data = b""
        while not (end := cut_head(data)):
            piece = await reader.read(_BODY_CAP_BYTES)
            if not piece:
                raise asyncio.IncompleteReadError(data, None)
            data += piece
            if len(data) > 4 * _BODY_CAP_BYTES:
                return 400, {"error": "a head too large"}
        try:
            head = HeadReader().request(data[:end])
            length = head.length or 0
            if head.chunked or length > _BODY_CAP_BYTES:
                return 400, {"error": "a body with Content-Length, of 4 kB at most"}
            content = data[end:]
            if len(content) < length:
                content += await reader.readexactly(length - len(content))
            return self._obey(head.method, head.path, content[:length] or b"{}")
        except (Malformed, Problem) as bad:
            return 400, {"error": str(bad)}

    def _obey(self, method: str, path: str, content: bytes) -> tuple[int, dict[str, Any]]:
        match method, path:
            case "GET", "/state":
                return 200, self._orders.told()
            case "POST", "/start":
                return 200, self._orders.start(load_as(content, Start, place="order", fmt="json").start_ns)
            case "POST", "/no_more":
                return 200, self._orders.no_more(load_as(content, Why, place="order", fmt="json").why)
            case "POST", "/quit":
                return 200, self._orders.quit(load_as(content, Why, place="order", fmt="json").why)
        return 404, {"error": "no such order; GET /state, POST /start, /no_more, /quit"}
