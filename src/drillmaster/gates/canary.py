"""The canary gate: may this build have more traffic? Numbers of a collector decide, against a policy; words do not.

1. Only what a collector counted is evidence. A field that offers a verdict is itself a reason to say no, whatever the
   numbers are, and where they came from has to be on a list.
2. Evidence is of one build, by its digest, over one window that lies behind, and is fresh. Nothing counted is refused.
3. A share that was seen is compared with its limit; so is what it may really be. Where a sample is too small to tell, the
   answer is refused and says how many requests would do: ten clean requests promote nothing. A limit of 0 is a census.
4. Against a baseline only the difference counts, with what may be chance on both sides of it.
5. Burn is computed from what was counted; one that a collector reports besides can only make it worse.
6. A limit can be let go by two people, signed, dated and for one build. The verdict counts and names each.
7. The article's two files are judged on what they say, as its script does. What they have no field for is not checked, and
   the verdict is stamped so.
"""

import math
import re
from collections.abc import Iterator
from typing import Annotated, ClassVar, Literal

import msgspec

from drillmaster.clock import rfc3339
from drillmaster.gates import Gate
from drillmaster.gates._canary_exceptions import Exemption, in_force, not_taken, wrong
from drillmaster.gates._canary_metrics import Arm, CanaryMetrics
from drillmaster.gates._canary_shares import Baseline, Ratio, bounded, excess, observed, slower
from drillmaster.policy import seconds_text, share_text
from drillmaster.stats import samples_for_bound
from drillmaster.verdict import Absent, Check, Exact, Measure, Verdict, at_most, looked_at

__all__ = ["SOURCES", "Arm", "Baseline", "Canary", "CanaryArticle", "CanaryMetrics", "gate"]

SOURCES = ("prometheus", "datadog", "cloudwatch", "otel-collector")
"""The collectors that the article's script trusts."""
MAX_ARTICLE_AGE_S = 366 * 86_400.0
"""The article's policy has no field for an age. What was collected a year ago says nothing of a build of today."""
MAX_SKEW_S = 60.0
_NO_COLLECTOR = re.compile(
    r"screen|shot|picture|image|photo|png|jpe?g|chat|slack|teams|paste|clipboard|prompt|model|llm|gpt|assistant|agent|"
    r"human|manual|by.hand|notes?\b|transcript",
    re.IGNORECASE,
)
_NEW = "drillmaster evidence new canary --prometheus URL --service NAME --artifact sha256:... --out FILE"
_ARTICLE_ORDER = ("source", "sample-size", "error-rate", "p95", "slo-burn", "healthy-hosts", "window")

_Seconds = Annotated[float, msgspec.Meta(gt=0, le=31 * 86_400)]
_Millis = Annotated[float, msgspec.Meta(gt=0, le=86_400_000)]
_Burn = Annotated[float, msgspec.Meta(ge=0, le=1_000_000)]


