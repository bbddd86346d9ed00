from enum import Enum
from typing import Annotated, Any, Literal

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Meta

from drillmaster.strict.fit import fit, near
from drillmaster.strict.malformed import Malformed, pointer


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


class Loose(msgspec.Struct):
    """Says nothing about unknown fields; they are refused all the same."""

    n: int
    inner: "Loose | None" = None


class Even(msgspec.Struct, frozen=True):
    n: int

    def __post_init__(self) -> None:
        if self.n % 2:
            raise ValueError("an even number")


class Cut(msgspec.Struct, frozen=True, tag="cut", forbid_unknown_fields=True):
    after_bytes: Annotated[int, Meta(ge=1)]


class Stall(msgspec.Struct, frozen=True, tag="stall", forbid_unknown_fields=True):
    hold_s: float


class Renamed(msgspec.Struct, rename="kebab"):
    max_size: int


@pytest.mark.parametrize(
    ("value", "type_", "where", "found", "wanted", "remedy"),
    [
        # rule 6: exactly
        (True, int, "", "true", "a whole number", "change"),
        (False, float, "", "false", "a number", "change"),
        (1, bool, "", "1", "true or false", "change"),
        ("5", int, "", 'text "5"', "a whole number", "write 5 without quotes"),
        ("5.5", float, "", 'text "5.5"', "a number", "write 5.5 without quotes"),
        (5.0, int, "", "5.0", "a whole number", "write 5"),
        (5.5, int, "", "5.5", "a whole number", "change"),
        (5, str, "", "5", "text", 'put it in double quotes: "5"'),
        (True, str, "", "true", "text", 'put it in double quotes: "true"'),
        (None, int, "", "nothing (null)", "a whole number", "write the value"),
        (None, list[int], "", "nothing (null)", "a list", "write the value"),
        (0, None, "", "0", "null", "change"),
        ({"a": 1}, list[int], "", "an object with 1 field", "a list", "change"),
        ([1], dict[str, int], "", "a list of 1", "an object (name: value)", "change"),
        ("x", list[str], "", 'text "x"', "a list", "write it as a list"),
        ([1, 2, "3"], list[int], "/2", 'text "3"', "a whole number", "write 3 without quotes"),
        ([1], tuple[int, int], "", "a list of 1", "a list of exactly 2", "change"),
        ({"a": {"b": True}}, dict[str, dict[str, int]], "/a/b", "true", "a whole number", "change"),
        # bounds
        (0, Annotated[int, Meta(gt=0, le=9)], "", "0", "a whole number > 0 and <= 9", "change"),
        (1.5, Annotated[float, Meta(ge=0, lt=1)], "", "1.5", "a number >= 0 and < 1", "change"),
        ("", Annotated[str, Meta(min_length=1)], "", "empty text", "text of at least 1 character", "change"),
        ("abc", Annotated[str, Meta(pattern="^[0-9]+$")], "", 'text "abc"', "text that matches ^[0-9]+$", "change"),
        ([], Annotated[list[int], Meta(min_length=1)], "", "an empty list", "a list of at least 1 item", "change"),
        ({}, Annotated[dict[str, int], Meta(min_length=1)], "", "an empty object", "an object (name: value) of at least",
         "change"),
        # words
        ("falt", Literal["fault", "run"], "", 'text "falt"', "one of fault, run", "Did you mean fault?"),
        (1, Literal["fault", "run"], "", "1", "one of fault, run", "change"),
        (True, Literal[1, 2], "", "true", "one of 1, 2", "change"),
        ("gren", Colour, "", 'text "gren"', "one of red, blue", "change"),
        ("Blue", Colour, "", 'text "Blue"', "one of red, blue", "Did you mean blue?"),
        # unions
        ("5", int | None, "", 'text "5"', "a whole number or null", "write 5 without quotes"),
        ([], int | str, "", "an empty list", "a whole number or text", "change"),
        ({"type": "ctu", "after_bytes": 1}, Cut | Stall, "/type", 'text "ctu"', "one of cut, stall", "Did you mean cut?"),
        ({"after_bytes": 1}, Cut | Stall, "/type", "nothing", "one of cut, stall", "add type"),
        ({"after_bytes": 1}, Cut, "/type", "nothing", "cut", "add type"),
        ({"type": "cut", "after_bytes": 0}, Cut | Stall, "/after_bytes", "0", "a whole number >= 1 (bytes)", "change"),
        ({"type": ["cut"], "after_bytes": 0}, Cut | Stall, "/type", "a list of 1", "one of cut, stall", "write one"),
        ("cut", Cut | Stall, "", 'text "cut"', "an object with after_bytes or an object with hold_s", "check"),
        # fields
        ({}, Loose, "/n", "nothing", "a whole number", "add n"),
        ({"n": 1, "m": 2}, Loose, "/m", 'the unknown field "m"', "only n, inner", "delete it"),
        ({"n": 1, "inner": {"n": 1, "iner": None}}, Loose, "/inner/iner", "the unknown field", "only n, inner",
         "Did you mean inner?"),
        ({"n": 1, "inner": {"n": None}}, Loose, "/inner/n", "nothing (null)", "a whole number", "give n a value"),
        ({"max_size": 1}, Renamed, "/max_size", "the unknown field", "only max-size", "Did you mean max-size?"),
        ({"n": 3}, Even, "", "an object with 1 field", "an even number", "mend"),
        ([{"n": 2}, {"n": 3}], list[Even], "/1", "an object with 1 field", "an even number", "mend"),
        # units
        ({"type": "stall", "hold_s": "60s"}, Stall, "/hold_s", 'text "60s"', "a number (seconds)", "write 60: the unit"),
        ({"type": "stall", "hold_s": "15 min"}, Stall, "/hold_s", "text", "a number (seconds)", "write 900: the unit"),
        ({"budget": "1 %"}, dict[str, float], "/budget", 'text "1 %"', "a number", "write 0.01, a share of 1"),
        ({"every_ms": "2s"}, dict[str, float], "/every_ms", "text", "a number (milliseconds)", "write 2000: the unit"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_named(value: Any, type_: Any, where: str, found: str, wanted: str, remedy: str) -> None:
    with pytest.raises(Malformed) as caught:
        fit(value, type_)
    fault = caught.value
    assert pointer(fault.path) == where
    assert found in fault.found
    assert fault.wanted.startswith(wanted)
    assert fault.remedy.startswith(remedy)


@pytest.mark.parametrize(
    ("value", "type_", "result"),
    [
        (5, float, 5.0),
        ([1, 2], tuple[int, ...], (1, 2)),
        ("red", Colour, Colour.RED),
        ({"type": "stall", "hold_s": 1}, Cut | Stall, Stall(1.0)),
        ({"a": [None, True, "x"]}, Any, {"a": [None, True, "x"]}),
        ({"max-size": 1}, Renamed, Renamed(1)),
        (None, Cut | None, None),
        ([1, "a"], tuple[int, str], (1, "a")),
    ],
)
def test_what_fits_becomes_the_type(value: Any, type_: Any, result: object) -> None:
    assert fit(value, type_) == result


plain = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-3, 3)
    | st.floats(-2, 2)
    | st.sampled_from(["cut", "stall", "red", "5", ""]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["type", "after_bytes", "hold_s", "n", "inner", "x"]), inner, max_size=3)
    ),
    max_leaves=8,
)


