"""The retries gate: how often calls were sent again, who said so and why, and what it can come to.

1. Retries for each user request are a census of the evidence: what was seen decides, on at least so many requests as the limit
   can show. In a run the wire says what was sent, and decisions say why; a bare log has decisions alone.
2. What may be a retry or not counts as both: over the limit without it is a fail, under the limit with it a pass, between is
   refused.
3. A reason that the policy forbids is never there, not once: `unpinned-source` means that something else than the pinned map has
   voted. Every decision has a reason of the closed set; a text that is none may be a model's, and is counted and not printed.
4. Retries on the wire that no decision allowed were sent by a layer that asked nobody, such as an SDK with its own retries on.
5. The worst case is what the policy declares of each layer, multiplied (`rules.calls_product`), against its ceiling. What was
   seen of one request may not be more than what was declared for it.
"""

from collections.abc import Iterator
from typing import Annotated, ClassVar

import msgspec

from drillmaster.clock import rfc3339
from drillmaster.gates import Gate
from drillmaster.gates._retries_evidence import GOES, KNOWN, Decided, Retried, Wire
from drillmaster.policy import seconds_text, share_text
from drillmaster.rules.calls_product import MOST_LAYERS, Layer, Product, calls_product
from drillmaster.stats import calls_for_share
from drillmaster.verdict import (
    Absent,
    AtLeast,
    Check,
    Exact,
    Finding,
    Status,
    at_most,
    looked_at,
)

__all__ = ["Decided", "Layer", "Retried", "Retries", "RetriesArticle", "Wire", "gate"]

MAX_SKEW_S = 60.0
_EXACT = float(2**53)
_Ratio = Annotated[float, msgspec.Meta(ge=0, le=100)]
_Share = Annotated[float, msgspec.Meta(ge=0, le=1)]
_Count = Annotated[int, msgspec.Meta(ge=1, le=1_000_000_000)]
_TRACE = "pass traceparent on, so that each attempt finds its user's request: docs/howto/count-retries.md"
_WRITE = "have workers write every decision, and a user_request line for each request: docs/howto/judge-retries.md"


def least_requests(ratio: float) -> int:
    """How many requests it takes for one retry to stay within the limit; 1 where the limit is 0, a census, or over 1."""
    return 1 if ratio == 0 else calls_for_share(ratio)


def reasons_wrong(reasons: tuple[str, ...]) -> str:
    """Say what is wrong with a list of reasons to forbid; "" where nothing is."""
    wrong = next((one for one in reasons if one not in KNOWN), None)
    if wrong is not None:
        return f"found {wrong!r}, wanted one of {', '.join(sorted(KNOWN - GOES))}"
    if set(reasons) & GOES:
        return f"found {', '.join(sorted(set(reasons) & GOES))}, which is what a retry is allowed by"
    return "found one twice, wanted each once" if len(set(reasons)) < len(reasons) else ""


