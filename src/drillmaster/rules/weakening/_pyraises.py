"""Assertions of Python that something fails as it should, and how much each leaves open."""

import ast
import re
from collections.abc import Mapping

from drillmaster.rules.weakening._pytree import last_name
from drillmaster.rules.weakening._shapes import Assertion

__all__ = ["raises"]


def raises(node: ast.Call, name: str, constants: Mapping[str, ast.expr] | None = None) -> Assertion | None:
    """Give the assertion that a call or block fails as it should; None: it is none."""
    if name not in (
        "raises",
        "warns",
        "assertRaises",
        "assertRaisesRegex",
        "assertWarns",
        "assertLogs",
        "deprecated_call",
    ):
        return None
    first = node.args[0] if node.args else None
    first = (constants or {}).get(first.id, first) if isinstance(first, ast.Name) else first
    several = first.elts if isinstance(first, ast.Tuple) else []
    wanted = {last_name(one) for one in several} if several else {last_name(first) if first is not None else ""}
    patterns = [one.value for one in node.keywords if one.arg == "match"]
    patterns += node.args[1:2] if name == "assertRaisesRegex" else []
    matched = any(not _fits_all(one) for one in patterns)
    broad = bool(wanted & {"Exception", "BaseException", ""}) and "Warn" not in name
    strength = (4 if matched else 3) - (2 if broad else 1 if len(several) > 1 else 0)
    args = [ast.unparse(one) for one in node.args[:1]]
    args += sorted(f"{one.arg}={ast.unparse(one.value)}" for one in node.keywords)
    return Assertion(text=f"{name}({', '.join(args)})", subject="raises", strength=strength, line=node.lineno)


def _fits_all(node: ast.expr) -> bool:
    """Whether a pattern is found in whatever text."""
    if not isinstance(node, ast.Constant) or not isinstance(node.value, str):
        return False
    try:
        return len(node.value) < 200 and re.search(node.value, "") is not None
    except (re.error, RecursionError, OverflowError):
        return False
