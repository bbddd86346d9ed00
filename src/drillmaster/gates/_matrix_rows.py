"""One row of a drill matrix: what is measured, by which probe, in which window, against which objective.

1. An objective is written as people say it, `p95 < 2.5 s`, `< 60 s`, `>= 99 %`. `<` is not `<=`: a p95 of exactly 2.5 s fails.
2. A measure has one direction, one kind of unit and its own probes. A row that says otherwise is refused where it is read.
3. A target of 100 % is a census. Another share needs as many as could show it: 299 for 99 %, at 95 % confidence.
"""

import math
import re
from decimal import Decimal
from typing import Annotated, Any, Literal, get_args

import msgspec

from drillmaster.rules.alerts import Wanted
from drillmaster.stats import calls_for_rate
from drillmaster.verdict import AtLeast, AtMost, Exact, Measure, Status

__all__ = [
    "MEASURES",
    "ChaosProbe",
    "Comparison",
    "KillProbe",
    "LoadProbe",
    "MeasureName",
    "Objective",
    "Probe",
    "Row",
    "RowWindow",
    "TranscriptsProbe",
    "compare",
    "objective_of",
]

Comparison = Literal["<", "<=", ">", ">="]
MeasureName = Literal[
    "mission_latency",
    "mission_success",
    "detector_delay",
    "pager_ack",
    "tool_success",
    "replay_availability",
    "kill_switch",
]
MEASURES: tuple[MeasureName, ...] = get_args(MeasureName)
RowWindow = Literal["all", "baseline", "chaos", "recovery"]
_QUANTILES = ("p50", "p75", "p90", "p95", "p99", "p99.9", "max")
_WRITTEN = re.compile(r"(?:(?P<q>[a-z][a-z0-9.]*) )?(?P<op><=|>=|<|>) (?P<value>[0-9]+(?:\.[0-9]+)?) (?P<unit>s|ms|%)")
_LABEL = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?")
_SHARES = ("mission_success", "tool_success", "replay_availability")
_ALERTS = ("detector_delay", "pager_ack")
_OF_MISSIONS = ("mission_latency", "mission_success")
_LONGEST_S = 86_400.0
_Word = Annotated[str, msgspec.Meta(min_length=1, max_length=200)]
_InFlight = Annotated[int, msgspec.Meta(ge=1, le=100_000)]


class Objective(msgspec.Struct, frozen=True, kw_only=True):
    """An objective, taken apart. `limit` is in seconds, or a share from 0 to 1."""

    text: str
    """As it is written."""
    op: Comparison
    limit: float
    unit: Literal["s", "ratio"]
    quantile: str = ""

    @property
    def least_n(self) -> int:
        """How many it takes for a share to be shown; 1 for a census and for what is no share."""
        if self.unit != "ratio" or self.limit >= 1:
            return 1
        return calls_for_rate(round(1 - self.limit, 12))


def objective_of(text: str) -> Objective:
    """Take an objective apart. Raises ValueError for what is none."""
    found = _WRITTEN.fullmatch(text)
    if found is None:
        raise ValueError(f"objective: found {text[:60]!r}, wanted one such as 'p95 < 2.5 s', '< 60 s' or '>= 99 %'")
    value, unit, op = float(found["value"]), found["unit"], found["op"]
    if found["q"] and found["q"] not in _QUANTILES:
        raise ValueError(f"objective: found {found['q']!r}, wanted one of {', '.join(_QUANTILES)}")
    # In decimal: 99.9 / 100 in binary is more than 0.999, and 999 of 1,000 would not reach it.
    limit = float(Decimal(found["value"]).scaleb(-2 if unit == "%" else -3 if unit == "ms" else 0))
    if unit == "%":
        if op not in (">", ">="):
            raise ValueError(f"objective: found '{op}' for a share, wanted > or >=")
        if not 0 < limit <= 1 or (op == ">" and limit == 1):
            raise ValueError(
                f"objective: found {op} {value:g} %, wanted over 0 % and at most 100 %, which nothing exceeds"
            )
    else:
        if op not in ("<", "<="):
            raise ValueError(f"objective: found '{op}' for a span of time, wanted < or <=")
        if not 0 < limit <= _LONGEST_S:
            raise ValueError(f"objective: found {value:g} {unit}, wanted more than 0 and at most {_LONGEST_S:g} s")
    return Objective(
        text=text,
        op=op,  # type: ignore[arg-type]  # the pattern knows no other
        limit=limit,
        unit="ratio" if unit == "%" else "s",
        quantile=found["q"] or "",
    )


class LoadProbe(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="kind", tag="load"):
    """Synthetic missions, so many of them in flight over the whole of the row's window."""

    in_flight: _InFlight


class ChaosProbe(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="kind", tag="chaos"):
    """Flags that meet missions while the load goes on."""

    flags: Annotated[tuple[_Word, ...], msgspec.Meta(min_length=1, max_length=32)]
    in_flight: _InFlight | msgspec.UnsetType = msgspec.UNSET


class TranscriptsProbe(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="kind", tag="transcripts"
):
    """The transcript of every mission, and so many of them drawn by the run's seed for people to read."""

    sample: Annotated[int, msgspec.Meta(ge=1, le=1_000)]


class KillProbe(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="kind", tag="kill"):
    """A capability that was killed while missions called it."""

    capability: _Word


