"""A Python module by its syntax tree: what it imports, what it loads by a computed name, and what it reads.

1. Every import counts, wherever it stands: in a function, under a condition, under `TYPE_CHECKING`.
2. `importlib.import_module`, `__import__` and their kin with a constant are an import; with anything else, or handed around under
   another name, they are something that nobody can follow. So are `exec`, `eval`, `sys.modules`, `sys.path`, `__dict__`, and
   modules that run what they are handed (`pickle`, `ctypes`).
   So is whatever changes where Python looks: `__path__`, `__package__`, the code of a function.
3. Names are followed through `import a as b` and `from a import b as c`, and through a plain `x = importlib`. A text is known by
   the name that it was given, and an annotation in quotes is read as what it says.
4. A read is `.NAME`, `["NAME"]`, `.get("NAME")`, `getattr(x, "NAME")`, `attrgetter("NAME")`, a field of a format (`"{0.NAME}"`,
   `"%(NAME)s"`), a pattern of `match`, a parameter, a field or an imported name. `getattr` with a computed name could be any of
   them.
"""

import ast
import re
import warnings
from collections.abc import Iterator
from functools import lru_cache
from string import Formatter

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
                   "locals", "builtins.vars", "builtins.globals", "builtins.locals", "__builtins__", "importlib.reload",
                   "gc.get_objects", "gc.get_referrers", "gc.get_referents", "timeit.timeit", "timeit.repeat", "timeit.Timer",
                   "profile.run", "profile.runctx", "site.addsitedir", "site.addpackage"})  # fmt: skip  # words
_RUNS_BY_NAME = frozenset(
    {
        "import_module", "__import__", "exec_module", "load_module", "load_source", "run_module", "run_path", "run_code",
        "resolve_name", "find_spec", "spec_from_file_location", "spec_from_loader", "module_from_spec", "SourceFileLoader",
        "SourcelessFileLoader", "ExtensionFileLoader", "entry_points", "__dict__", "__globals__", "__builtins__",
        "__getattribute__",
        "_gcd_import", "_find_and_load", "f_builtins", "f_globals", "f_locals", "load_extension",
        "__subclasses__", "__loader__", "FunctionType", "CodeType", "iter_modules", "walk_packages",
    }
)  # fmt: skip  # words
_PLACES = frozenset({"__path__", "__code__"})
"""Who sets or reads them decides what is found where, or what a function does."""
_OWN_PLACE = frozenset({"__package__", "__spec__", "__name__", "__file__", "__loader__"})
"""A module that sets its own is another for its relative imports."""
_OF_SYS = frozenset({"sys.modules", "sys.path", "sys.meta_path", "sys.path_hooks", "sys.path_importer_cache"})
_LOADERS = frozenset({"ctypes", "_ctypes", "cffi", "pickle", "_pickle", "marshal", "dill", "cloudpickle", "shelve", "imp",
                      "zipimport", "code", "codeop", "pydoc", "cProfile", "pdb", "bdb", "doctest", "_imp", "_frozen_importlib",
                      "_frozen_importlib_external", "importlib._bootstrap", "importlib._bootstrap_external",
                      "logging.config", "unittest.mock"})  # fmt: skip  # words