class Canary(Gate[CanaryMetrics], frozen=True, kw_only=True, tag="canary"):
    """Whether a build that has a little traffic may have more, by what a collector counted of it.

    Happens: a new build serves a small share of users; a collector counts requests, errors, latency and hosts; somebody,
    or something, wants to promote it.
    Breaks: promotions on a fluent sentence, a screenshot, nine requests, last week's numbers, or another build's.
    Looks like: one line a limit; `promote: pinned metrics passed policy`, or `reject:` and why.
    Cannot show: that the collector tells the truth; that users see what it counts; errors rarer than the sample can show.

    `drillmaster evidence new canary` writes the evidence by asking Prometheus. The article's `policy.json` and
    `canary_metrics.json` are read as they are, decide on what they say, and are stamped for what they have no field for: the
    age, the build.
    """

    ARTICLE_CODES: ClassVar[dict[str, int]] = {"model-verdict-present": 2}
    """In the article 2 says that a model's verdict was given, and nothing else; its script crashes with 1."""

    service: Annotated[str, msgspec.Meta(min_length=1, max_length=200)]
    collectors: Annotated[tuple[str, ...], msgspec.Meta(min_length=1)]
    """Who may count: `prometheus`. Spelled as the evidence spells it."""
    max_age_s: _Seconds
    """How old the evidence may be, from the end of its window."""
    min_requests: Annotated[int, msgspec.Meta(ge=59)]
    """Fewer than 59 bound no p95."""
    max_error_ratio: Ratio
    max_p95_ms: _Millis
    slo_target_ratio: Annotated[float, msgspec.Meta(gt=0, lt=1)]
    """Share of good requests that the service promises: 0.999."""
    max_slo_burn: _Burn
    """How many times faster than promised the error budget may be spent in the window."""
    min_healthy_hosts: Annotated[int, msgspec.Meta(ge=1)]
    min_window_s: _Seconds
    min_coverage_ratio: Annotated[float, msgspec.Meta(gt=0, le=1)]
    """In how much of the window the collector has to have seen the canary's hosts: dropped series look like silence."""
    baseline: Baseline | Literal["none"]
    """What the canary is compared with; `none`: with its limits alone."""
    exceptions: tuple[Exemption, ...] = ()

    def __post_init__(self) -> None:
        wrong = next((one for one in self.collectors if not one.strip() or _NO_COLLECTOR.search(one)), None)
        if wrong is not None:
            raise ValueError(
                f"collectors that count, and {wrong[:60]!r} does not: a picture and a text are no source of metrics"
            )

    def checks(self, evidence: CanaryMetrics) -> Iterator[Check]:
        seen = evidence
        yield _no_verdict(seen)
        yield _artifact(seen)
        yield looked_at(
            "service",
            "pass" if seen.service == self.service else "refused",
            f"the evidence is of {self.service}",
            role="admission",
            why=f"it is of {seen.service or 'nobody named'}",
            remedy=f"take it of {self.service}: {_NEW}",
        )
        yield _fresh(seen, self.max_age_s, f"the window ended at most {seconds_text(self.max_age_s)} ago")
        yield _examined(seen)
        yield _consistent(seen)
        if isinstance(self.baseline, Baseline):
            yield _comparable(seen)
        mistakes = wrong(self.exceptions, now_ns=seen.now_ns)
        yield looked_at(
            "exceptions",
            "refused" if mistakes else "pass",
            f"exceptions are two people's, dated and for one build: {len(self.exceptions)} in the policy, "
            f"{len(self.excepted(seen))} taken",
            role="admission",
            why="; ".join(mistakes),
            remedy="mend or drop the entry, and have both people sign the policy again",
        )
        for check in self._judged(seen):
            yield self._excused(check, seen)

    def headline(self, evidence: CanaryMetrics) -> tuple[str, ...]:
        build = evidence.canary.artifact[:19]
        return (f"{evidence.service} {build}: {_amount(evidence)}, told by {evidence.source}",)

    def closing(self, evidence: CanaryMetrics, verdict: Verdict) -> tuple[str, ...]:
        taken = self.excepted(evidence)
        more = (f"exceptions: {', '.join(taken)}",) if taken else ()
        return (*_closing(evidence, verdict), *more)

    def excepted(self, evidence: CanaryMetrics) -> tuple[str, ...]:
        """Name the checks that two people let go, and that would not have passed."""
        return tuple(
            check.id
            for check in self._judged(evidence)
            if check.status != "pass" and self._exception(check.id, evidence)
        )

    def _judged(self, seen: CanaryMetrics) -> Iterator[Check]:
        arm = seen.canary
        yield _source(seen, self.collectors)
        yield _sample(seen, self.min_requests)
        yield bounded(arm, self.max_error_ratio, least=self.min_requests)
        yield _p95(seen, self.max_p95_ms)
        yield self._burn(arm)
        yield _hosts(seen, self.min_healthy_hosts)
        yield _window(seen, self.min_window_s)
        yield self._coverage(seen)
        if isinstance(self.baseline, Baseline) and seen.baseline is not None:
            yield excess(arm, seen.baseline, self.baseline)
            yield slower(arm, seen.baseline, self.baseline)

    def _burn(self, arm: Arm) -> Check:
        burn = arm.error_ratio / (1 - self.slo_target_ratio)
        how = f"{share_text(arm.error_ratio)} errors where {share_text(1 - self.slo_target_ratio)} are promised"
        if arm.slo_burn is not None and not arm.slo_burn <= burn:  # also where it is not a number
            burn, how = arm.slo_burn, "as the collector reports it"
        return _burned(burn, self.max_slo_burn, arm.requests, f", {how}")

    def _coverage(self, seen: CanaryMetrics) -> Check:
        found = seen.coverage_ratio
        ok = found is not None and found >= self.min_coverage_ratio
        observed: Measure = Absent("the evidence does not say") if found is None else Exact(found)
        return looked_at(
            "coverage",
            "pass" if ok else ("refused" if found is None or not math.isfinite(found) else "fail"),
            f"the collector saw the canary in {share_text(self.min_coverage_ratio)} of the window or more"
            + ("" if found is None else f" (observed {share_text(found)})"),
            observed=observed,
            limit=self.min_coverage_ratio,
            unit="ratio",
            remedy=f"let a whole window pass without gaps in the series, then: {_NEW}",
        )

    def _exception(self, check: str, seen: CanaryMetrics) -> Exemption | None:
        return in_force(self.exceptions, check, artifact=seen.canary.artifact, now_ns=seen.now_ns, signers=seen.signers)

    def _excused(self, check: Check, seen: CanaryMetrics) -> Check:
        if check.status == "pass":
            return check
        one = self._exception(check.id, seen)
        if one is not None:
            title = f"EXCEPTED by {' and '.join(one.by)} until {one.until} ({one.reason}): {check.title}"
            return msgspec.structs.replace(check, status="pass", title=title, remedy="")
        said = not_taken(
            self.exceptions, check.id, artifact=seen.canary.artifact, now_ns=seen.now_ns, signers=seen.signers
        )
        return msgspec.structs.replace(check, why="; ".join(filter(None, (check.why, said)))) if said else check


