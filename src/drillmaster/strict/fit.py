"""Fit a plain value to a type, exactly, and say what is wrong where in words that a person can act on.

`msgspec.convert` makes the value; before it runs, a walk along the type finds the first thing that does not fit, since
only with the type and the value both at hand can an error name the near miss, the bound and the unit.
"""

import re
from collections.abc import Iterable
from enum import Enum
from typing import Any, TypeVar

import msgspec
from msgspec import inspect as types

from drillmaster.strict.malformed import Malformed, Path, clip, quoted, shown

__all__ = ["fit", "near"]

T = TypeVar("T")

_UNITS = (
    ("_per_s", "per second"),
    ("_ratio", "a share from 0 to 1"),
    ("_share", "a share from 0 to 1"),
    ("_bytes", "bytes"),
    ("_ns", "nanoseconds"),
    ("_ms", "milliseconds"),
    ("_s", "seconds"),
)
_SECONDS = {"s": 1.0, "sec": 1.0, "seconds": 1.0, "ms": 0.001, "m": 60.0, "min": 60.0, "minutes": 60.0, "h": 3600.0}
_WITH_UNIT = r"([0-9]+(?:\.[0-9]+)?) ?([a-z]+|%)"
_NUMBER = r"[-+]?[0-9]+(?:\.[0-9]+)?"
_FIELDED = (types.StructType, types.DataclassType, types.TypedDictType)
_LISTS = (types.ListType, types.VarTupleType, types.SetType, types.FrozenSetType, types.TupleType)


def fit(value: object, type_: type[T], path: Path = ()) -> T:
    """Return the value as `type_`, or raise `Malformed` with a path that begins with `path`."""
    _check(value, types.type_info(type_), path)
    return _convert(value, type_, path)


def _convert(value: object, type_: type[T], path: Path) -> T:
    try:
        return msgspec.convert(value, type_, strict=True)
    except msgspec.ValidationError as error:
        raise _told(str(error), value, path) from None


def near(word: str, words: Iterable[str]) -> str | None:
    """Find the one word that was most likely meant, or None."""
    import difflib  # only when there is something to mend

    known = list(words)
    by_fold = {re.sub("[-_ ]", "", other.casefold()): other for other in known}
    same = by_fold.get(re.sub("[-_ ]", "", word.casefold()))
    if same or len(word) < 3:
        return same
    return next(iter(difflib.get_close_matches(word, known, n=1, cutoff=0.6)), None)


def _told(message: str, value: object, path: Path) -> Malformed:
    """Translate what only `msgspec` or a type's own `__post_init__` objected to."""
    text, _, where = message.partition(" - at `")
    steps: list[str | int] = []
    for name, index in re.findall(r"\.([^.\[\]`]+)|\[(\d+)\]", where.partition("$")[2]):
        steps.append(int(index) if index else name)
    inner: Any = value
    for step in steps:
        try:
            inner = inner[step]
        except (KeyError, IndexError, TypeError):
            break
    whole = (*path, *steps)
    return Malformed("wrong-type", shown(inner, whole), text, remedy="mend that value", path=whole)


def _check(value: object, info: types.Type, path: Path) -> None:
    match info:
        case types.Metadata(type=inner):
            _check(value, inner, path)
        case types.UnionType(types=members):
            _check_union(value, members, path)
        case types.StructType(array_like=True):
            return
        case types.StructType() | types.DataclassType() | types.TypedDictType():
            _check_fields(value, info, path)
        case types.DictType(key_type=key, value_type=inner):
            if not isinstance(value, dict):
                raise _misfit(value, info, path)
            _check_length(value, info, path)
            for name, item in value.items():
                _check(name, key, (*path, name))
                _check(item, inner, (*path, name))
                if isinstance(inner, types.StructType):  # what its own `__post_init__` objects to names no key of ours
                    _convert(item, inner.cls, (*path, name))
        case types.TupleType(item_types=inners):
            if not isinstance(value, list) or len(value) != len(inners):
                raise _misfit(value, info, path)
            for index, (item, inner) in enumerate(zip(value, inners, strict=True)):
                _check(item, inner, (*path, index))
        case types.ListType() | types.VarTupleType() | types.SetType() | types.FrozenSetType():
            if not isinstance(value, list):
                raise _misfit(value, info, path)
            _check_length(value, info, path)
            for index, item in enumerate(value):
                _check(item, info.item_type, (*path, index))
        case _:
            if not _fits(value, info) or not _within(value, info):
                raise _misfit(value, info, path)


