"""Arrivals: as many as the rate says, where it says, and blind to everything else."""

import itertools
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drillmaster import ladder
from drillmaster.engines import Pauses, Stage
from drillmaster.engines.pacing import LONGEST_PAUSE, arrivals, pause_ns


def due(**fields: float) -> list[float]:
    stage = Stage(label="s", kind="open", **fields)  # type: ignore[arg-type]  # seconds, rate and such
    return [ns / 1e9 for ns in arrivals(stage, 0, 1)]


def test_a_steady_rate_is_evenly_spaced_and_midway_at_the_edges() -> None:
    assert due(seconds=1, rate_per_s=4) == [0.125, 0.375, 0.625, 0.875]


@given(rate=st.floats(0.5, 500), rate_to=st.floats(0.5, 500), seconds=st.floats(0.5, 20))
def test_a_ramp_has_as_many_arrivals_as_its_area_and_they_are_in_order(
    rate: float, rate_to: float, seconds: float
) -> None:
    times = due(seconds=seconds, rate_per_s=rate, rate_to_per_s=rate_to)
    assert abs(len(times) - (rate + rate_to) / 2 * seconds) <= 1
    assert times == sorted(times)
    assert all(0 <= at <= seconds for at in times)
    half = sum(at < seconds / 2 for at in times)
    assert abs(half - (3 * rate + rate_to) / 8 * seconds) <= 2


def test_poisson_arrivals_have_exponential_gaps_and_come_again_with_the_seed() -> None:
    stage = Stage(label="s", kind="open", seconds=200, rate_per_s=50, poisson=True)
    times = [ns / 1e9 for ns in arrivals(stage, 0, 7)]
    gaps = [b - a for a, b in itertools.pairwise(times)]
    mean = sum(gaps) / len(gaps)
    spread = math.sqrt(sum((gap - mean) ** 2 for gap in gaps) / len(gaps))
    assert abs(mean - 0.02) < 0.001
    assert abs(spread / mean - 1) < 0.05  # an exponential's spread is its mean
    assert [ns / 1e9 for ns in arrivals(stage, 0, 7)] == times
    assert [ns / 1e9 for ns in arrivals(stage, 0, 8)] != times


def test_pauses_are_all_alike_or_exponential_and_come_again_with_the_seed() -> None:
    assert pause_ns(0.25, None) == 250_000_000
    drawn = [pause_ns(2.0, f"1/{session}/0") / 1e9 for session in range(20_000)]
    mean = sum(drawn) / len(drawn)
    assert abs(mean - 2) < 0.05
    assert abs(sum(one > 2 for one in drawn) / len(drawn) - math.exp(-1)) < 0.01
    assert max(drawn) <= 2 * LONGEST_PAUSE
    assert pause_ns(2.0, "1/7/0") == round(drawn[7] * 1e9)
    assert pause_ns(2.0, "2/7/0") != round(drawn[7] * 1e9)


def test_the_plans_bound_on_a_pause_is_the_engines() -> None:
    assert LONGEST_PAUSE == ladder.LONGEST_PAUSE


def test_an_open_stage_has_no_pauses() -> None:
    with pytest.raises(ValueError, match="open stage"):
        Stage(label="s", kind="open", seconds=1, pauses=Pauses(session_s=1))


@pytest.mark.parametrize(
    "fields", [{}, {"calls": 1, "seconds": 1, "kind": "open"}, {"calls": 5, "kind": "open"}, {"calls": 1, "level": 0}]
)
def test_a_stage_without_an_end_or_a_caller_is_refused(fields: dict[str, object]) -> None:
    with pytest.raises(ValueError, match="stage"):
        Stage(**{"label": "s", "kind": "closed", **fields})  # type: ignore[arg-type]
