"""Plain YAML, read without a parser of YAML: names, texts, numbers and lists, as people write policies.

The parser takes 15 ms to import, which is a sixth of a gate in a hook. So this is the quick pass of two: it takes lines of which it
knows for certain what the parser makes of them, and gives up on everything else, faults included. Then the parser reads the file
from its start, and it alone says what is wrong. A test holds the two against each other on whatever this one takes.

1. Printable ASCII and line feeds; no tab, no document mark, no line that ends in a space.
2. A line is a comment, `name: value`, `name:` or begins with `- `. A name is a word. Nothing goes on in the next line.
3. A value is a word or several, a decimal number without zeros in front, a day, a span (`15s`), an address, text in quotes without
   an escape or a quote in it, or a `[list]` or `{object}` of these that ends where it began.
4. Blocks line up; a list may stand as far left as the name it belongs to.
"""

import re
from typing import Any

from drillmaster.strict.malformed import Path, number_fault

__all__ = ["plain_yaml"]

_MOST_DEEP = 16
_TEXT = re.compile(r"[\x20-\x7e\n]*")
_SKIPPED = re.compile(r" *(?:#.*)?")
_NAMED = re.compile(r"([A-Za-z_][A-Za-z0-9_-]{0,99}):(?: +(.*)|$)")
_END = re.compile(r"(?: +#.*)?")
_WORDS = re.compile(r"[A-Za-z_/](?:[A-Za-z0-9_./@+=,;()<>!?&|^%$*~'-]| (?=[^ #])|:(?=[^ ]))*")
_WORD = re.compile(r"[A-Za-z_/][A-Za-z0-9_./@+*-]*")
_QUOTED = re.compile(r"\"([^\"\\]*)\"|'([^']*)'")
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]{0,14})(\.[0-9]{1,15})?(?![A-Za-z0-9_.+:%/-])")
_FIGURES = re.compile(
    r"(?:[0-9]{4}-[0-9]{2}-[0-9]{2}|[0-9]{1,6}[smhd]|[0-9]{1,3}(?:\.[0-9]{1,3}){3}(?::[0-9]{1,5})?)(?![^ ,\]}])"
)
_NAME_INSIDE = re.compile(r"([A-Za-z_][A-Za-z0-9_-]{0,99}): +")
_NEXT = re.compile(r", +")
_VALUES: dict[str, Any] = {
    "true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False,
    "null": None, "Null": None, "NULL": None,
}  # fmt: skip  # by kind


class _GivenUp(Exception):
    """The parser has to read it."""


def plain_yaml(text: str) -> tuple[Any, dict[Path, int]] | None:
    """Read one YAML document and the line in which each value begins; None where the parser has to."""
    if _TEXT.fullmatch(text) is None:
        return None
    reader = _Reader()
    for number, line in enumerate(text.split("\n"), 1):
        if _SKIPPED.fullmatch(line) is None:
            content = line.lstrip(" ")
            if line[-1] == " " or line[:3] in ("---", "..."):
                return None
            reader.left.append((len(line) - len(content), content, number))
    if not reader.left or reader.left[0][0] != 0:
        return None
    reader.left.reverse()
    try:
        value = reader.block(0, ())
    except _GivenUp:
        return None
    return None if reader.left else (value, reader.lines)


class _Reader:
    def __init__(self) -> None:
        self.left: list[tuple[int, str, int]] = []
        """Indent, content and number of each line to come, the next one last."""
        self.lines: dict[Path, int] = {}

    def block(self, indent: int, path: Path) -> Any:
        if len(path) > _MOST_DEEP:
            raise _GivenUp
        content, number = self.left[-1][1:]
        self.lines[path] = number
        return self._list(indent, path) if content.startswith("- ") else self._object(indent, path)

    def _list(self, indent: int, path: Path) -> list[Any]:
        items: list[Any] = []
        while self.left and self.left[-1][0] == indent and self.left[-1][1].startswith("- "):
            _, content, number = self.left.pop()
            here, rest = (*path, len(items)), content[2:]
            if _NAMED.fullmatch(rest):
                self.left.append((indent + 2, rest, number))
                items.append(self.block(indent + 2, here))
            else:
                items.append(self._inline(rest, here, number))
        if self.left and self.left[-1][0] > indent:
            raise _GivenUp
        return items

    def _object(self, indent: int, path: Path) -> dict[str, Any]:
        built: dict[str, Any] = {}
        while self.left and self.left[-1][0] == indent and not self.left[-1][1].startswith("- "):
            _, content, number = self.left.pop()
            named = _NAMED.fullmatch(content)
            if named is None or named[1] in built or named[1] in _VALUES:
                raise _GivenUp
            name, rest = named[1], named[2] or ""
            here = (*path, name)
            if rest and rest[0] != "#":
                built[name] = self._inline(rest, here, number)
            elif self.left and (self.left[-1][0] > indent or self._is_list_at(indent)):
                built[name] = self.block(self.left[-1][0], here)
            else:
                built[name] = None
            self.lines[here] = number
        if self.left and self.left[-1][0] > indent:
            raise _GivenUp
        return built

    def _is_list_at(self, indent: int) -> bool:
        return self.left[-1][0] == indent and self.left[-1][1].startswith("- ")

    def _inline(self, text: str, path: Path, number: int) -> Any:
        if text[:1] in "[{":
            value, end = self._inside(text, 0, path, number)
        else:
            self.lines[path] = number
            value, end = _scalar(text, 0, _WORDS)
        if _END.fullmatch(text, end) is None:
            raise _GivenUp
        return value

    def _inside(self, text: str, at: int, path: Path, number: int) -> tuple[Any, int]:
        """Read a value inside a line; it, and where it ends."""
        if len(path) > _MOST_DEEP:
            raise _GivenUp
        self.lines[path] = number
        if text[at : at + 1] not in ("[", "{"):
            return _scalar(text, at, _WORD)
        closes = "]" if text[at] == "[" else "}"
        items: list[Any] = []
        built: dict[str, Any] = {}
        at += 1
        while text[at : at + 1] != closes or items or built:
            here: Path = (*path, len(items))
            if closes == "}":
                named = _NAME_INSIDE.match(text, at)
                if named is None or named[1] in built or named[1] in _VALUES:
                    raise _GivenUp
                at, here = named.end(), (*path, named[1])
            value, at = self._inside(text, at, here, number)
            if closes == "}":
                built[str(here[-1])] = value
            else:
                items.append(value)
            if text[at : at + 1] == closes:
                break
            comma = _NEXT.match(text, at)
            if comma is None:
                raise _GivenUp
            at = comma.end()
        return (built if closes == "}" else items), at + 1


def _scalar(text: str, at: int, words: re.Pattern[str]) -> tuple[Any, int]:
    quoted = _QUOTED.match(text, at)
    if quoted is not None:
        return quoted[1] if quoted[1] is not None else quoted[2], quoted.end()
    found = _NUMBER.match(text, at)
    if found is not None:
        if found[1] is None:
            return int(found[0]), found.end()
        value = float(found[0])
        if number_fault(value, found[0]) is not None:
            raise _GivenUp
        return value, found.end()
    found = _FIGURES.match(text, at)
    if found is not None:
        return found[0], found.end()
    found = words.match(text, at)
    if found is None:
        raise _GivenUp
    return _VALUES.get(found[0], found[0]), found.end()
