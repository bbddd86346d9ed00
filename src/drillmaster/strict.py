"""The one door for files from outside: JSON, YAML and TOML into plain values, or a `Problem` that says what to mend.

Python's parsers take the last of two equal keys, read `NaN` and `1e999`, and die on 100,000 brackets. A gate that
decides by a file may do none of that. The rules, for all three formats:

1. UTF-8 without a byte order mark. UTF-16 is named as what it is. A file has a largest size and a largest depth.
2. A name occurs once in its object, is in Unicode normal form C, and holds no control, format or
   line-separating character.
3. A number is finite and survives being written down again: no NaN, no Infinity, no 1e999, no 1e-999 that would read
   as 0, and no whole number outside +-(2^53 - 1), however it is spelled.
4. Text holds no lone surrogate.
5. Nothing is guessed. In YAML that means the core schema of version 1.2, less whatever two readers could take for
   different things: no anchors, aliases, merge keys or tags, no names that are not text, no `0503`, no `0x1F`. `off`,
   `no` and `12:30:00` are text, and where a boolean or a number is wanted they are refused. TOML's dates are refused.
6. A value fits its type exactly: `true` is no number, `"5"` is no 5, 5.0 is no whole number, null is nothing. Unknown
   fields are refused whatever the type says, missing ones are named.

`canonical` writes such values as RFC 8785 does, whole; what `load` returned and `canonical` wrote, `load` reads back.
"""

import json
import re
import unicodedata
from collections.abc import Sequence
from typing import Any, Literal

__all__ = ["MAX_DEPTH", "SECRET_NAME", "Kind", "Malformed", "object_pairs", "pointer", "shown", "strict_json"]

MAX_DEPTH = 100
"""Containers inside each other, the outermost counted."""
MAX_WHOLE = 2**53 - 1
"""The largest whole number that a double, and so every other reader of JSON, holds exactly."""

Kind = Literal[
    "not-utf8",
    "empty",
    "torn",
    "not-json",
    "trailing",
    "duplicate-key",
    "bad-name",
    "not-finite",
    "out-of-range",
    "surrogate",
    "too-deep",
]
Path = tuple[str | int, ...]

SECRET_NAME = re.compile(
    r"pass(?:word|wd|phrase)|secret|token(?!s)|api[-_]?key|access[-_]?key|authorization|cookie|credential"
    r"|(?:private|signing|routing)[-_]?key|webhook|\bdsn\b|\bauth\b",
    re.IGNORECASE,
)
"""Names whose values are never shown. `max_tokens` is a count and no secret."""

_CLIP_CHARS = 40
_SOLID = re.compile(r"[^\s\"'<>(){},;]{16,}")


class Malformed(Exception):
    """Text that the rules above refuse: what kind, where, what was found and wanted, what to do about it.

    `line` and `column` count from 1 in the text at hand. `path` leads to the value; for a duplicate, to the name.
    Light on purpose: whoever knows the file turns it into a `Problem` or into a defect of one line.
    """

    def __init__(
        self,
        kind: Kind,
        found: str,
        wanted: str,
        *,
        remedy: str = "",
        path: Path = (),
        line: int | None = None,
        column: int | None = None,
    ) -> None:
        super().__init__(kind, found, wanted)
        self.kind: Kind = kind
        self.found = found
        self.wanted = wanted
        self.remedy = remedy
        self.path = path
        self.line = line
        self.column = column


def pointer(path: Sequence[str | int]) -> str:
    """Write a path as a JSON pointer (RFC 6901); names are clipped and made printable. The root is the empty text."""
    return "".join("/" + _printable(str(step)).replace("~", "~0").replace("/", "~1") for step in path)


def shown(value: object, path: Sequence[str | int] = ()) -> str:
    """Say what a value is, short, printable and without secrets, for the `found` of an error.

    Text under a name such as `api_key`, and any long unbroken run of letters and digits, is not repeated.
    """
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case int() | float():
            return _clip(repr(value))
        case str():
            if not value:
                return "empty text"
            if any(isinstance(step, str) and SECRET_NAME.search(step) for step in path):
                return f"text of {len(value)} characters (not shown: it may be a secret)"
            return f'text "{_printable(value)}"'
        case list() | tuple():
            return f"a list of {len(value)}" if value else "an empty list"
        case dict():
            return (
                "an object with {} field{}".format(len(value), "" if len(value) == 1 else "s")
                if value
                else "an empty object"
            )
    return f"a {type(value).__name__}"


def _clip(text: str) -> str:
    return text if len(text) <= _CLIP_CHARS else text[: _CLIP_CHARS - 1] + "…"


