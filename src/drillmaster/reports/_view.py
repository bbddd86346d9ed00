"""What card and page say about a run beside its verdict: phases, injections, requests and notes, taken from the joined run."""

import re
from collections import Counter
from collections.abc import Sequence
from typing import Any, get_args

import msgspec

from drillmaster.clock import rfc3339
from drillmaster.errors import Problem
from drillmaster.outcomes import OK, Outcome, Run, Span, Window
from drillmaster.reports import screened
from drillmaster.retries import Accounting, account
from drillmaster.screen import screen_url
from drillmaster.stats import quantile
from drillmaster.targeting import with_params
from drillmaster.verdict import Measure, Verdict

__all__ = [
    "OUTCOMES",
    "NoteView",
    "Outcome",
    "PhaseView",
    "PreflightView",
    "RequestView",
    "RunView",
    "WindowView",
    "view",
]

OUTCOMES: tuple[Outcome, ...] = get_args(Outcome)
"""Every way a user's request can end, best first."""


_RULES = 3
"""Of an injection's rules, so many are told where there is room for a sentence."""


class RequestView(msgspec.Struct, frozen=True, kw_only=True):
    """One user request. `due_s` counts from the run's start; `latency_s` from when it was due, None: never ended."""

    due_s: float
    latency_s: float | None
    outcome: Outcome
    phase: str


class PhaseView(msgspec.Struct, frozen=True, kw_only=True):
    """One phase as it was run, and what users got in it. `counts` holds the outcomes that occurred."""

    name: str
    start_s: float
    end_s: float
    counts: dict[Outcome, int] = {}
    p50: Measure
    p95: Measure
    """Seconds, of the good answers; requests that were cut at their time limit stay in as "at least"."""


class WindowView(msgspec.Struct, frozen=True, kw_only=True):
    """One injection. Times count from the run's start; None: it did not happen or nobody saw it. `met`: attempts."""

    fault: str
    injected_s: float
    injected_at: str
    lifted_s: float | None
    met: int
    first_fallback_s: float | None = None
    gone: bool | None = None
    """Whether a probe after the lift found the endpoint healthy."""
    said: str = ""
    """The fault with its parameters, in short words."""
    rules: tuple[str, ...] = ()
    """Where the injection had rules: each in short words, and how many attempts it met."""

    @property
    def words(self) -> str:
        """What was injected: the fault with its parameters, or the first rules."""
        if not self.rules:
            return self.said or self.fault
        more = f"; {len(self.rules) - _RULES} rules more" if len(self.rules) > _RULES else ""
        return f"{self.fault} by rules ({'; '.join(self.rules[:_RULES])}{more})"


class PreflightView(msgspec.Struct, frozen=True, kw_only=True):
    """One line of the pre-flight: executed by the drill, or attested by a person (`by`, `at`)."""

    check: str
    status: str
    """`pass`, `refused` or `attested`."""
    why: str = ""
    by: str = ""
    at: str = ""


class NoteView(msgspec.Struct, frozen=True, kw_only=True):
    """A line that the Scribe wrote by hand."""

    kind: str
    text: str
    by: str
    at: str


class RunView(msgspec.Struct, frozen=True, kw_only=True):
    """What card and page say about a run, besides its verdict. All text in it is untrusted."""

    service: str
    date: str
    """UTC day of the start, `2026-11-29`."""
    run: str
    drill: str
    seats: dict[str, str]
    """`lead`, `scribe`, `verifier` by name."""
    stamps: tuple[str, ...]
    budget: str
    """One sentence, made from the policy."""
    mode: str
    """Tag of the fault."""
    phases: tuple[PhaseView, ...]
    windows: tuple[WindowView, ...]
    every_s: float
    time_limit_s: float
    proxy_command: str
    model_base_url: str
    """Both empty where the plan does not say where the proxy listens."""
    upstream: str | None
    """None: the proxy was dead from the start, so there is no baseline on a real endpoint."""
    drill_log: str
    preflight: tuple[PreflightView, ...]
    notes: tuple[NoteView, ...]
    requests: tuple[RequestView, ...]
    """In the order of their due times."""
    gate_command: str
    evidence_head: str
    owners: dict[str, str]
    """Check id to the owner of its follow-up issue; `default` for all others."""
    manifest: dict[str, Any] = {}
    retries: Accounting | None = None
    """None: there was no wire, or the view is from before they were accounted for."""
    issues: str = ""
    """The folder where the follow-up issues were written; empty where none were."""


