"""Schemas as they stand in a document: references followed, `allOf` merged, choices told apart.

1. A node is what has to hold at one place: one schema, or several at once. References and `allOf` are followed until only
   plain keywords are left; a circle is entered once.
2. A reference leads within its document: a pointer, an anchor, an `$id` of a part. Another address is never fetched.
3. Up to draft 7, and in OpenAPI 3.0, whatever stands beside `$ref` is ignored, as those drafts say.
4. "This or null", a list of types and a choice of constants are one thing however they are spelled.
"""

import re
from typing import Any
from urllib.parse import unquote, urldefrag, urljoin

import msgspec

from drillmaster.strict import canonical

__all__ = ["ALL_TYPES", "Document", "Flat", "Missing", "Node", "Part", "Union", "kind_of", "pointed", "step"]

ALL_TYPES = frozenset({"null", "boolean", "object", "array", "number", "integer", "string"})
ANNOTATIONS = frozenset({
    "$comment", "$defs", "$id", "$schema", "definitions", "deprecated", "description", "example", "examples",
    "externalDocs", "id", "title", "xml",
})  # fmt: skip  # words, a line at a time
_DATA = frozenset({"const", "default", "enum", "example", "examples", "mapping"})
"""Words whose inside is data, whatever it looks like."""
_MAPS = frozenset({
    "$defs", "callbacks", "definitions", "dependentSchemas", "headers", "parameters", "paths", "patternProperties",
    "properties", "requestBodies", "responses", "schemas", "securitySchemes", "webhooks",
})  # fmt: skip  # words, a line at a time
"""Words whose inside goes by names that people gave: a field may be called `title`, `default` or `$ref`."""
_MAX_BRANCHES = 64
_MAX_EXPANDED = 20_000
_OLD_DRAFT = re.compile(r"draft-0[3467]/")


class Missing(Exception):
    """A reference that leads nowhere within the document. `remote`: it names another address."""

    def __init__(self, ref: str, at: str, *, remote: bool) -> None:
        super().__init__(ref)
        self.ref = ref
        self.at = at
        self.remote = remote


class Part(msgspec.Struct, frozen=True):
    """One schema at a JSON pointer. `leaf`: its references, `allOf` and choices were followed already.

    `or_null`: null fits as well, whatever it says.
    """

    at: str
    value: Any
    leaf: bool = False
    or_null: bool = False


class Node(msgspec.Struct, frozen=True):
    """What holds at one place. `only` keeps some types of it."""

    parts: tuple[Part, ...]
    only: frozenset[str] | None = None

    @property
    def at(self) -> str:
        return self.parts[0].at if self.parts else ""

    @property
    def key(self) -> tuple[Any, ...]:
        return (tuple((part.at, part.leaf, part.or_null) for part in self.parts), self.only)


class Union(msgspec.Struct, frozen=True):
    """One choice: its keyword, where it stands, its branches, and whether null is one more."""

    keyword: str
    at: str
    branches: tuple[Node, ...]
    null: bool


class Flat(msgspec.Struct):
    """A node without references: schemas of plain keywords, the choices among them, and whether nothing fits at all."""

    leaves: list[Part]
    unions: list[Union]
    never: bool = False
    null: bool = False
    """Null fits besides what types and constants say: some schema lets it in, and none keeps it out."""


def step(at: str, *steps: str | int) -> str:
    """Lengthen a JSON pointer."""
    return at + "".join("/" + str(one).replace("~", "~0").replace("/", "~1") for one in steps)


def kind_of(value: object) -> str:
    """Name a JSON value's type as JSON Schema does: 1.0 is an integer."""
    match value:
        case None:
            return "null"
        case bool():
            return "boolean"
        case int():
            return "integer"
        case float():
            return "integer" if value.is_integer() else "number"
        case str():
            return "string"
        case list():
            return "array"
    return "object"


