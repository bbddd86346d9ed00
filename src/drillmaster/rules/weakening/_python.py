"""Tests in Python, read by `ast`: what each one asserts, and what keeps it from running."""

import ast
import re
import sys
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from drillmaster.rules.weakening import _pyassert as pyassert
from drillmaster.rules.weakening._pyalias import given_marks, is_mark, marks_imported, plain
from drillmaster.rules.weakening._pyaround import around, autouse, skipped_by
from drillmaster.rules.weakening._pytree import dotted, every, last_name
from drillmaster.rules.weakening._pywalk import Function, Place, Walk, skips
from drillmaster.rules.weakening._shapes import Assertion, Suite, Test, Unparsed

__all__ = ["read"]

MAX_BYTES = 4 << 20
_HOOKS = frozenset({
    "collect_ignore", "collect_ignore_glob", "pytest_ignore_collect", "pytest_collection_modifyitems",
    "pytest_collect_file",
    "pytest_runtest_makereport", "pytest_runtest_call", "pytest_runtest_protocol", "pytest_sessionfinish",
    "pytest_deselected",
    "pytest_pyfunc_call", "pytest_collection_finish", "pytest_itemcollected", "pytest_report_teststatus",
    "pytest_assertrepr_compare",
    "pytest_runtest_setup", "pytest_pycollect_makeitem", "pytest_generate_tests", "load_tests",
    "pytest_exception_interact",
})  # fmt: skip  # words
_RUNNERS = frozenset({"pytest", "_pytest", "unittest", "nose", "hypothesis", "mock", "doctest", "typing_extensions"})
_REACHING = frozenset(
    {"subprocess", "socket", "http", "urllib", "runpy", "importlib", "ctypes", "xmlrpc", "multiprocessing"}
)
_WORD = re.compile(r"[^\W\d]\w*")


def read(before: bytes | None, after: bytes | None) -> tuple[Suite | None, Suite | None]:
    """Read both versions of one file; None: it is not there. What is the same in both is told by name alone.

    Raises Unparsed. An old version that did not parse is as if it were not there: it ran as little.
    """
    now = _opened(after) if after is not None else None
    try:
        was = _opened(before) if before is not None else None
    except Unparsed:
        if now is None:
            raise
        was = None
    try:
        same = _unchanged(was, now) if was is not None and now is not None else frozenset()
        known = was.parts() if was is not None else {}
        return was.suite(same) if was is not None else None, now.suite(same, known) if now is not None else None
    except (RecursionError, ValueError):
        raise _unreadable() from None


def _opened(data: bytes) -> "Module":
    if len(data) > MAX_BYTES:
        raise Unparsed(f"{len(data):,} bytes of Python", "split the file: no test is read in one so long")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(data)
        return Module(plain(tree), data)
    except SyntaxError as error:
        where = f" in line {error.lineno}" if error.lineno else ""
        raise Unparsed(f"no Python of this version{where}", "python -m py_compile FILE says what is wrong") from None
    except (ValueError, RecursionError, MemoryError):
        raise _unreadable() from None


def _unreadable() -> Unparsed:
    return Unparsed("what no reader of Python takes", "python -m py_compile FILE says what is wrong")


def _unchanged(was: "Module", now: "Module") -> frozenset[str]:
    """Name the tests whose text is the same, and that use nothing of the file which is not."""
    a, b = was.parts(), now.parts()
    changed = {name for name in {*a, *b} if a.get(name) != b.get(name)}
    if (
        any(not name.isidentifier() for name in changed)
        or "pytestmark" in changed
        or changed & {*was.fixtures, *now.fixtures}
    ):
        return frozenset()
    words = {name: set(_WORD.findall(text)) for name, text in b.items()}
    growing = True
    while growing:
        more = {name for name, used in words.items() if name not in changed and used & changed}
        changed |= more
        growing = bool(more)
    old, new = was.texts(), now.texts()
    return frozenset(
        name
        for name, text in new.items()
        if old.get(name) == text and not changed & {*_WORD.findall(text), *name.split("::")[:-1]}
    )


class _Found(NamedTuple):
    """A test's function, the class it stands in, and what they inherit."""

    function: Function
    owner: ast.ClassDef | None
    marks: tuple[str, ...]
    decorators: tuple[ast.expr, ...]


