"""How arguments are read, and how a schema is closed."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drillmaster.adapters.worker._schemas import Schemas
from drillmaster.rules.tool_calls import overlay, read

CAP = 1_000


@pytest.mark.parametrize(
    "said",
    [
        '{"a": 1, "a": 2}',
        '{"a": {"b": 1, "b": 1}}',
        '{"a": 1, "\\u0061": 2}',
        '{"a": NaN}',
        '{"a": Infinity}',
        '{"a": 1e999}',
        '{"a": 9007199254740993}',
        '{"a": "\\ud800"}',
        '{"a": 1',
        '{"a": 1} {"b": 2}',
        "{'a': 1}",
        "[1]",
        '"a"',
        "null",
        "",
        " ",
        "[" * 100_000,
        b"\xff\xfe{}",
        b'\xef\xbb\xbf{"a": 1}',
        '{"a": "' + "x" * CAP + '"}',
        "\ud800",
        None,
        5,
        ["a"],
        {1: 2},
        {"a": float("nan")},
        {"a": float("inf")},
        {"a": 2**53},
        {"a": 10**5_000},  # more digits than Python writes down
        {"a": "\ud800"},
        {"a": {1, 2}},
        {"a": b"bytes"},
        {"a": "x" * CAP},
    ],
)
def test_what_two_readers_could_take_for_two_things_is_not_read(said: object) -> None:
    assert read(said, cap_bytes=CAP).value is None


def test_what_is_not_read_is_counted_all_the_same() -> None:
    assert read("x" * 5_000, cap_bytes=CAP).bytes == 5_000
    assert read({"a": "x" * 5_000}, cap_bytes=CAP).bytes > CAP


def test_an_object_that_contains_itself_is_not_read() -> None:
    loop: dict[str, Any] = {}
    loop["a"] = loop
    assert read(loop, cap_bytes=CAP).value is None


def test_what_was_read_is_another_object_than_the_callers() -> None:
    given_ = {"a": [1]}
    got = read(given_, cap_bytes=CAP).value
    given_["a"].append(2)
    assert got == {"a": [1]}


def faults(schema: Any, value: Any) -> tuple[int, int] | None:
    return Schemas().faults(("x",), schema, value)


PATH: dict[str, Any] = {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}
NESTED = {"type": "object", "properties": {"at": {"type": "object", "properties": {"line": {"type": "integer"}}}}}
BY_REF = {
    "type": "object",
    "properties": {"a": {"$ref": "#/$defs/p"}},
    "$defs": {"p": {"type": "object", "properties": {"x": {"type": "integer"}}}},
}
ALL_OF = {"type": "object", "allOf": [PATH, {"properties": {"n": {"type": "integer"}}, "additionalProperties": True}]}
LISTED = {"type": "object", "properties": {"l": {"type": "array", "items": PATH}}}
PAIR = {"$schema": "http://json-schema.org/draft-07/schema#", "type": "object", "properties": {"l": {"items": [PATH]}}}
NEEDS = {
    "$schema": "http://json-schema.org/draft-07/schema#",
    "type": "object",
    "properties": {"a": {"type": "string"}, "b": {"type": "string"}},
    "dependencies": {"a": ["b"]},
}

IF = PATH | {
    "if": {"properties": {"path": {"const": "a"}, "mode": {}}},
    "then": {"properties": {"line": {"type": "integer"}}},
    "else": {"properties": {"mode": {"type": "string"}}},
}


def labels(**more: Any) -> dict[str, Any]:
    """A schema whose `l` takes any name."""
    return {
        "type": "object",
        "properties": {"l": {"type": "object", "additionalProperties": {"type": "string"}, **more}},
    }


@pytest.mark.parametrize(
    ("schema", "value", "wanted"),
    [
        (PATH, {"path": "a"}, (0, 0)),
        (PATH, {"path": "a", "mode": "w"}, (1, 0)),  # open as the server wrote it
        (PATH | {"additionalProperties": True}, {"path": "a", "mode": "w"}, (1, 0)),
        (PATH | {"additionalProperties": {}}, {"path": "a", "mode": "w"}, (1, 0)),
        (PATH | {"additionalProperties": {"description": "any"}}, {"path": "a", "mode": "w"}, (1, 0)),
        (PATH | {"unevaluatedProperties": True}, {"path": "a", "mode": "w"}, (1, 0)),
        (NESTED, {"at": {"line": 1}}, (0, 0)),
        (NESTED, {"at": {"line": 1, "col": 2}}, (1, 0)),
        (BY_REF, {"a": {"x": 1}}, (0, 0)),
        (BY_REF, {"a": {"x": 1, "y": 2}}, (1, 0)),
        (ALL_OF, {"path": "a", "n": 1}, (0, 0)),
        (ALL_OF, {"path": "a", "n": 1, "z": 1}, (1, 0)),
        (LISTED, {"l": [{"path": "a"}]}, (0, 0)),
        (LISTED, {"l": [{"path": "a", "z": 1}]}, (1, 0)),
        (PAIR, {"l": [{"path": "a"}]}, (0, 0)),
        (PAIR, {"l": [{"path": "a", "z": 1}]}, (1, 0)),
        (NEEDS, {"a": "x", "b": "y"}, (0, 0)),
        (NEEDS, {"a": "x"}, (0, 1)),
        (labels(), {"l": {"env": "prod"}}, (1, 0)),  # a name that nobody wrote down, whatever its value is
        (labels(propertyNames={"pattern": "."}), {"l": {"env": "prod"}}, (1, 0)),
        (labels(propertyNames={"pattern": "^[a-z]{1,9}$"}), {"l": {"env": "prod"}}, (0, 0)),
        (labels(propertyNames={"pattern": "^[a-z]{1,9}$"}), {"l": {"ENV": "prod"}}, (1, 0)),
        (labels(propertyNames={"enum": ["env"]}), {"l": {"env": 1}}, (0, 1)),
        (labels(additionalProperties={"anyOf": [{}]}), {"l": {"env": 1}}, (1, 0)),
        (PATH | {"patternProperties": {"": {}}}, {"path": "a", "mode": "w"}, (1, 0)),
        (PATH | {"patternProperties": {"^x-": {}}}, {"path": "a", "x-y": "w"}, (1, 0)),
        (PATH | {"patternProperties": {"^x-[ab]$": {"type": "string"}}}, {"path": "a", "x-a": "w"}, (0, 0)),
        ({"type": "object", "properties": {"x": {}}}, {"x": {"y": 1}}, (1, 0)),
        # what no schema describes may hold values, and no names
        ({"type": "object", "properties": {"x": True}}, {"x": {"y": 1}}, (1, 0)),
        ({"type": "object", "properties": {"x": True}}, {"x": [1, [2, {}]]}, (0, 0)),
        ({"type": "object", "properties": {"x": {}}}, {"x": [[{"y": 1}]]}, (0, 1)),
        ({"type": "object", "properties": {"x": {"type": "array"}}}, {"x": [{"y": 1}]}, (0, 1)),
        ({"type": "object", "properties": {"x": {"items": True}}}, {"x": [{"y": 1}]}, (1, 0)),
        ({"type": "object", "properties": {"x": {"prefixItems": [{}]}}}, {"x": [1, {"y": 1}]}, (0, 1)),
        ({"type": "object", "properties": {"x": {"unevaluatedItems": True}}}, {"x": [{"y": 1}]}, (0, 1)),
        ({"type": "object", "properties": {"x": {"contains": {"type": "object"}}}}, {"x": [{"y": 1}]}, (0, 2)),
        ({"type": "object", "properties": {"x": {"contains": PATH}}}, {"x": [1, {"path": "a"}]}, (0, 0)),
        ({"type": "object", "properties": {"x": {"allOf": [{"items": PATH}]}}}, {"x": [{"path": "a"}]}, (0, 0)),
        (PAIR, {"l": [{"path": "a"}, {"y": 1}]}, (0, 1)),
        (PAIR, {"l": [{"path": "a"}, 5]}, (0, 0)),
        # what is written out whole has the names that are in it
        ({"type": "object", "properties": {"x": {"const": {"y": 1}}}}, {"x": {"y": 1}}, (0, 0)),
        ({"type": "object", "properties": {"x": {"enum": [{"y": 1}, [{"z": 1}]]}}}, {"x": [{"z": 1}]}, (0, 0)),
        ({"type": "object", "properties": {"x": {"enum": [{"y": 1}]}}}, {"x": {"y": 1, "z": 2}}, (0, 1)),
        # an `if` decides, and makes no name known
        (PATH | {"if": {"additionalProperties": True}}, {"path": "a", "mode": "w"}, (1, 0)),
        (IF, {"path": "a", "mode": "w"}, (1, 0)),
        (IF, {"path": "b", "mode": "w"}, (0, 0)),
        (IF, {"path": "a", "line": 1}, (0, 0)),
        (IF, {"path": "b", "line": 1}, (1, 0)),
    ],
)
def test_a_schema_is_closed_wherever_it_was_left_open(schema: Any, value: Any, wanted: tuple[int, int]) -> None:
    assert faults(schema, value) == wanted


def test_closing_a_branch_lets_in_nothing_that_the_signed_schema_refuses() -> None:
    a = {"properties": {"k": {"type": "object", "properties": {"x": {"type": "integer"}}}}}
    b = {"properties": {"k": {"type": "object", "properties": {"x": {"type": "integer"}, "y": {"type": "integer"}}}}}
    schema = {"type": "object", "oneOf": [a, b]}
    assert faults(schema, {"k": {"x": 1, "y": 1}}) == (0, 1)  # both fit as signed; closed, only one does


def test_what_is_negated_is_not_closed() -> None:
    schema = PATH | {"not": {"properties": {"path": {"type": "object", "properties": {}}}, "required": ["mode"]}}
    assert overlay(schema)["not"] == schema["not"]


@pytest.mark.parametrize(
    "schema",
    [
        None,
        True,
        {"type": "strng"},
        {"type": "object", "properties": {"a": {"$ref": "https://example.com/s.json"}}},
        {"type": "object", "properties": {"a": {"$ref": "file:///etc/passwd"}}},
        {"type": "object", "properties": {"a": {"$ref": "#/$defs/none"}}},
        {"type": "object", "properties": {"a": {"pattern": "(a"}}},
    ],
)
def test_a_schema_that_cannot_be_used_offline_is_told(schema: Any) -> None:
    assert faults(schema, {"a": "b"}) is None


EMAIL = r"^(?!\.)(?!.*\.\.)([A-Za-z0-9_'+\-\.]*)[A-Za-z0-9_+-]@([A-Za-z0-9][A-Za-z0-9\-]*\.)+[A-Za-z]{2,}$"  # as zod writes it
RUNAWAY = r"^(a|aa)+\1?(?=b)c$"


def test_a_pattern_that_looks_around_is_tried_within_bounds() -> None:
    schema = {"type": "object", "properties": {"a": {"type": "string", "pattern": EMAIL}}}
    assert faults(schema, {"a": "ada@example.com"}) == (0, 0)
    assert faults(schema, {"a": ".ada@example.com"}) == (0, 1)


@pytest.mark.parametrize("inner", [{"pattern": RUNAWAY}, {"not": {"pattern": RUNAWAY}}])
def test_a_pattern_that_runs_away_fits_nothing(inner: Any) -> None:
    schema = {"type": "object", "properties": {"a": {"type": "string", **inner}}}
    told = faults(schema, {"a": "a" * 60 + "b"})
    assert told is not None
    assert told[1] > 0


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.text("ab", max_size=2),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abcxyz"), inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(st.sampled_from("abcxyz"), JSON, max_size=4))
def test_no_name_that_nobody_wrote_down_gets_through(value: dict[str, Any]) -> None:
    schema = {"type": "object", "properties": {"a": {}, "b": {"type": "object", "properties": {"c": {"type": "null"}}}}}
    if faults(schema, value) == (0, 0):
        assert set(value) <= {"a", "b"}
        assert set(value.get("b", {})) <= {"c"}
        assert not named(value.get("a"))


def named(value: Any) -> bool:
    """Whether a value has a name in it, however deep."""
    return any(map(named, value)) if isinstance(value, list) else isinstance(value, dict) and bool(value)
