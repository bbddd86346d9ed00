"""A guards file to begin with: a head, and a piece for each guard, with blanks.

A guard that has no piece in the kit gets one made of what its own source says of its limits, so that there is one for each guard of
the catalogue.
"""

import textwrap
from collections.abc import Iterator, Sequence
from importlib import resources

from drillmaster.guards import find
from drillmaster.intake.guards_fields import fields_of

__all__ = ["guards_template"]

_WIDTH = 124


def guards_template(tags: Sequence[str]) -> str:
    """Write a guards file with these guards, each limit a blank. Raises Problem for one that there is not."""
    folder = resources.files("drillmaster.kits").joinpath("guards")
    parts = [folder.joinpath("head.yaml").read_text("utf-8")]
    for tag in tags:
        find(tag)
        piece = folder.joinpath(f"{tag}.yaml")
        parts.append(piece.read_text("utf-8") if piece.is_file() else "\n".join(_piece(tag)) + "\n")
    return "".join(parts)


def _piece(tag: str) -> Iterator[str]:
    yield f"  - guard: {tag}"
    for field in fields_of(find(tag)):
        told = " ".join(filter(None, (field.said, f"{field.type[0].upper()}{field.type[1:]}.")))
        yield from (f"    # {line}" for line in textwrap.wrap(told, _WIDTH - 6))
        yield f"    {field.name}:" if field.needed else f"    #{field.name}: {field.default}"
