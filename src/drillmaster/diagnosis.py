"""Diagnosis: from the signature of a run to its most likely cause and the next action. Pure, and never a status.

Each row of `SIGNATURES` looks at one thing. Where two clocks or two witnesses contradict each other, that is a finding too:
for what happened the wire is right, for completeness the Scribe.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import pairwise
from typing import NamedTuple

from drillmaster.outcomes import FAILED, OK, Attempt, Mark, Request, Run, Window
from drillmaster.policy import seconds_text
from drillmaster.retries import Accounting, account, another_model, retry_findings, usual_models
from drillmaster.stats import median
from drillmaster.verdict import Cite, Exact, Finding, Status

__all__ = ["Limits", "diagnose"]

SLOWER_RATIO = 2.0
"""The article's "latency doubles": p50 in the fault against p50 of the baseline."""
SCRIBE_SKEW_S = 30.0
"""How far the Scribe's injection may lie from the proxy's before both are named."""


_ELSEWHERE = (
    "give the fallback another endpoint: another base URL, provider or region, or an answer that needs no model"
)


class Limits(NamedTuple):
    max_fallback_s: float
    max_failed_ratio: float
    max_recovery_s: float | None


class _Scene(NamedTuple):
    """One window of a run. `served`: users who had an answer before the lift that no primary need lie behind."""

    run: Run
    window: Window
    limits: Limits
    statuses: Mapping[str, Status]
    before: list[Request]
    during: list[Request]
    after: list[Request]
    served: list[Request]
    books: Accounting | None
    """None: a bare file."""
    attempts: Mapping[str, list[Attempt]]
    """Request -> its attempts, by start."""
    usual: frozenset[str]
    """Models that the agent asked for before the first injection."""

    def status(self, check: str) -> Status | None:
        return self.statuses.get(check) or self.statuses.get(f"{check} [{self.window.id}]")


def diagnose(run: Run, limits: Limits, statuses: Mapping[str, Status], windows: Iterable[Window]) -> Iterator[Finding]:
    """Yield what every signature finds in each of these windows, whose fault met somebody: the first of each id only."""
    said: set[str] = set()
    books = account(run) if run.windows else None
    attempts: dict[str, list[Attempt]] = {}
    for attempt in run.attempts:
        if attempt.request is not None:
            attempts.setdefault(attempt.request, []).append(attempt)
    usual = usual_models(run)
    for window in windows:
        during = run.during(window)
        lift_ns = run.lifted_or_end_ns(window)
        served = [r for r in during if r.outcome in ("ok_fallback", "ok") and (r.end_ns or lift_ns) < lift_ns]
        around = run.before(window), during, run.after(window)
        scene = _Scene(run, window, limits, statuses, *around, served, books, attempts, usual)
        for signature in SIGNATURES:
            for finding in signature(scene):
                if finding.id not in said:
                    said.add(finding.id)
                    yield finding


def _same_endpoint(s: _Scene) -> Iterator[Finding]:
    if s.status("fallback") != "fail" or any(r.outcome == "ok_fallback" for r in s.served):
        return
    failed = [r for r in s.during if r.outcome in FAILED]
    asked = [(r, a) for r in failed if (a := another_model(s.attempts.get(r.id, ()), s.window, s.usual)) is not None]
    if asked and 2 * len(asked) > len(failed):
        models = ", ".join(model for model, _ in Counter(a.model or "" for _, a in asked).most_common(2))
        yield Finding(
            id="fallback-same-endpoint",
            cause=f"the fallback ran and asked the same endpoint: {len(asked)} of {len(failed)} requests that failed had asked it "
            f"for another model ({models}) as well, and the fault met both",
            next=_ELSEWHERE,
            cites=tuple(a.cite for _, a in asked[:2]) + tuple(r.cite for r, _ in asked[:2]),
        )
        return
    again = [(r, a) for r in failed if (a := _unread_again(s, r)) is not None]
    if again and 2 * len(again) > len(failed) and 2 * len(_marked(s)) >= len(again):
        yield Finding(
            id="fallback-same-endpoint",
            cause=f"the fallback ran, by the worker's marks, and it seems to have asked the same endpoint: {len(again)} of "
            f"{len(failed)} requests that failed had asked it twice and more, and the fault met each of those attempts before its "
            "model could be read",
            next=_ELSEWHERE,
            cites=tuple(a.cite for _, a in again[:2]) + tuple(m.cite for m in _marked(s)[:2]),
        )


