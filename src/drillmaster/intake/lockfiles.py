"""Lock files: which version of a package one pins.

1. Read are TOML locks that list `[[package]]` with `name` and `version` (uv, Poetry, PDM, Cargo), npm's `package-lock.json`
   (versions 2 and 3), and requirement files whose lines are `name==version`. By the file's name, never by a guess at its content.
2. Names are compared as their registries do: of Python's with `-`, `_` and `.` alike and in lower case, of npm's as they are.
3. A package that stands there in several versions has all of them. One that does not stand there has none, which is no version.
"""

import json
import re
import tomllib
from pathlib import PurePosixPath
from typing import Any

from drillmaster.errors import Problem

__all__ = ["versions_of"]

_PINNED = re.compile(r"([A-Za-z0-9][A-Za-z0-9._-]*)(?:\[[^\]]*\])?\s*===?\s*([^\s;\\#,]+)")


def versions_of(package: str, data: bytes, *, file: str) -> tuple[str, ...]:
    """List the versions of a package that a lock file pins, sorted. Raises Problem for a file that is none of these."""
    name = PurePosixPath(file).name
    try:
        if name.endswith((".lock", ".toml")) and not name.startswith("yarn"):
            found = _of_toml(package, tomllib.loads(data.decode()))
        elif name in ("package-lock.json", "npm-shrinkwrap.json"):
            found = _of_npm(package, json.loads(data))
        elif name.endswith(".txt"):
            pinned = (_PINNED.match(line.strip()) for line in data.decode().splitlines())
            found = {one[2] for one in pinned if one and _same(one[1]) == _same(package)}
        else:
            raise _none(file, "a lock file whose form is not known by its name")
    except (UnicodeDecodeError, ValueError, RecursionError):  # of the three parsers
        raise _none(file, "text that is no such lock file") from None
    return tuple(sorted(found))


def _of_toml(package: str, said: dict[str, Any]) -> set[str]:
    packages = said.get("package")
    return {
        str(one["version"])
        for one in (packages if isinstance(packages, list) else ())
        if isinstance(one, dict) and "version" in one and _same(str(one.get("name", ""))) == _same(package)
    }


def _of_npm(package: str, said: Any) -> set[str]:
    packages = said.get("packages") if isinstance(said, dict) else None
    if not isinstance(packages, dict):
        raise ValueError("no packages")
    return {
        str(one["version"])
        for place, one in packages.items()
        if isinstance(one, dict) and "version" in one and place.rpartition("node_modules/")[2] == package
    }


def _same(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def _none(file: str, found: str) -> Problem:
    return Problem(
        file,
        found=found,
        wanted="uv.lock, poetry.lock, pdm.lock, Cargo.lock, package-lock.json, or requirements with name==version",
        remedy="name it under `lockfiles` instead of `packages`: any change of it counts then",
    )
