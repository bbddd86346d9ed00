"""Synthetic missions: the plan's section, and the file that says what one mission is.

A mission is what one user does: a flow of requests over HTTP, or of messages over a WebSocket, with data drawn anew for
each mission, from its first request to its last answer.

1. A plan names what is run as a tagged load: our own missions, a Locust file or an Artillery profile, each as it is.
2. `concurrent` missions are held in flight: where one ends or begins to think, another takes its place. With `arrivals`
   missions come by the clock instead, whatever became of those before.
3. Data come from the seed, the mission's number and the datum's name alone (`friday.drawing`). Nothing that happens in the
   drill, no other load and no other datum changes them.
4. Keys come from the environment as `${NAME}` in a header, and are filled in by the process that sends.
5. `{{ name }}` in a path, a header or a body is a datum or what an earlier step captured. A name that is neither is refused
   before the drill.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal

import msgspec

from drillmaster.errors import Problem
from drillmaster.friday.templates import names_in
from drillmaster.sanity import header_problems
from drillmaster.sanity.shapes import wrong
from drillmaster.strict import Format, load_as, near

__all__ = [
    "MISSIONS_PER_LOAD",
    "Arrivals",
    "Artillery",
    "Choice",
    "Counter",
    "Datum",
    "Expect",
    "Flow",
    "Held",
    "Integer",
    "Load",
    "Locust",
    "MissionFile",
    "Missions",
    "Sequence",
    "Step",
    "Table",
    "Text",
    "Uuid",
    "arriving",
    "file_problems",
    "read_missions",
    "section_problems",
]

MISSIONS_PER_LOAD = 10_000_000
"""Numbers that each load has for its missions; the next load's begin behind them."""
MAX_CONCURRENT = 5_000
MAX_STEPS = 1_000
MAX_ROUND = 100_000
MAX_RATE_PER_S = 5_000.0
MAX_SECONDS = 86_400.0
_NAME = re.compile(r"[A-Za-z_$][A-Za-z0-9_.$-]{0,63}")

Scalar = str | int | float | bool | None


