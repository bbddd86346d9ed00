"""The law of breaking changes against a validator: whatever value one version takes and the other does not has been told.

Schemas are made at random and edited at random, from fixed seeds. What the law leaves out by its own words is not made: a
`oneOf` whose branches overlap, and a name that an open object could have held before.
"""

import copy
import json
import random
from typing import Any

import jsonschema_rs
import pytest

from drillmaster.rules.schema_break import REQUEST, RESPONSE, Sides, breaks

NAMES = ("a", "b", "c")
VALUES: tuple[Any, ...] = ("", "x", "y", "xyz", "abcde", 0, 1, 2, 3, 5, 1.5, None, True, False)
Schema = dict[str, Any]


def leaf(r: random.Random) -> Schema:
    made: tuple[Schema, ...] = (
        {"type": "string"},
        {"type": "integer"},
        {"type": "number"},
        {"type": "null"},
        {"type": ["string", "null"]},
        {"enum": r.sample(["x", "y", 1, 2, None, True, 1.5], r.randint(1, 4))},
        {"const": r.choice(["x", 1, None])},
        {"type": "integer", "minimum": r.randint(0, 3)},
        {"type": "string", "minLength": r.randint(0, 2), "maxLength": r.randint(2, 4)},
    )
    return r.choice(made)


def schema(r: random.Random, depth: int = 0) -> Schema:
    kind = r.random()
    if depth > 2 or kind < 0.35:
        return leaf(r)
    if kind < 0.65:
        props = {name: schema(r, depth + 1) for name in r.sample(NAMES, r.randint(1, 3))}
        made: Schema = {"type": "object", "properties": props, "additionalProperties": r.choice([False, leaf(r)])}
        if r.random() < 0.6:
            made["required"] = r.sample(NAMES, r.randint(0, 2))
        return made
    if kind < 0.75:
        return {"type": "array", "items": schema(r, depth + 1), **({"maxItems": 1} if r.random() < 0.3 else {})}
    if kind < 0.93:
        return {"anyOf": [schema(r, depth + 1) for _ in range(r.randint(1, 3))]}
    return {"allOf": [schema(r, depth + 1), schema(r, depth + 1)]}


def objects(value: Any) -> list[Schema]:
    if isinstance(value, dict):
        return [value, *(one for inner in value.values() for one in objects(inner))]
    return [one for inner in value for one in objects(inner)] if isinstance(value, list) else []


def edited(r: random.Random, whole: Schema) -> Schema:
    whole = copy.deepcopy(whole)
    at = r.choice([one for one in objects(whole) if one])
    word = r.choice(list(at))
    new: dict[str, Any] = {
        "items": schema(r, 2),
        "required": r.sample(NAMES, r.randint(0, 3)),
        "type": r.choice(["string", "integer", "number", ["string", "integer"]]),
        "enum": r.sample(["x", "y", 1, 2, None], r.randint(1, 4)),
        **{bound: r.randint(0, 4) for bound in ("minimum", "minLength", "maxLength", "maxItems")},
        **{name: schema(r, 2) for name in NAMES},
    }
    if word == "type" and at["type"] in ("object", "array"):
        return whole
    if word in ("anyOf", "allOf") and isinstance(at[word], list):
        at[word] = at[word][1:] or [{}] if r.random() < 0.5 else [*at[word], schema(r, 2)]
    elif word == "additionalProperties":
        at[word] = r.choice([False, leaf(r)])
    elif r.random() < 0.5 or word not in new:
        at.pop(word)
    else:
        at[word] = new[word]
    return whole


def value_like(r: random.Random, wanted: Any, depth: int = 0) -> Any:
    """A value that is likely to fit."""
    if not isinstance(wanted, dict) or r.random() < 0.05 or depth > 4:
        return r.choice([*VALUES, {}, [], {"a": 1, "z": "x"}])
    if "const" in wanted:
        return wanted["const"]
    if wanted.get("enum"):
        return r.choice(wanted["enum"])
    for word in ("anyOf", "allOf"):
        if wanted.get(word):
            return value_like(r, r.choice(wanted[word]), depth)
    kind = wanted.get("type")
    kind = r.choice(kind) if isinstance(kind, list) else kind
    if kind == "object":
        props, required = wanted.get("properties", {}), wanted.get("required", [])
        made = {n: value_like(r, one, depth + 1) for n, one in props.items() if n in required or r.random() < 0.6}
        return {**{n: r.choice(VALUES) for n in required if n not in made}, **made}
    if kind == "array":
        return [value_like(r, wanted.get("items", {}), depth + 1) for _ in range(r.randint(0, 2))]
    return r.choice({"string": ["", "x", "xyz"], "integer": [0, 1, 5], "number": [0.5, 2]}.get(str(kind), [None]))


def told(old: Schema, new: Schema, sides: Sides) -> bool:
    """Whether anything is, be it the note that fields may come which were told not to."""
    found = breaks(old, new, sides=sides)
    return any(one.level != "note" or one.rule == "response-additional-opened" for one in found)


@pytest.mark.parametrize("seed", range(6))
def test_no_value_changes_sides_untold(seed: int) -> None:
    r = random.Random(seed)
    tried = 0
    for _ in range(120):
        old = schema(r)
        new = edited(r, old)
        takes = [jsonschema_rs.Draft202012Validator(one, offline=True).is_valid for one in (old, new)]
        quiet = {
            side for side in ("request", "response") if not told(old, new, REQUEST if side == "request" else RESPONSE)
        }
        for _ in range(40 if quiet else 0):
            value = value_like(r, r.choice((old, new)))
            before, after = (fits(value) for fits in takes)
            tried += before or after
            assert not (before and not after and "request" in quiet), json.dumps([old, new, value])
            assert not (after and not before and "response" in quiet), json.dumps([old, new, value])
    assert tried > 300  # values that fit, or nothing was shown


def respelled(r: random.Random, value: Any, kept: dict[str, Any]) -> Any:
    """The same schema in other words: definitions, `allOf`, choices, another order, notes for people."""
    if isinstance(value, list):
        return [respelled(r, one, kept) for one in value]
    if not isinstance(value, dict):
        return value
    names = list(value)
    r.shuffle(names)
    made: Any = {}
    for name in names:
        inner = value[name]
        if name == "properties":
            made[name] = {field: respelled(r, one, kept) for field, one in inner.items()}
        else:
            made[name] = inner if name in ("enum", "const", "required", "type") else respelled(r, inner, kept)
    if made.get("type") == ["string", "null"] and r.random() < 0.7:
        made = {"anyOf": [{"type": "null"}, {"type": "string"}]}
    if list(made) == ["const"] and r.random() < 0.5:
        made = {"enum": [made["const"]], "title": "one"}
    if r.random() < 0.3:
        name = f"d{len(kept)}"
        kept[name] = made
        made = {"$ref": f"#/$defs/{name}"}
    if r.random() < 0.2:
        made = {"allOf": [made], "description": "words"}
    return made


@pytest.mark.parametrize("seed", range(6))
def test_the_same_in_other_words_is_the_same(seed: int) -> None:
    r = random.Random(seed)
    for _ in range(120):
        kept: dict[str, Any] = {}
        whole = {"type": "object", "properties": {"x": schema(r)}}
        other = {**respelled(r, whole, kept), "$defs": kept}
        for sides in (REQUEST, RESPONSE):
            assert not told(whole, other, sides), json.dumps([whole, other])
            assert not told(other, whole, sides), json.dumps([other, whole])
