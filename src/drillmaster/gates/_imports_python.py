"""A Python module by its syntax tree: what it imports, what it loads by a computed name, and what it reads.

1. Every import counts, wherever it stands: in a function, under a condition, under `TYPE_CHECKING`.
2. `importlib.import_module`, `__import__` and their kin with a constant are an import; with anything else, or handed around under
   another name, they are something that nobody can follow. So are `exec`, `eval`, `sys.modules`, `sys.path`, `__dict__`, and
   modules that run what they are handed (`pickle`, `ctypes`).
3. Names are followed through `import a as b` and `from a import b as c`, and through a plain `x = importlib`.
4. A read is `.NAME`, `["NAME"]`, `.get("NAME")`, `getattr(x, "NAME")`, `attrgetter("NAME")`, a pattern of `match`, a parameter, a
   field or an imported name. `getattr` with a computed name could be any of them.
"""

import ast
import warnings
from collections.abc import Iterator
from functools import lru_cache

from drillmaster.gates._imports_names import CALLS, PARAMETERS, READS
from drillmaster.gates._imports_shapes import Hit, Imported, Scan, Unparsed

__all__ = ["scan"]

MAX_BYTES = 4 << 20
_LOADS = frozenset(
    {
        "importlib.import_module", "importlib.__import__", "__import__", "builtins.__import__", "importlib.util.find_spec",
        "pkgutil.resolve_name", "runpy.run_module", "pkgutil.get_loader", "pkgutil.find_loader",
    }
)  # fmt: skip  # words
"""With a constant they name a module."""
_RUNS = frozenset({"exec", "eval", "compile", "builtins.exec", "builtins.eval", "builtins.compile", "vars", "globals",
                   "locals", "builtins.vars", "builtins.globals", "builtins.locals", "__builtins__"})  # fmt: skip  # words
_RUNS_BY_NAME = frozenset(
    {
        "import_module", "__import__", "exec_module", "load_module", "load_source", "run_module", "run_path", "run_code",
        "resolve_name", "find_spec", "spec_from_file_location", "spec_from_loader", "module_from_spec", "SourceFileLoader",
        "SourcelessFileLoader", "ExtensionFileLoader", "entry_points", "__dict__", "__globals__", "__builtins__",
        "__getattribute__",
        "__subclasses__", "__loader__", "FunctionType", "CodeType", "iter_modules", "walk_packages",
    }
)  # fmt: skip  # words
_OF_SYS = frozenset({"sys.modules", "sys.path", "sys.meta_path", "sys.path_hooks"})
_LOADERS = frozenset({"ctypes", "_ctypes", "cffi", "pickle", "_pickle", "marshal", "dill", "cloudpickle", "shelve", "imp",
                      "zipimport", "code", "codeop"})  # fmt: skip  # words
"""Modules that run what they are handed, or load it from anywhere."""
_GETTERS = frozenset({"get", "pop", "setdefault", "getlist", "get_all", "__getitem__", "__getattr__"})
_BY_KEY = frozenset({"operator.attrgetter", "operator.itemgetter", "operator.methodcaller"})
_OF_OS = ("os.system", "os.popen", "os.exec", "os.spawn", "os.posix_spawn", "os.fork")
_OF_ASYNCIO = frozenset(
    {
        "open_connection", "open_unix_connection", "create_connection", "create_unix_connection", "create_subprocess_exec",
        "create_subprocess_shell", "sock_connect", "create_datagram_endpoint",
    }
)  # fmt: skip  # words


@lru_cache(maxsize=4_096)
def scan(data: bytes) -> Scan:
    """Read one module. Raises Unparsed."""
    if len(data) > MAX_BYTES:
        raise Unparsed(f"{len(data):,} bytes of Python")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of the module's own escapes
            tree = ast.parse(data)
        return _Walk(tree).scan()
    except SyntaxError as error:
        raise Unparsed(f"no Python that parses, in line {error.lineno or 1}") from None
    except (ValueError, RecursionError, MemoryError, LookupError):
        raise Unparsed("no Python that parses") from None


