"""Canonical bytes (RFC 8785) and digests over them."""

import hashlib
from typing import Any

import msgspec

from drillmaster.errors import Problem
from drillmaster.strict.malformed import MAX_DEPTH, MAX_WHOLE, Path, pointer, shown

__all__ = ["canonical", "digest", "digest_bytes"]

_text = msgspec.json.Encoder().encode
"""Of text it writes what RFC 8785 says. `json` does too, and its import costs 1 ms."""


def canonical(value: object) -> bytes:
    """Write a value as RFC 8785 says: one spelling for each value, whoever writes it.

    Takes what JSON has (tuples count as lists) and msgspec structs. Raises `Problem` for everything that two readers
    could take for different things: NaN, Infinity, whole numbers outside +-(2^53 - 1), lone surrogates, names that are
    not text, more than MAX_DEPTH containers inside each other, and any other type.
    """
    if not isinstance(value, dict | list | tuple | str | int | float | None):
        value = _plain(value)
    parts: list[bytes] = []
    try:
        _write(value, parts, ())
    except UnicodeEncodeError as error:
        raise _refused(
            (), f"\\u{ord(error.object[error.start]):04x}, half of a character", "whole characters"
        ) from None
    return b"".join(parts)


def digest(value: object) -> str:
    """`sha256:` and 64 hex digits over the canonical bytes of a value."""
    return digest_bytes(canonical(value))


def digest_bytes(raw: bytes) -> str:
    """`sha256:` and 64 hex digits over bytes as they are."""
    return "sha256:" + hashlib.sha256(raw).hexdigest()


def _plain(value: object) -> Any:
    return msgspec.to_builtins(value) if isinstance(value, msgspec.Struct) else value


def _refused(path: Path, found: str, wanted: str) -> Problem:
    where = pointer(path)
    return Problem(
        f"canonical bytes: {where}" if where else "canonical bytes",
        found=found,
        wanted=wanted,
        remedy="mend that value where it is made",
    )


def _write(value: object, parts: list[bytes], path: Path) -> None:
    match value:
        case None:
            parts.append(b"null")
        case bool():
            parts.append(b"true" if value else b"false")
        case str():
            parts.append(_text(value))
        case int():
            if abs(value) > MAX_WHOLE:
                raise _refused(path, shown(value), f"a whole number within ±{MAX_WHOLE}")
            parts.append(int.__repr__(value).encode())
        case float():
            parts.append(_number(value, path).encode())
        case dict():
            _deeper(path)
            _write_object(value, parts, path)
        case list() | tuple():
            _deeper(path)
            parts.append(b"[")
            for index, inner in enumerate(value):
                if index:
                    parts.append(b",")
                _write(inner, parts, (*path, index))
            parts.append(b"]")
        case msgspec.Struct():
            _write(_plain(value), parts, path)
        case _:
            raise _refused(path, shown(value), "null, a boolean, a number, text, a list or an object")


def _deeper(path: Path) -> None:
    if len(path) >= MAX_DEPTH:
        raise _refused(path[:3], f"more than {MAX_DEPTH} lists and objects inside each other", f"at most {MAX_DEPTH}")


def _write_object(value: dict[object, object], parts: list[bytes], path: Path) -> None:
    names: list[str] = []
    for name in value:
        if not isinstance(name, str):
            raise _refused(path, f"{shown(name)} as a name", "text as a name")
        names.append(name)
    # By UTF-16 code units, as JavaScript compares: U+1F600 sorts before U+FB01, which code points would turn around.
    names.sort(key=None if all(map(str.isascii, names)) else _utf16)
    parts.append(b"{")
    for index, name in enumerate(names):
        parts.append((b"," if index else b"") + _text(name) + b":")
        _write(value[name], parts, (*path, name))
    parts.append(b"}")


def _utf16(name: str) -> bytes:
    return name.encode("utf-16-be", "surrogatepass")


def _number(value: float, path: Path) -> str:
    """Write a double as ECMAScript's Number::toString does: the shortest digits that read back as the same double."""
    if value - value != 0:
        raise _refused(path, shown(value), "a finite number")
    if value == 0:
        return "0"  # -0 too
    sign = "-" if value < 0 else ""
    # repr gives the same shortest digits; only where it puts the point and when it takes an exponent differs.
    mantissa, _, exponent = float.__repr__(abs(value)).partition("e")
    whole, _, part = mantissa.partition(".")
    part = "" if part == "0" else part
    digits = (whole + part).lstrip("0")
    point = (
        len(whole) + int(exponent or "0") - (len(whole + part) - len(digits))
    )  # of the decimal, counted from the first digit
    digits = digits.rstrip("0")
    if len(digits) <= point <= 21:
        return sign + digits + "0" * (point - len(digits))
    if 0 < point <= 21:
        return sign + digits[:point] + "." + digits[point:]
    if -6 < point <= 0:
        return sign + "0." + "0" * -point + digits
    power = f"e{point - 1:+d}"
    return sign + digits[0] + ("." + digits[1:] if len(digits) > 1 else "") + power
