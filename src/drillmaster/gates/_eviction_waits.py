"""Whom a fault met, whom it harmed, and how long it took: what the checks of the eviction gate measure."""

from itertools import pairwise

from drillmaster.outcomes import OK, Request, Run, Window
from drillmaster.verdict import Absent, AtLeast, AtMost, Cite, Exact, Measure

__all__ = [
    "extra_wait_s",
    "harmed",
    "met_requests",
    "owed_in_silence",
    "rode_out",
    "until_fallback",
    "until_primary",
    "usual_wait_ns",
]


def met_requests(run: Run, window: Window) -> list[Request]:
    """List the user requests that met the fault: it acted on one of their attempts, or they went without the primary.

    One that a breaker kept away from the endpoint counts: the fault is what opened the breaker. None counts before the
    fault has acted on at least one attempt. Where rules leave some users alone, and some went without the primary before the
    injection as well, that says nothing of the fault: then only those count on whom it acted, and those who got no answer.
    """
    if window.met == 0:
        return []
    untouched = {"ok_primary", "ok", "ok_fallback"} if _goes_round(run, window) else {"ok_primary", "ok"}
    return [r for r in run.during(window) if window.id in r.met or r.outcome not in untouched]


def _goes_round(run: Run, window: Window) -> bool:
    """Whether rules say whom the fault meets, and some users are served without the primary as a matter of course."""
    return bool(window.rules) and any(r.outcome == "ok_fallback" for r in run.before(window))


