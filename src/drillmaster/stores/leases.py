"""What a store has of its leases, for people: who holds what, and the log of who asked for what and was told what.

It only reads, by a connection of its own. Names, tokens, reasons and times are all there is; a payload never was.
"""

import contextlib
import json
from collections.abc import Iterable
from typing import Any

import msgspec

from drillmaster.errors import Problem, one_line
from drillmaster.screen import screen_url
from drillmaster.stores.opening import open_store

__all__ = ["LogRow", "Standing", "read_leases", "read_log"]

_WITHIN_S = 10


class Standing(msgspec.Struct, frozen=True, kw_only=True):
    """The latest grant of one lease. Times are microseconds since 1970 on the store's clock."""

    lease: str
    item: str
    token: str
    holder: str
    by: str
    since_us: int
    until_us: int
    now_us: int

    @property
    def state(self) -> str:
        return "released" if self.until_us == 0 else "held" if self.now_us < self.until_us else "expired"


class LogRow(msgspec.Struct, frozen=True, kw_only=True):
    """One question, and what it was told. `asked`: the token that was brought; `token`: the one that was given."""

    lease: str
    item: str
    at_us: int
    action: str
    holder: str
    by: str
    asked: str
    allowed: bool
    reason: str
    token: str


def read_leases(url: str) -> list[Standing]:
    """List the latest grant of every lease, by name. Raises Problem."""
    rows, now_us = _of(url)(lambda store: (store.leases(), store.now_us()))
    found = []
    for key, token, holder, by, since_us, until_us in rows:
        lease, item = _named(key)
        found.append(
            Standing(
                lease=lease, item=item, token=str(token), holder=holder, by=by,
                since_us=int(since_us), until_us=int(until_us), now_us=now_us,
            )
        )  # fmt: skip  # fields in pairs
    return sorted(found, key=lambda one: (one.lease, one.item))


def read_log(url: str, *, key: str | None, last: int) -> list[LogRow]:
    """List the last so many questions, of one key (`guards.lease.Lease.key`) or of all, the oldest first. Raises Problem."""
    rows: Iterable[tuple[Any, ...]] = _of(url)(lambda store: store.log(key, last))
    found = []
    for of, at_us, action, holder, by, asked, allowed, reason, token in rows:
        lease, item = _named(of)
        found.append(
            LogRow(
                lease=lease, item=item, at_us=int(at_us), action=action, holder=holder, by=by, asked=str(asked or ""),
                allowed=bool(int(allowed)), reason=reason, token=str(token or ""),
            )
        )  # fmt: skip  # fields in pairs
    return found


def _named(key: str) -> tuple[str, str]:
    """Take a key apart into lease and item; one that no guard made is a lease by itself."""
    lease, rest = _cut(key)
    item, rest = _cut(rest)
    return (key, "") if rest or not lease else (lease, item)


def _cut(text: str) -> tuple[str, str]:
    size, colon, rest = text.partition(":")
    if not (colon and size.isascii() and size.isdigit() and int(size) <= len(rest)):
        return "", text
    return rest[: int(size)], rest[int(size) :]


def _of(url: str) -> Any:
    """Give what calls a function with a reader of this store, and closes it."""
    open_store(url).close()  # a URL that names none is a problem of its own

    def call(read: Any) -> Any:
        kind = _SQLite if url.startswith("sqlite:") else _PostgreSQL if url.startswith("postgres") else _Redis
        try:
            with contextlib.closing(kind(url)) as reader:
                return read(reader)
        except Exception as error:
            if not isinstance(error, OSError) and not type(error).__module__.startswith(
                ("sqlite3", "psycopg", "redis")
            ):
                raise
            raise Problem(
                screen_url(url),
                found=one_line(str(error).strip().split("\n")[0]) or type(error).__name__,
                wanted="a prepared store",
                remedy="drillmaster store prepare URL",
            ) from None

    return call


_LEASES = "SELECT key, token, holder, held_by, since_us, until_us FROM drillmaster_lease"
"""A table in PostgreSQL, a view in SQLite (`laws/lease.*`)."""


