"""Requests as they go on the wire, and the order in which a set is drawn."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from drillmaster.engines import Patience, Shot
from drillmaster.engines.shots import Deck, Shots, ShuffledShots


@given(size=st.integers(1, 300), seed=st.integers(0, 2**31), nth=st.integers(0, 50))
@example(size=1, seed=0, nth=0)
@example(size=2, seed=1, nth=0)
@example(size=257, seed=1, nth=3)
def test_each_pass_has_every_payload_once(size: int, seed: int, nth: int) -> None:
    deck = Deck(size, seed)
    assert sorted(deck.place(number) for number in range(nth * size, (nth + 1) * size)) == list(range(size))
    in_turn = Deck(size, None)
    assert [in_turn.place(nth * size + at) for at in range(size)] == list(range(size))


def test_passes_differ_and_come_again_with_the_seed() -> None:
    def drawn(seed: int) -> list[int]:
        deck = Deck(20, seed)
        return [deck.place(number) for number in range(40)]

    assert drawn(1) == drawn(1)
    assert drawn(1) != drawn(2)
    assert drawn(1)[:20] != drawn(1)[20:]
    # Any order of asking gives the same: engines that share a set have every so many-th number.
    deck = Deck(20, 1)
    assert [deck.place(number) for number in reversed(range(40))] == drawn(1)[::-1]


def test_all_orders_of_a_small_set_come_about_as_often() -> None:
    deck = Deck(4, 3)
    orders = [tuple(deck.place(nth * 4 + at) for at in range(4)) for nth in range(4_800)]
    counts = [orders.count(order) for order in set(orders)]
    assert len(counts) == 24
    assert 120 < min(counts) <= max(counts) < 300


@pytest.mark.parametrize(("number", "wanted"), [(0, 0), (1, 7), (7, 7), (8, 14)])
def test_a_step_begins_with_a_whole_pass_where_passes_have_an_order_of_their_own(number: int, wanted: int) -> None:
    assert Deck(7, 1).aligned(number) == wanted
    assert Deck(7, None).aligned(number) == number


def test_a_body_is_rendered_with_its_length_and_its_number() -> None:
    shots = Shots(Shot(target="/a?k=1", authority="h:1", headers={"A": "b"}, payloads=("x", "ü{n}-{n}")))
    assert shots.take(4) == (0, 1, b"POST /a?k=1 HTTP/1.1\r\nHost: h:1\r\nA: b\r\nContent-Length: 1\r\n\r\nx")
    assert shots.take(13)[:2] == (1, 7)
    assert shots.take(13)[2].endswith(b"Content-Length: 7\r\n\r\n\xc3\xbc13-13")
    assert shots.ready(1, 5)[2].endswith("ü5-5".encode())


@given(numbers=st.lists(st.integers(0, 10**12), min_size=1, max_size=20), method=st.sampled_from(["POST", "GET"]))
@example(numbers=[9, 10, 99, 100, 9, 0], method="POST")
def test_a_number_is_rendered_the_same_whatever_came_before_it(numbers: list[int], method: str) -> None:
    shot = Shot(method=method, target="/", authority="h", payloads=("{n}", "a%d{n}b{n}", "{n}%"))
    shots = Shots(shot)
    for number in numbers:
        at, size, wire = shots.take(number)
        body = shot.payloads[at].replace("{n}", str(number)).encode()
        if method == "GET":
            assert (size, wire) == (0, b"GET /?%b HTTP/1.1\r\nHost: h\r\n\r\n" % body)
        else:
            head = b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: %d\r\n\r\n" % len(body)
            assert (size, wire) == (len(body), head + body)


@pytest.mark.parametrize(
    ("target", "payload", "line"),
    [
        ("/a", "", b"GET /a HTTP/1.1"),
        ("/a", "q=1", b"GET /a?q=1 HTTP/1.1"),
        ("/a?k=1", "q={n}", b"GET /a?k=1&q=5 HTTP/1.1"),
    ],
)
def test_a_get_has_its_payload_in_its_first_line(target: str, payload: str, line: bytes) -> None:
    _, size, wire = Shots(Shot(method="GET", target=target, authority="h", payloads=(payload,))).take(5)
    assert (size, wire) == (0, line + b"\r\nHost: h\r\n\r\n")


def test_a_shuffled_set_is_drawn_by_its_deck() -> None:
    shot = Shot(target="/", authority="h", payloads=tuple("abcdef{n}"), shuffled=True)
    shots = ShuffledShots(shot, 9)
    deck = Deck(len(shot.payloads), 9)
    assert [shots.take(number)[0] for number in range(20)] == [deck.place(number) for number in range(20)]
    assert [shots.place(number) for number in range(20)] == [deck.place(number) for number in range(20)]


@pytest.mark.parametrize("turns", [(0, 2), (1, 2), (2, 2)])
def test_sessions_have_all_payloads_among_them(turns: tuple[int, ...]) -> None:
    if sum(turns) == 4:
        assert Shot(target="/", authority="h", payloads=tuple("abcd"), turns=turns).turns == turns
        return
    with pytest.raises(ValueError, match="sessions"):
        Shot(target="/", authority="h", payloads=tuple("ab" if 0 in turns else "abcd"), turns=turns)


@pytest.mark.parametrize(("attempts", "wait_s"), [(0, 1.0), (256, 1.0), (2, 0.0), (2, float("nan")), (2, float("inf"))])
def test_patience_ends(attempts: int, wait_s: float) -> None:
    with pytest.raises(ValueError, match="patience"):
        Patience(max_attempts=attempts, max_wait_s=wait_s)
