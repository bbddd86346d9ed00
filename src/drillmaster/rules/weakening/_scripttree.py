"""Nodes of a script: their text, what they call and import, and what a condition always is."""

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tree_sitter import Node

__all__ = ["arguments", "every", "imported", "plain_number", "sources", "text", "truth"]


def text(node: "Node | None") -> str:
    return node.text.decode("utf-8", "replace") if node is not None and node.text is not None else ""


def arguments(call: "Node") -> list["Node"]:
    """Give what a call hands over, without comments."""
    given = call.child_by_field_name("arguments")
    return (
        [one for one in given.named_children if one.type != "comment"]
        if given is not None and given.type == "arguments"
        else []
    )


def every(root: "Node", kinds: tuple[str, ...]) -> Iterator["Node"]:
    """Give all nodes of some kinds, in their order."""
    waiting = [root]
    while waiting:
        node = waiting.pop()
        if node.type in kinds:
            yield node
        waiting += reversed(node.named_children)


def sources(root: "Node") -> set[str]:
    """Give what is imported or required."""
    found = {
        text(node.child_by_field_name("source")).strip("\"'`")
        for node in every(root, ("import_statement", "export_statement"))
    }
    for call in every(root, ("call_expression",)):
        if text(call.child_by_field_name("function")) in ("require", "import") and (args := arguments(call)):
            found.add(text(args[0]).strip("\"'`"))
    return found - {""}


def imported(root: "Node") -> dict[str, str]:
    """Give the names that a file imports or requires, with the module."""
    found: dict[str, str] = {}
    for node in every(root, ("import_statement",)):
        module = text(node.child_by_field_name("source")).strip("\"'`")
        found |= {text(one): module for one in every(node, ("identifier",))}
    for node in every(root, ("variable_declarator",)):
        value = node.child_by_field_name("value")
        if (
            value is not None
            and value.type == "call_expression"
            and text(value.child_by_field_name("function")) == "require"
        ):
            name = node.child_by_field_name("name")
            words = every(name, ("identifier", "shorthand_property_identifier_pattern")) if name is not None else ()
            found |= {text(one): text(value)[8:].strip("\"'`()") for one in words}
    return found


def truth(node: "Node | None") -> bool | None:
    """Say what a condition always is; None: it depends."""
    if node is None:
        return None
    if node.type in ("parenthesized_expression", "as_expression", "non_null_expression") and node.named_children:
        return truth(node.named_children[0])
    if node.type in ("true", "object", "array", "regex", "arrow_function", "function_expression", "new_expression"):
        return True
    if node.type in ("false", "null", "undefined"):
        return False
    if node.type == "number":
        return plain_number(text(node)) not in (0.0, None)
    if node.type == "string":
        return len(text(node)) > 2
    if node.type == "unary_expression" and text(node.child_by_field_name("operator")) == "!":
        inner = truth(node.child_by_field_name("argument"))
        return None if inner is None else not inner
    if node.type == "binary_expression":
        left, right = node.child_by_field_name("left"), node.child_by_field_name("right")
        sign = text(node.child_by_field_name("operator"))
        if sign in ("||", "??") and True in (truth(left), truth(right) if sign == "||" else None):
            return True
        if sign == "&&" and False in (truth(left), truth(right)):
            return False
        if sign in ("==", "===", ">=", "<=") and text(left) == text(right):
            return True
        if (
            sign in ("==", "===")
            and left is not None
            and right is not None
            and left.type == right.type in ("number", "string")
        ):
            return text(left) == text(right)
    return None


def plain_number(said: str) -> float | None:
    try:
        return float(int(said.replace("_", ""), 0)) if re.match(r"0[xXoObB]", said) else float(said.replace("_", ""))
    except ValueError:
        return None
