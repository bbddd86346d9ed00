"""One Friday drill on paper, in which every row holds, and what has to be wrong with it for each check to go red."""

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from drillmaster.evidence import Defect
from drillmaster.fridays import CUT, FAILED, OK, Chaos, FlagOn, Friday, HeldAt, Killed, Missions, Phase, Sight
from drillmaster.gates import Case
from drillmaster.gates._matrix_rows import ChaosProbe, KillProbe, LoadProbe, Row, TranscriptsProbe
from drillmaster.gates.matrix import MatrixGate
from drillmaster.rules.alerts import Ack, Alert, Wanted
from drillmaster.rules.tool_recovery import MissionTools, Recovery
from drillmaster.rules.transcripts import Census, Told
from drillmaster.verdict import Cite, Status

__all__ = ["ROWS", "cases", "good", "matrix"]

_with = msgspec.structs.replace
_RUN, _WINDOW = "20261204T140000Z-1a2b", "w1"
_EACH_S = 0.2
"""Between one mission and the next: 5 a second over 300 s, 2 s each, so that 10 are in flight."""
_N, _LONG_S = 1_500, 2.0
_WALL0_NS = 1_796_392_800 * 10**9
_ALERT = Wanted(rule="RefundErrors", least="sev2")


def _row(id_: str, measure: Any, objective: str, probe: Any, window: Any, **more: Any) -> Row:
    return Row(
        id=id_,
        name=id_.replace("-", " "),
        measure=measure,
        objective=objective,
        probe=probe,
        window=window,
        owner="Ada of support",
        source="launch-checklist",
        **more,
    )


ROWS: tuple[Row, ...] = (
    _row("mission-latency", "mission_latency", "p95 < 2.5 s", LoadProbe(in_flight=10), "all"),
    _row("mission-success", "mission_success", ">= 99 %", LoadProbe(in_flight=10), "all"),
    _row("detector-time", "detector_delay", "< 60 s", ChaosProbe(flags=("refundError",)), "chaos", alert=_ALERT),
    _row("pager-ack", "pager_ack", "<= 120 s", ChaosProbe(flags=("refundError",)), "chaos", alert=_ALERT),
    _row("tool-success", "tool_success", ">= 99 %", ChaosProbe(flags=("toolTimeout",)), "chaos"),
    _row("replay", "replay_availability", ">= 100 %", TranscriptsProbe(sample=20), "all"),
    _row("kill-switch", "kill_switch", "< 1 s", KillProbe(capability="refund"), "all"),
)


def matrix(*rows: Row, **more: Any) -> MatrixGate:
    """The matrix, or some rows of it."""
    return MatrixGate(service="escalation-concierge", rows=rows or ROWS, **more)


