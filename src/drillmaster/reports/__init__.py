"""Forms in which people and machines read a verdict: one file a form, named by its tag, imported when it is asked for.

1. A form is a pure function of a `Verdict`, and for card and page of a `RunView` too. It reads no clock and no file.
2. Everything that came out of evidence (names, urls, reasons, titles that quote them) is untrusted: each form writes it
   so that its reader cannot be fooled (`one_line` for terminals, `markdown_line` for wikis, autoescape for the page).
3. Stamps (UNSEALED, UNPROVEN, REHEARSAL, DEMO, COMPRESSED 30x) stand in the heading of every form.
4. A form never changes a verdict, hides a check that did not pass, or adds a number that nobody judged.
5. No text that came from a file holds a secret that we know the look of, or is longer than TEXT_CHARS: `screened` sees to
   it, for a verdict when it is given and for a view when it is made, below whatever the reader of the evidence did.

`text`, `json` and `issues` need the verdict alone; `card` and `html` want the run as well. Two modules are called like
modules of the standard library: imports are absolute, so nothing is shadowed, and the tag is the file name.
"""

import difflib
import importlib
import math
import pkgutil
import re
from collections import Counter
from collections.abc import Sequence
from types import ModuleType
from typing import Any, TypeVar, get_args

import msgspec

from drillmaster.clock import rfc3339
from drillmaster.errors import Problem, one_line
from drillmaster.outcomes import OK, Outcome, Run, Span, Window
from drillmaster.retries import Accounting, account
from drillmaster.screen import screen_url, screen_value
from drillmaster.stats import quantile
from drillmaster.targeting import with_params
from drillmaster.verdict import Absent, AtLeast, AtMost, Exact, Measure, Verdict

__all__ = [
    "OUTCOMES",
    "NoteView",
    "Outcome",
    "PhaseView",
    "PreflightView",
    "RequestView",
    "RunView",
    "WindowView",
    "clip",
    "code_span",
    "form",
    "forms",
    "limit",
    "markdown_line",
    "measure",
    "number",
    "one_line",
    "quantity",
    "screened",
    "view",
]

T = TypeVar("T")

TEXT_CHARS = 2_000
"""The longest text in a form, of which the evidence has the whole."""
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


def screened(value: T) -> T:
    """Screen every text in a value made of structs, tuples, lists and dicts; the same object where nothing changes."""
    return _screened(value)  # type: ignore[no-any-return]  # text stays text, and a struct its kind


def _screened(value: Any) -> Any:
    match value:
        case str():
            return screen_value(value, TEXT_CHARS)
        case msgspec.Struct():
            changed = {}
            for name in value.__struct_fields__:
                before = getattr(value, name)
                after = _screened(before)
                if after is not before:
                    changed[name] = after
            return msgspec.structs.replace(value, **changed) if changed else value
        case dict():
            pairs = [(name, inner, _screened(name), _screened(inner)) for name, inner in value.items()]
            if all(name is kept and inner is clean for name, inner, kept, clean in pairs):
                return value
            return {kept: clean for _, _, kept, clean in pairs}
        case list() | tuple():
            clean = [_screened(inner) for inner in value]
            same = all(a is b for a, b in zip(value, clean, strict=True))
            return value if same else type(value)(clean)
    return value


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


def forms() -> list[str]:
    """Name every form, without importing one."""
    return sorted(m.name for m in pkgutil.iter_modules(__path__) if not m.name.startswith("_"))


def form(tag: str) -> ModuleType:
    """Import the form called `tag`; `Problem` with a near miss when there is none."""
    names = forms()
    if tag not in names:
        near = difflib.get_close_matches(tag, names, n=1)
        raise Problem(
            "report form",
            found=repr(one_line(tag)[:40]),
            wanted=f"one of {', '.join(names)}",
            remedy=f"did you mean {near[0]}?" if near else "name one of these",
        )
    return importlib.import_module(f"{__name__}.{tag}")


def clip(text: str, most: int) -> str:
    """Cut text to `most` characters, the last of them an ellipsis where something was cut."""
    return text if len(text) <= most else text[: most - 1] + "…"


def markdown_line(text: str) -> str:
    """Write untrusted text into a Markdown line: no markup, no HTML, no link, no image, and nobody is mentioned.

    A zero-width space goes behind an @ that would call a person; a backslash does not stop wikis from doing so.
    """
    text = re.sub(r"[\\`*\[\]<|~$]|&(?=#?\w+;)|(?<!\w)_|_(?!\w)", lambda m: "\\" + m[0], one_line(text))
    return re.sub(r"(?<![\w.])@(?=\w)", "@\u200b", text)


def code_span(text: str) -> str:
    """Write untrusted text as a Markdown code span, which nothing inside it can end."""
    text = one_line(text)
    ticks = "`" * (1 + max((len(run) for run in re.findall("`+", text)), default=0))
    pad = " " if text.startswith("`") or text.endswith("`") or not text else ""
    return f"{ticks}{pad}{text}{pad}{ticks}"


def number(value: float) -> str:
    """Write a number as a person would: whole ones whole, others to three significant digits, never an exponent."""
    if not math.isfinite(value):
        return "not a finite number"
    if value == int(value):
        return str(int(value))
    magnitude = math.floor(math.log10(abs(value)))
    text = f"{value:.{min(12, max(0, 2 - magnitude))}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def quantity(value: float, unit: str) -> str:
    """Write a number with its unit; a ratio reads as percent."""
    if unit == "ratio" and math.isfinite(value):
        return f"{number(round(value * 100, 9))} %"  # 0.07 * 100 is a hair over 7
    return f"{number(value)} {unit}".rstrip()


def measure(observed: Measure | None, unit: str) -> str:
    """Say a measure in words: `12.3 s`, `at least 900 s`, `1.2 % of 180`, `0 of 360`, or why there is none."""
    n: int | None = None
    match observed:
        case Exact(value=value, n=n, low=low, high=high):
            text = quantity(value, unit)
            if low is not None and high is not None:
                text += f" ({quantity(low, unit)} to {quantity(high, unit)})"
        case AtLeast(value=value, n=n):
            text = f"at least {quantity(value, unit)}"
        case AtMost(value=value, n=n):
            text = f"at most {quantity(value, unit)}"
        case Absent(why=why):
            return f"nothing: {one_line(why)}"
        case None:
            return ""
    if n is None or (n == 1 and unit not in ("", "ratio")):
        return text  # one event's time: that it is one goes without saying
    return f"{text} of {n}" if unit in ("", "ratio") else f"{text} (n = {n})"


def limit(value: float | str | None, unit: str) -> str:
    """Say a limit in words; empty where a check has none."""
    if value is None:
        return ""
    return one_line(value) if isinstance(value, str) else quantity(value, unit)
