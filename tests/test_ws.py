"""WebSocket framing as RFC 6455 has it, byte for byte."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drillmaster.http1 import Malformed
from drillmaster.ws import (
    BINARY,
    CLOSE,
    MESSAGE_CAP_BYTES,
    PING,
    PONG,
    TEXT,
    Message,
    Messages,
    accept_of,
    close_code,
    frame,
)


def wire(payload: bytes, kind: int = TEXT, *, final: bool = True) -> bytes:
    """A frame as a server sends it."""
    size = len(payload)
    head = bytes([kind | (0x80 if final else 0)])
    if size < 126:
        return head + bytes([size]) + payload
    if size < 65_536:
        return head + b"\x7e" + size.to_bytes(2, "big") + payload
    return head + b"\x7f" + size.to_bytes(8, "big") + payload


def test_the_rfcs_own_examples() -> None:
    assert accept_of(b"dGhlIHNhbXBsZSBub25jZQ==") == b"s3pPLMBiTxaQ9kYGzzhZRbK+xOo="  # 1.3
    assert frame(b"Hello", mask=bytes.fromhex("37fa213d")) == bytes.fromhex("818537fa213d7f9f4d5158")  # 5.7
    assert Messages().feed(bytes.fromhex("810548656c6c6f")) == [Message(TEXT, b"Hello")]
    assert Messages().feed(bytes.fromhex("010348656c80026c6f")) == [Message(TEXT, b"Hello")]
    assert Messages().feed(bytes.fromhex("890548656c6c6f")) == [Message(PING, b"Hello")]
    assert Messages().feed(bytes.fromhex("827e0100") + b"x" * 256) == [Message(BINARY, b"x" * 256)]
    assert Messages().feed(bytes.fromhex("827f0000000000010000") + b"x" * 65_536) == [Message(BINARY, b"x" * 65_536)]


@pytest.mark.parametrize("size", [0, 1, 125, 126, 127, 65_535, 65_536, 100_000])
def test_a_frame_says_its_length_in_the_shortest_form_and_hides_its_payload(size: int) -> None:
    payload = bytes(range(256)) * (size // 256 + 1)
    sent = frame(payload[:size], BINARY)
    at = 2 + (0 if size < 126 else 2 if size < 65_536 else 8)
    mask, body = sent[at : at + 4], sent[at + 4 :]
    assert bytes(byte ^ mask[n % 4] for n, byte in enumerate(body)) == payload[:size]
    assert sent[0] == 0x80 | BINARY
    assert sent[1] & 0x80


def test_a_mask_is_a_new_one_each_time() -> None:
    assert len({frame(b"hello") for _ in range(50)}) == 50


MIXED = (
    wire(b"one") + wire(b"tw", final=False) + wire(b"p", PING) + wire(b"", PONG) + wire(b"o\xc3", 0, final=False)
    + wire(b"\xa9", 0) + wire(b"z" * 300, BINARY) + wire(b"\x03\xe8bye", CLOSE)
)  # fmt: skip


@given(st.lists(st.integers(0, len(MIXED)), max_size=12))
def test_messages_are_the_same_in_any_pieces(cuts: list[int]) -> None:
    reader, found = Messages(), []
    places = sorted({0, *cuts, len(MIXED)})
    for a, b in pairwise(places):
        found += reader.feed(MIXED[a:b])
    assert found == [
        Message(TEXT, b"one"), Message(PING, b"p"), Message(PONG, b""), Message(TEXT, "twoé".encode()),
        Message(BINARY, b"z" * 300), Message(CLOSE, b"\x03\xe8bye"),
    ]  # fmt: skip
    assert not reader.within


@pytest.mark.parametrize(
    "data, why",
    [
        (frame(b"x", mask=b"mask"), "a masked frame"),
        (b"\xc1\x01x", "reserved bit"),
        (b"\x83\x01x", "an opcode that is none"),
        (b"\x8b\x01x", "an opcode that is none"),
        (wire(b"x", 0), "a continuation of nothing"),
        (wire(b"x", final=False) + wire(b"y"), "a new message within another"),
        (wire(b"x", PING, final=False), "a control frame in pieces"),
        (b"\x89\x7e\x00\x80" + b"x" * 128, "over 125 bytes"),
        (b"\x81\x7e\x00\x05hello", "written too long"),
        (b"\x81\x7f\x00\x00\x00\x00\x00\x00\x00\x05hello", "written too long"),
        (wire(b"\xff\xfe"), "no UTF-8"),
        (wire(b"\xc3", final=False) + wire(b"x", 0), "no UTF-8"),
        (b"\x81\x7f" + (MESSAGE_CAP_BYTES + 1).to_bytes(8, "big"), "a message over 16 MB"),
        (b"\x81\x7f\xff\xff\xff\xff\xff\xff\xff\xff", "a message over 16 MB"),
    ],
)
def test_what_no_server_may_send_is_malformed(data: bytes, why: str) -> None:
    with pytest.raises(Malformed, match=why):
        Messages().feed(data)


def test_many_small_pieces_of_one_message_have_the_cap_too() -> None:
    reader = Messages()
    reader.feed(wire(b"x", BINARY, final=False))
    with pytest.raises(Malformed, match="16 MB"):
        for _ in range(20):
            reader.feed(wire(b"x" * (1 << 20), 0, final=False))


def test_a_close_has_a_code_or_none() -> None:
    assert close_code(b"\x03\xe8bye") == 1000
    assert close_code(b"") is None
    with pytest.raises(Malformed):
        close_code(b"\x03")


def test_a_control_frame_that_has_begun_is_no_message() -> None:
    reader = Messages()
    for byte in wire(b"beat", PING)[:-1]:
        assert reader.feed(bytes([byte])) == []
        assert not reader.within
    assert reader.feed(b"t") == [Message(PING, b"beat")]
    reader.feed(wire(b"half")[:1])
    assert reader.within
