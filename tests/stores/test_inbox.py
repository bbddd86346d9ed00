"""The inbox in a file: kept once, claimed for a while, settled once; by a clock that goes back, on connections that end."""

import sqlite3
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

from drillmaster.clock import ManualClock
from drillmaster.errors import Problem
from drillmaster.stores.inbox import Arrival, Effect, Inbox, Unapplied, Unkept
from drillmaster.stores.inbox_opening import backend_of, open_inbox
from drillmaster.stores.inbox_sqlite import SQLite
from tests.stores.inbox_machine import InboxMachine

FOLDER = tempfile.TemporaryDirectory(prefix="dm-inbox-")


class OnSQLite(InboxMachine):
    clock = ManualClock()
    number = 0

    @staticmethod
    def empty() -> None:
        OnSQLite.number += 1
        with OnSQLite.opened() as inbox:
            inbox.prepare()

    @staticmethod
    def opened() -> Inbox:
        path = f"{FOLDER.name}/{OnSQLite.number}.db"
        return Inbox(SQLite(path, within_s=1, clock=OnSQLite.clock))

    @staticmethod
    def move(ms: int) -> None:
        OnSQLite.clock.step_wall(ms / 1_000)

    @staticmethod
    def cut(inbox: Inbox) -> None:
        if inbox._connection is not None:
            inbox._connection.close()


TestOnSQLite = OnSQLite.TestCase
TestOnSQLite.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)


def arrival(name: str = "e1", digest: str = "d") -> Arrival:
    return Arrival(source="acme", event_id=name, digest=digest, body=b"{}")


def made(path: Path) -> Inbox:
    inbox = open_inbox(str(path), within_s=1)
    inbox.prepare()
    return inbox


def test_an_inbox_that_nobody_prepared_is_refused_and_not_made(tmp_path: Path) -> None:
    inbox = open_inbox(str(tmp_path / "i.db"), within_s=1)
    with pytest.raises(Unkept, match="webhook prepare"):
        inbox.keep(arrival())
    assert not (tmp_path / "i.db").exists()
    sqlite3.connect(tmp_path / "empty.db").close()
    with pytest.raises(Unkept, match="no such table"):
        open_inbox(str(tmp_path / "empty.db"), within_s=1).keep(arrival())
    (tmp_path / "none.db").write_bytes(b"this is no database, and is long enough to be told so" * 20)
    with pytest.raises(Unkept, match="not a database"):
        open_inbox(str(tmp_path / "none.db"), within_s=1).keep(arrival())


def test_what_was_kept_is_there_for_whoever_opens_it_next(tmp_path: Path) -> None:
    first = made(tmp_path / "i.db")
    assert first.keep(arrival()) == "new"
    first.close()
    second = made(tmp_path / "i.db")  # prepared again, which changes nothing
    assert second.keep(arrival()) == "known"
    assert second.sources() == ["acme"]
    assert second.keep(Arrival(source="other", event_id="e1", digest="x", body=b"")) == "new"  # another provider's


def test_a_file_that_somebody_holds_is_told_after_the_limit(tmp_path: Path) -> None:
    inbox = made(tmp_path / "i.db")
    inbox = open_inbox(str(tmp_path / "i.db"), within_s=0.05)
    holder = sqlite3.connect(tmp_path / "i.db", isolation_level=None)
    holder.execute("BEGIN IMMEDIATE")
    with pytest.raises(Unkept, match="locked"):
        inbox.keep(arrival())
    holder.execute("ROLLBACK")
    assert inbox.keep(arrival()) == "new"


def test_all_of_some_are_kept_or_none(tmp_path: Path) -> None:
    inbox = made(tmp_path / "i.db")
    broken: Any = Arrival(source="acme", event_id="e2", digest=None, body=b"")  # type: ignore[arg-type]
    with pytest.raises(Unkept, match="NOT NULL"):
        inbox.keep_all([arrival(), broken])
    assert inbox.counts().waiting == 0


def test_a_name_that_is_no_inbox_is_told() -> None:
    with pytest.raises(Problem, match="scheme 'mysql'"):
        backend_of("mysql://x", within_s=1)


def test_no_message_holds_a_password() -> None:
    for url in (
        "postgresql://u:hunter2@localhost:1/d",
        "postgresql://u:hun/ter2@localhost:1/d",
        "postgresql://localhost:1/d?password=hunter2",
    ):
        inbox = open_inbox(url, within_s=1)
        assert "hunter2" not in inbox.place and "ter2@" not in inbox.place


