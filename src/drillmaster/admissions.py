"""Admissions: did the drill prove anything at all? Checks that every gate over a run shares, whatever it judges.

One that does not pass refuses the verdict, and names the one command or edit that makes the refusal go away. None of them
says anything about the agent.
"""

import unicodedata
from collections.abc import Iterator, Sequence

from drillmaster import unmet
from drillmaster.outcomes import FAILED, RuleMet, Run, Window
from drillmaster.policy import seconds_text
from drillmaster.targeting import with_params
from drillmaster.verdict import Check, Cite, Exact, holds

__all__ = ["anchored", "bare", "folded", "sealed", "tail_of", "targeted", "whole"]

_DAY_NS = 86_400 * 10**9
_MANY = 8
_FEW = 3


def sealed(run: Run, max_clock_step_s: float) -> Iterator[Check]:
    """Admit a run folder: sealed, readable, run to its end, code and seats in order, on schedule, clocks sane, fault gone."""
    problems = run.seal_problems
    yield Check(
        id="sealed",
        role="admission",
        status="refused" if problems else "pass",
        title="sealed and unchanged" + (f" ({run.digest[:19]})" if run.digest else ""),
        why="; ".join(problems[:4]) + (f"; {len(problems) - 4} more" if len(problems) > 4 else ""),
        remedy=_seal_remedy(problems, run.place),
    )
    ours = [d for d in run.defects if d.file.startswith("events/")]
    yield Check(
        id="evidence",
        role="admission",
        status="refused" if ours else "pass",
        title=f"evidence readable: {run.examined.get('lines', 0)} lines, "
        f"{len(run.defects)} damaged ({len(ours)} in our own files), {run.late} late",
        observed=Exact(len(ours), n=run.examined.get("lines", 0)),
        limit=0,
        cites=tuple(Cite(d.file, d.line) for d in (ours or list(run.defects))[:5]),
        why="; ".join(
            f"{d.file}:{d.line} {d.kind}: found {d.found}, wanted {d.wanted}" for d in (ours or list(run.defects))[:3]
        ),
        remedy="run the drill again: a hole in its own evidence cannot be mended" if ours else "",
    )
    yield Check(
        id="completed",
        role="admission",
        status=holds(run.ended == "completed", otherwise="refused"),
        title=f"the drill ran to its end ({run.ended or 'no end was written'})",
        why=run.ended_why if run.ended != "completed" else "",
        remedy="" if run.ended == "completed" else "run the drill again",
    )
    yield _code(run)
    yield from _seats(run)
    yield _punctual(run)
    yield Check(
        id="clocks",
        role="admission",
        status=holds(run.clock_step_s <= max_clock_step_s, otherwise="refused"),
        title=f"clocks sane: wall against monotonic moved {run.clock_step_s:.3f} s (at most {max_clock_step_s:g} s)",
        observed=Exact(run.clock_step_s),
        limit=max_clock_step_s,
        unit="s",
        remedy=""
        if run.clock_step_s <= max_clock_step_s
        else "let the machine's clock settle (timedatectl status) and run again",
    )
    for window in run.windows:
        yield _gone(run, window)


def _seal_remedy(problems: Sequence[str], place: str) -> str:
    if not problems:
        return ""
    if any("not sealed" in p for p in problems):
        return f"drillmaster seal {place}"
    return f"restore the sealed files from where the run was kept, or run again (drillmaster verify {place} lists the changes)"


def _code(run: Run) -> Check:
    states = [s for s in run.code if s.at in ("start", "lift", "end")]
    changed = []
    for what in ("commit", "dirt_sha256", "plan_sha256", "policy_sha256"):
        values = {getattr(s, what) for s in states}
        if len(values) > 1:
            changed.append(
                {"dirt_sha256": "uncommitted files", "plan_sha256": "plan", "policy_sha256": "policy"}.get(what, what)
            )
    missing = {"start", "lift", "end"} - {s.at for s in states}
    gone = sorted({v for s in states for v in (s.plan_sha256, s.policy_sha256) if v and v.startswith("gone from ")})
    why = f"{', '.join(changed)} changed during the drill" if changed else ""
    if gone:
        why = f"plan or policy {', '.join(gone)}"
    if missing and not why:
        why = f"not read at {', '.join(sorted(missing))}"
    git = states[0].commit if states else None
    return Check(
        id="code",
        role="admission",
        status="refused" if why else "pass",
        title="code, plan and policy unchanged"
        + (f" at {git[:12]}" if git else " (no commit of the code is known: plan and policy alone)"),
        cites=tuple(s.cite for s in states),
        why=why,
        remedy="commit or revert, keep hands off until the end, and run again" if why else "",
    )


