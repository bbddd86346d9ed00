"""A mission's data: by seed, number and name, and by nothing else."""

import re
import string
import uuid
from collections import Counter as Count

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drillmaster.friday.drawing import Deal, draw, draw_data, draw_think_ns, mission_id
from drillmaster.friday.missions import (
    Choice,
    Counter,
    Datum,
    Flow,
    Integer,
    MissionFile,
    Sequence,
    Step,
    Table,
    Text,
    Uuid,
)

_DATA: dict[str, Datum] = {
    "user": Uuid(),
    "order": Integer(low=1000, high=9999),
    "tone": Choice(of=("calm", "angry"), weights=(3, 1)),
    "tier": Choice(of=("free", "paid", None)),
    "day": Sequence(of=("Mon", "Tue", "Wed")),
    "nth": Counter(first=100),
    "note": Text(chars=12),
    "row": Table(columns=("sku", "price"), rows=(("a", 1), ("b", 2))),
}


def _flows(*weights: int) -> MissionFile:
    flows = tuple(Flow(name=f"f{n}", weight=w, steps=(Step(path="/"),)) for n, w in enumerate(weights))
    return MissionFile(kind="missions", flows=flows)


def test_a_draw_is_the_first_sixteen_bytes_of_a_digest() -> None:
    # printf '1/7/user' | sha256sum
    assert f"{draw(1, 7, 'user'):032x}" == "819a896237c70e8b117568e5efcbeac9"


@given(seed=st.integers(0, 10**9), number=st.integers(1, 10**7))
def test_the_same_seed_and_number_give_the_same_data(seed: int, number: int) -> None:
    assert draw_data(_DATA, seed, number) == draw_data(_DATA, seed, number)


@given(number=st.integers(1, 10**6))
def test_a_datum_does_not_change_with_its_neighbours(number: int) -> None:
    whole = draw_data(_DATA, 1, number)
    for name, datum in _DATA.items():
        alone = draw_data({name: datum}, 1, number)
        assert alone.items() <= whole.items()


def test_another_seed_gives_other_data() -> None:
    assert draw_data({"user": Uuid()}, 1, 1) != draw_data({"user": Uuid()}, 2, 1)
    assert draw_data({"user": Uuid()}, 1, 1) != draw_data({"user": Uuid()}, 1, 2)


@given(seed=st.integers(0, 10**6), number=st.integers(1, 10**6))
def test_data_are_what_they_are_said_to_be(seed: int, number: int) -> None:
    found = draw_data(_DATA, seed, number)
    assert uuid.UUID(found["user"]).version == 4
    assert type(found["order"]) is int
    assert 1000 <= found["order"] <= 9999
    assert found["tone"] in ("calm", "angry")
    assert found["day"] == ("Mon", "Tue", "Wed")[(number - 1) % 3]
    assert found["nth"] == 99 + number
    assert re.fullmatch(r"[A-Za-z0-9]{12}", found["note"])
    assert (found["sku"], found["price"]) == (("a", 1), ("b", 2))[(number - 1) % 2]
    assert "row" not in found


def test_both_ends_of_a_range_are_drawn_and_nothing_beyond() -> None:
    drawn = {draw_data({"n": Integer(low=-1, high=2)}, 5, number)["n"] for number in range(1, 200)}
    assert drawn == {-1, 0, 1, 2}


def test_weights_of_a_choice_are_kept_within_chance() -> None:
    drawn = Count(draw_data({"tone": _DATA["tone"]}, 3, number)["tone"] for number in range(1, 4001))
    assert 2800 < drawn["calm"] < 3200
    none = Choice(of=("a", "b"), weights=(0, 1))
    assert {draw_data({"x": none}, 1, n)["x"] for n in range(1, 100)} == {"b"}


def test_letters_are_not_all_the_same() -> None:
    text = draw_data({"note": Text(chars=400)}, 1, 1)["note"]
    assert len(set(text)) > 40
    assert set(text) <= set(string.ascii_letters + string.digits)


@given(weights=st.lists(st.integers(1, 12), min_size=1, max_size=5), seed=st.integers(0, 99), rounds=st.integers(1, 4))
def test_each_round_has_exactly_its_weights(weights: list[int], seed: int, rounds: int) -> None:
    deal = Deal(_flows(*weights), seed)
    for nth in range(rounds):
        dealt = Count(deal.index(nth * deal.round + at) for at in range(1, deal.round + 1))
        assert [dealt[n] * sum(weights) for n in range(len(weights))] == [w * deal.round for w in weights]


def test_a_deal_does_not_depend_on_who_asks_first() -> None:
    here, there = Deal(_flows(3, 1), 1), Deal(_flows(3, 1), 1)
    forth = [here.index(n) for n in range(1, 2000)]
    back = [there.index(n) for n in reversed(range(1, 2000))]
    assert forth == back[::-1]
    assert forth != [Deal(_flows(3, 1), 2).index(n) for n in range(1, 2000)]


@given(low=st.floats(0, 5), more=st.floats(0, 5), number=st.integers(1, 10**5))
def test_thinking_stays_within_its_bounds(low: float, more: float, number: int) -> None:
    think_ns = draw_think_ns(Step(think_s=(low, low + more)), 1, number, 0)
    assert round(low * 1e9) <= think_ns <= round((low + more) * 1e9)
    assert draw_think_ns(Step(think_s=0.5), 1, number, 0) == 500_000_000


@pytest.mark.parametrize(("number", "name"), [(1, "m000001-ab12"), (20_000_001, "m20000001-ab12")])
def test_a_mission_is_called_by_its_number_and_its_run(number: int, name: str) -> None:
    assert mission_id(number, "20261201T000000Z-ab12") == name
