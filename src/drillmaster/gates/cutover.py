"""The cutover gate: may a dual-write cutover be shifted by this plan, now? Files and people decide; it shifts nothing.

1. The plan decides by itself first (`_cutover_plan`): the article's rules, and what its script lets through.
2. Whoever a plan names is on the roster of the base ref, a person, and stays until the window is over. The person it says
   set the timed fields is the one whose commit last changed each of them; a name in a file is nobody's word.
3. Two people other than those authors have signed the very bytes of the plan.
4. The error budget is measured, and the first rung of the ladder is long enough to see it spent.
5. Halting was rehearsed, lately, on synthetic drift, by a person of the roster, and the record says how long it took.
6. Inside the window the plan is the one that was accepted, by its digest, and the freeze was read back after it was set: a
   freeze that did not take looks like one that did. A window that is over permits nothing.
7. Without a policy the plan is judged alone, as the article's script does, and the verdict is stamped for all that was not
   looked at. With a base ref, and a roster there, rules 2 and 3 are judged too: they have no numbers.
"""

import math
from collections.abc import Iterator
from typing import Annotated

import msgspec

from drillmaster.clock import parse_rfc3339, rfc3339
from drillmaster.gates import Gate
from drillmaster.gates._cutover_evidence import (
    ErrorBudget,
    Evidence,
    FreezeProof,
    HaltDrill,
    Set,
    Tied,
    person_named,
    phase,
)
from drillmaster.gates._cutover_people import tied_checks
from drillmaster.gates._cutover_plan import ARTICLE, MESSAGES, Bounds, plan_checks, say, span_text
from drillmaster.rules.cutover_plan import Plan
from drillmaster.rules.free_lane import human
from drillmaster.strict import shown
from drillmaster.verdict import Check, Status, Verdict

__all__ = [
    "Cutover",
    "CutoverArticle",
    "ErrorBudget",
    "Evidence",
    "FreezeProof",
    "HaltDrill",
    "Set",
    "Tied",
    "gate",
    "person_named",
    "phase",
]

MAX_SKEW_S = 60.0

_Percent = Annotated[int, msgspec.Meta(ge=1, le=99)]
_Seconds = Annotated[float, msgspec.Meta(gt=0, le=366 * 86_400)]
_Text = Annotated[str, msgspec.Meta(min_length=1, max_length=200)]


