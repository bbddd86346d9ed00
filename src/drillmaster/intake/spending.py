"""What became of calls under a quota, by partner: granted, denied and why, and what the partner denied in spite of a grant.

1. It is read from `guard_decision` lines of the guard `quota` and from `partner_limited`, in a log of workers or in a run folder.
   Of a run what the proxy saw is told besides: each 429 on the wire, by dialect, since a wire knows no partner.
2. An allowed decision that says `sampled` stands for more of its kind; the sum is an estimate then, and is marked so.
3. A reason that is none of the closed set is counted and not repeated. A line that may be one of these and cannot be read is
   counted.
"""

from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import msgspec

from drillmaster.errors import Problem, one_line
from drillmaster.evidence import Defect, Row, rows
from drillmaster.guards.quota import REASONS
from drillmaster.intake.run import open_run
from drillmaster.timeline.opening import chunks

__all__ = ["Partner", "Spent", "spent_in"]

_EVENTS = ("guard_decision", "partner_limited")
_OTHER = "a reason of nobody's"
_UNNAMED = "(not named)"


class Partner(msgspec.Struct, kw_only=True):
    """What was decided about one partner."""

    partner: str
    granted: int = 0
    estimated: bool = False
    denied: Counter[str] = msgspec.field(default_factory=Counter)
    """By reason, with the limit where one is told: `over-cap of requests`."""
    limited: int = 0
    """429s of the partner's own, in spite of a grant."""

    @property
    def denials(self) -> int:
        return self.denied.total()


class Spent(msgspec.Struct, kw_only=True):
    """All of it."""

    partners: list[Partner]
    wire: dict[str, int]
    """429s on the wire of a run, by dialect."""
    unusable: int
    lines: int


def spent_in(paths: Iterable[Path], *, from_ns: int, to_ns: int) -> Spent:
    """Read logs and run folders; what lies in (from_ns, to_ns] of wall time is counted. Raises Problem."""
    found: dict[str, Partner] = {}
    wire: Counter[str] = Counter()
    unusable = lines = 0
    for path in paths:
        files = [path]
        if path.is_dir():
            files = sorted(
                one for one in (path / "timeline.jsonl", *(path / "events").glob("*.jsonl")) if one.is_file()
            )
            if not files:
                raise Problem(
                    str(path), found="no timeline", wanted="a run folder, or a log", remedy="name the run's folder"
                )
            wire += _on_the_wire(path, from_ns, to_ns)
        for file in files:
            for row in rows(chunks(file), file=one_line(file.name)):
                lines += 1
                if isinstance(row, Defect):
                    unusable += row.event in ("", *_EVENTS)
                elif row.event in _EVENTS and from_ns < row.wall_ns <= to_ns:
                    unusable += not _counted(row, found)
    partners = sorted(found.values(), key=lambda one: (-one.limited - one.denials, one.partner))
    return Spent(partners=partners, wire=dict(wire), unusable=unusable, lines=lines)


def _counted(row: Row, found: dict[str, Partner]) -> bool:
    said = row.fields
    if row.event == "guard_decision" and said.get("guard") != "quota":
        return isinstance(said.get("guard"), str)
    name = said.get("partner", _UNNAMED)
    if not isinstance(name, str):
        return False
    one = found.setdefault(name, Partner(partner=one_line(name)[:200]))
    if row.event == "partner_limited":
        one.limited += 1
        return True
    allowed, reason, limit, share = (said.get(key) for key in ("allowed", "reason", "limit", "sampled"))
    if not isinstance(allowed, bool):
        return False
    if allowed:
        usable = isinstance(share, int | float) and not isinstance(share, bool) and 0 < share <= 1
        one.granted += round(1 / share) if usable else 1  # type: ignore[operator]  # looked at just now
        one.estimated = one.estimated or (usable and share != 1)
        return True
    why = reason if isinstance(reason, str) and reason in (*REASONS, "unlisted-guard") else _OTHER
    one.denied[f"{why} of {one_line(limit)[:40]}" if isinstance(limit, str) and limit else why] += 1
    return True


def _on_the_wire(path: Path, from_ns: int, to_ns: int) -> Counter[str]:
    run = open_run(path)
    return Counter(
        one.dialect or "unknown"
        for one in run.attempts
        if one.status == 429 and from_ns < run.started_wall_ns + one.start_ns <= to_ns
    )
