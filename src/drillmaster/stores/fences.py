"""The predicate at the write: what makes a lease protect something.

A holder that was paused past its deadline does not know it, and what it asked before its pause says nothing about now. So the store
that takes the write compares tokens, in the same statement, and takes nothing under an old one.

1. `fence`: the guarded row remembers the highest token that it was written under, in a column of its own. Works in any database.
   It refuses whoever is older than the latest *write*; so a new holder writes its token first (`UPDATE t SET {sets} WHERE ...`),
   before it reads what it will decide on.
2. `fence_held`: the lease itself lies in the same database, and the write is taken only while its token is the latest that was
   given and was not released. A takeover waits until such a write is committed. It refuses from the moment on that somebody else
   is granted the lease, with nothing to claim first. The deadline alone refuses nothing: who is late and alone may still write.
3. `FENCE_LUA`: rule 1 for Redis, in the same script as the write.
4. A statement may have several fences. Parameters are named by what they are compared with, so that the values of one never stand
   in for another's: the params of all are put together as they are.
5. An unusable token, or a name that is none, gives a predicate that is never true: the write takes nothing, and nothing is raised.
   Names are code, so they are held to letters, digits and underscores, and stand unquoted; tokens are parameters.

A statement that was refused has changed no row. Who does not look at the count has not noticed.
"""

import hashlib
import re
from collections.abc import Awaitable
from typing import Any, Literal

import msgspec

from drillmaster.rules.fence import read_token

__all__ = [
    "FENCE_LUA",
    "Fence",
    "Style",
    "fence",
    "fence_held",
    "fence_key",
    "fenced_delete",
    "fenced_delete_async",
    "fenced_set",
    "fenced_set_async",
]

Style = Literal["pyformat", "named", "dollar"]
"""How a driver writes a parameter: `%(name)s` psycopg; `:name` sqlite3 and SQLAlchemy's text(); `$n` asyncpg."""

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,62}", re.ASCII)
_NEVER = "(1 = 0)"
_BESIDE = "fencing-token"


class Fence(msgspec.Struct, frozen=True, kw_only=True):
    """What is spliced into a statement. `where` and `sets` are SQL, `params` their values."""

    where: str
    sets: str = ""
    """For the SET of an UPDATE: remembers the token. Empty where nothing is remembered."""
    params: dict[str, Any] = {}
    values: tuple[Any, ...] = ()
    """The same in order, for `dollar`."""
    token: str = "NULL"  # noqa: S105 - how SQL writes none
    """How the token is written as a parameter, for a statement that inserts it besides."""


def fence(
    token: object,
    *,
    column: str = "fencing_token",
    table: str = "",
    style: Style = "pyformat",
    first: int = 1,
) -> Fence:
    """Make the predicate over a column of the guarded row. `table` qualifies it in `where`: an upsert's SET and WHERE need that.

    `first` is the number of the parameter for `dollar`. Where one statement has the fences of two rows, each names its table.
    """
    number = read_token(token)
    usable = _is_name(column) and (not table or _is_table(table))
    name = _named("dm_token", f"{table}.{column}" if table or column != "fencing_token" else "") if usable else ""
    mark = _mark(style, name, first)
    if number is None or mark is None or not usable:
        known = column if _is_name(column) else "fencing_token"
        return Fence(where=_NEVER, sets=f"{known} = {known}")
    where = f"COALESCE({table}{'.' if table else ''}{column}, 0) <= {mark}"
    return Fence(where=f"({where})", sets=f"{column} = {mark}", params={name: number}, values=(number,), token=mark)


def fence_held(
    token: object,
    *,
    key: str,
    database: Literal["postgresql", "sqlite"],
    schema: str = "",
    style: Style = "pyformat",
    first: int = 1,
) -> Fence:
    """Make the predicate over the lease itself, which lies in the same database. `key` is the guard's (`guards.lease.Lease.key`).

    In PostgreSQL the lease's row is locked FOR KEY SHARE until the transaction's end: a takeover waits for it, a renewal does not.
    In SQLite whoever writes has the file alone.
    """
    number = read_token(token)
    usable = isinstance(key, str) and key != "" and "\x00" not in key and database in ("postgresql", "sqlite")
    names = [_named(word, str(key)) for word in ("dm_key", "dm_token")]
    marks = _mark(style, names[0], first), _mark(style, names[1], first + 1 if type(first) is int else 0)
    if number is None or marks[0] is None or marks[1] is None or not usable or (schema and not _is_name(schema)):
        return Fence(where=_NEVER)
    source = f"{schema}{'.' if schema else ''}drillmaster_lease"
    lock = " FOR KEY SHARE" if database == "postgresql" else ""
    # A column of the statement around it, were it named alike, must not be meant: each name is qualified.
    inner = f"dm_l.key = {marks[0]} AND dm_l.token = {marks[1]} AND dm_l.until_us > 0"
    where = f"EXISTS (SELECT 1 FROM {source} AS dm_l WHERE {inner}{lock})"  # noqa: S608 - names by the grammar above
    return Fence(where=where, params={names[0]: key, names[1]: number}, values=(key, number), token=marks[1])


