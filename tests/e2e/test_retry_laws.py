"""The laws of retries in SQLite, PostgreSQL and Redis: one table, random questions alike, and many workers at once."""

import contextlib
import random
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from drillmaster.rules import AnyLaw, call_state, later, retry_budget
from drillmaster.rules.call_state import Report
from drillmaster.rules.later import Word
from drillmaster.rules.retry_budget import Draw
from drillmaster.stores import Store
from drillmaster.stores.opening import open_store
from drillmaster.stores.sqlite import SQLiteStore
from tests.e2e.pglab import postgres
from tests.e2e.redislab import redis_server
from tests.rules.lawcases import cases, steps

pytestmark = pytest.mark.e2e

STORES = [
    "sqlite",
    pytest.param("postgresql", marks=pytest.mark.needs("postgres")),
    pytest.param("redis", marks=pytest.mark.needs("redis-server")),
]

LAWS: list[AnyLaw] = [retry_budget.LAW, call_state.LAW, later.LAW]
BASE_US = 2_000_000_000_000_000
"""Past the servers' own time, so that what a case forgets is forgotten by the case's clock."""
Carrier = Callable[[AnyLaw, str, Any, int], Any]


@pytest.fixture(scope="module", params=STORES)
def store(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    if request.param == "sqlite":
        one = open_store(f"sqlite:{tmp_path_factory.mktemp('laws') / 'state.db'}", within_s=20)
        one.prepare()
        yield one
    elif request.param == "postgresql":
        with postgres() as url:
            one = open_store(url, within_s=20)
            one.prepare()
            yield one
    else:
        with redis_server("--save", "", "--appendonly", "no") as server:
            one = open_store(server.url, within_s=20)
            one.prepare()
            yield one
    one.close()


@contextlib.contextmanager
def carrier(store: Store) -> Iterator[Carrier]:
    """Ask with a time of the test's own."""
    if hasattr(store, "_url"):
        import psycopg

        from drillmaster.stores.carrying import Telling, words

        with psycopg.connect(store._url, autocommit=True) as connection:

            def ask(law: AnyLaw, key: str, question: Any, now_us: int) -> Any:
                values = [key, *words(question), str(now_us)]
                marks = ", ".join(["%s"] * len(values))
                row = connection.execute(f"SELECT * FROM drillmaster_{law.name}({marks})", values).fetchone()
                return Telling(law).read(row, "test")

            yield ask
        return
    yield lambda law, key, question, now_us: store.ask(law, key, question, now_us=now_us)  # type: ignore[call-arg]  # both have it


@pytest.mark.parametrize("law", LAWS, ids=lambda law: law.name)
def test_each_carrier_tells_what_the_table_says(store: Store, law: AnyLaw) -> None:
    with carrier(store) as ask:
        for name, case in cases(law):
            told = [ask(law, f"case:{name}", question, now_us) for now_us, question, _ in case]
            assert told == [want for _, _, want in case], name


def made(law: AnyLaw, rng: random.Random) -> Any:
    if law is retry_budget.LAW:
        gives = rng.choice([0, 0, 100, 1_500])
        return Draw(
            take_milli=rng.choice([0, 1_000, 1_000, 700]),
            give_milli=gives,
            full_milli=rng.choice([3_000, 5_000, 10_000]),
            mark=f"m{rng.randrange(60)}" if gives else "",
        )
    if law is call_state.LAW:
        return Report(
            what=rng.choice(["begin", "begin", "wait", "leave", "done"] if rng.random() < 0.9 else ["begin"]),
            holder=rng.choice("ab"),
            hold_us=rng.choice([50, 200]),
            wait_us=rng.choice([0, 30, 300]),
            keep_us=60_000_000,  # Redis forgets by its own clock besides
            most=5,
        )
    what = rng.choice(["put", "claim", "finish"])
    if what == "claim":
        return Word(what="claim", span_us=rng.choice([10, 100]))
    return Word(what=what, name=rng.choice(["a", "b", "C", "-"]), span_us=rng.choice([0, 50]), nth=rng.randrange(6))


@pytest.mark.parametrize("law", LAWS, ids=lambda law: law.name)
def test_each_carrier_tells_what_the_law_does_of_any_questions(store: Store, law: AnyLaw) -> None:
    with carrier(store) as ask:
        for seed in range(12):
            rng = random.Random(seed)
            now_us, questions = BASE_US, []
            for _ in range(60):
                now_us += rng.choice([0, 1, 20, 90, 700, -40, 3_000, 70_000_000])
                questions.append((now_us, made(law, rng)))
            want = steps(law, questions)
            for n, (at_us, question) in enumerate(questions):
                assert ask(law, f"random:{seed}", question, at_us) == want[n], (seed, n, question)


def crowd(store: Store, work: Callable[[int], None], workers: int = 8) -> None:
    threads = [threading.Thread(target=work, args=(n,)) for n in range(workers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive()


def test_many_workers_take_a_budget_once(store: Store) -> None:
    taken: list[bool] = []
    question = Draw(take_milli=1_000, give_milli=0, full_milli=20_000)
    crowd(store, lambda n: [taken.append(store.ask(retry_budget.LAW, "crowd", question).allowed) for _ in range(10)])  # type: ignore[func-returns-value]  # a loop
    assert sum(taken) == 20 and len(taken) == 80


def test_of_many_workers_one_begins_a_call(store: Store) -> None:
    for round_ in range(10):
        told: list[Any] = []
        crowd(
            store,
            lambda n: told.append(  # noqa: B023 - each crowd ends within its round
                store.ask(
                    call_state.LAW,
                    f"crowd:{round_}",  # noqa: B023
                    Report(what="begin", holder=f"h{n}", hold_us=10**8, wait_us=0, keep_us=10**8, most=4),
                )
            ),
        )
        assert sorted(one.why for one in told) == ["begun"] + ["in-flight"] * 7


def test_a_name_is_handed_out_once_until_its_claim_is_over(store: Store) -> None:
    names = [f"job-{n}" for n in range(40)]
    for name in names:
        assert store.ask(later.LAW, "crowd", Word(what="put", name=name)).allowed
    got: list[str] = []

    def work(n: int) -> None:
        while (told := store.ask(later.LAW, "crowd", Word(what="claim", span_us=60_000_000))).allowed:
            got.append(told.name)

    crowd(store, work)
    assert sorted(got) == sorted(names)


def test_a_key_of_a_worker_that_is_gone_comes_free_on_the_stores_clock(store: Store) -> None:
    one = Report(what="begin", holder="gone", hold_us=300_000, wait_us=0, keep_us=10**8, most=4)
    other = Report(what="begin", holder="next", hold_us=300_000, wait_us=0, keep_us=10**8, most=4)
    assert store.ask(call_state.LAW, "expiry", one).allowed
    told = store.ask(call_state.LAW, "expiry", other)
    assert (told.why, told.calls) == ("in-flight", 1) and 0 < told.wait_us <= 300_000
    time.sleep(told.wait_us / 1e6)
    assert store.ask(call_state.LAW, "expiry", other).calls == 2


def test_what_is_kept_survives_the_process(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    first = SQLiteStore(str(path), within_s=5)
    first.prepare()
    first.ask(later.LAW, "q", Word(what="put", name="job-1", span_us=10_000_000))
    first.close()
    second = SQLiteStore(str(path), within_s=5)
    told = second.ask(later.LAW, "q", Word(what="claim", span_us=1))
    assert not told.allowed and 9_000_000 < told.wait_us <= 10_000_000
    second.close()
