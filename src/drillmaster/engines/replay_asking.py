"""One mission asked again: each message of the user as it was recorded, one behind the other, and what comes of it.

1. It asks once, follows nothing and tries nothing again. One message has `limit_s` from its connection to its answer's end.
2. Headers travel as they were recorded, but for what is the connection's and what was covered as a secret; `extra` is put in.
3. An id that an answer made anew, and that a later message carries, is replaced by the one that came this time.
4. On a WebSocket an answer is over with the first message that has the form of the last one recorded (the same names, and the
   same `type` where there is one), or when nothing more comes within the limit.
5. A host that is called loopback has to be one: the connected address counts.
"""

import base64
import contextlib
import os
import re
import socket
import ssl
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

import msgspec

from drillmaster import ws
from drillmaster.errors import Problem, Refused
from drillmaster.http1 import CloseBody, HeadReader, Malformed, cut_head, response_body
from drillmaster.rules.divergence import Normal, Said, as_value, folded
from drillmaster.sanity import is_loopback
from drillmaster.transcripts.exchanges import Message
from drillmaster.transcripts.redacting import redact

__all__ = ["Answered", "ask_again"]

ANSWER_BYTES = 16 << 20
_READ_BYTES = 65_536
_GOODBYE = (1000).to_bytes(2, "big")
_NOT_OURS = frozenset(
    {
        "host", "content-length", "transfer-encoding", "connection", "keep-alive", "upgrade", "te", "trailer", "expect",
        "accept-encoding", "traceparent", "tracestate", "x-drill-mission", "x-drill-run", "x-drill-request", "sec-websocket-key",
        "sec-websocket-version", "sec-websocket-extensions", "proxy-connection",
    }
)  # fmt: skip  # words


class Answered(msgspec.Struct, frozen=True, kw_only=True):
    """What one message came to this time. `trouble`: what went wrong on the way; ""."""

    said: Said
    took_ms: float
    trouble: str


def ask_again(
    messages: Sequence[Message],
    url: str,
    *,
    mission: str,
    extra: Mapping[str, str],
    limit_s: float,
    permitted: bool,
    ca: str | None = None,
) -> Iterator[Answered]:
    """Ask all messages, and tell each answer when it is there. Raises Problem where the target cannot be reached at all."""
    base = urlsplit(url)
    host = base.hostname or ""
    place = _Place(host, base.port or (443 if base.scheme == "https" else 80), base.scheme == "https", permitted, ca)
    given = "\n".join(one.body.decode("utf-8", "replace") for one in messages)
    old, new = Normal(given), Normal(given)
    open_: tuple[int, _Dialogue] | None = None
    try:
        for one in messages:
            body = _renewed(one.body, old, new)
            if one.entry == "websocket" and not one.url and base.path in ("", "/"):
                raise Problem(
                    "--url",
                    found="no path, and none in the transcript of this WebSocket",
                    wanted="where its WebSocket is",
                    remedy=f"--url {url.rstrip('/')}/PATH, or have the worker record `url` with each `user`",
                )
            target = _target(base.path, _renewed(one.url.encode(), old, new).decode("utf-8", "replace"))
            fields = {name: value for name, value in one.headers if _travels(name, value)}
            fields = {**fields, **extra, "X-Drill-Mission": mission, "Host": base.netloc.rpartition("@")[2]}
            began = time.monotonic()
            until = began + limit_s
            status: int | None = None
            pieces: list[bytes] = []
            trouble = ""
            try:
                if one.entry == "websocket":
                    if open_ is None or open_[0] != one.part:
                        if open_ is not None:
                            open_[1].close()
                        open_ = (one.part, _Dialogue(place, target, fields, until))
                    for piece in open_[1].ask(body, one.said.pieces, until):
                        pieces.append(piece)
                else:
                    status, pieces = _http(place, one.method, target, fields, body, until)
            except (OSError, Malformed, _Trouble) as error:
                trouble = _named(error)
                if open_ is not None:
                    open_[1].close()
                    open_ = None
                if isinstance(error, _Trouble):
                    status = error.status
            kept = redact(pieces)
            whole = None if (one.entry == "http" and status is None) or (not pieces and trouble) else b"".join(kept)
            old.value(folded(one.said.pieces or (one.said.answer or b"",)))
            new.value(folded(kept))
            yield Answered(
                said=Said(
                    tools=None,
                    status=status if one.entry == "http" or trouble else one.said.status,
                    answer=whole,
                    pieces=tuple(kept),
                ),
                took_ms=round((time.monotonic() - began) * 1e3, 3),
                trouble=trouble,
            )
    finally:
        if open_ is not None:
            open_[1].close()