class Module:
    def __init__(self, tree: ast.Module, data: bytes) -> None:
        self.tree = tree
        self._said: dict[str, list[Assertion]] = {}
        self._lines = data.splitlines(keepends=True)
        self.constants: dict[str, ast.expr] = {}
        self.helpers: dict[str, Function] = {}
        self.marks: list[str] = []
        self.settings: list[str] = []
        self.tests: dict[str, Test] = {}
        self.found: dict[str, _Found] = {}
        self._classes: set[str] = set()

        self.imports = dict(self._imported())
        self._gather(self.tree.body, "", None, (), ())
        self.fixtures = autouse(tree.body)
        self.marks += [said for one in self.fixtures.values() for said in skipped_by(one)]
        self.settings += around(tree, [one.function for one in self.found.values()], self.imports)
        for node in every(self.tree):
            if isinstance(node, ast.Call) and dotted(node.func) in ("os._exit", "pytest.exit"):
                self.settings.append(f"ends the run: {ast.unparse(node)}")

    def suite(self, same: frozenset[str] = frozenset(), known: Mapping[str, str] | None = None) -> Suite:
        """Give all of the file; of the tests named in `same` no more than the name, and of helpers what is not `known`."""
        helpers = {}
        if known is not None:
            new = [name for name, helper in self.helpers.items() if known.get(name) != self._text(helper)]
            helpers = {
                name: tuple(one.text for one in self.said(name) if one.counts and not one.conditional) for name in new
            }
        for name, (function, owner, marks, decorators) in self.found.items():
            if name in same:
                self.tests[name] = Test(name=name, line=function.lineno, body="")
            else:
                self.tests[name] = self._test(name, function, owner, (*self.marks, *marks), decorators)
        return Suite(
            tests=tuple(self.tests.values()),
            settings=tuple(self.settings),
            helpers=helpers,
            imports=self.imports,
            reaches_product=self._reaches_product(),
        )

    def said(self, name: str) -> list[Assertion]:
        """Give what a helper asserts, in its own words."""
        if name not in self._said:
            self._said[name] = []  # one that calls itself says no more
            walk = Walk(self, self.helpers[name], None)
            walk.body(self.helpers[name].body, Place())
            self._said[name] = walk.asserts
        return self._said[name]

    def texts(self) -> dict[str, str]:
        """Give the source of each test, decorators and all."""
        return {name: self._text(function) for name, (function, _, _, _) in self.found.items()}

    def parts(self) -> dict[str, str]:
        """Give the source of what tests may use, by name; of what has none, by a name that is none."""
        found: dict[str, str] = {}
        for number, node in enumerate(self.tree.body):
            if isinstance(node, ast.Import | ast.ImportFrom):
                found.update(marks_imported(node))
                continue
            if isinstance(node, Function) and _is_test_name(node.name):
                continue
            if isinstance(node, ast.ClassDef) and _is_test_class(node):
                kept = [one for one in node.body if not (isinstance(one, Function) and _is_test_name(one.name))]
                head = [ast.unparse(one) for one in (*node.decorator_list, *node.bases)]
                found[node.name] = "\n".join((*head, *map(self._text, kept)))
            elif isinstance(node, Function | ast.ClassDef):
                found[node.name] = self._text(node)
            elif isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
                found[node.targets[0].id] = self._text(node)
            elif not (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)):
                found[f"statement {number} {type(node).__name__}"] = self._text(node)
        return found

    def _text(self, node: ast.stmt) -> str:
        decorators = getattr(node, "decorator_list", [])
        begin = min([node.lineno, *(one.lineno for one in decorators)])
        return b"".join(self._lines[begin - 1 : node.end_lineno]).decode("utf-8", "replace")

    # What is collected

    def _gather(
        self,
        body: list[ast.stmt],
        prefix: str,
        owner: ast.ClassDef | None,
        marks: tuple[str, ...],
        decorators: tuple[ast.expr, ...],
    ) -> None:
        own: list[str] = list(marks)
        for node in body:  # first what holds for all of them, wherever it stands
            if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
                target = node.targets[0].id
                if not prefix:
                    self.constants[target] = node.value
                if target == "pytestmark":
                    own += self._marks_in(node.value)
                elif target == "__test__" and isinstance(node.value, ast.Constant) and not node.value.value:
                    own.append("__test__ = False")
                if target in _HOOKS:
                    self.settings.append(ast.unparse(node))
            elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.value is not None:
                if not prefix:
                    self.constants[node.target.id] = node.value
                if node.target.id == "pytestmark":
                    own += self._marks_in(node.value)
            elif isinstance(node, ast.AugAssign) and dotted(node.target) == "pytestmark":
                own += self._marks_in(node.value)
            elif isinstance(node, ast.ImportFrom):
                own += [
                    f"pytestmark comes from {node.module or '.'}"
                    for one in node.names
                    if (one.asname or one.name) == "pytestmark"
                ]
            elif isinstance(node, Function) and not prefix:
                if node.name in _HOOKS:
                    self.settings.append(ast.unparse(node))
                elif not _is_test_name(node.name):
                    self.helpers[node.name] = node
            elif isinstance(node, ast.Expr | ast.Raise) and skips(node):
                own.append(ast.unparse(node))
            elif isinstance(node, ast.Expr) and isinstance(call := node.value, ast.Call):
                added = call.args if dotted(call.func).startswith("pytestmark.") else []
                own += [text for one in added for text in self._marks_in(one)]
        if not prefix and not owner and not marks:
            self.marks, own = own, []
        for node in body:
            if isinstance(node, Function) and _is_test_name(node.name):
                name = f"{prefix}{node.name}"
                self.found.pop(name, None)
                self.found[name] = _Found(node, owner, tuple(own), decorators)
            elif isinstance(node, ast.ClassDef) and _is_test_class(node):
                if any(isinstance(one, Function) and one.name == "__init__" for one in node.body) and not node.bases:
                    own = [*own, f"class {node.name} has an __init__, and is not collected"]
                inner = (*own, *(text for one in node.decorator_list if (text := self._mark(one))))
                inner += tuple(said for one in autouse(node.body).values() for said in skipped_by(one))
                self._hide(f"{prefix}{node.name}::")
                self._gather(node.body, f"{prefix}{node.name}::", node, inner, (*decorators, *node.decorator_list))
            elif isinstance(node, ast.If):
                truth = pyassert.truth(node.test)
                said = f"if {ast.unparse(node.test)}"
                if truth is not False:
                    self._gather(node.body, prefix, owner, (*own, *(() if truth else (said,))), decorators)
                if truth is not True:
                    self._gather(node.orelse, prefix, owner, (*own, *(() if truth is False else (said,))), decorators)
            elif isinstance(node, ast.Try):
                self._gather(node.body, prefix, owner, tuple(own), decorators)
            elif isinstance(node, ast.Assign | ast.Delete):
                for hidden in node.targets:
                    if isinstance(hidden, ast.Name) and _is_test_name(hidden.id):
                        self.found.pop(f"{prefix}{hidden.id}", None)

    def _hide(self, prefix: str) -> None:
        """Forget the tests of a class that a later one of its name hides."""
        if prefix in self._classes:
            self.found = {name: one for name, one in self.found.items() if not name.startswith(prefix)}
        self._classes.add(prefix)

    def _mark(self, node: ast.expr) -> str:
        """Give a decorator that keeps a test out, as text, an alias of the file by what it stands for; empty: it is none."""
        if isinstance(node, ast.Name) and node.id in self.constants:
            node = self.constants[node.id]
        if isinstance(node, ast.IfExp):
            return ast.unparse(node) if self._mark(node.body) or self._mark(node.orelse) else ""
        if isinstance(node, ast.Lambda):
            return self._mark(node.body)
        called = node.func if isinstance(node, ast.Call) else node
        if isinstance(called, ast.Call):  # `@mark("why")(f)`, or what a function of one's own gives back
            return self._mark(called)
        if isinstance(called, ast.Name) and called.id in self.helpers:
            return "; ".join(f"@{called.id} gives {one}" for one in given_marks(self.helpers[called.id]))
        if isinstance(called, ast.Name) and isinstance(self.constants.get(called.id), ast.Lambda):
            return self._mark(self.constants[called.id])
        return ast.unparse(node) if is_mark(dotted(called)) else ""

    def _marks_in(self, node: ast.expr, depth: int = 0) -> list[str]:
        """Give the marks of a list of them, however it is put together."""
        if isinstance(node, ast.Name) and node.id in self.constants and depth < 8:
            return self._marks_in(self.constants[node.id], depth + 1)
        if isinstance(node, ast.List | ast.Tuple | ast.Set):
            return [text for one in node.elts for text in self._marks_in(one, depth)]
        if isinstance(node, ast.Starred):
            return self._marks_in(node.value, depth)
        if isinstance(node, ast.BinOp):
            return [*self._marks_in(node.left, depth), *self._marks_in(node.right, depth)]
        return [text] if (text := self._mark(node)) else []

    def _imported(self) -> Iterator[tuple[str, str]]:
        """Give the names that come from other modules than the language's own, with the module."""
        for node in every(self.tree):
            if isinstance(node, ast.ImportFrom):
                module = "." * node.level + (node.module or "")
                if module.split(".")[0] not in sys.stdlib_module_names | _RUNNERS:
                    yield from ((one.asname or one.name, module) for one in node.names)
            elif isinstance(node, ast.Import):
                yield from ((one.asname or one.name.split(".")[0], one.name) for one in node.names)

    def _reaches_product(self) -> bool:
        known = sys.stdlib_module_names - _REACHING | _RUNNERS
        for node in every(self.tree):
            if isinstance(node, ast.ImportFrom) and (node.level or (node.module or "").split(".")[0] not in known):
                return True
            if isinstance(node, ast.Import) and any(alias.name.split(".")[0] not in known for alias in node.names):
                return True
            if isinstance(node, ast.Call) and last_name(node.func) in ("__import__", "import_module", "exec"):
                return True
        ours = {"monkeypatch", "tmp_path", "tmpdir", "capsys", "caplog", "request", "self", "cls", "recwarn", "capfd"}
        for function, _, _, decorators in self.found.values():
            rows = {name for one in (*decorators, *function.decorator_list) for name in _row_names(one)}
            takes = {one.arg for one in (*function.args.args, *function.args.kwonlyargs)}
            if takes - ours - rows:
                return True  # a fixture of somebody's brings the product in
        return not self.found

    # One test

    def _test(
        self,
        name: str,
        function: Function,
        owner: ast.ClassDef | None,
        marks: tuple[str, ...],
        decorators: tuple[ast.expr, ...],
    ) -> Test:
        walk = Walk(self, function, owner)
        walk.body(function.body, Place())
        walk.in_bounds(name)
        rows, examples, timeouts = self._rows((*decorators, *function.decorator_list))
        return Test(
            name=name,
            line=function.lineno,
            body=ast.unparse(ast.Module(body=function.body, type_ignores=[])),
            asserts=tuple(walk.asserts),
            decorated=tuple(self._foreign((*decorators, *function.decorator_list))),
            marks=(
                *marks,
                *(["a generator, which is not run"] if _yields(function) else []),
                *(text for one in function.decorator_list if (text := self._mark(one))),
                *walk.marks,
                *_overwritten(function, (*decorators, *function.decorator_list)),
                *(["no row"] if [] in rows else []),
            ),
            rows=_product(rows, walk.rows),
            timeouts=tuple(sorted(walk.timeouts)),
            limit_s=min(timeouts, default=None),
            examples=examples,
        )

    def _foreign(self, decorators: Iterable[ast.expr]) -> Iterator[str]:
        for one in decorators:
            called = dotted(one.func if isinstance(one, ast.Call) else one)
            module = self.imports.get(called.partition(".")[0])
            if module is not None and not self._mark(one):
                yield f"@{called} of {module}"

    def _rows(self, decorators: Iterable[ast.expr]) -> tuple[list[list[str] | None], float | None, list[float]]:
        rows: list[list[str] | None] = []
        shown: list[str] = []
        examples, timeouts = None, []  # type: float | None, list[float]
        for node in decorators:
            node = self.constants.get(node.id, node) if isinstance(node, ast.Name) else node
            if not isinstance(node, ast.Call):
                continue
            last = last_name(node.func)
            if last in ("parametrize", "expand", "data", "idata"):
                values = next((one.value for one in node.keywords if one.arg == "argvalues"), None)
                at = 1 if last == "parametrize" else 0
                if values is None and last == "data":
                    rows.append([ast.unparse(one) for one in node.args])
                    continue
                values = values if values is not None else node.args[at] if len(node.args) > at else None
                rows.append(None if values is None else self.elements(values))
            elif last == "example":
                shown.append(ast.unparse(node))
            elif last == "settings":
                given = next((one.value for one in node.keywords if one.arg == "max_examples"), None)
                examples = pyassert.number(given, self.constants) if given is not None else examples
            elif last == "timeout" and node.args:
                value = pyassert.number(node.args[0], self.constants)
                timeouts += [] if value is None else [value]
        return ([*rows, shown] if shown else rows), examples, timeouts

    def elements(self, node: ast.expr) -> list[str] | None:
        """Give the rows that a value holds, without those that do not run; None: it cannot be told here."""
        seen: set[str] = set()
        while isinstance(node, ast.Name) and node.id in self.constants and node.id not in seen:
            seen.add(node.id)
            node = self.constants[node.id]
        if isinstance(node, ast.Dict):
            return [ast.unparse(key) if key else "**" for key in node.keys]
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and node.func.attr in ("items", "values", "keys")
        ):
            return self.elements(node.func.value)
        if (
            isinstance(node, ast.Call)
            and last_name(node.func) in ("sorted", "list", "tuple", "enumerate")
            and node.args
        ):
            return self.elements(node.args[0])
        if isinstance(node, ast.Call) and last_name(node.func) == "range":
            given = [pyassert.number(one, self.constants) for one in node.args]
            if given and None not in given and len(given) <= 3:
                span = range(*(int(one or 0) for one in given)) if len(given) < 3 or given[2] else range(0)
                return [str(one) for one in span[:10_000]]
            return None
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
            left, right = self.elements(node.left), self.elements(node.right)
            return None if left is None or right is None else left + right
        if not isinstance(node, ast.List | ast.Tuple | ast.Set):
            return None
        rows: list[str] = []
        for one in node.elts:
            if isinstance(one, ast.Starred):
                inner = self.elements(one.value)
                if inner is None:
                    return None
                rows += inner
            elif not (
                isinstance(one, ast.Call)
                and any(k.arg == "marks" and any(map(self._mark, _elements(k.value))) for k in one.keywords)
            ):
                rows.append(_row_text(one))
        return rows


