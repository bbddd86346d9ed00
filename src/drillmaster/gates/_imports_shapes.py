"""What the gate `imports` looks at: the modules of a repository as they were committed, and what was found in one of them."""

import msgspec

__all__ = ["Hit", "Imported", "Modules", "Scan", "Unparsed"]


class Hit(msgspec.Struct, frozen=True):
    """One thing in one line: `what` is a name of the code, such as `openai` or `.body`."""

    line: int
    what: str


class Imported(msgspec.Struct, frozen=True):
    """One import. Python: `module` with `level` dots in front, and the `name` taken from it; scripts: the specifier."""

    line: int
    module: str
    level: int = 0
    name: str = ""


class Scan(msgspec.Struct, frozen=True, kw_only=True):
    """What one module does, by what it says."""

    imports: tuple[Imported, ...] = ()
    dynamic: tuple[Hit, ...] = ()
    """What is loaded, run or reached by a name that is computed."""
    reads: tuple[Hit, ...] = ()
    bare: bool = False
    """Whether it binds no name but those in double underscores: an `__init__` that is only passed through."""
    through: tuple[Imported, ...] = ()
    """What is reached below a package that was imported by name: `from app import helpers`, and `helpers.llm`."""
    exports: tuple[Imported, ...] = ()
    """What `__all__` names: of a package, modules that a star imports."""
    reaches: tuple[Hit, ...] = ()
    """Calls that reach out without an import of their own: `os.system`, `fetch`."""


class Unparsed(Exception):
    """A module that cannot be read: what was found."""


class Modules(msgspec.Struct, frozen=True, kw_only=True):
    """`files` are modules that were read, by path; `paths` all files there are; `links` those of them that are no regular files."""

    place: str
    files: dict[str, bytes]
    paths: tuple[str, ...]
    now_ns: int
    links: frozenset[str] = frozenset()
    before: tuple[str, ...] = ()
    """Files of where the change began."""
