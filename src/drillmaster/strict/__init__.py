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

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Literal, TypeVar

from drillmaster.errors import Problem
from drillmaster.strict.fit import fit, near
from drillmaster.strict.jcs import canonical, digest, digest_bytes
from drillmaster.strict.jsontext import object_pairs, scan, strict_json
from drillmaster.strict.malformed import MAX_DEPTH, SECRET_NAME, Kind, Malformed, Path, name_fault, pointer, shown, utf8

__all__ = [
    "CAP_BYTES",
    "MAX_DEPTH",
    "SECRET_NAME",
    "Format",
    "Kind",
    "Malformed",
    "Path",
    "as_type",
    "canonical",
    "digest",
    "digest_bytes",
    "load",
    "load_as",
    "name_fault",
    "near",
    "nulls",
    "object_pairs",
    "pointer",
    "shown",
    "strict_json",
]

Format = Literal["json", "yaml", "toml"]
T = TypeVar("T")

CAP_BYTES: dict[Format, int] = {"json": 16 << 20, "yaml": 1 << 19, "toml": 1 << 20}
"""The largest file of each format. The parser of YAML, in Python, takes 12 s for its worst half MiB."""

_Line = Callable[[Path], int | None]


def load(data: bytes, *, place: str, fmt: Format, cap_bytes: int | None = None) -> Any:
    """Read one file's bytes into plain values; `Problem`, with `place` in front, is all that is ever raised.

    `cap_bytes` None stands for the format's own cap, `CAP_BYTES`.
    """
    return _load(data, place, fmt, cap_bytes)[0]


def load_as(data: bytes, type_: type[T], *, place: str, fmt: Format, cap_bytes: int | None = None) -> T:
    """Read one file's bytes into a type, exactly: rule 6. `Problem` is all that is raised."""
    value, line = _load(data, place, fmt, cap_bytes)
    try:
        return fit(value, type_)
    except Malformed as fault:
        # What is missing has no line of its own; its object has.
        fault.line = line(fault.path) or line(fault.path[:-1])
        raise _problem(fault, place) from None


def as_type(value: object, type_: type[T], *, place: str, path: Sequence[str | int] = ()) -> T:
    """Fit a part of a value that `load` returned to a type; `path` says where in the file `place` it was found."""
    try:
        return fit(value, type_, tuple(path))
    except Malformed as fault:
        raise _problem(fault, place) from None


def _load(data: bytes, place: str, fmt: Format, cap_bytes: int | None) -> tuple[Any, _Line]:
    cap_bytes = CAP_BYTES[fmt] if cap_bytes is None else cap_bytes
    if len(data) > cap_bytes:
        raise Problem(
            place,
            found=f"{len(data):,} bytes",
            wanted=f"at most {cap_bytes:,} bytes of {fmt.upper()}",
            remedy="cut what is not needed, or split the file",
        )
    try:
        if not data.strip():
            raise Malformed(
                "empty",
                "nothing but space" if data else "an empty file",
                f"one {fmt.upper()} document",
                remedy="write the content, or restore it: git checkout -- FILE",
            )
        if fmt == "json":
            value = strict_json(data)
            return value, lambda path: scan(data.decode(), path)
        text = utf8(data)
        # Each parser is imported only by whoever has such a file.
        if fmt == "yaml":
            from drillmaster.strict.yamlplain import plain_yaml

            read = plain_yaml(text)
            if read is None:
                from drillmaster.strict.yamltext import strict_yaml

                read = strict_yaml(text)
            return read[0], read[1].get
        from drillmaster.strict.tomltext import strict_toml

        return strict_toml(text), lambda path: None
    except Malformed as fault:
        raise _problem(fault, place) from None


def _problem(fault: Malformed, place: str) -> Problem:
    where = place
    if fault.line is not None:
        where += f":{fault.line}"
        if fault.column is not None:
            where += f":{fault.column}"
    steps = pointer(fault.path)
    remedy = fault.remedy
    if place == "standard input":
        remedy = remedy.replace(", or restore it: git checkout -- FILE", "")
    if "FILE" in remedy:
        import shlex

        remedy = remedy.replace("FILE", shlex.quote(place))
    return Problem(
        f"{where}: {steps}" if steps else where,
        found=fault.found,
        wanted=fault.wanted,
        remedy=remedy or "mend that value",
    )


def nulls(value: object, at: str = "") -> Iterator[str]:
    """Give the pointer of each null in a plain value, the one at `at`: a colon that a person left nothing behind."""
    if value is None:
        yield at
    elif isinstance(value, dict):
        for name, inner in value.items():
            yield from nulls(inner, f"{at}/{name}")
    elif isinstance(value, list | tuple):
        for number, inner in enumerate(value):
            yield from nulls(inner, f"{at}/{number}")
