"""The end of a server that was started to be asked: every process that came of it, and every file that it left.

1. A process can leave its session, and then its group's end is not its own. So this process adopts what is orphaned meanwhile
   (Linux's child subreaper), and ends whatever it has gained. Elsewhere the group is all there is.
2. Folders are emptied flat: what lies deeper is moved up first, so that neither the length of a path nor its depth counts.
"""

import contextlib
import ctypes
import os
import signal
import stat
import time
from collections.abc import Iterator
from pathlib import Path

__all__ = ["adopting", "emptied"]

_SUBREAPER = 36
_LIMIT_S = 5.0


@contextlib.contextmanager
def adopting() -> Iterator[None]:
    """Adopt what is orphaned inside, and end it on the way out."""
    before = _children()
    known = before is not None and _subreaper(True)
    try:
        yield
    finally:
        if known:
            deadline = time.monotonic() + _LIMIT_S
            while (gained := (_children() or set()) - (before or set())) and time.monotonic() < deadline:
                for pid in gained:
                    with contextlib.suppress(ProcessLookupError, PermissionError):
                        os.kill(pid, signal.SIGKILL)
                    with contextlib.suppress(ChildProcessError):
                        os.waitpid(pid, 0)
            _subreaper(False)


def _subreaper(on: bool) -> bool:
    try:
        return bool(ctypes.CDLL(None).prctl(_SUBREAPER, int(on), 0, 0, 0) == 0)
    except (OSError, AttributeError):
        return False


def _children() -> set[int] | None:
    """Give the processes whose parent this one is; None where nobody says so."""
    try:
        found = [(task / "children").read_text("ascii") for task in Path("/proc/self/task").iterdir()]
    except OSError:
        return None
    return {int(pid) for line in found for pid in line.split()}


@contextlib.contextmanager
def emptied(prefix: str) -> Iterator[Path]:
    """Give a scratch folder, and take it away again, whatever was made in it."""
    import tempfile

    folder = Path(tempfile.mkdtemp(prefix=prefix))
    try:
        yield folder
    finally:
        with contextlib.suppress(OSError):  # what cannot be taken away changes no verdict
            _empty(folder)
            folder.rmdir()


def _empty(folder: Path) -> None:
    made = 0
    while entries := list(folder.iterdir()):
        for entry in entries:
            if entry.is_symlink() or not entry.is_dir():
                entry.unlink()
                continue
            entry.chmod(stat.S_IRWXU)
            for inner in list(entry.iterdir()):
                if inner.is_symlink() or not inner.is_dir():
                    inner.unlink()
                else:
                    inner.chmod(stat.S_IRWXU)
                    made += 1
                    inner.rename(folder / f"..{made}")
            entry.rmdir()