def _no_fallback(s: _Scene) -> Iterator[Finding]:
    if s.status("fallback") != "fail" or s.served or any(_same_endpoint(s)):
        return
    if _phantoms(s) or _hollow(s) or _silent_from(s) is not None or _streams_say_more(s):
        return
    raised = Counter(m.kind for m in _raised(s) if m.kind)
    seen = Counter(r.outcome for r in s.during if r.outcome in FAILED)
    named = ", ".join(kind for kind, _ in raised.most_common(3) if kind != "unknown")
    escaped = f"{named} escaped" if named else f"users got {', '.join(k for k, _ in seen.most_common(2)) or 'nothing'}"
    if s.window.fault == "hang" and not s.run.bare and _held_s(s) > s.limits.max_fallback_s:
        return
    again = sum(_unread_again(s, r) is not None for r in s.during)
    if 2 * again > sum(seen.values()):
        yield Finding(
            id="no-fallback",
            cause=f"no fallback answered: {escaped}{_under(s.window)}. {again} requests asked the same endpoint again, for a model "
            "that was not read: that was a retry, or a fallback which goes where the primary goes",
            next="see in the agent's log which it was: a fallback needs another endpoint (base URL, provider, region); without "
            "one, trigger it in a unit test with what the client raises there",
            cites=tuple(a.cite for r in s.during if (a := _unread_again(s, r)) is not None)[:2]
            + tuple(m.cite for m in _raised(s)[:2]),
        )
        return
    yield Finding(
        id="no-fallback",
        cause=f"there is no fallback, or it is dead code or catches the wrong exception class: {escaped}{_under(s.window)}",
        next=f"trigger the fallback in a unit test with {'that exception' if named else 'what the client raises there'}, "
        "then run this drill again",
        cites=tuple(m.cite for m in _raised(s)[:2]) + tuple(r.cite for r in s.during if r.outcome in FAILED)[:2],
    )


def _no_client_limit(s: _Scene) -> Iterator[Finding]:
    held_s = _held_s(s)
    if s.window.fault == "hang" and s.status("fallback") == "fail" and held_s > s.limits.max_fallback_s:
        yield Finding(
            id="no-client-time-limit",
            cause=f"the agent waited on a dead endpoint for {seconds_text(round(held_s, 1))} and longer: its client has no time "
            "limit of its own, or one far over the budget (openai and anthropic wait 3 x 600 s by default, others for ever)",
            next=f"give the model client a time limit and retries that fit into {seconds_text(s.limits.max_fallback_s)}",
            cites=tuple(a.cite for a in s.run.attempts if a.window == s.window.id)[:2],
        )


def _late_fallback(s: _Scene) -> Iterator[Finding]:
    came = [r for r in s.served if r.outcome == "ok_fallback"]
    if any(_no_client_limit(s)) or any(_no_stream_limit(s)):
        return  # that says more; what came is what the lift let go
    if s.status("fallback") == "fail" and came:
        lost = [r for r in s.during if r.outcome in FAILED and r.due_ns <= came[0].due_ns]
        yield Finding(
            id="late-fallback",
            cause=f"the fallback works but engages late: {len(lost)} requests were lost first, by a failure counter, a client "
            "time limit or retries that use up the budget",
            next=f"shorten time limits and retries of the primary until they fit into {seconds_text(s.limits.max_fallback_s)}",
            cites=(came[0].cite,),
        )


