"""Leases and fences in a real PostgreSQL and a real Redis, beside the law: the table, and random sequences."""

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import settings
from hypothesis.stateful import run_state_machine_as_test

from drillmaster.rules import AnyLaw
from drillmaster.rules.fence import LAW as FENCE
from drillmaster.rules.lease import LAW as LEASE
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
