"""Starting points for one's own service: a kit's plan and policy with blanks, and the filling of blanks.

1. A template is a file of a kit, complete but for its blanks: lines such as `max_fallback_s:` with nothing behind the
   colon. The comment above a blank says what it is, its unit, and an example. Limits are always blanks.
2. A blank is filled in the text, so comments stay. What is not a blank is never changed.
3. Writing them is `intake.written.write_new`: a file that is there is never overwritten.
"""

import re
from collections.abc import Iterator, Mapping
from importlib import resources

import msgspec

__all__ = ["blanks", "fill", "template"]

_FILES = ("plan", "policy")


def template(kit: str) -> dict[str, str]:
    """Read a kit's templates, by the name their file gets: `eviction-plan.yaml`, `eviction-policy.yaml`."""
    folder = resources.files("drillmaster.kits").joinpath(kit)
    return {f"{kit}-{name}.yaml": folder.joinpath(f"{name}.yaml").read_text("utf-8") for name in _FILES}


def blanks(text: str) -> dict[str, str]:
    """List the blanks of a template by JSON pointer, each with the example that its comment gives ("" without one)."""
    lines = text.splitlines()
    found = {}
    for number, pointer in _keys(lines):
        comment = []
        for line in reversed(lines[:number]):
            if not line.lstrip().startswith("#"):
                break
            comment.append(line)
        example = re.search(r"Example: (.+)$", "\n".join(comment), re.MULTILINE)
        found[pointer] = example[1].strip() if example else ""
    return found


def fill(text: str, values: Mapping[str, object]) -> str:
    """Put values into blanks, by JSON pointer, written as JSON (which is YAML). KeyError for what is no blank."""
    lines = text.splitlines()
    places = {pointer: number for number, pointer in _keys(lines)}
    for pointer, value in values.items():
        lines[places[pointer]] += " " + msgspec.json.encode(value).decode()
    return "\n".join(lines) + "\n"


def _keys(lines: list[str]) -> Iterator[tuple[int, str]]:
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