def usual_wait_ns(run: Run, window: Window) -> int:
    """Say how long users wait without the fault: the median of those who were answered well before it."""
    waits = sorted((r.end_ns or r.due_ns) - r.due_ns for r in run.before(window) if r.outcome in OK)
    return waits[(len(waits) - 1) // 2] if waits else 0


def extra_wait_s(run: Run, window: Window, request: Request, usual_ns: int) -> float:
    """Say how much longer a user waited than users do without the fault."""
    end_ns = run.end_ns if request.end_ns is None else request.end_ns
    return max(0, end_ns - max(request.due_ns, window.injected_ns) - usual_ns) / 1e9


def harmed(run: Run, window: Window, patience_s: float) -> list[Request]:
    """List the user requests that met the fault and were not served by the primary as if there were none.

    One that was answered well after the lift, and soon, says nothing of the time before it. One that was answered well, but
    whom the fault kept waiting for longer than a fallback may take, was harmed, whoever answered in the end.
    """
    lift_ns, usual_ns = run.lifted_or_end_ns(window), usual_wait_ns(run, window)
    found = []
    for request in met_requests(run, window):
        soon = request.outcome in OK and extra_wait_s(run, window, request, usual_ns) <= patience_s
        if not soon or (request.outcome != "ok_primary" and (request.end_ns or 0) < lift_ns):
            found.append(request)
    return found


def rode_out(run: Run, window: Window, patience_s: float) -> list[Request]:
    """List the user requests that met the fault, if the primary answered every one of them all the same, and soon enough.

    A fault that slows, or that meets one attempt and not the next, takes nothing away that a fallback would have to replace.
    """
    if run.bare or harmed(run, window, patience_s):
        return []
    lift_ns = run.lifted_or_end_ns(window)
    return [r for r in met_requests(run, window) if (r.end_ns or lift_ns) < lift_ns]


def _taken_ns(run: Run, window: Window, patience_s: float) -> int:
    """Say when the primary was taken from the first user.

    At the injection, or, where rules say whom the fault meets and when, at the first attempt that it met of a user whom it
    harmed, or of nobody's.
    """
    if not window.rules:
        return window.injected_ns
    struck = {r.id for r in harmed(run, window, patience_s)}
    owners = {a.id: a.request for a in run.attempts}
    met = [ns for key, ns in window.met_ns.items() if (owner := owners.get(key)) is None or owner in struck]
    first_ns = min(met, default=window.first_met_ns)
    return window.injected_ns if first_ns is None else max(first_ns, window.injected_ns)


def until_fallback(run: Run, window: Window, patience_s: float) -> tuple[Measure, tuple[Cite, ...], str]:
    """Measure from the injection to the end of the first answer that the primary had no part in.

    Where rules say whom the fault meets, and when, from the first attempt that it met of a user whom it harmed: before that
    nothing was taken away, and no fallback from before that is one.
    """
    end_ns = run.lifted_or_end_ns(window)
    if run.bare:
        return _bare_fallback(run, window, end_ns)
    since_ns = _taken_ns(run, window, patience_s)
    by_others = _goes_round(run, window)
    answered = sorted(
        (
            r
            for r in run.during(window)
            if r.outcome in ("ok_fallback", "ok")
            and r.end_ns is not None
            and since_ns <= r.end_ns < end_ns
            and (not by_others or window.id in r.met)
        ),
        key=lambda r: r.end_ns or 0,
    )
    certain = next((r for r in answered if r.outcome == "ok_fallback"), None)
    marks = [m for m in run.marks if m.event == "fallback_engaged" and m.ns >= window.injected_ns]
    cited = tuple(m.cite for m in marks[:1])
    if certain is None and answered:
        why = f"{len(answered)} answers, each of unknown origin"
        return Absent(why), (window.cite, answered[0].cite, *cited), why
    if certain is None or certain.end_ns is None:
        whole_s = max(0, end_ns - since_ns) / 1e9
        return AtLeast(whole_s), (window.cite, *cited), "no answer without the primary behind it before the lift"
    taken_s = max(0, certain.end_ns - since_ns) / 1e9
    cites = (window.cite, certain.cite, *cited)
    if answered[0] is not certain:
        return AtMost(taken_s), cites, "an earlier answer is of unknown origin"
    return Exact(taken_s, n=1), cites, ""


def _bare_fallback(run: Run, window: Window, end_ns: int) -> tuple[Measure, tuple[Cite, ...], str]:
    """Take the worker's word for it, but only where a user had an answer.

    A mark inside a request of its id counts at that request's end, if it ended well. A mark that joins no request says no
    more than that the next good answer to a user came from a fallback: it counts when that user had it.
    """
    own: dict[str, list[Request]] = {}
    for request in run.worker_requests:
        own.setdefault(request.id, []).append(request)
    rows = sorted((r for r in run.requests if r.source == "bare" and r.outcome in OK), key=lambda r: r.end_ns or 0)
    for mark in sorted(run.marks, key=lambda m: m.ns):
        if mark.event != "fallback_engaged" or not window.injected_ns <= mark.ns < end_ns:
            continue
        mine = own.get(mark.id, []) if mark.id is not None else []
        around = [r for r in mine if r.sent_ns <= mark.ns and (r.end_ns is None or r.end_ns >= mark.ns)]
        for request in around:
            if request.outcome in OK and request.end_ns is not None and request.end_ns < end_ns:
                taken_s = (request.end_ns - window.injected_ns) / 1e9
                return Exact(taken_s, n=1), (window.cite, mark.cite, request.cite), ""
        if not mine:
            good = next((r for r in rows if mark.ns <= (r.end_ns or 0) < end_ns), None)
            if good is not None:
                taken_s = ((good.end_ns or 0) - window.injected_ns) / 1e9
                return Exact(taken_s, n=1), (window.cite, mark.cite, good.cite), ""
    why = "no fallback_engaged with an answer to a user"
    if not any(mark.event in ("fallback_engaged", "model_ok") for mark in run.marks):
        why += (
            "; the worker marks nothing, and a status does not say whose an answer was (docs/howto/write-a-timeline.md)"
        )
    return AtLeast((end_ns - window.injected_ns) / 1e9), (window.cite,), why


def owed_in_silence(run: Run, window: Window, patience_s: float) -> tuple[int, tuple[Cite, ...]]:
    """Count the requests that a loop owed while it waited for one that did not come back, in a bare file.

    A loop that sends one after the other writes nothing while it hangs. A gap longer than three of its periods and longer
    than users are asked to wait for a fallback counts as the requests that were due in it. Our own traffic owes nothing:
    it sends on time, whatever became of the last.
    """
    rows = sorted((r for r in run.requests if r.source == "bare"), key=lambda r: r.due_ns)
    before = [r.due_ns for r in rows if r.due_ns < window.injected_ns]
    gaps = sorted(b - a for a, b in pairwise(before))
    if not gaps or not run.bare:
        return 0, ()
    period_ns = max(gaps[(len(gaps) - 1) // 2], 1)
    end_ns = run.lifted_or_end_ns(window)
    owed, cites = 0, []
    inside = [r for r in rows if r.due_ns >= window.injected_ns - period_ns]
    for earlier, later in pairwise(inside):
        gap_ns = min(later.due_ns, end_ns) - max(earlier.due_ns, window.injected_ns)
        if gap_ns > max(3 * period_ns, patience_s * 1e9):
            owed += gap_ns // period_ns - 1
            cites += [earlier.cite, later.cite]
    return owed, tuple(cites[:4])


def until_primary(run: Run, window: Window) -> tuple[Measure, tuple[Cite, ...], str]:
    """Measure from the lift to the end of the first answer of the primary that was asked for after it."""
    until_ns = run.next_injection_ns(window)
    lifted = window.lifted_ns if window.lifted_ns is not None else until_ns
    if run.bare:
        before = any(m.event == "model_ok" and m.ns < window.injected_ns for m in run.marks)
        stuck = [m for m in run.marks if m.event == "fallback_engaged" and lifted <= m.ns < until_ns]
        if not before and not stuck:
            why = "the worker marks no answer of the primary"
            return Absent(why), (), why
        back = next((m for m in run.marks if m.event == "model_ok" and lifted <= m.ns < until_ns), None)
        if back is not None:
            return Exact((back.ns - lifted) / 1e9, n=1), (back.cite,), ""
        told = "fallback_engaged after the lift, and no model_ok" if stuck else "no model_ok after the lift"
        return AtLeast((until_ns - lifted) / 1e9), tuple(m.cite for m in stuck[:2]), told
    after = [r for r in run.after(window) if r.sent_ns >= lifted]
    good = sorted((r for r in after if r.outcome == "ok_primary" and r.end_ns), key=lambda r: r.end_ns or 0)
    if good:
        return Exact(((good[0].end_ns or 0) - lifted) / 1e9, n=1), (good[0].cite,), ""
    # An attempt of nobody's that ran clean to the end lies behind one of the answers that were under way.
    for attempt in sorted(run.attempts, key=lambda a: a.end_ns):
        if attempt.upstream and attempt.window is None and lifted <= attempt.start_ns and attempt.end == "clean":
            could = [r for r in after if r.sent_ns <= attempt.start_ns and (r.end_ns or 0) >= attempt.end_ns]
            if could and all(r.outcome in OK for r in could):
                latest = max(r.end_ns or 0 for r in could)
                return (
                    AtMost((latest - lifted) / 1e9),
                    (attempt.cite, could[0].cite),
                    "joined by the attempt's time alone",
                )
    if not after:
        return Absent("no user request after the lift"), (), "no user request after the lift"
    asked = [a for a in run.attempts if lifted <= a.start_ns < until_ns]
    if asked and all(a.end == "upstream_error" for a in asked):
        why = f"the real endpoint itself was gone: {len(asked)} attempts after the lift got no answer from it"
        return Absent(why), (asked[0].cite,), why
    return (
        AtLeast((min(until_ns, run.end_ns) - lifted) / 1e9),
        (after[0].cite,),
        "no answer of the primary after the lift",
    )
