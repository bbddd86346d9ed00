"""What the name of an SQLite database means: the file, its log (`-wal`), and the index of the log (`-shm`).

1. SQLite goes on writing to what was moved, replaced or deleted while it was open, and whoever opens it next makes new ones: two
   then count apart, and neither is told. So each question looks whether the names still mean what is open.
2. A connection that is closed last writes its log into the file. Where the log was taken away and nobody has come since, that saves
   what is in it. Where somebody has, it would write over what was told to them: such a connection is closed by nobody, and its
   process asks this file no more, since in one process all connections of a file share the index that was taken away.
"""

import os
import sqlite3
from pathlib import Path

__all__ = ["Names"]

_MOVED = "the file, or its log, was moved or taken away while it was open"
_WRITTEN = "its log was taken away, and somebody else has written since: this process has to be started anew"
_Named = tuple[int, int] | None
"""Device and number of a file; None: there is none."""
_GIVEN_UP: set[_Named] = set()


class Names:
    """What is open under a name."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: _Named = None
        self._beside: tuple[_Named, _Named] | None = None
        self._written = (0, 0)

    def opens(self) -> None:
        """Note the file that is about to be opened. Raises sqlite3.OperationalError where this process may not."""
        self._file, self._beside = _named(_status(self._path)), None
        if self._file in _GIVEN_UP:
            raise sqlite3.OperationalError(_WRITTEN)

    def asked(self) -> None:
        """Note log and index, once they are there: the first question of a connection opens them."""
        if self._beside is None and None not in (now := self._now()):
            self._beside = now

    def check(self) -> None:
        """Note the file as it was written last. Raises sqlite3.OperationalError where a name means something else by now."""
        if self.moved():
            raise sqlite3.OperationalError(_MOVED)
        self._written = _written(_status(self._path))

    def moved(self) -> bool:
        return _named(_status(self._path)) != self._file or self._log_is_gone()

    def close(self, connection: sqlite3.Connection) -> None:
        """Close a connection, where that writes over nothing."""
        if _is_closed(connection):
            return
        status, log = _status(self._path), self._now()[0]
        if (
            _named(status) == self._file
            and self._log_is_gone()
            and (log is not None or _written(status) != self._written)
        ):
            import ctypes

            _GIVEN_UP.add(self._file)
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(connection))  # an object that is gone is closed
            return
        connection.close()

    def _log_is_gone(self) -> bool:
        return self._beside is not None and self._now() != self._beside

    def _now(self) -> tuple[_Named, _Named]:
        return _named(_status(f"{self._path}-wal")), _named(_status(f"{self._path}-shm"))


def _is_closed(connection: sqlite3.Connection) -> bool:
    try:
        return connection.total_changes < 0
    except sqlite3.ProgrammingError:
        return True


def _status(path: str | Path) -> os.stat_result | None:
    try:
        return os.stat(path)  # noqa: PTH116 - several of them, for each question
    except OSError:
        return None


def _named(status: os.stat_result | None) -> _Named:
    return None if status is None else (status.st_dev, status.st_ino)


def _written(status: os.stat_result | None) -> tuple[int, int]:
    return (0, 0) if status is None else (status.st_mtime_ns, status.st_size)