def _seats(run: Run) -> Iterator[Check]:
    if run.manifest is None or {"REHEARSAL", "DEMO"} & set(run.manifest.stamps):
        return
    names = {seat: folded(run.manifest.seats.get(seat, "")) for seat in ("lead", "scribe", "verifier")}
    twice = len(set(names.values())) < len(names)
    empty = [seat for seat, name in names.items() if not name]
    why = f"nobody holds {', '.join(empty)}" if empty else "one person holds two seats" if twice else ""
    yield Check(
        id="seats",
        role="admission",
        status="refused" if why else "pass",
        title="three people in three seats",
        why=why,
        remedy="name three people in the plan's seats, or rehearse with --rehearsal" if why else "",
    )


def _punctual(run: Run) -> Check:
    """Admit only a drill whose own sender kept its schedule: what it held up, the agent did not."""
    patience_ns = round((run.manifest.time_limit_s if run.manifest else 0.0) * 0.5e9)
    late = [r for r in run.requests if r.sent_ns - r.due_ns > patience_ns]
    worst_s = max((r.sent_ns - r.due_ns for r in run.requests), default=0) / 1e9
    spoilt = [r for r in late if r.outcome in FAILED] or (late if len(late) > 0.05 * len(run.requests) else [])
    return Check(
        id="punctual",
        role="admission",
        status="refused" if spoilt else "pass",
        title=f"sent on schedule: the latest {seconds_text(round(worst_s, 2))} behind, {len(late)} over half the time limit",
        observed=Exact(worst_s, n=len(run.requests)),
        limit=patience_ns / 1e9,
        unit="s",
        cites=tuple(r.cite for r in spoilt[:3]),
        why=f"the drill itself was held up: {len(spoilt)} requests went out late and are not the agent's"
        if spoilt
        else "",
        remedy="run again on a machine that is not paused or overloaded" if spoilt else "",
    )


def folded(name: str) -> str:
    """Fold a person's name, so that case, spacing and compatible characters make no second person."""
    return " ".join(unicodedata.normalize("NFKC", name).casefold().split())


def _gone(run: Run, window: Window) -> Check:
    probe = run.gone.get(window.id)
    after = [
        a
        for a in run.attempts
        if a.window == window.id and window.lifted_ns is not None and a.start_ns > window.lifted_ns
    ]
    gone = None if probe is None else probe[0] and not after
    tail = tail_of(run, window)
    return Check(
        id=f"gone{tail}",
        role="admission",
        status=holds(gone, otherwise="refused"),
        title=f"fault gone after the lift{tail}",
        cites=tuple(a.cite for a in after[:3]),
        why="no probe after the lift"
        if probe is None
        else probe[1]
        if not probe[0]
        else f"{len(after)} attempts met it still"
        if after
        else "",
        remedy="" if gone else "see that the proxy passes through (drillmaster proxy state), and run again",
    )


