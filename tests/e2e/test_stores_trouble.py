"""A store in trouble denies, in time, without a word of a password; and it is back at work as soon as the server is."""

import asyncio
import contextlib
import gc
import os
import threading
import time
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from drillmaster.errors import Problem
from drillmaster.guards import Decision
from drillmaster.guards.quota import OutboundCall, Quota
from drillmaster.rules import AnyLaw, call_state, fence, later, lease, quota, retry_budget
from drillmaster.rules.quota import LAW, Limit, Take
from drillmaster.stores import Store, Unavailable, decide, decide_async
from drillmaster.stores.carrying import scripts
from drillmaster.stores.opening import open_async_store, open_store
from tests.e2e.pglab import Postgres, postgres
from tests.e2e.redislab import Redis, redis_server
from tests.e2e.storelab import Server, server, servers, wire  # noqa: F401 - a fixture

pytestmark = [pytest.mark.e2e, pytest.mark.needs("postgres"), pytest.mark.needs("redis-server")]

WITHIN_S = 0.3
LIMITS = Quota(partner="acme", identity="prod", window_ms=60_000, max_per_window=30, burst=30)
CALL = OutboundCall(partner="acme", identity="prod")
SECRET = "hunter2-sesame"
QUESTIONS: list[tuple[AnyLaw, Any]] = [
    (call_state.LAW, call_state.Report(what="begin", holder="h", hold_us=1_000, wait_us=0, keep_us=1_000, most=9)),
    (fence.LAW, fence.FencedWrite(token=7)),
    (later.LAW, later.Word(what="put", name="job", span_us=1_000)),
    (lease.LAW, lease.LeaseAsk(action="acquire", holder="h", by="b", token=None, ttl_us=1_000, permitted=True)),
    (quota.LAW, Take((Limit(name="all", cost=1, window_us=1_000, cap=9, burst=9),))),
    (retry_budget.LAW, retry_budget.Draw(take_milli=1_000, give_milli=0, full_milli=9_000)),
]
"""One of each law that Redis carries."""


def denied_in_time(store: Store) -> None:
    began = time.monotonic()
    decision = decide(LIMITS, CALL, store)
    took_s = time.monotonic() - began
    assert (decision.allowed, decision.reason) == (False, "store-unavailable")
    assert took_s < WITHIN_S + 0.35, took_s


def until_granted(store: Store) -> int | None:
    """What is left, as soon as it is granted again."""
    ends = time.monotonic() + 10
    while time.monotonic() < ends:
        decision = decide(LIMITS, CALL, store)
        if decision.allowed:
            return decision.left
        assert decision.reason == "store-unavailable"
        time.sleep(0.02)
    raise AssertionError("it never came back")


def test_a_server_that_is_stopped_denies_in_time_and_grants_no_more_than_the_cap_afterwards(server: Server) -> None:  # noqa: F811
    store = server.store(WITHIN_S)
    assert decide(LIMITS, CALL, store).left == 29
    with server.stopped():
        denied_in_time(store)  # over the connection that was kept
        denied_in_time(store)  # over a new one
    left = until_granted(store)
    # What was given up may have been carried out: then it counts, and can only deny.
    assert left is not None and 26 <= left <= 28
    granted = sum(decide(LIMITS, CALL, store).allowed for _ in range(40))
    assert granted == left
    store.close()


def test_a_server_that_is_killed_denies_and_knows_what_was_spent_when_it_is_back(server: Server) -> None:  # noqa: F811
    store = server.store(WITHIN_S)
    for _ in range(10):
        assert decide(LIMITS, CALL, store).allowed
    server.kill()
    denied_in_time(store)
    denied_in_time(store)
    server.start()
    assert until_granted(store) == 19
    store.close()


def test_an_answer_that_was_lost_counts_and_the_question_is_asked_once_more(server: Server) -> None:  # noqa: F811
    with wire(server) as between:
        store = open_store(server.url_over(between), within_s=WITHIN_S)
        assert decide(LIMITS, CALL, store).left == 29
        between.lose = 1
        assert decide(LIMITS, CALL, store).left == 27  # carried out twice: denies earlier, and never grants too much
        between.lose = 10**6
        denied_in_time(store)
        between.lose = 0
        assert until_granted(store) is not None
        store.close()


def test_answers_that_come_a_byte_at_a_time_end_at_the_limit(server: Server) -> None:  # noqa: F811
    with wire(server) as between:
        store = open_store(server.url_over(between), within_s=WITHIN_S)
        assert decide(LIMITS, CALL, store).allowed
        between.drip_s = 0.05
        denied_in_time(store)
        denied_in_time(store)  # over a new connection
        between.drip_s = 0
        assert until_granted(store) is not None
        store.close()


