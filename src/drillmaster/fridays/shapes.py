"""The evidence of a Friday drill, column by column. The rules are in the package's docstring."""

from collections.abc import Mapping, Sequence
from typing import Literal, get_args

import msgspec

from drillmaster.evidence import Defect
from drillmaster.fridays import counting
from drillmaster.rules.alerts import WINDOW_LABEL, Ack, Alert, Detection, Injection, Looked, Wanted, match
from drillmaster.rules.tool_recovery import Recovery
from drillmaster.rules.transcripts import Census
from drillmaster.stats import quantile
from drillmaster.verdict import Absent, AtLeast, AtMost, Cite, Exact, Measure

__all__ = [
    "CUT",
    "FAILED",
    "NO_TOOLS",
    "OK",
    "OPEN",
    "UNSENT",
    "WINDOWS",
    "Chaos",
    "FlagOn",
    "Friday",
    "HeldAt",
    "Killed",
    "LoadEnded",
    "Missions",
    "Phase",
    "Sight",
    "WindowName",
]

WindowName = Literal["all", "baseline", "chaos", "recovery"]
WINDOWS: tuple[WindowName, ...] = get_args(WindowName)
NO_TOOLS = Recovery(missions=(), tools={}, unfinished=0, contradictions=(), unusable=(), strangers=0)
OK, FAILED, CUT, UNSENT, OPEN = range(5)
"""How a mission ended. Open: it was begun, and no line says its end."""


class FlagOn(msgspec.Struct, frozen=True, kw_only=True):
    """A flag as an injection turned it on."""

    flag: str
    kind: str = ""
    share: float | None = None
    """Of calls that it meets; None, with the next two: every call."""
    first: int | None = None
    every: int | None = None

    @property
    def always(self) -> bool:
        return (
            self.first is None and (self.every is None or self.every <= 1) and (self.share is None or self.share >= 1)
        )


class Chaos(msgspec.Struct, frozen=True, kw_only=True):
    """One injection of flags. `lifted_s` None: no line says that it was lifted."""

    id: str
    injected_s: float
    lifted_s: float | None
    why: str = ""
    """Of the lift: `ordered`, `expired`, …"""
    flags: tuple[FlagOn, ...] = ()
    off_s: Mapping[str, float] = {}
    """When a flag went off, where a line says so; it may be before the lift, of which the others wait."""
    gone: bool | None = None
    """Whether it was looked afterwards, and the flags were off; None: nobody looked."""
    cite: Cite | None = None


class LoadEnded(msgspec.Struct, frozen=True, kw_only=True):
    """A load that ended before anybody told it to."""

    source: str
    at_s: float
    why: str = ""


class Missions(msgspec.Struct, frozen=True, kw_only=True):
    """All missions that were due, in the order in which they were begun; a place in each column is one mission."""

    ids: Sequence[str] = ()
    flows: tuple[str, ...] = ()
    """Names of flows; `flow` points into them."""
    flow: Sequence[int] = b""
    websocket: Sequence[int] = b""
    """1: by WebSocket."""
    due_s: Sequence[float] = ()
    sent_s: Sequence[float] = ()
    """When its first byte was sent; NaN: nobody says, or it never was."""
    end_s: Sequence[float] = ()
    """NaN: open."""
    thought_s: Sequence[float] = ()
    """Of that the time in which the user thought, as the flow says: no part of the latency."""
    result: Sequence[int] = b""
    steps: Sequence[int] = ()
    """How many were sent."""
    line: Sequence[int] = ()
    """Of the line that says its end, else its begin."""
    whys: Mapping[str, int] = {}
    """Why missions failed or were cut, and how many."""
    file: str = "events/missions.jsonl"

    @property
    def n(self) -> int:
        return len(self.ids)


class Killed(msgspec.Struct, frozen=True, kw_only=True):
    """A capability that was killed: until when it ran on, and how many calls were refused."""

    capability: str
    tools: tuple[str, ...] = ()
    """The tools that it stands for; none named: the one of its name."""
    killed_s: float
    restored_s: float | None = None
    last_end_s: float | None = None
    """When the last call of it that ran, and was begun or under way after the kill, was over; None: there was none."""
    refused: int = 0
    """Calls that were refused after it."""
    ran: int = 0
    """Calls that ran all the same."""
    drained_s: Mapping[str, float] = {}
    """By worker, how long after the kill it held it and no call from before it ran any more; as it says itself."""
    undrained: tuple[str, ...] = ()
    """Workers that never said so."""
    over_s: float = 0.0
    """From the kill to when nobody looked any more."""
    cite: Cite | None = None


class Sight(msgspec.Struct, frozen=True, kw_only=True):
    """What one worker saw of one injection's flags. `met` by flag, as it counted."""

    worker: str
    window: str
    seen_s: float | None
    """When it first held a revision in which they were on; None: it never did."""
    met: Mapping[str, int] = {}
    lost: bool = False
    """It fell silent while they were on."""


class HeldAt(msgspec.Struct, frozen=True, kw_only=True):
    """The driver's own counts, one a second or so: how many were in flight on average, from when to when."""

    from_s: Sequence[float] = ()
    to_s: Sequence[float] = ()
    mean: Sequence[float] = ()


