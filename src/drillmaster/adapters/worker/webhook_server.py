"""The server around a terminator: uvicorn with h11, one process, and a deadline for heads, which uvicorn does not have.

A connection on which no whole head came in time is closed: whoever trickles one would hold it for ever. So is one whose client
takes no answers for as long. A client that has said all and closed its half is answered. What is no HTTP is answered 400 by the
server, and reaches no application. The process takes more connections than a shell's soft limit lets it.
"""

import asyncio
import contextlib
import resource
import signal
import socket
from collections.abc import Callable, Iterator
from typing import Any

from drillmaster.errors import Problem

__all__ = ["bind", "need_server", "serve"]

_MOST_HEAD_BYTES = 32_768
_KEEP_ALIVE_S = 5
_GRACE_S = 10
_BACKLOG = 1_024
_MOST_FILES = 16_384


def bind(host: str, port: int) -> socket.socket:
    """Listen. Raises Problem where the address cannot be had."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)  # by which asyncio knows to send at once
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((host, port))
        listening.listen(_BACKLOG)
    except OSError as error:
        listening.close()
        raise Problem(
            f"{host}:{port}",
            found=f"a port that cannot be had ({error.strerror or error})",
            wanted="a free port",
            remedy="use --port 0 and read the address it prints",
        ) from None
    return listening


def need_server() -> None:
    """Raise Problem where uvicorn is not here."""
    try:
        import uvicorn.protocols.http.h11_impl  # noqa: F401 - whether it is here
    except ImportError:
        raise Problem(
            "webhook",
            found="no server",
            wanted="the package uvicorn",
            remedy="pip install 'drillmaster[webhook]'",
        ) from None


def serve(app: Any, listening: socket.socket, *, head_within_s: float, ready: Callable[[], None]) -> None:
    """Serve until SIGTERM or SIGINT; then answer what is under way, and return. Raises Problem where uvicorn is not here."""
    need_server()
    import uvicorn
    from uvicorn.protocols.http.h11_impl import H11Protocol

    class Protocol(H11Protocol):
        """h11, with a deadline for each head, and for whoever reads no answers."""

        _head: asyncio.TimerHandle | None = None
        _full: asyncio.TimerHandle | None = None
        _said_all = False

        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn has it
            super().connection_made(transport)
            self._await_head()

        def on_response_complete(self) -> None:
            super().on_response_complete()
            if self._said_all and self.cycle.response_complete:
                self.transport.close()  # no next one was there already, and none can come
            if not self.transport.is_closing():
                self._await_head()

        def eof_received(self) -> bool:  # type: ignore[override]  # None closes, True keeps the half to answer by
            self._said_all = True
            under_way = self.cycle is not None and not self.cycle.response_complete
            return under_way and not self.cycle.more_body

        def pause_writing(self) -> None:
            super().pause_writing()
            self._full = self.loop.call_later(head_within_s, self.transport.abort)

        def resume_writing(self) -> None:
            if self._full is not None:
                self._full.cancel()
            super().resume_writing()

        def connection_lost(self, exc: Exception | None) -> None:
            for timer in (self._head, self._full):
                if timer is not None:
                    timer.cancel()
            super().connection_lost(exc)

        def _await_head(self) -> None:
            if self._head is not None:
                self._head.cancel()
            self._head = self.loop.call_later(head_within_s, self._no_head)

        def _no_head(self) -> None:
            if self.cycle is None or self.cycle.response_complete:
                self.transport.close()

    class Server(uvicorn.Server):
        """uvicorn's server, whose end by a signal is an end like any other."""

        async def startup(self, sockets: list[socket.socket] | None = None) -> None:
            await super().startup(sockets)
            if self.started:
                ready()

        @contextlib.contextmanager
        def capture_signals(self) -> Iterator[None]:
            before = {number: signal.signal(number, self.handle_exit) for number in (signal.SIGINT, signal.SIGTERM)}
            try:
                yield
            finally:
                for number, handler in before.items():
                    signal.signal(number, handler)

    config = uvicorn.Config(
        app,
        http=Protocol,
        ws="none",
        loop="asyncio",
        lifespan="on",
        interface="asgi3",
        log_config=None,
        log_level="error",  # what is no HTTP is no news on a public port
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_keep_alive=_KEEP_ALIVE_S,
        timeout_graceful_shutdown=_GRACE_S,
        h11_max_incomplete_event_size=_MOST_HEAD_BYTES,
    )
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if 0 <= soft < _MOST_FILES:
        most = _MOST_FILES if hard < 0 else min(hard, _MOST_FILES)
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
    Server(config).run(sockets=[listening])
