"""Lines into what they tell of. A line of ours that lacks its fields is a defect, as one of a worker's would be."""

from collections import defaultdict, deque
from collections.abc import Callable
from typing import Any

import msgspec

from drillmaster.clock import parse_rfc3339
from drillmaster.evidence import Defect, Manifest, Row
from drillmaster.outcomes.lines import (
    Attempted,
    CodeRead,
    Ended,
    FaultRule,
    Gone,
    Injected,
    Lifted,
    Met,
    Noted,
    PhaseStarted,
    Preflown,
    RuleTally,
    UserEnd,
    UserStart,
    WorkerExited,
    as_rule,
)
from drillmaster.outcomes.shapes import (
    PROBE_TRACE,
    Attempt,
    CodeState,
    Mark,
    Note,
    Outcome,
    Preflight,
    Proof,
    Request,
    RuleMet,
    Span,
    Window,
)
from drillmaster.screen import screen_text
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
        self._params: dict[str, dict[str, Any]] = {}
        self._lifted: dict[str, tuple[int, str]] = {}
        self._met: defaultdict[str, list[int]] = defaultdict(list)
        self._rules: defaultdict[str, dict[str, tuple[FaultRule, Cite]]] = defaultdict(dict)
        self._rule_met: defaultdict[tuple[str, str], int] = defaultdict(int)
        self._rules_met: defaultdict[str, dict[str, int]] = defaultdict(dict)
        self._first_met: dict[str, int] = {}
        self._tallies: dict[tuple[str, str], RuleTally] = {}
        self._proofs: dict[str, Proof] = {}
        self._starts: dict[str, tuple[UserStart, Cite]] = {}
        self._ends: dict[str, tuple[UserEnd, Cite]] = {}
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
        if ours or self.manifest is None:  # a worker's clock does not say when the run ended
            self.last_ns = max(self.last_ns, ns)
        handler = _OURS.get((row.file, row.event)) if ours else None
        try:
            if handler is not None:
                take, shape = handler
                take(self, ns, msgspec.convert(fields, shape), Cite(row.file, row.line))
            elif not ours:
                self._worker_row(row, ns)
        except (msgspec.ValidationError, TypeError, ValueError, ArithmeticError) as error:
            self._foreign(row, f"in {row.event}: {error}", "the fields of docs/reference/events.md")

    def _foreign(self, row: Row, found: str, wanted: str) -> None:
        self.defects.append(Defect(row.file, row.line, "foreign", _plain(found), wanted))

    # -- our own files

    def _fault_injected(self, ns: int, f: "Injected", cite: Cite) -> None:
        if f.window in self._injected:
            raise ValueError(f"second injection of window {f.window}")
        self._injected[f.window] = (ns, _plain(f.fault), cite)
        self._params[f.window] = f.params

    def _fault_lifted(self, ns: int, f: "Lifted", cite: Cite) -> None:
        self._lifted.setdefault(f.window, (ns, f.why))

    def _fault_rule(self, ns: int, f: "FaultRule", cite: Cite) -> None:
        self._rules[f.window][f.rule] = (f, cite)

    def _rule_tally(self, ns: int, f: "RuleTally", cite: Cite) -> None:
        self._tallies[f.window, f.rule] = f

    def _fault_met(self, ns: int, f: "Met", cite: Cite) -> None:
        self._first_met[f.window] = min(ns, self._first_met.get(f.window, ns))
        if f.rule is not None:
            self._rule_met[f.window, f.rule] += 1
            assert f.attempt is not None
            met = self._rules_met[f.window]
            known, met[f.attempt] = f.attempt in met, min(ns, met.get(f.attempt, ns))
            if known:
                return  # by the rule before
        self._met[f.window].append(f.client_bytes)
        self._proofs[f.window] = f.proof

    def _attempt(self, ns: int, f: "Attempted", cite: Cite) -> None:
        if f.trace is not None and f.trace.startswith(PROBE_TRACE):
            return
        self.examined["attempts"] += 1
        self.attempts.append(
            Attempt(
                id=f.id,
                window=f.window,
                status=f.status,
                start_ns=f.start_ns,
                end_ns=f.end_ns,
                end=f.end,
                upstream=f.upstream,
                terminal=bool(f.terminal),
                intact=f.intact,
                trace=f.trace,
                nonce=f.nonce,
                retry_count=f.retry_count,
                dialect=f.dialect,
                model=f.model,
                request=None,
                cite=cite,
                first_ns=f.first_ns,
                asked_s=f.asked_s,
                asked_by=f.asked_by,
                tokens=f.tokens,
                tokens_estimated=f.tokens_estimated,
                stream=f.stream,
                down_bytes=f.down_bytes,
            )
        )

    def _user_request(self, ns: int, f: "UserStart | UserEnd", cite: Cite) -> None:
        # Two ends of one request, or two starts, and somebody's word would be lost whichever were kept.
        if isinstance(f, UserStart):
            if f.id in self._starts:
                raise ValueError(f"second start of request {f.id}")
            self._starts[f.id] = (f, cite)
        else:
            if f.id in self._ends:
                raise ValueError(f"second end of request {f.id}")
            self._ends[f.id] = (f, cite)

    def _note(self, ns: int, f: "Noted", cite: Cite) -> None:
        seen_wall_ns = parse_rfc3339(f.seen_at) if f.seen_at is not None else None
        self.notes.append(
            Note(
                ns=ns,
                seen_ns=ns if seen_wall_ns is None else seen_wall_ns - self.wall0_ns,
                kind=_plain(f.kind),
                text=_plain(f.text),
                by=_plain(f.by),
                cite=cite,
            )
        )

    def _phase_started(self, ns: int, f: "PhaseStarted", cite: Cite) -> None:
        self._phase_rows.append((ns, f.phase, f.planned_s))

    def _code_state(self, ns: int, f: "CodeRead", cite: Cite) -> None:
        self.code.append(
            CodeState(
                at=f.at,
                commit=f.commit,
                dirt_sha256=f.dirt_sha256,
                plan_sha256=f.plan_sha256,
                policy_sha256=f.policy_sha256,
                cite=cite,
            )
        )

    def _preflight(self, ns: int, f: "Preflown", cite: Cite) -> None:
        self.preflight.append(Preflight(check=f.check, status=f.status, why=f.why, by=f.by, at=f.at))

    def _fault_gone(self, ns: int, f: "Gone", cite: Cite) -> None:
        self.gone[f.window] = (f.gone, f.why)

    def _worker_exited(self, ns: int, f: "WorkerExited", cite: Cite) -> None:
        if not f.expected:
            told = "an unknown code" if f.code is None else f"signal {-f.code}" if f.code < 0 else f"exit {f.code}"
            self.exits.append(_mark(ns, "worker_exited", {"kind": told}, cite))

    def _drill_ended(self, ns: int, f: "Ended", cite: Cite) -> None:
        self.ended = f.status
        self.ended_why = f.why

    # -- what workers and people wrote

    def _worker_row(self, row: Row, ns: int) -> None:
        f, cite = row.fields, Cite(row.file, row.line)
        bare = self.manifest is None
        match row.event:
            case "user_request":
                self._worker_request(row, ns, f, cite)
                return
            case "fault_injected" if bare:
                # One that is on must be lifted before the next, or nobody can say which window a request was in.
                if len(self._injected) > len(self._lifted):
                    self._foreign(row, "an injection while one was on", "fault_lifted before the next fault_injected")
                    return
                fault = f.get("fault", f.get("mode", ""))
                self._injected[f"w{len(self._injected) + 1}"] = (ns, _plain(str(fault)), cite)
            case "fault_lifted" if bare:
                if not self._injected:
                    return  # without an injection there is nothing to lift, and no anchor either: that is refused
                if len(self._injected) == len(self._lifted):
                    self._foreign(row, "a lift while no fault was on", "one fault_lifted for each fault_injected")
                    return
                self._lifted[f"w{len(self._injected)}"] = (ns, "marked")
            case "drill_ended" if bare:
                self.ended = _plain(str(f.get("status", "completed")))
            case "note" if bare:
                self._note(ns, msgspec.convert(f, Noted), cite)
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
        if ms is not None and (type(ms) not in (int, float) or not 0 <= ms <= 86_400_000):
            self._foreign(row, f"ms {ms!r}", "milliseconds, from 0 to a day")
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
        if type(f.get("id")) not in (str, int):
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
        self.examined["worker_5xx"] += status is not None and status >= 500
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
                    proof=self._proofs.get(key, "bytes"),
                    rules=tuple(self._rule(key, name) for name in self._rules[key]),
                    first_met_ns=self._first_met.get(key),
                    met_ns=self._rules_met.get(key, {}),
                    params=self._params.get(key, {}),
                )
            )
        return tuple(sorted(found, key=lambda w: w.injected_ns))

    def _rule(self, window: str, name: str) -> RuleMet:
        rule, cite = self._rules[window][name]
        tally = self._tallies.get((window, name))
        return RuleMet(
            name=_plain(name),
            fault=_plain(rule.fault),
            matched=None if tally is None else tally.matched,
            taken=None if tally is None else tally.taken,
            undecided=0 if tally is None else tally.undecided,
            met=self._rule_met[window, name],
            saw=() if tally is None else tuple(_plain(kind) for kind in tally.saw),
            cite=cite,
            rule=as_rule(rule),
        )

    def phases(self) -> tuple[Span, ...]:
        rows = sorted(self._phase_rows)
        ends = [*(ns for ns, _, _ in rows[1:]), self.last_ns][: len(rows)]
        return tuple(Span(name, start, end, planned) for (start, name, planned), end in zip(rows, ends, strict=True))

    def clock_step_s(self) -> float:
        return (max(self._offsets) - min(self._offsets)) / 1e9 if self._offsets else 0.0

    def user_requests(self) -> list[Request]:
        found = []
        for key, (start, cite) in self._starts.items():
            end, end_cite = self._ends.get(key, (None, cite))
            outcome, status = _by_result(end)
            found.append(
                Request(
                    id=key,
                    source="traffic",
                    due_ns=start.due_ns,
                    sent_ns=(end.sent_ns if end and end.sent_ns is not None else start.sent_ns) or start.due_ns,
                    first_ns=end.first_ns if end else None,
                    end_ns=end.end_ns if end else None,
                    status=status,
                    outcome=outcome,
                    payload=start.payload,
                    told=end.source if end else None,
                    cite=end_cite,
                )
            )
            for token in (start.trace, start.nonce):
                if token is not None:
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
        return _plain(value) if isinstance(value, str) else None

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