"""Modules that run what they are handed, or load it from anywhere."""
_GETTERS = frozenset({"get", "pop", "setdefault", "getlist", "get_all", "__getitem__", "__getattr__"})
_GETATTR = frozenset({"getattr", "builtins.getattr", "inspect.getattr_static"})
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
        self._nodes = [*ast.walk(tree), *(part for quoted in _quoted(tree) for part in ast.walk(quoted))]
        self._texts: dict[str, set[str]] = {}
        """Texts by the names that they were given, of variables and of fields."""
        self._taken: dict[str, Imported] = {}
        self._through: dict[tuple[int, str], Imported] = {}
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
                if self._root(node) in self._taken:
                    self._reach_below(node)
        return Scan(
            imports=_in_order(self.imports),
            through=tuple(self._through.values()),
            exports=tuple(Imported(1, "", 1, name) for name in _exports(self._tree)),
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
            self._taken[alias.asname or alias.name] = Imported(node.lineno, node.module or "", node.level, alias.name)
            if not node.level:
                self._loader(node.lineno, f"{node.module}.{alias.name}")
            self._names[alias.asname or alias.name] = f"{node.module or ''}.{alias.name}"
            if alias.name in PARAMETERS:
                self.reads.append(Hit(node.lineno, alias.name))

    def _loader(self, line: int, name: str) -> None:
        parts = name.split(".")
        found = next((one for n in range(1, len(parts) + 1) if (one := ".".join(parts[:n])) in _LOADERS), "")
        if found:
            self.dynamic.append(Hit(line, found))

    def _follow(self) -> None:
        """Follow `x = importlib.import_module` and the like, twice; and texts to the names that they were given."""
        for node in self._nodes:
            for name, value in _bound(node):
                text = _constant(value)
                if text is not None:
                    self._texts.setdefault(name, set()).add(text)
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
                    place = self._place(value)
                    if place is not None:
                        module, _, name = place.module.rpartition(".")
                        self._taken.setdefault(target.id, Imported(place.line, module, place.level, name))

    def _place(self, node: ast.expr) -> Imported | None:
        """Give what a dotted name means that begins with a module, or with what was taken from one; None: it does not."""
        root = self._root(node)
        taken = self._taken.get(root)
        if taken is not None:
            below = ".".join([taken.module, *_chain(node, taken.name)]).lstrip(".")
            return Imported(getattr(node, "lineno", 1), below, taken.level)
        return Imported(getattr(node, "lineno", 1), self._full(node)) if root in self._modules else None

    def _reach_below(self, node: ast.expr, name: str = "") -> None:
        place = self._place(node)
        if place is not None:
            below = f"{place.module}.{name}" if name else place.module
            self._through.setdefault((place.level, below), Imported(place.line, below, place.level))

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
        elif full in _GETATTR:
            self._called.add(id(node.func))
            known = self._known(node.args[1]) if len(node.args) > 1 else ()
            for text in known or (None,):
                self._by_name(node.lineno, text, "getattr()")
            for text in known:
                self._reach_below(node.args[0], text)
        elif full in ("setattr", "delattr", "builtins.setattr", "builtins.delattr"):
            places = self._known(node.args[1]) if len(node.args) > 1 else ()
            self.dynamic += [Hit(node.lineno, name) for name in places if name in _PLACES]
        elif full == "operator.getitem":
            self._keyed(node.lineno, node.args[1:2])
        elif full in _BY_KEY:
            for one in node.args[:1] if full.endswith("methodcaller") else node.args:
                if not (isinstance(one, ast.Constant) and isinstance(one.value, int)):
                    self._by_name(node.lineno, _constant(one), f"{full}()")
        elif isinstance(node.func, ast.Attribute):
            if node.func.attr in _GETTERS:
                self._keyed(node.lineno, node.args[:2])
            if node.func.attr in ("format", "format_map"):
                self._formatted(node, node.func)
            if node.func.attr in CALLS:
                self.reads.append(Hit(node.lineno, f".{node.func.attr}()"))
                self._called.add(id(node.func))

    def _known(self, node: ast.expr | None) -> tuple[str, ...]:
        """Give the texts that an expression can be, as far as they stand here; (): it is computed."""
        text = _constant(node)
        if text is not None:
            return (text,)
        name = node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""
        return tuple(sorted(self._texts.get(name, ())))

    def _keyed(self, line: int, keys: list[ast.expr]) -> None:
        self.reads += [Hit(line, f'["{name}"]') for one in keys for name in self._known(one) if name in READS]

    def _formatted(self, node: ast.Call, how: ast.Attribute) -> None:
        """Look what a format takes out of what it is handed; by keywords of the call itself it takes what stands there."""
        given = {one.arg for one in node.keywords}
        whole = how.attr == "format_map" or None in given  # a mapping: its keys are names here
        for text in (name for one in (how.value, *node.args[:1]) for name in self._known(one)):
            for parts in _fields_of(text):
                read = parts if whole and parts[:1] and parts[0] not in given else parts[1:]
                self.reads += [Hit(node.lineno, f".{part}") for part in read if part in READS]

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
            for text in self._known(node.slice):
                if text in READS:
                    self.reads.append(Hit(node.lineno, f'["{text}"]'))
                elif text in _RUNS_BY_NAME:
                    self.dynamic.append(Hit(node.lineno, text))
        elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mod):
            for text in self._known(node.left):
                self.reads += [
                    Hit(node.lineno, f'["{name}"]') for name in re.findall(r"%\(([^)]*)\)", text) if name in READS
                ]
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
        said = node.id if isinstance(node, ast.Name) else node.attr
        if said in _PLACES or (
            said in _OWN_PLACE and isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load)
        ):
            self.dynamic.append(Hit(node.lineno, said))
            return
        if id(node) in self._called or not isinstance(node.ctx, ast.Load):
            return
        if full in _RUNS or full in _LOADS or full in _OF_SYS or full in _GETATTR:
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


