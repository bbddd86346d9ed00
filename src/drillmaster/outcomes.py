"""What became of every request: the join of what users saw, what the wire saw and what the worker said.

1. Every started request ends in exactly one outcome. One without an end is `never_ended`; it does not vanish.
2. For what happened the wire decides. A worker's marks are cited, and contradicted where they are wrong.
3. An attempt belongs to a user's request, best first: by `traceparent` on both sides, by a nonce in the prompt, or because
   that request was the only one that could have been under way when the attempt began.
4. A good answer came from the primary when unfaulted bytes of the real upstream lie behind it, and from a fallback when
   none can. Attempts that began before the request was sent, or after it was over, cannot lie behind it. Where an
   attempt that belongs to nobody could, the path is unknown: the outcome is `ok`, and it is counted.
5. A request that the user gave up on may still be under way inside the agent. For one more time limit it counts as such.
6. Times are nanoseconds since the run began, on the monotonic clock; a worker's marks come by wall time.
"""

from bisect import bisect_left, bisect_right
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Sequence
from typing import Any, ClassVar, Literal

import msgspec

from drillmaster.clock import parse_rfc3339
from drillmaster.evidence import Defect, Manifest, Row
from drillmaster.verdict import Cite

__all__ = [
    "FAILED",
    "OK",
    "PROBE_TRACE",
    "Attempt",
    "CodeState",
    "Mark",
    "Note",
    "Outcome",
    "Preflight",
    "Request",
    "Run",
    "Span",
    "Window",
    "join",
    "join_bare",
]

Outcome = Literal[
    "ok_primary", "ok_fallback", "ok", "degraded", "empty", "http_3xx", "http_4xx", "http_5xx",
    "timeout", "reset", "refused", "cut", "protocol", "never_ended",
]  # fmt: skip
JoinedBy = Literal["trace", "nonce", "alone", "none"]
OK: frozenset[str] = frozenset({"ok_primary", "ok_fallback", "ok"})
FAILED: frozenset[str] = frozenset(Outcome.__args__) - OK  # type: ignore[attr-defined]  # Literal's own list of names

PROBE_TRACE = "6472696c6c6d7374"
"""How the trace id of the conductor's own probes begins: such an attempt is nobody's, and lies behind no answer."""


class Window(msgspec.Struct, frozen=True, kw_only=True):
    """One injection, from the proxy's word that the fault is on to its word that it is off."""

    id: str
    fault: str
    """Its tag; empty where a bare file does not say."""
    injected_ns: int
    lifted_ns: int | None
    lift_why: str
    met: int
    """Attempts the fault acted on."""
    client_bytes: int
    cite: Cite


class Attempt(msgspec.Struct, frozen=True, kw_only=True):
    """One request that reached the proxy. `upstream`: bytes of the real endpoint's answer went to the client."""

    id: str
    window: str | None
    status: int | None
    start_ns: int
    end_ns: int
    end: str
    upstream: bool
    terminal: bool
    trace: str | None
    nonce: str | None
    retry_count: int | None
    dialect: str
    model: str | None
    request: str | None
    """The user request it belongs to, once joined."""
    cite: Cite


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """One request as its user saw it. `end_ns` None: it never ended."""

    id: str
    source: Literal["traffic", "bare", "worker"]
    due_ns: int
    sent_ns: int
    first_ns: int | None
    end_ns: int | None
    status: int | None
    outcome: Outcome
    attempts: tuple[str, ...] = ()
    joined_by: JoinedBy = "none"
    met: tuple[str, ...] = ()
    """Windows whose fault acted on one of its attempts."""
    payload: int | None = None
    cite: Cite

    @property
    def latency_s(self) -> float | None:
        """From when it was due to its end."""
        return None if self.end_ns is None else (self.end_ns - self.due_ns) / 1e9


class Mark(msgspec.Struct, frozen=True, kw_only=True):
    """A line that a worker or a person wrote into the shared timeline."""

    ns: int
    event: str
    id: str | None
    phase: str | None
    status: int | None
    path: str | None
    kind: str | None
    cite: Cite


class Note(msgspec.Struct, frozen=True, kw_only=True):
    """A Scribe's line. `seen_ns` is when they say it happened, else when the line was written."""

    ns: int
    seen_ns: int
    kind: str
    text: str
    by: str
    cite: Cite


class Span(msgspec.Struct, frozen=True):
    """A phase as it ran."""

    phase: str
    start_ns: int
    end_ns: int
    planned_s: float | None


class CodeState(msgspec.Struct, frozen=True, kw_only=True):
    """Commit, dirt and digests at the start, the lift or the end; None where unknown."""

    at: str
    commit: str | None
    dirt_sha256: str | None
    plan_sha256: str | None
    policy_sha256: str | None
    cite: Cite


