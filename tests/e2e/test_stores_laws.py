"""One law, four carriers: Python, SQLite, PostgreSQL and Redis tell the same at each step."""

import itertools
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import drillmaster.rules
from drillmaster.rules.quota import LAW, Limit, Take
from drillmaster.stores.postgresql import PostgreSQLStore
from drillmaster.stores.redis import RedisStore
from drillmaster.stores.sqlite import SQLiteStore
from tests.e2e.pglab import postgres
from tests.e2e.redislab import redis_server

pytestmark = [pytest.mark.e2e, pytest.mark.needs("postgres"), pytest.mark.needs("redis-server")]

T0 = 10**15
CASES = json.loads((Path(drillmaster.rules.__file__).parent / "_cases" / "quota.json").read_bytes())["cases"]
Carrier = Callable[[str, Take, int], Any]
KEYS = itertools.count()


@pytest.fixture(scope="module")
def carriers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Carrier]]:
    path = tmp_path_factory.mktemp("quota") / "quota.db"
    with postgres() as url, redis_server("--save", "", "--appendonly", "no") as server:
        stores: dict[str, Any] = {
            "sqlite": SQLiteStore(str(path), within_s=5),
            "postgresql": PostgreSQLStore(url, within_s=5),
            "redis": RedisStore(server.url, within_s=5),
        }
        for store in stores.values():
            store.prepare()
            store.prepare()  # once more does no harm
        states: dict[str, Any] = {}

        def in_python(key: str, asked: Take, now_us: int) -> Any:
            then = LAW.step(states.get(key), asked, now_us)
            states[key] = then.state
            return then.told

        def carrier(store: Any) -> Carrier:
            return lambda key, asked, now_us: store.ask(LAW, key, asked, now_us=now_us)

        yield {"python": in_python} | {name: carrier(store) for name, store in stores.items()}
        for store in stores.values():
            store.close()


@pytest.mark.parametrize("case", CASES, ids=lambda case: str(case["name"]))
def test_each_carrier_is_as_the_table_says(carriers: dict[str, Carrier], case: dict[str, Any]) -> None:
    for name, carrier in carriers.items():
        key = f"case {next(KEYS)}"
        for n, step in enumerate(case["steps"]):
            told = carrier(key, msgspec.convert(step["ask"], Take), step["at_us"])
            assert msgspec.to_builtins(told) == step["told"], (name, n)


@st.composite
def questions(draw: st.DrawFn) -> Take:
    names = draw(st.lists(st.sampled_from(["requests", "tokens", "day"]), min_size=1, max_size=3, unique=True))
    limits = []
    for name in names:
        cap = draw(st.one_of(st.integers(1, 12), st.integers(995, 1_005), st.sampled_from([90_000_000, 89_999_999, 7])))
        burst = draw(st.one_of(st.integers(1, cap), st.just(cap)))
        window_us = draw(st.one_of(st.integers(1, 50), st.sampled_from([60_000_000, 59_999_999, 31 * 86_400_000_000])))
        cost = draw(st.one_of(st.integers(1, 5), st.sampled_from([1, burst, burst + 1, cap, 2**53 - 1])))
        limits.append(Limit(name=name, cost=cost, window_us=window_us, cap=cap, burst=burst))
    return Take(tuple(limits))


GAPS = st.one_of(
    st.just(0),
    st.integers(-40, 60),
    st.sampled_from([60_000_000, 59_999_999, -60_000_000, 31 * 86_400_000_000 // 1_000]),
)


@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)
@given(calls=st.lists(st.tuples(GAPS, questions()), min_size=1, max_size=14))
def test_all_four_tell_the_same_whatever_is_asked(carriers: dict[str, Carrier], calls: list[tuple[int, Take]]) -> None:
    key = f"random {next(KEYS)} “{{}}' \n"
    now_us = T0
    for gap, asked in calls:
        now_us += gap
        told = {name: carrier(key, asked, now_us) for name, carrier in carriers.items()}
        assert len({str(one) for one in told.values()}) == 1, told


@settings(
    max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)
@given(
    gaps=st.lists(st.tuples(st.integers(0, 3), st.integers(1, 3)), min_size=20, max_size=60),
    cap=st.integers(1, 9),
    burst=st.integers(1, 9),
)
def test_one_set_of_limits_asked_often(
    carriers: dict[str, Carrier], gaps: list[tuple[int, int]], cap: int, burst: int
) -> None:
    key, now_us = f"often {next(KEYS)}", T0
    granted: list[tuple[int, int]] = []
    for gap, cost in gaps:
        now_us += gap
        asked = Take((Limit(name="requests", cost=cost, window_us=20, cap=cap, burst=min(cap, burst)),))
        told = {name: carrier(key, asked, now_us) for name, carrier in carriers.items()}
        assert len({str(one) for one in told.values()}) == 1, told
        if told["python"].allowed:
            granted.append((now_us, cost))
            assert sum(c for at, c in granted if at > now_us - 20) <= cap


def test_a_bucket_is_told_from_one_whose_name_only_looks_like_it(carriers: dict[str, Carrier]) -> None:
    one = Take((Limit(name="requests", cost=1, window_us=60_000_000, cap=1, burst=1),))
    for name, carrier in carriers.items():
        keys = [f"a{next(KEYS)}" + tail for tail in ("", "}:requests", ":more", "{=a}", " ", "\t", "é", "é")]
        assert all(carrier(key, one, T0).allowed for key in keys), name
        assert not any(carrier(key, one, T0).allowed for key in keys), name