def _bound(node: ast.AST) -> Iterator[tuple[str, ast.expr | None]]:
    """Give names, and what they are set to: by `=`, a loop over what is written out, or the default of a parameter."""
    if isinstance(node, ast.Assign | ast.AnnAssign | ast.NamedExpr):
        for target in node.targets if isinstance(node, ast.Assign) else (node.target,):
            yield from _target(target, node.value)
    elif isinstance(node, ast.For | ast.AsyncFor | ast.comprehension):
        if isinstance(node.iter, ast.Tuple | ast.List | ast.Set):
            for value in node.iter.elts:
                yield from _target(node.target, value)
    elif isinstance(node, ast.arguments):
        places = [*node.posonlyargs, *node.args]
        yield from ((one.arg, value) for one, value in zip(reversed(places), reversed(node.defaults), strict=False))
        yield from ((one.arg, value) for one, value in zip(node.kwonlyargs, node.kw_defaults, strict=True))


def _target(target: ast.expr, value: ast.expr | None) -> Iterator[tuple[str, ast.expr | None]]:
    if isinstance(target, ast.Name):
        yield target.id, value
    elif isinstance(target, ast.Attribute):
        yield target.attr, value
    elif isinstance(target, ast.Tuple | ast.List) and isinstance(value, ast.Tuple | ast.List):
        for one, its in zip(target.elts, value.elts, strict=False):
            yield from _target(one, its)


def _chain(node: ast.expr, first: str) -> list[str]:
    names: list[str] = []
    while isinstance(node, ast.Attribute):
        names.append(node.attr)
        node = node.value
    return [first, *reversed(names)]


def _exports(tree: ast.Module) -> Iterator[str]:
    for node in tree.body:
        if isinstance(node, ast.Assign | ast.AnnAssign | ast.AugAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            if node.value is not None and any(isinstance(one, ast.Name) and one.id == "__all__" for one in targets):
                yield from (text for one in ast.walk(node.value) if (text := _constant_of(one)) is not None)


def _constant_of(node: ast.AST) -> str | None:
    return _constant(node) if isinstance(node, ast.expr) else None


def _quoted(tree: ast.Module) -> Iterator[ast.expr]:
    """Read annotations in quotes; what is no Python says nothing."""
    for node in ast.walk(tree):
        said = getattr(node, "annotation", None) or getattr(node, "returns", None)
        for part in ast.walk(said) if isinstance(said, ast.expr) else ():
            if isinstance(part, ast.Constant) and isinstance(part.value, str):
                try:
                    found = ast.parse(part.value.strip(), mode="eval").body
                except (SyntaxError, ValueError, RecursionError, MemoryError):
                    continue
                for inner in ast.walk(found):
                    if isinstance(inner, ast.expr):
                        inner.lineno = part.lineno
                yield found


def _fields_of(text: str) -> Iterator[list[str]]:
    """Give the fields of a format, each in its parts: `{0.a[b]}` is 0, a, b."""
    try:
        fields = [name for _, name, _, _ in Formatter().parse(text) if name]
    except ValueError:
        return
    for name in fields:
        yield [part for part in re.split(r"[.\[\]]+", name) if part]


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
