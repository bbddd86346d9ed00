"""From an import to the repository's own files, and from a pinned module to all that is loaded with it.

1. Python: a dotted name is looked for below each root of the policy, and beside a module that lies in no package, where a
   script would find it. Loading `a.b.c` loads `a` and `a.b` first. What was taken from a package may be a module of it.
2. Scripts: a relative specifier leads to a file, with one of the suffixes behind it, or to a folder's `index`; a bare one
   does where it leads there from a root. One that begins like an alias of a build (`@/`, `~/`, `#`, `/`) leads somewhere that
   only the build knows: it cannot be resolved here. Nor can a URL, but for those of packages.
3. What is loaded is followed through the repository's own modules to the end. A package of somebody else's is not opened.
"""

import posixpath
import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple

import msgspec

from drillmaster.gates import _imports_python, _imports_script
from drillmaster.gates._imports_names import DATA, on_shelf
from drillmaster.gates._imports_shapes import Imported, Scan, Unparsed

__all__ = ["PYTHON", "SCRIPTS", "Edge", "Paths", "Reached", "is_data", "reach", "scanned", "suffix_of"]

PYTHON = (".py", ".pyi", ".pyw")
SCRIPTS = (".js", ".jsx", ".mjs", ".cjs", ".ts", ".tsx", ".mts", ".cts")
_BINARY = (".so", ".pyd", ".pyc", ".pyx")
_ALIASES = ("@/", "~", "#", "/", "$")
_ELSEWHERE = re.compile(r"(?:data|blob|file|https?):", re.IGNORECASE)
"""A module that lies in no package and in no file of the repository."""


class Edge(NamedTuple):
    """One way from a module to another of the repository; `parent`: it is a package above the one that was meant."""

    line: int
    path: str
    parent: bool


def suffix_of(path: str) -> str:
    return posixpath.splitext(path)[1].lower()


def is_data(path: str) -> bool:
    """Whether a file is no module of any language."""
    return suffix_of(path) in DATA or posixpath.basename(path).upper() in ("LICENSE", "NOTICE", "CODEOWNERS", "README")


def scanned(path: str, data: bytes) -> Scan:
    """Read one module by what its suffix says. Raises Unparsed, for a language that nobody reads here too."""
    suffix = suffix_of(path)
    if suffix in PYTHON:
        return _imports_python.scan(data)
    if suffix in SCRIPTS:
        return _imports_script.scan(data, suffix)
    raise Unparsed(f"a file that is neither Python nor JavaScript nor TypeScript ({suffix or 'without a suffix'})")


