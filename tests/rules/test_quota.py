"""The law of a quota: exact in any window, spaced at once, several limits in one step."""

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

import drillmaster.rules
from drillmaster.rules import Step
from drillmaster.rules.quota import LAW, Granted, Limit, Spending, Take, take

S = 10**6
Limits = tuple[int, int, int]
LIMITS: Limits = (60 * S, 30, 5)  # window_us, cap, burst
CASES = json.loads((Path(drillmaster.rules.__file__).parent / "_cases" / "quota.json").read_bytes())["cases"]


def limit(cost: Any, limits: Limits = LIMITS, name: str = "requests") -> Limit:
    window_us, cap, burst = limits
    return Limit(name=name, cost=cost, window_us=window_us, cap=cap, burst=burst)


def taken(spent: dict[str, Spending] | None, cost: Any, limits: Limits, now_us: Any) -> Step[Any, Granted]:
    return take(spent, Take((limit(cost, limits),)), now_us)


def played(calls: list[tuple[int, int]], limits: Limits = LIMITS) -> list[Granted]:
    spent: dict[str, Spending] | None = None
    told = []
    for now_us, cost in calls:
        step = taken(spent, cost, limits, now_us)
        spent = step.state
        told.append(step.told)
    return told


@pytest.mark.parametrize("case", CASES, ids=lambda case: str(case["name"]))
def test_the_step_is_as_the_table_says(case: dict[str, Any]) -> None:
    state = None
    for step in case["steps"]:
        then = LAW.step(state, msgspec.convert(step["ask"], Take), step["at_us"])
        assert msgspec.to_builtins(then.told) == step["told"]
        state = then.state


def test_what_was_refused_leaves_the_very_state_so_that_nothing_is_written() -> None:
    assert taken(None, 6, LIMITS, 0).state is None
    after = taken(None, 5, LIMITS, 0).state
    assert taken(after, 1, LIMITS, 1).state is after


def test_a_limit_that_nobody_asks_about_any_more_is_forgotten_and_no_sooner() -> None:
    old = take(None, Take((limit(1, (S, 1, 1), "old"),)), 0).state
    assert old is not None
    until_us = old["old"].until_us
    assert until_us == 2 * S
    assert set(take(old, Take((limit(1),)), until_us - 1).state or {}) == {"old", "requests"}
    assert set(take(old, Take((limit(1),)), until_us).state or {}) == {"requests"}


def test_state_is_bounded_whatever_the_cap() -> None:
    spent: dict[str, Spending] | None = None
    limits = (60 * S, 90_000_000, 90_000_000)
    for n in range(3_000):
        spent = taken(spent, 1, limits, n * 25_000).state
    assert spent is not None and len(spent["requests"].granted) <= 1_001


@pytest.mark.parametrize(
    "wrong",
    [
        {"cap": 0}, {"cap": -1}, {"burst": 0}, {"burst": 31}, {"window_us": 0}, {"window_us": -1}, {"cap": float("nan")},
        {"cap": "30"}, {"burst": True}, {"window_us": 1.5}, {"cap": None}, {"cost": 0}, {"cost": -5}, {"cost": 1.5}, {"cost": "1"},
        {"cost": True}, {"cost": 2**53}, {"cap": 90_000_001}, {"window_us": 31 * 86_400 * S + 1}, {"name": ""}, {"name": "a,b"},
        {"name": "a;b"}, {"name": "A"}, {"name": None},
    ],
)  # fmt: skip  # one case a piece
def test_limits_that_are_none_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"whole numbers|a cost|a window|a name"):
        Limit(**{"name": "requests", "cost": 1, "window_us": 60 * S, "cap": 30, "burst": 5, **wrong})


@pytest.mark.parametrize("limits", [(), (limit(1), limit(1)), tuple(limit(1, name=f"n{n}") for n in range(17))])
def test_no_limits_too_many_and_one_twice_are_no_question(limits: tuple[Limit, ...]) -> None:
    with pytest.raises(ValueError, match="limit"):
        Take(limits)


