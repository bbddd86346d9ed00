"""Ladders of known law, and where they stop bringing more."""

import random

import pytest

from drillmaster.interviews import Level
from drillmaster.load.knee import Knee, knee_of, knee_text
from tests.gates.test_interview import timed


def at_a_queue(
    servers: int, callers: int, *, seconds: float = 60.0, noise: float = 0.1, seed: int = 1
) -> tuple[int, Level]:
    """So many servers of a second a call: more callers than those wait for one."""
    rng = random.Random(f"{callers}/{seed}")
    service = max(1.0, callers / servers)
    per_s = callers / service
    n = round(seconds * per_s)
    return callers, timed(
        f"warm_c{callers}", [service * rng.uniform(1 - noise, 1 + noise) for _ in range(n)], every_s=1 / per_s
    )


LADDER = (1, 2, 4, 8, 16, 32)


@pytest.mark.parametrize("servers", [4, 8, 16])
def test_a_queue_of_so_many_servers_has_its_knee_there(servers: int) -> None:
    knee = knee_of([at_a_queue(servers, callers) for callers in LADDER])
    assert (knee.callers, knee.low, knee.high, knee.most, knee.why) == (servers, servers, servers, 32, "")
    assert "the knee is at" in knee_text(knee)
    assert knee.per_s[-1] == pytest.approx(servers, rel=0.1)


def test_a_ladder_that_goes_on_has_no_knee() -> None:
    knee = knee_of([at_a_queue(64, callers) for callers in LADDER])
    assert (knee.callers, knee.high, knee.why) == (None, None, "")
    assert knee_text(knee) == "no knee up to 32 callers (95 % sure)"


def test_throughput_that_falls_is_over_the_knee_too() -> None:
    levels = [at_a_queue(8, callers) for callers in (1, 2, 4, 8)]
    levels.append((16, timed("warm_c16", [4.0] * 240, every_s=0.25)))
    assert knee_of(levels).callers == 8


def test_latency_that_does_not_rise_is_no_knee() -> None:
    # Twice the callers bring nothing, and wait no longer: they were not there.
    levels = [at_a_queue(64, callers) for callers in (1, 2, 4)]
    levels.append((8, timed("warm_c8", [0.5] * 240, every_s=0.25)))
    assert knee_of(levels).callers is None


def test_a_ladder_of_few_and_unsteady_calls_has_a_wide_interval() -> None:
    rng = random.Random(2)

    def unsteady(callers: int) -> tuple[int, Level]:
        service = max(1.0, callers / 6)
        took = [service * rng.choice([0.2, 0.5, 3.0]) for _ in range(40)]
        return callers, timed(f"warm_c{callers}", took, every_s=service / callers)

    knee = knee_of([unsteady(callers) for callers in (1, 2, 4, 8, 16)])
    assert (knee.low, knee.high) != (knee.callers, knee.callers)


@pytest.mark.parametrize(
    ("levels", "why"),
    [
        ([at_a_queue(4, callers) for callers in (1, 2, 4)], "3 levels, and 4 are needed"),
        ([], "0 levels, and 4 are needed"),
        (
            [*(at_a_queue(4, callers) for callers in (1, 2, 4)), (8, timed("warm_c8", [1.0] * 99, void=("late",)))],
            "3 levels, 1 more are void, and 4 are needed",
        ),
        (
            [*(at_a_queue(4, callers) for callers in (1, 2, 4)), (8, timed("warm_c8", [1.0] * 10))],
            "warm_c8 has calls in 10 of 20 blocks of its time: it takes more calls",
        ),
        (
            [
                *(at_a_queue(4, callers) for callers in (1, 2, 4)),
                (8, timed("warm_c8", [1.0] * 99, kinds=dict.fromkeys(range(99), "reset"))),
            ],
            "warm_c8 has calls in 0 of 20 blocks of its time: it takes more calls",
        ),
    ],
)
def test_where_no_knee_can_be_told_it_is_said_why(levels: list[tuple[int, Level]], why: str) -> None:
    knee = knee_of(levels)
    assert (knee.callers, knee.low, knee.why) == (None, None, why)
    assert knee_text(knee) == f"no knee can be told: {why}"


def test_levels_in_any_order_and_open_stages_beside_them_change_nothing() -> None:
    levels = [at_a_queue(8, callers) for callers in LADDER]
    others = [(4_000, timed("open_r5", [1.0] * 99, kind="open")), *reversed(levels)]
    assert knee_of(others) == knee_of(levels)
    assert isinstance(knee_of(levels), Knee)


def test_an_interval_holds_the_true_knee_as_often_as_it_says() -> None:
    held = 0
    for seed in range(40):
        knee = knee_of([at_a_queue(8, callers, seconds=40, noise=0.9, seed=seed) for callers in LADDER])
        assert knee.why == ""
        held += (knee.low or 99) <= 8 <= (knee.high or 99)
    assert held >= 35