Probe = LoadProbe | ChaosProbe | TranscriptsProbe | KillProbe
_PROBES: dict[str, tuple[type[Any], ...]] = {
    "mission_latency": (LoadProbe, ChaosProbe),
    "mission_success": (LoadProbe, ChaosProbe),
    "detector_delay": (ChaosProbe,),
    "pager_ack": (ChaosProbe,),
    "tool_success": (ChaosProbe, LoadProbe),
    "replay_availability": (TranscriptsProbe,),
    "kill_switch": (KillProbe,),
}


class Row(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One row. Raises ValueError for a row that nothing could be held against."""

    id: str
    """A DNS label, so that it is a name in OpenSLO too: `mission-latency`."""
    name: Annotated[str, msgspec.Meta(min_length=1, max_length=63)]
    measure: MeasureName
    objective: str
    """`p95 < 2.5 s`, `< 60 s`, `>= 99 %`."""
    probe: Probe
    window: RowWindow
    """Which missions count, by when they were due: before the chaos, in it, after it, or all."""
    owner: Annotated[str, msgspec.Meta(min_length=1, max_length=200)]
    source: Annotated[str, msgspec.Meta(min_length=1, max_length=300)]
    alert: Wanted | msgspec.UnsetType = msgspec.UNSET
    """Which alert, and of at least which severity; for `detector_delay` and `pager_ack`."""
    entry: Literal["http", "websocket"] | msgspec.UnsetType = msgspec.UNSET
    """Missions of this entry point alone."""
    flow: _Word | msgspec.UnsetType = msgspec.UNSET
    """Missions of this flow alone."""
    tool: _Word | msgspec.UnsetType = msgspec.UNSET
    """Calls of this tool alone, for `tool_success`."""
    block_s: Annotated[float, msgspec.Meta(gt=0, le=3_600)] | msgspec.UnsetType = msgspec.UNSET
    """Bound the latency by blocks of this length too: several times as long as a stall."""

    def __post_init__(self) -> None:
        if _LABEL.fullmatch(self.id) is None:
            raise ValueError(f"id: found {self.id[:70]!r}, wanted lower-case letters, digits and -, at most 63")
        for field in ("name", "owner", "source"):
            text = getattr(self, field)
            if text != text.strip() or not text.isprintable() or "|" in text:
                raise ValueError(f"{field}: found {text[:70]!r}, wanted one line of text without |")
        objective = objective_of(self.objective)
        _must_fit(self, objective)

    @property
    def asks(self) -> Objective:
        return objective_of(self.objective)


def _must_fit(row: Row, objective: Objective) -> None:
    share = row.measure in _SHARES
    if share != (objective.unit == "ratio"):
        raise ValueError(f"objective: found {objective.text!r} for {row.measure}, wanted {'%' if share else 's or ms'}")
    if bool(objective.quantile) != (row.measure == "mission_latency"):
        raise ValueError(
            f"objective: found {objective.text!r} for {row.measure}, wanted "
            + ("a quantile, such as p95 < 2.5 s" if not objective.quantile else "none of a quantile")
        )
    if not isinstance(row.probe, _PROBES[row.measure]):
        known = " or ".join(one.__struct_config__.tag for one in _PROBES[row.measure])
        raise ValueError(f"probe: found another kind for {row.measure}, wanted {known}")
    _must_belong(row, "alert", _ALERTS)
    _must_belong(row, "entry", _OF_MISSIONS, needed=False)
    _must_belong(row, "flow", _OF_MISSIONS, needed=False)
    _must_belong(row, "tool", ("tool_success",), needed=False)
    _must_belong(row, "block_s", ("mission_latency",), needed=False)
    if row.measure in _ALERTS and row.window != "chaos":
        raise ValueError(f"window: found {row.window!r} for {row.measure}, wanted chaos: it counts from the injection")
    if isinstance(row.probe, ChaosProbe) and (
        row.window == "baseline" or (row.measure == "tool_success" and row.window == "recovery")
    ):
        raise ValueError(
            f"window: found {row.window!r} for a row whose probe is chaos, wanted one that its flags are on in"
        )
    if row.measure == "kill_switch" and row.window != "all":
        raise ValueError(f"window: found {row.window!r} for kill_switch, wanted all: it counts from the kill")


def _must_belong(row: Row, field: str, measures: tuple[str, ...], *, needed: bool = True) -> None:
    given = getattr(row, field) is not msgspec.UNSET
    if given and row.measure not in measures:
        raise ValueError(f"{field}: found one for {row.measure}, wanted it for {' or '.join(measures)} alone")
    if needed and not given and row.measure in measures:
        raise ValueError(f"{field}: found nothing for {row.measure}, wanted which alert: rule and least severity")


def compare(observed: Measure, objective: Objective) -> Status:
    """Hold a measure against an objective; strict is strict. Absent, not a number, or not settled by its cut: refused."""
    op, limit = objective.op, objective.limit
    match observed:
        case Exact(value=value) if math.isfinite(value):
            holds = {"<": value < limit, "<=": value <= limit, ">": value > limit, ">=": value >= limit}[op]
            return "pass" if holds else "fail"
        case AtLeast(value=value) if not math.isnan(value):
            if op in ("<", "<="):
                return "fail" if value > limit or (op == "<" and value == limit) else "refused"
            return "pass" if value > limit or (op == ">=" and value == limit) else "refused"
        case AtMost(value=value) if not math.isnan(value):
            if op in ("<", "<="):
                return "pass" if value < limit or (op == "<=" and value == limit) else "refused"
            return "fail" if value < limit or (op == ">" and value == limit) else "refused"
    return "refused"
