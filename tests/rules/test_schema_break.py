"""The law of breaking changes, for JSON Schema and tools: tables of what breaks whom, and of what breaks nobody."""

# ruff: noqa: E501  # a case is one row

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drillmaster.rules.schema_break import BOTH, REQUEST, RESPONSE, Sides, breaks, document_kind, references, version_of

S: dict[str, Any] = {"type": "string"}
I: dict[str, Any] = {"type": "integer"}  # noqa: E741


def obj(*required: str, **props: Any) -> dict[str, Any]:
    return {"type": "object", "properties": props, **({"required": list(required)} if required else {})}


def shut(schema: dict[str, Any]) -> dict[str, Any]:
    return {**schema, "additionalProperties": False}


def rules(old: Any, new: Any, sides: Sides = BOTH, *, notes: bool = False) -> set[str]:
    return {one.rule for one in breaks(old, new, sides=sides) if notes or one.level != "note"}


ORDER = obj("order_id", "customer_id", "tax_id", order_id=S, customer_id=S, tax_id=S, total_cents=I)

# old, new, what a caller meets, what a reader meets
BROKEN: list[tuple[str, Any, Any, str, str]] = [
    # the incident: clients count on a field that a clean-up made optional
    ("required to optional", ORDER, {**ORDER, "required": ["order_id", "customer_id"]}, "", "property-became-optional"),
    ("optional to required", obj(a=S), obj("a", a=S), "property-became-required", ""),
    ("a required field more", obj(a=S), obj("b", a=S, b=S), "required-property-added", ""),
    ("required, and named nowhere", obj(a=S), obj("zz", a=S), "required-property-added", ""),
    ("a field gone", obj(a=S, b=S), obj(a=S), "property-removed", "property-removed"),
    ("a field gone from a closed object", shut(obj(a=S, b=S)), shut(obj(a=S)), "property-removed", "property-removed"),
    ("renamed", obj(a=S), obj(A=S), "property-removed", "property-removed"),
    ("closed", obj(a=S), shut(obj(a=S)), "additional-closed", ""),
    ("closed by unevaluated", obj(a=S), {**obj(a=S), "unevaluatedProperties": False}, "additional-closed", ""),
    ("fields besides have a type now", obj(a=S), {**obj(a=S), "additionalProperties": S}, "type-narrowed", ""),
    ("type changed", obj(a=S), obj(a=I), "type-narrowed", "type-widened"),
    ("number to integer", {"type": "number"}, I, "type-narrowed", ""),
    ("integer to number", I, {"type": "number"}, "", "type-widened"),
    ("one of the types gone", {"type": ["string", "integer"]}, S, "type-narrowed", ""),
    ("a type more", S, {"type": ["string", "boolean"]}, "", "type-widened"),
    ("any to one", {"description": "x", "$id": "a"}, {"$id": "a", **S}, "type-narrowed", ""),
    ("null no more", {"type": ["string", "null"]}, S, "became-not-nullable", ""),
    ("null now", S, {"type": ["string", "null"]}, "", "became-nullable"),
    ("null now, as a choice", S, {"anyOf": [S, {"type": "null"}]}, "", "became-nullable"),
    ("enum value gone", {"enum": ["a", "b"]}, {"enum": ["a"]}, "enum-value-removed", ""),
    ("enum value gone, of another case", {"enum": ["a"]}, {"enum": ["A"]}, "enum-value-removed", "enum-value-added"),
    ("true is not 1", {"enum": [1]}, {"enum": [True]}, "enum-value-removed", "enum-value-added"),
    ("enum in place of any text", S, {"type": "string", "enum": ["a"]}, "became-enum", ""),
    ("const changed", {"const": 1}, {"const": 2}, "enum-value-removed", "enum-value-added"),
    ("const in place of enum", {"enum": [1, 2]}, {"const": 1}, "enum-value-removed", ""),
    ("minimum up", {**I, "minimum": 1}, {**I, "minimum": 2}, "minimum-tightened", ""),
    ("minimum new", I, {**I, "minimum": 0}, "minimum-tightened", ""),
    ("maximum down", {**I, "maximum": 9}, {**I, "maximum": 8.5}, "maximum-tightened", ""),
    ("end of the range out", {**I, "minimum": 1}, {**I, "exclusiveMinimum": 1}, "minimum-tightened", ""),
    ("draft 4's end of the range out", {**I, "maximum": 1}, {**I, "maximum": 1, "exclusiveMaximum": True}, "maximum-tightened", ""),
    ("shorter", {**S, "maxLength": 9}, {**S, "maxLength": 8}, "max-length-tightened", ""),
    ("length limited", S, {**S, "maxLength": 8}, "max-length-tightened", ""),
    ("may not be empty", S, {**S, "minLength": 1}, "min-length-tightened", ""),
    ("fewer items", {"type": "array", "maxItems": 3}, {"type": "array", "maxItems": 2}, "max-items-tightened", ""),
    ("at least an item", {"type": "array"}, {"type": "array", "minItems": 1}, "min-items-tightened", ""),
    ("fewer fields", obj(), {**obj(), "maxProperties": 2}, "max-properties-tightened", ""),
    ("once each", {"type": "array"}, {"type": "array", "uniqueItems": True}, "unique-items-added", ""),
    ("multiples", I, {**I, "multipleOf": 5}, "multiple-tightened", ""),
    ("other multiples", {**I, "multipleOf": 4}, {**I, "multipleOf": 6}, "multiple-tightened", "multiple-loosened"),
    ("pattern new", S, {**S, "pattern": "^a"}, "pattern-added", ""),
    ("pattern changed", {**S, "pattern": "^a"}, {**S, "pattern": "^ab"}, "pattern-changed", "pattern-changed"),
    ("format new", S, {**S, "format": "uuid"}, "format-added", ""),
    ("format changed", {**S, "format": "date"}, {**S, "format": "date-time"}, "format-changed", "format-changed"),
    ("int64 to int32", {**I, "format": "int64"}, {**I, "format": "int32"}, "format-narrowed", ""),
    ("int32 to int64", {**I, "format": "int32"}, {**I, "format": "int64"}, "", "format-widened"),
    ("items changed", {"type": "array", "items": S}, {"type": "array", "items": I}, "type-narrowed", "type-widened"),
    ("a field of an item gone", {"type": "array", "items": obj(a=S, b=S)}, {"type": "array", "items": obj(a=S)}, "property-removed", "property-removed"),
    ("first of a tuple", {"type": "array", "prefixItems": [S, I]}, {"type": "array", "prefixItems": [I, I]}, "type-narrowed", "type-widened"),
    ("a choice gone", {"oneOf": [S, I]}, {"oneOf": [S]}, "choice-removed", ""),
    ("a choice gone, of three", {"oneOf": [S, I, obj(a=S)]}, {"oneOf": [S, I]}, "choice-removed", ""),
    ("narrower in one choice", {"oneOf": [obj("k", k={"const": 1}), obj("k", k={"const": 2}, a=S)]},
     {"oneOf": [obj("k", k={"const": 1}), obj("k", "a", k={"const": 2}, a=S)]}, "property-became-required", ""),
    ("below allOf", {"allOf": [obj(a=S), obj(b=S)]}, {"allOf": [obj(a=S), obj("b", b=S)]}, "property-became-required", ""),
    ("behind a reference", {"$ref": "#/$defs/a", "$defs": {"a": obj(a=S)}}, {"$ref": "#/$defs/a", "$defs": {"a": obj("a", a=S)}}, "property-became-required", ""),
    ("behind an anchor", {"$ref": "#x", "$defs": {"a": {"$anchor": "x", **S}}}, {"$ref": "#x", "$defs": {"a": {"$anchor": "x", **I}}}, "type-narrowed", "type-widened"),
    ("behind an $id within", {"$ref": "b.json", "$defs": {"a": {"$id": "b.json", **S}}}, {"$ref": "b.json", "$defs": {"a": {"$id": "b.json", **I}}}, "type-narrowed", "type-widened"),
    ("behind a name with a slash", {"$ref": "#/definitions/a~1b%20c", "definitions": {"a/b c": S}}, {"$ref": "#/definitions/a~1b%20c", "definitions": {"a/b c": I}}, "type-narrowed", "type-widened"),
    ("condition new", obj(a=S), {**obj(a=S), "dependentRequired": {"a": ["b"]}}, "condition-added", ""),
    ("nothing fits", obj(a=S), obj(a=False), "value-removed", ""),
    ("in a circle", {"$ref": "#/$defs/n", "$defs": {"n": obj(next={"$ref": "#/$defs/n"}, v=S)}}, {"$ref": "#/$defs/n", "$defs": {"n": obj(next={"$ref": "#/$defs/n"}, v=I)}}, "type-narrowed", "type-widened"),
]  # fmt: skip  # one case a row


