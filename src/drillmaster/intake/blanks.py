"""Files of a kit with blanks: which are open, and what could stand there.

1. A template is a file of a kit, complete but for its blanks: lines such as `max_fallback_s:` with nothing behind the
   colon. The comment above a blank says what it is, its unit, and an example. Limits are always blanks.
2. A blank that is still open in a person's file is found by its value, so it does not matter how the file is written.
   All of them are named at once: who mends one a run gives up before the last.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from importlib import resources
from pathlib import Path
from typing import Any

from drillmaster.errors import Problem
from drillmaster.strict import nulls

__all__ = ["blanks", "keys", "left_open", "may_stay_open", "none_left_open", "template"]

_FILES = {
    "plan": "{kit}-plan.yaml",
    "policy": "{kit}-policy.yaml",
    "matrix": "drill-matrix.yaml",
    "ci": "{kit}-ci.yaml",
}
"""Files of a kit that may have blanks, and how they are called where they are written to."""
_MAY_STAY_OPEN = ("/seats/", "/measured_from", "/target/model")
"""A seat that nobody holds makes the run a rehearsal; where an interview was measured from, its page then says OPEN; not every API
is asked by a model's name."""


def template(kit: str) -> dict[str, str]:
    """Read a kit's templates, by the name their file gets: `eviction-plan.yaml`, `eviction-policy.yaml`.

    A kit without a policy of its own goes by the eviction drill's.
    """
    folder = resources.files("drillmaster.kits").joinpath(kit)
    files = {called.format(kit=kit): folder.joinpath(f"{name}.yaml") for name, called in _FILES.items()}
    return {name: file.read_text("utf-8") for name, file in files.items() if file.is_file()}


def blanks(text: str) -> dict[str, str]:
    """List the blanks of a template by JSON pointer, each with the example that its comment gives ("" without one)."""
    lines = text.splitlines()
    found = {}
    for number, pointer in keys(lines):
        comment = []
        for line in reversed(lines[:number]):
            if not line.lstrip().startswith("#"):
                break
            comment.append(line)
        example = re.search(r"Example: (.+)$", "\n".join(comment), re.MULTILINE)
        found[pointer] = example[1].strip() if example else ""
    return found


def left_open(value: Mapping[str, Any], kit: str, kind: str) -> dict[str, str]:
    """List what a person left blank in a decoded plan or policy that cannot stay so, by pointer, with its example.

    `kind` is the template's name in its kit: `plan`, `policy`, `matrix`, `debt`. What no template leaves blank is not looked at: a
    null may be meant there.
    """
    kits = resources.files("drillmaster.kits")
    files = (kits.joinpath(one).joinpath(f"{kind}.yaml") for one in (kit, "eviction"))
    asked = blanks(next((file.read_text("utf-8") for file in files if file.is_file()), ""))
    # The gate's entry need not be the first of the list.
    by_name = {re.sub(r"^/(gates|rows)/\d+", r"/\1/*", pointer): example for pointer, example in asked.items()}
    return {
        pointer: asked.get(pointer) or by_name[name]
        for pointer in nulls(value)
        if (name := re.sub(r"^/(gates|rows)/\d+", r"/\1/*", pointer)) in by_name and not may_stay_open(name)
    }


def may_stay_open(pointer: str) -> bool:
    """Whether a blank of a plan refuses nothing while it is open."""
    return pointer.startswith(_MAY_STAY_OPEN)


def none_left_open(files: Mapping[Path, Mapping[str, str]], line: Callable[[str], None]) -> None:
    """Name every blank of some files at once, each with its example, to `line`. Raises Problem where there is one."""
    left = {path: found for path, found in files.items() if found}
    if not left:
        return
    for path, found in left.items():
        line(f"{path}: {len(found)} to fill in")
        for pointer, example in found.items():
            line(f"  {pointer:<36} such as {example}" if example else f"  {pointer}")
    count = sum(len(found) for found in left.values())
    raise Problem(
        " and ".join(map(str, left)),
        found=f"{count} blank{'s' if count != 1 else ''}: "
        + ", ".join(pointer for found in left.values() for pointer in found),
        wanted="a value behind each colon; limits have no default",
        remedy="fill them in: the comment above each says what it is, with an example",
    )


def keys(lines: list[str]) -> Iterator[tuple[int, str]]:
    """Give line number and JSON pointer of each key without a value and without anything below it: the blanks."""
    open_keys: list[tuple[int, str]] = []
    items: dict[str, int] = {}
    for number, line in enumerate(lines):
        match = re.match(r"( *)(- )?([A-Za-z_]\w*):(.*)$", line)
        if match is None:
            continue
        indent = len(match[1])
        # The dash itself takes a level: the keys of one item stand two deeper than it.
        while open_keys and open_keys[-1][0] >= indent:
            open_keys.pop()
        if match[2]:
            parent = "".join(f"/{key}" for _, key in open_keys)
            items[parent] = items.get(parent, -1) + 1
            open_keys.append((indent, str(items[parent])))
            indent += 2
        open_keys.append((indent, match[3]))
        below = next(
            (later for later in lines[number + 1 :] if later.strip() and not later.lstrip().startswith("#")), ""
        )
        deeper = len(below) - len(below.lstrip(" ")) > indent
        if not match[4].strip() and not deeper:
            yield number, "".join(f"/{key}" for _, key in open_keys)
