"""What is known of the rows before the drill: which cannot be met under this plan, and what an alert takes by arithmetic."""

from collections.abc import Iterator
from pathlib import Path

import msgspec

from drillmaster.friday.checking import planned_s
from drillmaster.friday.flags import Registry, expected_success
from drillmaster.friday.missions import Held, Locust
from drillmaster.friday.plan import Alerting, FridayPlan
from drillmaster.fridays import FlagOn
from drillmaster.intake.alerting import read_facts
from drillmaster.missions.preparing import Understood
from drillmaster.rules.alert_delay import against, estimate
from drillmaster.slo import DrillMatrix, impossible
from drillmaster.slo.possible import Planned, too_short

__all__ = ["rows_said"]


def rows_said(
    plan: FridayPlan, registry: Registry, matrix: DrillMatrix, understood: Understood, *, beside: Path
) -> list[str]:
    """What is to be said of the matrix's rows, a line each. `beside`: the plan's folder. Raises Problem for files of alerting."""
    known = registry.by_name
    flags = [
        FlagOn(flag=one.flag, kind=known[one.flag].kind, **msgspec.structs.asdict(one.aim(known[one.flag])))
        for one in plan.flags.on
    ]
    phases = plan.phases
    planned = Planned(
        flags=flags,
        in_flight=plan.missions.concurrent or None,
        ramped=sum((load.concurrent or 0) * load.ramp_s / 2 for load in plan.missions.loads if isinstance(load, Held)),
        seconds={"all": planned_s(plan), "baseline": phases.baseline_s},
        websocket="websocket" in understood.entries if understood.entries else None,
        attempts=plan.tool_attempts,
        listen_s=phases.fault_s + phases.recovery_s,
        kills=() if plan.kill is None else (plan.kill.capability,),
        time_limit_s=plan.missions.time_limit_s,
        transcripts=None,
    )
    lines = [f"row {row} cannot pass: {why}" for row, why in impossible(matrix, planned)]
    lines += [f"row {row} cannot be seen broken, only refused: {why}" for row, why in too_short(matrix, planned)]
    lines += [
        f"{load.users} users of {load.file} hold fewer than {load.users} missions in flight: they wait between two, as it says"
        for load in plan.missions.loads
        if isinstance(load, Locust)
    ]
    attempts = plan.tool_attempts
    if attempts is not None:
        share = expected_success(registry, plan.flags.on, attempts)
        if share < 1:
            lines.append(
                f"with {attempts} attempts a call, {share:.2%} of the tool calls can end well under these flags"
            )
    if plan.alerting is not None:
        shares = [flag.share for flag in flags if flag.share is not None]
        met = max(shares) if shares and len(shares) == len(flags) else None
        for row in matrix.rows:
            if row.alert is not msgspec.UNSET:
                lines += _alert_said(plan.alerting, row.id, row.alert.rule, row.asks.limit, beside, met)
    return lines


def _alert_said(
    alerting: Alerting, row: str, rule: str, limit_s: float, beside: Path, share: float | None
) -> Iterator[str]:
    """The arithmetic of the alert, by the team's own files."""
    facts = read_facts(beside / alerting.prometheus, beside / alerting.alertmanager, rule)
    found = estimate(facts, job=alerting.job, receiver=alerting.receiver, share=share)
    if found is None:
        yield f"row {row} cannot pass: no route leads {rule} to {alerting.receiver}"
        return
    how, words = against(found, limit_s)
    yield f"row {row}{' cannot pass' if how == 'impossible' else ''}: {words}"
    yield from (f"row {row}: {note}" for note in found.notes)
