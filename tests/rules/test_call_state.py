"""The law of a call that has a key: one holder, calls counted, nobody early."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drillmaster.rules.call_state import LAW, CallState, Held, Report, report
from tests.rules.lawcases import cases, steps

USUAL: dict[str, Any] = {"hold_us": 60, "wait_us": 0, "keep_us": 10_000, "most": 4}


@pytest.mark.parametrize(("name", "case"), cases(LAW), ids=lambda one: one[:60] if isinstance(one, str) else "")
def test_the_table_holds(name: str, case: list[Any]) -> None:
    assert steps(LAW, [(now, ask) for now, ask, _ in case]) == [want for _, _, want in case]


@pytest.mark.parametrize(
    "wrong",
    [
        {"what": "steal"}, {"what": ""}, {"holder": ""}, {"holder": "a b"}, {"holder": "x" * 41}, {"holder": None},
        {"hold_us": 0}, {"hold_us": 1.5}, {"hold_us": 2**52}, {"wait_us": -1}, {"wait_us": True}, {"keep_us": 0},
        {"most": 0}, {"most": 1_001}, {"most": float("nan")}, {"most": None}, {"most": float("inf")},
    ],
)  # fmt: skip  # one case a piece
def test_a_question_that_is_none_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"whole numbers|begin, wait|a holder|0 < hold|calls"):
        Report(**{"what": "begin", "holder": "a", **USUAL, **wrong})


MOVES = st.lists(
    st.tuples(
        st.integers(0, 50),
        st.sampled_from(["a", "b", "c"]),
        st.sampled_from(["begin", "begin", "wait", "leave", "done"]),
        st.integers(0, 200),
    ),
    max_size=60,
)


@given(MOVES)
def test_nobody_holds_a_key_beside_another_or_comes_too_early_or_too_often(
    moves: list[tuple[int, str, Any, int]],
) -> None:
    state: CallState | None = None
    now_us, begun, done = 0, 0, False
    holder, until_us, not_before_us = "", 0, 0
    for gap, who, what, wait_us in moves:
        now_us += gap
        ask = Report(what=what, holder=who, **{**USUAL, "wait_us": wait_us})
        then = report(state, ask, now_us)
        state, told = then.state, then.told
        assert isinstance(told, Held)
        if what == "begin" and told.allowed:
            assert not done
            assert holder in ("", who) or now_us >= until_us
            assert holder == who or now_us >= not_before_us
            begun += 1
            assert told.calls == begun <= 4
            holder, until_us = who, now_us + 60
        elif what == "begin":
            assert told.why in ("done", "in-flight", "spent", "early")
            assert (told.wait_us > 0) == (told.why in ("in-flight", "early"))
        elif told.allowed:
            assert holder == who or (what == "done" and (not holder or now_us >= until_us))
            if what == "done":
                done = True
            else:
                not_before_us = max(not_before_us, now_us + wait_us)
                until_us = max(until_us, not_before_us + 60)
            holder = who if what == "wait" else ""
        else:
            assert told.why == "lost" and holder != who


@given(MOVES)
def test_after_the_wait_that_is_told_the_key_is_free(moves: list[tuple[int, str, Any, int]]) -> None:
    state: CallState | None = None
    now_us = 0
    for gap, who, what, wait_us in moves:
        now_us += gap
        then = report(state, Report(what=what, holder=who, **{**USUAL, "wait_us": wait_us}), now_us)
        state = then.state
        if then.told.wait_us:
            after = report(state, Report(what="begin", holder="z", **USUAL), now_us + then.told.wait_us)
            assert after.told.allowed or after.told.why in ("early", "spent")
