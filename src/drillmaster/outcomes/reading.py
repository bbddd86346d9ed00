"""Lines into what they tell of. A line of ours that lacks its fields is a defect, as one of a worker's would be."""

from collections import defaultdict, deque
from collections.abc import Callable
from typing import Any, ClassVar

from drillmaster.clock import parse_rfc3339
from drillmaster.evidence import Defect, Manifest, Row
from drillmaster.outcomes.shapes import (
    PROBE_TRACE,
    Attempt,
    CodeState,
    Mark,
    Note,
    Outcome,
    Preflight,
    Request,
    Span,
    Window,
)
from drillmaster.verdict import Cite

__all__ = ["Lines"]

_TELLING = frozenset({"model_ok", "fallback_engaged", "unhandled_exception", "alert_fired", "alert_acked"})


class Lines:
    """Rows sorted into what they tell of."""

    def __init__(self, manifest: Manifest | None, *, wall0_ns: int = 0) -> None:
        self.manifest = manifest
        self.wall0_ns = manifest.wall0_ns if manifest else wall0_ns
        self.last_ns = 0
        self.attempts: list[Attempt] = []
        self.marks: list[Mark] = []
        self.notes: list[Note] = []
        self.code: list[CodeState] = []
        self.preflight: list[Preflight] = []
        self.exits: list[Mark] = []
        self.defects: list[Defect] = []
        self.gone: dict[str, tuple[bool, str]] = {}
        self.outcome_rows: list[Request] = []
        self.examined: defaultdict[str, int] = defaultdict(int)
        self.ended: str | None = None
        self.ended_why = ""
        self.tokens: dict[str, str] = {}
        """Trace ids and nonces -> the request that carried them."""
        self._phase_rows: list[tuple[int, str, float | None]] = []
        self._injected: dict[str, tuple[int, str, Cite]] = {}
        self._lifted: dict[str, tuple[int, str]] = {}
        self._met: defaultdict[str, list[int]] = defaultdict(list)
        self._starts: dict[str, tuple[int, dict[str, Any], Cite]] = {}
        self._ends: dict[str, tuple[int, dict[str, Any], Cite]] = {}
        self._open: defaultdict[str, deque[tuple[int, Cite]]] = defaultdict(deque)
        """Worker requests begun and not ended, by id; an id may come again."""
        self._early: defaultdict[str, deque[tuple[int, int | None, Cite]]] = defaultdict(deque)
        """Ends whose start has not been seen yet: processes share the file, so lines are not quite in order."""
        self._closed: list[Request] = []
        self._offsets: list[int] = []

    def take(self, row: Row | Defect) -> None:
        if isinstance(row, Defect):
            self.defects.append(row)
            return
        ours = row.file.startswith("events/")
        self.examined["lines"] += 1
        fields = row.fields
        ns = row.wall_ns - self.wall0_ns
        if ours:
            given = fields.get("ns")
            if type(given) is not int:
                self._foreign(row, "no integer ns", "ns, which every line of our own files has")
                return
            ns = given
            self._offsets.append(row.wall_ns - ns)
        self.last_ns = max(self.last_ns, ns)
        handler = self._OURS.get((row.file, row.event)) if ours else None
        try:
            if handler is not None:
                handler(self, ns, fields, Cite(row.file, row.line))
            elif not ours:
                self._worker_row(row, ns)
        except (KeyError, TypeError, ValueError) as error:
            self._foreign(row, f"{row.event} without a usable {error}", "the fields of docs/reference/events.md")

    def _foreign(self, row: Row, found: str, wanted: str) -> None:
        self.defects.append(Defect(row.file, row.line, "foreign", found[:120], wanted))

    # -- our own files

    def _fault_injected(self, ns: int, f: dict[str, Any], cite: Cite) -> None:
        self._injected[str(f["window"])] = (ns, str(f["fault"]), cite)

    def _fault_lifted(self, ns: int, f: dict[str, Any], cite: Cite) -> None:
        self._lifted.setdefault(str(f["window"]), (ns, str(f.get("why", ""))))

    def _fault_met(self, ns: int, f: dict[str, Any], cite: Cite) -> None:
        self._met[str(f["window"])].append(int(f["client_bytes"]))

    def _attempt(self, ns: int, f: dict[str, Any], cite: Cite) -> None:
        if str(f.get("trace") or "").startswith(PROBE_TRACE):
            return
        self.examined["attempts"] += 1
        self.attempts.append(
            Attempt(
                id=str(f["id"]),
                window=f["window"],
                status=f["status"],
                start_ns=f["start_ns"],
                end_ns=f["end_ns"],
                end=f["end"],
                upstream=bool(f["upstream"]),
                terminal=bool(f["terminal"]),
                trace=f.get("trace"),
                nonce=f.get("nonce"),
                retry_count=f.get("retry_count"),
                dialect=f.get("dialect", ""),
                model=f.get("model"),
                request=None,
                cite=cite,
            )
        )

    def _user_request(self, ns: int, f: dict[str, Any], cite: Cite) -> None:
        book = self._starts if f["phase"] == "start" else self._ends
        book[str(f["id"])] = (ns, f, cite)

    def _note(self, ns: int, f: dict[str, Any], cite: Cite) -> None:
        seen = f.get("seen_at")
        seen_wall_ns = parse_rfc3339(seen) if isinstance(seen, str) else None
        self.notes.append(
            Note(
                ns=ns,
                seen_ns=ns if seen_wall_ns is None else seen_wall_ns - self.wall0_ns,
                kind=str(f["kind"]),
                text=str(f.get("text", "")),
                by=str(f.get("by", "")),
                cite=cite,
            )
        )

    def _phase_started(self, ns: int, f: dict[str, Any], cite: Cite) -> None:
        planned = f.get("planned_s")
        self._phase_rows.append((ns, str(f["phase"]), float(planned) if planned is not None else None))

    def _code_state(self, ns: int, f: dict[str, Any], cite: Cite) -> None:
        self.code.append(
            CodeState(
                at=str(f["at"]),
                commit=f.get("commit"),
                dirt_sha256=f.get("dirt_sha256"),
                plan_sha256=f.get("plan_sha256"),
                policy_sha256=f.get("policy_sha256"),
                cite=cite,
            )
        )

    def _preflight(self, ns: int, f: dict[str, Any], cite: Cite) -> None:
        self.preflight.append(
            Preflight(check=f["check"], status=f["status"], why=f.get("why", ""), by=f.get("by"), at=f.get("at"))
        )

    def _fault_gone(self, ns: int, f: dict[str, Any], cite: Cite) -> None:
        self.gone[str(f["window"])] = (f["gone"] is True, str(f.get("why", "")))

    def _worker_exited(self, ns: int, f: dict[str, Any], cite: Cite) -> None:
        if not f.get("expected"):
            self.exits.append(_mark(ns, "worker_exited", {"kind": str(f.get("code"))}, cite))

    def _drill_ended(self, ns: int, f: dict[str, Any], cite: Cite) -> None:
        self.ended = str(f.get("status", "completed"))
        self.ended_why = str(f.get("why", ""))

    _OURS: ClassVar[dict[tuple[str, str], Callable[["Lines", int, dict[str, Any], Cite], None]]] = {
        ("events/proxy.jsonl", "fault_injected"): _fault_injected,
        ("events/proxy.jsonl", "fault_lifted"): _fault_lifted,
        ("events/proxy.jsonl", "fault_met"): _fault_met,
        ("events/proxy.jsonl", "attempt"): _attempt,
        ("events/traffic.jsonl", "user_request"): _user_request,
        ("events/notes.jsonl", "note"): _note,
        ("events/conductor.jsonl", "phase_started"): _phase_started,
        ("events/conductor.jsonl", "code_state"): _code_state,
        ("events/conductor.jsonl", "preflight"): _preflight,
        ("events/conductor.jsonl", "fault_gone"): _fault_gone,
        ("events/conductor.jsonl", "worker_exited"): _worker_exited,
        ("events/conductor.jsonl", "drill_ended"): _drill_ended,
    }

    # -- what workers and people wrote

    def _worker_row(self, row: Row, ns: int) -> None:
        f, cite = row.fields, Cite(row.file, row.line)
        bare = self.manifest is None
        match row.event:
            case "user_request":
                self._worker_request(row, ns, f, cite)
                return
            case "fault_injected" if bare:
                window = str(f.get("window", f"w{len(self._injected) + 1}"))
                self._injected[window] = (ns, str(f.get("fault", f.get("mode", ""))), cite)
            case "fault_lifted" if bare:
                open_windows = [w for w in self._injected if w not in self._lifted]
                window = str(f.get("window", open_windows[0] if open_windows else ""))
                if window in self._injected:
                    self._lifted.setdefault(window, (ns, "marked"))
            case "drill_ended" if bare:
                self.ended = str(f.get("status", "completed"))
            case "note" if bare:
                self._note(ns, f, cite)
                return
        self.examined["marks"] += 1
        if row.event in _TELLING:
            self.marks.append(_mark(ns, row.event, f, cite))

    def _worker_request(self, row: Row, ns: int, f: dict[str, Any], cite: Cite) -> None:
        phase, status = f.get("phase"), f.get("status")
        if phase not in (None, "start", "end"):
            self._foreign(row, f"phase {phase!r}", "start, end, or no phase for what a user saw")
            return
        if "status" in f and not (type(status) is int and (status == 0 or 100 <= status <= 599)):
            self._foreign(row, f"status {status!r}", "an HTTP status as a whole number, or 0 for no answer")
            return
        ms = f.get("ms")
        if ms is not None and (type(ms) not in (int, float) or ms < 0):
            self._foreign(row, f"ms {ms!r}", "milliseconds, 0 or more")
            return
        if phase is None:
            if "status" not in f:
                self._foreign(row, "neither phase nor status", "one of them")
                return
            took_ns = round((ms or 0) * 1e6)
            self.outcome_rows.append(
                Request(
                    id=str(f.get("id", "")),
                    source="bare",
                    due_ns=ns - took_ns,
                    sent_ns=ns - took_ns,
                    first_ns=None,
                    end_ns=ns,
                    status=status,
                    outcome=_by_status(status),
                    cite=cite,
                )
            )
            return
        if "id" not in f:
            self._foreign(row, f"phase {phase} without an id", "the id that joins start and end")
            return
        key = str(f["id"])
        self.examined["worker_rows"] += 1
        if phase == "start":
            if self._early.get(key):
                end_ns, end_status, end_cite = self._early[key].popleft()
                self._close(key, ns, end_ns, end_status, end_cite)
            else:
                self._open[key].append((ns, cite))
        elif self._open.get(key):
            self._close(key, self._open[key].popleft()[0], ns, status, cite)
        else:
            self._early[key].append((ns, status, cite))

    def _close(self, key: str, start_ns: int, end_ns: int, status: int | None, cite: Cite) -> None:
        for book in (self._open, self._early):
            if key in book and not book[key]:
                del book[key]
        self.examined["worker_requests"] += 1
        if self.manifest is None:  # beside the wire and the users a worker's good ends say nothing new
            self._closed.append(_worker_request(key, start_ns, end_ns, status, cite))

    # -- what comes out

    def windows(self) -> tuple[Window, ...]:
        found = []
        for key, (ns, fault, cite) in self._injected.items():
            lifted = self._lifted.get(key)
            met = self._met[key]
            found.append(
                Window(
                    id=key,
                    fault=fault,
                    injected_ns=ns,
                    lifted_ns=lifted[0] if lifted else None,
                    lift_why=lifted[1] if lifted else "",
                    met=len(met),
                    client_bytes=sum(met),
                    cite=cite,
                )
            )
        return tuple(sorted(found, key=lambda w: w.injected_ns))

    def phases(self) -> tuple[Span, ...]:
        rows = sorted(self._phase_rows)
        ends = [*(ns for ns, _, _ in rows[1:]), self.last_ns][: len(rows)]
        return tuple(Span(name, start, end, planned) for (start, name, planned), end in zip(rows, ends, strict=True))

    def clock_step_s(self) -> float:
        return (max(self._offsets) - min(self._offsets)) / 1e9 if self._offsets else 0.0

    def user_requests(self) -> list[Request]:
        found = []
        for key, (_, start, cite) in self._starts.items():
            _, end, end_cite = self._ends.get(key, (0, {}, cite))
            outcome, status = _by_result(end)
            found.append(
                Request(
                    id=key,
                    source="traffic",
                    due_ns=start["due_ns"],
                    sent_ns=end.get("sent_ns") or start.get("sent_ns") or start["due_ns"],
                    first_ns=end.get("first_ns"),
                    end_ns=end.get("end_ns"),
                    status=status,
                    outcome=outcome,
                    payload=start.get("payload"),
                    cite=end_cite,
                )
            )
            for token in (start.get("trace"), start.get("nonce")):
                if isinstance(token, str):
                    self.tokens[token] = key
        return found

    def worker_requests(self) -> list[Request]:
        """What never ended; for a bare file also what did, and ends without a start: torn, or older than the file."""
        found = list(self._closed)
        for key, starts in self._open.items():
            found += [_worker_request(key, ns, None, None, cite) for ns, cite in starts]
        if self.manifest is None:
            for key, ends in self._early.items():
                found += [_worker_request(key, ns, ns, status, cite) for ns, status, cite in ends]
        self.examined["worker_requests"] += len(found) - len(self._closed)
        return found


