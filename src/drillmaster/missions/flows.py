"""Flows made ready: what is the same for each mission is cut and checked once, and one mission's requests are drawn from it.

`requests_of` is the way back: from a run's book and a mission's id to what that mission sent.
"""

import re
from collections.abc import Iterator, Mapping
from hashlib import sha256
from typing import Any, NamedTuple

import msgspec

from drillmaster.errors import Problem
from drillmaster.friday.answers import Judge
from drillmaster.friday.drawing import Deal, draw, draw_data, draw_think_ns, mission_id
from drillmaster.friday.missions import MISSIONS_PER_LOAD, Choice, Datum, Flow, MissionFile, Sequence, Step, Table
from drillmaster.friday.templates import (
    Compiled,
    Unfilled,
    header_template,
    json_template,
    path_template,
    text_template,
)
from drillmaster.missions.settings import Book, OwnLoad
from drillmaster.outcomes import PROBE_TRACE
from drillmaster.sanity import fill_in, split_url

__all__ = [
    "Drawn",
    "FlowPlan",
    "MissionPlans",
    "Request",
    "StepPlan",
    "authority_of",
    "digest_of",
    "recorded",
    "requests_of",
]

_RUN_SEED = "{seed}/{load}"


class Request(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a step sends, as it is recorded: `${NAME}` stays, and so does `{{ name }}` of what an earlier step captures."""

    step: str
    method: str = ""
    path: str = ""
    headers: dict[str, str] = {}
    body: str | None = None


class StepPlan:
    """One step, made ready."""

    __slots__ = ("as_json", "body", "headers", "judge", "late", "method", "name", "on_record", "path", "step", "until")

    def __init__(
        self, flow: Flow, step: Step, nth: int, captured: frozenset[str], environ: Mapping[str, str] | None
    ) -> None:
        self.step = step
        self.name = step.name or (
            f"message {nth + 1}" if flow.entry == "websocket" else f"{step.method} {step.path}"[:80]
        )
        self.method = step.method
        self.path = path_template(step.path)
        headers = {} if flow.entry == "websocket" else {**flow.headers, **step.headers}
        self.on_record = tuple((name, header_template(value)) for name, value in headers.items())
        if environ is not None:
            headers = fill_in(headers, environ, place=f"flow {flow.name}, step {self.name}: headers")
        self.headers = tuple((name, header_template(value)) for name, value in headers.items())
        self.as_json = step.json is not msgspec.UNSET
        self.body: Compiled | None = None
        if self.as_json:
            self.body = json_template(step.json)
        elif step.text is not None:
            self.body = text_template(step.text)
        used = {
            *self.path.names,
            *(self.body.names if self.body else ()),
            *(n for _, h in self.headers for n in h.names),
        }
        self.late = bool(used & captured)
        """Whether it holds what an earlier step captured, and cannot be worded before."""
        self.judge = Judge(step)
        self.until = None if step.until is None else re.compile(step.until.encode())


class FlowPlan:
    """One flow, made ready."""

    __slots__ = ("flow", "headers", "limit_ns", "path", "spelled", "steps")

    def __init__(
        self, flow: Flow, data: Mapping[str, Datum], *, time_limit_s: float, environ: Mapping[str, str] | None
    ) -> None:
        self.flow = flow
        self.limit_ns = round((time_limit_s if flow.time_limit_s is None else flow.time_limit_s) * 1e9)
        self.spelled = tuple(_spelled({**data, **flow.data}))
        """Names of data whose values a person wrote; those of others are identifiers and numbers that were drawn."""
        self.path = path_template(flow.path)
        headers = flow.headers
        if environ is not None:
            headers = fill_in(headers, environ, place=f"flow {flow.name}: headers")
        self.headers = tuple((name, header_template(value)) for name, value in headers.items())
        captured: frozenset[str] = frozenset()
        steps = []
        for nth, step in enumerate(flow.steps):
            steps.append(StepPlan(flow, step, nth, captured, environ))
            captured |= step.capture.keys()
        self.steps = tuple(steps)


def _spelled(data: Mapping[str, Datum]) -> Iterator[str]:
    for name, datum in data.items():
        match datum:
            case Table():
                yield from datum.columns
            case Choice() | Sequence():
                yield name
            case _:
                pass


class Drawn(NamedTuple):
    """One mission, drawn."""

    id: str
    number: int
    plan: FlowPlan
    values: dict[str, Any]
    trace: str


class _Unchanged(dict[str, Any]):
    """Values in which what is not known yet stays the placeholder it is."""

    def __missing__(self, name: str) -> str:
        return Unfilled("{{ " + name + " }}")


class MissionPlans:
    """All flows of one load, and the draw of its missions."""

    def __init__(
        self,
        missions: MissionFile,
        *,
        nth_load: int,
        seed: int,
        run: str,
        time_limit_s: float,
        environ: Mapping[str, str] | None,
    ) -> None:
        """`environ`: where `${NAME}` in headers is taken from; None leaves them, for records and replays. Raises Problem."""
        self._seed = _RUN_SEED.format(seed=seed, load=nth_load)
        self._first = nth_load * MISSIONS_PER_LOAD
        self.run = run
        self._missions = missions
        self._deal = Deal(missions, self._seed)
        self._plans = tuple(
            FlowPlan(flow, missions.data, time_limit_s=time_limit_s, environ=environ) for flow in missions.flows
        )

    @property
    def most_steps(self) -> int:
        """The most requests that one mission makes."""
        return max(len(plan.steps) for plan in self._plans)

    def draw(self, number: int) -> Drawn:
        """The load's mission with that number, from 1."""
        plan = self._plans[self._deal.index(number)]
        values = draw_data(self._missions.data, self._seed, number) if self._missions.data else {}
        if plan.flow.data:
            values.update(draw_data(plan.flow.data, self._seed, number))
        trace = f"{draw(self._seed, number, 'trace') | 1:032x}"
        if trace.startswith(PROBE_TRACE):
            trace = "1" + trace[1:]
        return Drawn(mission_id(self._first + number, self.run), number, plan, values, trace)

    def think_ns(self, drawn: Drawn, nth: int) -> int:
        return draw_think_ns(drawn.plan.steps[nth].step, self._seed, drawn.number, nth)

    def span(self, drawn: Drawn, nth: int) -> str:
        return f"{draw(self._seed, drawn.number, f'span/{nth}') >> 64 | 1:016x}"


def recorded(drawn: Drawn) -> tuple[Request, ...]:
    """A mission's requests for the record, with nothing in them that is not in the book or drawn."""
    values = _Unchanged(drawn.values)
    made = []
    websocket = drawn.plan.flow.entry == "websocket"
    for plan in drawn.plan.steps:
        made.append(
            Request(
                step=plan.name,
                method="" if websocket else plan.method,
                path=(drawn.plan.path if websocket else plan.path).fill(values),
                headers={name: header.fill(values) for name, header in plan.on_record},
                body=None if plan.body is None else plan.body.fill(values),
            )
        )
    return tuple(made)


def digest_of(requests: tuple[Request, ...]) -> str:
    """The first 16 hex digits of SHA-256 over the requests as they are recorded."""
    return sha256(msgspec.json.encode(requests)).hexdigest()[:16]


def requests_of(book: Book, mission: str) -> tuple[Drawn, tuple[Request, ...]]:
    """Draw a run's mission again, by its id. Raises Problem where the book cannot say what it sent."""
    match = re.fullmatch(r"m(\d{6,9})-(.{4})", mission)
    nth_load, number = divmod(int(match[1]), MISSIONS_PER_LOAD) if match is not None else (-1, 0)
    if match is None or match[2] != book.run[-4:] or not 0 <= nth_load < len(book.loads) or not number:
        raise Problem(
            f"mission {mission}",
            found="no mission of this run",
            wanted=f"m000001-{book.run[-4:]} or another",
            remedy="take an id from events/missions.jsonl",
        )
    load = book.loads[nth_load]
    if not isinstance(load, OwnLoad):
        raise Problem(
            f"mission {mission}",
            found=f"one of {load.source}, which draws its own data",
            wanted="a mission of ours, or of a translated profile",
            remedy="replay it from its transcript",
        )
    plans = MissionPlans(
        load.missions, nth_load=nth_load, seed=book.seed, run=book.run, time_limit_s=book.time_limit_s, environ=None
    )
    drawn = plans.draw(number)
    return drawn, recorded(drawn)


def authority_of(url: str) -> tuple[str, str, int, bool, str]:
    """A base URL's host, Host field, port, whether it is TLS, and the path that all paths follow. Raises Problem."""
    parts = split_url(url)
    if parts is None or parts.username is not None or parts.query or parts.fragment:
        raise Problem(
            "/target/url",
            found=repr(url.partition("?")[0])[:80] if parts is None else "user info, a query or a fragment",
            wanted="scheme, host, port and path of the agent",
            remedy="write http://127.0.0.1:8090",
        )
    tls = parts.scheme == "https"
    return parts.hostname or "", parts.netloc, parts.port or (443 if tls else 80), tls, parts.path.rstrip("/")