@pytest.mark.parametrize("now_us", [float("nan"), None, 1.0, "0", True])
def test_a_time_that_is_none_is_refused(now_us: Any) -> None:
    with pytest.raises(ValueError, match="a time"):
        taken(None, 1, LIMITS, now_us)


@given(
    gaps=st.lists(st.tuples(st.integers(0, 7 * S), st.integers(1, 4)), max_size=120),
    cap=st.integers(1, 12),
    burst=st.integers(1, 12),
)
def test_in_any_window_at_most_the_cap_and_at_once_at_most_the_burst(
    gaps: list[tuple[int, int]], cap: int, burst: int
) -> None:
    limits = (20 * S, cap, min(cap, burst))
    calls, now_us = [], 0
    for gap, cost in gaps:
        now_us += gap
        calls.append((now_us, cost))
    granted = [(now, cost) for (now, cost), one in zip(calls, played(calls, limits), strict=True) if one.allowed]
    for start, _ in granted:
        assert sum(cost for now, cost in granted if start <= now < start + limits[0]) <= cap
        assert sum(cost for now, cost in granted if now == start) <= limits[2]


@given(
    calls=st.lists(st.tuples(st.integers(0, 7 * S), st.integers(1, 3), st.integers(1, 12)), max_size=80),
)
def test_whatever_the_cap_was_before_no_window_holds_more_than_the_cap_that_is_asked_about(
    calls: list[tuple[int, int, int]],
) -> None:
    spent: dict[str, Spending] | None = None
    granted: list[tuple[int, int]] = []
    now_us = 0
    for gap, cost, cap in calls:
        now_us += gap
        step = taken(spent, cost, (20 * S, cap, cap), now_us)
        spent = step.state
        if step.told.allowed:
            granted.append((now_us, cost))
            assert sum(c for at, c in granted if at > now_us - 20 * S) <= cap


@given(
    gaps=st.lists(st.tuples(st.integers(0, 7 * S), st.integers(1, 4)), max_size=60),
    cap=st.integers(4, 12),
    burst=st.integers(4, 12),
)
def test_the_wait_that_is_told_is_enough_and_a_moment_less_is_not(
    gaps: list[tuple[int, int]], cap: int, burst: int
) -> None:
    limits = (20 * S, cap, min(cap, burst))
    spent: dict[str, Spending] | None = None
    now_us = 0
    for gap, cost in gaps:
        now_us += gap
        step = taken(spent, cost, limits, now_us)
        spent = step.state
        if not step.told.allowed:
            assert step.told.wait_us is not None and step.told.wait_us > 0
            assert taken(spent, cost, limits, now_us + step.told.wait_us).told.allowed
            assert not taken(spent, cost, limits, now_us + step.told.wait_us - 1).told.allowed


@given(
    calls=st.lists(st.tuples(st.integers(0, 3 * S), st.integers(1, 3), st.booleans()), max_size=60),
)
def test_a_limit_below_can_only_make_it_less(calls: list[tuple[int, int, bool]]) -> None:
    above, below = (20 * S, 9, 5), (20 * S, 4, 3)
    both: dict[str, Spending] | None = None
    now_us, granted = 0, []
    for gap, cost, narrowed in calls:
        now_us += gap
        limits = (limit(cost, above), *((limit(cost, below, "below"),) if narrowed else ()))
        alone = take(both, Take(limits[:1]), now_us).told
        step = take(both, Take(limits), now_us)
        both = step.state
        assert alone.allowed or not step.told.allowed
        if step.told.allowed:
            granted.append((now_us, cost, narrowed))
            assert sum(c for at, c, _ in granted if at > now_us - 20 * S) <= 9
            assert sum(c for at, c, n in granted if n and at > now_us - 20 * S) <= 4