class Retries(Gate[Retried], frozen=True, kw_only=True, tag="retries"):
    """Whether calls are sent again as seldom, for such reasons, and by such layers as were agreed on.

    Happens: workers decide about failed calls by a pinned map; an SDK, a loop, tools and turns lie around each call.
    Breaks: a model's vote on a retry, a layer that retries besides, retries that rewrite the load of a test, and products of
    layers that nobody multiplied.
    Looks like: one line a limit; for each forbidden reason how often it stood there, and in which lines.
    Cannot show: decisions that were never written; duplicates behind the API; that the declared layers are all there are.

    The evidence is the folder of a sealed run, or logs of decisions (`guard_decision`, one JSON object a line). The article's
    `--max-retry-ratio` and `--forbid-reason` judge a log without a policy, and are stamped for what they do not ask.
    """

    max_retry_ratio: _Ratio
    """Retries for each user request, over all the evidence: 0.05."""
    min_requests: _Count
    """Fewer were not a test; it also takes as many as one retry within the limit needs: 20 for 0.05."""
    forbid_reasons: Annotated[tuple[str, ...], msgspec.Meta(min_length=1, max_length=32)]
    """Reasons that may not stand there once: `unpinned-source`."""
    min_decisions: _Count
    """Fewer, and nobody saw how it is decided: a test without a failure shows nothing of retries."""
    max_reason_ratio: dict[str, _Share]
    """The largest share of decisions that each of these reasons may have: `budget-exhausted: 0.1`."""
    layers: Annotated[tuple[Layer, ...], msgspec.Meta(min_length=1, max_length=MOST_LAYERS)]
    """Every layer around a call: the SDK, the loop, tools at once, turns at once. With what each calls at most."""
    max_calls: Annotated[int, msgspec.Meta(ge=1, le=2**53 - 1)]
    """What the layers may come to."""
    routes: dict[str, Annotated[int, msgspec.Meta(ge=1, le=1_000)]]
    """Total calls that each route may make of one request; {}: routes are not told apart."""
    max_age_s: Annotated[float, msgspec.Meta(gt=0, le=366 * 86_400)]

    def __post_init__(self) -> None:
        wrong = reasons_wrong(self.forbid_reasons)
        if wrong:
            raise ValueError(f"forbid_reasons: {wrong}")
        unknown = next((one for one in self.max_reason_ratio if one not in KNOWN), None)
        if unknown is not None:
            raise ValueError(f"max_reason_ratio: found {unknown!r}, wanted one of {', '.join(sorted(KNOWN))}")
        calls_product(self.layers)

    def checks(self, evidence: Retried) -> Iterator[Check]:
        seen, product = evidence, calls_product(self.layers)
        yield _sealed(seen)
        yield _usable(seen)
        yield self._fresh(seen)
        yield _examined(seen, max(self.min_requests, least_requests(self.max_retry_ratio)))
        yield _decisions(seen, self.min_decisions)
        yield _ratio(seen, self.max_retry_ratio)
        for reason in self.forbid_reasons:
            yield _forbidden(seen, reason)
        yield _recorded(seen)
        yield _consistent(seen)
        for reason, most in self.max_reason_ratio.items():
            yield _share(seen, reason, most)
        for route, most in self.routes.items():
            yield _route(seen, route, most)
        if self.routes:
            yield _routed(seen, frozenset(self.routes))
        yield self._worst(product)
        yield _as_declared(seen, product)
        if seen.wire is not None:
            yield _decided(seen, seen.wire)
            yield _waits(seen.wire)

    def headline(self, evidence: Retried) -> tuple[str, ...]:
        product = calls_product(self.layers)
        return (
            *_amounts(evidence),
            f"worst case {product.calls:,} calls: {product.text}; {product.at_once:,} of them at once",
        )

    def findings(self, evidence: Retried, checks: tuple[Check, ...]) -> Iterator[Finding]:
        yield from _drift(evidence, {*self.max_reason_ratio, *self.forbid_reasons})

    def _fresh(self, seen: Retried) -> Check:
        # Old requests in a log water its ratio down: the oldest line counts as well.
        age_s = (seen.now_ns - (seen.began_ns or seen.ended_ns)) / 1e9
        dated = seen.ended_ns > 0
        future = seen.ended_ns - seen.now_ns > MAX_SKEW_S * 1e9
        ok = dated and not future and at_most(Exact(age_s), self.max_age_s) == "pass"
        return looked_at(
            "fresh",
            "pass" if ok else "refused",
            f"the evidence is at most {seconds_text(self.max_age_s)} old",
            role="admission",
            observed=Exact(age_s) if dated else Absent("nothing in it is dated"),
            limit=self.max_age_s,
            unit="s",
            why="nothing in it is dated"
            if not dated
            else f"it ends at {rfc3339(seen.ended_ns, digits=0)}"
            + (f", and begins at {rfc3339(seen.began_ns, digits=0)}" if seen.began_ns else ""),
            remedy="run the test again, with a log of its own, and judge what it leaves",
        )

    def _worst(self, product: Product) -> Check:
        return looked_at(
            "worst-case",
            "pass" if product.calls <= self.max_calls else "fail",
            f"all layers together make at most {self.max_calls:,} calls: {product.text} is {product.calls:,}",
            observed=Exact(float(product.calls)) if product.calls <= _EXACT else AtLeast(_EXACT),
            limit=self.max_calls,
            why=f"{product.calls:,} calls; turn the SDK's own retries off, or shorten the loop",
        )