def test_a_decision_is_one_round_trip(server: Server) -> None:  # noqa: F811
    also = [
        {"name": f"n{n}", "counts": "requests", "window_ms": 1_000, "max_per_window": 30, "burst": 30} for n in range(5)
    ]
    several = msgspec.convert({**msgspec.to_builtins(LIMITS), "also": also}, Quota)
    with wire(server) as between:
        store = open_store(server.url_over(between), within_s=5)
        assert decide(several, CALL, store).allowed
        before = between.sent
        for _ in range(50):
            assert decide(several, CALL, store).reason in ("within-quota", "over-cap", "over-burst")
        assert between.sent - before == 50
        store.close()


def test_a_store_that_was_not_prepared_denies_until_a_person_prepares_it(server: Server) -> None:  # noqa: F811
    if isinstance(server.server, Redis):
        unprepared = server.url + "?db=3"
    else:
        import psycopg

        with psycopg.connect(server.url, autocommit=True) as connection:
            connection.execute("CREATE DATABASE other")
        unprepared = server.url.replace("/postgres?", "/other?")
    store = open_store(unprepared, within_s=WITHIN_S)
    denied_in_time(store)
    with pytest.raises(Unavailable, match=r"prepare"):
        store.ask(LAW, "k", Take((Limit(name="requests", cost=1, window_us=1, cap=1, burst=1),)))
    store.prepare()
    assert decide(LIMITS, CALL, store).left == 29
    store.close()


def test_a_wrong_password_denies_and_stands_in_no_message(server: Server) -> None:  # noqa: F811
    if isinstance(server.server, Postgres):
        import psycopg

        with psycopg.connect(server.url, autocommit=True) as connection:
            connection.execute(f"CREATE ROLE locked LOGIN SUPERUSER PASSWORD 'not-{SECRET[:4]}'")
        hba = server.server.data / "pg_hba.conf"
        hba.write_text("local all locked scram-sha-256\n" + hba.read_text())
        server.server.reload()
        url = server.url.replace("drills@", f"locked:{SECRET}@")
    else:
        import redis

        redis.Redis.from_url(server.url).config_set("requirepass", "another")
        url = server.url.replace("unix://", f"unix://:{SECRET}@")
    store = open_store(url, within_s=WITHIN_S)
    denied_in_time(store)
    for what in (
        lambda: store.ask(LAW, "k", Take((Limit(name="a", cost=1, window_us=1, cap=1, burst=1),))),
        store.prepare,
    ):
        with pytest.raises(Problem) as caught:
            what()
        assert SECRET not in str(caught.value) and SECRET not in repr(caught.value)
    assert SECRET not in store.place
    store.close()


@pytest.mark.parametrize(
    "url",
    [
        f"postgresql://u:{SECRET}@h/d?nonsense=1", f"redis://:{SECRET}@h:port/0",
        f"redis://:{SECRET}@h/0?nonsense=1", f"redis://:{SECRET}@h/zero",
        f"mysql://u:{SECRET}@h/d", f"redis:{SECRET}", "sqlite:", "", f"http://{SECRET}",
    ],
)  # fmt: skip  # one case a piece
def test_a_url_that_is_none_is_refused_when_it_is_opened(url: str) -> None:
    for opens in (open_store, open_async_store):
        with pytest.raises(Problem) as caught:
            opens(url)
        assert SECRET not in str(caught.value)


def read_only(server: Server) -> Callable[[], None]:  # noqa: F811
    if isinstance(server.server, Redis):
        import redis

        client = redis.Redis.from_url(server.url)
        client.config_set("min-replicas-to-write", 1)  # no replica is there, so that nothing may be written

        def again() -> None:
            client.config_set("min-replicas-to-write", 0)

        return again
    import psycopg

    def say(value: str) -> None:
        with psycopg.connect(server.url, autocommit=True) as connection:
            connection.execute("SET default_transaction_read_only = off")
            connection.execute(f"ALTER DATABASE postgres SET default_transaction_read_only = {value}".encode())

    say("on")
    return lambda: say("off")


def test_a_store_that_takes_no_writes_denies(server: Server) -> None:  # noqa: F811
    again = read_only(server)
    store = server.store(WITHIN_S)
    denied_in_time(store)
    again()
    store.close()
    assert until_granted(store) == 29
    store.close()


def test_postgresql_whose_transactions_are_of_another_kind_counts_all_the_same() -> None:
    """A snapshot from before the turn would not show what the one before has taken."""
    import psycopg

    with servers("postgresql") as lent:
        with psycopg.connect(lent.url, autocommit=True) as connection:
            connection.execute("ALTER ROLE drills SET default_transaction_isolation = 'serializable'")
        store = lent.store(10)
        told: list[bool] = []
        threads = [
            threading.Thread(target=lambda: told.extend(decide(LIMITS, CALL, store).allowed for _ in range(10)))
            for _ in range(8)
        ]
        for one in threads:
            one.start()
        for one in threads:
            one.join()
        assert (len(told), sum(told)) == (80, 30)
        store.close()
        with psycopg.connect(lent.url, autocommit=True) as connection:
            connection.execute("SET default_transaction_isolation = 'repeatable read'")
            with pytest.raises(psycopg.Error, match="read committed"):
                connection.execute("SELECT * FROM drillmaster_quota('k', 'requests,1,60000000,30,30')")