class Cutover(Gate[Evidence], frozen=True, kw_only=True, tag="cutover"):
    """Whether a dual-write cutover may be shifted by its plan, now.

    Happens: two stores are written for a while, traffic moves to the new one by percents, and at a set time the old one
    stops. Somebody, or something, wrote down the percents, the time and who rolls back.
    Breaks: money that is moved twice, stores that differ unseen, a page that wakes somebody who left last year.
    Looks like: `cutover plan accepted: timed fields are pinned`, or `cutover plan rejected:` and a line for each reason.
    Cannot show: that the percents are right for this service; that the controller does what the plan says; that whoever is
    named will be awake.

    The article's `plan.json` is read as it is. Beside it lie, where the policy judges, `error-budget.json` (`drillmaster
    evidence new error-budget`), `halt-drill.json` (`drillmaster cutover rehearse`), inside the window `freeze-proof.json`
    (`drillmaster cutover read-back`), and the signatures of two reviewers (`drillmaster policy sign plan.json --key KEY`).
    With the articles' exit codes a plan that is not accepted exits 1; 2 is for a wrong call, and for what is no JSON.
    """

    service: _Text
    max_initial_percent: _Percent
    max_step_percent: _Percent
    max_percent_before_freeze: _Percent
    max_error_budget_ppm: Annotated[int, msgspec.Meta(ge=1, le=1_000_000)]
    min_window_s: _Seconds
    max_window_s: _Seconds
    max_budget_age_s: _Seconds
    """How old the measured error budget may be, from the end of its window."""
    max_rung_s: _Seconds
    """How long the first rung may take until one budget's worth of requests was seen on it."""
    max_drill_age_s: _Seconds
    max_detection_s: _Seconds
    max_recovery_s: _Seconds
    max_freeze_proof_age_s: _Seconds
    rollback_team: _Text
    """The team of the roster whose people may own a rollback."""
    runtimes: Annotated[tuple[_Text, ...], msgspec.Meta(min_length=1)]
    """Where the controller may run, as plans spell it."""

    def __post_init__(self) -> None:
        if self.min_window_s > self.max_window_s:
            raise ValueError("max_window_s: wanted at least min_window_s; no window is both")

    def checks(self, evidence: Evidence) -> Iterator[Check]:
        plan = evidence.plan
        bounds = Bounds(
            max_initial_percent=self.max_initial_percent,
            max_step_percent=self.max_step_percent,
            max_percent_before_freeze=self.max_percent_before_freeze,
            max_error_budget_ppm=self.max_error_budget_ppm,
            min_window_s=self.min_window_s,
            max_window_s=self.max_window_s,
        )
        yield from plan_checks(plan, bounds, now_ns=evidence.now_ns)
        yield say(
            "service",
            f"the plan is for {self.service}",
            "pass" if plan.service == self.service else "refused",
            role="admission",
            why=f"/service: found {shown(plan.service)}",
            remedy="name the plan of this service, or the policy of that one",
        )
        yield say(
            "runtime-listed",
            "the controller runs where the policy lets it",
            "refused" if plan.runtime is None else "pass" if plan.runtime in self.runtimes else "fail",
            why=f"/controller/runtime: found {shown(plan.runtime)}, wanted one of {', '.join(self.runtimes)}",
            remedy="name the one it runs on; a new one goes into the policy's runtimes first",
        )
        where = phase(plan, evidence.now_ns)
        yield say(
            "window-open",
            "the window is not over",
            "refused" if where == "unknown" else "fail" if where == "over" else "pass",
            why=f"it ended at {plan.freeze_end_utc}, and it is {rfc3339(evidence.now_ns, digits=0)}",
            remedy="freeze at the last good percent, and have people write a plan for another window",
        )
        yield _digest(evidence, must_name=where == "inside")
        yield from tied_checks(evidence, evidence.tied, team=self.rollback_team)
        yield from self._budget(evidence)
        yield from self._drill(evidence)
        yield from self._freeze(evidence)

    def headline(self, evidence: Evidence) -> tuple[str, ...]:
        return _headline(evidence)

    def closing(self, evidence: Evidence, verdict: Verdict) -> tuple[str, ...]:
        return _closing(evidence, verdict)

    def _budget(self, evidence: Evidence) -> Iterator[Check]:
        budget, plan = evidence.budget, evidence.plan
        remedy = (
            f"drillmaster evidence new error-budget --prometheus URL --service {self.service} --out error-budget.json, "
            "beside the plan"
        )
        title = f"the error budget was measured, at most {span_text(self.max_budget_age_s)} ago"
        if budget is None:
            yield say("budget-measured", title, "refused", why="there is no error-budget.json", remedy=remedy)
        else:
            why = _stale(budget.window_end, budget.produced_at, self.max_budget_age_s, evidence.now_ns)
            start, end = parse_rfc3339(budget.window_start), parse_rfc3339(budget.window_end)
            span_s = (end - start) / 1e9 if start is not None and end is not None else 0.0
            if not why and span_s <= 0:
                why = f"its window is none: {shown(budget.window_start)} to {shown(budget.window_end)}"
            why = why or ("" if budget.service == plan.service else f"it is of {budget.service}")
            why = why or ("" if budget.errors <= budget.requests else "more errors than requests")
            yield say("budget-measured", title, "refused" if why else "pass", why=why, remedy=remedy)
        yield self._left(budget, plan)
        yield self._rung(budget, plan)

    def _wanted(self, plan: Plan) -> int | None:
        """How many requests show one error of the budget; of a budget of 0 as many as the policy's widest would."""
        ppm = plan.error_budget_ppm
        if ppm is None or ppm < 0:
            return None
        return math.ceil(1_000_000 / (ppm or self.max_error_budget_ppm))

    def _left(self, budget: ErrorBudget | None, plan: Plan) -> Check:
        ppm, wanted = plan.error_budget_ppm, self._wanted(plan)
        title = "what was measured is within the plan's error budget"
        if budget is None or wanted is None or ppm is None or not budget.requests:
            why = "no request was counted" if budget is not None and not budget.requests else "nothing to compare"
            return say("budget-left", title, "refused", why=why, remedy="measure the error budget over more requests")
        seen = budget.errors * 1_000_000 / budget.requests
        status: Status = "fail" if seen > ppm else "pass" if budget.requests >= wanted else "refused"
        return say(
            "budget-left",
            title,
            status,
            observed=seen,
            limit=ppm,
            unit="ppm",
            why=f"{budget.errors:,} errors in {budget.requests:,} requests; {wanted:,} requests would show one error of it",
            remedy="mend what fails on the old path first: a budget that is spent pays for no cutover"
            if status == "fail"
            else "measure over a longer window",
        )

    def _rung(self, budget: ErrorBudget | None, plan: Plan) -> Check:
        title = f"the first rung shows its budget spent within {span_text(self.max_rung_s)}"
        wanted, first = self._wanted(plan), plan.initial_percent
        start, end = (parse_rfc3339(budget.window_start), parse_rfc3339(budget.window_end)) if budget else (None, None)
        if budget is None or wanted is None or not first or first < 1 or start is None or end is None or end <= start:
            return say(
                "rung-time", title, "refused", why="nothing to compute it from", remedy="measure the error budget"
            )
        if not budget.requests:
            return say("rung-time", title, "refused", why="no request was counted", remedy="measure the error budget")
        per_s = budget.requests / ((end - start) / 1e9)
        needed_s = wanted / (per_s * first / 100)
        return say(
            "rung-time",
            title,
            "pass" if needed_s <= self.max_rung_s else "fail",
            observed=needed_s,
            limit=self.max_rung_s,
            unit="s",
            why=f"{first} % of {per_s:.4g} requests a second are {wanted:,} requests only after that time",
            remedy="begin with more traffic, or with a budget that so little traffic can show",
        )

    def _drill(self, evidence: Evidence) -> Iterator[Check]:
        drill, plan = evidence.drill, evidence.plan
        remedy = f"drillmaster cutover rehearse --plan {evidence.place}, by somebody who may be on call"
        title = f"halting was rehearsed on synthetic drift, at most {span_text(self.max_drill_age_s)} ago"
        whose = "a person of the roster halted it"
        took = f"drift was found within {span_text(self.max_detection_s)}"
        back = f"both stores were the same again within {span_text(self.max_recovery_s)}"
        if drill is None:
            why = "there is no halt-drill.json"
            for id_, text in (
                ("halt-drill", title),
                ("halted-by", whose),
                ("halt-detection", took),
                ("halt-recovery", back),
            ):
                yield say(id_, text, "refused", why=why, remedy=remedy)
            return
        why = _stale(drill.restored_at, drill.produced_at, self.max_drill_age_s, evidence.now_ns) or _disorder(drill)
        if not why and drill.plan_digest not in ("", evidence.digest):
            why = f"it was rehearsed for another plan, {drill.plan_digest[:19]}"
        bad = "" if drill.service == plan.service else f"it was of {drill.service}"
        bad = bad or ("" if drill.drift == "synthetic" else f"it drifted {drill.drift}, wanted synthetic")
        bad = bad or ("" if drill.drifted_rows else "nothing drifted")
        yield say("halt-drill", title, "fail" if bad else "refused" if why else "pass", why=bad or why, remedy=remedy)
        _, wrong = human(f"human:{drill.halted_by}")
        roster = evidence.tied.roster if evidence.tied else None
        person = person_named(roster, drill.halted_by, now_ns=evidence.now_ns)
        who: Status = "fail" if wrong else "refused" if roster is None else "pass"
        if who == "pass" and (person is None or person.kind != "human"):
            who = "fail"
        told = wrong or ("no roster is known" if roster is None else "no person of the roster")
        mend = "add --base origin/main, whose roster is asked" if who == "refused" and evidence.tied is None else remedy
        yield say("halted-by", whose, who, why=f"{shown(drill.halted_by)}: {told}", remedy=mend)
        found = drill.found_rows == drill.drifted_rows
        yield say(
            "halt-detection",
            took,
            "pass" if found and drill.detection_s <= self.max_detection_s else "fail",
            observed=drill.detection_s,
            limit=self.max_detection_s,
            unit="s",
            why="" if found else f"{drill.found_rows} of {drill.drifted_rows} drifted rows were found",
            remedy=remedy,
        )
        yield say(
            "halt-recovery",
            back,
            "pass" if drill.equal_after and drill.recovery_s <= self.max_recovery_s else "fail",
            observed=drill.recovery_s,
            limit=self.max_recovery_s,
            unit="s",
            why="" if drill.equal_after else "they still differed at the end",
            remedy=remedy,
        )

    def _freeze(self, evidence: Evidence) -> Iterator[Check]:
        plan, proof = evidence.plan, evidence.freeze
        inside = phase(plan, evidence.now_ns) == "inside"
        remedy = f"set the freeze, then: drillmaster cutover read-back --plan {evidence.place} -- COMMAND"
        took = "the freeze took: flag, percent and both writers were read back"
        default = "a caller who cannot reach the flag store stays on the old path"
        if not inside:
            yield say("freeze-took", "before the window nothing is frozen yet", "pass")
            yield say("flag-default", "before the window no flag was read back yet", "pass")
            return
        if proof is None:
            yield say("freeze-took", took, "refused", why="there is no freeze-proof.json", remedy=remedy)
            yield say("flag-default", default, "refused", why="there is no freeze-proof.json", remedy=remedy)
            return
        why = _stale(proof.read_at, proof.read_at, self.max_freeze_proof_age_s, evidence.now_ns)
        read, start = parse_rfc3339(proof.read_at), plan.start_ns
        if not why and read is not None and start is not None and read < start:
            why = f"it was read at {proof.read_at}, before the window"
        bad = []
        if proof.plan_digest != evidence.digest:
            bad.append("it is of another plan")
        if proof.service != plan.service:
            bad.append(f"it is of {proof.service}")
        if not proof.frozen:
            bad.append("the freeze was read back as off")
        last = plan.max_percent_before_freeze
        if last is not None and proof.percent > last:
            bad.append(f"{proof.percent} % were read back, at most {last} before the freeze")
        bad += [] if proof.dual_write else ["only one store is written"]
        bad += [] if proof.old_writer else ["the old writer is gone"]
        status: Status = "fail" if bad else "refused" if why else "pass"
        yield say("freeze-took", took, status, why="; ".join(bad) or why, remedy=remedy)
        yield say(
            "flag-default",
            default,
            "fail" if proof.flag_default_on else "pass",
            why=f"the default of {proof.flag} is on",
            remedy="set the flag's default to off in the code that asks for it, and read it back",
        )


