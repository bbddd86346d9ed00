"""`{{ name }}` in text and in JSON: what a mission's requests are made of.

1. Values are put in, in one pass: what a value holds is never a template.
2. In a path a value is percent-encoded. In a JSON body it is escaped as in a string; a string that is nothing but one
   placeholder becomes the value itself, a number a number.
3. In a header a value that holds a line end or is no ASCII is an error: it would be another request's.
"""

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from json.encoder import encode_basestring
from typing import Any
from urllib.parse import quote

__all__ = [
    "Compiled",
    "Unfilled",
    "Unfit",
    "as_text",
    "header_template",
    "json_template",
    "names_in",
    "path_template",
    "text_template",
]

PLACEHOLDER = re.compile(r"\{\{\s*(.*?)\s*\}\}")
_LINE = re.compile(r"[\x20-\x7e\t]*")


class Unfit(Exception):
    """A value that cannot stand where its template has it. `why` quotes no value."""

    def __init__(self, why: str) -> None:
        super().__init__(why)
        self.why = why


class Unfilled(str):
    """A placeholder whose value nobody knows yet, for the record: a path keeps it as it is."""

    __slots__ = ()


def names_in(templates: Iterable[Any]) -> Iterator[str]:
    """The names that templates use; a template is text, or JSON with text in it."""
    for template in templates:
        match template:
            case str():
                yield from PLACEHOLDER.findall(template)
            case dict():
                yield from names_in((*template.keys(), *template.values()))
            case list() | tuple():
                yield from names_in(template)
            case _:
                pass


def as_text(value: Any) -> str:
    """A value within text: JSON's spelling of what is no string."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, separators=(",", ":"))


class Compiled:
    """A template cut into what stays and what is put in."""

    __slots__ = ("_pieces", "constant", "names")

    def __init__(self, pieces: Iterable[str | tuple[str, Callable[[Any], str]]]) -> None:
        merged: list[str | tuple[str, Callable[[Any], str]]] = []
        for piece in pieces:
            if isinstance(piece, str) and merged and isinstance(merged[-1], str):
                merged[-1] += piece
            elif piece:
                merged.append(piece)
        self._pieces = tuple(merged)
        self.names = tuple(piece[0] for piece in merged if not isinstance(piece, str))
        self.constant = None if self.names else "".join(piece for piece in merged if isinstance(piece, str))

    def fill(self, values: Mapping[str, Any]) -> str:
        """The text with all values put in. Raises Unfit for a value that cannot stand there, or is not known yet."""
        if self.constant is not None:
            return self.constant
        try:
            return "".join(
                [piece if piece.__class__ is str else piece[1](values[piece[0]]) for piece in self._pieces]  # type: ignore[operator]  # no str here
            )
        except KeyError as missing:
            raise Unfit(f"{missing.args[0]} is not known") from None


def _cut(
    text: str, put: Callable[[Any], str], keep: Callable[[str], str] = str
) -> Iterator[str | tuple[str, Callable[[Any], str]]]:
    at = 0
    for match in PLACEHOLDER.finditer(text):
        yield keep(text[at : match.start()])
        yield match[1], put
        at = match.end()
    yield keep(text[at:])


def text_template(text: str) -> Compiled:
    return Compiled(_cut(text, as_text))


def path_template(text: str) -> Compiled:
    return Compiled(_cut(text, _quoted))


def _quoted(value: Any) -> str:
    return value if isinstance(value, Unfilled) else quote(as_text(value), safe="")


def header_template(text: str) -> Compiled:
    return Compiled(_cut(text, _one_line))


def _one_line(value: Any) -> str:
    text = as_text(value)
    if not _LINE.fullmatch(text):
        raise Unfit("a value with a line end, or no ASCII, in a header")
    return text


def json_template(value: Any) -> Compiled:
    """Of a JSON value; names of an object may hold placeholders as well."""
    return Compiled(_json(value))


def _json(value: Any) -> Iterator[str | tuple[str, Callable[[Any], str]]]:
    match value:
        case str():
            whole = PLACEHOLDER.fullmatch(value)
            if whole is not None and "}}" not in whole[1]:
                yield whole[1], _encoded
            else:
                yield from _string(value)
        case dict():
            yield "{"
            for nth, (name, inner) in enumerate(value.items()):
                yield "," if nth else ""
                yield from _string(name)
                yield ":"
                yield from _json(inner)
            yield "}"
        case list() | tuple():
            yield "["
            for nth, inner in enumerate(value):
                yield "," if nth else ""
                yield from _json(inner)
            yield "]"
        case _:
            yield _encoded(value)


def _string(text: str) -> Iterator[str | tuple[str, Callable[[Any], str]]]:
    yield '"'
    yield from _cut(text, _escaped, _escaped)
    yield '"'


def _encoded(value: Any) -> str:
    if isinstance(value, str):
        return encode_basestring(value)
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _escaped(value: Any) -> str:
    return encode_basestring(as_text(value))[1:-1]