def _travels(name: str, value: str) -> bool:
    return (
        name.lower() not in _NOT_OURS
        and re.fullmatch(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+", name) is not None
        and not re.search(r"[\r\n\0]|\*{3}", value)
        and bool(value.strip("*"))
        and value.isascii()
    )


def _target(base: str, recorded: str) -> str:
    """The recorded path and query below the target's own path; a path that was not recorded is the target's."""
    parts = urlsplit(recorded)
    path = re.sub(r"[^\x21-\x7e]", "", parts.path)
    query = f"?{parts.query}" if parts.query else ""
    if not path:
        return (base or "/") + query
    return base.rstrip("/") + (path if path.startswith("/") else f"/{path}") + query


def _renewed(data: bytes, old: Normal, new: Normal) -> bytes:
    """Put in the ids that came this time for those that came then."""
    for was, is_ in zip(old.made, new.made, strict=False):
        if was != is_ and len(was) >= 12:
            data = data.replace(was.encode(), is_.encode())
    return data


class _Trouble(Exception):
    """The conversation ended, and not by an answer."""

    def __init__(self, why: str, status: int | None = None) -> None:
        super().__init__(why)
        self.status = status


def _named(error: Exception) -> str:
    if isinstance(error, TimeoutError):
        return "no answer in time"
    if isinstance(error, Malformed):
        return f"an answer that cannot be read: {error.why}"
    if isinstance(error, OSError):
        return f"{type(error).__name__}: {error.strerror or error}"
    return str(error)


class _Place:
    """Where the agent is."""

    def __init__(self, host: str, port: int, tls: bool, permitted: bool, ca: str | None) -> None:
        self.host, self.port = host, port
        self._permitted = permitted
        self._tls: ssl.SSLContext | None = None
        if tls:
            try:
                self._tls = ssl.create_default_context(cafile=ca)
            except OSError as error:
                raise Problem(
                    str(ca), found=str(error), wanted="certificates in PEM", remedy="name the file of your CA"
                ) from None

    def connect(self, until: float) -> socket.socket:
        wire = socket.create_connection((self.host, self.port), timeout=_left(until))
        try:
            address = wire.getpeername()[0]
            if not self._permitted and not is_loopback(address):
                raise Refused(
                    "--url",
                    found=f"{self.host}, which leads to {address}",
                    wanted="loopback, as it is called",
                    remedy="name 127.0.0.1",
                )
            wire.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            return wire if self._tls is None else self._tls.wrap_socket(wire, server_hostname=self.host)
        except BaseException:
            wire.close()
            raise


def _left(until: float) -> float:
    left = until - time.monotonic()
    if left <= 0:
        raise TimeoutError
    return left


def _http(
    place: _Place, method: str, target: str, fields: Mapping[str, str], body: bytes, until: float
) -> tuple[int, list[bytes]]:
    lines = [f"{method} {target} HTTP/1.1", *(f"{name}: {value}" for name, value in fields.items())]
    if body or method not in ("GET", "HEAD", "DELETE"):
        lines.append(f"Content-Length: {len(body)}")
    head = "\r\n".join([*lines, "Connection: close", "", ""]).encode("latin-1")
    with contextlib.closing(place.connect(until)) as wire:
        wire.settimeout(_left(until))
        wire.sendall(head + body)
        data = b""
        reader = HeadReader(response=True)
        while True:
            while not (end := cut_head(data)):
                data += _more(wire, until)
            answer = reader.response(data[:end])
            data = data[end:]
            if answer.status >= 200:
                break
        framing = response_body(answer, method)
        pieces: list[bytes] = []
        size = 0
        while not framing.done:
            if data:
                pieces.append(framing.feed(data))
                size += len(pieces[-1])
                if size > ANSWER_BYTES:
                    raise _Trouble("an answer over 16 MB", answer.status)
                data = b""
                continue
            try:
                data = _more(wire, until)
            except _Trouble:
                if isinstance(framing, CloseBody):
                    break
                raise _Trouble("an answer that was cut", answer.status) from None
            except (OSError, TimeoutError) as error:
                raise _Trouble(f"an answer that was cut: {_named(error)}", answer.status) from None
        return answer.status, [piece for piece in pieces if piece]


def _more(wire: socket.socket, until: float) -> bytes:
    wire.settimeout(_left(until))
    data = wire.recv(_READ_BYTES)
    if not data:
        raise _Trouble("a connection that was closed without an answer")
    return data


class _Dialogue:
    """One WebSocket."""

    def __init__(self, place: _Place, target: str, fields: Mapping[str, str], until: float) -> None:
        key = base64.b64encode(os.urandom(16))
        lines = [
            f"GET {target} HTTP/1.1",
            *(f"{name}: {value}" for name, value in fields.items() if not name.lower().startswith("content-")),
            "Upgrade: websocket",
            "Connection: Upgrade",
            "Sec-WebSocket-Version: 13",
            f"Sec-WebSocket-Key: {key.decode()}",
        ]
        self._wire = place.connect(until)
        self._messages = ws.Messages()
        self._held: list[bytes] = []
        try:
            self._wire.sendall("\r\n".join([*lines, "", ""]).encode("latin-1"))
            data = b""
            while not (end := cut_head(data)):
                data += _more(self._wire, until)
            head = HeadReader(response=True).response(data[:end])
            if head.status != 101:
                raise _Trouble("no WebSocket", head.status)
            accept = re.search(rb"(?im)^sec-websocket-accept:[ \t]*(\S+)", head.raw)
            if accept is None or accept[1] != ws.accept_of(key):
                raise _Trouble("an upgrade that answers another request")
            self._hear(data[end:])
        except BaseException:
            self._wire.close()
            raise

    def ask(self, body: bytes, recorded: Sequence[bytes], until: float) -> Iterator[bytes]:
        """Send a message, and give what comes up to the end of the answer."""
        self._wire.settimeout(_left(until))
        kind = ws.TEXT
        try:
            body.decode()
        except UnicodeDecodeError:
            kind = ws.BINARY
        self._wire.sendall(ws.frame(body, kind))
        form = _form(recorded[-1]) if recorded else None
        size = 0
        while True:
            while not self._held:
                self._hear(_more(self._wire, until))
            one = self._held.pop(0)
            size += len(one)
            if size > ANSWER_BYTES:
                raise _Trouble("an answer over 16 MB")
            yield one
            if form is None or _form(one) == form:
                return

    def _hear(self, data: bytes) -> None:
        for message in self._messages.feed(data) if data else ():
            if message.kind == ws.PING:
                self._wire.sendall(ws.frame(message.payload, ws.PONG))
            elif message.kind == ws.CLOSE:
                raise _Trouble(f"a connection that was closed ({ws.close_code(message.payload) or 'no code'})")
            elif message.kind in (ws.TEXT, ws.BINARY):
                self._held.append(message.payload)

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._wire.settimeout(1.0)
            self._wire.sendall(ws.frame(_GOODBYE, ws.CLOSE))
        with contextlib.suppress(OSError):
            self._wire.close()


def _form(message: bytes) -> Any:
    """What tells the last message of an answer from those before: its names, and its words of kind."""
    value = as_value(message)
    if not isinstance(value, dict):
        return "text"
    kinds = [
        value[name] for name in ("type", "event", "kind", "done", "final") if isinstance(value.get(name), str | bool)
    ]
    return (tuple(sorted(value)), kinds)
