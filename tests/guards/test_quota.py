"""May a partner be called once more: the guard over the law, and its buckets."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from drillmaster.guards.quota import REASONS, OutboundCall, Quota, bucket

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
    steady = [(0, call(cost=5))] + [(n * 2_000, call()) for n in range(1, 26)] + [(50_000, call())]
    assert reasons(steady)[-2:] == [("within-quota", 0, 0), ("over-cap", 10_000, 0)]


@pytest.mark.parametrize(
    ("facts", "reason"),
    [
        ({"cost": 6}, "never"),
        ({"cost": 0}, "facts-unusable"),
        ({"cost": -5}, "facts-unusable"),
        ({"cost": "1"}, "facts-unusable"),
        ({"cost": True}, "facts-unusable"),
        ({"cost": 1.0}, "facts-unusable"),
        ({"cost": 2**60}, "facts-unusable"),
        ({"identity": "staging"}, "other-bucket"),
        ({"partner": "Acme"}, "other-bucket"),
        ({"partner": None}, "other-bucket"),
    ],
)
def test_what_cannot_be_granted_says_why_and_takes_nothing(facts: dict[str, Any], reason: str) -> None:
    told = reasons([(0, call(**facts)), (0, call(cost=5))])
    assert told[0][0] == reason
    assert told[1] == ("within-quota", 0, 25)


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
    for name in LIMITS.__struct_fields__:
        with pytest.raises(msgspec.ValidationError):
            msgspec.convert({key: value for key, value in whole.items() if key != name}, Quota)


@given(st.tuples(st.text(max_size=6), st.text(max_size=6)), st.tuples(st.text(max_size=6), st.text(max_size=6)))
def test_no_two_buckets_have_one_name(one: tuple[str, str], other: tuple[str, str]) -> None:
    assert (bucket(*one) == bucket(*other)) == (one == other)


def test_names_that_collide_where_they_are_joined_do_not() -> None:
    assert bucket("a|b", "c") != bucket("a", "b|c")
    assert bucket("a/b", "c") != bucket("a", "b/c")
    assert bucket("", "undefined") != bucket("undefined", "")
    assert bucket("1:a", "") != bucket("", "1:a")