def _named(word: str, what: str) -> str:
    """Name a parameter by what it is compared with. The same lease or row gives the same name, and so the same statement."""
    return f"{word}_{hashlib.sha256(what.encode('utf-8', 'surrogatepass')).hexdigest()[:16]}" if what else word


def _mark(style: str, name: str, number: int) -> str | None:
    if style == "dollar":
        # Without its type, PostgreSQL would take the parameter for what stands beside it, and asyncpg refuse the value.
        kind = "text" if name.startswith("dm_key") else "bigint"
        return f"${number}::{kind}" if type(number) is int and 0 < number < 60_000 else None
    return {"pyformat": f"%({name})s", "named": f":{name}"}.get(style) if isinstance(style, str) else None


def _is_name(name: object) -> bool:
    return isinstance(name, str) and _NAME.fullmatch(name) is not None


def _is_table(name: object) -> bool:
    return isinstance(name, str) and name.count(".") <= 1 and all(_is_name(part) for part in name.split("."))


# Tokens are texts without leading zeros, so the longer one is higher: a double holds no number past 2^53.
FENCE_LUA = """\
local function drillmaster_fence(key, token)
  if type(token) ~= 'string' or #token > 19 or not string.match(token, '^[1-9][0-9]*$') then return false end
  if #token == 19 and token > '9223372036854775807' then return false end
  local seen = redis.call('GET', key)
  if seen and (#token < #seen or (#token == #seen and token < seen)) then return false end
  redis.call('SET', key, token)
  return true
end
"""
"""For the top of a script of your own: `drillmaster_fence(key, token)` is true where the write may go on, and remembers the token.
Give the key that `fence_key` names as one of the script's KEYS."""

_SET = (
    FENCE_LUA
    + """
if not drillmaster_fence(KEYS[2], ARGV[1]) then return 0 end
if ARGV[3] == '' then redis.call('SET', KEYS[1], ARGV[2]) else redis.call('SET', KEYS[1], ARGV[2], 'PX', ARGV[3]) end
return 1
"""
)
_DELETE = (
    FENCE_LUA
    + """
if not drillmaster_fence(KEYS[2], ARGV[1]) then return 0 end
redis.call('DEL', KEYS[1])
return 1
"""
)


def fence_key(key: str) -> str:
    """Name the key that remembers a guarded key's token; both lie in one slot of a cluster. It never expires.

    No two keys have the same one. Raises ValueError for a key that no other key can be beside, one with a `}` and no hash tag,
    and for one that is named as those that remember: who writes it makes another key forget.
    """
    if key.endswith(_BESIDE):
        raise ValueError(f"a key that does not end in {_BESIDE}")
    before, tag, rest = key.partition("{")
    if tag and rest.find("}") > 0:
        # `{t7}` alone would have what `t7` has.
        return f"{key}:its-fencing-token" if not before and rest.find("}") == len(rest) - 1 else f"{key}:fencing-token"
    if not key or "}" in key or tag:
        raise ValueError("a key without braces, or with one hash tag")
    return f"{{{key}}}:fencing-token"


def fenced_set(client: Any, key: str, value: str | bytes, token: object, *, expire_ms: int | None = None) -> bool:
    """Set a key under a token, by a client of redis-py; False: a newer one was seen, or the token is none, and nothing was set.

    Raises ValueError for a pipeline, which tells nothing yet, and for a key that `fence_key` refuses.
    """
    words = _words(token, client)
    return words is not None and client.eval(_SET, 2, key, fence_key(key), *words, value, _expiry(expire_ms)) == 1


def fenced_delete(client: Any, key: str, token: object) -> bool:
    """Delete a key under a token; False: it was not looked at. True also where there was none."""
    words = _words(token, client)
    return words is not None and client.eval(_DELETE, 2, key, fence_key(key), *words) == 1


async def fenced_set_async(
    client: Any, key: str, value: str | bytes, token: object, *, expire_ms: int | None = None
) -> bool:
    """Do as `fenced_set` does, by a client of redis.asyncio."""
    words = _words(token, client)
    if words is None:
        return False
    said: Awaitable[Any] = client.eval(_SET, 2, key, fence_key(key), *words, value, _expiry(expire_ms))
    return bool(await said == 1)


async def fenced_delete_async(client: Any, key: str, token: object) -> bool:
    """Do as `fenced_delete` does, by a client of redis.asyncio."""
    words = _words(token, client)
    if words is None:
        return False
    said: Awaitable[Any] = client.eval(_DELETE, 2, key, fence_key(key), *words)
    return bool(await said == 1)


def _words(token: object, client: object) -> tuple[str] | None:
    if hasattr(client, "execute"):
        raise ValueError(
            "a client that answers at once, and no pipeline: what it was told is known after it; use FENCE_LUA"
        )
    number = read_token(token)
    return None if number is None else (str(number),)


def _expiry(expire_ms: int | None) -> str:
    if expire_ms is None:
        return ""
    if type(expire_ms) is not int or expire_ms < 1:
        raise ValueError("milliseconds of at least 1")
    return str(expire_ms)
