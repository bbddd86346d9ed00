"""One row of the matrix, measured and held against its objective. The rules are in `gates.matrix`."""

import math
from collections.abc import Callable, Sequence

import msgspec

from drillmaster.fridays import FAILED, OK, Friday, Killed
from drillmaster.fridays.counting import kill, ratio
from drillmaster.gates._matrix_probes import FAILING, HELD, void
from drillmaster.gates._matrix_rows import ChaosProbe, KillProbe, LoadProbe, Objective, Row, TranscriptsProbe, compare
from drillmaster.interviews import QUANTILES
from drillmaster.stats import block_bound, blocks_for_bound, order_bound, quantile, rate_bound, samples_for_bound
from drillmaster.verdict import Absent, AtLeast, AtMost, Check, Cite, Exact, Measure, Status

__all__ = ["judge_row"]

_CONFIDENCE = 0.95
_SHOWN = 3
_TOLD = 0.5
"""Of the calls that flags made fail, so many at least stand in the workers' lines: one attempt may meet two flags, or be cut."""
_RUN = "drillmaster run friday"
_HOLD = "have the plan hold as many for all of that window, by a shorter ramp_s, a longer phase or more of them"


class _Said(msgspec.Struct, frozen=True, kw_only=True):
    status: Status
    observed: Measure
    text: str
    """What stands behind the objective in the title."""
    why: str = ""
    remedy: str = ""
    cites: tuple[Cite, ...] = ()


def judge_row(row: Row, seen: Friday, rows: Sequence[Row]) -> Check:
    """Judge one row on its own window and probe."""
    objective = row.asks
    missing = void(row, seen)
    unheld = len(missing) == 1 and missing[0].startswith("VOID")
    if missing:
        said = _Said(
            status="refused",
            observed=Absent("its load was not held" if unheld else "its probe did not run"),
            text="not measured",
            why="; ".join(missing),
            remedy=f"{_HOLD if unheld else 'have the plan run its probe'}, then: {_RUN}",
        )
    else:
        said = _MEASURES[row.measure](row, objective, seen)
        if row.measure == "mission_latency" and said.status == "pass":
            said = _failures_signed(row, seen, rows) or said
    text = said.text if missing else f"{said.text}{_load(row, seen)}"
    name = row.name if row.window == "all" else f"{row.name}, {row.window}"
    ok = said.status == "pass"
    return Check(
        id=f"row.{row.id}",
        role="judgement",
        status=said.status,
        title=f"{name}: {objective.text}: {text}",
        observed=said.observed,
        limit=objective.limit,
        unit="s" if objective.unit == "s" else "ratio",
        cites=() if ok else said.cites,
        why="" if ok else said.why,
        remedy=said.remedy if said.status == "refused" else "",
    )


def _load(row: Row, seen: Friday) -> str:
    """What was in flight beside what had to be, so that a reader need not believe it."""
    if not isinstance(row.probe, LoadProbe | ChaosProbe) or row.probe.in_flight is msgspec.UNSET:
        return ""
    held = seen.in_flight(row.window)
    wanted = row.probe.in_flight
    return (
        ""
        if held is None
        else f"; {held.mean:.1f} in flight on average over all of it, at least {HELD:.0%} of {wanted}"
    )


def _places(row: Row, seen: Friday) -> list[int]:
    websocket = None if row.entry is msgspec.UNSET else row.entry == "websocket"
    return seen.places(row.window, websocket=websocket, flow=None if row.flow is msgspec.UNSET else row.flow)


def _nothing(row: Row, what: str) -> _Said:
    return _Said(
        status="refused",
        observed=Absent(f"no {what}"),
        text=f"no {what}",
        why=f"there is no {what} in {row.window}: nothing was looked at",
        remedy=f"have the plan make some in that window, then: {_RUN}",
    )


def _which(row: Row) -> str:
    words = [one for one in (row.entry, row.flow) if one is not msgspec.UNSET]
    return " ".join([*map(str, words), "mission"])


def _mission_cites(seen: Friday, places: Sequence[int]) -> tuple[Cite, ...]:
    return tuple(Cite(seen.missions.file, seen.missions.line[at]) for at in places[:_SHOWN])


# Latency