def _printable(text: str) -> str:
    """Clip, escape what does not print, and cut a run that could be a credential down to its first four characters."""
    text = _SOLID.sub(_mask, text[:200])
    return _clip("".join(c if c.isprintable() else _escape(c) for c in text[: _CLIP_CHARS + 1]))


def _escape(char: str) -> str:
    return f"\\u{ord(char):04x}" if ord(char) < 0x10000 else f"\\U{ord(char):08x}"


def _mask(run: re.Match[str]) -> str:
    text = run[0]
    if "://" in text and ("@" in text or "?" in text):  # user:password@, or a token in a query
        return text[: text.index("://") + 3] + "…"
    digits = any(c.isdigit() for c in text)
    if len(text) >= 20 and digits and any(c.isalpha() for c in text):
        return text[:4] + "…"
    return text


# JSON
# Two passes. The quick one is the C scanner of the standard library with hooks; whatever looks wrong to it, or might
# be, goes to the slow one, which is written out below, alone decides, and knows the place. Good input never pays.


class _Suspect(Exception):
    """The quick pass saw something that the slow one has to decide."""


def object_pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Build an object as `json`'s `object_pairs_hook`; a name that occurs twice or breaks rule 2 is raised."""
    built = dict(pairs)
    if len(built) != len(pairs):
        raise _Suspect
    names = "".join(built)
    if not (names.isascii() and names.isprintable()) and any(_name_fault(name) for name in built):
        raise _Suspect
    return built


def _whole(text: str) -> int:
    if len(text) > 17 or not -MAX_WHOLE <= (value := int(text)) <= MAX_WHOLE:
        raise _Suspect
    return value


def _real(text: str) -> float:
    value = float(text)
    if _number_fault(value, text):
        raise _Suspect
    return value


def _constant(text: str) -> float:
    raise _Suspect


# Short runs of digits without an exponent are in range whatever they say; only the rest is worth a call per number.
_plain = json.JSONDecoder(object_pairs_hook=object_pairs, parse_constant=_constant)
_quick = json.JSONDecoder(object_pairs_hook=object_pairs, parse_float=_real, parse_int=_whole, parse_constant=_constant)
_DIGITS_ALIKE = bytes.maketrans(b"123456789E", b"000000000e")
_SURROGATE_ESCAPE = re.compile(rb"\\u[dD][89a-fA-F]")


def strict_json(raw: bytes) -> Any:
    """Read one JSON text by the rules of this module; `Malformed` is all that is ever raised. No cap on the size."""
    try:
        text = raw.decode()
    except UnicodeDecodeError as error:
        raise _not_utf8(raw, error.start) from None
    try:
        alike = raw.translate(_DIGITS_ALIKE)
        value = (_quick if b"0" * 16 in alike or b"0e" in alike else _plain).decode(text)
    except (_Suspect, ValueError, RecursionError):
        _Scan(text).document()
        raise Malformed(
            "not-json", "text that is no JSON", "one JSON value"
        ) from None  # the slow pass is at least as strict
    if _SURROGATE_ESCAPE.search(raw):
        _Scan(text).document()
    if raw.count(b"[") + raw.count(b"{") > MAX_DEPTH and too_deep(value):
        _Scan(text).document()
    return value


def too_deep(value: object) -> bool:
    """Whether containers lie inside each other more than MAX_DEPTH deep."""
    level = [value]
    for _ in range(MAX_DEPTH):
        level = [
            inner
            for outer in level
            if isinstance(outer, dict | list)
            for inner in (outer.values() if isinstance(outer, dict) else outer)
            if isinstance(inner, dict | list)
        ]
        if not level:
            return False
    return True


def _not_utf8(raw: bytes, at: int) -> Malformed:
    line, start = raw.count(b"\n", 0, at) + 1, raw.rfind(b"\n", 0, at) + 1
    head = raw[:4]
    if head[:2] in (b"\xff\xfe", b"\xfe\xff"):
        found, source, line, start, at = "UTF-16", "UTF-16", 1, 0, 0
    else:
        found, source = f"byte 0x{raw[at]:02x}, which is no UTF-8", "ISO-8859-1"
    return Malformed(
        "not-utf8",
        found,
        "UTF-8",
        remedy=f"save it as UTF-8, or: iconv -f {source} -t UTF-8 OLD > NEW",
        line=line,
        column=at - start + 1,
    )


