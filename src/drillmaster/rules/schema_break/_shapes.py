"""What a node asks of a value, keyword by keyword, whatever way it is spelled.

1. Several schemas that hold at once are one: types and constants intersect, bounds tighten, requirements add up.
2. A schema without `type` but with words of one type (`properties`, `items`) is read as of that type: so its authors meant it.
3. Bounds of draft 4 (`exclusiveMinimum: true`) and of later drafts are one bound.
"""

import math
from typing import Any

import msgspec

from drillmaster.rules.schema_break._nodes import ALL_TYPES, Document, Node, Part, kind_of, step
from drillmaster.strict import canonical

__all__ = ["OF_ARRAYS", "OF_NUMBERS", "OF_OBJECTS", "OF_STRINGS", "OPAQUE", "Bound", "Shape", "shape_of", "text_of"]

OF_NUMBERS = frozenset({"number", "integer"})
OF_STRINGS = frozenset({"string"})
OF_ARRAYS = frozenset({"array"})
OF_OBJECTS = frozenset({"object"})

_OBJECT_WORDS = frozenset({"properties", "required", "additionalProperties", "patternProperties", "minProperties"})
_ARRAY_WORDS = frozenset({"items", "prefixItems", "minItems", "maxItems", "uniqueItems"})
COUNTS = {
    "minLength": OF_STRINGS,
    "maxLength": OF_STRINGS,
    "minItems": OF_ARRAYS,
    "maxItems": OF_ARRAYS,
    "minProperties": OF_OBJECTS,
    "maxProperties": OF_OBJECTS,
    "minContains": OF_ARRAYS,
    "maxContains": OF_ARRAYS,
}
OPAQUE = {
    "not": ALL_TYPES,
    "if": ALL_TYPES,
    "then": ALL_TYPES,
    "else": ALL_TYPES,
    "contains": OF_ARRAYS,
    "propertyNames": OF_OBJECTS,
    "dependentSchemas": OF_OBJECTS,
    "dependentRequired": OF_OBJECTS,
    "dependencies": OF_OBJECTS,
    "unevaluatedItems": OF_ARRAYS,
    "contentEncoding": OF_STRINGS,
    "contentMediaType": OF_STRINGS,
    "contentSchema": OF_STRINGS,
}
"""Words whose inside is compared as a whole: equal, there on one side only, or changed."""


class Bound(msgspec.Struct, frozen=True):
    """One end of a range, and where it is said. `exclusive`: the value itself is out."""

    value: float
    exclusive: bool
    at: str


class Shape(msgspec.Struct):
    """`types` None: any. `values` by canonical text, None: any. `extra` None: any field may come besides."""

    never: bool = False
    types: frozenset[str] | None = None
    types_at: str = ""
    values: dict[str, Any] | None = None
    values_at: str = ""
    open_values: bool = False
    """More values are announced (`x-extensible-enum`): a reader was told to expect them."""
    low: Bound | None = None
    high: Bound | None = None
    counts: dict[str, tuple[float, str]] = {}
    multiples: dict[str, str] = {}
    patterns: dict[str, str] = {}
    formats: dict[str, str] = {}
    unique: str | None = None
    props: dict[str, Node] = {}
    required: dict[str, str] = {}
    pattern_props: dict[str, Node] = {}
    extra: Node | None = None
    closed: str | None = None
    prefix: tuple[Node, ...] = ()
    rest: Node | None = None
    opaque: dict[str, tuple[str, bytes | None]] = {}
    default: tuple[str, str] | None = None
    """Canonical text of the default, and where."""
    read_only: bool = False
    write_only: bool = False
    deprecated: bool = False
    sunset: str = ""
    announced: dict[str, str] = {}
    """Values that are announced to go, by canonical text, and since when (`x-deprecated-values`)."""
    discriminator: tuple[str, str, dict[str, str]] | None = None

    def has(self, kinds: frozenset[str]) -> bool:
        return self.types is None or bool(self.types & kinds)


def text_of(value: object) -> str:
    """Canonical text of a JSON value: equal for values that are equal."""
    try:
        return canonical(value).decode("utf-8", "surrogatepass")
    except (ValueError, TypeError, RecursionError):
        return repr(value)


def shape_of(document: Document, node: Node) -> Shape:
    """Merge all that holds at a node, once; its choices are left to the caller. Raises Missing."""
    node = document.followed(node)
    kept: Shape | None = document.shapes.get(node.key)
    if kept is None:
        kept = document.shapes[node.key] = _merged(document, node)
    return kept