def _by_result(end: "UserEnd | None") -> tuple[Outcome, int | None]:
    if end is None:
        return "never_ended", None
    if end.result != "answered":
        return end.result, end.status
    if end.status is not None and end.status >= 500:
        return "http_5xx", end.status  # whatever a plan expects, a server error is none of its answers
    if end.answer is not None:
        return end.answer, end.status
    # A good status that the plan did not expect is an answer, but not the one that was asked for.
    good = end.status is not None and 200 <= end.status < 300
    return ("degraded" if good else _by_status(end.status)), end.status


def _plain(text: str) -> str:
    """Bound and screen a text of the evidence before it can reach a verdict, a card or a page."""
    return screen_text(text[:200])


_OURS: dict[tuple[str, str], tuple[Callable[[Lines, int, Any, Cite], None], Any]] = {
    ("events/proxy.jsonl", "fault_injected"): (Lines._fault_injected, Injected),
    ("events/proxy.jsonl", "fault_lifted"): (Lines._fault_lifted, Lifted),
    ("events/proxy.jsonl", "fault_met"): (Lines._fault_met, Met),
    ("events/proxy.jsonl", "fault_rule"): (Lines._fault_rule, FaultRule),
    ("events/proxy.jsonl", "fault_rule_tally"): (Lines._rule_tally, RuleTally),
    ("events/proxy.jsonl", "attempt"): (Lines._attempt, Attempted),
    ("events/traffic.jsonl", "user_request"): (Lines._user_request, UserStart | UserEnd),
    ("events/notes.jsonl", "note"): (Lines._note, Noted),
    ("events/conductor.jsonl", "phase_started"): (Lines._phase_started, PhaseStarted),
    ("events/conductor.jsonl", "code_state"): (Lines._code_state, CodeRead),
    ("events/conductor.jsonl", "preflight"): (Lines._preflight, Preflown),
    ("events/conductor.jsonl", "fault_gone"): (Lines._fault_gone, Gone),
    ("events/conductor.jsonl", "worker_exited"): (Lines._worker_exited, WorkerExited),
    ("events/conductor.jsonl", "drill_ended"): (Lines._drill_ended, Ended),
}
