"""The law of a closed schema."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drillmaster.rules.schema_open import faults, properties

TEXT = {"type": "string", "minLength": 1}


def closed(**over: Any) -> dict[str, Any]:
    """The schema of the article, with one thing changed; None drops a field."""
    base = {"type": "object", "additionalProperties": False, "properties": {"path": TEXT}, "required": ["path"]}
    return {name: value for name, value in (base | over).items() if value is not None}


def holding(inner: Any, **over: Any) -> dict[str, Any]:
    return closed(properties={"path": inner}, **over)


NESTED = {"type": "object", "properties": {"a": TEXT}, "required": ["a"], "additionalProperties": False}


def without(schema: dict[str, Any], name: str) -> dict[str, Any]:
    return {one: value for one, value in schema.items() if one != name}


OPEN: dict[str, tuple[Any, str]] = {
    "no schema": (None, "shape"),
    "true": (True, "shape"),
    "false": (False, "shape"),
    "a list": ([], "shape"),
    "text": ("object", "shape"),
    "a number": (7, "shape"),
    "nothing said": ({}, "type"),
    "a text, not an object": ({"type": "string"}, "type"),
    "a list of types": (closed(type=["object"]), "type"),
    "an object or nothing": (closed(type=["object", "null"]), "type"),
    "a type in capitals": (closed(type="Object"), "type"),
    "a type that is null": (closed() | {"type": None}, "type"),
    "more properties not spoken of": (closed(additionalProperties=None), "open"),
    "more properties are true": (closed(additionalProperties=True), "open"),
    "more properties are anything": (closed(additionalProperties={}), "open"),
    "more properties are a word": (closed(additionalProperties="false"), "open"),
    "more properties are a number": (closed(additionalProperties=0), "open"),
    "more properties are null": (closed() | {"additionalProperties": None}, "open"),
    "more properties are texts": (closed(additionalProperties=TEXT), "open"),
    "more properties are anything by comment": (closed(additionalProperties={"description": "more"}), "open"),
    "in capitals": (closed(additionalProperties=None) | {"AdditionalProperties": False}, "open"),
    "unevaluated is true": (closed(unevaluatedProperties=True), "open"),
    "unevaluated alone is true": (closed(additionalProperties=None, unevaluatedProperties=True), "open"),
    "any name by a pattern": (closed(patternProperties={".*": TEXT}), "open"),
    "any name by no pattern": (closed(patternProperties={"": TEXT}), "open"),
    "names that begin so": (closed(patternProperties={"^x-": TEXT}), "open"),
    "names that end so": (closed(patternProperties={"_id$": TEXT}), "open"),
    "anchored and any": (closed(patternProperties={"^.+$": TEXT}), "open"),
    "anchored and all but": (closed(patternProperties={"^[^a]+$": TEXT}), "open"),
    "anchored and from ASCII to beyond it": (closed(patternProperties={r"^[0-\uffff]+$": TEXT}), "open"),
    "anchored and all but the first": (closed(patternProperties={r"^[1-\u{10ffff}]+$": TEXT}), "open"),
    "anchored and any by its kinds": (closed(patternProperties={r"^[\p{L}\p{P}\p{Zs}\p{N}]+$": TEXT}), "open"),
    "anchored and any sign": (closed(patternProperties={r"^\pS+$": TEXT}), "open"),
    "anchored and no space": (closed(patternProperties={r"^\S+$": TEXT}), "open"),
    "anchored at one end each": (closed(patternProperties={"^a|b$": TEXT}), "open"),
    "an end that is escaped": (closed(patternProperties={r"^a\$": TEXT}), "open"),
    "anything by a good pattern": (closed(patternProperties={"^a$": {}}), "any"),
    "nested open object": (holding(without(NESTED, "additionalProperties")), "open"),
    "nested twice": (holding(NESTED | {"properties": {"a": {"type": "object"}}}), "open"),
    "nested in a list": (holding({"type": "array", "items": without(NESTED, "additionalProperties")}), "open"),
    "nested in an alternative": (holding({"anyOf": [TEXT, without(NESTED, "additionalProperties")]}), "open"),
    "nested map": (holding({"type": "object", "additionalProperties": {"type": "string"}}), "open"),
    "an object among types": (holding({"type": ["string", "object"]}), "open"),
    "every type": (holding({"type": ["array", "boolean", "null", "number", "object", "string"]}), "open"),
    "a list among types": (holding({"type": ["string", "array"]}), "any"),
    "nested required is empty": (holding(NESTED | {"required": []}), "required-empty"),
    "required is empty": (closed(required=[]), "required-empty"),
    "required is empty, no property": (closed(properties={}, required=[]), "required-empty"),
    "required is absent": (closed(required=None), "required-missing"),
    "required is a word": (closed(required="path"), "required-shape"),
    "required is true": (closed(required=True), "required-shape"),
    "required is an object": (closed(required={"path": True}), "required-shape"),
    "required is null": (closed() | {"required": None}, "required-shape"),
    "required holds a number": (closed(required=["path", 1]), "required-shape"),
    "required twice": (closed(required=["path", "path"]), "required-shape"),
    "required of nothing known": (closed(required=["path", "mode"]), "required-unknown"),
    "required in another case": (closed(required=["Path"]), "required-unknown"),
    "required and no properties": (closed(properties=None), "required-unknown"),
    "required of a property, in the property": (holding(TEXT | {"required": True}), "required-shape"),
    "an alternative that is anything": (holding({"anyOf": [{}]}), "any"),
    "one alternative that is anything": (holding({"anyOf": [TEXT, {}]}), "any"),
    "an alternative that is true": (holding({"oneOf": [TEXT, True]}), "any"),
    "all of nothing": (holding({"allOf": [{"description": "x"}]}), "any"),
    "no alternatives": (holding({"anyOf": []}), "any"),
    "alternatives of the whole": (closed(additionalProperties=None, anyOf=[{}, {}]), "open"),
    "not this, so anything else": (holding({"not": {"type": "null"}}), "any"),
    "if nothing": (holding({"if": {"type": "string"}, "then": {"minLength": 1}}), "any"),
    "a list of anything": (holding({"type": "array", "items": {}}), "any"),
    "a list of true": (holding({"type": "array", "items": True}), "any"),
    "a list, no more": (holding({"type": "array"}), "any"),
    "a list that holds one": (holding({"type": "array", "contains": TEXT}), "any"),
    "a pair and more": (holding({"type": "array", "prefixItems": [TEXT]}), "any"),
    "an old pair and more": (holding({"type": "array", "items": [TEXT]}), "any"),
    "an old pair and anything": (holding({"type": "array", "items": [{}], "additionalItems": False}), "any"),
    "a list of lists": (holding({"type": "array", "items": {"type": "array"}}), "any"),
    "a property that is true": (holding(True), "any"),
    "a property that is nothing": (holding({}), "any"),
    "a property with words alone": (holding({"description": "any path", "title": "Path", "default": None}), "any"),
    "a property that is null": (holding(None), "shape"),
    "a property that is a word": (holding("string"), "shape"),
    "a misspelled type": (holding({"type": "strng"}), "type"),
    "a misspelled type in a choice": (holding({"anyOf": [{"type": "str"}, {"type": "null"}]}), "type"),
    "a type that is a number": (holding({"type": 1}), "type"),
    "no types at all": (holding({"type": []}), "type"),
    "any as a type": (holding({"type": "any"}), "type"),
    "properties are a list": (closed(properties=["path"]), "shape"),
    "properties are null": (closed() | {"properties": None}, "shape"),
    "a length that is text": (holding({"type": "string", "minLength": "1"}), "shape"),
    "a length that is a half": (holding({"type": "string", "maxLength": 1.5}), "shape"),
    "a length under 0": (holding({"type": "string", "minLength": -1}), "shape"),
    "a length that is true": (holding({"type": "string", "minLength": True}), "shape"),
    "a least that is text": (holding({"type": "integer", "minimum": "0"}), "shape"),
    "a pattern that is a list": (holding({"type": "string", "pattern": ["a"]}), "shape"),
    "a description that is an object": (holding({"type": "string", "description": {}}), "shape"),
    "unique by a word": (holding({"type": "array", "items": TEXT, "uniqueItems": "yes"}), "shape"),
    "a misspelled word": (closed(requierd=["path"]), "shape"),
    "a word in another case": (holding({"type": "string", "minlength": 1}), "shape"),
    "a note for a reviewer": (closed(draft_note="let it write"), "shape"),
    "a note below": (holding(TEXT | {"draft_note": "x"}), "shape"),
    "a URL": (closed(url="https://a.example"), "shape"),
    "an empty choice": (holding({"enum": []}), "shape"),
    "a choice that is a word": (holding({"enum": "a"}), "shape"),
    "a remote reference": (holding({"$ref": "https://example.com/s.json"}), "reference"),
    "a remote reference to a part": (holding({"$ref": "https://example.com/s.json#/x"}), "reference"),
    "a reference to a file": (holding({"$ref": "file:///etc/passwd"}), "reference"),
    "a relative reference": (holding({"$ref": "other.json#/$defs/a"}), "reference"),
    "a reference by name": (holding({"$ref": "urn:x:y"}), "reference"),
    "a remote reference for the whole": ({"type": "object", "$ref": "https://example.com/s"}, "reference"),
    "a remote reference in a condition": (closed(**{"if": {"$ref": "//example.com/s"}}), "reference"),
    "a remote reference under not": (holding(TEXT | {"not": {"$ref": "http://example.com"}}), "reference"),
    "a remote reference in dependentSchemas": (closed(dependentSchemas={"path": {"$ref": "http://a.example"}}), "reference"),
    "a remote reference that nothing leads to": (closed(**{"$defs": {"a": {"$ref": "https://a.example"}}}), "reference"),
    "a misspelled type that nothing leads to": (closed(definitions={"a": {"items": {"type": "strng"}}}), "type"),
    "a reference to nowhere": (holding({"$ref": "#/$defs/gone"}), "reference"),
    "a reference to no schema": (holding({"$ref": "#/required"}), "reference"),
    "a reference that is a number": (holding({"$ref": 5}), "reference"),
    "a reference to an anchor that is not": (holding({"$ref": "#gone"}), "reference"),
    "a dynamic reference": (holding({"$dynamicRef": "#node", "type": "string"}), "reference"),
    "an id below the top": (holding(TEXT | {"$id": "https://example.com/inner"}), "reference"),
    "a reference to an open object": (holding({"$ref": "#/$defs/a"}, **{"$defs": {"a": {"type": "object"}}}), "open"),
    "a reference to anything": (holding({"$ref": "#/$defs/a"}, **{"$defs": {"a": {}}}), "any"),
    "a circle that says nothing": (
        holding({"$ref": "#/$defs/a"}, **{"$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}}),
        "any",
    ),
    "itself": (holding({"$ref": "#/properties/path"}), "any"),
    "closed of what a condition has taken": (
        closed(additionalProperties=None, unevaluatedProperties=False, **{"if": {"additionalProperties": {}}}),
        "open",
    ),
    "closed of what all has taken": (
        closed(additionalProperties=None, unevaluatedProperties=False, allOf=[{"patternProperties": {"": TEXT}}]),
        "open",
    ),
    "closed beside an old reference": (
        {
            "$schema": "http://json-schema.org/draft-07/schema#",
            **holding({"$ref": "#/definitions/a", "additionalProperties": False}),
            "definitions": {"a": {"type": "object"}},
        },
        "open",
    ),
    "a command": (closed(properties={"path": TEXT, "command": {"type": "string"}}), "command"),
    "a command in another spelling": (closed(properties={"path": TEXT, "Shell_Command": {"type": "string"}}), "command"),
    "a command in parts": (
        closed(properties={"path": TEXT, "cmd": {"type": "array", "items": {"type": "string"}}}),
        "command",
    ),
    "a command or nothing": (
        closed(properties={"path": TEXT, "script": {"anyOf": [{"type": "string"}, {"type": "null"}]}}),
        "command",
    ),
    **{
        f"a command named {name}": (closed(properties={"path": TEXT, name: {"type": "string"}}), "command")
        for name in ("command_to_run", "shell-cmd", "bashScript", "python_code", "run_command", "entrypoint", "\u0441ommand")
    },
    **{
        f"names by the class {pattern!r}": (closed(patternProperties={pattern: TEXT}), "open")
        for pattern in (
            "^[ -~]*$", r"^[\x00-\x7f]+$", r"^[\u0000-\uffff]*$", r"^[\w\W]*$", r"^\p{Any}*$",
            "^[ -/0-~]+$", "^[ -/0-9:-@A-Z[-`a-z{-~]+$", "^(?:[a-z]|[A-Z]|[0-9]|[ -/]|[:-@])+$", r"^[\w\s!-/:-@]+$",
            r"^[\x20-\x2f\x30-\x7e]+$", r"^(?:\w|[!-/]|[:-`{-~]|\s)*$",
        )
    },
    **{
        f"a command by a class with operators, {pattern!r}": (
            closed(properties={"path": TEXT, "command": {"type": "string", "pattern": pattern}}), "command",
        )
        for pattern in ("^[a-z ;]+$", "^[a-z |]*$", r"^[\w $]+$", r"^[a-z\x3b ]+$", r"^git [a-z\n]+$", r"^[a-z\s]+$")
    },
    **{
        f"a pattern that does not end, {pattern!r}": (holding({"type": "string", "pattern": pattern}), "shape")
        for pattern in ("(", "[a", "a)", "a\\")
    },
    **{
        f"a property named {name!r}": (closed(properties={"path": TEXT, name: TEXT}), "shape")
        for name in ("", " ", "__proto__", "a\nb")
    },
    "dependencies on a number": (closed(dependencies={"path": 5}), "shape"),
    "a command below": (holding(NESTED | {"properties": {"a": TEXT, "bash": {"type": "string"}}}), "command"),
    "a command with a loose pattern": (
        closed(properties={"path": TEXT, "command": {"type": "string", "pattern": "^git"}}),
        "command",
    ),
}  # fmt: skip  # one case a row


@pytest.mark.parametrize(("schema", "kind"), OPEN.values(), ids=OPEN)
def test_what_is_open_is_named(schema: Any, kind: str) -> None:
    assert kind in {fault.kind for fault in faults(schema)}, faults(schema)


CLOSED: dict[str, Any] = {
    "the article's": closed(),
    "no arguments": {"type": "object", "additionalProperties": False},
    "no arguments, said": {"type": "object", "properties": {}, "additionalProperties": False},
    "closed by what was not evaluated": closed(additionalProperties=None, unevaluatedProperties=False),
    "with a dialect, a title and words": closed(
        **{"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "readArguments", "description": "x"}
    ),
    "with an id at the top": closed(**{"$id": "https://example.com/tool"}),
    "or nothing": holding({"anyOf": [{"type": "string"}, {"type": "null"}], "default": None}),
    "types in a list": holding({"type": ["string", "null"]}),
    "a choice": holding({"enum": ["a", "b"]}),
    "a constant": holding({"const": {"any": "thing"}}),
    "a number in bounds": holding({"type": "integer", "minimum": 1, "maximum": 100}),
    "a list of texts": holding({"type": "array", "items": {"type": "string"}}),
    "a list of objects": holding({"type": "array", "items": NESTED}),
    "a pair": holding({"type": "array", "prefixItems": [TEXT, TEXT], "items": False}),
    "an old pair": holding({"type": "array", "items": [TEXT, TEXT], "additionalItems": False}),
    "an object below": holding(NESTED),
    "an object below, all optional": holding(without(NESTED, "required")),
    "a reference": holding({"$ref": "#/$defs/a"}, **{"$defs": {"a": NESTED}}),
    "a reference by an old word": holding({"$ref": "#/definitions/a"}, definitions={"a": TEXT}),
    "a reference with escapes": holding({"$ref": "#/$defs/a~1b%20c"}, **{"$defs": {"a/b c": TEXT}}),
    "a reference to an anchor": holding({"$ref": "#here"}, **{"$defs": {"a": TEXT | {"$anchor": "here"}}}),
    "a reference in a list of all": holding({"allOf": [{"$ref": "#/$defs/a"}]}, **{"$defs": {"a": NESTED}}),
    "a base and more, closed once": holding(
        {
            "type": "object",
            "allOf": [{"properties": {"a": TEXT}, "required": ["a"]}],
            "properties": {"b": TEXT},
            "unevaluatedProperties": False,
        }
    ),
    "a reference that is closed beside it": holding(
        {"$ref": "#/$defs/a", "unevaluatedProperties": False}, **{"$defs": {"a": {"type": "object", "properties": {}}}}
    ),
    "a tree": holding(
        {"$ref": "#/$defs/node"},
        **{
            "$defs": {
                "node": {
                    "type": "object",
                    "additionalProperties": False,
                    "properties": {"name": TEXT, "below": {"type": "array", "items": {"$ref": "#/$defs/node"}}},
                    "required": ["name"],
                }
            }
        },
    ),
    "the whole again": closed(properties={"path": TEXT, "then": {"$ref": "#"}}),
    "one of two must be given": closed(
        properties={"path": TEXT, "id": TEXT}, required=None, anyOf=[{"required": ["path"]}, {"required": ["id"]}]
    ),
    "a condition": closed(
        properties={"path": TEXT, "mode": {"enum": ["a", "b"]}},
        **{"if": {"properties": {"mode": {"const": "a"}}}, "then": {"required": ["mode"]}, "else": True},
    ),
    "not that value": holding(TEXT | {"not": {"const": "/"}}),
    "names by a list": holding(
        {"type": "object", "additionalProperties": {"type": "string"}, "propertyNames": {"enum": ["a", "b"]}}
    ),
    "names by a pattern": holding(
        {"type": "object", "additionalProperties": {"type": "string"}, "propertyNames": {"pattern": "^[a-z]{1,20}$"}}
    ),
    "properties by a pattern": closed(patternProperties={"^x_[a-z]{1,9}$": TEXT, "^(a|b)$": TEXT}),
    "properties that never come": closed(properties={"path": TEXT, "gone": False}),
    "alternatives that are closed": holding({"oneOf": [NESTED, {"type": "object", "additionalProperties": False}]}),
    "words that others add": holding(TEXT | {"example": "a", "nullable": False, "x-order": 1, "markdownDescription": "*x*"}),
    "bounds of an old draft": {
        "$schema": "http://json-schema.org/draft-04/schema#",
        **holding({"type": "integer", "minimum": 0, "exclusiveMinimum": True}),
    },
    "a command from a list": closed(properties={"path": TEXT, "command": {"enum": ["status", "log"]}}),
    "a command by a pattern": closed(properties={"path": TEXT, "command": {"type": "string", "pattern": "^[a-z]{1,9}$"}}),
    "commands by patterns of words": closed(
        properties={
            "path": TEXT,
            "command": {"type": "string", "pattern": r"^(?:status|diff|log)(?: [A-Za-z0-9._/-]{1,40})?$"},
            "cmd": {"type": "string", "pattern": r"^[\w.:@=,+-]{1,60}$"},
        }
    ),
    "patterns as libraries write them": closed(
        properties={
            "path": {"type": "string", "pattern": r"^(?!\.)(?!.*\.\.)([A-Za-z0-9_'+\-\.]*)[A-Za-z0-9_+-]@[a-z.]{2,}$"},
            "year": {"type": "string", "pattern": r"^(?<year>\d{4})[(]\)$"},
            "word": {"type": "string", "pattern": r"^\p{L}+[\w-]+\/[^\]]+$"},
        }
    ),
    "names by narrow classes": closed(patternProperties={"^x-[A-Za-z0-9_.-]{1,20}$": TEXT, "^[0-9a-f]+$": TEXT}),
    "a number of commands": closed(properties={"path": TEXT, "commands": {"type": "integer"}}),
    "what only sounds like one": closed(
        properties=dict.fromkeys(
            ["path", "command_id", "code", "country_code", "script_name", "query", "description", "source"], TEXT
        )
    ),
    "properties called as words of the language are": closed(
        properties=dict.fromkeys(["path", "additionalProperties", "$ref", "required", "type"], TEXT)
    ),
    "a default that looks like a schema": holding(TEXT | {"default": "x", "examples": [{}, True, {"$ref": "http://a.example"}]}),
}  # fmt: skip  # one case a row


@pytest.mark.parametrize("schema", CLOSED.values(), ids=CLOSED)
def test_what_is_closed_is_left_alone(schema: Any) -> None:
    assert faults(schema) == ()


def test_a_fault_says_where() -> None:
    (fault,) = faults(holding({"type": "object", "properties": {"a/b": TEXT}}))
    assert (fault.kind, fault.at) == ("open", "/properties/path")
    assert "additionalProperties: false" in fault.found


def test_a_document_that_nobody_reads_is_refused_and_not_gone_through() -> None:
    wide = closed(properties={f"p{n}": {"type": "string"} for n in range(30_000)}, required=["p1"])
    assert "size" in {fault.kind for fault in faults(wide)}
    doubled: dict[str, Any] = {"type": "string"}
    for _ in range(60):  # 2^60 ways through, 60 schemas
        doubled = {"allOf": [doubled, doubled]}
    assert "size" in {fault.kind for fault in faults(holding(doubled))}


def test_properties_are_gathered_from_all_that_applies() -> None:
    schema = {
        "properties": {"a": {}},
        "allOf": [{"$ref": "#/$defs/x"}],
        "anyOf": [{"properties": {"c": {}}}],
        "$defs": {"x": {"properties": {"b": {}}}},
    }
    assert properties(schema) == {"a", "b", "c"}
    assert properties(True) == frozenset()


WORDS = st.sampled_from(
    ["type", "properties", "required", "additionalProperties", "items", "anyOf", "allOf", "$ref", "$defs", "enum", "not", "a"]
)  # fmt: skip  # words
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-2, 2) | st.sampled_from(["object", "string", "#", "#/$defs/a", "a", ""]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS, inner, max_size=5),
    max_leaves=30,
)


@given(JSON)
def test_nothing_makes_it_fall_over(schema: Any) -> None:
    faults(schema)
    properties(schema)
