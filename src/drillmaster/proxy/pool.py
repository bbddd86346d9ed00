"""Connections to the upstream: dialled for an exchange, kept for the next one, watched meanwhile."""

import asyncio
import ssl
from collections import deque
from typing import Protocol

from drillmaster.http1 import ResponseHead
from drillmaster.proxy.settings import Limits, Upstream
from drillmaster.wire import Address, Wire, dial

__all__ = ["Borrower", "Pool", "UpstreamConn"]


class Borrower(Protocol):
    """The exchange that a connection is lent to."""

    over: bool

    def upstream_open(self) -> None: ...

    def from_upstream(self, data: bytes) -> None: ...

    def upstream_ended(self) -> None: ...

    def upstream_lost(self, why: str) -> None: ...

    def upstream_drained(self) -> None: ...


class UpstreamConn:
    """One connection to the upstream: dialled for an exchange, pooled afterwards."""

    __slots__ = ("_addresses", "_pool", "answered", "ex", "head", "idle_since_ns", "open", "uses", "wire")

    def __init__(self, pool: "Pool", ex: Borrower, addresses: deque[Address]) -> None:
        self._pool = pool
        self.ex: Borrower | None = ex
        self.uses = 1
        self.open = False
        self.answered = False
        """Whether a byte of the present answer came."""
        self.head: ResponseHead | None = None
        """Of its last answer: the next is read by what differs."""
        self.idle_since_ns = 0
        self.wire: Wire | None = None
        self._addresses = addresses

    def try_next(self, why: str) -> None:
        """Dial the next address; without one the exchange hears `why`, from the loop."""
        pool = self._pool
        while self._addresses:
            try:
                self.wire = dial(pool.loop, self._addresses.popleft(), self, tls=pool.tls, server_name=pool.server_name)
            except OSError as error:
                why = "refused" if isinstance(error, ConnectionRefusedError) else f"error: {error.strerror}"
                continue
            return
        self.wire = None
        pool.loop.call_soon(self.on_lost, why)

    def on_open(self) -> None:
        self.open = True
        if self.ex is not None:
            self.ex.upstream_open()

    def on_bytes(self, data: bytes) -> None:
        if self.ex is None:
            self.drop()  # an answer that nobody asked for
            return
        self.answered = True
        self.ex.from_upstream(data)

    def on_end(self) -> None:
        ex = self.ex
        self.open = False
        if ex is not None:
            ex.upstream_ended()
        self.drop()

    def on_lost(self, why: str) -> None:
        ex = self.ex
        if not self.open and ex is not None and not ex.over and self._addresses and not why.startswith("tls"):
            self.try_next(why)
            return
        self.open = False
        self.drop()
        if ex is not None and not ex.over:
            ex.upstream_lost(why)

    def on_drained(self) -> None:
        if self.ex is not None:
            self.ex.upstream_drained()

    def give(self, now_ns: int) -> None:
        """The exchange is over, and the connection free for the next one."""
        self.ex = None
        wire, idle = self.wire, self._pool.idle
        if wire is None or wire.closed or len(idle) >= self._pool.size:
            self.drop()
            return
        self.idle_since_ns = now_ns
        if not wire.reading:
            wire.resume()
        idle.append(self)

    def drop(self) -> None:
        """Close, whatever is under way on it."""
        self.open = False
        self.ex = None
        self._addresses.clear()
        if self.wire is not None:
            self.wire.close()
        self._pool.forget(self)


class Pool:
    """Upstream connections that wait for the next request. The freshest is taken first; the old ones die of age."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, upstream: Upstream, tls: ssl.SSLContext | None, limits: Limits
    ) -> None:
        self.loop = loop
        self.tls = tls if upstream.tls else None
        self.server_name = upstream.host if upstream.tls else None
        self._limits = limits
        self.size = limits.pool_size
        self.idle: list[UpstreamConn] = []
        """Those that wait, the one that was given back last at the end. Whoever takes one looks whether it is `open`."""
        self.all: set[UpstreamConn] = set()
        self.addresses: list[Address] = []
        """What the upstream's name resolved to; set by the server, refreshed by it."""

    def dial(self, ex: Borrower) -> UpstreamConn:
        upstream = UpstreamConn(self, ex, deque(self.addresses))
        self.all.add(upstream)
        upstream.try_next("name not resolved")
        return upstream

    def spare(self) -> bool:
        """Close one idle connection, the oldest, to have its descriptor; False when none is idle."""
        if not self.idle:
            return False
        self.idle[0].drop()
        return True

    def forget(self, upstream: UpstreamConn) -> None:
        self.all.discard(upstream)
        if upstream in self.idle:
            self.idle.remove(upstream)

    def sweep(self, now_ns: int) -> None:
        """Close what has been idle for too long."""
        limit_ns = round(self._limits.pool_idle_s * 1e9)
        for upstream in [u for u in self.idle if now_ns - u.idle_since_ns > limit_ns]:
            upstream.drop()

    def close(self) -> None:
        for upstream in tuple(self.all):
            upstream.drop()
