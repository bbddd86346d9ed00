"""A store in PostgreSQL: each law is a function there (`laws/NAME.sql`), and a question is one prepared statement.

1. It speaks through libpq's own calls (`psycopg.pq`): a socket that is waited for with a deadline. A server that is stopped, or a
   network that swallows what is sent, ends in `Unavailable` at the time limit, and the connection is given up.
2. The server ends a question by itself at the same limit (`statement_timeout`, `lock_timeout`): what was given up does not
   wait there for its lock.
3. The clock is `clock_timestamp()`, read when the row is locked.
"""

import asyncio
import os
import select
import threading
import time
from collections.abc import Generator
from typing import Any

from drillmaster.errors import Problem, one_line
from drillmaster.rules import AnyLaw
from drillmaster.screen import screen_url
from drillmaster.stores import Unavailable
from drillmaster.stores.carrying import Telling, scripts, words

__all__ = ["AsyncPostgreSQLStore", "PostgreSQLStore", "driver"]


class _Gone(Exception):
    """The connection is lost, or was before this question."""


class _Link:
    """One connection. `steps` yields what has to be waited for (fd, for writing), and returns what came."""

    def __init__(self, info: bytes, place: str) -> None:
        from psycopg import Error, pq

        self._pq, self._error = pq, Error
        self._place = place
        self._connection = pq.PGconn.connect_start(info)
        self._prepared: dict[str, tuple[bytes, Telling]] = {}

    def opening(self) -> Generator[tuple[int, bool], None, None]:
        pq = self._pq
        while True:
            status = self._connection.connect_poll()
            if status == pq.PollingStatus.OK:
                self._connection.nonblocking = 1
                return
            if status == pq.PollingStatus.FAILED:
                raise _Gone(self._said())
            yield self._connection.socket, status == pq.PollingStatus.WRITING

    def asking(
        self, law: AnyLaw, key: str, question: Any, now_us: int | None = None
    ) -> Generator[tuple[int, bool], None, Any]:
        if law.name not in self._prepared:
            telling, count = Telling(law), 2 + len(law.asked.__struct_fields__)
            marks = ", ".join(f"${n + 1}" for n in range(count))
            name = f"dm_{law.name}".encode()
            query = f"SELECT * FROM drillmaster_{law.name}({marks})"  # noqa: S608 - a law's name
            self._call(self._connection.send_prepare, name, query.encode())
            yield from self._result()
            self._prepared[law.name] = name, telling
        name, telling = self._prepared[law.name]
        said = [key, *words(question), None if now_us is None else str(now_us)]
        try:
            values = [None if one is None else one.encode() for one in said]
        except UnicodeEncodeError:
            raise _unavailable(self._place, "a name that is no text") from None
        self._call(self._connection.send_query_prepared, name, values)
        result = yield from self._result()
        row = [result.get_value(0, n) for n in range(result.nfields)] if result.ntuples == 1 else []
        return telling.read(row, self._place)

    def close(self) -> None:
        self._connection.finish()

    def _call(self, what: Any, *args: Any) -> None:
        try:
            what(*args)
        except self._error as error:
            raise _Gone(one_line(str(error))) from None

    def _result(self) -> Generator[tuple[int, bool], None, Any]:
        pq, connection = self._pq, self._connection
        try:
            while connection.flush():
                yield connection.socket, True
            while connection.is_busy():
                yield connection.socket, False
                connection.consume_input()
            result = connection.get_result()
            while connection.get_result() is not None:
                pass
        except self._error as error:
            raise _Gone(one_line(str(error))) from None
        if result is None:
            raise _Gone(self._said())
        if result.status not in (pq.ExecStatus.TUPLES_OK, pq.ExecStatus.COMMAND_OK):
            if connection.status != pq.ConnStatus.OK:
                raise _Gone(self._said())
            code = (result.error_field(pq.DiagnosticField.SQLSTATE) or b"").decode()
            if code.startswith("57P"):  # the server is shutting down, or this session was ended
                raise _Gone(code)
            raise _unavailable(self._place, f"SQLSTATE {code}: {_first_line(result.error_message)}")
        return result

    def _said(self) -> str:
        return _first_line(self._connection.error_message) or "the connection was lost"


class PostgreSQLStore:
    def __init__(self, url: str, *, within_s: float) -> None:
        self._url = url
        self.place = screen_url(url)
        self._within_s = within_s
        self._info = _conninfo(url, within_s, self.place)
        self._lock = threading.Lock()
        self._idle: list[_Link] = []
        self._pid = os.getpid()

    def ask(self, law: AnyLaw, key: str, question: Any, *, now_us: int | None = None) -> Any:
        """Answer. `now_us` is for tests of the law: no guard gives it."""
        ends = time.monotonic() + self._within_s
        while True:
            link = self._taken()
            kept = link is not None
            try:
                if link is None:
                    link = _Link(self._info, self.place)
                    self._wait(link.opening(), ends)
                told = self._wait(link.asking(law, key, question, now_us), ends)
            except _Gone as error:
                if link is not None:
                    link.close()
                if kept:
                    continue
                raise _unavailable(self.place, str(error)) from None
            except BaseException:
                if link is not None:
                    link.close()
                raise
            with self._lock:
                self._idle.append(link)
            return told

    def prepare(self) -> None:
        _prepare(self._url, self.place)

    def close(self) -> None:
        with self._lock:
            idle, self._idle = self._idle, []
        for link in idle:
            link.close()

    def _taken(self) -> _Link | None:
        if self._pid != os.getpid():  # a parent's connections stay open, and the parent's; its lock may be held
            self._lock, self._idle, self._pid = threading.Lock(), [], os.getpid()
        with self._lock:
            return self._idle.pop() if self._idle else None

    def _wait(self, steps: Any, ends: float) -> Any:
        try:
            fd, writes = next(steps)
            while True:
                left_s = ends - time.monotonic()
                poll = select.poll()
                poll.register(fd, select.POLLOUT if writes else select.POLLIN)
                if left_s <= 0 or not poll.poll(max(1, int(left_s * 1_000))):
                    raise _unavailable(self.place, f"no answer within {self._within_s:g} s")
                fd, writes = next(steps)
        except StopIteration as done:
            return done.value


