"""The law of a tool call's arguments: how they are read, and against what they are held.

1. Arguments are one JSON object, read by the rules of `strict`: no name twice, no NaN, no number that two readers take for two,
   no half of a character, nothing deeper or larger than the caps. A text that is empty is no object.
2. What came as a value already (a client library has read it) is held to the same rules as far as a value can show them; that a
   name stood there twice, it cannot.
3. A signed schema is closed once more before a call is held against it: at every place a name that the schema does not have is
   refused, also where an object stayed open by an exception. Names that are free are none that it has, whatever their values
   are: `additionalProperties` stays only where `propertyNames` lists the names or spells them (an anchored pattern), and of
   `patternProperties` only patterns that are anchored stay. A call is held against both, the schema as it is signed and the
   closed one: closing a branch of `oneOf` could let in what both branches had refused.
   What no schema describes (a list without `items`, a field that may be anything) may hold values, and no names. What stands in an
   `if` decides, and makes no name known.
4. Everything is read as JSON Schema 2020-12. What older drafts write otherwise (`items` as a list, `dependencies`) is said in its
   words first; what cannot be said so is for the compiler to refuse.
"""

from typing import Any

import msgspec

from drillmaster import strict
from drillmaster.errors import Problem
from drillmaster.rules._schema_patterns import anchored
from drillmaster.strict import canonical

__all__ = ["Arguments", "overlay", "read"]


class Arguments(msgspec.Struct, frozen=True, kw_only=True):
    """Arguments as they were read. `value` None: they were not; `bytes` is told all the same."""

    value: dict[str, Any] | None
    bytes: int


def read(given: object, *, cap_bytes: int) -> Arguments:
    """Read a call's arguments: JSON in text or bytes, or an object that was read before. Raises nothing."""
    if isinstance(given, str):
        try:
            given = given.encode()
        except UnicodeEncodeError:
            return Arguments(value=None, bytes=len(given))
    if isinstance(given, bytes | bytearray | memoryview):
        return _read_text(bytes(given), cap_bytes)
    if not isinstance(given, dict):
        return Arguments(value=None, bytes=0)
    try:
        raw = canonical(given)
    except (Problem, RecursionError, ValueError):  # the last: a number of more digits than Python writes down
        return Arguments(value=None, bytes=0)
    # Tuples, subclasses of numbers and the caller's own lists, which can change behind a decision, are left behind.
    return _read_text(raw, cap_bytes)


def _read_text(raw: bytes, cap_bytes: int) -> Arguments:
    if len(raw) > cap_bytes:
        return Arguments(value=None, bytes=len(raw))
    try:
        value = strict.load(raw, place="arguments", fmt="json", cap_bytes=cap_bytes)
        size = max(len(raw), len(canonical(value)))
    except Problem:
        return Arguments(value=None, bytes=len(raw))
    return Arguments(value=value if isinstance(value, dict) else None, bytes=size)


_BY_NAME = ("properties", "$defs", "definitions", "dependentSchemas")
_IN_PLACE = ("allOf", "anyOf", "oneOf")
_ELSEWHERE = ("items", "unevaluatedItems", "additionalItems")
_OPEN = ("additionalProperties", "unevaluatedProperties")
_SHARED = ("$defs", "definitions", "dependentSchemas")
"""What is applied by what refers to it: the place that does is closed, and not they."""


def overlay(schema: Any) -> Any:
    """Give a schema with every place closed: rules 3 and 4. The schema that is given stays as it is."""
    closed = _closed(schema, place=True)
    if isinstance(closed, dict):
        closed.pop("$schema", None)
        closed.pop("$id", None)
        shared = closed.get("$defs")
        closed["$defs"] = {**(shared if isinstance(shared, dict) else {}), _NAMELESS: _no_names()}
    return closed


_NAMELESS = "urn:drillmaster:nameless"


def _no_names() -> dict[str, Any]:
    """Give the schema of any value in which no object has a name, however deep."""
    return {"$id": _NAMELESS, "unevaluatedProperties": False, "unevaluatedItems": {"$ref": "#"}}


def _closed(schema: Any, *, place: bool) -> Any:
    """`place`: the schema is the whole of what applies to a value, and closes it."""
    if schema is True and place:
        return {"$ref": _NAMELESS}
    if not isinstance(schema, dict):
        return schema
    if place and schema.keys() & {"enum", "const"}:  # it writes out whole values, with every name that is in them
        return dict(schema)
    made: dict[str, Any] = {}
    for word, inner in schema.items():
        if word == "patternProperties" and isinstance(inner, dict):
            made[word] = {name: _closed(one, place=True) for name, one in inner.items() if anchored(name)}
        elif word in _BY_NAME and isinstance(inner, dict):
            made[word] = {name: _closed(one, place=word not in _SHARED) for name, one in inner.items()}
        elif word in _IN_PLACE and isinstance(inner, list):
            made[word] = [_closed(one, place=False) for one in inner]
        elif word in ("if", "then", "else", "maxContains"):
            continue  # below; and the most that a list may contain is the signed schema's to say
        elif word == "contains":
            made[word] = _closed(inner, place=True)
        elif word == "prefixItems" and isinstance(inner, list):
            made[word] = [_closed(one, place=True) for one in inner]
        elif word in _ELSEWHERE:
            if isinstance(inner, list):
                made[word] = inner
            elif word != "unevaluatedItems" or inner not in (True, {}):
                made[word] = _closed(inner, place=True)
        elif word in _OPEN:
            if inner is False or _names_listed(schema.get("propertyNames")):
                made[word] = _closed(inner, place=True)
        else:  # what is under `not` stays: a schema that lets in less there may let in more here
            made[word] = inner
    if "if" in schema and ("then" in schema or "else" in schema):
        # Said with `not`, under which nothing becomes known: an `if` that takes every name would open the place.
        when = {"not": schema["if"]}
        held = {"allOf": [{"not": when}, _closed(schema.get("then", {}), place=False)]}
        other = {"allOf": [when, _closed(schema.get("else", {}), place=False)]}
        made["allOf"] = [*made.get("allOf", []), {"anyOf": [held, other]}]
    _older(made)
    if place and "unevaluatedProperties" not in made:
        made["unevaluatedProperties"] = False
    if place and "unevaluatedItems" not in made:
        made["unevaluatedItems"] = {"$ref": _NAMELESS}
    return made


def _names_listed(names: Any) -> bool:
    """Whether `propertyNames` says which names there are."""
    if not isinstance(names, dict):
        return False
    pattern = names.get("pattern")
    return "enum" in names or "const" in names or (isinstance(pattern, str) and anchored(pattern))


def _older(made: dict[str, Any]) -> None:
    """Say in the words of 2020-12 what older drafts say otherwise."""
    items = made.get("items")
    if isinstance(items, list):
        made["prefixItems"] = [_closed(one, place=True) for one in items]
        more = made.pop("additionalItems", True)
        if more not in (True, {"$ref": _NAMELESS}):
            made["items"] = more
        else:
            del made["items"]
    made.pop("additionalItems", None)
    needs = made.get("dependencies")
    if isinstance(needs, dict):
        del made["dependencies"]
        names = {name: one for name, one in needs.items() if isinstance(one, list)}
        schemas = {name: _closed(one, place=False) for name, one in needs.items() if not isinstance(one, list)}
        if names:
            made["dependentRequired"] = {**made.get("dependentRequired", {}), **names}
        if schemas:
            made["dependentSchemas"] = {**made.get("dependentSchemas", {}), **schemas}