@pytest.mark.parametrize(("name", "old", "new", "request_", "response"), BROKEN, ids=[row[0] for row in BROKEN])
def test_what_breaks_is_told_to_whom_it_breaks(name: str, old: Any, new: Any, request_: str, response: str) -> None:
    assert rules(old, new, REQUEST) == ({f"request-{request_}"} if request_ else set())
    assert rules(old, new, RESPONSE) == ({f"response-{response}"} if response else set())
    assert rules(old, new, notes=True) >= {
        f"{side}-{rule}" for side, rule in (("request", request_), ("response", response)) if rule
    }
    for one in breaks(old, new):
        assert one.says
        assert one.at or one.was or one.says.startswith("value"), one


REFD = {"$ref": "#/$defs/role", "$defs": {"role": {"type": "string", "enum": ["user", "admin"], "title": "Role"}}}
INLINE = {"type": "string", "enum": ["user", "admin"], "$id": "x"}
OPTIONAL = {"anyOf": [S, {"type": "null"}]}

HARMLESS: list[tuple[str, Any, Any]] = [
    ("the same", ORDER, ORDER),
    ("words for people", ORDER, {**ORDER, "description": "x", "title": "T", "examples": [1], "$comment": "c", "deprecated": True}),
    ("order of fields", obj(a=S, b=I), obj(b=I, a=S)),
    ("order of required", obj("a", "b", a=S, b=S), obj("b", "a", a=S, b=S)),
    ("order of an enum", {"enum": [1, 2]}, {"enum": [2, 1]}),
    ("order of types", {"type": ["string", "null"]}, {"type": ["null", "string"]}),
    ("order of choices", {"oneOf": [S, obj(a=S)]}, {"oneOf": [obj(a=S), S]}),
    ("an optional field more", obj(a=S), obj(a=S, b=S)),
    ("an optional field more in a closed object", shut(obj(a=S)), shut(obj(a=S, b=S))),
    ("into a definition", INLINE, REFD),
    ("out of a definition", REFD, INLINE),
    ("a definition renamed", {"$ref": "#/$defs/a", "$defs": {"a": S}}, {"$ref": "#/$defs/b", "$defs": {"b": S}}),
    ("a choice into a definition", {"type": "object", "properties": {"r": {"anyOf": [INLINE, {"type": "null"}]}}, "$defs": REFD["$defs"]},
     {"type": "object", "properties": {"r": {"anyOf": [{"$ref": "#/$defs/role"}, {"type": "null"}]}}, "$defs": REFD["$defs"]}),
    ("into allOf", obj("a", a=S, b=I), {"allOf": [obj("a", a=S), obj(b=I)]}),
    ("or null, spelled otherwise", OPTIONAL, {"type": ["string", "null"]}),
    ("or null, as oneOf", OPTIONAL, {"oneOf": [{"type": "null"}, S]}),
    ("types as choices", {"type": ["string", "integer"]}, {"anyOf": [S, I]}),
    ("choices as types", {"oneOf": [I, S]}, {"type": ["string", "integer"]}),
    ("constants with titles", {"enum": ["a", "b"]}, {"oneOf": [{"const": "a", "title": "A"}, {"const": "b", "title": "B"}]}),
    ("const as enum of one", {"const": "a"}, {"type": "string", "enum": ["a"]}),
    ("one is 1.0", {"enum": [1]}, {"enum": [1.0]}),
    ("a bound with a dot", {**I, "minimum": 1}, {**I, "minimum": 1.0}),
    ("draft 4's bound as draft 6's", {**I, "minimum": 1, "exclusiveMinimum": True}, {**I, "exclusiveMinimum": 1}),
    ("the type that was plain", {"properties": {"a": S}}, obj(a=S)),
    ("additional fields, said", obj(a=S), {**obj(a=S), "additionalProperties": True}),
    ("additional fields, said with an empty schema", obj(a=S), {**obj(a=S), "additionalProperties": {}}),
    ("no least length", S, {**S, "minLength": 0}),
    ("a definition nobody uses", {**ORDER, "$defs": {"x": S}}, {**ORDER, "$defs": {"x": I}}),
    ("default added", obj(a=S), obj(a={**S, "default": "x"})),
    ("a vendor's word", ORDER, {**ORDER, "x-owner": "billing"}),
    ("a word about text, on a number", {**I, "minLength": 1}, {**I, "minLength": 2}),
    ("a circle", {"$ref": "#/$defs/n", "$defs": {"n": obj(next={"$ref": "#/$defs/n"})}}, {"$ref": "#/$defs/m", "$defs": {"m": obj(next={"$ref": "#/$defs/m"})}}),
    ("a circle of choices", {"$ref": "#/$defs/j", "$defs": {"j": {"oneOf": [S, {"type": "array", "items": {"$ref": "#/$defs/j"}}]}}},
     {"$ref": "#/$defs/k", "$defs": {"k": {"oneOf": [{"type": "array", "items": {"$ref": "#/$defs/k"}}, S]}}}),
    ("draft moved on", {"$schema": "http://json-schema.org/draft-07/schema#", **ORDER}, {"$schema": "https://json-schema.org/draft/2020-12/schema", **ORDER}),
    ("tuple of draft 7 as of 2020", {"type": "array", "items": [S, I]}, {"type": "array", "prefixItems": [S, I]}),
    ("beside a file of its own", obj(a={"$ref": "address.json#/x"}), obj(a={"$ref": "address.json#/x"}, b=S)),
]  # fmt: skip  # one case a row


