"""Lines of a Friday drill's files, sorted into what they tell of."""

import math
from array import array
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

from drillmaster.evidence import Defect, Manifest, Row
from drillmaster.fridays import (
    CUT,
    FAILED,
    NO_TOOLS,
    OK,
    OPEN,
    UNSENT,
    Friday,
    HeldAt,
    LoadEnded,
    Missions,
    Phase,
)
from drillmaster.intake._friday_flags import Kill, Window, Worker, Wrong, chaos, flag_on, killed, revision_of, sights
from drillmaster.rules.alerts import Ack, Alert, read_event
from drillmaster.rules.tool_recovery import Recovery
from drillmaster.rules.transcripts import Census
from drillmaster.verdict import Cite

__all__ = ["Lines"]

_RESULTS = {"ok": OK, "failed": FAILED, "cut": CUT, "unsent": UNSENT}
_FIRST_DEFECTS = 20
_MOST_WHYS = 200
_WORKERS = frozenset({"", "tool_attempted", "tool_finished"})


class Lines:
    """One run's lines: `take` those of our own files, `close`, then `take_worker` those of the timeline."""

    def __init__(self, manifest: Manifest) -> None:
        self.manifest = manifest
        self.wall0_ns = manifest.wall0_ns
        self.last_ns = 0
        self.defects: list[Defect] = []
        self.own_defects = self.worker_defects = self.unreadable = 0
        self.place: dict[str, int] = {}
        self.flow_names: dict[str, int] = {}
        self.flow, self.websocket, self.result = array("H"), bytearray(), bytearray()
        self.due, self.sent_s, self.end, self.thought = array("d"), array("d"), array("d"), array("d")
        self.steps, self.line = array("L"), array("L")
        self.whys: Counter[str] = Counter()
        """Result, name and status of steps, each as it stands there."""
        self.steps_sent = self.lines_n = self.worker_lines_n = self.tool_calls_n = 0
        self.held: tuple[array[float], array[float], array[float]] = (array("d"), array("d"), array("d"))
        self.windows: dict[str, Window] = {}
        self.kills: list[Kill] = []
        self.workers: dict[str, Worker] = {}
        self.met: dict[tuple[str, str, str], int] = {}
        self.alerts: list[Alert] = []
        self.acks: list[Ack] = []
        self.ready: dict[str, float] = {}
        self.refused_deliveries = 0
        self.phase_rows: list[tuple[str, int]] = []
        self.ended, self.ended_why = "", ""
        self.gone: dict[str, bool] = {}
        self.loads_ended: list[LoadEnded] = []
        self.ordered: set[str] = set()
        """Windows that the conductor had injected: of these it looks whether they are gone."""
        self._killed_tools: dict[str, list[Kill]] = {}

    @property
    def ids(self) -> Mapping[str, int]:
        return self.place

    @property
    def sent(self) -> dict[str, int]:
        """Each mission and how many of its steps were sent, in the order of their begin."""
        return {name: self.steps[at] for name, at in self.place.items()}

    # Our own files

    def take(self, row: Row | Defect) -> None:
        if isinstance(row, Defect):
            self.own_defects += 1
            self._keep(row)
            return
        self.lines_n += 1
        handler = _HANDLERS.get(row.event)
        ns = row.fields.get("ns")
        if type(ns) is not int:
            self._foreign(row, "no integer ns")
            return
        if ns > self.last_ns:
            self.last_ns = ns
        if handler is not None and row.file == handler[0]:
            try:
                handler[1](self, row, ns)
            except Wrong as wrong:
                self._foreign(row, str(wrong))

    def _foreign(self, row: Row, found: str) -> None:
        self.unreadable += 1
        self._keep(Defect(row.file, row.line, "foreign", found, f"a line {row.event} as it is written", row.event))

    def _keep(self, defect: Defect) -> None:
        if len(self.defects) < _FIRST_DEFECTS:
            self.defects.append(defect)

    def _mission(self, row: Row) -> int:
        name = row.fields.get("mission")
        if type(name) is not str or not name:
            raise Wrong("no mission")
        at = self.place.get(name)
        if at is None:
            at = self.place[name] = len(self.place)
            self.flow.append(0)
            self.websocket.append(0)
            self.result.append(OPEN)
            for column in (self.due, self.sent_s, self.end):
                column.append(math.nan)
            self.thought.append(0.0)
            self.steps.append(0)
            self.line.append(row.line)
        return at

    def _about(self, at: int, fields: Mapping[str, Any]) -> None:
        due, flow, entry = fields.get("due_ns"), fields.get("flow"), fields.get("entry")
        if type(due) is not int or type(flow) is not str or entry not in ("http", "websocket"):
            raise Wrong("no due_ns, flow or entry that can be one")
        self.due[at] = due / 1e9
        self.flow[at] = self.flow_names.setdefault(flow[:200], len(self.flow_names))
        self.websocket[at] = entry == "websocket"

    def _mission_started(self, row: Row, ns: int) -> None:
        at = self._mission(row)
        if self.due[at] == self.due[at]:
            raise Wrong("a mission that was begun before")
        self._about(at, row.fields)

    def _step_ended(self, row: Row, ns: int) -> None:
        fields = row.fields
        at = self._mission(row)
        sent, result = fields.get("sent_ns"), fields.get("result")
        if type(result) is not str or (sent is not None and type(sent) is not int):
            raise Wrong("no result, or a sent_ns that is none")
        if sent is not None:
            self.steps_sent += 1
            self.steps[at] += 1
            if self.sent_s[at] != self.sent_s[at]:
                self.sent_s[at] = sent / 1e9

    def _mission_ended(self, row: Row, ns: int) -> None:
        fields = row.fields
        at = self._mission(row)
        if self.result[at] != OPEN:
            raise Wrong("a mission that ended before")
        result, end, thought = (
            _RESULTS.get(str(fields.get("result"))),
            fields.get("end_ns"),
            fields.get("thought_ns", 0),
        )
        if result is None or type(thought) is not int or not (type(end) is int or (end is None and result == UNSENT)):
            raise Wrong("no result or end_ns that can be one")
        self._about(at, fields)
        if end is not None and result != UNSENT:
            if end < fields["due_ns"]:
                raise Wrong("an end before it was due")
            if not 0 <= thought <= end - fields["due_ns"]:
                raise Wrong("thought_ns that is longer than the mission, or negative")
            self.end[at] = end / 1e9
        self.result[at] = result
        self.thought[at] = thought / 1e9
        self.line[at] = row.line
        if result != OK:
            why = str(fields.get("why") or fields.get("result"))[:120]
            if why in self.whys or len(self.whys) < _MOST_WHYS:
                self.whys[why] += 1

    def _held(self, row: Row, ns: int) -> None:
        fields = row.fields
        mean, span = fields.get("mean", fields.get("in_flight")), fields.get("span_ns", 1_000_000_000)
        if not isinstance(mean, int | float) or isinstance(mean, bool) or mean < 0:
            raise Wrong("no in_flight that can be one")
        if type(span) is not int or not 0 <= span <= ns + 1_000_000_000:
            raise Wrong("no span_ns that can be one")
        if span:
            for column, value in zip(self.held, ((ns - span) / 1e9, ns / 1e9, float(mean)), strict=True):
                column.append(value)

    def _load_ended(self, row: Row, ns: int) -> None:
        source, ordered = row.fields.get("source"), row.fields.get("ordered")
        if type(source) is not str or type(ordered) is not bool:
            raise Wrong("no source, or no ordered")
        if not ordered and len(self.loads_ended) < _FIRST_DEFECTS:
            why = row.fields.get("why") or f"{row.fields.get('by')} ended by itself, exit {row.fields.get('exit')}"
            self.loads_ended.append(LoadEnded(source=source[:200], at_s=ns / 1e9, why=str(why)[:200]))

    def _fault_injected(self, row: Row, ns: int) -> None:
        window, flags = row.fields.get("window"), row.fields.get("flags")
        if type(window) is not str or not isinstance(flags, list) or not all(isinstance(one, dict) for one in flags):
            raise Wrong("no window, or no flags")
        if window in self.windows:
            raise Wrong("a window that was injected before")
        self.windows[window] = Window(window, ns, tuple(map(flag_on, flags)), Cite(row.file, row.line))

    def _fault_lifted(self, row: Row, ns: int) -> None:
        window = self.windows.get(str(row.fields.get("window")))
        if window is None or window.lifted_ns is not None:
            raise Wrong("a lift of no window, or a second one")
        at_ns = row.fields.get("lifted_ns")
        window.lifted_ns = max(window.injected_ns, at_ns) if type(at_ns) is int else ns
        window.why = str(row.fields.get("why", ""))[:200]

    def _fault_gone(self, row: Row, ns: int) -> None:
        window, gone = row.fields.get("window"), row.fields.get("gone")
        if type(gone) is not bool or type(window) is not str:
            raise Wrong("no window, or no gone")
        self.gone[window] = gone and self.gone.get(window, True)

    def _inject_ordered(self, row: Row, ns: int) -> None:
        self.ordered.add(str(row.fields.get("window")))

    def _flag_switched(self, row: Row, ns: int) -> None:
        fields = row.fields
        flag, state, kind = fields.get("flag"), fields.get("state"), fields.get("kind")
        if type(flag) is not str or state not in ("on", "off", "killed", "restored"):
            raise Wrong("no flag, or no state that can be one")
        window = self.windows.get(str(fields.get("window")))
        held = revision_of(fields.get("revision"))
        if state == "on" and window is not None and held is not None and (window.on is None or window.on < held):
            window.on = held
        if state == "off" and window is not None:
            window.off.setdefault(flag, ns)
        if state == "killed" or (kind == "kill" and state == "on"):
            tools = fields.get("tools")
            named = tuple(one for one in tools if isinstance(one, str)) if isinstance(tools, list) else ()
            self.kills.append(Kill(flag, named, ns, Cite(row.file, row.line), drained={}, durable=state == "killed"))
        elif state == "restored" or kind == "kill":
            for kill in self.kills:
                if kill.capability == flag and kill.restored_ns is None:
                    kill.restored_ns = ns

    def _kill_drained(self, row: Row, ns: int) -> None:
        flag, worker = row.fields.get("flag"), row.fields.get("worker")
        kill = next((one for one in reversed(self.kills) if one.capability == flag), None)
        if kill is None or type(worker) is not str:
            raise Wrong("of no kill, or no worker")
        kill.drained[worker] = (ns - kill.killed_ns) / 1e9

    def _worker(self, row: Row) -> Worker:
        name = row.fields.get("worker")
        if type(name) is not str or not name:
            raise Wrong("no worker")
        found = self.workers.get(name)
        if found is None:
            found = self.workers[name] = Worker(spans=[], reads=[], lost=[])
        return found

    def _flag_joined(self, row: Row, ns: int) -> None:
        worker = self._worker(row)
        if not worker.spans or worker.spans[-1][1] is not None:
            worker.spans.append([ns, None])

    def _flag_left(self, row: Row, ns: int) -> None:
        worker = self._worker(row)
        if worker.spans and worker.spans[-1][1] is None:
            worker.spans[-1][1] = ns

    def _flag_lost(self, row: Row, ns: int) -> None:
        self._flag_left(row, ns)
        self._worker(row).lost.append(ns)

    def _flag_read(self, row: Row, ns: int) -> None:
        worker, held = self._worker(row), revision_of(row.fields.get("revision"))
        if held is None:
            raise Wrong("no revision that can be one")
        if not worker.spans:
            worker.spans.append([ns, None])
        worker.reads.append((ns, *held))

    def _flag_met(self, row: Row, ns: int) -> None:
        fields = row.fields
        worker, flag, window, n = (fields.get(name) for name in ("worker", "flag", "window", "n"))
        if not (type(worker) is str and type(flag) is str and type(window) is str and type(n) is int and n >= 0):
            raise Wrong("no worker, flag, window or n")
        key = (worker, window, flag)
        self.met[key] = max(self.met.get(key, 0), n)

    def _detector_ready(self, row: Row, ns: int) -> None:
        receiver = row.fields.get("receiver")
        if type(receiver) is not str:
            raise Wrong("no receiver")
        self.ready.setdefault(receiver, ns / 1e9)

    def _delivery_refused(self, row: Row, ns: int) -> None:
        self.refused_deliveries += 1

    def _alert(self, row: Row, ns: int) -> None:
        try:
            found = read_event(row.event, ns, row.fields, wall_ns=row.wall_ns, cite=Cite(row.file, row.line))
        except ValueError as error:
            raise Wrong(str(error)) from None
        if isinstance(found, Alert):
            self.alerts.append(found)
        elif found is not None:
            self.acks.append(found)

    def _phase_started(self, row: Row, ns: int) -> None:
        phase = row.fields.get("phase")
        if type(phase) is not str:
            raise Wrong("no phase")
        self.phase_rows.append((phase, ns))

    def _drill_ended(self, row: Row, ns: int) -> None:
        status = row.fields.get("status")
        if type(status) is not str:
            raise Wrong("no status")
        self.ended, self.ended_why = status, str(row.fields.get("why") or "")[:200]
        self.phase_rows.append(("", ns))

    def close(self) -> None:
        """Say that all of our own lines have been taken: what is under way now is open."""
        for at, due_s in enumerate(self.due):
            if due_s != due_s:  # steps of a mission whose begin and end nobody told
                self.unreadable += 1
                self.due[at] = self.sent_s[at] if self.sent_s[at] == self.sent_s[at] else 0.0
        for window in self.windows.values():
            # What somebody else put on, by hand, the server itself says to be off.
            by_hand = bool(self.ordered) and window.id not in self.ordered
            window.gone = window.lifted_ns is not None if by_hand else self.gone.get(window.id)
        for kill in self.kills:
            for tool in kill.tools or (kill.capability,):
                self._killed_tools.setdefault(tool, []).append(kill)

    # The workers' timeline

    def take_worker(self, row: Row | Defect) -> None:
        if isinstance(row, Defect):
            if not _WORKERS.isdisjoint(row.may_be):
                self.worker_defects += 1
            self._keep(row)
            return
        self.worker_lines_n += 1
        fields = row.fields
        if row.event == "tool_finished":
            self.tool_calls_n += 1
        elif row.event == "tool_attempted" and self._killed_tools:
            self._after_kill(row, fields)

    def _after_kill(self, row: Row, fields: Mapping[str, Any]) -> None:
        """An attempt is written when it is over: what was under way at the kill ran on until then."""
        end_ns = row.wall_ns - self.wall0_ns
        for kill in self._killed_tools.get(str(fields.get("tool")), ()):
            if end_ns <= kill.killed_ns or (kill.restored_ns is not None and end_ns > kill.restored_ns):
                continue
            if fields.get("result") == "killed":
                kill.refused += 1
            else:
                kill.ran += 1
                kill.last_end_ns = max(end_ns, kill.last_end_ns or 0)

    # The whole

    def friday(
        self,
        *,
        service: str,
        found: Recovery | None,
        by_tool: Mapping[str, Recovery],
        census: Census | None,
        **more: Any,
    ) -> Friday:
        """Put everything together."""
        end_s = self.last_ns / 1e9
        total: Counter[tuple[str, str]] = Counter()
        for (_, window, flag), n in self.met.items():
            total[(window, flag)] += n
        windows = sorted(self.windows.values(), key=lambda one: one.injected_ns)
        examined = {
            "lines": self.lines_n,
            "lines of workers": self.worker_lines_n,
            "missions": len(self.place),
            "requests": self.steps_sent,
            "tool calls": self.tool_calls_n,
            "alerts": len(self.alerts),
            "transcripts": 0 if census is None else census.expected - len(census.lacking),
            "late": more["late"],
        }
        return Friday(
            run=self.manifest.run,
            service=service,
            seed=self.manifest.seed,
            stamps=self.manifest.stamps,
            planned_s={name: span for name, span in self.manifest.phases.items() if name.endswith("_s")},
            started_wall_ns=self.wall0_ns,
            end_s=end_s,
            ended=self.ended,
            ended_why=self.ended_why,
            missions=Missions(
                ids=tuple(self.place),
                flows=tuple(self.flow_names) or ("",),
                flow=self.flow,
                websocket=self.websocket,
                due_s=self.due,
                sent_s=self.sent_s,
                end_s=self.end,
                thought_s=self.thought,
                result=self.result,
                steps=self.steps,
                line=self.line,
                whys=dict(self.whys),
            ),
            requests=self.steps_sent,
            chaos=tuple(chaos(one) for one in windows),
            phases=self._phases(),
            tools=NO_TOOLS if found is None else found,
            by_tool=by_tool,
            alerts=tuple(self.alerts),
            acks=tuple(self.acks),
            ready_s=self.ready,
            refused_deliveries=self.refused_deliveries,
            sights=tuple(sight for window in windows for sight in sights(window, self.workers, self.met, self.last_ns)),
            workers=tuple(sorted(self.workers)),
            met=dict(total),
            kills=tuple(killed(kill, self.workers, self.last_ns) for kill in self.kills),
            held=HeldAt(from_s=self.held[0], to_s=self.held[1], mean=self.held[2]),
            loads_ended=tuple(self.loads_ended),
            census=census,
            defects=tuple(self.defects),
            own_defects=self.own_defects,
            worker_defects=self.worker_defects,
            unreadable=self.unreadable,
            examined=examined,
            **more,
        )

    def _phases(self) -> tuple[Phase, ...]:
        order = sorted(self.phase_rows, key=lambda one: one[1])
        found = []
        for at, (name, began_ns) in enumerate(order):
            if not name:
                continue
            ended_ns = order[at + 1][1] if at + 1 < len(order) else self.last_ns
            planned_s = self.manifest.phases.get(f"{name}_s")
            if planned_s is None:
                continue  # draining, sealing: no phase of the load
            if at + 1 == len(order) or not order[at + 1][0]:
                # The last one is followed by waiting for what is still under way, which is none of its time.
                ended_ns = min(ended_ns, began_ns + round(planned_s * 1e9))
            found.append(Phase(name, began_ns / 1e9, ended_ns / 1e9))
        return tuple(found)