class _Walk:
    def __init__(self, tree: ast.Module) -> None:
        self._tree = tree
        self._nodes = list(ast.walk(tree))
        self._names: dict[str, str] = {}
        self._modules: set[str] = set()
        self._called: set[int] = set()
        """Names that were told with their call."""
        self.imports: list[Imported] = []
        self.dynamic: list[Hit] = []
        self.reads: list[Hit] = []
        self.reaches: list[Hit] = []

    def scan(self) -> Scan:
        for node in self._nodes:
            if isinstance(node, ast.Import | ast.ImportFrom):
                self._import(node)
        self._follow()
        for node in self._nodes:
            if isinstance(node, ast.Call):
                self._call(node)
        inner = {id(node.value) for node in self._nodes if isinstance(node, ast.Attribute)}
        for node in self._nodes:
            self._other(node)
            # `import a` and then `a.b.c`: what was loaded elsewhere is reached without an import of its own.
            if isinstance(node, ast.Attribute) and id(node) not in inner:
                full = self._full(node)
                if full and self._root(node) in self._modules:
                    self.imports.append(Imported(node.lineno, full))
        return Scan(
            imports=_in_order(self.imports),
            bare=all(map(_binds_nothing, self._tree.body)),
            dynamic=_in_order(self.dynamic),
            reads=_in_order(self.reads),
            reaches=_in_order(self.reaches),
        )

    def _import(self, node: ast.Import | ast.ImportFrom) -> None:
        for alias in node.names:
            if isinstance(node, ast.Import):
                self.imports.append(Imported(node.lineno, alias.name))
                self._loader(node.lineno, alias.name)
                self._modules.add(alias.asname or alias.name.partition(".")[0])
                self._names[alias.asname or alias.name.partition(".")[0]] = (
                    alias.name if alias.asname else alias.name.partition(".")[0]
                )
                continue
            self.imports.append(Imported(node.lineno, node.module or "", node.level, alias.name))
            if not node.level:
                self._loader(node.lineno, node.module or "")
            self._names[alias.asname or alias.name] = f"{node.module or ''}.{alias.name}"
            if alias.name in PARAMETERS:
                self.reads.append(Hit(node.lineno, alias.name))

    def _loader(self, line: int, name: str) -> None:
        if name.partition(".")[0] in _LOADERS:
            self.dynamic.append(Hit(line, name))

    def _follow(self) -> None:
        """Follow `x = importlib.import_module` and the like, twice."""
        for _ in range(2):
            for node in self._nodes:
                target = node.targets[0] if isinstance(node, ast.Assign) and len(node.targets) == 1 else None
                if isinstance(node, ast.AnnAssign | ast.NamedExpr):
                    target = node.target
                value = getattr(node, "value", None)
                if isinstance(target, ast.Name) and isinstance(value, ast.Name | ast.Attribute):
                    full = self._full(value)
                    if full.partition(".")[0] in ("importlib", "sys", "builtins", "operator", "os", "pkgutil", "runpy"):
                        self._names.setdefault(target.id, full)

    def _full(self, node: ast.expr) -> str:
        """Give the dotted name that an expression is; "": it is none."""
        if isinstance(node, ast.Name):
            return self._names.get(node.id, node.id)
        if isinstance(node, ast.Attribute):
            inner = self._full(node.value)
            return f"{inner}.{node.attr}" if inner else ""
        return ""

    def _root(self, node: ast.expr) -> str:
        while isinstance(node, ast.Attribute):
            node = node.value
        return node.id if isinstance(node, ast.Name) else ""

    def _call(self, node: ast.Call) -> None:
        full = self._full(node.func)
        first = node.args[0] if node.args else next((one.value for one in node.keywords if one.arg == "name"), None)
        if full in _LOADS:
            self._called.add(id(node.func))
            name = _constant(first)
            if name is None or name.startswith("."):
                self.dynamic.append(Hit(node.lineno, f"{full}()"))
            else:
                self.imports.append(Imported(node.lineno, name.partition(":")[0]))
        elif full in ("getattr", "builtins.getattr"):
            name = _constant(node.args[1]) if len(node.args) > 1 else None
            self._by_name(node.lineno, name, "getattr()")
        elif full in _BY_KEY:
            for one in node.args[:1] if full.endswith("methodcaller") else node.args:
                if not (isinstance(one, ast.Constant) and isinstance(one.value, int)):
                    self._by_name(node.lineno, _constant(one), f"{full}()")
        elif isinstance(node.func, ast.Attribute):
            name = _constant(first)
            if node.func.attr in _GETTERS and name in READS:
                self.reads.append(Hit(node.lineno, f'["{name}"]'))
            if node.func.attr in CALLS:
                self.reads.append(Hit(node.lineno, f".{node.func.attr}()"))
                self._called.add(id(node.func))

    def _by_name(self, line: int, name: str | None, how: str) -> None:
        if name is None:
            self.dynamic.append(Hit(line, how))
            return
        for part in name.split("."):
            if part in READS or part in CALLS:
                self.reads.append(Hit(line, f".{part}"))
            if part in _RUNS_BY_NAME:
                self.dynamic.append(Hit(line, part))

    def _other(self, node: ast.AST) -> None:
        if isinstance(node, ast.Name | ast.Attribute):
            self._reference(node)
        elif isinstance(node, ast.Subscript):
            key = _constant(node.slice)
            if key in READS:
                self.reads.append(Hit(node.lineno, f'["{key}"]'))
            elif key in _RUNS_BY_NAME:
                self.dynamic.append(Hit(node.lineno, str(key)))
        elif isinstance(node, ast.MatchClass):
            self.reads += [Hit(node.lineno, f".{name}") for name in node.kwd_attrs if name in READS]
        elif isinstance(node, ast.MatchMapping):
            self.reads += [Hit(node.lineno, f'["{key}"]') for one in node.keys if (key := _constant(one)) in READS]
        elif isinstance(node, ast.arg):
            if node.arg in PARAMETERS:
                self.reads.append(Hit(node.lineno, node.arg))
        elif isinstance(node, ast.ClassDef):
            self.reads += [Hit(line, name) for line, name in _fields(node) if name in PARAMETERS]

    def _reference(self, node: ast.Name | ast.Attribute) -> None:
        full = self._full(node)
        if id(node) in self._called or not isinstance(node.ctx, ast.Load):
            return
        if full in _RUNS or full in _LOADS or full in _OF_SYS:
            self.dynamic.append(Hit(node.lineno, full))
        elif full.rpartition(".")[2] in _RUNS_BY_NAME or (
            isinstance(node, ast.Attribute) and node.attr in _RUNS_BY_NAME
        ):
            self.dynamic.append(Hit(node.lineno, full or f".{node.attr}"))  # type: ignore[union-attr]  # likewise
        elif full.startswith(_OF_OS) or (isinstance(node, ast.Attribute) and node.attr in _OF_ASYNCIO):
            self.reaches.append(Hit(node.lineno, full or f".{node.attr}"))  # type: ignore[union-attr]  # an attribute, where it has no name
        elif isinstance(node, ast.Attribute) and node.attr in CALLS:
            # Handed around to be called elsewhere; `msgspec.json` is a module of a module.
            if not (isinstance(node.value, ast.Name) and node.value.id in self._modules):
                self.reads.append(Hit(node.lineno, f".{node.attr}"))
        elif isinstance(node, ast.Attribute) and node.attr in READS:
            self.reads.append(Hit(node.lineno, f".{node.attr}"))