def _latency(row: Row, objective: Objective, seen: Friday) -> _Said:
    places = _places(row, seen)
    ok_s, cut_s = seen.latencies(places)
    n = len(ok_s) + len(cut_s)
    if not n:
        return _nothing(row, f"{_which(row)} that was answered")
    q = QUANTILES[objective.quantile]
    observed = quantile(ok_s, q, censored=cut_s, confidence=0.90)
    span = seen.span(row.window)
    over_s = 0.0 if span is None else span[1] - span[0]
    bound, lacks = _bound(row, seen, places, q)
    text = f"{_shown(observed)} of {n:,} missions over {over_s:.0f} s"
    if bound is not None and math.isfinite(bound):
        text += f", surely at most {bound:.3g} s"
    if cut_s:
        text += f"; {len(cut_s):,} never ended in time"
    status = compare(observed, objective)
    slowest = sorted(places, key=lambda at: _took(seen, at), reverse=True)
    cites = _mission_cites(seen, slowest)
    if status == "pass" and q < 1:
        if bound is None:
            return _Said(status="refused", observed=observed, text=text, why=lacks, remedy=f"a longer window: {_RUN}")
        if compare(Exact(bound), objective) != "pass":
            up_to = f"{bound:.4g} s" if math.isfinite(bound) else "missions that were cut"
            return _Said(
                status="refused",
                observed=observed,
                text=text,
                why=f"observed it holds, and its 95 % bound is {up_to}: so few missions do not settle it",
                remedy=f"more missions, or a longer window: {_RUN}",
                cites=cites,
            )
    return _Said(
        status=status,
        observed=observed,
        text=text,
        why=f"{objective.quantile} is {_shown(observed)}"
        if status == "fail"
        else "missions that were cut may lie on either side of the limit",
        remedy="give missions a time limit above the objective's, and run again",
        cites=cites,
    )


def _took(seen: Friday, at: int) -> float:
    end_s = seen.missions.end_s[at]
    if seen.missions.result[at] == FAILED:
        return -1.0
    return (end_s if end_s == end_s else seen.end_s) - seen.missions.due_s[at]


def _bound(row: Row, seen: Friday, places: Sequence[int], q: float) -> tuple[float | None, str]:
    """The 95 % upper bound, cut missions as infinite; None with what it lacks."""
    if q >= 1:
        return None, ""
    missions = seen.missions
    samples = [
        (
            missions.due_s[at],
            missions.end_s[at] - missions.due_s[at] - missions.thought_s[at] if missions.result[at] == OK else math.inf,
        )
        for at in places
        if missions.result[at] != FAILED
    ]
    by_mission = order_bound([value for _, value in samples], q, confidence=_CONFIDENCE)
    if by_mission is None:
        return None, f"{len(samples):,} missions support no bound: it takes {samples_for_bound(q, _CONFIDENCE):,}"
    if row.block_s is msgspec.UNSET:
        return by_mission, ""
    by_block = block_bound(samples, q, block_s=row.block_s, confidence=_CONFIDENCE)
    if by_block is None:
        least = blocks_for_bound(q, _CONFIDENCE)
        return (
            None,
            f"the window is too short: it takes {least} blocks of {row.block_s:g} s, {least * row.block_s:.0f} s",
        )
    return max(by_mission, by_block), ""


def _failures_signed(row: Row, seen: Friday, rows: Sequence[Row]) -> _Said | None:
    """Rule 3: a row that would pass while missions failed that no row counts is refused."""
    places = _places(row, seen)
    failed = [at for at in places if seen.missions.result[at] == FAILED]
    covered = any(
        other.measure == "mission_success"
        and other.window in ("all", row.window)
        and (other.entry is msgspec.UNSET or other.entry == row.entry)
        and (other.flow is msgspec.UNSET or other.flow == row.flow)
        for other in rows
    )
    if not failed or covered:
        return None
    observed = seen.latency(places, QUANTILES[row.asks.quantile])
    return _Said(
        status="refused",
        observed=observed,
        text=f"{_shown(observed)}, and {len(failed):,} of {len(places):,} missions failed",
        why="failed missions are in no latency, and no row says how many may fail",
        remedy=f"add a row of mission_success for the window {row.window} to the matrix",
        cites=_mission_cites(seen, failed),
    )


# Shares


def _share(objective: Objective, good: int, n: int, text: str, why: str, cites: tuple[Cite, ...]) -> _Said:
    """Rule 4."""
    observed = ratio(good, n)
    status = compare(observed, objective)
    least = objective.least_n
    if n < least:
        sure = rate_bound(good, n, _CONFIDENCE) < objective.limit
        if not (status == "fail" and sure):
            shows = 1 - rate_bound(n - good, n, _CONFIDENCE)
            return _Said(
                status="refused",
                observed=observed,
                text=text,
                why=f"{n:,} show no more than {_percent(shows)} (95 %), whatever they say: it takes {least:,}",
                remedy=f"more missions in that window: {_RUN}",
                cites=cites,
            )
    return _Said(status=status, observed=observed, text=text, why=why, cites=cites)


