"""History: one row a run, where a team can find it again, in SQLite or PostgreSQL.

1. A row says what a sealed run says, and what the verdict beside it said of that very seal. Whoever has the folders can make
   all rows again; no gate takes a row's word for what lies in a folder.
2. A row never goes away, and what a run was sealed as never changes under its id: the same run with another seal is refused.
   A later verdict on the same seal takes the place of an earlier one.
3. Rows are added one after the other, each in a transaction of its own, by however many processes.
4. Nothing about a figure loses a row. One that is no finite number, or that cannot be written down, is left out and named with
   its reason; the folder that the history lies in is made.
"""

import contextlib
import math
import os
import re
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, Protocol

import msgspec

from drillmaster.errors import Problem, Refused, one_line
from drillmaster.screen import screen_text, screen_url

__all__ = ["Added", "Entry", "History", "figures", "open_history"]

Status = Literal["pass", "fail", "refused", "unjudged", "aborted"]
Added = Literal["new", "judged", "known"]

BUSY_S = 10.0
_MOST_WHOLE = 2.0**53
_TABLE = """
CREATE TABLE IF NOT EXISTS drillmaster_history (
  run TEXT PRIMARY KEY,
  drill TEXT NOT NULL,
  name TEXT NOT NULL,
  ended_at TEXT NOT NULL,
  evidence_digest TEXT NOT NULL,
  entry TEXT NOT NULL
)
"""


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """One run. Fields that a later version adds are kept as they are where an earlier one reads."""

    run: str
    drill: str
    """`interview`, `eviction`, `matrix` (of faults), `friday`."""
    name: str
    """The job that was interviewed, or the service that was drilled."""
    target: str
    """Without user info and query."""
    ended_at: str
    """RFC 3339 in UTC with six digits, so that text sorts by time; for an interview without an end its start."""
    status: Status
    """What `verdict.json` says; `unjudged`: there is none on this seal; `aborted`: there is none, and the run was stopped."""
    judged_at: str = ""
    """When that verdict was given, RFC 3339."""
    stamps: tuple[str, ...] = ()
    """What the run says of itself: REHEARSAL, COMPRESSED 30x."""
    evidence_digest: str
    """Head of the seal."""
    policy_digest: str = ""
    plan_sha256: str = ""
    payload_sha256: str = ""
    metrics: dict[str, float] = {}
    """Figures by name, each with its unit: `warm_c4.p95_s`, `drain.max_s`, `warm_c4.error_rate`."""
    at_least: tuple[str, ...] = ()
    """Of those the ones that were cut: it took so long, and was not over."""
    missing: dict[str, str] = {}
    """Figures that belong to such a run and that nobody has, each with its reason."""
    proved: dict[str, Literal["pass", "fail", "refused"]] = {}
    """What it put to the test and what came of each: `fault/reset`, `flag/toolTimeout`, `row/mission-latency`."""
    commit: str = ""
    """Of the code that was drilled; empty: nobody knows."""
    clean: bool = False
    """Whether it was that commit's and nothing else."""


def figures(metrics: Mapping[Any, Any]) -> tuple[dict[str, float], dict[str, str]]:
    """Part figures from what is none: finite numbers by name, and of the others why each is null (rule 4)."""
    kept: dict[str, float] = {}
    missing: dict[str, str] = {}
    for key, value in metrics.items():
        name = one_line(str(key))[:200]
        if type(value) in (int, float) and abs(value) <= _MOST_WHOLE and math.isfinite(value):
            kept[name] = float(value)
        elif type(value) is float and math.isfinite(value):
            kept[name] = value
        elif value is None:
            missing[name] = "nobody measured it"
        elif type(value) in (int, float):
            missing[name] = f"{one_line(str(value)[:40])} is no finite number that JSON can hold"
        else:
            missing[name] = f"a {type(value).__name__} is no number"
    return kept, missing


class _Connection(Protocol):
    def execute(self, query: Any, params: Sequence[Any] = ..., /) -> Any: ...
    def close(self) -> None: ...


