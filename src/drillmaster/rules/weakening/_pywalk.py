"""One function of Python, statement by statement: what it asserts, where, and what ends it without a failure."""

import ast
from typing import TYPE_CHECKING, NamedTuple, TypeGuard

import msgspec

from drillmaster.rules.weakening import _pyassert as pyassert
from drillmaster.rules.weakening._pytree import every, last_name
from drillmaster.rules.weakening._shapes import Assertion, Unparsed

if TYPE_CHECKING:
    from drillmaster.rules.weakening._python import Module

__all__ = ["Function", "Place", "Walk", "silent_try", "skips"]

MAX_ASSERTS = 2_000
MAX_CALLS = 300
"""Of helpers, in one test."""
_DEPTH = 4
_CATCHES = frozenset({"AssertionError", "Exception", "BaseException"})
Function = ast.FunctionDef | ast.AsyncFunctionDef


class Place(NamedTuple):
    """Where a statement stands."""

    swallowed: bool = False
    conditional: bool = False


class Walk:
    """One function, statement by statement, with the helpers of the file that it calls."""

    def __init__(self, module: "Module", function: Function, owner: ast.ClassDef | None) -> None:
        self.module = module
        self.asserts: list[Assertion] = []
        self.marks: list[str] = []
        self.rows: list[list[str]] = []
        self.timeouts: list[float] = []
        self.methods = {one.name: one for one in owner.body if isinstance(one, Function)} if owner else {}
        self.nested: dict[str, Function] = {}
        self.names = pyassert.Names(function, module.constants)
        for one in function.decorator_list:
            self.names.patched(one)
        for fixture in module.fixtures.values():
            for call in every(fixture):
                self.names.patched(call)
        nested = {one.name for one in ast.walk(function) if isinstance(one, Function) and one is not function}
        self.names.shadowed = module.imports.keys() & ({*self.names.local, *nested, *module.constants, *module.helpers})
        self._inside: list[str] = []
        self._calls_left = MAX_CALLS

    def body(self, statements: list[ast.stmt], place: Place) -> bool:
        """Walk a block; whether it always leaves before its end, so that what follows is dead."""
        for node in statements:
            if isinstance(node, ast.Expr | ast.Raise) and (said := skips(node)):
                self.marks.append(said if not place.conditional else f"{said} under a condition")
                if not place.conditional:
                    return True
                continue
            if isinstance(node, ast.Return | ast.Raise | ast.Continue | ast.Break):
                self._calls(node, place)
                return True
            if self._one(node, place):
                return True
            if isinstance(node, ast.If) and _leaves_the_loop(node):
                place = place._replace(conditional=True)  # what follows is asserted of some rows alone
        return False

    def _one(self, node: ast.stmt, place: Place) -> bool:
        if isinstance(node, ast.Assert):
            self._asserted(node.test, node.lineno, place)
        elif isinstance(node, ast.If):
            return self._if(node, place)
        elif isinstance(node, ast.Try):
            self._try(node, place)
        elif isinstance(node, ast.With | ast.AsyncWith):
            return self._with(node, place)
        elif isinstance(node, ast.For | ast.AsyncFor):
            self._for(node, place)
        elif isinstance(node, ast.While):
            if pyassert.truth(node.test) is not False:
                self.body(node.body, place)
        elif isinstance(node, ast.Match):
            for case in node.cases:
                self.body(case.body, place._replace(conditional=True))
        elif isinstance(node, Function):
            self.nested[node.name] = node
        elif isinstance(node, ast.ClassDef):
            pass
        else:
            self._calls(node, place)
        return False

    def _if(self, node: ast.If, place: Place) -> bool:
        truth = pyassert.truth(node.test)
        under = place._replace(conditional=place.conditional or truth is None)
        left = self.body(node.body, under) if truth is not False else False
        other = self.body(node.orelse, under) if truth is not True else False
        if (
            truth is None
            and left != other
            and any(isinstance(one, ast.Return) for one in (node.body if left else node.orelse))
        ):
            self.marks.append(f"return if {ast.unparse(node.test)}")
        return (left and truth is True) or (other and truth is False) or (left and other)

    def _try(self, node: ast.Try, place: Place) -> None:
        silent = any(_silent(handler) for handler in node.handlers)
        silent = silent or any(isinstance(one, ast.Return | ast.Break | ast.Continue) for one in node.finalbody)
        self.body(node.body, place._replace(swallowed=place.swallowed or silent))
        for handler in node.handlers:
            self.body(handler.body, place._replace(conditional=True))
        self.body(node.orelse, place)
        self.body(node.finalbody, place)

    def _with(self, node: ast.With | ast.AsyncWith, place: Place) -> bool:
        inner = place
        for item in node.items:
            call = item.context_expr
            self.names.patched(call, item.optional_vars)
            last = last_name(call.func) if isinstance(call, ast.Call) else ""
            if isinstance(call, ast.Call) and (raised := pyassert.raises(call, last, self.module.constants)):
                if len(node.items) == 1 and any(isinstance(one, ast.Raise) for one in node.body):
                    # What the test raises itself shows nothing of the product.
                    raised = msgspec.structs.replace(raised, text=f"{raised.text}: raise", strength=0, tautology=True)
                self._add(raised, place)
                swallows = raised.strength == 1 or "AssertionError" in raised.text
                inner = inner._replace(swallowed=inner.swallowed or swallows)
            elif isinstance(call, ast.Call) and last == "suppress":
                caught = {last_name(one) for one in call.args}
                inner = inner._replace(swallowed=inner.swallowed or bool(caught & _CATCHES))
            else:
                self._calls(call, place)
        return self.body(node.body, inner) and not inner.swallowed

    def _for(self, node: ast.For | ast.AsyncFor, place: Place) -> None:
        rows = self.module.elements(node.iter)
        if rows == []:
            return
        before = len(self.asserts)
        self._calls(node.iter, place)
        self.body(node.body, place)
        self.body(node.orelse, place)
        if rows is not None and len(self.asserts) > before:
            self.rows.append(rows)

    def _calls(self, node: ast.AST, place: Place) -> None:
        """Take in the assertions that are calls, and those of helpers that are called."""
        if isinstance(node, ast.Assign | ast.AnnAssign):
            self.names.assigned(node)
        for one in every(node):
            if not isinstance(one, ast.Call):
                continue
            self.names.patched(one)
            for keyword in one.keywords:
                if keyword.arg in ("timeout", "timeout_s", "timeout_ms"):
                    value = pyassert.number(keyword.value, self.module.constants)
                    self.timeouts += [] if value is None else [value]
            made = pyassert.of_call(one, self.names)
            if made is not None:
                for assertion in made:
                    self._add(assertion, place)
                continue
            self._helper(one, place)

    def _helper(self, call: ast.Call, place: Place) -> None:
        name = last_name(call.func)
        own = (
            isinstance(call.func, ast.Attribute)
            and isinstance(call.func.value, ast.Name)
            and call.func.value.id in ("self", "cls")
        )
        known = self.nested.get(name) or self.module.helpers.get(name) if isinstance(call.func, ast.Name) else None
        known = self.methods.get(name) if own else known
        if known is None or name in self._inside or len(self._inside) >= _DEPTH:
            return
        self._calls_left -= 1
        if self._calls_left < 0 or len(self.asserts) > MAX_ASSERTS:
            return
        self._inside.append(name)
        held = self.names
        self.names = held.inside(known, call, is_method=own)
        begin = len(self.asserts)
        self.body(known.body, place)
        self.names = held
        self._inside.pop()
        if not self._inside and self.module.helpers.get(name) is known:
            plain = self.module.said(name)
            if len(plain) == len(self.asserts) - begin:
                self.asserts[begin:] = [
                    msgspec.structs.replace(one, within=said.text)
                    for one, said in zip(self.asserts[begin:], plain, strict=True)
                ]

    def _asserted(self, test: ast.expr, line: int, place: Place) -> None:
        for one in pyassert.of_condition(test, line, self.names):
            self._add(one, place)
        self._calls(test, place)

    def in_bounds(self, name: str) -> None:
        """Raise Unparsed for a test that nobody can have read."""
        if len(self.asserts) > MAX_ASSERTS:
            raise Unparsed(f"{len(self.asserts):,} assertions in {name}", "write them as a table of rows")

    def _add(self, one: Assertion, place: Place) -> None:
        if place.swallowed or place.conditional:
            one = msgspec.structs.replace(
                one, swallowed=one.swallowed or place.swallowed, conditional=place.conditional
            )
        self.asserts.append(one)


