"""What a master and its workers compare before anything is sent."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drillmaster.adapters.drill.meeting import Clocks, parse_address, versions, wrong_versions
from drillmaster.errors import Problem

MS = 1_000_000


def related(*rounds: tuple[int, int, int]) -> tuple[int, int]:
    clocks = Clocks()
    for one in rounds:
        clocks.heard(*one)
    found = clocks.relation
    assert found is not None
    return found.offset_ns, found.bound_ns


def test_nothing_that_came_back_relates_nothing() -> None:
    assert Clocks().relation is None


def test_one_round_trip_bounds_the_offset_by_half_of_it() -> None:
    assert related((0, 1_000 * MS + 5 * MS, 10 * MS)) == (1_000 * MS, 5 * MS)


def test_round_trips_of_any_length_narrow_it_together() -> None:
    # The way there took all of the first, the way back all of the second: between them the offset is known.
    assert related((0, 110 * MS, 10 * MS), (20 * MS, 120 * MS, 30 * MS)) == (100 * MS, 0)


def test_a_clock_that_was_set_in_between_is_believed_as_it_is_now() -> None:
    assert related((0, 105 * MS, 10 * MS), (20 * MS, 1_025 * MS, 30 * MS)) == (1_000 * MS, 5 * MS)


@given(
    offset=st.integers(-(10**15), 10**15),
    ways=st.lists(st.tuples(st.integers(0, 10**8), st.integers(0, 10**8)), min_size=1, max_size=40),
)
def test_the_truth_is_within_the_bound_however_unlike_the_two_ways_are(
    offset: int, ways: list[tuple[int, int]]
) -> None:
    clocks, now_ns = Clocks(), 0
    for there_ns, back_ns in ways:
        clocks.heard(now_ns, now_ns + there_ns + offset, now_ns + there_ns + back_ns)
        now_ns += 10**9
    found = clocks.relation
    assert found is not None
    assert abs(found.offset_ns - offset) <= found.bound_ns + 1
    assert found.bound_ns <= min(there + back for there, back in ways) // 2 + 1


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("127.0.0.1:5557", ("127.0.0.1", 5557)),
        ("load.example.com", ("load.example.com", 5557)),
        ("[2001:db8::7]:99", ("2001:db8::7", 99)),
        ("2001:db8::7", ("2001:db8::7", 5557)),
        ("[2001:db8::7]", ("2001:db8::7", 5557)),
        ("127.0.0.1:0", ("127.0.0.1", 0)),
    ],
)
def test_an_address_is_read(text: str, want: tuple[str, int]) -> None:
    assert parse_address(text, place="--master") == want


@pytest.mark.parametrize("text", ["", ":5557", "host:", "host:port", "host:70000", "host:-1", "host:٣"])
def test_what_is_no_address_is_refused(text: str) -> None:
    with pytest.raises(Problem, match="HOST:PORT"):
        parse_address(text, place="--master")


def test_versions_name_what_differs_first() -> None:
    ours = versions()
    assert wrong_versions(ours, dict(ours)) is None
    assert wrong_versions(ours, ours | {"code": "x"}) == ("code", ours["code"], "x")
    assert wrong_versions(ours, {"drillmaster": ours["drillmaster"]}) == ("locust", ours["locust"], "none")
