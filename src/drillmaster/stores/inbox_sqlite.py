"""The inbox in one file, for the processes of one host.

Its clock is the host's, by the function `inbox_ms()` that each connection brings. A transaction holds the write lock from its
beginning, and is on disk before it ends (WAL, synchronous = FULL).

SQLite goes on writing to a file that was moved, replaced or deleted. Here each call looks whether the name still means the file.
"""

import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from drillmaster.clock import Clock, SystemClock
from drillmaster.errors import one_line
from drillmaster.stores.inbox import Connection

__all__ = ["SQLite"]

_TABLES = (
    """CREATE TABLE IF NOT EXISTS drillmaster_inbox (
  seq INTEGER PRIMARY KEY AUTOINCREMENT, source TEXT NOT NULL, event_id TEXT NOT NULL, digest TEXT NOT NULL, body BLOB NOT NULL,
  received_ms INTEGER NOT NULL, state TEXT NOT NULL DEFAULT 'waiting' CHECK (state IN ('waiting', 'done', 'parked', 'closed')),
  reason TEXT NOT NULL DEFAULT '', attempts INTEGER NOT NULL DEFAULT 0, claim TEXT, claimed_ms INTEGER, claim_until_ms INTEGER,
  not_before_ms INTEGER, ended_ms INTEGER, UNIQUE (source, event_id))""",
    "CREATE INDEX IF NOT EXISTS drillmaster_inbox_waiting ON drillmaster_inbox (seq) WHERE state = 'waiting'",
    """CREATE TABLE IF NOT EXISTS drillmaster_inbox_other (
  source TEXT NOT NULL, event_id TEXT NOT NULL, digest TEXT NOT NULL, body BLOB NOT NULL, first_ms INTEGER NOT NULL,
  last_ms INTEGER NOT NULL, times INTEGER NOT NULL, looked_by TEXT NOT NULL DEFAULT '',
  UNIQUE (source, event_id, digest))""",
    """CREATE TABLE IF NOT EXISTS drillmaster_inbox_effects (
  source TEXT NOT NULL, event_id TEXT NOT NULL, kind TEXT NOT NULL, account TEXT NOT NULL,
  amount_minor INTEGER NOT NULL CHECK (amount_minor > 0), currency TEXT NOT NULL, made_ms INTEGER NOT NULL,
  UNIQUE (source, event_id))""",
    """CREATE TABLE IF NOT EXISTS drillmaster_inbox_notes (
  source TEXT NOT NULL, event_id TEXT NOT NULL, headline TEXT NOT NULL, risk TEXT NOT NULL, made_ms INTEGER NOT NULL,
  UNIQUE (source, event_id))""",
)

_Named = tuple[int, int] | None


class SQLite:
    mark = "?"
    begin = "BEGIN IMMEDIATE"
    now_ms = "inbox_ms()"
    lock = ""
    tables: tuple[str, ...] = _TABLES

    def __init__(self, path: str, *, within_s: float, clock: Clock | None = None) -> None:
        self._path = Path(path)
        self.place = one_line(f"sqlite:{path}")
        self._within_s = within_s
        self._clock = clock or SystemClock()
        self._file: _Named = None
        self._log: _Named = None

    def connect(self, *, making: bool = False) -> Connection:
        if making:  # bodies are nobody else's to read; what SQLite puts beside the file gets its mode
            try:
                os.close(os.open(self._path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600))
            except OSError as error:
                raise sqlite3.OperationalError(error.strerror) from None
        self._file, self._log = _named(self._path), None
        mode = "rwc" if making else "rw"  # rule 5: only `prepare` makes a file
        connection = sqlite3.connect(
            f"{self._path.absolute().as_uri()}?mode={mode}", uri=True, timeout=self._within_s, isolation_level=None
        )
        connection.create_function("inbox_ms", 0, lambda: self._clock.wall_ns() // 1_000_000)
        connection.execute("PRAGMA synchronous = FULL")
        return connection

    def prepare(self, connection: Connection) -> None:
        connection.execute("PRAGMA journal_mode = WAL")

    def check(self) -> None:
        log = _named(Path(f"{self._path}-wal"))
        if self._log is None:
            self._log = log
        if self._file is None or _named(self._path) != self._file or log != self._log:
            raise sqlite3.OperationalError("the file, or its log, was moved or taken away while it was open")

    @contextmanager
    def applying(self, connection: Any) -> Iterator[None]:
        connection.set_authorizer(_no_end)
        try:
            yield
        finally:
            connection.set_authorizer(None)

    def fault(self, error: BaseException) -> str | None:
        return str(error) if isinstance(error, sqlite3.Error) else None


def _named(path: Path) -> _Named:
    """Say which file a name means; None: none."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _no_end(action: int, *_: str | None) -> int:
    return sqlite3.SQLITE_DENY if action == sqlite3.SQLITE_TRANSACTION else sqlite3.SQLITE_OK
