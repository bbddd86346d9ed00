"""TOML by the rules of `strict`, on the standard library's parser."""

import re
import tomllib
from typing import Any

from drillmaster.strict.malformed import (
    MAX_DEPTH,
    MAX_WHOLE,
    Kind,
    Malformed,
    Path,
    clip,
    name_fault,
    number_fault,
    number_texts,
    printable,
    quoted,
)

__all__ = ["strict_toml"]

_AT = re.compile(r"(.*?) \(at (?:line (\d+), column (\d+)|end of document)\)\Z", re.DOTALL)
_PART = re.compile(r"""[ \t]*(?:[A-Za-z0-9_-]+|"[^"\n]*"|'[^'\n]*')[ \t]*""")
_HEADER = re.compile(r"[ \t]*(\[\[?)(.*?)\]\]?[ \t]*(?:#.*)?\Z")

_SAYINGS: tuple[tuple[str, Kind, str, str, str], ...] = (
    ("Cannot declare", "duplicate-key", "a table a second time", "each table once", "put its fields together under one header"),
    ("Cannot overwrite a value", "duplicate-key", "a name a second time", "each name once", "delete one of the two"),
    ("Duplicate inline table key", "duplicate-key", "a name a second time", "each name once", "delete one of the two"),
    ("Cannot mutate immutable namespace", "duplicate-key", "a table a second time", "each table once", "delete one of the two"),
    ("Cannot redefine namespace", "duplicate-key", "a table a second time", "each table once", "delete one of the two"),
    ("Invalid value", "not-toml", "no value of TOML after the =", "a value", "put it in double quotes if it is text"),
    ("Expected '=' after a key", "not-toml", "a line without an = after its name", "name = value", "write name = value"),
    ("Expected newline or end of document", "not-toml", "more after the value", "one value a line", "quote it if it is text"),
    ("Unterminated string", "torn", "the end of the file inside quotes", "the whole file", "close the quote"),
    ("Unclosed array", "torn", "the end of the file inside [ ]", "the whole file", "close it with ]"),
    ("Unclosed inline table", "torn", "the end of the file inside { }", "the whole file", "close it with }"),
    ("Invalid statement", "not-toml", "a line that is no name = value", "TOML", "write name = value, or rename the file"),
    ("Invalid initial character for a key", "not-toml", "no name", "a name", "give it a name; odd ones go in quotes"),
    ("Expected ']'", "not-toml", "a [ header that is not closed", "[name]", "close it with ]"),
    ("Unescaped '\\\\'", "not-toml", "a lone backslash in double quotes", "text", "put it in single quotes, or write \\\\"),
    ("Illegal character '\\n'", "not-toml", "a line break inside quotes", "text in one line", "close the quote"),
)  # fmt: skip  # a table, a row a line


class _Number(float):
    """A refused number on its way to the walk that knows its path."""

    literal: str
    kind: Kind


def strict_toml(text: str) -> Any:
    """Read a TOML document. Raises `Malformed`, nothing else."""
    _bound_keys(text)
    try:
        value = tomllib.loads(text, parse_float=_real)
    except tomllib.TOMLDecodeError as error:
        raise _syntax(text, str(error)) from None
    except RecursionError:
        raise _too_deep(()) from None
    except ValueError:  # int() of thousands of digits
        raise Malformed("out-of-range", *number_texts("a number of thousands of digits", "out-of-range")[:2]) from None
    _walk(value, ())
    if not value:
        raise Malformed(
            "empty",
            "nothing but comments or space" if text else "nothing (0 bytes)",
            "name = value",
            remedy="write the content, or restore it: git checkout -- FILE",
            line=1,
        )
    return value


def _real(literal: str) -> float:
    value = float(literal)
    kind: Kind | None = number_fault(value, literal)
    if kind is None:
        return value
    odd = _Number(value)
    odd.literal, odd.kind = literal, kind
    return odd


def _bound_keys(text: str) -> None:
    """Refuse a name of more than MAX_DEPTH dotted parts before the parser, whose time grows with the square, sees it."""
    for number, line in enumerate(text.split("\n"), 1):
        if line.count(".") <= MAX_DEPTH:
            continue
        chain = 0
        for part in line.split(".")[1:-1]:  # first and last may hold a bracket, an = or a value
            chain = chain + 1 if _PART.fullmatch(part) else 0
            if chain >= MAX_DEPTH:
                raise _too_deep((), number)


