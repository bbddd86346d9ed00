"""Three real stores for leases, and a socket between a worker and one of them that can be cut."""

import contextlib
import socket
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

from drillmaster.stores.opening import open_store
from tests.e2e.pglab import postgres
from tests.e2e.redislab import redis_server

__all__ = ["Cutter", "store_url"]


@contextlib.contextmanager
def store_url(kind: str, folder: Path) -> Iterator[str]:
    """Lend a prepared store of a kind."""
    with contextlib.ExitStack() as stack:
        if kind == "sqlite":
            url = f"sqlite:{folder / 'leases.sqlite'}"
        elif kind == "redis":
            url = stack.enter_context(redis_server()).url
        else:
            url = stack.enter_context(postgres())
        with contextlib.closing(open_store(url, within_s=10)) as store:
            store.prepare()
        yield url


class Cutter:
    """Stands between clients and a server's Unix socket, and swallows answers: the server did it, and nobody is told."""

    def __init__(self, target: Path, name: str) -> None:
        self._target = target
        self._folder = tempfile.TemporaryDirectory(prefix="dm-cut-")
        self.folder = Path(self._folder.name)
        self._listening = socket.socket(socket.AF_UNIX)
        self._listening.bind(str(self.folder / name))
        self._listening.listen(8)
        self.swallow = 0
        """So many of the next answers are swallowed, and their connections closed."""
        self.swallowed = 0
        self._open: list[socket.socket] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        self._listening.close()
        for one in self._open:
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()
        self._folder.cleanup()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listening.accept()
            except OSError:
                return
            server = socket.socket(socket.AF_UNIX)
            server.connect(str(self._target))
            self._open += [client, server]
            threading.Thread(target=self._pass, args=(client, server, False), daemon=True).start()
            threading.Thread(target=self._pass, args=(server, client, True), daemon=True).start()

    def _pass(self, source: socket.socket, sink: socket.socket, answers: bool) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(1 << 16):
                if answers and self.swallow:
                    self.swallow -= 1
                    self.swallowed += 1
                    break
                sink.sendall(data)
        for one in (source, sink):
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
