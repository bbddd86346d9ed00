"""A Redis server of our own: started and ended by a test, on a Unix socket in its own folder and nowhere else."""

import contextlib
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from tests.conftest import find_program

__all__ = ["Redis", "redis_server"]


class Redis:
    """One server, which a test may kill, stop and start again."""

    def __init__(self, folder: Path, *options: str) -> None:
        self._folder, self._options = folder, options
        self.socket = folder / "redis.sock"
        self.url = f"unix://{self.socket}"
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        program = find_program("redis-server")
        assert program is not None
        self.process = subprocess.Popen(
            [program, "--port", "0", "--unixsocket", str(self.socket), "--dir", str(self._folder), *self._options],
            stdout=subprocess.DEVNULL,
            cwd=self._folder,
        )
        import redis

        ends = time.monotonic() + 20
        with contextlib.closing(redis.Redis(unix_socket_path=str(self.socket))) as client:
            while True:
                try:
                    client.ping()
                    return
                except redis.exceptions.RedisError:
                    if time.monotonic() > ends:
                        raise
                    time.sleep(0.01)

    def pids(self) -> list[int]:
        assert self.process is not None
        return [self.process.pid]

    def kill(self) -> None:
        assert self.process is not None
        self.process.kill()
        self.process.wait(10)
        self.socket.unlink(missing_ok=True)


@contextlib.contextmanager
def redis_server(*options: str) -> Iterator[Redis]:
    """Lend a server; without options it keeps each write on disk (`appendonly`, fsync always)."""
    folder = Path(tempfile.mkdtemp(prefix="dm-redis-"))
    server = Redis(folder, *(options or ("--save", "", "--appendonly", "yes", "--appendfsync", "always")))
    try:
        server.start()
        yield server
    finally:
        if server.process is not None:
            server.kill()
        shutil.rmtree(folder, ignore_errors=True)
