"""One trial from its stage to what came of it."""

from drillmaster.dialects import load as load_dialect
from drillmaster.faults import Fault, make
from drillmaster.trying import Met, Trial, Tried
from drillmaster.trying.asks import NEEDS, why_not
from drillmaster.trying.client import Event, Line, Tell, request
from drillmaster.trying.reading import outcome
from drillmaster.trying.stage import Stage

__all__ = ["AT_MOST", "run"]

AT_MOST = 20
"""Requests, where the fault cannot say which of them it meets."""


def run(trial: Trial, tell: Tell = lambda event: None) -> Tried:
    """Play it; `tell` is told all that is sent and received. Raises Problem where it cannot be played."""
    fault = make(trial.tag, trial.params)
    dialect = load_dialect(trial.dialect)
    at_most = trial.repeat or fault.first_met() or AT_MOST
    described = fault.seen
    if dialect.name == "plain" and {"cut", "error", "incomplete"} & set(described):
        described = (*described, "complete")  # it knows no end of an answer but its framing's
    met: list[Met] = []
    line: Line | None = None
    with Stage(trial) as stage:
        try:
            for number in range(1, at_most + 1):
                if number > 1:
                    tell(Event("*", 0.0, f"request {number}".encode()))
                before = 0 if fault.scope == "port" else stage.met
                got, line = request(stage.address, trial.ask, line=line, limit_s=trial.limit_s, tell=tell)
                was_met = stage.met > before
                came = outcome(got, dialect)
                as_described = was_met and (not described or came.seen in described)
                met.append(Met(outcome=came, met=was_met, as_described=as_described))
                if was_met and trial.repeat is None:
                    break
        finally:
            if line is not None:
                line.close()
    struck = [one for one in met if one.met]
    return Tried(
        fault=trial.tag,
        params=trial.params,
        dialect=trial.dialect,
        stream=trial.stream,
        described=described,
        requests=tuple(met),
        met=bool(struck),
        as_described=bool(struck) and all(one.as_described for one in struck),
        why_not="" if struck else why_not(fault, trial.dialect, stream=trial.stream) or _passed(fault),
    )


def _passed(fault: Fault) -> str:
    needs = ", ".join(NEEDS[need] for need in fault.needs)
    return f"it let every request pass; it strikes only {needs}" if needs else "it let every request pass"