def _fallback_errs(s: _Scene) -> Iterator[Finding]:
    if s.status("failed") != "fail" or s.status("fallback") == "fail" or not s.served:
        return
    if _silent_from(s) is not None or _phantoms(s) or _streams_say_more(s):
        return
    first_ns = min(r.end_ns or r.due_ns for r in s.served)
    failed = [r for r in s.during if r.outcome in FAILED and r.due_ns >= first_ns]
    if not failed:
        return
    prompts = Counter(r.payload for r in failed if r.payload is not None)
    known = {r.payload for r in s.during if r.payload is not None}
    by = ""
    if len(known) > 1:
        by = f", on payloads {', '.join(str(p) for p, _ in prompts.most_common(5))} of {len(known)}"
    elif not s.run.bare:
        by = " (the plan sends one payload only, so it cannot show which prompts)"
    yield Finding(
        id="fallback-errs",
        cause=f"the fallback engages, and then fails {len(failed)} of {sum(r.due_ns >= first_ns for r in s.during)} requests{by}",
        next="log the fallback's own failures and give it a default answer",
        cites=tuple(r.cite for r in failed[:3]),
    )


def _slow_fallback(s: _Scene) -> Iterator[Finding]:
    healthy = median([r.latency_s for r in s.before if r.outcome in OK and r.latency_s is not None])
    faulted = median([r.latency_s for r in s.during if r.outcome in ("ok_fallback", "ok") and r.latency_s is not None])
    if not (isinstance(healthy, Exact) and isinstance(faulted, Exact)) or s.status("fallback") == "fail":
        return
    if s.run.bare and not faulted.value:
        return  # rows without ms say nothing of latency
    if not (
        healthy.value > 0 and faulted.value >= SLOWER_RATIO * healthy.value and faulted.value - healthy.value > 0.01
    ):
        return
    struck = [a for a in s.run.attempts if a.window == s.window.id]
    again = sum((a.retry_count or 0) > 0 for a in struck)
    held = median([(a.end_ns - a.start_ns) / 1e9 for a in struck])
    if isinstance(held, Exact) and held.value >= faulted.value / 2:
        yield Finding(
            id="slow-primary-first",
            cause=f"the fallback is in time but slow: p50 {_ms(faulted.value)} against {_ms(healthy.value)} in the baseline, since "
            f"each request first spends {_ms(held.value)} on the dead endpoint",
            next="shorten the client's time limit, or let a breaker remember that the endpoint is down",
        )
    elif 2 * again > len(s.during):  # most users wait for an SDK's pauses, whosever each attempt is
        yield Finding(
            id="slow-fallback",
            cause=f"the fallback is in time but slow: p50 {_ms(faulted.value)} against {_ms(healthy.value)} in the baseline, since "
            f"the SDK asks the dead endpoint again first: {again} of {len(struck)} attempts are its retries, each behind a pause",
            next="let the SDK try less often (max_retries), or let a breaker remember that the endpoint is down",
            cites=tuple(a.cite for a in struck if a.retry_count)[:2],
        )
    else:
        yield Finding(
            id="slow-fallback",
            cause=f"the fallback is in time but slow: p50 {_ms(faulted.value)} against {_ms(healthy.value)} in the baseline, "
            f"{faulted.value / healthy.value:.1f} times; often a cold cache or a cheaper model",
            next="warm the cache before the window and measure again",
        )


def _worker_silent(s: _Scene) -> Iterator[Finding]:
    since = _silent_from(s)
    died = [m for m in s.run.exits if m.ns >= s.window.injected_ns]
    if since is None and not died:
        return
    raised = _raised(s)
    silent = [r for r in (*s.during, *s.after) if since is not None and r.due_ns >= since]
    how = f"the worker process ended with {died[0].kind}" if died else "it stopped answering"
    what = f"after {raised[0].kind or 'an exception'} " if raised else ""
    yield Finding(
        id="worker-silent",
        cause=f"{what}{how}: {len(silent)} requests were due and none was answered; an exception left a background loop",
        next="restart the worker under a supervisor, and mark user_request status=502 at that boundary",
        cites=tuple(m.cite for m in (*died, *raised)[:2]) + tuple(r.cite for r in silent[:1]),
    )


