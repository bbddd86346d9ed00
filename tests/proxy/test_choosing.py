"""Reading a body to choose by it: whole, or not at all."""

from collections.abc import Iterable

import pytest

from drillmaster.faults import Data, End, Event, Late, Lifted
from drillmaster.proxy.choosing import Broken, read_body
from drillmaster.proxy.inbox import FromClient
from drillmaster.proxy.switch import MAX_HELD_BYTES, Injection, arm
from drillmaster.targeting import Rule


def read(events: Iterable[Event], *, limit_bytes: int = 10, full_after: int = 99) -> tuple[bytes | None, int]:
    """What comes of these events, and how many were asked for."""
    asked = 0
    reading = read_body(limit_bytes, lambda: asked >= full_after)
    next(reading)
    try:
        for event in events:
            asked += 1
            reading.send(event)
    except StopIteration as over:
        return over.value, asked
    raise AssertionError("it reads on")


def test_a_body_is_read_to_its_end_or_to_the_first_byte_past_the_limit() -> None:
    assert read([Data(b"12345"), Data(b"67890"), End()]) == (b"1234567890", 3)
    assert read([Data(b"12345"), Data(b"67890a"), End()]) == (None, 2)
    assert read([End()]) == (b"", 1)


def test_where_there_is_no_more_room_for_all_of_them_it_is_not_read_on() -> None:
    assert read([Data(b"1"), Data(b"2"), End()], full_after=2) == (None, 2)


def test_a_body_that_breaks_off_is_none() -> None:
    with pytest.raises(Broken):
        read([Data(b"1"), Late()])
    reading = read_body(10, lambda: False)
    next(reading)
    with pytest.raises(Broken):
        reading.throw(Lifted())


def test_an_injection_is_full_past_its_bound() -> None:
    injection = Injection("w1", arm([Rule(mode=503, share=0.5)], seed=1), 0, None, 0)
    injection.held_bytes = MAX_HELD_BYTES
    assert not injection.is_full()
    injection.held_bytes += 1
    assert injection.is_full()


def pieces(inbox: FromClient) -> list[bytes]:
    found = []
    while isinstance(event := inbox.next(), Data):
        found.append(event.body)
    assert isinstance(event, End)
    return found


def filled(*given: bytes) -> FromClient:
    inbox = FromClient()
    for piece in given:
        inbox.put(piece, done=False)
    inbox.put(b"", done=True)
    return inbox


def test_what_was_read_is_read_again_from_the_beginning_also_after_the_upstream_has_it() -> None:
    inbox = filled(b"a", b"b", b"c")
    for _ in range(2):
        event = inbox.next()
        assert isinstance(event, Data)
        inbox.keep(event.body)
    inbox.rewind()
    assert (b"".join(pieces(inbox)), inbox.queued_bytes) == (b"abc", 0)

    inbox = filled(b"a", b"b", b"c")
    event = inbox.next()
    assert isinstance(event, Data)
    inbox.keep(event.body)
    assert inbox.hand_over(again=True) == b"abc"
    assert pieces(inbox) == []
    for _ in range(3):
        inbox.rewind()
        inbox.next()  # one may leave the rest unread
    inbox.rewind()
    assert (b"".join(pieces(inbox)), inbox.queued_bytes) == (b"abc", 0)
    assert inbox.hand_over() == b"abc"
    assert pieces(inbox) == []


def test_past_its_limit_nothing_is_kept() -> None:
    inbox = FromClient()
    for piece in (b"12", b"34", b"56"):
        inbox.keep(piece, 3)
    assert inbox.too_large
    assert inbox.hand_over() == b""