@pytest.mark.parametrize(("name", "old", "new"), HARMLESS, ids=[row[0] for row in HARMLESS])
@pytest.mark.parametrize("sides", [REQUEST, RESPONSE, BOTH], ids=["request", "response", "both"])
def test_what_breaks_nobody_is_left_alone(name: str, old: Any, new: Any, sides: Sides) -> None:
    assert rules(old, new, sides) == set()


# What breaks nobody on one side, and is told of on the other.
ONE_SIDED = [
    ("a choice gone from answers", {"oneOf": [I, S]}, I, RESPONSE),
    ("a choice more in requests", obj(a=S), {"oneOf": [obj(a=S), obj(b=I)]}, REQUEST),
    ("required now, in answers", {"allOf": [obj(a=S)]}, {"allOf": [obj("a", a=S)]}, RESPONSE),
    ("an enum value more in requests", {"enum": ["a"]}, {"enum": ["a", "b"]}, REQUEST),
    ("null let in", {"$ref": "#/$defs/e", "$defs": {"e": {"enum": ["u", "s"]}}},
     {"oneOf": [{"type": "null"}, {"$ref": "#/$defs/e"}], "$defs": {"e": {"enum": ["u", "s"]}}}, REQUEST),
    ("one object as two", {"type": "object", "required": ["a", "b"], "properties": {"a": S, "b": S}},
     {"type": "object", "oneOf": [{"type": "object", "required": ["a"], "properties": {"a": S, "b": S}},
                                  {"type": "object", "required": ["b"], "properties": {"a": S, "b": S}}]}, REQUEST),
]  # fmt: skip  # one case a row