class Document:
    """One version of a document, with what its parts are called. `nullable`: OpenAPI 3.0's own words hold."""

    def __init__(self, root: Any, *, nullable: bool = False) -> None:
        self.root = root
        self.nullable = nullable
        declared = root.get("$schema") if isinstance(root, dict) else None
        self.siblings = not nullable and not (isinstance(declared, str) and _OLD_DRAFT.search(declared))
        self._base = ""
        self._ids: dict[str, str] = {}
        self._anchors: dict[str, str] = {}
        self.shapes: dict[tuple[Any, ...], Any] = {}
        """What nodes ask, by their key, as it was worked out."""
        self.one_sided = False
        """Whether any field is written by one side alone (`readOnly`, `writeOnly`)."""
        self.refs: dict[str, str] = {}
        """Every reference as it is written, and where one of them stands."""
        self._index()

    def node(self, at: str, value: Any) -> Node:
        return Node((Part(at, value),))

    def _index(self) -> None:
        if isinstance(self.root, dict):
            own = self.root.get("$id", self.root.get("id"))
            self._base = own if isinstance(own, str) else ""
        waiting: list[tuple[str, Any, bool]] = [("", self.root, False)]
        while waiting:
            at, value, named = waiting.pop()
            if isinstance(value, list):
                waiting += [(step(at, i), one, False) for i, one in enumerate(value)]
            elif isinstance(value, dict) and named:
                waiting += [(step(at, name), one, False) for name, one in value.items()]
            elif isinstance(value, dict):
                self._names(at, value)
                waiting += [
                    (step(at, name), one, self._is_map(name)) for name, one in value.items() if name not in _DATA
                ]

    def _is_map(self, word: str) -> bool:
        # A tool's `parameters` are one schema; those of an OpenAPI document go by their names.
        return word in _MAPS and (word != "parameters" or "openapi" in self.root)

    def _names(self, at: str, value: dict[str, Any]) -> None:
        """Note what one object is called, what it refers to, and whose fields it has."""
        ref = _reference(value)
        if ref is not None:
            self.refs.setdefault(ref, at)
        self.one_sided |= "readOnly" in value or "writeOnly" in value
        for word in ("$id", "id"):
            name = value.get(word)
            if isinstance(name, str) and name.startswith("#"):
                self._anchors.setdefault(name[1:], at)
            elif isinstance(name, str) and (word == "$id" or at == ""):
                self._ids.setdefault(_whole(self._base, name), at)
        for word in ("$anchor", "$dynamicAnchor"):
            name = value.get(word)
            if isinstance(name, str):
                self._anchors.setdefault(name, at)

    def unresolved(self) -> list[Missing]:
        """List the references that lead nowhere within the document."""
        found = []
        for ref, at in self.refs.items():
            try:
                self.resolve(ref, at)
            except Missing as missing:
                found.append(missing)
        return found

    def resolve(self, ref: str, at: str) -> Part:
        """Follow one reference from the schema at `at`. Raises Missing."""
        where, fragment = urldefrag(ref)
        start = self._enclosing(at)
        if where:
            known = self._ids.get(_whole(self._base, where))
            if known is None:
                raise Missing(ref, at, remote=True)
            start = known
        fragment = unquote(fragment)
        if fragment and not fragment.startswith("/"):
            anchored = self._anchors.get(fragment)
            if anchored is None:
                raise Missing(ref, at, remote=False)
            return Part(anchored, pointed(self.root, anchored))
        for origin in (start, "") if not where else (start,):
            try:
                return Part(origin + fragment, pointed(self.root, origin + fragment))
            except LookupError:
                continue
        raise Missing(ref, at, remote=False)

    def followed(self, node: Node) -> Node:
        """Replace what is nothing but a reference by what it leads to, so that one schema is met as one. Raises Missing."""
        seen = set()
        while len(node.parts) == 1 and _is_bare_ref(node.parts[0].value) and node.at not in seen:
            seen.add(node.at)
            node = msgspec.structs.replace(node, parts=(self.resolve(node.parts[0].value["$ref"], node.at),))
        return node

    def _enclosing(self, at: str) -> str:
        parts = [one for one in self._ids.values() if one and (at == one or at.startswith(one + "/"))]
        return max(parts, key=len, default="")

    def flat(self, node: Node) -> Flat:
        """Follow references and `allOf`. Raises Missing."""
        flat = Flat(leaves=[], unions=[])
        waiting = list(reversed(node.parts))
        seen: set[str] = set()
        while waiting:
            part = waiting.pop()
            value = part.value
            if part.leaf:
                flat.leaves.append(part)
                continue
            if value is False:
                flat.never = True
            if not isinstance(value, dict) or part.at in seen:
                continue
            seen.add(part.at)
            # OpenAPI 3.0 wants `type` beside it; people write it beside `allOf` and mean it.
            null = part.or_null or (self.nullable and value.get("nullable") is True and "type" not in value)
            ref = _reference(value)
            if ref is not None:
                target = self.resolve(ref, part.at)
                waiting.append(msgspec.structs.replace(target, or_null=null))
                if not self.siblings and "$ref" in value:
                    continue
            for i, one in enumerate(_list(value.get("allOf"))):
                waiting.append(Part(step(part.at, "allOf", i), one, or_null=null))
            flat.leaves.append(Part(part.at, value, leaf=True, or_null=null))
            for word in ("oneOf", "anyOf"):
                branches = _list(value.get(word))
                if branches:
                    self._choice(flat, waiting, part, word, branches, null=null)
        let_in = any(leaf.or_null for leaf in flat.leaves) or any(union.null for union in flat.unions)
        kept_out = any(not leaf.or_null and not _admits_null(leaf.value) for leaf in flat.leaves)
        flat.null = let_in and not kept_out and all(union.null for union in flat.unions)
        return flat

    def _choice(
        self, flat: Flat, waiting: list[Part], part: Part, word: str, branches: list[Any], *, null: bool
    ) -> None:
        parts = [Part(step(part.at, word, i), one) for i, one in enumerate(branches)]
        real = [one for one in parts if not _only_null(one.value)]
        with_null = len(real) < len(parts)
        constants = [self._constants(one) for one in real]
        if real and all(one is not None for one in constants):
            merged = [value for one in constants for value in one or ()] + ([None] if with_null else [])
            flat.leaves.append(Part(step(part.at, word), {"enum": merged}, leaf=True, or_null=null))
        elif len(real) == 1:
            waiting.append(msgspec.structs.replace(real[0], or_null=with_null or null))
        elif real:
            flat.unions.append(Union(word, step(part.at, word), tuple(Node((one,)) for one in real), with_null or null))
        else:
            flat.leaves.append(Part(step(part.at, word), {"type": "null"}, leaf=True, or_null=null))

    def _constants(self, part: Part) -> list[Any] | None:
        """Give the values of a branch that is nothing but constants; None for any other."""
        try:
            value = self.resolve(part.value["$ref"], part.at).value if _is_bare_ref(part.value) else part.value
        except Missing:
            return None
        if not isinstance(value, dict) or not set(value) - ANNOTATIONS <= {"const", "enum", "type"}:
            return None
        if "const" in value:
            return [value["const"]]
        return _list(value.get("enum")) or None

    def alternatives(self, node: Node, inside: frozenset[str] = frozenset()) -> list[Node] | None:
        """Tell the choices of a node apart; itself where there is none. None: too many. Raises Missing.

        `inside`: choices that were told apart already; one that comes back to itself is entered once.
        """
        flat = self.flat(node)
        unions = [one for one in flat.unions if one.at not in inside]
        if not unions:
            return [node]
        base = tuple(flat.leaves)
        made: list[tuple[Part, ...]] = [()]
        for union in unions:
            made = [(*before, *branch.parts) for before in made for branch in union.branches]
            if len(made) > _MAX_BRANCHES:
                return None
        found: list[Node] = []
        for parts in made:
            # The branch goes first: what is said of an alternative is said at its own place.
            inner = self.alternatives(Node((*parts, *base), node.only), inside | {one.at for one in unions})
            if inner is None or len(found) + len(inner) > _MAX_BRANCHES:
                return None
            found += inner
        return [*found, Node((Part(unions[0].at, {"type": "null"}, leaf=True),))] if flat.null else found

    def closure(self, node: Node) -> dict[str, Any]:
        """Give all that a node leads to, as it is written, by pointer: equal in two documents, it asks for the same."""
        found: dict[str, Any] = {}
        waiting = [(part.at, part.value) for part in node.parts]
        while waiting:
            at, value = waiting.pop()
            if at in found:
                continue
            found[at] = value
            inner: list[tuple[str, Any]] = [(at, value)]
            while inner:
                here, one = inner.pop()
                if isinstance(one, list):
                    inner += [(step(here, i), each) for i, each in enumerate(one)]
                elif isinstance(one, dict):
                    ref = _reference(one)
                    if ref is not None:
                        try:
                            target = self.resolve(ref, here)
                        except Missing:
                            target = Part(ref, ref)
                        waiting.append((target.at, target.value))
                    inner += [(step(here, name), each) for name, each in one.items()]
        return found

    def expanded(self, at: str, value: Any) -> bytes | None:
        """Write a value out with references replaced and annotations left out; None where it is too much, or Missing."""
        left = _MAX_EXPANDED
        active: list[str] = []

        def write(at: str, value: Any, *, named: bool = False) -> Any:
            nonlocal left
            left -= 1
            if left < 0 or len(active) > 30:
                raise OverflowError
            if isinstance(value, list):
                return [write(step(at, i), one) for i, one in enumerate(value)]
            if not isinstance(value, dict):
                return value
            if named:
                return {name: write(step(at, name), one) for name, one in value.items()}
            ref = _reference(value)
            out = {
                name: one if name in _DATA else write(step(at, name), one, named=self._is_map(name))
                for name, one in value.items()
                if name not in ANNOTATIONS and name not in ("$ref", "$dynamicRef", "$recursiveRef")
            }
            if ref is not None:
                target = self.resolve(ref, at)
                if target.at in active:
                    out["$circle"] = len(active) - active.index(target.at)
                else:
                    active.append(target.at)
                    inner = write(target.at, target.value)
                    active.pop()
                    if not out or not self.siblings:
                        return inner
                    out["$ref"] = inner
            return out

        try:
            return canonical(write(at, value))
        except (OverflowError, Missing, RecursionError, ValueError, TypeError):
            return None