class Preflight(msgspec.Struct, frozen=True, kw_only=True):
    """One line of the pre-flight: executed, or attested by name and time."""

    check: str
    status: str
    why: str
    by: str | None
    at: str | None


class Run(msgspec.Struct, frozen=True, kw_only=True):
    """All a gate may look at. `bare`: one file, unsealed, no wire behind it."""

    name: str
    place: str
    """Where it lies, as the person who asked named it."""
    bare: bool
    manifest: Manifest | None
    started_wall_ns: int
    end_ns: int
    """The last instant there is evidence of."""
    ended: str | None
    """`completed`, `aborted`, or None: nobody wrote the end."""
    ended_why: str = ""
    windows: tuple[Window, ...] = ()
    requests: tuple[Request, ...] = ()
    """The users' requests by due time: those that judge."""
    worker_requests: tuple[Request, ...] = ()
    """What the worker's own start and end rows say: all of them for a bare file, else those that never ended."""
    attempts: tuple[Attempt, ...] = ()
    marks: tuple[Mark, ...] = ()
    notes: tuple[Note, ...] = ()
    phases: tuple[Span, ...] = ()
    code: tuple[CodeState, ...] = ()
    preflight: tuple[Preflight, ...] = ()
    gone: dict[str, tuple[bool, str]] = {}
    """Window -> whether the probe after the lift found the fault gone, and what it saw."""
    exits: tuple[Mark, ...] = ()
    """Workers that ended without being told; `kind` holds the code."""
    clock_step_s: float = 0.0
    """The largest move of wall against monotonic time in our own files."""
    defects: tuple[Defect, ...] = ()
    seal_problems: tuple[str, ...] = ()
    late: int = 0
    """Lines written behind the seal."""
    digest: str = ""
    examined: dict[str, int] = {}

    def lifted_or_end_ns(self, window: Window) -> int:
        return window.lifted_ns if window.lifted_ns is not None else self.end_ns

    def before(self, window: Window) -> list[Request]:
        """List the users' requests of the time before an injection, less those that it caught under way."""
        return [r for r in self.requests if r.due_ns < window.injected_ns and not self._caught(r, window)]

    def during(self, window: Window) -> list[Request]:
        """List the users' requests of a window: due in it, or due before and caught by its fault."""
        end_ns = self.lifted_or_end_ns(window)
        return [r for r in self.requests if window.injected_ns <= r.due_ns < end_ns or self._caught(r, window)]

    def after(self, window: Window) -> list[Request]:
        """List the users' requests due from the lift to the next injection or the end."""
        end_ns = self.lifted_or_end_ns(window)
        until_ns = self.next_injection_ns(window)
        return [r for r in self.requests if end_ns <= r.due_ns < until_ns]

    def next_injection_ns(self, window: Window) -> int:
        later = [w.injected_ns for w in self.windows if w.injected_ns > window.injected_ns]
        return min(later, default=self.end_ns + 1)

    def _caught(self, request: Request, window: Window) -> bool:
        if request.due_ns >= window.injected_ns:
            return False
        if self.bare:  # no wire: under way at the injection is all that can be known
            return request.end_ns is None or request.end_ns >= window.injected_ns
        return window.id in request.met


def join(
    manifest: Manifest,
    rows: Iterable[Row | Defect],
    *,
    place: str = "",
    seal_problems: Sequence[str] = (),
    late: int = 0,
    digest: str = "",
) -> Run:
    """Put the lines of a run folder together. Lines may come in any order; each carries its file and number."""
    lines = _Lines(manifest)
    for row in rows:
        lines.take(row)
    requests = lines.user_requests()
    lines.attempts.sort(key=lambda a: (a.start_ns, a.id))
    attempts, requests = _attribute(lines.attempts, requests, lines.tokens, manifest.time_limit_s)
    requests.sort(key=lambda r: (r.due_ns, r.id))
    return Run(
        name=manifest.run,
        place=place or f"runs/{manifest.run}",
        bare=False,
        manifest=manifest,
        started_wall_ns=manifest.wall0_ns,
        end_ns=lines.last_ns,
        ended=lines.ended,
        ended_why=lines.ended_why,
        windows=lines.windows(),
        requests=tuple(requests),
        worker_requests=tuple(lines.worker_requests()),
        attempts=tuple(attempts),
        marks=tuple(sorted(lines.marks, key=lambda m: m.ns)),
        notes=tuple(sorted(lines.notes, key=lambda n: n.ns)),
        phases=lines.phases(),
        code=tuple(sorted(lines.code, key=lambda c: c.cite.line)),
        preflight=tuple(lines.preflight),
        gone=lines.gone,
        exits=tuple(lines.exits),
        clock_step_s=lines.clock_step_s(),
        defects=tuple(lines.defects),
        seal_problems=tuple(seal_problems),
        late=late,
        digest=digest,
        examined=dict(lines.examined),
    )