@pytest.mark.parametrize(("name", "old", "new", "sides"), ONE_SIDED, ids=[row[0] for row in ONE_SIDED])
def test_what_the_side_allows_is_left_alone(name: str, old: Any, new: Any, sides: Sides) -> None:
    assert rules(old, new, sides) == set()
    assert rules(new, old, sides) != set()


def test_a_choice_more_in_an_answer_breaks_its_reader() -> None:
    one, other = obj("oneProperty", oneProperty=S), obj("otherProperty", otherProperty=S)
    found = rules({"oneOf": [one]}, {"oneOf": [one, other]}, RESPONSE)
    assert found  # how it is told, as a choice more or a field gone, is a matter of nearness


@pytest.mark.parametrize(
    ("old", "new", "rule"),
    [
        (obj(a=S), obj(a={"$ref": "https://example.com/x.json"}), "remote-reference"),
        (obj(a={"$ref": "https://example.com/x.json"}), obj(a={"$ref": "https://example.com/x.json"}, b=S), "remote-reference"),
        (obj(a={"$ref": "#/$defs/gone"}), obj(a={"$ref": "#/$defs/gone"}), "dead-reference"),
        (obj(a={"not": S}), obj(a={"not": I}), "condition-changed"),
        ({"if": obj(a=S), "then": obj("b"), "type": "object"}, {"if": obj(a=S), "then": obj("c"), "type": "object"}, "condition-changed"),
    ],
)  # fmt: skip  # one case a row
def test_what_cannot_be_told_is_unclear(old: Any, new: Any, rule: str) -> None:
    assert {(one.rule, one.level) for one in breaks(old, new) if one.level != "note"} == {(rule, "unclear")}