def _worker_request(key: str, start_ns: int, end_ns: int | None, status: int | None, cite: Cite) -> Request:
    return Request(
        id=key,
        source="worker",
        due_ns=start_ns,
        sent_ns=start_ns,
        first_ns=None,
        end_ns=end_ns,
        status=status,
        outcome="never_ended" if end_ns is None else _by_status(status),
        cite=cite,
    )


def _mark(ns: int, event: str, f: dict[str, Any], cite: Cite) -> Mark:
    def text(key: str) -> str | None:
        value = f.get(key)
        return value if isinstance(value, str) else None

    key = f.get("id")
    status = f.get("status")
    return Mark(
        ns=ns,
        event=event,
        id=str(key) if isinstance(key, str | int) else None,
        phase=text("phase"),
        status=status if type(status) is int else None,
        path=text("path"),
        kind=text("kind"),
        cite=cite,
    )


def _by_status(status: int | None) -> Outcome:
    """Name a user-side outcome that is known by its status alone. An end without a status is one the user got nothing of."""
    if status is None:
        return "protocol"
    if status == 0:
        return "refused"
    if 200 <= status < 300:
        return "ok"
    if status < 200:
        return "protocol"
    return "http_3xx" if status < 400 else "http_4xx" if status < 500 else "http_5xx"


def _by_result(end: dict[str, Any]) -> tuple[Outcome, int | None]:
    if not end:
        return "never_ended", None
    status = end.get("status")
    result = end["result"]
    if result != "answered":
        return result, status
    answer = end.get("answer")
    if answer in ("empty", "degraded"):
        return answer, status
    if answer == "ok":
        return "ok", status
    # A good status that the plan did not expect is an answer, but not the one that was asked for.
    return ("degraded" if status is not None and 200 <= status < 300 else _by_status(status)), status
