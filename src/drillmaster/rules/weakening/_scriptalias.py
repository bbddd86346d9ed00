"""Other names for a runner's functions in JavaScript: `const later = it.skip`, `import { test as t } from 'vitest'`.

1. Names are followed within the file, and to the runners' own modules. Of a choice (`CI ? it.skip : it`) all that it may be counts.
2. What `extend` gives is what it extends.
3. A name for something else is none, and a test under such a name is not found.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from drillmaster.rules.weakening._scripttree import every, text

if TYPE_CHECKING:
    from tree_sitter import Node

__all__ = ["Alias", "aliases", "resolved"]

Alias = tuple[str, tuple[str, ...]]
"""The runner's own function, and the words behind it: `it`, `skip`."""

_MODULES = frozenset(
    {"vitest", "@jest/globals", "node:test", "mocha", "bun:test", "@playwright/test", "ava", "tape", "uvu"}
)
_DEFAULTS = frozenset({"node:test", "ava", "tape", "@playwright/test"})
_ROUNDS = 4
_CHAIN = 20


def aliases(root: "Node", functions: frozenset[str]) -> dict[str, Alias]:
    """Give the other names of `functions`; a namespace of a runner's has the function `*`."""
    found: dict[str, Alias] = dict(_imported(root, functions))
    pairs = [
        (left, right)
        for node in every(root, ("variable_declarator", "assignment_expression"))
        if (left := node.child_by_field_name("name") or node.child_by_field_name("left")) is not None
        and (right := node.child_by_field_name("value") or node.child_by_field_name("right")) is not None
        and left.type in ("identifier", "object_pattern")
    ]
    for _ in range(_ROUNDS):
        before = dict(found)
        for left, right in pairs:
            for alias in _values(right, found, functions):
                for name, inner in _named(left, alias, functions):
                    words = (*found[name][1], *inner[1]) if name in found else inner[1]
                    found[name] = (inner[0], tuple(dict.fromkeys(words)))
        if found == before:
            break
    return found


def resolved(node: "Node | None", known: dict[str, Alias], functions: frozenset[str]) -> Alias | None:
    """Say which of a runner's functions an expression is, and the words behind it; None: none of them."""
    words: list[str] = []
    for _ in range(_CHAIN):
        if node is None:
            return None
        if node.type == "call_expression":
            node = node.child_by_field_name("function")
        elif node.type == "member_expression":
            words.append(text(node.child_by_field_name("property")))
            node = node.child_by_field_name("object")
        elif node.type == "subscript_expression":
            words.append(text(node.child_by_field_name("index")).strip("\"'`"))
            node = node.child_by_field_name("object")
        elif node.type == "parenthesized_expression" and node.named_children:
            node = node.named_children[0]
        else:
            break
    if node is None or node.type != "identifier":
        return None
    base, more = known.get(text(node), (text(node), ()))
    if base == "*" and words:
        base = words.pop()
    if base not in functions:
        return None
    return base, (*more, *(word for word in reversed(words) if word != "extend"))


def _values(node: "Node", known: dict[str, Alias], functions: frozenset[str]) -> Iterator[Alias]:
    if node.type == "ternary_expression":
        for side in ("consequence", "alternative"):
            if (one := node.child_by_field_name(side)) is not None:
                yield from _values(one, known, functions)
    elif node.type == "call_expression":
        function = node.child_by_field_name("function")
        if text(function) == "require" and any(
            text(one).strip("\"'`") in _MODULES for one in node.named_children[-1].named_children
        ):
            yield "*", ()
        elif text(function).endswith(".extend") and (found := resolved(function, known, functions)) is not None:
            yield found
    elif node.type in ("identifier", "member_expression", "subscript_expression", "parenthesized_expression"):
        if node.type == "identifier" and known.get(text(node), ("",))[0] == "*":
            yield "*", ()
        elif (found := resolved(node, known, functions)) is not None:
            yield found


def _named(left: "Node", alias: Alias, functions: frozenset[str]) -> Iterator[tuple[str, Alias]]:
    """Give the names that a declaration brings: `t`, or those of `{ skip: t }`."""
    if left.type == "identifier":
        yield text(left), alias
        return
    for one in left.named_children:
        key, name = one.child_by_field_name("key") or one, one.child_by_field_name("value") or one
        word = text(key)
        if alias[0] != "*":
            yield text(name), (alias[0], (*alias[1], word))
        elif word in functions:
            yield text(name), (word, ())


def _imported(root: "Node", functions: frozenset[str]) -> Iterator[tuple[str, Alias]]:
    for node in every(root, ("import_statement",)):
        source = text(node.child_by_field_name("source")).strip("\"'`")
        if source not in _MODULES:
            continue
        for one in every(node, ("import_specifier", "namespace_import", "import_clause")):
            if one.type == "import_specifier":
                name, alias = one.child_by_field_name("name"), one.child_by_field_name("alias")
                if alias is not None and text(name) in functions:
                    yield text(alias), (text(name), ())
            elif one.type == "namespace_import":
                yield text(one.named_children[0]), ("*", ())
            elif source in _DEFAULTS and one.named_children and one.named_children[0].type == "identifier":
                yield text(one.named_children[0]), ("test", ())