def _phantom(s: _Scene) -> Iterator[Finding]:
    phantoms = _phantoms(s)
    if phantoms and not any(_same_endpoint(s)):
        yield Finding(
            id="phantom-fallback",
            cause=f"the worker marked fallback_engaged, but users got nothing of it ({phantoms} answers failed or were empty)",
            next="mark the fallback after its answer is there, and check the text before it is sent",
            cites=tuple(m.cite for m in _marked(s)[:2])
            + tuple(r.cite for r in s.during if r.outcome in ("empty", "degraded"))[:2],
        )


def _hollow_answers(s: _Scene) -> Iterator[Finding]:
    hollow = _hollow(s)
    if hollow and not _phantoms(s) and not any(_in_band(s)):
        yield Finding(
            id="hollow-fallback",
            cause=f"the agent answered {len(hollow)} requests of the fault with a good status and nothing that counts as an answer",
            next="find what returns early with an empty text, and check the text before it is sent",
            cites=tuple(r.cite for r in hollow[:3]),
        )


def _truncated(s: _Scene) -> Iterator[Finding]:
    half = [r for r in s.during if r.outcome == "truncated"]
    if half and not any(_in_band(s)):
        said_so = s.window.fault == "cut-answer"
        what = (
            "an answer of which its API said that it was cut" if said_so else "a stream that never said it was finished"
        )
        yield Finding(
            id="truncated-answer",
            cause=f"the agent took the beginning of an answer for all of it: {len(half)} of {len(s.during)} users got a good "
            f"status over {what}{_under(s.window)}, and nothing was raised that anybody heeded",
            next="send an answer on only once the API has said its last word (finish_reason, message_stop, "
            "response.completed), and fall back where it has not (docs/howto/was-it-finished.md)",
            cites=tuple(r.cite for r in half[:2]) + _attempt_cites(s, half),
        )


def _in_band(s: _Scene) -> Iterator[Finding]:
    if not {s.window.fault, *(rule.fault for rule in s.window.rules)} & {"error-event", "error-in-200"}:
        return
    missed = [r for r in s.during if r.outcome in ("truncated", "empty", "degraded")]
    if missed:
        yield Finding(
            id="in-band-error-missed",
            cause=f"the API said under a status of 200 that it had failed, and the agent did not hear it: {len(missed)} users got "
            "what had come before the error, or nothing, with a good status, and no fallback engaged",
            next="read errors where this API tells them: an `error` object or event, a finish reason of `error`, a body without "
            "choices; raise there what the fallback catches",
            cites=tuple(r.cite for r in missed[:2]) + _attempt_cites(s, missed),
        )


def _escaped_mid_stream(s: _Scene) -> Iterator[Finding]:
    broke = [
        r
        for r in s.during
        if r.outcome in ("http_5xx", "cut", "reset", "protocol")
        and any(a.stream and (a.broken or a.altered) and a.end != "lifted" for a in s.attempts.get(r.id, ()))
    ]
    if not broke:
        return
    kinds = Counter(m.kind for m in _raised(s) if m.kind and m.kind != "unknown")
    named = " and ".join(kind for kind, _ in kinds.most_common(2))
    yield Finding(
        id="mid-stream-error-escaped",
        cause=f"{named or 'an exception that nobody named'} escaped where a stream broke behind its first words"
        f"{_under(s.window)}, {len(broke)} times: what the reading of a stream raises is often no error class of the SDK's, and "
        "comes after the call has returned",
        next=f"put the loop over the stream inside the try, catch {named or 'what it raises'} there beside the SDK's own "
        "class, and fall back",
        cites=tuple(m.cite for m in _raised(s)[:2]) + tuple(r.cite for r in broke[:2]),
    )


