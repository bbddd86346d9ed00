"""Every way out of a Friday drill: the flags are off, what was measured is there and named partial, nothing is left behind."""

import contextlib
import json
import os
import signal
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.fridaylab import Friday

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(120)]


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[Any]:
    made: list[Friday] = []

    def make(**over: Any) -> Friday:
        made.append(Friday(tmp_path, **over))
        return made[-1]

    yield make
    for one in made:
        one.clear()


def pid_of(friday: Friday, event: str) -> int:
    return int(friday.wait_for("events/conductor.jsonl", event)["pid"])


def met_after(friday: Friday, ns: int) -> int:
    """Calls that met a flag after that moment of the run, by the agent's own lines."""
    manifest = json.loads((friday.path / "manifest.json").read_text())
    zero_s = datetime.fromisoformat(manifest["started_at"][:26] + "+00:00").timestamp()
    rows = [row for row in friday.lines("timeline.jsonl") if row.get("event") == "tool_attempted"]
    return sum(
        row["result"] == "timeout" and datetime.fromisoformat(row["t"]).timestamp() > zero_s + ns / 1e9 for row in rows
    )


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_in_the_chaos_switches_the_flags_off_and_keeps_what_was_measured(lab: Any, number: int) -> None:
    friday = lab(phases=(3, 30, 3))
    process = friday.start("--yes")
    friday.wait_for("events/flags.jsonl", "flag_met")
    process.send_signal(number)
    out, err = process.communicate(timeout=40)
    assert process.returncode == 3, out + err
    assert out.startswith("STOPPED ")
    assert friday.wait_for("events/flags.jsonl", "fault_lifted")["window"] == "w1"
    assert friday.lines("events/conductor.jsonl")[-1]["status"] == "aborted"
    assert any(row["event"] == "mission_ended" for row in friday.lines("events/missions.jsonl"))
    assert (friday.path / "seal.json").exists()
    assert friday.gone_within(5) == []
    code, said = friday.verb("gate", "matrix", str(friday.path))
    assert code == 2, said
    code, said = friday.verb("verify", str(friday.path))
    assert code == 0, said


def test_a_killed_conductor_leaves_no_flag_on_and_no_load(lab: Any) -> None:
    friday = lab(phases=(3, 60, 3))
    process = friday.start("--yes")
    friday.wait_for("events/flags.jsonl", "flag_met")
    process.kill()
    process.communicate(timeout=10)
    row = friday.wait_for("events/flags.jsonl", "fault_lifted", within_s=15)
    assert row["why"] != "ordered"
    give_up_s = time.monotonic() + 30
    while time.monotonic() < give_up_s and any(
        "drillmaster.missions" in line or "standin concierge" in line for _, line in friday.living()
    ):
        time.sleep(0.2)
    left = [line for _, line in friday.living()]
    assert not [line for line in left if "drillmaster.flags" not in line], left
    assert friday.lines("events/missions.jsonl")
    code, said = friday.verb("seal", str(friday.path))
    assert code == 0, said
    code, said = friday.verb("gate", "matrix", str(friday.path))
    assert code == 2, said
    # What it left holds the port of flags; the next drill takes it over.
    friday.plan.write_text(friday.plan.read_text().replace("fault_s: 60", "fault_s: 3"))
    code, said = friday.verb("run", "friday", "friday-plan.yaml", "--yes", "--runs", "others")
    assert code == 0, said
    assert "took over from run" in said
    assert friday.gone_within(5) == []


@pytest.mark.parametrize(
    ("event", "called"),
    [
        ("flags_started", "the flag server"),
        ("missions_started", "the driver of missions"),
        ("listener_started", "the listener for alerts"),
    ],
)
def test_a_part_that_is_killed_stops_the_drill_and_is_named(lab: Any, event: str, called: str) -> None:
    friday = lab(phases=(3, 30, 3))
    process = friday.start("--yes")
    friday.wait_for("events/flags.jsonl", "flag_met")
    os.kill(pid_of(friday, event), signal.SIGKILL)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 3, out + err
    assert called in out, out
    assert "SIGKILL" in out + err
    # Off by an order, or with the server that held it: the agent's own lines are the witness.
    ended = next(row["ns"] for row in friday.lines("events/conductor.jsonl") if row["event"] == "stop_ordered")
    assert met_after(friday, ended + 4 * 10**9) == 0
    assert friday.lines("events/conductor.jsonl")[-1]["event"] == "drill_ended"
    assert friday.gone_within(5) == []


def test_an_agent_that_dies_in_the_chaos_is_what_the_drill_is_about(lab: Any) -> None:
    friday = lab(phases=(3, 6, 3))
    process = friday.start("--rehearsal")
    friday.wait_for("events/flags.jsonl", "flag_met")
    os.kill(pid_of(friday, "worker_started"), signal.SIGKILL)
    out, err = process.communicate(timeout=60)
    assert process.returncode in (1, 2), out + err
    assert "the worker ended by itself" in err
    assert friday.lines("events/conductor.jsonl")[-1]["status"] == "completed"


