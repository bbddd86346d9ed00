"""Whether a row's probe ran, and whether the drill's own flags leave the row a chance."""

from collections.abc import Iterator, Sequence

import msgspec

from drillmaster.fridays import Chaos, FlagOn, Friday
from drillmaster.gates._matrix_rows import ChaosProbe, KillProbe, LoadProbe, Row, TranscriptsProbe
from drillmaster.verdict import Finding

__all__ = ["FAILING", "HELD", "impossible", "impossible_rows", "needs_chaos", "void"]

HELD = 0.95
"""Of what was to be in flight, on average over all of the row's window, the ramp-up in it: the rest is what users take to come, and
to come again."""
FAILING = frozenset({"timeout", "error"})
"""Kinds of flags whose meeting makes an attempt fail."""
_OF_MISSIONS = frozenset({"mission_latency", "mission_success", "tool_success"})
"""Measures that take all missions of a window together."""


def needs_chaos(row: Row) -> bool:
    return isinstance(row.probe, ChaosProbe) or row.window != "all"


def void(row: Row, seen: Friday) -> list[str]:
    """Say why a row's probe did not run; nothing where it did."""
    found = []
    if seen.span(row.window) is None and not isinstance(row.probe, KillProbe | TranscriptsProbe):
        found.append(f"there is no {row.window} window in the evidence")
    elif isinstance(row.probe, LoadProbe | ChaosProbe) and row.probe.in_flight is not msgspec.UNSET:
        held = seen.in_flight(row.window)
        wanted = row.probe.in_flight
        if held is None or held.mean < HELD * wanted:
            mean = 0.0 if held is None else held.mean
            least = f"{HELD:.0%} of {wanted}"
            found.append(
                f"VOID: {mean:.1f} were in flight on average over {row.window}, and at least {least} were to be"
            )
        elif held.most < wanted:
            found.append(f"VOID: never more than {held.most} were in flight at once, and {wanted} were to be")
    if row.window == "chaos" and row.measure in _OF_MISSIONS:
        found += _stretched(row, seen)
    if isinstance(row.probe, ChaosProbe):
        on = {one.flag for chaos in seen.chaos for one in chaos.flags}
        for flag in row.probe.flags:
            if flag not in on:
                found.append(f"{flag} was not turned on")
            elif not sum(n for (_, name), n in seen.met.items() if name == flag):
                found.append(f"{flag} met no call")
            else:
                found += _off_early(flag, seen)
    if isinstance(row.probe, TranscriptsProbe) and seen.census is None:
        found.append("no transcripts were recorded")
    if isinstance(row.probe, KillProbe) and not any(one.capability == row.probe.capability for one in seen.kills):
        found.append(f"{row.probe.capability} was not killed")
    if row.alert is not msgspec.UNSET:
        names = row.alert.receivers
        silent = [name for name in names if name not in seen.ready_s]
        if not seen.ready_s or silent:
            found.append("nobody listened for alerts" if not silent else f"{silent[0]} did not listen")
    return found


def _off_early(flag: str, seen: Friday) -> list[str]:
    """Say of a flag that it was not on for as long as the window that a row is judged on."""
    span_s = on_s = 0.0
    for chaos in seen.chaos:
        if any(one.flag == flag for one in chaos.flags):
            lifted_s = seen.end_s if chaos.lifted_s is None else chaos.lifted_s
            span_s += lifted_s - chaos.injected_s
            on_s += min(lifted_s, chaos.off_s.get(flag, lifted_s)) - chaos.injected_s
    return (
        [f"{flag} was on for {on_s:.3g} s of {span_s:.3g} s: somebody switched it off"] if on_s < HELD * span_s else []
    )


def _stretched(row: Row, seen: Friday) -> list[str]:
    """Say of a chaos window that it holds time without the row's flags: an injection of somebody else's makes it longer."""
    span = seen.span("chaos")
    if span is None:
        return []
    wanted = set(row.probe.flags) if isinstance(row.probe, ChaosProbe) else set()
    on_s, over_s = 0.0, span[0]
    for chaos in sorted(seen.chaos, key=lambda one: one.injected_s):
        lifted_s = span[1] if chaos.lifted_s is None else chaos.lifted_s
        if lifted_s > over_s and wanted <= {one.flag for one in chaos.flags}:
            on_s += lifted_s - max(over_s, chaos.injected_s)
            over_s = lifted_s
    all_s = span[1] - span[0]
    if on_s >= HELD * all_s:
        return []
    what = " and ".join(sorted(wanted)) or "flags"
    return [
        f"VOID: {what} on for {on_s:.3g} s of {all_s:.3g} s of chaos: another injection stretches it, and dilutes the row"
    ]


def impossible(row: Row, on: Sequence[FlagOn], attempts: int | None) -> str:
    """Say why the drill's own flags make a row impossible; "": they do not. `attempts` is how often a call is tried at most."""
    objective = row.asks
    if row.measure != "tool_success" or row.window in ("baseline", "recovery"):
        return ""
    for flag in on:
        if flag.kind and not any(word in flag.kind for word in FAILING):
            continue
        if flag.always:
            return f"{flag.flag} fails every attempt, and no retry can recover: {objective.text} cannot be met"
        if flag.first is not None or flag.every is not None or flag.share is None or not attempts:
            continue
        left = 1 - flag.share**attempts
        if left < objective.limit:
            return (
                f"{flag.flag} fails {flag.share:.0%} of attempts, and {attempts} of them leave {left:.2%}: "
                f"{objective.text} cannot be expected"
            )
    return ""


def impossible_rows(rows: Sequence[Row], seen: Friday) -> Iterator[Finding]:
    """Rows that the flags of the run made impossible (rule 7)."""
    chaos: tuple[Chaos, ...] = seen.chaos
    for row in rows:
        flags = [flag for one in chaos for flag in one.flags]
        if isinstance(row.probe, ChaosProbe):
            flags = [flag for flag in flags if flag.flag in row.probe.flags]
        why = impossible(row, flags, None)  # how often a call may be tried no run says
        if why:
            yield Finding(
                id="impossible-row",
                cause=f"{row.id}: {why}",
                next="have the flag meet a share of the calls, the first of each mission, or every Nth",
                cites=tuple(one.cite for one in chaos if one.cite is not None)[:1],
            )
