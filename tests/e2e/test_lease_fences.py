"""The predicate at the write on a real PostgreSQL and a real Redis: what waits for what, and what is refused."""

import asyncio
import contextlib
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from drillmaster.adapters.worker.lease import hold
from drillmaster.guards.lease import Lease, LeaseRequest
from drillmaster.stores import decide
from drillmaster.stores.fences import (
    FENCE_LUA,
    fence,
    fence_held,
    fence_key,
    fenced_delete,
    fenced_delete_async,
    fenced_set,
    fenced_set_async,
)
from drillmaster.stores.opening import open_store
from tests.e2e.leaselab import store_url
from tests.rules.test_fence import NO_TOKENS

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(120)]

GUARD = Lease(lease="export", ttl_ms=2_000, may_steal=())


@pytest.fixture(scope="module")
def pg(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    import psycopg

    with store_url("postgresql", tmp_path_factory.mktemp("pg")) as url:
        with psycopg.connect(url) as db:
            db.execute("CREATE TABLE jobs (id int PRIMARY KEY, token text, done_by text, fencing_token bigint)")
            db.execute("INSERT INTO jobs (id) VALUES (1)")
        yield url


@pytest.fixture(scope="module")
def redis_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with store_url("redis", tmp_path_factory.mktemp("redis")) as url:
        yield url


def held_write(token: str, item: str) -> tuple[bytes, dict[str, Any]]:
    f = fence_held(token, key=GUARD.key(item), database="postgresql")
    return f"UPDATE jobs SET done_by = %(who)s WHERE id = 1 AND {f.where}".encode(), {"who": "a", **f.params}


@pytest.mark.needs("postgres")
def test_a_takeover_waits_until_a_fenced_write_is_committed_and_a_renewal_does_not(pg: str) -> None:
    import psycopg

    guard = Lease(lease="export", ttl_ms=800, may_steal=())
    granted_s: list[float] = []
    with contextlib.closing(open_store(pg, within_s=5)) as store, psycopg.connect(pg) as db:

        def take_over() -> None:
            with hold(guard, store, by="b", item="waits", wait_s=20):
                granted_s.append(time.monotonic())

        request = LeaseRequest(action="acquire", source="lock-client", holder="h1", by="a", item="waits")
        token = decide(guard, request, store).fencing_token  # type: ignore[attr-defined]  # it is granted
        assert db.execute(*held_write(token, "waits")).rowcount == 1
        # The transaction is open. Its own holder is not kept from renewing,
        renew = LeaseRequest(
            action="renew", source="lock-client", holder="h1", by="a", fencing_token=token, item="waits"
        )
        before_s = time.monotonic()
        assert decide(guard, renew, store).reason == "renewed"
        assert time.monotonic() - before_s < 0.6
        other = threading.Thread(target=take_over)
        other.start()
        time.sleep(1.8)
        assert not granted_s, "granted while a write of the token before is on its way"
        assert db.execute(*held_write(token, "waits")).rowcount == 1
        committed_s = time.monotonic()
        db.commit()
        other.join(20)
        assert granted_s and granted_s[0] >= committed_s
        assert db.execute(*held_write(token, "waits")).rowcount == 0


@pytest.mark.needs("postgres")
def test_a_release_waits_for_the_holders_own_write_too(pg: str) -> None:
    import psycopg

    with contextlib.closing(open_store(pg, within_s=0.3)) as store, psycopg.connect(pg) as db:
        request = LeaseRequest(action="acquire", source="lock-client", holder="h1", by="a", item="own")
        guard = Lease(lease="export", ttl_ms=60_000, may_steal=())
        token = decide(guard, request, store).fencing_token  # type: ignore[attr-defined]  # it is granted
        assert db.execute(*held_write(token, "own")).rowcount == 1
        release = LeaseRequest(
            action="release", source="lock-client", holder="h1", by="a", fencing_token=token, item="own"
        )
        assert decide(guard, release, store).reason == "store-unavailable"
        db.commit()
        assert decide(guard, release, store).reason == "released"
        assert db.execute(*held_write(token, "own")).rowcount == 0


@pytest.mark.needs("postgres")
@pytest.mark.parametrize("renewals", [0, 1, 3])
@pytest.mark.parametrize("isolation", ["READ_COMMITTED", "REPEATABLE_READ", "SERIALIZABLE"])
def test_a_write_whose_transaction_began_before_the_takeover_is_not_taken(
    pg: str, isolation: str, renewals: int
) -> None:
    import psycopg

    item = f"isolation {isolation} {renewals}"
    with contextlib.closing(open_store(pg, within_s=5)) as store, psycopg.connect(pg) as db:
        db.isolation_level = psycopg.IsolationLevel[isolation]
        with hold(GUARD, store, by="a", item=item) as lease:
            token = lease.token
            db.execute("SELECT done_by FROM jobs").fetchall()  # its snapshot is from now on
            for _ in range(renewals):  # versions of the lease's row between that and the takeover
                assert lease.renew().allowed
        with hold(GUARD, store, by="b", item=item):
            if isolation == "READ_COMMITTED":
                assert db.execute(*held_write(token, item)).rowcount == 0
            else:
                with pytest.raises(psycopg.errors.SerializationFailure):
                    db.execute(*held_write(token, item))
        db.rollback()


@pytest.mark.needs("postgres")
@pytest.mark.parametrize(("action", "end"), [("steal", "stolen"), ("release", "released")])
@pytest.mark.parametrize("isolation", ["READ_COMMITTED", "REPEATABLE_READ", "SERIALIZABLE"])
def test_a_write_that_saw_the_lease_before_a_renewal_is_not_taken_after_an_end_that_waited(
    pg: str, isolation: str, action: str, end: str
) -> None:
    """Several locked the row in between, which PostgreSQL keeps in another way: as a list of who, of which some are done."""
    import psycopg

    item = f"{end} {isolation}"
    guard = Lease(lease="export", ttl_ms=60_000, may_steal=("thief",))

    def reason(action: str, holder: str, token: str) -> str:
        facts = LeaseRequest(
            action=action, source="lock-client", holder=holder, by="thief", fencing_token=token, item=item
        )
        return decide(guard, facts, store).reason

    with (
        contextlib.closing(open_store(pg, within_s=10)) as store,
        psycopg.connect(pg) as late,
        psycopg.connect(pg) as beside,
    ):
        late.isolation_level = psycopg.IsolationLevel[isolation]
        acquire = LeaseRequest(action="acquire", source="lock-client", holder="h1", by="a", item=item)
        token = decide(guard, acquire, store).fencing_token  # type: ignore[attr-defined]  # it is granted
        f = fence_held(token, key=guard.key(item), database="postgresql")
        # A statement whose snapshot is from now on, and which asks when it is fetched from.
        held = psycopg.ClientCursor(late).mogrify(f"DECLARE c CURSOR FOR SELECT 1 WHERE {f.where}".encode(), f.params)
        late.execute(held.encode())
        assert reason("renew", "h1", token) == "renewed"
        assert beside.execute(*held_write(token, item)).rowcount == 1
        told: list[str] = []
        other = threading.Thread(target=lambda: told.append(reason(action, "h2" if action == "steal" else "h1", token)))
        other.start()
        time.sleep(0.5)
        assert told == []
        beside.commit()
        other.join(10)
        assert told == [end]
        if isolation == "READ_COMMITTED":
            assert late.execute("FETCH c").fetchall() == []
        else:
            with pytest.raises(psycopg.errors.SerializationFailure):
                late.execute("FETCH c")
        late.rollback()


@pytest.mark.needs("postgres")
def test_tables_of_before_get_what_they_lack_and_a_second_preparation_waits_for_no_write(pg: str) -> None:
    import psycopg

    with contextlib.closing(open_store(pg, within_s=5)) as store, psycopg.connect(pg) as db:
        db.execute("ALTER TABLE drillmaster_lease DROP COLUMN released")
        db.commit()
        store.prepare()
        with hold(GUARD, store, by="a", item="prepared") as lease:
            assert db.execute(*held_write(lease.token, "prepared")).rowcount == 1
            preparing = threading.Thread(target=store.prepare, daemon=True)
            preparing.start()
            preparing.join(10)
            assert not preparing.is_alive()
            db.rollback()
        keys = "SELECT pg_get_indexdef('drillmaster_lease_grant'::regclass)"
        assert "(key, token, released)" in db.execute(keys).fetchone()[0]  # type: ignore[index]  # one row


@pytest.mark.needs("postgres")
def test_tables_of_the_same_name_that_a_path_finds_first_make_no_second_holder(pg: str) -> None:
    import psycopg

    with psycopg.connect(pg, autocommit=True) as db:
        db.execute("CREATE SCHEMA before_ours")
        for table in ("drillmaster_lease", "drillmaster_fence"):
            db.execute(f"CREATE TABLE before_ours.{table} (LIKE public.{table} INCLUDING ALL)")
        db.execute("ALTER DATABASE postgres SET search_path = before_ours, public")
        try:
            with psycopg.connect(pg, autocommit=True) as late:
                late.execute("CREATE TEMP TABLE drillmaster_lease (LIKE public.drillmaster_lease INCLUDING ALL)")
                acquire = "SELECT allowed FROM drillmaster_lease('paths', 'acquire', %s, 'w', NULL, 60000000, true)"
                fence = "SELECT allowed FROM drillmaster_fence('paths', %s)"
                db.execute("SET search_path = public")
                assert db.execute(acquire, ["h1"]).fetchone() == (True,)
                assert late.execute(acquire, ["h2"]).fetchone() == (False,)
                assert db.execute(fence, [7]).fetchone() == (True,)
                assert late.execute(fence, [6]).fetchone() == (False,)
        finally:
            db.execute("ALTER DATABASE postgres RESET search_path")
            db.execute("DROP SCHEMA before_ours CASCADE")


@pytest.mark.needs("postgres")
def test_the_rights_that_the_page_names_are_enough_and_who_only_writes_takes_no_lease(pg: str) -> None:
    import psycopg

    with psycopg.connect(pg, autocommit=True) as db:
        db.execute("CREATE ROLE worker LOGIN")
        db.execute("CREATE ROLE writer LOGIN")
        db.execute("GRANT SELECT, INSERT, UPDATE ON drillmaster_lease, drillmaster_lease_log TO worker")
        db.execute("GRANT DELETE ON drillmaster_lease_log TO worker")
        db.execute("GRANT SELECT, UPDATE (since_us) ON drillmaster_lease TO writer")
        db.execute("GRANT SELECT, UPDATE ON jobs TO writer")
    with (
        contextlib.closing(open_store(pg.replace("drills@", "worker@"), within_s=5)) as worker,
        contextlib.closing(open_store(pg.replace("drills@", "writer@"), within_s=5)) as writer,
        psycopg.connect(pg.replace("drills@", "writer@"), autocommit=True) as db,
    ):
        with hold(GUARD, worker, by="a", item="rights") as lease:
            assert db.execute(*held_write(lease.token, "rights")).rowcount == 1
        assert db.execute(*held_write(lease.token, "rights")).rowcount == 0
        acquire = LeaseRequest(action="acquire", source="lock-client", holder="h", by="w", item="rights")
        assert decide(GUARD, acquire, writer).reason == "store-unavailable"
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            db.execute("UPDATE drillmaster_lease SET token = token + 1")


@pytest.mark.needs("postgres")
def test_no_write_is_taken_after_a_newer_token_whatever_runs_beside_it(pg: str) -> None:
    import psycopg

    thieves = Lease(lease="export", ttl_ms=60_000, may_steal=("thief",))
    with psycopg.connect(pg, autocommit=True) as db:
        db.execute("CREATE TABLE taken (n bigserial PRIMARY KEY, token bigint)")
    with contextlib.closing(open_store(pg, within_s=20)) as store:

        def ask(action: str, holder: str, token: str | None) -> str:
            request = LeaseRequest(
                action=action, source="lock-client", holder=holder, by="thief", fencing_token=token, item="beside"
            )
            told = decide(thieves, request, store)
            assert told.allowed, told
            return str(told.fencing_token)  # type: ignore[attr-defined]  # it is granted

        tokens = [ask("acquire", "h0", None)]
        ends = time.monotonic() + 4

        def write(which: int) -> None:
            with psycopg.connect(pg, autocommit=True) as db:
                while time.monotonic() < ends:
                    token = tokens[max(0, len(tokens) - which)]
                    f = fence_held(token, key=thieves.key("beside"), database="postgresql")
                    db.execute(f"INSERT INTO taken (token) SELECT {f.token} WHERE {f.where}".encode(), f.params)

        def renew() -> None:
            while time.monotonic() < ends:
                n = len(tokens)
                request = LeaseRequest(
                    action="renew",
                    source="lock-client",
                    holder=f"h{n - 1}",
                    by="thief",
                    fencing_token=tokens[n - 1],
                    item="beside",
                )
                assert decide(thieves, request, store).reason in ("renewed", "stale-token")

        threads = [threading.Thread(target=write, args=(which,)) for which in (1, 1, 2)] + [
            threading.Thread(target=renew)
        ]
        for one in threads:
            one.start()
        while time.monotonic() < ends:
            tokens.append(ask("steal", f"h{len(tokens)}", tokens[-1]))
            time.sleep(0.005)
        for one in threads:
            one.join()
    with psycopg.connect(pg) as db:
        taken = [token for (token,) in db.execute("SELECT token FROM taken ORDER BY n").fetchall()]
    assert len(set(taken)) > 10, "too few takeovers met a write to show anything"
    assert taken == sorted(taken)


@pytest.mark.needs("postgres")
def test_each_way_of_parameters_is_taken_by_its_driver(pg: str) -> None:
    import psycopg
    import sqlalchemy

    with contextlib.closing(open_store(pg, within_s=5)) as store, hold(GUARD, store, by="a", item="drivers") as lease:
        key = GUARD.key("drivers")
        with psycopg.connect(pg, cursor_factory=psycopg.RawCursor, autocommit=True) as db:
            for token, n in ((lease.token, 1), ("5", 0)):
                f = fence_held(token, key=key, database="postgresql", style="dollar", first=2)
                statement = f"UPDATE jobs SET done_by = $1 WHERE id = 1 AND {f.where}"
                assert db.execute(statement.encode(), ["a", *f.values]).rowcount == n
            f = fence("700", style="dollar", first=2)
            statement = f"UPDATE jobs SET done_by = $1, {f.sets} WHERE id = 1 AND {f.where}"
            assert db.execute(statement.encode(), ["a", *f.values]).rowcount == 1
        engine = sqlalchemy.create_engine(pg.replace("postgresql://", "postgresql+psycopg://"))
        with engine.begin() as connection:
            for token, n in ((lease.token, 1), ("5", 0)):
                f = fence_held(token, key=key, database="postgresql", schema="public", style="named")
                said = sqlalchemy.text(f"UPDATE jobs SET done_by = :who WHERE id = 1 AND {f.where}")
                assert connection.execute(said, {"who": "a", **f.params}).rowcount == n
            for token, n in (("701", 1), ("700", 0), ("701", 1)):
                f = fence(token, table="jobs", style="named")
                said = sqlalchemy.text(f"UPDATE jobs SET done_by = :who, {f.sets} WHERE id = 1 AND {f.where}")
                assert connection.execute(said, {"who": "a", **f.params}).rowcount == n
        engine.dispose()


@pytest.mark.needs("postgres")
def test_columns_that_are_named_alike_are_not_meant(pg: str) -> None:
    import psycopg

    with contextlib.ExitStack() as stack:
        store = stack.enter_context(contextlib.closing(open_store(pg, within_s=5)))
        lease = stack.enter_context(hold(GUARD, store, by="a", item="alike"))
        with psycopg.connect(pg, autocommit=True) as db:
            db.execute("CREATE TABLE alike (key text, token bigint, until_us bigint, dm_l int)")
            db.execute("INSERT INTO alike VALUES (%s, 5, 9, 1)", (GUARD.key("alike"),))
            for token, n in (("5", 0), (lease.token, 1)):
                f = fence_held(token, key=GUARD.key("alike"), database="postgresql")
                assert db.execute(f"UPDATE alike SET dm_l = 2 WHERE {f.where}".encode(), f.params).rowcount == n
            insert = fence_held(lease.token, key=GUARD.key("alike"), database="postgresql")
            rows = db.execute(f"INSERT INTO alike SELECT 'x', 1, 1, 1 WHERE {insert.where}".encode(), insert.params)
            assert rows.rowcount == 1


@pytest.mark.needs("postgres")
def test_many_claims_at_once_leave_the_highest_token(pg: str) -> None:
    import psycopg

    with psycopg.connect(pg, autocommit=True) as db:
        db.execute("INSERT INTO jobs (id) VALUES (2)")

    def claim(token: int) -> None:
        f = fence(str(token))
        with psycopg.connect(pg, autocommit=True) as db:
            statement = f"UPDATE jobs SET done_by = %(who)s, {f.sets} WHERE id = 2 AND {f.where}"
            db.execute(statement.encode(), {"who": str(token), **f.params})

    threads = [threading.Thread(target=claim, args=(token,)) for token in (3, 9, 1, 12, 7, 10)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    with psycopg.connect(pg) as db:
        assert db.execute("SELECT done_by, fencing_token FROM jobs WHERE id = 2").fetchone() == ("12", 12)


@pytest.mark.needs("redis-server")
def test_a_key_of_redis_takes_no_older_token(redis_url: str) -> None:
    import redis

    with contextlib.closing(redis.Redis.from_url(redis_url)) as client:
        assert fenced_set(client, "export:7", "a", "99")
        assert fenced_set(client, "export:7", "b", "100", expire_ms=60_000)
        assert not fenced_set(client, "export:7", "a", "99")
        assert not fenced_delete(client, "export:7", "99")
        assert client.get("export:7") == b"b" and 0 < client.pttl("export:7") <= 60_000
        assert fenced_delete(client, "export:7", "100") and client.get("export:7") is None
        assert not fenced_set(client, "export:7", "a", "99"), "what was deleted is remembered"
        assert client.ttl(fence_key("export:7")) == -1
        top = str(2**63 - 1)
        assert fenced_set(client, "{t7}:top", "b", top) and not fenced_set(client, "{t7}:top", "a", str(2**63 - 2))
        with pytest.raises(ValueError, match="at least 1"):
            fenced_set(client, "k", "v", "5", expire_ms=0)


@pytest.mark.needs("redis-server")
def test_a_script_of_ones_own_is_fenced_and_holds_what_it_is_told_against_the_grammar(redis_url: str) -> None:
    import redis

    script = (
        FENCE_LUA + "if not drillmaster_fence(KEYS[2], ARGV[1]) then return 0 end return redis.call('INCR', KEYS[1])"
    )
    with contextlib.closing(redis.Redis.from_url(redis_url)) as client:
        run = client.register_script(script)

        def incr(token: Any) -> int:
            return int(run(keys=["own", fence_key("own")], args=[token]))

        bad = [str(one) for one in NO_TOKENS if isinstance(one, str)]
        assert {incr(one.encode("utf-8", "surrogatepass")) for one in bad} == {0}
        assert [incr("9"), incr("10"), incr("9"), incr("10")] == [1, 2, 0, 3]


@pytest.mark.needs("redis-server")
def test_an_event_loop_fences_alike(redis_url: str) -> None:
    import redis.asyncio

    async def go() -> None:
        client = redis.asyncio.Redis.from_url(redis_url)
        assert await fenced_set_async(client, "loop", "b", "100")
        assert not await fenced_set_async(client, "loop", "a", "99")
        assert not await fenced_set_async(client, "loop", "a", "007")
        assert not await fenced_delete_async(client, "loop", "99") and not await fenced_delete_async(
            client, "loop", "x"
        )
        assert await fenced_delete_async(client, "loop", "100")
        await client.aclose()

    asyncio.run(go())


def test_a_write_of_sqlite_that_began_before_the_takeover_is_not_taken(tmp_path: Path) -> None:
    import sqlite3

    with store_url("sqlite", tmp_path) as url, contextlib.closing(open_store(url, within_s=5)) as store:
        db = sqlite3.connect(tmp_path / "leases.sqlite", isolation_level=None)
        db.execute("CREATE TABLE jobs (id INTEGER PRIMARY KEY, done_by TEXT)")
        db.execute("INSERT INTO jobs VALUES (1, NULL)")
        with hold(GUARD, store, by="a") as lease:
            token = lease.token
            db.execute("BEGIN")
            db.execute("SELECT * FROM jobs").fetchall()
        with hold(GUARD, store, by="b"):
            f = fence_held(token, key=GUARD.key(), database="sqlite", style="named")
            statement = f"UPDATE jobs SET done_by = 'a' WHERE id = 1 AND {f.where}"
            with pytest.raises(sqlite3.OperationalError, match="locked"):
                db.execute(statement, f.params)
            db.execute("ROLLBACK")
            assert db.execute(statement, f.params).rowcount == 0
        db.close()