def test_the_effect_of_an_event_that_has_one_is_not_written_twice(tmp_path: Path) -> None:
    """As when somebody took a row out of the inbox, and the provider sent it again."""
    inbox = made(tmp_path / "i.db")
    ran = []
    effect = Effect(kind="credit", account="a", amount_minor=5, currency="EUR")
    for told in ("done", "known"):
        inbox.keep(arrival())
        event = inbox.claim(lease_ms=1_000)
        assert event is not None
        assert inbox.settle(event, effect, reason="x", apply=lambda *args: ran.append(args)) == told
        other = sqlite3.connect(tmp_path / "i.db")
        other.execute("DELETE FROM drillmaster_inbox")
        other.commit()
        other.close()
    assert len(ran) == 1 and inbox.counts().effects == 1


def test_what_waits_for_a_person_is_listed_until_one_looked(tmp_path: Path) -> None:
    inbox = made(tmp_path / "i.db")
    for name, digest in (("e1", "a"), ("e1", "b"), ("e1", "b"), ("e2", "a")):
        inbox.keep(arrival(name, digest))
    for _ in range(2):
        event = inbox.claim(lease_ms=1_000)
        assert event is not None and inbox.park(event, reason="effect-unusable")
    told = [(one.kind, one.event_id, one.why, one.times) for one in inbox.open()]
    assert sorted(told) == [
        ("other-body", "e1", "b", 2),
        ("parked", "e1", "effect-unusable", 1),
        ("parked", "e2", "effect-unusable", 1),
    ]
    assert inbox.again("acme", "e2", by="ada") and not inbox.again("acme", "e2", by="ada")
    event = inbox.claim(lease_ms=1_000)
    assert event is not None and (event.event_id, event.attempt) == ("e2", 1)
    assert inbox.looked("acme", "e1", by="ada") and not inbox.looked("acme", "e1", by="ada")
    assert inbox.open() == [] and inbox.counts().other_bodies == inbox.counts().parked == 0
    assert inbox.keep(arrival("e1", "a")) == "known" and inbox.keep(arrival("e1", "c")) == "other-body"
    assert [one.why for one in inbox.open()] == ["c"]  # another one is another alarm
    assert not inbox.looked("other", "e1", by="ada")


def test_bodies_are_emptied_when_they_are_old_and_no_event_comes_a_second_time(tmp_path: Path) -> None:
    clock = ManualClock()
    inbox = Inbox(SQLite(str(tmp_path / "i.db"), within_s=1, clock=clock))
    inbox.prepare()
    for name in ("e1", "e2"):
        inbox.keep(arrival(name))
    event = inbox.claim(lease_ms=1_000)
    assert event is not None
    inbox.settle(event, None, reason="x")
    assert inbox.forget(older_than_ms=1_000) == 0
    clock.advance(2)
    assert inbox.forget(older_than_ms=1_000) == 1 and inbox.forget(older_than_ms=1_000) == 0
    rows = (
        sqlite3.connect(tmp_path / "i.db").execute("SELECT event_id, body FROM drillmaster_inbox ORDER BY 1").fetchall()
    )
    assert rows == [("e1", b""), ("e2", b"{}")]
    assert inbox.keep(arrival("e1")) == "known"


def test_an_inbox_is_its_owner_s_alone_to_read(tmp_path: Path) -> None:
    made(tmp_path / "i.db").keep(arrival())
    assert {path.stat().st_mode & 0o077 for path in tmp_path.iterdir()} == {0}
    with pytest.raises(Unkept, match="No such file"):
        made(tmp_path / "nowhere" / "i.db")


@pytest.mark.parametrize("how", ["moved", "replaced", "deleted", "without its log"])
def test_a_file_that_is_taken_away_while_it_is_open_keeps_nothing_that_nobody_finds(tmp_path: Path, how: str) -> None:
    """SQLite goes on writing to the file that it has open, whatever the name means by now."""
    path = tmp_path / "i.db"
    inbox = made(path)
    assert inbox.keep(arrival("e1")) == "new"
    if how == "without its log":
        (tmp_path / "i.db-wal").unlink()
    else:
        path.rename(tmp_path / "old.db")
        if how == "deleted":
            (tmp_path / "old.db").unlink()
        if how == "replaced":
            for beside in ("-wal", "-shm"):
                (tmp_path / f"i.db{beside}").unlink()
            made(path).close()
    if how in ("moved", "deleted"):
        with pytest.raises(Unkept):
            inbox.keep(arrival("e2"))
        with pytest.raises(Unkept):
            inbox.keep_all([arrival("e2")])
        return
    assert inbox.keep(arrival("e2")) == "new"
    with open_inbox(str(path), within_s=1) as again:
        assert again.keep(arrival("e2")) == "known"


