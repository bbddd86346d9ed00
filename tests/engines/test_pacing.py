"""Arrivals: as many as the rate says, where it says, and blind to everything else."""

import itertools
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drillmaster.engines import Stage
from drillmaster.engines.pacing import arrivals


def due(**fields: float) -> list[float]:
    stage = Stage(label="s", kind="open", **fields)  # type: ignore[arg-type]  # seconds, rate and such
    return [ns / 1e9 for ns in arrivals(stage, 0, 1)]


def test_a_steady_rate_is_evenly_spaced_and_midway_at_the_edges() -> None:
    assert due(seconds=1, rate=4) == [0.125, 0.375, 0.625, 0.875]


@given(rate=st.floats(0.5, 500), rate_to=st.floats(0.5, 500), seconds=st.floats(0.5, 20))
def test_a_ramp_has_as_many_arrivals_as_its_area_and_they_are_in_order(
    rate: float, rate_to: float, seconds: float
) -> None:
    times = due(seconds=seconds, rate=rate, rate_to=rate_to)
    assert abs(len(times) - (rate + rate_to) / 2 * seconds) <= 1
    assert times == sorted(times)
    assert all(0 <= at <= seconds for at in times)
    half = sum(at < seconds / 2 for at in times)
    assert abs(half - (3 * rate + rate_to) / 8 * seconds) <= 2


def test_poisson_arrivals_have_exponential_gaps_and_come_again_with_the_seed() -> None:
    stage = Stage(label="s", kind="open", seconds=200, rate=50, poisson=True)
    times = [ns / 1e9 for ns in arrivals(stage, 0, 7)]
    gaps = [b - a for a, b in itertools.pairwise(times)]
    mean = sum(gaps) / len(gaps)
    spread = math.sqrt(sum((gap - mean) ** 2 for gap in gaps) / len(gaps))
    assert abs(mean - 0.02) < 0.001
    assert abs(spread / mean - 1) < 0.05  # an exponential's spread is its mean
    assert [ns / 1e9 for ns in arrivals(stage, 0, 7)] == times
    assert [ns / 1e9 for ns in arrivals(stage, 0, 8)] != times


@pytest.mark.parametrize(
    "fields", [{}, {"calls": 1, "seconds": 1}, {"calls": 5, "kind": "open"}, {"calls": 1, "level": 0}]
)
def test_a_stage_without_an_end_or_a_caller_is_refused(fields: dict[str, object]) -> None:
    with pytest.raises(ValueError, match="stage"):
        Stage(**{"label": "s", "kind": "closed", **fields})  # type: ignore[arg-type]
