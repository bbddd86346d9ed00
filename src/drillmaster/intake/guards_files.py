"""Guards files: a team's guards, each with its limits, under one pin; and what a catalogue's entry is made of.

1. A file is read whole or not at all. Limits have no defaults, and all that a person left blank is named at once.
2. An entry is a guard's tag and its limits. `name` is what workers call it by; without one that is the tag. Where a file has two of
   one guard, as for two partners, each has a name of its own.
3. Whose numbers they are, who reviews them and until when stands in the file. A file without that, or past its day, is not loaded.
4. Any guard of the catalogue will do: its facts, its state and its reasons are asked of the guard, and listed nowhere else.
"""

import contextlib
import functools
import importlib
import os
import re
import typing
from collections.abc import Callable
from typing import Any

import msgspec
from msgspec import inspect as types

from drillmaster import strict
from drillmaster.errors import Problem, Refused
from drillmaster.guards import Decision, Guard, find, names
from drillmaster.intake import format_of, read_bytes
from drillmaster.policy import GuardsFile, Pin, pin_problems

__all__ = [
    "CAP_BYTES",
    "FACTS_CAP_BYTES",
    "AnyGuard",
    "Guards",
    "Kind",
    "check_pin",
    "decode_guards",
    "kind_of",
    "read_facts",
    "read_guards",
]

AnyGuard = Guard[Any, Any]

CAP_BYTES = 1 << 19
FACTS_CAP_BYTES = 1 << 16
"""Facts are numbers and names: what is longer is none."""
_NAME = re.compile(r"[a-z][a-z0-9]*(?:-[a-z0-9]+)*")
_LONGEST_NAME = 64
_BEGIN = "drillmaster init guards writes a file with every limit explained"


class Kind(msgspec.Struct, frozen=True, kw_only=True):
    """What a guard of the catalogue is made of."""

    tag: str
    guard: type[AnyGuard]
    facts: Any
    """The type of its facts."""
    state: Any
    """The type of what is kept between decisions; None: nothing is."""
    decision: type[Decision]
    """What it answers: a decision, or one with more to say."""
    reasons: dict[str, str]
    limits_of: dict[str, tuple[str, ...]]
    """Which limits a reason was held against, where the guard says so."""

    @property
    def by_law(self) -> bool:
        """Whether a store carries it out."""
        return self.guard.LAW is not None


class Guards(msgspec.Struct, frozen=True, kw_only=True):
    """A guards file, decoded. `entries` are by the name that workers call them by."""

    place: str
    pin: Pin
    reviewers: tuple[str, ...]
    entries: dict[str, Any]
    digest: str

    @property
    def needs_store(self) -> tuple[str, ...]:
        """The names of those that a store carries out."""
        return tuple(name for name, guard in self.entries.items() if guard.LAW is not None)


def kind_of(tag: str) -> Kind:
    """Say what a guard is made of. Raises Problem, with the nearest name, for one that there is not."""
    guard = find(tag)
    module = importlib.import_module(guard.__module__)
    state, facts = _arguments(guard)
    return Kind(
        tag=tag,
        guard=guard,
        facts=facts,
        state=None if state is type(None) else state,
        decision=next(
            (one for one in vars(module).values() if isinstance(one, type) and Decision in one.__mro__[1:]), Decision
        ),
        reasons=dict(module.REASONS),
        limits_of=dict(getattr(module, "LIMITS", {})),
    )


def read_guards(path: str | os.PathLike[str], *, now_ns: int) -> Guards:
    """Read a guards file and hold its pin against `now_ns`, wall time. Raises Problem."""
    place = os.fspath(path)
    guards = decode_guards(read_bytes(place, CAP_BYTES), place=place, fmt=format_of(place))
    check_pin(guards, now_ns=now_ns)
    return guards


def decode_guards(data: bytes, *, place: str, fmt: strict.Format) -> Guards:
    """Decode a guards file; its pin is not judged. Raises Problem."""
    value = strict.load(data, place=place, fmt=fmt, cap_bytes=CAP_BYTES)
    open_ = tuple(strict.nulls(value))
    if open_:
        raise Problem(
            place,
            found=f"{len(open_)} blank{'s' if len(open_) != 1 else ''}: {', '.join(open_)}",
            wanted="a value behind each colon; limits have no default",
            remedy="fill them in: the comment above each says what it is, with an example",
        )
    file = strict.load_as(data, GuardsFile, place=place, fmt=fmt, cap_bytes=CAP_BYTES)
    entries: dict[str, Any] = {}
    for index, entry in enumerate(file.guards):
        name, guard = _entry(entry, index, place)
        if name in entries:
            raise Problem(
                f"{place}: /guards/{index}/name",
                found=f"{name} a second time",
                wanted="a name for each",
                remedy="call each entry by what it is for: name: ledger-minute",
            )
        entries[name] = guard
    return Guards(
        place=place,
        pin=file.pin,
        reviewers=file.reviewers,
        entries=entries,
        digest=strict.digest(msgspec.to_builtins(file)),
    )


