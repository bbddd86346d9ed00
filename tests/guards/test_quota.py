"""May a partner be called once more: the guard over the law, and its buckets."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from drillmaster.guards.quota import REASONS, Also, OutboundCall, Quota, bucket

LIMITS = Quota(partner="acme", identity="prod", window_ms=60_000, max_per_window=30, burst=5)


def call(**facts: Any) -> OutboundCall:
    return OutboundCall(**{"partner": "acme", "identity": "prod", **facts})


def reasons(calls: list[tuple[int, OutboundCall]]) -> list[tuple[str, int, int | None]]:
    state, told = None, []
    for now_ms, facts in calls:
        state, decision = LIMITS.step(state, facts, now_ms)
        assert decision.reason in REASONS and decision.allowed == (decision.reason == "within-quota")
        told.append((decision.reason, decision.wait_ms, decision.left))
    return told


def test_the_burst_and_the_cap_are_told_apart() -> None:
    assert reasons([(0, call())] * 6)[-2:] == [("within-quota", 0, 25), ("over-burst", 2_000, 25)]
    steady = [(0, call(requests=5))] + [(n * 2_000, call()) for n in range(1, 26)] + [(50_000, call())]
    assert reasons(steady)[-2:] == [("within-quota", 0, 0), ("over-cap", 10_000, 0)]


@pytest.mark.parametrize(
    ("facts", "reason"),
    [
        ({"requests": 6}, "never"),
        ({"requests": 0}, "facts-unusable"),
        ({"requests": -5}, "facts-unusable"),
        ({"requests": "1"}, "facts-unusable"),
        ({"requests": True}, "facts-unusable"),
        ({"requests": 1.0}, "facts-unusable"),
        ({"requests": float("nan")}, "facts-unusable"),
        ({"requests": 2**60}, "facts-unusable"),
        ({"tokens": 0}, "facts-unusable"),
        ({"tokens": "7"}, "facts-unusable"),
        ({"retry": 1}, "facts-unusable"),
        ({"caller": None}, "facts-unusable"),
        ({"route": "a\0b"}, "facts-unusable"),
        ({"partner": None}, "facts-unusable"),
        ({"identity": "\ud800"}, "facts-unusable"),
        ({"identity": "staging"}, "other-bucket"),
        ({"partner": "Acme"}, "other-bucket"),
        ({"retry": True}, "retries-not-listed"),  # nothing counts retries here
    ],
)
def test_what_cannot_be_granted_says_why_and_takes_nothing(facts: dict[str, Any], reason: str) -> None:
    told = reasons([(0, call(**facts)), (0, call(requests=5))])
    assert told[0][0] == reason
    assert told[1] == ("within-quota", 0, 25)


def narrowed(*also: Also) -> Quota:
    return Quota(partner="acme", identity="prod", window_ms=60_000, max_per_window=30, burst=5, also=also)


def also(name: str, counts: Any = "requests", cap: int = 2, **more: Any) -> Also:
    return Also(**{"name": name, "counts": counts, "window_ms": 60_000, "max_per_window": cap, "burst": cap, **more})


def told_of(guard: Quota, calls: list[OutboundCall], now_ms: int = 0) -> list[tuple[str, str | None]]:
    state, told = None, []
    for facts in calls:
        state, decision = guard.step(state, facts, now_ms)
        assert decision.reason in REASONS
        told.append((decision.reason, decision.limit))
    return told


def test_callers_share_the_partners_bucket_and_each_has_its_own_below() -> None:
    guard = narrowed(also("of-billing", caller="billing"), also("of-search", cap=30, caller="search"))
    billing, search = call(caller="billing"), call(caller="search")
    assert told_of(guard, [billing] * 3) == [("within-quota", "requests")] * 2 + [("over-cap", "of-billing")]
    assert told_of(guard, [billing] * 2 + [search] * 4)[-2:] == [
        ("within-quota", "requests"),
        ("over-burst", "requests"),
    ]


def test_a_caller_or_a_route_that_has_no_limit_where_others_have_is_denied() -> None:
    guard = narrowed(also("of-billing", caller="billing"), also("of-orders", cap=5, route="orders"))
    assert (
        told_of(guard, [call(caller="unheard", route="orders"), call(route="orders")])
        == [("caller-not-listed", None)] * 2
    )
    by_id = [call(caller="billing", route=f"/x?id={n}") for n in range(3)]
    assert told_of(guard, by_id) == [("route-not-listed", None)] * 3
    assert told_of(guard, [call(caller="billing", route="orders")]) == [("within-quota", "requests")]


def test_tokens_are_counted_beside_requests_in_one_step() -> None:
    guard = narrowed(also("tokens", "tokens", cap=1_000))
    assert told_of(guard, [call(tokens=600), call(tokens=600), call(tokens=400)]) == [
        ("within-quota", "requests"),
        ("over-cap", "tokens"),
        ("within-quota", "requests"),
    ]
    assert told_of(guard, [call()]) == [("tokens-unknown", "tokens")]
    assert told_of(guard, [call(tokens=1_001)]) == [("never", "tokens")]


def test_retries_have_a_budget_of_their_own_and_take_from_the_quota_too() -> None:
    guard = narrowed(also("again", "retries", cap=1))
    assert told_of(guard, [call(retry=True)] * 2) == [("within-quota", "requests"), ("over-cap", "again")]
    assert told_of(guard, [call()] * 5 + [call(retry=True)])[-1] == ("over-burst", "requests")
    of_one = narrowed(also("again", "retries", cap=1, caller="billing"), also("all", cap=5, caller="search"))
    assert told_of(of_one, [call(retry=True, caller="search")]) == [("retries-not-listed", None)]


@pytest.mark.parametrize(
    "wrong",
    [
        [{"name": "requests"}], [{"name": "a"}, {"name": "a"}], [{"name": "A"}], [{"name": ""}], [{"counts": "words"}],
        [{"burst": 3}], [{"window_ms": 0}], [{"max_per_window": "2"}], [{"name": f"n{n}"} for n in range(16)],
        [{"why": "a model said so"}],
    ],
)  # fmt: skip  # one case a piece
def test_further_limits_that_are_none_are_refused_where_they_are_read(wrong: list[dict[str, Any]]) -> None:
    whole = [{**msgspec.to_builtins(also("a")), **one} for one in wrong]
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert({**msgspec.to_builtins(LIMITS), "also": whole}, Quota)


@pytest.mark.parametrize(
    "wrong",
    [
        {"burst": 31}, {"burst": 0}, {"max_per_window": 0}, {"window_ms": 0}, {"window_ms": -1}, {"partner": ""}, {"identity": ""},
        {"max_per_window": "30"}, {"window_ms": None}, {"source": "chat"},
    ],
)  # fmt: skip  # one case a piece
def test_limits_that_are_none_are_refused_where_they_are_read(wrong: dict[str, Any]) -> None:
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert({**msgspec.to_builtins(LIMITS), **wrong}, Quota)
    whole = msgspec.to_builtins(LIMITS)
    for name in set(LIMITS.__struct_fields__) - {"also"}:
        with pytest.raises(msgspec.ValidationError):
            msgspec.convert({key: value for key, value in whole.items() if key != name}, Quota)


@pytest.mark.parametrize(
    "wrong",
    [
        {"max_per_window": float("nan")}, {"burst": float("nan")}, {"burst": None}, {"max_per_window": "30"}, {"burst": "10"},
        {"window_ms": 0}, {"window_ms": -1}, {"window_ms": float("inf")}, {"burst": True}, {"max_per_window": 30.0},
        {"identity": ""}, {"partner": None}, {"partner": "a\0b"}, {"max_per_window": 90_000_001},
    ],
)  # fmt: skip  # one case a piece
def test_limits_that_are_none_are_refused_where_they_are_made(wrong: dict[str, Any]) -> None:
    good = {"partner": "acme", "identity": "prod", "window_ms": 60_000, "max_per_window": 30, "burst": 5}
    with pytest.raises(ValueError, match="found"):
        Quota(**{**good, **wrong})


@given(st.tuples(st.text(max_size=6), st.text(max_size=6)), st.tuples(st.text(max_size=6), st.text(max_size=6)))
def test_no_two_buckets_have_one_name(one: tuple[str, str], other: tuple[str, str]) -> None:
    assert (bucket(*one) == bucket(*other)) == (one == other)


def test_names_that_collide_where_they_are_joined_do_not() -> None:
    assert bucket("a|b", "c") != bucket("a", "b|c")
    assert bucket("a/b", "c") != bucket("a", "b/c")
    assert bucket("", "undefined") != bucket("undefined", "")
    assert bucket("1:a", "") != bucket("", "1:a")
