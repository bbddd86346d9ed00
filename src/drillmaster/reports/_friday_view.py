"""What card and page say of a Friday drill besides its verdict: rows, missions over time, alerts, transcripts."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Final

import msgspec

from drillmaster.fridays import CUT, FAILED, OK, OPEN, UNSENT, Friday, Sight
from drillmaster.gates._matrix_rows import Row
from drillmaster.reports import measure, quantity
from drillmaster.verdict import Absent, AtLeast, AtMost, Check, Exact, Measure, Status, Verdict

__all__ = ["AlertSeen", "FridayView", "MissionDot", "RowView", "Stretch", "friday_view"]

_RESULTS: Final = {OK: "ok", FAILED: "failed", CUT: "cut", UNSENT: "unsent", OPEN: "open"}
_MOST_ALERTS: Final = 40
_SAMPLE: Final = 20


class RowView(msgspec.Struct, frozen=True, kw_only=True):
    """One row of the matrix, judged."""

    id: str
    name: str
    objective: str
    window: str
    probe: str
    owner: str
    source: str
    status: Status
    observed: str
    short: str
    """The same without interval and number."""
    why: str
    remedy: str


class Stretch(msgspec.Struct, frozen=True, kw_only=True):
    """A window of time, with what went on in it."""

    name: str
    from_s: float
    to_s: float
    missions: int
    ok: int
    failed: int
    cut: int
    """At their time limit, unsent ones among them."""
    p50: Measure
    p95: Measure
    in_flight: float | None


class MissionDot(msgspec.Struct, frozen=True):
    """One mission. `took_s` None: it has no latency, since it failed."""

    due_s: float
    took_s: float | None
    result: str


class AlertSeen(msgspec.Struct, frozen=True, kw_only=True):
    """One receipt of an alert, or an acknowledgement."""

    at_s: float
    what: str
    receiver: str
    rule: str
    severity: str


class FridayView(msgspec.Struct, frozen=True, kw_only=True):
    """All text in it is untrusted."""

    service: str
    run: str
    date: str
    stamps: tuple[str, ...]
    seats: dict[str, str]
    ended: str
    ended_why: str
    rows: tuple[RowView, ...]
    stretches: tuple[Stretch, ...]
    chaos: tuple[tuple[float, float, str], ...]
    """From, to, and which flags."""
    kills: tuple[tuple[float, float | None, str], ...]
    dots: tuple[MissionDot, ...]
    held: tuple[float, ...]
    """In flight on average, second by second of the load."""
    begin_s: float
    end_s: float
    flags: tuple[tuple[str, str, int], ...]
    """Name, whom it meets, how many calls it met."""
    workers: tuple[tuple[str, str, str], ...]
    """Name, when it saw the flags, how many calls met them."""
    alerts: tuple[AlertSeen, ...]
    alerts_more: int
    sample: tuple[str, ...]
    """Missions whose transcripts people read."""
    evidence_head: str
    gate_command: str
    owners: dict[str, str]


def friday_view(
    seen: Friday,
    verdict: Verdict,
    rows: Sequence[Row],
    *,
    seats: dict[str, str],
    owners: dict[str, str],
    gate_command: str,
) -> FridayView:
    """Take it from the drill's evidence."""
    begin_s, end_s = seen.load_span or (0.0, seen.end_s)
    checks = {check.id: check for check in verdict.checks}
    alerts = [
        AlertSeen(at_s=one.at_ns / 1e9, what=one.state, receiver=one.receiver, rule=one.rule, severity=one.severity)
        for one in seen.alerts
    ] + [
        AlertSeen(at_s=one.at_ns / 1e9, what="acknowledged", receiver=one.receiver, rule="", severity="")
        for one in seen.acks
    ]
    alerts.sort(key=lambda one: one.at_s)
    sampled = max((getattr(row.probe, "sample", 0) for row in rows), default=0) or _SAMPLE
    return FridayView(
        service=seen.service,
        run=seen.run,
        date=datetime.fromtimestamp(seen.started_wall_ns / 1e9, UTC).strftime("%Y-%m-%d"),
        stamps=seen.stamps,
        seats=seats,
        ended=seen.ended,
        ended_why=seen.ended_why,
        rows=tuple(_row(row, checks.get(f"row.{row.id}")) for row in rows),
        stretches=tuple(
            one
            for one in (_stretch(seen, name) for name in ("baseline", "chaos", "recovery", "all"))
            if one is not None
        ),
        chaos=tuple(
            (
                one.injected_s,
                end_s if one.lifted_s is None else one.lifted_s,
                ", ".join(flag.flag for flag in one.flags),
            )
            for one in seen.chaos
        ),
        kills=tuple((one.killed_s, one.restored_s, one.capability) for one in seen.kills),
        dots=tuple(_dots(seen)),
        held=_held(seen, begin_s, end_s),
        begin_s=begin_s,
        end_s=end_s,
        flags=tuple(
            (flag.flag, _aim(flag.share, flag.first, flag.every), seen.met.get((one.id, flag.flag), 0))
            for one in seen.chaos
            for flag in one.flags
        ),
        workers=tuple(
            (
                one.worker,
                _seen_after(seen, one),
                ", ".join(f"{flag} {n}" for flag, n in one.met.items()) or "none",
            )
            for one in seen.sights
        ),
        alerts=tuple(alerts[:_MOST_ALERTS]),
        alerts_more=max(0, len(alerts) - _MOST_ALERTS),
        sample=() if seen.census is None else tuple(seen.census.draw(seen.seed, sampled)),
        evidence_head=seen.digest,
        gate_command=gate_command,
        owners=owners,
    )


