"""Users, wire and worker put together: whose attempt is whose, and what became of each request."""

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Literal

import msgspec

from drillmaster.evidence import Defect, Manifest, Row
from drillmaster.outcomes.reading import Lines
from drillmaster.outcomes.shapes import OK, Attempt, JoinedBy, Mark, Outcome, Request, Run, Window

__all__ = ["join", "join_bare"]

_NO_ANSWER = frozenset({"empty-object", "error-in-200", "html-200", "malformed-json"})
"""Faults that answer 200 in the API's place with what is no answer of the API's at all."""
_FLUENT = frozenset({"cut-answer", "refusal", "tool-bad-json", "tool-duplicate-id", "tool-unknown", "weaker-answer"})
"""Faults that speak in the API's place, in whole answers of its own form: only their words tell."""


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
    lines = Lines(manifest)
    for row in rows:
        lines.take(row)
    requests = lines.user_requests()
    lines.attempts.sort(key=lambda a: (a.start_ns, a.id))
    marks = sorted(lines.marks, key=lambda m: m.ns)
    windows = lines.windows()
    attempts, requests = _attribute(lines.attempts, requests, lines.tokens, marks, windows, manifest.time_limit_s)
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
        windows=windows,
        requests=tuple(requests),
        worker_requests=tuple(lines.worker_requests()),
        attempts=tuple(attempts),
        marks=tuple(marks),
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
    lines = Lines(None, wall0_ns=good[0].wall_ns if good else 0)
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


def _attribute(
    attempts: list[Attempt],
    requests: list[Request],
    tokens: dict[str, str],
    marks: list[Mark],
    windows: Sequence[Window],
    time_limit_s: float,
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
    # What nobody owns, by start: each could lie behind any answer it falls into.
    whole = _Spread(a.start_ns for a in joined if a.request is None and _answered(a))
    broken = _Spread(a.start_ns for a in joined if a.request is None and a.broken)
    altered = _Spread(a.start_ns for a in joined if a.request is None and a.altered)
    faults = {window.id: {window.fault, *(rule.fault for rule in window.rules)} for window in windows}
    spoken = _Spread(a.start_ns for a in joined if a.request is None and _spoken(a, faults) & _FLUENT)
    told = _told(marks, requests, underway)
    settled = []
    for request in requests:
        own = mine.get(request.id, [])
        end_ns = request.end_ns if request.end_ns is not None else request.sent_ns
        how: JoinedBy = own[0][1] if own else "none"
        outcome = request.outcome
        if outcome == "ok":
            mine_then = [a for a, _ in own if a.start_ns <= end_ns]
            said = request.told or told.get(request.id)
            outcome = _source(
                whole=_primary_answered(mine_then),
                maybe_whole=whole.any(request.sent_ns, end_ns),
                broken=any(a.broken for a in mine_then) or broken.any(request.sent_ns, end_ns),
                altered=any(a.altered for a in mine_then) or altered.any(request.sent_ns, end_ns),
                spoken=any(_spoken(a, faults) & _FLUENT for a in mine_then) or spoken.any(request.sent_ns, end_ns),
                told=said,
            )
            if request.told == "fallback":
                outcome = "ok_fallback"
            elif outcome in ("ok_fallback", "degraded") and said == "primary":
                outcome = _of_the_faults_words(mine_then, faults) or outcome
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


def _primary_answered(own: list[Attempt]) -> bool:
    """Whether a whole answer of the primary's lies behind what the user got.

    One that no broken stream began after, and that is not another model's, asked once the fault had struck the first.
    """
    struck = [a for a in own if a.window is not None and not _answered(a)]
    return any(
        _answered(a)
        and not any(b.broken and b.start_ns > a.start_ns for b in struck)
        and not any(b.end_ns <= a.start_ns and a.model and b.model and a.model != b.model for b in struck)
        for a in own
    )


def _source(
    *,
    whole: bool,
    maybe_whole: bool,
    broken: bool,
    altered: bool,
    spoken: bool,
    told: Literal["primary", "fallback"] | None,
) -> Outcome:
    """Say where an answer that a user took for one came from; see rules 4 and 5.

    `whole`: a whole answer of the primary's lies behind it, or may lie (`maybe_whole`); `broken`, `altered`, `spoken`: so may
    half a stream, an answer that a fault changed, or one that a fault spoke. `told` is what the answer itself says of its
    source, or the worker.
    """
    if whole:
        return "ok_primary"
    if not (maybe_whole or broken or altered or spoken):
        return "ok_fallback"
    if maybe_whole or told is None:
        return "ok"
    if told == "fallback":
        return "ok_fallback"
    if altered:
        return "ok" if broken or spoken else "ok_primary"
    return "truncated" if broken else "degraded"


def _spoken(attempt: Attempt, faults: Mapping[str, set[str]]) -> set[str]:
    """List the faults that can have spoken in the API's place: the attempt was answered with 200, and by nobody real."""
    if attempt.window is None or attempt.status != 200 or not attempt.down_bytes or attempt.upstream:
        return set()
    return faults.get(attempt.window, set())


def _of_the_faults_words(own: list[Attempt], faults: Mapping[str, set[str]]) -> Outcome | None:
    """Say what an answer is that was taken for the primary's, where all that the agent was given are a fault's own words.

    None: it was given none.
    """
    met = set().union(*(_spoken(attempt, faults) for attempt in own))
    if "cut-answer" in met:
        return "truncated"
    return "degraded" if met & (_NO_ANSWER | _FLUENT) else None


def _told(
    marks: list[Mark], requests: list[Request], underway: "_Underway"
) -> dict[str, Literal["primary", "fallback"]]:
    """Collect what the worker said last of each request's source: by the request's id, or because it was alone in flight."""
    known = {request.id for request in requests}
    found: dict[str, Literal["primary", "fallback"]] = {}
    for mark in marks:
        if mark.event in ("model_ok", "fallback_engaged"):
            owner = mark.id if mark.id in known else underway.only(mark.ns)
            if owner is not None:
                by_primary = mark.event == "model_ok" and mark.path in (None, "primary")
                found[owner] = "primary" if by_primary else "fallback"
    return found


def _answered(attempt: Attempt) -> bool:
    """Whether an answer of the real endpoint's can lie behind what the user got: no fault touched it, or slowed it only."""
    if not attempt.upstream or attempt.status is None or attempt.status >= 400:
        return False  # an error of the real endpoint's, as a client gets that follows a redirect into the void
    return attempt.window is None or (attempt.intact and attempt.terminal)


class _Spread:
    """Instants, and whether one of them lies in a span."""

    def __init__(self, instants: Iterable[int]) -> None:
        self._sorted = sorted(instants)

    def any(self, start_ns: int, end_ns: int) -> bool:
        return bisect_right(self._sorted, end_ns) > bisect_left(self._sorted, start_ns)


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