class RetriesArticle(Gate[Retried], frozen=True, kw_only=True, tag="retries"):
    """The article's two limits, from the command line. They decide on what was seen."""

    max_retry_ratio: _Ratio
    forbid_reasons: Annotated[tuple[str, ...], msgspec.Meta(min_length=1, max_length=32)]

    ARTICLE_CODES: ClassVar[dict[str, int]] = {}

    def checks(self, evidence: Retried) -> Iterator[Check]:
        yield _sealed(evidence)
        yield _usable(evidence)
        yield _examined(evidence, least_requests(self.max_retry_ratio))
        yield _decisions(evidence, 1)
        yield _ratio(evidence, self.max_retry_ratio)
        for reason in self.forbid_reasons:
            yield _forbidden(evidence, reason)
        yield _recorded(evidence)
        yield _consistent(evidence)

    def headline(self, evidence: Retried) -> tuple[str, ...]:
        return _amounts(evidence)

    def findings(self, evidence: Retried, checks: tuple[Check, ...]) -> Iterator[Finding]:
        yield from _drift(evidence, set(self.forbid_reasons))


# What both kinds of limits look at


def _sealed(seen: Retried) -> Check:
    return looked_at(
        "sealed",
        "refused" if seen.seal_problems else "pass",
        "the run is as it was sealed" if seen.source == "run" else "a bare log: nobody has sealed it",
        role="admission",
        why="; ".join(seen.seal_problems[:3]),
        remedy="judge a run as it was sealed, or run the test again",
    )


def _usable(seen: Retried) -> Check:
    return looked_at(
        "lines-usable",
        "refused" if seen.unusable else "pass",
        "every line that may be a decision or a request can be read",
        role="admission",
        observed=Exact(seen.unusable),
        limit=0,
        why=f"{seen.unusable} cannot: {seen.unusable_why}",
        remedy="one decision that is not read may be the forbidden one: run the test again with writers that end whole lines",
        cites=seen.unusable_cites,
    )


def _examined(seen: Retried, least: int) -> Check:
    n = seen.requests
    return looked_at(
        "examined",
        "pass" if n is not None and n >= least else "refused",
        f"at least {least:,} user requests were made" + ("" if n is None else f": {n:,}"),
        role="admission",
        observed=Absent("no line is a user's request") if n is None else Exact(n),
        limit=least,
        why="how many requests there were nobody wrote down" if n is None else f"found {n:,}",
        remedy=_WRITE if not n else f"run the test with {least:,} requests or more",
    )


def _decisions(seen: Retried, least: int) -> Check:
    n = seen.decided.total
    return looked_at(
        "decisions",
        "pass" if n >= least else "refused",
        f"at least {least:,} decisions were written down: {n:,}",
        observed=Exact(n),
        limit=least,
        why="no decision, no reason" if not n else f"found {n:,}",
        remedy=_WRITE if not n else "plant more failures: a test in which little fails shows little of retries",
    )


def _ratio(seen: Retried, limit: float) -> Check:
    title = f"at most {limit:g} retries for each request"
    if not seen.requests:
        return looked_at(
            "retry-ratio",
            "refused",
            title,
            observed=Absent("no requests are known"),
            limit=limit,
            why="retries for how many requests nobody knows",
            remedy=_WRITE,
        )
    if seen.wire is None and seen.decided.sampled and seen.decided.goes / seen.requests <= limit:
        return looked_at(
            "retry-ratio",
            "refused",
            title,
            observed=AtLeast(seen.decided.goes / seen.requests, seen.requests),
            limit=limit,
            why=f"{seen.decided.sampled:,} lines say that allowed ones were left out: how many there were nobody wrote down",
            remedy="have the worker write every decision (Recorder(allowed_share=1)), or judge a sealed run, where the wire counts",
        )
    sure = seen.decided.goes if seen.wire is None else seen.wire.retries
    unsure = 0 if seen.wire is None else seen.wire.unknown
    low, high = sure / seen.requests, (sure + unsure) / seen.requests
    status: Status = "fail" if low > limit else "pass" if high <= limit else "refused"
    more = f", and {unsure:,} that may be some" if unsure else ""
    return looked_at(
        "retry-ratio",
        status,
        f"{title}: {sure:,} of {seen.requests:,}{more}",
        observed=Exact(low, n=seen.requests, low=low, high=high) if unsure else Exact(low, n=seen.requests),
        limit=limit,
        why=f"{low:.4g} for each request"
        if status == "fail"
        else f"between {low:.4g} and {high:.4g} for each request, as {unsure:,} attempts cannot be told",
        remedy=_TRACE,
    )


