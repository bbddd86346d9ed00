"""A store in one file, for the processes of one host.

1. A question is one transaction that holds the file's write lock from its beginning (BEGIN IMMEDIATE), and is on disk before it
   is answered (synchronous = FULL).
2. The clock is the host's uptime since its boot, set going at the wall clock's time when the first question after a boot came
   and never before the latest time that was told. A wall clock that is set back or forth moves nothing.
3. The file has to be there and prepared: SQLite would make an empty one. One that was put in its place since is looked at anew, and
   so is one whose log was taken away (`sqlite_names`); what was asked while that happened has no answer.
4. A law that changes nothing writes nothing: a storm of refusals costs no disk.
5. State is JSON, so that a view over it (`laws/NAME.sqlite`) can be joined by a query of the worker's own. What a law has written
   down is in `drillmaster_log`, the latest million of it.
"""

import asyncio
import os
import sqlite3
import threading
import time
import weakref
from pathlib import Path
from typing import Any

import msgspec

from drillmaster.errors import Problem, one_line
from drillmaster.rules import AnyLaw
from drillmaster.stores import Unavailable
from drillmaster.stores.carrying import scripts
from drillmaster.stores.sqlite_names import Names

__all__ = ["AsyncSQLiteStore", "SQLiteStore"]

_TABLES = """
CREATE TABLE IF NOT EXISTS drillmaster_state (
  law TEXT NOT NULL, key TEXT NOT NULL, state TEXT NOT NULL, forget_us INTEGER, PRIMARY KEY (law, key)
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS drillmaster_state_forget ON drillmaster_state (forget_us) WHERE forget_us IS NOT NULL;
CREATE TABLE IF NOT EXISTS drillmaster_clock (one INTEGER PRIMARY KEY CHECK (one = 1), boot TEXT, base_us INTEGER, seen_us INTEGER);
CREATE TABLE IF NOT EXISTS drillmaster_log (
  n INTEGER PRIMARY KEY, law TEXT NOT NULL, key TEXT NOT NULL, at_us INTEGER NOT NULL, asked TEXT NOT NULL, told TEXT NOT NULL
);
CREATE INDEX IF NOT EXISTS drillmaster_log_key ON drillmaster_log (law, key, n);
"""
_MOST_LOGGED = 1_000_000
_NOTED_US = 1_000_000
_BOOT = Path("/proc/sys/kernel/random/boot_id")
_OPEN: "weakref.WeakSet[SQLiteStore]" = weakref.WeakSet()
_WATCHED: list[bool] = []