def _merged(document: Document, node: Node) -> Shape:
    flat = document.flat(node)
    shape = Shape(never=flat.never)
    guessed: frozenset[str] | None = None
    spelled = False
    for leaf in flat.leaves:
        value = leaf.value
        _types(shape, leaf, document)
        spelled |= "type" in value or "enum" in value or "const" in value
        words = value.keys()
        if "type" not in value and (words & _OBJECT_WORDS or words & _ARRAY_WORDS):
            guessed = (OF_OBJECTS if words & _OBJECT_WORDS else OF_ARRAYS) | (guessed or frozenset())
        _values(shape, leaf)
        _numbers(shape, leaf)
        _texts(shape, leaf)
        _fields(shape, leaf)
        _elements(shape, leaf)
        _said(shape, leaf, document)
    if sum("additionalProperties" in leaf.value for leaf in flat.leaves) and len(flat.leaves) > 1:
        _close_in(shape, [leaf for leaf in flat.leaves if "additionalProperties" in leaf.value])
    if not spelled and guessed is not None and not flat.unions:
        shape.types = guessed
    if node.only is not None:
        shape.types = node.only if shape.types is None else shape.types & node.only
    null = flat.null and (node.only is None or "null" in node.only)
    if null and shape.types is not None:
        shape.types |= {"null"}
    _settle(shape, null=null)
    return shape


def _settle(shape: Shape, *, null: bool) -> None:
    """Bring types and constants in line: a constant of another type never fits, a type without a constant neither."""
    if shape.values is not None:
        if null:
            shape.values["null"] = None
        if shape.types is not None:
            kept = shape.types
            shape.values = {
                text: one
                for text, one in shape.values.items()
                if kind_of(one) in kept or (kind_of(one) == "integer" and "number" in kept)
            }
        shape.types = frozenset(kind_of(one) for one in shape.values.values())
    if shape.types is not None and not shape.types:
        shape.never = True


def _types(shape: Shape, leaf: Part, document: Document) -> None:
    word = leaf.value.get("type")
    named = (
        [word]
        if isinstance(word, str)
        else [one for one in word if isinstance(one, str)]
        if isinstance(word, list)
        else []
    )
    if not named:
        return
    types = frozenset(named) & ALL_TYPES
    if "number" in types:
        types |= {"integer"}
    if document.nullable and leaf.value.get("nullable") is True:
        types |= {"null"}
    shape.types = types if shape.types is None else shape.types & types
    shape.types_at = step(leaf.at, "type")


def _values(shape: Shape, leaf: Part) -> None:
    value = leaf.value
    sets = [[value["const"]]] if "const" in value else []
    if isinstance(value.get("enum"), list):
        sets.append(value["enum"])
    for one in sets:
        given = {text_of(item): item for item in one}
        if value.get("nullable") is True:
            given["null"] = None
        shape.values = (
            given if shape.values is None else {text: item for text, item in shape.values.items() if text in given}
        )
        shape.values_at = step(leaf.at, "const" if "const" in value else "enum")
    if isinstance(value.get("x-extensible-enum"), list):
        shape.open_values = True
    for word in ("x-deprecated-values", "x-enum-deprecated"):
        announced = value.get(word)
        if isinstance(announced, dict):
            # Names of an object are text: `3` announces the number as well as the word.
            for name, since in announced.items():
                if isinstance(since, str):
                    shape.announced |= {text_of(name): since, name: since}


def _number(value: object) -> float | None:
    fits = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    return value if fits else None  # type: ignore[return-value]  # it fits: a number


def _numbers(shape: Shape, leaf: Part) -> None:
    value = leaf.value
    for word, tight, sign in (("minimum", "exclusiveMinimum", 1), ("maximum", "exclusiveMaximum", -1)):
        inclusive, exclusive = _number(value.get(word)), _number(value.get(tight))
        bounds = []
        if inclusive is not None:
            bounds.append(Bound(inclusive, value.get(tight) is True, step(leaf.at, word)))
        if exclusive is not None:
            bounds.append(Bound(exclusive, True, step(leaf.at, tight)))
        for bound in bounds:
            old = shape.low if sign > 0 else shape.high
            if old is None or (sign * bound.value, bound.exclusive) > (sign * old.value, old.exclusive):
                if sign > 0:
                    shape.low = bound
                else:
                    shape.high = bound
    multiple = _number(value.get("multipleOf"))
    if multiple is not None:
        shape.multiples = {**shape.multiples, text_of(multiple): step(leaf.at, "multipleOf")}


