"""What became of calls under a quota, of a sealed run: what workers decided, and the 429s that its proxy saw."""

from pathlib import Path

import pytest

from drillmaster import timeline
from drillmaster.clock import ManualClock
from drillmaster.errors import Problem
from drillmaster.intake.spending import spent_in
from tests.scene import WALL0_NS, Scene

S = 10**9


def run(tmp_path: Path, *limited: str) -> Path:
    scene = Scene()
    for row in scene.rows:
        if row.event == "attempt" and row.fields["id"] in limited:
            row.fields["status"] = 429
    for n, allowed in enumerate((True, False)):
        scene.add(
            "timeline.jsonl", (5 + n) * S, "guard_decision", guard="quota", allowed=allowed,
            reason="within-quota" if allowed else "over-burst", partner="maps-api", limit="requests",
        )  # fmt: skip  # one line
    scene.add("timeline.jsonl", 8 * S, "partner_limited", partner="maps-api", status=429, entry="maps")
    path = scene.write(tmp_path / "20261129T153000Z-1a2b")
    timeline.seal_run(path, ManualClock())
    return path


def test_a_run_tells_decisions_by_partner_and_429s_on_the_wire_by_dialect(tmp_path: Path) -> None:
    path = run(tmp_path, "a3.0", "a7.0", "a12.0")
    spent = spent_in([path], from_ns=WALL0_NS, to_ns=WALL0_NS + 200 * S)
    assert spent.wire == {"openai_chat": 3} and spent.unusable == 0
    (one,) = spent.partners
    assert (one.partner, one.granted, dict(one.denied), one.limited) == (
        "maps-api",
        1,
        {"over-burst of requests": 1},
        1,
    )


def test_only_what_lies_in_the_time_that_was_asked_about_counts(tmp_path: Path) -> None:
    path = run(tmp_path, "a3.0", "a12.0")
    spent = spent_in([path], from_ns=WALL0_NS + 6 * S, to_ns=WALL0_NS + 10 * S)
    assert spent.wire == {}
    (one,) = spent.partners
    assert (one.granted, one.denials, one.limited) == (0, 0, 1)


def test_a_folder_that_is_no_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Problem, match="no timeline"):
        spent_in([tmp_path], from_ns=0, to_ns=1)
