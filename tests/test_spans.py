"""Spans of time as people read them: one unit for all that stand beside one another."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drillmaster.spans import span_text, unit_of


@pytest.mark.parametrize(
    ("seconds", "said"),
    [
        (0.0, "0 s"),
        (0.0000434, "43.4 µs"),
        (0.0004, "400 µs"),
        (0.0431, "43.1 ms"),
        (0.118, "118 ms"),
        (0.9994, "999 ms"),
        (0.9996, "1 s"),  # and not 1000 ms
        (1.2, "1.2 s"),
        (59.96, "60 s"),
        (1234.5, "1230 s"),
        (86_400.0, "86400 s"),
        (math.inf, "inf s"),
    ],
)
def test_a_span_alone_has_the_unit_that_fits_it(seconds: float, said: str) -> None:
    assert span_text(seconds) == said


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ([0.082, 0.118], ["82 ms", "118 ms"]),
        ([0.082, 1.4], ["0.082 s", "1.4 s"]),
        ([0.0004, 0.9996], ["0.0004 s", "1 s"]),
        ([0.0000004, 0.02], ["0.0004 ms", "20 ms"]),
        ([0.0, 0.02], ["0 ms", "20 ms"]),
        ([None, 0.02], ["20 ms"]),
        ([math.inf, 0.02], ["inf ms", "20 ms"]),
        ([math.nan, 0.02], ["nan ms", "20 ms"]),
        ([], []),
    ],
)
def test_spans_beside_one_another_have_the_unit_of_the_largest(row: list[float | None], said: list[str]) -> None:
    unit = unit_of(row)
    assert [unit.text(one) for one in row if one is not None] == said


@given(st.lists(st.floats(1e-6, 1e5), min_size=1, max_size=9))
def test_one_unit_and_no_exponent_and_three_digits_that_are_right(row: list[float]) -> None:
    unit = unit_of(row)
    for seconds in row:
        number, name = unit.text(seconds).split()
        assert name == unit.name and "e" not in number
        assert float(number) / unit.per_s == pytest.approx(seconds, rel=0.0051)