class Paths:
    """All files of a repository, and where imports lead among them."""

    def __init__(self, paths: tuple[str, ...], roots: tuple[str, ...]) -> None:
        self._paths = frozenset(paths)
        self._folders = {folder for path in paths if suffix_of(path) in (*PYTHON, *_BINARY) for folder in _above(path)}
        self._roots = tuple(dict.fromkeys("" if root in (".", "./", "") else root.strip("/") for root in roots))
        self._binaries: dict[str, str] = {}
        self._known: dict[str, tuple[Edge, ...]] = {}
        for path in paths:
            if suffix_of(path) in _BINARY:
                stem = posixpath.basename(path).partition(".")[0]
                self._binaries.setdefault(posixpath.join(posixpath.dirname(path), stem), path)

    def names(self, path: str, one: Imported) -> tuple[str, ...]:
        """Give the dotted names that an import may mean, the longest first; of one with dots in front, those it has from a root."""
        base = one.module
        if one.level:
            folder = self._folder(path, one.level)
            if folder is None:
                return ()
            for root in self._roots:
                if folder == root or folder.startswith(f"{root}/" if root else ""):
                    inner = folder[len(root) :].strip("/").replace("/", ".")
                    base = ".".join(part for part in (inner, one.module) if part)
                    break
        return tuple(
            dict.fromkeys(name for name in (f"{base}.{one.name}" if one.name else "", base) if name.strip("."))
        )

    def own(self, path: str, one: Imported) -> bool:
        """Whether the first name of an import is a module of the repository."""
        return bool(one.level) or any(True for _ in self._python(path, one))

    def edges(self, path: str, scan: Scan) -> tuple[Edge, ...]:
        """Give the repository's own modules that one loads, those above itself among them."""
        if path not in self._known:
            self._known[path] = tuple(dict.fromkeys(self._edges(path, scan)))
        return self._known[path]

    def _edges(self, path: str, scan: Scan) -> Iterator[Edge]:
        if suffix_of(path) in SCRIPTS:
            for one in scan.imports:
                target = self.script(path, one.module)
                if target:
                    yield Edge(one.line, target, False)
            return
        for root in self._roots:
            if not root or path.startswith(f"{root}/"):
                yield from (
                    Edge(1, init, True)
                    for folder in _above(path)
                    if folder != root and (not root or folder.startswith(f"{root}/"))
                    for init in self._inits(folder)
                    if init != path
                )
        star = scan.exports if posixpath.basename(path).startswith("__init__.") else ()
        for one in (*scan.imports, *scan.through, *star):
            yield from self._python(path, one)

    def unresolved(self, path: str, scan: Scan) -> Iterator[Imported]:
        """Give the imports of a script that lead into the repository, and nobody here can say where."""
        if suffix_of(path) not in SCRIPTS:
            return
        for one in scan.imports:
            relative = one.module.startswith(".")
            away = _ELSEWHERE.match(one.module) is not None and not on_shelf(one.module)
            there = not relative or self._is_there(path, one.module)
            if not one.module or one.module.startswith(_ALIASES) or away or not there:
                yield one

    def script(self, path: str, specifier: str) -> str:
        """Give the file of the repository that a specifier leads to; "": none."""
        plain = specifier.partition("?")[0]
        if not plain or plain.startswith(_ALIASES):
            return ""
        # A build can look for bare names below its base: app/llm is src/app/llm.ts where that is there.
        folders = (posixpath.dirname(path),) if plain.startswith(".") else (*self._roots, "")
        return next((one for folder in folders if (one := self._script(posixpath.join(folder, plain)))), "")

    def _script(self, place: str) -> str:
        base = posixpath.normpath(place)
        stem, suffix = posixpath.splitext(base)
        # TypeScript is written with the name of what it will be: ./a.js is a.ts.
        also = {".js": (".ts", ".tsx"), ".mjs": (".mts",), ".cjs": (".cts",), ".jsx": (".tsx",)}.get(suffix, ())
        tries = (
            base,
            *(stem + one for one in also),
            *(base + one for one in SCRIPTS),
            *(f"{base}/index{one}" for one in SCRIPTS),
        )
        return next((one for one in tries if one in self._paths and not is_data(one)), "")

    def _is_there(self, path: str, specifier: str) -> bool:
        base = posixpath.normpath(posixpath.join(posixpath.dirname(path), specifier.partition("?")[0]))
        return bool(self.script(path, specifier)) or base in self._paths

    def _folder(self, path: str, level: int) -> str | None:
        folder = posixpath.dirname(path)
        for _ in range(level - 1):
            if not folder:
                return None
            folder = posixpath.dirname(folder)
        return folder

    def _python(self, path: str, one: Imported) -> Iterator[Edge]:
        if one.level:
            folder = self._folder(path, one.level)
            starts = () if folder is None else (folder,)
        else:
            beside = posixpath.dirname(path)
            starts = tuple(dict.fromkeys((*self._roots, *(() if any(self._inits(beside)) else (beside,)))))
        parts = [part for part in one.module.split(".") if part]
        if one.name and one.name != "*":
            parts.append(one.name)
        for start in starts:
            yield from self._down(start, parts, one)

    def _down(self, start: str, parts: list[str], one: Imported) -> Iterator[Edge]:
        """Follow names from a folder down. What is found last is meant; what lies above it is passed through."""
        steps = [list(self._inits(start))] if one.level else []
        here = start
        for part in parts:
            here = posixpath.join(here, part)
            found = [here + suffix for suffix in PYTHON if here + suffix in self._paths]
            if here in self._paths:  # no folder, where one is looked for: a link or a submodule
                found.append(here)
            if here in self._binaries:
                found.append(self._binaries[here])
            steps.append([*found, *self._inits(here)])
            if here not in self._folders:
                break
        last = next((at for at in range(len(steps) - 1, -1, -1) if steps[at]), 0)
        for at, step in enumerate(steps):
            yield from (Edge(one.line, path, at < last) for path in step)

    def _inits(self, folder: str) -> Iterator[str]:
        for suffix in (".py", ".pyi"):
            path = posixpath.join(folder, f"__init__{suffix}")
            if path in self._paths:
                yield path


def _above(path: str) -> Iterator[str]:
    folder = posixpath.dirname(path)
    while folder:
        yield folder
        folder = posixpath.dirname(folder)


class Reached(msgspec.Struct, frozen=True):
    """A module of the repository that is loaded with a pinned one, and the way there: paths, the pinned one first."""

    path: str
    way: tuple[str, ...]


def reach(start: str, files: Mapping[str, bytes], paths: Paths) -> Iterator[Reached]:
    """Walk from a module to all that is loaded with it, itself first, each once and by the shortest way.

    Files that are not there or cannot be read are given, and lead no further.
    """
    met: dict[str, tuple[str, ...]] = {start: (start,)}
    waiting = [start]
    for path in waiting:
        yield Reached(path, met[path])
        try:
            scan = scanned(path, files[path])
        except (KeyError, Unparsed):
            continue
        for edge in paths.edges(path, scan):
            if edge.path not in met:
                met[edge.path] = (*met[path], edge.path)
                waiting.append(edge.path)