_HANDLERS: dict[str, tuple[str, Callable[[Lines, Row, int], None]]] = {
    "mission_started": ("events/missions.jsonl", Lines._mission_started),
    "step_ended": ("events/missions.jsonl", Lines._step_ended),
    "mission_ended": ("events/missions.jsonl", Lines._mission_ended),
    "held": ("events/missions.jsonl", Lines._held),
    "load_ended": ("events/missions.jsonl", Lines._load_ended),
    "fault_injected": ("events/flags.jsonl", Lines._fault_injected),
    "fault_lifted": ("events/flags.jsonl", Lines._fault_lifted),
    "flag_switched": ("events/flags.jsonl", Lines._flag_switched),
    "flag_joined": ("events/flags.jsonl", Lines._flag_joined),
    "flag_left": ("events/flags.jsonl", Lines._flag_left),
    "flag_lost": ("events/flags.jsonl", Lines._flag_lost),
    "flag_read": ("events/flags.jsonl", Lines._flag_read),
    "flag_met": ("events/flags.jsonl", Lines._flag_met),
    "kill_drained": ("events/flags.jsonl", Lines._kill_drained),
    "detector_ready": ("events/detectors.jsonl", Lines._detector_ready),
    "delivery_refused": ("events/detectors.jsonl", Lines._delivery_refused),
    "alert_received": ("events/detectors.jsonl", Lines._alert),
    "alert_acknowledged": ("events/detectors.jsonl", Lines._alert),
    "phase_started": ("events/conductor.jsonl", Lines._phase_started),
    "drill_ended": ("events/conductor.jsonl", Lines._drill_ended),
    "fault_gone": ("events/conductor.jsonl", Lines._fault_gone),
    "inject_ordered": ("events/conductor.jsonl", Lines._inject_ordered),
}
