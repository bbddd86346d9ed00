"""One whole drill on paper (`eviction.json`, frozen), and what has to be wrong with it for each check to go red."""

from collections.abc import Iterator
from importlib import resources
from typing import Any

import msgspec

from drillmaster.evidence import Defect
from drillmaster.gates import Case
from drillmaster.gates.eviction import Eviction
from drillmaster.outcomes import Request, RuleMet, Run, Window
from drillmaster.verdict import Cite, Status

__all__ = ["cases"]

_with = msgspec.structs.replace
_LIMITS = Eviction(
    max_fallback_s=5,
    max_failed_ratio=0.05,
    failed_window="fault",
    max_recovery_s=5,
    min_met=3,
    max_baseline_failed_ratio=0.02,
    max_unattributed_ratio=0.05,
    max_clock_step_s=1,
    max_attempts_per_request=3,
    max_storm_factor=5,
)


def cases() -> Iterator[Case]:
    """Give each check a red and a green case."""
    data = resources.files(__package__).joinpath("eviction.json").read_text("utf-8")
    good = msgspec.json.decode(data, type=Run)
    green = (
        "sealed evidence completed code seats punctual clocks gone anchor proof window enough baseline fallback failed "
        "exceptions ended recovery settled attribution scribe attempts storm storm_return"
    )
    for check in green.split():
        yield Case(check=check, status="pass", gate=_LIMITS, evidence=good)
    yield _rules(good, met=4, status="pass")
    for check, status, run in _red(good):
        yield Case(check=check, status=status, gate=_LIMITS, evidence=run)
    yield _rules(good, met=0, status="refused")
    late = {r.id for r in good.after(good.windows[0])}
    again = _each(good, lambda r: _failed(r) if r.id in late else r)
    yield Case(check="settled", status="fail", gate=_with(_LIMITS, max_recovery_s=1), evidence=again)
    tight = _with(_LIMITS, max_attempts_per_request=1, max_storm_factor=1.0)
    many = _tripled(good)
    for check in ("attempts", "storm", "storm_return"):
        yield Case(check=check, status="fail", gate=tight, evidence=many)


def _red(good: Run) -> Iterator[tuple[str, Status, Run]]:
    window = good.windows[0]
    manifest = good.manifest
    assert manifest is not None
    yield "sealed", "refused", _with(good, seal_problems=("timeline.jsonl: line 3 changed",))
    torn = Defect(file="events/proxy.jsonl", line=4, kind="torn", found="half a line", wanted="JSON")
    yield "evidence", "refused", _with(good, defects=(torn,))
    yield "completed", "refused", _with(good, ended="aborted")
    other = _with(good.code[-1], commit="0" * 40)
    yield "code", "refused", _with(good, code=(*good.code[:-1], other))
    yield "seats", "refused", _with(good, manifest=_with(manifest, seats={**manifest.seats, "verifier": "ADA "}))
    yield "punctual", "refused", _each(good, lambda r: _with(r, sent_ns=r.due_ns + 4 * 10**9))
    yield "clocks", "refused", _with(good, clock_step_s=2.0)
    yield "gone", "refused", _with(good, gone={window.id: (False, "no answer")})
    yield "anchor", "refused", _with(good, windows=())
    yield "proof", "refused", _with(good, windows=(_with(window, met=0, client_bytes=0, first_met_ns=None),))
    yield "window", "refused", _with(good, windows=(_with(window, lift_why="expired"),))
    few = tuple(r for r in good.requests if not _during(r, window) or r.id in {d.id for d in good.during(window)[:4]})
    yield "enough", "refused", _with(good, requests=few)
    early = {r.id for r in good.before(window)}
    yield "baseline", "refused", _each(good, lambda r: _failed(r) if r.id in early else r)
    yield "fallback", "fail", _each(good, lambda r: _failed(r) if _during(r, window) else r)
    yield "failed", "fail", _each(good, lambda r: _failed(r) if _during(r, window) and r.due_ns // 10**9 % 2 else r)
    escaped = _with(good.marks[0], event="unhandled_exception", ns=window.injected_ns + 10**9, kind="ConnectionError")
    yield "exceptions", "fail", _with(good, marks=(*good.marks, escaped))
    yield (
        "ended",
        "fail",
        _each(good, lambda r: _with(r, end_ns=None, outcome="never_ended") if _during(r, window) else r),
    )
    late = {r.id for r in good.after(window)}
    yield "recovery", "fail", _each(good, lambda r: _with(_failed(r), attempts=()) if r.id in late else r)
    yield "attribution", "refused", _each(good, lambda r: _with(r, outcome="ok", joined_by="none"))
    yield "scribe", "refused", _with(good, notes=())


def _during(request: Request, window: Window) -> bool:
    return window.injected_ns <= request.due_ns < (window.lifted_ns or 0)


def _each(run: Run, change: Any) -> Run:
    return _with(run, requests=tuple(change(request) for request in run.requests))


def _failed(request: Request) -> Request:
    return _with(request, status=500, outcome="http_5xx")


def _rules(good: Run, *, met: int, status: Status) -> Case:
    rule = RuleMet(
        name="small",
        fault="reset",
        matched=4,
        taken=4,
        undecided=0,
        met=met,
        saw=(),
        cite=Cite("events/proxy.jsonl", 2),
    )
    run = _with(good, windows=(_with(good.windows[0], rules=(rule,)),))
    return Case(check="rules", status=status, gate=_LIMITS, evidence=run)


def _tripled(run: Run) -> Run:
    """Give each request of the fault, and behind it, three attempts instead of one."""
    window = run.windows[0]
    attempts, requests = [], []
    for request in run.requests:
        of = [one for one in run.attempts if one.request == request.id]
        more = [
            _with(one, id=f"{one.id}.{n}", retry_count=n)
            for n in (1, 2)
            for one in of
            if request.due_ns >= window.injected_ns
        ]
        attempts += [*of, *more]
        requests.append(_with(request, attempts=(*request.attempts, *(one.id for one in more))))
    return _with(run, attempts=tuple(attempts), requests=tuple(requests))