def _encoding_fault(text: str) -> Malformed | None:
    """A byte order mark, or UTF-16 without one: both decode as UTF-8 and are none."""
    if text.startswith("\ufeff"):
        return Malformed(
            "not-utf8",
            "a byte order mark (EF BB BF)",
            "UTF-8 without one",
            remedy="save it as UTF-8 without BOM, or: sed -i '1s/^\\xEF\\xBB\\xBF//' FILE",
            line=1,
            column=1,
        )
    if "\0" in text[:2]:
        source = "UTF-16BE" if text[0] == "\0" else "UTF-16LE"
        return Malformed(
            "not-utf8",
            f"{source} (a zero byte in every character)",
            "UTF-8",
            remedy=f"save it as UTF-8, or: iconv -f {source} -t UTF-8 OLD > NEW",
            line=1,
            column=1,
        )
    return None


def _name_fault(name: str) -> str | None:
    """Say what is wrong with a name by rule 2, or None."""
    for char in name:
        if unicodedata.category(char) in ("Cc", "Cf", "Zl", "Zp", "Cs"):
            return f"{_escape(char)}, a character that cannot be seen, in the name {_quoted(name)}"
    if not unicodedata.is_normalized("NFC", name):
        return f"the name {_quoted(name)} in another Unicode form than NFC"
    return None


def _number_fault(value: float, text: str) -> Kind | None:
    """Judge a number that is not digits alone: a double holds every whole number below 2^53, and few above."""
    if value - value != 0:  # infinite
        return "not-finite"
    if value == 0 and any(c in "123456789" for c in re.split("[eE]", text, maxsplit=1)[0]):
        return "not-finite"
    # From 1e21 on ECMAScript writes an exponent and the text is no whole number any more.
    if MAX_WHOLE < abs(value) < 1e21:
        return "out-of-range"
    return None


def _quoted(text: str) -> str:
    return f'"{_printable(text)}"'


_SPACE = re.compile(r"[ \t\n\r]*")
_PLAIN = re.compile(r'[^"\\\x00-\x1f]*')
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(\.[0-9]+)?([eE][-+]?[0-9]+)?")
_NUMBERISH = re.compile(r"[-+.0-9a-zA-Z_]+")
_WORD = re.compile(r"[^\W\d]\w*")
_HEX4 = re.compile(r"[0-9a-fA-F]{4}")
_ESCAPED = {'"': '"', "\\": "\\", "/": "/", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}
_SPELLED = {"True": "true", "False": "false", "None": "null", "TRUE": "true", "FALSE": "false", "NULL": "null"}
_UNFINITE = ("NaN", "Infinity", "-Infinity", "nan", "inf", "-inf", "+Infinity", "+inf")


