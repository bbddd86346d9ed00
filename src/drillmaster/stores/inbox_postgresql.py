"""The inbox in PostgreSQL, for workers of many hosts. Its clock is the server's.

A wait for a lock or an answer ends at the server by the same limit as here; a peer that fell silent is given up by TCP's own
timers. What was given up may have been committed: all that is asked is safe to ask again.
"""

import os
import re
from contextlib import AbstractContextManager
from typing import Any
from urllib.parse import unquote

from drillmaster.errors import one_line
from drillmaster.screen import screen_url
from drillmaster.stores.inbox import Connection
from drillmaster.stores.postgresql import driver

__all__ = ["PostgreSQL"]

_TABLES = (
    """CREATE TABLE IF NOT EXISTS drillmaster_inbox (
  seq BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY, source TEXT NOT NULL, event_id TEXT NOT NULL, digest TEXT NOT NULL,
  body BYTEA NOT NULL, received_ms BIGINT NOT NULL,
  state TEXT NOT NULL DEFAULT 'waiting' CHECK (state IN ('waiting', 'done', 'parked', 'closed')), reason TEXT NOT NULL DEFAULT '',
  attempts INTEGER NOT NULL DEFAULT 0, claim TEXT, claimed_ms BIGINT, claim_until_ms BIGINT, not_before_ms BIGINT, ended_ms BIGINT,
  UNIQUE (source, event_id))""",
    "CREATE INDEX IF NOT EXISTS drillmaster_inbox_waiting ON drillmaster_inbox (seq) WHERE state = 'waiting'",
    """CREATE TABLE IF NOT EXISTS drillmaster_inbox_other (
  source TEXT NOT NULL, event_id TEXT NOT NULL, digest TEXT NOT NULL, body BYTEA NOT NULL, first_ms BIGINT NOT NULL,
  last_ms BIGINT NOT NULL, times BIGINT NOT NULL, looked_by TEXT NOT NULL DEFAULT '',
  UNIQUE (source, event_id, digest))""",
    """CREATE TABLE IF NOT EXISTS drillmaster_inbox_effects (
  source TEXT NOT NULL, event_id TEXT NOT NULL, kind TEXT NOT NULL, account TEXT NOT NULL,
  amount_minor BIGINT NOT NULL CHECK (amount_minor > 0), currency TEXT NOT NULL, made_ms BIGINT NOT NULL,
  UNIQUE (source, event_id))""",
    """CREATE TABLE IF NOT EXISTS drillmaster_inbox_notes (
  source TEXT NOT NULL, event_id TEXT NOT NULL, headline TEXT NOT NULL, risk TEXT NOT NULL, made_ms BIGINT NOT NULL,
  UNIQUE (source, event_id))""",
)


class PostgreSQL:
    mark = "%s"
    begin = "BEGIN"
    now_ms = "(extract(epoch FROM clock_timestamp()) * 1000)::bigint"
    lock = " FOR UPDATE SKIP LOCKED"
    tables: tuple[str, ...] = _TABLES

    def __init__(self, url: str, *, within_s: float) -> None:
        self._driver = driver("inbox")
        self._url = url
        self._within_s = within_s
        user, at, _ = url.partition("://")[2].rpartition("@")
        password = unquote(user.partition(":")[2])
        # What stands in no URL unescaped: where a password has it, pieces of it are taken for the host, the port, the database.
        odd = at and re.search("[/?#@]", user) is not None
        self.place = "postgresql://[screened]" if odd else screen_url(url)
        self._pieces = frozenset(re.findall(r"\w{3,}", f"{password} {user.partition(':')[2]}"))

    def connect(self, *, making: bool = False) -> Connection:
        from psycopg.conninfo import conninfo_to_dict

        limit_ms = max(1, int(self._within_s * 1_000))
        own = conninfo_to_dict(self._url).get("options") or ""  # such as the schema that its tables are in
        connection: Any = self._driver.connect(
            self._url,
            autocommit=True,
            connect_timeout=max(2, int(self._within_s)),
            application_name="drillmaster",
            options=f"{own} -c statement_timeout={limit_ms} -c lock_timeout={limit_ms}"
            f" -c idle_in_transaction_session_timeout={10 * limit_ms}",
            keepalives_idle=5,
            keepalives_interval=2,
            keepalives_count=2,
            tcp_user_timeout=max(2_000, limit_ms),
        )
        if connection.execute("SHOW synchronous_commit").fetchone()[0] == "off":
            connection.execute(
                "SET synchronous_commit = on"
            )  # an answer before the disk has it is a promise nobody can keep
        return connection  # type: ignore[no-any-return]  # psycopg's own type says more than is needed here

    def prepare(self, connection: Connection) -> None:
        """Keep two who prepare at once from making one table twice."""
        connection.execute("SELECT pg_advisory_lock(7305871041)")

    def check(self) -> None:
        """Find nothing: a connection is a server's, whatever becomes of its name."""

    def close(self, connection: Any) -> None:
        connection.close()

    def applying(self, connection: Any) -> AbstractContextManager[Any]:
        """Set a savepoint: it cannot be released after a statement failed, and psycopg lets nobody commit inside."""
        return connection.transaction()  # type: ignore[no-any-return]  # psycopg's own type says more than is needed here

    def fault(self, error: BaseException) -> str | None:
        if not isinstance(error, self._driver.Error):
            return None
        # The first line alone: what follows it can quote the row.
        said = error.diag.message_primary or str(error).strip().partition("\n")[0]
        if any(piece in said for piece in self._pieces):
            return f"{type(error).__name__}, whose text may hold a piece of a password: see that the URL has it escaped"
        return one_line(said).replace(os.environ.get("PGPASSWORD") or "\0", "***").strip()
