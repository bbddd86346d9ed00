"""The predicate at the write: spliced into statements, on SQLite; hostile names and tokens take nothing."""

import sqlite3
from pathlib import Path
from typing import Any

import pytest

from drillmaster.rules.lease import LAW, LeaseAsk
from drillmaster.stores.fences import fence, fence_held, fence_key, fenced_delete, fenced_set
from drillmaster.stores.sqlite import SQLiteStore
from tests.rules.test_fence import NO_TOKENS

TABLE = "CREATE TABLE jobs (id INTEGER PRIMARY KEY, done_by TEXT, fencing_token INTEGER)"


@pytest.fixture
def db() -> Any:
    made = sqlite3.connect(":memory:", isolation_level=None)
    made.execute(TABLE)
    made.execute("INSERT INTO jobs (id) VALUES (1)")
    yield made
    made.close()


def write(db: sqlite3.Connection, token: Any, who: str = "a") -> int:
    f = fence(token, style="named")
    statement = f"UPDATE jobs SET done_by = :who, {f.sets} WHERE id = 1 AND {f.where}"
    return db.execute(statement, {"who": who, **f.params}).rowcount


def test_a_row_that_saw_a_newer_token_is_written_under_no_older_one(db: sqlite3.Connection) -> None:
    assert [write(db, "5"), write(db, "5"), write(db, "6", "b"), write(db, "5"), write(db, "6", "b")] == [1, 1, 1, 0, 1]
    assert db.execute("SELECT done_by, fencing_token FROM jobs").fetchone() == ("b", 6)


def test_tokens_are_compared_as_numbers_to_the_last_bit(db: sqlite3.Connection) -> None:
    assert [write(db, str(2**63 - 1)), write(db, str(2**63 - 2)), write(db, "9")] == [1, 0, 0]


@pytest.mark.parametrize("token", NO_TOKENS, ids=lambda value: repr(value)[:20])
def test_what_is_no_token_writes_nothing_and_raises_nothing(db: sqlite3.Connection, token: Any) -> None:
    assert write(db, token) == 0
    f = fence_held(token, key="k", database="sqlite", style="named")
    assert db.execute(f"UPDATE jobs SET done_by = 'a' WHERE {f.where}", f.params).rowcount == 0


@pytest.mark.parametrize(
    "name",
    ["", "a b", "a;--", "1=1 OR x", "fencing_token) OR (1", '"x"', "a.b.c", "ä", "x" * 64, "x\n", None, 5, True, ["x"]],
)
def test_a_name_that_is_none_writes_nothing_and_raises_nothing(db: sqlite3.Connection, name: Any) -> None:
    for f in (fence("5", column=name, style="named"), fence("5", table=name or "a b", style="named")):
        statement = f"UPDATE jobs SET done_by = 'a', {f.sets} WHERE id = 1 AND {f.where}"
        assert db.execute(statement, f.params).rowcount == 0
    assert fence_held("5", key="k", database="sqlite", schema=name or "a b").where == "(1 = 0)"


@pytest.mark.parametrize(
    "wrong", [{"key": ""}, {"key": None}, {"key": "a\x00"}, {"database": "mysql"}, {"style": "q"}, {"style": []}]
)
def test_what_else_is_none_is_never_true(wrong: dict[str, Any]) -> None:
    assert fence_held("5", **{"key": "k", "database": "sqlite", **wrong}).where == "(1 = 0)"


def test_an_upsert_is_fenced_by_the_row_that_is_there(db: sqlite3.Connection) -> None:
    def upsert(token: str, who: str) -> int:
        f = fence(token, table="jobs", style="named")
        statement = (
            f"INSERT INTO jobs (id, done_by, fencing_token) VALUES (2, :who, {f.token})"
            f" ON CONFLICT (id) DO UPDATE SET done_by = :who, {f.sets} WHERE {f.where}"
        )
        return db.execute(statement, {"who": who, **f.params}).rowcount

    assert [upsert("5", "a"), upsert("6", "b"), upsert("5", "a")] == [1, 1, 0]
    assert db.execute("SELECT done_by FROM jobs WHERE id = 2").fetchone() == ("b",)


def test_each_driver_has_its_own_parameters() -> None:
    assert fence("5").where == "(COALESCE(fencing_token, 0) <= %(dm_token)s)"
    assert fence("5", style="named").sets == "fencing_token = :dm_token"
    dollar = fence_held("5", key="k", database="postgresql", style="dollar", first=3)
    assert "$3::text" in dollar.where and "$4::bigint" in dollar.where and dollar.values == ("k", 5)
    assert fence("5", style="dollar", first=0).where == "(1 = 0)"


