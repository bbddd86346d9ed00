"""What an accounting of retries says. The rules are in the package's docstring."""

from typing import Literal

import msgspec

from drillmaster.verdict import Absent, Cite, Measure

__all__ = [
    "AT_ONCE_S",
    "GRAIN_S",
    "MOST_BINS",
    "RETURN_PERIODS",
    "RETURN_S",
    "Accounting",
    "Layers",
    "Load",
    "Nested",
    "Pauses",
    "Phase",
    "Rates",
    "Storm",
    "Tokens",
    "Waits",
]

GRAIN_S = 0.01
"""How far two clocks of one machine, or a timer and its clock, may stand apart before one of them counts as early."""
DATE_GRAIN_S = 1.0
"""The same for an HTTP-date, which has whole seconds."""
AT_ONCE_S = 0.1
"""A retry that comes sooner than this has not paused; the shortest first pause of an SDK is 0.375 s."""
RETURN_S = 10.0
RETURN_PERIODS = 10
MOST_BINS = 120

PhaseName = Literal["baseline", "fault", "recovery"]


class Layers(msgspec.Struct, frozen=True, kw_only=True):
    """Attempts by why they were sent; together they are all that belong to the phase's requests."""

    call: int = 0
    sdk: int = 0
    above: int = 0
    elsewhere: int = 0
    untold: int = 0
    unread: int = 0

    @property
    def retries(self) -> int:
        return self.sdk + self.above + self.untold


class Nested(msgspec.Struct, frozen=True, kw_only=True):
    """Requests whose calls both an SDK and something above it sent again, and the worst call of them."""

    requests: int = 0
    tries: int = 0
    """How often the layer above the SDK called it, for that one call."""
    attempts_a_try: int = 0
    """The most attempts the SDK made of one of them."""
    attempts: int = 0
    cites: tuple[Cite, ...] = ()


class Pauses(msgspec.Struct, frozen=True, kw_only=True):
    """What clients waited of their own before they tried again."""

    retries: int = 0
    at_once: int = 0
    """Those that came within `AT_ONCE_S`."""
    unread: int = 0
    """Those of the retries that are `unread`: two of one call or more, which no fallback explains alone."""
    p50_s: Measure = Absent("no retries")
    cites: tuple[Cite, ...] = ()


class Waits(msgspec.Struct, frozen=True, kw_only=True):
    """Answers that asked for a wait, and what their clients did."""

    asked: int = 0
    kept: int = 0
    early: int = 0
    gave_up: int = 0
    user_left: int = 0
    """The user's time was over before the wait was."""
    unreadable: int = 0
    """Answers that said so in a form that means nothing; not among `asked`."""
    longest_s: float | None = None
    """The longest wait that was asked for."""
    most_early_s: float | None = None
    """How much too early the earliest came."""
    early_cites: tuple[Cite, ...] = ()
    left_cites: tuple[Cite, ...] = ()


class Tokens(msgspec.Struct, frozen=True, kw_only=True):
    """What the phase's requests cost. `_estimated`: from bytes, high rather than low, where an answer does not say."""

    told: int = 0
    estimated: int = 0
    again: int = 0
    again_estimated: int = 0
    attempts: int = 0
    """Those that cost some."""
    again_attempts: int = 0
    nobodys: int = 0
    nobodys_estimated: int = 0
    """What attempts of nobody's cost, that started in the phase: in none of the sums above."""
    again_cites: tuple[Cite, ...] = ()


class Phase(msgspec.Struct, frozen=True, kw_only=True):
    """The requests of a phase, and the attempts that belong to them, whenever those were made."""

    name: PhaseName
    window: str | None
    requests: int
    attempts: int
    unattributed: int
    """Attempts that started in this phase and belong to nobody."""
    mean: Measure
    p95: Measure
    most: Measure
    """Attempts of one request; 95 of 100 had no more; the most one had."""
    most_cites: tuple[Cite, ...]
    layers: Layers
    nested: Nested
    pauses: Pauses
    waits: Waits
    tokens: Tokens
    for_nobody: int
    """Retries that started when their user had an answer, or had given up; an agent may well have other work then."""
    for_nobody_cites: tuple[Cite, ...]


class Load(msgspec.Struct, frozen=True, kw_only=True):
    """A stretch of time on the wire, whosever its attempts are."""

    start_s: float
    end_s: float
    due: int
    """Users' requests due in it."""
    attempts: int
    retries: int
    """Of them, those that follow a failure: `sdk`, `above` and `untold`."""
    unattributed: int = 0
    """Of them, those of nobody's: how many of these are retries is not known."""
    each: Measure
    """Attempts for each request due."""
    factor: Measure
    """`each` over the baseline's: the storm factor."""
    peak_per_s: int
    """The most attempts in one whole second of it."""
    cites: tuple[Cite, ...] = ()
    """Its first attempts."""


class Storm(msgspec.Struct, frozen=True, kw_only=True):
    """One window, the return behind it, and the rest; `None` where it had no time."""

    window: str
    fault: Load
    back: Load | None
    rest: Load | None


class Rates(msgspec.Struct, frozen=True, kw_only=True):
    """Attempts and users' requests due by time, for a picture: bins of one width from the run's start, `MOST_BINS` at most."""

    bin_s: float
    attempts: tuple[int, ...]
    due: tuple[int, ...]


class Accounting(msgspec.Struct, frozen=True, kw_only=True):
    """Phases in order: the baseline, then fault and recovery of each window."""

    baseline: Load
    storms: tuple[Storm, ...]
    phases: tuple[Phase, ...]
    rates: Rates

    def phase(self, name: PhaseName, window: str | None) -> Phase | None:
        return next((p for p in self.phases if p.name == name and (window is None or p.window == window)), None)

    def storm(self, window: str) -> Storm | None:
        return next((s for s in self.storms if s.window == window), None)
