"""Stores in trouble: servers that are stopped, killed and started again, and a wire between worker and store that can be cut."""

import contextlib
import os
import select
import shutil
import signal
import socket
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from drillmaster.stores import AsyncStore, Store
from drillmaster.stores.opening import open_async_store, open_store
from tests.e2e.pglab import Postgres, postgres_server
from tests.e2e.redislab import Redis, redis_server

__all__ = ["Server", "Wire", "servers", "wire"]


class Server:
    """A store's server, whichever it is."""

    def __init__(self, kind: str, server: Postgres | Redis) -> None:
        self.kind, self.server = kind, server
        self.url = server.url

    def store(self, within_s: float = 0.3) -> Store:
        return open_store(self.url, within_s=within_s)

    def async_store(self, within_s: float = 0.3) -> AsyncStore:
        return open_async_store(self.url, within_s=within_s)

    def url_over(self, wire: "Wire") -> str:
        return self.url.replace(str(self.path), str(wire.path)).replace(str(self.path.parent), str(wire.path.parent))

    @property
    def path(self) -> Path:
        """The socket that it listens on."""
        if isinstance(self.server, Redis):
            return self.server.socket
        return self.server.folder / ".s.PGSQL.5432"

    @contextlib.contextmanager
    def stopped(self) -> Iterator[None]:
        """Stop every process of it; they go on behind the block."""
        pids = self.server.pids()
        os.kill(pids[0], signal.SIGSTOP)
        for pid in pids[1:]:
            with contextlib.suppress(ProcessLookupError):  # one that ended since it was listed
                os.kill(pid, signal.SIGSTOP)
        try:
            yield
        finally:
            for pid in pids:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGCONT)

    def kill(self) -> None:
        self.server.kill()

    def start(self) -> None:
        self.server.start()


@contextlib.contextmanager
def servers(kind: str) -> Iterator[Server]:
    """Lend a prepared server of one kind."""
    lend: Any = postgres_server() if kind == "postgresql" else redis_server()
    with lend as server:
        one = Server(kind, server)
        one.store(10).prepare()
        yield one


class Wire:
    """A Unix socket before a server's own. It counts what workers send, and can lose an answer."""

    def __init__(self, path: Path, server: Path) -> None:
        self.path, self._server = path, server
        self.sent = 0
        """Pieces that workers sent, each of which waited for an answer."""
        self.lose = 0
        """So many of the next answers are not passed on, and their connections are cut."""
        self.drip_s = 0.0
        """Seconds before each byte of an answer."""
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(path))
        self._listener.listen(64)
        self._open: list[socket.socket] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                worker, _ = self._listener.accept()
            except OSError:
                return
            server = socket.socket(socket.AF_UNIX)
            try:
                server.connect(str(self._server))
            except OSError:  # it is not there just now
                worker.close()
                server.close()
                continue
            self._open += [worker, server]
            threading.Thread(target=self._pass, args=(worker, server), daemon=True).start()

    def _pass(self, worker: socket.socket, server: socket.socket) -> None:
        with contextlib.suppress(OSError, ValueError), worker, server:  # closed by the test's end
            while True:
                ready, _, _ = select.select([worker, server], [], [])
                if worker in ready:
                    data = worker.recv(1 << 16)
                    if not data:
                        return
                    self.sent += 1
                    server.sendall(data)
                if server in ready:
                    data = server.recv(1 << 16)
                    if not data:
                        return
                    if self.lose > 0:
                        self.lose -= 1
                        return
                    for byte in data if self.drip_s else ():
                        time.sleep(self.drip_s)
                        worker.sendall(bytes([byte]))
                    if not self.drip_s:
                        worker.sendall(data)

    def close(self) -> None:
        for one in (self._listener, *self._open):
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()


@contextlib.contextmanager
def wire(server: Server) -> Iterator[Wire]:
    """Lend a wire before a server."""
    folder = Path(tempfile.mkdtemp(prefix="dm-wire-"))
    one = Wire(folder / server.path.name, server.path)
    try:
        yield one
    finally:
        one.close()
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(params=["postgresql", "redis"])
def server(request: pytest.FixtureRequest) -> Iterator[Server]:
    with servers(request.param) as one:
        yield one
