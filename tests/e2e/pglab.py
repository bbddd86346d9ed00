"""A PostgreSQL server of our own: made, started and ended by a test, on a Unix socket in its own folder and nowhere else."""

import contextlib
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from tests.conftest import find_program

__all__ = ["Postgres", "postgres", "postgres_server"]


def _program(name: str) -> str:
    found = find_program(name)
    assert found is not None
    return found


class Postgres:
    """One server, which a test may kill, stop and start again. It refuses to run as root, so root lends it a user."""

    def __init__(self, folder: Path, *, fsync: bool) -> None:
        self.folder = folder
        self.data = folder / "data"
        self.url = f"postgresql://drills@/postgres?host={folder}"
        self._user = "nobody" if os.geteuid() == 0 else None
        self._fsync = "on" if fsync else "off"
        if self._user:
            os.chown(folder, pwd.getpwnam(self._user).pw_uid, -1)
        self._run(
            _program("initdb"), "-D", str(self.data), "-U", "drills", "--auth=trust", "--no-sync", "-E", "UTF8",
            "--locale=C",
        )  # fmt: skip  # a command line

    def start(self) -> None:
        options = f"-k {self.folder} -c listen_addresses='' -c fsync={self._fsync} -c max_connections=40"
        self._run(
            _program("pg_ctl"),
            "-D",
            str(self.data),
            "-l",
            str(self.folder / "log"),
            "-o",
            options,
            "-w",
            "-t",
            "30",
            "start",
        )

    def stop(self) -> None:
        stop = [_program("pg_ctl"), "-D", str(self.data), "-m", "immediate", "-w", "stop"]
        subprocess.run(
            stop, check=False, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, user=self._user, cwd=self.folder
        )

    def reload(self) -> None:
        self._run(_program("pg_ctl"), "-D", str(self.data), "reload")

    def kill(self) -> None:
        """End every process of it at once, with no last word."""
        pids = self.pids()
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        ends = time.monotonic() + 10
        # Until nobody has to be asked after: the next one takes a number that is still given for a server that runs.
        while any(Path(f"/proc/{pid}").exists() for pid in pids) and time.monotonic() < ends:
            time.sleep(0.01)

    def pids(self) -> list[int]:
        """List its processes, the first one first, so that it starts no others while they are stopped."""
        first = int((self.data / "postmaster.pid").read_text().split()[0])
        said = subprocess.run(["ps", "-o", "pid=", "--ppid", str(first)], capture_output=True, text=True, check=False)
        return [first, *(int(one) for one in said.stdout.split())]

    def _run(self, *command: str) -> None:
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, user=self._user, cwd=self.folder)


@contextlib.contextmanager
def postgres_server(*, fsync: bool = False) -> Iterator[Postgres]:
    """Lend a server that runs."""
    folder = Path(tempfile.mkdtemp(prefix="dm-pg-"))
    try:
        server = Postgres(folder, fsync=fsync)
        server.start()
        try:
            yield server
        finally:
            server.stop()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextlib.contextmanager
def postgres() -> Iterator[str]:
    """Lend a server; its URL."""
    with postgres_server() as server:
        yield server.url