def _success(row: Row, objective: Objective, seen: Friday) -> _Said:
    places = _places(row, seen)
    if not places:
        return _nothing(row, _which(row))
    bad = [at for at in places if seen.missions.result[at] != OK]
    good, n = len(places) - len(bad), len(places)
    whys = sorted(seen.missions.whys.items(), key=lambda pair: -pair[1])[:_SHOWN]
    told = ", ".join(f"{why} {count:,}" for why, count in whys)
    said = _share(
        objective,
        good,
        n,
        f"{_percent(good / n)}, {good:,} of {n:,}",
        f"{len(bad):,} did not succeed" + (f"; of all that did not: {told}" if told else ""),
        _mission_cites(seen, bad),
    )
    return _hardly_met(row, objective, seen, n, said) or said


def _tools(row: Row, objective: Objective, seen: Friday) -> _Said:
    tool = None if row.tool is msgspec.UNSET else row.tool
    found = seen.recovered(seen.places(row.window), tool)
    if not found.n:
        return _nothing(row, "tool call of a mission" if tool is None else f"call of {tool}")
    text = (
        f"{_percent(found.ok / found.n)} of {found.n:,} missions after retries, {found.attempts:,} attempts at "
        f"{found.calls:,} calls, {found.again:,} missions recovered by a retry"
    )
    if found.killed:
        text += f", {found.killed:,} refused by a kill switch left out"
    bad = found.n - found.ok
    cites = tuple(Cite(file, line) for file, line in found.bad)
    said = _share(
        objective, found.ok, found.n, text, f"{bad:,} missions had a tool call that no retry recovered", cites
    )
    unread = len(seen.tools.unusable) + seen.worker_defects
    if said.status == "pass" and unread:
        return msgspec.structs.replace(
            said,
            status="refused",
            why=f"{unread:,} lines of workers cannot be read, and each may be a call that failed",
            remedy="have workers write whole lines, and run again: docs/howto/write-a-timeline.md",
        )
    met, told = _met_and_told(row, seen)
    if said.status == "pass" and told < _TOLD * met:
        return msgspec.structs.replace(
            said,
            status="refused",
            why=f"flags made {met:,} calls fail, and workers tell of {told:,} attempts that did: attempts are not written down",
            remedy="have every worker write down each attempt: docs/howto/count-retries.md",
        )
    return _hardly_met(row, objective, seen, found.n, said) or said


def _hardly_met(row: Row, objective: Objective, seen: Friday, n: int, said: _Said) -> _Said | None:
    """Refuse a share that passed, where a flag met so few that it had passed with each of them failed; None: it met enough."""
    if said.status != "pass" or not isinstance(row.probe, ChaosProbe):
        return None
    for flag in row.probe.flags:
        met = sum(count for (_, name), count in seen.met.items() if name == flag)
        if met < n and compare(Exact((n - met) / n), objective) == "pass":
            return msgspec.structs.replace(
                said,
                status="refused",
                why=f"{flag} met {met:,} calls of {n:,} missions: had each of them failed, {objective.text} would hold as well",
                remedy=f"have the flag meet more of them (`first`, `every`, `share` in the plan), then: {_RUN}",
            )
    return None


def _met_and_told(row: Row, seen: Friday) -> tuple[int, int]:
    """How many calls the row's flags made fail, by the flag server; how many attempts failed, by the workers' own lines."""
    if not isinstance(row.probe, ChaosProbe):
        return 0, 0
    failing = {
        (chaos.id, one.flag)
        for chaos in seen.chaos
        for one in chaos.flags
        if one.flag in row.probe.flags and any(word in one.kind for word in FAILING)
    }
    met = sum(n for key, n in seen.met.items() if key in failing)
    told = sum(one.attempts - one.calls + one.failed - one.killed for one in seen.tools.missions)
    return met, told


def _replay(row: Row, objective: Objective, seen: Friday) -> _Said:
    census = seen.census
    assert census is not None  # its probe ran
    if row.window == "all":
        told = census.missions
    else:
        wanted = {seen.missions.ids[at] for at in seen.places(row.window)}
        told = tuple(one for one in census.missions if one.mission in wanted)
    if not told:
        return _nothing(row, "mission that was sent")
    lacking = (
        [one for one in census.lacking if any(one.mission == other.mission for other in told)]
        if len(told) != census.expected
        else list(census.lacking)
    )
    good, n = len(told) - len(lacking), len(told)
    drawn = min(n, row.probe.sample) if isinstance(row.probe, TranscriptsProbe) else 0
    text = f"{_percent(good / n)}, {good:,} of {n:,} exist, parse, are whole and of this run; {drawn} drawn for people"
    first = "; ".join(f"{one.mission}: {one.said}" for one in lacking[:_SHOWN])
    cites = tuple(Cite(one.file, one.line) for one in lacking if one.file)[:_SHOWN]
    return _share(objective, good, n, text, f"{len(lacking):,} lack something: {first}", cites)


