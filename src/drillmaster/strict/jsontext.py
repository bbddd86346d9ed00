"""JSON by the rules of `strict`.

Two passes. The quick one is the C scanner of the standard library with hooks; whatever looks wrong to it, or might be,
goes to the slow one (`jsonscan`), which alone decides and knows the place. Good input never pays for it.
"""

import functools
import re
from typing import TYPE_CHECKING, Any

from drillmaster.strict.malformed import (
    MAX_DEPTH,
    MAX_WHOLE,
    Malformed,
    Path,
    name_fault,
    number_fault,
    number_texts,
    quoted,
    too_deep,
    utf8,
)

if TYPE_CHECKING:
    from json import JSONDecoder

__all__ = ["object_pairs", "scan", "strict_json"]


def object_pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Build an object as `json`'s `object_pairs_hook`; `Malformed`, without a place, where rule 2 is broken."""
    built = dict(pairs)
    if len(built) != len(pairs):
        twice = _twice([name for name, _ in pairs])
        raise Malformed("duplicate-key", f"the name {quoted(twice)} a second time", "each name once", path=(twice,))
    joined = "".join(built)
    if not (joined.isascii() and joined.isprintable()):
        for name in built:
            fault = name_fault(name)
            if fault is not None:
                raise Malformed("bad-name", fault, "names of visible characters, in NFC", path=(name,))
    return built


def _twice(names: list[str]) -> str:
    seen: set[str] = set()
    for name in names:
        if name in seen:
            return name
        seen.add(name)
    raise AssertionError("no name occurs twice")


def _whole(text: str) -> int:
    if len(text) > 17 or abs(value := int(text)) > MAX_WHOLE:
        raise Malformed("out-of-range", *number_texts(text, "out-of-range")[:2])
    return value


def _real(text: str) -> float:
    value = float(text)
    kind = number_fault(value, text)
    if kind is not None:
        raise Malformed(kind, *number_texts(text, kind)[:2])
    return value


def _constant(text: str) -> float:
    raise Malformed("not-finite", *number_texts(text, "not-finite")[:2])


@functools.cache
def _decoders() -> "tuple[JSONDecoder, JSONDecoder]":
    """Give the one for plain numbers and the one for any: short runs of digits without an exponent are in range."""
    from json import JSONDecoder  # 1 ms that whoever has no JSON does not have to pay

    plain = JSONDecoder(object_pairs_hook=object_pairs, parse_constant=_constant)
    quick = JSONDecoder(object_pairs_hook=object_pairs, parse_float=_real, parse_int=_whole, parse_constant=_constant)
    return plain, quick


_DIGITS_ALIKE = bytes.maketrans(b"123456789E", b"000000000e")
_SURROGATE_ESCAPE = rb"\\u[dD][89a-fA-F]"
_PAIR = rb"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}"


def strict_json(raw: bytes) -> Any:
    """Read one JSON text by the rules of this module; `Malformed` is all that is ever raised. No cap on the size."""
    text = utf8(raw)
    try:
        alike = raw.translate(_DIGITS_ALIKE)
        plain, quick = _decoders()
        value = (quick if b"0" * 16 in alike or b"0e" in alike else plain).decode(text)
    except (Malformed, ValueError, RecursionError):
        scan(text)
        # The slow pass is at least as strict, so this is not reached; if it ever were, no is the answer.
        raise Malformed("not-json", "text that is no JSON", "one JSON value") from None
    if b"\\u" in raw and re.search(_SURROGATE_ESCAPE, re.sub(_PAIR, b" ", raw.replace(rb"\\", b"  "))):
        scan(text)
    if raw.count(b"[") + raw.count(b"{") > MAX_DEPTH and too_deep(value):
        scan(text)
    return value


def scan(text: str, want: Path | None = None) -> int | None:
    """Read JSON by every rule, slowly; `Malformed` has the place. Returns in which line the value at `want` begins."""
    from drillmaster.strict.jsonscan import Scan  # only where something is, or might be, wrong

    walk = Scan(text, want)
    walk.document()
    return walk.line
