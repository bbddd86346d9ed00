"""From a run and what its conductor wrote of the cells to the table. The rules are in the package's docstring."""

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Literal

from drillmaster import faults
from drillmaster.errors import Exit
from drillmaster.matrix.cells import heard
from drillmaster.matrix.shapes import UNSETTLED, Cell, LeftOut, Result, Table, Told, Word
from drillmaster.outcomes import FAILED, OK, Attempt, Mark, Request, Run, Window
from drillmaster.retries import Accounting, account, another_model, usual_models
from drillmaster.verdict import Absent, Cite

__all__ = ["CUT_GRAIN_S", "exit_of", "open_cells", "read"]

CUT_GRAIN_S = 0.5
"""How much longer than all others a request must have been under way at the lift before it is called hung."""

_Said = Literal["primary", "fallback"]
_GAVE_UP = frozenset({"timeout", "never_ended"})
_GARBAGE = frozenset({"truncated", "degraded", "empty"})
_MOST_CITES = 3
_NO_ANSWER = {
    "rst": "reset without an answer",
    "cut": "closed without an answer",
    "client_gone": "no answer until the client left",
    "lifted": "no answer until the lift",
    "held": "held without an answer",
    "stall": "no answer",
    "upstream_error": "no answer of the real endpoint",
}
_BROKEN = {
    "rst": "reset inside the answer",
    "cut": "closed inside the answer",
    "client_gone": "unfinished when the client left",
    "lifted": "unfinished at the lift",
    "held": "held inside the answer",
    "stall": "unfinished when the client left",  # or a hold reached its bound
    "clean": "short of a complete answer",
}


def read(run: Run, told: Told, max_failed_ratio: float | None) -> Table:
    """Make the table. `max_failed_ratio`: the policy's share of users that a cell may fail; None: there is no policy."""
    windows = {window.id: window for window in run.windows}
    accounts = account(run) if run.windows else None
    said = _said(run.marks)
    attempts = {attempt.id: attempt for attempt in run.attempts}
    canned = _canned(run)
    struck: dict[str | None, list[Attempt]] = {}
    for attempt in run.attempts:
        struck.setdefault(attempt.window, []).append(attempt)
    results = [
        _Reading(
            run, cell, windows[cell.cell], told, said, attempts, struck.get(cell.cell, []), accounts, canned
        ).result(max_failed_ratio)
        for cell in told.cells
        if cell.cell in windows
    ]
    manifest = run.manifest
    first_ns = run.windows[0].injected_ns if run.windows else None
    return Table(
        run=run.name,
        service=manifest.service if manifest else "",
        started_at=manifest.started_at if manifest else "",
        took_s=round(run.end_ns / 1e9, 1),
        stamps=manifest.stamps if manifest else (),
        spoken=heard(run.attempts, until_ns=first_ns),
        baseline=_baseline(run),
        results=tuple(results),
        not_run=(*told.left_out, *_not_run(run, told, windows)),
        max_failed_ratio=max_failed_ratio,
        sealed=not run.seal_problems,
        clock_step_s=round(run.clock_step_s, 3),
        ended="" if run.ended == "completed" else (run.ended_why or "its end was never written"),
        problems=(*told.holes, *_problems(run)),
        digest=run.digest,
    )


def exit_of(table: Table) -> Exit:
    """What a matrix ends with: first a seal that does not hold, then a stop, what refuses, what failed, what is owed."""
    if not table.sealed:
        return Exit.REFUSED
    if table.ended:
        return Exit.ABORTED
    if table.problems:
        return Exit.REFUSED
    if not any(result.word not in UNSETTLED for result in table.results):
        return Exit.REFUSED
    if table.max_failed_ratio is None:
        return Exit.PASS
    if any(result.failed for result in table.results):
        return Exit.FAIL
    return Exit.REFUSED if any(entry.should for entry in table.not_run) or open_cells(table) else Exit.PASS


def open_cells(table: Table) -> list[str]:
    """The cells that owe an answer: nothing was settled, or too little to hold a policy's share against it."""
    judged = table.max_failed_ratio is not None
    return [r.cell for r in table.results if r.applies and (r.failed is None if judged else r.word in UNSETTLED)]


def _problems(run: Run) -> tuple[str, ...]:
    ours = [d for d in run.defects if d.file.startswith("events/")]
    holes = (f"{d.file}:{d.line} {d.kind}: found {d.found}, wanted {d.wanted}" for d in ours[:3])
    gone = (f"{w}: the fault was still there after its lift ({why})" for w, (gone, why) in run.gone.items() if not gone)
    return (*run.seal_problems[:4], *holes, *gone)


