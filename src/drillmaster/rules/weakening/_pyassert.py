"""One assertion of Python: its canonical text, what it looks at, and how much it leaves open."""

import ast
import math
from collections import ChainMap
from collections.abc import Iterator, Mapping

from drillmaster.rules.weakening._pyraises import raises
from drillmaster.rules.weakening._pytree import dotted, every, last_name, rewritten
from drillmaster.rules.weakening._shapes import Assertion

__all__ = ["Names", "number", "of_call", "of_condition", "raises", "truth"]

_LONG = 400
_DEPTH = 6
_UNITTEST: dict[str, int] = {
    "assertEqual": 4, "assertEquals": 4, "assertIs": 4, "assertIsNone": 4, "assertListEqual": 4,
    "assertDictEqual": 4, "assertSetEqual": 4,
    "assertTupleEqual": 4, "assertSequenceEqual": 4, "assertMultiLineEqual": 4, "assertJSONEqual": 4,
    "assertCountEqual": 3,
    "assertAlmostEqual": 3, "assertNotEqual": 2, "assertIsNot": 2, "assertIn": 2, "assertNotIn": 2,
    "assertIsInstance": 2, "assertRegex": 2,
    "assertGreater": 2, "assertGreaterEqual": 2, "assertLess": 2, "assertLessEqual": 2, "assertContains": 2,
    "assertIsNotNone": 1,
    "assertTrue": 1, "assertFalse": 2,
}  # fmt: skip  # pairs
_NAMED: dict[str, int] = {
    "assert_array_equal": 4, "assert_equal": 4, "assert_frame_equal": 4, "assert_series_equal": 4,
    "assert_index_equal": 4,
    "assert_called_once_with": 4, "assert_called_with": 4, "assert_has_calls": 3, "assert_any_call": 3,
    "assert_called_once": 2,
    "assert_called": 1, "assert_not_called": 4, "assert_awaited": 1, "assert_awaited_once": 2,
    "assert_awaited_once_with": 4,
    "assert_awaited_with": 4, "assert_allclose": 3, "assert_almost_equal": 3, "assert_approx_equal": 3,
    "assert_array_almost_equal": 3,
}  # fmt: skip  # pairs
_MOCKS = frozenset({"Mock", "MagicMock", "AsyncMock", "NonCallableMock", "PropertyMock", "create_autospec", "stub"})
_ORDERS: dict[type[ast.cmpop], str] = {ast.Lt: "<", ast.LtE: "<", ast.Gt: ">", ast.GtE: ">"}
_LOSSY = frozenset({"int", "round", "len", "set", "frozenset", "bool", "abs", "type"})
_LOSSY_METHODS = frozenset({"lower", "upper", "casefold", "strip", "lstrip", "rstrip", "keys"})
_TURNED = {"<": ">", ">": "<"}


def number(node: ast.AST | None, constants: Mapping[str, ast.expr], depth: int = 0) -> float | None:
    """Give the number that an expression is, as far as the file itself says it."""
    if depth > _DEPTH:
        return None
    if isinstance(node, ast.Name) and node.id in constants:
        return number(constants[node.id], constants, depth + 1)
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        value = number(node.operand, constants, depth + 1)
        return None if value is None else -value
    if isinstance(node, ast.Constant) and isinstance(node.value, int | float) and not isinstance(node.value, bool):
        return float(node.value) if abs(node.value) < 1e300 else None
    if (
        isinstance(node, ast.Call)
        and last_name(node.func) in ("float", "Decimal", "timedelta")
        and len(node.args) == 1
        and not node.keywords
    ):
        inner = node.args[0]
        if isinstance(inner, ast.Constant) and isinstance(inner.value, str):
            try:
                return float(inner.value)
            except ValueError:
                return None
        return number(inner, constants, depth + 1)
    if isinstance(node, ast.Call) and last_name(node.func) == "timedelta" and len(node.keywords) == 1:
        scale = {
            "seconds": 1.0,
            "minutes": 60.0,
            "hours": 3600.0,
            "days": 86400.0,
            "milliseconds": 1e-3,
            "microseconds": 1e-6,
        }
        value = number(node.keywords[0].value, constants, depth + 1)
        return None if value is None else value * scale.get(node.keywords[0].arg or "", 1.0)
    if isinstance(node, ast.BinOp):
        left, right = number(node.left, constants, depth + 1), number(node.right, constants, depth + 1)
        if left is None or right is None:
            return None
        try:
            if isinstance(node.op, ast.Mult):
                return left * right
            if isinstance(node.op, ast.Div):
                return left / right
            if isinstance(node.op, ast.Add):
                return left + right
            if isinstance(node.op, ast.Sub):
                return left - right
            if isinstance(node.op, ast.Pow) and abs(right) < 100:
                value = left**right
                return value if isinstance(value, float) else None
        except (ArithmeticError, ValueError):
            return None
    return None


