"""The law of a closed schema: what a tool's `inputSchema` must say so that nothing comes in that nobody wrote down.

1. The whole is an object: `type` is "object" and no other. Each type anywhere is one of JSON Schema's seven.
2. An object is closed: `additionalProperties` or `unevaluatedProperties` is false, there or in what applies to the same
   value (`$ref`, all of `allOf`'s branches or one, every branch of `anyOf` and `oneOf`). A schema in its place types the
   values and leaves the names free: that is open, unless `propertyNames` lists them or fits them by an anchored pattern. So is
   `patternProperties` by a pattern that is not anchored at both ends or takes any character.
3. Every value is typed: by `type`, `enum`, `const`, or by what applies to it. `{}`, `true` and words alone admit anything. A
   list says what it holds; what follows `prefixItems` counts too.
4. `required` is a list of names, each once, each of a property, and not empty. The whole has one where it has a property. A
   tool without arguments has neither.
5. References lead into the same document. One that leads elsewhere is refused, whatever is there; so are one that leads
   nowhere, an `$id` below the top, and a circle of references that says nothing. `$schema` is a name and is followed by nobody.
6. A text property that is a command by its name (`command`, `cmd`, `shell`, `script`) is fixed by `enum`, `const` or an anchored
   pattern whose classes take no `;`, `|`, `&` and their like, or it is a shell with a schema.
7. A word that JSON Schema does not have is refused, but for `x-...` and a few that others add: a validator passes over what was
   misspelled. So is a word with a value that it cannot have.
8. `not`, `if`, `then`, `else` and the `dependent...` only narrow: they close nothing and open nothing. Types and references
   in them are read all the same.
"""

import re
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import unquote

import msgspec

from drillmaster.rules._looks import look
from drillmaster.rules._schema_patterns import anchored, operates, whole
from drillmaster.strict import pointer, shown

__all__ = ["Fault", "Kind", "faults", "properties"]

MAX_NODES = 20_000
MAX_HOPS = 50
"""Of one reference to the next before the first thing that is said."""

Kind = str
_TYPES = frozenset({"array", "boolean", "integer", "null", "number", "object", "string"})
_IN_PLACE = ("allOf", "anyOf", "oneOf")
_NARROWING = ("not", "if", "then", "else")
_COMMANDS = frozenset(
    {
        "command", "commands", "cmd", "cmds", "cmdline", "commandline", "commandstring", "shell", "shellcommand", "shellcmd",
        "bash", "bashcommand", "powershell", "exec", "execute", "script", "shellscript", "bashscript", "eval", "argv",
    }
)  # fmt: skip  # words, a line at a time
_COMMAND = (
    r"(run|exec|execute|shell|bash|sh|powershell|system|os|terminal|cli|unix|linux)(command|cmd|script|code)s?(line|string|text)?"
    r"|(command|cmd|script|code)(to)?(run|execute|exec)|(command|cmd|script)(line|string|text|body)"
    r"|(python|js|javascript|node|ruby|perl|php|lua)(code|script|source)|entrypoint"
)
_COUNTS = (
    "minLength",
    "maxLength",
    "minItems",
    "maxItems",
    "minProperties",
    "maxProperties",
    "minContains",
    "maxContains",
)
_NUMBERS = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf")
_TEXTS = (
    "pattern",
    "format",
    "title",
    "description",
    "$comment",
    "$schema",
    "$id",
    "$anchor",
    "contentEncoding",
    "contentMediaType",
)
_KNOWN = frozenset(
    {
        *_COUNTS, *_NUMBERS, *_TEXTS, *_IN_PLACE, *_NARROWING, "type", "enum", "const", "properties", "patternProperties",
        "additionalProperties", "unevaluatedProperties", "propertyNames", "required", "dependentRequired", "dependentSchemas",
        "dependencies", "items", "prefixItems", "additionalItems", "unevaluatedItems", "contains", "uniqueItems", "$ref", "$defs",
        "definitions", "$dynamicRef", "$dynamicAnchor", "$recursiveRef", "$recursiveAnchor", "$vocabulary", "id", "default",
        "examples", "example", "deprecated", "readOnly", "writeOnly", "contentSchema", "nullable", "discriminator",
        "markdownDescription", "enumNames", "enumDescriptions", "errorMessage",
    }
)  # fmt: skip  # words, a line at a time
_SAYS_NOTHING = frozenset(
    {
        "description",
        "title",
        "default",
        "examples",
        "example",
        "$comment",
        "deprecated",
        "readOnly",
        "writeOnly",
        "$schema",
        "$id",
    }
)
_Path = tuple[str | int, ...]


