"""Starting points for one's own service: a kit's plan and policy with blanks, and the filling of blanks.

1. What a blank is, and which are open, says `intake.blanks`.
2. A blank is filled in the text, so comments stay. What is not a blank is never changed.
3. Writing them is `intake.written.write_new`: a file that is there is never overwritten.
"""

from collections.abc import Mapping

import msgspec

from drillmaster.intake.blanks import blanks, keys, template

__all__ = ["blanks", "fill", "template"]


def fill(text: str, values: Mapping[str, object]) -> str:
    """Put values into blanks, by JSON pointer, written as JSON (which is YAML). KeyError for what is no blank."""
    lines = text.splitlines()
    places = {pointer: number for number, pointer in keys(lines)}
    for pointer, value in values.items():
        lines[places[pointer]] += " " + msgspec.json.encode(value).decode()
    return "\n".join(lines) + "\n"