def _no_stream_limit(s: _Scene) -> Iterator[Finding]:
    begun = [a for a in s.run.attempts if a.window == s.window.id and a.stream and a.upstream and a.down_bytes]
    held = [a for a in begun if (a.end_ns - a.start_ns) / 1e9 > s.limits.max_fallback_s]
    waited = [r for r in s.during if r.outcome in ("timeout", "never_ended")]
    if held and waited and "fail" in (s.status("fallback"), s.status("failed")):
        yield Finding(
            id="no-stream-limit",
            cause=f"{len(waited)} users gave up on streams that had begun and then said no more: the agent held on to them for "
            f"{seconds_text(round(_held_s(s), 1))} and longer. A read timeout begins anew with each byte, and a keep-alive ping "
            "is one; without one it is for ever",
            next="limit the time between two words, or the whole answer (asyncio.timeout, AbortSignal.timeout), to what fits "
            f"into {seconds_text(s.limits.max_fallback_s)}, and fall back",
            cites=tuple(a.cite for a in held[:2]) + tuple(r.cite for r in waited[:2]),
        )


def _shown_twice(s: _Scene) -> Iterator[Finding]:
    twice = []
    for request in s.during:
        tried = s.attempts.get(request.id, [])
        for first in tried:
            begun = first.broken and request.first_ns is not None and request.first_ns < first.end_ns
            if begun and any(a.start_ns >= first.end_ns and a.down_bytes for a in tried):
                twice.append(request)
                break
    if twice:
        yield Finding(
            id="half-shown-twice",
            cause=f"{len(twice)} users were being answered when the stream broke, and the agent asked for it again from its "
            "start inside the same answer: they have its beginning twice, or two beginnings",
            next="ask again only while nothing has been shown; afterwards end the answer so that the user sees that it broke, "
            "or take back what was shown",
            cites=tuple(r.cite for r in twice[:2]) + _attempt_cites(s, twice),
        )


def _evicted_nobody(s: _Scene) -> Iterator[Finding]:
    through = [r for r in s.during if r.outcome == "ok_primary" and s.window.id in r.met]
    if 2 * len(through) > len(s.during):
        yield Finding(
            id="evicted-nobody",
            cause=f"the fault acted on {len(through)} requests, and their users had the primary's answer all the same: this is one "
            "that a client ought to bear, and it says nothing about the fallback",
            next="nothing to mend, if the answers were right; to see the fallback, drill with clean-end, reset-stream or stall",
            cites=tuple(r.cite for r in through[:2]),
        )


def _retries(s: _Scene) -> Iterator[Finding]:
    if s.books is not None:
        yield from retry_findings(s.books, s.window)


def _sticky(s: _Scene) -> Iterator[Finding]:
    if s.status("recovery") != "fail":
        return
    served = [r for r in s.after if r.outcome == "ok_fallback"]
    marks = [m for m in s.run.marks if m.event == "fallback_engaged" and m.ns >= (s.window.lifted_ns or s.run.end_ns)]
    if served or marks:
        yield Finding(
            id="sticky-fallback",
            cause=f"the fallback never let go: {len(served) or len(marks)} answers after the lift still came from it",
            next="let the breaker try the primary again (half-open), with a bound on how long it stays open",
            cites=tuple(r.cite for r in served[:2]) or tuple(m.cite for m in marks[:2]),
        )


def _lost_class(s: _Scene) -> Iterator[Finding]:
    nameless = [m for m in _raised(s) if m.kind in (None, "", "unknown")]
    if nameless:
        yield Finding(
            id="exception-class-lost",
            cause=f"{len(nameless)} unhandled exceptions carry no class name",
            next="mark kind=type(error).__name__, so that the next reader knows what to catch",
            cites=tuple(m.cite for m in nameless[:2]),
        )


def _claims_primary(s: _Scene) -> Iterator[Finding]:
    if s.run.bare or any(a.upstream and (a.window is None or a.intact or a.broken or a.altered) for a in _inside(s)):
        return
    # Answers on their way at the injection may still arrive; a second later none can. And helpers that stamp whole seconds
    # put what they saw just after the lift up to a second before it.
    claims = [
        m
        for m in s.run.marks
        if m.event == "model_ok"
        and m.path in (None, "primary")
        and s.window.injected_ns + 10**9 < m.ns < s.run.lifted_or_end_ns(s.window) - 10**9
    ]
    if claims:
        yield Finding(
            id="marks-against-wire",
            cause=f"the worker marked model_ok of the primary {len(claims)} times while the wire passed nothing of it: the wire "
            "is right, and the agent does not know where its answers come from",
            next="mark model_ok only where the primary's answer was read to its end",
            cites=tuple(m.cite for m in claims[:3]),
        )


