"""Which inbox a name means."""

from drillmaster.errors import Problem
from drillmaster.stores.inbox import Backend, Inbox
from drillmaster.stores.inbox_postgresql import PostgreSQL
from drillmaster.stores.inbox_sqlite import SQLite

__all__ = ["backend_of", "open_inbox"]


def backend_of(named: str, *, within_s: float) -> Backend:
    """Name a database: the path of an SQLite file, or `postgresql://USER@HOST/DATABASE`. Raises Problem for a name that is none."""
    scheme, colon, _ = named.partition("://")
    if not colon:
        return SQLite(named, within_s=within_s)
    if scheme in ("postgresql", "postgres"):
        return PostgreSQL(named, within_s=within_s)
    raise Problem(
        "inbox",
        found=f"the scheme {scheme[:20]!r}",
        wanted="the path of an SQLite file, or postgresql://USER@HOST/DATABASE",
        remedy="see docs/howto/receive-webhooks.md",
    )


def open_inbox(named: str, *, within_s: float) -> Inbox:
    """Open the inbox in a database. It connects when it is asked first; `within_s` bounds a wait for a lock or a connection."""
    return Inbox(backend_of(named, within_s=within_s))