class History:
    """Rows of runs. A context manager: it closes what it opened."""

    def __init__(
        self, connection: _Connection, *, place: str, mark: str, begin: str, lock: str, alone: str = ""
    ) -> None:
        self._connection = connection
        self.place = place
        """How to name it in a message; holds no password."""
        self._mark, self._begin, self._lock, self._alone = mark, begin, lock, alone

    def add(self, entry: Entry) -> Added:
        """Take a run in. Raises Refused where it is known with another seal, Problem where nothing can be written."""
        sound, unsound = figures(entry.metrics)
        entry = msgspec.structs.replace(entry, metrics=sound, missing={**entry.missing, **unsound})
        text = msgspec.json.encode(entry).decode()
        with self._transaction():
            inserted = self._run(
                "INSERT INTO drillmaster_history (run, drill, name, ended_at, evidence_digest, entry)"
                " VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT (run) DO NOTHING",
                (entry.run, entry.drill, entry.name, entry.ended_at, entry.evidence_digest, text),
            )
            if inserted.rowcount == 1:
                return "new"
            digest, stored = self._run(
                f"SELECT evidence_digest, entry FROM drillmaster_history WHERE run = ?{self._lock}",  # noqa: S608 - ours
                (entry.run,),
            ).fetchone()
            if digest != entry.evidence_digest:
                raise Refused(
                    f"{self.place}: {entry.run}",
                    found=f"the seal {digest[:19]}, and the folder has {entry.evidence_digest[:19]}",
                    wanted="one seal for one run",
                    remedy="find out who sealed it again; the row that is there stays",
                )
            if entry.judged_at <= msgspec.json.decode(stored, type=Entry).judged_at:
                return "known"
            self._run("UPDATE drillmaster_history SET entry = ? WHERE run = ?", (text, entry.run))
            return "judged"

    def entries(self, *, drill: str | None = None, name: str | None = None, last: int | None = None) -> list[Entry]:
        """The runs, oldest first: of one kind of drill, of one job or service, the last so many. Raises Problem."""
        wanted = {"drill": drill, "name": name}
        given = {column: value for column, value in wanted.items() if value is not None}
        where = " AND ".join(f"{column} = ?" for column in given) or "1 = 1"
        limit = "" if last is None else f" LIMIT {int(last)}"
        query = f"SELECT entry FROM drillmaster_history WHERE {where} ORDER BY ended_at DESC, run DESC{limit}"  # noqa: S608 - names and a number of ours
        with self._told():
            rows = self._run(query, tuple(given.values())).fetchall()
            return [msgspec.json.decode(text, type=Entry) for (text,) in reversed(rows)]

    def digests(self) -> dict[str, tuple[str, str]]:
        """What is known: run to the head of its seal and the time of its verdict. Raises Problem."""
        return {entry.run: (entry.evidence_digest, entry.judged_at) for entry in self.entries()}

    def close(self) -> None:
        self._connection.close()

    def __enter__(self) -> "History":
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    # How

    def prepare(self) -> None:
        """Make the table where it is not there. Raises Problem."""
        with self._transaction():
            if self._alone:
                self._run(self._alone)
            self._run(_TABLE)

    def _run(self, query: str, params: tuple[Any, ...] = ()) -> Any:
        return self._connection.execute(query.replace("?", self._mark), params)

    @contextlib.contextmanager
    def _transaction(self) -> Iterator[None]:
        with self._told():
            self._connection.execute(self._begin)
            try:
                yield
            except BaseException:
                self._connection.execute("ROLLBACK")
                raise
            self._connection.execute("COMMIT")

    @contextlib.contextmanager
    def _told(self) -> Iterator[None]:
        """Say what a database did in our own words, with its place."""
        try:
            yield
        except msgspec.DecodeError as error:
            raise Problem(
                self.place,
                found=f"a row that cannot be read: {error}",
                wanted="rows of this version",
                remedy="make it again from the run folders: drillmaster history --history NEW",
            ) from None
        except Exception as error:
            if isinstance(error, Problem) or not _is_of_a_database(error):
                raise
            raise Problem(
                self.place,
                found=one_line(str(error)).strip() or type(error).__name__,
                wanted="a database that can be read and written",
                remedy="see that it is there, is yours to write, and is no other program's",
            ) from None


