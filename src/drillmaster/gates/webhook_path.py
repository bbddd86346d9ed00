"""The webhook-path gate: does a webhook get its answer before any model is asked?

1. An accept span is a server's span on one of the policy's paths, or a span with one of its names. None of them: refused.
2. What came of it is what hangs below it, what of its trace hangs below no other accept, and what hangs below a span that links
   to one of these: a worker that is handed an event may go on in the same trace, or link back. Many webhooks may share a trace.
3. Its answer was out when the spans of the sending say so (`http.response.start`, and the last `http.response.body` where there is
   one: a body that waits holds the provider as well), and else when it ended. What runs inside it behind the reply counts as
   before it, unless the sending is traced.
4. A model's span in what came of it has to begin when the answer is out, or later. Which spans are models' is said in
   `_webhook_path_spans`.
5. Two clocks are compared no closer than the policy's skew: between is refused. A span that begins before the one it hangs
   below, or ends before it begins, says that clocks moved.
6. What is missing is not absent: a parent that no file has, attributes or links that were dropped, an accept span without an end
   or a status, a model's span of the same process at the same time that hangs nowhere. Each is refused.
7. What is older than the policy allows makes up no number, and an accept inside another one is the same webhook.
"""

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Annotated, ClassVar

import msgspec

from drillmaster.clock import rfc3339
from drillmaster.gates import Gate
from drillmaster.gates._webhook_path_spans import Forest, Span, Spans, model_of
from drillmaster.policy import seconds_text
from drillmaster.verdict import Absent, Check, Cite, Exact, Measure, Status, Verdict, at_most, looked_at

__all__ = ["Span", "Spans", "WebhookPath", "gate"]

MAX_SKEW_S = 60.0
_GRAIN_NS = 1_000_000
"""How far a process's own wall clock may step between two spans of it."""
_MOST = 5
_Name = Annotated[str, msgspec.Meta(min_length=1, max_length=200)]
_Count = Annotated[int, msgspec.Meta(ge=1, le=1_000_000)]
ACCEPTED = 202


class _Path(msgspec.Struct, frozen=True, kw_only=True):
    """One accept span with all that came of it."""

    accept: Span
    answer_ns: int
    came: tuple[Span, ...]
    models: tuple[tuple[Span, str], ...] = ()
    """Those of them that are a model's, and by what."""


