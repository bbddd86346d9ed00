"""What can be said of a matrix before a drill: rows that its flags, its load or its time cannot answer."""

from collections.abc import Iterator, Mapping, Sequence

import msgspec

from drillmaster.fridays import FlagOn
from drillmaster.gates._matrix_probes import HELD
from drillmaster.gates._matrix_probes import impossible as by_flags
from drillmaster.gates._matrix_rows import ChaosProbe, KillProbe, LoadProbe, Row
from drillmaster.interviews import QUANTILES
from drillmaster.slo.files import DrillMatrix
from drillmaster.stats import samples_for_bound

__all__ = ["Planned", "impossible", "too_short"]


class Planned(msgspec.Struct, frozen=True, kw_only=True):
    """What the plan says of a drill. None, everywhere: it does not say."""

    flags: Sequence[FlagOn] = ()
    in_flight: int | None = None
    ramped: float = 0.0
    """Mission-seconds that are missing of `in_flight` while the first missions are begun."""
    seconds: Mapping[str, float] = {}
    """How long each window is."""
    missions: Mapping[str, float] = {}
    """How many are expected in each window: `all`, `baseline`, `chaos`, `recovery`."""
    websocket: bool | None = None
    attempts: int | None = None
    """How often a tool call is tried at most."""
    listen_s: float | None = None
    """How long alerts are listened for after an injection."""
    kills: Sequence[str] = ()
    time_limit_s: float | None = None
    """When a mission is cut."""
    transcripts: bool | None = None


def impossible(matrix: DrillMatrix, planned: Planned) -> list[tuple[str, str]]:
    """List rows that the planned drill cannot answer with a pass, as (id, why); nothing where all can be."""
    return [(row.id, why) for row in matrix.rows for why in (*_by_chaos(row, planned), *_by_load(row, planned))]


def too_short(matrix: DrillMatrix, planned: Planned) -> list[tuple[str, str]]:
    """List rows that the planned drill cannot see broken, as (id, why): what is late or never comes is refused, not failed."""
    found = []
    listened, limit_s = planned.listen_s, planned.time_limit_s
    for row in matrix.rows:
        if row.alert is not msgspec.UNSET and listened is not None and listened < row.asks.limit:
            found.append((row.id, f"alerts are listened for {listened:g} s, less than {row.objective}"))
        if row.measure == "mission_latency" and limit_s is not None and limit_s <= row.asks.limit:
            found.append((row.id, f"missions are cut at {limit_s:g} s, before they could break {row.objective}"))
    return found


def _by_chaos(row: Row, planned: Planned) -> Iterator[str]:
    flags = planned.flags
    if isinstance(row.probe, ChaosProbe):
        named = row.probe.flags
        flags = [one for one in flags if one.flag in named]
        on = {one.flag for one in flags}
        yield from (f"{flag} is not among the plan's flags" for flag in named if flag not in on)
    why = by_flags(row, flags, planned.attempts)
    if why:
        yield why
    if isinstance(row.probe, KillProbe) and row.probe.capability not in planned.kills:
        yield f"{row.probe.capability} is not killed in the plan"


def _by_load(row: Row, planned: Planned) -> Iterator[str]:
    objective = row.asks
    if isinstance(row.probe, LoadProbe | ChaosProbe) and row.probe.in_flight is not msgspec.UNSET:
        wanted, held = row.probe.in_flight, planned.in_flight
        if held is not None and held < wanted:
            yield f"the plan holds {held} in flight, and the row asks for {wanted}"
        elif held is not None and row.window in ("all", "baseline") and row.window in planned.seconds:
            mean = held - planned.ramped / planned.seconds[row.window]
            if mean < HELD * wanted:
                yield (
                    f"with its ramp {max(mean, 0.0):.0f} are in flight on average over {row.window}, and it takes "
                    f"{HELD:.0%} of {wanted}: shorten ramp_s, or compress less"
                )
    if row.entry == "websocket" and planned.websocket is False:
        yield "no mission of the plan goes by WebSocket"
    least = objective.least_n
    if objective.quantile and QUANTILES[objective.quantile] < 1:
        least = samples_for_bound(QUANTILES[objective.quantile])
    expected = planned.missions.get(row.window)
    counts = row.alert is msgspec.UNSET and row.measure != "kill_switch"
    if expected is not None and counts and expected < least:
        yield f"{expected:,.0f} missions are expected in {row.window}, and it takes {least:,}"
    if row.measure == "replay_availability" and planned.transcripts is False:
        yield "no transcripts are recorded"
