"""The effect that a drill's holders both believe to be theirs: one count a job, in the store that the drill is run against.

A job's effect is adding one, which shows when it was done twice. It is fenced in one of three ways, or not at all.
"""

import contextlib
import sqlite3
from collections.abc import Iterator
from typing import Any, Literal, Protocol

from drillmaster.errors import Problem, one_line
from drillmaster.screen import screen_url
from drillmaster.stores.fences import FENCE_LUA, Fence, fence, fence_held, fence_key

__all__ = ["Effects", "Way", "open_effects", "ways"]

Way = Literal["lease", "column", "key", "none"]
"""By the lease's own row; by a column of the guarded row, claimed first; by a key beside the guarded one, claimed first; not."""
TABLE = "drillmaster_drill_jobs"
_MAKE = (
    f"CREATE TABLE IF NOT EXISTS {TABLE} (job VARCHAR(200) PRIMARY KEY, effects BIGINT NOT NULL, fencing_token BIGINT)"
)
_WAIT_S = 10


class Effects(Protocol):
    """One connection to where effects are counted."""

    def begin(self, job: str) -> None: ...

    def claim(self, job: str, token: str, way: Way) -> None:
        """Say that a newer holder is here, before it does anything. By the lease's row there is nothing to say."""

    def add(self, job: str, token: str, way: Way, key: str) -> bool:
        """Have the effect; False: the fence kept it out."""

    def count(self, job: str) -> int: ...

    def forget(self, jobs: list[str], keys: list[str]) -> None:
        """Take away what the drill has written: its jobs, and its leases."""

    def close(self) -> None: ...


def ways(url: str) -> tuple[Way, ...]:
    """Which ways of fencing a store has."""
    return ("lease", "column") if url.startswith(("sqlite:", "postgres")) else ("key",)


@contextlib.contextmanager
def open_effects(url: str) -> Iterator[Effects]:
    """Open where effects are counted. Raises Problem."""
    opened: Effects
    try:
        if url.startswith("sqlite:"):
            opened = _SQLite(url)
        elif url.startswith("postgres"):
            opened = _PostgreSQL(url)
        else:
            opened = _Redis(url)
    except Exception as error:
        if isinstance(error, Problem) or not type(error).__module__.startswith(("sqlite3", "psycopg", "redis")):
            raise
        raise Problem(
            screen_url(url), found=one_line(str(error)), wanted="a store in which a drill may write",
            remedy="name a store for drills: --store URL",
        ) from None  # fmt: skip  # fields in pairs
    try:
        yield opened
    finally:
        opened.close()


def _fence(token: str, way: Way, key: str, database: Any, style: Any) -> Fence:
    if way == "lease":
        return fence_held(token, key=key, database=database, style=style)
    return fence(token, style=style) if way == "column" else Fence(where="(1 = 1)")


def _update(f: Fence, *, adds: bool, job: str) -> str:
    sets = ", ".join(one for one in ("effects = effects + 1" if adds else "", f.sets) if one)
    return f"UPDATE {TABLE} SET {sets} WHERE job = {job} AND {f.where}"  # noqa: S608 - words of this file


class _SQLite:
    def __init__(self, url: str) -> None:
        self._db = sqlite3.connect(url.removeprefix("sqlite:"), timeout=_WAIT_S, isolation_level=None)
        self._db.execute(_MAKE)

    def begin(self, job: str) -> None:
        self._db.execute(f"INSERT INTO {TABLE} VALUES (?, 0, NULL)", (job,))  # noqa: S608 - words of this file

    def claim(self, job: str, token: str, way: Way) -> None:
        if way == "column":
            f = fence(token, style="named")
            self._db.execute(_update(f, adds=False, job=":job"), {"job": job, **f.params})

    def add(self, job: str, token: str, way: Way, key: str) -> bool:
        f = _fence(token, way, key, "sqlite", "named")
        return self._db.execute(_update(f, adds=True, job=":job"), {"job": job, **f.params}).rowcount == 1

    def count(self, job: str) -> int:
        row = self._db.execute(f"SELECT effects FROM {TABLE} WHERE job = ?", (job,)).fetchone()  # noqa: S608 - likewise
        return int(row[0])

    def forget(self, jobs: list[str], keys: list[str]) -> None:
        self._db.executemany(f"DELETE FROM {TABLE} WHERE job = ?", [(one,) for one in jobs])  # noqa: S608 - likewise
        self._db.executemany("DELETE FROM drillmaster_state WHERE law = 'lease' AND key = ?", [(one,) for one in keys])

    def close(self) -> None:
        self._db.close()


