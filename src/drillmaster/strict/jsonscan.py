"""The slow reading of JSON: every rule of `strict`, and a place and a remedy for whatever breaks one."""

import re

from drillmaster.strict.malformed import (
    MAX_DEPTH,
    MAX_WHOLE,
    Kind,
    Malformed,
    Path,
    clip,
    escaped,
    name_fault,
    number_fault,
    number_texts,
    printable,
    quoted,
)

__all__ = ["Scan"]

_SPACE = re.compile(r"[ \t\n\r]*")
_PLAIN = re.compile(r'[^"\\\x00-\x1f]*')
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(\.[0-9]+)?([eE][-+]?[0-9]+)?")
_NUMBERISH = re.compile(r"[-+.0-9a-zA-Z_]+")
_WORD = re.compile(r"[^\W\d]\w*")
_HEX4 = re.compile(r"[0-9a-fA-F]{4}")
_ESCAPED = {'"': '"', "\\": "\\", "/": "/", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}
_SPELLED = {"True": "true", "False": "false", "None": "null", "TRUE": "true", "FALSE": "false", "NULL": "null"}
_UNFINITE = ("NaN", "Infinity", "-Infinity", "nan", "inf", "-inf", "+Infinity", "+inf")


class Scan:
    """Read JSON slowly, by every rule, and raise `Malformed` with the place. Notes in which line `want` begins."""

    def __init__(self, text: str, want: Path | None = None) -> None:
        self.text = text
        self.line: int | None = None
        self._want = want
        self._opened: list[int] = []

    def document(self) -> None:
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
            char, char if char.isprintable() else escaped(char)
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
        if path == self._want:
            self.line = text.count("\n", 0, at) + 1
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
            fault = name_fault(name)
            if fault is not None:
                raise self._fault(
                    start, "bad-name", fault, "names of visible characters, in NFC", "type the name anew", (*path, name)
                )
            if name in names:
                first = text.count("\n", 0, names[name]) + 1
                raise self._fault(
                    start,
                    "duplicate-key",
                    f"the name {quoted(name)} a second time (first in line {first})",
                    "each name once",
                    "delete one of the two, and keep the value that is meant",
                    (*path, name),
                )
            names[name] = start
            at = self._space(at)
            if text[at : at + 1] != ":":
                raise self._missing(at, "a colon after the name " + quoted(name), (*path, name))
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
        found = f"the name {printable(word[0])} without quotes" if word else self._here(at)
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
                name = {"\n": "a line break", "\r": "a line break", "\t": "a tab"}.get(char, escaped(char))
                spelled = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}.get(char, escaped(char))
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
                f"\\{printable(kind)} inside text",
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
            kind = number_fault(float(literal), literal)
        if kind is not None:
            raise self._bad_number(at, literal, kind, path)
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
            return self._bad_number(at, word, "not-finite", path)
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
                remedy = f"write {clip(better)}, or put it in double quotes if it is text"
            else:
                remedy = "write a number, or put it in double quotes if it is text"
            return self._fault(
                at, "not-json", printable(word), "a decimal number of JSON such as 5 or 0.5", remedy, path
            )
        return self._fault(
            at,
            "not-json",
            f"{printable(word)} without quotes",
            "a value",
            "put it in double quotes if it is text",
            path,
        )

    def _bad_number(self, at: int, literal: str, kind: Kind, path: Path) -> Malformed:
        found, wanted, remedy = number_texts(literal, kind)
        return self._fault(at, kind, found, wanted, remedy, path)