def test_redis_without_memory_denies_and_forgets_nothing() -> None:
    import redis

    with servers("redis") as lent:
        store = lent.store(WITHIN_S)
        assert decide(LIMITS, CALL, store).left == 29
        client = redis.Redis.from_url(lent.url)
        client.config_set("maxmemory", 1)
        denied_in_time(store)
        client.config_set("maxmemory", 0)
        assert until_granted(store) == 28
        client.config_set("maxmemory-policy", "allkeys-lru")
        with pytest.raises(Problem, match="noeviction"):
            store.prepare()
        store.close()


def test_redis_that_begins_to_throw_keys_away_denies_until_it_no_longer_does() -> None:
    import redis

    with servers("redis") as lent, asyncio.Runner() as runner:
        client = redis.Redis.from_url(lent.url)
        store, several = lent.store(WITHIN_S), lent.async_store(WITHIN_S)

        def until_both(*, answer: bool) -> None:
            """A kept connection looks once a second."""
            ends = time.monotonic() + 30
            asks: list[Callable[[], Decision]] = [
                lambda: decide(LIMITS, CALL, store),
                lambda: runner.run(decide_async(LIMITS, CALL, several)),
            ]
            for ask in asks:
                while (ask().reason != "store-unavailable") != answer:
                    assert time.monotonic() < ends
                    time.sleep(0.02)

        until_both(answer=True)
        for policy in ("volatile-lru", "allkeys-random"):
            client.config_set("maxmemory-policy", policy)
            until_both(answer=False)
            fresh = lent.store(5)
            assert decide(LIMITS, CALL, fresh).reason == "store-unavailable"
            fresh.close()
            client.config_set("maxmemory-policy", "noeviction")
            until_both(answer=True)
        runner.run(several.close())
        store.close()


def test_redis_that_comes_back_empty_or_was_emptied_denies_until_it_is_prepared() -> None:
    import redis

    with redis_server("--save", "", "--appendonly", "no") as lent:
        store = open_store(lent.url, within_s=WITHIN_S)
        store.prepare()
        assert decide(LIMITS, CALL, store).allowed
        lent.kill()
        lent.start()
        denied_in_time(store)
        denied_in_time(store)
        store.prepare()
        assert decide(LIMITS, CALL, store).left == 29
        redis.Redis.from_url(lent.url).flushall()  # under a connection that stays
        denied_in_time(store)
        store.prepare()
        assert decide(LIMITS, CALL, store).left == 29
        store.close()


def test_redis_that_was_emptied_answers_by_no_law_until_it_is_prepared() -> None:
    """What is empty has seen no token, holds no key in flight and keeps no job: nothing of that may pass for an answer."""
    import redis

    assert {law.name for law, _ in QUESTIONS} == set(scripts("lua"))
    with redis_server("--save", "", "--appendonly", "no") as lent:
        store = open_store(lent.url, within_s=WITHIN_S)
        for law, question in QUESTIONS:
            store.prepare()
            store.ask(law, "k", question)
            redis.Redis.from_url(lent.url).flushall()  # under a connection that stays
            for _ in range(2):
                with pytest.raises(Unavailable, match="not prepared"):
                    store.ask(law, "k", question)
        store.close()


def test_what_a_newer_version_keeps_in_redis_is_dropped_by_no_older_one() -> None:
    import redis

    with servers("redis") as lent:
        store = lent.store(WITHIN_S)
        assert decide(LIMITS, CALL, store).left == 29
        with redis.Redis.from_url(lent.url) as client:
            (key,) = [one for one in client.keys("drillmaster:quota:*") if client.type(one) == b"string"]
            client.append(key, b"\0" * 8)
        denied_in_time(store)
        store.close()


def test_redis_that_lost_its_scripts_is_given_them_again() -> None:
    import redis

    with servers("redis") as lent:
        store = lent.store(WITHIN_S)
        assert decide(LIMITS, CALL, store).left == 29
        redis.Redis.from_url(lent.url).script_flush()
        assert decide(LIMITS, CALL, store).left == 28
        store.close()