def _forbidden(seen: Retried, reason: str) -> Check:
    n = seen.decided.count(reason)
    return looked_at(
        f"forbidden.{reason}",
        "fail" if n else "pass" if seen.decided.total else "refused",
        f"no decision says {reason}",
        observed=Exact(n, n=seen.decided.total),
        limit=0,
        why=f"{n:,} of {seen.decided.total:,} do: stop the ship" if n else "there is no decision",
        remedy=_WRITE,
        cites=seen.decided.cites.get(reason, ()),
    )


def _recorded(seen: Retried) -> Check:
    n = seen.decided.unnamed + seen.decided.sent_unnamed
    return looked_at(
        "reason-recorded",
        "fail" if n else "pass",
        "every decision has a reason of the closed set",
        observed=Exact(n, n=seen.decided.total),
        limit=0,
        why=f"{n:,} have none, or a text of somebody's own",
        cites=seen.decided.cites.get("", ()),
    )


def _consistent(seen: Retried) -> Check:
    n = seen.decided.contradicted
    return looked_at(
        "reason-contradicted",
        "fail" if n else "pass",
        "no decision does other than its reason says",
        observed=Exact(n, n=seen.decided.total),
        limit=0,
        why=f"{n:,} allow what their reason denies, or the other way round",
        cites=seen.decided.cites.get("!", ()),
    )


def _share(seen: Retried, reason: str, most: float) -> Check:
    n, total = seen.decided.count(reason), seen.decided.total
    share = n / total if total else 0.0
    # Of what allows a retry more may be missing; of anything else the share is then too large, and a bound.
    status = at_most(Exact(share), most) if total else "refused"
    if seen.decided.sampled and (status == "fail") != (reason in GOES):
        status = "refused"
    return looked_at(
        f"share.{reason}",
        status,
        f"at most {share_text(most)} of decisions say {reason}: {n:,} of {total:,}",
        observed=Exact(share, n=total) if total else Absent("no decisions"),
        limit=most,
        unit="ratio",
        why="there is none"
        if not total
        else "allowed decisions are a sample, and of how many nobody wrote down"
        if status == "refused"
        else f"{share_text(share)} do",
        remedy=_WRITE,
        cites=seen.decided.cites.get(reason, ()),
    )


def _route(seen: Retried, route: str, most: int) -> Check:
    before = seen.decided.routes.get(route)
    made = 0 if before is None else before + 1  # a decision that allows one more, after so many, is one more call
    return looked_at(
        f"route.{route}",
        "fail" if made > most else "pass",
        f"{route}: at most {most:,} calls of one request",
        observed=Exact(made),
        limit=most,
        why=f"one more was allowed after {before}",
    )


def _routed(seen: Retried, known: frozenset[str]) -> Check:
    strange = len(set(seen.decided.routes) - known)
    n = seen.decided.unrouted
    found = [f"{n:,} retries were allowed without one"] if n else []
    found += [f"{strange:,} routes have no budget in the policy"] if strange else []
    return looked_at(
        "route-said",
        "fail" if found else "pass",
        "every retry says its route, and the policy has a budget for it",
        observed=Exact(n + strange),
        limit=0,
        why="; ".join(found),
    )