def good() -> Friday:
    """A drill of 300 s with chaos from 100 s to 200 s."""
    ids = tuple(f"m{n}" for n in range(_N))
    due = [n * _EACH_S for n in range(_N)]
    told = tuple(
        Told(
            mission=one,
            steps=1,
            parts=1,
            users=1,
            lines=4,
            ok=True,
            why=None,
            file="transcripts/w.ndjson",
            line=n * 4 + 1,
        )
        for n, one in enumerate(ids)
    )
    tools = tuple(
        MissionTools(
            mission=one,
            outcome="recovered" if n % 10 == 0 else "ok",
            tools=("refund",),
            calls=1,
            attempts=2 if n % 10 == 0 else 1,
            recovered=int(n % 10 == 0),
            failed=0,
            killed=0,
            first_wall_ns=_WALL0_NS + round(due[n] * 1e9),
            last_wall_ns=_WALL0_NS + round((due[n] + 1) * 1e9),
            file="timeline.jsonl",
            line=n + 1,
        )
        for n, one in enumerate(ids)
    )
    return Friday(
        run=_RUN,
        service="escalation-concierge",
        seed=7,
        missions=Missions(
            ids=ids,
            flows=("refund",),
            flow=[0] * _N,
            websocket=[n % 2 for n in range(_N)],
            due_s=due,
            sent_s=due,
            end_s=[at + _LONG_S for at in due],
            thought_s=[0.0] * _N,
            result=[OK] * _N,
            steps=[1] * _N,
            line=list(range(1, _N + 1)),
        ),
        requests=_N,
        phases=(Phase("baseline", 0.0, 100.0), Phase("fault", 100.0, 200.0), Phase("recovery", 200.0, 300.0)),
        planned_s={"baseline_s": 100.0, "fault_s": 100.0, "recovery_s": 100.0},
        chaos=(
            Chaos(
                id=_WINDOW,
                injected_s=100.0,
                lifted_s=200.0,
                flags=(
                    FlagOn(flag="toolTimeout", kind="timeout", share=0.1),
                    FlagOn(flag="refundError", kind="error", share=0.1),
                ),
                gone=True,
                cite=Cite("events/flags.jsonl", 2),
            ),
        ),
        held=HeldAt(from_s=[float(n) for n in range(300)], to_s=[n + 1.0 for n in range(300)], mean=[10.0] * 300),
        tools=Recovery(missions=tools, tools={}, unfinished=0, contradictions=(), unusable=(), strangers=0),
        alerts=(_alert(130.0),),
        acks=(Ack(at_ns=175 * 10**9, receiver="pager", key="k", who_kind="user"),),
        ready_s={"pager": 0.5},
        workers=("a", "b"),
        sights=(_sight("a", 100.2), _sight("b", 100.4)),
        met={(_WINDOW, "toolTimeout"): 50, (_WINDOW, "refundError"): 50},
        kills=(Killed(capability="refund", killed_s=250.0, last_end_s=250.4, refused=20, ran=3, over_s=50.0),),
        census=Census(
            run=_RUN,
            missions=told,
            unsent=0,
            strangers=0,
            first_strangers=(),
            files=1,
            lines=4 * _N,
            spoilt=0,
            first_spoilt=(),
            lost=0,
        ),
        ended="completed",
        end_s=305.0,
        started_wall_ns=_WALL0_NS,
        age_s=60.0,
    )


def _alert(at_s: float, severity: str = "sev2") -> Alert:
    at_ns = round(at_s * 1e9)
    return Alert(
        at_ns=at_ns,
        receiver="pager",
        rule="RefundErrors",
        severity=severity,
        key="k",
        starts_ns=at_ns,
        cite=Cite("events/detectors.jsonl", 3),
    )


def _sight(worker: str, seen_s: float | None) -> Sight:
    return Sight(worker=worker, window=_WINDOW, seen_s=seen_s, met={"toolTimeout": 25, "refundError": 25})


def cases() -> Iterator[Case]:
    """Give each check a red and a green case, and each row a failed and a refused one."""
    whole = matrix(max_age_s=3600.0)
    held = good()
    green = (
        "sealed lines-usable service whole fresh missions chaos overlap gone sight flag.toolTimeout flag.refundError"
    )
    for check in (*green.split(), *(f"row.{row.id}" for row in ROWS)):
        yield _one(check, "pass", held, whole)
    yield from _admissions(held, whole)
    yield from _failed(held)
    yield from _refused(held)


def _admissions(held: Friday, whole: MatrixGate) -> Iterator[Case]:
    torn = Defect("events/missions.jsonl", 9, "torn", "half a line", "one whole JSON object a line")
    chaos = held.chaos[0]
    reds: Sequence[tuple[str, Friday]] = (
        ("sealed", _with(held, seal_problems=("not sealed",))),
        ("lines-usable", _with(held, own_defects=1, defects=(torn,))),
        ("lines-usable", _with(held, unreadable=1)),
        ("service", _with(held, service="another")),
        ("whole", _with(held, ended="aborted")),
        ("whole", _with(held, ended="")),
        ("whole", _with(held, phases=held.phases[:2])),
        ("fresh", _with(held, age_s=7200.0)),
        ("fresh", _with(held, age_s=None)),
        ("missions", _with(held, missions=Missions())),
        ("missions", _with(held, requests=0)),
        ("chaos", _with(held, chaos=())),
        ("chaos", _with(held, chaos=(_with(chaos, lifted_s=None),))),
        ("chaos", _with(held, chaos=(_with(chaos, flags=()),))),
        ("chaos", _with(held, chaos=(_with(chaos, lifted_s=130.0),))),
        ("overlap", _load_until(held, 100.0)),
        ("gone", _with(held, chaos=(_with(chaos, gone=None),))),
        ("gone", _with(held, chaos=(_with(chaos, gone=False),))),
        ("sight", _with(held, sights=(_sight("a", 100.2), _sight("b", None)))),
        ("sight", _with(held, sights=())),
        ("flag.toolTimeout", _with(held, met={(_WINDOW, "refundError"): 50})),
        ("flag.refundError", _with(held, chaos=(_with(chaos, flags=chaos.flags[:1]),))),
    )
    for check, evidence in reds:
        yield _one(check, "refused", evidence, whole)