def truth(node: ast.AST) -> bool | None:
    """Say what a condition always is; None: it depends."""
    if isinstance(node, ast.Constant):
        return bool(node.value)
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        inner = truth(node.operand)
        return None if inner is None else not inner
    if isinstance(node, ast.List | ast.Tuple | ast.Set):
        return True if any(not isinstance(one, ast.Starred) for one in node.elts) else False if not node.elts else None
    if isinstance(node, ast.Dict):
        return bool(node.keys) if None not in node.keys else None
    if isinstance(node, ast.JoinedStr):
        return True if any(isinstance(one, ast.Constant) and one.value for one in node.values) else None
    if isinstance(node, ast.Lambda | ast.GeneratorExp):
        return True
    if isinstance(node, ast.NamedExpr):
        return truth(node.value)
    if isinstance(node, ast.IfExp):
        both = {truth(node.body), truth(node.orelse)}
        return both.pop() if len(both) == 1 else None
    if isinstance(node, ast.BoolOp):
        each = [truth(one) for one in node.values]
        decides = isinstance(node.op, ast.Or)
        if decides in each:
            return decides
        return None if None in each else not decides
    if isinstance(node, ast.Call) and last_name(node.func) == "bool" and len(node.args) == 1:
        return truth(node.args[0])
    if isinstance(node, ast.Call) and last_name(node.func) == "isinstance" and len(node.args) == 2:
        return True if last_name(node.args[1]) == "object" else None
    if isinstance(node, ast.Compare) and len(node.ops) == 1:
        return _compared(node)
    return None


def _compared(node: ast.Compare) -> bool | None:
    left, op, right = node.left, node.ops[0], node.comparators[0]
    alike = ast.dump(left) == ast.dump(right)
    if isinstance(op, ast.Eq | ast.Is | ast.LtE | ast.GtE) and alike:
        # Called twice it may answer twice: that both are one is a property, if a weak one.
        return None if any(isinstance(one, ast.Call) for one in every(left)) else True
    if isinstance(left, ast.Constant) and isinstance(right, ast.Constant):
        try:
            if isinstance(op, ast.Eq):
                return bool(left.value == right.value)
            if isinstance(op, ast.NotEq):
                return bool(left.value != right.value)
            if isinstance(op, ast.Lt):
                return bool(left.value < right.value)  # type: ignore[operator]  # asked of any two, and caught
            if isinstance(op, ast.Gt):
                return bool(left.value > right.value)  # type: ignore[operator]  # as above
        except TypeError:
            return None
    if isinstance(op, ast.GtE) and isinstance(left, ast.Call) and last_name(left.func) in ("len", "abs", "sum"):
        zero = isinstance(right, ast.Constant) and right.value == 0 and last_name(left.func) != "sum"
        return True if zero else None
    if isinstance(op, ast.Eq) and "ANY" in (last_name(left), last_name(right)):
        return True
    return None


