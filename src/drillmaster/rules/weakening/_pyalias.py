"""Other names for what keeps a test from running, put back into a tree of Python.

1. `from pytest import skip as later`, `later = pytest.mark.skip`, `a, b = pytest.mark.skip, pytest.mark.slow` and a name for
   such a name: where the new name stands, the old one is read. So it is with `from helpers import flaky as steady`.
2. `getattr(pytest.mark, "skip")` is `pytest.mark.skip`, and `functools.partial(f, …)` is `f(…)`.
3. A function of the file that gives back such a mark is one.
4. A name that a function has for itself is its own. What another file's decorator does is not looked at here.
"""

import ast
import copy
import re
from collections.abc import Iterable, Iterator

from drillmaster.rules.weakening._pytree import dotted, every, last_name
from drillmaster.rules.weakening._pywalk import Function, skips

__all__ = ["given_marks", "is_mark", "marks_imported", "plain"]

_MARKS = frozenset({
    "skip", "skipif", "skipIf", "skipUnless", "xfail", "expectedFailure", "flaky", "rerun", "reruns", "retry", "nottest", "todo",
    "disabled", "deselect", "ignore",
})  # fmt: skip  # words
_ENDS = frozenset({"SkipTest", "Skipped", "skipTest", "importorskip", "pytestmark"})
_MOST_DOTS = 20
_MOST_NODES = 100


def is_mark(name: str) -> bool:
    """Whether a name, dotted or not, says what keeps a test out."""
    return bool(set(re.split(r"[._]", name)) & _MARKS)


def plain(tree: ast.Module) -> ast.Module:
    """Write the old names back, in place; the same tree."""
    aliases = _aliases(tree)
    if aliases or any(
        isinstance(one, ast.Name) and one.id in ("getattr", "partial", "functools") for one in every(tree)
    ):
        _Plain(aliases).visit(tree)
    return tree


def marks_imported(node: ast.Import | ast.ImportFrom) -> Iterator[tuple[str, str]]:
    """Give the names by which something that may keep a test out is imported, with where it comes from."""
    if isinstance(node, ast.ImportFrom):
        for one in node.names:
            if _says(one.name) or _says(one.asname or ""):
                yield one.asname or one.name, f"{'.' * node.level}{node.module or ''}:{one.name}"


def given_marks(function: Function) -> Iterator[str]:
    """Give what such a function makes of a test: marks that it gives back or puts on, and what of it skips."""
    for node in every(function):
        if isinstance(node, ast.Expr | ast.Raise) and (said := skips(node)):
            yield said
        elif isinstance(node, ast.Return) and node.value is not None:
            for one in every(node.value):
                called = one.func if isinstance(one, ast.Call) else one
                if isinstance(called, ast.Attribute) and is_mark(dotted(called)):
                    yield ast.unparse(one)
                    break


def _aliases(tree: ast.Module) -> dict[str, ast.expr]:
    found: dict[str, ast.expr] = {}
    for node in every(tree):
        if isinstance(node, ast.ImportFrom):
            for one in node.names:
                if one.asname and (_says(one.name) or _says(one.asname)):
                    found[one.asname] = ast.Name(one.name, ast.Load())
    for name, value in _assigned(tree.body):
        known = _named(value, _Plain(found))
        kept = [known.body, known.orelse] if isinstance(known, ast.IfExp) else [known]
        if any(_says(dotted(one.func if isinstance(one, ast.Call) else one)) for one in kept) and name != "pytestmark":
            found[name] = known
        elif name in found:
            del found[name]
    return found


def _named(value: ast.expr, known: "_Plain") -> ast.expr:
    """What a value is, with its own names put back: of a call what it calls, of a call of that too, of `partial` its first.

    Other arguments stay as written, since names within names would double with each line. What is longer than anybody writes
    is cut: arguments away, and of more than `_MOST_DOTS` dots the last.
    """
    if isinstance(value, ast.IfExp):
        return ast.IfExp(value.test, _named(value.body, known), _named(value.orelse, known))
    if not isinstance(value, ast.Call):
        new = known.visit(copy.deepcopy(value)) if dotted(value) else value
        return new.value if isinstance(new, ast.Attribute) and dotted(new).count(".") > _MOST_DOTS else new
    called, said = _named(value.func, known), value.args
    called = called.func if isinstance(called, ast.Call) else called
    partial = last_name(called) == "partial" and bool(said) and bool(dotted(said[0]))
    if partial:
        said = [_named(said[0], known), *said[1:]]
    brief = sum(1 for one in (*said, *value.keywords) for _ in every(one)) <= _MOST_NODES
    # Of their own: the tree's are written over later.
    kept = copy.deepcopy((said, value.keywords)) if brief else (said[:1] if partial else [], [])
    return _spelled(ast.copy_location(ast.Call(called, *kept), value))


def _says(name: str) -> bool:
    return is_mark(name) or name.rpartition(".")[2] in _ENDS


def _assigned(body: Iterable[ast.stmt]) -> Iterator[tuple[str, ast.expr]]:
    """Give the names of a module that are given a value, with it, in their order."""
    for node in body:
        if isinstance(node, ast.If | ast.Try):
            yield from _assigned([*node.body, *node.orelse])
        targets = (
            node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
        )
        value = node.value if isinstance(node, ast.Assign | ast.AnnAssign) else None
        if value is None:
            continue
        for target in targets:
            if isinstance(target, ast.Name):
                yield target.id, value
            elif isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple) and len(target.elts) == len(value.elts):
                yield from ((a.id, b) for a, b in zip(target.elts, value.elts, strict=True) if isinstance(a, ast.Name))


def _spelled(node: ast.Call) -> ast.expr:
    """Write `getattr(f, "skip")` and `partial(f, …)` as what they are."""
    if last_name(node.func) == "getattr" and len(node.args) == 2:
        name = node.args[1]
        if isinstance(name, ast.Constant) and isinstance(name.value, str) and name.value.isidentifier():
            return ast.copy_location(ast.Attribute(node.args[0], name.value, ast.Load()), node)
    if dotted(node.func) in ("partial", "functools.partial") and node.args and _says(dotted(node.args[0])):
        return ast.copy_location(ast.Call(node.args[0], node.args[1:], node.keywords), node)
    return node


class _Plain(ast.NodeTransformer):
    def __init__(self, aliases: dict[str, ast.expr]) -> None:
        self._aliases = aliases

    def visit_Name(self, node: ast.Name) -> ast.expr:
        known = self._aliases.get(node.id) if isinstance(node.ctx, ast.Load) else None
        if known is None:
            return node
        new = copy.deepcopy(known)
        for one in ast.walk(new):
            ast.copy_location(one, node)
        return new

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        return _spelled(node)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        return self._within(node)

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> ast.AST:
        return self._within(node)

    def _within(self, node: Function) -> ast.AST:
        arguments = node.args
        own = {one.arg for one in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)}
        own |= {one.id for one in every(node) if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Store)}
        node.decorator_list = [self.visit(one) for one in node.decorator_list]
        inner = _Plain({name: value for name, value in self._aliases.items() if name not in own})
        node.body = [inner.visit(one) for one in node.body]
        return node