class _PostgreSQL:
    def __init__(self, url: str) -> None:
        import psycopg

        self._db = psycopg.connect(url, autocommit=True, connect_timeout=_WAIT_S, application_name="drillmaster drill")
        self._db.execute("SELECT pg_advisory_lock(7218341)")
        self._db.execute(_MAKE)
        self._db.execute("SELECT pg_advisory_unlock(7218341)")

    def begin(self, job: str) -> None:
        self._db.execute(f"INSERT INTO {TABLE} VALUES (%s, 0, NULL)".encode(), (job,))  # noqa: S608 - words of this file

    def claim(self, job: str, token: str, way: Way) -> None:
        if way == "column":
            f = fence(token)
            self._db.execute(_update(f, adds=False, job="%(job)s").encode(), {"job": job, **f.params})

    def add(self, job: str, token: str, way: Way, key: str) -> bool:
        f = _fence(token, way, key, "postgresql", "pyformat")
        return self._db.execute(_update(f, adds=True, job="%(job)s").encode(), {"job": job, **f.params}).rowcount == 1

    def count(self, job: str) -> int:
        row = self._db.execute(f"SELECT effects FROM {TABLE} WHERE job = %s".encode(), (job,)).fetchone()  # noqa: S608 - likewise
        assert row is not None  # it was begun
        return int(row[0])

    def forget(self, jobs: list[str], keys: list[str]) -> None:
        self._db.execute(f"DELETE FROM {TABLE} WHERE job = ANY(%s)".encode(), (jobs,))  # noqa: S608 - likewise
        self._db.execute("DELETE FROM drillmaster_lease WHERE key = ANY(%s)", (keys,))

    def close(self) -> None:
        self._db.close()


_CLAIM = FENCE_LUA + "\nreturn drillmaster_fence(KEYS[2], ARGV[1]) and 1 or 0\n"
_ADD = (
    FENCE_LUA
    + """
if not drillmaster_fence(KEYS[2], ARGV[1]) then return 0 end
redis.call('INCR', KEYS[1])
return 1
"""
)


class _Redis:
    def __init__(self, url: str) -> None:
        import redis

        self._client: Any = redis.Redis.from_url(url, socket_timeout=_WAIT_S)
        self._client.ping()

    def begin(self, job: str) -> None:
        self._client.set(self._key(job), 0)

    def claim(self, job: str, token: str, way: Way) -> None:
        if way == "key":
            self._client.eval(_CLAIM, 2, self._key(job), fence_key(self._key(job)), token)

    def add(self, job: str, token: str, way: Way, key: str) -> bool:
        if way == "none":
            self._client.incr(self._key(job))
            return True
        return bool(self._client.eval(_ADD, 2, self._key(job), fence_key(self._key(job)), token) == 1)

    def count(self, job: str) -> int:
        return int(self._client.get(self._key(job)))

    def forget(self, jobs: list[str], keys: list[str]) -> None:
        ours = [name for job in jobs for name in (self._key(job), fence_key(self._key(job)))]
        leases = [
            name for key in keys for name in (f"drillmaster:lease:{{={key}}}", f"drillmaster:lease:{{={key}}}:more")
        ]
        for name in (*ours, *leases):  # one by one: in a cluster they lie apart
            self._client.delete(name)

    def close(self) -> None:
        self._client.close()

    def _key(self, job: str) -> str:
        return f"{TABLE}:{job}"
