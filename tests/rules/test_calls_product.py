"""The worst case of nested retries: whole numbers, exactly, and nothing assumed."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drillmaster.rules.calls_product import MOST_LAYERS, MOST_TIMES, Layer, calls_product

SDK = Layer(name="SDK", kind="again", times=3)
LOOP = Layer(name="loop", kind="again", times=3)
TOOLS = Layer(name="tools", kind="beside", times=4)
TURNS = Layer(name="turns", kind="turns", times=50)


def test_an_sdk_in_a_loop_over_tools_in_many_turns() -> None:
    found = calls_product([SDK, LOOP, TOOLS, TURNS])
    assert (found.calls, found.a_turn, found.at_once) == (1800, 36, 200)
    assert found.text == "SDK 3 x loop 3 x tools 4 x turns 50"


def test_the_articles_hundred_posts_become_four_hundred_attempts() -> None:
    posts = Layer(name="script", kind="turns", times=100)
    tries = Layer(name="loop", kind="again", times=4)
    assert calls_product([tries, posts]).calls == 400


def test_one_layer_alone_is_itself() -> None:
    assert calls_product([SDK]).calls == 3
    assert calls_product([SDK]).at_once == 1


def test_sixteen_layers_at_their_most_are_exact() -> None:
    layers = [Layer(name=f"l{n}", kind="again", times=MOST_TIMES) for n in range(MOST_LAYERS)]
    assert calls_product(layers).calls == 10**96


@pytest.mark.parametrize(
    ("layers", "said"),
    [
        ([], "found 0 layers"),
        ([Layer(name=f"l{n}", kind="again", times=2) for n in range(17)], "found 17 layers"),
        ([SDK, SDK], "twice"),
        ([Layer(name="x", kind="again", times=0)], "wanted 1 to"),
        ([Layer(name="x", kind="again", times=-1)], "wanted 1 to"),
        ([Layer(name="x", kind="again", times=True)], "wanted 1 to"),
        ([Layer(name="x", kind="again", times=2.0)], "wanted 1 to"),  # type: ignore[arg-type]  # as code may make it
        ([Layer(name="x", kind="again", times=MOST_TIMES + 1)], "wanted 1 to"),
        ([Layer(name="x", kind="agian", times=2)], "wanted 1 to"),  # type: ignore[arg-type]  # likewise
    ],
)
def test_what_is_no_layer_is_refused(layers: list[Layer], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        calls_product(layers)


@given(
    st.lists(
        st.tuples(st.sampled_from(["again", "beside", "turns"]), st.integers(1, MOST_TIMES)), min_size=1, max_size=16
    )
)
def test_the_order_of_layers_changes_nothing_and_one_layer_more_never_makes_less(rows: list[tuple[str, int]]) -> None:
    layers = [Layer(name=str(n), kind=kind, times=times) for n, (kind, times) in enumerate(rows)]  # type: ignore[arg-type]  # of the three
    found, turned = calls_product(layers), calls_product(layers[::-1])
    assert (found.calls, found.a_turn, found.at_once) == (turned.calls, turned.a_turn, turned.at_once)
    assert found.calls >= max(found.a_turn, found.at_once) >= 1
    if len(layers) > 1:
        assert calls_product(layers[1:]).calls * layers[0].times == found.calls