def pointed(root: Any, pointer: str) -> Any:
    """Follow a JSON pointer. Raises LookupError where it leads nowhere."""
    value = root
    for word in pointer.split("/")[1:]:
        name = word.replace("~1", "/").replace("~0", "~")
        if isinstance(value, list):
            if not (name.isascii() and name.isdigit()):
                raise LookupError(pointer)
            value = value[int(name)]
        elif isinstance(value, dict):
            value = value[name]
        else:
            raise LookupError(pointer)
    return value


def _whole(base: str, name: str) -> str:
    try:
        return urldefrag(urljoin(base, name))[0]
    except ValueError:
        return name


def _reference(value: dict[str, Any]) -> str | None:
    for word in ("$ref", "$dynamicRef", "$recursiveRef"):
        ref = value.get(word)
        if isinstance(ref, str):
            return ref
    return None


def _admits_null(value: dict[str, Any]) -> bool:
    """Whether a schema's own words let null in."""
    kind = value.get("type")
    typed = (
        kind is None or kind == "null" or (isinstance(kind, list) and "null" in kind) or value.get("nullable") is True
    )
    constants = value.get("enum")
    return typed and (not isinstance(constants, list) or None in constants) and value.get("const") is None


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _only_null(value: Any) -> bool:
    if not isinstance(value, dict) or not set(value) - ANNOTATIONS <= {"type", "enum", "const", "nullable"}:
        return False
    if value.get("type") in ("null", ["null"]):
        return True
    return "type" not in value and (value.get("enum") == [None] or ("const" in value and value["const"] is None))


def _is_bare_ref(value: Any) -> bool:
    return isinstance(value, dict) and isinstance(value.get("$ref"), str) and not value.keys() - ANNOTATIONS - {"$ref"}