def _seen_after(seen: Friday, sight: Sight) -> str:
    """From the injection until this worker held its flags."""
    injected_s = next((one.injected_s for one in seen.chaos if one.id == sight.window), None)
    if sight.seen_s is None:
        return "never"
    return f"{sight.seen_s - injected_s:.2f} s" if injected_s is not None else "of no injection"


def _row(row: Row, check: Check | None) -> RowView:
    probe = str(type(row.probe).__struct_config__.tag)
    return RowView(
        id=row.id,
        name=row.name,
        objective=row.objective,
        window=row.window,
        probe=probe,
        owner=row.owner,
        source=row.source,
        status="refused" if check is None else check.status,
        observed="" if check is None else measure(check.observed, check.unit),
        short=_short(check),
        why="not judged" if check is None else check.why,
        remedy="" if check is None else check.remedy,
    )


def _short(check: Check | None) -> str:
    if check is None or check.observed is None:
        return "none"
    match check.observed:
        case Exact(value=value):
            return quantity(value, check.unit)
        case AtLeast(value=value):
            return f"at least {quantity(value, check.unit)}"
        case AtMost(value=value):
            return f"at most {quantity(value, check.unit)}"
        case Absent():
            return "none"


def _stretch(seen: Friday, name: str) -> Stretch | None:
    span = seen.span(name)  # type: ignore[arg-type]  # the four names
    if span is None:
        return None
    places = seen.places(name)  # type: ignore[arg-type]  # the four names
    results = [seen.missions.result[at] for at in places]
    held = seen.in_flight(name)  # type: ignore[arg-type]  # the four names
    return Stretch(
        name=name,
        from_s=span[0],
        to_s=span[1],
        missions=len(places),
        ok=results.count(OK),
        failed=results.count(FAILED),
        cut=len(results) - results.count(OK) - results.count(FAILED),
        p50=seen.latency(places, 0.50),
        p95=seen.latency(places, 0.95),
        in_flight=None if held is None else held.mean,
    )


def _dots(seen: Friday) -> list[MissionDot]:
    missions = seen.missions
    found = []
    for at, due_s in enumerate(missions.due_s):
        end_s = missions.end_s[at]
        over_s = end_s if end_s == end_s else seen.end_s
        result = _RESULTS[missions.result[at]]
        took_s = None if result in ("failed", "unsent") else max(0.001, over_s - due_s - missions.thought_s[at])
        found.append(MissionDot(due_s, took_s, result))
    return found


def _held(seen: Friday, begin_s: float, end_s: float) -> tuple[float, ...]:
    """By the missions' own spans: each second's mean."""
    seconds = max(1, min(86_400, round(end_s - begin_s)))
    change = [0.0] * (seconds + 2)
    partly = [0.0] * (seconds + 2)
    missions = seen.missions
    for at, sent_s in enumerate(missions.sent_s):
        if sent_s != sent_s:
            continue
        over_s = missions.end_s[at] if missions.end_s[at] == missions.end_s[at] else seen.end_s
        from_s, to_s = max(0.0, sent_s - begin_s), min(float(seconds), over_s - begin_s)
        if to_s <= from_s:
            continue
        first, last = int(from_s), int(to_s)
        if first == last:
            partly[first] += to_s - from_s
            continue
        partly[first] += first + 1 - from_s
        partly[last] += to_s - last
        change[first + 1] += 1
        change[last] -= 1
    found, now = [], 0.0
    for at in range(seconds):
        now += change[at]
        found.append(now + partly[at])
    return tuple(found)


def _aim(share: float | None, first: int | None, every: int | None) -> str:
    if first is not None:
        return f"the first {first} of each mission"
    if every is not None:
        return f"each {every}."
    return "every call" if share is None else f"{share:.0%} of the calls"
