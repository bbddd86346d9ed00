"""The law of a retry budget: tokens that retries take, and good calls give back."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drillmaster.rules.retry_budget import LAW, Draw, draw
from tests.rules.lawcases import cases, steps


@pytest.mark.parametrize(("name", "case"), cases(LAW), ids=lambda one: one[:60] if isinstance(one, str) else "")
def test_the_table_holds(name: str, case: list[Any]) -> None:
    assert steps(LAW, [(now, ask) for now, ask, _ in case]) == [want for _, _, want in case]


@pytest.mark.parametrize(
    "wrong",
    [
        {"take_milli": -1}, {"take_milli": 1.0}, {"take_milli": True}, {"take_milli": "1000"}, {"take_milli": 10**9 + 1},
        {"give_milli": -1, "mark": "m"}, {"give_milli": 1}, {"mark": "m"}, {"give_milli": 1, "mark": "a b"},
        {"give_milli": 1, "mark": "x" * 41}, {"give_milli": 1, "mark": "ä"}, {"give_milli": 1, "mark": None},
        {"full_milli": 0}, {"full_milli": None}, {"full_milli": 10**9 + 1}, {"full_milli": float("nan")},
    ],
)  # fmt: skip  # one case a piece
def test_a_question_that_is_none_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"whole numbers|thousandths|a mark"):
        Draw(**{"take_milli": 1_000, "give_milli": 0, "full_milli": 3_000, **wrong})


def test_a_time_that_is_none_is_refused() -> None:
    with pytest.raises(ValueError, match="a time"):
        draw(None, Draw(take_milli=1, give_milli=0, full_milli=1), 1.5)  # type: ignore[arg-type]  # that is the case


@given(st.lists(st.tuples(st.booleans(), st.integers(1, 2_000), st.booleans()), max_size=120))
def test_retries_are_at_most_the_bucket_and_what_good_calls_earned(moves: list[tuple[bool, int, bool]]) -> None:
    full, taken, given_back = 5_000, 0, 0
    questions = []
    for n, (takes, gives, twice) in enumerate(moves):
        ask = (
            Draw(take_milli=1_000, give_milli=0, full_milli=full)
            if takes
            else Draw(take_milli=0, give_milli=gives, full_milli=full, mark=f"m{n}")
        )
        questions += [(0, ask)] * (2 if twice and not takes else 1)
    for (_, ask), told in zip(questions, steps(LAW, questions), strict=True):
        taken += 1_000 if ask.take_milli and told.allowed else 0
        assert 0 <= told.left_milli <= full
    marks = {ask.mark: ask.give_milli for _, ask in questions if ask.mark}
    given_back = sum(marks.values())
    assert taken <= full + given_back