def bare(run: Run) -> Iterator[Check]:
    """Admit one bare file: every line readable, and dated within a day of the injection."""
    where = [f"{d.file}:{d.line} {d.kind}: found {d.found}, wanted {d.wanted}" for d in run.defects]
    lines = run.examined.get("lines", 0)
    why = "; ".join(where[:4]) + (f"; {len(where) - 4} more" if len(where) > 4 else "")
    remedy = "mend or drop the lines named, and keep the original beside it" if where else ""
    if any(d.event == "user_request" and "00000" in d.found for d in run.defects):
        remedy = "write the status as 0 when curl prints 000: code=$(curl ... -w '%{http_code}'); status=$((10#$code))"
    if not lines and not where:
        why, remedy = "the file holds no line", "run the drill with DRILL_LOG set to this file"
    yield Check(
        id="evidence",
        role="admission",
        status="refused" if where or not lines else "pass",
        title=f"evidence readable: {lines} lines, {len(where)} damaged",
        observed=Exact(len(where), n=lines),
        limit=0,
        cites=tuple(Cite(d.file, d.line) for d in run.defects[:5]),
        why=why,
        remedy=remedy,
    )
    if run.ended not in (None, "completed"):
        yield Check(
            id="completed",
            role="admission",
            status="refused",
            title=f"the drill ran to its end ({run.ended})",
            remedy="run the drill again",
        )
    if not run.windows:
        return
    dated = [(r.due_ns, r.cite) for r in run.requests] + [(m.ns, m.cite) for m in run.marks]
    near = [cite for ns, cite in dated if abs(ns - run.windows[0].injected_ns) > _DAY_NS]
    if near:
        yield Check(
            id="dated",
            role="admission",
            status="refused",
            title="every line within a day of the injection",
            cites=tuple(near[:5]),
            why=f"{len(near)} lines are dated more than a day away, the first at line {near[0].line}",
            remedy="take one file per drill, and clocks that are set",
        )


def anchored(run: Run) -> Check:
    """Admit a run whose injection is recorded; nothing else anchors a judgement."""
    first = run.windows[0] if run.windows else None
    remedy = "" if first else "drillmaster inject (the Lead's order) during the run"
    if run.bare and not first:
        remedy = "have the Lead write it at the injection: drillmaster mark fault_injected; a fallback is no anchor"
    return Check(
        id="anchor",
        role="admission",
        status=holds(bool(run.windows), otherwise="refused"),
        title=f"injection recorded: {len(run.windows)}"
        + (f", fault {with_params(first.fault, first.params)}" if first and first.fault else ""),
        observed=Exact(len(run.windows)),
        limit=1,
        cites=tuple(w.cite for w in run.windows),
        why="" if first else "nothing in the evidence says when the fault began",
        remedy=remedy,
    )


def whole(run: Run, window: Window, tail: str) -> Check:
    """Admit a window that was run as long as planned and lifted as ordered, with traffic behind it."""
    end_ns = run.lifted_or_end_ns(window)
    lasted_s = (end_ns - window.injected_ns) / 1e9
    after = run.after(window)
    if run.bare:
        closed = window.lifted_ns is not None
        marked_end = run.ended is not None or any(n.kind == "window_ended" for n in run.notes)
        ok = closed and bool(after)
        why = ""
        if not closed:
            why = "the window was never closed" + (", though the drill was" if marked_end else "")
        elif not after:
            why = "no user request after the lift"
        return Check(
            id=f"window{tail}",
            role="admission",
            status=holds(ok, otherwise="refused"),
            title=f"whole window: {seconds_text(round(lasted_s, 1))}, {len(after)} requests after it{tail}",
            observed=Exact(lasted_s),
            unit="s",
            cites=(window.cite,),
            why=why,
            remedy="" if ok else "keep the traffic on past the end, and mark it: drillmaster mark fault_lifted",
        )
    planned_s = run.manifest.phases["fault_s"] if run.manifest else 0.0
    grace_s = max(1.0, run.manifest.every_s if run.manifest else 0.0)
    ok = (
        window.lifted_ns is not None
        and window.lift_why == "ordered"
        and lasted_s >= planned_s - grace_s
        and bool(after)
    )
    why = ""
    if window.lifted_ns is None:
        why = "the fault was never lifted"
    elif window.lift_why != "ordered":
        why = f"the lift was not the Lead's ({window.lift_why})"
    elif lasted_s < planned_s - grace_s:
        why = f"{seconds_text(round(lasted_s, 1))} of the planned {seconds_text(planned_s)}"
    elif not after:
        why = "no user request after the lift"
    return Check(
        id=f"window{tail}",
        role="admission",
        status=holds(ok, otherwise="refused"),
        title=f"whole window: {seconds_text(round(lasted_s, 1))} of {seconds_text(planned_s)}, lifted as ordered{tail}",
        observed=Exact(lasted_s),
        limit=planned_s,
        unit="s",
        cites=(window.cite,),
        why=why,
        remedy="" if ok else "run the drill to its end",
    )


