"""Check which room imports which: `python -m tools.imports`, exit 0 or 1.

1. Every room (the first name below `drillmaster`) stands in the table of tiers.
2. A module imports from lower tiers and, without a cycle, from its own tier; never from a higher one. Two modules of one
   room may name each other's types (`if TYPE_CHECKING:`), which closes no circle at run time.
3. Entries of one catalogue import the catalogue's contract, never each other; the contract imports no entry. What lies in an
   entry's own package, and the cases that show it, are its own.
4. Tiers 0-3 decide and do nothing: no network, process, thread or database module, no file opened but templates that are
   part of the package (`resources.files(__package__)`), which are code.
5. `drillmaster` itself imports nothing of ours while it is being imported.

Imports inside functions count as well: a rule that a late import could walk around would hold nothing.
"""

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

__all__ = ["CATALOGUES", "PURE_TIERS", "TIERS", "findings", "main", "modules", "tier"]

SOURCE = Path(__file__).resolve().parent.parent / "src"

TIERS: tuple[frozenset[str], ...] = (
    frozenset({"errors", "clock", "strict"}),
    frozenset(
        {
            "evidence",
            "fridays",
            "interviews",
            "outcomes",
            "deciding",
            "retries",
            "stats",
            "targeting",
            "trends",
            "changes",
            "verdict",
            "policy",
            "screen",
            "spans",
            "http1",
            "ws",
            "rules",
        }
    ),
    frozenset({"dialects", "faults", "unmet", "admissions", "diagnosis", "gates", "guards"}),
    frozenset({"plan", "friday", "slo", "ladder", "pace", "sanity", "conduct", "judge", "charts", "matrix", "reports"}),
    frozenset(
        {"asked", "child", "timeline", "wire", "pulse", "signing", "stores", "intake", "history", "cuts", "transcripts"}
    ),
    frozenset({"engines", "proxy", "flags", "detectors", "notices"}),
    frozenset({"entries", "debt", "missions", "load", "passports", "run", "standins", "adapters"}),
    frozenset({"backstage", "cli", "console", "pytest_plugin", "sdkcheck", "trying", "scaffold", "kits", "__main__"}),
)
PURE_TIERS = 4  # tiers 0 to 3
CATALOGUES = frozenset({"rules", "dialects", "faults", "gates", "guards"})

DOES_THINGS = frozenset({
    "_thread", "aiohttp", "anthropic", "anyio", "asyncio", "concurrent", "ftplib", "http", "httpcore", "httpx",
    "httpx2", "httptools", "mmap", "multiprocessing", "openai", "psycopg", "redis", "requests", "sched", "select",
    "selectors", "shutil", "signal", "smtplib", "socket", "socketserver", "sqlite3", "ssl", "subprocess",
    "tempfile", "threading", "urllib3", "uvloop",
})  # fmt: skip  # words, a line at a time
OPENS = frozenset({"open", "read_bytes", "read_text", "write_bytes", "write_text", "unlink", "mkdir"})


def tier(module: str) -> int | None:
    """Give the tier of a dotted name below `drillmaster`; None when its room is in no tier."""
    room = module.split(".")[1]
    return next((number for number, rooms in enumerate(TIERS) if room in rooms), None)


