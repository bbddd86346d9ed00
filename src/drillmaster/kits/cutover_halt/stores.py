"""Two stores and the writer that writes both: what a rehearsal of a halt drifts, compares and restores.

1. Rows are made up from a seed: keys, accounts and amounts of nobody.
2. A write has a key, and a key is written once: the same write again changes nothing.
3. The writer writes the old store first, and the new one only while nobody has halted. Whether somebody has is read from a
   file of its own before each write, so that a halt outlives its process.
4. Stores are compared by checksums of blocks of rows; only blocks that differ are read row by row.
"""

import hashlib
import sqlite3
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, Self

__all__ = ["BLOCK_ROWS", "DualWriter", "Row", "Store", "differing", "restore"]

BLOCK_ROWS = 256
_BUSY_S = 5.0


class Row(NamedTuple):
    """One movement. `n` is its place in the order of writes; `amount` in the smallest unit of the currency."""

    key: str
    n: int
    account: int
    amount: int


class Store:
    """One SQLite file of rows. A process that is killed leaves it as of its last write."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._db = sqlite3.connect(path, timeout=_BUSY_S, isolation_level=None)
        try:
            self._db.execute("PRAGMA journal_mode=WAL")
            self._db.execute("PRAGMA synchronous=NORMAL")
            self._db.execute(
                "CREATE TABLE IF NOT EXISTS moved"
                " (key TEXT PRIMARY KEY, n INTEGER NOT NULL, account INTEGER NOT NULL, amount INTEGER NOT NULL) STRICT"
            )
            self._db.execute("CREATE INDEX IF NOT EXISTS by_n ON moved (n, key)")
        except BaseException:
            self._db.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._db.close()

    def put(self, rows: Iterable[Row]) -> None:
        """Write rows in one transaction; keys that are there already stay as they are."""
        with self._db:
            self._db.execute("BEGIN IMMEDIATE")
            self._db.executemany("INSERT OR IGNORE INTO moved VALUES (?, ?, ?, ?)", rows)

    def drift(self, *, lost: Iterable[Row], changed: Iterable[Row], extra: Iterable[Row]) -> None:
        """Make this store differ, in one transaction: rows that go, rows of another amount, rows that nobody wrote."""
        with self._db:
            self._db.execute("BEGIN IMMEDIATE")
            self._db.executemany("DELETE FROM moved WHERE key = ?", ((row.key,) for row in lost))
            self._db.executemany(
                "UPDATE moved SET amount = ? WHERE key = ?", ((row.amount + 1, row.key) for row in changed)
            )
            self._db.executemany("INSERT INTO moved VALUES (?, ?, ?, ?)", extra)

    def count(self) -> int:
        (rows,) = self._db.execute("SELECT count(*) FROM moved").fetchone()
        return int(rows)

    def checksums(self) -> dict[int, str]:
        """Digest each block of rows; a block without rows is not there."""
        digests: dict[int, hashlib._Hash] = {}
        for row in self._db.execute("SELECT key, n, account, amount FROM moved ORDER BY n, key"):
            digest = digests.setdefault(row[1] // BLOCK_ROWS, hashlib.sha256())
            digest.update(f"{row[0]}\t{row[1]}\t{row[2]}\t{row[3]}\n".encode())
        return {block: digest.hexdigest() for block, digest in digests.items()}

    def block(self, number: int) -> dict[str, Row]:
        """Read one block, by key."""
        span = (number * BLOCK_ROWS, (number + 1) * BLOCK_ROWS)
        found = self._db.execute("SELECT key, n, account, amount FROM moved WHERE n >= ? AND n < ?", span)
        return {row[0]: Row(*row) for row in found}

    def replace(self, number: int, rows: Iterable[Row]) -> None:
        """Put a block's rows in the place of what it holds, in one transaction."""
        span = (number * BLOCK_ROWS, (number + 1) * BLOCK_ROWS)
        with self._db:
            self._db.execute("BEGIN IMMEDIATE")
            self._db.execute("DELETE FROM moved WHERE n >= ? AND n < ?", span)
            self._db.executemany("INSERT OR REPLACE INTO moved VALUES (?, ?, ?, ?)", rows)

    def last(self) -> int:
        """Give the highest place in the order; -1 where nothing was written."""
        (n,) = self._db.execute("SELECT max(n) FROM moved").fetchone()
        return -1 if n is None else int(n)


class DualWriter:
    """Writes both stores while nobody has halted, and the old one alone after that (rule 3)."""

    def __init__(self, old: Store, new: Store, halt: Path) -> None:
        self._old = old
        self._new = new
        self._halt = halt
        self.held = 0
        """Rows that only the old store has got since the halt."""

    def write(self, rows: list[Row]) -> None:
        self._old.put(rows)
        if self._halt.exists():
            self.held += len(rows)
        else:
            self._new.put(rows)


def _blocks(old: Store, new: Store) -> list[int]:
    one, other = old.checksums(), new.checksums()
    return sorted(block for block in one.keys() | other.keys() if one.get(block) != other.get(block))


def differing(old: Store, new: Store) -> frozenset[str]:
    """Give the keys of the rows that are not the same in both."""
    return frozenset(key for block in _blocks(old, new) for key in _keys(old.block(block), new.block(block)))


def _keys(one: dict[str, Row], other: dict[str, Row]) -> Iterator[str]:
    return (key for key in one.keys() | other.keys() if one.get(key) != other.get(key))


def restore(old: Store, new: Store) -> int:
    """Make the new store what the old one is; give how many blocks that took. Killed half way, it is done again."""
    blocks = _blocks(old, new)
    for block in blocks:
        new.replace(block, old.block(block).values())
    return len(blocks)