def _fits(value: object, info: types.Type) -> bool:
    """Whether a value is of this kind at all; bounds are another matter. Types that JSON has no word for: msgspec's."""
    match info:
        case types.Metadata(type=inner):
            return _fits(value, inner)
        case types.NoneType():
            return value is None
        case types.BoolType():
            return isinstance(value, bool)
        case types.IntType():
            return isinstance(value, int) and not isinstance(value, bool)
        case types.FloatType():
            return isinstance(value, int | float) and not isinstance(value, bool)
        case types.StrType():
            return isinstance(value, str)
        case types.LiteralType() | types.EnumType():
            return any(type(value) is type(word) and value == word for word in _words(info))
        case _ if isinstance(info, _LISTS):
            return isinstance(value, list)
        case _ if isinstance(info, (*_FIELDED, types.DictType)):
            return isinstance(value, dict)
    return True


def _within(value: Any, info: types.Type) -> bool:
    match info:
        case types.IntType() | types.FloatType():
            return (
                (info.gt is None or value > info.gt)
                and (info.ge is None or value >= info.ge)
                and (info.lt is None or value < info.lt)
                and (info.le is None or value <= info.le)
                and (info.multiple_of is None or value % info.multiple_of == 0)
            )
        case types.StrType(min_length=least, max_length=most, pattern=pattern):
            return (
                (least is None or len(value) >= least)
                and (most is None or len(value) <= most)
                and (pattern is None or re.search(pattern, value) is not None)
            )
    return True


def _check_length(value: Any, info: Any, path: Path) -> None:
    least, most = info.min_length, info.max_length
    if (least is not None and len(value) < least) or (most is not None and len(value) > most):
        raise _misfit(value, info, path)


def _check_union(value: object, members: tuple[types.Type, ...], path: Path) -> None:
    structs = [m for m in members if isinstance(m, types.StructType) and m.tag_field is not None]
    if isinstance(value, dict) and structs:
        _check(value, _tagged(value, structs, path), path)
        return
    for member in members:
        if _fits(value, member):
            _check(value, member, path)
            return
    raise _misfit(value, types.UnionType(members), path)


def _tagged(value: dict[str, Any], structs: list[types.StructType], path: Path) -> types.StructType:
    field = structs[0].tag_field or "type"
    tags = {struct.tag: struct for struct in structs}
    if field not in value:
        raise Malformed("missing-field", "nothing", _one_of(tags), remedy=f"add {field}", path=(*path, field))
    found = value[field]
    if isinstance(found, str | int) and found in tags and not isinstance(found, bool):
        return tags[found]
    meant = near(found, [t for t in tags if isinstance(t, str)]) if isinstance(found, str) else None
    raise Malformed(
        "wrong-type",
        shown(found, (*path, field)),
        _one_of(tags),
        remedy=f"Did you mean {meant}?" if meant else "write one of them",
        path=(*path, field),
    )


def _check_fields(value: object, info: Any, path: Path) -> None:
    if not isinstance(value, dict):
        raise _misfit(value, info, path)
    fields: dict[str, types.Field] = {field.encode_name: field for field in info.fields}
    tag_field: str | None = getattr(info, "tag_field", None)
    if tag_field is not None:
        _tagged(value, [info], path)
    known = [*([tag_field] if tag_field is not None else []), *fields]
    for name in value:
        if name not in known:
            raise _unknown(name, [k for k in known if k not in value], known, path)
    for name, field in fields.items():
        if name in value:
            _check(value[name], field.type, (*path, name))
        elif field.required:
            raise Malformed(
                "missing-field", "nothing", _wanted(field.type, name), remedy=f"add {name}", path=(*path, name)
            )


def _unknown(name: str, absent: list[str], known: list[str], path: Path) -> Malformed:
    # A field that is still missing is the likelier one to be meant.
    meant = near(name, absent) or near(name, known)
    if meant is None or (meant in known and meant not in absent):
        remedy = "delete it, or correct its name"
    else:
        remedy = f"Did you mean {meant}?"
    wanted = f"only {_listed(known)}" if known else "no fields"
    return Malformed("unknown-field", f"the unknown field {quoted(name)}", wanted, remedy=remedy, path=(*path, name))


def _listed(words: Iterable[object], most: int = 16) -> str:
    texts = [str(word) for word in words]
    return ", ".join(texts[:most]) + (f" and {len(texts) - most} more" if len(texts) > most else "")


def _one_of(words: Iterable[object]) -> str:
    texts = list(words)
    return str(texts[0]) if len(texts) == 1 else f"one of {_listed(texts)}"


def _words(info: types.Type) -> list[object]:
    if isinstance(info, types.LiteralType):
        return list(info.values)
    if isinstance(info, types.EnumType):
        cls: type[Enum] = info.cls
        return [member.value for member in cls]
    return []


def _misfit(value: object, info: types.Type, path: Path) -> Malformed:
    name = next((step for step in reversed(path) if isinstance(step, str)), "")
    kind_fits = _fits(value, info)
    found = shown(value, path)
    return Malformed(
        "out-of-bounds" if kind_fits else "wrong-type",
        found,
        _wanted(info, name),
        remedy=_remedy(value, info, name),
        path=path,
    )