def _too_deep(path: Path, line: int | None = None) -> Malformed:
    found = f"more than {MAX_DEPTH} lists, tables or dotted names inside each other"
    return Malformed("too-deep", found, f"at most {MAX_DEPTH}", remedy="write it flatter", path=path[:3], line=line)


def _walk(value: object, path: Path) -> None:
    """Judge every name and value of what the parser built. Text cannot hold lone surrogates: TOML's own rule."""
    match value:
        case _Number():
            found, wanted, remedy = number_texts(value.literal, value.kind)
            raise Malformed(value.kind, found, wanted, remedy=remedy, path=path)
        case bool() | str() | float():
            return
        case int():
            if abs(value) > MAX_WHOLE:
                # hex(), since str() of a number with thousands of digits is refused by Python itself.
                literal = str(value) if value.bit_length() < 1000 else hex(value)
                found, wanted, remedy = number_texts(literal, "out-of-range")
                raise Malformed("out-of-range", found, wanted, remedy=remedy, path=path)
        case dict():
            if len(path) >= MAX_DEPTH:
                raise _too_deep(path)
            for name, inner in value.items():
                fault = name_fault(name)
                if fault is not None:
                    wanted = "names of visible characters, in NFC"
                    raise Malformed("bad-name", fault, wanted, remedy="type the name anew", path=(*path, name))
                _walk(inner, (*path, name))
        case list():
            if len(path) >= MAX_DEPTH:
                raise _too_deep(path)
            for index, inner in enumerate(value):
                _walk(inner, (*path, index))
        case _:  # date, time, date-time
            raise Malformed(
                "ambiguous",
                f"the {type(value).__name__} {clip(str(value))}",
                "text",
                remedy=f'put it in double quotes: "{clip(str(value))}"',
                path=path,
            )


def _syntax(text: str, message: str) -> Malformed:
    match = _AT.match(message)
    problem = match[1] if match else message
    line_unknown = not (match and match[2])  # the parser says "at end of document" instead
    line = text.count("\n") + 1 if line_unknown or match is None else int(match[2])
    column = int(match[3]) if match and match[3] else None
    if line_unknown and problem.startswith("Invalid value"):
        found = "the end of the file where a value belongs"
        return Malformed("torn", found, "the whole file", remedy="write the value, or close what is open", line=line)
    for begins, kind, found, wanted, remedy in _SAYINGS:
        if problem.startswith(begins):
            if kind == "duplicate-key":
                path = _path_at(text, line)
                if path:
                    found = found.replace("a name", f"the name {quoted(str(path[-1]))}")
                    found = found.replace("a table", f"the table {printable('.'.join(map(str, path)))}")
                return Malformed(kind, found, wanted, remedy=remedy, path=path, line=line, column=column)
            return Malformed(kind, found, wanted, remedy=remedy, line=line, column=column)
    found = f"what the TOML parser calls: {printable(problem)}"
    return Malformed("not-toml", found, "TOML", remedy="mend that line", line=line, column=column)


def _path_at(text: str, line: int) -> Path:
    """Name what a line of TOML declares: the last header above it and the name before its =. Empty where it cannot."""
    lines = text.split("\n")[:line]
    here = lines.pop()
    if _HEADER.match(here):
        return _header_path([*lines, here])
    name, equals, _ = here.partition("=")
    return (*_header_path(lines), *_dotted(name)) if equals else ()


def _header_path(lines: list[str]) -> Path:
    """Where the last header among these lines leads; of [[x]] it counts which one it is."""
    headers = [match for match in map(_HEADER.match, lines) if match]
    if not headers:
        return ()
    path = _dotted(headers[-1][2])
    if headers[-1][1] == "[[":
        same = [h for h in headers if h[1] == "[[" and _dotted(h[2]) == path]
        return (*path, len(same) - 1)
    return path


def _dotted(name: str) -> Path:
    """Take a dotted name apart with the parser's own rules."""
    try:
        inner: Any = tomllib.loads(f"{name.strip()} = 0")
    except (ValueError, RecursionError):
        return ()
    path: list[str | int] = []
    while isinstance(inner, dict) and len(inner) == 1:
        ((step, inner),) = inner.items()
        path.append(step)
    return tuple(path)