def test_a_statement_with_two_fences_is_held_to_both(db: sqlite3.Connection, tmp_path: Path) -> None:
    db.execute("CREATE TABLE drillmaster_lease (key TEXT, token INTEGER, until_us INTEGER)")
    db.execute("INSERT INTO drillmaster_lease VALUES ('one', 10, 9), ('two', 5, 9)")

    def both(one: str, two: str) -> int:
        f, g = (
            fence_held(token, key=key, database="sqlite", style="named") for token, key in ((one, "one"), (two, "two"))
        )
        statement = f"UPDATE jobs SET done_by = 'a' WHERE {f.where} AND {g.where}"
        return db.execute(statement, {**f.params, **g.params}).rowcount

    assert [both("10", "5"), both("9", "5"), both("10", "4"), both("5", "5"), both("10", "10")] == [1, 0, 0, 0, 0]


def test_the_columns_of_two_rows_are_held_to_their_own_tokens(db: sqlite3.Connection) -> None:
    db.execute("CREATE TABLE sums (fencing_token INTEGER)")
    db.execute("INSERT INTO sums VALUES (50)")
    db.execute("UPDATE jobs SET fencing_token = 5")
    f, g = fence("49", table="sums", style="named"), fence("60", table="jobs", style="named")
    statement = f"UPDATE jobs SET done_by = 'a' FROM sums WHERE {f.where} AND {g.where}"
    for params in ({**f.params, **g.params}, {**g.params, **f.params}):
        assert db.execute(statement, params).rowcount == 0


def test_a_write_is_taken_only_while_its_token_is_the_latest_of_the_lease(tmp_path: Path) -> None:
    store = SQLiteStore(str(tmp_path / "s.sqlite"), within_s=5)
    store.prepare()
    db = sqlite3.connect(tmp_path / "s.sqlite", isolation_level=None)
    db.execute("CREATE TABLE done (who TEXT)")

    def ask(action: str, holder: str, token: int | None, now_us: int) -> int | None:
        asked = LeaseAsk(action=action, holder=holder, by="w", token=token, ttl_us=1_000, permitted=True)
        given: int | None = store.ask(LAW, "k", asked, now_us=now_us).token
        return given

    def write(token: int | None, key: str = "k") -> int:
        f = fence_held(str(token), key=key, database="sqlite", style="named")
        return db.execute(f"INSERT INTO done SELECT 'a' WHERE {f.where}", f.params).rowcount

    first = ask("acquire", "a1", None, 5_000)
    assert first is not None
    assert [write(first), write(first + 1), write(first - 1), write(first, "other")] == [1, 0, 0, 0]
    assert ask("acquire", "b1", None, 5_999) is None
    assert write(first) == 1
    second = ask("acquire", "b1", None, 6_000)
    assert [write(first), write(second)] == [0, 1]
    ask("release", "b1", second, 6_001)
    assert [write(first), write(second)] == [0, 0]
    db.close()
    store.close()


@pytest.mark.parametrize(
    ("key", "beside"),
    [
        ("export:7", "{export:7}:fencing-token"),
        ("{t7}:export", "{t7}:export:fencing-token"),
        ("a{t}b", "a{t}b:fencing-token"),
        ("{t7}", "{t7}:its-fencing-token"),
    ],
)
def test_what_remembers_a_key_of_redis_lies_in_its_slot(key: str, beside: str) -> None:
    from redis.crc import key_slot

    assert fence_key(key) == beside
    assert key_slot(key.encode()) == key_slot(beside.encode())


@pytest.mark.parametrize("key", ["", "a}b", "{}", "{", "a{b", "}{", "{}a{b}"])
def test_a_key_with_stray_braces_has_nothing_beside_it(key: str) -> None:
    with pytest.raises(ValueError, match="braces"):
        fence_key(key)


def test_no_two_keys_of_redis_have_the_same_beside_them() -> None:
    keys = ["t7", "{t7}", "{t7}x", "x{t7}", "{t7}:its", "t7:its", "{{t7}", "{t7}{t7}", "{t7}{", "{t7}}"]
    assert len({fence_key(key) for key in keys}) == len(keys)


@pytest.mark.parametrize("key", ["{export:7}:fencing-token", "{t7}:its-fencing-token", "fencing-token"])
def test_what_remembers_a_token_is_itself_no_key_to_write(key: str) -> None:
    with pytest.raises(ValueError, match="does not end in"):
        fence_key(key)


def test_a_pipeline_of_redis_is_told_nothing_and_so_is_refused() -> None:
    import redis

    pipeline = redis.Redis().pipeline()
    for ask in (lambda: fenced_set(pipeline, "k", "v", "5"), lambda: fenced_delete(pipeline, "k", "5")):
        with pytest.raises(ValueError, match="no pipeline"):
            ask()
    assert len(pipeline) == 0


def test_a_key_of_redis_under_no_token_asks_nobody() -> None:
    assert fenced_set(None, "k", "v", "007") is False
