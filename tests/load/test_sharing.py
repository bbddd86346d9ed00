"""A plan split among engines adds up to the plan, whatever the numbers."""

from collections import Counter
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drillmaster.engines import Pauses, Shot
from drillmaster.engines.pacing import arrivals
from drillmaster.engines.shots import Deck
from drillmaster.ladder import Arrivals, Step, Think
from drillmaster.load.sharing import Share, shared, stage_of


def closed(callers: int, calls: int, label: str = "warm") -> Step:
    return Step(label=label, kind="closed", callers=callers, calls=calls)


def opened(
    rate: float, seconds: float, *, poisson: bool = False, most: int = 100, rate_to: float | None = None
) -> Step:
    one = Arrivals(rate_per_s=rate, seconds=seconds, poisson=poisson, max_in_flight=most, rate_to_per_s=rate_to)
    return Step(label=one.label, kind="open", callers=most, calls=one.calls, arrivals=one)


def shot(*turns: int, shuffled: bool = False, alone: bool = False) -> Shot:
    payloads = tuple(f"p{n}" for n in range(sum(turns)))
    return Shot(target="/", authority="h", payloads=payloads, turns=() if alone else turns, shuffled=shuffled)


def sessions(share: Share, of: Shot, seed: int) -> list[tuple[int, int, int]]:
    """Number, place and length of an engine's sessions in one step, as it draws them until its calls are made."""
    deck, found, left = Deck(len(of.turns), seed if of.shuffled else None), [], share.calls or 0
    number = share.stage.first_call or 0
    while left > 0:
        place = deck.place(number)
        turns = min(of.turns[place], left)
        found.append((number, place, turns))
        number, left = number + 1, left - turns
    return found


def numbers(share: Share) -> range:
    """Numbers of an engine's calls in one step, as it gives them."""
    first = share.stage.first_call
    if first is None:
        return range(0)
    assert share.calls is not None
    return range(first, first + share.calls * share.stage.of, share.stage.of)


def test_one_engine_has_all_and_numbers_its_calls_itself() -> None:
    ((share, other),) = shared((closed(4, 40), opened(10, 2)), 1, first_call=1, seed=1)
    assert (share.stage.level, share.stage.calls, share.stage.first_call) == (4, 40, None)
    assert (other.stage.nth, other.stage.of, other.calls) == (0, 1, None)


@pytest.mark.parametrize(
    ("callers", "calls", "engines", "want"),
    [
        (8, 90, 3, [(3, 33), (3, 34), (2, 23)]),
        (4, 40, 2, [(2, 20), (2, 20)]),
        (1, 10, 3, [(1, 10), (0, 0), (0, 0)]),  # nobody shares one caller
        (3, 3, 2, [(2, 2), (1, 1)]),  # a warm-up: one call a caller
        (5, 11, 4, [(2, 4), (1, 2), (1, 2), (1, 3)]),
    ],
)
def test_callers_and_calls_are_split(callers: int, calls: int, engines: int, want: list[tuple[int, int]]) -> None:
    found = shared((closed(callers, calls),), engines, first_call=1, seed=1)
    assert [(share.callers, share.calls) for (share,) in found] == want


@given(
    callers=st.integers(1, 300),
    more=st.integers(0, 1000),
    engines=st.integers(2, 64),
    first=st.integers(0, 10_000),
)
def test_no_call_is_lost_doubled_or_left_without_a_caller(callers: int, more: int, engines: int, first: int) -> None:
    calls = callers + more
    found = shared((closed(callers, calls), closed(1, 7, "next")), engines, first_call=first, seed=1)
    here, after = [list(column) for column in zip(*found, strict=True)]
    assert sum(share.callers for share in here) == callers
    assert all((share.calls or 0) >= share.callers for share in here)
    assert sorted(n for share in here for n in numbers(share)) == list(range(first, first + calls))
    assert sorted(n for share in after for n in numbers(share)) == list(range(first + calls, first + calls + 7))


@pytest.mark.parametrize("poisson", [False, True])
@pytest.mark.parametrize("engines", [2, 3, 7])
@pytest.mark.parametrize("rate_to", [None, 200.0])
def test_arrivals_laid_together_are_those_of_one_engine(poisson: bool, engines: int, rate_to: float | None) -> None:
    step = opened(50, 4, poisson=poisson, rate_to=rate_to)
    alone = list(arrivals(stage_of(step), 1_000, 9))
    dealt = []
    for (share,) in shared((step,), engines, first_call=5, seed=9):
        mine = [at for n, at in enumerate(arrivals(share.stage, 1_000, 9)) if n % share.stage.of == share.stage.nth]
        assert len(mine) == share.calls
        dealt.append(zip(numbers(share), mine, strict=True))
    together = sorted((number, at) for part in dealt for number, at in part)
    assert [at for _, at in together] == alone
    assert all(one < two for (one, _), (two, _) in pairwise(together))


