"""The control door: HTTP/1.1 with JSON on a Unix socket of mode 0600, or on loopback with a bearer token.

`GET /state`, `POST /inject`, `/renew`, `/lift`, `/quit`. One request a connection at a time, small bodies, a deadline; a
client of another uid than ours and root's is not heard. Every error body is `{"error": ...}`.
"""

import hmac
import os
import socket
import time
from typing import Annotated, Any, Protocol, TypeVar

import msgspec

from drillmaster.errors import Problem
from drillmaster.http1 import (
    ChunkedBody,
    HeadReader,
    LengthBody,
    Malformed,
    RequestHead,
    answer_head,
    cut_head,
    request_body,
)
from drillmaster.proxy.hub import Hub
from drillmaster.proxy.switch import Conflict
from drillmaster.strict import load_as
from drillmaster.targeting import Rule
from drillmaster.wire import Wire

__all__ = ["ControlClient", "Orders"]

MAX_BODY_BYTES = 131_072
DEADLINE_S = 10.0
_NAMED = frozenset((b"authorization",))


Window = Annotated[str, msgspec.Meta(pattern=r"\A[ -~\u00a1-\uffff]{1,120}\Z")]
"""Its name goes into every line of evidence that it is the window of."""


class Inject(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One fault for everybody, or rules."""

    window: Window
    fault: str | None = None
    params: dict[str, Any] = {}
    rules: tuple[Rule, ...] = ()
    ttl_s: float
    linger_s: float = 0.0

    def __post_init__(self) -> None:
        if (self.fault is None) is not bool(self.rules) or (self.rules and self.params):
            raise ValueError("either fault and its params, or rules")

    @property
    def wanted(self) -> tuple[Rule, ...]:
        return self.rules or (Rule(mode=self.fault or "", params=self.params),)


class Renew(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    window: str
    ttl_s: float


class Lift(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    window: str
    why: str = "ordered"


_T = TypeVar("_T")


def _read(content: bytes, kind: type[_T]) -> _T:
    """One order. Raises Problem for what is not one and nothing else: no key twice, no depth without end."""
    return load_as(content, kind, place="order", fmt="json", cap_bytes=MAX_BODY_BYTES)


class Orders(Protocol):
    """What the door can have done. Each returns what the answer's body says."""

    def state(self) -> dict[str, Any]: ...

    def inject(self, order: Inject) -> dict[str, Any]:
        """Raises Conflict, Problem, ValueError, OSError (the evidence could not be written: nothing was injected)."""

    def renew(self, order: Renew) -> dict[str, Any] | None:
        """None: that window is not on any more."""

    def lift(self, order: Lift) -> dict[str, Any]: ...

    def quit(self) -> dict[str, Any]: ...


class ControlClient:
    """One connection to the control door."""

    def __init__(self, hub: Hub, sock: socket.socket, orders: Orders, token: bytes | None) -> None:
        self._hub = hub
        self._orders = orders
        self._token = token
        self._buf = b""
        self._reader = HeadReader(_NAMED)
        self._head: RequestHead | None = None
        self._body: LengthBody | ChunkedBody | None = None
        self._content = b""
        self._ended = False
        self.deadline_ns = time.monotonic_ns() + round(DEADLINE_S * 1e9)
        hub.clients.add(self)
        self.wire = Wire(hub.loop, sock, self)

    def on_open(self) -> None:
        """Accepted connections are open."""

    def on_end(self) -> None:
        self._close()

    def on_lost(self, why: str) -> None:
        self._hub.forget(self)

    def on_drained(self) -> None:
        """Answers are small."""

    def on_deadline(self) -> None:
        self._close()

    def _close(self) -> None:
        self.wire.close()
        self._hub.forget(self)

    def on_bytes(self, data: bytes) -> None:
        if self._ended:
            return
        self._buf += data
        try:
            while self._buf and not self._ended:
                if self._head is None:
                    end = cut_head(self._buf)
                    if not end:
                        return
                    self._head = self._reader.request(self._buf[:end])
                    self._body = request_body(self._head)
                    self._content = b""
                    self._buf = self._buf[end:]
                body = self._body
                assert body is not None
                if not body.done:
                    if not self._buf:
                        return
                    self._content += body.feed(self._buf)
                    self._buf = body.rest
                    if len(self._content) > MAX_BODY_BYTES:
                        raise Malformed("body too large")
                if not body.done:
                    return
                head, self._head = self._head, None
                self._answer(head, *self._serve(head, self._content))
        except Malformed as bad:
            self._answer(None, 400, {"error": bad.why})

    def _answer(self, head: RequestHead | None, status: int, content: dict[str, Any]) -> None:
        body = msgspec.json.encode(content)
        fields = [("content-type", "application/json"), ("content-length", str(len(body)))]
        keep = head is not None and head.keep_alive
        if not keep:
            fields.append(("connection", "close"))
        self.wire.send(answer_head(status, fields) + body)
        self.deadline_ns = time.monotonic_ns() + round(DEADLINE_S * 1e9)
        if not keep:
            self._ended = True
            self.wire.finish()

    def _serve(self, head: RequestHead, content: bytes) -> tuple[int, dict[str, Any]]:
        if self._token is not None:
            said = head.named.get(b"authorization", b"")
            if not hmac.compare_digest(said, b"Bearer " + self._token):
                return 401, {"error": "wrong or missing token; send Authorization: Bearer and the token file's line"}
        orders = self._orders
        try:
            match head.method, head.path:
                case "GET", "/state":
                    return 200, orders.state()
                case "POST", "/inject":
                    return 200, orders.inject(_read(content, Inject))
                case "POST", "/renew":
                    renewed = orders.renew(_read(content, Renew))
                    return (200, renewed) if renewed is not None else (404, {"error": "that window is not on"})
                case "POST", "/lift":
                    return 200, orders.lift(_read(content, Lift))
                case "POST", "/quit":
                    return 200, orders.quit()
        except Conflict as conflict:
            return 409, {"error": str(conflict)}
        except (msgspec.DecodeError, ValueError) as error:
            return 400, {"error": str(error)}
        except Problem as problem:
            return 400, {"error": str(problem)}
        except OSError as error:
            return 507, {"error": f"evidence cannot be written: {error.strerror or error}"}
        except Exception as error:  # noqa: BLE001 - say, a fault whose parameters cannot be decoded: it must not hold the caller
            return 500, {"error": f"an error of ours: {error!r}"[:500]}
        return 404, {"error": f"no such order; GET /state, POST /inject, /renew, /lift, /quit (pid {os.getpid()})"}