@given(
    plain, st.sampled_from([int, float, str, Loose, Cut, Cut | Stall, Even, Colour, list[Cut | None], dict[str, Loose]])
)
def test_any_value_fits_or_is_malformed_and_what_fits_is_what_msgspec_takes(value: Any, type_: Any) -> None:
    try:
        got = fit(value, type_)
    except Malformed as fault:
        assert fault.found
        assert fault.wanted
        assert fault.remedy
    else:
        assert got == msgspec.convert(value, type_, strict=True)


@pytest.mark.parametrize(
    ("word", "meant"),
    [("falt", "fault"), ("FAULT", "fault"), ("max-fallback-s", "max_fallback_s"), ("x", None), ("zzzzz", None)],
)
def test_a_near_miss_is_found_and_a_far_one_is_not(word: str, meant: str | None) -> None:
    assert near(word, ["fault", "run", "max_fallback_s"]) == meant


class Bounded(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    low: int
    high: int

    def __post_init__(self) -> None:
        if self.low > self.high:
            raise ValueError("low is over high")


class Table(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    rows: dict[str, Bounded]


def test_what_a_type_itself_objects_to_is_named_by_its_key() -> None:
    with pytest.raises(Malformed) as caught:
        fit({"rows": {"a": {"low": 1, "high": 2}, "b": {"low": 3, "high": 2}}}, Table)
    assert caught.value.path == ("rows", "b")
    assert "low is over high" in str(caught.value)