def test_a_condition_whose_reference_moved_on_is_seen() -> None:
    old = {"type": "object", "not": {"$ref": "#/$defs/x"}, "$defs": {"x": obj("a")}}
    new = {"type": "object", "not": {"$ref": "#/$defs/x"}, "$defs": {"x": obj("b")}}
    assert rules(old, new) == {"condition-changed"}


def test_a_field_may_be_called_as_a_word_of_schemas() -> None:
    names = ("title", "description", "default", "enum", "id", "$ref", "example", "definitions", "properties", "type")
    for name in names:
        assert rules(obj(**{name: S}), obj(**{name: I}), REQUEST) == {"request-type-narrowed"}, name
        old, new = ({"type": "object", "not": obj(**{name: one})} for one in (S, I))
        assert rules(old, new) == {"condition-changed"}, name
        inner = {"$defs": {name: S}, "properties": {"a": {"$ref": f"#/$defs/{name}"}}, "type": "object"}
        assert rules(inner, {**inner, "$defs": {name: I}}, REQUEST) == {"request-type-narrowed"}, name
        deep = obj(**{name: obj(a={"$ref": "https://example.com/x"})})
        assert {one.rule for one in references(deep)} == {"remote-reference"}, name
    assert references(obj(a={"type": "string", "default": {"$ref": "#/none"}, "examples": [{"$ref": "x"}]})) == []


def test_a_tools_parameters_are_a_schema() -> None:
    tool = {"name": "a", "parameters": {"$ref": "https://example.com/x"}}
    assert {one.rule for one in references({"tools": [tool]})} == {"remote-reference"}


def test_swagger_is_not_compared_and_words_in_it_may_change() -> None:
    old = {"swagger": "2.0", "info": {"version": "1", "title": "a"}, "paths": {"/a": {"get": {"summary": "x"}}}}
    assert breaks(old, {**old, "info": {"version": "1", "title": "b"}}) == []
    assert rules(old, {**old, "paths": {}}) == {"not-compared"}


def test_a_finding_says_who_gets_what_and_where() -> None:
    (one,) = breaks(
        obj(order=obj(status={"enum": ["paid", "void"]})), obj(order=obj(status={"enum": ["paid"]})), sides=REQUEST
    )
    assert one.says == 'order.status: a caller that still sends "void" is refused'
    assert one.at == one.was == "/properties/order/properties/status/enum"
    assert one.old == '"void"'