def _yields(function: Function) -> bool:
    """Whether a function is a generator: no runner runs one as a test."""
    waiting: list[ast.AST] = list(function.body)
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.Yield | ast.YieldFrom):
            return True
        if not isinstance(node, Function | ast.Lambda | ast.ClassDef):
            waiting += ast.iter_child_nodes(node)
    return False


def _overwritten(function: Function, decorators: Iterable[ast.expr]) -> Iterator[str]:
    """Name the parameters of a table that the test gives a value of its own."""
    taken = {name for one in decorators for name in _row_names(one)}
    for node in function.body:
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant):
            for target in node.targets:
                if isinstance(target, ast.Name) and target.id in taken:
                    yield f"{target.id} of each row is written over: {ast.unparse(node)}"


def _is_test_name(name: str) -> bool:
    return name.startswith("test")


def _is_test_class(node: ast.ClassDef) -> bool:
    return node.name.startswith("Test") or any(
        last_name(base).endswith(("TestCase", "Tests", "Test")) for base in node.bases
    )


def _elements(node: ast.expr) -> list[ast.expr]:
    return list(node.elts) if isinstance(node, ast.List | ast.Tuple) else [node]


def _row_names(node: ast.expr) -> Iterator[str]:
    if isinstance(node, ast.Call) and last_name(node.func) == "parametrize" and node.args:
        names = node.args[0]
        if isinstance(names, ast.Constant) and isinstance(names.value, str):
            yield from (one.strip() for one in names.value.split(","))
        elif isinstance(names, ast.List | ast.Tuple):
            yield from (str(one.value) for one in names.elts if isinstance(one, ast.Constant))
    elif isinstance(node, ast.Call) and last_name(node.func) == "given":
        yield from (one.arg for one in node.keywords if one.arg)


def _row_text(node: ast.expr) -> str:
    if isinstance(node, ast.Call) and last_name(node.func) == "param":
        return ", ".join(ast.unparse(one) for one in node.args)
    return ast.unparse(node)[1:-1] if isinstance(node, ast.Tuple) else ast.unparse(node)


def _product(decorated: list[list[str] | None], looped: list[list[str]]) -> tuple[str, ...] | None:
    """Put several sets of rows together: how many there are in all is their product, and each is told once."""
    if any(one is None for one in decorated):
        return None
    sets = [one for one in (*decorated, *looped) if one is not None]
    counted: Counter[str] = Counter()
    for one in sets:
        counted.update(one)
    return tuple(sorted(counted.elements()))