class SQLiteStore:
    def __init__(self, path: str, *, within_s: float) -> None:
        self._path = Path(path)
        self.place = one_line(f"sqlite:{path}")
        self._within_s = within_s
        self._lock = threading.Lock()
        self._connection: sqlite3.Connection | None = None
        self._held = self._lost = False
        self._names = Names(self._path)
        self._boot = _boot()
        self._coders: dict[str, tuple[msgspec.json.Encoder, Any]] = {}
        _watch_forks(self)

    def ask(self, law: AnyLaw, key: str, question: Any, *, now_us: int | None = None) -> Any:
        """Answer within the time limit. `now_us` is for tests of the law: no guard gives it."""
        ends = time.monotonic() + self._within_s
        if self._lost:
            raise self._unavailable("this process was forked in the middle of a question")
        if not self._lock.acquire(timeout=self._within_s):
            raise self.late()
        try:
            connection = self.connected()
            connection.execute(f"PRAGMA busy_timeout = {max(1, int((ends - time.monotonic()) * 1_000))}")
            connection.execute("BEGIN IMMEDIATE")
            try:
                self._names.asked()
                told = self._answer(connection, law, key, question, now_us)
            except BaseException:
                connection.execute("ROLLBACK")
                raise
            connection.execute("COMMIT")
            self._names.check()
            return told
        except (sqlite3.Error, OSError) as error:
            self._drop()
            raise self._unavailable(str(error)) from None
        except msgspec.MsgspecError:
            self._drop()
            raise self._unavailable("what is kept there is none of this law") from None
        finally:
            self._lock.release()

    def prepare(self) -> None:
        try:
            with sqlite3.connect(self._path, timeout=10, isolation_level=None) as connection:
                connection.execute("PRAGMA journal_mode = WAL")
                connection.executescript(_TABLES + "".join(scripts("sqlite").values()))
            connection.close()
        except sqlite3.Error as error:
            raise Problem(
                self.place,
                found=str(error),
                wanted="a file that can be written",
                remedy="see that the folder is there and yours to write",
            ) from None

    def close(self) -> None:
        with self._lock:
            self._drop()

    def late(self) -> Unavailable:
        return self._unavailable("no turn within the time limit")

    def _answer(self, connection: sqlite3.Connection, law: AnyLaw, key: str, question: Any, now_us: int | None) -> Any:
        now_us = self._now_us(connection) if now_us is None else now_us
        encoder, decoder = self._coder(law)
        row = connection.execute(
            "SELECT state FROM drillmaster_state WHERE law = ? AND key = ?", (law.name, key)
        ).fetchone()
        state = None if row is None else decoder.decode(row[0])
        then = law.step(state, question, now_us)
        if law.logged:
            _write_down(connection, encoder, law.name, key, now_us, question, then.told)
        if then.state is state:
            return then.told
        if then.state is None:
            connection.execute("DELETE FROM drillmaster_state WHERE law = ? AND key = ?", (law.name, key))
            return then.told
        connection.execute(
            "INSERT INTO drillmaster_state (law, key, state, forget_us) VALUES (?, ?, ?, ?)"
            " ON CONFLICT (law, key) DO UPDATE SET state = excluded.state, forget_us = excluded.forget_us",
            (
                law.name,
                key,
                encoder.encode(then.state).decode(),
                None if then.keep_us is None else now_us + then.keep_us,
            ),
        )
        if row is None:  # each new key takes two old ones along, so that the file does not grow for ever
            connection.execute(
                "DELETE FROM drillmaster_state WHERE (law, key) IN"
                " (SELECT law, key FROM drillmaster_state WHERE forget_us < ? LIMIT 2)",
                (now_us,),
            )
        return then.told

    def read_clock(self, connection: sqlite3.Connection) -> tuple[int, int, int]:
        """Read the clock without setting it: now, when it was noted last, and what it was going at when the host booted.

        Before the first question of a boot nobody has set it, and that is noted nowhere: it was seen at 0.
        """
        row = connection.execute("SELECT boot, base_us, seen_us FROM drillmaster_clock").fetchone()
        up_us = _up_us()
        seen_us = 0 if row is None else row[2]
        booted = row is None or row[0] != self._boot
        # What was seen is noted once a second, so this much later nobody has seen yet.
        base_us = max(time.time_ns() // 1_000, seen_us + _NOTED_US) - up_us if booted else row[1]
        return max(base_us + up_us, seen_us), 0 if booted else seen_us, base_us

    def _now_us(self, connection: sqlite3.Connection) -> int:
        now_us, seen_us, base_us = self.read_clock(connection)
        if now_us - seen_us >= _NOTED_US:
            connection.execute(
                "INSERT OR REPLACE INTO drillmaster_clock (one, boot, base_us, seen_us) VALUES (1, ?, ?, ?)",
                (self._boot, base_us, now_us),
            )
        return now_us

    def _coder(self, law: AnyLaw) -> tuple[msgspec.json.Encoder, Any]:
        if law.name not in self._coders:
            self._coders[law.name] = msgspec.json.Encoder(), msgspec.json.Decoder(law.state)
        return self._coders[law.name]

    def before_fork(self) -> None:
        """Hold no connection open: SQLite's own account of its locks would be copied, and two processes would trust it."""
        self._held = self._lock.acquire(timeout=2 * self._within_s)
        if self._held:
            self._drop()

    def after_fork(self, *, child: bool) -> None:
        if child:
            self._lost = self._lost or not self._held
            self._lock = threading.Lock()
        elif self._held:
            self._lock.release()

    def connected(self) -> sqlite3.Connection:
        """Give the connection to the file that lies there now. Raises OSError, sqlite3.Error."""
        self._path.stat()
        if self._names.moved():  # two would count apart
            self._drop()
        if self._connection is None:
            self._names.opens()
            # `mode=rw`: a file that is not there is an error, and no new one.
            uri = f"{self._path.absolute().as_uri()}?mode=rw"
            connection = sqlite3.connect(
                uri, uri=True, timeout=self._within_s, isolation_level=None, check_same_thread=False
            )
            connection.execute("PRAGMA synchronous = FULL")
            self._connection = connection
        return self._connection

    def _drop(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            self._names.close(connection)

    def _unavailable(self, found: str) -> Unavailable:
        return Unavailable(
            self.place,
            found=one_line(found),
            wanted="a prepared file that answers in time",
            remedy=f"drillmaster store prepare {self.place}",
        )


class AsyncSQLiteStore:
    """The same in a thread: a transaction waits for the disk."""

    def __init__(self, path: str, *, within_s: float) -> None:
        self._store = SQLiteStore(path, within_s=within_s)
        self._within_s = within_s
        self.place = self._store.place

    async def ask(self, law: AnyLaw, key: str, question: Any) -> Any:
        try:
            async with asyncio.timeout(self._within_s):
                return await asyncio.to_thread(self._store.ask, law, key, question)
        except TimeoutError:
            raise self._store.late() from None

    async def close(self) -> None:
        await asyncio.to_thread(self._store.close)


def _write_down(
    connection: sqlite3.Connection,
    encoder: msgspec.json.Encoder,
    law: str,
    key: str,
    now_us: int,
    asked: Any,
    told: Any,
) -> None:
    """Write one question and its answer into the log, in the transaction of both; the oldest go."""
    row = (law, key, now_us, encoder.encode(asked).decode(), encoder.encode(told).decode())
    n = connection.execute(
        "INSERT INTO drillmaster_log (law, key, at_us, asked, told) VALUES (?, ?, ?, ?, ?)", row
    ).lastrowid
    connection.execute("DELETE FROM drillmaster_log WHERE n <= ?", ((n or 0) - _MOST_LOGGED,))


def _watch_forks(store: SQLiteStore) -> None:
    _OPEN.add(store)
    if not _WATCHED:
        _WATCHED.append(True)
        os.register_at_fork(before=_before, after_in_parent=_in_parent, after_in_child=_in_child)


def _before() -> None:
    for store in _OPEN:
        store.before_fork()


def _in_parent() -> None:
    for store in _OPEN:
        store.after_fork(child=False)


def _in_child() -> None:
    for store in _OPEN:
        store.after_fork(child=True)


def _boot() -> str:
    """Name this boot of the host; where the system tells none, there is one for all, and the wall clock counts."""
    try:
        return _BOOT.read_text(encoding="ascii").strip()
    except OSError:
        return ""


def _up_us() -> int:
    clock = getattr(time, "CLOCK_BOOTTIME", None)
    if clock is None or not _BOOT.exists():
        return time.time_ns() // 1_000
    return time.clock_gettime_ns(clock) // 1_000