def test_a_source_s_events_are_claimed_by_nobody_who_asks_for_another_s(tmp_path: Path) -> None:
    inbox = made(tmp_path / "i.db")
    inbox.keep(arrival("e1"))
    inbox.keep(Arrival(source="other", event_id="e2", digest="d", body=b"{}"))
    first = inbox.claim(lease_ms=1_000, source="other")
    assert first is not None and first.event_id == "e2"
    assert inbox.claim(lease_ms=1_000, source="other") is None
    second = inbox.claim(lease_ms=1_000)
    assert second is not None and second.event_id == "e1"


def _by_with(connection: Any) -> None:
    with connection:
        connection.execute("INSERT INTO booked VALUES (1)")


def _by_script(connection: Any) -> None:
    connection.executescript("INSERT INTO booked VALUES (1);")


def _by_commit(connection: Any) -> None:
    connection.execute("INSERT INTO booked VALUES (1)")
    connection.commit()


def _by_rollback(connection: Any) -> None:
    connection.rollback()


@pytest.mark.parametrize("ends", [_by_with, _by_script, _by_commit, _by_rollback])
def test_what_belongs_to_an_effect_cannot_end_the_transaction_that_it_is_in(tmp_path: Path, ends: Any) -> None:
    """Half of it would stand, with the event done, and nobody would write the rest."""
    inbox = made(tmp_path / "i.db")
    sqlite3.connect(tmp_path / "i.db").execute("CREATE TABLE booked (n INTEGER)")
    inbox.keep(arrival("e1"))
    event = inbox.claim(lease_ms=60_000)
    assert event is not None
    effect = Effect(kind="credit", account="a", amount_minor=1, currency="EUR")

    def apply(connection: Any, effect: Effect, event: Any) -> None:
        ends(connection)
        raise ValueError

    with pytest.raises(Unapplied):
        inbox.settle(event, effect, reason="effect", apply=apply)
    assert (inbox.counts().waiting, inbox.counts().effects) == (1, 0)
    assert sqlite3.connect(tmp_path / "i.db").execute("SELECT count(*) FROM booked").fetchone() == (0,)
    assert inbox.settle(event, effect, reason="effect", apply=lambda *_: None) == "done"


@pytest.mark.parametrize(
    "password", ["p%zzhunter", "hunter@zebra", "hunter?zebra", "hunter#zebra", "hunter/zebra", "hun:zebra/hunter"]
)
def test_no_piece_of_a_password_that_a_url_cannot_hold_is_said(password: str) -> None:
    with pytest.raises(Unkept) as raised:
        open_inbox(f"postgresql://u:{password}@127.0.0.1:1/d", within_s=1).counts()
    assert "hunter" not in str(raised.value) and "zebra" not in str(raised.value)


def test_a_full_disk_keeps_nothing_by_halves_and_what_comes_again_is_kept(tmp_path: Path) -> None:
    """A limit of pages stands for the disk: SQLite says the same of both."""
    inbox = made(tmp_path / "i.db")
    inbox.keep(arrival("e0"))
    claimed = inbox.claim(lease_ms=60_000)
    large = [Arrival(source="acme", event_id=f"e{n}", digest="d", body=b"x" * 60_000) for n in range(1, 5)]
    connection: Any = inbox._connection
    pages = connection.execute("PRAGMA page_count").fetchone()[0]
    connection.execute(f"PRAGMA max_page_count = {pages + 30}")
    with pytest.raises(sqlite3.OperationalError, match="full"), inbox._transaction(connection):
        for one in large:
            inbox._kept(connection, one)
    assert inbox.counts().waiting == 1
    assert inbox.keep_all(large) == ["new"] * 4
    assert claimed is not None and inbox.settle(claimed, None, reason="nothing") == "done"


def test_other_bodies_that_somebody_looked_at_are_forgotten_too_and_known_when_they_come_again(tmp_path: Path) -> None:
    clock = ManualClock()
    inbox = Inbox(SQLite(str(tmp_path / "i.db"), within_s=1, clock=clock))
    inbox.prepare()
    inbox.keep(arrival("e1"))
    for name in ("e1", "e2"):
        inbox.keep(arrival(name))
        inbox.keep(arrival(name, digest="other"))
    inbox.looked("acme", "e1", by="ada")
    clock.advance(1_000)
    assert inbox.forget(older_than_ms=500_000) == 1  # nobody looked at the one of e2, and none of them ended
    bodies = sqlite3.connect(tmp_path / "i.db").execute("SELECT event_id, body FROM drillmaster_inbox_other ORDER BY 1")
    assert bodies.fetchall() == [("e1", b""), ("e2", b"{}")]
    assert inbox.keep(arrival("e1", digest="other")) == "other-body"
    event = inbox.claim(lease_ms=1_000)
    assert event is not None and inbox.settle(event, None, reason="nothing") == "done"
    clock.advance(1_000)
    assert inbox.forget(older_than_ms=500_000) == 1 and inbox.keep(arrival("e1")) == "known"
