"""Rows as the article's script writes them, and its file."""

from collections.abc import Sequence
from typing import Any

import msgspec

from drillmaster.load.tally import StepTally
from drillmaster.spans import span_text, unit_of
from drillmaster.stats import quantile
from drillmaster.verdict import Exact

__all__ = ["Row", "file_text", "row_of", "row_said", "row_text"]


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """One row, in the article's names."""

    label: str
    n: int
    p50_s: float
    p95_s: float
    max_s: float
    error_rate: float
    requests: int | None = None
    """How many were sent; this and the next two where calls waited because the endpoint asked them to, else None."""
    waits: int | None = None
    """Calls that waited."""
    waited_s: float | None = None
    """All of them together; it is in their latencies."""
    made_again: int | None = None
    """Calls made once more on a new connection, since the kept one turned out to have been closed. None: there were none."""
    unsent_turns: int | None = None
    """Turns that were never sent, since their session had failed; among the errors. None: there were none."""
    first_turns_p50_s: float | None = None
    """This and the next: None where the calls were no sessions."""
    later_turns_p50_s: float | None = None


def row_of(label: str, tally: StepTally) -> Row | None:
    """The row of one step; None where no call was made."""
    figures = tally.figures()
    if figures is None:
        return None
    said: dict[str, Any] = {**figures}
    if tally.waits:
        said |= {"requests": tally.requests, "waits": tally.waits, "waited_s": round(tally.waited_s, 6)}
    if tally.made_again:
        said["made_again"] = tally.made_again
    if tally.unsent_turns:
        said["unsent_turns"] = tally.unsent_turns
    by_turn = tally.ok_by_turn_s()
    if by_turn is not None:
        said |= {f"{name}_turns_p50_s": _median(taken) for name, taken in zip(("first", "later"), by_turn, strict=True)}
    return Row(label=label, n=tally.n, **said)


def row_said(row: Row) -> dict[str, Any]:
    """The row as it is written: what there is nothing to say of is left out."""
    return {name: value for name, value in msgspec.structs.asdict(row).items() if value is not None}


def row_text(row: Row, tally: StepTally) -> str:
    """The row for a person: the kinds of failure are named. Where no call was answered it has no latency."""
    unit = unit_of([row.p50_s, row.p95_s, row.max_s, row.first_turns_p50_s, row.later_turns_p50_s])
    spans = "  ".join(
        f"{name} {unit.text(one)}" for name, one in (("p50", row.p50_s), ("p95", row.p95_s), ("max", row.max_s))
    )
    answered = bool(tally.ok_s() or tally.cut_s())
    text = f"{row.label:<9} n {row.n:<5} {spans if answered else 'no answer'}  errors {row.error_rate:.3g}"
    kinds = ", ".join(f"{count} {kind}" for kind, count in tally.failed.most_common())
    if tally.cut_s():
        kinds += "; a call that was cut counts as at least so long"
    text += f"  ({kinds})" if kinds else ""
    if row.waits:
        who = "1 call waited" if row.waits == 1 else f"{row.waits} calls waited"
        text += f"  {who} {span_text(row.waited_s or 0.0)} because the endpoint asked for it, {row.requests} requests"
    if row.made_again:
        text += f"  {row.made_again} call{'s' * (row.made_again > 1)} made again on a kept connection that was closed"
    if row.first_turns_p50_s is not None and row.later_turns_p50_s is not None:
        text += f"  first turns p50 {unit.text(row.first_turns_p50_s)}, later ones {unit.text(row.later_turns_p50_s)}"
    return text


def file_text(rows: list[Row], **said: object) -> str:
    """The file of `--out`: `url`, `levels`, `results` as the article has them, and beside them what ours adds."""
    kept = [row for row in rows if row.label == "cold" or row.label.startswith("warm_c")]
    data = {**said, "results": [row_said(row) for row in kept]}
    return msgspec.json.format(msgspec.json.encode(data), indent=2).decode() + "\n"


def _median(taken_s: Sequence[float]) -> float | None:
    measure = quantile(taken_s, 0.5) if taken_s else None
    return round(measure.value, 6) if isinstance(measure, Exact) else None