class _SQLite:
    def __init__(self, url: str) -> None:
        from drillmaster.stores.sqlite import SQLiteStore

        self._store = SQLiteStore(url.removeprefix("sqlite:"), within_s=_WITHIN_S)
        self._db = self._store.connected()

    def now_us(self) -> int:
        """Tell the store's time without setting its clock, which takes the file's write lock."""
        return self._store.read_clock(self._db)[0]

    def leases(self) -> list[Any]:
        return self._db.execute(_LEASES).fetchall()

    def log(self, key: str | None, last: int) -> list[Any]:
        rows = self._db.execute(
            "SELECT key, at_us, asked, told FROM drillmaster_log WHERE law = 'lease' AND (?1 IS NULL OR key = ?1)"
            " ORDER BY n DESC LIMIT ?2",
            (key, last),
        ).fetchall()
        return [self._row(*row) for row in reversed(rows)]

    def close(self) -> None:
        self._store.close()

    @staticmethod
    def _row(key: str, at_us: int, asked_json: str, told_json: str) -> tuple[Any, ...]:
        asked, told = json.loads(asked_json), json.loads(told_json)
        who = asked["action"], asked["holder"], asked["by"], asked["token"]
        return key, at_us, *who, told["allowed"], told["reason"], told["token"]


class _PostgreSQL:
    def __init__(self, url: str) -> None:
        from drillmaster.stores.postgresql import driver

        self._db = driver(screen_url(url)).connect(
            url, connect_timeout=_WITHIN_S, application_name="drillmaster", autocommit=True
        )

    def now_us(self) -> int:
        row = self._db.execute("SELECT floor(extract(epoch FROM clock_timestamp()) * 1000000)::bigint").fetchone()
        assert row is not None  # one row is what it gives
        return int(row[0])

    def leases(self) -> list[Any]:
        return list(self._db.execute(_LEASES).fetchall())

    def log(self, key: str | None, last: int) -> list[Any]:
        rows = self._db.execute(
            "SELECT key, at_us, action, holder, by, asked, allowed, reason, token FROM drillmaster_lease_log"
            " WHERE %(key)s::text IS NULL OR key = %(key)s ORDER BY n DESC LIMIT %(last)s",
            {"key": key, "last": last},
        ).fetchall()
        return list(reversed(rows))

    def close(self) -> None:
        self._db.close()


class _Redis:
    def __init__(self, url: str) -> None:
        try:
            import redis
        except ImportError:
            raise Problem(
                screen_url(url), found="no driver", wanted="redis-py", remedy="pip install 'drillmaster[redis]'"
            ) from None
        self._client: Any = redis.Redis.from_url(url, socket_timeout=_WITHIN_S, decode_responses=True)
        if not self._client.get("drillmaster:prepared"):
            raise redis.exceptions.ResponseError("it is not prepared, or came back without its data")

    def now_us(self) -> int:
        seconds, us = self._client.time()
        return int(seconds) * 1_000_000 + int(us)

    def leases(self) -> list[Any]:
        names = self._keys("hash")
        fields = ("token", "holder", "by", "since_us", "until_us")
        rows = [(key, *self._client.hmget(name, *fields)) for key, name in names.items()]
        return [row for row in rows if None not in row]  # taken away since it was listed, as a drill's are

    def log(self, key: str | None, last: int) -> list[Any]:
        names = self._keys("stream") if key is None else {key: f"drillmaster:lease:{{={key}}}:more"}
        fields = ("at_us", "action", "holder", "by", "asked", "allowed", "reason", "token")
        rows = [
            (int(entry["at_us"]), tuple(map(int, n.split("-"))), of, [entry[name] for name in fields])
            for of, name in names.items()
            for n, entry in self._client.xrevrange(name, count=last)
        ]
        return [(of, *row) for _, _, of, row in sorted(rows)[-last:]]

    def close(self) -> None:
        self._client.close()

    def _keys(self, kind: str) -> dict[str, str]:
        begin, end = "drillmaster:lease:{=", "}" if kind == "hash" else "}:more"
        found = self._client.scan_iter(match="drillmaster:lease:{=*", count=1_000, _type=kind)
        return {name.removeprefix(begin).removesuffix(end): name for name in found}