def _unit(name: str) -> str:
    return next((f" ({unit})" for suffix, unit in _UNITS if name.endswith(suffix)), "")


def _wanted(info: types.Type, name: str) -> str:
    match info:
        case types.Metadata(type=inner):
            return _wanted(inner, name)
        case types.UnionType(types=members):
            texts = dict.fromkeys(_wanted(member, name) for member in members if not isinstance(member, types.NoneType))
            return " or ".join([*texts, *(["null"] if any(isinstance(m, types.NoneType) for m in members) else [])])
        case types.NoneType():
            return "null"
        case types.BoolType():
            return "true or false"
        case types.IntType():
            return "a whole number" + _bounds(info) + _unit(name)
        case types.FloatType():
            return "a number" + _bounds(info) + _unit(name)
        case types.StrType(pattern=pattern):
            return "text" + _lengths(info, "character") + (f" that matches {pattern}" if pattern else "")
        case types.LiteralType() | types.EnumType():
            return _one_of(_words(info))
        case types.TupleType(item_types=inners):
            return f"a list of exactly {len(inners)}"
        case _ if isinstance(info, _LISTS):
            return "a list" + _lengths(info, "item")
        case _ if isinstance(info, _FIELDED):
            fields = [f.encode_name for f in info.fields if f.required]
            return "an object" + (f" with {_listed(fields, 8)}" if fields else "")
        case types.DictType():
            return "an object (name: value)" + _lengths(info, "field")
    return f"a {type(info).__name__.removesuffix('Type').lower()}"


def _bounds(info: Any) -> str:
    texts = [
        f"{sign} {limit:g}"
        for sign, limit in ((">", info.gt), (">=", info.ge), ("<", info.lt), ("<=", info.le))
        if limit is not None
    ]
    if info.multiple_of is not None:
        texts.append(f"a multiple of {info.multiple_of:g}")
    return " " + " and ".join(texts) if texts else ""


def _lengths(info: Any, what: str) -> str:
    least, most = getattr(info, "min_length", None), getattr(info, "max_length", None)
    if least and most:
        return f" of {least} to {most} {what}s"
    if least:
        return f" of at least {least} {what}{'' if least == 1 else 's'}"
    return f" of at most {most} {what}s" if most is not None else ""


def _members(info: types.Type) -> tuple[types.Type, ...]:
    if isinstance(info, types.Metadata):
        return _members(info.type)
    if isinstance(info, types.UnionType):
        return tuple(part for member in info.types for part in _members(member))
    return (info,)


def _remedy(value: object, info: types.Type, name: str) -> str:
    """The one edit that is most likely meant."""
    members = _members(info)
    number = any(isinstance(m, types.IntType | types.FloatType) for m in members)
    if value is None:
        return f"give {name} a value" if name else "write the value"
    if isinstance(value, str):
        if number and re.fullmatch(_NUMBER, value.strip()):
            return f"write {clip(value.strip())} without quotes"
        with_unit = re.fullmatch(_WITH_UNIT, value.strip().lower())
        if number and with_unit:
            return _without_unit(float(with_unit[1]), with_unit[2], name)
        if any(isinstance(m, types.BoolType) for m in members):
            word = {"off": "false", "no": "false", "false": "false", "on": "true", "yes": "true", "true": "true"}
            meant = word.get(value.strip().lower())
            return f"write {meant}, without quotes" if meant else "write true or false"
        words = [word for m in members for word in _words(m) if isinstance(word, str)]
        close = near(value, words) if words else None
        if close:
            return f"Did you mean {close}?"
    if not isinstance(value, list | dict):
        if any(isinstance(m, _LISTS) for m in members):
            return "write it as a list: [ ... ]"
        if not isinstance(value, str) and any(isinstance(m, types.StrType) for m in members):
            spelled = str(value).lower() if isinstance(value, bool) else str(value)
            return f'put it in double quotes: "{clip(spelled)}"'
        if isinstance(value, float) and value.is_integer() and number and not _fits(value, info):
            return f"write {value:.0f}"
    constants = [word for m in members for word in _words(m)]
    if len(constants) == 1:
        return f"write {constants[0]}"
    if not name and any(isinstance(m, _FIELDED) for m in members):
        return "check that this is the file you meant: it begins with name: value"
    return f"change the value of {name}" if name else "change that value"


def _without_unit(amount: float, unit: str, name: str) -> str:
    if unit == "%" and name.endswith(("_ratio", "_share", "budget")):
        return f"write {amount / 100:g}, a share of 1, without quotes"
    seconds = _SECONDS.get(unit)
    for suffix, each in (("_ms", 0.001), ("_ns", 1e-9), ("_s", 1.0)):
        if seconds is not None and name.endswith(suffix) and not name.endswith("_per_s"):
            return f"write {amount * seconds / each:.12g}: the unit is in the name"
    return "write the number alone: the unit is in the name"
