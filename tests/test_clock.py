from datetime import datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drillmaster.clock import ManualClock, parse_rfc3339, rfc3339


@pytest.mark.parametrize(
    "text",
    [
        "",
        "yesterday",
        "2026-11-29",
        "2026-11-29T15:30:00",  # no zone
        "2026-11-29T15:30:00.5",
        "2026-13-01T00:00:00Z",
        "2026-02-30T00:00:00Z",
        "2026-11-29T24:00:00Z",
        "2026-11-29T15:30:61Z",
        "2026-11-29T15:30:00+25:00",
        "2026-11-29T15:30:00+01:60",
        "1969-12-31T23:59:59Z",
        "2200-01-01T00:00:00Z",
        "٢٠٢٦-11-29T15:30:00Z",  # digits, but not these
        "2026-11-29T15:30:00Z\n",
        "1796000000",
    ],
)
def test_what_is_no_time_with_a_zone_is_none(text: str) -> None:
    assert parse_rfc3339(text) is None


@pytest.mark.parametrize(
    ("text", "like"),
    [
        ("2026-11-29T15:30:00Z", "2026-11-29T15:30:00+00:00"),
        ("2026-11-29 15:30:00z", "2026-11-29T15:30:00+00:00"),
        ("2026-11-29T15:30:00.25+01:30", "2026-11-29T15:30:00.250000+01:30"),
        ("2026-11-29T15:30:00-05:00", "2026-11-29T15:30:00-05:00"),
        ("2026-12-31T23:59:60Z", "2027-01-01T00:00:00+00:00"),  # a leap second is the one after
    ],
)
def test_a_time_with_a_zone_is_its_instant(text: str, like: str) -> None:
    assert parse_rfc3339(text) == round(datetime.fromisoformat(like).timestamp() * 1e6) * 1000


def test_digits_past_the_ninth_are_dropped() -> None:
    first, second = parse_rfc3339("2026-11-29T15:30:00.1234567891234Z"), parse_rfc3339("2026-11-29T15:30:00Z")
    assert first is not None
    assert second is not None
    assert first - second == 123_456_789


@given(st.integers(0, 7_258_118_399 * 10**9))
def test_what_is_written_is_read(wall_ns: int) -> None:
    assert parse_rfc3339(rfc3339(wall_ns, digits=9)) == wall_ns
    assert parse_rfc3339(rfc3339(wall_ns, digits=3)) == wall_ns // 10**6 * 10**6
    assert parse_rfc3339(rfc3339(wall_ns, digits=0)) == wall_ns // 10**9 * 10**9


def test_a_manual_clock_moves_when_told_and_steps_the_wall_alone() -> None:
    clock = ManualClock()
    mono, wall = clock.mono_ns(), clock.wall_ns()
    clock.advance(1.5)
    clock.step_wall(-60)
    assert clock.mono_ns() - mono == 1_500_000_000
    assert clock.wall_ns() - wall == 1_500_000_000 - 60_000_000_000
