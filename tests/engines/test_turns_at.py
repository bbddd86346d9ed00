"""How long the turns are in which an engine was at 99 % of all moments."""

from array import array

import pytest

from drillmaster.engines.http import LONG_TURN_NS, turn_at

MS = 1_000_000


@pytest.mark.parametrize(
    ("turns_ms", "wall_s", "found_ms"),
    [
        ([], 10, 1),  # no long ones: at most what is not kept
        ([50], 10, 1),  # half a percent of the time
        ([150], 10, 150),
        ([60, 30, 20], 10, 20),  # 110 ms of 10 s: the last of them is where 1 % is over
        ([5] * 30, 10, 5),
        ([40, 2, 2], 4, 2),
    ],
)
def test_moments_are_counted_and_not_turns(turns_ms: list[int], wall_s: float, found_ms: float) -> None:
    turns = array("q", [ms * MS for ms in turns_ms])
    assert turn_at(0.99, turns, round(wall_s * 1e9)) == found_ms * MS
    assert LONG_TURN_NS == MS
