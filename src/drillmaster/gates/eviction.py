"""The eviction gate: the model endpoint went away; did the users notice?

Rules, in the order the checks are listed:

1. Admissions. The run is sealed and unchanged; policy and code did not change during it; the proxy's own injection is the
   anchor; enough user requests met the fault; the baseline was healthy; the whole window was run; there are at least
   1/budget requests; the clocks are sane; the fault was gone afterwards. One that does not pass refuses the verdict.
2. A fallback engaged when the first user had an answer after the injection with no unfaulted byte of the real endpoint
   behind it. The anchor is the injection; a fallback never anchors itself, and one from before it counts for nothing.
   One that never came took at least the whole window, and that fails. Where every answer is of unknown origin, nobody can
   say whether it came, and that is refused.
3. Every failed outcome counts against the budget, not the 5xx alone, over the window that the policy names, undiluted by
   rows from outside it. A request cut at its time limit failed; so did half an answer that was taken for a whole one.
4. No unhandled exception, no worker that died, no request without an end.
5. The primary came back within its limit after the lift.
6. Of the answers that decide, no more than the policy's share may be of unknown origin.
7. The Scribe saw the injection, the first fallback (or none), and the end. For completeness their lines decide.
8. Every injection of the file is judged, not the first.
9. Of a fault that met nobody nothing is said but that, and why: no check fails for it, and no finding is made.
10. Where the policy limits them: attempts of one user request, and the load on the endpoint against the baseline's.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Literal

import msgspec

from drillmaster import admissions, diagnosis, unmet
from drillmaster.admissions import anchored, folded, tail_of, targeted, whole
from drillmaster.gates import Gate
from drillmaster.gates._eviction_waits import (
    extra_wait_s,
    met_requests,
    owed_in_silence,
    rode_out,
    until_fallback,
    until_primary,
    usual_wait_ns,
)
from drillmaster.outcomes import FAILED, OK, Request, Run, Window
from drillmaster.policy import seconds_text, share_text
from drillmaster.retries import retry_checks, retry_limit_problem
from drillmaster.stats import calls_for_share
from drillmaster.verdict import Absent, AtLeast, AtMost, Check, Cite, Exact, Finding, Measure, Status, at_most, holds

__all__ = ["Eviction", "gate"]

_DAY_NS = 86_400 * 10**9
_ATTRIBUTE = (
    "let the agent pass traceparent on, or put {nonce} into target.url or target.body of the plan, and run again"
)
_TELL = (
    "write into target.expect.fallback_matching of the plan what only the fallback's answers have, or have the worker mark "
    "model_ok and fallback_engaged with the id of x-drill-request, and run again"
)
_WAYS = {"trace": "by traceparent", "nonce": "by nonce", "alone": "alone in flight"}
_TOLD = {
    "truncated": "half answers taken for whole",
    "http_3xx": "3xx",
    "http_4xx": "4xx",
    "http_5xx": "5xx",
    "refused": "not connected",
    "reset": "reset by the agent",
    "cut": "cut short",
    "protocol": "not HTTP",
    "never_ended": "never ended",
}
_SCRIBE = (
    ("the injection", ("injection_seen",)),
    ("the first fallback, or that there was none", ("first_fallback_seen", "no_fallback_seen")),
    ("the end of the window", ("window_ended",)),
)


class Eviction(Gate[Run], frozen=True, kw_only=True, tag="eviction"):
    """Whether users got through the loss of the model endpoint.

    Happens: the proxy in front of the endpoint resets, answers 503 or hangs, for one window, under steady traffic.
    Breaks: fallbacks that were never exercised, clients without a time limit, loops that die of one exception.
    Looks like: first user answer from the fallback, every failed outcome, recovery, each against its limit.
    Cannot show: whether the answers were good, and what quota, credential or content faults would have done.
    """

    max_fallback_s: float
    """Seconds from the injection to the end of the first user's answer that the primary had no part in."""
    max_failed_ratio: float
    """Share (0..1) of user requests that may fail in `failed_window`."""
    failed_window: Literal["fault", "run"]
    max_recovery_s: float | None
    """Seconds from the lift to the first answer of the primary. None only for a bare file judged by flags."""
    min_met: int
    """User requests that must have met the fault, at least 1."""
    max_baseline_failed_ratio: float
    max_unattributed_ratio: float
    max_clock_step_s: float
    max_attempts_per_request: int | None = None
    """Attempts that one user request may become on the wire, over all layers, in the fault and behind it. Left out: not judged."""
    max_storm_factor: float | None = None
    """Attempts for each user request due, over the baseline's, in the fault and just behind it. Left out: not judged."""

    def __post_init__(self) -> None:
        """Raise ValueError, naming field, value and range, for a limit that decides nothing."""
        for name, low, high in (
            ("max_fallback_s", 0, 86_400),
            ("max_recovery_s", 0, 86_400),
            ("max_failed_ratio", 0, 1),
            ("max_baseline_failed_ratio", 0, 1),
            ("max_unattributed_ratio", 0, 1),
            ("max_clock_step_s", 0, 3_600),
        ):
            value = getattr(self, name)
            if value is None:
                continue
            whole = name.endswith("_ratio") and value == 1
            if not low <= value <= high or whole or (name.endswith("_s") and value == 0):
                wanted = "a share from 0 to under 1 (1 % is 0.01)" if high == 1 else f"seconds over 0, at most {high}"
                raise ValueError(f"{name}: found {value}, wanted {wanted}")
        if self.min_met < 1:
            raise ValueError(f"min_met: found {self.min_met}, wanted at least 1")
        if problem := retry_limit_problem(self.max_attempts_per_request, self.max_storm_factor):
            raise ValueError(problem)

    def headline(self, evidence: Run) -> tuple[str, ...]:
        return (self.sentence(evidence),)

    def sentence(self, run: Run | None = None) -> str:
        """Print the budget as people read it back, with the window it is taken over."""
        spans = {}
        if run is not None and run.manifest is not None:
            p = run.manifest.phases
            spans = {"fault": p["fault_s"], "run": sum(p.values())}
        span = f"the {seconds_text(spans[self.failed_window])} of " if spans else ""
        where = f"{span}{'the fault' if self.failed_window == 'fault' else 'the whole run'}"
        back = (
            f", and the primary must answer again within {seconds_text(self.max_recovery_s)}"
            if self.max_recovery_s
            else ""
        )
        return (
            f"Over {where}, no more than {share_text(self.max_failed_ratio)} of user requests may fail; a fallback must "
            f"engage within {seconds_text(self.max_fallback_s)} of the fault{back}."
        )

    def checks(self, evidence: Run) -> Iterator[Check]:
        run = evidence
        yield from admissions.bare(run) if run.bare else admissions.sealed(run, self.max_clock_step_s)
        yield anchored(run)
        for window in run.windows:
            tail = tail_of(run, window)
            yield self._proof(run, window, tail)
            if window.rules:
                yield targeted(run, window, tail)
            yield whole(run, window, tail)
            yield self._enough(run, window, tail)
        for window in run.windows:
            yield self._baseline(run, window, tail_of(run, window))
        met = [window for window in run.windows if run.bare or met_requests(run, window)]
        for window in run.windows:
            tail = tail_of(run, window)
            yield _blameless(self._fallback(run, window, tail), window in met)
            yield _blameless(self._failed(run, window, tail), window in met)
        by_fault = bool(met) or not run.windows
        yield _blameless(_exceptions(run), by_fault)
        yield _blameless(_ended(run), by_fault)
        for window in run.windows:
            tail = tail_of(run, window)
            recovery = self._recovery(run, window, tail)
            if recovery is not None:
                yield _blameless(recovery, window in met)
            yield _blameless(self._settled(run, window, tail), window in met)
        for check in retry_checks(run, self.max_attempts_per_request, self.max_storm_factor):
            yield _blameless(check, by_fault)
        if not run.bare:
            yield self._attribution(run)
        yield from _scribe(run)

    def findings(self, evidence: Run, checks: tuple[Check, ...]) -> Iterator[Finding]:
        limits = diagnosis.Limits(
            max_fallback_s=self.max_fallback_s,
            max_failed_ratio=self.max_failed_ratio,
            max_recovery_s=self.max_recovery_s,
        )
        met = [window for window in evidence.windows if evidence.bare or met_requests(evidence, window)]
        return diagnosis.diagnose(evidence, limits, {c.id: c.status for c in checks}, met)

    # -- admissions

    def _proof(self, run: Run, window: Window, tail: str) -> Check:
        if run.bare:
            after = run.during(window)
            many = len(after) >= self.min_met
            return Check(
                id=f"proof{tail}",
                role="admission",
                status="pass" if many else "refused",
                title=f"user requests after the injection: {len(after)} (at least {self.min_met}); "
                f"that they met the fault is UNPROVEN{tail}",
                observed=Exact(len(after)),
                limit=self.min_met,
                remedy="" if many else "run the traffic through the whole window: drillmaster run eviction PLAN",
            )
        met = met_requests(run, window)
        # A fault below HTTP reads nobody's bytes. Connections, or a probe of the injector's own, show that it was on, and
        # what came through the proxy before it that the users' requests go there.
        if window.proof == "bytes":
            proven = window.client_bytes > 0
        else:
            proven = window.met > 0 and any(request.attempts for request in run.before(window))
        enough = proven and len(met) >= self.min_met
        why = _PROOF_WORDS[window.proof].format(met=window.met, client_bytes=window.client_bytes)
        remedy = ""
        if not window.met:
            why, remedy = unmet.nobody(run, window)
        elif proven and met:
            remedy = "lengthen phases.fault_s or shorten traffic.every_s in the plan, and run again"
        elif not enough:
            remedy = (
                "point the agent's model base URL at the proxy (see proxy_started in events/proxy.jsonl) and run again"
            )
        return Check(
            id=f"proof{tail}",
            role="admission",
            status=holds(enough, otherwise="refused"),
            title=f"fault proven: {len(met)} user requests met it (at least {self.min_met}){tail}",
            observed=Exact(len(met)),
            limit=self.min_met,
            cites=(window.cite,),
            why=why,
            remedy="" if enough else remedy,
        )

    def _enough(self, run: Run, window: Window, tail: str) -> Check:
        n = len(self._judged(run, window)) + owed_in_silence(run, window, self.max_fallback_s)[0]
        # A budget of 0 is a census of all there is: one request is enough to break it, and any number can hold it.
        wanted = 1 if self.max_failed_ratio == 0 else calls_for_share(self.max_failed_ratio)
        return Check(
            id=f"enough{tail}",
            role="admission",
            status=holds(n >= wanted, otherwise="refused"),
            title=f"requests enough to tell {share_text(self.max_failed_ratio)}: {n} (at least {wanted}){tail}",
            observed=Exact(n),
            limit=wanted,
            remedy=""
            if n >= wanted
            else "shorten traffic.every_s or lengthen phases.fault_s in the plan, and run again",
        )

    def _baseline(self, run: Run, first: Window, tail: str) -> Check:
        before = run.before(first)
        failed = [r for r in before if r.outcome in FAILED]
        # What the worker raised while it was started and looked at is not the baseline's.
        begun_ns = run.phases[0].start_ns if run.phases else 0
        raised = [m for m in run.marks if m.event == "unhandled_exception" and begun_ns <= m.ns < first.injected_ns]
        primary = [r for r in before if r.outcome in ("ok_primary", "ok")]
        why = ""
        remedy = ""
        if not before:
            why, remedy = "no user request before the injection", "run a baseline first: phases.baseline_s in the plan"
            if run.bare:
                remedy = "start the traffic loop before the fault, and keep both in one file"
        elif len(failed) > self.max_baseline_failed_ratio * len(before):
            why = f"{len(failed)} of {len(before)} failed before anything was injected ({_kinds(failed)})"
            remedy = "mend the agent or its real endpoint, see that it answers, and run again"
        elif raised:
            why = f"{len(raised)} unhandled exceptions before anything was injected"
            remedy = "mend them (cited), and run again"
        elif not run.bare and 2 * len(primary) < len(before):
            why = f"{len(primary)} of {len(before)} answers had the real endpoint behind them: the agent goes round the proxy, "
            why += "or is on its fallback already"
            remedy = "set the agent's model base URL to the proxy's address, and run again"
        return Check(
            id=f"baseline{tail}",
            role="admission",
            status="refused" if why else "pass",
            title=f"baseline healthy: {len(before) - len(failed)} of {len(before)} answered{tail}",
            observed=Exact(len(failed) / len(before), n=len(before)) if before else Absent("no requests"),
            limit=self.max_baseline_failed_ratio,
            unit="ratio",
            cites=tuple(r.cite for r in failed[:3]) + tuple(m.cite for m in raised[:3]),
            why=why,
            remedy=remedy,
        )

    # -- judgements

    def _judged(self, run: Run, window: Window) -> list[Request]:
        """The requests of the policy's window: due in it, or met by the fault though due before."""
        if self.failed_window == "run":
            return list(run.requests)
        during = run.during(window)
        if run.bare:
            # A row that tells no duration is dated by its end, or by its start: what failed just after the lift may have hung
            # since before it, and no row can say that it did not.
            until_ns = run.lifted_or_end_ns(window) + round(self.max_fallback_s * 1e9)
            after = run.after(window)
            during += [r for r in after if r.outcome in FAILED and r.due_ns == r.end_ns and r.due_ns < until_ns]
        return during

    def _fallback(self, run: Run, window: Window, tail: str) -> Check:
        if unharmed := rode_out(run, window, self.max_fallback_s):
            usual_ns = usual_wait_ns(run, window)
            worst_s = max(extra_wait_s(run, window, r, usual_ns) for r in unharmed)
            return Check(
                id=f"fallback{tail}",
                role="judgement",
                status="pass",
                title=f"no fallback was needed: the primary answered all {len(unharmed)} requests that met the fault, "
                f"at most {seconds_text(round(worst_s, 2))} later than before it{tail}",
                observed=Exact(worst_s, n=len(unharmed)),
                limit=self.max_fallback_s,
                unit="s",
                cites=(window.cite, *(r.cite for r in unharmed[:3])),
                why="so the fallback was not rehearsed: a fault that takes the endpoint away does that (mode: reset)",
            )
        if not run.bare and not met_requests(run, window):
            return Check(
                id=f"fallback{tail}",
                role="judgement",
                status="refused",
                title=f"fallback within {seconds_text(self.max_fallback_s)}{tail}",
                observed=Absent("the fault met nobody"),
                limit=self.max_fallback_s,
                unit="s",
                cites=(window.cite,),
                why="not judged: the fault met nobody, so that nothing was taken away",
                remedy=_SEE_PROOF,
            )
        observed, cites, why = until_fallback(run, window, self.max_fallback_s)
        seen = _observed_text(observed, self.max_fallback_s)
        status = at_most(observed, self.max_fallback_s)
        return Check(
            id=f"fallback{tail}",
            role="judgement",
            status=status,
            title=f"fallback within {seconds_text(self.max_fallback_s)} (observed {seen}){tail}",
            observed=observed,
            limit=self.max_fallback_s,
            unit="s",
            cites=cites,
            why=why,
            remedy=""
            if status != "refused"
            else _attribute(run)
            if isinstance(observed, AtMost | Absent)
            else "let the fault last longer than max_fallback_s, and run again",
        )

    def _failed(self, run: Run, window: Window, tail: str) -> Check:
        judged = self._judged(run, window)
        failed = [r for r in judged if r.outcome in FAILED]
        silent, silence = owed_in_silence(run, window, self.max_fallback_s)
        total, bad = len(judged) + silent, len(failed) + silent
        observed: Measure = Exact(bad / total, n=total) if total else Absent("no requests")
        seen = share_text(bad / total) if total else "nothing"
        bad5 = sum(r.outcome == "http_5xx" for r in failed)
        # A failure that never reaches a user is none; one that reaches them in another coat than 5xx still is.
        return Check(
            id=f"failed{tail}",
            role="judgement",
            status=at_most(observed, self.max_failed_ratio),
            title=f"failed requests at most {share_text(self.max_failed_ratio)} of the {self.failed_window} "
            f"(observed {seen}: {bad} of {total}, {bad5} of them 5xx){tail}",
            observed=observed,
            limit=self.max_failed_ratio,
            unit="ratio",
            cites=(*(r.cite for r in failed[:5]), *silence),
            why=", ".join(filter(None, (_kinds(failed), f"{silent} due in a silence" if silent else ""))),
            remedy="" if total else "keep the traffic on through the whole window, and run again",
        )

    def _recovery(self, run: Run, window: Window, tail: str) -> Check | None:
        if window.lifted_ns is None:
            return None  # the whole window was not run: refused above
        limit = self.max_recovery_s
        observed, cites, why = until_primary(run, window)
        if run.bare and limit is None and (isinstance(observed, Absent) or not run.after(window)):
            return None  # nothing in the file can tell a primary's answer from another, and no limit asks for it
        if limit is None:
            limit = (run.next_injection_ns(window) - window.lifted_ns) / 1e9
            wanted = "after the lift, before the file ends"
        else:
            wanted = f"within {seconds_text(limit)} of the lift"
        status = at_most(observed, limit)
        if isinstance(observed, AtLeast) and self.max_recovery_s is None:
            status = "fail"
        return Check(
            id=f"recovery{tail}",
            role="judgement",
            status=status,
            title=f"primary back {wanted} (observed {_observed_text(observed, limit)}){tail}",
            observed=observed,
            limit=limit,
            unit="s",
            cites=cites,
            why=why,
            remedy=""
            if status != "refused"
            else "have the worker mark model_ok where the primary answered (docs/howto/write-a-timeline.md)"
            if run.bare
            else "see that the real endpoint answers to the end of the run, and run again"
            if isinstance(observed, Absent)
            else "lengthen phases.recovery_s past max_recovery_s, and run again",
        )

    def _settled(self, run: Run, window: Window, tail: str) -> Check:
        """Judge what users got once the time for recovery was over: coming back for one answer is not coming back."""
        lift_ns = run.lifted_or_end_ns(window)
        after = run.after(window)
        grace_s = self.max_recovery_s if self.max_recovery_s is not None else self.max_fallback_s
        late = [r for r in after if r.due_ns >= lift_ns + round(grace_s * 1e9)]
        if not late:  # the run ended within that time: from the first good answer on, then
            first = min((r.end_ns for r in after if r.outcome in OK and r.end_ns is not None), default=lift_ns)
            late = [r for r in after if r.due_ns >= first] or after
        failed = [r for r in late if r.outcome in FAILED]
        # So short a stretch cannot tell a budget: one failure is let by where the budget lets any by at all.
        allowed = max(1.0, self.max_failed_ratio * len(late)) if self.max_failed_ratio else 0.0
        return Check(
            id=f"settled{tail}",
            role="judgement",
            status="refused" if not late else "pass" if len(failed) <= allowed else "fail",
            title=f"users served after the recovery: {len(late) - len(failed)} of {len(late)}{tail}",
            observed=Exact(len(failed) / len(late), n=len(late)) if late else Absent("no requests"),
            limit=self.max_failed_ratio,
            unit="ratio",
            cites=tuple(r.cite for r in failed[:3]),
            why=_kinds(failed),
            remedy="" if late else "keep the traffic on after the lift, and run again",
        )

    def _attribution(self, run: Run) -> Check:
        answers = [r for w in run.windows for r in (*run.during(w), *run.after(w)) if r.outcome in OK]
        unknown = [r for r in answers if r.outcome == "ok"]
        ratio = len(unknown) / len(answers) if answers else 0.0
        ok = ratio <= self.max_unattributed_ratio
        ways = Counter(r.joined_by for r in answers)
        return Check(
            id="attribution",
            role="judgement",
            status="pass" if ok else "refused",
            title=f"answers of unknown origin at most {share_text(self.max_unattributed_ratio)} "
            f"(observed {share_text(ratio)})",
            observed=Exact(ratio, n=len(answers)),
            limit=self.max_unattributed_ratio,
            unit="ratio",
            cites=tuple(r.cite for r in unknown[:3]),
            why=", ".join(f"{n} joined {_WAYS[how]}" for how, n in sorted(ways.items()) if how in _WAYS),
            remedy="" if ok else _attribute(run),
        )