class CanaryArticle(Gate[CanaryMetrics], frozen=True, kw_only=True, tag="canary"):
    """The limits of the article's `policy.json`, under its names. It decides on what was seen."""

    ARTICLE_CODES: ClassVar[dict[str, int]] = Canary.ARTICLE_CODES

    min_requests: Annotated[int, msgspec.Meta(ge=1)]
    max_error_rate: Ratio
    max_p95_ms: _Millis
    max_slo_burn: _Burn
    min_healthy_hosts: Annotated[int, msgspec.Meta(ge=1)]
    required_window_seconds: _Seconds

    def checks(self, evidence: CanaryMetrics) -> Iterator[Check]:
        seen = evidence
        yield _no_verdict(seen)
        if seen.wanted_artifact is not None:
            yield _artifact(seen)
        yield _fresh(seen, MAX_ARTICLE_AGE_S, "collected within a year; the policy has no field for an age")
        yield _examined(seen)
        yield _consistent(seen)
        yield _source(seen, SOURCES)
        yield _sample(seen, self.min_requests)
        yield observed(seen.canary, self.max_error_rate)
        yield _p95(seen, self.max_p95_ms)
        burn = math.nan if seen.canary.slo_burn is None else seen.canary.slo_burn
        yield _burned(burn, self.max_slo_burn, seen.canary.requests, "")
        yield _hosts(seen, self.min_healthy_hosts)
        yield _window(seen, self.required_window_seconds)

    def headline(self, evidence: CanaryMetrics) -> tuple[str, ...]:
        return (f"{_amount(evidence)}, told by {evidence.source[:60]}; of which build the file does not say",)

    def closing(self, evidence: CanaryMetrics, verdict: Verdict) -> tuple[str, ...]:
        return _closing(evidence, verdict)