def _baseline(run: Run) -> str:
    before = run.before(run.windows[0]) if run.windows else list(run.requests)
    good = sum(r.outcome in OK for r in before)
    kinds = Counter(r.outcome for r in before if r.outcome in FAILED)
    failed = "; " + ", ".join(f"{n} {kind}" for kind, n in kinds.most_common(3)) if kinds else ""
    return f"{good} of {len(before)} users answered with nothing injected{failed}"


def _not_run(run: Run, told: Told, windows: Mapping[str, Window]) -> Iterable[LeftOut]:
    """What was to be run and was not: by the conductor's word, or because the drill ended before."""
    over = f"stopped: {run.ended_why}" if run.ended == "aborted" else "the evidence ends before it"
    for cell in told.cells:
        if cell.cell not in windows:
            why = told.not_run.get(cell.cell, over)
            yield LeftOut(label=cell.label, dialect=cell.dialect, stream=cell.stream, why=why, should=True)
    if not told.cells and not told.left_out and run.manifest is not None:
        for label in run.manifest.fault.get("faults", ()):
            yield LeftOut(label=str(label), dialect=None, stream=None, why=over, should=True)


def _canned(run: Run) -> frozenset[int | None]:
    """Which payloads were answered without the primary when nothing was injected: out of a cache, a template, a rule.

    Where some were, one that was not asked then may be of the same kind.
    """
    before = run.before(run.windows[0]) if run.windows else []
    until_ns = run.windows[0].injected_ns if run.windows else 0
    nobodys = sorted(a.start_ns for a in run.attempts if a.request is None and a.start_ns < until_ns)
    found = {
        r.payload
        for r in before
        if r.outcome == "ok_fallback"
        and not r.attempts  # nor one that asked, was failed, and fell back
        and r.end_ns is not None
        and r.end_ns < until_ns
        and not _began_within(nobodys, r.sent_ns, r.end_ns)
    }
    if found:
        found |= {r.payload for r in run.requests} - {r.payload for r in before}
    return frozenset(found)


def _said(marks: Sequence[Mark]) -> dict[str, tuple[_Said, str]]:
    """What the worker said last of where a request's answer came from, by the request's id; and by which path."""
    found: dict[str, tuple[_Said, str]] = {}
    for mark in marks:
        if mark.id is not None and mark.event in ("model_ok", "fallback_engaged"):
            primary = mark.event == "model_ok" and mark.path in (None, "primary")
            found[mark.id] = ("primary" if primary else "fallback", mark.path or "fallback")
    return found


def branch_of(attempt: Attempt) -> str:
    """What the client was left with, in a few words: status, and whether the answer reached its API's end."""
    if attempt.status is None:
        return _NO_ANSWER.get(attempt.end, f"no answer ({attempt.end})")
    if attempt.status >= 300:
        return f"status {attempt.status}" + (
            "" if attempt.end == "clean" else f", {_BROKEN.get(attempt.end, attempt.end)}"
        )
    if not attempt.upstream:
        own = f"status {attempt.status}, the fault's own"
        return own if attempt.end == "clean" else f"{own}, {_BROKEN.get(attempt.end, attempt.end)}"
    if attempt.end == "clean" and attempt.terminal:
        return f"status {attempt.status}, whole" + ("" if attempt.intact else " and altered")
    return f"status {attempt.status}, {_BROKEN.get(attempt.end, attempt.end)}"


def _began_within(starts_ns: Sequence[int], since_ns: int, until_ns: int) -> bool:
    """Whether one of these instants, in order, lies in a span."""
    return bisect_right(starts_ns, until_ns) > bisect_left(starts_ns, since_ns)


def _doubtful(attempt: Attempt) -> bool:
    """Whether a fault gave the client something that can be handed on: a 200 of its own, or a part of the endpoint's."""
    if attempt.window is None or attempt.status is None or attempt.status >= 300:
        return False
    return not attempt.upstream or (attempt.down_bytes > 0 and not (attempt.intact and attempt.terminal))


