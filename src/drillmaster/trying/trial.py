"""One trial from its stage to what came of it."""

from drillmaster.dialects import Dialect
from drillmaster.dialects import load as load_dialect
from drillmaster.errors import Problem
from drillmaster.faults import NEEDS, Fault
from drillmaster.faults import load as load_fault
from drillmaster.proxy.switch import Armed, arm
from drillmaster.targeting import named, what_is_wrong
from drillmaster.trying import Met, Outcome, Trial, Tried
from drillmaster.trying.asks import why_not
from drillmaster.trying.client import Event, Line, Tell, request
from drillmaster.trying.reading import outcome
from drillmaster.trying.stage import Stage

__all__ = ["run"]

AT_MOST = 20
"""Requests, where nobody can say which of them is met."""
GOOD = ("complete", "incomplete")


def run(trial: Trial, tell: Tell = lambda event: None) -> Tried:
    """Play it; `tell` is told all that is sent and received. Raises Problem where it cannot be played."""
    armed = _arm(trial)
    faults = {one.rule.name: one.fault for one in armed}
    dialect = load_dialect(trial.dialect)
    met: list[Met] = []
    line: Line | None = None
    with Stage(trial) as stage:
        try:
            baseline = _without(trial, stage, dialect, tell)
            stage.put_on()
            on_port = armed[0].fault.scope == "port"
            for number in range(1, _at_most(trial, armed) + 1):
                if number > 1:
                    tell(Event("*", None, f"request {number}".encode()))
                before = 0 if on_port else len(stage.met)
                got, line = request(stage.address, trial.ask, line=line, limit_s=trial.limit_s, tell=tell)
                met.append(_met(outcome(got, dialect), stage.met[before:], faults, dialect))
                if trial.repeat is None and (met[-1].met or (armed[0].aim is not None and not stage.fitted)):
                    break  # all requests are the same: where the first looks as no rule says, none will
            fitted = stage.fitted
        finally:
            if line is not None:
                line.close()
    struck = [one for one in met if one.met]
    return Tried(
        fault=trial.title,
        rules=named(trial.rules) if armed[0].aim is not None else trial.rules,
        dialect=trial.dialect,
        stream=trial.stream,
        baseline=baseline,
        requests=tuple(met),
        met=bool(struck),
        as_described=bool(struck) and all(one.as_described for one in struck),
        why_not="" if struck else _why_not(trial, armed, baseline, fitted),
    )


def _arm(trial: Trial) -> tuple[Armed, ...]:
    for wrong in what_is_wrong(trial.rules, lambda tag: load_fault(tag).scope, ""):
        raise Problem(f"rules{wrong.pointer}", found=wrong.found, wanted=wrong.wanted, remedy=wrong.remedy)
    try:
        return arm(trial.rules, 1)
    except ValueError as error:
        raise Problem.of(str(error), place="rules", wanted="rules that make sense") from None


def _at_most(trial: Trial, armed: tuple[Armed, ...]) -> int:
    known = armed[0].fault.first_met() if len(armed) == 1 and armed[0].aim is None else None
    return trial.repeat or known or AT_MOST


def _without(trial: Trial, stage: Stage, dialect: Dialect, tell: Tell) -> Outcome:
    """The same request before the fault is on, on a connection of its own."""
    got, line = request(stage.address, trial.ask, line=None, limit_s=trial.limit_s, tell=lambda event: None)
    if line is not None:
        line.close()
    came = outcome(got, dialect)
    status = "" if came.status is None else f", status {came.status}, {came.body_bytes} bytes of body"
    tell(Event("*", None, f"without the fault: {came.seen}{status}, {came.end_ms:.0f} ms".encode()))
    return came


def _met(came: Outcome, names: list[str], faults: dict[str, Fault], dialect: Dialect) -> Met:
    by = [(name, faults[name]) for name in dict.fromkeys(names) if name in faults]
    described = tuple(dict.fromkeys(seen for _, fault in by for seen in fault.seen))
    if dialect.name == "plain" and {"cut", "error", "incomplete"} & set(described):
        described = tuple(dict.fromkeys((*described, "complete")))  # it knows no end of an answer but its framing's
    tags = tuple(name or str(fault.__struct_config__.tag) for name, fault in by)
    good = bool(by) and (not described or came.seen in described)
    return Met(outcome=came, met=bool(by), by=tags, described=described, as_described=good)


def _why_not(trial: Trial, armed: tuple[Armed, ...], baseline: Outcome, fitted: int) -> str:
    if baseline.seen not in GOOD:
        return f"without the fault the endpoint itself leaves a client with {baseline.seen} {baseline.why}".rstrip()
    if armed[0].aim is not None:
        if not fitted:
            return "no rule's `when` fits the request; give --model, --header, --dialect or --stream what it wants"
        return (
            "the request fits, and no rule took one: what they count, draw or wait for did not come; give --repeat more"
        )
    fault = armed[0].fault
    # That it wants a stream, or none, is no reason where it was given what it wants.
    needs = ", ".join(NEEDS[need] for need in fault.needs if need not in ("stream", "whole"))
    only = f"it strikes only {needs}, and" if needs else "with these parameters"
    passed = f"it let every request pass; {only} what came gave it nothing to strike"
    return why_not(fault, trial.dialect, stream=trial.stream) or passed
