import json
import struct

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from drillmaster.errors import Problem
from drillmaster.strict import canonical, digest, digest_bytes

# RFC 8785, appendix B, and its neighbours: the bits of the double, and what ECMAScript writes.
NUMBERS = [
    ("0000000000000000", "0"),
    ("8000000000000000", "0"),
    ("0000000000000001", "5e-324"),
    ("8000000000000001", "-5e-324"),
    ("7fefffffffffffff", "1.7976931348623157e+308"),
    ("ffefffffffffffff", "-1.7976931348623157e+308"),
    ("4340000000000000", "9007199254740992"),
    ("c340000000000000", "-9007199254740992"),
    ("4430000000000000", "295147905179352830000"),
    ("44b52d02c7e14af5", "9.999999999999997e+22"),
    ("44b52d02c7e14af6", "1e+23"),
    ("44b52d02c7e14af7", "1.0000000000000001e+23"),
    ("444b1ae4d6e2ef4e", "999999999999999700000"),
    ("444b1ae4d6e2ef4f", "999999999999999900000"),
    ("444b1ae4d6e2ef50", "1e+21"),
    ("3eb0c6f7a0b5ed8c", "9.999999999999997e-7"),
    ("3eb0c6f7a0b5ed8d", "0.000001"),
    ("41b3de4355555553", "333333333.3333332"),
    ("41b3de4355555554", "333333333.33333325"),
    ("41b3de4355555555", "333333333.3333333"),
    ("41b3de4355555556", "333333333.3333334"),
    ("41b3de4355555557", "333333333.33333343"),
    ("becbf647612f3696", "-0.0000033333333333333333"),
    ("43143ff3c1cb0959", "1424953923781206.2"),
]


@pytest.mark.parametrize(("bits", "text"), NUMBERS)
def test_a_double_is_written_as_ecmascript_writes_it(bits: str, text: str) -> None:
    (value,) = struct.unpack(">d", bytes.fromhex(bits))
    assert canonical(value) == text.encode()


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (4.50, "4.5"),
        (2e-3, "0.002"),
        (1e21, "1e+21"),
        (1e-7, "1e-7"),
        (1e30, "1e+30"),
        (1e-27, "1e-27"),
        (333333333.33333329, "333333333.3333333"),
        (100.0, "100"),
        (5, "5"),
        (-(2**53) + 1, "-9007199254740991"),
        (True, "true"),
        (None, "null"),
        ('\u20ac$\u000f\nA\'B"\\\\"/\x7f\u2028', '"\u20ac$\\u000f\\nA\'B\\"\\\\\\\\\\"/\x7f\u2028"'),
        ("\b\t\n\f\r\x00\x1f", '"\\b\\t\\n\\f\\r\\u0000\\u001f"'),
        ([], "[]"),
        ({}, "{}"),
        ((1, [2, {"b": 3, "a": 4}]), '[1,[2,{"a":4,"b":3}]]'),
        # RFC 8785, section 3.2.3: by UTF-16 code units
        (
            {"\u20ac": 1, "\r": 2, "\ufb33": 3, "1": 4, "\U0001f600": 5, "\x80": 6, "\u00f6": 7},
            '{"\\r":2,"1":4,"\x80":6,"\u00f6":7,"\u20ac":1,"\U0001f600":5,"\ufb33":3}',
        ),
    ],
)
def test_a_value_is_written_as_rfc_8785_says(value: object, text: str) -> None:
    assert canonical(value) == text.encode()


class Part(msgspec.Struct):
    b: int
    a: tuple[float, ...]


def test_structs_are_written_as_objects_wherever_they_stand() -> None:
    assert canonical(Part(1, (0.5,))) == b'{"a":[0.5],"b":1}'
    assert canonical({"x": [Part(1, ())]}) == b'{"x":[{"a":[],"b":1}]}'


NESTED: list[object] = []
for _ in range(100):
    NESTED = [NESTED]


@pytest.mark.parametrize(
    ("value", "place"),
    [
        (float("nan"), "canonical bytes"),
        ({"a": [float("inf")]}, "canonical bytes: /a/0"),
        pytest.param(10**5_000, "canonical bytes", id="more digits than Python writes out"),
        (2**53, "canonical bytes"),
        ({"a": -(2**53)}, "canonical bytes: /a"),
        ("\ud800", "canonical bytes"),
        ({"\ud800": 1}, "canonical bytes"),
        ({1: 2}, "canonical bytes"),
        (b"bytes", "canonical bytes"),
        ({"a": {1, 2}}, "canonical bytes: /a"),
        (Part(1, (float("nan"),)), "canonical bytes: /a/0"),
        (NESTED, "canonical bytes: /0/0/0"),
    ],
)
def test_what_two_readers_could_take_for_different_things_is_refused(value: object, place: str) -> None:
    with pytest.raises(Problem) as caught:
        canonical(value)
    assert caught.value.place == place


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_any_double_reads_back_as_itself(value: float) -> None:
    assert float(canonical(value)) == value


@given(st.dictionaries(st.text(max_size=3), st.integers(0, 9), max_size=6))
def test_the_order_in_which_an_object_was_made_does_not_show(value: dict[str, int]) -> None:
    backwards = dict(reversed(value.items()))
    try:
        written = canonical(value)
    except Problem:
        return  # a lone surrogate
    assert canonical(backwards) == written
    assert json.loads(written) == value


def test_a_digest_is_over_canonical_bytes_and_says_its_kind() -> None:
    assert digest({"b": 1, "a": 2.0}) == digest_bytes(b'{"a":2,"b":1}')
    assert digest_bytes(b"") == "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
