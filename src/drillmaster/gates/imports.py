"""The imports gate: does a module that decides import no model, and read nothing that somebody wrote?

Rules, in the order the checks are listed:

1. Each pattern of the policy takes in a module that is there; one that fits nothing guards nothing. Files that are data are
   no modules.
2. Each pinned module, and each of the repository's own that is loaded with it, is read whole: Python by its syntax tree,
   JavaScript and TypeScript by tree-sitter. What cannot be read, or resolved, is refused and never passed over.
3. No model SDK is imported: by the module, or by one of the repository's own that is loaded with it; in a function, under a
   condition, for types alone, or by `importlib` with a constant. Of a classifier the same holds for clients of a network.
4. Nothing is loaded, run or reached by a name that is computed: nobody can say what it is.
5. A pinned module reads no body and no prompt: no attribute, key, parameter or field by a name of the closed list.
6. It loads no other module of the repository than pinned ones, and those that the policy names beside them: what is moved next
   door is judged, or is named by a person. A package's `__init__` that is passed through and binds nothing need not be.
7. An exception is the policy's: one check, one module, one name, until a day, and why. It is counted.
"""

import posixpath
from collections.abc import Iterator
from typing import Annotated, ClassVar

import msgspec

from drillmaster.clock import parse_rfc3339
from drillmaster.gates import Gate
from drillmaster.gates._imports_graph import SCRIPTS, Paths, Reached, is_data, reach, scanned, suffix_of
from drillmaster.gates._imports_names import MODELS, NETWORK, SCRIPT_MODELS, SCRIPT_NETWORK, listed, script_listed
from drillmaster.gates._imports_shapes import Modules, Scan, Unparsed
from drillmaster.rules._globs import Globs, pattern_fault
from drillmaster.screen import screen_text
from drillmaster.verdict import Check, Cite, Exact, Finding, Status

__all__ = ["Exemption", "Imports", "Modules", "gate", "pinned_of"]

_SHOWN = 6
_MOST_CITED = 40
_LONGEST_NS = 367 * 86_400 * 10**9
_Text = Annotated[str, msgspec.Meta(min_length=1, max_length=400)]
_EXCEPTABLE = ("model-import", "network-import", "dynamic-import", "body-read", "unpinned-import")