def _as_declared(seen: Retried, product: Product) -> Check:
    made = seen.decided.most_attempt + 1 if seen.decided.goes else 0
    most, where = (made, "decisions") if seen.wire is None or made > seen.wire.most else (seen.wire.most, "the wire")
    unsaid = seen.decided.uncounted
    unplaced = 0 if seen.wire is None else seen.wire.unknown
    unclear = (unsaid and seen.wire is None) or (unplaced and unplaced + most > product.a_turn)
    status: Status = "fail" if most > product.a_turn else "refused" if unclear else "pass"
    return looked_at(
        "as-declared",
        status,
        f"one request became at most {product.a_turn:,} calls, as the layers declare: {most:,} by {where}",
        observed=Exact(most),
        limit=product.a_turn,
        why=f"it became {most:,}: there is a layer that the policy does not have"
        if status == "fail"
        else f"{unplaced:,} attempts may be of one request with them"
        if seen.wire is not None
        else f"{unsaid:,} decisions do not say after how many calls",
        remedy="have the worker write `attempt` with each decision" if seen.wire is None else _TRACE,
        cites=() if seen.wire is None else seen.wire.most_cites,
    )


def _decided(seen: Retried, wire: Wire) -> Check:
    goes = seen.decided.goes
    sure, maybe = wire.retries > goes, wire.retries + wire.unknown > goes
    asked = seen.decided.total and not seen.decided.sampled
    status: Status = "pass" if not maybe else "fail" if sure and asked else "refused"
    return looked_at(
        "retries-decided",
        status,
        f"each retry on the wire was allowed by a decision: {wire.retries:,} sent, {goes:,} allowed",
        observed=Exact(max(0, wire.retries - goes)),
        limit=0,
        why="no decision was written down"
        if not seen.decided.total
        else "allowed decisions are a sample, and fewer than the retries"
        if seen.decided.sampled
        else f"{wire.retries - goes:,} were sent by a layer that asked nobody: turn its own retries off (max_retries=0)"
        if sure
        else f"{wire.unknown:,} attempts may be retries that nobody allowed",
        remedy=_TRACE if asked else _WRITE,
    )


def _waits(wire: Wire) -> Check:
    return looked_at(
        "waits-kept",
        "fail" if wire.early else "pass",
        f"nobody came earlier than asked: {wire.asked:,} answers asked for a wait",
        observed=Exact(wire.early, n=wire.asked),
        limit=0,
        why=f"{wire.early:,} attempts came before the wait was over",
        cites=wire.early_cites,
    )


def _amounts(seen: Retried) -> tuple[str, ...]:
    said = seen.decided
    requests = "an unknown number of" if seen.requests is None else f"{seen.requests:,}"
    reasons = {reason: said.count(reason) for reason in sorted({*said.allowed, *said.denied})}
    lines = [
        f"{requests} requests, {said.goes:,} retries allowed, {said.total - said.goes - said.unnamed:,} denied"
        + (f", {said.unnamed:,} denied without a reason" if said.unnamed else "")
    ]
    if reasons:
        lines.append(
            "reasons: " + ", ".join(f"{reason} {n:,} ({share_text(n / said.total)})" for reason, n in reasons.items())
        )
    if seen.wire is not None:
        lines.append(f"on the wire {seen.wire.attempts:,} attempts, {seen.wire.retries:,} of them retries")
    return tuple(lines)


def _drift(seen: Retried, limited: set[str]) -> Iterator[Finding]:
    """Name the reasons to say no that stand there and have no limit, and what came too late to be judged."""
    if seen.late:
        yield Finding(
            id="late-lines",
            cause=f"{seen.late:,} lines were written behind the seal, and none of them was judged",
            next="seal a run when its workers have ended",
        )
    for reason, n in sorted(seen.decided.denied.items()):
        if reason not in limited:
            yield Finding(
                id="reason-unlimited",
                cause=f"{n:,} decisions say {reason}, and no limit says how many may",
                next=f"agree on its share: max_reason_ratio: {{{reason}: ...}}",
                cites=seen.decided.cites.get(reason, ()),
            )


gate = Retries
