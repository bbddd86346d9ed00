"""Chaos flags as people write them: the registry `flags.yaml`, and the plan's section that says which are on in the window.

1. A flag is known by its name, exactly; one registry serves all languages. A name that stands in no registry is refused
   wherever it is used, with the near one that was perhaps meant.
2. Each flag has an owner, a purpose, a deadline (a date, in UTC: through that day it may be switched on, not after it) and
   `auto_off_s`, after which it goes off by itself, however often somebody renews.
3. `share`, `first` and `every` say which calls a flag meets; left out, it meets all. `first` counts by mission: the first N
   calls of each are met and its next one is not, so that a retry recovers. `every` and `share` count all calls of a worker.
4. A flag of kind `kill` bears the name of the capability that it ends. Switched by people it stays until it is restored;
   on in a drill's window it ends with the window, as every other flag does.
"""

import builtins
import datetime
import hashlib
import re
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, Literal

import msgspec

from drillmaster.errors import Problem
from drillmaster.strict import as_type, load_as, near, pointer
from drillmaster.targeting import Wrong

__all__ = [
    "ERRORS",
    "NAME",
    "Aim",
    "Change",
    "FlagsSection",
    "Hits",
    "Kind",
    "Registered",
    "Registry",
    "Shape",
    "Switched",
    "expected_success",
    "last_instant_ns",
    "load_registry",
    "plain",
    "shaped",
    "unknown_flag",
    "what_is_wrong",
]

NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,63}")
ERRORS: Mapping[str, type[Exception]] = {
    name: getattr(builtins, name)
    for name in (
        "RuntimeError",
        "ConnectionError",
        "TimeoutError",
        "OSError",
        "ValueError",
        "LookupError",
        "PermissionError",
    )
}
"""What a flag of kind `error` may raise by itself; a worker can make its own client's error of it."""
MAX_FLAGS = 200
MAX_HOLD_S = 3_600.0
MAX_VALUE_BYTES = 2_048
"""Of one flag's parameters: they stand whole in a line of evidence."""
MAX_MISSIONS = 65_536
_DATE = re.compile(r"\d{4}-\d{2}-\d{2}")

Kind = Literal["timeout", "error", "latency", "wrong-answer", "kill"]
Name = Annotated[str, msgspec.Meta(pattern=r"\A[A-Za-z][A-Za-z0-9_-]{0,63}\Z")]
Text = Annotated[str, msgspec.Meta(min_length=1, max_length=500)]
Share = Annotated[float, msgspec.Meta(gt=0, le=1)]
Count = Annotated[int, msgspec.Meta(ge=1, le=1_000_000)]


