"""What a matrix is made of. The rules are in the package's docstring."""

from typing import Any, Literal

import msgspec

from drillmaster.verdict import Cite, Measure

__all__ = [
    "BAD",
    "GOOD",
    "UNSETTLED",
    "Back",
    "Cell",
    "LeftOut",
    "NotRun",
    "Pair",
    "Result",
    "Table",
    "Told",
    "Wanted",
    "Word",
]

Word = Literal[
    "survived by fallback",
    "survived by retry",
    "no fallback needed",
    "engaged in part",
    "never engaged",
    "answered with garbage",
    "hung",
    "not told",
    "not met",
]
"""What became of a cell that was run, in the order from good to bad, and then what settles nothing."""
GOOD: frozenset[str] = frozenset({"survived by fallback", "survived by retry", "no fallback needed"})
BAD: frozenset[str] = frozenset({"engaged in part", "never engaged", "answered with garbage", "hung"})
UNSETTLED: frozenset[str] = frozenset({"not told", "not met"})


class Wanted(msgspec.Struct, frozen=True, kw_only=True):
    """A fault to try, with the parameters that it is tried with."""

    label: str
    """Its tag, and what tells it from another of the same tag."""
    tag: str
    params: dict[str, Any]


class Pair(msgspec.Struct, frozen=True, kw_only=True):
    """An API that the agent was heard to speak, and whether it asked for streams."""

    dialect: str
    stream: bool
    attempts: int


class Cell(msgspec.Struct, frozen=True, kw_only=True):
    """One fault in one API and way of asking. `dialect` None: a fault of port or connection, which meets all of them."""

    cell: str
    """Its window: `w1`, `w2`, …"""
    label: str
    fault: str
    params: dict[str, Any]
    dialect: str | None
    stream: bool | None


class LeftOut(msgspec.Struct, frozen=True, kw_only=True):
    """A cell that is not run. `dialect` None: in no API."""

    label: str
    dialect: str | None
    stream: bool | None
    why: str
    should: bool = False
    """It was to be run, and was not: time, spend, a stop, an agent that was not back."""


class Back(msgspec.Struct, frozen=True, kw_only=True):
    """Whether the agent was back after a cell's lift, and when."""

    cell: str
    back: bool
    after_s: float
    why: str = ""


class NotRun(msgspec.Struct, frozen=True, kw_only=True):
    """A cell that was laid out and not run."""

    cell: str
    why: str


class Told(msgspec.Struct, frozen=True, kw_only=True):
    """What the conductor wrote of its cells."""

    cells: tuple[Cell, ...] = ()
    left_out: tuple[LeftOut, ...] = ()
    not_run: dict[str, str] = {}
    """Cell -> why."""
    backs: dict[str, Back] = {}
    restarted: frozenset[str] = frozenset()
    """Cells after which the agent was started anew."""
    requests_per_cell: int = 1
    holes: tuple[str, ...] = ()
    """Lines of its own that cannot be read."""


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """A cell that was run, and what became of the users' requests that met it."""

    cell: str
    label: str
    fault: str
    params: dict[str, Any]
    dialect: str | None
    stream: bool | None
    word: Word
    why: str
    applies: bool
    """False: requests came as the fault wants them, and it found nothing in them to act on. Nothing is owed then."""
    failed: bool | None
    """Whether it failed more users than the policy allows; None: there is no policy, or nothing was settled, or too little."""
    requests: int
    """That met the fault, and whose end was the agent's own doing."""
    failures: int
    users: dict[str, int]
    """Their outcomes."""
    cut_short: int
    """More that met it, and were still under way when it was lifted."""
    wire: dict[str, int]
    """Which branches the wire saw: attempts, by how they ended."""
    fallbacks: dict[str, int]
    """Which fallbacks the worker said engaged; empty: it says nothing."""
    exceptions: dict[str, int]
    """Exceptions that escaped the agent, by class."""
    deaths: int
    """How often its process ended by itself."""
    first_good_s: float | None
    """From the fault's first act to the end of the first good answer."""
    attempts_each: Measure
    most_attempts: Measure
    storm: Measure
    """Attempts for each request due, over the baseline's."""
    back_s: float | None
    """From the lift until the agent was back; None: it was not, or the drill ended before that was known."""
    not_back: str
    """Why it was not back."""
    restarted: bool
    """The drill then started it anew."""
    window_s: float
    cites: tuple[Cite, ...]


class Table(msgspec.Struct, frozen=True, kw_only=True):
    """A whole matrix: what was run and what came of it, what was not run and why."""

    kind: Literal["fault-matrix"] = "fault-matrix"
    run: str
    service: str
    started_at: str
    took_s: float
    stamps: tuple[str, ...]
    spoken: tuple[Pair, ...]
    baseline: str
    """What the users of the baseline got, in words."""
    results: tuple[Result, ...]
    not_run: tuple[LeftOut, ...]
    max_failed_ratio: float | None
    """The policy's; None: there is none, and the matrix measures without judging."""
    clock_step_s: float
    """How far the wall clock moved against the monotonic one; a worker's marks come by the first."""
    sealed: bool
    """Sealed, and unchanged since."""
    ended: str
    """Empty: the drill ran to its end."""
    problems: tuple[str, ...]
    """Why nothing of this proves anything: not sealed, altered, holes in our own evidence."""
    digest: str
