"""The law of a lease: one holder, tokens that increase, deadlines that are reset and never added to."""

import json
from importlib.resources import files
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from drillmaster.rules.lease import ACTIONS, MOST_TTL_US, REASONS, Held, LeaseAsk, lease

CASES = json.loads(files("drillmaster.rules").joinpath("_cases/lease.json").read_text(encoding="utf-8"))["cases"]
S = 10**6


def ask(action: str = "acquire", holder: str = "a1", token: Any = None, **more: Any) -> LeaseAsk:
    return LeaseAsk(
        **{"action": action, "holder": holder, "by": "worker-a", "token": token, "ttl_us": S, "permitted": True, **more}
    )


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
def test_the_table_of_cases_holds(case: dict[str, Any]) -> None:
    held: Held | None = None
    for step in case["steps"]:
        then = lease(held, msgspec.convert(step["ask"], LeaseAsk), step["at_us"])
        assert msgspec.to_builtins(then.told) == step["told"]
        assert then.keep_us is None
        held = then.state


def test_the_table_tells_each_reason_and_asks_each_action() -> None:
    steps = [step for case in CASES for step in case["steps"]]
    assert {step["told"]["reason"] for step in steps} == set(REASONS)
    assert {step["ask"]["action"] for step in steps} == set(ACTIONS)
    assert len({case["name"] for case in CASES}) == len(CASES)


@pytest.mark.parametrize(
    "wrong",
    [
        {"action": "extend"}, {"action": "ACQUIRE"}, {"action": None}, {"action": "renew"}, {"token": 5},
        {"action": "renew", "token": 0}, {"action": "renew", "token": 2**63}, {"action": "renew", "token": "5"},
        {"action": "renew", "token": True}, {"holder": ""}, {"holder": "a\n"}, {"holder": None}, {"holder": "x" * 201},
        {"by": "\x00"}, {"by": "\u202e"}, {"by": "\ud800"}, {"by": 5},
        {"permitted": False}, {"permitted": None}, {"permitted": 1},
        {"ttl_us": 0}, {"ttl_us": -60 * S}, {"ttl_us": float("nan")}, {"ttl_us": 1.5}, {"ttl_us": True},
        {"ttl_us": MOST_TTL_US + 1},
    ],
)  # fmt: skip  # one case a piece
def test_a_question_that_is_none_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"one of|names|a token|a ttl|permitted"):
        ask(**wrong)


@pytest.mark.parametrize("now_us", [0, -(10**9) * S, float("nan"), 1.5, True, None, "1"])
def test_a_time_that_is_none_is_refused(now_us: Any) -> None:
    with pytest.raises(ValueError, match="a time"):
        lease(None, ask(), now_us)


QUESTIONS = st.lists(
    st.tuples(
        st.sampled_from(ACTIONS),
        st.sampled_from("abcd"),
        st.integers(-S // 2, S),  # how far the clock went since the last question
        st.integers(0, 3),  # which of the tokens that were given, from the latest
    ),
    max_size=60,
)


@given(QUESTIONS)
def test_tokens_increase_and_nobody_holds_beside_another(questions: list[tuple[str, str, int, int]]) -> None:
    held: Held | None = None
    now_us, seen_us, tokens = 10 * S, 0, [1]
    owner: tuple[str, int] | None = None  # who was told to hold it, and until when
    for action, holder, gap_us, back in questions:
        now_us += gap_us
        seen_us = max(seen_us, now_us) if held is not None else now_us
        token = None if action == "acquire" else tokens[-1 - min(back, len(tokens) - 1)]
        then = lease(held, ask(action, holder, token), max(1, now_us))
        held, told = then.state, then.told
        if told.allowed and told.reason in ("granted", "stolen") and told.token not in tokens:
            assert told.token is not None and told.token > tokens[-1]
            tokens.append(told.token)
            if action == "acquire" and owner is not None:
                assert owner[1] <= seen_us, "granted while somebody else held it"
        if told.token is not None:
            assert told.token == tokens[-1] and told.left_us is not None and 0 < told.left_us <= S
            owner = holder, seen_us + told.left_us
        elif told.reason == "released":
            owner = None
        if told.reason == "renewed":
            assert told.left_us == S
        if not told.allowed:
            assert told.token is None


@given(QUESTIONS, st.integers(0, S))
def test_a_store_that_lost_its_memory_gives_higher_tokens_all_the_same(
    questions: list[tuple[str, str, int, int]], gap_us: int
) -> None:
    held: Held | None = None
    now_us, latest = 10 * S, 0
    for n, (_, holder, more_us, _) in enumerate(questions):
        now_us += abs(more_us)
        then = lease(held, ask("acquire", f"{holder}{n}"), now_us)
        held, latest = then.state, max(latest, then.told.token or 0)
    # Each grant moves a token past the time by one at most, so a moment later the time alone is enough.
    told = lease(None, ask("acquire", "z"), now_us + len(questions) + gap_us).told
    assert told.token is not None and (told.token > latest or not questions)