def test_a_huge_pair_is_unclear_and_not_endless() -> None:
    old = {
        "$defs": {
            str(i): obj(**{f"f{j}": {"$ref": f"#/$defs/{(i * 7 + j) % 400}"} for j in range(60)}) for i in range(400)
        },
        "$ref": "#/$defs/0",
    }
    new = {"$defs": {**old["$defs"], "399": S}, "$ref": "#/$defs/0"}
    assert rules(old, new)
    names = range(12)
    circle = {
        f"t{i}": {
            "oneOf": [{"$ref": f"#/$defs/t{j}"} for j in names if j != i]
            + [obj(p={"$ref": f"#/$defs/t{(i + 5) % 12}"})]
        }
        for i in names
    }
    tangled = {"$ref": "#/$defs/t0", "$defs": circle}
    assert rules(tangled, tangled) == set()
    assert rules(tangled, {**tangled, "$defs": {**circle, "t3": S}}) == {"choice-changed"}
    many = {
        f"a{i}": {"anyOf": [obj(f"x{j}", y={"enum": [1, 2]}, **{f"x{j}": S}) for j in range(30)]} for i in range(60)
    }
    changed = {
        name: {"anyOf": [*one["anyOf"][:3], obj("x3", "y", y={"enum": [1, 2]}, x3=S), *one["anyOf"][4:]]}
        for name, one in many.items()
    }
    assert rules(obj(**many), obj(**changed), REQUEST) == {"request-property-became-required"}
    assert len(breaks(obj(**many), obj(**changed), sides=REQUEST)) == 60
    wide = {"oneOf": [obj(f"k{i}", **{f"k{i}": S}) for i in range(200)], "$id": "x"}
    assert rules(wide, {**wide, "oneOf": wide["oneOf"][1:]}) == {"choice-changed"}
    assert rules(wide, wide) == set()


@pytest.mark.parametrize(
    ("root", "kind"),
    [
        ({"openapi": "3.1.0", "paths": {}}, "openapi"),
        ({"swagger": "2.0"}, "swagger"),
        ({"tools": [{"name": "a", "inputSchema": {}}]}, "tools"),
        ([{"type": "function", "function": {"name": "a", "parameters": {}}}], "tools"),
        ({"name": "a", "input_schema": {"type": "object"}}, "tools"),
        ({"jsonrpc": "2.0", "id": 1, "result": {"tools": [{"name": "a", "inputSchema": {}}]}}, "tools"),
        ({"type": "object"}, "schema"),
        ({"name": "x", "version": 1}, "other"),
        ([1], "other"),
        ("text", "other"),
        (None, "other"),
    ],
)
def test_a_document_is_told_by_its_own_words(root: Any, kind: str) -> None:
    assert document_kind(root) == kind


TOOL = {"name": "refund", "inputSchema": obj("id", id=S, cents=I), "outputSchema": obj("ok", ok={"type": "boolean"})}


@pytest.mark.parametrize(
    ("new", "found"),
    [
        ({"tools": []}, {"document-kind-changed"}),
        ({"tools": [{**TOOL, "name": "Refund"}]}, {"tool-removed"}),
        ({"tools": [{**TOOL, "inputSchema": obj("id", "cents", id=S, cents=I)}]}, {"request-property-became-required"}),
        ({"tools": [{**TOOL, "outputSchema": obj(ok={"type": "boolean"})}]}, {"response-property-became-optional"}),
        ({"tools": [{"name": "refund", "inputSchema": TOOL["inputSchema"]}]}, {"output-schema-removed"}),
        ({"tools": [{**TOOL, "inputSchema": obj(id=S, cents=I)}]}, {"request-property-became-optional"}),
        ({"tools": [TOOL, TOOL]}, {"tool-twice"}),
        # harmless
        ({"tools": [TOOL, {"name": "list", "inputSchema": obj()}]}, set()),
        ({"tools": [{**TOOL, "description": "other words"}]}, set()),
        ({"tools": [{**TOOL, "inputSchema": obj("id", id=S, cents=I, note=S)}]}, set()),
        ([{"type": "function", "function": {"name": "refund", "parameters": TOOL["inputSchema"], "outputSchema": TOOL["outputSchema"]}}], set()),
    ],
)  # fmt: skip  # one case a row
def test_tools_are_compared_by_name_and_side(new: Any, found: set[str]) -> None:
    assert rules({"tools": [TOOL]}, new) == found


