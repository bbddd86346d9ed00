"""Which store a URL names. Only the one that is asked for is imported."""

from drillmaster.errors import Problem
from drillmaster.stores import AsyncStore, Store

__all__ = ["WITHIN_S", "kind_of", "open_async_store", "open_store"]

WITHIN_S = 0.5
_WANTED = "sqlite:PATH, postgresql://USER@HOST/DATABASE, redis://HOST:PORT/DATABASE or unix:///PATH of a Redis"


def open_store(url: str, *, within_s: float = WITHIN_S) -> Store:
    """Open a store by its URL; nothing is connected before the first question. Raises Problem where the URL names none.

    `within_s` is the longest that one question may take, connecting included.
    """
    kind, rest = _kind(url)
    if kind == "sqlite":
        from drillmaster.stores.sqlite import SQLiteStore

        return SQLiteStore(rest, within_s=within_s)
    if kind == "redis":
        from drillmaster.stores.redis import RedisStore

        return RedisStore(url, within_s=within_s)
    from drillmaster.stores.postgresql import PostgreSQLStore

    return PostgreSQLStore(url, within_s=within_s)


def open_async_store(url: str, *, within_s: float = WITHIN_S) -> AsyncStore:
    """Open a store for use in one event loop. Raises Problem where the URL names none."""
    kind, rest = _kind(url)
    if kind == "sqlite":
        from drillmaster.stores.sqlite import AsyncSQLiteStore

        return AsyncSQLiteStore(rest, within_s=within_s)
    if kind == "redis":
        from drillmaster.stores.redis import AsyncRedisStore

        return AsyncRedisStore(url, within_s=within_s)
    from drillmaster.stores.postgresql import AsyncPostgreSQLStore

    return AsyncPostgreSQLStore(url, within_s=within_s)


def kind_of(url: str) -> str:
    """Say which kind of store a URL names: sqlite, postgresql or redis. Raises Problem where it names none."""
    return _kind(url)[0]


def _kind(url: str) -> tuple[str, str]:
    scheme, colon, rest = url.partition(":")
    if colon and scheme == "sqlite" and rest.strip("/"):
        return "sqlite", rest.removeprefix("//") if rest.startswith("///") else rest
    if rest.startswith("//") and scheme in ("redis", "rediss", "unix"):
        return "redis", rest
    if rest.startswith("//") and scheme in ("postgresql", "postgres"):
        return "postgresql", rest
    # Nothing of it is quoted: nobody knows what in it is a password.
    raise Problem("store", found="no store's URL", wanted=_WANTED, remedy="name the store by its URL")
