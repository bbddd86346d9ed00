"""The law of calls that are kept for later: handed out at their time, to one worker at once."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drillmaster.rules.later import LAW, MOST_NAMES, Kept, Word, answer
from tests.rules.lawcases import cases, steps


@pytest.mark.parametrize(("name", "case"), cases(LAW), ids=lambda one: one[:60] if isinstance(one, str) else "")
def test_the_table_holds(name: str, case: list[Any]) -> None:
    assert steps(LAW, [(now, ask) for now, ask, _ in case]) == [want for _, _, want in case]


@pytest.mark.parametrize(
    "wrong",
    [
        {"what": "look"}, {"name": ""}, {"name": "a b"}, {"name": "ä"}, {"name": "x" * 201}, {"name": "a\n"}, {"name": None},
        {"span_us": -1}, {"span_us": 1.5}, {"span_us": True}, {"span_us": 2**52}, {"nth": -1}, {"nth": "1"},
        {"what": "claim", "span_us": 5}, {"what": "claim", "name": "", "span_us": 0},
    ],
)  # fmt: skip  # one case a piece
def test_a_question_that_is_none_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"whole numbers|put, claim|a name|a claim|a span"):
        Word(**{"what": "put", "name": "j", "span_us": 0, "nth": 0, **wrong})


def test_a_full_queue_refuses_and_says_so() -> None:
    full = Kept({f"j{n}": (n, 1) for n in range(MOST_NAMES)})
    assert not answer(full, Word(what="put", name="new"), 0).told.allowed
    assert answer(full, Word(what="put", name="j7"), 0).told.allowed
    after = answer(full, Word(what="finish", name="j7", nth=1), 0).state
    assert answer(after, Word(what="put", name="new"), 0).told.allowed


@given(
    st.lists(
        st.tuples(
            st.integers(0, 30),
            st.sampled_from(["put", "claim", "claim", "finish"]),
            st.sampled_from("xyz"),
            st.integers(0, 90),
        ),
        max_size=80,
    )
)
def test_nothing_comes_early_twice_at_once_or_gets_lost(moves: list[tuple[int, Any, str, int]]) -> None:
    state: Kept | None = None
    now_us = 0
    due: dict[str, int] = {}
    numbers: dict[str, int] = {}
    for gap, what, name, span in moves:
        now_us += gap
        nth = numbers.get(name, 0)
        ask = {
            "put": Word(what="put", name=name, span_us=span),
            "claim": Word(what="claim", span_us=20),
            "finish": Word(what="finish", name=name, nth=nth),
        }[what]
        then = answer(state, ask, now_us)
        state, told = then.state, then.told
        if what == "put":
            assert told.allowed
            due[name] = max(due.get(name, 0), now_us + span)
            numbers[name] = told.nth
        elif what == "claim" and told.allowed:
            assert due[told.name] <= now_us and due[told.name] == min(due.values())
            due[told.name], numbers[told.name] = now_us + 20, told.nth
        elif what == "claim":
            assert told.wait_us == (min(due.values()) - now_us if due else None)
        else:
            assert told.allowed == (name in due)
            due.pop(name, None)
            numbers.pop(name, None)
        assert set(state.names if state else ()) == set(due)
