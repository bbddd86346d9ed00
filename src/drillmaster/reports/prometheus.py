"""Prometheus: a verdict, and an interview's figures, as a file for node_exporter's textfile collector.

1. Every metric has HELP and TYPE, and the unit in its name. All are gauges: a file tells of one run, and the next replaces it.
2. Series are told apart by `interview` (the job's name) and `level`. What changes with every run (its id, digests, versions)
   stands in `drillmaster_interview_info` alone, so that a series goes on from run to run.
3. Who alerts takes the upper bound: it is +Inf where so few calls bound nothing, where calls were cut, and where a level is void,
   so that `> limit` is true where nobody knows. What was observed is not there for a void level, whose figures are the client's.
4. No time stamps on series, which the collector refuses; when the run ended is a metric.
"""

import math
from collections.abc import Iterable, Mapping

from drillmaster.clock import parse_rfc3339
from drillmaster.deciding import KINDS
from drillmaster.reports import one_line
from drillmaster.reports._levels import LevelView, Spread
from drillmaster.reports.interview import InterviewView
from drillmaster.verdict import AtLeast, Exact, Verdict

__all__ = ["exposed", "render"]

Labels = Mapping[str, str]
Sample = tuple[Labels, float | None]


def render(verdict: Verdict, view: InterviewView | None = None, *, service: str = "") -> str:
    """Write the file; ends with a newline. Without an interview it holds the verdict alone, which is on `service`."""
    out: list[str] = []
    base = {"gate": verdict.gate, **({"interview": view.page.job} if view else {"service": service})}
    out += exposed(
        "drillmaster_verdict",
        "Whether the verdict is this one: pass, fail or refused.",
        [({**base, "status": one}, float(verdict.status == one)) for one in ("pass", "fail", "refused")],
    )
    out += exposed(
        "drillmaster_check_passed",
        "Whether a check of the gate passed; 0 where it failed or was refused.",
        [({**base, "check": check.id, "role": check.role}, float(check.status == "pass")) for check in verdict.checks],
    )
    judged_ns = parse_rfc3339(verdict.now)
    out += exposed(
        "drillmaster_judged_timestamp_seconds",
        "When it was judged, as Unix time.",
        [(base, None if judged_ns is None else judged_ns / 1e9)],
    )
    if view is not None:
        out += _interview(verdict, view)
    return "\n".join(out) + "\n"