@pytest.mark.parametrize(
    ("root", "version"),
    [
        ({"openapi": "3.0.0", "info": {"version": "1.2.0"}}, "1.2.0"),
        ({"version": 2}, "2"),
        ({"version": True}, ""),
        ({"$id": "https://example.com/order/v3.json"}, "v3"),
        ({"$id": "https://example.com/order-1.4.0.json"}, "1.4.0"),
        ({"$id": "https://example.com/order.json"}, ""),
        ({}, ""),
        ([], ""),
    ],
)
def test_a_version_is_read_where_documents_have_it(root: Any, version: str) -> None:
    assert version_of(root) == version


_leaf = st.one_of(st.none(), st.booleans(), st.integers(-3, 3), st.text(max_size=3), st.floats(allow_nan=False))
_any = st.recursive(
    _leaf,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(
            st.sampled_from(["type", "properties", "items", "enum", "oneOf", "allOf", "$ref", "not", "required", "minimum", "a", "tools", "openapi", "paths", "/a", "get", "parameters", "default", "discriminator", "x-deprecated-values"]),
            inner, max_size=4),
    ),
    max_leaves=12,
)  # fmt: skip  # words, a line at a time


@given(_any, _any)
def test_whatever_the_documents_are_an_answer_comes(old: Any, new: Any) -> None:
    for one in breaks(old, new):
        assert one.level in ("break", "unclear", "note")
    assert [one for one in breaks(old, old) if one.level == "break"] == []


_DRAFT = "http://json-schema.org/draft-{}/schema"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (None, _DRAFT.format("04")),
        (_DRAFT.format("07"), _DRAFT.format("04") + "#"),
        (_DRAFT.format("07"), "https://example.com/mine"),
        ("https://json-schema.org/draft/2020-12/schema", _DRAFT.format("03")),
        (_DRAFT.format("04"), None),
    ],
)
def test_a_dialect_in_which_words_mean_something_else_is_unclear(before: str | None, after: str | None) -> None:
    """Draft 4 does not know `const`: with its name on top, a schema takes what it refused."""
    body = {"type": "object", "properties": {"a": {"const": 1}}}
    old, new = ({**body, **({"$schema": one} if one else {})} for one in (before, after))
    assert [(one.rule, one.level) for one in breaks(old, new)] == [("dialect-changed", "unclear")]
    paths = {"openapi": "3.1.0", "info": {"title": "t", "version": "1"}, "paths": {}}
    old, new = ({**paths, **({"jsonSchemaDialect": one} if one else {})} for one in (before, after))
    assert [one.rule for one in breaks(old, new)] == ["dialect-changed"]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (None, "https://json-schema.org/draft/2020-12/schema"),
        (_DRAFT.format("07"), _DRAFT.format("07") + "#"),
        (_DRAFT.format("07"), "https://json-schema.org/draft/2020-12/schema"),
        (_DRAFT.format("04"), _DRAFT.format("04") + "#"),
        ("https://example.com/mine", "https://example.com/mine#"),
    ],
)
def test_a_newer_dialect_or_another_spelling_of_it_breaks_nobody(before: str | None, after: str | None) -> None:
    body = {"type": "object", "properties": {"a": {"const": 1}}}
    old, new = ({**body, **({"$schema": one} if one else {})} for one in (before, after))
    assert breaks(old, new) == []


@pytest.mark.parametrize("odd", [1, [], {}, True, 1.5])
def test_a_dialect_that_is_no_text_is_none(odd: object) -> None:
    assert breaks({"type": "string"}, {"type": "string", "$schema": odd}) == []
