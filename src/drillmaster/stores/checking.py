"""Whether a store will do: it answers in time, is prepared, and keeps what it was told when it is started again."""

import sqlite3
import statistics
import time
from pathlib import Path

import msgspec

from drillmaster.errors import Problem, one_line
from drillmaster.rules.quota import LAW, Limit, Take
from drillmaster.stores import Unavailable
from drillmaster.stores.opening import kind_of, open_store

__all__ = ["Checked", "ask_store", "check_store"]

_ASKED = 5
# It costs more than may come at once: the answer is no, and nothing is written.
_QUESTION = Take((Limit(name="check", cost=2, window_us=1_000_000, cap=1, burst=1),))


class Checked(msgspec.Struct, frozen=True, kw_only=True):
    """What was found. `keeps` None: the server does not say whether it keeps what it was told."""

    place: str
    answer_us: int
    """The median of a few questions, on a connection that is open."""
    keeps: bool | None
    how: str


def ask_store(url: str, *, within_s: float) -> None:
    """Ask a store one question that changes nothing. Raises Unavailable where it gives no answer."""
    store = open_store(url, within_s=within_s)
    try:
        store.ask(LAW, "drillmaster check", _QUESTION)
    finally:
        store.close()


def check_store(url: str, *, within_s: float) -> Checked:
    """Ask a store a question that changes nothing, and how it keeps its data. Raises Problem, Unavailable among them."""
    store = open_store(url, within_s=within_s)
    try:
        store.ask(LAW, "drillmaster check", _QUESTION)
        took = []
        for _ in range(_ASKED):
            began = time.perf_counter_ns()
            store.ask(LAW, "drillmaster check", _QUESTION)
            took.append((time.perf_counter_ns() - began) // 1_000)
    finally:
        store.close()
    keeps, how = _KEEPS[kind_of(url)](url, store.place)
    return Checked(place=store.place, answer_us=int(statistics.median(took)), keeps=keeps, how=how)


def _redis(url: str, place: str) -> tuple[bool | None, str]:
    import redis

    try:
        with redis.Redis.from_url(url, socket_timeout=5.0) as client:
            said = client.info("persistence")
            synced = _told(client, "appendfsync")
    except redis.exceptions.ResponseError:
        return None, "the server does not say how it keeps its data"
    except redis.RedisError as error:
        raise _gone(place, str(error)) from None
    if not said.get("aof_enabled"):
        return False, "appendonly is off: what came since the last snapshot is lost when it ends"
    return True, f"appendonly, appendfsync {synced or 'unknown'}"


def _told(client: object, name: str) -> str:
    import redis

    try:
        return str(client.config_get(name).get(name, ""))  # type: ignore[attr-defined]  # the library's client
    except redis.exceptions.ResponseError:
        return ""


def _postgresql(url: str, place: str) -> tuple[bool | None, str]:
    import psycopg

    try:
        with psycopg.connect(url, connect_timeout=5) as connection:
            said = {}
            for name in ("fsync", "full_page_writes"):
                row = connection.execute("SELECT current_setting(%s)", (name,)).fetchone()
                said[name] = "" if row is None else str(row[0])
    except psycopg.Error as error:
        raise _gone(place, str(error)) from None
    off = [name for name, value in said.items() if value != "on"]
    return not off, f"{', '.join(off)} off: a host that loses power loses what was spent" if off else "fsync on"


def _sqlite(url: str, place: str) -> tuple[bool | None, str]:
    path = Path(url.removeprefix("sqlite:"))
    try:
        with sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True, timeout=5) as connection:
            (mode,) = connection.execute("PRAGMA journal_mode").fetchone()
        connection.close()
    except sqlite3.Error as error:
        raise _gone(place, str(error)) from None
    return mode == "wal", f"journal {mode}, synchronous full; for processes of one host, on its own disk"


_KEEPS = {"redis": _redis, "postgresql": _postgresql, "sqlite": _sqlite}


def _gone(place: str, found: str) -> Problem:
    return Unavailable(
        place,
        found=one_line(found.strip().split("\n")[0]),
        wanted="a prepared store that answers in time",
        remedy="drillmaster store prepare URL",
    )