def join_bare(name: str, rows: Iterable[Row | Defect], *, place: str = "", digest: str = "") -> Run:
    """Put one bare timeline together. The fault is the Lead's own mark; users are the rows without `phase`.

    Rows with `phase` are the worker's. A file that has only those is judged by them; rows without `phase` that only tell
    of failures are then the boundary of a loop that swallows exceptions, and belong to the same users.
    """
    good: list[Row] = []
    defects: list[Defect] = []
    for row in rows:
        if isinstance(row, Row):
            good.append(row)
        else:
            defects.append(row)
    good.sort(key=lambda r: r.wall_ns)
    lines = _Lines(None, wall0_ns=good[0].wall_ns if good else 0)
    for row in good:
        lines.take(row)
    outside = lines.outcome_rows
    worker = lines.worker_requests()
    two_views = bool(outside) and any(r.outcome in OK for r in outside)
    requests = outside if two_views or not worker else [*outside, *worker]
    return Run(
        name=name,
        place=place or name,
        bare=True,
        manifest=None,
        started_wall_ns=lines.wall0_ns,
        end_ns=lines.last_ns,
        ended=lines.ended,
        ended_why=lines.ended_why,
        windows=lines.windows(),
        requests=tuple(sorted(requests, key=lambda r: r.due_ns)),
        worker_requests=tuple(worker),
        marks=tuple(lines.marks),
        notes=tuple(lines.notes),
        defects=(*defects, *lines.defects),
        digest=digest,
        examined=dict(lines.examined),
    )


_TELLING = frozenset({"model_ok", "fallback_engaged", "unhandled_exception", "alert_fired", "alert_acked"})


class _Lines:
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

    _OURS: ClassVar[dict[tuple[str, str], Callable[["_Lines", int, dict[str, Any], Cite], None]]] = {
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


def _attribute(
    attempts: list[Attempt], requests: list[Request], tokens: dict[str, str], time_limit_s: float
) -> tuple[list[Attempt], list[Request]]:
    underway = _Underway(requests, round(time_limit_s * 1e9))
    owners: list[tuple[str | None, JoinedBy]] = []
    for attempt in attempts:
        if attempt.trace is not None and attempt.trace in tokens:
            owners.append((tokens[attempt.trace], "trace"))
        elif attempt.nonce is not None and attempt.nonce in tokens:
            owners.append((tokens[attempt.nonce], "nonce"))
        else:
            only = underway.only(attempt.start_ns)
            owners.append((only, "alone") if only is not None else (None, "none"))
    joined = [msgspec.structs.replace(a, request=owner) for a, (owner, _) in zip(attempts, owners, strict=True)]
    mine: defaultdict[str, list[tuple[Attempt, JoinedBy]]] = defaultdict(list)
    for attempt, (owner, way) in zip(joined, owners, strict=True):
        if owner is not None:
            mine[owner].append((attempt, way))
    # Unfaulted attempts that nobody owns, by start: each could lie behind any answer it falls into.
    nobodys = sorted(a.start_ns for a in joined if a.request is None and a.upstream and a.window is None)
    settled = []
    for request in requests:
        own = mine.get(request.id, [])
        end_ns = request.end_ns if request.end_ns is not None else request.sent_ns
        how: JoinedBy = own[0][1] if own else "none"
        outcome = request.outcome
        if outcome == "ok":
            if any(a.upstream and a.window is None and a.start_ns <= end_ns for a, _ in own):
                outcome = "ok_primary"
            elif bisect_right(nobodys, end_ns) == bisect_left(nobodys, request.sent_ns):
                outcome = "ok_fallback"
        settled.append(
            msgspec.structs.replace(
                request,
                outcome=outcome,
                attempts=tuple(a.id for a, _ in own),
                joined_by=how,
                met=tuple(sorted({a.window for a, _ in own if a.window is not None})),
            )
        )
    return joined, settled


class _Underway:
    """Which requests can have been under way at an instant."""

    def __init__(self, requests: list[Request], time_limit_ns: int) -> None:
        changes: list[tuple[int, int, str]] = []
        for r in requests:
            if r.end_ns is None:
                end_ns = r.due_ns + 2 * time_limit_ns
            elif r.outcome in ("timeout", "cut", "reset"):
                end_ns = r.end_ns + time_limit_ns
            else:
                end_ns = r.end_ns
            changes += [(r.sent_ns, 1, r.id), (end_ns + 1, -1, r.id)]
        changes.sort()
        self._times: list[int] = []
        self._only: list[str | None] = []
        active: dict[str, None] = {}
        for ns, change, key in changes:
            if change > 0:
                active[key] = None
            else:
                active.pop(key, None)
            self._times.append(ns)
            self._only.append(next(iter(active)) if len(active) == 1 else None)

    def only(self, ns: int) -> str | None:
        """Name the one request that was under way, or None where there were none or several."""
        index = bisect_right(self._times, ns) - 1
        return self._only[index] if index >= 0 else None