def _texts(shape: Shape, leaf: Part) -> None:
    value = leaf.value
    for word in COUNTS:
        count = _number(value.get(word))
        if count is not None:
            old = shape.counts.get(word)
            tighter = old is None or (count > old[0] if word.startswith("min") else count < old[0])
            if tighter:
                shape.counts = {**shape.counts, word: (count, step(leaf.at, word))}
    for word, kept in (("pattern", "patterns"), ("format", "formats")):
        text = value.get(word)
        if isinstance(text, str):
            setattr(shape, kept, {**getattr(shape, kept), text: step(leaf.at, word)})


def _fields(shape: Shape, leaf: Part) -> None:
    value = leaf.value
    for word, kept in (("properties", "props"), ("patternProperties", "pattern_props")):
        inner = value.get(word)
        if isinstance(inner, dict):
            merged: dict[str, Node] = dict(getattr(shape, kept))
            for name, one in inner.items():
                part = Part(step(leaf.at, word, name), one)
                merged[name] = Node((*merged[name].parts, part)) if name in merged else Node((part,))
            setattr(shape, kept, merged)
    required = value.get("required")
    if isinstance(required, list):
        new = {name: step(leaf.at, "required", i) for i, name in enumerate(required) if isinstance(name, str)}
        shape.required = {**new, **shape.required}
    for word in ("additionalProperties", "unevaluatedProperties"):
        extra = value.get(word)
        if extra is False:
            shape.closed = step(leaf.at, word)
        elif isinstance(extra, dict) and extra:
            part = Part(step(leaf.at, word), extra)
            shape.extra = Node((*(shape.extra.parts if shape.extra else ()), part))


def _close_in(shape: Shape, closing: list[Part]) -> None:
    """Hold fields that one schema names against another that holds at once and does not name them."""
    props = dict(shape.props)
    for leaf in closing:
        own = leaf.value.get("properties")
        named = own if isinstance(own, dict) else {}
        extra = leaf.value["additionalProperties"]
        if extra is True or "patternProperties" in leaf.value:
            continue
        part = Part(step(leaf.at, "additionalProperties"), extra)
        for name in [one for one in props if one not in named]:
            if extra is False:
                del props[name]
            else:
                props[name] = Node((*props[name].parts, part))
    shape.props = props


def _elements(shape: Shape, leaf: Part) -> None:
    value = leaf.value
    if value.get("uniqueItems") is True:
        shape.unique = step(leaf.at, "uniqueItems")
    word = "prefixItems" if isinstance(value.get("prefixItems"), list) else "items"
    listed = value.get(word) if isinstance(value.get(word), list) else []
    if listed:
        shape.prefix = tuple(Node((Part(step(leaf.at, word, i), one),)) for i, one in enumerate(listed))
    rest_word = "items" if word == "prefixItems" or not listed else "additionalItems"
    rest = value.get(rest_word)
    if isinstance(rest, dict | bool) and rest is not True:
        part = Part(step(leaf.at, rest_word), rest)
        shape.rest = Node((*(shape.rest.parts if shape.rest else ()), part))


def _said(shape: Shape, leaf: Part, document: Document) -> None:
    value = leaf.value
    for word in OPAQUE:
        if word in value:
            text = document.expanded(step(leaf.at, word), value[word])
            if word in shape.opaque:
                before = shape.opaque[word][1]
                text = None if text is None or before is None else b"".join(sorted((before, text)))
            shape.opaque = {**shape.opaque, word: (step(leaf.at, word), text)}
    if "default" in value and shape.default is None:
        shape.default = (text_of(value["default"]), step(leaf.at, "default"))
    shape.read_only |= value.get("readOnly") is True
    shape.write_only |= value.get("writeOnly") is True
    shape.deprecated |= value.get("deprecated") is True
    if isinstance(value.get("x-sunset"), str):
        shape.sunset = value["x-sunset"]
    told = value.get("discriminator")
    if isinstance(told, dict) and isinstance(told.get("propertyName"), str):
        mapping = told.get("mapping")
        names = {k: v for k, v in mapping.items() if isinstance(v, str)} if isinstance(mapping, dict) else {}
        shape.discriminator = (told["propertyName"], step(leaf.at, "discriminator"), names)