class Exemption(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One thing that a person lets pass: which check, in which module, what as the check names it, until which day, and why."""

    check: str
    path: _Text
    what: _Text
    until: str
    why: _Text

    def __post_init__(self) -> None:
        if self.check not in _EXCEPTABLE:
            raise ValueError(f"check: found {self.check}, wanted one that knows exceptions: {', '.join(_EXCEPTABLE)}")
        if parse_rfc3339(f"{self.until}T23:59:59Z") is None:
            raise ValueError(f"until: found {self.until}, wanted a day such as 2027-02-28")


class _Found(msgspec.Struct, frozen=True):
    """One thing that is wrong: the check, where, the name in the code, and by which way from which pinned module."""

    check: str
    path: str
    line: int
    what: str
    way: tuple[str, ...] = ()


class Imports(Gate[Modules], frozen=True, kw_only=True, tag="imports"):
    """Whether modules that decide import no model SDK and read no body.

    Happens: modules that the policy calls pinned are read, with all of the repository's own that is loaded with them.
    Breaks: a classifier that asks a model; a cache key made from a prompt; a helper next door that does it for them.
    Looks like: one check for each way, with file, line and the name in the code, and the way there from the pinned module.
    Cannot show: what a package of somebody else's imports; what a value holds that came in under a harmless name; what runs
    from outside the repository.
    """

    pinned: Annotated[tuple[_Text, ...], msgspec.Meta(min_length=1)]
    """Patterns of modules that decide: retry, keys, lease, acceptance. They import no model SDK and read no body."""
    classifiers: tuple[_Text, ...]
    """Patterns of those among them that import no client of a network, and start no program. []: none."""
    beside: tuple[_Text, ...]
    """Patterns of other modules of the repository that pinned ones may load. []: none."""
    roots: Annotated[tuple[_Text, ...], msgspec.Meta(min_length=1)]
    """Folders from which Python's imports are looked for, such as `src`; `.` is the repository's own."""
    min_modules: Annotated[int, msgspec.Meta(ge=1, le=100_000)]
    """The fewest pinned modules there can be."""
    models: tuple[_Text, ...] = ()
    """Model SDKs beside those that are known here: dotted names of Python, specifiers of scripts, and modules of one's own."""
    networks: tuple[_Text, ...] = ()
    """Clients of a network beside those that are known here."""
    reads: tuple[_Text, ...] = ()
    """Names of attributes and keys beside those that are known here."""
    exceptions: tuple[Exemption, ...] = ()

    ARTICLE_CODES: ClassVar[dict[str, int]] = {}

    def __post_init__(self) -> None:
        for field in ("pinned", "classifiers", "beside"):
            for pattern in getattr(self, field):
                fault = pattern_fault(pattern.removeprefix("/"), "owners")
                if fault:
                    raise ValueError(f"{field}: found {fault}: {pattern!r}, wanted a path such as src/app/retry/**")
        for root in self.roots:
            if root.startswith("/") or ".." in root.split("/"):
                raise ValueError(f"roots: found {root!r}, wanted a folder of the repository, such as src or .")

    def headline(self, evidence: Modules) -> tuple[str, ...]:
        told = _Told(self, evidence)
        return (
            f"{len(told.pinned)} pinned modules, {len(told.classifiers)} of them classifiers, {len(told.reached)} modules read, "
            f"{len(self.exceptions)} exceptions",
        )

    def checks(self, evidence: Modules) -> Iterator[Check]:
        told = _Told(self, evidence)
        empty = [f"{field}: {pattern}" for field, pattern in told.empty()]
        yield _admit(
            "declared",
            f"each of {len(self.pinned) + len(self.classifiers) + len(self.beside)} patterns fits a module that is there",
            [f"{one} fits nothing" for one in empty],
            "correct the pattern: git ls-files shows what there is; or take it out of the policy",
        )
        outside = sorted(set(told.classifiers) - set(told.pinned))
        yield _admit(
            "classifiers-pinned",
            "each classifier is a pinned module",
            outside,
            "name it under `pinned` too",
        )
        n = len(told.pinned)
        yield Check(
            id="examined",
            role="admission",
            status="pass" if n >= self.min_modules else "refused",
            title=f"there are modules to judge: {n}, at least {self.min_modules}",
            observed=Exact(n),
            limit=self.min_modules,
            remedy="" if n >= self.min_modules else "name the modules that decide under `pinned`",
        )
        yield _admit(
            "scannable",
            f"each module could be read whole: {len(told.reached)}",
            [f"{path}: {why}" for path, why in told.unread.items()],
            "mend it or commit the file itself; scripts are read with pip install 'drillmaster[oracle]'; what is no module belongs "
            "into another folder",
        )
        yield _admit(
            "resolved",
            "each import of a script leads to a package or to a file that is there",
            [f"{path}:{one.line}: {one.module or '(nothing)'}" for path, one in told.unresolved]
            + [f"{path}: nobody read its imports" for path in told.unread if suffix_of(path) in SCRIPTS],
            "write it as a relative path: an alias of the build leads where only the build knows",
        )
        over = [
            f"{one.check} of {one.path} until {one.until}"
            for one in self.exceptions
            if not 0 <= (parse_rfc3339(f"{one.until}T23:59:59Z") or 0) - evidence.now_ns <= _LONGEST_NS
        ]
        yield _admit(
            "exceptions",
            f"each exception ends, within a year, and none has run out: {len(self.exceptions)} in the policy",
            over,
            "mend what was let pass, drop the exception from the policy, and have it signed again",
        )
        found = list(dict.fromkeys(told.found()))
        for id_, title, remedy in _JUDGEMENTS:
            hits = [one for one in found if one.check == id_ and not self._excepted(one)]
            let = sum(one.check == id_ for one in found) - len(hits)
            yield _judged(id_, title, remedy, hits, let)

    def findings(self, evidence: Modules, checks: tuple[Check, ...]) -> Iterator[Finding]:
        """Name pinned modules of the base that are there no more."""
        fits = Globs(self.pinned)
        now = frozenset(evidence.paths)
        for path in [one for one in evidence.before if one not in now and fits.any(one) and not is_data(one)][
            :_MOST_CITED
        ]:
            yield Finding(
                id="pinned-module-gone",
                cause=screen_text(f"{path}: pinned at the base, and not there any more"),
                next="find out where what it decided is decided now, and pin that",
            )

    def _excepted(self, found: _Found) -> bool:
        return any((one.check, one.path, one.what) == (found.check, found.path, found.what) for one in self.exceptions)


_JUDGEMENTS = (
    (
        "model-import",
        "no pinned module imports a model SDK, itself or by way of others",
        "take the call of the model out of this path: what decides is a table that a person wrote",
    ),
    (
        "network-import",
        "no classifier imports a client of a network or starts a program, itself or by way of others",
        "let the caller do it, and hand over numbers and names",
    ),
    (
        "dynamic-import",
        "nothing is loaded, run or reached by a name that is computed",
        "write the name where it is used, or load it outside of what is pinned",
    ),
    (
        "body-read",
        "no pinned module reads a body, a prompt or an answer",
        "hand over the number or name that is needed, under its own name: a status, a header, a key",
    ),
    (
        "unpinned-import",
        "pinned modules load no other module of the repository than pinned ones and those beside them",
        "pin that module too, or have the policy's owner name it under `beside`",
    ),
)


class _Told:
    """The evidence under one policy: which modules are pinned, which are reached, and what could not be read."""

    def __init__(self, limits: Imports, evidence: Modules) -> None:
        self._limits = limits
        self._evidence = evidence
        self._paths = Paths(evidence.paths, limits.roots)
        modules = [path for path in evidence.paths if not is_data(path)]
        self.pinned = pinned_of(limits, evidence.paths)
        self.classifiers = _fitting(limits.classifiers, modules)
        self._beside = frozenset(_fitting(limits.beside, modules))
        self._modules = modules
        self.unread: dict[str, str] = {}
        self.unresolved = []
        self._scans: dict[str, Scan] = {}
        self.reached: dict[str, Reached] = {}
        self._by_classifiers: dict[str, Reached] = {}
        for start in self.pinned:
            for one in reach(start, evidence.files, self._paths):
                self.reached.setdefault(one.path, one)
                if start in self.classifiers:
                    self._by_classifiers.setdefault(one.path, one)
        for path in self.reached:
            try:
                if path in evidence.links:
                    raise Unparsed("a link or a submodule, which leads where somebody else decides")
                if path not in evidence.files:
                    raise Unparsed("it was not read")
                self._scans[path] = scanned(path, evidence.files[path])
            except Unparsed as why:
                self.unread[path] = str(why)
                continue
            self.unresolved += [(path, one) for one in self._paths.unresolved(path, self._scans[path])]

    def empty(self) -> Iterator[tuple[str, str]]:
        for field in ("pinned", "classifiers", "beside"):
            for pattern in getattr(self._limits, field):
                if not _fitting((pattern,), self._modules):
                    yield field, pattern

    def found(self) -> Iterator[_Found]:
        limits = self._limits
        models, networks = frozenset(limits.models), frozenset(limits.networks)
        for path, one in self.reached.items():
            scan = self._scans.get(path)
            if scan is None:
                continue
            for line, what in self._listed(path, scan, MODELS | models, SCRIPT_MODELS | models):
                yield _Found("model-import", path, line, what, one.way)
            yield from (_Found("dynamic-import", path, hit.line, hit.what, one.way) for hit in scan.dynamic)
        for path, one in self._by_classifiers.items():
            scan = self._scans.get(path)
            if scan is None:
                continue
            for line, what in self._listed(path, scan, NETWORK | networks, SCRIPT_NETWORK | networks):
                yield _Found("network-import", path, line, what, one.way)
            yield from (_Found("network-import", path, hit.line, hit.what, one.way) for hit in scan.reaches)
        pinned = frozenset(self.pinned)
        for path in self.pinned:
            scan = self._scans.get(path)
            if scan is None:
                continue
            yield from (_Found("body-read", path, hit.line, hit.what) for hit in scan.reads)
            yield from self._more_reads(path)
            for edge in self._paths.edges(path, scan):
                passed = self._scans.get(edge.path) if edge.parent else None
                if edge.path not in pinned and edge.path not in self._beside and not (passed and passed.bare):
                    yield _Found("unpinned-import", path, edge.line, edge.path)

    def _listed(
        self, path: str, scan: Scan, python: frozenset[str], script: frozenset[str]
    ) -> Iterator[tuple[int, str]]:
        for one in scan.imports:
            if suffix_of(path) in SCRIPTS:
                inside = self._paths.script(path, one.module)
                what = script_listed(one.module, script) or (inside if inside in script else "")
            else:
                what = listed(self._paths.names(path, one), python, own=self._paths.own(path, one))
            if what:
                yield one.line, what

    def _more_reads(self, path: str) -> Iterator[_Found]:
        """Look for the policy's own names, in the words of the code: their lists are not the scanner's."""
        if not self._limits.reads:
            return
        for line, what in _mentions(self._evidence.files[path], self._limits.reads):
            yield _Found("body-read", path, line, what)


def _mentions(data: bytes, names: tuple[str, ...]) -> Iterator[tuple[int, str]]:
    """Find names as whole words, wherever they stand, comments too: a list that a team adds to is meant strictly."""
    import re

    pattern = re.compile(rb"(?<![\w$])(" + b"|".join(re.escape(one.encode()) for one in names) + rb")(?![\w$])")
    for number, line in enumerate(data.split(b"\n"), 1):
        for match in pattern.finditer(line):
            yield number, match[1].decode("utf-8", "replace")


def _fitting(patterns: tuple[str, ...], paths: list[str]) -> tuple[str, ...]:
    # From the root: a pattern here is a place, and not a name at any depth.
    fits = Globs(tuple(f"/{pattern.removeprefix('/')}" for pattern in patterns))
    return tuple(path for path in paths if fits.any(path))


def pinned_of(limits: Imports, paths: tuple[str, ...]) -> tuple[str, ...]:
    """Give the modules among some files that a policy calls pinned."""
    return _fitting(limits.pinned, [path for path in paths if not is_data(path)])


def _told(hits: list[_Found]) -> str:
    told = []
    for one in hits[:_SHOWN]:
        way = f" (by way of {' > '.join(map(_short, one.way))})" if len(one.way) > 1 else ""
        told.append(screen_text(f"{one.path}:{one.line}: {one.what}{way}"))
    return "; ".join(told) + (f"; and {len(hits) - _SHOWN} more" if len(hits) > _SHOWN else "")


def _short(path: str) -> str:
    """Name a module by its file, and a package by its folder."""
    name = posixpath.basename(path)
    return posixpath.join(posixpath.basename(posixpath.dirname(path)), name) if name.startswith("__init__.") else name


def _judged(id_: str, title: str, remedy: str, hits: list[_Found], let: int) -> Check:
    return Check(
        id=id_,
        role="judgement",
        status="fail" if hits else "pass",
        title=title + (f" ({let} let pass by the policy's exceptions)" if let else ""),
        observed=Exact(len(hits)),
        limit=0,
        why=_told(hits),
        cites=tuple(dict.fromkeys(Cite(one.path, one.line) for one in hits))[:_MOST_CITED],
        remedy=remedy if hits else "",
    )


def _admit(id_: str, title: str, wrong: list[str], remedy: str) -> Check:
    status: Status = "refused" if wrong else "pass"
    more = f"; and {len(wrong) - _SHOWN} more" if len(wrong) > _SHOWN else ""
    return Check(
        id=id_,
        role="admission",
        status=status,
        title=title,
        why=screen_text("; ".join(wrong[:_SHOWN])) + more,
        remedy=remedy if wrong else "",
    )


gate = Imports
