"""Leases and fences in a real PostgreSQL and a real Redis, beside the law: the table, and random sequences."""

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import settings
from hypothesis.stateful import run_state_machine_as_test

from drillmaster.rules import AnyLaw
from drillmaster.rules.fence import LAW as FENCE
from drillmaster.rules.lease import LAW as LEASE
from drillmaster.rules.lease import LeaseAsk
from drillmaster.stores.carrying import words
from drillmaster.stores.opening import open_store
from drillmaster.stores.redis import RedisStore
from tests.carriers import Carrier, lease_machine, play
from tests.e2e.pglab import postgres
from tests.e2e.redislab import redis_server

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(300)]


@pytest.fixture(
    scope="module",
    params=[
        pytest.param("postgresql", marks=pytest.mark.needs("postgres")),
        pytest.param("redis", marks=pytest.mark.needs("redis-server")),
    ],
)
def carrier(request: pytest.FixtureRequest) -> Iterator[Carrier]:
    if request.param == "redis":
        with redis_server() as server:
            store = RedisStore(server.url, within_s=5)
            store.prepare()
            yield lambda law, key, question, now_us: store.ask(law, key, question, now_us=now_us)
            store.close()
        return
    import psycopg

    with postgres() as url:
        open_store(url).prepare()
        with psycopg.connect(url, autocommit=True) as db:

            def ask(law: AnyLaw, key: str, question: Any, now_us: int) -> Any:
                marks = ", ".join(["%s"] * (len(law.asked.__struct_fields__) + 2))
                said = [key, *words(question), now_us]
                row = db.execute(f"SELECT * FROM drillmaster_{law.name}({marks})".encode(), said).fetchone()
                assert row is not None
                return law.told(**dict(zip(law.told.__struct_fields__, row, strict=True)))

            yield ask


@pytest.mark.parametrize("law", [LEASE, FENCE], ids=lambda law: law.name)
def test_the_table_of_cases_holds(carrier: Carrier, law: AnyLaw) -> None:
    play(carrier, law)


def test_random_sequences_are_told_what_the_law_tells(carrier: Carrier) -> None:
    run_state_machine_as_test(
        lease_machine(carrier), settings=settings(max_examples=40, stateful_step_count=40, deadline=None, database=None)
    )


@pytest.mark.needs("postgres")
def test_the_log_of_postgresql_keeps_the_latest_million() -> None:
    import psycopg

    with postgres() as url:
        store = open_store(url, within_s=5)
        store.prepare()
        with psycopg.connect(url, autocommit=True) as db:
            for n in range(6):
                store.ask(LEASE, f"old {n}", asked(f"h{n}"))
            db.execute("SELECT setval(pg_get_serial_sequence('drillmaster_lease_log', 'n'), 1000004)")
            for n in range(3):
                store.ask(LEASE, f"new {n}", asked(f"h{n}"))
            keys = [key for (key,) in db.execute("SELECT key FROM drillmaster_lease_log ORDER BY n").fetchall()]
        store.close()
    assert keys == ["new 0", "new 1", "new 2"]  # two old ones went with each


@pytest.mark.needs("redis-server")
def test_the_log_of_redis_keeps_some_ten_thousand_for_each_lease() -> None:
    import redis

    with redis_server("--save", "", "--appendonly", "no") as server:
        store = RedisStore(server.url, within_s=5)
        store.prepare()
        for n in range(10_500):
            store.ask(LEASE, "one", asked(f"h{n}"))
        with redis.Redis.from_url(server.url) as client:
            assert 10_000 <= client.xlen("drillmaster:lease:{=one}:more") <= 10_200
        store.close()


def asked(holder: str) -> LeaseAsk:
    return LeaseAsk(action="acquire", holder=holder, by="w", token=None, ttl_us=60_000_000, permitted=True)