class WebhookPath(Gate[Spans], frozen=True, kw_only=True, tag="webhook-path"):
    """Whether a webhook's answer is out before any model is asked.

    Happens: a provider sends a webhook; a terminator verifies, keeps and answers; a worker may ask a model afterwards.
    Breaks: a body that goes to a model first, an answer that waits on a completion, a model's time limit that becomes a
    provider's retry storm.
    Looks like: `accept path stayed model-free`, or `accept path called a model` with the span and how long before the answer.
    Cannot show: a model's call that nobody instrumented; spans at the end of a trace that were dropped whole; that the body was
    kept, beyond that something was written.

    The evidence is files of spans: OTLP as JSON (one document, or one a line as the collector's file exporter writes), or what the
    Python SDK's ConsoleSpanExporter prints.
    """

    ARTICLE_CODES: ClassVar[dict[str, int]] = {}

    accept_paths: tuple[Annotated[str, msgspec.Meta(pattern=r"\A/", max_length=200)], ...]
    """Paths or routes that webhooks come in by: `/webhooks/billing`, `/webhooks/{provider}`."""
    accept_names: tuple[_Name, ...]
    """Names of accept spans that are no server's, such as `webhook.accept`; []: there are none."""
    statuses: Annotated[tuple[Annotated[int, msgspec.Meta(ge=200, le=599)], ...], msgspec.Meta(min_length=1)]
    """What the terminator may answer: 202 when it is kept, and its table of refusals."""
    min_accepts: _Count
    """Accept spans with a 202 that there must be."""
    min_model_spans: Annotated[int, msgspec.Meta(ge=0, le=1_000_000)]
    """Models' spans that the files must hold at all, so that a model would have been seen. 0: the worker asks none."""
    max_accept_ms: Annotated[float, msgspec.Meta(gt=0, le=600_000)]
    """How long one accept may take: the provider's time limit, less the way there."""
    store_span: bool
    """Whether the insert is traced, and has to have ended before the 202."""
    max_skew_ms: Annotated[float, msgspec.Meta(ge=0, le=60_000)]
    """How far clocks of two hosts may stand apart."""
    max_age_s: Annotated[float, msgspec.Meta(gt=0, le=366 * 86_400)]
    model_hosts: tuple[_Name, ...] = ()
    """Hosts of models beside those that are known: your gateway's."""
    other_names: tuple[_Name, ...] = ()
    """Names of spans that sound like a model's and are none."""

    def __post_init__(self) -> None:
        if not self.accept_paths and not self.accept_names:
            raise ValueError("accept_paths or accept_names: one at least, or no span would be an accept")
        if ACCEPTED not in self.statuses:
            raise ValueError("statuses: found no 202, which a webhook that was kept is answered with")

    def checks(self, evidence: Spans) -> Iterator[Check]:
        paths, models = self._paths(evidence), [one for one in evidence.spans if self._model(one)]
        kept = [one for one in paths if one.accept.status == ACCEPTED]
        inner = {(one.trace, one.id) for path in paths for one in path.came}
        webhooks = [
            one for one in kept if self._young(evidence, one.accept) and (one.accept.trace, one.accept.id) not in inner
        ]
        yield self._examined(evidence, webhooks, len(paths))
        yield self._fresh(evidence, paths)
        yield self._once(evidence)
        yield _answered(paths)
        yield _whole(evidence, paths)
        yield _dropped(paths)
        yield self._clocks(evidence, paths)
        yield self._instrumented([one for one in models if self._young(evidence, one)])
        yield self._before(paths)
        yield self._lost(paths, models)
        yield self._statuses(paths)
        yield self._slow(paths)
        if self.store_span:
            yield _stored(kept, Forest(evidence.spans))

    def headline(self, evidence: Spans) -> tuple[str, ...]:
        paths = self._paths(evidence)
        kept = sum(one.accept.status == ACCEPTED for one in paths)
        models = sum(bool(self._model(one)) for one in evidence.spans)
        later = sum(len(path.models) for path in paths)
        return (
            f"{len(evidence.spans):,} spans: {len(paths):,} accepts, {kept:,} of them with 202; {models:,} of models, "
            f"{later:,} in what came of an accept",
        )

    def closing(self, evidence: Spans, verdict: Verdict) -> tuple[str, ...]:
        if verdict.status == "pass":
            return ("accept path stayed model-free",)
        called = any(one.id == "model-before-202" and one.status == "fail" for one in verdict.checks)
        return ("accept path called a model",) if called and verdict.status == "fail" else ()

    def _young(self, seen: Spans, span: Span) -> bool:
        return (seen.now_ns - span.start_ns) / 1e9 <= self.max_age_s

    def _model(self, span: Span) -> str:
        return model_of(span, hosts=self.model_hosts, other_names=self.other_names)

    def is_accept(self, span: Span) -> bool:
        if span.name in self.accept_names:
            return True
        named = span.name.partition(" ")[2] or span.name
        said = [one for one in (span.path, span.route) if one] or [named]
        there = not {_plain(one) for one in self.accept_paths}.isdisjoint(map(_plain, said))
        return span.kind == "server" and there and span.method in ("", "POST")

    def _paths(self, seen: Spans) -> list[_Path]:
        forest, found = Forest(seen.spans), []
        said = {(one.trace, one.id): text for one in seen.spans if (text := self._model(one))}
        accepts = [span for span in seen.spans if self.is_accept(span)]
        for span, came in zip(accepts, forest.came_of(accepts), strict=True):
            sent = [one.end_ns or span.end_ns for one in forest.children(span) if one.answered]
            answer_ns = min(span.end_ns, max(sent, default=span.end_ns)) if span.end_ns else 0
            found.append(
                _Path(
                    accept=span,
                    answer_ns=answer_ns,
                    came=came,
                    models=tuple((one, said[one.trace, one.id]) for one in came if (one.trace, one.id) in said),
                )
            )
        return found

    def _examined(self, seen: Spans, kept: list[_Path], n: int) -> Check:
        return looked_at(
            "examined",
            "pass" if len(kept) >= self.min_accepts else "refused",
            f"at least {self.min_accepts:,} webhooks were answered with 202: {len(kept):,} of {n:,} accepts",
            role="admission",
            observed=Exact(len(kept)),
            limit=self.min_accepts,
            why=f"found {len(kept):,} that are young enough in {len(seen.spans):,} spans",
            remedy="replay signed webhooks with tracing on, and name all files; which spans are accepts is accept_paths'"
            if n < self.min_accepts
            else "replay webhooks that are valid: the others are refused by the terminator",
        )

    def _fresh(self, seen: Spans, paths: list[_Path]) -> Check:
        last_ns = max((one.accept.start_ns for one in paths), default=0)
        age_s = (seen.now_ns - last_ns) / 1e9
        ok = bool(last_ns) and age_s >= -MAX_SKEW_S and at_most(Exact(age_s), self.max_age_s) == "pass"
        return looked_at(
            "fresh",
            "pass" if ok else "refused",
            f"the newest accept is at most {seconds_text(self.max_age_s)} old",
            role="admission",
            observed=Exact(age_s) if last_ns else Absent("there is none"),
            limit=self.max_age_s,
            unit="s",
            why=f"it is of {rfc3339(last_ns, digits=0)}" if last_ns else "there is none",
            remedy="replay signed webhooks again, and judge what that leaves",
        )

    def _once(self, seen: Spans) -> Check:
        return looked_at(
            "span-twice",
            "refused" if seen.twice else "pass",
            "no two spans have one id",
            role="admission",
            observed=Exact(len(seen.twice)),
            limit=0,
            why=f"{len(seen.twice)} do, and are not the same",
            remedy="name each file once, and files of one replay alone",
            cites=seen.twice,
        )

    def _clocks(self, seen: Spans, paths: list[_Path]) -> Check:
        by_id = {(one.trace, one.id): one for one in seen.spans}
        wrong = []
        for span in _all(paths):
            if 0 < span.end_ns < span.start_ns:
                wrong.append((span, "ends before it begins"))
            parent = by_id.get((span.trace, span.parent)) if span.parent else None
            if parent is not None and span.start_ns < parent.start_ns - self._apart_ns(span, parent):
                wrong.append((span, "begins before the span it hangs below"))
        return looked_at(
            "clocks",
            "refused" if wrong else "pass",
            "no clock stands further from another than the policy says",
            role="admission",
            observed=Exact(len(wrong)),
            limit=0,
            why=_named([one for one, _ in wrong], wrong[0][1] if wrong else ""),
            remedy="set the clocks (chronyc tracking), and replay; what is in order by two clocks nobody can say",
            cites=_cites([one for one, _ in wrong]),
        )

    def _apart_ns(self, one: Span, other: Span) -> int:
        """How far two spans' times may be wrong against each other."""
        return _GRAIN_NS if one.clock and one.clock == other.clock else round(self.max_skew_ms * 1e6)

    def _instrumented(self, models: list[Span]) -> Check:
        return looked_at(
            "instrumented",
            "pass" if len(models) >= self.min_model_spans else "refused",
            f"the files hold {self.min_model_spans:,} young spans of models or more, so that one would be seen: {len(models):,}",
            role="admission",
            observed=Exact(len(models)),
            limit=self.min_model_spans,
            why="a client that nobody instrumented leaves no span wherever it is called",
            remedy="trace the worker too, with its model client instrumented, and name its file as well",
        )

    def _before(self, paths: list[_Path]) -> Check:
        wrong, unclear, why = [], [], ""
        for path in paths:
            if not path.answer_ns:
                continue
            if path.accept.signals:
                wrong.append(path.accept)
                why = why or f"attribute {path.accept.signals[0]}, on the accept itself"
            for span, said in path.models:
                same = span.clock and span.clock == path.accept.clock
                apart_ns = 0 if same else round(self.max_skew_ms * 1e6)
                if span.start_ns < path.answer_ns - apart_ns:
                    wrong.append(span)
                    why = why or f"{said}, {(path.answer_ns - span.start_ns) / 1e6:.3f} ms before the answer"
                elif span.start_ns < path.answer_ns + apart_ns:
                    unclear.append(span)
        status: Status = "fail" if wrong else "refused" if unclear or not paths else "pass"
        return looked_at(
            "model-before-202",
            status,
            f"no model was asked before the answer was out, in what came of {len(paths):,} accepts",
            observed=Exact(len(wrong), n=len(paths)),
            limit=0,
            why=_named(wrong, why)
            if wrong
            else f"{len(unclear)} began within {self.max_skew_ms:g} ms of the answer, by another clock"
            if unclear
            else "there is none",
            remedy="run terminator and worker on one host with host.name in their resource, or let the worker begin later",
            cites=_cites(wrong or unclear),
        )

    def _lost(self, paths: list[_Path], models: list[Span]) -> Check:
        linked = {(one.trace, one.id) for path in paths for one in (path.accept, *path.came)}
        stray = [
            span
            for span in models
            if (span.trace, span.id) not in linked
            and any(
                span.process == path.accept.process and path.accept.start_ns <= span.start_ns < path.answer_ns
                for path in paths
            )
        ]
        return looked_at(
            "context-lost",
            "refused" if stray else "pass",
            "the process that accepts asked no model meanwhile that hangs nowhere",
            observed=Exact(len(stray)),
            limit=0,
            why=_named(stray, "began while a webhook was accepted, in a trace of its own"),
            remedy="hand the context on to threads and tasks; a process that accepts asks no model at all",
            cites=_cites(stray),
        )

    def _statuses(self, paths: list[_Path]) -> Check:
        wrong = [
            one.accept for one in paths if one.accept.status is not None and one.accept.status not in self.statuses
        ]
        seen = sorted({one.status for one in wrong if one.status is not None})
        return looked_at(
            "status-map",
            "fail" if wrong else "pass",
            f"every answer is one of the table: {', '.join(map(str, sorted(self.statuses)))}",
            observed=Exact(len(wrong)),
            limit=0,
            why=f"{len(wrong):,} are {', '.join(map(str, seen[:_MOST]))}",
            cites=_cites(wrong),
        )

    def _slow(self, paths: list[_Path]) -> Check:
        took = [((one.answer_ns - one.accept.start_ns) / 1e6, one.accept) for one in paths if one.answer_ns]
        slow = [span for ms, span in took if ms > self.max_accept_ms]
        most = max((ms for ms, _ in took), default=None)
        observed: Measure = Absent("no accept has an answer") if most is None else Exact(most, n=len(took))
        return looked_at(
            "accept-slow",
            at_most(observed, self.max_accept_ms),
            f"every answer was out within {self.max_accept_ms:g} ms"
            + ("" if most is None else f", the slowest after {most:.3g}"),
            observed=observed,
            limit=self.max_accept_ms,
            unit="ms",
            why=f"{len(slow):,} took longer" if slow else "no accept has an answer",
            remedy="replay signed webhooks until each is answered",
            cites=_cites(slow),
        )