class CutoverArticle(Gate[Evidence], frozen=True, kw_only=True, tag="cutover"):
    """The plan alone, by the article's own numbers: nobody has signed them."""

    def checks(self, evidence: Evidence) -> Iterator[Check]:
        yield from plan_checks(evidence.plan, ARTICLE, now_ns=evidence.now_ns)
        yield _digest(evidence, must_name=False)
        if evidence.tied is not None:
            yield from tied_checks(evidence, evidence.tied)

    def headline(self, evidence: Evidence) -> tuple[str, ...]:
        return _headline(evidence)

    def closing(self, evidence: Evidence, verdict: Verdict) -> tuple[str, ...]:
        return _closing(evidence, verdict)


gate = Cutover


def _headline(evidence: Evidence) -> tuple[str, ...]:
    when = {"ahead": "is ahead", "inside": "is now", "over": "is over", "unknown": "is none"}
    return (f"plan {evidence.digest}; its window {when[phase(evidence.plan, evidence.now_ns)]}",)


def _closing(evidence: Evidence, verdict: Verdict) -> tuple[str, ...]:
    """Say it in the article's words, and what it has none for in ours."""
    if verdict.status == "pass":
        accepted = "cutover plan accepted: timed fields are pinned"
        again = f"inside the window, before each shift: add --digest {evidence.digest}"
        return (accepted,) if phase(evidence.plan, evidence.now_ns) == "over" else (accepted, again)
    missed = [check for check in verdict.checks if check.status != "pass"]
    lines = [MESSAGES.get(check.id) or f"{check.title}: {check.why or 'not so'}" for check in missed]
    return ("cutover plan rejected:", *(f"- {line}" for line in dict.fromkeys(lines)))