def open_history(named: str) -> History:
    """Open a history: the path of an SQLite file, which is made where there is none, or `postgresql://USER@HOST/DATABASE`.

    Raises Problem. A password is best left to PGPASSWORD or a .pgpass file; no message holds one.
    """
    scheme, colon, _ = named.partition("://")
    if not colon:
        history = _sqlite(Path(named))
    elif scheme in ("postgresql", "postgres"):
        history = _postgresql(named)
    else:
        raise Problem(
            screen_url(named),
            found=f"the scheme {scheme[:20]!r}",
            wanted="the path of an SQLite file, or postgresql://USER@HOST/DATABASE",
            remedy="see drillmaster history --help",
        )
    try:
        history.prepare()
    except BaseException:
        history.close()
        raise
    return history


def _sqlite(path: Path) -> History:
    place = one_line(str(path))
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise Problem(
            place,
            found=f"no folder that can be made: {(error.strerror or type(error).__name__).lower()}",
            wanted="a folder that is there",
            remedy=f"mkdir -p {one_line(str(path.parent))}",
        ) from None
    try:
        connection = sqlite3.connect(path, timeout=BUSY_S, isolation_level=None)
        connection.execute("PRAGMA synchronous = FULL")
    except sqlite3.Error as error:
        raise Problem(
            place, found=str(error), wanted="a history that can be read and written", remedy=_remedy(error, path)
        ) from None
    return History(connection, place=place, mark="?", begin="BEGIN IMMEDIATE", lock="")


def _remedy(error: sqlite3.Error, path: Path) -> str:
    """What to do about a file that SQLite does not take."""
    code = getattr(error, "sqlite_errorcode", None)
    if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
        return "wait for whoever holds it, or see who does: a drill, a backup, a console of sqlite3"
    if code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):
        return f"move it away, and have it made again from the run folders: mv {one_line(str(path))} {one_line(path.name)}.broken"
    return "see that the folder is yours to write and has room, or name another with --history"


def _postgresql(url: str) -> History:
    place = screen_url(url)
    scheme, _, rest = url.partition("://")
    host = re.split(r"[/?#]", rest, maxsplit=1)[0]
    if "@" in rest[len(host) :]:  # what was cut off before is a piece of a password, and would stand in messages
        raise Problem(
            f"{scheme}://[screened]",
            found="an @ behind the host",
            wanted="postgresql://USER@HOST/DATABASE; a / ? or # of a password is written %2F %3F %23",
            remedy="leave the password to PGPASSWORD or ~/.pgpass",
        )
    from drillmaster.stores.postgresql import driver

    psycopg = driver(place)
    try:
        connection = psycopg.connect(url, autocommit=True, connect_timeout=int(BUSY_S), application_name="drillmaster")
        connection.execute(f"SET lock_timeout = '{int(BUSY_S)}s'")
    except psycopg.Error as error:
        raise Problem(
            place,
            # What libpq cannot read it says again, password and all.
            found=one_line(screen_text(str(error).replace(url, place)))
            .replace(os.environ.get("PGPASSWORD") or "\0", "***")
            .strip(),
            wanted="a database that takes a connection",
            remedy="see that it runs, and that the user and the database are there",
        ) from None
    # IF NOT EXISTS alone lets two that prepare at once meet in the catalogue, and one of them fail.
    alone = "SELECT pg_advisory_xact_lock(7218342)"
    return History(connection, place=place, mark="%s", begin="BEGIN", lock=" FOR UPDATE", alone=alone)


def _is_of_a_database(error: Exception) -> bool:
    """Whether it is one of the two drivers' own, told by name: only one of them may be there."""
    return any(
        kind.__module__.split(".")[0] in ("sqlite3", "psycopg") and kind.__name__ == "Error"
        for kind in type(error).__mro__
    )