def _interview(verdict: Verdict, view: InterviewView) -> list[str]:
    job = {"interview": view.page.job}
    out: list[str] = []

    def metric(name: str, help_text: str, samples: Iterable[Sample]) -> None:
        out.extend(exposed(f"drillmaster_interview_{name}", help_text, samples))

    def each(value_of: Mapping[str, float | None]) -> list[Sample]:
        return [({**job, "level": label}, value) for label, value in value_of.items()]

    metric(
        "info",
        "What was asked, and which run of it this is.",
        [
            (
                {
                    **job,
                    "url": view.page.url,
                    "run": view.page.evidence,
                    "payload_sha256": view.page.payload_sha256,
                    "measured_from": view.decision.measured_from,
                    "stamps": ", ".join(verdict.stamps),
                    "version": verdict.version,
                },
                1.0,
            )
        ],
    )
    for name, text, at in (
        ("end_timestamp_seconds", "When the interview ended, as Unix time.", view.ended_at),
        ("review_timestamp_seconds", "Begin of the last day on which its decision holds, as Unix time.", _day(view)),
    ):
        moment = parse_rfc3339(at) if at else None
        metric(name, text, [(job, None if moment is None else moment / 1e9)])
    metric(
        "kind_allowed",
        "Whether the decision allows this kind of job.",
        [({**job, "kind": kind}, float(kind in view.decision.allowed)) for kind in KINDS],
    )
    metric(
        "job_allowed",
        "Whether the policy, which has no decision table, allows the interviewed job itself.",
        [(job, float(view.decision.job_alone))],
    )
    levels = view.levels
    sound = [level for level in levels if not level.void]
    metric(
        "level_void",
        "Whether a level's figures are the client's own, so that no gate takes them.",
        each({level.label: float(bool(level.void)) for level in levels}),
    )
    metric(
        "callers",
        "Calls at once that were asked for; of an open stage the most.",
        each({x.label: x.callers for x in levels}),
    )
    metric(
        "calls",
        "Calls of a level by how they ended: ok, or the kind of failure.",
        [
            ({**job, "level": level.label, "end": end}, float(n))
            for level in levels
            for end, n in {"ok": level.n - level.failures, **level.failed}.items()
        ],
    )
    metric(
        "error_ratio",
        "Share of calls without a good answer, as observed.",
        each({level.label: level.failures / level.n for level in sound if level.n}),
    )
    metric(
        "error_ratio_upper_bound",
        "The share of failures that so many calls cannot exclude, 95 %, one-sided; +Inf for a void level.",
        each({level.label: math.inf if level.void else level.error_bound for level in levels}),
    )
    for attribute, name, what in (
        ("latency", "latency", "Latency from when a call was due; a call that was cut took at least so long."),
        ("first_byte", "first_byte", "Time to the first byte of good answers."),
        ("first_word", "first_word", "Time to the first word of streams."),
        ("gaps", "gap", "Time between two words of a stream."),
    ):
        metric(f"{name}_seconds", f"{what} Observed.", list(_observed(sound, attribute, job)))
        if attribute != "gaps":
            metric(
                f"{name}_upper_bound_seconds",
                f"{what} Upper bound, 95 %; +Inf where there is none.",
                list(_bounds(levels, attribute, job)),
            )
    metric("span_seconds", "From a level's first call to its last answer.", each({x.label: x.seconds for x in levels}))
    metric("good_per_second", "Good answers a second.", each({x.label: x.good_per_s for x in sound}))
    metric(
        "output_tokens",
        "Tokens of output, as the answers say.",
        each({x.label: None if x.tokens is None else float(x.tokens) for x in levels}),
    )
    metric(
        "made_again",
        "Calls made once more on a new connection, since the kept one turned out to have been closed.",
        each({x.label: float(x.made_again) for x in levels}),
    )
    metric(
        "waits",
        "Calls that waited because Retry-After asked them to.",
        each({x.label: float(x.waits) for x in levels}),
    )
    metric(
        "waited_seconds",
        "How long they waited in all; it is in their latencies.",
        each({x.label: x.waited_s for x in levels}),
    )
    metric(
        "held", "Calls in flight on average until a level's last call began.", each({x.label: x.held for x in levels})
    )
    metric(
        "late_p99_seconds", "How late the client sent, 99th percentile.", each({x.label: x.late_p99_s for x in levels})
    )
    metric("client_cpu_ratio", "Share of one core that the client used.", each({x.label: x.cpu_share for x in levels}))
    metric(
        "client_delay_ratio",
        "Share of the time in which the client was ready and others had its core, for a millisecond and more.",
        each({x.label: x.delay_share for x in levels}),
    )
    if view.knee_callers is not None:
        metric(
            "knee_callers",
            "From how many callers on more of them bring more waiting than answers; +Inf: beyond the ladder.",
            [
                ({**job, "bound": bound}, math.inf if callers is None else float(callers))
                for bound, callers in zip(("observed", "lower", "upper"), view.knee_callers, strict=True)
            ],
        )
    metric("idle_seconds", "Silence before the cold call.", [(job, view.page.idle_s)])
    return out


def _day(view: InterviewView) -> str:
    return f"{view.decision.review_on}T00:00:00Z" if view.decision.review_on else ""


def _observed(levels: Iterable[LevelView], attribute: str, job: Labels) -> Iterable[Sample]:
    for level in levels:
        spread: Spread | None = getattr(level, attribute)
        for name, taken in ({} if spread is None else spread.quantiles).items():
            if isinstance(taken, Exact | AtLeast):
                yield {**job, "level": level.label, "at": name}, taken.value


def _bounds(levels: Iterable[LevelView], attribute: str, job: Labels) -> Iterable[Sample]:
    for level in levels:
        spread: Spread | None = getattr(level, attribute)
        for name, taken in ({} if spread is None else spread.quantiles).items():
            high = None
            if isinstance(taken, Exact) and not level.void:
                high = taken.value if name == "max" else taken.high  # the largest of all there were is its own bound
            yield {**job, "level": level.label, "at": name}, math.inf if high is None else high


def exposed(name: str, help_text: str, samples: Iterable[Sample], *, kind: str = "gauge") -> list[str]:
    """Write one metric with its samples, in order; nothing at all where none has a value."""
    lines = [f"{name}{_labels(labels)} {_number(value)}" for labels, value in samples if value is not None]
    return [f"# HELP {name} {help_text}", f"# TYPE {name} {kind}", *lines] if lines else []


def _labels(labels: Labels) -> str:
    return "{" + ",".join(f'{name}="{_escaped(value)}"' for name, value in labels.items()) + "}"


def _escaped(value: str) -> str:
    return one_line(value).replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _number(value: float) -> str:
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    return repr(float(value))