def _digest(evidence: Evidence, *, must_name: bool) -> Check:
    """Rule 6: the plan that is shifted by is the one that was accepted."""
    title = "the plan is the one that was accepted"
    if evidence.accepted is None and not must_name:
        return say("plan-digest", f"the plan's digest is {evidence.digest}", "pass")
    if evidence.accepted is None:
        return say(
            "plan-digest",
            title,
            "refused",
            why="inside the window nobody said which plan was accepted",
            remedy="add --digest, as it was printed when the plan was accepted",
        )
    return say(
        "plan-digest",
        title,
        "pass" if evidence.accepted == evidence.digest else "fail",
        why=f"it is {evidence.digest}, and {evidence.accepted} was accepted",
        remedy=f"restore the plan that was accepted: git checkout COMMIT -- {evidence.place}",
    )


def _disorder(drill: HaltDrill) -> str:
    """Say what in a record of a drill nobody can have measured; "" where nothing is. Clocks may differ by `MAX_SKEW_S`."""
    began, ended = parse_rfc3339(drill.injected_at), parse_rfc3339(drill.restored_at)
    if began is None or ended is None:
        return f"{shown(drill.injected_at)} is no time of RFC 3339 with a zone"
    whole_s = (ended - began) / 1e9
    if whole_s < 0:
        return "it was over before it began"
    parts_s = drill.detection_s + drill.halt_s + drill.recovery_s
    if parts_s > whole_s + MAX_SKEW_S:
        return f"its parts took {span_text(parts_s)}, and all of it {span_text(whole_s)}"
    if not drill.found_rows <= drill.drifted_rows <= drill.rows:
        return f"{drill.found_rows} rows found, {drill.drifted_rows} drifted, of {drill.rows}"
    return ""


def _stale(ended: str, produced: str, max_age_s: float, now_ns: int) -> str:
    """Say what is wrong with the times of a file: unreadable, from the future, in disorder, too old; "" where nothing is."""
    end_ns, made_ns = parse_rfc3339(ended), parse_rfc3339(produced)
    if end_ns is None or made_ns is None:
        return f"{shown(produced if end_ns is not None else ended)} is no time of RFC 3339 with a zone"
    if (max(end_ns, made_ns) - now_ns) / 1e9 > MAX_SKEW_S:
        return "it is from the future"
    if end_ns > made_ns:
        return "it was written before what it tells was over"
    age_s = (now_ns - end_ns) / 1e9
    return f"it is {span_text(age_s)} old" if age_s > max_age_s else ""