class _Scan:
    """Read JSON slowly, by every rule, and raise `Malformed` with the place. `starts` says where each value begins."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.starts: dict[Path, int] = {}
        self._opened: list[int] = []

    def line(self, path: Path) -> int | None:
        at = self.starts.get(path)
        return None if at is None else self.text.count("\n", 0, at) + 1

    def document(self) -> None:
        fault = _encoding_fault(self.text)
        if fault is not None:
            raise fault
        at = self._space(0)
        if at == len(self.text):
            raise Malformed(
                "empty",
                "nothing but space" if self.text else "nothing (0 bytes)",
                "one JSON value",
                remedy="write the content, or restore it: git checkout -- FILE",
                line=1,
                column=1,
            )
        at = self._space(self._value(at, ()))
        if at < len(self.text):
            again = self.text[at] in "{["
            raise self._fault(
                at,
                "trailing",
                "a second value after the first" if again else f"{self._here(at)} after the end of the value",
                "one JSON value and nothing after it",
                "split the file: one value each" if again else "delete what follows the closing bracket",
                (),
            )

    def _fault(self, at: int, kind: Kind, found: str, wanted: str, remedy: str, path: Path) -> Malformed:
        start = self.text.rfind("\n", 0, at) + 1
        line = self.text.count("\n", 0, at) + 1
        return Malformed(kind, found, wanted, remedy=remedy, path=path, line=line, column=at - start + 1)

    def _here(self, at: int) -> str:
        char = self.text[at]
        return {"'": "a single quote", ",": "a comma", '"': "a double quote", "\n": "a line break"}.get(
            char, char if char.isprintable() else _escape(char)
        )

    def _space(self, at: int) -> int:
        end = _SPACE.match(self.text, at)
        return end.end() if end else at

    def _torn(self, path: Path) -> Malformed:
        at = len(self.text)
        inside = "the value"
        if self._opened:
            opened = self._opened[-1]
            what = {"{": "object", "[": "list", '"': "text"}[self.text[opened]]
            inside = "the {} that began in line {}".format(what, self.text.count("\n", 0, opened) + 1)
        return self._fault(
            at,
            "torn",
            f"the end of the file inside {inside}",
            "the whole file",
            "it was cut off, or a bracket or quote is not closed: complete it, or restore it: git checkout -- FILE",
            path,
        )

    def _value(self, at: int, path: Path) -> int:
        text = self.text
        if at >= len(text):
            raise self._torn(path)
        self.starts[path] = at
        char = text[at]
        if char in "{[":
            if len(self._opened) >= MAX_DEPTH:
                raise self._fault(
                    at,
                    "too-deep",
                    f"more than {MAX_DEPTH} lists and objects inside each other",
                    f"at most {MAX_DEPTH}",
                    "write it flatter",
                    path[:3],
                )
            self._opened.append(at)
            end = self._object(at + 1, path) if char == "{" else self._list(at + 1, path)
            self._opened.pop()
            return end
        if char == '"':
            return self._string(at, path)[1]
        for word in ("true", "false", "null"):
            if text.startswith(word, at) and not _WORD.match(text, at + len(word)):
                return at + len(word)
        return self._number(at, path)

    def _object(self, at: int, path: Path) -> int:
        text = self.text
        names: dict[str, int] = {}
        at = self._space(at)
        if text[at : at + 1] == "}":
            return at + 1
        while True:
            if at >= len(text):
                raise self._torn(path)
            if text[at] != '"':
                raise self._no_name(at, path)
            start = at
            name, at = self._string(at, path)
            fault = _name_fault(name)
            if fault is not None:
                raise self._fault(
                    start, "bad-name", fault, "names of visible characters, in NFC", "type the name anew", (*path, name)
                )
            if name in names:
                first = text.count("\n", 0, names[name]) + 1
                raise self._fault(
                    start,
                    "duplicate-key",
                    f"the name {_quoted(name)} a second time (first in line {first})",
                    "each name once",
                    "delete one of the two, and keep the value that is meant",
                    (*path, name),
                )
            names[name] = start
            at = self._space(at)
            if text[at : at + 1] != ":":
                raise self._missing(at, "a colon after the name " + _quoted(name), (*path, name))
            at = self._space(self._value(self._space(at + 1), (*path, name)))
            char = text[at : at + 1]
            if char == "}":
                return at + 1
            if char != ",":
                raise self._missing(at, "a comma or a closing }", path)
            comma, at = at, self._space(at + 1)
            if text[at : at + 1] == "}":
                raise self._extra_comma(comma, path)

    def _list(self, at: int, path: Path) -> int:
        text = self.text
        at = self._space(at)
        if text[at : at + 1] == "]":
            return at + 1
        index = 0
        while True:
            at = self._space(self._value(at, (*path, index)))
            char = text[at : at + 1]
            if char == "]":
                return at + 1
            if char != ",":
                raise self._missing(at, "a comma or a closing ]", path)
            comma, at = at, self._space(at + 1)
            if text[at : at + 1] == "]":
                raise self._extra_comma(comma, path)
            index += 1

    def _extra_comma(self, at: int, path: Path) -> Malformed:
        return self._fault(
            at, "not-json", "a comma with nothing after it", "no comma after the last one", "delete that comma", path
        )

    def _missing(self, at: int, wanted: str, path: Path) -> Malformed:
        if at >= len(self.text):
            return self._torn(path)
        if self.text[at] == "#" or self.text.startswith(("//", "/*"), at):
            return self._comment(at, path)
        return self._fault(at, "not-json", self._here(at), wanted, "mend the punctuation there", path)

    def _comment(self, at: int, path: Path) -> Malformed:
        return self._fault(at, "not-json", "a comment", "JSON, which has none", "delete it, or use YAML", path)

    def _no_name(self, at: int, path: Path) -> Malformed:
        if self.text[at] == "#" or self.text.startswith(("//", "/*"), at):
            return self._comment(at, path)
        word = _WORD.match(self.text, at)
        found = f"the name {_printable(word[0])} without quotes" if word else self._here(at)
        return self._fault(at, "not-json", found, "a name in double quotes", 'write it like "name": value', path)

    def _string(self, at: int, path: Path) -> tuple[str, int]:
        text = self.text
        self._opened.append(at)
        at += 1
        parts: list[str] = []
        while True:
            run = _PLAIN.match(text, at)
            if run is not None:
                parts.append(run[0])
                at = run.end()
            if at >= len(text):
                raise self._torn(path)
            char = text[at]
            if char == '"':
                self._opened.pop()
                return "".join(parts), at + 1
            if char != "\\":
                name = {"\n": "a line break", "\r": "a line break", "\t": "a tab"}.get(char, _escape(char))
                spelled = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}.get(char, _escape(char))
                raise self._fault(
                    at, "not-json", f"{name} inside text", "it escaped", f"write {spelled}, or close the quote", path
                )
            part, at = self._escape_at(at, path)
            parts.append(part)

    def _escape_at(self, at: int, path: Path) -> tuple[str, int]:
        text = self.text
        kind = text[at + 1 : at + 2]
        if not kind:
            raise self._torn(path)
        if kind in _ESCAPED:
            return _ESCAPED[kind], at + 2
        digits = _HEX4.match(text, at + 2) if kind == "u" else None
        if digits is None:
            if kind == "u" and len(text) < at + 6 and re.fullmatch("[0-9a-fA-F]*", text[at + 2 :]):
                raise self._torn(path)
            raise self._fault(
                at,
                "not-json",
                f"\\{_printable(kind)} inside text",
                "an escape of JSON",
                "write \\\\ for a backslash",
                path,
            )
        unit = int(digits[0], 16)
        if not 0xD800 <= unit < 0xE000:
            return chr(unit), at + 6
        low = _HEX4.match(text, at + 8) if text.startswith("\\u", at + 6) else None
        if unit < 0xDC00 and low is not None and 0xDC00 <= int(low[0], 16) < 0xE000:
            return chr(0x10000 + ((unit - 0xD800) << 10) + int(low[0], 16) - 0xDC00), at + 12
        raise self._fault(
            at,
            "surrogate",
            f"\\u{digits[0].lower()}, half of a character",
            "whole characters",
            "delete it, or write the character itself",
            path,
        )

    def _number(self, at: int, path: Path) -> int:
        text = self.text
        number = _NUMBER.match(text, at)
        rest = _NUMBERISH.match(text, number.end() if number else at)
        if number is None or rest is not None:
            raise self._no_value(at, path)
        literal = number[0]
        kind: Kind | None
        if number[1] is None and number[2] is None:
            kind = "out-of-range" if len(literal) > 17 or abs(int(literal)) > MAX_WHOLE else None
        else:
            kind = _number_fault(float(literal), literal)
        if kind is not None:
            raise _bad_number(self, at, literal, kind, path)
        return number.end()

    def _no_value(self, at: int, path: Path) -> Malformed:
        text = self.text
        run = _NUMBERISH.match(text, at)
        if run is None:
            if text[at] == "#" or text.startswith(("//", "/*"), at):
                return self._comment(at, path)
            if text[at] == "'":
                return self._fault(
                    at, "not-json", "a single quote", "double quotes", "write \"...\" instead of '...'", path
                )
            return self._fault(at, "not-json", self._here(at), "a value", "write the value that is meant there", path)
        word = run[0]
        if word in _UNFINITE:
            return _bad_number(self, at, word, "not-finite", path)
        if word in _SPELLED:
            return self._fault(at, "not-json", word, _SPELLED[word], f"write {_SPELLED[word]}", path)
        if run.end() == len(text) and any(w.startswith(word) for w in ("true", "false", "null", "NaN")):
            return self._torn(path)
        if run.end() == len(text) and re.fullmatch(r"-|-?[0-9]+(\.|(\.[0-9]+)?[eE][-+]?)", word):
            return self._torn(path)
        if word[0] in "-+.0123456789":
            plain = word.lstrip("+").replace("_", "")
            sign, digits = ("-", plain[1:]) if plain.startswith("-") else ("", plain)
            if re.fullmatch(r"[0-9]*\.?[0-9]*", digits) and digits.strip("."):
                whole, dot, part = digits.partition(".")
                better = sign + (whole.lstrip("0") or "0") + (dot + part if part else "")
                remedy = f"write {_clip(better)}, or put it in double quotes if it is text"
            else:
                remedy = "write a number, or put it in double quotes if it is text"
            return self._fault(
                at, "not-json", _printable(word), "a decimal number of JSON such as 5 or 0.5", remedy, path
            )
        return self._fault(
            at,
            "not-json",
            f"{_printable(word)} without quotes",
            "a value",
            "put it in double quotes if it is text",
            path,
        )


def _bad_number(scan: _Scan, at: int, literal: str, kind: Kind, path: Path) -> Malformed:
    found, wanted, remedy = number_texts(literal, kind)
    return scan._fault(at, kind, found, wanted, remedy, path)


def number_texts(literal: str, kind: Kind) -> tuple[str, str, str]:
    """Found, wanted and remedy for a number that rule 3 refuses."""
    if kind == "out-of-range":
        return (
            _clip(literal),
            f"a whole number within ±{MAX_WHOLE}, where no digit gets lost",
            "put it in double quotes if it is an id, or use a larger unit",
        )
    return _clip(literal), "a finite number that a double can hold", "write the number that is meant"