def _worker_against_users(s: _Scene) -> Iterator[Finding]:
    said = s.run.examined.get("worker_5xx", 0)
    if any(r.source == "worker" for r in s.run.requests):
        return
    seen = sum(r.outcome == "http_5xx" for r in s.run.requests)
    if said > max(seen, 1) and said > s.limits.max_failed_ratio * len(s.run.requests):
        yield Finding(
            id="worker-against-users",
            cause=f"the worker says that it ended {said} requests with 5xx, users saw {seen}: something between them answers in "
            "its place, or the two rows are not about the same requests",
            next="find what stands between the worker and its users, and drill with that in sight",
        )


def _scribe_against_wire(s: _Scene) -> Iterator[Finding]:
    for note in s.run.notes:
        if note.kind != "injection_seen":
            continue
        apart_s = abs(note.seen_ns - s.window.injected_ns) / 1e9
        nearest = min(s.run.windows, key=lambda w: abs(note.seen_ns - w.injected_ns))
        if nearest is s.window and apart_s > SCRIBE_SKEW_S:
            yield Finding(
                id="scribe-against-wire",
                cause=f"the Scribe puts the injection {seconds_text(round(apart_s))} "
                f"{'after' if note.seen_ns > s.window.injected_ns else 'before'} the recorded one; the record is the anchor",
                next="announce the time aloud at the injection, and write it down then",
                cites=(note.cite, s.window.cite),
            )
    kinds = {n.kind for n in s.run.notes}
    served = any(r.outcome == "ok_fallback" for r in s.served)
    said = (
        "first_fallback_seen"
        if "first_fallback_seen" in kinds
        else "no_fallback_seen"
        if "no_fallback_seen" in kinds
        else None
    )
    alone = len(kinds & {"first_fallback_seen", "no_fallback_seen"}) == 1
    certain = not s.run.bare and not any(r.outcome == "ok" for r in s.during)
    if said and alone and certain and (said == "first_fallback_seen") != served:
        yield Finding(
            id="scribe-fallback",
            cause=f"the Scribe wrote {said}; on the wire {'a' if served else 'no'} fallback served a user",
            next="ask the Scribe what they saw: a log line is not an answer to a user",
            cites=tuple(n.cite for n in s.run.notes if n.kind == said)[:1],
        )


def _one_payload(s: _Scene) -> Iterator[Finding]:
    if s.run.bare or s.run.manifest is None:
        return
    target = s.run.manifest.plan.get("target", {})
    text = f"{target.get('url', '')}{target.get('body') or ''}"
    if not target.get("payloads") and "{nonce}" not in text and "{id}" not in text:
        yield Finding(
            id="one-payload",
            cause="every request was the same: a cache could answer it, and a fallback that errs on some prompts cannot show",
            next="give target.payloads several prompts of your own",
        )


def _transport_only(s: _Scene) -> Iterator[Finding]:
    if set(s.statuses.values()) == {"pass"}:
        done = {s.window.fault, *(rule.fault for rule in s.window.rules)}
        plain = [tag for tag in ("reset", "503", "hang") if tag not in done]
        dear = [f"{what} ({tag})" for tag, what in _DEAR.items() if tag not in done]
        yield Finding(
            id="transport-only",
            cause=f"this proves the way down{_under(s.window)} alone: real outages are often quota, money or an expired key",
            next="; then ".join(filter(None, (f"run {_listed(plain)} too" if plain else "", _listed(dear)))),
        )


_DEAR = {"rate-limit": "a 429 with Retry-After", "quota-spent": "spent quota", "key-expired": "a key that expired"}
"""What providers do more often than to disappear."""


