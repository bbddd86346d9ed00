"""A PostgreSQL server of our own: made, started and ended by a test, on a Unix socket in its own folder and nowhere else."""

import contextlib
import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

from tests.conftest import find_program

__all__ = ["postgres"]


def _program(name: str) -> str:
    found = find_program(name)
    assert found is not None
    return found


@contextlib.contextmanager
def postgres() -> Iterator[str]:
    """Lend a server; its URL. A server refuses to run as root, so root lends it a user without rights."""
    user = "nobody" if os.geteuid() == 0 else None
    folder = Path(tempfile.mkdtemp(prefix="dm-pg-"))
    try:
        if user:
            os.chown(folder, pwd.getpwnam(user).pw_uid, -1)
        data = folder / "data"
        subprocess.run(
            [_program("initdb"), "-D", data, "-U", "drills", "--auth=trust", "--no-sync", "-E", "UTF8", "--locale=C"],
            check=True, stdout=subprocess.DEVNULL, user=user, cwd=folder,
        )  # fmt: skip
        ctl, log = _program("pg_ctl"), folder / "log"
        options = f"-k {folder} -c listen_addresses='' -c fsync=off -c max_connections=40"
        subprocess.run(
            [ctl, "-D", data, "-l", log, "-o", options, "-w", "-t", "30", "start"],
            check=True, stdout=subprocess.DEVNULL, user=user, cwd=folder,
        )  # fmt: skip
        try:
            yield f"postgresql://drills@/postgres?host={folder}"
        finally:
            subprocess.run([ctl, "-D", data, "-m", "immediate", "-w", "stop"], check=False, user=user, cwd=folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
