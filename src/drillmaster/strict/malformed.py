"""What the rules of `strict` say about any format: names, numbers, depth, encoding, and how an error shows a value."""

import re
import unicodedata
from collections.abc import Sequence
from typing import Literal

MAX_DEPTH = 100
"""Containers inside each other, the outermost counted."""
MAX_WHOLE = 2**53 - 1
"""The largest whole number that a double, and so every other reader of JSON, holds exactly."""

Kind = Literal[
    "not-utf8",
    "empty",
    "torn",
    "not-json",
    "not-yaml",
    "not-toml",
    "trailing",
    "duplicate-key",
    "bad-name",
    "not-finite",
    "out-of-range",
    "surrogate",
    "too-deep",
    "ambiguous",
    "unknown-field",
    "missing-field",
    "wrong-type",
    "out-of-bounds",
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
    return "".join("/" + printable(str(step)).replace("~", "~0").replace("/", "~1") for step in path)


def shown(value: object, path: Sequence[str | int] = ()) -> str:
    """Say what a value is, short, printable and without secrets, for the `found` of an error.

    Text under a name such as `api_key`, and any long unbroken run of letters and digits, is not repeated.
    """
    match value:
        case None:
            return "nothing (null)"
        case bool():
            return "true" if value else "false"
        case int() if value.bit_length() > 10_000:  # Python writes out no number of more than 4,300 digits
            return f"a whole number of {value.bit_length()} bits"
        case int() | float():
            return clip(repr(value))
        case str():
            if not value:
                return "empty text"
            if any(isinstance(step, str) and SECRET_NAME.search(step) for step in path):
                return f"text of {len(value)} characters (not shown: it may be a secret)"
            return f'text "{printable(value)}"'
        case list() | tuple():
            return f"a list of {len(value)}" if value else "an empty list"
        case dict():
            return (
                "an object with {} field{}".format(len(value), "" if len(value) == 1 else "s")
                if value
                else "an empty object"
            )
    return f"a {type(value).__name__}"


def clip(text: str) -> str:
    return text if len(text) <= _CLIP_CHARS else text[: _CLIP_CHARS - 1] + "…"


def printable(text: str) -> str:
    """Clip, escape what does not print, and cut a run that could be a credential down to its first four characters."""
    text = _SOLID.sub(_mask, text[:200])
    return clip("".join(c if c.isprintable() else escaped(c) for c in text[: _CLIP_CHARS + 1]))


def escaped(char: str) -> str:
    return f"\\u{ord(char):04x}" if ord(char) < 0x10000 else f"\\U{ord(char):08x}"


def _mask(run: re.Match[str]) -> str:
    text = run[0]
    if "://" in text and ("@" in text or "?" in text):  # user:password@, or a token in a query
        return text[: text.index("://") + 3] + "…"
    digits = any(c.isdigit() for c in text)
    if len(text) >= 20 and digits and any(c.isalpha() for c in text):
        return text[:4] + "…"
    return text


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


def utf8(raw: bytes) -> str:
    """Decode by rule 1; raises `Malformed`, which names what it takes the bytes for."""
    try:
        text = raw.decode()
    except UnicodeDecodeError as error:
        raise _not_utf8(raw, error.start) from None
    if raw[:3] == b"\xef\xbb\xbf" or 0 in raw[:2]:
        raise _encoded_otherwise(text)
    return text


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
        remedy=f"save it as UTF-8, or: iconv -f {source} -t UTF-8 FILE > NEW",
        line=line,
        column=at - start + 1,
    )


def _encoded_otherwise(text: str) -> Malformed:
    """A byte order mark, or UTF-16 without one: both decode as UTF-8."""
    if text.startswith("\ufeff"):
        return Malformed(
            "not-utf8",
            "a byte order mark (EF BB BF)",
            "UTF-8 without one",
            remedy="save it as UTF-8 without BOM, or: sed -i '1s/^\\xEF\\xBB\\xBF//' FILE",
            line=1,
            column=1,
        )
    source = "UTF-16BE" if text[0] == "\0" else "UTF-16LE"
    return Malformed(
        "not-utf8",
        f"{source} (every other byte is zero)",
        "UTF-8",
        remedy=f"save it as UTF-8, or: iconv -f {source} -t UTF-8 FILE > NEW",
        line=1,
        column=1,
    )


def name_fault(name: str) -> str | None:
    """Say what is wrong with a name by rule 2, or None."""
    for char in name:
        if unicodedata.category(char) in ("Cc", "Cf", "Zl", "Zp", "Cs"):
            return f"{escaped(char)}, a character that cannot be seen, in the name {quoted(name)}"
    if not unicodedata.is_normalized("NFC", name):
        return f"the name {quoted(name)} in another Unicode form than NFC"
    return None


def number_fault(value: float, text: str) -> Kind | None:
    """Judge a number that is not digits alone: a double holds every whole number below 2^53, and few above."""
    if value - value != 0:  # infinite
        return "not-finite"
    if value == 0 and any(c in "123456789" for c in re.split("[eE]", text, maxsplit=1)[0]):
        return "not-finite"
    # From 1e21 on ECMAScript writes an exponent and the text is no whole number any more.
    if MAX_WHOLE < abs(value) < 1e21:
        return "out-of-range"
    return None


def quoted(text: str) -> str:
    return f'"{printable(text)}"'


def number_texts(literal: str, kind: Kind) -> tuple[str, str, str]:
    """Found, wanted and remedy for a number that rule 3 refuses."""
    if kind == "out-of-range":
        return (
            clip(literal),
            f"a whole number within ±{MAX_WHOLE}, where no digit gets lost",
            "put it in double quotes if it is an id, or use a larger unit",
        )
    return clip(literal), "a finite number that a double can hold", "write the number that is meant"