class _Part(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    pass


# What a mission is


class Uuid(_Part, frozen=True, tag="uuid", tag_field="make"):
    """A random UUID (version 4)."""


class Integer(_Part, frozen=True, kw_only=True, tag="integer", tag_field="make"):
    """A whole number from `low` to `high`, both included."""

    low: int
    high: int


class Choice(_Part, frozen=True, kw_only=True, tag="choice", tag_field="make"):
    """One of several values; `weights` says how often, evenly where it is left out."""

    of: Annotated[tuple[Scalar, ...], msgspec.Meta(min_length=1)]
    weights: tuple[int, ...] = ()


class Sequence(_Part, frozen=True, kw_only=True, tag="sequence", tag_field="make"):
    """One value after the other, from the first again after the last, by the mission's number."""

    of: Annotated[tuple[Scalar, ...], msgspec.Meta(min_length=1)]


class Text(_Part, frozen=True, kw_only=True, tag="text", tag_field="make"):
    """Letters and digits, drawn."""

    chars: Annotated[int, msgspec.Meta(ge=1, le=10_000)] = 10


class Counter(_Part, frozen=True, kw_only=True, tag="counter", tag_field="make"):
    """`first` for the load's first mission, one more for each that follows: no two missions have the same."""

    first: int = 1


class Table(_Part, frozen=True, kw_only=True, tag="table", tag_field="make"):
    """A row of a table, as one draw: its columns are the names that steps use. `order`: by number, or drawn."""

    columns: Annotated[tuple[str, ...], msgspec.Meta(min_length=1)]
    rows: Annotated[tuple[tuple[Scalar, ...], ...], msgspec.Meta(min_length=1)]
    order: Literal["sequence", "random"] = "sequence"


Datum = Uuid | Integer | Choice | Sequence | Text | Counter | Table


class Expect(_Part, frozen=True, kw_only=True):
    """What counts as the answer. A JSON object with an `error` that is not null, false or empty is none, whatever its status."""

    status: tuple[int | str, ...] = (200,)
    """Of an HTTP answer: numbers, or `2xx` for all of a hundred. Messages of a WebSocket have none."""
    pointer: str | None = None
    """A JSON pointer into the answer; what is there must be of `min_chars` and is what the patterns are looked for in. Without
    it the whole body is."""
    equals: Scalar | msgspec.UnsetType = msgspec.UNSET
    """The value that must stand at `pointer`."""
    min_chars: int = 1
    matching: str | None = None
    not_matching: str | None = None
    error_allowed: bool = False


class Step(_Part, frozen=True, kw_only=True):
    """One request and its answer; over a WebSocket one message, and messages back to the one that `until` matches."""

    name: str = ""
    method: Literal["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"] = "POST"
    path: str = ""
    """Behind the target's URL; for HTTP only."""
    headers: dict[str, str] = {}
    json: Any = msgspec.UNSET
    """The body, as JSON; over a WebSocket the message."""
    text: str | None = None
    """The body as text, in place of `json`."""
    capture: dict[str, str] = {}
    """Name -> JSON pointer into the answer: what later steps use as `{{ name }}`. One that leads nowhere fails the step."""
    expect: Expect = Expect()
    until: str | None = None
    """Over a WebSocket: a regular expression that finds the message that ends the answer; None: the first one does."""
    think_s: float | tuple[float, float] = 0.0
    """How long the user waits before this step: seconds, or from-to, drawn."""


class Flow(_Part, frozen=True, kw_only=True):
    """One kind of mission. `weight` says how many of each round are of this kind: the shares are exact."""

    name: str
    weight: int = 1
    entry: Literal["http", "websocket"] = "http"
    path: str = ""
    """Where a WebSocket is opened, behind the target's URL."""
    headers: dict[str, str] = {}
    """Of each request of the flow, or of a WebSocket's opening."""
    data: dict[str, Datum] = {}
    time_limit_s: float | None = None
    """How long a mission waits for its answers in all; thinking is not counted. None: the plan's."""
    steps: Annotated[tuple[Step, ...], msgspec.Meta(min_length=1, max_length=MAX_STEPS)]


class MissionFile(_Part, frozen=True, kw_only=True):
    """`kind: missions`."""

    kind: Literal["missions"]
    version: Literal[1] = 1
    data: dict[str, Datum] = {}
    """Of every flow; a flow's own of the same name wins."""
    flows: Annotated[tuple[Flow, ...], msgspec.Meta(min_length=1, max_length=1_000)]


# The plan's section


class Arrivals(_Part, frozen=True, kw_only=True):
    """For `for_s` seconds missions arrive at `per_s` a second; with `to_per_s` the rate goes there evenly."""

    for_s: float
    per_s: float = 0.0
    to_per_s: float | None = None
    name: str = ""
    max_open: int | None = None
    """How many missions may be under way in this phase; None: as many as in the others."""

    def over(self, factor: float) -> "Arrivals":
        """The same rates in so many times fewer seconds."""
        return msgspec.structs.replace(self, for_s=self.for_s / factor)


class Held(_Part, frozen=True, kw_only=True, tag="missions", tag_field="run"):
    """Our own missions. Either `concurrent` are held in flight, or they come by `arrivals`."""

    file: str = "missions.yaml"
    concurrent: int | None = None
    ramp_s: float = 1.0
    """In how many seconds the first `concurrent` missions are begun, evenly."""
    arrivals: tuple[Arrivals, ...] = ()
    max_open: int = 1_000
    """With arrivals: how many missions may be under way. One that is due beyond that is not sent, and is on record as unsent."""


class Locust(_Part, frozen=True, kw_only=True, tag="locust", tag_field="run"):
    """A Locust file as it is, in a process of its own. The target is the plan's; a `host` in the file is not used."""

    file: str
    users: int
    """-u"""
    users_per_s: float = 20.0
    """-r"""
    python: str | None = None
    """The Python that has Locust; None: the one that runs the drill."""
    stop_s: float = 10.0
    """How long tasks under way may go on at the end."""


class Artillery(_Part, frozen=True, kw_only=True, tag="artillery", tag_field="run"):
    """An Artillery profile: translated into missions, or given to the Artillery that is installed."""

    file: str
    by: Literal["translation", "artillery"] = "translation"
    max_arrivals: int
    """How many users the profile may bring in all: 50 a second that become 200 are 112,500 in 900 s."""
    max_open: int = 1_000


Load = Held | Locust | Artillery


class Missions(_Part, frozen=True, kw_only=True):
    """The plan's section `missions`."""

    loads: Annotated[tuple[Load, ...], msgspec.Meta(min_length=1, max_length=8)]
    time_limit_s: float = 30.0
    """How long a mission waits for its answers before it is cut."""
    max_body_bytes: int = 4 << 20
    """The longest answer that is read."""
    max_missions: int = 2_000_000
    """Of each load; beyond that none is begun. A mission of one step takes about a kilobyte on the disk."""

    @property
    def concurrent(self) -> int:
        """How many missions are to be in flight; 0 where all come by arrivals."""
        return sum(_held(load) for load in self.loads)

    @property
    def files(self) -> tuple[str, ...]:
        """The files that the loads are in, relative to the plan."""
        return tuple(dict.fromkeys(load.file for load in self.loads))


def _held(load: Load) -> int:
    match load:
        case Held():
            return load.concurrent or 0
        case Locust():
            return load.users
        case Artillery():
            return 0


def arriving(arrivals: tuple[Arrivals, ...]) -> int:
    """How many missions a schedule brings in all."""
    total = 0
    for part in arrivals:
        last_per_s = part.per_s if part.to_per_s is None else part.to_per_s
        total += round(part.for_s * (part.per_s + last_per_s) / 2)
    return total


# What must make sense


def read_missions(content: bytes, *, place: str, fmt: Format = "yaml") -> MissionFile:
    """Read a file of missions, whole and sensible. Raises Problem, the first of those that `file_problems` finds."""
    found = load_as(content, MissionFile, place=place, fmt=fmt)
    for problem in file_problems(found, place=place):
        raise problem
    return found


def section_problems(section: Missions, *, place: str, at: str = "/missions") -> Iterator[Problem]:
    """What is wrong with the plan's section, files apart."""
    if not 0.05 <= section.time_limit_s <= 3_600:
        yield wrong(place, f"{at}/time_limit_s", section.time_limit_s, "0.05 to 3,600 seconds", "choose one")
    if not 1_024 <= section.max_body_bytes <= 64 << 20:
        yield wrong(place, f"{at}/max_body_bytes", section.max_body_bytes, "1,024 to 67,108,864 bytes", "choose one")
    if not 1 <= section.max_missions < MISSIONS_PER_LOAD:
        yield wrong(place, f"{at}/max_missions", section.max_missions, "1 to 9,999,999 missions", "choose one")
    for nth, load in enumerate(section.loads):
        yield from _load_problems(load, place, f"{at}/loads/{nth}")


def _load_problems(load: Load, place: str, at: str) -> Iterator[Problem]:
    match load:
        case Held():
            if (load.concurrent is None) is not bool(load.arrivals):
                yield wrong(
                    place,
                    at,
                    "both concurrent and arrivals" if load.arrivals else "neither concurrent nor arrivals",
                    "one of the two",
                    "keep `concurrent: 200` to hold so many missions in flight, or `arrivals` for a rate",
                )
            if load.concurrent is not None and not 1 <= load.concurrent <= MAX_CONCURRENT:
                yield wrong(place, f"{at}/concurrent", load.concurrent, f"1 to {MAX_CONCURRENT} missions", "choose one")
            if not 0 <= load.ramp_s <= 3_600:
                yield wrong(place, f"{at}/ramp_s", load.ramp_s, "0 to 3,600 seconds", "choose one")
            yield from _open_problems(load.max_open, place, at)
            yield from _arrival_problems(load.arrivals, place, at)
        case Locust():
            if not 1 <= load.users <= MAX_CONCURRENT:
                yield wrong(place, f"{at}/users", load.users, f"1 to {MAX_CONCURRENT} users", "choose one")
            if not 0.01 <= load.users_per_s <= MAX_RATE_PER_S:
                yield wrong(place, f"{at}/users_per_s", load.users_per_s, "0.01 to 5,000", "choose one")
            if not 0 <= load.stop_s <= 600:
                yield wrong(place, f"{at}/stop_s", load.stop_s, "0 to 600 seconds", "choose one")
        case Artillery():
            if not 1 <= load.max_arrivals < MISSIONS_PER_LOAD:
                yield wrong(place, f"{at}/max_arrivals", load.max_arrivals, "1 to 9,999,999 users", "choose one")
            yield from _open_problems(load.max_open, place, at)


def _open_problems(max_open: int, place: str, at: str) -> Iterator[Problem]:
    if not 1 <= max_open <= MAX_CONCURRENT:
        yield wrong(place, f"{at}/max_open", max_open, f"1 to {MAX_CONCURRENT} missions", "choose one")


def _arrival_problems(arrivals: tuple[Arrivals, ...], place: str, at: str) -> Iterator[Problem]:
    for nth, part in enumerate(arrivals):
        here = f"{at}/arrivals/{nth}"
        if not 0 < part.for_s <= MAX_SECONDS:
            yield wrong(place, f"{here}/for_s", part.for_s, "more than 0, at most 86,400 seconds", "choose one")
        if part.max_open is not None:
            yield from _open_problems(part.max_open, place, here)
        for name, rate in (("per_s", part.per_s), ("to_per_s", part.to_per_s)):
            if rate is not None and not 0 <= rate <= MAX_RATE_PER_S:
                yield wrong(place, f"{here}/{name}", rate, "0 to 5,000 a second", "choose one")
    if arrivals and all(part.for_s > 0 for part in arrivals) and not arriving(arrivals):
        yield wrong(place, f"{at}/arrivals", "no arrival in all of it", "one at least", "give a phase a `per_s`")


def file_problems(file: MissionFile, *, place: str) -> Iterator[Problem]:
    """What is wrong with a file of missions that fits its shape."""
    yield from _data_problems(file.data, place, "/data")
    if sum(flow.weight for flow in file.flows) > MAX_ROUND:
        yield wrong(place, "/flows", "weights of more than 100,000 in all", "100,000 at most", "divide all of them")
    seen: dict[str, int] = {}
    for nth, flow in enumerate(file.flows):
        at = f"/flows/{nth}"
        if not re.fullmatch(r"[!-~ ]{1,80}", flow.name):
            yield wrong(place, f"{at}/name", repr(flow.name)[:60], "1 to 80 printable characters", "name the flow")
        if seen.setdefault(flow.name, nth) != nth:
            yield wrong(place, f"{at}/name", f"{flow.name!r} again", "a name of its own", "choose another name")
        if not 1 <= flow.weight <= 10_000:
            yield wrong(place, f"{at}/weight", flow.weight, "1 to 10,000", "leave the flow out, or give it a weight")
        yield from _flow_problems(flow, file.data, place, at)


def _flow_problems(flow: Flow, shared: Mapping[str, Datum], place: str, at: str) -> Iterator[Problem]:
    yield from _data_problems(flow.data, place, f"{at}/data")
    yield from _header_problems(flow.headers, place, f"{at}/headers")
    if flow.time_limit_s is not None and not 0.05 <= flow.time_limit_s <= 3_600:
        yield wrong(place, f"{at}/time_limit_s", flow.time_limit_s, "0.05 to 3,600 seconds", "choose one")
    socket = flow.entry == "websocket"
    if socket is not bool(flow.path):
        found = "no path" if socket else repr(flow.path)[:60]
        wanted = "where the WebSocket is opened" if socket else "paths in the steps: this flow's entry is http"
        yield wrong(place, f"{at}/path", found, wanted, "write `path: /agent/mission/ws`" if socket else "remove path")
    elif socket:
        yield from _path_problem(flow.path, place, f"{at}/path", "write `path: /agent/mission/ws`")
    known = {name for data in (shared, flow.data) for name in _drawn_names(data)}
    yield from _unknown(names_in((flow.path, *flow.headers.values())), known, place, at)
    for nth, step in enumerate(flow.steps):
        here = f"{at}/steps/{nth}"
        yield from _step_problems(step, place, here, socket=socket)
        body = step.text if step.json is msgspec.UNSET else step.json
        yield from _unknown(names_in((step.path, *step.headers.values(), body)), known, place, here)
        known |= step.capture.keys()


def _header_problems(headers: Mapping[str, str], place: str, at: str) -> Iterator[Problem]:
    yield from header_problems(headers, place=place, pointer=at)
    for name in headers:
        if name.lower().startswith("x-drill-"):
            yield wrong(place, at, repr(name)[:60], "none of ours", f"remove {name}: the driver sets it")


def _unknown(used: Iterator[str], known: set[str], place: str, at: str) -> Iterator[Problem]:
    for name in sorted(set(used) - known):
        meant = near(name, sorted(known))
        yield wrong(
            place,
            at,
            f"{{{{ {name} }}}}, which nothing makes",
            "a name of data, or one that an earlier step captures",
            f"write {{{{ {meant} }}}}" if meant else f"add `{name}: {{make: uuid}}` to data",
        )


def _drawn_names(data: Mapping[str, Datum]) -> Iterator[str]:
    for name, datum in data.items():
        if isinstance(datum, Table):
            yield from datum.columns
        else:
            yield name


def _step_problems(step: Step, place: str, at: str, *, socket: bool) -> Iterator[Problem]:
    yield from _header_problems(step.headers, place, f"{at}/headers")
    if socket:
        for name, said in (("path", step.path), ("headers", step.headers)):
            if said:
                yield wrong(place, f"{at}/{name}", name, "none: a message has none", f"move {name} to the flow")
        if step.json is msgspec.UNSET and step.text is None:
            yield wrong(place, at, "no message", "json or text", "add json: {...}")
    else:
        yield from _path_problem(step.path, place, f"{at}/path", "write `path: /agent/mission`")
        if step.until is not None:
            yield wrong(place, f"{at}/until", "until", "none over HTTP", "remove until")
    if step.json is not msgspec.UNSET and step.text is not None:
        yield wrong(place, at, "both json and text", "one of the two", "remove text")
    least, most = step.think_s if isinstance(step.think_s, tuple) else (step.think_s, step.think_s)
    if not 0 <= least <= most <= 600:
        yield wrong(place, f"{at}/think_s", step.think_s, "0 to 600 seconds, the lower one first", "choose one")
    for name, expression in (
        ("until", step.until),
        ("expect/matching", step.expect.matching),
        ("expect/not_matching", step.expect.not_matching),
    ):
        yield from _pattern_problem(expression, place, f"{at}/{name}")
    if step.expect.pointer is None and step.expect.equals is not msgspec.UNSET:
        yield wrong(place, f"{at}/expect", "equals without pointer", "where the value stands", "add pointer: /status")
    for name, pointer in (
        ("expect/pointer", step.expect.pointer),
        *((f"capture/{n}", p) for n, p in step.capture.items()),
    ):
        if pointer is not None and pointer and not pointer.startswith("/"):
            yield wrong(place, f"{at}/{name}", repr(pointer)[:60], "a JSON pointer", f"write /{pointer.lstrip('$./')}")
    for name in step.capture:
        yield from _name_problem(name, place, f"{at}/capture")
    if not step.expect.status:
        yield wrong(place, f"{at}/expect/status", "none", "one or more", "write `status: [200]`")
    if step.expect.min_chars < 0:
        yield wrong(place, f"{at}/expect/min_chars", step.expect.min_chars, "0 or more", "write `min_chars: 1`")
    if not step.name.isprintable() or len(step.name) > 200:
        yield wrong(place, f"{at}/name", repr(step.name)[:60], "at most 200 printable characters", "name the step")
    for status in step.expect.status:
        if not (re.fullmatch(r"[1-5]xx", status) if isinstance(status, str) else 100 <= status <= 599):
            yield wrong(place, f"{at}/expect/status", status, "100 to 599, or 2xx", "write `status: [200]`")


def _path_problem(path: str, place: str, at: str, remedy: str) -> Iterator[Problem]:
    if not path.startswith("/") or re.search(r"[\x00-\x20\x7f#]", re.sub(r"\{\{.*?\}\}", "", path)):
        yield wrong(place, at, repr(path)[:60], "a path that begins with /", remedy)


def _pattern_problem(expression: str | None, place: str, at: str) -> Iterator[Problem]:
    if expression is None:
        return
    try:
        re.compile(expression)
    except re.error as error:
        yield wrong(place, at, f"{expression!r}: {error}"[:120], "a regular expression", "mend the expression")


def _name_problem(name: str, place: str, at: str) -> Iterator[Problem]:
    if not _NAME.fullmatch(name):
        yield wrong(place, at, repr(name)[:60], "letters, digits, `_`, `.`, `-`", "choose another name")


def _data_problems(data: Mapping[str, Datum], place: str, at: str) -> Iterator[Problem]:
    for name, datum in data.items():
        yield from _name_problem(name, place, at)
        here = f"{at}/{name}"
        match datum:
            case Integer() if datum.low > datum.high:
                yield wrong(place, here, f"low {datum.low}, high {datum.high}", "low <= high", "exchange them")
            case Choice() if datum.weights and (
                len(datum.weights) != len(datum.of) or min(datum.weights) < 0 or not sum(datum.weights)
            ):
                yield wrong(
                    place,
                    f"{here}/weights",
                    f"{len(datum.weights)} weights for {len(datum.of)} values, {sum(datum.weights)} in all",
                    "one whole number of at least 0 for each value, and not all 0",
                    "give each value its weight",
                )
            case Table():
                for column in datum.columns:
                    yield from _name_problem(column, place, f"{here}/columns")
                for nth, row in enumerate(datum.rows):
                    if len(row) != len(datum.columns):
                        found = f"{len(row)} values for {len(datum.columns)} columns"
                        yield wrong(place, f"{here}/rows/{nth}", found, "one for each column", "fill the row")
                        break
            case _:
                pass