def modules(source: Path = SOURCE) -> dict[str, Path]:
    """List the package's modules by dotted name."""
    found = {}
    for path in sorted((source / "drillmaster").rglob("*.py")):
        parts = path.relative_to(source).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def _imported(tree: ast.AST, package: str, known: dict[str, Path]) -> Iterator[tuple[int, str]]:
    """Yield line and dotted name of all that is imported; `from a import b` names the module `a.b` where it is one."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                above = package.split(".")
                base = ".".join([*above[: len(above) - node.level + 1], *([base] if base else [])])
            for alias in node.names:
                deeper = f"{base}.{alias.name}"
                yield node.lineno, deeper if deeper in known else base


def _lines_for_types(tree: ast.AST) -> set[int]:
    blocks = [node for node in ast.walk(tree) if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"]
    return {inner.lineno for block in blocks for inner in block.body}


def _of_module(name: str, path: Path, known: dict[str, Path], edges: dict[str, set[str]]) -> Iterator[str]:
    tree = ast.parse(path.read_text(encoding="utf-8"), str(path))
    is_package = path.name == "__init__.py"
    package = name if is_package else name.rpartition(".")[0]
    if name == "drillmaster":
        at_import = [statement for statement in tree.body if isinstance(statement, ast.Import | ast.ImportFrom)]
        for line, target in (found for statement in at_import for found in _imported(statement, package, known)):
            if target.startswith("drillmaster"):
                yield f"{path}:{line}: importing drillmaster itself loads {target}; import it where it is asked for"
        return
    here = tier(name)
    if here is None:
        yield f"{path}:1: the room of {name} is in no tier; give it one in tools/imports.py"
        return
    room = name.split(".")[1]
    for_types = _lines_for_types(tree)
    for line, target in _imported(tree, package, known):
        if not target.startswith("drillmaster."):
            root = target.partition(".")[0]
            if here < PURE_TIERS and (root in DOES_THINGS or target.startswith("urllib.request")):
                yield f"{path}:{line}: tier {here} imports {target}; what does I/O lives in tier {PURE_TIERS} or above"
            continue
        there = tier(target)
        if line not in for_types or target.split(".")[1] != room:
            edges[name].add(target)
        if there is None:
            yield f"{path}:{line}: {target} is in no tier"
        elif there > here:
            yield f"{path}:{line}: {name} (tier {here}) imports {target} (tier {there})"
        elif (
            room in CATALOGUES
            and "._" not in target
            and _entry(target) not in (None, _entry(name))
            and room == _room(target)
        ):
            yield f"{path}:{line}: {name} imports {target}, another entry of its catalogue"
    for node in ast.walk(tree) if here < PURE_TIERS else ():
        if isinstance(node, ast.Call):
            word = node.func.id if isinstance(node.func, ast.Name) else getattr(node.func, "attr", "")
            if word in OPENS and "files(__package__)" not in ast.unparse(node.func) and not _of_an_archive(node):
                yield f"{path}:{node.lineno}: tier {here} calls {word}(); files are opened in tier {PURE_TIERS} and up"


def _room(module: str) -> str:
    return module.split(".")[1]


def _entry(module: str) -> str | None:
    """Name the entry of a catalogue that a module belongs to: itself, its package, or the one that it holds cases of."""
    parts = module.split(".")[2:]
    if parts[:1] == ["_cases"]:
        parts = parts[1:]
    return parts[0] if parts else None


def _of_an_archive(call: ast.Call) -> bool:
    """Whether `x.open(member)` names a member of something that is open already: a path's own takes a mode."""
    first = call.args[0] if call.args else None
    return isinstance(call.func, ast.Attribute) and call.func.attr == "open" and isinstance(first, ast.Name)


def _cycles(edges: dict[str, set[str]]) -> Iterator[tuple[str, ...]]:
    """Yield each cycle once, as the path that closes it."""
    done: set[str] = set()
    path: list[str] = []

    def walk(name: str) -> Iterator[tuple[str, ...]]:
        if name in path:
            yield (*path[path.index(name) :], name)
            return
        if name in done:
            return
        path.append(name)
        for target in sorted(edges.get(name, ())):
            yield from walk(target)
        path.pop()
        done.add(name)

    for name in sorted(edges):
        yield from walk(name)


def findings(source: Path = SOURCE) -> list[str]:
    """List every breach of the rules as `file:line: what`."""
    known = modules(source)
    edges: dict[str, set[str]] = {name: set() for name in known}
    found = [line for name, path in known.items() for line in _of_module(name, path, known, edges)]
    for cycle in _cycles(edges):
        found.append(f"{known[cycle[0]]}:1: modules import each other in a circle: {' -> '.join(cycle)}")
    return found


def main() -> int:
    """Print the findings; 0 when there is none."""
    found = findings()
    print("\n".join(found) or f"imports: {len(modules())} modules keep to their tiers")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