def _failed(held: Friday) -> Iterator[Case]:
    bad = _with(held.tools.missions[600], outcome="failed", failed=1)
    reds: Sequence[tuple[str, Friday]] = (
        # Exactly at the limit: `<` is strict.
        ("mission-latency", _slower(held, 2.5)),
        ("mission-success", _ended(held, FAILED, 100)),
        ("detector-time", _with(held, alerts=())),
        ("detector-time", _with(held, alerts=(_alert(160.0),))),
        ("detector-time", _with(held, alerts=(_alert(130.0, "sev3"),))),
        ("detector-time", _with(held, alerts=(_alert(40.0), _with(_alert(40.0), at_ns=130 * 10**9)))),
        ("pager-ack", _with(held, acks=())),
        ("tool-success", _with(held, tools=_with(held.tools, missions=(bad,) * 20 + held.tools.missions[620:]))),
        ("replay", _with(held, census=_lacking(held))),
        ("kill-switch", _with(held, kills=(_with(held.kills[0], last_end_s=251.0),))),
    )
    for id_, evidence in reds:
        yield _one(f"row.{id_}", "fail", evidence, matrix())


def _refused(held: Friday) -> Iterator[Case]:
    few = _with(ROWS[4], window="chaos")
    websocket = _with(ROWS[0], id="by-websocket", entry="websocket")
    by_http = _with(held, missions=_with(held.missions, websocket=[0] * _N))
    reds: Sequence[tuple[Row, Friday]] = (
        (_with(ROWS[0], probe=LoadProbe(in_flight=200)), held),
        (ROWS[0], _with(held, held=_with(held.held, mean=[8.2] * 300))),
        (ROWS[0], _ended(held, CUT, 100)),
        (ROWS[0], _ended(held, FAILED, 1)),
        (websocket, by_http),
        (ROWS[2], _with(held, ready_s={})),
        (ROWS[2], _with(held, alerts=(_alert(130.0, "rather bad"),))),
        (ROWS[2], _with(held, alerts=(), end_s=150.0)),
        (ROWS[3], _with(held, alerts=())),
        (few, _with(held, tools=_with(held.tools, missions=held.tools.missions[600:650]))),
        (few, _with(held, tools=_with(held.tools, missions=()))),
        (few, _with(held, worker_defects=1)),
        (few, _with(held, chaos=(*held.chaos, _with(held.chaos[0], id="enabled-1", injected_s=280.0, lifted_s=282.0)))),
        (ROWS[5], _with(held, census=None)),
        (ROWS[6], _with(held, kills=())),
        (ROWS[6], _with(held, kills=(_with(held.kills[0], refused=0),))),
    )
    for row, evidence in reds:
        yield _one(f"row.{row.id}", "refused", evidence, matrix(row))


def _one(check: str, status: Status, evidence: Friday, gate: MatrixGate) -> Case:
    return Case(check=check, status=status, evidence=evidence, gate=gate)


def _slower(held: Friday, each_s: float) -> Friday:
    missions = held.missions
    return _with(
        held, missions=_with(missions, due_s=[0.0] * _N, sent_s=[0.0] * _N, end_s=[each_s] * _N), held=held.held
    )


def _ended(held: Friday, how: int, n: int) -> Friday:
    missions = held.missions
    return _with(held, missions=_with(missions, result=[how] * n + [OK] * (_N - n), whys={"status: 500": n}))


def _load_until(held: Friday, until_s: float) -> Friday:
    """The chaos came when the load was over."""
    missions, n = held.missions, round(until_s / _EACH_S) - 15
    cut = {
        name: getattr(missions, name)[:n]
        for name in ("ids", "flow", "websocket", "due_s", "sent_s", "end_s", "thought_s", "result", "steps", "line")
    }
    return _with(held, missions=_with(missions, **cut))


def _lacking(held: Friday) -> Census:
    assert held.census is not None
    first = _with(held.census.missions[0], why="gap")
    return _with(held.census, missions=(first, *held.census.missions[1:]))
