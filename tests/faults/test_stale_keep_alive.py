"""The fault `stale-keep-alive`, played by hand."""

import pytest

from drillmaster.errors import Problem
from drillmaster.faults import make
from tests.faults.stage import Stage


@pytest.mark.parametrize("nth, end", [(1, "returned"), (2, "rst"), (3, "rst")])
def test_it_resets_from_the_second_request_of_a_connection_on(nth: int, end: str) -> None:
    played = Stage().play(make("stale-keep-alive"), nth=nth)
    assert (played.end, played.sent) == (end, b"")


def test_the_number_can_be_chosen() -> None:
    fault = make("stale-keep-alive", {"nth": 5})
    assert [Stage().play(fault, nth=nth).end for nth in (4, 5)] == ["returned", "rst"]


@pytest.mark.parametrize("nth", [1, 0, -2, 2.5, "2", True, 10**9])
def test_nonsense_is_refused_by_the_name_of_its_field(nth: object) -> None:
    with pytest.raises(Problem, match="nth"):
        make("stale-keep-alive", {"nth": nth})