def _blameless(check: Check, met: bool) -> Check:
    """Give the check as it is; where the fault met nobody, what failed meanwhile is not held against the agent."""
    if met or check.status != "fail":
        return check
    why = f"the fault met nobody, and is not what did this{f' ({check.why})' if check.why else ''}"
    return msgspec.structs.replace(check, status="refused", why=why, remedy=_SEE_PROOF)


_SEE_PROOF = "do what `proof` says, and run again"
_PROOF_WORDS = {
    "bytes": "the proxy acted on {met} attempts and read {client_bytes} bytes of them",
    "connections": "the proxy acted on {met} connections",
    "probe": "{met} probes of the proxy's own met the fault, as every client did",
}

gate = Eviction


def _attribute(run: Run) -> str:
    """Say what tells an answer's origin: what joins attempts to users, or, where they are joined, what tells two texts apart."""
    unknown = [r for w in run.windows for r in run.during(w) if r.outcome == "ok"]
    return _TELL if unknown and all(r.met for r in unknown) else _ATTRIBUTE


def _exceptions(run: Run) -> Check:
    first_ns = run.windows[0].injected_ns if run.windows else 0
    # One that is dated long before the run began was written by a clock that is wrong, in this run all the same.
    raised = [m for m in run.marks if m.event == "unhandled_exception" and (m.ns >= first_ns or m.ns < -_DAY_NS // 24)]
    died = list(run.exits)
    torn = [d for d in run.defects if not d.file.startswith("events/") and "unhandled_exception" in d.may_be]
    status: Status = "fail" if raised or died else "refused" if torn else "pass"
    kinds = Counter(m.kind or "unnamed" for m in raised)
    parts = [f"{n} {kind}" for kind, n in kinds.most_common(4)] + [f"the worker ended with {m.kind}" for m in died[:2]]
    why = ", ".join(parts)
    blind = not why and not run.examined.get("marks") and not run.examined.get("worker_rows")
    return Check(
        id="exceptions",
        role="judgement",
        status=status,
        title="no unhandled exception"
        + (
            f" (found {len(raised) + len(died)})"
            if raised or died
            else " (no worker timeline: users and process alone)"
            if blind
            else ""
        ),
        observed=Exact(len(raised) + len(died)),
        limit=0,
        cites=tuple(m.cite for m in (*raised, *died)[:5]) or tuple(Cite(d.file, d.line) for d in torn[:3]),
        why=why,
        remedy="see the damaged line that was cited, and run again" if status == "refused" else "",
    )


def _ended(run: Run) -> Check:
    open_users = [r for r in run.requests if r.outcome == "never_ended"]
    if run.bare:
        counted = any(r.source == "worker" for r in run.requests)
        open_worker = [] if counted else [r for r in run.worker_requests if r.outcome == "never_ended"]
        of_worker = 0
    else:
        # What had not had its time limit when the evidence ends may still have ended.
        limit_ns = round((run.manifest.time_limit_s if run.manifest else 0.0) * 1e9)
        open_worker = [
            r for r in run.worker_requests if r.outcome == "never_ended" and r.sent_ns < run.end_ns - limit_ns
        ]
        of_worker = run.examined.get("worker_requests", 0)
    found = len(open_users) + len(open_worker)
    seen = f"{len(run.requests)} of users" + (f", {of_worker} of the worker" if of_worker else "")
    # A drill that was killed left its own users' requests without an end: that is not the agent's failure.
    cut_off = not run.bare and run.ended is None and not open_worker
    status: Status = ("refused" if cut_off else "fail") if found else "pass" if run.requests else "refused"
    return Check(
        id="ended",
        role="judgement",
        status=status,
        title=f"every request ended ({seen})" + (f"; {found} did not" if found else ""),
        observed=Exact(found, n=len(run.requests) + of_worker),
        limit=0,
        cites=tuple(r.cite for r in (*open_users, *open_worker)[:5]),
        why=f"{len(open_users)} seen by users, {len(open_worker)} by the worker" if found else "",
        remedy="" if status != "refused" else "run the drill to its end, with traffic",
    )


def _scribe(run: Run) -> Iterator[Check]:
    if run.bare and not run.notes:
        return
    missing = [(what, any_of) for what, any_of in _SCRIBE if not _written(run, any_of)]
    asked = not run.bare and not (run.manifest and "REHEARSAL" in run.manifest.stamps)
    title = f"the Scribe's lines: {len(_SCRIBE) - len(missing)} of {len(_SCRIBE)}"
    yield Check(
        id="scribe",
        role="judgement",
        status="refused" if missing and asked else "pass",
        title=title if asked or not missing else f"{title}, not asked for {'here' if run.bare else 'in a rehearsal'}",
        observed=Exact(len(_SCRIBE) - len(missing)),
        limit=len(_SCRIBE) if asked else None,
        cites=tuple(n.cite for n in run.notes[:5]),
        why=f"no line for {'; '.join(what for what, _ in missing)}" if missing and asked else "",
        remedy=f"have the Scribe write it while the drill runs: drillmaster note {missing[0][1][0]} TEXT"
        if missing and asked
        else "",
    )


def _written(run: Run, kinds: Sequence[str]) -> bool:
    """Whether the Scribe wrote one of these at a time when it could be seen: not before the injection, the end not before it."""
    lead = folded(run.manifest.seats.get("lead", "")) if run.manifest else ""
    if not run.windows:
        return any(n.kind in kinds for n in run.notes)
    from_ns = min(w.injected_ns for w in run.windows)
    if "window_ended" in kinds:
        from_ns = min(run.lifted_or_end_ns(w) for w in run.windows)
    slack_ns = 2 * 10**9  # a person's clock, and a stamp in whole seconds
    return any(n.kind in kinds and n.ns >= from_ns - slack_ns and (not lead or folded(n.by) != lead) for n in run.notes)


def _kinds(failed: Sequence[Request]) -> str:
    return ", ".join(f"{n} {_TOLD.get(kind, kind)}" for kind, n in Counter(r.outcome for r in failed).most_common())


def _observed_text(observed: Measure, limit: float) -> str:
    match observed:
        case Exact(value=value):
            near = abs(value - limit) < 0.1  # digits enough to see which side it is on
            return seconds_text(round(value, 3 if near else 1 if value >= 10 else 2))
        case AtLeast(value=value):
            return f"never, in {seconds_text(round(value, 1))}"
        case AtMost(value=value):
            return f"at most {seconds_text(round(value, 2))}"
    return "nothing"