class Names:
    """What the names of one function stand for."""

    def __init__(self, function: ast.FunctionDef | ast.AsyncFunctionDef, constants: Mapping[str, ast.expr]) -> None:
        self.constants = constants
        self.local: set[str] = set()
        self.single: dict[str, ast.expr] = {}
        self.known = ChainMap(self.single, dict(constants))
        """All that a name may stand for: one value of the function, or of the file."""
        self.mocks: set[str] = set()
        self.targets: set[str] = set()
        self.shadowed: set[str] = set()
        """Names of the product that the file itself gives another meaning."""
        self._sizes: dict[str, int] = {}
        args = function.args
        given = (*args.posonlyargs, *args.args, *args.kwonlyargs, *(one for one in (args.vararg, args.kwarg) if one))
        self.local |= {one.arg for one in given} - {"self", "cls"}
        written: dict[str, list[ast.expr | None]] = {}
        for node in every(function):
            if isinstance(node, ast.Assign):
                self.assigned(node)
            if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
                written.setdefault(node.targets[0].id, []).append(node.value)
            elif isinstance(node, ast.AnnAssign | ast.NamedExpr) and isinstance(node.target, ast.Name):
                written.setdefault(node.target.id, []).append(node.value)
            elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                written.setdefault(node.id, []).append(None)
            elif isinstance(node, ast.ExceptHandler) and node.name:
                written.setdefault(node.name, []).append(None)
        for name, values in written.items():
            self.local.add(name)
            told = [one for one in values if one is not None]
            # The target of an assignment is also met as a stored name: one value and one store is a single assignment.
            if len(told) == 1 and len(values) == 2:
                self.single[name] = told[0]

    def inside(self, helper: ast.FunctionDef | ast.AsyncFunctionDef, call: ast.Call, *, is_method: bool) -> "Names":
        """Give the names within a helper, with what this call hands it in the place of its parameters."""
        inner = Names(helper, self.constants)
        params = [one.arg for one in (*helper.args.posonlyargs, *helper.args.args)][1 if is_method else 0 :]
        given: dict[str, ast.expr] = dict(zip(params, call.args, strict=False))
        given |= {one.arg: one.value for one in call.keywords if one.arg}
        stored = {node.id for node in every(helper) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
        for name, value in given.items():
            if name not in stored:
                filled = _Filled(self).visit(value)
                inner.single[name] = filled if isinstance(filled, ast.expr) else value
        inner.local |= self.local
        inner.mocks |= self.mocks
        inner.shadowed |= self.shadowed
        inner.targets |= self.targets
        return inner

    def assigned(self, node: ast.Assign | ast.AnnAssign) -> None:
        """Note a name that is a stand-in of the test's own."""
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        if isinstance(node.value, ast.Call) and last_name(node.value.func) in _MOCKS:
            self.mocks |= {one.id for one in targets if isinstance(one, ast.Name)}

    def patched(self, node: ast.AST, name: ast.AST | None = None) -> None:
        """Note what a call or decorator puts a stand-in for."""
        if not isinstance(node, ast.Call):
            return
        way = dotted(node.func)
        last = way.rpartition(".")[2]
        texts = [one.value for one in node.args[:2] if isinstance(one, ast.Constant) and isinstance(one.value, str)]
        if last == "patch" and texts:
            self.targets.add(texts[0])
        elif (last == "setattr" and "monkeypatch" in way) or (last == "object" and "patch" in way):
            if isinstance(node.args[0] if node.args else None, ast.Constant) and texts:
                self.targets.add(texts[0])
            elif len(node.args) > 1 and texts:
                self.targets.add(f"{dotted(node.args[0])}.{texts[-1]}")
        else:
            return
        if isinstance(name, ast.Name):
            self.mocks.add(name.id)

    def text(self, node: ast.AST) -> str:
        """Give the canonical text of an expression."""
        return ast.unparse(_Numbered(self.local).visit(_Filled(self).visit(node)))

    def size(self, name: str) -> int:
        """Count the nodes of a local name's one value."""
        if name not in self._sizes:
            self._sizes[name] = sum(1 for _ in every(self.single[name]))
        return self._sizes[name]

    def own(self, node: ast.AST) -> bool:
        """Whether an expression is a call of what the test itself put in the place of something."""
        node = node.value if isinstance(node, ast.Await) else node
        if isinstance(node, ast.Name) and node.id in self.single:
            node = self.single[node.id]
            node = node.value if isinstance(node, ast.Await) else node
        if not isinstance(node, ast.Call):
            return isinstance(node, ast.Attribute) and node.attr == "return_value" and self._root(node) in self.mocks
        called = dotted(node.func)
        if called in self.shadowed:
            return True
        if self._root(node.func) in self.mocks and not last_name(node.func).startswith("assert"):
            return True
        return any(
            called == one or one.endswith(f".{called}") or ("." in called and _ends_alike(called, one))
            for one in self.targets
            if called
        )

    def _root(self, node: ast.AST) -> str:
        while isinstance(node, ast.Attribute | ast.Call):
            node = node.value if isinstance(node, ast.Attribute) else node.func
        return node.id if isinstance(node, ast.Name) else ""


def _ends_alike(called: str, target: str) -> bool:
    return called.split(".")[-2:] == target.split(".")[-2:]


class _Filled:
    """Puts the one value of a local name, or the number of a constant, in its place."""

    def __init__(self, names: Names) -> None:
        self._names = names
        self._depth = 0
        self._size = 0

    def visit(self, node: ast.AST) -> ast.AST:
        return rewritten(node, self._name)

    def _name(self, node: ast.Name) -> ast.AST:
        value = self._names.single.get(node.id)
        if value is None:
            told = self._names.constants.get(node.id) if node.id not in self._names.local else None
            return told if isinstance(told, ast.Constant) else node
        self._size += self._names.size(node.id)
        if self._depth >= _DEPTH or self._size > _LONG:
            return node
        self._depth += 1
        filled = self.visit(value)
        self._depth -= 1
        return filled


class _Numbered:
    """Calls local names by the order in which they are met."""

    def __init__(self, local: set[str]) -> None:
        self._local = local
        self._met: dict[str, str] = {}

    def visit(self, node: ast.AST) -> ast.AST:
        return rewritten(node, self._name)

    def _name(self, node: ast.Name) -> ast.AST:
        if node.id in self._local:
            return ast.Name(self._met.setdefault(node.id, f"_{len(self._met)}"), node.ctx)
        return node


def of_condition(node: ast.expr, line: int, names: Names) -> Iterator[Assertion]:
    """Give the assertions that one condition is: `and` is several."""
    if isinstance(node, ast.BoolOp) and isinstance(node.op, ast.And):
        for one in node.values:
            yield from of_condition(one, line, names)
        return
    text = names.text(node)
    if truth(node) is True or truth(_constants_in(node, names)) is True:
        yield Assertion(text=text, subject=text, strength=0, line=line, tautology=True)
    elif isinstance(node, ast.Constant):
        yield Assertion(text=text, subject=text, strength=4, line=line)  # `assert False`: that this is not reached
    elif isinstance(node, ast.Compare) and len(node.ops) == 1:
        yield _comparison(node, text, line, names)
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        yield Assertion(text=text, subject=names.text(node.operand), strength=2, line=line)
    elif isinstance(node, ast.BoolOp):
        first = next(of_condition(node.values[0], line, names))
        yield Assertion(text=text, subject=first.subject, strength=min(2, first.strength), line=line)
    elif isinstance(node, ast.IfExp):
        if True in (truth(node.body), truth(node.orelse)):
            yield Assertion(text=text, subject=text, strength=0, line=line, tautology=True)
        else:
            first = next(of_condition(node.body, line, names))
            yield Assertion(text=text, subject=first.subject, strength=first.strength, line=line)
    elif isinstance(node, ast.NamedExpr | ast.Await):
        yield from of_condition(node.value, line, names)
    elif isinstance(node, ast.Call):
        yield _predicate(node, text, line, names)
    else:
        yield Assertion(text=text, subject=text, strength=1, line=line, own_mock=names.own(node))


def _constants_in(node: ast.expr, names: Names) -> ast.expr:
    """Put plain constants in the place of names, so that `x = True; assert x` is what it is. Calls are left alone."""
    told: dict[str, ast.expr] = {
        name: value
        for name, value in names.single.items()
        if isinstance(value, ast.Constant | ast.Name) and not isinstance(value, ast.Call)
    }
    kept, names.single = names.single, told
    try:
        filled = _Filled(names).visit(node)
    finally:
        names.single = kept
    return filled if isinstance(filled, ast.expr) else node


def _comparison(node: ast.Compare, text: str, line: int, names: Names) -> Assertion:
    left, op, right = node.left, node.ops[0], node.comparators[0]
    if isinstance(left, ast.Constant) and not isinstance(op, ast.In | ast.NotIn):
        left, right = right, left
    if isinstance(op, ast.In | ast.NotIn):
        looked, strength = (right if isinstance(left, ast.Constant) else left), 2
        return Assertion(text=text, subject=names.text(looked), strength=strength, line=line)
    subject = names.text(left)
    own = names.own(left)
    none = isinstance(right, ast.Constant) and right.value is None
    if isinstance(op, ast.Eq):
        for near, other in ((right, left), (left, right)):
            if isinstance(near, ast.Call) and last_name(near.func) == "approx":
                return Assertion(
                    text=text,
                    subject=names.text(other),
                    strength=3,
                    line=line,
                    tolerance=_approx(near, names),
                    own_mock=own,
                )
        # Held against itself: that both are one is a weak property.
        twice = subject == names.text(_of_file(right, names))
        return Assertion(
            text=text, subject=subject, strength=1 if twice else _exact(left, names), line=line, own_mock=own
        )
    if isinstance(op, ast.Is):
        return Assertion(text=text, subject=subject, strength=4, line=line, own_mock=own)
    if isinstance(op, ast.IsNot | ast.NotEq):
        return Assertion(text=text, subject=subject, strength=1 if none else 2, line=line)
    sign = _ORDERS[type(op)]
    sign = sign if left is node.left else _TURNED[sign]
    limit = number(right, names.known)
    if limit is None and number(left, names.known) is not None:
        left, right, sign, limit = right, left, _TURNED[sign], number(left, names.known)
        subject = names.text(left)
    if sign == "<" and isinstance(left, ast.Call) and last_name(left.func) in ("abs", "fabs") and left.args:
        return Assertion(text=text, subject=names.text(left.args[0]), strength=3, line=line, tolerance=limit)
    bound = None if limit is None else (sign, limit)
    return Assertion(text=text, subject=subject, strength=2, line=line, bound=bound)


def _of_file(node: ast.expr, names: Names) -> ast.expr:
    """Give what a constant of the file stands for, where it is no plain value."""
    if isinstance(node, ast.Name) and node.id not in names.local:
        return names.constants.get(node.id, node)
    return node


def _exact(node: ast.expr, names: Names) -> int:
    """Say how much `==` leaves open: what was rounded, counted, or has a value to fall back on, is less than all."""
    node = names.single.get(node.id, node) if isinstance(node, ast.Name) else node
    if isinstance(node, ast.BoolOp):
        return 2
    if isinstance(node, ast.Call):
        if isinstance(node.func, ast.Name) and node.func.id in _LOSSY:
            return 3
        if isinstance(node.func, ast.Attribute) and node.func.attr in _LOSSY_METHODS and not node.args:
            return 3
    return 4


def _predicate(node: ast.Call, text: str, line: int, names: Names) -> Assertion:
    name = last_name(node.func)
    subject = names.text(node.args[0]) if node.args else text
    if name in ("isclose", "allclose"):
        numpy = "math" not in dotted(node.func) and not any(k.arg in ("rel_tol", "abs_tol") for k in node.keywords)
        defaults = {"rtol": 1e-5, "atol": 1e-8} if numpy else {"rel_tol": 1e-9, "abs_tol": 0.0}
        return Assertion(text=text, subject=subject, strength=3, line=line, tolerance=_widest(node, names, defaults))
    if name == "array_equal":
        return Assertion(text=text, subject=subject, strength=4, line=line)
    if name in ("isinstance", "issubclass", "any"):
        return Assertion(text=text, subject=subject, strength=2, line=line)
    if name in ("hasattr", "callable", "bool"):
        return Assertion(text=text, subject=subject, strength=1, line=line)
    if name == "all":
        return Assertion(text=text, subject=subject, strength=3, line=line)
    return Assertion(text=text, subject=text, strength=2, line=line, own_mock=names.own(node))


def of_call(node: ast.Call, names: Names) -> list[Assertion] | None:
    """Give the assertions that a call is; None: it is no assertion."""
    name = last_name(node.func)
    if (
        isinstance(node.func, ast.Attribute)
        and name.startswith(("to_", "not_to_"))
        and last_name(node.func.value) == "expect"
    ):
        subject = names.text(node.func.value)
        return [
            Assertion(
                text=names.text(node), subject=subject, strength=2 if name.startswith("not") else 3, line=node.lineno
            )
        ]
    if name == "fail" and isinstance(node.func, ast.Attribute):
        return [Assertion(text="fail()", subject="fail()", strength=4, line=node.lineno)]
    if not name.lower().startswith("assert") or name in (
        "assertRaises",
        "assertRaisesRegex",
        "assertWarns",
        "assertLogs",
    ):
        made = raises(node, name) if name in ("assertRaises", "assertRaisesRegex") else None
        return [made] if made is not None and len(node.args) > 1 else None
    text = names.text(node)
    if name in ("assertTrue", "assert_", "assert_true") and node.args:
        return list(of_condition(node.args[0], node.lineno, names))
    if name == "assertFalse" and node.args:
        turned = ast.copy_location(ast.UnaryOp(ast.Not(), node.args[0]), node)
        return list(of_condition(turned, node.lineno, names))
    if name in _UNITTEST:
        return [_unittest(node, name, text, names)]
    if (
        name not in _NAMED
        and isinstance(node.func, ast.Name)
        and name.startswith("assert_")
        and not node.args
        and not node.keywords
    ):
        return None  # a helper of somebody's
    if isinstance(node.func, ast.Name) and name not in _NAMED:
        return None if name not in ("assert_that", "assertThat") else [_plain(node, text, names, 3)]
    if isinstance(node.func, ast.Attribute) and last_name(node.func.value) in ("self", "cls") and name not in _NAMED:
        return None if name.startswith("assert_") else [_plain(node, text, names, 3)]
    if name in ("assert_allclose", "assert_almost_equal", "assert_array_almost_equal", "assert_approx_equal"):
        wide = (
            _widest(node, names, {"rtol": 1e-7, "atol": 0.0})
            if name == "assert_allclose"
            else _places(node, names, 7, "decimal")
        )
        subject = names.text(node.args[0]) if node.args else text
        return [Assertion(text=text, subject=subject, strength=3, line=node.lineno, tolerance=wide)]
    return [_plain(node, text, names, _NAMED.get(name, 3))]


def _plain(node: ast.Call, text: str, names: Names, strength: int) -> Assertion:
    on = node.func.value if isinstance(node.func, ast.Attribute) else None
    mock = last_name(node.func).startswith(
        ("assert_called", "assert_not", "assert_any", "assert_has", "assert_awaited")
    )
    looked = on if mock and on is not None else node.args[0] if node.args else node
    return Assertion(text=text, subject=names.text(looked), strength=strength, line=node.lineno)


def _unittest(node: ast.Call, name: str, text: str, names: Names) -> Assertion:
    strength, line = _UNITTEST[name], node.lineno
    args = node.args
    if not args:
        return Assertion(text=text, subject=text, strength=strength, line=line)
    looked = args[1] if len(args) > 1 and isinstance(args[0], ast.Constant) else args[0]
    subject = names.text(looked)
    exact = strength == 4 and len(args) > 1
    if exact and ast.dump(_constants_in(args[0], names)) == ast.dump(_constants_in(args[1], names)):
        if any(isinstance(one, ast.Call) for one in every(args[0])):
            return Assertion(text=text, subject=subject, strength=1, line=line)
        return Assertion(text=text, subject=subject, strength=0, line=line, tautology=True)
    if exact and "ANY" in (last_name(args[0]), last_name(args[1])):
        return Assertion(text=text, subject=subject, strength=0, line=line, tautology=True)
    tolerance, bound = None, None
    if name == "assertAlmostEqual":
        delta = next((one.value for one in node.keywords if one.arg == "delta"), None)
        tolerance = number(delta, names.known) if delta is not None else _places(node, names, 7, "places")
    if name.startswith(("assertGreater", "assertLess")) and len(args) > 1:
        limit = number(args[1], names.known)
        bound = None if limit is None else (">" if "Greater" in name else "<", limit)
    return Assertion(
        text=text,
        subject=subject,
        strength=strength,
        line=line,
        tolerance=tolerance,
        bound=bound,
        own_mock=names.own(looked),
    )


def _places(node: ast.Call, names: Names, default: int, word: str) -> float | None:
    given = next((one.value for one in node.keywords if one.arg == word), None)
    given = given if given is not None else node.args[2] if len(node.args) > 2 else None
    places = float(default) if given is None else number(given, names.known)
    return None if places is None or abs(places) > 300 else 0.5 * math.pow(10, -places)


def _approx(node: ast.Call, names: Names) -> float | None:
    given = {one.arg: number(one.value, names.known) for one in node.keywords}
    given |= dict(zip(("rel", "abs"), [number(one, names.known) for one in node.args[1:3]], strict=False))
    value = number(node.args[0], names.known) if node.args else None
    size = abs(value) if value is not None else 1.0
    if None in [given[word] for word in ("rel", "abs") if word in given]:
        return None
    rel = given.get("rel", 0.0 if "abs" in given else 1e-6)
    return max((rel or 0.0) * (size or 1.0), given.get("abs", 1e-12) or 0.0)


def _widest(node: ast.Call, names: Names, defaults: Mapping[str, float]) -> float | None:
    rel, near = defaults
    given = {one.arg: number(one.value, names.known) for one in node.keywords}
    given |= dict(zip((rel, near), [number(one, names.known) for one in node.args[2:4]], strict=False))
    if None in [given[word] for word in (rel, near) if word in given]:
        return None
    return max(given.get(rel, defaults[rel]) or 0.0, given.get(near, defaults[near]) or 0.0)