def check_pin(guards: Guards, *, now_ns: int) -> None:
    """Raise Refused where nobody answers for the numbers, or the day is over by which they had to be read again."""
    problems = pin_problems(guards.pin, now_ns=now_ns)
    problems += [
        (f"reviewers/{index}", "nothing", "a person or a team that reads each change of the limits")
        for index, one in enumerate(guards.reviewers)
        if not one.strip()
    ]
    if problems:
        field, found, wanted = problems[0]
        more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
        raise Refused(
            f"{guards.place}: /{field}",
            found=f"{found}{more}",
            wanted=wanted,
            remedy=f"have {guards.pin.owner.strip() or 'an owner'} read the limits again and set it",
        )


def read_facts(data: bytes, kind: Kind, *, place: str) -> Any:
    """Decode the facts of one question, from JSON, exactly. Raises Problem with the place of what is none.

    A worker waits for this. Where the text is such that `msgspec` alone reads it as `strict` does, it reads it, at a tenth of the
    cost: no field's name stands there twice, none can be hidden behind an escape, and no number is near the end of what a double
    holds. Everything else goes the strict way, and so does whatever `msgspec` does not take, to be told in words.
    """
    quick = _quick(kind.facts)
    if quick is not None and len(data) <= FACTS_CAP_BYTES and b"\\" not in data and _EXTREME.search(data) is None:
        decode, quoted = quick
        for name in quoted:
            if data.count(name) > 1:
                break
        else:
            with contextlib.suppress(msgspec.MsgspecError):
                return decode(data)
    value = strict.load(data, place=place, fmt="json", cap_bytes=FACTS_CAP_BYTES)
    return strict.as_type(value, kind.facts, place=place)


_EXTREME = re.compile(rb"[0-9](?:[0-9]{14}|[eE])")
_Quick = tuple[Callable[[bytes], Any], tuple[bytes, ...]]


@functools.cache
def _quick(facts: Any) -> _Quick | None:
    """Make what reads facts that are one flat object; None for others."""
    info = types.type_info(facts)
    if not isinstance(info, types.StructType) or not all(_is_flat(field.type) for field in info.fields):
        return None
    return msgspec.json.Decoder(facts).decode, tuple(f'"{field.encode_name}"'.encode() for field in info.fields)


def _is_flat(info: types.Type) -> bool:
    match info:
        case types.Metadata(type=inner) | types.VarTupleType(item_type=inner) | types.FrozenSetType(item_type=inner):
            return _is_flat(inner)
        case types.UnionType(types=members):
            return all(_is_flat(one) for one in members)
    return isinstance(
        info, types.NoneType | types.BoolType | types.IntType | types.FloatType | types.StrType | types.LiteralType
    )


def _entry(entry: dict[str, Any], index: int, place: str) -> tuple[str, AnyGuard]:
    limits = dict(entry)
    named = limits.pop("name", None)
    tag = limits.get("guard")
    if tag not in names():
        near = strict.near(tag, names()) if isinstance(tag, str) else None
        raise Problem(
            f"{place}: /guards/{index}/guard",
            found=strict.shown(tag) if "guard" in limits else "nothing",
            wanted=f"one of {', '.join(names())}",
            remedy=f"did you mean {near}?" if near else _BEGIN,
        )
    name = tag if "name" not in entry else named
    usable = isinstance(name, str) and len(name) <= _LONGEST_NAME and _NAME.fullmatch(name) is not None
    if not usable or (name in names() and name != tag):
        raise Problem(
            f"{place}: /guards/{index}/name",
            found=strict.shown(name),
            wanted="small letters, digits and dashes, and no other guard's name",
            remedy="call the entry by what it is for: name: ledger-minute",
        )
    return name, strict.as_type(limits, find(tag), place=place, path=("guards", index))


def _arguments(guard: type[AnyGuard]) -> tuple[Any, Any]:
    for owner in guard.__mro__:
        for base in vars(owner).get("__orig_bases__", ()):
            if typing.get_origin(base) is Guard:
                state, facts = typing.get_args(base)
                return state, facts
    raise TypeError(f"{guard.__name__} does not say what its state and its facts are")  # a guard's own fault