@lru_cache(maxsize=4096)
def _plain(path: str) -> str:
    """Give a path without strokes at its end, and with one where there are several: servers take them for the same."""
    return re.sub(r"/+", "/", path).rstrip("/") or "/"


def _all(paths: list[_Path]) -> Iterator[Span]:
    """Give every span that came of an accept, and the accepts, each once."""
    seen = set()
    for path in paths:
        for span in (path.accept, *path.came):
            if (span.trace, span.id) not in seen:
                seen.add((span.trace, span.id))
                yield span


def _answered(paths: list[_Path]) -> Check:
    open_ = [one.accept for one in paths if not one.answer_ns or one.accept.status is None]
    return looked_at(
        "answered",
        "refused" if open_ else "pass",
        "every accept span has an end and a status",
        role="admission",
        observed=Exact(len(open_)),
        limit=0,
        why=_named(open_, "has none: what nobody answered is before no answer"),
        remedy="have the server's instrumentation write http.response.status_code, and let requests end before the export",
        cites=_cites(open_),
    )


def _whole(seen: Spans, paths: list[_Path]) -> Check:
    known = {(one.trace, one.id) for one in seen.spans}
    accepts = {(one.accept.trace, one.accept.id) for one in paths}
    # A server's parent is its caller's, who sends no spans here.
    orphans = [
        one
        for one in _all(paths)
        if one.parent
        and (one.trace, one.parent) not in known
        and one.kind != "server"
        and (one.trace, one.id) not in accepts
    ]
    return looked_at(
        "trace-whole",
        "refused" if orphans else "pass",
        "every span in what came of an accept hangs below one that the files have",
        role="admission",
        observed=Exact(len(orphans)),
        limit=0,
        why=_named(orphans, "hangs below a span that no file has: it was dropped, or is in another file"),
        remedy="name the files of all processes; where an exporter drops spans, raise its queue (OTEL_BSP_MAX_QUEUE_SIZE)",
        cites=_cites(orphans),
    )


