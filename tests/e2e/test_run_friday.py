"""`drillmaster run friday` whole: load and chaos in one run, judged; the same numbers counted again from the agent's own lines."""

import json
import math
from collections import defaultdict
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from drillmaster.standins.concierge import CONCIERGE_BUGS
from tests.e2e.fridaylab import SECRET, Friday

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(240)]


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[Any]:
    made: list[Friday] = []

    def make(**over: Any) -> Friday:
        made.append(Friday(tmp_path, **over))
        return made[-1]

    yield make
    for one in made:
        one.clear()


def wall_s(row: dict[str, Any]) -> float:
    return datetime.fromisoformat(row["t"]).timestamp()


def test_200_missions_at_once_meet_the_flag_and_every_row_is_right_by_an_independent_count(lab: Any) -> None:
    friday = lab(concurrent=200, model_ms=1300, phases=(8, 10, 8), kill="{capability: refund, for_s: 4}")
    code, out, err = friday.run("--rehearsal")
    assert code == 0, out + err
    assert friday.gone_within(3) == []
    verdict = json.loads((friday.path / "verdict.json").read_text())
    rows = {check["id"]: check for check in verdict["checks"] if check["id"].startswith("row.")}
    assert {check["status"] for check in rows.values()} == {"pass"}
    ended = [row for row in friday.lines("events/missions.jsonl") if row["event"] == "mission_ended"]
    flags = friday.lines("events/flags.jsonl")
    injected_ns = next(row["ns"] for row in flags if row["event"] == "fault_injected")
    lifted_ns = next(row["ns"] for row in flags if row["event"] == "fault_lifted")

    # p95, from when missions were due, by nearest rank
    took = sorted((row["end_ns"] - row["due_ns"] - row.get("thought_ns", 0)) / 1e9 for row in ended)
    p95_s = took[math.ceil(0.95 * len(took)) - 1]
    assert rows["row.mission-latency"]["observed"]["value"] == pytest.approx(p95_s, abs=1e-6)

    # chaos and load overlap: missions that were in flight when the flag went on, and all the time after
    inside = [row for row in ended if injected_ns <= row["due_ns"] < lifted_ns]
    assert sum(row["due_ns"] < injected_ns < row["end_ns"] for row in ended) > 150
    for at in range(1, 10):
        moment = injected_ns + (lifted_ns - injected_ns) * at // 10
        assert sum(row["due_ns"] <= moment < row["end_ns"] for row in ended) > 180

    # tool success by mission, from the agent's own lines
    finished: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for row in friday.lines("timeline.jsonl"):
        if row["event"] == "tool_finished":
            finished[row["mission"]].append(row)
    missions = {row["mission"] for row in inside}
    called = [finished[mission] for mission in missions if finished[mission]]
    well = sum(all(row["ok"] for row in calls) for calls in called)
    assert rows["row.tool-success"]["observed"]["value"] == pytest.approx(well / len(called))
    assert len(called) > 299
    assert sum(calls[0]["attempts"] > 1 for calls in called) > 0.8 * len(called)

    # detector: from the injection to the first receipt of that rule, by what the listener got over the wire
    first = min(
        row["ns"] for row in friday.lines("events/detectors.jsonl")
        if row["event"] == "alert_received" and row["rule"] == "ToolFailures" and row["ns"] >= injected_ns
    )  # fmt: skip
    assert rows["row.detector-time"]["observed"]["value"] == pytest.approx((first - injected_ns) / 1e9, abs=1e-6)

    # transcripts: one whole one for each mission, by the agent's own files
    said = defaultdict(list)
    for path in (friday.path / "transcripts").glob("*.ndjson"):
        for line in path.read_text().splitlines():
            row = json.loads(line)
            said[row["mission"]].append(row)
    whole = sum(
        said[row["mission"]][-1]["kind"] == "ended" and said[row["mission"]][-1]["lines"] == len(said[row["mission"]])
        for row in ended
    )
    assert whole == len(ended) == rows["row.replay"]["observed"]["n"]

    # the kill: the last call that began before it and ended after
    killed_s = next(wall_s(row) for row in flags if row["event"] == "flag_switched" and row["state"] == "killed")
    restored_s = next(wall_s(row) for row in flags if row["event"] == "flag_switched" and row["state"] == "restored")
    calls = [row for row in friday.lines("timeline.jsonl") if row["event"] == "tool_attempted"]
    ran = [wall_s(row) for row in calls if killed_s < wall_s(row) < restored_s and row["result"] != "killed"]
    drained_s = max(row["seconds"] for row in flags if row["event"] == "kill_drained")
    took_s = rows["row.kill-switch"]["observed"]["value"]
    assert (
        max(ran, default=killed_s) - killed_s - 0.02 <= took_s <= max(drained_s, max(ran, default=0) - killed_s) + 0.02
    )

    # no secret, and pages for people
    assert not [p for p in friday.path.rglob("*") if p.is_file() and SECRET.encode() in p.read_bytes()]
    assert (friday.path / "card.md").read_text().count("PASS") >= 6
    page = (friday.path / "report.html").read_text()
    assert len(page.encode()) < 200_000
    assert "toolTimeout" in page
    assert "<svg" in page


