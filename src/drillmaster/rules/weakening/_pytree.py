"""Trees of Python: names, walks and rewriting, quicker than the library's."""

import ast
from collections.abc import Callable, Iterator
from typing import Any

__all__ = ["dotted", "every", "last_name", "rewritten"]


def last_name(node: ast.AST | None) -> str:
    """Give the last name of `a.b.c`, or of what a call calls."""
    while isinstance(node, ast.Call | ast.Subscript):
        node = node.func if isinstance(node, ast.Call) else node.value
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def dotted(node: ast.AST) -> str:
    parts = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    return ".".join([*([node.id] if isinstance(node, ast.Name) else []), *reversed(parts)])


def rewritten(node: ast.AST, of_name: Callable[[ast.Name], ast.AST]) -> ast.AST:
    """Give a tree with other names. What does not change is shared, not copied; `await` is left out."""
    if isinstance(node, ast.Name):
        return of_name(node)
    if isinstance(node, ast.Await):
        return rewritten(node.value, of_name)
    changed: dict[str, Any] = {}
    for field in node._fields:
        value = getattr(node, field, None)
        if isinstance(value, ast.AST):
            if value._fields and (new := rewritten(value, of_name)) is not value:
                changed[field] = new
        elif isinstance(value, list) and value:
            news = [rewritten(one, of_name) if isinstance(one, ast.AST) else one for one in value]
            if any(new is not old for new, old in zip(news, value, strict=True)):
                changed[field] = news
    if not changed:
        return node
    return type(node)(**{field: changed.get(field, getattr(node, field, None)) for field in node._fields})


def every(node: ast.AST) -> Iterator[ast.AST]:
    """Give a node and all below it, in no order that matters; faster than `ast.walk`."""
    waiting = [node]
    while waiting:
        one = waiting.pop()
        yield one
        for field in one._fields:
            value = getattr(one, field, None)
            if isinstance(value, ast.AST):
                if value._fields:
                    waiting.append(value)
            elif isinstance(value, list):
                waiting += [inner for inner in reversed(value) if isinstance(inner, ast.AST)]