def _dropped(paths: list[_Path]) -> Check:
    cut = [one for one in _all(paths) if one.dropped]
    return looked_at(
        "dropped",
        "refused" if cut else "pass",
        "no attribute, event or link of these spans was thrown away",
        role="admission",
        observed=Exact(sum(one.dropped for one in cut)),
        limit=0,
        why=_named(cut, "had more than its limits let it keep: what it was may be among them"),
        remedy="raise the limits (OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT, OTEL_SPAN_LINK_COUNT_LIMIT, OTEL_SPAN_EVENT_COUNT_LIMIT)",
        cites=_cites(cut),
    )


def _stored(kept: list[_Path], forest: Forest) -> Check:
    wrong = [
        path.accept
        for path in kept
        if not any(one.stores and 0 < one.end_ns <= path.answer_ns for one in forest.tree(path.accept))
    ]
    return looked_at(
        "stored-first",
        "fail" if wrong else "pass",
        f"before each 202 something was written to a database: {len(kept) - len(wrong):,} of {len(kept):,}",
        observed=Exact(len(wrong), n=len(kept)),
        limit=0,
        why=_named(wrong, "was answered with 202 and nothing had been kept"),
        cites=_cites(wrong),
    )


def _named(spans: list[Span], what: str) -> str:
    if not spans:
        return what
    more = f", and {len(spans) - 1} more" if len(spans) > 1 else ""
    return f"{spans[0].name[:80]} ({spans[0].trace[:8]}/{spans[0].id[:8]}): {what}{more}"


def _cites(spans: list[Span]) -> tuple[Cite, ...]:
    return tuple(one.cite for one in spans[:_MOST])


gate = WebhookPath