# Alerts and the kill


def _detector(row: Row, objective: Objective, seen: Friday) -> _Said:
    assert row.alert is not msgspec.UNSET  # the row was read so
    found = seen.detection(row.alert)
    if found is None:
        return _nothing(row, "injection that anybody listened for")
    alert, what = found.alert, f"{row.alert.rule} of at least {row.alert.least}"
    status = compare(found.delay, objective)
    cites = tuple(one.cite for one in ((alert,) if alert else found.lower) if one is not None and one.cite is not None)
    if alert is not None:
        text = f"{_shown(found.delay)} from the injection to {row.alert.rule} ({alert.severity}) at {alert.receiver}"
        why = f"it came {_shown(found.delay)} after the injection"
    elif found.lower:
        status = "fail"  # it was told, and told as too little: waiting longer makes it no other alert
        text = f"{row.alert.rule} came as {found.lower[0].severity}, below {row.alert.least}"
        why = f"a lower severity pages nobody: {text}"
    else:
        text = f"no {what} was received"
        why = f"none came in {_shown(found.delay)}" if isinstance(found.delay, AtLeast) else _shown(found.delay)
    if status == "refused" and isinstance(found.delay, AtLeast):
        why += ", and nobody listened for as long as the limit"
    if found.false_positives:
        text += f"; {len(found.false_positives)} from before the injection count for nothing"
    return _Said(
        status=status,
        observed=found.delay,
        text=text,
        why=why,
        remedy="listen longer (recovery_s), or mend what the reason names; then: " + _RUN,
        cites=cites[:_SHOWN],
    )


def _ack(row: Row, objective: Objective, seen: Friday) -> _Said:
    assert row.alert is not msgspec.UNSET
    found = seen.detection(row.alert)
    if found is None or found.alert is None:
        return _nothing(row, f"{row.alert.rule} of at least {row.alert.least} that could be acknowledged")
    cite = found.alert.cite if found.acked is None else found.acked.cite
    text = f"{_shown(found.ack)} from the alert to its acknowledgement" if found.acked else "nobody acknowledged it"
    return _Said(
        status=compare(found.ack, objective),
        observed=found.ack,
        text=text,
        why=f"{text}, looked for {_shown(found.ack)}" if found.acked is None else text,
        remedy="listen longer (recovery_s), so that a late acknowledgement is seen; then: " + _RUN,
        cites=() if cite is None else (cite,),
    )


def _kill(row: Row, objective: Objective, seen: Friday) -> _Said:
    assert isinstance(row.probe, KillProbe)
    capability = row.probe.capability
    kills = [one for one in seen.kills if one.capability == capability]
    took = [(kill(one), one) for one in kills]
    absent = next(((measure, one) for measure, one in took if isinstance(measure, Absent)), None)
    worst, one = absent or max(took, key=lambda pair: pair[0].value if not isinstance(pair[0], Absent) else 0.0)
    text = f"the last call of {capability} ended {_shown(worst)} after the kill; {one.refused:,} were refused"
    return _Said(
        status=compare(worst, objective),
        observed=worst,
        text=text if not isinstance(worst, Absent) else worst.why,
        why=_ran_on(one) if not isinstance(worst, Absent) else worst.why,
        remedy=f"kill {capability} while missions call it, then: {_RUN}",
        cites=() if one.cite is None else (one.cite,),
    )


def _ran_on(one: Killed) -> str:
    return f"{one.ran:,} calls ran on" + (
        "" if one.refused else ", and none was refused: nothing in the agent heeded it"
    )


def _shown(measure: Measure) -> str:
    match measure:
        case Exact(value=value):
            return f"{value:.4g} s"
        case AtLeast(value=value):
            return f"at least {value:.4g} s"
        case AtMost(value=value):
            return f"at most {value:.4g} s"
    return measure.why


def _percent(share: float) -> str:
    """A share, cut and not rounded: 99.996 % is never shown as 100 %."""
    return f"{math.floor(share * 100_000 + 1e-9) / 1_000:g} %"


_MEASURES: dict[str, Callable[[Row, Objective, Friday], _Said]] = {
    "mission_latency": _latency,
    "mission_success": _success,
    "tool_success": _tools,
    "replay_availability": _replay,
    "detector_delay": _detector,
    "pager_ack": _ack,
    "kill_switch": _kill,
}