class Phase(msgspec.Struct, frozen=True):
    """A phase of the drill as the conductor began it."""

    name: str
    began_s: float
    ended_s: float


class Friday(msgspec.Struct, frozen=True, kw_only=True):
    """All a gate may look at."""

    run: str
    service: str
    missions: Missions
    chaos: tuple[Chaos, ...] = ()
    phases: tuple[Phase, ...] = ()
    planned_s: Mapping[str, float] = {}
    """`baseline_s`, `fault_s`, `recovery_s`, as the manifest has them."""
    requests: int = 0
    """That missions sent."""
    tools: Recovery = NO_TOOLS
    by_tool: Mapping[str, Recovery] = {}
    """The same of one tool alone, for those that a row asks for."""
    alerts: tuple[Alert, ...] = ()
    acks: tuple[Ack, ...] = ()
    ready_s: Mapping[str, float] = {}
    """When each receiver was ready."""
    refused_deliveries: int = 0
    sights: tuple[Sight, ...] = ()
    workers: tuple[str, ...] = ()
    """All that ever asked the flag server."""
    met: Mapping[tuple[str, str], int] = {}
    """(window, flag) to how many calls met it, by all workers."""
    kills: tuple[Killed, ...] = ()
    held: HeldAt = HeldAt()
    loads_ended: tuple[LoadEnded, ...] = ()
    census: Census | None = None
    """None: no transcripts were recorded."""
    wanted: tuple[Wanted, ...] = ()
    """The alerts that the sealed matrix asks for."""
    seed: int = 0
    ended: str = ""
    """`completed`, `aborted`; empty: whoever ran it was killed."""
    ended_why: str = ""
    end_s: float = 0.0
    started_wall_ns: int = 0
    defects: tuple[Defect, ...] = ()
    """The first of them."""
    own_defects: int = 0
    """In files of ours."""
    worker_defects: int = 0
    """In the workers' timeline; each may be a tool's line that is missing."""
    unreadable: int = 0
    """Lines of ours that lack what they have to say."""
    late: int = 0
    seal_problems: tuple[str, ...] = ()
    stamps: tuple[str, ...] = ()
    age_s: float | None = None
    digest: str = ""
    examined: Mapping[str, int] = {}

    @property
    def end_ns(self) -> int:
        return round(self.end_s * 1e9)

    def as_of(self, now_ns: int) -> "Friday":
        """The same with its age, in wall time."""
        age_s = (now_ns - self.started_wall_ns) / 1e9 - self.end_s
        return msgspec.structs.replace(self, age_s=max(0.0, age_s))

    # Windows

    def span(self, window: WindowName) -> tuple[float, float] | None:
        """From when to when a window was; None: there was none."""
        load = self.load_span
        if load is None:
            return None
        begin_s, end_s = load
        if window == "all":
            return load
        if not self.chaos:
            return None
        injected_s = min(one.injected_s for one in self.chaos)
        lifted_s = max(end_s if one.lifted_s is None else one.lifted_s for one in self.chaos)
        from_s, to_s = {
            "baseline": (begin_s, injected_s),
            "chaos": (injected_s, lifted_s),
            "recovery": (lifted_s, end_s),
        }[window]
        return (from_s, to_s) if to_s > from_s else None

    @property
    def load_span(self) -> tuple[float, float] | None:
        """From the first phase's begin to the last one's end; where no phase is told, of the missions' own dues."""
        if self.phases:
            begin_s, end_s = self.phases[0].began_s, self.phases[-1].ended_s
            return (begin_s, end_s) if end_s > begin_s else None
        due = self.missions.due_s
        return (min(due), max(due)) if len(due) > 1 and max(due) > min(due) else None

    def places(self, window: WindowName, *, websocket: bool | None = None, flow: str | None = None) -> list[int]:
        """The missions of a window, by place; of one entry point and one flow where they are named."""
        missions = self.missions
        span = (float("-inf"), float("inf")) if window == "all" else self.span(window)
        if span is None:
            return []
        from_s, to_s = span
        if window == "recovery":
            to_s = float("inf")  # one that was due as the load ended is of it too
        found = [at for at, due_s in enumerate(missions.due_s) if from_s <= due_s < to_s]
        if window == "baseline":
            found = [at for at, due_s in enumerate(missions.due_s) if due_s < to_s]
        if websocket is not None:
            found = [at for at in found if bool(missions.websocket[at]) is websocket]
        if flow is not None:
            found = [at for at in found if missions.flows[missions.flow[at]] == flow]
        return found

    # Figures

    def latency(self, places: Sequence[int], q: float) -> Measure:
        """Measure a quantile of missions' latencies, from when they were due. See rule 1."""
        ok_s, cut_s = self.latencies(places)
        if not ok_s and not cut_s:
            return Absent("no mission that was answered")
        return quantile(ok_s, q, censored=cut_s, confidence=0.90)

    def latencies(self, places: Sequence[int]) -> tuple[list[float], list[float]]:
        """Latencies of missions that went well, and of those that were cut, unsent or open: at least so long."""
        missions, ok_s, cut_s = self.missions, [], []
        for at in places:
            how = missions.result[at]
            if how == OK:
                ok_s.append(missions.end_s[at] - missions.due_s[at] - missions.thought_s[at])
            elif how != FAILED:
                end_s = missions.end_s[at]
                over_s = end_s if end_s == end_s else self.end_s
                cut_s.append(max(0.0, over_s - missions.due_s[at] - missions.thought_s[at]))
        return ok_s, cut_s

    def in_flight(self, window: WindowName) -> "counting.Held | None":
        """How many missions were in flight over a window; None: there is no such window."""
        span = self.span(window)
        return None if span is None else counting.held(self.missions, self.held, span, self.end_s)

    def recovered(self, places: Sequence[int], tool: str | None = None) -> "counting.Recovered":
        """How many missions' tools succeeded after retries."""
        found = self.tools if tool is None else self.by_tool.get(tool, NO_TOOLS)
        ids = self.missions.ids
        return counting.recovered(found, self.kills, frozenset(ids[at] for at in places), self.started_wall_ns)

    def detection(self, wanted: Wanted) -> Detection | None:
        """What came of the first injection for one alert; None: nothing was injected, or nobody listened."""
        if not self.chaos:
            return None
        injections = [
            Injection(
                run=self.run,
                window=one.id,
                injected_ns=round(one.injected_s * 1e9),
                lifted_ns=None if one.lifted_s is None else round(one.lifted_s * 1e9),
            )
            for one in sorted(self.chaos, key=lambda one: one.injected_s)
        ]
        ready = [at for name, at in self.ready_s.items() if not wanted.receivers or name in wanted.receivers]
        if not ready:
            return None
        # Whoever is not ready yet may hide an alert from before: all that count have to be.
        found = []
        for at, one in enumerate(injections):
            next_ns = injections[at + 1].injected_ns if at + 1 < len(injections) else None
            alerts, until_ns = self._alerts_of(one.window, next_ns)
            looked = Looked(from_ns=round(max(ready) * 1e9), until_ns=until_ns)
            found.append(match(alerts, self.acks, one, wanted, looked, earlier=injections[:at]))
        return max(found, key=lambda one: _span_s(one.delay))

    def _alerts_of(self, window: str, next_ns: int | None) -> tuple[list[Alert], int]:
        """Alerts that may be of an injection, and until when was looked: what says no window is the next one's from then on."""
        if next_ns is None:
            return list(self.alerts), self.end_ns
        kept = [one for one in self.alerts if one.at_ns < next_ns or one.labels.get(WINDOW_LABEL) == window]
        unsaid = any(one.at_ns >= next_ns and WINDOW_LABEL not in one.labels for one in self.alerts)
        return kept, next_ns if unsaid else self.end_ns

    def metrics(self) -> dict[str, Measure]:
        """Give figures by name, each with its unit; `p95_latency` is in seconds, as the article's recorder names it."""
        whole = self.places("all")
        found: dict[str, Measure] = {
            "p95_latency": self.latency(whole, 0.95),
            "missions": Exact(float(self.missions.n)),
            "mission_success_ratio": counting.ratio(sum(self.missions.result[at] == OK for at in whole), len(whole)),
        }
        detections = [one for one in map(self.detection, self.wanted) if one is not None]
        nobody = Absent("no row asks for an alert, or nobody listened")
        delay = max((one.delay for one in detections), key=_span_s, default=nobody)
        ack = max((one.ack for one in detections), key=_span_s, default=nobody)
        found["detector_delay_ms"] = _scaled(delay, 1_000.0)
        found["pager_ack_seconds"] = ack if self.acks or isinstance(ack, Absent) else Absent("nobody acknowledged")
        for window in ("baseline", "chaos", "recovery"):
            found[f"{window}.p95_latency_s"] = self.latency(self.places(window), 0.95)
        recovered = self.recovered(self.places("chaos"))
        found["tool_success_ratio"] = counting.ratio(recovered.ok, recovered.n)
        found["tool_attempts_per_call"] = recovered.attempts_per_call
        if self.census is None:
            found["replay_availability_ratio"] = Absent("no transcripts were recorded")
        else:
            found["replay_availability_ratio"] = counting.ratio(self.census.complete, self.census.expected)
        held = self.in_flight("all")
        found["in_flight_mean"] = Absent("no load") if held is None else Exact(held.mean)
        for kill in self.kills:
            found[f"kill.{kill.capability}_s"] = counting.kill(kill)
        return found


def _span_s(measure: Measure) -> float:
    """Order measures by how bad they are; what is not known is the worst."""
    return float("inf") if isinstance(measure, Absent) else measure.value


def _scaled(measure: Measure, by: float) -> Measure:
    match measure:
        case Exact(value=value, n=n, low=low, high=high):
            return Exact(value * by, n, None if low is None else low * by, None if high is None else high * by)
        case AtLeast(value=value, n=n):
            return AtLeast(value * by, n)
        case AtMost(value=value, n=n):
            return AtMost(value * by, n)
    return measure