class _Part(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    pass


class Aim(_Part, frozen=True, kw_only=True):
    """Which calls a flag meets: one of the three, or none of them for all."""

    share: Share | None = None
    """Each call by lot, with this chance."""
    first: Count | None = None
    """The first N calls of each mission; of a worker, for calls outside missions."""
    every: Count | None = None
    """Every Nth call: the Nth, the 2Nth, ..."""

    def __post_init__(self) -> None:
        if sum(one is not None for one in (self.share, self.first, self.every)) > 1:
            raise ValueError("one of share, first and every")

    @property
    def words(self) -> str:
        """For people."""
        if self.first is not None:
            return (
                f"the first {self.first} calls of each mission" if self.first > 1 else "the first call of each mission"
            )
        if self.every is not None and self.every > 1:
            return f"every call number {self.every}, {2 * self.every}, ..."
        if self.share is not None and self.share < 1:
            return f"{self.share:.0%} of the calls"
        return "every call"

    def recovers(self, attempts: int) -> float:
        """The share of operations of this many attempts, each made after the last one failed, that end well."""
        if self.first is not None:
            return 1.0 if attempts > self.first else 0.0
        if self.every is not None:
            # Two attempts one after the other are two numbers one after the other, at the worst with others between.
            return 0.0 if self.every == 1 else 1 - (1 / self.every) ** attempts
        return 1 - (1.0 if self.share is None else self.share) ** attempts


class Change(_Part, frozen=True, kw_only=True):
    """What becomes of the real answer: one of the three, at a JSON pointer ("": the answer itself)."""

    at: Annotated[str, msgspec.Meta(pattern=r"\A(/.*)?\Z", max_length=500)]
    multiply: float | None = None
    add: float | None = None
    put: Any = msgspec.UNSET
    """This value, whatever stood there."""

    def __post_init__(self) -> None:
        given = (self.multiply is not None) + (self.add is not None) + (self.put is not msgspec.UNSET)
        if given != 1:
            raise ValueError("one of multiply, add and put")
        if self.multiply == 1 or self.add == 0:
            raise ValueError("a change that changes something")


class Timeout(_Part, frozen=True, kw_only=True):
    """No answer until the caller's own limit, and then, or after `max_s`, the caller's error for that."""

    max_s: Annotated[float, msgspec.Meta(gt=0, le=MAX_HOLD_S)]


class Error(_Part, frozen=True, kw_only=True):
    """An error in place of the call."""

    error: str = "RuntimeError"
    status: Annotated[int, msgspec.Meta(ge=400, le=599)] | None = None
    message: Text | None = None

    def __post_init__(self) -> None:
        if self.error not in ERRORS:
            raise ValueError(f"error is one of {', '.join(ERRORS)}")


class Latency(_Part, frozen=True, kw_only=True):
    """The real call, later."""

    delay_s: Annotated[float, msgspec.Meta(gt=0, le=MAX_HOLD_S)]


class WrongAnswer(_Part, frozen=True, kw_only=True):
    """A wrong value and no error: this one in place of the call, or the real answer changed."""

    value: Any = msgspec.UNSET
    change: Change | None = None

    def __post_init__(self) -> None:
        if (self.value is msgspec.UNSET) is (self.change is None):
            raise ValueError("either value or change")


class Kill(_Part, frozen=True, kw_only=True):
    """The capability is refused at once."""

    tools: tuple[Text, ...] = ()
    """Names of the tools that it ends, where they differ from the flag's."""


PARAMS: Mapping[str, type[Any]] = {
    "timeout": Timeout,
    "error": Error,
    "latency": Latency,
    "wrong-answer": WrongAnswer,
    "kill": Kill,
}
Shape = Timeout | Error | Latency | WrongAnswer | Kill


class Registered(_Part, frozen=True, kw_only=True):
    """One flag of the registry."""

    name: Name
    owner: Text
    purpose: Text
    deadline: Annotated[str, msgspec.Meta(pattern=r"\A\d{4}-\d{2}-\d{2}\Z")] | None = None
    """A kill needs none: what ends a risky capability does not wear out. It may be given all the same."""
    auto_off_s: Annotated[float, msgspec.Meta(gt=0, le=86_400)] | None = None
    """Likewise."""
    kind: Kind
    params: dict[str, Any] = {}
    share: Share | None = None
    first: Count | None = None
    every: Count | None = None

    @property
    def aim(self) -> Aim:
        return Aim(share=self.share, first=self.first, every=self.every)


class Registry(_Part, frozen=True, kw_only=True):
    """`kind: flags`."""

    kind: Literal["flags"]
    version: Literal[1]
    service: Text
    flags: Annotated[tuple[Registered, ...], msgspec.Meta(min_length=1, max_length=MAX_FLAGS)]

    @property
    def by_name(self) -> dict[str, Registered]:
        return {flag.name: flag for flag in self.flags}

    @property
    def capabilities(self) -> tuple[str, ...]:
        """What can be killed."""
        return tuple(flag.name for flag in self.flags if flag.kind == "kill")


class Switched(_Part, frozen=True, kw_only=True):
    """One flag that is to be on, with whom it meets and its parameters where they are not the registry's."""

    flag: str
    share: Share | None = None
    first: Count | None = None
    every: Count | None = None
    params: dict[str, Any] = {}

    def aim(self, flag: Registered) -> Aim:
        """Its own, or else the registry's."""
        own = Aim(share=self.share, first=self.first, every=self.every)
        return flag.aim if own == Aim() else own

    def shape(self, flag: Registered, *, place: str, path: Sequence[str | int] = ()) -> Shape:
        """The registry's parameters with these on top, typed; `path` is where they stand. Raises Problem."""
        return shaped(flag, self.params, place=place, path=path)


class FlagsSection(_Part, frozen=True, kw_only=True):
    """The plan's `flags`: the registry (relative to the plan), where the server listens, and what is on in the window."""

    registry: str = "flags.yaml"
    listen: str = "127.0.0.1:8070"
    on: Annotated[tuple[Switched, ...], msgspec.Meta(min_length=1, max_length=MAX_FLAGS)]
    lease_s: Annotated[float, msgspec.Meta(ge=1, le=30)] = 2.0
    """How long a worker that hears nothing more keeps a flag on."""


def shaped(flag: Registered, over: Mapping[str, Any], *, place: str, path: Sequence[str | int] = ()) -> Shape:
    """A flag's parameters, with `over` on top, as their kind wants them. Raises Problem."""
    given = {**flag.params, **over}
    if flag.kind == "wrong-answer" and over:  # one of the two replaces the other
        given = {**over}
    made: Shape = as_type(given, PARAMS[flag.kind], place=place, path=path)
    if len(msgspec.json.encode(made)) > MAX_VALUE_BYTES:
        raise Problem(
            f"{place}: {pointer(tuple(path))}",
            found=f"over {MAX_VALUE_BYTES:,} bytes",
            wanted="a value that a call returns",
            remedy="shorten it",
        )
    return made


def load_registry(data: bytes, *, place: str) -> Registry:
    """Read `flags.yaml` (or JSON, by its name). Raises Problem with the place of what is wrong."""
    fmt: Literal["json", "yaml"] = "json" if place.endswith(".json") else "yaml"
    registry = load_as(data, Registry, place=place, fmt=fmt)
    seen: dict[str, int] = {}
    for at, flag in enumerate(registry.flags):
        here = f"{place}: /flags/{at}"
        alike = flag.name.casefold().replace("_", "").replace("-", "")
        if alike in seen:
            raise Problem(
                f"{here}/name",
                found=f"{flag.name!r}, which reads as {registry.flags[seen[alike]].name!r} does",
                wanted="one spelling of a flag in all languages",
                remedy="rename one of the two, or delete it",
            )
        seen[alike] = at
        if [flag.share, flag.first, flag.every].count(None) < 2:
            raise Problem(
                here, found="several of share, first, every", wanted="one, or none for every call", remedy="keep one"
            )
        shaped(flag, {}, place=place, path=("flags", at, "params"))
        if flag.kind == "kill":
            if flag.aim != Aim():
                raise Problem(
                    here,
                    found="a kill that meets some calls",
                    wanted="one that meets all",
                    remedy="take share, first or every out",
                )
        else:
            for name in ("deadline", "auto_off_s"):
                if getattr(flag, name) is None:
                    raise Problem(
                        f"{here}/{name}",
                        found="nothing",
                        wanted="a date (2027-01-31)" if name == "deadline" else "seconds > 0",
                        remedy="no flag stays on by being forgotten: write down until when it is wanted",
                    )
        if flag.deadline is not None and last_instant_ns(flag.deadline) is None:
            raise Problem(
                f"{here}/deadline",
                found=repr(flag.deadline),
                wanted="a date of the calendar",
                remedy="write 2027-01-31",
            )
    return registry


def last_instant_ns(deadline: str) -> int | None:
    """The end of that day in UTC, in ns since the epoch; None for no day of the calendar."""
    try:
        day = datetime.date.fromisoformat(deadline) if _DATE.fullmatch(deadline) else None
    except ValueError:
        day = None
    if day is None:
        return None
    return ((day - datetime.date(1970, 1, 1)).days + 1) * 86_400 * 1_000_000_000


def plain(shape: Shape) -> dict[str, Any]:
    """A flag's parameters as plain values, without those that were left out."""
    told: dict[str, Any] = _given(msgspec.to_builtins(shape))
    return told


def _given(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _given(inner) for name, inner in value.items() if inner is not None or name in ("value", "put")}
    return value


def unknown_flag(name: str, known: Mapping[str, Any] | tuple[str, ...], *, place: str, what: str = "flag") -> Problem:
    """What to say of a name that stands in no registry."""
    meant = near(name, known)
    return Problem(
        place,
        found=f"{what} {name!r}" + (f". Did you mean {meant!r}?" if meant else ""),
        wanted="one of " + (", ".join(sorted(known)) or "none: the registry has no such flag"),
        remedy="correct the name, or register it in flags.yaml",
    )


def expected_success(registry: Registry, on: tuple[Switched, ...], attempts: int) -> float:
    """The share of operations of so many attempts that can end well under these flags; 1 where none of them fails a call."""
    flags = registry.by_name
    share = 1.0
    for one in on:
        flag = flags.get(one.flag)
        if flag is not None and flag.kind in ("timeout", "error", "kill"):
            share *= one.aim(flag).recovers(1 if flag.kind == "kill" else attempts)
    return share


def what_is_wrong(
    section: FlagsSection, registry: Registry, *, fault_s: float, now_wall_ns: int, pointer: str = "/flags"
) -> Iterator[Wrong]:
    """Everything wrong with a plan's section, for `plan.yaml: POINTER: found ...`."""
    flags = registry.by_name
    seen: set[str] = set()
    for at, one in enumerate(section.on):
        here = f"{pointer}/on/{at}"
        flag = flags.get(one.flag)
        if flag is None:
            told = unknown_flag(one.flag, flags, place="")
            yield Wrong(f"{here}/flag", told.found, told.wanted, told.remedy)
            continue
        if one.flag in seen:
            yield Wrong(f"{here}/flag", f"{one.flag} twice", "each flag once", "delete one of the two")
        seen.add(one.flag)
        if [one.share, one.first, one.every].count(None) < 2:
            yield Wrong(here, "several of share, first, every", "one, or none for the registry's", "keep one")
            continue
        if flag.kind == "kill" and one.aim(flag) != Aim():
            yield Wrong(here, "a kill that meets some calls", "one that meets all", "take share, first or every out")
        try:
            one.shape(flag, place="")
        except Problem as problem:
            inner = problem.place.removeprefix(":").strip()
            yield Wrong(f"{here}/params{inner}", problem.found, problem.wanted, problem.remedy)
        if flag.deadline is not None and now_wall_ns >= (last_instant_ns(flag.deadline) or 0):
            yield Wrong(
                f"{here}/flag",
                f"{one.flag}, whose deadline {flag.deadline} has passed",
                "a flag that may still be switched on",
                f"ask {flag.owner}; a later deadline goes into the registry",
            )
        if flag.auto_off_s is not None and flag.auto_off_s < fault_s:
            yield Wrong(
                f"{here}/flag",
                f"{one.flag}, which goes off after {flag.auto_off_s:g} s",
                f"auto_off_s of at least the window's {fault_s:g} s",
                f"shorten phases.fault_s to {flag.auto_off_s:g}, or let {flag.owner} raise auto_off_s in the registry",
            )


class Hits:
    """Counts calls under one aim, and says of each whether it is met. Same seed, same order of calls, same answers."""

    def __init__(self, aim: Aim, seed: str) -> None:
        self._aim = aim
        self._seed = seed
        self._nth = 0
        self._missions: OrderedDict[str, int] = OrderedDict()

    def hit(self, mission: str = "") -> bool:
        """Whether this call is met; "": it belongs to no mission."""
        aim = self._aim
        if aim.first is not None:
            missions = self._missions
            nth = missions.pop(mission, 0) + 1
            missions[mission] = nth
            if len(missions) > MAX_MISSIONS:  # the one that was silent for longest is forgotten
                missions.popitem(last=False)
            return nth <= aim.first
        self._nth += 1
        if aim.every is not None:
            return self._nth % aim.every == 0
        if aim.share is None or aim.share >= 1:
            return True
        lot = hashlib.blake2b(f"{self._seed}/{self._nth}".encode(), digest_size=8).digest()
        return int.from_bytes(lot, "big") < aim.share * 2**64