def test_a_worker_that_forks_shares_no_connection(server: Server) -> None:  # noqa: F811
    store = server.store(5)
    assert decide(LIMITS, CALL, store).left == 29
    pids = []
    for _ in range(3):
        pid = os.fork()
        if pid == 0:
            status = 1
            try:
                lefts = [decide(LIMITS, CALL, store).left for _ in range(3)]
                status = 0 if None not in lefts and lefts == sorted(lefts, reverse=True) else 1  # type: ignore[type-var]  # no None
            finally:
                os._exit(status)
        pids.append(pid)
    mine = [decide(LIMITS, CALL, store).allowed for _ in range(3)]
    assert [os.waitpid(pid, 0)[1] for pid in pids] == [0, 0, 0]
    assert mine == [True] * 3
    assert decide(LIMITS, CALL, store).left == 29 - 12 - 1
    store.close()


def test_many_threads_are_granted_the_cap_and_not_one_more(server: Server) -> None:  # noqa: F811
    store = server.store(10)
    told: list[str] = []

    def ask() -> None:
        told.extend(decide(LIMITS, CALL, store).reason for _ in range(10))

    threads = [threading.Thread(target=ask) for _ in range(16)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert len(told) == 160 and told.count("within-quota") == 30 and "store-unavailable" not in told
    store.close()


async def _in_a_loop(server: Server) -> None:  # noqa: F811
    store = server.async_store(10)
    told = await asyncio.gather(*(decide_async(LIMITS, CALL, store) for _ in range(40)))
    assert sum(one.allowed for one in told) == 30
    assert all(one.reason in ("within-quota", "over-cap") for one in told)
    await store.close()


def test_an_event_loop_is_granted_the_cap_and_not_one_more(server: Server) -> None:  # noqa: F811
    asyncio.run(_in_a_loop(server))


def take(cap: int) -> Take:
    return Take((Limit(name="requests", cost=1, window_us=60_000_000, cap=cap, burst=cap),))


async def _cancelled(server: Server) -> None:  # noqa: F811
    store = server.async_store(5)
    assert (await store.ask(LAW, "a", take(7))).left == 6
    with server.stopped():
        asked = asyncio.create_task(store.ask(LAW, "a", take(7)))
        await asyncio.sleep(0.05)
        asked.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asked
    # Were the connection kept, the next one would read the answer to the one before.
    for n in range(5):
        assert (await store.ask(LAW, "b", take(30))).left == 29 - n
    await store.close()


def test_a_question_that_was_cancelled_leaves_no_answer_to_the_next_one(server: Server) -> None:  # noqa: F811
    asyncio.run(_cancelled(server))


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # a loop that ended has not closed them
@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_a_worker_that_starts_a_loop_for_each_job_is_answered_in_each(server: Server) -> None:  # noqa: F811
    store = server.async_store(5)

    async def job() -> int | None:
        return (await decide_async(LIMITS, CALL, store)).left

    assert [asyncio.run(job()) for _ in range(3)] == [29, 28, 27]

    async def end() -> None:
        await store.close()

    asyncio.run(end())
    gc.collect()


async def _stopped_in_a_loop(server: Server) -> None:  # noqa: F811
    store = server.async_store(WITHIN_S)
    assert (await decide_async(LIMITS, CALL, store)).allowed
    with server.stopped():
        for _ in range(2):
            began = time.monotonic()
            decision = await decide_async(LIMITS, CALL, store)
            assert decision.reason == "store-unavailable" and time.monotonic() - began < WITHIN_S + 0.35
    ends = time.monotonic() + 10
    while not (await decide_async(LIMITS, CALL, store)).allowed:
        assert time.monotonic() < ends
    server.kill()
    assert (await decide_async(LIMITS, CALL, store)).reason == "store-unavailable"
    await store.close()


def test_an_event_loop_is_denied_in_time_too(server: Server) -> None:  # noqa: F811
    asyncio.run(_stopped_in_a_loop(server))


def test_no_server_at_all_denies_in_time(tmp_path: Any) -> None:
    for url in (f"unix://{tmp_path}/none.sock", "redis://127.0.0.1:1/0", f"postgresql://u@/d?host={tmp_path}"):
        store = open_store(url, within_s=WITHIN_S)
        denied_in_time(store)
        store.close()


def test_laws_in_a_schema_of_the_url_are_those_that_workers_ask_whatever_else_has_their_tables_name() -> None:
    import psycopg

    with postgres() as url:
        mine = f"{url}&options=-csearch_path%3Dguards"
        with psycopg.connect(url, autocommit=True) as db:
            db.execute("CREATE SCHEMA guards")
        with contextlib.closing(open_store(mine)) as store:
            store.prepare()
            assert decide(LIMITS, CALL, store).allowed
        with psycopg.connect(mine, autocommit=True) as db:
            tables = "SELECT count(*) FROM pg_tables WHERE schemaname = 'guards' AND tablename = 'drillmaster_quota'"
            assert db.execute(tables).fetchone() == (1,)
            pinned = "SELECT count(*) FROM pg_proc WHERE proname LIKE 'drillmaster%' AND proconfig IS NULL"
            assert db.execute(pinned).fetchone() == (0,)