def view(run: Run, verdict: Verdict, *, gate_command: str) -> RunView:
    """Take from a joined run what card and page say. `Problem` for a bare file, which has no manifest to say it."""
    manifest = run.manifest
    if manifest is None:
        raise Problem(
            run.name,
            found="a bare timeline",
            wanted="a run folder, which says who did what",
            remedy="print its verdict with --format text or json",
        )
    plan = manifest.plan
    proxy = plan.get("proxy") or {}
    listen, upstream = str(proxy.get("listen", "")), proxy.get("upstream")
    # Without the values of a query; userinfo is no part of the address that a proxy would be told either.
    upstream = re.sub(r"(?<=//)[^/@]*@|[?#].*", "", screen_url(str(upstream))) if upstream is not None else None
    mode = str(manifest.fault.get("tag", ""))
    host, _, port = listen.rpartition(":")
    command = f"drillmaster proxy --host {host.strip('[]')} --port {port}" if host else ""
    if command and not (plan.get("fault") or {}).get("rules"):  # rules come by their own order, not by a flag
        command += f" --mode {mode}"
    if command and upstream is not None:
        command += f" --upstream {upstream}"
    owners = plan.get("owners") or {}
    spans = [span for span in run.phases if span.phase != "drain"]
    requests = [
        RequestView(due_s=r.due_ns / 1e9, latency_s=r.latency_s, outcome=r.outcome, phase=_phase_of(r.due_ns, spans))
        for r in run.requests
    ]
    made = RunView(
        service=manifest.service,
        date=manifest.started_at[:10],
        run=manifest.run,
        drill=manifest.drill,
        seats=manifest.seats,
        stamps=verdict.stamps,
        budget=verdict.headline[0].removeprefix("Budget: ").removeprefix("budget: ") if verdict.headline else "",
        mode=mode,
        phases=tuple(_phase(span, requests, manifest.time_limit_s) for span in spans),
        windows=tuple(_window(window, run) for window in run.windows),
        every_s=manifest.every_s,
        time_limit_s=manifest.time_limit_s,
        proxy_command=command,
        model_base_url=f"http://{listen}" if host else "",
        upstream=upstream,
        drill_log=f"{manifest.run}/timeline.jsonl",
        preflight=tuple(
            PreflightView(check=p.check, status=p.status, why=p.why, by=p.by or "", at=p.at or "")
            for p in run.preflight
        ),
        notes=tuple(
            NoteView(kind=n.kind, text=n.text, by=n.by, at=rfc3339(run.started_wall_ns + n.seen_ns, digits=0))
            for n in run.notes
        ),
        requests=tuple(requests),
        gate_command=gate_command,
        evidence_head=run.digest,
        retries=account(run),
        owners={str(check): str(who) for check, who in owners.items()},
        # Not the plan: it holds headers and an environment, which no card and no page should repeat.
        manifest={key: value for key, value in msgspec.to_builtins(manifest).items() if key not in ("plan", "kind")},
    )
    return screened(made)


def _phase_of(due_ns: int, spans: Sequence[Span]) -> str:
    return next((span.phase for span in spans if span.start_ns <= due_ns < span.end_ns), "")


def _phase(span: Span, requests: Sequence[RequestView], time_limit_s: float) -> PhaseView:
    mine = [request for request in requests if request.phase == span.phase]
    counts = Counter(request.outcome for request in mine)
    good = [request.latency_s for request in mine if request.outcome in OK and request.latency_s is not None]
    cut = [
        time_limit_s if request.latency_s is None else request.latency_s
        for request in mine
        if request.outcome in ("timeout", "never_ended")
    ]
    return PhaseView(
        name=span.phase,
        start_s=span.start_ns / 1e9,
        end_s=span.end_ns / 1e9,
        counts={outcome: counts[outcome] for outcome in OUTCOMES if counts[outcome]},
        p50=quantile(good, 0.5, censored=cut),
        p95=quantile(good, 0.95, censored=cut),
    )


def _window(window: Window, run: Run) -> WindowView:
    until_ns = run.lifted_or_end_ns(window)
    ends = [
        request.end_ns
        for request in run.during(window)
        if request.outcome == "ok_fallback" and request.end_ns is not None and request.end_ns < until_ns
    ]
    gone = run.gone.get(window.id)
    return WindowView(
        fault=window.fault,
        injected_s=window.injected_ns / 1e9,
        injected_at=rfc3339(run.started_wall_ns + window.injected_ns, digits=0),
        lifted_s=window.lifted_ns / 1e9 if window.lifted_ns is not None else None,
        met=window.met,
        first_fallback_s=min(ends) / 1e9 if ends else None,
        gone=gone[0] if gone else None,
        said=with_params(window.fault, window.params),
        rules=tuple(f"{rule.said}, met {rule.met}" for rule in window.rules),
    )