def _listed(words: list[str]) -> str:
    return " and ".join(filter(None, (", ".join(words[:-1]), *words[-1:])))


SIGNATURES: tuple[Callable[[_Scene], Iterator[Finding]], ...] = (
    _same_endpoint,
    _no_fallback,
    _no_client_limit,
    _late_fallback,
    _phantom,
    _hollow_answers,
    _truncated,
    _in_band,
    _escaped_mid_stream,
    _no_stream_limit,
    _shown_twice,
    _evicted_nobody,
    _worker_silent,
    _fallback_errs,
    _slow_fallback,
    _retries,
    _sticky,
    _lost_class,
    _claims_primary,
    _worker_against_users,
    _scribe_against_wire,
    _one_payload,
    _transport_only,
)


def _streams_say_more(s: _Scene) -> bool:
    return any(any(signature(s)) for signature in (_truncated, _in_band, _escaped_mid_stream, _no_stream_limit))


def _attempt_cites(s: _Scene, requests: list[Request]) -> tuple[Cite, ...]:
    return tuple(a.cite for r in requests for a in s.attempts.get(r.id, ()) if a.window == s.window.id)[:2]


def _unread_again(s: _Scene, request: Request) -> Attempt | None:
    """Find an attempt that follows one the fault met, by no SDK's own count, where either's model was not read."""
    met = [a for a in s.attempts.get(request.id, ()) if a.window == s.window.id]
    again = (b for a, b in pairwise(met) if None in (a.model, b.model) and not b.retry_count)
    return next(again, None) if s.usual else None


def _raised(s: _Scene) -> list[Mark]:
    return [m for m in s.run.marks if m.event == "unhandled_exception" and m.ns >= s.window.injected_ns]


def _marked(s: _Scene) -> list[Mark]:
    end_ns = s.run.lifted_or_end_ns(s.window)
    return [m for m in s.run.marks if m.event == "fallback_engaged" and s.window.injected_ns <= m.ns < end_ns]


def _inside(s: _Scene) -> list[Attempt]:
    end_ns = s.run.lifted_or_end_ns(s.window)
    return [a for a in s.run.attempts if s.window.injected_ns <= a.start_ns < end_ns]


def _held_s(s: _Scene) -> float:
    """Say how long the attempts of the window were held before the agent let go, the longest of them."""
    held = [a.end_ns - a.start_ns for a in s.run.attempts if a.window == s.window.id]
    return max(held, default=0) / 1e9


def _phantoms(s: _Scene) -> int:
    """Count users' failures that a fallback mark stands beside, where no user had anything of the fallback."""
    marked = len(_marked(s))
    if not marked or s.served:
        return 0
    lost = sum(r.outcome in ("empty", "degraded", "http_5xx", "protocol", "cut") for r in s.during)
    return lost if 2 * marked >= lost else 0  # one that timed out on its way in is no fallback of all the others


def _hollow(s: _Scene) -> list[Request]:
    """List empty and degraded answers where they are what most users got, and no user had a real one."""
    hollow = [r for r in s.during if r.outcome in ("empty", "degraded")]
    return hollow if not s.served and 2 * len(hollow) > len(s.during) else []


def _silent_from(s: _Scene) -> int | None:
    """Find the instant after which nobody was answered again, to the end of the run, at least three requests long."""
    rest = sorted((r for r in (*s.during, *s.after)), key=lambda r: r.due_ns)
    dead = {"timeout", "refused", "reset", "cut", "never_ended"}
    tail = 0
    for request in reversed(rest):
        if request.outcome not in dead:
            break
        tail += 1
    past_the_lift = any(r.due_ns >= s.run.lifted_or_end_ns(s.window) for r in rest[-tail:]) if tail else False
    return rest[-tail].due_ns if tail >= 3 and past_the_lift else None


def _under(window: Window) -> str:
    return f" under {window.said}" if window.fault else ""


def _ms(seconds: float) -> str:
    return f"{seconds * 1000:.0f} ms" if seconds < 10 else seconds_text(round(seconds, 1))