def test_a_taken_port_is_refused_with_what_to_do_and_nothing_was_switched(lab: Any) -> None:
    import socket

    friday = lab()
    for place, port in (("/flags/listen", friday.flags), ("alerts", friday.alerts)):
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", port))
            taken.listen()
            code, out, err = friday.run("--rehearsal")
        assert code == 2, (place, out, err)
        assert str(port) in err
    assert friday.gone_within(3) == []


def test_evidence_that_is_taken_away_stops_the_drill(lab: Any) -> None:
    friday = lab(phases=(3, 30, 3))
    process = friday.start("--yes")
    friday.wait_for("events/flags.jsonl", "flag_met")
    (friday.path / "events" / "missions.jsonl").rename(friday.folder / "elsewhere.jsonl")
    out, err = process.communicate(timeout=60)
    assert process.returncode == 3, out + err
    assert "missions.jsonl was taken away" in out
    assert friday.wait_for("events/flags.jsonl", "fault_lifted")


@pytest.mark.skipif(os.getuid() != 0, reason="a file system of one's own needs root")
def test_a_full_disk_switches_the_flags_off_and_keeps_what_was_written(lab: Any) -> None:
    friday = lab(phases=(3, 60, 3))
    friday.plan.write_text(friday.plan.read_text() + "stop: {min_free_mb: 1}\n")
    runs = friday.folder / "runs"
    runs.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64m", "tmpfs", str(runs)], check=False).returncode != 0:
        pytest.skip("mount is not allowed here")
    try:
        process = friday.start("--yes")
        friday.wait_for("events/flags.jsonl", "flag_met")
        filled_s = time.time()
        with contextlib.suppress(OSError), (runs / "large").open("wb", buffering=0) as file:
            while True:
                file.write(b"\0" * 65_536)
        out, err = process.communicate(timeout=60)
        assert process.returncode == 3, out + err
        assert "Traceback" not in err
        assert friday.gone_within(5) == []
        # No call met a flag any more a lease and a look later, whatever could be written of the lift.
        late = [row for row in friday.lines("timeline.jsonl") if row.get("result") == "timeout"]
        assert all(datetime.fromisoformat(row["t"]).timestamp() < filled_s + 12 for row in late)
        assert any(row["event"] == "mission_ended" for row in friday.lines("events/missions.jsonl"))
        (runs / "large").unlink()
        if not (friday.path / "seal.json").exists():
            assert friday.verb("seal", str(friday.path))[0] == 0
        code, said = friday.verb("gate", "matrix", str(friday.path))
        assert code == 2, said
    finally:
        friday.clear()
        subprocess.run(["umount", "-l", str(runs)], check=False)


@pytest.mark.parametrize("outside", [False, True])
def test_flags_are_switched_from_outside_only_where_the_plan_names_a_control_listener(lab: Any, outside: bool) -> None:
    friday = lab(phases=(3, 6, 3))
    if outside:
        friday.plan.write_text(friday.plan.read_text() + "control: {lead: true}\n")
    process = friday.start("--yes")
    friday.wait_for("events/flags.jsonl", "flag_met")
    token = (friday.folder / "state" / friday.path.name / "lead.token").read_text().strip()

    def asked(bearer: str) -> int:
        order = urllib.request.Request(f"http://127.0.0.1:{friday.flags}/enable/toolError", data=b"", method="POST")
        order.add_header("Authorization", f"Bearer {bearer}")
        try:
            with urllib.request.urlopen(order, timeout=5) as answer:
                return int(answer.status)
        except urllib.error.HTTPError as error:
            return error.code

    assert asked("nobodys") >= 400
    assert (asked(token) == 200) is outside
    code, said = friday.verb("stop")
    assert code == 0, said
    out, err = process.communicate(timeout=40)
    assert process.returncode == 3, out + err
    on = [row["flag"] for row in friday.lines("events/flags.jsonl") if row.get("state") == "on"]
    assert ("toolError" in on) is outside
    assert friday.gone_within(5) == []


def test_a_kill_that_people_need_is_not_ended_by_a_drill(lab: Any) -> None:
    friday = lab(kill="{capability: refund, for_s: 2}")
    # A drill whose conductor dies in the rehearsal of the kill leaves it in place, as whoever kills by hand does.
    process = friday.start("--yes")
    friday.wait_for("events/flags.jsonl", "flag_switched", state="killed")
    process.kill()
    process.communicate(timeout=10)
    friday.clear()
    (kills,) = (friday.folder / "state").glob("kills-*.json")
    before = kills.read_bytes()
    code, out = friday.verb("run", "friday", "friday-plan.yaml", "--yes", "--runs", "others")
    assert code == 2, out
    assert "killed: refund by" in out
    assert f"rm {kills}" in out
    assert kills.read_bytes() == before


def test_two_drills_of_one_service_at_two_targets_go_on_side_by_side(lab: Any, tmp_path: Path) -> None:
    one = lab(phases=(2, 4, 2), concurrent=5)
    (tmp_path / "other").mkdir()
    two = Friday(tmp_path / "other", phases=(2, 4, 2), concurrent=5)
    two.env["DRILLMASTER_STATE"] = one.env["DRILLMASTER_STATE"]
    try:
        both = [one.start("--yes"), two.start("--yes")]
        for process in both:
            out, err = process.communicate(timeout=80)
            assert process.returncode == 0, out + err
    finally:
        two.clear()