def test_a_cap_on_calls_in_flight_is_split_and_who_has_none_of_it_sits_out() -> None:
    found = [share for (share,) in shared((opened(10, 1, most=2),), 3, first_call=1, seed=1)]
    assert [(share.callers, share.stage.kind, share.calls) for share in found] == [
        (1, "open", 5),
        (1, "open", 5),
        (0, "closed", 0),
    ]
    assert [share.stage.of for share in found[:2]] == [2, 2]


def test_each_step_begins_with_a_whole_pass_where_a_pass_has_an_order_of_its_own() -> None:
    steps = (closed(1, 1), closed(4, 40), closed(2, 15), closed(2, 20))
    by_engine = shared(steps, 2, first_call=1, seed=1, shot=shot(*[1] * 10, shuffled=True, alone=True))
    taken = [sorted(number for mine in by_engine for number in numbers(mine[at])) for at in range(4)]
    assert taken == [[10], list(range(20, 60)), list(range(60, 75)), list(range(80, 100))]


def test_pauses_are_of_levels_and_sessions_whole_there_alone() -> None:
    think = Think(turn_s=1, session_s=2, law="exponential")
    level = stage_of(Step(label="warm_c2", kind="closed", callers=2, calls=9, think=think))
    assert (level.takes, level.pauses) == ("sessions", Pauses(turn_s=1, session_s=2, exponential=True))
    for step, takes in (
        (Step(label="cold", kind="cold", callers=1, calls=1), "first_turns"),
        (Step(label="warmup_c2", kind="warmup", callers=2, calls=2), "first_turns"),
        (Step(label="drain", kind="drain", callers=2, calls=9), "turns"),
        (opened(5, 2), "turns"),
    ):
        assert (stage_of(step).takes, stage_of(step).pauses) == (takes, None)


@pytest.mark.parametrize("shuffled", [False, True])
@pytest.mark.parametrize("engines", [2, 3])
def test_a_set_of_sessions_is_asked_once_through_whoever_shares_it(engines: int, shuffled: bool) -> None:
    of = shot(*[4] * 20, shuffled=shuffled)
    steps = (closed(6, 80), closed(6, 80))
    found = shared(steps, engines, first_call=1, seed=3, shot=of)
    for at in range(2):
        drawn = [one for mine in found for one in sessions(mine[at], of, 3)]
        asked = Counter(place for _, place, turns in drawn for _ in range(turns))
        # One session an engine may be cut short where its calls are over, and goes on as nobody's.
        assert sum(asked.values()) == 80
        assert len(drawn) <= 20 + engines - 1
        assert len(asked) >= 20 - (engines - 1)


@given(
    turns=st.lists(st.integers(1, 9), min_size=1, max_size=40),
    callers=st.integers(1, 30),
    more=st.integers(0, 300),
    engines=st.integers(2, 9),
    shuffled=st.booleans(),
)
def test_sessions_of_engines_are_one_stretch_of_the_order_without_a_gap(
    turns: list[int], callers: int, more: int, engines: int, shuffled: bool
) -> None:
    of = shot(*turns, shuffled=shuffled)
    found = shared((closed(callers, callers + more), closed(3, 9, "next")), engines, first_call=1, seed=3, shot=of)
    here, after = [[number for mine in found for number, _, _ in sessions(mine[at], of, 3)] for at in (0, 1)]
    first = len(turns) if shuffled else 1
    assert here == list(range(first, first + len(here)))
    begins = -(-(first + len(here)) // len(turns)) * len(turns) if shuffled else first + len(here)
    assert after == list(range(begins, begins + len(after)))


def test_first_turns_and_turns_alone_are_numbered_by_their_own_sets() -> None:
    of = shot(*[2] * 10, shuffled=True)
    drain = Step(label="drain", kind="drain", callers=4, calls=20)
    warmup = Step(label="warmup_c4", kind="warmup", callers=4, calls=4)
    found = shared((warmup, drain, closed(2, 4)), 2, first_call=1, seed=3, shot=of)
    begins = [min(mine[at].stage.first_call or 0 for mine in found) for at in range(3)]
    assert begins == [10, 20, 40]