class _Reading:
    """One cell's window, looked at from all sides."""

    def __init__(
        self,
        run: Run,
        cell: Cell,
        window: Window,
        told: Told,
        said: Mapping[str, tuple[_Said, str]],
        attempts: Mapping[str, Attempt],
        struck: Sequence[Attempt],
        accounts: Accounting | None,
        canned: frozenset[int | None],
    ) -> None:
        self._canned = canned
        self._nobodys = sorted(a.start_ns for a in struck if a.request is None and _doubtful(a))
        """What the fault gave, and nobody knows to whom: it may lie behind any answer of then."""
        self._run, self._cell, self._window, self._told = run, cell, window, told
        self._said, self._attempts, self._struck, self._accounts = said, attempts, struck, accounts
        self._lifted_ns = run.lifted_or_end_ns(window)
        during = [] if window.met == 0 else list(run.during(window))
        met = [r for r in during if self._met(r)]
        # What the lift itself ended says nothing of the agent: it got an answer because the drill was over.
        self.cut = [
            r for r in met if r.end_ns is not None and r.end_ns >= self._lifted_ns and r.outcome not in _GAVE_UP
        ]
        cut = {r.id for r in self.cut}
        self.judged = [r for r in met if r.id not in cut]
        self.hung = [r for r in self.judged if r.outcome in _GAVE_UP] + self._waited_for_the_lift()
        self.unknown = [r for r in self.judged if self._is_unknown(r)]
        self.garbage = [r for r in self.judged if r.outcome in _GARBAGE or self._took_the_faults(r)]
        self.altered = [r for r in self.judged if r.outcome == "ok_primary" and self._took_altered(r)]
        kind = faults.load(cell.fault)
        if kind.rewrites or "complete" not in kind.seen:
            self.garbage += self.altered
        bad = {r.id for r in (*self.garbage, *self.unknown)}
        self.fell = [r for r in self.judged if r.outcome in ("ok_fallback", "ok") and r.id not in bad]
        self.primary = [r for r in self.judged if r.outcome == "ok_primary" and r.id not in bad]
        self.failed = [r for r in self.judged if r.outcome in FAILED and r.outcome not in _GAVE_UP | _GARBAGE]

    def _met(self, request: Request) -> bool:
        if self._window.id in request.met:
            return True
        if self._may_be_canned(request):
            return self._cell.dialect is None  # there is no attempt to be seen: it is counted as not told
        elsewhere = request.outcome == "ok" and self._says(request) == "fallback"
        return elsewhere or request.outcome not in ("ok_primary", "ok")

    def _may_be_canned(self, request: Request) -> bool:
        """Whether an answer that met no fault is one that the agent gives without its model on any day, by all that is known."""
        return (
            request.outcome == "ok_fallback"
            and request.payload in self._canned
            and self._window.id not in request.met
            and self._says(request) != "fallback"
        )

    def _own(self, request: Request) -> list[Attempt]:
        return [self._attempts[key] for key in request.attempts if key in self._attempts]

    def _faulted(self, request: Request) -> list[Attempt]:
        return [a for a in self._own(request) if a.window == self._window.id]

    def _says(self, request: Request) -> _Said | None:
        return request.told or self._said.get(request.id, (None, ""))[0]

    def _waited_for_the_lift(self) -> list[Request]:
        """Those that the lift found under way for so long that no time limit of the agent's can have been near."""
        ended_s = [r.latency_s or 0.0 for r in self.judged if r.outcome not in _GAVE_UP]
        least_s = max((self._lifted_ns - self._window.injected_ns) / 2e9, max(ended_s, default=0.0) + CUT_GRAIN_S)
        since_ns = self._window.injected_ns
        return [r for r in self.cut if (self._lifted_ns - max(r.sent_ns, since_ns)) / 1e9 >= least_s]

    def _took_the_faults(self, request: Request) -> bool:
        """The agent passed off as the primary's an answer that no byte of the real endpoint is in."""
        return (
            request.outcome in ("ok_fallback", "ok", "degraded")
            and self._says(request) == "primary"
            and bool(self._faulted(request))
        )

    def _passed_on(self, request: Request) -> bool:
        return request.outcome in OK or self._took_the_faults(request)

    def _took_altered(self, request: Request) -> bool:
        own = self._faulted(request)
        sound = [a for a in self._own(request) if a.upstream and (a.window is None or (a.intact and a.terminal))]
        return bool(own) and not sound and any(a.altered for a in own)

    def _is_unknown(self, request: Request) -> bool:
        """A good answer of which nobody says whether it is the fallback's or what the fault put in the primary's place."""
        if self._may_be_canned(request):
            return True
        if request.outcome not in ("ok", "ok_fallback") or self._says(request) is not None:
            return False
        if request.outcome == "ok" or any(_doubtful(a) for a in self._faulted(request)):
            return True
        end_ns = request.end_ns if request.end_ns is not None else request.sent_ns
        return _began_within(self._nobodys, request.sent_ns, end_ns)

    def _retried(self, request: Request) -> bool:
        return any(not (a.upstream and a.intact and a.terminal) for a in self._faulted(request))

    def _let_pass(self, request: Request) -> bool:
        """Whether it was struck, and then answered by the same endpoint in an API or a way that the cell's fault lets pass."""
        cell, struck = self._cell, self._faulted(request)
        if cell.dialect is None or not struck:
            return False
        since_ns = min(a.start_ns for a in struck)
        return any(
            a.upstream
            and a.window is None
            and a.status is not None
            and a.status < 400
            and a.start_ns > since_ns
            and (a.dialect, bool(a.stream)) != (cell.dialect, cell.stream)
            for a in self._own(request)
        )

    def result(self, max_failed_ratio: float | None) -> Result:
        word, why = self._word()
        failures = {r.id for r in (*self.hung, *self.garbage, *self.failed)}
        requests = len({r.id for r in (*self.judged, *self.hung)})
        failed = None
        if max_failed_ratio is not None and word not in UNSETTLED:
            known = requests - len(self.unknown)
            failed = len(failures) > max_failed_ratio * known
            if not failed and known < self._told.requests_per_cell:
                failed = None
        window, accounts = self._window, self._accounts
        phase = accounts.phase("fault", window.id) if accounts else None
        storm = accounts.storm(window.id) if accounts else None
        marks = self._marks()
        back = self._told.backs.get(self._cell.cell)
        paths = Counter(m.path or "fallback" for m in marks if m.event == "fallback_engaged")
        good = [r.end_ns for r in (*self.fell, *self.primary) if r.end_ns is not None]
        since_ns = window.first_met_ns or window.injected_ns
        nothing = Absent("nothing was counted")
        own = self._struck
        return Result(
            cell=self._cell.cell,
            label=self._cell.label,
            fault=self._cell.fault,
            params=self._cell.params,
            dialect=self._cell.dialect,
            stream=self._cell.stream,
            word=word,
            why=why,
            applies=word != "not met" or not self._found_nothing(),
            failed=failed,
            requests=requests,
            failures=len(failures),
            users=dict(Counter(r.outcome for r in self.judged).most_common()),
            cut_short=len(self.cut),
            wire=dict(Counter(branch_of(a) for a in own).most_common()),
            fallbacks=dict(paths.most_common()),
            exceptions=dict(
                Counter(m.kind or "unnamed" for m in marks if m.event == "unhandled_exception").most_common()
            ),
            deaths=len(self._deaths()),
            first_good_s=None if not good else round(max(0, min(good) - since_ns) / 1e9, 3),
            attempts_each=phase.mean if phase else nothing,
            most_attempts=phase.most if phase else nothing,
            storm=storm.fault.factor if storm else nothing,
            back_s=back.after_s if back is not None and back.back else None,
            not_back=back.why if back is not None and not back.back else "",
            restarted=self._cell.cell in self._told.restarted,
            window_s=round((self._lifted_ns - window.injected_ns) / 1e9, 2),
            cites=self._cites(marks, own),
        )

    def _word(self) -> tuple[Word, str]:
        """The cell in a word, and what is behind it."""
        needed = self._told.requests_per_cell
        if not self.judged and not self.cut:
            return "not met", self._why_not_met()
        n = len(self.judged)
        bad = len({r.id for r in (*self.hung, *self.garbage, *self.failed)})
        if self.hung:
            held = [r for r in self.hung if r.outcome not in _GAVE_UP]
            gave_up = len(self.hung) - len(held)
            parts = [f"{gave_up} users gave up"] if gave_up else []
            window_s = (self._lifted_ns - self._window.injected_ns) / 1e9
            parts += [f"{len(held)} waited for the lift"] if held else []
            after = f"; the fault was on for {window_s:.3g} s" if held else ""
            patience_s = self._run.manifest.time_limit_s if self._run.manifest else 0.0
            if held and not gave_up and window_s < patience_s:
                after += f"; its users would wait {patience_s:.3g} s: a longer window_s shows whether the agent would"
            return "hung", f"{' and '.join(parts)}, of {n + len(held)}{after}{self._beside(self.hung)}"
        if self.garbage:
            kinds = Counter("passed on what the fault sent" if self._passed_on(r) else r.outcome for r in self.garbage)
            return "answered with garbage", ", ".join(f"{k} {kind}" for kind, k in kinds.most_common()) + f", of {n}"
        if self.failed:
            kinds = Counter(r.outcome for r in self.failed)
            told = ", ".join(f"{k} {kind}" for kind, k in kinds.most_common())
            beside = self._beside(self.failed)
            if self.fell or self.primary:
                return "engaged in part", f"{n - bad} of {n} had a good answer; {told}{beside}"
            usual = usual_models(self._run)
            there = sum(another_model(self._own(r), self._window, usual) is not None for r in self.failed)
            same = f"; {there} asked the same endpoint for another model: a fallback needs an endpoint of its own"
            more = f"; {len(self.unknown)} more of unknown origin" if self.unknown else ""
            return "never engaged", f"{told}, of {n}{more}{beside}{same if there else ''}"
        settled = len(self.fell) + len(self.primary)
        if settled < needed:
            if self.unknown:
                return "not told", (
                    f"{len(self.unknown)} of {n} had an answer, and nobody says whose: write target.expect.fallback_matching "
                    "into the plan, or have the worker mark model_ok and fallback_engaged"
                )
            return (
                "not met",
                f"{settled} requests met it and had their end before the lift, at least {needed} are wanted",
            )
        more = f"; {len(self.unknown)} more of unknown origin" if self.unknown else ""
        near = sum(self._let_pass(r) for r in (*self.fell, *self.primary))
        if near:
            more += (
                f"; {near} by the same endpoint, which this cell's fault left alone there: were the whole endpoint gone, "
                "they would have had none"
            )
        if self.fell:
            by_retry = f"; {len(self.primary)} the primary" if self.primary else ""
            return "survived by fallback", f"the fallback answered {len(self.fell)} of {n}{by_retry}{more}"
        retried = [r for r in self.primary if self._retried(r) and not self._took_altered(r)]
        if retried:
            return (
                "survived by retry",
                f"the primary answered {len(self.primary)} of {n}, {len(retried)} at a later attempt{more}",
            )
        altered = f", {len(self.altered)} of them as the fault had altered it" if self.altered else ""
        return "no fallback needed", f"the primary answered {len(self.primary)} of {n}{altered}{more}"

    def _beside(self, bad: Sequence[Request]) -> str:
        """How many of these no attempt of was struck, where the agent lets that be known: others' failures took them along."""
        known = any(r.joined_by in ("trace", "nonce") for r in (*self.judged, *self.cut))
        n = sum(self._window.id not in r.met for r in bad) if known and self._cell.dialect is not None else 0
        return f"; {n} of these met nothing of it themselves" if n else ""

    def _why_not_met(self) -> str:
        window = self._window
        if window.met:
            return (
                "it was on, and no user's request is known to have met it: let the agent pass traceparent on, or put {nonce} "
                "into target.url or target.body of the plan"
            )
        tally = window.rules[0] if window.rules else None
        if tally is None or tally.matched is None:
            return "nobody met it"
        if self._found_nothing():
            return f"{tally.matched} requests looked as it wants, and it found nothing to do in their answers"
        return "no request looked as it wants" + (f"; what came: {', '.join(tally.saw[:3])}" if tally.saw else "")

    def _found_nothing(self) -> bool:
        """Whether requests came as the rule wants them, and the fault let all of them pass."""
        rules = self._window.rules
        return self._window.met == 0 and bool(rules) and bool(rules[0].matched)

    def _marks(self) -> list[Mark]:
        window, ids = self._window, {r.id for r in (*self.judged, *self.hung)}
        until_ns = self._run.next_injection_ns(window)
        return [
            m
            for m in self._run.marks
            if m.id in ids or (m.id is None and window.injected_ns <= m.ns < min(until_ns, self._lifted_ns))
        ]

    def _deaths(self) -> list[Mark]:
        until_ns = self._run.next_injection_ns(self._window)
        return [m for m in self._run.exits if self._window.injected_ns <= m.ns < until_ns]

    def _cites(self, marks: Sequence[Mark], own: Sequence[Attempt]) -> tuple[Cite, ...]:
        found = [self._window.cite]
        for rows in (
            self.hung,
            self.garbage,
            self.failed,
            self.fell or self.primary,
            own,
            [m for m in marks if m.event == "unhandled_exception"],
            self._deaths(),
        ):
            found += [row.cite for row in rows[:_MOST_CITES]]
        return tuple(dict.fromkeys(found))