BROKEN = {
    "no-retry": {"tool-success"},
    "no-alert": {"detector-time"},
    "low-severity": {"detector-time"},
    "lost-transcripts": {"replay"},
    "deaf-worker": {"kill-switch"},
}


@pytest.mark.parametrize("bug", CONCIERGE_BUGS)
def test_a_mistake_breaks_the_row_that_looks_for_it_and_no_other(lab: Any, bug: str) -> None:
    friday = lab(concurrent=60, model_ms=250, phases=(6, 12, 6), kill="{capability: refund, for_s: 4}", bug=bug)
    code, out, err = friday.run("--rehearsal")
    assert code == 1, out + err
    verdict = json.loads((friday.path / "verdict.json").read_text())
    failed = {c["id"].removeprefix("row.") for c in verdict["checks"] if c["status"] != "pass"}
    assert failed == BROKEN[bug]
    assert friday.gone_within(3) == []


def test_the_phases_are_compressed_and_limits_stay(lab: Any) -> None:
    friday = lab(phases=(60, 60, 60))
    code, out, err = friday.run("--rehearsal", "--compress", "12x", "--json")
    assert code in (0, 1, 2), out + err
    manifest = json.loads((friday.path / "manifest.json").read_text())
    assert manifest["phases"] == {"baseline_s": 5, "fault_s": 5, "recovery_s": 5}
    assert "COMPRESSED 12x" in manifest["stamps"]
    assert manifest["plan"]["missions"]["time_limit_s"] == 5


@pytest.mark.parametrize("environ", [{}, {"DRILL_RUN": "20261127T160000Z-0001"}], ids=["untold", "last week's"])
def test_an_agent_that_ran_before_the_drill_leaves_transcripts_of_this_run(lab: Any, environ: dict[str, str]) -> None:
    friday = lab()
    with friday.staging(**environ):
        _, out, err = friday.run("--rehearsal")
    verdict = json.loads((friday.path / "verdict.json").read_text())
    (replay,) = [check for check in verdict["checks"] if check["id"] == "row.replay"]
    assert (replay["status"], replay["observed"]["value"]) == ("pass", 1.0), out + err


def test_a_second_drill_of_one_target_is_refused_while_the_first_goes_on(lab: Any) -> None:
    friday = lab()
    first = friday.start("--yes")
    friday.wait_for("events/conductor.jsonl", "phase_started", phase="baseline")
    code, said = friday.verb("run", "friday", "friday-plan.yaml", "--yes", "--runs", "others")
    assert code == 2
    assert "drillmaster stop" in said or "live" in said
    first.communicate(timeout=60)


def test_what_cannot_work_is_refused_before_anything_is_switched(lab: Any) -> None:
    friday = lab()
    text = friday.plan.read_text()
    for old, new, word in (
        ("flag: toolTimeout", "flag: tooltimeout", "toolTimeout"),
        (f'127.0.0.1:{friday.agent}"', '192.0.2.1:80"', "permit"),
        ("service: escalation-concierge", "service: other", "escalation-concierge"),
        ("secret_env: ALERT_SECRET", "secret_env: NOBODY_SET_THIS", "NOBODY_SET_THIS"),
        ("file: missions.yaml", "file: nowhere.yaml", "nowhere.yaml"),
        ("kill: null", "kill: {capability: refunds}", "refund"),
    ):
        assert old in text
        friday.plan.write_text(text.replace(old, new, 1))
        code, out, err = friday.run("--rehearsal")
        assert (code, out) == (2, ""), (new, out, err)
        assert word in err, (new, err)
        assert not (friday.folder / "runs").exists()


@pytest.mark.parametrize(
    ("cmd", "check"),
    [
        # an agent that is none
        ("[\"{python}\", -c, \"import time; time.sleep(60)\"]", "agent_answers"),
        # one that ends
        ("[\"{python}\", -c, \"raise SystemExit('no database')\"]", "agent_answers"),
    ],
    ids=["deaf", "dead"],
)  # fmt: skip
def test_an_agent_that_answers_no_mission_is_refused_with_what_it_said(lab: Any, cmd: str, check: str) -> None:
    import sys

    friday = lab()
    text = friday.plan.read_text()
    line = next(one for one in text.splitlines() if one.startswith("  cmd:"))
    friday.plan.write_text(text.replace(line, f"  cmd: {cmd.format(python=sys.executable)}\n  ready_s: 3"))
    code, _, err = friday.run("--rehearsal")
    assert code == 2, err
    assert check in err
    assert "fault_injected" not in "".join(p.read_text() for p in (friday.folder / "runs").rglob("flags.jsonl"))
    assert friday.gone_within(3) == []