# What both kinds of limits look at


def _no_verdict(seen: CanaryMetrics) -> Check:
    return looked_at(
        "model-verdict-present",
        "fail" if seen.offered else "pass",
        "no verdict of a model or a chat is offered as evidence",
        why=f"found one at {', '.join(seen.offered)}",
    )


def _artifact(seen: CanaryMetrics) -> Check:
    found, wanted = seen.canary.artifact, seen.wanted_artifact
    why = remedy = ""
    if wanted is None:
        why = "nobody said which build is to be promoted"
        remedy = f"add --artifact with the digest that will be promoted; the evidence is of {found[:19]}"
    elif found != wanted:
        why = f"the evidence is of {found[:19] or 'a build that it does not name'}, and {wanted[:19]} is to be promoted"
        remedy = f"take evidence of the build itself: {_NEW}"
    return looked_at(
        "artifact",
        "refused" if why else "pass",
        "the evidence is of the build that is to be promoted",
        role="admission",
        why=why,
        remedy=remedy,
    )


def _fresh(seen: CanaryMetrics, most_s: float, title: str) -> Check:
    ended_ns = seen.produced_ns if seen.ended_ns is None else seen.ended_ns
    age_s = (seen.now_ns - ended_ns) / 1e9
    ahead = age_s < -MAX_SKEW_S
    return looked_at(
        "fresh",
        "pass" if not ahead and at_most(Exact(age_s), most_s) == "pass" else "refused",
        title,
        role="admission",
        observed=Exact(age_s),
        limit=most_s,
        unit="s",
        why=f"it is of {rfc3339(ended_ns, digits=0)}, "
        + ("which is in the future" if ahead else f"{seconds_text(round(age_s))} old"),
        remedy=f"collect again: {_NEW}",
    )


def _examined(seen: CanaryMetrics) -> Check:
    n = seen.canary.requests
    return looked_at(
        "examined",
        "pass" if n > 0 else "refused",
        f"there were requests to judge by: {n:,}",
        role="admission",
        observed=Exact(n),
        why="silence is not health",
        remedy="send the canary traffic, let a whole window pass, and collect again",
    )


def _consistent(seen: CanaryMetrics) -> Check:
    found = []
    for name, arm in (("canary", seen.canary), ("baseline", seen.baseline)):
        if arm is None:
            continue
        if not 0 <= arm.errors <= arm.requests and not (arm.requests == 0 and arm.errors == 0):
            found.append(f"{name}: {arm.errors} errors of {arm.requests} requests")
        if not (math.isfinite(arm.p95_ms) and arm.p95_ms > 0):
            found.append(f"{name}: a p95 of {arm.p95_ms:g} ms")
        if arm.slo_burn is not None and not (math.isfinite(arm.slo_burn) and arm.slo_burn >= 0):
            found.append(f"{name}: a burn of {arm.slo_burn:g}")
        if arm.healthy_hosts < 0:
            found.append(f"{name}: {arm.healthy_hosts} hosts")
    if not (math.isfinite(seen.window_s) and seen.window_s >= 0):
        found.append(f"a window of {seen.window_s:g} s")
    if seen.coverage_ratio is not None and not 0 <= seen.coverage_ratio <= 1:
        found.append(f"a coverage of {seen.coverage_ratio:g}")
    if seen.ended_ns is not None and seen.ended_ns > seen.produced_ns + MAX_SKEW_S * 1e9:
        found.append("a window that ends after the evidence was produced")
    return looked_at(
        "consistent",
        "refused" if found else "pass",
        "the numbers can be true together",
        role="admission",
        why="; ".join(found),
        remedy="have the collector export them again; numbers that nobody could count were typed",
    )


