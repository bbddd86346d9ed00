"""Leases and fences in SQLite: the table, random sequences, the view and the log."""

import json
import sqlite3
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from hypothesis.stateful import run_state_machine_as_test

from drillmaster.rules import AnyLaw
from drillmaster.rules.fence import LAW as FENCE
from drillmaster.rules.lease import LAW as LEASE
from drillmaster.rules.lease import LeaseAsk
from drillmaster.stores.sqlite import SQLiteStore
from tests.carriers import lease_machine, play


@pytest.fixture
def store(tmp_path: Path) -> SQLiteStore:
    made = SQLiteStore(str(tmp_path / "s.sqlite"), within_s=5)
    made.prepare()
    return made


def test_the_tables_hold(store: SQLiteStore) -> None:
    def carrier(law: AnyLaw, key: str, question: Any, now_us: int) -> Any:
        return store.ask(law, key, question, now_us=now_us)

    play(carrier, LEASE)
    play(carrier, FENCE)
    store.close()


def test_random_sequences_are_told_what_the_law_tells(store: SQLiteStore) -> None:
    def carrier(law: AnyLaw, key: str, question: Any, now_us: int) -> Any:
        return store.ask(law, key, question, now_us=now_us)

    run_state_machine_as_test(
        lease_machine(carrier), settings=settings(max_examples=25, stateful_step_count=30, deadline=None, database=None)
    )
    store.close()


def test_grants_and_refusals_alike_are_written_down_and_the_view_says_who_holds(
    store: SQLiteStore, tmp_path: Path
) -> None:
    first = LeaseAsk(action="acquire", holder="a1", by="worker-a", token=None, ttl_us=1_000, permitted=True)
    token = store.ask(LEASE, "export", first, now_us=5_000).token
    store.ask(
        LEASE,
        "export",
        LeaseAsk(action="acquire", holder="b1", by="b", token=None, ttl_us=1_000, permitted=True),
        now_us=5_001,
    )
    store.ask(
        LEASE,
        "other",
        LeaseAsk(action="renew", holder="c1", by="c", token=9, ttl_us=1_000, permitted=True),
        now_us=5_002,
    )
    store.close()
    with sqlite3.connect(tmp_path / "s.sqlite") as db:
        assert db.execute("SELECT key, token, holder, held_by, until_us FROM drillmaster_lease").fetchall() == [
            ("export", token, "a1", "worker-a", 6_000)
        ]
        log = db.execute("SELECT key, at_us, asked, told FROM drillmaster_log ORDER BY n").fetchall()
    db.close()
    assert [(key, at_us, json.loads(told)["reason"]) for key, at_us, _, told in log] == [
        ("export", 5_000, "granted"),
        ("export", 5_001, "held"),
        ("other", 5_002, "not-held"),
    ]
    assert json.loads(log[2][2]) == {
        "action": "renew",
        "holder": "c1",
        "by": "c",
        "token": 9,
        "ttl_us": 1_000,
        "permitted": True,
    }


def test_the_log_keeps_the_latest_million(store: SQLiteStore, tmp_path: Path) -> None:
    def ask(key: str) -> None:
        asked = LeaseAsk(action="acquire", holder=f"h {key}", by="w", token=None, ttl_us=1_000, permitted=True)
        store.ask(LEASE, key, asked, now_us=5_000)

    ask("old")
    with sqlite3.connect(tmp_path / "s.sqlite") as db:
        db.execute("UPDATE drillmaster_log SET n = 4")
        db.execute("INSERT INTO drillmaster_log VALUES (1000002, 'lease', 'middle', 1, '{}', '{}')")
    ask("new")
    assert keys(tmp_path) == ["old", "middle", "new"]
    ask("newer")
    assert keys(tmp_path) == ["middle", "new", "newer"]
    store.close()


def keys(folder: Path) -> list[str]:
    db = sqlite3.connect(folder / "s.sqlite")
    found = [key for (key,) in db.execute("SELECT key FROM drillmaster_log ORDER BY n").fetchall()]
    db.close()
    return found