def _constant(node: ast.expr | None) -> str | None:
    """Give the text that an expression always is; texts that are put together with `+` count as one."""
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else None
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        left, right = _constant(node.left), _constant(node.right)
        return None if left is None or right is None else left + right
    if isinstance(node, ast.JoinedStr):
        parts = [_constant(one) for one in node.values]
        return None if None in parts else "".join(one for one in parts if one)
    return None


def _binds_nothing(node: ast.stmt) -> bool:
    if isinstance(node, ast.Expr):
        return isinstance(node.value, ast.Constant)
    if isinstance(node, ast.ImportFrom):
        return node.module == "__future__"
    if isinstance(node, ast.Assign):
        literal = all(isinstance(one, ast.Constant | ast.List | ast.Tuple | ast.Load) for one in ast.walk(node.value))
        return literal and all(isinstance(one, ast.Name) and one.id[:2] == one.id[-2:] == "__" for one in node.targets)
    return isinstance(node, ast.Pass)


def _fields(node: ast.ClassDef) -> Iterator[tuple[int, str]]:
    for one in node.body:
        if isinstance(one, ast.AnnAssign) and isinstance(one.target, ast.Name):
            yield one.lineno, one.target.id


def _in_order(found: list[Hit] | list[Imported]) -> tuple:  # type: ignore[type-arg]  # of either
    return tuple(sorted(dict.fromkeys(found), key=lambda one: one.line))