class Fault(msgspec.Struct, frozen=True):
    """One thing that a schema says, or leaves unsaid: its kind, its JSON pointer, and in words what was found there."""

    kind: Kind
    """open, any, required-empty, required-missing, required-shape, required-unknown, type, shape, reference, command, size."""
    at: str
    found: str


def faults(schema: object) -> tuple[Fault, ...]:
    """Say what is open, missing or wrong in a tool's `inputSchema`, in the order of the document. Nothing: it is closed."""
    if not isinstance(schema, dict):
        return (Fault("shape", "", f"{shown(schema)}, where an object is wanted"),)
    walk = _Walk(schema)
    try:
        walk.whole()
    except _Enough:
        walk.say("size", (), f"more than {MAX_NODES} schemas, or {MAX_HOPS} references in a row")
    seen: dict[tuple[str, str], Fault] = {}
    for fault in walk.found:
        seen.setdefault((fault.kind, fault.at), fault)
    return tuple(seen.values())


def properties(schema: object) -> frozenset[str]:
    """Give the names of all properties of the whole, those of what applies in its place among them."""
    return frozenset(_Walk(schema).names(schema, 0)) if isinstance(schema, dict) else frozenset()


class _Enough(Exception):
    """The document is larger than anybody reads."""


class _Walk:
    def __init__(self, root: dict[str, Any]) -> None:
        self.root = root
        self.found: list[Fault] = []
        self._seen: set[tuple[int, bool]] = set()
        self._nodes = 0
        said = root.get("$schema")
        # Up to draft 7 whatever stands beside a `$ref` is not read.
        self._siblings = not (isinstance(said, str) and re.search(r"draft-0?[34567]\b", said))
        self._anchors: dict[str, Any] | None = None

    def say(self, kind: Kind, at: _Path, found: str) -> None:
        self.found.append(Fault(kind, pointer(at), found))

    def whole(self) -> None:
        root = self.root
        if root.get("type") != "object":
            said = shown(root["type"]) if "type" in root else "no type"
            self.say("type", ("type",), f"{said}, where a tool's arguments are an object")
        self._value(root, (), known=frozenset(), is_root=True)
        for word in ("$defs", "definitions"):
            kept = root.get(word)
            for name, inner in kept.items() if isinstance(kept, dict) else ():
                self._beside(inner, (word, name))  # a validator reads them all, whether or not anything refers to them
        if "required" not in root and self.names(root, 0) and not self._requires(root, 0):
            self.say("required-missing", (), "no list of required properties")

    # A value: what its schema, with all that applies in its place, lets in

    def _value(self, schema: object, at: _Path, *, known: frozenset[str], is_root: bool = False) -> None:
        self._nodes += 1
        if self._nodes > MAX_NODES or len(at) > 400:
            raise _Enough
        if isinstance(schema, bool) or schema == {}:
            if schema is not False:
                self.say("any", at, f"{'true' if schema is True else 'an empty schema'}, which takes anything")
            return
        if not isinstance(schema, dict):
            self.say("shape", at, f"{shown(schema)}, where a schema is wanted")
            return
        if (id(schema), True) in self._seen:
            return
        self._seen.add((id(schema), True))
        if not is_root and not self._typed(schema, 0):
            self.say("any", at, "no type, so it takes anything")
        else:
            if self._may_be(schema, "object", 0) and not self._closed(schema, 0):
                self.say("open", at, self._opening(schema))
            if self._may_be(schema, "array", 0) and not self._listed(schema, 0):
                self.say("any", at, "a list that does not say what it holds")
        self._inside(schema, at, known)

    def _inside(self, schema: dict[str, Any], at: _Path, known: frozenset[str]) -> None:
        """Judge what is said in one schema, and the values inside the value it is of."""
        self._words(schema, at)
        known = known | self.names(schema, 0)
        self._required(schema, at, known)
        own = schema.get("properties")
        for name, inner in own.items() if isinstance(own, dict) else ():
            self._value(inner, (*at, "properties", name), known=frozenset())
            self._command(name, inner, (*at, "properties", name))
            if not name.strip() or not name.isprintable() or name == "__proto__":
                self.say("shape", (*at, "properties", name), f"{shown(name)}, which is no name of a property")
        patterns = schema.get("patternProperties")
        for name, inner in patterns.items() if isinstance(patterns, dict) else ():
            self._value(inner, (*at, "patternProperties", name), known=frozenset())
            if not anchored(name):
                self.say("open", (*at, "patternProperties", name), "a pattern of names that takes more than it spells")
        for word in ("additionalProperties", "unevaluatedProperties"):
            more = schema.get(word)
            if isinstance(more, dict) and more:
                self._value(more, (*at, word), known=frozenset())
        if schema.get("unevaluatedProperties") is True or schema.get("additionalProperties") is True:
            self.say("open", at, self._opening(schema))
        self._items(schema, at)
        for word in _IN_PLACE:
            branches = schema.get(word)
            for index, branch in enumerate(branches if isinstance(branches, list) else ()):
                self._branch(branch, (*at, word, index), known)
        if isinstance(schema.get("$ref"), str):
            target = self._target(schema, at)
            if isinstance(target, dict):
                self._branch(target, (*at, "$ref"), known)
        for word in _NARROWING:
            self._beside(schema.get(word), (*at, word))
        for word in ("dependentSchemas", "dependencies"):
            more = schema.get(word)
            for name, inner in more.items() if isinstance(more, dict) else ():
                self._beside(inner, (*at, word, name))

    def _branch(self, branch: object, at: _Path, known: frozenset[str]) -> None:
        """Read a schema that applies to the same value; whether that is closed was judged with the value."""
        self._nodes += 1
        if self._nodes > MAX_NODES or len(at) > 400:
            raise _Enough
        if not isinstance(branch, dict):
            if not isinstance(branch, bool):
                self.say("shape", at, f"{shown(branch)}, where a schema is wanted")
            return
        if (id(branch), False) in self._seen:
            return
        self._seen.add((id(branch), False))
        self._inside(branch, at, known)

    def _beside(self, schema: object, at: _Path) -> None:
        """Read what only narrows, for its types and references."""
        self._nodes += 1
        if self._nodes > MAX_NODES:
            raise _Enough
        if isinstance(schema, dict):
            self._words(schema, at)
            if isinstance(schema.get("$ref"), str):
                self._target(schema, at)
            for word, inner in schema.items():
                if word in ("properties", "patternProperties", "dependentSchemas") and isinstance(inner, dict):
                    for name, one in inner.items():
                        self._beside(one, (*at, word, name))
                elif word not in ("enum", "const", "default", "examples"):
                    self._beside(inner, (*at, word))
        elif isinstance(schema, list):
            for index, one in enumerate(schema):
                self._beside(one, (*at, index))

    def _items(self, schema: dict[str, Any], at: _Path) -> None:
        for word in ("prefixItems", "items"):
            ahead = schema.get(word)
            for index, inner in enumerate(ahead if isinstance(ahead, list) else ()):
                self._value(inner, (*at, word, index), known=frozenset())
        for word in ("items", "additionalItems", "unevaluatedItems", "contains"):
            inner = schema.get(word)
            if isinstance(inner, dict) and inner:
                self._value(inner, (*at, word), known=frozenset())

    # What one schema says

    def _words(self, schema: dict[str, Any], at: _Path) -> None:
        self._values(schema, at)
        if "type" in schema:
            said = schema["type"]
            several = said if isinstance(said, list) else [said]
            wrong = [one for one in several if not isinstance(one, str) or one not in _TYPES]
            if wrong or not several:
                found = shown(wrong[0]) if wrong else "an empty list"
                self.say("type", (*at, "type"), f"{found}, which is no type")
        for word, wanted in (("properties", dict), ("patternProperties", dict), ("$defs", dict), ("definitions", dict)):
            if word in schema and not isinstance(schema[word], wanted):
                self.say("shape", (*at, word), f"{shown(schema[word])}, where an object is wanted")
        for word in ("additionalProperties", "unevaluatedProperties", "additionalItems", "unevaluatedItems"):
            if word in schema and not isinstance(schema[word], bool | dict):
                self.say("shape", (*at, word), f"{shown(schema[word])}, where false or a schema is wanted")
        for word in _IN_PLACE:
            if word in schema and not (isinstance(schema[word], list) and schema[word]):
                self.say("shape", (*at, word), f"{shown(schema[word])}, where a list of schemas is wanted")
        if isinstance(schema.get("pattern"), str) and not whole(schema["pattern"]):
            self.say("shape", (*at, "pattern"), f"{shown(schema['pattern'])}, a pattern whose brackets do not end")
        if "enum" in schema and not (isinstance(schema["enum"], list) and schema["enum"]):
            self.say("shape", (*at, "enum"), f"{shown(schema['enum'])}, where a list of values is wanted")
        if "items" in schema and not isinstance(schema["items"], bool | dict | list):
            self.say("shape", (*at, "items"), f"{shown(schema['items'])}, where a schema is wanted")
        for word in ("$ref", "$dynamicRef", "$recursiveRef"):
            if word in schema and not isinstance(schema[word], str):
                self.say("reference", (*at, word), f"{shown(schema[word])}, where a reference is wanted")
        for word in ("$dynamicRef", "$recursiveRef"):
            if isinstance(schema.get(word), str):
                self.say("reference", (*at, word), "a reference whose target depends on who asks")
        if at and isinstance(schema.get("$id", schema.get("id") if "$ref" in schema else None), str):
            self.say("reference", (*at, "$id"), "an $id below the top, which moves where references lead")

    def _values(self, schema: dict[str, Any], at: _Path) -> None:
        """Rule 7."""
        for word, value in schema.items():
            wanted = ""
            if word in _COUNTS and not (type(value) is int and value >= 0):
                wanted = "a whole number, at least 0,"
            elif word in _NUMBERS and (isinstance(value, bool) or not isinstance(value, int | float)):
                if not (word.startswith("exclusive") and isinstance(value, bool) and not self._siblings):
                    wanted = "a number"
            elif word in _TEXTS and not isinstance(value, str):
                wanted = "text"
            elif word == "uniqueItems" and not isinstance(value, bool):
                wanted = "true or false"
            elif word == "propertyNames" and not isinstance(value, bool | dict):
                wanted = "a schema"
            elif word == "dependencies" and not (
                isinstance(value, dict) and all(isinstance(one, bool | dict | list) for one in value.values())
            ):
                wanted = "an object of schemas and lists of names"
            elif word not in _KNOWN and not word.startswith("x-"):
                self.say("shape", (*at, word), f"{shown(word)}, a word that JSON Schema does not have")
            if wanted:
                self.say("shape", (*at, word), f"{shown(value)}, where {wanted} is wanted")

    def _required(self, schema: dict[str, Any], at: _Path, known: frozenset[str]) -> None:
        if "required" not in schema:
            return
        said, where = schema["required"], (*at, "required")
        if not isinstance(said, list) or not all(isinstance(one, str) for one in said):
            self.say("required-shape", where, f"{shown(said)}, where a list of names is wanted")
        elif not said:
            self.say("required-empty", where, "an empty list")
        elif len(set(said)) != len(said):
            self.say("required-shape", where, "a name twice")
        else:
            for name in said:
                if name not in known:
                    self.say("required-unknown", where, f"{shown(name)}, which is no property")

    def _command(self, name: str, schema: object, at: _Path) -> None:
        plain = re.sub(r"[^a-z]", "", look(name))
        if not (plain in _COMMANDS or re.fullmatch(_COMMAND, plain)) or not isinstance(schema, dict):
            return
        inner = schema.get("items")
        if self._may_be(schema, "array", 0) and isinstance(inner, dict):
            schema = inner
        if self._may_be(schema, "string", 0) and not self._fixed(schema, 0):
            self.say("command", at, f"a property {shown(name)} of free text")

    def _opening(self, schema: dict[str, Any]) -> str:
        for word in ("unevaluatedProperties", "additionalProperties"):
            if word in schema and schema[word] is not False:
                more = schema[word]
                return f"{word} is {'a schema, which leaves the names free' if isinstance(more, dict) and more else shown(more)}"
        return "an object without additionalProperties: false"

    # What applies to one value, all references followed

    def _target(self, schema: dict[str, Any], at: _Path) -> object:
        """Where a reference leads; None, with a fault said, where that is nowhere or elsewhere."""
        ref = schema["$ref"]
        where = (*at, "$ref")
        if not ref.startswith("#"):
            self.say("reference", where, f"{shown(ref)}, which leads out of the document")
            return None
        target = self._follow(ref)
        if target is None:
            self.say("reference", where, f"{shown(ref)}, which leads nowhere")
        elif not isinstance(target, dict | bool):
            self.say("reference", where, f"{shown(ref)}, which leads to no schema")
        return target

    def _follow(self, ref: str) -> object:
        if not ref.startswith("#"):
            return None
        step: Any = self.root
        fragment = unquote(ref[1:])
        if fragment and not fragment.startswith("/"):
            return self._anchor(fragment)
        for part in fragment.split("/")[1:]:
            part = part.replace("~1", "/").replace("~0", "~")
            if isinstance(step, dict) and part in step:
                step = step[part]
            elif isinstance(step, list) and part.isascii() and part.isdigit() and int(part) < len(step):
                step = step[int(part)]
            else:
                return None
        return step

    def _anchor(self, name: str) -> object:
        if self._anchors is None:
            self._anchors = {}
            waiting: list[Any] = [self.root]
            while waiting:
                one = waiting.pop()
                if isinstance(one, dict):
                    if isinstance(one.get("$anchor"), str):
                        self._anchors.setdefault(one["$anchor"], one)
                    waiting.extend(one.values())
                elif isinstance(one, list):
                    waiting.extend(one)
        return self._anchors.get(name)

    def _applied(self, schema: dict[str, Any], hops: int) -> Iterator[tuple[str, list[Any]]]:
        """What applies in place: ("all", branches) or ("any", branches)."""
        if hops > MAX_HOPS:
            return  # a circle of references says nothing
        if isinstance(schema.get("$ref"), str):
            yield "all", [self._follow(schema["$ref"])]
        for word in _IN_PLACE:
            branches = schema.get(word)
            if isinstance(branches, list) and branches:
                yield ("all" if word == "allOf" else "any"), branches

    def _own(self, schema: dict[str, Any]) -> dict[str, Any]:
        """What a schema says itself: nothing beside an old reference."""
        return {} if "$ref" in schema and not self._siblings else schema

    def _holds(self, schema: object, hops: int, own: Callable[[dict[str, Any]], bool]) -> bool:
        """Whether something is said of the value: by the schema itself, by one that applies with it, or by each of several."""
        if isinstance(schema, bool):
            return not schema  # false lets in nothing, and is as closed as can be
        if not isinstance(schema, dict) or hops > MAX_HOPS:
            return False
        self._count()
        if own(self._own(schema)):
            return True
        return any(
            (any if how == "all" else all)(self._holds(branch, hops + 1, own) for branch in branches)
            for how, branches in self._applied(schema, hops)
        )

    def _count(self) -> None:
        self._nodes += 1
        if self._nodes > MAX_NODES * 10:
            raise _Enough

    def _typed(self, schema: object, hops: int) -> bool:
        return self._holds(schema, hops, lambda one: bool(one.keys() & {"type", "enum", "const"}))

    def _fixed(self, schema: object, hops: int) -> bool:
        return self._holds(
            schema,
            hops,
            lambda one: (
                bool(one.keys() & {"enum", "const"})
                or (isinstance(one.get("pattern"), str) and anchored(one["pattern"]) and not operates(one["pattern"]))
            ),
        )

    def _closed(self, schema: object, hops: int) -> bool:
        def own(one: dict[str, Any]) -> bool:
            if one.keys() & {"enum", "const"}:
                return True
            if one.get("unevaluatedProperties") is True or one.get("additionalProperties") is True:
                return False
            if one.get("additionalProperties") is False:
                return True
            if one.get("unevaluatedProperties") is False and not self._evaluates_all(one, 0):
                return True
            return _names_listed(one.get("propertyNames")) or ("type" in one and "object" not in _types(one))

        return self._holds(schema, hops, own)

    def _evaluates_all(self, schema: dict[str, Any], hops: int) -> bool:
        """Whether something that applies in place takes every name, so that `unevaluatedProperties` meets none."""
        self._count()
        if hops > MAX_HOPS:
            return True
        inner = [branch for _, branches in self._applied(schema, hops) for branch in branches]
        inner += [schema.get(word) for word in ("if", "then", "else")]
        more = schema.get("dependentSchemas")
        inner += more.values() if isinstance(more, dict) else ()
        for one in inner:
            if isinstance(one, dict):
                taken = [one[word] for word in ("additionalProperties", "unevaluatedProperties") if word in one]
                patterns = one.get("patternProperties")
                loose = isinstance(patterns, dict) and not all(map(anchored, patterns))
                if any(word is not False for word in taken) or loose or self._evaluates_all(one, hops + 1):
                    return True
        return False

    def _listed(self, schema: object, hops: int) -> bool:
        def own(one: dict[str, Any]) -> bool:
            if one.keys() & {"enum", "const"} or ("type" in one and "array" not in _types(one)):
                return True
            items = one.get("items")
            if isinstance(items, list):  # a tuple of the older drafts
                return one.get("additionalItems") is False or _is_said(one.get("additionalItems"))
            return items is False or _is_said(items) or one.get("unevaluatedItems") is False or one.get("maxItems") == 0

        return self._holds(schema, hops, own)

    def _may_be(self, schema: object, kind: str, hops: int) -> bool:
        """Whether a value of that type is let in, as far as types are said."""
        if not isinstance(schema, dict) or hops > MAX_HOPS:
            return schema is True
        self._count()
        own = self._own(schema)
        if "type" in own and kind not in _types(own):
            return False
        if own.keys() & {"enum", "const"}:
            return False
        return all(
            (all if how == "all" else any)(self._may_be(branch, kind, hops + 1) for branch in branches)
            for how, branches in self._applied(schema, hops)
        )

    def names(self, schema: object, hops: int) -> frozenset[str]:
        """Names of the properties of a value, wherever in its place they are said."""
        if not isinstance(schema, dict) or hops > MAX_HOPS:
            return frozenset()
        self._count()
        own = schema.get("properties")
        found = frozenset(own) if isinstance(own, dict) else frozenset()
        for _, branches in self._applied(schema, hops):
            for branch in branches:
                found |= self.names(branch, hops + 1)
        return found

    def _requires(self, schema: object, hops: int) -> bool:
        return self._holds(schema, hops, lambda one: isinstance(one.get("required"), list) and bool(one["required"]))


def _types(schema: dict[str, Any]) -> frozenset[str]:
    said = schema["type"]
    several = said if isinstance(said, list) else [said]
    return frozenset(one for one in several if isinstance(one, str))


def _is_said(schema: object) -> bool:
    return isinstance(schema, dict) and bool(schema.keys() - _SAYS_NOTHING)


def _names_listed(schema: object) -> bool:
    if not isinstance(schema, dict):
        return False
    pattern = schema.get("pattern")
    return bool(schema.keys() & {"enum", "const"}) or (isinstance(pattern, str) and anchored(pattern))