def skips(node: ast.stmt) -> str:
    """Give a statement that ends a test, or all of a file's, without a failure; empty: it is none."""
    value = node.exc if isinstance(node, ast.Raise) else node.value if isinstance(node, ast.Expr) else None
    call = value.func if isinstance(value, ast.Call) else value
    name = last_name(call) if call is not None else ""
    if name in ("skip", "skipTest", "importorskip", "xfail", "SkipTest", "Skipped") and isinstance(
        value, ast.Call | ast.Name | ast.Attribute
    ):
        return ast.unparse(value)
    return ""


def _leaves_the_loop(node: ast.If) -> bool:
    """Whether one way through a condition goes on with the next row, or ends the loop."""
    return pyassert.truth(node.test) is None and any(
        bool(block) and isinstance(block[-1], ast.Continue | ast.Break) for block in (node.body, node.orelse)
    )


def silent_try(node: ast.AST) -> TypeGuard[ast.Try]:
    """Whether a statement takes a failed assertion and goes on."""
    return isinstance(node, ast.Try) and any(map(_silent, node.handlers))


def _silent(handler: ast.ExceptHandler) -> bool:
    """Whether a handler takes a failed assertion and goes on as if nothing were."""
    caught = (
        [] if handler.type is None else handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
    )
    if caught and not {last_name(one) for one in caught} & _CATCHES:
        return False
    for node in every(ast.Module(body=handler.body, type_ignores=[])):
        if isinstance(node, ast.Raise) or (isinstance(node, ast.Assert) and pyassert.truth(node.test) is not True):
            return False
        if isinstance(node, ast.Call) and last_name(node.func).startswith(("fail", "assert", "exit", "_exit")):
            return False
    return True