def _comparable(seen: CanaryMetrics) -> Check:
    why = ""
    if seen.baseline is None:
        why = "the evidence has no baseline"
    elif seen.baseline.requests < 1:
        why = "nobody asked the baseline anything"
    elif seen.baseline.artifact == seen.canary.artifact:
        why = "baseline and canary are one build: such a comparison always holds"
    return looked_at(
        "baseline",
        "refused" if why else "pass",
        "there is a baseline, of another build",
        role="admission",
        why=why,
        remedy=f"take both in one window: {_NEW}",
    )


def _source(seen: CanaryMetrics, trusted: tuple[str, ...]) -> Check:
    return looked_at(
        "source",
        "pass" if seen.source in trusted else "fail",
        f"a collector that is on the list counted: {', '.join(trusted)}",
        why=f"found {seen.source[:60]!r}",
    )


def _sample(seen: CanaryMetrics, least: int) -> Check:
    n = seen.canary.requests
    return looked_at(
        "sample-size",
        "pass" if n >= least else "fail",
        f"at least {least:,} requests (observed {n:,})",
        observed=Exact(n),
        limit=least,
        unit="requests",
    )


def _p95(seen: CanaryMetrics, cap: float) -> Check:
    observed = Exact(seen.canary.p95_ms, n=seen.canary.requests)
    few = seen.canary.requests < samples_for_bound(0.95)
    return looked_at(
        "p95",
        at_most(observed, cap),
        f"p95 at most {cap:g} ms (observed {seen.canary.p95_ms:g} ms"
        + (f"; {samples_for_bound(0.95)} requests would bound it at 95 %)" if few else ")"),
        observed=observed,
        limit=cap,
        unit="ms",
        why="" if math.isfinite(seen.canary.p95_ms) else "not a number",
        remedy="have the collector export a number",
    )


def _burned(burn: float, cap: float, n: int, how: str) -> Check:
    return looked_at(
        "slo-burn",
        at_most(Exact(burn), cap),
        f"the error budget burns at most {cap:g} times as fast as promised (observed {burn:.4g}{how})",
        observed=Exact(burn, n=n),
        limit=cap,
        unit="times",
        remedy="have the collector compute it",
    )


def _hosts(seen: CanaryMetrics, least: int) -> Check:
    n = seen.canary.healthy_hosts
    return looked_at(
        "healthy-hosts",
        "pass" if n >= least else "fail",
        f"at least {least} healthy hosts (observed {n})",
        observed=Exact(n),
        limit=least,
        unit="hosts",
    )


def _window(seen: CanaryMetrics, least_s: float) -> Check:
    return looked_at(
        "window",
        "pass" if seen.window_s >= least_s else "fail",
        f"watched for at least {seconds_text(least_s)} (observed {seconds_text(seen.window_s)})",
        observed=Exact(seen.window_s),
        limit=least_s,
        unit="s",
    )


# In the article's words


def _amount(seen: CanaryMetrics) -> str:
    return f"{seen.canary.requests:,} requests in {seconds_text(seen.window_s)}"


def _closing(seen: CanaryMetrics, verdict: Verdict) -> tuple[str, ...]:
    """`promote: ...`, or `reject:` and a line for each limit that was missed; of a refusal for a reason without one, nothing."""
    if verdict.status == "pass":
        return ("promote: pinned metrics passed policy",)
    if seen.offered:
        return ("reject: model verdict is not a legal input",)
    missed = {check.id: check for check in verdict.checks if check.status == "fail"}
    words = {
        "source": f"untrusted metric source: {seen.source[:60]!r}",
        "sample-size": "sample size below min_requests",
        "error-rate": f"error_rate {seen.canary.error_ratio:.5f} over cap",
        "p95": "p95 over cap",
        "slo-burn": "slo burn over cap",
        "healthy-hosts": "healthy host count too low",
        "window": "observation window too short",
    }
    lines = [words[id] for id in _ARTICLE_ORDER if id in missed]
    lines += [check.title for id, check in missed.items() if id not in words]
    return ("reject:", *(f"- {line}" for line in lines)) if lines else ()


gate = Canary
