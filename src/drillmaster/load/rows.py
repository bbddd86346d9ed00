"""Rows as the article's script writes them, and its file."""

import msgspec

from drillmaster.load.tally import StepTally

__all__ = ["Row", "file_text", "row_of", "row_text"]


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """One row, in the article's names."""

    label: str
    n: int
    p50_s: float
    p95_s: float
    max_s: float
    error_rate: float


def row_of(label: str, tally: StepTally) -> Row | None:
    """The row of one step; None where no call was made."""
    figures = tally.figures()
    return None if figures is None else Row(label=label, n=tally.n, **figures)


def row_text(row: Row, tally: StepTally) -> str:
    """The row for a person: the kinds of failure are named."""
    text = f"{row.label:<9} n {row.n:<5} p50 {_s(row.p50_s)}  p95 {_s(row.p95_s)}  max {_s(row.max_s)}  errors {row.error_rate:.3g}"
    kinds = ", ".join(f"{count} {kind}" for kind, count in tally.failed.most_common())
    if tally.cut_s():
        kinds += "; a call that was cut counts as at least so long"
    return text + (f"  ({kinds})" if kinds else "")


def file_text(rows: list[Row], **said: object) -> str:
    """The file of `--out`: `url`, `levels`, `results` as the article has them, and beside them what ours adds."""
    kept = [row for row in rows if row.label == "cold" or row.label.startswith("warm_c")]
    data = {**said, "results": [msgspec.structs.asdict(row) for row in kept]}
    return msgspec.json.format(msgspec.json.encode(data), indent=2).decode() + "\n"


def _s(seconds: float) -> str:
    return f"{seconds:.3f} s" if seconds >= 0.1 else f"{seconds * 1e3:.3g} ms"
