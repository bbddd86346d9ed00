"""What stands around the tests of a file in Python and takes their failures away, where no test shows it.

1. A block of one's own that swallows what is raised in it; `suppress` under another name.
2. A decorator of one's own that does not call what it is put on, or drops how that ends.
3. A value that equals everything. A test whose code, or whose name, is written over. A function of the product that is.
"""

import ast
from collections.abc import Iterable, Iterator, Mapping

from drillmaster.rules.weakening._pytree import dotted, every, last_name
from drillmaster.rules.weakening._pywalk import Function, silent_try, skips

__all__ = ["around", "autouse", "skipped_by"]

_SETUPS = frozenset({
    "setup", "setUp", "setup_module", "setup_function", "setup_class", "setup_method", "setUpModule", "setUpClass", "asyncSetUp",
})  # fmt: skip  # words


def around(tree: ast.Module, tests: Iterable[Function], imports: Mapping[str, str]) -> Iterator[str]:
    """Give each such thing as text, the same for the same."""
    functions = {one.name: one for one in tree.body if isinstance(one, Function)}
    classes = {one.name: one for one in tree.body if isinstance(one, ast.ClassDef)}
    tests = tuple(tests)
    names = {one.name for one in tests}
    used = {
        last_name(item.context_expr.func)
        for node in every(tree)
        if isinstance(node, ast.With | ast.AsyncWith)
        for item in node.items
        if isinstance(item.context_expr, ast.Call)
    }
    for name, one in classes.items():
        methods = {part.name: part for part in one.body if isinstance(part, Function)}
        leave = methods.get("__exit__") or methods.get("__aexit__")
        if name in used and leave is not None and _always(leave):
            yield f"{name} swallows what fails in its block"
        if (equal := methods.get("__eq__")) is not None and _always(equal):
            yield f"{name} equals everything"
    for name, function in functions.items():
        if name in used and any(silent_try(node) and _yields(node.body) for node in every(function)):
            yield f"{name} swallows what fails in its block"
    for node in every(tree):
        if isinstance(node, ast.ImportFrom) and node.module == "contextlib":
            yield from (
                f"suppress is called {one.asname}" for one in node.names if one.name == "suppress" and one.asname
            )
    for name in sorted({last_name(_called(mark)) for test in tests for mark in test.decorator_list}):
        if name in functions and (said := _drops(functions[name])):
            yield f"@{name} {said}"
    for statement in tree.body:
        yield from _written_over(statement, names, imports)


def _written_over(node: ast.stmt, names: set[str], imports: Mapping[str, str]) -> Iterator[str]:
    if isinstance(node, ast.Assign):
        for target in node.targets:
            root = dotted(target).partition(".")[0]
            if isinstance(target, ast.Attribute) and root in names:
                yield ast.unparse(node)
            elif isinstance(target, ast.Attribute) and root in imports and isinstance(node.value, ast.Lambda):
                yield f"{dotted(target)} is written over: {ast.unparse(node.value)}"
            elif isinstance(target, ast.Subscript) and _of_module(target) and _names_a_test(target, names):
                yield ast.unparse(node)
    elif isinstance(node, ast.Delete):
        yield from (ast.unparse(node) for one in node.targets if _of_module(one) and _names_a_test(one, names))
    elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
        setting = last_name(node.value.func) in ("setattr", "delattr") or _of_module(node.value)
        if setting and _names_a_test(node.value, names):
            yield ast.unparse(node)


def _of_module(node: ast.AST) -> bool:
    return any(
        isinstance(one, ast.Call) and last_name(one.func) in ("globals", "vars", "locals") for one in every(node)
    )


def _names_a_test(node: ast.AST, names: set[str]) -> bool:
    return any(isinstance(one, ast.Constant) and one.value in names for one in every(node))


def autouse(body: Iterable[ast.stmt]) -> dict[str, Function]:
    """Give the functions of a file, or of a class, that are run before its tests, unasked."""
    return {
        one.name: one
        for one in body
        if isinstance(one, Function) and (one.name in _SETUPS or any(map(_autouse, one.decorator_list)))
    }


def skipped_by(fixture: Function) -> Iterator[str]:
    """Give what of such a function skips the test."""
    for node in every(fixture):
        if isinstance(node, ast.Expr | ast.Raise) and (said := skips(node)):
            yield f"{fixture.name}: {said}"


def _autouse(mark: ast.expr) -> bool:
    return isinstance(mark, ast.Call) and any(
        one.arg == "autouse" and isinstance(one.value, ast.Constant) and one.value.value for one in mark.keywords
    )


def _called(mark: ast.expr) -> ast.expr:
    return mark.func if isinstance(mark, ast.Call) else mark


def _always(function: Function) -> bool:
    """Whether a function says yes and nothing else."""
    said = [one.value for one in every(function) if isinstance(one, ast.Return)]
    return bool(said) and all(isinstance(one, ast.Constant) and one.value is True for one in said)


def _yields(body: list[ast.stmt]) -> bool:
    return any(isinstance(node, ast.Yield) for one in body for node in every(one))


def _drops(function: Function) -> str:
    """Say what a decorator of the file does to what it is put on; empty: it runs it, and lets it fail."""
    taken = [one.arg for one in (*function.args.posonlyargs, *function.args.args)]
    if len(taken) != 1:
        return ""  # one that takes settings first, or is none
    loaded = [node for node in every(function) if isinstance(node, ast.Name) and node.id == taken[0]]
    wraps = [
        node
        for mark in every(function)
        if isinstance(mark, Function)
        for one in mark.decorator_list
        for node in every(one)
    ]
    if not [node for node in loaded if node not in wraps]:
        return "does not run the test"
    for node in every(function):
        if silent_try(node) and any(
            isinstance(one, ast.Call) and dotted(one.func) == taken[0] for part in node.body for one in every(part)
        ):
            return "drops how the test ends"
    return ""
