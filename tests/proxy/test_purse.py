"""What may be spent: never a request too many, and as few tokens too many as can be known."""

import os
import tempfile

from hypothesis import given
from hypothesis import strategies as st

from drillmaster.proxy.purse import LEDGER_BYTES, Ledger, Purse


def test_requests_are_counted_as_they_begin() -> None:
    purse = Purse(2, None)
    assert [purse.begin() for _ in range(4)] == [True, True, False, False]
    purse.end(5)
    assert not purse.begin()  # an answer gives nothing back
    assert (purse.requests, purse.refused, purse.tokens) == (2, 3, 5)


@given(costs=st.lists(st.integers(0, 50), min_size=1, max_size=60), at_once=st.integers(1, 8), cap=st.integers(1, 400))
def test_tokens_are_passed_by_no_more_than_what_was_under_way_and_dearer_than_all_before(
    costs: list[int], at_once: int, cap: int
) -> None:
    purse = Purse(None, cap)
    under_way: list[int] = []
    begun = 0
    for cost in costs:
        if len(under_way) == at_once:
            purse.end(under_way.pop(0))
        if not purse.begin():
            break
        begun += 1
        under_way.append(cost)
    while under_way:
        purse.end(under_way.pop(0))
    assert purse.requests == begun
    if begun:
        assert purse.tokens < cap + at_once * max(costs[:begun])


def test_one_at_a_time_of_one_price_stays_under_a_cap_and_its_last_answer() -> None:
    purse = Purse(None, 100)
    served = 0
    while purse.begin():
        purse.end(30)
        served += 1
    assert (served, purse.tokens) == (4, 120)


def test_whoever_takes_over_goes_on_with_what_was_spent() -> None:
    with tempfile.TemporaryFile() as file:
        file.truncate(LEDGER_BYTES)
        first = Purse(4, 100, Ledger(os.dup(file.fileno())))
        assert all(first.begin() for _ in range(3))
        first.end(30)  # and two are under way when it is killed, each worth as much as far as anybody knows
        second = Purse(4, 100, Ledger(os.dup(file.fileno())))
        assert (second.requests, second.tokens) == (3, 90)
        assert second.begin()
        second.end(1)
        third = Purse(4, 100, Ledger(os.dup(file.fileno())))
        assert not third.begin()
        assert (third.requests, third.tokens) == (4, 91)