class AsyncPostgreSQLStore:
    """The same in one event loop: its reader and writer are set for as long as a question waits."""

    def __init__(self, url: str, *, within_s: float) -> None:
        self._url = url
        self.place = screen_url(url)
        self._within_s = within_s
        self._info = _conninfo(url, within_s, self.place)
        self._idle: list[_Link] = []
        self._pid = os.getpid()

    async def ask(self, law: AnyLaw, key: str, question: Any) -> Any:
        try:
            async with asyncio.timeout(self._within_s):
                return await self._asked(law, key, question)
        except TimeoutError:
            raise _unavailable(self.place, f"no answer within {self._within_s:g} s") from None

    async def close(self) -> None:
        idle, self._idle = self._idle, []
        for link in idle:
            link.close()

    async def _asked(self, law: AnyLaw, key: str, question: Any) -> Any:
        if self._pid != os.getpid():  # a parent's connections stay open, and the parent's
            self._idle, self._pid = [], os.getpid()
        while True:
            link = self._idle.pop() if self._idle else None
            kept = link is not None
            try:
                if link is None:
                    link = _Link(self._info, self.place)
                    await self._wait(link.opening())
                told = await self._wait(link.asking(law, key, question))
            except _Gone as error:
                if link is not None:
                    link.close()
                if kept:
                    continue
                raise _unavailable(self.place, str(error)) from None
            except BaseException:  # cancelled too: what was asked is still on its way
                if link is not None:
                    link.close()
                raise
            self._idle.append(link)
            return told

    async def _wait(self, steps: Any) -> Any:
        loop = asyncio.get_running_loop()
        try:
            fd, writes = next(steps)
            while True:
                ready = loop.create_future()
                add, remove = (loop.add_writer, loop.remove_writer) if writes else (loop.add_reader, loop.remove_reader)
                add(fd, _set, ready)
                try:
                    await ready
                finally:
                    remove(fd)
                fd, writes = next(steps)
        except StopIteration as done:
            return done.value


def _set(ready: "asyncio.Future[None]") -> None:
    if not ready.done():
        ready.set_result(None)


def driver(place: str) -> Any:
    """Import psycopg for whatever is at a place. Raises Problem where it is not installed."""
    try:
        import psycopg
    except ImportError:
        raise Problem(
            place, found="no driver for PostgreSQL", wanted="psycopg 3", remedy="pip install 'drillmaster[postgresql]'"
        ) from None
    return psycopg


# Each law works on the table that it was made beside, whatever a caller's path finds first.
_PIN = r"""
DO $$ DECLARE law regprocedure; BEGIN
  FOR law IN SELECT oid FROM pg_proc WHERE pronamespace = current_schema()::regnamespace AND proname LIKE 'drillmaster\_%' LOOP
    EXECUTE format('ALTER FUNCTION %s SET search_path = %I, pg_temp', law, current_schema());
  END LOOP;
END $$
"""


def _prepare(url: str, place: str) -> None:
    psycopg = driver(place)
    try:
        with psycopg.connect(url, connect_timeout=10, application_name="drillmaster") as connection:
            # Two that prepare at once would meet in the catalogue.
            connection.execute("SELECT pg_advisory_xact_lock(7218340)")
            for script in scripts("sql").values():
                connection.execute(script.encode())
            connection.execute(_PIN)
    except psycopg.Error as error:
        raise Problem(
            place,
            found=one_line(str(error)).replace(os.environ.get("PGPASSWORD") or "\0", "***").strip(),
            wanted="a database in which tables and functions can be made",
            remedy="see that it runs, and that the user may create in its schema",
        ) from None


def _conninfo(url: str, within_s: float, place: str) -> bytes:
    """Read the URL by the driver's own reader. Raises Problem where it is none, or there is no driver."""
    psycopg = driver(place)
    from psycopg.conninfo import conninfo_to_dict, make_conninfo

    limit_ms = max(1, int(within_s * 1_000))
    options = (
        f"-c statement_timeout={limit_ms} -c lock_timeout={limit_ms}"
        " -c default_transaction_isolation=read\\ committed -c synchronous_commit=on"
    )
    try:
        own = conninfo_to_dict(url).get("options")  # such as the schema that `prepare` made the laws in
        options = f"{own} {options}" if own else options
        return make_conninfo(url, application_name="drillmaster", options=options).encode()
    except psycopg.Error:  # its text would quote the URL, with the password in it
        raise Problem(
            place,
            found="a URL that cannot be read",
            wanted="postgresql://USER@HOST/DATABASE",
            remedy="name the store by its URL",
        ) from None


def _first_line(said: bytes) -> str:
    return one_line(said.decode("utf-8", "replace").strip().split("\n")[0])


def _unavailable(place: str, found: str) -> Unavailable:
    return Unavailable(
        place,
        found=found.replace(os.environ.get("PGPASSWORD") or "\0", "***"),
        wanted="a prepared database that answers in time",
        remedy="drillmaster store prepare URL",
    )