def targeted(run: Run, window: Window, tail: str) -> Check:
    """Admit an injection with rules of which each has met somebody: one that met nobody was not rehearsed.

    Its title says whom the rules meet: a pass for one model is none for all.
    """
    idle = [rule for rule in window.rules if not rule.met]
    told = [_idle(run, window, rule) for rule in idle[: _MANY + 1]]
    met = [
        f"{rule.name} ({rule.fault}) {rule.met}" + (f", {rule.undecided} undecided" if rule.undecided else "")
        for rule in window.rules
        if rule.met
    ]
    return Check(
        id=f"rules{tail}",
        role="admission",
        status=holds(not idle, otherwise="refused"),
        title=f"every rule met somebody: {len(window.rules) - len(idle)} of {len(window.rules)}"
        f" ({_few([rule.said for rule in window.rules[:_FEW]], '; ', len(window.rules), _FEW)}){tail}",
        observed=Exact(len(window.rules) - len(idle)),
        limit=len(window.rules),
        cites=tuple(rule.cite for rule in (idle or window.rules)[:_MANY]),
        why=_few([one.why for one in told], "; ", len(idle)) or _few(met, ", ", len(met)),
        remedy=told[0].remedy if told else "",
    )


def _few(said: Sequence[str], between: str, many: int, most: int = _MANY) -> str:
    """So many of these that a reader can still see which."""
    return between.join((*said[:most], *([f"{many - most} more"] if many > most else ())))


def _idle(run: Run, window: Window, rule: RuleMet) -> unmet.Unmet:
    """Say why a rule met nobody, and what would mend it."""
    named, again = f"{rule.name} ({rule.fault})", "and run again"
    if rule.matched is None:
        return unmet.Unmet(
            f"{named} met nobody, and its proxy ended before it could say why", f"see proxy.log, {again}"
        )
    if rule.undecided and not rule.matched:
        return unmet.Unmet(
            f"{named} could not decide: {rule.undecided} requests were larger than it reads, or coded",
            f"give rule {rule.name} a `when` of path, header or key, without model, stream and tools, and no share; run again",
        )
    if not rule.matched:
        saw = f"; what came: {', '.join(rule.saw)}" if rule.saw else "; nothing came"
        mend = f"correct `when` of rule {rule.name} in the plan, or take the rule out, {again}"
        return unmet.Unmet(f"{named} fits no request{saw}", mend)
    if not rule.taken:
        return unmet.Unmet(
            f"{named} fits {rule.matched} requests and took none of them",
            f"raise share, or correct nth, skip, first, schedule of rule {rule.name}, {again}",
        )
    spared = unmet.spared(rule.fault, unmet.came(run, window), rule.rule)
    took = f"{named} took {rule.taken} requests and acted on none"
    if spared is not None:
        return unmet.Unmet(f"{took}: {spared.why}", spared.remedy)
    first = f"put rule {rule.name} before the one that answers, or give them different `when`, {again}"
    others = sum(other.met for other in window.rules if other is not rule)
    if others >= rule.taken:
        return unmet.Unmet(f"{took}: another rule had answered them", first)
    only = unmet.strikes_only(rule.fault)
    let = f"{took}: {others} of them another rule may have answered, the rest it let pass"
    if not others:
        let = f"{named} took {rule.taken} requests and let all of them pass"
    return unmet.Unmet(
        let + (f", since it strikes only {only}" if only else ""),
        f"give rule {rule.name} a `when` of what its fault strikes (drillmaster fault show {rule.fault}), {again}",
    )


def tail_of(run: Run, window: Window) -> str:
    """Name the window behind a check's id and title, where a run has several."""
    return "" if len(run.windows) == 1 else f" [{window.id}]"
