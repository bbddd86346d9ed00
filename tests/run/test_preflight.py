"""The lines of the pre-flight that need no socket."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from drillmaster.clock import ManualClock, parse_rfc3339
from drillmaster.errors import Refused
from drillmaster.plan import Plan
from drillmaster.run.preflight import (
    ATTESTED,
    Ground,
    Line,
    attested,
    ground,
    standing,
)
from tests.test_sanity import plan

NOW_NS = parse_rfc3339("2026-11-29T15:00:00Z") or 0
FINE = Ground(free_bytes=10**10, descriptors=1024, wall_ns=NOW_NS, drift_s=0.0)


def stand(this: Plan, tmp_path: Path, **here: Any) -> dict[str, str]:
    timeline = tmp_path / "timeline.jsonl"
    timeline.touch()
    found = standing(this, msgspec.structs.replace(FINE, **here), place="plan.yaml", timeline=timeline)
    return {
        (line.place if isinstance(line, Refused) else line.check): "refused"
        if isinstance(line, Refused)
        else line.status
        for line in found
    }


def test_firm_ground_passes_every_line(tmp_path: Path) -> None:
    assert stand(plan(), tmp_path) == {
        "disk_space": "pass", "descriptors": "pass", "clock": "pass", "timeline_writable": "pass",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("here", "line"),
    [
        ({"free_bytes": 99 * 10**6}, "disk_space"),
        ({"descriptors": 46}, "descriptors"),  # 40 of our own, and 30 s of patience at one in 5 s
        ({"wall_ns": 0}, "clock"),
        ({"wall_ns": 2**63 - 1}, "clock"),
        ({"drift_s": 0.6}, "clock"),
        ({"drift_s": -0.6}, "clock"),
    ],
)
def test_ground_that_gives_way_is_refused(here: dict[str, Any], line: str, tmp_path: Path) -> None:
    assert stand(plan(), tmp_path, **here)[line] == "refused"


def test_a_drill_that_would_leave_its_window_is_refused_before_it_starts(tmp_path: Path) -> None:
    inside = plan(window={"start": "2026-11-29T15:00:00Z", "end": "2026-11-29T16:00:00Z"})
    assert stand(inside, tmp_path)["window"] == "pass"
    outside = plan(window={"start": "2026-11-29T15:00:00Z", "end": "2026-11-29T15:20:00Z"})
    assert stand(outside, tmp_path)["plan.yaml: /window"] == "refused"


def say(at: str | None) -> list[Line | Refused]:
    lines = {} if at is None else {key: {"by": "Ada", "at": at} for key in ATTESTED}
    return attested(plan(preflight=lines), place="plan.yaml", wall_ns=NOW_NS)


def test_what_people_attest_is_on_record_by_name_and_time() -> None:
    found = say("2026-11-29T14:00:00Z")
    assert [(line.check, line.status, line.by, line.at) for line in found if isinstance(line, Line)] == [
        (check, "attested", "Ada", "2026-11-29T14:00:00Z") for check in ATTESTED
    ]


@pytest.mark.parametrize("at", [None, "2026-10-01T00:00:00Z", "2026-11-30T00:00:00Z"])
def test_what_nobody_attests_or_not_lately_is_refused_with_the_line_to_write(at: str | None) -> None:
    found = say(at)
    assert len(found) == 3 and all(isinstance(line, Refused) for line in found)
    if at is None:
        assert all("2026-11-29T15:00:00Z" in str(line) for line in found)


def test_the_ground_knows_how_far_the_clock_moved(tmp_path: Path) -> None:
    clock = ManualClock()
    wall0_ns, mono0_ns = clock.wall_ns(), clock.mono_ns()
    clock.advance(3)
    clock.step_wall(-2)
    here = ground(tmp_path, clock, wall0_ns=wall0_ns, mono0_ns=mono0_ns, descriptors=10)
    assert here.drift_s == pytest.approx(-2)
