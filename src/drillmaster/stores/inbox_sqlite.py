"""The inbox in one file, for the processes of one host.

Its clock is the host's, by the function `inbox_ms()` that each connection brings. A transaction holds the write lock from its
beginning, and is on disk before it ends (WAL, synchronous = FULL).

Each call looks whether the name still means the file and the log that are open (`sqlite_names`).
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
from drillmaster.stores.sqlite_names import Names

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
        self._names = Names(self._path)

    def connect(self, *, making: bool = False) -> Connection:
        if making:  # bodies are nobody else's to read; what SQLite puts beside the file gets its mode
            try:
                os.close(os.open(self._path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600))
            except OSError as error:
                raise sqlite3.OperationalError(error.strerror) from None
        self._names.opens()
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
        self._names.asked()
        self._names.check()

    def close(self, connection: Any) -> None:
        self._names.close(connection)

    @contextmanager
    def applying(self, connection: Any) -> Iterator[None]:
        connection.set_authorizer(_no_end)
        try:
            yield
        finally:
            connection.set_authorizer(None)

    def fault(self, error: BaseException) -> str | None:
        return str(error) if isinstance(error, sqlite3.Error) else None


def _no_end(action: int, *_: str | None) -> int:
    return sqlite3.SQLITE_DENY if action == sqlite3.SQLITE_TRANSACTION else sqlite3.SQLITE_OK
